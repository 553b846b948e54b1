//! Rows in the form in which SQLite keeps them: the types of all values, and then the values.

/// A row of a table.
#[derive(Debug, Default)]
pub(in crate::sql) struct Record {
    types: Vec<u8>,
    values: Vec<u8>,
    whole: Vec<u8>,
}

/// Appends a number in SQLite's form: seven bits in a byte, the highest first, and eight in the ninth byte.
#[inline]
pub(super) fn put_varint(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
        return;
    }
    let has_nine = value >> 56 != 0;
    let (last, rest) =
        if has_nine { (value as u8, value >> 8) } else { (value as u8 & 0x7f, value >> 7) };
    let before = if has_nine { 8 } else { (64 - rest.leading_zeros()).div_ceil(7) };
    for index in (0..before).rev() {
        out.push((rest >> (7 * index)) as u8 | 0x80);
    }
    out.push(last);
}

/// Returns the type of an integer, and the number of its bytes.
#[inline]
pub(super) fn type_of(value: i64) -> (u8, usize) {
    match value {
        0 => (8, 0),
        1 => (9, 0),
        _ => {
            let bits = 65 - (value ^ value >> 63).leading_zeros();
            match bits {
                0..=8 => (1, 1),
                9..=16 => (2, 2),
                17..=24 => (3, 3),
                25..=32 => (4, 4),
                33..=48 => (5, 6),
                _ => (6, 8),
            }
        }
    }
}

/// Appends the bytes of an integer of this size.
#[inline]
pub(super) fn put_integer(out: &mut Vec<u8>, value: i64, size: usize) {
    out.extend_from_slice(value.to_be_bytes().get(8 - size..).unwrap_or_default());
}

impl Record {
    /// Begins a row.
    #[inline]
    pub(in crate::sql) fn clear(&mut self) {
        self.types.clear();
        self.values.clear();
    }

    #[inline]
    pub(in crate::sql) fn null(&mut self) {
        self.types.push(0);
    }

    #[inline]
    pub(in crate::sql) fn integer(&mut self, value: i64) {
        let (of, size) = type_of(value);
        self.types.push(of);
        put_integer(&mut self.values, value, size);
    }

    #[inline]
    pub(in crate::sql) fn real(&mut self, value: f64) {
        self.types.push(7);
        self.values.extend_from_slice(&value.to_bits().to_be_bytes());
    }

    #[inline]
    pub(in crate::sql) fn text(&mut self, text: &[u8]) {
        put_varint(&mut self.types, text.len() as u64 * 2 + 13);
        self.values.extend_from_slice(text);
    }

    /// Returns the types and the values so far.
    pub(super) fn parts(&self) -> (&[u8], &[u8]) {
        (&self.types, &self.values)
    }

    /// Returns the row.
    #[inline]
    pub(in crate::sql) fn whole(&mut self) -> &[u8] {
        // The size of the types includes itself.
        let size = self.types.len() as u64 + 1;
        self.whole.clear();
        put_varint(&mut self.whole, if size > 0x7f { size + 1 } else { size });
        self.whole.extend_from_slice(&self.types);
        self.whole.extend_from_slice(&self.values);
        &self.whole
    }
}

//! Protocol buffers, read by their numbers only: not with what writes them.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'b> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'b [u8]),
}

impl<'b> Value<'b> {
    pub fn number(self) -> u64 {
        match self {
            Value::Varint(number) => number,
            other => panic!("{other:?} is no number"),
        }
    }

    pub fn bytes(self) -> &'b [u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            other => panic!("{other:?} is no message"),
        }
    }

    pub fn text(self) -> &'b str {
        std::str::from_utf8(self.bytes()).expect("text is UTF-8")
    }
}

/// The fields of a message, by their numbers.
pub struct Fields<'b>(pub &'b [u8]);

impl Fields<'_> {
    fn varint(&mut self) -> u64 {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().expect("a number has an end");
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            value |= bits.checked_shl(shift).filter(|it| it >> shift == bits).expect("64 bits");
            if byte & 0x80 == 0 {
                return value;
            }
        }
        panic!("a number of more than ten bytes");
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = (u64, Value<'b>);

    fn next(&mut self) -> Option<(u64, Value<'b>)> {
        if self.0.is_empty() {
            return None;
        }
        let tag = self.varint();
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()),
            1 => {
                let (bytes, rest) = self.0.split_first_chunk().expect("8 bytes");
                self.0 = rest;
                Value::Fixed64(u64::from_le_bytes(*bytes))
            }
            2 => {
                let length = usize::try_from(self.varint()).expect("a length");
                let (bytes, rest) = self.0.split_at_checked(length).expect("as long as it says");
                self.0 = rest;
                Value::Bytes(bytes)
            }
            wire => panic!("wire type {wire} of field {}", tag >> 3),
        };
        Some((tag >> 3, value))
    }
}

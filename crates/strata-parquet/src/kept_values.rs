//! Values of rows as bytes, while the rows wait to be sorted.

use strata_sql::Cell;

const NULL: u8 = 0;
const INTEGER: u8 = 1;
const SMALL_INTEGER: u8 = 2;
const REAL: u8 = 3;
const TEXT: u8 = 4;
const SHORT_TEXT: u8 = 5;
const BLOB: u8 = 6;

/// Appends a value.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, value: Cell<'_>) {
    let long = |out: &mut Vec<u8>, tag: u8, bytes: &[u8]| {
        // SQLite has no values above 2^31 - 1 bytes.
        let (length, bytes) = match u32::try_from(bytes.len()) {
            Ok(length) => (length, bytes),
            Err(_) => (0, &[][..]),
        };
        out.push(tag);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(bytes);
    };
    match value {
        Cell::Null => out.push(NULL),
        Cell::Integer(value) => match i32::try_from(value) {
            Ok(value) => {
                let [a, b, c, d] = value.to_le_bytes();
                out.extend_from_slice(&[SMALL_INTEGER, a, b, c, d]);
            }
            Err(_) => {
                out.push(INTEGER);
                out.extend_from_slice(&value.to_le_bytes());
            }
        },
        Cell::Real(value) => {
            out.push(REAL);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Cell::Text(text) => match u8::try_from(text.len()) {
            Ok(length) => {
                out.extend_from_slice(&[SHORT_TEXT, length]);
                out.extend_from_slice(text);
            }
            Err(_) => long(out, TEXT, text),
        },
        Cell::Blob(bytes) => long(out, BLOB, bytes),
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

fn part<'b>(bytes: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (part, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(part)
}

fn value<'b>(bytes: &mut &'b [u8]) -> Option<Cell<'b>> {
    let [tag] = take(bytes)?;
    Some(match tag {
        INTEGER => Cell::Integer(i64::from_le_bytes(take(bytes)?)),
        SMALL_INTEGER => Cell::Integer(i32::from_le_bytes(take(bytes)?).into()),
        REAL => Cell::Real(f64::from_le_bytes(take(bytes)?)),
        SHORT_TEXT => {
            let [length] = take(bytes)?;
            Cell::Text(part(bytes, length.into())?)
        }
        TEXT | BLOB => {
            let length = u32::from_le_bytes(take(bytes)?) as usize;
            let part = part(bytes, length)?;
            if tag == TEXT {
                Cell::Text(part)
            } else {
                Cell::Blob(part)
            }
        }
        _ => Cell::Null,
    })
}

/// Takes the next value off the bytes; NULL behind their end.
#[inline]
pub(crate) fn next<'b>(bytes: &mut &'b [u8]) -> Cell<'b> {
    value(bytes).unwrap_or(Cell::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_types_come_back_and_cut_bytes_are_null() {
        let long = vec![b'x'; 300];
        let all = [
            Cell::Null,
            Cell::Integer(0),
            Cell::Integer(-1),
            Cell::Integer(i32::MAX.into()),
            Cell::Integer(1 << 31),
            Cell::Integer(i64::MIN),
            Cell::Real(-0.5),
            Cell::Text(b""),
            Cell::Text(b"read"),
            Cell::Text(&long),
            Cell::Blob(b"\xff\0"),
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|value| put(&mut bytes, *value));
        let mut rest = &*bytes;
        assert!(all.iter().all(|value| next(&mut rest) == *value));
        assert!(rest.is_empty());
        assert_eq!(next(&mut rest), Cell::Null);
        for length in 0..bytes.len() {
            let mut cut = &bytes[..length];
            for _ in &all {
                next(&mut cut);
            }
        }
    }
}

//! The table `.eh_frame`: where functions and their parts begin and end, even in a file without symbols.

use std::collections::HashMap;
use std::ops::Range;

/// The most entries of one table that are read; the table of a browser has some 1 million.
const ENTRIES_MAX: usize = 4 << 20;
/// The most kinds of entries (CIEs) that are read: linkers write some hundreds.
const KINDS_MAX: usize = 64 << 10;
/// The most bytes of an augmentation string, such as `zPLRSB`, which describes the entries of a kind.
const AUGMENTATION_MAX: usize = 16;

/// Code that one entry describes: a function, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The code's addresses.
    pub(crate) range: Range<u64>,
    /// True if the code may have handlers of exceptions, to which no jump leads.
    pub(crate) has_handlers: bool,
}

/// The data that several entries of the unwind tables share (a CIE).
#[derive(Clone, Copy)]
struct Common {
    /// The encoding of addresses, `DW_EH_PE_*`.
    pointer: u8,
    /// The encoding of the address of the table of handlers, if entries have one.
    handlers: Option<u8>,
    /// True if entries have the length of their own data.
    has_length: bool,
}

/// Reads bytes one after the other.
#[derive(Clone, Copy)]
struct Reader<'data> {
    bytes: &'data [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    fn number(&mut self, bytes: usize) -> Option<u64> {
        let end = self.at.checked_add(bytes)?;
        let mut value = [0u8; 8];
        value.get_mut(..bytes)?.copy_from_slice(self.bytes.get(self.at..end)?);
        self.at = end;
        Some(u64::from_le_bytes(value))
    }

    fn leb128(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a number in the encoding `form`; signed ones are sign-extended.
    fn encoded(&mut self, form: u8) -> Option<u64> {
        match form & 0xf {
            0x0 | 0x4 | 0xc => self.number(8),
            0x3 => self.number(4),
            0xb => self.number(4).map(|value| i64::from(value as u32 as i32) as u64),
            0x2 => self.number(2),
            0xa => self.number(2).map(|value| i64::from(value as u16 as i16) as u64),
            _ => None,
        }
    }
}

/// Returns the entries of the table at `address`, sorted. Reading ends at the first entry that is not understood.
pub(crate) fn read(address: u64, bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut commons: HashMap<usize, Option<Common>> = HashMap::new();
    let mut reader = Reader { bytes, at: 0 };
    for _ in 0..ENTRIES_MAX {
        let Some(length) = reader.number(4).filter(|length| (4..0xffff_fff0).contains(length))
        else {
            // The linker may put an end before the last table.
            match bytes.get(reader.at..).filter(|rest| rest.len() >= 8) {
                Some(rest) if rest.iter().take(4).any(|byte| *byte != 0) => continue,
                _ => break,
            }
        };
        let id_at = reader.at;
        let end = id_at.saturating_add(length as usize).min(bytes.len());
        let whole = bytes.get(..end).unwrap_or(bytes);
        let mut entry = Reader { bytes: whole, at: id_at };
        if let Some(back) = entry.number(4).filter(|back| *back > 0) {
            let at = id_at.checked_sub(back as usize);
            let common = at.and_then(|at| match commons.get(&at) {
                Some(known) => *known,
                None if commons.len() == KINDS_MAX => None,
                None => *commons.entry(at).or_insert_with(|| common(bytes, at)),
            });
            frames.extend(common.and_then(|common| frame(address, &mut entry, common)));
        }
        reader.at = end;
    }
    frames.sort_unstable_by_key(|frame| (frame.range.start, frame.range.end));
    frames
}

fn common(bytes: &[u8], at: usize) -> Option<Common> {
    let mut reader = Reader { bytes, at };
    let length = reader.number(4)? as usize;
    let end = reader.at.checked_add(length)?;
    let mut reader = Reader { bytes: bytes.get(..end)?, at: reader.at };
    if reader.number(4)? != 0 {
        return None;
    }
    let version = reader.byte()?;
    let text = bytes.get(reader.at..end)?;
    let end_of_text = text.iter().take(AUGMENTATION_MAX).position(|byte| *byte == 0)?;
    let text = text.get(..end_of_text)?;
    reader.at += text.len() + 1;
    reader.leb128()?;
    reader.leb128()?;
    if version == 1 {
        reader.byte()?;
    } else {
        reader.leb128()?;
    }
    let mut common = Common { pointer: 0, handlers: None, has_length: text.first() == Some(&b'z') };
    if common.has_length {
        reader.leb128()?;
    }
    for letter in text.iter().skip(usize::from(common.has_length)) {
        match letter {
            b'R' => common.pointer = reader.byte()?,
            b'L' => common.handlers = Some(reader.byte()?).filter(|form| *form != 0xff),
            b'P' => {
                let form = reader.byte()?;
                reader.encoded(form)?;
            }
            b'S' | b'B' => {}
            _ => return None,
        }
    }
    Some(common)
}

fn frame(address: u64, entry: &mut Reader<'_>, common: Common) -> Option<Frame> {
    let base = match common.pointer & 0x70 {
        0x00 => 0,
        0x10 => address.wrapping_add(entry.at as u64),
        _ => return None,
    };
    let begin = entry.encoded(common.pointer)?.wrapping_add(base);
    let length = match common.pointer & 0x7 {
        0x3 => entry.number(4)?,
        0x2 => entry.number(2)?,
        _ => entry.number(8)?,
    };
    let end = begin.checked_add(length).filter(|end| *end > begin)?;
    let mut has_handlers = false;
    if common.has_length {
        entry.leb128()?;
        if let Some(form) = common.handlers {
            has_handlers = entry.encoded(form).is_none_or(|handlers| handlers != 0);
        }
    }
    Some(Frame { range: begin..end, has_handlers })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind of entries, of this text, and an entry of it for `begin`, `bytes` long.
    fn table(text: &[u8], begin: i32, bytes: u32) -> Vec<u8> {
        let mut common = vec![0, 0, 0, 0, 1];
        common.extend(text);
        common.extend([0, 1, 0x78, 16, 1, 0x1b]);
        let mut entry = u32::to_le_bytes(common.len() as u32 + 8).to_vec();
        entry.extend(begin.to_le_bytes());
        entry.extend(bytes.to_le_bytes());
        entry.push(0);
        let mut all = Vec::new();
        for part in [common, entry] {
            all.extend((part.len() as u32).to_le_bytes());
            all.extend(part);
        }
        all
    }

    #[test]
    fn read_of_an_entry_has_its_addresses() {
        let bytes = table(b"zR", -0x100, 0x20);
        let at = 0x1000 + bytes.len() as u64 - 9;
        let wanted = Frame { range: at - 0x100..at - 0xe0, has_handlers: false };
        assert_eq!(read(0x1000, &bytes), [wanted]);
        assert_eq!(read(0, &table(b"zR", 0, 0)), []);
    }

    #[test]
    fn malicious_tables_end() {
        assert_eq!(read(0, &table(&[b'z'; 40], -0x100, 0x20)), []);
        // Each entry names a kind at another place, where there is none.
        let number = KINDS_MAX as u32 + 10;
        let entries = (0..number).flat_map(|index| [4, 1 + 7 * index]);
        let bytes: Vec<u8> = entries.flat_map(u32::to_le_bytes).collect();
        assert_eq!(read(0, &bytes), []);
        // Cut anywhere.
        let whole = table(b"zPLR", -0x100, 0x20);
        for end in 0..whole.len() {
            let _ = read(u64::MAX - 4, &whole[..end]);
        }
        let _ = read(u64::MAX, &[0xf0; 4096]);
    }
}

//! The form of `jit-PID.dump`, in which runtimes leave the code that they generate for `perf inject --jit`.
//!
//! ```text
//! header   magic, version, its size, machine, 0, pid, time, flags
//! records  id, size, time, then by id:
//!            0  a piece of code was made: pid, tid, address, address, size, index, its name, a NUL, the code
//!            1  a piece was moved: pid, tid, address, old address, new address, size, index
//!            others: lines of source, how to unwind, the end; their size leads to the next record
//! ```
//!
//! Times are of CLOCK_MONOTONIC, as in the traces, unless a flag says that they are a counter of the processor. All numbers
//! are in the byte order of the machine. The file is a program's, and any number in it may be wrong: what is read of a record
//! is limited, and its size leads forwards only.

/// The first four bytes of a jitdump file, as a number in this machine's byte order.
const MAGIC: u32 = 0x4a69_5444;
/// Number of bytes of the file's header that are read; later versions may have a longer header.
pub(crate) const HEADER_BYTES: usize = 40;
/// The longest header that is accepted \[byte\].
const HEADER_MAX: u32 = 4096;
/// Flag of the header: times are a counter of the processor.
const COUNTER_TIMES: u64 = 1;
/// Size of the fixed part with which each record begins \[byte\].
const RECORD_BYTES: usize = 16;
/// Size of the numbers in a record about new code, or about moved code \[byte\].
const LOAD_BYTES: usize = 40;
const MOVE_BYTES: usize = 48;
/// The most bytes of a piece of code's name that are read.
const NAME_BYTES_MAX: usize = 4096;
/// The most bytes of a record that are read.
pub(crate) const RECORD_BYTES_MAX: usize = RECORD_BYTES + LOAD_BYTES + NAME_BYTES_MAX;

/// The header of a jitdump file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DumpHeader {
    /// Position of the first record \[byte\].
    pub(crate) first: u64,
    /// True if records have times of CLOCK_MONOTONIC.
    pub(crate) has_times: bool,
}

/// The content of one record of a jitdump file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DumpedCode<'b> {
    /// A piece of code was made.
    Made { start: u64, bytes: u64, index: u64, name: &'b [u8] },
    /// A piece of generated code was moved to the address `start`.
    Moved { start: u64, bytes: u64, index: u64 },
    /// The record is of another kind, which is ignored.
    Other,
}

/// One record of a jitdump file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DumpRecord<'b> {
    /// Time of the record \[ns\], or a value of the processor's counter.
    pub(crate) time: u64,
    /// Size of the record \[byte\].
    pub(crate) bytes: u64,
    pub(crate) code: DumpedCode<'b>,
}

/// A part of a file that could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DumpError {
    /// The record is incomplete: the process may not have written the rest yet.
    Short,
    /// The bytes are no record of a jitdump file: it has another form, or is damaged from here on.
    Wrong,
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, DumpError> {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
    found.map(|bytes| u32::from_ne_bytes(*bytes)).ok_or(DumpError::Short)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, DumpError> {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>);
    found.map(|bytes| u64::from_ne_bytes(*bytes)).ok_or(DumpError::Short)
}

/// Parses the begin of a file.
///
/// # Errors
/// [`DumpError`].
pub(crate) fn header(bytes: &[u8]) -> Result<DumpHeader, DumpError> {
    if u32_at(bytes, 0)? != MAGIC {
        return Err(DumpError::Wrong);
    }
    let size = u32_at(bytes, 8)?;
    let flags = u64_at(bytes, 32)?;
    match (HEADER_BYTES as u32..=HEADER_MAX).contains(&size) {
        true => Ok(DumpHeader { first: size.into(), has_times: flags & COUNTER_TIMES == 0 }),
        false => Err(DumpError::Wrong),
    }
}

/// Parses the record at the begin of `bytes`, of which there are [`RECORD_BYTES_MAX`], or as many as
/// the file still has.
///
/// # Errors
/// [`DumpError`].
pub(crate) fn record(bytes: &[u8]) -> Result<DumpRecord<'_>, DumpError> {
    let (id, size, time) = (u32_at(bytes, 0)?, u32_at(bytes, 4)?, u64_at(bytes, 8)?);
    let size = size as usize;
    if size < RECORD_BYTES {
        return Err(DumpError::Wrong);
    }
    let own = bytes.get(RECORD_BYTES..size.min(bytes.len())).ok_or(DumpError::Short)?;
    let code = match id {
        0 if size >= RECORD_BYTES + LOAD_BYTES => {
            let name = own.get(LOAD_BYTES..).ok_or(DumpError::Short)?;
            let end = name.iter().take(NAME_BYTES_MAX).position(|byte| *byte == 0);
            // The end of a record that is not there yet can have more of the name.
            let is_whole = size <= bytes.len() || name.len() >= NAME_BYTES_MAX;
            let end = match end {
                Some(end) => end,
                None if is_whole => name.len().min(NAME_BYTES_MAX),
                None => return Err(DumpError::Short),
            };
            DumpedCode::Made {
                start: u64_at(own, 16)?,
                bytes: u64_at(own, 24)?,
                index: u64_at(own, 32)?,
                name: name.get(..end).unwrap_or_default(),
            }
        }
        1 if size >= RECORD_BYTES + MOVE_BYTES => DumpedCode::Moved {
            start: u64_at(own, 24)?,
            bytes: u64_at(own, 32)?,
            index: u64_at(own, 40)?,
        },
        _ => DumpedCode::Other,
    };
    Ok(DumpRecord { time, bytes: size as u64, code })
}

/// Makes files as runtimes write them, for tests.
#[cfg(test)]
pub(crate) mod written {
    use super::{HEADER_BYTES, LOAD_BYTES, MAGIC, MOVE_BYTES, RECORD_BYTES};

    fn words(out: &mut Vec<u8>, words: &[u64]) {
        words.iter().for_each(|word| out.extend(word.to_ne_bytes()));
    }

    pub(crate) fn header(flags: u64) -> Vec<u8> {
        let mut out = Vec::new();
        for word in [MAGIC, 1, HEADER_BYTES as u32, 62, 0, 7] {
            out.extend(word.to_ne_bytes());
        }
        words(&mut out, &[5, flags]);
        out
    }

    fn begin(id: u32, bytes: usize, time: u64) -> Vec<u8> {
        let mut out = id.to_ne_bytes().to_vec();
        out.extend(((RECORD_BYTES + bytes) as u32).to_ne_bytes());
        words(&mut out, &[time]);
        out
    }

    pub(crate) fn made(time: u64, start: u64, code: &[u8], index: u64, name: &str) -> Vec<u8> {
        let mut out = begin(0, LOAD_BYTES + name.len() + 1 + code.len(), time);
        words(&mut out, &[7 << 32 | 7, start, start, code.len() as u64, index]);
        out.extend(name.as_bytes());
        out.push(0);
        out.extend(code);
        out
    }

    pub(crate) fn moved(time: u64, from: u64, to: u64, bytes: u64, index: u64) -> Vec<u8> {
        let mut out = begin(1, MOVE_BYTES, time);
        words(&mut out, &[7 << 32 | 7, to, from, to, bytes, index]);
        out
    }

    pub(crate) fn other(id: u32, bytes: usize) -> Vec<u8> {
        let mut out = begin(id, bytes, 9);
        out.extend(vec![0xff; bytes]);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::written::{header as head, made, moved, other};
    use super::*;

    #[test]
    fn header_and_records_have_what_a_runtime_wrote() {
        assert_eq!(header(&head(0)), Ok(DumpHeader { first: 40, has_times: true }));
        assert_eq!(header(&head(1)), Ok(DumpHeader { first: 40, has_times: false }));
        let bytes = made(17, 0x1000, &[0xc3; 3], 4, "f");
        let code = DumpedCode::Made { start: 0x1000, bytes: 3, index: 4, name: b"f" };
        assert_eq!(record(&bytes), Ok(DumpRecord { time: 17, bytes: 61, code }));
        let code = DumpedCode::Moved { start: 0x2000, bytes: 3, index: 4 };
        assert_eq!(
            record(&moved(18, 0x1000, 0x2000, 3, 4)),
            Ok(DumpRecord { time: 18, bytes: 64, code })
        );
        let other = other(2, 1000);
        assert_eq!(record(&other).map(|one| (one.bytes, one.code)), Ok((1016, DumpedCode::Other)));
    }

    #[test]
    fn record_whose_code_is_not_there_yet_has_its_name_and_one_without_it_is_short() {
        let bytes = made(17, 0x1000, &[0xc3; 100], 4, "name");
        for end in 0..bytes.len() {
            let found = record(&bytes[..end]);
            match end > RECORD_BYTES + LOAD_BYTES + 4 {
                true => {
                    assert!(matches!(found.unwrap().code, DumpedCode::Made { name: b"name", .. }))
                }
                false => assert_eq!(found, Err(DumpError::Short), "{end}"),
            }
        }
    }

    #[test]
    fn malicious_sizes_and_names_lead_nowhere() {
        let mut wrong = head(0);
        for size in [0u32, 39, HEADER_MAX + 1, u32::MAX] {
            wrong[8..12].copy_from_slice(&size.to_ne_bytes());
            assert_eq!(header(&wrong), Err(DumpError::Wrong), "{size}");
        }
        assert_eq!(header(&MAGIC.swap_bytes().to_ne_bytes()), Err(DumpError::Wrong));
        assert_eq!(header(b"JiT"), Err(DumpError::Short));
        let mut record_of = made(17, 0x1000, &[], 4, "f");
        for size in [0u32, 15] {
            record_of[4..8].copy_from_slice(&size.to_ne_bytes());
            assert_eq!(record(&record_of), Err(DumpError::Wrong), "{size}");
        }
        // A record that is too small for what it should have says nothing.
        record_of[4..8].copy_from_slice(&40u32.to_ne_bytes());
        assert_eq!(record(&record_of).map(|one| one.code), Ok(DumpedCode::Other));
        let long = made(17, 0x1000, &[], 4, &"x".repeat(3 * NAME_BYTES_MAX));
        let DumpedCode::Made { name, .. } = record(&long[..RECORD_BYTES_MAX]).unwrap().code else {
            panic!("no code")
        };
        assert_eq!(name.len(), NAME_BYTES_MAX);
    }
}

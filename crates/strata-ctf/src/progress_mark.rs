//! The progress mark says up to which time a trace that is being recorded is written. It is a small hidden file in the
//! trace's folder, which each flush overwrites in place, for readers that follow the trace while it grows.
//!
//! Packets have end times, but a stream without event records has no packets: only the mark shows that it lacks none.
//! The file is text of fixed size, like the end mark:
//!
//! ```text
//! strata progress 1
//! upto 81234567890123
//! flush 1000000000
//! again 81234567890123
//! ```
//!
//! The rest of the file, up to [`BYTES`], is newlines. A reader may see parts of two versions while the file is
//! written: the time is there twice, and is valid only if both are equal.

use std::fmt::Write as _;

/// Name of the file. It is hidden, since readers of a trace take every other file for a stream.
pub const FILE: &str = ".strata-progress";

/// Size of the file \[byte\].
pub const BYTES: usize = 128;

const TITLE: &str = "strata progress 1";

/// A mark in the folder of a growing trace: the time up to which it is written, and the period of updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressMark {
    /// The time before which all event records are in the files \[cycle of the trace's clock\].
    pub upto: u64,
    /// Period of updates \[ns\].
    pub flush_ns: u64,
}

impl ProgressMark {
    /// Encodes the file's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; BYTES] {
        let mut text = String::new();
        let ProgressMark { upto, flush_ns } = self;
        // The text always fits: three numbers of at most twenty digits.
        let _ = write!(text, "{TITLE}\nupto {upto}\nflush {flush_ns}\nagain {upto}\n");
        let mut bytes = [b'\n'; BYTES];
        if let Some(place) = bytes.get_mut(..text.len()) {
            place.copy_from_slice(text.as_bytes());
        }
        bytes
    }

    /// Decodes a mark from bytes with any content. Returns `None` if they are not a valid mark, or parts of two.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<ProgressMark> {
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() == BYTES)?;
        let mut lines = text.trim_end_matches('\n').split('\n');
        lines.next().filter(|title| *title == TITLE)?;
        let mut number = |word: &str| lines.next()?.strip_prefix(word)?.parse::<u64>().ok();
        let (upto, flush_ns) = (number("upto ")?, number("flush ")?);
        let again = number("again ")?;
        (again == upto && lines.next().is_none()).then_some(ProgressMark { upto, flush_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_is_read_as_it_was_written() {
        for (upto, flush_ns) in [(0, 0), (81_234_567_890_123, 1_000_000_000), (u64::MAX, u64::MAX)]
        {
            let mark = ProgressMark { upto, flush_ns };
            assert_eq!(ProgressMark::decode(&mark.encode()), Some(mark));
        }
    }

    #[test]
    fn malicious_or_torn_mark_is_none() {
        let old = ProgressMark { upto: 1_999_999, flush_ns: 5 }.encode();
        let new = ProgressMark { upto: 2_000_000, flush_ns: 5 }.encode();
        for at in 25..50 {
            let torn = [&new[..at], &old[at..]].concat();
            let found = ProgressMark::decode(&torn);
            assert!(found.is_none_or(|mark| mark.upto >= 1_999_999), "{at}: {found:?}");
        }
        let torn = [&new[..27], &old[27..]].concat();
        assert_eq!(ProgressMark::decode(&torn), None);
        for bytes in [&b""[..], b"strata progress 1", &[0; BYTES], &[b'\n'; BYTES], &old[1..]] {
            assert_eq!(ProgressMark::decode(bytes), None);
        }
        let mut longer = old.to_vec();
        longer[100] = b'x';
        assert_eq!(ProgressMark::decode(&longer), None);
        longer.push(b'\n');
        assert_eq!(ProgressMark::decode(&longer), None);
    }
}

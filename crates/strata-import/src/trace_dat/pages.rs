//! Pages of the kernel's ring buffer, and the events in them.
//!
//! ```text
//! page    time, u64; size of the content with flags, a word of the kernel; events
//! event   u32: type and length (5 bits), time since the event before (27 bits)
//!           0        the length follows, with itself
//!           1 to 28  so many words of 4 bytes follow
//!           29       padding: with the time 0 up to the end of the page, else the length follows
//!           30       more bits of the time follow
//!           31       the time itself follows
//! ```
//!
//! Source: the kernel's include/linux/ring_buffer.h.

use std::fs::File;

use super::head::{decompress, CpuPages};
use crate::bytes::{read_at, Bytes};
use crate::error::Problem;

/// The most bytes of pages that are read at once.
const READ_BYTES: u64 = 1 << 20;
/// The largest chunk of compressed pages \[byte\]; trace-cmd makes chunks of 10 pages.
const CHUNK_BYTES_MAX: u32 = 16 << 20;

/// Flags in the size of a page's content: events before the page are missing, and their number follows the content.
const MISSING: u64 = 1 << 31;
const MISSING_STORED: u64 = 1 << 30;
const SIZE: u64 = (1 << 27) - 1;

const TIME_BITS: u32 = 27;
/// Bits of a time that an event of type 31 does not have.
const TIME_HIGH: u64 = 0x1f << 59;

/// An event in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingEvent<'p> {
    /// Time \[unit of the clock\].
    pub time: u64,
    pub data: &'p [u8],
}

/// The events of one page, in their order.
#[derive(Clone, Debug)]
pub(crate) struct PageEvents<'p> {
    rest: &'p [u8],
    time: u64,
    /// The number of events that are missing before the page; a number that is not known is 1.
    pub missing: u64,
}

impl<'p> PageEvents<'p> {
    /// Begins with the first event of a page. `head` is the offset of the events. Returns `None` if the page is too short.
    pub fn new(page: &'p [u8], head: usize) -> Option<PageEvents<'p>> {
        let mut from = Bytes(page);
        let time = from.u64()?;
        let is_long = head == 16;
        let commit = if is_long { from.u64()? } else { u64::from(from.u32()?) };
        let behind = page.get(head..)?;
        let content = usize::try_from(commit & SIZE).ok()?;
        let (rest, mut stored) = behind.split_at_checked(content).map(|(a, b)| (a, Bytes(b)))?;
        let missing = match (commit & MISSING != 0, commit & MISSING_STORED != 0) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => {
                let number = if is_long { stored.u64() } else { stored.u32().map(u64::from) };
                number.unwrap_or(1).max(1)
            }
        };
        Some(PageEvents { rest, time, missing })
    }

    /// Returns the next event; an error if the rest of the page is damaged.
    pub fn next(&mut self) -> Result<Option<RingEvent<'p>>, ()> {
        loop {
            let mut from = Bytes(self.rest);
            if from.0.is_empty() {
                return Ok(None);
            }
            let word = from.u32().ok_or(())?;
            // In a machine of the other byte order these bits are elsewhere, and such files are refused.
            let (kind, delta) = if cfg!(target_endian = "big") {
                (word >> TIME_BITS, u64::from(word & ((1 << TIME_BITS) - 1)))
            } else {
                (word & 31, u64::from(word >> 5))
            };
            match kind {
                29 if delta == 0 => return Ok(None),
                29 => {
                    let bytes = from.u32().ok_or(())?.checked_sub(4).ok_or(())?;
                    from.take(bytes as usize).ok_or(())?;
                    self.time = self.time.wrapping_add(delta);
                }
                30 => {
                    let high = u64::from(from.u32().ok_or(())?);
                    self.time = self.time.wrapping_add((high << TIME_BITS) + delta);
                }
                31 => {
                    let high = u64::from(from.u32().ok_or(())?);
                    self.time = self.time & TIME_HIGH | ((high << TIME_BITS) + delta) & !TIME_HIGH;
                }
                _ => {
                    let bytes = match kind {
                        0 => from.u32().ok_or(())?.checked_sub(4).ok_or(())? as usize,
                        words => words as usize * 4,
                    };
                    let data = from.take(bytes).ok_or(())?;
                    self.time = self.time.wrapping_add(delta);
                    self.rest = from.0;
                    return Ok(Some(RingEvent { time: self.time, data }));
                }
            }
            self.rest = from.0;
        }
    }
}

/// The pages of a CPU in one buffer, one after the other.
#[derive(Debug)]
pub(crate) struct PageReader {
    pages: CpuPages,
    /// Offset of what is read next, and bytes that follow there \[byte\].
    at: u64,
    left: u64,
    /// Chunks of compressed pages that follow; `None` before their number is read.
    chunks: Option<u32>,
    /// Whole pages that were read, and the offset of the next one.
    read: Vec<u8>,
    next: usize,
}

impl PageReader {
    pub fn new(pages: CpuPages) -> PageReader {
        let (at, bytes) = pages.place;
        // The size of compressed pages does not count the number of their chunks.
        let left = bytes.saturating_add(if pages.is_compressed { 4 } else { 0 });
        PageReader { pages, at, left, chunks: None, read: Vec::new(), next: 0 }
    }

    /// Returns the next page; `None` behind the last one.
    pub fn next<'r>(&'r mut self, file: &mut File) -> Result<Option<&'r [u8]>, Problem> {
        let bytes = self.pages.page_bytes as usize;
        if self.next >= self.read.len() {
            self.next = 0;
            self.read = match self.pages.is_compressed {
                true => self.chunk(file)?,
                false => {
                    let most = READ_BYTES.max(u64::from(self.pages.page_bytes));
                    let most = most - most % u64::from(self.pages.page_bytes);
                    self.take(file, self.left.min(most))?
                }
            };
        }
        let begin = self.next;
        self.next += bytes;
        Ok(self.read.get(begin..self.next.min(self.read.len())).filter(|page| !page.is_empty()))
    }

    fn take(&mut self, file: &mut File, bytes: u64) -> Result<Vec<u8>, Problem> {
        if bytes > self.left {
            return Err("pages of a CPU are cut off".into());
        }
        let found = read_at(file, self.at, bytes)?;
        self.at += bytes;
        self.left -= bytes;
        Ok(found)
    }

    fn word(&mut self, file: &mut File) -> Result<u32, Problem> {
        let found = self.take(file, 4)?;
        Ok(Bytes(&found).u32().unwrap_or(0))
    }

    /// Reads and decompresses the next chunk; nothing behind the last one.
    fn chunk(&mut self, file: &mut File) -> Result<Vec<u8>, Problem> {
        if self.chunks.is_none() && self.left > 0 {
            self.chunks = Some(self.word(file)?);
        }
        let left = self.chunks.unwrap_or(0);
        if left == 0 {
            return Ok(Vec::new());
        }
        self.chunks = Some(left - 1);
        let (packed, whole) = (self.word(file)?, self.word(file)?);
        if whole > CHUNK_BYTES_MAX || whole == 0 {
            return Err(Problem::Bad(format!(
                "a chunk of pages has {whole} bytes, and 1 to {CHUNK_BYTES_MAX} are possible"
            )));
        }
        let packed = self.take(file, u64::from(packed))?;
        decompress(&packed, whole as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u32, delta: u32, behind: &[u8]) -> Vec<u8> {
        let word =
            if cfg!(target_endian = "big") { kind << TIME_BITS | delta } else { kind | delta << 5 };
        [&word.to_ne_bytes(), behind].concat()
    }

    fn page(flags: u64, content: &[u8], behind: &[u8]) -> Vec<u8> {
        let commit = content.len() as u64 | flags;
        [&1000u64.to_ne_bytes()[..], &commit.to_ne_bytes(), content, behind].concat()
    }

    fn all(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, bool) {
        let mut events = PageEvents::new(page, 16).unwrap();
        let mut found = Vec::new();
        loop {
            match events.next() {
                Ok(Some(event)) => found.push((event.time, event.data.to_vec())),
                Ok(None) => return (found, true),
                Err(()) => return (found, false),
            }
        }
    }

    #[test]
    fn events_of_all_kinds_have_their_times() {
        let long = [&12u32.to_ne_bytes()[..], b"12345678"].concat();
        let content = [
            event(1, 5, b"abcd"),
            event(30, 3, &2u32.to_ne_bytes()),
            event(0, 1, &long),
            event(29, 7, &[&8u32.to_ne_bytes()[..], b"skip"].concat()),
            event(31, 9, &4u32.to_ne_bytes()),
            event(2, 0, b"ABCDEFGH"),
            event(29, 0, b"what is behind the end"),
        ];
        let extended = 1005 + (2 << TIME_BITS) + 3;
        let wanted = vec![
            (1005, b"abcd".to_vec()),
            (extended + 1, b"12345678".to_vec()),
            ((4 << TIME_BITS) + 9, b"ABCDEFGH".to_vec()),
        ];
        assert_eq!(all(&page(0, &content.concat(), b"other")), (wanted, true));
    }

    #[test]
    fn missing_events_are_counted() {
        let content = event(1, 0, b"abcd");
        let of = |flags, behind: &[u8]| {
            PageEvents::new(&page(flags, &content, behind), 16).unwrap().missing
        };
        assert_eq!(of(0, &[]), 0);
        assert_eq!(of(MISSING, &[]), 1);
        assert_eq!(of(MISSING | MISSING_STORED, &77u64.to_ne_bytes()), 77);
        // No room for the number.
        assert_eq!(of(MISSING | MISSING_STORED, &[1]), 1);
    }

    #[test]
    fn malicious_pages_end() {
        assert!(PageEvents::new(&[0; 15], 16).is_none());
        assert!(PageEvents::new(&page(1 << 20, &[], &[]), 16).is_none());
        for content in [
            event(1, 0, b"abc"),
            event(28, 0, b"abc"),
            event(0, 0, &3u32.to_ne_bytes()),
            event(0, 0, &u32::MAX.to_ne_bytes()),
            event(29, 1, &u32::MAX.to_ne_bytes()),
            event(30, 1, b"x"),
            event(31, 1, b""),
            vec![1, 2, 3],
        ] {
            assert_eq!(all(&page(0, &content, &[])), (Vec::new(), false), "{content:?}");
        }
    }
}

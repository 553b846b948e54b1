//! Reassembles frames from bytes. A frame may arrive in any number of pieces.
//!
//! ```text
//! offset  size  field
//!      0     4  "StRl"
//!      4     2  kind     little-endian, as all numbers of a frame
//!      6     2  0
//!      8     4  length   of the payload that follows [byte]
//! ```

use std::fmt;

/// First bytes of each frame.
const MAGIC: [u8; 4] = *b"StRl";

/// Size of a frame's header \[byte\].
pub(crate) const HEADER_BYTES: usize = 12;

/// Size of the largest payload: a packet of the largest sub-buffer that can be relayed, and the fields before it
/// \[byte\].
pub const FRAME_BYTES_MAX: usize = (16 << 20) + 4096;

/// The number of missing bytes of a frame from which on they are read separately from other frames \[byte\].
const LARGE_BYTES: usize = 16 << 10;

/// Reason why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameProblem {
    /// The bytes do not begin with the mark of a frame.
    NoFrame,
    /// A frame's header gives a length beyond the limit.
    TooLarge(u32),
}

impl fmt::Display for FrameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameProblem::NoFrame => {
                f.write_str("the channel delivered bytes that are not a frame")
            }
            FrameProblem::TooLarge(bytes) => {
                write!(f, "a frame says that it has {bytes} bytes, at most {FRAME_BYTES_MAX} are possible")
            }
        }
    }
}

impl std::error::Error for FrameProblem {}

/// Reassembles frames from the bytes that arrive.
#[derive(Debug, Default)]
pub struct Frames {
    /// Bytes that have arrived, and behind them space for more.
    buffer: Vec<u8>,
    /// Begin and end of the bytes that have arrived and were not returned.
    taken: usize,
    end: usize,
}

impl Frames {
    /// Appends bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        let space = self.space(bytes.len());
        space.get_mut(..bytes.len()).unwrap_or_default().copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// Returns space for `bytes` bytes that are about to arrive. [`Frames::filled`] then says how many have.
    pub fn space(&mut self, bytes: usize) -> &mut [u8] {
        if self.taken == self.end {
            (self.taken, self.end) = (0, 0);
        }
        if self.buffer.len() - self.end < bytes {
            self.buffer.copy_within(self.taken..self.end, 0);
            (self.taken, self.end) = (0, self.end - self.taken);
            let more = self.end + bytes;
            if self.buffer.len() < more {
                self.buffer.resize(more, 0);
            }
        }
        &mut self.buffer[self.end..self.end + bytes]
    }

    /// Notes that the first `bytes` bytes of [`Frames::space`] have arrived.
    pub fn filled(&mut self, bytes: usize) {
        self.end = self.buffer.len().min(self.end + bytes);
    }

    /// Returns how many bytes the next read should take: all that is missing of a large frame, and the header of the next one, so
    /// that nothing has to be moved; otherwise `most`.
    #[must_use]
    pub fn wanted(&self, most: usize) -> usize {
        match self.coming().map(|bytes| bytes.saturating_sub(self.held())) {
            Some(missing) if missing >= LARGE_BYTES => missing + HEADER_BYTES,
            _ => most,
        }
    }

    /// Returns kind and payload of the next whole frame; `None` if more bytes have to arrive first.
    ///
    /// # Errors
    /// The next bytes are no frame. They stay the next ones.
    pub fn next_frame(&mut self) -> Result<Option<(u16, &[u8])>, FrameProblem> {
        let rest = self.rest();
        let known = rest.len().min(MAGIC.len());
        if rest[..known] != MAGIC[..known] {
            return Err(FrameProblem::NoFrame);
        }
        let Some(header) = rest.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [_, _, _, _, kind @ ..] = *header;
        let [kind_low, kind_high, zero, also_zero, length @ ..] = kind;
        if [zero, also_zero] != [0, 0] {
            return Err(FrameProblem::NoFrame);
        }
        let length = u32::from_le_bytes(length);
        let bytes = usize::try_from(length).ok().filter(|bytes| *bytes <= FRAME_BYTES_MAX);
        let bytes = bytes.ok_or(FrameProblem::TooLarge(length))?;
        let begin = self.taken + HEADER_BYTES;
        let end = begin + bytes;
        if end > self.end {
            return Ok(None);
        }
        let Some(payload) = self.buffer.get(begin..end) else { return Ok(None) };
        self.taken = end;
        Ok(Some((u16::from_le_bytes([kind_low, kind_high]), payload)))
    }

    /// Skips bytes up to the next possible begin of a frame: an earlier sender may have left bytes in the channel.
    /// Returns the number of skipped bytes.
    pub fn pass(&mut self) -> usize {
        let from = self.taken;
        let rest = self.rest().get(1..).unwrap_or_default();
        let is_begin = |at: &usize| {
            let known = (rest.len() - at).min(MAGIC.len());
            rest[*at..*at + known] == MAGIC[..known]
        };
        let next = (0..rest.len()).find(is_begin).unwrap_or(rest.len());
        self.taken = (from + 1 + next).min(self.end);
        self.taken - from
    }

    /// Returns the size of the frame that is arriving, with its header, once the header is there \[byte\].
    #[must_use]
    pub fn coming(&self) -> Option<usize> {
        let length = self.rest().get(8..HEADER_BYTES)?.first_chunk()?;
        let bytes = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        (bytes <= FRAME_BYTES_MAX).then_some(HEADER_BYTES + bytes)
    }

    /// Releases unused memory beyond `most` bytes.
    pub fn shrink(&mut self, most: usize) {
        self.buffer.copy_within(self.taken..self.end, 0);
        (self.taken, self.end) = (0, self.end - self.taken);
        self.buffer.truncate(self.end.max(most));
        self.buffer.shrink_to_fit();
    }

    /// Returns the number of bytes that are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.end - self.taken
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.taken..self.end).unwrap_or_default()
    }
}

/// Makes the header of a frame with a payload of `bytes` bytes.
pub(crate) fn header(kind: u16, bytes: usize) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..4].copy_from_slice(&MAGIC);
    out[4..6].copy_from_slice(&kind.to_le_bytes());
    // What is larger is refused where it comes.
    out[8..].copy_from_slice(&u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u16, payload: &[u8]) -> Vec<u8> {
        [&header(kind, payload.len())[..], payload].concat()
    }

    #[test]
    fn frames_that_come_byte_by_byte_are_those_that_were_sent() {
        let sent = [frame(1, b"abc"), frame(2, b""), frame(3, &[7; 1000])].concat();
        for step in [1, 5, 12, 13, 2000] {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for piece in sent.chunks(step) {
                frames.push(piece);
                while let Some((kind, payload)) = frames.next_frame().unwrap() {
                    found.push((kind, payload.to_vec()));
                }
            }
            assert_eq!(found, [(1, b"abc".to_vec()), (2, vec![]), (3, vec![7; 1000])], "{step}");
            assert_eq!(frames.held(), 0);
        }
    }

    #[test]
    fn frames_that_are_read_in_place_are_those_that_were_sent() {
        let large =
            |byte: u8| frame(u16::from(byte), &vec![byte; 30_000 + 5000 * usize::from(byte)]);
        let small = |byte: u8| frame(u16::from(byte), &[byte; 7]);
        let sent = [large(1), small(2), small(3), large(4), large(5), small(6), large(7)].concat();
        // What arrives by one read: as much as is wanted, or less.
        for most in [1, 100, 40_000, usize::MAX] {
            let (mut frames, mut found, mut at) = (Frames::default(), Vec::new(), 0);
            while at < sent.len() {
                let wanted = frames.wanted(64 << 10);
                let bytes = wanted.min(most).min(sent.len() - at);
                frames.space(wanted)[..bytes].copy_from_slice(&sent[at..at + bytes]);
                frames.filled(bytes);
                at += bytes;
                while let Some((kind, payload)) = frames.next_frame().unwrap() {
                    assert!(payload.iter().all(|byte| u16::from(*byte) == kind), "{kind}");
                    found.push((kind, payload.len()));
                }
                // No more than one frame, and what one read takes.
                assert!(frames.buffer.len() <= 65_012 + (64 << 10) + 2 * HEADER_BYTES);
            }
            let bytes = [35_000, 7, 7, 50_000, 55_000, 7, 65_000];
            assert_eq!(found, (1..=7).zip(bytes).collect::<Vec<_>>(), "{most}");
            assert_eq!(frames.held(), 0);
        }
    }

    #[test]
    fn large_frame_is_read_to_its_end_and_no_further_than_the_next_header() {
        let mut frames = Frames::default();
        assert_eq!(frames.wanted(100), 100);
        frames.push(&frame(1, &[7; 100_000])[..50_000]);
        assert_eq!(frames.wanted(100), 50_012 + HEADER_BYTES);
        frames.push(&[7; 40_000]);
        assert_eq!(frames.wanted(100), 100);
        frames.shrink(10);
        assert_eq!((frames.buffer.len(), frames.held()), (90_000, 90_000));
    }

    #[test]
    fn coming_frame_is_known_by_its_header() {
        let sent = frame(1, &[7; 1000]);
        let mut frames = Frames::default();
        frames.push(&sent[..11]);
        assert_eq!(frames.coming(), None);
        frames.push(&sent[11..500]);
        assert_eq!((frames.coming(), frames.next_frame()), (Some(1012), Ok(None)));
        frames.push(&sent[500..]);
        assert!(frames.next_frame().unwrap().is_some());
        frames.shrink(10);
        assert_eq!((frames.coming(), frames.held()), (None, 0));
        frames.push(&header(1, FRAME_BYTES_MAX + 1));
        assert_eq!(frames.coming(), None);
    }

    #[test]
    fn malicious_length_is_refused_before_its_bytes_come() {
        let mut frames = Frames::default();
        frames.push(&header(1, FRAME_BYTES_MAX + 1));
        assert_eq!(frames.next_frame(), Err(FrameProblem::TooLarge(FRAME_BYTES_MAX as u32 + 1)));
        for bytes in [&b"StRm"[..], b"X", b"StRl\x01\x00\x01\x00\0\0\0\0"] {
            let mut frames = Frames::default();
            frames.push(bytes);
            assert_eq!(frames.next_frame(), Err(FrameProblem::NoFrame), "{bytes:?}");
        }
    }

    #[test]
    fn pass_finds_the_frame_behind_what_is_none() {
        let mut frames = Frames::default();
        frames.push(&[b"rest of a packet StR StRl".as_slice(), &frame(9, b"x")].concat());
        let mut passed = 0;
        let found = loop {
            match frames.next_frame() {
                Ok(Some((kind, payload))) => break (kind, payload.to_vec()),
                Ok(None) => panic!("nothing found"),
                Err(_) => passed += frames.pass(),
            }
        };
        assert_eq!((found, passed), ((9, b"x".to_vec()), 25));
        // All of it may be nothing.
        frames.push(b"zzz");
        assert_eq!((frames.pass(), frames.held()), (3, 0));
    }
}

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
    buffer: Vec<u8>,
    taken: usize,
}

impl Frames {
    /// Appends bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns kind and payload of the next whole frame; `None` if more bytes have to arrive first.
    ///
    /// # Errors
    /// The next bytes are no frame. They stay the next ones.
    pub fn next_frame(&mut self) -> Result<Option<(u16, &[u8])>, FrameProblem> {
        let rest = self.buffer.get(self.taken..).unwrap_or_default();
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
        let Some(payload) = self.buffer.get(begin..begin + bytes) else { return Ok(None) };
        self.taken = begin + bytes;
        Ok(Some((u16::from_le_bytes([kind_low, kind_high]), payload)))
    }

    /// Skips bytes up to the next possible begin of a frame: an earlier sender may have left bytes in the channel.
    /// Returns the number of skipped bytes.
    pub fn pass(&mut self) -> usize {
        let from = self.taken;
        let rest = self.buffer.get(from + 1..).unwrap_or_default();
        let is_begin = |at: &usize| {
            let known = (rest.len() - at).min(MAGIC.len());
            rest[*at..*at + known] == MAGIC[..known]
        };
        let next = (0..rest.len()).find(is_begin).unwrap_or(rest.len());
        self.taken = (from + 1 + next).min(self.buffer.len());
        self.taken - from
    }

    /// Returns the size of the frame that is arriving, with its header, once the header is there \[byte\].
    #[must_use]
    pub fn coming(&self) -> Option<usize> {
        let rest = self.buffer.get(self.taken..)?;
        let length = rest.get(8..HEADER_BYTES)?.first_chunk()?;
        let bytes = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        (bytes <= FRAME_BYTES_MAX).then_some(HEADER_BYTES + bytes)
    }

    /// Releases unused memory beyond `most` bytes.
    pub fn shrink(&mut self, most: usize) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.shrink_to(most);
    }

    /// Returns the number of bytes that are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.buffer.len() - self.taken
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

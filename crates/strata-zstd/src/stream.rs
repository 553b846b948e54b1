//! Decompresses a stream that arrives in pieces and may end at any place, block by block.

use crate::{next_block, FrameHeader, Input, Memory, BLOCK_MAX, CUT, FRAME, LARGE, SKIPPED};

/// The largest window of a frame: that of the highest level of the reference implementation \[byte\].
const WINDOW_MAX: u64 = 128 << 20;

/// The largest header of a frame, with its magic number \[byte\].
const HEADER_MAX: usize = 18;

/// Content beyond the window that may stay in memory before it is removed \[byte\]. With more, less is moved.
const BEHIND_MAX: usize = if cfg!(test) { 256 << 10 } else { 4 << 20 };

/// A stream of frames.
///
/// Pieces of the stream are passed to [`Stream::push`], and its content is taken by [`Stream::next_block`]. Memory is
/// the window, 4 MiB, a block, and the pieces that were not decompressed yet.
#[derive(Default)]
pub struct Stream {
    /// Bytes of the stream, of which those before `taken` are decompressed.
    packed: Vec<u8>,
    taken: usize,
    /// Bytes of a frame to be skipped that have not come yet.
    skip: u64,
    /// The frame that has begun.
    frame: Option<Frame>,
    /// The content of the frame: the window at least, then the last block.
    content: Vec<u8>,
}

/// A frame of which some blocks are decompressed.
struct Frame {
    header: FrameHeader,
    memory: Memory,
    /// Size of the content so far \[byte\].
    bytes: u64,
    /// True behind the last block, in front of the checksum.
    is_over: bool,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("packed", &self.packed.len()).finish_non_exhaustive()
    }
}

impl Stream {
    /// Appends a piece of the stream.
    pub fn push(&mut self, piece: &[u8]) {
        self.packed.drain(..self.taken);
        self.taken = 0;
        self.packed.extend_from_slice(piece);
    }

    /// Decompresses the next block, of up to 128 KiB. Returns `None` if it has not come whole.
    ///
    /// # Errors
    /// A short text that says why, to be put after "it cannot be decompressed: ". The stream stays as it was, so that further
    /// calls return the same error.
    pub fn next_block(&mut self) -> Result<Option<&[u8]>, &'static str> {
        while self.skip_or_begin()? {
            let Some(frame) = &mut self.frame else { return Ok(None) };
            let mut input = Input(self.packed.get(self.taken..).unwrap_or_default());
            let left = input.0.len();
            if frame.is_over {
                if input.take(frame.header.checksum_bytes).is_err() {
                    return Ok(None);
                }
                self.taken += frame.header.checksum_bytes;
                self.frame = None;
                continue;
            }
            if !has_block(input.0) {
                return Ok(None);
            }
            // Up to 128 MiB.
            let window = frame.header.window as usize;
            if self.content.len() >= window + BEHIND_MAX {
                let old = self.content.len() - window;
                self.content.drain(..old);
            }
            let begin = self.content.len();
            let mut at = begin;
            self.content.resize(begin + BLOCK_MAX, 0);
            let block =
                next_block(&mut input, &mut self.content, &mut at, &mut frame.memory, &mut |_| {
                    true
                });
            self.content.truncate(if block.is_ok() { at } else { begin });
            frame.is_over = block?;
            frame.bytes += (at - begin) as u64;
            let is_right =
                |size| if frame.is_over { frame.bytes == size } else { frame.bytes <= size };
            if !frame.header.size.is_none_or(is_right) {
                return Err(LARGE);
            }
            self.taken += left - input.0.len();
            if at > begin {
                return Ok(self.content.get(begin..));
            }
        }
        Ok(None)
    }

    /// Skips what has no content and reads the header of the next frame, unless one has begun. Returns false if more of the stream is needed.
    fn skip_or_begin(&mut self) -> Result<bool, &'static str> {
        while self.frame.is_none() {
            let mut input = Input(self.packed.get(self.taken..).unwrap_or_default());
            if self.skip > 0 {
                let bytes = self.skip.min(input.0.len() as u64);
                if bytes == 0 {
                    return Ok(false);
                }
                self.taken += bytes as usize;
                self.skip -= bytes;
                continue;
            }
            let left = input.0.len();
            match begin(&mut input) {
                Ok(Begin::Frame(header)) if header.window > WINDOW_MAX => {
                    return Err("its window is larger than 128 MiB");
                }
                Ok(Begin::Frame(header)) => {
                    let memory = Memory::default();
                    self.frame = Some(Frame { header, memory, bytes: 0, is_over: false });
                    self.content.clear();
                }
                Ok(Begin::Skipped(bytes)) => self.skip = bytes,
                Err(CUT) if left < HEADER_MAX => return Ok(false),
                Err(why) => return Err(why),
            }
            self.taken += left - input.0.len();
        }
        Ok(true)
    }
}

/// What a magic number begins.
enum Begin {
    Frame(FrameHeader),
    /// So many bytes that are not content.
    Skipped(u64),
}

fn begin(input: &mut Input<'_>) -> Result<Begin, &'static str> {
    match input.number(4)? as u32 {
        FRAME => FrameHeader::read(input).map(Begin::Frame),
        magic if magic & !0xf == SKIPPED => input.number(4).map(Begin::Skipped),
        _ => Err("it has no frame of zstd"),
    }
}

/// Returns whether the bytes have a whole block at their begin, or one that is damaged.
fn has_block(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let Ok(head) = input.number(3) else { return false };
    let head = head as usize;
    let size = if head >> 1 & 3 == 1 { 1 } else { head >> 3 };
    size > BLOCK_MAX || input.0.len() >= size
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{contents, packed};
    use strata_random::Random;

    /// Returns the content of a stream that is passed in pieces of random sizes.
    fn unpacked(packed: &[u8], random: &mut Random) -> Result<Vec<u8>, &'static str> {
        let (mut stream, mut content, mut rest) = (Stream::default(), Vec::new(), packed);
        while !rest.is_empty() {
            let bytes = (random.next() as usize % 3000).min(rest.len());
            let (piece, behind) = rest.split_at(bytes);
            rest = behind;
            stream.push(piece);
            while let Some(block) = stream.next_block()? {
                content.extend_from_slice(block);
            }
        }
        Ok(content)
    }

    #[test]
    fn stream_in_pieces_gives_what_zstd_has_packed() {
        let mut random = Random::from_seed(2);
        let contents = contents();
        for bytes in &contents {
            for how in [&["-1"][..], &["-3", "--no-check"], &["--ultra", "-22"]] {
                let packed = packed(bytes, how);
                assert!(unpacked(&packed, &mut random).as_ref() == Ok(bytes), "{how:?}");
                let skipped = [&SKIPPED.to_le_bytes()[..], &[3, 0, 0, 0], b"any"].concat();
                let twice = [&packed[..], &skipped, &packed].concat();
                assert!(unpacked(&twice, &mut random) == Ok(bytes.repeat(2)), "{how:?}");
            }
        }
        // More than a window and what may be behind it, with matches over the place where it is cut.
        let long: Vec<u8> =
            (0..24).flat_map(|at| [&contents[0][at..], &contents[1]].concat()).collect();
        assert!(long.len() > (512 << 10) + 3 * BEHIND_MAX);
        let packed = packed(&long, &["-1"]);
        assert!(unpacked(&packed, &mut random) == Ok(long));
    }

    #[test]
    fn blocks_come_before_the_frame_ends() {
        let bytes = contents()[0].repeat(6);
        let packed = packed(&bytes, &["-1"]);
        let mut stream = Stream::default();
        stream.push(&packed[..packed.len() - 5]);
        let mut content = 0;
        while let Some(block) = stream.next_block().unwrap() {
            content += block.len();
        }
        assert!(content >= BLOCK_MAX && content < bytes.len(), "{content} of {}", bytes.len());
    }

    #[test]
    fn malicious_streams_end_with_a_reason_or_early() {
        let mut random = Random::from_seed(3);
        assert_eq!(unpacked(b"no frame", &mut random), Err("it has no frame of zstd"));
        // A window of 4 GiB.
        let huge = [&FRAME.to_le_bytes()[..], &[0, 22 << 3, 1, 0, 0]].concat();
        assert_eq!(unpacked(&huge, &mut random), Err("its window is larger than 128 MiB"));
        for (bytes, how) in contents().iter().zip(["-19", "-1", "-5", "-3", "-3", "-3", "-3"]) {
            let whole = packed(&bytes[..bytes.len().min(800)], &[how]);
            for end in 0..whole.len() {
                let _ = unpacked(&whole[..end], &mut random);
                for bits in [0x55, 0x80, 1] {
                    let mut other = whole.clone();
                    other[end] ^= bits;
                    let _ = unpacked(&other, &mut random);
                }
            }
        }
    }
}

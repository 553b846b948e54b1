//! Records of `perf record -z`, which are pieces of one compressed stream.
//!
//! Each piece is a record of its own (kinds 81 and 83). Their content put together is a stream of records: one of these may begin in
//! one piece and end in another. perf does not end the stream, so that the last records are there before a frame is whole.

use strata_zstd::Stream;

use crate::bytes::Bytes;

/// The most bytes that a compressed byte may become, beyond [`ANY_BYTES`]. Of perf it becomes some 10.
const RATIO_MAX: u64 = 1024;
const ANY_BYTES: u64 = 16 << 20;

const COMPRESSED: u32 = 81;
/// A piece that begins with its size, since others than whole words follow it.
const COMPRESSED2: u32 = 83;

/// Returns whether a record of this kind is a piece of the compressed stream.
pub(crate) fn is_piece(kind: u32) -> bool {
    matches!(kind, COMPRESSED | COMPRESSED2)
}

/// The records of the compressed stream, as far as it was passed.
#[derive(Debug, Default)]
pub(crate) struct CompressedRecords {
    stream: Stream,
    /// Decompressed bytes, of which those before `taken` were returned.
    bytes: Vec<u8>,
    taken: usize,
    /// Sizes of the stream and of its content so far \[byte\].
    stream_bytes: u64,
    content_bytes: u64,
}

impl CompressedRecords {
    /// Takes the body of the next record that is a piece. All records before it must have been taken by
    /// [`CompressedRecords::next`].
    ///
    /// # Errors
    /// A description of what is wrong with the piece.
    pub fn push(&mut self, kind: u32, body: &[u8]) -> Result<(), String> {
        let piece = match kind {
            COMPRESSED2 => {
                let mut from = Bytes(body);
                let size = from.u64().and_then(|size| usize::try_from(size).ok());
                size.and_then(|size| from.take(size)).ok_or("a compressed record is too short")?
            }
            _ => body,
        };
        self.stream_bytes += piece.len() as u64;
        self.stream.push(piece);
        Ok(())
    }

    /// Puts the body of the next record into `body`. Returns its kind and flags; `None` if it has not come whole.
    ///
    /// # Errors
    /// A description of the damage.
    pub fn next(&mut self, body: &mut Vec<u8>) -> Result<Option<(u32, u16)>, String> {
        loop {
            let mut from = Bytes(self.bytes.get(self.taken..).unwrap_or_default());
            let head = (|| Some((from.u32()?, from.array()?, from.array()?)))();
            if let Some((kind, misc, size)) = head {
                let size = u16::from_ne_bytes(size);
                let Some(bytes) = usize::from(size).checked_sub(8) else {
                    return Err(format!(
                        "a compressed record of kind {kind} has {size} bytes, and at least 8 are possible"
                    ));
                };
                if let Some(found) = from.take(bytes) {
                    if is_piece(kind) {
                        return Err("a compressed record is compressed again".to_owned());
                    }
                    body.clear();
                    body.extend_from_slice(found);
                    self.taken += usize::from(size);
                    return Ok(Some((kind, u16::from_ne_bytes(misc))));
                }
            }
            self.bytes.drain(..self.taken);
            self.taken = 0;
            let block = self.stream.next_block();
            let block = block.map_err(|why| format!("a record cannot be decompressed: {why}"))?;
            let Some(block) = block else { return Ok(None) };
            self.content_bytes += block.len() as u64;
            if self.content_bytes > ANY_BYTES + self.stream_bytes.saturating_mul(RATIO_MAX) {
                return Err(format!(
                    "{} bytes of compressed records have more than {RATIO_MAX} times as many bytes",
                    self.stream_bytes
                ));
            }
            self.bytes.extend_from_slice(block);
        }
    }

    /// Returns whether the stream ends within a record.
    pub fn is_cut(&self) -> bool {
        self.taken < self.bytes.len()
    }
}

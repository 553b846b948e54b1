//! Buffers of text to which many short pieces are added.

/// A destination of text.
pub trait TextSink {
    fn push(&mut self, byte: u8);
    fn extend_from_slice(&mut self, bytes: &[u8]);
    /// Adds the first `len` bytes of a block.
    fn put<const N: usize>(&mut self, block: &[u8; N], len: usize);
}

impl TextSink for Vec<u8> {
    #[inline]
    fn push(&mut self, byte: u8) {
        Vec::push(self, byte);
    }

    #[inline]
    fn extend_from_slice(&mut self, bytes: &[u8]) {
        Vec::extend_from_slice(self, bytes);
    }

    #[inline]
    fn put<const N: usize>(&mut self, block: &[u8; N], len: usize) {
        Vec::extend_from_slice(self, block.get(..len).unwrap_or(block));
    }
}

/// A text with spare room after it. Short pieces are copied as blocks of a fixed size, which needs no call.
#[derive(Debug, Default)]
pub struct Lines {
    /// The text and the spare room, which never shrinks.
    bytes: Vec<u8>,
    len: usize,
}

/// The least room that is added at once \[byte\].
const ROOM: usize = 4096;

impl Lines {
    /// Returns the text.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Returns the size of the text \[byte\].
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes the last `bytes` bytes.
    #[inline]
    pub fn drop_last(&mut self, bytes: usize) {
        self.len = self.len.saturating_sub(bytes);
    }

    /// Removes the text and keeps its memory.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Replaces bytes of the text from `at` on. Does nothing if the block does not fit there.
    #[inline]
    pub fn patch<const N: usize>(&mut self, at: usize, block: &[u8; N]) {
        let there = self.bytes.get_mut(at..self.len);
        if let Some(there) = there.and_then(|bytes| bytes.first_chunk_mut::<N>()) {
            *there = *block;
        }
    }

    /// Moves the bytes from `at` on by `by` bytes. The content of the gap is not defined.
    #[inline]
    pub fn widen(&mut self, at: usize, by: usize) {
        let end = self.len;
        const NOTHING: [u8; 8] = [0; 8];
        self.extend_from_slice(NOTHING.get(..by).unwrap_or(&NOTHING));
        let moved = at.saturating_add(self.len - end);
        if at <= end {
            self.bytes.copy_within(at..end, moved);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_slowly(&mut self, bytes: &[u8]) {
        let end = self.len.saturating_add(bytes.len());
        let need = end.saturating_add(ROOM);
        if self.bytes.len() < need {
            self.bytes.resize(need.max(self.bytes.len().saturating_mul(2)), 0);
        }
        if let Some(place) = self.bytes.get_mut(self.len..end) {
            place.copy_from_slice(bytes);
            self.len = end;
        }
    }
}

impl TextSink for Lines {
    #[inline(always)]
    fn push(&mut self, byte: u8) {
        self.put(&[byte], 1);
    }

    #[inline]
    fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.len.saturating_add(bytes.len());
        match self.bytes.get_mut(self.len..end) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.len = end;
            }
            None => self.add_slowly(bytes),
        }
    }

    #[inline(always)]
    fn put<const N: usize>(&mut self, block: &[u8; N], len: usize) {
        let room = self.bytes.get_mut(self.len..);
        match room.and_then(|room| room.first_chunk_mut::<N>()) {
            Some(place) => {
                *place = *block;
                self.len += len.min(N);
            }
            None => self.add_slowly(block.get(..len).unwrap_or(block)),
        }
    }
}

/// A short text that is added to lines often.
#[derive(Clone, Debug)]
pub struct TextPiece {
    block: [u8; TextPiece::BLOCK],
    /// The length of the text in the block. Longer texts are in `long`.
    len: usize,
    long: Vec<u8>,
}

impl TextPiece {
    const BLOCK: usize = 64;

    pub fn new(text: &[u8]) -> TextPiece {
        let mut block = [0; TextPiece::BLOCK];
        match block.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text);
                TextPiece { block, len: text.len(), long: Vec::new() }
            }
            None => TextPiece { block, len: text.len(), long: text.to_vec() },
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    pub fn add_to(&self, out: &mut impl TextSink) {
        match self.block.first_chunk::<{ TextPiece::BLOCK / 2 }>() {
            Some(half) if self.len <= half.len() => out.put(half, self.len),
            _ if self.len <= TextPiece::BLOCK => out.put(&self.block, self.len),
            _ => out.extend_from_slice(&self.long),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_pieces_of_any_length_are_those_of_a_vector() {
        let text: Vec<u8> = (0..=255).cycle().take(9000).collect();
        let (mut lines, mut vector) = (Lines::default(), Vec::new());
        for round in 0..2 {
            for len in (0..200).chain([4095, 4096, 4097, 9000]) {
                let part = text.get(..len).unwrap();
                TextPiece::new(part).add_to(&mut lines);
                TextPiece::new(part).add_to(&mut vector);
                lines.extend_from_slice(part);
                vector.extend_from_slice(part);
                lines.push(7);
                vector.push(7);
                lines.put(b"abcdefgh", len);
                vector.put(b"abcdefgh", len);
            }
            assert!(lines.as_bytes() == vector, "round {round}");
            assert_eq!(lines.len(), vector.len());
            lines.clear();
            vector.clear();
            assert!(lines.is_empty() && TextPiece::new(b"").is_empty());
        }
    }

    #[test]
    fn lines_that_are_widened_have_room_at_a_place() {
        let mut lines = Lines::default();
        lines.extend_from_slice(b"abcdef");
        lines.widen(2, 3);
        lines.patch(2, b"...");
        assert_eq!(lines.as_bytes(), b"ab...cdef");
        lines.widen(9, 1);
        assert_eq!(lines.len(), 10);
    }

    #[test]
    fn lines_when_what_is_replaced_is_not_all_there_stay() {
        let mut lines = Lines::default();
        lines.extend_from_slice(b"abcdef");
        lines.patch(4, b"EF");
        lines.patch(5, b"XX");
        lines.patch(usize::MAX, b"X");
        assert_eq!(lines.as_bytes(), b"abcdEF");
    }
}

//! Splits a sequence of JSON texts.

/// Byte before each fragment.
const SEPARATOR: u8 = 0x1E;

/// Returns whether the metadata are of CTF 2; metadata of CTF 1.8 begin with text.
pub(crate) fn is_ctf2(text: &[u8]) -> bool {
    text.first() == Some(&SEPARATOR)
}

/// The text of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FragmentText<'t> {
    /// Offset of the fragment \[byte of the whole text\].
    pub begin: usize,
    pub text: &'t [u8],
}

/// Splits the metadata into fragments. Separators with nothing but white space after them are ignored.
pub(super) fn split(text: &[u8]) -> impl Iterator<Item = FragmentText<'_>> {
    let mut begin = 0;
    let pieces = text.split(|&byte| byte == SEPARATOR).map(move |text| {
        let piece = FragmentText { begin, text };
        begin += text.len() + 1;
        piece
    });
    pieces.filter(|piece| !piece.text.trim_ascii().is_empty())
}

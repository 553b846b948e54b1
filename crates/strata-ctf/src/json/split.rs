//! A sequence of JSON texts to the texts.

/// In front of each.
const SEPARATOR: u8 = 0x1E;

/// Whether this is metadata of CTF 2: that of CTF 1.8 begins with text.
pub(crate) fn is_ctf2(text: &[u8]) -> bool {
    text.first() == Some(&SEPARATOR)
}

/// A fragment's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FragmentText<'t> {
    /// Where it begins \[byte of the whole text\].
    pub begin: usize,
    pub text: &'t [u8],
}

/// The fragments. Separators with nothing but white space behind them mean nothing.
pub(super) fn split(text: &[u8]) -> impl Iterator<Item = FragmentText<'_>> {
    let mut begin = 0;
    let pieces = text.split(|&byte| byte == SEPARATOR).map(move |text| {
        let piece = FragmentText { begin, text };
        begin += text.len() + 1;
        piece
    });
    pieces.filter(|piece| !piece.text.trim_ascii().is_empty())
}

//! Splits TSDL text into tokens.

use crate::read::metadata::error::{too_many, Fault, MetadataProblem};
use crate::read::metadata::limits;
use std::borrow::Cow;
use std::ops::Range;

/// Codes of marks with more than one character. Other marks are coded by their character.
pub(super) mod mark {
    pub const ELLIPSIS: u8 = 1;
    pub const DEFINE: u8 = 2;
    pub const ARROW: u8 = 3;
}

/// A token of TSDL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// An identifier or a keyword.
    Word(&'t str),
    Number(u64),
    /// The bytes between the quotes of a string, with their escapes.
    Text(&'t [u8]),
    Mark(u8),
    End,
}

impl Token<'_> {
    /// Returns the token as an error message shows it.
    pub fn show(&self) -> String {
        match self {
            Token::Word(word) => strata_model::printable(word),
            Token::Number(number) => format!("{number}"),
            Token::Text(text) => {
                let text = text.get(..SHOWN).unwrap_or(text);
                format!("the string {}", strata_model::printable(&String::from_utf8_lossy(text)))
            }
            Token::Mark(mark::ELLIPSIS) => "'...'".to_owned(),
            Token::Mark(mark::DEFINE) => "':='".to_owned(),
            Token::Mark(mark::ARROW) => "'->'".to_owned(),
            Token::Mark(mark) => format!("'{}'", char::from(*mark)),
            Token::End => "the end of the text".to_owned(),
        }
    }
}

/// The most bytes of a string that a message shows.
const SHOWN: usize = 1024;

/// A boundary of a block: a brace or a semicolon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge<'t> {
    /// `{`, with the word before it, which may be empty, and the position of that word.
    Open(&'t str, u32),
    Close,
    Semicolon,
    End,
}

/// Reads the tokens of a part of the text. Positions count from the begin of the whole text \[byte\].
#[derive(Clone)]
pub(super) struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    end: usize,
}

impl<'t> Lexer<'t> {
    /// Makes a lexer for the bytes `begin..end`. `text` has at most [`crate::read::metadata::limits::TEXT_BYTES`].
    pub fn new(text: &'t [u8], begin: usize, end: usize) -> Lexer<'t> {
        Lexer { text, at: begin, end: end.min(text.len()) }
    }

    /// Returns the position from which the next token is searched.
    pub fn position(&self) -> u32 {
        self.at as u32
    }

    fn rest(&self) -> &'t [u8] {
        self.text.get(self.at..self.end).unwrap_or_default()
    }

    /// Returns a part of the text that is known to be ASCII.
    fn slice(&self, begin: usize, end: usize) -> &'t str {
        let bytes = self.text.get(begin..end).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Returns the next token and its position. The lexer can be used further after a fault.
    #[inline]
    pub fn next(&mut self) -> Result<(Token<'t>, u32), Fault> {
        self.skip_space()?;
        let at = self.at;
        let rest = self.rest();
        let Some(&first) = rest.first() else {
            return Ok((Token::End, at as u32));
        };
        let second = rest.get(1).copied();
        let token = match first {
            b'L' if second == Some(b'"') => self.text(2, b'"')?,
            b'0'..=b'9' => self.number()?,
            _ if class(first) == WORD => self.word()?,
            b'"' => self.text(1, b'"')?,
            b'\'' => self.text(1, b'\'')?,
            b':' if second == Some(b'=') => self.mark(2, mark::DEFINE),
            b'-' if second == Some(b'>') => self.mark(2, mark::ARROW),
            b'.' if rest.starts_with(b"...") => self.mark(3, mark::ELLIPSIS),
            b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'<' | b'>' | b';' | b':' | b',' | b'.'
            | b'=' | b'*' | b'+' | b'-' => self.mark(1, first),
            _ => return Err(self.foreign()),
        };
        Ok((token, at as u32))
    }

    fn mark(&mut self, bytes: usize, mark: u8) -> Token<'t> {
        self.at += bytes;
        Token::Mark(mark)
    }

    fn fault(&self, at: usize, expected: &'static str, found: String) -> Fault {
        Fault::new(at as u32, MetadataProblem::Expected { expected, found })
    }

    /// Skips a character that TSDL does not have. Returns the fault.
    fn foreign(&mut self) -> Fault {
        let at = self.at;
        let rest = self.rest();
        let longest = rest.get(..4).unwrap_or(rest); // that a character is
        let chunk = longest.utf8_chunks().next();
        let character = chunk.as_ref().and_then(|chunk| chunk.valid().chars().next());
        let bad = chunk.map_or(1, |chunk| chunk.invalid().len().max(1));
        self.at += character.map_or(bad, char::len_utf8);
        let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
        let found = strata_model::printable(character.encode_utf8(&mut [0; 4]));
        self.fault(at, "a word, a number, a string or a mark", found)
    }

    /// Returns the position of the next token, or the end of the text if there is none.
    pub fn begin_of_token(&mut self) -> Result<u32, Fault> {
        self.skip_space()?;
        Ok(self.position())
    }

    /// Returns the next boundary of blocks with its position: a brace with the word before it, a semicolon, or the end.
    pub fn next_of_block(&mut self) -> Result<(Edge<'t>, u32), Fault> {
        let mut word = self.at..self.at;
        loop {
            let from = self.at;
            self.at += self.rest().iter().take_while(|byte| class(**byte) != EDGE).count();
            word = self.last_word(from, word);
            let at = self.at;
            let edge = match self.rest().first() {
                None => return Ok((Edge::End, at as u32)),
                Some(b'{') => Edge::Open(self.slice(word.start, word.end), word.start as u32),
                Some(b'}') => Edge::Close,
                Some(b';') => Edge::Semicolon,
                Some(b'/') => {
                    self.skip_space()?;
                    if self.at == at {
                        self.at += 1; // no comment
                        word = self.at..self.at;
                    }
                    continue;
                }
                Some(&quote) => {
                    self.text(1, quote)?;
                    word = self.at..self.at;
                    continue;
                }
            };
            self.at += 1;
            return Ok((edge, at as u32));
        }
    }

    /// Returns the range of the word that ends here, apart from white space. Returns `before` if there is only white
    /// space from `from` on.
    fn last_word(&self, from: usize, before: Range<usize>) -> Range<usize> {
        let passed = self.text.get(from..self.at).unwrap_or_default();
        let count_back = |bytes: &[u8], kind| {
            bytes.iter().rev().take_while(|byte| class(**byte) == kind).count()
        };
        let spaces = count_back(passed, SPACE);
        let passed = passed.get(..passed.len() - spaces).unwrap_or_default();
        match passed.is_empty() {
            true => before,
            false => self.at - spaces - count_back(passed, WORD)..self.at - spaces,
        }
    }

    /// Skips white space and comments.
    #[inline]
    fn skip_space(&mut self) -> Result<(), Fault> {
        loop {
            let rest = self.rest();
            let spaces = rest.iter().take_while(|byte| class(**byte) == SPACE).count();
            self.at += spaces;
            let rest = rest.get(spaces..).unwrap_or_default();
            if rest.first() != Some(&b'/') {
                return Ok(());
            }
            if rest.starts_with(b"//") {
                self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            } else if rest.starts_with(b"/*") {
                let begin = self.at;
                let body = rest.get(2..).unwrap_or_default();
                let Some(end) = memchr::memmem::find(body, b"*/") else {
                    self.at = self.end;
                    let what = MetadataProblem::NotClosed { what: "a comment" };
                    return Err(Fault::new(begin as u32, what));
                };
                self.at += end + 4;
            } else {
                return Ok(());
            }
        }
    }

    fn word_end(&self) -> usize {
        self.at + self.rest().iter().take_while(|byte| class(**byte) == WORD).count()
    }

    fn word(&mut self) -> Result<Token<'t>, Fault> {
        let begin = self.at;
        self.at = self.word_end();
        match self.at - begin {
            bytes if bytes > limits::NAME_BYTES => Err(long_name(begin as u32, bytes)),
            _ => Ok(Token::Word(self.slice(begin, self.at))),
        }
    }

    /// Reads a decimal, hexadecimal, octal or binary number. C's suffixes are ignored.
    fn number(&mut self) -> Result<Token<'t>, Fault> {
        let begin = self.at;
        self.at = self.word_end();
        let whole = self.slice(begin, self.at);
        let prefixed = |lower, upper| whole.strip_prefix(lower).or(whole.strip_prefix(upper));
        let (digits, radix) = match (prefixed("0x", "0X"), prefixed("0b", "0B")) {
            (Some(digits), _) => (digits, 16),
            (_, Some(digits)) => (digits, 2),
            _ if whole.len() > 1 && whole.starts_with('0') => {
                (whole.get(1..).unwrap_or_default(), 8)
            }
            _ => (whole, 10),
        };
        let digits = digits.trim_end_matches(['u', 'U', 'l', 'L']);
        let only_suffix = digits.is_empty() && radix == 8; // 0u
        match u64::from_str_radix(if only_suffix { "0" } else { digits }, radix) {
            Ok(number) => Ok(Token::Number(number)),
            Err(_) => {
                let found = strata_model::printable(whole);
                Err(self.fault(begin, "an integer, at most 18446744073709551615", found))
            }
        }
    }

    /// Reads a string, or a character constant, which means the same. `opening` is the size of the quote and of a
    /// prefix \[byte\]. The string may have several lines, but ends at a line that begins a block.
    fn text(&mut self, opening: usize, quote: u8) -> Result<Token<'t>, Fault> {
        let begin = self.at;
        self.at += opening;
        let inside = self.at;
        loop {
            let rest = self.rest();
            let Some(step) = memchr::memchr3(quote, b'\\', b'\n', rest) else {
                self.at = self.end;
                break;
            };
            self.at += step;
            match rest.get(step) {
                // The escaped byte may be a quote; further bytes of a longer character are never quotes.
                Some(b'\\') => self.at = (self.at + 2).min(self.end),
                Some(b'\n') => {
                    if begins_block(rest.get(step + 1..).unwrap_or_default()) {
                        break;
                    }
                    self.at += 1;
                }
                _ => {
                    let text = self.text.get(inside..self.at).unwrap_or_default();
                    self.at += 1;
                    return Ok(Token::Text(text));
                }
            }
        }
        Err(Fault::new(begin as u32, MetadataProblem::NotClosed { what: "a string" }))
    }
}

/// Makes the fault for a name that exceeds the limit.
pub(super) fn long_name(at: u32, bytes: usize) -> Fault {
    too_many(at, "bytes of a name", bytes as u64, limits::NAME_BYTES as u64)
}

/// Returns whether a line begins a block, like `event {`.
fn begins_block(line: &[u8]) -> bool {
    const BLOCKS: [&[u8]; 6] = [b"trace", b"env", b"clock", b"stream", b"event", b"callsite"];
    BLOCKS.iter().any(|word| {
        let brace =
            line.strip_prefix(*word).and_then(|rest| rest.iter().find(|byte| **byte != b' '));
        brace == Some(&b'{')
    })
}

const SPACE: u8 = 1;
const WORD: u8 = 2;
/// The class of bytes at which [`Lexer::next_of_block`] stops.
const EDGE: u8 = 3;

/// The class of each byte.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C => SPACE,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => WORD,
            b'{' | b'}' | b';' | b'"' | b'\'' | b'/' => EDGE,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

#[inline]
fn class(byte: u8) -> u8 {
    CLASSES[usize::from(byte)]
}

/// Decodes a string: replaces C's escapes. A byte that is not part of UTF-8 text becomes U+FFFD.
pub(super) fn unescape(text: &[u8]) -> Cow<'_, str> {
    if memchr::memchr(b'\\', text).is_none() {
        return String::from_utf8_lossy(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text;
    while let Some((&byte, rest)) = bytes.split_first() {
        bytes = rest;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some((&kind, after)) = rest.split_first() else { break };
        let (value, after) = match kind {
            b'a' => (7, after),
            b'b' => (8, after),
            b'f' => (12, after),
            b'n' => (b'\n', after),
            b'r' => (b'\r', after),
            b't' => (b'\t', after),
            b'v' => (11, after),
            b'0'..=b'7' => digits(rest, 8, 3),
            b'x' => digits(after, 16, 2),
            other => (other, after),
        };
        out.push(value);
        bytes = after;
    }
    match String::from_utf8(out) {
        Ok(text) => Cow::Owned(text),
        Err(error) => Cow::Owned(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

/// Reads a number of at most `most` digits, reduced to a byte. Returns the byte, and the bytes after the digits.
fn digits(text: &[u8], radix: u32, most: usize) -> (u8, &[u8]) {
    let values = text.iter().take(most).map_while(|byte| char::from(*byte).to_digit(radix));
    let (count, value) =
        values.fold((0, 0), |(count, value), digit| (count + 1, value * radix + digit));
    (value as u8, text.get(count..).unwrap_or_default())
}

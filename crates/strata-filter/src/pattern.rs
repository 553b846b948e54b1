//! Text with `*` and `?`.

use std::fmt;

use crate::word_classes::is_bare;

/// A pattern of literal bytes and wildcards.
///
/// In a parsed filter, no text part is empty, and there are never two neighbouring parts of [`PatternPart::Text`] or of
/// [`PatternPart::Any`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The parts in order. A pattern without parts matches only the empty text.
    pub parts: Vec<PatternPart>,
}

/// A part of a [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PatternPart {
    /// Literal bytes of the text.
    Text(Vec<u8>),
    /// Wildcard `?`: one character, which is a byte and all bytes `10xxxxxx` directly after it, whether or not the text
    /// is UTF-8.
    One,
    /// Wildcard `*`: any number of bytes, including none.
    Any,
}

impl Pattern {
    /// Makes a pattern that matches only these bytes.
    pub fn literal(bytes: impl Into<Vec<u8>>) -> Pattern {
        let mut pattern = Pattern::default();
        pattern.push(PatternPart::Text(bytes.into()));
        pattern
    }

    /// Makes the pattern of a bare word: `*` and `?` are wildcards, all other characters are literal.
    pub fn glob(word: &str) -> Pattern {
        let mut pattern = Pattern::default();
        for char in word.chars() {
            match char {
                '*' => pattern.push(PatternPart::Any),
                '?' => pattern.push(PatternPart::One),
                _ => pattern
                    .push(PatternPart::Text(char.encode_utf8(&mut [0; 4]).as_bytes().to_vec())),
            }
        }
        pattern
    }

    /// Appends a part and joins it with a neighbour of the same kind.
    pub fn push(&mut self, part: PatternPart) {
        match (self.parts.last_mut(), part) {
            (_, PatternPart::Text(more)) if more.is_empty() => (),
            (Some(PatternPart::Text(bytes)), PatternPart::Text(more)) => bytes.extend(more),
            (Some(PatternPart::Any), PatternPart::Any) => (),
            (_, part) => self.parts.push(part),
        }
    }

    /// Returns the text with which the pattern begins, up to a wildcard.
    pub(crate) fn beginning(&self) -> &[u8] {
        match self.parts.first() {
            Some(PatternPart::Text(text)) => text,
            _ => &[],
        }
    }

    /// Returns the text that matches, if it is the only one.
    pub fn exact(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(&[]),
            [PatternPart::Text(bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// Returns whether the whole text matches the pattern. Allocates nothing. The time is at most proportional to the
    /// product of both lengths, usually to the text's length.
    #[inline]
    pub fn matches(&self, text: &[u8]) -> bool {
        match self.exact() {
            Some(bytes) => bytes == text,
            None => self.matches_parts(text),
        }
    }

    fn matches_parts(&self, text: &[u8]) -> bool {
        if matches!(self.parts.last(), Some(PatternPart::Text(bytes)) if !text.ends_with(bytes)) {
            return false;
        }
        let (mut part, mut at) = (0, 0);
        // The part after the last `*`, and where in the text it was last tried. Only the last `*` is ever tried again:
        // the parts between two `*` cannot end earlier than at their first match.
        let mut again = None;
        loop {
            let rest = text.get(at..).unwrap_or_default();
            match self.parts.get(part) {
                None if rest.is_empty() => return true,
                Some(PatternPart::Any) => {
                    part += 1;
                    if part == self.parts.len() {
                        return true;
                    }
                    again = Some((part, at));
                    continue;
                }
                Some(PatternPart::Text(bytes)) if rest.starts_with(bytes) => {
                    (part, at) = (part + 1, at + bytes.len());
                    continue;
                }
                Some(PatternPart::One) if !rest.is_empty() => {
                    (part, at) = (part + 1, at + character(rest));
                    continue;
                }
                _ => (),
            }
            match again {
                Some((behind, tried)) if tried < text.len() => {
                    (part, at) = (behind, tried + 1);
                    again = Some((part, at));
                }
                _ => return false,
            }
        }
    }

    /// Returns the pattern as a bare word, if it can be written so.
    pub(crate) fn bare(&self) -> Option<String> {
        let mut word = String::new();
        for part in &self.parts {
            match part {
                PatternPart::Text(bytes) => {
                    let text = std::str::from_utf8(bytes).ok()?;
                    word.push_str(text);
                    if text.contains(['*', '?']) {
                        return None;
                    }
                }
                PatternPart::One => word.push('?'),
                PatternPart::Any => word.push('*'),
            }
        }
        is_bare(&word).then_some(word)
    }
}

/// Returns the size of the first character \[byte\]. The text must not be empty.
fn character(text: &[u8]) -> usize {
    let follow = |byte: &&u8| **byte & 0xc0 == 0x80;
    1 + text.get(1..).unwrap_or_default().iter().take_while(follow).count()
}

/// Formats the pattern in double quotes, with the necessary escapes.
impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("\"")?;
        for part in &self.parts {
            match part {
                PatternPart::One => out.write_str("?")?,
                PatternPart::Any => out.write_str("*")?,
                PatternPart::Text(bytes) => escape(out, bytes)?,
            }
        }
        out.write_str("\"")
    }
}

fn escape(out: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\n' => out.write_str("\\n")?,
                '\t' => out.write_str("\\t")?,
                '\r' => out.write_str("\\r")?,
                '"' | '\\' | '*' | '?' => write!(out, "\\{char}")?,
                _ if char.is_control() => {
                    for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                        write!(out, "\\x{byte:02x}")?;
                    }
                }
                _ => write!(out, "{char}")?,
            }
        }
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_random::Random;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::glob(pattern).matches(text.as_bytes())
    }

    #[test]
    fn matches_star_and_question_mark() {
        for (pattern, text) in [
            ("*", ""),
            ("*", "abc"),
            ("abc", "abc"),
            ("a*", "a"),
            ("*c", "abc"),
            ("*b*", "abc"),
            ("a?c", "abc"),
            ("a*b*c", "aXbYbZc"),
            ("*ab", "aab"),
            ("?*", "a"),
            ("", ""),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("abc", "abcd"), ("a*", "ba"), ("?", ""), ("a?c", "ac"), ("*b*", "acd"), ("", "a")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn question_mark_is_one_character_of_several_bytes() {
        assert!(matches("caf?", "café"));
        assert!(!matches("caf??", "café"));
        assert!(matches("?", "磁"));
        assert!(matches("*??", "磁気") && !matches("*???", "磁気"));
        assert!(Pattern::glob("a?b").matches(b"a\xffb"), "not UTF-8: one byte");
    }

    /// Matches a text according to the definition of patterns: tries every place for every `*`.
    fn matches_slowly(parts: &[PatternPart], text: &[u8]) -> bool {
        match parts.split_first() {
            None => text.is_empty(),
            Some((PatternPart::Any, rest)) => {
                (0..=text.len()).any(|skip| matches_slowly(rest, &text[skip..]))
            }
            Some((PatternPart::One, rest)) => {
                !text.is_empty() && matches_slowly(rest, &text[character(text)..])
            }
            Some((PatternPart::Text(bytes), rest)) => {
                text.strip_prefix(bytes.as_slice()).is_some_and(|text| matches_slowly(rest, text))
            }
        }
    }

    #[test]
    fn matches_random_texts_as_by_definition() {
        let mut random = Random::new();
        let mut hits = 0;
        for _ in 0..50_000 {
            let mut pattern = Pattern::default();
            for _ in 0..random.below(7) {
                pattern.push(match random.below(4) {
                    0 => PatternPart::Any,
                    1 => PatternPart::One,
                    _ => PatternPart::Text(vec![random.pick(&[b'a', b'b', 0xc3, 0xa9])]),
                });
            }
            let text: Vec<u8> =
                (0..random.below(9)).map(|_| random.pick(&[b'a', b'b', 0xc3, 0xa9])).collect();
            let wanted = matches_slowly(&pattern.parts, &text);
            assert_eq!(pattern.matches(&text), wanted, "{pattern} {text:?}");
            hits += usize::from(wanted);
        }
        assert!(hits > 1000, "{hits} of 50,000 matched: the texts are not alike enough");
    }

    #[test]
    fn display_escapes_what_would_be_read_otherwise() {
        let mut pattern = Pattern::literal(&b"a\"\\*?\n\x01\xff"[..]);
        pattern.push(PatternPart::Any);
        assert_eq!(pattern.to_string(), r#""a\"\\\*\?\n\x01\xff*""#);
    }
}

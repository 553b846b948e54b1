//! The only writer of JSON. Characters on which a terminal, an editor or a script would act are written as `\uXXXX`,
//! which every JSON reader takes for the same character. This holds for files as well, since they may be shown later.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};
use serde_json::Serializer;

use crate::controls_display;

/// Formats `value` on one line.
#[must_use]
pub fn compact(value: &(impl Serialize + ?Sized)) -> String {
    text(value, CompactFormatter)
}

/// Formats `value` with each member on its own line, without a final line end.
#[must_use]
pub fn indented(value: &(impl Serialize + ?Sized)) -> String {
    text(value, PrettyFormatter::new())
}

/// Formats a value that JSON may not be able to express, such as a map whose keys are not texts.
///
/// # Errors
/// JSON cannot express the value.
pub fn try_compact(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    try_text(value, CompactFormatter)
}

fn text(value: &(impl Serialize + ?Sized), layout: impl Formatter) -> String {
    try_text(value, layout).unwrap_or_else(|_| "null".to_owned())
}

fn try_text(
    value: &(impl Serialize + ?Sized),
    layout: impl Formatter,
) -> serde_json::Result<String> {
    let mut out = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut out, Escaping(layout)))?;
    // The output is UTF-8: texts are, and everything else is ASCII.
    Ok(String::from_utf8(out).unwrap_or_default())
}

/// Appends `text` as a JSON string. Bytes that are not UTF-8 become U+FFFD.
#[inline]
pub fn quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    // Names and most values are short and plain.
    match text.iter().all(|&byte| is_plain(byte)) {
        true => out.extend_from_slice(text),
        false => quoted_chunks(out, text),
    }
    out.push(b'"');
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e) && byte != b'"' && byte != b'\\'
}

fn quoted_chunks(out: &mut Vec<u8>, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.bytes().position(|byte| !is_plain(byte)) {
            let (plain, behind) = rest.split_at(at);
            out.extend_from_slice(plain.as_bytes());
            let Some(character) = behind.chars().next() else { break };
            put(out, character);
            rest = behind.get(character.len_utf8()..).unwrap_or_default();
        }
        out.extend_from_slice(rest.as_bytes());
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

fn put(out: &mut Vec<u8>, character: char) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        other if controls_display(other) => escape(out, other),
        other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Appends `character` as an escape such as `\u009b`; a character beyond U+FFFF becomes a pair of escapes.
fn escape(out: &mut Vec<u8>, character: char) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for unit in character.encode_utf16(&mut [0; 2]) {
        out.extend_from_slice(b"\\u");
        out.extend([12, 8, 4, 0].map(|shift| HEX[usize::from(*unit >> shift & 15)]));
    }
}

/// A layout of serde_json, but with strings as [`quoted`] writes them.
struct Escaping<F>(F);

macro_rules! by_the_layout {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(fn $name<W: ?Sized + Write>(&mut self, out: &mut W $(, $argument: $kind)*) -> io::Result<()> {
            self.0.$name(out $(, $argument)*)
        })*
    };
}

impl<F: Formatter> Formatter for Escaping<F> {
    by_the_layout! {
        begin_array();
        end_array();
        begin_array_value(is_first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(is_first: bool);
        end_object_key();
        begin_object_value();
        end_object_value();
    }

    /// Writes a piece of a string in which serde_json needs no escapes.
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.bytes().all(is_plain) {
            return out.write_all(fragment.as_bytes());
        }
        let mut escaped = Vec::with_capacity(fragment.len() + 16);
        quoted_chunks(&mut escaped, fragment.as_bytes());
        out.write_all(&escaped)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, Value};

    use super::*;

    /// Returns a text with every character that is escaped, and with some that are not.
    fn hostile() -> String {
        ('\0'..=char::MAX)
            .filter(|&it| controls_display(it))
            .chain("\"\\/ aü中🦀".chars())
            .collect()
    }

    fn assert_harmless(text: &str) {
        let found = text.chars().find(|&it| controls_display(it) && it != '\n');
        assert_eq!(found, None, "{found:?} is in what was written");
    }

    #[test]
    fn malicious_strings_are_escaped_and_read_back_as_they_were() {
        let hostile = hostile();
        let value =
            json!({ hostile.as_str(): [&hostile, { "in": { "deep": hostile } }], "n": -1.5e300 });
        for text in [compact(&value), indented(&value), try_compact(&value).unwrap()] {
            assert_harmless(&text);
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
        assert!(!compact(&value).contains('\n'));
        let mut out = Vec::new();
        quoted(&mut out, hostile.as_bytes());
        let text = String::from_utf8(out).unwrap();
        assert_harmless(&text);
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), hostile);
        assert_eq!(compact(&"\u{9b}\u{e0041}"), r#""\u009b\udb40\udc41""#);
    }

    #[test]
    fn malicious_bytes_that_are_no_text_become_valid_utf_8() {
        let mut out = Vec::new();
        quoted(&mut out, b"a\"b\\\n\x01\x7f\xff\xfe\xc3\xbc\xe2\x82");
        let wanted = "\"a\\\"b\\\\\\n\\u0001\\u007f\u{fffd}\u{fffd}ü\u{fffd}\"";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }

    #[test]
    fn layout_is_that_of_serde_json() {
        let value =
            json!({ "a": [1, "x", null, true, 1.5], "b": {}, "c": [], "d": { "e": "\n\t\"" } });
        assert_eq!(compact(&value), value.to_string());
        assert_eq!(indented(&value), format!("{value:#}"));
    }

    #[test]
    fn value_that_json_has_none_for_is_an_error() {
        let map = std::collections::BTreeMap::from([(vec![1], 2)]);
        assert!(try_compact(&map).is_err());
    }
}

//! Names that a program chose, as text, and the names of log levels.

use strata_text::controls_display;

use crate::limits;

/// Names of log levels in LTTng's words, indexed by level.
pub const LEVEL_NAMES: [&str; limits::LOGLEVEL as usize + 1] = [
    "emerg",
    "alert",
    "crit",
    "err",
    "warning",
    "notice",
    "info",
    "debug_system",
    "debug_program",
    "debug_process",
    "debug_module",
    "debug_unit",
    "debug_function",
    "debug_line",
    "debug",
];

/// Returns whether `name` is a C identifier: a letter or `_`, then letters, digits or `_`; ASCII only.
pub fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first == b'_' || first.is_ascii_alphabetic())
        && bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

/// Returns `text` in quotes for a message: with control characters escaped, and at most 80 characters long.
pub fn printable(text: &str) -> String {
    const SHOWN: usize = 80;
    let mut out = String::from("'");
    for (shown, character) in text.chars().enumerate() {
        if shown == SHOWN {
            out.push_str("...");
            break;
        }
        match character {
            '"' => out.push('"'),
            other if controls_display(other) && !other.is_ascii() => {
                out.extend(other.escape_default());
            }
            other => out.extend(other.escape_debug()),
        }
    }
    out.push('\'');
    out
}

/// Converts `bytes` to text. Each byte that is not part of UTF-8 text becomes `\xNN`.
///
/// Different names stay different, unless a valid name itself contains such an escape.
pub fn text_from_bytes(mut bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    while !bytes.is_empty() {
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                out.push_str(text);
                break;
            }
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                // These bytes were just found valid, so that none is replaced.
                out.push_str(&String::from_utf8_lossy(valid));
                let bad = error.error_len().unwrap_or(rest.len());
                for byte in &rest[..bad] {
                    out.push_str(&format!("\\x{byte:02x}"));
                }
                bytes = &rest[bad..];
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifier_of_c_is_accepted() {
        for name in ["a", "_", "A9", "__x", "struct"] {
            assert!(is_identifier(name), "{name}");
        }
    }

    #[test]
    fn identifier_with_anything_else_is_refused() {
        for name in ["", "9a", "a b", "a.b", "a-b", "é", "a\n", "a;b", "a\0"] {
            assert!(!is_identifier(name), "{name:?}");
        }
    }

    #[test]
    fn printable_with_controls_escapes_them() {
        assert_eq!(printable("a\x1b[2J\n\0'\"é"), "'a\\u{1b}[2J\\n\\0\\'\"é'");
    }

    #[test]
    fn printable_when_long_is_cut() {
        let shown = printable(&"x".repeat(1000));
        assert_eq!(shown, format!("'{}...'", "x".repeat(80)));
    }

    #[test]
    fn text_from_valid_bytes_is_the_same() {
        assert_eq!(text_from_bytes("grüße".as_bytes()), "grüße");
        assert_eq!(text_from_bytes(b""), "");
    }

    #[test]
    fn text_from_other_bytes_escapes_them_alone() {
        assert_eq!(text_from_bytes(b"a\xff\xfeb"), "a\\xff\\xfeb");
        assert_eq!(text_from_bytes(b"caf\xe9"), "caf\\xe9");
        assert_eq!(text_from_bytes(b"\xe2\x82"), "\\xe2\\x82");
        assert_eq!(text_from_bytes(b"\xc3\xa9\xc3"), "é\\xc3");
    }
}

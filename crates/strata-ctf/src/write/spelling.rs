//! Spells names and texts in TSDL so that no character in them can end them.

use std::collections::HashSet;
use strata_model::is_identifier;

/// Words that are reserved in TSDL's grammar or by a reader.
const KEYWORDS: &[&str] = &[
    "align",
    "callsite",
    "char",
    "clock",
    "const",
    "double",
    "enum",
    "env",
    "event",
    "float",
    "floating_point",
    "int",
    "integer",
    "long",
    "short",
    "signed",
    "stream",
    "string",
    "struct",
    "trace",
    "typealias",
    "typedef",
    "unsigned",
    "variant",
    "void",
    "_Bool",
    "_Complex",
    "_Imaginary",
    "true",
    "false",
    "TRUE",
    "FALSE",
];

/// Returns `text` as a string literal with quotes. A NUL becomes U+FFFD, because it would end the text for a reader in
/// C.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\0' => out.push('\u{fffd}'),
            // An octal escape has three digits at most; a hexadecimal one would include the digits after it.
            '\u{1}'..='\u{1f}' | '\u{7f}' => {
                out.push_str(&format!("\\{:03o}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// The identifiers of one scope, each of which is given once.
#[derive(Default)]
pub(crate) struct Identifiers {
    taken: HashSet<String>,
}

impl Identifiers {
    /// Returns `wanted` with each invalid character replaced by `_`, followed by a number if the name is given already.
    pub(crate) fn give(&mut self, wanted: &str) -> String {
        let base = identifier(wanted);
        let mut name = base.clone();
        let mut number = 2u32;
        while !self.taken.insert(name.clone()) {
            name = format!("{base}_{number}");
            number += 1;
        }
        name
    }
}

/// Gives identifiers to a payload's members, in their order. Each begins with `_`, so that it is never a keyword;
/// readers remove the `_`.
///
/// babeltrace2 2.0.4 refuses a trace in which a member's name with its `_` equals an earlier member's name without it,
/// such as `__x` (shown as `_x`) followed by `_x`. Such names are avoided.
#[derive(Default)]
pub(crate) struct MemberNames {
    /// Names of fields that are identifiers; no other field may get these.
    reserved: HashSet<String>,
    given: HashSet<String>,
    /// The given names, without the `_`.
    shown: HashSet<String>,
}

impl MemberNames {
    /// Prepares names for fields with these names.
    pub(crate) fn new<'a>(fields: impl Iterator<Item = &'a str>) -> MemberNames {
        let reserved = fields.filter(|name| is_identifier(name)).map(|name| format!("_{name}"));
        MemberNames { reserved: reserved.collect(), ..MemberNames::default() }
    }

    /// Returns the name of the next member, a field called `wanted`: that name itself if it is an identifier.
    pub(crate) fn field(&mut self, wanted: &str) -> String {
        self.give(format!("_{wanted}"), is_identifier(wanted))
    }

    /// Returns the name of the next member, which is the length of the sequence `wanted` after it.
    pub(crate) fn length(&mut self, wanted: &str) -> String {
        self.give(format!("__{wanted}_length"), false)
    }

    fn give(&mut self, wanted: String, is_its_own: bool) -> String {
        let base = identifier(&wanted);
        let mut name = base.clone();
        let mut number = 2u32;
        while !self.is_free(&name, is_its_own && number == 2) {
            name = format!("{base}_{number}");
            number += 1;
        }
        self.shown.insert(name[1..].to_owned());
        self.given.insert(name.clone());
        name
    }

    fn is_free(&self, name: &str, is_its_own: bool) -> bool {
        let is_reserved = || self.reserved.contains(name) || self.reserved.contains(&name[1..]);
        !self.given.contains(name) && !self.shown.contains(name) && (is_its_own || !is_reserved())
    }
}

/// Returns `wanted` as an identifier that is not a keyword.
pub(crate) fn identifier(wanted: &str) -> String {
    if is_identifier(wanted) && !KEYWORDS.contains(&wanted) {
        return wanted.to_owned();
    }
    let mut out = String::with_capacity(wanted.len() + 1);
    let digit_first = wanted.starts_with(|first: char| first.is_ascii_digit());
    if wanted.is_empty() || digit_first || KEYWORDS.contains(&wanted) {
        out.push('_');
    }
    out.extend(wanted.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quote_with_quotes_and_controls_escapes_them() {
        assert_eq!(quote("plain"), "\"plain\"");
        assert_eq!(quote("a\"b\\c\nd\te"), "\"a\\\"b\\\\c\\nd\\te\"");
        assert_eq!(quote("\x01\x1b7\x7f"), "\"\\001\\0337\\177\"");
        assert_eq!(quote("a\0b"), "\"a\u{fffd}b\"");
        assert_eq!(quote("é"), "\"é\"");
    }

    #[test]
    fn quote_of_every_character_leaves_no_way_out() {
        for character in (0..0x250).filter_map(char::from_u32) {
            let quoted = quote(&format!("{character}\"{character}"));
            let inside = &quoted[1..quoted.len() - 1];
            let mut escaped = false;
            for c in inside.chars() {
                assert!(c >= ' ' && c != '\x7f', "{quoted:?}");
                assert!(escaped || c != '"', "{quoted:?}");
                escaped = !escaped && c == '\\';
            }
            assert!(!escaped, "{quoted:?}");
        }
    }

    #[test]
    fn identifier_of_anything_is_one() {
        let odd = ["", "9", "a b", "é", "event", "_Bool", "a;};", "\"", "\n", "x\0y", "::", "\\"];
        for name in odd {
            let made = identifier(name);
            assert!(is_identifier(&made), "{name:?} {made:?}");
            assert!(!KEYWORDS.contains(&made.as_str()), "{made:?}");
        }
        assert_eq!(identifier("event"), "_event");
        assert_eq!(identifier("a.b-c"), "a_b_c");
    }

    #[test]
    fn give_of_a_taken_name_numbers_it() {
        let mut names = Identifiers::default();
        assert_eq!(names.give("a_b"), "a_b");
        assert_eq!(names.give("a b"), "a_b_2");
        assert_eq!(names.give("a.b"), "a_b_3");
        assert_eq!(names.give("a_b_2"), "a_b_2_2");
    }

    /// Returns the names that the members get. `*` before a field's name marks a sequence.
    fn members(wanted: &[&str]) -> Vec<String> {
        let mut names = MemberNames::new(wanted.iter().map(|name| name.trim_start_matches('*')));
        let mut given = Vec::new();
        for name in wanted {
            match name.strip_prefix('*') {
                Some(name) => given.extend([names.length(name), names.field(name)]),
                None => given.push(names.field(name)),
            }
        }
        given
    }

    #[test]
    fn members_with_identifiers_keep_them() {
        assert_eq!(members(&["a b", "a.b", "a_b"]), ["_a_b_2", "_a_b_3", "_a_b"]);
        assert_eq!(members(&["x", "_x", "__x"]), ["_x", "__x", "___x"]);
        assert_eq!(members(&["event", "_", ""]), ["_event", "__", "__2"]);
    }

    #[test]
    fn members_that_readers_would_take_for_one_are_numbered() {
        assert_eq!(members(&["_x", "x"]), ["__x", "_x_2"]);
        assert_eq!(members(&["__x", "x", "_x"]), ["___x", "_x", "__x_2"]);
        assert_eq!(members(&["-x", "x"]), ["__x_2", "_x"]);
    }

    #[test]
    fn lengths_leave_their_names_to_fields() {
        assert_eq!(members(&["*a"]), ["__a_length", "_a"]);
        assert_eq!(members(&["*a", "a_length"]), ["__a_length_2", "_a", "_a_length"]);
        assert_eq!(members(&["*a", "_a_length"]), ["__a_length_2", "_a", "__a_length"]);
        assert_eq!(members(&["a_length", "*a"]), ["_a_length", "__a_length_2", "_a"]);
        let both = members(&["*a b", "*a_b"]);
        assert_eq!(both, ["__a_b_length", "_a_b_2", "__a_b_length_2", "_a_b"]);
    }
}

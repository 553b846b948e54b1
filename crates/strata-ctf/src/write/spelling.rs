//! The spelling of names and text in TSDL, such that nothing in them ends them.

use std::collections::HashSet;
use strata_model::is_identifier;

/// Words that TSDL's grammar, or that of a reader, has for itself.
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

/// `text` as a string literal with its quotes. A NUL, which would end the text for a reader in C,
/// becomes U+FFFD.
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
            // Three octal digits end by themselves; a hexadecimal escape takes all that follow.
            '\u{1}'..='\u{1f}' | '\u{7f}' => {
                out.push_str(&format!("\\{:03o}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// Identifiers of one scope, each given once.
#[derive(Default)]
pub(crate) struct Identifiers {
    taken: HashSet<String>,
}

impl Identifiers {
    /// `wanted`, each of its characters that an identifier cannot have replaced by `_`, and a
    /// number behind it if that is taken.
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

/// Identifiers of a payload's members, given in their order. Each begins with `_`, which keeps it
/// off the keywords; readers take that away again.
///
/// babeltrace2 2.0.4 refuses a trace in which a member is called, with its `_`, as an earlier one
/// is without: `__x` (shown as `_x`) and then `_x`. So that does not happen here.
#[derive(Default)]
pub(crate) struct MemberNames {
    /// Of the fields whose names are identifiers: only those fields have them.
    reserved: HashSet<String>,
    given: HashSet<String>,
    /// As `given`, without the `_`.
    shown: HashSet<String>,
}

impl MemberNames {
    /// For fields of these names.
    pub(crate) fn new<'a>(fields: impl Iterator<Item = &'a str>) -> MemberNames {
        let reserved = fields.filter(|name| is_identifier(name)).map(|name| format!("_{name}"));
        MemberNames { reserved: reserved.collect(), ..MemberNames::default() }
    }

    /// The next member's, a field of the name `wanted`: that, if it is an identifier.
    pub(crate) fn field(&mut self, wanted: &str) -> String {
        self.give(format!("_{wanted}"), is_identifier(wanted))
    }

    /// The next member's, the length of the sequence of the name `wanted`, which follows.
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

/// `wanted` as an identifier that is no keyword.
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

    /// The names given to members; a sequence's name is behind a `*`.
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

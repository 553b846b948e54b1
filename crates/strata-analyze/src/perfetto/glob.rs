//! Names with `*` for any text.

/// A name, or many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    parts: Vec<String>,
}

impl Glob {
    pub(super) fn new(text: &str) -> Glob {
        Glob { parts: text.split('*').map(str::to_owned).collect() }
    }

    /// How many `*` it has.
    pub(super) fn stars(&self) -> usize {
        self.parts.len().saturating_sub(1)
    }

    /// Whether the name is one of these. In time of at most the product of both lengths.
    pub(super) fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.parts.split_first() else { return false };
        let Some(mut name) = name.strip_prefix(first.as_str()) else { return false };
        let Some((last, middle)) = rest.split_last() else { return name.is_empty() };
        for part in middle {
            match name.find(part.as_str()).and_then(|at| name.get(at + part.len()..)) {
                Some(behind) => name = behind,
                None => return false,
            }
        }
        name.ends_with(last.as_str())
    }

    /// What the one `*` stands for in this name; nothing without one.
    pub(super) fn capture<'n>(&self, name: &'n str) -> Option<&'n str> {
        match self.parts.as_slice() {
            [whole] => (whole == name).then_some(""),
            [before, behind] => name.strip_prefix(before.as_str())?.strip_suffix(behind.as_str()),
            _ => None,
        }
    }

    /// The name with this text for each `*`.
    pub(super) fn with(&self, text: &str) -> String {
        self.parts.join(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_matches_any_text_for_its_stars() {
        for (glob, name, wanted) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*", "a", true),
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acb", false),
            ("ab*ba", "aba", false),
            ("*b*", "abc", true),
            ("*b*b*", "abc", false),
            ("**", "x", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(Glob::new(glob).matches(name), wanted, "{glob} {name}");
        }
    }

    #[test]
    fn glob_captures_what_its_star_stands_for() {
        assert_eq!(Glob::new("a*c").capture("abbc"), Some("bb"));
        assert_eq!(Glob::new("ab*ba").capture("aba"), None);
        assert_eq!(Glob::new("abc").capture("abc"), Some(""));
        assert_eq!(Glob::new("x*y").with("12"), "x12y");
        assert_eq!(Glob::new("xy").with(""), "xy");
    }
}

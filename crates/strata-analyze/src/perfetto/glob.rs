//! Names in which a `*` stands for the same text as in another one. What only matches is a
//! [`Pattern`](strata_filter::Pattern).

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
    fn glob_captures_what_its_star_stands_for() {
        assert_eq!(Glob::new("a*c").capture("abbc"), Some("bb"));
        assert_eq!(Glob::new("ab*ba").capture("aba"), None);
        assert_eq!(Glob::new("abc").capture("abc"), Some(""));
        assert_eq!(Glob::new("x*y").with("12"), "x12y");
        assert_eq!(Glob::new("xy").with(""), "xy");
    }
}

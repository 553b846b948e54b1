//! Names in which `*` stands for a text that can be inserted into another name. Patterns that are only matched are in
//! `strata-filter`.

/// A name that may contain `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob {
    parts: Vec<String>,
}

impl Glob {
    pub(crate) fn new(text: &str) -> Glob {
        Glob { parts: text.split('*').map(str::to_owned).collect() }
    }

    /// Returns the number of `*` in the pattern.
    pub(crate) fn stars(&self) -> usize {
        self.parts.len().saturating_sub(1)
    }

    /// Returns the part of `name` that the only `*` stands for; empty if the pattern has none. Returns `None` if the
    /// name does not match.
    pub(crate) fn capture<'n>(&self, name: &'n str) -> Option<&'n str> {
        match self.parts.as_slice() {
            [whole] => (whole == name).then_some(""),
            [before, behind] => name.strip_prefix(before.as_str())?.strip_suffix(behind.as_str()),
            _ => None,
        }
    }

    /// Returns the name with this text in place of each `*`.
    pub(crate) fn with(&self, text: &str) -> String {
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

//! Event rules, as the user writes them and as the shared memory holds them.
//!
//! The user's text is `[!]provider[:event][@[=]level]`; the canonical one, which processes and tracers
//! match by the same C code (`strata/abi/rule.h`), always has an event and a level in digits.

use std::ffi::{c_char, c_int};
use std::fmt;

use strata_abi::user;
use strata_model::{printable, LEVEL_NAMES};

/// Names of the log levels, as many as the shared memory can hold.
const LEVELS: [&str; user::LEVEL_MAX as usize + 1] = LEVEL_NAMES;

/// Returns the name of a log level; `None` if the level does not exist.
#[must_use]
pub fn level_name(level: u8) -> Option<&'static str> {
    LEVELS.get(usize::from(level)).copied()
}

/// Returns the log level with this name or number, regardless of case.
#[must_use]
pub fn level_from_name(name: &str) -> Option<u8> {
    if !name.is_empty() && name.len() <= 2 && name.bytes().all(|byte| byte.is_ascii_digit()) {
        return name.parse().ok().filter(|level| *level <= user::LEVEL_MAX as u8);
    }
    LEVELS.iter().position(|known| known.eq_ignore_ascii_case(name)).map(|level| level as u8)
}

/// Why a rule is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The list has no rules.
    #[error("event rules: none was given. '*' selects every tracepoint")]
    None,
    /// A rule is empty.
    #[error("event rule number {number}: it is empty. Write PROVIDER:EVENT, or '*' for all")]
    Empty {
        /// Position of the rule, from 1.
        number: usize,
    },
    /// The rule has no provider before the colon.
    #[error("event rule {}: no provider. Write '*:EVENT' for any", printable(.rule))]
    NoProvider { rule: String },
    /// The rule has no event after the colon.
    #[error("event rule {}: no event behind ':'. Write '*' for all", printable(.rule))]
    NoEvent { rule: String },
    /// The text after '@' is no level.
    #[error(
        "event rule {}: level {} is unknown. Levels are {} or 0 to {}, with '=' in front for exactly \
         this one", printable(.rule), printable(.found), LEVELS.join(", "), user::LEVEL_MAX
    )]
    Level {
        rule: String,
        /// Text that was found.
        found: String,
    },
    /// The rule ends with a backslash.
    #[error("event rule {}: nothing behind the last '\\'. Write '\\\\' for one", printable(.rule))]
    Backslash { rule: String },
    /// The rule has a control character.
    #[error("event rule {}: a control character (U+{:04X}); no tracepoint has one in its name",
            printable(.rule), u32::from(*.found))]
    Character {
        rule: String,
        /// First control character.
        found: char,
    },
    /// The rules together are longer than a session slot holds.
    #[error(
        "event rules: {bytes} bytes together; the limit is {limit}. Use '*' to say more with less"
    )]
    TooLong {
        /// Size of the canonical text \[byte\].
        bytes: usize,
        /// The most bytes of rules that fit into a session slot.
        limit: usize,
    },
}

/// Mirrors `struct strata_abi_rule_subject`.
#[repr(C)]
struct RuleSubject {
    provider: *const c_char,
    provider_bytes: usize,
    name: *const c_char,
    name_bytes: usize,
    level: u32,
}

impl RuleSubject {
    /// Creates the subject for matching a rule: a tracepoint's names and level.
    fn new(provider: &[u8], name: &[u8], level: u8) -> RuleSubject {
        RuleSubject {
            provider: provider.as_ptr().cast(),
            provider_bytes: provider.len(),
            name: name.as_ptr().cast(),
            name_bytes: name.len(),
            level: level.into(),
        }
    }
}

unsafe extern "C" {
    fn strata_user_rules_select(
        rules: *const c_char,
        bytes: usize,
        subject: *const RuleSubject,
    ) -> c_int;
    fn strata_user_rule_matches(
        rule: *const c_char,
        bytes: usize,
        subject: *const RuleSubject,
    ) -> c_int;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    text: String,
    canonical: String,
}

impl Rule {
    fn parse(text: &str, number: usize) -> Result<Rule, RuleError> {
        let rule = || text.to_owned();
        if text.is_empty() {
            return Err(RuleError::Empty { number });
        }
        if let Some(found) = text.chars().find(|character| character.is_control()) {
            return Err(RuleError::Character { rule: rule(), found });
        }
        if is_escaped_end(text) {
            return Err(RuleError::Backslash { rule: rule() });
        }
        let (exclusion, pattern) = match text.strip_prefix('!') {
            Some(rest) => ("!", rest),
            None => ("", text),
        };
        let (names, level) = split_unescaped(pattern, '@');
        let (provider, event) = split_unescaped(names, ':');
        let event = event.unwrap_or("*");
        if provider.is_empty() {
            return Err(RuleError::NoProvider { rule: rule() });
        }
        if event.is_empty() {
            return Err(RuleError::NoEvent { rule: rule() });
        }
        let level = match level {
            Some(found) => {
                let (exactly, name) = match found.strip_prefix('=') {
                    Some(rest) => ("=", rest),
                    None => ("", found),
                };
                let level = level_from_name(name)
                    .ok_or_else(|| RuleError::Level { rule: rule(), found: found.to_owned() })?;
                format!("@{exactly}{level}")
            }
            None => String::new(),
        };
        Ok(Rule { text: rule(), canonical: format!("{exclusion}{provider}:{event}{level}") })
    }

    /// Text that the user wrote.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Canonical text, which `strata/abi/rule.h` parses.
    #[must_use]
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// Returns `provider:event` without the '!', and the level if there is one: whether it must match exactly, and its
    /// number.
    #[must_use]
    pub fn parts(&self) -> (&str, Option<(bool, u8)>) {
        let pattern = self.canonical.strip_prefix('!').unwrap_or(&self.canonical);
        let (names, level) = split_unescaped(pattern, '@');
        let level = level.and_then(|level| {
            let digits = level.strip_prefix('=');
            Some((digits.is_some(), digits.unwrap_or(level).parse().ok()?))
        });
        (names, level)
    }

    /// Returns true if the rule begins with '!'.
    #[must_use]
    pub fn is_exclusion(&self) -> bool {
        self.canonical.starts_with('!')
    }

    /// Returns true if the rule's pattern matches; the '!' of an exclusion does not reverse the result.
    #[must_use]
    pub fn matches(&self, provider: &[u8], name: &[u8], level: u8) -> bool {
        let pattern = self.canonical.strip_prefix('!').unwrap_or(&self.canonical).as_bytes();
        let subject = RuleSubject::new(provider, name, level);
        // SAFETY: reads pattern.len() bytes at pattern, and the names that the subject, built just above from live
        // slices, points to.
        unsafe { strata_user_rule_matches(pattern.as_ptr().cast(), pattern.len(), &subject) != 0 }
    }
}

/// Rules that select the tracepoints of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
    canonical: String,
}

impl Rules {
    /// Parses the rules in `texts`; each text may have several rules, separated by commas.
    ///
    /// # Errors
    /// The first rule that is not well formed, with the reason.
    pub fn parse<S: AsRef<str>>(texts: &[S]) -> Result<Rules, RuleError> {
        let mut rules = Vec::new();
        for text in texts {
            let mut rest = Some(text.as_ref());
            while let Some(text) = rest {
                let (rule, behind) = split_unescaped(text, ',');
                rules.push(Rule::parse(trim(rule), rules.len() + 1)?);
                rest = behind;
            }
        }
        if rules.is_empty() {
            return Err(RuleError::None);
        }
        let canonical: Vec<&str> = rules.iter().map(Rule::canonical).collect();
        let canonical = canonical.join(",");
        let (bytes, limit) = (canonical.len(), user::RULES_BYTES as usize);
        if bytes > limit {
            return Err(RuleError::TooLong { bytes, limit });
        }
        Ok(Rules { rules, canonical })
    }

    /// Makes an empty list, which selects nothing.
    #[must_use]
    pub fn none() -> Rules {
        Rules { rules: Vec::new(), canonical: String::new() }
    }

    /// Returns true if the list is empty, so that it selects nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.rules.is_empty()
    }

    /// Canonical text of all rules, which `strata/abi/rule.h` parses.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.canonical
    }

    /// Returns the rules in the order in which they were given.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns true if the rules select this tracepoint.
    #[must_use]
    pub fn select(&self, provider: &[u8], name: &[u8], level: u8) -> bool {
        let rules = self.canonical.as_bytes();
        let subject = RuleSubject::new(provider, name, level);
        // SAFETY: reads rules.len() bytes at rules, and the names that the subject, built just above from live slices,
        // points to.
        unsafe { strata_user_rules_select(rules.as_ptr().cast(), rules.len(), &subject) != 0 }
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical)
    }
}

/// Returns true if the text ends with a backslash that escapes nothing.
fn is_escaped_end(text: &str) -> bool {
    text.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Removes blanks at both ends, except one that a backslash makes literal.
fn trim(text: &str) -> &str {
    let begun = text.trim_start_matches([' ', '\t']);
    let ended = begun.trim_end_matches([' ', '\t']);
    if ended.len() < begun.len() && is_escaped_end(ended) {
        &begun[..ended.len() + 1]
    } else {
        ended
    }
}

/// Splits at the first `separator` (ASCII) that no backslash makes literal.
fn split_unescaped(text: &str, separator: char) -> (&str, Option<&str>) {
    let mut literal = false;
    for (place, character) in text.char_indices() {
        if literal {
            literal = false;
        } else if character == '\\' {
            literal = true;
        } else if character == separator {
            return (&text[..place], Some(&text[place + 1..]));
        }
    }
    (text, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        Rules::parse(&[text]).unwrap().as_str().to_owned()
    }

    fn error(text: &str) -> RuleError {
        Rules::parse(&[text]).unwrap_err()
    }

    #[test]
    fn parse_of_short_forms_gives_canonical_text() {
        assert_eq!(canonical("myapp:*@warning"), "myapp:*@4");
        assert_eq!(canonical("!myapp:noisy*"), "!myapp:noisy*");
        assert_eq!(canonical("myapp"), "myapp:*");
        assert_eq!(canonical("*"), "*:*");
        assert_eq!(canonical("myapp@=info"), "myapp:*@=6");
        assert_eq!(canonical("a:b@14"), "a:b@14");
        assert_eq!(canonical("a:b@DEBUG_LINE"), "a:b@13");
        assert_eq!(canonical(" a:b , !c:d\t"), "a:b,!c:d");
        assert_eq!(canonical("a:b:c"), "a:b:c");
        assert_eq!(Rules::parse(&["a", "b,c"]).unwrap().as_str(), "a:*,b:*,c:*");
    }

    #[test]
    fn parse_keeps_what_a_backslash_makes_literal() {
        assert_eq!(canonical(r"a\,b:c"), r"a\,b:c");
        assert_eq!(canonical(r"a\:b:c\@d"), r"a\:b:c\@d");
        assert_eq!(canonical(r"a:b\ "), r"a:b\ ");
        assert_eq!(canonical(r"a:b\\"), r"a:b\\");
        let rules = Rules::parse(&[r"a\,b:c\*"]).unwrap();
        assert!(rules.select(b"a,b", b"c*", 0));
        assert!(!rules.select(b"a,b", b"cd", 0));
    }

    #[test]
    fn parse_of_each_mistake_says_which_rule_and_what() {
        assert_eq!(Rules::parse::<&str>(&[]).unwrap_err(), RuleError::None);
        assert_eq!(error("a:b,,c"), RuleError::Empty { number: 2 });
        assert_eq!(error("!"), RuleError::NoProvider { rule: "!".into() });
        assert_eq!(error("a,:b"), RuleError::NoProvider { rule: ":b".into() });
        assert_eq!(error("a:"), RuleError::NoEvent { rule: "a:".into() });
        assert_eq!(error("a:b\\"), RuleError::Backslash { rule: "a:b\\".into() });
        assert_eq!(error("a:\0"), RuleError::Character { rule: "a:\0".into(), found: '\0' });
        for level in ["", "=", "15", "-1", "loud", "007", "==4", "+1"] {
            let rule = format!("x,a:b@{level},y");
            assert!(matches!(error(&rule), RuleError::Level { found, .. } if found == level));
        }
        let limit = user::RULES_BYTES as usize;
        assert_eq!(canonical(&"a".repeat(limit - 2)).len(), limit);
        assert_eq!(error(&"a".repeat(limit - 1)), RuleError::TooLong { bytes: limit + 1, limit });
        let text = error("a:b@loud").to_string();
        assert!(text.contains("'a:b@loud'") && text.contains("'loud'"), "{text}");
        assert!(text.contains("warning") && text.contains("14"), "{text}");
    }

    #[test]
    fn level_names_and_numbers_are_those_of_the_headers() {
        assert_eq!(level_from_name("emerg"), Some(0));
        assert_eq!(level_from_name("warning"), Some(4));
        assert_eq!(level_from_name("debug"), Some(14));
        for level in 0..=14 {
            assert_eq!(level_from_name(level_name(level).unwrap()), Some(level));
            assert_eq!(level_from_name(&level.to_string()), Some(level));
        }
        assert_eq!(level_name(15), None);
        assert_eq!(level_from_name("15"), None);
    }

    #[test]
    fn select_follows_levels_wildcards_and_exclusions() {
        let rules = Rules::parse(&["my*:*@warning", "other:x@=7", "!myapp:noisy*"]).unwrap();
        assert!(rules.select(b"myapp", b"start", 4));
        assert!(rules.select(b"my", b"start", 0));
        assert!(!rules.select(b"myapp", b"start", 5));
        assert!(!rules.select(b"myapp", b"noisy_one", 0));
        assert!(rules.select(b"other", b"x", 7));
        assert!(!rules.select(b"other", b"x", 6));
        assert!(!rules.select(b"", b"", 0));
    }

    #[test]
    fn select_with_only_exclusions_takes_everything_else() {
        let rules = Rules::parse(&["!a:b"]).unwrap();
        assert!(!rules.select(b"a", b"b", 14));
        assert!(rules.select(b"a", b"c", 14));
    }

    #[test]
    fn rule_matches_its_own_pattern_only() {
        let rules = Rules::parse(&["a:x*", "!a:xy"]).unwrap();
        let [first, second] = rules.rules() else { panic!("two rules") };
        assert!(first.matches(b"a", b"xy", 0) && !first.is_exclusion());
        assert!(second.matches(b"a", b"xy", 0) && second.is_exclusion());
        assert!(!second.matches(b"a", b"xyz", 0));
        assert_eq!((second.text(), second.canonical()), ("!a:xy", "!a:xy"));
    }
}

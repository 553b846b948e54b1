//! Suggests tracepoints that the user perhaps meant by a rule that matches none.

use strata_filter::Misspelt;
use strata_user::Rule;

/// The most suggestions that are kept for a rule.
const KEPT: usize = 3;
/// The longest name that is compared \[byte\], since programs may have tracepoints with names of any length.
const LONGEST: usize = 128;

/// The best suggestions for one rule, the most similar first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Near(Vec<(usize, String)>);

impl Near {
    /// Keeps a tracepoint that the rule does not match, if its name is similar.
    pub(crate) fn look(&mut self, rule: &Rule, provider: &str, name: &str) {
        let Some((likeness, meant)) = likeness(rule.parts().0, provider, name) else { return };
        if self.0.iter().any(|(_, known)| *known == meant) {
            return;
        }
        self.0.push((likeness, meant));
        self.0.sort();
        self.0.truncate(KEPT);
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().map(|(_, name)| name.clone()).collect()
    }
}

/// Returns the distance between a rule's pattern and a tracepoint, where less is more similar, and the suggested rule.
/// `None` if they are not similar.
fn likeness(pattern: &str, provider: &str, name: &str) -> Option<(usize, String)> {
    if pattern.len() > LONGEST || provider.len() + name.len() > LONGEST {
        return None;
    }
    // A pattern for all events of a provider is compared with the provider's name alone.
    let (word, found, end) = match pattern.strip_suffix(":*") {
        Some(word) => (word, provider.to_owned(), ":*"),
        None => (pattern, format!("{provider}:{name}"), ""),
    };
    // Other patterns do not mean a single name. If the names are equal, the tracepoint is excluded by its level.
    if word.contains(['*', '?', '\\']) || word == found {
        return None;
    }
    let is_of_another = end.is_empty() && word.rsplit(':').next() == Some(name);
    let distance = match is_of_another {
        true => 0,
        false => Misspelt::new(word).slips(&found)?,
    };
    Some((distance, found + end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_user::Rules;

    fn near(rule: &str, tracepoints: &[(&str, &str)]) -> Vec<String> {
        let rules = Rules::parse(&[rule]).unwrap();
        let mut near = Near::default();
        for (provider, name) in tracepoints {
            near.look(&rules.rules()[0], provider, name);
        }
        near.names()
    }

    const SHOP: [(&str, &str); 4] =
        [("shop", "checkout"), ("shop", "pay"), ("stock", "checkout"), ("Net", "send")];

    #[test]
    fn slips_in_either_part_and_the_event_of_another_provider_are_found() {
        assert_eq!(near("shop:chekout", &SHOP), ["shop:checkout", "stock:checkout"]);
        assert_eq!(near("shpo:pay", &SHOP), ["shop:pay"]);
        assert_eq!(near("store:checkout", &SHOP), ["shop:checkout", "stock:checkout"]);
        assert_eq!(near("net:SEND", &SHOP), ["Net:send"]);
        assert_eq!(near("shop:chekout@warning", &SHOP)[0], "shop:checkout");
    }

    #[test]
    fn all_events_of_a_provider_mean_a_provider() {
        assert_eq!(near("shpo:*", &SHOP), ["shop:*"]);
        assert_eq!(near("net:*", &SHOP), ["Net:*"]);
    }

    #[test]
    fn nothing_near_is_nothing_and_no_more_than_three_are_kept() {
        for rule in ["quite:another", "sh*:p?y", "other:*"] {
            assert_eq!(near(rule, &SHOP), Vec::<String>::new(), "{rule}");
        }
        let names: Vec<String> = (0..9).map(|n| format!("pay{n}")).collect();
        let many: Vec<_> = names.iter().map(|name| ("shop", name.as_str())).collect();
        assert_eq!(near("shop:payx", &many), ["shop:pay0", "shop:pay1", "shop:pay2"]);
        let long = "x".repeat(LONGEST);
        assert_eq!(near(&format!("a:{}", &long[3..]), &[("a", &long)]), Vec::<String>::new());
    }
}

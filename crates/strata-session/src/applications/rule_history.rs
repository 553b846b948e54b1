//! All rules that a session ever had, and what they matched: rules are added and removed during the recording.

use strata_user::{Application, Error, Rule, Rules};

use crate::applications::suggestion::Near;
use crate::report::RuleReport;

/// The most tracepoints that are compared with the rules that match nothing. A thousand processes may have the
/// same tracepoints.
const COMPARED_MAX: usize = 2 * strata_abi::user::NR_STATES as usize;

/// All rules, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleBook {
    entries: Vec<BookEntry>,
    /// Number of changes of the rules so far.
    changes: u64,
    /// Number of tracepoints that were compared with rules that match nothing.
    compared: usize,
}

#[derive(Clone, Debug)]
struct BookEntry {
    rule: Rule,
    /// Number of matching tracepoints, over the processes that existed while the rule was in effect.
    matched: u64,
    /// Number of the rule change that removed the rule; `None` if the rule is in effect.
    went: Option<u64>,
    /// Names of tracepoints similar to the rule, as suggestions if the rule matches nothing.
    near: Near,
}

impl RuleBook {
    pub(crate) fn new(rules: &Rules) -> RuleBook {
        let mut book = RuleBook::default();
        book.put(rules);
        book
    }

    /// Replaces the rules. Removed rules stay in the report.
    pub(crate) fn change(&mut self, rules: &Rules) {
        self.changes += 1;
        let (changes, holds) = (self.changes, |one: &Rule| rules.rules().contains(one));
        for entry in self.entries.iter_mut().filter(|entry| !holds(&entry.rule)) {
            entry.went.get_or_insert(changes);
        }
        self.put(rules);
    }

    fn put(&mut self, rules: &Rules) {
        for rule in rules.rules() {
            match self.entries.iter_mut().find(|entry| entry.rule == *rule) {
                Some(entry) => entry.went = None,
                None => {
                    let (rule, near) = (rule.clone(), Near::default());
                    self.entries.push(BookEntry { rule, matched: 0, went: None, near });
                }
            }
        }
    }

    /// Returns the number of changes of the rules.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Counts the matches of a process that ends. Every rule that was in effect after the change `since` is counted for
    /// each tracepoint that it matches. Returns the number of the process's tracepoints.
    ///
    /// # Errors
    /// The process's memory is damaged.
    pub(crate) fn count(&mut self, application: &Application, since: u64) -> Result<u64, Error> {
        let held = |entry: &&mut BookEntry| entry.went.is_none_or(|went| went > since);
        let mut held: Vec<&mut BookEntry> = self.entries.iter_mut().filter(held).collect();
        let rules: Vec<&Rule> = held.iter().map(|entry| &entry.rule).collect();
        let mut matched = vec![0; rules.len()];
        let tracepoints = application.count_matches(&rules, &mut matched)?;
        for (entry, matched) in held.iter_mut().zip(matched) {
            entry.matched = entry.matched.saturating_add(matched);
        }
        held.retain(|entry| entry.matched == 0 && !entry.rule.is_exclusion());
        if !held.is_empty() && self.compared < COMPARED_MAX {
            let all = application.tracepoints()?;
            let left = COMPARED_MAX - self.compared;
            for event in all.iter().map(|one| &one.event).take(left) {
                held.iter_mut()
                    .for_each(|one| one.near.look(&one.rule, &event.provider, &event.name));
            }
            self.compared = self.compared.saturating_add(all.len());
        }
        Ok(tracepoints)
    }

    /// Returns a report for each rule.
    pub(crate) fn reports(&self) -> Vec<RuleReport> {
        let report = |entry: &BookEntry| RuleReport {
            rule: entry.rule.text().to_owned(),
            matched: entry.matched,
            similar: if entry.matched == 0 { entry.near.names() } else { Vec::new() },
        };
        self.entries.iter().map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Rules {
        Rules::parse(texts).unwrap()
    }

    fn held(book: &RuleBook, since: u64) -> Vec<&str> {
        let held = |entry: &&BookEntry| entry.went.is_none_or(|went| went > since);
        book.entries.iter().filter(held).map(|entry| entry.rule.text()).collect()
    }

    #[test]
    fn book_has_each_rule_once_and_knows_when_it_held() {
        let mut book = RuleBook::new(&rules(&["a:*", "b:x"]));
        assert_eq!((book.changes(), held(&book, 0)), (0, vec!["a:*", "b:x"]));
        book.change(&rules(&["a:*", "c:*"]));
        // Who was there before has seen all three, who comes now two of them.
        assert_eq!(held(&book, 0), ["a:*", "b:x", "c:*"]);
        assert_eq!((book.changes(), held(&book, 1)), (1, vec!["a:*", "c:*"]));
        book.change(&Rules::none());
        assert!(held(&book, 2).is_empty());
        book.change(&rules(&["b:x"]));
        assert_eq!((held(&book, 3), held(&book, 2)), (vec!["b:x"], vec!["b:x"]));
        let texts: Vec<String> = book.reports().into_iter().map(|one| one.rule).collect();
        assert_eq!(texts, ["a:*", "b:x", "c:*"]);
    }
}

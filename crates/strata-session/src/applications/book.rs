//! Every rule that a session ever had, and what became of it: rules come and go while it records.

use strata_user::{Application, Error, Rule, Rules};

use crate::applications::near::Near;
use crate::report::RuleReport;

/// Tracepoints that are compared with rules which match none, at most: a thousand processes may have the same.
const COMPARED_MAX: usize = 2 * strata_abi::user::NR_STATES as usize;

/// All rules, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleBook {
    entries: Vec<BookEntry>,
    /// How often they were changed.
    changes: u64,
    /// Tracepoints that were compared with those that match none.
    compared: usize,
}

#[derive(Clone, Debug)]
struct BookEntry {
    rule: Rule,
    /// Tracepoints of the processes that were there while it held.
    matched: u64,
    /// The change with which it went; `None`: it holds.
    went: Option<u64>,
    /// What was perhaps meant, if it matches none.
    near: Near,
}

impl RuleBook {
    pub(crate) fn new(rules: &Rules) -> RuleBook {
        let mut book = RuleBook::default();
        book.put(rules);
        book
    }

    /// These hold from now on.
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

    /// How often they were changed until now.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// A process ends that has been there since then: to each rule that held meanwhile and matches one of its
    /// tracepoints, one is added. Returns how many tracepoints it has.
    ///
    /// # Errors
    /// Its memory is damaged.
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

    /// What became of them.
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

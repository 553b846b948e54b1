//! Filters of single rules: which one each event gets that several rules select.

use std::collections::HashMap;

use strata_filter::Filter;
use strata_kernel::catalog::Catalog;
use strata_kernel::selection::{SelectedName, Selection};
use strata_kernel::session::SelectedEvent;
use strata_kernel::syscalls;

use super::check_filter;
use crate::error::SessionError;
use crate::options::KernelOptions;

/// Does no rule have a filter of its own?
pub(super) fn are_all(asked: &KernelOptions) -> bool {
    asked.rule_filters.iter().all(Option::is_none)
}

/// Rules, by what they select.
pub(super) struct RuleFilters {
    /// Of each rule that selects, its filter.
    rules: Vec<Option<Filter>>,
    /// Of each event, by which rules, and which of its ends.
    events: HashMap<String, Vec<(usize, [bool; 2])>>,
}

impl RuleFilters {
    /// # Errors
    /// A rule that is none.
    pub(super) fn new(
        asked: &KernelOptions,
        catalog: &Catalog,
    ) -> Result<RuleFilters, SessionError> {
        let mut found = RuleFilters { rules: Vec::new(), events: HashMap::new() };
        if are_all(asked) {
            return Ok(found);
        }
        let filters = asked.rule_filters.iter().cloned().chain(std::iter::repeat(None));
        for (text, filter) in asked.rules.iter().zip(filters) {
            let selection = Selection::parse(&[text])?;
            if selection.rules().all(|rule| rule.starts_with('!')) {
                continue;
            }
            let number = found.rules.len();
            found.rules.push(filter);
            for one in selection.apply(catalog).events {
                let of = found.events.entry(one.event.name).or_default();
                of.push((number, [one.entry, one.exit]));
            }
        }
        Ok(found)
    }

    /// What an event's records are asked; `None`: all of them are recorded, or no rule has a filter.
    ///
    /// # Errors
    /// All filters together are none: they are too much.
    pub(super) fn of(&self, chosen: &SelectedName) -> Result<Option<Filter>, SessionError> {
        let Some(by) = self.events.get(&chosen.event.name) else { return Ok(None) };
        let wanted = [chosen.entry, chosen.exit];
        let reaches = |ends: &[bool; 2]| (0..2).any(|end| ends[end] && wanted[end]);
        let is_all = |ends: &[bool; 2]| (0..2).all(|end| ends[end] || !wanted[end]);
        let mut parts = Vec::new();
        for (number, ends) in by.iter().filter(|(_, ends)| reaches(ends)) {
            let filter = self.rules[*number].as_ref().map(Filter::text);
            let end = (!is_all(ends)).then(|| {
                let [entry, exit] = syscalls::recorded_names(&chosen.event.name);
                format!("name == \"{}\"", if ends[0] { entry } else { exit })
            });
            parts.push(match (end, filter) {
                (None, None) => return Ok(None),
                (Some(end), None) => format!("({end})"),
                (None, Some(filter)) => format!("({filter})"),
                (Some(end), Some(filter)) => format!("({end} && ({filter}))"),
            });
        }
        match parts.is_empty() {
            true => Ok(None),
            false => {
                Ok(Some(Filter::parse(&parts.join(" || ")).map_err(SessionError::RuleFilters)?))
            }
        }
    }

    /// # Errors
    /// What of a rule's filter none of the rule's events can pass.
    pub(super) fn check(&self, events: &[SelectedEvent]) -> Result<(), SessionError> {
        for (number, filter) in self.rules.iter().enumerate() {
            let Some(filter) = filter else { continue };
            let is_of = |event: &&SelectedEvent| {
                let by = self.events.get(&event.event.name);
                by.is_some_and(|by| by.iter().any(|(one, _)| *one == number))
            };
            let of_rule: Vec<SelectedEvent> = events.iter().filter(is_of).cloned().collect();
            if !of_rule.is_empty() {
                check_filter(filter, &of_rule, false)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_of_several_rules_is_asked_what_one_of_them_asks() {
        let catalog = match crate::kernel::catalog() {
            Ok(catalog) => catalog,
            Err(error) => return eprintln!("skip: {error}"),
        };
        let filter = |text: &str| (!text.is_empty()).then(|| Filter::parse(text).unwrap());
        let rules = [
            ("sched_switch", "prev_prio < 3"),
            ("sched_switch", "next_prio < 4"),
            ("sched_process_*", "pid > 1"),
            ("sched_process_fork", ""),
            ("syscall_exit_openat", "ret < 0"),
            ("syscalls:openat,!compat_*", "dfd == 3"),
            ("syscalls:close", ""),
        ];
        let asked = KernelOptions {
            rules: rules.iter().map(|(rule, _)| (*rule).to_owned()).collect(),
            rule_filters: rules.iter().map(|(_, text)| filter(text)).collect(),
            ..KernelOptions::default()
        };
        let filters = RuleFilters::new(&asked, &catalog).unwrap();
        let selected = Selection::parse(&asked.rules).unwrap().apply(&catalog).events;
        let of = |name: &str| {
            let chosen = selected.iter().find(|one| one.event.name == name).unwrap();
            filters.of(chosen).unwrap().map(|filter| filter.text().to_owned())
        };
        assert_eq!(of("sched_switch").unwrap(), "(prev_prio < 3) || (next_prio < 4)");
        // One that asks nothing is enough.
        assert_eq!(of("sched_process_fork"), None);
        assert_eq!(of("sched_process_exit").unwrap(), "(pid > 1)");
        assert_eq!(of("close"), None);
        // What is of one end is asked of that one.
        assert_eq!(
            of("openat").unwrap(),
            r#"(name == "syscall_exit_openat" && (ret < 0)) || (dfd == 3)"#
        );
        assert!(are_all(&KernelOptions::default()) && !are_all(&asked));
    }
}

//! Event rules of the kernel: `sched_*,syscalls,irq:*,!sched_stat_*`.
//!
//! A rule is a name, with `*` for any characters and `?` for one. It selects by the recorded name
//! (`irq_softirq_entry`), the kernel's (`softirq_entry`) or `SYSTEM:NAME` (`irq:softirq_entry`). What a rule
//! with `!` in front matches is not recorded, wherever it stands; if all have one, everything else is.
//!
//! System calls: `syscalls` is all, `openat` this one, `open*` those whose names begin so, and
//! `syscall_entry_open*` their entries, those of 32-bit programs too; `compat_*`, `compat_openat` and
//! `compat_syscall_entry_open*` are of 32-bit programs only. What begins with the name of one of the kernel's
//! systems and `_`, and matches tracepoints, stays with these unless it excludes: with system calls every call of
//! every process gets slower, and `sched_*` is not meant to include `sched_yield`, which `syscalls:sched_*` does.

use crate::catalog::{Catalog, EventName, SYSCALLS};
use crate::syscalls::recorded_names;
use strata_filter::{distance, Pattern};
use strata_model::printable;
use thiserror::Error;

/// Why a rule is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SelectionError {
    /// No rule at all.
    #[error(
        "kernel event rules: none was given. '*' selects every event, 'syscalls' all system calls"
    )]
    None,
    /// Nothing where a rule should be.
    #[error(
        "kernel event rule number {number}: it is empty. Write an event's name, or '*' for all"
    )]
    Empty {
        /// Its place among all rules, from 1.
        number: usize,
    },
    /// A '!' and nothing behind it.
    #[error("kernel event rule number {number}: nothing behind '!'. Write the name of what to leave out")]
    Exclusion {
        /// Its place among all rules, from 1.
        number: usize,
    },
    /// Nothing in front of the colon, or behind it.
    #[error("kernel event rule {}: nothing {} ':'. Write SYSTEM:NAME, with '*' for any",
            printable(.rule), if *.is_front { "in front of" } else { "behind" })]
    Half {
        /// As it was written.
        rule: String,
        /// In front of the colon; else behind it.
        is_front: bool,
    },
    /// A character that no event has in its name.
    #[error("kernel event rule {}: no event has {} in its name. Rules are names with '*', '?', or \
             SYSTEM:NAME, separated by ','", printable(.rule), printable(&.found.to_string()))]
    Character {
        /// As it was written.
        rule: String,
        /// The first such character.
        found: char,
    },
}

/// What a rule's name is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RuleNames {
    /// `syscalls`
    Syscalls,
    /// Any of an event's names.
    Any(Pattern),
    /// `SYSTEM:NAME`
    Within(Pattern, Pattern),
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SelectionRule {
    text: String,
    is_exclusion: bool,
    names: RuleNames,
}

/// Which kernel events a session records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSelection {
    rules: Vec<SelectionRule>,
}

/// An event that rules select.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedName {
    /// The event.
    pub event: EventName,
    /// Of a system call: its entry is recorded.
    pub entry: bool,
    /// Of a system call: its exit is recorded.
    pub exit: bool,
}

/// What rules select of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// In the catalog's order.
    pub events: Vec<SelectedName>,
    /// Each rule as it was written, and how many events it matches, recorded or not.
    pub matched: Vec<(String, u64)>,
}

/// The two ends of a system call; of another event they are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SyscallEnds {
    entry: bool,
    exit: bool,
}

/// What a pattern is compared with of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Its own name, too.
    All,
    /// The recorded names of its ends only.
    Tracepoints,
}

const BOTH: SyscallEnds = SyscallEnds { entry: true, exit: true };

impl EventSelection {
    /// The rules in `texts`, each of which may have several, separated by commas.
    ///
    /// # Errors
    /// The first rule that is not well formed, and what is wrong with it.
    pub fn parse<S: AsRef<str>>(texts: &[S]) -> Result<EventSelection, SelectionError> {
        let texts = texts.iter().flat_map(|text| text.as_ref().split(','));
        let rules =
            texts.enumerate().map(|(index, text)| SelectionRule::parse(text.trim(), index + 1));
        let rules: Vec<SelectionRule> = rules.collect::<Result<_, _>>()?;
        if rules.is_empty() {
            return Err(SelectionError::None);
        }
        Ok(EventSelection { rules })
    }

    /// The rules as they were written.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.text.as_str())
    }

    /// What they select.
    pub fn apply(&self, catalog: &Catalog) -> Selected {
        let mut matched: Vec<_> = self.rules.iter().map(|rule| (rule.text.clone(), 0)).collect();
        let all: Vec<&EventName> = catalog.names().collect();
        let reach: Vec<Reach> = self.rules.iter().map(|rule| rule.reach(&all)).collect();
        let start = if self.rules.iter().all(|rule| rule.is_exclusion) {
            BOTH
        } else {
            SyscallEnds::default()
        };
        let mut events = Vec::new();
        for event in catalog.names() {
            let (mut wanted, mut unwanted) = (start, SyscallEnds::default());
            for ((rule, reach), (_, count)) in self.rules.iter().zip(&reach).zip(&mut matched) {
                let ends = rule.matches(event, *reach);
                *count += u64::from(ends != SyscallEnds::default());
                let sum = if rule.is_exclusion { &mut unwanted } else { &mut wanted };
                *sum = SyscallEnds { entry: sum.entry || ends.entry, exit: sum.exit || ends.exit };
            }
            let entry = wanted.entry && !unwanted.entry;
            let exit = wanted.exit && !unwanted.exit;
            if entry || exit {
                events.push(SelectedName { event: event.clone(), entry, exit });
            }
        }
        Selected { events, matched }
    }
}

impl SelectionRule {
    fn parse(text: &str, number: usize) -> Result<SelectionRule, SelectionError> {
        let rule = || text.to_owned();
        if text.is_empty() {
            return Err(SelectionError::Empty { number });
        }
        let (is_exclusion, name) = match text.strip_prefix('!') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text),
        };
        if name.is_empty() {
            return Err(SelectionError::Exclusion { number });
        }
        let (system, event) = match name.split_once(':') {
            Some((system, event)) => (Some(system), event),
            None => (None, name),
        };
        let is_possible = |found: char| crate::tracefs::is_name_char(found) || "*?".contains(found);
        let mut found = system.unwrap_or_default().chars().chain(event.chars());
        if let Some(found) = found.find(|found| !is_possible(*found)) {
            return Err(SelectionError::Character { rule: rule(), found });
        }
        if system.is_some_and(str::is_empty) || event.is_empty() {
            return Err(SelectionError::Half { rule: rule(), is_front: !event.is_empty() });
        }
        let names = match system {
            None if event == SYSCALLS => RuleNames::Syscalls,
            None => RuleNames::Any(Pattern::glob(event)),
            Some(system) => RuleNames::Within(Pattern::glob(system), Pattern::glob(event)),
        };
        Ok(SelectionRule { text: rule(), is_exclusion, names })
    }

    /// Whether it is a pattern of one system's tracepoints.
    fn reach(&self, events: &[&EventName]) -> Reach {
        let RuleNames::Any(pattern) = &self.names else { return Reach::All };
        let begin = self.text.split(['*', '?']).next().unwrap_or_default();
        let is_of = |event: &EventName| {
            begin.strip_prefix(event.system.as_str()).is_some_and(|rest| rest.starts_with('_'))
        };
        let mut tracepoints = events.iter().filter(|event| !event.is_syscall);
        let is_of_system = !self.is_exclusion
            && pattern.exact().is_none()
            && tracepoints.clone().any(|event| is_of(event))
            && tracepoints
                .any(|event| self.matches(event, Reach::Tracepoints) != SyscallEnds::default());
        if is_of_system {
            Reach::Tracepoints
        } else {
            Reach::All
        }
    }

    /// Which ends of an event the rule is about.
    fn matches(&self, event: &EventName, reach: Reach) -> SyscallEnds {
        let (pattern, is_within, is_bare) = match &self.names {
            RuleNames::Syscalls => {
                return if event.is_syscall { BOTH } else { SyscallEnds::default() };
            }
            RuleNames::Any(pattern) => (pattern, true, !event.is_syscall || reach == Reach::All),
            RuleNames::Within(system, name) => {
                (name, system.matches(event.system.as_bytes()), true)
            }
        };
        let is_match = |name: &str| pattern.matches(name.as_bytes());
        if is_within && is_bare && (is_match(&event.name) || is_match(&event.kernel_name)) {
            return BOTH;
        }
        if !event.is_syscall || !is_within {
            return SyscallEnds::default();
        }
        // A 32-bit program's is one by either name.
        let [entry, exit] = recorded_names(&event.name);
        let [same_entry, same_exit] = recorded_names(&event.kernel_name);
        SyscallEnds {
            entry: is_match(&entry) || is_match(&same_entry),
            exit: is_match(&exit) || is_match(&same_exit),
        }
    }
}

/// Names shown for a rule that matches nothing.
const SHOWN: usize = 5;

/// The rules that are nearest to one that matches nothing, the nearest first: with names that contain its name, or that a few changed
/// characters make of it. Each matches something as it stands; what a rule with `!` gets has one, too.
pub fn similar(rule: &str, catalog: &Catalog) -> Vec<String> {
    similar_of(rule, catalog.events())
}

fn similar_of(rule: &str, events: &[EventName]) -> Vec<String> {
    let exclusion = if rule.starts_with('!') { "!" } else { "" };
    let is_offered = |name: &String| {
        let matches = |rule: SelectionRule| {
            events.iter().any(|event| rule.matches(event, Reach::All) != SyscallEnds::default())
        };
        SelectionRule::parse(name, 1).is_ok_and(matches)
    };
    let names = nearest(candidates(rule, events), is_offered);
    names.into_iter().map(|name| format!("{exclusion}{name}")).collect()
}

/// Names with their distance from a rule's.
fn candidates(rule: &str, events: &[EventName]) -> Vec<(usize, String)> {
    let rule = rule.trim_start_matches('!').trim().to_ascii_lowercase();
    let (system, bare) = match rule.split_once(':') {
        Some((system, name)) => (Some(system), name),
        None => (None, rule.as_str()),
    };
    let bare: String = bare.chars().filter(|found| !"*?".contains(*found)).take(64).collect();
    if bare.is_empty() {
        return system.map(|system| similar_systems(system, events)).unwrap_or_default();
    }
    let mut found: Vec<(usize, String)> = Vec::new();
    let ends = ["syscall_entry_", "syscall_exit_", "compat_syscall_entry_", "compat_syscall_exit_"];
    let end = ends.into_iter().find(|end| bare.starts_with(end));
    let bare = end.and_then(|end| bare.strip_prefix(end)).unwrap_or(&bare);
    let limit = (bare.len() / 3).max(1);
    // One end of a 32-bit program's call is that of the call, with more in front.
    let is_near = |event: &&EventName| {
        end.is_none() || event.is_syscall && !event.name.starts_with("compat_")
    };
    for event in events.iter().filter(is_near) {
        for name in [&event.name, &event.kernel_name] {
            let distance = distance(bare, name);
            let is_part = bare.len() >= 3 && name.contains(bare);
            if is_part || distance <= limit {
                let name = match (end, system) {
                    (Some(end), _) => format!("{end}{name}"),
                    (None, Some(_)) => format!("{}:{}", event.system, event.kernel_name),
                    (None, None) => name.clone(),
                };
                // A part of the name is as good as one wrong character.
                let rank = if is_part { distance.min(1) } else { distance };
                found.push((rank, name));
            }
        }
    }
    found
}

/// `SYSTEM:*` of the systems that are called like this.
fn similar_systems(system: &str, events: &[EventName]) -> Vec<(usize, String)> {
    let system: String = system.chars().filter(|found| !"*?".contains(*found)).take(64).collect();
    let limit = (system.len() / 3).max(1);
    let near = events.iter().filter_map(|event| {
        let distance = distance(&system, &event.system);
        let is_near = distance <= limit || (system.len() >= 3 && event.system.contains(&system));
        is_near.then(|| (distance, format!("{}:*", event.system)))
    });
    near.collect()
}

/// The first of them by distance and name, of those that are offered; none twice.
fn nearest(mut found: Vec<(usize, String)>, is_offered: impl Fn(&String) -> bool) -> Vec<String> {
    found.sort();
    let mut names: Vec<String> = Vec::new();
    for (_, name) in found {
        if names.len() < SHOWN && !names.contains(&name) && is_offered(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests;

//! Event rules of the kernel: `sched_*,syscalls,irq:*,!sched_stat_*`.
//!
//! | rule | selects |
//! |---|---|
//! | `irq_softirq_entry` | the event with this recorded name; `*` stands for any characters, `?` for one |
//! | `softirq_entry`, `irq:softirq_entry` | the same by the kernel's name, and by `SYSTEM:NAME` |
//! | `!sched_stat_*` | not these, wherever the rule is in the list; if all rules have a `!`, all other events |
//! | `default`, `always`, `network` | what [`DEFAULT_RULES`], [`ALWAYS_RULES`] and [`NETWORK_RULES`] say; `default,block_rq_*` is these and more |
//! | `syscalls` | all system calls, also of 32-bit programs |
//! | `openat`, `open*` | both ends of these calls |
//! | `syscall_entry_open*` | the entries of these calls, also in 32-bit programs |
//! | `compat_*`, `compat_openat` | calls of 32-bit programs only |
//!
//! A rule that begins with the name of one of the kernel's systems and `_`, and matches tracepoints, selects only
//! tracepoints, unless it has a `!`: recording system calls makes every call of every process slower, and
//! `sched_*` is not meant to include `sched_yield`, which `syscalls:sched_*` does.
//!
//! ```text
//! EventSelection::parse(texts)     checks the form, without a kernel: the command line and plans use it
//!   └─ apply(catalog)              matches names; Selected has the events, and for each rule the number that it matched
//! ```
//!
//! A rule that matches nothing is no error here. The session reports it, with the names that are similar, or with
//! the reason why the catalog leaves such events out. Rules are the whole language: filters and contexts belong
//! to a session's event rule, not to the text.

use crate::discover::catalog::{Catalog, EventName, SYSCALLS};
use crate::discover::syscalls::recorded_names;
use strata_filter::{nearest, Misspelt, Pattern};
use strata_model::printable;
use thiserror::Error;

/// Reason why a rule is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SelectionError {
    /// The list of rules is empty.
    #[error(
        "kernel event rules: none was given. '*' selects every event, 'syscalls' all system calls"
    )]
    None,
    /// A rule is an empty text.
    #[error(
        "kernel event rule number {number}: it is empty. Write an event's name, or '*' for all"
    )]
    Empty {
        /// Index among all rules, from 1.
        number: usize,
    },
    /// A rule is only a '!'.
    #[error("kernel event rule number {number}: nothing behind '!'. Write the name of what to leave out")]
    Exclusion {
        /// Index among all rules, from 1.
        number: usize,
    },
    /// A rule has nothing before its colon, or nothing after it.
    #[error("kernel event rule {}: nothing {} ':'. Write SYSTEM:NAME, with '*' for any",
            printable(.rule), if *.is_front { "in front of" } else { "behind" })]
    Half {
        /// The rule as it was written.
        rule: String,
        /// True if the part before the colon is missing.
        is_front: bool,
    },
    /// A character that cannot be in an event's name.
    #[error("kernel event rule {}: no event has {} in its name. Rules are names with '*', '?', or \
             SYSTEM:NAME, separated by ','", printable(.rule), printable(&.found.to_string()))]
    Character {
        /// The rule as it was written.
        rule: String,
        /// The first character that is not allowed.
        found: char,
    },
}

/// The word for the events that are recorded by default.
pub const DEFAULT: &str = "default";

/// The rules for which the word `default` stands: events that show why a program waits. docs/guide/kernel.md has the
/// reason for each.
pub const DEFAULT_RULES: [&str; 9] = [
    "syscalls",
    "x86_exceptions_page_fault_*",
    "signal_generate,signal_deliver",
    "sched_process_fork,sched_process_exec,sched_process_exit",
    "sched_switch",
    "sched_waking,sched_wakeup,sched_wakeup_new",
    "sched_migrate_task",
    "irq_handler_entry,irq_handler_exit",
    "irq_softirq_entry,irq_softirq_exit",
];

/// The word for events that are few enough to be recorded all the time.
pub const ALWAYS: &str = "always";

/// The rules for which the word `always` stands: which threads run and wake others, processes, disks, page faults that
/// wait for a file's page, and system calls that waited. What a kernel does not have is left out.
pub const ALWAYS_RULES: [&str; 6] = [
    "syscalls",
    "sched_process_fork,sched_process_exec,sched_process_exit",
    "sched_switch",
    "sched_waking,sched_wakeup_new",
    "block_rq_issue,block_rq_complete",
    "mm_filemap_fault",
];

/// Least duration of the system calls that the word `always` records \[ns\].
pub const ALWAYS_SLOWER: u64 = 1_000_000;

/// The word for the events that `strata analyze network` needs.
pub const NETWORK: &str = "network";

/// The rules for which the word `network` stands: states of connections, what their sockets send and receive, segments
/// that are sent again, resets, dropped packets. What a kernel does not have is left out.
pub const NETWORK_RULES: [&str; 4] = [
    "inet_sock_set_state,sock_send_length,sock_recv_length",
    "tcp_retransmit_skb,tcp_retransmit_synack",
    "tcp_receive_reset,tcp_send_reset",
    "kfree_skb",
];

/// The words that stand for several rules, each with its rules.
const WORDS: [(&str, &[&str]); 3] =
    [(DEFAULT, &DEFAULT_RULES), (ALWAYS, &ALWAYS_RULES), (NETWORK, &NETWORK_RULES)];

/// Returns true for a word that stands for the rules of many events.
#[must_use]
pub fn is_word(rule: &str) -> bool {
    rules_of_word(rule.trim()).is_some()
}

/// Returns the rules for which a word stands.
fn rules_of_word(word: &str) -> Option<&'static [&'static str]> {
    WORDS.iter().find(|(known, _)| *known == word).map(|(_, rules)| *rules)
}

/// The kind of names that a rule selects.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RuleNames {
    /// The word `syscalls`.
    Syscalls,
    /// A word that stands for several rules: `default`, `always` or `network`.
    Several(Vec<SelectionRule>),
    /// A pattern for any of an event's names.
    Any(Pattern),
    /// A pattern within a subsystem: `SYSTEM:NAME`.
    Within(Pattern, Pattern),
}

/// A rule of the selection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SelectionRule {
    text: String,
    is_exclusion: bool,
    names: RuleNames,
}

/// The rules that select a session's kernel events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSelection {
    rules: Vec<SelectionRule>,
}

/// An event that rules select.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedName {
    pub event: EventName,
    /// True if a system call's entry is recorded.
    pub entry: bool,
    /// True if a system call's exit is recorded.
    pub exit: bool,
}

/// The events of a catalog that rules select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// The selected events, in the catalog's order.
    pub events: Vec<SelectedName>,
    /// The rules as they were written, with the number of events that each matches.
    pub matched: Vec<(String, u64)>,
}

/// The ends of a system call, entry and exit, that rules select. For any other event, both are selected or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SyscallEnds {
    entry: bool,
    exit: bool,
}

/// The names of a system call with which a rule's pattern is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// All names, including the call's own name, such as `openat`.
    All,
    /// Only the recorded names of its entry and exit.
    Tracepoints,
}

const BOTH: SyscallEnds = SyscallEnds { entry: true, exit: true };

impl EventSelection {
    /// Parses rules; each text may have several, separated by commas.
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

    /// Returns the rules as they were written.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.text.as_str())
    }

    /// Applies the rules to the catalog's events. Returns the selected events and the number of matches of each rule.
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
        let is_possible =
            |found: char| crate::discover::tracefs::is_name_char(found) || "*?".contains(found);
        let mut found = system.unwrap_or_default().chars().chain(event.chars());
        if let Some(found) = found.find(|found| !is_possible(*found)) {
            return Err(SelectionError::Character { rule: rule(), found });
        }
        if system.is_some_and(str::is_empty) || event.is_empty() {
            return Err(SelectionError::Half { rule: rule(), is_front: !event.is_empty() });
        }
        let names = match (system, rules_of_word(event)) {
            (None, _) if event == SYSCALLS => RuleNames::Syscalls,
            (None, Some(rules)) => RuleNames::Several(rules_of(rules, number)?),
            (None, None) => RuleNames::Any(Pattern::glob(event)),
            (Some(system), _) => RuleNames::Within(Pattern::glob(system), Pattern::glob(event)),
        };
        Ok(SelectionRule { text: rule(), is_exclusion, names })
    }

    /// Returns the names of system calls with which the rule is compared. A pattern that matches tracepoints of a
    /// subsystem is not compared with the calls' own names.
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

    /// Returns the ends of an event that the rule selects.
    fn matches(&self, event: &EventName, reach: Reach) -> SyscallEnds {
        let (pattern, is_within, is_bare) = match &self.names {
            RuleNames::Syscalls => {
                return if event.is_syscall { BOTH } else { SyscallEnds::default() };
            }
            RuleNames::Several(rules) => {
                let ends = rules.iter().map(|rule| rule.matches(event, Reach::All));
                return ends.fold(SyscallEnds::default(), |sum, ends| SyscallEnds {
                    entry: sum.entry || ends.entry,
                    exit: sum.exit || ends.exit,
                });
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

/// Parses the rules for which a word stands.
fn rules_of(rules: &[&str], number: usize) -> Result<Vec<SelectionRule>, SelectionError> {
    let texts = rules.iter().flat_map(|rules| rules.split(','));
    texts.map(|text| SelectionRule::parse(text, number)).collect()
}

/// Returns the rules. If all of them exclude events, the word `default` precedes them: the events are then excluded
/// from the default ones.
#[must_use]
pub fn or_default(texts: &[String]) -> Vec<String> {
    let excludes = |rule: &str| rule.trim_start().starts_with('!');
    let is_default =
        !texts.is_empty() && texts.iter().flat_map(|text| text.split(',')).all(excludes);
    is_default.then(|| DEFAULT.to_owned()).into_iter().chain(texts.iter().cloned()).collect()
}

/// Returns whether the word `default` is among the rules of these texts.
#[must_use]
pub fn has_default<S: AsRef<str>>(texts: &[S]) -> bool {
    texts.iter().flat_map(|text| text.as_ref().split(',')).any(|rule| rule.trim() == DEFAULT)
}

/// Words that people write for all events or for the default ones, and the rule that they mean.
const OTHER_WORDS: [(&str, &str); 8] = [
    ("all", "*"),
    ("any", "*"),
    ("everything", "*"),
    ("events", "*"),
    ("defaults", DEFAULT),
    ("usual", DEFAULT),
    ("syscall", SYSCALLS),
    ("calls", SYSCALLS),
];

/// The most names that are suggested for a rule without matches.
const SHOWN: usize = 5;

/// Suggests rules for one that matches nothing, the nearest first: those with names that contain its name, or that
/// differ from it by few characters. Each suggestion matches some event. Suggestions for a rule with `!` begin with
/// `!` as well.
pub fn similar(rule: &str, catalog: &Catalog) -> Vec<String> {
    similar_of(rule, catalog.events())
}

fn similar_of(rule: &str, events: &[EventName]) -> Vec<String> {
    let exclusion = if rule.starts_with('!') { "!" } else { "" };
    let word = rule.trim_start_matches('!').trim().to_ascii_lowercase();
    if let Some((_, meant)) = OTHER_WORDS.iter().find(|(other, _)| *other == word) {
        return vec![format!("{exclusion}{meant}")];
    }
    let is_offered = |name: &String| {
        let matches = |rule: SelectionRule| {
            events.iter().any(|event| rule.matches(event, Reach::All) != SyscallEnds::default())
        };
        SelectionRule::parse(name, 1).is_ok_and(matches)
    };
    let names = nearest(candidates(rule, events), usize::MAX);
    names
        .into_iter()
        .filter(is_offered)
        .take(SHOWN)
        .map(|name| format!("{exclusion}{name}"))
        .collect()
}

/// Returns the names that may be meant by a rule, with their distances from it.
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
    let misspelt = Misspelt::new(bare);
    for (word, _) in WORDS {
        if let (None, Some(slips)) = (system, misspelt.slips(word)) {
            found.push((slips, word.to_owned()));
        }
    }
    // One end of a 32-bit program's call is that of the call, with more in front.
    let is_near = |event: &&EventName| {
        end.is_none() || event.is_syscall && !event.name.starts_with("compat_")
    };
    for event in events.iter().filter(is_near) {
        for name in [&event.name, &event.kernel_name] {
            // A part of the name is as good as one slip.
            let part = misspelt.is_part_of(name).then_some(1);
            if let Some(rank) = misspelt.slips(name).into_iter().chain(part).min() {
                let name = match (end, system) {
                    (Some(end), _) => format!("{end}{name}"),
                    (None, Some(_)) => format!("{}:{}", event.system, event.kernel_name),
                    (None, None) => name.clone(),
                };
                found.push((rank, name));
            }
        }
    }
    found
}

/// Suggests `SYSTEM:*` for systems with a similar name, with the distance.
fn similar_systems(system: &str, events: &[EventName]) -> Vec<(usize, String)> {
    let system: String = system.chars().filter(|found| !"*?".contains(*found)).take(64).collect();
    let misspelt = Misspelt::new(&system);
    let rank = |event: &EventName| {
        Some((misspelt.slips_or_part(&event.system)?, format!("{}:*", event.system)))
    };
    events.iter().filter_map(rank).collect()
}

#[cfg(test)]
mod tests;

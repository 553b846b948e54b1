//! What the kernel has to offer, and what rules select of it, each with a filter of its own.

use std::collections::HashMap;

use strata_filter::Filter;
use strata_kernel::catalog::{Catalog, EventName};
use strata_kernel::filter::{
    can_select, check, compile_for, Candidate, Compiled, FilterError, Groups, Slips, SyscallEnd,
};
use strata_kernel::selection::{self, EventSelection};
use strata_kernel::tracefs::Tracefs;
use strata_kernel::uprobe::KnownProbes;
use strata_kernel::{sample, syscalls, Contexts, KernelEvent, SelectedEvent, Tracked};

use super::records::EndRecords;
use crate::error::SessionError;
use crate::options::{KernelOptions, Options};
use crate::report::{EventProblem, KernelRuleReport, Notice};
use crate::session::layer::LayerRule;
use crate::session::stop::Stop;

/// What the kernel has to offer.
pub(crate) fn catalog() -> Result<Catalog, strata_kernel::Error> {
    Catalog::load(&Tracefs::find()?)
}

/// What a change needs of how the layer was begun.
pub(super) struct BegunLayer {
    /// The flags that ask for the layer.
    flags: String,
    pub(super) stop: Stop,
    /// What is known of events: their descriptions are files, and reading all of them takes seconds.
    known: HashMap<(String, String), KernelEvent>,
    /// Recorded whatever the rules are.
    pub(super) probes: Vec<SelectedEvent>,
    /// Those of rules.
    pub(super) of_rules: KnownProbes,
    /// What the records of all have, also those that have begun with less.
    pub(super) contexts: Contexts,
    pub(super) tracked: Tracked,
}

/// What rules select of a catalog.
pub(super) struct Chosen {
    /// What became of each rule.
    pub(super) reports: Vec<KernelRuleReport>,
    /// Events that cannot be described.
    pub(super) problems: Vec<EventProblem>,
    events: Vec<(EventName, ChosenEnds)>,
}

/// Of one event, which records of its entry and exit are recorded, and whether with call stacks.
#[derive(Clone, Debug, Default, PartialEq)]
struct ChosenEnds {
    records: [EndRecords; 2],
    stack: bool,
}

impl Chosen {
    /// # Errors
    /// A rule that is none, or filters that are too much together.
    pub(super) fn new(rules: &[LayerRule], catalog: &Catalog) -> Result<Chosen, SessionError> {
        let texts: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
        let matched = EventSelection::parse(&texts)?.apply(catalog).matched;
        let reports = rule_reports(matched, catalog);
        Ok(Chosen { reports, problems: Vec::new(), events: select(rules, catalog)? })
    }

    pub(super) fn nr_events(&self) -> u64 {
        self.events.len() as u64
    }
}

/// The rules of a recording, one by one; all have its filter.
///
/// # Errors
/// One that is none.
pub(super) fn rules_of(asked: &KernelOptions) -> Result<Vec<LayerRule>, SessionError> {
    if asked.rules.is_empty() {
        return Ok(Vec::new());
    }
    let selection = EventSelection::parse(&asked.rules)?;
    let rule = |text: &str| LayerRule {
        text: text.to_owned(),
        filter: asked.filter.clone(),
        ..LayerRule::default()
    };
    Ok(selection.rules().map(rule).collect())
}

impl BegunLayer {
    pub(super) fn new(options: &Options, stop: &Stop) -> BegunLayer {
        BegunLayer {
            flags: options.kernel.as_ref().map_or_else(String::new, KernelOptions::flags),
            stop: stop.clone(),
            known: HashMap::new(),
            probes: Vec::new(),
            of_rules: KnownProbes::default(),
            contexts: Contexts::default(),
            tracked: Tracked::default(),
        }
    }

    /// Each with its filters; of those that cannot be described the problem is noted.
    ///
    /// # Errors
    /// Somebody wants this to end: each may wait for others who attach or detach.
    pub(super) fn describe_all(
        &mut self,
        chosen: &mut Chosen,
        catalog: &Catalog,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Vec<SelectedEvent>, SessionError> {
        let total = chosen.nr_events();
        let mut described = Vec::with_capacity(chosen.events.len());
        for (index, (name, ChosenEnds { records: [entry, exit], stack })) in
            std::mem::take(&mut chosen.events).into_iter().enumerate()
        {
            if self.stop.flow().is_break() {
                return Err(SessionError::Stopped(self.stop.signal()));
            }
            notify(Notice::Describing { described: index as u64, total });
            match self.describe(catalog, &name) {
                Ok(event) => described.push(SelectedEvent {
                    event,
                    entry: entry != EndRecords::None,
                    exit: exit != EndRecords::None,
                    filter: entry.filter()?,
                    exit_filter: exit.filter()?,
                    contexts: match stack {
                        true => self.contexts.with_stacks(),
                        false => self.contexts.clone(),
                    },
                }),
                Err(error) => chosen
                    .problems
                    .push(EventProblem { event: name.name, reason: error.to_string() }),
            }
        }
        Ok(described)
    }

    pub(super) fn failed(&self, cause: strata_kernel::Error) -> SessionError {
        SessionError::Kernel { cause: Box::new(cause), asked: self.flags.clone() }
    }

    fn describe(
        &mut self,
        catalog: &Catalog,
        name: &EventName,
    ) -> Result<KernelEvent, strata_kernel::Error> {
        let key = (name.system.clone(), name.name.clone());
        if let Some(event) = self.known.get(&key) {
            return Ok(event.clone());
        }
        let event = catalog.describe(name)?;
        self.known.insert(key, event.clone());
        Ok(event)
    }
}

pub(super) fn key_of(event: &KernelEvent) -> (String, String) {
    (event.system.clone(), event.name.clone())
}

/// What rules have in common that are asked together: a filter, and whether there are call stacks.
type Same<'r> = (Option<&'r Filter>, bool);

/// Each event that rules select, in the catalog's order, and what of both its ends is recorded. A rule's filter must
/// be one that something of it can pass.
fn select(
    rules: &[LayerRule],
    catalog: &Catalog,
) -> Result<Vec<(EventName, ChosenEnds)>, SessionError> {
    let is_exclusion = |rule: &&LayerRule| rule.text.trim_start().starts_with('!');
    let exclusions: Vec<&str> =
        rules.iter().filter(is_exclusion).map(|rule| rule.text.as_str()).collect();
    let mut all: HashMap<(String, String), ChosenEnds> = HashMap::new();
    let mut add = |texts: &[&str], (filter, stack): Same<'_>| -> Result<(), SessionError> {
        for chosen in EventSelection::parse(texts)?.apply(catalog).events {
            let ends = all.entry((chosen.event.system, chosen.event.name)).or_default();
            ends.stack |= stack;
            if chosen.entry {
                ends.records[0].add(filter);
            }
            if chosen.exit {
                ends.records[1].add(filter);
            }
        }
        Ok(())
    };
    // Rules with one filter are asked together.
    let mut by_filter: Vec<(Same<'_>, Vec<&str>)> = Vec::new();
    for rule in rules.iter().filter(|rule| !is_exclusion(rule)) {
        let of_rule = (rule.filter.as_ref(), rule.stack);
        match by_filter.iter_mut().find(|(same, _)| *same == of_rule) {
            Some((_, texts)) => texts.push(&rule.text),
            None => by_filter.push((of_rule, vec![&rule.text])),
        }
    }
    for (same, mut texts) in by_filter {
        texts.extend(&exclusions);
        add(&texts, same)?;
    }
    if let (Some(first), true) = (rules.first(), rules.len() == exclusions.len()) {
        add(&exclusions, (first.filter.as_ref(), first.stack))?;
    }
    let names = catalog.names();
    let taken = names.filter_map(|name| {
        let records = all.remove(&(name.system.clone(), name.name.clone()))?;
        Some((name.clone(), records))
    });
    Ok(taken.collect())
}

/// What CPUs do, as an event.
pub(super) fn sampled(rate: u32, filter: Option<Filter>) -> SelectedEvent {
    SelectedEvent {
        event: sample::event(rate),
        entry: true,
        exit: true,
        filter,
        exit_filter: None,
        contexts: Contexts::default(),
    }
}

/// `has_others`: what is no event of the kernel's may be one of applications.
///
/// # Errors
/// What of it none of the events can pass.
pub(super) fn check_filter(
    filter: &Filter,
    events: &[SelectedEvent],
    has_others: bool,
) -> Result<(), Slips> {
    let candidates = candidates(events);
    match has_others && can_select(filter, &candidates) {
        true => Ok(()),
        false => check(filter, &candidates),
    }
}

/// Can a record of one of the events pass it?
pub(super) fn can_pass(filter: &Filter, events: &[SelectedEvent]) -> bool {
    can_select(filter, &candidates(events))
}

/// Can a record of one of the events pass it, as the kernel asks it?
///
/// # Errors
/// What of it the kernel cannot ask of one of the events.
pub(super) fn check_compiled(
    filter: &Filter,
    events: &[SelectedEvent],
    groups: Groups,
) -> Result<bool, FilterError> {
    let mut can_pass = false;
    for one in candidates(events) {
        let compiled = compile_for(filter, one.event, one.end, groups)?;
        can_pass |= !matches!(compiled, Compiled::Never);
    }
    Ok(can_pass)
}

/// What of the events is selected.
fn candidates(events: &[SelectedEvent]) -> Vec<Candidate<'_>> {
    let mut candidates = Vec::with_capacity(events.len());
    for chosen in events {
        let ends: &[(bool, SyscallEnd)] = match chosen.event.exit_fields.is_empty() {
            true => &[(true, SyscallEnd::Entry)],
            false => &[(chosen.entry, SyscallEnd::Entry), (chosen.exit, SyscallEnd::Exit)],
        };
        for &(_, end) in ends.iter().filter(|(chosen, _)| *chosen) {
            candidates.push(Candidate { event: &chosen.event, end });
        }
    }
    candidates
}

/// Each rule, with what may help if it matches nothing.
pub(crate) fn rule_reports(
    matched: Vec<(String, u64)>,
    catalog: &Catalog,
) -> Vec<KernelRuleReport> {
    let report = |(rule, matched): (String, u64)| {
        let is_empty = matched == 0;
        let similar = if is_empty { selection::similar(&rule, catalog) } else { Vec::new() };
        let excluded = catalog.excluded(&rule).filter(|_| is_empty).map(str::to_owned);
        KernelRuleReport { rule, matched, similar, excluded }
    };
    matched.into_iter().map(report).collect()
}

/// All names by which rules and completions know an event.
pub(crate) fn recorded_names(event: &EventName) -> Vec<String> {
    let name = &event.name;
    match event.is_syscall {
        false => vec![name.clone()],
        true => [name.clone()].into_iter().chain(syscalls::recorded_names(name)).collect(),
    }
}

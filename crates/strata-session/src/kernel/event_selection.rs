//! Lists the kernel's events, and selects events by rules, each with its own filter.

use std::collections::HashMap;

use strata_filter::Filter;
use strata_kernel::catalog::{Catalog, EventName};
use strata_kernel::event_rules::{self, EventSelection};
use strata_kernel::filter::{
    can_select, check, compile_for, Candidate, Compiled, FilterError, Groups, Slips, SyscallEnd,
};
use strata_kernel::tracefs::Tracefs;
use strata_kernel::uprobe::KnownProbes;
use strata_kernel::{
    cpu_samples, syscalls, CallStacks, Contexts, KernelEvent, Sampling, SelectedEvent, Tracked,
};

use super::record_options::EndRecords;
use crate::error::SessionError;
use crate::options::KernelOptions;
use crate::report::{EventProblem, KernelRuleReport, Notice};
use crate::session::layer::LayerRule;
use crate::session::stop::Stop;

/// Name of the event when a thread leaves its CPU; its call stack shows what the thread waits for.
pub(crate) const SWITCH: &str = "sched_switch";

/// Lists the kernel's events.
pub(crate) fn catalog() -> Result<Catalog, strata_kernel::Error> {
    Catalog::load(&Tracefs::find()?)
}

/// Facts from the beginning of the layer that later changes of its rules need.
pub(super) struct BegunLayer {
    /// The flags that request the layer.
    flags: String,
    pub(super) stop: Stop,
    /// Descriptions of events read so far: they are files, and reading all of them takes seconds.
    known: HashMap<(String, String), KernelEvent>,
    /// Probes that rules have requested so far.
    pub(super) of_rules: KnownProbes,
    /// Contexts of all records at the beginning. Programs for later events get the same contexts.
    pub(super) contexts: Contexts,
    pub(super) tracked: Tracked,
    /// Tracked processes that this process finds by name, because the kernel's programs cannot.
    pub(super) named: Vec<u32>,
}

/// The events that rules select from a catalog.
pub(super) struct Chosen {
    /// Reports on the rules.
    pub(super) reports: Vec<KernelRuleReport>,
    /// Events that could not be described.
    pub(super) problems: Vec<EventProblem>,
    events: Vec<(EventName, ChosenEnds)>,
}

/// The requested records of one event's entry and exit, and their call stacks. For system calls also the least
/// duration, which is the lowest of all rules.
#[derive(Clone, Debug, Default, PartialEq)]
struct ChosenEnds {
    records: [EndRecords; 2],
    stack: CallStacks,
    slower: Option<u64>,
    /// True if all rules leave out system calls that did not wait.
    waited: bool,
    /// The share of the records to write; `None` before the first rule.
    sampling: Option<Sampling>,
}

impl Chosen {
    /// # Errors
    /// A rule is invalid, or the filters are too large when combined.
    pub(super) fn new(rules: &[LayerRule], catalog: &Catalog) -> Result<Chosen, SessionError> {
        let texts: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
        let matched = EventSelection::parse(&texts)?.apply(catalog).matched;
        let reports = rule_reports(matched, catalog);
        let events = select(rules, catalog)?;
        let asks_for_calls = rules.iter().any(|rule| rule.is_of_calls);
        if asks_for_calls && events.is_empty() && reports.iter().any(|rule| rule.matched > 0) {
            return Err(SessionError::NoCalls {
                rule: "what is recorded of the kernel".to_owned(),
            });
        }
        Ok(Chosen { reports, problems: Vec::new(), events })
    }

    pub(super) fn nr_events(&self) -> u64 {
        self.events.len() as u64
    }
}

/// Returns the rules of a recording one by one, each with the common filter.
///
/// # Errors
/// A rule is invalid.
pub(super) fn rules_of(asked: &KernelOptions) -> Result<Vec<LayerRule>, SessionError> {
    if asked.rules.is_empty() {
        return Ok(Vec::new());
    }
    let selection = EventSelection::parse(&asked.rules)?;
    let common = LayerRule {
        filter: asked.filter.clone(),
        slower: asked.slower,
        stack: asked.stack,
        ..LayerRule::default()
    };
    let common = common.with_duration_of_calls()?;
    let rule = |text: &str| LayerRule { text: text.to_owned(), ..common.clone() };
    Ok(selection.rules().map(rule).collect())
}

impl BegunLayer {
    /// Creates the facts for a new layer. `flags`: the flags that request the kernel, for messages. `probes`: the
    /// probes that were found before.
    pub(super) fn new(flags: &str, stop: &Stop, probes: KnownProbes) -> BegunLayer {
        BegunLayer {
            flags: flags.to_owned(),
            stop: stop.clone(),
            known: HashMap::new(),
            of_rules: probes,
            contexts: Contexts::default(),
            tracked: Tracked::default(),
            named: Vec::new(),
        }
    }

    /// Returns the descriptions of the chosen events, with their filters. An event that cannot be described is noted as
    /// a problem.
    ///
    /// # Errors
    /// A stop was requested: each description may have to wait for others who attach or detach.
    pub(super) fn describe_all(
        &mut self,
        chosen: &mut Chosen,
        catalog: &Catalog,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Vec<SelectedEvent>, SessionError> {
        let total = chosen.nr_events();
        let mut described = Vec::with_capacity(chosen.events.len());
        for (index, (name, ends)) in std::mem::take(&mut chosen.events).into_iter().enumerate() {
            let ChosenEnds { records: [entry, exit], stack, slower, waited, sampling } = ends;
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
                    slower: slower.unwrap_or(0),
                    waited,
                    sampling: sampling.unwrap_or_default(),
                    contexts: stack.added_to(&self.contexts),
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

/// The properties that must be the same in rules that are applied together.
#[derive(Clone, Copy, PartialEq)]
struct CommonRule<'r> {
    filter: Option<&'r Filter>,
    stack: CallStacks,
    /// The least duration of recorded system calls \[ns\].
    slower: u64,
    /// True if system calls that did not wait are left out.
    waited: bool,
    sampling: Sampling,
    is_of_calls: bool,
    /// True for a rule that is a word for many events, such as `default`.
    is_word: bool,
}

impl CommonRule<'_> {
    fn of(rule: &LayerRule) -> CommonRule<'_> {
        CommonRule {
            filter: rule.filter.as_ref(),
            stack: rule.stack,
            slower: slower_of(rule),
            waited: is_always(rule),
            sampling: rule.sampling,
            is_of_calls: rule.is_of_calls,
            is_word: event_rules::is_word(&rule.text),
        }
    }
}

/// Returns the least duration of a rule's system calls \[ns\]: the rule's own, otherwise that of the word that it
/// uses, otherwise 0.
fn slower_of(rule: &LayerRule) -> u64 {
    let of_word = || is_always(rule).then_some(event_rules::ALWAYS_SLOWER);
    rule.slower.or_else(of_word).unwrap_or(0)
}

fn is_always(rule: &LayerRule) -> bool {
    rule.text.trim() == event_rules::ALWAYS
}

/// Returns the events that the rules select, in the catalog's order, with what to record of entry and exit. Some event
/// must be able to pass each part of a filter.
fn select(
    rules: &[LayerRule],
    catalog: &Catalog,
) -> Result<Vec<(EventName, ChosenEnds)>, SessionError> {
    let is_exclusion = |rule: &&LayerRule| rule.text.trim_start().starts_with('!');
    let exclusions: Vec<&str> =
        rules.iter().filter(is_exclusion).map(|rule| rule.text.as_str()).collect();
    let mut all: HashMap<(String, String), ChosenEnds> = HashMap::new();
    let mut add = |texts: &[&str], common: CommonRule<'_>| -> Result<(), SessionError> {
        let CommonRule { filter, stack, slower, waited, sampling, is_of_calls, is_word } = common;
        for chosen in EventSelection::parse(texts)?.apply(catalog).events {
            if is_of_calls && !chosen.event.is_syscall {
                continue;
            }
            // Of the many events behind a word, the copy is made where it helps: of what a blocked thread waits in.
            let is_copied = !is_word || chosen.event.name == SWITCH;
            let stack = if is_copied { stack } else { stack.without_copy() };
            let ends = all.entry((chosen.event.system, chosen.event.name)).or_default();
            ends.stack = ends.stack.max(stack);
            ends.waited = waited && (ends.waited || ends.slower.is_none());
            ends.sampling = Some(ends.sampling.map_or(sampling, |other| other.of_either(sampling)));
            ends.slower = Some(ends.slower.map_or(slower, |other| other.min(slower)));
            if chosen.entry {
                ends.records[0].add(filter);
            }
            if chosen.exit {
                ends.records[1].add(filter);
            }
        }
        Ok(())
    };
    // Rules with the same filter are applied together.
    let mut by_filter: Vec<(CommonRule<'_>, Vec<&str>)> = Vec::new();
    for rule in rules.iter().filter(|rule| !is_exclusion(rule)) {
        let of_rule = CommonRule::of(rule);
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
        add(&exclusions, CommonRule::of(first))?;
    }
    let names = catalog.names();
    let taken = names.filter_map(|name| {
        let records = all.remove(&(name.system.clone(), name.name.clone()))?;
        Some((name.clone(), records))
    });
    Ok(taken.collect())
}

/// Returns the event for samples of CPUs. Samples always have call stacks; `stacks` only says whether they have a
/// copy of the program's stack.
pub(super) fn sampled(rate: u32, filter: Option<Filter>, stacks: CallStacks) -> SelectedEvent {
    SelectedEvent {
        filter,
        contexts: copy_of(stacks, &Contexts::default()),
        ..SelectedEvent::all_records(cpu_samples::event(rate))
    }
}

/// Returns the contexts of samples, with a copy of the program's stack if `stacks` asks for one.
pub(super) fn copy_of(stacks: CallStacks, contexts: &Contexts) -> Contexts {
    match stacks {
        CallStacks::Copied(bytes) => contexts.with_stack_copy(bytes),
        _ => contexts.clone(),
    }
}

/// Checks that some event can pass the filter. With `has_others`, a name that no kernel event has may belong to events
/// of applications.
///
/// # Errors
/// The parts of the filter that no event can pass.
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

/// Returns whether a record of one of the events can pass the filter.
pub(super) fn can_pass(filter: &Filter, events: &[SelectedEvent]) -> bool {
    can_select(filter, &candidates(events))
}

/// Returns whether a record of one of the events can pass the filter as compiled for the kernel.
///
/// # Errors
/// The part of the filter that the kernel cannot evaluate for one of the events.
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

/// Returns the recorded ends (entry and exit) of the events, for checking a filter.
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

/// Returns a report for each rule, with suggestions if it matches nothing.
pub(crate) fn rule_reports(
    matched: Vec<(String, u64)>,
    catalog: &Catalog,
) -> Vec<KernelRuleReport> {
    let report = |(rule, matched): (String, u64)| {
        let is_empty = matched == 0;
        let similar = if is_empty { event_rules::similar(&rule, catalog) } else { Vec::new() };
        let excluded = catalog.excluded(&rule).filter(|_| is_empty).map(str::to_owned);
        KernelRuleReport { rule, matched, similar, excluded }
    };
    matched.into_iter().map(report).collect()
}

/// Returns all names that rules and completions may use for an event.
pub(crate) fn recorded_names(event: &EventName) -> Vec<String> {
    let name = &event.name;
    match event.is_syscall {
        false => vec![name.clone()],
        true => [name.clone()].into_iter().chain(syscalls::recorded_names(name)).collect(),
    }
}

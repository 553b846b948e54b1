//! What the kernel's layer records, changed while it records: from rules, each with a filter of its own, to events.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use strata_filter::Filter;
use strata_kernel::catalog::{Catalog, EventName};
use strata_kernel::filter::Slips;
use strata_kernel::selection::Selection;
use strata_kernel::uprobe::{Known, ProbeError};
use strata_kernel::SelectedEvent;
use strata_kernel::{sample, Contexts, KernelEvent};

use super::probes::{of as of_probe, probed};
use super::records::Records;
use super::{catalog, check_filter, rule_reports, whole, KernelLayer};
use crate::options::{KernelOptions, Options};
use crate::plan::tracked::Tracked;
use crate::plan::PlanError;
use crate::report::{EventProblem, KernelRuleReport, Notice, KERNEL};
use crate::session::error::SessionError;
use crate::session::layer::{Rule, Wanted};
use crate::session::stop::Stop;

/// A change that has taken so long is undone: who asks for a snapshot or a stop waits for it.
const CHANGE_MAX: Duration = Duration::from_secs(60);

/// What a change needs of how the layer was begun.
pub(super) struct Begun {
    /// The flags that ask for the layer.
    flags: String,
    stop: Stop,
    /// What is known of events: their descriptions are files, and reading all of them takes seconds.
    known: HashMap<(String, String), KernelEvent>,
    /// Recorded whatever the rules are.
    pub(super) probes: Vec<SelectedEvent>,
    /// Those of rules.
    of_rules: Known,
    /// What the records of all have, also those that have begun with less.
    contexts: Contexts,
    tracked: Tracked,
}

/// What rules select of a catalog.
pub(super) struct Chosen {
    /// What became of each rule.
    pub(super) reports: Vec<KernelRuleReport>,
    /// Events that cannot be described.
    pub(super) problems: Vec<EventProblem>,
    events: Vec<(EventName, Ends)>,
}

/// Of one event, which records of its entry and exit are recorded, and whether with call stacks.
#[derive(Clone, Debug, Default, PartialEq)]
struct Ends {
    records: [Records; 2],
    stack: bool,
}

impl Chosen {
    /// # Errors
    /// A rule that is none, or filters that are too much together.
    pub(super) fn new(rules: &[Rule], catalog: &Catalog) -> Result<Chosen, SessionError> {
        let texts: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
        let matched = Selection::parse(&texts)?.apply(catalog).matched;
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
pub(super) fn rules_of(asked: &KernelOptions) -> Result<Vec<Rule>, SessionError> {
    if asked.rules.is_empty() {
        return Ok(Vec::new());
    }
    let selection = Selection::parse(&asked.rules)?;
    let rule = |text: &str| Rule {
        text: text.to_owned(),
        filter: asked.filter.clone(),
        ..Rule::default()
    };
    Ok(selection.rules().map(rule).collect())
}

impl Begun {
    pub(super) fn new(options: &Options, stop: &Stop) -> Begun {
        Begun {
            flags: options.kernel.as_ref().map_or_else(String::new, KernelOptions::flags),
            stop: stop.clone(),
            known: HashMap::new(),
            probes: Vec::new(),
            of_rules: Known::default(),
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
        for (index, (name, Ends { records: [entry, exit], stack })) in
            std::mem::take(&mut chosen.events).into_iter().enumerate()
        {
            if self.stop.flow().is_break() {
                return Err(SessionError::Stopped(self.stop.signal()));
            }
            notify(Notice::Describing { described: index as u64, total });
            match self.describe(catalog, &name) {
                Ok(event) => described.push(SelectedEvent {
                    event,
                    entry: entry != Records::None,
                    exit: exit != Records::None,
                    filter: entry.filter()?,
                    exit_filter: exit.filter()?,
                    contexts: match stack {
                        true => self.contexts.with_stacks(),
                        false => self.contexts,
                    },
                }),
                Err(error) => chosen
                    .problems
                    .push(EventProblem { event: name.name, reason: error.to_string() }),
            }
        }
        Ok(described)
    }

    fn failed(&self, cause: strata_kernel::Error) -> SessionError {
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

fn key_of(event: &KernelEvent) -> (String, String) {
    (event.system.clone(), event.name.clone())
}

/// What rules have in common that are asked together: a filter, and whether there are call stacks.
type Same<'r> = (Option<&'r Filter>, bool);

/// Each event that rules select, in the catalog's order, and what of both its ends is recorded. A rule's filter must
/// be one that something of it can pass.
fn select(rules: &[Rule], catalog: &Catalog) -> Result<Vec<(EventName, Ends)>, SessionError> {
    let is_exclusion = |rule: &&Rule| rule.text.trim_start().starts_with('!');
    let exclusions: Vec<&str> =
        rules.iter().filter(is_exclusion).map(|rule| rule.text.as_str()).collect();
    let mut all: HashMap<(String, String), Ends> = HashMap::new();
    let mut add = |texts: &[&str], (filter, stack): Same<'_>| -> Result<(), SessionError> {
        for chosen in Selection::parse(texts)?.apply(catalog).events {
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

impl KernelLayer {
    /// See [`crate::session::layer::Layer::change`].
    pub(super) fn change_to(&mut self, wanted: &Wanted) -> Result<(), SessionError> {
        let (Some(begun), Some(attached)) = (&mut self.begun, &mut self.attached) else {
            return Err(SessionError::Unchangeable { layer: KERNEL });
        };
        let began = Instant::now();
        let contexts_before = begun.contexts;
        let asked_contexts = Contexts::parse(&wanted.contexts);
        begun.contexts = asked_contexts.map_err(|error| PlanError::NoContext(error.to_string()))?;
        let (samples, rules): (Vec<Rule>, Vec<Rule>) =
            wanted.rules.iter().cloned().partition(|rule| rule.sample.is_some());
        let (probes, rules): (Vec<Rule>, Vec<Rule>) =
            rules.into_iter().partition(|rule| rule.probe);
        let (mut reports, mut problems, mut events) = (Vec::new(), Vec::new(), Vec::new());
        let mut nr_selected = 0;
        if !rules.is_empty() {
            let catalog = catalog().map_err(|cause| SessionError::KernelEvents(Box::new(cause)))?;
            let mut chosen = Chosen::new(&rules, &catalog)?;
            // One that is new and selects nothing is a mistake; what others select may have gone. At the begin they
            // come from elsewhere, perhaps from another machine.
            let is_given = |rule: &str| {
                self.given.iter().any(|text| text.split(',').any(|one| one.trim() == rule))
            };
            let is_first = self.given.is_empty() && chosen.nr_events() > 0;
            let nothing =
                chosen.reports.iter().filter(|one| one.matched == 0 && !is_given(&one.rule));
            let nothing: Vec<_> = nothing.filter(|_| !is_first).cloned().collect();
            if !nothing.is_empty() {
                return Err(SessionError::NothingSelected(nothing));
            }
            nr_selected = chosen.nr_events();
            events = begun.describe_all(&mut chosen, &catalog, &mut |_| ())?;
            (reports, problems) = (chosen.reports, chosen.problems);
            for rule in &rules {
                let Some(filter) = &rule.filter else { continue };
                let of_rule: Vec<SelectedEvent> = of(rule, &events, &catalog)?;
                if !of_rule.is_empty() {
                    check_filter(filter, &of_rule, false)
                        .map_err(|slips| wrong_filter(&rule.text, slips))?;
                }
            }
        }
        events.extend(begun.probes.iter().cloned());
        let mut of_rules = begun.of_rules.clone();
        let of_probes = probed(&probes, &mut of_rules, begun.contexts)?;
        check_probes(&probes, &of_rules)?;
        nr_selected += (of_probes.events.len() + of_probes.failed.len()) as u64;
        // At the begin they come from elsewhere, or their files have gone while the session was not there.
        let has_some = nr_selected > of_probes.failed.len() as u64 || !samples.is_empty();
        let is_first = self.given.is_empty() && has_some;
        for (text, error) in of_probes.failed {
            if !is_first && !self.given.contains(&text) {
                return Err(wrong_probe(&text, error));
            }
            let reason = error.to_string();
            let excluded = Some(reason.clone());
            reports.push(KernelRuleReport {
                rule: text.clone(),
                excluded,
                ..KernelRuleReport::default()
            });
            problems.push(EventProblem { event: text, reason });
        }
        events.extend(of_probes.events);
        reports.extend(of_probes.reports);
        for rule in &samples {
            let rate = rule.sample.unwrap_or(1);
            sample::check_rate(rate).map_err(|cause| begun.failed(cause))?;
            let contexts = begun.contexts;
            let mut sample = sampled(rate, rule.filter.clone());
            sample.contexts = contexts;
            if let Some(filter) = &sample.filter {
                check_filter(filter, std::slice::from_ref(&sample), false)
                    .map_err(|slips| wrong_filter(&rule.text, slips))?;
            }
            events.push(sample);
            nr_selected += 1;
            let rule = rule.text.clone();
            reports.push(KernelRuleReport {
                rule,
                matched: 1,
                similar: Vec::new(),
                excluded: None,
            });
        }
        let has_stacks =
            !samples.is_empty() || events.iter().any(|event| event.contexts.has_stack());
        let stop = begun.stop.clone();
        let mut progress = |_| match began.elapsed() > CHANGE_MAX {
            true => ControlFlow::Break(()),
            false => stop.flow(),
        };
        let found = whole::of(&events, &wanted.tracked);
        let recorded = &attached.trace.whole;
        recorded.change();
        let tracked = attached.session.track(&wanted.tracked);
        let changed = tracked.and_then(|()| attached.session.change(events, &mut progress));
        let found = whole::without(found, &attached.session.problems());
        recorded.changed(changed.is_ok().then_some(found));
        if let Err(cause) = changed {
            // It was possible before; what has gone meanwhile is tracked no more.
            let _ = attached.session.track(&begun.tracked);
            begun.contexts = contexts_before;
            return Err(begun.failed(cause));
        }
        begun.tracked.clone_from(&wanted.tracked);
        begun.of_rules = of_rules;
        for remark in of_probes.remarks {
            if !self.remarks.contains(&remark) {
                self.remarks.push(remark);
            }
        }
        if has_stacks {
            attached.watch_code(&mut self.remarks);
            self.watch(true);
        }
        let Some(begun) = &self.begun else { return Ok(()) };
        self.selected = nr_selected + begun.probes.len() as u64;
        self.is_filtered = wanted.rules.iter().any(|rule| rule.filter.is_some())
            || begun.probes.iter().any(|probe| probe.filter.is_some());
        self.given = wanted.rules.iter().map(|rule| rule.text.clone()).collect();
        (self.rules, self.problems) = (reports, problems);
        Ok(())
    }
}

fn wrong_filter(rule: &str, slips: Slips) -> SessionError {
    SessionError::OfRule { rule: rule.to_owned(), cause: Box::new(slips.into()) }
}

fn wrong_probe(rule: &str, error: ProbeError) -> SessionError {
    let cause = Box::new(SessionError::Probe(Box::new(error)));
    SessionError::OfRule { rule: rule.to_owned(), cause }
}

/// # Errors
/// The filter of one that nothing of its probe passes.
fn check_probes(rules: &[Rule], known: &Known) -> Result<(), SessionError> {
    for rule in rules {
        let Some(filter) = &rule.filter else { continue };
        let events = of_probe(known, &rule.text);
        if !events.is_empty() {
            check_filter(filter, &events, false)
                .map_err(|slips| wrong_filter(&rule.text, slips))?;
        }
    }
    Ok(())
}

/// `all` are the probes of a channel, of which some are `new`.
///
/// # Errors
/// A new one that cannot be made beside the others, or whose filter nothing of it passes.
pub(crate) fn check_new_probes(all: &[Rule], new: &[String]) -> Result<(), SessionError> {
    let is_new = |text: &String| new.contains(text);
    let mut known = Known::default();
    let found = probed(all, &mut known, Contexts::default())?;
    match found.failed.into_iter().find(|(text, _)| is_new(text)) {
        Some((text, error)) => Err(wrong_probe(&text, error)),
        None => {
            let new: Vec<Rule> = all.iter().filter(|rule| is_new(&rule.text)).cloned().collect();
            check_probes(&new, &known)
        }
    }
}

/// Events whose descriptions are read to check a filter before it is needed; of more it is said at the start, since
/// reading takes long.
const CHECKED_MAX: usize = 256;

/// # Errors
/// A rule that is none, or one that selects events of which none passes the filter.
pub(crate) fn check_new(
    rules: &[&String],
    filter: &Filter,
    catalog: &Catalog,
) -> Result<(), SessionError> {
    for rule in rules {
        let chosen = Selection::parse(&[rule])?.apply(catalog).events;
        if chosen.len() > CHECKED_MAX {
            continue;
        }
        let described = chosen.into_iter().filter_map(|one| {
            let event = catalog.describe(&one.event).ok()?;
            Some(SelectedEvent {
                event,
                entry: one.entry,
                exit: one.exit,
                filter: None,
                exit_filter: None,
                contexts: Contexts::default(),
            })
        });
        let described: Vec<SelectedEvent> = described.collect();
        if !described.is_empty() {
            check_filter(filter, &described, false).map_err(|slips| wrong_filter(rule, slips))?;
        }
    }
    Ok(())
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

/// Those of the events that the rule selects.
fn of(
    rule: &Rule,
    events: &[SelectedEvent],
    catalog: &Catalog,
) -> Result<Vec<SelectedEvent>, SessionError> {
    let selected = Selection::parse(&[&rule.text])?.apply(catalog).events;
    let ends: HashMap<_, _> = selected
        .into_iter()
        .map(|one| ((one.event.system, one.event.name), (one.entry, one.exit)))
        .collect();
    let of_rule = events.iter().filter_map(|one| {
        let (entry, exit) = *ends.get(&key_of(&one.event))?;
        Some(SelectedEvent { entry: entry && one.entry, exit: exit && one.exit, ..one.clone() })
    });
    Ok(of_rule.collect())
}

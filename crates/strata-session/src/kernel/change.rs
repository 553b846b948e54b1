//! What the kernel's layer records, changed while it records: from rules, each with a filter of its own, to events.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use strata_filter::Filter;
use strata_kernel::catalog::Catalog;
use strata_kernel::filter::Slips;
use strata_kernel::selection::Selection;
use strata_kernel::uprobe::{Known, ProbeError};
use strata_kernel::SelectedEvent;
use strata_kernel::{sample, Contexts};

use super::chosen::{catalog, check_filter, key_of, sampled, Chosen};
use super::probes::{of as of_probe, probed};
use super::{whole, KernelLayer};
use crate::plan::PlanError;
use crate::report::{EventProblem, KernelRuleReport, KERNEL};
use crate::session::error::SessionError;
use crate::session::layer::{Rule, Wanted};

/// A change that has taken so long is undone: who asks for a snapshot or a stop waits for it.
const CHANGE_MAX: Duration = Duration::from_secs(60);

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
        let mut of_rules = begun.of_rules.clone();
        let of_probes = probed(&probes, &mut of_rules, begun.contexts)?;
        check_probes(&probes, &of_rules)?;
        // One that is new and selects nothing is a mistake; what others select may have gone. At the begin they come from
        // elsewhere, perhaps from another machine, and one of them is to select something; but what was killed is made again
        // in any case.
        let is_begin = self.given.is_empty();
        let is_again = self.context.as_ref().is_some_and(|context| context.is_again);
        let has_others = !of_probes.events.is_empty() || !samples.is_empty();
        let may_lack = |nr_events: u64| is_begin && (is_again || has_others || nr_events > 0);
        let (mut reports, mut problems, mut events) = (Vec::new(), Vec::new(), Vec::new());
        let mut nr_selected = 0;
        if !rules.is_empty() {
            let catalog = catalog().map_err(|cause| SessionError::KernelEvents(Box::new(cause)))?;
            let mut chosen = Chosen::new(&rules, &catalog)?;
            let is_given = |rule: &str| {
                self.given.iter().any(|text| text.split(',').any(|one| one.trim() == rule))
            };
            let nothing =
                chosen.reports.iter().filter(|one| one.matched == 0 && !is_given(&one.rule));
            let nothing: Vec<_> = nothing.cloned().collect();
            if !nothing.is_empty() && !may_lack(chosen.nr_events()) {
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
        let nr_events = nr_selected;
        nr_selected += (of_probes.events.len() + of_probes.failed.len()) as u64;
        for (text, error) in of_probes.failed {
            if !may_lack(nr_events) && !self.given.contains(&text) {
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

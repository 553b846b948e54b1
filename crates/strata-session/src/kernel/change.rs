//! Turns rules, each with its own filter, into the events that the kernel's layer records: for its beginning, and for each
//! change while it records.
//!
//! ```text
//! Wanted: rules ─┬─ probes of programs ── probes.rs: files are read ──▶ events
//!                ├─ names and patterns ── event_selection.rs: catalog ─▶ events, with the union of their rules' filters
//!                └─ samples of CPUs ─────────────────────────────────▶ one event
//!                                               └─▶ Lowered: events, and what to report of each rule
//! change_to   Lowered ─▶ code is watched ─▶ processes are tracked ─▶ KernelSession::change ─▶ took_effect
//! ```
//!
//! [`BegunLayer::lower`] has no effect: it reads, describes and checks. The beginning calls it through `lower_first`, a change
//! through `change_to`, and a channel of a session that has not begun checks its rules alone, by `check_new`. So the same mistake
//! has the same message everywhere.
//!
//! A new rule that selects nothing is a mistake of who wrote it. The same rule may have been possible before: a module was unloaded, a
//! library has another version now, a session is restored after a kill. [`PossibleBefore`] knows which of both it is; then the rest
//! is recorded, and the rule is reported.
//!
//! A change happens completely or not at all. Attaching programs takes up to seconds, during which the session answers nobody, so it
//! is given up after [`CHANGE_MAX`] or at a request to stop. If it fails, the former processes are tracked again and the former
//! events go on; nothing of them was switched off before the new ones were attached. All of this runs on the session's own thread.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use strata_filter::{DurationSplit, Filter};
use strata_kernel::catalog::Catalog;
use strata_kernel::event_rules::EventSelection;
use strata_kernel::filter::{Groups, Slips};
use strata_kernel::session::KernelSession;
use strata_kernel::uprobe::{KnownProbes, ProbeError};
use strata_kernel::{cpu_samples, CallStacks, Contexts, SelectedEvent, Tracked};
use strata_model::TimeSource;

use super::event_selection::{
    can_pass, catalog, check_compiled, check_filter, copy_of, key_of, sampled, BegunLayer, Chosen,
};
use super::probes::{of as of_probe, probed};
use super::{complete_events, has_functions, name_tracking, KernelLayer, LayerRequest};
use crate::applications::filter_check::slip;
use crate::error::SessionError;
use crate::plan::PlanError;
use crate::report::{
    EventProblem, FilterReport, FilterSlip, KernelRuleReport, NotReached, Notice, KERNEL,
};
use crate::session::layer::{LayerRule, Wanted};
use crate::session::lock::lock;
use crate::session::stop::Stop;

/// The time after which a change is undone, since requests for a snapshot or a stop wait for it.
const CHANGE_MAX: Duration = Duration::from_secs(60);

/// The limits of a change of rules: its time, and requests that end it early.
struct ChangeLimit {
    time: TimeSource,
    began: Instant,
    stop: Stop,
}

impl ChangeLimit {
    fn begin(time: &TimeSource, stop: &Stop) -> ChangeLimit {
        ChangeLimit { time: time.clone(), began: time.now(), stop: stop.clone() }
    }

    /// Returns `Break` if the change must be given up.
    fn flow(&self) -> ControlFlow<()> {
        match self.time.elapsed(self.began) > CHANGE_MAX {
            true => ControlFlow::Break(()),
            false => self.stop.flow(),
        }
    }
}

/// Rules of an earlier request, which were valid then and may be invalid now.
struct PossibleBefore<'b> {
    /// True if nothing is recorded yet, and the rules are those of a killed session.
    is_again: bool,
    is_begin: bool,
    /// True if all rules belong to one request with a single filter. Each part of that filter must be true of some
    /// event.
    is_common: bool,
    /// True if a rule that names an event must select an event, whatever the other rules select.
    is_strict: bool,
    rules: &'b [LayerRule],
    tracked: &'b Tracked,
}

impl PossibleBefore<'_> {
    /// Returns whether the rule may stay without any event.
    fn may_lack(&self, rule: &LayerRule) -> bool {
        self.is_again || self.rules.contains(rule)
    }

    /// Returns whether an earlier request has a rule with this text, whatever its filter.
    fn has(&self, text: &str) -> bool {
        let names = |rule: &LayerRule| rule.text.split(',').any(|one| one.trim() == text);
        self.rules.iter().any(|rule| rule.text == text || names(rule))
    }

    fn may_lack_group(&self, path: &str) -> bool {
        self.is_again || self.tracked.cgroups.iter().flatten().any(|one| one == path)
    }
}

/// The events that rules select, with reports on the rules.
#[derive(Default)]
pub(super) struct Lowered {
    pub(super) events: Vec<SelectedEvent>,
    /// True if a rule samples CPUs.
    has_samples: bool,
    /// The probes that rules have requested.
    of_rules: KnownProbes,
    /// Number of selected events. A rule of which no event is recorded counts as one.
    nr_selected: u64,
    reports: Vec<KernelRuleReport>,
    problems: Vec<EventProblem>,
    /// Filters with a part that no event can pass any longer.
    filters: Vec<FilterReport>,
    remarks: Vec<String>,
}

impl Lowered {
    /// Returns whether any record has call stacks.
    pub(super) fn has_stacks(&self) -> bool {
        self.has_samples || self.events.iter().any(|event| event.contexts.has_stack())
    }

    /// Notes that the rule records nothing, for this reason, while other rules record events.
    fn lacks(&mut self, rule: &str, reason: String) {
        self.nr_selected += 1;
        self.reports.push(KernelRuleReport {
            rule: rule.to_owned(),
            excluded: Some(reason.clone()),
            ..KernelRuleReport::default()
        });
        self.problems.push(EventProblem { event: rule.to_owned(), reason });
    }

    /// Checks the filter of the rule, which selects these events. Returns whether any of them is recorded; if not, the
    /// reason is noted.
    ///
    /// # Errors
    /// The filter is new, and no event passes a part of it, or the kernel cannot evaluate it.
    fn check(
        &mut self,
        rule: &LayerRule,
        events: &[SelectedEvent],
        (begun, before): (&BegunLayer, &PossibleBefore<'_>),
    ) -> Result<bool, SessionError> {
        let is_checked = !events.is_empty() && !before.is_common;
        let Some(filter) = rule.filter.as_ref().filter(|_| is_checked) else { return Ok(true) };
        let checked = check_filter(filter, events, false);
        let compiled = check_compiled(filter, events, Groups::AreThere);
        if !before.may_lack(rule) {
            checked.map_err(|slips| wrong_filter(&rule.text, slips))?;
            compiled.map_err(|cause| begun.failed(cause.into()))?;
            return Ok(true);
        }
        let why = match (&checked, &compiled) {
            (Err(slips), _) if !can_pass(filter, events) => {
                Some(SessionError::from(slips.clone()).in_a_line())
            }
            (_, Ok(_)) => None,
            // A removed cgroup contains no process; events that pass the rest of the filter are recorded.
            (_, Err(cause)) => match check_compiled(filter, events, Groups::MayBeGone) {
                Err(error) => Some(error.to_string()),
                Ok(false) => Some(cause.to_string()),
                Ok(true) => None,
            },
        };
        if let Some(why) = why {
            self.lacks(&rule.text, why);
            return Ok(false);
        }
        let slips = checked.err().into_iter().flat_map(|slips| slips.0);
        let mut slips: Vec<FilterSlip> = slips.map(|hint| slip(&hint)).collect();
        slips.extend(compiled.err().map(|error| FilterSlip { column: 1, text: error.to_string() }));
        if !slips.is_empty() {
            self.filters.push(FilterReport {
                rules: vec![rule.text.clone()],
                filter: filter.text().to_owned(),
                slips,
                is_never: false,
            });
        }
        Ok(true)
    }

    /// Adds the rules that select events by name. Returns the number of selected events.
    fn add_rules(
        &mut self,
        mut rules: Vec<LayerRule>,
        begun: &mut BegunLayer,
        before: &PossibleBefore<'_>,
        may_match_none: &dyn Fn(u64) -> bool,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<u64, SessionError> {
        if rules.is_empty() {
            return Ok(0);
        }
        let catalog = catalog().map_err(|cause| SessionError::KernelEvents(Box::new(cause)))?;
        let mut chosen = Chosen::new(&rules, &catalog)?;
        let nr_events = chosen.nr_events();
        // No later change can add an event: what was asked for is nothing.
        if nr_events == 0 && before.is_begin && before.is_strict {
            return Err(SessionError::NothingSelected(chosen.reports));
        }
        let mut nr_selected = nr_events;
        let is_empty = |one: &&KernelRuleReport| one.matched == 0 && !before.has(&one.rule);
        let nothing: Vec<_> = chosen.reports.iter().filter(is_empty).cloned().collect();
        if !nothing.is_empty() && !may_match_none(nr_events) {
            return Err(SessionError::NothingSelected(nothing));
        }
        nothing.into_iter().for_each(|rule| notify(Notice::NoSuchEvent(rule)));
        let mut events = begun.describe_all(&mut chosen, &catalog, notify)?;
        let mut left = Vec::with_capacity(rules.len());
        for rule in &rules {
            let of_rule = match rule.filter.is_some() || rule.is_of_calls {
                true => of(rule, &events, &catalog)?,
                false => Vec::new(),
            };
            let must_have = !before.is_common && !before.may_lack(rule);
            if rule.is_of_calls && of_rule.is_empty() && must_have {
                return Err(no_calls(&rule.text));
            }
            if self.check(rule, &of_rule, (&*begun, before))? {
                left.push(rule.clone());
            }
        }
        if left.len() < rules.len() {
            // A rule whose filter no event passes is left out. Exclusions alone would select everything else.
            rules = left;
            if rules.iter().all(excludes) {
                let excluding = chosen.reports.into_iter().filter(|one| one.rule.starts_with('!'));
                self.reports.extend(excluding);
                return Ok(nr_events);
            }
            chosen = Chosen::new(&rules, &catalog)?;
            nr_selected = chosen.nr_events();
            events = begun.describe_all(&mut chosen, &catalog, &mut |_| ())?;
        }
        self.nr_selected += nr_selected;
        self.events.extend(events);
        self.reports.extend(chosen.reports);
        self.problems.extend(chosen.problems);
        Ok(nr_events)
    }

    /// Adds the rules that are probes of programs, and notes them in `known`. Returns the probes that failed.
    fn add_probes(
        &mut self,
        rules: &[LayerRule],
        known: &mut KnownProbes,
        (begun, before): (&BegunLayer, &PossibleBefore<'_>),
    ) -> Result<Vec<(String, ProbeError)>, SessionError> {
        let mut found = probed(rules, known, &begun.contexts)?;
        self.remarks.append(&mut found.remarks);
        let mut left = Vec::with_capacity(rules.len());
        for rule in rules {
            if self.check(rule, &of_probe(known, &rule.text), (begun, before))? {
                left.push(rule.clone());
            }
        }
        if left.len() < rules.len() {
            found = probed(&left, known, &begun.contexts)?;
        }
        self.nr_selected += found.events.len() as u64;
        self.events.extend(found.events);
        self.reports.extend(found.reports);
        Ok(found.failed)
    }

    /// Adds the rules that sample CPUs.
    fn add_samples(
        &mut self,
        rules: &[LayerRule],
        begun: &BegunLayer,
        before: &PossibleBefore<'_>,
    ) -> Result<(), SessionError> {
        for rule in rules {
            let rate = rule.sample.unwrap_or(1);
            match cpu_samples::check_rate(rate) {
                // The kernel may have lowered its limit on the rate.
                Err(cause) if before.may_lack(rule) => {
                    self.lacks(&rule.text, cause.to_string());
                    continue;
                }
                checked => checked.map_err(|cause| begun.failed(cause))?,
            }
            let mut sample = sampled(rate, rule.filter.clone(), CallStacks::None);
            sample.contexts = copy_of(rule.stack, &begun.contexts);
            if !self.check(rule, std::slice::from_ref(&sample), (begun, before))? {
                continue;
            }
            self.events.push(sample);
            self.nr_selected += 1;
            self.reports.push(KernelRuleReport {
                rule: rule.text.clone(),
                matched: 1,
                ..KernelRuleReport::default()
            });
        }
        Ok(())
    }
}

impl BegunLayer {
    /// Returns the events that the layer records from its beginning.
    ///
    /// # Errors
    /// A rule or filter is wrong, or a stop was requested.
    pub(super) fn lower_first(
        &mut self,
        asked: &LayerRequest<'_>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Lowered, SessionError> {
        let (wanted, is_again) = (asked.wanted, asked.context.is_again);
        let is_common = !is_again && wanted.has_one_filter();
        let tracked = Tracked::default();
        let before = PossibleBefore {
            is_again,
            is_begin: true,
            is_common,
            is_strict: !asked.may_change,
            rules: &[],
            tracked: &tracked,
        };
        // Nobody has written these rules, so events that this kernel lacks are not reported.
        let mut notify = |notice| {
            if !asked.is_default || !matches!(notice, Notice::NoSuchEvent(_)) {
                notify(notice);
            }
        };
        self.contexts = asked.kernel.contexts.clone();
        let lowered = self.lower(wanted, &before, &mut notify)?;
        let common = wanted.selecting().next().and_then(|rule| rule.filter.as_ref());
        if let (Some(filter), true, false) = (common, is_common, lowered.events.is_empty()) {
            check_filter(filter, &lowered.events, asked.has_applications)?;
        }
        Ok(lowered)
    }

    /// Returns the events that `wanted` selects.
    ///
    /// # Errors
    /// A rule or filter is wrong, or a stop was requested.
    fn lower(
        &mut self,
        wanted: &Wanted,
        before: &PossibleBefore<'_>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Lowered, SessionError> {
        let (samples, rules): (Vec<LayerRule>, Vec<LayerRule>) =
            wanted.rules.iter().cloned().partition(|rule| rule.sample.is_some());
        let (probes, rules): (Vec<LayerRule>, Vec<LayerRule>) =
            rules.into_iter().partition(|rule| rule.probe);
        let mut lowered = Lowered { has_samples: !samples.is_empty(), ..Lowered::default() };
        let mut of_rules = self.of_rules.clone();
        let failed = lowered.add_probes(&probes, &mut of_rules, (&*self, before))?;
        // A new rule that selects nothing is a mistake; the events of earlier rules may have disappeared. Rules at the
        // beginning come from elsewhere, perhaps from another machine, and one of them must select something; but a
        // killed session is restored in any case.
        let has_others = !before.is_strict && (!lowered.events.is_empty() || !samples.is_empty());
        let may_match_none =
            |nr_events: u64| before.is_again || before.is_begin && (has_others || nr_events > 0);
        let nr_events = lowered.add_rules(rules, self, before, &may_match_none, notify)?;
        for (text, error) in failed {
            if !may_match_none(nr_events) && !before.has(&text) {
                return Err(wrong_probe(&text, error));
            }
            lowered.lacks(&text, error.to_string());
        }
        lowered.add_samples(&samples, self, before)?;
        lowered.of_rules = of_rules;
        Ok(lowered)
    }
}

impl KernelLayer {
    /// Notes the events whose programs are loaded at the beginning of the layer and record nothing
    /// yet.
    ///
    /// # Errors
    /// The tracked processes cannot be set.
    pub(super) fn begin_with(
        &mut self,
        wanted: &Wanted,
        lowered: Lowered,
    ) -> Result<(), SessionError> {
        let is_again = self.context.as_ref().is_some_and(|context| context.is_again);
        let (Some(begun), Some(attached)) = (&mut self.begun, &mut self.attached) else {
            return Err(SessionError::Unchangeable { layer: KERNEL });
        };
        let named = name_tracking::processes(&wanted.tracked);
        let mut absent = Vec::new();
        if wanted.tracked != Tracked::default() {
            let tracked = track(&mut attached.session, (&wanted.tracked, &named), &|_| is_again);
            absent = tracked.map_err(|cause| begun.failed(cause))?;
        }
        self.took_effect(wanted, lowered, named, &absent);
        self.was_begun = !wanted.rules.is_empty();
        Ok(())
    }

    /// Notes that the layer records these events from now on, or once it is started.
    fn took_effect(
        &mut self,
        wanted: &Wanted,
        lowered: Lowered,
        named: Vec<u32>,
        absent: &[String],
    ) {
        if let Some(begun) = &mut self.begun {
            begun.tracked.clone_from(&wanted.tracked);
            begun.named = named;
            begun.of_rules = lowered.of_rules;
        }
        for remark in lowered.remarks {
            if !self.remarks.contains(&remark) {
                self.remarks.push(remark);
            }
        }
        self.selected = lowered.nr_selected;
        self.is_filtered =
            wanted.rules.iter().any(|rule| rule.filter.is_some() || rule.is_of_calls);
        self.was_begun = true;
        self.given.clone_from(&wanted.rules);
        (self.rules, self.problems, self.filters) =
            (lowered.reports, lowered.problems, lowered.filters);
        self.absent = absent.iter().map(|path| absent_group(path)).collect();
    }

    /// See [`crate::session::layer::Layer::change`].
    pub(super) fn change_to(&mut self, wanted: &Wanted) -> Result<(), SessionError> {
        let (Some(begun), Some(attached)) = (&mut self.begun, &mut self.attached) else {
            return Err(SessionError::Unchangeable { layer: KERNEL });
        };
        let Some(time) = self.context.as_ref().map(|context| context.shared.time()) else {
            return Err(SessionError::Unchangeable { layer: KERNEL });
        };
        let limit = ChangeLimit::begin(time, &begun.stop);
        let contexts_before = begun.contexts.clone();
        let is_begin = !self.was_begun;
        let is_again = is_begin && self.context.as_ref().is_some_and(|context| context.is_again);
        let tracked_before = begun.tracked.clone();
        let (given, tracked) = (&self.given, &tracked_before);
        let before = PossibleBefore {
            is_again,
            is_begin,
            is_common: false,
            is_strict: false,
            rules: given,
            tracked,
        };
        let asked_contexts = Contexts::parse(&wanted.contexts);
        begun.contexts = asked_contexts.map_err(|error| PlanError::NoContext(error.to_string()))?;
        let mut lowered = begun.lower(wanted, &before, &mut |_| ())?;
        let events = std::mem::take(&mut lowered.events);
        let has_stacks =
            lowered.has_samples || events.iter().any(|event| event.contexts.has_stack());
        let is_followed = |one: &SelectedEvent| one.event.is_followed;
        let of_command = self.follows_command
            && !has_stacks
            && !events.is_empty()
            && events.iter().all(is_followed);
        // Attaching may take long, and attached events record at once: so the code that their addresses refer to is
        // reported before.
        if has_functions(&events) {
            attached.name_functions(&mut self.remarks);
        }
        if has_stacks {
            attached.watch_code(&mut self.remarks);
        }
        let (unread, of_changes) = (attached.unread.clone(), attached.of_changes());
        let mut progress = |_| {
            // No other thread reads the changes yet, and their rings are small.
            if let Some(unread) = &unread {
                unread.look(&of_changes, false, false);
            }
            limit.flow()
        };
        let found = complete_events::of(&events, &wanted.tracked);
        let recorded = &attached.trace.whole;
        recorded.change();
        let session = &mut attached.session;
        let named = name_tracking::processes(&wanted.tracked);
        let tracked =
            track(session, (&wanted.tracked, &named), &|path| before.may_lack_group(path));
        let changed = tracked
            .and_then(|absent| session.change(events, is_again, &mut progress).map(|()| absent));
        let found = complete_events::without(found, &session.problems());
        recorded.changed(changed.is_ok().then_some(found));
        let absent = match changed {
            Ok(absent) => absent,
            Err(cause) => {
                // The former request was possible before; entries that have disappeared since are no longer tracked.
                let _ = track(session, (&begun.tracked, &begun.named), &|_| true);
                begun.contexts = contexts_before;
                let error = begun.failed(cause);
                if has_stacks {
                    self.watch(true);
                }
                return Err(error);
            }
        };
        {
            // The layer may have begun without any event, and knows only now whose state belongs into the trace.
            let mut around = lock(&attached.around);
            if self.orders.is_none() {
                around.wish.of_command = of_command;
            } else if around.wish.of_command && !of_command {
                (around.wish.of_command, around.is_new) = (false, true);
            }
        }
        self.took_effect(wanted, lowered, named, &absent);
        if has_stacks {
            self.watch(true);
        }
        Ok(())
    }
}

/// Records only the tracked processes. Returns the tracked cgroups that do not exist; these are an error unless
/// `may_lack` allows them.
fn track(
    session: &mut KernelSession,
    (wanted, named): (&Tracked, &[u32]),
    may_lack: &dyn Fn(&str) -> bool,
) -> Result<Vec<String>, strata_kernel::Error> {
    let (mut tracked, mut absent) = (wanted.clone(), Vec::new());
    loop {
        match session.track(&tracked, named) {
            Err(strata_kernel::Error::TrackedGroup { path }) if may_lack(&path) => {
                tracked.cgroups.iter_mut().for_each(|all| all.retain(|one| *one != path));
                absent.push(path);
            }
            done => return done.map(|()| absent),
        }
    }
}

fn absent_group(path: &str) -> NotReached {
    NotReached {
        pid: 0,
        name: format!("control group {path}"),
        reason: "no control group of version 2 has this path any more. Of the kernel's events, what is started in it is recorded \
                 once it is there and the session was changed or made again"
            .to_owned(),
    }
}

/// Returns whether the rule only excludes events.
fn excludes(rule: &LayerRule) -> bool {
    rule.text.split(',').all(|one| one.trim_start().starts_with('!'))
}

fn no_calls(rule: &str) -> SessionError {
    SessionError::NoCalls { rule: format!("rule '{rule}'") }
}

fn wrong_filter(rule: &str, slips: Slips) -> SessionError {
    SessionError::OfRule { rule: rule.to_owned(), cause: Box::new(slips.into()) }
}

fn wrong_probe(rule: &str, error: ProbeError) -> SessionError {
    let cause = Box::new(SessionError::Probe(Box::new(error)));
    SessionError::OfRule { rule: rule.to_owned(), cause }
}

/// # Errors
/// A probe has a filter that none of its events passes.
fn check_probes(rules: &[LayerRule], known: &KnownProbes) -> Result<(), SessionError> {
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

/// Checks the probes named in `new` among `all` probes of a channel, of which `known` are resolved already.
///
/// # Errors
/// A new probe cannot be created next to the others, or none of its events passes its filter.
pub(crate) fn check_new_probes(
    all: &[LayerRule],
    new: &[String],
    mut known: KnownProbes,
) -> Result<(), SessionError> {
    let is_new = |text: &String| new.contains(text);
    let found = probed(all, &mut known, &Contexts::default())?;
    match found.failed.into_iter().find(|(text, _)| is_new(text)) {
        Some((text, error)) => Err(wrong_probe(&text, error)),
        None => {
            let new: Vec<LayerRule> =
                all.iter().filter(|rule| is_new(&rule.text)).cloned().collect();
            check_probes(&new, &known)
        }
    }
}

/// The most events whose descriptions are read to check a filter early. With more events, mistakes are reported at the
/// start, since reading takes long.
const CHECKED_MAX: usize = 256;

/// # Errors
/// A rule is invalid, or none of the events that it selects passes the filter.
pub(crate) fn check_new(
    rules: &[&String],
    filter: &Filter,
    catalog: &Catalog,
) -> Result<(), SessionError> {
    let DurationSplit { at_least, rest } = filter.split_duration()?;
    for rule in rules {
        let mut chosen = EventSelection::parse(&[rule])?.apply(catalog).events;
        if at_least > 0 {
            chosen.retain(|one| one.event.is_syscall);
            if chosen.is_empty() {
                return Err(no_calls(rule));
            }
        }
        let Some(filter) = &rest else { continue };
        if chosen.len() > CHECKED_MAX {
            continue;
        }
        let described = chosen.into_iter().filter_map(|one| {
            let (entry, exit) = (one.entry, one.exit);
            let event = catalog.describe(&one.event).ok()?;
            Some(SelectedEvent { entry, exit, ..SelectedEvent::all_records(event) })
        });
        let described: Vec<SelectedEvent> = described.collect();
        if !described.is_empty() {
            check_filter(filter, &described, false).map_err(|slips| wrong_filter(rule, slips))?;
        }
    }
    Ok(())
}

/// Returns the events that the rule selects, out of `events`.
fn of(
    rule: &LayerRule,
    events: &[SelectedEvent],
    catalog: &Catalog,
) -> Result<Vec<SelectedEvent>, SessionError> {
    let selected = EventSelection::parse(&[&rule.text])?.apply(catalog).events;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_when_it_takes_longer_than_its_limit_is_given_up() {
        let time = TimeSource::manual(0);
        let limit = ChangeLimit::begin(&time, &Stop::new());
        time.pause(CHANGE_MAX);
        assert!(limit.flow().is_continue());
        time.pause(Duration::from_nanos(1));
        assert!(limit.flow().is_break());
        // The next change has all of its time again.
        assert!(ChangeLimit::begin(&time, &Stop::new()).flow().is_continue());
    }

    #[test]
    fn change_when_the_session_is_asked_to_stop_is_given_up_at_once() {
        let (time, stop) = (TimeSource::manual(0), Stop::new());
        let limit = ChangeLimit::begin(&time, &stop);
        assert!(limit.flow().is_continue());
        stop.request(2);
        assert!(limit.flow().is_break());
    }
}

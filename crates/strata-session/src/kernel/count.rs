//! Counts events in the kernel, without a trace: the session of `strata count`.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use strata_filter::{Expr, Filter};
use strata_kernel::count::{CountRow, CountSpec, CountTable};
use strata_kernel::session::{check as check_kernel, KernelSession, RecordingSpec};
use strata_kernel::uprobe::{parse_for, KnownProbes};
use strata_kernel::{Contexts, SelectedEvent, ARGV_BYTES};
use strata_model::TimeSource;

use super::event_selection::{catalog, check_filter, rules_of, BegunLayer, Chosen};
use super::follow;
use crate::error::SessionError;
use crate::options::{KernelOptions, Options};
use crate::record::command::{Inherited, Running};
use crate::record::watched::Watched;
use crate::report::{CommandEnd, EndReason, EventProblem, LossMode, NotReached, Notice};
use crate::session::shared_state::Shared;
use crate::session::stop::Stop;
use crate::session::wait_for_end::Watch;

/// Size of a sub-buffer of the rings, to which counting writes nothing \[byte\].
const SUBBUF_BYTES: u64 = 4096;
const NR_SUBBUFS: u64 = 2;

/// The counts at one moment, or at the end.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub rows: Vec<CountRow>,
    /// Names of the events. Keys of rows have the indexes in this list.
    pub names: Vec<String>,
    /// Number of events that are in no row, because there was no room for a further row.
    pub full: u64,
    /// Number of events that are in no row because another program was writing the same row, or was already running
    /// on the CPU.
    pub uncounted: u64,
    /// Number of jumps that are counted as returns because their target could not be read.
    pub undecided: u64,
    /// Time since counting began.
    pub elapsed: Duration,
}

/// The result of a count, with the events that could not be counted.
#[derive(Clone, Debug)]
pub struct CountEnd {
    pub counts: Counts,
    pub end: EndReason,
    /// How the command ended, if there was one.
    pub command: Option<CommandEnd>,
    /// Events that are not counted, with the reasons.
    pub problems: Vec<EventProblem>,
    /// Processes that were requested and do not exist.
    pub absent: Vec<NotReached>,
    /// Number of events that the rules and probes select.
    pub selected: u64,
}

/// The request to count events.
#[derive(Debug)]
pub struct CountRequest<'a> {
    /// The selection of events and processes, and the time after which to stop. Other options are ignored.
    pub options: &'a Options,
    pub spec: &'a CountSpec,
    /// The period in which the counts are shown; `None` to show only those of the end.
    pub period: Option<Duration>,
    pub stop: &'a Stop,
}

/// A count that has been started.
struct Counting {
    session: KernelSession,
    table: Option<CountTable>,
    since: Instant,
}

impl Counting {
    /// # Errors
    /// The kernel's table cannot be read.
    fn read(&self) -> Result<Counts, String> {
        let rows = match &self.table {
            Some(table) => table.rows().map_err(|error| error.to_string())?,
            None => Vec::new(),
        };
        let classes = self.session.classes().stream_class().events;
        let (full, busy) = self.session.uncounted_events();
        let undecided = self.session.counts().unreadable;
        Ok(Counts {
            rows,
            names: classes.into_iter().map(|class| class.name).collect(),
            full,
            uncounted: busy + self.session.nested(),
            undecided,
            elapsed: self.since.elapsed(),
        })
    }
}

/// Counts until the command ends, the time is over, or a stop is requested. Calls `show` with the counts of the moment.
///
/// # Errors
/// [`SessionError`]: nothing was counted, or the counts cannot be read.
pub fn count(
    request: &CountRequest<'_>,
    notify: &mut dyn FnMut(Notice),
    show: &mut dyn FnMut(&Counts),
) -> Result<CountEnd, SessionError> {
    let CountRequest { options, spec, period, stop } = *request;
    let system = |what| move |source| SessionError::System { what, source };
    let asked = options.kernel.as_ref().ok_or(SessionError::NothingSelected(Vec::new()))?;
    check_kernel().map_err(failed)?;
    let inherited = Inherited::prepare().map_err(system("prepare this program"))?;
    let mut problems = Vec::new();
    let events = select(options, asked, stop, &mut problems, notify)?;
    let selected = events.len() as u64;
    let recording = RecordingSpec {
        loss_mode: LossMode::Discard,
        subbuf_bytes: SUBBUF_BYTES,
        nr_subbufs: NR_SUBBUFS,
        events,
        follow: follow(options, asked),
        contexts: Contexts::default(),
        argv_bytes: ARGV_BYTES,
    };
    let mut progress = |_| stop.flow();
    let (session, table) =
        KernelSession::begin_counting(recording, spec, &mut progress).map_err(failed)?;
    if stop.flow().is_break() {
        return Err(SessionError::Stopped(stop.signal()));
    }
    let refused = session.problems().into_iter();
    problems.extend(refused.map(|one| EventProblem { event: one.event, reason: one.reason }));
    let mut counting = Counting { session, table, since: Instant::now() };
    counting.session.start();
    notify(Notice::Counting);
    let running = match options.command.is_empty() {
        true => None,
        false => Some(Running::start(&options.command, &[], &[], &inherited)?),
    };
    let (watched, absent) = Watched::new(&options.pids);
    let shared = Shared::within(Arc::default(), TimeSource::machine())
        .map_err(system("make an event counter"))?;
    let mut watch = Watch {
        running,
        has_applications: false,
        watched: Some(watched).filter(|_| !options.pids.is_empty()),
        deadline: options.duration.and_then(|time| counting.since.checked_add(time)),
        ..Watch::new(&shared, stop, counting.since)
    };
    let mut next = period.and_then(|period| shared.time().now().checked_add(period));
    let end = watch.wait(notify, &mut |_| {
        let now = shared.time().now();
        if let (Some(period), Some(at)) = (period, next) {
            if now >= at {
                // A table that cannot be read now is an error at the end.
                if let Ok(counts) = counting.read() {
                    show(&counts);
                }
                next = now.checked_add(period);
            }
        }
        false
    });
    counting.session.stop();
    let counts = counting.read().map_err(|why| SessionError::System {
        what: "read the counts from the kernel",
        source: std::io::Error::other(why),
    })?;
    let command = watch.running.as_ref().map(Running::end);
    counting.session.teardown();
    Ok(CountEnd { counts, end, command, problems, absent, selected })
}

/// Checks that some event can pass each condition of the filter. Some conditions of a system call are decided by its
/// entry, others by its exit.
///
/// # Errors
/// [`SessionError::KernelFilter`].
fn check_conditions(filter: &Filter, events: &[SelectedEvent]) -> Result<(), SessionError> {
    let Err(slips) = check_filter(filter, events, false) else { return Ok(()) };
    let Expr::And(parts) = filter.expr() else { return Err(slips.into()) };
    for part in parts {
        // A parsed filter is printed so that it can be parsed again.
        let part = Filter::parse(&part.to_string());
        if part.map_or(true, |part| check_filter(&part, events, false).is_err()) {
            return Err(slips.into());
        }
    }
    Ok(())
}

/// Converts an error of the kernel. The advice to record applications instead is left out, since they cannot be
/// counted.
fn failed(cause: strata_kernel::Error) -> SessionError {
    SessionError::Kernel { cause: Box::new(cause), asked: String::new() }
}

/// Returns the events that the rules and probes select.
fn select(
    options: &Options,
    asked: &KernelOptions,
    stop: &Stop,
    problems: &mut Vec<EventProblem>,
    notify: &mut dyn FnMut(Notice),
) -> Result<Vec<SelectedEvent>, SessionError> {
    let mut begun = BegunLayer::new("", stop, KnownProbes::default());
    let rules = rules_of(asked)?;
    let mut events = Vec::new();
    if !rules.is_empty() {
        let catalog = catalog().map_err(failed)?;
        let mut chosen = Chosen::new(&rules, &catalog)?;
        if chosen.nr_events() == 0 {
            return Err(SessionError::NothingSelected(chosen.reports));
        }
        for rule in chosen.reports.iter().filter(|rule| rule.matched == 0) {
            notify(Notice::NoSuchEvent(rule.clone()));
        }
        events = begun.describe_all(&mut chosen, &catalog, notify)?;
        problems.extend(chosen.problems);
    }
    let filter = rules.first().map_or(&asked.filter, |rule| &rule.filter);
    if !asked.probes.is_empty() {
        let wrong = |error| SessionError::Probe(Box::new(error));
        let probes = parse_for(&asked.probes, &options.pids).map_err(wrong)?;
        events.extend(probes.events.into_iter().map(|event| SelectedEvent {
            filter: filter.clone(),
            ..SelectedEvent::all_records(event)
        }));
    }
    if let (Some(filter), false) = (filter, events.is_empty()) {
        check_conditions(filter, &events)?;
    }
    match stop.flow() {
        ControlFlow::Break(()) => Err(SessionError::Stopped(stop.signal())),
        ControlFlow::Continue(()) => Ok(events),
    }
}

//! The kernel's layer of a session: one trace of the whole machine beside those of the applications.
//!
//! ```text
//! main thread     begin: select, describe, load, attach     KernelLayer
//!                 start, stop: one flag each
//! strata-kernel   packets from the rings to files           Recorder
//! strata-detach   a process: detaches, behind the report    detach.rs
//! ```
//!
//! Attaching many events takes seconds, and so does detaching them: what is recorded lies between the two
//! flags.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{pidfd_open, Pid, PidfdFlags};
use strata_collect::{remove_mark, Collector, Directory, Identity, Kinds, Producer};
use strata_filter::Filter;
use strata_kernel::catalog::{Catalog, EventName};
use strata_kernel::filter::{can_select, check, Candidate, End, Slips};
use strata_kernel::selection::{Selected, Selection};
use strata_kernel::session::{
    check as check_kernel, Counts as Failures, KernelSession, Problem, SelectedEvent, Spec,
};
use strata_kernel::tracefs::Tracefs;
use strata_kernel::uprobe::parse_all;
use strata_kernel::{syscalls, Follow};
use strata_model::{StreamClass, Uuid};
use strata_ring::{Channel, LossMode};

use crate::describe::{new_uuid, Machine};
use crate::detach::Detaching;
use crate::error::SessionError;
use crate::options::{KernelOptions, Mode, Options};
use crate::report::{
    Counts, EventProblem, KernelReport, KernelRuleReport, NoKernel, NotReached, Notice,
    ProcessReport, KERNEL,
};
use crate::shared::{Layer, Shared};
use crate::statedump::{self, Dump};
use crate::stop::Stop;
use crate::traced::{counts_of, unwritten_of};

/// Pause after a round that found packets.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Pause when nothing has happened for a while.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// How often figures are told.
const COUNT_PERIOD: Duration = Duration::from_millis(100);

/// The kernel's layer, from before anything runs to its end. Without an event that the rules select there
/// is only something to report.
#[derive(Default)]
pub(crate) struct KernelLayer {
    attached: Option<Attached>,
    rules: Vec<KernelRuleReport>,
    /// Events that the rules selected.
    selected: u64,
    problems: Vec<EventProblem>,
    remarks: Vec<String>,
    is_default: bool,
    is_filtered: bool,
}

/// Programs in the kernel.
struct Attached {
    session: KernelSession,
    /// Taken by the thread that reads it.
    channel: Option<Channel>,
    uuid: Uuid,
    /// Its metadata, taken likewise.
    kinds: Option<Kinds>,
    /// With those of the dump of what runs, if there is one.
    class: StreamClass,
    /// The id of the first of these.
    dump_id: Option<u32>,
    /// Events that a program never ran for, known when the session has stopped.
    not_run: Arc<AtomicU64>,
    as_lttng: bool,
    /// When recording began, if the streams are to begin then \[ns\].
    span_from: Option<u64>,
}

/// What is asked of the layer.
pub(crate) struct Asked<'a> {
    pub(crate) options: &'a Options,
    pub(crate) kernel: &'a KernelOptions,
    pub(crate) machine: &'a Machine,
    /// When the trace was begun.
    pub(crate) created: &'a str,
    /// Who wants this to end while it attaches.
    pub(crate) stop: &'a Stop,
}

/// What the layer does, of which the end is told.
pub(crate) struct LayerEnd {
    pub(crate) report: KernelReport,
    /// The kernel, as if it were a process.
    pub(crate) kernel: ProcessReport,
    pub(crate) remarks: Vec<String>,
    pub(crate) detaching: Detaching,
}

impl KernelLayer {
    /// Select, describe, load and attach. Nothing is recorded yet.
    ///
    /// # Errors
    /// [`SessionError`]: nothing is left in the kernel.
    pub(crate) fn begin(
        &Asked { options, kernel: asked, machine, created, stop }: &Asked<'_>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<KernelLayer, SessionError> {
        // First: whoever has no rights would else be told of a file of root's.
        let failed = |cause| failed(cause, options);
        check_kernel().map_err(failed)?;
        let mut layer = KernelLayer::default();
        layer.is_filtered = asked.filter.is_some();
        let mut described = layer.describe(options, asked, stop, notify)?;
        layer.add_probes(asked, &mut described)?;
        let stopped = || SessionError::Stopped(stop.signal());
        if stop.flow().is_break() {
            return Err(stopped());
        }
        if described.is_empty() {
            return Ok(layer);
        }
        if let Some(filter) = &asked.filter {
            check_filter(filter, &described, options.records_applications())?;
        }
        let spec = Spec {
            loss_mode: match options.mode {
                Mode::Discard => LossMode::Discard,
                Mode::Overwrite => LossMode::Overwrite,
            },
            subbuf_bytes: options.subbuf_bytes,
            nr_subbufs: u64::from(options.nr_subbufs),
            events: described,
            follow: follow(options, asked),
        };
        let mut progress = |now: strata_kernel::session::Progress| {
            let (attached, total) = (now.attached as u64, now.total as u64);
            notify(Notice::Attaching { attached, total });
            stop.flow()
        };
        let of_others = is_of_others(&spec);
        let session = KernelSession::begin(spec, &mut progress).map_err(failed)?;
        if stop.flow().is_break() {
            Detaching::begin(session);
            return Err(stopped());
        }
        layer.remarks.extend(session.remark().map(str::to_owned));
        let attached = Attached::new(session, asked, machine, created, of_others)?;
        layer.attached = Some(attached);
        Ok(layer)
    }

    /// As of events that nobody named: of the rules nothing is told.
    pub(crate) fn by_default(mut self) -> KernelLayer {
        self.rules.clear();
        self.is_default = true;
        self
    }

    /// The same; without an event there is no layer.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn by_default_or_not(self) -> Result<KernelLayer, NoKernel> {
        let recorded = self.attached.as_ref().is_some_and(|one| one.session.attached() > 0);
        if recorded {
            return Ok(self.by_default());
        }
        let refused = self.attached.iter().flat_map(|one| one.session.problems());
        let mut reasons = refused.map(|problem| &problem.reason);
        let reason = reasons.next().or(self.problems.first().map(|problem| &problem.reason));
        let why = reason.map_or_else(|| "it has none of the events".to_owned(), String::clone);
        Err(NoKernel { why, is_failure: true })
    }

    /// The events that the rules select.
    fn describe(
        &mut self,
        options: &Options,
        asked: &KernelOptions,
        stop: &Stop,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Vec<SelectedEvent>, SessionError> {
        if asked.rules.is_empty() {
            return Ok(Vec::new());
        }
        let selection = Selection::parse(&asked.rules)?;
        let catalog = catalog().map_err(|cause| failed(cause, options))?;
        let Selected { events, matched } = selection.apply(&catalog);
        self.rules = rule_reports(matched, &catalog);
        if events.is_empty() {
            return Err(SessionError::NothingSelected(std::mem::take(&mut self.rules)));
        }
        for rule in self.rules.iter().filter(|rule| rule.matched == 0) {
            notify(Notice::NoSuchEvent(rule.clone()));
        }
        self.selected = events.len() as u64;
        let total = events.len();
        let mut described = Vec::with_capacity(total);
        for (index, chosen) in events.into_iter().enumerate() {
            // Each may wait for others who attach or detach.
            if stop.flow().is_break() {
                return Err(SessionError::Stopped(stop.signal()));
            }
            notify(Notice::Describing { described: index as u64, total: total as u64 });
            match catalog.describe(&chosen.event) {
                Ok(event) => described.push(SelectedEvent {
                    event,
                    entry: chosen.entry,
                    exit: chosen.exit,
                    filter: asked.filter.clone(),
                }),
                Err(error) => self
                    .problems
                    .push(EventProblem { event: chosen.event.name, reason: error.to_string() }),
            }
        }
        Ok(described)
    }

    /// The probes of programs and libraries, too.
    fn add_probes(
        &mut self,
        asked: &KernelOptions,
        events: &mut Vec<SelectedEvent>,
    ) -> Result<(), SessionError> {
        if asked.probes.is_empty() {
            return Ok(());
        }
        let failed = |error| SessionError::Probe(Box::new(error));
        let probes = parse_all(&asked.probes).map_err(failed)?;
        self.remarks = probes.remarks;
        self.selected += probes.events.len() as u64;
        let filter = &asked.filter;
        events.extend(probes.events.into_iter().map(|event| SelectedEvent {
            event,
            entry: true,
            exit: true,
            filter: filter.clone(),
        }));
        Ok(())
    }

    /// Did nobody name its events?
    pub(crate) fn is_default(&self) -> bool {
        self.is_default
    }

    /// Record from now on; on the thread that starts the command.
    pub(crate) fn start(&mut self) {
        if let Some(attached) = &mut self.attached {
            // Analyses of LTTng's traces look at what all streams span.
            attached.span_from = attached.as_lttng.then(strata_user::Clock::monotonic_ns);
            attached.session.start();
        }
    }

    /// Record no more.
    pub(crate) fn stop(&mut self) {
        if let Some(attached) = &mut self.attached {
            attached.session.stop();
            // Release pairs with the acquire in the recorder, which then makes an end.
            attached.not_run.store(attached.session.nested(), Ordering::Release);
        }
    }

    /// Events that are being recorded.
    pub(crate) fn events(&self) -> u64 {
        let failed = self.attached.as_ref().map_or(0, |one| nr_refused(one.session.problems()));
        let known = self.selected.saturating_sub(self.problems.len() as u64);
        known.saturating_sub(failed)
    }

    /// What is to be done by a thread of its own; once. `None`: nothing.
    pub(crate) fn recorder(
        &mut self,
        folder: (Arc<OwnedFd>, &Path),
        flush: Duration,
    ) -> Option<impl FnOnce(&Shared) -> Recorded + Send + use<>> {
        let attached = self.attached.as_mut()?;
        let (channel, kinds) = (attached.channel.take()?, attached.kinds.take()?);
        let uuid = attached.uuid;
        let (class, dump_id) = (attached.class.clone(), attached.dump_id);
        let (root, path) = (folder.0, folder.1.join(KERNEL));
        let (not_run, span_from) = (Arc::clone(&attached.not_run), attached.span_from);
        Some(move |shared: &Shared| {
            let streams = channel.nr_streams();
            let directory = Directory::create_in(root.as_fd(), OsStr::new(KERNEL), &path);
            let directory = match directory.and_then(|one| one.begin().map(|()| one)) {
                Ok(directory) => directory,
                Err(error) => {
                    shared.fail_to_write(Layer::Kernel, &error);
                    return unwritten(channel, shared, &not_run);
                }
            };
            let identity = Identity { uuid, stream_id: class.id, name: class.name.clone() };
            let (stream_id, stream_instance) = (class.id, streams.into());
            let mut collector = Collector::new(directory, channel, identity);
            collector.set_classes(move || Some(class.clone()));
            if let Some(begin) = span_from {
                collector.span_from(begin);
            }
            let dumped = collector.describe_kinds(kinds).and_then(|()| match dump_id {
                None => Ok(Dump::default()),
                Some(first_id) => {
                    let place = statedump::Place { uuid, stream_id, stream_instance, first_id };
                    statedump::write(collector.directory(), &place)
                }
            });
            let dumped = dumped.unwrap_or_else(|error| {
                shared.fail_to_write(Layer::Kernel, &error);
                Dump::default()
            });
            Recorder::new(collector, streams, flush, shared).run(root.as_fd(), &not_run, dumped)
        })
    }

    /// What became of it. Detaching begins.
    pub(crate) fn end(mut self, recorded: Recorded) -> LayerEnd {
        let mut failures = Failures::default();
        let selected = self.events();
        if let Some(attached) = &self.attached {
            failures = attached.session.counts();
            let problems = attached.session.problems().iter();
            // Who is not there is one of those that are not reached.
            let events = problems.filter(|problem| !is_process(problem));
            self.problems.extend(events.map(|problem| EventProblem {
                event: problem.event.clone(),
                reason: problem.reason.clone(),
            }));
        }
        let kernel = ProcessReport {
            name: KERNEL.to_owned(),
            folder: recorded.folder,
            tracepoints: self.selected,
            selected,
            counts: recorded.counts,
            unmarked: recorded.unmarked,
            is_alive: true,
            ..ProcessReport::default()
        };
        let buffers = self.attached.as_ref().map(|one| one.session.buffers()).unwrap_or_default();
        let report = KernelReport {
            is_default: self.is_default,
            rules: std::mem::take(&mut self.rules),
            is_filtered: self.is_filtered,
            problems: std::mem::take(&mut self.problems),
            unreadable: failures.unreadable,
            cut: failures.cut,
            subbuf_bytes: buffers.subbuf_bytes,
            nr_subbufs: buffers.nr_subbufs,
            are_largest: buffers.are_largest,
        };
        LayerEnd {
            report,
            kernel,
            remarks: std::mem::take(&mut self.remarks),
            detaching: self.detach(),
        }
    }

    fn detach(&mut self) -> Detaching {
        self.attached.take().map(|one| Detaching::begin(one.session)).unwrap_or_default()
    }
}

/// What could not begin is not waited for either.
impl Drop for KernelLayer {
    fn drop(&mut self) {
        self.detach();
    }
}

impl Attached {
    fn new(
        mut session: KernelSession,
        asked: &KernelOptions,
        machine: &Machine,
        created: &str,
        is_dumped: bool,
    ) -> Result<Attached, SessionError> {
        let system = |source| SessionError::System { what: "make a number for the trace", source };
        let uuid = new_uuid().map_err(system)?;
        let mut class = session.stream_class().clone();
        let dump_id = is_dumped.then(|| statedump::describe(&mut class));
        let trace = machine.kernel_trace(uuid, created, asked.as_lttng, class.clone());
        trace.validate()?;
        let channel = session.take_channel();
        let not_run = Arc::new(AtomicU64::new(0));
        let kinds = Some(machine.kinds(trace, dump_id)?);
        Ok(Attached {
            channel,
            uuid,
            kinds,
            class,
            dump_id,
            not_run,
            session,
            as_lttng: asked.as_lttng,
            span_from: None,
        })
    }
}

/// What the kernel has to offer.
pub(crate) fn catalog() -> Result<Catalog, strata_kernel::Error> {
    Catalog::load(&Tracefs::find()?)
}

fn failed(cause: strata_kernel::Error, options: &Options) -> SessionError {
    // What was asked for: the rules may be those of the default by now.
    let asked = options.kernel.as_ref().map_or_else(String::new, KernelOptions::flags);
    SessionError::Kernel { cause: Box::new(cause), asked }
}

fn follow(options: &Options, asked: &KernelOptions) -> Follow {
    match (
        asked.all_processes || options.everyone,
        options.command.is_empty(),
        options.pids.is_empty(),
    ) {
        (true, ..) | (false, true, true) => Follow::Everyone,
        (false, false, _) => Follow::Children,
        (false, true, false) => Follow::Processes(options.pids.clone()),
    }
}

/// Events among them; both ends of a system call were selected as one. A process is none.
fn nr_refused(problems: &[Problem]) -> u64 {
    let mut names: Vec<String> = problems
        .iter()
        .filter(|problem| !is_process(problem))
        .map(|problem| syscalls::event_of(&problem.event).unwrap_or(problem.event.clone()))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.len() as u64
}

/// Not an event, but one of those who are recorded.
fn is_process(problem: &Problem) -> bool {
    problem.event.starts_with("process ")
}

/// Whether threads can be in the trace that began before it: only then a reader needs to be told of them.
fn is_of_others(spec: &Spec) -> bool {
    spec.follow != Follow::Children || spec.events.iter().any(|chosen| !chosen.event.is_followed)
}

/// `has_others`: what is no event of the kernel's may be one of applications.
///
/// # Errors
/// What of it none of the events can pass.
fn check_filter(filter: &Filter, events: &[SelectedEvent], has_others: bool) -> Result<(), Slips> {
    let mut candidates = Vec::with_capacity(events.len());
    for chosen in events {
        let ends: &[(bool, End)] = match chosen.event.exit_fields.is_empty() {
            true => &[(true, End::Entry)],
            false => &[(chosen.entry, End::Entry), (chosen.exit, End::Exit)],
        };
        for &(_, end) in ends.iter().filter(|(chosen, _)| *chosen) {
            candidates.push(Candidate { event: &chosen.event, end });
        }
    }
    match has_others && can_select(filter, &candidates) {
        true => Ok(()),
        false => check(filter, &candidates),
    }
}

/// Each rule, with what may help if it matches nothing.
pub(crate) fn rule_reports(
    matched: Vec<(String, u64)>,
    catalog: &Catalog,
) -> Vec<KernelRuleReport> {
    let report = |(rule, matched): (String, u64)| {
        let is_empty = matched == 0;
        let similar = if is_empty { catalog.similar(&rule) } else { Vec::new() };
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

/// What the thread hands back.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    counts: Counts,
    folder: Option<PathBuf>,
    /// Records that are in no trace and that no end mark says.
    unmarked: u64,
}

/// There is no folder: counts what would be in it.
fn unwritten(mut channel: Channel, shared: &Shared, not_run: &AtomicU64) -> Recorded {
    while !shared.is_stopping() {
        wait(shared, PAUSE_MAX);
    }
    let mut counts = unwritten_of(&mut channel);
    counts.discarded.not_run = not_run.load(Ordering::Acquire);
    Recorded { counts, folder: None, unmarked: counts.losses().total() }
}

/// Takes packets from the rings and writes them.
struct Recorder<'a> {
    collector: Collector,
    streams: u32,
    shared: &'a Shared,
    flush: Duration,
    next_flush: Option<Instant>,
    next_count: Instant,
}

impl<'a> Recorder<'a> {
    fn new(
        collector: Collector,
        streams: u32,
        flush: Duration,
        shared: &'a Shared,
    ) -> Recorder<'a> {
        let now = Instant::now();
        let next_flush = (!flush.is_zero()).then(|| now + flush);
        Recorder { collector, streams, shared, flush, next_flush, next_count: now }
    }

    /// Until the session stops and all is taken.
    fn run(mut self, root: BorrowedFd<'_>, not_run: &AtomicU64, dumped: Dump) -> Recorded {
        let mut pause = PAUSE_MIN;
        while !self.shared.is_stopping() {
            pause = match self.round() {
                0 => (pause * 2).min(PAUSE_MAX),
                _ => PAUSE_MIN,
            };
            self.count();
            wait(self.shared, pause);
        }
        self.collector.add_discarded(not_run.load(Ordering::Acquire));
        if !self.shared.has_failed_in(Layer::Kernel) {
            let finished = self.collector.finish(Producer::Alive, &mut || None);
            let spanned = finished.and_then(|()| match self.collector.span() {
                Some(span) => dumped.span(self.collector.directory(), span),
                None => Ok(()),
            });
            if let Err(error) = spanned {
                self.shared.fail_to_write(Layer::Kernel, &error);
            }
        }
        if self.shared.has_failed_in(Layer::Kernel) {
            self.collector.give_up();
        }
        let mut counts = counts_of(&self.collector.stats(), self.streams);
        self.shared.set_kernel_counts(&counts);
        // Nothing happened, and nothing was discarded, of which a packet would tell.
        let is_empty = counts.packets == 0;
        let (directory, losses) = (self.collector.directory(), counts.losses());
        let mut unmarked = losses.total();
        if is_empty {
            remove_empty(root, directory);
        } else {
            counts.add(&dumped.counts);
            counts.metadata_bytes = directory.metadata_bytes();
            match directory.end(self.shared.ending(Layer::Kernel), losses) {
                Ok(()) => unmarked = 0,
                Err(error) => self.shared.fail_to_write(Layer::Kernel, &error),
            }
        }
        Recorded { counts, folder: (!is_empty).then(|| directory.path().to_owned()), unmarked }
    }

    /// Returns how many packets were moved.
    fn round(&mut self) -> u64 {
        if self.shared.has_failed_in(Layer::Kernel) {
            return 0;
        }
        let now = Instant::now();
        let moved = match self.next_flush {
            Some(time) if now >= time => {
                self.next_flush = Some(now + self.flush);
                self.collector.flush(&mut || None)
            }
            _ => self.collector.poll(&mut || None),
        };
        moved.unwrap_or_else(|error| {
            self.shared.fail_to_write(Layer::Kernel, &error);
            0
        })
    }

    fn count(&mut self) {
        let now = Instant::now();
        if now >= self.next_count {
            self.next_count = now + COUNT_PERIOD;
            self.shared.set_kernel_counts(&counts_of(&self.collector.stats(), self.streams));
        }
    }
}

/// For as long as this, or until the session stops.
fn wait(shared: &Shared, pause: Duration) {
    let mut fds = [PollFd::from_borrowed_fd(shared.wake(), PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) };
    // A signal only makes it shorter.
    let _ = poll(&mut fds, Some(&time));
}

/// A trace without a packet is none.
fn remove_empty(root: BorrowedFd<'_>, directory: &Directory) {
    // What cannot be removed stays, and can be read: it is empty.
    let _ = directory.remove(statedump::FILE);
    let _ = directory.remove("metadata");
    remove_mark(directory.as_fd());
    let _ = rustix::fs::unlinkat(root, KERNEL, rustix::fs::AtFlags::REMOVEDIR);
}

/// Processes that are followed by number, to know when all have ended.
#[derive(Debug)]
pub(crate) struct Watched(Vec<OwnedFd>);

impl Watched {
    /// The processes with these numbers, and who of them is not there.
    pub(crate) fn new(pids: &[u32]) -> (Watched, Vec<NotReached>) {
        let (mut watched, mut absent) = (Vec::new(), Vec::new());
        for &pid in pids {
            match open(pid) {
                Ok(fd) => watched.push(fd),
                Err(error) => absent.push(NotReached {
                    pid,
                    name: String::new(),
                    reason: match error.raw_os_error() {
                        Some(libc::ESRCH) => format!("process {pid}: is not there"),
                        _ => format!("process {pid}: cannot be watched: {error}"),
                    },
                }),
            }
        }
        (Watched(watched), absent)
    }

    /// Have all ended?
    pub(crate) fn have_ended(&self) -> bool {
        let mut fds: Vec<PollFd<'_>> =
            self.0.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut fds, Some(&none)) {
            Ok(ended) => ended == fds.len(),
            Err(_) => false,
        }
    }
}

fn open(pid: u32) -> io::Result<OwnedFd> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    Ok(pidfd_open(number, PidfdFlags::empty())?)
}

#[cfg(test)]
mod tests;

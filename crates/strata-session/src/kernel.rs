//! The kernel's layer of a session: one trace of the whole machine next to the traces of applications.
//!
//! ```text
//! main thread     begin: select, describe, load, attach     KernelLayer
//!                 start, stop: one flag each
//! strata-kernel   packets from the rings to the output      kernel/source.rs, strata_collect::Pump
//! strata-detach   a process: detaches, after the report     kernel/detach_process.rs
//! ```
//!
//! Attaching many events takes seconds, and so does detaching them. Recording lasts from the flag set by `start` to the
//! flag set by `stop`.
//!
//! ```text
//! rules, filters (change.rs, event_selection.rs) ─▶ RecordingSpec ─▶ KernelSession (strata-kernel) ─▶ KernelSource
//!       probes.rs, default_events.rs                                      │ problems, remarks           │ packets
//!                                                                         ▼                             ▼
//!                                                                  report of the layer          trace in the output
//! ```
//!
//! - `KernelLayer` implements [`Layer`]: the session's thread calls it, one call at a time. It never touches packets.
//! - `change.rs` computes which programs a change of rules adds and removes. Recording continues meanwhile.
//! - `statedump.rs` writes what existed before: threads, files, mapped code. It reads `/proc` in threads of its own,
//!   since a process can make such a read hang, and gives up what does not come in time.
//! - `complete_events.rs` notes which events a trace has without gaps; readers rely on that to follow descriptors.
//! - The default layer, for a request that does not mention the kernel, never fails a session: the engine leaves it out
//!   if it cannot begin, and the report says why.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use strata_collect::{Arrival, Counts, Keep, Kinds, Pump, PumpOrder};
use strata_ctf::kernel_symbols;
use strata_kernel::mapped_code::{ChangePlace, Mapped};
use strata_kernel::session::{check as check_kernel, FlawCounts, KernelSession, RecordingSpec};
use strata_kernel::uprobe::KnownProbes;
use strata_kernel::{
    syscalls, Follow, Probe, RecordedProcesses, SelectedEvent, UnrecordedEvent, ARGV_BYTES,
};
use strata_ring::Channel;

use crate::daemon::fdstore_rings::FdstoreRings;
use crate::error::SessionError;
use crate::options::{KernelOptions, Options};
use crate::output::describe::new_uuid;
use crate::record::command::Running;
use crate::report::{
    Buffers, EventProblem, FilterReport, KernelReport, KernelRuleReport, LayerReport, LossMode,
    NotReached, Notice, ProcessReport, Report, RuleReport, KERNEL,
};
use crate::session::budget::{over_memory, BudgetShare};
use crate::session::detach_later::Detaching;
use crate::session::layer::{
    Context, EndedProgram, Layer, LayerEnd, LayerRule, LayerStatus, Wanted,
};
use crate::session::lock::lock;
use crate::session::privileges::Work;
use crate::session::shared_state::Voice;
use crate::session::stop::Stop;
use crate::session::threads::{ask, cut, joined, spawn, Ask, Cut};
use crate::sizes::{BuffersOf, Hardware};
pub(crate) use change::{check_new, check_new_probes};
use event_selection::BegunLayer;
pub(crate) use event_selection::{catalog, recorded_names, rule_reports};
use source::{KernelSource, KernelTraceIdentity, RecordedByKernel};

mod change;
mod complete_events;
pub mod count;
pub mod default_events;
mod detach_process;
mod event_selection;
mod jit_names;
mod name_tracking;
pub mod probes;
mod record_options;
pub(crate) mod samples;
mod source;
pub mod statedump;

/// Number of programs above which the user is told that programs are being attached, since that takes seconds.
const PROGRAMS_TOLD: usize = 200;

/// The session layer that records the kernel. A layer whose rules select no event only has its report.
#[derive(Default)]
pub(crate) struct KernelLayer {
    attached: Option<KernelPrograms>,
    rules: Vec<KernelRuleReport>,
    /// Number of events that the rules selected.
    selected: u64,
    problems: Vec<EventProblem>,
    remarks: Vec<String>,
    is_filtered: bool,
    /// True if only the command and its descendants are recorded.
    follows_command: bool,
    context: Option<Arc<Context>>,
    voice: Option<Voice>,
    recorded: Arc<Mutex<RecordedByKernel>>,
    orders: Option<Sender<PumpOrder<KernelSource>>>,
    moving: Option<JoinHandle<Counts>>,
    /// The thread that reads which files processes map. The thread returns the number of changes that found no room.
    watching: Option<JoinHandle<u64>>,
    /// The thread that reads the names of code that processes generate.
    naming: Option<JoinHandle<()>>,
    begun: Option<BegunLayer>,
    /// The rules of the layer, as the user wrote them.
    given: Vec<LayerRule>,
    /// True if the layer records everything that was requested, even if that is nothing.
    was_begun: bool,
    /// Filters with a part that no event can pass any longer. They were accepted when an event could.
    filters: Vec<FilterReport>,
    /// Tracked control groups that do not exist.
    absent: Vec<NotReached>,
    /// The search for processes whose name is tracked.
    names: name_tracking::NameSearch,
    mode: LossMode,
    /// The rings' memory in the fdstore, kept until all of it is read.
    _held: Option<FdstoreRings>,
}

/// The BPF programs of the kernel's layer.
struct KernelPrograms {
    session: KernelSession,
    /// The buffers, until the reading thread takes them.
    channel: Option<Channel>,
    /// The event classes for the metadata, until the reading thread takes them.
    kinds: Option<Kinds>,
    trace: KernelTraceIdentity,
    /// Number of events for which no BPF program ran. The number is known after the session has stopped.
    not_run: Arc<AtomicU64>,
    as_lttng: bool,
    /// Start time of the recording \[ns\], if each stream must begin at that time.
    span_from: Option<u64>,
    /// For each stream, the number of discarded records that the traces of a killed session already report.
    told: Vec<u64>,
    /// For each event, the number of records that sampling left out in traces of a killed session that are complete.
    left_out_before: samples::LeftOutBefore,
    /// The contents of state dumps, in addition to the threads.
    around: Arc<Mutex<statedump::DumpScope>>,
    /// The source of changes of the dumped state, until a thread reads them.
    unread: Option<statedump::WatchedChanges>,
    /// The rings' share of the session's memory.
    _memory: BudgetShare,
}

/// The request to create the kernel's layer.
pub(crate) struct LayerRequest<'a> {
    pub(crate) options: &'a Options,
    pub(crate) kernel: &'a KernelOptions,
    /// The rules, contexts and tracked processes at the beginning.
    pub(crate) wanted: &'a Wanted,
    /// Probes whose targets were found before.
    pub(crate) probes: KnownProbes,
    pub(crate) context: &'a Arc<Context>,
    /// The user's request to stop, which may arrive while programs are being attached.
    pub(crate) stop: &'a Stop,
    /// The flags or rules that request the kernel, for messages.
    pub(crate) flags: &'a str,
    /// True if rules may be changed while the layer records.
    pub(crate) may_change: bool,
    /// True if the user named no event. Then the layer must record some event, whichever it is.
    pub(crate) is_default: bool,
    /// True if applications are recorded, too. A filter may then be meant for their events.
    pub(crate) has_applications: bool,
}

impl KernelLayer {
    /// Selects, describes, loads and attaches the events. Nothing is recorded yet.
    ///
    /// # Errors
    /// [`SessionError`]; nothing is left in the kernel.
    pub(crate) fn begin(
        asked: &LayerRequest<'_>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<KernelLayer, SessionError> {
        let LayerRequest { options, kernel, wanted, context, stop, .. } = *asked;
        // The check comes first: a user without rights would otherwise get an error about a file of root's.
        let failed = |cause| failed(cause, asked.flags);
        check_kernel().map_err(failed)?;
        let stopped = || SessionError::Stopped(stop.signal());
        let mut layer = KernelLayer::default();
        layer.mode = options.mode;
        let mut begun = BegunLayer::new(asked.flags, stop, asked.probes.clone());
        // What goes on in the kernel after a kill begins without events, so that one that is taken up is changed to them.
        let lowered = match context.kept {
            Some(_) => Default::default(),
            None => begun.lower_first(asked, notify)?,
        };
        if stop.flow().is_break() {
            return Err(stopped());
        }
        let found = complete_events::of(&lowered.events, &wanted.tracked);
        let before = context.kept.as_ref().and_then(|kept| kept.before());
        let sizes = (options.subbuf_bytes, u64::from(options.nr_subbufs));
        // Sizes that were once chosen for the machine stay as they are.
        let chosen = before.as_ref().filter(|_| !options.is_size_given);
        let (subbuf_bytes, nr_subbufs) = chosen.map_or(sizes, |noted| noted.kernel.sizes());
        let spec = RecordingSpec {
            loss_mode: options.mode,
            subbuf_bytes,
            nr_subbufs,
            events: lowered.events.clone(),
            follow: follow(options, kernel),
            contexts: kernel.contexts.clone(),
            argv_bytes: kernel.argv_bytes.unwrap_or(ARGV_BYTES),
        };
        let calls = |one: &&SelectedEvent| matches!(one.event.probe, Probe::Syscall { .. });
        let programs = spec.events.len() - spec.events.iter().filter(calls).count();
        if programs >= PROGRAMS_TOLD {
            notify(Notice::ManyPrograms { programs: programs as u64 });
        }
        let mut progress = |now: strata_kernel::AttachProgress| {
            let (attached, total) = (now.attached as u64, now.total as u64);
            notify(Notice::Attaching { attached, total });
            stop.flow()
        };
        let has_stacks = kernel.contexts.has_stack() || lowered.has_stacks();
        let names_functions = has_functions(&spec.events);
        let (of_others, follow) = (is_of_others(&spec) || has_stacks, spec.follow.clone());
        // The kernel searches its symbols from the first one on, and each attached part of a program adds a symbol.
        let symbols = (has_stacks || names_functions).then(read_symbols).flatten();
        // A command is recorded with its probes alone.
        let is_probe = |one: &SelectedEvent| matches!(one.event.probe, Probe::Uprobe { .. });
        let is_dumped = asked.may_change || of_others || !spec.events.iter().all(is_probe);
        let session = match &context.kept {
            None => KernelSession::begin(spec, None, &mut progress),
            Some(kept) => kept.keeping().and_then(|keeping| match &before {
                Some(noted) => KernelSession::adopt(&spec, noted.kernel.clone(), keeping),
                None => KernelSession::begin(spec, Some(keeping), &mut progress),
            }),
        };
        let session = session.map_err(failed)?;
        if let (Some(slots), None) = (&context.slots, &context.kept) {
            layer._held = session.rings().and_then(|(map, rings)| slots.hold_rings(map, rings));
        }
        if stop.flow().is_break() {
            detach_process::detach(session);
            return Err(stopped());
        }
        if let Some(numbers) = session.numbers() {
            context.machine.set_numbers(numbers);
        }
        layer.remarks.extend(session.remark().map(str::to_owned));
        let mut attached = KernelPrograms::new(session, kernel, context, is_dumped)?;
        let found = complete_events::without(found, &attached.session.problems());
        attached.trace.whole.set(found);
        {
            let mut around = lock(&attached.around);
            (around.wish.symbols, around.has_new_symbols) = (symbols, names_functions);
        }
        attached.look_around(&follow, has_stacks, &mut layer.remarks);
        if names_functions {
            attached.name_functions(&mut layer.remarks);
        }
        lock(&attached.around).wish.of_command = !of_others;
        layer.follows_command = follow == Follow::Children;
        // A flight recorder has not released any packet.
        if let (Some(noted), Some(channel), false) = (&before, &mut attached.channel, options.hold)
        {
            attached.told = noted.pass_written(channel);
        }
        if let Some(noted) = before {
            attached.left_out_before = noted.left_out;
        }
        attached.session.note_classes().map_err(failed)?;
        let has_none = attached.session.attached() == 0;
        layer.attached = Some(attached);
        layer.context = Some(Arc::clone(context));
        layer.begun = Some(begun);
        match context.kept {
            Some(_) => layer.change_to(wanted)?,
            None => layer.begin_with(wanted, lowered)?,
        }
        match asked.is_default && !asked.may_change && has_none {
            true => Err(layer.nothing_attached()),
            false => Ok(layer),
        }
    }

    /// Returns why no event could be attached.
    fn nothing_attached(&self) -> SessionError {
        let refused = self.attached.iter().flat_map(|one| one.session.problems());
        let mut reasons = refused.map(|problem| problem.reason);
        let known = self.problems.first().map(|problem| problem.reason.clone());
        match reasons.next().or(known) {
            Some(why) => SessionError::NothingAttached { why },
            None => SessionError::NothingSelected(Vec::new()),
        }
    }

    fn buffers(&self) -> Buffers {
        let found = self.attached.as_ref().map(|one| one.session.buffers()).unwrap_or_default();
        Buffers {
            subbuf_bytes: found.subbuf_bytes,
            nr_subbufs: found.nr_subbufs,
            mode: self.mode,
            are_largest: found.are_largest,
            streams: Hardware::here().streams(BuffersOf::Kernel),
            room: None,
        }
    }

    /// Starts to read which files processes map. Call this once a pump can write the result. `goes_on`: true if an
    /// earlier dump may be written already.
    fn watch(&mut self, goes_on: bool) {
        let (Some(attached), Some(context)) = (&mut self.attached, &self.context) else { return };
        if self.orders.is_none() {
            return;
        }
        if let Some(watched) = attached.unread.take() {
            let place = attached.of_changes();
            let holds = matches!(context.keep, Keep::Hold);
            let names = Arc::clone(&watched.names);
            let time = context.shared.time().clone();
            self.naming =
                spawn("strata-names", Work::Names, &context.shared, move || names.watch(&time));
            self.watching = spawn("strata-mapped", Work::Code, &context.shared, move || {
                watched.watch(&place, holds)
            });
            // Maps from before the start are not in that dump.
            lock(&attached.around).is_new = goes_on;
        }
    }

    fn detach(&mut self) -> Detaching {
        self.attached.take().map(|one| detach_process::detach(one.session)).unwrap_or_default()
    }
}

impl KernelLayer {
    /// Returns the number of events that are recorded.
    fn recorded_events(&self) -> Option<u64> {
        let failed = self.attached.as_ref().map_or(0, |one| nr_refused(&one.session.problems()));
        let known = self.selected.saturating_sub(self.problems.len() as u64);
        Some(known.saturating_sub(failed))
    }

    /// Returns remarks on the events that sampling has left out so far.
    fn samples(&self) -> Vec<String> {
        let sampled = self.attached.as_ref().map(|one| one.session.sampled().read());
        samples::remarks(&sampled.unwrap_or_default())
    }

    /// Searches for processes with tracked names if the last search is long enough ago, and tracks the processes
    /// found.
    fn look_for_processes(&mut self) {
        let (Some(begun), Some(attached)) = (&mut self.begun, &mut self.attached) else { return };
        let Some(context) = &self.context else { return };
        let time = context.shared.time();
        let Some(found) = self.names.look(&begun.tracked, time) else { return };
        // Entries that a change could not track, such as removed control groups, are not tracked here either.
        if found != begun.named && self.absent.is_empty() {
            match attached.session.track(&begun.tracked, &found) {
                Ok(()) => begun.named = found,
                Err(error) => self.names.note(&error, &mut self.remarks),
            }
        }
    }
}

impl Layer for KernelLayer {
    fn rights(&self) -> Work {
        Work::Kernel
    }

    /// Takes the rights that reading the open files of other processes needs, for the state dump.
    fn asks_with(&self) -> Work {
        Work::Applications
    }

    fn start(&mut self) {
        if let Some(attached) = &mut self.attached {
            // Analyses of LTTng's traces look at the time span that all streams share.
            attached.span_from = attached.as_lttng.then(strata_user::Clock::monotonic_ns);
            if let Some(watched) = &attached.unread {
                watched.begin(strata_user::Clock::monotonic_ns());
            }
            attached.session.start();
            self.voice = self.context.as_ref().map(|one| one.shared.add_layer(KERNEL));
        }
    }

    fn look_around(&mut self) -> Vec<EndedProgram> {
        self.look_for_processes();
        Vec::new()
    }

    fn begun(&mut self, command: Option<&Running>) {
        if let (Some(attached), Some(running)) = (&self.attached, command) {
            lock(&attached.around).wish.command = running.state().cloned();
        }
    }

    fn run(&mut self) {
        let (Some(attached), Some(context)) = (&mut self.attached, &self.context) else { return };
        let Some(voice) = self.voice.clone() else { return };
        let (Some(channel), Some(kinds)) = (attached.channel.take(), attached.kinds.take()) else {
            return;
        };
        // The recorded events may have changed since they were described.
        let said = attached.trace.whole.of_new();
        let kinds = attached.trace.kinds(context, attached.trace.uuid, said).unwrap_or(kinds);
        attached.trace.whole.begin();
        let source = KernelSource {
            context: Arc::clone(context),
            voice: voice.clone(),
            trace: attached.trace.clone(),
            kinds: Some(kinds),
            said,
            span_from: attached.span_from,
            told: std::mem::take(&mut attached.told),
            left_out_before: std::mem::take(&mut attached.left_out_before),
            not_run: Arc::clone(&attached.not_run),
            dump_stream: channel.nr_streams().into(),
            dumped: statedump::Dump::default(),
            around: Arc::clone(&attached.around),
            behind: source::Behind::default(),
            snapshot_uuid: attached.trace.uuid,
            recorded: Arc::clone(&self.recorded),
        };
        let shared = Arc::clone(&context.shared);
        let (orders, receiver) = mpsc::channel();
        // Sending fails only without a receiver, and the receiver is right here.
        let _ = orders.send(PumpOrder::Take(Arrival { source, channel }));
        self.orders = Some(orders);
        let (keep, time) = (context.keep, context.shared.time().clone());
        self.moving = spawn("strata-kernel", Work::Kernel, &shared, move || {
            Pump::new(receiver, &voice, keep, time).run()
        });
        self.watch(false);
    }

    /// Returns whether the layer's thread has ended unexpectedly.
    fn is_broken(&self) -> bool {
        self.moving.as_ref().is_some_and(JoinHandle::is_finished)
    }

    fn snapshot(&self) -> Ask {
        ask(self.orders.as_ref())
    }

    fn rotate(&self) -> Cut {
        cut(self.orders.as_ref())
    }

    fn change(&mut self, wanted: &Wanted) -> Result<(), SessionError> {
        self.change_to(wanted)
    }

    fn set_paused(&mut self, is_paused: bool) {
        let Some(attached) = &mut self.attached else { return };
        if is_paused {
            attached.trace.whole.pause(true);
            attached.session.stop();
        } else {
            attached.session.start();
            attached.trace.whole.pause(false);
        }
    }

    fn status(&self) -> LayerStatus {
        let rule = |one: &KernelRuleReport| RuleReport {
            rule: one.rule.clone(),
            matched: one.matched,
            similar: one.similar.clone(),
        };
        let problems = self.attached.iter().flat_map(|one| one.session.problems());
        let problems = problems.map(|one| (one.event.clone(), one.reason.clone()));
        let known = self.problems.iter().map(|one| (one.event.clone(), one.reason.clone()));
        LayerStatus {
            rules: self.rules.iter().map(rule).collect(),
            filters: self.filters.clone(),
            not_reached: problems
                .chain(known)
                .map(|(name, reason)| NotReached { pid: 0, name, reason })
                .chain(self.absent.iter().cloned())
                .collect(),
            figures: self.voice.as_ref().map(Voice::figures).unwrap_or_default(),
            fill: self.voice.as_ref().map(Voice::fill).unwrap_or_default(),
            history_seconds: self.voice.as_ref().and_then(Voice::history_seconds),
            losses: self.voice.as_ref().map(Voice::losses).unwrap_or_default(),
            buffers: self.buffers(),
            late: Vec::new(),
            processes: 0,
            events: self.recorded_events(),
            remarks: self.remarks.iter().cloned().chain(self.samples()).collect(),
        }
    }

    fn stop(&mut self) {
        if let Some(attached) = &mut self.attached {
            attached.session.stop();
            // Release pairs with the acquire in the source, which reads the count at its end.
            attached.not_run.store(attached.session.nested(), Ordering::Release);
            // All changes are there when the pump looks for the last time.
            let watched = lock(&attached.around).watched.clone();
            if let (Some(watched), Some(context)) = (watched, &self.context) {
                watched.end();
                let discarded: u64 = joined(self.watching.take(), &context.shared);
                if discarded > 0 {
                    self.remarks.push(format!(
                        "{discarded} times the kernel had no room to say what a process has mapped: some addresses in call \
                         stacks have no names"
                    ));
                }
                watched.names.end();
                let () = joined(self.naming.take(), &context.shared);
                self.remarks.extend(watched.names.remarks());
            }
        }
        // A closed channel is the pump's sign that all events are disabled.
        self.orders = None;
    }

    fn join(&mut self) {
        if let Some(context) = &self.context {
            joined(self.moving.take(), &context.shared);
        }
    }

    /// Ends the layer and returns its result. Another process detaches the BPF programs afterwards.
    fn end(mut self: Box<Self>) -> LayerEnd {
        let mut failures = FlawCounts::default();
        let selected = self.recorded_events().unwrap_or(0);
        if let Some(attached) = &self.attached {
            failures = attached.session.counts();
            self.remarks.extend(samples::remarks(&attached.session.sampled().read()));
            let problems = attached.session.problems().into_iter();
            // Processes that do not exist are reported as not reached.
            let events = problems.filter(|problem| !is_process(problem));
            self.problems.extend(
                events.map(|UnrecordedEvent { event, reason }| EventProblem { event, reason }),
            );
        }
        let recorded = std::mem::take(&mut *lock(&self.recorded));
        let kernel = ProcessReport {
            name: KERNEL.to_owned(),
            folder: recorded.folder,
            tracepoints: self.selected,
            selected,
            counts: recorded.counts,
            losses: recorded.losses,
            unmarked: recorded.unmarked,
            is_alive: true,
            ..ProcessReport::default()
        };
        let buffers = self.buffers();
        let report = KernelReport {
            is_default: false,
            rules: std::mem::take(&mut self.rules),
            is_filtered: self.is_filtered,
            problems: std::mem::take(&mut self.problems),
            unreadable: failures.unreadable,
            uncounted: failures.uncounted,
            cut: failures.cut,
        };
        LayerEnd {
            report: LayerReport {
                layer: KERNEL,
                channel: String::new(),
                buffers,
                is_filtered: false,
                processes: vec![kernel],
            },
            remarks: std::mem::take(&mut self.remarks),
            filters: std::mem::take(&mut self.filters),
            not_reached: std::mem::take(&mut self.absent),
            own: Report { kernel: Some(report), ..Report::default() },
            detaching: self.detach(),
            ..LayerEnd::default()
        }
    }
}

/// Detaches the programs of a layer that could not begin, without waiting for the end of detaching.
impl Drop for KernelLayer {
    fn drop(&mut self) {
        self.detach();
    }
}

impl KernelPrograms {
    fn new(
        mut session: KernelSession,
        asked: &KernelOptions,
        context: &Context,
        is_dumped: bool,
    ) -> Result<KernelPrograms, SessionError> {
        let system = |source| SessionError::System { what: "make a number for the trace", source };
        let uuid = new_uuid().map_err(system)?;
        let of_dump = match is_dumped {
            true => session.classes().add(statedump::describe),
            false => 0..0,
        };
        let (classes, as_lttng) = (session.classes().clone(), asked.as_lttng);
        // A restored session keeps the contexts of its beginning.
        let contexts = session.contexts().clone();
        let whole = complete_events::RecordedWhole::default();
        let sampled = session.sampled().clone();
        let trace =
            KernelTraceIdentity { uuid, classes, of_dump, contexts, as_lttng, whole, sampled };
        // This checks whether the events can be described. Their final description is known only when all rules are.
        let kinds = Some(trace.kinds(context, uuid, complete_events::Said::default())?);
        let channel = session.take_channel();
        let bytes = channel.as_ref().map_or(0, Channel::mapped_bytes);
        let budget = context.shared.memory();
        let memory = budget.take(bytes).ok_or_else(|| {
            budget.give_up();
            SessionError::Memory { why: over_memory(bytes, budget.now()) }
        })?;
        let not_run = Arc::new(AtomicU64::new(0));
        Ok(KernelPrograms {
            channel,
            kinds,
            trace,
            not_run,
            session,
            as_lttng,
            span_from: None,
            told: Vec::new(),
            left_out_before: samples::LeftOutBefore::new(),
            around: Arc::default(),
            unread: None,
            _memory: memory,
        })
    }
}

impl KernelPrograms {
    /// Opens the sources of the state dump, which give addresses and descriptors names. Adds a remark for each source
    /// that cannot be opened.
    fn look_around(&mut self, follow: &Follow, has_stacks: bool, remarks: &mut Vec<String>) {
        {
            let mut around = lock(&self.around);
            around.wish.recorded = self.session.recorded_processes(follow).unwrap_or_else(|error| {
                remarks.push(format!(
                    "the list of recorded processes cannot be read ({error}): descriptors have no paths, and addresses of call \
                     stacks no names"
                ));
                RecordedProcesses::Nobody
            });
            around.wish.numbers = self.session.numbers().cloned();
        }
        if has_stacks {
            self.watch_code(remarks);
        }
    }

    /// Returns the id of the first event class, and the contexts, of records about state changes.
    fn of_changes(&self) -> ChangePlace {
        ChangePlace { first_id: self.trace.of_dump.start, contexts: self.trace.contexts.clone() }
    }

    /// Adds the kernel's symbols to the state dump, since fields of records hold addresses of functions.
    fn name_functions(&mut self, remarks: &mut Vec<String>) {
        let mut around = lock(&self.around);
        let is_new = around.wish.symbols.is_none();
        keep_symbols(&mut around, remarks);
        around.has_new_symbols |= is_new;
    }

    /// Adds mapped code to the state dump, since records have call stacks.
    fn watch_code(&mut self, remarks: &mut Vec<String>) {
        let mut around = lock(&self.around);
        if around.wish.has_code {
            return;
        }
        around.wish.has_code = true;
        keep_symbols(&mut around, remarks);
        // In such a trace, every stream spans the whole recording.
        if self.as_lttng {
            return;
        }
        match Mapped::open(around.wish.recorded.clone(), around.wish.numbers.clone()) {
            Ok(mapped) => {
                let watched = statedump::WatchedChanges::new(mapped);
                self.unread = Some(watched.clone());
                around.watched = Some(watched);
            }
            Err(error) => remarks.push(format!(
                "the kernel does not say what processes map while they are recorded ({error}): addresses of their call \
                 stacks may have no names"
            )),
        }
    }
}

/// Adds the kernel's symbols to the state dump, unless they are there already.
fn keep_symbols(around: &mut statedump::DumpScope, remarks: &mut Vec<String>) {
    if around.wish.symbols.is_some() {
        return;
    }
    let symbols = read_symbols();
    let remark = "the kernel shows no addresses of its functions (/proc/kallsyms; it does with CAP_SYSLOG, in a container --cap-add \
                  SYSLOG, unless /proc/sys/kernel/kptr_restrict is 2): stacks in the kernel have no names, nor have functions in fields";
    if symbols.is_none() && !remarks.iter().any(|one| one == remark) {
        remarks.push(remark.to_owned());
    }
    around.wish.symbols = symbols;
}

/// Reads the kernel's symbols, which takes seconds if thousands of BPF programs are attached. Returns `None` if the
/// kernel shows no addresses.
fn read_symbols() -> Option<Arc<Vec<u8>>> {
    let text = std::fs::read("/proc/kallsyms").unwrap_or_default();
    kernel_symbols::of_kallsyms(&String::from_utf8_lossy(&text)).map(Arc::new)
}

/// Returns whether one of the events has a field that holds the address of a function.
fn has_functions(events: &[SelectedEvent]) -> bool {
    let fields = |one: &SelectedEvent| {
        one.event.system != "syscalls"
            && one
                .event
                .fields
                .iter()
                .any(|field| kernel_symbols::has_function(&one.event.name, &field.name))
    };
    events.iter().any(fields)
}

fn failed(cause: strata_kernel::Error, flags: &str) -> SessionError {
    SessionError::Kernel { cause: Box::new(cause), asked: flags.to_owned() }
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

/// Counts the events that were not recorded. Both ends of a system call count as one event; problems with processes
/// do not count.
fn nr_refused(problems: &[UnrecordedEvent]) -> u64 {
    let mut names: Vec<String> = problems
        .iter()
        .filter(|problem| !is_process(problem))
        .map(|problem| syscalls::event_of(&problem.event).unwrap_or(problem.event.clone()))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.len() as u64
}

/// Returns whether the problem is about a recorded process and not about an event.
fn is_process(problem: &UnrecordedEvent) -> bool {
    problem.event.starts_with("process ")
}

/// Returns whether the trace can contain threads that began before the recording. Only then do readers need the state
/// dump.
fn is_of_others(spec: &RecordingSpec) -> bool {
    // Later events are not known yet.
    spec.events.is_empty()
        || spec.follow != Follow::Children
        || spec.events.iter().any(|chosen| !chosen.event.is_followed)
}

#[cfg(test)]
mod tests;

//! The kernel's layer of a session: one trace of the whole machine beside those of the applications.
//!
//! ```text
//! main thread     begin: select, describe, load, attach     KernelLayer
//!                 start, stop: one flag each
//! strata-kernel   packets from the rings to the output       kernel/source.rs, strata_collect::Pump
//! strata-detach   a process: detaches, behind the report     kernel/detach.rs
//! ```
//!
//! Attaching many events takes seconds, and so does detaching them: what is recorded lies between the two
//! flags.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use strata_collect::{Arrival, Counts, Keep, Kinds, Pump, PumpOrder};
use strata_ctf::kernel_symbols;
use strata_kernel::mapped::{ChangePlace, Mapped};
use strata_kernel::session::{check as check_kernel, FlawCounts, KernelSession, RecordingSpec};
use strata_kernel::uprobe::parse_all;
use strata_kernel::{sample, syscalls, Follow, SelectedEvent, Tracked, UnrecordedEvent, Whom};
use strata_ring::Channel;

use crate::error::SessionError;
use crate::options::{KernelOptions, Options};
use crate::output::describe::new_uuid;
use crate::report::{
    Buffers, EventProblem, FilterReport, KernelReport, KernelRuleReport, LayerReport, LossMode,
    NoKernel, NotReached, Notice, ProcessReport, Report, RuleReport, KERNEL,
};
use crate::session::budget::{over_memory, BudgetShare};
use crate::session::detaching::Detaching;
use crate::session::layer::{Context, Layer, LayerEnd, LayerLook, LayerRule, Wanted};
use crate::session::lock::lock;
use crate::session::privileges::Work;
use crate::session::shared::Voice;
use crate::session::stop::Stop;
use crate::session::threads::{ask, cut, joined, spawn, Ask, Cut};
use crate::standing::rings::HeldRings;
pub(crate) use change::{check_new, check_new_probes};
pub(crate) use chosen::{catalog, recorded_names, rule_reports};
use chosen::{check_filter, rules_of, sampled, BegunLayer, Chosen};
use source::{KernelSource, KernelTraceIdentity, RecordedByKernel};

mod change;
mod chosen;
pub mod default;
mod detach;
mod probes;
mod records;
mod source;
pub mod statedump;
mod whole;

/// The kernel's layer, from before anything runs to its end. Without an event that the rules select there
/// is only something to report.
#[derive(Default)]
pub(crate) struct KernelLayer {
    attached: Option<KernelPrograms>,
    rules: Vec<KernelRuleReport>,
    /// Events that the rules selected.
    selected: u64,
    problems: Vec<EventProblem>,
    remarks: Vec<String>,
    is_default: bool,
    is_filtered: bool,
    context: Option<Arc<Context>>,
    voice: Option<Voice>,
    recorded: Arc<Mutex<RecordedByKernel>>,
    orders: Option<Sender<PumpOrder<KernelSource>>>,
    moving: Option<JoinHandle<Counts>>,
    /// Returns how many changes of what processes have mapped found no room.
    watching: Option<JoinHandle<u64>>,
    begun: Option<BegunLayer>,
    /// The rules, as they were written.
    given: Vec<LayerRule>,
    /// It records what it was asked for, be that nothing.
    was_begun: bool,
    /// With a part that no event passes any more; they were not refused, since they were there before.
    filters: Vec<FilterReport>,
    /// Control groups that are tracked and not there.
    absent: Vec<NotReached>,
    mode: LossMode,
    /// By the trustee, until all that is in them is read.
    _held: Option<HeldRings>,
}

/// Programs in the kernel.
struct KernelPrograms {
    session: KernelSession,
    /// Taken by the thread that reads it.
    channel: Option<Channel>,
    /// Its metadata, taken likewise.
    kinds: Option<Kinds>,
    trace: KernelTraceIdentity,
    /// Events that a program never ran for, known when the session has stopped.
    not_run: Arc<AtomicU64>,
    as_lttng: bool,
    /// When recording began, if the streams are to begin then \[ns\].
    span_from: Option<u64>,
    /// Of each stream, how many discarded records the traces of a killed session tell of.
    told: Vec<u64>,
    /// What is said of those who are recorded.
    around: Arc<Mutex<statedump::DumpScope>>,
    /// Who reads what changes of it takes this.
    unread: Option<statedump::WatchedChanges>,
    /// Of the session's memory, the rings'.
    _memory: BudgetShare,
}

/// What is asked of the layer.
pub(crate) struct LayerRequest<'a> {
    pub(crate) options: &'a Options,
    pub(crate) kernel: &'a KernelOptions,
    pub(crate) context: &'a Arc<Context>,
    /// Who wants this to end while it attaches.
    pub(crate) stop: &'a Stop,
}

impl KernelLayer {
    /// Select, describe, load and attach. Nothing is recorded yet.
    ///
    /// # Errors
    /// [`SessionError`]: nothing is left in the kernel.
    pub(crate) fn begin(
        &LayerRequest { options, kernel: asked, context, stop }: &LayerRequest<'_>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<KernelLayer, SessionError> {
        // First: whoever has no rights would else be told of a file of root's.
        let failed = |cause| failed(cause, options);
        check_kernel().map_err(failed)?;
        let mut layer = KernelLayer::default();
        let rules = rules_of(asked)?;
        layer.is_filtered = asked.filter.is_some();
        let mut begun = BegunLayer::new(options, stop);
        let mut described = layer.describe(options, &rules, &mut begun, notify)?;
        layer.add_probes(asked, &mut begun)?;
        if let Some(rate) = asked.sample {
            sample::check_rate(rate).map_err(failed)?;
            begun.probes.push(layer.sample(rate, asked));
        }
        described.extend(begun.probes.iter().cloned());
        let stopped = || SessionError::Stopped(stop.signal());
        if stop.flow().is_break() {
            return Err(stopped());
        }
        layer.mode = options.mode;
        layer.begun = Some(begun);
        if let (Some(filter), false) = (&asked.filter, described.is_empty()) {
            check_filter(filter, &described, options.records_applications())?;
        }
        let found = whole::of(&described, &Tracked::default());
        let before = context.kept.as_ref().and_then(|kept| kept.before());
        let sizes = (options.subbuf_bytes, u64::from(options.nr_subbufs));
        // Sizes that were chosen for the machine, as it was then, stay.
        let chosen = before.as_ref().filter(|_| !options.is_size_given);
        let (subbuf_bytes, nr_subbufs) = chosen.map_or(sizes, |noted| noted.kernel.sizes());
        let spec = RecordingSpec {
            loss_mode: options.mode,
            subbuf_bytes,
            nr_subbufs,
            events: described,
            follow: follow(options, asked),
            contexts: asked.contexts.clone(),
        };
        let mut progress = |now: strata_kernel::AttachProgress| {
            let (attached, total) = (now.attached as u64, now.total as u64);
            notify(Notice::Attaching { attached, total });
            stop.flow()
        };
        let has_stacks = asked.contexts.has_stack() || asked.sample.is_some();
        let (of_others, follow) = (is_of_others(&spec) || has_stacks, spec.follow.clone());
        let session = match &context.kept {
            None => KernelSession::begin(spec, None, &mut progress),
            Some(kept) => kept.keeping().and_then(|keeping| match &before {
                Some(noted) => KernelSession::take_up(&spec, noted.kernel.clone(), keeping),
                None => KernelSession::begin(spec, Some(keeping), &mut progress),
            }),
        };
        let session = session.map_err(failed)?;
        if let (Some(slots), None) = (&context.slots, &context.kept) {
            layer._held = session.rings().and_then(|(map, rings)| slots.hold_rings(map, rings));
        }
        if stop.flow().is_break() {
            detach::detach(session);
            return Err(stopped());
        }
        if let Some(numbers) = session.numbers() {
            context.machine.set_numbers(numbers);
        }
        layer.remarks.extend(session.remark().map(str::to_owned));
        let mut attached = KernelPrograms::new(session, asked, context, of_others)?;
        let found = whole::without(found, &attached.session.problems());
        attached.trace.whole.set(found);
        if of_others {
            attached.look_around(&follow, has_stacks, &mut layer.remarks);
        }
        // A flight recorder has given nothing back.
        if let (Some(noted), Some(channel), false) = (&before, &mut attached.channel, options.hold)
        {
            attached.told = noted.pass_written(channel);
        }
        attached.session.note_classes().map_err(failed)?;
        layer.was_begun = !rules.is_empty();
        layer.given = rules;
        layer.attached = Some(attached);
        layer.context = Some(Arc::clone(context));
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
        let mut reasons = refused.map(|problem| problem.reason);
        let known = self.problems.first().map(|problem| problem.reason.clone());
        let why = reasons.next().or(known);
        let why = why.unwrap_or_else(|| "it has none of the events".to_owned());
        Err(NoKernel { why, is_failure: true })
    }

    /// The events that the rules select.
    fn describe(
        &mut self,
        options: &Options,
        rules: &[LayerRule],
        begun: &mut BegunLayer,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Vec<SelectedEvent>, SessionError> {
        if rules.is_empty() {
            return Ok(Vec::new());
        }
        let catalog = catalog().map_err(|cause| failed(cause, options))?;
        let mut chosen = Chosen::new(rules, &catalog)?;
        if chosen.nr_events() == 0 {
            return Err(SessionError::NothingSelected(chosen.reports));
        }
        for rule in chosen.reports.iter().filter(|rule| rule.matched == 0) {
            notify(Notice::NoSuchEvent(rule.clone()));
        }
        self.selected = chosen.nr_events();
        let described = begun.describe_all(&mut chosen, &catalog, notify)?;
        (self.rules, self.problems) = (chosen.reports, chosen.problems);
        Ok(described)
    }

    /// The probes of programs and libraries, which stay whatever becomes of the rules.
    fn add_probes(
        &mut self,
        asked: &KernelOptions,
        begun: &mut BegunLayer,
    ) -> Result<(), SessionError> {
        if asked.probes.is_empty() {
            return Ok(());
        }
        let failed = |error| SessionError::Probe(Box::new(error));
        let probes = parse_all(&asked.probes).map_err(failed)?;
        self.remarks = probes.remarks;
        self.selected += probes.events.len() as u64;
        let filter = &asked.filter;
        begun.probes.extend(probes.events.into_iter().map(|event| SelectedEvent {
            event,
            entry: true,
            exit: true,
            filter: filter.clone(),
            exit_filter: filter.clone(),
            contexts: asked.contexts.clone(),
        }));
        Ok(())
    }

    /// What CPUs do, which stays as the probes do.
    fn sample(&mut self, rate: u32, asked: &KernelOptions) -> SelectedEvent {
        self.selected += 1;
        sampled(rate, asked.filter.clone())
    }

    /// Did nobody name its events?
    pub(crate) fn is_default(&self) -> bool {
        self.is_default
    }

    fn buffers(&self) -> Buffers {
        let found = self.attached.as_ref().map(|one| one.session.buffers()).unwrap_or_default();
        Buffers {
            subbuf_bytes: found.subbuf_bytes,
            nr_subbufs: found.nr_subbufs,
            mode: self.mode,
            are_largest: found.are_largest,
        }
    }

    /// Reads what processes map, once there is somebody who writes it. `goes_on`: a dump may be written already.
    fn watch(&mut self, goes_on: bool) {
        let (Some(attached), Some(context)) = (&mut self.attached, &self.context) else { return };
        if self.orders.is_none() {
            return;
        }
        if let Some(watched) = attached.unread.take() {
            let place = attached.of_changes();
            let holds = matches!(context.keep, Keep::Hold);
            self.watching = spawn("strata-mapped", Work::Code, &context.shared, move || {
                watched.watch(&place, holds)
            });
            // What was mapped before: that dump does not have it.
            lock(&attached.around).is_new = goes_on;
        }
    }

    fn detach(&mut self) -> Detaching {
        self.attached.take().map(|one| detach::detach(one.session)).unwrap_or_default()
    }
}

impl Layer for KernelLayer {
    fn rights(&self) -> Work {
        Work::Kernel
    }

    /// What processes have open is in the state that was there before.
    fn asks_with(&self) -> Work {
        Work::Applications
    }

    fn start(&mut self) {
        if let Some(attached) = &mut self.attached {
            // Analyses of LTTng's traces look at what all streams span.
            attached.span_from = attached.as_lttng.then(strata_user::Clock::monotonic_ns);
            if let Some(watched) = &attached.unread {
                watched.begin(strata_user::Clock::monotonic_ns());
            }
            attached.session.start();
            self.voice = self.context.as_ref().map(|one| one.shared.add_layer(KERNEL));
        }
    }

    fn run(&mut self) {
        let (Some(attached), Some(context)) = (&mut self.attached, &self.context) else { return };
        let Some(voice) = self.voice.clone() else { return };
        let (Some(channel), Some(kinds)) = (attached.channel.take(), attached.kinds.take()) else {
            return;
        };
        // What it records may have been changed since it was described.
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
        // Fails only where nobody listens, who is right here.
        let _ = orders.send(PumpOrder::Take(Arrival { source, channel }));
        self.orders = Some(orders);
        let keep = context.keep;
        self.moving = spawn("strata-kernel", Work::Kernel, &shared, move || {
            Pump::new(receiver, &voice, keep).run()
        });
        self.watch(false);
    }

    /// Events that are being recorded.
    fn events(&self) -> Option<u64> {
        let failed = self.attached.as_ref().map_or(0, |one| nr_refused(&one.session.problems()));
        let known = self.selected.saturating_sub(self.problems.len() as u64);
        Some(known.saturating_sub(failed))
    }

    fn is_broken(&self) -> bool {
        self.moving.as_ref().is_some_and(JoinHandle::is_finished)
    }

    fn snapshot(&self) -> Ask {
        ask(self.orders.as_ref())
    }

    fn rotate(&self) -> Cut {
        cut(self.orders.as_ref())
    }

    fn lacks(&self, _wanted: &Wanted) -> Vec<String> {
        Vec::new()
    }

    fn change(&mut self, wanted: &Wanted) -> Result<(), SessionError> {
        self.change_to(wanted)
    }

    fn pause(&mut self) {
        if let Some(attached) = &mut self.attached {
            attached.trace.whole.pause(true);
            attached.session.stop();
        }
    }

    fn resume(&mut self) {
        if let Some(attached) = &mut self.attached {
            attached.session.start();
            attached.trace.whole.pause(false);
        }
    }

    fn look(&self) -> LayerLook {
        let rule = |one: &KernelRuleReport| RuleReport {
            rule: one.rule.clone(),
            matched: one.matched,
            similar: one.similar.clone(),
        };
        let problems = self.attached.iter().flat_map(|one| one.session.problems());
        let problems = problems.map(|one| (one.event.clone(), one.reason.clone()));
        let known = self.problems.iter().map(|one| (one.event.clone(), one.reason.clone()));
        LayerLook {
            rules: self.rules.iter().map(rule).collect(),
            filters: self.filters.clone(),
            not_reached: problems
                .chain(known)
                .map(|(name, reason)| NotReached { pid: 0, name, reason })
                .chain(self.absent.iter().cloned())
                .collect(),
            figures: self.voice.as_ref().map(Voice::figures).unwrap_or_default(),
            fill: self.voice.as_ref().map(Voice::fill).unwrap_or_default(),
            losses: self.voice.as_ref().map(Voice::losses).unwrap_or_default(),
            buffers: self.buffers(),
            late: Vec::new(),
            processes: 0,
            remarks: self.remarks.clone(),
        }
    }

    fn stop(&mut self) {
        if let Some(attached) = &mut self.attached {
            attached.session.stop();
            // Release pairs with the acquire in the source, which is asked at its end.
            attached.not_run.store(attached.session.nested(), Ordering::Release);
            // All of it is there when the pump looks for the last time.
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
            }
        }
        // The pump learns by it that all is switched off.
        self.orders = None;
    }

    fn join(&mut self) {
        if let Some(context) = &self.context {
            joined(self.moving.take(), &context.shared);
        }
    }

    /// What became of it. Detaching begins.
    fn end(mut self: Box<Self>) -> LayerEnd {
        let mut failures = FlawCounts::default();
        let selected = self.events().unwrap_or(0);
        if let Some(attached) = &self.attached {
            failures = attached.session.counts();
            let problems = attached.session.problems().into_iter();
            // Who is not there is one of those that are not reached.
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
            is_default: self.is_default,
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

/// What could not begin is not waited for either.
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
        // A session that is taken up has those of its begin.
        let contexts = session.contexts().clone();
        let whole = whole::RecordedWhole::default();
        let trace = KernelTraceIdentity { uuid, classes, of_dump, contexts, as_lttng, whole };
        // Whether they can be described: what they say is known once all rules are.
        let kinds = Some(trace.kinds(context, uuid, whole::Said::default())?);
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
            around: Arc::default(),
            unread: None,
            _memory: memory,
        })
    }
}

impl KernelPrograms {
    /// What is said of those who are recorded: without it addresses have no names, and descriptors no paths.
    fn look_around(&mut self, follow: &Follow, has_stacks: bool, remarks: &mut Vec<String>) {
        {
            let mut around = lock(&self.around);
            around.wish.whom = self.session.whom(follow).unwrap_or_else(|error| {
                remarks.push(format!(
                    "the kernel does not say who is recorded ({error}): descriptors have no paths, and addresses of call \
                     stacks no names"
                ));
                Whom::Nobody
            });
            around.wish.numbers = self.session.numbers().cloned();
        }
        if has_stacks {
            self.watch_code(remarks);
        }
    }

    /// Where what it says of changes is.
    fn of_changes(&self) -> ChangePlace {
        ChangePlace { first_id: self.trace.of_dump.start, contexts: self.trace.contexts.clone() }
    }

    /// From now on, what addresses of call stacks mean, too.
    fn watch_code(&mut self, remarks: &mut Vec<String>) {
        let mut around = lock(&self.around);
        if around.wish.has_code {
            return;
        }
        around.wish.has_code = true;
        let text = std::fs::read("/proc/kallsyms").unwrap_or_default();
        let symbols = kernel_symbols::of_kallsyms(&String::from_utf8_lossy(&text));
        if symbols.is_none() {
            remarks.push(
                "the kernel shows no addresses of its functions (/proc/kallsyms; it does with CAP_SYSLOG, in a container \
                 --cap-add SYSLOG, unless /proc/sys/kernel/kptr_restrict is 2): stacks in the kernel have no names"
                    .to_owned(),
            );
        }
        around.wish.symbols = symbols.map(Arc::new);
        // Of such a trace every stream spans all of it.
        if self.as_lttng {
            return;
        }
        match Mapped::open(around.wish.whom.clone(), around.wish.numbers.clone()) {
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

/// Not an event, but one of those who are recorded.
fn is_process(problem: &UnrecordedEvent) -> bool {
    problem.event.starts_with("process ")
}

/// Whether threads can be in the trace that began before it: only then a reader needs to be told of them.
fn is_of_others(spec: &RecordingSpec) -> bool {
    // Which come later is not known.
    spec.events.is_empty()
        || spec.follow != Follow::Children
        || spec.events.iter().any(|chosen| !chosen.event.is_followed)
}

#[cfg(test)]
mod tests;

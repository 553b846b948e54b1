//! The layer of applications: programs that have tracepoints of Strata.
//!
//! ```text
//! strata-registry   finds processes, heartbeat, clock, new events    registry.rs
//! strata-mover      packets from all channels to the output          source.rs, strata_collect::Pump
//! lttng             looks for descendants that LTTng instruments     lttng.rs
//! ```
//!
//! ```text
//! process ── announcement or search ─▶ registry ── admits it: session in the process, channel ─▶ TracedProcess ─▶ pump
//!                                         ▲ requests: change rules, pause, snapshot, stop              └─▶ trace DIR/NAME-PID
//!                                    Applications: Layer (here), in the thread of the engine
//! ```
//!
//! - The registry never waits for a disk, and the pump never waits for a process: each has its thread, and
//!   `traced_process.rs` has what they share of a process.
//! - `combined_rules.rs` and `filter_check.rs` turn the rules of a plan into the one set of rules and the one filter
//!   that a program evaluates. `rule_history.rs` remembers what each rule matched, for the report.
//! - `reports.rs` keeps the reports of ended processes in bounded memory. `metadata_limit.rs` bounds what one process
//!   can cost the others.
//!
//! The registry hands each process's channel to the pump, and lives until the pump has taken everything. So no
//! process takes its tracer for dead while a slow disk is written to.
//!
//! All that a process says is hostile; strata-user checks it. A process can cost its own trace, and nothing else.

use std::ffi::OsString;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use strata_collect::{Counts, Pump, PumpOrder};
use strata_user::{
    new_generation, Clock, ClockKind, Compiled, EventContexts, HeaderChoice, Launch, Program,
    ProgramListener, Rules, SessionSpec, ENVIRONMENT,
};

use crate::applications::cgroup_ids::with_group_numbers;
use crate::applications::combined_rules::lowered;
use crate::applications::filter_check::Filtered;
use crate::applications::known_processes::Reasons;
use crate::applications::lttng::OfCommand;
use crate::applications::registry::{
    asking, Hearing, Now, ProcessTarget, Registry, RegistryAsking, RegistryFindings, RegistryParts,
};
use crate::applications::rule_history::RuleBook;
use crate::applications::source::{elsewhere, ProcessSource, ProgramSources};
use crate::applications::traced_process::Traced;
use crate::error::SessionError;
use crate::options::Options;
use crate::plan::tracked::Tracked;
use crate::plan::PlanError;
use crate::record::command::Running;
use crate::report::{Buffers, LayerReport, NotReached, Report, EVERY_TRACEPOINT, USER};
use crate::session::layer::{
    Context, EndedProgram, Inheritance, Layer, LayerEnd, LayerRule, LayerStatus, ProcessLayer,
    Tell, Wanted,
};
use crate::session::lock::lock;
use crate::session::privileges::Work;
use crate::session::shared_state::LayerLosses;
use crate::session::threads::{ask, cut, joined, spawn, Ask, Cut};
use crate::sizes::{BuffersOf, Hardware};

mod cgroup_ids;
pub mod combined_rules;
pub mod filter_check;
pub mod known_processes;
pub mod loaded_objects;
pub mod lttng;
pub mod metadata_limit;
pub mod record_check;
pub mod registry;
pub mod reports;
pub mod rule_history;
pub mod source;
pub mod suggestion;
pub mod traced_process;

/// The programs to record.
enum TracedPrograms {
    /// The command and its descendants, which inherit the session.
    Command { launch: Launch, generation: u64, command: Vec<OsString> },
    /// These processes, and the processes that they start from now on.
    Processes(Vec<u32>),
    /// All processes that this user may trace.
    Everyone,
}

/// The session layer that records programs through their tracepoints.
pub(crate) struct Applications {
    who: Option<TracedPrograms>,
    listener: Option<ProgramListener>,
    /// The rules and settings in effect unless recording is paused.
    spec: Arc<SessionSpec>,
    /// The processes that the session tracks.
    tracked: Arc<Tracked>,
    is_paused: bool,
    /// True if the rules or the tracked processes have changed since the session began.
    was_changed: bool,
    asking: RegistryAsking,
    hearing: Option<Hearing>,
    clock: Arc<Clock>,
    sources: Arc<ProgramSources>,
    found: Arc<RegistryFindings>,
    /// True if another layer records the selected processes that have no tracepoints.
    plain_too: bool,
    /// Time at which the recording began, before the command was started \[ns of `CLOCK_MONOTONIC`\].
    begun_ns: u64,
    target: Option<ProcessTarget>,
    /// True if processes were named by process id. They are recorded together with the processes that they start.
    of_processes: bool,
    of_lttng: Vec<String>,
    command_of_lttng: Option<OfCommand>,
    registry: Option<Registry>,
    orders: Option<Sender<PumpOrder<ProcessSource>>>,
    moving: Option<JoinHandle<Counts>>,
    keeping: Option<JoinHandle<()>>,
}

impl Applications {
    /// Prepares to record the processes that `options` name. `clock` was started early enough to know its rate, and
    /// `filter` is the compiled filter of `options`. `plain_too`: true if another layer records processes without
    /// tracepoints.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn new(
        options: &Options,
        context: &Arc<Context>,
        clock: Arc<Clock>,
        filter: Option<Program>,
        plain_too: bool,
    ) -> Result<Applications, SessionError> {
        let rules = match &options.rules {
            Some(rules) => rules.clone(),
            None => Rules::parse(&[EVERY_TRACEPOINT]).map_err(strata_user::Error::from)?,
        };
        let mut remarks = Vec::new();
        if let ClockKind::Vdso(why) = clock.kind() {
            remarks.push(format!(
                "time stamps come from clock_gettime() and cost more than usual: {why}"
            ));
        }
        let is_of_command = !options.command.is_empty() && !options.everyone;
        let listener = match is_of_command {
            true => ProgramListener::for_command(),
            false => ProgramListener::new(),
        };
        let who = match (is_of_command, options.pids.is_empty()) {
            // The listener is for processes that did not inherit the launch's socket or the environment.
            (true, _) => TracedPrograms::Command {
                launch: Launch::new()?,
                generation: new_generation(),
                command: options.command.clone(),
            },
            (false, false) => TracedPrograms::Processes(options.pids.clone()),
            (false, true) => TracedPrograms::Everyone,
        };
        if let (false, Err(error)) = (is_of_command, &listener) {
            // Processes are then only found by searching: some time after their start, and not from their first event.
            remarks.push(error.to_string());
        }
        let book = Mutex::new(RuleBook::new(&rules));
        let (asking, hearing) = asking().map_err(|source| {
            let what = "make an eventfd";
            SessionError::System { what, source }
        })?;
        let filtered = Filtered::new(options, &rules);
        let spec = spec(&options.for_programs(), rules, filter);
        Ok(Applications {
            who: Some(who),
            listener: listener.ok(),
            spec: Arc::new(spec),
            tracked: Arc::default(),
            is_paused: false,
            was_changed: false,
            asking,
            hearing: Some(hearing),
            clock,
            sources: Arc::new(ProgramSources {
                context: Arc::clone(context),
                voice: context.shared.add_layer(USER),
                book,
                filtered,
                ended: Mutex::default(),
            }),
            found: Arc::new(RegistryFindings {
                remarks: Mutex::new(remarks),
                ..RegistryFindings::default()
            }),
            plain_too,
            begun_ns: 0,
            target: None,
            of_processes: false,
            of_lttng: Vec::new(),
            command_of_lttng: None,
            registry: None,
            orders: None,
            moving: None,
            keeping: None,
        })
    }
}

impl Applications {
    /// Returns the rules and settings in effect now.
    fn now(&self) -> Arc<SessionSpec> {
        match self.is_paused {
            true => Arc::new(SessionSpec { rules: Rules::none(), ..(*self.spec).clone() }),
            false => Arc::clone(&self.spec),
        }
    }

    fn buffers(&self) -> Buffers {
        Buffers {
            subbuf_bytes: self.spec.subbuf_bytes,
            nr_subbufs: u32::try_from(self.spec.nr_subbufs).unwrap_or(u32::MAX),
            mode: self.spec.loss_mode,
            are_largest: false,
            streams: lock(&self.sources.ended)
                .at_once
                .saturating_mul(Hardware::here().streams(BuffersOf::Program)),
            room: None,
        }
    }

    /// Returns the losses so far, including those that running programs count outside of their buffers.
    fn losses(&self, live: &[Arc<Traced>]) -> LayerLosses {
        let mut losses = self.sources.voice.losses();
        for traced in live {
            let session = traced.session();
            let Some(found) = session.as_ref().map(elsewhere) else { continue };
            let possible =
                self.sources.voice.shared().possible_records(traced.application().nr_cpus());
            if found.total() <= possible {
                losses.discarded.add(&found);
            }
        }
        losses
    }

    /// Returns a function that waits until the programs that announced themselves before this call are admitted.
    fn arrivals(&self) -> Box<dyn FnOnce() + Send> {
        let asking = self.keeping.is_some().then(|| self.asking.clone());
        Box::new(move || {
            if let Some(asking) = asking {
                asking.wait_for_arrivals();
            }
        })
    }

    /// Makes the registry apply the present rules. The registry does so in its own thread if that thread runs,
    /// otherwise in the calling thread.
    fn tell_registry(&mut self) {
        if !self.was_changed {
            return;
        }
        let now = Now { spec: self.now(), tracked: Arc::clone(&self.tracked) };
        match &mut self.registry {
            Some(registry) => registry.change(now),
            None if self.keeping.is_some() => self.asking.change(now),
            // The registry does not exist yet, and gets the rules when it is created.
            None => {}
        }
    }
}

/// Returns the settings of the session in each process.
fn spec(options: &Options, rules: Rules, filter: Option<Program>) -> SessionSpec {
    SessionSpec {
        rules,
        filter,
        loss_mode: options.mode,
        subbuf_bytes: options.subbuf_bytes,
        nr_subbufs: u64::from(options.nr_subbufs),
        header: HeaderChoice::Auto,
        vtid: options.vtid,
        contexts: options.contexts,
        inherit: true,
    }
}

impl Applications {
    /// Keeps the text of the rules as the user wrote them, for remarks on their filters.
    pub(crate) fn with_rules(self, rules: &[LayerRule]) -> Applications {
        self.sources.filtered.change(rules, self.spec.contexts);
        self
    }
}

impl ProcessLayer for Applications {
    fn inheritance(&self) -> Inheritance<'_> {
        let Some(TracedPrograms::Command { launch, generation, .. }) = &self.who else {
            return Inheritance::default();
        };
        let listener = self.listener.as_ref();
        let environment = launch.environment(*generation, &self.now(), &self.clock, listener);
        Inheritance {
            environment: vec![(ENVIRONMENT.into(), environment.into())],
            keep_open: vec![launch.child_fd()],
        }
    }

    fn admit(&mut self, tell: &mut Tell<'_>) {
        let Some(mut registry) = self.registry.take() else { return };
        registry.begin(tell);
        let shared = self.sources.voice.shared();
        // If the thread cannot be created, the registry is freed here, and the pump ends.
        self.keeping = spawn("strata-registry", Work::Applications, shared, move || registry.run());
    }
}

impl Layer for Applications {
    fn rights(&self) -> Work {
        Work::Applications
    }

    fn processes(&mut self) -> Option<&mut dyn ProcessLayer> {
        Some(self)
    }

    fn start(&mut self) {
        self.begun_ns = Clock::monotonic_ns();
    }

    fn begun(&mut self, running: Option<&Running>) {
        self.target = match (self.who.take(), running) {
            (Some(TracedPrograms::Command { launch, generation, command }), Some(running)) => {
                let pid = running.pid();
                let hidden = running.protection().map(|reason| NotReached {
                    pid,
                    name: String::new(),
                    reason: format!("process {pid}: {reason}"),
                });
                *lock(&self.found.hidden) = hidden.into_iter().collect::<Vec<_>>().into();
                self.command_of_lttng = Some(OfCommand::begin(&command, pid));
                Some(ProcessTarget::Command {
                    generation,
                    pid,
                    announcements: Some(launch.started()),
                })
            }
            (Some(TracedPrograms::Processes(pids)), _) => {
                self.of_lttng = lttng::of_processes(&pids);
                self.of_processes = true;
                Some(ProcessTarget::Processes(pids))
            }
            (Some(TracedPrograms::Everyone), _) => Some(ProcessTarget::Everyone),
            (Some(TracedPrograms::Command { .. }) | None, _) => None,
        };
    }

    fn run(&mut self) {
        let (Some(target), Some(hearing)) = (self.target.take(), self.hearing.take()) else {
            return;
        };
        let (orders, receiver) = channel();
        self.orders = Some(orders.clone());
        self.registry = Some(Registry::new(RegistryParts {
            target,
            listener: self.listener.take(),
            spec: Arc::clone(&self.spec),
            clock: Arc::clone(&self.clock),
            begun_ns: self.begun_ns,
            sources: Arc::clone(&self.sources),
            orders,
            found: Arc::clone(&self.found),
            plain_too: self.plain_too,
            hearing,
        }));
        self.tell_registry();
        let (voice, keep) = (self.sources.voice.clone(), self.sources.context.keep);
        let time = self.sources.context.shared.time().clone();
        let shared = Arc::clone(voice.shared());
        self.moving = spawn("strata-mover", Work::Files, &shared, move || {
            Pump::new(receiver, &voice, keep, time).run()
        });
    }

    fn is_broken(&self) -> bool {
        self.moving.as_ref().is_some_and(JoinHandle::is_finished)
            || self.keeping.as_ref().is_some_and(JoinHandle::is_finished)
    }

    fn snapshot(&self) -> Ask {
        let (arrivals, ask) = (self.arrivals(), ask(self.orders.as_ref()));
        Box::new(move |output, span| {
            arrivals();
            ask(output, span)
        })
    }

    fn rotate(&self) -> Cut {
        let (arrivals, cut) = (self.arrivals(), cut(self.orders.as_ref()));
        Box::new(move |output| {
            arrivals();
            cut(output)
        })
    }

    fn change(&mut self, wanted: &Wanted) -> Result<(), SessionError> {
        let (rules, filter) = lowered(wanted)?;
        let contexts = EventContexts::parse(&wanted.contexts)
            .map_err(|error| PlanError::NoContext(error.to_string()))?;
        let program = match filter
            .as_ref()
            .map(with_group_numbers)
            .as_ref()
            .map(Program::compile)
            .transpose()?
        {
            None | Some(Compiled::Always) => None,
            Some(Compiled::Tests(program)) => Some(program),
            Some(Compiled::Never) => return Err(SessionError::NothingPasses),
        };
        lock(&self.sources.book).change(&rules);
        self.sources.filtered.change(&wanted.rules, contexts);
        self.spec =
            Arc::new(SessionSpec { rules, filter: program, contexts, ..(*self.spec).clone() });
        self.tracked = Arc::new(wanted.tracked.clone());
        self.was_changed = true;
        self.tell_registry();
        Ok(())
    }

    fn set_paused(&mut self, is_paused: bool) {
        if is_paused {
            // Records of programs that announced themselves before belong to the time before the change.
            self.arrivals()();
            self.was_changed = true;
        }
        self.is_paused = is_paused;
        self.tell_registry();
    }

    fn look_around(&mut self) -> Vec<EndedProgram> {
        std::mem::take(&mut *lock(&self.found.ends))
    }

    fn status(&self) -> LayerStatus {
        let live = lock(&self.sources.ended).live.clone();
        let mut book = lock(&self.sources.book).clone();
        let is_open = self.sources.filtered.is_open();
        for traced in &live {
            // An error about a single process is reported at its end.
            let _ = book.count(traced.application(), traced.changes());
            if let Some(session) =
                is_open.then(|| traced.session()).as_deref().and_then(Option::as_ref)
            {
                self.sources.filtered.look(session.events());
            }
        }
        LayerStatus {
            rules: book.reports(),
            filters: self.sources.filtered.reports(),
            not_reached: {
                let mut all = lock(&self.found.not_reached).so_far();
                all.extend(self.found.crowded());
                all
            },
            figures: self.sources.voice.figures(),
            fill: self.sources.voice.fill(),
            history_seconds: self.sources.voice.history_seconds(),
            losses: self.losses(&live),
            buffers: self.buffers(),
            late: lock(&self.found.late).clone(),
            processes: live.iter().filter(|one| !one.is_replaced()).count() as u64,
            events: None,
            remarks: Vec::new(),
        }
    }

    /// Stops sending orders to the registry. It then disables all tracepoints and notifies the pump.
    fn stop(&mut self) {
        self.orders = None;
    }

    fn join(&mut self) {
        let shared = self.sources.voice.shared();
        joined(self.moving.take(), shared);
        // Until then, the registry keeps the processes alive.
        shared.set_moved();
        joined(self.keeping.take(), shared);
    }

    fn end(self: Box<Self>) -> LayerEnd {
        let buffers = self.buffers();
        let ended = std::mem::take(&mut *lock(&self.sources.ended));
        let taken = |list: &Mutex<Reasons>| lock(list).take();
        let mut remarks = std::mem::take(&mut *lock(&self.found.remarks));
        remarks.extend(self.sources.filtered.remark());
        remarks.extend(lock(&self.found.outdated).remark());
        let unseen = lock(&self.found.unseen);
        remarks.extend(match self.of_processes {
            true => unseen.of_processes(),
            false => unseen.of_command(),
        });
        remarks.extend(lock(&self.found.untold).of_tracked());
        LayerEnd {
            report: LayerReport {
                layer: USER,
                channel: String::new(),
                buffers,
                is_filtered: self.sources.filtered.is_filtered(),
                processes: ended.reports.into_all(),
            },
            remarks,
            own: Report { unseen: unseen.processes(), ..Report::default() },
            rules: lock(&self.sources.book).reports(),
            filters: self.sources.filtered.reports(),
            not_reached: {
                let mut all = taken(&self.found.not_reached);
                all.extend(self.found.crowded());
                all
            },
            hidden: taken(&self.found.hidden),
            holders: std::mem::take(&mut lock(&self.found.holders)),
            of_lttng: match self.command_of_lttng {
                Some(of_command) => of_command.end(),
                None => self.of_lttng,
            },
            ..LayerEnd::default()
        }
    }
}

#[cfg(test)]
mod tests;

//! Loads and attaches programs in several threads: the verifier takes most of the time.

use crate::attach::attached_programs::{RunningCalls, RunningPrograms};
use crate::attach::bpf_objects::Object;
use crate::attach::loader::{bytes_of, reason, Loader, Wanted};
use crate::attach::program::{attach, AttachPoint, Attached, AWAITED};
use crate::attach::resource_limits::Limits;
use crate::attach::sample_counts::{sampling_of, SampleCounts, SAMPLED};
use crate::attach::shared_control::{LiveTable, SharedControl, Switch, OF_ALL};
use crate::decide::program_key::ProgramKey;
use crate::decide::program_plan::{Constant, Fallback, FallbackFields, LoadUnit};
use crate::decide::record_classes::{id_of, Classes};
use crate::decide::session_events::{AttachProgress, UnrecordedEvent};
use crate::discover::syscalls;
use crate::error::Refusal;
use crate::persist::pins::ChannelPins;
use libbpf_rs::{MapCore, MapHandle};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use strata_abi::kernel::{Event, SYSCALLS};

/// The attaching of a plan's units: the shared state that loading needs, and the result for each unit so far.
pub(crate) struct Attaching<'p> {
    pub(crate) shared: &'p Arc<SharedControl>,
    pub(crate) classes: &'p Classes,
    pub(crate) limits: &'p Limits,
    pub(crate) progress: &'p mut dyn FnMut(AttachProgress) -> ControlFlow<()>,
    pub(crate) running: Vec<RunningPrograms>,
    pub(crate) flow: ControlFlow<()>,
    /// Function that returns whether a unit replaces a running one.
    asks: &'p dyn Fn(&LoadUnit) -> bool,
    done: usize,
    total: usize,
    refused: Vec<(Fallback, ProgramKey)>,
}

/// A unit that is to be loaded and attached.
struct AttachJob {
    unit: LoadUnit,
    /// The key of the unit that was requested. For a fallback, that differs from the key of `unit`.
    key: ProgramKey,
    switch: Switch,
}

/// The attached programs of a unit, with the memory that they share with this process.
struct LoadedPrograms {
    attached: Vec<Attached>,
    /// The table of system calls that the programs read; `None` for other programs.
    table: Option<LiveTable>,
    /// The counts of what the programs leave out by sampling; `None` if they record all events.
    sampled: Option<Arc<SampleCounts>>,
}

impl<'p> Attaching<'p> {
    pub(crate) fn new(
        shared: &'p Arc<SharedControl>,
        classes: &'p Classes,
        limits: &'p Limits,
        progress: &'p mut dyn FnMut(AttachProgress) -> ControlFlow<()>,
        asks: &'p dyn Fn(&LoadUnit) -> bool,
    ) -> Attaching<'p> {
        Attaching {
            shared,
            classes,
            limits,
            progress,
            running: Vec::new(),
            flow: ControlFlow::Continue(()),
            asks,
            done: 0,
            total: 0,
            refused: Vec::new(),
        }
    }

    /// Loads and attaches all units, switched off. A unit that the kernel refuses is detached as a whole. `loaded`:
    /// objects that have created the shared maps.
    pub(crate) fn run(
        &mut self,
        loader: &mut Loader,
        loaded: &mut Vec<Object>,
        units: Vec<LoadUnit>,
    ) {
        self.total = units.len();
        let mut jobs: Vec<AttachJob> = units.into_iter().map(|unit| self.job(unit, None)).collect();
        while !jobs.is_empty() && self.flow.is_continue() {
            let mut others = Vec::new();
            for job in jobs {
                if loaded.contains(&job.unit.object) || self.flow.is_break() {
                    others.push(job);
                    continue;
                }
                let outcome = prepare(loader, &job).and_then(|open| loader.load_first(open));
                if outcome.is_ok() {
                    loaded.push(job.unit.object);
                }
                let outcome = outcome.and_then(|object| settle(&object, &job, loader.pins()));
                self.add(job, outcome);
            }
            self.attach_others(loader, others);
            jobs = self.fall_back();
        }
    }

    fn job(&self, unit: LoadUnit, key: Option<ProgramKey>) -> AttachJob {
        let key = key.unwrap_or_else(|| unit.key());
        let switch = Switch::take(self.shared);
        if (self.asks)(&unit) {
            switch.wait_to_ask();
        }
        AttachJob { unit, key, switch }
    }

    fn add(&mut self, job: AttachJob, outcome: Result<LoadedPrograms, Refusal>) {
        let AttachJob { mut unit, key, switch } = job;
        match (outcome, unit.fallback.take()) {
            (Ok(LoadedPrograms { attached, table, sampled }), _) => {
                let calls = match (table, unit.constant) {
                    (Some(memory), Constant::Syscalls(table, held)) => {
                        Some(RunningCalls { memory, table, held })
                    }
                    _ => None,
                };
                let (refused, not_run_before) = (None, 0);
                let events = unit.events;
                let one = RunningPrograms {
                    attached,
                    switch,
                    key,
                    events,
                    sampled,
                    calls,
                    refused,
                    not_run_before,
                };
                self.running.push(one);
            }
            (Err(_), Some(fallback)) => {
                self.total += 1;
                self.refused.push((*fallback, key));
            }
            (Err(reason), None) => {
                let refused = Some(self.limits.explain(reason).to_string());
                self.running.push(RunningPrograms {
                    attached: Vec::new(),
                    switch,
                    key,
                    events: unit.events,
                    sampled: None,
                    calls: None,
                    refused,
                    not_run_before: 0,
                });
            }
        }
        self.done += 1;
        if self.flow.is_continue() {
            self.flow = (self.progress)(AttachProgress { attached: self.done, total: self.total });
        }
    }

    /// Creates the jobs for fallbacks of refused units. A fallback whose records have other fields gets an event
    /// class of its own.
    fn fall_back(&mut self) -> Vec<AttachJob> {
        let mut jobs = Vec::new();
        for (Fallback { mut unit, fields }, key) in std::mem::take(&mut self.refused) {
            if let Some(FallbackFields { context, payload }) = fields {
                let name = unit.events.first().cloned().unwrap_or_default();
                unit.event.id =
                    self.classes.add(|class| id_of(&mut class.events, &name, context, payload));
            }
            jobs.push(self.job(unit, Some(key)));
        }
        jobs
    }

    /// Attaches the units after the first one, with one thread for each CPU.
    fn attach_others(&mut self, loader: &Loader, mut others: Vec<AttachJob>) {
        if self.flow.is_break() {
            return;
        }
        others.reverse();
        let (queue, is_over) = (Mutex::new(others), AtomicBool::new(false));
        let next = || queue.lock().ok().and_then(|mut queue| queue.pop());
        let work = |done: mpsc::Sender<_>| {
            while let Some(job) = next() {
                let outcome = prepare(loader, &job).and_then(|open| loader.load(open));
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let outcome = outcome.and_then(|object| settle(&object, &job, loader.pins()));
                if done.send((job, outcome)).is_err() {
                    break;
                }
            }
        };
        let nr_threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            for _ in 0..nr_threads {
                let sender = sender.clone();
                let work = &work;
                // If there is no thread, what is left is done below.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || work(sender));
            }
            drop(sender);
            for (job, outcome) in receiver {
                self.add(job, outcome);
                if self.flow.is_break() {
                    // Nothing more is begun; what is being attached comes yet.
                    is_over.store(true, Ordering::Relaxed);
                    queue.lock().iter_mut().for_each(|queue| queue.clear());
                }
            }
        });
        while let Some(job) = next() {
            let outcome = prepare(loader, &job)
                .and_then(|open| loader.load(open))
                .and_then(|object| settle(&object, &job, loader.pins()));
            self.add(job, outcome);
        }
    }

    /// Returns a problem for each event of a unit that the kernel refused.
    pub(crate) fn problems(
        running: &[RunningPrograms],
    ) -> impl Iterator<Item = UnrecordedEvent> + '_ {
        running.iter().flat_map(|one| {
            let problem = |reason: &String, event: &String| UnrecordedEvent {
                event: event.clone(),
                reason: reason.clone(),
            };
            let of = move |event| one.refused.as_ref().map(|reason| problem(reason, event));
            one.events.iter().filter_map(of)
        })
    }
}

fn settle(
    object: &libbpf_rs::Object,
    job: &AttachJob,
    pins: Option<&Arc<ChannelPins>>,
) -> Result<LoadedPrograms, Refusal> {
    let mut calls = None;
    if matches!(job.unit.constant, Constant::Syscalls(..)) {
        let map = object.maps().find(|map| map.name() == ".data.syscalls");
        let map = map.ok_or_else(|| Refusal("they have no table of system calls".into()))?;
        calls = Some(LiveTable::new(map.as_fd())?);
    }
    let counts = object.maps().find(|map| map.name() == SAMPLED && map.autocreate());
    let counts = counts.map(|map| MapHandle::try_from(&map)).transpose();
    let counts = counts.map_err(|error| reason(&error))?;
    let sampled = SampleCounts::new(&job.unit.event, counts).map(Arc::new);
    let attached = attach(object, &job.unit.target)?;
    if let Some(pins) = pins {
        let pinned = pin(object, &attached, job, pins);
        pinned.map_err(|error| Refusal(format!("it cannot be pinned (--keep): {error}")))?;
    }
    Ok(LoadedPrograms { attached, table: calls, sampled })
}

/// Pins the programs with their links and maps, so that another process can adopt them. After an error, some pins may
/// be left that no saved description mentions.
fn pin(
    object: &libbpf_rs::Object,
    attached: &[Attached],
    job: &AttachJob,
    pins: &ChannelPins,
) -> io::Result<()> {
    let at = job.switch.at();
    if at == OF_ALL || matches!(job.unit.target, AttachPoint::Uprobe { .. }) {
        return Err(io::Error::other("there are too many programs, or it is a probe of a program"));
    }
    unpin_one(pins, at, attached.len());
    for map in object.maps() {
        let name = map.name().to_string_lossy().into_owned();
        match name.as_str() {
            ".rodata.event" => pins.pin(&format!("e{at}"), map.as_fd())?,
            ".data.syscalls" => pins.pin(&format!("t{at}"), map.as_fd())?,
            AWAITED => pins.pin(&format!("a{at}"), map.as_fd())?,
            SAMPLED if map.autocreate() => pins.pin(&format!("s{at}"), map.as_fd())?,
            _ => {}
        }
    }
    for (number, one) in attached.iter().enumerate() {
        pins.pin(&format!("p{at}-{number}"), one.program())?;
        pins.pin(&format!("l{at}-{number}"), one.link_fd())?;
    }
    Ok(())
}

/// Removes the pins of these programs, so that the programs end when this process closes them.
pub(crate) fn unpin<'r>(
    pins: Option<&Arc<ChannelPins>>,
    gone: impl Iterator<Item = &'r RunningPrograms>,
) {
    let Some(pins) = pins else { return };
    for one in gone.filter(|one| one.switch.at() != OF_ALL) {
        unpin_one(pins, one.switch.at(), one.attached.len());
    }
}

fn unpin_one(pins: &ChannelPins, at: u32, nr_programs: usize) {
    for number in 0..nr_programs {
        pins.unpin(&format!("l{at}-{number}"));
        pins.unpin(&format!("p{at}-{number}"));
    }
    pins.unpin(&format!("e{at}"));
    pins.unpin(&format!("t{at}"));
    pins.unpin(&format!("a{at}"));
    pins.unpin(&format!("s{at}"));
}

fn prepare(loader: &Loader, job: &AttachJob) -> Result<libbpf_rs::OpenObject, Refusal> {
    let AttachJob { unit, switch, .. } = job;
    let event = Event { switch_at: switch.at(), ..unit.event };
    let layouts = syscalls::layouts();
    // SAFETY: integers only, without padding.
    let mut constants = vec![(".rodata.event", unsafe { bytes_of(&event) })];
    if let Some(count) = &unit.count {
        // SAFETY: integers only, without padding.
        constants.push((".rodata.count", unsafe { bytes_of(&**count) }));
    }
    match &unit.constant {
        Constant::None => {}
        Constant::Payload { fixed, nr_strings, guard } => {
            // SAFETY: one integer.
            constants.push((".rodata.fixed", unsafe { bytes_of(fixed) }));
            // SAFETY: one integer.
            constants.push((".rodata.strings", unsafe { bytes_of(nr_strings) }));
            // SAFETY: integers of one size.
            constants.push((".rodata.guard", unsafe { bytes_of(guard) }));
        }
        Constant::Syscalls(table, _) => {
            // SAFETY: an array of structures of integers without padding.
            constants.push((".data.syscalls", unsafe { bytes_of(&**table) }));
            // SAFETY: likewise.
            constants.push((".rodata.layouts", unsafe { bytes_of(&layouts) }));
        }
    }
    let nr_sampled = match (sampling_of(&event).is_all(), &unit.constant) {
        (true, _) => 0,
        (false, Constant::Syscalls(..)) => SYSCALLS,
        (false, _) => 1,
    };
    let wanted = Wanted { programs: &unit.programs, constants: &constants, nr_sampled };
    loader.open(unit.object, &wanted)
}

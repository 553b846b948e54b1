//! A recording of the kernel's events, from its begin to its teardown.
//!
//! ```text
//! begin(), begin_counting(), adopt() ─▶ attached ─ start() ⇄ stop() ─ change(), track() ─▶ teardown()
//! ```
//!
//! - `begin` loads and attaches programs that write nothing before `start`: `decide::program_plan` says which, and
//!   `attach` does it in several threads, since the verifier takes most of the time. `begin_counting` is the same
//!   with programs that count.
//! - `adopt` takes over what a killed session has pinned, and completes or reverts a change that was going on.
//! - `start` and `stop` set switches in memory that programs read; no program is attached or detached for it.
//! - `change` attaches new programs before it detaches old ones: of two programs for one event, the old one tells
//!   which events it has recorded, so that none is recorded twice or not at all. If anything fails, the old ones stay
//!   as they were.
//! - `track` changes which processes are recorded, in a map that programs read.
//!
//! Events that the kernel refuses are no error: they are in [`KernelSession::problems`], and the others are recorded.
//! With [`Keeping`], the description by which the session can be adopted is saved before new programs record.
//!
//! One thread owns a session. The channel with the rings is handed out once, to the pump, which reads it from another
//! thread. Dropping a session detaches its programs.

use crate::attach::attached_programs::{Detacher, RunningCalls, RunningPrograms, Turns};
use crate::attach::bpf_objects::Object;
use crate::attach::counters::PlacedCounters;
use crate::attach::loader::{quiet, Loader};
use crate::attach::program::{AttachPoint, Attached};
use crate::attach::resource_limits::{fit_buffers, holds_twice, Limits};
use crate::attach::sample_counts::{sampling_of, SampleCounts};
use crate::attach::sampled_events::SampledEvents;
use crate::attach::shared_control::{LiveTable, SharedControl, Switch, SyscallTable, OF_ALL};
use crate::attach::workers::{unpin, Attaching};
use crate::decide::contexts::Contexts;
use crate::decide::count::{CountKinds, CountSpec, CountTable, TableShape};
use crate::decide::filter::Groups;
use crate::decide::program_plan::{
    plan, stream_class, Constant, KernelPlan, LoadUnit, PlanOptions,
};
use crate::decide::record_classes::Classes;
use crate::decide::session_events::{AttachProgress, SelectedEvent, UnrecordedEvent};
use crate::error::{Error, Refusal};
use crate::persist::adoption::{event_in, AdoptionRecord, SavedProgram, SavedSession, SavedUnit};
use crate::persist::pins::{info, ChannelPins};
use crate::persist::unread_records::RingsShape;
use crate::processes::follow::{self, Follow};
use crate::processes::pid_namespace::Numbers;
use crate::processes::recorded::{FollowedMap, RecordedProcesses};
use crate::processes::tracked::{track, Tracked};
use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;
use strata_abi::kernel::{Syscall, CALL_ENTRY, CALL_EXIT, CALL_MOVES, ON_ASKS, ON_TELLS, SYSCALLS};
use strata_ring::{stream_layout, Attr, Channel, LossMode, Mapping};

mod requirements;

pub use requirements::check;

/// Specification of a recording.
#[derive(Clone, Debug)]
pub struct RecordingSpec {
    /// Loss mode: what happens when all sub-buffers are full.
    pub loss_mode: LossMode,
    /// Size of a sub-buffer, a power of two \[byte\].
    pub subbuf_bytes: u64,
    /// Number of sub-buffers of each CPU, a power of two, at least 2.
    pub nr_subbufs: u64,
    /// The events to record.
    pub events: Vec<SelectedEvent>,
    /// The processes whose events are recorded.
    pub follow: Follow,
    /// Contexts of all records besides the thread.
    pub contexts: Contexts,
    /// Size of the longest program arguments that are recorded, with a NUL \[byte\]: 1,024 to 8,192.
    pub argv_bytes: u32,
}

/// Function that saves a session's description, by which another process can adopt the session after this one was
/// killed.
pub type Note = Box<dyn FnMut(&AdoptionRecord) -> io::Result<()> + Send>;

/// Settings for a session whose kernel objects stay when this process is killed.
pub struct Keeping {
    /// The channel's pins in the BPF file system.
    pub pins: Arc<ChannelPins>,
    /// Saves the session's description; called before new programs record.
    pub note: Note,
}

impl std::fmt::Debug for Keeping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keeping({:?})", self.pins)
    }
}

/// Counts of values that records could not hold as they are. The records are complete otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlawCounts {
    /// Number of fields in user memory that could not be read: texts have their address instead, other fields are 0.
    pub unreadable: u64,
    /// Number of counters that could not be read, and are recorded as 0.
    pub uncounted: u64,
    /// Number of texts that were cut because a record has no room for more.
    pub cut: u64,
}

/// Sizes of the buffers that were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelBuffers {
    /// Size of a sub-buffer \[byte\].
    pub subbuf_bytes: u64,
    /// Number of sub-buffers of each CPU.
    pub nr_subbufs: u32,
    /// True if buffers of twice this size would not fit into one of the kernel's maps.
    pub are_largest: bool,
}

/// A recording of the kernel's events.
#[derive(Debug)]
pub struct KernelSession {
    loader: Loader,
    /// BPF objects that have created the shared maps.
    loaded: Vec<Object>,
    shared: Arc<SharedControl>,
    channel: Option<Channel>,
    counters: PlacedCounters,
    classes: Classes,
    /// Events that are not recorded, except for those that the kernel refused.
    problems: Vec<UnrecordedEvent>,
    /// Processes to follow that do not exist.
    absent: Vec<UnrecordedEvent>,
    remark: Option<String>,
    attr: Attr,
    following: Vec<Attached>,
    numbers: Option<Arc<Numbers>>,
    running: Vec<RunningPrograms>,
    detacher: Detacher,
    records: bool,
    /// Number of events for which programs did not run that are detached by now.
    nested: u64,
    /// The events of which samples are recorded.
    sampled: SampledEvents,
    keeping: Option<Keeping>,
    /// Number of the last change that replaced programs, until the replaced programs are detached.
    replaced: Option<u64>,
}

/// A replacement of running programs by new ones for the same events.
struct Replacing {
    number: u64,
    /// Class ids of the events whose programs are replaced.
    ids: HashSet<u32>,
}

/// The rings of a session, and the memory that its programs share.
struct SharedRings {
    loader: Loader,
    shared: Arc<SharedControl>,
    channel: Channel,
}

impl KernelSession {
    /// Loads and attaches all programs; nothing is recorded before [`KernelSession::start`]. `events` may be empty;
    /// [`KernelSession::change`] adds events later.
    ///
    /// An event that the kernel refuses is added to [`KernelSession::problems`]. If `progress` breaks, the session has
    /// what was attached by then.
    ///
    /// # Errors
    /// Nothing can be recorded at all, or a filter cannot be compiled.
    pub fn begin(
        spec: RecordingSpec,
        keeping: Option<Keeping>,
        progress: &mut dyn FnMut(AttachProgress) -> ControlFlow<()>,
    ) -> Result<KernelSession, Error> {
        Ok(KernelSession::begin_with(spec, keeping, None, progress)?.0)
    }

    /// Loads and attaches programs that count events by `count` and write no record. Nothing is counted before
    /// [`KernelSession::start`]. Also returns the table of counts, `None` if the kernel refuses all events.
    ///
    /// # Errors
    /// As for [`KernelSession::begin`], and [`Error::Count`].
    pub fn begin_counting(
        spec: RecordingSpec,
        count: &CountSpec,
        progress: &mut dyn FnMut(AttachProgress) -> ControlFlow<()>,
    ) -> Result<(KernelSession, Option<CountTable>), Error> {
        let (mut session, kinds) = KernelSession::begin_with(spec, None, Some(count), progress)?;
        let table = session.loader.take_counts().map(|map| CountTable {
            map,
            shape: TableShape {
                kinds: kinds.keys,
                signed: kinds.signed,
                has_value: count.value.is_some(),
                spread: count.spread,
            },
        });
        Ok((session, table))
    }

    fn begin_with(
        mut spec: RecordingSpec,
        keeping: Option<Keeping>,
        count: Option<&CountSpec>,
        progress: &mut dyn FnMut(AttachProgress) -> ControlFlow<()>,
    ) -> Result<(KernelSession, CountKinds), Error> {
        check()?;
        quiet();
        let attr = spec.attr();
        // Before anything is loaded: what is wrong with what is asked for is said first.
        let mut counters = PlacedCounters::default();
        let contexts = counters.place(&spec.contexts)?;
        place(&mut spec.events, &mut counters)?;
        let options = PlanOptions { contexts: &contexts, groups: Groups::AreThere, count };
        let mut planned = plan(spec.events, Vec::new(), &options, std::iter::empty())?;
        let kinds = std::mem::take(&mut planned.kinds);
        let limits = Limits::raise(planned.units.len() + counters.files());
        counters.open(&limits)?;
        let (attr, remark) = fit_buffers(&attr)?;
        let layout = stream_layout(&attr)?;
        let mut loader = Loader::new(&attr, &layout, contexts.clone(), spec.argv_bytes)?;
        if let Some(count) = count {
            loader.count_in(count);
        }
        if let Some(Keeping { pins, .. }) = &keeping {
            // Of one that nobody can take up.
            pins.names().iter().for_each(|name| pins.unpin(name));
            loader.pin_in(Arc::clone(pins));
        }
        let explained = |error| match error {
            Error::Load { what, reason } => Error::Load { what, reason: limits.explain(reason) },
            other => other,
        };
        let scanner = follow::begin(&mut loader, &spec.follow).map_err(explained)?;
        let what = "the session";
        let shared = match loader.shared(".data.control") {
            Some(fd) => SharedControl::new(fd).map_err(|reason| Error::Load { what, reason })?,
            None => return Err(no_map(".data.control")),
        };
        // Before anything is attached: what is written into a buffer that is none stays so.
        let channel = Some(make_channel(&loader, &attr)?);
        let following = u32::from(spec.follow != Follow::Everyone);
        shared.get().following.store(following, Ordering::Relaxed);
        shared.get().tracer.store(std::process::id(), Ordering::Relaxed);
        let following = follow::attach_and_scan(&scanner).map_err(explained)?;
        let numbers = Numbers::begin(&loader).map_err(explained)?;
        let mut session = KernelSession {
            loader,
            loaded: Vec::new(),
            shared,
            channel,
            classes: Classes::new(stream_class(&contexts)),
            counters,
            problems: Vec::new(),
            absent: absent(&spec.follow),
            remark,
            attr,
            following,
            numbers,
            running: Vec::new(),
            detacher: Detacher::default(),
            records: false,
            nested: 0,
            sampled: SampledEvents::default(),
            keeping,
            replaced: None,
        };
        let (change, _) = session.attach(planned, &limits, progress);
        session.counters.put(session.loader.shared("counters"))?;
        session.note(&change.new)?;
        session.commit(change);
        session.note(&[])?;
        Ok((session, kinds))
    }

    /// Adopts the kernel objects of a killed session, which still record. Ignores the processes to follow in
    /// `spec`: all are recorded.
    ///
    /// # Errors
    /// [`Error::Pins`] if the pinned objects, which stay, differ from the saved description or from `spec`.
    pub fn adopt(
        spec: &RecordingSpec,
        kept: AdoptionRecord,
        keeping: Keeping,
    ) -> Result<KernelSession, Error> {
        check()?;
        quiet();
        let (attr, remark) = fit_buffers(&spec.attr())?;
        let pins = Arc::clone(&keeping.pins);
        kept.check(&pins, &attr)?;
        let mut counters = kept.counters(&pins)?;
        let limits = Limits::raise(2 * kept.units.len() + counters.files());
        let contexts = kept.contexts(&counters);
        let SharedRings { mut loader, shared, channel } =
            SharedRings::found((&attr, spec.argv_bytes), &contexts, &pins, &kept)?;
        let explained = |error| match error {
            Error::Load { what, reason } => Error::Load { what, reason: limits.explain(reason) },
            other => other,
        };
        let mut class = stream_class(&contexts);
        class.events.clone_from(&kept.classes);
        class.validate().map_err(|error| pins.failed("it cannot be taken up", error))?;
        let mut running = Vec::with_capacity(kept.units.len());
        for unit in &kept.units {
            running.extend(found(unit, &pins, &shared)?);
        }
        if let Some(map) = loader.shared("counters") {
            counters.open_instead(map, &limits)?;
            counters.put(Some(map))?;
        }
        // By which number the kernel knows this process.
        let scanner = follow::begin(&mut loader, &Follow::Everyone).map_err(explained)?;
        shared.get().tracer.store(std::process::id(), Ordering::Relaxed);
        let following = follow::attach_and_scan(&scanner).map_err(explained)?;
        let numbers = Numbers::begin(&loader).map_err(explained)?;
        let records = shared.records();
        let sampled = SampledEvents::default();
        sampled.set_gone(&kept.left_out);
        sampled.set(running.iter());
        let mut session = KernelSession {
            loader,
            loaded: Vec::new(),
            shared,
            channel: Some(channel),
            classes: Classes::new(class),
            counters,
            problems: Vec::new(),
            absent: Vec::new(),
            remark,
            attr,
            following,
            numbers,
            running,
            detacher: Detacher::default(),
            records,
            nested: kept.nested,
            sampled,
            keeping: Some(keeping),
            replaced: None,
        };
        session.end_change();
        session.forget_others();
        // What was noted makes the same again.
        let _ = session.note(&[]);
        Ok(session)
    }

    /// Completes a replacement of programs that a kill of the recorder has interrupted: if the new programs were
    /// already in effect, they stay; otherwise the old ones do.
    fn end_change(&mut self) {
        let control = self.shared.get();
        if control.changing.load(Ordering::SeqCst) == 0 {
            return;
        }
        let has_turned = control.turn.load(Ordering::SeqCst) != 0;
        for one in &mut self.running {
            match (one.switch.role(), &mut one.calls, has_turned) {
                (ON_TELLS, None, true) | (ON_ASKS, _, false) => one.switch.set(false, true),
                (ON_TELLS, Some(calls), true) => {
                    calls.memory.drop_moved();
                    calls.table = calls.memory.table();
                }
                _ => {}
            }
            if let Some(calls) = &mut one.calls {
                calls.memory.set_moves(|_| false);
                calls.table = calls.memory.table();
            }
        }
        self.shared.end_turns(0);
    }

    /// Removes pins of programs that are not in the saved description: they were never switched on, or are off for
    /// good.
    fn forget_others(&self) {
        let Some(Keeping { pins, .. }) = &self.keeping else { return };
        let is_known = |name: &String| match name.split_at_checked(1) {
            Some(("m", _)) => true,
            Some((_, rest)) => {
                let at = rest.split('-').next().and_then(|at| at.parse::<u32>().ok());
                self.running.iter().any(|one| Some(one.switch.at()) == at)
            }
            None => false,
        };
        pins.names().iter().filter(|name| !is_known(name)).for_each(|name| pins.unpin(name));
    }

    /// Saves the description by which another process can adopt the session. It has the running programs
    /// and those in `new`.
    ///
    /// # Errors
    /// [`Error::Pins`] if it cannot be saved.
    fn note(&mut self, new: &[RunningPrograms]) -> Result<(), Error> {
        if self.keeping.is_none() {
            return Ok(());
        }
        let whole = SavedSession {
            attr: &self.attr,
            contexts: self.loader.contexts().bits(),
            counters: self.counters.places(),
            nested: self.nested,
            left_out: self.sampled.of_gone(),
            classes: self.classes.stream_class().events,
        };
        let id = |name: &str| {
            let info: io::Result<libbpf_sys::bpf_map_info> = info(self.loader.shared(name)?);
            info.ok().map(|info| info.id)
        };
        let kept = AdoptionRecord::of(whole, id, self.running.iter().chain(new));
        let Some(Keeping { pins, note }) = &mut self.keeping else { return Ok(()) };
        note(&kept).map_err(|error| pins.failed("what is pinned cannot be noted", error))
    }

    /// Saves the session's description again after the caller has added event classes.
    ///
    /// # Errors
    /// [`Error::Pins`] if it cannot be saved.
    pub fn note_classes(&mut self) -> Result<(), Error> {
        self.note(&[])
    }

    /// Replaces the recorded events by `events`, whether the session records now or not. Programs of events that are
    /// wanted unchanged stay. When all new programs are attached, they are switched on and unwanted ones off in the
    /// same moment; the unwanted ones are detached in the background.
    ///
    /// An event that the kernel refuses is added to [`KernelSession::problems`]. With `may_lack`, that is no failure
    /// even if the kernel refuses all new events. A control group that a filter names and that does not exist matches
    /// nothing; the caller checks that before.
    ///
    /// # Errors
    /// After an error nothing has changed. A filter cannot be compiled; [`Error::Refused`] if the kernel refuses all
    /// new events; [`Error::GivenUp`] if `progress` breaks.
    pub fn change(
        &mut self,
        mut events: Vec<SelectedEvent>,
        may_lack: bool,
        progress: &mut dyn FnMut(AttachProgress) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let counted = self.counters.places().len();
        let done = place(&mut events, &mut self.counters)
            .and_then(|()| self.change_events(events, may_lack, progress));
        if done.is_err() {
            self.counters.truncate(counted);
        }
        done
    }

    fn change_events(
        &mut self,
        events: Vec<SelectedEvent>,
        may_lack: bool,
        progress: &mut dyn FnMut(AttachProgress) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.settle();
        let calls = self.running.iter().filter_map(|one| one.calls.as_ref());
        let calls = calls.map(|calls| (&*calls.table, &*calls.held));
        let mut class = self.classes.stream_class();
        let contexts = self.loader.contexts();
        let options = PlanOptions { contexts, groups: Groups::MayBeGone, count: None };
        let planned = plan(events, std::mem::take(&mut class.events), &options, calls)?;
        class.events.clone_from(&planned.classes);
        class.validate()?;
        let limits = Limits::raise(self.programs() + planned.units.len() + self.counters.files());
        self.counters.open(&limits)?;
        let (change, flow) = self.attach(planned, &limits, progress);
        let refused: Vec<UnrecordedEvent> = Attaching::problems(&change.new).collect();
        let takes_none = change.new.iter().all(|one| one.refused.is_some());
        let is_refused = !may_lack && !refused.is_empty() && takes_none;
        let noted = match flow.is_break() || is_refused {
            true => Ok(()),
            false => {
                let put = self.counters.put(self.loader.shared("counters"));
                put.and_then(|()| self.note(&change.new))
            }
        };
        if flow.is_break() || is_refused || noted.is_err() {
            unpin(self.loader.pins(), change.new.iter());
            if let Some(Replacing { number, .. }) = change.replacing {
                self.shared.end_turns(number);
            }
            self.detacher.detach(change.new, None);
            noted?;
            return Err(match refused.into_iter().next() {
                Some(UnrecordedEvent { event, reason }) if flow.is_continue() => {
                    Error::Refused { event, reason }
                }
                _ => Error::GivenUp,
            });
        }
        self.commit(change);
        // What is noted by now makes the same, and looks in vain for what is gone.
        let _ = self.note(&[]);
        Ok(())
    }

    /// Records only events for which a CPU works on behalf of tracked processes, from now on. `named` lists processes
    /// whose names match only in a way that kernel programs cannot check.
    ///
    /// # Errors
    /// Nothing has changed. Kernel programs cannot check the condition, or it names something that does not exist.
    pub fn track(&mut self, tracked: &Tracked, named: &[u32]) -> Result<(), Error> {
        let map = self.loader.tracked().ok_or_else(|| no_map("tracked"))?;
        track(map, &self.shared, (tracked, named), self.numbers.as_deref())
    }

    /// Loads and attaches those planned units that do not run yet.
    fn attach(
        &mut self,
        planned: KernelPlan,
        limits: &Limits,
        progress: &mut dyn FnMut(AttachProgress) -> ControlFlow<()>,
    ) -> (PreparedChange, ControlFlow<()>) {
        let KernelPlan { units, tables, classes, problems, .. } = planned;
        // Whoever reads the records knows the classes before there are any.
        self.classes.add(|class| {
            let known = class.events.len();
            class.events.extend(classes.into_iter().skip(known));
        });
        let mut by_id: HashMap<u32, Vec<usize>> = HashMap::new();
        for (index, one) in self.running.iter().enumerate().filter(|(_, one)| one.calls.is_none()) {
            by_id.entry(one.key.event.id).or_default().push(index);
        }
        let mut kept = vec![false; self.running.len()];
        let is_new = |unit: &LoadUnit| {
            let key = unit.key();
            let same = by_id.get_mut(&unit.event.id).and_then(|of| {
                let at = of.iter().position(|&index| self.running[index].key == key)?;
                Some(of.swap_remove(at))
            });
            same.map(|index| kept[index] = true).is_none()
        };
        let mut units: Vec<LoadUnit> = units.into_iter().filter(is_new).collect();
        let replacing = self.begin_replacing(&kept, &mut units);
        let asks = |unit: &LoadUnit| match (&replacing, &unit.constant) {
            (None, _) => false,
            (Some(_), Constant::Syscalls(..)) => true,
            (Some(replacing), _) => replacing.ids.contains(&unit.event.id),
        };
        let mut attaching = Attaching::new(&self.shared, &self.classes, limits, progress, &asks);
        attaching.run(&mut self.loader, &mut self.loaded, units);
        let Attaching { running: new, flow, .. } = attaching;
        (PreparedChange { kept, tables, new, problems, replacing }, flow)
    }

    /// Prepares the replacement of running programs, before new ones are attached to the same events: the old programs
    /// announce each event they handle, so that a new program that runs after them skips it. Probes of programs and
    /// timers are not replaced in this way. Returns `None` if nothing is replaced.
    fn begin_replacing(&mut self, kept: &[bool], units: &mut [LoadUnit]) -> Option<Replacing> {
        if !self.records {
            return None;
        }
        let is_probe = |target: &AttachPoint| {
            matches!(target, AttachPoint::Uprobe { .. } | AttachPoint::Timer { .. })
        };
        let (mut ids, mut moves) = (HashSet::new(), vec![false; SYSCALLS as usize]);
        for unit in units.iter() {
            let Constant::Syscalls(table, _) = &unit.constant else {
                let is_same = |(one, kept): (&RunningPrograms, &bool)| {
                    !kept && one.calls.is_none() && one.key.event.id == unit.event.id
                };
                let mut running = self.running.iter().zip(kept);
                if !is_probe(&unit.target) && running.any(is_same) {
                    ids.insert(unit.event.id);
                }
                continue;
            };
            let is_on = |call: &Syscall| call.flags & (CALL_ENTRY | CALL_EXIT) != 0;
            for (place, _) in table.iter().enumerate().filter(|(_, call)| is_on(call)) {
                let mut pairs = self.running.iter().filter_map(|one| one.calls.as_ref());
                moves[place] |= pairs.any(|calls| is_on(&calls.table[place]));
            }
        }
        if ids.is_empty() && !moves.contains(&true) {
            return None;
        }
        for unit in units {
            let Constant::Syscalls(table, _) = &mut unit.constant else { continue };
            for (call, _) in table.iter_mut().zip(&moves).filter(|(_, moves)| **moves) {
                call.flags |= CALL_MOVES;
            }
        }
        let number = self.shared.begin_turns();
        for (one, kept) in self.running.iter().zip(kept) {
            match &one.calls {
                Some(calls) => {
                    calls.memory.set_moves(|place| moves[place]);
                    one.switch.tell();
                }
                None if !kept && ids.contains(&one.key.event.id) => one.switch.tell(),
                None => {}
            }
        }
        Some(Replacing { number, ids })
    }

    /// Waits until the programs that the last change replaced are detached, so that at most two programs run for one
    /// event.
    fn settle(&mut self) {
        let Some(number) = self.replaced.take() else { return };
        while self.detacher.left() > 0 {
            // Time: between two looks; the kernel takes some 50 ms for each.
            std::thread::sleep(Duration::from_millis(2));
        }
        // Until no program runs that had begun by then: MEMBARRIER_CMD_GLOBAL.
        // SAFETY: no memory is involved.
        let _ = unsafe { libc::syscall(libc::SYS_membarrier, 1, 0, 0) };
        self.shared.end_turns(number);
        for calls in self.running.iter().filter_map(|one| one.calls.as_ref()) {
            calls.memory.set_moves(|_| false);
        }
    }

    /// Puts a prepared change into effect: switches from the old programs to the new ones at once.
    fn commit(&mut self, change: PreparedChange) {
        let PreparedChange { kept, tables, mut new, problems, replacing } = change;
        if let Some(Replacing { ids, .. }) = &replacing {
            // What was told before somebody asked was of events that are over.
            self.loader.clear("told");
            for one in new.iter_mut().filter(|one| one.refused.is_none()) {
                match &mut one.calls {
                    Some(calls) => {
                        // Whether it moves is no part of the table.
                        calls.table.iter_mut().for_each(|call| call.flags &= !CALL_MOVES);
                        one.switch.ask();
                    }
                    None if ids.contains(&one.key.event.id) => one.switch.ask(),
                    None => {}
                }
            }
            self.shared.turn();
        }
        let has_room = |one: &RunningPrograms| match &replacing {
            Some(Replacing { ids, .. }) => one.calls.is_some() || ids.contains(&one.key.event.id),
            None => false,
        };
        let mut tables = tables.into_iter();
        let mut gone = Vec::new();
        let (mut stay, records) = (Vec::with_capacity(kept.len() + new.len()), self.records);
        let mut by_id: HashMap<u32, &RunningPrograms> = HashMap::new();
        for one in new.iter().filter(|one| one.refused.is_none()) {
            by_id.insert(one.key.event.id, one);
        }
        for (mut one, kept) in std::mem::take(&mut self.running).into_iter().zip(kept) {
            let is_kept = match &mut one.calls {
                None => kept,
                Some(calls) => {
                    let (table, events) =
                        tables.next().unwrap_or_else(|| (calls.table.clone(), vec![]));
                    let is_kept = !events.is_empty();
                    calls.memory.change(&calls.table, &table);
                    (calls.table, one.events) = (table, events);
                    is_kept
                }
            };
            if is_kept {
                stay.push(one);
                continue;
            }
            // Who has made room goes on telling.
            if !has_room(&one) {
                one.switch.set(false, records);
            }
            // The same event with another filter goes on without a gap.
            if let (true, Some(new)) = (records, by_id.remove(&one.key.event.id)) {
                if !has_room(new) {
                    new.switch.set(true, true);
                }
            }
            if records {
                self.nested += one.not_run().saturating_sub(one.not_run_before);
            }
            gone.push(one);
        }
        if records {
            new.iter().filter(|one| !has_room(one)).for_each(|one| one.switch.set(true, true));
        }
        stay.extend(new);
        (self.running, self.problems) = (stay, problems);
        self.problems.extend(Attaching::problems(&self.running));
        self.sampled.set(self.running.iter());
        unpin(self.loader.pins(), gone.iter());
        self.replaced = replacing.map(|one| one.number);
        let turns = self.replaced.map(|number| Turns(Arc::clone(&self.shared), number));
        self.detacher.detach(gone, turns);
    }

    /// Starts recording, also after [`KernelSession::stop`].
    pub fn start(&mut self) {
        if self.records {
            return;
        }
        for one in &mut self.running {
            one.not_run_before = one.not_run();
        }
        self.records = true;
        // A figure more or less is not worth that it does not begin.
        let _ = self.note(&[]);
        self.shared.set(OF_ALL, true);
        self.running.iter().for_each(|one| one.switch.set(true, true));
    }

    /// Stops recording until the next [`KernelSession::start`]. A program that is running completes its record.
    pub fn stop(&mut self) {
        self.running.iter().for_each(|one| one.switch.set(false, false));
        self.shared.set(OF_ALL, false);
        if self.records {
            self.nested = self.nested();
            self.records = false;
        }
    }

    /// Returns the channel with the buffers; `None` at the second call.
    pub fn take_channel(&mut self) -> Option<Channel> {
        self.channel.take()
    }

    /// Returns the set of recorded processes, which the kernel's map has.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn recorded_processes(&self, follow: &Follow) -> io::Result<RecordedProcesses> {
        if *follow == Follow::Everyone {
            return Ok(RecordedProcesses::Everyone);
        }
        let fd = self.loader.shared("followed").ok_or(io::ErrorKind::NotFound)?;
        Ok(RecordedProcesses::Followed(Arc::new(FollowedMap::of(fd)?)))
    }

    /// Returns the conversion of process numbers to the kernel's; `None` if both are the same.
    pub fn numbers(&self) -> Option<&Arc<Numbers>> {
        self.numbers.as_ref()
    }

    /// Returns the contexts of all records, also those of running programs.
    pub fn contexts(&self) -> &Contexts {
        self.loader.contexts()
    }

    /// Returns the classes of the session's records.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Returns the events that are not recorded, with the reasons.
    pub fn problems(&self) -> Vec<UnrecordedEvent> {
        self.problems.iter().chain(&self.absent).cloned().collect()
    }

    /// Returns a message if something is smaller than requested, such as the buffers.
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// Returns the sizes of the buffers: the requested ones, or smaller ones as [`KernelSession::remark`] explains.
    pub fn buffers(&self) -> KernelBuffers {
        KernelBuffers {
            subbuf_bytes: self.attr.subbuf_bytes,
            nr_subbufs: u32::try_from(self.attr.nr_subbufs).unwrap_or(u32::MAX),
            are_largest: !holds_twice(&self.attr),
        }
    }

    /// Returns the map that has the rings, and their shape.
    pub fn rings(&self) -> Option<(BorrowedFd<'_>, RingsShape)> {
        Some((self.loader.shared("rings")?, RingsShape::of(&self.attr)))
    }

    /// Returns the number of recorded events; entry and exit of a system call count as two.
    pub fn attached(&self) -> u64 {
        let running = self.running.iter().filter(|one| one.refused.is_none());
        running.map(|one| one.events.len() as u64).sum()
    }

    /// Returns the number of attached programs, including those being detached.
    pub fn programs(&self) -> usize {
        let running: usize = self.running.iter().map(|one| one.attached.len()).sum();
        running + self.following.len() + self.detacher.left()
    }

    /// Returns the number of events, while the session recorded, for which the kernel ran no program because one was
    /// already running on that CPU: they were discarded before they reached a buffer.
    pub fn nested(&self) -> u64 {
        let not_run = |one: &RunningPrograms| one.not_run().saturating_sub(one.not_run_before);
        let now = if self.records { self.running.iter().map(not_run).sum() } else { 0 };
        self.nested + now
    }

    /// Returns the events of which samples are recorded. Their counts may be read at any time, from any thread.
    pub fn sampled(&self) -> &SampledEvents {
        &self.sampled
    }

    /// Returns the counts of flawed records so far.
    pub fn counts(&self) -> FlawCounts {
        let control = self.shared.get();
        // While nothing is recorded, what has not been read by now is not.
        let unread = if self.records { 0 } else { control.unread.load(Ordering::Relaxed) };
        FlawCounts {
            unreadable: control.unreadable.load(Ordering::Relaxed).wrapping_add(unread),
            uncounted: control.uncounted.load(Ordering::Relaxed),
            cut: control.cut.load(Ordering::Relaxed),
        }
    }

    /// Returns the numbers of events that are in no row of the table of counts: those for whose key the table had no
    /// room, and those whose place another program was changing.
    pub fn uncounted_events(&self) -> (u64, u64) {
        let control = self.shared.get();
        (control.full.load(Ordering::Relaxed), control.busy.load(Ordering::Relaxed))
    }

    /// Closes the counters. Used when nothing is recorded any more and others detach the programs.
    pub fn end_counting(&mut self) {
        self.counters.end();
    }

    /// Detaches all programs, and returns after the last one is detached.
    pub fn teardown(mut self) {
        self.detach();
        self.detacher.finish();
    }

    /// Detaches all programs one by one. More threads would be no faster, since the kernel does it under one lock.
    fn detach(&mut self) {
        self.stop();
        self.end_counting();
        if let Some(Keeping { pins, .. }) = self.keeping.take() {
            pins.remove();
        }
        self.following.clear();
        self.running.clear();
    }
}

impl Drop for KernelSession {
    fn drop(&mut self) {
        self.detach();
    }
}

impl RecordingSpec {
    fn attr(&self) -> Attr {
        RingsShape::new(self.loss_mode, self.subbuf_bytes, self.nr_subbufs).attr()
    }
}

impl SharedRings {
    /// Opens the rings that another process has left.
    fn found(
        (attr, argv_bytes): (&Attr, u32),
        contexts: &Contexts,
        pins: &Arc<ChannelPins>,
        kept: &AdoptionRecord,
    ) -> Result<SharedRings, Error> {
        let what = "the session";
        let layout = stream_layout(attr)?;
        let mut loader = Loader::new(attr, &layout, contexts.clone(), argv_bytes)?;
        loader.adopt(Arc::clone(pins), |at, is_right| kept.shared(pins, at, is_right))?;
        let control = loader.shared(".data.control").ok_or_else(|| no_map(".data.control"))?;
        let shared = SharedControl::new(control).map_err(|reason| Error::Load { what, reason })?;
        let rings = loader.shared("rings").ok_or_else(|| no_map("rings"))?;
        let value_bytes = u64::from(loader.value_bytes());
        let channel = Channel::adopt(Mapping::of_streams(rings, &layout, value_bytes)?, attr)?;
        Ok(SharedRings { loader, shared, channel })
    }
}

/// Opens the programs of one unit that another process has attached and pinned. Returns `None` if they are switched
/// off and some are missing, as during their removal.
fn found(
    unit: &SavedUnit,
    pins: &ChannelPins,
    shared: &Arc<SharedControl>,
) -> Result<Option<RunningPrograms>, Error> {
    let at = unit.at;
    let get = |name: String| {
        pins.get(&name).map_err(|error| pins.failed(&format!("{name} cannot be opened"), error))
    };
    let is_on = shared.get().on.get(at as usize).is_some_and(|on| on.load(Ordering::SeqCst) != 0);
    let absent = |name: &str| match is_on {
        true => Err(pins.failed(&format!("{name}{at}"), "it is not there any more, and was on")),
        false => Ok(None),
    };
    let mut attached = Vec::new();
    for (number, noted) in unit.attached.iter().enumerate() {
        let program = get(format!("p{at}-{number}"))?;
        let (Some(program), Some(link)) = (program, get(format!("l{at}-{number}"))?) else {
            return absent("p");
        };
        let found = SavedProgram::of(program.as_fd(), link.as_fd());
        if !found.as_ref().is_ok_and(|found| found == noted) {
            let what = format!("p{at}-{number} is not the program that was pinned ({noted:?})");
            return Err(pins.failed(&what, format!("{found:?}")));
        }
        attached.push(Attached::found(program, link));
    }
    if get(format!("e{at}"))?.is_none() {
        return absent("e");
    }
    let map = pins.map(&format!("e{at}")).map_err(|error| error.to_string());
    let event = map.and_then(|map| event_in(&map));
    let event = event.map_err(|error| pins.failed(&format!("e{at}"), error))?;
    let wrong = |why: &str| pins.failed(&format!("the program of switch {at}"), why);
    if event.switch_at != at {
        return Err(wrong(&format!("its constants name switch {}", event.switch_at)));
    }
    let calls = match (unit.calls, get(format!("t{at}"))?) {
        (Some(calls), Some(map)) => {
            let memory = LiveTable::new(map.as_fd()).map_err(|Refusal(why)| wrong(&why))?;
            let (table, held) = (memory.table(), Box::new(calls.held(&event)));
            Some(RunningCalls { memory, table, held })
        }
        (Some(_), None) => return absent("t"),
        (None, _) => None,
    };
    let sampled = match sampling_of(&event).is_all() {
        true => None,
        false if get(format!("s{at}"))?.is_none() => return absent("s"),
        false => {
            let map = pins.map(&format!("s{at}")).map_err(|error| wrong(&error.to_string()))?;
            SampleCounts::new(&event, Some(map)).map(Arc::new)
        }
    };
    let switch = Switch::retake(shared, at).ok_or_else(|| wrong("another one has its switch"))?;
    Ok(Some(RunningPrograms {
        attached,
        switch,
        key: unit.key(&event),
        events: unit.events.clone(),
        sampled,
        calls,
        refused: None,
        not_run_before: unit.not_run_before,
    }))
}

/// A prepared change: its new programs are attached, and still off.
struct PreparedChange {
    /// For each running program, true if it stays. Programs of system calls always stay, and get new tables.
    kept: Vec<bool>,
    tables: Vec<(Box<SyscallTable>, Vec<String>)>,
    new: Vec<RunningPrograms>,
    problems: Vec<UnrecordedEvent>,
    replacing: Option<Replacing>,
}

/// Assigns the events' counters to their places in the session.
///
/// # Errors
/// [`Error::TooManyCounters`].
fn place(events: &mut [SelectedEvent], counters: &mut PlacedCounters) -> Result<(), Error> {
    for event in events {
        event.contexts = counters.place(&event.contexts)?;
    }
    Ok(())
}

/// Returns an entry for each process to follow that does not exist.
fn absent(follow: &Follow) -> Vec<UnrecordedEvent> {
    let Follow::Processes(all) = follow else { return vec![] };
    let is_absent = |pid: &&u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    all.iter()
        .filter(is_absent)
        .map(|pid| UnrecordedEvent {
            event: format!("process {pid}"),
            reason: "there is none with this id (any more)".into(),
        })
        .collect()
}

fn make_channel(loader: &Loader, attr: &Attr) -> Result<Channel, Error> {
    let fd = loader.shared("rings").ok_or_else(|| no_map("rings"))?;
    let value_bytes = u64::from(loader.value_bytes());
    let mapping = Mapping::of_streams(fd.as_fd(), &stream_layout(attr)?, value_bytes)?;
    Ok(Channel::format(mapping, attr)?)
}

fn no_map(name: &str) -> Error {
    Error::Load { what: "the session", reason: Refusal(format!("they have no map {name}")) }
}

#[cfg(test)]
mod tests;

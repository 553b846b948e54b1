//! A recording of the kernel's events: begun, started, stopped, taken down.

use crate::attach::{AttachPoint, Attached};
use crate::attaching::{unpin, Attaching};
use crate::capability::{Capabilities, Capability};
use crate::classes::Classes;
use crate::contexts::Contexts;
use crate::control::{LiveTable, SharedControl, Switch, SyscallTable, OF_ALL};
use crate::counters::PlacedCounters;
use crate::error::{Error, Refusal};
use crate::filter::Groups;
use crate::follow::{self, Follow};
use crate::kept::{Kept, KeptProgram, KeptSession, KeptUnit};
use crate::left::RingsShape;
use crate::limits::{fit_buffers, holds_twice, Limits};
use crate::load::{quiet, Loader};
use crate::numbers::Numbers;
use crate::object::Object;
use crate::pins::{info, ChannelPins};
use crate::plan::{plan, stream_class, Constant, KernelPlan, LoadUnit};
use crate::running::{Detacher, RunningCalls, RunningPrograms, Turns};
use crate::selected::{AttachProgress, SelectedEvent, UnrecordedEvent};
use crate::track::{track, Tracked};
use crate::whom::{Followed, Whom};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;
use strata_abi::kernel::{
    Event, Syscall, CALL_ENTRY, CALL_EXIT, CALL_MOVES, ON_ASKS, ON_TELLS, SYSCALLS,
};
use strata_ring::{stream_layout, Attr, Channel, LossMode, Mapping};

/// What is to be recorded.
#[derive(Clone, Debug)]
pub struct RecordingSpec {
    /// When the buffers are full.
    pub loss_mode: LossMode,
    /// Size of a sub-buffer, a power of two \[byte\].
    pub subbuf_bytes: u64,
    /// Sub-buffers of each CPU, a power of two, at least 2.
    pub nr_subbufs: u64,
    /// Which events.
    pub events: Vec<SelectedEvent>,
    /// Of which processes.
    pub follow: Follow,
    /// What their records say beside the thread.
    pub contexts: Contexts,
}

/// Keeps what makes a session again, outside of it.
pub type Note = Box<dyn FnMut(&Kept) -> io::Result<()> + Send>;

/// Has what is in the kernel stay there when this process is killed.
pub struct Keeping {
    /// The channel's folder below the file system of BPF.
    pub pins: Arc<ChannelPins>,
    /// Notes what makes the session again; before what is new is recorded.
    pub note: Note,
}

impl std::fmt::Debug for Keeping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keeping({:?})", self.pins)
    }
}

/// How many parts of the records are not as they should be. The records themselves are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlawCounts {
    /// Fields in user memory that could not be read: texts are their addresses, others zeroes.
    pub unreadable: u64,
    /// Counters that could not be read, and are zeroes.
    pub uncounted: u64,
    /// Texts that were longer than a record holds.
    pub cut: u64,
}

/// The buffers as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelBuffers {
    /// Size of a sub-buffer \[byte\].
    pub subbuf_bytes: u64,
    /// Sub-buffers of each CPU.
    pub nr_subbufs: u32,
    /// Twice the memory would not fit into one of the kernel's maps, so larger buffers are not possible.
    pub are_largest: bool,
}

/// A recording of the kernel's events.
#[derive(Debug)]
pub struct KernelSession {
    loader: Loader,
    /// Objects that have made the maps that others share.
    loaded: Vec<Object>,
    shared: Arc<SharedControl>,
    channel: Option<Channel>,
    counters: PlacedCounters,
    classes: Classes,
    /// But for those that the kernel refuses.
    problems: Vec<UnrecordedEvent>,
    /// Processes that are not there.
    absent: Vec<UnrecordedEvent>,
    remark: Option<String>,
    attr: Attr,
    following: Vec<Attached>,
    numbers: Option<Arc<Numbers>>,
    running: Vec<RunningPrograms>,
    detacher: Detacher,
    records: bool,
    /// Of events whose programs did not run, of programs that record no more.
    nested: u64,
    keeping: Option<Keeping>,
    /// The number of the last change in which programs took the places of others, as long as they are there.
    replaced: Option<u64>,
}

/// Programs that take the places of others.
struct Replacing {
    number: u64,
    /// Of events, the numbers of their classes.
    ids: HashSet<u32>,
}

/// The rings of a session, and what its programs share.
struct SharedRings {
    loader: Loader,
    shared: Arc<SharedControl>,
    channel: Channel,
}

impl KernelSession {
    /// Loads and attaches everything; nothing is recorded before [`KernelSession::start`]. There may be no event
    /// at all: see [`KernelSession::change`].
    ///
    /// An event that the kernel refuses is one of [`KernelSession::problems`]. When `progress` breaks, the
    /// session has what was attached by then.
    ///
    /// # Errors
    /// What makes recording impossible altogether, or a filter that cannot be compiled.
    pub fn begin(
        mut spec: RecordingSpec,
        keeping: Option<Keeping>,
        progress: &mut dyn FnMut(AttachProgress) -> ControlFlow<()>,
    ) -> Result<KernelSession, Error> {
        check()?;
        quiet();
        let attr = spec.attr();
        // Before anything is loaded: what is wrong with what is asked for is said first.
        let mut counters = PlacedCounters::default();
        let contexts = counters.place(&spec.contexts)?;
        place(&mut spec.events, &mut counters)?;
        let planned =
            plan(spec.events, Vec::new(), &contexts, std::iter::empty(), Groups::AreThere)?;
        let limits = Limits::raise(planned.units.len() + counters.files());
        counters.open(&limits)?;
        let (attr, remark) = fit_buffers(&attr)?;
        let layout = stream_layout(&attr)?;
        let mut loader = Loader::new(&attr, &layout, contexts.clone())?;
        if let Some(Keeping { pins, .. }) = &keeping {
            // Of one that nobody can take up.
            pins.names().iter().for_each(|name| pins.unpin(name));
            loader.pin_in(Arc::clone(pins));
        }
        let explained = |error| match error {
            Error::Load { what, reason } => Error::Load { what, reason: limits.explain(reason) },
            other => other,
        };
        let walker = follow::begin(&mut loader, &spec.follow).map_err(explained)?;
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
        let following = follow::attach_and_walk(&walker).map_err(explained)?;
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
            keeping,
            replaced: None,
        };
        let (change, _) = session.attach(planned, &limits, progress);
        session.counters.put(session.loader.shared("counters"))?;
        session.note(&change.new)?;
        session.commit(change);
        session.note(&[])?;
        Ok(session)
    }

    /// Goes on with what a session has in the kernel that was killed, which `kept` describes: it has recorded meanwhile,
    /// as it was told last, and does so. Nothing is recorded of whom it has followed besides all.
    ///
    /// # Errors
    /// [`Error::Pins`]: what is pinned is not what was noted, or what is asked for now. All is as it was.
    pub fn take_up(
        spec: &RecordingSpec,
        kept: Kept,
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
            SharedRings::found(&attr, &contexts, &pins, &kept)?;
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
        let walker = follow::begin(&mut loader, &Follow::Everyone).map_err(explained)?;
        shared.get().tracer.store(std::process::id(), Ordering::Relaxed);
        let following = follow::attach_and_walk(&walker).map_err(explained)?;
        let numbers = Numbers::begin(&loader).map_err(explained)?;
        let records = shared.records();
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
            keeping: Some(keeping),
            replaced: None,
        };
        session.end_change();
        session.forget_others();
        // What was noted makes the same again.
        let _ = session.note(&[]);
        Ok(session)
    }

    /// The one in which it was killed: either all or nothing of it has happened.
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

    /// What was pinned of programs that nobody has noted: they were never switched on, or are off for good.
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

    /// Notes what makes this again, should this process be killed: what runs, and what is `new`.
    ///
    /// # Errors
    /// [`Error::Pins`]: it cannot be noted.
    fn note(&mut self, new: &[RunningPrograms]) -> Result<(), Error> {
        if self.keeping.is_none() {
            return Ok(());
        }
        let whole = KeptSession {
            attr: &self.attr,
            contexts: self.loader.contexts().bits(),
            counters: self.counters.places(),
            nested: self.nested,
            classes: self.classes.stream_class().events,
        };
        let id = |name: &str| {
            let info: io::Result<libbpf_sys::bpf_map_info> = info(self.loader.shared(name)?);
            info.ok().map(|info| info.id)
        };
        let kept = Kept::of(whole, id, self.running.iter().chain(new));
        let Some(Keeping { pins, note }) = &mut self.keeping else { return Ok(()) };
        note(&kept).map_err(|error| pins.failed("what is pinned cannot be noted", error))
    }

    /// The same, of classes that were added from outside.
    ///
    /// # Errors
    /// [`Error::Pins`]: it cannot be noted.
    pub fn note_classes(&mut self) -> Result<(), Error> {
        self.note(&[])
    }

    /// Records these events from now on, instead of those that it did; while it records or not. Programs of events
    /// that are wanted as before stay. Those of others are switched off, and detached behind one's back; those
    /// of new ones, or with another filter, are switched on in the same moment, when all are attached.
    ///
    /// As at the begin, an event that the kernel refuses is one of [`KernelSession::problems`]; with `may_lack` also where
    /// it takes none. Nothing is in a control group that a filter names and that is not there: whoever asks anew looks before.
    ///
    /// # Errors
    /// All is as it was: a filter cannot be compiled; [`Error::Refused`] if the kernel takes none of what
    /// is new; [`Error::GivenUp`] if `progress` breaks.
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
        let planned = plan(
            events,
            std::mem::take(&mut class.events),
            self.loader.contexts(),
            calls,
            Groups::MayBeGone,
        )?;
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

    /// Records of these processes only, from now on, whatever the event: those whose work it is that a CPU does
    /// when it happens.
    ///
    /// # Errors
    /// All is as it was: it is something that the kernel cannot ask, or that is not there.
    pub fn track(&mut self, tracked: &Tracked) -> Result<(), Error> {
        let map = self.loader.tracked().ok_or_else(|| no_map("tracked"))?;
        track(map, &self.shared, tracked, self.numbers.as_deref())
    }

    /// Has ready what runs not yet of what is planned.
    fn attach(
        &mut self,
        planned: KernelPlan,
        limits: &Limits,
        progress: &mut dyn FnMut(AttachProgress) -> ControlFlow<()>,
    ) -> (PreparedChange, ControlFlow<()>) {
        let KernelPlan { units, tables, classes, problems } = planned;
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

    /// What runs and is to make room tells from now on, before anything else is attached to the same events: who comes
    /// behind it asks. Not probes of programs, of which who is attached last runs first, nor timers, of which each is one
    /// of its own.
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

    /// Until those that made room in the change before are gone: else three would run for one event.
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

    /// Switches everything over at once.
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
        unpin(self.loader.pins(), gone.iter());
        self.replaced = replacing.map(|one| one.number);
        let turns = self.replaced.map(|number| Turns(Arc::clone(&self.shared), number));
        self.detacher.detach(gone, turns);
    }

    /// Records from now on; again, if it was stopped.
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

    /// Records no more, until it is started again. A program that runs meanwhile ends its record.
    pub fn stop(&mut self) {
        self.running.iter().for_each(|one| one.switch.set(false, false));
        self.shared.set(OF_ALL, false);
        if self.records {
            self.nested = self.nested();
            self.records = false;
        }
    }

    /// The buffers, once.
    pub fn take_channel(&mut self) -> Option<Channel> {
        self.channel.take()
    }

    /// Who is recorded, of those who are followed or all.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn whom(&self, follow: &Follow) -> io::Result<Whom> {
        if *follow == Follow::Everyone {
            return Ok(Whom::Everyone);
        }
        let fd = self.loader.shared("followed").ok_or(io::ErrorKind::NotFound)?;
        Ok(Whom::Followed(Arc::new(Followed::of(fd)?)))
    }

    /// What the kernel calls the processes that this one sees; `None`: as this one does.
    pub fn numbers(&self) -> Option<&Arc<Numbers>> {
        self.numbers.as_ref()
    }

    /// What all records have, those of what runs already included.
    pub fn contexts(&self) -> &Contexts {
        self.loader.contexts()
    }

    /// What the records are.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Events that are not recorded.
    pub fn problems(&self) -> Vec<UnrecordedEvent> {
        self.problems.iter().chain(&self.absent).cloned().collect()
    }

    /// What of it is less than was asked for, a whole message.
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// The buffers: those asked for, or what [`KernelSession::remark`] says.
    pub fn buffers(&self) -> KernelBuffers {
        KernelBuffers {
            subbuf_bytes: self.attr.subbuf_bytes,
            nr_subbufs: u32::try_from(self.attr.nr_subbufs).unwrap_or(u32::MAX),
            are_largest: !holds_twice(&self.attr),
        }
    }

    /// The map that has the rings, and how they were made.
    pub fn rings(&self) -> Option<(BorrowedFd<'_>, RingsShape)> {
        Some((self.loader.shared("rings")?, RingsShape::of(&self.attr)))
    }

    /// How many events are recorded; both ends of a system call are two.
    pub fn attached(&self) -> u64 {
        let running = self.running.iter().filter(|one| one.refused.is_none());
        running.map(|one| one.events.len() as u64).sum()
    }

    /// How many programs are attached, those being detached included.
    pub fn programs(&self) -> usize {
        let running: usize = self.running.iter().map(|one| one.attached.len()).sum();
        running + self.following.len() + self.detacher.left()
    }

    /// Calls of programs that the kernel did not make while the session recorded, because one was
    /// running on that CPU already: events discarded before they reached a buffer.
    pub fn nested(&self) -> u64 {
        let not_run = |one: &RunningPrograms| one.not_run().saturating_sub(one.not_run_before);
        let now = if self.records { self.running.iter().map(not_run).sum() } else { 0 };
        self.nested + now
    }

    /// What was counted so far.
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

    /// Counts no more, where nothing is recorded any more and others are to detach the programs.
    pub fn end_counting(&mut self) {
        self.counters.end();
    }

    /// Detaches everything, and returns when that is done.
    pub fn teardown(mut self) {
        self.detach();
        self.detacher.finish();
    }

    /// One by one: more threads are no faster, the kernel does it under one lock.
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
    /// As another process has left it.
    fn found(
        attr: &Attr,
        contexts: &Contexts,
        pins: &Arc<ChannelPins>,
        kept: &Kept,
    ) -> Result<SharedRings, Error> {
        let what = "the session";
        let layout = stream_layout(attr)?;
        let mut loader = Loader::new(attr, &layout, contexts.clone())?;
        loader.take_up(Arc::clone(pins), |at, is_right| kept.shared(pins, at, is_right))?;
        let control = loader.shared(".data.control").ok_or_else(|| no_map(".data.control"))?;
        let shared = SharedControl::new(control).map_err(|reason| Error::Load { what, reason })?;
        let rings = loader.shared("rings").ok_or_else(|| no_map("rings"))?;
        let value_bytes = u64::from(loader.value_bytes());
        let channel = Channel::adopt(Mapping::of_streams(rings, &layout, value_bytes)?, attr)?;
        Ok(SharedRings { loader, shared, channel })
    }
}

/// Programs that another process has attached and pinned; `None`: they are off and not all there, since they were being
/// let go.
fn found(
    unit: &KeptUnit,
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
        let found = KeptProgram::of(program.as_fd(), link.as_fd());
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
    let switch = Switch::retake(shared, at).ok_or_else(|| wrong("another one has its switch"))?;
    Ok(Some(RunningPrograms {
        attached,
        switch,
        key: unit.key(&event),
        events: unit.events.clone(),
        calls,
        refused: None,
        not_run_before: unit.not_run_before,
    }))
}

/// The constants of a program, which nobody can change any more.
fn event_in(map: &MapHandle) -> Result<Event, String> {
    if map.value_size() as usize != size_of::<Event>() {
        return Err(format!(
            "{} bytes of constants, wanted {}",
            map.value_size(),
            size_of::<Event>()
        ));
    }
    let value =
        map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(|error| error.to_string())?;
    let value = value.filter(|value| value.len() >= size_of::<Event>()).ok_or("it is empty")?;
    // SAFETY: so many bytes, and an Event is made of integers, which have any.
    Ok(unsafe { std::ptr::read_unaligned(value.as_ptr().cast()) })
}

/// What becomes another one, all of it attached.
struct PreparedChange {
    /// Of programs that run: it stays. Those of system calls have tables.
    kept: Vec<bool>,
    tables: Vec<(Box<SyscallTable>, Vec<String>)>,
    new: Vec<RunningPrograms>,
    problems: Vec<UnrecordedEvent>,
    replacing: Option<Replacing>,
}

/// Has each event's counters at their places in the session.
///
/// # Errors
/// [`Error::TooManyCounters`].
fn place(events: &mut [SelectedEvent], counters: &mut PlacedCounters) -> Result<(), Error> {
    for event in events {
        event.contexts = counters.place(&event.contexts)?;
    }
    Ok(())
}

/// Processes to be followed that are not there.
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

/// Whether this process may record anything of this kernel.
///
/// # Errors
/// [`Error::Machine`], [`Error::Rights`], [`Error::NoBtf`].
pub fn check() -> Result<(), Error> {
    check_machine()?;
    check_rights()
}

fn check_machine() -> Result<(), Error> {
    if cfg!(target_arch = "x86_64") {
        Ok(())
    } else {
        Err(Error::Machine { machine: std::env::consts::ARCH })
    }
}

/// The right to load, and what programs are fitted to the kernel by.
fn check_rights() -> Result<(), Error> {
    let missing: Vec<&str> = Capabilities::of_this_process()
        .missing_to_record()
        .into_iter()
        .map(Capability::name)
        .collect();
    if !missing.is_empty() {
        return Err(Error::Rights { missing: missing.join(", ") });
    }
    if std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        Ok(())
    } else {
        Err(Error::NoBtf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::event::Probe;
    use crate::tracefs::Tracefs;

    #[test]
    fn session_with_a_refused_program_has_the_event_of_the_generic_one() {
        let catalog = match Tracefs::find().and_then(|tracefs| Catalog::load(&tracefs)) {
            Ok(catalog) => catalog,
            Err(error) => return eprintln!("skip: {error}"),
        };
        let mut event = catalog
            .find("sched", "sched_switch")
            .and_then(|name| catalog.describe(name).ok())
            .expect("the kernel has sched_switch");
        let Probe::Hot { program, fallback: Some(generic) } = &mut event.probe else {
            return eprintln!("skip: no program of its own for sched_switch here");
        };
        *program = "refused";
        // Else both may be the same.
        generic.fields.pop();
        let fields = generic.fields.clone();
        let selected = SelectedEvent {
            event,
            entry: true,
            exit: true,
            filter: None,
            exit_filter: None,
            contexts: Contexts::default(),
        };
        let spec = RecordingSpec {
            loss_mode: LossMode::Discard,
            subbuf_bytes: 1 << 16,
            nr_subbufs: 4,
            events: vec![selected],
            follow: Follow::Everyone,
            contexts: Contexts::default(),
        };
        let session = match KernelSession::begin(spec, None, &mut |_| ControlFlow::Continue(())) {
            Ok(session) => session,
            Err(error @ Error::Rights { .. }) => return eprintln!("skip: {error}"),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(session.problems(), []);
        assert_eq!(session.attached(), 1);
        // Behind that of the refused one.
        let classes = session.classes().since(1);
        assert_eq!(classes.iter().map(|class| &class.fields).collect::<Vec<_>>(), [&fields]);
    }
}

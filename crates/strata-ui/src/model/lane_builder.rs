//! Makes lanes from what a timeline reports.

use std::collections::{HashMap, HashSet};
use std::io;

use strata_timeline::{
    Call, CallId, CounterPlace, CounterValue, DiskRequest, Interrupt, Interval, Name, Object,
    Observer, Paired, Run, Sleep, Span, State, ThreadId, Waker, World,
};

use strata_analyze::fast_hash::Mix;

use crate::model::counter_coding::ordered;
use crate::model::item::{Item, Kind};
use crate::model::item_coding::zigzag;
use crate::model::lane::{Lane, LaneStore};
use crate::model::name_table::NameTable;

/// The most tracks that are made; slices that would need further ones are left out and counted.
pub const TRACKS_MAX: usize = 1 << 18;
/// The most overlapping spans of one thread, or of one kind, that are shown.
const DEPTH_MAX: u32 = 64;
/// The most pairs of a call and its object that have a name of their own.
const OBJECTS_MAX: usize = 1 << 16;
/// Number of slices after which lanes that got none of them store their incomplete blocks.
const REST: u32 = 1 << 18;
/// The most waits that are marked as ended by a timer.
const TIMED_OUT_MAX: usize = 1 << 20;

/// Names of the kernel's softirqs, by number.
pub const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// Waits that a timer ended, by their begin.
pub type TimedOut = HashSet<(ThreadId, i64), Mix>;

/// The subject of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackKind {
    /// Threads that run on a CPU.
    Cpu(u8, u32),
    /// Interrupts of devices on a CPU.
    Interrupts(u8, u32),
    /// Softirqs on a CPU, which finish the work of interrupts.
    Softirqs(u8, u32),
    /// States of a thread.
    States(ThreadId),
    /// System calls of a thread.
    Calls(ThreadId),
    /// Spans of a thread, by their nesting depth.
    Spans(ThreadId, u32),
    /// Spans of one kind that may overlap, by the row among overlapping ones.
    Keyed(Name, Option<ThreadId>, u32),
    /// Samples of a thread: moments at which a timer asked what it did.
    Samples(ThreadId),
    /// Values of a counter.
    Counter(Name, CounterPlace),
    /// Requests to a disk, by the row among overlapping ones.
    Disk(u8, u32, u32),
}

/// A lane with its subject.
#[derive(Debug)]
pub struct Track {
    /// Subject of the track.
    pub kind: TrackKind,
    /// Slices of the track.
    pub lane: Lane,
}

/// Makes lanes while the timeline passes over the trace.
#[derive(Debug, Default)]
pub struct Maker {
    /// All tracks, by number.
    pub tracks: Vec<Track>,
    /// Storage for the tracks' blocks.
    pub store: LaneStore,
    /// Names of slices, by number.
    pub names: NameTable,
    /// Number of slices for which there was no track.
    pub left_out: u64,
    /// The error that has stopped the storing of slices; `None` if there was none.
    pub failure: Option<io::Error>,
    numbers: HashMap<TrackKind, u32, Mix>,
    /// For each thread, the numbers of the tracks of its states and of its calls, if they exist.
    of_threads: Vec<[Option<u32>; 2]>,
    /// For each thread, its last name, and the number of its label.
    labels: Vec<(Name, u32)>,
    calls: HashMap<(Option<CallId>, Object), u32, Mix>,
    timed_out: TimedOut,
    /// Number of slices since lanes have given memory back.
    since_rest: u32,
}

/// Encodes the waker of a thread as a number, with its kind in the lowest three bits.
fn waker_number(waker: Waker) -> u64 {
    match waker {
        Waker::Unknown => 0,
        Waker::Thread { thread, is_sure } => {
            (thread.index() as u64) << 3 | if is_sure { 2 } else { 1 }
        }
        Waker::Device(number) => u64::from(number.unsigned_abs()) << 3 | 3,
        Waker::Softirq(number) => u64::from(number) << 3 | 4,
        Waker::Timer => 5,
        Waker::Interrupt => 6,
    }
}

impl Maker {
    /// Returns the number of a track, which is made at the first request; `None` if there are too many.
    fn track(&mut self, kind: TrackKind) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&kind) {
            return Some(number);
        }
        let number = u32::try_from(self.tracks.len()).ok()?;
        if self.tracks.len() >= TRACKS_MAX {
            self.left_out += 1;
            return None;
        }
        let lane = match kind {
            TrackKind::Counter(..) => Lane::of_counter(),
            _ => Lane::default(),
        };
        self.tracks.push(Track { kind, lane });
        self.numbers.insert(kind, number);
        Some(number)
    }

    /// Returns the number of a track, if it exists.
    #[must_use]
    pub fn find(&self, kind: TrackKind) -> Option<u32> {
        self.numbers.get(&kind).copied()
    }

    /// Returns the track of a thread's states, or of its calls; called for each slice.
    fn track_of(&mut self, thread: ThreadId, is_call: bool) -> Option<u32> {
        let at = thread.index();
        if self.of_threads.len() <= at {
            self.of_threads.resize(at + 1, [None; 2]);
        }
        let known = self.of_threads.get(at).and_then(|of| of.get(usize::from(is_call)).copied());
        if let Some(Some(number)) = known {
            return Some(number);
        }
        let kind = if is_call { TrackKind::Calls(thread) } else { TrackKind::States(thread) };
        let number = self.track(kind)?;
        let slot = self.of_threads.get_mut(at)?.get_mut(usize::from(is_call))?;
        *slot = Some(number);
        Some(number)
    }

    fn push(&mut self, track: Option<u32>, slice: Item) {
        let at = track.and_then(|track| usize::try_from(track).ok());
        let Some(track) = at.and_then(|at| self.tracks.get_mut(at)) else { return };
        if self.failure.is_none() {
            self.failure = track.lane.push(slice, &mut self.store).err();
        }
        self.since_rest += 1;
        if self.since_rest >= REST {
            self.rest();
        }
    }

    #[cold]
    fn rest(&mut self) {
        self.since_rest = 0;
        for track in &mut self.tracks {
            if self.failure.is_none() {
                self.failure = track.lane.rest(&mut self.store).err();
            }
        }
    }

    /// Returns the number of a thread's label, such as `nginx 4711`.
    fn label(&mut self, world: &World, thread: ThreadId) -> u32 {
        let at = thread.index();
        if self.labels.len() <= at {
            self.labels.resize(at + 1, (Name::NONE, 0));
        }
        let found = world.threads.get(thread);
        let now = found.map_or(Name::NONE, |it| it.name);
        match self.labels.get(at) {
            Some(&(name, number)) if name == now && number != 0 => return number,
            _ => {}
        }
        let text = match found {
            _ if thread == ThreadId::IDLE => "idle".to_owned(),
            Some(found) => format!("{} {}", world.thread_name(thread), found.tid),
            None => String::new(),
        };
        let number = self.names.of(text.trim());
        if let Some(slot) = self.labels.get_mut(at) {
            *slot = (now, number);
        }
        number
    }

    /// Returns the number of a call's name, such as `read /etc/passwd`. Outside of a call, returns the number of
    /// `otherwise`.
    fn call_name(
        &mut self,
        world: &World,
        call: Option<CallId>,
        object: Object,
        otherwise: &str,
    ) -> u32 {
        if let Some(&number) = self.calls.get(&(call, object)).filter(|_| call.is_some()) {
            return number;
        }
        let is_full = self.calls.len() >= OBJECTS_MAX;
        let name = call.map_or(otherwise, |call| world.calls.name(call));
        let number = match object {
            _ if is_full => self.names.of(name),
            Object::None | Object::Fault => self.names.of(name),
            Object::File(file) => self.names.of(&format!("{name} {}", world.names.text(file))),
            Object::Descriptor(number) => self.names.of(&format!("{name} fd {number}")),
            Object::Address(at) => self.names.of(&format!("{name} {at:#x}")),
        };
        if !is_full && call.is_some() {
            self.calls.insert((call, object), number);
        }
        number
    }

    /// Returns the first track of overlapping slices, from the depth `first` on, that is free at the time `from`.
    fn free(&mut self, from: i64, first: u32, kind: impl Fn(u32) -> TrackKind) -> Option<u32> {
        for depth in first.min(DEPTH_MAX)..=DEPTH_MAX {
            let number = self.track(kind(depth))?;
            let at = usize::try_from(number).ok()?;
            if self.tracks.get(at)?.lane.to <= from {
                return Some(number);
            }
        }
        self.left_out += 1;
        None
    }

    /// Stores all blocks that are not complete, after the last slice.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn settle(&mut self) -> io::Result<()> {
        self.tracks.iter_mut().try_for_each(|track| track.lane.settle(&mut self.store))
    }

    /// Creates the tracks from their stored parts, as a pass had created them.
    #[must_use]
    pub fn made(
        tracks: Vec<Track>,
        store: LaneStore,
        names: NameTable,
        left_out: u64,
        timed_out: TimedOut,
    ) -> Maker {
        let numbers = (0..).zip(&tracks).map(|(number, track)| (track.kind, number)).collect();
        Maker { tracks, store, names, left_out, numbers, timed_out, ..Maker::default() }
    }

    /// Returns the waits that a timer ended, in order.
    #[must_use]
    pub fn timed_out(&self) -> Vec<(ThreadId, i64)> {
        let mut all: Vec<_> = self.timed_out.iter().copied().collect();
        all.sort_unstable();
        all
    }

    /// Adds a sample of a thread.
    pub fn sample(&mut self, thread: ThreadId, time: i64) {
        let track = self.track(TrackKind::Samples(thread));
        self.push(track, Item::slice(time, time, Kind::Busy, 0, 0));
    }

    /// Returns the present state of a thread as a slice that ends now.
    #[must_use]
    pub fn open_state(&self, world: &World, thread: ThreadId) -> Option<Item> {
        let of = world.threads.get(thread)?;
        let (kind, name) = match of.state {
            State::Gone | State::Unknown => return None,
            State::Running { .. } => (Kind::Running, 0),
            State::Runnable { woken: true } => (Kind::Woken, 0),
            State::Runnable { woken: false } => (Kind::Preempted, 0),
            State::Blocked(reason) => {
                let object = world.object(thread, reason.object);
                let name = self.calls.get(&(reason.call, object)).copied();
                let of_call = || reason.call.map(|call| self.names.find(world.calls.name(call)));
                let kind = match reason.sleep {
                    Sleep::Uninterruptible => Kind::Uninterruptible,
                    _ => Kind::Blocked,
                };
                (kind, name.or_else(of_call).unwrap_or(0))
            }
        };
        Some(Item::slice(of.since, world.now, kind, name, 0))
    }

    /// Returns the call that a thread is in as a slice that ends now.
    #[must_use]
    pub fn open_call(&self, world: &World, thread: ThreadId) -> Option<Item> {
        let (call, begin) = world.threads.get(thread)?.in_call()?;
        let name = self.names.find(world.calls.name(call));
        Some(Item::slice(begin, world.now, Kind::Busy, name, 0))
    }

    /// Returns the present run of a CPU as a slice from `since` until now. `runs`: the CPU's thread, if it is known.
    #[must_use]
    pub fn open_run(&self, world: &World, since: i64, runs: Option<ThreadId>) -> Option<Item> {
        let thread = runs?;
        let name = self.labels.get(thread.index()).map_or(0, |&(_, number)| number);
        let kind = if thread == ThreadId::IDLE { Kind::Idle } else { Kind::Running };
        let name = if kind == Kind::Idle { 0 } else { name };
        Some(Item::slice(since, world.now, kind, name, thread.index() as u64 + 1))
    }

    /// Returns true if a timer ended the wait that began at `from`, which becomes known only after the slice was made.
    #[must_use]
    pub fn has_timed_out(&self, thread: ThreadId, from: i64) -> bool {
        self.timed_out.contains(&(thread, from))
    }
}

impl Observer for Maker {
    const FILES: bool = true;

    fn call(&mut self, world: &World, call: &Call) {
        let track = self.track_of(call.thread, true);
        let object = match call.path.is_some() {
            true => Object::File(call.path),
            false => call.object,
        };
        let name = self.call_name(world, Some(call.call), object, "");
        let result = call.result.map_or(0, |result| zigzag(result).saturating_add(1));
        self.push(track, Item::slice(call.begin, call.end, Kind::Busy, name, result));
    }

    fn state(&mut self, world: &World, thread: ThreadId, interval: &Interval) {
        let (kind, name, extra) = match interval.state {
            State::Gone => return,
            State::Unknown => (Kind::Unknown, 0, 0),
            State::Running { cpu } => (Kind::Running, 0, u64::from(cpu) + 1),
            State::Runnable { woken } => {
                let kind = if woken { Kind::Woken } else { Kind::Preempted };
                (kind, 0, interval.cpu.map_or(0, |cpu| u64::from(cpu) + 1))
            }
            State::Blocked(reason) => {
                let kind = match reason.sleep {
                    Sleep::Uninterruptible => Kind::Uninterruptible,
                    _ => Kind::Blocked,
                };
                let otherwise = match (reason.object, reason.sleep) {
                    (Object::Fault, _) => "page fault",
                    (_, Sleep::Stopped) => "stopped",
                    (_, Sleep::Idle) => "idle",
                    _ => "",
                };
                let object = world.object(thread, reason.object);
                let name = self.call_name(world, reason.call, object, otherwise);
                (kind, name, waker_number(interval.waker))
            }
        };
        let track = self.track_of(thread, false);
        self.push(track, Item::slice(interval.from, interval.to, kind, name, extra));
    }

    fn timed_out(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        if self.timed_out.len() < TIMED_OUT_MAX {
            self.timed_out.insert((thread, interval.from));
        }
    }

    fn interrupt(
        &mut self,
        world: &World,
        cpu: u32,
        thread: Option<ThreadId>,
        which: Interrupt,
        from: i64,
        to: i64,
    ) {
        let machine = world.told.machine;
        let (kind, name) = match which {
            Interrupt::Device(number) => {
                let name = world.interrupt_name(machine, number);
                let text = if name.is_empty() { format!("irq {number}") } else { name };
                (TrackKind::Interrupts(machine, cpu), self.names.of(&text))
            }
            Interrupt::Softirq(number) => {
                let name = SOFTIRQS.get(usize::from(number)).copied().unwrap_or("softirq");
                (TrackKind::Softirqs(machine, cpu), self.names.of(name))
            }
        };
        let track = self.track(kind);
        let extra = thread.map_or(0, |thread| thread.index() as u64 + 1);
        self.push(track, Item::slice(from, to, Kind::Busy, name, extra));
    }

    fn ran(&mut self, world: &World, run: &Run) {
        let track = self.track(TrackKind::Cpu(world.told.machine, run.cpu));
        let (kind, name) = match run.thread {
            None => (Kind::Unknown, 0),
            Some(ThreadId::IDLE) => (Kind::Idle, 0),
            Some(thread) => (Kind::Running, self.label(world, thread)),
        };
        let extra = run.thread.map_or(0, |thread| thread.index() as u64 + 1);
        self.push(track, Item::slice(run.from, run.to, kind, name, extra));
    }

    fn counter_over(&mut self, _: &World, value: &CounterValue, to: i64) {
        let track = self.track(TrackKind::Counter(value.name, value.place));
        let number = ordered(value.number);
        self.push(track, Item::slice(value.from, to, Kind::Busy, 0, number));
    }

    fn request(&mut self, world: &World, request: &DiskRequest) {
        let machine = world.told.machine;
        let name = match request.kind {
            strata_timeline::RequestKind::Read => "read",
            strata_timeline::RequestKind::Write => "write",
            strata_timeline::RequestKind::Discard => "discard",
            strata_timeline::RequestKind::Flush => "flush",
            strata_timeline::RequestKind::Other => "request",
        };
        let name = self.names.of(name);
        let of = |depth| TrackKind::Disk(machine, request.device, depth);
        let track = self.free(request.begin, 0, of);
        self.push(track, Item::slice(request.begin, request.end, Kind::Busy, name, request.bytes));
    }

    fn span(&mut self, world: &World, span: &Span) {
        let name = self.names.of(&world.names.text(span.name));
        let track = match (span.paired, span.thread) {
            (Paired::Thread | Paired::NoKey, Some(thread)) => {
                let open = world.threads.get(thread).map_or(0, |it| it.in_spans().len());
                let depth = u32::try_from(open).unwrap_or(DEPTH_MAX);
                self.free(span.begin, depth, |depth| TrackKind::Spans(thread, depth))
            }
            _ => {
                let of = span.begun_by.or(span.thread).map(|thread| world.process_of(thread));
                self.free(span.begin, 0, |depth| TrackKind::Keyed(span.name, of, depth))
            }
        };
        let extra = span.thread.map_or(0, |thread| thread.index() as u64 + 1);
        self.push(track, Item::slice(span.begin, span.end, Kind::Busy, name, extra));
    }
}

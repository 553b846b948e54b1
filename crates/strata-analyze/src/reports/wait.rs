//! The critical path of a thread: its waits and what the threads that ended them did, as a tree of times that add up
//! exactly.
//!
//! The path is followed from the end back to the begin. While the thread ran, the path is the thread itself, except
//! for interrupts. While it was blocked and another thread ended that, the path is what the *other* thread did in
//! that time, and so on. If a disk ended the wait, the path is the request to the disk.
//!
//! ```text
//! thread A   ███ run ░░░░░░ blocked in read() ░░░░░░ ███        whole 100 ms
//! thread B       ███ run ░░ blocked: disk ░░ ██ ┘ wakes A         ├─ A ran        40 ms
//! disk                   ▓▓▓ request ▓▓▓ ┘ ends B's wait          └─ A blocked    60 ms
//!                                                                     ├─ B ran    25 ms
//!                                                                     └─ B blocked, request to sda  35 ms
//! ```
//!
//! 1. A [`History`] observes one pass and keeps the states, interrupts and requests of a time: 24 bytes for each, up
//!    to [`HISTORY_MAX`]. Beyond that it keeps nothing, and [`History::left_out`] says so. For a span, a first pass
//!    finds the longest ones, and a second one ([`History::of`]) keeps the states of that time.
//! 2. [`History::path`] computes the tree. Equal parts (same thread, kind and reason) are added up, with their count.
//!    Chains of wakers end at a depth, and a path at a number of steps, since a hostile trace may have loops.
//!
//! `is_sure` is false where a waker may have been an interrupt that the trace does not name.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use strata_ctf::read::TimeRange;
use strata_timeline::{
    DiskRequest, Interrupt, Interval, Object, Observer, Reason, RequestKind, Span as Ended, State,
    ThreadId, Waker, World,
};

use super::irq::{kind, name_of, number_of};
use super::threads::{ended_wait, Wait};
use crate::fast_hash::Mix;
use strata_report::Label;

/// The default limit on states and interrupts that are kept; each takes 24 bytes.
pub const HISTORY_MAX: usize = 12 << 20;
/// The most different pairs of reason and waker that are kept. Waits beyond the limit have no object.
const KEYS_MAX: usize = 1 << 20;
/// The most threads in a row, each woken by the next, that a path follows.
const DEPTH_MAX: usize = 32;
/// The most steps of one path, so that a loop of wakers comes to an end.
const STEPS_MAX: usize = 8 << 20;
/// The memory that a request takes, counted in states.
const REQUEST_STATES: usize = 6;
/// The most nested interrupts that are searched, so that the search ends even if times in the trace go back.
const INSIDE_MAX: usize = 1 << 10;
/// The most spans of a name that are kept: the longest ones.
pub const SPANS_MAX: usize = 1 << 16;

/// The kind of a part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPartKind {
    /// The whole time of the thread: the root of the tree.
    Whole,
    /// The thread ran.
    Running,
    /// The thread's CPU served an interrupt.
    Interrupt(Box<Interrupted>),
    /// The thread waited for a CPU.
    Runnable {
        /// True if a wait was over before; false if another thread had taken its CPU.
        woken: bool,
    },
    /// The thread was blocked.
    Blocked(Box<Wait>),
    /// The thread waited for a request to a disk, or for several of one kind.
    Request(Box<AskedFor>),
    /// One phase of the request for which the thread waited.
    Phase(RequestPhase),
    /// The state of the thread is not known from the trace.
    Unknown,
}

/// An interrupt that a thread's CPU served while the thread ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The kind, `irq` or `softirq`.
    pub kind: &'static str,
    pub number: i32,
    /// The name of the interrupt's driver, or of the softirq; empty if it is unknown.
    pub name: String,
}

/// A request to a disk, or several of one kind, that a thread waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedFor {
    /// The disk's name, or number.
    pub disk: String,
    /// The operation of the request.
    pub kind: RequestKind,
    /// The number of bytes of all requests.
    pub bytes: u64,
    /// The first sector, of 512 bytes each, if this is one request that has a place.
    pub sector: Option<u64>,
}

/// The phase of a request while a thread waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestPhase {
    /// The request did not exist yet, as far as the trace shows.
    Before,
    /// The request was in the disk's queue.
    Queue,
    /// The disk worked on the request.
    Device,
    /// The request was done, and the waiting thread was about to be notified.
    After,
}

/// A part of a critical path. If it has parts itself, their times add up exactly to its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPart {
    /// The thread that spent the time of this part.
    pub label: Label,
    /// True if it is certain that the waiting thread depended on this part. If false, an interrupt may have been
    /// one of the wakers on the path.
    pub is_sure: bool,
    /// The kind of this part.
    pub what: PathPartKind,
    /// The length \[ns\].
    pub nanos: u64,
    /// The number of intervals.
    pub count: u64,
    /// The parts of this part: for a wait, what the waking thread did in that time.
    pub parts: Vec<PathPart>,
}

/// The key by which equal parts are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PathPartKey {
    Running,
    Interrupt(u8, bool, i32),
    Runnable(bool),
    Blocked(Reason, Waker),
    Request(u8, u32, RequestKind),
    Phase(RequestPhase),
    Unknown,
}

/// The number of a part's key, which takes less memory. The keys of blocked states have the highest numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyNumber(u32);

const UNBLOCKED: [PathPartKey; 4] = [
    PathPartKey::Running,
    PathPartKey::Runnable(false),
    PathPartKey::Runnable(true),
    PathPartKey::Unknown,
];

#[derive(Debug)]
struct Keys {
    blocked: Vec<(Reason, Waker)>,
    numbers: HashMap<(Reason, Waker), u32, Mix>,
    /// The most reasons of blocked threads. Beyond that, as many again are kept without their objects.
    most: usize,
}

impl Default for Keys {
    fn default() -> Keys {
        Keys { blocked: Vec::new(), numbers: HashMap::default(), most: KEYS_MAX }
    }
}

impl Keys {
    fn number(&mut self, state: State, waker: Waker) -> KeyNumber {
        let key = match state {
            State::Running { .. } => PathPartKey::Running,
            State::Runnable { woken } => PathPartKey::Runnable(woken),
            State::Unknown | State::Gone => PathPartKey::Unknown,
            State::Blocked(reason) => {
                let nothing = Reason { object: Object::None, ..reason };
                let number = self.blocked(reason, waker, self.most);
                match number.or_else(|| self.blocked(nothing, waker, 2 * self.most)) {
                    Some(number) => return number,
                    None => PathPartKey::Unknown,
                }
            }
        };
        let at = UNBLOCKED.iter().position(|known| *known == key);
        KeyNumber(at.and_then(|at| u32::try_from(at).ok()).unwrap_or(0))
    }

    fn blocked(&mut self, reason: Reason, waker: Waker, most: usize) -> Option<KeyNumber> {
        let first = UNBLOCKED.len();
        if let Some(&number) = self.numbers.get(&(reason, waker)) {
            return Some(KeyNumber(number));
        }
        if self.blocked.len() >= most {
            return None;
        }
        let number = u32::try_from(first + self.blocked.len()).ok()?;
        self.blocked.push((reason, waker));
        self.numbers.insert((reason, waker), number);
        Some(KeyNumber(number))
    }

    fn get(&self, KeyNumber(number): KeyNumber) -> PathPartKey {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let blocked = || self.blocked.get(at.checked_sub(UNBLOCKED.len())?);
        match UNBLOCKED.get(at) {
            Some(&key) => key,
            None => blocked().map_or(PathPartKey::Unknown, |&(reason, waker)| {
                PathPartKey::Blocked(reason, waker)
            }),
        }
    }
}

/// A state of a thread in compact form, since there are millions of them.
#[derive(Clone, Copy, Debug)]
struct StoredState {
    from: i64,
    to: i64,
    key: KeyNumber,
}

/// An interrupt of a thread, or a piece of an interrupt that was itself interrupted. A thread's pieces are in the
/// order of time, and do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoredInterrupt {
    from: i64,
    to: i64,
    number: i32,
    is_softirq: bool,
    /// True if an earlier piece of the same interrupt is kept.
    goes_on: bool,
}

impl StoredInterrupt {
    fn is_of(&self, other: &StoredInterrupt) -> bool {
        (self.is_softirq, self.number) == (other.is_softirq, other.number)
    }
}

/// Adds an interrupt that has just ended, in pieces around the interrupts nested in it. At most `INSIDE_MAX` nested
/// ones are searched.
fn keep(kept: &mut Vec<StoredInterrupt>, of: StoredInterrupt) {
    let inside = kept.iter().rev().take(INSIDE_MAX).take_while(|it| it.from >= of.from).count();
    let inside = kept.split_off(kept.len() - inside);
    let mut at = kept.last().map_or(of.from, |last| last.to.max(of.from));
    let mut goes_on = false;
    for it in inside {
        let to = it.from.min(of.to);
        if to > at {
            kept.push(StoredInterrupt { from: at, to, goes_on, ..of });
            goes_on = true;
        }
        at = at.max(it.to);
        kept.push(it);
    }
    if of.to > at {
        kept.push(StoredInterrupt { from: at, goes_on, ..of });
    }
}

#[derive(Debug, Default)]
struct PartSum {
    thread: Option<ThreadId>,
    key: Option<PathPartKey>,
    nanos: u64,
    count: u64,
    /// The bytes of all requests; `sector` is that of the last one.
    bytes: u64,
    sector: u64,
    parts: Vec<usize>,
    found: HashMap<(ThreadId, PathPartKey), usize, Mix>,
}

/// A span of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramSpan {
    /// The thread that the span ended in.
    pub thread: ThreadId,
    /// The begin \[ns since 1970\].
    pub from: i64,
    /// The end \[ns since 1970\].
    pub to: i64,
}

/// The states, interrupts, requests and spans of a time range, from which critical paths are computed.
#[derive(Debug)]
pub struct History {
    range: TimeRange,
    /// The states of each thread, by [`ThreadId::index`], in the order of time.
    threads: Vec<Vec<StoredState>>,
    /// The interrupts of each thread, by [`ThreadId::index`].
    interrupts: Vec<Vec<StoredInterrupt>>,
    /// The begin and end of the time for which a thread's states are known, by its index.
    known: Vec<Option<(i64, i64)>>,
    keys: Keys,
    /// The requests, by the waiting thread and the begin of its wait.
    requests: HashMap<(ThreadId, i64), DiskRequest>,
    kept: usize,
    kept_max: usize,
    left_out: u64,
    span_name: Option<String>,
    /// The longest spans, by length and then by time.
    longest: BinaryHeap<Reverse<(u64, Reverse<i64>, ThreadId)>>,
    longest_max: usize,
    spans_found: u64,
}

impl History {
    /// Keeps the states within `range`, and the longest spans named `span_name`.
    #[must_use]
    pub fn new(range: TimeRange, span_name: Option<&str>) -> History {
        History {
            range,
            threads: Vec::new(),
            interrupts: Vec::new(),
            known: Vec::new(),
            keys: Keys::default(),
            requests: HashMap::new(),
            kept: 0,
            kept_max: HISTORY_MAX,
            left_out: 0,
            span_name: span_name.map(str::to_owned),
            longest: BinaryHeap::new(),
            longest_max: 1,
            spans_found: 0,
        }
    }

    /// Sets how many of the longest spans are kept.
    #[must_use]
    pub fn with_longest(self, spans: usize) -> History {
        History { longest_max: spans.clamp(1, SPANS_MAX), ..self }
    }

    /// Sets the most states and interrupts that are kept.
    #[must_use]
    pub fn with_room(self, states: usize) -> History {
        History { kept_max: states, ..self }
    }

    /// Keeps the states within the time of a span, for a second pass.
    #[must_use]
    pub fn of(span: &ProgramSpan) -> History {
        History::new(TimeRange { from: span.from, to: span.to }, None)
    }

    /// Returns the number of states and interrupts beyond the limit. If there are any, nothing is kept, and there is no
    /// path.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the span that is number `number` by length, from 1 for the longest, and the number of all spans with
    /// the name.
    #[must_use]
    pub fn longest(&self, number: usize) -> Option<(ProgramSpan, u64)> {
        let mut longest: Vec<_> = self.longest.iter().collect();
        longest.sort_unstable();
        let Reverse((nanos, Reverse(from), thread)) = **longest.get(number.checked_sub(1)?)?;
        let to = from.saturating_add_unsigned(nanos);
        Some((ProgramSpan { thread, from, to }, self.spans_found))
    }

    /// Returns the begin and end of the time for which a thread's states are known \[ns since 1970\].
    #[must_use]
    pub fn known(&self, thread: ThreadId) -> Option<(i64, i64)> {
        *self.known.get(thread.index())?
    }

    /// Returns the critical path of a thread between two times \[ns since 1970\].
    #[must_use]
    pub fn path(&self, world: &World, thread: ThreadId, from: i64, to: i64) -> PathPart {
        self.path_and_steps(world, thread, (from, to)).0
    }

    /// Returns the critical path of a thread, as [`History::path`] does, and subtracts its steps from `left`. Returns
    /// `None` if too few steps are left, or if not all states were kept.
    #[must_use]
    pub fn path_within(
        &self,
        world: &World,
        thread: ThreadId,
        (from, to): (i64, i64),
        left: &mut u64,
    ) -> Option<PathPart> {
        if *left == 0 || self.left_out > 0 {
            return None;
        }
        let (path, steps) = self.path_and_steps(world, thread, (from, to));
        *left = left.saturating_sub(steps as u64);
        Some(path)
    }

    fn path_and_steps(
        &self,
        world: &World,
        thread: ThreadId,
        (from, to): (i64, i64),
    ) -> (PathPart, usize) {
        let mut path =
            CriticalPath { history: self, world, parts: vec![PartSum::default()], steps: 0 };
        path.walk(0, thread, from, to, 0);
        let whole = to.abs_diff(from);
        (path.node(world, 0, (thread, true), PathPartKind::Whole, whole), path.steps)
    }

    /// Reserves room for another state. If there is none, forgets all states and returns false.
    #[inline]
    fn has_room(&mut self) -> bool {
        if self.left_out == 0 && self.kept < self.kept_max {
            self.kept += 1;
            return true;
        }
        // A part of them is of no use.
        self.left_out += 1;
        (self.threads, self.keys) = (Vec::new(), Keys::default());
        (self.interrupts, self.requests) = (Vec::new(), HashMap::new());
        false
    }
}

impl Observer for History {
    fn state(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        if interval.to <= self.range.from || interval.from >= self.range.to {
            return;
        }
        if interval.state == State::Gone {
            return;
        }
        if self.known.len() <= thread.index() {
            self.known.resize(thread.index() + 1, None);
        }
        if let (Some(known), true) =
            (self.known.get_mut(thread.index()), interval.state != State::Unknown)
        {
            let (from, to) = (interval.from.max(self.range.from), interval.to.min(self.range.to));
            *known = Some((known.map_or(from, |(first, _)| first), to));
        }
        if !self.has_room() {
            return;
        }
        let key = self.keys.number(interval.state, interval.waker);
        if self.threads.len() <= thread.index() {
            self.threads.resize_with(thread.index() + 1, Vec::new);
        }
        if let Some(of) = self.threads.get_mut(thread.index()) {
            of.push(StoredState { from: interval.from, to: interval.to, key });
        }
    }

    fn interrupt(
        &mut self,
        _: &World,
        _: u32,
        thread: Option<ThreadId>,
        which: Interrupt,
        from: i64,
        to: i64,
    ) {
        // Nobody waits for an idle CPU.
        let Some(thread) = thread.filter(|&thread| thread != ThreadId::IDLE) else { return };
        if to <= self.range.from || from >= self.range.to || from == to || !self.has_room() {
            return;
        }
        if self.interrupts.len() <= thread.index() {
            self.interrupts.resize_with(thread.index() + 1, Vec::new);
        }
        let (is_softirq, number) = number_of(which);
        if let Some(of) = self.interrupts.get_mut(thread.index()) {
            keep(of, StoredInterrupt { from, to, number, is_softirq, goes_on: false });
        }
    }

    fn timed_out(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        let kept = self.threads.get_mut(thread.index());
        // It is the last but for where it ran, and wanted to, in the call since.
        let wait = kept.and_then(|kept| {
            kept.iter_mut().rev().take_while(|it| it.from >= interval.from).last()
        });
        let wait = wait.filter(|wait| wait.from == interval.from);
        if let Some(wait) = wait {
            wait.key = self.keys.number(interval.state, Waker::Timer);
        }
        // The request was done at that time, and nothing waited for it.
        if self.requests.remove(&(thread, interval.from)).is_some() {
            self.kept -= REQUEST_STATES;
        }
    }

    fn waited_for(&mut self, _: &World, thread: ThreadId, interval: &Interval, of: &DiskRequest) {
        let last = self.threads.get(thread.index()).and_then(|kept| kept.last());
        if last.is_some_and(|last| last.from == interval.from) {
            self.kept += REQUEST_STATES;
            self.requests.insert((thread, interval.from), *of);
        }
    }

    fn span(&mut self, world: &World, span: &Ended) {
        if !span.selected || span.begin < self.range.from || span.end > self.range.to {
            return;
        }
        let Some(wanted) = &self.span_name else { return };
        if world.names.text(span.name) != *wanted {
            return;
        }
        self.spans_found += 1;
        // What a thread waited for is asked of the one in which it ended.
        let Some(thread) = span.thread.or(span.begun_by) else { return };
        self.longest.push(Reverse((span.nanos(), Reverse(span.begin), thread)));
        if self.longest.len() > self.longest_max {
            self.longest.pop();
        }
    }
}

struct CriticalPath<'h> {
    history: &'h History,
    world: &'h World,
    parts: Vec<PartSum>,
    steps: usize,
}

impl CriticalPath<'_> {
    /// Adds the thread's path between two times to a part.
    fn walk(&mut self, part: usize, thread: ThreadId, from: i64, to: i64, depth: usize) {
        let none = Vec::new();
        let known = self.history.threads.get(thread.index()).unwrap_or(&none);
        let mut at = known.partition_point(|it| it.from < to);
        let mut end = to;
        while end > from {
            self.steps += 1;
            let found = at.checked_sub(1).and_then(|before| known.get(before));
            let Some(found) = found.filter(|_| self.steps < STEPS_MAX) else {
                // Before its begin, what was waited for is who began it.
                let born = self.world.threads.get(thread).filter(|it| it.born == Some(end));
                match born.and_then(|thread| thread.parent) {
                    Some(parent) if depth < DEPTH_MAX => {
                        self.walk(part, parent, from, end, depth + 1);
                    }
                    _ => {
                        self.add(part, thread, PathPartKey::Unknown, end.abs_diff(from));
                    }
                }
                return;
            };
            at -= 1;
            // Between what is known: records were discarded, or there was no room.
            if found.to < end {
                let begin = found.to.max(from);
                self.add(part, thread, PathPartKey::Unknown, end.abs_diff(begin));
                end = begin;
                if end <= from {
                    return;
                }
            }
            let begin = found.from.max(from);
            let nanos = end.abs_diff(begin);
            match self.history.keys.get(found.key) {
                PathPartKey::Blocked(reason, waker) => {
                    // What is cut off was not over then.
                    let waker = if end == found.to { waker } else { Waker::Unknown };
                    let below = self.add(part, thread, PathPartKey::Blocked(reason, waker), nanos);
                    if let Waker::Thread { thread: by, .. } = waker {
                        if depth < DEPTH_MAX && by != thread {
                            self.walk(below, by, begin, end, depth + 1);
                        }
                    }
                    let request = self.history.requests.get(&(thread, found.from));
                    if let Some(request) = request.filter(|_| end == found.to) {
                        self.request(below, thread, request, (begin, end));
                    }
                }
                PathPartKey::Running => self.ran(part, thread, (begin, end)),
                // What is kept is what threads did: neither requests nor their parts.
                key => _ = self.add(part, thread, key, nanos),
            }
            end = begin;
        }
    }

    /// Adds a time in which the thread had a CPU: the interrupts in it, and the rest as running.
    fn ran(&mut self, part: usize, thread: ThreadId, (from, to): (i64, i64)) {
        let mut running = to.abs_diff(from);
        let machine = self.world.threads.get(thread).map_or(u8::MAX, |thread| thread.machine);
        let kept = self.history.interrupts.get(thread.index()).map_or(&[][..], Vec::as_slice);
        let first = kept.partition_point(|it| it.to <= from);
        let kept = kept.get(first..).unwrap_or_default();
        for (number, it) in kept.iter().enumerate().take_while(|(_, it)| it.from < to) {
            self.steps += 1;
            if self.steps >= STEPS_MAX {
                break;
            }
            let nanos = it.to.min(to).abs_diff(it.from.max(from));
            running = running.saturating_sub(nanos);
            let key = PathPartKey::Interrupt(machine, it.is_softirq, it.number);
            let at = self.add(part, thread, key, nanos);
            // It is counted where its first part is, of those in this time.
            let before = || kept.iter().take(number).rev().any(|other| other.is_of(it));
            if let Some(of) = self.parts.get_mut(at).filter(|_| it.goes_on && before()) {
                of.count -= 1;
            }
        }
        if running > 0 {
            self.add(part, thread, PathPartKey::Running, running);
        }
    }

    /// Adds a wait for a request between two times to a part of the path, with the request's phases.
    fn request(
        &mut self,
        part: usize,
        thread: ThreadId,
        request: &DiskRequest,
        (from, to): (i64, i64),
    ) {
        let machine = self.world.threads.get(thread).map_or(u8::MAX, |thread| thread.machine);
        let key = PathPartKey::Request(machine, request.device, request.kind);
        let part = self.add(part, thread, key, to.abs_diff(from));
        if let Some(of) = self.parts.get_mut(part) {
            of.bytes = of.bytes.saturating_add(request.bytes);
            of.sector = request.sector;
        }
        // Each begins where the one before ends, within the wait.
        let asked = request.queued.unwrap_or(request.begin);
        let mut at = from;
        for (phase, end) in [
            (RequestPhase::Before, asked),
            (RequestPhase::Queue, request.begin),
            (RequestPhase::Device, request.end),
            (RequestPhase::After, to),
        ] {
            let end = end.clamp(at, to);
            if end > at {
                self.add(part, thread, PathPartKey::Phase(phase), end.abs_diff(at));
            }
            at = end;
        }
    }

    fn add(&mut self, part: usize, thread: ThreadId, key: PathPartKey, nanos: u64) -> usize {
        let next = self.parts.len();
        let Some(of) = self.parts.get_mut(part) else { return part };
        let at = *of.found.entry((thread, key)).or_insert(next);
        if at == next {
            of.parts.push(next);
            self.parts.push(PartSum { thread: Some(thread), key: Some(key), ..PartSum::default() });
        }
        if let Some(of) = self.parts.get_mut(at) {
            of.nanos = of.nanos.saturating_add(nanos);
            of.count += 1;
        }
        at
    }

    /// Returns the part at `at` as a [`PathPart`]. `is_sure`: true if it is certain that the waiting thread depended
    /// on the part.
    fn node(
        &self,
        world: &World,
        at: usize,
        (thread, is_sure): (ThreadId, bool),
        what: PathPartKind,
        nanos: u64,
    ) -> PathPart {
        let is_sure_below = is_sure
            && match &what {
                PathPartKind::Blocked(wait) => wait.is_sure || wait.woken_by.is_none(),
                _ => true,
            };
        let parts = self.parts.get(at).map_or(&[][..], |part| &part.parts);
        let mut parts: Vec<PathPart> = parts
            .iter()
            .filter_map(|&below| {
                let part = self.parts.get(below)?;
                let what = what_of(world, part.thread?, part.key?, part);
                let mut node =
                    self.node(world, below, (part.thread?, is_sure_below), what, part.nanos);
                node.count = part.count;
                Some(node)
            })
            .collect();
        // Of some of these waits the request is known, of the others not.
        let of_requests = parts.iter().filter(|it| matches!(it.what, PathPartKind::Request(_)));
        let (known, requests) =
            of_requests.fold((0, 0), |sum, it| (sum.0 + it.nanos, sum.1 + it.count));
        if requests > 0 && known < nanos {
            let waits = self.parts.get(at).map_or(0, |part| part.count);
            let (label, count) = (Label::thread(world, thread), waits.saturating_sub(requests));
            let (what, nanos) = (PathPartKind::Unknown, nanos - known);
            let is_sure = is_sure_below;
            parts.push(PathPart { label, is_sure, what, nanos, count, parts: Vec::new() });
        }
        parts.sort_by_key(|part| std::cmp::Reverse(part.nanos));
        PathPart { label: Label::thread(world, thread), is_sure, what, nanos, count: 1, parts }
    }
}

fn what_of(world: &World, thread: ThreadId, key: PathPartKey, part: &PartSum) -> PathPartKind {
    match key {
        PathPartKey::Running => PathPartKind::Running,
        PathPartKey::Interrupt(machine, is_softirq, number) => {
            let name = name_of(world, machine, is_softirq, number);
            PathPartKind::Interrupt(Box::new(Interrupted { kind: kind(is_softirq), number, name }))
        }
        PathPartKey::Runnable(woken) => PathPartKind::Runnable { woken },
        PathPartKey::Unknown => PathPartKind::Unknown,
        PathPartKey::Phase(phase) => PathPartKind::Phase(phase),
        PathPartKey::Request(machine, device, kind) => PathPartKind::Request(Box::new(AskedFor {
            disk: world.disk_name(machine, device),
            kind,
            bytes: part.bytes,
            sector: Some(part.sector).filter(|_| part.count == 1 && part.bytes > 0),
        })),
        PathPartKey::Blocked(reason, waker) => {
            PathPartKind::Blocked(Box::new(ended_wait(world, thread, Some(reason), (waker, 1))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_timeline::Sleep;

    #[test]
    fn interrupts_in_each_other_are_kept_as_parts_that_follow_each_other() {
        let kept = |all: &[(i64, i64)]| {
            let mut kept = Vec::new();
            for (number, &(from, to)) in (0..).zip(all) {
                let (is_softirq, goes_on) = (false, false);
                keep(&mut kept, StoredInterrupt { from, to, number, is_softirq, goes_on });
            }
            assert!(kept.len() < 2 * all.len());
            assert!(kept.iter().all(|it| it.from < it.to), "{kept:?}");
            assert!(kept.windows(2).all(|two| two[0].to <= two[1].from), "{kept:?}");
            let line = |it: &StoredInterrupt| {
                format!("{}{} {}..{}", it.number, if it.goes_on { "+" } else { "" }, it.from, it.to)
            };
            kept.iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(kept(&[(10, 20), (20, 25), (30, 40)]), ["0 10..20", "1 20..25", "2 30..40"]);
        assert_eq!(
            kept(&[(5, 6), (12, 15), (10, 20)]),
            ["0 5..6", "2 10..12", "1 12..15", "2+ 15..20"]
        );
        // Two of them, of which one has one in it; one that is all of what is around it; and at its ends.
        let three = [(13, 14), (12, 15), (16, 18), (10, 20)];
        let wanted =
            ["3 10..12", "1 12..13", "0 13..14", "1+ 14..15", "3+ 15..16", "2 16..18", "3+ 18..20"];
        assert_eq!(kept(&three), wanted);
        assert_eq!(kept(&[(10, 20), (10, 20)]), ["0 10..20"]);
        assert_eq!(kept(&[(10, 12), (18, 20), (10, 20)]), ["0 10..12", "2 12..18", "1 18..20"]);
        // Times that go back.
        assert_eq!(kept(&[(10, 20), (15, 30)]), ["0 10..20", "1 20..30"]);
        assert_eq!(kept(&[(10, 20), (5, 8), (15, 18)]), ["1 5..8", "0 10..20"]);
        assert_eq!(kept(&[(10, 20), (30, 40), (5, 15)]), ["2 5..10", "0 10..20", "1 30..40"]);
        let back: Vec<(i64, i64)> = (0..20_000).rev().map(|at| (at * 10, at * 10 + 5)).collect();
        assert!(kept(&back).len() <= INSIDE_MAX + 1);
    }

    #[test]
    fn what_is_one_too_many_is_about_nothing_and_then_not_known() {
        let mut keys = Keys { most: 1, ..Keys::default() };
        let blocked = |object| {
            State::Blocked(Reason {
                sleep: Sleep::Interruptible,
                call: None,
                object,
                is_older: false,
            })
        };
        let mut key = |object, waker| {
            let number = keys.number(blocked(object), waker);
            keys.get(number)
        };
        let first = key(Object::Descriptor(3), Waker::Timer);
        assert!(matches!(
            first,
            PathPartKey::Blocked(Reason { object: Object::Descriptor(3), .. }, _)
        ));
        let second = key(Object::Descriptor(4), Waker::Timer);
        assert!(matches!(
            second,
            PathPartKey::Blocked(Reason { object: Object::None, .. }, Waker::Timer)
        ));
        assert_eq!(key(Object::Descriptor(5), Waker::Timer), second);
        assert_eq!(key(Object::Descriptor(4), Waker::Unknown), PathPartKey::Unknown);
        assert_eq!(key(Object::Descriptor(3), Waker::Timer), first);
    }
}

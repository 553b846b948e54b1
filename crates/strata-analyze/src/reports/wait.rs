//! What a thread waited for, through those who woke it: the critical path, as a tree whose times add up to the whole.
//!
//! From the end back to the begin: where the thread ran, that is it, but for what interrupted it meanwhile. Where it was
//! blocked and a thread ended that, what *that* thread did meanwhile is what was waited for, and so on. Where a disk ended
//! it, that is a request to it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use strata_ctf::read::TimeRange;
use strata_timeline::{
    DiskRequest, Interrupt, Interval, Object, Observer, Reason, RequestKind, Span as Ended, State,
    ThreadId, Waker, World,
};

use super::irq::{kind, name_of, number_of};
use super::label::Label;
use super::threads::{ended_wait, Wait};
use crate::mix::Mix;

/// States and interrupts that are kept, if nobody says how many; 24 bytes each.
pub const HISTORY_MAX: usize = 12 << 20;
/// What threads were blocked in and by whom that was ended, each kept once; what is beyond is about nothing.
const KEYS_MAX: usize = 1 << 20;
/// Threads that wait for each other, one for the next.
const DEPTH_MAX: usize = 32;
/// Steps of one path: a trace with loops of wakers has no more.
const STEPS_MAX: usize = 8 << 20;
/// What a request takes of the room, in states.
const REQUEST_STATES: usize = 6;
/// Interrupts in one that are looked for, so that a trace whose times go back comes to an end.
const INSIDE_MAX: usize = 1 << 10;
/// Of the spans of a name, the longest that are kept.
pub const SPANS_MAX: usize = 1 << 16;

/// What a part of the time went to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPartKind {
    /// The thread itself, all of the time.
    Whole,
    /// It ran.
    Running,
    /// It had its CPU, which was interrupted.
    Interrupt(Box<Interrupted>),
    /// It wanted a CPU.
    Runnable {
        /// A wait was over; otherwise another thread took its CPU.
        woken: bool,
    },
    /// It was blocked.
    Blocked(Box<Wait>),
    /// What it waited for was a request to a disk, or several of one kind.
    Request(Box<AskedFor>),
    /// A part of such a wait.
    Phase(RequestPhase),
    /// The trace does not say.
    Unknown,
}

/// What interrupted a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// `irq`, `softirq`.
    pub kind: &'static str,
    /// Its number.
    pub number: i32,
    /// Who serves it, the softirq's name; empty: not known.
    pub name: String,
}

/// What a disk was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedFor {
    /// The disk's name, or number.
    pub disk: String,
    /// What for.
    pub kind: RequestKind,
    /// How much, all together.
    pub bytes: u64,
    /// Where, in sectors of 512 bytes, if that was one request that is about a place.
    pub sector: Option<u64>,
}

/// What a request was in, while somebody waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestPhase {
    /// Nothing: it was not there yet, as far as the trace says.
    Before,
    /// The disk's queue.
    Queue,
    /// The disk.
    Device,
    /// It was done, and who waited for it was about to be told.
    After,
}

/// A part of the time; the parts in it add up to it exactly, if there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPart {
    /// The thread that the time is of.
    pub label: Label,
    /// That it was waited for: if not, one of those above that woke somebody did so only perhaps.
    pub is_sure: bool,
    /// What it did.
    pub what: PathPartKind,
    /// How long \[ns\].
    pub nanos: u64,
    /// How often.
    pub count: u64,
    /// What it was made of: the thread that was waited for.
    pub parts: Vec<PathPart>,
}

/// The key by which parts are put together.
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

/// A key as it is kept, with those of blocked threads from a number on.
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
    /// Of blocked threads; as many again may be about nothing.
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

/// A state of a thread: there are millions of them.
#[derive(Clone, Copy, Debug)]
struct KeptState {
    from: i64,
    to: i64,
    key: KeyNumber,
}

/// An interrupt of a thread, or a part of one that was interrupted in turn: those of a thread are in the order of time, and
/// none is in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeptInterrupt {
    from: i64,
    to: i64,
    number: i32,
    is_softirq: bool,
    /// It has begun before what is in it.
    goes_on: bool,
}

impl KeptInterrupt {
    fn is_of(&self, other: &KeptInterrupt) -> bool {
        (self.is_softirq, self.number) == (other.is_softirq, other.number)
    }
}

/// Add one that has just ended, when those in it have. Of so many there are less than twice as many parts.
fn keep(kept: &mut Vec<KeptInterrupt>, of: KeptInterrupt) {
    let inside = kept.iter().rev().take(INSIDE_MAX).take_while(|it| it.from >= of.from).count();
    let inside = kept.split_off(kept.len() - inside);
    let mut at = kept.last().map_or(of.from, |last| last.to.max(of.from));
    let mut goes_on = false;
    for it in inside {
        let to = it.from.min(of.to);
        if to > at {
            kept.push(KeptInterrupt { from: at, to, goes_on, ..of });
            goes_on = true;
        }
        at = at.max(it.to);
        kept.push(it);
    }
    if of.to > at {
        kept.push(KeptInterrupt { from: at, goes_on, ..of });
    }
}

#[derive(Debug, Default)]
struct PartSum {
    thread: Option<ThreadId>,
    key: Option<PathPartKey>,
    nanos: u64,
    count: u64,
    /// Of requests: how much, and where the last one was.
    bytes: u64,
    sector: u64,
    parts: Vec<usize>,
    found: HashMap<(ThreadId, PathPartKey), usize, Mix>,
}

/// A span of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramSpan {
    /// The thread that it ended in.
    pub thread: ThreadId,
    /// From when on \[ns since 1970\].
    pub from: i64,
    /// Up to when.
    pub to: i64,
}

/// Keeps what threads did.
#[derive(Debug)]
pub struct History {
    range: TimeRange,
    /// By [`ThreadId::index`]; in the order of time.
    threads: Vec<Vec<KeptState>>,
    /// The same of interrupts.
    interrupts: Vec<Vec<KeptInterrupt>>,
    /// The same: from when on up to when something is known of each.
    known: Vec<Option<(i64, i64)>>,
    keys: Keys,
    /// By whom and since when that was waited for.
    requests: HashMap<(ThreadId, i64), DiskRequest>,
    kept: usize,
    kept_max: usize,
    left_out: u64,
    span_name: Option<String>,
    /// So many of the longest, by length and then by time.
    longest: BinaryHeap<Reverse<(u64, Reverse<i64>, ThreadId)>>,
    longest_max: usize,
    spans_found: u64,
}

impl History {
    /// Of this time, with the spans of this name.
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

    /// The same, with so many of the longest spans.
    #[must_use]
    pub fn with_longest(self, spans: usize) -> History {
        History { longest_max: spans.clamp(1, SPANS_MAX), ..self }
    }

    /// The same, with no more than so many states and interrupts.
    #[must_use]
    pub fn with_room(self, states: usize) -> History {
        History { kept_max: states, ..self }
    }

    /// Of the time of a span, for a second pass: all that its path takes.
    #[must_use]
    pub fn of(span: &ProgramSpan) -> History {
        History::new(TimeRange { from: span.from, to: span.to }, None)
    }

    /// States and interrupts for which there was no room: if there are any, none is kept, and there is no path.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The longest span of the name, or with 2 the next one and so on; and how many there are.
    #[must_use]
    pub fn longest(&self, number: usize) -> Option<(ProgramSpan, u64)> {
        let mut longest: Vec<_> = self.longest.iter().collect();
        longest.sort_unstable();
        let Reverse((nanos, Reverse(from), thread)) = **longest.get(number.checked_sub(1)?)?;
        let to = from.saturating_add_unsigned(nanos);
        Some((ProgramSpan { thread, from, to }, self.spans_found))
    }

    /// The time of which the trace knows what a thread did.
    #[must_use]
    pub fn known(&self, thread: ThreadId) -> Option<(i64, i64)> {
        *self.known.get(thread.index())?
    }

    /// What the thread did from then on up to then.
    #[must_use]
    pub fn path(&self, world: &World, thread: ThreadId, from: i64, to: i64) -> PathPart {
        let mut path =
            CriticalPath { history: self, world, parts: vec![PartSum::default()], steps: 0 };
        path.walk(0, thread, from, to, 0);
        path.node(world, 0, (thread, true), PathPartKind::Whole, to.abs_diff(from))
    }

    /// Whether there is room for one more.
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
            of.push(KeptState { from: interval.from, to: interval.to, key });
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
            keep(of, KeptInterrupt { from, to, number, is_softirq, goes_on: false });
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
    }

    fn waited_for(&mut self, _: &World, thread: ThreadId, interval: &Interval, of: &DiskRequest) {
        let last = self.threads.get(thread.index()).and_then(|kept| kept.last());
        if last.is_some_and(|last| last.from == interval.from) {
            self.kept += REQUEST_STATES;
            self.requests.insert((thread, interval.from), *of);
        }
    }

    fn span(&mut self, world: &World, span: &Ended) {
        if span.begin < self.range.from || span.end > self.range.to {
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
    /// What the thread did is added to a part.
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

    /// The thread had a CPU from then to then: it ran but for what interrupted it.
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

    /// What was waited for was this, from then to then.
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

    /// Of a part; with its thread, and whether that was waited for for sure.
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
                keep(&mut kept, KeptInterrupt { from, to, number, is_softirq, goes_on });
            }
            assert!(kept.len() < 2 * all.len());
            assert!(kept.iter().all(|it| it.from < it.to), "{kept:?}");
            assert!(kept.windows(2).all(|two| two[0].to <= two[1].from), "{kept:?}");
            let line = |it: &KeptInterrupt| {
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
        let blocked =
            |object| State::Blocked(Reason { sleep: Sleep::Interruptible, call: None, object });
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

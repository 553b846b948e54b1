//! Locks: who waited for which, how often and how long, and who ended that.
//!
//! What the kernel knows of locks are futexes: an address at which a thread waits, and another one wakes it. Of a mutex
//! that is who held it; of a condition variable who signalled it; of `pthread_join` the thread that has ended.
//!
//! What a program knows of its own is in the events of `strata record --libc pthread`: the lock that a thread waits for,
//! and who has it. Of such a lock the futexes in it are not told once more.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use strata_ctf::read::TimeRange;
use strata_timeline::{
    Call, CallKind, Interval, Name, Object, Observer, Reason, Span, State, ThreadId, Waker, World,
};

use super::label::Label;
use super::longest::{Kept, Longest};
use super::threads::{device, ended_by, Device};
use super::times::Times;

/// Locks, by thread, that are kept; some 1 KiB each.
const ROWS_MAX: usize = 1 << 15;
/// Who ended waits, of one thread for one lock.
const WAKERS_MAX: usize = 64;

const ETIMEDOUT: u16 = 110;
/// How libc has it: as a number above zero.
const GIVEN_UP: i64 = 110;
/// Operations of futex(); the bits above say whose memory and which clock.
const OPERATION: i64 = 0x7f;
/// Those that wake, or put who waits elsewhere; FUTEX_UNLOCK_PI and FUTEX_CMP_REQUEUE_PI, too.
const WAKES: [i64; 7] = [1, 3, 4, 5, 7, 10, 12];

/// Bytes of the largest lock of libc: somewhere in them are its futexes.
const LOCK_BYTES: u64 = 64;

/// What kind of lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKind {
    /// An address that the kernel was told.
    #[default]
    Futex,
    /// A mutex of libc.
    Mutex,
    /// A lock for readers and writers.
    RwLock,
    /// A condition variable.
    Condition,
}

impl LockKind {
    /// Of a wait of `strata record --libc pthread`.
    fn of(span: &str) -> Option<LockKind> {
        Some(match span.strip_prefix("pthread:")? {
            "mutex_lock" => LockKind::Mutex,
            "rwlock_rdlock" | "rwlock_wrlock" => LockKind::RwLock,
            "cond_wait" => LockKind::Condition,
            _ => return None,
        })
    }

    /// As reports name it, in text and in JSON's `kind`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LockKind::Futex => "futex",
            LockKind::Mutex => "mutex",
            LockKind::RwLock => "rwlock",
            LockKind::Condition => "condition",
        }
    }
}

/// What rows are put together by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A lock of a process.
    #[default]
    Lock,
    /// All locks for which a thread waits.
    Thread,
    /// All locks of a process.
    Process,
}

/// Some waits of one who, or ended by one who.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWaits {
    /// Who; `None`: no thread, or not known.
    pub label: Option<Label>,
    /// Whether the trace says so for sure: if not, it may have been an interrupt.
    pub is_sure: bool,
    /// What else ended them: `timer`.
    pub ended_by: &'static str,
    /// Which device, if it was one.
    pub device: Option<Device>,
    /// Waits that ended so.
    pub count: u64,
    /// How long, all together \[ns\].
    pub total: u64,
    /// The longest \[ns\].
    pub max: u64,
}

/// Waits for a lock, or for several.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The process whose the lock is; the thread that waited, where rows are by that.
    pub label: Label,
    /// What kind of lock.
    pub kind: LockKind,
    /// Where it is; `None`: several.
    pub address: Option<u64>,
    /// How long threads were blocked.
    pub waits: Times,
    /// Calls that waited, those that returned at once, too.
    pub calls: u64,
    /// Of these, those that gave up after the time that they were told.
    pub timeouts: u64,
    /// Calls that woke somebody, or would have.
    pub wakes: u64,
    /// Who waited, by falling time.
    pub waiters: Vec<LockWaits>,
    /// Who ended that: the holder, if it is a lock; by falling time.
    pub wakers: Vec<LockWaits>,
}

/// One of the longest waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Long {
    /// Who waited.
    pub label: Label,
    /// For which lock.
    pub kind: LockKind,
    /// Of the lock, in its process's memory.
    pub address: u64,
    /// From when on \[ns since 1970\].
    pub from: i64,
    /// How long \[ns\].
    pub nanos: u64,
    /// The thread that ended it.
    pub woken_by: Option<Label>,
    /// Whether the trace says so for sure.
    pub is_sure: bool,
    /// What ended it.
    pub ended_by: &'static str,
    /// Which device, if it was one.
    pub device: Option<Device>,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct LocksReport {
    /// By falling time.
    pub rows: Vec<Row>,
    /// By falling time.
    pub longest: Vec<Long>,
    /// More waits of all threads were among the longest of their threads than are kept.
    pub is_cut: bool,
    /// All waits.
    pub all: Times,
    /// Waits for whose row there was no room.
    pub left_out: u64,
}

#[derive(Clone, Debug, Default)]
struct CountedLock {
    waits: Times,
    calls: u64,
    timeouts: u64,
    wakes: u64,
    wakers: HashMap<Waker, (u64, u64, u64)>,
}

/// A lock of some process.
type LockId = (LockKind, u64);

/// A wait of which the call has not returned yet: how it did, tells whether the time was over.
#[derive(Clone, Copy, Debug)]
struct PendingWait {
    lock: LockId,
    from: i64,
    nanos: u64,
    waker: Waker,
}

/// Counts them.
#[derive(Debug)]
pub struct LockCounter {
    range: TimeRange,
    counted: HashMap<(ThreadId, LockId), CountedLock>,
    pending: HashMap<ThreadId, PendingWait>,
    longest: Longest<(ThreadId, LockId, EndedBy)>,
    asked: usize,
    kinds: HashMap<Name, Option<LockKind>>,
    left_out: u64,
}

/// Who ended a wait, to be sorted by: the thread, whether that is sure, or what else.
type EndedBy = (Option<ThreadId>, bool, &'static str, Option<i32>);

fn ended(waker: Waker) -> EndedBy {
    match waker {
        Waker::Thread { thread, is_sure } => (Some(thread), is_sure, "thread", None),
        Waker::Device(number) => (None, false, ended_by(waker), Some(number)),
        _ => (None, false, ended_by(waker), None),
    }
}

impl LockCounter {
    /// In this time, with so many of the longest waits.
    #[must_use]
    pub fn new(range: TimeRange, longest: impl Into<Kept>) -> LockCounter {
        let kept = longest.into();
        LockCounter {
            range,
            counted: HashMap::new(),
            pending: HashMap::new(),
            // Of some there are two: that of the program, and that of the kernel.
            longest: Longest::new(kept.doubled()),
            asked: kept.asked(),
            kinds: HashMap::new(),
            left_out: 0,
        }
    }

    fn counted(&mut self, thread: ThreadId, lock: LockId) -> Option<&mut CountedLock> {
        let key = (thread, lock);
        if self.counted.len() >= ROWS_MAX && !self.counted.contains_key(&key) {
            self.left_out += 1;
            return None;
        }
        Some(self.counted.entry(key).or_default())
    }

    fn waited(&mut self, thread: ThreadId, wait: PendingWait) {
        let PendingWait { lock, from, nanos, waker } = wait;
        self.longest.add(nanos, from, Some(thread), (thread, lock, ended(waker)));
        let Some(counted) = self.counted(thread, lock) else { return };
        counted.waits.add(nanos);
        let is_full = counted.wakers.len() >= WAKERS_MAX && !counted.wakers.contains_key(&waker);
        let waker = if is_full { Waker::Unknown } else { waker };
        let (count, total, max) = counted.wakers.entry(waker).or_default();
        *count += 1;
        *total = total.saturating_add(nanos);
        *max = (*max).max(nanos);
    }

    /// What was counted, of waiters who are wanted.
    #[must_use]
    pub fn finish(
        mut self,
        world: &World,
        by: By,
        is_wanted: &dyn Fn(&Label) -> bool,
    ) -> LocksReport {
        for (thread, wait) in std::mem::take(&mut self.pending) {
            self.waited(thread, wait);
        }
        let mut report = LocksReport { left_out: self.left_out, ..LocksReport::default() };
        let of_programs = self.counted.keys().filter(|(_, (kind, _))| *kind != LockKind::Futex);
        let of_programs: BTreeSet<(ThreadId, u64)> = of_programs
            .map(|&(thread, (_, address))| (world.process_of(thread), address))
            .collect();
        let is_told = |thread: ThreadId, (kind, address): LockId| {
            let process = world.process_of(thread);
            let from = (process, address.saturating_sub(LOCK_BYTES - 1));
            let is_in = of_programs.range(from..=(process, address)).next().is_some();
            kind == LockKind::Futex && is_in
        };
        let mut rows: HashMap<(ThreadId, Option<LockId>), Row> = HashMap::new();
        for ((thread, lock), counted) in self.counted {
            if is_told(thread, lock) {
                continue;
            }
            let label = Label::thread(world, thread);
            if !is_wanted(&label) {
                continue;
            }
            let process = world.process_of(thread);
            let key = match by {
                By::Lock => (process, Some(lock)),
                By::Thread => (thread, None),
                By::Process => (process, None),
            };
            report.all.merge(&counted.waits);
            let row = rows.entry(key).or_default();
            row.kind = row.kind.max(lock.0);
            row.address = key.1.map(|(_, address)| address);
            row.label = match by {
                By::Thread => label.clone(),
                _ => Label::process(world, thread),
            };
            row.waits.merge(&counted.waits);
            row.calls += counted.calls;
            row.timeouts += counted.timeouts;
            row.wakes += counted.wakes;
            let Times { count, total, max, .. } = counted.waits;
            let waiter = LockWaits {
                label: Some(label),
                is_sure: true,
                ended_by: "",
                device: None,
                count,
                total,
                max,
            };
            row.waiters.push(waiter);
            for (waker, (count, total, max)) in counted.wakers {
                let (by, is_sure, ended_by, _) = ended(waker);
                let label = by.map(|by| Label::thread(world, by));
                let device = device(world, thread, waker);
                row.wakers.push(LockWaits { label, is_sure, ended_by, device, count, total, max });
            }
        }
        report.rows = rows.into_values().filter(|row| row.waits.count > 0).collect();
        for row in &mut report.rows {
            join(&mut row.waiters);
            join(&mut row.wakers);
        }
        report.rows.sort_by(|one, other| {
            let by_total = other.waits.total.cmp(&one.waits.total);
            by_total.then_with(|| {
                (&one.label, one.address, one.kind).cmp(&(&other.label, other.address, other.kind))
            })
        });
        let (longest, is_cut) = self.longest.finish_and_tell();
        report.is_cut = is_cut;
        let longest = longest.filter(|(_, _, (thread, lock, _))| !is_told(*thread, *lock));
        let longest = longest.map(|(nanos, from, (thread, (kind, address), ended))| Long {
            label: Label::thread(world, thread),
            kind,
            address,
            from,
            nanos,
            woken_by: ended.0.map(|thread| Label::thread(world, thread)),
            is_sure: ended.1,
            ended_by: ended.2,
            device: ended.3.and_then(|number| device(world, thread, Waker::Device(number))),
        });
        report.longest = longest.filter(|long| is_wanted(&long.label)).take(self.asked).collect();
        report
    }
}

/// Parts of one who are one, by falling time.
fn join(parts: &mut Vec<LockWaits>) {
    parts.retain(|part| part.count > 0);
    // Sorted and not searched: a process may have any number of threads.
    fn who(part: &LockWaits) -> impl Ord + '_ {
        (&part.label, part.ended_by, &part.device, part.is_sure)
    }
    parts.sort_by(|one, other| who(one).cmp(&who(other)));
    parts.dedup_by(|part, known| {
        let is_same = who(part) == who(known);
        if is_same {
            known.count += part.count;
            known.total = known.total.saturating_add(part.total);
            known.max = known.max.max(part.max);
        }
        is_same
    });
    // What is of the same time stays in the order that it has.
    parts.sort_by_key(|part| Reverse(part.total));
}

impl Observer for LockCounter {
    /// A wait for a lock of libc's, which only one that had to wait records.
    fn span(&mut self, world: &World, span: &Span) {
        let kind = self
            .kinds
            .entry(span.name)
            .or_insert_with(|| LockKind::of(&world.names.text(span.name)));
        let (Some(kind), Some(address), Some(thread)) = (*kind, span.address, span.thread) else {
            return;
        };
        let (from, to) = (span.begin.max(self.range.from), span.end.min(self.range.to));
        if from >= to {
            return;
        }
        let is_timeout = span.result == Some(GIVEN_UP);
        // Who had it then still has it.
        let waker = match span.owner {
            _ if is_timeout => Waker::Timer,
            Some(thread) => Waker::Thread { thread, is_sure: true },
            None => Waker::Unknown,
        };
        let lock = (kind, address);
        self.waited(thread, PendingWait { lock, from, nanos: to.abs_diff(from), waker });
        if let Some(counted) = self.counted(thread, lock) {
            counted.calls += 1;
            counted.timeouts += u64::from(is_timeout);
        }
    }

    fn state(&mut self, world: &World, thread: ThreadId, interval: &Interval) {
        let State::Blocked(Reason { call: Some(call), object: Object::Address(address), .. }) =
            interval.state
        else {
            return;
        };
        let (from, to) = (interval.from.max(self.range.from), interval.to.min(self.range.to));
        if from >= to || world.calls.kind(call) != CallKind::Futex {
            return;
        }
        let lock = (LockKind::Futex, address);
        let wait = PendingWait { lock, from, nanos: to.abs_diff(from), waker: interval.waker };
        if let Some(before) = self.pending.insert(thread, wait) {
            self.waited(thread, before);
        }
    }

    fn call(&mut self, world: &World, call: &Call) {
        let Object::Address(address) = call.object else { return };
        let pending = self.pending.remove(&call.thread);
        let is_timeout = call.error() == Some(ETIMEDOUT);
        if let Some(mut wait) = pending {
            if is_timeout && wait.lock.1 == address {
                wait.waker = Waker::Timer;
            }
            self.waited(call.thread, wait);
        }
        if !self.range.contains(call.end) {
            return;
        }
        let operation = call.control.map(|operation| operation & OPERATION);
        let is_wake = match operation {
            Some(operation) => WAKES.contains(&operation),
            None => {
                let name = world.calls.name(call.call);
                name.ends_with("wake") || name.ends_with("requeue")
            }
        };
        let lock = (LockKind::Futex, address);
        let Some(counted) = self.counted(call.thread, lock) else { return };
        counted.calls += u64::from(!is_wake);
        counted.wakes += u64::from(is_wake);
        counted.timeouts += u64::from(is_timeout);
    }
}

//! The report on locks: which threads waited for which lock, how often and how long, and what ended the waits.
//!
//! The kernel sees locks as futexes: an address at which one thread waits until another one wakes it. For a mutex the
//! waker is the thread that held it; for a condition variable, the one that signalled it; for `pthread_join`, the one
//! that ended.
//!
//! The events of `strata record --libc pthread` are the program's own view: the lock that a thread waits for, and the
//! thread that holds it. The futexes within such a lock are not reported again.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use strata_ctf::read::TimeRange;
use strata_timeline::{Call, Interval, Object, Observer, Span, ThreadId, Waker, World};

use super::lock_holders::Holders;
use super::lock_names::LockNames;
pub use super::lock_waits::LockKind;
use super::lock_waits::{LockId, LockWait, LockWaitFinder, LOCK_BYTES};
use super::longest::{Longest, LongestLimit};
use super::threads::{device, ended_by, Device};
use strata_report::Label;
use strata_report::Times;

/// The most pairs of lock and thread that are kept; each takes some 1 KiB.
const ROWS_MAX: usize = 1 << 15;
/// The greatest number of wakers that are kept for one thread and one lock.
const WAKERS_MAX: usize = 64;

/// The bits that hold the operation in a futex call. The bits above them choose between shared and private memory,
/// and the clock.
const OPERATION: i64 = 0x7f;
/// Operations that wake waiters or move them to another futex, including FUTEX_UNLOCK_PI and FUTEX_CMP_REQUEUE_PI.
const WAKES: [i64; 7] = [1, 3, 4, 5, 7, 10, 12];

/// The choice of what one row of the report stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A row has one lock of a process.
    #[default]
    Lock,
    /// A row has all locks that a thread waited for.
    Thread,
    /// A row has all locks of a process.
    Process,
}

/// The waits of one thread, or those that one thread or device ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWaits {
    /// The thread; `None` if it is unknown, or the waits were ended by something else.
    pub label: Option<Label>,
    /// True if the trace is certain about the waker. If false, an interrupt may have woken the waiter instead.
    pub is_sure: bool,
    /// The kind of waker if it is not a thread, such as `timer`.
    pub ended_by: &'static str,
    /// The device that woke the waiter, if one did.
    pub device: Option<Device>,
    /// The number of these waits.
    pub count: u64,
    /// The total time of these waits \[ns\].
    pub total: u64,
    /// The longest of these waits \[ns\].
    pub max: u64,
}

impl LockWaits {
    /// Makes waits of a thread about which the trace is certain, from their number, total time and longest time \[ns\].
    fn of(label: Option<Label>, (count, total, max): (u64, u64, u64)) -> LockWaits {
        LockWaits { label, is_sure: true, ended_by: "", device: None, count, total, max }
    }
}

/// The waits for one lock or for several.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The process that has the lock, or the thread that waited if rows are by thread.
    pub label: Label,
    pub kind: LockKind,
    /// The lock's address; `None` if the row has several locks.
    pub address: Option<u64>,
    /// The name of the variable at the lock's address, if it was looked up and is known.
    pub variable: Option<String>,
    /// The times for which threads were blocked.
    pub waits: Times,
    /// The number of calls that could wait, including those that returned at once.
    pub calls: u64,
    /// The number of waits that timed out.
    pub timeouts: u64,
    /// The number of calls that wake waiters, including those that found none.
    pub wakes: u64,
    /// The waiting threads, by falling time.
    pub waiters: Vec<LockWaits>,
    /// The threads, devices and timers that ended the waits, by falling time.
    pub wakers: Vec<LockWaits>,
    /// The threads that held the lock while others waited, by falling time; empty unless the futex is a mutex.
    /// These may be other threads than those that ended the waits.
    pub holders: Vec<LockWaits>,
    /// The total time of the waits that timed out \[ns\].
    pub timed_out: u64,
}

impl Row {
    /// Returns the total time of the waits that did not time out \[ns\].
    #[must_use]
    pub fn for_others(&self) -> u64 {
        self.waits.total.saturating_sub(self.timed_out)
    }
}

/// One of the longest waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Long {
    /// The waiting thread.
    pub label: Label,
    /// The kind of the lock.
    pub kind: LockKind,
    /// The lock's address in the memory of its process.
    pub address: u64,
    /// The name of the variable at the lock's address, if it was looked up and is known.
    pub variable: Option<String>,
    /// The begin of the wait \[ns since 1970\].
    pub from: i64,
    /// The length of the wait \[ns\].
    pub nanos: u64,
    /// The thread that ended the wait.
    pub woken_by: Option<Label>,
    /// True if the trace is certain about the thread that ended the wait.
    pub is_sure: bool,
    /// The kind of waker, if it is not a thread.
    pub ended_by: &'static str,
    /// The device that woke the waiter, if one did.
    pub device: Option<Device>,
}

#[derive(Clone, Debug, Default)]
pub struct LocksReport {
    /// The rows, by falling time of the waits that did not time out, then by falling total time.
    pub rows: Vec<Row>,
    /// The longest waits, by falling time.
    pub longest: Vec<Long>,
    /// True if some of the longest waits of a thread are missing, because of the limit over all threads.
    pub is_cut: bool,
    /// The sum of all waits.
    pub all: Times,
    /// The number of waits for whose row there was no room.
    pub left_out: u64,
}

#[derive(Clone, Debug, Default)]
struct CountedLock {
    waits: Times,
    calls: u64,
    timeouts: u64,
    wakes: u64,
    wakers: HashMap<Waker, (u64, u64, u64)>,
    holders: HashMap<Option<ThreadId>, (u64, u64, u64)>,
}

/// Adds a wait, or a part of one, to the sums under `key`, or to those under `other` if there is no room for another
/// key.
fn add<K: Copy + Eq + std::hash::Hash>(
    sums: &mut HashMap<K, (u64, u64, u64)>,
    key: K,
    other: K,
    nanos: u64,
) {
    let is_full = sums.len() >= WAKERS_MAX && !sums.contains_key(&key);
    let (count, total, max) = sums.entry(if is_full { other } else { key }).or_default();
    *count += 1;
    *total = total.saturating_add(nanos);
    *max = (*max).max(nanos);
}

/// Counts waits for locks, by lock, thread and waker.
#[derive(Debug)]
pub struct LockCounter {
    range: TimeRange,
    counted: HashMap<(ThreadId, LockId), CountedLock>,
    finder: LockWaitFinder,
    longest: Longest<(ThreadId, LockId, EndedBy)>,
    asked: usize,
    holders: Holders,
    left_out: u64,
}

/// The waker of a wait in a form that can be sorted: thread, certainty, kind if it is no thread, and number of the
/// device.
type EndedBy = (Option<ThreadId>, bool, &'static str, Option<i32>);

fn ended(waker: Waker) -> EndedBy {
    match waker {
        Waker::Thread { thread, is_sure } => (Some(thread), is_sure, "thread", None),
        Waker::Device(number) => (None, false, ended_by(waker), Some(number)),
        _ => (None, false, ended_by(waker), None),
    }
}

impl LockCounter {
    /// Makes a counter for `range` that keeps the `longest` longest waits.
    #[must_use]
    pub fn new(range: TimeRange, longest: impl Into<LongestLimit>) -> LockCounter {
        let kept = longest.into();
        LockCounter {
            range,
            counted: HashMap::new(),
            finder: LockWaitFinder::new(range),
            // Of some there are two: that of the program, and that of the kernel.
            longest: Longest::new(kept.doubled()),
            asked: kept.asked(),
            holders: Holders::default(),
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

    fn waited(&mut self, world: &World, wait: LockWait) {
        let LockWait { thread, lock, from, nanos, waker, is_mutex } = wait;
        let had = match waker {
            Waker::Thread { thread: by, .. } if is_mutex => {
                let time = (from, from.saturating_add_unsigned(nanos));
                self.holders.waited(world, lock.1, thread, time, Some(by))
            }
            _ => Vec::new(),
        };
        self.longest.add(nanos, from, Some(thread), (thread, lock, ended(waker)));
        let Some(counted) = self.counted(thread, lock) else { return };
        counted.waits.add(nanos);
        add(&mut counted.wakers, waker, Waker::Unknown, nanos);
        for (holder, nanos) in had {
            add(&mut counted.holders, holder, None, nanos);
        }
    }

    /// Returns the report, with waiters that `is_wanted` accepts.
    #[must_use]
    pub fn finish(
        mut self,
        world: &World,
        by: By,
        is_wanted: &dyn Fn(&Label) -> bool,
    ) -> LocksReport {
        for wait in self.finder.finish() {
            self.waited(world, wait);
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
            let waiter = LockWaits::of(Some(label), (count, total, max));
            row.waiters.push(waiter);
            for (holder, times) in counted.holders {
                let label = holder.map(|holder| Label::thread(world, holder));
                let known = LockWaits::of(label, times);
                row.holders.push(known);
            }
            for (waker, (count, total, max)) in counted.wakers {
                if waker == Waker::Timer {
                    row.timed_out = row.timed_out.saturating_add(total);
                }
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
            join(&mut row.holders);
        }
        report.rows.sort_by(|one, other| {
            let times = |row: &Row| (row.for_others(), row.waits.total);
            let by_total = times(other).cmp(&times(one));
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
            variable: None,
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

/// Merges the entries of the same waker or thread, and sorts them by falling time.
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

impl LocksReport {
    /// Looks up the names of the locks in the first `rows` rows, and of the longest waits' locks.
    pub fn name_locks(&mut self, world: &World, names: &mut LockNames, rows: usize) {
        for row in self.rows.iter_mut().take(rows) {
            let place = row.label.home.zip(row.address);
            row.variable = place.and_then(|(home, address)| names.name(world, home, address));
        }
        for long in &mut self.longest {
            let home = long.label.home;
            long.variable = home.and_then(|home| names.name(world, home, long.address));
        }
    }
}

impl Observer for LockCounter {
    fn span(&mut self, world: &World, span: &Span) {
        let Some((wait, is_timeout)) = self.finder.span(world, span) else { return };
        self.waited(world, wait);
        if let Some(counted) = self.counted(wait.thread, wait.lock) {
            counted.calls += 1;
            counted.timeouts += u64::from(is_timeout);
        }
    }

    fn state(&mut self, world: &World, thread: ThreadId, interval: &Interval) {
        if let Some(before) = self.finder.state(world, thread, interval) {
            self.waited(world, before);
        }
    }

    fn call(&mut self, world: &World, call: &Call) {
        let Object::Address(address) = call.object else { return };
        let (wait, is_timeout) = self.finder.call(call, address);
        if let Some(wait) = wait {
            self.waited(world, wait);
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

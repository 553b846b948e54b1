//! Waits for locks of the kernel itself, by its own records of contention (Linux 5.19 and later).
//!
//! A thread that gets a lock at once makes no record. One that has to wait for a mutex may first spin and then sleep, which
//! are two records of the begin and one of the end.

use std::collections::HashMap;

use crate::fast_hash::Mix;
use strata_ctf::read::{Event, FieldRef, Scope, TimeRange};
use strata_report::{Label, Times};
use strata_timeline::{is_kernel, kernel_name, Observer, ThreadId, World};

/// The most waits for locks of the kernel that may be open at one time.
const WAITS_MAX: usize = 1 << 14;
/// The most pairs of lock and thread, some 1 KiB each.
const ROWS_MAX: usize = 1 << 14;

/// Flags of a lock in records of the kernel.
const SPIN: i64 = 1;
const READ: i64 = 1 << 1;
const WRITE: i64 = 1 << 2;
const RT: i64 = 1 << 3;
const PERCPU: i64 = 1 << 4;
const MUTEX: i64 = 1 << 5;

/// Returns the name of a kind of lock by the kernel's flags, as perf has it.
#[must_use]
pub fn lock_kind(flags: i64) -> &'static str {
    match (flags & (RT | PERCPU | MUTEX), flags & SPIN != 0, flags & (READ | WRITE)) {
        (MUTEX, ..) => "mutex",
        (RT, _, READ) => "rwlock-rt:R",
        (RT, _, WRITE) => "rwlock-rt:W",
        (RT, ..) => "rt-mutex",
        (PERCPU, _, READ) => "pcpu-sem:R",
        (PERCPU, _, WRITE) => "pcpu-sem:W",
        (_, true, READ) => "rwlock:R",
        (_, true, WRITE) => "rwlock:W",
        (_, true, _) => "spinlock",
        (_, false, READ) => "rwsem:R",
        (_, false, WRITE) => "rwsem:W",
        _ => "semaphore",
    }
}

/// The waits of one thread for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelWaiter {
    /// The thread, or the one that was interrupted; `None` if it is unknown.
    pub label: Option<Label>,
    pub count: u64,
    /// The total time of the waits \[ns\].
    pub total: u64,
    /// The longest wait \[ns\].
    pub max: u64,
}

/// The waits for one lock of the kernel.
#[derive(Clone, Debug, Default)]
pub struct KernelLock {
    /// The name of the machine, if the traces are of several.
    pub machine: Option<String>,
    /// The kind, as [`lock_kind`] names it.
    pub kind: &'static str,
    /// The lock's address in the kernel.
    pub address: u64,
    pub waits: Times,
    /// The waiting threads, by falling time.
    pub waiters: Vec<KernelWaiter>,
}

#[derive(Clone, Debug, Default)]
pub struct KernelLocksReport {
    /// The locks, by falling time.
    pub rows: Vec<KernelLock>,
    /// The sum of all waits.
    pub all: Times,
    /// Waits of which only one end is in the traces, and those for which there was no room.
    pub incomplete: u64,
}

#[derive(Clone, Debug)]
enum LockEvent {
    Nothing,
    Begins { lock: FieldRef, flags: Option<FieldRef> },
    Ends { lock: FieldRef },
}

impl LockEvent {
    /// Determines whether records of a class are about locks of the kernel. A program may give its own events the
    /// same names.
    fn of(event: &Event<'_>) -> LockEvent {
        if !is_kernel(event.stream().trace().schema()) {
            return LockEvent::Nothing;
        }
        let class = event.class();
        let find = |name: &str| class.find_in(Scope::Payload, name);
        match (kernel_name(class.name()), find("lock_addr")) {
            ("contention_begin", Some(lock)) => LockEvent::Begins { lock, flags: find("flags") },
            ("contention_end", Some(lock)) => LockEvent::Ends { lock },
            _ => LockEvent::Nothing,
        }
    }
}

/// A wait for a lock, by machine, thread and address. For idle threads, of which each CPU has one, also by the CPU;
/// otherwise 0.
type WaitKey = (u8, Option<ThreadId>, u64, u32);

fn wait_key(world: &World, event: &Event<'_>, who: Option<ThreadId>, lock: u64) -> WaitKey {
    let cpu = match who {
        None | Some(ThreadId::IDLE) => {
            event.packet().cpu.and_then(|cpu| u32::try_from(cpu).ok()).unwrap_or(0)
        }
        // It may go on on another CPU.
        Some(_) => 0,
    };
    (world.told.machine, who, lock, cpu)
}

/// Counts waits for locks of the kernel.
#[derive(Debug)]
pub struct KernelLockCounter {
    range: TimeRange,
    kinds: Vec<Option<LockEvent>>,
    /// The waits that have not ended, each with its begin \[ns since 1970\] and flags.
    waits: HashMap<WaitKey, (i64, i64), Mix>,
    rows: HashMap<(u8, Option<ThreadId>, u64, &'static str), Times>,
    incomplete: u64,
}

impl KernelLockCounter {
    /// Makes a counter for waits that end within `range`.
    #[must_use]
    pub fn new(range: TimeRange) -> KernelLockCounter {
        KernelLockCounter {
            range,
            kinds: Vec::new(),
            waits: HashMap::default(),
            rows: HashMap::new(),
            incomplete: 0,
        }
    }

    fn apply(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>, kind: &LockEvent) {
        let Some(time) = event.time() else { return };
        let address = |field: &FieldRef| event.integer(field).map(|address| address as u64);
        match kind {
            LockEvent::Nothing => {}
            LockEvent::Begins { lock, flags } => {
                let Some(lock) = address(lock) else { return };
                let flags = flags.as_ref().and_then(|flags| event.integer(flags)).unwrap_or(0);
                let key = wait_key(world, event, who, lock);
                if let Some((begin, before)) = self.waits.get_mut(&key) {
                    // A thread spins for a mutex and then sleeps, perhaps several times. A wait for any other lock has
                    // ended unseen.
                    if flags & *before & MUTEX == 0 {
                        *begin = time;
                        self.incomplete += 1;
                    }
                    *before = flags;
                } else if self.waits.len() < WAITS_MAX {
                    self.waits.insert(key, (time, flags));
                } else {
                    self.incomplete += 1;
                }
            }
            LockEvent::Ends { lock } => {
                let Some(lock) = address(lock) else { return };
                let key = wait_key(world, event, who, lock);
                let is_in = self.range.contains(time);
                let Some((begin, flags)) = self.waits.remove(&key) else {
                    self.incomplete += u64::from(is_in);
                    return;
                };
                let row = (key.0, who, lock, lock_kind(flags));
                let has_room = self.rows.len() < ROWS_MAX || self.rows.contains_key(&row);
                match is_in && has_room {
                    true => self.rows.entry(row).or_default().add(time.abs_diff(begin)),
                    false => self.incomplete += u64::from(is_in),
                }
            }
        }
    }

    /// Returns the report, with waits of threads that `is_wanted` accepts.
    #[must_use]
    pub fn finish(
        self,
        world: &World,
        is_wanted: &dyn Fn(Option<&Label>) -> bool,
    ) -> KernelLocksReport {
        let many = world.machines.len() > 1;
        let at_end = self.waits.values().filter(|(begin, _)| self.range.contains(*begin)).count();
        let incomplete = self.incomplete.saturating_add(at_end as u64);
        let mut report = KernelLocksReport { incomplete, ..KernelLocksReport::default() };
        let mut rows: HashMap<(u8, u64, &'static str), KernelLock> = HashMap::new();
        for ((machine, who, address, kind), waits) in self.rows {
            let label = who.map(|thread| Label::thread(world, thread));
            if !is_wanted(label.as_ref()) {
                continue;
            }
            report.all.merge(&waits);
            let row = rows.entry((machine, address, kind)).or_default();
            row.machine = world.machines.get(usize::from(machine)).filter(|_| many).cloned();
            (row.kind, row.address) = (kind, address);
            row.waits.merge(&waits);
            let Times { count, total, max, .. } = waits;
            row.waiters.push(KernelWaiter { label, count, total, max });
        }
        report.rows = rows.into_values().collect();
        for row in &mut report.rows {
            row.waiters.sort_by(|one, other| {
                other.total.cmp(&one.total).then_with(|| one.label.cmp(&other.label))
            });
        }
        report.rows.sort_by(|one, other| {
            let key = |row: &KernelLock| (row.machine.clone(), row.address, row.kind);
            other.waits.total.cmp(&one.waits.total).then_with(|| key(one).cmp(&key(other)))
        });
        report
    }
}

impl Observer for KernelLockCounter {
    const STATES: bool = false;
    const CALLS: bool = false;
    const INTERRUPTS: bool = false;
    const RECORDS: bool = true;

    fn record(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>, _: bool) {
        let class = event.class();
        if class.index() >= self.kinds.len() {
            self.kinds.resize_with(class.index() + 1, || None);
        }
        let Some(place) = self.kinds.get_mut(class.index()) else { return };
        match place.get_or_insert_with(|| LockEvent::of(event)) {
            LockEvent::Nothing => {}
            kind => {
                let kind = kind.clone();
                self.apply(world, event, who, &kind);
            }
        }
    }
}

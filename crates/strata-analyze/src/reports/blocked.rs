//! The waits of programs, those that delay them most first; waits for work are counted separately.
//!
//! A server that has nothing to do is blocked all the time, so the longest sums of a trace are those of its idle
//! threads. A wait is *for work* if something outside the program ends it: poll() and similar calls, accept(), a read
//! of a socket that the other end has connected, a timer. All other waits are grouped by program, call and object,
//! and ordered by [`Blocked::hurt`].
//!
//! ```text
//! state: blocked ── row of (program, call, object, what ended it) ── kind: WaitKind ── hurt ── rows, worst first
//!                      lengths, threads, unusual ones                    └ Work: counted, and not in the list
//! ```
//!
//! `hurt` is a row's longest wait, or a sixteenth of its total if that is more; up to twice as much if the longest wait
//! is far longer than the median. Where the wait may be one for work, it is divided by [`PERHAPS_WORK`], or by
//! [`MOSTLY_WORK`] if the row's threads spend most of their blocked time in it.
//!
//! Threads of language runtimes that stop all others (garbage collectors) are known by the begin of their names
//! ([`RUNTIMES`]): a wait that one of them ends is a pause of the runtime, not a lock of the program.
//!
//! `strata analyze summary` shows these rows, with the command that explains the first one.
//! docs/design/planted-causes.md has what they say about servers in which a cause was planted.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use strata_ctf::read::TimeRange;
use strata_timeline::{
    Call, CallId, CallKind, Interval, Moves, NameKind, Object, Observer, Reason, Sleep, State,
    ThreadId, Waker, World,
};

use crate::fast_hash::Mix;

use super::lock_holders::Holders;
use super::lock_names::LockNames;
use super::threads::{ended_by, join_waits, wait, Wait, Waited};
use strata_report::Label;
use strata_report::Times;

/// The most rows of the report while the trace is read. Waits beyond the limit are counted without their objects.
const ROWS_MAX: usize = 1 << 15;
/// The most threads of a row that are distinguished.
const THREADS_MAX: usize = 1 << 10;
/// A wait is unusual if it is longer than this many times the median.
const FAR: u64 = 10;
/// The divisor of a row's total time, for comparing it with the longest single wait: the greater of the two decides
/// the row's place.
const TOTAL_PART: u64 = 16;
/// The divisor by which a wait counts less if it may be a wait for work.
const PERHAPS_WORK: u64 = 16;
/// The divisor for a wait that very likely is a wait for work, because its threads spend most of their blocked
/// time in it.
const MOSTLY_WORK: u64 = 256;

/// Threads of language runtimes that stop all other threads of their program: the begin of their name, and the reason.
const RUNTIMES: [(&str, &str); 8] = [
    ("VM Thread", "safepoints of the JVM, such as garbage collections"),
    ("GC Thread#", "garbage collection of the JVM"),
    ("G1 ", "garbage collection of the JVM"),
    ("ZWorker", "garbage collection of the JVM"),
    ("Shenandoah", "garbage collection of the JVM"),
    (".NET Server GC", "garbage collection of .NET"),
    (".NET BGC", "garbage collection of .NET"),
    ("SGen worker", "garbage collection of Mono"),
];

/// Returns the reason why a thread of this name stops the others of its program; `None` if it is no such thread of a
/// language runtime.
#[must_use]
pub fn runtime_of(thread: &str) -> Option<&'static str> {
    RUNTIMES.iter().find_map(|(begin, what)| thread.starts_with(begin).then_some(*what))
}

/// The kind of a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitKind {
    /// A wait for work. It is ended from outside of the program, or by a timer.
    Work,
    /// A wait for a mutex.
    Mutex,
    /// A pause that the program's runtime makes.
    Pause,
    /// A wait for an answer on a socket that this end has connected.
    Answer,
    /// A wait that a disk ended.
    Disk,
    /// A page fault for which the thread had to wait.
    Fault,
    /// A wait for a signal by another process of the same program, in a thread that has read a request and not yet
    /// answered: it waits for something that the other process had.
    Signal,
    /// A sleep of a thread that serves others, which therefore wait for it as well.
    Sleep,
    /// A wait for another thread, by a condition variable, a pipe or the thread's end. It may be a wait for work.
    Thread,
    /// Any other kind of wait.
    #[default]
    Other,
}

impl WaitKind {
    /// Returns the kind's name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            WaitKind::Work => "work",
            WaitKind::Mutex => "mutex",
            WaitKind::Pause => "pause",
            WaitKind::Answer => "answer",
            WaitKind::Disk => "disk",
            WaitKind::Fault => "fault",
            WaitKind::Signal => "signal",
            WaitKind::Sleep => "sleep",
            WaitKind::Thread => "thread",
            WaitKind::Other => "other",
        }
    }
}

/// A row: the waits of a program in one system call for one object.
#[derive(Clone, Debug, Default)]
pub struct Blocked {
    /// The process that waited; without a number if several processes of one name did.
    pub label: Label,
    /// The number of threads that waited. Threads beyond a limit are not counted.
    pub threads: usize,
    /// The kind of all these waits.
    pub kind: WaitKind,
    /// The call, the object and what ended the waits; for a mutex, the thread that held it.
    pub wait: Wait,
    /// The lengths of these waits.
    pub times: Times,
    /// True if the row's threads spend most of their blocked time in this wait.
    pub is_usual: bool,
    /// The number of the thread with the longest of these waits.
    pub longest: Option<i32>,
    /// The address of a futex, and a thread that waited for it.
    pub address: Option<(ThreadId, u64)>,
    /// The name of the variable at the futex' address, if it was looked up and is known.
    pub variable: Option<String>,
}

impl Blocked {
    /// Returns the median length \[ns\].
    #[must_use]
    pub fn median(&self) -> u64 {
        self.times.quantile(0.5)
    }

    /// Returns the number of waits that were longer than ten times the median.
    #[must_use]
    pub fn far(&self) -> u64 {
        let limit = self.median().saturating_mul(FAR);
        let above = self.times.spread.buckets().filter(|&(first, ..)| first > limit);
        above.map(|(_, _, count)| count).fold(0, u64::saturating_add)
    }

    /// Returns how much the waits delay the program \[ns\]: the longest wait or a sixteenth of the total, whichever is
    /// more, and up to twice that if the longest is far from the median. A wait that may be for work counts a sixteenth
    /// of that, or less if its threads spend most of their blocked time in it.
    #[must_use]
    pub fn hurt(&self) -> u64 {
        let most = self.times.max.max(self.times.total / TOTAL_PART);
        let times_median = self.times.max / self.median().max(1);
        // Nothing more at the usual, twice from ten times the usual on.
        let far = most / 9 * times_median.clamp(1, FAR).saturating_sub(1);
        let whole = most.saturating_add(far.min(most));
        match self.kind {
            WaitKind::Thread if self.is_usual => whole / MOSTLY_WORK,
            WaitKind::Thread => whole / PERHAPS_WORK,
            _ => whole,
        }
    }
}

impl BlockedReport {
    /// Looks up the names of the locks in the first `rows` rows.
    pub fn name_locks(&mut self, world: &World, names: &mut LockNames, rows: usize) {
        for row in self.rows.iter_mut().take(rows) {
            let name = |(thread, address)| names.name(world, thread, address);
            row.variable = row.address.and_then(name);
        }
    }
}

/// The waits for work, summed up by system call.
#[derive(Clone, Debug, Default)]
pub struct Idle {
    /// The number of threads that waited for work.
    pub threads: usize,
    /// The sum of these waits \[ns\].
    pub total: u64,
    /// The calls and their sums \[ns\], by falling sum. An empty name stands for waits in no call that the trace has.
    pub calls: Vec<(String, u64)>,
}

/// The report on blocked threads.
#[derive(Clone, Debug, Default)]
pub struct BlockedReport {
    /// The rows, the greatest [`Blocked::hurt`] first.
    pub rows: Vec<Blocked>,
    /// The waits for work.
    pub idle: Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RowKey {
    process: ThreadId,
    /// The thread, for sleeps only: whether other threads wait for a sleeping thread is known only at the end.
    thread: Option<ThreadId>,
    kind: WaitKind,
    reason: Reason,
}

#[derive(Clone, Debug)]
struct RowSum {
    times: Times,
    waited: Waited,
    /// The threads that waited, with their total times \[ns\].
    threads: HashMap<ThreadId, u64, Mix>,
    /// One of the threads that waited.
    waiter: ThreadId,
}

/// A row of the report that is being built.
#[derive(Clone, Debug, Default)]
struct FoundRow {
    row: Blocked,
    processes: HashSet<ThreadId>,
    waits: Vec<Wait>,
    /// The time in this wait of threads that spend most of their blocked time in it \[ns\].
    usual: u64,
}

/// A wait whose system call has not returned yet. The call's result may change the kind of the wait.
#[derive(Clone, Copy, Debug)]
struct PendingWait {
    reason: Reason,
    from: i64,
    to: i64,
    waker: Waker,
    is_mutex: bool,
    /// True if another process of the program ended the wait by a signal, while the thread had read a request and not
    /// answered.
    is_by_signal: bool,
}

/// Facts about a thread that are needed when one of its system calls ends.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadNotes {
    /// True if the thread receives work from outside. Other threads wait while it sleeps.
    serves: bool,
    /// True if the thread has read from a socket and has not written to any socket since.
    is_asked: bool,
    /// True if a wait of the thread is among the pending ones.
    has_waited: bool,
}

/// Counts waits while a trace is read.
#[derive(Clone, Debug)]
pub struct BlockedCounter {
    range: TimeRange,
    pending: HashMap<ThreadId, PendingWait, Mix>,
    rows: HashMap<RowKey, RowSum, Mix>,
    /// Facts about each thread, by [`ThreadId::index`].
    threads: Vec<ThreadNotes>,
    idle: HashMap<(ThreadId, Option<CallId>), u64, Mix>,
    /// The total time for which each thread was blocked \[ns\].
    whole: HashMap<ThreadId, u64, Mix>,
    holders: Holders,
}

impl BlockedCounter {
    /// Makes a counter for the waits within `range`.
    #[must_use]
    pub fn new(range: TimeRange) -> BlockedCounter {
        BlockedCounter {
            range,
            pending: HashMap::default(),
            rows: HashMap::default(),
            threads: Vec::new(),
            idle: HashMap::default(),
            whole: HashMap::default(),
            holders: Holders::default(),
        }
    }

    /// Returns the facts about a thread, for changing them.
    #[inline]
    fn notes(&mut self, thread: ThreadId) -> &mut ThreadNotes {
        let at = thread.index();
        if self.threads.len() <= at {
            self.threads.resize(at + 1, ThreadNotes::default());
        }
        &mut self.threads[at]
    }

    /// Counts a finished wait.
    fn count(&mut self, world: &World, thread: ThreadId, pending: PendingWait) {
        let PendingWait { mut reason, from, to, waker, is_mutex, is_by_signal } = pending;
        reason.object = world.object(thread, reason.object);
        let mut enders = vec![(waker, to.abs_diff(from))];
        let ended_by = match waker {
            Waker::Thread { thread, .. } => Some(thread),
            _ => None,
        };
        if let (true, Object::Address(address)) = (is_mutex, reason.object) {
            let had = self.holders.waited(world, address, thread, (from, to), ended_by);
            let part = |(holder, nanos): (Option<ThreadId>, u64)| match holder {
                Some(thread) => (Waker::Thread { thread, is_sure: true }, nanos),
                None => (Waker::Unknown, nanos),
            };
            // What no thread has ended is as it was told.
            if ended_by.is_some() {
                enders = had.into_iter().map(part).collect();
            }
        }
        let (from, to) = (from.max(self.range.from), to.min(self.range.to));
        if from >= to {
            return;
        }
        let nanos = to.abs_diff(from);
        let whole = self.whole.entry(thread).or_default();
        *whole = whole.saturating_add(nanos);
        let kind = match kind_of(world, &reason, waker, is_mutex) {
            WaitKind::Work if is_by_signal => WaitKind::Signal,
            kind => kind,
        };
        let call = reason.call.map(|call| world.calls.kind(call));
        if kind == WaitKind::Work {
            let is_sleep = matches!(call, Some(CallKind::Sleep | CallKind::Futex) | None);
            if !is_sleep && waker != Waker::Timer {
                self.notes(thread).serves = true;
            }
            let key = (thread, reason.call);
            let is_full = self.idle.len() >= ROWS_MAX && !self.idle.contains_key(&key);
            let key = if is_full { (thread, None) } else { key };
            let sum = self.idle.entry(key).or_default();
            *sum = sum.saturating_add(nanos);
            return;
        }
        let of_thread = (kind == WaitKind::Sleep).then_some(thread);
        let process = world.process_of(thread);
        // All of a pause is one, wherever its threads were when it began.
        if kind == WaitKind::Pause {
            reason.object = Object::None;
        }
        let mut key = RowKey { process, thread: of_thread, kind, reason };
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            key.reason.object = Object::None;
            key.thread = None;
        }
        let row = self.rows.entry(key).or_insert_with(|| RowSum {
            times: Times::default(),
            waited: Waited::default(),
            threads: HashMap::default(),
            waiter: thread,
        });
        row.times.add(nanos);
        row.waited.add_parts(nanos, enders);
        if row.threads.len() < THREADS_MAX || row.threads.contains_key(&thread) {
            let sum = row.threads.entry(thread).or_default();
            *sum = sum.saturating_add(nanos);
        }
    }

    /// Returns the rows of the processes that are wanted.
    #[must_use]
    pub fn finish(mut self, world: &World, is_wanted: &dyn Fn(&Label) -> bool) -> BlockedReport {
        let mut pending: Vec<_> = std::mem::take(&mut self.pending).into_iter().collect();
        pending.sort_by_key(|(_, wait)| wait.to);
        for (thread, wait) in pending {
            self.count(world, thread, wait);
        }
        let mut idle: HashMap<ThreadId, Vec<(Option<CallId>, u64)>> = HashMap::new();
        for ((thread, call), nanos) in std::mem::take(&mut self.idle) {
            idle.entry(thread).or_default().push((call, nanos));
        }
        let serves =
            |thread: ThreadId| self.threads.get(thread.index()).is_some_and(|notes| notes.serves);
        // By program, call, object and kind.
        type Found = (Option<String>, String, String, String, WaitKind, &'static str);
        let mut rows: HashMap<Found, FoundRow> = HashMap::new();
        for (key, sum) in self.rows {
            if key.thread.is_some_and(|thread| !serves(thread)) {
                let of = idle.entry(sum.waiter).or_default();
                of.push((key.reason.call, sum.times.total));
                continue;
            }
            let label = Label::process(world, sum.waiter);
            if !is_wanted(&label) {
                continue;
            }
            let wait = wait(world, sum.waiter, Some(key.reason), sum.waited);
            let (call, object) = (wait.call.clone(), wait.object.clone());
            let found =
                (label.machine.clone(), label.process.clone(), call, object, key.kind, wait.sleep);
            let FoundRow { row, processes, waits, usual } = rows.entry(found).or_default();
            let is_usual = |(thread, nanos): &(&ThreadId, &u64)| {
                self.whole.get(thread).is_some_and(|whole| **nanos > whole / 2)
            };
            *usual += sum.threads.iter().filter(is_usual).map(|(_, nanos)| nanos).sum::<u64>();
            row.kind = key.kind;
            row.times.merge(&sum.times);
            row.threads += sum.threads.len();
            row.address = match key.reason.object {
                Object::Address(address) => Some((sum.waiter, address)),
                _ => None,
            };
            if sum.times.max >= row.times.max {
                row.longest = world.threads.get(sum.waiter).map(|thread| thread.tid);
            }
            row.label = label;
            processes.insert(world.process_of(sum.waiter));
            waits.push(wait);
        }
        let rows = rows.into_values().map(|FoundRow { row, processes, mut waits, usual }| {
            join_waits(&mut waits);
            let label = match processes.len() {
                0 | 1 => row.label,
                processes => Label { pid: None, home: None, processes, ..row.label },
            };
            let wait = waits.pop().unwrap_or_default();
            let is_usual = usual > row.times.total / 2;
            Blocked { label, wait, is_usual, ..row }
        });
        let mut rows: Vec<Blocked> = rows.collect();
        rows.sort_by_cached_key(|row| {
            let hurts = (row.hurt(), row.times.max, row.far(), row.times.count, row.times.total);
            let name = (row.label.clone(), row.wait.call.clone(), row.wait.object.clone());
            (Reverse(hurts), name, row.kind)
        });
        BlockedReport { rows, idle: idle_of(world, idle, is_wanted) }
    }
}

fn idle_of(
    world: &World,
    threads: HashMap<ThreadId, Vec<(Option<CallId>, u64)>>,
    is_wanted: &dyn Fn(&Label) -> bool,
) -> Idle {
    let (mut idle, mut calls) = (Idle::default(), HashMap::new());
    for (thread, sums) in threads {
        if !is_wanted(&Label::process(world, thread)) {
            continue;
        }
        idle.threads += 1;
        for (call, nanos) in sums {
            idle.total = idle.total.saturating_add(nanos);
            let name = call.map_or("", |call| world.calls.name(call));
            let sum = calls.entry(name.to_owned()).or_insert(0_u64);
            *sum = sum.saturating_add(nanos);
        }
    }
    idle.calls = calls.into_iter().collect();
    idle.calls.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
    idle
}

/// Returns true for a call by which a thread receives work: poll() and similar calls, accept(), or a read from a
/// socket.
fn serves(world: &World, call: &Call) -> bool {
    let reads = || match (world.calls.kind(call.call), call.object) {
        (CallKind::Make, _) => world.calls.name(call.call).contains("accept"),
        (_, Object::File(name)) => {
            let is_socket = world.names.kind(name) == NameKind::Socket;
            is_socket && world.calls.moves(call.call) == Moves::Reads
        }
        _ => false,
    };
    world.calls.kind(call.call) == CallKind::Poll || reads()
}

/// Returns true for a call that moved bytes from or to a socket.
fn is_of_socket(world: &World, call: &Call) -> bool {
    let Object::File(name) = call.object else { return false };
    let is_socket = matches!(world.names.kind(name), NameKind::Socket | NameKind::Connected);
    is_socket && call.result.is_some_and(|bytes| bytes > 0)
}

/// System calls that send a signal.
const TO_SIGNAL: [&str; 6] =
    ["kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"];

/// Returns true if `waker` is another process of the thread's program, and is in a call that sends a signal.
fn is_signalled(world: &World, thread: ThreadId, waker: Waker) -> bool {
    let Waker::Thread { thread: sender, .. } = waker else { return false };
    let call = world.threads.get(sender).and_then(|sender| sender.present_call());
    let sends = call.is_some_and(|call| TO_SIGNAL.contains(&world.calls.name(call)));
    let program = |thread| Label::process(world, thread).process;
    sends
        && world.process_of(sender) != world.process_of(thread)
        && program(sender) == program(thread)
}

/// Returns the kind of a wait.
fn kind_of(world: &World, reason: &Reason, waker: Waker, is_mutex: bool) -> WaitKind {
    match (reason.object, reason.sleep) {
        (Object::Fault, _) => return WaitKind::Fault,
        (_, Sleep::Idle) => return WaitKind::Work,
        _ => {}
    }
    // A daemon that did nothing all the time. A lock may have been held all the time.
    let is_futex = reason.call.is_some_and(|call| world.calls.kind(call) == CallKind::Futex);
    if reason.is_older && waker == Waker::Unknown && !is_futex {
        return WaitKind::Work;
    }
    if ended_by(waker) == "disk" {
        return WaitKind::Disk;
    }
    let is_timer = waker == Waker::Timer;
    let is_thread = matches!(waker, Waker::Thread { .. });
    let Some(call) = reason.call else {
        // What began before the trace, or has no call: what it was for is not known. Threads that are found waiting, and
        // that something outside the program ended, mostly waited for work.
        let is_sure = matches!(waker, Waker::Thread { is_sure: true, .. });
        return match reason.sleep {
            Sleep::Interruptible => WaitKind::Work,
            _ if reason.is_older && !is_sure => WaitKind::Work,
            _ => WaitKind::Other,
        };
    };
    let name = world.calls.name(call);
    let name = name.strip_prefix("compat_").unwrap_or(name);
    let is_deep = reason.sleep == Sleep::Uninterruptible;
    if is_deep && (TO_DISK.contains(&name) || is_by_writeback(world, reason.object, waker)) {
        return WaitKind::Disk;
    }
    match world.calls.kind(call) {
        CallKind::Sleep => WaitKind::Sleep,
        CallKind::Poll if waits_for_answer(world, reason.object, is_timer) => WaitKind::Answer,
        CallKind::Poll => WaitKind::Work,
        CallKind::Futex if is_mutex && !is_timer => WaitKind::Mutex,
        CallKind::Futex if !is_thread => WaitKind::Work,
        CallKind::Futex => match waker {
            Waker::Thread { thread, .. } if runtime_of(&world.thread_name(thread)).is_some() => {
                WaitKind::Pause
            }
            _ => WaitKind::Thread,
        },
        _ if name.starts_with("accept") => WaitKind::Work,
        _ if FOR_SIGNALS.contains(&name) => WaitKind::Work,
        _ if FOR_CHILDREN.contains(&name) => WaitKind::Thread,
        _ if world.calls.moves(call) == Moves::Reads || name.starts_with("recv") => {
            let is_network = name.starts_with("recv") || ended_by(waker) == "network";
            read_kind(world, reason.object, is_timer, is_network)
        }
        _ => WaitKind::Other,
    }
}

/// Returns true if a thread that polls this object waits for an answer. A wait that timed out was not for an answer,
/// except on UDP sockets to which the thread had sent a request, as resolvers of DNS do.
fn waits_for_answer(world: &World, object: Object, is_timer: bool) -> bool {
    let is_udp = |name| world.names.bytes(name).starts_with(b"udp");
    let is_asked = match object {
        Object::File(name) => !is_timer || is_udp(name),
        _ => false,
    };
    is_asked && world.is_connected_by_us(object)
}

/// System calls that return when a disk has stored their data.
const TO_DISK: [&str; 6] = ["fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range"];

/// Returns true if a wait for a file was ended by a thread of the kernel that writes to disks.
fn is_by_writeback(world: &World, object: Object, waker: Waker) -> bool {
    let Waker::Thread { thread, .. } = waker else { return false };
    let name = world.thread_name(thread);
    let is_kernel = world.threads.get(thread).is_some_and(|thread| world.is_of_kernel(thread));
    let writes = is_kernel || name.starts_with("kworker/") || name.starts_with("jbd2/");
    let is_file = |name| world.names.kind(name) == NameKind::Given;
    writes && matches!(object, Object::File(name) if is_file(name))
}

/// System calls that wait for signals.
const FOR_SIGNALS: [&str; 5] =
    ["pause", "rt_sigsuspend", "sigsuspend", "rt_sigtimedwait", "rt_sigtimedwait_time64"];

/// System calls that wait for a child to end, or to execute a program.
const FOR_CHILDREN: [&str; 6] = ["wait4", "waitid", "waitpid", "vfork", "clone", "clone3"];

/// Returns the kind of a wait in a system call that reads, if no disk has ended the wait.
fn read_kind(world: &World, object: Object, is_timer: bool, is_network: bool) -> WaitKind {
    let Object::File(name) = object else {
        return if is_timer || is_network { WaitKind::Work } else { WaitKind::Thread };
    };
    match world.names.kind(name) {
        _ if is_timer => WaitKind::Work,
        NameKind::Socket | NameKind::Connected => match world.is_connected_by_us(object) {
            true => WaitKind::Answer,
            false => WaitKind::Work,
        },
        NameKind::Pipe => WaitKind::Thread,
        NameKind::Nameless => WaitKind::Work,
        // A terminal's reader waits for a person.
        NameKind::Given => match world.names.bytes(name) {
            path if path.starts_with(b"/dev/pts/") || path.starts_with(b"/dev/tty") => {
                WaitKind::Work
            }
            _ => WaitKind::Other,
        },
    }
}

impl Observer for BlockedCounter {
    fn state(&mut self, world: &World, thread: ThreadId, interval: &Interval) {
        let State::Blocked(reason) = interval.state else { return };
        if interval.to <= self.range.from || interval.from >= self.range.to {
            return;
        }
        let is_mutex = world.threads.get(thread).is_some_and(|thread| thread.is_in_mutex());
        let Interval { from, to, waker, .. } = *interval;
        let notes = self.notes(thread);
        notes.has_waited = true;
        let is_by_signal = notes.is_asked && is_signalled(world, thread, waker);
        let wait = PendingWait { reason, from, to, waker, is_mutex, is_by_signal };
        if let Some(before) = self.pending.insert(thread, wait) {
            self.count(world, thread, before);
        }
    }

    fn timed_out(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        let wait = self.pending.get_mut(&thread).filter(|wait| wait.from == interval.from);
        if let Some(wait) = wait {
            wait.waker = Waker::Timer;
        }
    }

    fn call(&mut self, world: &World, call: &Call) {
        let notes = self.notes(call.thread);
        // Who always finds work there does not wait for it.
        notes.serves |= serves(world, call);
        match (is_of_socket(world, call), world.calls.moves(call.call)) {
            (true, Moves::Reads) => notes.is_asked = true,
            (true, Moves::Writes) => notes.is_asked = false,
            _ => {}
        }
        if !std::mem::take(&mut notes.has_waited) {
            return;
        }
        let Some(mut wait) = self.pending.remove(&call.thread) else { return };
        // Of several descriptors it is known only now which one was ready.
        if wait.reason.object == Object::None && wait.reason.call.is_some() {
            wait.reason.object = call.object;
        }
        self.count(world, call.thread, wait);
    }
}

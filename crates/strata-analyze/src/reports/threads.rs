//! The report on threads: how long each ran, how long it waited for a CPU and for which other threads, and what blocked
//! it.
//!
//! ```text
//! Timeline ── state() ──▶ ThreadCounter ── finish() ──▶ ThreadsReport: rows by thread or process, delays, stalls of guests
//!              for each interval of a state       text and JSON: strata-cli/src/analyze/threads.rs
//! ```
//!
//! - *running*, *runnable* (wants a CPU) and *blocked* come from the timeline's states, cut to the time of the report.
//! - A wait is counted by its reason, which consists of the system call, its object and the kind of sleep; and by the
//!   wakers that ended it, at most `WAKERS_MAX` for each reason. A timer that ended a wait is known only later, and
//!   then replaces the waker (`Waited::timed_out`).
//! - For a runnable interval, the threads that ran on the CPU in that time are its rivals. Each CPU's latest runs are
//!   kept for this.
//! - If there are more than `ROWS_MAX` threads or processes, only those have rows that were on a CPU or wanted one for
//!   the longest time, and one more row is for all others.
//! - The longest delays are kept one by one, of all threads together or of each ([`LongestLimit`]), since it is known only at
//!   the end which threads the report is on.
//!
//! Every table here has a limit, at the top of the file; more than that is summed up without details, so that memory
//! does not grow with the trace. In a trace of a host and its guests, the time for which the host did not run a virtual
//! CPU is a stall of the guest's thread (`virtual_cpus.rs`).

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use strata_ctf::read::{Reader, TimeRange};
use strata_timeline::{
    CallId, Interval, Object, Observer, Reason, Sleep, State, ThreadId, Waker, World,
};

use crate::fast_hash::Mix;

use super::longest::{Longest, LongestLimit};
use super::row_limit::{RowLimit, ROWS_MAX};
use super::virtual_cpus::VirtualCpus;
pub use super::virtual_cpus::{Stall, Why};
use strata_report::Label;
use strata_report::Times;

/// The most reasons that are kept for all threads together. Further waits are counted without a reason.
const REASONS_MAX: usize = 1 << 17;
/// The most wakers that are kept for each reason.
const WAKERS_MAX: usize = 16;
/// The most runs of each CPU that are searched for a delay.
const RUNS_MAX: usize = 4096;
/// The most pairs of a waiting thread and the thread that had its CPU.
const RIVALS_MAX: usize = 1 << 17;
/// The most threads whose delays have a histogram; each takes some 1 KiB.
const SPREADS_MAX: usize = 1 << 15;

/// The waits of a thread for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The system call that blocked; empty if there was none.
    pub call: String,
    /// The call's object: a path, a descriptor, an address.
    pub object: String,
    /// The kind of sleep, or another cause such as `signal stops it` or `page fault`.
    pub sleep: &'static str,
    /// True if the wait began before recording did.
    pub is_older: bool,
    /// The thread that ended most of the waiting time, and the number of waits that it ended.
    pub woken_by: Option<(Label, u64)>,
    /// True if the trace is certain about the waker for most of the time. If false, an interrupt may have been the
    /// waker.
    pub is_sure: bool,
    /// The kind of waker that ended most of the waiting time, if it was no thread: `timer`.
    pub ended_by: &'static str,
    /// The waiting time that this waker ended \[ns\].
    pub ended: u64,
    /// The number of different threads, devices and kinds of interrupts that ended the waits, including the main one.
    /// Wakers beyond a limit are not counted.
    pub enders: usize,
    /// The device that ended most of the waiting time, if it was one.
    pub device: Option<Device>,
    /// The number of waits.
    pub count: u64,
    /// The total time \[ns\].
    pub total: u64,
    /// The longest wait \[ns\].
    pub max: u64,
}

impl Wait {
    /// Returns the parts of the reason. They distinguish the waits of one thread from each other.
    fn kind(&self) -> (&str, &str, &'static str, bool) {
        (&self.call, &self.object, self.sleep, self.is_older)
    }
}

/// The interrupt of a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    pub number: i32,
    /// The name of the device's driver; empty if it is not in the trace.
    pub name: String,
}

/// The times of a thread, or of all threads of a process.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub label: Label,
    /// The time on a CPU \[ns\].
    pub running: u64,
    /// The time of waiting for a CPU after a wait was over \[ns\].
    pub woken: u64,
    /// The time of waiting for a CPU after another thread had taken it \[ns\].
    pub preempted: u64,
    /// The time blocked \[ns\].
    pub blocked: u64,
    /// The time for which the state is not known from the trace \[ns\].
    pub unknown: u64,
    /// The number of times that the row's threads got a CPU.
    pub runs: u64,
    /// The longest delay: time of waiting for a CPU \[ns\].
    pub delay: u64,
    /// The lengths of the delays; empty for threads beyond the limit on histograms.
    pub delays: Times,
    /// The waits of the row's threads, by falling time.
    pub waits: Vec<Wait>,
    /// The threads that had the CPU for which the row's threads waited, with their times \[ns\], by falling time;
    /// `None` stands for no thread or an unknown one.
    pub rivals: Vec<(Option<Label>, u64)>,
}

impl Row {
    /// Returns the total time of waiting for a CPU \[ns\].
    #[must_use]
    pub fn runnable(&self) -> u64 {
        self.woken.saturating_add(self.preempted)
    }

    fn add(&mut self, times: &ThreadTime, delays: Option<Times>) {
        for (sum, more) in [
            (&mut self.running, times.running),
            (&mut self.woken, times.woken),
            (&mut self.preempted, times.preempted),
            (&mut self.blocked, times.blocked),
            (&mut self.unknown, times.unknown),
            (&mut self.runs, times.runs),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.delay = self.delay.max(times.delay);
        if let Some(delays) = delays {
            self.delays.merge(&delays);
        }
    }

    /// Merges waits for the same reason, and times of the same rival.
    fn join(&mut self) {
        join_waits(&mut self.waits);
        self.rivals.sort_by(|one, other| one.0.cmp(&other.0));
        self.rivals.dedup_by(|rival, known| {
            let is_same = rival.0 == known.0;
            if is_same {
                known.1 = known.1.saturating_add(rival.1);
            }
            is_same
        });
    }

    fn sort(&mut self) {
        sort_waits(&mut self.waits);
        self.rivals.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
    }
}

/// Merges waits for the same reason. The waker that ended the most time stays.
pub(super) fn join_waits(waits: &mut Vec<Wait>) {
    waits.sort_by(|one, other| one.kind().cmp(&other.kind()));
    waits.dedup_by(|wait, known| {
        let is_same = wait.kind() == known.kind();
        if is_same {
            known.count += wait.count;
            known.total = known.total.saturating_add(wait.total);
            known.max = known.max.max(wait.max);
            known.enders = known.enders.max(wait.enders);
            if wait.ended > known.ended {
                known.ended = wait.ended;
                (known.woken_by, known.is_sure) = (wait.woken_by.take(), wait.is_sure);
                (known.ended_by, known.device) = (wait.ended_by, wait.device.take());
            }
        }
        is_same
    });
}

/// Sorts waits by falling time.
pub(super) fn sort_waits(waits: &mut [Wait]) {
    waits.sort_by(|one, other| {
        other.total.cmp(&one.total).then_with(|| one.kind().cmp(&other.kind()))
    });
}

/// A delay: a period in which a thread waited for a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    pub label: Label,
    /// The begin of the delay \[ns since 1970\].
    pub from: i64,
    /// The length of the delay \[ns\].
    pub nanos: u64,
    /// The CPU on which the thread then ran.
    pub cpu: u32,
}

#[derive(Clone, Debug, Default)]
pub struct ThreadsReport {
    /// The rows, by falling time of running and waiting for a CPU.
    pub rows: Vec<Row>,
    /// The longest delays, by falling time.
    pub delays: Vec<Delay>,
    /// True if some of the longest delays of a thread are missing, because of the limit over all threads.
    pub is_cut: bool,
    /// The times in which virtual CPUs of guests did not run, by falling time.
    pub stalls: Vec<Stall>,
    /// The greatest error of times in guests' traces \[ns\].
    pub uncertainty: u64,
}

#[derive(Clone, Debug, Default)]
struct ThreadTime {
    running: u64,
    woken: u64,
    preempted: u64,
    blocked: u64,
    unknown: u64,
    runs: u64,
    delay: u64,
}

impl ThreadTime {
    /// Returns the time of running and of waiting for a CPU \[ns\].
    fn busy(&self) -> u64 {
        self.running.saturating_add(self.woken).saturating_add(self.preempted)
    }

    /// Returns the time for which the state is known \[ns\].
    fn known(&self) -> u64 {
        self.busy().saturating_add(self.blocked)
    }
}

/// The sums of a thread's waits for one reason.
#[derive(Clone, Debug, Default)]
pub(super) struct Waited {
    count: u64,
    total: u64,
    max: u64,
    /// The wakers, each with the number of waits that it ended and their total time \[ns\].
    wakers: Vec<(Waker, u64, u64)>,
}

impl Waited {
    /// Adds a wait that one waker ended.
    pub(super) fn add(&mut self, waker: Waker, nanos: u64) {
        self.count += 1;
        self.total = self.total.saturating_add(nanos);
        self.max = self.max.max(nanos);
        self.ended(waker, nanos);
    }

    /// Adds a wait whose time is divided among several wakers.
    pub(super) fn add_parts(&mut self, nanos: u64, parts: Vec<(Waker, u64)>) {
        self.count += 1;
        self.total = self.total.saturating_add(nanos);
        self.max = self.max.max(nanos);
        for (waker, nanos) in parts {
            self.ended(waker, nanos);
        }
    }

    fn ended(&mut self, waker: Waker, nanos: u64) {
        match self.wakers.iter().position(|(known, ..)| *known == waker) {
            Some(at) => {
                if let Some((_, count, total)) = self.wakers.get_mut(at) {
                    *count += 1;
                    *total = total.saturating_add(nanos);
                }
            }
            None if self.wakers.len() < WAKERS_MAX => self.wakers.push((waker, 1, nanos)),
            None => {}
        }
    }

    /// Changes the waker of a counted wait to a timer.
    pub(super) fn timed_out(&mut self, waker: Waker, nanos: u64) {
        if let Some((_, count, total)) = self.wakers.iter_mut().find(|it| it.0 == waker) {
            *count = count.saturating_sub(1);
            *total = total.saturating_sub(nanos);
        }
        self.wakers.retain(|(_, count, _)| *count > 0);
        self.ended(Waker::Timer, nanos);
    }
}

/// A run of a thread on a CPU: begin \[ns since 1970\], end and thread.
type ThreadRun = (i64, i64, ThreadId);

/// The latest runs of each CPU, by machine and CPU.
#[derive(Clone, Debug, Default)]
struct LatestRuns(Vec<Vec<VecDeque<ThreadRun>>>);

impl LatestRuns {
    fn of(&self, machine: u8, cpu: u32) -> Option<&VecDeque<ThreadRun>> {
        self.0.get(usize::from(machine))?.get(usize::try_from(cpu).ok()?)
    }

    /// Adds a run. The timeline limits the number of CPUs.
    fn add(&mut self, machine: u8, cpu: u32, run: ThreadRun) {
        let (machine, Ok(cpu)) = (usize::from(machine), usize::try_from(cpu)) else { return };
        if self.0.len() <= machine {
            self.0.resize_with(machine + 1, Vec::new);
        }
        let Some(cpus) = self.0.get_mut(machine) else { return };
        if cpus.len() <= cpu {
            cpus.resize_with(cpu + 1, VecDeque::new);
        }
        let Some(runs) = cpus.get_mut(cpu) else { return };
        if runs.len() >= RUNS_MAX {
            runs.pop_front();
        }
        runs.push_back(run);
    }
}

/// Counts the states of threads.
#[derive(Clone, Debug)]
pub struct ThreadCounter {
    range: TimeRange,
    /// The times of each thread, by [`ThreadId::index`].
    times: Vec<ThreadTime>,
    waits: HashMap<(ThreadId, Option<Reason>), Waited, Mix>,
    rivals: HashMap<(ThreadId, Option<ThreadId>), u64, Mix>,
    spreads: HashMap<ThreadId, Times, Mix>,
    runs: LatestRuns,
    delays: Longest<(ThreadId, u32)>,
    virtual_cpus: Option<VirtualCpus>,
}

impl ThreadCounter {
    /// Makes a counter for `range` that keeps the `delays` longest delays.
    #[must_use]
    pub fn new(range: TimeRange, delays: impl Into<LongestLimit>) -> ThreadCounter {
        ThreadCounter {
            range,
            times: Vec::new(),
            waits: HashMap::default(),
            rivals: HashMap::default(),
            spreads: HashMap::default(),
            runs: LatestRuns::default(),
            delays: Longest::new(delays.into()),
            virtual_cpus: None,
        }
    }

    /// Makes a counter that also counts stalls of virtual CPUs, if these traces are of a host and its guests.
    #[must_use]
    pub fn with_guests(
        reader: &Reader,
        range: TimeRange,
        delays: impl Into<LongestLimit>,
    ) -> ThreadCounter {
        let virtual_cpus = Some(VirtualCpus::new(reader, range));
        ThreadCounter { virtual_cpus, ..ThreadCounter::new(range, delays) }
    }

    fn waited(&mut self, thread: ThreadId, reason: Reason, waker: Waker, nanos: u64) {
        let mut key = (thread, Some(reason));
        if self.waits.len() >= REASONS_MAX && !self.waits.contains_key(&key) {
            key = (thread, None);
        }
        self.waits.entry(key).or_default().add(waker, nanos);
    }

    /// Adds the runs of other threads on `cpu` while `thread` waited for it.
    fn rivals(&mut self, machine: u8, thread: ThreadId, cpu: u32, from: i64, to: i64) {
        let mut left = to.abs_diff(from);
        let runs = self.runs.of(machine, cpu);
        for &(began, ended, other) in runs.into_iter().flatten().rev() {
            if ended <= from || left == 0 {
                break;
            }
            let nanos = ended.min(to).saturating_sub(began.max(from)).max(0).unsigned_abs();
            let nanos = nanos.min(left);
            left -= nanos;
            if nanos > 0 {
                add(&mut self.rivals, (thread, Some(other)), nanos);
            }
        }
        if left > 0 {
            add(&mut self.rivals, (thread, None), left);
        }
    }

    /// Returns the report, with a row for each process or each thread.
    #[must_use]
    pub fn finish(self, world: &World, by_process: bool) -> ThreadsReport {
        self.finish_within(world, by_process, None, ROWS_MAX)
    }

    /// Returns the report, with a row for each process or each thread that `is_wanted` accepts.
    #[must_use]
    pub fn finish_of(
        self,
        world: &World,
        by_process: bool,
        is_wanted: &dyn Fn(&Label) -> bool,
    ) -> ThreadsReport {
        self.finish_within(world, by_process, Some(is_wanted), ROWS_MAX)
    }

    /// Returns the report with at most `most` rows, and one more row for all others.
    pub(super) fn finish_within(
        mut self,
        world: &World,
        by_process: bool,
        is_wanted: Option<&dyn Fn(&Label) -> bool>,
        most: usize,
    ) -> ThreadsReport {
        let of = |id| if by_process { world.process_of(id) } else { id };
        let label = |id| match by_process {
            true => Label::process(world, id),
            false => Label::thread(world, id),
        };
        let mut sizes = vec![0_u64; self.times.len()];
        for ((id, _), times) in world.threads.iter().zip(self.times.iter().skip(1)) {
            let is_out = || is_wanted.is_some_and(|is_wanted| !is_wanted(&label(of(id))));
            // Of others nothing is known but that they were there.
            if times.known() == 0 || is_out() {
                continue;
            }
            if let Some(size) = sizes.get_mut(of(id).index()) {
                *size = size.saturating_add(times.busy()).max(1);
            }
        }
        let limit = RowLimit::of(sizes, most);
        let mut rows: HashMap<Option<ThreadId>, Row> = HashMap::new();
        for ((id, _), times) in world.threads.iter().zip(self.times.iter().skip(1)) {
            if times.known() == 0 || !limit.is_a_row(of(id)) {
                continue;
            }
            let row = rows.entry(limit.row(of(id))).or_default();
            row.add(times, self.spreads.remove(&id));
        }
        rows.iter_mut()
            .for_each(|(&key, row)| row.label = key.map_or_else(|| limit.label(), label));
        // In an order, since the first of equals is the one that is told.
        let mut waits: Vec<_> = self.waits.into_iter().collect();
        waits.sort_unstable_by_key(|&(key, _)| key);
        for ((id, reason), waited) in waits {
            if let Some(row) = rows.get_mut(&limit.row(of(id))).filter(|_| limit.is_a_row(of(id))) {
                row.waits.push(wait(world, id, reason, waited));
            }
        }
        for ((id, rival), nanos) in self.rivals {
            if let Some(row) = rows.get_mut(&limit.row(of(id))).filter(|_| limit.is_a_row(of(id))) {
                row.rivals.push((rival.map(label), nanos));
            }
        }
        for (key, row) in &mut rows {
            if by_process || key.is_none() {
                row.join();
            }
        }
        let mut all: Vec<Row> = rows.into_values().collect();
        all.iter_mut().for_each(Row::sort);
        all.sort_by(|one, other| {
            let busy = |row: &Row| row.running.saturating_add(row.runnable());
            busy(other).cmp(&busy(one)).then_with(|| one.label.cmp(&other.label))
        });
        let (delays, is_cut) = self.delays.finish_and_tell();
        let delays = delays.map(|(nanos, from, (thread, cpu))| Delay {
            label: Label::thread(world, thread),
            from,
            nanos,
            cpu,
        });
        let uncertainty = self.virtual_cpus.as_ref().map_or(0, VirtualCpus::uncertainty);
        let stalls = self.virtual_cpus.map(|all| all.finish(world)).unwrap_or_default();
        ThreadsReport { rows: all, delays: delays.collect(), is_cut, stalls, uncertainty }
    }
}

/// Returns the threads that had the CPU during the whole interval, each with begin and end; `None` is an unknown
/// thread.
fn had(
    runs: Option<&VecDeque<ThreadRun>>,
    interval: &Interval,
) -> Vec<(i64, i64, Option<ThreadId>)> {
    let (mut all, mut until) = (Vec::new(), interval.to);
    for &(began, ended, other) in runs.into_iter().flatten().rev() {
        if ended <= interval.from || until <= interval.from {
            break;
        }
        let (from, to) = (began.max(interval.from), ended.min(until));
        if from >= to {
            continue;
        }
        if to < until {
            all.push((to, until, None));
        }
        all.push((from, to, Some(other)));
        until = from;
    }
    if until > interval.from {
        all.push((interval.from, until, None));
    }
    all.reverse();
    all
}

fn add(
    rivals: &mut HashMap<(ThreadId, Option<ThreadId>), u64, Mix>,
    key: (ThreadId, Option<ThreadId>),
    nanos: u64,
) {
    let is_full = rivals.len() >= RIVALS_MAX && !rivals.contains_key(&key);
    let known = rivals.entry(if is_full { (key.0, None) } else { key }).or_default();
    *known = known.saturating_add(nanos);
}

/// Returns a reason in words, as a [`Wait`] without counts.
pub(super) fn wait_of(world: &World, id: ThreadId, reason: Option<Reason>) -> Wait {
    let Some(reason) = reason else { return Wait::default() };
    let name = |call: CallId| world.calls.name(call).to_owned();
    Wait {
        call: reason.call.map(name).unwrap_or_default(),
        object: match world.object(id, reason.object) {
            Object::None | Object::Fault => String::new(),
            Object::Descriptor(number) => format!("descriptor {number}"),
            Object::File(name) => world.names.text(name),
            Object::Address(address) => format!("{address:#x}"),
        },
        sleep: sleep_of(reason),
        is_older: reason.is_older,
        ..Wait::default()
    }
}

/// Returns the kind of sleep, or another cause of the wait, in words; empty if nothing is known.
pub fn sleep_of(reason: Reason) -> &'static str {
    match (reason.object, reason.sleep) {
        (Object::Fault, _) => "page fault",
        (_, Sleep::Interruptible) => "sleep",
        (_, Sleep::Uninterruptible) => "uninterruptible",
        (_, Sleep::Stopped) => "stopped",
        (_, Sleep::Idle) => "idle",
        (_, Sleep::Other) => "",
    }
}

/// Returns a reason in words, with the waker that ended most of its waiting time.
pub(super) fn ended_wait(
    world: &World,
    id: ThreadId,
    reason: Option<Reason>,
    (waker, times): (Waker, u64),
) -> Wait {
    let (woken_by, is_sure) = match waker {
        Waker::Thread { thread, is_sure } => (Some((Label::thread(world, thread), times)), is_sure),
        _ => (None, false),
    };
    let (ended_by, device) = (ended_by(waker), device(world, id, waker));
    Wait { woken_by, is_sure, ended_by, device, ..wait_of(world, id, reason) }
}

/// Returns the name of a waker's kind, if it is no thread.
pub fn ended_by(waker: Waker) -> &'static str {
    match waker {
        Waker::Unknown => "",
        Waker::Thread { .. } => "thread",
        Waker::Device(_) => "device",
        Waker::Softirq(2 | 3) => "network",
        Waker::Softirq(4 | 5) => "disk",
        Waker::Softirq(_) => "softirq",
        Waker::Timer => "timer",
        Waker::Interrupt => "interrupt",
    }
}

/// Returns the device that ended a wait of this thread, if one did.
pub(super) fn device(world: &World, id: ThreadId, waker: Waker) -> Option<Device> {
    let Waker::Device(number) = waker else { return None };
    let machine = world.threads.get(id)?.machine;
    Some(Device { number, name: world.interrupt_name(machine, number) })
}

/// The waker that ended most of the time of some waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ender {
    waker: Option<Waker>,
    count: u64,
    total: u64,
    /// The number of different wakers.
    all: usize,
}

/// Returns the waker that ended most of the time. Certain and uncertain wakeups by one thread are added up; the
/// result is certain if most of their time is.
fn most(wakers: &[(Waker, u64, u64)]) -> Ender {
    let thread = |waker: Waker| match waker {
        Waker::Thread { thread, is_sure } => Some((thread, is_sure)),
        _ => None,
    };
    let is_same = |one: Waker, other: Waker| match (thread(one), thread(other)) {
        (Some((one, _)), Some((other, _))) => one == other,
        _ => one == other,
    };
    let sum = |of: Waker| {
        let same = wakers.iter().filter(|(waker, ..)| is_same(of, *waker));
        same.fold((0_u64, 0_u64), |sum, &(_, count, total)| {
            (sum.0.saturating_add(count), sum.1.saturating_add(total))
        })
    };
    let is_first = |at: usize, of: Waker| !wakers.iter().take(at).any(|it| is_same(of, it.0));
    let all = wakers.iter().enumerate().filter(|(at, it)| is_first(*at, it.0)).count();
    // Of those that did so for equally long, the one that did so more often, and then the first.
    let most = wakers.iter().max_by_key(|&&(waker, count, total)| {
        let (counts, totals) = sum(waker);
        let number = Reverse(thread(waker).map(|it| it.0));
        (totals, counts, number, total, count, Reverse(thread(waker)))
    });
    let Some(&(waker, ..)) = most else { return Ender::default() };
    let (count, total) = sum(waker);
    Ender { waker: Some(waker), count, total, all }
}

/// Returns a reason and the sums of its waits as a [`Wait`].
pub(super) fn wait(world: &World, id: ThreadId, reason: Option<Reason>, waited: Waited) -> Wait {
    let Ender { waker, count: times, total: ended, all: enders } = most(&waited.wakers);
    let waker = waker.unwrap_or(Waker::Unknown);
    Wait {
        ended,
        enders,
        count: waited.count,
        total: waited.total,
        max: waited.max,
        ..ended_wait(world, id, reason, (waker, times))
    }
}

impl Observer for ThreadCounter {
    fn state(&mut self, world: &World, thread: ThreadId, interval: &Interval) {
        let machine = world.threads.get(thread).map_or(0, |thread| thread.machine);
        if let State::Running { cpu } = interval.state {
            self.runs.add(machine, cpu, (interval.from, interval.to, thread));
        }
        if let Some(virtual_cpus) = &mut self.virtual_cpus {
            let runs = interval.cpu.and_then(|cpu| self.runs.of(machine, cpu));
            virtual_cpus.state(world, thread, interval, &|| had(runs, interval));
        }
        let (from, to) = (interval.from.max(self.range.from), interval.to.min(self.range.to));
        if from >= to {
            return;
        }
        let nanos = to.abs_diff(from);
        if self.times.len() <= thread.index() {
            self.times.resize_with(thread.index() + 1, ThreadTime::default);
        }
        let Some(times) = self.times.get_mut(thread.index()) else { return };
        match interval.state {
            State::Running { .. } => {
                times.running += nanos;
                times.runs += 1;
            }
            State::Runnable { woken } => {
                times.delay = times.delay.max(nanos);
                match woken {
                    true => times.woken += nanos,
                    false => times.preempted += nanos,
                }
                if self.spreads.len() < SPREADS_MAX || self.spreads.contains_key(&thread) {
                    self.spreads.entry(thread).or_default().add(nanos);
                }
                let Some(cpu) = interval.cpu else {
                    return add(&mut self.rivals, (thread, None), nanos);
                };
                self.delays.add(nanos, from, Some(thread), (thread, cpu));
                self.rivals(machine, thread, cpu, from, to);
            }
            State::Blocked(reason) => {
                times.blocked += nanos;
                self.waited(thread, reason, interval.waker, nanos);
            }
            State::Unknown => times.unknown += nanos,
            State::Gone => {}
        }
    }

    fn timed_out(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        let State::Blocked(reason) = interval.state else { return };
        let (from, to) = (interval.from.max(self.range.from), interval.to.min(self.range.to));
        if from >= to {
            return;
        }
        let key = (thread, Some(reason));
        let key = if self.waits.contains_key(&key) { key } else { (thread, None) };
        if let Some(waited) = self.waits.get_mut(&key) {
            waited.timed_out(interval.waker, to.abs_diff(from));
        }
    }
}

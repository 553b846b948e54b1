//! Threads: how long each ran, wanted a CPU and who had it, and was blocked in what.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use strata_ctf::read::{Reader, TimeRange};
use strata_timeline::{
    CallId, Interval, Object, Observer, Reason, Sleep, State, ThreadId, Waker, World,
};

use super::label::Label;
use super::longest::{Kept, Longest};
use super::times::Times;
use super::virtual_cpus::VirtualCpus;
pub use super::virtual_cpus::{Stall, Why};

/// Reasons that are kept, of all threads together; what is more is without a reason.
const REASONS_MAX: usize = 1 << 17;
/// Of each reason, who ended it.
const WAKERS_MAX: usize = 16;
/// Of each CPU, who ran there last: so many runs are looked at for a delay.
const RUNS_MAX: usize = 4096;
/// Who had the CPU is kept of so many pairs of threads.
const RIVALS_MAX: usize = 1 << 17;
/// Of so many threads it is kept how their delays are spread; some 1 KiB each.
const SPREADS_MAX: usize = 1 << 15;

/// A kind of waits of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The system call; empty: none.
    pub call: String,
    /// What it was about: a path, a descriptor, an address.
    pub object: String,
    /// How it slept, or what else is known: `signal stops it`, `page fault`.
    pub sleep: &'static str,
    /// Who ended it most often, and how often.
    pub woken_by: Option<(Label, u64)>,
    /// Whether the trace says so of most of these times: if not, it may have been an interrupt.
    pub is_sure: bool,
    /// The kind of who ended most of them that no thread ended: `timer`.
    pub ended_by: &'static str,
    /// If that is a device: its interrupt.
    pub device: Option<Device>,
    /// How often.
    pub count: u64,
    /// How long, all together \[ns\].
    pub total: u64,
    /// The longest \[ns\].
    pub max: u64,
}

impl Wait {
    /// What tells it from others of its thread.
    fn kind(&self) -> (&str, &str, &'static str) {
        (&self.call, &self.object, self.sleep)
    }
}

/// The interrupt of a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// Its number.
    pub number: i32,
    /// As who serves it is called; empty: not in the trace.
    pub name: String,
}

/// A thread, or all of a process.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Its name and number.
    pub label: Label,
    /// It had a CPU \[ns\].
    pub running: u64,
    /// It wanted one, since what it had waited for was over \[ns\].
    pub woken: u64,
    /// It wanted one, since another thread had taken it \[ns\].
    pub preempted: u64,
    /// It waited for something else \[ns\].
    pub blocked: u64,
    /// The trace does not say \[ns\].
    pub unknown: u64,
    /// How often it got a CPU.
    pub runs: u64,
    /// The longest time for which it wanted one \[ns\].
    pub delay: u64,
    /// Each time for which it wanted one; of threads for which there was no room, nothing.
    pub delays: Times,
    /// What it was blocked in, by falling time.
    pub waits: Vec<Wait>,
    /// Who had the CPU while it wanted it, by falling time; `None`: nobody, or the trace does not say \[ns\].
    pub rivals: Vec<(Option<Label>, u64)>,
}

impl Row {
    /// How long it wanted a CPU \[ns\].
    #[must_use]
    pub fn runnable(&self) -> u64 {
        self.woken.saturating_add(self.preempted)
    }

    fn merge(&mut self, other: Row) {
        for (sum, more) in [
            (&mut self.running, other.running),
            (&mut self.woken, other.woken),
            (&mut self.preempted, other.preempted),
            (&mut self.blocked, other.blocked),
            (&mut self.unknown, other.unknown),
            (&mut self.runs, other.runs),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.delay = self.delay.max(other.delay);
        self.delays.merge(&other.delays);
        // Those of one kind are put together when all are there: a process may have any number of them.
        self.waits.extend(other.waits);
        self.rivals.extend(other.rivals);
    }

    /// Waits of one kind, and times of one rival, of several threads are one.
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

/// Waits of one kind, of several threads, are one. Of what ended most waits, that of the first thread that says it most
/// often stays.
pub(super) fn join_waits(waits: &mut Vec<Wait>) {
    waits.sort_by(|one, other| one.kind().cmp(&other.kind()));
    waits.dedup_by(|wait, known| {
        let is_same = wait.kind() == known.kind();
        if is_same {
            known.count += wait.count;
            known.total = known.total.saturating_add(wait.total);
            known.max = known.max.max(wait.max);
            let times = |woken_by: &Option<(Label, u64)>| woken_by.as_ref().map(|it| it.1);
            if times(&wait.woken_by) > times(&known.woken_by) {
                (known.woken_by, known.is_sure) = (wait.woken_by.take(), wait.is_sure);
                (known.ended_by, known.device) = (wait.ended_by, wait.device.take());
            }
        }
        is_same
    });
}

/// By falling time.
pub(super) fn sort_waits(waits: &mut [Wait]) {
    waits.sort_by(|one, other| {
        other.total.cmp(&one.total).then_with(|| one.kind().cmp(&other.kind()))
    });
}

/// A thread that wanted a CPU for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Its name and number.
    pub label: Label,
    /// From when on \[ns since 1970\].
    pub from: i64,
    /// How long \[ns\].
    pub nanos: u64,
    /// On which CPU it ran then.
    pub cpu: u32,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct ThreadsReport {
    /// By falling time that they ran and wanted to.
    pub rows: Vec<Row>,
    /// By falling time.
    pub delays: Vec<Delay>,
    /// More delays of all threads were among the longest of their threads than are kept.
    pub is_cut: bool,
    /// Of guests, for what time their virtual CPUs did not run, by falling time.
    pub stalls: Vec<Stall>,
    /// How far off times of guests are at most \[ns\].
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

/// A kind of waits of a thread, as they are counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Waited {
    count: u64,
    total: u64,
    max: u64,
    wakers: Vec<(Waker, u64)>,
}

impl Waited {
    /// One more.
    pub(super) fn add(&mut self, waker: Waker, nanos: u64) {
        self.count += 1;
        self.total = self.total.saturating_add(nanos);
        self.max = self.max.max(nanos);
        self.ended(waker);
    }

    fn ended(&mut self, waker: Waker) {
        match self.wakers.iter().position(|(known, _)| *known == waker) {
            Some(at) => self.wakers.get_mut(at).into_iter().for_each(|(_, count)| *count += 1),
            None if self.wakers.len() < WAKERS_MAX => self.wakers.push((waker, 1)),
            None => {}
        }
    }

    /// One that was counted was ended by a timer instead.
    pub(super) fn timed_out(&mut self, waker: Waker) {
        let found = self.wakers.iter_mut().find(|(known, _)| *known == waker);
        found.into_iter().for_each(|(_, count)| *count = count.saturating_sub(1));
        self.wakers.retain(|(_, count)| *count > 0);
        self.ended(Waker::Timer);
    }
}

/// From when on, up to when, who.
type ThreadRun = (i64, i64, ThreadId);

/// Counts them.
#[derive(Debug)]
pub struct ThreadCounter {
    range: TimeRange,
    /// By [`ThreadId::index`].
    times: Vec<ThreadTime>,
    waits: HashMap<(ThreadId, Option<Reason>), Waited>,
    rivals: HashMap<(ThreadId, Option<ThreadId>), u64>,
    spreads: HashMap<ThreadId, Times>,
    /// By CPU; machines are apart.
    runs: HashMap<(u8, u32), VecDeque<ThreadRun>>,
    delays: Longest<(ThreadId, u32)>,
    virtual_cpus: Option<VirtualCpus>,
}

impl ThreadCounter {
    /// In this time, with so many of the longest delays.
    #[must_use]
    pub fn new(range: TimeRange, delays: impl Into<Kept>) -> ThreadCounter {
        ThreadCounter {
            range,
            times: Vec::new(),
            waits: HashMap::new(),
            rivals: HashMap::new(),
            spreads: HashMap::new(),
            runs: HashMap::new(),
            delays: Longest::new(delays.into()),
            virtual_cpus: None,
        }
    }

    /// The same; where these traces are of a host and its guests, with what virtual CPUs waited for.
    #[must_use]
    pub fn with_guests(
        reader: &Reader,
        range: TimeRange,
        delays: impl Into<Kept>,
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

    /// Who ran on the CPU that the thread got in the end.
    fn rivals(&mut self, machine: u8, thread: ThreadId, cpu: u32, from: i64, to: i64) {
        let mut left = to.abs_diff(from);
        let runs = self.runs.get(&(machine, cpu));
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

    /// What was counted; by process, or by thread.
    #[must_use]
    pub fn finish(mut self, world: &World, by_process: bool) -> ThreadsReport {
        let mut rows: HashMap<ThreadId, Row> = HashMap::new();
        for ((id, _), times) in world.threads.iter().zip(self.times.iter().skip(1)) {
            let row = Row {
                label: Label::thread(world, id),
                running: times.running,
                woken: times.woken,
                preempted: times.preempted,
                blocked: times.blocked,
                unknown: times.unknown,
                runs: times.runs,
                delay: times.delay,
                delays: self.spreads.remove(&id).unwrap_or_default(),
                ..Row::default()
            };
            // Of others nothing is known but that they were there.
            if row.running + row.runnable() + row.blocked > 0 {
                rows.insert(id, row);
            }
        }
        for ((id, reason), waited) in self.waits {
            if let Some(row) = rows.get_mut(&id) {
                row.waits.push(wait(world, id, reason, waited));
            }
        }
        for ((id, rival), nanos) in self.rivals {
            let rival = rival.map(|rival| match by_process {
                true => Label::process(world, rival),
                false => Label::thread(world, rival),
            });
            if let Some(row) = rows.get_mut(&id) {
                row.rivals.push((rival, nanos));
            }
        }
        let mut all: Vec<Row> = match by_process {
            false => rows.into_values().collect(),
            true => {
                let mut processes: HashMap<ThreadId, Row> = HashMap::new();
                let mut rows: Vec<(ThreadId, Row)> = rows.into_iter().collect();
                rows.sort_by_key(|&(id, _)| id);
                for (id, row) in rows {
                    let main = world.process_of(id);
                    let whole = processes.entry(main).or_default();
                    whole.merge(row);
                    whole.label = Label::process(world, main);
                }
                processes.into_values().collect()
            }
        };
        if by_process {
            all.iter_mut().for_each(Row::join);
        }
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

/// All of this time: who had the CPU of these runs when.
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
    rivals: &mut HashMap<(ThreadId, Option<ThreadId>), u64>,
    key: (ThreadId, Option<ThreadId>),
    nanos: u64,
) {
    let is_full = rivals.len() >= RIVALS_MAX && !rivals.contains_key(&key);
    let known = rivals.entry(if is_full { (key.0, None) } else { key }).or_default();
    *known = known.saturating_add(nanos);
}

/// A reason as words.
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
        ..Wait::default()
    }
}

/// How a thread slept, or what else is known; empty: nothing.
pub(crate) fn sleep_of(reason: Reason) -> &'static str {
    match (reason.object, reason.sleep) {
        (Object::Fault, _) => "page fault",
        (_, Sleep::Interruptible) => "sleep",
        (_, Sleep::Uninterruptible) => "uninterruptible",
        (_, Sleep::Stopped) => "stopped",
        (_, Sleep::Idle) => "idle",
        (_, Sleep::Other) => "",
    }
}

/// The same, with who ended it so many times.
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

/// Who ends waits, if it is no thread.
pub(crate) fn ended_by(waker: Waker) -> &'static str {
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

/// The device that ended a wait of this thread, if one did.
pub(super) fn device(world: &World, id: ThreadId, waker: Waker) -> Option<Device> {
    let Waker::Device(number) = waker else { return None };
    let machine = world.threads.get(id)?.machine;
    Some(Device { number, name: world.interrupt_name(machine, number) })
}

/// Who ended most waits, and how many: a thread's are one, of whatever part of them that is sure. What it says is
/// sure is what most of them are.
fn most(wakers: &[(Waker, u64)]) -> Option<(Waker, u64)> {
    let thread = |waker: Waker| match waker {
        Waker::Thread { thread, is_sure } => Some((thread, is_sure)),
        _ => None,
    };
    let all = |of: Waker| -> u64 {
        let is_same = |other: Waker| match (thread(of), thread(other)) {
            (Some((one, _)), Some((other, _))) => one == other,
            _ => of == other,
        };
        let same = wakers.iter().filter(|(waker, _)| is_same(*waker));
        same.map(|(_, count)| count).fold(0, |sum, &count| sum.saturating_add(count))
    };
    // Of those that did so equally often, the one that came first.
    let all = wakers.iter().map(|&(waker, count)| (waker, count, all(waker)));
    let most = all.max_by_key(|&(waker, count, all)| {
        (all, Reverse(thread(waker).map(|it| it.0)), count, Reverse(thread(waker)))
    });
    most.map(|(waker, _, all)| (waker, all))
}

/// What was counted of a reason.
pub(super) fn wait(world: &World, id: ThreadId, reason: Option<Reason>, waited: Waited) -> Wait {
    let (waker, times) = most(&waited.wakers).unwrap_or((Waker::Unknown, 0));
    Wait {
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
            let runs = self.runs.entry((machine, cpu)).or_default();
            if runs.len() >= RUNS_MAX {
                runs.pop_front();
            }
            runs.push_back((interval.from, interval.to, thread));
        }
        if let Some(virtual_cpus) = &mut self.virtual_cpus {
            let runs = interval.cpu.and_then(|cpu| self.runs.get(&(machine, cpu)));
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
            waited.timed_out(interval.waker);
        }
    }
}

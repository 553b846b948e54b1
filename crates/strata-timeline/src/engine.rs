//! Facts to state: the rules by which one follows from the other.

mod before;
mod counters;
mod hidden;
mod requests;
mod spans;

use crate::before::FactsBefore;
use crate::calls::{CallId, CallKind};
use crate::counters::OpenCounters;
use crate::fact::{Brief, Fact, More, RecordText, Spot};
use crate::files;
use crate::hidden::{Given, Hidden, Switches};
use crate::id::ThreadId;
use crate::observer::{Call, DiskRequest, Interrupt, Observer, Run, Unpaired, UnpairedCall};
use crate::requests::{kind_of, Requests};
use crate::spans::OpenSpans;
use crate::state::{Interval, Object, Reason, Sleep, State, Waker};
use crate::threads::{OpenCall, Thread, NEVER};
use crate::world::{EndingRecord, World};

/// CPUs of a machine that are told apart.
const CPUS_MAX: usize = 1 << 13;
/// Interrupts in each other.
const DEPTH_MAX: usize = 8;
/// Gaps whose begins are kept; what is behind more of them is unknown from the last one on.
const GAPS_MAX: usize = 1 << 20;
/// For so long behind its record the kernel may still be at work on a page fault \[ns\]. Most take a microsecond; no
/// record tells the end, and what interrupts the thread's own code later is not to be taken for it.
const FAULT_MAX: u64 = 10_000;

/// Bits of a thread's state when it leaves a CPU, in all kernels.
const INTERRUPTIBLE: i64 = 1;
const UNINTERRUPTIBLE: i64 = 2;
const STOPPED: i64 = 4 | 8;
const DEAD: i64 = 16 | 32;
const IDLE: i64 = 128;
/// Those above mean that it was runnable.
const SLEEPS: i64 = 255;

const ETIMEDOUT: i64 = 110;

/// Softirqs that there are.
const SOFTIRQS: usize = 16;
/// Softirqs that run what timers are for.
const TIMER_SOFTIRQS: [u8; 2] = [1, 8];

#[derive(Debug, Default)]
struct CpuState {
    /// `None`: nobody knows.
    thread: Option<ThreadId>,
    /// Since when that is so.
    since: i64,
    /// A switch was seen: who runs is known from there on.
    has_switches: bool,
    /// To whom the last one was.
    given: Option<Given>,
    /// What it had run, from when on, up to when records were discarded; not told yet.
    before_gap: Option<(Option<ThreadId>, i64, i64)>,
    /// With the time of the begin, and whether that was selected.
    open: Vec<(Interrupt, i64, bool)>,
    /// The last request to a disk that was said to be done, and in how many interrupts in each other; until the innermost
    /// of these is over.
    done: Option<(DiskRequest, usize)>,
    /// Softirqs that are to be done, since when.
    raised: [Option<i64>; SOFTIRQS],
}

#[derive(Debug, Default)]
struct MachineCpus {
    cpus: Vec<CpuState>,
    /// When records were discarded; a thread has the number of those that it is known behind.
    gaps: Vec<i64>,
}

impl MachineCpus {
    fn gap(&self) -> u32 {
        u32::try_from(self.gaps.len()).unwrap_or(u32::MAX)
    }
}

/// What follows from facts.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub world: World,
    machines: Vec<MachineCpus>,
    requests: Requests,
    spans: OpenSpans,
    /// By trace: how often records were discarded.
    span_gaps: Vec<u32>,
    counters: OpenCounters,
    before: FactsBefore,
}

impl Engine {
    /// Of so many machines.
    pub(crate) fn new(names: Vec<String>) -> Engine {
        let machines = names.iter().map(|_| MachineCpus::default()).collect();
        let mut world = World::default();
        world.hidden = Hidden::of(&vec![Switches::NotSaid; names.len()]);
        world.machines = names;
        Engine { world, machines, ..Engine::default() }
    }

    /// What a record says, in the order of time.
    #[inline]
    pub(crate) fn apply<O: Observer>(&mut self, spot: Spot, fact: Fact<'_>, seen: &mut O) {
        let time = spot.time;
        self.world.told = EndingRecord { machine: spot.machine, selected: spot.selected };
        match fact {
            // These are of another stream than that of the CPU, and say nothing of what runs.
            Fact::There { tid, process, parent, name } => {
                return self.there(spot, tid, process, parent, name, seen);
            }
            Fact::Named { tid, name } => {
                let thread = self.thread(spot.machine, tid, seen);
                return thread.into_iter().for_each(|thread| self.name(thread, name));
            }
            Fact::Whose => return self.whose(spot, seen),
            Fact::Program { tid, process, name } => {
                return self.there(spot, tid, process, None, name, seen);
            }
            Fact::Opened { process, descriptor, flags, path } => {
                let who = self.thread(spot.machine, process, seen);
                let who = who.filter(|&who| who != ThreadId::IDLE);
                let Some(who) = who else { return };
                return files::there(&mut self.world, who, descriptor, flags, path);
            }
            Fact::DeviceName { device, name } => {
                let device = u32::try_from(device).unwrap_or(u32::MAX);
                let name = name.bytes().unwrap_or_default();
                return self.world.name_disk(spot.machine, device, &name);
            }
            Fact::InterruptName { number, name } => {
                let number = i32::try_from(number).unwrap_or(-1);
                let name = name.bytes().unwrap_or_default();
                return self.world.name_interrupt(spot.machine, number, &name);
            }
            Fact::Span(mark) => return self.span(spot, mark, seen),
            _ => {}
        }
        let who = self.who(spot, seen);
        match fact {
            Fact::Enter { call, object, more } => {
                let Some(who) = who else { return };
                let open = files::begin(&mut self.world, who, call, object, more, O::FILES);
                let is_last = self.world.calls.kind(call) == CallKind::Exit;
                let open = OpenCall { begin: time, selected: spot.selected, ..open };
                self.enter(who, open, is_last, seen);
            }
            Fact::Leave { call, result, more } => {
                if let Some(who) = who {
                    self.leave(who, call, result, more, (time, spot.selected), seen);
                }
            }
            Fact::Switch { prev, prev_state, next, prev_name, next_name } => {
                let Some(cpu) = spot.cpu else { return };
                self.stop(spot, cpu, prev, prev_state, prev_name, seen);
                self.run(spot, cpu, next, next_name, seen);
            }
            Fact::Waking { tid, name } => self.wake(spot, tid, name, who, true, seen),
            Fact::Wakeup { tid, name } => self.wake(spot, tid, name, who, false, seen),
            Fact::Fault => {
                if let Some(thread) = who.and_then(|who| self.world.threads.get_mut(who)) {
                    thread.fault = time;
                }
            }
            Fact::Signal { tid } => {
                let id = self.thread(spot.machine, tid, seen);
                if let Some(thread) = id.and_then(|id| self.world.threads.get_mut(id)) {
                    thread.is_signalled = true;
                }
            }
            Fact::InterruptEnter(number, name) => {
                let number = i32::try_from(number).unwrap_or(-1);
                if !self.world.knows_interrupt(spot.machine, number) {
                    let name = name.bytes().unwrap_or_default();
                    self.world.name_interrupt(spot.machine, number, &name);
                }
                self.interrupt(spot, Some(Interrupt::Device(number)), seen);
            }
            Fact::SoftirqRaise(number) => {
                let of = spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu));
                let at = usize::try_from(number).unwrap_or(SOFTIRQS);
                if let Some(slot) = of.and_then(|of| of.raised.get_mut(at)) {
                    slot.get_or_insert(time);
                }
            }
            Fact::SoftirqEnter(number) => {
                let number = u8::try_from(number).unwrap_or(u8::MAX);
                let of = spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu));
                let raised = of.and_then(|of| of.raised.get_mut(usize::from(number))?.take());
                if let (Some(raised), Some(cpu)) = (raised, spot.cpu) {
                    let delay = time.max(raised).abs_diff(raised);
                    seen.softirq_begins(&self.world, cpu, number, delay);
                }
                self.interrupt(spot, Some(Interrupt::Softirq(number)), seen);
            }
            Fact::InterruptLeave | Fact::SoftirqLeave => self.interrupt(spot, None, seen),
            Fact::Fork { parent, child, process, name } => {
                let parent = match parent {
                    Some(parent) => self.thread(spot.machine, parent, seen),
                    None => who,
                };
                self.fork(spot, parent, child, process, name, seen);
            }
            Fact::Issue { place, kind, bits } => {
                let (kind, when) = (kind_of(kind.short(), bits), (time, spot.selected));
                self.requests.begin((spot.machine, place), kind, who, when);
            }
            Fact::Queue { place } => self.requests.queue((spot.machine, place), time),
            Fact::Complete { place, error } => self.done(spot, place, error, seen),
            Fact::Exec => {
                if let Some(who) = who {
                    files::exec(&mut self.world, who);
                }
                if let Some(thread) = who.and_then(|who| self.world.threads.get_mut(who)) {
                    thread.wants_name = true;
                }
            }
            Fact::Exit { tid, name } => {
                if let Some(id) = self.thread(spot.machine, tid, seen) {
                    self.name_if_wanted(id, name);
                    if let Some(thread) = self.world.threads.get_mut(id) {
                        thread.is_exiting = true;
                        thread.open = None;
                    }
                    self.counters_exit(id, time);
                    seen.exits(&self.world, id);
                }
            }
            _ => {}
        }
    }

    /// The same of a record that says nothing but that a thread, which is known to run, begins or ends a call, and of
    /// one of which nobody wants to know what it is about.
    #[inline(always)]
    pub(crate) fn apply_brief<O: Observer>(
        &mut self,
        who: ThreadId,
        brief: Brief,
        told: EndingRecord,
        time: i64,
        seen: &mut O,
    ) {
        self.world.told = told;
        let selected = told.selected;
        match brief {
            Brief::Made => self.is_seen(who),
            Brief::Enter(call) => {
                let open = OpenCall { begin: time, selected, ..OpenCall::of(call) };
                self.enter(who, open, false, seen);
            }
            Brief::Leave(call, result) => {
                self.leave(who, call, result, More::None, (time, selected), seen);
            }
        }
    }

    /// Records of a CPU, or of any if that is not known, were discarded from a time on.
    pub(crate) fn gap(&mut self, machine: u8, cpu: Option<u32>, from: i64) {
        let Some(of) = self.machines.get_mut(usize::from(machine)) else { return };
        if of.gaps.len() < GAPS_MAX {
            of.gaps.push(from);
        } else if let Some(last) = of.gaps.last_mut() {
            *last = from;
        }
        let gap = of.gap();
        self.before.forget(machine);
        self.world.forget_descriptors();
        self.requests.clear();
        for (number, other) in of.cpus.iter_mut().enumerate() {
            if cpu.is_some_and(|cpu| usize::try_from(cpu) != Ok(number)) {
                // What runs on another CPU is known.
                let thread = other.thread.and_then(|it| self.world.threads.get_mut(it));
                if let Some(thread) = thread {
                    if thread.gaps + 1 >= gap {
                        thread.gaps = gap;
                    }
                }
            } else {
                let is_hidden = other.hides(&mut self.world, machine, from);
                if other.before_gap.is_none() {
                    let from = from.max(other.since);
                    let ran = other.thread.filter(|_| other.has_switches && !is_hidden);
                    other.before_gap = Some((ran, other.since, from));
                    other.since = from;
                }
                other.thread = None;
                other.open.clear();
                other.done = None;
                other.raised = [None; SOFTIRQS];
            }
        }
    }

    /// What was discarded behind the last record is behind the time that is told of.
    fn forget_behind(&mut self, now: i64) {
        for of in &mut self.machines {
            of.gaps.iter_mut().for_each(|gap| *gap = now.min(*gap));
            for cpu in &mut of.cpus {
                cpu.since = now.min(cpu.since);
                cpu.before_gap =
                    cpu.before_gap.map(|(ran, from, to)| (ran, now.min(from), now.min(to)));
            }
        }
    }

    /// The trace is over.
    pub(crate) fn finish<O: Observer>(&mut self, seen: &mut O) {
        let now = self.world.now;
        self.forget_behind(now);
        for machine in 0..self.machines.len() {
            let machine = u8::try_from(machine).unwrap_or(u8::MAX);
            let cpus = self.machines.get(usize::from(machine)).map_or(0, |of| of.cpus.len());
            self.world.told = EndingRecord { machine, selected: false };
            for cpu in 0..cpus {
                let cpu = u32::try_from(cpu).unwrap_or(u32::MAX);
                let runs = self.has_at_end(machine, cpu, now);
                self.ran(machine, cpu, runs, (now, false), seen);
            }
        }
        let all: Vec<ThreadId> = self.world.threads.iter().map(|(id, _)| id).collect();
        for id in all {
            self.refresh(id, seen);
            let open = self.world.threads.get_mut(id).and_then(|thread| thread.open.take());
            if let Some(open) = open {
                seen.unpaired(&self.world, &unpaired(id, &open, Unpaired::NoEnd));
            }
            if self.world.threads.get(id).is_some_and(|thread| thread.state != State::Gone) {
                self.change(id, now, State::Gone, (Waker::Unknown, None), seen);
            }
        }
        self.finish_spans(seen);
        self.finish_counters(seen);
    }

    /// Who made the record; what it says of who runs is taken.
    #[inline]
    pub(crate) fn who<O: Observer>(&mut self, spot: Spot, seen: &mut O) -> Option<ThreadId> {
        let Some(tid) = spot.tid else {
            return self.cpu(spot.machine, spot.cpu?)?.thread.filter(|&it| it != ThreadId::IDLE);
        };
        // Mostly it is the one of the record before.
        let who = match self.running(spot.machine, spot.cpu, tid) {
            Some(who) => who,
            None => {
                let who = self.thread(spot.machine, tid, seen)?;
                if let Some(cpu) = spot.cpu {
                    self.runs(spot.machine, cpu, who, spot.time, seen);
                }
                who
            }
        };
        self.is_seen(who);
        if let Some(pid) = spot.pid {
            if self.world.threads.get(who).is_some_and(|thread| thread.main.is_none()) {
                self.belongs(who, spot.machine, pid, seen);
            }
        }
        Some(who).filter(|&who| who != ThreadId::IDLE)
    }

    /// What runs on a CPU; `None`: nobody knows.
    #[inline]
    pub(crate) fn runs_on(&self, machine: u8, cpu: u32) -> Option<ThreadId> {
        let of = self.machines.get(usize::from(machine))?;
        of.cpus.get(usize::try_from(cpu).ok()?)?.thread
    }

    /// A record says of which process its thread is.
    fn whose<O: Observer>(&mut self, spot: Spot, seen: &mut O) {
        let (Some(tid), Some(pid)) = (spot.tid, spot.pid) else { return };
        let who = self.thread(spot.machine, tid, seen).filter(|&who| who != ThreadId::IDLE);
        let thread = who.and_then(|who| self.world.threads.get(who).zip(Some(who)));
        if let Some((_, who)) = thread.filter(|(thread, _)| thread.main.is_none()) {
            self.belongs(who, spot.machine, pid, seen);
        }
    }

    /// The thread of this number, if it is known to run on this CPU.
    #[inline]
    pub(crate) fn running(&self, machine: u8, cpu: Option<u32>, tid: i64) -> Option<ThreadId> {
        let of = self.machines.get(usize::from(machine))?;
        let who = of.cpus.get(usize::try_from(cpu?).ok()?)?.thread?;
        let thread = self.world.threads.get(who)?;
        let is_known = i64::from(thread.tid) == tid && thread.gaps == of.gap();
        (is_known && thread.machine == machine).then_some(who)
    }

    /// The thread of this number, which is made if it is not known.
    #[inline]
    pub(crate) fn thread<O: Observer>(
        &mut self,
        machine: u8,
        tid: i64,
        seen: &mut O,
    ) -> Option<ThreadId> {
        if tid == 0 {
            return Some(ThreadId::IDLE);
        }
        match self.world.threads.find(machine, tid) {
            Some(id) => {
                self.refresh(id, seen);
                Some(id)
            }
            None => self.add(machine, tid, self.world.begin.unwrap_or(0)),
        }
    }

    #[cold]
    fn add(&mut self, machine: u8, tid: i64, since: i64) -> Option<ThreadId> {
        let id = self.add_new(machine, tid, since)?;
        if !self.before.is_empty() {
            self.was_there(machine, tid, id);
        }
        Some(id)
    }

    /// The same of one that was not there before.
    fn add_new(&mut self, machine: u8, tid: i64, since: i64) -> Option<ThreadId> {
        let gaps = self.machines.get(usize::from(machine))?.gap();
        let tid = i32::try_from(tid).ok()?;
        self.world.threads.add(Thread::new(machine, tid, since, gaps))
    }

    /// Forget what was known of a thread before records were discarded.
    #[inline]
    fn refresh<O: Observer>(&mut self, id: ThreadId, seen: &mut O) {
        let Some(thread) = self.world.threads.get(id) else { return };
        let Some(of) = self.machines.get(usize::from(thread.machine)) else { return };
        if thread.gaps == of.gap() || id == ThreadId::IDLE {
            return;
        }
        self.unknown_since_gap(id, seen);
    }

    #[cold]
    fn unknown_since_gap<O: Observer>(&mut self, id: ThreadId, seen: &mut O) {
        let Some(thread) = self.world.threads.get(id) else { return };
        let Some(of) = self.machines.get(usize::from(thread.machine)) else { return };
        let at = usize::try_from(thread.gaps).ok().and_then(|at| of.gaps.get(at));
        let (at, gap) = (at.copied().unwrap_or(self.world.now), of.gap());
        if thread.state != State::Gone {
            self.change(id, at, State::Unknown, (Waker::Unknown, None), seen);
        }
        let Some(thread) = self.world.threads.get_mut(id) else { return };
        thread.gaps = gap;
        thread.wakes = None;
        thread.has_calls = false;
        thread.is_new = false;
        thread.fault = NEVER;
        if let Some(open) = thread.open.take() {
            seen.unpaired(&self.world, &unpaired(id, &open, Unpaired::Gap));
        }
    }

    #[inline]
    fn cpu(&mut self, machine: u8, cpu: u32) -> Option<&mut CpuState> {
        let cpus = &mut self.machines.get_mut(usize::from(machine))?.cpus;
        let at = usize::try_from(cpu).ok().filter(|&at| at < CPUS_MAX)?;
        if cpus.len() <= at {
            cpus.resize_with(at + 1, CpuState::default);
        }
        cpus.get_mut(at)
    }

    /// A CPU has done this up to now, since what was told before.
    fn ran<O: Observer>(
        &mut self,
        machine: u8,
        cpu: u32,
        thread: Option<ThreadId>,
        (to, is_switch): (i64, bool),
        seen: &mut O,
    ) {
        let begin = self.world.begin.unwrap_or(to);
        let Some(of) = self.cpu(machine, cpu) else { return };
        let from = of.since.max(begin);
        of.since = to.max(from);
        of.has_switches |= is_switch;
        let thread = thread.filter(|_| of.has_switches);
        if let Some((thread, from, to)) = of.before_gap.take() {
            let (from, to) = (from.max(begin), to.max(begin));
            seen.ran(&self.world, &Run { cpu, thread, from, to, is_switch: false });
        }
        seen.ran(&self.world, &Run { cpu, thread, from, to: to.max(from), is_switch });
    }

    /// A state ends, and another one begins.
    fn change<O: Observer>(
        &mut self,
        id: ThreadId,
        time: i64,
        state: State,
        (waker, cpu): (Waker, Option<u32>),
        seen: &mut O,
    ) {
        let Some(thread) = self.world.threads.get_mut(id) else { return };
        if id == ThreadId::IDLE {
            return;
        }
        let (from, to) = (thread.since, time.max(thread.since));
        let interval = Interval { from, to, state: thread.state, waker, cpu };
        thread.spent = thread.spent.plus(thread.state.spent(to.abs_diff(from)));
        thread.state = state;
        thread.since = to;
        if to > from {
            seen.state(&self.world, id, &interval);
        }
    }

    /// The thread runs there: if that is new, no record has said how it came to it.
    #[inline]
    fn runs<O: Observer>(&mut self, machine: u8, cpu: u32, who: ThreadId, time: i64, seen: &mut O) {
        let Some(of) = self.cpu(machine, cpu) else { return };
        if of.thread == Some(who) {
            return;
        }
        let before = of.thread.replace(who);
        let given = self.contradicts((machine, cpu), who, time);
        self.ran(machine, cpu, None, (time, false), seen);
        self.replaced((cpu, given), before, who, time, seen);
    }

    /// A record was made by this thread.
    #[inline]
    fn is_seen(&mut self, who: ThreadId) {
        if let Some(thread) = self.world.threads.get_mut(who) {
            thread.is_seen = true;
        }
    }

    #[cold]
    fn replaced<O: Observer>(
        &mut self,
        (cpu, given): (u32, Option<i64>),
        before: Option<ThreadId>,
        who: ThreadId,
        time: i64,
        seen: &mut O,
    ) {
        // It has wanted the CPU until the other one got it; when it got it itself, nobody knows.
        if let (Some(given), Some(thread)) = (given, self.world.threads.get(who)) {
            if matches!(thread.state, State::Runnable { .. }) && thread.since < given {
                self.change(who, given, State::Unknown, (Waker::Unknown, None), seen);
            }
        }
        for (id, state) in [(before, State::Unknown), (Some(who), State::Running { cpu })] {
            let Some(id) = id else { continue };
            let Some(thread) = self.world.threads.get_mut(id) else { continue };
            let is_there = thread.state == State::Running { cpu };
            match state {
                // It has moved on since: what it did last is not known.
                State::Unknown if !is_there => continue,
                State::Running { .. } if is_there => continue,
                _ => thread.state = State::Unknown,
            }
            self.change(id, time, state, (Waker::Unknown, None), seen);
        }
    }

    fn stop<O: Observer>(
        &mut self,
        spot: Spot,
        cpu: u32,
        prev: i64,
        prev_state: Option<i64>,
        name: RecordText<'_>,
        seen: &mut O,
    ) {
        let Some(prev) = self.thread(spot.machine, prev, seen) else {
            self.follows(spot, cpu, None, seen);
            if let Some(of) = self.cpu(spot.machine, cpu) {
                of.thread = None;
            }
            return;
        };
        self.runs(spot.machine, cpu, prev, spot.time, seen);
        self.follows(spot, cpu, Some(prev), seen);
        self.name_if_new(prev, name);
        let Some(thread) = self.world.threads.get_mut(prev) else { return };
        thread.is_seen = true;
        let in_fault = std::mem::replace(&mut thread.fault, NEVER) != NEVER;
        // Where its calls are not in the trace, one of them may have stopped it since; those that wait for somebody can be
        // interrupted.
        let is_sure =
            thread.has_calls || prev_state.is_some_and(|bits| bits & UNINTERRUPTIBLE != 0);
        let (open, is_exiting) = (thread.open, thread.is_exiting);
        let state = match prev_state {
            None => State::Unknown,
            Some(bits) if bits & SLEEPS == 0 => State::Runnable { woken: false },
            Some(bits) if bits & DEAD != 0 => State::Gone,
            Some(bits) => State::Blocked(Reason {
                sleep: sleep(bits),
                call: open.map(|open| open.call),
                object: match open {
                    Some(open) => open.object,
                    // A fault is not what stops a thread.
                    None if in_fault && is_sure && bits & STOPPED == 0 => Object::Fault,
                    None => Object::None,
                },
            }),
        };
        self.change(prev, spot.time, state, (Waker::Unknown, None), seen);
        if state == State::Gone && is_exiting {
            self.world.forget_files(prev);
        }
    }

    fn run<O: Observer>(
        &mut self,
        spot: Spot,
        cpu: u32,
        next: i64,
        name: RecordText<'_>,
        seen: &mut O,
    ) {
        let mut id = self.thread(spot.machine, next, seen);
        let state = id.and_then(|id| self.world.threads.get(id)).map(|thread| thread.state);
        match state {
            // Its number was given to another thread, of which no record tells the begin.
            Some(State::Gone) => id = self.add_new(spot.machine, next, spot.time),
            Some(State::Running { .. }) => {
                if let Some(thread) = id.and_then(|id| self.world.threads.get_mut(id)) {
                    thread.state = State::Unknown;
                }
            }
            _ => {}
        }
        let Some(of) = self.cpu(spot.machine, cpu) else { return };
        let before = std::mem::replace(&mut of.thread, id);
        let (from, trace) = (spot.time, spot.home.trace);
        of.given = id.map(|thread| Given { thread, from, found: None, trace });
        self.ran(spot.machine, cpu, before, (spot.time, true), seen);
        let Some(id) = id else { return };
        self.name_if_wanted(id, name);
        self.change(id, spot.time, State::Running { cpu }, (Waker::Unknown, Some(cpu)), seen);
        if let Some(thread) = self.world.threads.get_mut(id) {
            thread.wakes = None;
            thread.is_signalled = false;
        }
    }

    fn wake<O: Observer>(
        &mut self,
        spot: Spot,
        tid: i64,
        name: RecordText<'_>,
        by: Option<ThreadId>,
        is_by_waker: bool,
        seen: &mut O,
    ) {
        let Some(id) = self.thread(spot.machine, tid, seen) else { return };
        self.name_if_wanted(id, name);
        if !O::STATES {
            // Nobody wants to know by whom.
            let state = self.world.threads.get(id).map(|thread| thread.state);
            if matches!(state, Some(State::Blocked(_) | State::Unknown)) {
                let woken = State::Runnable { woken: true };
                self.change(id, spot.time, woken, (Waker::Unknown, None), seen);
            }
            return;
        }
        let waker = self.waker(spot, by);
        let Some(thread) = self.world.threads.get_mut(id) else { return };
        match thread.state {
            State::Blocked(reason) => {
                let is_now = thread.wakes.is_none();
                let waker = thread.wakes.take().unwrap_or(waker);
                let kind = reason.call.map(|call| self.world.calls.kind(call));
                // Nothing but a signal ends it before, whoever the interrupt has found there.
                let timer = kind == Some(CallKind::Sleep) && !thread.is_signalled;
                let waker = if timer { Waker::Timer } else { waker };
                let may_time_out = waker != Waker::Timer
                    && reason.sleep == Sleep::Interruptible
                    && matches!(kind, Some(CallKind::Poll | CallKind::Futex));
                let (from, to) = (thread.since, spot.time.max(thread.since));
                let interval = Interval { from, to, state: thread.state, waker, cpu: None };
                thread.may_time_out = Some(interval).filter(|_| may_time_out && to > from);
                self.change(id, spot.time, State::Runnable { woken: true }, (waker, None), seen);
                if is_now && to > from {
                    self.waited_for(spot, (id, &interval), seen);
                }
            }
            State::Unknown => {
                self.change(id, spot.time, State::Runnable { woken: true }, (waker, None), seen);
            }
            // It is on its way to sleep, and will be told then; or it does not go to sleep after all.
            State::Running { .. } => thread.wakes = is_by_waker.then_some(waker),
            State::Runnable { .. } | State::Gone => {}
        }
    }

    fn waker(&mut self, spot: Spot, by: Option<ThreadId>) -> Waker {
        let of = spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu));
        let (open, runs) = match of {
            Some(of) => (of.open.last().map(|&(which, ..)| which), of.thread),
            None => (None, None),
        };
        match open {
            Some(Interrupt::Device(number)) => return Waker::Device(number),
            Some(Interrupt::Softirq(number)) if TIMER_SOFTIRQS.contains(&number) => {
                return Waker::Timer;
            }
            Some(Interrupt::Softirq(number)) => return Waker::Softirq(number),
            None => {}
        }
        let Some(by) = by else {
            // A CPU that has nothing to do wakes nobody but by an interrupt.
            return match runs {
                Some(ThreadId::IDLE) => Waker::Interrupt,
                _ => Waker::Unknown,
            };
        };
        let Some(thread) = self.world.threads.get(by) else { return Waker::Unknown };
        let is_kernel = self.world.is_of_kernel(thread);
        if thread.open.is_some() || thread.is_exiting || is_kernel {
            return Waker::Thread { thread: by, is_sure: true };
        }
        let is_in_fault = thread.fault != NEVER && spot.time.abs_diff(thread.fault) <= FAULT_MAX;
        match thread.has_calls && !is_in_fault {
            // It ran, and called nobody.
            true => Waker::Interrupt,
            false => Waker::Thread { thread: by, is_sure: false },
        }
    }

    #[inline(always)]
    fn enter<O: Observer>(&mut self, who: ThreadId, open: OpenCall, is_last: bool, seen: &mut O) {
        let Some(thread) = self.world.threads.get_mut(who) else { return };
        thread.has_calls = true;
        thread.is_seen = true;
        thread.is_new = false;
        thread.fault = NEVER;
        thread.is_exiting |= is_last;
        // Field by field: what has just been written in parts is slow to be copied as a whole.
        let before = thread.open.as_ref().map(|before| unpaired(who, before, Unpaired::NoEnd));
        thread.open = match is_last {
            true => None,
            false => Some(open),
        };
        if let Some(before) = before {
            seen.unpaired(&self.world, &before);
        }
    }

    #[inline(always)]
    fn leave<O: Observer>(
        &mut self,
        who: ThreadId,
        call: CallId,
        result: Option<i64>,
        more: More<'_>,
        (time, selected): (i64, bool),
        seen: &mut O,
    ) {
        let kind = self.world.calls.kind(call);
        let Some(thread) = self.world.threads.get_mut(who) else { return };
        let is_new = std::mem::take(&mut thread.is_new);
        thread.has_calls = true;
        thread.is_seen = true;
        thread.fault = NEVER;
        thread.wants_name |= matches!(kind, CallKind::Rename | CallKind::Exec);
        let done = thread.open.as_ref().map(|open| Call {
            thread: who,
            call: open.call,
            begin: open.begin,
            end: time.max(open.begin),
            result,
            object: open.object,
            target: open.target,
            path: open.path,
            control: open.control,
            selected: open.selected || selected,
        });
        let open = if kind == CallKind::Other { None } else { thread.open };
        let is_selected = thread.open.as_ref().is_some_and(|open| open.selected);
        thread.open = None;
        if let Some(done) = done {
            if done.call == call {
                if let Some(open) = open {
                    self.timed_out(who, &open, result, seen);
                    files::end(&mut self.world, who, &open, result, more);
                }
                return seen.call(&self.world, &done);
            }
            let Call { call, begin: time, .. } = done;
            let (why, selected) = (Unpaired::NoEnd, is_selected);
            seen.unpaired(&self.world, &UnpairedCall { thread: who, call, time, why, selected });
        }
        if !(is_new && kind == CallKind::Fork) {
            let why = Unpaired::NoBegin;
            seen.unpaired(&self.world, &UnpairedCall { thread: who, call, time, why, selected });
        }
    }

    /// Whose time was over was woken by a timer, whomever its interrupt has found there.
    fn timed_out<O: Observer>(
        &mut self,
        who: ThreadId,
        open: &OpenCall,
        result: Option<i64>,
        seen: &mut O,
    ) {
        let is_over = match self.world.calls.kind(open.call) {
            CallKind::Poll => result == Some(0) && open.timeout.is_none_or(|timeout| timeout > 0),
            CallKind::Futex => result == Some(-ETIMEDOUT),
            _ => return,
        };
        let thread = self.world.threads.get_mut(who);
        let wait = thread.and_then(|thread| thread.may_time_out.take());
        if let Some(wait) = wait.filter(|wait| is_over && wait.from >= open.begin) {
            seen.timed_out(&self.world, who, &wait);
        }
    }

    fn interrupt<O: Observer>(&mut self, spot: Spot, begins: Option<Interrupt>, seen: &mut O) {
        let Some(cpu) = spot.cpu else { return };
        let Some(of) = self.cpu(spot.machine, cpu) else { return };
        let thread = of.thread;
        match begins {
            Some(which) if of.open.len() < DEPTH_MAX => {
                of.open.push((which, spot.time, spot.selected));
            }
            Some(_) => {}
            None => {
                if let Some((which, from, selected)) = of.open.pop() {
                    let depth = of.open.len();
                    of.done = of.done.filter(|&(_, in_each_other)| in_each_other <= depth);
                    self.world.told.selected |= selected;
                    seen.interrupt(&self.world, cpu, thread, which, from, spot.time.max(from));
                }
            }
        }
    }

    fn fork<O: Observer>(
        &mut self,
        spot: Spot,
        parent: Option<ThreadId>,
        child: i64,
        process: Option<i64>,
        name: RecordText<'_>,
        seen: &mut O,
    ) {
        let Some(child_id) = self.add_new(spot.machine, child, spot.time) else { return };
        self.name(child_id, name);
        if let Some(thread) = self.world.threads.get_mut(child_id) {
            thread.parent = parent;
            thread.is_new = true;
            thread.born = Some(spot.time);
            // It is woken at once.
            thread.state = State::Runnable { woken: true };
        }
        match process {
            Some(process) => self.belongs(child_id, spot.machine, process, seen),
            None => return,
        }
        seen.known(&self.world, child_id);
        let is_process = process.map(|process| process == child);
        files::fork(&mut self.world, parent, child_id, is_process);
        self.give(spot.machine, child, child_id, true);
    }

    fn there<O: Observer>(
        &mut self,
        spot: Spot,
        tid: i64,
        process: i64,
        parent: Option<i64>,
        name: RecordText<'_>,
        seen: &mut O,
    ) {
        let Some(id) = self.thread(spot.machine, tid, seen) else { return };
        if id == ThreadId::IDLE {
            return;
        }
        self.name(id, name);
        self.belongs(id, spot.machine, process, seen);
        let parent = parent.filter(|&parent| parent > 0);
        let parent = parent.and_then(|parent| self.thread(spot.machine, parent, seen));
        if let Some(thread) = self.world.threads.get_mut(id) {
            thread.parent = thread.parent.or(parent);
        }
        seen.known(&self.world, id);
    }

    /// The thread is one of this process, whose first thread has the process' number.
    fn belongs<O: Observer>(&mut self, id: ThreadId, machine: u8, process: i64, seen: &mut O) {
        let tid = self.world.threads.get(id).map(|thread| i64::from(thread.tid));
        let main = match tid == Some(process) {
            true => Some(id),
            false => self.thread(machine, process, seen).filter(|&main| main != ThreadId::IDLE),
        };
        self.world.threads.has_changed();
        if let Some(thread) = self.world.threads.get_mut(id) {
            thread.main = main;
        }
        // What it has opened is its process'.
        if main != Some(id) {
            self.world.forget_files(id);
        }
        let main = main.and_then(|main| self.world.threads.get_mut(main).zip(Some(main)));
        if let Some((thread, main)) = main {
            thread.main = Some(main);
        }
    }

    /// Others may give a thread a name, which no record tells but that of the next switch.
    #[inline]
    fn name_if_new(&mut self, id: ThreadId, name: RecordText<'_>) {
        let (Some(thread), Some(short)) = (self.world.threads.get_mut(id), name.short()) else {
            return;
        };
        if thread.wants_name || thread.short != short {
            thread.short = short;
            self.name(id, name);
        }
    }

    #[inline]
    fn name_if_wanted(&mut self, id: ThreadId, name: RecordText<'_>) {
        if self.world.threads.get(id).is_some_and(|thread| thread.wants_name) {
            self.name(id, name);
        }
    }

    fn name(&mut self, id: ThreadId, name: RecordText<'_>) {
        let Some(name) = name.bytes().filter(|name| !name.is_empty()) else { return };
        let name = self.world.names.of(&name);
        if let Some(thread) = self.world.threads.get_mut(id) {
            thread.name = name;
            thread.wants_name = false;
        }
    }
}

/// A call that has begun, and has no end or none that is known to be its.
fn unpaired(thread: ThreadId, open: &OpenCall, why: Unpaired) -> UnpairedCall {
    UnpairedCall { thread, call: open.call, time: open.begin, why, selected: open.selected }
}

fn sleep(bits: i64) -> Sleep {
    match bits {
        _ if bits & IDLE != 0 => Sleep::Idle,
        _ if bits & UNINTERRUPTIBLE != 0 => Sleep::Uninterruptible,
        _ if bits & INTERRUPTIBLE != 0 => Sleep::Interruptible,
        _ if bits & STOPPED != 0 => Sleep::Stopped,
        _ => Sleep::Other,
    }
}

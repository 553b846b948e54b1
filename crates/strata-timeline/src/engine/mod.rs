//! The engine applies facts to the state, and reports to an observer what has ended.
//!
//! The state has two halves. The [`World`] is what observers may read: threads, their processes and names, descriptors,
//! calls. The rest is the engine's own: what each CPU runs, requests to disks, open spans and counters.
//!
//! ```text
//! fact ── apply ──┬─ threads: state, open call, name     ── seen.state, seen.call, seen.unpaired
//!                 ├─ CPUs: running thread, interrupts    ── seen.ran, seen.interrupt
//!                 ├─ requests, spans, counters           ── seen.request, seen.span, seen.counter
//!                 └─ files: descriptors of processes        (read by observers from the world)
//! ```
//!
//! # States of a thread
//! A thread is in one state from `since` on. [`Engine::change`] ends it, reports the interval and begins the next:
//!
//! ```text
//!           switch to it            switch from it, sleeping
//!  Runnable ───────────► Running ───────────────────────────► Blocked
//!     ▲  ▲                  │                                    │
//!     │  └──────────────────┘ switch from it, still runnable     │
//!     └──────────────────────────────────────────────────────────┘ waking
//! ```
//!
//! A thread is `Unknown` before its first record, and `Gone` after its last switch. A record that a thread makes on a
//! CPU proves that the thread runs there. If the engine took another thread to run on that CPU, the switch between them
//! was not recorded, and the time of both is unknown ([`Engine::runs`]).
//!
//! # Discarded records
//! Gaps are applied late, since a trace may have many threads and many gaps. [`Engine::gap`] adds the gap to its
//! machine and clears what belongs to the CPU. Each thread holds the number of gaps after which its state was known.
//! [`Engine::thread`] compares the numbers whenever a fact names the thread, and makes its state unknown from the first
//! later gap on. A thread that runs on a CPU without discarded records stays known.
//!
//! A gap has an end, too. Until then, what another CPU records of a thread that leaves it holds for that instant only,
//! as the thread may do anything on the CPU whose records are missing. `open_gaps` has the rule.
//!
//! # Where a rule is
//! `initial_state` and `hidden_threads`: what the first records and missing records imply; `identities`: of which
//! process a thread is, and what it is called; `exec`: a thread that takes its process' number; `wakes`: who ended a
//! wait; `softirqs`: for whom the kernel works between threads; `disk_requests`, `spans` and `counters`: their own
//! facts. Each is an `impl Engine`, and changes states by `change`, `ran` and `thread` of this file.
//!
//! # Cost
//! [`Engine::apply`] is called once for each record that says anything. System calls of a thread that is known to run,
//! the most frequent records, go through [`Engine::apply_brief`] instead, which neither looks up the thread nor visits
//! files. Nothing allocates on that path. All tables have limits, since traces are not trusted: what exceeds one is
//! unknown.

mod counters;
mod disk_requests;
mod exec;
mod gap_ends;
mod hidden_threads;
mod identities;
mod initial_state;
mod open_disk_requests;
mod open_gaps;
mod softirq_causes;
mod softirqs;
mod spans;
pub(crate) mod state_before;
mod wakes;

use crate::counters::OpenCounters;
use crate::descriptors::call_effects;
use crate::engine::gap_ends::{Missing, NextEnd};
use crate::engine::open_disk_requests::{kind_of, Requests};
use crate::engine::softirq_causes::{SoftirqCauses, SOFTIRQS};
use crate::engine::state_before::FactsBefore;
use crate::ids::calls::{is_to_restart, CallId, CallKind};
use crate::ids::names;
use crate::ids::thread_id::ThreadId;
use crate::observer::{Call, DiskRequest, Interrupt, Observer, Run, Unpaired, UnpairedCall};
use crate::records::facts::{Brief, Fact, More, RecordText, Spot};
use crate::records::prev_state::{Departure, StateNumbers};
use crate::records::signals;
use crate::spans::OpenSpans;
use crate::world::hidden_threads::{Given, Hidden, Switches};
use crate::world::state::{Interval, Object, Reason, Sleep, State, Waker};
use crate::world::threads::{Arguments, OpenCall, NEVER};
use crate::world::{EndingRecord, World};

/// The most CPUs of a machine that have a state.
const CPUS_MAX: usize = 1 << 13;
/// The deepest nesting of interrupts on a CPU that is tracked. Deeper interrupts are ignored.
const DEPTH_MAX: usize = 8;
/// The most gaps of a machine whose begins are kept. The last one that is kept stands for all later ones.
const GAPS_MAX: usize = 1 << 20;
/// The longest time after the record of a page fault for which the kernel may still be handling it \[ns\]. Most
/// faults take a microsecond. Their end is not recorded, and later interrupts of the thread must not count as part of
/// the fault.
const FAULT_MAX: u64 = 10_000;

/// The softirqs in which timers expire: TIMER and HRTIMER.
const TIMER_SOFTIRQS: [u8; 2] = [1, 8];

#[derive(Clone, Debug, Default)]
struct CpuState {
    /// The thread that the CPU runs; `None` if the trace does not say.
    thread: Option<ThreadId>,
    /// The time up to which the CPU's runs were reported \[ns since 1970\].
    since: i64,
    /// True if a switch on this CPU was read, so that its running thread is known.
    has_switches: bool,
    /// The switch that gave the CPU to its present thread, if one was recorded.
    given: Option<Given>,
    /// The end of the time in which records of this CPU are missing \[ns since 1970\].
    missing_until: i64,
    /// The run that a gap in the records has ended and that was not reported yet: thread, begin and end.
    before_gap: Option<(Option<ThreadId>, i64, i64)>,
    /// The interrupts being served, the innermost last, each with its begin and true if that record was selected.
    open: Vec<(Interrupt, i64, bool)>,
    /// The last completed request to a disk, and the depth of interrupts in which it was completed. It is removed when
    /// that interrupt ends.
    done: Option<(DiskRequest, usize)>,
    /// The time at which each pending softirq was first raised.
    raised: [Option<i64>; SOFTIRQS],
    causes: SoftirqCauses,
    /// The thread that a record of this CPU has woken last.
    woken: Option<ThreadId>,
}

#[derive(Clone, Debug, Default)]
struct MachineCpus {
    cpus: Vec<CpuState>,
    /// The time of each gap, in order. [`Thread::gaps`] is an index into this list.
    gaps: Vec<i64>,
    missing: Missing,
    numbers: StateNumbers,
    /// True if switches, or their CPUs, are not recorded, so that running threads are unknown.
    is_blind: bool,
    /// True if the traces have records of device interrupts.
    knows_interrupts: bool,
}

impl MachineCpus {
    fn gap(&self) -> u32 {
        u32::try_from(self.gaps.len()).unwrap_or(u32::MAX)
    }
}

/// The engine of a timeline, with the state of all machines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Engine {
    pub world: World,
    machines: Vec<MachineCpus>,
    requests: Requests,
    spans: OpenSpans,
    /// The number of gaps of each trace, by its index.
    span_gaps: Vec<u32>,
    counters: OpenCounters,
    before: FactsBefore,
    next_gap_end: NextEnd,
}

impl Engine {
    /// Returns an engine for machines with these names.
    pub(crate) fn new(names: Vec<String>) -> Engine {
        let machines = names.iter().map(|_| MachineCpus::default()).collect();
        let mut world = World::default();
        world.hidden = Hidden::of(&vec![Switches::NotSaid; names.len()]);
        world.machines = names;
        Engine { world, machines, ..Engine::default() }
    }

    /// Adds machines. `names`: the names of all machines, first of those that are known.
    pub(crate) fn grow(&mut self, names: Vec<String>) {
        self.machines.resize_with(names.len().max(self.machines.len()), MachineCpus::default);
        self.world.machines = names;
    }

    /// Applies a fact, and reports to `seen` the states, calls and spans that it ends. Facts must come in the order
    /// of time.
    #[inline]
    pub(crate) fn apply<O: Observer>(&mut self, spot: &Spot, fact: Fact<'_>, seen: &mut O) {
        let time = spot.time;
        self.world.told = EndingRecord { machine: spot.machine, selected: spot.selected };
        match fact {
            // These are of another stream than that of the CPU, and say nothing of what runs.
            Fact::There { tid, process, parent, name, asleep } => {
                self.there(spot, tid, process, parent, name, seen);
                return self.was_asleep(spot, tid, asleep);
            }
            Fact::Named { tid, name } => {
                let thread = self.thread(spot.machine, tid, seen);
                return thread.into_iter().for_each(|thread| self.name(thread, name));
            }
            Fact::Group { process, path, container, pod, number, is_move } => {
                let texts = [path, container, pod];
                return self.grouped(spot, process, texts, (number, is_move), seen);
            }
            Fact::Whose => return self.whose(spot, seen),
            Fact::Program { tid, process, name } => {
                return self.there(spot, tid, process, None, name, seen);
            }
            Fact::Opened { process, descriptor, flags, path } => {
                let who = self.thread(spot.machine, process, seen);
                let who = who.filter(|&who| who != ThreadId::IDLE);
                let Some(who) = who else { return };
                return call_effects::there(&mut self.world, who, descriptor, flags, path);
            }
            Fact::DeviceName { device, name } => return self.device_is(spot, device, name),
            Fact::InterruptName { number, name } => return self.interrupt_is(spot, number, name),
            Fact::Span(mark) => return self.span(spot, mark, seen),
            Fact::Exec { old: Some(old), .. } => self.leads(spot, old, seen),
            _ => {}
        }
        let who = self.who(spot, seen);
        match fact {
            Fact::Enter { call, elapsed, object, more } => {
                let Some(who) = who else { return };
                let mut open = OpenCall::of(call);
                call_effects::begin(&mut self.world, who, &mut open, object, more, O::FILES);
                if O::STATES {
                    self.sends_meanwhile((spot.machine, spot.cpu), who, &open);
                }
                let is_last = self.world.calls.kind(call) == CallKind::Exit;
                if let Some(again) = self.begins_again(who, call) {
                    open = OpenCall { call, ..again };
                }
                open.begin = time.saturating_sub_unsigned(elapsed);
                open.selected = spot.selected;
                self.enter(who, open, is_last, seen);
            }
            Fact::Deferred { call, more } => {
                let thread = who.and_then(|who| self.world.threads.get(who));
                let open = thread.and_then(|thread| thread.open).filter(|open| open.call == call);
                let (Some(who), Some(mut open)) = (who, open) else { return };
                call_effects::complete(&mut self.world, who, &mut open, more, O::FILES);
                if let Some(thread) = self.world.threads.get_mut(who) {
                    thread.open = Some(open);
                }
            }
            Fact::Leave { call, result, more } => {
                if let Some(who) = who {
                    let kind = self.world.calls.kind(call);
                    let when = (time, spot.selected);
                    self.leave(who, (call, kind), (result, more), when, seen);
                }
            }
            Fact::LeaveAny { result } => {
                let thread = who.and_then(|who| self.world.threads.get(who));
                let open = thread.and_then(|thread| thread.open);
                if let Some((who, open)) = who.zip(open) {
                    let kind = self.world.calls.kind(open.call);
                    let when = (time, spot.selected);
                    self.leave(who, (open.call, kind), (result, More::None), when, seen);
                }
            }
            Fact::Switch { prev, prev_state, next, prev_name, next_name } => {
                let Some(cpu) = spot.cpu else { return self.blind(spot.machine) };
                self.stop(spot, cpu, prev, prev_state, prev_name, seen);
                self.run(spot, cpu, next, next_name, seen);
            }
            Fact::Waking { tid, name } => self.wake(spot, tid, name, who, true, seen),
            Fact::Wakeup { tid, name } => self.wake(spot, tid, name, who, false, seen),
            Fact::Fault => {
                let thread = who.and_then(|who| self.world.threads.get_mut(who));
                thread.into_iter().for_each(|thread| thread.begin_fault(time));
            }
            Fact::Signal { signal, code, target } => {
                if O::STATES && signals::is_of_timer(signal, code) {
                    return self.timer_signals(spot, target, seen);
                }
                let of = spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu));
                let is_sent =
                    of.is_some_and(|of| of.open.is_empty()) && signals::is_of_thread(signal, code);
                let thread =
                    who.filter(|_| is_sent).and_then(|who| self.world.threads.get_mut(who));
                thread.into_iter().for_each(|thread| thread.signals = time);
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
                if let (Ok(number), true) = (u8::try_from(number), O::STATES) {
                    self.softirq_raised(spot, number, who);
                }
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
                if O::STATES {
                    self.softirq_begins(spot, number);
                }
                self.interrupt(spot, Some(Interrupt::Softirq(number)), seen);
            }
            Fact::Timer { begins } => {
                let of = spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu));
                of.into_iter().for_each(|of| of.timer(begins));
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
            Fact::Exec { program, .. } => {
                let is_told = program.bytes().is_some_and(|path| !path.is_empty());
                if let Some(who) = who {
                    call_effects::exec(&mut self.world, who);
                    // As the kernel calls it, until another record says its name.
                    let program = program.bytes().unwrap_or_default();
                    self.name(who, RecordText::Copied(names::of_program(&program)));
                    self.is_first(spot, who, seen);
                }
                if let Some(thread) = who.and_then(|who| self.world.threads.get_mut(who)) {
                    thread.wants_name = true;
                    if is_told {
                        thread.program = thread.name;
                    }
                }
            }
            Fact::Exit { tid, name } => {
                if let Some(id) = self.thread(spot.machine, tid, seen) {
                    self.name_if_wanted(id, name);
                    if let Some(thread) = self.world.threads.get_mut(id) {
                        thread.is_exiting = true;
                        if let Some(activity) = thread.activity_mut() {
                            activity.open = None;
                        }
                    }
                    self.world.threads.has_ended(id);
                    self.counters_exit(id, time);
                    seen.exits(&self.world, id);
                }
            }
            _ => {}
        }
    }

    /// Applies a fact of a thread that is known to run: that it made a record, or the begin or end of a call whose
    /// descriptors and paths no observer needs.
    #[inline(always)]
    pub(crate) fn apply_brief<O: Observer>(
        &mut self,
        who: ThreadId,
        brief: Brief,
        (told, cpu): (EndingRecord, Option<u32>),
        time: i64,
        seen: &mut O,
    ) {
        self.world.told = told;
        let selected = told.selected;
        match brief {
            Brief::Made => self.is_seen(who),
            Brief::Enter(call, object) => {
                let object = call_effects::object_at_begin(&self.world, who, object);
                let open = OpenCall { begin: time, object, selected, ..OpenCall::of(call) };
                if O::STATES {
                    self.sends_meanwhile((told.machine, cpu), who, &open);
                }
                self.enter(who, open, false, seen);
            }
            Brief::Leave(call, result) => {
                let of = (call, CallKind::Other);
                self.leave(who, of, (result, More::None), (time, selected), seen);
            }
        }
    }

    /// Notes that records of a CPU, or of any CPU if `cpu` is `None`, were discarded from a time on.
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
                    let is_known = other.has_switches && !is_hidden && !other.began_in_gap();
                    let ran = other.thread.filter(|_| is_known);
                    other.before_gap = Some((ran, other.since, from));
                    other.since = from;
                }
                other.thread = None;
                other.open.clear();
                other.done = None;
                other.raised = [None; SOFTIRQS];
                other.causes = SoftirqCauses::default();
            }
        }
    }

    /// Moves gaps after the last record of a machine to the time of that record, since observers must not see later times.
    fn forget_behind(&mut self, end: impl Fn(u8) -> i64) {
        for (machine, of) in self.machines.iter_mut().enumerate() {
            let now = end(u8::try_from(machine).unwrap_or(u8::MAX));
            of.gaps.iter_mut().for_each(|gap| *gap = now.min(*gap));
            for cpu in &mut of.cpus {
                cpu.since = now.min(cpu.since);
                cpu.before_gap =
                    cpu.before_gap.map(|(ran, from, to)| (ran, now.min(from), now.min(to)));
            }
        }
    }

    /// Ends every state, call, span and counter at the time of the last record of its machine. `ends`: these times,
    /// by machine. A machine without one gets the time of the last record of all.
    pub(crate) fn finish<O: Observer>(&mut self, ends: &[i64], seen: &mut O) {
        let now = self.world.now;
        let end = |machine: u8| {
            let end = ends.get(usize::from(machine)).filter(|end| **end != i64::MIN);
            end.map_or(now, |end| now.min(*end))
        };
        self.forget_behind(end);
        for machine in 0..self.machines.len() {
            let machine = u8::try_from(machine).unwrap_or(u8::MAX);
            let cpus = self.machines.get(usize::from(machine)).map_or(0, |of| of.cpus.len());
            self.world.told = EndingRecord { machine, selected: false };
            let end = end(machine);
            for cpu in 0..cpus {
                let cpu = u32::try_from(cpu).unwrap_or(u32::MAX);
                let runs = self.has_at_end(machine, cpu, end);
                self.ran(machine, cpu, runs, (end, false), seen);
            }
        }
        let all: Vec<ThreadId> = self.world.threads.iter().map(|(id, _)| id).collect();
        for id in all {
            self.refresh(id, seen);
            let open = self.world.threads.get(id).and_then(|thread| thread.open);
            if let Some(open) = open {
                self.may_have_timed_out(id, &open, seen);
                seen.unpaired(&self.world, &unpaired(id, &open, Unpaired::NoEnd));
            }
            let there = self.world.threads.get(id).filter(|thread| thread.state != State::Gone);
            if let Some(thread) = there {
                let end = end(thread.machine).max(thread.since.min(now));
                self.change(id, end, State::Gone, (Waker::Unknown, None), seen);
            }
            let thread = self.world.threads.get_mut(id);
            if let Some(activity) = thread.and_then(|thread| thread.activity_mut()) {
                activity.open = None;
            }
        }
        self.finish_spans(seen);
        self.finish_counters(seen);
    }

    /// Returns the thread that made a record. Applies what the record says about its process and about the CPU that it
    /// had.
    #[inline]
    pub(crate) fn who<O: Observer>(&mut self, spot: &Spot, seen: &mut O) -> Option<ThreadId> {
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
        if let Some(thread) = self.world.threads.get_mut(who) {
            thread.is_seen = true;
            if let (None, Some(pid)) = (thread.main, spot.pid) {
                self.belongs(who, spot.machine, pid, seen);
            }
        }
        Some(who).filter(|&who| who != ThreadId::IDLE)
    }

    /// Returns the thread that a CPU runs; `None` if the trace does not say.
    #[inline]
    pub(crate) fn runs_on(&self, machine: u8, cpu: u32) -> Option<ThreadId> {
        let of = self.machines.get(usize::from(machine))?;
        of.cpus.get(usize::try_from(cpu).ok()?)?.thread
    }

    /// Applies a record that has only the process of its thread.
    fn whose<O: Observer>(&mut self, spot: &Spot, seen: &mut O) {
        let (Some(tid), Some(pid)) = (spot.tid, spot.pid) else { return };
        let who = self.thread(spot.machine, tid, seen).filter(|&who| who != ThreadId::IDLE);
        let thread = who.and_then(|who| self.world.threads.get(who).zip(Some(who)));
        if let Some((_, who)) = thread.filter(|(thread, _)| thread.main.is_none()) {
            self.belongs(who, spot.machine, pid, seen);
        }
    }

    /// Returns the thread with this number if it is known to run on this CPU.
    #[inline]
    pub(crate) fn running(&self, machine: u8, cpu: Option<u32>, tid: i64) -> Option<ThreadId> {
        let of = self.machines.get(usize::from(machine))?;
        let who = of.cpus.get(usize::try_from(cpu?).ok()?)?.thread?;
        let thread = self.world.threads.get(who)?;
        let is_known = i64::from(thread.tid) == tid && thread.gaps == of.gap();
        (is_known && thread.machine == machine).then_some(who)
    }

    /// Returns the thread with this number, which is added if it is not known.
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

    /// Makes the state of a thread unknown from the first gap since it was last known.
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
        if !matches!(thread.state, State::Gone | State::Unknown) {
            self.change(id, at, State::Unknown, (Waker::Unknown, None), seen);
        }
        let Some(thread) = self.world.threads.get_mut(id) else { return };
        thread.gaps = gap;
        thread.has_calls = false;
        thread.is_new = false;
        let Some(activity) = thread.activity_mut() else { return };
        activity.wakes = None;
        activity.fault = NEVER;
        if let Some(open) = activity.open.take() {
            self.may_have_timed_out(id, &open, seen);
            seen.unpaired(&self.world, &unpaired(id, &open, Unpaired::Gap));
        }
    }

    #[inline]
    fn cpu(&mut self, machine: u8, cpu: u32) -> Option<&mut CpuState> {
        let of = self.machines.get_mut(usize::from(machine))?;
        let (cpus, missing_until) = (&mut of.cpus, of.missing.of_all);
        let at = usize::try_from(cpu).ok().filter(|&at| at < CPUS_MAX)?;
        if cpus.len() <= at {
            cpus.resize_with(at + 1, || CpuState { missing_until, ..CpuState::default() });
        }
        cpus.get_mut(at)
    }

    /// Reports the run of a CPU up to `to`, since the last report.
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
        of.has_switches |= is_switch;
        let thread = thread.filter(|_| of.has_switches && !of.began_in_gap());
        of.since = to.max(from);
        if let Some((thread, from, to)) = of.before_gap.take() {
            let (from, to) = (from.max(begin), to.max(begin));
            seen.ran(&self.world, &Run { cpu, thread, from, to, is_switch: false });
        }
        seen.ran(&self.world, &Run { cpu, thread, from, to: to.max(from), is_switch });
    }

    /// Ends a thread's state, reports it, and begins another one.
    fn change<O: Observer>(
        &mut self,
        id: ThreadId,
        time: i64,
        state: State,
        (waker, cpu): (Waker, Option<u32>),
        seen: &mut O,
    ) {
        let Some(thread) = self.world.threads.get(id) else { return };
        if id == ThreadId::IDLE {
            return;
        }
        let known = self.as_known(thread.machine, state, time);
        if (thread.state, known) == (State::Unknown, State::Unknown) && known != state {
            return;
        }
        let Some(thread) = self.world.threads.get_mut(id) else { return };
        let state = known;
        let (from, to) = (thread.since, time.max(thread.since));
        let interval = Interval { from, to, state: thread.state, waker, cpu };
        thread.state.add_to(&mut thread.spent, to.abs_diff(from));
        thread.state = state;
        thread.since = to;
        if state == State::Gone {
            self.world.threads.has_ended(id);
        }
        if to > from {
            seen.state(&self.world, id, &interval);
        }
    }

    /// Notes that a thread runs on a CPU. If another thread is known to have the CPU, the record of the switch is
    /// missing.
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

    /// Notes that a thread has made a record, so that it is not one that the kernel hides.
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
            if id == who {
                self.leaves_unseen(who, cpu, time, seen);
            }
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

    /// Ends the run of a thread on its known CPU, if a record finds the thread on another CPU, `cpu`. It is not
    /// known when the thread left the first CPU, so the states of that CPU and of the thread since then are unknown.
    fn leaves_unseen<O: Observer>(&mut self, who: ThreadId, cpu: u32, time: i64, seen: &mut O) {
        let Some(thread) = self.world.threads.get(who).filter(|_| who != ThreadId::IDLE) else {
            return;
        };
        let (machine, State::Running { cpu: left }) = (thread.machine, thread.state) else {
            return;
        };
        let Some(of) = self.cpu(machine, left).filter(|of| left != cpu && of.thread == Some(who))
        else {
            return;
        };
        of.thread = None;
        self.ran(machine, left, None, (time, false), seen);
    }

    fn stop<O: Observer>(
        &mut self,
        spot: &Spot,
        cpu: u32,
        prev: i64,
        prev_state: Option<i64>,
        name: RecordText<'_>,
        seen: &mut O,
    ) {
        let prev = match self.running(spot.machine, Some(cpu), prev) {
            Some(prev) => prev,
            None => {
                let Some(prev) = self.thread(spot.machine, prev, seen) else {
                    self.follows(spot, cpu, None, seen);
                    if let Some(of) = self.cpu(spot.machine, cpu) {
                        of.thread = None;
                    }
                    return;
                };
                self.runs(spot.machine, cpu, prev, spot.time, seen);
                prev
            }
        };
        self.follows(spot, cpu, Some(prev), seen);
        self.name_if_new(prev, name);
        let numbers = self.machines.get(usize::from(spot.machine)).map(|of| of.numbers);
        let numbers = numbers.unwrap_or_default();
        let Some(thread) = self.world.threads.get_mut(prev) else { return };
        thread.is_seen = true;
        let in_fault = thread.fault != NEVER;
        // Where its calls are not in the trace, one of them may have stopped it since; those that wait for somebody can be
        // interrupted.
        let open = thread.open.as_ref().map(|open| (open.in_effect, open.object));
        let is_exiting = thread.is_exiting;
        let left = prev_state.map(|bits| Departure::of(bits, numbers, is_exiting));
        thread.end_fault(left != Some(Departure::Runnable));
        let is_sure = thread.has_calls || left == Some(Departure::Asleep(Sleep::Uninterruptible));
        let state = match left {
            None => State::Unknown,
            Some(Departure::Runnable) => State::Runnable { woken: false },
            Some(Departure::Gone) => State::Gone,
            Some(Departure::Asleep(sleep)) => State::Blocked(Reason {
                sleep,
                call: open.map(|(call, _)| call),
                object: match open {
                    Some((_, object)) => object,
                    // A fault is not what stops a thread.
                    None if in_fault && is_sure && sleep != Sleep::Stopped => Object::Fault,
                    None => Object::None,
                },
                is_older: false,
            }),
        };
        self.change(prev, spot.time, state, (Waker::Unknown, None), seen);
        if let (State::Blocked(_), Some(of)) = (state, self.cpu(spot.machine, cpu)) {
            of.sleeps(prev);
        }
        if state == State::Gone && is_exiting {
            self.world.forget_files(prev);
        }
    }

    fn run<O: Observer>(
        &mut self,
        spot: &Spot,
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
                if let Some(id) = id {
                    self.leaves_unseen(id, cpu, spot.time, seen);
                }
                if let Some(thread) = id.and_then(|id| self.world.threads.get_mut(id)) {
                    thread.state = State::Unknown;
                }
            }
            Some(State::Blocked(reason)) => self.runs_unwoken(id, reason, (spot.time, cpu)),
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
        let thread = self.world.threads.get_mut(id);
        if let Some(activity) = thread.and_then(|thread| thread.activity_mut()) {
            activity.wakes = None;
        }
    }

    #[inline(always)]
    fn enter<O: Observer>(&mut self, who: ThreadId, open: OpenCall, is_last: bool, seen: &mut O) {
        let Some(thread) = self.world.threads.get_mut(who) else { return };
        thread.has_calls = true;
        thread.is_seen = true;
        thread.is_new = false;
        thread.is_exiting |= is_last;
        let activity = thread.active();
        activity.fault = NEVER;
        // Field by field: what has just been written in parts is slow to be copied as a whole.
        let before = activity.open.as_ref().map(|before| unpaired(who, before, Unpaired::NoEnd));
        activity.open = match is_last {
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
        (call, kind): (CallId, CallKind),
        (result, more): (Option<i64>, More<'_>),
        (time, selected): (i64, bool),
        seen: &mut O,
    ) {
        let Some(thread) = self.world.threads.get_mut(who) else { return };
        let is_new = std::mem::take(&mut thread.is_new);
        thread.has_calls = true;
        thread.is_seen = true;
        thread.wants_name |= matches!(kind, CallKind::Rename | CallKind::Exec);
        let activity = thread.active();
        activity.fault = NEVER;
        // A futex has effects only if a timer may have ended its wait, or if it goes on later.
        let is_plain = activity.may_time_out.is_none()
            && match kind {
                CallKind::Other => true,
                CallKind::Futex => !is_to_restart(result),
                _ => false,
            };
        match &activity.open {
            Some(open) if open.call == call && is_plain => {
                let done = ended(who, open, result, (time, selected));
                activity.open = None;
                seen.call(&self.world, &done);
            }
            _ => {
                let when = (time, selected);
                self.leave_with_effects(who, (call, kind, is_new), (result, more), when, seen);
            }
        }
    }

    /// Ends a call that affects descriptors, names or threads, or a call whose begin is not recorded.
    #[inline(never)]
    fn leave_with_effects<O: Observer>(
        &mut self,
        who: ThreadId,
        (call, kind, is_new): (CallId, CallKind, bool),
        (result, more): (Option<i64>, More<'_>),
        (time, selected): (i64, bool),
        seen: &mut O,
    ) {
        let thread = self.world.threads.get_mut(who);
        if let Some(open) = thread.and_then(|thread| thread.active().open.take()) {
            if open.call == call {
                let mut done = ended(who, &open, result, (time, selected));
                done.object = call_effects::object_at_end(&self.world, &open, who, more);
                self.timed_out(who, &open, (result, more), seen);
                self.may_begin_again(who, &open, result);
                call_effects::end(&mut self.world, who, &open, result, more);
                return seen.call(&self.world, &done);
            }
            seen.unpaired(&self.world, &unpaired(who, &open, Unpaired::NoEnd));
        }
        self.older_timed_out(who, call, result, seen);
        if !(is_new && kind == CallKind::Fork) {
            let why = Unpaired::NoBegin;
            seen.unpaired(&self.world, &UnpairedCall { thread: who, call, time, why, selected });
        }
    }

    fn interrupt<O: Observer>(&mut self, spot: &Spot, begins: Option<Interrupt>, seen: &mut O) {
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
                    of.is_over(which, spot.time);
                    let depth = of.open.len();
                    of.done = of.done.filter(|&(_, in_each_other)| in_each_other <= depth);
                    self.world.told.selected |= selected;
                    seen.interrupt(&self.world, cpu, thread, which, from, spot.time.max(from));
                }
            }
        }
    }
}

/// Returns a call that has ended.
#[inline(always)]
fn ended(
    thread: ThreadId,
    open: &OpenCall,
    result: Option<i64>,
    (time, selected): (i64, bool),
) -> Call {
    let &Arguments { target, path, control, .. } = open.arguments();
    Call {
        thread,
        call: open.call,
        begin: open.begin,
        end: time.max(open.begin),
        result,
        object: open.object,
        target,
        path,
        control,
        selected: open.selected || selected,
    }
}

/// Returns a call that has begun and whose end is missing, or belongs to another call.
fn unpaired(thread: ThreadId, open: &OpenCall, why: Unpaired) -> UnpairedCall {
    UnpairedCall { thread, call: open.call, time: open.begin, why, selected: open.selected }
}

//! Finds the wakers of threads, from the context of the wake-up's record and the later result of the call.
//!
//! The kernel's order, as traces of Linux 6.18 have it: `sched_waking`, `sched_wakeup`, and only then the
//! `signal_generate` of the signal that woke the thread. An ignored signal is generated and wakes nobody. So a signal's
//! record decides nothing about the wake before it; the result of the call does.

use super::{Engine, FAULT_MAX};
use crate::descriptors::call_effects::is_ready_only;
use crate::ids::calls::{is_to_restart, CallId, CallKind};
use crate::ids::thread_id::ThreadId;
use crate::observer::Observer;
use crate::records::facts::{More, RecordText, Spot};
use crate::records::prev_state::StateNumbers;
use crate::records::record_source::Kernel;
use crate::world::state::{Interval, Object, Reason, Sleep, State, Waker};
use crate::world::threads::{OpenCall, WaitArgument};
use crate::world::{Blind, World};

const EAGAIN: i64 = 11;
const ETIME: i64 = 62;
const ETIMEDOUT: i64 = 110;
/// The names of files that a timer makes readable: as this crate names them, and as a state dump does.
const TIMER_FILES: [&str; 2] = ["timerfd", "[timerfd]"];

/// System calls that return -EAGAIN when their timeout, or that of their socket, expires.
const TRY_AGAIN: [&str; 11] = [
    "accept",
    "accept4",
    "recv",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "send",
    "sendto",
    "sendmsg",
    "rt_sigtimedwait",
    "semtimedop",
];

/// Returns whether this result means that the call has timed out.
fn is_given_up(name: &str, result: Option<i64>) -> bool {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    let name =
        name.strip_suffix("_time64").or_else(|| name.strip_suffix("_time32")).unwrap_or(name);
    match result {
        Some(result) if result == -EAGAIN => TRY_AGAIN.contains(&name),
        Some(result) if result == -ETIME => name == "io_uring_enter",
        result => result == Some(-ETIMEDOUT),
    }
}

impl Engine {
    pub(super) fn wake<O: Observer>(
        &mut self,
        spot: &Spot,
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
                self.change(
                    id,
                    spot.time,
                    self.can_run(spot.machine),
                    (Waker::Unknown, None),
                    seen,
                );
            }
            return;
        }
        self.daemon_wakes(spot, id, by);
        if !self.is_blind(spot.machine) {
            // Only who sleeps is woken.
            let (sleep, call, object) = (Sleep::Other, None, Object::None);
            self.sleeps_since_begin(spot, id, Reason { sleep, call, object, is_older: true });
        }
        let waker = self.waker(spot, id, by);
        let can_run = self.can_run(spot.machine);
        let Some(thread) = self.world.threads.get_mut(id) else { return };
        match thread.state {
            State::Blocked(reason) => {
                let is_now = thread.wakes.is_none();
                let waker = thread.wakes.take().unwrap_or(waker);
                // What the call returns says more: whoever the timer's interrupt has found there is told for now.
                let may_time_out = waker != Waker::Timer
                    && reason.sleep == Sleep::Interruptible
                    && reason.call.is_some();
                let (from, to) = (thread.since, spot.time.max(thread.since));
                let interval = Interval { from, to, state: thread.state, waker, cpu: None };
                thread.may_time_out = Some(interval).filter(|_| may_time_out && to > from);
                self.change(id, spot.time, can_run, (waker, None), seen);
                if let Some(of) = spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu)) {
                    of.woken = Some(id).filter(|_| is_now && may_time_out);
                }
                if is_now && to > from {
                    self.waited_for(spot, (id, &interval), seen);
                }
            }
            State::Unknown if can_run == State::Unknown => {}
            State::Unknown => {
                self.change(id, spot.time, can_run, (waker, None), seen);
            }
            // It is on its way to sleep, and will be told then; or it does not go to sleep after all.
            State::Running { .. } => thread.wakes = is_by_waker.then_some(waker),
            State::Runnable { .. } | State::Gone => {}
        }
    }

    /// Keeps the wait of a thread that gets a CPU without a recorded wakeup. The result of its call may show later
    /// that a timer ended the wait.
    pub(super) fn runs_unwoken(
        &mut self,
        id: Option<ThreadId>,
        reason: Reason,
        (time, cpu): (i64, u32),
    ) {
        let thread = id.and_then(|id| self.world.threads.get_mut(id));
        let Some(thread) = thread.filter(|_| reason.sleep == Sleep::Interruptible) else { return };
        let (from, to, state) = (thread.since, time.max(thread.since), thread.state);
        let (waker, cpu) = (Waker::Unknown, Some(cpu));
        let is_wait = reason.call.is_some() && to > from;
        thread.may_time_out = is_wait.then_some(Interval { from, to, state, waker, cpu });
    }

    fn waker(&mut self, spot: &Spot, woken: ThreadId, by: Option<ThreadId>) -> Waker {
        let of = spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu));
        let (in_interrupt, runs) = match of {
            Some(of) => (of.interrupt_waker(woken), of.thread),
            None => (None, None),
        };
        if let Some(waker) = in_interrupt {
            return waker;
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
        // Behind a signal that it has sent, it is in the kernel, in a call or not: a child that stops tells its parent so.
        if spot.time.abs_diff(thread.signals) <= FAULT_MAX {
            return Waker::Thread { thread: by, is_sure: true };
        }
        let is_in_fault = spot.time.abs_diff(thread.fault) <= FAULT_MAX;
        match thread.has_calls && !is_in_fault {
            // It ran, and called nobody.
            true => Waker::Interrupt,
            false => Waker::Thread { thread: by, is_sure: false },
        }
    }

    /// Reports that a timer ended the last wait, if the result of the call shows that. The waker that was reported
    /// before is only the thread that the timer has interrupted.
    pub(super) fn timed_out<O: Observer>(
        &mut self,
        who: ThreadId,
        open: &OpenCall,
        (result, more): (Option<i64>, More<'_>),
        seen: &mut O,
    ) {
        let thread = self.world.threads.get_mut(who);
        let Some(wait) = thread.and_then(|thread| thread.may_time_out.take()) else { return };
        let is_over = match self.world.calls.kind(open.in_effect) {
            // What a signal ends returns -EINTR, or one of the kernel's numbers for calls that begin again.
            CallKind::Sleep => result.is_none_or(|result| result >= 0),
            // One that is to try again may have been woken by another thread.
            CallKind::Futex => result == Some(-ETIMEDOUT),
            CallKind::Poll => result.is_some_and(|result| match result {
                0 => !matches!(open.arguments().wait, WaitArgument::Timeout(..=0)),
                ..0 => false,
                _ => is_ready_only(&self.world, open, who, (result, more), |object| {
                    is_timer(&self.world, object)
                }),
            }),
            _ => {
                is_given_up(self.world.calls.name(open.in_effect), result)
                    || result
                        .is_some_and(|result| result >= 0 && is_timer(&self.world, open.object))
            }
        };
        if is_over && wait.from >= open.begin {
            seen.timed_out(&self.world, who, &wait);
        }
    }

    /// Reports that a timer ended the wait of the thread that was woken last, if that thread was woken by a timer's
    /// signal to `target`. The record of the signal follows that of the wakeup.
    pub(super) fn timer_signals<O: Observer>(
        &mut self,
        spot: &Spot,
        target: Option<i64>,
        seen: &mut O,
    ) {
        let of = spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu));
        let Some(woken) = of.and_then(|of| of.woken.take()) else { return };
        let target = target.and_then(|target| self.world.threads.find(spot.machine, target));
        let Some(target) = target.map(|target| self.world.process_of(target)) else { return };
        let is_target = self.world.process_of(woken) == target;
        let thread = self.world.threads.get_mut(woken).filter(|_| is_target);
        let Some(wait) = thread.and_then(|thread| thread.may_time_out) else { return };
        if spot.time.abs_diff(wait.to) <= FAULT_MAX {
            if let Some(thread) = self.world.threads.get_mut(woken) {
                thread.may_time_out = None;
            }
            seen.timed_out(&self.world, woken, &wait);
        }
    }

    /// Applies [`Engine::timed_out`] to a call that began before recording, and whose wait is in a state dump.
    pub(super) fn older_timed_out<O: Observer>(
        &mut self,
        who: ThreadId,
        call: CallId,
        result: Option<i64>,
        seen: &mut O,
    ) {
        let wait = self.world.threads.get(who).and_then(|thread| thread.may_time_out);
        let Some(State::Blocked(reason)) = wait.map(|wait| wait.state) else { return };
        if reason.is_older && reason.call == Some(call) {
            let begin = i64::MIN;
            let open = OpenCall { begin, object: reason.object, ..OpenCall::of(call) };
            self.timed_out(who, &open, (result, More::None), seen);
        }
    }

    /// Keeps a call whose result means that the kernel continues it as restart_syscall().
    #[inline]
    pub(super) fn may_begin_again(&mut self, who: ThreadId, open: &OpenCall, result: Option<i64>) {
        if is_to_restart(result) {
            if let Some(thread) = self.world.threads.get_mut(who) {
                thread.restarts = Some(Box::new(*open));
            }
        }
    }

    /// Returns the call that a restart_syscall() continues.
    #[inline]
    pub(super) fn begins_again(&mut self, who: ThreadId, call: CallId) -> Option<OpenCall> {
        if self.world.calls.kind(call) != CallKind::Restart {
            return None;
        }
        Some(*self.world.threads.get_mut(who)?.restarts.take()?)
    }

    /// Notes that switches of a machine do not have their CPU. Running threads are unknown, and so is whether a woken
    /// thread runs.
    pub(super) fn blind(&mut self, machine: u8) {
        let Some(of) = self.machines.get_mut(usize::from(machine)) else { return };
        if std::mem::replace(&mut of.is_blind, true) {
            return;
        }
        self.world.blind.get_or_insert(Blind::NoCpus);
        for thread in self.world.threads.iter_mut().filter(|it| it.machine == machine) {
            if matches!(thread.state, State::Runnable { .. }) {
                thread.state = State::Unknown;
            }
        }
    }

    /// Applies facts about the kernels of machines from the traces: the meaning of their state numbers, and
    /// whether switches are recorded.
    pub(crate) fn know_kernels(&mut self, kernels: &[Kernel]) {
        // Metadata that grow may describe switches later.
        self.world.blind = self.world.blind.filter(|blind| *blind != Blind::NoSwitches);
        for (of, kernel) in self.machines.iter_mut().zip(kernels) {
            of.numbers =
                kernel.release.as_deref().map(StateNumbers::of_release).unwrap_or_default();
            of.is_blind = !kernel.has_switches;
            if kernel.is_recorded && of.is_blind {
                self.world.blind = Some(Blind::NoSwitches);
            }
            of.knows_interrupts = kernel.has_interrupts;
        }
    }

    pub(super) fn is_blind(&self, machine: u8) -> bool {
        self.machines.get(usize::from(machine)).is_some_and(|of| of.is_blind)
    }

    /// Returns the state of a thread that is runnable or running, which is unknown.
    pub(super) fn can_run(&self, machine: u8) -> State {
        match self.is_blind(machine) {
            true => State::Unknown,
            false => State::Runnable { woken: true },
        }
    }

    /// Reports that a timer ended a call that only sleeps, if the end of the call is not recorded: nearly all such
    /// calls end by their timer.
    pub(super) fn may_have_timed_out<O: Observer>(
        &mut self,
        who: ThreadId,
        open: &OpenCall,
        seen: &mut O,
    ) {
        if self.world.calls.kind(open.in_effect) == CallKind::Sleep {
            self.timed_out(who, open, (None, More::None), seen);
        }
    }
}

/// Returns true for a file that a timer makes readable.
fn is_timer(world: &World, object: Object) -> bool {
    matches!(object, Object::File(name) if TIMER_FILES.contains(&&*world.names.text(name)))
}

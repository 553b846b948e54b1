//! The causes of softirqs. What a thread sends to another thread of the same machine is delivered by a softirq of the
//! network.
//!
//! A packet for the same machine is put into a queue of the CPU, which NET_RX empties. Mostly the sender runs NET_RX
//! itself, at the end of its call, before the call returns. Otherwise it runs later: in an interrupt of the CPU, in the
//! call of another thread, or in `ksoftirqd`, which is woken when softirqs raise each other too often. TCP also sends
//! from timers (pacing, delayed acknowledgements); then a timer is the waker.
//!
//! `irq_softirq_raise` says which thread raised NET_RX. It is not recorded by default; then the order of records is
//! used: a NET_RX that begins right after the interrupt of a device is caused by that device, and one right after
//! HRTIMER by the timer. If neither is certain, the waker is "the network" and no thread.

use super::{CpuState, Engine, TIMER_SOFTIRQS};
use crate::engine::softirq_causes::Daemon;
use crate::ids::calls::{CallKind, Moves};
use crate::ids::names::NameKind;
use crate::ids::thread_id::ThreadId;
use crate::observer::Interrupt;
use crate::records::facts::Spot;
use crate::world::state::{Object, State, Waker};
use crate::world::threads::OpenCall;
use crate::world::World;

const NET_TX: u8 = 2;
const NET_RX: u8 = 3;
const HRTIMER: u8 = 8;
/// The longest time from a device's interrupt to a softirq that it has raised \[ns\].
const BEHIND_DEVICE: u64 = 5_000;
/// The longest time between two softirqs of one round \[ns\]. The time between two calls is longer.
const BEHIND_SOFTIRQ: u64 = 1_000;
/// The kinds of names that are names of sockets.
const SOCKETS: [NameKind; 2] = [NameKind::Socket, NameKind::Connected];
/// Prefixes of the names of sockets that send nothing by the network.
const LOCAL_SOCKETS: [&[u8]; 3] = [b"unix", b"netlink", b"socketpair"];
/// Prefixes of addresses of the same machine.
const LOOPBACK: [&[u8]; 3] = [b"127.", b"[::1]", b"[::ffff:127."];
/// Prefix of the names of threads that run softirqs.
const DAEMON: &[u8] = b"ksoftirqd/";
const SERVER: &[u8] = b"irq/";
/// System calls that take only sockets.
const SOCKET_CALLS: [&str; 8] =
    ["sendto", "sendmsg", "sendmmsg", "send", "connect", "shutdown", "recvfrom", "recvmsg"];
/// System calls that may send or end a connection, in addition to those that move bytes or close.
const OTHER_CALLS: [&str; 5] = ["setsockopt", "execve", "execveat", "dup2", "dup3"];

impl CpuState {
    /// Returns the waker of a thread that is woken in the interrupt being served; `None` if no interrupt is being
    /// served.
    pub(super) fn interrupt_waker(&self, woken: ThreadId) -> Option<Waker> {
        if self.in_timer() {
            return Some(Waker::Timer);
        }
        let &(which, ..) = self.open.last()?;
        Some(match which {
            Interrupt::Device(number) => Waker::Device(number),
            Interrupt::Softirq(number) if TIMER_SOFTIRQS.contains(&number) => Waker::Timer,
            Interrupt::Softirq(number @ (NET_TX | NET_RX)) => {
                let cause = self.causes.now.filter(|cause| !is_by(cause, woken));
                cause.unwrap_or(Waker::Softirq(number))
            }
            Interrupt::Softirq(number) => Waker::Softirq(number),
        })
    }

    /// Returns true if a timer is being served in the innermost interrupt.
    fn in_timer(&self) -> bool {
        self.causes.timers.is_some_and(|(_, depth)| depth == self.open.len())
    }

    /// Notes the end of an interrupt, as a possible cause of softirqs that follow.
    pub(super) fn is_over(&mut self, which: Interrupt, time: i64) {
        let causes = &mut self.causes;
        let cause = match which {
            Interrupt::Device(_) => {
                causes.device = time;
                None
            }
            Interrupt::Softirq(_) => causes.now.take(),
        };
        causes.last = Some((which, time, cause));
    }

    /// Notes that the kernel begins to serve a timer, or has served it.
    pub(super) fn timer(&mut self, begins: bool) {
        let now = self.causes.timers.map_or(0, |(count, _)| count);
        self.causes.timers = match (begins, now) {
            (true, 0) => Some((1, self.open.len())),
            (true, _) => self.causes.timers.map(|(count, depth)| (count.saturating_add(1), depth)),
            (false, 0 | 1) => None,
            (false, _) => self.causes.timers.map(|(count, depth)| (count - 1, depth)),
        };
    }

    /// Notes that a thread goes to sleep: a `ksoftirqd` does so when no softirq is left.
    #[inline]
    pub(super) fn sleeps(&mut self, thread: ThreadId) {
        if self.causes.daemon.is_some_and(|daemon| daemon.thread == thread) {
            self.causes.daemon = None;
        }
    }

    /// Returns the cause of a softirq that begins now, if it begins right after another interrupt.
    #[allow(clippy::option_option)]
    fn follows_interrupt(&self, time: i64) -> Option<Option<Waker>> {
        let (which, end, cause) = self.causes.last?;
        let behind = time.abs_diff(end);
        match which {
            Interrupt::Device(_) => (behind <= BEHIND_DEVICE).then_some(None),
            Interrupt::Softirq(_) if behind > BEHIND_SOFTIRQ => None,
            Interrupt::Softirq(HRTIMER) => Some(Some(Waker::Timer)),
            Interrupt::Softirq(NET_TX | NET_RX) => Some(cause),
            Interrupt::Softirq(_) => Some(None),
        }
    }
}

fn is_by(cause: &Waker, thread: ThreadId) -> bool {
    matches!(cause, Waker::Thread { thread: by, .. } if *by == thread)
}

fn unsure(cause: Waker) -> Waker {
    match cause {
        Waker::Thread { thread, .. } => Waker::Thread { thread, is_sure: false },
        other => other,
    }
}

impl Engine {
    /// Notes the thread that has raised a softirq.
    pub(super) fn softirq_raised(&mut self, spot: &Spot, number: u8, who: Option<ThreadId>) {
        let Some(of) = spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu)) else { return };
        let in_interrupt = match of.open.last() {
            _ if of.in_timer() => Some(Waker::Timer),
            Some((Interrupt::Device(_), ..)) => Some(Waker::Softirq(number)),
            Some((Interrupt::Softirq(within), ..)) if TIMER_SOFTIRQS.contains(within) => {
                Some(Waker::Timer)
            }
            Some(_) => Some(of.causes.now.unwrap_or(Waker::Softirq(number))),
            None => None,
        };
        let cause = in_interrupt.unwrap_or_else(|| match who.and_then(|who| self.sender(who)) {
            // An interrupt of which no record tells would look the same.
            Some(thread) => {
                let is_sure = self.knows_interrupts(spot.machine) || self.is_on_loopback(thread);
                Waker::Thread { thread, is_sure }
            }
            None => Waker::Softirq(number),
        });
        let of = spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu));
        let slot = of.and_then(|of| of.causes.raised.get_mut(usize::from(number)));
        if let Some(slot) = slot {
            *slot = Some(match *slot {
                Some(before) if before != cause => Waker::Softirq(number),
                _ => cause,
            });
        }
    }

    /// Finds the cause of a softirq that begins.
    pub(super) fn softirq_begins(&mut self, spot: &Spot, number: u8) {
        let Some(of) = spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu)) else { return };
        let slot = of.causes.raised.get_mut(usize::from(number));
        let (raised, runs) = (slot.and_then(Option::take), of.thread);
        let (follows, daemon) = (of.follows_interrupt(spot.time), of.causes.daemon);
        let device = of.causes.device;
        let now = match (raised, follows) {
            (Some(cause), Some(_)) => Some(cause),
            (Some(cause), None) => self.unless_mixed(cause, runs),
            (None, Some(cause)) => cause,
            (None, None) => match daemon {
                Some(daemon) if Some(daemon.thread) == runs => daemon.cause,
                // Whoever comes first does what is left for that thread.
                Some(Daemon { cause: Some(cause), waits: true, .. }) => {
                    self.unless_mixed(cause, runs)
                }
                // That may be of the network, too, but mostly it is not.
                Some(Daemon { waits: true, .. }) => {
                    self.sends_since(spot.machine, runs, device).map(unsure)
                }
                _ => self.sends_since(spot.machine, runs, device),
            },
        };
        if let Some(of) = spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu)) {
            of.causes.now = now.filter(|cause| !matches!(cause, Waker::Softirq(_)));
            if let Some(daemon) = of.causes.daemon.as_mut().filter(|it| Some(it.thread) != runs) {
                (daemon.cause, daemon.waits) = (None, false);
            }
        }
    }

    /// Returns `cause`, or `None` if the running thread may have sent data as well, since it is not known whose data
    /// are in the queue.
    fn unless_mixed(&self, cause: Waker, runs: Option<ThreadId>) -> Option<Waker> {
        let other = runs.filter(|&runs| !is_by(&cause, runs));
        match other.and_then(|other| self.sender(other)) {
            Some(_) => None,
            None => Some(cause),
        }
    }

    /// Returns the running thread as the waker if its system call sends data. The waker is certain if no device has
    /// interrupted the call.
    fn sends_since(&self, machine: u8, runs: Option<ThreadId>, device: i64) -> Option<Waker> {
        let runs = self.sender(runs?)?;
        let thread = self.world.threads.get(runs)?;
        let from = match (thread.state, thread.open.as_ref()) {
            (State::Running { .. }, Some(open)) => thread.since.max(open.begin),
            (_, Some(open)) => open.begin,
            (_, None) => thread.since,
        };
        let knows = self.knows_interrupts(machine) || self.is_on_loopback(runs);
        let is_sure = knows && device < from && thread.open.is_some();
        Some(Waker::Thread { thread: runs, is_sure })
    }

    /// Returns the thread if it may be sending: it is in a call that sends, or is a thread of the kernel, or is ending
    /// and closes its sockets.
    fn sender(&self, who: ThreadId) -> Option<ThreadId> {
        let thread = self.world.threads.get(who).filter(|_| who != ThreadId::IDLE)?;
        let sends = match &thread.open {
            Some(open) => sends(&self.world, open),
            None if thread.is_exiting => true,
            None => {
                let serves = self.is_called(who, DAEMON) || self.is_called(who, SERVER);
                self.world.is_of_kernel(thread) && !serves
            }
        };
        sends.then_some(who)
    }

    fn is_called(&self, thread: ThreadId, begin: &[u8]) -> bool {
        let thread = self.world.threads.get(thread);
        thread.is_some_and(|thread| self.world.names.bytes(thread.name).starts_with(begin))
    }

    /// Forgets the cause of a waiting softirq if another thread sends as well, since the packets of both are in one
    /// queue.
    #[inline]
    pub(super) fn sends_meanwhile(
        &mut self,
        (machine, cpu): (u8, Option<u32>),
        who: ThreadId,
        open: &OpenCall,
    ) {
        let moves = self.world.calls.moves(open.in_effect);
        if matches!(moves, Moves::Nothing | Moves::Reads) {
            return;
        }
        let Some(of) = cpu.and_then(|cpu| self.cpu(machine, cpu)) else { return };
        let causes = &of.causes;
        let is_others = |cause: Option<Waker>| {
            cause.is_some_and(|it| matches!(it, Waker::Thread { .. }) && !is_by(&it, who))
        };
        let raised = causes.raised.get(usize::from(NET_RX)).copied().flatten();
        let daemon = causes.daemon.and_then(|daemon| daemon.cause);
        if !is_others(raised) && !is_others(daemon) {
            return;
        }
        if !sends(&self.world, open) {
            return;
        }
        if let Some(of) = cpu.and_then(|cpu| self.cpu(machine, cpu)) {
            if let Some(slot) = of.causes.raised.get_mut(usize::from(NET_RX)) {
                *slot = slot.map(|_| Waker::Softirq(NET_RX));
            }
            if let Some(daemon) = of.causes.daemon.as_mut() {
                daemon.cause = Some(Waker::Softirq(NET_RX));
            }
        }
    }

    /// Notes the cause for which a `ksoftirqd` is woken.
    #[inline]
    pub(super) fn daemon_wakes(&mut self, spot: &Spot, woken: ThreadId, by: Option<ThreadId>) {
        if !self.is_called(woken, DAEMON) {
            return;
        }
        let by = by.and_then(|by| self.sender(by));
        let Some(of) = spot.cpu.and_then(|cpu| self.cpu(spot.machine, cpu)) else { return };
        if of.causes.daemon.is_some_and(|daemon| daemon.thread == woken) {
            return;
        }
        let cause = match of.follows_interrupt(spot.time) {
            Some(cause) => cause,
            None if of.open.is_empty() => by.map(|thread| Waker::Thread { thread, is_sure: false }),
            None => of.causes.now,
        };
        of.causes.daemon = Some(Daemon { thread: woken, cause, waits: true });
    }

    /// Returns whether the thread's system call is about a socket whose peer is on the same machine.
    fn is_on_loopback(&self, thread: ThreadId) -> bool {
        let open = self.world.threads.get(thread).and_then(|thread| thread.open.as_ref());
        let is_so = |object| match object {
            Object::File(name) => {
                let text = self.world.names.bytes(name);
                let address = text.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
                SOCKETS.contains(&self.world.names.kind(name))
                    && LOOPBACK.iter().any(|it| address.starts_with(it))
            }
            _ => false,
        };
        open.is_some_and(|open| is_so(open.object) || is_so(open.arguments().target))
    }

    fn knows_interrupts(&self, machine: u8) -> bool {
        self.machines.get(usize::from(machine)).is_some_and(|of| of.knows_interrupts)
    }
}

/// Returns true if a call may send, by its name and its descriptor. Reading counts too, since it tells the other side
/// that there is room for more.
fn sends(world: &World, open: &OpenCall) -> bool {
    let name = world.calls.name(open.in_effect);
    let name = name.strip_prefix("compat_").unwrap_or(name);
    if SOCKET_CALLS.contains(&name) {
        return true;
    }
    let by_call = match (world.calls.kind(open.in_effect), world.calls.moves(open.in_effect)) {
        (CallKind::Close | CallKind::CloseRange | CallKind::Address, _) => true,
        (_, Moves::Nothing) => OTHER_CALLS.contains(&name),
        _ => true,
    };
    let target = open.arguments().target;
    by_call && is_of_network(world, if target == Object::None { open.object } else { target })
}

/// Returns true if the object may be a socket of the network.
fn is_of_network(world: &World, object: Object) -> bool {
    let Object::File(name) = object else { return true };
    let (text, kind) = (world.names.bytes(name), world.names.kind(name));
    let is_local = LOCAL_SOCKETS.iter().any(|it| text.starts_with(it));
    SOCKETS.contains(&kind) && !is_local
}

//! Finds switches that do not fit together: a CPU was given to one thread, and the next switch is from another.

use super::{CpuState, Engine};
use crate::ids::thread_id::ThreadId;
use crate::observer::Observer;
use crate::records::facts::Spot;
use crate::world::hidden_threads::{FoundOnCpu, Given, Unfollowed};
use crate::world::state::State;
use crate::world::World;

impl Engine {
    /// Compares a switch from `prev` with the previous switch on its CPU, and reports it if the previous one was to
    /// another thread.
    #[inline]
    pub(super) fn follows<O: Observer>(
        &mut self,
        spot: &Spot,
        cpu: u32,
        prev: Option<ThreadId>,
        seen: &mut O,
    ) {
        let Some(of) = self.cpu(spot.machine, cpu) else { return };
        let Some(given) = &of.given else { return };
        if given.trace == spot.home.trace && prev == Some(given.thread) {
            of.given = None;
            return self.world.hidden.is_followed(spot.machine);
        }
        // Between two traces there may be time of which nobody has recorded anything.
        let given = of.given.take().filter(|given| given.trace == spot.home.trace);
        if let Some(given) = given {
            self.does_not_follow(spot, (cpu, given), prev, seen);
        }
    }

    /// Reports a switch that is not from the thread to which the CPU was given.
    #[cold]
    fn does_not_follow<O: Observer>(
        &mut self,
        spot: &Spot,
        (cpu, given): (u32, Given),
        prev: Option<ThreadId>,
        seen: &mut O,
    ) {
        self.world.hidden.is_unfollowed(spot.machine, &given, spot.time);
        let now = |thread| FoundOnCpu { thread, since: spot.time, time: spot.time };
        let found = |prev| given.found.filter(|it| it.thread == prev);
        let next = prev.map(|prev| found(prev).unwrap_or_else(|| now(prev)));
        let Given { thread, from, .. } = given;
        seen.unfollowed(&self.world, &Unfollowed { cpu, thread, from, next });
    }

    /// Notes that a record finds a thread on a CPU that a switch has given to another one. Returns the time of that
    /// switch.
    pub(super) fn contradicts(
        &mut self,
        (machine, cpu): (u8, u32),
        who: ThreadId,
        time: i64,
    ) -> Option<i64> {
        // What was not known before stays so up to its first record.
        let thread = self.world.threads.get(who).filter(|thread| thread.state != State::Unknown);
        let since = thread.map_or(time, |thread| thread.since);
        let given = self.cpu(machine, cpu)?.given.as_mut().filter(|it| it.thread != who)?;
        let since = since.max(given.from).min(time);
        given.found.get_or_insert(FoundOnCpu { thread: who, since, time });
        Some(given.from)
    }

    /// Returns the thread that a CPU runs at the end of the trace, unless the kernel hides it.
    pub(super) fn has_at_end(&mut self, machine: u8, cpu: u32, now: i64) -> Option<ThreadId> {
        let Engine { machines, world, .. } = self;
        let of = machines.get_mut(usize::from(machine))?;
        let of = of.cpus.get_mut(usize::try_from(cpu).ok()?)?;
        if of.hides(world, machine, now) {
            of.thread = None;
        }
        of.thread
    }
}

impl CpuState {
    /// Removes the last switch. Returns true if it was to a thread that the kernel hides, and makes that thread's state
    /// unknown.
    pub(super) fn hides(&mut self, world: &mut World, machine: u8, to: i64) -> bool {
        let given = self.given.take().filter(|it| self.thread == Some(it.thread));
        let given = given.filter(|it| world.hidden.is_hidden(&world.threads, it.thread));
        let Some(given) = given else { return false };
        world.hidden.is_unfollowed(machine, &given, to);
        if let Some(thread) = world.threads.get_mut(given.thread) {
            if matches!(thread.state, State::Running { .. }) {
                thread.state = State::Unknown;
            }
        }
        true
    }
}

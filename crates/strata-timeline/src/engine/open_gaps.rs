//! Applies the ends of gaps: times in which records of one CPU are missing, while those of others are there.
//!
//! ```text
//! CPU 0  ───┤ records are missing ├──────────
//! CPU 1  5 runs ─── 5 sleeps ── 6 runs ──────     5: unknown from its sleep on;  6: runs on CPU 1
//! ```
//!
//! While a gap is open, a record of another CPU says what a thread did at that instant. If the thread has left that
//! CPU, it may since have been woken, run and slept on the CPU whose records are missing. So within a gap a thread is
//! known only while it runs on a CPU whose records are all there, since only a record of that CPU could end this, and
//! once it has ended. Every other state is unknown, up to the first record of the thread after the gap.
//!
//! The end of a gap is applied as another gap: what became known within it, such as open calls and descriptors, may
//! have changed before its end. Gaps of a CPU that overlap end together, so that a trace that tells lies about them
//! makes states unknown, and takes no memory.

use super::gap_ends::NONE;
use super::{CpuState, Engine, MachineCpus};
use crate::world::state::State;

impl CpuState {
    /// Returns true if the present run began while records of the CPU were missing.
    pub(super) fn began_in_gap(&self) -> bool {
        self.since < self.missing_until
    }
}

impl MachineCpus {
    /// Returns true if a state that begins at this time, within a gap, lasts until a record that is there.
    #[cold]
    fn is_known_in_gap(&self, state: State, time: i64) -> bool {
        match state {
            State::Running { cpu } => {
                let of = usize::try_from(cpu).ok().and_then(|cpu| self.cpus.get(cpu));
                time >= of.map_or(self.missing.of_all, |of| of.missing_until)
            }
            State::Gone => true,
            State::Unknown | State::Runnable { .. } | State::Blocked(_) => false,
        }
    }

    /// Returns the gaps that have ended by this time: their CPUs, or `None` for all, and their ends, in the order of time.
    fn ended(&self, time: i64) -> Vec<(Option<u32>, i64)> {
        let of_all = [(None, self.missing.of_all)];
        let cpus = self.cpus.iter().enumerate();
        let of_one = cpus.map(|(cpu, of)| (u32::try_from(cpu).ok(), of.missing_until));
        let is_one = |&(cpu, end): &(Option<u32>, i64)| {
            end != NONE && end <= time && (cpu.is_none() || end != self.missing.of_all)
        };
        let mut ended: Vec<_> = of_all.into_iter().chain(of_one).filter(is_one).collect();
        ended.sort_by_key(|&(_, end)| end);
        ended
    }

    /// Notes that the gaps that have ended by this time are closed.
    fn close(&mut self, time: i64) {
        let ends = self.cpus.iter_mut().map(|of| &mut of.missing_until);
        for end in ends.chain([&mut self.missing.of_all]).filter(|end| **end <= time) {
            *end = NONE;
        }
    }

    /// Returns the first end of a gap after this time.
    fn next_end(&self, time: i64) -> Option<i64> {
        let ends = self.cpus.iter().map(|of| of.missing_until);
        ends.chain([self.missing.of_all]).filter(|&end| end > time).min()
    }
}

impl Engine {
    /// Returns what is known of a state that begins at this time: the state itself, or that it is unknown.
    #[inline]
    pub(super) fn as_known(&self, machine: u8, state: State, time: i64) -> State {
        match self.machines.get(usize::from(machine)).filter(|of| time < of.missing.of_any) {
            Some(of) if !of.is_known_in_gap(state, time) => State::Unknown,
            _ => state,
        }
    }

    /// Notes that records of a CPU, or of any CPU if `cpu` is `None`, were discarded between two times.
    pub(crate) fn gap_between(&mut self, machine: u8, cpu: Option<u32>, (from, to): (i64, i64)) {
        self.gap(machine, cpu, from);
        let is_over = self.world.begin.is_some_and(|_| to <= self.world.now);
        if to <= from || is_over {
            return;
        }
        if let Some(cpu) = cpu {
            let Some(of) = self.cpu(machine, cpu) else { return };
            of.missing_until = to.max(of.missing_until);
        }
        let Some(of) = self.machines.get_mut(usize::from(machine)) else { return };
        if cpu.is_none() {
            of.missing.of_all = to.max(of.missing.of_all);
            of.cpus.iter_mut().for_each(|of| of.missing_until = to.max(of.missing_until));
        }
        of.missing.of_any = to.max(of.missing.of_any);
        self.next_gap_end.0 = to.min(self.next_gap_end.0);
    }

    /// Sets the present to the time of the next record, and ends the gaps before it.
    #[inline]
    pub(crate) fn moves_to(&mut self, time: i64) {
        if time >= self.next_gap_end.0 {
            self.end_gaps(time);
        }
        self.world.moves_to(time);
    }

    #[cold]
    fn end_gaps(&mut self, time: i64) {
        let mut next = i64::MAX;
        for machine in 0..self.machines.len() {
            let Some(of) = self.machines.get(machine) else { continue };
            let (ended, end) = (of.ended(time), of.next_end(time));
            next = next.min(end.unwrap_or(i64::MAX));
            for (cpu, end) in ended {
                self.gap(u8::try_from(machine).unwrap_or(u8::MAX), cpu, end);
            }
            if let Some(of) = self.machines.get_mut(machine) {
                of.close(time);
            }
        }
        self.next_gap_end.0 = next;
    }
}

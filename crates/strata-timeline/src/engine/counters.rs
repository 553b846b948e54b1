//! Counters from records: what each is of, and up to when its value is known.

use super::Engine;
use crate::counters::{CounterNumber, CounterPlace, CounterValue};
use crate::fact::Spot;
use crate::id::ThreadId;
use crate::names::Name;
use crate::observer::Observer;
use crate::world::EndingRecord;

impl Engine {
    /// What the counters of a record of a stream are of.
    pub(crate) fn counter_place<O: Observer>(
        &mut self,
        spot: Spot,
        is_kernel: bool,
        stream: u32,
        seen: &mut O,
    ) -> CounterPlace {
        let of_cpu = spot.cpu.map(|cpu| CounterPlace::Cpu { machine: spot.machine, cpu });
        if let (Some(place), true) = (of_cpu, is_kernel) {
            return place;
        }
        let process = match spot.pid {
            Some(pid) => self.thread(spot.machine, pid, seen),
            None => self.of(spot, seen).map(|who| self.world.process_of(who)),
        };
        let process = process.filter(|&process| process != ThreadId::IDLE);
        process.map(CounterPlace::Process).or(of_cpu).unwrap_or(CounterPlace::Stream(stream))
    }

    /// A record says what a counter is.
    pub(crate) fn count<O: Observer>(
        &mut self,
        spot: Spot,
        (name, place, number): (Name, CounterPlace, CounterNumber),
        seen: &mut O,
    ) {
        let (from, selected) = (spot.time, spot.selected);
        let value = CounterValue { name, place, number, from, selected };
        let Ok(before) = self.counters.set(value, spot.home.trace) else { return };
        self.world.told = EndingRecord { machine: spot.machine, selected };
        if let Some((before, to)) = before {
            seen.counter_over(&self.world, &before, to);
        }
        seen.counter(&self.world, &value);
    }

    /// Records of a trace, or of a CPU's in it, were discarded between these times.
    pub(crate) fn counter_gap(&mut self, trace: u32, cpu: Option<u32>, times: (i64, i64)) {
        self.counters.gap(trace, cpu, times);
    }

    /// A thread is about to end.
    pub(super) fn counters_exit(&mut self, thread: ThreadId, time: i64) {
        if self.world.process_of(thread) == thread {
            self.counters.exit(thread, time);
        }
    }

    pub(crate) fn counters_left_out(&self) -> u64 {
        self.counters.left_out()
    }

    /// The trace is over.
    pub(super) fn finish_counters<O: Observer>(&mut self, seen: &mut O) {
        for (value, to) in self.counters.finish(self.world.now) {
            seen.counter_over(&self.world, &value, to);
        }
    }
}

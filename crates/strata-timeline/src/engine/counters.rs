//! Finds the process or CPU of each counter in a record, and reports values that end.

use super::Engine;
use crate::counters::{CounterNumber, CounterPlace, CounterValue};
use crate::ids::names::Name;
use crate::ids::thread_id::ThreadId;
use crate::observer::Observer;
use crate::records::facts::Spot;
use crate::world::EndingRecord;

impl Engine {
    /// Returns the CPU, process or stream that the counters of a record belong to.
    pub(crate) fn counter_place<O: Observer>(
        &mut self,
        spot: &Spot,
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

    /// Sets a counter to a value, and reports the previous value.
    pub(crate) fn count<O: Observer>(
        &mut self,
        spot: &Spot,
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

    /// Ends values whose records were discarded between these times, of a trace or of one of its CPUs.
    pub(crate) fn counter_gap(&mut self, trace: u32, cpu: Option<u32>, times: (i64, i64)) {
        self.counters.gap(trace, cpu, times);
    }

    /// Ends the counters of a process whose first thread is about to end.
    pub(super) fn counters_exit(&mut self, thread: ThreadId, time: i64) {
        if self.world.process_of(thread) == thread {
            self.counters.exit(thread, time);
        }
    }

    pub(crate) fn counters_left_out(&self) -> u64 {
        self.counters.left_out()
    }

    /// Reports all present values, at the end of the trace.
    pub(super) fn finish_counters<O: Observer>(&mut self, seen: &mut O) {
        for (value, to) in self.counters.finish(self.world.now) {
            seen.counter_over(&self.world, &value, to);
        }
    }
}

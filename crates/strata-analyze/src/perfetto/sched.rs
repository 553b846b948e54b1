//! Scheduling and interrupts, in bundles by CPU, and who runs on which CPU.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use super::proto::{Data, Ftrace, FtraceEvent, FtraceEventBundle};
use super::tracks::Machine;
use super::writer::Writer;

/// Events that wait, of all CPUs.
const WAITING_MAX: usize = 4096;
/// CPUs whose thread is known. A trace may name any.
const CPUS_MAX: usize = 1 << 16;

/// The bundles that are being filled, and the threads that run.
#[derive(Debug, Default)]
pub(super) struct Sched {
    bundles: BTreeMap<u32, FtraceEventBundle>,
    waiting: usize,
    running: HashMap<(Machine, u32), i64>,
}

impl Sched {
    /// Add an event of a CPU; `pid`: the thread that ran.
    pub(super) fn add<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
        cpu: u32,
        event: (u64, i32, Ftrace),
    ) -> io::Result<()> {
        let (time, pid, event) = event;
        let bundle = self.bundles.entry(cpu).or_default();
        bundle.event.push(FtraceEvent {
            timestamp: Some(time),
            pid: Some(pid.unsigned_abs()),
            event: Some(event),
        });
        self.waiting += 1;
        if self.waiting >= WAITING_MAX {
            self.flush(writer)?;
        }
        Ok(())
    }

    /// Records of this CPU were discarded behind those that were added so far.
    pub(super) fn gap<W: Write>(&mut self, writer: &mut Writer<W>, cpu: u32) -> io::Result<()> {
        if let Some(bundle) = self.bundles.remove(&cpu) {
            self.waiting = self.waiting.saturating_sub(bundle.event.len());
            write(writer, cpu, bundle)?;
        }
        let bundle = FtraceEventBundle { gap_before: Some(true), ..FtraceEventBundle::default() };
        self.bundles.insert(cpu, bundle);
        Ok(())
    }

    /// Write all that waits.
    pub(super) fn flush<W: Write>(&mut self, writer: &mut Writer<W>) -> io::Result<()> {
        self.waiting = 0;
        while let Some((cpu, bundle)) = self.bundles.pop_first() {
            write(writer, cpu, bundle)?;
        }
        Ok(())
    }

    /// The thread that runs there, as the trace says; 0: none.
    pub(super) fn running(&self, machine: Machine, cpu: u32) -> Option<i64> {
        self.running.get(&(machine, cpu)).copied()
    }

    /// A thread runs there from now on; None: nobody knows which.
    pub(super) fn run(&mut self, machine: Machine, cpu: u32, tid: Option<i64>) {
        match tid {
            Some(tid) => {
                if self.running.len() < CPUS_MAX || self.running.contains_key(&(machine, cpu)) {
                    self.running.insert((machine, cpu), tid);
                }
            }
            None => {
                self.running.remove(&(machine, cpu));
            }
        }
    }
}

fn write<W: Write>(writer: &mut Writer<W>, cpu: u32, bundle: FtraceEventBundle) -> io::Result<()> {
    writer.system(None, Data::FtraceEvents(FtraceEventBundle { cpu: Some(cpu), ..bundle }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::proto::{Softirq, TracePacket, CLOCK_REALTIME};
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    struct Trace {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<TracePacket>,
    }

    fn softirq(time: u64) -> (u64, i32, Ftrace) {
        (time, 5, Ftrace::SoftirqRaise(Softirq { vec: Some(1) }))
    }

    fn bundles(bytes: &[u8]) -> Vec<FtraceEventBundle> {
        let packets = Trace::decode(bytes).unwrap().packet;
        let bundle = |packet: TracePacket| match packet.data {
            Some(Data::FtraceEvents(bundle)) => bundle,
            other => panic!("{other:?}"),
        };
        packets.into_iter().map(bundle).collect()
    }

    #[test]
    fn events_of_a_cpu_are_in_its_bundle() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, CLOCK_REALTIME);
        let mut sched = Sched::default();
        for (cpu, time) in [(0, 1), (1, 2), (0, 3)] {
            sched.add(&mut writer, cpu, softirq(time)).unwrap();
        }
        sched.flush(&mut writer).unwrap();
        writer.finish().unwrap();
        let counts: Vec<_> =
            bundles(&bytes).iter().map(|bundle| (bundle.cpu, bundle.event.len())).collect();
        assert_eq!(counts, [(Some(0), 2), (Some(1), 1)]);
    }

    #[test]
    fn loss_on_a_cpu_is_said_between_what_is_before_and_behind() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, CLOCK_REALTIME);
        let mut sched = Sched::default();
        sched.add(&mut writer, 0, softirq(1)).unwrap();
        sched.gap(&mut writer, 0).unwrap();
        sched.add(&mut writer, 0, softirq(2)).unwrap();
        sched.flush(&mut writer).unwrap();
        writer.finish().unwrap();
        let found: Vec<_> = bundles(&bytes)
            .iter()
            .map(|bundle| (bundle.gap_before, bundle.event.first().unwrap().timestamp))
            .collect();
        assert_eq!(found, [(None, Some(1)), (Some(true), Some(2))]);
    }

    #[test]
    fn malicious_number_of_events_or_cpus_does_not_wait() {
        let mut writer = Writer::new(io::sink(), CLOCK_REALTIME);
        let mut sched = Sched::default();
        for time in 0..100_000 {
            sched.add(&mut writer, time % 7, softirq(time.into())).unwrap();
            assert!(sched.waiting < WAITING_MAX);
        }
        for cpu in 0..200_000 {
            sched.run(0, cpu, Some(1));
        }
        assert_eq!(sched.running.len(), CPUS_MAX);
        assert_eq!(sched.running(0, 5), Some(1));
        sched.run(0, 5, None);
        assert_eq!(sched.running(0, 5), None);
    }
}

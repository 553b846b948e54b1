//! Bundles of scheduling and interrupt events, one for each CPU at a time.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::encode;
use super::writer::PacketWriter;
use strata_analyze::render::line::Lines;

/// The most events that wait in the bundles of all CPUs.
const WAITING_MAX: usize = 4096;
/// The most bytes of events that wait in one bundle, and the most memory that a bundle keeps when it is empty.
const BYTES_MAX: usize = 1 << 20;
const BYTES_KEPT: usize = 1 << 18;

/// The numbers of the fields of `FtraceEventBundle`.
const CPU: u32 = 1;
const EVENT: u32 = 2;
const GAP_BEFORE: u32 = 3;
/// The numbers of the fields of `FtraceEvent`.
const TIMESTAMP: u32 = 1;
const PID: u32 = 2;

/// The bundles that are being filled.
#[derive(Debug, Default)]
pub(super) struct Sched {
    bundles: BTreeMap<u32, Bundle>,
    waiting: usize,
}

/// The waiting events of a CPU.
#[derive(Debug, Default)]
struct Bundle {
    events: Lines,
    count: usize,
    /// The time of the latest event.
    latest: u64,
    /// True if records were discarded before the first event.
    gap: bool,
}

impl Sched {
    /// Adds an event of a CPU. `put` writes it and returns false if it cannot; `pid` is the thread that ran.
    #[inline]
    pub(super) fn add<W: Write>(
        &mut self,
        writer: &mut PacketWriter<W>,
        cpu: u32,
        (time, pid): (u64, i32),
        put: impl FnOnce(&mut Lines) -> bool,
    ) -> io::Result<bool> {
        let bundle = self.bundles.entry(cpu).or_default();
        let out = &mut bundle.events;
        let before = out.len();
        let event = encode::begin(out, EVENT);
        encode::number(out, TIMESTAMP, time);
        encode::number(out, PID, pid.unsigned_abs().into());
        if !put(out) {
            out.drop_last(out.len() - before);
            return Ok(false);
        }
        encode::end(out, event);
        bundle.count += 1;
        bundle.latest = bundle.latest.max(time);
        self.waiting += 1;
        if self.waiting >= WAITING_MAX || bundle.events.len() >= BYTES_MAX {
            self.flush(writer)?;
        }
        Ok(true)
    }

    /// Adds an event that may be earlier than the last ones of its CPU. If it is, a new bundle is begun for it.
    pub(super) fn insert<W: Write>(
        &mut self,
        writer: &mut PacketWriter<W>,
        cpu: u32,
        of: (u64, i32),
        put: impl FnOnce(&mut Lines) -> bool,
    ) -> io::Result<bool> {
        let bundle = self.bundles.entry(cpu).or_default();
        if bundle.latest > of.0 {
            self.waiting = self.waiting.saturating_sub(bundle.count);
            bundle.write(cpu, writer)?;
        }
        self.add(writer, cpu, of, put)
    }

    /// Notes that records of this CPU were discarded after the events added so far.
    pub(super) fn gap<W: Write>(
        &mut self,
        writer: &mut PacketWriter<W>,
        cpu: u32,
    ) -> io::Result<()> {
        let bundle = self.bundles.entry(cpu).or_default();
        self.waiting = self.waiting.saturating_sub(bundle.count);
        bundle.write(cpu, writer)?;
        bundle.gap = true;
        Ok(())
    }

    /// Writes all waiting events.
    pub(super) fn flush<W: Write>(&mut self, writer: &mut PacketWriter<W>) -> io::Result<()> {
        self.waiting = 0;
        self.bundles.iter_mut().try_for_each(|(&cpu, bundle)| bundle.write(cpu, writer))
    }
}

impl Bundle {
    fn write<W: Write>(&mut self, cpu: u32, writer: &mut PacketWriter<W>) -> io::Result<()> {
        if self.count == 0 && !self.gap {
            return Ok(());
        }
        let (mut front, mut behind) = (Lines::default(), Lines::default());
        encode::number(&mut front, CPU, cpu.into());
        if self.gap {
            encode::number(&mut behind, GAP_BEFORE, 1);
        }
        let done =
            writer.scheduling(&[front.as_bytes(), self.events.as_bytes(), behind.as_bytes()]);
        match self.events.len() {
            ..BYTES_KEPT => self.events.clear(),
            _ => self.events = Lines::default(),
        }
        (self.count, self.latest, self.gap) = (0, 0, false);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::proto::{Ftrace, FtraceEvent, FtraceEventBundle, PacketData, Softirq};
    use crate::perfetto::proto::{TracePacket, CLOCK_REALTIME};
    use prost::Message;
    use strata_analyze::render::line::TextSink as _;

    #[derive(Clone, PartialEq, Message)]
    struct Trace {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<TracePacket>,
    }

    /// SoftirqRaise { vec: 1 }, of thread 5.
    fn add<W: Write>(sched: &mut Sched, writer: &mut PacketWriter<W>, cpu: u32, time: u64) {
        let put = |out: &mut Lines| {
            out.extend_from_slice(&[0xd2, 1, 2, 8, 1]);
            true
        };
        assert!(sched.add(writer, cpu, (time, 5), put).unwrap());
    }

    fn bundles(bytes: &[u8]) -> Vec<FtraceEventBundle> {
        let packets = Trace::decode(bytes).unwrap().packet;
        let bundle = |packet: TracePacket| match packet.data {
            Some(PacketData::FtraceEvents(bundle)) => bundle,
            other => panic!("{other:?}"),
        };
        packets.into_iter().map(bundle).collect()
    }

    #[test]
    fn events_of_a_cpu_are_in_its_bundle() {
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, CLOCK_REALTIME);
        let mut sched = Sched::default();
        for (cpu, time) in [(0, 1), (1, 2), (0, 3)] {
            add(&mut sched, &mut writer, cpu, time);
        }
        sched.flush(&mut writer).unwrap();
        writer.finish().unwrap();
        let counts: Vec<_> =
            bundles(&bytes).iter().map(|bundle| (bundle.cpu, bundle.event.len())).collect();
        assert_eq!(counts, [(Some(0), 2), (Some(1), 1)]);
        let event = Some(Ftrace::SoftirqRaise(Softirq { vec: Some(1) }));
        let wanted = FtraceEvent { timestamp: Some(3), pid: Some(5), event };
        assert_eq!(bundles(&bytes)[0].event[1], wanted);
    }

    #[test]
    fn event_that_cannot_be_put_leaves_nothing() {
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, CLOCK_REALTIME);
        let mut sched = Sched::default();
        let put = |out: &mut Lines| {
            out.extend_from_slice(b"half");
            false
        };
        assert!(!sched.add(&mut writer, 0, (1, 5), put).unwrap());
        sched.flush(&mut writer).unwrap();
        writer.finish().unwrap();
        assert!(bytes.is_empty());
    }

    #[test]
    fn loss_on_a_cpu_is_reported_between_what_is_before_and_behind() {
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, CLOCK_REALTIME);
        let mut sched = Sched::default();
        add(&mut sched, &mut writer, 0, 1);
        sched.gap(&mut writer, 0).unwrap();
        add(&mut sched, &mut writer, 0, 2);
        sched.flush(&mut writer).unwrap();
        writer.finish().unwrap();
        let found: Vec<_> = bundles(&bytes)
            .iter()
            .map(|bundle| (bundle.gap_before, bundle.event.first().unwrap().timestamp))
            .collect();
        assert_eq!(found, [(None, Some(1)), (Some(true), Some(2))]);
    }

    #[test]
    fn event_from_before_those_that_wait_is_in_a_bundle_behind_theirs() {
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, CLOCK_REALTIME);
        let mut sched = Sched::default();
        let put = |out: &mut Lines| {
            out.extend_from_slice(&[0xd2, 1, 2, 8, 1]);
            true
        };
        for time in [10, 20] {
            add(&mut sched, &mut writer, 0, time);
        }
        for time in [20, 5, 7, 6] {
            assert!(sched.insert(&mut writer, 0, (time, 5), put).unwrap());
        }
        add(&mut sched, &mut writer, 0, 30);
        assert_eq!(sched.waiting, 2);
        sched.flush(&mut writer).unwrap();
        writer.finish().unwrap();
        let times = |bundle: &FtraceEventBundle| {
            bundle.event.iter().map(|event| event.timestamp.unwrap()).collect::<Vec<_>>()
        };
        let found: Vec<_> = bundles(&bytes).iter().map(times).collect();
        assert_eq!(found, [vec![10, 20, 20], vec![5, 7], vec![6, 30]]);
    }

    #[test]
    fn malicious_number_of_events_does_not_wait() {
        let mut writer = PacketWriter::new(io::sink(), CLOCK_REALTIME);
        let mut sched = Sched::default();
        for time in 0..100_000 {
            add(&mut sched, &mut writer, time % 7, time.into());
            assert!(sched.waiting < WAITING_MAX);
        }
    }
}

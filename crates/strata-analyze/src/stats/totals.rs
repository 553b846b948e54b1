//! Adds up the counts of all threads.

use std::collections::HashMap;
use std::path::PathBuf;

use strata_ctf::read::FolderEnd;

use super::{
    joined, sort_events, Absent, Damaged, EventStats, RecordCount, Stats, StreamStats, TimeColumns,
    TraceSpan, TraceStats, DAMAGE_KEPT, RANGES_KEPT,
};

/// The counts of neighbouring packets of a stream.
#[derive(Debug, Default)]
pub(super) struct PartCount {
    /// The number of the part, by which the parts of a stream are ordered.
    pub number: u64,
    /// The index of the stream.
    pub stream: usize,
    pub packets: u64,
    /// The number of packets that report discarded records.
    pub telling_packets: u64,
    /// The size of all packets without padding \[bit\].
    pub content_bits: u64,
    /// The size of all packets \[bit\].
    pub packet_bits: u64,
    /// The time from the begin of the first packet to the end of the last.
    pub span: Option<TraceSpan>,
    pub count: RecordCount,
    /// The times of the first and the last record.
    pub times: Option<(i64, i64)>,
    pub silence: Option<TraceSpan>,
    pub absent_records: u64,
    pub absent_packets: u64,
    pub absent: Absent,
    pub cpu: PacketCpu,
    pub damage: Vec<Damaged>,
    pub damage_found: u64,
    /// The first inconsistency that was found in the stream.
    pub note: Option<Damaged>,
}

/// The CPU that the packets of a stream name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PacketCpu {
    /// The stream has no packet.
    #[default]
    Unknown,
    /// All packets name this CPU.
    One(u64),
    /// The packets name several CPUs, or none.
    None,
}

impl PacketCpu {
    /// Returns the result for the packets of both.
    pub fn with(self, other: PacketCpu) -> PacketCpu {
        match (self, other) {
            (PacketCpu::Unknown, cpu) | (cpu, PacketCpu::Unknown) => cpu,
            (PacketCpu::One(a), PacketCpu::One(b)) if a == b => self,
            _ => PacketCpu::None,
        }
    }
}

/// The records of one class.
#[derive(Debug)]
pub(super) struct ClassCount {
    pub name: String,
    /// The index of the class' trace.
    pub trace: usize,
    pub count: RecordCount,
}

/// All counts of all threads.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The traces, without counts.
    pub traces: Vec<TraceStats>,
    /// The streams, without counts.
    pub streams: Vec<StreamStats>,
    pub parts: Vec<PartCount>,
    pub classes: Vec<ClassCount>,
    pub timeline: Option<TimeColumns>,
    /// Damage that was found when the traces were opened.
    pub damage: Vec<Damaged>,
    pub ends: Vec<FolderEnd>,
}

impl Tally {
    /// Returns the counts in their final form.
    pub fn finish(mut self) -> Stats {
        let mut stats = Stats { timeline: self.timeline.take(), ..Stats::default() };
        self.add_opening_damage(&mut stats);
        self.parts.sort_by_key(|part| (part.stream, part.number));
        self.add_parts(&mut stats);
        for stream in &self.streams {
            if let Some(trace) = self.traces.get_mut(stream.trace) {
                trace.sum.add(&stream.sum);
            }
        }
        for end in &self.ends {
            if let Some(trace) = end.trace.and_then(|at| self.traces.get_mut(at)) {
                trace.sum.untold_records =
                    trace.sum.untold_records.saturating_add(end.losses().total());
            }
        }
        stats.ends = std::mem::take(&mut self.ends);
        stats.events = self.add_classes();
        stats.traces = self.traces;
        stats.streams = self.streams;
        stats.span = stats.streams.iter().fold(None, |span, stream| joined(span, stream.sum.span));
        stats
    }

    /// Adds damage that was found when the traces were opened.
    fn add_opening_damage(&mut self, stats: &mut Stats) {
        let of_path: HashMap<PathBuf, usize> =
            self.traces.iter().enumerate().map(|(at, trace)| (trace.path.clone(), at)).collect();
        for damaged in std::mem::take(&mut self.damage) {
            stats.damage_found = stats.damage_found.saturating_add(1);
            let trace = of_path.get(&damaged.trace).and_then(|&at| self.traces.get_mut(at));
            if let Some(trace) = trace {
                trace.sum.damage = trace.sum.damage.saturating_add(1);
            }
            keep(&mut stats.damage, damaged);
        }
    }

    fn add_parts(&mut self, stats: &mut Stats) {
        let mut ranges_left = RANGES_KEPT;
        let mut last: Option<(usize, i64)> = None;
        // Those of a stream follow each other.
        let mut noted = None;
        for part in std::mem::take(&mut self.parts) {
            let Some(stream) = self.streams.get_mut(part.stream) else { continue };
            add_part(stream, &part, &mut ranges_left);
            let before = last.filter(|(of, _)| *of == part.stream).map(|(_, time)| time);
            if let (Some(from), Some((to, _))) = (before, part.times) {
                stream.silence = longer(stream.silence, TraceSpan { from, to });
            }
            last = part.times.map(|(_, time)| (part.stream, time)).or(last);
            stats.damage_found = stats.damage_found.saturating_add(part.damage_found);
            part.damage.into_iter().for_each(|damaged| keep(&mut stats.damage, damaged));
            if noted != Some(part.stream) {
                noted = part.note.is_some().then_some(part.stream).or(noted);
                stats.notes.extend(part.note);
            }
        }
    }

    /// Adds each class' counts to the events of its trace. Returns the events of all traces, by name.
    fn add_classes(&mut self) -> Vec<EventStats> {
        let mut of_traces: HashMap<(usize, &str), RecordCount> = HashMap::new();
        let mut of_all: HashMap<&str, RecordCount> = HashMap::new();
        for class in self.classes.iter().filter(|class| class.count.records > 0) {
            of_traces.entry((class.trace, &class.name)).or_default().add(&class.count);
            of_all.entry(&class.name).or_default().add(&class.count);
        }
        for ((trace, name), count) in of_traces {
            if let Some(trace) = self.traces.get_mut(trace) {
                trace.events.push(EventStats { name: name.to_owned(), count });
            }
        }
        self.traces.iter_mut().for_each(|trace| sort_events(&mut trace.events));
        let mut events: Vec<EventStats> = of_all
            .into_iter()
            .map(|(name, count)| EventStats { name: name.to_owned(), count })
            .collect();
        sort_events(&mut events);
        events
    }
}

fn add_part(stream: &mut StreamStats, part: &PartCount, ranges_left: &mut usize) {
    let sum = &mut stream.sum;
    let content_bytes = part.content_bits / 8;
    sum.span = joined(sum.span, part.span);
    sum.packets = sum.packets.saturating_add(part.packets);
    sum.telling_packets = sum.telling_packets.saturating_add(part.telling_packets);
    sum.count.add(&part.count);
    let header_bytes = content_bytes.saturating_sub(part.count.bytes);
    sum.header_bytes = sum.header_bytes.saturating_add(header_bytes);
    let padding_bytes = part.packet_bits.saturating_sub(part.content_bits) / 8;
    sum.padding_bytes = sum.padding_bytes.saturating_add(padding_bytes);
    sum.absent_records = sum.absent_records.saturating_add(part.absent_records);
    sum.absent_packets = sum.absent_packets.saturating_add(part.absent_packets);
    sum.damage = sum.damage.saturating_add(part.damage_found);
    let before = stream.absent.ranges.len();
    stream.absent.append(&part.absent, before + *ranges_left);
    *ranges_left -= stream.absent.ranges.len() - before;
    stream.cpu = match (stream.cpu.map_or(PacketCpu::Unknown, PacketCpu::One), stream.sum.packets) {
        // Packets before this part named no CPU, or several.
        (PacketCpu::Unknown, packets) if packets > part.packets => None,
        (cpu, _) => match cpu.with(part.cpu) {
            PacketCpu::One(cpu) => Some(cpu),
            _ => None,
        },
    };
    if let Some(silence) = part.silence {
        stream.silence = longer(stream.silence, silence);
    }
}

/// Returns the longer of two silences, or the first if they are equally long. A silence that ends before it begins is
/// ignored.
fn longer(a: Option<TraceSpan>, b: TraceSpan) -> Option<TraceSpan> {
    match a {
        _ if b.to <= b.from => a,
        Some(a) if a.nanos() >= b.nanos() => Some(a),
        _ => Some(b),
    }
}

fn keep(all: &mut Vec<Damaged>, damaged: Damaged) {
    if all.len() < DAMAGE_KEPT {
        all.push(damaged);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AbsentKind, AbsentRange};
    use super::*;

    fn tally(streams: &[usize]) -> Tally {
        let traces = streams.iter().max().map_or(0, |last| last + 1);
        Tally {
            traces: vec![TraceStats::default(); traces],
            streams: streams
                .iter()
                .map(|&trace| StreamStats { trace, ..StreamStats::default() })
                .collect(),
            ..Tally::default()
        }
    }

    fn part(number: u64, stream: usize, records: u64, times: (i64, i64)) -> PartCount {
        let count = RecordCount { records, bytes: records * 10, smallest: 10, largest: 10 };
        PartCount {
            number,
            stream,
            packets: 1,
            content_bits: (records * 10 + 84) * 8,
            packet_bits: 4096 * 8,
            span: Some(TraceSpan { from: times.0, to: times.1 }),
            count,
            times: Some(times),
            ..PartCount::default()
        }
    }

    fn class(name: &str, trace: usize, records: u64) -> ClassCount {
        let count = RecordCount { records, bytes: records * 8, smallest: 8, largest: 8 };
        ClassCount { name: name.into(), trace, count }
    }

    #[test]
    fn parts_in_any_order_are_one_stream() {
        let mut tally = tally(&[0, 0]);
        tally.parts =
            vec![part(3, 1, 7, (0, 1000)), part(2, 0, 20, (500, 600)), part(1, 0, 10, (100, 200))];
        let stats = tally.finish();
        let sum = stats.streams[0].sum;
        assert_eq!((sum.packets, sum.count.records, sum.count.bytes), (2, 30, 300));
        assert_eq!(sum.span, Some(TraceSpan { from: 100, to: 600 }));
        assert_eq!((sum.header_bytes, sum.padding_bytes), (168, 2 * (4096 - 84) - 300));
        assert_eq!(stats.streams[0].silence, Some(TraceSpan { from: 200, to: 500 }));
        assert_eq!(stats.streams[1].silence, None);
        assert_eq!(stats.traces[0].sum.count.records, 37);
        assert_eq!(stats.span, Some(TraceSpan { from: 0, to: 1000 }));
    }

    #[test]
    fn silence_in_a_part_and_between_parts_is_the_longest_of_them() {
        for (inside, wanted) in [((110, 150), (200, 300)), ((100, 600), (100, 600))] {
            let mut tally = tally(&[0]);
            let mut first = part(1, 0, 5, (100, 200));
            first.silence = Some(TraceSpan { from: inside.0, to: inside.1 });
            tally.parts = vec![first, part(2, 0, 5, (300, 310))];
            let silence = tally.finish().streams[0].silence;
            assert_eq!(silence, Some(TraceSpan { from: wanted.0, to: wanted.1 }));
        }
    }

    #[test]
    fn malicious_time_that_goes_back_is_no_silence() {
        let mut tally = tally(&[0]);
        tally.parts = vec![part(1, 0, 1, (100, 900)), part(2, 0, 1, (200, 210))];
        assert_eq!(tally.finish().streams[0].silence, None);
    }

    #[test]
    fn loss_over_the_border_of_two_parts_is_one_range() {
        let mut tally = tally(&[0]);
        for (number, span) in [(1, (10, 20)), (2, (20, 30)), (3, (70, 80))] {
            let span = Some(TraceSpan { from: span.0, to: span.1 });
            let mut part = part(number, 0, 1, (0, 0));
            part.absent_records = 5;
            let kind = AbsentKind::Records;
            let range = AbsentRange { kind, count: 5, span, told: 1, at_begin: false };
            part.absent.push(range, 9);
            tally.parts.push(part);
        }
        let stats = tally.finish();
        assert_eq!(stats.sum().absent_records, 15);
        let counts: Vec<u64> = stats.streams[0].absent.ranges.iter().map(|r| r.count).collect();
        assert_eq!(counts, [10, 5]);
    }

    #[test]
    fn cpu_that_packets_do_not_agree_about_is_none() {
        for (cpus, wanted) in [
            ([PacketCpu::One(2), PacketCpu::One(2)], Some(2)),
            ([PacketCpu::One(2), PacketCpu::One(3)], None),
            ([PacketCpu::None, PacketCpu::One(3)], None),
            ([PacketCpu::One(1), PacketCpu::None], None),
        ] {
            let mut tally = tally(&[0]);
            for (number, cpu) in cpus.into_iter().enumerate() {
                tally.parts.push(PartCount { cpu, ..part(number as u64, 0, 1, (0, 0)) });
            }
            assert_eq!(tally.finish().streams[0].cpu, wanted, "{cpus:?}");
        }
    }

    #[test]
    fn classes_of_one_name_are_one_event_of_all_and_one_of_each_trace() {
        let mut tally = tally(&[0, 1]);
        tally.classes = vec![
            class("a:x", 0, 5),
            class("a:y", 0, 7),
            class("a:x", 1, 4),
            class("a:x", 1, 1),
            class("a:never", 1, 0),
        ];
        let stats = tally.finish();
        let names = |events: &[EventStats]| -> Vec<(String, u64)> {
            events.iter().map(|event| (event.name.clone(), event.count.records)).collect()
        };
        assert_eq!(names(&stats.events), [("a:x".into(), 10), ("a:y".into(), 7)]);
        assert_eq!(names(&stats.traces[0].events), [("a:y".into(), 7), ("a:x".into(), 5)]);
        assert_eq!(names(&stats.traces[1].events), [("a:x".into(), 5)]);
    }

    #[test]
    fn malicious_number_of_damages_is_cut_and_counted() {
        let mut tally = tally(&[0]);
        tally.damage = vec![Damaged::default(); DAMAGE_KEPT - 1];
        let damage = vec![Damaged::default(); 2];
        tally.parts = vec![PartCount { damage, damage_found: 1_000_000, ..part(1, 0, 1, (0, 0)) }];
        let stats = tally.finish();
        assert_eq!(stats.damage.len(), DAMAGE_KEPT);
        assert_eq!(stats.damage_found, DAMAGE_KEPT as u64 - 1 + 1_000_000);
        assert_eq!(stats.sum().damage, stats.damage_found);
    }

    #[test]
    fn tally_of_nothing_is_nothing_and_what_is_of_no_stream_is_passed_over() {
        assert_eq!(Tally::default().finish(), Stats::default());
        let mut tally = tally(&[0]);
        tally.parts = vec![part(1, 7, 10, (1, 2)), part(2, usize::MAX, 10, (1, 2))];
        tally.classes = vec![class("a:x", 9, 4)];
        let stats = tally.finish();
        assert_eq!((stats.sum().count.records, stats.span), (0, None));
        // Of no trace that there is; of all together it counts.
        assert_eq!(stats.events[0].count.records, 4);
        assert!(stats.traces[0].events.is_empty());
    }

    #[test]
    fn events_with_as_many_records_are_in_the_order_of_their_names() {
        let mut tally = tally(&[0]);
        let names = ["b:z", "a:y", "c:x", "a:a", "b:b"];
        tally.classes = names.iter().map(|name| class(name, 0, 5)).collect();
        tally.classes.push(class("z:most", 0, 6));
        let stats = tally.finish();
        let sorted: Vec<&str> = stats.events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(sorted, ["z:most", "a:a", "a:y", "b:b", "b:z", "c:x"]);
        assert_eq!(stats.traces[0].events, stats.events);
    }

    #[test]
    fn silence_as_long_as_another_one_is_the_earlier_and_none_is_none() {
        let span = |from, to| TraceSpan { from, to };
        for (a, b, wanted) in [
            (None, span(1, 2), Some(span(1, 2))),
            (None, span(2, 2), None),
            (None, span(3, 2), None),
            (Some(span(1, 5)), span(5, 9), Some(span(1, 5))),
            (Some(span(1, 5)), span(5, 10), Some(span(5, 10))),
            (Some(span(1, 5)), span(9, 5), Some(span(1, 5))),
            (Some(span(1, 2)), span(i64::MIN, i64::MAX), Some(span(i64::MIN, i64::MAX))),
        ] {
            assert_eq!(longer(a, b), wanted, "{a:?} {b:?}");
        }
    }

    #[test]
    fn silence_is_of_one_stream_and_goes_over_parts_without_a_record() {
        let mut tally = tally(&[0, 0]);
        let empty =
            PartCount { times: None, count: RecordCount::default(), ..part(2, 0, 0, (0, 0)) };
        tally.parts = vec![
            part(1, 0, 5, (100, 200)),
            empty,
            part(3, 0, 5, (900, 910)),
            part(4, 1, 5, (5000, 5010)),
        ];
        let stats = tally.finish();
        assert_eq!(stats.streams[0].silence, Some(TraceSpan { from: 200, to: 900 }));
        assert_eq!(stats.streams[1].silence, None);
    }

    #[test]
    fn note_of_a_stream_is_its_first_one_and_one() {
        let note = |text: &str| Some(Damaged { message: text.to_owned(), ..Damaged::default() });
        let mut tally = tally(&[0, 0]);
        for (number, stream, text) in
            [(1, 0, None), (2, 0, note("first")), (3, 0, note("second")), (4, 1, note("other"))]
        {
            tally.parts.push(PartCount { note: text, ..part(number, stream, 1, (0, 0)) });
        }
        let stats = tally.finish();
        let notes: Vec<&str> = stats.notes.iter().map(|note| note.message.as_str()).collect();
        assert_eq!((notes, stats.damage_found), (vec!["first", "other"], 0));
    }

    #[test]
    fn malicious_sizes_of_packets_give_no_overflow_and_no_negative_rest() {
        let mut tally = tally(&[0]);
        // Records that are larger than the packets they are in.
        tally.parts = vec![
            PartCount { content_bits: 0, packet_bits: 0, ..part(1, 0, 10, (0, 0)) },
            PartCount { content_bits: u64::MAX, packet_bits: 7, ..part(2, 0, 10, (0, 0)) },
            PartCount { absent_records: u64::MAX, packets: u64::MAX, ..part(3, 0, 0, (0, 0)) },
            PartCount { absent_records: 9, ..part(4, 0, 0, (0, 0)) },
        ];
        let stats = tally.finish();
        let sum = stats.streams[0].sum;
        assert_eq!(sum.header_bytes, u64::MAX / 8 - 100 + 2 * 84);
        assert_eq!((sum.packets, sum.absent_records), (u64::MAX, u64::MAX));
        assert_eq!(sum.padding_bytes, 2 * (4096 - 84));
        assert_eq!(sum.overhead_bytes(), 0);
        assert!(!stats.is_complete());
    }

    #[test]
    fn malicious_number_of_ranges_is_cut_over_all_streams_together() {
        let streams = RANGES_KEPT / 10_000 + 1;
        let mut tally = tally(&vec![0; streams]);
        for stream in 0..streams {
            let mut one = part(stream as u64, stream, 1, (0, 0));
            for at in 0..10_000 {
                let span = Some(TraceSpan { from: at * 10, to: at * 10 + 5 });
                let kind = AbsentKind::Records;
                one.absent
                    .push(AbsentRange { kind, count: 1, span, told: 1, at_begin: false }, 10_000);
            }
            tally.parts.push(one);
        }
        let stats = tally.finish();
        let kept: usize = stats.streams.iter().map(|stream| stream.absent.ranges.len()).sum();
        let more: u64 = stats.streams.iter().map(|stream| stream.absent.more).sum();
        assert_eq!((kept, more), (RANGES_KEPT, 10_000));
        assert!(stats.streams.last().unwrap().absent.ranges.is_empty());
    }
}

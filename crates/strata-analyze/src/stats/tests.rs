//! Tests of counts, with traces written by hand.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use strata_ctf::environment::{kernel_environment, KernelHost};
use strata_ctf::metadata;
use strata_ctf::packet::Header;
use strata_ctf::read::{Reader, TimeRange};
use strata_model::schema::Schema;
use strata_model::{
    ByteOrder, ClockClass, EnvValue, EventClass, Field, FieldClass, Integer, RecordHeader,
    StreamClass, Trace, Uuid,
};

use super::count::tracer;
use super::{count, AbsentKind, LossMode, Options, Stats, TraceSpan};

/// The time of cycle 0 \[ns since 1970\].
const ORIGIN: i64 = 1_700_000_000_000_000_000;

/// A folder that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("strata-stats-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Adds a trace of process `pid`, with an event of 12 bytes and one with a text.
    fn trace(&self, pid: i64) -> PathBuf {
        let event = |id, name: &str, class| EventClass {
            id,
            provider: "demo".into(),
            name: name.into(),
            loglevel: None,
            emf_uri: None,
            context: Vec::new(),
            fields: vec![Field::new("value", class)],
        };
        let mode = match pid {
            8 => "discard",
            9 => "now and then",
            _ => "overwrite",
        };
        let trace = Trace {
            uuid: Uuid([pid as u8; 16]),
            byte_order: ByteOrder::NATIVE,
            environment: vec![
                ("hostname".into(), EnvValue::from("box")),
                ("procname".into(), EnvValue::from("app")),
                ("vpid".into(), EnvValue::from(pid)),
                ("tracer_name".into(), EnvValue::from("lttng-ust")),
                ("tracer_major".into(), EnvValue::from(2)),
                ("strata_loss_mode".into(), EnvValue::from(mode)),
            ],
            clock: ClockClass::monotonic(None, ORIGIN),
            streams: vec![StreamClass {
                id: 0,
                name: String::new(),
                header: RecordHeader::Compact,
                context: Vec::new(),
                events: vec![
                    event(0, "number", FieldClass::Integer(Integer::unsigned(8))),
                    event(1, "text", FieldClass::String),
                ],
            }],
        };
        trace.validate().unwrap();
        let path = self.0.join(format!("app-{pid}"));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("metadata"), metadata::write(&trace)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The packets of a stream, one after the other.
struct Packets {
    header: Header,
    bytes: Vec<u8>,
}

impl Packets {
    fn new(pid: u8, stream: u32) -> Packets {
        let header = Header {
            uuid: Uuid([pid; 16]),
            stream_instance: u64::from(stream),
            cpu_id: stream,
            ..Header::default()
        };
        Packets { header, bytes: Vec::new() }
    }

    /// Adds a packet from the first of these times to the last, with a record at each: an event of numbers, or at each
    /// tenth an event with a text of `text` bytes, its NUL included.
    fn packet(&mut self, times: &[u64], text: usize, padding: u64) -> &mut Packets {
        let mut records = Vec::new();
        for (number, time) in times.iter().enumerate() {
            let id = u32::from(number % 10 == 9);
            records.extend_from_slice(&((*time as u32) << 5 | id).to_ne_bytes());
            if id == 0 {
                records.extend_from_slice(&time.to_ne_bytes());
            } else {
                records.resize(records.len() + text - 1, b'x');
                records.push(0);
            }
        }
        self.header.timestamp_begin = times.first().copied().unwrap_or(self.header.timestamp_end);
        self.header.timestamp_end = times.last().copied().unwrap_or(self.header.timestamp_end);
        let mut header = self.header.with_content_bytes(records.len() as u64);
        header.packet_bits += padding * 8;
        self.bytes.extend_from_slice(&header.encode());
        self.bytes.extend_from_slice(&records);
        self.bytes.resize(self.bytes.len() + padding as usize, 0);
        self.header.sequence += 1;
        self
    }

    fn write(&self, trace: &Path) {
        let name = format!("channel0_{}", self.header.cpu_id);
        fs::write(trace.join(name), &self.bytes).unwrap();
    }
}

fn counted(path: &Path, options: &Options<'_>) -> Stats {
    let reader = Reader::open(&[path]).unwrap();
    count(&reader, options, &|_| true).unwrap()
}

fn steps(from: u64, records: u64, step: u64) -> Vec<u64> {
    (0..records).map(|at| from + at * step).collect()
}

#[test]
fn loss_mode_is_what_the_environment_says_if_it_is_one() {
    let folder = Folder::new();
    for (pid, mode) in [(7, Some(LossMode::Overwrite)), (8, Some(LossMode::Discard)), (9, None)] {
        let trace = folder.trace(pid);
        Packets::new(pid as u8, 0).packet(&[1000], 20, 0).write(&trace);
        assert_eq!(counted(&trace, &Options::default()).traces[0].loss_mode, mode);
    }
}

#[test]
fn count_of_two_streams_has_every_record_byte_and_time() {
    let folder = Folder::new();
    let trace = folder.trace(7);
    Packets::new(7, 0)
        .packet(&steps(1000, 100, 10), 20, 5)
        .packet(&steps(5000, 30, 1), 6, 0)
        .write(&trace);
    Packets::new(7, 1).packet(&steps(2000, 10, 100), 50, 7).write(&trace);
    let stats = counted(&trace, &Options::default());

    let events: Vec<_> =
        stats.events.iter().map(|event| (event.name.as_str(), event.count)).collect();
    assert_eq!(events[0].0, "demo:number");
    assert_eq!((events[0].1.records, events[0].1.bytes), (90 + 27 + 9, 126 * 12));
    assert_eq!((events[0].1.smallest, events[0].1.largest), (12, 12));
    assert_eq!(events[1].0, "demo:text");
    assert_eq!((events[1].1.records, events[1].1.bytes), (14, 10 * 24 + 3 * 10 + 54));
    assert_eq!((events[1].1.smallest, events[1].1.largest), (10, 54));

    assert_eq!(stats.span, Some(TraceSpan { from: ORIGIN + 1000, to: ORIGIN + 5029 }));
    let sum = stats.sum();
    assert_eq!((sum.streams, sum.packets, sum.padding_bytes), (2, 3, 12));
    assert_eq!(sum.header_bytes, 3 * 84);
    assert_eq!(sum.bytes, sum.count.bytes + sum.header_bytes + sum.padding_bytes);
    assert_eq!(
        stats.streams[0].silence,
        Some(TraceSpan { from: ORIGIN + 1990, to: ORIGIN + 5000 })
    );
    assert_eq!(
        stats.streams[1].silence,
        Some(TraceSpan { from: ORIGIN + 2000, to: ORIGIN + 2100 })
    );
    assert_eq!((stats.streams[0].cpu, stats.streams[1].cpu), (Some(0), Some(1)));
    let of = &stats.traces[0];
    assert_eq!(
        (of.process.as_deref(), of.pid, of.host.as_deref()),
        (Some("app"), Some(7), Some("box"))
    );
    assert_eq!(of.tracer.as_deref(), Some("lttng-ust 2"));
    assert_eq!(of.events, stats.events);

    let timeline = stats.timeline.unwrap();
    assert_eq!((timeline.from, timeline.width), (ORIGIN + 1000, 100));
    assert_eq!(timeline.records.iter().sum::<u64>(), 140);
    // 10 records in each hundred of the first second, one of the other stream from the second one on.
    assert_eq!(timeline.records[..21], [[10; 10].as_slice(), &[1; 10], &[0]].concat());
    assert_eq!(timeline.records[40], 30);
}

#[test]
fn count_by_any_number_of_threads_and_in_many_parts_is_the_same() {
    let folder = Folder::new();
    for pid in 1..=3 {
        let trace = folder.trace(pid);
        for stream in 0..3 {
            let mut packets = Packets::new(pid as u8, stream);
            // 15 MiB in all: each stream is more than one part.
            for at in 0..64 {
                packets.header.discarded += at % 3;
                let from = at * 100_000 + u64::from(stream) * 7;
                packets.packet(&steps(from, 1900, 50), 30, 4096);
            }
            packets.write(&trace);
        }
    }
    let one = counted(&folder.0, &Options { threads: NonZeroUsize::new(1), ..Options::default() });
    assert_eq!(one.sum().count.records, 3 * 3 * 64 * 1900);
    assert_eq!(one.timeline.as_ref().unwrap().records.iter().sum::<u64>(), 3 * 3 * 64 * 1900);
    assert_eq!(one.sum().absent_records, 9 * 63);
    for threads in 2..=5 {
        let options = Options { threads: NonZeroUsize::new(threads), ..Options::default() };
        assert_eq!(counted(&folder.0, &options), one, "{threads} threads");
    }
}

#[test]
fn loss_is_counted_with_the_times_of_the_packets_around() {
    let folder = Folder::new();
    let trace = folder.trace(7);
    let mut packets = Packets::new(7, 0);
    packets.packet(&steps(1000, 10, 10), 5, 0);
    packets.header.discarded = 7;
    packets.packet(&steps(2000, 10, 10), 5, 0);
    packets.header.sequence += 3;
    packets.packet(&steps(3000, 10, 10), 5, 0).packet(&steps(4000, 10, 10), 5, 0).write(&trace);
    let stats = counted(&trace, &Options::default());
    let sum = stats.sum();
    assert_eq!((sum.absent_records, sum.absent_packets, sum.damage), (7, 3, 0));
    assert!(!stats.is_complete());
    let ranges = &stats.streams[0].absent.ranges;
    assert_eq!(ranges.len(), 2, "{ranges:?}");
    assert_eq!((ranges[0].kind, ranges[0].count), (AbsentKind::Records, 7));
    assert_eq!(ranges[0].span, Some(TraceSpan { from: ORIGIN + 1090, to: ORIGIN + 2090 }));
    assert_eq!((ranges[1].kind, ranges[1].count), (AbsentKind::Packets, 3));
    assert_eq!(ranges[1].span.map(|span| span.from), Some(ORIGIN + 2090));
}

#[test]
fn count_of_a_range_has_its_records_packets_and_losses_only() {
    let folder = Folder::new();
    let trace = folder.trace(7);
    let mut packets = Packets::new(7, 0);
    for at in 0..5 {
        packets.header.discarded += 1;
        packets.packet(&steps(at * 1000, 10, 10), 5, 0);
    }
    packets.write(&trace);
    let range = TimeRange { from: ORIGIN + 1050, to: ORIGIN + 2010 };
    let stats = counted(&trace, &Options { range, ..Options::default() });
    let sum = stats.sum();
    assert_eq!((sum.count.records, sum.packets), (5 + 2, 2));
    assert_eq!(stats.span, Some(TraceSpan { from: ORIGIN + 1050, to: ORIGIN + 2010 }));
    assert_eq!(stats.timeline.as_ref().unwrap().records.iter().sum::<u64>(), 7);
    let empty = TimeRange { from: ORIGIN + 100_000, to: ORIGIN + 200_000 };
    let stats = counted(&trace, &Options { range: empty, ..Options::default() });
    assert_eq!((stats.sum().count.records, stats.sum().packets, stats.timeline), (0, 0, None));
}

#[test]
fn malicious_packet_leaves_the_others_counted() {
    let folder = Folder::new();
    let trace = folder.trace(7);
    let mut packets = Packets::new(7, 0);
    for at in 0..5 {
        packets.packet(&steps(at * 1000, 10, 10), 5, 0);
    }
    let size = packets.bytes.len() / 5;
    // An unknown id in the fourth record of the third packet.
    packets.bytes[2 * size + 84 + 3 * 12] |= 0x1e;
    packets.write(&trace);
    let stats = counted(&trace, &Options::default());
    assert_eq!((stats.damage_found, stats.damage.len()), (1, 1));
    let damage = &stats.damage[0];
    assert_eq!((damage.packet, damage.stream.as_str()), (Some(2), "channel0_0"));
    assert!(damage.message.contains("packet 2 (offset 0x"), "{}", damage.message);
    assert_eq!(stats.sum().count.records, 4 * 10 + 3);
    assert_eq!((stats.sum().packets, stats.streams[0].sum.damage), (5, 1));
    assert_eq!(stats.traces[0].sum.damage, 1);
}

#[test]
fn malicious_metadata_of_one_trace_leaves_the_others_counted() {
    let folder = Folder::new();
    for pid in [1, 2] {
        Packets::new(pid, 0).packet(&steps(0, 10, 10), 5, 0).write(&folder.trace(i64::from(pid)));
    }
    fs::write(folder.0.join("app-1/metadata"), "trace { nonsense").unwrap();
    let stats = counted(&folder.0, &Options::default());
    assert_eq!((stats.sum().count.records, stats.damage_found), (10, 1));
    assert!(stats.damage[0].trace.ends_with("app-1"), "{:?}", stats.damage);
}

#[test]
fn malicious_times_are_counted_and_hang_nothing() {
    let folder = Folder::new();
    let trace = folder.trace(7);
    let mut packets = Packets::new(7, 0);
    packets.packet(&[5, u64::MAX - 7], 5, 0).packet(&[u64::MAX, 3, 9], 5, 0).packet(&[], 5, 0);
    packets.write(&trace);
    let stats = counted(&trace, &Options::default());
    assert_eq!(stats.sum().count.records, 5);
    // One of the times is no date.
    assert_eq!(stats.timeline.map(|timeline| timeline.records.iter().sum()), Some(4));
    assert!(stats.damage.iter().any(|it| it.message.contains("is no date")), "{:?}", stats.damage);
}

#[test]
fn count_of_a_trace_without_packets_is_nothing() {
    let folder = Folder::new();
    let stats = counted(&folder.trace(7), &Options::default());
    assert_eq!((stats.traces.len(), stats.sum().count.records, stats.span), (1, 0, None));
    assert_eq!(stats.timeline, None);
}

#[test]
fn count_that_is_asked_to_stop_has_no_result() {
    let folder = Folder::new();
    let trace = folder.trace(7);
    Packets::new(7, 0).packet(&steps(0, 10, 10), 5, 0).write(&trace);
    let reader = Reader::open(&[&trace]).unwrap();
    assert_eq!(count(&reader, &Options::default(), &|_| false), None);
    let bytes = AtomicU64::new(0);
    let go_on = |more| {
        bytes.fetch_add(more, Ordering::Relaxed);
        true
    };
    assert!(count(&reader, &Options::default(), &go_on).is_some());
    assert!(bytes.load(Ordering::Relaxed) > 0);
}

#[test]
fn tracer_of_a_kernel_trace_is_strata_whatever_it_says_to_other_readers() {
    for as_lttng in [false, true] {
        let host = KernelHost {
            hostname: b"box",
            release: b"6.18.5",
            version: b"#1 SMP",
            machine: b"x86_64",
            created: "",
            overwrites: false,
            as_lttng,
            whole: strata_ctf::environment::Whole::default(),
        };
        let mut schema = Schema { environment: kernel_environment(&host), ..Schema::default() };
        let version = schema.environment("strata_version").cloned();
        let Some(EnvValue::Text(version)) = version else { panic!("{version:?}") };
        assert_eq!(tracer(&schema), Some(format!("strata {version}")));
        // As any other tracer's, without it.
        schema.environment.retain(|(name, _)| name != "strata_version");
        let known = ["strata ", "lttng-modules 2.13"][usize::from(as_lttng)];
        assert!(tracer(&schema).unwrap().starts_with(known));
    }
}

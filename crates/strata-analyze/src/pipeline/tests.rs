use super::chunk::{CHUNKS_WAITING, REMARKS};
use super::*;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32};
use strata_ctf::read::DiscardedKind;

const EVENTS: u64 = 200;
const PACKETS: u64 = 300;

/// A trace of two streams that is removed at the end of the test.
struct Trace(PathBuf);

impl Trace {
    fn new() -> Trace {
        Trace::of(PACKETS, EVENTS)
    }

    /// Makes a trace with `count` packets in each stream, and `events` event records in each packet.
    fn of(count: u64, events: u64) -> Trace {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("strata-pipeline-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("metadata"), METADATA).unwrap();
        for stream in 0..2 {
            fs::write(folder.join(format!("s{stream}")), packets(stream, count, events)).unwrap();
        }
        Trace(folder)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const METADATA: &str = "/* CTF 1.8 */
    typealias integer { size = 64; align = 8; signed = false; } := u64;
    trace { major = 1; minor = 8; byte_order = le; };
    clock { name = c; freq = 1000000000; offset_s = 1700000000; };
    typealias integer { size = 64; align = 8; map = clock.c.value; } := ts;
    stream {
        packet.context := struct { ts timestamp_begin; ts timestamp_end; u64 content_size;
            u64 packet_size; u64 cpu_id; };
        event.header := struct { ts timestamp; };
    };
    event { name = \"e\"; fields := struct { u64 number; u64 other; }; };";

fn packets(stream: u64, count: u64, events: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut push = |value: u64| bytes.extend_from_slice(&value.to_le_bytes());
    for packet in 0..count {
        let begin = packet * 1_000_000 + stream;
        let bits = (5 + 3 * events) * 64;
        for value in [begin, begin + 10 * (events - 1), bits, bits, stream] {
            push(value);
        }
        for event in 0..events {
            for value in [begin + 10 * event, packet * events + event, stream] {
                push(value);
            }
        }
    }
    bytes
}

/// Returns the text of the trace, up to where `enough` returns true.
fn text(
    trace: &Trace,
    threads: usize,
    enough: &mut dyn FnMut(&[u8]) -> bool,
) -> (Vec<u8>, PipelineSummary) {
    let reader = Reader::open(&[&trace.0]).unwrap();
    let job = Job {
        reader: &reader,
        range: TimeRange::ALL,
        options: Options::default(),
        filter: None,
        mine: None,
        limit: u64::MAX,
        threads,
        stop: &|| false,
    };
    let mut all = Vec::new();
    let summary = run(&job, &mut |output| {
        if let PipelineOutput::Text(text) = output {
            all.extend_from_slice(text);
            if enough(&all) {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    (all, summary)
}

#[test]
fn pipeline_with_any_number_of_threads_gives_the_same_text() {
    let trace = Trace::new();
    let (alone, summary) = text(&trace, 1, &mut |_| false);
    assert_eq!(summary.events, 2 * EVENTS * PACKETS);
    let lines = String::from_utf8(alone.clone()).unwrap();
    assert_eq!(lines.lines().count() as u64, summary.events);
    assert_eq!(lines.matches("(+?.?????????)").count(), 1);
    for threads in [2, 3, 8] {
        let (together, other) = text(&trace, threads, &mut |_| false);
        assert_eq!(other, summary);
        assert!(together == alone, "{threads} threads");
    }
}

#[test]
fn pipeline_when_nobody_wants_more_ends_at_once() {
    let trace = Trace::new();
    for threads in [1, 2, 8] {
        let (some, _) = text(&trace, threads, &mut |all| !all.is_empty());
        assert!(some.len() <= 2 * FIRST_CHUNK, "{threads} threads: {}", some.len());
    }
}

#[test]
fn pipeline_when_somebody_stops_it_ends_with_a_whole_line() {
    let trace = Trace::new();
    let reader = Reader::open(&[&trace.0]).unwrap();
    for threads in [1, 2, 8] {
        let stop = AtomicBool::new(false);
        let stopped = || stop.load(Ordering::Relaxed);
        let job = Job {
            reader: &reader,
            range: TimeRange::ALL,
            options: Options::default(),
            filter: None,
            mine: None,
            limit: u64::MAX,
            threads,
            stop: &stopped,
        };
        let mut all = Vec::new();
        let summary = run(&job, &mut |output| {
            if let PipelineOutput::Text(text) = output {
                all.extend_from_slice(text);
                stop.store(true, Ordering::Relaxed);
            }
            ControlFlow::Continue(())
        });
        assert!(summary.stopped && summary.events < 2 * EVENTS * PACKETS);
        assert_eq!(all.last(), Some(&b'\n'));
    }
}

#[test]
fn span_of_a_trace_is_that_of_its_packets() {
    let trace = Trace::new();
    let reader = Reader::open(&[&trace.0]).unwrap();
    let begin = 1_700_000_000_000_000_000;
    let to = begin + (PACKETS as i64 - 1) * 1_000_000 + 1 + 10 * (EVENTS as i64 - 1);
    assert_eq!(span(&reader), Some(TimeRange { from: begin, to }));
}

#[test]
fn span_of_records_ends_with_the_last_one_however_long_its_packet_goes_on() {
    let begin = 1_700_000_000_000_000_000;
    let last = begin + 2 * 1_000_000 + 1 + 4 * 10;
    for behind in [0, 1, 9_999_999, 10_000_000, 500_000_000, 86_400_000_000_000] {
        let trace = Trace::of(3, 5);
        for stream in [0, 1] {
            let mut bytes = packets(stream, 3, 5);
            let packet = bytes.len() / 3;
            let end = (last - begin + behind) as u64;
            bytes[2 * packet + 8..][..8].copy_from_slice(&end.to_le_bytes());
            fs::write(trace.0.join(format!("s{stream}")), bytes).unwrap();
        }
        let reader = Reader::open(&[&trace.0]).unwrap();
        assert_eq!(span(&reader), Some(TimeRange { from: begin, to: last + behind }));
        assert_eq!(span_of_records(&reader), Some(TimeRange { from: begin, to: last }));
    }
    // Packets without a record say more than nothing.
    let trace = Trace::of(1, 1);
    for stream in [0, 1] {
        let mut bytes = packets(stream, 1, 1);
        bytes.truncate(5 * 8);
        bytes[16..32].copy_from_slice(&[(5 * 64_u64).to_le_bytes(); 2].concat());
        fs::write(trace.0.join(format!("s{stream}")), bytes).unwrap();
    }
    let reader = Reader::open(&[&trace.0]).unwrap();
    assert_eq!(span_of_records(&reader), span(&reader));
    assert!(span(&reader).is_some());
}

#[test]
fn pipeline_with_packets_of_megabytes_gives_the_same_text() {
    // The text of these slices is more than may wait.
    let (packets, events) = (2, 60_000);
    assert!(2 * events * 24 * TEXT_PER_BYTE > WAITING as u64 && events > 8 * BLOCK);
    let trace = Trace::of(packets, events);
    // A packet without room for its own header; without a magic number, the one behind is not found.
    let path = trace.0.join("s1");
    let mut bytes = fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    let bad = [0, 0, 8, 40 * 8, 1].map(u64::to_le_bytes).concat();
    bytes.splice(half..half, bad);
    fs::write(&path, bytes).unwrap();

    let (alone, summary) = text(&trace, 1, &mut |_| false);
    assert_eq!(summary.events, 3 * events);
    assert!(summary.damage > 0 && summary.damage_untold == 0);
    for threads in [2, 3, 8] {
        let (together, other) = text(&trace, threads, &mut |_| false);
        assert_eq!(other, summary);
        assert!(together == alone, "{threads} threads");
    }
}

#[test]
fn pipeline_with_packets_of_megabytes_shows_the_first_text_at_once() {
    let trace = Trace::of(1, 60_000);
    for threads in [1, 2, 8] {
        let (some, _) = text(&trace, threads, &mut |all| !all.is_empty());
        assert!(some.len() <= 2 * FIRST_CHUNK, "{threads} threads: {}", some.len());
    }
}

#[test]
fn malicious_counts_of_discarded_records_are_as_many_as_can_be_counted() {
    let trace = Trace::of(1, 1);
    let metadata = METADATA.replace("u64 cpu_id;", "u64 cpu_id; u64 events_discarded;");
    fs::write(trace.0.join("metadata"), metadata).unwrap();
    for stream in ["s0", "s1"] {
        let bits = 6 * 64;
        let packet = |discarded| [1, 1, bits, bits, 0, discarded].map(u64::to_le_bytes).concat();
        fs::write(trace.0.join(stream), [packet(0), packet(u64::MAX)].concat()).unwrap();
    }
    for threads in [1, 2] {
        let (_, summary) = text(&trace, threads, &mut |_| false);
        assert_eq!((summary.damage, summary.discarded), (0, u64::MAX), "{threads} threads");
    }
}

/// Delivers two shares of a slice, and returns the findings that differ.
fn ends_of_two(first: SliceFindings, second: SliceFindings) -> (Vec<SliceFindings>, usize) {
    let queue = Queue::new(1);
    for (share, seen) in [first, second].into_iter().enumerate() {
        let chunk = Chunk { end: ChunkEnd::Slice(seen), ..Chunk::default() };
        let task = Task { slice: 0, share, shares: 2 };
        assert!(queue.hand_over(task, chunk).is_continue());
    }
    let mut written = 0;
    queue.deliver(0, &mut |_| {
        written += 1;
        ControlFlow::Continue(())
    });
    (queue.unlike(), written)
}

#[test]
fn loss_where_shares_find_different_event_records_is_damage() {
    let seen = |blocks, left| SliceFindings { blocks, left, ..SliceFindings::default() };
    let (unlike, written) = ends_of_two(seen(3, 5), seen(3, 5));
    assert!(unlike.is_empty() && written == 1);
    for other in [seen(2, 5), seen(3, 6), SliceFindings { damage: 1, ..seen(3, 5) }] {
        let (unlike, written) = ends_of_two(seen(3, 5), other);
        assert!(unlike.len() == 2 && written == 1);
        let renderer = Renderer::new(&Options::default());
        let mut writer = ChunkWriter {
            renderer,
            joiner: None,
            has_ended: false,
            last: None,
            summary: PipelineSummary::default(),
        };
        writer.unlike(&unlike, &mut |_| ControlFlow::Continue(()));
        assert!(writer.summary.damage > 0 && writer.summary.damage_untold > 0);
    }
}

#[test]
fn chunks_without_text_wait_as_chunks_with_text_do() {
    let queue = Queue::new(4);
    let handed = AtomicU32::new(0);
    thread::scope(|scope| {
        let worker = scope.spawn(|| loop {
            // Of the next slice, so that nobody takes them.
            let task = Task { slice: 1, share: 0, shares: 1 };
            if queue.hand_over(task, Chunk::default()).is_break() {
                break;
            }
            assert!(handed.fetch_add(1, Ordering::Relaxed) < CHUNKS_WAITING as u32);
        });
        while handed.load(Ordering::Relaxed) < CHUNKS_WAITING as u32 && !worker.is_finished() {
            thread::yield_now();
        }
        queue.end();
        worker.join().unwrap();
    });
    assert_eq!(handed.load(Ordering::Relaxed), CHUNKS_WAITING as u32);
}

/// Renders a whole trace. Returns its text, its remarks and the summary.
fn all(
    trace: &Trace,
    range: TimeRange,
    (limit, threads): (u64, usize),
    options: &Options,
) -> (String, Vec<Remark>, PipelineSummary) {
    let reader = Reader::open(&[&trace.0]).unwrap();
    let job = Job {
        reader: &reader,
        range,
        options: options.clone(),
        filter: None,
        mine: None,
        limit,
        threads,
        stop: &|| false,
    };
    let (mut text, mut remarks) = (Vec::new(), Vec::new());
    let summary = run(&job, &mut |output| {
        match output {
            PipelineOutput::Text(more) => text.extend_from_slice(more),
            PipelineOutput::Remark(remark) => remarks.push(remark.clone()),
            PipelineOutput::Read(_) => {}
        }
        ControlFlow::Continue(())
    });
    (String::from_utf8(text).unwrap(), remarks, summary)
}

#[test]
fn limit_gives_the_first_event_records_and_no_more_with_any_number_of_threads() {
    let trace = Trace::of(20, 100);
    let options = Options::default();
    let (whole, _, _) = all(&trace, TimeRange::ALL, (u64::MAX, 1), &options);
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 4000);
    for (limit, threads, wanted) in
        [(1, 1, 1), (1, 8, 1), (100, 2, 100), (3999, 3, 3999), (4000, 2, 4000), (9999, 8, 4000)]
    {
        let (text, _, summary) = all(&trace, TimeRange::ALL, (limit, threads), &options);
        assert_eq!(summary.events, wanted as u64, "{limit} {threads}");
        assert!(text == lines[..wanted].concat(), "{limit} {threads}");
    }
}

#[test]
fn ranges_beside_each_other_have_each_event_record_once() {
    let trace = Trace::of(20, 100);
    let begin = 1_700_000_000_000_000_000;
    // A border on a record's time, between two packets, in a packet; none at all.
    for border in [begin + 10, begin + 1_500_000, begin + 7_000_505, begin - 1, begin + 99_000_000]
    {
        let options = Options { delta: false, ..Options::default() };
        let (whole, _, _) = all(&trace, TimeRange::ALL, (u64::MAX, 1), &options);
        for threads in [1, 4] {
            let one = TimeRange { from: i64::MIN, to: border - 1 };
            let two = TimeRange { from: border, to: i64::MAX };
            let (first, _, found) = all(&trace, one, (u64::MAX, threads), &options);
            let (second, _, more) = all(&trace, two, (u64::MAX, threads), &options);
            assert_eq!(found.events + more.events, 4000, "{border}");
            assert!([first, second].concat() == whole, "{border} {threads}");
        }
    }
    let empty = TimeRange { from: begin + 5, to: begin + 4 };
    let (text, remarks, summary) = all(&trace, empty, (u64::MAX, 2), &Options::default());
    assert_eq!((text.as_str(), remarks.len(), summary), ("", 0, PipelineSummary::default()));
}

#[test]
fn malicious_number_of_damages_is_counted_and_the_first_ones_are_reported() {
    let trace = Trace::of(100, 4);
    let path = trace.0.join("s0");
    let mut bytes = fs::read(&path).unwrap();
    let packet = bytes.len() / 100;
    for number in 0..50 {
        // The content's size is no multiple of a record's: the last one is cut.
        let at = number * 2 * packet + 2 * 8;
        let bits = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) - 64;
        bytes[at..at + 8].copy_from_slice(&bits.to_le_bytes());
    }
    fs::write(&path, bytes).unwrap();
    for threads in [1, 2, 8] {
        let (_, remarks, summary) =
            all(&trace, TimeRange::ALL, (u64::MAX, threads), &Options::default());
        assert_eq!((summary.damage, summary.events), (50, 2 * 400 - 50), "{threads}");
        let told = remarks.iter().filter(|it| matches!(it, Remark::Damage(_))).count() as u64;
        assert_eq!(told + summary.damage_untold, 50, "{threads}");
        assert!(told >= REMARKS as u64, "{threads}: {told}");
    }
}

#[test]
fn loss_is_reported_with_its_stream_its_number_and_its_times() {
    let trace = Trace::of(1, 1);
    let metadata = METADATA.replace("u64 cpu_id;", "u64 cpu_id; u64 events_discarded;");
    fs::write(trace.0.join("metadata"), metadata).unwrap();
    let bits = 6 * 64;
    let packet = |begin: u64, discarded: u64| {
        [begin, begin + 5, bits, bits, 0, discarded].map(u64::to_le_bytes).concat()
    };
    fs::write(trace.0.join("s0"), [packet(10, 3), packet(20, 3), packet(30, 10)].concat()).unwrap();
    fs::remove_file(trace.0.join("s1")).unwrap();
    for threads in [1, 3] {
        let (_, remarks, summary) =
            all(&trace, TimeRange::ALL, (u64::MAX, threads), &Options::default());
        let told: Vec<_> = remarks
            .iter()
            .map(|remark| match remark {
                Remark::Discarded { stream, count, kind, at_begin, between, .. } => {
                    let at = |time: Option<i64>| time.map(|time| time % 1_000_000_000);
                    (stream.as_str(), *count, *kind, *at_begin, at(between.0), at(between.1))
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let records = DiscardedKind::Records;
        let last = ("s0", 7, records, false, Some(25), Some(35));
        assert_eq!(told.last(), Some(&last), "{threads}: {told:?}");
        // What the first packet counts may be from before the trace.
        let (first, rest) = told.split_first().unwrap();
        assert_eq!((first.1, first.3, rest.len()), (3, true, 1), "{threads}: {told:?}");
        assert_eq!((summary.discarded, summary.events), (10, 0));
    }
}

#[test]
fn head_of_a_table_is_written_once_and_in_front_of_all() {
    let trace = Trace::of(50, 50);
    let options = Options { format: crate::render::Format::Csv, ..Options::default() };
    let (alone, _, _) = all(&trace, TimeRange::ALL, (u64::MAX, 1), &options);
    assert!(alone.starts_with("time,host,process,vpid,cpu,name,fields\r\n"), "{}", &alone[..80]);
    assert_eq!((alone.matches("time,host").count(), alone.matches("\r\n").count()), (1, 5001));
    let (together, _, _) = all(&trace, TimeRange::ALL, (u64::MAX, 4), &options);
    assert!(together == alone);
    // Who wants no more than that gets no more.
    let reader = Reader::open(&[&trace.0]).unwrap();
    let job = Job {
        reader: &reader,
        range: TimeRange::ALL,
        options,
        filter: None,
        mine: None,
        limit: u64::MAX,
        threads: 2,
        stop: &|| false,
    };
    let mut outputs = 0;
    let summary = run(&job, &mut |_| {
        outputs += 1;
        ControlFlow::Break(())
    });
    assert_eq!((outputs, summary), (1, PipelineSummary::default()));
}

#[test]
fn span_of_a_trace_whose_packets_have_no_times_is_that_of_its_event_records() {
    let trace = Trace::of(3, 5);
    let metadata = METADATA.replace("ts timestamp_begin; ts timestamp_end;", "u64 one; u64 two;");
    fs::write(trace.0.join("metadata"), metadata).unwrap();
    let begin = 1_700_000_000_000_000_000;
    let reader = Reader::open(&[&trace.0]).unwrap();
    let to = begin + 2 * 1_000_000 + 1 + 4 * 10;
    assert_eq!(span(&reader), Some(TimeRange { from: begin, to }));
    // None at all.
    for stream in ["s0", "s1"] {
        fs::write(trace.0.join(stream), b"").unwrap();
    }
    assert_eq!(span(&Reader::open(&[&trace.0]).unwrap()), None);
}

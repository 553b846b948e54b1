//! Packets, record headers, clocks, environments and names, by hand and read by babeltrace2.

use crate::support::*;
use std::fs;
use strata_ctf::environment::{user_environment, ProcessKnowledge, UserProcess};
use strata_ctf::{metadata, packet};
use strata_model::{
    ClockClass, EnvValue, EventClass, Integer, RecordHeader, StreamClass, Trace, Uuid,
};

const HEADERS: [RecordHeader; 2] = [RecordHeader::Compact, RecordHeader::Large];

/// The line of an event of CPU 0 with one field "v".
fn line(time: u64, name: &str, value: u64) -> String {
    format!("[{time:020}] {name}: {{ cpu_id = 0 }}, {{ v = {value} }}")
}

fn one_event(header: RecordHeader) -> Trace {
    trace(header, vec![event(0, "e", vec![u64_field("v")])])
}

// ---- record headers ----

/// The bytes that the C functions of ring/include/strata/ring/header.h give for the same arguments.
#[test]
#[cfg(target_endian = "little")]
fn records_written_here_begin_as_those_of_the_ring() {
    let time = 0x1234_5678_9abc_def0;
    let whole = [0xf0, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12];
    let compact = |id, full| record(RecordHeader::Compact, id, time, full, &[]);
    let large = |id, full| record(RecordHeader::Large, id, time, full, &[]);
    assert_eq!(compact(5, false), [0x05, 0xde, 0x9b, 0x57]);
    assert_eq!(compact(5, true), [&[0x1f, 5, 0, 0, 0], &whole[..]].concat());
    assert_eq!(compact(31, false), [&[0x1f, 31, 0, 0, 0], &whole[..]].concat());
    assert_eq!(large(5, false), [0x05, 0x00, 0xf0, 0xde, 0xbc, 0x9a]);
    assert_eq!(large(5, true), [&[0xff, 0xff, 5, 0, 0, 0], &whole[..]].concat());
    assert_eq!(large(70000, false), [&[0xff, 0xff, 0x70, 0x11, 1, 0], &whole[..]].concat());
}

#[test]
fn records_of_300_classes_are_distinguished() {
    for header in HEADERS {
        let classes = (0..300).map(|id| event(id, &format!("e{id}"), vec![u64_field("v")]));
        let described = trace(header, classes.collect());
        let mut packets = Packets::default();
        let records: Vec<_> = (0..300)
            .map(|id| {
                record(header, id, 5000 + u64::from(id), false, &u64::from(id * 7).to_ne_bytes())
            })
            .collect();
        packets.add(span(5000, 5299), &records, 0);
        let folder = Folder::new();
        write_trace(folder.path(), &described, &[("channel0_0", &packets)]);
        let expected: Vec<_> =
            (0..300).map(|id| line(5000 + id, &format!("p:e{id}"), id * 7)).collect();
        if let Some(lines) = pretty(folder.path()) {
            assert_eq!(lines, expected, "{header:?}");
        }
    }
}

#[test]
fn records_of_the_ids_around_each_limit_are_distinguished() {
    let ids = [0, 1, 30, 31, 32, 255, 256, 65534, 65535, 65536, u32::MAX];
    for header in HEADERS {
        let classes = ids.iter().map(|&id| event(id, &format!("e{id}"), vec![u64_field("v")]));
        let described = trace(header, classes.collect());
        let mut packets = Packets::default();
        let mut expected = Vec::new();
        let mut records = Vec::new();
        for (time, &id) in (5000..).zip(&ids) {
            for full in [false, true] {
                let value = time + u64::from(full);
                records.push(record(header, id, time, full, &value.to_ne_bytes()));
                expected.push(line(time, &format!("p:e{id}"), value));
            }
        }
        packets.add(span(5000, 6000), &records, 0);
        let folder = Folder::new();
        write_trace(folder.path(), &described, &[("channel0_0", &packets)]);
        if let Some(lines) = pretty(folder.path()) {
            assert_eq!(lines, expected, "{header:?}");
        }
    }
}

#[test]
fn wrap_of_the_short_timestamp_between_records_is_followed() {
    for header in HEADERS {
        let period = 1u64 << header.timestamp_bits();
        let begin = 1000 * period + 17;
        // Each step is less than a period, or the record has the whole timestamp.
        let times = [
            (begin, false),
            (begin, false),
            (begin + period - 1, false),
            (begin + 2 * period - 2, false),
            (begin + 3 * period - 3, false),
            (begin + 3 * period - 2, false),
            (begin + 7 * period, true),
            (begin + 8 * period - 1, false),
            (begin + 100 * period - 1, true),
            (begin + 100 * period, false),
        ];
        let records: Vec<_> = times
            .iter()
            .map(|&(time, full)| record(header, 0, time, full, &time.to_ne_bytes()))
            .collect();
        let mut packets = Packets::default();
        packets.add(span(begin, begin + 101 * period), &records, 0);
        let folder = Folder::new();
        write_trace(folder.path(), &one_event(header), &[("channel0_0", &packets)]);
        let expected: Vec<_> = times.iter().map(|&(time, _)| line(time, "p:e", time)).collect();
        if let Some(lines) = pretty(folder.path()) {
            assert_eq!(lines, expected, "{header:?}");
        }
    }
}

#[test]
fn wrap_of_the_short_timestamp_between_packets_is_followed() {
    for header in HEADERS {
        let period = 1u64 << header.timestamp_bits();
        // A short timestamp is relative to the packet's begin, however long the stream was silent.
        let begins = [5 * period - 1, 6 * period, 1000 * period + 3, 1001 * period + 2];
        let mut packets = Packets::default();
        let mut expected = Vec::new();
        for begin in begins {
            let times = [begin, begin + period / 2, begin + period / 2 + 1];
            let records: Vec<_> =
                times.iter().map(|t| record(header, 0, *t, false, &t.to_ne_bytes())).collect();
            packets.add(span(begin, times[2]), &records, 0);
            expected.extend(times.iter().map(|&time| line(time, "p:e", time)));
        }
        let folder = Folder::new();
        write_trace(folder.path(), &one_event(header), &[("channel0_0", &packets)]);
        if let Some(lines) = pretty(folder.path()) {
            assert_eq!(lines, expected, "{header:?}");
        }
    }
}

// ---- packets and streams ----

#[test]
fn packets_with_padding_and_without_records_are_read() {
    let header = RecordHeader::Compact;
    let mut packets = Packets::default();
    packets.add(span(100, 200), &[record(header, 0, 150, false, &1u64.to_ne_bytes())], 1000);
    packets.add(span(200, 300), &[], 0);
    packets.add(span(300, 300), &[], 4096);
    packets.add(span(300, 400), &[record(header, 0, 400, false, &2u64.to_ne_bytes())], 1);
    let folder = Folder::new();
    write_trace(folder.path(), &one_event(header), &[("channel0_0", &packets)]);
    if let Some(lines) = pretty(folder.path()) {
        assert_eq!(lines, [line(150, "p:e", 1), line(400, "p:e", 2)]);
    }
}

#[test]
fn streams_of_several_cpus_are_merged_by_time() {
    let header = RecordHeader::Compact;
    let mut streams: Vec<Packets> = (0..3).map(|_| Packets::default()).collect();
    for packet in 0..4u64 {
        for (cpu, packets) in (0..).zip(&mut streams) {
            let begin = 10_000 + packet * 100;
            let records: Vec<_> = (0..5u64)
                .map(|i| {
                    let time = begin + 10 * i + u64::from(cpu);
                    record(header, 0, time, false, &time.to_ne_bytes())
                })
                .collect();
            let context = packet::Header {
                cpu_id: cpu,
                stream_instance: cpu.into(),
                ..span(begin, begin + 99)
            };
            packets.add(context, &records, 3);
        }
    }
    let folder = Folder::new();
    let files =
        [("channel0_0", &streams[0]), ("channel0_1", &streams[1]), ("channel0_2", &streams[2])];
    write_trace(folder.path(), &one_event(header), &files);
    let mut expected = Vec::new();
    for packet in 0..4u64 {
        for i in 0..5u64 {
            for cpu in 0..3u64 {
                let time = 10_000 + packet * 100 + 10 * i + cpu;
                expected.push(format!("[{time:020}] p:e: {{ cpu_id = {cpu} }}, {{ v = {time} }}"));
            }
        }
    }
    if let Some(lines) = pretty(folder.path()) {
        assert_eq!(lines, expected);
    }
}

#[test]
fn streams_of_two_classes_have_each_its_header() {
    let mut described = one_event(RecordHeader::Compact);
    described.streams.push(StreamClass {
        id: 77,
        name: "channel1".into(),
        header: RecordHeader::Large,
        context: Vec::new(),
        events: vec![event(0, "other", vec![u64_field("v")])],
    });
    let (mut small, mut large) = (Packets::default(), Packets::default());
    let payload = 5u64.to_ne_bytes();
    small.add(span(100, 200), &[record(RecordHeader::Compact, 0, 150, false, &payload)], 0);
    let context = packet::Header { stream_id: 77, ..span(100, 200) };
    large.add(context, &[record(RecordHeader::Large, 0, 160, false, &payload)], 0);
    let folder = Folder::new();
    write_trace(folder.path(), &described, &[("channel0_0", &small), ("channel1_0", &large)]);
    if let Some(lines) = pretty(folder.path()) {
        assert_eq!(lines, [line(150, "p:e", 5), line(160, "p:other", 5)]);
    }
}

#[test]
fn loss_of_records_and_packets_is_reported_with_its_count() {
    let header = RecordHeader::Compact;
    let mut packets = Packets::default();
    let payload = 1u64.to_ne_bytes();
    for (begin, discarded) in [(100, 0), (200, 7), (300, 7)] {
        let context = packet::Header { discarded, ..span(begin, begin + 99) };
        packets.add(context, &[record(header, 0, begin + 1, false, &payload)], 0);
    }
    let bytes = packets.bytes.len() / 3;
    let folder = Folder::new();
    write_trace(folder.path(), &one_event(header), &[("channel0_0", &packets)]);
    let found = babeltrace_with_talk(&["--clock-cycles", "--no-delta"], &[folder.path()]);
    if let Some((text, talk)) = found {
        assert_eq!(text.lines().count(), 3);
        assert!(talk.contains("Tracer discarded 7 events between"), "{talk}");
        assert_eq!(talk.matches("discarded").count(), 1, "{talk}");
    }
    // Without the packet in the middle.
    packets.bytes.drain(bytes..2 * bytes);
    write_trace(folder.path(), &one_event(header), &[("channel0_0", &packets)]);
    let found = babeltrace_with_talk(&["--clock-cycles", "--no-delta"], &[folder.path()]);
    if let Some((text, talk)) = found {
        assert_eq!(text.lines().count(), 2);
        assert!(talk.contains("Tracer discarded 1 packet between"), "{talk}");
        assert!(talk.contains("Tracer discarded 7 events between"), "{talk}");
    }
}

#[test]
fn events_added_to_the_metadata_later_are_read() {
    let header = RecordHeader::Compact;
    let mut described = one_event(header);
    let late: Vec<EventClass> =
        (40..43).map(|id| event(id, &format!("late{id}"), vec![u64_field("v")])).collect();
    let mut text = metadata::write(&described);
    metadata::append_events(&mut text, 0, &late[..1]).unwrap();
    metadata::append_events(&mut text, 0, &late[1..]).unwrap();
    described.streams[0].events.extend(late);
    assert_eq!(text, metadata::write(&described));

    let mut packets = Packets::default();
    let records =
        [0, 40, 42].map(|id| record(header, id, u64::from(id), false, &9u64.to_ne_bytes()));
    packets.add(span(0, 100), &records, 0);
    let folder = Folder::new();
    write_trace(folder.path(), &described, &[("channel0_0", &packets)]);
    fs::write(folder.path().join("metadata"), text).unwrap();
    if let Some(lines) = pretty(folder.path()) {
        let expected = [line(0, "p:e", 9), line(40, "p:late40", 9), line(42, "p:late42", 9)];
        assert_eq!(lines, expected);
    }
}

#[test]
fn events_without_fields_are_read() {
    for header in HEADERS {
        let described = trace(header, vec![event(0, "a", vec![]), event(50, "b", vec![])]);
        let mut packets = Packets::default();
        let records = [(0, 1), (50, 2), (0, 3)].map(|(id, t)| record(header, id, t, false, &[]));
        packets.add(span(0, 9), &records, 0);
        let folder = Folder::new();
        write_trace(folder.path(), &described, &[("channel0_0", &packets)]);
        if let Some(lines) = pretty(folder.path()) {
            let expected = [(1, "a"), (2, "b"), (3, "a")]
                .map(|(t, name)| format!("[{t:020}] p:{name}: {{ cpu_id = 0 }}, {{ }}"));
            assert_eq!(lines, expected);
        }
    }
}

/// A library that is unloaded and loaded again gets new ids for the same events.
#[test]
fn events_of_one_name_with_two_ids_are_read() {
    let classes = vec![
        event(0, "e", vec![u64_field("v")]),
        event(40, "e", vec![u64_field("v")]),
        event(41, "e", vec![integer("v", Integer::unsigned(1))]),
    ];
    let header = RecordHeader::Compact;
    let payload = 9u64.to_ne_bytes();
    let records = [
        record(header, 0, 1, false, &payload),
        record(header, 40, 2, false, &payload),
        record(header, 41, 3, false, &[8]),
    ];
    let mut packets = Packets::default();
    packets.add(span(0, 9), &records, 0);
    let folder = Folder::new();
    write_trace(folder.path(), &trace(header, classes), &[("channel0_0", &packets)]);
    if let Some(lines) = pretty(folder.path()) {
        assert_eq!(lines, [line(1, "p:e", 9), line(2, "p:e", 9), line(3, "p:e", 8)]);
    }
}

// ---- clocks ----

/// Returns the wall-clock time that babeltrace2 shows for cycle 2,500,000,000.
fn seconds_of(clock: ClockClass) -> Option<String> {
    let header = RecordHeader::Compact;
    let described = Trace { clock, ..one_event(header) };
    let mut packets = Packets::default();
    let time = 2_500_000_000;
    packets.add(span(time, time), &[record(header, 0, time, false, &[0; 8])], 0);
    let folder = Folder::new();
    write_trace(folder.path(), &described, &[("channel0_0", &packets)]);
    let text = babeltrace(&["--clock-seconds", "--no-delta"], &[folder.path()])?;
    Some(text.split(' ').next().unwrap().to_owned())
}

#[test]
fn clock_offset_gives_wall_clock_time() {
    let cases = [
        (1_700_000_000_123_456_789, "[1700000002.623456789]"),
        (0, "[2.500000000]"),
        (-1_000_000_000, "[1.500000000]"),
        (-2_000_000_001, "[0.499999999]"),
    ];
    for (offset_ns, expected) in cases {
        if let Some(shown) = seconds_of(ClockClass::monotonic(Some(BOOT_ID), offset_ns)) {
            assert_eq!(shown, expected, "{offset_ns}");
        }
    }
}

#[test]
fn clock_of_another_frequency_is_converted() {
    let clock = ClockClass {
        name: "tsc".into(),
        uuid: None,
        description: "a \"cycle\" counter\n".into(),
        frequency: 2_500_000_000,
        precision: 40,
        offset_s: 1_700_000_000,
        offset_cycles: 1_250_000_000,
        absolute: true,
    };
    if let Some(shown) = seconds_of(clock) {
        assert_eq!(shown, "[1700000001.500000000]");
    }
}

#[test]
fn clock_is_described_in_full() {
    let described = Trace {
        clock: ClockClass {
            precision: 40,
            absolute: true,
            description: "a \"cycle\" \\ counter".into(),
            ..ClockClass::monotonic(Some(BOOT_ID), 1_700_000_000_123_456_789)
        },
        ..one_event(RecordHeader::Compact)
    };
    let folder = Folder::new();
    let mut packets = Packets::default();
    packets.add(span(0, 0), &[], 0);
    write_trace(folder.path(), &described, &[("channel0_0", &packets)]);
    let Some(text) = details(folder.path()) else { return };
    for expected in [
        "Name: monotonic\n",
        "Description: a \"cycle\" \\ counter\n",
        "Frequency (Hz): 1,000,000,000\n",
        "Precision (cycles): 40\n",
        "Offset (s): 1,700,000,000\n",
        "Offset (cycles): 123,456,789\n",
        "Origin is Unix epoch: Yes\n",
        "UUID: b0071d00-0000-4000-8000-000000000001\n",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn clocks_with_odd_names_are_read() {
    for name in ["clock", "struct", "9", "a b", "\"; };", "uint8_t", "größe"] {
        let clock = ClockClass { name: name.into(), ..ClockClass::monotonic(None, 0) };
        if let Some(shown) = seconds_of(clock) {
            assert_eq!(shown, "[2.500000000]", "{name}");
        }
    }
}

#[test]
fn traces_of_two_processes_are_merged_by_time() {
    let header = RecordHeader::Compact;
    let folder = Folder::new();
    for process in 0..2u64 {
        // Two traces with one UUID would be taken for one trace.
        let uuid = Uuid([process as u8; 16]);
        let mut packets = Packets::default();
        packets.uuid = uuid;
        let times = [1000 + process, 1010 + process];
        let records = times.map(|time| record(header, 0, time, false, &time.to_ne_bytes()));
        packets.add(span(1000, 2000), &records, 0);
        let path = folder.path().join(format!("user/app-{process}"));
        let described = Trace { uuid, ..one_event(header) };
        write_trace(&path, &described, &[("channel0_0", &packets)]);
    }
    if let Some(lines) = pretty(folder.path()) {
        let values: Vec<_> = lines.iter().map(|l| &l[l.len() - 10..]).collect();
        assert_eq!(values, ["v = 1000 }", "v = 1001 }", "v = 1010 }", "v = 1011 }"]);
    }
}

// ---- environment and names ----

/// The details of a trace with no packet's content.
fn details_of(described: &Trace) -> Option<String> {
    let folder = Folder::new();
    let mut packets = Packets::default();
    packets.add(span(0, 0), &[], 0);
    write_trace(folder.path(), described, &[("channel0_0", &packets)]);
    details(folder.path())
}

#[test]
fn environment_of_a_process_is_read() {
    let process = UserProcess {
        hostname: b"box",
        vpid: 4242,
        procname: b"my \"app\"\xff",
        known: ProcessKnowledge::default(),
        created: "2024-05-06T07:08:09+00:00",
        overwrites: false,
    };
    let environment = user_environment(&process);
    let described = Trace { environment, ..one_event(RecordHeader::Compact) };
    let Some(text) = details_of(&described) else { return };
    for expected in [
        "Environment (14 entries):",
        "domain: ust\n",
        "hostname: box\n",
        "procname: my \"app\"\\xff\n",
        "tracer_buffering_id: 4242\n",
        "tracer_buffering_scheme: pid\n",
        "tracer_major: 2\n",
        "tracer_minor: 13\n",
        "tracer_name: lttng-ust\n",
        "trace_creation_datetime: 2024-05-06T07:08:09+00:00\n",
        "vpid: 4242\n",
        "strata_loss_mode: discard\n",
        "strata_end_mark: 1\n",
        &format!("strata_version: {}\n", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn environment_of_any_values_is_read_exactly() {
    let described = Trace {
        environment: vec![
            ("least".into(), i64::MIN.into()),
            ("most".into(), i64::MAX.into()),
            ("empty".into(), "".into()),
            ("text".into(), "a\"b\\c\\\"; }; env { x = 1; };é".into()),
            ("event".into(), 1.into()),
            ("a b".into(), 2.into()),
            ("a_b".into(), 3.into()),
        ],
        ..one_event(RecordHeader::Compact)
    };
    let Some(text) = details_of(&described) else { return };
    for expected in [
        "Environment (7 entries):",
        "least: -9,223,372,036,854,775,808\n",
        "most: 9,223,372,036,854,775,807\n",
        "empty: \n",
        "text: a\"b\\c\\\"; }; env { x = 1; };é\n",
        "_event: 1\n",
        "a_b: 2\n",
        "a_b_2: 3\n",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn events_carry_their_level_and_their_link() {
    let mut described = one_event(RecordHeader::Compact);
    described.streams[0].events = (0..15)
        .map(|level| EventClass {
            loglevel: Some(level as u8),
            emf_uri: Some(format!("https://example.org/?q=\"{level}\"")),
            ..event(level, &format!("e{level}"), vec![])
        })
        .collect();
    let Some(text) = details_of(&described) else { return };
    let levels = [
        "Emergency",
        "Alert",
        "Critical",
        "Error",
        "Warning",
        "Notice",
        "Info",
        "Debug (system)",
        "Debug (program)",
        "Debug (process)",
        "Debug (module)",
        "Debug (unit)",
        "Debug (function)",
        "Debug (line)",
        "Debug",
    ];
    for (index, level) in levels.iter().enumerate() {
        let expected = format!(
            "Event class `p:e{index}` (ID {index}):\n      Log level: {level}\n      \
             EMF URI: https://example.org/?q=\"{index}\"\n"
        );
        assert!(text.contains(&expected), "{expected} in {text}");
    }
}

/// Names that try to end where they stand.
const HOSTILE: &[&str] = &[
    "\"",
    "\\",
    "\\\"",
    "x\"; id = 7; name = \"y",
    "\"; }; event { name = \"forged\"; id = 1; stream_id = 0; fields := struct { }; }; /* ",
    "*/ };",
    "/* ",
    "// ",
    "\\n\\x41\\101\\u0041\\",
    "%s%n%d",
    "${x}",
    "\u{202e}rtl\u{feff}",
    "日本語 😀",
    "'",
    "L\"x\"",
    "??/",
    "end\\",
];

#[test]
fn malicious_event_names_stay_in_their_quotes() {
    for header in HEADERS {
        let classes: Vec<EventClass> = (0..)
            .zip(HOSTILE)
            .map(|(id, name)| EventClass {
                provider: (*name).into(),
                emf_uri: Some((*name).into()),
                ..event(id, name, vec![u64_field(name)])
            })
            .collect();
        let count = classes.len();
        let described = trace(header, classes);
        let Some(text) = details_of(&described) else { return };
        assert_eq!(text.matches("Event class `").count(), count, "{text}");
        for (id, name) in HOSTILE.iter().enumerate() {
            let expected = format!(
                "Event class `{name}:{name}` (ID {id}):\n      EMF URI: {name}\n      \
                 Payload field class: Structure (1 member):"
            );
            assert!(text.contains(&expected), "{expected} in {text}");
        }
    }
}

#[test]
fn malicious_labels_stay_in_their_quotes() {
    let controls = ["a\nb", "\r", "\x01\x1b[2J\x7f", "a\0b", "\t", "7\x017"];
    for label in HOSTILE.iter().chain(&controls) {
        let fields = vec![
            enumeration("c", Integer::unsigned(1), &[(label, 1, 1), ("next", 2, 2)]),
            integer("after", Integer::unsigned(1)),
        ];
        let described = trace(RecordHeader::Compact, vec![event(0, "e", fields)]);
        let Some(text) = details_of(&described) else { return };
        let expected = format!("          {}: [1]\n", label.replace('\0', "\u{fffd}"));
        assert!(text.contains(&expected), "{expected:?} in {text:?}");
        assert!(text.contains("          next: [2]\n"), "{text}");
        assert!(text.contains("Unsigned enumeration (8-bit, Base 10, 2 mappings)"), "{text}");
        assert!(text.contains("after: Unsigned integer (8-bit, Base 10)"), "{text}");
    }
}

#[test]
fn malicious_values_of_the_environment_stay_in_their_quotes() {
    let controls = ["a\nb", "\r", "\x01\x1b[2J\x7f", "a\0b", "\t", "7\x017"];
    for value in HOSTILE.iter().chain(&controls) {
        let environment =
            vec![("procname".into(), EnvValue::from(*value)), ("next".into(), 1.into())];
        let described = Trace { environment, ..one_event(RecordHeader::Compact) };
        let Some(text) = details_of(&described) else { return };
        let expected = format!("procname: {}\n", value.replace('\0', "\u{fffd}"));
        assert!(text.contains("Environment (2 entries):"), "{text}");
        assert!(text.contains(&expected), "{expected:?} in {text:?}");
    }
}

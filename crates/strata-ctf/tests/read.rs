//! Traces are found, opened and read in the order of time.

use crate::read_support::*;
use crate::support::*;
use std::fs;
use std::os::unix::fs::symlink;
use strata_ctf::read::{
    find, DamageKind, DiscardedKind, Message, OpenError, Reader, TimeRange, Value,
};
use strata_model::RecordHeader;
use strata_random::Random;

#[test]
fn find_of_a_missing_path_says_so() {
    let folder = Folder::new();
    let error = find(&folder.path().join("nothing")).unwrap_err();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    assert!(error.to_string().contains("there is no such trace"), "{error}");
}

#[test]
fn find_of_a_file_says_what_a_trace_is() {
    let folder = Folder::new();
    let file = folder.path().join("metadata");
    fs::write(&file, "").unwrap();
    let error = find(&file).unwrap_err();
    assert!(matches!(error, OpenError::NoFolder { .. }), "{error}");
    let error = find(&file.join("below")).unwrap_err();
    assert!(matches!(error, OpenError::Unreadable { .. }), "{error}");
}

#[test]
fn find_without_a_trace_counts_folders() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path().join("a/b")).unwrap();
    // A folder of that name makes no trace.
    fs::create_dir_all(folder.path().join("c/metadata")).unwrap();
    let error = find(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::NoTrace { folders: 5, .. }), "{error}");
    let none: [&str; 0] = [];
    assert!(matches!(Reader::open(&none), Err(OpenError::NoPath)));
}

#[test]
fn find_where_links_lead_in_circles_ends() {
    let folder = Folder::new();
    let trace = folder.path().join("deep/er/trace");
    Made::new(1).write(&trace);
    symlink(folder.path(), folder.path().join("deep/up")).unwrap();
    symlink("nowhere", folder.path().join("broken")).unwrap();
    symlink(&trace, folder.path().join("again")).unwrap();
    let found = find(folder.path()).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    // The trace itself, by two names.
    let reader = Reader::open(&[&trace, &folder.path().join("again")]).unwrap();
    assert_eq!((reader.traces().len(), reader.damage().len()), (1, 0));
}

#[test]
fn open_takes_regular_files_that_are_streams() {
    let folder = Folder::new();
    let made = Made::new(1);
    made.write(folder.path());
    for other in [".hidden", "channel.idx"] {
        fs::write(folder.path().join(other), "no packet").unwrap();
    }
    fs::create_dir(folder.path().join("index")).unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    let reader = Reader::open(&[folder.path()]).unwrap();
    let names: Vec<_> = reader.streams().iter().map(|stream| stream.name()).collect();
    assert_eq!(names, ["channel_0", "channel_1", "empty"]);
    assert_eq!(texts(reader.events(TimeRange::ALL)), made.texts());
}

#[test]
fn open_of_one_trace_without_metadata_is_an_error_of_several_damage() {
    let folder = Folder::new();
    let (good, bad) = (folder.path().join("good"), folder.path().join("bad"));
    let made = Made::new(1);
    made.write(&good);
    fs::create_dir(&bad).unwrap();
    fs::write(bad.join("metadata"), "trace { major").unwrap();
    let error = Reader::open(&[&bad]).unwrap_err();
    assert!(matches!(error, OpenError::Metadata { .. }), "{error}");
    let reader = Reader::open(&[folder.path()]).unwrap();
    assert_eq!(reader.traces().len(), 1);
    let [damage] = reader.damage() else { panic!("{:?}", reader.damage()) };
    assert!(matches!(damage.what, DamageKind::Metadata { .. }), "{damage}");
    assert_eq!(texts(reader.events(TimeRange::ALL)), made.texts());
}

#[test]
fn open_of_metadata_with_a_bad_event_reads_the_others() {
    let folder = Folder::new();
    Made::new(1).write(folder.path());
    let path = folder.path().join("metadata");
    let text = fs::read_to_string(&path).unwrap() + "event { name = \"x\"; id = ";
    fs::write(&path, text).unwrap();
    let reader = Reader::open(&[folder.path()]).unwrap();
    assert!(matches!(reader.damage()[0].what, DamageKind::Description { .. }));
    assert!(!texts(reader.events(TimeRange::ALL)).is_empty());
}

#[test]
fn events_of_several_streams_are_sorted_by_time() {
    let folder = Folder::new();
    let made = Made::new(20);
    made.write(folder.path());
    let reader = Reader::open(&[folder.path()]).unwrap();
    let mut times = Vec::new();
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        if let Message::Event(event) = message {
            times.push(event.time().unwrap());
            let value = event.class().find("number").and_then(|field| event.value(&field));
            assert!(matches!(value, Some(Value::Unsigned(_))), "{value:?}");
        }
    }
    assert!(times.is_sorted());
    assert_eq!(times.len(), made.events());
    let mut run = Vec::new();
    let _ = reader.events(TimeRange::ALL).run(|message| {
        if let Message::Event(event) = message {
            run.push(event.time().unwrap());
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    assert_eq!(run, times);
    assert!(events.next().is_none());
    let bytes: u64 = reader.streams().iter().map(|stream| stream.bytes()).sum();
    assert!(events.bytes_read() >= bytes);
}

/// Streams, and traces, with events at the same time; babeltrace2's order.
#[test]
fn events_of_one_time_have_the_order_of_babeltrace2() {
    let folder = Folder::new();
    for (name, last) in [("one", 0xbb), ("two", 0xaa)] {
        let mut made = Made::new(3);
        made.uuid.0[15] = last;
        made.same_time = true;
        made.names = ["b", "a"];
        made.write(&folder.path().join(name));
    }
    let reader = Reader::open(&[folder.path()]).unwrap();
    let mut found = Vec::new();
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        if let Message::Event(event) = message {
            let number = event.value(&event.class().find("number").unwrap());
            let Some(Value::Unsigned(number)) = number else { panic!("{number:?}") };
            found.push(format!("number = {number}, "));
        }
    }
    assert_eq!(reader.traces()[0].name(), "one");
    let Some(text) = babeltrace(&["--no-delta"], &[folder.path()]) else { return };
    let expected: Vec<_> = text.lines().collect();
    assert_eq!(expected.len(), found.len());
    for (line, number) in expected.iter().zip(&found) {
        assert!(line.contains(number.as_str()), "{number} in {line}");
    }
}

#[test]
fn events_of_a_range_are_those_of_all_in_it() {
    let folder = Folder::new();
    let made = Made::new(40);
    made.write(folder.path());
    let reader = Reader::open(&[folder.path()]).unwrap();
    let all = times(reader.events(TimeRange::ALL));
    let span = reader.span().unwrap();
    assert!(span.from <= all[0] && *all.last().unwrap() <= span.to, "{span:?}");
    for from in (span.from - 3..span.to + 3).step_by(7) {
        for to in [from, from + 1, from + 50, i64::MAX] {
            let range = TimeRange { from, to };
            let expected: Vec<_> =
                all.iter().copied().filter(|&time| range.contains(time)).collect();
            assert_eq!(times(reader.events(range)), expected, "{range:?}");
        }
    }
}

/// Its packet has a part in the time, and all its records are before it.
#[test]
fn events_of_a_range_behind_a_packets_last_record_are_none() {
    let folder = Folder::new();
    let mut made = Made::new(0);
    let events = (0..5).map(|n| (1000 + n, n)).collect();
    made.packets[0].push(MadePacket { begin: 1000, end: 1100, events, padding: 0, discarded: 0 });
    made.write(folder.path());
    let reader = Reader::open(&[folder.path()]).unwrap();
    assert_eq!(reader.span().unwrap().to, 1100);
    let found = all(reader.events(TimeRange { from: 1050, to: i64::MAX }));
    assert_eq!(found, ["packet 0 0 0"]);
}

#[test]
fn events_of_rotated_files_are_one_stream() {
    let folder = Folder::new();
    let mut made = Made::new(12);
    made.write(folder.path());
    let whole = texts(Reader::open(&[folder.path()]).unwrap().events(TimeRange::ALL));
    // The file's parts get names in the wrong order.
    made.rotate = true;
    let folder = Folder::new();
    made.write(folder.path());
    let reader = Reader::open(&[folder.path()]).unwrap();
    assert_eq!(reader.streams().len(), 2);
    assert_eq!(reader.streams()[0].files().len(), 3);
    assert_eq!(texts(reader.events(TimeRange::ALL)), whole);
}

/// Snapshots of one trace have some packets twice.
#[test]
fn events_of_folders_with_one_uuid_are_one_trace() {
    let folder = Folder::new();
    let made = Made::new(12);
    made.write(&folder.path().join("one"));
    made.write(&folder.path().join("two"));
    for (name, skip, take) in [("one", 0, 8), ("two", 5, 7)] {
        made.write_some(&folder.path().join(name), skip, take);
    }
    let reader = Reader::open(&[folder.path()]).unwrap();
    assert_eq!((reader.traces().len(), reader.streams().len()), (1, 2));
    assert_eq!(texts(reader.events(TimeRange::ALL)), made.texts());
    let Some((text, _)) = babeltrace_with_talk(&[], &[folder.path()]) else { return };
    assert_eq!(text.lines().count(), made.events());
}

#[test]
fn loss_of_records_and_packets_is_reported_between_packets() {
    let folder = Folder::new();
    let mut packets = Packets::default();
    let record = |time| record(RecordHeader::Compact, 0, time, true, &7_u64.to_ne_bytes());
    for (begin, discarded) in [(100, 5), (200, 5), (300, 7)] {
        let header = strata_ctf::packet::Header { discarded, ..span(begin, begin + 50) };
        packets.add(header, &[record(begin + 10)], 0);
    }
    packets.skip(4);
    packets.add(strata_ctf::packet::Header { discarded: 8, ..span(400, 450) }, &[], 0);
    let described = trace(RecordHeader::Compact, vec![event(0, "e", vec![u64_field("f")])]);
    write_trace(folder.path(), &described, &[("channel_0", &packets)]);
    let reader = Reader::open(&[folder.path()]).unwrap();
    let mut found = Vec::new();
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        if let Message::Discarded(it) = message {
            found.push((it.kind, it.count, it.from.unwrap(), it.to.unwrap(), it.at_begin));
        }
    }
    use DiscardedKind::{Packets as P, Records as R};
    let expected = [
        (R, 5, 100, 150, true),
        (R, 2, 250, 350, false),
        (R, 1, 350, 450, false),
        (P, 4, 350, 400, false),
    ];
    assert_eq!(found, expected);
    let Some((_, talk)) = babeltrace_with_talk(&["--clock-seconds"], &[folder.path()]) else {
        return;
    };
    for expected in [
        "may have discarded events between [0.000000100] and [0.000000150]",
        "discarded 2 events between [0.000000250] and [0.000000350]",
        "discarded 1 event between [0.000000350] and [0.000000450]",
        "discarded 4 packets between [0.000000350] and [0.000000400]",
    ] {
        assert!(talk.contains(expected), "{expected} in {talk}");
    }
}

#[test]
fn wrap_of_the_discarded_counter_is_no_damage() {
    let folder = Folder::new();
    let text = TINY.replace("DISCARDED_BITS", "16");
    fs::write(folder.path().join("metadata"), text).unwrap();
    let mut file = Vec::new();
    for (begin, discarded) in [(10, 0xffff_u16), (20, 0x0003)] {
        file.extend(tiny_packet(begin, begin + 5, &discarded.to_le_bytes(), &[(begin, 1)]));
    }
    fs::write(folder.path().join("stream"), file).unwrap();
    let reader = Reader::open(&[folder.path()]).unwrap();
    let mut found = Vec::new();
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        match message {
            Message::Discarded(it) => found.push(it.count),
            Message::Damage(damage) => panic!("{damage}"),
            _ => {}
        }
    }
    assert_eq!(found, [0xffff, 4]);
}

/// The trace has no packet header, timestamps, sizes or clock, so each file is one packet.
#[test]
fn events_without_time_come_at_once_in_the_order_of_streams() {
    let folder = Folder::new();
    let text = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };\n\
        event { name = e; fields := struct { integer { size = 8; } v; }; };";
    fs::write(folder.path().join("metadata"), text).unwrap();
    fs::write(folder.path().join("a"), [1, 2, 3]).unwrap();
    fs::write(folder.path().join("b"), [4, 5]).unwrap();
    let reader = Reader::open(&[folder.path()]).unwrap();
    assert_eq!(reader.span(), None);
    let mut values = Vec::new();
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) => {
                let value = event.value(&event.class().find("v").unwrap());
                let Some(Value::Unsigned(value)) = value else { panic!("{value:?}") };
                values.push(value);
            }
            Message::Damage(damage) => panic!("{damage}"),
            _ => {}
        }
    }
    assert_eq!(values, [1, 2, 3, 4, 5]);
    assert_eq!(reader.slices(TimeRange::ALL, 1).count(), 1);
    check_pieces(&reader, TimeRange::ALL);
}

#[test]
fn open_of_clocks_that_cannot_be_compared_is_damage() {
    let folder = Folder::new();
    for (name, last) in [("one", 1), ("two", 2)] {
        let mut made = Made::new(2);
        made.uuid.0[15] = last;
        made.boot_id.0[15] = last;
        made.absolute = false;
        made.write(&folder.path().join(name));
    }
    let reader = Reader::open(&[folder.path()]).unwrap();
    let [damage] = reader.damage() else { panic!("{:?}", reader.damage()) };
    assert!(matches!(damage.what, DamageKind::Clocks { .. }), "{damage}");
    assert!(times(reader.events(TimeRange::ALL)).is_sorted());
}

/// More files than are kept open.
#[test]
fn events_of_a_thousand_streams_need_few_descriptors() {
    let folder = Folder::new();
    let made = Made::new(3);
    let mut sum = 0;
    for trace in 0..300_u16 {
        let mut made = made.clone();
        made.uuid.0[..2].copy_from_slice(&trace.to_be_bytes());
        made.write(&folder.path().join(format!("{trace:03}")));
        sum += made.events();
    }
    let reader = Reader::open(&[folder.path()]).unwrap();
    assert_eq!(reader.streams().len(), 600);
    let found = times(reader.events(TimeRange::ALL));
    assert!(found.is_sorted());
    assert_eq!(found.len(), sum);
    // Other tests have files open, too.
    let here = folder.path().canonicalize().unwrap();
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let paths = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    let own = paths.filter(|path| path.starts_with(&here)).count();
    assert!((1..=256).contains(&own), "{own} descriptors");
}

/// Every message is in exactly one slice, and in exactly one part.
#[test]
fn slices_of_random_traces_are_all_their_events() {
    let mut random = Random::new();
    for _ in 0..60 {
        let folder = Folder::new();
        let mut made = Made::random(&mut random);
        made.rotate = random.below(3) == 0;
        made.write(folder.path());
        if random.below(2) == 0 {
            damage_a_file(&mut random, folder.path());
        }
        let Ok(reader) = Reader::open(&[folder.path()]) else { continue };
        check_pieces(&reader, TimeRange::ALL);
        let span = reader.span().unwrap_or(TimeRange::ALL);
        let length = span.to.saturating_sub(span.from).clamp(1, 1 << 40);
        let from = span.from.saturating_add(random.below(length as u64) as i64);
        let to = from.saturating_add(random.below(length as u64) as i64);
        check_pieces(&reader, TimeRange { from, to });
    }
}

/// Index files that LTTng writes beside its streams lead to the same packets.
#[test]
fn span_and_seek_by_index_files_are_those_of_packet_headers() {
    let folder = Folder::new();
    let made = Made::new(30);
    made.write(folder.path());
    let plain = Reader::open(&[folder.path()]).unwrap();
    let (span, all) = (plain.span(), times(plain.events(TimeRange::ALL)));
    for wrong in [None, Some(0), Some(5), Some(17)] {
        made.write_index(folder.path(), wrong);
        let reader = Reader::open(&[folder.path()]).unwrap();
        assert_eq!(reader.span(), span, "{wrong:?}");
        for &from in all.iter().step_by(5) {
            let range = TimeRange { from, to: i64::MAX };
            let expected: Vec<_> = all.iter().copied().filter(|&time| time >= from).collect();
            assert_eq!(times(reader.events(range)), expected, "{wrong:?}");
        }
    }
}

/// Packets before a range are not read, and opening a trace reads no packets.
#[test]
fn events_of_a_late_range_read_little() {
    let folder = Folder::new();
    let mut made = Made::new(0);
    for packet in 0..300 {
        let begin = 1000 + packet * 1000;
        let events = (0..200).map(|n| (begin + n, packet * 1000 + n)).collect();
        let end = begin + 500;
        made.packets[0].push(MadePacket { begin, end, events, padding: 0, discarded: 0 });
    }
    made.write(folder.path());
    let reader = Reader::open(&[folder.path()]).unwrap();
    let bytes: u64 = reader.streams().iter().map(|stream| stream.bytes()).sum();
    let mut events = reader.events(TimeRange { from: 299_000, to: i64::MAX });
    let mut count = 0;
    while let Some(message) = events.next() {
        count += usize::from(matches!(message, Message::Event(_)));
    }
    assert_eq!(count, 400);
    assert!(events.bytes_read() < bytes / 20, "{} of {bytes}", events.bytes_read());
    let mut events = reader.events(TimeRange::ALL);
    assert!(events.next().is_some());
    assert!(events.bytes_read() <= 32 << 10, "{}", events.bytes_read());
}

/// Threads share a reader, and take events with them.
#[test]
fn reader_is_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Reader>();
    shared::<strata_ctf::read::Slice>();
    shared::<strata_ctf::read::StreamPart>();
    sent::<strata_ctf::read::Events<'_>>();
    sent::<strata_ctf::read::Slices<'_>>();
}

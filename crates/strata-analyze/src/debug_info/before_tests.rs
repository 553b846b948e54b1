//! Tests of the places of addresses in records before the state dump, with traces written by hand.

use strata_ctf::read::{Message, Reader, TimeRange};
use strata_ctf::state_dump;

use super::{Source, SourceOptions};
use crate::hand_tests::V::{Text, U32, U64};
use crate::hand_tests::{metadata, Hand, Packets, Record, V};
use crate::reports::flame::{FlameMaker, Weigh};
use strata_timeline::{pass, Asked};

const HIT: u8 = 0;
const MAP: u8 = 1;
const EXEC: u8 = 2;
const FORK: u8 = 3;
const STATE: u8 = 4;
const SAMPLE: u8 = 5;

/// The numbers of the streams.
const CPU: u64 = 0;
const DUMP: u64 = 4;
const CHANGES: u64 = DUMP + state_dump::CHANGES_BEHIND;
const AGAIN: u64 = DUMP + state_dump::AGAIN_BEHIND;

type Kept = (u8, u64, Vec<V>);

/// Returns a record of a thread whose stack has this address.
fn hit(time: u64, tid: u32, address: u64) -> Kept {
    (HIT, time, vec![U32(tid), U32(1), U64(address)])
}

/// Returns a record of the recorder, without a stack.
fn of_recorder(kind: u8, time: u64, values: &[V]) -> Kept {
    (kind, time, [&[U32(1), U32(0)], values].concat())
}

/// Returns a record that 256 bytes of a file are mapped.
fn map(time: u64, pid: u32, start: u64, path: &'static str) -> Kept {
    let place = [U32(pid), U64(start), U64(start + 0x100), U64(0)];
    of_recorder(MAP, time, &[&place[..], &[Text(path)]].concat())
}

fn state(time: u64, tid: u32, pid: u32) -> Kept {
    of_recorder(STATE, time, &[U32(tid), U32(pid), Text("app")])
}

fn exec(time: u64, pid: u32) -> Kept {
    of_recorder(EXEC, time, &[U32(pid), U32(pid), Text("new")])
}

fn fork(time: u64, parent: u32, child: [u32; 2]) -> Kept {
    let [pid, tid] = child.map(U32);
    of_recorder(FORK, time, &[U32(parent), U32(parent), pid, tid])
}

/// A stream: its name, number and records.
type Of<'s> = (&'s str, u64, &'s [Kept]);

/// Makes a trace of these streams that was watched from its begin on. `says` is added to its environment.
fn trace(says: &str, streams: &[Of<'_>]) -> Hand {
    trace_since(says, (5, 0), streams)
}

/// Makes a trace whose changes are watched from the time `since` on; `full` of their records were discarded.
fn trace_since(says: &str, (since, full): (u64, u64), streams: &[Of<'_>]) -> Hand {
    let hand = Hand::new();
    let events = [
        ("a_hit", ""),
        ("lttng_statedump_vm_map", "u32 pid; u64 start; u64 end; u64 offset; string path;"),
        ("lttng_statedump_vm_exec", "u32 tid; u32 pid; string name;"),
        (
            "lttng_statedump_vm_fork",
            "u32 parent_pid; u32 parent_tid; u32 child_pid; u32 child_tid;",
        ),
        ("lttng_statedump_process_state", "u32 tid; u32 pid; string name;"),
        ("cpu_clock", "u32 pid;"),
    ];
    let context = "u32 tid; u32 depth; u64 callstack_user[depth];";
    let text = metadata(&format!("domain = \"kernel\"; {says}"), context, &events);
    let header = "byte_order = le; packet.header := struct { u64 stream_instance_id; };";
    let text = text.replace("byte_order = le;", header);
    hand.trace("k", &text, &[]);
    for (name, number, records) in streams {
        let records: Vec<Record<'_>> =
            records.iter().map(|(kind, time, values)| (*kind, *time, &values[..])).collect();
        let mut bytes = Packets::new(0).packet(&records).bytes;
        // The sizes of content and packet, which have the number in front now.
        for place in [16, 24] {
            let size: [u8; 8] = bytes[place..place + 8].try_into().unwrap();
            let size = u64::from_le_bytes(size) + 64;
            bytes[place..place + 8].copy_from_slice(&size.to_le_bytes());
        }
        if *number == CHANGES {
            bytes[..8].copy_from_slice(&since.to_le_bytes());
            bytes[32..40].copy_from_slice(&full.to_le_bytes());
            if records.is_empty() {
                bytes[8..16].copy_from_slice(&since.to_le_bytes());
            }
        }
        let bytes = [&number.to_le_bytes()[..], &bytes].concat();
        std::fs::write(hand.0.join("k").join(name), bytes).unwrap();
    }
    hand
}

/// Returns the innermost frame in the program of each stack.
fn frames(reader: &Reader) -> Vec<String> {
    let mut source = Source::new(reader, &SourceOptions::default());
    let (mut found, mut events) = (Vec::new(), reader.events(TimeRange::ALL));
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) => {
                source.learn(&event);
                let stack = source.stacks(&event).and_then(|stacks| stacks.user);
                let frame = stack.and_then(|stack| Some(stack.first()?.text()));
                found.extend(frame.map(|text| String::from_utf8(text).unwrap()));
            }
            Message::Damage(damage) => panic!("{damage}"),
            _ => {}
        }
    }
    found
}

/// Returns the graph as frames with their counts and processes.
fn flame(reader: &Reader) -> Vec<(String, u64, Option<i32>)> {
    let source = Source::new(reader, &SourceOptions::default());
    let mut maker = FlameMaker::new(TimeRange::ALL, Weigh::Records, source);
    let passed = pass(reader, &Asked::default(), &mut maker, &|_| true, &mut |_| {}).unwrap();
    let found = maker.finish(passed.timeline.world(), &|_| true);
    let rows = found.profiles.iter().flat_map(|of| {
        of.stacks.iter().map(move |(frames, count)| (frames.join(";"), *count, of.pid))
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

#[test]
fn address_before_the_dump_is_what_the_dump_tells_where_nothing_has_changed_since() {
    let hits = [
        // 7: has had liba all the time, and libb since 50.
        hit(10, 7, 0x1004),
        hit(11, 7, 0x2004),
        hit(60, 7, 0x2004),
        // 8: is another program since 40.
        hit(12, 8, 0x1004),
        hit(41, 8, 0x1004),
        hit(110, 8, 0x1004),
        // 9: began at 30, as a child of 7. Another one had its number before.
        hit(20, 9, 0x1004),
        hit(35, 9, 0x1004),
        // A thread of 10, and one that begins at 45.
        hit(13, 11, 0x4004),
        hit(46, 12, 0x4004),
        // Nobody has said anything of it, and of what is beside.
        hit(14, 6, 0x1004),
        hit(15, 7, 0x1104),
    ];
    let mut hits: Vec<Kept> = hits.into();
    hits.sort_by_key(|(_, time, _)| *time);
    let dump = [
        map(100, 7, 0x1000, "/no/liba"),
        map(100, 7, 0x2000, "/no/libb"),
        map(100, 8, 0x1000, "/no/new"),
        map(100, 9, 0x1000, "/no/liba"),
        map(100, 10, 0x4000, "/no/app"),
        state(100, 7, 7),
        state(100, 11, 10),
        state(100, 12, 10),
    ];
    let changes =
        [fork(30, 7, [9, 9]), exec(40, 8), fork(45, 10, [10, 12]), map(50, 7, 0x2000, "/no/libb")];
    let streams: [Of<'_>; 3] = [
        ("channel0_0", CPU, &hits),
        (state_dump::FILE, DUMP, &dump),
        ("channel0_5", CHANGES, &changes),
    ];
    let hand = trace("", &streams);
    let reader = hand.reader();
    assert_eq!(
        frames(&reader),
        [
            "liba+0x4", "0x2004", "0x1004", "app+0x4", "0x1004", "0x1104", "0x1004", "liba+0x4",
            "0x1004", "app+0x4", "libb+0x4", "new+0x4",
        ]
    );
    let of = |pid: i32, frame: &str| {
        let all = flame(&reader);
        let of = all.iter().filter(|(name, _, of)| name == frame && *of == Some(pid));
        of.map(|(_, count, _)| *count).sum::<u64>()
    };
    assert_eq!([of(7, "[liba]"), of(7, "0x2004"), of(7, "[libb]")], [1, 1, 1]);
    assert_eq!([of(8, "0x1004"), of(8, "[new]"), of(9, "[liba]")], [2, 1, 1]);
    // Of whom these threads are, the timeline learns only from the dump; their addresses have names.
    assert_eq!([of(11, "[app]"), of(12, "[app]")], [1, 1]);

    // Without the dump's stream, or under another name, nothing is known before.
    let hand = trace("", &[streams[0], streams[2]]);
    assert!(!frames(&hand.reader()).contains(&"liba+0x4".to_owned()));
    let hand = trace("", &[streams[0], ("channel0_4", DUMP, &dump), streams[2]]);
    assert_eq!(frames(&hand.reader()).iter().filter(|name| *name == "liba+0x4").count(), 0);
}

#[test]
fn second_dump_says_nothing_of_what_the_first_has_reported_and_a_part_of_what_has_changed() {
    let hits = [hit(10, 7, 0x1004), hit(10, 7, 0x2004), hit(10, 7, 0x3004), hit(10, 7, 0x3084)];
    let first = [map(20, 7, 0x1000, "/no/old")];
    // At the place of the first one, beside it, and over what was mapped meanwhile.
    let again = [
        map(80, 7, 0x1080, "/no/new"),
        map(80, 7, 0x2000, "/no/later"),
        map(80, 7, 0x3000, "/no/part"),
    ];
    let changes = [map(50, 7, 0x3080, "/no/over")];
    let hand = trace(
        "",
        &[
            ("channel0_0", CPU, &hits),
            (state_dump::FILE, DUMP, &first),
            (state_dump::AGAIN_FILE, AGAIN, &again),
            ("channel0_5", CHANGES, &changes),
        ],
    );
    assert_eq!(frames(&hand.reader()), ["old+0x4", "later+0x4", "0x3004", "0x3084"]);
}

#[test]
fn snapshot_and_what_is_overwritten_say_themselves_what_was_before() {
    let (hits, dump) = ([hit(10, 7, 0x1004)], [map(100, 7, 0x1000, "/no/liba")]);
    let changes = [map(50, 9, 0x1000, "/no/other")];
    let plain: [Of<'_>; 3] =
        [("channel0_0", CPU, &hits), (state_dump::FILE, DUMP, &dump), ("channel0_5", CHANGES, &[])];
    assert_eq!(frames(&trace("", &plain).reader()), ["liba+0x4"]);
    let overwrites = "strata_loss_mode = \"overwrite\";";
    assert_eq!(frames(&trace(overwrites, &plain).reader()), ["0x1004"]);
    let snapshot = [plain[0], plain[1], (state_dump::CHANGES_FILE, CHANGES, &changes[..])];
    assert_eq!(frames(&trace("", &snapshot).reader()), ["0x1004"]);
}

#[test]
fn sample_before_the_dump_is_of_the_process_that_it_says() {
    let sample = |time, tid| (SAMPLE, time, vec![U32(tid), U32(1), U64(0x1004), U32(10)]);
    let (samples, dump) = ([sample(10, 10), sample(11, 11)], [map(100, 10, 0x1000, "/no/app")]);
    let hand = trace(
        "",
        &[
            ("channel0_0", CPU, &samples),
            (state_dump::FILE, DUMP, &dump),
            ("channel0_5", CHANGES, &[]),
        ],
    );
    assert_eq!(flame(&hand.reader()), [("[app]".to_owned(), 2, Some(10))]);
}

#[test]
fn malicious_numbers_of_changes_and_threads_leave_nothing_known_that_may_be_wrong() {
    let many: Vec<Kept> = (0..2000).map(|at| map(50, 7, 0x10_0000 + at * 0x100, "/no/x")).collect();
    let dump = [map(100, 7, 0x1000, "/no/liba"), map(100, 8, 0x1000, "/no/libb")];
    let hits = [hit(10, 7, 0x1004), hit(10, 8, 0x1004)];
    let streams: [Of<'_>; 3] = [
        ("channel0_0", CPU, &hits),
        (state_dump::FILE, DUMP, &dump),
        ("channel0_5", CHANGES, &many),
    ];
    assert_eq!(frames(&trace("", &streams).reader()), ["0x1004", "libb+0x4"]);
}

#[test]
fn nothing_is_known_of_what_nobody_has_watched() {
    let hits = [hit(10, 7, 0x1004), hit(40, 7, 0x1004), hit(60, 7, 0x1004)];
    let (dump, again) = ([map(50, 7, 0x1000, "/no/liba")], [map(80, 7, 0x2000, "/no/libb")]);
    let streams: [Of<'_>; 3] =
        [("channel0_0", CPU, &hits), (state_dump::FILE, DUMP, &dump), ("channel0_5", CHANGES, &[])];
    let known = |watched| frames(&trace_since("", watched, &streams).reader());
    assert_eq!(known((5, 0)), ["liba+0x4"; 3]);
    // Since then, as of a session that was killed and is made again.
    assert_eq!(known((30, 0)), ["0x1004", "liba+0x4", "liba+0x4"]);
    // Something of it found no room; it is watched only since the dump; it is not at all.
    assert_eq!(known((5, 1)), ["0x1004", "0x1004", "liba+0x4"]);
    assert_eq!(known((55, 0)), ["0x1004", "0x1004", "liba+0x4"]);
    let hand = trace("", &streams[..2]);
    assert_eq!(frames(&hand.reader()), ["0x1004", "0x1004", "liba+0x4"]);

    // A second dump, long after the begin, of what is watched since shortly before it.
    let hits = [hit(10, 7, 0x2004), hit(75, 7, 0x2004), hit(90, 7, 0x2004)];
    let streams: [Of<'_>; 4] = [
        ("channel0_0", CPU, &hits),
        (state_dump::FILE, DUMP, &[state(20, 7, 7)]),
        (state_dump::AGAIN_FILE, AGAIN, &again),
        ("channel0_5", CHANGES, &[]),
    ];
    let hand = trace_since("", (70, 0), &streams);
    assert_eq!(frames(&hand.reader()), ["0x2004", "libb+0x4", "libb+0x4"]);
}

#[test]
fn child_of_an_unknown_process_has_nothing_of_who_had_its_number() {
    let hits = [hit(10, 9, 0x1004), hit(30, 9, 0x1004), hit(50, 9, 0x1004)];
    let dump = [map(6, 9, 0x1000, "/no/old"), map(6, 7, 0x1000, "/no/app")];
    let changes = [fork(20, 8, [9, 9]), fork(40, 7, [9, 9])];
    let hand = trace(
        "",
        &[
            ("channel0_0", CPU, &hits),
            (state_dump::FILE, DUMP, &dump),
            ("channel0_5", CHANGES, &changes),
        ],
    );
    assert_eq!(frames(&hand.reader()), ["old+0x4", "0x1004", "app+0x4"]);
}

//! Tests of the export of traces written by hand, read back packet by packet.

mod before;
mod calls;
mod joined;
mod kernel;
mod unknown;

use std::collections::HashMap;

use prost::Message as _;
use strata_ctf::read::{Message, TimeRange};

use super::super::parallel::together;
use super::super::proto::{
    Ftrace, FtraceEvent, InternedString, IrqHandlerEntry, IrqHandlerExit, ProcessTree, SchedSwitch,
    Softirq, TracePacket, TrackDescriptor, TreeProcess, TreeThread, PACKET_TAG,
};
use super::*;
use crate::hand_tests::V::{Text, F64, I64, U32, U64, U8};
use crate::hand_tests::{metadata, Hand, Packets, Record};

/// The exported packets, and the counts of the export.
struct Exported {
    packets: Vec<TracePacket>,
    summary: Summary,
}

fn packets_of(mut bytes: &[u8]) -> Vec<TracePacket> {
    let mut packets = Vec::new();
    while let Some((&tag, rest)) = bytes.split_first() {
        assert_eq!(tag, PACKET_TAG);
        bytes = rest;
        packets.push(TracePacket::decode_length_delimited(&mut bytes).unwrap());
    }
    packets
}

fn exported(hand: &Hand, options: &Options) -> Exported {
    let reader = hand.reader();
    let alone = exported_by(&reader, options, 1);
    for shares in [2, 3] {
        let found = exported_by(&reader, options, shares);
        assert_eq!(found.lines(), alone.lines(), "{shares} shares");
        assert_eq!(found.trees(), alone.trees(), "{shares} shares");
        let events = |all: &Exported| {
            let all = all.ftrace().into_iter().flat_map(|(cpu, _, events)| {
                events.into_iter().map(move |event| (cpu, format!("{event:?}")))
            });
            let mut all: Vec<_> = all.collect();
            all.sort_by_key(|(cpu, _)| *cpu);
            all
        };
        assert_eq!(events(&found), events(&alone), "{shares} shares");
        let gaps = |all: &Exported| all.ftrace().iter().filter(|(_, gap, _)| *gap).count();
        assert_eq!(gaps(&found), gaps(&alone), "{shares} shares");
        let summary = Summary { bytes: alone.summary.bytes, ..found.summary };
        assert_eq!(summary, alone.summary, "{shares} shares");
    }
    alone
}

fn exported_by(reader: &Reader, options: &Options, shares: usize) -> Exported {
    let mut bytes = Vec::new();
    let summary = together(&mut bytes, shares, &|share, part| {
        let exporter = Exporter::of_share(part, reader, options.clone(), share)?;
        all_of(exporter, reader).map(Some)
    });
    let summary = summary.unwrap().unwrap();
    assert_eq!(summary.bytes, bytes.len() as u64);
    let parts = [
        summary.instants,
        summary.begins,
        summary.ends,
        summary.ends_without_begin,
        summary.kernel,
    ];
    assert_eq!(summary.events, parts.iter().sum::<u64>(), "{summary:?}");
    Exported { packets: packets_of(&bytes), summary }
}

fn all_of<W: Write>(mut exporter: Exporter<W>, reader: &Reader) -> io::Result<Summary> {
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) => exporter.event(&event)?,
            Message::Discarded(discarded) => exporter.discarded(&discarded)?,
            Message::Damage(damage) => exporter.damage(damage, reader.streams().first())?,
            Message::Packet(_) => {}
        }
    }
    exporter.finish().map(|(_, summary)| summary)
}

impl Exported {
    /// Returns all events on tracks, in the order of the file: `TIME KIND NAME @TRACK {ANNOTATIONS}`.
    fn lines(&self) -> Vec<String> {
        let (mut names, mut known) = (HashMap::new(), Known::default());
        let mut tracks: HashMap<u64, String> = HashMap::new();
        let mut lines = Vec::new();
        for packet in &self.packets {
            if let Some(data) = &packet.interned_data {
                names.extend(data.event_names.iter().map(|it| (it.iid, it.name.clone().unwrap())));
                let all = data.debug_annotation_names.iter();
                known.names.extend(all.map(|it| (it.iid, it.name.clone().unwrap())));
                let all = data.debug_annotation_string_values.iter();
                let text = |it: &InternedString| String::from_utf8(it.str.clone().unwrap());
                known.texts.extend(all.map(|it| (it.iid.unwrap(), text(it).unwrap())));
            }
            match &packet.data {
                Some(PacketData::TrackDescriptor(track)) => {
                    tracks.insert(track.uuid.unwrap(), track_name(track));
                }
                Some(PacketData::TrackEvent(event)) => {
                    let kind = match event.r#type.unwrap() {
                        1 => "begin".to_owned(),
                        2 => "end".to_owned(),
                        3 => "instant".to_owned(),
                        _ => match (event.counter_value, event.double_counter_value) {
                            (Some(value), None) => format!("counter {value}"),
                            (None, Some(value)) => format!("counter {value:?}"),
                            other => panic!("{other:?}"),
                        },
                    };
                    let interned = event.name_iid.map(|iid| names[&Some(iid)].clone());
                    let name = event.name.clone().or(interned).unwrap_or_default();
                    let note = |note: &DebugAnnotation| known.annotation(note);
                    let all: Vec<String> = event.debug_annotations.iter().map(note).collect();
                    let (time, track) =
                        (packet.timestamp.unwrap(), &tracks[&event.track_uuid.unwrap()]);
                    lines.push(format!("{time} {kind} {name} @{track} {{{}}}", all.join(" ")));
                }
                _ => {}
            }
        }
        lines
    }

    /// Returns the scheduling and interrupt events in their bundles, each with its CPU and true if records are missing
    /// before it.
    fn ftrace(&self) -> Vec<(u32, bool, Vec<FtraceEvent>)> {
        let bundle = |packet: &TracePacket| match &packet.data {
            Some(PacketData::FtraceEvents(all)) => {
                Some((all.cpu.unwrap(), all.gap_before == Some(true), all.event.clone()))
            }
            _ => None,
        };
        self.packets.iter().filter_map(bundle).collect()
    }

    fn trees(&self) -> Vec<ProcessTree> {
        let tree = |packet: &TracePacket| match &packet.data {
            Some(PacketData::ProcessTree(tree)) => Some(tree.clone()),
            _ => None,
        };
        self.packets.iter().filter_map(tree).collect()
    }
}

fn track_name(track: &TrackDescriptor) -> String {
    match (&track.process, &track.thread, &track.name) {
        (Some(it), ..) => {
            format!("process {} {}", it.pid.unwrap(), it.process_name.as_deref().unwrap_or("?"))
        }
        (_, Some(it), _) => format!("thread {}/{}", it.pid.unwrap(), it.tid.unwrap()),
        (_, _, name) => {
            format!("{} {}", name.as_deref().unwrap(), track.uuid.unwrap() & 0xffff)
        }
    }
}

/// The names of annotations and texts, by their numbers.
#[derive(Default)]
struct Known {
    names: HashMap<Option<u64>, String>,
    texts: HashMap<u64, String>,
}

impl Known {
    fn annotation(&self, note: &DebugAnnotation) -> String {
        let name = note.name.clone().unwrap_or_else(|| self.names[&note.name_iid].clone());
        format!("{name}={}", self.value(note))
    }

    fn value(&self, note: &DebugAnnotation) -> String {
        match &note.value {
            Some(AnnotationValue::Unsigned(value)) => value.to_string(),
            Some(AnnotationValue::Signed(value)) => value.to_string(),
            Some(AnnotationValue::Text(value)) => format!("'{value}'"),
            Some(AnnotationValue::Interned(iid)) => format!("'{}'", self.texts[iid]),
            None if note.array_values.is_empty() => {
                let inside = note.dict_entries.iter().map(|one| self.annotation(one));
                format!("({})", inside.collect::<Vec<_>>().join(" "))
            }
            None => {
                let inside = note.array_values.iter().map(|one| self.value(one));
                format!("[{}]", inside.collect::<Vec<_>>().join(" "))
            }
            other => format!("{other:?}"),
        }
    }
}

/// The environment of a trace of process 7.
const APPLICATION: &str = "domain = \"ust\"; procname = \"app\"; vpid = 7;";

fn of_threads(records: &[Record<'_>]) -> Exported {
    let events =
        [("a:x_begin", "u64 n;"), ("a:x_end", "u64 n; u64 r;"), ("a:y_begin", ""), ("a:y_end", "")];
    let hand = Hand::new();
    let text = metadata(APPLICATION, "u32 vtid;", &events);
    exported(hand.trace("t", &text, &[Packets::new(3).packet(records)]), &Options::default())
}

#[test]
fn slices_of_a_thread_nest_and_an_end_says_what_its_begin_did_not() {
    let found = of_threads(&[
        (0, 10, &[U32(8), U64(1)]),
        (2, 20, &[U32(8)]),
        (0, 25, &[U32(9), U64(5)]),
        (3, 30, &[U32(8)]),
        (1, 40, &[U32(8), U64(2), U64(77)]),
        (1, 50, &[U32(9), U64(6), U64(78)]),
    ]);
    assert_eq!(
        found.lines(),
        [
            "10 begin a:x @thread 7/8 {vtid=8 n=1 cpu=3}",
            "20 begin a:y @thread 7/8 {vtid=8 cpu=3}",
            "25 begin a:x @thread 7/9 {vtid=9 n=5 cpu=3}",
            "30 end  @thread 7/8 {}",
            "40 end  @thread 7/8 {r=77 end=(n=2)}",
            "50 end  @thread 7/9 {r=78 end=(n=6)}",
        ]
    );
    let sums = (found.summary.begins, found.summary.ends, found.summary.unfinished);
    assert_eq!(sums, (3, 3, 0));
}

#[test]
fn slices_without_an_end_or_a_begin_are_closed_shown_and_counted() {
    let found = of_threads(&[
        // Its begin is not there.
        (3, 5, &[U32(8)]),
        (0, 10, &[U32(8), U64(1)]),
        (2, 20, &[U32(8)]),
        // The end of the outer one closes the inner one.
        (1, 40, &[U32(8), U64(2), U64(3)]),
        (2, 50, &[U32(8)]),
    ]);
    assert_eq!(
        found.lines(),
        [
            "5 instant a:y_end @thread 7/8 {vtid=8 cpu=3 note='its begin is not in the trace'}",
            "10 begin a:x @thread 7/8 {vtid=8 n=1 cpu=3}",
            "20 begin a:y @thread 7/8 {vtid=8 cpu=3}",
            "40 end  @thread 7/8 {unfinished='its end is not in the trace'}",
            "40 end  @thread 7/8 {r=3 end=(n=2)}",
            "50 begin a:y @thread 7/8 {vtid=8 cpu=3}",
            "50 end  @thread 7/8 {unfinished='its end is not in the trace'}",
        ]
    );
    let Summary { ends_without_begin, unfinished, .. } = found.summary;
    assert_eq!((ends_without_begin, unfinished), (1, 2));
}

/// Exports the begins and ends of a pair with an id. Each is given by its thread, true for a begin, and its id.
fn with_ids(steps: &[(u32, bool, u64)], options: &Options) -> Exported {
    let events = [("a:x_begin", "u64 id;"), ("a:x_end", "u64 id;")];
    let values: Vec<[crate::hand_tests::V; 2]> =
        steps.iter().map(|&(tid, _, id)| [U32(tid), U64(id)]).collect();
    let records: Vec<Record<'_>> = (10..)
        .step_by(10)
        .zip(steps.iter().zip(&values))
        .map(|(time, (step, values))| (u8::from(!step.1), time, &values[..]))
        .collect();
    let hand = Hand::new();
    let text = metadata(APPLICATION, "u32 vtid;", &events);
    exported(hand.trace("t", &text, &[Packets::new(3).packet(&records)]), options)
}

#[test]
fn slices_that_overlap_in_a_thread_or_end_in_another_are_reported_with_the_rule_for_them() {
    let rule = "a:x_begin=a:x_end:id";
    let overlap = |slices, disagree, (ends_alone, begins_alone)| {
        vec![Overlap { rule: rule.to_owned(), slices, disagree, ends_alone, begins_alone }]
    };
    // An event loop: 1 is open from 10 to 30, 2 from 20 to 40.
    let event_loop = [(8, true, 1), (8, true, 2), (8, false, 1), (8, false, 2)];
    // Two workers that end what the other one has begun.
    let workers = [(8, true, 1), (9, true, 2), (9, false, 1), (8, false, 2)];
    let dispatcher = [(8, true, 1), (8, true, 2), (9, false, 1), (9, false, 2)];
    for (steps, wanted) in [
        (event_loop, overlap(2, 2, (0, 0))),
        (workers, overlap(2, 2, (0, 0))),
        (dispatcher, overlap(0, 0, (2, 2))),
    ] {
        let found = with_ids(&steps, &Options::default());
        assert_eq!(found.summary.overlaps, wanted, "{steps:?}");
        // By the rule, each has its own length.
        let pairs = vec![rule.parse().unwrap()];
        let found = with_ids(&steps, &Options { pairs, ..Options::default() });
        assert_eq!((found.summary.overlaps.len(), found.summary.unfinished), (0, 0), "{steps:?}");
        let mut lengths: HashMap<String, Vec<u64>> = HashMap::new();
        for line in found.lines() {
            let track = line.split(" @").nth(1).and_then(|rest| rest.split(" {").next());
            let time = line.split(' ').next().unwrap().parse().unwrap();
            lengths.entry(track.unwrap().to_owned()).or_default().push(time);
        }
        let mut lengths: Vec<_> = lengths.into_values().collect();
        lengths.sort();
        let ends = |id| 10 + 10 * steps.iter().position(|it| !it.1 && it.2 == id).unwrap() as u64;
        assert_eq!(lengths, [[10, ends(1)], [20, ends(2)]], "{steps:?}");
    }
    // In each other, and cut off at both ends, they are as they should be.
    let nested = [(8, true, 1), (8, true, 2), (8, false, 2), (8, false, 1)];
    assert!(with_ids(&nested, &Options::default()).summary.overlaps.is_empty());
    for last in [4, 22] {
        let mut cut = vec![(8, false, 1)];
        cut.extend((2..last).flat_map(|id| [(8, true, id), (8, false, id)]));
        cut.push((8, true, 99));
        assert!(with_ids(&cut, &Options::default()).summary.overlaps.is_empty());
    }
}

#[test]
fn malicious_depth_of_slices_ends_at_the_limit_and_each_begin_beyond_is_an_instant() {
    let records: Vec<Record<'_>> = (0..300).map(|at| (2, at, &[U32(8)][..])).collect();
    let found = of_threads(&records);
    let Summary { begins, instants, too_many_open, unfinished, .. } = found.summary;
    assert_eq!((begins, instants, too_many_open, unfinished), (256, 44, 44, 256));
    let lines = found.lines();
    let noted = lines.iter().filter(|line| line.contains("note='too many slices are open here'"));
    assert_eq!(noted.count(), 44);
}

#[test]
fn malicious_time_that_goes_back_puts_no_end_in_front_of_its_begin() {
    let found = of_threads(&[(2, 1000, &[U32(8)]), (3, 400, &[U32(8)]), (2, 500, &[U32(8)])]);
    let lines = found.lines();
    let times: Vec<u64> =
        lines.iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    // The damage is shown, too.
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{lines:?}");
}

#[test]
fn slices_of_threads_that_are_not_distinguished_have_lanes_below_their_process() {
    let events = [("a:x_begin", "u64 n;"), ("a:x_end", "u64 n;")];
    let hand = Hand::new();
    let stream = Packets::new(0).packet(&[
        (0, 10, &[U64(1)]),
        (0, 20, &[U64(2)]),
        (1, 30, &[U64(3)]),
        (0, 40, &[U64(4)]),
    ]);
    hand.trace("t", &metadata(APPLICATION, "", &events), &[stream]);
    let found = exported(&hand, &Options::default());
    let lines = found.lines();
    let track = |at: usize| lines[at].split('@').nth(1).unwrap().split('{').next().unwrap();
    // Two are open at once: two lanes, of which one is free again for the third.
    assert_ne!(track(0), track(1));
    assert!(track(2) == track(0) || track(2) == track(1), "{lines:?}");
    assert_eq!(track(3), track(2), "{lines:?}");
    assert!(track(0).starts_with("a:x "), "{lines:?}");
    assert_eq!((found.summary.begins, found.summary.unfinished), (3, 2));
    let parents: Vec<Option<u64>> = found
        .packets
        .iter()
        .filter_map(|packet| match &packet.data {
            Some(PacketData::TrackDescriptor(track)) if track.name.as_deref() == Some("a:x") => {
                Some(track.parent_uuid)
            }
            _ => None,
        })
        .collect();
    assert_eq!(parents, [Some(TrackPlace::Process { machine: 0, pid: 7 }.uuid()); 2]);
}

#[test]
fn pair_with_a_key_ends_what_has_the_same_key_in_any_thread() {
    let events = [("q:go", "string k;"), ("q:ok", "string k;")];
    let hand = Hand::new();
    let stream = Packets::new(0).packet(&[
        (0, 10, &[U32(8), Text("one")]),
        (0, 20, &[U32(8), Text("two")]),
        (1, 30, &[U32(9), Text("one")]),
        (1, 40, &[U32(9), Text("three")]),
        (1, 50, &[U32(9), Text("two")]),
    ]);
    hand.trace("t", &metadata(APPLICATION, "u32 vtid;", &events), &[stream]);
    let pairs = vec!["q:go=q:ok:k".parse().unwrap(), "q:no=q:never".parse().unwrap()];
    let counters = vec!["k".parse().unwrap(), "q:go.vtid".parse().unwrap()];
    let options = Options { pairs, counters, ..Options::default() };
    let found = exported(&hand, &options);
    let Summary { begins, ends, ends_without_begin, unfinished, .. } = found.summary;
    assert_eq!((begins, ends, ends_without_begin, unfinished), (2, 2, 1, 0));
    let lines = found.lines();
    let lane = |line: &str| line.split('@').nth(1).unwrap().split(" {").next().unwrap().to_owned();
    assert_eq!(lane(&lines[0]), lane(&lines[2]), "{lines:?}");
    assert_eq!(lane(&lines[1]), lane(&lines[4]), "{lines:?}");
    assert!(lines[3].starts_with("40 instant q:ok @thread 7/9 "), "{lines:?}");
    // A text is no counter, nor is what is common to all records.
    let idle = Exporter::<Vec<u8>>::idle_rules(&hand.reader(), &options);
    assert_eq!(idle, ["--counter 'k'", "--counter 'q:go.vtid'", "--pair 'q:no=q:never'"]);
}

#[test]
fn counters_have_the_value_of_each_kind_of_number_and_a_track_of_their_process() {
    let events = [("a:q", "i64 s; u64 u; f64 r; struct { u8 in; } deep; string t;")];
    let hand = Hand::new();
    let values = |s, u, r, deep| [U32(8), I64(s), U64(u), F64(r), U8(deep), Text("9")];
    let stream = Packets::new(0).packet(&[
        (0, 10, &values(-5, 6, 0.5, 3)),
        (0, 20, &values(i64::MIN, u64::MAX, f64::INFINITY, 4)),
    ]);
    hand.trace("t", &metadata(APPLICATION, "u32 vtid;", &events), &[stream]);
    let counters = vec!["a:q.*".parse().unwrap()];
    let found = exported(&hand, &Options { counters, ..Options::default() });
    let lines = found.lines();
    let values: Vec<&str> = lines
        .iter()
        .filter(|line| line.contains(" counter "))
        .map(|line| line.split(" @").next().unwrap())
        .collect();
    assert_eq!(
        values,
        [
            "10 counter -5 ",
            "10 counter 6 ",
            "10 counter 0.5 ",
            "10 counter 3 ",
            "20 counter -9223372036854775808 ",
            "20 counter 1.8446744073709552e19 ",
            "20 counter inf ",
            "20 counter 4 ",
        ]
    );
    let tracks = |part: &str| lines.iter().any(|line| line.contains(part));
    assert!(tracks("@a:q.s ") && tracks("@a:q.deep.in ") && !tracks("@a:q.t "), "{lines:?}");
    assert_eq!((found.summary.counters, found.summary.instants), (8, 2));
}

/// Exports a kernel's trace, by LTTng's tracer or in the kernel's own form.
fn of_kernel(tracer: &str, streams: &[Packets]) -> Exported {
    let task = "string prev_comm; i64 prev_tid; i64 prev_prio; i64 prev_state; string next_comm; \
                i64 next_tid; i64 next_prio;";
    let events = [
        ("sched_switch", task),
        ("irq_handler_entry", "i64 irq; string name;"),
        ("irq_handler_exit", "i64 irq; i64 ret;"),
        ("irq_softirq_entry", "i64 vec;"),
        ("other", "u8 n;"),
        ("sched_process_exit", "string comm; i64 tid;"),
        ("sched_process_fork", "i64 parent_tid; i64 child_tid; i64 child_pid; string child_comm;"),
    ];
    let environment = format!("domain = \"kernel\"; {tracer}");
    let hand = Hand::new();
    let counters = vec!["other.n".parse().unwrap()];
    let options = Options { counters, ..Options::default() };
    exported(hand.trace("k", &metadata(&environment, "", &events), streams), &options)
}

/// Returns the values of a switch between two threads.
fn switch(prev: i64, next: i64) -> [crate::hand_tests::V; 7] {
    [Text("was"), I64(prev), I64(20), I64(1), Text("is"), I64(next), I64(-101)]
}

#[test]
fn switch_is_a_message_with_priorities_as_the_kernel_counts_them() {
    for (tracer, prio) in [
        ("tracer_name = \"lttng-modules\";", (120, -1)),
        ("tracer_name = \"strata\";", (20, -101)),
        ("tracer_name = \"lttng-modules\"; strata_version = \"1\";", (20, -101)),
    ] {
        let found = of_kernel(tracer, &[Packets::new(2).packet(&[(0, 10, &switch(5, 6))])]);
        let wanted = SchedSwitch {
            prev_comm: Some("was".into()),
            prev_pid: Some(5),
            prev_prio: Some(prio.0),
            prev_state: Some(1),
            next_comm: Some("is".into()),
            next_pid: Some(6),
            next_prio: Some(prio.1),
        };
        let event = Some(Ftrace::SchedSwitch(wanted));
        let event = FtraceEvent { timestamp: Some(10), pid: Some(5), event };
        assert_eq!(found.ftrace(), [(2, false, vec![event])], "{tracer}");
        assert_eq!(found.summary.kernel, 1);
    }
}

#[test]
fn kernel_events_are_of_the_thread_that_runs_and_malicious_numbers_of_none() {
    let found = of_kernel(
        "",
        &[Packets::new(0).packet(&[
            (4, 5, &[U8(1)]),
            (0, 10, &switch(0, 6)),
            (4, 20, &[U8(2)]),
            (1, 30, &[I64(i64::MAX), Text("eth\u{1b}")]),
            (2, 40, &[I64(i64::MIN), I64(-1)]),
            (3, 50, &[I64(3)]),
            // No such number in the format.
            (3, 60, &[I64(-1)]),
            (0, 70, &switch(6, i64::MAX)),
            (4, 80, &[U8(3)]),
        ])],
    );
    let [(0, false, events)] = &found.ftrace()[..] else { panic!("{:?}", found.ftrace()) };
    let pids: Vec<u32> = events.iter().map(|event| event.pid.unwrap()).collect();
    assert_eq!(pids, [0, 6, 6, 6, 6]);
    let name = Some("eth\u{1b}".into());
    let entry = IrqHandlerEntry { irq: Some(i32::MAX), name };
    assert_eq!(events[1].event, Some(Ftrace::IrqHandlerEntry(entry)));
    let exit = IrqHandlerExit { irq: Some(i32::MIN), ret: Some(-1) };
    assert_eq!(events[2].event, Some(Ftrace::IrqHandlerExit(exit)));
    assert_eq!(events[3].event, Some(Ftrace::SoftirqEntry(Softirq { vec: Some(3) })));
    let Some(Ftrace::SchedSwitch(last)) = &events[4].event else { panic!("{events:?}") };
    assert_eq!(last.next_pid, Some(0));
    let lines = found.lines();
    let instants: Vec<&str> = lines
        .iter()
        .filter(|line| line.contains(" instant "))
        .map(|line| line.split(" {").next().unwrap())
        .collect();
    assert_eq!(instants[0], "5 instant other @CPU 0 0");
    assert_eq!(instants[1], "20 instant other @thread 6/6");
    assert_eq!(instants[2], "60 instant irq_softirq_entry @thread 6/6");
    assert_eq!(instants[3], "80 instant other @CPU 0 0");
    // What the kernel counts is of the CPU, whoever runs there.
    assert_eq!(lines.iter().filter(|line| line.contains("@other.n ")).count(), 3);
    assert_eq!((found.summary.kernel, found.summary.counters), (5, 3));
}

#[test]
fn loss_in_the_kernel_cuts_the_bundle_and_forgets_who_runs() {
    let stream = Packets::new(1)
        .packet(&[(0, 10, &switch(5, 6)), (4, 20, &[U8(1)])])
        .discards(3)
        .packet(&[(4, 30, &[U8(2)]), (0, 40, &switch(6, 7))])
        .discards(2)
        .packet(&[(4, 50, &[U8(3)])]);
    let found = of_kernel("", &[stream]);
    let cuts: Vec<(bool, usize)> =
        found.ftrace().iter().map(|(_, cut, events)| (*cut, events.len())).collect();
    // With the switches to nobody knows whom, and back.
    assert_eq!(cuts, [(false, 2), (true, 3), (true, 0)]);
    assert_eq!(found.summary.discarded, 5);
    let lines = found.lines();
    let gaps: Vec<&String> = lines.iter().filter(|line| line.contains(" discarded @")).collect();
    assert_eq!(gaps.len(), 2, "{lines:?}");
    assert!(gaps[0].contains("instant 3 event records discarded @CPU 1 1 {from="), "{gaps:?}");
    assert!(gaps[0].contains("count=3 stream='s0'"), "{gaps:?}");
    let instants = lines.iter().filter(|line| line.contains(" instant other "));
    let places: Vec<&str> = instants.map(|line| line.split(" {").next().unwrap()).collect();
    let wanted = ["20 instant other @thread 6/6", "30 instant other @CPU 1 1"];
    assert_eq!((&places[..2], places[2]), (&wanted[..], "50 instant other @CPU 1 1"));
    // The stream's own sequence begins once.
    let sequence = |packet: &&TracePacket| packet.trusted_packet_sequence_id == Some(16);
    let own: Vec<Option<u32>> =
        found.packets.iter().filter(sequence).map(|packet| packet.gap_before).collect();
    assert_eq!(own, [None, Some(1), Some(1)]);
}

#[test]
fn cpu_beyond_those_of_the_format_has_instants_instead_of_messages() {
    for (cpu, kernel) in [(1023, 1), (1024, 0), (u64::from(u32::MAX), 0), (u64::MAX, 0)] {
        let found = of_kernel("", &[Packets::new(cpu).packet(&[(0, 10, &switch(5, 6))])]);
        let Summary { kernel: messages, instants, .. } = found.summary;
        assert_eq!((messages, instants), (kernel, 1 - kernel), "{cpu}");
    }
}

#[test]
fn fork_and_exit_say_of_whom_a_thread_is_and_close_what_it_had_open() {
    let events = [
        ("sched_process_fork", "i64 parent_tid; i64 child_tid; i64 child_pid; string child_comm;"),
        ("sched_process_exit", "i64 tid;"),
        ("syscall_entry_read", ""),
    ];
    let hand = Hand::new();
    let stream = Packets::new(0).packet(&[
        // A process, and a thread of it.
        (0, 10, &[I64(5), I64(5), I64(8), I64(8), Text("child")]),
        (0, 20, &[I64(8), I64(8), I64(9), I64(8), Text("worker")]),
        (2, 30, &[I64(9)]),
        (1, 40, &[I64(8), I64(9)]),
        // Nobody has this number.
        (0, 50, &[I64(8), I64(8), I64(-1), I64(8), Text("x")]),
    ]);
    hand.trace("k", &metadata("domain = \"kernel\";", "i64 tid;", &events), &[stream]);
    let found = exported(&hand, &Options::default());
    let process = TreeProcess { pid: Some(8), ppid: Some(5), cmdline: vec!["child".into()] };
    let thread =
        |tid, name: &str| TreeThread { tid: Some(tid), tgid: Some(8), name: Some(name.to_owned()) };
    let trees = [
        ProcessTree { processes: vec![process], threads: vec![thread(8, "child")] },
        ProcessTree { processes: Vec::new(), threads: vec![thread(9, "worker")] },
    ];
    assert_eq!(found.trees(), trees);
    let lines = found.lines();
    let close = "40 end  @thread 8/9 {unfinished='the thread ended'}";
    assert!(lines.iter().any(|line| line == close), "{lines:?}");
    assert_eq!((found.summary.unfinished, found.summary.instants), (1, 4));
}

#[test]
fn processes_of_two_machines_with_one_number_are_apart_and_named_by_their_machine() {
    let hand = Hand::new();
    for host in ["one", "two"] {
        let text = metadata(&format!("hostname = \"{host}\"; {APPLICATION}"), "", &[("a:e", "")]);
        hand.trace(host, &text, &[Packets::new(0).packet(&[(0, 10, &[])])]);
    }
    let lines = exported(&hand, &Options::default()).lines();
    assert_eq!(
        lines,
        [
            "10 instant a:e @process 7 app (one) {cpu=0}",
            "10 instant a:e @process 8388615 app (two) {cpu=0}",
        ]
    );
}

#[test]
fn damage_is_shown_where_its_stream_is_and_else_nowhere() {
    let hand = Hand::new();
    let mut stream = Packets::new(0).packet(&[(0, 10, &[]), (0, 20, &[])]);
    // An id that no event has.
    stream.bytes[48 + 9] = 99;
    hand.trace("t", &metadata(APPLICATION, "", &[("a:e", "")]), &[stream]);
    let lines = exported(&hand, &Options::default()).lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].starts_with("10 instant damaged @process 7 app {what='"), "{lines:?}");

    let reader = hand.reader();
    let mut exporter = Exporter::new(Vec::new(), &reader, Options::default()).unwrap();
    let mut events = reader.events(TimeRange::ALL);
    let mut damages = 0;
    while let Some(message) = events.next() {
        if let Message::Damage(damage) = message {
            exporter.damage(damage, None).unwrap();
            damages += 1;
        }
    }
    let (bytes, _) = exporter.finish().unwrap();
    let events =
        packets_of(&bytes).iter().filter(|one| one.trusted_packet_sequence_id != Some(2)).count();
    assert_eq!((damages, events), (1, 0));
}

#[test]
fn record_that_is_skipped_is_not_exported_but_says_who_runs() {
    let task = "i64 prev_tid; i64 next_tid;";
    let hand = Hand::new();
    let stream = Packets::new(0).packet(&[(0, 10, &[I64(5), I64(6)]), (1, 20, &[])]);
    let text = metadata("domain = \"kernel\";", "", &[("sched_switch", task), ("other", "")]);
    let reader = hand.trace("k", &text, &[stream]).reader();
    let mut exporter = Exporter::new(Vec::new(), &reader, Options::default()).unwrap();
    let mut events = reader.events(TimeRange::ALL);
    assert_eq!(exporter.now(), None);
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) if event.class().name() == "other" => {
                exporter.event(&event).unwrap();
            }
            Message::Event(event) => exporter.skip(&event).unwrap(),
            _ => {}
        }
    }
    assert_eq!(exporter.now(), Some(20));
    let (bytes, summary) = exporter.finish().unwrap();
    let found = Exported { packets: packets_of(&bytes), summary };
    assert!(found.ftrace().is_empty());
    assert_eq!(found.lines(), ["20 instant other @thread 6/6 {cpu=0}"]);
    assert_eq!((found.summary.events, found.summary.kernel), (1, 0));
}

#[test]
fn output_that_fails_ends_the_export_wherever_it_happens() {
    /// An output that fails after a number of packets.
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let hand = Hand::new();
    let stream = Packets::new(0).packet(&[(0, 10, &[])]).discards(1).packet(&[(1, 20, &[])]);
    let events = [("a:x_begin", ""), ("a:x_end", "")];
    hand.trace("t", &metadata(APPLICATION, "", &events), &[stream]);
    let reader = hand.reader();
    let run = |room| -> io::Result<()> {
        let mut exporter = Exporter::new(Full(room), &reader, Options::default())?;
        let mut events = reader.events(TimeRange::ALL);
        while let Some(message) = events.next() {
            match message {
                Message::Event(event) => exporter.event(&event)?,
                Message::Discarded(discarded) => exporter.discarded(&discarded)?,
                _ => {}
            }
        }
        exporter.finish().map(drop)
    };
    let needed = (0..100).find(|&room| run(room).is_ok()).unwrap();
    assert!(needed > 5, "{needed}");
    for room in 0..needed {
        assert_eq!(run(room).unwrap_err().kind(), io::ErrorKind::StorageFull, "{room}");
    }
}

//! Tests of flame graphs of spans and of blocked time: time ranges, losses, threads without a process.

use strata_ctf::read::{Reader, TimeRange};

use super::told::range;
use crate::debug_info::Source;
use crate::hand_tests::V::{Text, I64, U32, U64};
use crate::hand_tests::{metadata, Hand, Packets, Record, V};
use crate::reports::flame::{has_stacks, Flame, FlameMaker, Weigh};
use crate::reports::offcpu::{OffCpuCounter, StackOf};
use crate::reports::Label;
use strata_timeline::span_roles;
use strata_timeline::Timeline;
use strata_timeline::{pass_on, Asked};

const PROGRAM: &str = "domain = \"ust\"; hostname = \"box\"; vpid = 5; procname = \"app\";";
const KERNEL: &str = "domain = \"kernel\"; hostname = \"box\";";

fn flame(reader: &Reader, weigh: Weigh, range: TimeRange) -> Flame {
    let maker = FlameMaker::new(range, weigh, Source::default());
    flame_by(maker, reader, range, &|_| true)
}

fn flame_by(
    mut maker: FlameMaker,
    reader: &Reader,
    range: TimeRange,
    is_wanted: &dyn Fn(&Label) -> bool,
) -> Flame {
    let timeline = Timeline::with_spans(reader, span_roles(reader, &[]));
    let asked = Asked { range, selection: None };
    let passed = pass_on(timeline, reader, &asked, &mut maker, &|_| true, &mut |_| {}).unwrap();
    maker.finish(passed.timeline.world(), is_wanted)
}

fn lines(flame: &Flame) -> Vec<String> {
    let all = flame.profiles.iter();
    let all = all.flat_map(|it| it.stacks.iter().map(move |stack| (&it.name, stack)));
    all.map(|(name, (frames, weight))| format!("{name};{} {weight}", frames.join(";"))).collect()
}

const OUTER: u8 = 0;
const OUTER_END: u8 = 1;
const INNER: u8 = 2;
const INNER_END: u8 = 3;

/// Packets of thread 5's begins and ends; records were discarded between them.
fn spans(packets: &[&[(u8, u64)]], range: TimeRange) -> Vec<String> {
    let hand = Hand::new();
    let events =
        [("a:outer_begin", ""), ("a:outer_end", ""), ("a:inner_begin", ""), ("a:inner_end", "")];
    let of = [U32(5)];
    let mut stream = Packets::new(0);
    for (number, packet) in packets.iter().enumerate() {
        let records: Vec<Record<'_>> =
            packet.iter().map(|&(id, time)| (id, time, &of[..])).collect();
        stream = stream.discards(u64::from(number > 0)).packet(&records);
    }
    let text = metadata(PROGRAM, "u32 vtid;", &events);
    let reader = hand.trace("t", &text, &[stream]).reader();
    lines(&flame(&reader, Weigh::Spans, range))
}

#[test]
fn span_has_its_own_time_without_what_ended_in_it_before_the_time_asked_for() {
    let all = [
        (OUTER, 100),
        (INNER, 200),
        (INNER_END, 500),
        (INNER, 600),
        (INNER_END, 610),
        (OUTER_END, 1100),
    ];
    let whole = ["app;a:outer 690", "app;a:outer;a:inner 310"];
    assert_eq!(spans(&[&all], TimeRange::ALL), whole);
    assert_eq!(spans(&[&all], range(550, 2000)), ["app;a:outer 690", "app;a:outer;a:inner 10"]);
    assert_eq!(spans(&[&all], range(550, 1000)), ["app;a:outer;a:inner 10"]);
    assert_eq!(spans(&[&all], range(1200, 2000)), [""; 0]);
}

#[test]
fn span_behind_a_loss_has_all_of_its_time_whatever_was_before() {
    // The outer one is in no graph, since its end may be another one's; what ended in it is.
    let before = [(OUTER, 100), (INNER, 110), (INNER_END, 210)];
    let behind = [(OUTER_END, 1000), (OUTER, 1100), (OUTER_END, 1150)];
    let wanted = ["app;a:outer 50", "app;a:outer;a:inner 100"];
    assert_eq!(spans(&[&before, &behind], TimeRange::ALL), wanted);
    let with_inner =
        [(OUTER_END, 1000), (OUTER, 1100), (INNER, 1110), (INNER_END, 1115), (OUTER_END, 1150)];
    let wanted = ["app;a:outer 45", "app;a:outer;a:inner 105"];
    assert_eq!(spans(&[&before, &with_inner], TimeRange::ALL), wanted);
}

#[test]
fn spans_in_themselves_are_as_deep_as_they_are() {
    let all =
        [(OUTER, 0), (OUTER, 10), (OUTER, 20), (OUTER_END, 30), (OUTER_END, 40), (OUTER_END, 50)];
    let wanted = ["app;a:outer 20", "app;a:outer;a:outer 20", "app;a:outer;a:outer;a:outer 10"];
    assert_eq!(spans(&[&all], TimeRange::ALL), wanted);
    // Of no length is no stack.
    assert_eq!(spans(&[&[(OUTER, 5), (OUTER_END, 5)]], TimeRange::ALL), [""; 0]);
}

#[test]
fn spans_of_no_one_thread_are_counted_and_not_shown() {
    let hand = Hand::new();
    let events = [("a:x_begin", ""), ("a:x_end", "")];
    let records: [Record<'_>; 2] = [(0, 10, &[]), (1, 20, &[])];
    let text = metadata(PROGRAM, "", &events);
    let reader = hand.trace("t", &text, &[Packets::new(0).packet(&records)]).reader();
    assert!(!has_stacks(&reader));
    let found = flame(&reader, Weigh::Spans, TimeRange::ALL);
    assert_eq!((lines(&found), found.elsewhere, found.total), (vec![], 1, 0));
}

/// Switches and samples with stacks of one address in the program, 0: none, on one CPU.
pub(super) fn stacks(records: &[(u8, u64, u32, u64, Vec<V>)]) -> (Hand, Reader) {
    let context = "u32 tid; u32 depth; u64 callstack_user[depth];";
    let events = [
        ("sched_switch", "u32 prev_tid; i64 prev_state; u32 next_tid;"),
        ("sched_waking", "string comm; u32 tid;"),
        ("cycles", ""),
        ("lttng_statedump_process_state", "u32 tid; u32 pid; u32 ppid; string name;"),
        ("plain", ""),
        ("syscall_entry_epoll_wait", "u32 epfd; i64 timeout;"),
        ("syscall_exit_epoll_wait", "i64 ret;"),
    ];
    let all: Vec<(u8, u64, Vec<V>)> = records
        .iter()
        .map(|(id, time, tid, address, values)| {
            let stack: &[V] = if *address == 0 { &[] } else { &[U64(*address)] };
            let head = [U32(*tid), U32(stack.len() as u32)];
            (*id, *time, [&head[..], stack, values].concat())
        })
        .collect();
    let records: Vec<Record<'_>> =
        all.iter().map(|(id, time, values)| (*id, *time, &values[..])).collect();
    let hand = Hand::new();
    let text = metadata(KERNEL, context, &events);
    let reader = hand.trace("t", &text, &[Packets::new(0).packet(&records)]).reader();
    (hand, reader)
}

pub(super) fn switch(prev: u32, state: i64, next: u32) -> Vec<V> {
    vec![U32(prev), I64(state), U32(next)]
}

#[test]
fn records_without_an_address_are_stacks_too_and_only_samples_count_where_there_are_some() {
    let there = || vec![U32(5), U32(5), U32(1), Text("app")];
    let plain = [
        (3, 1, 1, 0x9, there()),
        (4, 10, 5, 0x10, vec![]),
        (4, 20, 5, 0x10, vec![]),
        (4, 30, 5, 0, vec![]),
        (4, 40, 8, 0x30, vec![]),
    ];
    let (_hand, reader) = stacks(&plain);
    let found = flame(&reader, Weigh::Records, TimeRange::ALL);
    // What nobody has named has a number.
    assert_eq!(lines(&found)[..2], ["app;0x10 2", "app;[no stack] 1"]);
    assert_eq!((found.profiles[1].pid, found.total, found.empty), (Some(8), 4, 1));
    assert_eq!(found.events, [("plain".to_owned(), 4)]);
    let part = flame(&reader, Weigh::Records, range(20, 30));
    assert_eq!(
        (lines(&part), part.empty),
        (vec!["app;0x10 1".into(), "app;[no stack] 1".into()], 1)
    );
    // With one sample, the rest counts for nothing.
    let with_sample: Vec<_> = plain.iter().cloned().chain([(2, 50, 5, 0x40, vec![])]).collect();
    let (_hand, reader) = stacks(&with_sample);
    let found = flame(&reader, Weigh::Records, TimeRange::ALL);
    assert_eq!((lines(&found), found.empty, found.total), (vec!["app;0x40 1".to_owned()], 0, 1));
    assert_eq!(found.events, [("cycles".to_owned(), 1)]);
}

#[test]
fn blocked_time_is_of_the_time_asked_for_and_no_other_leaving_of_a_cpu_counts() {
    let waking = |tid| vec![Text("x"), U32(tid)];
    let records = [
        (3, 1, 1, 0, vec![U32(5), U32(5), U32(1), Text("app")]),
        (0, 10, 0, 0, switch(0, 0, 5)),
        // Preempted, then blocked, then at its end.
        (0, 20, 5, 0x20, switch(5, 0, 7)),
        (0, 30, 7, 0x30, switch(7, 0, 5)),
        (0, 100, 5, 0x10, switch(5, 1, 7)),
        (1, 200, 7, 0, waking(5)),
        (0, 210, 7, 0x30, switch(7, 0, 5)),
        (0, 300, 5, 0, switch(5, 2, 7)),
        (1, 350, 7, 0, waking(5)),
        (0, 360, 7, 0x30, switch(7, 0, 5)),
        (0, 400, 5, 0x40, switch(5, 32, 7)),
        (0, 500, 7, 0x30, switch(7, 0, 0)),
    ];
    let (_hand, reader) = stacks(&records);
    let found = flame(&reader, Weigh::OffCpu, TimeRange::ALL);
    assert_eq!(lines(&found), ["app;0x10 100", "app;[no stack] 50"]);
    assert_eq!((found.total, found.empty, found.events[0].1), (150, 1, 2));
    assert_eq!(
        lines(&flame(&reader, Weigh::OffCpu, range(150, 330))),
        ["app;0x10 50", "app;[no stack] 30"]
    );
    assert_eq!(lines(&flame(&reader, Weigh::OffCpu, range(210, 290))), [""; 0]);
}

#[test]
fn wait_that_began_before_the_recording_has_no_stack_and_its_time_as_in_the_report_by_stack() {
    let waking = |tid| vec![Text("x"), U32(tid)];
    let there = |pid, name| vec![U32(pid), U32(pid), U32(1), Text(name)];
    let records = [
        (3, 1, 1, 0, there(5, "app")),
        (3, 1, 1, 0, there(7, "other")),
        (0, 10, 0, 0, switch(0, 0, 7)),
        // It waits since before the first record, and then with a stack.
        (1, 100, 7, 0, waking(5)),
        (0, 110, 7, 0x30, switch(7, 0, 5)),
        (0, 150, 5, 0x10, switch(5, 1, 7)),
        (1, 200, 7, 0, waking(5)),
        (0, 210, 7, 0x30, switch(7, 0, 5)),
        (0, 250, 5, 0x20, switch(5, 0, 0)),
    ];
    let (_hand, reader) = stacks(&records);
    let found = flame(&reader, Weigh::OffCpu, TimeRange::ALL);
    let mut counter = OffCpuCounter::new(TimeRange::ALL, 0, Source::default());
    let timeline = Timeline::new(&reader);
    let asked = Asked::default();
    let passed = pass_on(timeline, &reader, &asked, &mut counter, &|_| true, &mut |_| {}).unwrap();
    let waits = counter.finish(passed.timeline.world(), &|_| true);
    assert_eq!((waits.all.total, waits.without_stack.total), (149, 99));
    assert_eq!(lines(&found), ["app;0x10 50", "app;[no stack] 99"]);
    assert_eq!((found.total, found.empty), (waits.all.total, 0));
}

#[test]
fn waits_have_the_stack_of_their_waker_behind_their_own_and_are_counted_by_it() {
    let waking = |tid| vec![Text("x"), U32(tid)];
    let there = |pid, name| vec![U32(pid), U32(pid), U32(1), Text(name)];
    let records = [
        (3, 1, 1, 0, there(5, "app")),
        (3, 1, 1, 0, there(7, "other")),
        (3, 1, 1, 0, there(8, "third")),
        (0, 10, 0, 0, switch(0, 0, 5)),
        (0, 100, 5, 0x10, switch(5, 1, 8)),
        (0, 150, 8, 0x80, switch(8, 1, 7)),
        // Somebody else is woken first, by another stack.
        (1, 190, 7, 0x70, waking(8)),
        (1, 200, 7, 0x71, waking(5)),
        (0, 210, 7, 0x30, switch(7, 0, 5)),
        (0, 300, 5, 0x10, switch(5, 1, 7)),
        // The waker has no stack; what it does later is no waking.
        (1, 350, 7, 0, waking(5)),
        (4, 355, 7, 0x72, vec![]),
        (0, 360, 7, 0x30, switch(7, 0, 5)),
        (0, 400, 5, 0x11, switch(5, 1, 7)),
        // Nobody has woken it in the end.
        (0, 500, 7, 0x30, switch(7, 0, 0)),
    ];
    let (_hand, reader) = stacks(&records);
    let found = flame(&reader, Weigh::OffWake, TimeRange::ALL);
    let wanted = [
        "app;0x10;--;0x71;other 100",
        "app;0x10;--;[no stack];other 50",
        "app;0x11;--;[unknown] 100",
        "third;0x80;--;0x70;other 40",
    ];
    assert_eq!(lines(&found), wanted);
    assert_eq!(found.total, flame(&reader, Weigh::OffCpu, TimeRange::ALL).total);
    let part = flame(&reader, Weigh::OffWake, range(150, 310));
    // Whoever woke it did so behind the time asked for.
    let wanted = ["app;0x10;--;0x71;other 50", "app;0x10;--;[unknown] 10"];
    assert_eq!(lines(&part)[..2], wanted);
    let mut counter = OffCpuCounter::new(TimeRange::ALL, 2, Source::default()).by(StackOf::Waker);
    let asked = Asked::default();
    let timeline = Timeline::new(&reader);
    let passed = pass_on(timeline, &reader, &asked, &mut counter, &|_| true, &mut |_| {}).unwrap();
    let world = passed.timeline.world();
    let report = counter.finish(world, &|_| true);
    let rows = report.rows.iter().map(|row| {
        let by = row.waits[0].woken_by.as_ref().map_or("", |(label, _)| &label.process);
        (row.name.as_str(), row.times.total, row.label.process.as_str(), by)
    });
    let wanted = [
        ("[no stack]", 150, "app", ""),
        ("0x71", 100, "app", "other"),
        ("0x70", 40, "third", "other"),
    ];
    assert_eq!(rows.collect::<Vec<_>>(), wanted);
    assert_eq!((report.all.total, report.without_stack.count), (290, 2));
}

#[test]
fn records_of_more_processes_than_are_distinguished_are_counted_and_are_nobody_s() {
    let there = |pid, name| vec![U32(pid), U32(pid), U32(1), Text(name)];
    let records = [
        (3, 1, 1, 0x9, there(5, "first")),
        (3, 2, 1, 0x9, there(8, "second")),
        (4, 10, 5, 0x10, vec![]),
        (4, 20, 8, 0x10, vec![]),
        (4, 30, 8, 0, vec![]),
        (4, 40, 5, 0, vec![]),
    ];
    let (_hand, reader) = stacks(&records);
    let counts = |most, is_wanted: &dyn Fn(&Label) -> bool| {
        let maker = FlameMaker::new(TimeRange::ALL, Weigh::Records, Source::default());
        let found = flame_by(maker.with_most(most), &reader, TimeRange::ALL, is_wanted);
        (found.events.first().map_or(0, |(_, count)| *count), found.empty)
    };
    for most in [1, 9] {
        assert_eq!(counts(most, &|_| true), (4, 2));
        assert_eq!(counts(most, &|label| label.process == "first"), (2, 1));
    }
    assert_eq!(counts(9, &|label| label.process == "second"), (2, 1));
    assert_eq!(counts(1, &|label| label.process == "second"), (0, 0));
}

#[test]
fn spans_of_no_one_thread_and_stacks_too_many_are_reported_of_those_who_are_wanted() {
    let hand = Hand::new();
    let events = [("a:x_begin", "u32 id;"), ("a:x_end", "u32 id;")];
    // Two spans of one program go from thread to thread, and three of the other; those of a third are of no thread.
    for (name, pid, number) in [("one", 5_u32, 2_u32), ("two", 7, 3)] {
        let environment =
            format!("domain = \"ust\"; hostname = \"box\"; vpid = {pid}; procname = \"{name}\";");
        let of = |thread: u32, id| [U32(pid + thread), U32(id)];
        let all: Vec<_> = (0..number).map(|id| (of(0, id), of(1, id))).collect();
        let mut records: Vec<Record<'_>> = Vec::new();
        for (number, (begin, end)) in all.iter().enumerate() {
            let time = 10 * (1 + number as u64);
            records.extend([(0, time, &begin[..]), (1, time + 5, &end[..])]);
        }
        let text = metadata(&environment, "u32 vtid;", &events);
        hand.trace(name, &text, &[Packets::new(0).packet(&records)]);
    }
    let environment = "domain = \"ust\"; hostname = \"box\"; vpid = 20; procname = \"three\";";
    let records: [Record<'_>; 2] = [(0, 1, &[U32(1)]), (1, 2, &[U32(1)])];
    hand.trace("three", &metadata(environment, "", &events), &[Packets::new(0).packet(&records)]);
    let reader = hand.reader();
    let rules = ["a:x_begin=a:x_end:id".parse().unwrap()];
    let elsewhere = |most, is_wanted: &dyn Fn(&Label) -> bool| {
        let maker = FlameMaker::new(TimeRange::ALL, Weigh::Spans, Source::default());
        let mut maker = maker.with_most(most);
        let timeline = Timeline::with_spans(&reader, span_roles(&reader, &rules));
        let asked = Asked::default();
        let passed =
            pass_on(timeline, &reader, &asked, &mut maker, &|_| true, &mut |_| {}).unwrap();
        maker.finish(passed.timeline.world(), is_wanted).elsewhere
    };
    assert_eq!(elsewhere(9, &|_| true), 6);
    assert_eq!(elsewhere(9, &|label| label.pid == Some(5)), 3);
    assert_eq!(elsewhere(9, &|label| label.pid == Some(7)), 4);
    assert_eq!(elsewhere(9, &|label| label.pid == Some(99)), 1);
    // Of more than are told apart nobody knows whose they are.
    assert_eq!(elsewhere(1, &|_| true), 6);
    let stack = |time, tid, address| (4, time, tid, address, vec![]);
    let there = |pid, name| (3, 1, 1, 0x9, vec![U32(pid), U32(pid), U32(1), Text(name)]);
    let records = [there(5, "one"), there(7, "two"), stack(10, 5, 0x10), stack(20, 5, 0x20)];
    let more = [stack(30, 7, 0x10), stack(40, 7, 0x20), stack(50, 7, 0x30)];
    let (_hand, reader) = stacks(&[&records[..], &more[..]].concat());
    let left_out = |is_wanted: &dyn Fn(&Label) -> bool| {
        let maker = FlameMaker::new(TimeRange::ALL, Weigh::Records, Source::default());
        flame_by(maker.with_most(2), &reader, TimeRange::ALL, is_wanted).left_out
    };
    assert_eq!(left_out(&|_| true), 3);
    assert_eq!(left_out(&|label| label.process == "one"), 0);
    assert_eq!(left_out(&|label| label.process == "two"), 3);
}

//! Tests of blocked time by stacks: lengths, threads, reasons, time ranges, limits, traces without stacks.

use strata_ctf::read::{Reader, TimeRange};

use super::flames::{stacks, switch};
use super::told::{range, Told};
use crate::debug_info::Source;
use crate::hand_tests::V::{self, Text, I64, U32};
use crate::reports::frames::{short, Frames};
use crate::reports::offcpu::{OffCpuCounter, OffCpuReport, Row};
use crate::reports::threads::ThreadCounter;
use crate::reports::Label;
use strata_timeline::{pass, Asked};

const SWITCH: u8 = 0;
const WAKING: u8 = 1;
const THERE: u8 = 3;
const POLL: u8 = 5;
const POLL_END: u8 = 6;

/// The report; what its rows add up to is what threads were blocked.
fn of(reader: &Reader, range: TimeRange, is_wanted: &dyn Fn(&Label) -> bool) -> OffCpuReport {
    let counter = OffCpuCounter::new(range, 2, Source::default());
    let mut both = (counter, ThreadCounter::new(range, 0));
    let asked = Asked { range, selection: None };
    let passed = pass(reader, &asked, &mut both, &|_| true, &mut |_| {}).unwrap();
    let world = passed.timeline.world();
    let report = both.0.finish(world, is_wanted);
    let threads = both.1.finish(world, false);
    let wanted = threads.rows.iter().filter(|row| is_wanted(&row.label));
    let blocked: u64 = wanted.map(|row| row.blocked).sum();
    let rows: u64 = report.rows.iter().map(|row| row.times.total).sum();
    if report.has_stacks {
        assert_eq!(rows + report.left_out.total, blocked);
        assert_eq!(report.all.total, rows);
    }
    for row in &report.rows {
        assert_eq!(row.times.count, row.waits.iter().map(|wait| wait.count).sum::<u64>());
        assert_eq!(row.times.total, row.waits.iter().map(|wait| wait.total).sum::<u64>());
        assert_eq!(row.times.count, row.threads.iter().map(|it| it.1).sum::<u64>());
        assert_eq!(row.times.total, row.threads.iter().map(|it| it.2).sum::<u64>());
    }
    report
}

fn lines(report: &OffCpuReport) -> Vec<String> {
    let line = |row: &Row| {
        let times = &row.times;
        format!("{} {}x{} max {}", row.frames.join(","), times.count, times.total, times.max)
    };
    report.rows.iter().map(line).collect()
}

type Told5 = Vec<(u8, u64, u32, u64, Vec<V>)>;

/// 5 and 6 of process 5, and 8 of process 8, wait: on one CPU, in turns with 7, which wakes them.
fn told() -> Told5 {
    let there = |tid, pid, name| (THERE, 1, 1, 0, vec![U32(tid), U32(pid), U32(1), Text(name)]);
    let mut all =
        vec![there(5, 5, "app"), there(6, 5, "six"), there(7, 7, "by"), there(8, 8, "far")];
    let mut wait = |begin: u64, tid, stack, nanos: u64, call: Option<i64>| {
        all.push((SWITCH, begin, 7, 0x99, switch(7, 0, tid)));
        if call.is_some() {
            all.push((POLL, begin + 5, tid, 0x77, vec![U32(3), I64(1)]));
        }
        all.push((SWITCH, begin + 10, tid, stack, switch(tid, 1, 7)));
        all.push((WAKING, begin + 10 + nanos, 7, 0x88, vec![Text("x"), U32(tid)]));
        all.push((SWITCH, begin + 15 + nanos, 7, 0x99, switch(7, 0, tid)));
        if let Some(result) = call {
            all.push((POLL_END, begin + 16 + nanos, tid, 0x77, vec![I64(result)]));
        }
        all.push((SWITCH, begin + 20 + nanos, tid, 0x66, switch(tid, 0, 7)));
    };
    wait(1000, 5, 0x10, 100, Some(1));
    wait(2000, 5, 0x10, 300, Some(1));
    wait(3000, 6, 0x10, 50, Some(1));
    wait(4000, 5, 0x20, 40, None);
    wait(5000, 8, 0x20, 30, Some(0));
    wait(6000, 8, 0, 20, None);
    wait(7000, 6, 0x30, 10, None);
    wait(7500, 6, 0x30, 5, Some(1));
    all
}

#[test]
fn waits_are_of_the_stack_with_which_their_thread_left_its_cpu() {
    let (_hand, reader) = stacks(&told());
    let report = of(&reader, TimeRange::ALL, &|_| true);
    let wanted =
        ["0x10 3x450 max 300", "0x20 2x70 max 40", "[no stack] 1x20 max 20", "0x30 2x15 max 10"];
    assert_eq!(lines(&report), wanted);
    assert_eq!((report.without_stack.count, report.without_stack.total), (1, 20));
    assert_eq!((report.all.count, report.left_out.count), (8, 0));
    let (poll, both, _, own) = (&report.rows[0], &report.rows[1], &report.rows[2], &report.rows[3]);

    // All of a process; of several; of one thread.
    let of = |row: &Row| (row.label.pid, row.label.tid);
    assert_eq!((of(poll), of(both), of(own)), ((Some(5), None), (None, None), (Some(5), Some(6))));
    let threads = poll.threads.iter().map(|(label, count, total)| (label.tid, *count, *total));
    assert_eq!(threads.collect::<Vec<_>>(), [(Some(5), 2, 400), (Some(6), 1, 50)]);

    // One reason, or several: a call whose time was over was ended by its timer.
    let reasons = |row: &Row| -> Vec<(String, &'static str, u64)> {
        row.waits.iter().map(|wait| (wait.call.clone(), wait.ended_by, wait.total)).collect()
    };
    assert_eq!(reasons(poll), [("epoll_wait".to_owned(), "thread", 450)]);
    let wanted = [(String::new(), "thread", 40), ("epoll_wait".to_owned(), "timer", 30)];
    assert_eq!(reasons(both), wanted);

    let longest = report.longest.iter().map(|it| (it.nanos, it.label.tid, it.name.as_str()));
    assert_eq!(longest.collect::<Vec<_>>(), [(300, Some(5), "0x10"), (100, Some(5), "0x10")]);
    assert_eq!(report.longest[0].wait.call, "epoll_wait");
}

#[test]
fn waits_are_of_the_time_and_of_the_threads_that_are_asked_for() {
    let (_hand, reader) = stacks(&told());
    let all = |_: &Label| true;
    // From within the second wait to within the one of 6.
    let part = of(&reader, range(2210, 3030), &all);
    assert_eq!(lines(&part), ["0x10 2x120 max 100"]);
    assert_eq!(part.longest[0].nanos, 100);
    assert!(of(&reader, range(2400, 2900), &all).rows.is_empty());
    let far = of(&reader, TimeRange::ALL, &|label| label.pid == Some(8));
    assert_eq!(lines(&far), ["0x20 1x30 max 30", "[no stack] 1x20 max 20"]);
    assert_eq!(far.rows[0].label.process, "far");
    // Of the two that are kept, none is its.
    assert!(far.longest.is_empty());
}

#[test]
fn trace_without_stacks_has_no_row_and_that_is_distinguished_from_an_empty_one() {
    let mut told = Told::new(&[(5, 5)]);
    told.switch(100, 0, 0, 5).switch(200, 5, 1, 0).wake(300, 0, 5).switch(310, 0, 0, 5);
    let counter = || OffCpuCounter::new(TimeRange::ALL, 2, Source::default());
    let (counter, passed) = told.seen(TimeRange::ALL, counter());
    let report = counter.finish(passed.timeline.world(), &|_| true);
    assert!(report.rows.is_empty() && report.longest.is_empty() && !report.has_stacks);
    let (_hand, reader) = stacks(&self::told());
    let nobody = of(&reader, TimeRange::ALL, &|_| false);
    assert!(nobody.rows.is_empty() && nobody.has_stacks);
}

#[test]
fn waits_of_more_stacks_than_there_is_room_for_are_counted() {
    const ROOM: u64 = 1 << 15;
    let mut all: Told5 = vec![(THERE, 1, 1, 0, vec![U32(5), U32(5), U32(1), Text("app")])];
    for number in 0..ROOM + 3 {
        let begin = 100 + 10 * number;
        all.push((SWITCH, begin, 7, 0, switch(7, 0, 5)));
        all.push((SWITCH, begin + 1, 5, 0x1000 + number, switch(5, 1, 7)));
        all.push((WAKING, begin + 5, 7, 0, vec![Text("x"), U32(5)]));
    }
    // One that is known is counted, too.
    let begin = 100 + 10 * (ROOM + 3);
    all.push((SWITCH, begin, 7, 0, switch(7, 0, 5)));
    all.push((SWITCH, begin + 1, 5, 0x1000, switch(5, 1, 7)));
    all.push((WAKING, begin + 21, 7, 0, vec![Text("x"), U32(5)]));
    let (_hand, reader) = stacks(&all);
    let report = of(&reader, TimeRange::ALL, &|_| true);
    assert_eq!((report.rows.len() as u64, report.all.count), (ROOM, ROOM + 1));
    assert_eq!((report.left_out.count, report.left_out.total), (3, 12));
    assert_eq!(lines(&report)[0], "0x1000 2x24 max 20");
}

#[test]
fn frames_that_are_too_many_have_the_name_of_none_other() {
    let mut frames = Frames::new(Source::default());
    let first = frames.of("main");
    let one_more = frames.of(&"x".repeat((64 << 20) + 1));
    assert_eq!((frames.name(first), frames.name(one_more)), ("main", "[others]"));
}

#[test]
fn short_text_of_a_stack_begins_behind_what_every_switch_has() {
    let text = |frames: &str| short(&frames.split(' ').map(str::to_owned).collect::<Vec<_>>());
    for (frames, wanted) in [
        (
            "__schedule_[k] schedule_[k] hrtimer_nanosleep_[k] do_syscall_64_[k] nanosleep work main",
            "hrtimer_nanosleep_[k] < … < nanosleep < work < main",
        ),
        ("schedule_[k] worker_thread_[k] kthread_[k]", "worker_thread_[k] < kthread_[k]"),
        ("a_[k] b_[k] c_[k] d_[k] e_[k]", "a_[k] < b_[k] < c_[k] < d_[k] < …"),
        ("a b c d e f", "a < b < c < d < …"),
        // A program may call its own as it likes.
        ("schedule bpf_x main", "schedule < bpf_x < main"),
        ("__schedule_[k] schedule_[k]", "__schedule_[k] < schedule_[k]"),
        ("[no\u{a0}stack]", "[no\u{a0}stack]"),
    ] {
        assert_eq!(text(frames), wanted);
    }
}

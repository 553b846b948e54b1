//! Tests of which results of a report belong to the recorded command and its descendants.

use strata_ctf::read::{Reader, TimeRange};
use strata_timeline::Timeline;

use crate::command_descendants::{has_command, Mine, MineError, Processes};
use crate::hand_tests::V::{self, I64, U32};
use crate::hand_tests::{metadata, Hand, Packets, Record};
use crate::reports::spans::{self, SpanCounter};
use crate::reports::syscalls::{By, SyscallCounter};
use crate::reports::threads::ThreadCounter;
use crate::reports::{Label, LongestLimit};
use strata_timeline::span_roles;
use strata_timeline::{pass, pass_on, Asked};

const SWITCH: u8 = 0;
const FORK: u8 = 1;
const READ: u8 = 2;
const READ_END: u8 = 3;

fn events(fork: &'static str) -> [(&'static str, &'static str); 4] {
    [
        ("sched_switch", "u32 prev_tid; i64 prev_state; u32 next_tid;"),
        (fork, "u32 parent_pid; u32 parent_tid; u32 child_pid; u32 child_tid;"),
        ("syscall_entry_read", "u32 fd;"),
        ("syscall_exit_read", "i64 ret;"),
    ]
}

fn switch(prev: u32, state: i64, next: u32) -> Vec<V> {
    vec![U32(prev), U32(prev), I64(state), U32(next)]
}

/// Returns the values of a fork by the first thread of process `by`, which creates a thread of a process.
fn fork(by: u32, process: u32, thread: u32) -> Vec<V> {
    vec![U32(by), U32(by), U32(by), U32(process), U32(thread)]
}

/// Adds a kernel's trace that process 10 has recorded for the command 20. The command has a thread 22 and a child 21.
/// After the child has ended, a child of 5 gets its number.
fn kernel(hand: &Hand, recorded: &str, fork_event: &'static str) {
    let read = |tid, fd| vec![U32(tid), U32(fd)];
    let end = |tid| vec![U32(tid), I64(1)];
    let all: Vec<(u8, u64, Vec<V>)> = vec![
        (FORK, 10, fork(10, 20, 20)),
        (SWITCH, 20, switch(0, 0, 20)),
        (FORK, 25, fork(20, 20, 22)),
        (READ, 30, read(20, 3)),
        (READ_END, 40, end(20)),
        (FORK, 50, fork(20, 21, 21)),
        (SWITCH, 60, switch(20, 1, 21)),
        (SWITCH, 70, switch(21, 32, 5)),
        (FORK, 75, fork(5, 21, 21)),
        (SWITCH, 80, switch(5, 1, 21)),
        (READ, 85, read(21, 3)),
        (READ_END, 97, end(21)),
        (SWITCH, 100, switch(21, 1, 0)),
    ];
    let records: Vec<Record<'_>> =
        all.iter().map(|(id, time, values)| (*id, *time, &values[..])).collect();
    let environment = format!("domain = \"kernel\"; hostname = \"box\"; {recorded}");
    let text = metadata(&environment, "u32 tid;", &events(fork_event));
    hand.trace("k", &text, &[Packets::new(0).packet(&records)]);
}

fn everyone() -> &'static str {
    "strata_recorder = 10; strata_recorded = \"everyone\";"
}

fn read(reader: &Reader) -> Result<Mine, MineError> {
    Mine::read(reader, 1, &|| false)
}

fn is_of(mine: &Processes, label: &Label) -> bool {
    label.home.is_some_and(|home| mine.has(home))
}

#[test]
fn threads_and_calls_are_the_command_s_and_not_those_of_who_has_a_number_of_its_later() {
    let hand = Hand::new();
    kernel(&hand, everyone(), "sched_process_fork");
    let reader = hand.reader();
    let mut both = (ThreadCounter::new(TimeRange::ALL, 9), SyscallCounter::new(TimeRange::ALL, 9));
    let passed = pass(&reader, &Asked::default(), &mut both, &|_| true, &mut |_| {}).unwrap();
    let world = passed.timeline.world();
    let mine = read(&reader).unwrap().processes(world);
    let report = both.0.finish(world, false);
    let rows = |is_mine: bool| {
        let rows = report.rows.iter().filter(|row| is_of(&mine, &row.label) == is_mine);
        let mut rows: Vec<_> = rows.map(|row| (row.label.tid.unwrap(), row.running)).collect();
        rows.sort_unstable();
        rows
    };
    assert_eq!(rows(true), [(20, 40), (21, 10), (22, 0)]);
    assert_eq!(rows(false), [(5, 10), (21, 20)]);
    let is_wanted = |label: &Label| is_of(&mine, label);
    let calls = both.1.finish_of(world, By::Process, Some(&is_wanted));
    let [row] = calls.rows.as_slice() else { panic!("{:?}", calls.rows) };
    assert_eq!((row.label.pid, row.times.count, row.times.total), (Some(20), 1, 10));
    assert_eq!(calls.slowest.len(), 1);
}

#[test]
fn forks_are_known_from_what_follows_code_where_no_other_record_tells_them() {
    let hand = Hand::new();
    kernel(&hand, everyone(), "lttng_statedump_vm_fork");
    let reader = hand.reader();
    let mut counter = ThreadCounter::new(TimeRange::ALL, 9);
    let passed = pass(&reader, &Asked::default(), &mut counter, &|_| true, &mut |_| {}).unwrap();
    let world = passed.timeline.world();
    let mine = read(&reader).unwrap().processes(world);
    let report = counter.finish(world, false);
    let mut found: Vec<_> = report.rows.iter().filter(|row| is_of(&mine, &row.label)).collect();
    found.sort_by_key(|row| (row.label.tid, row.running));
    // Both of number 21, since nothing says when either began.
    let found: Vec<_> = found.iter().map(|row| (row.label.tid, row.running)).collect();
    assert_eq!(found, [(Some(20), 40), (Some(21), 10), (Some(21), 20)]);
}

#[test]
fn trace_without_a_command_has_nothing_that_is_its() {
    for recorded in ["", "strata_recorder = 10;"] {
        let hand = Hand::new();
        kernel(&hand, recorded, "sched_process_fork");
        let reader = hand.reader();
        assert!(!has_command(&reader));
        assert_eq!(read(&reader).unwrap_err(), MineError::NotSaid);
    }
    let hand = Hand::new();
    kernel(&hand, everyone(), "sched_process_fork");
    assert!(has_command(&hand.reader()));
}

#[test]
fn spans_are_those_of_the_command_s_programs_with_what_is_unpaired() {
    let hand = Hand::new();
    let events = [("a:x_begin", ""), ("a:x_end", "")];
    for (name, pid, recorded, length) in
        [("mine", 20, "command", 100), ("other", 30, "everyone", 1000)]
    {
        let environment = format!(
            "domain = \"ust\"; hostname = \"box\"; vpid = {pid}; procname = \"{name}\"; strata_recorder = 10; \
             strata_recorded = \"{recorded}\";"
        );
        let of = [U32(pid)];
        let records: [Record<'_>; 3] = [(1, 5, &of), (0, 10, &of), (1, 10 + length, &of)];
        let text = metadata(&environment, "u32 vtid;", &events);
        hand.trace(name, &text, &[Packets::new(0).packet(&records)]);
    }
    let reader = hand.reader();
    let finish = |of: Option<&Mine>| {
        let mut counter = SpanCounter::new(TimeRange::ALL, None, 9);
        let timeline = Timeline::with_spans(&reader, span_roles(&reader, &[]));
        let asked = Asked::default();
        let passed =
            pass_on(timeline, &reader, &asked, &mut counter, &|_| true, &mut |_| {}).unwrap();
        let world = passed.timeline.world();
        let mine = of.map(|mine| mine.processes(world));
        let is_wanted = |label: &Label| mine.as_ref().is_none_or(|mine| is_of(mine, label));
        let wanted: Option<&dyn Fn(&Label) -> bool> =
            if of.is_some() { Some(&is_wanted) } else { None };
        let spans = counter.finish_of(world, spans::By::Name, wanted);
        (spans.all.times.count, spans.all.times.total, spans.slowest.len(), spans.unpaired.no_begin)
    };
    assert_eq!(finish(None), (2, 1100, 2, 2));
    assert_eq!(finish(Some(&read(&reader).unwrap())), (1, 100, 1, 1));
}

#[test]
fn label_of_a_thread_and_of_its_process_have_one_home() {
    let hand = Hand::new();
    kernel(&hand, everyone(), "sched_process_fork");
    let reader = hand.reader();
    let mut nobody = SyscallCounter::new(TimeRange::ALL, 0);
    let passed = pass(&reader, &Asked::default(), &mut nobody, &|_| true, &mut |_| {}).unwrap();
    let world = passed.timeline.world();
    for (id, _) in world.threads.iter() {
        let (thread, process) = (Label::thread(world, id), Label::process(world, id));
        assert_eq!(thread.home, process.home);
        assert_eq!(thread.home, Some(world.process_of(id)));
    }
}

#[test]
fn slowest_of_the_command_are_there_however_many_slower_ones_others_have() {
    let hand = Hand::new();
    // 20 of the command has three short ones; 5 has hundreds that are longer.
    let mut all: Vec<(u8, u64, Vec<V>)> = vec![(FORK, 10, fork(10, 20, 20))];
    let mut time = 100;
    for number in 0..300 {
        let (tid, took) = if number % 100 == 50 { (20, 10 + number) } else { (5, 1000 + number) };
        all.push((READ, time, vec![U32(tid), U32(3)]));
        all.push((READ_END, time + took, vec![U32(tid), I64(1)]));
        time += took + 1;
    }
    let records: Vec<Record<'_>> =
        all.iter().map(|(id, time, values)| (*id, *time, &values[..])).collect();
    let environment = format!("domain = \"kernel\"; hostname = \"box\"; {}", everyone());
    let text = metadata(&environment, "u32 tid;", &events("sched_process_fork"));
    hand.trace("k", &text, &[Packets::new(0).packet(&records)]);
    let reader = hand.reader();
    let slowest = |kept: LongestLimit| {
        let mut counter = SyscallCounter::new(TimeRange::ALL, kept);
        let passed =
            pass(&reader, &Asked::default(), &mut counter, &|_| true, &mut |_| {}).unwrap();
        let world = passed.timeline.world();
        let mine = read(&reader).unwrap().processes(world);
        let is_wanted = |label: &Label| is_of(&mine, label);
        let report = counter.finish_of(world, By::Process, Some(&is_wanted));
        assert_eq!(report.all.times.count, 3);
        report.slowest.iter().map(|slow| slow.nanos).collect::<Vec<_>>()
    };
    assert_eq!(slowest(LongestLimit::of_each_thread(2, 50)), [260, 160]);
    // Of all, there is none of the command among the slowest.
    assert_eq!(slowest(LongestLimit::of_all(50)), [0; 0]);
}

#[test]
fn part_of_a_rotated_trace_is_the_command_s_by_who_was_there_or_by_the_part_before() {
    let environment = format!("domain = \"kernel\"; hostname = \"box\"; {}", everyone());
    let events = [
        ("sched_switch", "u32 prev_tid; i64 prev_state; u32 next_tid;"),
        ("sched_process_fork", "u32 parent_pid; u32 parent_tid; u32 child_pid; u32 child_tid;"),
        ("lttng_statedump_process_state", "u32 tid; u32 pid; u32 ppid;"),
    ];
    let text = metadata(&environment, "u32 tid;", &events);
    let there = |process, parent| vec![U32(10), U32(process), U32(process), U32(parent)];
    let first: [(u8, u64, Vec<V>); 4] = [
        (1, 10, fork(10, 20, 20)),
        (0, 20, switch(0, 0, 20)),
        (1, 30, fork(20, 21, 21)),
        (0, 40, switch(20, 1, 21)),
    ];
    let dump = [(2, 101, there(20, 10)), (2, 102, there(21, 20)), (2, 103, there(5, 1))];
    let second =
        [(0, 100, switch(21, 1, 20)), (0, 110, switch(20, 1, 5)), (0, 150, switch(5, 1, 0))];
    let whole: Vec<_> = second[..1].iter().chain(&dump).chain(&second[1..]).cloned().collect();
    let found = |parts: &[&[(u8, u64, Vec<V>)]]| -> Result<Vec<(i32, u64)>, MineError> {
        let hand = Hand::new();
        for (number, part) in parts.iter().enumerate() {
            let records: Vec<Record<'_>> =
                part.iter().map(|(id, time, values)| (*id, *time, &values[..])).collect();
            hand.trace(&format!("{number}"), &text, &[Packets::new(0).packet(&records)]);
        }
        let reader = hand.reader();
        let mut counter = ThreadCounter::new(TimeRange::ALL, 9);
        let passed =
            pass(&reader, &Asked::default(), &mut counter, &|_| true, &mut |_| {}).unwrap();
        let world = passed.timeline.world();
        let mine = read(&reader)?.processes(world);
        let report = counter.finish(world, false);
        let rows = report.rows.iter().filter(|row| is_of(&mine, &row.label));
        let mut rows: Vec<_> = rows.map(|row| (row.label.tid.unwrap(), row.running)).collect();
        rows.sort_unstable();
        Ok(rows)
    };
    assert_eq!(found(&[&whole]), Ok(vec![(20, 10), (21, 0)]));
    assert_eq!(found(&[&second]), Err(MineError::NoStart(10)));
    // Both together: 21 has the CPU from 40 to 100.
    assert_eq!(found(&[&first, &whole]), Ok(vec![(20, 30), (21, 60)]));
    assert_eq!(found(&[&first, &second]), Ok(vec![(20, 30), (21, 60)]));
}

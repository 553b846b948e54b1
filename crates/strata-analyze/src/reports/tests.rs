//! Tests of reports, with traces written by hand whose results are known.

mod before;
mod blocked;
mod causes;
mod containers;
mod cpu_power;
mod fields;
mod flames;
mod jobs;
mod kernel_locks;
mod machines;
mod mine;
mod network;
mod offcpu;
mod paths;
mod recorder;
mod resources;
mod spellings;
mod told;
mod work;

use strata_ctf::read::TimeRange;
use strata_timeline::ThreadId;

use super::syscalls::{By, SyscallCounter, Syscalls};
use super::threads::{Row, ThreadCounter, ThreadsReport};
use super::wait::{History, PathPart, PathPartKind};
use super::{arguments, Label};
use crate::hand_tests::V::{self, Text, I64, U32, U64};
use crate::hand_tests::{metadata, Hand, Packets, Record, ORIGIN};
use strata_timeline::{pass, Asked, Passed};

const SWITCH: u8 = 0;
const WAKING: u8 = 1;
const READ: u8 = 2;
const READ_END: u8 = 3;
const WRITE: u8 = 4;
const WRITE_END: u8 = 5;
const THERE: u8 = 6;
const EVENTS: [(&str, &str); 7] = [
    (
        "sched_switch",
        "string prev_comm; u32 prev_tid; i64 prev_state; string next_comm; u32 next_tid;",
    ),
    ("sched_waking", "string comm; u32 tid;"),
    ("syscall_entry_read", "u32 fd; u64 count;"),
    ("syscall_exit_read", "i64 ret;"),
    ("syscall_entry_write", "u32 fd; string buf;"),
    ("syscall_exit_write", "i64 ret;"),
    ("lttng_statedump_process_state", "u32 tid; u32 pid; u32 ppid; string name;"),
];

fn with<T>(streams: Vec<Packets>, ask: impl FnOnce(&strata_ctf::read::Reader) -> T) -> T {
    let hand = Hand::new();
    let text = metadata("domain = \"kernel\"; hostname = \"box\";", "u32 tid;", &EVENTS);
    ask(&hand.trace("t", &text, &streams).reader())
}

/// Returns the records of one CPU. Threads 5 and 6 of process 5 read from pipes; 7 wakes 6, and 6 wakes 5. From 100 to
/// 1000, 5 is in one read.
fn chain() -> Vec<Packets> {
    let there = |tid, pid| [U32(1), U32(tid), U32(pid), U32(1), Text("app")];
    let (five, six, seven) = (there(5, 5), there(6, 5), there(7, 7));
    let switch = |prev, state, next: u32| {
        [
            U32(prev),
            Text("x"),
            U32(prev),
            I64(state),
            Text(if next == 7 { "far" } else { "x" }),
            U32(next),
        ]
    };
    let waking = |by, tid| [U32(by), Text("x"), U32(tid)];
    let read = |tid, fd| [U32(tid), U32(fd), U64(1)];
    let end = |tid, ret| [U32(tid), I64(ret)];
    let write = |tid| [U32(tid), U32(4), Text("word")];
    let records: [Record<'_>; 19] = [
        (THERE, 10, &five),
        (THERE, 11, &six),
        (THERE, 12, &seven),
        (SWITCH, 50, &switch(0, 0, 5)),
        (READ, 100, &read(5, 3)),
        (SWITCH, 200, &switch(5, 1, 6)),
        (READ, 250, &read(6, 8)),
        (SWITCH, 300, &switch(6, 1, 7)),
        (WRITE, 500, &write(7)),
        (WAKING, 510, &waking(7, 6)),
        (WRITE_END, 520, &end(7, 4)),
        (SWITCH, 600, &switch(7, 0, 6)),
        (READ_END, 610, &end(6, -11)),
        (WRITE, 700, &write(6)),
        (WAKING, 710, &waking(6, 5)),
        (WRITE_END, 720, &end(6, 4)),
        (SWITCH, 900, &switch(6, 0, 5)),
        (READ_END, 1000, &end(5, 1)),
        (SWITCH, 1100, &switch(5, 32, 0)),
    ];
    vec![Packets::new(0).packet(&records)]
}

fn run<O: strata_timeline::Observer>(
    reader: &strata_ctf::read::Reader,
    asked: &Asked,
    seen: &mut O,
) -> Passed {
    pass(reader, asked, seen, &|_| true, &mut |_| {}).unwrap()
}

fn syscalls(asked: &Asked, by: By, slowest: usize) -> Syscalls {
    with(chain(), |reader| {
        let mut counter = SyscallCounter::new(asked.range, slowest);
        let passed = run(reader, asked, &mut counter);
        counter.finish(passed.timeline.world(), by)
    })
}

#[test]
fn syscalls_of_some_threads_are_theirs_in_rows_in_sum_and_among_the_slowest() {
    let of = |tid| {
        with(chain(), |reader| {
            let mut counter = SyscallCounter::new(TimeRange::ALL, 10);
            let passed = run(reader, &Asked::default(), &mut counter);
            let is_wanted = |label: &Label| label.tid == Some(tid);
            counter.finish_of(passed.timeline.world(), By::Name, Some(&is_wanted))
        })
    };
    let six = of(6);
    let rows: Vec<_> =
        six.rows.iter().map(|row| (row.name.as_str(), row.times.count, row.errors)).collect();
    assert_eq!(rows, [("read", 1, 1), ("write", 1, 0)]);
    assert_eq!((six.all.times.count, six.slowest.len(), six.of_nobody), (2, 2, 0));
    assert!(six.slowest.iter().all(|slow| slow.label.tid == Some(6)));
    assert_eq!((of(7).all.times.count, of(8).all.times.count, of(8).slowest.len()), (1, 0, 0));
}

fn threads(range: TimeRange, by_process: bool) -> ThreadsReport {
    with(chain(), |reader| {
        let mut counter = ThreadCounter::new(range, 10);
        let passed = run(reader, &Asked { range, selection: None }, &mut counter);
        counter.finish(passed.timeline.world(), by_process)
    })
}

#[test]
fn thread_is_of_the_process_that_it_says_itself_and_called_what_its_program_is() {
    let events = [
        ("lttng_statedump_vm_map", "u32 pid; u64 start;"),
        ("lttng_statedump_vm_exec", "u32 pid; u32 tid; string name;"),
        ("syscall_entry_read", "u32 fd; u64 count;"),
        ("syscall_exit_read", "i64 ret;"),
        ("lttng_statedump_process_state", "u32 tid; u32 pid; u32 ppid; string name;"),
    ];
    // Who records is 9. Traces of before have its number as the process of who maps and executes.
    for (context, recorder) in [("u32 tid; u32 pid;", 9), ("u32 tid; u32 pid;", 5), ("u32 tid;", 0)]
    {
        let hand = Hand::new();
        let text = metadata("domain = \"kernel\"; hostname = \"box\";", context, &events);
        let of = |tid, pid, values: &[V]| {
            let pid: &[V] = if recorder == 0 { &[] } else { &[U32(pid)] };
            [&[U32(tid)], pid, values].concat()
        };
        let there = of(9, 9, &[U32(9), U32(9), U32(1), Text("strata")]);
        let map = of(5, recorder, &[U32(5), U64(4096)]);
        let exec = of(5, recorder, &[U32(5), U32(5), Text("ls")]);
        let (read, end) = (of(5, 5, &[U32(3), U64(1)]), of(5, 5, &[I64(1)]));
        let records: [Record<'_>; 5] =
            [(4, 10, &there), (0, 20, &map), (1, 30, &exec), (2, 40, &read), (3, 50, &end)];
        let reader = hand.trace("t", &text, &[Packets::new(0).packet(&records)]).reader();
        let mut counter = SyscallCounter::new(TimeRange::ALL, 0);
        let passed = run(&reader, &Asked::default(), &mut counter);
        let rows = counter.finish(passed.timeline.world(), By::Process).rows;
        let labels: Vec<_> =
            rows.iter().map(|row| (&row.label.process[..], row.label.pid)).collect();
        assert_eq!(labels, [("ls", Some(5))], "{context} {recorder}");
    }
}

#[test]
fn syscalls_are_counted_by_process_thread_and_name() {
    let rows = |by| {
        let rows = syscalls(&Asked::default(), by, 0).rows;
        let row = |row: super::syscalls::Row| {
            let Label { pid, tid, .. } = row.label;
            (pid, tid, row.name, row.times.count, row.errors, row.times.total, row.times.max)
        };
        rows.into_iter().map(row).collect::<Vec<_>>()
    };
    let (read, write) = (|| "read".to_owned(), || "write".to_owned());
    assert_eq!(
        rows(By::Process),
        [
            (Some(5), None, read(), 2, 1, 1260, 900),
            (Some(5), None, write(), 1, 0, 20, 20),
            (Some(7), None, write(), 1, 0, 20, 20),
        ]
    );
    assert_eq!(
        rows(By::Thread)[..2],
        [(Some(5), Some(5), read(), 1, 0, 900, 900), (Some(5), Some(6), read(), 1, 1, 360, 360),]
    );
    let by_name = [(None, None, read(), 2, 1, 1260, 900), (None, None, write(), 2, 0, 40, 20)];
    assert_eq!(rows(By::Name), by_name);
}

#[test]
fn slowest_syscalls_are_those_and_their_arguments_are_read_again() {
    let slowest = syscalls(&Asked::default(), By::Name, 2).slowest;
    let found: Vec<_> =
        slowest.iter().map(|slow| (slow.begin - ORIGIN, slow.nanos, slow.result)).collect();
    assert_eq!(found, [(100, 900, Some(1)), (250, 360, Some(-11))]);
    let args = |call: &str, tid, time| {
        with(chain(), |reader| arguments(reader, call, tid, (ORIGIN + time, ORIGIN + time)))
    };
    assert_eq!(args("read", 5, 100).as_deref(), Some("fd = 3, count = 1"));
    assert_eq!(args("write", 7, 500).as_deref(), Some("fd = 4, buf = \"word\""));
    assert_eq!((args("read", 6, 100), args("read", 5, 101)), (None, None));
}

#[test]
fn filter_selects_calls_by_their_begins_and_their_ends() {
    let count = |filter: &str| {
        let filter: strata_filter::Filter = filter.parse().unwrap();
        let selection = Some(strata_ctf::read::Selection::new(&filter));
        syscalls(&Asked { selection, ..Asked::default() }, By::Name, 0).all.times.count
    };
    assert_eq!((count("ret < 0"), count("fd == 3"), count("syscall_entry_write")), (1, 1, 2));
    assert_eq!(count("tid == 6 && ret > 0"), 1);
    let range = TimeRange { from: ORIGIN + 600, to: ORIGIN + 1000 };
    let of_time = syscalls(&Asked { range, selection: None }, By::Name, 0);
    assert_eq!((of_time.all.times.count, of_time.all.times.total), (3, 900 + 360 + 20));
}

#[test]
fn threads_have_all_their_time_in_some_state() {
    let report = threads(TimeRange::ALL, false);
    let row = |tid| report.rows.iter().find(|row| row.label.tid == Some(tid)).unwrap();
    let times = |tid| {
        let row = row(tid);
        (row.running, row.woken, row.preempted, row.blocked, row.unknown)
    };
    // From the first record, 10, to the last, 1100.
    assert_eq!(times(5), (150 + 200, 190, 0, 510, 40));
    assert_eq!(times(6), (100 + 300, 90, 200, 210, 190));
    assert_eq!(times(7), (300, 0, 500, 0, 290));
    let wait = &row(5).waits[0];
    let woken_by = wait.woken_by.as_ref().unwrap();
    assert_eq!((wait.call.as_str(), wait.object.as_str()), ("read", "descriptor 3"));
    assert_eq!((wait.total, woken_by.0.tid, woken_by.1), (510, Some(6), 1));
    // While 6 was runnable, 7 ran; while 5 was, 6 did.
    let rival = |tid, rival| {
        let is =
            |(label, _): &&(Option<Label>, u64)| label.as_ref().is_some_and(|it| it.tid == rival);
        row(tid).rivals.iter().find(is).map(|(_, nanos)| *nanos)
    };
    assert_eq!((rival(6, Some(7)), rival(5, Some(6))), (Some(90), Some(190)));
    // The last that it had.
    assert_eq!(row(7).label.process, "x");
    let delays: Vec<_> = report.delays.iter().map(|delay| (delay.label.tid, delay.nanos)).collect();
    assert_eq!(delays, [(Some(5), 190), (Some(6), 90)]);
    // Those that have not ended are among them.
    let spread = |row: &Row| (row.delays.count, row.delays.total, row.delays.min, row.delays.max);
    assert_eq!((spread(row(5)), spread(row(6))), ((1, 190, 190, 190), (2, 290, 90, 200)));
    let of_process = threads(TimeRange::ALL, true);
    let five = of_process.rows.iter().find(|row| row.label.pid == Some(5)).unwrap();
    assert_eq!(spread(five), (3, 480, 90, 200));
}

#[test]
fn threads_of_a_process_and_of_a_time_are_those_parts() {
    let report = threads(TimeRange::ALL, true);
    let row = report.rows.iter().find(|row| row.label.pid == Some(5)).unwrap();
    assert_eq!((row.running, row.runnable(), row.blocked), (350 + 400, 480, 720));
    let range = TimeRange { from: ORIGIN + 400, to: ORIGIN + 650 };
    let report = threads(range, false);
    let row = report.rows.iter().find(|row| row.label.tid == Some(6)).unwrap();
    assert_eq!((row.running, row.woken, row.blocked, row.unknown), (50, 90, 110, 0));
}

fn sums(node: &PathPart) -> u64 {
    let parts: u64 = node.parts.iter().map(sums).sum();
    assert!(node.parts.is_empty() || parts == node.nanos, "{node:?}");
    node.nanos
}

/// Calls `ask` with a function that makes the path of a thread between two times.
fn paths<T>(ask: impl FnOnce(&dyn Fn(i64, i64, i64) -> PathPart) -> T) -> T {
    with(chain(), |reader| {
        let mut history = History::new(TimeRange::ALL, None);
        let passed = run(reader, &Asked::default(), &mut history);
        let world = passed.timeline.world();
        let thread = |tid| -> ThreadId { world.threads.find(0, tid).unwrap() };
        ask(&|tid, from, to| history.path(world, thread(tid), ORIGIN + from, ORIGIN + to))
    })
}

#[test]
fn critical_path_goes_through_those_who_woke_and_adds_up() {
    let whole = paths(|path| path(5, 100, 1000));
    assert_eq!((sums(&whole), whole.nanos), (900, 900));
    let part = |node: &PathPart, tid, wanted: fn(&PathPartKind) -> bool| {
        let is = |part: &&PathPart| part.label.tid == Some(tid) && wanted(&part.what);
        node.parts.iter().find(is).cloned().unwrap()
    };
    let is_blocked = |what: &PathPartKind| matches!(what, PathPartKind::Blocked(_));
    let is_running = |what: &PathPartKind| matches!(what, PathPartKind::Running);
    let is_runnable = |what: &PathPartKind| matches!(what, PathPartKind::Runnable { woken: true });
    assert_eq!(part(&whole, 5, is_running).nanos, 200);
    assert_eq!(part(&whole, 5, is_runnable).nanos, 190);
    let first = part(&whole, 5, is_blocked);
    // From 200 to 710 it waited for 6: that ran, waited for 7, and wanted a CPU.
    assert_eq!((first.nanos, part(&first, 6, is_running).nanos), (510, 100 + 110));
    let second = part(&first, 6, is_blocked);
    assert_eq!((second.nanos, part(&second, 7, is_running).nanos), (210, 210));
    assert_eq!(part(&first, 6, is_runnable).nanos, 90);
}

#[test]
fn critical_path_of_any_part_of_the_time_adds_up() {
    paths(|path| {
        for tid in [5, 6, 7] {
            for from in (0..1200).step_by(70) {
                for to in (from + 1..1300).step_by(90) {
                    let whole = path(tid, from, to);
                    assert_eq!(sums(&whole), to.abs_diff(from), "{tid} {from} {to}");
                }
            }
        }
    });
}

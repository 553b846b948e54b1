//! Tests that the export joins later records: arguments of calls, names of processes. And times that the format does
//! not have.

use super::*;
use crate::hand_tests::ORIGIN;

const CALLS: [(&str, &str); 8] = [
    ("syscall_entry_openat", "u32 dfd; string filename;"),
    ("syscall_exit_openat", "i64 ret;"),
    ("syscall_text", "enum : u32 { openat = 1 } call; u8 argument; string text;"),
    ("sched_process_fork", "i64 parent_tid; i64 child_tid; i64 child_pid; string child_comm;"),
    ("sched_process_exec", "string filename;"),
    (
        "sched_switch",
        "string prev_comm; i64 prev_tid; i64 prev_state; string next_comm; i64 next_tid;",
    ),
    ("syscall_entry_connect", "u32 addr_family; u32 addr_port; u8 addr_addr[4]; u32 addrlen;"),
    (
        "syscall_address",
        "enum : u32 { connect = 3 } call; u8 argument; u32 address_family; u32 address_port; u8 address_addr[4];",
    ),
];

fn of(records: &[Record<'_>]) -> Exported {
    of_kernel_with(&CALLS, records)
}

fn of_kernel_with(events: &[(&str, &str)], records: &[Record<'_>]) -> Exported {
    let hand = Hand::new();
    let text = metadata("domain = \"kernel\";", "i64 tid;", events);
    hand.trace("k", &text, &[Packets::new(0).packet(records)]);
    exported(&hand, &Options::default())
}

fn end_of(found: &Exported, time: u64) -> String {
    let begin = format!("{time} end");
    let lines = found.lines();
    lines.into_iter().find(|line| line.starts_with(&begin)).unwrap_or_default()
}

#[test]
fn argument_that_came_later_is_at_the_end_of_its_slice_by_the_name_that_the_begin_has() {
    let open = |time, tid, name| (0, time, [I64(tid), U32(5), Text(name)]);
    let (one, two) = (open(10, 5, "0x55d0"), open(60, 5, "/b"));
    let found = of(&[
        (one.0, one.1, &one.2),
        (2, 20, &[I64(5), U32(1), U8(1), Text("/a")]),
        (1, 30, &[I64(5), I64(3)]),
        (two.0, two.1, &two.2),
        (1, 70, &[I64(5), I64(4)]),
    ]);
    assert_eq!(end_of(&found, 30), "30 end  @thread 5/5 {filename='/a' ret=3}");
    assert_eq!(end_of(&found, 70), "70 end  @thread 5/5 {ret=4}");
    // The record itself is there, too.
    let instants = found.lines().into_iter().filter(|line| line.contains("syscall_text"));
    assert_eq!(instants.count(), 1);
}

fn process(found: &Exported, pid: i32) -> Vec<String> {
    let trees = found.trees().into_iter().flat_map(|tree| tree.processes);
    let names = trees.filter(|process| process.pid == Some(pid));
    names.map(|process| process.cmdline.join(" ")).collect()
}

#[test]
fn process_is_called_by_the_program_that_it_executes_and_as_it_calls_itself() {
    let switch = |prev_comm, prev, next_comm, next| {
        [I64(prev), Text(prev_comm), I64(prev), I64(1), Text(next_comm), I64(next)]
    };
    let found = of(&[
        (3, 10, &[I64(5), I64(5), I64(8), I64(8), Text("sh")]),
        (3, 12, &[I64(5), I64(5), I64(9), I64(8), Text("worker")]),
        (4, 20, &[I64(8), Text("/usr/bin/a-name-of-twenty-bytes")]),
        (5, 30, &switch("a-name-of-twent", 8, "swapper/0", 0)),
        (5, 40, &switch("swapper/0", 0, "a-name-of-twent", 8)),
        // Its first thread has another name, and then its other one.
        (5, 50, &switch("renamed", 8, "other", 9)),
        (5, 60, &switch("other", 9, "renamed", 8)),
    ]);
    assert_eq!(process(&found, 8), ["sh", "a-name-of-twent", "renamed"]);
    assert_eq!(process(&found, 9), [""; 0]);
}

#[test]
fn thread_of_which_nobody_says_the_process_names_none_until_it_executes_a_program() {
    let switch = [I64(7), Text("one"), I64(7), I64(1), Text("two"), I64(6)];
    assert_eq!(of(&[(5, 30, &switch)]).trees(), []);
    // exec() ends all other threads, and the one that stays has the number of its process.
    let found = of(&[(5, 30, &switch), (4, 40, &[I64(6), Text("/bin/three")])]);
    assert_eq!(process(&found, 6), ["three"]);
}

/// Times of an export of records, of a clock that has this 0 \[s since 1970\].
fn times(name: &str, offset: i64, cycles: &[u64]) -> (Vec<u64>, Summary, u32) {
    let hand = Hand::new();
    let text = metadata("", "", &[("a", "u64 x;")]);
    let seconds = ORIGIN / 1_000_000_000;
    let text = text.replace(&format!("offset_s = {seconds};"), &format!("offset_s = {offset};"));
    let text = text.replace("name = monotonic;", &format!("name = {name};"));
    let text = text.replace("clock.monotonic.", &format!("clock.{name}."));
    let values = [U64(1)];
    let records: Vec<Record<'_>> = cycles.iter().map(|&at| (0, at, &values[..])).collect();
    hand.trace("t", &text, &[Packets::new(0).packet(&records)]);
    let found = exported(&hand, &Options::default());
    let events =
        found.packets.iter().filter(|it| matches!(it.data, Some(PacketData::TrackEvent(_))));
    let times = events.map(|packet| packet.timestamp.unwrap()).collect();
    let snapshot = found.packets.iter().find_map(|packet| match &packet.data {
        Some(PacketData::ClockSnapshot(snapshot)) => snapshot.primary_trace_clock,
        _ => None,
    });
    (times, found.summary, snapshot.unwrap())
}

#[test]
fn times_before_1970_are_apart_and_the_shift_is_reported() {
    const SECOND: u64 = 1_000_000_000;
    const REALTIME: u32 = 1;
    const MONOTONIC: u32 = 3;
    const BOOTTIME: u32 = 6;
    let cycles = [1, 2, 3, 12].map(|at| at * SECOND);
    let (found, summary, clock) = times("device", -10, &cycles);
    assert_eq!(found, [0, 1, 2, 11].map(|at| at * SECOND));
    assert_eq!((summary.shift, summary.out_of_range), (Some(9 * SECOND), 0));
    assert_eq!(clock, BOOTTIME);
    // As a machine's own clock it has them.
    let (found, summary, clock) = times("monotonic", -10, &cycles);
    assert_eq!((found, summary.shift, clock), (cycles.to_vec(), None, MONOTONIC));
    let (found, summary, clock) = times("device", 10, &cycles);
    assert_eq!(found, [11, 12, 13, 22].map(|at| at * SECOND));
    assert_eq!((summary.shift, clock), (None, REALTIME));
}

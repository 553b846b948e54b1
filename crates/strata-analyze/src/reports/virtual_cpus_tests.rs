//! Tests of stalls of virtual CPUs, with traces of a host and its guest written by hand.

use strata_ctf::read::TimeRange;

use super::threads::{Stall, ThreadCounter, Why};
use crate::hand_tests::V::{Text, I64, U32, U64};
use crate::hand_tests::{metadata, Hand, Packets, Record, ORIGIN, V};
use strata_timeline::{pass, Asked};

const SWITCH: u8 = 0;
const WAKING: u8 = 1;
const READ: u8 = 2;
const READ_END: u8 = 3;
const EVENTS: [(&str, &str); 4] = [
    (
        "sched_switch",
        "string prev_comm; u32 prev_tid; i64 prev_state; string next_comm; u32 next_tid;",
    ),
    ("sched_waking", "string comm; u32 tid;"),
    ("syscall_entry_read", "u32 fd; u64 count;"),
    ("syscall_exit_read", "i64 ret;"),
];

fn switch(prev: u32, state: i64, next: u32) -> [V; 6] {
    [U32(prev), Text("x"), U32(prev), I64(state), Text("y"), U32(next)]
}

/// On the host's CPU 3, thread 42 is virtual CPU 0; 50 takes its CPU from 200 to 300, and it reads from 400 to 510. In
/// the guest, which is called `name`, 7 runs from 150 to 600, and 8 waits for its turn from 250 on.
fn stall(name: &str, entries: &str, range: TimeRange) -> (Vec<Stall>, u64) {
    let hand = Hand::new();
    let (read, end) = ([U32(42), U32(9), U64(1)], [U32(42), I64(1)]);
    let (wake_host, wake_guest) = ([U32(0), Text("v"), U32(42)], [U32(7), Text("b"), U32(8)]);
    let all = [
        switch(1, 0, 42),
        switch(42, 0, 50),
        switch(50, 1, 42),
        switch(42, 1, 0),
        switch(0, 0, 42),
        switch(42, 0, 60),
    ];
    let host: [Record<'_>; 9] = [
        (SWITCH, 100, &all[0]),
        (SWITCH, 200, &all[1]),
        (SWITCH, 300, &all[2]),
        (READ, 390, &read),
        (SWITCH, 400, &all[3]),
        (WAKING, 500, &wake_host),
        (SWITCH, 510, &all[4]),
        (READ_END, 520, &end),
        (SWITCH, 700, &all[5]),
    ];
    let inside = [switch(0, 0, 7), switch(7, 1, 8), switch(8, 1, 0)];
    let guest: [Record<'_>; 4] = [
        (SWITCH, 150, &inside[0]),
        (WAKING, 250, &wake_guest),
        (SWITCH, 600, &inside[1]),
        (SWITCH, 650, &inside[2]),
    ];
    let text = metadata("domain = \"kernel\"; hostname = \"box\";", "u32 tid;", &EVENTS);
    hand.trace("host", &text, &[Packets::new(3).packet(&host)]);
    let environment = format!("domain = \"kernel\"; hostname = \"{name}\"; {entries}");
    let text = metadata(&environment, "u32 tid;", &EVENTS);
    hand.trace("guest", &text, &[Packets::new(0).packet(&guest)]);
    let reader = hand.reader();
    let mut counter = ThreadCounter::with_guests(&reader, range, 0);
    let passed = pass(&reader, &Asked::default(), &mut counter, &|_| true, &mut |_| {}).unwrap();
    let report = counter.finish(passed.timeline.world(), false);
    (report.stalls, report.uncertainty)
}

const KNOWN: &str = "clock_uncertainty = 5; hypervisor_pid = 40; virtual_cpu_0 = 42;";

/// Returns each stall's thread, cause, total time, and begin of the longest.
fn short(stall: &[Stall]) -> Vec<(i32, String, u64, i64)> {
    let why = |why: &Why| match why {
        Why::Preempted(Some(label)) => format!("by {}", label.tid.unwrap()),
        Why::Preempted(None) => "wanted".to_owned(),
        Why::Waited(call) => format!("in {}", call.as_deref().unwrap_or("?")),
    };
    let mut all: Vec<_> = stall
        .iter()
        .map(|one| (one.label.tid.unwrap(), why(&one.why), one.total, one.at - ORIGIN))
        .collect();
    all.sort();
    all
}

#[test]
fn thread_of_a_guest_does_not_run_while_its_virtual_cpu_waits() {
    let expected = [
        (7, "by 50".to_owned(), 100, 200),
        (7, "in read".to_owned(), 100, 400),
        (7, "wanted".to_owned(), 10, 500),
        (8, "by 50".to_owned(), 50, 250),
        (8, "in read".to_owned(), 100, 400),
        (8, "wanted".to_owned(), 10, 500),
    ];
    let (stall, uncertainty) = stall("vm", KNOWN, TimeRange::ALL);
    assert_eq!(short(&stall), expected);
    assert_eq!((uncertainty, stall[0].label.machine.as_deref()), (5, Some("vm")));
    assert_eq!(stall[0].virtual_cpu.tid, Some(42));
    assert!(stall.windows(2).all(|two| two[0].total >= two[1].total));
    // Of the same time, by the thread and then by why: in one order each time.
    let order: Vec<_> = stall
        .iter()
        .map(|one| (one.label.tid.unwrap(), matches!(one.why, Why::Waited(_))))
        .collect();
    let wanted = [(7, false), (7, true), (8, true), (8, false), (7, false), (8, false)];
    assert_eq!(order, wanted);
    // A guest that is called as its host is another machine.
    let (same, _) = self::stall("box", KNOWN, TimeRange::ALL);
    assert_eq!(short(&same), expected);
    assert_eq!(same[0].label.machine.as_deref(), Some("box (2)"));
}

#[test]
fn time_that_a_virtual_cpu_stalled_is_that_of_the_range() {
    let range = TimeRange { from: ORIGIN + 220, to: ORIGIN + 260 };
    let (stall, _) = stall("vm", KNOWN, range);
    assert_eq!(short(&stall), [(7, "by 50".into(), 40, 220), (8, "by 50".into(), 10, 250)]);
}

#[test]
fn guest_of_which_no_virtual_cpu_is_known_has_no_stall() {
    for entries in [
        "",
        "clock_uncertainty = 5;",
        "clock_uncertainty = 5; virtual_cpu_x = 42; virtual_cpu_0 = -7;",
        "clock_uncertainty = -5; virtual_cpu_0 = 42;",
        "virtual_cpu_0 = 42;",
    ] {
        assert!(stall("vm", entries, TimeRange::ALL).0.is_empty(), "{entries}");
    }
}

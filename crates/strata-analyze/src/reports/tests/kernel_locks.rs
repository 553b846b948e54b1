//! Tests of the report on waits for locks of the kernel, with records of contention written by hand.

use strata_ctf::read::TimeRange;
use strata_timeline::{pass, Asked};

use super::told::range;
use crate::hand_tests::V::{self, U32, U64};
use crate::hand_tests::{metadata, Hand, Packets};
use crate::reports::kernel_locks::{lock_kind, KernelLockCounter, KernelLocksReport};

const EVENTS: [(&str, &str); 2] = [
    ("contention_begin", "u64 lock_addr; u32 flags;"),
    ("contention_end", "u64 lock_addr; u32 ret;"),
];

/// Returns the report on these records, each an event's number, its time, its thread, the lock and the flags or result.
fn report(records: &[(u8, u64, u32, u64, u32)], range: TimeRange) -> KernelLocksReport {
    report_of("kernel", records, range)
}

fn report_of(
    domain: &str,
    records: &[(u8, u64, u32, u64, u32)],
    range: TimeRange,
) -> KernelLocksReport {
    let hand = Hand::new();
    let environment = format!("domain = \"{domain}\"; hostname = \"box\";");
    let text = metadata(&environment, "u32 tid;", &EVENTS);
    let values: Vec<[V; 3]> =
        records.iter().map(|(_, _, tid, lock, more)| [U32(*tid), U64(*lock), U32(*more)]).collect();
    let records: Vec<_> = records
        .iter()
        .zip(&values)
        .map(|((id, time, ..), values)| (*id, *time, &values[..]))
        .collect();
    let hand = hand.trace("k", &text, &[Packets::new(0).packet(&records)]).reader();
    let mut counter = KernelLockCounter::new(range);
    let asked = Asked { range, selection: None };
    let passed = pass(&hand, &asked, &mut counter, &|_| true, &mut |_| {}).unwrap();
    counter.finish(passed.timeline.world(), &|_| true)
}

#[test]
fn wait_for_a_mutex_begins_where_it_spins_and_each_lock_has_its_waiters() {
    let records = [
        (0, 100, 5, 0xa0, 0x21),
        (0, 110, 6, 0xa0, 0x21),
        // In an interrupt of the thread that spins.
        (0, 120, 5, 0xb0, 1),
        (1, 125, 5, 0xb0, 0),
        (0, 130, 5, 0xa0, 0x20),
        (1, 150, 6, 0xa0, 0),
        (1, 200, 5, 0xa0, 0),
        // Without its begin, and without its end.
        (1, 210, 7, 0xc0, 0),
        (0, 220, 7, 0xd0, 2),
    ];
    let found = report(&records, TimeRange::ALL);
    let rows: Vec<_> = found
        .rows
        .iter()
        .map(|row| (row.kind, row.address, row.waits.count, row.waits.total))
        .collect();
    assert_eq!(rows, [("mutex", 0xa0, 2, 140), ("spinlock", 0xb0, 1, 5)]);
    let waiters: Vec<_> = found.rows[0]
        .waiters
        .iter()
        .map(|waiter| (waiter.label.as_ref().unwrap().tid, waiter.total))
        .collect();
    assert_eq!(waiters, [(Some(5), 100), (Some(6), 40)]);
    assert_eq!((found.all.count, found.all.total, found.incomplete), (3, 145, 2));
    let found = report(&records, range(0, 160));
    assert_eq!((found.all.count, found.all.total), (2, 45));
}

#[test]
fn kinds_of_locks_are_those_of_perf() {
    for (flags, kind) in [
        (0, "semaphore"),
        (1, "spinlock"),
        (3, "rwlock:R"),
        (5, "rwlock:W"),
        (2, "rwsem:R"),
        (4, "rwsem:W"),
        (8, "rt-mutex"),
        (0xa, "rwlock-rt:R"),
        (0x12, "pcpu-sem:R"),
        (0x14, "pcpu-sem:W"),
        (0x20, "mutex"),
        (0x21, "mutex"),
        // What no kernel has.
        (0x30, "semaphore"),
    ] {
        assert_eq!(lock_kind(flags), kind, "{flags:#x}");
    }
}

#[test]
fn wait_whose_end_is_missing_is_no_part_of_the_next_wait() {
    let records = [
        (0, 100, 5, 0xb0, 1),
        // The record of the end was discarded.
        (0, 9_000, 5, 0xb0, 1),
        (1, 9_005, 5, 0xb0, 0),
    ];
    let found = report(&records, TimeRange::ALL);
    assert_eq!((found.all.count, found.all.total, found.incomplete), (1, 5, 1));
}

#[test]
fn events_of_programs_with_the_kernel_s_names_are_no_waits() {
    let records = [(0, 100, 5, 0xb0, 1), (1, 105, 5, 0xb0, 0)];
    assert_eq!(report_of("kernel", &records, TimeRange::ALL).all.count, 1);
    let found = report_of("ust", &records, TimeRange::ALL);
    assert_eq!((found.all.count, found.incomplete), (0, 0));
}

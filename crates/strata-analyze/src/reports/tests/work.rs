//! Tests of the report on work that is put off, with records of queues and timers written by hand.

use strata_ctf::read::TimeRange;
use strata_timeline::{pass, Asked};

use super::told::range;
use crate::hand_tests::V::{self, Text, I64, U32, U64};
use crate::hand_tests::{metadata, Hand, Packets};
use crate::reports::work::{By, WorkCounter, WorkKind, WorkReport};

const EVENTS: [(&str, &str); 10] = [
    ("workqueue_queue_work", "u64 work; u64 function; string workqueue;"),
    ("workqueue_execute_start", "u64 work; u64 function;"),
    ("workqueue_execute_end", "u64 work; u64 function;"),
    ("timer_hrtimer_start", "u64 hrtimer; u64 function; i64 expires; i64 softexpires;"),
    ("timer_hrtimer_expire_entry", "u64 hrtimer; i64 now; u64 function;"),
    ("timer_hrtimer_expire_exit", "u64 hrtimer;"),
    ("timer_expire_entry", "u64 timer; u64 now; u64 function;"),
    ("timer_expire_exit", "u64 timer;"),
    ("irq_softirq_entry", "u32 vec;"),
    ("irq_softirq_exit", "u32 vec;"),
];

/// Returns the report on these records, each an event's number, its time, its thread and its values.
fn report(records: &[(u8, u64, u32, &[V])], range: TimeRange, by: By) -> WorkReport {
    report_of("kernel", records, range, by)
}

fn report_of(
    domain: &str,
    records: &[(u8, u64, u32, &[V])],
    range: TimeRange,
    by: By,
) -> WorkReport {
    let hand = Hand::new();
    let environment = format!("domain = \"{domain}\"; hostname = \"box\";");
    let text = metadata(&environment, "u32 tid;", &EVENTS);
    let values: Vec<Vec<V>> =
        records.iter().map(|(_, _, tid, values)| [&[U32(*tid)], *values].concat()).collect();
    let records: Vec<_> = records
        .iter()
        .zip(&values)
        .map(|((id, time, ..), values)| (*id, *time, &values[..]))
        .collect();
    let hand = hand.trace("k", &text, &[Packets::new(0).packet(&records)]).reader();
    let mut counter = WorkCounter::new(range, None, 9);
    let asked = Asked { range, selection: None };
    let passed = pass(&hand, &asked, &mut counter, &|_| true, &mut |_| {}).unwrap();
    counter.finish(passed.timeline.world(), by, &|_| true)
}

const QUEUED: u8 = 0;
const BEGINS: u8 = 1;
const ENDS: u8 = 2;

#[test]
fn work_is_late_since_it_was_queued_and_belongs_to_its_function_and_queue() {
    let (a, b) = ([U64(0xa0), U64(0xf1)], [U64(0xb0), U64(0xf1)]);
    let queued = |item: [V; 2], queue| [item[0], item[1], Text(queue)];
    let records: &[(u8, u64, u32, &[V])] = &[
        (QUEUED, 100, 5, &queued(a, "events")),
        (QUEUED, 110, 5, &queued(b, "other")),
        (BEGINS, 150, 7, &a),
        // A second thread executes another item meanwhile.
        (BEGINS, 160, 8, &b),
        (ENDS, 190, 8, &b),
        (ENDS, 250, 7, &a),
        // What was queued before the trace began, and what does not begin any more.
        (BEGINS, 300, 7, &b),
        (ENDS, 310, 7, &b),
        (QUEUED, 400, 5, &queued(a, "events")),
    ];
    let found = report(records, TimeRange::ALL, By::Function);
    let [row] = found.rows.as_slice() else { panic!("{:?}", found.rows) };
    assert_eq!((row.kind, row.function.as_str()), (Some(WorkKind::Work), "0xf1"));
    assert_eq!((row.times.count, row.times.total, row.times.max), (3, 140, 100));
    assert_eq!((row.late.count, row.late.total, row.late.max), (2, 100, 50));
    // Its items were of several queues.
    assert_eq!(row.queue, None);
    assert_eq!((found.waiting, found.incomplete), (1, 0));
    assert_eq!(
        (found.longest[0].nanos, found.longest[0].label.as_ref().unwrap().tid),
        (100, Some(7))
    );
    let found = report(records, TimeRange::ALL, By::Queue);
    let queues: Vec<_> =
        found.rows.iter().map(|row| (row.queue.as_deref(), row.times.total)).collect();
    assert_eq!(queues, [(Some("events"), 100), (Some("other"), 30), (None, 10)]);
    let found = report(records, TimeRange::ALL, By::Thread);
    let threads: Vec<_> = found.rows.iter().map(|row| (row.label.tid, row.times.count)).collect();
    assert_eq!(threads, [(Some(7), 2), (Some(8), 1)]);
    // What ends in the time that was asked for.
    let found = report(records, range(200, 305), By::Function);
    assert_eq!((found.rows[0].times.count, found.rows[0].times.total), (1, 100));
}

#[test]
fn timers_are_late_by_their_own_clock_and_softirqs_are_rows_too() {
    let found = report(
        &[
            (3, 10, 5, &[U64(0x70), U64(0xf2), I64(1000), I64(990)]),
            (4, 50, 0, &[U64(0x70), I64(1030), U64(0xf2)]),
            (5, 56, 0, &[U64(0x70)]),
            // One that expires early with others.
            (3, 60, 5, &[U64(0x70), U64(0xf2), I64(2000), I64(1000)]),
            (4, 70, 0, &[U64(0x70), I64(1500), U64(0xf2)]),
            (5, 74, 0, &[U64(0x70)]),
            (8, 100, 5, &[U32(1)]),
            (6, 110, 5, &[U64(0x80), U64(7), U64(0xf3)]),
            (7, 113, 5, &[U64(0x80)]),
            (9, 120, 5, &[U32(1)]),
        ],
        TimeRange::ALL,
        By::Function,
    );
    let rows: Vec<_> = found
        .rows
        .iter()
        .map(|row| (row.kind.unwrap(), row.function.as_str(), row.times.total, row.late.total))
        .collect();
    assert_eq!(
        rows,
        [
            (WorkKind::Softirq, "TIMER", 20, 0),
            (WorkKind::Hrtimer, "0xf2", 10, 30),
            (WorkKind::Timer, "0xf3", 3, 0),
        ]
    );
    let kinds: Vec<_> = found.kinds.iter().map(|(kind, times)| (*kind, times.count)).collect();
    assert_eq!(kinds, [(WorkKind::Timer, 1), (WorkKind::Hrtimer, 2), (WorkKind::Softirq, 1)]);
}

#[test]
fn ends_without_a_begin_and_begins_without_an_end_are_counted_and_nothing_else() {
    let item = [U64(1), U64(2)];
    let found = report(
        &[
            (ENDS, 10, 5, &item),
            (BEGINS, 20, 5, &item),
            (BEGINS, 30, 5, &item),
            (ENDS, 35, 5, &item),
            (7, 40, 5, &[U64(9)]),
        ],
        TimeRange::ALL,
        By::Function,
    );
    assert_eq!(found.incomplete, 3);
    assert_eq!((found.rows.len(), found.rows[0].times.total), (1, 5));
}

#[test]
fn events_of_programs_with_the_kernel_s_names_are_no_work() {
    let item = [U64(1), U64(2)];
    let records: &[(u8, u64, u32, &[V])] = &[(BEGINS, 20, 5, &item), (ENDS, 35, 5, &item)];
    assert_eq!(report_of("kernel", records, TimeRange::ALL, By::Function).rows.len(), 1);
    let found = report_of("ust", records, TimeRange::ALL, By::Function);
    assert!(found.rows.is_empty() && found.incomplete == 0, "{found:?}");
}

#[test]
fn with_more_threads_than_are_told_apart_work_keeps_its_function() {
    let mut records: Vec<(u8, u64, u32, Vec<V>)> = Vec::new();
    for thread in 1..=40 {
        let time = u64::from(thread) * 100;
        records.push((8, time, thread, vec![U32(3)]));
        records.push((9, time + 10, thread, vec![U32(3)]));
        let item = vec![U64(0xa0), U64(0xf1)];
        records.push((BEGINS, time + 20, thread, item.clone()));
        records.push((ENDS, time + 25, thread, item));
    }
    let records: Vec<(u8, u64, u32, &[V])> =
        records.iter().map(|(id, time, tid, values)| (*id, *time, *tid, &values[..])).collect();
    let found = report(&records, TimeRange::ALL, By::Function);
    let rows: Vec<_> =
        found.rows.iter().map(|row| (row.function.as_str(), row.times.count)).collect();
    assert_eq!(rows, [("NET_RX", 40), ("0xf1", 40)]);
    let found = report(&records, TimeRange::ALL, By::Thread);
    let others: u64 =
        found.rows.iter().filter(|row| row.label.tid.is_none()).map(|row| row.times.count).sum();
    assert!(others > 0 && others < 80, "{others}");
}

#[test]
fn of_too_many_that_wait_the_oldest_are_given_up_and_new_ones_are_followed() {
    let mut records: Vec<(u8, u64, u32, Vec<V>)> = Vec::new();
    for number in 0..200 {
        records.push((
            QUEUED,
            100 + number,
            5,
            vec![U64(0x1000 + number), U64(0xf1), Text("events")],
        ));
    }
    let last = vec![U64(0x1000 + 199), U64(0xf1)];
    records.push((BEGINS, 1000, 7, last.clone()));
    records.push((ENDS, 1001, 7, last));
    let records: Vec<(u8, u64, u32, &[V])> =
        records.iter().map(|(id, time, tid, values)| (*id, *time, *tid, &values[..])).collect();
    let found = report(&records, TimeRange::ALL, By::Function);
    assert_eq!((found.rows[0].late.count, found.rows[0].late.total), (1, 701));
    assert_eq!(found.waiting, 199);
}

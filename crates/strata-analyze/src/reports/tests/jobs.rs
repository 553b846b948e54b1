//! Tests of spans: which are counted by name, time and filter, how they are grouped, and how guesses are reported.

use strata_ctf::read::{Selection, TimeRange};
use strata_timeline::Timeline;

use super::told::range;
use crate::hand_tests::V::{Text, U32};
use crate::hand_tests::{metadata, Hand, Packets, Record, ORIGIN, V};
use crate::reports::spans::{By, SpanCounter, Spans};
use strata_timeline::span_roles;
use strata_timeline::PairRule;
use strata_timeline::{pass_on, Asked};

const X: u8 = 0;
const X_END: u8 = 1;
const Y: u8 = 2;
const Y_END: u8 = 3;
const GO: u8 = 4;
const OK: u8 = 5;
const EVENTS: [(&str, &str); 6] = [
    ("a:x_begin", "u32 n;"),
    ("a:x_end", ""),
    ("b:y_begin", "u32 n;"),
    ("b:y_end", ""),
    ("q:go", "string k;"),
    ("q:ok", "string k;"),
];

struct Wanted<'w> {
    range: TimeRange,
    of: Option<&'w str>,
    filter: &'w str,
    pairs: &'w [&'w str],
    by: By,
    slowest: usize,
}

const ALL: Wanted<'_> =
    Wanted { range: TimeRange::ALL, of: None, filter: "", pairs: &[], by: By::Name, slowest: 9 };

/// Returns the report on records of processes 5 and 6. The first value of each record is its thread.
fn spans(processes: &[&[(u8, u64, Vec<V>)]], wanted: &Wanted<'_>) -> Spans {
    let hand = Hand::new();
    for (number, records) in processes.iter().enumerate() {
        let environment =
            format!("domain = \"ust\"; vpid = {}; procname = \"p{number}\";", 5 + number);
        let records: Vec<Record<'_>> =
            records.iter().map(|(id, time, values)| (*id, *time, &values[..])).collect();
        let text = metadata(&environment, "u32 vtid;", &EVENTS);
        hand.trace(&format!("t{number}"), &text, &[Packets::new(0).packet(&records)]);
    }
    let reader = hand.reader();
    let rules: Vec<PairRule> = wanted.pairs.iter().map(|pair| pair.parse().unwrap()).collect();
    let filter = (!wanted.filter.is_empty()).then(|| wanted.filter.parse().unwrap());
    let selection = filter.as_ref().map(Selection::new);
    let asked = Asked { range: wanted.range, selection };
    let mut counter = SpanCounter::new(wanted.range, wanted.of, wanted.slowest);
    let timeline = Timeline::with_spans(&reader, span_roles(&reader, &rules));
    let passed = pass_on(timeline, &reader, &asked, &mut counter, &|_| true, &mut |_| {}).unwrap();
    counter.finish(passed.timeline.world(), wanted.by)
}

/// A row: process, thread, name, number and total time.
type Row = (Option<i32>, Option<i32>, String, u64, u64);

fn rows(report: &Spans) -> Vec<Row> {
    let row = |it: &crate::reports::spans::Row| {
        (it.label.pid, it.label.tid, it.name.clone(), it.times.count, it.times.total)
    };
    report.rows.iter().map(row).collect()
}

fn begin(id: u8, time: u64, tid: u32, n: u32) -> (u8, u64, Vec<V>) {
    (id, time, vec![U32(tid), U32(n)])
}

fn end(id: u8, time: u64, tid: u32) -> (u8, u64, Vec<V>) {
    (id, time, vec![U32(tid)])
}

/// Returns the records of threads 5 and 7 of process 5, and of a thread of process 6.
fn story() -> [Vec<(u8, u64, Vec<V>)>; 2] {
    let five = vec![
        begin(X, 100, 5, 1),
        begin(Y, 110, 5, 2),
        end(Y_END, 120, 5),
        end(X_END, 200, 5),
        begin(X, 210, 7, 3),
        end(X_END, 250, 7),
    ];
    let six = vec![begin(X, 300, 6, 4), end(X_END, 305, 6), end(Y_END, 310, 6)];
    [five, six]
}

fn told(wanted: &Wanted<'_>) -> Spans {
    let [five, six] = story();
    spans(&[&five, &six], wanted)
}

#[test]
fn spans_are_put_together_by_name_process_and_thread() {
    let (x, y) = (|| "a:x".to_owned(), || "b:y".to_owned());
    let by = |by| rows(&told(&Wanted { by, ..ALL }));
    assert_eq!(by(By::Name), [(None, None, x(), 3, 145), (None, None, y(), 1, 10)]);
    let wanted =
        [(Some(5), None, x(), 2, 140), (Some(5), None, y(), 1, 10), (Some(6), None, x(), 1, 5)];
    assert_eq!(by(By::Process), wanted);
    let by_thread = by(By::Thread);
    assert_eq!(by_thread[..2], [(Some(5), Some(5), x(), 1, 100), (Some(5), Some(7), x(), 1, 40)]);
    let report = told(&ALL);
    let row = &report.rows[0];
    assert_eq!((row.times.min, row.times.max, row.times.mean()), (5, 100, 48));
    assert_eq!(
        (row.times.quantile(0.0), row.times.quantile(0.5), row.times.quantile(1.0)),
        (5, 40, 100)
    );
    assert_eq!(
        (report.all.times.count, report.all.times.total, report.unpaired.no_begin),
        (4, 155, 1)
    );
}

#[test]
fn spans_are_those_of_the_names_the_time_and_the_filter_that_were_asked_for() {
    let count = |wanted: Wanted<'_>| {
        let report = told(&wanted);
        (report.all.times.count, report.all.times.total, report.unpaired.no_begin)
    };
    for (of, found) in
        [("a:*", (3, 145, 0)), ("b:y", (1, 10, 1)), ("*", (4, 155, 1)), ("x", (0, 0, 0))]
    {
        assert_eq!(count(Wanted { of: Some(of), ..ALL }), found, "{of}");
    }
    // By their ends; what began before is whole.
    for ((from, to), found) in [
        ((0, 119), (0, 0, 0)),
        ((120, 200), (2, 110, 0)),
        ((201, 300), (1, 40, 0)),
        ((306, 400), (0, 0, 1)),
    ] {
        assert_eq!(count(Wanted { range: range(from, to), ..ALL }), found, "{from} {to}");
    }
    // By either of their ends.
    for (filter, found) in [
        ("n == 1", (1, 100, 0)),
        ("a:x_end", (3, 145, 0)),
        ("vtid == 7", (1, 40, 0)),
        ("b:y_end", (1, 10, 1)),
        ("n > 9", (0, 0, 0)),
    ] {
        assert_eq!(count(Wanted { filter, ..ALL }), found, "{filter}");
    }
}

#[test]
fn slowest_are_so_many_and_of_the_same_length_the_earlier_first() {
    let slowest = |slowest| {
        let report = told(&Wanted { slowest, ..ALL });
        let one = report.slowest.iter();
        one.map(|it| (it.begin - ORIGIN, it.nanos, it.event.clone())).collect::<Vec<_>>()
    };
    let (x, y) = ("a:x_begin".to_owned(), "b:y_begin".to_owned());
    let all = [(100, 100, x.clone()), (210, 40, x.clone()), (110, 10, y), (300, 5, x)];
    assert_eq!(slowest(9), all);
    assert_eq!((slowest(1), slowest(0)), (all[..1].to_vec(), vec![]));
    let ties: Vec<_> =
        (0..6).flat_map(|at| [begin(X, at * 100, 5, 1), end(X_END, at * 100 + 10, 5)]).collect();
    let report = spans(&[&ties], &Wanted { slowest: 3, ..ALL });
    let times: Vec<_> = report.slowest.iter().map(|it| it.begin - ORIGIN).collect();
    assert_eq!(times, [0, 100, 200]);
}

#[test]
fn keys_begin_again_end_elsewhere_or_are_not_there() {
    let key = |id, time, tid, key| (id, time, vec![U32(tid), Text(key)]);
    let records = [
        key(GO, 100, 5, "a"),
        key(GO, 110, 5, "a"),
        key(OK, 150, 7, "a"),
        key(OK, 160, 7, "a"),
        key(GO, 200, 5, ""),
        key(OK, 300, 5, ""),
        key(GO, 400, 5, "left"),
    ];
    let wanted = Wanted { pairs: &["q:go=q:ok:k"], ..ALL };
    let report = spans(&[&records], &wanted);
    assert_eq!(rows(&report), [(None, None, "q:go".to_owned(), 2, 140)]);
    let unpaired = report.unpaired;
    assert_eq!((unpaired.again, unpaired.no_begin, unpaired.no_end, unpaired.gap), (1, 1, 1, 0));
    let slow = &report.slowest;
    assert_eq!((slow[0].key.as_deref(), slow[1].key.as_deref()), (Some(""), Some("a")));
    let begun_by = slow[1].begun_by.as_ref().and_then(|label| label.tid);
    assert_eq!((slow[1].label.tid, begun_by, slow[0].begun_by.is_none()), (Some(7), Some(5), true));
    // A field that no event has is no key: by the thread, which is said.
    let wanted = Wanted { pairs: &["q:go=q:ok:none"], ..ALL };
    let report = spans(&[&records], &wanted);
    assert_eq!((report.all.times.count, report.guesses.no_key), (1, 1), "{report:?}");
}

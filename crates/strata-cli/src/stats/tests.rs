//! Tests of how given counts are shown.

use std::path::PathBuf;

use strata_analyze::stats::{
    Absent, AbsentKind, AbsentRange, Damaged, EventStats, LossMode, RecordCount, Stats,
    StreamStats, Sum, TimeColumns, TraceSpan, TraceStats,
};

use super::text::{render, Sort, StatsStyle};
use super::{exit_status, json};
use strata_analyze::render::TimeZone;

/// 2026-11-22 02:26:46 UTC \[ns since 1970\].
const BEGIN: i64 = 1_795_314_406_000_000_000;

fn records(records: u64, bytes: u64, smallest: u64, largest: u64) -> RecordCount {
    RecordCount { records, bytes, smallest, largest }
}

fn event(name: &str, count: RecordCount) -> EventStats {
    EventStats { name: name.into(), count }
}

fn sum(records: u64, from: i64, to: i64) -> Sum {
    Sum {
        streams: 1,
        span: Some(TraceSpan { from: BEGIN + from, to: BEGIN + to }),
        packets: 4,
        telling_packets: 4,
        count: self::records(records, records * 16, 12, 40),
        bytes: records * 20,
        header_bytes: records,
        padding_bytes: records * 3,
        ..Sum::default()
    }
}

fn trace(process: &str, pid: i64, records: u64) -> TraceStats {
    TraceStats {
        path: PathBuf::from(format!("t/{process}-{pid}")),
        host: Some("box".into()),
        tracer: Some("lttng-ust 2.13".into()),
        domain: Some("ust".into()),
        process: Some(process.into()),
        pid: Some(pid),
        loss_mode: None,
        uncertainty_ns: None,
        sum: sum(records, 0, 1_000_000_000),
        events: vec![event("demo:step", self::records(records, records * 16, 12, 40))],
    }
}

fn stream(trace: usize, name: &str, records: u64) -> StreamStats {
    StreamStats {
        trace,
        name: name.into(),
        id: Some(0),
        cpu: Some(1),
        sum: sum(records, 0, 1_000_000_000),
        absent: Absent::default(),
        silence: Some(TraceSpan { from: BEGIN + 5, to: BEGIN + 2_000_005 }),
    }
}

fn one_trace() -> Stats {
    let mut timeline = TimeColumns { from: BEGIN, width: 20_000_000, records: vec![100; 50] };
    timeline.records[7] = 5000;
    timeline.records[8] = 0;
    Stats {
        span: Some(TraceSpan { from: BEGIN, to: BEGIN + 1_000_000_000 }),
        traces: vec![trace("demo", 42, 10_000)],
        streams: vec![stream(0, "channel0_1", 10_000)],
        events: vec![
            event("demo:step", records(9_000, 108_000, 12, 12)),
            event("demo:done", records(1_000, 52_000, 13, 99)),
        ],
        timeline: Some(timeline),
        ..Stats::default()
    }
}

fn with_losses() -> Stats {
    let mut stats = one_trace();
    let range = |kind, count, from, to| AbsentRange {
        kind,
        count,
        span: Some(TraceSpan { from: BEGIN + from, to: BEGIN + to }),
        told: 1,
        at_begin: false,
    };
    stats.streams[0].absent.ranges = vec![
        range(AbsentKind::Records, 700, 100_000_000, 130_000_000),
        range(AbsentKind::Packets, 3, 500_000_000, 500_000_001),
    ];
    stats.streams[0].sum.absent_records = 700;
    stats.streams[0].sum.absent_packets = 3;
    stats.traces[0].sum.absent_records = 700;
    stats.traces[0].sum.absent_packets = 3;
    stats
}

fn many_traces(number: usize) -> Stats {
    let mut stats = one_trace();
    stats.traces = (0..number).map(|at| trace("worker", at as i64, 1000 + at as u64)).collect();
    stats.streams = (0..number).map(|at| stream(at, "channel0_0", 1000 + at as u64)).collect();
    stats
}

/// The default options, in UTC.
const LOOK: StatsStyle<'_> = StatsStyle {
    sort: Sort::Records,
    details: false,
    ascii: false,
    selected: false,
    zone: &TimeZone::UTC,
};

fn plain(stats: &Stats, style: StatsStyle<'_>) -> String {
    anstream::adapter::strip_str(&render(stats, style)).to_string()
}

/// Returns the lines that contain `part`.
fn lines<'t>(text: &'t str, part: &str) -> Vec<&'t str> {
    text.lines().filter(|line| line.contains(part)).collect()
}

#[test]
fn text_of_one_trace_says_who_when_how_many_and_how_large() {
    let text = plain(&one_trace(), LOOK);
    assert!(text.starts_with("demo (42) on box, by lttng-ust 2.13: t/demo-42\n"), "{text}");
    for part in [
        ":46.000000000 ",
        ", 1.000 s\n",
        "records   10,000, 10.0 k/s\n",
        "195.3 KiB in 4 packets of 1 stream: records 80.0 %, packet headers 5.0 %, padding 15.0 %",
        "discarded 0\n",
        "a column is 20.000 ms, the highest 5,000 records",
        "46.000 ",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    for absent in ["discarded or", "gaps  ", "damaged", "not there", "!"] {
        assert!(!text.contains(absent), "{absent:?} in\n{text}");
    }
    assert_eq!(
        lines(&text, "demo:done"),
        ["  demo:done    1,000   10.0 %      1.0 k   50.8 KiB   32.5 %      52.0   13   99"]
    );
    assert_eq!(lines(&text, "2 events").len(), 1);
    assert!(lines(&text, "channel0_1")[0].contains("2.000 ms from "), "{text}");
    assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
}

#[test]
fn text_says_whether_packets_count_what_is_discarded() {
    let mut stats = one_trace();
    stats.streams[0].sum.telling_packets = 0;
    assert!(plain(&stats, LOOK).contains("discarded unknown: its packets do not count"));
    stats.streams[0].sum.telling_packets = 3;
    assert!(plain(&stats, LOOK).contains("discarded 0, as 3 of 4 packets say"));
}

#[test]
fn picture_has_a_sign_for_every_part_in_which_something_is() {
    let text = plain(&one_trace(), StatsStyle { ascii: true, ..LOOK });
    assert!(text.contains(&format!("\n  {}# {}\n", ".".repeat(7), ".".repeat(41))), "{text}");
    assert!(plain(&one_trace(), LOOK).contains("\n  ▁▁▁▁▁▁▁█ ▁▁"));
}

#[test]
fn loss_is_reported_in_the_summary_in_the_picture_and_with_its_times() {
    let text = plain(&with_losses(), StatsStyle { ascii: true, ..LOOK });
    assert!(text.contains("700 records discarded, 6.5 % of all\n"), "{text}");
    assert!(text.contains("\ndiscarded, or not there\n"), "{text}");
    assert!(text.contains("3 packets not there: overwritten, or never written\n"), "{text}");
    assert!(text.contains(&format!("\n  {}!!{}!", " ".repeat(5), " ".repeat(18))), "{text}");
    assert_eq!(lines(&text, ":46.100000000").len(), 1);
    assert!(lines(&text, "3 packets").last().unwrap().ends_with("1 ns  channel0_1"), "{text}");
    assert!(lines(&text, "channel0_1")[0].contains("700 + 3 packets"), "{text}");
}

#[test]
fn loss_in_overwrite_mode_may_be_of_both_kinds() {
    let mut stats = with_losses();
    stats.traces[0].sum.absent_records = 700;
    for (mode, what, name) in [
        (LossMode::Overwrite, "discarded or overwritten", "overwrite"),
        (LossMode::Discard, "discarded", "discard"),
    ] {
        stats.traces[0].loss_mode = Some(mode);
        let text = plain(&stats, LOOK);
        assert!(text.contains(&format!("700 records {what}, 6.5 % of all\n")), "{text}");
        assert!(text.contains(&format!("\n{what}, or not there\n")), "{text}");
        assert_eq!(json::document(&stats)["traces"][0]["loss_mode"], name);
    }
}

#[test]
fn uncertainty_of_guests_is_reported_where_there_are_any() {
    let mut stats = with_losses();
    assert!(!plain(&stats, LOOK).contains("clocks"));
    stats.traces[0].uncertainty_ns = Some(58_000);
    let text = plain(&stats, LOOK);
    assert!(text.contains("clocks    of 1 trace of guests: within 58"), "{text}");
    assert_eq!(json::document(&stats)["traces"][0]["clock_uncertainty_ns"], 58_000);
}

#[test]
fn loss_at_many_times_shows_the_largest_in_the_order_of_time() {
    let mut stats = with_losses();
    let one = stats.streams[0].absent.ranges[0];
    stats.streams[0].absent.ranges = (0..200)
        .map(|at| AbsentRange {
            count: 1000 - (at % 100),
            span: Some(TraceSpan {
                from: BEGIN + at as i64 * 1_000_000,
                to: BEGIN + at as i64 * 1_000_000 + 5,
            }),
            ..one
        })
        .collect();
    let text = plain(&stats, LOOK);
    let (_, shown) = text.split_once("\ndiscarded, the 10 largest of 200 (-v)\n").unwrap();
    let counts: Vec<&str> =
        shown.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(counts, ["1,000", "999", "998", "997", "996", "1,000", "999", "998", "997", "996"]);
    let all = plain(&stats, StatsStyle { details: true, ..LOOK });
    assert_eq!(all.split_once("\ndiscarded\n").unwrap().1.lines().count(), 201);
}

#[test]
fn text_of_many_traces_is_one_summary_and_the_largest_of_them() {
    let stats = many_traces(1000);
    let text = plain(&stats, LOOK);
    assert!(text.starts_with("1,000 traces\n"), "{text}");
    assert!(text.lines().count() < 50, "{text}");
    assert_eq!(lines(&text, "worker (").len(), 20);
    assert!(text.contains("worker (999)") && !text.contains("worker (0)"));
    let others = lines(&text, "980 others (-v)");
    assert_eq!(others.len(), 1);
    // 1000 + 1001 + … + 1979.
    assert!(others[0].contains("1,459,710"), "{others:?}");
    let details = plain(&stats, StatsStyle { details: true, ..LOOK });
    assert_eq!(lines(&details, "on box, by").len(), 1000);
    assert_eq!(lines(&details, "channel0_0").len(), 1000);
}

#[test]
fn events_beyond_a_screen_are_one_row_unless_all_are_asked_for() {
    let mut stats = one_trace();
    stats.events =
        (0..100).map(|at| event(&format!("e:{at:02}"), records(200 - at, 1, 1, 1))).collect();
    let text = plain(&stats, LOOK);
    assert_eq!(lines(&text, "  e:").len(), 40);
    assert_eq!(lines(&text, "60 others (-v)").len(), 1);
    let text = plain(&stats, StatsStyle { details: true, ..LOOK });
    assert_eq!(lines(&text, "  e:").len(), 100);
    stats.events.truncate(41);
    assert_eq!(lines(&plain(&stats, LOOK), "  e:").len(), 41);
}

#[test]
fn sort_puts_rows_in_the_order_that_was_asked_for() {
    let mut stats = one_trace();
    stats.events = vec![
        event("b", records(9, 10, 1, 1)),
        event("c", records(8, 30, 1, 1)),
        event("a", records(7, 20, 1, 1)),
    ];
    for (sort, wanted) in [(Sort::Records, "bca"), (Sort::Bytes, "cab"), (Sort::Name, "abc")] {
        let text = plain(&stats, StatsStyle { sort, ..LOOK });
        let table = text.split("  event").nth(1).unwrap();
        let order: String =
            table.lines().skip(1).take(3).filter_map(|line| line.trim().chars().next()).collect();
        assert_eq!(order, wanted, "{text}");
    }
}

#[test]
fn malicious_names_command_no_terminal() {
    let mut stats = one_trace();
    stats.traces[0].process = Some("x\x1b]0;y\x07".into());
    stats.traces[0].host = Some("\x1b[2J".into());
    stats.traces[0].tracer = Some("\n\n".into());
    stats.events[0].name = "a\x1b[31mb".into();
    stats.streams[0].name = "\x1b[A".into();
    // Colours end in 'm'; nothing of these does.
    let text = render(&stats, StatsStyle { details: true, ..LOOK });
    for bad in ["\x1b]", "\x1b[2J", "\x1b[31mb", "\x1b[A", "\n\n\n"] {
        assert!(!text.contains(bad), "{bad:?} in {text:?}");
    }
}

#[test]
fn malicious_numbers_are_shown() {
    let mut stats = with_losses();
    let all = records(u64::MAX, u64::MAX, u64::MAX, u64::MAX);
    stats.events[0].count = all;
    stats.span = Some(TraceSpan { from: i64::MIN, to: i64::MAX });
    stats.timeline =
        Some(TimeColumns { from: i64::MIN, width: u64::MAX, records: vec![u64::MAX; 2] });
    stats.streams[0].sum = Sum { count: all, absent_records: u64::MAX, ..stats.streams[0].sum };
    assert!(plain(&stats, LOOK).contains("18,446,744,073,709,551,615"));
    stats.timeline = Some(TimeColumns::default());
    stats.span = None;
    assert!(!plain(&stats, LOOK).contains("\n  from  "));
    assert!(plain(&Stats::default(), LOOK).starts_with("0 traces\n"));
}

#[test]
fn json_has_exact_integers_under_documented_keys() {
    let mut stats = with_losses();
    stats.events[0].count.bytes = u64::MAX;
    stats.damage_found = 1;
    stats.damage = vec![Damaged {
        trace: "t".into(),
        stream: "channel0_1".into(),
        packet: Some(17),
        offset: Some(0x8000),
        message: "why".into(),
    }];
    let document = json::document(&stats);
    // As text and back: what a program sees.
    let document: serde_json::Value = serde_json::from_str(&document.to_string()).unwrap();
    assert_eq!(document["from_ns"], BEGIN);
    assert_eq!(document["duration_ns"], 1_000_000_000u64);
    assert_eq!(document["events"][0]["bytes"], u64::MAX);
    assert_eq!(document["discarded_records"], 700);
    assert_eq!(document["packets_not_there"], 3);
    assert_eq!(document["timeline"]["records"].as_array().unwrap().len(), 50);
    let trace = &document["traces"][0];
    assert_eq!((&trace["process"], &trace["pid"]), (&"demo".into(), &42.into()));
    let stream = &trace["streams"][0];
    assert_eq!(stream["absent"][0]["from_ns"], BEGIN + 100_000_000);
    assert_eq!(stream["absent"][1]["kind"], "packets");
    assert_eq!(stream["longest_silence_ns"][0], BEGIN + 5);
    assert_eq!(document["damage"][0]["packet"], 17);
    assert_eq!(document["damage"][0]["offset"], 0x8000);
}

#[test]
fn guide_names_every_key_of_the_json() {
    fn keys(value: &serde_json::Value, all: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| {
                all.push(key.clone());
                keys(value, all);
            }),
            serde_json::Value::Array(values) => values.iter().for_each(|value| keys(value, all)),
            _ => (),
        }
    }
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/stats.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let mut stats = with_losses();
    stats.damage = vec![Damaged::default()];
    let mut all = Vec::new();
    keys(&json::document(&stats), &mut all);
    assert!(all.len() > 50);
    for key in all {
        assert!(guide.contains(&format!("`{key}`")), "{key}");
    }
}

#[test]
fn exit_status_says_damaged_before_nothing_and_discarded() {
    let (whole, losses) = (one_trace(), with_losses());
    let exit_status = |stats: &Stats, strict| exit_status(stats, false, strict);
    assert_eq!((exit_status(&whole, false), exit_status(&whole, true)), (0, 0));
    assert_eq!((exit_status(&losses, false), exit_status(&losses, true)), (0, 1));
    let damaged = Stats { damage_found: 1, ..losses };
    assert_eq!((exit_status(&damaged, false), exit_status(&damaged, true)), (2, 2));
    // Nothing is an error only if something was asked for.
    assert_eq!(exit_status(&Stats::default(), false), 0);
    assert_eq!(super::exit_status(&Stats::default(), true, false), 1);
}

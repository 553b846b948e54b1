//! Tests of databases of traces written by hand. The results are known, or are those of the reports.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, Params};
use strata_ctf::read::{Damage, Message, Reader, Selection, TimeRange};
use strata_filter::Filter;

use super::schema::{InsertStatement, TABLES, VERSION, VIEWS};
use super::{Exporter, Options, Summary};
use crate::hand_tests::V::{self, Text, F64, I64, U32, U64, U8};
use crate::hand_tests::{metadata, Hand, Packets, Record, ORIGIN};
use strata_analyze::debug_info::SourceOptions;
use strata_analyze::reports::syscalls::{self, By, SyscallCounter};
use strata_analyze::reports::threads::{Row, ThreadCounter};
use strata_report::Times;
use strata_timeline::{pass, Asked};

const GUIDE: &str = include_str!("../../../../docs/guide/export-sqlite.md");

const SWITCH: u8 = 0;
const WAKING: u8 = 1;
const READ: u8 = 2;
const READ_END: u8 = 3;
const OPEN: u8 = 4;
const OPEN_END: u8 = 5;
const THERE: u8 = 6;
const SOFTIRQ: u8 = 7;
const SOFTIRQ_END: u8 = 8;
const POLL: u8 = 9;
const POLL_END: u8 = 10;
const ISSUE: u8 = 11;
const COMPLETE: u8 = 12;
const CLOSE: u8 = 13;
const OPENED: u8 = 14;
const KERNEL: [(&str, &str); 15] = [
    (
        "sched_switch",
        "string prev_comm; u32 prev_tid; i64 prev_state; string next_comm; u32 next_tid;",
    ),
    ("sched_waking", "string comm; u32 tid;"),
    ("syscall_entry_read", "u32 fd; u64 count;"),
    ("syscall_exit_read", "i64 ret;"),
    ("syscall_entry_openat", "i64 dfd; string filename; u32 flags;"),
    ("syscall_exit_openat", "i64 ret;"),
    ("lttng_statedump_process_state", "u32 tid; u32 pid; u32 ppid; string name;"),
    ("irq_softirq_entry", "u32 vec;"),
    ("irq_softirq_exit", "u32 vec;"),
    ("syscall_entry_poll", "u64 ufds; u32 nfds; i64 timeout_msecs;"),
    ("syscall_exit_poll", "i64 ret;"),
    ("block_rq_issue", "u32 dev; u64 sector; u32 nr_sector; u32 bytes; string rwbs;"),
    ("block_rq_complete", "u32 dev; u64 sector; u32 nr_sector; i64 error; string rwbs;"),
    ("syscall_entry_close", "u32 fd;"),
    ("lttng_statedump_file_descriptor", "u32 pid; u32 fd; u32 flags; string filename;"),
];

/// A database in a folder that is removed at the end of the test.
struct Made {
    hand: Hand,
    database: Connection,
    summary: Summary,
}

impl Made {
    /// Returns all rows of a query, each as its values separated by spaces.
    fn rows(&self, query: &str) -> Vec<String> {
        rows(&self.database, query, ())
    }

    fn reader(&self) -> Reader {
        Reader::open(&[self.hand.0.join("in")]).unwrap()
    }
}

fn rows(database: &Connection, query: &str, of: impl Params) -> Vec<String> {
    let mut statement = database.prepare(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let columns = statement.column_count();
    let line = |row: &rusqlite::Row<'_>| {
        let value = |column| {
            Ok(match row.get(column)? {
                Value::Null => "-".to_owned(),
                Value::Integer(value) if value >= ORIGIN => format!("+{}", value - ORIGIN),
                Value::Integer(value) => value.to_string(),
                Value::Real(value) => format!("{value:?}"),
                Value::Text(text) => text,
                Value::Blob(bytes) => format!("{bytes:?}"),
            })
        };
        let values: rusqlite::Result<Vec<String>> = (0..columns).map(value).collect();
        Ok(values?.join(" "))
    };
    statement.query_map(of, line).unwrap().map(Result::unwrap).collect()
}

fn all() -> Options {
    Options {
        range: TimeRange::ALL,
        events: true,
        pairs: Vec::new(),
        counters: Vec::new(),
        names: SourceOptions { no_symbols: true, ..SourceOptions::default() },
    }
}

/// Passes all records to the exporter, as `strata export` does.
fn tell(reader: &Reader, exporter: &mut Exporter<'_>, filter: Option<&str>) -> io::Result<()> {
    let mut selection = filter.map(|filter| Selection::new(&Filter::parse(filter).unwrap()));
    let to = exporter.rows.range.to;
    let mut events = reader.events(TimeRange { from: i64::MIN, to });
    while let Some(message) = events.next() {
        match message {
            Message::Event(event) => {
                let selected = selection.as_mut().is_none_or(|it| it.accepts(&event));
                exporter.event(&event, selected)?;
            }
            Message::Discarded(discarded) => exporter.discarded(&discarded)?,
            Message::Damage(damage) => exporter.damage(damage, reader.stream_of(damage))?,
            Message::Packet(_) => {}
        }
    }
    Ok(())
}

fn export(hand: Hand, options: &Options, filter: Option<&str>) -> Made {
    let path = hand.0.join("x.sqlite");
    let reader = Reader::open(&[hand.0.join("in")]).unwrap();
    let mut exporter = Exporter::new(&reader, &path, options, || false).unwrap();
    tell(&reader, &mut exporter, filter).unwrap();
    let summary = exporter.finish(false).unwrap();
    let database = Connection::open(&path).unwrap();
    Made { hand, database, summary }
}

fn of_kernel(streams: &[Packets]) -> Hand {
    let hand = Hand::new();
    fs::create_dir(hand.0.join("in")).unwrap();
    let text = metadata("domain = \"kernel\"; hostname = \"box\";", "u32 tid;", &KERNEL);
    hand.trace("in/k", &text, streams);
    hand
}

fn switch(prev: u32, state: i64, next: u32) -> [V; 6] {
    [U32(prev), Text("x"), U32(prev), I64(state), Text("x"), U32(next)]
}

/// Returns the records of one CPU. Thread 5 fails to open a file, reads from a disk, and polls until the timeout; 6
/// wakes it once.
fn waits() -> Vec<Packets> {
    let there = |tid| [U32(1), U32(tid), U32(5), U32(1), Text("app")];
    let waking = |by| [U32(by), Text("x"), U32(5)];
    let open = [U32(5), I64(-100), Text("/a/b"), U32(0)];
    let poll = [U32(5), U64(0), U32(1), I64(5)];
    let issue = [U32(5), U32(8 << 20), U64(64), U32(8), U32(4096), Text("R")];
    let complete = [U32(6), U32(8 << 20), U64(64), U32(8), I64(0), Text("R")];
    let softirq = |number| [U32(6), U32(number)];
    let records: [Record<'_>; 22] = [
        (THERE, 10, &there(5)),
        (THERE, 11, &there(6)),
        (SWITCH, 50, &switch(0, 0, 5)),
        (OPEN, 60, &open),
        (OPEN_END, 70, &[U32(5), I64(-2)]),
        (READ, 100, &[U32(5), U32(3), U64(1)]),
        (ISSUE, 150, &issue),
        (SWITCH, 200, &switch(5, 2, 6)),
        (SOFTIRQ, 300, &softirq(4)),
        (COMPLETE, 310, &complete),
        (WAKING, 320, &waking(6)),
        (SOFTIRQ_END, 330, &softirq(4)),
        (SWITCH, 400, &switch(6, 0, 5)),
        (READ_END, 410, &[U32(5), I64(1)]),
        (POLL, 500, &poll),
        (SWITCH, 510, &switch(5, 1, 6)),
        (WAKING, 600, &waking(6)),
        (SWITCH, 700, &switch(6, 1, 5)),
        (POLL_END, 710, &[U32(5), I64(0)]),
        (READ_END, 720, &[U32(5), I64(1)]),
        (READ, 800, &[U32(5), U32(3), U64(1)]),
        (SWITCH, 900, &switch(5, 1, 0)),
    ];
    vec![Packets::new(0).packet(&records)]
}

#[test]
fn first_call_is_of_what_the_state_dump_behind_it_says() {
    let read = |fd| [U32(5), U32(fd), U64(1)];
    let (three, four) = (read(3), read(4));
    let records: [Record<'_>; 7] = [
        (READ, 100, &three),
        (READ_END, 110, &[U32(5), I64(1)]),
        (CLOSE, 120, &[U32(5), U32(4)]),
        (OPENED, 200, &[U32(1), U32(5), U32(3), U32(0), Text("/data")]),
        (OPENED, 210, &[U32(1), U32(5), U32(4), U32(0), Text("/other")]),
        (READ, 300, &four),
        (READ_END, 310, &[U32(5), I64(1)]),
    ];
    let made = export(of_kernel(&[Packets::new(0).packet(&records)]), &all(), None);
    let calls = made.rows("SELECT begin_ns, object_kind, object FROM syscall ORDER BY begin_ns");
    assert_eq!(calls, ["+100 file /data", "+300 file /other"]);
}

#[test]
fn devices_have_one_name_in_all_of_the_database() {
    let hand = Hand::new();
    fs::create_dir(hand.0.join("in")).unwrap();
    let events = [
        ("block_rq_issue", "u32 dev; u64 sector; u32 nr_sector; u32 bytes; string rwbs;"),
        ("block_rq_complete", "u32 dev; u64 sector; u32 nr_sector; i64 error; string rwbs;"),
        ("lttng_statedump_block_device", "u32 dev; string diskname;"),
        ("irq_handler_entry", "i64 irq;"),
        ("irq_handler_exit", "i64 irq;"),
        ("lttng_statedump_interrupt", "i64 irq; string action;"),
    ];
    let text = metadata("domain = \"kernel\";", "u32 tid;", &events);
    let tid = U32(5);
    let (disk, other) = (U32(254 << 20), U32(8 << 20));
    let issue = |disk, sector| [tid, disk, U64(sector), U32(8), U32(4096), Text("R")];
    let complete = |disk, sector| [tid, disk, U64(sector), U32(8), I64(0), Text("R")];
    let (first, first_done) = (issue(disk, 1), complete(disk, 1));
    let (second, second_done) = (issue(disk, 9), complete(disk, 9));
    let (third, third_done) = (issue(other, 9), complete(other, 9));
    let irq = [tid, I64(36)];
    let records: [Record<'_>; 12] = [
        (0, 10, &first),
        (1, 20, &first_done),
        (3, 22, &irq),
        (4, 24, &irq),
        (2, 30, &[tid, disk, Text("vda")]),
        (5, 31, &[tid, I64(36), Text("virtio0")]),
        (3, 35, &irq),
        (4, 36, &irq),
        (0, 40, &second),
        (1, 50, &second_done),
        // Of this one the trace has no name.
        (0, 60, &third),
        (1, 70, &third_done),
    ];
    hand.trace("in/k", &text, &[Packets::new(0).packet(&records)]);
    let made = export(hand, &all(), None);
    assert_eq!(made.rows("SELECT device FROM request ORDER BY id"), ["vda", "vda", "8:0"]);
    assert_eq!(made.rows("SELECT name FROM interrupt ORDER BY id"), ["virtio0", "virtio0"]);
    let devices = "SELECT kind, number, name FROM device ORDER BY kind, number";
    assert_eq!(made.rows(devices), ["disk 254:0 vda", "disk 8:0 8:0", "irq 36 virtio0"]);
}

#[test]
fn database_of_waits_has_each_in_its_table() {
    let made = export(of_kernel(&waits()), &all(), None);
    assert_eq!(made.summary.events, 22);
    let bytes = fs::metadata(made.hand.0.join("x.sqlite")).unwrap().len();
    assert_eq!((made.summary.bytes, made.summary.cut, made.summary.discarded), (bytes, 0, 0));
    assert_eq!(
        made.rows("SELECT tid, pid, thread_name, process_name, is_kernel, born_ns FROM thread WHERE tid IN (0, 5, 6) ORDER BY tid"),
        ["0 0 idle idle 1 -", "5 5 x x 0 -", "6 5 x x 0 -"]
    );
    let calls = "SELECT tid, s.name, s.begin_ns, s.end_ns, duration_ns, result, error, object_kind, object \
                 FROM syscall s JOIN thread t ON t.id = s.thread ORDER BY s.id";
    assert_eq!(
        made.rows(calls),
        [
            "5 openat +60 +70 10 -2 ENOENT file /a/b",
            "5 read +100 +410 310 1 - descriptor descriptor 3",
            "5 poll +500 +710 210 0 - - -",
        ]
    );
    let states = "SELECT s.begin_ns, s.end_ns, state, cpu, was_woken, sleep, call, object, ended_by, w.tid, is_sure, request \
                  FROM state s JOIN thread t ON t.id = s.thread LEFT JOIN thread w ON w.id = s.waker \
                  WHERE t.tid = 5 ORDER BY s.begin_ns";
    assert_eq!(
        made.rows(states),
        [
            "+10 +50 unknown 0 - - - - - - - -",
            "+50 +200 running 0 - - - - - - - -",
            "+200 +320 blocked - - uninterruptible read descriptor 3 disk - - 1",
            "+320 +400 runnable 0 1 - - - - - - -",
            "+400 +510 running 0 - - - - - - - -",
            // 6 was found there by the timer.
            "+510 +600 blocked - - sleep poll - timer - - -",
            "+600 +700 runnable 0 1 - - - - - - -",
            "+700 +900 running 0 - - - - - - - -",
        ]
    );
    let unpaired = "SELECT kind, tid, u.name, time_ns, why FROM unpaired u JOIN thread t ON t.id = u.thread ORDER BY u.id";
    assert_eq!(made.rows(unpaired), ["syscall 5 read +720 no begin", "syscall 5 read +800 no end"]);
    assert_eq!(
        made.rows("SELECT cpu, kind, number, i.name, begin_ns, end_ns, tid FROM interrupt i JOIN thread t ON t.id = i.thread"),
        ["0 softirq 4 BLOCK +300 +330 6"]
    );
    assert_eq!(
        made.rows("SELECT device, kind, sector, bytes, tid, begin_ns, end_ns, is_error FROM request r LEFT JOIN thread t ON t.id = r.thread"),
        ["8:0 read 64 4096 5 +150 +310 0"]
    );
    let runs = "SELECT cpu, tid, c.begin_ns, c.end_ns, is_switch FROM cpu_run c LEFT JOIN thread t ON t.id = c.thread ORDER BY c.id LIMIT 3";
    assert_eq!(made.rows(runs), ["0 - +10 +50 0", "0 0 +50 +50 1", "0 5 +50 +200 1"]);
    let trace = "SELECT t.name, m.name, is_kernel, pid, clock, begin_ns, end_ns, records, json_extract(environment, '$.domain') \
                 FROM trace t JOIN machine m ON m.id = t.machine";
    assert_eq!(made.rows(trace), ["box/k box 1 - monotonic +10 +900 22 kernel"]);
    let event = "SELECT time_ns, cpu, tid, e.name, fields, context FROM event e LEFT JOIN thread t ON t.id = e.thread WHERE e.id = 6";
    assert_eq!(
        made.rows(event),
        ["+100 0 5 syscall_entry_read {\"fd\":3,\"count\":1} {\"tid\":5}"]
    );
    assert_eq!(made.rows("PRAGMA user_version"), [VERSION.to_string()]);
    assert_eq!(made.rows("PRAGMA integrity_check"), ["ok"]);
    assert_eq!(made.rows("PRAGMA foreign_key_check"), [""; 0]);
}

#[test]
fn sums_are_those_of_the_reports_of_all_and_of_a_part() {
    for (from, to) in [(i64::MIN, i64::MAX), (ORIGIN + 250, ORIGIN + 705)] {
        let range = TimeRange { from, to };
        let made = export(of_kernel(&waits()), &Options { range, ..all() }, None);
        let reader = made.reader();
        let asked = Asked { range, selection: None };
        let mut seen = (SyscallCounter::new(range, 0), ThreadCounter::new(range, 0));
        let passed = pass(&reader, &asked, &mut seen, &|_| true, &mut |_| {}).unwrap();
        let world = passed.timeline.world();
        let call = |row: &syscalls::Row| {
            let syscalls::Row { label, name, errors, times } = row;
            let Times { count, total, min, max, .. } = times;
            format!("{} {name} {count} {errors} {total} {min} {max}", label.process)
        };
        let calls = seen.0.finish(world, By::Process).rows;
        let calls: Vec<String> = calls.iter().map(call).collect();
        assert!(!calls.is_empty());
        let of = "SELECT process, name, count, errors, total_ns, min_ns, max_ns FROM calls_by_process ORDER BY total_ns DESC, name";
        assert_eq!(made.rows(of), calls);
        // Whom only the context of a record names has no row there, and is unknown here.
        let rows = seen.1.finish(world, false).rows;
        let known = rows.iter().filter(|row| row.running + row.runnable() + row.blocked > 0);
        let sums = |row: &Row| {
            let sums = [row.running, row.runnable(), row.blocked, row.unknown, row.runs];
            let tid = row.label.tid.unwrap_or(0);
            format!("{tid} {}", sums.map(|sum| sum.to_string()).join(" "))
        };
        let mut threads: Vec<String> = known.map(sums).collect();
        threads.sort();
        let of =
            "SELECT tid, running_ns, runnable_ns, blocked_ns, unknown_ns, runs FROM thread_times \
                  WHERE running_ns + runnable_ns + blocked_ns > 0 ORDER BY tid";
        let found = made.rows(of);
        assert_eq!(found, threads);
        assert!(found.len() >= 2, "{found:?}");
    }
}

#[test]
fn part_of_a_trace_has_what_ends_in_it_and_the_states_that_were_before() {
    let range = TimeRange { from: ORIGIN + 250, to: ORIGIN + 505 };
    let made = export(of_kernel(&waits()), &Options { range, ..all() }, None);
    assert_eq!(made.rows("SELECT name, begin_ns, end_ns FROM syscall"), ["read +100 +410"]);
    let states = "SELECT begin_ns, end_ns, state FROM state s JOIN thread t ON t.id = s.thread WHERE tid = 5 ORDER BY begin_ns";
    assert_eq!(made.rows(states), ["+250 +320 blocked", "+320 +400 runnable", "+400 +505 running"]);
    assert_eq!(
        made.rows("SELECT min(time_ns), max(time_ns), count(*) FROM event"),
        ["+300 +500 7"]
    );
    assert_eq!(made.summary.events, 7);
    // A filter is of records, and of what begins or ends with one; states are of all.
    let made = export(of_kernel(&waits()), &all(), Some("filename == \"/a/b\""));
    assert_eq!(made.rows("SELECT name FROM event"), ["syscall_entry_openat"]);
    assert_eq!(made.rows("SELECT name FROM syscall"), ["openat"]);
    assert_eq!(made.rows("SELECT count(*) FROM unpaired"), ["0"]);
    assert_eq!(made.rows("SELECT count(*) FROM state WHERE state = 'blocked'"), ["3"]);
    // Without records the rest is the same.
    let made = export(of_kernel(&waits()), &Options { events: false, ..all() }, None);
    assert_eq!(made.rows("SELECT count(*) FROM event"), ["0"]);
    assert_eq!(made.rows("SELECT count(*) FROM syscall"), ["3"]);
    assert_eq!(made.summary.events, 22);
}

#[test]
fn states_around_discarded_records_are_unknown_and_calls_have_no_length() {
    let begin: [Record<'_>; 3] = [
        (SWITCH, 50, &switch(0, 0, 5)),
        (READ, 100, &[U32(5), U32(3), U64(1)]),
        (SWITCH, 200, &switch(5, 1, 6)),
    ];
    let end: [Record<'_>; 2] =
        [(READ_END, 500, &[U32(5), I64(1)]), (SWITCH, 600, &switch(5, 1, 0))];
    let stream = Packets::new(0).packet(&begin).discards(7).packet(&end);
    let made = export(of_kernel(&[stream]), &all(), None);
    assert_eq!(made.summary.discarded, 7);
    let discarded = "SELECT trace, stream, cpu, kind, count, from_ns, to_ns FROM discarded";
    assert_eq!(made.rows(discarded), ["0 s0 0 records 7 +200 +600"]);
    let states = "SELECT begin_ns, end_ns, state FROM state s JOIN thread t ON t.id = s.thread WHERE tid = 5 ORDER BY begin_ns";
    // The record at 500 says who runs for an instant only: this trace does not say where in the packet records are missing.
    assert_eq!(made.rows(states), ["+50 +200 running", "+200 +600 unknown"]);
    let unpaired = "SELECT name, time_ns, why FROM unpaired ORDER BY id";
    assert_eq!(made.rows(unpaired), ["read +100 discarded", "read +500 no begin"]);
    assert_eq!(made.rows("SELECT count(*) FROM syscall"), ["0"]);
}

/// The records that a thread's time would have been told by are not there.
#[test]
fn states_behind_damage_are_unknown_in_reports_too() {
    let first: [Record<'_>; 1] = [(SWITCH, 50, &switch(0, 0, 5))];
    let damaged: [Record<'_>; 2] =
        [(SWITCH, 100, &switch(5, 1, 6)), (SWITCH, 500, &switch(6, 1, 5))];
    let last: [Record<'_>; 1] = [(SWITCH, 600, &switch(5, 1, 0))];
    let head = Packets::new(0).packet(&first);
    let at = head.bytes.len() + 48;
    let mut stream = head.packet(&damaged).packet(&last);
    // No record class has this number.
    stream.bytes[at] = 250;
    let made = export(of_kernel(&[stream]), &all(), None);
    let states = "SELECT begin_ns, end_ns, state FROM state s JOIN thread t ON t.id = s.thread WHERE tid = 5 ORDER BY begin_ns";
    assert_eq!(made.rows(states), ["+50 +600 unknown"]);
    let mut seen = ThreadCounter::new(TimeRange::ALL, 0);
    let mut damages = 0;
    let passed =
        pass(&made.reader(), &Asked::default(), &mut seen, &|_| true, &mut |_| damages += 1);
    let passed = passed.unwrap();
    assert_eq!((passed.damage, damages), (1, 1));
    let rows = seen.finish(passed.timeline.world(), false).rows;
    let known = rows.iter().filter(|row| row.label.tid == Some(5) && row.running > 0);
    assert_eq!(known.count(), 0);
}

/// What is wrong with one trace from the begin is told with what is found in another one.
#[test]
fn damage_is_reported_whenever_it_was_found() {
    let hand = of_kernel(&waits());
    fs::create_dir(hand.0.join("in/none")).unwrap();
    fs::write(hand.0.join("in/none/metadata"), "no metadata").unwrap();
    let file = hand.0.join("in/k/s0");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 20]).unwrap();
    let made = export(hand, &all(), None);
    let damage = "SELECT trace, stream, text LIKE '%Skipped this trace%' FROM damage ORDER BY id";
    assert_eq!(made.rows(damage), ["- - 1", "0 s0 0"]);
    let mut said = Vec::new();
    let mut tell = |damage: &Damage| said.push(damage.to_string());
    let seen = &mut ThreadCounter::new(TimeRange::ALL, 0);
    let passed = pass(&made.reader(), &Asked::default(), seen, &|_| true, &mut tell).unwrap();
    assert_eq!((passed.damage, said.len()), (2, 2), "{said:?}");
}

#[test]
fn spans_of_a_program_have_their_keys_and_what_is_alone_is_reported() {
    let hand = Hand::new();
    fs::create_dir(hand.0.join("in")).unwrap();
    let events = [
        ("app:job_begin", "u64 id;"),
        ("app:job_end", "u64 id;"),
        ("app:odd_begin", ""),
        ("app:odd_end", ""),
    ];
    let environment = "domain = \"ust\"; hostname = \"box\"; vpid = 5; procname = \"app\";";
    let records: [Record<'_>; 7] = [
        (0, 10, &[U32(5), U64(u64::MAX)]),
        (2, 15, &[U32(5)]),
        (0, 20, &[U32(6), U64(2)]),
        (1, 30, &[U32(7), U64(u64::MAX)]),
        (3, 35, &[U32(5)]),
        (1, 40, &[U32(5), U64(9)]),
        (2, 50, &[U32(6)]),
    ];
    hand.trace(
        "in/u",
        &metadata(environment, "u32 vtid;", &events),
        &[Packets::new(0).packet(&records)],
    );
    let pairs = vec!["app:job_begin=app:job_end:id".parse().unwrap()];
    let made = export(hand, &Options { pairs, ..all() }, None);
    let spans = "SELECT s.name, begin_event, b.tid, e.tid, s.begin_ns, s.end_ns, duration_ns, key, paired_by, disagrees FROM span s \
                 LEFT JOIN thread b ON b.id = begin_thread LEFT JOIN thread e ON e.id = end_thread ORDER BY s.id";
    assert_eq!(
        made.rows(spans),
        [
            "app:job app:job_begin 5 7 +10 +30 20 18446744073709551615 key 0",
            "app:odd app:odd_begin 5 5 +15 +35 20 - thread 0",
        ]
    );
    let unpaired = "SELECT kind, name, time_ns, why FROM unpaired ORDER BY time_ns";
    assert_eq!(
        made.rows(unpaired),
        ["span app:job +20 no end", "span app:job +40 no begin", "span app:odd +50 no end"]
    );
    assert_eq!(made.rows("SELECT process_name, pid, is_kernel FROM trace"), ["app 5 0"]);
}

/// A program's queue and load, of which records are discarded; what the kernel says of two CPUs.
fn counters() -> Hand {
    let hand = Hand::new();
    fs::create_dir(hand.0.join("in")).unwrap();
    let program = "domain = \"ust\"; hostname = \"box\"; vpid = 5; procname = \"app\";";
    let events =
        [("app:queue", "i64 length; u64 bytes; f64 load; string text;"), ("app:other", "u8 n;")];
    let queue = |length, bytes, load| [U32(6), I64(length), U64(bytes), F64(load), Text("9")];
    let streams = [Packets::new(0)
        .packet(&[
            (0, 10, &queue(1, 7, 0.5)),
            (1, 15, &[U32(6), U8(9)]),
            (0, 20, &queue(-2, u64::MAX, f64::NAN)),
            (0, 20, &queue(3, 7, f64::INFINITY)),
        ])
        .discards(2)
        .packet(&[
            (1, 50, &[U32(6), U8(9)]),
            (0, 60, &queue(4, 8, 1.5)),
            (1, 70, &[U32(6), U8(9)]),
        ])];
    hand.trace("in/app", &metadata(program, "u32 vtid;", &events), &streams);
    let kernel = "domain = \"kernel\"; hostname = \"box\";";
    let events = [("power_cpu_frequency", "u32 state; u32 cpu_id;")];
    let state = |state, cpu| [U32(state), U32(cpu)];
    let streams = [
        Packets::new(0).packet(&[(0, 12, &state(1200, 0)), (0, 40, &state(2400, 0))]),
        Packets::new(1).packet(&[(0, 30, &state(800, 1))]),
    ];
    hand.trace("in/kernel", &metadata(kernel, "", &events), &streams);
    hand
}

const COUNTERS: &str = "SELECT c.name, m.name, t.pid, t.process_name, cpu, begin_ns, end_ns, duration_ns, value \
                        FROM counter c JOIN machine m ON m.id = c.machine LEFT JOIN thread t ON t.id = c.process \
                        ORDER BY c.name, cpu, begin_ns, c.id";

fn counting(rules: &[&str], range: TimeRange, filter: Option<&str>) -> Made {
    let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    export(counters(), &Options { range, counters: rules, ..all() }, filter)
}

#[test]
fn counters_hold_up_to_the_next_value_and_not_over_discarded_records() {
    let made = counting(&["app:queue.*", "power_cpu_frequency.state"], TimeRange::ALL, None);
    assert_eq!(
        made.rows(COUNTERS),
        [
            "app:queue.bytes box 5 app - +10 +20 10 7",
            "app:queue.bytes box 5 app - +20 +20 0 1.8446744073709552e19",
            "app:queue.bytes box 5 app - +20 +20 0 7",
            "app:queue.bytes box 5 app - +60 +60 0 8",
            "app:queue.length box 5 app - +10 +20 10 1",
            "app:queue.length box 5 app - +20 +20 0 -2",
            "app:queue.length box 5 app - +20 +20 0 3",
            "app:queue.length box 5 app - +60 +60 0 4",
            "app:queue.load box 5 app - +10 +20 10 0.5",
            "app:queue.load box 5 app - +20 +20 0 -",
            "app:queue.load box 5 app - +20 +20 0 inf",
            "app:queue.load box 5 app - +60 +60 0 1.5",
            "power_cpu_frequency.state box - - 0 +12 +40 28 1200",
            "power_cpu_frequency.state box - - 0 +40 +70 30 2400",
            "power_cpu_frequency.state box - - 1 +30 +70 40 800",
        ]
    );
    let means = "SELECT name, cpu, pid, count, min, max, mean, known_ns FROM counters_by_name WHERE name <> 'app:queue.bytes'";
    assert_eq!(
        made.rows(means),
        [
            // Up to the end of its packet records may be absent: the last one is known for no time.
            "app:queue.length - 5 4 -2 4 1.0 10",
            // The infinite one took no time either.
            "app:queue.load - 5 4 0.5 inf 0.5 10",
            "power_cpu_frequency.state 0 - 2 1200 2400 1820.6896551724137 58",
            "power_cpu_frequency.state 1 - 1 800 800 800.0 40",
        ]
    );
    assert_eq!(made.rows("PRAGMA foreign_key_check"), [""; 0]);
    assert_eq!(made.summary.counters_left_out, 0);
}

#[test]
fn counters_of_a_part_are_cut_at_its_bounds_and_those_that_are_filtered_out_are_not_there() {
    let range = TimeRange { from: ORIGIN + 25, to: ORIGIN + 45 };
    let made = counting(&["state"], range, None);
    assert_eq!(
        made.rows(COUNTERS),
        [
            "power_cpu_frequency.state box - - 0 +25 +40 15 1200",
            "power_cpu_frequency.state box - - 0 +40 +45 5 2400",
            "power_cpu_frequency.state box - - 1 +30 +45 15 800",
        ]
    );
    // The value changes all the same.
    let made = counting(&["state"], TimeRange::ALL, Some("state < 2000"));
    assert_eq!(
        made.rows(COUNTERS),
        [
            "power_cpu_frequency.state box - - 0 +12 +40 28 1200",
            "power_cpu_frequency.state box - - 1 +30 +70 40 800",
        ]
    );
}

#[test]
fn texts_and_numbers_that_a_database_cannot_hold_are_still_reported() {
    let hand = Hand::new();
    fs::create_dir(hand.0.join("in")).unwrap();
    let fields = "string text; u64 high; i64 low; f64 nan; f64 inf; f64 most;";
    let events = [("app:'; DROP TABLE event; --", fields), ("sched_switch", KERNEL[0].1)];
    let broken = [U8(b'a'), U8(0xff), U8(b'"'), U8(0)];
    let numbers = [U64(u64::MAX), I64(i64::MIN), F64(f64::NAN), F64(f64::NEG_INFINITY), F64(1e300)];
    let odd = [&broken[..], &numbers].concat();
    let name = [U8(0xc3), U8(b'('), U8(0)];
    let named = [&name[..], &[U32(5), I64(1)], &name, &[U32(6)]].concat();
    let streams = [Packets::new(0).packet(&[(0, 10, &odd), (1, 20, &named), (1, 30, &named)])];
    hand.trace("in/t", &metadata("domain = \"kernel\";", "", &events), &streams);
    let made = export(hand, &all(), None);
    assert_eq!(made.rows("SELECT name FROM event WHERE id = 1"), ["app:'; DROP TABLE event; --"]);
    assert_eq!(made.rows("SELECT min(json_valid(fields)) FROM event"), ["1"]);
    let one = "SELECT fields ->> 'text', typeof(fields ->> 'high'), fields ->> 'high', fields ->> 'low', \
               fields ->> 'nan', fields ->> 'inf', fields ->> 'most' FROM event WHERE id = 1";
    assert_eq!(
        made.rows(one),
        ["a\u{fffd}\" text 18446744073709551615 -9223372036854775808 NaN -Infinity 1e300"]
    );
    assert_eq!(made.rows("SELECT DISTINCT thread_name FROM thread WHERE tid > 0"), ["\u{fffd}("]);
}

#[test]
fn fields_that_are_too_long_are_left_out_and_counted() {
    let hand = of_kernel(&waits());
    let path = hand.0.join("x.sqlite");
    let reader = Reader::open(&[hand.0.join("in")]).unwrap();
    let mut exporter = Exporter::new(&reader, &path, &all(), || false).unwrap();
    exporter.rows.fields_bytes = 70;
    tell(&reader, &mut exporter, None).unwrap();
    let summary = exporter.finish(false).unwrap();
    let database = Connection::open(&path).unwrap();
    let cut = rows(&database, "SELECT name FROM event WHERE fields IS NULL GROUP BY name", ());
    assert_eq!(cut, ["sched_switch"]);
    assert_eq!(summary.cut, 6);
    assert_eq!(rows(&database, "SELECT count(*) FROM event WHERE context IS NULL", ()), ["0"]);
}

#[test]
fn rows_that_fill_many_batches_are_all_there_in_their_order() {
    let switches: Vec<[V; 6]> = (0..20_000).map(|n| switch(5 + n % 2, 0, 6 - n % 2)).collect();
    let records: Vec<Record<'_>> =
        switches.iter().zip(1..).map(|(switch, time)| (SWITCH, time * 10, &switch[..])).collect();
    let made = export(of_kernel(&[Packets::new(3).packet(&records)]), &all(), None);
    assert_eq!(
        made.rows("SELECT count(*), max(id), min(time_ns), max(time_ns) FROM event"),
        ["20000 20000 +10 +200000"]
    );
    let wrong = "SELECT count(*) FROM event a JOIN event b ON b.id = a.id + 1 WHERE b.time_ns <> a.time_ns + 10";
    assert_eq!(made.rows(wrong), ["0"]);
    assert_eq!(made.rows("SELECT DISTINCT cpu FROM event"), ["3"]);
}

fn is_empty_or_no_database(path: &Path) -> bool {
    let opened = Connection::open(path).unwrap();
    let tables =
        opened.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get::<_, i64>(0));
    tables.map_or(true, |tables| tables == 0)
}

#[test]
fn database_that_is_not_finished_is_none() {
    let hand = of_kernel(&waits());
    let reader = Reader::open(&[hand.0.join("in")]).unwrap();
    let path = hand.0.join("left.sqlite");
    let mut exporter = Exporter::new(&reader, &path, &all(), || false).unwrap();
    tell(&reader, &mut exporter, None).unwrap();
    // Nobody writes to it any more when this is over.
    drop(exporter);
    assert!(is_empty_or_no_database(&path));

    let path = hand.0.join("stopped.sqlite");
    let switches: Vec<[V; 6]> = (0..50_000).map(|n| switch(5 + n % 2, 0, 6 - n % 2)).collect();
    let records: Vec<Record<'_>> =
        switches.iter().zip(1..).map(|(switch, time)| (SWITCH, time * 10, &switch[..])).collect();
    let many = of_kernel(&[Packets::new(0).packet(&records)]);
    let reader = Reader::open(&[many.0.join("in")]).unwrap();
    let mut exporter = Exporter::new(&reader, &path, &all(), || true).unwrap();
    let told = tell(&reader, &mut exporter, None);
    let error = told.and_then(|()| exporter.finish(false).map(drop)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Interrupted, "{error}");
}

#[test]
fn file_that_cannot_be_written_says_why() {
    let hand = of_kernel(&waits());
    let reader = Reader::open(&[hand.0.join("in")]).unwrap();
    let write = |path: PathBuf| {
        let mut exporter = Exporter::new(&reader, &path, &all(), || false)?;
        tell(&reader, &mut exporter, None)?;
        exporter.finish(false)
    };
    let error = write(hand.0.join("nowhere/x.sqlite")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
    // What somebody has put there in the meantime is not followed.
    fs::write(hand.0.join("other"), "").unwrap();
    std::os::unix::fs::symlink(hand.0.join("other"), hand.0.join("link")).unwrap();
    write(hand.0.join("link")).unwrap_err();
    assert_eq!(fs::metadata(hand.0.join("other")).unwrap().len(), 0);
    fs::write(hand.0.join("text"), "no database, and longer than a header. ".repeat(40)).unwrap();
    let error = write(hand.0.join("text")).unwrap_err();
    assert!(error.to_string().contains("not a database"), "{error}");
}

#[test]
fn path_that_sqlite_does_not_open_is_refused_with_its_length() {
    let hand = of_kernel(&waits());
    let reader = Reader::open(&[hand.0.join("in")]).unwrap();
    let mut folder = hand.0.canonicalize().unwrap();
    while folder.as_os_str().len() < 400 {
        folder.push("f".repeat(60));
    }
    fs::create_dir_all(&folder).unwrap();
    let path = |bytes: usize| folder.join("x".repeat(bytes - folder.as_os_str().len() - 1));
    let mut exporter = Exporter::new(&reader, &path(504), &all(), || false).unwrap();
    tell(&reader, &mut exporter, None).unwrap();
    assert!(exporter.finish(false).unwrap().bytes > 0);
    let error = Exporter::new(&reader, &path(505), &all(), || false).unwrap_err();
    assert!(error.to_string().contains("505 bytes"), "{error}");
}

#[test]
fn statements_are_those_of_the_tables_and_views_can_be_asked() {
    for (statement, table) in InsertStatement::ALL.iter().zip(&TABLES) {
        let wanted = format!("INSERT INTO {} (", table.name);
        assert!(statement.sql().starts_with(&wanted), "{statement:?}: {}", statement.sql());
    }
    for (number, &statement) in InsertStatement::ALL.iter().enumerate() {
        assert_eq!(statement as usize, number);
        assert_eq!(statement.sql().matches('?').count(), statement.cells(), "{statement:?}");
    }
    let made = export(of_kernel(&waits()), &all(), None);
    for (view, _) in VIEWS {
        let found = made.rows(&format!("SELECT * FROM {view} LIMIT 10"));
        let has_none =
            ["spans_by_name", "counters_by_name", "spans", "gaps", "locks", "samples", "stacks"];
        let has_none = has_none.contains(&view);
        assert_eq!(found.is_empty(), has_none, "{view}: {found:?}");
    }
    // The kernel's, and the database's own columns for how long.
    assert_eq!(made.rows("SELECT count(*) FROM slow_calls"), ["3"]);
    assert_eq!(made.rows("SELECT name, duration_ns FROM slow_calls LIMIT 1"), ["read 310"]);
    assert_eq!(
        made.rows("SELECT busy_ns, idle_ns, unknown_ns, switches FROM cpu_times"),
        ["850 0 40 6"]
    );
}

#[test]
fn guide_names_all_tables_columns_and_views() {
    let made = export(of_kernel(&waits()), &all(), None);
    let names = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'";
    let names = made.rows(names);
    assert_eq!(names.len(), TABLES.len() + VIEWS.len());
    for name in &names {
        let row = GUIDE.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("no row of {name} in the guide"));
        if !TABLES.iter().any(|table| table.name == name) {
            continue;
        }
        for column in rows(&made.database, "SELECT name FROM pragma_table_xinfo(?1)", [name]) {
            assert!(
                row.contains(&format!("`{column}`")),
                "no column {column} of {name} in the guide"
            );
        }
    }
}

//! Queries on traces that are made by hand, hostile ones among them.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::ValueRef;
use strata_ctf::read::{Reader, TimeRange};

use crate::scan_cache::TEST_TIME;
use crate::{Cell, Database, EventRequest, Options, RowSink, SqlError};

const HEAD: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := u8;
typealias integer { size = 32; align = 8; signed = false; } := u32;
typealias integer { size = 64; align = 8; signed = false; } := u64;
typealias integer { size = 64; align = 8; signed = true; } := i64;
typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := f64;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000000000; offset_s = 0; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := stamp;
stream { event.header := struct { u8 id; stamp timestamp; }; };
"#;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A trace of these events (name, fields) and records (number of the event, time, payload).
fn trace(events: &[(&str, &str)], records: &[(u8, u64, &[u8])]) -> Folder {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path =
        std::env::temp_dir().join(format!("strata-sql-test-{}-{number}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    let mut metadata = HEAD.to_owned();
    for (id, (name, fields)) in events.iter().enumerate() {
        metadata += &format!(
            "event {{ name = \"{name}\"; id = {id}; fields := struct {{ {fields} }}; }};\n"
        );
    }
    fs::write(path.join("metadata"), metadata).unwrap();
    let mut stream = Vec::new();
    for (id, time, payload) in records {
        stream.push(*id);
        stream.extend(time.to_le_bytes());
        stream.extend(*payload);
    }
    fs::write(path.join("stream"), stream).unwrap();
    Folder(path)
}

fn database(folder: &Folder) -> Database {
    Database::new(Reader::open(&[&folder.0]).unwrap(), Arc::new(|| false)).unwrap()
}

/// Rows as texts, with '|' between values.
#[derive(Default)]
struct Lines(Vec<String>);

impl RowSink for Lines {
    fn columns(&mut self, _: &[&str]) -> io::Result<()> {
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<ControlFlow<()>> {
        let text = |cell: &Cell<'_>| match cell {
            ValueRef::Null => "-".to_owned(),
            ValueRef::Integer(value) => value.to_string(),
            ValueRef::Real(value) => format!("{value:?}"),
            ValueRef::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
            ValueRef::Blob(bytes) => format!("{bytes:?}"),
        };
        self.0.push(cells.iter().map(text).collect::<Vec<_>>().join("|"));
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn ask(database: &mut Database, query: &str) -> Result<Vec<String>, SqlError> {
    let mut lines = Lines::default();
    database.query(query, &mut lines)?;
    Ok(lines.0)
}

#[track_caller]
fn rows(database: &mut Database, query: &str) -> Vec<String> {
    ask(database, query).unwrap_or_else(|error| panic!("{query}: {error}"))
}

/// Records of `a` (a number) at 10, 20 … and of `b` between them.
fn numbers(count: u64) -> Folder {
    let payloads: Vec<[u8; 8]> = (0..count).map(u64::to_le_bytes).collect();
    let records: Vec<(u8, u64, &[u8])> = payloads
        .iter()
        .zip(1u64..)
        .flat_map(|(payload, at)| [(0, at * 10, &payload[..]), (1, at * 10 + 5, &[][..])])
        .collect();
    trace(&[("a", "u64 n;"), ("b", "")], &records)
}

#[test]
fn tables_of_events_have_their_fields_as_columns() {
    let folder = numbers(3);
    let mut database = database(&folder);
    assert_eq!(rows(&mut database, "select time_ns, n from a"), ["10|0", "20|1", "30|2"]);
    assert_eq!(
        rows(&mut database, "select time_ns, name, fields from events limit 3"),
        ["10|a|{\"n\":0}", "15|b|{}", "20|a|{\"n\":1}"]
    );
    assert_eq!(rows(&mut database, "select count(*), sum(n) from a"), ["3|3"]);
    let counts = "select name, records from event_counts order by name";
    assert_eq!(rows(&mut database, counts), ["a|3", "b|3"]);
    assert_eq!(rows(&mut database, "select * from schema_version"), ["3"]);
}

#[test]
fn values_at_the_limits_of_their_types_keep_them() {
    let mut payload = u64::MAX.to_le_bytes().to_vec();
    payload.extend(i64::MIN.to_le_bytes());
    payload.extend(f64::NAN.to_le_bytes());
    payload.extend(b"\xff'\"\x01\0");
    payload.extend([7, 8, 9]);
    let fields = "u64 high; i64 low; f64 none; string text; u8 list[3];";
    let folder = trace(&[("e", fields)], &[(0, 5, &payload)]);
    let mut database = database(&folder);
    assert_eq!(
        rows(&mut database, "select high, low, none, text, list from e"),
        ["18446744073709551615|-9223372036854775808|NaN|\u{fffd}'\"\u{1}|[7,8,9]"]
    );
    assert_eq!(rows(&mut database, "select typeof(high), typeof(low) from e"), ["text|integer"]);
}

#[test]
fn hostile_names_of_events_and_fields_are_only_names() {
    let events = [
        ("x\\\" ; drop", "u8 time_ns; u8 _select;"),
        ("thread", "u8 a;"),
        ("EVENTS", ""),
        ("A", ""),
        ("a", ""),
        ("sqlite_master", ""),
        ("provider:event", ""),
        ("n\\000l", ""),
    ];
    let folder = trace(&events, &[(0, 1, &[3, 4]), (1, 2, &[5]), (6, 3, &[]), (7, 4, &[])]);
    let mut database = database(&folder);
    let tables = database.tables().unwrap();
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    for name in
        ["x\" ; drop", "event_thread", "event_EVENTS", "A", "event_a", "event_sqlite_master"]
    {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert_eq!(rows(&mut database, "select time_ns, field_time_ns from \"x\"\" ; drop\""), ["1|3"]);
    assert_eq!(rows(&mut database, "select a from event_thread"), ["5"]);
    assert_eq!(rows(&mut database, "select name from \"provider:event\""), ["provider:event"]);
    assert_eq!(rows(&mut database, "select count(*) from events where name = 'x\" ; drop'"), ["1"]);
    assert_eq!(database.table_of_event("EVENTS"), Some("event_EVENTS"));
    for query in [
        "events where name = 'n\u{fffd}l'",
        "\"n\u{fffd}l\"",
        "event_counts where records and name like 'n%l'",
    ] {
        assert_eq!(
            rows(&mut database, &format!("select name from {query}")),
            ["n\u{fffd}l"],
            "{query}"
        );
    }
}

#[test]
fn events_that_are_called_like_functions_of_rows_replace_none() {
    let events = [("json_each", "u8 n;"), ("pragma_table_xinfo", "u8 n;"), ("span_join", "u8 n;")];
    let folder = trace(&events, &[(0, 1, &[3]), (1, 2, &[4]), (2, 3, &[5])]);
    let mut database = database(&folder);
    assert!(database.tables().unwrap().iter().any(|table| table.name == "calls"));
    assert_eq!(rows(&mut database, "select value from json_each('[7, 8]')"), ["7", "8"]);
    for (event, n) in [("json_each", "3"), ("pragma_table_xinfo", "4"), ("span_join", "5")] {
        assert_eq!(database.table_of_event(event), Some(&*format!("event_{event}")));
        assert_eq!(rows(&mut database, &format!("select n from event_{event}")), [n]);
    }
}

#[test]
fn conditions_that_the_reader_checks_select_what_sqlite_selects() {
    let folder = numbers(40);
    let mut database = database(&folder);
    let values = [
        "100",
        "100.5",
        "99.999",
        "'100'",
        "-1",
        "1e30",
        "-1e30",
        "1e300",
        "-1e300",
        "null",
        "x'31'",
        "9223372036854775807",
    ];
    for op in ["<", "<=", "=", ">=", ">", "is", "!="] {
        for value in values {
            let of = |column: &str| {
                format!("select count(*), sum(time_ns) from events where {column} {op} {value}")
            };
            // SQLite checks what stands behind a plus sign, which takes the column's affinity away.
            let all = rows(
                &mut database,
                &of(if value.starts_with('\'') { "cast(+time_ns as integer)" } else { "+time_ns" }),
            );
            assert_eq!(rows(&mut database, &of("time_ns")), all, "{op} {value}");
        }
    }
    let count = |where_: &str| format!("select count(*) from events where {where_}");
    for (condition, found) in [
        ("name = 'a'", "40"),
        ("name = 'A'", "0"),
        ("name = 'A' collate nocase", "40"),
        ("name in ('a', 'b', 'c')", "80"),
        ("name in (select 'b')", "40"),
        ("name in ()", "0"),
        ("name is null", "0"),
        ("name = 1", "0"),
        ("name = x'61'", "0"),
        ("name = 'a' and name = 'b'", "0"),
        ("name in ('a', 'b') and name = 'b'", "40"),
        ("name = 'a' or time_ns < 30", "42"),
        ("time_ns between 100 and 200 and name = 'b'", "10"),
        ("time_ns > 9223372036854775806", "0"),
        ("time_ns < 100 and time_ns > 200", "0"),
    ] {
        assert_eq!(rows(&mut database, &count(condition)), [found], "{condition}");
    }
    assert_eq!(
        rows(&mut database, "select count(*) from a join b on a.time_ns + 5 = b.time_ns"),
        ["40"]
    );
}

#[test]
fn many_rows_come_in_their_order_and_a_limit_ends_the_scan() {
    let folder = numbers(20_000);
    let mut database = database(&folder);
    assert_eq!(
        rows(&mut database, "select count(*), sum(n), max(time_ns) from a"),
        ["20000|199990000|200000"]
    );
    assert_eq!(rows(&mut database, "select n from a limit 2 offset 15000"), ["15000", "15001"]);
    for _ in 0..50 {
        assert_eq!(rows(&mut database, "select n from a limit 1"), ["0"]);
    }
    let ordered = "select count(*) from (select time_ns, lag(time_ns) over () as before from events) where before > time_ns";
    assert_eq!(rows(&mut database, ordered), ["0"]);
}

#[test]
fn rows_without_columns_are_as_many_as_there_are_records() {
    let folder = numbers(20_000);
    let other = numbers(7);
    fs::copy(other.0.join("stream"), folder.0.join("other_stream")).unwrap();
    let mut database = database(&folder);
    for (query, wanted) in [
        ("select count(*) from events", "40014"),
        ("select count(*) from a", "20007"),
        ("select count(*) from (select 1 from events limit 5)", "5"),
        ("select (select count(*) from a) + (select count(n) from a)", "40014"),
        // A join of this kind finds rows again by their numbers.
        ("select count(*) from (select 1 as one where 0) right join a on one = 1", "20007"),
        ("select count(*) from (select 1 as one) full join a on one = 1", "20007"),
        // Numbers of rows are those of their records, whatever else is read.
        ("select count(distinct rowid), count(*) from events", "40014|40014"),
        ("select count(*) from a where rowid in (select rowid from events)", "20007"),
    ] {
        assert_eq!(rows(&mut database, query), [wanted], "{query}");
    }
    // Each row of the one begins another scan, which is a thread: of few rows.
    let mut few = self::database(&other);
    for (query, wanted) in [
        ("select count(*) from a, (select 1 from b limit 3)", "21"),
        ("select count(*) from events where exists (select 1 from b)", "14"),
    ] {
        assert_eq!(rows(&mut few, query), [wanted], "{query}");
    }
    let of_numbers = rows(&mut database, "select rowid from events order by 1");
    let beside = "select rowid from (select rowid, name from events) order by 1";
    assert_eq!(rows(&mut database, beside), of_numbers);
    // The first row comes before the last record is read.
    assert_eq!(rows(&mut database, "select 1 from events limit 1"), ["1"]);
}

#[test]
fn a_sub_query_for_each_row_reads_the_traces_a_few_times_if_its_rows_have_room() {
    let folder = numbers(300);
    for (query, wanted) in [
        // Another time for each row, in both orders, none at all, and a table's name in the way.
        (
            "select count(*), sum((select n from a as y where y.time_ns < x.time_ns order by time_ns desc limit 1)), \
             sum((select min(n) from a as y where y.time_ns between x.time_ns + 1 and x.time_ns + 20)), \
             sum(exists (select 1 from a as y where y.time_ns > x.time_ns + 2000)) from a as x",
            "300|44551|44850|99",
        ),
        (
            "select count(*) from a as x where exists (select 1 from b as y where y.time_ns = x.time_ns + 5)",
            "300",
        ),
        ("select count(*) from a as x where (select count(*) from events as y where y.time_ns <= x.time_ns) % 2", "300"),
        // By the event's name, and by a column that the reader does not know.
        (
            "select count(*) from events as x where exists (select 1 from events as y where y.name = x.name and y.time_ns > x.time_ns)",
            "598",
        ),
        ("select count(*) from a as x where exists (select 1 from a as y where y.n = x.n * 2 and y.rowid > x.rowid)", "149"),
    ] {
        let mut database = database(&folder);
        database.set_remark(Box::new(|text| panic!("{text}")));
        assert_eq!(rows(&mut database, query), [wanted], "{query}");
    }
}

#[test]
fn a_sub_query_whose_rows_have_no_room_is_answered_and_told_of_once() {
    let (folder, few) = (numbers(9000), numbers(30));
    fs::copy(folder.0.join("stream"), few.0.join("other_stream")).unwrap();
    let mut database = database(&few);
    let told = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&told);
    database.set_remark(Box::new(move |text| {
        assert!(text.contains("AS MATERIALIZED"), "{text}");
        count.fetch_add(1, Ordering::Relaxed);
    }));
    let query = "select sum((select n from a as y where y.time_ns <= x.time_ns and y.n < 7 order by time_ns desc limit 1)) \
                 from (select time_ns from b limit 40) as x";
    assert_eq!(
        rows(&mut database, query),
        [(0..20).map(|n| 2 * n.min(6)).sum::<u32>().to_string()]
    );
    assert_eq!(told.load(Ordering::Relaxed), 1);
}

#[test]
fn a_sub_query_whose_rows_take_too_long_to_keep_is_answered_by_reading_the_traces() {
    let folder = numbers(300);
    let mut database = database(&folder);
    let told = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&told);
    database.set_remark(Box::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    TEST_TIME.set(Some(Duration::ZERO));
    let query = "select count(*) from a as x where exists (select 1 from b as y where y.time_ns = x.time_ns + 5)";
    let found = rows(&mut database, query);
    TEST_TIME.set(None);
    assert_eq!(found, ["300"]);
    // It was read again and again.
    assert_eq!(told.load(Ordering::Relaxed), 1);
}

#[test]
fn rows_without_columns_are_as_many_in_a_part_and_beside_damage() {
    let folder = numbers(500);
    let stream = fs::read(folder.0.join("stream")).unwrap();
    // Ends within a record; goes on with what is no record; is as long as the time range, and longer.
    fs::write(folder.0.join("cut"), &stream[..stream.len() - 4]).unwrap();
    fs::write(folder.0.join("broken"), [&stream[..3000], &[0xff; 90]].concat()).unwrap();
    fs::write(folder.0.join("empty"), b"").unwrap();
    let parts = [
        Options::default(),
        Options { range: TimeRange { from: 1000, to: 2995 }, ..Options::default() },
        Options { filter: Some("n > 100 && n < 300".parse().unwrap()), ..Options::default() },
        Options { range: TimeRange { from: 6000, to: 7000 }, ..Options::default() },
    ];
    for options in parts {
        let made = || {
            let reader = Reader::open(&[&folder.0]).unwrap();
            Database::with_options(reader, options.clone(), Arc::new(|| false)).unwrap()
        };
        for table in ["events", "a", "b"] {
            let (mut counting, mut reading) = (made(), made());
            let counted = rows(&mut counting, &format!("select count(*) from {table}"));
            let read = rows(&mut reading, &format!("select count(name) from {table}"));
            assert_eq!(counted, read, "{table} of {options:?}");
            let found = [counting.found(), reading.found()].map(|mut found| {
                found.damage.sort();
                found
            });
            assert_eq!(found[0], found[1], "{table} of {options:?}");
        }
    }
    let mut all = database(&folder);
    let of_all = rows(&mut all, "select count(*) from events");
    assert!(of_all[0].parse::<u64>().unwrap() > 2000, "{of_all:?}");
    assert!(all.found().damages >= 2, "{:?}", all.found());
}

#[test]
fn rows_of_a_table_without_a_query_are_those_of_a_query() {
    let limits = [0xff; 24];
    let fields = "u64 most; i64 least; f64 nan;";
    let folder = trace(
        &[("x", fields), ("text", "string of_any; u8 array[2];"), ("states", "")],
        &[(0, 1, &limits), (1, 2, b"\"\xff'\0ab"), (2, 3, b""), (0, 3, &[0; 24])],
    );
    let mut database = database(&folder);
    for table in ["events", "x", "text", "event_states"] {
        let mut direct = Lines::default();
        assert!(
            database.rows_of_events(&EventRequest::all_of(table), &mut direct).unwrap(),
            "{table}"
        );
        assert_eq!(direct.0, rows(&mut database, &format!("select * from {table}")), "{table}");
        assert!(!direct.0.is_empty());
    }
    let names = ["text".to_owned(), "nothing".to_owned()];
    let columns = ["fields", "name", "time_ns"].map(str::to_owned);
    let request = EventRequest { table: "events", columns: Some(&columns), names: Some(&names) };
    let mut direct = Lines::default();
    assert!(database.rows_of_events(&request, &mut direct).unwrap());
    let query = "select fields, name, time_ns from events where name in ('text', 'nothing')";
    assert_eq!(direct.0, rows(&mut database, query));
    assert!(!direct.0.is_empty());
    let wrong = ["rowid".to_owned()];
    let request = EventRequest { columns: Some(&wrong), ..EventRequest::all_of("x") };
    let failed = database.rows_of_events(&request, &mut Lines::default());
    assert!(failed.unwrap_err().to_string().contains("no such column: 'rowid' in 'x'"));
    // Other tables have their rows by queries alone.
    for table in ["states", "state", "event_counts", "nothing"] {
        let mut direct = Lines::default();
        assert!(
            !database.rows_of_events(&EventRequest::all_of(table), &mut direct).unwrap(),
            "{table}"
        );
        assert!(direct.0.is_empty());
    }
    let many = numbers(5000);
    let stopped = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stopped);
    let reader = Reader::open(&[&many.0]).unwrap();
    let stop = Arc::new(move || asked.load(Ordering::Relaxed));
    let mut database = Database::new(reader, stop).unwrap();
    let mut direct = Lines::default();
    database.rows_of_events(&EventRequest::all_of("a"), &mut direct).unwrap();
    assert_eq!(direct.0, rows(&mut database, "select * from a"));
    stopped.store(true, Ordering::Relaxed);
    let ended = database.rows_of_events(&EventRequest::all_of("events"), &mut Lines::default());
    assert!(matches!(ended, Err(SqlError::Stopped)), "{ended:?}");
}

#[test]
fn an_order_by_time_is_that_of_the_scan_and_sorts_nothing() {
    let folder = numbers(5000);
    let mut database = database(&folder);
    for (order, is_sorted) in [
        ("time_ns", false),
        ("time_ns asc", false),
        ("time_ns desc", false),
        ("time_ns desc, n", true),
        ("time_ns, n", true),
        ("n", true),
        ("time_ns + 0", true),
    ] {
        let plan =
            rows(&mut database, &format!("explain query plan select n from a order by {order}"));
        let sorts = plan.iter().any(|line| line.contains("TEMP B-TREE"));
        assert_eq!(sorts, is_sorted, "{order}: {plan:?}");
    }
    let found = rows(&mut database, "select n from a where time_ns > 100 order by time_ns");
    let mut wanted: Vec<String> = (10..5000).map(|n: u64| n.to_string()).collect();
    assert_eq!(found, wanted);
    let found = rows(&mut database, "select n from a where time_ns > 100 order by time_ns desc");
    wanted.reverse();
    assert_eq!(found, wanted);
}

/// Packets with times, each with this many records of `a` (a number), a nanosecond from each other.
fn packets(count: u64, records: u64) -> Folder {
    let folder = trace(&[], &[]);
    let metadata = HEAD.replace(
        "stream { event.header",
        "stream { packet.context := struct { stamp timestamp_begin; stamp timestamp_end; u64 content_size; \
         u64 packet_size; }; event.header",
    );
    let event = "event { name = \"a\"; id = 0; fields := struct { u64 n; string text; }; };\n";
    fs::write(folder.0.join("metadata"), metadata + event).unwrap();
    let mut stream = Vec::new();
    for packet in 0..count {
        let numbers = packet * records..(packet + 1) * records;
        let mut content = Vec::new();
        for n in numbers.clone() {
            content.push(0);
            content.extend(n.to_le_bytes());
            content.extend(n.to_le_bytes());
            content.extend(format!("number {n}\0").bytes());
        }
        let bits = (content.len() as u64 + 32) * 8;
        for word in [numbers.start, numbers.end - 1, bits, bits] {
            stream.extend(word.to_le_bytes());
        }
        stream.extend(content);
    }
    fs::write(folder.0.join("stream"), stream).unwrap();
    folder
}

#[test]
fn the_last_records_are_read_from_the_end() {
    let folder = packets(500, 40);
    let mut bytes = fs::read(folder.0.join("stream")).unwrap();
    let mut database = database(&folder);
    let all = rows(&mut database, "select time_ns, text from a");
    assert_eq!(all.len(), 20_000);
    let mut reversed = rows(&mut database, "select time_ns, text from a order by time_ns desc");
    reversed.reverse();
    assert!(reversed == all);
    let few = "select n from a where time_ns <= 5000 order by time_ns desc limit 3";
    assert_eq!(rows(&mut database, few), ["5000", "4999", "4998"]);
    let between =
        "select count(*), min(n), max(n) from (select n from a where time_ns between 17 and 4711 \
                   order by time_ns desc)";
    assert_eq!(rows(&mut database, between), ["4695|17|4711"]);
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4096].fill(0xff);
    fs::write(folder.0.join("stream"), bytes).unwrap();
    let last = "select n from a order by time_ns desc limit 2";
    assert_eq!(rows(&mut database, last), ["19999", "19998"]);
    assert_eq!(rows(&mut database, "select max(time_ns) from a"), ["19999"]);
    assert_eq!(database.found().damages, 0, "only the end was read");
    let mut counted = self::database(&folder);
    rows(&mut counted, "select * from event_counts");
    assert!(counted.found().damages > 0 && !counted.found().damage.is_empty());
    rows(&mut database, "select count(*) from a");
    assert!(database.found().damages > 0);
}

#[test]
fn a_part_of_the_records_is_what_all_tables_have() {
    let folder = packets(10, 10);
    let reader = || Reader::open(&[&folder.0]).unwrap();
    let part = |range: TimeRange, filter: Option<&str>| {
        let filter = filter.map(|text| text.parse().unwrap());
        let options = Options { range, filter, ..Options::default() };
        assert!(options.is_part());
        Database::with_options(reader(), options, Arc::new(|| false)).unwrap()
    };
    for (range, filter, wanted) in [
        (TimeRange { from: 15, to: 44 }, None, "30|15|44"),
        (TimeRange::ALL, Some("n < 5 || n == 77"), "6|0|77"),
        (TimeRange { from: 3, to: 80 }, Some("n < 5 || n >= 77"), "6|3|80"),
        (TimeRange { from: 1000, to: 2000 }, None, "0|-|-"),
    ] {
        let mut database = part(range, filter);
        let of_events = "select count(*), min(time_ns), max(time_ns) from";
        for table in ["events", "a", "(select * from a order by time_ns desc)"] {
            assert_eq!(rows(&mut database, &format!("{of_events} {table}")), [wanted], "{table}");
        }
        let of_trace = "select records, begin_ns, end_ns from trace";
        assert_eq!(rows(&mut database, of_trace), [wanted]);
        let count = wanted.split('|').next().unwrap();
        assert_eq!(
            rows(&mut database, "select coalesce(sum(records), 0) from event_counts"),
            [count]
        );
    }
    let options = Options { of: Some("nobody".to_owned()), ..Options::default() };
    let error = Database::with_options(reader(), options, Arc::new(|| false)).unwrap_err();
    assert!(error.to_string().contains("'nobody'"), "{error}");
}

#[test]
fn values_of_a_field_that_a_rule_names_are_counters() {
    let folder = packets(1, 3);
    let reader = Reader::open(&[&folder.0]).unwrap();
    let options = Options { counters: vec!["a.n".parse().unwrap()], ..Options::default() };
    let mut database = Database::with_options(reader, options, Arc::new(|| false)).unwrap();
    let query = "select name, begin_ns, value from counter order by begin_ns limit 2";
    assert_eq!(rows(&mut database, query), ["a.n|0|0", "a.n|1|1"]);
}

#[test]
fn an_order_by_time_fails_where_times_go_back_and_says_how_to_sort() {
    let records: Vec<(u8, u64, &[u8])> = vec![(1, 10, &[]), (1, 30, &[]), (1, 20, &[])];
    let folder = trace(&[("a", "u64 n;"), ("b", "")], &records);
    let mut database = database(&folder);
    for (order, advice) in [("", "ORDER BY time_ns + 0,"), (" desc", "ORDER BY time_ns + 0 DESC,")]
    {
        let query = format!("select time_ns from b order by time_ns{order}");
        let error = ask(&mut database, &query).unwrap_err();
        assert!(error.to_string().contains(advice), "{error}");
    }
    let sorted = rows(&mut database, "select time_ns from b order by time_ns + 0");
    assert_eq!(sorted, ["10", "20", "30"]);
}

#[test]
fn histograms_count_by_powers_of_two_and_overlaps_are_of_both_intervals() {
    let folder = numbers(1);
    let mut database = database(&folder);
    let values = "select histogram(column1) from (values (5), (4), (-3), (0), (null), (7.9), (9223372036854775807))";
    assert_eq!(
        rows(&mut database, values),
        ["{\"-2\":1,\"0\":1,\"4\":3,\"4611686018427387904\":1}"]
    );
    assert_eq!(rows(&mut database, "select histogram(n) from a where n > 5"), ["-"]);
    for (query, wanted) in [
        ("overlap(0, 10, 5, 20)", "5"),
        ("overlap(0, 10, 10, 20)", "0"),
        ("overlap(5, 6, 0, 10)", "1"),
        ("overlap(0, 10, 20, 30)", "0"),
        ("overlap(-9223372036854775807, 9223372036854775807, -9223372036854775807, 9223372036854775807)", "9223372036854775807"),
        ("overlap(0, null, 1, 2)", "-"),
    ] {
        assert_eq!(rows(&mut database, &format!("select {query}")), [wanted], "{query}");
    }
}

#[test]
fn statements_that_do_more_than_read_are_refused() {
    let folder = numbers(1);
    let mut database = database(&folder);
    let file = folder.0.join("made");
    let file = file.display();
    for statement in [
        format!("attach '{file}' as other"),
        format!("vacuum into '{file}'"),
        "create table t (a)".to_owned(),
        "create temp table t (a)".to_owned(),
        "create virtual table temp.t using strata_event(0)".to_owned(),
        "insert into event_counts values (1, 2, 3, 4)".to_owned(),
        "insert into state (thread) values (1)".to_owned(),
        "delete from event_counts".to_owned(),
        "update thread set tid = 1".to_owned(),
        "drop view calls".to_owned(),
        "drop table events".to_owned(),
        "pragma writable_schema = 1".to_owned(),
        "pragma temp_store_directory = '/'".to_owned(),
        "select load_extension('x')".to_owned(),
        "begin".to_owned(),
        "select 1; create table t (a)".to_owned(),
    ] {
        let error = ask(&mut database, &statement).unwrap_err();
        let is_refused = matches!(error, SqlError::Refused(_));
        assert!(is_refused || error.to_string().contains("not authorized"), "{statement}: {error}");
    }
    assert!(!folder.0.join("made").exists());
    // No function of SQLite reads or writes files here.
    for function in ["readfile('/etc/passwd')", "writefile('/tmp/x', 1)", "edit('x')"] {
        assert!(ask(&mut database, &format!("select {function}")).is_err(), "{function}");
    }
    assert_eq!(rows(&mut database, "select count(*) from events"), ["2"]);
}

#[test]
fn wrong_queries_say_where_and_leave_the_database_usable() {
    let folder = numbers(1);
    let mut database = database(&folder);
    for (query, text) in [
        ("select nought from a", "no such column: nought"),
        ("select \"nought\" from a", "no such column: \"nought\""),
        ("select * from nought", "no such table: nought"),
        ("select from", "near \"from\": syntax error"),
        ("select ?1", "parameter"),
        ("select percentile(n, 101) from a", "0 to 100"),
        ("select percentile('x', 50)", "no number"),
    ] {
        let error = ask(&mut database, query).unwrap_err().to_string();
        assert!(error.contains(text), "{query}: {error}");
    }
    assert!(rows(&mut database, "").is_empty() && rows(&mut database, "-- nothing").is_empty());
    assert_eq!(rows(&mut database, "select 1; select 2;"), ["1", "2"]);
}

#[test]
fn percentiles_are_values_of_the_nearest_rank() {
    let folder = numbers(100);
    let mut database = database(&folder);
    let query = "select percentile(n, 0), percentile(n, 50), percentile(n, 99), percentile(n, 100), median(n) from a";
    assert_eq!(rows(&mut database, query), ["0|49|98|99|49"]);
    assert_eq!(rows(&mut database, "select percentile(n, 50) from a where n < 0"), ["-"]);
    assert_eq!(rows(&mut database, "select median(n / 2.0) from a where n < 3"), ["0.5"]);
    assert_eq!(
        rows(&mut database, "select bucket(0), bucket(1), bucket(1023), bucket(-5), bucket(null)"),
        ["0|1|512|-4|-"]
    );
}

#[test]
fn a_query_ends_when_it_is_to_stop() {
    let folder = numbers(10);
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let reader = Reader::open(&[&folder.0]).unwrap();
    let mut database =
        Database::new(reader, Arc::new(move || asked.load(Ordering::Relaxed))).unwrap();
    stop.store(true, Ordering::Relaxed);
    let endless =
        "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    for query in [endless, "select count(*) from calls", "select count(*) from event_counts"] {
        let error = ask(&mut database, query).unwrap_err();
        assert!(matches!(error, SqlError::Stopped), "{query}: {error}");
    }
    stop.store(false, Ordering::Relaxed);
    assert_eq!(rows(&mut database, "select count(*) from events"), ["20"]);
}

#[test]
fn what_a_timeline_tells_is_there_when_a_query_names_it() {
    // Of Strata's kernel: a call of one thread.
    let context = "i64 tid;";
    let events = [("syscall_entry_read", context), ("syscall_exit_read", "i64 tid; i64 ret;")];
    let mut exit = 7i64.to_le_bytes().to_vec();
    exit.extend(3i64.to_le_bytes());
    let folder = trace(&events, &[(0, 100, &7i64.to_le_bytes()), (1, 350, &exit)]);
    let mut database = database(&folder);
    assert_eq!(rows(&mut database, "select count(*) from event_counts"), ["2"]);
    for _ in 0..2 {
        // No thread is known by these fields: the tables are there, and empty.
        assert_eq!(rows(&mut database, "select count(*) from calls"), ["0"]);
        assert_eq!(rows(&mut database, "select tid, process_name from thread"), ["0|idle"]);
        assert_eq!(rows(&mut database, "select count(*) from event_counts"), ["2"]);
        assert_eq!(rows(&mut database, "select ret from syscall_exit_read"), ["3"]);
    }
    assert!(ask(&mut database, "delete from thread").is_err());
    for view in ["states", "spans", "wakeups", "threads", "processes", "files", "gaps", "counter"] {
        rows(&mut database, &format!("select * from {view}"));
    }
    assert!(ask(&mut database, "select * from event").is_err());
}

#[test]
fn queries_that_read_no_column_see_the_rows_of_the_timeline() {
    let folder = numbers(3);
    for (query, wanted) in [
        ("select count(*) from trace", "1"),
        ("select count(*) from THREAD", "1"),
        ("select count(*) from main.Trace", "1"),
        ("select 1 from trace", "1"),
        ("select exists(select 1 from machine)", "1"),
        ("select count(*) from EVENT_COUNTS", "2"),
        ("select count(*) from Traces_Of_Nobody, trace", "no such table"),
        ("select count(*) from SPAN_JOIN('trace', 'trace')", "1"),
    ] {
        // A database of its own: one query's tables are there for the next.
        let found = ask(&mut database(&folder), query);
        let found = found.unwrap_or_else(|error| vec![error.to_string()]).concat();
        assert!(found.contains(wanted), "{query}: {found}");
    }
}

#[test]
fn functions_on_intervals_have_no_value_without_a_bound() {
    let folder = numbers(3);
    let mut database = database(&folder);
    for (call, wanted) in [
        ("at(5, 5, 6)", "1"),
        ("at(6, 5, 6)", "0"),
        ("at(4.5, 5, 6)", "0"),
        ("at(null, 5, 6)", "-"),
        ("at(5, 5, null)", "-"),
        ("at(9223372036854775807, -9223372036854775808, 9223372036854775807)", "0"),
        ("overlap(-9223372036854775808, 9223372036854775807, 0, 1)", "1"),
        ("symbol(null)", "-"),
        ("symbol(4096)", "-"),
        ("symbol('0xffffffff81000000')", "-"),
        ("symbol('18446744073709551615', 1)", "-"),
    ] {
        assert_eq!(rows(&mut database, &format!("select {call}")), [wanted], "{call}");
    }
    for wrong in ["at('x', 1, 2)", "symbol('main')", "symbol(x'00')", "symbol(1, 'x')", "symbol()"]
    {
        assert!(ask(&mut database, &format!("select {wrong}")).is_err(), "{wrong}");
    }
}

#[test]
fn a_join_of_intervals_takes_tables_of_the_timeline_alone() {
    let folder = numbers(3);
    let mut database = database(&folder);
    assert!(rows(&mut database, "select * from span_join('state', 'syscall', 'thread')").is_empty());
    for (arguments, wanted) in [
        ("", "takes two tables"),
        ("'state'", "takes two tables"),
        ("'calls', 'state'", "'calls' is no table with the columns id"),
        ("'state', 'events'", "'events' is no table with the columns id"),
        ("'state', 'span_join'", "'span_join' is no table"),
        ("'state', 'syscall', 'no\"such'", "no such column"),
        ("'state', 'x\"; drop table state; --'", "no such table"),
        ("null, 'state'", ""),
    ] {
        let error = ask(&mut database, &format!("select * from span_join({arguments})"));
        let text = error.expect_err(arguments).to_string();
        assert!(text.contains(wanted), "{arguments}: {text}");
    }
}

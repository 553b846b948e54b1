//! Tests of values that are written and read again, and of rows that are taken from the pass for the timeline.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use strata_ctf::read::Reader;
use strata_sql::{Cell, Database, Options, RowSink, SharedTaker};

use crate::tables::query;
use crate::threads::Threads;
use crate::timeline_rows::{is_made_of_rows, TimelineRows};
use crate::{FileOrigin, Kind, TableColumn, TableWriter};

fn origin(version: u32, selection: Option<&str>) -> FileOrigin<'_> {
    FileOrigin { version, selection }
}

fn column(name: &str, kind: Kind) -> TableColumn {
    TableColumn { name: name.to_owned(), kind }
}

#[test]
fn values_at_the_limits_of_their_types_are_read_as_they_were_written() {
    let columns = vec![
        column("i\"'\n", Kind::Integer),
        column("u", Kind::Unsigned),
        column("r", Kind::Real),
        column("t", Kind::Text),
        column("b", Kind::Blob),
    ];
    let rows = [
        [
            Cell::Integer(i64::MIN),
            Cell::Text(b"18446744073709551615"),
            Cell::Real(f64::MIN_POSITIVE),
            Cell::Text("é\u{fffd}".as_bytes()),
            Cell::Blob(&[0, 255]),
        ],
        [Cell::Null, Cell::Null, Cell::Null, Cell::Null, Cell::Null],
        [
            Cell::Integer(i64::MAX),
            Cell::Integer(0),
            Cell::Text(b"NaN"),
            // What is no UTF-8 must not get into a column of text.
            Cell::Text(b"\xff"),
            Cell::Text(b"\xff"),
        ],
    ];
    let mut writer =
        TableWriter::new(Vec::new(), columns, Some("i\"'\n"), origin(7, Some("from_ns=5")))
            .unwrap();
    for row in &rows {
        writer.push(row).unwrap();
    }
    let (bytes, written) = writer.finish().unwrap();
    assert_eq!(written, 3);
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let metadata = reader.metadata().file_metadata().key_value_metadata().unwrap();
    assert!(metadata
        .iter()
        .any(|pair| pair.key == "strata.schema_version" && pair.value.as_deref() == Some("7")));
    assert!(metadata
        .iter()
        .any(|pair| pair.key == "strata.selection" && pair.value.as_deref() == Some("from_ns=5")));
    let found: Vec<Vec<Field>> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| row.unwrap().into_columns().into_iter().map(|(_, field)| field).collect())
        .collect();
    assert_eq!(found[0][0], Field::Long(i64::MIN));
    assert_eq!(found[0][1].to_string().trim_end_matches('.'), "18446744073709551615");
    assert_eq!(found[0][2], Field::Double(f64::MIN_POSITIVE));
    assert_eq!(found[0][3], Field::Str("é\u{fffd}".to_owned()));
    assert_eq!(found[0][4], Field::Bytes(vec![0, 255].into()));
    assert!(found[1].iter().all(|field| *field == Field::Null));
    assert_eq!(found[2][0], Field::Long(i64::MAX));
    assert_eq!(found[2][1].to_string().trim_end_matches('.'), "0");
    assert!(matches!(found[2][2], Field::Double(value) if value.is_nan()));
    assert_eq!(found[2][3], Field::Str("\u{fffd}".to_owned()));
    assert_eq!(found[2][4], Field::Bytes(vec![255].into()));
}

#[test]
fn a_value_of_another_type_is_refused_with_its_column() {
    let mut writer =
        TableWriter::new(Vec::new(), vec![column("n", Kind::Integer)], None, origin(1, None))
            .unwrap();
    let error = writer.push(&[Cell::Text(b"x")]).unwrap_err();
    assert!(error.to_string().contains("column 'n'"), "{error}");
}

#[test]
fn values_that_engines_compare_have_statistics_and_times_no_dictionary() {
    let columns = vec![
        column("time_ns", Kind::Integer),
        column("name", Kind::Text),
        column("fields", Kind::Text),
        column("dotted.name", Kind::Integer),
    ];
    let mut writer =
        TableWriter::new(Vec::new(), columns, Some("time_ns"), origin(1, None)).unwrap();
    for time in 0..3000 {
        let fields = format!("{{\"n\":{time}}}");
        let name = Cell::Text(if time % 2 == 0 { b"a" } else { b"b" });
        let fields = Cell::Text(fields.as_bytes());
        writer.push(&[Cell::Integer(time), name, fields, Cell::Integer(time % 3)]).unwrap();
    }
    let (bytes, _) = writer.finish().unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let group = reader.metadata().row_group(0);
    let has = |column: usize| {
        let column = group.column(column);
        (column.statistics().is_some(), column.dictionary_page_offset().is_some())
    };
    assert_eq!(
        [has(0), has(1), has(2), has(3)],
        [(true, false), (true, true), (false, true), (true, true)]
    );
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 3000);
    let last: Vec<Field> =
        rows[2999].clone().into_columns().into_iter().map(|(_, field)| field).collect();
    assert_eq!(last[0], Field::Long(2999));
    assert_eq!(last[2], Field::Str("{\"n\":2999}".to_owned()));
}

/// The golden trace, in a folder that goes with the test.
struct Golden(PathBuf);

impl Golden {
    fn new() -> Golden {
        let folder = std::env::temp_dir().join(format!("strata-golden-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let golden = Golden(folder);
        let archive =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/waits-and-jobs.tar.xz");
        let done = Command::new("tar").arg("-C").arg(&golden.0).args(["-xJf", archive]).status();
        assert!(done.unwrap().success(), "tar and xz unpack the trace");
        golden
    }

    fn database(&self) -> Database {
        let options = Options {
            pairs: vec!["pool:job_begin=pool:job_end:id".parse().unwrap()],
            ..Options::default()
        };
        let reader = Reader::open(&[self.0.join("waits-and-jobs")]).unwrap();
        Database::with_options(reader, options, Arc::new(|| false)).unwrap()
    }
}

impl Drop for Golden {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Rows as texts, each behind the value of its first column.
#[derive(Default)]
struct Lines(Vec<(String, String)>);

impl RowSink for Lines {
    fn columns(&mut self, _: &[&str]) -> io::Result<()> {
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<ControlFlow<()>> {
        self.0.push((format!("{:?}", cells[0]), format!("{cells:?}")));
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn rows_that_are_taken_from_the_pass_are_those_of_queries() {
    let golden = Golden::new();
    let sorted = [
        ("calls", Some("begin_ns")),
        ("states", Some("begin_ns")),
        ("wakeups", Some("time_ns")),
        ("cpu_run", Some("begin_ns")),
        ("spans", Some("begin_ns")),
        ("files", None),
    ];
    let mut queried = golden.database();
    let all = queried.tables().unwrap();
    for (name, _) in sorted {
        let table = all.iter().find(|table| table.name == name).unwrap();
        assert!(is_made_of_rows(table), "the columns of '{name}' have changed: change SHAPES");
    }
    let mut taken = golden.database();
    let names = sorted.iter().map(|(name, _)| *name);
    let taker = SharedTaker::new(TimelineRows::new(names, &std::env::temp_dir()).unwrap());
    taken.take_rows(taker.any()).unwrap();
    let mut rows = taker.into_inner().unwrap();
    rows.finish().unwrap();
    let threads = Threads::read(&mut taken).unwrap();
    for (name, sorted_by) in sorted {
        let mut direct = Lines::default();
        assert!(rows.write(name, &threads, &|| false, &mut direct).unwrap(), "{name}");
        let mut wanted = Lines::default();
        queried.query(&query(name, sorted_by), &mut wanted).unwrap();
        assert!(!wanted.0.is_empty(), "{name}");
        let keys = |lines: &Lines| lines.0.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
        if sorted_by.is_some() && name != "cpu_run" {
            assert!(keys(&direct) == keys(&wanted), "the order of '{name}'");
        }
        // Rows of one time are in any order.
        direct.0.sort();
        wanted.0.sort();
        for (row, other) in direct.0.iter().zip(&wanted.0) {
            assert_eq!(row.1, other.1, "{name}");
        }
        assert_eq!(direct.0.len(), wanted.0.len(), "{name}");
        assert!(!rows.write(name, &threads, &|| false, &mut direct).unwrap(), "twice '{name}'");
    }
    // What was taken is not there any more, and nobody is told that it is empty.
    let refused = taken.query("SELECT count(*) FROM calls", &mut Lines::default());
    assert!(refused.unwrap_err().to_string().contains("whose rows were taken"));
    assert!(queried.take_rows(SharedTaker::new(rows).any()).is_err());
}

#[test]
fn a_request_to_stop_ends_the_writing_of_tables_and_of_sums() {
    let golden = Golden::new();
    let names = ["calls", "states", "files"];
    let mut taken = golden.database();
    let rows = TimelineRows::new(names.into_iter(), &std::env::temp_dir()).unwrap();
    let taker = SharedTaker::new(rows);
    taken.take_rows(taker.any()).unwrap();
    let mut rows = taker.into_inner().unwrap();
    rows.finish().unwrap();
    let threads = Threads::read(&mut taken).unwrap();
    for name in names {
        let mut lines = Lines::default();
        let stopped = rows.write(name, &threads, &|| true, &mut lines).unwrap_err();
        assert_eq!(stopped.kind(), io::ErrorKind::Interrupted, "{name}");
        assert!(lines.0.len() < 8, "{name}: {}", lines.0.len());
    }
}

#[test]
fn a_column_with_too_many_values_for_a_dictionary_is_written_without_one() {
    let columns = vec![column("n", Kind::Integer), column("t", Kind::Text)];
    let mut writer = TableWriter::new(Vec::new(), columns, None, origin(1, None)).unwrap();
    let count = 70_000;
    let text = |number: i64| if number % 9 == 0 { None } else { Some(format!("text {number}")) };
    for number in 0..count {
        let text = text(number);
        let text = text.as_deref().map_or(Cell::Null, |text| Cell::Text(text.as_bytes()));
        writer.push(&[Cell::Integer(number * 3), text]).unwrap();
    }
    let (bytes, _) = writer.finish().unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let mut number = 0;
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let found: Vec<&Field> = row.get_column_iter().map(|(_, field)| field).collect();
        let text = text(number).map_or(Field::Null, Field::Str);
        assert_eq!(found, [&Field::Long(number * 3), &text], "{number}");
        number += 1;
    }
    assert_eq!(number, count);
}

#[test]
fn long_texts_that_repeat_are_in_row_groups_that_have_room_without_a_dictionary() {
    let columns = vec![column("t", Kind::Text)];
    let mut writer = TableWriter::new(Vec::new(), columns, None, origin(1, None)).unwrap();
    let text = vec![b'x'; 1 << 16];
    for _ in 0..10_000 {
        writer.push(&[Cell::Text(&text)]).unwrap();
    }
    let (bytes, _) = writer.finish().unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let groups = reader.metadata().row_groups();
    let rows: Vec<i64> = groups.iter().map(|group| group.num_rows()).collect();
    assert_eq!(rows.iter().sum::<i64>(), 10_000);
    assert!(rows.iter().all(|rows| *rows << 16 <= 260 << 20), "{rows:?}");
}

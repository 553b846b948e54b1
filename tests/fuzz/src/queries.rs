//! A trace, asked in SQL through virtual tables.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use strata_ctf::read::{Message, Reader, TimeRange};
use strata_sql::{Cell, Database, RowSink, SqlError};

use crate::files::{metadata_and_more, Files};

/// Tables of which all rows are read.
const TABLES: usize = 40;

/// Counts rows, and keeps the number in the last one.
#[derive(Default)]
struct Counted {
    rows: u64,
    number: Option<i64>,
}

impl RowSink for Counted {
    fn columns(&mut self, _: &[&str]) -> io::Result<()> {
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<ControlFlow<()>> {
        self.rows += 1;
        for cell in cells {
            if let Cell::Text(text) = cell {
                let text = std::str::from_utf8(text).expect("a text that is UTF-8");
                assert!(!text.contains('\0'), "a text with a NUL");
            }
        }
        self.number = match cells.first() {
            Some(Cell::Integer(number)) => Some(*number),
            _ => None,
        };
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a query. An error of SQLite is a mistake of ours, whatever the trace has.
fn ask(database: &mut Database, query: &str) -> Counted {
    let mut counted = Counted::default();
    if let Err(error) = database.query(query, &mut counted) {
        panic!("{query}: {error}");
    }
    counted
}

/// Metadata, a zero byte, two bytes of flags, bytes of one or two streams.
pub fn run(input: &[u8]) {
    let Some((metadata, [files_flag, flags, bytes @ ..])) = metadata_and_more(input) else {
        return;
    };
    let mut files = Files::new();
    files.add_streams(metadata, usize::from(files_flag & 1) + 1, bytes);
    let Ok(reader) = Reader::open(&[files.folder()]) else { return };
    let (mut records, mut events) = (0, reader.events(TimeRange::ALL));
    while let Some(message) = events.next() {
        records += i64::from(matches!(message, Message::Event(_)));
    }
    drop(events);
    let names = reader.traces().iter().flat_map(|trace| trace.event_classes());
    let mut names = names.map(|class| class.name().replace('\'', "''"));
    // What the other query replaces is no part of a name, and no statement has a NUL.
    let is_plain = |name: &String| !name.contains("name") && !name.contains('\0');
    let (first, last) = (names.next().filter(is_plain), names.last().filter(is_plain));
    let mut database = Database::new(reader, Arc::new(|| false)).expect("a database");
    assert_eq!(ask(&mut database, "select count(*) from events").number, Some(records));
    // From the last record to the first: all of them, but where times go back.
    let mut counted = Counted::default();
    match database.query("select time_ns from events order by time_ns desc", &mut counted) {
        Err(SqlError::Query(text)) if text.contains("times go back") => {}
        end => {
            end.expect("records from the end");
            assert_eq!(counted.rows, records as u64, "records from the end");
            let sorted = "select time_ns from events order by time_ns + 0 desc";
            assert_eq!(counted.number, ask(&mut database, sorted).number, "the first record");
        }
    }
    // Both sides of OR are scans of their own, whose rows are told apart by their numbers.
    if let Some((first, last)) = first.zip(last) {
        let both = format!("(name in ('{first}', 'x') and cpu is null) or name = '{last}'");
        let count = |condition: &str| format!("select count(*) from events where {condition}");
        let found = ask(&mut database, &count(&both)).number;
        let wanted = ask(&mut database, &count(&both.replace("name", "+name"))).number;
        assert_eq!(found, wanted, "{both}");
    }
    let tables = database.tables().expect("the tables");
    let is_of_events = |columns: &[(String, String)]| {
        columns.first().is_some_and(|(name, _)| name == "time_ns")
            && columns.iter().any(|(name, _)| name == "fields")
    };
    let of_events = tables.iter().filter(|table| is_of_events(&table.columns));
    let mut of_classes = 0;
    for table in of_events.clone().take(TABLES) {
        let name = format!("\"{}\"", table.name.replace('"', "\"\""));
        let all = ask(&mut database, &format!("select * from {name}"));
        of_classes += if table.name == "events" { 0 } else { all.rows };
    }
    if of_events.count() <= TABLES && database.classes_left_out() == 0 {
        assert_eq!(of_classes, records as u64, "records of all events' tables");
    }
    if flags & 1 != 0 {
        for view in ["calls", "states", "spans", "gaps", "wakeups", "events_by_name", "processes"] {
            ask(&mut database, &format!("select * from {view}"));
        }
        let counted = "select coalesce(sum(records), 0) from event_counts";
        assert_eq!(ask(&mut database, counted).number, Some(records), "event_counts");
    }
}

//! Tests of databases of random rows: they are as if SQLite had inserted the rows, and SQLite finds them in order.

use std::path::Path;

use rusqlite::types::{ToSqlOutput, Value};
use rusqlite::Connection;
use strata_random::Random;

use super::batch::{Batch, SqlCell};
use super::pages::{PageFile, Record, TableTree, PAGE};
use super::schema::{InsertStatement, SqlTable, INDEXES, TABLES};
use super::writer::DatabaseWriter;
use crate::hand_tests::Hand;

/// How the columns of random rows are.
struct Chooser {
    random: Random,
    /// Whether times sometimes go back, as in damaged traces.
    goes_back: bool,
    time: i64,
    /// The number of the last row of each table with a column `id`.
    ids: Vec<i64>,
    rows: u64,
}

impl Chooser {
    fn integer(&mut self) -> i64 {
        let bits = self.random.next() as i64 >> self.random.below(64_u32);
        match self.random.below(4_u32) {
            0 => self.random.below(3_i64) - 1,
            // The limits of each size of integers.
            1 => (1_i64 << (8 * self.random.below(8_u32) + 7)).wrapping_sub(self.random.below(3)),
            2 => bits.wrapping_neg(),
            _ => bits,
        }
    }

    /// A text that is short, or so long that the row is near a limit of a page.
    fn text(&mut self, batch: &mut Batch) -> SqlCell {
        let length = match self.random.below(8_u32) {
            0 => PAGE - 60 + self.random.below(60_usize),
            1 => self.random.below(4 * PAGE),
            _ => self.random.below(40_usize),
        };
        batch.text("x".repeat(length).as_bytes())
    }

    fn cell(&mut self, batch: &mut Batch, table: usize, name: &str, of: &str) -> SqlCell {
        if of.contains("PRIMARY KEY") {
            self.ids[table] += 1 + (self.random.next() >> (12 + self.random.below(52_u32))) as i64;
            return self.ids[table].into();
        }
        if !of.contains("NOT NULL") && self.random.chance(8) {
            return SqlCell::Null;
        }
        if name.ends_with("_ns") {
            let back = if self.goes_back && self.random.chance(100) { 1_000 } else { 0 };
            self.time += self.random.below(300_i64) - back;
            return self.time.into();
        }
        match (of.split(' ').next().unwrap(), name) {
            ("NUMERIC", _) => match self.random.below(4_u32) {
                0 => SqlCell::Integer(self.integer()),
                1 => SqlCell::Real(self.integer() as f64),
                2 => SqlCell::Real([-0.0, 0.5, 1e300, f64::INFINITY][self.random.below(4_usize)]),
                _ => SqlCell::Real(f64::from_bits(self.random.next() & !(0x7ff << 52))),
            },
            ("TEXT", "number") => batch.text(self.rows.to_string().as_bytes()),
            ("TEXT", "name") => match self.random.below(4_u32) {
                0 => SqlCell::Word("read"),
                1 => batch.text(b"rea"),
                // Too long for a page of an index.
                2 => batch.text("long ".repeat(PAGE / 3).as_bytes()),
                _ => batch.text(format!("app:{}", self.random.below(30_u32)).as_bytes()),
            },
            ("TEXT", "kind") => SqlCell::Word(["futex", "mutex"][self.random.below(2_usize)]),
            ("TEXT", _) => self.text(batch),
            (_, "thread" | "cpu" | "stack" | "trace") => self.random.below(20_i64).into(),
            _ => self.integer().into(),
        }
    }

    /// Adds a row of any table, or a change of a wait.
    fn row(&mut self, batch: &mut Batch) {
        self.rows += 1;
        let statement = match self.random.below(20_u32) {
            0 => InsertStatement::TimedOut,
            1 => InsertStatement::WaitedFor,
            2..=9 => InsertStatement::Event,
            10..=13 => InsertStatement::State,
            _ => InsertStatement::ALL[self.random.below(TABLES.len())],
        };
        let state = self.ids[InsertStatement::State as usize];
        let cells: Vec<SqlCell> = match statement {
            InsertStatement::TimedOut => vec![state.into()],
            InsertStatement::WaitedFor => vec![self.integer().into(), state.into()],
            of => {
                let table = of as usize;
                let columns = TABLES[table].columns.iter();
                columns.map(|(name, of)| self.cell(batch, table, name, of)).collect()
            }
        };
        batch.row(statement, &cells);
    }
}

/// A database to which SQLite itself has added the rows.
fn inserted(batches: &[Batch]) -> Connection {
    let database = Connection::open_in_memory().unwrap();
    database.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    for table in &TABLES {
        database.execute_batch(&table.create()).unwrap();
    }
    for batch in batches {
        let mut cells = batch.cells.iter();
        for row in &batch.rows {
            let of_row = cells.by_ref().take(row.cells()).map(|cell| match *cell {
                SqlCell::Null => Value::Null,
                SqlCell::Integer(value) => Value::Integer(value),
                SqlCell::Real(value) => Value::Real(value),
                SqlCell::Word(word) => Value::Text(word.to_owned()),
                SqlCell::Text { from, to } => {
                    Value::Text(String::from_utf8(batch.text[from..to].to_vec()).unwrap())
                }
            });
            let of_row: Vec<_> = of_row.map(ToSqlOutput::Owned).collect();
            let of_row = rusqlite::params_from_iter(&of_row);
            database.prepare(&row.sql()).unwrap().execute(of_row).unwrap();
        }
    }
    database
}

fn all_rows(database: &Connection, table: &SqlTable) -> Vec<Vec<(Value, String)>> {
    let names = table.columns.iter().map(|(name, _)| *name);
    let names: Vec<&str> = ["id"].into_iter().chain(names.filter(|name| *name != "id")).collect();
    let columns: Vec<String> = names.iter().map(|name| format!("{name}, typeof({name})")).collect();
    let query = format!("SELECT {} FROM {} ORDER BY id", columns.join(", "), table.name);
    let mut statement = database.prepare(&query).unwrap();
    let row = |row: &rusqlite::Row<'_>| {
        (0..names.len()).map(|at| Ok((row.get(2 * at)?, row.get(2 * at + 1)?))).collect()
    };
    statement.query_map((), row).unwrap().map(Result::unwrap).collect()
}

fn check(path: &Path, what: &str) -> Connection {
    let database = Connection::open(path).unwrap();
    let found: String =
        database.query_row(&format!("PRAGMA integrity_check{what}"), (), |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
    database
}

#[test]
fn random_rows_are_as_sqlite_inserts_them_and_their_indexes_are_in_order() {
    let seed = strata_random::seed();
    // None of a table, one, and so many that b-trees have four levels and more.
    for (round, rows) in [0, 1, 30, 2500, 2500].into_iter().enumerate() {
        let random = Random::from_seed(seed.wrapping_add(round as u64));
        let (time, ids, goes_back) = (1_i64 << 60, vec![-1; TABLES.len()], round == 4);
        let mut chooser = Chooser { random, goes_back, time, ids, rows: 0 };
        let mut batches = vec![Batch::default()];
        for _ in 0..rows {
            let batch = batches.last_mut().unwrap();
            chooser.row(batch);
            if chooser.random.chance(200) {
                batches.push(Batch::default());
            }
        }
        let last = batches.last_mut().unwrap();
        for change in [
            InsertStatement::NameRequests,
            InsertStatement::NameInterrupts,
            InsertStatement::NameLockProcesses,
            InsertStatement::IndexLocks,
            InsertStatement::LeaveOutFutexes,
        ] {
            last.row(change, &[]);
        }
        last.is_last = true;
        let wanted = inserted(&batches);
        let hand = Hand::new();
        let path = hand.0.join("rows.sqlite");
        let mut writer = DatabaseWriter::new(&path, None, Box::new(|| false)).unwrap();
        for batch in batches {
            writer.write(batch).unwrap();
        }
        let found = check(&path, "");
        for table in &TABLES {
            let (found, wanted) = (all_rows(&found, table), all_rows(&wanted, table));
            assert_eq!(found.len(), wanted.len(), "{} in round {round}", table.name);
            for (found, wanted) in found.iter().zip(&wanted) {
                assert_eq!(found, wanted, "{} in round {round}", table.name);
            }
        }
        let names = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND sql NOT NULL";
        let indexes: u32 = found.query_row(names, (), |row| row.get(0)).unwrap();
        // And the one that leaves out futexes.
        assert_eq!(indexes as usize, INDEXES.len() + 1);
    }
}

#[test]
fn page_with_the_locks_of_a_large_database_has_no_rows() {
    let hand = Hand::new();
    let path = hand.0.join("large.sqlite");
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(&format!("PRAGMA page_size = {PAGE}; CREATE TABLE t (text TEXT)"))
        .unwrap();
    drop(database);
    for (before, overflow) in [(1, 0), (2, 0), (2, 4), (5, 20), (3, 2)] {
        let mut file = PageFile::open(&path).unwrap();
        // The pages in between are holes.
        file.skip_to_locks(before);
        let mut tree = TableTree::new();
        let mut record = Record::default();
        let text = "x".repeat(overflow * PAGE + 100);
        for number in 1..=20 {
            record.clear();
            record.text(text.as_bytes());
            tree.add(&mut file, number, record.whole()).unwrap();
        }
        tree.finish(&mut file, 2).unwrap();
        file.finish().unwrap();
        let database = check(&path, "('t')");
        let count = "SELECT count(*), sum(length(text)) FROM t";
        let found = database.query_row(count, (), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(found, (20, 20 * text.len() as i64));
    }
}

#[test]
fn row_behind_a_later_one_or_without_a_value_is_refused() {
    let write = |cells: &[[SqlCell; 2]]| {
        let hand = Hand::new();
        let path = hand.0.join("rows.sqlite");
        let mut writer = DatabaseWriter::new(&path, None, Box::new(|| false)).unwrap();
        let mut batch = Batch { is_last: true, ..Batch::default() };
        cells.iter().for_each(|cells| batch.row(InsertStatement::Machine, cells));
        writer.write(batch).map_err(|error| error.to_string())
    };
    let name = SqlCell::Word("box");
    write(&[[0.into(), name], [1.into(), name]]).unwrap();
    let error = write(&[[1.into(), name], [1.into(), name]]).unwrap_err();
    assert!(error.contains("row 1"), "{error}");
    let error = write(&[[1.into(), SqlCell::Null]]).unwrap_err();
    assert!(error.contains("'machine' has no value for 'name'"), "{error}");
}

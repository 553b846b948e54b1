//! Event records as virtual tables of SQLite.
//!
//! `best_index` decides which parts of a query the reader handles itself: bounds of `time_ns`, names of events, and the
//! needed columns. It encodes them as a text, which `filter` decodes together with the values.

use std::borrow::Cow;
use std::ffi::{c_int, CStr, CString};
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::types::{FromSql, FromSqlResult, Value, ValueRef};
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConnection, VTabCursor,
};
use rusqlite::{ffi, Connection, Error, Result};
use strata_ctf::read::TimeRange;

use crate::catalog::{EventTable, Source};
use crate::row_batch::RowBatch;
use crate::scan::{EventScan, RowOrder, ScanEnd, ScanRequest};
use crate::scan_cache::{KeptRows, ReadRows, RowsFrom, RowsWanted};
use crate::shared_data::Shared;

/// Letters in a plan that mean that SQLite relies on rows in the order of time, the first or the last record first.
const ASCENDING: char = 's';
const DESCENDING: char = 'd';
/// Last letter in a plan that means that rows have their numbers.
const NUMBERS: char = '#';
/// First of the columns that share one bit in SQLite's mask of needed columns.
const LAST_BIT: usize = 63;

/// The traces, and the index of a table in the catalog.
type TableOfTraces = (Arc<Shared>, usize);

/// Makes the tables of the catalog. Each is a module of its own name, whose table SQLite makes when a query first names it:
/// statements that make tables read the schema again and again, which takes longer than most queries if there are a
/// thousand events.
///
/// # Errors
/// SQLite refuses a table, which is a mistake of this crate, whatever the trace contains.
pub(crate) fn create(connection: &Connection, shared: &Arc<Shared>) -> Result<()> {
    const EVENTS: Module<'_, EventVTab> = Module::eponymous_only_module();
    for (index, table) in shared.catalog.tables.iter().enumerate() {
        let aux = Some((Arc::clone(shared), index));
        connection.create_module(table.name.as_str(), &EVENTS, aux)?;
    }
    Ok(())
}

/// A table of event records.
#[repr(C)]
struct EventVTab {
    /// SQLite's own part, which must be the first.
    base: ffi::sqlite3_vtab,
    shared: Arc<Shared>,
    index: usize,
}

impl EventVTab {
    fn table(&self) -> Option<&EventTable> {
        self.shared.catalog.tables.get(self.index)
    }
}

fn failed(text: String) -> Error {
    Error::ModuleError(text)
}

/// A condition that the reader checks. Its letter is written in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    TimeFrom,
    TimeAbove,
    TimeTo,
    TimeBelow,
    TimeIs,
    NameIs,
    NameIn,
}

impl Condition {
    const LETTERS: [(char, Condition); 7] = [
        ('G', Condition::TimeFrom),
        ('g', Condition::TimeAbove),
        ('L', Condition::TimeTo),
        ('l', Condition::TimeBelow),
        ('e', Condition::TimeIs),
        ('n', Condition::NameIs),
        ('i', Condition::NameIn),
    ];

    fn of(source: Source, op: IndexConstraintOp) -> Option<Condition> {
        use IndexConstraintOp as Op;
        Some(match (source, op) {
            (Source::Time, Op::SQLITE_INDEX_CONSTRAINT_GE) => Condition::TimeFrom,
            (Source::Time, Op::SQLITE_INDEX_CONSTRAINT_GT) => Condition::TimeAbove,
            (Source::Time, Op::SQLITE_INDEX_CONSTRAINT_LE) => Condition::TimeTo,
            (Source::Time, Op::SQLITE_INDEX_CONSTRAINT_LT) => Condition::TimeBelow,
            (Source::Time, Op::SQLITE_INDEX_CONSTRAINT_EQ) => Condition::TimeIs,
            (Source::Name, Op::SQLITE_INDEX_CONSTRAINT_EQ) => Condition::NameIs,
            _ => return None,
        })
    }

    fn letter(self) -> char {
        Condition::LETTERS
            .iter()
            .find(|(_, other)| *other == self)
            .map_or(' ', |(letter, _)| *letter)
    }

    fn is_of_name(self) -> bool {
        matches!(self, Condition::NameIs | Condition::NameIn)
    }
}

// SAFETY: `EventVTab` is `repr(C)`, and its first member is SQLite's part.
unsafe impl VTab<'_> for EventVTab {
    type Aux = TableOfTraces;
    type Cursor = EventCursor;

    fn connect(
        _: &mut VTabConnection,
        aux: Option<&TableOfTraces>,
        _module: &[u8],
        _database: &[u8],
        _table: &[u8],
        _args: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        let (shared, index) = aux.ok_or_else(|| failed("the module has no traces".to_owned()))?;
        let (shared, index) = (Arc::clone(shared), *index);
        let table = EventVTab { base: ffi::sqlite3_vtab::default(), shared, index };
        let declared = table.table().map(EventTable::declaration);
        let declared = declared.ok_or_else(|| failed(format!("there is no table {index}")))?;
        Ok((Cow::Owned(CString::new(declared)?), table))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let Some(table) = self.table() else { return Ok(false) };
        let source = |column: c_int| {
            let column = usize::try_from(column).ok()?;
            table.columns.get(column).map(|column| column.source)
        };
        let mut found = Vec::new();
        for (index, constraint) in info.constraints().enumerate() {
            let condition =
                source(constraint.column()).and_then(|of| Condition::of(of, constraint.operator()));
            if let Some(condition) = condition.filter(|_| constraint.is_usable()) {
                found.push((index, condition));
            }
        }
        let mut letters = String::new();
        let mut cost = 1e9;
        for (index, mut condition) in found {
            if condition.is_of_name() {
                // In other collations, different names are equal.
                if info.collation(index)? != "BINARY" || letters.contains(['n', 'i']) {
                    continue;
                }
                if info.set_in_constraint(index, true)? {
                    condition = Condition::NameIn;
                }
            }
            letters.push(condition.letter());
            cost /= if condition == Condition::TimeIs { 1000.0 } else { 4.0 };
            let argument = c_int::try_from(letters.len()).unwrap_or(c_int::MAX);
            let mut usage = info.constraint_usage(index);
            usage.set_argv_index(argument);
            // SQLite checks bounds of time again, since they may be no integers.
            usage.set_omit(condition.is_of_name());
        }
        let by: Vec<_> = info.order_bys().collect();
        if let ([by], Some(Source::Time)) = (&*by, by.first().and_then(|by| source(by.column()))) {
            // A scan of a damaged trace whose times go back fails.
            let order = match by.is_order_by_desc() {
                false => Some(ASCENDING),
                true => self.shared.slices().map(|_| DESCENDING),
            };
            if let Some(order) = order {
                info.set_order_by_consumed(true);
                letters.push(order);
            }
        }
        // SQLite's mask does not say whether the query reads numbers of rows.
        let used = info.col_used();
        let has_numbers = used != 0 || self.shared.reads_numbers.load(Ordering::Relaxed);
        if has_numbers {
            letters.push(NUMBERS);
        }
        info.set_idx_str(&format!("{used:x} {letters}"));
        info.set_estimated_cost(cost);
        info.set_estimated_rows((cost / 10.0) as i64);
        Ok(true)
    }

    fn open(&mut self) -> Result<EventCursor> {
        Ok(EventCursor {
            base: ffi::sqlite3_vtab_cursor::default(),
            shared: Arc::clone(&self.shared),
            table: self.index,
            scan: None,
            cells: Vec::new(),
            batch: RowBatch::default(),
            kept: None,
            width: 0,
            row: 0,
            rows_before: 0,
        })
    }
}

/// Position of a query in a table.
#[repr(C)]
struct EventCursor {
    /// SQLite's own part, which must be the first.
    base: ffi::sqlite3_vtab_cursor,
    shared: Arc<Shared>,
    table: usize,
    scan: Option<EventScan>,
    /// Index of each column's cell in a row of `scan`; `None` for a column that the query does not need.
    cells: Vec<Option<usize>>,
    batch: RowBatch,
    /// Rows of an earlier scan, in place of `batch`.
    kept: Option<KeptPart>,
    /// Number of cells in a row.
    width: usize,
    /// Index of the row in the batch, and number of all rows in the batches before.
    row: usize,
    rows_before: usize,
}

/// A part of kept rows. The cursor's `row` is within this part, or directly after it.
#[derive(Debug)]
struct KeptPart {
    rows: Arc<KeptRows>,
    from: usize,
    to: usize,
    /// True if the last row comes first.
    is_reversed: bool,
}

/// A value of any type of SQLite's.
struct AnyValue(Value);

impl FromSql for AnyValue {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(AnyValue(match value {
            // No event has a name that is no UTF-8.
            ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
            value => Value::try_from(value)?,
        }))
    }
}

/// Narrows a range of time by a condition. A value that is no number does not narrow it: SQLite checks the condition
/// again.
fn narrow(range: &mut TimeRange, condition: Condition, value: &Value) {
    let (low, high) = match *value {
        Value::Integer(value) => (value, value),
        // Saturating, and one more on both sides, since the conversion rounds.
        Value::Real(value) if value.is_finite() => {
            let slack = ((value.abs() * f64::EPSILON) as i64).saturating_add(1);
            (
                (value.floor() as i64).saturating_sub(slack),
                (value.ceil() as i64).saturating_add(slack),
            )
        }
        _ => return,
    };
    let is_exact = low == high;
    match condition {
        Condition::TimeAbove if is_exact => range.from = range.from.max(low.saturating_add(1)),
        Condition::TimeFrom | Condition::TimeAbove => range.from = range.from.max(low),
        Condition::TimeBelow if is_exact => range.to = range.to.min(high.saturating_sub(1)),
        Condition::TimeTo | Condition::TimeBelow => range.to = range.to.min(high),
        Condition::TimeIs => *range = range.and(&TimeRange { from: low, to: high }),
        Condition::NameIs | Condition::NameIn => {}
    }
}

impl EventCursor {
    fn step(&mut self) -> Result<()> {
        self.row += 1;
        if self.row < self.batch.rows || self.kept.is_some() {
            return Ok(());
        }
        self.fill()
    }

    #[inline(never)]
    fn fill(&mut self) -> Result<()> {
        self.row = 0;
        let used = mem::take(&mut self.batch);
        self.rows_before += used.rows;
        let next = match &self.scan {
            Some(scan) => scan.next(used, &self.shared),
            None => Ok(None),
        };
        if !matches!(next, Ok(Some(_))) {
            self.scan = None;
        }
        self.batch = next.map_err(ended)?.unwrap_or_default();
        Ok(())
    }

    /// Returns the rows, and the index of the present one.
    #[inline]
    fn place(&self) -> (&RowBatch, usize) {
        match &self.kept {
            None => (&self.batch, self.row),
            Some(part) => {
                let row = match part.is_reversed {
                    true => part.to.saturating_sub(self.row + 1),
                    false => part.from + self.row,
                };
                (&part.rows.batch, row)
            }
        }
    }

    /// Begins to read the rows of a request: those that were kept, or those of the traces.
    fn begin(&mut self, request: ScanRequest) -> Result<()> {
        let wanted = RowsWanted {
            table: request.table,
            columns: request.columns.clone(),
            classes: request.classes.clone(),
            has_numbers: request.has_numbers,
        };
        let cache = &self.shared.cache;
        let rows = match cache.begin_scan(&wanted) {
            RowsFrom::Kept(rows) => Some(rows),
            RowsFrom::Traces => None,
            RowsFrom::TracesToKeep(room, time) => {
                let read = self.read_to_keep(&request, room, time)?;
                cache.keep(&wanted, &read);
                match read {
                    ReadRows::All(rows) => Some(rows),
                    ReadRows::TooMany | ReadRows::Late(_) => None,
                }
            }
        };
        if let Some(rows) = rows {
            let (from, to) = rows.part(&request.range);
            self.width = rows.width;
            let is_reversed = request.order == RowOrder::Descending;
            self.kept = Some(KeptPart { rows, from, to, is_reversed });
            return Ok(());
        }
        self.shared.tell_of_scans();
        let scan = EventScan::begin(&self.shared, request);
        self.scan = Some(scan.map_err(|error| no_thread(&error))?);
        self.fill()
    }

    /// Reads the rows of a request, of all times, if they have room and reading them does not take longer than `time`.
    fn read_to_keep(&self, request: &ScanRequest, room: usize, time: Duration) -> Result<ReadRows> {
        let begin = Instant::now();
        let mut columns = request.columns.clone();
        columns.push(Source::Time);
        let mut rows = KeptRows::new(columns.len());
        let all =
            ScanRequest { columns, range: TimeRange::ALL, order: RowOrder::Any, ..request.clone() };
        let scan = EventScan::begin(&self.shared, all).map_err(|error| no_thread(&error))?;
        let mut used = RowBatch::default();
        loop {
            match scan.next_until(used, &self.shared, begin + time) {
                Ok(Some(batch)) if !rows.append(&batch, room) => return Ok(ReadRows::TooMany),
                Ok(Some(batch)) => used = batch,
                Ok(None) => return Ok(ReadRows::All(Arc::new(rows))),
                Err(ScanEnd::Late) => return Ok(ReadRows::Late(begin.elapsed())),
                Err(end) => return Err(ended(end)),
            }
        }
    }
}

fn no_thread(error: &std::io::Error) -> Error {
    failed(format!("no thread to read with: {error}"))
}

/// Returns SQLite's error for a scan that has ended before its last row.
fn ended(end: ScanEnd) -> Error {
    match end {
        ScanEnd::Failed(text) => failed(text),
        ScanEnd::Stopped | ScanEnd::Late => Error::SqliteFailure(
            ffi::Error::new(ffi::SQLITE_INTERRUPT),
            Some("interrupted".to_owned()),
        ),
    }
}

// SAFETY: `EventCursor` is `repr(C)`, and its first member is SQLite's part.
unsafe impl VTabCursor for EventCursor {
    fn filter(&mut self, _: c_int, plan: Option<&str>, args: &Filters<'_>) -> Result<()> {
        let (used, letters) = plan.and_then(|plan| plan.split_once(' ')).unwrap_or(("0", ""));
        let used = u64::from_str_radix(used, 16).unwrap_or(u64::MAX);
        let mut range = TimeRange::ALL;
        let mut names: Option<Vec<String>> = None;
        for (index, letter) in letters.chars().enumerate() {
            let condition = Condition::LETTERS.iter().find(|(other, _)| *other == letter);
            match condition.map(|(_, condition)| *condition) {
                Some(Condition::NameIn) => {
                    let mut all = Vec::new();
                    let mut values = args.in_values(index)?;
                    while let Some(value) = values.next()? {
                        if let ValueRef::Text(text) = value {
                            all.push(String::from_utf8_lossy(text).into_owned());
                        }
                    }
                    names = Some(all);
                }
                Some(Condition::NameIs) => {
                    let AnyValue(value) = args.get(index)?;
                    names = Some(match value {
                        Value::Text(name) => vec![name],
                        // As in a table with a text column, the number is compared as text.
                        Value::Integer(number) => vec![number.to_string()],
                        _ => Vec::new(),
                    });
                }
                Some(condition) => {
                    let AnyValue(value) = args.get(index)?;
                    narrow(&mut range, condition, &value);
                }
                None => {}
            }
        }
        let classes = self.shared.catalog.classes_of(self.table, names.as_deref());
        let all =
            self.shared.catalog.tables.get(self.table).map_or(&[][..], |table| &table.columns);
        self.cells.clear();
        let mut columns = Vec::new();
        for (index, column) in all.iter().enumerate() {
            let is_used = used >> index.min(LAST_BIT) & 1 != 0;
            self.cells.push(is_used.then_some(columns.len()));
            if is_used {
                columns.push(column.source);
            }
        }
        self.width = columns.len();
        let nothing = range.from > range.to
            || classes.as_ref().is_some_and(|classes| !classes.contains(&true));
        self.scan = None;
        self.kept = None;
        self.batch = RowBatch::default();
        self.row = 0;
        self.rows_before = 0;
        if nothing {
            return Ok(());
        }
        let (letters, has_numbers) = match letters.strip_suffix(NUMBERS) {
            Some(letters) => (letters, true),
            None => (letters, false),
        };
        let order = match letters.chars().last() {
            Some(ASCENDING) => RowOrder::Ascending,
            Some(DESCENDING) => RowOrder::Descending,
            _ => RowOrder::Any,
        };
        let request =
            ScanRequest { table: self.table, columns, range, classes, order, has_numbers };
        self.begin(request)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.step()
    }

    #[inline]
    fn eof(&self) -> bool {
        match &self.kept {
            None => self.row >= self.batch.rows,
            Some(part) => self.row >= part.to - part.from,
        }
    }

    #[inline]
    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let column = usize::try_from(column).unwrap_or(usize::MAX);
        let place = self.cells.get(column).copied().flatten();
        let (batch, row) = self.place();
        let cell = place.and_then(|place| batch.cells.get(row * self.width + place));
        let value = cell.map_or(ValueRef::Null, |cell| batch.value(*cell, &self.shared.catalog));
        context.set_result(&Borrowed(value))
    }

    fn rowid(&self) -> Result<i64> {
        // Where only the number of rows counts, rows have numbers that are at least different.
        let (batch, row) = self.place();
        let of_record = batch.ids.get(row).copied();
        Ok(of_record.unwrap_or((self.rows_before + self.row) as i64))
    }
}

/// A value that SQLite copies.
struct Borrowed<'v>(ValueRef<'v>);

impl rusqlite::ToSql for Borrowed<'_> {
    #[inline]
    fn to_sql(&self) -> Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(rusqlite::types::ToSqlOutput::Borrowed(self.0))
    }
}

//! Queries, and the parts of a database that must be computed before a query can run.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::config::DbConfig;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Batch, Connection, ErrorCode, OpenFlags, Statement};
use strata_analyze::stats;
use strata_ctf::read::{Reader, TimeRange};
use strata_export::sql::{empty_timeline, SharedTaker, TakenTable, TimelineNames};

use crate::catalog::{text, Column, EventTable};
use crate::choice::{Choice, Options};
use crate::error::SqlError;
use crate::findings::Found;
use crate::parameters::Parameters;
use crate::row_batch::RowBatch;
use crate::row_sink::{Cell, EventRows, RowSink};
use crate::scan::{EventScan, RowOrder, ScanEnd, ScanRequest};
use crate::shared_data::{Remark, Shared, StopCheck};
use crate::symbols::SymbolThread;
use crate::{functions, span_join, table, timeline_tables};

/// Number of SQLite's instructions between two checks for a request to stop: some milliseconds.
const LOOK_INTERVAL: i32 = 1 << 16;

/// Version of the schema, which is that of `strata export --to sqlite`.
const VERSION: u32 = strata_export::sql::SCHEMA_VERSION;

/// Bits of the parts that are computed before a query can read them.
const COUNTS: u8 = 1;
const TIMELINE: u8 = 2;

/// Collects the parts of the database that statements need, as SQLite's authorizer reports them.
#[derive(Debug, Default)]
struct Needs {
    needed: AtomicU8,
    /// Set if a statement reads numbers of rows; shared with the tables.
    reads_numbers: Arc<AtomicBool>,
    refused: Mutex<Option<String>>,
    /// True if another receiver gets the rows of the tables that can be taken.
    are_taken: AtomicBool,
}

impl Needs {
    /// Decides whether a part of a statement is allowed: only reading is.
    fn check(&self, context: &AuthContext<'_>) -> Authorization {
        let word = match context.action {
            AuthAction::Select | AuthAction::Recursive => return Authorization::Allow,
            AuthAction::Function { function_name } => {
                match function_name.eq_ignore_ascii_case("load_extension") {
                    false => return Authorization::Allow,
                    true => "load_extension",
                }
            }
            AuthAction::Read { table_name, column_name } => {
                if column_name.eq_ignore_ascii_case("rowid") {
                    self.reads_numbers.store(true, Ordering::Relaxed);
                }
                // Where a query reads no column of a table, as with count(*), SQLite tells the name as the query spells it,
                // and no database.
                let name = table_name.to_ascii_lowercase();
                let is_main =
                    context.database_name.is_none_or(|of| of.eq_ignore_ascii_case("main"));
                let is_taken = || TakenTable::ALL.iter().any(|table| table.name() == name);
                if is_main && self.are_taken.load(Ordering::Relaxed) && is_taken() {
                    let text = format!("{name}, whose rows were taken,");
                    self.refused.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(text);
                    return Authorization::Deny;
                }
                if name == "event_counts" {
                    self.needed.fetch_or(COUNTS, Ordering::Relaxed);
                } else if name == span_join::NAME || is_main && TimelineNames::has_table(&name) {
                    self.needed.fetch_or(TIMELINE, Ordering::Relaxed);
                }
                return Authorization::Allow;
            }
            AuthAction::Pragma { pragma_name, .. } => {
                if ["table_info", "table_xinfo", "table_list", "function_list", "user_version"]
                    .iter()
                    .any(|name| pragma_name.eq_ignore_ascii_case(name))
                {
                    return Authorization::Allow;
                }
                "PRAGMA"
            }
            AuthAction::Attach { .. } => "ATTACH",
            AuthAction::Detach { .. } => "DETACH",
            AuthAction::Insert { .. } => "INSERT",
            AuthAction::Update { .. } => "UPDATE",
            AuthAction::Delete { .. } => "DELETE",
            AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => "a transaction",
            AuthAction::AlterTable { .. } => "ALTER",
            AuthAction::Analyze { .. } => "ANALYZE",
            AuthAction::Reindex { .. } => "REINDEX",
            _ => "CREATE or DROP",
        };
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get_or_insert_with(|| word.to_owned());
        Authorization::Deny
    }

    fn take_refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Traces that can be queried in SQL.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    shared: Arc<Shared>,
    needs: Arc<Needs>,
    symbols: Arc<SymbolThread>,
    /// Bits of the parts that were computed.
    has: u8,
    parameters: Parameters,
}

/// Rows of event records that are asked for without a query.
#[derive(Clone, Copy, Debug)]
pub struct EventRequest<'q> {
    /// Name of the table, as [`Database::tables`] has it.
    pub table: &'q str,
    /// Names of the columns; `None` for all.
    pub columns: Option<&'q [String]>,
    /// Names of the events; `None` for all of the table.
    pub names: Option<&'q [String]>,
}

impl<'q> EventRequest<'q> {
    /// Asks for all of a table.
    #[must_use]
    pub fn all_of(table: &'q str) -> EventRequest<'q> {
        EventRequest { table, columns: None, names: None }
    }
}

/// A table or a view, with its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// Name of the table, without quotes.
    pub name: String,
    /// Names and types of the columns, in their order.
    pub columns: Vec<(String, String)>,
    /// True if its rows are event records: see [`Database::rows_of_events`].
    pub is_of_events: bool,
}

impl Database {
    /// Makes a database of these traces. Several threads call `stop` often; when it returns true, queries end.
    ///
    /// # Errors
    /// SQLite has no memory.
    pub fn new(reader: impl Into<Arc<Reader>>, stop: StopCheck) -> Result<Database, SqlError> {
        Database::with_options(reader, Options::default(), stop)
    }

    /// Makes a database as [`new`](Self::new) does, with these options. If a filter asks for facts that records do not
    /// have themselves, the traces are read for these.
    ///
    /// # Errors
    /// SQLite has no memory, it was stopped, or `options` name a process that does not exist.
    pub fn with_options(
        reader: impl Into<Arc<Reader>>,
        options: Options,
        stop: StopCheck,
    ) -> Result<Database, SqlError> {
        let reader = reader.into();
        let names = options.names.clone();
        let choice = options.compile(&reader, &*stop)?;
        let shared = Arc::new(Shared::new(reader, names, choice, stop));
        let reads_numbers = Arc::clone(&shared.reads_numbers);
        let needs = Arc::new(Needs { reads_numbers, ..Needs::default() });
        let symbols = Arc::new(SymbolThread::new(&shared));
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_MEMORY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let made = || {
            let connection = Connection::open_with_flags(":memory:", flags)?;
            for statement in empty_timeline() {
                connection.execute_batch(&statement)?;
            }
            prepare(&connection, &shared, &symbols, None)?;
            guard(&connection, &shared, &needs)?;
            Ok(connection)
        };
        let connection = made().map_err(|error: rusqlite::Error| of_query(&error))?;
        let parameters = Parameters::default();
        Ok(Database { connection, shared, needs, symbols, has: 0, parameters })
    }

    /// Sets the values of parameters of the next queries: `:name`, `@name`, `$name` and `?1`.
    pub fn set_parameters(&mut self, parameters: Parameters) {
        self.parameters = parameters;
    }

    /// Sets a function that the next query calls at most once, with a remark for the user, if the query takes long
    /// for a reason that the user can change.
    pub fn set_remark(&mut self, remark: Remark) {
        *self.shared.remark.lock().unwrap_or_else(PoisonError::into_inner) = Some(remark);
    }

    /// Returns the damage and the discarded records in all packets that queries have read, and remarks on what tables
    /// lack.
    #[must_use]
    pub fn found(&self) -> Found {
        let mut found = self.shared.findings.found();
        found.left_out.extend(self.shared.choice.left_out.iter().cloned());
        found.left_out.extend(self.shared.names.files.remarks());
        found
    }

    /// Returns the reader of the traces.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.shared.reader
    }

    /// Number of event names that have no table of their own, since there are too many.
    #[must_use]
    pub fn classes_left_out(&self) -> usize {
        self.shared.catalog.left_out
    }

    /// Returns the name of the table with the records of an event; `None` if it has no table of its own.
    #[must_use]
    pub fn table_of_event(&self, event: &str) -> Option<&str> {
        let event = text(event);
        let of_event = |table: &&EventTable| table.event.as_ref() == Some(&event);
        self.shared.catalog.tables.iter().find(of_event).map(|table| table.name.as_str())
    }

    /// Returns all tables and views, with their columns.
    ///
    /// # Errors
    /// SQLite has no memory.
    pub fn tables(&self) -> Result<Vec<Tables>, SqlError> {
        let all = || {
            let names = "SELECT name FROM (SELECT name, type FROM temp.sqlite_schema UNION ALL \
                 SELECT name, type FROM main.sqlite_schema) \
                 WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'";
            let mut names = self.connection.prepare(names)?;
            let names = names.query_map((), |row| row.get::<_, String>(0))?;
            let mut columns =
                self.connection.prepare("SELECT name, type FROM pragma_table_xinfo(?1)")?;
            let of_event = |table: &EventTable| {
                let columns = table.columns.iter();
                let columns =
                    columns.map(|column| (column.name.clone(), column.affinity.to_owned()));
                let columns = columns.collect();
                Tables { name: table.name.clone(), columns, is_of_events: true }
            };
            let mut all: Vec<Tables> = self.shared.catalog.tables.iter().map(of_event).collect();
            for name in names {
                let name = name?;
                let columns = columns.query_map([&name], |row| Ok((row.get(0)?, row.get(1)?)))?;
                let columns = columns.collect::<rusqlite::Result<_>>()?;
                all.push(Tables { name, columns, is_of_events: false });
            }
            Ok(all)
        };
        let all = all().map_err(|error: rusqlite::Error| of_query(&error));
        // Reading the schema needs nothing of the traces.
        self.needs.needed.store(0, Ordering::Relaxed);
        all
    }

    /// Runs the statements of a text, and passes their rows to `sink`.
    ///
    /// # Errors
    /// A statement is wrong or does more than read, the query was stopped, or rows cannot be written.
    pub fn query(&mut self, text: &str, sink: &mut dyn RowSink) -> Result<(), SqlError> {
        self.needs.needed.store(0, Ordering::Relaxed);
        self.needs.reads_numbers.store(false, Ordering::Relaxed);
        self.needs.take_refused();
        self.shared.cache.begin_query();
        let done = self.run(text, sink);
        // Rows that it has kept are of no use to another one.
        self.shared.cache.begin_query();
        done
    }

    fn run(&mut self, text: &str, sink: &mut dyn RowSink) -> Result<(), SqlError> {
        self.look(text)?;
        self.compute(None)?;
        let mut statements = Batch::new(&self.connection, text);
        while let Some(mut statement) = statements.next().map_err(|error| self.failed(&error))? {
            self.bind(&mut statement)?;
            let types: Vec<Option<String>> = statement
                .columns()
                .iter()
                .map(|column| column.decl_type().map(str::to_owned))
                .collect();
            sink.types(&types.iter().map(Option::as_deref).collect::<Vec<_>>());
            let names: Vec<String> =
                statement.column_names().into_iter().map(str::to_owned).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            sink.columns(&names).map_err(SqlError::Output)?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().map_err(|error| self.failed(&error))? {
                let cells: rusqlite::Result<Vec<Cell<'_>>> =
                    (0..names.len()).map(|column| row.get_ref(column)).collect();
                let cells = cells.map_err(|error| self.failed(&error))?;
                if sink.row(&cells).map_err(SqlError::Output)?.is_break() {
                    break;
                }
            }
            sink.end().map_err(SqlError::Output)?;
        }
        Ok(())
    }

    /// Passes rows of a table of event records to `sink`, without SQLite in between: those of `SELECT columns FROM table`, and
    /// `WHERE name IN (names)`. Returns false, without rows, for any other table.
    ///
    /// # Errors
    /// There is no such column, the scan was stopped or has failed, or rows cannot be written.
    pub fn rows_of_events(
        &self,
        request: &EventRequest<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<bool, SqlError> {
        let catalog = &self.shared.catalog;
        let found =
            catalog.tables.iter().enumerate().find(|(_, known)| known.name == request.table);
        let Some((index, table)) = found else { return Ok(false) };
        let mut columns: Vec<&Column> = Vec::new();
        match request.columns {
            None => columns.extend(&table.columns),
            Some(names) => {
                for name in names {
                    let column = table.columns.iter().find(|column| column.name == *name);
                    columns.push(column.ok_or_else(|| {
                        SqlError::Query(format!("no such column: '{name}' in '{}'", table.name))
                    })?);
                }
            }
        }
        let types = columns.iter().map(|column| Some(column.affinity).filter(|of| !of.is_empty()));
        sink.types(&types.collect::<Vec<_>>());
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        sink.columns(&names).map_err(SqlError::Output)?;
        let request = ScanRequest {
            table: index,
            columns: columns.iter().map(|column| column.source).collect(),
            range: TimeRange::ALL,
            classes: catalog.classes_of(index, request.names),
            order: RowOrder::Any,
            has_numbers: false,
        };
        let scan = EventScan::begin(&self.shared, request);
        let scan =
            scan.map_err(|error| SqlError::Query(format!("no thread to read with: {error}")))?;
        let mut used = RowBatch::default();
        let of_scan = |end| match end {
            ScanEnd::Stopped | ScanEnd::Late => SqlError::Stopped,
            ScanEnd::Failed(text) => SqlError::Query(text),
        };
        while let Some(mut batch) = scan.next(used, &self.shared).map_err(of_scan)? {
            let mut rows = EventRows::new(&mut batch, catalog, names.len());
            if sink.event_rows(&mut rows).map_err(SqlError::Output)?.is_break() {
                return Ok(true);
            }
            used = batch;
        }
        sink.end().map_err(SqlError::Output)?;
        Ok(true)
    }

    /// Reads the traces for the tables of the timeline, of which `taker` gets the rows of some. Those tables are then not in the
    /// database: a query that names one is refused.
    ///
    /// # Errors
    /// It was stopped, `taker` or the temporary database has failed, or a query has had these tables before.
    pub fn take_rows(&mut self, taker: SharedTaker) -> Result<(), SqlError> {
        if self.has & TIMELINE != 0 {
            return Err(SqlError::Query("the tables of the timeline are there already".to_owned()));
        }
        self.needs.needed.store(TIMELINE, Ordering::Relaxed);
        self.needs.are_taken.store(true, Ordering::Relaxed);
        self.compute(Some(taker))
    }

    /// Returns true if the user has asked to stop.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        (self.shared.stop)()
    }

    /// Prepares all statements, so that the authorizer reports the parts that they need, and checks their parameters.
    fn look(&self, text: &str) -> Result<(), SqlError> {
        let mut statements = Batch::new(&self.connection, text);
        let mut used = Vec::new();
        while let Some(mut statement) = statements.next().map_err(|error| self.failed(&error))? {
            used.extend(self.bind(&mut statement)?);
        }
        self.parameters.check_used(&used)
    }

    /// Gives a statement's parameters their values. Returns their names.
    fn bind(&self, statement: &mut Statement<'_>) -> Result<Vec<String>, SqlError> {
        let mut used = Vec::new();
        for index in 1..=statement.parameter_count() {
            let name = statement.parameter_name(index).map(str::to_owned);
            let (name, value) = self.parameters.of(name.as_deref())?;
            let bound = statement.raw_bind_parameter(index, value);
            bound.map_err(|error| self.failed(&error))?;
            used.push(name.to_owned());
        }
        Ok(used)
    }

    /// Computes the parts that the statements need and that do not exist yet.
    fn compute(&mut self, taker: Option<SharedTaker>) -> Result<(), SqlError> {
        let missing = self.needs.needed.load(Ordering::Relaxed) & !self.has;
        let counted = match (missing | self.has) & COUNTS {
            0 => None,
            _ if missing == 0 => return Ok(()),
            _ => Some(self.count()?),
        };
        if missing & TIMELINE != 0 {
            let connection = timeline_tables::timeline(&self.shared, taker)?;
            let made = prepare(&connection, &self.shared, &self.symbols, counted.as_ref())
                .and_then(|()| guard(&connection, &self.shared, &self.needs));
            made.map_err(|error| self.failed(&error))?;
            self.connection = connection;
        } else if let Some(counted) = &counted {
            let allow: Option<fn(AuthContext<'_>) -> Authorization> = None;
            let filled = self
                .connection
                .authorizer(allow)
                .and_then(|()| fill_counts(&self.connection, &self.shared, counted));
            let guarded = guard(&self.connection, &self.shared, &self.needs);
            filled.and(guarded).map_err(|error| self.failed(&error))?;
        }
        self.has |= missing;
        Ok(())
    }

    fn count(&self) -> Result<stats::Stats, SqlError> {
        let shared = &*self.shared;
        let go_on = |_| !(shared.stop)();
        let Choice { range, selection, .. } = &shared.choice;
        let options =
            stats::Options { range: *range, selection: selection.as_ref(), ..Default::default() };
        let stats = stats::count(&shared.reader, &options, &go_on).ok_or(SqlError::Stopped)?;
        shared.findings.counted(&stats);
        Ok(stats)
    }

    fn failed(&self, error: &rusqlite::Error) -> SqlError {
        match self.needs.take_refused() {
            Some(word) => SqlError::Refused(word),
            None => of_query(error),
        }
    }
}

/// Makes the tables of event records, and the functions.
fn prepare(
    connection: &Connection,
    shared: &Arc<Shared>,
    symbols: &Arc<SymbolThread>,
    counted: Option<&stats::Stats>,
) -> rusqlite::Result<()> {
    // A column that does not exist is an error, also between double quotes, and not a text.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    table::create(connection, shared)?;
    functions::add(connection)?;
    functions::add_symbols(connection, symbols)?;
    span_join::add(connection)?;
    connection.execute_batch(&format!(
        "CREATE TEMP TABLE event_counts (name TEXT, trace TEXT, records INTEGER, bytes INTEGER); \
         CREATE TEMP VIEW events_by_name AS SELECT name, trace, records FROM event_counts ORDER BY records DESC; \
         CREATE TEMP VIEW schema_version AS SELECT {VERSION} AS version"
    ))?;
    match counted {
        Some(counted) => fill_counts(connection, shared, counted),
        None => Ok(()),
    }
}

fn fill_counts(
    connection: &Connection,
    shared: &Arc<Shared>,
    counted: &stats::Stats,
) -> rusqlite::Result<()> {
    let mut insert = connection.prepare("INSERT INTO temp.event_counts VALUES (?1, ?2, ?3, ?4)")?;
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    for trace in &counted.traces {
        let named = shared.reader.traces().iter().find(|named| named.path() == trace.path);
        let name = named.map_or("", |named| named.name());
        for event in &trace.events {
            let (records, bytes) = (number(event.count.records), number(event.count.bytes));
            insert.execute((text(&event.name), text(name), records, bytes))?;
        }
    }
    Ok(())
}

/// Refuses all statements that do more than read, and makes `stop` end running ones.
fn guard(
    connection: &Connection,
    shared: &Arc<Shared>,
    needs: &Arc<Needs>,
) -> rusqlite::Result<()> {
    let stop = Arc::clone(&shared.stop);
    connection.progress_handler(LOOK_INTERVAL, Some(move || stop()))?;
    let needs = Arc::clone(needs);
    connection.authorizer(Some(move |context: AuthContext<'_>| needs.check(&context)))
}

/// Converts an error of SQLite to an error of a query.
fn of_query(error: &rusqlite::Error) -> SqlError {
    if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
        return SqlError::Stopped;
    }
    SqlError::Query(match error {
        rusqlite::Error::SqlInputError { msg, sql, offset, .. } => {
            let rest = usize::try_from(*offset).ok().and_then(|offset| sql.get(offset..));
            let near: String = rest.unwrap_or_default().chars().take(40).collect();
            match near.is_empty() {
                true => msg.clone(),
                false => format!("{msg}: at '{near}'"),
            }
        }
        rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
        other => other.to_string(),
    })
}

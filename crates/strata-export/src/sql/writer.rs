//! Writes a database in a thread of its own, in one transaction.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::batch::{Batch, SqlCell};
use super::schema::{InsertStatement, INDEXES, TABLES, VERSION, VIEWS};

/// The number of SQLite's instructions after which `stopped` is called again: some milliseconds.
const LOOK_INTERVAL: i32 = 1 << 16;
/// The memory that SQLite may use for the database, and for an index that it sorts \[KiB\].
const CACHE_KIB: u32 = 32 << 10;

/// The longest path without links that SQLite opens \[byte\]: it adds '-journal' to it.
const PATH_BYTES: usize = 504;
/// The most batches that wait to be written.
const WAITING: usize = 4;

/// A function that returns true if writing should stop.
pub(super) type Stopped = Box<dyn FnMut() -> bool + Send>;

/// A thread that makes a database.
#[derive(Debug)]
pub(super) struct DatabaseWriter {
    batches: Option<SyncSender<Batch>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl DatabaseWriter {
    /// Begins a database in a file that is empty or does not exist.
    ///
    /// # Errors
    /// Returns an error if the file's folder cannot be found, or no thread can be started.
    pub(super) fn new(path: &Path, stopped: Stopped) -> io::Result<DatabaseWriter> {
        let path = real(path)?;
        let (batches, to_write) = sync_channel(WAITING);
        let write =
            move || make(&path, &to_write, stopped).map_err(|error| of_system(&path, error));
        let thread = thread::Builder::new().name("database".to_owned()).spawn(write)?;
        Ok(DatabaseWriter { batches: Some(batches), thread: Some(thread) })
    }

    /// Writes the next batch of rows. After the last one, the database is complete.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, now or before, of the kind that the system reported; or
    /// [`io::ErrorKind::Interrupted`] if it was stopped.
    pub(super) fn write(&mut self, batch: Batch) -> io::Result<()> {
        let is_last = batch.is_last;
        let is_taken = self.batches.as_ref().is_some_and(|batches| batches.send(batch).is_ok());
        match is_taken && !is_last {
            true => Ok(()),
            false => self.end(),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        self.batches = None;
        let failed = || Err(io::Error::other("the thread of the database has failed"));
        self.thread.take().map_or_else(failed, |thread| thread.join().unwrap_or_else(|_| failed()))
    }
}

/// Ends the thread that writes.
impl Drop for DatabaseWriter {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.end();
        }
    }
}

/// Returns the path with links resolved. The file is opened without following links, so that it is the one that was
/// created there.
fn real(path: &Path) -> io::Result<PathBuf> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new(".")).canonicalize()?;
    let real = path.file_name().map_or_else(|| folder.clone(), |name| folder.join(name));
    let bytes = real.as_os_str().len();
    match bytes > PATH_BYTES {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "the path of its folder is too long: with the name of the unfinished file {bytes} bytes, of which \
                 SQLite takes {PATH_BYTES}. Use -o with another folder"
            ),
        )),
        false => Ok(real),
    }
}

/// Writes all batches to a new database. If they end before the last one, the database is not completed.
fn make(path: &Path, batches: &Receiver<Batch>, stopped: Stopped) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.progress_handler(LOOK_INTERVAL, Some(stopped))?;
    // Nobody sees the file before it is complete, and what is not complete is removed.
    connection.execute_batch(&format!(
        "PRAGMA page_size = 8192; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; \
         PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -{CACHE_KIB}; PRAGMA user_version = {VERSION}; BEGIN"
    ))?;
    for table in &TABLES {
        connection.execute_batch(&table.create())?;
    }
    let mut statements = Vec::new();
    for statement in InsertStatement::ALL {
        statements.push(connection.prepare(&statement.sql())?);
    }
    let mut is_whole = false;
    for batch in batches {
        is_whole |= batch.is_last;
        let mut cells = batch.cells.iter();
        for &row in &batch.rows {
            let Some(statement) = statements.get_mut(row as usize) else { continue };
            for (column, &cell) in (1..=row.cells()).zip(&mut cells) {
                statement.raw_bind_parameter(column, BoundCell { cell, text: &batch.text })?;
            }
            statement.raw_execute()?;
        }
    }
    drop(statements);
    if !is_whole {
        return Ok(());
    }
    for (name, on) in INDEXES {
        connection.execute_batch(&format!("CREATE INDEX {name} ON {on}"))?;
    }
    for (name, query) in VIEWS {
        connection.execute_batch(&format!("CREATE VIEW {name} AS {query}"))?;
    }
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)
}

/// A cell with the batch that its text is part of.
struct BoundCell<'b> {
    cell: SqlCell,
    text: &'b [u8],
}

impl ToSql for BoundCell<'_> {
    #[inline]
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.cell {
            SqlCell::Null => ToSqlOutput::Owned(Value::Null),
            SqlCell::Integer(value) => ToSqlOutput::Owned(Value::Integer(value)),
            SqlCell::Real(value) => ToSqlOutput::Owned(Value::Real(value)),
            SqlCell::Word(word) => ToSqlOutput::Borrowed(ValueRef::Text(word.as_bytes())),
            SqlCell::Text { from, to } => {
                ToSqlOutput::Borrowed(ValueRef::Text(self.text.get(from..to).unwrap_or_default()))
            }
        })
    }
}

/// Converts SQLite's error to the system's error behind it, since SQLite mostly says only that there was one.
fn of_system(path: &Path, error: rusqlite::Error) -> io::Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => {
            io::Error::new(io::ErrorKind::Interrupted, "asked to stop")
        }
        // It does not say which of them has no room.
        Some(ErrorCode::DiskFull) => io::Error::new(
            io::ErrorKind::StorageFull,
            "no space left, for it or for the temporary files that sort its indexes ($SQLITE_TMPDIR, $TMPDIR, or /var/tmp)",
        ),
        Some(ErrorCode::SystemIoFailure) => {
            let again = OpenOptions::new().append(true).open(path);
            let again = again.and_then(|mut file| file.write_all(&[0]));
            again.err().unwrap_or_else(|| io::Error::other(error))
        }
        _ => io::Error::other(error),
    }
}

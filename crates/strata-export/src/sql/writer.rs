//! Writes a database in a thread of its own.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::appended_rows::{AppendedRows, CHANGES};
use super::batch::Batch;
use super::pages::PAGE;
use super::row_taker::SharedTaker;
use super::schema::{InsertStatement, SqlTable, INDEXES, TABLES, VERSION, VIEWS};

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
    /// Batches that were written, to fill again.
    written: Receiver<Batch>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl DatabaseWriter {
    /// Begins a database in a file that is empty or does not exist. `taker` gets the rows of some tables in its place.
    ///
    /// # Errors
    /// Returns an error if the file's folder cannot be found, or no thread can be started.
    pub(super) fn new(
        path: &Path,
        taker: Option<SharedTaker>,
        stopped: Stopped,
    ) -> io::Result<DatabaseWriter> {
        let path = real(path)?;
        let (batches, to_write) = sync_channel(WAITING);
        let (to_fill, written) = sync_channel(WAITING + 2);
        let write = move || {
            let made = make(&path, &to_write, &to_fill, taker.as_ref(), stopped);
            made.map_err(|error| of_system(&path, error))
        };
        let thread = thread::Builder::new().name("database".to_owned()).spawn(write)?;
        Ok(DatabaseWriter { batches: Some(batches), written, thread: Some(thread) })
    }

    /// Returns a batch without rows, to be filled.
    pub(super) fn empty_batch(&self) -> Batch {
        self.written.try_recv().unwrap_or_default()
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

/// A failure to write a database.
#[derive(Debug)]
enum WriteError {
    Sqlite(rusqlite::Error),
    System(io::Error),
}

impl From<rusqlite::Error> for WriteError {
    fn from(error: rusqlite::Error) -> WriteError {
        WriteError::Sqlite(error)
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> WriteError {
        WriteError::System(error)
    }
}

/// Writes all batches to a new database. If they end before the last one, the database is not completed.
///
/// SQLite makes the tables and indexes, the rows are appended without it, and SQLite completes the database.
fn make(
    path: &Path,
    batches: &Receiver<Batch>,
    to_fill: &SyncSender<Batch>,
    taker: Option<&SharedTaker>,
    mut stopped: Stopped,
) -> Result<(), WriteError> {
    let connection = open(path)?;
    connection.execute_batch("BEGIN")?;
    let tables = TABLES.iter().map(SqlTable::create).chain([CHANGES.create()]);
    let indexes = INDEXES.iter().map(|(name, on)| format!("CREATE INDEX {name} ON {on}"));
    let views = VIEWS.iter().map(|(name, query)| format!("CREATE VIEW {name} AS {query}"));
    for statement in tables.chain(indexes).chain(views) {
        connection.execute_batch(&statement)?;
    }
    connection.execute_batch("COMMIT")?;
    let roots = roots(&connection)?;
    connection.close().map_err(|(_, error)| error)?;

    let mut rows = AppendedRows::new(path, &roots)?;
    let mut changes = Vec::new();
    let mut is_whole = false;
    for mut batch in batches {
        if stopped() {
            return Err(io::Error::from(io::ErrorKind::Interrupted).into());
        }
        is_whole |= batch.is_last;
        rows.add(&batch, taker, &mut changes)?;
        batch.clear();
        // Without room, the batch is freed.
        let _ = to_fill.try_send(batch);
    }
    if !is_whole {
        return Ok(());
    }
    let unsorted = rows.finish(&mut stopped)?;

    let connection = open(path)?;
    connection.progress_handler(LOOK_INTERVAL, Some(stopped))?;
    connection.execute_batch("BEGIN")?;
    change_waits(&connection)?;
    // The index behind its UNIQUE is not one of those that were written.
    connection.execute_batch("REINDEX device")?;
    for index in unsorted {
        connection.execute_batch(&format!("REINDEX {index}"))?;
    }
    for statement in changes {
        connection.execute_batch(&statement.sql())?;
    }
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// Opens the database. Nobody else sees the file before it is complete, and what is not complete is removed.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.execute_batch(&format!(
        "PRAGMA page_size = {PAGE}; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; \
         PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -{CACHE_KIB}; PRAGMA user_version = {VERSION}"
    ))?;
    Ok(connection)
}

/// Returns the first pages of all tables and indexes, by name.
fn roots(connection: &Connection) -> rusqlite::Result<HashMap<String, u32>> {
    let mut statement =
        connection.prepare("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0")?;
    let roots = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    roots.collect()
}

/// Makes the changes to waits, in their order.
fn change_waits(connection: &Connection) -> rusqlite::Result<()> {
    let mut timed_out = connection.prepare(&InsertStatement::TimedOut.sql())?;
    let mut waited_for = connection.prepare(&InsertStatement::WaitedFor.sql())?;
    let name = CHANGES.name;
    let mut changes =
        connection.prepare(&format!("SELECT wait, request FROM {name} ORDER BY id"))?;
    let mut changes = changes.query(())?;
    while let Some(change) = changes.next()? {
        let wait: i64 = change.get(0)?;
        match change.get::<_, Option<i64>>(1)? {
            None => timed_out.execute([wait])?,
            Some(request) => waited_for.execute([request, wait])?,
        };
    }
    drop(changes);
    connection.execute_batch(&format!("DROP TABLE {name}"))
}

/// Converts SQLite's error to the system's error behind it, since SQLite mostly says only that there was one.
fn of_system(path: &Path, error: WriteError) -> io::Error {
    let error = match error {
        WriteError::Sqlite(error) => error,
        WriteError::System(error) => return error,
    };
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

//! The tables of a timeline, which one pass over the traces writes to a database in a temporary file.

use std::fs::{self, DirBuilder};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::{Connection, OpenFlags};
use strata_ctf::read::{Message, TimeRange};
use strata_export::sql::{of_event_table, Exporter, Options, SharedTaker};

use crate::error::SqlError;
use crate::shared_data::Shared;
use std::sync::Arc;

/// The memory that SQLite may use for pages of the tables, and for rows that a query sorts \[KiB\].
const CACHE_KIB: i32 = 32 << 10;
/// The most names that are tried.
const TRIES: u32 = 1000;

/// A temporary folder that is removed with its content once its database is open: the file itself exists until it is
/// closed.
#[derive(Debug)]
struct TemporaryFolder(PathBuf);

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Remaining files do no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl TemporaryFolder {
    /// Makes a folder for this user only, with a name that did not exist.
    fn new(base: &Path) -> io::Result<TemporaryFolder> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..TRIES {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("strata-sql-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(TemporaryFolder(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
}

/// Returns the folder for temporary files: SQLite's own (`SQLITE_TMPDIR`), or else that of [all](strata_model::temporary_folder).
#[must_use]
pub fn temporary_folder() -> PathBuf {
    let named = std::env::var_os("SQLITE_TMPDIR").filter(|folder| !folder.is_empty());
    named.map_or_else(strata_model::temporary_folder, PathBuf::from)
}

/// Reads the traces, and opens a database of their timeline. Its file has no name any more. `taker` gets the rows of some
/// tables, which are then not in the database.
pub(crate) fn timeline(
    shared: &Arc<Shared>,
    taker: Option<SharedTaker>,
) -> Result<Connection, SqlError> {
    let base = temporary_folder();
    let in_folder = |source: io::Error| match source.kind() {
        io::ErrorKind::Interrupted => SqlError::Stopped,
        _ => SqlError::Temporary { folder: base.display().to_string(), source },
    };
    let folder = TemporaryFolder::new(&base).map_err(in_folder)?;
    let path = folder.0.join("timeline");
    write(shared, &path, taker).map_err(in_folder)?;
    let opened = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags)?;
        for statement in of_event_table() {
            connection.execute_batch(statement)?;
        }
        drop(connection);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags)?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        // The first query opens the file, which then needs no name.
        connection.query_row("SELECT count(*) FROM machine", (), |_| Ok(()))?;
        Ok(connection)
    };
    opened().map_err(|error: rusqlite::Error| in_folder(io::Error::other(error)))
}

fn write(shared: &Arc<Shared>, path: &Path, taker: Option<SharedTaker>) -> io::Result<()> {
    // Event records are to follow, if somebody takes rows: who made them, the same pass finds, if it is over all records.
    let has_facts = taker.is_some() && shared.choice.range.to == i64::MAX && shared.lacks_facts();
    let options = Options {
        range: shared.choice.range,
        events: false,
        pairs: shared.choice.pairs.clone(),
        counters: shared.choice.counters.clone(),
        names: shared.names.clone(),
    };
    let stop = Arc::clone(&shared.stop);
    let mut exporter = Exporter::with_taker(&shared.reader, path, &options, taker, move || stop())?;
    if has_facts {
        exporter.collect_facts();
    }
    let mut selection = shared.choice.selection.clone();
    // What was so before the time that is asked for is known from earlier records.
    let range = TimeRange { from: i64::MIN, to: shared.choice.range.to };
    let mut events = shared.reader.events(range);
    let mut left = LOOK_INTERVAL;
    let end = events.run(|message| {
        left -= 1;
        if left == 0 {
            left = LOOK_INTERVAL;
            if (shared.stop)() {
                return ControlFlow::Break(io::Error::from(io::ErrorKind::Interrupted));
            }
        }
        let done = match message {
            Message::Event(event) => {
                let is_selected =
                    selection.as_mut().is_none_or(|selection| selection.accepts(&event));
                exporter.event(&event, is_selected)
            }
            Message::Packet(_) => Ok(()),
            Message::Discarded(discarded) => {
                shared.findings.discarded(&discarded);
                exporter.discarded(&discarded)
            }
            Message::Damage(damage) if damage.is_note() => Ok(()),
            Message::Damage(damage) => {
                shared.findings.damage(damage);
                exporter.damage(damage, shared.reader.stream_of(damage))
            }
        };
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    });
    match end {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) if (shared.stop)() => {
            Err(io::Error::from(io::ErrorKind::Interrupted))
        }
        ControlFlow::Continue(()) => {
            let (summary, facts) = exporter.finish_with_facts(false)?;
            shared.findings.summary(&summary);
            if let Some(facts) = facts {
                shared.set_facts(facts);
            }
            Ok(())
        }
    }
}

/// Number of messages between two checks for a request to stop.
const LOOK_INTERVAL: u32 = 4096;

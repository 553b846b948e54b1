//! Writes an SQLite database, and formats remarks on it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{bail, Result};
use strata_ctf::read::{Damage, Discarded, Event, Reader, Stream};
use strata_export::sql::{Exporter, Options, Summary};
use strata_session::stop::Stop;

use super::device;
use super::output::OutputFile;
use super::sink::{EventSink, WrittenExport};
use crate::reading::limits;
use crate::units::{counted, typed};

/// Suffixes of the files in which SQLite keeps changes that are not in the database yet.
const JOURNALS: [&str; 2] = ["-journal", "-wal"];

/// Begins to write a database.
pub(super) fn create(name: &Path, force: bool) -> Result<OutputFile> {
    if device::is_one(name) {
        bail!(
            "export: {} is no plain file, and a database is not written from front to back. Use -o FILE",
            name.display()
        )
    }
    let output = OutputFile::create(name, force)?;
    no_journal(output.name())?;
    Ok(output)
}

/// Completes the database, which gets its name.
pub(super) fn finish(output: OutputFile) -> Result<()> {
    no_journal(output.name())?;
    output.finish()
}

/// Returns an error if there is the journal of another database with this name: SQLite would apply it to the new
/// database.
fn no_journal(name: &Path) -> Result<()> {
    for suffix in JOURNALS {
        let mut journal = OsString::from(name);
        journal.push(suffix);
        let journal = PathBuf::from(journal);
        if fs::symlink_metadata(&journal).is_ok() {
            bail!(
                "export: cannot write {}: {} is of another database of this name, which a program has open, or had \
                 when it was killed; it would change the new one. End that program or remove the file, or use -o \
                 with another name",
                name.display(),
                journal.display()
            )
        }
    }
    Ok(())
}

/// A database that is being made.
pub(super) struct Database<'r> {
    exporter: Exporter<'r>,
    /// Number of event records that may still be written; `None` if there is no limit.
    left: Option<u64>,
}

impl<'r> Database<'r> {
    pub(super) fn new(
        reader: &'r Reader,
        path: &Path,
        options: &Options,
        limit: Option<NonZeroU64>,
        stop: &Stop,
    ) -> io::Result<Database<'r>> {
        let stop = stop.clone();
        let exporter = Exporter::new(reader, path, options, move || stop.requests() > 0)?;
        Ok(Database { exporter, left: limit.map(NonZeroU64::get) })
    }
}

impl EventSink for Database<'_> {
    const BEFORE: bool = true;

    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.exporter.event(event, true)
    }

    fn skip(&mut self, event: &Event<'_>, is_selected: bool) -> io::Result<()> {
        self.exporter.event(event, is_selected)
    }

    fn discarded(&mut self, discarded: &Discarded<'_>) -> io::Result<()> {
        self.exporter.discarded(discarded)
    }

    fn damage(&mut self, damage: &Damage, stream: Option<&Stream>) -> io::Result<()> {
        self.exporter.damage(damage, stream)
    }

    fn finish(self) -> io::Result<WrittenExport> {
        let summary = self.exporter.finish(self.left == Some(0))?;
        let Summary { events, bytes, .. } = summary;
        Ok(WrittenExport { events, bytes, database: Some(summary), ..WrittenExport::default() })
    }
}

/// Formats a command with a first query. `sqlite3` would take some file names for a flag, a URI, or no file.
pub(super) fn how_to_ask(path: &Path) -> String {
    let starts = |with: &[u8]| path.as_os_str().as_bytes().starts_with(with);
    let path = match starts(b"-") || starts(b":") || starts(b"file:") {
        true => Path::new(".").join(path),
        false => path.to_owned(),
    };
    format!("ask it: sqlite3 -box {} 'SELECT * FROM slow_calls LIMIT 10'", typed(&path))
}

/// Returns remarks on problems that the database has.
pub(super) fn remarks(summary: &Summary) -> Vec<String> {
    let mut texts = Vec::new();
    for (number, of) in [(summary.discarded, "event record"), (summary.packets, "packet")] {
        if number > 0 {
            let what = counted(number, of);
            texts.push(format!(
                "{what} discarded by the tracer: what threads did around them is 'unknown'; the table 'discarded' says when"
            ));
        }
    }
    if summary.cut > 0 {
        let what = counted(summary.cut, "value");
        texts.push(format!(
            "{what} of 'fields' or 'context' left out, each of more than 16 MiB: they are NULL. 'strata view' has them"
        ));
    }
    if summary.stacks_left_out > 0 {
        let what = counted(summary.stacks_left_out, "record");
        texts.push(format!("{what} with a call stack that is one too many: 'stack' is NULL there"));
    }
    texts.extend(limits::texts(summary.threads_left_out, summary.names_left_out));
    texts.extend(limits::counters(summary.counters_left_out));
    texts
}

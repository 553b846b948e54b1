//! A database, and what is said of it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{bail, Result};
use strata_analyze::sql::{Exporter, Options, Summary};
use strata_ctf::read::{Damage, Discarded, Event, Reader, Stream};
use strata_session::stop::Stop;

use super::output::OutputFile;
use super::sink::{EventSink, WrittenExport};
use crate::reading::limits;
use crate::talk::units::{counted, typed};

/// What SQLite adds to a database's name for files of what it is to do to it yet.
const JOURNALS: [&str; 2] = ["-journal", "-wal"];

/// Begin to write one.
pub(super) fn create(name: &Path, force: bool) -> Result<OutputFile> {
    // A pipe that nobody reads would be waited for when it is opened.
    if fs::metadata(name).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        bail!(
            "export: {} is no plain file, and a database is not written from front to back. Use -o FILE",
            name.display()
        )
    }
    let output = OutputFile::create(name, force)?;
    no_journal(output.name())?;
    Ok(output)
}

/// It is complete: give it its name.
pub(super) fn finish(output: OutputFile) -> Result<()> {
    no_journal(output.name())?;
    output.finish()
}

/// Whoever opens the database would do to it what the journal of another one says.
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
    /// Of how many event records more there may be; `None`: of any number.
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

/// A question to begin with. `sqlite3` takes some names for a flag, for a URI, or for no file at all.
pub(super) fn how_to_ask(path: &Path) -> String {
    let starts = |with: &[u8]| path.as_os_str().as_bytes().starts_with(with);
    let path = match starts(b"-") || starts(b":") || starts(b"file:") {
        true => Path::new(".").join(path),
        false => path.to_owned(),
    };
    format!("ask it: sqlite3 -box {} 'SELECT * FROM slow_calls LIMIT 10'", typed(&path))
}

/// What in a database is not as one would expect.
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
    texts.extend(limits::texts(summary.threads_left_out, summary.names_left_out));
    texts.extend(limits::counters(summary.counters_left_out));
    texts
}

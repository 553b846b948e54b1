//! A dataset of Parquet files, and the export of a trace into it.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use strata_ctf::read::Reader;
use strata_model::EnvValue;
use strata_sql::{
    temporary_folder, Cell, Database, EventRequest, RowSink, SharedTaker, SqlError, Tables,
    SCHEMA_VERSION,
};

use crate::part::Part;
use crate::tables::{columns, query, TABLES};
use crate::threads::Threads;
use crate::timeline_rows::{is_made_of_rows, TimelineRows};
use crate::writer::{FileOrigin, TableWriter};

/// The most names that are tried for the folder in which files are made.
const TRIES: u32 = 1000;
/// Name of each file: a trace has one file in each table.
const FILE: &str = "part-0.parquet";

/// Request to write tables of a trace into a dataset.
#[derive(Clone, Debug)]
pub struct Export {
    /// Folder of the dataset, which may already contain other traces.
    pub folder: PathBuf,
    /// Name of the machine in the partition; `None` for the one in the trace.
    pub host: Option<String>,
    /// Names of the tables; an empty list stands for those of [`TABLES`].
    pub tables: Vec<String>,
    /// True if a trace that the dataset already contains is replaced.
    pub force: bool,
    /// The selected part of the trace; `None` if all records are written.
    pub part: Option<Part>,
}

/// Numbers of what was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Partition of the trace, as a path within a table's folder.
    pub partition: String,
    /// Number of tables that have rows.
    pub tables: u64,
    /// Number of rows of all tables.
    pub rows: u64,
    /// Size of all files \[byte\].
    pub bytes: u64,
    /// True if no record was selected, and so nothing was written.
    pub nothing: bool,
}

/// A folder for incomplete files, which is removed with this value. Its name begins with a dot, so that readers of a
/// table ignore it.
struct HiddenFolder(PathBuf);

impl Drop for HiddenFolder {
    fn drop(&mut self) {
        // Remaining files do no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl HiddenFolder {
    fn new(dataset: &Path) -> io::Result<HiddenFolder> {
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for number in 0..TRIES {
            let path = dataset.join(format!(".strata-{}-{number}", std::process::id()));
            match DirBuilder::new().create(&path) {
                Ok(()) => return Ok(HiddenFolder(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
}

/// Returns a name as a part of a path: a character other than a letter, a digit, `.`, `-` or `_` becomes a percent sign
/// and two hexadecimal digits, as in partitions of Hive and its successors.
fn escaped(name: &str) -> String {
    let mut out = String::new();
    for (index, byte) in name.bytes().enumerate() {
        match byte {
            b'.' if index == 0 => out.push_str("%2E"),
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'.' | b'-' | b'_' => {
                out.push(char::from(byte))
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    match out.len() {
        0 => "unknown".to_owned(),
        // Most file systems limit names of files to 255 bytes.
        _ => out.chars().take(200).collect(),
    }
}

/// Returns the day of a time, as `2026-11-29`.
fn date(time_ns: i64) -> String {
    let days = time_ns.div_euclid(86_400_000_000_000);
    // Days are counted from 0000-03-01, so that a leap day is the last of its year; 400 years have 146,097 days.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", year_of_era + era * 400 + next)
}

impl Export {
    /// Returns the partition of the traces: the day of their begin, their machine, and a name that the same traces
    /// always get.
    fn partition(&self, reader: &Reader) -> String {
        let begin = reader.span().map_or(0, |span| span.from);
        let of_trace =
            reader.traces().iter().find_map(|trace| match trace.schema().environment("hostname") {
                Some(EnvValue::Text(name)) => Some(name.clone()),
                _ => None,
            });
        let host = self.host.clone().or(of_trace).unwrap_or_default();
        let uuid = reader.traces().iter().find_map(|trace| trace.schema().uuid);
        let uuid = uuid.map_or(String::new(), |uuid| {
            uuid.0.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
        });
        let part = self.part.as_ref();
        let day = date(part.map_or(begin, |part| part.range.from.max(begin)));
        let suffix = part.map(Part::suffix).unwrap_or_default();
        format!("date={day}/host={}/trace={begin}-{uuid}{suffix}", escaped(&host))
    }

    /// Returns the tables to write, each with the column that sorts its rows, in their order.
    fn chosen<'t>(&self, all: &'t [Tables]) -> Result<Vec<(&'t Tables, Option<&'static str>)>> {
        let find = |name: &str| all.iter().find(|table| table.name.eq_ignore_ascii_case(name));
        if self.tables.is_empty() {
            let chosen = TABLES.iter().filter_map(|&(name, sorted)| Some((find(name)?, sorted)));
            return Ok(chosen.collect());
        }
        let mut chosen: Vec<(&Tables, Option<&'static str>)> = Vec::new();
        for name in &self.tables {
            let Some(table) = find(name) else {
                bail!("there is no table '{name}'. `strata sql TRACE .tables` lists all")
            };
            if chosen.iter().any(|(other, _)| other.name == table.name) {
                continue;
            }
            let known = TABLES.iter().find(|(known, _)| *known == table.name);
            // The table of an event has its records in the order of time.
            let of_events = table.columns.first().is_some_and(|(column, _)| column == "time_ns");
            chosen
                .push((table, known.map_or(of_events.then_some("time_ns"), |(_, sorted)| *sorted)));
        }
        Ok(chosen)
    }

    /// Writes the traces of a database into the dataset.
    ///
    /// # Errors
    /// A file cannot be written, a table does not exist, the dataset already contains the trace, or the export was
    /// stopped
    pub fn run(&self, database: &mut Database) -> Result<Written> {
        let shown = self.folder.display();
        let failed = || format!("cannot write {shown}");
        let all = database.tables()?;
        let chosen = self.chosen(&all)?;
        let partition = self.partition(database.reader());
        let place = |table: &Tables| self.folder.join(escaped(&table.name)).join(&partition);
        if let Some((table, _)) = chosen.iter().find(|(table, _)| place(table).join(FILE).exists())
        {
            if !self.force {
                bail!(
                    "{} is there already: this trace is in the dataset. Use --force to replace it",
                    place(table).join(FILE).display()
                )
            }
        }
        if self.part.is_some() && !has_rows(database)? {
            return Ok(Written { partition, nothing: true, ..Written::default() });
        }
        fs::create_dir_all(&self.folder).with_context(failed)?;
        let hidden = HiddenFolder::new(&self.folder).with_context(failed)?;
        let mut written = Written { partition: partition.clone(), ..Written::default() };
        let mut made = Vec::new();
        let mut taken = TakenRows::read(&chosen, database)?;
        for (number, (table, sorted_by)) in chosen.iter().enumerate() {
            let path = hidden.0.join(format!("{number}.parquet"));
            let file = BufWriter::new(File::create_new(&path).with_context(failed)?);
            let selection = self.part.as_ref().map(|part| part.text.as_str());
            let made_by = FileOrigin { version: SCHEMA_VERSION, selection };
            let mut writer =
                TableWriter::new(file, columns(table), *sorted_by, made_by).with_context(failed)?;
            let done = match taken.as_mut().map(|rows| rows.write(table, database, &mut writer)) {
                Some(Ok(true)) => Ok(()),
                Some(Err(error)) => Err(error),
                None | Some(Ok(false)) if table.is_of_events => {
                    let all = EventRequest::all_of(&table.name);
                    database.rows_of_events(&all, &mut writer).map(drop)
                }
                _ => database.query(&query(&table.name, *sorted_by), &mut writer),
            };
            match done {
                Ok(()) => {}
                Err(SqlError::Output(error)) => {
                    return Err(error)
                        .with_context(|| format!("cannot write {shown}, table '{}'", table.name))
                }
                Err(error) => return Err(error.into()),
            }
            let (rows, bytes) = writer.finish_file().with_context(failed)?;
            written.tables += u64::from(rows > 0);
            written.rows += rows;
            written.bytes += bytes;
            made.push((path, place(table)));
        }
        for (path, place) in made {
            fs::create_dir_all(&place).with_context(failed)?;
            fs::rename(&path, place.join(FILE)).with_context(failed)?;
            File::open(&place).and_then(|folder| folder.sync_all()).with_context(failed)?;
        }
        Ok(written)
    }
}

/// Rows of the timeline's large tables, which SQLite does not have.
struct TakenRows {
    rows: TimelineRows,
    threads: Threads,
}

impl TakenRows {
    /// Reads the traces for the chosen tables. Returns `None` if they are made by queries: one of them needs rows that would
    /// be taken.
    fn read(
        chosen: &[(&Tables, Option<&'static str>)],
        database: &mut Database,
    ) -> Result<Option<TakenRows>, SqlError> {
        let is_known = |table: &Tables| {
            table.is_of_events || TABLES.iter().any(|(name, _)| *name == table.name)
        };
        let tables = || chosen.iter().map(|(table, _)| *table);
        let is_large = |table: &&Tables| {
            ["calls", "states", "wakeups", "cpu_run", "spans", "files"].contains(&&*table.name)
        };
        if !tables().all(is_known) || !tables().filter(is_large).all(is_made_of_rows) {
            return Ok(None);
        }
        let names = tables().filter(is_large).map(|table| table.name.as_str());
        if names.clone().next().is_none() {
            return Ok(None);
        }
        let Some(rows) = TimelineRows::new(names, &temporary_folder()) else { return Ok(None) };
        let taker = SharedTaker::new(rows);
        database.take_rows(taker.any())?;
        let fault = || SqlError::Query("the thread of the timeline still runs".to_owned());
        let mut rows = taker.into_inner().ok_or_else(fault)?;
        rows.finish().map_err(temporary)?;
        let threads = Threads::read(database)?;
        Ok(Some(TakenRows { rows, threads }))
    }

    fn write(
        &mut self,
        table: &Tables,
        database: &Database,
        sink: &mut dyn RowSink,
    ) -> Result<bool, SqlError> {
        let stop = || database.is_stopped();
        self.rows.write(&table.name, &self.threads, &stop, sink).map_err(|error| {
            match error.kind() {
                io::ErrorKind::Interrupted => SqlError::Stopped,
                _ => SqlError::Output(error),
            }
        })
    }
}

fn temporary(source: io::Error) -> SqlError {
    SqlError::Temporary { folder: temporary_folder().display().to_string(), source }
}

/// Returns whether any event record is selected.
fn has_rows(database: &mut Database) -> Result<bool> {
    struct Any(bool);
    impl RowSink for Any {
        fn columns(&mut self, _: &[&str]) -> io::Result<()> {
            Ok(())
        }

        fn row(&mut self, _: &[Cell<'_>]) -> io::Result<ControlFlow<()>> {
            self.0 = true;
            Ok(ControlFlow::Break(()))
        }

        fn end(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut any = Any(false);
    database.query("SELECT 1 FROM events LIMIT 1", &mut any)?;
    Ok(any.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_leap_days_and_before_1970_are_those_of_the_calendar() {
        const DAY: i64 = 86_400_000_000_000;
        for (days, wanted) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (58, "1970-02-28"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_786, "2026-11-29"),
        ] {
            assert_eq!(date(days * DAY), wanted);
            assert_eq!(date(days * DAY + DAY - 1), wanted);
        }
    }

    #[test]
    fn names_as_parts_of_paths_have_no_separator_and_are_not_hidden() {
        assert_eq!(escaped("web-1.example"), "web-1.example");
        assert_eq!(escaped("../x=y/\0é"), "%2E.%2Fx%3Dy%2F%00%C3%A9");
        assert_eq!(escaped(".hidden"), "%2Ehidden");
        assert_eq!(escaped(""), "unknown");
        assert_eq!(escaped(&"a".repeat(300)).len(), 200);
    }
}

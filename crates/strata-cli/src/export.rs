//! The command `strata export`: converts traces for other tools.
//!
//! ```text
//! flags ── checked against --to ── Reader ──┬─ perfetto   by several threads, merged in order    strata_export::perfetto
//!                                           ├─ json, csv  one renderer                           strata_analyze::render
//!                                           ├─ sqlite     a database                             sqlite.rs
//!                                           ├─ otlp       spans, to a file or a receiver         otlp.rs, receiver.rs
//!                                           ├─ parquet    a folder of tables                     parquet.rs
//!                                           └─ ctf        a smaller trace                        folder.rs, strata_ctf::cut
//! ```
//!
//! These formats share the selection (`--filter`, times, `--of`), the progress line, and the reports on damage; what
//! differs is an [`EventSink`], to which [`ExportJob`] passes each event, each loss and each damage in the order of
//! time. Formats that compute states (Perfetto, SQLite) also get the records before the time that is asked for.
//!
//! # Output
//! A file gets its name when it is complete (`output.rs`): until then it has a hidden name beside it, so that no reader
//! takes half a file for a whole one, and a signal removes it. An existing file is kept unless `--force` is given, and a
//! folder is only replaced if it holds nothing but traces (`folder.rs`). A pipe or a device is written as it is
//! (`device.rs`).
//!
//! # Exit status
//! It is [`EXIT_STATUS`]: 0 if events were written; 1 if none matched; 2 if a trace is damaged (all that is intact is
//! written anyway) or the export failed; 130 after Ctrl-C.

mod device;
mod folder;
pub mod otlp;
mod output;
mod parquet;
mod perfetto_remarks;
mod receiver;
mod sink;
mod sqlite;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use anyhow::{bail, Context, Result};
use clap::{Args, ValueEnum, ValueHint};
use strata_analyze::counters::CounterRule;
use strata_analyze::debug_info::{KernelFunctions, SourceOptions, SymbolFiles};
use strata_analyze::derived_facts::WantedOf;
use strata_analyze::pipeline;
use strata_analyze::render::{self, Renderer, ThreadNames};
use strata_ctf::cut::Cutter;
use strata_ctf::model::TimeSource;
use strata_ctf::read::{Damage, Message as Read, NoteKey, Reader, Selection, Stream, TimeRange};
use strata_export::otlp::Encoding;
use strata_export::perfetto::{together, Exporter, Options};
use strata_export::sql;
use strata_session::stop::{survive_file_size_limit, Stop};
use strata_timeline::PairRule;

use crate::reading::incomplete_traces;
use crate::reading::selection::{OfFlags, SelectionFlags, SYNTAX};
use crate::reading::traces::TracesFlags;
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stderr::progress::ReadingLine;
use crate::stdout;
use crate::units::{clean, counted, size, time, typed};
use crate::view::too_many_names;
use folder::OutputFolder;
use output::OutputFile;
use parquet::ParquetRequest;
use perfetto_remarks::{remarks, too_large};
use receiver::{Address, Receiver};
use sink::{EventSink, WrittenExport};
use sqlite::Database;

/// Limit on the damages that are reported one by one.
const DAMAGE_SHOWN: u64 = 20;
/// Number of messages between two checks for a request to stop, and two updates of the progress line.
const LOOK_INTERVAL: u64 = 4096;
/// Size of the text that is collected before it is written \[byte\].
const TEXT_BYTES: usize = 256 << 10;
/// The most threads that write for Perfetto: each reads the whole trace, so that more of them gain little.
const SHARES_MAX: usize = 4;

const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  no event matched what was asked for (--filter, --of, --from,
     --until, --last), or no span was found for otlp, and no file was
     written; or a --pair or --counter matches nothing
  2  a trace is damaged (all that is intact was exported), the export
     failed, or a receiver has refused spans
  130  ended by Ctrl-C";

const PAIRS: &str = "\
Slices:
  System calls are slices on their thread's track, and so is what is
  between X_begin and X_end (X_done), X_start and X_stop (X_end, X_done,
  X_finish), X_entry and X_exit (X_return), X_enter and X_leave (X_exit,
  X_return), X_acquire and X_release of one thread, where both ends are
  in the traces. Other pairs are named; '*' stands for the same text in
  both names. Pairs with a KEYFIELD may overlap and begin and end in
  different threads:
    --pair 'myapp:job_taken=myapp:job_given'
    --pair 'myapp:*_sent=myapp:*_received:id'
";

/// Flags of `strata export`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{PAIRS}\n{SYNTAX}\n{EXIT_STATUS}"))]
pub struct ExportFlags {
    /// Format of the output
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: ExportFormat,

    /// Write FILE (of ctf and parquet, a folder); '-' is stdout; for otlp also http://HOST:PORT, where spans are sent to
    /// [default: the trace's name in the current folder]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    selection: SelectionFlags,

    #[command(flatten)]
    of: OfFlags,

    /// Write only the first N events
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroU64>,

    /// JSON and CSV: add the thread's name at that time to its number; the trace is read twice
    #[arg(long)]
    thread_names: bool,

    /// SQLite: leave out the event records, which take most of the file
    #[arg(long)]
    no_events: bool,

    /// OTLP: write protobuf instead of JSON
    #[arg(long)]
    protobuf: bool,

    /// Perfetto: show what is between event BEGIN and event END as a slice; see --help. SQLite, Parquet, OTLP: as a span
    #[arg(long = "pair", value_name = "BEGIN=END[:KEYFIELD]")]
    pairs: Vec<PairRule>,

    /// Perfetto: make slices of system calls and of --pair only, not by the events' names
    #[arg(long)]
    no_pairs: bool,

    /// Perfetto, SQLite, Parquet: open no file that the trace names: functions of programs have no names
    #[arg(long)]
    no_symbols: bool,

    /// Perfetto, SQLite, Parquet: show names of C++ and Rust as compilers have made them
    #[arg(long)]
    mangled: bool,

    /// Symbol files read so far.
    #[arg(skip)]
    files: SymbolFiles,

    /// Perfetto, SQLite, Parquet: export a numeric field as a counter, such as 'myapp:queue.length'; '*' is any text
    #[arg(long = "counter", value_name = "[EVENT.]FIELD")]
    counters: Vec<CounterRule>,

    /// Parquet: write this table, of those that `strata sql TRACE .tables` lists [default: events, and what the timeline tells]
    #[arg(long = "table", value_name = "NAME")]
    tables: Vec<String>,

    /// Parquet: have this name of the machine in the folder [default: as the trace says]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,

    #[command(flatten)]
    traces: TracesFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// A picture, for https://ui.perfetto.dev
    Perfetto,
    /// A JSON object on a line for each event, as `strata view --format json`
    Json,
    /// A table with a header (RFC 4180), as `strata view --format csv`
    Csv,
    /// A database of events, states, system calls and spans, for `sqlite3` and all that reads its files
    Sqlite,
    /// Spans for OpenTelemetry, with what they waited for, as a file or sent to a Collector, Jaeger and others
    Otlp,
    /// A smaller trace of the same kind, which is a folder
    Ctf,
    /// The tables of `strata sql`, for DuckDB, Spark, pandas and others; added to a folder of many traces
    Parquet,
}

impl ExportFormat {
    fn extension(self) -> &'static str {
        match self {
            ExportFormat::Perfetto => "perfetto-trace",
            ExportFormat::Json => "json",
            ExportFormat::Csv => "csv",
            ExportFormat::Sqlite => "sqlite",
            ExportFormat::Otlp => "otlp.jsonl",
            ExportFormat::Ctf => "ctf",
            ExportFormat::Parquet => "parquet",
        }
    }
}

/// Returns the error for a missing `--to`, which lists all formats with their purposes.
pub fn without_format() -> String {
    let mut text = "export: --to FORMAT is not given. The formats are:".to_owned();
    for value in ExportFormat::value_variants().iter().filter_map(ExportFormat::to_possible_value) {
        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = write!(text, "\n  --to {:9} {help}", value.get_name());
    }
    text + "\nFor more information, try 'strata export --help'."
}

/// The destination that the user named.
enum OutputName {
    Stdout,
    File(PathBuf),
    Receiver(Address),
}

/// The destination while it is being written.
enum Destination {
    Stdout,
    File(OutputFile),
    Database(OutputFile),
    Folder(OutputFolder),
    Receiver(Address),
}

/// Exports the traces, and returns the exit status.
pub fn run(flags: &ExportFlags) -> Result<u8> {
    let begin = Instant::now();
    if flags.no_pairs && flags.to != ExportFormat::Perfetto {
        bail!("--no-pairs is for --to perfetto. Leave it out");
    }
    let is_of_timeline =
        matches!(flags.to, ExportFormat::Perfetto | ExportFormat::Sqlite | ExportFormat::Parquet);
    let is_otlp = flags.to == ExportFormat::Otlp;
    if flags.no_symbols && (is_otlp || flags.to == ExportFormat::Ctf) {
        bail!("--no-symbols is not for --to ctf and otlp, which have no names of functions. Leave it out");
    }
    if flags.mangled && !is_of_timeline {
        bail!(
            "--mangled is for --to perfetto, sqlite and parquet: no other format has names of a program's functions. \
             Leave it out"
        );
    }
    if !flags.pairs.is_empty() && !is_of_timeline && !is_otlp {
        bail!("--pair is for --to perfetto, sqlite, parquet and otlp. Leave it out");
    }
    if !flags.counters.is_empty() && !is_of_timeline {
        bail!("--counter is for --to perfetto, sqlite and parquet. Leave it out");
    }
    if flags.protobuf && !is_otlp {
        bail!("--protobuf is for --to otlp. Leave it out");
    }
    if is_otlp && flags.limit.is_some() {
        bail!("--limit counts events, and --to otlp has spans. Use --from, --until, --last, --filter or --of");
    }
    if flags.no_events && flags.to != ExportFormat::Sqlite {
        bail!("--no-events is for --to sqlite. Leave it out");
    }
    if flags.thread_names && !matches!(flags.to, ExportFormat::Json | ExportFormat::Csv) {
        bail!("--thread-names is for --to json and --to csv. Leave it out");
    }
    if flags.to == ExportFormat::Ctf && flags.selection.has_clock_offset() {
        bail!(
            "--to ctf leaves all times as they are in the trace. Leave out --clock-offset, and use it \
             when the new trace is read"
        );
    }
    if flags.to == ExportFormat::Parquet {
        return parquet::run(flags.of_parquet()?);
    }
    if flags.host.is_some() || !flags.tables.is_empty() {
        bail!("--table and --host are for --to parquet. Leave them out");
    }
    let target = target(flags)?;
    // Output to stdout, a pipe or a device may end anywhere, and its reader may block this program: a signal ends it as
    // it ends any program. A file must not be left behind.
    let stop = match &target {
        OutputName::File(path) if !device::is_one(path) => {
            Stop::on_signals().context("export: cannot handle signals")?
        }
        OutputName::Receiver(_) => Stop::on_signals().context("export: cannot handle signals")?,
        OutputName::Stdout | OutputName::File(_) => Stop::new(),
    };
    // A file that is written in part must not stay.
    survive_file_size_limit().context("export: cannot handle signals")?;
    let traces = flags.traces.paths()?;
    let reader = flags.selection.open(&traces)?;
    let range = flags.selection.range(&reader)?;
    let line = ReadingLine::new("exporting", &reader, range == TimeRange::ALL);
    let mut talk = ExportTalk { line, damages: 0, noted: HashSet::new() };
    reader.damage().iter().for_each(|damage| talk.damage(damage));
    incomplete_traces::messages(&reader).iter().for_each(stderr::message);
    flags.selection.hints(&reader).into_iter().for_each(warning);
    let tame = matches!(target, OutputName::Stdout) && stdout::is_terminal();
    let selection = OnceLock::new();
    let job = ExportJob { flags, reader: &reader, range, stop: &stop, tame, selection };
    let place = match &target {
        OutputName::Stdout => Destination::Stdout,
        OutputName::File(path) if flags.to == ExportFormat::Ctf => {
            let sources = reader.traces().iter().map(|trace| trace.path());
            let sources: Vec<&Path> = sources.chain(traces.iter().map(PathBuf::as_path)).collect();
            Destination::Folder(OutputFolder::create(path, flags.force, &sources)?)
        }
        OutputName::File(path) if flags.to == ExportFormat::Sqlite => {
            Destination::Database(sqlite::create(path, flags.force)?)
        }
        OutputName::File(path) => Destination::File(OutputFile::create(path, flags.force)?),
        OutputName::Receiver(address) => Destination::Receiver(address.clone()),
    };
    let written = match &place {
        Destination::Stdout => job.write(Box::new(stdout::raw()), &mut talk),
        Destination::Database(output) => job.database(output.path(), &mut talk),
        Destination::File(output) => job.write(Box::new(output.writer()?), &mut talk),
        Destination::Folder(folder) => job.cut(folder.path(), &mut talk),
        Destination::Receiver(address) => job.send(address, &mut talk),
    };
    talk.line.clear();
    let what = match &target {
        OutputName::Receiver(address) => format!("to {address}"),
        target => target.to_string(),
    };
    let Some(written) = written.map_err(|error| not_written(&error, &what))? else {
        // Dropping the destination removes the file.
        return Ok(crate::exit_status::stopped(&stop));
    };
    if written.events > 0 || (talk.damages == 0 && !flags.is_any() && !is_otlp) {
        match place {
            Destination::Stdout | Destination::Receiver(_) => Ok(()),
            Destination::File(output) => output.finish(),
            Destination::Database(output) => sqlite::finish(output),
            Destination::Folder(folder) => folder.finish(),
        }?;
    } else {
        drop(place);
    }
    reader.passed_over().iter().for_each(|damage| talk.damage(damage));
    talk.rest();
    let idle = job.idle_rules();
    say(&written, talk.damages > 0, &target, flags, begin);
    for rule in &idle {
        warning(format!("{rule} matches nothing in these traces. See what there is: strata stats"));
    }
    if written.rejected > 0 {
        return Ok(crate::exit_status::FAILED);
    }
    Ok(match (talk.damages, written.events) {
        (0, 0) if flags.is_any() || is_otlp => 1,
        (0, _) => u8::from(!idle.is_empty()),
        _ => 2,
    })
}

/// Makes the error for output that could not be written, with advice.
fn not_written(error: &io::Error, what: &str) -> anyhow::Error {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull => ". Make room, or use -o with a file on another file system",
        io::ErrorKind::FileTooLarge => {
            ". Raise the limit (ulimit -f), or export less (--filter, --from, --until)"
        }
        // The reader of a pipe has closed it, which main() recognizes by the kind of error.
        io::ErrorKind::BrokenPipe => return io::Error::from(error.kind()).into(),
        _ => "",
    };
    anyhow::anyhow!("export: cannot write {what}: {error}{advice}")
}

impl std::fmt::Display for OutputName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OutputName::Stdout => f.write_str("stdout"),
            OutputName::File(path) => f.write_str(&typed(path)),
            OutputName::Receiver(address) => write!(f, "{address}"),
        }
    }
}

fn target(flags: &ExportFlags) -> Result<OutputName> {
    match &flags.output {
        Some(path) if path.as_os_str() == "-" => {
            if flags.to == ExportFormat::Ctf {
                bail!("a CTF trace is a folder, which stdout is not. Use -o FOLDER");
            }
            if flags.to == ExportFormat::Sqlite {
                bail!("a database is not written from front to back, as stdout is. Use -o FILE");
            }
            let is_binary = flags.to == ExportFormat::Perfetto || flags.protobuf;
            if is_binary && stdout::is_terminal() {
                let what = if flags.protobuf { "protobuf" } else { "a Perfetto trace" };
                bail!("{what} is no text for a terminal. Use -o FILE");
            }
            Ok(OutputName::Stdout)
        }
        Some(path) => match path.to_str().map(Address::parse).transpose()?.flatten() {
            Some(address) if flags.to == ExportFormat::Otlp => Ok(OutputName::Receiver(address)),
            Some(address) => bail!("{address} is for --to otlp. Use -o with a file's name"),
            None => Ok(OutputName::File(path.clone())),
        },
        None => {
            let first = flags.traces.first().context("no trace is named")?;
            let mut name = PathBuf::from(default_name(first, flags.to));
            if flags.protobuf {
                name.set_extension("binpb");
            }
            Ok(OutputName::File(name))
        }
    }
}

/// Returns the default name of the output: for `some/where/my-trace/`, `my-trace.json`.
fn default_name(trace: &Path, format: ExportFormat) -> std::ffi::OsString {
    let real = trace.canonicalize();
    let name = trace
        .file_name()
        .filter(|name| *name != "." && *name != "..")
        .or_else(|| real.as_ref().ok().and_then(|real| real.file_name()));
    let mut name = name.map_or_else(|| "trace".into(), std::ffi::OsStr::to_owned);
    name.push(".");
    name.push(format.extension());
    name
}

impl ExportFlags {
    /// Returns the parameters of `--to parquet`.
    fn of_parquet(&self) -> Result<ParquetRequest<'_>> {
        if self.limit.is_some() || self.selection.has_clock_offset() {
            bail!(
                "--limit and --clock-offset are not for --to parquet, whose tables of states and calls would differ from \
                 those of the trace. Select records by --from, --until, --filter or --of"
            );
        }
        let traces = self.traces.paths()?;
        let mut range = TimeRange::ALL;
        if self.selection.is_any() {
            let reader = self.selection.open(&traces)?;
            self.selection.hints(&reader).into_iter().for_each(warning);
            range = self.selection.range(&reader)?;
        }
        let first = self.traces.first().context("no trace is named")?;
        let output = self.output.clone();
        Ok(ParquetRequest {
            output: output.unwrap_or_else(|| PathBuf::from(default_name(first, self.to))),
            host: self.host.as_deref(),
            tables: &self.tables,
            force: self.force,
            no_symbols: self.no_symbols,
            mangled: self.mangled,
            range,
            filter: self.selection.filter(),
            of: self.of.words(),
            stream_intersection: self.selection.has_stream_intersection(),
            ignore_uuid: self.selection.open_options().ignore_uuid,
            pairs: &self.pairs,
            counters: &self.counters,
            traces,
        })
    }

    /// Returns true if only some of the records are selected.
    fn is_any(&self) -> bool {
        self.selection.is_any() || self.of.words().is_some()
    }

    /// Returns the processes whose records are selected. Formats that compute states also need the records of threads
    /// that get or lose a CPU.
    fn wanted(&self) -> Option<WantedOf<'_>> {
        match self.to {
            ExportFormat::Json | ExportFormat::Csv => self.of.made_by(),
            ExportFormat::Perfetto
            | ExportFormat::Sqlite
            | ExportFormat::Otlp
            | ExportFormat::Ctf
            | ExportFormat::Parquet => self.of.made_by_or_about(),
        }
    }
}

/// What all formats need to write an export: the flags, the traces, and the selected records.
struct ExportJob<'j> {
    flags: &'j ExportFlags,
    reader: &'j Reader,
    range: TimeRange,
    stop: &'j Stop,
    /// True if the output goes to a terminal.
    tame: bool,
    /// The compiled filter, made when the first of several threads needs it.
    selection: OnceLock<Option<Selection>>,
}

impl ExportJob<'_> {
    /// Writes the export, or returns `None` if it was asked to stop.
    fn write(
        &self,
        mut out: Box<dyn Write + '_>,
        talk: &mut ExportTalk,
    ) -> io::Result<Option<WrittenExport>> {
        match self.flags.to {
            ExportFormat::Perfetto => self.perfetto(&mut out, talk),
            ExportFormat::Json => {
                self.go(TextExport::new(out, self.layout(render::Format::Json)), Some(talk))
            }
            ExportFormat::Csv => {
                self.go(TextExport::new(out, self.layout(render::Format::Csv)), Some(talk))
            }
            ExportFormat::Otlp => {
                let line_end: &[u8] = if self.flags.protobuf { b"" } else { b"\n" };
                let mut write = |request: &[u8]| {
                    out.write_all(request)?;
                    out.write_all(line_end)
                };
                self.otlp(&mut write, talk)
            }
            ExportFormat::Sqlite => Err(io::Error::other("a database needs a file")),
            ExportFormat::Ctf | ExportFormat::Parquet => {
                Err(io::Error::other("the format is a folder"))
            }
        }
    }

    /// Writes a Perfetto trace with several threads. Returns `None` if it was asked to stop.
    fn perfetto(
        &self,
        out: &mut impl Write,
        talk: &mut ExportTalk,
    ) -> io::Result<Option<WrittenExport>> {
        let shares = pipeline::threads().min(SHARES_MAX);
        // All threads find the same damage; one of them reports it.
        let talk = Mutex::new(Some(talk));
        let found = together(out, shares, &|share, part| {
            let exporter = Exporter::of_share(part, self.reader, self.options(), share)?;
            let talk = match share.number {
                0 => talk.lock().unwrap_or_else(PoisonError::into_inner).take(),
                _ => None,
            };
            Ok(self.go(exporter, talk)?.and_then(|written| written.perfetto))
        })?;
        Ok(found.map(|it| WrittenExport {
            events: it.events,
            bytes: it.bytes,
            perfetto: Some(it),
            ..WrittenExport::default()
        }))
    }

    /// Passes requests with spans to `send`. Returns `None` if it was asked to stop.
    fn otlp(
        &self,
        send: &mut dyn FnMut(&[u8]) -> io::Result<()>,
        talk: &mut ExportTalk,
    ) -> io::Result<Option<WrittenExport>> {
        let pairs = &self.flags.pairs;
        let Some(states) = otlp::states(self.reader, pairs, self.range, self.stop) else {
            return Ok(None);
        };
        let options = strata_export::otlp::Options {
            range: self.range,
            pairs: pairs.clone(),
            encoding: self.encoding(),
            states,
        };
        self.go(strata_export::otlp::Exporter::new(self.reader, options, send), Some(talk))
    }

    fn encoding(&self) -> Encoding {
        match self.flags.protobuf {
            true => Encoding::Protobuf,
            false => Encoding::Json,
        }
    }

    /// Sends spans to a receiver. Returns `None` if it was asked to stop.
    fn send(&self, to: &Address, talk: &mut ExportTalk) -> io::Result<Option<WrittenExport>> {
        let media_type = self.encoding().media_type();
        let mut receiver = Receiver::new(to, media_type, TimeSource::machine(), self.stop);
        let sent = self.otlp(&mut |request| receiver.send(request), talk);
        let (rejected, accepted, remark) =
            (receiver.rejected, receiver.accepted, receiver.remark());
        remark.into_iter().for_each(warning);
        if accepted > 0 && !matches!(sent, Ok(Some(_))) {
            let what = counted(accepted, "request");
            warning(format!(
                "the receiver has accepted {what} before, and keeps the spans in them"
            ));
        }
        match sent {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            done => Ok(done?.map(|written| WrittenExport { rejected, ..written })),
        }
    }

    /// Writes a smaller CTF trace. Returns `None` if it was asked to stop.
    fn cut(&self, folder: &Path, talk: &mut ExportTalk) -> io::Result<Option<WrittenExport>> {
        let cutter = Cutter::new(self.reader, folder, self.range)?;
        self.go(CtfExport { cutter, events: 0 }, Some(talk))
    }

    /// Writes an SQLite database. Returns `None` if it was asked to stop.
    fn database(&self, path: &Path, talk: &mut ExportTalk) -> io::Result<Option<WrittenExport>> {
        let options = sql::Options {
            range: self.range,
            events: !self.flags.no_events,
            pairs: self.flags.pairs.clone(),
            counters: self.flags.counters.clone(),
            names: self.names(),
        };
        let database = Database::new(self.reader, path, &options, self.flags.limit, self.stop)?;
        match self.go(database, Some(talk)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            done => done,
        }
    }

    fn layout(&self, format: render::Format) -> render::Options {
        let zone = self.flags.selection.zone().clone();
        let stopped = || self.stop.requests() > 0;
        let thread_names = self.flags.thread_names.then(|| {
            let names = ThreadNames::read(self.reader, pipeline::threads(), &stopped);
            if names.left_out() > 0 {
                warning(too_many_names(names.left_out()));
            }
            Arc::new(names)
        });
        let tame = self.tame;
        let functions = KernelFunctions::of(self.reader, &self.names());
        let options = render::Options::default();
        render::Options { format, zone, tame, thread_names, functions, ..options }
    }

    fn options(&self) -> Options {
        Options {
            pairs: self.flags.pairs.clone(),
            automatic_pairs: !self.flags.no_pairs,
            counters: self.flags.counters.clone(),
            symbols: self.names(),
        }
    }

    fn names(&self) -> SourceOptions {
        SourceOptions {
            no_symbols: self.flags.no_symbols,
            mangled: self.flags.mangled,
            files: self.flags.files.clone(),
            ..SourceOptions::default()
        }
    }

    fn idle_rules(&self) -> Vec<String> {
        Exporter::<io::Sink>::idle_rules(self.reader, &self.options())
    }

    fn go<S: EventSink>(
        &self,
        mut sink: S,
        mut talk: Option<&mut ExportTalk>,
    ) -> io::Result<Option<WrittenExport>> {
        let range = self.range;
        let read = match S::BEFORE {
            true => TimeRange { from: i64::MIN, ..range },
            false => range,
        };
        let stopped = || self.stop.requests() > 0;
        let bound = || self.flags.selection.bound(self.reader, read, self.flags.wanted(), &stopped);
        let mut selection = self.selection.get_or_init(bound).clone();
        let mut events = self.reader.events(read);
        let mut wanted = self.flags.limit.map_or(u64::MAX, NonZeroU64::get);
        while wanted > 0 {
            let mut left = LOOK_INTERVAL;
            let end = events.run(|message| {
                let done = match message {
                    Read::Event(event) => {
                        let is_selected =
                            selection.as_mut().is_none_or(|selection| selection.accepts(&event));
                        let is_before =
                            S::BEFORE && event.time().is_some_and(|time| time < range.from);
                        match is_selected && !is_before {
                            true => {
                                wanted -= 1;
                                sink.event(&event)
                            }
                            false => sink.skip(&event, is_selected),
                        }
                    }
                    Read::Packet(_) => Ok(()),
                    Read::Discarded(discarded) => sink.discarded(&discarded),
                    Read::Damage(damage) => {
                        talk.iter_mut().for_each(|talk| talk.damage(damage));
                        match damage.is_note() {
                            true => Ok(()),
                            false => sink.damage(damage, self.reader.stream_of(damage)),
                        }
                    }
                };
                left -= 1;
                match done {
                    Err(error) => ControlFlow::Break(Some(error)),
                    Ok(()) if left == 0 || wanted == 0 => ControlFlow::Break(None),
                    Ok(()) => ControlFlow::Continue(()),
                }
            });
            match end {
                ControlFlow::Continue(()) => break,
                ControlFlow::Break(Some(error)) => return Err(error),
                ControlFlow::Break(None) => {}
            }
            if self.stop.requests() > 0 {
                return Ok(None);
            }
            if let Some(talk) = &talk {
                talk.line.set(events.bytes_read());
            }
        }
        // Somebody who has just asked to stop does not expect a file.
        match self.stop.requests() {
            0 => sink.finish().map(Some),
            _ => Ok(None),
        }
    }
}

impl<W: Write> EventSink for Exporter<W> {
    fn event(&mut self, event: &strata_ctf::read::Event<'_>) -> io::Result<()> {
        Exporter::event(self, event)
    }

    fn skip(&mut self, event: &strata_ctf::read::Event<'_>, _: bool) -> io::Result<()> {
        Exporter::skip(self, event)
    }

    fn discarded(&mut self, discarded: &strata_ctf::read::Discarded<'_>) -> io::Result<()> {
        Exporter::discarded(self, discarded)
    }

    fn damage(&mut self, damage: &Damage, stream: Option<&Stream>) -> io::Result<()> {
        Exporter::damage(self, damage, stream)
    }

    fn finish(self) -> io::Result<WrittenExport> {
        let (_, summary) = Exporter::finish(self)?;
        Ok(WrittenExport {
            events: summary.events,
            bytes: summary.bytes,
            perfetto: Some(summary),
            ..WrittenExport::default()
        })
    }
}

/// Writes a CTF trace.
struct CtfExport<'r> {
    cutter: Cutter<'r>,
    events: u64,
}

impl EventSink for CtfExport<'_> {
    fn event(&mut self, event: &strata_ctf::read::Event<'_>) -> io::Result<()> {
        self.events += 1;
        Ok(self.cutter.event(event)?)
    }

    fn discarded(&mut self, discarded: &strata_ctf::read::Discarded<'_>) -> io::Result<()> {
        Ok(self.cutter.discarded(discarded)?)
    }

    fn finish(self) -> io::Result<WrittenExport> {
        let bytes = self.cutter.finish()?;
        Ok(WrittenExport { events: self.events, bytes, ..WrittenExport::default() })
    }
}

/// Writes JSON or CSV.
struct TextExport<W> {
    out: W,
    renderer: Renderer,
    text: Vec<u8>,
    written: WrittenExport,
}

impl<W: Write> TextExport<W> {
    fn new(out: W, layout: render::Options) -> TextExport<W> {
        let renderer = Renderer::new(&layout);
        let mut text = Vec::with_capacity(TEXT_BYTES);
        renderer.head(&mut text);
        TextExport { out, renderer, text, written: WrittenExport::default() }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.text)?;
        self.written.bytes = self.written.bytes.saturating_add(self.text.len() as u64);
        self.text.clear();
        Ok(())
    }
}

impl<W: Write> EventSink for TextExport<W> {
    fn event(&mut self, event: &strata_ctf::read::Event<'_>) -> io::Result<()> {
        self.renderer.event(event, &mut self.text);
        self.written.events += 1;
        match self.text.len() >= TEXT_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn finish(mut self) -> io::Result<WrittenExport> {
        self.flush()?;
        self.out.flush()?;
        Ok(self.written)
    }
}

/// Messages during an export.
struct ExportTalk {
    line: ReadingLine,
    damages: u64,
    /// Streams about which a note was printed.
    noted: HashSet<NoteKey>,
}

impl ExportTalk {
    fn damage(&mut self, damage: &Damage) {
        // Traces of two machines are exported like those of one, but the user must know.
        if damage.is_note() && !self.noted.insert(damage.note_key()) {
            return;
        }
        if damage.is_remark() {
            return self.say(Weight::Warning, damage);
        }
        self.damages += 1;
        if self.damages <= DAMAGE_SHOWN {
            self.say(Weight::Failure, damage);
        }
    }

    fn say(&self, weight: Weight, damage: &Damage) {
        self.line.say(&Message { weight, text: clean(&damage.to_string()) });
    }

    fn rest(&self) {
        if self.damages > DAMAGE_SHOWN {
            stderr::failure(&counted(self.damages - DAMAGE_SHOWN, "other damage"));
        }
    }
}

fn warning(text: String) {
    stderr::message(&Message { weight: Weight::Warning, text });
}

/// Reports what was written, and how to use it.
fn say(
    written: &WrittenExport,
    is_damaged: bool,
    target: &OutputName,
    flags: &ExportFlags,
    begin: Instant,
) {
    if written.events == 0 {
        let nothing = match flags.to {
            ExportFormat::Otlp if !flags.is_any() => {
                "no span begins and ends in these traces. See `strata analyze spans`"
            }
            _ => flags.of.nothing(&flags.selection, flags.selection.nothing()),
        };
        warning(format!("nothing to export: {nothing}"));
        if is_damaged || flags.is_any() || flags.to == ExportFormat::Otlp {
            return;
        }
    }
    let texts = written.perfetto.iter().flat_map(remarks);
    let texts = texts.chain(written.database.iter().flat_map(sqlite::remarks));
    for text in texts.chain(written.otlp.iter().flat_map(otlp::remarks)) {
        warning(text);
    }
    flags.files.remarks().iter().for_each(|text| warning(clean(text)));
    let of = match flags.no_events {
        true => "states, calls and spans of ",
        false => "",
    };
    let done = match target {
        OutputName::Receiver(_) => "sent",
        OutputName::File(_) | OutputName::Stdout => "wrote",
    };
    let what = if flags.to == ExportFormat::Otlp { "span" } else { "event" };
    let text = format!(
        "{done} {of}{} to {target} ({}) in {}",
        counted(written.events, what),
        size(written.bytes),
        time(begin.elapsed())
    );
    stderr::message(&Message { weight: Weight::Talk, text });
    let path = match target {
        OutputName::File(path) => path,
        OutputName::Stdout | OutputName::Receiver(_) => return,
    };
    if flags.to == ExportFormat::Sqlite {
        return stderr::message(&Message { weight: Weight::Talk, text: sqlite::how_to_ask(path) });
    }
    if flags.to != ExportFormat::Perfetto {
        return;
    }
    let text = "open it at https://ui.perfetto.dev, which keeps it in your browser".to_owned();
    stderr::message(&Message { weight: Weight::Talk, text });
    too_large(written.bytes).into_iter().for_each(warning);
}

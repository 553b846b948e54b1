//! `strata export`: traces for other tools.

mod folder;
mod output;
mod sink;
mod sqlite;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{bail, Context, Result};
use clap::{Args, ValueEnum, ValueHint};
use strata_analyze::counters::CounterRule;
use strata_analyze::perfetto::{together, Exporter, Options, PairRule, Summary};
use strata_analyze::pipeline;
use strata_analyze::render::{self, Renderer, ThreadNames};
use strata_analyze::sql;
use strata_ctf::cut::Cutter;
use strata_ctf::read::{Damage, Message as Read, NoteKey, Reader, Selection, Stream, TimeRange};
use strata_session::stop::{survive_file_size_limit, Stop};

use crate::reading::selection::{SelectionFlags, SYNTAX};
use crate::reading::traces::TracesFlags;
use crate::reading::{ending, limits};
use crate::talk;
use crate::talk::messages::{Message, Weight};
use crate::talk::progress::ReadingLine;
use crate::talk::units::{clean, counted, shell_word, size, time, typed};
use crate::view::too_many_names;
use folder::OutputFolder;
use output::OutputFile;
use sink::{EventSink, WrittenExport};
use sqlite::Database;

/// Damages that are said one by one.
const DAMAGE_SHOWN: u64 = 20;
/// Pairs of which it is said that their slices overlap.
const OVERLAPS_SHOWN: usize = 5;
/// Between two looks at whether to stop, and at how far it is \[messages\].
const LOOK_INTERVAL: u64 = 4096;
/// Text that is collected before it is written \[byte\].
const TEXT_BYTES: usize = 256 << 10;
/// Threads that write for Perfetto: each reads all, so that more of them gain little.
const SHARES_MAX: usize = 4;
/// Larger files than this are too much for a browser.
const BROWSER_BYTES: u64 = 2 << 30;

const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  no event matched what was asked for (--filter, --from, --until,
     --last), and no file was written; or a --pair or --counter matches
     nothing
  2  a trace is damaged (all that is intact was exported), or the export
     failed
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

/// `strata export`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{PAIRS}\n{SYNTAX}\n{EXIT_STATUS}"))]
pub struct ExportFlags {
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: ExportFormat,

    /// Write FILE (of ctf, a folder); '-' is stdout [default: the trace's name in the current folder]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    selection: SelectionFlags,

    /// Write only the first N events
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroU64>,

    /// JSON and CSV: beside a thread's number its name, as it was then; the trace is read twice
    #[arg(long)]
    thread_names: bool,

    /// SQLite: leave out the event records, which are most of the file
    #[arg(long)]
    no_events: bool,

    /// Perfetto: show what is between event BEGIN and event END as a slice; see --help. SQLite: as a span
    #[arg(long = "pair", value_name = "BEGIN=END[:KEYFIELD]")]
    pairs: Vec<PairRule>,

    /// Perfetto: make slices of system calls and of --pair only, not by the events' names
    #[arg(long)]
    no_pairs: bool,

    /// Perfetto, SQLite: have a numeric field as a counter, such as 'myapp:queue.length'; '*' is any text
    #[arg(long = "counter", value_name = "[EVENT.]FIELD")]
    counters: Vec<CounterRule>,

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
    /// A smaller trace of the same kind, which is a folder
    Ctf,
}

impl ExportFormat {
    fn extension(self) -> &'static str {
        match self {
            ExportFormat::Perfetto => "perfetto-trace",
            ExportFormat::Json => "json",
            ExportFormat::Csv => "csv",
            ExportFormat::Sqlite => "sqlite",
            ExportFormat::Ctf => "ctf",
        }
    }
}

/// What to say where no format is named: each, with what it is for.
pub fn without_format() -> String {
    let mut text = "export: --to FORMAT is not given. The formats are:".to_owned();
    for value in ExportFormat::value_variants().iter().filter_map(ExportFormat::to_possible_value) {
        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = write!(text, "\n  --to {:9} {help}", value.get_name());
    }
    text + "\nFor more information, try 'strata export --help'."
}

/// Where it goes.
enum OutputName {
    Stdout,
    File(PathBuf),
}

/// What is being written.
enum Destination {
    Stdout,
    File(OutputFile),
    Database(OutputFile),
    Folder(OutputFolder),
}

/// Do it, and give the exit status.
pub fn run(flags: &ExportFlags) -> Result<u8> {
    let begin = Instant::now();
    if flags.no_pairs && flags.to != ExportFormat::Perfetto {
        bail!("--no-pairs is for --to perfetto. Leave it out");
    }
    let is_of_timeline = matches!(flags.to, ExportFormat::Perfetto | ExportFormat::Sqlite);
    for (flag, is_given) in
        [("--pair", !flags.pairs.is_empty()), ("--counter", !flags.counters.is_empty())]
    {
        if is_given && !is_of_timeline {
            bail!("{flag} is for --to perfetto and --to sqlite. Leave it out");
        }
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
    let target = target(flags)?;
    // What goes to stdout can end anywhere; a file must not be left behind.
    let stop = match &target {
        OutputName::Stdout => Stop::new(),
        OutputName::File(_) => Stop::on_signals().context("export: cannot handle signals")?,
    };
    // A half file must not stay.
    survive_file_size_limit().context("export: cannot handle signals")?;
    let traces = flags.traces.paths()?;
    let reader = flags.selection.open(&traces)?;
    let range = flags.selection.range(&reader)?;
    let line = ReadingLine::new("exporting", &reader, range == TimeRange::ALL);
    let mut talk = ExportTalk { line, damages: 0, noted: HashSet::new() };
    reader.damage().iter().for_each(|damage| talk.damage(damage));
    ending::messages(&reader).iter().for_each(talk::message);
    flags.selection.hints(&reader).into_iter().for_each(warning);
    let tame = matches!(target, OutputName::Stdout) && io::stdout().is_terminal();
    let job = ExportJob { flags, reader: &reader, range, stop: &stop, tame };
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
    };
    let written = match &place {
        Destination::Stdout => job.write(Box::new(io::stdout().lock()), &mut talk),
        Destination::Database(output) => job.database(output.path(), &mut talk),
        Destination::File(output) => job.write(Box::new(output.writer()?), &mut talk),
        Destination::Folder(folder) => job.cut(folder.path(), &mut talk),
    };
    talk.line.clear();
    let what = target.to_string();
    let Some(written) = written.map_err(|error| not_written(&error, &what))? else {
        // The file goes with its guard.
        return Ok(crate::talk::exit::stopped(&stop));
    };
    if written.events > 0 || (talk.damages == 0 && !flags.selection.is_any()) {
        match place {
            Destination::Stdout => Ok(()),
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
    Ok(match (talk.damages, written.events) {
        (0, 0) if flags.selection.is_any() => 1,
        (0, _) => u8::from(!idle.is_empty()),
        _ => 2,
    })
}

/// Why it could not be written, and what to do.
fn not_written(error: &io::Error, what: &str) -> anyhow::Error {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull => ". Make room, or use -o with a file on another file system",
        io::ErrorKind::FileTooLarge => {
            ". Raise the limit (ulimit -f), or export less (--filter, --from, --until)"
        }
        // Whoever reads a pipe has seen enough: main() tells by the kind.
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
            if flags.to == ExportFormat::Perfetto && io::stdout().is_terminal() {
                bail!("a Perfetto trace is no text for a terminal. Use -o FILE");
            }
            Ok(OutputName::Stdout)
        }
        Some(path) => Ok(OutputName::File(path.clone())),
        None => {
            let first = flags.traces.first().context("no trace is named")?;
            Ok(OutputName::File(PathBuf::from(default_name(first, flags.to))))
        }
    }
}

/// `some/where/my-trace/` as `my-trace.json`.
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

/// What is to be done.
struct ExportJob<'j> {
    flags: &'j ExportFlags,
    reader: &'j Reader,
    range: TimeRange,
    stop: &'j Stop,
    /// It goes to a terminal.
    tame: bool,
}

impl ExportJob<'_> {
    /// None: asked to stop.
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
            ExportFormat::Sqlite => Err(io::Error::other("a database needs a file")),
            ExportFormat::Ctf => Err(io::Error::other("a CTF trace is a folder")),
        }
    }

    /// By all CPUs. None: asked to stop.
    fn perfetto(
        &self,
        out: &mut impl Write,
        talk: &mut ExportTalk,
    ) -> io::Result<Option<WrittenExport>> {
        let shares = pipeline::threads().min(SHARES_MAX);
        // All of them find the same; one tells it.
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

    /// As a smaller trace. None: asked to stop.
    fn cut(&self, folder: &Path, talk: &mut ExportTalk) -> io::Result<Option<WrittenExport>> {
        let cutter = Cutter::new(self.reader, folder, self.range)?;
        self.go(CtfExport { cutter, events: 0 }, Some(talk))
    }

    /// As a database. None: asked to stop.
    fn database(&self, path: &Path, talk: &mut ExportTalk) -> io::Result<Option<WrittenExport>> {
        let options = sql::Options {
            range: self.range,
            events: !self.flags.no_events,
            pairs: self.flags.pairs.clone(),
            counters: self.flags.counters.clone(),
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
        render::Options { format, zone, tame, thread_names, ..render::Options::default() }
    }

    fn options(&self) -> Options {
        Options {
            pairs: self.flags.pairs.clone(),
            automatic_pairs: !self.flags.no_pairs,
            counters: self.flags.counters.clone(),
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
        let mut selection = self.flags.selection.filter().map(Selection::new);
        let range = self.range;
        let mut events = self.reader.events(match S::BEFORE {
            true => TimeRange { from: i64::MIN, ..range },
            false => range,
        });
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
        // Whoever asked a moment ago does not expect a file.
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

/// CTF.
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

/// JSON or CSV.
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

/// What is said on the way.
struct ExportTalk {
    line: ReadingLine,
    damages: u64,
    /// Streams of which a note was said.
    noted: HashSet<NoteKey>,
}

impl ExportTalk {
    fn damage(&mut self, damage: &Damage) {
        // Two machines are exported as well as one; whoever looks at both must know.
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
            talk::failure(&counted(self.damages - DAMAGE_SHOWN, "other damage"));
        }
    }
}

fn warning(text: String) {
    talk::message(&Message { weight: Weight::Warning, text });
}

/// What was written, and what to do with it.
fn say(
    written: &WrittenExport,
    is_damaged: bool,
    target: &OutputName,
    flags: &ExportFlags,
    begin: Instant,
) {
    if written.events == 0 {
        warning(format!("nothing to export: {}", flags.selection.nothing()));
        if is_damaged || flags.selection.is_any() {
            return;
        }
    }
    let texts = written.perfetto.iter().flat_map(remarks);
    for text in texts.chain(written.database.iter().flat_map(sqlite::remarks)) {
        warning(text);
    }
    let of = match flags.no_events {
        true => "states, calls and spans of ",
        false => "",
    };
    let text = format!(
        "wrote {of}{} to {target} ({}) in {}",
        counted(written.events, "event"),
        size(written.bytes),
        time(begin.elapsed())
    );
    talk::message(&Message { weight: Weight::Talk, text });
    let path = match target {
        OutputName::File(path) => path,
        OutputName::Stdout => return,
    };
    if flags.to == ExportFormat::Sqlite {
        return talk::message(&Message { weight: Weight::Talk, text: sqlite::how_to_ask(path) });
    }
    if flags.to != ExportFormat::Perfetto {
        return;
    }
    let text = "open it at https://ui.perfetto.dev, which keeps it in your browser".to_owned();
    talk::message(&Message { weight: Weight::Talk, text });
    too_large(written.bytes).into_iter().for_each(warning);
}

/// What to do with a file of so many bytes that a browser does not open it.
fn too_large(bytes: u64) -> Option<String> {
    (bytes > BROWSER_BYTES).then(|| {
        format!(
            "{} is more than browsers hold (about {}). Export a part with --from, --until or --filter",
            size(bytes),
            size(BROWSER_BYTES)
        )
    })
}

/// What in a Perfetto trace is not as one would expect.
fn remarks(summary: &Summary) -> Vec<String> {
    let mut texts = Vec::new();
    if summary.discarded > 0 {
        let what = counted(summary.discarded, "event record");
        texts.push(format!("{what} discarded by the tracer; marked where that happened"));
    }
    if summary.ends_without_begin > 0 {
        let what = counted(summary.ends_without_begin, "slice");
        texts.push(format!("{what} without begin in the trace: shown as instants"));
    }
    if summary.unfinished > 0 {
        let what = counted(summary.unfinished, "slice");
        texts.push(format!("{what} without end in the trace: marked 'unfinished'"));
    }
    if summary.unknown > 0 {
        let what = counted(summary.unknown, "slice");
        texts.push(format!(
            "{what} of CPUs without end in the trace: 'unknown' up to the next record there, as is what the \
             thread did. Records were discarded, a filter has left them out, or the kernel hides the thread: \
             `strata analyze cpu` names those"
        ));
    }
    if summary.guessed > 0 {
        let what = counted(summary.guessed, "slice");
        texts.push(format!(
            "{what} of threads that the trace does not tell apart (no vtid): the end of each was \
             guessed by its CPU. Record the context vtid, or name a key: --pair BEGIN=END:KEYFIELD"
        ));
    }
    for overlap in summary.overlaps.iter().take(OVERLAPS_SHOWN) {
        let name = clean(overlap.rule.split('=').next().unwrap_or_default());
        let rule = shell_word(&clean(&overlap.rule));
        texts.push(match overlap.disagree {
            0 => format!(
                "{} of {name} without a begin in its thread: if they end in another thread than they \
                 begin in, put them together by their id: --pair {rule}",
                counted(overlap.ends_alone, "end")
            ),
            wrong => format!(
                "{} of {name} with another id at the end than at the begin: their lengths are wrong. They \
                 overlap in a thread, or end in another one: put them together by their id: --pair {rule}",
                counted(wrong, "slice")
            ),
        });
    }
    if summary.overlaps.len() > OVERLAPS_SHOWN {
        let more = counted((summary.overlaps.len() - OVERLAPS_SHOWN) as u64, "other pair");
        texts.push(format!("{more} of events seem to overlap in a thread, too"));
    }
    if summary.too_many_open > 0 {
        let what = counted(summary.too_many_open, "event");
        texts.push(format!("{what} would begin more slices than can be open: shown as instants"));
    }
    texts.extend(limits::texts(summary.threads_left_out, summary.names_left_out));
    texts.extend(limits::counters(summary.counters_left_out));
    texts
}

//! The command `strata view`: writes the events of traces to stdout or a pager.
//!
//! ```text
//! Reader ── pipeline: workers render slices of time ── in order ─┬─ text ──── ViewOutput (text_output.rs): stdout, pager
//!  selection, --mine, range                                      └─ remarks ─ Speaker (view_messages.rs): stderr
//! FollowedTraces ── FollowRenderer, one thread ── view --follow (follow.rs)
//! ```
//!
//! [`run`] does these steps in order. Everything that can fail comes before the pager starts, since a message would
//! be hidden behind its screen:
//!
//! 1. open the traces, and find the time range of the flags;
//! 2. with `--mine`, read the trace once to know the recorded command and its descendants;
//! 3. with `--thread-names`, read it once more for the names of threads over time;
//! 4. compile the filter for the trace's classes, and run the pipeline, which writes and remarks as it goes;
//! 5. report damage, files without debug information, and why nothing was shown.
//!
//! The format is short on a terminal, else babeltrace2's text; a list of fields or a format flag changes it. Only the
//! threads of the pipeline read and render: `ViewOutput` and `Speaker` belong to the main thread.
//!
//! Exit status: 0, 1 if a selection matched no event, 2 if a trace is damaged, and after a signal that of
//! [`exit::stopped`](crate::exit_status::stopped). A closed pipe ends the command without a message.

mod follow;
mod text_output;
mod view_messages;

use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum, ValueHint};
use strata_analyze::command_descendants::Mine;
use strata_analyze::debug_info::{KernelFunctions, SourceOptions, SymbolFiles};
use strata_analyze::pipeline::{self, Job, PipelineOutput, Remark};
use strata_analyze::render::{ClockStyle, Clocks, FieldList, Format, Head, Options, ThreadNames};
use strata_ctf::read::{Reader, TimeRange};
use strata_session::stop::Stop;

use crate::exit_status::STOP_PATIENCE;
use crate::reading::followed_traces::FollowedTraces;
use crate::reading::number_parser::nr_threads;
use crate::reading::selection::{until_or_to, OfFlags, SelectionFlags, SYNTAX};
use crate::reading::traces::{or_at_relay, TracesFlags};
use crate::stderr::messages::Weight;
use crate::stderr::progress::ReadingLine;
use crate::stdout;
use crate::units::{clean, counted};
use follow::Followed;
use text_output::ViewOutput;
use view_messages::Speaker;

const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  no event matched what was asked for (--filter, --from, --until,
     --last, --mine, --of)
  2  a trace is damaged (all that is intact is shown), or nothing can
     be read
  130  ended by Ctrl-C, with --follow too";

/// Flags of `strata view`.
#[derive(Debug, Args)]
#[command(mut_arg("until", until_or_to), mut_arg("traces", or_at_relay), mut_arg("trace_path", |one| one.short('t')))]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{SYNTAX}\n{EXIT_STATUS}"))]
pub struct ViewFlags {
    #[command(flatten)]
    traces: TracesFlags,

    #[command(flatten)]
    selection: SelectionFlags,

    #[command(flatten)]
    of: OfFlags,

    /// Format of the output: a short line for each event, babeltrace2's text, a JSON object on each line, or a table
    /// [default: short on a terminal, else text]
    #[arg(long, value_enum)]
    format: Option<FormatFlag>,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Only the command that was recorded and what it started
    #[arg(long)]
    mine: bool,

    /// In the short format, show what was there when recording began, too (lttng_statedump_*)
    #[arg(long)]
    all: bool,

    /// Show only these fields; also whole parts: packet, common, context, payload. With --format csv
    /// a column for each. In front of the name as in babeltrace2: loglevel, emf, callsite, trace,
    /// trace:hostname, trace:domain, trace:procname, trace:vpid; all
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    fields: Vec<String>,

    /// How times are shown: time, date, seconds, cycles or none [default: time]
    #[arg(long, value_enum, value_name = "LAYOUT", hide_possible_values = true)]
    clock: Option<ClockFlag>,

    /// Leave out the time since the event before
    #[arg(long)]
    no_delta: bool,

    /// Continue with new events of traces that are being recorded, until the recording ends or Ctrl-C
    #[arg(long, conflicts_with_all = ["mine", "thread_names", "of", "stream_intersection"])]
    follow: bool,

    /// Show only the first N events
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroU64>,

    /// Add the thread's name at that time to its number; the trace is read twice
    #[arg(long)]
    thread_names: bool,

    #[command(flatten)]
    source: SourceFlags,

    /// Use colours: auto, always or never
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    color: WhenFlag,

    /// A line in the text where events were discarded, instead of a message
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    losses: WhenFlag,

    /// Do not start a pager on a terminal [default: $STRATA_PAGER, $PAGER, or less]
    #[arg(long)]
    no_pager: bool,

    /// Read with N threads [default: as many as there are CPUs]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = nr_threads)]
    threads: Option<NonZeroUsize>,
}

/// `--debug-info`, with the names that babeltrace2 has.
#[derive(Debug, Args)]
struct SourceFlags {
    /// Of events with an instruction pointer (LTTng's context ip) or with call stacks, show function, file and line, where
    /// the traced programs' files and their debug information are here
    #[arg(long)]
    debug_info: bool,

    /// Look for separate debug information in DIR [default: /usr/lib/debug]; implies --debug-info
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    debug_info_dir: Option<PathBuf>,

    /// The traced system's files are below DIR; implies --debug-info
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    debug_info_target_prefix: Option<PathBuf>,

    /// Show whole paths of programs and sources; implies --debug-info
    #[arg(long)]
    debug_info_full_path: bool,

    /// With --debug-info: open no file that the trace names, and show objects without functions and lines
    #[arg(long, conflicts_with_all = ["debug_info_dir", "debug_info_target_prefix"])]
    no_symbols: bool,

    /// With --debug-info: show names of C++ and Rust as compilers have made them
    #[arg(long)]
    mangled: bool,

    /// The symbol files read so far.
    #[arg(skip)]
    files: SymbolFiles,
}

impl SourceFlags {
    fn options(&self) -> Option<SourceOptions> {
        let options = SourceOptions {
            folder: self.debug_info_dir.clone(),
            prefix: self.debug_info_target_prefix.clone(),
            full_path: self.debug_info_full_path,
            no_symbols: self.no_symbols,
            mangled: self.mangled,
            files: self.files.clone(),
        };
        let asked = SourceOptions { no_symbols: false, mangled: false, ..options.clone() };
        (self.debug_info || asked != SourceOptions::default()).then_some(options)
    }
}

/// The value of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatFlag {
    /// Time, program/thread, and event; both ends of a system call on one line
    Short,
    /// Text as babeltrace2 writes it
    Text,
    /// A JSON object on each line
    Json,
    /// A table, with a header (RFC 4180)
    Csv,
}

/// The value of `--clock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClockFlag {
    /// 22:13:20.000000012
    Time,
    /// 2023-11-14 22:13:20.000000012
    Date,
    /// Seconds since 1970: 1700000000.000000012
    Seconds,
    /// Cycles of the clock, as they were recorded
    Cycles,
    /// No times
    None,
}

/// The value of `--color` and `--losses`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum WhenFlag {
    /// On a terminal; no colours if NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Runs `strata view`, and returns the exit status.
pub fn run(flags: &ViewFlags) -> Result<u8> {
    if flags.follow {
        return follow(flags);
    }
    let reader = flags.selection.open(&flags.traces.paths()?)?;
    let stop = Stop::on_signals().context("view: cannot handle signals")?;
    let mut options = flags.options(stdout::is_terminal());
    let is_csv = options.format == Format::Csv;
    if options.source.is_some() && options.fields.is_some() && is_csv {
        anyhow::bail!(
            "--format csv with --fields has no column for --debug-info. Leave one of them out, or use another format"
        );
    }
    let range = flags.selection.range(&reader)?;
    let threads = flags.threads.map_or_else(pipeline::threads, NonZeroUsize::get);
    let stopped = || stop.requests() > 0;
    // Everything that can fail comes before the pager is started.
    let mine = match flags.mine {
        true => Some(Mine::read(&reader, threads, &stopped)?),
        false => None,
    };
    let mut target = ViewOutput::open(!flags.no_pager).context("view: cannot use stdout")?;
    // A pager ends when its user closes it, who may want to see what was read.
    if !target.is_pager() {
        stop.end_after(STOP_PATIENCE).context("view: cannot handle signals")?;
    }
    flags.show_on(&target, &mut options);
    options.functions = flags.functions(&reader, &options);
    options.clocks = Clocks::of(&reader);
    let uncertainty = options.clocks.as_ref().map_or(0, |clocks| clocks.uncertainty());
    if flags.thread_names && options.format != Format::Short {
        let names = ThreadNames::read(&reader, threads, &stopped);
        options.thread_names = Some(Arc::new(names));
    }

    // While text scrolls over the terminal, there is no place for a progress line.
    let line = match target.is_terminal() {
        true => ReadingLine::none(),
        false => ReadingLine::new("reading", &reader, range == TimeRange::ALL),
    };
    let mut speaker = Speaker::new(&options, target.is_pager(), line);
    speaker.opened(&reader, &flags.selection, options.fields.as_ref(), flags.thread_names);
    if let Some(left_out @ 1..) = options.thread_names.as_ref().map(|names| names.left_out()) {
        speaker.say(Weight::Warning, too_many_names(left_out));
    }
    if let Some(unknown @ 1..) = mine.as_ref().map(Mine::unknown) {
        let text = format!(
            "--mine: {} that do not say which process they are of are not shown",
            counted(unknown as u64, "trace")
        );
        speaker.say(Weight::Warning, text);
    }
    let selection = flags.selection.bound(&reader, range, flags.of.made_by(), &stopped);
    let job = Job {
        reader: &reader,
        range,
        options,
        filter: selection.as_ref(),
        mine: mine.as_ref(),
        limit: flags.limit.map_or(u64::MAX, NonZeroU64::get),
        threads,
        stop: &stopped,
    };
    let mut written = Ok(());
    let summary = pipeline::run(&job, &mut |output| {
        match output {
            PipelineOutput::Text(text) => {
                if let Err(error) = target.write(text) {
                    written = Err(error);
                    return ControlFlow::Break(());
                }
            }
            PipelineOutput::Remark(remark) => speaker.remark(remark),
            PipelineOutput::Read(bytes) => speaker.progress(bytes),
        }
        ControlFlow::Continue(())
    });
    speaker.clear();
    target.close();
    // The reader has closed the pipe, or the disk is full: further messages would not help.
    written.context("view: cannot write to stdout")?;
    for damage in reader.passed_over() {
        speaker.remark(&Remark::Damage(damage));
    }
    flags.source.files.remarks().iter().for_each(|text| {
        speaker.say(Weight::Warning, clean(text));
    });
    speaker.end(&summary);
    speaker.unsure(summary.unsure, uncertainty);
    if summary.stopped {
        return Ok(crate::exit_status::stopped(&stop));
    }
    let damaged = summary.damage > 0 || reader.damage().iter().any(|found| !found.is_remark());
    if summary.events == 0 {
        let nothing = match (flags.mine, flags.selection.is_any()) {
            (true, false) => "no event is of the command and what it started",
            _ => flags.of.nothing(&flags.selection, flags.selection.nothing()),
        };
        speaker.say(Weight::Warning, nothing.to_owned());
    }
    if summary.events == 0 && summary.hidden > 0 {
        let text = format!(
            "{} of the state when recording began, which --all shows",
            counted(summary.hidden, "event record")
        );
        speaker.say(Weight::Warning, text);
    }
    let is_asked = flags.selection.is_any() || flags.mine || flags.of.words().is_some();
    let unmatched = summary.events == 0 && is_asked;
    Ok(if damaged { 2 } else { u8::from(unmatched) })
}

/// Shows events of traces that are being recorded.
fn follow(flags: &ViewFlags) -> Result<u8> {
    let stop = Stop::on_signals().context("view: cannot handle signals")?;
    let mut options = flags.options(stdout::is_terminal());
    let target = ViewOutput::open(false).context("view: cannot use stdout")?;
    stop.end_after(STOP_PATIENCE).context("view: cannot handle signals")?;
    flags.show_on(&target, &mut options);
    let limit = flags.limit.map_or(u64::MAX, NonZeroU64::get);
    let Some(traces) = FollowedTraces::open("view", &flags.traces, &stop)? else {
        return Ok(crate::exit_status::stopped(&stop));
    };
    follow::run(Followed { traces, selection: &flags.selection, options, limit }, target, &stop)
}

/// Returns the warning about threads whose names could not be kept.
pub fn too_many_names(left_out: u64) -> String {
    format!(
        "--thread-names: {left_out} names of threads are not known, those before are as many as are kept. Name fewer \
         traces"
    )
}

impl ViewFlags {
    /// Returns the format that the flags choose. The default is short on a terminal, otherwise text.
    fn layout(&self, is_terminal: bool) -> Format {
        match self.format {
            _ if self.json => Format::Json,
            Some(FormatFlag::Short) => Format::Short,
            Some(FormatFlag::Text) => Format::Text,
            Some(FormatFlag::Json) => Format::Json,
            Some(FormatFlag::Csv) => Format::Csv,
            None if is_terminal && self.source.options().is_none() => Format::Short,
            None => Format::Text,
        }
    }

    /// Sets the options that depend on the destination of the output.
    fn show_on(&self, target: &ViewOutput, options: &mut Options) {
        options.colours = match self.color {
            WhenFlag::Auto => target.wants_colours(),
            WhenFlag::Always => true,
            WhenFlag::Never => false,
        };
        options.tame = target.is_terminal();
        options.width = target.width();
        options.losses = match self.losses {
            WhenFlag::Auto => target.is_terminal(),
            WhenFlag::Always => true,
            WhenFlag::Never => false,
        };
    }

    /// Returns the kernel's functions if their names are to be shown. Text stays that of babeltrace2, and a list of
    /// fields is what is shown.
    fn functions(&self, reader: &Reader, options: &Options) -> Option<KernelFunctions> {
        let is_shown = options.format != Format::Text && options.fields.is_none();
        let names = SourceOptions {
            no_symbols: self.source.no_symbols,
            files: self.source.files.clone(),
            ..SourceOptions::default()
        };
        is_shown.then(|| KernelFunctions::of(reader, &names)).flatten()
    }

    fn options(&self, is_terminal: bool) -> Options {
        let style = self.clock.map(|flag| match flag {
            ClockFlag::Time => ClockStyle::Time,
            ClockFlag::Date => ClockStyle::Date,
            ClockFlag::Seconds => ClockStyle::Seconds,
            ClockFlag::Cycles => ClockStyle::Cycles,
            ClockFlag::None => ClockStyle::None,
        });
        let (head, fields) = Head::split(&self.fields);
        Options {
            format: self.layout(is_terminal),
            all: self.all,
            clock: style,
            zone: self.selection.zone().clone(),
            delta: !self.no_delta,
            fields: (!fields.is_empty()).then(|| FieldList::new(&fields)),
            head,
            source: self.source.options(),
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Action, Flags};
    use clap::Parser as _;
    use strata_analyze::render::TimeZone;

    fn view(arguments: &[&str]) -> Result<Options, String> {
        let arguments = [&["strata", "view"], arguments].concat();
        match Flags::try_parse_from(arguments).map_err(|error| error.to_string())?.action {
            Action::View(flags) => Ok(flags.options(false)),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn view_flags_when_none_are_given_are_babeltrace2_s_layout() {
        let options = view(&["trace"]).unwrap();
        assert_eq!((options.format, options.clock, options.delta), (Format::Text, None, true));
        assert_eq!(options.fields, None);
    }

    #[test]
    fn view_flags_of_every_kind_reach_the_renderer() {
        let options = view(&[
            "--format=csv",
            "--clock",
            "date",
            "--timezone",
            "utc",
            "--no-delta",
            "--fields",
            "a,payload",
            "t",
            "u",
        ])
        .unwrap();
        assert_eq!(options.format, Format::Csv);
        assert_eq!(options.clock, Some(ClockStyle::Date));
        assert_eq!(options.zone, TimeZone::UTC);
        assert!(!options.delta);
        assert_eq!(options.fields, Some(FieldList::new(&["a", "payload"])));
        assert_eq!(view(&["--clock=cycles", "t"]).unwrap().clock, Some(ClockStyle::Cycles));
        assert_eq!(view(&["--timezone=utc", "t"]).unwrap().clock, None);
        assert_eq!(view(&["t"]).unwrap().zone, TimeZone::system());
    }

    #[test]
    fn view_flags_that_make_no_sense_are_refused_with_what_would() {
        for (arguments, part) in [
            (&[][..], "TRACE"),
            (&["--format", "xml", "t"], "json"),
            (&["--clock", "moon", "t"], "cycles"),
            (&["--clock", "utc", "t"], "--clock"),
            (&["--threads", "0", "t"], "--threads"),
            (&["--threads", "1025", "t"], "from 1 to 1024"),
            (&["--threads", "4294967296", "t"], "from 1 to 1024"),
        ] {
            let text = view(arguments).unwrap_err();
            assert!(text.contains(part), "{arguments:?}: {text}");
        }
    }
}

//! `strata view`: the events of traces, to stdout or a pager.

mod pager;
mod say;
mod target;

use std::io::{self, IsTerminal};
use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum, ValueHint};
use strata_analyze::debug_info::SourceOptions;
use strata_analyze::mine::Mine;
use strata_analyze::pipeline::{self, Job, PipelineOutput, Remark};
use strata_analyze::render::{ClockStyle, Clocks, FieldList, Format, Head, Options, ThreadNames};
use strata_ctf::read::{Selection, TimeRange};
use strata_session::stop::Stop;

use crate::reading::selection::{until_or_to, SelectionFlags, SYNTAX};
use crate::reading::traces::TracesFlags;
use crate::talk::messages::Weight;
use crate::talk::progress::ReadingLine;
use crate::talk::units::counted;
use say::Speaker;
use target::ViewOutput;

const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  no event matched what was asked for (--filter, --from, --until,
     --last, --mine)
  2  a trace is damaged (all that is intact is shown), or nothing can
     be read
  130  ended by Ctrl-C";

/// `strata view`.
#[derive(Debug, Args)]
#[command(mut_arg("until", until_or_to), mut_arg("trace_path", |one| one.short('t')))]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{SYNTAX}\n{EXIT_STATUS}"))]
pub struct ViewFlags {
    #[command(flatten)]
    traces: TracesFlags,

    #[command(flatten)]
    selection: SelectionFlags,

    /// Layout: a short line for each event, babeltrace2's text, a JSON object on each line, or a table [default:
    /// short on a terminal, else text]
    #[arg(long, value_enum)]
    format: Option<FormatFlag>,

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

    /// Show only the first N events
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroU64>,

    /// Beside a thread's number its name, as it was then; the trace is read twice
    #[arg(long)]
    thread_names: bool,

    #[command(flatten)]
    source: SourceFlags,

    /// Colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    color: WhenFlag,

    /// A line in the text where events were discarded, instead of a message
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    losses: WhenFlag,

    /// Do not start a pager on a terminal [default: $PAGER, or less]
    #[arg(long)]
    no_pager: bool,

    /// Read with N threads [default: as many as there are CPUs]
    #[arg(long, value_name = "N")]
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
}

impl SourceFlags {
    fn options(&self) -> Option<SourceOptions> {
        let options = SourceOptions {
            folder: self.debug_info_dir.clone(),
            prefix: self.debug_info_target_prefix.clone(),
            full_path: self.debug_info_full_path,
        };
        (self.debug_info || options != SourceOptions::default()).then_some(options)
    }
}

/// `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatFlag {
    /// Time, program/thread, and event; both ends of a system call on one line
    Short,
    /// As babeltrace2 has it
    Text,
    /// A JSON object on each line
    Json,
    /// A table, with a header (RFC 4180)
    Csv,
}

/// `--clock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClockFlag {
    /// 22:13:20.000000012
    Time,
    /// 2023-11-14 22:13:20.000000012
    Date,
    /// Since 1970: 1700000000.000000012
    Seconds,
    /// As it was recorded
    Cycles,
    /// No times
    None,
}

/// `--color` and `--losses`.
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

/// View, and give the exit status.
pub fn run(flags: &ViewFlags) -> Result<u8> {
    let reader = flags.selection.open(&flags.traces.paths()?)?;
    let stop = Stop::on_signals().context("view: cannot handle signals")?;
    let mut options = flags.options(io::stdout().is_terminal());
    if options.source.is_some() && options.format == Format::Csv {
        anyhow::bail!(
            "--debug-info is for --format short, text and json. Leave it out, or use another format"
        );
    }
    let range = flags.selection.range(&reader)?;
    let threads = flags.threads.map_or_else(pipeline::threads, NonZeroUsize::get);
    let stopped = || stop.requests() > 0;
    // Whatever can fail is in front of a pager.
    let mine = match flags.mine {
        true => Some(Mine::read(&reader, threads, &stopped)?),
        false => None,
    };
    let mut target = ViewOutput::open(!flags.no_pager).context("view: cannot use stdout")?;
    options.colours = match flags.color {
        WhenFlag::Auto => target.wants_colours(),
        WhenFlag::Always => true,
        WhenFlag::Never => false,
    };
    options.tame = target.is_terminal();
    options.width = target.width();
    options.losses = match flags.losses {
        WhenFlag::Auto => target.is_terminal(),
        WhenFlag::Always => true,
        WhenFlag::Never => false,
    };

    options.clocks = Clocks::of(&reader);
    let uncertainty = options.clocks.as_ref().map_or(0, |clocks| clocks.uncertainty());
    if flags.thread_names && options.format != Format::Short {
        let names = ThreadNames::read(&reader, threads, &stopped);
        options.thread_names = Some(Arc::new(names));
    }

    // Where the text flows over the screen there is no place for a line.
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
            "--mine: {} that do not say whom they are of are not shown",
            counted(unknown as u64, "trace")
        );
        speaker.say(Weight::Warning, text);
    }
    let selection = flags.selection.filter().map(Selection::new);
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
    // Whoever reads has seen enough, or the disk is full: nothing that is said here would help.
    written.context("view: cannot write to stdout")?;
    for damage in reader.passed_over() {
        speaker.remark(&Remark::Damage(damage));
    }
    speaker.end(&summary);
    speaker.unsure(summary.unsure, uncertainty);
    if summary.stopped {
        return Ok(crate::talk::exit::stopped(&stop));
    }
    let damaged = summary.damage > 0 || reader.damage().iter().any(|found| !found.is_remark());
    if summary.events == 0 {
        let nothing = match (flags.mine, flags.selection.is_any()) {
            (true, false) => "no event is of the command and what it started",
            _ => flags.selection.nothing(),
        };
        speaker.say(Weight::Warning, nothing.to_owned());
    }
    if summary.events == 0 && summary.hidden > 0 {
        let text = format!(
            "{} of what was there when recording began, which --all shows",
            counted(summary.hidden, "event record")
        );
        speaker.say(Weight::Warning, text);
    }
    let unmatched = summary.events == 0 && (flags.selection.is_any() || flags.mine);
    Ok(if damaged { 2 } else { u8::from(unmatched) })
}

/// What to say of names of threads that found no room.
pub fn too_many_names(left_out: u64) -> String {
    format!(
        "--thread-names: {left_out} names of threads are not known, those before are as many as are kept. Name fewer \
         traces"
    )
}

impl ViewFlags {
    /// On a terminal people read it, else programs do.
    fn layout(&self, is_terminal: bool) -> Format {
        match self.format {
            Some(FormatFlag::Short) => Format::Short,
            Some(FormatFlag::Text) => Format::Text,
            Some(FormatFlag::Json) => Format::Json,
            Some(FormatFlag::Csv) => Format::Csv,
            None if is_terminal && self.source.options().is_none() => Format::Short,
            None => Format::Text,
        }
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
        ] {
            let text = view(arguments).unwrap_err();
            assert!(text.contains(part), "{arguments:?}: {text}");
        }
    }
}

//! Parts that all reports share: their flags, the pass over the traces, and the messages that accompany a report.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{bail, Result};
use clap::{Args, ValueEnum, ValueHint};
use serde_json::{json, Value};
use strata_analyze::debug_info::{Source, SourceOptions, SymbolFiles};
use strata_analyze::reports::{
    has_slow_calls_only, has_slow_spans_only, sampled_kinds, SampledKinds,
};
use strata_ctf::read::{Reader, TimeRange};
use strata_session::stop::Stop;
use strata_timeline::PairRule;
use strata_timeline::{idle_rules, span_roles};
use strata_timeline::{pass_on, Asked, Passed};
use strata_timeline::{Blind, Observer, SpanRoles, Timeline};

use crate::reading::selection::{until_or_to, SelectionFlags};
use crate::reading::traces::TracesFlags;
use crate::reading::{incomplete_traces, limits};
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stderr::progress::ReadingLine;
use crate::stdout;
use crate::units::{clean, counted, shell_word};

/// Limit on the damages that are reported one by one.
const DAMAGE_SHOWN: u64 = 20;
/// Default limit on the rows of a text.
pub const ROWS: usize = 20;

/// The exit statuses of all reports.
pub const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  the traces have nothing that the report is about, or nothing that
     matched what was asked for (--filter, --from, --until, --last)
  2  a trace is damaged (all that is intact is in the report), or
     nothing can be read
  130  ended by Ctrl-C";

/// Version of the JSON reports. It changes when a key is renamed or removed, not when one is added.
const VERSION: u32 = 1;

/// The value of `--format`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table or text for people
    #[default]
    Text,
    /// One JSON object; see the guide
    Json,
    /// The rows, a line for each
    Csv,
}

/// Flags that choose the records from which a report is made.
#[derive(Debug, Args)]
#[command(mut_arg("until", until_or_to))]
pub struct TraceFlags {
    #[command(flatten)]
    pub traces: TracesFlags,

    /// Do not start a pager on a terminal [default: $STRATA_PAGER, $PAGER, or less]
    #[arg(long)]
    no_pager: bool,

    #[command(flatten)]
    pub selection: SelectionFlags,
}

/// The flags of all reports with rows.
#[derive(Debug, Args)]
pub struct CommonFlags {
    #[command(flatten)]
    of: TraceFlags,

    /// Only the first N rows [default: 20 in text, all in JSON]
    #[arg(long, value_name = "N")]
    pub top: Option<NonZeroUsize>,

    /// Layout: a table for people, one JSON object, or rows of comma-separated values
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// Flags that choose which events begin and end spans.
#[derive(Debug, Args)]
pub struct PairFlags {
    /// Spans from event BEGIN to event END, as in export; those with the same KEYFIELD belong together, in whichever
    /// threads they are
    #[arg(long = "pair", value_name = "BEGIN=END[:KEYFIELD]")]
    pairs: Vec<PairRule>,
}

impl PairFlags {
    /// Returns the role of each event for spans, such as beginning one. Warns about rules that match no events.
    pub fn roles(&self, reader: &Reader) -> SpanRoles {
        for rule in idle_rules(reader, &self.pairs) {
            let text = format!(
                "--pair '{rule}' matches no two events of the traces. `strata list TRACE` shows their names"
            );
            stderr::message(&Message { weight: Weight::Warning, text });
        }
        span_roles(reader, &self.pairs)
    }

    /// Returns the rules as they were given.
    pub fn rules(&self) -> &[PairRule] {
        &self.pairs
    }

    /// Formats the flags for a command to type.
    pub fn words(&self) -> String {
        let word = |rule: &PairRule| format!(" --pair {}", shell_word(&clean(&rule.to_string())));
        self.pairs.iter().map(word).collect()
    }
}

/// Flags that set where names of functions are searched.
#[derive(Debug, Args)]
pub struct NamesFlags {
    /// Look for separate debug information in DIR [default: /usr/lib/debug]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    debug_info_dir: Option<PathBuf>,

    /// The traced system's files are below DIR
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    debug_info_target_prefix: Option<PathBuf>,

    /// Open no file that the trace names: functions of programs have no names
    #[arg(long, conflicts_with_all = ["debug_info_dir", "debug_info_target_prefix"])]
    no_symbols: bool,

    /// Show names of C++ and Rust as compilers have made them
    #[arg(long)]
    mangled: bool,

    /// The files read so far.
    #[arg(skip)]
    files: SymbolFiles,
}

impl NamesFlags {
    /// Returns true if a flag sets where names are searched.
    pub fn is_any(&self) -> bool {
        self.debug_info_dir.is_some() || self.debug_info_target_prefix.is_some()
    }

    /// Makes the source of names for these traces.
    pub fn source(&self, reader: &Reader) -> Source {
        Source::new(reader, &self.options())
    }

    /// Returns the flags as options of the source.
    pub fn options(&self) -> SourceOptions {
        SourceOptions {
            folder: self.debug_info_dir.clone(),
            prefix: self.debug_info_target_prefix.clone(),
            full_path: false,
            no_symbols: self.no_symbols,
            mangled: self.mangled,
            files: self.files.clone(),
        }
    }

    /// Reports the files that were left out because they are too many or too large.
    pub fn say_left_out(&self) {
        say_left_out(&self.files);
    }
}

/// Reports which of the files that a trace names were left out.
pub fn say_left_out(files: &SymbolFiles) {
    for text in files.remarks() {
        stderr::message(&Message { weight: Weight::Warning, text: clean(&text) });
    }
}

/// The pass over the traces from which a report is made, and its time range.
pub struct Made {
    pub passed: Passed,
    pub range: TimeRange,
    /// True if the traces have no fast system calls, since only slow ones were recorded.
    slow_calls_only: bool,
    /// True if the traces have no short spans, since spans were recorded by their duration.
    slow_spans_only: bool,
    sampled: Option<SampledKinds>,
}

impl std::ops::Deref for CommonFlags {
    type Target = TraceFlags;

    fn deref(&self) -> &TraceFlags {
        &self.of
    }
}

impl TraceFlags {
    /// Opens the traces, and reports mistakes in the flags.
    pub fn open(&self) -> Result<(Reader, TimeRange)> {
        let reader = self.selection.open(&self.traces.paths()?)?;
        let range = self.selection.range(&reader)?;
        for text in self.selection.hints(&reader) {
            stderr::message(&Message { weight: Weight::Warning, text });
        }
        Ok((reader, range))
    }

    /// Reads all records, and reports what cannot be read. Returns `None` if the user stopped the reading.
    pub fn pass(
        &self,
        reader: &Reader,
        range: TimeRange,
        seen: &mut impl Observer,
        stop: &Stop,
    ) -> Option<Made> {
        self.pass_on(Timeline::new(reader), reader, range, seen, stop)
    }

    /// Reads all records as [`pass`](Self::pass) does, with a given timeline.
    pub fn pass_on(
        &self,
        timeline: Timeline,
        reader: &Reader,
        range: TimeRange,
        seen: &mut impl Observer,
        stop: &Stop,
    ) -> Option<Made> {
        let line = ReadingLine::new("analyzing", reader, range.to == i64::MAX);
        let read = TimeRange { from: i64::MIN, to: range.to };
        let selection = self.selection.bound(reader, read, None, &|| stop.requests() > 0);
        let asked = Asked { range, selection };
        let (mut damages, mut noted) = (0_u64, HashSet::new());
        let go_on = |bytes| {
            line.set(bytes);
            stop.requests() == 0
        };
        let passed = pass_on(timeline, reader, &asked, seen, &go_on, &mut |damage| {
            let is_note = damage.is_note() || damage.is_remark();
            let is_said = if is_note {
                noted.insert(damage.note_key())
            } else {
                damages += 1;
                damages <= DAMAGE_SHOWN
            };
            if is_said {
                let weight = if is_note { Weight::Warning } else { Weight::Failure };
                line.say(&Message { weight, text: clean(&damage.to_string()) });
            }
        });
        line.clear();
        let passed = passed?;
        incomplete_traces::messages(reader).iter().for_each(stderr::message);
        if passed.damage > DAMAGE_SHOWN {
            let text = counted(passed.damage - DAMAGE_SHOWN, "other damage");
            stderr::message(&Message { weight: Weight::Failure, text });
        }
        if passed.discarded > 0 {
            let text = format!(
                "{} discarded: what threads did around them is not known, and not in the report. \
                 `strata stats -v` says when that was",
                counted(passed.discarded, "event record")
            );
            stderr::message(&Message { weight: Weight::Warning, text });
        }
        let world = passed.timeline.world();
        for text in limits::texts(world.threads.left_out(), world.names.left_out()) {
            stderr::message(&Message { weight: Weight::Warning, text });
        }
        Some(Made::new(passed, range, reader))
    }

    /// Writes the report to stdout, on a terminal through a pager.
    pub fn write(&self, text: &str) -> Result<()> {
        stdout::paged("analyze", text, !self.no_pager)
    }

    /// Returns an error if `--filter` is given for a report that is not about event records; it names the flag to use
    /// instead.
    pub fn refuse_filter(&self, report: &str, about: &str, instead: &str) -> Result<()> {
        if self.selection.filter().is_some() {
            bail!(
                "analyze {report}: --filter selects event records, and {about}. Use {instead}; \
                 `strata analyze syscalls -f`, `files -f` and `irq -f` show what an expression selects"
            );
        }
        Ok(())
    }

    /// Reads all records again, without reporting damage again. Returns `None` if the user stopped the reading.
    pub fn again(
        &self,
        timeline: Timeline,
        reader: &Reader,
        range: TimeRange,
        seen: &mut impl Observer,
        stop: &Stop,
    ) -> Option<Passed> {
        let line = ReadingLine::new("looking again", reader, range.to == i64::MAX);
        let go_on = |bytes| {
            line.set(bytes);
            stop.requests() == 0
        };
        let asked = Asked { range, selection: None };
        let passed = pass_on(timeline, reader, &asked, seen, &go_on, &mut |_| {});
        line.clear();
        passed
    }
}

impl CommonFlags {
    /// Returns the layout of the report.
    pub fn format(&self) -> Format {
        if self.json {
            Format::Json
        } else {
            self.format
        }
    }

    /// Returns the limit on the rows of the report.
    pub fn rows(&self) -> usize {
        match (self.top, self.format()) {
            (Some(top), _) => top.get(),
            (None, Format::Text) => ROWS,
            (None, Format::Json | Format::Csv) => usize::MAX,
        }
    }
}

impl Made {
    /// Makes the result of a pass over the reader's traces.
    pub fn new(passed: Passed, range: TimeRange, reader: &Reader) -> Made {
        let slow_calls_only = has_slow_calls_only(reader);
        let slow_spans_only = has_slow_spans_only(reader);
        let sampled = sampled_kinds(reader);
        Made { passed, range, slow_calls_only, slow_spans_only, sampled }
    }

    /// Returns the object of a report in JSON, with the keys that all reports have.
    pub fn object(&self, report: &str) -> serde_json::Map<String, Value> {
        let world = self.passed.timeline.world();
        let from = world.begin.map(|begin| begin.max(self.range.from));
        let value = json!({
            "version": VERSION,
            "report": report,
            "from_ns": from,
            "to_ns": from.map(|from| world.now.min(self.range.to).max(from)),
            "records": self.passed.records,
            "discarded_records": self.passed.discarded,
            "damage_count": self.passed.damage,
        });
        let mut object = match value {
            Value::Object(map) => map,
            _ => serde_json::Map::new(),
        };
        if self.slow_calls_only {
            object.insert("slow_calls_only".into(), json!(true));
        }
        if self.slow_spans_only {
            object.insert("slow_spans_only".into(), json!(true));
        }
        if let Some(SampledKinds { events, left_out }) = &self.sampled {
            object.insert("sampled_events".into(), json!(events));
            object.insert("left_out_events".into(), json!(left_out));
        }
        object
    }

    /// Returns the length of the time range of the report \[ns\].
    pub fn nanos(&self) -> u64 {
        let world = self.passed.timeline.world();
        let from = world.begin.unwrap_or(0).max(self.range.from);
        world.now.min(self.range.to).saturating_sub(from).max(0).unsigned_abs()
    }

    /// Reports that a report is empty: with the message `asked` if some records were selected, otherwise with
    /// `unasked`. Returns the exit status.
    pub fn end(&self, is_empty: bool, is_asked: bool, asked: &str, unasked: &str) -> u8 {
        if is_empty {
            nothing(if is_asked { asked } else { unasked });
        }
        self.status(is_empty)
    }

    /// Returns the exit status of a report: 2 if a trace is damaged, otherwise 1 if the report is empty and 0
    /// if not.
    pub fn status(&self, is_empty: bool) -> u8 {
        if self.passed.damage > 0 {
            2
        } else {
            u8::from(is_empty)
        }
    }
}

/// Warns that the traces do not show which thread had which CPU, and how to record that. Without that, every woken
/// thread would seem to wait.
pub fn say_blind(made: &Made) {
    let why = match made.passed.timeline.world().blind {
        None => return,
        Some(Blind::NoSwitches) => "the trace has no sched_switch",
        Some(Blind::NoCpus) => "the records of sched_switch do not say on which CPU they were made",
    };
    nothing(&format!(
        "{why}: who ran, who wanted a CPU and who was blocked is unknown. Record that: strata record -k \
         'sched_switch,sched_waking,syscalls' -- COMMAND"
    ));
}

/// Warns that there is nothing to report.
pub fn nothing(text: &str) {
    stderr::message(&Message { weight: Weight::Warning, text: text.to_owned() });
}

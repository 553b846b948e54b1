//! What all reports share: which traces, one pass over them, and what is said beside the report.

use std::collections::HashSet;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{bail, Context, Result};
use clap::{Args, ValueEnum, ValueHint};
use serde_json::{json, Value};
use strata_analyze::debug_info::{Source, SourceOptions};
use strata_analyze::perfetto::PairRule;
use strata_analyze::reports::{idle_rules, pass_on, span_roles, Asked, Passed};
use strata_ctf::read::{Reader, Selection, TimeRange};
use strata_session::stop::Stop;
use strata_timeline::{Observer, SpanRoles, Timeline};

use crate::reading::selection::{until_or_to, SelectionFlags};
use crate::reading::traces::TracesFlags;
use crate::reading::{ending, limits};
use crate::talk;
use crate::talk::messages::{Message, Weight};
use crate::talk::progress::ReadingLine;
use crate::talk::units::{clean, counted, shell_word};

/// Damages that are said one by one.
const DAMAGE_SHOWN: u64 = 20;
/// Rows of a text, if nobody says how many.
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

/// Changes when a key is renamed or gone, not when there is a new one.
const VERSION: u32 = 1;

/// `--format`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON object; see the guide
    Json,
}

/// Which records a report is made of.
#[derive(Debug, Args)]
#[command(mut_arg("until", until_or_to))]
pub struct TraceFlags {
    #[command(flatten)]
    pub traces: TracesFlags,

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

    /// Layout: a table for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Which events are the ends of spans.
#[derive(Debug, Args)]
pub struct PairFlags {
    /// Spans from event BEGIN to event END, as in export; those with the same KEYFIELD belong together, in whichever
    /// threads they are
    #[arg(long = "pair", value_name = "BEGIN=END[:KEYFIELD]")]
    pairs: Vec<PairRule>,
}

impl PairFlags {
    /// What events do to spans. Rules that fit no events are said.
    pub fn roles(&self, reader: &Reader) -> SpanRoles {
        for rule in idle_rules(reader, &self.pairs) {
            let text = format!(
                "--pair '{rule}' matches no two events of the traces. `strata list TRACE` shows their names"
            );
            talk::message(&Message { weight: Weight::Warning, text });
        }
        span_roles(reader, &self.pairs)
    }

    /// The flags, to be typed again.
    pub fn words(&self) -> String {
        let word = |rule: &PairRule| format!(" --pair {}", shell_word(&clean(&rule.to_string())));
        self.pairs.iter().map(word).collect()
    }
}

/// Where the names of functions come from.
#[derive(Debug, Args)]
pub struct NamesFlags {
    /// Look for separate debug information in DIR [default: /usr/lib/debug]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    debug_info_dir: Option<PathBuf>,

    /// The traced system's files are below DIR
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    debug_info_target_prefix: Option<PathBuf>,
}

impl NamesFlags {
    /// Whether anything is said.
    pub fn is_any(&self) -> bool {
        self.options() != SourceOptions::default()
    }

    /// What looks for them, for these traces.
    pub fn source(&self, reader: &Reader) -> Source {
        Source::new(reader, &self.options())
    }

    fn options(&self) -> SourceOptions {
        SourceOptions {
            folder: self.debug_info_dir.clone(),
            prefix: self.debug_info_target_prefix.clone(),
            full_path: false,
        }
    }
}

/// What a report is made of.
pub struct Made {
    pub passed: Passed,
    pub range: TimeRange,
}

impl std::ops::Deref for CommonFlags {
    type Target = TraceFlags;

    fn deref(&self) -> &TraceFlags {
        &self.of
    }
}

impl TraceFlags {
    /// Open the traces, and say what is wrong with the flags.
    pub fn open(&self) -> Result<(Reader, TimeRange)> {
        let reader = self.selection.open(&self.traces.paths()?)?;
        let range = self.selection.range(&reader)?;
        for text in self.selection.hints(&reader) {
            talk::message(&Message { weight: Weight::Warning, text });
        }
        Ok((reader, range))
    }

    /// Read all of it, and say what cannot be read. `None`: asked to stop.
    pub fn pass(
        &self,
        reader: &Reader,
        range: TimeRange,
        seen: &mut impl Observer,
        stop: &Stop,
    ) -> Option<Made> {
        self.pass_on(Timeline::new(reader), reader, range, seen, stop)
    }

    /// The same by a timeline that is made for these traces.
    pub fn pass_on(
        &self,
        timeline: Timeline,
        reader: &Reader,
        range: TimeRange,
        seen: &mut impl Observer,
        stop: &Stop,
    ) -> Option<Made> {
        let line = ReadingLine::new("analyzing", reader, range.to == i64::MAX);
        let asked = Asked { range, selection: self.selection.filter().map(Selection::new) };
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
        ending::messages(reader).iter().for_each(talk::message);
        if passed.damage > DAMAGE_SHOWN {
            let text = counted(passed.damage - DAMAGE_SHOWN, "other damage");
            talk::message(&Message { weight: Weight::Failure, text });
        }
        if passed.discarded > 0 {
            let text = format!(
                "{} discarded: what threads did around them is not known, and not in the report. \
                 `strata stats -v` says when that was",
                counted(passed.discarded, "event record")
            );
            talk::message(&Message { weight: Weight::Warning, text });
        }
        let world = passed.timeline.world();
        for text in limits::texts(world.threads.left_out(), world.names.left_out()) {
            talk::message(&Message { weight: Weight::Warning, text });
        }
        Some(Made { passed, range })
    }

    /// A report that is not about event records says what selects instead of `--filter`.
    pub fn refuse_filter(&self, report: &str, about: &str, instead: &str) -> Result<()> {
        if self.selection.filter().is_some() {
            bail!(
                "analyze {report}: --filter selects event records, and {about}. Use {instead}; \
                 `strata analyze syscalls -f`, `files -f` and `irq -f` show what an expression selects"
            );
        }
        Ok(())
    }

    /// Read all of it once more, of which all is said already. `None`: asked to stop.
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
    /// Write the report in the layout that is asked for.
    pub fn show(&self, json: impl FnOnce() -> String, text: impl FnOnce() -> String) -> Result<()> {
        write(&match self.format {
            Format::Json => json(),
            Format::Text => text(),
        })
    }

    /// How many rows a text has.
    pub fn rows(&self) -> usize {
        match (self.top, self.format) {
            (Some(top), _) => top.get(),
            (None, Format::Text) => ROWS,
            (None, Format::Json) => usize::MAX,
        }
    }
}

impl Made {
    /// What every report's object begins with.
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
        match value {
            Value::Object(map) => map,
            _ => serde_json::Map::new(),
        }
    }

    /// How long the time is that the report is about.
    pub fn nanos(&self) -> u64 {
        let world = self.passed.timeline.world();
        let from = world.begin.unwrap_or(0).max(self.range.from);
        world.now.min(self.range.to).saturating_sub(from).max(0).unsigned_abs()
    }

    /// An empty report is said to be so, by `asked` if something was asked for. The exit status.
    pub fn end(&self, is_empty: bool, is_asked: bool, asked: &str, unasked: &str) -> u8 {
        if is_empty {
            nothing(if is_asked { asked } else { unasked });
        }
        self.status(is_empty)
    }

    /// The exit status.
    pub fn status(&self, is_empty: bool) -> u8 {
        if self.passed.damage > 0 {
            2
        } else {
            u8::from(is_empty)
        }
    }
}

/// Say that there is nothing.
pub fn nothing(text: &str) {
    talk::message(&Message { weight: Weight::Warning, text: text.to_owned() });
}

/// Write it to stdout, with colours only where they are wanted.
pub fn write(text: &str) -> Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("analyze: cannot write to stdout")
}

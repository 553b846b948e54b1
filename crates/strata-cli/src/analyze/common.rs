//! What all reports share: which traces, one pass over them, what is said beside the report, and how rows are named.

use std::collections::HashSet;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use clap::{Args, ValueEnum, ValueHint};
use serde_json::{json, Value};
use strata_analyze::reports::{pass, Asked, Label, Passed, Times};
use strata_ctf::read::{Reader, Selection, TimeRange};
use strata_session::stop::Stop;
use strata_timeline::Observer;

use crate::ending;
use crate::messages::{Message, Weight};
use crate::progress::ReadingLine;
use crate::selection::{until_or_to, SelectionFlags};
use crate::stats::table::DIM;
use crate::talk;
use crate::units::{clean, counted, time};

/// Damages that are said one by one.
const DAMAGE_SHOWN: u64 = 20;
/// Rows of a text, if nobody says how many.
const ROWS: usize = 20;

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

/// The flags of all reports.
#[derive(Debug, Args)]
#[command(mut_arg("until", until_or_to))]
pub struct CommonFlags {
    /// A trace, or a folder with traces below it
    #[arg(required = true, value_name = "TRACE", value_hint = ValueHint::DirPath)]
    pub traces: Vec<PathBuf>,

    #[command(flatten)]
    pub selection: SelectionFlags,

    /// Only the first N rows [default: 20 in text, all in JSON]
    #[arg(long, value_name = "N")]
    pub top: Option<NonZeroUsize>,

    /// Layout: a table for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// What a report is made of.
pub struct Made {
    pub passed: Passed,
    pub range: TimeRange,
}

impl CommonFlags {
    /// Open the traces, and say what is wrong with the flags.
    pub fn open(&self) -> Result<(Reader, TimeRange)> {
        let reader = self.selection.open(&self.traces)?;
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
        let line = ReadingLine::new("analyzing", reader, range.to == i64::MAX);
        let asked = Asked { range, selection: self.selection.filter().map(Selection::new) };
        let (mut damages, mut noted) = (0_u64, HashSet::new());
        let go_on = |bytes| {
            line.set(bytes);
            stop.requests() == 0
        };
        let passed = pass(reader, &asked, seen, &go_on, &mut |damage| {
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

/// One object, on lines.
pub fn document(object: serde_json::Map<String, Value>) -> String {
    format!("{:#}\n", Value::Object(object))
}

/// `1234567` nanoseconds as `1.235 ms`; nothing for none.
pub fn length(nanos: u64) -> String {
    time(Duration::from_nanos(nanos))
}

/// `redis-server (812)`, `redis-server (812) bio_lazy_free/814`.
pub fn name(label: &Label) -> String {
    let number = |number: Option<i32>| number.map_or("?".to_owned(), |number| number.to_string());
    let mut text = match (&label.process, label.pid) {
        (name, None) if label.tid.is_some() => name.clone(),
        (name, pid) if name.is_empty() => number(pid),
        (name, pid) => format!("{name} ({})", number(pid)),
    };
    match &label.thread {
        Some(_) if label.tid == label.pid => {}
        Some(thread) if *thread == label.process || thread.is_empty() => {
            text = format!("{text}/{}", number(label.tid));
        }
        Some(thread) => text = format!("{text} {thread}/{}", number(label.tid)),
        None => {}
    }
    if let Some(machine) = &label.machine {
        text = format!("{machine}: {text}");
    }
    clean(&text)
}

/// The keys of a row that say whose it is.
pub fn keys(label: &Label) -> serde_json::Map<String, Value> {
    let mut map = serde_json::Map::new();
    let process = Some(&label.process).filter(|name| !name.is_empty());
    map.insert("process".into(), json!(process));
    map.insert("pid".into(), json!(label.pid));
    map.insert("thread".into(), json!(label.thread));
    map.insert("tid".into(), json!(label.tid));
    if let Some(machine) = &label.machine {
        map.insert("machine".into(), json!(machine));
    }
    map
}

/// `--of`: whether the words name a thread or its process; nobody asked: all.
pub fn is_wanted(of: Option<&str>, label: &Label) -> bool {
    of.is_none_or(|of| {
        let number = of.parse::<i32>().ok();
        label.process == of
            || label.thread.as_deref() == Some(of)
            || number.is_some() && (label.pid == number || label.tid == number)
    })
}

/// What all rows of lengths have.
pub fn figures(times: &Times) -> serde_json::Map<String, Value> {
    let value = json!({
        "count": times.count,
        "total_ns": times.total,
        "avg_ns": times.mean(),
        "min_ns": times.min,
        "p50_ns": times.quantile(0.5),
        "p99_ns": times.quantile(0.99),
        "max_ns": times.max,
    });
    match value {
        Value::Object(map) => map,
        _ => serde_json::Map::new(),
    }
}

/// Say how many rows a text leaves out.
pub fn more(out: &mut String, all: usize, shown: usize) {
    if let Some(more) = all.checked_sub(shown).filter(|&more| more > 0) {
        let more = counted(more as u64, "row");
        out.push_str(&format!("  {DIM}and {more}; --top N shows N{DIM:#}\n"));
    }
}

/// A length, or nothing for none.
pub fn some(nanos: u64) -> String {
    if nanos > 0 {
        length(nanos)
    } else {
        String::new()
    }
}

/// A number, or nothing for none.
pub fn some_count(number: u64) -> String {
    if number > 0 {
        crate::units::count(number)
    } else {
        String::new()
    }
}

/// What stands for a bar of eight heights, on any terminal.
const ASCII: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '#', '@'];
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar for each count: the highest for the greatest, none only for 0.
pub fn bars(counts: &[u64], ascii: bool) -> String {
    let most = counts.iter().copied().max().unwrap_or(0);
    counts.iter().map(|&count| bar(count, most, ascii)).collect()
}

/// A bar: the highest for `most` and more, none only for 0.
pub fn bar(count: u64, most: u64, ascii: bool) -> char {
    let set = if ascii { ASCII } else { BLOCKS };
    let height = (count as f64 / most.max(1) as f64 * 8.0).ceil() as usize;
    set.get(height.min(8)).copied().unwrap_or(' ')
}

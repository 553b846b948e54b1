//! The command `strata stats`: counts the records in traces, and reports what is missing.
//!
//! ```text
//! Reader ── strata_analyze::stats::count, on all CPUs ── Stats ─┬─ text(): tables and a histogram    text.rs, table.rs
//!                                                               ├─ json(): keys of docs/guide/stats.md     json.rs
//!                                                               └─ messages: discarded records, damage, unfinished recordings
//! ```
//!
//! Without a filter, only the headers of records are read. With a filter, the fields that it tests are decoded, too.
//!
//! Exit status: 0; 1 if no record matches, or with `--strict` if anything is missing; 2 if a trace is damaged.
//!
//! # Forms of output
//! `text` draws tables and the histogram as wide as the terminal, in ASCII if the locale has no other characters;
//! `json` has every number, unrounded. Both are made from the same [`Stats`] after all packets were read, so
//! nothing is printed before the end but progress on stderr. `table` is shared with other commands that print
//! columns.
//!
//! To count something new, add it to `strata_analyze::stats`, then to both forms, to docs/guide/stats.md, and
//! look at `tests/e2e/golden`.

mod json;
pub mod table;
mod text;

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::num::NonZeroUsize;

use anyhow::{Context, Result};
use clap::Args;
use strata_analyze::stats::{count, Options, Stats, DAMAGE_KEPT};
use strata_session::stop::Stop;

use crate::exit_status::STOP_PATIENCE;
use crate::flags::output_format::AnswerFlags;
use crate::reading::imported_traces;
use crate::reading::incomplete_traces;
use crate::reading::number_parser::nr_threads;
use crate::reading::selection::{until_or_to, OfFlags, SelectionFlags, SYNTAX};
use crate::reading::traces::TracesFlags;
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::stderr::progress::ReadingLine;
use crate::stdout;
use crate::units::{self, clean, counted};
use text::{Sort, StatsStyle};

/// Limit on the damages that are reported one by one.
const DAMAGE_SHOWN: usize = 20;

const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  no event record matched what was asked for (--filter, --of,
     --from, --until, --last); or, with --strict, records were discarded
     or overwritten, packets are not there, or a recording did not come
     to its end
  2  a trace is damaged (all that is intact is counted), or nothing can
     be read
  130  ended by Ctrl-C";

/// Flags of `strata stats`.
#[derive(Debug, Args)]
#[command(mut_arg("until", until_or_to))]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{SYNTAX}\n{EXIT_STATUS}"))]
pub struct StatsFlags {
    #[command(flatten)]
    traces: TracesFlags,

    #[command(flatten)]
    selection: SelectionFlags,

    #[command(flatten)]
    of: OfFlags,

    /// Sort events and traces by this
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,

    /// Show every trace with its events and streams, and every time when records were discarded
    #[arg(short = 'v', long = "traces")]
    details: bool,

    #[command(flatten)]
    answer: AnswerFlags,

    /// Do not start a pager on a terminal [default: $STRATA_PAGER, $PAGER, or less]
    #[arg(long)]
    no_pager: bool,

    /// Exit with 1 if any record was discarded or overwritten, a packet is not there, or a recording did
    /// not come to its end
    #[arg(long)]
    strict: bool,

    /// Count with N threads [default: as many as there are CPUs]
    #[arg(long, value_name = "N", value_parser = nr_threads)]
    threads: Option<NonZeroUsize>,
}

impl StatsFlags {
    /// Returns true if only some of the records are selected.
    fn is_any(&self) -> bool {
        self.selection.is_any() || self.of.words().is_some()
    }
}

/// Runs `strata stats`, and returns the exit status.
pub fn run(flags: &StatsFlags) -> Result<u8> {
    let stop = Stop::on_signals().context("stats: cannot handle signals")?;
    // A pager on a terminal ends when its user closes it, who may want to see what was read.
    if !stdout::is_terminal() {
        stop.end_after(STOP_PATIENCE).context("stats: cannot handle signals")?;
    }
    let reader = flags.selection.open(&flags.traces.paths()?)?;
    let range = flags.selection.range(&reader)?;
    for text in flags.selection.hints(&reader) {
        stderr::message(&Message { weight: Weight::Warning, text });
    }
    let stopped = || stop.requests() > 0;
    let selection = flags.selection.bound(&reader, range, flags.of.made_by(), &stopped);
    let options = Options { threads: flags.threads, range, selection: selection.as_ref() };
    let line = ReadingLine::new("counting", &reader, true);
    let stats = count(&reader, &options, &|bytes| {
        line.add(bytes);
        stop.requests() == 0
    });
    line.clear();
    let Some(mut stats) = stats else {
        return Ok(crate::exit_status::stopped(&stop));
    };
    for trace in &mut stats.traces {
        trace.path = imported_traces::original(&trace.path);
    }
    let written = write(&stats, flags);
    let passed_over = reader.passed_over();
    for remark in reader.damage().iter().filter(|found| found.is_remark()).chain(&passed_over) {
        stderr::message(&Message { weight: Weight::Warning, text: clean(&remark.to_string()) });
    }
    incomplete_traces::messages(&reader).iter().for_each(stderr::message);
    for note in &stats.notes {
        stderr::message(&Message { weight: Weight::Warning, text: clean(&note.message) });
    }
    say_damage(&stats);
    written?;
    if stats.sum().count.records == 0 {
        let nothing = flags.of.nothing(&flags.selection, flags.selection.nothing());
        let text = nothing.to_owned();
        stderr::message(&Message { weight: Weight::Warning, text });
    }
    let unmatched = stats.sum().count.records == 0 && flags.is_any();
    Ok(exit_status(&stats, unmatched, flags.strict))
}

fn write(stats: &Stats, flags: &StatsFlags) -> Result<()> {
    if flags.answer.is_json() {
        return stdout::json_lines("stats", &json::document(stats));
    }
    let style = StatsStyle {
        sort: flags.sort,
        details: flags.details,
        ascii: !is_utf8(),
        selected: flags.is_any(),
        zone: flags.selection.zone(),
    };
    stdout::paged("stats", &text::render(stats, style), !flags.no_pager)
}

/// Returns true if the locale has characters beyond ASCII.
pub fn is_utf8() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    set.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Reports the first damages one by one, and the number of the others.
fn say_damage(stats: &Stats) {
    for damaged in stats.damage.iter().take(DAMAGE_SHOWN) {
        let text = clean(&damaged.message);
        stderr::message(&Message { weight: Weight::Failure, text });
    }
    if stats.damage_found > DAMAGE_SHOWN as u64 {
        let mut text = counted(stats.damage_found - DAMAGE_SHOWN as u64, "other damage");
        let _ = match stats.damage_found <= DAMAGE_KEPT as u64 {
            true => write!(text, ". --json has them all"),
            false => write!(text, ". --json has the first {}", units::count(DAMAGE_KEPT as u64)),
        };
        stderr::message(&Message { weight: Weight::Failure, text });
    }
}

fn exit_status(stats: &Stats, unmatched: bool, strict: bool) -> u8 {
    if stats.damage_found > 0 {
        2
    } else {
        u8::from(unmatched || (strict && !stats.is_complete()))
    }
}

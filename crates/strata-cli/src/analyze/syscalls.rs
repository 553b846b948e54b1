//! `strata analyze syscalls`.

use std::fmt::Write as _;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{json, Value};
use strata_analyze::reports::syscalls::{By, Counter, Row, Slow, Syscalls};
use strata_analyze::reports::{arguments, Histogram, QUANTILE_ERROR};
use strata_analyze::stats::time_of_day;
use strata_ctf::read::Reader;
use strata_session::stop::Stop;

use super::common::{
    self, bars, document, keys, length, name, nothing, CommonFlags, Format, Made, EXIT_STATUS,
};
use crate::selection::SYNTAX;
use crate::stats::is_utf8;
use crate::stats::table::{Align, Table, DIM, HEAD};
use crate::units::{clean, count, counted};

/// Columns of a row's picture: below 1 µs, 10 µs and so on.
const DECADES: usize = 8;
/// Characters of the longest bar.
const WIDTH: u64 = 40;

const COUNTED: &str = "\
What is counted:
  System calls that end in the time asked for. With --filter, those of
  which the record of the begin or that of the end matches: 'ret < 0'
  selects those that failed. How long a system call took that was begun
  before the trace, had not ended with it, or has discarded records in
  between, nobody knows: such are only counted, below the table.
";

/// `strata analyze syscalls`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{COUNTED}\n{SYNTAX}\n{EXIT_STATUS}"))]
pub struct SyscallsFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// A row for each process, thread, or name, and system call
    #[arg(long, value_enum, default_value_t)]
    by: ByFlag,

    /// Show the N slowest one by one, with their arguments
    #[arg(long, value_name = "N", default_value_t = 10)]
    slowest: usize,
}

/// `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// Those of a process and a name are one row
    #[default]
    Process,
    /// Those of a thread and a name
    Thread,
    /// Those of a name, of all processes
    Name,
}

/// Do it, and give the exit status.
pub fn run(flags: &SyscallsFlags, stop: &Stop) -> Result<u8> {
    let (reader, range) = flags.common.open()?;
    let mut counter = Counter::new(range, flags.slowest.min(10_000));
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::exit::stopped(stop));
    };
    let by = match flags.by {
        ByFlag::Process => By::Process,
        ByFlag::Thread => By::Thread,
        ByFlag::Name => By::Name,
    };
    let report = counter.finish(made.passed.timeline.world(), by);
    let text = match flags.common.format {
        Format::Json => json(&report, &made, &reader, flags),
        Format::Text => text(&report, &made, &reader, flags),
    };
    common::write(&text)?;
    let is_empty = report.all.count == 0;
    if is_empty {
        nothing(match flags.common.selection.is_any() {
            true => "no system call matches what was asked for",
            false => {
                "the trace has no system call of which it knows how long it took. Record some: \
                 strata record -- COMMAND"
            }
        });
    }
    Ok(made.status(is_empty))
}

fn args(reader: &Reader, slow: &Slow) -> Option<String> {
    arguments(reader, &slow.name, slow.label.tid?, slow.begin)
}

fn json(report: &Syscalls, made: &Made, reader: &Reader, flags: &SyscallsFlags) -> String {
    let figures = |row: &Row| {
        let histogram: Vec<Value> =
            row.times.buckets().map(|(first, width, count)| json!([first, width, count])).collect();
        json!({
            "count": row.count,
            "errors": row.errors,
            "total_ns": row.total,
            "avg_ns": row.mean(),
            "min_ns": row.min,
            "p50_ns": row.quantile(0.5),
            "p99_ns": row.quantile(0.99),
            "max_ns": row.max,
            "histogram": histogram,
        })
    };
    let row = |row: &Row| {
        let mut map = keys(&row.label);
        map.insert("name".into(), json!(row.name));
        if let Value::Object(figures) = figures(row) {
            map.extend(figures);
        }
        Value::Object(map)
    };
    let slow = |slow: &Slow| {
        let mut map = keys(&slow.label);
        map.insert("name".into(), json!(slow.name));
        map.insert("time_ns".into(), json!(slow.begin));
        map.insert("duration_ns".into(), json!(slow.nanos));
        map.insert("result".into(), json!(slow.result));
        map.insert("arguments".into(), json!(args(reader, slow)));
        Value::Object(map)
    };
    let mut object = made.object("syscalls");
    let by = flags.by.to_possible_value();
    object.insert("by".into(), json!(by.as_ref().map(|by| by.get_name())));
    object.insert("quantile_error".into(), json!(QUANTILE_ERROR));
    object.insert("all".into(), figures(&report.all));
    object.insert(
        "unpaired".into(),
        json!({
            "no_begin": report.unpaired.no_begin,
            "no_end": report.unpaired.no_end,
            "gap": report.unpaired.gap,
        }),
    );
    object.insert("rows_count".into(), json!(report.rows.len()));
    let rows = report.rows.iter().take(flags.common.rows());
    object.insert("rows".into(), rows.map(row).collect());
    object.insert("slowest".into(), report.slowest.iter().map(slow).collect());
    document(object)
}

fn text(report: &Syscalls, made: &Made, reader: &Reader, flags: &SyscallsFlags) -> String {
    let mut out = String::new();
    let all = &report.all;
    let _ = writeln!(
        out,
        "{HEAD}{} in {}, {} all together{HEAD:#}",
        counted(all.count, "system call"),
        length(made.nanos()),
        length(all.total),
    );
    if all.count > 0 {
        let ascii = !is_utf8();
        table(&mut out, report, flags, ascii);
        histogram(&mut out, &all.times, "calls", ascii);
        slowest(&mut out, report, reader, flags);
    }
    let unpaired = report.unpaired;
    for (count, what) in [
        (unpaired.no_begin, "begun before the trace"),
        (unpaired.no_end, "without an end in the trace"),
        (unpaired.gap, "with discarded records in between"),
    ] {
        if count > 0 {
            let calls = counted(count, "system call");
            let _ = writeln!(out, "{DIM}not counted: {calls} {what}{DIM:#}");
        }
    }
    out
}

fn table(out: &mut String, report: &Syscalls, flags: &SyscallsFlags, ascii: bool) {
    let (left, right) = (Align::Left, Align::Right);
    let whose = match flags.by {
        ByFlag::Process => "process",
        ByFlag::Thread => "thread",
        ByFlag::Name => "",
    };
    let mut table = Table::new(&[
        (whose, left),
        ("call", left),
        ("count", right),
        ("errors", right),
        ("total", right),
        ("avg", right),
        ("p50", right),
        ("p99", right),
        ("max", right),
        ("1µs..1s", left),
    ]);
    let rows = flags.common.rows();
    for row in report.rows.iter().take(rows) {
        let errors = if row.errors > 0 { count(row.errors) } else { String::new() };
        table.row([
            if flags.by == ByFlag::Name { "".into() } else { name(&row.label).into() },
            clean(&row.name).into(),
            count(row.count).into(),
            errors.into(),
            length(row.total).into(),
            length(row.mean()).into(),
            length(row.quantile(0.5)).into(),
            length(row.quantile(0.99)).into(),
            length(row.max).into(),
            bars(&decades(&row.times), ascii).trim_end().to_owned().into(),
        ]);
    }
    out.push('\n');
    table.write(out);
    if let Some(more) = report.rows.len().checked_sub(rows).filter(|&more| more > 0) {
        let _ = writeln!(out, "  {DIM}and {}; --top N shows N{DIM:#}", counted(more as u64, "row"));
    }
}

/// How many are below 1 µs, 10 µs and so on.
pub fn decades(times: &Histogram) -> [u64; DECADES] {
    let mut counts = [0; DECADES];
    for (first, _, count) in times.buckets() {
        let at = (first / 1000).checked_ilog10().map_or(0, |power| power as usize + 1);
        if let Some(slot) = counts.get_mut(at.min(DECADES - 1)) {
            *slot += count;
        }
    }
    counts
}

/// Of all, a line for each power of two, from the first that has some to the last.
pub fn histogram(out: &mut String, times: &Histogram, what: &'static str, ascii: bool) {
    let mut counts = [0_u64; 64];
    for (first, _, count) in times.buckets() {
        let at = first.checked_ilog2().unwrap_or(0) as usize;
        if let Some(slot) = counts.get_mut(at) {
            *slot += count;
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let from = counts.iter().position(|&count| count > 0).unwrap_or(0);
    let to = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
    let mut table = Table::new(&[("from", Align::Right), (what, Align::Right), ("", Align::Left)]);
    for (power, &number) in counts.iter().enumerate().take(to + 1).skip(from) {
        let bar = (number as f64 * WIDTH as f64 / most as f64).ceil() as usize;
        let bar = if ascii { "#" } else { "█" }.repeat(bar);
        table.row([length(1 << power).into(), count(number).into(), bar.into()]);
    }
    let _ = writeln!(out, "\n{HEAD}How long they took{HEAD:#}");
    table.write(out);
}

fn slowest(out: &mut String, report: &Syscalls, reader: &Reader, flags: &SyscallsFlags) {
    if report.slowest.is_empty() {
        return;
    }
    let mut table = Table::new(&[
        ("begin", Align::Left),
        ("took", Align::Right),
        ("thread", Align::Left),
        ("call", Align::Left),
    ]);
    for slow in &report.slowest {
        let arguments = args(reader, slow).unwrap_or_else(|| "…".to_owned());
        let result = slow.result.map_or("?".to_owned(), |result| result.to_string());
        table.row([
            time_of_day(slow.begin, flags.common.selection.zone()).into(),
            length(slow.nanos).into(),
            name(&slow.label).into(),
            clean(&format!("{}({arguments}) = {result}", slow.name)).into(),
        ]);
    }
    let _ = writeln!(out, "\n{HEAD}The slowest{HEAD:#}");
    table.write(out);
    let _ = writeln!(
        out,
        "\n{DIM}percentiles are within {:.1} %, all else is exact{DIM:#}",
        QUANTILE_ERROR * 100.0
    );
}

//! `strata analyze syscalls`.

use std::fmt::Write as _;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{json, Value};
use strata_analyze::reports::syscalls::{By, Row, Slow, SyscallCounter, Syscalls};
use strata_analyze::reports::{arguments, Label, QUANTILE_ERROR};
use strata_analyze::short::result_text;
use strata_analyze::stats::time_of_day;
use strata_ctf::read::Reader;
use strata_session::stop::Stop;

use super::common::{nothing, CommonFlags, Made, EXIT_STATUS};
use super::rows::{
    buckets, by, document, exactness, histogram, keys, length, more, name, put_rows, section,
    spread,
};
use super::whose::{MineFlags, Whose, BY_OF};
use crate::reading::selection::SYNTAX;
use crate::stats::is_utf8;
use crate::stats::table::{Align, Table, DIM, HEAD};
use crate::talk::units::{clean, count, counted};

/// The slowest that are kept.
const SLOWEST_MAX: usize = 10_000;

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

    /// Only threads of this name or number, and those of processes of this name or number
    #[arg(long, value_name = "NAME|NUMBER")]
    of: Option<String>,

    #[command(flatten)]
    mine: MineFlags,

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
    let whose = Whose::read(flags.of.as_deref(), &flags.mine, &reader, ("syscalls", BY_OF), stop)?;
    let mut counter = SyscallCounter::new(range, whose.kept(flags.slowest, SLOWEST_MAX));
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::talk::exit::stopped(stop));
    };
    let by = match flags.by {
        ByFlag::Process => By::Process,
        ByFlag::Thread => By::Thread,
        ByFlag::Name => By::Name,
    };
    let world = made.passed.timeline.world();
    let wanted = whose.of(world);
    let is_wanted = |label: &Label| wanted.has(label);
    let of: Option<&dyn Fn(&Label) -> bool> = whose.is_any().then_some(&is_wanted);
    let mut report = counter.finish_of(world, by, of);
    report.slowest.truncate(flags.slowest);
    let (found, all) = (report.slowest.len(), report.all.count);
    whose.say_fewer(found, flags.slowest, SLOWEST_MAX, all, "slowest system calls");
    if report.of_nobody > 0 {
        nothing(&format!(
            "{} of more threads and calls than are told apart: nobody knows whose, and not in the report",
            counted(report.of_nobody, "system call")
        ));
    }
    flags
        .common
        .show(|| json(&report, &made, &reader, flags), || text(&report, &made, &reader, flags))?;
    let is_empty = report.all.count == 0;
    let is_asked = whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        is_empty,
        is_asked,
        "no system call matches what was asked for",
        "the trace has no system call of which it knows how long it took. Record some: \
                 strata record -- COMMAND",
    ))
}

fn args(reader: &Reader, slow: &Slow) -> Option<String> {
    arguments(reader, &slow.name, slow.label.tid?, slow.begin)
}

fn json(report: &Syscalls, made: &Made, reader: &Reader, flags: &SyscallsFlags) -> String {
    let figures = |row: &Row| {
        json!({
            "count": row.count,
            "errors": row.errors,
            "total_ns": row.total,
            "avg_ns": row.mean(),
            "min_ns": row.min,
            "p50_ns": row.quantile(0.5),
            "p99_ns": row.quantile(0.99),
            "max_ns": row.max,
            "histogram": buckets(&row.times),
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
    object.insert("by".into(), by(&flags.by));
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
    put_rows(&mut object, &report.rows, &flags.common, row);
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
        table(&mut out, report, flags);
        histogram(&mut out, &all.times, "calls", !is_utf8());
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

fn table(out: &mut String, report: &Syscalls, flags: &SyscallsFlags) {
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
            spread(&row.times).into(),
        ]);
    }
    out.push('\n');
    table.write(out);
    more(out, report.rows.len(), rows);
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
        let result = result_text(&slow.name, slow.result);
        table.row([
            time_of_day(slow.begin, flags.common.selection.zone()).into(),
            length(slow.nanos).into(),
            name(&slow.label).into(),
            clean(&format!("{}({arguments}) = {result}", slow.name)).into(),
        ]);
    }
    section(out, "The slowest", &table);
    exactness(out);
}

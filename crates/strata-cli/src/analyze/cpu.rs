//! `strata analyze cpu`.

use std::fmt::Write as _;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{json, Value};
use strata_analyze::pipeline::span;
use strata_analyze::reports::cpu::{By, Columns, Cpu, CpuCounter, CpuReport, Row};
use strata_analyze::stats::time_of_day;
use strata_ctf::read::TimeRange;
use strata_session::stop::Stop;

use super::common::{CommonFlags, Made, EXIT_STATUS};
use super::hidden;
use super::rows::{
    bar, by, document, keys, length, more, name, put_rows, put_sums, some, some_count, subject,
};
use super::whose::{MineFlags, Whose, BY_OF};
use crate::reading::selection::{refused, TIMES};
use crate::stats::is_utf8;
use crate::stats::table::{Align, Table, DIM, HEAD};
use crate::talk::units::{count, counted, rate};

/// Columns of a strip, if nobody says how many, and at most.
const COLUMNS: u16 = 50;
const COLUMNS_MAX: i64 = 10_000;

const MEANING: &str = "\
What it says:
  A strip has a column for each part of the time: how high it is says
  how much of that a CPU was busy, or a process had one CPU or more;
  '?' stands where the trace does not say what a CPU did for most of
  it. Shares are of one CPU.
";

/// `strata analyze cpu`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{MEANING}\n{TIMES}\n{EXIT_STATUS}"))]
#[command(mut_arg("filter", refused))]
pub struct CpuFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// A row for each process, or for each thread
    #[arg(long, value_enum, default_value_t)]
    by: ByFlag,

    /// Only threads of this name or number, and those of processes of this name or number
    #[arg(long, value_name = "NAME|NUMBER")]
    of: Option<String>,

    #[command(flatten)]
    mine: MineFlags,

    /// Parts of the time
    #[arg(long, value_name = "N", default_value_t = COLUMNS,
          value_parser = clap::value_parser!(u16).range(1..=COLUMNS_MAX))]
    columns: u16,
}

/// `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// All threads of a process together
    #[default]
    Process,
    /// Each thread
    Thread,
}

/// Do it, and give the exit status.
pub fn run(flags: &CpuFlags, stop: &Stop) -> Result<u8> {
    let instead = "--of NAME|NUMBER, which selects threads";
    flags.common.refuse_filter("cpu", "what a CPU ran is none", instead)?;
    let (reader, range) = flags.common.open()?;
    let whose = Whose::read(flags.of.as_deref(), &flags.mine, &reader, ("cpu", BY_OF), stop)?;
    let whole = span(&reader).unwrap_or(TimeRange { from: 0, to: 0 });
    let shown = TimeRange { from: range.from.max(whole.from), to: range.to.min(whole.to) };
    let shown = TimeRange { to: shown.to.max(shown.from), ..shown };
    let mut counter = CpuCounter::new(shown, flags.columns.into());
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::talk::exit::stopped(stop));
    };
    hidden::say(&made);
    let world = made.passed.timeline.world();
    let by = match flags.by {
        ByFlag::Process => By::Process,
        ByFlag::Thread => By::Thread,
    };
    let wanted = whose.of(world);
    let report = counter.finish(world, by, &|label| wanted.has(label));
    flags.common.show(|| json(&report, &made, flags), || text(&report, &made, flags))?;
    let is_empty = report.rows.is_empty() && report.cpus.iter().all(|cpu| cpu.switches == 0);
    let is_asked = whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        is_empty,
        is_asked,
        "no thread that ran fits what was asked for",
        "the trace does not say who ran. Record that: strata record -k sched_switch -- COMMAND",
    ))
}

fn per_second(number: u64, nanos: u64) -> f64 {
    number as f64 * 1e9 / nanos.max(1) as f64
}

fn json(report: &CpuReport, made: &Made, flags: &CpuFlags) -> String {
    let whole = made.nanos();
    let share = |nanos: u64| nanos as f64 / whole.max(1) as f64;
    let row = |row: &Row| {
        let mut map = keys(&row.label);
        put_sums(&mut map, subject(&row.label), row.runs, Some(row.running));
        for (key, value) in [
            ("running_ns", json!(row.running)),
            ("share", json!(share(row.running))),
            ("runs", json!(row.runs)),
            ("migrations", json!(row.migrations)),
            ("cpus", json!(row.cpus)),
            ("columns_ns", json!(row.columns)),
        ] {
            map.insert(key.into(), value);
        }
        Value::Object(map)
    };
    let cpu = |cpu: &Cpu| {
        let mut value = json!({
            "cpu": cpu.cpu,
            "busy_ns": cpu.busy,
            "idle_ns": cpu.idle,
            "unknown_ns": cpu.unknown,
            "share": share(cpu.busy),
            "switches": cpu.switches,
            "switches_per_second": per_second(cpu.switches, whole),
            "columns_ns": cpu.columns,
            "unknown_columns_ns": cpu.unknown_columns,
        });
        if let (Some(machine), Value::Object(map)) = (&cpu.machine, &mut value) {
            map.insert("machine".into(), json!(machine));
        }
        value
    };
    let mut object = made.object("cpu");
    object.insert("hidden_threads".into(), hidden::json(made));
    object.insert("by".into(), by(&flags.by));
    object.insert("column_from_ns".into(), json!(report.columns.from));
    object.insert("column_ns".into(), json!(report.columns.width));
    put_rows(&mut object, &report.rows, &flags.common, row);
    object.insert("cpus".into(), report.cpus.iter().map(cpu).collect());
    document(object)
}

/// A column for each part of the time.
fn strip(cells: &[u64], unknown: &[u64], columns: &Columns, ascii: bool) -> String {
    let column = |(at, &nanos): (usize, &u64)| {
        // The last one may be narrower.
        let begin = columns.width.saturating_mul(at as u64);
        let width = columns.width.min(columns.whole.saturating_sub(begin)).max(1);
        match unknown.get(at) {
            Some(&unknown) if unknown > width / 2 => '?',
            _ => bar(nanos, width, ascii),
        }
    };
    cells.iter().enumerate().map(column).collect::<String>().trim_end().to_owned()
}

fn text(report: &CpuReport, made: &Made, flags: &CpuFlags) -> String {
    let mut out = String::new();
    let (whole, ascii) = (made.nanos(), !is_utf8());
    let busy = report.cpus.iter().map(|cpu| cpu.busy).fold(0, u64::saturating_add);
    let switches = report.cpus.iter().map(|cpu| cpu.switches).sum();
    let _ = writeln!(
        out,
        "{HEAD}{} in {}: {} busy, {} switches ({} per second){HEAD:#}",
        counted(report.cpus.len() as u64, "CPU"),
        length(whole),
        length(busy),
        count(switches),
        rate(per_second(switches, whole)),
    );
    let columns = &report.columns;
    let _ = writeln!(
        out,
        "{DIM}a column is {}, the first begins at {}{DIM:#}\n",
        length(columns.width),
        time_of_day(columns.from, flags.common.selection.zone()),
    );
    let (left, right) = (Align::Left, Align::Right);
    let percent = |nanos: u64| format!("{:.1} %", nanos as f64 * 100.0 / whole.max(1) as f64);
    let mut table = Table::new(&[
        ("CPU", left),
        ("busy", right),
        ("share", right),
        ("idle", right),
        ("unknown", right),
        ("switches", right),
        ("per second", right),
        ("when", left),
    ]);
    for cpu in &report.cpus {
        let machine = cpu.machine.as_ref().map(|machine| format!("{machine}: "));
        table.row([
            format!("{}{}", machine.unwrap_or_default(), cpu.cpu).into(),
            some(cpu.busy).into(),
            percent(cpu.busy).into(),
            some(cpu.idle).into(),
            some(cpu.unknown).into(),
            count(cpu.switches).into(),
            rate(per_second(cpu.switches, whole)).into(),
            strip(&cpu.columns, &cpu.unknown_columns, columns, ascii).into(),
        ]);
    }
    table.write(&mut out);
    if report.rows.is_empty() {
        return out;
    }
    let what = if flags.by == ByFlag::Process { "process" } else { "thread" };
    let mut table = Table::new(&[
        (what, left),
        ("running", right),
        ("share", right),
        ("runs", right),
        ("moves", right),
        ("CPUs", right),
        ("when", left),
    ]);
    let rows = flags.common.rows();
    for row in report.rows.iter().take(rows) {
        let cpus: Vec<String> = row.cpus.iter().take(4).map(u32::to_string).collect();
        let dots = if row.cpus.len() > 4 { "…" } else { "" };
        table.row([
            name(&row.label).into(),
            length(row.running).into(),
            percent(row.running).into(),
            count(row.runs).into(),
            some_count(row.migrations).into(),
            format!("{}{dots}", cpus.join(",")).into(),
            strip(&row.columns, &[], columns, ascii).into(),
        ]);
    }
    out.push('\n');
    table.write(&mut out);
    more(&mut out, report.rows.len(), rows);
    out
}

//! The report `strata analyze cpu`.

use anyhow::Result;
use clap::{Args, ValueEnum};
use strata_analyze::pipeline::span;
use strata_analyze::reports::cpu::{By, Columns, Cpu, CpuCounter, CpuReport, Row};
use strata_analyze::reports::cpu_power::{Power, PowerCounter, PowerRow};
use strata_analyze::reports::program_groups::Common;
use strata_analyze::stats::time_of_day;
use strata_ctf::read::TimeRange;
use strata_report::{Document, Figure, Part, Table, Unit, Value};
use strata_session::stop::Stop;

use super::hidden_threads;
use super::process_selection::WhoseFlags;
use super::report_command::{CommonFlags, Made, EXIT_STATUS};
use super::report_text::show;
use super::rows::{by, few, length, subject};
use crate::reading::selection::{refused, TIMES};
use crate::units::{clean, count, counted, rate};

/// Default number of columns of a strip; the largest number follows.
const COLUMNS: u16 = 50;
const COLUMNS_MAX: i64 = 10_000;

const MEANING: &str = "\
What it says:
  A strip has a column for each part of the time: how high it is says
  how much of that a CPU was busy, or a process had one CPU or more;
  '?' stands where the trace does not say what a CPU did for most of
  it. Shares are of one CPU.
";

/// Flags of `strata analyze cpu`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{MEANING}\n{TIMES}\n{EXIT_STATUS}"))]
#[command(mut_arg("filter", refused))]
pub struct CpuFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// A row for each process, for each thread, for all processes of a name, for each container or pod
    #[arg(long, value_enum, default_value_t)]
    by: ByFlag,

    #[command(flatten)]
    whose: WhoseFlags,

    /// Parts of the time
    #[arg(long, value_name = "N", default_value_t = COLUMNS,
          value_parser = clap::value_parser!(u16).range(1..=COLUMNS_MAX))]
    columns: u16,
}

/// The value of `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// One row for each process, with all its threads
    #[default]
    Process,
    /// One row for each thread
    Thread,
    /// One row for each name, with all its processes
    #[value(alias = "program")]
    Name,
    /// One row for each container, systemd unit or control group
    #[value(aliases = ["unit", "cgroup"])]
    Container,
    /// One row for each pod of Kubernetes
    Pod,
}

/// Makes the report, and returns the exit status.
pub fn run(flags: &CpuFlags, stop: &Stop) -> Result<u8> {
    let instead = "--of NAME|NUMBER, which selects threads";
    flags.common.refuse_filter("cpu", "what a CPU ran is none", instead)?;
    let (reader, range) = flags.common.open()?;
    let whose = flags.whose.read(&reader, "cpu", stop)?;
    let whole = span(&reader).unwrap_or(TimeRange { from: 0, to: 0 });
    let shown = TimeRange { from: range.from.max(whole.from), to: range.to.min(whole.to) };
    let shown = TimeRange { to: shown.to.max(shown.from), ..shown };
    let counter = CpuCounter::new(shown, flags.columns.into());
    let mut counter = (counter, PowerCounter::new(shown));
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    hidden_threads::say(&made);
    let world = made.passed.timeline.world();
    let by = match flags.by {
        ByFlag::Process => By::Process,
        ByFlag::Thread => By::Thread,
        ByFlag::Name => By::Together(Common::Name),
        ByFlag::Container => By::Together(Common::Container),
        ByFlag::Pod => By::Together(Common::Pod),
    };
    let wanted = whose.of(world);
    let (counter, power) = counter;
    let report = counter.finish(world, by, &|label| wanted.has(label));
    let power = power.finish(world, shown.to);
    show(&flags.common, "cpu", &made, &document(&report, &power, &made, flags))?;
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

fn document(report: &CpuReport, power: &[PowerRow], made: &Made, flags: &CpuFlags) -> Document {
    let whole = made.nanos();
    let columns = &report.columns;
    let busy = report.cpus.iter().map(|cpu| cpu.busy).fold(0, u64::saturating_add);
    let switches = report.cpus.iter().map(|cpu| cpu.switches).sum();
    let mut document = Document::new(format!(
        "{} in {}: {} busy, {} switches ({} per second)",
        counted(report.cpus.len() as u64, "CPU"),
        length(whole),
        length(busy),
        count(switches),
        rate(per_second(switches, whole)),
    ));
    document.fact("hidden_threads", hidden_threads::value(made));
    document.fact("by", by(&flags.by));
    document.fact("column_from_ns", columns.from);
    document.fact("column_ns", columns.width);
    let begin = time_of_day(columns.from, flags.common.selection.zone());
    let width = length(columns.width);
    document.push(Part::Note(format!("a column is {width}, the first begins at {begin}")));
    document.push(Part::Blank);
    document.push(cpus(report, whole));
    let shown = report.rows.get(..flags.common.rows()).unwrap_or(&report.rows);
    document.rows(rows(shown, columns, whole, flags.by), report.rows.len());
    if !power.is_empty() {
        document.push(powers(power, whole));
    }
    document
}

fn share(nanos: u64, whole: u64) -> Value {
    (nanos as f64 / whole.max(1) as f64).into()
}

/// Returns the table of CPUs.
fn cpus(report: &CpuReport, whole: u64) -> Part {
    let table = strata_report::Columns::new()
        .shown("CPU", Unit::Text, |cpu: &Cpu| {
            let machine = cpu.machine.as_ref().map(|machine| format!("{machine}: "));
            format!("{}{}", machine.unwrap_or_default(), cpu.cpu).into()
        })
        .both("busy", "busy_ns", Unit::SomeNanos, |cpu| cpu.busy.into())
        .both("share", "share", Unit::Share, |cpu| share(cpu.busy, whole))
        .both("idle", "idle_ns", Unit::SomeNanos, |cpu| cpu.idle.into())
        .both("unknown", "unknown_ns", Unit::SomeNanos, |cpu| cpu.unknown.into())
        .both("switches", "switches", Unit::Count, |cpu| cpu.switches.into())
        .both("per second", "switches_per_second", Unit::Rate, |cpu| {
            per_second(cpu.switches, whole).into()
        })
        .shown("when", Unit::Strip, |cpu| {
            strip(&cpu.columns, &cpu.unknown_columns, &report.columns)
        })
        .key("cpu", |cpu| cpu.cpu.into())
        .some_key("machine", |cpu| cpu.machine.clone().into())
        .nested("columns_ns", |cpu| cpu.columns.iter().copied().collect())
        .nested("unknown_columns_ns", |cpu| cpu.unknown_columns.iter().copied().collect());
    Part::section("", "cpus", table.rows(&report.cpus))
}

/// Returns the table of idle states and frequencies.
fn powers(power: &[PowerRow], whole: u64) -> Part {
    let table = strata_report::Columns::new()
        .shown("CPU", Unit::Text, |row: &PowerRow| {
            let machine = row.machine.as_ref().map(|machine| format!("{}: ", clean(machine)));
            format!("{}{}", machine.unwrap_or_default(), row.cpu).into()
        })
        .shown("state", Unit::Text, |row| match row.power {
            Power::Idle(state) => format!("idle {state}").into(),
            Power::Frequency(khz) => format!("{:.3} GHz", khz as f64 / 1e6).into(),
        })
        .shown("share", Unit::Share, |row| share(row.times.total, whole))
        .times(
            &[
                ("times", Figure::Count),
                ("total", Figure::Total),
                ("avg", Figure::Mean),
                ("p99", Figure::P99),
                ("longest", Figure::Max),
            ],
            |row| &row.times,
        )
        .some_key("machine", |row| row.machine.clone().into())
        .key("cpu", |row| row.cpu.into())
        .key("idle_state", |row| match row.power {
            Power::Idle(state) => state.into(),
            Power::Frequency(_) => Value::None,
        })
        .key("khz", |row| match row.power {
            Power::Idle(_) => Value::None,
            Power::Frequency(khz) => khz.into(),
        });
    Part::section("Idle states and frequencies", "power", table.rows(power))
}

/// Returns the table of the processes or threads that had the CPUs.
fn rows(rows: &[Row], columns: &Columns, whole: u64, by: ByFlag) -> Table {
    let what = match by {
        ByFlag::Process => "process",
        ByFlag::Thread => "thread",
        ByFlag::Name => "program",
        ByFlag::Container => "container",
        ByFlag::Pod => "pod",
    };
    let table = strata_report::Columns::new()
        .both(what, "", Unit::Label, |row: &Row| Value::label(&row.label))
        .both("running", "running_ns", Unit::Nanos, |row| row.running.into())
        .both("share", "share", Unit::Share, |row| share(row.running, whole))
        .both("runs", "runs", Unit::Count, |row| row.runs.into())
        .both("moves", "migrations", Unit::SomeCount, |row| row.migrations.into())
        .shown("CPUs", Unit::RightText, |row| few(row.cpus.iter()).into())
        .shown("when", Unit::Strip, |row| strip(&row.columns, &[], columns))
        .key("name", |row| subject(&row.label).into())
        .key("count", |row| row.runs.into())
        .key("total_ns", |row| row.running.into())
        .nested("cpus", |row| row.cpus.iter().copied().collect())
        .nested("columns_ns", |row| row.columns.iter().copied().collect());
    table.rows(rows)
}

/// Returns the share of each part of the time that `cells` take; `null` if most of the part is unknown.
fn strip(cells: &[u64], unknown: &[u64], columns: &Columns) -> Value {
    let column = |(at, &nanos): (usize, &u64)| {
        // The last column may be narrower.
        let begin = columns.width.saturating_mul(at as u64);
        let width = columns.width.min(columns.whole.saturating_sub(begin)).max(1);
        let is_known = unknown.get(at).is_none_or(|&unknown| unknown <= width / 2);
        is_known.then_some(nanos as f64 / width as f64)
    };
    Value::Strip(cells.iter().enumerate().map(column).collect())
}

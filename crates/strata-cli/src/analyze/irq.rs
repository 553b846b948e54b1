//! The report `strata analyze irq`.

use std::fmt::Write as _;

use anyhow::Result;
use clap::{Args, ValueEnum};
use strata_analyze::reports::irq::{By, IrqCounter, IrqReport, Long, Row};
use strata_analyze::reports::{Label, QUANTILE_ERROR};
use strata_report::{Columns, Document, Figure, Part, Unit, Value};
use strata_session::stop::Stop;

use super::hidden_threads;
use super::process_selection::WhoseFlags;
use super::report_command::{CommonFlags, Made, EXIT_STATUS};
use super::report_text::show;
use super::rows::{by, few, length, name};
use crate::reading::number_parser::nr_kept;
use crate::reading::selection::SYNTAX;
use crate::units::{clean, counted};

/// Limit on the interrupted threads that a text lists for one row.
const BELOW: usize = 3;
const LONGEST_MAX: usize = 100_000;

const OF: &str =
    "Only what interrupted threads of this name or number, and those of processes of this name or number";

const COUNTED: &str = "\
What is counted:
  Interrupts of devices and softirqs that end in the time asked for;
  with --filter, those of which the record of the begin or that of the
  end matches: 'vec == 3'. What interrupts one in turn is in its time.
  How long a softirq was to be done before it began ('late') is known
  if irq_softirq_raise was recorded. Timers of CPUs and calls between
  CPUs are no interrupts of devices, and not in these records.
";

/// Flags of `strata analyze irq`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{COUNTED}\n{SYNTAX}\n{EXIT_STATUS}"))]
#[command(mut_arg("of", |of| of.help(OF)))]
pub struct IrqFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// A row for each interrupt, for each on each CPU, or for each thread or process that was interrupted
    #[arg(long, value_enum, default_value_t)]
    by: ByFlag,

    #[command(flatten)]
    whose: WhoseFlags,

    /// Show the N longest interrupts, one row for each
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = nr_kept)]
    longest: usize,
}

/// The value of `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// One row for each interrupt
    #[default]
    Irq,
    /// An interrupt on one CPU
    Cpu,
    /// One row for each interrupted thread
    Thread,
    /// One row for each interrupted process
    Process,
}

/// Makes the report, and returns the exit status.
pub fn run(flags: &IrqFlags, stop: &Stop) -> Result<u8> {
    let (reader, range) = flags.common.open()?;
    let whose = flags.whose.read(&reader, "irq", stop)?;
    let mut counter = IrqCounter::new(range, whose.kept(flags.longest, LONGEST_MAX));
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    hidden_threads::say(&made);
    let by = match flags.by {
        ByFlag::Irq => By::Irq,
        ByFlag::Cpu => By::Cpu,
        ByFlag::Thread => By::Thread,
        ByFlag::Process => By::Process,
    };
    let world = made.passed.timeline.world();
    let wanted = whose.of(world);
    let is_wanted = |label: Option<&Label>| match label {
        Some(label) => wanted.has(label),
        None => !whose.is_any(),
    };
    let mut report = counter.finish(world, by, &is_wanted);
    report.longest.truncate(flags.longest);
    let (found, all) = (report.longest.len(), report.irqs.count + report.softirqs.count);
    whose.say_fewer(found, flags.longest, LONGEST_MAX, all, "longest interrupts");
    show(&flags.common, "irq", &made, &document(&report, &made, flags))?;
    let is_empty = report.rows.is_empty();
    let is_asked = whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        is_empty,
        is_asked,
        "no interrupt matches what was asked for",
        "the trace has no interrupt. Record them: strata record -k \
                 irq_handler_entry,irq_handler_exit,irq_softirq_entry,irq_softirq_exit,irq_softirq_raise,sched_switch \
                 -- COMMAND",
    ))
}

/// Formats the name of an interrupt: `irq 36 virtio1-req.0`, `softirq RCU`.
pub fn what(machine: Option<&String>, kind: &str, number: Option<i32>, name: &str) -> String {
    let mut text = machine.map(|machine| format!("{machine}: ")).unwrap_or_default();
    text.push_str(kind);
    if let Some(number) = number.filter(|_| kind == "irq" || name.is_empty()) {
        let _ = write!(text, " {number}");
    }
    if !name.is_empty() {
        let _ = write!(text, " {name}");
    }
    clean(&text)
}

fn whom(label: Option<&Label>) -> String {
    match label {
        None => "not known".to_owned(),
        Some(label) if label.tid == Some(0) => "nobody: the CPU was idle".to_owned(),
        Some(label) => name(label),
    }
}

fn document(report: &IrqReport, made: &Made, flags: &IrqFlags) -> Document {
    let mut document = Document::new(format!(
        "{}, {}; {}, {}; in {}",
        counted(report.irqs.count, "interrupt"),
        length(report.irqs.total),
        counted(report.softirqs.count, "softirq"),
        length(report.softirqs.total),
        length(made.nanos()),
    ));
    document.fact("hidden_threads", hidden_threads::value(made));
    document.fact("by", by(&flags.by));
    document.fact("quantile_error", QUANTILE_ERROR);
    document.fact("irqs", Value::Record(report.irqs.record()));
    document.fact("softirqs", Value::Record(report.softirqs.record()));
    let is_by_whom = matches!(flags.by, ByFlag::Thread | ByFlag::Process);
    let subject = |row: &Row| match is_by_whom {
        true if row.label == Label::default() => "not known".to_owned(),
        true => whom(Some(&row.label)),
        false => what(row.machine.as_ref(), row.kind, row.number, &row.name),
    };
    let late = |row: &Row, part| match row.delays.count {
        0 => Value::None,
        _ => row.delays.quantile(part).into(),
    };
    let shown = report.rows.get(..flags.common.rows()).unwrap_or(&report.rows);
    let columns = Columns::new()
        .shown(if is_by_whom { "interrupted" } else { "interrupt" }, Unit::Text, |row: &Row| {
            subject(row).into()
        })
        .shown("CPU", Unit::RightText, |row| few(row.cpus.keys()).into())
        .times(
            &[
                ("count", Figure::Count),
                ("total", Figure::Total),
                ("avg", Figure::Mean),
                ("p50", Figure::P50),
                ("p99", Figure::P99),
                ("max", Figure::Max),
            ],
            |row| &row.times,
        )
        .shown("late p99", Unit::Nanos, |row| late(row, 0.99))
        .shown("late max", Unit::Nanos, |row| late(row, 1.0))
        .spread(|row| &row.times)
        .label_keys(|row| Value::label(&row.label))
        .some_key("machine", |row| row.machine.clone().into())
        .key("kind", |row| Value::some_text(row.kind))
        .key("number", |row| row.number.into())
        .key("name", |row| Value::some_text(row.name.as_str()))
        .key("cpu", |row| row.cpu.into())
        .nested("late", |row| match row.delays.count {
            0 => Value::None,
            _ => Value::Record(row.delays.record()),
        })
        .nested("cpus", |row| {
            let cpu =
                |(&cpu, &count): (&u32, &u64)| vec![("cpu", cpu.into()), ("count", count.into())];
            Value::List(row.cpus.iter().map(cpu).collect())
        })
        .nested("interrupted", |row| {
            let one = |(label, count, total): &(Option<Label>, u64, u64)| {
                vec![
                    ("", label.as_ref().into()),
                    ("count", (*count).into()),
                    ("total_ns", (*total).into()),
                ]
            };
            Value::List(row.interrupted.iter().map(one).collect())
        });
    document.rows(columns.rows(shown), report.rows.len());
    if !report.rows.is_empty() {
        let mut all = report.irqs.clone();
        all.merge(&report.softirqs);
        document.push(Part::lengths("interrupts", &all.spread));
    }
    if !is_by_whom {
        let mut rows = Vec::new();
        for row in shown {
            rows.extend(row.interrupted.iter().take(BELOW).map(|one| (row, one)));
        }
        let columns = Columns::new()
            .shown("interrupt", Unit::Text, |(row, _): &(&Row, &(Option<Label>, u64, u64))| {
                subject(row).into()
            })
            .shown("total", Unit::Nanos, |(_, (_, _, total))| (*total).into())
            .shown("count", Unit::Count, |(_, (_, count, _))| (*count).into())
            .shown("interrupted", Unit::Text, |(_, (label, _, _))| whom(label.as_ref()).into());
        document.push(Part::shown("Whom they interrupted", columns.rows(&rows)));
    }
    let columns = Columns::new()
        .both("begin", "time_ns", Unit::Time, |long: &Long| long.begin.into())
        .both("took", "duration_ns", Unit::Nanos, |long| long.nanos.into())
        .shown("interrupt", Unit::Text, |long| {
            what(None, long.kind, Some(long.number), &long.name).into()
        })
        .both("CPU", "cpu", Unit::RightText, |long| long.cpu.into())
        .shown("interrupted", Unit::Text, |long| whom(long.label.as_ref()).into())
        .label_keys(|long| long.label.as_ref().into())
        .key("kind", |long| long.kind.into())
        .key("number", |long| long.number.into())
        .key("name", |long| Value::some_text(long.name.as_str()));
    document.push(Part::section("The longest", "longest", columns.rows(&report.longest)));
    document
}

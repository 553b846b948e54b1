//! `strata analyze irq`.

use std::fmt::Write as _;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{json, Map, Value};
use strata_analyze::reports::irq::{By, IrqCounter, IrqReport, Long, Row};
use strata_analyze::reports::{Label, QUANTILE_ERROR};
use strata_analyze::stats::time_of_day;
use strata_session::stop::Stop;

use super::common::{CommonFlags, Made, EXIT_STATUS};
use super::hidden;
use super::rows::{
    by, document, figures, histogram, keys, length, more, name, put_rows, section, spread,
};
use super::whose::{MineFlags, Whose, BY_OF};
use crate::reading::selection::SYNTAX;
use crate::stats::is_utf8;
use crate::stats::table::{Align, Table, HEAD};
use crate::talk::units::{clean, count, counted};

/// Of those who were interrupted, so many in a text.
const BELOW: usize = 3;
const LONGEST_MAX: usize = 100_000;

const COUNTED: &str = "\
What is counted:
  Interrupts of devices and softirqs that end in the time asked for;
  with --filter, those of which the record of the begin or that of the
  end matches: 'vec == 3'. What interrupts one in turn is in its time.
  How long a softirq was to be done before it began ('late') is known
  if irq_softirq_raise was recorded. Timers of CPUs and calls between
  CPUs are no interrupts of devices, and not in these records.
";

/// `strata analyze irq`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{COUNTED}\n{SYNTAX}\n{EXIT_STATUS}"))]
pub struct IrqFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// A row for each interrupt, for each on each CPU, or for each thread or process that was interrupted
    #[arg(long, value_enum, default_value_t)]
    by: ByFlag,

    /// Only what interrupted threads of this name or number, and those of processes of this name or number
    #[arg(long, value_name = "NAME|NUMBER")]
    of: Option<String>,

    #[command(flatten)]
    mine: MineFlags,

    /// Show the N longest one by one
    #[arg(long, value_name = "N", default_value_t = 5)]
    longest: usize,
}

/// `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// An interrupt
    #[default]
    Irq,
    /// An interrupt on one CPU
    Cpu,
    /// All that interrupted one thread
    Thread,
    /// All that interrupted one process
    Process,
}

/// Do it, and give the exit status.
pub fn run(flags: &IrqFlags, stop: &Stop) -> Result<u8> {
    let (reader, range) = flags.common.open()?;
    let whose = Whose::read(flags.of.as_deref(), &flags.mine, &reader, ("irq", BY_OF), stop)?;
    let kept = if whose.is_any() { LONGEST_MAX } else { flags.longest.min(LONGEST_MAX) };
    let mut counter = IrqCounter::new(range, kept);
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::talk::exit::stopped(stop));
    };
    hidden::say(&made);
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
    flags.common.show(|| json(&report, &made, flags), || text(&report, &made, flags))?;
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

fn json(report: &IrqReport, made: &Made, flags: &IrqFlags) -> String {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let row = |row: &Row| {
        let mut map = keys(&row.label);
        if let Some(machine) = &row.machine {
            map.insert("machine".into(), json!(machine));
        }
        map.insert("kind".into(), json!(text(row.kind)));
        map.insert("number".into(), json!(row.number));
        map.insert("name".into(), json!(text(&row.name)));
        map.insert("cpu".into(), json!(row.cpu));
        map.extend(figures(&row.times));
        let late = Some(&row.delays).filter(|delays| delays.count > 0);
        map.insert("late".into(), json!(late.map(figures)));
        let cpus = row.cpus.iter().map(|(cpu, count)| json!({"cpu": cpu, "count": count}));
        map.insert("cpus".into(), cpus.collect());
        let interrupted = row.interrupted.iter().map(|(label, count, total)| {
            let mut map = label.as_ref().map(keys).unwrap_or_default();
            map.insert("count".into(), json!(count));
            map.insert("total_ns".into(), json!(total));
            Value::Object(map)
        });
        map.insert("interrupted".into(), interrupted.collect());
        Value::Object(map)
    };
    let long = |long: &Long| {
        let mut map: Map<String, Value> = long.label.as_ref().map(keys).unwrap_or_default();
        map.insert("kind".into(), json!(long.kind));
        map.insert("number".into(), json!(long.number));
        map.insert("name".into(), json!(text(&long.name)));
        map.insert("cpu".into(), json!(long.cpu));
        map.insert("time_ns".into(), json!(long.begin));
        map.insert("duration_ns".into(), json!(long.nanos));
        Value::Object(map)
    };
    let mut object = made.object("irq");
    object.insert("hidden_threads".into(), hidden::json(made));
    object.insert("by".into(), by(&flags.by));
    object.insert("quantile_error".into(), json!(QUANTILE_ERROR));
    object.insert("irqs".into(), Value::Object(figures(&report.irqs)));
    object.insert("softirqs".into(), Value::Object(figures(&report.softirqs)));
    put_rows(&mut object, &report.rows, &flags.common, row);
    object.insert("longest".into(), report.longest.iter().map(long).collect());
    document(object)
}

/// `irq 36 virtio1-req.0`, `softirq RCU`.
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

fn text(report: &IrqReport, made: &Made, flags: &IrqFlags) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{HEAD}{}, {}; {}, {}; in {}{HEAD:#}",
        counted(report.irqs.count, "interrupt"),
        length(report.irqs.total),
        counted(report.softirqs.count, "softirq"),
        length(report.softirqs.total),
        length(made.nanos()),
    );
    if report.rows.is_empty() {
        return out;
    }
    let (left, right) = (Align::Left, Align::Right);
    let is_by_whom = matches!(flags.by, ByFlag::Thread | ByFlag::Process);
    let mut table = Table::new(&[
        (if is_by_whom { "interrupted" } else { "interrupt" }, left),
        ("CPU", right),
        ("count", right),
        ("total", right),
        ("avg", right),
        ("p50", right),
        ("p99", right),
        ("max", right),
        ("late p99", right),
        ("late max", right),
        ("1µs..1s", left),
    ]);
    let subject = |row: &Row| match is_by_whom {
        true if row.label == Label::default() => "not known".to_owned(),
        true => whom(Some(&row.label)),
        false => what(row.machine.as_ref(), row.kind, row.number, &row.name),
    };
    let rows = flags.common.rows();
    for row in report.rows.iter().take(rows) {
        let cpus: Vec<String> = row.cpus.keys().take(4).map(u32::to_string).collect();
        let dots = if row.cpus.len() > 4 { "…" } else { "" };
        let late = |part| match row.delays.count {
            0 => String::new(),
            _ => length(row.delays.quantile(part)),
        };
        table.row([
            subject(row).into(),
            format!("{}{dots}", cpus.join(",")).into(),
            count(row.times.count).into(),
            length(row.times.total).into(),
            length(row.times.mean()).into(),
            length(row.times.quantile(0.5)).into(),
            length(row.times.quantile(0.99)).into(),
            length(row.times.max).into(),
            late(0.99).into(),
            late(1.0).into(),
            spread(&row.times.spread).into(),
        ]);
    }
    out.push('\n');
    table.write(&mut out);
    more(&mut out, report.rows.len(), rows);
    let mut all = report.irqs.clone();
    all.merge(&report.softirqs);
    histogram(&mut out, &all.spread, "interrupts", !is_utf8());
    if !is_by_whom {
        let mut table = Table::new(&[
            ("interrupt", left),
            ("total", right),
            ("count", right),
            ("interrupted", left),
        ]);
        for row in report.rows.iter().take(rows) {
            for (label, number, total) in row.interrupted.iter().take(BELOW) {
                table.row([
                    subject(row).into(),
                    length(*total).into(),
                    count(*number).into(),
                    whom(label.as_ref()).into(),
                ]);
            }
        }
        section(&mut out, "Whom they interrupted", &table);
    }
    longest(&mut out, report, flags);
    out
}

fn longest(out: &mut String, report: &IrqReport, flags: &IrqFlags) {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("begin", left),
        ("took", right),
        ("interrupt", left),
        ("CPU", right),
        ("interrupted", left),
    ]);
    for long in &report.longest {
        table.row([
            time_of_day(long.begin, flags.common.selection.zone()).into(),
            length(long.nanos).into(),
            what(None, long.kind, Some(long.number), &long.name).into(),
            long.cpu.to_string().into(),
            whom(long.label.as_ref()).into(),
        ]);
    }
    section(out, "The longest", &table);
}

//! The report `strata analyze work`.

use anyhow::Result;
use clap::{Args, ValueEnum};
use strata_analyze::debug_info::KernelFunctions;
use strata_analyze::reports::work::{By, Long, Row, WorkCounter, WorkKind, WorkReport};
use strata_analyze::reports::{Label, Times, QUANTILE_ERROR};
use strata_report::{Columns, Document, Figure, Part, Unit, Value};
use strata_session::stop::Stop;

use super::hidden_threads;
use super::process_selection::{MineFlags, Whose, BY_OF};
use super::report_command::{CommonFlags, Made, NamesFlags, EXIT_STATUS};
use super::report_text::show;
use super::rows::{by, few, length, name};
use crate::reading::number_parser::nr_kept;
use crate::reading::selection::SYNTAX;
use crate::units::{clean, counted};

const LONGEST_MAX: usize = 100_000;

const COUNTED: &str = "\
What is counted:
  Executions that end in the time asked for; with --filter, those of
  which the record of the begin or that of the end matches.
  'late' is the time from queueing to the begin for work, from the time
  for which it was set for hrtimers (where their start is recorded),
  and from raising for softirqs. Timers run in the softirq TIMER, and
  hrtimers in an interrupt or the softirq HRTIMER: their time is in that
  of the softirq. --of selects by who executed the work, or was
  interrupted by it.
";

/// Flags of `strata analyze work`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{COUNTED}\n{SYNTAX}\n{EXIT_STATUS}"))]
pub struct WorkFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// A row for each function, for each workqueue, or for each thread that executed it or was interrupted
    #[arg(long, value_enum, default_value_t)]
    by: ByFlag,

    /// Only what threads of this name or number, or of processes of this name or number, executed or were interrupted by
    #[arg(long, value_name = "NAME|NUMBER")]
    of: Option<String>,

    #[command(flatten)]
    mine: MineFlags,

    #[command(flatten)]
    names: NamesFlags,

    /// Show the N longest executions, one row for each
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = nr_kept)]
    longest: usize,
}

/// The value of `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// One row for each function
    #[default]
    Function,
    /// One row for each workqueue
    Queue,
    /// One row for each thread
    Thread,
}

/// Makes the report, and returns the exit status.
pub fn run(flags: &WorkFlags, stop: &Stop) -> Result<u8> {
    let (reader, range) = flags.common.open()?;
    let whose = Whose::read(flags.of.as_deref(), &flags.mine, &reader, ("work", BY_OF), stop)?;
    let functions = KernelFunctions::of(&reader, &flags.names.options());
    let mut counter = WorkCounter::new(range, functions, whose.kept(flags.longest, LONGEST_MAX));
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    flags.names.say_left_out();
    hidden_threads::say(&made);
    let by = match flags.by {
        ByFlag::Function => By::Function,
        ByFlag::Queue => By::Queue,
        ByFlag::Thread => By::Thread,
    };
    let world = made.passed.timeline.world();
    let wanted = whose.of(world);
    let is_wanted = |label: Option<&Label>| match label {
        Some(label) => wanted.has(label),
        None => !whose.is_any(),
    };
    let mut report = counter.finish(world, by, &is_wanted);
    report.longest.truncate(flags.longest);
    let all = report.kinds.iter().map(|(_, times)| times.count).sum();
    whose.say_fewer(report.longest.len(), flags.longest, LONGEST_MAX, all, "longest executions");
    show(&flags.common, "work", &made, &document(&report, &made, flags))?;
    let is_empty = report.rows.is_empty();
    let is_asked = whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        is_empty,
        is_asked,
        "no work matches what was asked for",
        "the trace has no work item, timer or softirq. Record them: strata record -a -k \
                 'workqueue_*,timer_expire_*,hrtimer_*,irq_softirq_*,sched_switch'",
    ))
}

/// Formats who executed work, or was interrupted by it.
fn whom(label: Option<&Label>) -> String {
    match label {
        None => "not known".to_owned(),
        Some(label) if label.tid == Some(0) => "nobody: the CPU was idle".to_owned(),
        Some(label) => name(label),
    }
}

fn what(machine: Option<&String>, kind: Option<WorkKind>, rest: &str) -> String {
    let machine = machine.map(|machine| format!("{machine}: ")).unwrap_or_default();
    let kind = kind.map_or("", WorkKind::name);
    clean(format!("{machine}{kind} {rest}").trim_end())
}

fn late(times: &Times, part: f64) -> Value {
    match times.count {
        0 => Value::None,
        _ => times.quantile(part).into(),
    }
}

fn document(report: &WorkReport, made: &Made, flags: &WorkFlags) -> Document {
    let kinds = report.kinds.iter().map(|(kind, times)| {
        let number = match kind {
            WorkKind::Work => counted(times.count, "work item"),
            kind => counted(times.count, kind.name()),
        };
        format!("{number}, {}", length(times.total))
    });
    let mut head: Vec<String> = kinds.collect();
    if head.is_empty() {
        head.push("no work".to_owned());
    }
    let mut document = Document::new(format!("{}; in {}", head.join("; "), length(made.nanos())));
    document.fact("hidden_threads", hidden_threads::value(made));
    document.fact("by", by(&flags.by));
    document.fact("quantile_error", QUANTILE_ERROR);
    document.fact("waiting", report.waiting);
    document.fact("incomplete", report.incomplete);
    let is_by_thread = flags.by == ByFlag::Thread;
    let subject = |row: &Row| match flags.by {
        ByFlag::Thread if row.label == Label::default() => "not known".to_owned(),
        ByFlag::Thread => whom(Some(&row.label)),
        ByFlag::Function => what(row.machine.as_ref(), row.kind, &row.function),
        ByFlag::Queue => {
            what(row.machine.as_ref(), row.kind, row.queue.as_deref().unwrap_or_default())
        }
    };
    let shown = report.rows.get(..flags.common.rows()).unwrap_or(&report.rows);
    let mut columns = Columns::new()
        .shown(if is_by_thread { "thread" } else { "work" }, Unit::Text, |row: &Row| {
            subject(row).into()
        })
        .shown("CPU", Unit::RightText, |row| few(row.cpus.iter()).into())
        .times(
            &[
                ("count", Figure::Count),
                ("total", Figure::Total),
                ("avg", Figure::Mean),
                ("p99", Figure::P99),
                ("max", Figure::Max),
            ],
            |row| &row.times,
        )
        .shown("late p99", Unit::Nanos, |row| late(&row.late, 0.99))
        .shown("late max", Unit::Nanos, |row| late(&row.late, 1.0));
    if flags.by == ByFlag::Function {
        columns = columns.shown("queue", Unit::Text, |row| {
            clean(row.queue.as_deref().unwrap_or_default()).into()
        });
    }
    let columns = columns
        .spread(|row| &row.times)
        .label_keys(|row| Value::label(&row.label))
        .some_key("machine", |row| row.machine.clone().into())
        .key("kind", |row| row.kind.map_or(Value::None, |kind| kind.name().into()))
        .key("function", |row| Value::some_text(row.function.as_str()))
        .key("queue", |row| row.queue.clone().into())
        .nested("late", |row| match row.late.count {
            0 => Value::None,
            _ => Value::Record(row.late.record()),
        })
        .nested("cpus", |row| {
            Value::List(row.cpus.iter().map(|&cpu| vec![("cpu", cpu.into())]).collect())
        });
    document.rows(columns.rows(shown), report.rows.len());
    let columns = Columns::new()
        .both("begin", "time_ns", Unit::Time, |long: &Long| long.begin.into())
        .both("took", "duration_ns", Unit::Nanos, |long| long.nanos.into())
        .shown("work", Unit::Text, |long| what(None, Some(long.kind), &long.function).into())
        .both("CPU", "cpu", Unit::RightText, |long| long.cpu.into())
        .shown("executed by, or interrupted", Unit::Text, |long| whom(long.label.as_ref()).into())
        .label_keys(|long| long.label.as_ref().into())
        .key("kind", |long| long.kind.name().into())
        .key("function", |long| Value::some_text(long.function.as_str()));
    document.push(Part::section("The longest", "longest", columns.rows(&report.longest)));
    document
}

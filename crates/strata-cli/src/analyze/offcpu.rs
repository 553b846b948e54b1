//! The reports `strata analyze threads --by stack` and `--by waker-stack`.

use anyhow::Result;
use strata_analyze::reports::offcpu::{Long, OffCpuCounter, OffCpuReport, Row, StackOf};
use strata_analyze::reports::{Label, QUANTILE_ERROR};
use strata_report::{Columns, Document, Figure, Part, Unit, Value};
use strata_session::stop::Stop;

use super::hidden_threads;
use super::report_command::Made;
use super::report_text::show;
use super::rows::{by, length, name};
use super::threads::{ByFlag, ThreadsFlags, DELAYS_MAX};
use super::wait_text::{self, wait_text};
use crate::units::counted;

/// Makes the report, and returns the exit status.
pub fn run(flags: &ThreadsFlags, stop: &Stop) -> Result<u8> {
    flags.refuse_filter()?;
    let (reader, range) = flags.common.open()?;
    let whose = flags.whose(&reader, stop)?;
    let kept = whose.kept(flags.shown(), DELAYS_MAX);
    let of = of(flags);
    let mut counter = OffCpuCounter::new(range, kept, flags.names.source(&reader)).by(of);
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    hidden_threads::say(&made);
    flags.names.say_left_out();
    let world = made.passed.timeline.world();
    let wanted = whose.of(world);
    let mut report = counter.finish(world, &|label| wanted.has(label));
    report.longest.truncate(flags.shown());
    let (found, all) = (report.longest.len(), report.all.count);
    whose.say_fewer(found, flags.shown(), DELAYS_MAX, all, "longest waits");
    show(&flags.common, "threads", &made, &document(&report, &made, flags))?;
    let is_asked = whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        report.rows.is_empty(),
        is_asked && report.has_stacks,
        "no thread that fits what was asked for was blocked",
        match of {
            StackOf::Waiter => {
                "no blocked thread has a call stack of the moment when it left its CPU. Record them: strata record \
                 --stack -k sched_switch,sched_waking -- COMMAND"
            }
            StackOf::Waker => {
                "no blocked thread was woken by a record with a call stack. Record them: strata record --stack -k \
                 sched_switch,sched_waking -- COMMAND"
            }
        },
    ))
}

/// Returns whether rows are by the stacks of waiting threads or by those of their wakers.
fn of(flags: &ThreadsFlags) -> StackOf {
    match flags.by {
        ByFlag::WakerStack => StackOf::Waker,
        _ => StackOf::Waiter,
    }
}

fn who(row: &Row) -> String {
    match (row.threads.len(), &row.label) {
        (1, label) => name(label),
        (threads, label) if *label == Label::default() => counted(threads as u64, "thread"),
        (threads, label) => format!("{}, {}", name(label), counted(threads as u64, "thread")),
    }
}

/// Formats the reason of all waits of a row, or the number of reasons if there are several.
fn reason(row: &Row) -> String {
    match row.waits.as_slice() {
        [wait] => wait_text(wait),
        waits => counted(waits.len() as u64, "reason"),
    }
}

fn document(report: &OffCpuReport, made: &Made, flags: &ThreadsFlags) -> Document {
    let all = &report.all;
    let (what, without) = match of(flags) {
        StackOf::Waiter => ("stack", "without a call stack, in a row of their own"),
        StackOf::Waker => ("waker's stack", "whose waker has no call stack, in a row of their own"),
    };
    let mut document = Document::new(format!(
        "{} with {} in {}, {} all together",
        counted(all.count, "wait"),
        counted(report.rows.len() as u64, what),
        length(made.nanos()),
        length(all.total),
    ));
    document.fact("hidden_threads", hidden_threads::value(made));
    document.fact("by", by(&flags.by));
    document.fact("quantile_error", QUANTILE_ERROR);
    document.fact("all", Value::Record(all.record()));
    document.fact("without_stack", Value::Record(report.without_stack.record()));
    document.fact("waits_left_out", report.left_out.count);
    document.fact("left_out_ns", report.left_out.total);
    document.push(Part::Blank);
    let shown = report.rows.get(..flags.common.rows()).unwrap_or(&report.rows);
    let columns = Columns::new()
        .shown("thread", Unit::Text, |row: &Row| who(row).into())
        .times(
            &[
                ("blocked", Figure::Total),
                ("count", Figure::Count),
                ("avg", Figure::Mean),
                ("p50", Figure::P50),
                ("p99", Figure::P99),
                ("longest", Figure::Max),
            ],
            |row| &row.times,
        )
        .spread(|row| &row.times)
        .shown("in", Unit::Text, |row| reason(row).into())
        .both("stack, the innermost first", "name", Unit::Text, |row| row.name.as_str().into())
        .label_keys(|row| Value::label(&row.label))
        .nested("frames", |row| row.frames.iter().collect())
        .nested("waits", |row| wait_text::list(&row.waits))
        .nested("threads", |row| {
            let thread = |(label, count, total): &(Label, u64, u64)| {
                vec![
                    ("", Value::label(label)),
                    ("count", (*count).into()),
                    ("total_ns", (*total).into()),
                ]
            };
            Value::List(row.threads.iter().map(thread).collect())
        });
    document.push(Part::Rows { table: columns.rows(shown), all: report.rows.len() });
    if !report.rows.is_empty() {
        document.push(Part::lengths("waits", &all.spread));
        for (times, what) in [
            (&report.without_stack, without),
            (&report.left_out, "of stacks for which there was no room, in no row"),
        ] {
            if times.count > 0 {
                let waits = counted(times.count, "wait");
                document.push(Part::Note(format!("{waits}, {}, {what}", length(times.total))));
            }
        }
    }
    let columns = Columns::new()
        .both("from", "time_ns", Unit::Time, |long: &Long| long.from.into())
        .both("blocked", "duration_ns", Unit::Nanos, |long| long.nanos.into())
        .both("thread", "", Unit::Label, |long| Value::label(&long.label))
        .shown("in", Unit::Text, |long| wait_text(&long.wait).into())
        .both("stack, the innermost first", "name", Unit::Text, |long| long.name.as_str().into())
        .key("call", |long| Value::some_text(long.wait.call.as_str()))
        .key("object", |long| Value::some_text(long.wait.object.as_str()))
        .key("sleep", |long| Value::some_text(long.wait.sleep))
        .nested("frames", |long| long.frames.iter().collect());
    document.push(Part::section("The longest", "longest", columns.rows(&report.longest)));
    document
}

//! The report `strata analyze threads`.

use anyhow::{bail, Result};
use clap::{Args, ValueEnum};
use strata_analyze::reports::threads::{
    Delay, Row, Stall, ThreadCounter, ThreadsReport, Wait, Why,
};
use strata_analyze::reports::{Label, Times};
use strata_ctf::read::Reader;
use strata_report::{Columns, Document, Part, Table, Unit, Value};
use strata_session::stop::Stop;

use super::hidden_threads;
use super::process_selection::{Whose, WhoseFlags};
use super::report_command::{say_blind, CommonFlags, Made, NamesFlags, EXIT_STATUS};
use super::report_text::show;
use super::rows::{by, length, name, subject};
use super::wait_text::{self, wait_text};
use crate::reading::number_parser::nr_kept;
use crate::reading::selection::{refused, TIMES};
use crate::units::{clean, count, counted};

/// Limit on the waits, and on the threads that had the CPU, that a text lists for one row.
const BELOW: usize = 3;
pub const DELAYS_MAX: usize = 100_000;

const STATES: &str = "\
States:
  running     it had a CPU
  runnable    it wanted one: after a wait, or since another thread had
              taken it
  blocked     it waited for something else
  unknown     the trace does not say: before the first record that
              tells, and around discarded records

Stacks (--by stack, --by waker-stack):
  A row is a call stack with which threads left their CPUs to wait, as
  in `strata analyze flame --by offcpu`: how often, for how long, who,
  and in what. --by waker-stack has those with which others, or
  interrupts, woke them. To record both, with the calls:
  strata record --stack -k sched_switch,sched_waking,syscalls
";

/// Flags of `strata analyze threads`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{STATES}\n{TIMES}\n{EXIT_STATUS}"))]
#[command(mut_arg("filter", refused))]
pub struct ThreadsFlags {
    #[command(flatten)]
    pub common: CommonFlags,

    /// A row for each thread, for each process, or for each call stack with which threads were blocked or woken
    #[arg(long, value_enum, default_value_t)]
    pub by: ByFlag,

    #[command(flatten)]
    whose: WhoseFlags,

    /// Show the N longest times that a thread wanted a CPU; of stacks: that it was blocked
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = nr_kept)]
    delays: usize,

    #[command(flatten)]
    pub names: NamesFlags,
}

impl ThreadsFlags {
    /// Returns the threads that `--of` and `--mine` select.
    pub fn whose(&self, reader: &Reader, stop: &Stop) -> Result<Whose<'_>> {
        self.whose.read(reader, "threads", stop)
    }

    /// Returns the limit on the delays that are listed.
    pub fn shown(&self) -> usize {
        self.delays
    }

    /// Returns an error if `--filter` is given, since a report on states selects no records.
    pub fn refuse_filter(&self) -> Result<()> {
        let instead = "--of NAME|NUMBER, which selects threads";
        self.common.refuse_filter("threads", "a thread's states are none", instead)
    }
}

/// The value of `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ByFlag {
    /// One row for each thread
    #[default]
    Thread,
    /// One row for each process, with all its threads
    Process,
    /// The call stack with which threads were blocked
    Stack,
    /// The call stack with which blocked threads were woken
    WakerStack,
}

/// Makes the report, and returns the exit status.
pub fn run(flags: &ThreadsFlags, stop: &Stop) -> Result<u8> {
    flags.refuse_filter()?;
    if flags.names.is_any() {
        bail!("analyze threads: names of functions are asked for, and there is no stack. Use --by stack");
    }
    let (reader, range) = flags.common.open()?;
    let whose = flags.whose(&reader, stop)?;
    let mut counter =
        ThreadCounter::with_guests(&reader, range, whose.kept(flags.delays, DELAYS_MAX));
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    hidden_threads::say(&made);
    say_blind(&made);
    let world = made.passed.timeline.world();
    let by_process = flags.by == ByFlag::Process;
    let wanted = whose.of(world);
    let mut report = match whose.is_any() {
        true => counter.finish_of(world, by_process, &|label| wanted.has(label)),
        false => counter.finish(world, by_process),
    };
    if whose.is_any() {
        report.delays.retain(|delay| wanted.has(&delay.label));
        report.stalls.retain(|stall| wanted.has(&stall.label));
    }
    report.delays.truncate(flags.delays);
    // Delays whose CPU is unknown are not listed one by one.
    if report.is_cut {
        let all = report.rows.iter().map(|row| row.delays.count).fold(0, u64::saturating_add);
        whose.say_fewer(report.delays.len(), flags.delays, DELAYS_MAX, all, "longest delays");
    }
    show(&flags.common, "threads", &made, &document(&report, &made, flags))?;
    let is_empty = report.rows.is_empty();
    let is_asked = whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        is_empty,
        is_asked,
        "no thread fits what was asked for",
        "the trace does not say who ran. Record that: strata record -k sched_switch,sched_waking",
    ))
}

/// Returns the total time of a row, including that in unknown states.
pub fn whole(row: &Row) -> u64 {
    let states = [row.running, row.runnable(), row.blocked, row.unknown];
    states.into_iter().fold(0, u64::saturating_add)
}

fn document(report: &ThreadsReport, made: &Made, flags: &ThreadsFlags) -> Document {
    let what = if flags.by == ByFlag::Process { "process" } else { "thread" };
    let mut document = Document::new(head(&report.rows, what, made.nanos()));
    document.fact("hidden_threads", hidden_threads::value(made));
    document.fact("by", by(&flags.by));
    if !report.stalls.is_empty() {
        document.fact("clock_uncertainty_ns", report.uncertainty);
    }
    let most = flags.common.rows();
    let shown = report.rows.get(..most).unwrap_or(&report.rows);
    document.rows(rows(shown, what), report.rows.len());
    document.push(waits(shown, what));
    document.push(rivals(shown, what));
    let mut delays = Times::default();
    report.rows.iter().for_each(|row| delays.merge(&row.delays));
    if delays.count > 0 {
        let title = "How long they wanted a CPU";
        document.push(Part::Histogram { title, what: "times", values: delays.spread });
    }
    let title = format!(
        "Whose virtual CPU did not run on its host, by clocks that are known to {}",
        length(report.uncertainty)
    );
    let shown = report.stalls.get(..most).unwrap_or(&report.stalls);
    let stalls = Part::section(title, "virtual_cpus", stalls(shown));
    document.push(stalls.of(report.stalls.len()));
    document.push(longest(&report.delays));
    document
}

/// Formats how many threads or processes the rows are about. One row may be about many.
fn head(rows: &[Row], what: &str, nanos: u64) -> String {
    let all = rows.iter().map(|row| row.label.stands_for()).fold(0, u64::saturating_add);
    let mut text = format!("{} in {}", counted(all, what), length(nanos));
    if let Some(others) = rows.iter().map(|row| &row.label).find(|label| label.stands_for() > 1) {
        let (own, others) = (rows.len() as u64 - 1, count(others.stands_for()));
        text += &format!(", of which the {} busiest have a row and {others} share one", count(own));
    }
    text
}

fn rows(rows: &[Row], what: &'static str) -> Table {
    let columns = Columns::new()
        .both(what, "", Unit::Label, |row: &Row| Value::label(&row.label))
        .both("running", "running_ns", Unit::SomeNanos, |row| row.running.into())
        .both("runnable", "runnable_ns", Unit::SomeNanos, |row| row.runnable().into())
        .shown("p99", Unit::SomeNanos, |row| row.delays.quantile(0.99).into())
        .both("longest", "max_delay_ns", Unit::SomeNanos, |row| row.delay.into())
        .both("blocked", "blocked_ns", Unit::SomeNanos, |row| row.blocked.into())
        .both("unknown", "unknown_ns", Unit::SomeNanos, |row| row.unknown.into())
        .both("runs", "runs", Unit::Count, |row| row.runs.into())
        .key("name", |row| subject(&row.label).into())
        .key("count", |row| row.runs.into())
        .key("total_ns", |row| whole(row).into())
        .key("woken_ns", |row| row.woken.into())
        .key("preempted_ns", |row| row.preempted.into())
        // Null if there were no delays, or no room for them.
        .nested("delay", |row| match row.delays.count {
            0 => Value::None,
            _ => Value::Record(row.delays.record()),
        })
        .nested("waits", |row| wait_text::list(&row.waits))
        .nested("had_cpu", |row| {
            let rival = |(label, nanos): &(Option<Label>, u64)| {
                vec![("", label.as_ref().into()), ("total_ns", (*nanos).into())]
            };
            Value::List(row.rivals.iter().map(rival).collect())
        });
    columns.rows(rows)
}

fn waits(rows: &[Row], what: &'static str) -> Part {
    let waits = rows.iter().flat_map(|row| row.waits.iter().take(BELOW).map(move |it| (row, it)));
    let columns = Columns::new()
        .shown(what, Unit::Label, |(row, _): &(&Row, &Wait)| Value::label(&row.label))
        .shown("blocked", Unit::Nanos, |(_, wait)| wait.total.into())
        .shown("count", Unit::Count, |(_, wait)| wait.count.into())
        .shown("longest", Unit::Nanos, |(_, wait)| wait.max.into())
        .shown("in", Unit::Text, |(_, wait)| wait_text(wait).into());
    Part::shown("What they were blocked in", columns.rows(&waits.collect::<Vec<_>>()))
}

fn rivals(rows: &[Row], what: &'static str) -> Part {
    let rivals = rows.iter().flat_map(|row| row.rivals.iter().take(BELOW).map(move |it| (row, it)));
    let columns = Columns::new()
        .shown(what, Unit::Label, |(row, _): &(&Row, &(Option<Label>, u64))| {
            Value::label(&row.label)
        })
        .shown("runnable", Unit::Nanos, |(_, (_, nanos))| (*nanos).into())
        .shown("meanwhile had its CPU", Unit::Label, |(_, (label, _))| match label {
            Some(label) => Value::label(label),
            None => "nobody, or not known".into(),
        });
    Part::shown("Who had the CPU that they wanted", columns.rows(&rivals.collect::<Vec<_>>()))
}

/// Formats why a virtual CPU did not run, such as `preempted by make (12)`.
fn why_text(why: &Why) -> String {
    match why {
        Why::Preempted(Some(label)) => format!("preempted by {}", name(label)),
        Why::Preempted(None) => "wanted a CPU; who had it is not known".to_owned(),
        Why::Waited(Some(call)) => clean(&format!("waited in {call}")),
        Why::Waited(None) => "waited".to_owned(),
    }
}

/// Returns the table of delays that guests could not see.
fn stalls(stalls: &[Stall]) -> Table {
    let columns = Columns::new()
        .both("thread of a guest", "", Unit::Label, |stall: &Stall| Value::label(&stall.label))
        .both("not run", "total_ns", Unit::Nanos, |stall| stall.total.into())
        .both("count", "count", Unit::Count, |stall| stall.count.into())
        .both("longest", "max_ns", Unit::Nanos, |stall| stall.max.into())
        .both("its virtual CPU", "virtual_cpu", Unit::Label, |stall| {
            Value::label(&stall.virtual_cpu)
        })
        .shown("on the host", Unit::Text, |stall| why_text(&stall.why).into())
        .key("why", |stall| match stall.why {
            Why::Preempted(_) => "preempted".into(),
            Why::Waited(_) => "waited".into(),
        })
        .key("by", |stall| match &stall.why {
            Why::Preempted(by) => by.as_ref().into(),
            Why::Waited(_) => Value::None,
        })
        .key("call", |stall| match &stall.why {
            Why::Preempted(_) => Value::None,
            Why::Waited(call) => call.clone().into(),
        })
        .key("max_time_ns", |stall| stall.at.into());
    columns.rows(stalls)
}

fn longest(delays: &[Delay]) -> Part {
    let columns = Columns::new()
        .both("from", "time_ns", Unit::Time, |delay: &Delay| delay.from.into())
        .both("runnable", "duration_ns", Unit::Nanos, |delay| delay.nanos.into())
        .both("thread", "", Unit::Label, |delay| Value::label(&delay.label))
        .both("CPU", "cpu", Unit::RightText, |delay| delay.cpu.into());
    Part::section("The longest delays", "delays", columns.rows(delays))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_of_all_others_counts_as_the_threads_that_it_is_about() {
        let row =
            |processes| Row { label: Label { processes, ..Label::default() }, ..Row::default() };
        assert_eq!(head(&[], "thread", 1_000), "0 threads in 1.000 µs");
        assert_eq!(head(&[row(0), row(0)], "process", 1_000), "2 processes in 1.000 µs");
        let wanted =
            "40,002 threads in 1.000 µs, of which the 2 busiest have a row and 40,000 share one";
        assert_eq!(head(&[row(0), row(40_000), row(0)], "thread", 1_000), wanted);
    }
}

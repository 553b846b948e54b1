//! The report `strata analyze syscalls`.

use anyhow::Result;
use clap::{Args, ValueEnum};
use strata_analyze::reports::program_groups::Common;
use strata_analyze::reports::syscalls::{By, Row, Slow, SyscallCounter, Syscalls};
use strata_analyze::reports::{arguments, Label, QUANTILE_ERROR};
use strata_analyze::short::result_text;
use strata_ctf::read::Reader;
use strata_report::{Columns, Document, Figure, Part, Unit, Value};
use strata_session::stop::Stop;

use super::process_selection::WhoseFlags;
use super::report_command::{nothing, CommonFlags, Made, EXIT_STATUS};
use super::report_text::show;
use super::rows::{by, length};
use crate::reading::number_parser::nr_kept;
use crate::reading::selection::SYNTAX;
use crate::units::counted;

/// The most of the slowest calls that are kept.
const SLOWEST_MAX: usize = 10_000;

const COUNTED: &str = "\
What is counted:
  System calls that end in the time asked for. With --filter, those of
  which the record of the begin or that of the end matches: 'ret < 0'
  selects those that failed. How long a system call took that was begun
  before the trace, had not ended with it, or has discarded records in
  between, nobody knows: such are only counted, below the table.
";

/// Flags of `strata analyze syscalls`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{COUNTED}\n{SYNTAX}\n{EXIT_STATUS}"))]
pub struct SyscallsFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// A row for each process, thread, program, or container, and system call; or for each system call
    #[arg(long, value_enum, default_value_t)]
    by: ByFlag,

    #[command(flatten)]
    whose: WhoseFlags,

    /// Show the N slowest one by one, with their arguments
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = nr_kept)]
    slowest: usize,
}

/// The value of `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// One row for each process and name
    #[default]
    Process,
    /// One row for each thread and name
    Thread,
    /// One row for each system call, over all processes
    Name,
    /// One row for each program and system call
    Program,
    /// One row for each container, systemd unit or control group
    #[value(aliases = ["unit", "cgroup"])]
    Container,
    /// One row for each pod of Kubernetes
    Pod,
}

/// Makes the report, and returns the exit status.
pub fn run(flags: &SyscallsFlags, stop: &Stop) -> Result<u8> {
    let (reader, range) = flags.common.open()?;
    let whose = flags.whose.read(&reader, "syscalls", stop)?;
    let mut counter = SyscallCounter::new(range, whose.kept(flags.slowest, SLOWEST_MAX));
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    let by = match flags.by {
        ByFlag::Process => By::Process,
        ByFlag::Thread => By::Thread,
        ByFlag::Name => By::Name,
        ByFlag::Container => By::Together(Common::Container),
        ByFlag::Pod => By::Together(Common::Pod),
        ByFlag::Program => By::Together(Common::Name),
    };
    let world = made.passed.timeline.world();
    let wanted = whose.of(world);
    let is_wanted = |label: &Label| wanted.has(label);
    let of: Option<&dyn Fn(&Label) -> bool> = whose.is_any().then_some(&is_wanted);
    let mut report = counter.finish_of(world, by, of);
    report.slowest.truncate(flags.slowest);
    let (found, all) = (report.slowest.len(), report.all.times.count);
    whose.say_fewer(found, flags.slowest, SLOWEST_MAX, all, "slowest system calls");
    if report.of_nobody > 0 {
        nothing(&format!(
            "{} of more threads and calls than are distinguished: not in the report",
            counted(report.of_nobody, "system call")
        ));
    }
    show(&flags.common, "syscalls", &made, &document(&report, &made, &reader, flags))?;
    let is_empty = report.all.times.count == 0;
    let is_asked = whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        is_empty,
        is_asked,
        "no system call matches what was asked for",
        "the trace has no system call with both its entry and its exit. Record some: \
                 strata record -- COMMAND",
    ))
}

fn args(reader: &Reader, slow: &Slow) -> Option<String> {
    let end = slow.begin.saturating_add_unsigned(slow.nanos);
    arguments(reader, &slow.name, slow.label.tid?, (slow.begin, end))
}

/// A slow call with the text of its arguments, if the trace has them.
type SlowCall<'s> = (&'s Slow, Option<String>);

fn document(report: &Syscalls, made: &Made, reader: &Reader, flags: &SyscallsFlags) -> Document {
    let all = &report.all;
    let mut document = Document::new(format!(
        "{} in {}, {} all together",
        counted(all.times.count, "system call"),
        length(made.nanos()),
        length(all.times.total),
    ));
    let unpaired = report.unpaired;
    let mut sums = all.times.record();
    sums.push(("errors", all.errors.into()));
    document.fact("by", by(&flags.by));
    document.fact("quantile_error", QUANTILE_ERROR);
    document.fact("all", Value::Record(sums));
    document.fact(
        "unpaired",
        Value::Record(vec![
            ("no_begin", unpaired.no_begin.into()),
            ("no_end", unpaired.no_end.into()),
            ("gap", unpaired.gap.into()),
        ]),
    );
    let whose = match flags.by {
        ByFlag::Process => "process",
        ByFlag::Thread => "thread",
        ByFlag::Name => "",
        ByFlag::Program => "program",
        ByFlag::Container => "container",
        ByFlag::Pod => "pod",
    };
    let columns = Columns::new()
        .shown(whose, Unit::Label, |row: &Row| match flags.by {
            ByFlag::Name => Value::None,
            _ => Value::label(&row.label),
        })
        .both("call", "name", Unit::Text, |row| row.name.as_str().into())
        .shown("count", Unit::Count, |row| row.times.count.into())
        .both("errors", "errors", Unit::SomeCount, |row| row.errors.into())
        .times(
            &[
                ("total", Figure::Total),
                ("avg", Figure::Mean),
                ("p50", Figure::P50),
                ("p99", Figure::P99),
                ("max", Figure::Max),
            ],
            |row| &row.times,
        )
        .spread(|row| &row.times)
        .label_keys(|row| Value::label(&row.label));
    let shown = report.rows.get(..flags.common.rows()).unwrap_or(&report.rows);
    document.rows(columns.rows(shown), report.rows.len());
    if all.times.count > 0 {
        document.push(Part::lengths("calls", &all.times.spread));
    }
    document.push(slowest(report, reader));
    if !report.slowest.is_empty() {
        document.push(Part::Exactness);
    }
    for (count, what) in [
        (unpaired.no_begin, "begun before the trace"),
        (unpaired.no_end, "without an end in the trace"),
        (unpaired.gap, "with discarded records in between"),
    ] {
        if count > 0 {
            let calls = counted(count, "system call");
            document.push(Part::Note(format!("not counted: {calls} {what}")));
        }
    }
    document
}

fn slowest(report: &Syscalls, reader: &Reader) -> Part {
    let slowest: Vec<SlowCall<'_>> =
        report.slowest.iter().map(|slow| (slow, args(reader, slow))).collect();
    let columns = Columns::new()
        .both("begin", "time_ns", Unit::Time, |(slow, _): &SlowCall<'_>| slow.begin.into())
        .both("took", "duration_ns", Unit::Nanos, |(slow, _)| slow.nanos.into())
        .both("thread", "", Unit::Label, |(slow, _)| Value::label(&slow.label))
        .shown("call", Unit::Text, |(slow, arguments)| {
            let arguments = arguments.as_deref().unwrap_or("…");
            let result = result_text(&slow.name, slow.result);
            format!("{}({arguments}) = {result}", slow.name).into()
        })
        .key("name", |(slow, _)| slow.name.as_str().into())
        .key("result", |(slow, _)| slow.result.into())
        .key("arguments", |(_, arguments)| arguments.clone().into());
    Part::section("The slowest", "slowest", columns.rows(&slowest))
}

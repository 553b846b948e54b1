//! The report `strata analyze files`.

use anyhow::Result;
use clap::{Args, ValueEnum};
use strata_analyze::reports::files::{
    By, Disk, FileCounter, FilesReport, Row, Slow, DISK, UNKNOWN,
};
use strata_analyze::reports::program_groups::Common;
use strata_analyze::reports::QUANTILE_ERROR;
use strata_analyze::short::result_text;
use strata_report::{Columns, Document, Figure, Part, Unit, Value};
use strata_session::stop::Stop;

use super::process_selection::{WhoseFlags, OF_PROCESSES};
use super::report_command::{CommonFlags, Made, EXIT_STATUS};
use super::report_text::show;
use super::rows::{by, length};
use crate::reading::number_parser::nr_kept;
use crate::reading::selection::SYNTAX;
use crate::units::{counted, size};

/// The most of the slowest calls that are kept.
const SLOWEST_MAX: usize = 100_000;

const COUNTED: &str = "\
What is counted:
  System calls that have a descriptor or a path, and end in the time
  asked for; with --filter, those of which the record of the begin or
  that of the end matches. Bytes are what they return: what is read or
  written through mapped memory, or by io_uring, is in no system call.
  A call that copies is counted for what it reads and for what it
  writes. What a descriptor was opened for is known if the record of
  that is in the trace; of others the number is shown.
  Requests to disks are in the trace if block_rq_issue and
  block_rq_complete were recorded. They are of all, and not shown with
  --of or --mine.

Devices (--by device):
  Each disk, with the requests to it; sockets by their protocol, pipes,
  epoll and other descriptors without a path, with the system calls.
  On which disk a path is, no record says: such calls are in the row
  'unknown', as are those of descriptors that are not known.
";

/// Flags of `strata analyze files`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{COUNTED}\n{SYNTAX}\n{EXIT_STATUS}"))]
#[command(mut_arg("of", |of| of.help(OF_PROCESSES)))]
pub struct FilesFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// A row for each process and file, for each process, for each container, for each file of all processes, or for each
    /// device
    #[arg(long, value_enum, default_value_t)]
    by: ByFlag,

    #[command(flatten)]
    whose: WhoseFlags,

    /// Show the N slowest calls, one row for each
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = nr_kept)]
    slowest: usize,
}

/// The value of `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// One row for each process and file
    #[default]
    File,
    /// One row for each process, with all its files
    Process,
    /// One row for each name, with all files of its processes
    #[value(alias = "program")]
    Name,
    /// One row for each container, systemd unit or control group
    #[value(aliases = ["unit", "cgroup"])]
    Container,
    /// One row for each pod of Kubernetes
    Pod,
    /// One row for each path, over all processes
    Path,
    /// Disks, kinds of sockets, pipes
    Device,
}

/// Makes the report, and returns the exit status.
pub fn run(flags: &FilesFlags, stop: &Stop) -> Result<u8> {
    let (reader, range) = flags.common.open()?;
    let whose = flags.whose.read(&reader, "files", stop)?;
    let mut counter = FileCounter::new(range, whose.kept(flags.slowest, SLOWEST_MAX));
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    let by = match flags.by {
        ByFlag::File => By::File,
        ByFlag::Process => By::Process,
        ByFlag::Name => By::Together(Common::Name),
        ByFlag::Container => By::Together(Common::Container),
        ByFlag::Pod => By::Together(Common::Pod),
        ByFlag::Path => By::Path,
        ByFlag::Device => By::Device,
    };
    let world = made.passed.timeline.world();
    let wanted = whose.of(world);
    let mut report = counter.finish(world, by, &|label| wanted.has(label));
    report.slowest.truncate(flags.slowest);
    let (found, all) = (report.slowest.len(), report.all.times.count);
    whose.say_fewer(found, flags.slowest, SLOWEST_MAX, all, "slowest calls");
    // Requests to a disk are mostly made by kernel threads, later, for the process that has written.
    if whose.is_any() {
        report.disks.clear();
        report.rows.retain(|row| row.kind != DISK);
    }
    show(&flags.common, "files", &made, &document(&report, &made, flags))?;
    let is_empty = report.all.times.count == 0 && report.disks.is_empty();
    let is_asked = whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        is_empty,
        is_asked,
        "no system call with a descriptor or a path matches what was asked for",
        "the trace has no system call with a descriptor or a path. Record some: \
                 strata record -- COMMAND",
    ))
}

/// Adds the columns of sums that each row and the whole report have.
fn sums<'a>(columns: Columns<'a, Row>) -> Columns<'a, Row> {
    columns
        .both("read", "read_bytes", Unit::Bytes, |row| row.read.into())
        .both("written", "written_bytes", Unit::Bytes, |row| row.written.into())
        .both("errors", "errors", Unit::SomeCount, |row| row.errors.into())
        .both("opens", "opens", Unit::SomeCount, |row| row.opens.into())
        .key("bytes_unknown", |row| row.unsaid.into())
}

fn document(report: &FilesReport, made: &Made, flags: &FilesFlags) -> Document {
    let all = &report.all;
    let mut document = Document::new(format!(
        "{} in {}: {} read, {} written, {} all together",
        counted(all.times.count, "system call"),
        length(made.nanos()),
        size(all.read),
        size(all.written),
        length(all.times.total),
    ));
    document.fact("by", by(&flags.by));
    document.fact("quantile_error", QUANTILE_ERROR);
    document.fact(
        "all",
        Value::Record(
            sums(Columns::new()).times(&[], |row| &row.times).spread(|row| &row.times).record(all),
        ),
    );
    document.fact("calls_left_out", report.left_out);
    let (first, second, calls) = match flags.by {
        ByFlag::File => ("process", "file", "calls"),
        ByFlag::Process => ("process", "", "calls"),
        ByFlag::Name => ("program", "", "calls"),
        ByFlag::Container => ("container", "", "calls"),
        ByFlag::Pod => ("pod", "", "calls"),
        ByFlag::Path => ("", "file", "calls"),
        ByFlag::Device => ("", "device", "count"),
    };
    let columns = Columns::new()
        .shown(first, Unit::Label, |row: &Row| match flags.by {
            ByFlag::Device => Value::None,
            _ if row.label == Default::default() => Value::None,
            _ => Value::label(&row.label),
        })
        .shown(second, Unit::Text, |row| match flags.by {
            ByFlag::Device => device(row).into(),
            _ => row.name.as_str().into(),
        })
        .shown(calls, Unit::Count, |row| row.times.count.into());
    let columns = sums(columns)
        .times(&[("total", Figure::Total), ("p99", Figure::P99), ("max", Figure::Max)], |row| {
            &row.times
        })
        .spread(|row| &row.times)
        .label_keys(|row| Value::label(&row.label))
        .key("name", |row| Value::some_text(row.name.as_str()))
        .key("kind", |row| Value::some_text(row.kind));
    let shown = report.rows.get(..flags.common.rows()).unwrap_or(&report.rows);
    document.rows(columns.rows(shown), report.rows.len());
    if all.times.count > 0 {
        document.push(Part::lengths("calls", &all.times.spread));
    }
    if flags.by == ByFlag::Device {
        notes_of_devices(&mut document, report, flags);
    }
    for (number, what) in [
        (all.unsaid, "whose bytes no record tells"),
        (report.left_out, "of files for which there was no room, not in the table"),
    ] {
        if number > 0 {
            document.push(Part::Note(format!("{} {what}", counted(number, "call"))));
        }
    }
    document.push(disks(report));
    document.push(slowest(report));
    document
}

/// Returns the name of a row in a report by device: `vda`, `tcp socket`.
fn device(row: &Row) -> String {
    let machine = row.label.machine.as_ref().map(|machine| format!("{machine}: "));
    let what = if row.kind == "socket" && row.name != row.kind { " socket" } else { "" };
    format!("{}{}{what}", machine.unwrap_or_default(), row.name)
}

/// Adds notes that explain rows with unclear names.
fn notes_of_devices(document: &mut Document, report: &FilesReport, flags: &FilesFlags) {
    let has = |kind| report.rows.iter().any(|row| row.kind == kind);
    let mut note = |text: &str| document.push(Part::Note(text.to_owned()));
    if has(UNKNOWN) {
        note(
            "no record says on which disk a path is: calls with one, and with a descriptor that is not \
             known, are 'unknown'",
        );
    }
    match (has(DISK), flags.whose.has_of()) {
        (true, _) => note("of disks, requests are counted, of all else calls"),
        (false, true) => {}
        (false, false) => note(
            "no disk: record what they are asked by strata record -k \
             block_rq_issue,block_rq_complete",
        ),
    }
}

fn disks(report: &FilesReport) -> Part {
    let columns = Columns::new()
        .shown("disk", Unit::Text, |disk: &Disk| {
            let machine = disk.machine.as_ref().map(|machine| format!("{machine}: "));
            format!("{}{}", machine.unwrap_or_default(), disk.name).into()
        })
        .both("", "kind", Unit::Text, |disk| disk.kind.into())
        .shown("count", Unit::Count, |disk| disk.times.count.into())
        .both("bytes", "bytes", Unit::Bytes, |disk| disk.bytes.into())
        .both("errors", "errors", Unit::SomeCount, |disk| disk.errors.into())
        .times(
            &[
                ("total", Figure::Total),
                ("avg", Figure::Mean),
                ("p50", Figure::P50),
                ("p99", Figure::P99),
                ("max", Figure::Max),
            ],
            |disk| &disk.times,
        )
        .spread(|disk| &disk.times)
        .key("name", |disk| disk.name.as_str().into())
        .some_key("machine", |disk| disk.machine.clone().into());
    let title = "Requests to disks, from asking to the answer";
    Part::section(title, "disks", columns.rows(&report.disks))
}

fn slowest(report: &FilesReport) -> Part {
    let columns = Columns::new()
        .both("begin", "time_ns", Unit::Time, |slow: &Slow| slow.begin.into())
        .both("took", "duration_ns", Unit::Nanos, |slow| slow.nanos.into())
        .both("thread", "", Unit::Label, |slow| Value::label(&slow.label))
        .both("call", "call", Unit::Text, |slow| slow.call.as_str().into())
        .shown("result", Unit::RightText, |slow| result_text(&slow.call, slow.result).into())
        .both("file", "name", Unit::Text, |slow| slow.name.as_str().into())
        .key("result", |slow| slow.result.into());
    Part::section("The slowest", "slowest", columns.rows(&report.slowest))
}

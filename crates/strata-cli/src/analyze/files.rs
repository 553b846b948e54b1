//! `strata analyze files`.

use std::fmt::Write as _;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{json, Value};
use strata_analyze::reports::files::{
    By, Disk, FileCounter, FilesReport, Row, Slow, DISK, UNKNOWN,
};
use strata_analyze::reports::QUANTILE_ERROR;
use strata_analyze::short::result_text;
use strata_analyze::stats::time_of_day;
use strata_session::stop::Stop;

use super::common::{CommonFlags, Made, EXIT_STATUS};
use super::rows::{
    by, document, figures, histogram, keys, length, more, name, put_rows, section, some_count,
    spread,
};
use super::whose::{MineFlags, Whose, BY_OF};
use crate::reading::selection::SYNTAX;
use crate::stats::is_utf8;
use crate::stats::table::{Align, Table, DIM, HEAD};
use crate::talk::units::{clean, count, counted, size};

/// Of the slowest, if only those of some are shown.
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

/// `strata analyze files`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{COUNTED}\n{SYNTAX}\n{EXIT_STATUS}"))]
pub struct FilesFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// A row for each process and file, for each process, for each file of all processes, or for each device
    #[arg(long, value_enum, default_value_t)]
    by: ByFlag,

    /// Only processes of this name or number
    #[arg(long, value_name = "NAME|NUMBER")]
    of: Option<String>,

    #[command(flatten)]
    mine: MineFlags,

    /// Show the N slowest calls one by one
    #[arg(long, value_name = "N", default_value_t = 10)]
    slowest: usize,
}

/// `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// What one process does to one file
    #[default]
    File,
    /// All files of a process
    Process,
    /// A file of all processes
    Path,
    /// Disks, kinds of sockets, pipes
    Device,
}

/// Do it, and give the exit status.
pub fn run(flags: &FilesFlags, stop: &Stop) -> Result<u8> {
    let (reader, range) = flags.common.open()?;
    let whose = Whose::read(flags.of.as_deref(), &flags.mine, &reader, ("files", BY_OF), stop)?;
    let kept = if whose.is_any() { SLOWEST_MAX } else { flags.slowest.min(SLOWEST_MAX) };
    let mut counter = FileCounter::new(range, kept);
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::talk::exit::stopped(stop));
    };
    let by = match flags.by {
        ByFlag::File => By::File,
        ByFlag::Process => By::Process,
        ByFlag::Path => By::Path,
        ByFlag::Device => By::Device,
    };
    let world = made.passed.timeline.world();
    let wanted = whose.of(world);
    let mut report = counter.finish(world, by, &|label| wanted.has(label));
    report.slowest.truncate(flags.slowest);
    // A disk is mostly asked by threads of the kernel, later, for whoever has written.
    if whose.is_any() {
        report.disks.clear();
        report.rows.retain(|row| row.kind != DISK);
    }
    flags.common.show(|| json(&report, &made, flags), || text(&report, &made, flags))?;
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

fn json(report: &FilesReport, made: &Made, flags: &FilesFlags) -> String {
    let sums = |row: &Row| {
        let mut map = figures(&row.times);
        map.insert("errors".into(), json!(row.errors));
        map.insert("opens".into(), json!(row.opens));
        map.insert("read_bytes".into(), json!(row.read));
        map.insert("written_bytes".into(), json!(row.written));
        map.insert("bytes_unknown".into(), json!(row.unsaid));
        map
    };
    let row = |row: &Row| {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let mut map = keys(&row.label);
        map.insert("name".into(), json!(text(&row.name)));
        map.insert("kind".into(), json!(text(row.kind)));
        map.extend(sums(row));
        Value::Object(map)
    };
    let slow = |slow: &Slow| {
        let mut map = keys(&slow.label);
        map.insert("call".into(), json!(slow.call));
        map.insert("name".into(), json!(slow.name));
        map.insert("time_ns".into(), json!(slow.begin));
        map.insert("duration_ns".into(), json!(slow.nanos));
        map.insert("result".into(), json!(slow.result));
        Value::Object(map)
    };
    let disk = |disk: &Disk| {
        let mut map = figures(&disk.times);
        map.insert("name".into(), json!(disk.name));
        map.insert("kind".into(), json!(disk.kind));
        map.insert("bytes".into(), json!(disk.bytes));
        map.insert("errors".into(), json!(disk.errors));
        if let Some(machine) = &disk.machine {
            map.insert("machine".into(), json!(machine));
        }
        Value::Object(map)
    };
    let mut object = made.object("files");
    object.insert("by".into(), by(&flags.by));
    object.insert("quantile_error".into(), json!(QUANTILE_ERROR));
    object.insert("all".into(), Value::Object(sums(&report.all)));
    object.insert("calls_left_out".into(), json!(report.left_out));
    put_rows(&mut object, &report.rows, &flags.common, row);
    object.insert("slowest".into(), report.slowest.iter().map(slow).collect());
    object.insert("disks".into(), report.disks.iter().map(disk).collect());
    document(object)
}

fn bytes(number: u64) -> String {
    if number > 0 {
        size(number)
    } else {
        String::new()
    }
}

fn text(report: &FilesReport, made: &Made, flags: &FilesFlags) -> String {
    let mut out = String::new();
    let all = &report.all;
    let _ = writeln!(
        out,
        "{HEAD}{} in {}: {} read, {} written, {} all together{HEAD:#}",
        counted(all.times.count, "system call"),
        length(made.nanos()),
        size(all.read),
        size(all.written),
        length(all.times.total),
    );
    let (left, right) = (Align::Left, Align::Right);
    if !report.rows.is_empty() {
        let (first, second, calls) = match flags.by {
            ByFlag::File => ("process", "file", "calls"),
            ByFlag::Process => ("process", "", "calls"),
            ByFlag::Path => ("", "file", "calls"),
            ByFlag::Device => ("", "device", "count"),
        };
        let mut table = Table::new(&[
            (first, left),
            (second, left),
            (calls, right),
            ("read", right),
            ("written", right),
            ("errors", right),
            ("opens", right),
            ("total", right),
            ("p99", right),
            ("max", right),
            ("1µs..1s", left),
        ]);
        let rows = flags.common.rows();
        for row in report.rows.iter().take(rows) {
            let is_of_all = row.label == Default::default();
            let (who, what) = match flags.by {
                ByFlag::Device => (String::new(), device(row)),
                _ if is_of_all => (String::new(), row.name.clone()),
                _ => (name(&row.label), row.name.clone()),
            };
            table.row([
                who.into(),
                clean(&what).into(),
                count(row.times.count).into(),
                bytes(row.read).into(),
                bytes(row.written).into(),
                some_count(row.errors).into(),
                some_count(row.opens).into(),
                length(row.times.total).into(),
                length(row.times.quantile(0.99)).into(),
                length(row.times.max).into(),
                spread(&row.times.spread).into(),
            ]);
        }
        out.push('\n');
        table.write(&mut out);
        more(&mut out, report.rows.len(), rows);
    }
    if all.times.count > 0 {
        histogram(&mut out, &all.times.spread, "calls", !is_utf8());
    }
    if flags.by == ByFlag::Device {
        said_of_devices(&mut out, report, flags);
    }
    for (number, what) in [
        (all.unsaid, "whose bytes no record tells"),
        (report.left_out, "of files for which there was no room, not in the table"),
    ] {
        if number > 0 {
            let _ = writeln!(out, "{DIM}{} {what}{DIM:#}", counted(number, "call"));
        }
    }
    disks(&mut out, report);
    slowest(&mut out, report, flags);
    out
}

/// `vda`, `tcp socket`: a row's name where rows are by device.
fn device(row: &Row) -> String {
    let machine = row.label.machine.as_ref().map(|machine| format!("{machine}: "));
    let what = if row.kind == "socket" && row.name != row.kind { " socket" } else { "" };
    format!("{}{}{what}", machine.unwrap_or_default(), row.name)
}

/// What the rows are of, which nobody can see in them.
fn said_of_devices(out: &mut String, report: &FilesReport, flags: &FilesFlags) {
    let has = |kind| report.rows.iter().any(|row| row.kind == kind);
    if has(UNKNOWN) {
        let _ = writeln!(
            out,
            "{DIM}no record says on which disk a path is: calls with one, and with a descriptor that is not \
             known, are 'unknown'{DIM:#}"
        );
    }
    let _ = match (has(DISK), flags.of.is_some()) {
        (true, _) => writeln!(out, "{DIM}of disks, requests are counted, of all else calls{DIM:#}"),
        (false, true) => Ok(()),
        (false, false) => writeln!(
            out,
            "{DIM}no disk: record what they are asked by strata record -k \
             block_rq_issue,block_rq_complete{DIM:#}"
        ),
    };
}

fn disks(out: &mut String, report: &FilesReport) {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("disk", left),
        ("", left),
        ("count", right),
        ("bytes", right),
        ("errors", right),
        ("total", right),
        ("avg", right),
        ("p50", right),
        ("p99", right),
        ("max", right),
        ("1µs..1s", left),
    ]);
    for disk in &report.disks {
        let machine = disk.machine.as_ref().map(|machine| format!("{machine}: "));
        table.row([
            clean(&format!("{}{}", machine.unwrap_or_default(), disk.name)).into(),
            disk.kind.into(),
            count(disk.times.count).into(),
            bytes(disk.bytes).into(),
            some_count(disk.errors).into(),
            length(disk.times.total).into(),
            length(disk.times.mean()).into(),
            length(disk.times.quantile(0.5)).into(),
            length(disk.times.quantile(0.99)).into(),
            length(disk.times.max).into(),
            spread(&disk.times.spread).into(),
        ]);
    }
    section(out, "Requests to disks, from asking to the answer", &table);
}

fn slowest(out: &mut String, report: &FilesReport, flags: &FilesFlags) {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("begin", left),
        ("took", right),
        ("thread", left),
        ("call", left),
        ("result", right),
        ("file", left),
    ]);
    for slow in &report.slowest {
        table.row([
            time_of_day(slow.begin, flags.common.selection.zone()).into(),
            length(slow.nanos).into(),
            name(&slow.label).into(),
            clean(&slow.call).into(),
            result_text(&slow.call, slow.result).into(),
            clean(&slow.name).into(),
        ]);
    }
    section(out, "The slowest", &table);
}

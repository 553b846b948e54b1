//! The report `strata analyze locks`.

use anyhow::Result;
use clap::{Args, ValueEnum};
use strata_analyze::reports::kernel_locks::{
    KernelLock, KernelLockCounter, KernelLocksReport, KernelWaiter,
};
use strata_analyze::reports::locks::{
    By, LockCounter, LockKind, LockWaits, LocksReport, Long, Row,
};
use strata_analyze::reports::threads::Device;
use strata_analyze::reports::{ExecutedProcesses, Label, LockNames, QUANTILE_ERROR};
use strata_report::{Columns, Document, Figure, Part, Record, Unit, Value};
use strata_session::stop::Stop;

use super::process_selection::WhoseFlags;
use super::report_command::{CommonFlags, Made, NamesFlags, EXIT_STATUS};
use super::report_text::show;
use super::rows::{by, length, name};
use super::wait_text::{self, what_text};
use crate::reading::number_parser::nr_kept;
use crate::reading::selection::{refused, TIMES};
use crate::units::{clean, counted};

/// Limit on the waiters, and on the wakers, that a text lists for one row.
const BELOW: usize = 3;
const LONGEST_MAX: usize = 100_000;

const OF: &str =
    "Only waits of threads of this name or number, and of those of processes of this name or number";

const COUNTED: &str = "\
What is counted:
  Times in which a thread was blocked in futex(), by the address at
  which it waited, and who ended that. Of a mutex that is who held it,
  of a condition variable who signalled it, of pthread_join() the
  thread that has ended. A lock that nobody had to wait for makes no
  system call. Where two processes share a lock, each has its own row.
  Locks of the kernel are in a table of their own, where the kernel's
  records of contention are in the trace (-k 'contention_*').
  Of a program recorded with --libc pthread the locks are those of libc,
  with who had them; a futex in such a call is not counted once more.
";

/// Flags of `strata analyze locks`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{COUNTED}\n{TIMES}\n{EXIT_STATUS}"))]
#[command(mut_arg("filter", refused))]
#[command(mut_arg("of", |of| of.help(OF)))]
pub struct LocksFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// A row for each lock, for each thread that waited, or for each process
    #[arg(long, value_enum, default_value_t)]
    by: ByFlag,

    #[command(flatten)]
    whose: WhoseFlags,

    /// Show the N longest waits, one row for each
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = nr_kept)]
    longest: usize,

    #[command(flatten)]
    names: NamesFlags,
}

/// The value of `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// A lock of a process
    #[default]
    Lock,
    /// One row for each thread, with all locks it waited for
    Thread,
    /// One row for each process, with all its locks
    Process,
}

/// Parts of a lock that have tables of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockPart {
    Waiters,
    Holders,
    Wakers,
}

/// Makes the report, and returns the exit status.
pub fn run(flags: &LocksFlags, stop: &Stop) -> Result<u8> {
    let instead = "--of NAME|NUMBER, which selects those who wait";
    flags.common.refuse_filter("locks", "a wait is none", instead)?;
    let (reader, range) = flags.common.open()?;
    let whose = flags.whose.read(&reader, "locks", stop)?;
    let counter = LockCounter::new(range, whose.kept(flags.longest, LONGEST_MAX));
    let mut counter = ((counter, KernelLockCounter::new(range)), ExecutedProcesses::default());
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    let by = match flags.by {
        ByFlag::Lock => By::Lock,
        ByFlag::Thread => By::Thread,
        ByFlag::Process => By::Process,
    };
    let world = made.passed.timeline.world();
    let wanted = whose.of(world);
    let ((counter, of_kernel), executed) = counter;
    let of_kernel = of_kernel.finish(world, &|label| match label {
        Some(label) => wanted.has(label),
        None => !whose.is_any(),
    });
    let mut report = counter.finish(world, by, &|label| wanted.has(label));
    let mut names = LockNames::read(&reader, &flags.names.options(), executed);
    report.name_locks(world, &mut names, flags.common.rows());
    flags.names.say_left_out();
    // A wait that both the program and the kernel have recorded is shown once.
    if report.is_cut {
        let (found, all) = (report.longest.len(), report.all.count);
        whose.say_fewer(found, flags.longest, LONGEST_MAX, all, "longest waits");
    }
    show(&flags.common, "locks", &made, &document(&report, &of_kernel, &made, flags))?;
    let is_empty = report.rows.is_empty() && of_kernel.rows.is_empty();
    let is_asked = whose.is_any() || flags.common.selection.is_any();
    Ok(made.end(
        is_empty,
        is_asked,
        "no wait for a lock matches what was asked for",
        "the trace has no wait for a lock: nobody was blocked in futex(), or nothing tells. \
                 What tells are sched_switch, sched_waking and the calls of futex: \
                 strata record -- COMMAND",
    ))
}

fn part_record(part: &LockWaits) -> Record {
    let mut record = vec![("", Value::from(part.label.as_ref()))];
    if !part.ended_by.is_empty() {
        record.push(("ended_by", part.ended_by.into()));
        record.push(("device", wait_text::device(part.device.as_ref())));
        record.push(("woken_by_is_sure", part.label.as_ref().map(|_| part.is_sure).into()));
    }
    record.extend([
        ("count", part.count.into()),
        ("total_ns", part.total.into()),
        ("max_ns", part.max.into()),
    ]);
    record
}

fn list(parts: &[LockWaits]) -> Value {
    Value::List(parts.iter().map(part_record).collect())
}

fn address(address: Option<u64>) -> Option<String> {
    address.map(|address| format!("{address:#x}"))
}

fn lock(kind: LockKind, variable: Option<&String>, address: Option<u64>) -> String {
    match (address, variable) {
        (Some(_), Some(variable)) => format!("{} {variable}", kind.name()),
        (Some(address), None) => format!("{} {address:#x}", kind.name()),
        (None, _) => String::new(),
    }
}

fn row_lock(row: &Row) -> String {
    lock(row.kind, row.variable.as_ref(), row.address)
}

fn who(label: Option<&Label>, is_sure: bool, ended_by: &str, device: Option<&Device>) -> String {
    match (label, ended_by) {
        (Some(label), _) if is_sure => name(label),
        (Some(label), _) => format!("perhaps {}", name(label)),
        (None, "") => "not known".to_owned(),
        (None, what) => what_text(what, device),
    }
}

fn document(
    report: &LocksReport,
    of_kernel: &KernelLocksReport,
    made: &Made,
    flags: &LocksFlags,
) -> Document {
    let all = &report.all;
    let mut document = Document::new(format!(
        "{} for locks in {}, {} all together",
        counted(all.count, "wait"),
        length(made.nanos()),
        length(all.total)
    ));
    document.fact("by", by(&flags.by));
    document.fact("quantile_error", QUANTILE_ERROR);
    document.fact("all", Value::Record(all.record()));
    document.fact("waits_left_out", report.left_out);
    let whose = if flags.by == ByFlag::Thread { "thread" } else { "process" };
    let shown = report.rows.get(..flags.common.rows()).unwrap_or(&report.rows);
    let columns = Columns::new()
        .both(whose, "", Unit::Label, |row: &Row| Value::label(&row.label))
        .shown(if flags.by == ByFlag::Lock { "lock" } else { "" }, Unit::Text, |row| {
            row_lock(row).into()
        })
        .times(
            &[
                ("waits", Figure::Count),
                ("blocked", Figure::Total),
                ("avg", Figure::Mean),
                ("p99", Figure::P99),
                ("longest", Figure::Max),
            ],
            |row| &row.waits,
        )
        .both("timeouts", "timeouts", Unit::SomeCount, |row| row.timeouts.into())
        .spread(|row| &row.waits)
        .key("name", |row| address(row.address).into())
        .key("kind", |row| row.kind.name().into())
        .key("variable", |row| row.variable.clone().into())
        .key("calls", |row| row.calls.into())
        .key("wakes", |row| row.wakes.into())
        .nested("waiters", |row| list(&row.waiters))
        .nested("wakers", |row| list(&row.wakers))
        .nested("holders", |row| list(&row.holders))
        .key("timed_out_ns", |row| row.timed_out.into());
    document.rows(columns.rows(shown), report.rows.len());
    if !report.rows.is_empty() {
        if report.left_out > 0 {
            let waits = counted(report.left_out, "wait");
            document.push(Part::Note(format!(
                "{waits} for locks for which there was no room, not in the table"
            )));
        }
        document.push(Part::lengths("waits", &all.spread));
    }
    for part in [LockPart::Waiters, LockPart::Holders, LockPart::Wakers] {
        if part != LockPart::Waiters || flags.by != ByFlag::Thread {
            document.push(part_table(part, shown, whose, flags));
        }
    }
    document.push(longest(report));
    if of_kernel.all.count > 0 || of_kernel.incomplete > 0 {
        document.fact("kernel_incomplete", of_kernel.incomplete);
        document.push(kernel_locks(of_kernel, flags));
    }
    document
}

/// Makes the table of the kernel's own locks.
fn kernel_locks(report: &KernelLocksReport, flags: &LocksFlags) -> Part {
    let whom = |waiter: Option<&KernelWaiter>| match waiter.map(|waiter| waiter.label.as_ref()) {
        None | Some(None) => "not known".to_owned(),
        Some(Some(label)) if label.tid == Some(0) => "an interrupt of an idle CPU".to_owned(),
        Some(Some(label)) => name(label),
    };
    let lock = |row: &KernelLock| {
        let machine = row.machine.as_ref().map(|machine| format!("{machine}: "));
        let machine = clean(&machine.unwrap_or_default());
        format!("{machine}{} {:#x}", row.kind, row.address)
    };
    let columns = Columns::new()
        .shown("lock", Unit::Text, |row: &KernelLock| lock(row).into())
        .times(
            &[
                ("waits", Figure::Count),
                ("waited", Figure::Total),
                ("avg", Figure::Mean),
                ("p99", Figure::P99),
                ("longest", Figure::Max),
            ],
            |row| &row.waits,
        )
        .shown("most by", Unit::Text, |row| whom(row.waiters.first()).into())
        .some_key("machine", |row| row.machine.clone().into())
        .key("kind", |row| row.kind.into())
        .key("name", |row| address(Some(row.address)).into())
        .nested("waiters", |row| {
            let one = |waiter: &KernelWaiter| {
                vec![
                    ("", waiter.label.as_ref().into()),
                    ("count", waiter.count.into()),
                    ("total_ns", waiter.total.into()),
                    ("max_ns", waiter.max.into()),
                ]
            };
            Value::List(row.waiters.iter().map(one).collect())
        });
    let shown = report.rows.get(..flags.common.rows()).unwrap_or(&report.rows);
    Part::section("Locks of the kernel", "kernel_locks", columns.rows(shown))
}

/// Makes the table of those who waited for the locks of the rows, held them, or ended the waits.
fn part_table(part: LockPart, rows: &[Row], whose: &'static str, flags: &LocksFlags) -> Part {
    let is_by_lock = flags.by == ByFlag::Lock;
    let mut below = Vec::new();
    for row in rows {
        let parts = match part {
            LockPart::Waiters => &row.waiters,
            LockPart::Holders => &row.holders,
            // The holders of a mutex are more useful than the last holder, who woke the waiter.
            LockPart::Wakers if !row.holders.is_empty() && is_by_lock => continue,
            LockPart::Wakers => &row.wakers,
        };
        below.extend(parts.iter().take(BELOW).map(|part| (row, part)));
    }
    let columns = Columns::new()
        .shown(
            if is_by_lock { "lock" } else { whose },
            Unit::Text,
            |(row, _): &(&Row, &LockWaits)| {
                let lock = row_lock(row);
                if lock.is_empty() {
                    Value::label(&row.label)
                } else {
                    lock.into()
                }
            },
        )
        .shown("blocked", Unit::Nanos, |(_, part)| part.total.into())
        .shown("waits", Unit::Count, |(_, part)| part.count.into())
        .shown("longest", Unit::Nanos, |(_, part)| part.max.into())
        .shown(if part == LockPart::Wakers { "by" } else { "thread" }, Unit::Text, |(_, part)| {
            who(part.label.as_ref(), part.is_sure, part.ended_by, part.device.as_ref()).into()
        });
    let title = match part {
        LockPart::Waiters => "Who waited",
        LockPart::Holders => "Who had it meanwhile",
        LockPart::Wakers => "Who ended that",
    };
    Part::shown(title, columns.rows(&below))
}

fn longest(report: &LocksReport) -> Part {
    let columns = Columns::new()
        .both("from", "time_ns", Unit::Time, |long: &Long| long.from.into())
        .both("blocked", "duration_ns", Unit::Nanos, |long| long.nanos.into())
        .both("thread", "", Unit::Label, |long| Value::label(&long.label))
        .shown("lock", Unit::Text, |long| {
            lock(long.kind, long.variable.as_ref(), Some(long.address)).into()
        })
        .shown("ended by", Unit::Text, |long| {
            who(long.woken_by.as_ref(), long.is_sure, long.ended_by, long.device.as_ref()).into()
        })
        .key("name", |long| address(Some(long.address)).into())
        .key("variable", |long| long.variable.clone().into())
        .key("ended_by", |long| Value::some_text(long.ended_by))
        .nested("device", |long| wait_text::device(long.device.as_ref()))
        .key("woken_by", |long| long.woken_by.as_ref().into())
        .key("woken_by_is_sure", |long| long.woken_by.as_ref().map(|_| long.is_sure).into());
    Part::section("The longest", "longest", columns.rows(&report.longest))
}

//! `strata analyze locks`.

use std::fmt::Write as _;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{json, Value};
use strata_analyze::reports::locks::{By, LockCounter, LockWaits, LocksReport, Long, Row};
use strata_analyze::reports::threads::Device;
use strata_analyze::reports::{Label, QUANTILE_ERROR};
use strata_analyze::stats::time_of_day;
use strata_session::stop::Stop;

use super::common::{CommonFlags, Made, EXIT_STATUS};
use super::rows::{
    by, document, figures, histogram, keys, length, more, name, put_rows, section, some_count,
    spread,
};
use super::threads::{device_json, what_text};
use super::whose::{MineFlags, Whose, BY_OF};
use crate::reading::selection::{refused, TIMES};
use crate::stats::is_utf8;
use crate::stats::table::{Align, Table, DIM, HEAD};
use crate::talk::units::{count, counted};

/// Waiters, and wakers, of one row in a text.
const BELOW: usize = 3;
const LONGEST_MAX: usize = 100_000;

const COUNTED: &str = "\
What is counted:
  Times in which a thread was blocked in futex(), by the address at
  which it waited, and who ended that. Of a mutex that is who held it,
  of a condition variable who signalled it, of pthread_join() the
  thread that has ended. A lock that nobody had to wait for makes no
  system call. Where two processes share a lock, each has its own row.
  Of a program recorded with --libc pthread the locks are those of libc,
  with who had them; a futex in such a call is not counted once more.
";

/// `strata analyze locks`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{COUNTED}\n{TIMES}\n{EXIT_STATUS}"))]
#[command(mut_arg("filter", refused))]
pub struct LocksFlags {
    #[command(flatten)]
    common: CommonFlags,

    /// A row for each lock, for each thread that waited, or for each process
    #[arg(long, value_enum, default_value_t)]
    by: ByFlag,

    /// Only waits of threads of this name or number, and of those of processes of this name or number
    #[arg(long, value_name = "NAME|NUMBER")]
    of: Option<String>,

    #[command(flatten)]
    mine: MineFlags,

    /// Show the N longest waits one by one
    #[arg(long, value_name = "N", default_value_t = 10)]
    longest: usize,
}

/// `--by`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ByFlag {
    /// A lock of a process
    #[default]
    Lock,
    /// All locks for which a thread waited
    Thread,
    /// All locks of a process
    Process,
}

/// Do it, and give the exit status.
pub fn run(flags: &LocksFlags, stop: &Stop) -> Result<u8> {
    let instead = "--of NAME|NUMBER, which selects those who wait";
    flags.common.refuse_filter("locks", "a wait is none", instead)?;
    let (reader, range) = flags.common.open()?;
    let whose = Whose::read(flags.of.as_deref(), &flags.mine, &reader, ("locks", BY_OF), stop)?;
    let mut counter = LockCounter::new(range, whose.kept(flags.longest, LONGEST_MAX));
    let Some(made) = flags.common.pass(&reader, range, &mut counter, stop) else {
        return Ok(crate::talk::exit::stopped(stop));
    };
    let by = match flags.by {
        ByFlag::Lock => By::Lock,
        ByFlag::Thread => By::Thread,
        ByFlag::Process => By::Process,
    };
    let world = made.passed.timeline.world();
    let wanted = whose.of(world);
    let report = counter.finish(world, by, &|label| wanted.has(label));
    // Waits that are told by the program and by the kernel are shown once.
    if report.is_cut {
        let (found, all) = (report.longest.len(), report.all.count);
        whose.say_fewer(found, flags.longest, LONGEST_MAX, all, "longest waits");
    }
    flags.common.show(|| json(&report, &made, flags), || text(&report, &made, flags))?;
    let is_empty = report.rows.is_empty();
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

fn part_json(part: &LockWaits) -> Value {
    let mut map = part.label.as_ref().map(keys).unwrap_or_default();
    if !part.ended_by.is_empty() {
        map.insert("ended_by".into(), json!(part.ended_by));
        map.insert("device".into(), device_json(part.device.as_ref()));
        let is_sure = part.label.as_ref().map(|_| part.is_sure);
        map.insert("woken_by_is_sure".into(), json!(is_sure));
    }
    map.insert("count".into(), json!(part.count));
    map.insert("total_ns".into(), json!(part.total));
    map.insert("max_ns".into(), json!(part.max));
    Value::Object(map)
}

fn address(address: Option<u64>) -> Option<String> {
    address.map(|address| format!("{address:#x}"))
}

fn json(report: &LocksReport, made: &Made, flags: &LocksFlags) -> String {
    let row = |row: &Row| {
        let mut map = keys(&row.label);
        map.insert("name".into(), json!(address(row.address)));
        map.insert("kind".into(), json!(row.kind.name()));
        map.extend(figures(&row.waits));
        map.insert("calls".into(), json!(row.calls));
        map.insert("timeouts".into(), json!(row.timeouts));
        map.insert("wakes".into(), json!(row.wakes));
        map.insert("waiters".into(), row.waiters.iter().map(part_json).collect());
        map.insert("wakers".into(), row.wakers.iter().map(part_json).collect());
        Value::Object(map)
    };
    let long = |long: &Long| {
        let mut map = keys(&long.label);
        map.insert("name".into(), json!(address(Some(long.address))));
        map.insert("time_ns".into(), json!(long.from));
        map.insert("duration_ns".into(), json!(long.nanos));
        map.insert("ended_by".into(), json!(Some(long.ended_by).filter(|it| !it.is_empty())));
        map.insert("device".into(), device_json(long.device.as_ref()));
        map.insert("woken_by".into(), json!(long.woken_by.as_ref().map(keys)));
        let is_sure = long.woken_by.as_ref().map(|_| long.is_sure);
        map.insert("woken_by_is_sure".into(), json!(is_sure));
        Value::Object(map)
    };
    let mut object = made.object("locks");
    object.insert("by".into(), by(&flags.by));
    object.insert("quantile_error".into(), json!(QUANTILE_ERROR));
    object.insert("all".into(), Value::Object(figures(&report.all)));
    object.insert("waits_left_out".into(), json!(report.left_out));
    put_rows(&mut object, &report.rows, &flags.common, row);
    object.insert("longest".into(), report.longest.iter().map(long).collect());
    document(object)
}

fn who(label: Option<&Label>, is_sure: bool, ended_by: &str, device: Option<&Device>) -> String {
    match (label, ended_by) {
        (Some(label), _) if is_sure => name(label),
        (Some(label), _) => format!("perhaps {}", name(label)),
        (None, "") => "not known".to_owned(),
        (None, what) => what_text(what, device),
    }
}

fn text(report: &LocksReport, made: &Made, flags: &LocksFlags) -> String {
    let mut out = String::new();
    let all = &report.all;
    let _ = writeln!(
        out,
        "{HEAD}{} for locks in {}, {} all together{HEAD:#}",
        counted(all.count, "wait"),
        length(made.nanos()),
        length(all.total)
    );
    if report.rows.is_empty() {
        return out;
    }
    let (left, right) = (Align::Left, Align::Right);
    let whose = if flags.by == ByFlag::Thread { "thread" } else { "process" };
    let mut table = Table::new(&[
        (whose, left),
        (if flags.by == ByFlag::Lock { "lock" } else { "" }, left),
        ("waits", right),
        ("blocked", right),
        ("avg", right),
        ("p99", right),
        ("longest", right),
        ("timeouts", right),
        ("1µs..1s", left),
    ]);
    let lock = |row: &Row| match row.address {
        Some(address) => format!("{} {address:#x}", row.kind.name()),
        None => String::new(),
    };
    let rows = flags.common.rows();
    for row in report.rows.iter().take(rows) {
        table.row([
            name(&row.label).into(),
            lock(row).into(),
            count(row.waits.count).into(),
            length(row.waits.total).into(),
            length(row.waits.mean()).into(),
            length(row.waits.quantile(0.99)).into(),
            length(row.waits.max).into(),
            some_count(row.timeouts).into(),
            spread(&row.waits.spread).into(),
        ]);
    }
    out.push('\n');
    table.write(&mut out);
    more(&mut out, report.rows.len(), rows);
    if report.left_out > 0 {
        let _ = writeln!(
            out,
            "{DIM}{} for locks for which there was no room, not in the table{DIM:#}",
            counted(report.left_out, "wait")
        );
    }
    histogram(&mut out, &all.spread, "waits", !is_utf8());
    for (title, is_waiters) in [("Who waited", true), ("Who ended that", false)] {
        let mut table = Table::new(&[
            (if flags.by == ByFlag::Lock { "lock" } else { whose }, left),
            ("blocked", right),
            ("waits", right),
            ("longest", right),
            (if is_waiters { "thread" } else { "by" }, left),
        ]);
        if is_waiters && flags.by == ByFlag::Thread {
            continue;
        }
        for row in report.rows.iter().take(rows) {
            let parts = if is_waiters { &row.waiters } else { &row.wakers };
            for part in parts.iter().take(BELOW) {
                let what = lock(row);
                table.row([
                    if what.is_empty() { name(&row.label).into() } else { what.into() },
                    length(part.total).into(),
                    count(part.count).into(),
                    length(part.max).into(),
                    who(part.label.as_ref(), part.is_sure, part.ended_by, part.device.as_ref())
                        .into(),
                ]);
            }
        }
        section(&mut out, title, &table);
    }
    longest(&mut out, report, flags);
    out
}

fn longest(out: &mut String, report: &LocksReport, flags: &LocksFlags) {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[
        ("from", left),
        ("blocked", right),
        ("thread", left),
        ("lock", left),
        ("ended by", left),
    ]);
    for long in &report.longest {
        table.row([
            time_of_day(long.from, flags.common.selection.zone()).into(),
            length(long.nanos).into(),
            name(&long.label).into(),
            format!("{} {:#x}", long.kind.name(), long.address).into(),
            who(long.woken_by.as_ref(), long.is_sure, long.ended_by, long.device.as_ref()).into(),
        ]);
    }
    section(out, "The longest", &table);
}

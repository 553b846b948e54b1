//! `strata analyze summary`: what a person wants to know first, and what to type next.

use std::fmt::Write as _;

use anyhow::Result;
use clap::Args;
use serde_json::{json, Value};
use strata_analyze::reports::syscalls::{By, Counter, Syscalls};
use strata_analyze::reports::threads::{Row, ThreadCounter, ThreadsReport};
use strata_session::stop::Stop;

use super::common::{self, nothing, CommonFlags, Format, Made, EXIT_STATUS};
use super::rows::{document, keys, length, name};
use super::threads::{wait_json, wait_text};
use crate::reading::selection::SYNTAX;
use crate::stats::table::{Align, Table, HEAD};
use crate::talk::units::{clean, count, counted};

/// Of each kind.
const FIRST: usize = 3;

/// `strata analyze summary`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{SYNTAX}\n{EXIT_STATUS}"))]
pub struct SummaryFlags {
    #[command(flatten)]
    common: CommonFlags,
}

/// Do it, and give the exit status.
pub fn run(flags: &SummaryFlags, stop: &Stop) -> Result<u8> {
    let instead = "--from and --until, which select a time";
    flags.common.refuse_filter("summary", "a summary is of all", instead)?;
    let (reader, range) = flags.common.open()?;
    let mut both = (Counter::new(range, 1), ThreadCounter::new(range, 1));
    let Some(made) = flags.common.pass(&reader, range, &mut both, stop) else {
        return Ok(crate::talk::exit::stopped(stop));
    };
    let world = made.passed.timeline.world();
    let calls = both.0.finish(world, By::Process);
    let processes = both.1.finish(world, true);
    let is_empty = made.passed.records == 0;
    common::write(&match flags.common.format {
        Format::Json => json(&calls, &processes, &made),
        Format::Text => text(&calls, &processes, &made, flags),
    })?;
    if is_empty {
        nothing(flags.common.selection.nothing());
    }
    Ok(made.status(is_empty))
}

/// Processes whose system calls are in the trace: those that it is about. All, if none has any.
fn about<'r>(calls: &Syscalls, report: &'r ThreadsReport) -> Vec<&'r Row> {
    let is_about = |row: &&Row| {
        calls.rows.iter().any(|call| call.label.pid == row.label.pid && call.label.pid.is_some())
    };
    let found: Vec<&Row> = report.rows.iter().filter(is_about).collect();
    match found.is_empty() {
        true => report.rows.iter().collect(),
        false => found,
    }
}

fn json(calls: &Syscalls, processes: &ThreadsReport, made: &Made) -> String {
    let mut object = made.object("summary");
    object.insert("syscalls".into(), json!(calls.all.count));
    object.insert("syscall_errors".into(), json!(calls.all.errors));
    object.insert("syscall_total_ns".into(), json!(calls.all.total));
    let row = |row: &&Row| {
        let mut map = keys(&row.label);
        map.insert("running_ns".into(), json!(row.running));
        map.insert("runnable_ns".into(), json!(row.runnable()));
        map.insert("blocked_ns".into(), json!(row.blocked));
        map.insert("unknown_ns".into(), json!(row.unknown));
        map.insert("waits".into(), row.waits.iter().take(FIRST).map(wait_json).collect());
        Value::Object(map)
    };
    let rows = about(calls, processes);
    object.insert("rows_count".into(), json!(rows.len()));
    object.insert("rows".into(), rows.iter().map(row).collect());
    document(object)
}

fn text(calls: &Syscalls, processes: &ThreadsReport, made: &Made, flags: &SummaryFlags) -> String {
    let mut out = String::new();
    let whole = made.nanos();
    let _ = writeln!(
        out,
        "{HEAD}{} in {}{HEAD:#}",
        counted(made.passed.records, "event record"),
        length(whole)
    );
    let mut table = Table::new(&[("", Align::Left), ("", Align::Right), ("", Align::Left)]);
    let percent = |nanos: u64| format!("{:.1} %", nanos as f64 * 100.0 / whole.max(1) as f64);
    let mut first = "CPU time";
    let mut runs: Vec<&Row> = processes.rows.iter().filter(|row| row.running > 0).collect();
    runs.sort_by_key(|row| std::cmp::Reverse(row.running));
    for row in runs.into_iter().take(FIRST) {
        let text = format!("{} ({} of one CPU)", name(&row.label), percent(row.running));
        table.row([std::mem::take(&mut first).into(), length(row.running).into(), text.into()]);
    }
    let about = about(calls, processes);
    let mut waits: Vec<_> =
        about.iter().flat_map(|row| row.waits.iter().map(|wait| (&row.label, wait))).collect();
    waits.sort_by_key(|(_, wait)| std::cmp::Reverse(wait.total));
    let mut first = "blocked";
    for (label, wait) in waits.iter().take(FIRST) {
        let text = format!("{} in {}", name(label), wait_text(wait));
        table.row([std::mem::take(&mut first).into(), length(wait.total).into(), text.into()]);
    }
    let mut wants: Vec<&&Row> = about.iter().filter(|row| row.runnable() > 0).collect();
    wants.sort_by_key(|row| std::cmp::Reverse(row.runnable()));
    if let Some(row) = wants.first() {
        let rival = row.rivals.iter().find_map(|(label, _)| label.as_ref());
        let rival = rival.map(|rival| format!(", which {} had most of that time", name(rival)));
        let text = format!("{} for a CPU{}", name(&row.label), rival.unwrap_or_default());
        table.row(["waited".into(), length(row.runnable()).into(), text.into()]);
    }
    let all = &calls.all;
    if all.count > 0 {
        let text =
            format!("{}, {} with errors", counted(all.count, "system call"), count(all.errors));
        table.row(["in calls".into(), length(all.total).into(), text.into()]);
    }
    for row in calls.rows.iter().take(FIRST) {
        let text = format!("{} {}, {}×", name(&row.label), clean(&row.name), count(row.count));
        table.row(["".into(), length(row.total).into(), text.into()]);
    }
    if let Some(slow) = calls.slowest.first() {
        let text = format!("{} {}", name(&slow.label), clean(&slow.name));
        table.row(["slowest".into(), length(slow.nanos).into(), text.into()]);
    }
    table.write(&mut out);
    next(&mut out, &about, &flags.common.traces.words());
    out
}

fn next(out: &mut String, about: &[&Row], traces: &str) {
    let _ = writeln!(out, "\n{HEAD}Next{HEAD:#}");
    let _ = writeln!(out, "  strata analyze syscalls {traces}");
    let _ = writeln!(out, "  strata analyze threads {traces}");
    let _ = writeln!(out, "  strata analyze files {traces}");
    let whose = about.iter().max_by_key(|row| row.blocked).and_then(|row| row.label.pid);
    if let Some(pid) = whose {
        let _ = writeln!(out, "  strata analyze wait {pid} {traces}");
    }
    let _ = writeln!(out, "  strata view {traces}");
}

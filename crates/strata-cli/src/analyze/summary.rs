//! `strata analyze summary`: what a person wants to know first, and what to type next.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use anyhow::Result;
use clap::Args;
use serde_json::{json, Value};
use strata_analyze::mine::has_command;
use strata_analyze::reports::spans::{self, SpanCounter, Spans};
use strata_analyze::reports::syscalls::{self, SyscallCounter, Syscalls};
use strata_analyze::reports::threads::{Row, ThreadCounter, ThreadsReport, Wait};
use strata_analyze::reports::{is_of_files, span_roles, Label, Recorded};
use strata_ctf::read::Reader;
use strata_session::stop::Stop;
use strata_timeline::Timeline;

use super::common::{self, nothing, CommonFlags, Format, Made, EXIT_STATUS};
use super::hidden;
use super::rows::{document, keys, length, name, put_sums, subject};
use super::threads::{wait_json, wait_text, whole};
use super::whose::{MineFlags, Whose, ELSEWHERE};
use crate::reading::selection::{refused, TIMES};
use crate::stats::table::{Align, Table, DIM, HEAD};
use crate::talk::units::{clean, count, counted};

/// Of each kind, if nobody says how many.
const FIRST: usize = 3;
/// Of the slowest, and of what wanted a CPU.
const FIRST_SLOWEST: usize = 1;
/// The slowest that are kept, if only those of some are shown.
const SLOWEST_MAX: usize = 10_000;
/// What wanted a CPU for such a part of the time has to be asked who had it.
const WANTED_PART: u64 = 10;

/// `strata analyze summary`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = format!("{TIMES}\n{EXIT_STATUS}"))]
#[command(mut_arg("filter", refused))]
#[command(mut_arg("top", |top| top.help("Only the first N of each kind [default: 3, and 1 of the slowest and of what waited]; in JSON, N rows [default: all]")))]
pub struct SummaryFlags {
    #[command(flatten)]
    common: CommonFlags,

    #[command(flatten)]
    mine: MineFlags,
}

impl SummaryFlags {
    /// How many of each kind are shown, and of what is shown alone if nobody says how many.
    fn first(&self) -> (usize, usize) {
        let of = |default| self.common.top.map_or(default, std::num::NonZeroUsize::get);
        (of(FIRST), of(FIRST_SLOWEST))
    }
}

/// What there is to be told.
struct SummaryParts {
    calls: Syscalls,
    processes: ThreadsReport,
    spans: Spans,
    /// How many system calls a process of a machine has made, and how many of these failed.
    calls_of: HashMap<(Option<String>, i32), (u64, u64)>,
}

/// Do it, and give the exit status.
pub fn run(flags: &SummaryFlags, stop: &Stop) -> Result<u8> {
    let instead = "--from and --until, which select a time";
    flags.common.refuse_filter("summary", "a summary is of all", instead)?;
    let (reader, range) = flags.common.open()?;
    let whose = Whose::read(None, &flags.mine, &reader, ("summary", ELSEWHERE), stop)?;
    // JSON shows none of the slowest.
    let ones = match flags.common.format {
        Format::Json => FIRST_SLOWEST,
        Format::Text => flags.first().1,
    };
    let kept = whose.kept(ones, SLOWEST_MAX);
    let both = (SyscallCounter::new(range, kept), ThreadCounter::new(range, 1));
    let mut all = (both, SpanCounter::new(range, None, kept));
    let timeline = Timeline::with_spans(&reader, span_roles(&reader, &[]));
    let Some(made) = flags.common.pass_on(timeline, &reader, range, &mut all, stop) else {
        return Ok(crate::talk::exit::stopped(stop));
    };
    hidden::say(&made);
    let world = made.passed.timeline.world();
    let ((calls, processes), spans) = all;
    let wanted = whose.of(world);
    let is_wanted = |label: &Label| wanted.has(label);
    let of: Option<&dyn Fn(&Label) -> bool> = whose.is_any().then_some(&is_wanted);
    let calls = calls.finish_of(world, syscalls::By::Process, of);
    let mut calls_of: HashMap<_, (u64, u64)> = HashMap::new();
    for row in &calls.rows {
        let Some(pid) = row.label.pid else { continue };
        let its = calls_of.entry((row.label.machine.clone(), pid)).or_default();
        *its = (its.0 + row.count, its.1 + row.errors);
    }
    let mut processes = processes.finish(world, true);
    processes.rows.retain(|row| is_wanted(&row.label));
    let spans = spans.finish_of(world, spans::By::Name, of);
    for (found, all, what) in [
        (calls.slowest.len(), calls.all.count, "slowest system calls"),
        (spans.slowest.len(), spans.all.count, "slowest spans"),
    ] {
        whose.say_fewer(found, ones, SLOWEST_MAX, all, what);
    }
    let found = SummaryParts { calls, calls_of, processes, spans };
    let is_nobody = found.processes.rows.is_empty() && found.calls.all.count == 0;
    let is_nobody = whose.is_any() && is_nobody && found.spans.all.count == 0;
    let is_empty = made.passed.records == 0 || is_nobody;
    let next = found.next(&reader, &made, &flags.common.traces.words());
    common::write(&match flags.common.format {
        Format::Json => found.json(&made, &next, flags),
        Format::Text => found.text(&made, &next, flags),
    })?;
    if is_empty {
        nothing(match is_nobody {
            true => "the trace says nothing of what the command and what it started did",
            false => flags.common.selection.nothing(),
        });
    }
    Ok(made.status(is_empty))
}

impl SummaryParts {
    /// Processes whose system calls are in the trace: those that it is about. All, if none has any.
    fn about(&self) -> Vec<&Row> {
        let rows = &self.processes.rows;
        let found: Vec<&Row> = rows.iter().filter(|row| self.calls_of(row).0 > 0).collect();
        match found.is_empty() {
            true => rows.iter().collect(),
            false => found,
        }
    }

    /// How many system calls a process has made, and how many of these failed.
    fn calls_of(&self, row: &Row) -> (u64, u64) {
        let process = row.label.pid.map(|pid| (row.label.machine.clone(), pid));
        process.and_then(|process| self.calls_of.get(&process)).copied().unwrap_or_default()
    }

    /// What threads were blocked in, by falling time.
    fn waits<'r>(about: &[&'r Row]) -> Vec<(&'r Label, &'r Wait)> {
        let mut waits: Vec<_> =
            about.iter().flat_map(|row| row.waits.iter().map(|wait| (&row.label, wait))).collect();
        waits.sort_by_key(|(_, wait)| std::cmp::Reverse(wait.total));
        waits
    }

    /// Commands that have something to show in these traces, what hurts most in front.
    fn next(&self, reader: &Reader, made: &Made, traces: &str) -> Vec<String> {
        let about = self.about();
        let waits = SummaryParts::waits(&about);
        let is_lock = |name: &str| name.starts_with("futex");
        let mut all = Vec::new();
        let mut add = |words: &str| all.push(format!("strata {words} {traces}"));
        if waits.first().is_some_and(|(_, wait)| is_lock(&wait.call))
            || self.spans.rows.iter().any(|row| row.name.starts_with("pthread:"))
        {
            add("analyze locks");
        }
        if self.calls.all.count > 0 {
            add("analyze syscalls");
        }
        let recorded = Recorded::new(reader);
        if !self.processes.rows.is_empty() {
            add("analyze threads");
            // Else threads of the kernel that sleep all the time stand first.
            match (recorded.stacks_of_waits, has_command(reader)) {
                (true, true) => add("analyze threads --by stack --mine"),
                (true, false) => add("analyze threads --by stack"),
                (false, _) => {}
            }
        }
        if about.iter().any(|row| row.runnable() > made.nanos() / WANTED_PART) {
            add("analyze cpu");
        }
        let names: BTreeSet<&str> = self.calls.rows.iter().map(|row| &*row.name).collect();
        if names.iter().any(|name| is_of_files(reader, name)) {
            add("analyze files");
        }
        if self.spans.all.count > 0 {
            add("analyze spans");
        }
        let blocked = about.iter().filter(|row| row.blocked > 0 && row.label.pid.is_some());
        if let Some(pid) = blocked.max_by_key(|row| row.blocked).and_then(|row| row.label.pid) {
            add(&format!("analyze wait {pid}"));
        }
        for (is_there, report) in [
            (recorded.stacks, "analyze flame"),
            (recorded.allocations, "analyze memory"),
            (recorded.interrupts, "analyze irq"),
        ] {
            if is_there {
                add(report);
            }
        }
        if all.is_empty() {
            all.push(format!("strata stats {traces}"));
        }
        all.push(format!("strata view {traces}"));
        all
    }

    fn json(&self, made: &Made, next: &[String], flags: &SummaryFlags) -> String {
        let calls = &self.calls.all;
        let mut object = made.object("summary");
        object.insert("hidden_threads".into(), hidden::json(made));
        object.insert("syscalls".into(), json!(calls.count));
        object.insert("syscall_errors".into(), json!(calls.errors));
        object.insert("syscall_total_ns".into(), json!(calls.total));
        object.insert("spans".into(), json!(self.spans.all.count));
        object.insert("span_total_ns".into(), json!(self.spans.all.total));
        let (first, _) = flags.first();
        let row = |row: &&Row| {
            let mut map = keys(&row.label);
            let (count, errors) = self.calls_of(row);
            put_sums(&mut map, subject(&row.label), count, Some(whole(row)));
            map.insert("errors".into(), json!(errors));
            map.insert("running_ns".into(), json!(row.running));
            map.insert("runnable_ns".into(), json!(row.runnable()));
            map.insert("blocked_ns".into(), json!(row.blocked));
            map.insert("unknown_ns".into(), json!(row.unknown));
            map.insert("waits".into(), row.waits.iter().take(first).map(wait_json).collect());
            Value::Object(map)
        };
        let rows = self.about();
        object.insert("rows_count".into(), json!(rows.len()));
        object.insert("rows".into(), rows.iter().take(flags.common.rows()).map(row).collect());
        object.insert("next".into(), json!(next));
        document(object)
    }

    fn text(&self, made: &Made, next: &[String], flags: &SummaryFlags) -> String {
        let mut out = String::new();
        let nanos = made.nanos();
        let _ = writeln!(
            out,
            "{HEAD}{} in {}{HEAD:#}",
            counted(made.passed.records, "event record"),
            length(nanos)
        );
        let mut table = Table::new(&[("", Align::Left), ("", Align::Right), ("", Align::Left)]);
        self.states(&mut table, nanos, flags.first());
        self.lengths(&mut table, flags.first());
        table.write(&mut out);
        if self.processes.rows.is_empty() {
            let _ = writeln!(
                out,
                "{DIM}no record says what threads did and waited for: those are of the kernel. As root: \
                 strata record -- COMMAND{DIM:#}"
            );
        }
        let _ = writeln!(out, "\n{HEAD}Next{HEAD:#}");
        for command in next {
            let _ = writeln!(out, "  {command}");
        }
        out
    }

    /// Who had a CPU, was blocked, and wanted a CPU.
    fn states(&self, table: &mut Table, whole: u64, (first, ones): (usize, usize)) {
        let percent = |nanos: u64| format!("{:.1} %", nanos as f64 * 100.0 / whole.max(1) as f64);
        let mut title = "CPU time";
        let mut runs: Vec<&Row> =
            self.processes.rows.iter().filter(|row| row.running > 0).collect();
        runs.sort_by_key(|row| std::cmp::Reverse(row.running));
        for row in runs.into_iter().take(first) {
            let text = format!("{} ({} of one CPU)", name(&row.label), percent(row.running));
            table.row([std::mem::take(&mut title).into(), length(row.running).into(), text.into()]);
        }
        let about = self.about();
        let mut title = "blocked";
        for (label, wait) in SummaryParts::waits(&about).iter().take(first) {
            let text = format!("{} in {}", name(label), wait_text(wait));
            table.row([std::mem::take(&mut title).into(), length(wait.total).into(), text.into()]);
        }
        let mut wants: Vec<&&Row> = about.iter().filter(|row| row.runnable() > 0).collect();
        wants.sort_by_key(|row| std::cmp::Reverse(row.runnable()));
        let mut title = "waited";
        for row in wants.into_iter().take(ones) {
            let text = format!("{} for a CPU{}", name(&row.label), rival_text(row));
            let nanos = length(row.runnable());
            table.row([std::mem::take(&mut title).into(), nanos.into(), text.into()]);
        }
    }

    /// System calls and spans.
    fn lengths(&self, table: &mut Table, (first, ones): (usize, usize)) {
        let all = &self.calls.all;
        if all.count > 0 {
            let calls = counted(all.count, "system call");
            let text = format!("{calls}, {} with errors", count(all.errors));
            table.row(["in calls".into(), length(all.total).into(), text.into()]);
        }
        for row in self.calls.rows.iter().take(first) {
            let text = format!("{} {}, {}×", name(&row.label), clean(&row.name), count(row.count));
            table.row(["".into(), length(row.total).into(), text.into()]);
        }
        let mut title = "slowest";
        for slow in self.calls.slowest.iter().take(ones) {
            let text = format!("{} {}", name(&slow.label), clean(&slow.name));
            table.row([std::mem::take(&mut title).into(), length(slow.nanos).into(), text.into()]);
        }
        let mut title = "in spans";
        for row in self.spans.rows.iter().take(first) {
            let text = format!("{}, {}×", clean(&row.name), count(row.count));
            table.row([std::mem::take(&mut title).into(), length(row.total).into(), text.into()]);
        }
        let mut title = "slowest";
        for slow in self.spans.slowest.iter().take(ones) {
            let text = format!("{} {}", name(&slow.label), clean(&slow.name));
            table.row([std::mem::take(&mut title).into(), length(slow.nanos).into(), text.into()]);
        }
    }
}

/// `, which rustc (12) had for 203.117 ms of that time`: of those who are known, who had the CPU longest that a row wanted.
/// It may be little: the rest is of others, of nobody or not known.
fn rival_text(row: &Row) -> String {
    let known = row.rivals.iter().filter_map(|(label, nanos)| Some((label.as_ref()?, *nanos)));
    known.max_by_key(|(_, nanos)| *nanos).map_or_else(String::new, |(label, nanos)| {
        format!(", which {} had for {} of that time", name(label), length(nanos))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rivals(rivals: &[(Option<&str>, u64)]) -> String {
        let label =
            |process: &str| Label { process: process.into(), pid: Some(7), ..Label::default() };
        let rivals = rivals.iter().map(|&(who, nanos)| (who.map(label), nanos)).collect();
        rival_text(&Row { woken: 10_000_000, rivals, ..Row::default() })
    }

    #[test]
    fn rival_when_most_of_the_time_is_of_nobody_has_no_more_than_its_part() {
        let text = rivals(&[(None, 9_000_000), (Some("make"), 600_000), (Some("sh"), 400_000)]);
        assert_eq!(text, ", which make (7) had for 600.000 µs of that time");
        assert_eq!(rivals(&[(None, 10_000_000)]), "");
        assert_eq!(rivals(&[]), "");
    }
}

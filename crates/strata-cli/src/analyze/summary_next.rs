//! The commands to type after a summary; the command that shows the cause comes first.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use strata_analyze::reports::blocked::{Blocked, BlockedReport, WaitKind};
use strata_analyze::reports::spans::Spans;
use strata_analyze::reports::started_processes::BegunProcesses;
use strata_analyze::reports::syscalls::Syscalls;
use strata_analyze::reports::threads::Row;
use strata_analyze::reports::{is_of_files, Recorded};
use strata_ctf::read::Reader;

use super::summary_rows::is_storm;
use crate::reading::traces::TracesFlags;
use crate::units::{clean, shell_word, typed};

/// `analyze cpu` is suggested if a process wanted a CPU for more than this part of the time (the divisor).
const WANTED_PART: u64 = 10;
/// Waits for locks are worth a command if they take more than this part of the time (the divisor), or if one is longer
/// than [`LOCK_LONG`] \[ns\].
const LOCKS_PART: u64 = 100;
const LOCK_LONG: u64 = 10_000_000;
/// A recording with samples is suggested if a process had a CPU for more than this part of the time (the divisor).
const COMPUTED_PART: u64 = 10;
/// Number of rows of blocked threads from which a next command is chosen.
const ROWS: usize = 5;
/// Command that records who used a disk: calls of all processes, and requests to disks.
const DISK_RECORD: &str = "strata record -a -k 'default,block_rq_*' --duration 3s -o";

/// The findings of a summary from which the next commands are chosen.
pub struct NextParts<'p> {
    pub reader: &'p Reader,
    pub recorded: Recorded,
    /// Length of the time that the summary is about \[ns\].
    pub nanos: u64,
    pub traces: &'p TracesFlags,
    /// True if a command was recorded.
    pub has_command: bool,
    pub about: &'p [&'p Row],
    pub blocked: &'p BlockedReport,
    pub begun: &'p BegunProcesses,
    pub calls: &'p Syscalls,
    pub spans: &'p Spans,
    pub has_threads: bool,
}

/// A list of suggested commands, without repetition.
struct Commands {
    all: Vec<String>,
    traces: String,
}

impl Commands {
    fn add(&mut self, words: &str) {
        let line = format!("strata {words} {}", self.traces);
        self.add_line(line);
    }

    fn add_line(&mut self, line: String) {
        if !self.all.contains(&line) {
            self.all.push(line);
        }
    }
}

/// Returns the commands to suggest, that for the longest waits first.
pub fn next(parts: &NextParts<'_>) -> Vec<String> {
    let mut commands = Commands { all: Vec::new(), traces: parts.traces.words() };
    causes(parts, &mut commands);
    let mut add = |words: &str| commands.add(words);
    let recorded = parts.recorded;
    if parts.calls.all.times.count > 0 {
        add("analyze syscalls");
    }
    if parts.has_threads {
        add("analyze threads");
        // Otherwise, kernel threads that always sleep would be listed first.
        match (recorded.stacks_of_waits, parts.has_command) {
            (true, true) => add("analyze threads --by stack --mine"),
            (true, false) => add("analyze threads --by stack"),
            (false, _) => {}
        }
    }
    if wants_cpu(parts) {
        add("analyze cpu");
    }
    let names: BTreeSet<&str> = parts.calls.rows.iter().map(|row| &*row.name).collect();
    if names.iter().any(|name| is_of_files(parts.reader, name)) {
        add("analyze files");
    }
    if parts.spans.all.times.count > 0 {
        add("analyze spans");
    }
    let is_there = |line: &String| line.starts_with("strata analyze wait ");
    let has_wait = commands.all.iter().any(is_there);
    if let Some(pid) = waiter(parts).filter(|_| !has_wait) {
        commands.add(&format!("analyze wait {pid}"));
    }
    for (is_there, report) in [
        (recorded.stacks, "analyze flame"),
        (recorded.allocations, "analyze memory"),
        (recorded.interrupts, "analyze irq"),
    ] {
        if is_there {
            commands.add(report);
        }
    }
    if commands.all.is_empty() {
        commands.add("stats");
    }
    commands.add("view");
    commands.all
}

/// Adds the commands that show why time was spent.
fn causes(parts: &NextParts<'_>, commands: &mut Commands) {
    let of_locks = parts.spans.rows.iter().any(|row| row.name.starts_with("pthread:"));
    let rows = || parts.blocked.rows.iter().take(ROWS).filter(|row| is_worth(row, parts.nanos));
    let longest = rows().map(Blocked::hurt).max().unwrap_or(0);
    // If a process wants a CPU for longer than any wait takes, the CPU is the cause.
    if wants_cpu(parts) && wanted(parts) > longest {
        commands.add("analyze cpu");
    }
    if is_storm(parts.begun) {
        commands.add("analyze cpu --by name");
    }
    for row in rows() {
        cause(parts, row, commands);
    }
    if of_locks {
        commands.add("analyze locks");
    }
    if let Some(line) = samples(parts, longest) {
        commands.add_line(line);
    }
}

/// Returns a command that records what a process computes, if computing took longer than any wait.
fn samples(parts: &NextParts<'_>, longest: u64) -> Option<String> {
    // A recorded command would have to be typed again.
    if parts.recorded.stacks || parts.has_command {
        return None;
    }
    let of_process = parts.about.iter().filter(|row| row.label.pid.is_some_and(|pid| pid > 0));
    let busy = of_process.max_by_key(|row| row.running)?;
    let is_worth = busy.running > longest.max(parts.nanos / COMPUTED_PART);
    let (pid, output) = (busy.label.pid?, typed(&beside(parts.traces, "cpu")));
    is_worth.then(|| {
        format!("strata record -p {pid} --sample 199 --duration 3s -o {output}; strata analyze flame {output}")
    })
}

/// Adds the command that explains what a row was blocked in.
fn cause(parts: &NextParts<'_>, row: &Blocked, commands: &mut Commands) {
    let woken_by = row.wait.woken_by.as_ref().map(|(label, _)| label);
    match row.kind {
        WaitKind::Mutex => commands.add("analyze locks"),
        WaitKind::Pause => {
            let thread = woken_by.and_then(|label| label.thread.as_deref()).unwrap_or_default();
            commands.add(&format!("analyze threads --of {}", shell_word(&clean(thread))));
        }
        WaitKind::Answer => commands.add("analyze files"),
        WaitKind::Disk if parts.recorded.requests => commands.add("analyze files --by process"),
        WaitKind::Disk => {
            let output = typed(&beside(parts.traces, "disk"));
            let line =
                format!("{DISK_RECORD} {output}; strata analyze files --by process {output}");
            commands.add_line(line);
        }
        WaitKind::Fault => commands.add("analyze memory"),
        WaitKind::Thread if row.wait.call.starts_with("futex") => commands.add("analyze locks"),
        WaitKind::Thread | WaitKind::Signal | WaitKind::Other | WaitKind::Sleep => {
            // Only one, since each is read on its own.
            let has_one = commands.all.iter().any(|line| line.starts_with("strata analyze wait "));
            if let Some(pid) = row.label.pid.or(row.longest).filter(|_| !has_one) {
                commands.add(&format!("analyze wait {pid}"));
            }
        }
        WaitKind::Work => {}
    }
}

/// Returns true if waits for a lock took so long that the summary suggests a command about them: a part of the `nanos`
/// of the report, or one of them alone.
fn is_worth(row: &Blocked, nanos: u64) -> bool {
    row.times.total > nanos / LOCKS_PART || row.times.max > LOCK_LONG
}

/// Returns a folder next to the trace that does not exist yet, for a recording of something else, such as the disk.
fn beside(traces: &TracesFlags, what: &str) -> PathBuf {
    let trace = traces.first().unwrap_or(Path::new("trace"));
    let text = trace.to_string_lossy();
    let base = text.trim_end_matches('/');
    let name = |number: u32| match number {
        1 => PathBuf::from(format!("{base}-{what}")),
        number => PathBuf::from(format!("{base}-{what}{number}")),
    };
    (1..100).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(1))
}

fn wanted(parts: &NextParts<'_>) -> u64 {
    parts.about.iter().map(|row| row.runnable()).max().unwrap_or(0)
}

fn wants_cpu(parts: &NextParts<'_>) -> bool {
    wanted(parts) > parts.nanos / WANTED_PART
}

/// Returns the process whose waits delay its program most, or else the process that was blocked longest.
fn waiter(parts: &NextParts<'_>) -> Option<i32> {
    let of_rows = parts.blocked.rows.iter().find_map(|row| row.label.pid);
    let blocked = || parts.about.iter().filter(|row| row.blocked > 0 && row.label.pid.is_some());
    of_rows.or_else(|| blocked().max_by_key(|row| row.blocked).and_then(|row| row.label.pid))
}

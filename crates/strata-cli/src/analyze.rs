//! The command `strata analyze`: reports on where the time went.
//!
//! ```text
//! flags ── run() of a report ─┬─ Reader ── Timeline ── counter (strata_analyze::reports) ── finish() ── report: numbers
//!                             │   TraceFlags::pass() in report_command.rs                                  │ document()
//!                             └─ messages on damage and blind spots    show() ◀── strata_report::Document ─┘
//!                                  text (report_text.rs), Markdown, JSON or CSV, through a pager on a terminal
//! ```
//!
//! Each report is a file with the same three parts. `run` reads the traces once through one counter, or a pair of
//! counters. `document` turns the result into tables, facts and notes as data. Text, JSON and CSV are made from this
//! document by code that all reports share, so a report has no renderer of its own (only `flame`
//! has: folded stacks and speedscope's JSON).
//!
//! - `report_command` has the shared flags, the pass, the messages and the exit status.
//! - `process_selection` has `--of` and `--mine`.
//! - `summary_next` turns a summary into commands to type; `wait_text` and `rows` have words and units.
//!
//! To add a report, add a counter to `strata_analyze::reports` (an observer of the timeline), a file here like
//! `locks.rs`, and a variant to [`Report`]. The golden trace (`tests/e2e/golden --write`) then shows what it says.
//!
//! Exit status: 0, 1 if the report is empty, 2 if a trace is damaged.

mod cpu;
mod diff;
mod files;
mod flame;
mod functions;
mod hidden_threads;
mod irq;
mod locks;
mod markdown;
mod memory;
mod network;
mod offcpu;
mod process_selection;
pub mod report_command;
pub mod report_text;
pub mod rows;
mod span_traces;
mod spans;
mod summary;
mod summary_follow;
mod summary_next;
mod summary_rows;
mod syscalls;
mod threads;
pub mod wait;
mod wait_text;
mod work;

use crate::exit_status::STOP_PATIENCE;
use crate::stdout;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use strata_session::stop::Stop;

/// Flags of `strata analyze`.
#[derive(Debug, Args)]
pub struct AnalyzeFlags {
    #[command(subcommand)]
    report: Report,
}

/// The report to make.
#[derive(Debug, Subcommand)]
enum Report {
    /// System calls: how many, how long, which failed, and the slowest with their arguments
    Syscalls(syscalls::SyscallsFlags),
    /// Threads: how long each ran, wanted a CPU and who had it, and was blocked in what
    #[command(visible_alias = "offcpu")]
    Threads(threads::ThreadsFlags),
    /// What a thread or a span of a program waited for, through those who woke it: the critical path
    Wait(wait::WaitFlags),
    /// Files, sockets, pipes and disks: bytes, how long that took, which failed, and the slowest
    #[command(visible_alias = "io")]
    Files(files::FilesFlags),
    /// Connections: who is connected to whom, bytes, how long it took to connect, segments sent again, dropped packets
    #[command(visible_alias = "tcp")]
    Network(network::NetworkFlags),
    /// Locks: who waited for which, how long, and who ended that
    Locks(locks::LocksFlags),
    /// Interrupts and softirqs: how many, how long, where, and whom they interrupted
    Irq(irq::IrqFlags),
    /// Work that the kernel put off: work items of its queues, timers and softirqs, by function, and how late
    #[command(visible_alias = "workqueues")]
    Work(work::WorkFlags),
    /// CPUs: who had them and when, how often they switched, how long they were idle
    Cpu(cpu::CpuFlags),
    /// Spans of programs, and between any two events: how many, how long, and the slowest with what they waited for
    Spans(spans::SpansFlags),
    /// Call stacks, or spans in each other, with their weights: functions, and flame graphs
    Flame(flame::FlameFlags),
    /// Memory: page faults, mappings, allocations and what is left of them by the calls that made them
    Memory(memory::MemoryFlags),
    /// What to know first, and what to type next
    Summary(summary::SummaryFlags),
    /// What takes longer in a second trace than in a first: calls, spans and waits for a CPU that changed beyond noise
    Diff(diff::DiffFlags),
}

/// Runs `strata analyze`, and returns the exit status.
pub fn run(flags: &AnalyzeFlags) -> Result<u8> {
    let stop = Stop::on_signals().context("analyze: cannot handle signals")?;
    // A pager on a terminal ends when its user closes it, who may want to see what was read.
    if !stdout::is_terminal() {
        stop.end_after(STOP_PATIENCE).context("analyze: cannot handle signals")?;
    }
    match &flags.report {
        Report::Syscalls(flags) => syscalls::run(flags, &stop),
        Report::Threads(flags) => match flags.by {
            threads::ByFlag::Stack | threads::ByFlag::WakerStack => offcpu::run(flags, &stop),
            _ => threads::run(flags, &stop),
        },
        Report::Wait(flags) => wait::run(flags, &stop),
        Report::Files(flags) => files::run(flags, &stop),
        Report::Network(flags) => network::run(flags, &stop),
        Report::Locks(flags) => locks::run(flags, &stop),
        Report::Irq(flags) => irq::run(flags, &stop),
        Report::Work(flags) => work::run(flags, &stop),
        Report::Cpu(flags) => cpu::run(flags, &stop),
        Report::Flame(flags) => flame::run(flags, &stop),
        Report::Memory(flags) => memory::run(flags, &stop),
        Report::Spans(flags) => spans::run(flags, &stop),
        Report::Summary(flags) if flags.follows() => summary_follow::run(flags, &stop),
        Report::Summary(flags) => summary::run(flags, &stop),
        Report::Diff(flags) => diff::run(flags, &stop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_of_a_report_tells_of_filter_only_if_it_takes_one() {
        let mut reports = AnalyzeFlags::augment_args(clap::Command::new("analyze"));
        let mut without = Vec::new();
        for report in reports.get_subcommands_mut() {
            let help = report.render_long_help().to_string();
            assert!(help.contains("--from <TIME>") && help.contains("Times (--from"), "{help}");
            let is_there = help.contains("-f, --filter");
            assert_eq!(is_there, help.contains("Filter (-f)"), "{help}");
            if !is_there {
                without.push(report.get_name().to_owned());
            }
        }
        // Those that refuse it.
        assert_eq!(without, ["threads", "locks", "cpu", "memory", "summary"]);
    }
}

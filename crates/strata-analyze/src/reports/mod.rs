//! Reports on how time was spent, computed from what a [`Timeline`](strata_timeline::Timeline) reports in one pass
//! over all records.
//!
//! ```text
//! Timeline ── Observer: a counter ── finish(world, by, wanted) ── a report: rows, sums, longest ones
//!              SyscallCounter, ThreadCounter, FileCounter, LockCounter, IrqCounter, CpuCounter, SpanCounter, ...
//! ```
//!
//! A counter is an [`Observer`](strata_timeline::Observer) that adds up while records are read, and knows only
//! numbers of threads. `finish` gives rows their names and order when all names are known, and leaves out what the
//! user did not select. A report has numbers and labels, no text: `strata-cli` and others make tables of it.
//!
//! | question | module |
//! |---|---|
//! | which calls, files, locks, interrupts took long | [`syscalls`], [`files`], [`locks`], [`irq`] |
//! | which work of the kernel was put off, and how long | [`work`] |
//! | who ran, wanted a CPU, was blocked | [`threads`], [`cpu`], [`offcpu`] |
//! | why was it blocked | [`blocked`] (all waits), [`wait`] (one critical path) |
//! | spans of programs, memory | [`spans`], [`memory`], [`malloc_sums`] |
//! | functions by samples or spans | [`flame`], [`functions`], [`frames`] |
//! | what changed between two traces | [`diff`] |
//!
//! Shared parts: `longest` keeps the longest of something in bounded memory, `row_limit` the rows that matter when a
//! trace has too many, [`Times`] sums lengths with a histogram, and [`Label`] names a process or thread. Every table
//! has a limit, and a report says what was left out.

pub mod blocked;
pub mod cpu;
pub mod cpu_power;
pub mod diff;
pub mod files;
pub mod flame;
pub mod frames;
pub mod functions;
pub mod irq;
pub mod kernel_locks;
mod lock_holders;
mod lock_names;
pub mod lock_waits;
pub mod locks;
mod longest;
pub mod malloc_sums;
pub mod memory;
#[cfg(test)]
mod more_tests;
pub mod network;
pub mod offcpu;
pub mod program_groups;
#[cfg(test)]
mod programs_tests;
mod recorded_kinds;
mod row_limit;
pub mod spans;
pub mod started_processes;
mod syscall_arguments;
pub mod syscalls;
#[cfg(test)]
mod tests;
pub mod threads;
mod virtual_cpus;
#[cfg(test)]
mod virtual_cpus_tests;
pub mod wait;
pub mod wait_starts;
pub mod wakings;
pub mod work;

pub use lock_names::{ExecutedProcesses, LockNames};
pub use longest::LongestLimit;
pub use recorded_kinds::{
    has_slow_calls_only, has_slow_spans_only, is_of_files, sampled_kinds, Recorded, SampledKinds,
};
pub use strata_report::{Histogram, Label, Times, QUANTILE_ERROR};
pub use syscall_arguments::{arguments, fields};

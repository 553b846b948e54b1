//! Reports on how time was spent, computed from what a [`Timeline`](strata_timeline::Timeline) reports in one pass over
//! all records.

pub mod blocked;
pub mod cpu;
pub mod diff;
pub mod files;
pub mod flame;
pub mod frames;
pub mod functions;
pub mod irq;
mod lock_holders;
mod lock_names;
pub mod lock_waits;
pub mod locks;
mod longest;
pub mod malloc_sums;
pub mod memory;
#[cfg(test)]
mod more_tests;
pub mod offcpu;
mod program_groups;
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

pub use lock_names::{ExecutedProcesses, LockNames};
pub use longest::LongestLimit;
pub use recorded_kinds::{has_slow_calls_only, has_slow_spans_only, is_of_files, Recorded};
pub use strata_report::{Histogram, Label, Times, QUANTILE_ERROR};
pub use syscall_arguments::{arguments, fields};

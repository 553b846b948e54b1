//! Where the time went: reports made of what a [`Timeline`](strata_timeline::Timeline) tells, in one pass over all
//! records of traces.

mod arguments;
pub mod cpu;
pub mod files;
pub mod flame;
mod frames;
pub mod functions;
mod histogram;
pub mod irq;
mod label;
mod left;
pub mod locks;
mod longest;
pub mod memory;
#[cfg(test)]
mod more_tests;
pub mod offcpu;
mod pass;
#[cfg(test)]
mod programs_tests;
mod recorded;
mod roles;
pub mod spans;
pub mod sums;
pub mod syscalls;
#[cfg(test)]
mod tests;
pub mod threads;
mod times;
mod virtual_cpus;
#[cfg(test)]
mod virtual_cpus_tests;
pub mod wait;

pub use arguments::{arguments, fields};
pub use histogram::{Histogram, QUANTILE_ERROR};
pub use label::Label;
pub use longest::Kept;
pub use pass::{pass, pass_on, Asked, Passed};
pub use recorded::{is_of_files, Recorded};
pub use roles::{idle_rules, span_roles};
pub use times::Times;

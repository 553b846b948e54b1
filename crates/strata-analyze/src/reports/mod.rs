//! Where the time went: reports made of what a [`Timeline`](strata_timeline::Timeline) tells, in one pass over all
//! records of traces.

mod arguments;
pub mod cpu;
pub mod files;
mod histogram;
pub mod irq;
mod label;
pub mod locks;
mod longest;
#[cfg(test)]
mod more_tests;
mod pass;
pub mod syscalls;
#[cfg(test)]
mod tests;
pub mod threads;
mod times;
pub mod wait;

pub use arguments::arguments;
pub use histogram::{Histogram, QUANTILE_ERROR};
pub use label::Label;
pub use pass::{pass, Asked, Passed};
pub use times::Times;

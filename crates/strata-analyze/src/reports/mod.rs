//! Where the time went: reports made of what a [`Timeline`](strata_timeline::Timeline) tells, in one pass over all
//! records of traces.

mod arguments;
mod histogram;
mod label;
mod pass;
pub mod syscalls;
#[cfg(test)]
mod tests;
pub mod threads;
pub mod wait;

pub use arguments::arguments;
pub use histogram::{Histogram, QUANTILE_ERROR};
pub use label::Label;
pub use pass::{pass, Asked, Passed};

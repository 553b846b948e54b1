//! Event records as people read them: a line for each, and one for both ends of a system call.
//!
//! ```text
//! 22:13:20.000000012 redis-server/18939   read(fd=8, buf=0x7f1c2d00, count=16384) = 36 <4.125us>
//! ```
//!
//! Workers make [`Unit`]s of what they read, each without knowing what was before: where a thread's name or the
//! begin of its call is in front of the unit, a mark stands in the text. [`Joiner`] puts the units together, in
//! order, and fills in what was missing.

mod call;
mod cut;
pub(crate) mod errors;
mod join;
mod key;
mod late;
mod lines;
mod result;
mod seed;
#[cfg(test)]
mod tests;
mod unit;
pub(crate) mod values;
mod who;

pub use join::Joiner;
pub use lines::{Short, WantedRecord};
pub use result::result_text;
pub use seed::Seed;
pub use unit::Unit;

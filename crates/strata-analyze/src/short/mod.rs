//! Event records for people: a line for each record, and one line for both ends of a system call.
//!
//! ```text
//! 22:13:20.000000012 redis-server/18939   read(fd=8, buf=0x7f1c2d00, count=16384) = 36 <4.125us>
//!
//! records of a part of the trace ── Short (lines) ── values: fields in few characters ──▶ Unit: text with marks    worker
//! Units, in order ── Joiner (join) ── names, open calls, files of descriptors ──▶ text                      one thread
//! ```
//!
//! Workers make [`Unit`]s of the records that they read, without knowledge of earlier ones. If a thread's name or
//! the begin of its call was before the unit, the text has a mark at that place. [`Joiner`] joins the units in
//! order, and fills in what was unknown. So the text does not depend on the number of workers: tests compare
//! both.
//!
//! A call's line stands where its entry is. It is held back until the exit is known, while later lines wait
//! behind it, in a bounded number; a call beyond that is written as `<unfinished ...>`, and its end as a line of
//! its own, as strace does. Arguments that were not in memory at the entry are recorded before the call returns
//! (`deferred_arguments`), and are put into the line.
//!
//! What was before the first record that is shown is read, too, but not written: [`Seed`] has the names of that
//! time.
//!
//! [`pipeline`](crate::pipeline) is the caller: it has the workers and the writer, for `strata view` and
//! everything else that prints records. `errors` uses the same results of calls for a report.

mod call_classes;
mod call_result;
mod completion_key;
mod deferrable_fields;
mod deferred_arguments;
pub mod errors;
mod initial_names;
mod join;
mod line_row;
mod line_width;
mod lines;
#[cfg(test)]
mod tests;
mod text_unit;
mod thread_column;
pub(crate) mod values;

pub use call_result::result_text;
pub use initial_names::Seed;
pub use join::Joiner;
pub use lines::{Short, WantedRecord};
pub use text_unit::Unit;

//! Code shared by the commands that read traces: `view`, `stats`, `export`, `analyze` and others. A flag that two of
//! them have is defined here once, so that it means the same.
//!
//! ```text
//! traces              which traces: paths, or -s SESSION
//! selection           which records: --filter, --from, --until, --last, --of; opens the reader and compiles the filter
//! imported_traces     files of other tracers, such as perf.data, rewritten as traces for as long as the command runs
//! followed_traces     the same of traces that are being recorded, here or at a relay
//! number_parser       numbers within limits, such as --threads
//! incomplete_traces   messages on recordings that were not completed, or that discarded records
//! limits              a message if a trace has more threads or names than a timeline distinguishes
//! ```
//!
//! A command flattens `TracesFlags` and `SelectionFlags` into its own flags, opens the traces with
//! `selection.open(&traces.paths()?)`, prints `incomplete_traces::messages`, and reads.
//!
//! ```text
//! #[command(flatten)] traces: TracesFlags, selection: SelectionFlags
//! let reader = selection.open(&traces.paths()?)      damage of metadata is reported, not fatal
//! … read …                                            Ctrl-C asks to stop, and what was read is shown
//! incomplete_traces::messages(..)                     what the output lacks, after the output
//! ```
//!
//! Nothing here prints data. A new command that reads traces takes all of it, so that a user finds the same flags
//! and the same warnings everywhere; a unit test compares the classes that recorders write with those that
//! readers know (docs/design/reading.md).

pub mod followed_traces;
pub mod imported_traces;
pub mod incomplete_traces;
pub mod limits;
pub mod number_parser;
#[cfg(test)]
mod recorded_classes_tests;
pub mod selection;
pub mod traces;

//! Code shared by the commands that read traces: flags that select traces and records, and messages on recordings that
//! did not come to their end.

pub mod followed_traces;
pub mod incomplete_traces;
pub mod limits;
pub mod number_parser;
#[cfg(test)]
mod recorded_classes_tests;
pub mod selection;
pub mod traces;

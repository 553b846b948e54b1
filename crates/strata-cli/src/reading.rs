//! Code shared by the commands that read traces: flags that select traces and records, and messages on recordings that
//! did not come to their end.

pub mod ending;
pub mod limits;
pub mod numbers;
#[cfg(test)]
mod recorded_classes_tests;
pub mod selection;
pub mod traces;

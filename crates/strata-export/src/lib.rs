//! Traces in the formats of other tools: Perfetto's, and an SQLite database.
//!
//! Both formats are made in one pass over a trace, with a timeline that interprets the records. This crate is separate,
//! so that programs that only read traces or make reports need neither an encoder of protocol buffers nor a database.
#![forbid(unsafe_code)]

#[cfg(test)]
#[path = "../../strata-analyze/src/hand_tests.rs"]
mod hand_tests;
pub mod perfetto;
pub mod sql;

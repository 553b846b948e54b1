//! Event records for people and other tools: as text, JSON, CSV, in Perfetto's format, as an SQLite database, and counted.
#![forbid(unsafe_code)]

mod ahead;
pub mod counters;
pub mod debug_info;
#[cfg(test)]
mod hand_tests;
pub mod length;
pub mod mine;
mod mix;
pub mod perfetto;
pub mod pipeline;
pub mod render;
pub mod reports;
pub mod short;
pub mod sql;
pub mod stats;

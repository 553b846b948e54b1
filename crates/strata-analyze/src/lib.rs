//! Event records for people and other tools: as text, JSON and CSV, in reports, and counted.
#![forbid(unsafe_code)]

pub mod counters;
pub mod debug_info;
pub mod derived;
#[cfg(test)]
mod hand_tests;
pub mod length;
pub mod mine;
pub mod mix;
pub mod pipeline;
pub mod render;
pub mod reports;
pub mod short;
pub mod stats;

//! Event records for people and other tools: as text, JSON and CSV, in reports, and counted.
#![forbid(unsafe_code)]

pub mod command_descendants;
pub mod counters;
pub mod debug_info;
pub mod derived_facts;
pub mod duration_text;
pub mod fast_hash;
#[cfg(test)]
mod hand_tests;
pub mod pipeline;
pub mod render;
pub mod reports;
pub mod short;
pub mod stats;

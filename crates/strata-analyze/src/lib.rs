//! Event records for people and other tools: as text, JSON, CSV, in Perfetto's format, and counted.
#![forbid(unsafe_code)]

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
pub mod stats;

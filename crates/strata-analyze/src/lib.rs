//! Event records for people and other tools: as text, JSON, CSV, in Perfetto's format, and counted.
#![forbid(unsafe_code)]

pub mod length;
pub mod perfetto;
pub mod pipeline;
pub mod render;
pub mod stats;

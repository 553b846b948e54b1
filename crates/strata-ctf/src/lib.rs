//! The Common Trace Format: 1.8 and 2 read, whoever wrote it, and written.
//!
//! A trace is a folder: the file `metadata`, and files of packets. Strata's own packets are a
//! [`packet::Header`] and then records, as a ring buffer's sub-buffer has them.
//!
//! [`cut`] writes chosen records of a trace as a smaller one.
//!
//! [`mod@write`] makes metadata and packet headers, and [`walk`] follows the records of a packet of our own
//! that is in no file yet. [`tsdl`] reads any trace's metadata, [`read`] its packets. [`end_mark`] says how a
//! recording ended.
#![forbid(unsafe_code)]

pub mod cut;
pub mod end_mark;
mod flags;
mod json;
pub mod kernel_symbols;
pub mod read;
pub mod state_dump;
pub mod tsdl;
pub mod walk;
pub mod write;

pub use strata_model as model;
pub use write::{environment, metadata, packet};

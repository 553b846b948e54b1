//! The Common Trace Format 1.8: metadata text and packet headers.
//!
//! A trace is a folder: the file `metadata`, and a file of packets for each stream. A packet is a
//! [`packet::Header`] and then records, as a ring buffer's sub-buffer has them.
#![forbid(unsafe_code)]

pub mod environment;
pub mod metadata;
pub mod packet;
mod tsdl;
pub mod walk;

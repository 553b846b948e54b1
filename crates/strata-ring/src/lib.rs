//! The consumer side of the ring buffer, safe to use from Rust.
//!
//! A *channel* is a piece of shared memory with one *stream* for each CPU. Producers write event records into a stream's
//! *sub-buffers*; a full sub-buffer, or one that was flushed, is a *packet*, which the one consumer of the stream takes as a
//! whole. The algorithm is that of the C headers in `ring/include`, which this crate compiles: nothing of it is written a second
//! time. `docs/design/ring.md` lists its invariants and what checks them.
//!
//! ```text
//!            Channel::format          producers write                 Stream::next        Packet::put
//! memory ───────────────────▶ channel ───────────────▶ sub-buffer full ───────────▶ Packet ───────────▶ free again
//!            Channel::open
//! ```
//!
//! # Reading
//! - [`Channel::format`] makes a channel in memory that another process will write; [`Channel::open`] opens an existing one.
//! - [`Stream::next`] takes the oldest whole packet, [`Packet::put`] releases its space to the producer. A packet that goes out of
//!   scope without `put` stays unread.
//! - [`Stream::scan`] copies what a stream holds at one moment and consumes nothing, for flight recorders. A
//!   [`View`] scans without being the consumer.
//! - [`Stream::poll`] tells whether there is a packet, and never waits. [`Stream::counters`] has what was written, discarded and
//!   overwritten.
//!
//! # Loss modes
//! With [`LossMode::Discard`] a producer that finds all sub-buffers full discards its new record. With [`LossMode::Overwrite`] it
//! overwrites the oldest packet, except the one that the consumer holds. Both are counted.
//!
//! # Hostile memory
//! The memory belongs to another process, which may write anything at any time. Sizes are copied, then the copy is checked;
//! bytes of packets leave the memory by system calls or copies, never as a reference. A hostile producer can only make its own
//! packets nonsense.
//!
//! # Threads
//! Each stream has one consumer at a time, on any thread: a [`Channel`] is `Send`, and its streams are borrowed from it. A
//! [`View`] may be used beside the consumer.
//!
//! # Example
//! Writes all packets of one stream to a file:
//!
//! ```no_run
//! use strata_ring::{Channel, Mapping};
//! # fn f(memfd: std::os::fd::OwnedFd, out: std::fs::File) -> Result<(), Box<dyn std::error::Error>> {
//! use std::os::fd::AsFd;
//! let mut channel = Channel::open(Mapping::new(memfd.as_fd(), 0, 1 << 20)?)?;
//! let mut at = 0;
//! while let Some(packet) = channel.stream(0)?.next()? {
//!     at += packet.write_to(out.as_fd(), at, b"header", packet.info().header_bytes)?;
//!     packet.put();
//! }
//! # Ok(())
//! # }
//! ```
#![deny(missing_docs, clippy::missing_errors_doc)]
#![cfg(target_os = "linux")]

mod channel;
mod description;
mod error;
mod ffi;
#[cfg(test)]
mod map_tests;
mod mapping;
mod pin;
pub mod producer;
mod scan;
#[cfg(test)]
mod scan_tests;
mod stream;
#[cfg(test)]
mod tests;

pub use channel::{channel_bytes, stream_layout, Attr, Channel};
pub use description::Publish;
pub use error::Error;
pub use mapping::{Mapping, StreamLayout};
pub use pin::{Pin, Pins};
pub use scan::{Order, Overwritten, Scan, SeenPacket, View};
pub use strata_model::LossMode;
pub use stream::{write_both, Counters, Info, Packet, Poll, Stream};

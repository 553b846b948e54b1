//! The consumer side of the ring buffer library, safe to use from Rust.
//!
//! The algorithm is that of `ring/include`, compiled from C; nothing of it is done again here. A
//! [`Channel`] is made in memory that another process will write ([`Channel::format`]), or found
//! there ([`Channel::open`]). Each of its streams has one consumer: [`Stream::next`] takes a whole
//! packet, [`Packet::put`] gives its space back. [`Stream::walk`] copies all that is there and consumes nothing.
//!
//! The memory is another process', and hostile: sizes are checked copies, and bytes of packets leave
//! it by system calls or copies, never as a reference. What a producer can do is make its own
//! packets nonsense.
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
#![cfg(target_os = "linux")]

mod channel;
mod description;
mod error;
mod ffi;
#[cfg(test)]
mod map_tests;
mod mapping;
mod pin;
#[cfg(any(test, feature = "producer"))]
pub mod producer;
mod stream;
#[cfg(test)]
mod tests;
mod walk;
#[cfg(test)]
mod walk_tests;

pub use channel::{channel_bytes, stream_layout, Attr, Channel};
pub use description::Publish;
pub use error::Error;
pub use mapping::{Mapping, StreamLayout};
pub use pin::{Pin, Pins};
pub use strata_model::LossMode;
pub use stream::{write_both, Counters, Info, Packet, Poll, Stream};
pub use walk::{Order, Overwritten, SeenPacket, View, Walk};

//! Writes streams of packets to files: one [`Collector`] moves the packets of one channel of one process into the
//! folder of its trace, without decoding a record.
//!
//! ```text
//! FOLDER/metadata      whole at any time: replaced, never written over
//! FOLDER/.strata-end   how the recording ended: there from the begin on, written over once
//! FOLDER/channel0_0    packets of CPU 0, created with the first one
//! FOLDER/channel0_1    packets of CPU 1
//! ```
//!
//! A packet in a file is a [`strata_ctf::packet::Header`] and the records of one sub-buffer, or of a part
//! of it that was cut while it was being filled ([`Collector::flush`]). In each file, whatever the
//! producer wrote into its memory:
//!
//! - packets are in the order of their positions, each byte of a stream at most once;
//! - times never go back from packet to packet, and a packet does not end before it begins;
//! - the discarded count never goes down;
//! - what is there is whole packets, each begins at a multiple of 8 bytes, and the last one is padded to
//!   the end of a page (not in a snapshot). That holds at any moment, should this program be killed: `files.rs`
//!   says how.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod adopted_buffers;
mod buffer_history;
mod channel;
mod collector;
mod directory;
mod end_mark_writer;
mod error;
mod files;
mod growing_metadata;
mod last_packet;
mod output;
mod physical_addresses;
mod pump;
pub mod ring_recovery;
mod sink;
mod snapshot;
mod source;
mod stats;
mod stream_file;
mod streams;
#[cfg(test)]
mod track_tests;

pub use adopted_buffers::{LastPacket, LeftFiles};
pub use channel::{Guest, Listener, Relay};
pub use collector::{Collector, ProducerState, TraceIdentity};
pub use directory::Directory;
pub use end_mark_writer::{begin_mark, end_mark, remove_mark};
pub use error::{is_passing, Error};
pub use files::{ClosedFiles, Files};
pub use growing_metadata::Kinds;
pub use last_packet::cut_packets;
pub use output::Output;
pub use pump::{Arrival, Keep, Pump, PumpOrder, ENDED_MAX};
pub use sink::{Body, HiddenStreams, MemoryReader, Sink, WrittenTrace};
pub use snapshot::{HeldTrace, SnapshotSpan};
pub use source::{
    BufferState, Finish, Grown, Monitor, OpenedTrace, ProgramSource, Source, TellClasses,
    TracePoint, WriteBefore,
};
pub use stats::{counts_of, StreamStats};
pub use strata_model::{Counts, Discarded, StreamLoss};
pub use streams::Streams;

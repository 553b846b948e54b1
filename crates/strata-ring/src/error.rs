//! What can go wrong with a channel.

use std::io;

/// Why a channel or a stream of it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The part of the file to be mapped does not begin at a page, or is empty or too large.
    #[error("channel: {bytes} bytes at offset {offset} cannot be mapped: not a whole number of pages of {page} bytes")]
    Range {
        /// Where it was to begin \[byte\].
        offset: u64,
        /// Its size \[byte\].
        bytes: u64,
        /// Size of a page \[byte\].
        page: u64,
    },
    /// The file ends before the part of it that was to be mapped.
    #[error("channel: it ends at byte {end} of a file of {size} bytes")]
    FileTooShort {
        /// Where the part was to end \[byte\].
        end: u64,
        /// The file's size \[byte\].
        size: u64,
    },
    /// Streams were to be mapped from the values of a map, each of them smaller than a stream.
    #[error("channel: a stream needs {stride_bytes} bytes, a value of its map has {value_bytes}")]
    Value {
        /// Size of a stream \[byte\].
        stride_bytes: u64,
        /// Size of a value \[byte\].
        value_bytes: u64,
    },
    /// The system did not map it.
    #[error("channel: {bytes} bytes at offset {offset} cannot be mapped: {source}")]
    Map {
        /// Where it was to begin \[byte\].
        offset: u64,
        /// Its size \[byte\].
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A value of [`Attr`](crate::Attr) is outside its limits; the text has value and limit.
    #[error("{0}")]
    Attr(String),
    /// The memory is no channel, or one whose description contradicts itself; the text says where.
    #[error("{0}")]
    Header(String),
    /// The mapping is smaller than the channel; the text has both sizes.
    #[error("{0}")]
    NoRoom(String),
    /// This process has no memory to describe the channel or to copy from it.
    #[error("{0}")]
    NoMemory(String),
    /// There is no such stream.
    #[error("stream {stream}: the channel has {nr_streams}")]
    NoStream {
        /// The number asked for.
        stream: u32,
        /// Streams of the channel.
        nr_streams: u32,
    },
    /// A stream's sub-buffer table is damaged: nothing can be read.
    #[error("stream {stream}: its sub-buffer table is damaged, nothing of it can be read")]
    Table {
        /// The stream.
        stream: u32,
    },
    /// A packet's description is damaged; the packet was skipped.
    #[error("stream {stream}: the packet at position {position} is damaged, skipped it")]
    Packet {
        /// The stream.
        stream: u32,
        /// The packet's first byte \[byte since stream creation\].
        position: u64,
    },
    /// Asked to flush a stream that only its producers can flush.
    #[error("stream {stream}: only its own CPU can flush it")]
    NotFlushable {
        /// The stream.
        stream: u32,
    },
    /// The barrier in front of a packet was refused: nothing was read.
    #[error("stream {stream}: its CPU could not be asked for a memory barrier: {source}")]
    Barrier {
        /// The stream.
        stream: u32,
        /// What the system said.
        source: io::Error,
    },
    /// A producer went on in the same sub-buffer each time the flush tried.
    #[error("stream {stream}: could not be flushed, its producer was quicker each time")]
    FlushBusy {
        /// The stream.
        stream: u32,
    },
}

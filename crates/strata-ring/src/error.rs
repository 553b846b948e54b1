//! Errors of channels and streams.

use std::io;

/// Reason why a channel or one of its streams cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The part of the file to be mapped does not begin at a page, or is empty or too large.
    #[error("channel: {bytes} bytes at offset {offset} cannot be mapped: not a whole number of pages of {page} bytes")]
    Range {
        /// Requested offset in the file \[byte\].
        offset: u64,
        /// Requested size of the mapping \[byte\].
        bytes: u64,
        /// Size of a page \[byte\].
        page: u64,
    },
    /// The file ends before the part of it that was to be mapped.
    #[error("channel: it ends at byte {end} of a file of {size} bytes")]
    FileTooShort {
        /// Requested end of the part \[byte\].
        end: u64,
        /// The file's size \[byte\].
        size: u64,
    },
    /// The values of a map are smaller than the streams that are to be mapped from them.
    #[error("channel: a stream needs {stride_bytes} bytes, a value of its map has {value_bytes}")]
    Value {
        /// Size of a stream \[byte\].
        stride_bytes: u64,
        /// Size of a value \[byte\].
        value_bytes: u64,
    },
    /// The system refused to map the memory.
    #[error("channel: {bytes} bytes at offset {offset} cannot be mapped: {source}")]
    Map {
        /// Requested offset in the file \[byte\].
        offset: u64,
        /// Requested size of the mapping \[byte\].
        bytes: u64,
        /// Error of the system call.
        source: io::Error,
    },
    /// A value of [`Attr`](crate::Attr) is outside its limits; the text has value and limit.
    #[error("{0}")]
    Attr(String),
    /// The memory is no channel, or its header contradicts itself; the text describes the contradiction.
    #[error("{0}")]
    Header(String),
    /// The mapping is smaller than the channel; the text has both sizes.
    #[error("{0}")]
    NoRoom(String),
    /// This process has no memory to describe the channel or to copy from it.
    #[error("{0}")]
    NoMemory(String),
    /// The channel has no such stream.
    #[error("stream {stream}: the channel has {nr_streams}")]
    NoStream {
        /// The requested number of a stream.
        stream: u32,
        /// Number of streams in the channel.
        nr_streams: u32,
    },
    /// A stream's sub-buffer table is damaged, so that nothing can be read.
    #[error("stream {stream}: its sub-buffer table is damaged, nothing of it can be read")]
    Table {
        /// Number of the stream.
        stream: u32,
    },
    /// A packet's description is damaged; the packet was skipped.
    #[error("stream {stream}: the packet at position {position} is damaged, skipped it")]
    Packet {
        /// Number of the stream.
        stream: u32,
        /// Position of the packet's first byte \[byte since stream creation\].
        position: u64,
    },
    /// The stream cannot be flushed from here, since only its producers can do that.
    #[error("stream {stream}: only its own CPU can flush it")]
    NotFlushable {
        /// Number of the stream.
        stream: u32,
    },
    /// The barrier before a packet was refused, so that nothing was read.
    #[error("stream {stream}: its CPU could not be asked for a memory barrier: {source}")]
    Barrier {
        /// Number of the stream.
        stream: u32,
        /// Error of the system call.
        source: io::Error,
    },
    /// A producer wrote to the same sub-buffer each time the flush tried.
    #[error("stream {stream}: could not be flushed, its producer was quicker each time")]
    FlushBusy {
        /// Number of the stream.
        stream: u32,
    },
}

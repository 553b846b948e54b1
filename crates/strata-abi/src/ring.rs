//! `strata/abi/ring.h`: a ring buffer channel in memory.
//!
//! Fields that several programs access while they run are atomics. The others are written before
//! they are published, but by a program that is not trusted: copy a struct out through a raw
//! pointer, then validate the copy. All values are in the byte order of the machine.

use core::sync::atomic::AtomicU64;

/// Value of a channel's first field. Memory with any other value holds no channel, or a channel of a machine with
/// the other byte order.
pub const MAGIC: u64 = 0x5354_5241_5441_52ff;
/// Version of the whole layout; any other is refused.
pub const VERSION: u32 = 1;

/// Size of the channel header, and alignment of each stream and of its data \[byte\].
pub const PAGE: u32 = 4096;

pub const SUBBUF_BYTES_MIN: u32 = 32;
pub const SUBBUF_BYTES_MAX: u64 = 1 << 30;
/// Fewest sub-buffers of a stream.
pub const NR_SUBBUFS_MIN: u32 = 2;
/// Most sub-buffers of a stream.
pub const NR_SUBBUFS_MAX: u32 = 32768;
/// Most streams of a channel.
pub const NR_STREAMS_MAX: u32 = 8192;
/// Bytes at the end of a sub-buffer that no record uses.
pub const TAIL_BYTES: u32 = 8;

/// [`Channel::loss_mode`]: a record that finds no room is discarded.
pub const DISCARD: u32 = 0;
/// [`Channel::loss_mode`]: a record that finds no room overwrites the oldest packet.
pub const OVERWRITE: u32 = 1;

/// [`Channel::publish`]: a record can be read when it has been committed.
pub const BY_COMMIT: u32 = 0;
/// [`Channel::publish`]: records below the write position can be read.
pub const BY_POSITION: u32 = 1;

/// [`Subbuf::entry`]: mask of the frame index.
pub const ENTRY_FRAME: u64 = 0xffff;
/// [`Subbuf::entry`]: writers are using the frame.
pub const ENTRY_HELD: u64 = 0x1_0000;
/// [`Subbuf::entry`]: position of the tag.
pub const ENTRY_TAG_SHIFT: u32 = 17;

/// `struct strata_abi_ring_channel`, at offset 0 of the mapping. Written once by the creator.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Channel {
    /// [`MAGIC`], written last.
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// [`DISCARD`] or [`OVERWRITE`].
    pub loss_mode: u32,
    /// [`BY_COMMIT`] or [`BY_POSITION`].
    pub publish: u32,
    /// Number of streams that follow the header.
    pub nr_streams: u32,
    /// Size of a sub-buffer, a power of two \[byte\].
    pub subbuf_bytes: u64,
    /// Sub-buffers of each stream, a power of two.
    pub nr_subbufs: u32,
    /// Reserved at the start of each sub-buffer \[byte\].
    pub header_bytes: u32,
    /// Distance from one stream to the next \[byte\].
    pub stream_stride: u64,
    /// Size of the whole mapping \[byte\].
    pub total_bytes: u64,
    /// Alignment of each record \[byte\].
    pub record_align: u32,
    /// If 1, one buffer serves all CPUs.
    pub global: u32,
    /// Write position at which the stream began \[byte\].
    pub start_position: u64,
}

/// `struct strata_abi_ring_stream`: positions \[byte since creation\] and counters of one stream.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Stream {
    /// End of the reserved bytes; for [`BY_POSITION`], of the published ones.
    pub write_count: AtomicU64,
    /// Records written; [`BY_COMMIT`]: those of delivered packets.
    pub records: AtomicU64,
    /// A whole timestamp at or before each later record \[clock unit\].
    pub full_timestamp: AtomicU64,
    /// [`BY_POSITION`]: timestamp of the last record, or of the record being written \[clock unit\].
    pub last_timestamp: AtomicU64,
    /// [`BY_POSITION`]: where records of the open sub-buffer must end, or less.
    pub limit: AtomicU64,
    /// [`BY_POSITION`]: what is added to a write position of the open sub-buffer to get its place, as an offset from
    /// the memory of stream 0 \[byte\].
    pub frame: AtomicU64,
    /// Fills the cache line.
    pub reserved0: [u64; 2],
    /// Records discarded because no sub-buffer was free.
    pub discarded_full: AtomicU64,
    /// Records discarded because they are larger than a sub-buffer.
    pub discarded_too_big: AtomicU64,
    /// Records discarded because their sub-buffer still held an incomplete record of the previous lap.
    pub discarded_nested: AtomicU64,
    /// Records written and then reclaimed.
    pub overwritten_records: AtomicU64,
    /// Packets written and then reclaimed.
    pub overwritten_packets: AtomicU64,
    /// Slots that became padding.
    pub cancelled: AtomicU64,
    /// Records discarded because their CPU has no stream; counted in stream 0 only.
    pub discarded_no_stream: AtomicU64,
    /// Fills the cache line.
    pub reserved1: [u64; 1],
    /// Position up to which the consumer has released packets.
    pub read_count: AtomicU64,
    /// 1 while the consumer sleeps.
    pub waiting: AtomicU64,
    /// Count of wake-ups; the low half is the futex word.
    pub wake_sequence: AtomicU64,
    /// 1 once no more records will come.
    pub finalized: AtomicU64,
    /// Records overwritten while the consumer held their packet.
    pub reclaimed_records: AtomicU64,
    /// Packets overwritten while the consumer held them.
    pub reclaimed_packets: AtomicU64,
    /// Fills the cache line.
    pub reserved2: [u64; 2],
}

#[repr(C)]
#[derive(Debug, Default)]
pub struct Subbuf {
    /// `{records:32 | bytes:32}` committed in this lap.
    pub commit: AtomicU64,
    /// End position of the last lap that was delivered \[byte\].
    pub published: AtomicU64,
    /// Frame index, held flag and tag; see [`ENTRY_FRAME`], [`ENTRY_HELD`], [`ENTRY_TAG_SHIFT`].
    pub entry: AtomicU64,
    /// [`BY_COMMIT`]: everything of this lap below it is committed \[byte\].
    pub committed: AtomicU64,
}

/// `struct strata_abi_ring_frame`: metadata of the packet in a frame.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Frame {
    /// Write position at which the packet begins \[byte\].
    pub position: u64,
    /// Time at which the packet was opened \[clock unit\].
    pub timestamp_begin: u64,
    /// Time at which the packet was closed \[clock unit\].
    pub timestamp_end: u64,
    /// Size of the packet with its header, without the padding at its end \[byte\].
    pub content_bytes: u64,
    /// Number of records in the packet.
    pub records: u64,
    /// [`BY_POSITION`]: value of [`Stream::records`] when the packet was opened.
    pub records_before: u64,
    /// Records discarded for any reason since the stream was created, at close.
    pub discarded: u64,
    pub reserved: u64,
}

//! Errors that keep a trace from being opened, and damage that is found while it is read.

use crate::model::printable;
use crate::read::metadata::MetadataError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Reasons why a trace cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The caller gave no path.
    #[error("no trace is named. Name a trace's folder, or one with traces below it")]
    NoPath,
    /// The path does not exist.
    #[error("{}: there is no such trace. Look for a typing error in the path", path.display())]
    Missing {
        /// Path that was given.
        path: PathBuf,
    },
    /// The path leads to a file, or to something else that is not a folder.
    #[error(
        "{}: it is no folder; a trace is a folder with a file 'metadata'. Name that folder",
        path.display()
    )]
    NoFolder {
        /// Path that was given.
        path: PathBuf,
    },
    /// The folder has no traces.
    #[error(
        "{}: no trace in it or below it: none of {folders} folders has a file 'metadata'",
        path.display()
    )]
    NoTrace {
        /// Path that was given.
        path: PathBuf,
        /// The number of folders below the one that was searched.
        folders: usize,
    },
    /// A clock offset was given for a trace that was not found.
    #[error(
        "a clock offset is for the trace '{name}', and none has this name or folder. `strata list` shows \
         the traces that are there"
    )]
    NoTraceOf {
        /// Name or folder of the trace that was given.
        name: String,
    },
    /// The packets of a stream have no times, so the stream cannot be compared with others.
    #[error(
        "{}: the packets of stream '{stream}' do not say when they begin and end, so there is no \
         intersection with other streams. Use --from and --until",
        path.display()
    )]
    NoTimes {
        /// Folder of the trace.
        path: PathBuf,
        /// Name of the stream.
        stream: String,
    },
    /// The streams do not overlap in time, so that their intersection is empty.
    #[error(
        "{}: there is no time at which all of its streams are active. Leave out --stream-intersection",
        path.display()
    )]
    NoIntersection {
        /// Folder of the trace.
        path: PathBuf,
    },
    /// The folder has too many folders below it to search for traces.
    #[error(
        "{}: more than {limit} folders below it. Name a folder nearer to the trace",
        path.display()
    )]
    TooManyFolders {
        /// Path that was given.
        path: PathBuf,
        /// The greatest number of folders that are searched.
        limit: usize,
    },
    /// The system refused to read a file or folder.
    #[error("{}: it cannot be read: {source}", path.display())]
    Unreadable {
        /// The folder or file.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// The metadata of the only trace cannot be used.
    #[error("{}: {error}", path.display())]
    Metadata {
        /// Path of the metadata file.
        path: PathBuf,
        /// Error of the metadata.
        error: MetadataError,
    },
}

/// The key of a note: trace, stream, and whether the note is about the index. Only the first note with a key is
/// reported.
pub type NoteKey = (Arc<Path>, Option<Arc<str>>, bool);

/// A fault of a trace that was found while reading. All intact data are shown nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Folder of the trace.
    pub trace: Arc<Path>,
    /// The name of the stream's file; `None` if the damage concerns the whole trace.
    pub stream: Option<Arc<str>>,
    /// The packet's number in its stream, from 0.
    pub packet: Option<u64>,
    /// Begin of the damage \[byte of the file\].
    pub offset: Option<u64>,
    /// Kind of the damage, with its details.
    pub what: DamageKind,
}

/// Kinds of damage, with what was found and what was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// A trace's metadata cannot be used at all: the whole trace is skipped.
    Metadata {
        /// Error of the metadata.
        error: Arc<str>,
    },
    /// A part of the metadata cannot be used: records that need it are skipped.
    Description {
        /// Error of the metadata.
        error: Arc<str>,
    },
    /// A folder or a file cannot be read, from the offset on.
    Unreadable {
        /// Error of the system call.
        error: Arc<str>,
    },
    /// Bytes that are not a packet, with the fault of the header that should be there.
    Garbage {
        /// Damage of the header.
        header: HeaderDamage,
        /// The number of bytes that were skipped because of the damage.
        bytes: u64,
        /// True if the skipped bytes reach the end of the file, false if they reach the next packet.
        to_end: bool,
    },
    /// Bytes that are not packets, and too many to search all of them. `header` is the fault of the first header.
    NoPackets {
        /// Damage of the header.
        header: HeaderDamage,
        /// The number of bytes that were searched, or are holes of the file.
        looked: u64,
        /// The number of bytes that were skipped, to the end of the file.
        bytes: u64,
    },
    /// The records of the previous packet do not fit into it, and nothing says where the next packet begins: packets
    /// have no magic number, and their sizes do not lead to the file's end.
    NoFraming {
        /// The number of bytes that were skipped, to the end of the file.
        bytes: u64,
    },
    /// The file ends within the packet. The records before the end are shown.
    Truncated {
        /// Size that the packet should have \[byte\]; the size of its content if the file ends even within the content.
        expected: u64,
        /// Size that was found \[byte\].
        found: u64,
    },
    /// A packet's size leads past the begin of the next packet. The packet is read up to there.
    PacketSize {
        /// Size in the packet's header \[byte\].
        size: u64,
        /// Size up to the next packet \[byte\].
        found: u64,
    },
    /// The padding of the previous packet contains another packet: the size of the previous packet is wrong.
    Padding {
        /// Size of the padding \[byte\].
        padding: u64,
        /// Size up to the next packet \[byte\].
        found: u64,
    },
    /// The count of discarded records is less than in the previous packet.
    DiscardedBack {
        /// Count of discarded records that was found.
        found: u64,
        /// Count in the previous packet.
        before: u64,
    },
    /// A packet's sequence number is not greater than that of the previous packet.
    SequenceBack {
        /// Sequence number of the packet.
        found: u64,
        /// Sequence number of the previous packet.
        before: u64,
    },
    /// A record cannot be decoded. The rest of the packet is skipped.
    Record {
        /// The error, as text.
        error: Arc<str>,
        /// The number of bytes that were skipped.
        bytes: u64,
    },
    /// A record is too long to be held in memory. The rest of the packet is skipped.
    TooLong {
        /// Size that the record has at least \[byte\].
        bytes: u64,
        /// The greatest size that is possible \[byte\].
        limit: u64,
    },
    /// A record's time is before that of the previous record, or before its packet's begin. The record is shown. Only
    /// the first such record of a packet is reported.
    TimeBack {
        /// Time of the record \[ns since 1970\].
        time: i64,
        /// Time of the previous record, or begin of the packet \[ns since 1970\].
        before: i64,
    },
    /// A record's time is after its packet's end. The record is shown. Only the first such record of a packet is
    /// reported.
    TimeBehindPacket {
        /// Time of the record \[ns since 1970\].
        time: i64,
        /// The packet's end \[ns since 1970\].
        end: i64,
    },
    /// A record's time is before its packet's begin, but not before that of the previous record. The record is shown.
    /// Only the first such record of a packet is reported.
    TimeBeforePacket {
        /// Time of the record \[ns since 1970\].
        time: i64,
        /// The packet's begin \[ns since 1970\].
        begin: i64,
    },
    /// A packet begins before the previous packet ends. It is shown in the order of the file.
    PacketOrder {
        /// Begin of the packet \[ns since 1970\].
        begin: i64,
        /// End of the previous packet \[ns since 1970\].
        end: i64,
    },
    /// A packet ends before it begins. Its records are shown.
    PacketTimes {
        /// Begin of the packet \[ns since 1970\].
        begin: i64,
        /// End of the packet \[ns since 1970\].
        end: i64,
    },
    /// A packet's header names another stream than that of its file. The packet is shown as part of the file's stream.
    OtherStream {
        /// Class and id of the stream, as the packet's header says.
        found: (u64, Option<u64>),
        /// Class and id of the file's stream.
        expected: (u64, Option<u64>),
    },
    /// The file ends within a packet that is still being written: a process has the file open for writing.
    Growing {
        /// Size of the part that was found \[byte\].
        found: u64,
    },
    /// The tracer's index has packets that are not in the file.
    Cut {
        /// Number of packets in the index.
        packets: u64,
        /// End of the last packet, as the index says \[byte of the file\].
        expected: u64,
        /// Size of the file \[byte\].
        found: u64,
    },
    /// The tracer's index has packets of a file that does not exist.
    NoFile {
        /// Number of packets in the index.
        packets: u64,
        /// Size of these packets \[byte\].
        bytes: u64,
    },
    /// The tracer's index cannot be used. Packets are found without it.
    Index {
        /// The error, as text.
        error: Arc<str>,
    },
    /// All times of a clock are before 1677 or after 2262. They are shown as cycles.
    NoDates {
        /// Name of the clock.
        clock: Arc<str>,
        /// The time at which the clock began \[s since 1970\].
        offset: i64,
    },
    /// A time is before 1677 or after 2262. It is shown as cycles. Only the first such time of a packet is reported.
    NoDate {
        /// Name of the clock.
        clock: Arc<str>,
        /// The time \[cycle of the clock\].
        cycles: u64,
    },
    /// The clocks of two traces cannot be compared. Both traces are shown by their time since 1970.
    Clocks {
        /// Folder of the other trace.
        other: Arc<Path>,
    },
}

/// Reasons why bytes are not the header of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderDamage {
    /// The header or the packet's context is incomplete, or cannot be decoded.
    Unreadable {
        /// The error, as text.
        error: Arc<str>,
    },
    /// The file ends within the packet's header.
    Short {
        /// Size of the part that was found \[byte\].
        found: u64,
    },
    /// The header does not begin with the magic number.
    Magic {
        /// Number that was found.
        found: u64,
    },
    /// The header has the UUID of another trace.
    Uuid {
        /// UUID that was found.
        found: crate::model::Uuid,
        /// UUID of the trace.
        expected: crate::model::Uuid,
    },
    /// No stream class has the id that the header gives.
    StreamClass {
        /// Id that was found; `None` if the header has none.
        found: Option<u64>,
    },
    /// The size of the content exceeds the size of the packet.
    Content {
        /// Size of the content \[bit\].
        content: u64,
        /// Size of the packet \[bit\].
        packet: u64,
    },
    /// The size of the content is less than that of the header.
    ContentSize {
        /// Size of the content \[bit\].
        content: u64,
        /// Size of header and context \[bit\].
        head: u64,
    },
    /// The packet's size is not a number of whole bytes, or less than the header.
    Size {
        /// Size of the packet \[bit\].
        packet: u64,
        /// Size of header and context \[bit\].
        head: u64,
    },
}

/// The greatest difference between the times of a packet's bounds and of its records that counts as rounding, since
/// tracers take both separately \[ns\].
const ROUNDING: u64 = 1_000_000;

impl Damage {
    /// Returns whether no event is missing because of the damage.
    #[must_use]
    pub fn is_remark(&self) -> bool {
        matches!(self.what, DamageKind::Clocks { .. } | DamageKind::DiscardedBack { .. })
            || self.is_note()
    }

    /// Returns the key under which damages of one kind are combined into one note.
    #[must_use]
    pub fn note_key(&self) -> NoteKey {
        let is_index = matches!(self.what, DamageKind::Index { .. });
        (Arc::clone(&self.trace), self.stream.clone(), is_index)
    }

    /// Returns whether the damage only concerns data about events, such as the bounds of packets or an index, and all
    /// events are shown in order. One such note is enough for a stream.
    #[must_use]
    pub fn is_note(&self) -> bool {
        match self.what {
            DamageKind::PacketOrder { .. }
            | DamageKind::Growing { .. }
            | DamageKind::Index { .. } => true,
            DamageKind::TimeBehindPacket { time, end: bound }
            | DamageKind::TimeBeforePacket { time, begin: bound } => {
                time.abs_diff(bound) <= ROUNDING
            }
            DamageKind::SequenceBack { found, before } => found == before,
            _ => false,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trace '{}'", self.trace.display())?;
        if let Some(stream) = &self.stream {
            write!(f, ", stream '{stream}'")?;
        }
        if let Some(packet) = self.packet {
            write!(f, ", packet {packet}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, " (offset {offset:#x})")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DamageKind as Kind;
        match self {
            Kind::Metadata { error } => write!(f, "{error}. Skipped this trace"),
            Kind::Description { error } => {
                write!(f, "{error}. What needs it is skipped")
            }
            Kind::Unreadable { error } => {
                write!(f, "it cannot be read: {error}. Skipped the rest of it")
            }
            Kind::Garbage { header, bytes, to_end } => {
                let to = if *to_end { "the end of the file" } else { "the next packet" };
                write!(f, "{header}. Skipped {} up to {to}", BytesInWords(*bytes))
            }
            Kind::NoPackets { header, looked, bytes } => write!(
                f,
                "{header}. No packet begins in the next {}: skipped the {} up to the end of the file, \
                 which may have some",
                BytesInWords(*looked),
                BytesInWords(*bytes)
            ),
            Kind::NoFraming { bytes } => write!(
                f,
                "the records of the packet in front do not fit into it, packets have no magic number, and their \
                 sizes do not lead to the end of the file: where a packet begins is unknown. Skipped the file's last {}",
                BytesInWords(*bytes)
            ),
            Kind::Truncated { expected, found } => write!(
                f,
                "the file ends in it: {found} of {expected} bytes are there. \
                 Its whole event records are shown"
            ),
            Kind::PacketSize { size, found } => write!(
                f,
                "packet size {size} bytes, but the next packet begins after {found}. \
                 Read up to that"
            ),
            Kind::Padding { padding, found } => write!(
                f,
                "in front of it are {padding} bytes of padding, but a packet begins after {found}. \
                 Went back to that"
            ),
            Kind::DiscardedBack { found, before } => write!(
                f,
                "{found} discarded event records so far, {before} in the packet before. \
                 What was discarded between them is not known"
            ),
            Kind::SequenceBack { found, before } => write!(
                f,
                "it has number {found}, the packet before has {before}. It is shown where it is"
            ),
            Kind::Record { error, bytes } => {
                write!(f, "{error}. Skipped the packet's last {}", BytesInWords(*bytes))
            }
            Kind::TooLong { bytes, limit } => write!(
                f,
                "an event record of at least {bytes} bytes, the limit is {limit}. \
                 Skipped the rest of the packet"
            ),
            Kind::TimeBack { time, before } => {
                write!(f, "time goes back from {before} to {time} ns. The event is shown")
            }
            Kind::TimeBeforePacket { time, begin } => write!(
                f,
                "an event at {time} ns, before the packet's begin at {begin} ns. It is shown"
            ),
            Kind::TimeBehindPacket { time, end } => {
                write!(f, "an event at {time} ns, behind the packet's end at {end} ns. It is shown")
            }
            Kind::PacketOrder { begin, end } => write!(
                f,
                "it begins at {begin} ns, before the packet in front of it ends ({end} ns). \
                 It is shown where it is"
            ),
            Kind::PacketTimes { begin, end } => {
                write!(f, "it begins at {begin} ns and ends before that, at {end} ns. It is shown")
            }
            Kind::OtherStream { found, expected } => {
                f.write_str("it is of ")?;
                stream_identity(f, *found)?;
                f.write_str(" and in a file of ")?;
                stream_identity(f, *expected)?;
                f.write_str(". It is shown")
            }
            Kind::Growing { found } => write!(
                f,
                "it is still being written: {found} bytes are there. Its whole event records are shown"
            ),
            Kind::Cut { packets, expected, found } => write!(
                f,
                "the file has {found} bytes, but its index has {packets} packets in {expected}: \
                 the last ones are not there"
            ),
            Kind::NoFile { packets, bytes } => write!(
                f,
                "there is no such file, but its index has {packets} packets in {bytes} bytes: \
                 their event records are not shown"
            ),
            Kind::Index { error } => {
                write!(f, "its index is passed over: {error}. Packets are found without it")
            }
            Kind::NoDates { clock, offset } => write!(
                f,
                "clock {} begins {offset} s after 1970: its times are no dates, which are between \
                 1677 and 2262. Shown as cycles, and counted from its begin; \
                 --clock cycles has the time between events",
                printable(clock)
            ),
            Kind::NoDate { clock, cycles } => write!(
                f,
                "cycle {cycles} of clock {} is no date, which are between 1677 and 2262. \
                 Shown as cycles; --clock cycles has the time between events",
                printable(clock)
            ),
            Kind::Clocks { other } => write!(
                f,
                "its clock cannot be compared with that of trace '{}'. \
                 They are shown together by their time since 1970",
                other.display()
            ),
        }
    }
}

/// Formats a number of bytes as text, such as `1 byte`.
struct BytesInWords(u64);

impl fmt::Display for BytesInWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} byte{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

fn stream_identity(
    f: &mut fmt::Formatter<'_>,
    (class, id): (u64, Option<u64>),
) -> Result<(), fmt::Error> {
    match id {
        Some(id) => write!(f, "stream {id} of class {class}"),
        None => write!(f, "a stream of class {class}"),
    }
}

impl fmt::Display for HeaderDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderDamage::Unreadable { error } => write!(f, "{error}"),
            HeaderDamage::Short { found } => {
                write!(f, "the file ends in a packet's header, of which {found} bytes are there")
            }
            HeaderDamage::Magic { found } => write!(
                f,
                "no packet begins here: {found:#010x} instead of the magic number 0xc1fc1fc1"
            ),
            HeaderDamage::Uuid { found, expected } => {
                write!(
                    f,
                    "a packet of trace {found}, this is trace {expected}; --ignore-uuid reads it all \
                     the same"
                )
            }
            HeaderDamage::StreamClass { found: Some(id) } => {
                write!(f, "the metadata has no stream class of id {id}")
            }
            HeaderDamage::StreamClass { found: None } => {
                f.write_str("nothing says which of several stream classes the packet is of")
            }
            HeaderDamage::Content { content, packet } => {
                write!(f, "content size {content} bits exceeds packet size {packet} bits")
            }
            HeaderDamage::ContentSize { content, head } => {
                write!(f, "content size {content} bits is less than its header of {head} bits")
            }
            HeaderDamage::Size { packet, head } => write!(
                f,
                "packet size {packet} bits is not a number of whole bytes that holds its header \
                 of {head} bits"
            ),
        }
    }
}

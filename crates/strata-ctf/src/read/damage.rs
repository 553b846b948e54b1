//! What is wrong with a trace: what keeps it from being opened, and what was found on the way.

use crate::model::printable;
use crate::tsdl::MetadataError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Why there is nothing to read.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No path was given.
    #[error("no trace is named. Name a trace's folder, or one with traces below it")]
    NoPath,
    /// There is nothing at the path.
    #[error("{}: there is no such folder. Look for a typing error in the path", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// A file, or something else that is no folder.
    #[error(
        "{}: it is no folder; a trace is a folder with a file 'metadata'. Name that folder",
        path.display()
    )]
    NoFolder {
        /// The path.
        path: PathBuf,
    },
    /// A folder without traces.
    #[error(
        "{}: no trace in it or below it: none of {folders} folders has a file 'metadata'",
        path.display()
    )]
    NoTrace {
        /// The path.
        path: PathBuf,
        /// How many folders there are.
        folders: usize,
    },
    /// A clock's offset is for a trace that was not found.
    #[error(
        "a clock offset is for the trace '{name}', and none has this name or folder. `strata list` shows \
         the traces that are there"
    )]
    NoTraceOf {
        /// The name or folder.
        name: String,
    },
    /// A stream without times cannot be compared with others.
    #[error(
        "{}: the packets of stream '{stream}' do not say when they begin and end, so there is no \
         intersection with other streams. Use --from and --until",
        path.display()
    )]
    NoTimes {
        /// The trace's folder.
        path: PathBuf,
        /// The stream.
        stream: String,
    },
    /// Streams that are one behind the other.
    #[error(
        "{}: there is no time at which all of its streams are active. Leave out --stream-intersection",
        path.display()
    )]
    NoIntersection {
        /// The trace's folder.
        path: PathBuf,
    },
    /// A tree that is too large to look for traces in it.
    #[error(
        "{}: more than {limit} folders below it. Name a folder nearer to the trace",
        path.display()
    )]
    TooManyFolders {
        /// The path.
        path: PathBuf,
        /// So many are looked into.
        limit: usize,
    },
    /// The system refuses.
    #[error("{}: it cannot be read: {source}", path.display())]
    Unreadable {
        /// The folder or file.
        path: PathBuf,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The only trace's description says nothing.
    #[error("{}: {error}", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: MetadataError,
    },
}

/// Trace and stream of a note, and whether it is of the index: one is said of each.
pub type NoteKey = (Arc<Path>, Option<Arc<str>>, bool);

/// Something in a trace that is not as it should be; all that is intact is shown nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The trace's folder.
    pub trace: Arc<Path>,
    /// The name of the stream's file; `None`: it is of the whole trace.
    pub stream: Option<Arc<str>>,
    /// The packet's number in its stream, from 0.
    pub packet: Option<u64>,
    /// Where it begins \[byte of the file\].
    pub offset: Option<u64>,
    /// What it is.
    pub what: DamageKind,
}

/// What is damaged, what was found, and what was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// A trace's metadata cannot be used at all: the whole trace is skipped.
    Metadata {
        /// What is wrong with it.
        error: Arc<str>,
    },
    /// A part of the metadata cannot be used: records that need it are skipped.
    Description {
        /// What is wrong with it.
        error: Arc<str>,
    },
    /// A folder or a file cannot be read, from the offset on.
    Unreadable {
        /// What the system says.
        error: Arc<str>,
    },
    /// Bytes that are no packet; with what is wrong with the header that should be there.
    Garbage {
        /// What is wrong.
        header: HeaderDamage,
        /// So many were skipped.
        bytes: u64,
        /// To the next packet, or to the end of the file.
        to_end: bool,
    },
    /// Bytes that are no packet, and so many of them that no more were looked at; with what is wrong with the
    /// header that should be there.
    NoPackets {
        /// What is wrong.
        header: HeaderDamage,
        /// So many were looked at, or are holes of the file.
        looked: u64,
        /// So many were skipped, to the end of the file.
        bytes: u64,
    },
    /// The file ends in the packet; the records before its end are shown.
    Truncated {
        /// What the packet should have, or less if nothing but padding is not there \[byte\].
        expected: u64,
        /// What there is \[byte\].
        found: u64,
    },
    /// A packet's size leads past another packet; it ends where that begins.
    PacketSize {
        /// What its header says \[byte\].
        size: u64,
        /// What there is up to the next packet \[byte\].
        found: u64,
    },
    /// The packet in front has another one in its padding: its size is wrong.
    Padding {
        /// Size of the padding \[byte\].
        padding: u64,
        /// What there is of it up to the next packet \[byte\].
        found: u64,
    },
    /// The count of discarded records is less than in the packet before.
    DiscardedBack {
        /// The count.
        found: u64,
        /// That of the packet before.
        before: u64,
    },
    /// A packet's number is not greater than that of the packet before.
    SequenceBack {
        /// Its number.
        found: u64,
        /// That of the packet before.
        before: u64,
    },
    /// A record that cannot be followed; the rest of the packet is skipped.
    Record {
        /// The error, as text.
        error: Arc<str>,
        /// So many bytes were skipped.
        bytes: u64,
    },
    /// A record is longer than can be held in memory; the rest of the packet is skipped.
    TooLong {
        /// So many bytes it has at least.
        bytes: u64,
        /// So many it may have.
        limit: u64,
    },
    /// A record's time is before that of the record in front of it, or before its packet's. It is shown;
    /// others in the same packet are not reported.
    TimeBack {
        /// Its time \[ns since 1970\].
        time: i64,
        /// The time before \[ns since 1970\].
        before: i64,
    },
    /// A record's time is behind its packet's end. It is shown; others in the same packet are not
    /// reported.
    TimeBehindPacket {
        /// Its time \[ns since 1970\].
        time: i64,
        /// The packet's end \[ns since 1970\].
        end: i64,
    },
    /// A record's time is before its packet's begin, but not before that of the record in front. It is
    /// shown; others in the same packet are not reported.
    TimeBeforePacket {
        /// Its time \[ns since 1970\].
        time: i64,
        /// The packet's begin \[ns since 1970\].
        begin: i64,
    },
    /// A packet begins before the one in front of it ends. It is shown where it is.
    PacketOrder {
        /// Its begin \[ns since 1970\].
        begin: i64,
        /// The other's end \[ns since 1970\].
        end: i64,
    },
    /// A packet ends before it begins. It is shown.
    PacketTimes {
        /// Its begin \[ns since 1970\].
        begin: i64,
        /// Its end \[ns since 1970\].
        end: i64,
    },
    /// A packet says that it is of another stream than its file. It is shown with this file.
    OtherStream {
        /// Class and number of the stream, as the packet says.
        found: (u64, Option<u64>),
        /// Those of its file.
        expected: (u64, Option<u64>),
    },
    /// The file ends in a packet that is still being written: somebody has the file open for that.
    Growing {
        /// Bytes of the packet that were there.
        found: u64,
    },
    /// The tracer's index has packets that are not in the file.
    Cut {
        /// Packets of the index, and where the last one ends \[byte\].
        packets: u64,
        /// Likewise.
        expected: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// The tracer's index has packets of a file that is not there.
    NoFile {
        /// Packets that the index has of it.
        packets: u64,
        /// Bytes of them.
        bytes: u64,
    },
    /// The tracer's index cannot be used: packets are found without it.
    Index {
        /// The error, as text.
        error: Arc<str>,
    },
    /// All times of a clock are before 1677 or behind 2262: they are shown as cycles.
    NoDates {
        /// The clock's name.
        clock: Arc<str>,
        /// When it began \[s since 1970\].
        offset: i64,
    },
    /// A time that is before 1677 or behind 2262. It is shown as cycles; others in the same packet are not
    /// reported.
    NoDate {
        /// The clock's name.
        clock: Arc<str>,
        /// The time \[cycle\].
        cycles: u64,
    },
    /// The clocks of two traces cannot be compared; they are shown by their time since 1970.
    Clocks {
        /// The other trace.
        other: Arc<Path>,
    },
}

/// Why there is no packet where one should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderDamage {
    /// Its header or context is not all there, or cannot be read.
    Unreadable {
        /// The error, as text.
        error: Arc<str>,
    },
    /// The file ends in it.
    Short {
        /// Bytes that are there.
        found: u64,
    },
    /// It does not begin with the magic number.
    Magic {
        /// What is there.
        found: u64,
    },
    /// It is of another trace.
    Uuid {
        /// What is there.
        found: crate::model::Uuid,
        /// The trace's.
        expected: crate::model::Uuid,
    },
    /// There is no stream class of this id.
    StreamClass {
        /// What is there; `None`: nothing says which.
        found: Option<u64>,
    },
    /// More content than packet.
    Content {
        /// Size of the content \[bit\].
        content: u64,
        /// Size of the packet \[bit\].
        packet: u64,
    },
    /// Less content than the header.
    ContentSize {
        /// Size of the content \[bit\].
        content: u64,
        /// Size of header and context \[bit\].
        head: u64,
    },
    /// A packet size that is not a number of whole bytes, or less than the header.
    Size {
        /// Size of the packet \[bit\].
        packet: u64,
        /// Size of header and context \[bit\].
        head: u64,
    },
}

/// Tracers note a packet's bounds apart from its records, and round them: as much may be between \[ns\].
const ROUNDING: u64 = 1_000_000;

impl Damage {
    /// Whether all events are there all the same: it says how they are shown, or what is not known of others;
    /// or it is a note.
    #[must_use]
    pub fn is_remark(&self) -> bool {
        matches!(self.what, DamageKind::Clocks { .. } | DamageKind::DiscardedBack { .. })
            || self.is_note()
    }

    /// What it is a note of.
    #[must_use]
    pub fn note_key(&self) -> NoteKey {
        let is_index = matches!(self.what, DamageKind::Index { .. });
        (Arc::clone(&self.trace), self.stream.clone(), is_index)
    }

    /// Whether all events are there, and each in its place: only what is said around them does not fit. Of a
    /// stream's, one is enough.
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

/// A number of bytes, in words.
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

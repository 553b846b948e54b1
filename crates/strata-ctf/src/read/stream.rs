//! Traces, streams, packets and losses, as a reader lends them.

use super::damage::DamageKind;
use super::decode::Decoder;
use super::event_class::EventClass;
use super::time::{Clock, TimeRange};
use crate::model::schema::{self, FieldClass, Role, Schema, Structure, Width};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A trace: a folder with metadata and files of packets.
#[derive(Debug)]
pub struct Trace {
    pub(crate) index: usize,
    pub(crate) path: Arc<Path>,
    pub(crate) name: String,
    /// The path of the metadata file.
    pub(crate) metadata: PathBuf,
    pub(crate) decoder: Decoder,
    /// True if packets with another UUID are accepted.
    pub(crate) any_uuid: bool,
    /// The bytes that each packet begins with, if the metadata fixes them.
    pub(crate) sign: Option<Vec<u8>>,
    /// The clock of each stream class.
    pub(crate) clocks: Vec<Option<Clock>>,
}

impl Trace {
    /// Returns the trace's index in [`Reader::traces`](super::Reader::traces).
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the trace's folder; if folders with the same UUID are read as one trace, the first of them.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the trace's name as babeltrace2 shows it: `host/folder`, relative to the path that was opened. It may be
    /// empty.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the metadata file.
    #[must_use]
    pub fn metadata(&self) -> &Path {
        &self.metadata
    }

    /// Returns the description of the trace.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        self.decoder.schema()
    }

    /// Returns the classes of the trace's event records, in the order of the metadata.
    pub fn event_classes(&self) -> impl Iterator<Item = &EventClass> {
        let streams = 0..self.decoder.schema().streams.len();
        let streams = streams.filter_map(|index| self.decoder.stream(index));
        streams.flat_map(|stream| stream.events())
    }
}

/// A sequence of packets of one stream class, in one file or in several.
#[derive(Debug)]
pub struct Stream {
    pub(crate) index: usize,
    pub(crate) trace: Arc<Trace>,
    /// Index of the stream's class in [`Schema::streams`].
    pub(crate) class: usize,
    pub(crate) id: Option<u64>,
    pub(crate) name: Arc<str>,
    pub(crate) paths: Vec<PathBuf>,
    /// Indexes of the stream's files in `StoredFiles`.
    pub(crate) files: Vec<usize>,
    pub(crate) bytes: u64,
    /// True if the stream's files are in several folders, which may have the same packets.
    pub(crate) merged: bool,
    pub(crate) clock: Option<Clock>,
    /// The greatest value of the count of discarded records, and (`sequence_mask`) of a packet's sequence number.
    pub(crate) discarded_mask: u64,
    pub(crate) sequence_mask: u64,
    /// The time range outside of which messages of the stream are left out, besides the range that the caller gives.
    pub(crate) active: TimeRange,
    /// True if the stream's packets have sequence numbers.
    pub(crate) has_sequence: bool,
    /// True if packets can be distinguished from other bytes; computed at the first use.
    pub(crate) framed: OnceLock<bool>,
}

impl Stream {
    /// Returns the stream's index in [`Reader::streams`](super::Reader::streams).
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the trace that has the stream.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Returns the stream's class.
    #[must_use]
    pub fn class(&self) -> &schema::StreamClass {
        // Never used: the index was found in the schema when the stream was made.
        static NONE: schema::StreamClass = schema::StreamClass {
            id: 0,
            name: None,
            clock: None,
            packet_context: None,
            event_header: None,
            event_common_context: None,
            events: Vec::new(),
        };
        self.trace.schema().streams.get(self.class).unwrap_or(&NONE)
    }

    /// Returns the stream id of the packets, which distinguishes streams of one class.
    #[must_use]
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// Returns the name of the stream's first file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the stream's files in the order of time. The file of a wrapped ring occurs twice: first for its oldest
    /// packets, which are at its end, then for the others.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Returns the size of the stream's files \[byte\].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether the clock's times are dates. If not, all times are nanoseconds since the clock began.
    #[must_use]
    pub fn is_dated(&self) -> bool {
        self.clock.is_none_or(|clock| clock.is_dated())
    }

    /// Returns the damage to report for a time that is no date.
    pub(crate) fn no_date(&self, cycles: Option<u64>) -> DamageKind {
        let schema = self.trace.schema();
        let class = self.class().clock.and_then(|clock| schema.clocks.get(clock));
        let clock = class.map(|class| class.name.as_str()).unwrap_or_default();
        DamageKind::NoDate { clock: clock.into(), cycles: cycles.unwrap_or(0) }
    }

    /// Converts a time of the stream's clock to nanoseconds since 1970; `None` if the stream has no clock.
    #[must_use]
    pub fn time(&self, cycles: u64) -> Option<i64> {
        self.clock.map(|clock| clock.time(cycles))
    }
}

/// Returns the width of the packet context's integer with this role \[bit\].
fn bits(context: Option<&Structure>, role: Role) -> Option<u32> {
    context?.members.iter().find_map(|member| match &member.class {
        FieldClass::Integer(integer) if integer.role == Some(role) => match integer.width {
            Width::Bits(bits) => Some(u32::from(bits)),
            Width::Variable => Some(64),
        },
        _ => None,
    })
}

/// Returns whether a packet context has an integer with this role.
pub(crate) fn has(context: Option<&Structure>, role: Role) -> bool {
    bits(context, role).is_some()
}

/// Returns the greatest value of the packet context's integer with this role.
pub(crate) fn mask(context: Option<&Structure>, role: Role) -> u64 {
    u64::MAX >> 64u32.saturating_sub(bits(context, role).unwrap_or(64)).min(63)
}

/// A packet, as its header and context describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Index of the packet's stream in [`Reader::streams`](super::Reader::streams).
    pub stream: usize,
    /// The packet's number in its stream, counted from 0; missing packets are not counted.
    pub number: u64,
    /// Index into [`Stream::files`].
    pub file: usize,
    /// The offset at which the packet begins \[byte of the file\].
    pub offset: u64,
    /// Begin of the packet \[ns since 1970\].
    pub begin: Option<i64>,
    /// End of the packet \[ns since 1970\].
    pub end: Option<i64>,
    /// Begin of the packet \[cycle\].
    pub begin_cycles: Option<u64>,
    /// End of the packet \[cycle\].
    pub end_cycles: Option<u64>,
    /// Size of the packet up to the end of its last record, as far as the file has it \[bit\].
    pub content_bits: u64,
    /// Size of the packet, as far as the file has it \[bit\].
    pub packet_bits: u64,
    /// The sequence number that the tracer gave the packet.
    pub sequence: Option<u64>,
    /// Number of the stream's records that were discarded up to the packet's end.
    pub discarded: Option<u64>,
    /// The CPU on which the packet was recorded.
    pub cpu: Option<u64>,
}

/// The unit of a count of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiscardedKind {
    /// Event records were discarded.
    Records,
    /// Whole packets were overwritten by the tracer, or are missing in the file.
    Packets,
}

/// A loss of event records or packets between two packets of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Discarded<'e> {
    /// The stream whose records or packets are counted.
    pub stream: &'e Stream,
    /// The packet after the loss, whose header reports it.
    pub packet: &'e Packet,
    /// The number of event records or packets, as `kind` says.
    pub count: u64,
    /// The unit of `count`.
    pub kind: DiscardedKind,
    /// Begin of the time of the loss \[ns since 1970\].
    pub from: Option<i64>,
    /// End of the time of the loss \[ns since 1970\].
    pub to: Option<i64>,
    /// Begin of the time of the loss \[cycle\].
    pub from_cycles: Option<u64>,
    /// End of the time of the loss \[cycle\].
    pub to_cycles: Option<u64>,
    /// True if the stream's first packet reports the loss. It is then unknown how many of the records were discarded
    /// before the trace began.
    pub at_begin: bool,
}

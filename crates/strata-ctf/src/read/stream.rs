//! What a reader lends: traces, their streams and packets, and what was discarded.

use super::damage::DamageKind;
use super::decode::Decoder;
use super::time::{Clock, TimeRange};
use crate::model::schema::{self, FieldClass, Role, Schema, Structure, Width};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A trace: a folder with metadata and files of packets.
#[derive(Debug)]
pub struct Trace {
    pub(crate) index: usize,
    pub(crate) path: Arc<Path>,
    pub(crate) name: String,
    /// Its metadata's file.
    pub(crate) metadata: PathBuf,
    pub(crate) decoder: Decoder,
    /// Packets may have another UUID.
    pub(crate) any_uuid: bool,
    /// Each packet begins with these bytes, where the metadata says so.
    pub(crate) sign: Option<Vec<u8>>,
    /// Of each stream class.
    pub(crate) clocks: Vec<Option<Clock>>,
}

impl Trace {
    /// Its place in [`Reader::traces`](super::Reader::traces).
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its folder; the first if folders with the same UUID were opened, which are one trace.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name for people, as babeltrace2 has it: `host/folder`, where the folder is as seen from the path
    /// that was opened; may be empty.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that its description is from.
    #[must_use]
    pub fn metadata(&self) -> &Path {
        &self.metadata
    }

    /// Its description.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        self.decoder.schema()
    }
}

/// A stream: packets of one class, one behind the other, in one file or in several.
#[derive(Debug)]
pub struct Stream {
    pub(crate) index: usize,
    pub(crate) trace: Arc<Trace>,
    /// In [`Schema::streams`].
    pub(crate) class: usize,
    pub(crate) id: Option<u64>,
    pub(crate) name: Arc<str>,
    pub(crate) paths: Vec<PathBuf>,
    /// Their indexes in `StoredFiles`.
    pub(crate) files: Vec<usize>,
    pub(crate) bytes: u64,
    /// Its files are in several folders, which may have the same packets.
    pub(crate) merged: bool,
    pub(crate) clock: Option<Clock>,
    /// Highest value of the count of discarded records, and of a packet's number.
    pub(crate) discarded_mask: u64,
    pub(crate) sequence_mask: u64,
    /// What of it is told, over and above what is asked for.
    pub(crate) active: TimeRange,
    /// Its packets have numbers.
    pub(crate) has_sequence: bool,
}

impl Stream {
    /// Its place in [`Reader::streams`](super::Reader::streams).
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The trace that it is of.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Its class.
    #[must_use]
    pub fn class(&self) -> &schema::StreamClass {
        // A stream is made with an index that was found in the schema.
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

    /// Which stream of its class, as its packets say.
    #[must_use]
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// The name of its first file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its files, in the order of time.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The size of its files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the times of its clock are dates. If not, all times are nanoseconds since the clock's
    /// begin.
    #[must_use]
    pub fn is_dated(&self) -> bool {
        self.clock.is_none_or(|clock| clock.is_dated())
    }

    /// What is to be said of a time that is no date.
    pub(crate) fn no_date(&self, cycles: Option<u64>) -> DamageKind {
        let schema = self.trace.schema();
        let class = self.class().clock.and_then(|clock| schema.clocks.get(clock));
        let clock = class.map(|class| class.name.as_str()).unwrap_or_default();
        DamageKind::NoDate { clock: clock.into(), cycles: cycles.unwrap_or(0) }
    }

    /// A time of its clock \[ns since 1970\]; `None`: it has no clock.
    #[must_use]
    pub fn time(&self, cycles: u64) -> Option<i64> {
        self.clock.map(|clock| clock.time(cycles))
    }
}

/// The bits of a packet context's integer with this role.
fn bits(context: Option<&Structure>, role: Role) -> Option<u32> {
    context?.members.iter().find_map(|member| match &member.class {
        FieldClass::Integer(integer) if integer.role == Some(role) => match integer.width {
            Width::Bits(bits) => Some(u32::from(bits)),
            Width::Variable => Some(64),
        },
        _ => None,
    })
}

/// Whether a packet context has an integer with this role.
pub(crate) fn has(context: Option<&Structure>, role: Role) -> bool {
    bits(context, role).is_some()
}

/// The highest value of a packet context's integer with this role.
pub(crate) fn mask(context: Option<&Structure>, role: Role) -> u64 {
    u64::MAX >> 64u32.saturating_sub(bits(context, role).unwrap_or(64)).min(63)
}

/// A packet, as its header and context describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Its stream's place in [`Reader::streams`](super::Reader::streams).
    pub stream: usize,
    /// Its number in its stream: 0, 1, 2 and so on, of those that are there.
    pub number: u64,
    /// Index into [`Stream::files`].
    pub file: usize,
    /// Where it begins \[byte of the file\].
    pub offset: u64,
    /// When it begins \[ns since 1970\].
    pub begin: Option<i64>,
    /// When it ends \[ns since 1970\].
    pub end: Option<i64>,
    /// When it begins \[cycle\].
    pub begin_cycles: Option<u64>,
    /// When it ends \[cycle\].
    pub end_cycles: Option<u64>,
    /// Its size up to the end of its last record, as far as it is in the file \[bit\].
    pub content_bits: u64,
    /// Its size, as far as it is in the file \[bit\].
    pub packet_bits: u64,
    /// The number that the tracer gave it.
    pub sequence: Option<u64>,
    /// Records of its stream that were discarded up to its end.
    pub discarded: Option<u64>,
    /// Where it was recorded.
    pub cpu: Option<u64>,
}

/// What was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiscardedKind {
    /// Event records.
    Records,
    /// Whole packets: overwritten by the tracer, or not in the file.
    Packets,
}

/// Between two packets of a stream, some event records or packets were discarded.
#[derive(Clone, Copy, Debug)]
pub struct Discarded<'e> {
    /// The stream.
    pub stream: &'e Stream,
    /// The packet that says it, which is behind it.
    pub packet: &'e Packet,
    /// Event records or packets, as `kind` says.
    pub count: u64,
    /// Whether `count` is of records or of packets.
    pub kind: DiscardedKind,
    /// When it began \[ns since 1970\].
    pub from: Option<i64>,
    /// When it was over \[ns since 1970\].
    pub to: Option<i64>,
    /// When it began \[cycle\].
    pub from_cycles: Option<u64>,
    /// When it was over \[cycle\].
    pub to_cycles: Option<u64>,
    /// It was said by the first packet that is there, so that nothing tells how many of them belong to
    /// this trace and how many were before it.
    pub at_begin: bool,
}

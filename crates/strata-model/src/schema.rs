//! The description of any trace in the terms of CTF 2, as a reader makes it from the trace's metadata.
//!
//! ```text
//! Schema ── environment, ClockClass, packet header
//!   └─ StreamClass ── packet context, event record header, common context
//!        └─ EventClass ── name, log level, specific context, payload
//!             └─ Structure ── Member ── FieldClass: integer, real, string, text, blob,
//!                                       structure, array, variant, optional
//! ```
//!
//! Strata's own tracers record only a small part of this, which has the types of the crate's root. A schema comes from
//! a file, whose contents may be wrong: lengths, labels and ids need not make sense together. Only the [`Location`]s
//! were verified when the schema was made.

use std::sync::Arc;

use crate::{Base, ByteOrder, ClockClass, EnvValue, Flags, Uuid};

/// The description of one trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// UUID of the trace, which its packets repeat.
    pub uuid: Option<Uuid>,
    /// Name of the trace; usually absent.
    pub name: Option<String>,
    /// Namespace of the trace's name (CTF 2).
    pub namespace: Option<String>,
    /// Id of the trace that is unique among the traces of the same name (CTF 2).
    pub uid: Option<String>,
    /// Environment of the recording, in the order of the metadata.
    pub environment: Vec<(String, EnvValue)>,
    pub clocks: Vec<ClockClass>,
    /// Structure at the begin of each packet.
    pub packet_header: Option<Structure>,
    /// Index of the packet header's member that repeats [`Schema::uuid`]: 16 bytes.
    pub packet_uuid: Option<u32>,
    /// Classes of streams.
    pub streams: Vec<StreamClass>,
    /// True if the metadata have, or may have, a packet header whose description could not be read: where the content
    /// of any packet begins is then unknown.
    pub is_packet_header_unread: bool,
    /// True if the metadata have stream classes that could not be read: a packet without a class id may belong to one
    /// of them.
    pub is_stream_unread: bool,
}

impl Schema {
    /// Returns the value of the environment's entry `name`.
    pub fn environment(&self, name: &str) -> Option<&EnvValue> {
        self.environment.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }
}

/// The description of all streams of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamClass {
    /// Id that packet headers carry; 0 if they carry no id.
    pub id: u64,
    pub name: Option<String>,
    /// Index into [`Schema::clocks`] of the clock that gives the stream's timestamps.
    pub clock: Option<usize>,
    /// Structure after the packet header.
    pub packet_context: Option<Structure>,
    /// Structure at the begin of each record.
    pub event_header: Option<Structure>,
    /// Structure after each record's header, the same for all classes of records.
    pub event_common_context: Option<Structure>,
    /// Classes of event records.
    pub events: Vec<EventClass>,
}

/// The description of all event records of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventClass {
    /// Id that record headers carry; 0 if they carry no id.
    pub id: u64,
    /// `provider:name`, as in the metadata; may be empty.
    pub name: String,
    /// Log level, as in the metadata.
    pub loglevel: Option<i64>,
    /// URI of a model that describes the event's meaning.
    pub emf_uri: Option<String>,
    /// Structure after the common context, for this class of records only.
    pub specific_context: Option<Structure>,
    /// The fields of the event itself.
    pub payload: Option<Structure>,
}

/// The parts of a packet and of a record that have fields, in the order of their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// [`Schema::packet_header`].
    PacketHeader,
    /// [`StreamClass::packet_context`].
    PacketContext,
    /// [`StreamClass::event_header`].
    EventHeader,
    /// [`StreamClass::event_common_context`].
    CommonContext,
    /// [`EventClass::specific_context`].
    SpecificContext,
    /// [`EventClass::payload`].
    Payload,
}

impl Scope {
    /// All scopes, in the order of their bytes.
    pub const ALL: [Scope; 6] = [
        Scope::PacketHeader,
        Scope::PacketContext,
        Scope::EventHeader,
        Scope::CommonContext,
        Scope::SpecificContext,
        Scope::Payload,
    ];
}

/// Location of the field that gives another field's length or selects its option.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// Part of the record or packet that contains the field.
    pub scope: Scope,
    /// Steps from the structure of `scope` down to the field. A step is the index of a structure's member or of a
    /// variant's option; it is 0 for an array's current element and for the content of an optional field.
    pub path: Vec<u32>,
    /// Further paths, for a field that exists once in each of several options of a variant on the way. A record has at
    /// most one of all these fields, whose value is used. All of them are signed, or none is.
    pub others: Vec<Vec<u32>>,
}

impl Location {
    /// Makes the location of a single field.
    #[must_use]
    pub fn at(scope: Scope, path: Vec<u32>) -> Location {
        Location { scope, path, others: Vec::new() }
    }

    /// Returns the paths of all fields that the location may stand for.
    pub fn paths(&self) -> impl Iterator<Item = &[u32]> {
        std::iter::once(self.path.as_slice()).chain(self.others.iter().map(Vec::as_slice))
    }
}

/// Length of an array, a text or a blob.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// A fixed number of elements or bytes.
    Static(u64),
    /// The value of an unsigned integer that comes earlier in the record.
    Dynamic(Location),
}

/// Meaning of an integer in a header or a packet's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Member `magic`, which is 0xC1FC1FC1.
    PacketMagic,
    /// Member `stream_id`, which is [`StreamClass::id`].
    StreamClassId,
    /// Member `stream_instance_id`, the number of a stream within its class.
    StreamId,
    /// Member `packet_size` \[bit\].
    PacketTotalLength,
    /// Member `content_size` \[bit\].
    PacketContentLength,
    /// Member `timestamp_end` of a packet's context \[cycle\].
    PacketEndTimestamp,
    /// Member `events_discarded`: records of the stream that were discarded so far.
    DiscardedEvents,
    /// Member `packet_seq_num`, the packet's number in its stream.
    PacketSequenceNumber,
    /// Member `id` of a record's header, which is [`EventClass::id`].
    EventClassId,
}

/// Width of an integer in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// A fixed width of 1 to 64 bits.
    Bits(u8),
    /// An integer in LEB128: 7 bits of each byte, the lowest first, up to a byte whose highest bit is 0 (CTF 2).
    Variable,
}

/// The class of an integer, an enumeration or a truth value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Integer {
    pub width: Width,
    /// Alignment, a power of two \[bit\].
    pub align: u32,
    /// True if values are in two's complement.
    pub signed: bool,
    /// Order of the integer's bytes, and of the bits in a byte: the lowest first, or the highest first.
    pub byte_order: ByteOrder,
    /// Number base in which readers show the value.
    pub base: Base,
    /// True for a truth value: 0 is false, all other values are true (CTF 2).
    pub is_bool: bool,
    /// Index into [`Schema::clocks`] if the integer is a time of this clock: the whole time or its lowest bits.
    pub clock: Option<usize>,
    /// Meaning of the integer for readers, if it has a special one.
    pub role: Option<Role>,
    /// Labels of an enumeration or a bit map, shared by all fields of the same type.
    pub labels: Option<Arc<[Label]>>,
    /// The form of the labels' values if labels stand for bits that can be combined.
    pub flags: Option<Flags>,
    /// True if labels are for bit numbers, 0 being the lowest bit: a value has the label of each of its bits that is
    /// set (CTF 2).
    pub is_bit_map: bool,
    /// True if the order of bits is the reverse of what the byte order implies: the first bit is the highest if
    /// little-endian, else the lowest (CTF 2).
    pub is_reversed: bool,
}

/// A name for some values of an enumeration. Labels may overlap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    pub name: String,
    pub ranges: Vec<Range>,
}

/// The values `from..=to` of an integer, signed or unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    pub from: i128,
    pub to: i128,
}

impl Range {
    /// Returns whether the range contains the value.
    pub fn contains(&self, value: i128) -> bool {
        self.from <= value && value <= self.to
    }
}

/// The class of a floating-point number (IEEE 754).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Real {
    /// Width: 16, 32 or 64 \[bit\].
    pub bits: u8,
    /// Alignment, a power of two \[bit\].
    pub align: u32,
    pub byte_order: ByteOrder,
    /// True if the order of bits is reversed, as in [`Integer::is_reversed`] (CTF 2).
    pub is_reversed: bool,
}

/// Encoding of a text whose code units have more than one byte (CTF 2). Texts of single bytes are read as UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// UTF-16 in this byte order.
    Utf16(ByteOrder),
    /// UTF-32 in this byte order.
    Utf32(ByteOrder),
}

impl Encoding {
    /// Returns the size of a code unit, which is also that of the final NUL \[byte\].
    pub fn unit(self) -> usize {
        match self {
            Encoding::Utf16(_) => 2,
            Encoding::Utf32(_) => 4,
        }
    }
}

/// The class of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldClass {
    /// An integer, an enumeration or a truth value.
    Integer(Integer),
    /// A floating-point number.
    Real(Real),
    /// Text that ends with a NUL. Begins at a whole byte.
    String,
    /// Text in a given number of bytes; ends before the first NUL in them. Begins at a whole byte.
    Text {
        /// Length of the text \[byte\].
        length: Length,
    },
    /// Text in UTF-16 or UTF-32 (CTF 2); ends before its first NUL. Begins at a whole byte.
    Wide {
        /// Length \[byte\]; `None` if the text ends with a NUL.
        length: Option<Length>,
        /// Encoding of the characters.
        encoding: Encoding,
    },
    /// Bytes with any content (CTF 2), and numbers that are too long to compute with. Begins at a whole byte.
    Blob {
        /// Alignment, a power of two of at least 8 \[bit\].
        align: u32,
        /// Length of the blob \[byte\].
        length: Length,
    },
    Structure(Structure),
    /// An array of elements of one class.
    Array(Array),
    /// A variant: one of several options, chosen by a selector.
    Variant(Variant),
    /// An optional field of CTF 2, which may be absent.
    Optional(Optional),
}

/// Fields that follow each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Structure {
    /// Alignment of the structure, at least 1; a power of two \[bit\]. Members may have a greater one.
    pub align: u32,
    /// Members in the order of their bytes.
    pub members: Vec<Member>,
}

/// A field of a structure.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Name of the member without the `_` that TSDL puts before it.
    pub name: String,
    pub class: FieldClass,
}

/// Elements of one class that follow each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Alignment of the first element, in addition to the element's own; a power of two \[bit\].
    pub align: u32,
    /// Number of elements.
    pub length: Length,
    /// Class of each element.
    pub element: Box<FieldClass>,
}

/// A field that is one of several options.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The integer whose value chooses the option.
    pub selector: Location,
    /// All possible options.
    pub options: Vec<VariantOption>,
}

/// A possible option of a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantOption {
    /// Name of the option without the `_` that TSDL puts before it.
    pub name: String,
    /// Selector values that choose this option.
    pub ranges: Vec<Range>,
    pub class: FieldClass,
}

/// A field that may be absent.
#[derive(Clone, Debug, PartialEq)]
pub struct Optional {
    /// The integer whose value decides whether the field is present.
    pub selector: Location,
    /// Selector values for which the field is present; if empty, all values but 0.
    pub ranges: Vec<Range>,
    pub class: Box<FieldClass>,
}

impl FieldClass {
    /// Returns the alignment of the field \[bit\]: the field's first bit in the packet is a multiple of this number.
    pub fn align(&self) -> u64 {
        match self {
            FieldClass::Integer(integer) => u64::from(integer.align.max(1)),
            FieldClass::Real(real) => u64::from(real.align.max(1)),
            FieldClass::String | FieldClass::Text { .. } | FieldClass::Wide { .. } => 8,
            FieldClass::Blob { align, .. } => u64::from(*align).max(8),
            FieldClass::Structure(structure) => structure.align(),
            FieldClass::Array(array) => u64::from(array.align.max(1)).max(array.element.align()),
            // The chosen field has its own alignment.
            FieldClass::Variant(_) | FieldClass::Optional(_) => 1,
        }
    }
}

impl Structure {
    /// Returns the greatest alignment of the structure and its members \[bit\].
    pub fn align(&self) -> u64 {
        let members = self.members.iter().map(|member| member.class.align());
        members.fold(u64::from(self.align.max(1)), u64::max)
    }

    /// Returns the index of the member called `name`.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|member| member.name == name)
    }
}

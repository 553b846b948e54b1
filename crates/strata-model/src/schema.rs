//! Any trace's description, in the terms of CTF 2: what a reader makes of a trace's metadata.
//!
//! ```text
//! Schema ── environment, ClockClass, packet header
//!   └─ StreamClass ── packet context, event record header, common context
//!        └─ EventClass ── name, log level, specific context, payload
//!             └─ Structure ── Member ── FieldClass: integer, real, string, text, blob,
//!                                       structure, array, variant, optional
//! ```
//!
//! What Strata's own tracers record is a small part of this and has the types of the crate's root.
//! A description comes from a file, and a file may lie: nothing here says that lengths, labels or ids
//! make sense together, only that every [`Location`] was found when it was written down.

use std::sync::Arc;

use crate::{Base, ByteOrder, ClockClass, EnvValue, Flags, Uuid};

/// The description of one trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// The trace's own; packets repeat it.
    pub uuid: Option<Uuid>,
    /// Its name; as a rule there is none.
    pub name: Option<String>,
    /// Whose name that is (CTF 2).
    pub namespace: Option<String>,
    /// Which of this name it is (CTF 2).
    pub uid: Option<String>,
    /// Where and by what it was recorded, in the order of the metadata.
    pub environment: Vec<(String, EnvValue)>,
    /// All clocks.
    pub clocks: Vec<ClockClass>,
    /// In front of each packet.
    pub packet_header: Option<Structure>,
    /// Which member of the packet header repeats [`Schema::uuid`]: 16 bytes.
    pub packet_uuid: Option<u32>,
    /// Kinds of streams.
    pub streams: Vec<StreamClass>,
}

impl Schema {
    /// An entry of the environment.
    pub fn environment(&self, name: &str) -> Option<&EnvValue> {
        self.environment.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }
}

/// One kind of streams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamClass {
    /// What a packet's header says; 0 where it says nothing.
    pub id: u64,
    /// Its name; as a rule there is none.
    pub name: Option<String>,
    /// Index into [`Schema::clocks`] of the clock that its timestamps count.
    pub clock: Option<usize>,
    /// Behind the packet's header.
    pub packet_context: Option<Structure>,
    /// In front of each record.
    pub event_header: Option<Structure>,
    /// Behind each record's header, the same for all kinds of records.
    pub event_common_context: Option<Structure>,
    /// Kinds of records.
    pub events: Vec<EventClass>,
}

/// One kind of event records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventClass {
    /// What a record's header says; 0 where it says nothing.
    pub id: u64,
    /// `provider:name`, as it is in the metadata; may be empty.
    pub name: String,
    /// How severe it is, as it is in the metadata.
    pub loglevel: Option<i64>,
    /// A link to a model of what it means.
    pub emf_uri: Option<String>,
    /// Behind the common context, for this kind of records only.
    pub specific_context: Option<Structure>,
    /// What was recorded.
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
    /// All of them, in this order.
    pub const ALL: [Scope; 6] = [
        Scope::PacketHeader,
        Scope::PacketContext,
        Scope::EventHeader,
        Scope::CommonContext,
        Scope::SpecificContext,
        Scope::Payload,
    ];
}

/// Where a field is that says how long another one is, or which option it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The part that it is in.
    pub scope: Scope,
    /// From that part's structure downwards: index of a structure's member or a variant's option; 0 into
    /// an array's element (the one that is being read) or an optional field.
    pub path: Vec<u32>,
}

/// How many elements, or bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// Always as many.
    Static(u64),
    /// As many as an unsigned integer in front of it says.
    Dynamic(Location),
}

/// What an integer in a header or a packet's context means to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// `magic`: 0xC1FC1FC1.
    PacketMagic,
    /// `stream_id`: [`StreamClass::id`].
    StreamClassId,
    /// `stream_instance_id`: which stream of its class.
    StreamId,
    /// `packet_size` \[bit\].
    PacketTotalLength,
    /// `content_size` \[bit\].
    PacketContentLength,
    /// `timestamp_end` of a packet's context \[cycle\].
    PacketEndTimestamp,
    /// `events_discarded`: all records of the stream that were discarded so far.
    DiscardedEvents,
    /// `packet_seq_num`: the packet's number in its stream.
    PacketSequenceNumber,
    /// `id` of a record's header: [`EventClass::id`].
    EventClassId,
}

/// How many bits an integer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// 1 to 64.
    Bits(u8),
    /// LEB128: 7 bits of each byte, the lowest first, up to a byte whose highest bit is 0 (CTF 2).
    Variable,
}

/// An integer, an enumeration or a truth value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Integer {
    /// Its bits.
    pub width: Width,
    /// A power of two \[bit\].
    pub align: u32,
    /// Two's complement.
    pub signed: bool,
    /// Order of its bytes, and of bits in a byte: the lowest first, or the highest.
    pub byte_order: ByteOrder,
    /// How it is shown.
    pub base: Base,
    /// 0 is false, all else true (CTF 2).
    pub is_bool: bool,
    /// Index into [`Schema::clocks`]: it is a time of this clock, whole or its lowest bits.
    pub clock: Option<usize>,
    /// What it means to a reader.
    pub role: Option<Role>,
    /// It is an enumeration, or a bit map. Shared by all fields of its type.
    pub labels: Option<Arc<[Label]>>,
    /// Its labels are flags.
    pub flags: Option<Flags>,
    /// Its labels are for bits, 0 the lowest one: a value has each of which one bit is set (CTF 2).
    pub is_bit_map: bool,
    /// Its bits are the other way round than its byte order says: the first one is the highest if
    /// little-endian, else the lowest (CTF 2).
    pub is_reversed: bool,
}

/// A name for some values of an enumeration. Labels may overlap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// The name.
    pub name: String,
    /// The values.
    pub ranges: Vec<Range>,
}

/// The values `from..=to`; of unsigned and signed integers alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// First value.
    pub from: i128,
    /// Last value.
    pub to: i128,
}

impl Range {
    /// Whether the value is one of these.
    pub fn contains(&self, value: i128) -> bool {
        self.from <= value && value <= self.to
    }
}

/// A floating-point number, IEEE 754.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Real {
    /// 16, 32 or 64.
    pub bits: u8,
    /// A power of two \[bit\].
    pub align: u32,
    /// Its bytes' order.
    pub byte_order: ByteOrder,
    /// As [`Integer::is_reversed`] (CTF 2).
    pub is_reversed: bool,
}

/// What the characters of a text are, where they are not single bytes (CTF 2). A text of single bytes is
/// UTF-8 or what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// UTF-16 in this byte order.
    Utf16(ByteOrder),
    /// UTF-32 in this byte order.
    Utf32(ByteOrder),
}

impl Encoding {
    /// Bytes of a NUL, and of each code unit.
    pub fn unit(self) -> usize {
        match self {
            Encoding::Utf16(_) => 2,
            Encoding::Utf32(_) => 4,
        }
    }
}

/// What a field is.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldClass {
    /// An integer, an enumeration or a truth value.
    Integer(Integer),
    /// A floating-point number.
    Real(Real),
    /// Text up to a NUL, and the NUL. Begins with a whole byte.
    String,
    /// Text of a given number of bytes; ends before the first NUL in them. Begins with a whole byte.
    Text {
        /// Bytes.
        length: Length,
    },
    /// Text of UTF-16 or UTF-32 (CTF 2); ends before the first NUL in it. Begins with a whole byte.
    Wide {
        /// Bytes; `None`: up to a NUL, and that.
        length: Option<Length>,
        /// Its characters.
        encoding: Encoding,
    },
    /// Bytes of any content (CTF 2), and numbers that are too long to compute with. Begins with a whole byte.
    Blob {
        /// A power of two \[bit\], at least 8.
        align: u32,
        /// Bytes.
        length: Length,
    },
    /// Fields with names.
    Structure(Structure),
    /// Elements of one class.
    Array(Array),
    /// One of several.
    Variant(Variant),
    /// There or not (CTF 2).
    Optional(Optional),
}

/// Fields, one behind the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Structure {
    /// At least 1; a power of two \[bit\]. Where it begins; that of its members may be greater.
    pub align: u32,
    /// In the order of their bytes.
    pub members: Vec<Member>,
}

/// A field of a structure.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// As it is shown: without the `_` that TSDL has in front.
    pub name: String,
    /// What it is.
    pub class: FieldClass,
}

/// Elements of one class, one behind the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Where the first element begins, over and above what that asks for; a power of two \[bit\].
    pub align: u32,
    /// Where the number of elements comes from.
    pub length: Length,
    /// What each is.
    pub element: Box<FieldClass>,
}

/// One of several fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The integer whose value says which.
    pub selector: Location,
    /// All that are possible.
    pub options: Vec<VariantOption>,
}

/// One possibility of a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantOption {
    /// As it is shown: without the `_` that TSDL has in front.
    pub name: String,
    /// The selector's values for it.
    pub ranges: Vec<Range>,
    /// What it is.
    pub class: FieldClass,
}

/// A field that is there or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Optional {
    /// The integer whose value says whether.
    pub selector: Location,
    /// The selector's values with which it is there; empty: all but 0.
    pub ranges: Vec<Range>,
    /// What it is.
    pub class: Box<FieldClass>,
}

impl FieldClass {
    /// Where such a field begins: its bit in the packet is a multiple of this.
    pub fn align(&self) -> u64 {
        match self {
            FieldClass::Integer(integer) => u64::from(integer.align.max(1)),
            FieldClass::Real(real) => u64::from(real.align.max(1)),
            FieldClass::String | FieldClass::Text { .. } | FieldClass::Wide { .. } => 8,
            FieldClass::Blob { align, .. } => u64::from(*align).max(8),
            FieldClass::Structure(structure) => structure.align(),
            FieldClass::Array(array) => u64::from(array.align.max(1)).max(array.element.align()),
            // What is chosen aligns itself.
            FieldClass::Variant(_) | FieldClass::Optional(_) => 1,
        }
    }
}

impl Structure {
    /// The greatest alignment of it and its members \[bit\].
    pub fn align(&self) -> u64 {
        let members = self.members.iter().map(|member| member.class.align());
        members.fold(u64::from(self.align.max(1)), u64::max)
    }

    /// The index of the member of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.members.iter().position(|member| member.name == name)
    }
}

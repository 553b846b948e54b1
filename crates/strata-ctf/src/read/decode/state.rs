//! State of decoding one stream.

use super::window::Window;
use crate::model::schema::Role;

/// The greatest size of a packet's head that is kept \[byte\].
const HEAD: u64 = 1 << 16;

/// Begins of a record's parts after alignment, relative to the begin of its header \[bit\]; wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordShape {
    /// Begin of the common context.
    pub common: u64,
    pub specific: u64,
    pub payload: u64,
    /// Index of the record's class in its stream class.
    pub class: u32,
}

/// Place of a record \[bit of the packet\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    /// Begin of the header, after alignment.
    pub begin: u64,
    /// End of the record; the next one begins here, or after alignment.
    pub end: u64,
    /// Time of the record \[cycle of the stream's clock\]; `None` if the stream has no clock.
    pub time: Option<u64>,
    pub shape: RecordShape,
}

/// Values of the integers that have a role, such as timestamp or id.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FoundRoles {
    /// The stream's clock \[cycle\].
    pub time: u64,
    /// True if a timestamp was read since the packet's begin.
    pub timed: bool,
    /// Id that was read last.
    pub id: u64,
    pub uuid: Option<[u8; 16]>,
    pub cpu: Option<u64>,
    /// True if the previous number was big-endian, false if it was little-endian. Used for a whole packet if byte
    /// orders are mixed.
    pub order: Option<bool>,
    roles: [Option<u64>; 8],
}

impl FoundRoles {
    fn slot(role: Role) -> Option<usize> {
        Some(match role {
            Role::PacketMagic => 0,
            Role::StreamClassId => 1,
            Role::StreamId => 2,
            Role::PacketTotalLength => 3,
            Role::PacketContentLength => 4,
            Role::PacketEndTimestamp => 5,
            Role::DiscardedEvents => 6,
            Role::PacketSequenceNumber => 7,
            Role::EventClassId => return None,
        })
    }

    pub fn role(&self, role: Role) -> Option<u64> {
        FoundRoles::slot(role).and_then(|slot| self.roles.get(slot).copied().flatten())
    }

    pub fn put(&mut self, role: Role, value: u64) {
        match FoundRoles::slot(role).and_then(|slot| self.roles.get_mut(slot)) {
            Some(place) => *place = Some(value),
            None => self.id = value,
        }
    }
}

/// The state that decoding a stream keeps from record to record, and from packet to packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecodeState {
    /// The stream's clock \[cycle\].
    pub time: u64,
    /// Time of `record` \[ns since 1970\], which the decoder's caller sets.
    pub nanoseconds: Option<i64>,
    /// The record that was decoded last.
    pub record: RecordPlace,
    /// Values of lengths and selectors for later fields.
    pub(super) registers: Vec<u64>,
    pub(super) found: FoundRoles,
    /// Number of fields of size 0 that this packet has had so far.
    pub(super) spent: u64,
    /// The packet's first bytes: header and context.
    pub(super) head: Vec<u8>,
    /// Begin of the packet's context \[bit\].
    pub(super) context: u64,
}

impl DecodeState {
    /// Begins a packet. The clock continues from the previous packet.
    pub(super) fn reset(&mut self) {
        self.record = RecordPlace::default();
        self.nanoseconds = None;
        self.registers.fill(0);
        self.found = FoundRoles { time: self.time, ..FoundRoles::default() };
        self.spent = 0;
        self.head.clear();
        self.context = 0;
    }

    /// Keeps the packet's head, which ends at `end` \[bit\].
    pub(super) fn keep_head(&mut self, window: &Window<'_>, end: u64) {
        self.head.clear();
        let bytes = end.div_ceil(8);
        let head = usize::try_from(bytes).ok().and_then(|bytes| window.bytes.get(..bytes));
        if let (Some(head), true) = (head, bytes <= HEAD && window.origin == 0) {
            self.head.extend_from_slice(head);
        }
    }
}

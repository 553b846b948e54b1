//! What decoding knows while it goes through one stream.

use super::window::Window;
use crate::model::schema::Role;

/// More of a packet's head is not kept \[byte\].
const HEAD: u64 = 1 << 16;

/// Where the parts of a record begin, as they are aligned, from its header's begin on \[bit\]; wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordShape {
    /// The common context.
    pub common: u64,
    pub specific: u64,
    pub payload: u64,
    /// Index of its class in its stream class.
    pub class: u32,
}

/// Where a record is, in bits of the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    /// Where the header begins, as it is aligned.
    pub begin: u64,
    /// Where the next one may begin.
    pub end: u64,
    /// In cycles of the stream's clock; `None`: it has none.
    pub time: Option<u64>,
    pub shape: RecordShape,
}

/// What the integers said that mean something to a reader.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FoundRoles {
    /// Running time \[cycle\].
    pub time: u64,
    /// A clock was read since the packet's begin.
    pub timed: bool,
    /// Last class id.
    pub id: u64,
    pub uuid: Option<[u8; 16]>,
    pub cpu: Option<u64>,
    /// Whether the number in front was big-endian, where that is asked for; of the whole packet.
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

/// What decoding keeps from record to record, and from packet to packet, of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecodeState {
    /// Running time \[cycle\].
    pub time: u64,
    /// When `record` happened, for whoever asks the event; whoever calls the decoder sets it.
    pub nanoseconds: Option<i64>,
    /// The one that was decoded last.
    pub record: RecordPlace,
    /// Lengths and selectors that later fields need.
    pub(super) registers: Vec<u64>,
    pub(super) found: FoundRoles,
    /// Fields without bits in this packet so far.
    pub(super) spent: u64,
    /// The packet's first bytes: header and context.
    pub(super) head: Vec<u8>,
    /// Where the packet's context begins \[bit\].
    pub(super) context: u64,
}

impl DecodeState {
    /// Begins a packet. Its time goes on from the one before.
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

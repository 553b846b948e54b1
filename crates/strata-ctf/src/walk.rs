//! From record to record through a packet.
//!
//! A record's size is in its fields: nothing says where the next one begins but the one before it. So a
//! [`Walker`] is made of a stream class once, with a small program for its event context and one for each
//! event record class, and then goes through as many packets as one likes.
//!
//! Packets come from files and from programs, and may hold anything. Whatever they hold, each step stays
//! in the packet and moves ahead by a header's size at least; the first thing that cannot be is a
//! [`WalkError`], which says where.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::iter::FusedIterator;
use strata_model::{ByteOrder, Field, FieldClass, RecordHeader, StreamClass, TraceError};

/// A step through a context or a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalkStep {
    /// So many bytes.
    Bytes(u64),
    /// Up to a NUL, and that.
    String,
    /// An unsigned integer of `length_bytes`, and that many elements.
    Sequence { length_bytes: u8, element_bytes: u8 },
}

/// Steps of neighbouring fields of fixed size are one.
fn steps(fields: &[Field]) -> Vec<WalkStep> {
    let mut steps = Vec::new();
    for field in fields {
        let step = match &field.class {
            FieldClass::String => WalkStep::String,
            FieldClass::Sequence(sequence) => WalkStep::Sequence {
                length_bytes: sequence.length_bytes,
                element_bytes: sequence.element.bytes(),
            },
            FieldClass::Integer(_)
            | FieldClass::Enumeration(_)
            | FieldClass::Float(_)
            | FieldClass::Array(_) => WalkStep::Bytes(field.min_bytes()),
        };
        match (steps.last_mut(), step) {
            // At most FIELDS times ARRAY_BYTES.
            (Some(WalkStep::Bytes(sum)), WalkStep::Bytes(bytes)) => *sum += bytes,
            _ => steps.push(step),
        }
    }
    steps
}

/// Why a packet's records could not be followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkError {
    /// No event record class has this id.
    UnknownId {
        /// Where the record begins \[byte of the packet's records\].
        offset: u64,
        /// What its header says.
        id: u32,
    },
    /// A record does not end in the packet.
    Outside {
        /// Where the record begins \[byte of the packet's records\].
        offset: u64,
        /// Of its class; `None`: not even its header is there.
        id: Option<u32>,
        /// Where the part of it begins that is not all there \[byte of the packet's records\].
        at: u64,
        /// Bytes of that part; `None`: it is a string, and there is no NUL.
        bytes: Option<u64>,
        /// Bytes that are left for it.
        left: u64,
    },
}

impl WalkError {
    /// Where the record begins that cannot be followed \[byte of the packet's records\]: those before it
    /// are whole.
    #[must_use]
    pub fn offset(&self) -> u64 {
        match *self {
            WalkError::UnknownId { offset, .. } | WalkError::Outside { offset, .. } => offset,
        }
    }
}

impl fmt::Display for WalkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event record at byte {}", self.offset())?;
        match *self {
            WalkError::UnknownId { id, .. } => write!(f, ": there is no class of id {id}"),
            WalkError::Outside { id, at, bytes, left, .. } => {
                match id {
                    Some(id) => write!(f, " of class {id}: ")?,
                    None => f.write_str(": its header needs ")?,
                }
                match (id, bytes) {
                    (None, bytes) => write!(f, "{} bytes", bytes.unwrap_or(0))?,
                    (_, Some(bytes)) => write!(f, "a field at byte {at} needs {bytes} bytes")?,
                    (_, None) => write!(f, "a text at byte {at} has no end")?,
                }
                write!(f, ", {left} are left in the packet")
            }
        }
    }
}

impl Error for WalkError {}

/// One event record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'p> {
    /// Where it begins \[byte of the packet's records\].
    pub offset: u64,
    /// The id of its class.
    pub id: u32,
    /// Index of its class in [`StreamClass::events`].
    pub class: usize,
    /// When it happened, in cycles of the clock.
    pub timestamp: u64,
    /// The fields of [`StreamClass::context`], one behind the other.
    pub context: &'p [u8],
    /// Its fields, one behind the other.
    pub payload: &'p [u8],
}

/// What a record's header says.
#[derive(Clone, Copy)]
struct RecordHead {
    id: u32,
    bytes: usize,
    /// All of it, or the lowest bits.
    time: u64,
    whole: bool,
}

/// Where a record and its parts are.
struct FoundRecord {
    head: RecordHead,
    class: usize,
    /// Behind its header and context.
    payload: usize,
    end: usize,
}

/// Goes through packets of one stream class.
#[derive(Clone, Debug)]
pub struct Walker {
    header: RecordHeader,
    order: ByteOrder,
    context: Vec<WalkStep>,
    /// For each event record class, the end of its part of `steps`; it begins where the last one ends.
    ends: Vec<usize>,
    steps: Vec<WalkStep>,
    /// Index of the class with this id, plus 1; 0: none.
    low: Vec<u32>,
    /// The same for all other ids, without the 1.
    high: HashMap<u32, u32>,
}

impl Walker {
    /// For packets of `stream` in a trace of this byte order.
    ///
    /// # Errors
    /// What [`StreamClass::validate`] says: of such a class no size could be believed.
    pub fn new(stream: &StreamClass, order: ByteOrder) -> Result<Walker, TraceError> {
        stream.validate()?;
        let mut walker = Walker {
            header: stream.header,
            order,
            context: steps(&stream.context),
            ends: Vec::with_capacity(stream.events.len()),
            steps: Vec::new(),
            // Ids are given one after the other, so as a rule all of them are here.
            low: vec![0; stream.events.len().max(32)],
            high: HashMap::new(),
        };
        for (class, index) in stream.events.iter().zip(0u32..) {
            walker.steps.extend(steps(&class.context));
            walker.steps.extend(steps(&class.fields));
            walker.ends.push(walker.steps.len());
            match walker.low.get_mut(class.id as usize) {
                Some(place) => *place = index + 1,
                None => {
                    walker.high.insert(class.id, index);
                }
            }
        }
        Ok(walker)
    }

    /// How many records are in `packet`, the bytes behind a packet's header and context up to the end of
    /// its content.
    ///
    /// # Errors
    /// The first record that cannot be followed; those before it end at [`WalkError::offset`].
    pub fn count(&self, packet: &[u8]) -> Result<u64, WalkError> {
        let (mut at, mut count) = (0, 0);
        while at < packet.len() {
            at = self.next(packet, at)?.end;
            count += 1;
        }
        Ok(count)
    }

    /// The records in `packet`, as for [`Walker::count`], which begins at the time `begin`. The first
    /// error is the last item.
    #[must_use]
    pub fn records<'w, 'p>(&'w self, packet: &'p [u8], begin: u64) -> Records<'w, 'p> {
        Records { walker: self, packet, at: 0, time: begin }
    }

    fn class(&self, id: u32) -> Option<usize> {
        let index = match self.low.get(id as usize) {
            Some(place) => place.checked_sub(1),
            None => self.high.get(&id).copied(),
        };
        index.map(|index| index as usize)
    }

    /// The record at `at`.
    fn next(&self, packet: &[u8], at: usize) -> Result<FoundRecord, WalkError> {
        let offset = at as u64;
        let left = packet.get(at..).unwrap_or(&[]);
        let head = self.head(left).map_err(|bytes| WalkError::Outside {
            offset,
            id: None,
            at: offset,
            bytes: Some(bytes as u64),
            left: left.len() as u64,
        })?;
        let id = head.id;
        let class = self.class(id).ok_or(WalkError::UnknownId { offset, id })?;
        let ends = || {
            let payload = self.follow(&self.context, packet, at + head.bytes)?;
            Ok(FoundRecord {
                head,
                class,
                payload,
                end: self.follow(self.program(class), packet, payload)?,
            })
        };
        ends().map_err(|CutPayload { at, bytes }| {
            let left = packet.len().saturating_sub(at) as u64;
            WalkError::Outside { offset, id: Some(id), at: at as u64, bytes, left }
        })
    }

    /// The header at the begin of `left`; an error: how many bytes it needs.
    fn head(&self, left: &[u8]) -> Result<RecordHead, usize> {
        let (id, time) = match self.header {
            RecordHeader::Compact => {
                let word = u64::from(left.first().copied().ok_or(4usize)?);
                let id = if self.is_big() { word >> 3 } else { word & 31 };
                match id {
                    31 => return self.extended(left, 1),
                    _ => {
                        let word = self.number(left, 0, 4).ok_or(4usize)?;
                        (id, if self.is_big() { word & 0x7ff_ffff } else { word >> 5 })
                    }
                }
            }
            RecordHeader::Large => match self.number(left, 0, 2).ok_or(6usize)? {
                65535 => return self.extended(left, 2),
                id => (id, self.number(left, 2, 4).ok_or(6usize)?),
            },
        };
        let bytes = self.header.bytes(0, false);
        Ok(RecordHead { id: id as u32, bytes, time, whole: false })
    }

    /// A header whose id and timestamp begin at `at`.
    fn extended(&self, left: &[u8], at: usize) -> Result<RecordHead, usize> {
        let bytes = at + 12;
        let id = self.number(left, at, 4).ok_or(bytes)?;
        let time = self.number(left, at + 4, 8).ok_or(bytes)?;
        Ok(RecordHead { id: id as u32, bytes, time, whole: true })
    }

    /// Where the fields end that begin at `at`.
    fn follow(
        &self,
        steps: &[WalkStep],
        packet: &[u8],
        mut at: usize,
    ) -> Result<usize, CutPayload> {
        for step in steps {
            at = match *step {
                WalkStep::Bytes(bytes) => ahead(packet, at, bytes)?,
                WalkStep::String => {
                    let text = packet.get(at..).unwrap_or(&[]);
                    let nul = text.iter().position(|&byte| byte == 0);
                    at + nul.ok_or(CutPayload { at, bytes: None })? + 1
                }
                WalkStep::Sequence { length_bytes, element_bytes } => {
                    let bytes = u64::from(length_bytes);
                    let count = self.number(packet, at, usize::from(length_bytes));
                    let count = count.ok_or(CutPayload { at, bytes: Some(bytes) })?;
                    let at = at + usize::from(length_bytes);
                    ahead(packet, at, count.saturating_mul(u64::from(element_bytes)))?
                }
            }
        }
        Ok(at)
    }

    fn program(&self, class: usize) -> &[WalkStep] {
        let begin = class.checked_sub(1).and_then(|before| self.ends.get(before));
        let end = self.ends.get(class).copied().unwrap_or(0);
        self.steps.get(begin.copied().unwrap_or(0)..end).unwrap_or(&[])
    }

    fn is_big(&self) -> bool {
        self.order == ByteOrder::Big
    }

    /// An unsigned integer of 1 to 8 bytes; `None`: it is not all there.
    fn number(&self, packet: &[u8], at: usize, bytes: usize) -> Option<u64> {
        let found = packet.get(at..)?.get(..bytes)?;
        let mut whole = [0; 8];
        Some(if self.is_big() {
            whole.get_mut(8 - bytes..)?.copy_from_slice(found);
            u64::from_be_bytes(whole)
        } else {
            whole.get_mut(..bytes)?.copy_from_slice(found);
            u64::from_le_bytes(whole)
        })
    }
}

/// What of a payload is not all there.
struct CutPayload {
    at: usize,
    bytes: Option<u64>,
}

fn ahead(packet: &[u8], at: usize, bytes: u64) -> Result<usize, CutPayload> {
    match usize::try_from(bytes).ok().and_then(|bytes| at.checked_add(bytes)) {
        Some(end) if end <= packet.len() => Ok(end),
        _ => Err(CutPayload { at, bytes: Some(bytes) }),
    }
}

/// The records of a packet, as [`Walker::records`] gives them.
#[derive(Clone, Debug)]
pub struct Records<'w, 'p> {
    walker: &'w Walker,
    packet: &'p [u8],
    at: usize,
    /// Of the record before.
    time: u64,
}

impl Records<'_, '_> {
    /// The next time that ends in the bits of a header, or the whole one that it has.
    fn time(&self, head: &RecordHead) -> u64 {
        if head.whole {
            return head.time;
        }
        let mask = (1 << self.walker.header.timestamp_bits()) - 1;
        self.time.wrapping_add(head.time.wrapping_sub(self.time) & mask)
    }
}

impl<'p> Iterator for Records<'_, 'p> {
    type Item = Result<Record<'p>, WalkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.packet.len() {
            return None;
        }
        let begin = self.at;
        let FoundRecord { head, class, payload, end } = match self.walker.next(self.packet, begin) {
            Ok(found) => found,
            Err(error) => {
                self.at = self.packet.len();
                return Some(Err(error));
            }
        };
        self.at = end;
        self.time = self.time(&head);
        Some(Ok(Record {
            offset: begin as u64,
            id: head.id,
            class,
            timestamp: self.time,
            context: self.packet.get(begin + head.bytes..payload).unwrap_or(&[]),
            payload: self.packet.get(payload..end).unwrap_or(&[]),
        }))
    }
}

impl FusedIterator for Records<'_, '_> {}

//! Walks from record to record through a packet.
//!
//! The size of a record follows from its fields, so a record can be found only from the one before it. A [`RecordScanner`] is
//! made once from a stream class, with a small program for the event context and one for each event record class. It
//! can then walk through any number of packets.
//!
//! Packets come from files and from programs, and may hold anything. Whatever they hold, each step stays in the packet
//! and moves ahead by at least a header's size. The first fault is returned as a [`ScanError`] with its position.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::iter::FusedIterator;
use strata_model::{ByteOrder, Field, FieldClass, RecordHeader, StreamClass, TraceError};

/// A step in skipping the fields of a context or a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanStep {
    /// A fixed number of bytes.
    Bytes(u64),
    /// A text that ends with a NUL.
    String,
    /// An unsigned integer of `length_bytes`, then that many elements.
    Sequence { length_bytes: u8, element_bytes: u8 },
}

/// Makes the steps for these fields. Neighbouring fields of fixed size share a step.
fn steps(fields: &[Field]) -> Vec<ScanStep> {
    let mut steps = Vec::new();
    for field in fields {
        let step = match &field.class {
            FieldClass::String => ScanStep::String,
            FieldClass::Sequence(sequence) => ScanStep::Sequence {
                length_bytes: sequence.length_bytes,
                element_bytes: sequence.element.bytes(),
            },
            FieldClass::Integer(_)
            | FieldClass::Enumeration(_)
            | FieldClass::Float(_)
            | FieldClass::Array(_) => ScanStep::Bytes(field.min_bytes()),
        };
        match (steps.last_mut(), step) {
            // The sum is at most FIELDS times ARRAY_BYTES.
            (Some(ScanStep::Bytes(sum)), ScanStep::Bytes(bytes)) => *sum += bytes,
            _ => steps.push(step),
        }
    }
    steps
}

/// Reasons why the further records of a packet cannot be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanError {
    /// The record's id belongs to no event record class.
    UnknownId {
        /// Begin of the record \[byte of the packet's records\].
        offset: u64,
        /// Id in the record's header.
        id: u32,
    },
    /// A record does not end within the packet.
    Outside {
        /// Begin of the record \[byte of the packet's records\].
        offset: u64,
        /// Id of the record's class; `None` if its header is incomplete.
        id: Option<u32>,
        /// Begin of the incomplete part \[byte of the packet's records\].
        at: u64,
        /// Size that the part needs \[byte\]; `None` for a string without a NUL.
        bytes: Option<u64>,
        /// Size that is left for the part \[byte\].
        left: u64,
    },
}

impl ScanError {
    /// Returns the begin of the invalid record \[byte of the packet's records\]. All records before it are complete.
    #[must_use]
    pub fn offset(&self) -> u64 {
        match *self {
            ScanError::UnknownId { offset, .. } | ScanError::Outside { offset, .. } => offset,
        }
    }
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event record at byte {}", self.offset())?;
        match *self {
            ScanError::UnknownId { id, .. } => write!(f, ": there is no class of id {id}"),
            ScanError::Outside { id, at, bytes, left, .. } => {
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

impl Error for ScanError {}

/// An event record in undecoded form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'p> {
    /// Begin of the record \[byte of the packet's records\].
    pub offset: u64,
    /// Id of the record's class.
    pub id: u32,
    /// Index of the record's class in [`StreamClass::events`].
    pub class: usize,
    /// Time of the record \[cycle of the clock\].
    pub timestamp: u64,
    /// Bytes of the fields of [`StreamClass::context`].
    pub context: &'p [u8],
    /// Bytes of the event's own context and payload.
    pub payload: &'p [u8],
}

/// Fields of a record's header.
#[derive(Clone, Copy)]
struct RecordHead {
    id: u32,
    bytes: usize,
    /// The record's time; only its lowest bits unless `whole` is set.
    time: u64,
    whole: bool,
}

/// Offsets of a record and its parts.
struct FoundRecord {
    head: RecordHead,
    class: usize,
    /// Offset after header and context.
    payload: usize,
    end: usize,
}

/// Finds the records in packets of one stream class.
#[derive(Clone, Debug)]
pub struct RecordScanner {
    header: RecordHeader,
    order: ByteOrder,
    context: Vec<ScanStep>,
    /// For each event record class, the end of its steps in `steps`. The steps of a class begin at the end of those
    /// of the previous class.
    ends: Vec<usize>,
    steps: Vec<ScanStep>,
    /// Index of the class with this id, plus 1; 0 if there is no such class.
    low: Vec<u32>,
    /// Index of the class of each id that `low` does not have.
    high: HashMap<u32, u32>,
}

impl RecordScanner {
    /// Creates a scanner for packets of `stream` in a trace with this byte order.
    ///
    /// # Errors
    /// The error of [`StreamClass::validate`]: sizes of an invalid class cannot be relied on.
    pub fn new(stream: &StreamClass, order: ByteOrder) -> Result<RecordScanner, TraceError> {
        stream.validate()?;
        let mut scanner = RecordScanner {
            header: stream.header,
            order,
            context: steps(&stream.context),
            ends: Vec::with_capacity(stream.events.len()),
            steps: Vec::new(),
            // Ids are usually consecutive, so that this table has all of them.
            low: vec![0; stream.events.len().max(32)],
            high: HashMap::new(),
        };
        for (class, index) in stream.events.iter().zip(0u32..) {
            scanner.steps.extend(steps(&class.context));
            scanner.steps.extend(steps(&class.fields));
            scanner.ends.push(scanner.steps.len());
            match scanner.low.get_mut(class.id as usize) {
                Some(place) => *place = index + 1,
                None => {
                    scanner.high.insert(class.id, index);
                }
            }
        }
        Ok(scanner)
    }

    /// Counts the records in `packet`, the bytes after a packet's header and context up to the end of its content.
    ///
    /// # Errors
    /// The first record that cannot be walked; the records before it end at [`ScanError::offset`].
    pub fn count(&self, packet: &[u8]) -> Result<u64, ScanError> {
        let (mut at, mut count) = (0, 0);
        while at < packet.len() {
            at = self.next(packet, at)?.end;
            count += 1;
        }
        Ok(count)
    }

    /// Returns an iterator over the records in `packet`, the same bytes as for [`RecordScanner::count`]. The packet begins at
    /// the time `begin` \[cycle\]. The first error is the last item.
    #[must_use]
    pub fn records<'w, 'p>(&'w self, packet: &'p [u8], begin: u64) -> Records<'w, 'p> {
        Records { scanner: self, packet, at: 0, time: begin }
    }

    fn class(&self, id: u32) -> Option<usize> {
        let index = match self.low.get(id as usize) {
            Some(place) => place.checked_sub(1),
            None => self.high.get(&id).copied(),
        };
        index.map(|index| index as usize)
    }

    /// Finds the record that begins at `at`.
    fn next(&self, packet: &[u8], at: usize) -> Result<FoundRecord, ScanError> {
        let offset = at as u64;
        let left = packet.get(at..).unwrap_or(&[]);
        let head = self.head(left).map_err(|bytes| ScanError::Outside {
            offset,
            id: None,
            at: offset,
            bytes: Some(bytes as u64),
            left: left.len() as u64,
        })?;
        let id = head.id;
        let class = self.class(id).ok_or(ScanError::UnknownId { offset, id })?;
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
            ScanError::Outside { offset, id: Some(id), at: at as u64, bytes, left }
        })
    }

    /// Reads the header at the begin of `left`. The error is the number of bytes that it needs.
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

    /// Reads a header whose full id and timestamp begin at `at`.
    fn extended(&self, left: &[u8], at: usize) -> Result<RecordHead, usize> {
        let bytes = at + 12;
        let id = self.number(left, at, 4).ok_or(bytes)?;
        let time = self.number(left, at + 4, 8).ok_or(bytes)?;
        Ok(RecordHead { id: id as u32, bytes, time, whole: true })
    }

    /// Returns the end of the fields that begin at `at`.
    fn follow(
        &self,
        steps: &[ScanStep],
        packet: &[u8],
        mut at: usize,
    ) -> Result<usize, CutPayload> {
        for step in steps {
            at = match *step {
                ScanStep::Bytes(bytes) => ahead(packet, at, bytes)?,
                ScanStep::String => {
                    let text = packet.get(at..).unwrap_or(&[]);
                    let nul = text.iter().position(|&byte| byte == 0);
                    at + nul.ok_or(CutPayload { at, bytes: None })? + 1
                }
                ScanStep::Sequence { length_bytes, element_bytes } => {
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

    fn program(&self, class: usize) -> &[ScanStep] {
        let begin = class.checked_sub(1).and_then(|before| self.ends.get(before));
        let end = self.ends.get(class).copied().unwrap_or(0);
        self.steps.get(begin.copied().unwrap_or(0)..end).unwrap_or(&[])
    }

    fn is_big(&self) -> bool {
        self.order == ByteOrder::Big
    }

    /// Reads an unsigned integer of 1 to 8 bytes; `None` if the bytes are incomplete.
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

/// The error that a part of a payload is incomplete.
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

/// An iterator over the records of a packet, as [`RecordScanner::records`] returns it.
#[derive(Clone, Debug)]
pub struct Records<'w, 'p> {
    scanner: &'w RecordScanner,
    packet: &'p [u8],
    at: usize,
    /// Time of the previous record \[cycle\].
    time: u64,
}

impl Records<'_, '_> {
    /// Returns the whole time of the header, or the next time that ends with the header's bits.
    fn time(&self, head: &RecordHead) -> u64 {
        if head.whole {
            return head.time;
        }
        let mask = (1 << self.scanner.header.timestamp_bits()) - 1;
        self.time.wrapping_add(head.time.wrapping_sub(self.time) & mask)
    }
}

impl<'p> Iterator for Records<'_, 'p> {
    type Item = Result<Record<'p>, ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.packet.len() {
            return None;
        }
        let begin = self.at;
        let FoundRecord { head, class, payload, end } = match self.scanner.next(self.packet, begin)
        {
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

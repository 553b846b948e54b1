//! A decoded event record and its fields.

use std::fmt;

use super::current_packet::PacketAtHand;
use super::decode::{DecodeState, RecordShape, RecordView};
use super::event_class::EventClass;
use super::field::FieldRef;
use super::stream::{Packet, Stream};
use super::unread_fields::UnreadFields;
use super::value::Value;
use super::visit::Visit;
use crate::model::schema::Scope;

/// An event record. It borrows the cursor's buffers, so it is valid until the next record is read.
#[derive(Clone, Copy)]
pub struct Event<'e> {
    pub(crate) class: &'e EventClass,
    /// The packet that holds the record.
    pub(crate) at_hand: &'e PacketAtHand<'e>,
    pub(crate) shape: &'e RecordShape,
    /// The record's begin and end \[bit of the packet\].
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// The record's time \[ns since 1970\]; 0 if it has none.
    pub(crate) time: i64,
}

impl<'e> Event<'e> {
    #[inline(always)]
    fn view(&self) -> RecordView<'e> {
        let Event { at_hand, begin, shape, .. } = *self;
        let (bytes, origin) = at_hand.bytes();
        RecordView { state: &at_hand.skipper.state, begin, shape, bytes, origin }
    }

    /// Returns the record's class.
    #[inline]
    pub fn class(&self) -> &'e EventClass {
        self.class
    }

    /// Returns the record's stream.
    #[inline]
    pub fn stream(&self) -> &'e Stream {
        self.at_hand.skipper.stream
    }

    /// Returns the record's packet.
    #[inline]
    pub fn packet(&self) -> &'e Packet {
        &self.at_hand.packet
    }

    /// Returns the record's time \[cycle of the stream's clock\]; `None` if the stream has no clock.
    #[inline]
    pub fn cycles(&self) -> Option<u64> {
        // These values are of the record that was decoded last; records after it have the same difference of time and
        // cycles.
        let DecodeState { record, nanoseconds, .. } = &self.at_hand.skipper.state;
        let time = self.time.wrapping_sub(nanoseconds.unwrap_or(0));
        Some(record.time?.wrapping_add(time as u64))
    }

    /// Returns the record's time \[ns since 1970\]; `None` if the stream has no clock, or if the time is before 1677 or
    /// after 2262. If the clock has no dates, the time counts from the clock's begin: see [`Event::date`].
    #[inline]
    pub fn time(&self) -> Option<i64> {
        self.at_hand.skipper.state.nanoseconds.map(|_| self.time)
    }

    /// Returns the record's time if it is a date. A record without a date may have [`Event::cycles`].
    #[inline]
    pub fn date(&self) -> Option<i64> {
        self.time().filter(|_| self.at_hand.is_dated())
    }

    /// Passes the fields of a part to `visit`, in order. Returns false if the record has no such part.
    ///
    /// The packet's header and context are left out if they have more than 64 KiB together.
    #[inline(always)] // the part is known where it is called, as a rule
    pub fn visit(&self, scope: Scope, visit: &mut impl Visit) -> bool {
        // Most records have no contexts, which the class shows without reading the record.
        if let (Scope::Payload, Some(fields)) = (scope, self.class.unread()) {
            return self.visit_read(fields, visit);
        }
        self.class.has(scope) && self.view().visit(self.class.plans(), scope, visit).is_some()
    }

    /// Visits a payload with fields that may have no value.
    #[inline(never)]
    fn visit_read(&self, fields: &UnreadFields, visit: &mut impl Visit) -> bool {
        let mut read = fields.visitor(self.unread(fields), visit);
        self.view().visit(self.class.plans(), Scope::Payload, &mut read).is_some()
    }

    /// Returns the bits of the fields that could not be read.
    fn unread(&self, fields: &UnreadFields) -> u64 {
        match self.view().value(self.class.plans(), fields.bits()) {
            Some(Value::Unsigned(bits)) => bits,
            _ => 0,
        }
    }

    /// Returns the value of a field. It is `None` for an option that was not taken, an element that the array does not
    /// have, a number that a probe could not read, or a field of another class.
    #[inline]
    pub fn value(&self, field: &FieldRef) -> Option<Value<'e>> {
        let path = &*field.path;
        if path.class != self.class.index() {
            return None;
        }
        if field.unread != 0 {
            let unread = self.class.unread().map_or(0, |fields| self.unread(fields));
            if unread & field.unread != 0 {
                return None;
            }
        }
        self.view().value(self.class.plans(), path)
    }

    /// Returns the value of an integer field. A value from 2^63 on becomes negative, as two's complement.
    #[inline(always)]
    pub fn integer(&self, field: &FieldRef) -> Option<i64> {
        match field.fixed {
            Some(fixed) if u64::from(fixed.class) == self.class.index() as u64 => {
                self.view().integer(fixed).or_else(|| self.any_integer(field))
            }
            _ => self.any_integer(field),
        }
    }

    #[inline(never)]
    fn any_integer(&self, field: &FieldRef) -> Option<i64> {
        match self.value(field)? {
            Value::Unsigned(value) => Some(value as i64),
            Value::Signed(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the number of bytes that the record covers at least in part.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.end.div_ceil(8).saturating_sub(self.begin / 8)
    }

    /// Returns where the record begins, after its header's alignment, and where it ends \[bit of the packet\].
    pub(crate) fn bits(&self) -> (u64, u64) {
        (self.begin, self.end)
    }

    /// Returns bytes that contain the whole record, and the offset of the first one \[byte of the packet\]; wrapping.
    pub(crate) fn bytes_at_hand(&self) -> (&'e [u8], u64) {
        self.at_hand.bytes()
    }

    /// Returns where the record begins \[bit of the file\]. No two records of a file begin at the same bit.
    #[inline]
    pub fn bit(&self) -> u64 {
        self.packet().offset.saturating_mul(8).saturating_add(self.begin)
    }

    /// Returns where the record begins \[byte of the file\].
    pub fn offset(&self) -> u64 {
        self.packet().offset.saturating_add(self.begin / 8)
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Event");
        shown.field("class", &self.class.name()).field("cycles", &self.cycles());
        shown.field("begin", &self.begin).field("end", &self.end).finish_non_exhaustive()
    }
}

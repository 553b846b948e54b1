//! An event record.

use std::fmt;

use super::at_hand::PacketAtHand;
use super::decode::{DecodeState, RecordShape, RecordView};
use super::event_class::EventClass;
use super::field::FieldRef;
use super::stream::{Packet, Stream};
use super::value::Value;
use super::visit::Visit;
use crate::model::schema::Scope;

/// An event record. It borrows what it was read with, so it is there until the next one is asked for.
#[derive(Clone, Copy)]
pub struct Event<'e> {
    pub(crate) class: &'e EventClass,
    /// What it was read of.
    pub(crate) at_hand: &'e PacketAtHand<'e>,
    pub(crate) shape: &'e RecordShape,
    /// Where it begins and ends \[bit of the packet\].
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// \[ns since 1970\]; 0: it has none.
    pub(crate) time: i64,
}

impl<'e> Event<'e> {
    #[inline(always)]
    fn view(&self) -> RecordView<'e> {
        let Event { at_hand, begin, shape, .. } = *self;
        let (bytes, origin) = at_hand.bytes();
        RecordView { state: &at_hand.hop.state, begin, shape, bytes, origin }
    }

    /// Its class.
    #[inline]
    pub fn class(&self) -> &'e EventClass {
        self.class
    }

    /// The stream that it is in.
    #[inline]
    pub fn stream(&self) -> &'e Stream {
        self.at_hand.hop.stream
    }

    /// The packet that it is in.
    #[inline]
    pub fn packet(&self) -> &'e Packet {
        &self.at_hand.packet
    }

    /// When it happened \[cycle of the stream's clock\]; `None`: the stream has no clock.
    #[inline]
    pub fn cycles(&self) -> Option<u64> {
        // Of the record that was decoded last; the difference is the same for those behind it.
        let DecodeState { record, nanoseconds, .. } = &self.at_hand.hop.state;
        let time = self.time.wrapping_sub(nanoseconds.unwrap_or(0));
        Some(record.time?.wrapping_add(time as u64))
    }

    /// When it happened \[ns since 1970\]; `None`: the stream has no clock, or it is before 1677 or behind
    /// 2262. Of a clock that has no dates, since its begin: see [`Event::date`].
    #[inline]
    pub fn time(&self) -> Option<i64> {
        self.at_hand.hop.state.nanoseconds.map(|_| self.time)
    }

    /// Its time, if that is a date; if there is none, there may be [`Event::cycles`].
    #[inline]
    pub fn date(&self) -> Option<i64> {
        self.time().filter(|_| self.at_hand.is_dated())
    }

    /// Tells the fields of a part, in order. `false`: it has no such part.
    ///
    /// A packet's header and context are not told where they have more than 64 KiB.
    #[inline(always)] // the part is known where it is called, as a rule
    pub fn visit(&self, scope: Scope, visit: &mut impl Visit) -> bool {
        // Most records have no contexts: that is known without a look at the record.
        self.class.has(scope) && self.view().visit(self.class.plans(), scope, visit).is_some()
    }

    /// What is in a field; `None`: it is not there (an option that was not taken, an element that the
    /// array does not have), or the field is one of another class.
    #[inline]
    pub fn value(&self, field: &FieldRef) -> Option<Value<'e>> {
        let path = &*field.path;
        if path.class != self.class.index() {
            return None;
        }
        self.view().value(self.class.plans(), path)
    }

    /// The number in a field, if that is an integer; one above 2^63 as its two's complement.
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

    /// Bytes of the whole record, begun ones included.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.end.div_ceil(8).saturating_sub(self.begin / 8)
    }

    /// Where it begins, as its header is aligned, and where it ends \[bit of the packet\].
    pub(crate) fn bits(&self) -> (u64, u64) {
        (self.begin, self.end)
    }

    /// Bytes in which it is whole, and which byte of the packet they begin with; wrapping.
    pub(crate) fn bytes_at_hand(&self) -> (&'e [u8], u64) {
        self.at_hand.bytes()
    }

    /// Where it begins \[byte of the file\].
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

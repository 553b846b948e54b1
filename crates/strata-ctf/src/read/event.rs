//! An event record, and its class.

use std::fmt;

use super::cursor::Cursor;
use super::decode::{DecodeState, Plans, Shape, View};
use super::value::{FieldRef, Value};
use super::visit::{FieldInfo, Visit};
use super::{Packet, Stream};
use crate::model::schema::{self, Scope};

/// The order in which a name without a part is looked for.
const SEARCHED: [Scope; 6] = [
    Scope::Payload,
    Scope::SpecificContext,
    Scope::CommonContext,
    Scope::PacketContext,
    Scope::EventHeader,
    Scope::PacketHeader,
];

/// A kind of event records, and how they are decoded.
#[derive(Debug)]
pub struct EventClass {
    index: usize,
    schema: schema::EventClass,
    stream: usize,
    plans: Plans,
}

impl EventClass {
    pub(crate) fn new(
        index: usize,
        schema: &schema::EventClass,
        stream: usize,
        plans: Plans,
    ) -> EventClass {
        EventClass { index, schema: schema.clone(), stream, plans }
    }

    #[inline]
    pub(crate) fn plans(&self) -> &Plans {
        &self.plans
    }

    /// `provider:name`, as it is in the metadata; may be empty.
    pub fn name(&self) -> &str {
        &self.schema.name
    }

    /// What a record's header says.
    pub fn id(&self) -> u64 {
        self.schema.id
    }

    /// How severe it is, as it is in the metadata.
    pub fn loglevel(&self) -> Option<i64> {
        self.schema.loglevel
    }

    /// Its number among all classes of all traces that are read together, from 0 on: for tables.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Index of its stream class in the trace's schema.
    pub fn stream_class(&self) -> usize {
        self.stream
    }

    /// Its description.
    pub fn schema(&self) -> &schema::EventClass {
        &self.schema
    }

    /// Whether its records have such a part.
    #[inline]
    pub fn has(&self, scope: Scope) -> bool {
        self.plans().has(scope)
    }

    /// The fields of a part, in order, without those that are in them.
    pub fn fields(&self, scope: Scope) -> impl Iterator<Item = &FieldInfo> {
        self.plans().fields(scope)
    }

    /// The field of this name in the first part that has it: payload, specific context, common context,
    /// packet context, record header, packet header. Names are as for [`EventClass::find_in`].
    pub fn find(&self, name: &str) -> Option<FieldRef> {
        SEARCHED.into_iter().find_map(|scope| self.find_in(scope, name))
    }

    /// The field of this name in a part.
    ///
    /// `a.b` is member b of the structure a, or option b of the variant a; `a[3]` is an array's fourth
    /// element; and so on: `a[3].b[0]`.
    pub fn find_in(&self, scope: Scope, name: &str) -> Option<FieldRef> {
        self.plans().find(self.index, scope, name).map(FieldRef::new)
    }
}

/// An event record. It borrows what it was read with, so it is there until the next one is asked for.
#[derive(Clone, Copy)]
pub struct Event<'e> {
    pub(crate) class: &'e EventClass,
    /// It is in the record's packet, and has all else.
    pub(crate) cursor: &'e Cursor<'e>,
    pub(crate) shape: &'e Shape,
    /// Where it begins and ends \[bit of the packet\].
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// \[ns since 1970\]; 0: it has none.
    pub(crate) time: i64,
}

impl<'e> Event<'e> {
    #[inline(always)]
    fn view(&self) -> View<'e> {
        let Event { cursor, begin, shape, .. } = *self;
        let (bytes, origin) = cursor.bytes();
        View { state: cursor.state(), begin, shape, bytes, origin }
    }

    /// Its class.
    #[inline]
    pub fn class(&self) -> &'e EventClass {
        self.class
    }

    /// The stream that it is in.
    #[inline]
    pub fn stream(&self) -> &'e Stream {
        self.cursor.stream()
    }

    /// The packet that it is in.
    #[inline]
    pub fn packet(&self) -> &'e Packet {
        self.cursor.packet()
    }

    /// When it happened \[cycle of the stream's clock\]; `None`: the stream has no clock.
    #[inline]
    pub fn cycles(&self) -> Option<u64> {
        // Of the record that was decoded last; the difference is the same for those behind it.
        let DecodeState { record, nanoseconds, .. } = self.cursor.state();
        let time = self.time.wrapping_sub(nanoseconds.unwrap_or(0));
        Some(record.time?.wrapping_add(time as u64))
    }

    /// When it happened \[ns since 1970\]; `None`: the stream has no clock, or it is before 1677 or behind
    /// 2262. Of a clock that has no dates, since its begin: see [`Event::date`].
    #[inline]
    pub fn time(&self) -> Option<i64> {
        self.cursor.state().nanoseconds.map(|_| self.time)
    }

    /// Its time, if that is a date; if there is none, there may be [`Event::cycles`].
    #[inline]
    pub fn date(&self) -> Option<i64> {
        self.time().filter(|_| self.cursor.is_dated())
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
        if path.class != self.class.index {
            return None;
        }
        self.view().value(self.class.plans(), path)
    }

    /// The number in a field, if that is an integer; one above 2^63 as its two's complement.
    #[inline(always)]
    pub fn integer(&self, field: &FieldRef) -> Option<i64> {
        match field.fixed {
            Some(fixed) if u64::from(fixed.class) == self.class.index as u64 => {
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
        self.cursor.bytes()
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

//! Tests of decoding each construct, random schemas against a slow reference, and hostile bytes.

mod bits;
mod fields;
mod headers;
mod hostile;
mod paths;
mod random;
mod reference;
mod show;
mod windows;

use std::sync::Arc;

use super::{Bad, BadKind, DecodeState, Decoder, NoRecord, RecordPlace, StreamDecoder, Window};
use crate::model::schema::{
    Array, EventClass, FieldClass, Integer, Length, Location, Member, Optional, Range, Real, Role,
    Schema, Scope, StreamClass, Structure, Variant, VariantOption, Width,
};
use crate::model::{Base, ByteOrder, ClockClass};

pub use show::{shown, Shown};

pub fn int(width: u8, align: u32, signed: bool, byte_order: ByteOrder) -> Integer {
    Integer {
        width: Width::Bits(width),
        align,
        signed,
        byte_order,
        base: Base::Ten,
        is_bool: false,
        clock: None,
        role: None,
        labels: None,
        flags: None,
        is_bit_map: false,
        is_reversed: false,
    }
}

pub fn unsigned(width: u8) -> FieldClass {
    FieldClass::Integer(int(width, 8, false, ByteOrder::Little))
}

pub fn leb(signed: bool) -> FieldClass {
    let integer = int(64, 8, signed, ByteOrder::Little);
    FieldClass::Integer(Integer { width: Width::Variable, ..integer })
}

pub fn id(width: u8, align: u32, order: ByteOrder) -> FieldClass {
    let role = Some(Role::EventClassId);
    FieldClass::Integer(Integer { role, ..int(width, align, false, order) })
}

pub fn time(width: u8, align: u32, order: ByteOrder) -> FieldClass {
    FieldClass::Integer(Integer { clock: Some(0), ..int(width, align, false, order) })
}

pub fn role(width: u8, role: Role) -> FieldClass {
    let integer = int(width, 8, false, ByteOrder::Little);
    FieldClass::Integer(Integer { role: Some(role), ..integer })
}

pub fn structure(align: u32, members: Vec<(&str, FieldClass)>) -> Structure {
    let member = |(name, class): (&str, FieldClass)| Member { name: name.to_string(), class };
    Structure { align, members: members.into_iter().map(member).collect() }
}

pub fn array(length: Length, element: FieldClass) -> FieldClass {
    FieldClass::Array(Array { align: 1, length, element: Box::new(element) })
}

pub fn at(scope: Scope, path: &[u32]) -> Location {
    Location::at(scope, path.to_vec())
}

pub fn of(scope: Scope, path: &[u32]) -> Length {
    Length::Dynamic(at(scope, path))
}

pub fn range(from: i128, to: i128) -> Vec<Range> {
    vec![Range { from, to }]
}

pub fn variant(selector: Location, options: Vec<(&str, Vec<Range>, FieldClass)>) -> FieldClass {
    let options = options.into_iter().map(|(name, ranges, class)| VariantOption {
        name: name.to_string(),
        ranges,
        class,
    });
    FieldClass::Variant(Variant { selector, options: options.collect() })
}

pub fn optional(selector: Location, ranges: Vec<Range>, class: FieldClass) -> FieldClass {
    FieldClass::Optional(Optional { selector, ranges, class: Box::new(class) })
}

pub fn event(id: u64, payload: Structure) -> EventClass {
    let name = format!("event{id}");
    EventClass { id, name, payload: Some(payload), ..EventClass::default() }
}

/// Returns LTTng's record header for few classes (`compact`), or for many.
pub fn split_header(compact: bool, order: ByteOrder) -> Structure {
    let (bits, stamp, last) = if compact { (5, 27, 31) } else { (16, 32, 65535) };
    let align = if compact { 1 } else { 8 };
    let short = structure(1, vec![("timestamp", time(stamp, align, order))]);
    let long = structure(1, vec![("id", id(32, 8, order)), ("timestamp", time(64, 8, order))]);
    let options = vec![
        ("compact", range(0, last - 1), FieldClass::Structure(short)),
        ("extended", range(last, last), FieldClass::Structure(long)),
    ];
    let choice = variant(at(Scope::EventHeader, &[0]), options);
    structure(8, vec![("id", id(bits, align, order)), ("v", choice)])
}

/// Returns a trace with one stream class, whose events have this header.
pub fn schema(header: Option<Structure>, events: Vec<EventClass>) -> Schema {
    let stream =
        StreamClass { clock: Some(0), event_header: header, events, ..StreamClass::default() };
    let clocks = vec![ClockClass::monotonic(None, 0)];
    Schema { clocks, streams: vec![stream], ..Schema::default() }
}

/// Returns a trace whose records have only a payload with these members.
pub fn payload(members: Vec<(&str, FieldClass)>) -> Schema {
    schema(None, vec![event(0, structure(1, members))])
}

/// A decoder with its state after the head of the packet in `bytes`.
pub struct Packet<'b> {
    pub decoder: Decoder,
    pub state: DecodeState,
    pub bytes: &'b [u8],
    /// The offset of the next record \[bit of the packet\].
    pub at: u64,
}

impl<'b> Packet<'b> {
    pub fn open(schema: Schema, bytes: &'b [u8]) -> Packet<'b> {
        let decoder = Decoder::new(Arc::new(schema), 0);
        let mut state = decoder.state();
        let window = Window::new(bytes, 0, bytes.len() as u64 * 8);
        let header = decoder.packet_header(&window, &mut state).expect("packet header");
        let stream = decoder.stream(0).expect("stream class");
        let context = stream.packet_context(&window, header.end, &mut state).expect("context");
        Packet { decoder, state, bytes, at: context.end_bit }
    }

    pub fn window(&self) -> Window<'b> {
        Window::new(self.bytes, 0, self.bytes.len() as u64 * 8)
    }

    pub fn stream(&self) -> &StreamDecoder {
        self.decoder.stream(0).expect("stream class")
    }

    /// Decodes the next record. Returns false at the packet's end.
    pub fn next(&mut self) -> Result<bool, NoRecord> {
        if self.at >= self.bytes.len() as u64 * 8 {
            return Ok(false);
        }
        let window = self.window();
        let stream = self.decoder.stream(0).expect("stream class");
        let begin = self.at.div_ceil(8);
        let rest = self.bytes.get(begin as usize..).unwrap_or(&[]);
        let ahead = stream.ahead(rest, self.state.time);
        let found = ahead.map(|ahead| RecordPlace {
            begin: begin * 8,
            end: (begin + (rest.len() - ahead.behind.len()) as u64) * 8,
            time: Some(ahead.time),
            shape: *ahead.shape,
        });
        let done = stream.record(&window, self.at, &mut self.state);
        if let Some(mut found) = found {
            // The fast path must find the same record.
            assert!(done.is_ok(), "{done:?} of {found:?}");
            found.time = found.time.filter(|_| self.state.record.time.is_some());
            assert_eq!(found, self.state.record);
        }
        done?;
        self.at = self.state.record.end;
        Ok(true)
    }

    /// Returns the next record's class index, its time, and the fields of a part.
    pub fn show(&mut self, scope: Scope) -> Result<(u32, Option<u64>, Vec<Shown>), NoRecord> {
        assert!(self.next()?, "no further record");
        let class = self.stream().class(self.state.record.shape.class).expect("class");
        let fields = shown(class, &self.state, self.bytes, 0, scope);
        Ok((self.state.record.shape.class, self.state.record.time, fields))
    }

    /// Returns the next record's payload as `name=value`, separated by blanks.
    pub fn line(&mut self) -> String {
        let (_, _, fields) = self.show(Scope::Payload).expect("a record");
        let fields: Vec<String> = fields.iter().map(Shown::to_string).collect();
        fields.join(" ")
    }

    /// Decodes the next record, which must be damaged, and returns its fault.
    pub fn bad(&mut self) -> Bad {
        match self.next() {
            Err(NoRecord::Bad(bad)) => *bad,
            other => panic!("{other:?} instead of a bad record: {:?}", self.state.record),
        }
    }
}

pub fn real(bits: u8, byte_order: ByteOrder) -> FieldClass {
    FieldClass::Real(Real { bits, align: 8, byte_order, is_reversed: false })
}

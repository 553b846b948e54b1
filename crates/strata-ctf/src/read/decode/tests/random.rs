//! Tests of random schemas and random bytes, compared with the reference decoder.

use std::sync::Arc;
use strata_random::Random;

use super::reference::Reference;
use super::show::{shown, value, Shown};
use super::*;
use crate::model::schema::Encoding;
use crate::read::decode::RecordView;
use crate::read::Value;

/// Makes random schemas in which every length and selector refers to an earlier integer.
pub struct Maker {
    pub random: Random,
    /// The byte order of all integers, since the order of bits cannot change within a byte.
    order: ByteOrder,
    scope: Scope,
    path: Vec<u32>,
    /// Locations of the fields that a later field may use as its length.
    lengths: Vec<Location>,
    selectors: Vec<Location>,
    names: u32,
    /// True if some locations shall lead nowhere, and other faults shall occur.
    pub hostile: bool,
}

impl Maker {
    pub fn new(seed: u64) -> Maker {
        let mut random = Random::from_seed(seed);
        let order = if random.chance(2) { ByteOrder::Big } else { ByteOrder::Little };
        Maker {
            random,
            order,
            scope: Scope::PacketHeader,
            path: Vec::new(),
            lengths: Vec::new(),
            selectors: Vec::new(),
            names: 0,
            hostile: false,
        }
    }

    pub fn schema(&mut self) -> Schema {
        let mut schema = schema(None, Vec::new());
        if self.random.chance(2) {
            schema.packet_header = Some(self.part(Scope::PacketHeader));
        }
        let mut stream = StreamClass { clock: Some(0), ..StreamClass::default() };
        if self.random.chance(2) {
            stream.packet_context = Some(self.part(Scope::PacketContext));
        }
        stream.event_header = match self.random.below(6) {
            0 => None,
            1 => Some(split_header(true, self.order)),
            2 => Some(split_header(false, self.order)),
            3 => Some(self.flat()),
            _ => Some(self.header()),
        };
        if self.random.chance(3) {
            stream.event_common_context = Some(self.part(Scope::CommonContext));
        }
        let marks = (self.lengths.len(), self.selectors.len());
        for id in 0..4 {
            let mut event = EventClass { id, ..EventClass::default() };
            if self.random.chance(3) {
                event.specific_context = Some(self.part(Scope::SpecificContext));
            }
            if !self.random.chance(8) {
                event.payload = Some(self.part(Scope::Payload));
            }
            self.back(marks);
            stream.events.push(event);
        }
        schema.streams = vec![stream];
        schema
    }

    fn back(&mut self, (lengths, selectors): (usize, usize)) {
        self.lengths.truncate(lengths);
        self.selectors.truncate(selectors);
    }

    fn flat(&mut self) -> Structure {
        let width = [8, 16, 32, 64][self.random.below(4) as usize];
        structure(8, vec![("id", id(8, 8, self.order)), ("t", time(width, 8, self.order))])
    }

    /// Makes an event record header: an id of 2 bits and a time of random width, aligned to a bit.
    fn header(&mut self) -> Structure {
        let mut part = self.part(Scope::EventHeader);
        let width = 1 + self.random.below(64) as u8;
        part.members.push(Member { name: "id".into(), class: id(2, 1, self.order) });
        part.members.push(Member { name: "t".into(), class: time(width, 1, self.order) });
        part
    }

    fn part(&mut self, scope: Scope) -> Structure {
        (self.scope, self.path) = (scope, Vec::new());
        let members = self.random.below(5);
        self.members(members, 0)
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("f{}", self.names)
    }

    fn align(&mut self) -> u32 {
        match self.random.below(12) {
            0..=5 => 1,
            6..=9 => 8,
            10 => 1 << self.random.below(6),
            _ => 64,
        }
    }

    fn members(&mut self, count: u64, depth: u32) -> Structure {
        let mut members = Vec::new();
        for index in 0..count {
            self.path.push(index as u32);
            let class = self.field(depth);
            self.path.pop();
            members.push(Member { name: self.name(), class });
        }
        Structure { align: self.align(), members }
    }

    /// Makes a field inside of a field that may be absent. Later fields cannot depend on the lengths and selectors in
    /// it, except through the location that is returned.
    fn inside(&mut self, index: u32, depth: u32) -> (FieldClass, Option<Location>) {
        let marks = (self.lengths.len(), self.selectors.len());
        self.path.push(index);
        let class = self.field(depth + 1);
        self.path.pop();
        let length = self.lengths.get(marks.0..).and_then(|all| all.last()).cloned();
        self.back(marks);
        (class, length)
    }

    /// Sometimes lets later fields depend on a length that may be absent.
    fn keep(&mut self, length: Option<Location>) {
        if let Some(length) = length.filter(|_| self.random.chance(2)) {
            self.selectors.push(length.clone());
            self.lengths.push(length);
        }
    }

    fn location(&mut self, is_length: bool) -> Option<Location> {
        if self.hostile && self.random.chance(4) {
            let path = (0..self.random.below(4)).map(|_| self.random.below(3) as u32).collect();
            return Some(Location::at(Scope::ALL[self.random.below(6) as usize], path));
        }
        let from = if is_length { &self.lengths } else { &self.selectors };
        let index = self.random.below(from.len().max(1) as u64) as usize;
        from.get(index).cloned()
    }

    fn length(&mut self) -> Length {
        match self.location(true) {
            Some(location) if !self.random.chance(3) => Length::Dynamic(location),
            _ if self.hostile && self.random.chance(9) => Length::Static(self.random.next() << 20),
            _ => Length::Static(self.random.below(4)),
        }
    }

    fn ranges(&mut self, from: i128) -> Vec<Range> {
        let mut ranges = range(from * 3 - 2, from * 3 + self.random.below(3) as i128);
        if self.random.chance(4) {
            ranges.extend(range(50, 100));
        }
        ranges
    }

    fn integer(&mut self) -> FieldClass {
        let location = Location::at(self.scope, self.path.clone());
        let signed = self.random.chance(3);
        let width = match self.random.below(4) {
            0 => 1 + self.random.below(64) as u8,
            1 => 1 + self.random.below(4) as u8,
            _ => 8 << self.random.below(4),
        };
        let mut integer = int(width, self.align(), signed, self.order);
        integer.is_reversed = self.random.chance(6);
        if self.random.chance(8) {
            integer.is_reversed = false;
            integer.width = Width::Variable;
            integer.align = 8;
        } else if width <= 4 && !signed {
            self.lengths.push(location.clone());
        }
        if self.random.chance(12) {
            integer.clock = Some(0);
        }
        if self.hostile && self.random.chance(20) {
            integer.width = Width::Bits(self.random.below(256) as u8);
            integer.align = self.random.next() as u32;
        }
        self.selectors.push(location);
        FieldClass::Integer(integer)
    }

    fn field(&mut self, depth: u32) -> FieldClass {
        let kinds = if depth >= 3 { 9 } else { 16 };
        match self.random.below(kinds) {
            0..=4 => self.integer(),
            5 => {
                let bits = 16 << self.random.below(3);
                let (align, is_reversed) = (self.align(), self.random.chance(4));
                FieldClass::Real(Real { bits, align, byte_order: self.order, is_reversed })
            }
            6 if self.random.chance(3) => {
                let order = if self.random.chance(2) { ByteOrder::Little } else { ByteOrder::Big };
                let encoding = match self.random.chance(2) {
                    true => Encoding::Utf16(order),
                    false => Encoding::Utf32(order),
                };
                let length = if self.random.chance(2) { Some(self.length()) } else { None };
                FieldClass::Wide { length, encoding }
            }
            6 => FieldClass::String,
            7 => FieldClass::Text { length: self.length() },
            8 => FieldClass::Blob { align: 8 << self.random.below(4), length: self.length() },
            9..=10 => {
                let count = self.random.below(4);
                FieldClass::Structure(self.members(count, depth + 1))
            }
            11..=12 => {
                let length = self.length();
                let element = Box::new(self.inside(0, depth).0);
                FieldClass::Array(Array { align: self.align(), length, element })
            }
            13..=14 => {
                let Some(selector) = self.location(false) else { return self.integer() };
                let (mut options, mut several) = (Vec::new(), None::<Location>);
                for index in 0..1 + self.random.below(4) as u32 {
                    let mut ranges = self.ranges(i128::from(index));
                    if self.random.chance(3) {
                        ranges.extend(range(i128::MIN, i128::MAX));
                    }
                    let (class, length) = self.inside(index, depth);
                    several = match (several, length) {
                        (Some(several), Some(length)) => {
                            let others = several.paths().skip(1).chain(length.paths());
                            let others = others.map(<[u32]>::to_vec).collect();
                            Some(Location { others, ..several })
                        }
                        (one, other) => one.or(other),
                    };
                    options.push(VariantOption { name: self.name(), ranges, class });
                }
                self.keep(several);
                FieldClass::Variant(Variant { selector, options })
            }
            _ => {
                let Some(selector) = self.location(false) else { return self.integer() };
                let ranges = if self.random.chance(2) { Vec::new() } else { self.ranges(1) };
                let (class, length) = self.inside(0, depth);
                self.keep(length);
                let class = Box::new(class);
                FieldClass::Optional(Optional { selector, ranges, class })
            }
        }
    }

    /// Makes random bytes, many of which are small.
    pub fn bytes(&mut self, count: u64) -> Vec<u8> {
        let mut byte = || match self.random.below(4) {
            0 => 0,
            1 => self.random.below(8) as u8,
            _ => self.random.next() as u8,
        };
        (0..count).map(|_| byte()).collect()
    }
}

/// Returns all fields of the last record, each leaf also by its name.
fn parts(
    class: &EventClass_,
    state: &DecodeState,
    window: &Window<'_>,
) -> Vec<(Scope, Vec<Shown>)> {
    let mut parts = Vec::new();
    for scope in [Scope::EventHeader, Scope::CommonContext, Scope::SpecificContext, Scope::Payload]
    {
        if class.has(scope) {
            parts.push((scope, shown(class, state, window.bytes, window.origin, scope)));
        }
    }
    parts
}

type EventClass_ = crate::read::event_class::EventClass;

fn check_names(
    class: &EventClass_,
    state: &DecodeState,
    bytes: &[u8],
    scope: Scope,
    fields: &[Shown],
) {
    let RecordPlace { begin, shape, .. } = &state.record;
    let view = RecordView { state, begin: *begin, shape, bytes, origin: 0 };
    for field in fields {
        if matches!(field.what.as_str(), "}" | "]" | ")") {
            continue;
        }
        let found = class.find_in(scope, &field.path);
        let found = found.unwrap_or_else(|| panic!("{} is not found in {scope:?}", field.path));
        let what = view.value(class.plans(), &found.path);
        if let Some(number) = found.fixed.and_then(|fixed| view.integer(fixed)) {
            let same = matches!(what, Some(Value::Unsigned(it)) if it as i64 == number)
                || matches!(what, Some(Value::Signed(it)) if it == number);
            assert!(same, "{number}: {what:?}");
        }
        let is_compound = field.what.starts_with(['{', '[', '(']);
        let expected = match field.what.as_str() {
            "absent" => None,
            _ if is_compound => Some("compound".to_string()),
            what => Some(what.to_string()),
        };
        assert_eq!(what.map(value), expected, "{} in {scope:?}", field.path);
    }
}

/// Decodes the packet with the decoder and with the reference, compares all records, and returns their number.
fn compare(schema: &Schema, bytes: &[u8]) -> u64 {
    let decoder = Decoder::new(Arc::new(schema.clone()), 0);
    let stream_class = &schema.streams[0];
    let mut state = decoder.state();
    let window = Window::new(bytes, 0, bytes.len() as u64 * 8);
    let mut reference = Reference::new(bytes, None);

    let header = decoder.packet_header(&window, &mut state);
    let mut expected_parts = Vec::new();
    if let Some(part) = &schema.packet_header {
        let Some(fields) = reference.part(Scope::PacketHeader, part) else {
            assert!(matches!(header, Err(NoRecord::Bad(_))), "{header:?}");
            return 0;
        };
        expected_parts.push((Scope::PacketHeader, fields));
    }
    let header = header.expect("the reference reads the packet's header");
    assert_eq!(header.end, reference.at);
    let stream = decoder.stream(0).expect("stream class");
    let context = stream.packet_context(&window, header.end, &mut state);
    reference.set_clock(stream_class.clock);
    if let Some(part) = &stream_class.packet_context {
        let Some(fields) = reference.part(Scope::PacketContext, part) else {
            assert!(matches!(context, Err(NoRecord::Bad(_))), "{context:?}");
            return 0;
        };
        expected_parts.push((Scope::PacketContext, fields));
    }
    let mut at = context.expect("the reference reads the packet's context").end_bit;
    assert_eq!(at, reference.at);

    let mut records = 0;
    while at < window.content {
        let found = stream.record(&window, at, &mut state);
        let Some(seen) = reference.record(stream_class) else {
            assert!(matches!(found, Err(NoRecord::Bad(_))), "{found:?} where there is no record");
            break;
        };
        found.unwrap_or_else(|stop| panic!("{stop:?} instead of a record at bit {at}"));
        let class = stream.class(state.record.shape.class).expect("class");
        assert_eq!(state.record.shape.class as usize, seen.class);
        assert_eq!(state.record.time, Some(seen.time));
        assert_eq!(state.record.end, seen.end);
        assert_eq!(state.time, reference.time, "the running time");
        assert_eq!(parts(class, &state, &window), seen.parts);
        let head = expected_parts.iter().map(|(scope, fields)| (*scope, fields));
        for (scope, fields) in head {
            if !state.head.is_empty() {
                assert_eq!(&shown(class, &state, bytes, 0, scope), fields);
                check_names(class, &state, bytes, scope, fields);
            }
        }
        for (scope, fields) in &seen.parts {
            check_names(class, &state, bytes, *scope, fields);
        }
        at = state.record.end;
        records += 1;
    }
    records
}

#[test]
fn random_schemas_and_bytes_are_decoded_as_the_reference_does() {
    let seed = strata_random::seed();
    let mut records = 0;
    for round in 0..4000 {
        let mut maker = Maker::new(seed.wrapping_add(round));
        let schema = maker.schema();
        let count = 20 + maker.random.below(200);
        let bytes = maker.bytes(count);
        let compared = std::panic::catch_unwind(|| compare(&schema, &bytes));
        match compared {
            Ok(found) => records += found,
            Err(panic) => {
                println!("round {round}: {schema:#?}\n{bytes:?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(records > 4000, "only {records} records: the test tests little");
}

#[test]
fn windows_of_random_packets_cut_anywhere_give_the_same_records_or_ask_for_more() {
    let seed = strata_random::seed();
    let (mut shorts, mut wholes) = (0, 0);
    for round in 0..300 {
        let mut maker = Maker::new(seed.wrapping_add(round));
        let schema = maker.schema();
        let bytes = maker.bytes(80);
        let decoder = Decoder::new(Arc::new(schema), 0);
        let content = bytes.len() as u64 * 8;
        let window = Window::new(&bytes, 0, content);
        let mut state = decoder.state();
        let stream = decoder.stream(0).expect("stream class");
        let Ok(header) = decoder.packet_header(&window, &mut state) else { continue };
        let Ok(context) = stream.packet_context(&window, header.end, &mut state) else { continue };
        let mut at = context.end_bit;
        while at < content {
            let before = state.clone();
            if stream.record(&window, at, &mut state).is_err() {
                break;
            }
            let class = stream.class(state.record.shape.class).expect("class");
            let whole = parts(class, &state, &window);
            for cut in at / 8..=bytes.len() as u64 {
                for from in [0, at / 8] {
                    let part = &bytes[from as usize..cut as usize];
                    let cut_window = Window::new(part, from, content);
                    let mut again = before.clone();
                    match stream.record(&cut_window, at, &mut again) {
                        Ok(()) => {
                            assert!(again.record.end <= cut * 8);
                            assert_eq!(again.record, state.record, "cut at byte {cut}");
                            assert_eq!(again.time, state.time);
                            assert_eq!(parts(class, &again, &cut_window), whole);
                            wholes += 1;
                        }
                        Err(NoRecord::Short { until }) => {
                            assert!(state.record.end > cut * 8, "cut at byte {cut}");
                            assert!(until > cut * 8 && until <= content, "{until}, {cut}");
                            assert_eq!(again.time, before.time);
                            shorts += 1;
                        }
                        Err(NoRecord::Bad(bad)) => panic!("{bad} where only bytes are missing"),
                    }
                }
            }
            at = state.record.end;
        }
    }
    assert!(shorts > 1000 && wholes > 1000, "{shorts} {wholes}");
}

#[test]
fn malicious_random_schemas_never_panic_and_the_walk_ends_where_the_record_does() {
    let seed = strata_random::seed();
    let mut records = 0;
    for round in 0..6000 {
        let mut maker = Maker::new(seed.wrapping_add(round));
        maker.hostile = true;
        let schema = maker.schema();
        let bytes = maker.bytes(100);
        let decoder = Decoder::new(Arc::new(schema), 0);
        let window = Window::new(&bytes, 0, bytes.len() as u64 * 8);
        let mut state = decoder.state();
        let stream = decoder.stream(0).expect("stream class");
        let Ok(header) = decoder.packet_header(&window, &mut state) else { continue };
        let Ok(context) = stream.packet_context(&window, header.end, &mut state) else { continue };
        let mut at = context.end_bit;
        while at < window.content {
            match stream.record(&window, at, &mut state) {
                Ok(()) => {}
                Err(NoRecord::Bad(bad)) => {
                    assert!(!bad.to_string().is_empty());
                    break;
                }
                Err(short) => panic!("{short:?} though all is there"),
            }
            let class = stream.class(state.record.shape.class).expect("class");
            // Asserts what the name says.
            parts(class, &state, &window);
            assert!(state.record.end > at);
            at = state.record.end;
            records += 1;
        }
    }
    assert!(records > 1000, "only {records} records: the test tests little");
}

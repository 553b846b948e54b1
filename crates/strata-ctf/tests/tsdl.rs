//! Metadata of other tracers, and Strata's own, back to what it was made of; and broken metadata.

use crate::support::*;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use strata_ctf::metadata;
use strata_ctf::read::metadata::{parse, parse_tolerant};
use strata_model::schema::{self, Location, Role, Schema, Scope, Structure, Width};
use strata_model::{
    Array, Base, ByteOrder, ClockClass, Element, Enumeration, EnvValue, EventClass, Field,
    FieldClass, FieldOrder, Flags, Float, Integer, Label, RecordHeader, Sequence, StreamClass,
    Trace,
};
use strata_random::Random;

fn file(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)).unwrap()
}

/// The schema that the metadata of a trace with plain names must describe.
struct Expected<'t> {
    trace: &'t Trace,
}

impl Expected<'_> {
    fn order(&self, order: FieldOrder) -> ByteOrder {
        match order {
            FieldOrder::Native => self.trace.byte_order,
            FieldOrder::Big => ByteOrder::Big,
            FieldOrder::Little => ByteOrder::Little,
        }
    }

    fn unsigned(&self, bits: u8) -> schema::Integer {
        schema::Integer {
            width: Width::Bits(bits),
            align: if bits % 8 == 0 { 8 } else { 1 },
            signed: false,
            byte_order: self.trace.byte_order,
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

    fn with_role(&self, bits: u8, role: Role) -> schema::Integer {
        schema::Integer { role: Some(role), ..self.unsigned(bits) }
    }

    fn time(&self, bits: u8) -> schema::Integer {
        schema::Integer { clock: Some(0), ..self.unsigned(bits) }
    }

    fn schema(&self) -> Schema {
        let uuid = schema::Array {
            align: 1,
            length: schema::Length::Static(16),
            element: Box::new(schema::FieldClass::Integer(self.unsigned(8))),
        };
        Schema {
            uuid: Some(self.trace.uuid),
            name: None,
            namespace: None,
            uid: None,
            packet_uuid: Some(1),
            environment: self.trace.environment.clone(),
            clocks: vec![self.trace.clock.clone()],
            packet_header: Some(members(vec![
                ("magic", self.with_role(32, Role::PacketMagic).into_class()),
                ("uuid", schema::FieldClass::Array(uuid)),
                ("stream_id", self.with_role(32, Role::StreamClassId).into_class()),
                ("stream_instance_id", self.with_role(64, Role::StreamId).into_class()),
            ])),
            streams: self.trace.streams.iter().map(|stream| self.stream(stream)).collect(),
            is_packet_header_unread: false,
            is_stream_unread: false,
        }
    }

    fn stream(&self, stream: &StreamClass) -> schema::StreamClass {
        let context = self.part(Scope::CommonContext, &stream.context);
        let end = schema::Integer { role: Some(Role::PacketEndTimestamp), ..self.time(64) };
        schema::StreamClass {
            id: stream.id.into(),
            name: None,
            clock: Some(0),
            packet_context: Some(members(vec![
                ("timestamp_begin", self.time(64).into_class()),
                ("timestamp_end", end.into_class()),
                ("content_size", self.with_role(64, Role::PacketContentLength).into_class()),
                ("packet_size", self.with_role(64, Role::PacketTotalLength).into_class()),
                ("packet_seq_num", self.with_role(64, Role::PacketSequenceNumber).into_class()),
                ("events_discarded", self.with_role(64, Role::DiscardedEvents).into_class()),
                ("cpu_id", self.unsigned(32).into_class()),
            ])),
            event_header: Some(self.header(stream.header)),
            event_common_context: (!stream.context.is_empty()).then_some(context),
            events: stream.events.iter().map(|event| self.event(event)).collect(),
        }
    }

    fn header(&self, header: RecordHeader) -> Structure {
        let (bits, last) = match header {
            RecordHeader::Compact => (5, 31),
            RecordHeader::Large => (16, 65535),
        };
        let ranges = [("compact", 0, last - 1), ("extended", last, last)]
            .map(|(name, from, to)| (name, vec![schema::Range { from, to }]));
        let labels =
            ranges.clone().map(|(name, ranges)| schema::Label { name: name.into(), ranges });
        let id = schema::Integer {
            labels: Some(Arc::new(labels)),
            ..self.with_role(bits, Role::EventClassId)
        };
        let time = self.time(header.timestamp_bits() as u8).into_class();
        let forms = [
            members(vec![("timestamp", time)]),
            members(vec![
                ("id", self.with_role(32, Role::EventClassId).into_class()),
                ("timestamp", self.time(64).into_class()),
            ]),
        ];
        let options = ranges.into_iter().zip(forms).map(|((name, ranges), form)| {
            let class = schema::FieldClass::Structure(form);
            schema::VariantOption { name: name.into(), ranges, class }
        });
        let selector = Location::at(Scope::EventHeader, vec![0]);
        let v = schema::Variant { selector, options: options.collect() };
        let mut header =
            members(vec![("id", id.into_class()), ("v", schema::FieldClass::Variant(v))]);
        header.align = 8;
        header
    }

    fn event(&self, event: &EventClass) -> schema::EventClass {
        schema::EventClass {
            id: event.id.into(),
            name: event.full_name(),
            loglevel: event.loglevel.map(i64::from),
            emf_uri: event.emf_uri.clone(),
            specific_context: None,
            payload: Some(self.part(Scope::Payload, &event.fields)),
        }
    }

    fn part(&self, scope: Scope, fields: &[Field]) -> Structure {
        let mut part = members(vec![]);
        fields.iter().for_each(|field| self.field(scope, field, &mut part));
        part
    }

    fn field(&self, scope: Scope, field: &Field, part: &mut Structure) {
        let class = match &field.class {
            FieldClass::Integer(integer) => self.integer(integer).into_class(),
            FieldClass::Enumeration(class) => self.enumeration(class),
            FieldClass::Float(float) => self.real(float),
            FieldClass::String => schema::FieldClass::String,
            FieldClass::Array(array) => {
                self.list(&array.element, schema::Length::Static(array.count.into()))
            }
            FieldClass::Sequence(sequence) => {
                let path = vec![part.members.len() as u32];
                let class = self.unsigned(sequence.length_bytes * 8).into_class();
                let name = format!("_{}_length", field.name);
                part.members.push(schema::Member { name, class });
                let location = Location::at(scope, path);
                self.list(&sequence.element, schema::Length::Dynamic(location))
            }
        };
        part.members.push(schema::Member { name: field.name.clone(), class });
    }

    fn integer(&self, integer: &Integer) -> schema::Integer {
        schema::Integer {
            signed: integer.signed,
            base: integer.base,
            byte_order: self.order(integer.byte_order),
            ..self.unsigned(integer.bytes * 8)
        }
    }

    fn real(&self, float: &Float) -> schema::FieldClass {
        let byte_order = self.order(float.byte_order);
        schema::FieldClass::Real(schema::Real {
            bits: float.bytes * 8,
            align: 8,
            byte_order,
            is_reversed: false,
        })
    }

    /// Returns the class as a reader sees it: labels of the same name are merged.
    fn enumeration(&self, class: &Enumeration) -> schema::FieldClass {
        let mut labels: Vec<schema::Label> = Vec::new();
        for label in &class.labels {
            let (from, to) = label.values(&class.integer);
            let range = schema::Range { from, to };
            match labels.iter_mut().find(|known| known.name == label.label) {
                Some(known) => known.ranges.push(range),
                None => {
                    let name = label.label.clone();
                    labels.push(schema::Label { name, ranges: vec![range] });
                }
            }
        }
        let labels = Some(labels.into());
        schema::Integer { labels, flags: class.flags, ..self.integer(&class.integer) }.into_class()
    }

    fn list(&self, element: &Element, length: schema::Length) -> schema::FieldClass {
        let element = match element {
            Element::Integer(integer) => self.integer(integer).into_class(),
            Element::Float(float) => self.real(float),
            Element::Text => return schema::FieldClass::Text { length },
        };
        schema::FieldClass::Array(schema::Array { align: 1, length, element: Box::new(element) })
    }
}

trait IntoClass {
    fn into_class(self) -> schema::FieldClass;
}

impl IntoClass for schema::Integer {
    fn into_class(self) -> schema::FieldClass {
        schema::FieldClass::Integer(self)
    }
}

fn members(members: Vec<(&str, schema::FieldClass)>) -> Structure {
    let member = |(name, class): (&str, _)| schema::Member { name: name.into(), class };
    Structure { align: 1, members: members.into_iter().map(member).collect() }
}

fn check(trace: &Trace) {
    assert_eq!(trace.validate(), Ok(()));
    let text = metadata::write(trace);
    let found = parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let expected = Expected { trace }.schema();
    for (found, expected) in found.streams.iter().zip(&expected.streams) {
        for (found, expected) in found.events.iter().zip(&expected.events) {
            assert_eq!(found, expected, "{text}");
        }
    }
    assert_eq!(found, expected, "{text}");
}

/// Random parts of a trace.
trait RandomParts {
    fn integer(&mut self) -> Integer;
    fn float(&mut self) -> Float;
    fn element(&mut self) -> Element;
    fn class(&mut self) -> FieldClass;
    fn trace(&mut self) -> Trace;
}

impl RandomParts for Random {
    fn integer(&mut self) -> Integer {
        Integer {
            bytes: self.pick(&[1, 2, 4, 8]),
            signed: self.below(2) == 1,
            base: self.pick(&[Base::Two, Base::Eight, Base::Ten, Base::Sixteen]),
            byte_order: self.pick(&[FieldOrder::Native, FieldOrder::Big, FieldOrder::Little]),
            is_bool: false,
        }
    }

    fn float(&mut self) -> Float {
        let byte_order = self.pick(&[FieldOrder::Native, FieldOrder::Big, FieldOrder::Little]);
        Float { bytes: self.pick(&[4, 8]), byte_order }
    }

    fn element(&mut self) -> Element {
        match self.below(3) {
            0 => Element::Integer(self.integer()),
            1 => Element::Float(self.float()),
            _ => Element::Text,
        }
    }

    fn class(&mut self) -> FieldClass {
        match self.below(6) {
            0 => FieldClass::Integer(self.integer()),
            1 => {
                let integer = self.integer();
                let names = ["a", "b c", "_d", "\"", "\\", "\n", "é", "event", "a"];
                let labels = (0..1 + self.below(20)).map(|_| {
                    let (from, length) = (self.below(100) as i64, self.below(28) as i64);
                    let from = if integer.signed { from - 50 } else { from };
                    Label { from, to: from + length, label: self.pick(&names).into() }
                });
                let labels = labels.collect();
                FieldClass::Enumeration(Enumeration {
                    integer,
                    name: "n".into(),
                    labels,
                    flags: self.pick(&[
                        None,
                        Some(Flags { low_bits: 0 }),
                        Some(Flags { low_bits: 9 }),
                    ]),
                })
            }
            2 => FieldClass::Float(self.float()),
            3 => FieldClass::String,
            4 => {
                FieldClass::Array(Array { element: self.element(), count: self.below(100) as u32 })
            }
            _ => {
                let length_bytes = self.pick(&[1, 2, 4, 8]);
                FieldClass::Sequence(Sequence { element: self.element(), length_bytes })
            }
        }
    }

    fn trace(&mut self) -> Trace {
        let events = |random: &mut Random| {
            let events = (0..random.below(4) as u32).map(|id| EventClass {
                loglevel: random.pick(&[None, Some(0), Some(14)]),
                emf_uri: random.pick(&[None, Some("http://\"x\"\\".into())]),
                ..event(
                    id * 40,
                    &format!("e{id}"),
                    (0..random.below(30))
                        .map(|i| Field::new(format!("f{i}"), random.class()))
                        .collect(),
                )
            });
            events.collect::<Vec<_>>()
        };
        let context = |random: &mut Random| {
            let fields = (0..random.below(5)).map(|i| Field::new(format!("f{i}"), random.class()));
            fields.collect()
        };
        let headers = [RecordHeader::Compact, RecordHeader::Large];
        let streams = (0..1 + self.below(3) as u32).map(|id| StreamClass {
            id: id * 7,
            name: format!("s{id}"),
            header: self.pick(&headers),
            context: context(self),
            events: events(self),
        });
        Trace {
            uuid: UUID,
            streams: streams.collect(),
            byte_order: self.pick(&[ByteOrder::Little, ByteOrder::Big]),
            clock: ClockClass {
                offset_s: self.pick(&[0, -5, 1_700_000_000]),
                offset_cycles: self.pick(&[0, 1, 999_999_999]),
                ..ClockClass::monotonic(Some(BOOT_ID), 0)
            },
            environment: vec![
                ("a".into(), EnvValue::Integer(self.pick(&[0, i64::MIN, i64::MAX, -1]))),
                (
                    "b".into(),
                    EnvValue::Text(self.pick(&["", "x\ny", "\"\\\x01\x7f", "é{};"]).into()),
                ),
            ],
        }
    }
}

#[test]
fn what_strata_writes_is_read_as_the_trace_it_came_from() {
    let mut random = Random::new();
    for _ in 0..200 {
        check(&random.trace());
    }
}

#[test]
fn metadata_of_lttng_ust_is_read() {
    let schema = parse(&file("tsdl/lttng-ust.metadata")).unwrap();
    let text = |name: &str| schema.environment(name).cloned();
    assert_eq!(text("tracer_name"), Some(EnvValue::from("lttng-ust")));
    assert_eq!(text("tracer_major"), Some(EnvValue::Integer(2)));
    let clock = &schema.clocks[0];
    assert_eq!((clock.name.as_str(), clock.frequency), ("monotonic", 1_000_000_000));
    assert_eq!((clock.offset_s, clock.offset_cycles), (1_795_290_860, 545_604_947));
    let stream = &schema.streams[0];
    assert_eq!((schema.streams.len(), stream.id, stream.clock), (1, 0, Some(0)));
    let context = stream.event_common_context.as_ref().unwrap();
    let names: Vec<_> = context.members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["vpid", "vtid", "procname", "ip"]);
    let length = schema::Length::Static(17);
    assert_eq!(context.members[2].class, schema::FieldClass::Text { length });
    let names: Vec<_> = stream.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["sample:every", "sample:nothing"]);
    let event = &stream.events[0];
    assert_eq!(event.loglevel, Some(4));
    assert_eq!(event.emf_uri.as_deref(), Some("http://example.org/model?e"));
    let payload = event.payload.as_ref().unwrap();
    let names: Vec<_> = payload.members.iter().map(|member| member.name.as_str()).collect();
    let expected = [
        "number",
        "hexa",
        "port",
        "addr",
        "ratio",
        "mean",
        "text",
        "colour",
        "three",
        "five",
        "mac",
        "_seq_length",
        "seq",
        "_stext_length",
        "stext",
        "_snet_length",
        "snet",
    ];
    assert_eq!(names, expected);
    let schema::FieldClass::Array(array) = &payload.members[16].class else { panic!() };
    let location = Location::at(Scope::Payload, vec![15]);
    assert_eq!(array.length, schema::Length::Dynamic(location));
    let schema::FieldClass::Integer(element) = &*array.element else { panic!() };
    assert_eq!(element.byte_order, ByteOrder::Big);
    assert_eq!(stream.events[1].payload.as_ref().unwrap().members.len(), 0);
}

#[test]
fn metadata_of_perf_and_babeltrace2_is_read() {
    let perf = parse(&file("tsdl/perf.tsdl")).unwrap();
    let payload = perf.streams[0].events[0].payload.as_ref().unwrap();
    let schema::FieldClass::Integer(ip) = &payload.members[0].class else { panic!() };
    assert_eq!((ip.width, ip.align, ip.base), (Width::Bits(64), 1, Base::Sixteen));
    let other = parse(&file("tsdl/babeltrace2.tsdl")).unwrap();
    assert_eq!(other.environment("hostname"), Some(&EnvValue::from("h\"x\n")));
    let events = &other.streams[0].events;
    assert_eq!(events.len(), 2);
    let payload = events[0].payload.as_ref().unwrap();
    let v = &payload.members[payload.find("v").unwrap()].class;
    let schema::FieldClass::Variant(v) = v else { panic!() };
    assert_eq!(v.options[1].ranges, [schema::Range { from: 2, to: 3 }]);
    let strings = &payload.members[payload.find("dd").unwrap()].class;
    let schema::FieldClass::Array(strings) = strings else { panic!() };
    assert_eq!(*strings.element, schema::FieldClass::String);
}

/// Returns all sample metadata.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let names = [
        "tsdl/lttng-ust.metadata",
        "tsdl/perf.tsdl",
        "tsdl/babeltrace2.tsdl",
        "tsdl/constructs.tsdl",
        "golden/process.tsdl",
        "golden/streams.tsdl",
    ];
    names.map(|name| (name, file(name))).into()
}

fn ids(schema: &Schema) -> HashMap<(u64, u64), &schema::EventClass> {
    let streams = schema.streams.iter();
    streams
        .flat_map(|stream| stream.events.iter().map(|event| ((stream.id, event.id), event)))
        .collect()
}

#[test]
fn truncated_at_any_byte_keeps_all_whole_blocks() {
    let mut random = Random::new();
    for (name, bytes) in samples() {
        let whole = parse(&bytes).unwrap();
        let expected = ids(&whole);
        let mut before = 0;
        let (begin, step) = steps(&mut random);
        for length in (begin..bytes.len()).step_by(step) {
            let Ok(parsed) = parse_tolerant(&bytes[..length]) else { continue };
            let found = ids(&parsed.schema);
            for (id, event) in &found {
                assert_eq!(event, &expected[id], "{name} {length}");
            }
            assert!(found.len() >= before, "{name} {length}");
            before = found.len();
        }
        let parsed = parse_tolerant(&bytes[..bytes.len() - 1]).unwrap();
        assert!(ids(&parsed.schema).len() + 1 >= expected.len(), "{name}");
    }
}

/// Every byte, or without optimisation every seventh, and others in the next run.
fn steps(random: &mut Random) -> (usize, usize) {
    match cfg!(debug_assertions) {
        true => (random.below(7), 7),
        false => (0, 1),
    }
}

/// Parses the bytes, which may fail but must return, and with a message.
fn survive(bytes: &[u8]) {
    let _ = parse(bytes);
    if let Err(error) = parse_tolerant(bytes) {
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn malicious_bytes_are_survived() {
    let mut random = Random::new();
    let samples = samples();
    for _ in 0..rounds() {
        let mut bytes = random.pick(&samples).1;
        for _ in 0..1 + random.below(8) {
            let place = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[place] ^= 1 << random.below(8),
                1 => bytes[place] = random.pick(b"{}[]();:=<>.,*\"'\\/_-+ \n\0\xff09ax"),
                2 => drop(bytes.remove(place)),
                _ => bytes.insert(place, random.below(256) as u8),
            }
        }
        survive(&bytes);
    }
}

/// Splits text into words, marks and white space.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut word = false;
    for character in text.chars() {
        let in_word = character.is_ascii_alphanumeric() || character == '_';
        match tokens.last_mut().filter(|_| word && in_word) {
            Some(last) => last.push(character),
            None => tokens.push(character.into()),
        }
        word = in_word;
    }
    tokens
}

#[test]
fn malicious_order_of_tokens_is_survived() {
    let mut random = Random::new();
    let samples: Vec<_> =
        samples().into_iter().filter(|(name, _)| name.ends_with(".tsdl")).collect();
    let samples: Vec<_> =
        samples.iter().map(|(_, bytes)| tokens(std::str::from_utf8(bytes).unwrap())).collect();
    for _ in 0..rounds() / 4 {
        let mut tokens = random.pick(&samples);
        for _ in 0..1 + random.below(6) {
            let (from, to) = (random.below(tokens.len()), random.below(tokens.len()));
            match random.below(4) {
                0 => tokens.swap(from, to),
                1 => tokens[from] = tokens[to].clone(),
                2 => drop(tokens.remove(from)),
                _ => {
                    let piece = tokens[from..tokens.len().min(from + 40)].to_vec();
                    drop(tokens.splice(to..to, piece));
                }
            }
        }
        survive(tokens.concat().as_bytes());
    }
}

/// Returns the number of rounds: fewer in debug builds, which take ten times as long. `STRATA_ROUNDS=N` sets it.
fn rounds() -> usize {
    let given = std::env::var("STRATA_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    given.unwrap_or(if cfg!(debug_assertions) { 1_500 } else { 120_000 })
}

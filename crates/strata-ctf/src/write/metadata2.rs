//! Metadata of CTF 2: fragments of JSON. The packets are those of CTF 1.8, byte for byte.

use crate::attributes::{level_name, OWN};
use std::collections::HashSet;
use std::fmt::{self, Write};
use strata_model::{
    ByteOrder, ClockClass, Element, Enumeration, EnvValue, EventClass, Field, FieldClass,
    FieldOrder, Float, Integer, Label, RecordHeader, StreamClass, Trace, Uuid,
};

/// Writes metadata as [`super::metadata::write_to()`] does.
pub(super) fn write_to(out: &mut impl Write, trace: &Trace) -> fmt::Result {
    let order = ByteOrderName(trace.byte_order);
    fragment(
        out,
        format_args!(r#""type":"preamble","version":2,"uuid":{}"#, UuidBytes(trace.uuid)),
    )?;
    trace_class(out, trace, order)?;
    clock(out, &trace.clock)?;
    for stream in &trace.streams {
        stream_class(out, stream, &trace.clock, order)?;
        append_events(out, trace.byte_order, stream.id, &stream.events)?;
    }
    Ok(())
}

/// Appends events as [`super::metadata::append_as()`] does.
pub(super) fn append_events(
    out: &mut impl Write,
    order: ByteOrder,
    stream_id: u32,
    events: &[EventClass],
) -> fmt::Result {
    events.iter().try_for_each(|event| event_class(out, stream_id, event, ByteOrderName(order)))
}

/// Writes a fragment with these members.
fn fragment(out: &mut impl Write, members: impl fmt::Display) -> fmt::Result {
    writeln!(out, "\x1e{{{members}}}")
}

/// A string in JSON's quotes.
struct Quoted<'t>(&'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&strata_text::json::compact(self.0))
    }
}

/// A UUID as 16 numbers.
struct UuidBytes(Uuid);

impl fmt::Display for UuidBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0 .0)
    }
}

/// The trace's byte order.
#[derive(Clone, Copy)]
struct ByteOrderName(ByteOrder);

impl ByteOrderName {
    fn of(self, order: FieldOrder) -> &'static str {
        match (order, self.0) {
            (FieldOrder::Big, _) | (FieldOrder::Native, ByteOrder::Big) => "big-endian",
            (FieldOrder::Little, _) | (FieldOrder::Native, ByteOrder::Little) => "little-endian",
        }
    }

    /// Formats an unsigned integer class; `more` are members that begin with a comma.
    fn unsigned(self, bits: u32, more: &str) -> String {
        let align = if bits % 8 == 0 { 8 } else { 1 };
        let order = self.of(FieldOrder::Native);
        format!(
            r#"{{"type":"fixed-length-unsigned-integer","length":{bits},"alignment":{align},"byte-order":"{order}"{more}}}"#
        )
    }

    /// Formats an integer of a header with a role, which readers need.
    fn role(self, bits: u32, role: &str) -> String {
        self.unsigned(bits, &format!(r#","roles":["{role}"]"#))
    }
}

/// Formats a structure of members that are formatted already, packed by bytes.
fn structure(members: &[(&str, String)]) -> String {
    let member = |(name, class): &(&str, String)| {
        format!(r#"{{"name":{},"field-class":{class}}}"#, Quoted(name))
    };
    let members: Vec<String> = members.iter().map(member).collect();
    format!(
        r#"{{"type":"structure","minimum-alignment":8,"member-classes":[{}]}}"#,
        members.join(",")
    )
}

fn trace_class(out: &mut impl Write, trace: &Trace, order: ByteOrderName) -> fmt::Result {
    let uuid = r#"{"type":"static-length-blob","length":16,"roles":["metadata-stream-uuid"]}"#;
    let header = structure(&[
        ("magic", order.role(32, "packet-magic-number")),
        ("uuid", uuid.to_owned()),
        ("stream_id", order.role(32, "data-stream-class-id")),
        ("stream_instance_id", order.role(64, "data-stream-id")),
    ]);
    let entry = |(name, value): &(String, EnvValue)| match value {
        EnvValue::Integer(number) => format!("{}:{number}", Quoted(name)),
        EnvValue::Text(text) => format!("{}:{}", Quoted(name), Quoted(text)),
    };
    let environment: Vec<String> = trace.environment.iter().map(entry).collect();
    fragment(
        out,
        format_args!(
            r#""type":"trace-class","environment":{{{}}},"packet-header-field-class":{header}"#,
            environment.join(",")
        ),
    )
}

fn clock(out: &mut impl Write, clock: &ClockClass) -> fmt::Result {
    let mut more = String::new();
    if let Some(uuid) = clock.uuid {
        write!(more, r#","uid":"{uuid}""#)?;
    }
    if !clock.description.is_empty() {
        write!(more, r#","description":{}"#, Quoted(&clock.description))?;
    }
    if clock.precision != 0 {
        write!(more, r#","precision":{}"#, clock.precision)?;
    }
    if clock.absolute {
        more.push_str(r#","origin":"unix-epoch""#);
    }
    let ClockClass { frequency, offset_s, offset_cycles, .. } = clock;
    let name = Quoted(&clock.name);
    fragment(
        out,
        format_args!(
            r#""type":"clock-class","id":{name},"name":{name},"frequency":{frequency},"offset-from-origin":{{"seconds":{offset_s},"cycles":{offset_cycles}}}{more}"#
        ),
    )
}

fn packet_context(order: ByteOrderName) -> String {
    structure(&[
        ("timestamp_begin", order.role(64, "default-clock-timestamp")),
        ("timestamp_end", order.role(64, "packet-end-default-clock-timestamp")),
        ("content_size", order.role(64, "packet-content-length")),
        ("packet_size", order.role(64, "packet-total-length")),
        ("packet_seq_num", order.role(64, "packet-sequence-number")),
        ("events_discarded", order.role(64, "discarded-event-record-counter-snapshot")),
        ("cpu_id", order.unsigned(32, "")),
    ])
}

/// Formats the record header. The compact header's 5 and 27 bits share a word. In the extended form, the id begins at
/// the next whole byte.
fn record_header(order: ByteOrderName, header: RecordHeader) -> String {
    let (id_bits, last) = match header {
        RecordHeader::Compact => (5, 31),
        RecordHeader::Large => (16, 65535),
    };
    let before = last - 1;
    let (id, time) = ("event-record-class-id", "default-clock-timestamp");
    let short = format!(
        r#"{{"type":"structure","member-classes":[{{"name":"timestamp","field-class":{}}}]}}"#,
        order.role(header.timestamp_bits(), time)
    );
    let full = structure(&[("id", order.role(32, id)), ("timestamp", order.role(64, time))]);
    let options = format!(
        r#"[{{"name":"compact","selector-field-ranges":[[0,{before}]],"field-class":{short}}},{{"name":"extended","selector-field-ranges":[[{last},{last}]],"field-class":{full}}}]"#
    );
    let variant = format!(
        r#"{{"type":"variant","selector-field-location":{{"path":["id"]}},"options":{options}}}"#
    );
    let labels = format!(
        r#","mappings":{{"compact":[[0,{before}]],"extended":[[{last},{last}]]}},"roles":["{id}"]"#
    );
    structure(&[("id", order.unsigned(id_bits, &labels)), ("v", variant)])
}

fn stream_class(
    out: &mut impl Write,
    stream: &StreamClass,
    clock: &ClockClass,
    order: ByteOrderName,
) -> fmt::Result {
    let (header, context) = (record_header(order, stream.header), packet_context(order));
    let mut more = String::new();
    if !stream.name.is_empty() {
        write!(more, r#","name":{}"#, Quoted(&stream.name))?;
    }
    if !stream.context.is_empty() {
        let fields = members(&stream.context, order);
        write!(more, r#","event-record-common-context-field-class":{fields}"#)?;
    }
    fragment(
        out,
        format_args!(
            r#""type":"data-stream-class","id":{},"default-clock-class-id":{},"packet-context-field-class":{context},"event-record-header-field-class":{header}{more}"#,
            stream.id,
            Quoted(&clock.name)
        ),
    )
}

fn event_class(
    out: &mut impl Write,
    stream_id: u32,
    event: &EventClass,
    order: ByteOrderName,
) -> fmt::Result {
    let mut attributes = Vec::new();
    if let Some(level) = event.loglevel.and_then(level_name) {
        attributes.push(format!(r#""log-level":"{level}""#));
    }
    if let Some(uri) = &event.emf_uri {
        attributes.push(format!(r#""emf-uri":{}"#, Quoted(uri)));
    }
    let attributes = match attributes.is_empty() {
        true => String::new(),
        false => format!(r#","attributes":{{"babeltrace.org,2020":{{{}}}}}"#, attributes.join(",")),
    };
    let context = match event.context.is_empty() {
        true => String::new(),
        false => {
            format!(r#","specific-context-field-class":{}"#, members(&event.context, order))
        }
    };
    fragment(
        out,
        format_args!(
            r#""type":"event-record-class","data-stream-class-id":{stream_id},"id":{},"name":{}{attributes}{context},"payload-field-class":{}"#,
            event.id,
            Quoted(&event.full_name()),
            members(&event.fields, order)
        ),
    )
}

/// Formats the fields of a payload or a context, each with a unique name.
fn members(fields: &[Field], order: ByteOrderName) -> String {
    let mut taken: HashSet<String> = fields.iter().map(|field| field.name.clone()).collect();
    let mut all = Vec::new();
    for field in fields {
        let mut length = String::new();
        if let FieldClass::Sequence(class) = &field.class {
            length = format!("_{}_length", field.name);
            let mut number = 2u32;
            while !taken.insert(length.clone()) {
                length = format!("_{}_length_{number}", field.name);
                number += 1;
            }
            all.push((length.clone(), order.unsigned(u32::from(class.length_bytes) * 8, "")));
        }
        all.push((field.name.clone(), field_class(&field.class, &length, order)));
    }
    let all: Vec<(&str, String)> =
        all.iter().map(|(n, class)| (n.as_str(), class.clone())).collect();
    structure(&all)
}

/// Formats a field class. `length` is the name of the member that holds the number of elements.
fn field_class(class: &FieldClass, length: &str, order: ByteOrderName) -> String {
    match class {
        FieldClass::Integer(class) => integer(class, "", order),
        FieldClass::Enumeration(class) => enumeration(class, order),
        FieldClass::Float(class) => float(class, order),
        FieldClass::String => r#"{"type":"null-terminated-string"}"#.to_owned(),
        FieldClass::Array(class) => {
            elements("static", &class.element, &format!(r#""length":{}"#, class.count), order)
        }
        FieldClass::Sequence(class) => {
            let path = format!(r#""length-field-location":{{"path":[{}]}}"#, Quoted(length));
            elements("dynamic", &class.element, &path, order)
        }
    }
}

fn elements(kind: &str, element: &Element, length: &str, order: ByteOrderName) -> String {
    let element = match element {
        Element::Text => return format!(r#"{{"type":"{kind}-length-string",{length}}}"#),
        Element::Integer(class) => integer(class, "", order),
        Element::Float(class) => float(class, order),
    };
    format!(r#"{{"type":"{kind}-length-array",{length},"element-field-class":{element}}}"#)
}

fn integer(class: &Integer, more: &str, order: ByteOrderName) -> String {
    let sign = if class.signed { "signed" } else { "unsigned" };
    let base = match class.base.radix() {
        10 => String::new(),
        radix => format!(r#","preferred-display-base":{radix}"#),
    };
    format!(
        r#"{{"type":"fixed-length-{sign}-integer","length":{},"alignment":8,"byte-order":"{}"{base}{more}}}"#,
        u32::from(class.bytes) * 8,
        order.of(class.byte_order)
    )
}

fn float(class: &Float, order: ByteOrderName) -> String {
    format!(
        r#"{{"type":"fixed-length-floating-point-number","length":{},"alignment":8,"byte-order":"{}"}}"#,
        u32::from(class.bytes) * 8,
        order.of(class.byte_order)
    )
}

fn enumeration(class: &Enumeration, order: ByteOrderName) -> String {
    if class.labels.is_empty() {
        return integer(&class.integer, "", order);
    }
    // Each name occurs once, with all its values.
    let mut names: Vec<(&str, Vec<&Label>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for label in &class.labels {
        let place = *places.entry(label.label.as_str()).or_insert(names.len());
        match names.get_mut(place) {
            Some((_, labels)) => labels.push(label),
            None => names.push((&label.label, vec![label])),
        }
    }
    let range = |label: &&Label| {
        let (from, to) = label.values(&class.integer);
        format!("[{from},{to}]")
    };
    let mapping = |(name, labels): &(&str, Vec<&Label>)| {
        let ranges: Vec<String> = labels.iter().map(range).collect();
        format!("{}:[{}]", Quoted(name), ranges.join(","))
    };
    let mappings: Vec<String> = names.iter().map(mapping).collect();
    let flags = class.flags.map_or(String::new(), |flags| {
        format!(r#","attributes":{{"{OWN}":{{"flags":{}}}}}"#, flags.low_bits)
    });
    let more = format!(r#","mappings":{{{}}}{flags}"#, mappings.join(","));
    integer(&class.integer, &more, order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{write_as, Version};
    use crate::read::metadata::parse;
    use strata_model::schema::{self, Length, Location, Role, Scope};
    use strata_model::{Array, Flags, Sequence};

    #[test]
    fn names_and_texts_of_any_kind_are_read_back_as_they_were() {
        let evil = "a\"\\b\u{7f}\u{1e}é}";
        let label = |from, to, label: &str| Label { from, to, label: label.into() };
        let labels = vec![label(1, 1, evil), label(4, 5, "x"), label(7, 7, evil)];
        let (integer, flags) = (Integer::signed(4), Some(Flags { low_bits: 2 }));
        let enumeration = Enumeration { integer, name: String::new(), labels, flags };
        let element = Element::Integer(Integer::unsigned(2));
        let sequence = FieldClass::Sequence(Sequence { element, length_bytes: 4 });
        let text = FieldClass::Array(Array { element: Element::Text, count: 3 });
        let fields = vec![
            Field::new("a.b", FieldClass::Enumeration(enumeration)),
            Field::new("s", sequence.clone()),
            Field::new("_s_length", FieldClass::String),
            Field::new("é}", text),
        ];
        let event = EventClass {
            id: 40,
            provider: "p".into(),
            name: evil.into(),
            loglevel: Some(13),
            emf_uri: Some(evil.into()),
            context: Vec::new(),
            fields,
        };
        let context = vec![Field::new("c", sequence)];
        let (name, header) = ("channel".to_owned(), RecordHeader::Compact);
        let trace = Trace {
            uuid: Uuid(*b"0123456789abcdef"),
            byte_order: ByteOrder::Big,
            environment: vec![("k\"".into(), EnvValue::Text(evil.into()))],
            clock: ClockClass::monotonic(None, -1),
            streams: vec![StreamClass { id: 3, name, header, context, events: vec![event] }],
        };
        let found = parse(write_as(Version::Two, &trace).as_bytes()).expect("our own metadata");
        assert_eq!((found.uuid, found.packet_uuid), (Some(trace.uuid), Some(1)));
        assert_eq!(found.environment, trace.environment);
        assert_eq!(found.clocks, [trace.clock]);
        let stream = &found.streams[0];
        let event = &stream.events[0];
        assert_eq!(event.name, format!("p:{evil}"));
        assert_eq!((event.loglevel, event.emf_uri.as_deref()), (Some(13), Some(evil)));
        let payload = event.payload.as_ref().unwrap();
        let names: Vec<&str> = payload.members.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["a.b", "_s_length_2", "s", "_s_length", "é}"]);
        let schema::FieldClass::Integer(number) = &payload.members[0].class else { panic!() };
        let labels = number.labels.as_deref().unwrap();
        assert_eq!((labels.len(), labels[0].ranges.len(), number.flags), (2, 2, flags));
        let schema::FieldClass::Array(array) = &payload.members[2].class else { panic!() };
        let place = Location::at(Scope::Payload, vec![1]);
        assert_eq!(array.length, Length::Dynamic(place));
        let header = stream.event_header.as_ref().unwrap();
        let schema::FieldClass::Integer(id) = &header.members[0].class else { panic!() };
        assert_eq!(id.role, Some(Role::EventClassId));
    }
}

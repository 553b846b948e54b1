//! The same for programs: everything that the metadata say.

use std::io::{self, Write};

use serde_json::{json, Map, Value};
use strata_ctf::model::schema::{
    EventClass, FieldClass, Integer, Length, Location, Range, Schema, Scope, StreamClass,
    Structure, Width,
};
use strata_ctf::model::{ClockClass, EnvValue};
use strata_ctf::read::{Reader, Trace};

use super::class::{base_name, encoding_name, order_name, role_name};
use super::streams_of;

/// An object; event classes are made and written one by one, since a trace may have many.
pub fn write(out: &mut impl Write, reader: &Reader) -> io::Result<()> {
    writeln!(out, "{{\"traces\":[")?;
    for (number, trace) in reader.traces().iter().enumerate() {
        separate(out, number)?;
        write_trace(out, reader, trace)?;
    }
    writeln!(out, "]}}")
}

fn separate(out: &mut impl Write, number: usize) -> io::Result<()> {
    match number {
        0 => Ok(()),
        _ => writeln!(out, ","),
    }
}

/// Members of an object that is not complete yet.
fn open(out: &mut impl Write, members: &Value) -> io::Result<()> {
    let text = members.to_string();
    let inner = text.strip_suffix('}').unwrap_or(&text);
    write!(out, "{inner}{}", if inner == "{" { "" } else { "," })
}

fn write_trace(out: &mut impl Write, reader: &Reader, trace: &Trace) -> io::Result<()> {
    let schema = trace.schema();
    let environment: Map<String, Value> = schema
        .environment
        .iter()
        .map(|(name, value)| match value {
            EnvValue::Integer(number) => (name.clone(), json!(number)),
            EnvValue::Text(text) => (name.clone(), json!(text)),
        })
        .collect();
    let members = json!({
        "path": trace.path().display().to_string(),
        "name": trace.name(),
        "uuid": schema.uuid.map(|uuid| uuid.to_string()),
        "environment": environment,
        "clocks": schema.clocks.iter().map(clock).collect::<Vec<_>>(),
        "packet_header": part(schema.packet_header.as_ref(), schema),
    });
    open(out, &members)?;
    writeln!(out, "\"stream_classes\":[")?;
    for (number, class) in schema.streams.iter().enumerate() {
        separate(out, number)?;
        write_class(out, reader, trace, class)?;
    }
    write!(out, "]}}")
}

fn clock(clock: &ClockClass) -> Value {
    json!({
        "name": clock.name,
        "uuid": clock.uuid.map(|uuid| uuid.to_string()),
        "description": clock.description,
        "frequency": clock.frequency,
        "precision": clock.precision,
        "offset_seconds": clock.offset_s,
        "offset_cycles": clock.offset_cycles,
        "absolute": clock.absolute,
    })
}

fn write_class(
    out: &mut impl Write,
    reader: &Reader,
    trace: &Trace,
    class: &StreamClass,
) -> io::Result<()> {
    let schema = trace.schema();
    let clock = class.clock.and_then(|index| schema.clocks.get(index));
    let streams = streams_of(reader, trace, class).map(|stream| {
        let files: Vec<_> = stream.files().iter().map(|path| path.display().to_string()).collect();
        json!({ "id": stream.id(), "name": stream.name(), "bytes": stream.bytes(), "files": files })
    });
    let members = json!({
        "id": class.id,
        "name": class.name,
        "clock": clock.map(|clock| &clock.name),
        "streams": streams.collect::<Vec<_>>(),
        "packet_context": part(class.packet_context.as_ref(), schema),
        "event_header": part(class.event_header.as_ref(), schema),
        "event_common_context": part(class.event_common_context.as_ref(), schema),
    });
    open(out, &members)?;
    writeln!(out, "\"event_classes\":[")?;
    for (number, event) in class.events.iter().enumerate() {
        separate(out, number)?;
        write!(out, "{}", event_class(event, schema))?;
    }
    write!(out, "]}}")
}

fn event_class(event: &EventClass, schema: &Schema) -> Value {
    json!({
        "id": event.id,
        "name": event.name,
        "loglevel": event.loglevel,
        "emf_uri": event.emf_uri,
        "context": part(event.specific_context.as_ref(), schema),
        "payload": part(event.payload.as_ref(), schema),
    })
}

fn part(found: Option<&Structure>, schema: &Schema) -> Value {
    found.map_or(Value::Null, |found| members(found, schema))
}

fn members(structure: &Structure, schema: &Schema) -> Value {
    let member = |name: &str, class: &FieldClass| {
        let mut value = field(class, schema);
        value["name"] = json!(name);
        value
    };
    structure.members.iter().map(|it| member(&it.name, &it.class)).collect()
}

/// What a field is; the reader bounds how many are within each other.
fn field(class: &FieldClass, schema: &Schema) -> Value {
    match class {
        FieldClass::Integer(found) => integer(found, schema),
        FieldClass::Real(real) => json!({
            "type": "real", "bits": real.bits, "alignment": real.align,
            "byte_order": order_name(real.byte_order),
        }),
        FieldClass::String => json!({ "type": "string" }),
        FieldClass::Text { length: found } => json!({ "type": "text", "length": length(found) }),
        FieldClass::Wide { length: found, encoding } => json!({
            "type": "text", "encoding": encoding_name(*encoding),
            "length": found.as_ref().map(length),
        }),
        FieldClass::Blob { length: found } => json!({ "type": "blob", "length": length(found) }),
        FieldClass::Structure(found) => json!({
            "type": "structure", "alignment": found.align, "members": members(found, schema),
        }),
        FieldClass::Array(array) => json!({
            "type": "array", "length": length(&array.length), "alignment": array.align,
            "element": field(&array.element, schema),
        }),
        FieldClass::Variant(variant) => json!({
            "type": "variant",
            "selector": location(&variant.selector),
            "options": variant.options.iter().map(|option| {
                let mut value = field(&option.class, schema);
                value["name"] = json!(option.name);
                value["selector_ranges"] = ranges(&option.ranges);
                value
            }).collect::<Vec<_>>(),
        }),
        FieldClass::Optional(optional) => json!({
            "type": "optional",
            "selector": location(&optional.selector),
            "selector_ranges": ranges(&optional.ranges),
            "field": field(&optional.class, schema),
        }),
    }
}

fn integer(integer: &Integer, schema: &Schema) -> Value {
    let clock = integer.clock.and_then(|index| schema.clocks.get(index));
    let mut value = json!({
        "type": match integer.is_bool { true => "boolean", false => "integer" },
        "bits": match integer.width { Width::Bits(bits) => json!(bits), Width::Variable => Value::Null },
        "signed": integer.signed,
        "alignment": integer.align,
        "byte_order": order_name(integer.byte_order),
        "base": base_name(integer.base),
        "clock": clock.map(|clock| &clock.name),
        "role": integer.role.map(role_name),
    });
    if let Some(labels) = &integer.labels {
        let label = |label: &strata_ctf::model::schema::Label| json!({ "name": label.name, "ranges": ranges(&label.ranges) });
        value["labels"] = labels.iter().map(label).collect();
        value["are_flags"] = json!(integer.flags.is_some());
    }
    value
}

/// A number, or where it is.
fn length(length: &Length) -> Value {
    match length {
        Length::Static(length) => json!(length),
        Length::Dynamic(found) => location(found),
    }
}

fn location(location: &Location) -> Value {
    let scope = match location.scope {
        Scope::PacketHeader => "packet_header",
        Scope::PacketContext => "packet_context",
        Scope::EventHeader => "event_header",
        Scope::CommonContext => "event_common_context",
        Scope::SpecificContext => "context",
        Scope::Payload => "payload",
    };
    json!({ "part": scope, "path": location.path })
}

/// Pairs of first and last value; JSON's numbers have no limit.
fn ranges(ranges: &[Range]) -> Value {
    let number = |value: i128| match (i64::try_from(value), u64::try_from(value)) {
        (Ok(value), _) => json!(value),
        (_, Ok(value)) => json!(value),
        _ => json!(value.to_string()),
    };
    ranges.iter().map(|range| json!([number(range.from), number(range.to)])).collect()
}

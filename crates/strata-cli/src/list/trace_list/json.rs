//! Describes a trace as JSON, with everything in its metadata.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use serde_json::{json, Map, Value};
use strata_ctf::model::schema::{
    EventClass, FieldClass, Integer, Label, Length, Location, Range, Schema, Scope, StreamClass,
    Structure, Width,
};
use strata_ctf::model::{ClockClass, EnvValue};
use strata_ctf::read::{Reader, Trace};

use strata_text::json::compact;

use super::class::{base_name, encoding_name, order_name, role_name};
use super::streams::streams_of;

/// Writes the description of all traces as a JSON object, in parts, since a trace may describe many fields.
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

/// Writes the first members of an object, and leaves the object open.
fn open(out: &mut impl Write, members: &Value) -> io::Result<()> {
    let text = compact(members);
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
    });
    open(out, &members)?;
    let of = DescribedSchema { schema, enumerations: Enumerations::of(schema) };
    of.enumerations.write(out)?;
    of.part(out, "packet_header", schema.packet_header.as_ref())?;
    writeln!(out, "\"stream_classes\":[")?;
    for (number, class) in schema.streams.iter().enumerate() {
        separate(out, number)?;
        write_class(out, reader, trace, class, &of)?;
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
    of: &DescribedSchema<'_>,
) -> io::Result<()> {
    let clock = class.clock.and_then(|index| of.schema.clocks.get(index));
    let streams = streams_of(reader, trace, class).map(|stream| {
        let mut files: Vec<_> =
            stream.files().iter().map(|path| path.display().to_string()).collect();
        files.dedup();
        json!({ "id": stream.id(), "name": stream.name(), "bytes": stream.bytes(), "files": files })
    });
    let members = json!({
        "id": class.id,
        "name": class.name,
        "clock": clock.map(|clock| &clock.name),
        "streams": streams.collect::<Vec<_>>(),
    });
    open(out, &members)?;
    of.part(out, "packet_context", class.packet_context.as_ref())?;
    of.part(out, "event_header", class.event_header.as_ref())?;
    of.part(out, "event_common_context", class.event_common_context.as_ref())?;
    writeln!(out, "\"event_classes\":[")?;
    for (number, event) in class.events.iter().enumerate() {
        separate(out, number)?;
        of.event_class(out, event)?;
    }
    write!(out, "]}}")
}

/// The schema of a trace, and its enumerations, which many fields may share.
struct DescribedSchema<'s> {
    schema: &'s Schema,
    enumerations: Enumerations<'s>,
}

/// All enumerations of a schema, each once.
#[derive(Default)]
struct Enumerations<'s> {
    found: Vec<&'s Arc<[Label]>>,
    indexes: HashMap<*const Label, usize>,
}

impl<'s> Enumerations<'s> {
    fn of(schema: &'s Schema) -> Enumerations<'s> {
        let mut all = Enumerations::default();
        let mut parts: Vec<&Option<Structure>> = vec![&schema.packet_header];
        for class in &schema.streams {
            parts.extend([&class.packet_context, &class.event_header, &class.event_common_context]);
            let events = class.events.iter();
            parts.extend(events.flat_map(|event| [&event.specific_context, &event.payload]));
        }
        for part in parts.into_iter().flatten() {
            part.members.iter().for_each(|member| all.add(&member.class));
        }
        all
    }

    fn add(&mut self, class: &'s FieldClass) {
        match class {
            FieldClass::Integer(Integer { labels: Some(labels), .. }) => {
                let next = self.found.len();
                if *self.indexes.entry(labels.as_ptr()).or_insert(next) == next {
                    self.found.push(labels);
                }
            }
            FieldClass::Structure(found) => {
                found.members.iter().for_each(|member| self.add(&member.class));
            }
            FieldClass::Array(array) => self.add(&array.element),
            FieldClass::Variant(variant) => {
                variant.options.iter().for_each(|option| self.add(&option.class));
            }
            FieldClass::Optional(optional) => self.add(&optional.class),
            FieldClass::Integer(_)
            | FieldClass::Real(_)
            | FieldClass::String
            | FieldClass::Text { .. }
            | FieldClass::Wide { .. }
            | FieldClass::Blob { .. } => {}
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        write!(out, "\"enumerations\":[")?;
        for (number, labels) in self.found.iter().enumerate() {
            separate(out, number)?;
            write!(out, "[")?;
            for (number, label) in labels.iter().enumerate() {
                separate(out, number)?;
                let label = json!({ "name": label.name, "ranges": ranges(&label.ranges) });
                write!(out, "{}", compact(&label))?;
            }
            write!(out, "]")?;
        }
        writeln!(out, "],")
    }
}

impl DescribedSchema<'_> {
    fn event_class(&self, out: &mut impl Write, event: &EventClass) -> io::Result<()> {
        let members = json!({
            "id": event.id,
            "name": event.name,
            "loglevel": event.loglevel,
            "emf_uri": event.emf_uri,
        });
        open(out, &members)?;
        self.part(out, "context", event.specific_context.as_ref())?;
        write!(out, "\"payload\":")?;
        self.members(out, event.payload.as_ref())?;
        write!(out, "}}")
    }

    /// Writes a member of an object, with a comma after it.
    fn part(&self, out: &mut impl Write, name: &str, found: Option<&Structure>) -> io::Result<()> {
        write!(out, "\"{name}\":")?;
        self.members(out, found)?;
        writeln!(out, ",")
    }

    fn members(&self, out: &mut impl Write, found: Option<&Structure>) -> io::Result<()> {
        let Some(found) = found else { return write!(out, "null") };
        write!(out, "[")?;
        for (number, member) in found.members.iter().enumerate() {
            separate(out, number)?;
            self.field(out, &member.class, json!({ "name": member.name }))?;
        }
        write!(out, "]")
    }

    /// Writes a field's description, after the members `known`. The reader bounds the depth of nested fields.
    fn field(&self, out: &mut impl Write, class: &FieldClass, mut known: Value) -> io::Result<()> {
        let mut add = |members: Value| {
            if let (Value::Object(known), Value::Object(members)) = (&mut known, members) {
                known.extend(members);
            }
        };
        match class {
            FieldClass::Integer(found) => add(self.integer(found)),
            FieldClass::Real(real) => add(json!({
                "type": "real", "bits": real.bits, "alignment": real.align,
                "byte_order": order_name(real.byte_order),
            })),
            FieldClass::String => add(json!({ "type": "string" })),
            FieldClass::Text { length: found } => {
                add(json!({ "type": "text", "length": length(found) }));
            }
            FieldClass::Wide { length: found, encoding } => add(json!({
                "type": "text", "encoding": encoding_name(*encoding),
                "length": found.as_ref().map(length),
            })),
            FieldClass::Blob { align, length: found } => add(json!({
                "type": "blob", "length": length(found), "alignment": align,
            })),
            FieldClass::Structure(found) => {
                add(json!({ "type": "structure", "alignment": found.align }));
                open(out, &known)?;
                write!(out, "\"members\":")?;
                self.members(out, Some(found))?;
                return write!(out, "}}");
            }
            FieldClass::Array(array) => {
                let length = length(&array.length);
                add(json!({ "type": "array", "length": length, "alignment": array.align }));
                open(out, &known)?;
                write!(out, "\"element\":")?;
                self.field(out, &array.element, json!({}))?;
                return write!(out, "}}");
            }
            FieldClass::Variant(variant) => {
                add(json!({ "type": "variant", "selector": location(&variant.selector) }));
                open(out, &known)?;
                write!(out, "\"options\":[")?;
                for (number, option) in variant.options.iter().enumerate() {
                    separate(out, number)?;
                    let ranges = ranges(&option.ranges);
                    let known = json!({ "name": option.name, "selector_ranges": ranges });
                    self.field(out, &option.class, known)?;
                }
                return write!(out, "]}}");
            }
            FieldClass::Optional(optional) => {
                let (selector, ranges) = (location(&optional.selector), ranges(&optional.ranges));
                add(json!({ "type": "optional", "selector": selector, "selector_ranges": ranges }));
                open(out, &known)?;
                write!(out, "\"field\":")?;
                self.field(out, &optional.class, json!({}))?;
                return write!(out, "}}");
            }
        }
        write!(out, "{}", compact(&known))
    }

    fn integer(&self, integer: &Integer) -> Value {
        let clock = integer.clock.and_then(|index| self.schema.clocks.get(index));
        let bits = match integer.width {
            Width::Bits(bits) => json!(bits),
            Width::Variable => Value::Null,
        };
        let mut value = json!({
            "type": if integer.is_bool { "boolean" } else { "integer" },
            "bits": bits,
            "signed": integer.signed,
            "alignment": integer.align,
            "byte_order": order_name(integer.byte_order),
            "base": base_name(integer.base),
            "clock": clock.map(|clock| &clock.name),
            "role": integer.role.map(role_name),
        });
        if let Some(labels) = &integer.labels {
            value["enumeration"] = json!(self.enumerations.indexes.get(&labels.as_ptr()));
            value["are_flags"] = json!(integer.flags.is_some());
        }
        value
    }
}

/// Describes a length: the number, or the location of the field that has it.
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
    match location.others.as_slice() {
        [] => json!({ "part": scope, "path": location.path }),
        others => json!({ "part": scope, "path": location.path, "other_paths": others }),
    }
}

/// Describes ranges as pairs of first and last value; values that no 64-bit integer can have become texts.
fn ranges(ranges: &[Range]) -> Value {
    let number = |value: i128| match (i64::try_from(value), u64::try_from(value)) {
        (Ok(value), _) => json!(value),
        (_, Ok(value)) => json!(value),
        _ => json!(value.to_string()),
    };
    ranges.iter().map(|range| json!([number(range.from), number(range.to)])).collect()
}

//! Metadata of a trace: TSDL text for CTF 1.8, or fragments of JSON for CTF 2.

use super::packet::MAGIC;
use super::spelling::{identifier, quote, Identifiers, MemberNames};
use crate::flags;
use std::fmt::{self, Write};
use strata_model::{
    ByteOrder, ClockClass, Element, Enumeration, EnvValue, EventClass, Field, FieldClass,
    FieldOrder, Float, Integer, RecordHeader, StreamClass, Trace,
};

/// Version of the metadata. Both versions describe the same packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Version 1.8 of CTF.
    #[default]
    One,
    /// Version 2 of CTF.
    Two,
}

/// Writes metadata as [`write()`] does, in the given version.
pub fn write_as(version: Version, trace: &Trace) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = match version {
        Version::One => write_to(&mut out, trace),
        Version::Two => super::metadata2::write_to(&mut out, trace),
    };
    out
}

/// Writes the text of the file `metadata` for CTF 1.8.
///
/// The trace must be valid by [`Trace::validate`]. For an invalid trace the text may be wrong, but names still stand
/// only between quotes or as identifiers.
pub fn write(trace: &Trace) -> String {
    let mut out = String::new();
    let _ = write_to(&mut out, trace); // a String takes everything
    out
}

/// Writes metadata as [`write()`] does, to `out`.
///
/// # Errors
/// The error of `out`.
pub fn write_to(out: &mut impl Write, trace: &Trace) -> fmt::Result {
    write_with(out, trace, "cpu_id")
}

/// Writes metadata as [`write()`] does, for a trace of which nobody knows on which CPUs its records were made: readers do not take
/// `cpu_id` of its packets for a CPU.
#[must_use]
pub fn write_without_cpus(trace: &Trace) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_with(&mut out, trace, "stream_number");
    out
}

/// `number`: the name of the packets' last field.
fn write_with(out: &mut impl Write, trace: &Trace, number: &str) -> fmt::Result {
    out.write_str("/* CTF 1.8 */\n\n")?;
    trace_block(out, trace)?;
    environment(out, &trace.environment)?;
    clock(out, &trace.clock)?;
    packet_context(out, &trace.clock, number)?;
    for header in [RecordHeader::Compact, RecordHeader::Large] {
        if trace.streams.iter().any(|stream| stream.header == header) {
            record_header(out, header, &trace.clock)?;
        }
    }
    for stream in &trace.streams {
        stream_block(out, stream)?;
        append_events(out, stream.id, &stream.events)?;
    }
    Ok(())
}

/// Writes further event record classes of a stream that is described already, to be appended to the file when a program
/// has loaded a library.
///
/// # Errors
/// The error of `out`.
pub fn append_events(out: &mut impl Write, stream_id: u32, events: &[EventClass]) -> fmt::Result {
    events.iter().try_for_each(|event| event_block(out, stream_id, event))
}

/// Writes further events as [`append_events()`] does, in the given version, to be appended to the metadata that
/// [`write_as()`] has written for a trace of this byte order.
///
/// # Errors
/// The error of `out`.
pub fn append_as(
    version: Version,
    out: &mut impl Write,
    order: ByteOrder,
    stream_id: u32,
    events: &[EventClass],
) -> fmt::Result {
    match version {
        Version::One => append_events(out, stream_id, events),
        Version::Two => super::metadata2::append_events(out, order, stream_id, events),
    }
}

/// Returns the type of an unsigned integer in a header.
fn unsigned(bits: u32) -> String {
    let align = if bits % 8 == 0 { 8 } else { 1 };
    format!("integer {{ size = {bits}; align = {align}; signed = false; }}")
}

/// Returns the type of an unsigned integer that counts the clock's cycles.
fn timestamp(bits: u32, clock: &ClockClass) -> String {
    let align = if bits % 8 == 0 { 8 } else { 1 };
    let name = identifier(&clock.name);
    format!(
        "integer {{ size = {bits}; align = {align}; signed = false; map = clock.{name}.value; }}"
    )
}

fn trace_block(out: &mut impl Write, trace: &Trace) -> fmt::Result {
    let order = match trace.byte_order {
        ByteOrder::Little => "le",
        ByteOrder::Big => "be",
    };
    out.write_str("trace {\n\tmajor = 1;\n\tminor = 8;\n")?;
    writeln!(out, "\tuuid = \"{}\";\n\tbyte_order = {order};", trace.uuid)?;
    writeln!(out, "\tpacket.header := struct {{")?;
    writeln!(out, "\t\t{} magic; /* {MAGIC:#x} */", unsigned(32))?;
    writeln!(out, "\t\t{} uuid[16];", unsigned(8))?;
    writeln!(out, "\t\t{} stream_id;", unsigned(32))?;
    writeln!(out, "\t\t{} stream_instance_id;", unsigned(64))?;
    out.write_str("\t};\n};\n\n")
}

fn environment(out: &mut impl Write, entries: &[(String, EnvValue)]) -> fmt::Result {
    if entries.is_empty() {
        return Ok(());
    }
    let mut names = Identifiers::default();
    out.write_str("env {\n")?;
    for (name, value) in entries {
        let name = names.give(name);
        match value {
            EnvValue::Integer(number) => writeln!(out, "\t{name} = {number};")?,
            EnvValue::Text(text) => writeln!(out, "\t{name} = {};", quote(text))?,
        }
    }
    out.write_str("};\n\n")
}

fn clock(out: &mut impl Write, clock: &ClockClass) -> fmt::Result {
    let name = identifier(&clock.name);
    writeln!(out, "clock {{\n\tname = \"{name}\";")?;
    if let Some(uuid) = clock.uuid {
        writeln!(out, "\tuuid = \"{uuid}\";")?;
    }
    if !clock.description.is_empty() {
        writeln!(out, "\tdescription = {};", quote(&clock.description))?;
    }
    writeln!(out, "\tfreq = {};", clock.frequency)?;
    if clock.precision != 0 {
        writeln!(out, "\tprecision = {};", clock.precision)?;
    }
    // Some readers know only `offset`, which therefore has the whole offset if possible.
    let all =
        i128::from(clock.offset_s) * i128::from(clock.frequency) + i128::from(clock.offset_cycles);
    match i64::try_from(all) {
        Ok(all) if all >= 0 => writeln!(out, "\toffset = {all};")?,
        _ => {
            writeln!(out, "\toffset_s = {};", clock.offset_s)?;
            writeln!(out, "\toffset = {};", clock.offset_cycles)?;
        }
    }
    if clock.absolute {
        writeln!(out, "\tabsolute = TRUE;")?;
    }
    out.write_str("};\n\n")
}

fn packet_context(out: &mut impl Write, clock: &ClockClass, number: &str) -> fmt::Result {
    writeln!(out, "struct packet_context {{")?;
    writeln!(out, "\t{} timestamp_begin;", timestamp(64, clock))?;
    writeln!(out, "\t{} timestamp_end;", timestamp(64, clock))?;
    for name in ["content_size", "packet_size", "packet_seq_num", "events_discarded"] {
        writeln!(out, "\t{} {name};", unsigned(64))?;
    }
    writeln!(out, "\t{} {number};", unsigned(32))?;
    out.write_str("};\n\n")
}

fn header_name(header: RecordHeader) -> &'static str {
    match header {
        RecordHeader::Compact => "event_header_compact",
        RecordHeader::Large => "event_header_large",
    }
}

/// Writes the type of the record header, packed by bytes. The compact header's 5 and 27 bits share a word. In the
/// extended form, the id begins at the next whole byte.
fn record_header(out: &mut impl Write, header: RecordHeader, clock: &ClockClass) -> fmt::Result {
    let (id_bits, last) = match header {
        RecordHeader::Compact => (5, 31),
        RecordHeader::Large => (16, 65535),
    };
    writeln!(out, "struct {} {{", header_name(header))?;
    writeln!(
        out,
        "\tenum : {} {{ compact = 0 ... {}, extended = {last} }} id;",
        unsigned(id_bits),
        last - 1
    )?;
    out.write_str("\tvariant <id> {\n\t\tstruct {\n")?;
    writeln!(out, "\t\t\t{} timestamp;", timestamp(header.timestamp_bits(), clock))?;
    out.write_str("\t\t} compact;\n\t\tstruct {\n")?;
    writeln!(out, "\t\t\t{} id;", unsigned(32))?;
    writeln!(out, "\t\t\t{} timestamp;", timestamp(64, clock))?;
    out.write_str("\t\t} extended;\n\t} v;\n} align(8);\n\n")
}

fn stream_block(out: &mut impl Write, stream: &StreamClass) -> fmt::Result {
    writeln!(out, "stream {{\n\tid = {};", stream.id)?;
    writeln!(out, "\tevent.header := struct {};", header_name(stream.header))?;
    if !stream.context.is_empty() {
        out.write_str("\tevent.context := struct {\n")?;
        members(out, &stream.context)?;
        out.write_str("\t};\n")?;
    }
    out.write_str("\tpacket.context := struct packet_context;\n};\n\n")
}

/// Writes the fields of a payload or a context.
fn members(out: &mut impl Write, fields: &[Field]) -> fmt::Result {
    let mut names = MemberNames::new(fields.iter().map(|field| field.name.as_str()));
    fields.iter().try_for_each(|field| field_lines(out, field, &mut names))
}

fn event_block(out: &mut impl Write, stream_id: u32, event: &EventClass) -> fmt::Result {
    writeln!(out, "event {{\n\tname = {};", quote(&event.full_name()))?;
    writeln!(out, "\tid = {};\n\tstream_id = {stream_id};", event.id)?;
    if let Some(level) = event.loglevel {
        writeln!(out, "\tloglevel = {level};")?;
    }
    if let Some(uri) = &event.emf_uri {
        writeln!(out, "\tmodel.emf.uri = {};", quote(uri))?;
    }
    if !event.context.is_empty() {
        out.write_str("\tcontext := struct {\n")?;
        members(out, &event.context)?;
        out.write_str("\t};\n")?;
    }
    out.write_str("\tfields := struct {\n")?;
    members(out, &event.fields)?;
    out.write_str("\t};\n};\n\n")
}

fn field_lines(out: &mut impl Write, field: &Field, names: &mut MemberNames) -> fmt::Result {
    let mut length = String::new();
    if let FieldClass::Sequence(class) = &field.class {
        length = names.length(&field.name);
        writeln!(out, "\t\t{} {length};", unsigned(u32::from(class.length_bytes) * 8))?;
    }
    let name = names.field(&field.name);
    match &field.class {
        FieldClass::Integer(class) => writeln!(out, "\t\t{} {name};", integer(class)),
        FieldClass::Enumeration(class) => {
            enumeration(out, class, &name)?;
            writeln!(out, " {name};")
        }
        FieldClass::Float(class) => writeln!(out, "\t\t{} {name};", float(class)),
        FieldClass::String => writeln!(out, "\t\tstring {{ encoding = UTF8; }} {name};"),
        FieldClass::Array(class) => {
            writeln!(out, "\t\t{} {name}[{}];", element(&class.element), class.count)
        }
        FieldClass::Sequence(class) => {
            writeln!(out, "\t\t{} {name}[{length}];", element(&class.element))
        }
    }
}

fn byte_order(order: FieldOrder) -> &'static str {
    match order {
        FieldOrder::Native => "",
        FieldOrder::Big => " byte_order = be;",
        FieldOrder::Little => " byte_order = le;",
    }
}

fn integer(class: &Integer) -> String {
    format!(
        "integer {{ size = {}; align = 8; signed = {}; base = {};{} }}",
        u32::from(class.bytes) * 8,
        class.signed,
        class.base.radix(),
        byte_order(class.byte_order)
    )
}

/// Returns the type of a floating-point number. The width of the mantissa counts its leading 1, which is not stored.
fn float(class: &Float) -> String {
    let (exponent, mantissa) = if class.bytes == 4 { (8, 24) } else { (11, 53) };
    format!(
        "floating_point {{ exp_dig = {exponent}; mant_dig = {mantissa}; align = 8;{} }}",
        byte_order(class.byte_order)
    )
}

fn element(class: &Element) -> String {
    match class {
        Element::Integer(class) => integer(class),
        Element::Float(class) => float(class),
        Element::Text => {
            "integer { size = 8; align = 8; signed = false; encoding = UTF8; }".to_owned()
        }
    }
}

/// Writes an enumeration without a name of its own, since a name can be declared only once in a scope. `member` is the
/// name of the member.
fn enumeration(out: &mut impl Write, class: &Enumeration, member: &str) -> fmt::Result {
    if class.labels.is_empty() {
        return write!(out, "\t\t{}", integer(&class.integer));
    }
    let tag = class.flags.map(|flags| flags::tag(flags, member) + " ").unwrap_or_default();
    writeln!(out, "\t\tenum {tag}: {} {{", integer(&class.integer))?;
    for label in &class.labels {
        let (from, to) = label.values(&class.integer);
        write!(out, "\t\t\t{} = {from}", quote(&label.label))?;
        if to != from {
            write!(out, " ... {to}")?;
        }
        out.write_str(",\n")?;
    }
    out.write_str("\t\t}")
}

//! Formats field classes in a line of text.

use std::fmt::Write as _;

use strata_ctf::model::schema::{
    Encoding, FieldClass, Integer, Length, Range, Role, Schema, Structure, Width,
};
use strata_ctf::model::{Base, ByteOrder};

use crate::units::clean;

/// Limit on the labels of an enumeration that are shown; JSON shows all.
const LABELS: usize = 16;
/// Limit on the nesting of types; the reader's limit is lower.
const LEVELS: usize = 100;

/// Formats a structure, such as `{ u64 id, string name }`.
pub fn structure(structure: &Structure, schema: &Schema) -> String {
    let mut text = String::new();
    add_structure(&mut text, structure, schema, 0);
    text
}

fn add_structure(text: &mut String, structure: &Structure, schema: &Schema, level: usize) {
    if structure.members.is_empty() {
        return text.push_str("{}");
    }
    for (number, member) in structure.members.iter().enumerate() {
        text.push_str(if number == 0 { "{ " } else { ", " });
        add(text, &member.class, schema, level);
        let _ = write!(text, " {}", clean(&member.name));
    }
    text.push_str(" }");
}

fn add(text: &mut String, class: &FieldClass, schema: &Schema, level: usize) {
    if level > LEVELS {
        return text.push('…');
    }
    match class {
        FieldClass::Integer(integer) => add_integer(text, integer, schema),
        FieldClass::Real(real) => {
            let _ = write!(text, "f{}", real.bits);
        }
        FieldClass::String => text.push_str("string"),
        FieldClass::Text { length } => {
            let _ = write!(text, "string[{}]", length_text(length));
        }
        FieldClass::Wide { length, encoding } => {
            let _ = write!(text, "string {}", encoding_name(*encoding));
            if let Some(length) = length {
                let _ = write!(text, "[{}]", length_text(length));
            }
        }
        FieldClass::Blob { length, .. } => {
            let _ = write!(text, "blob[{}]", length_text(length));
        }
        FieldClass::Structure(structure) => add_structure(text, structure, schema, level + 1),
        FieldClass::Array(array) => {
            add(text, &array.element, schema, level + 1);
            let _ = write!(text, "[{}]", length_text(&array.length));
        }
        FieldClass::Variant(variant) => {
            text.push_str("variant { ");
            for (number, option) in variant.options.iter().enumerate() {
                if number > 0 {
                    text.push_str(" | ");
                }
                add(text, &option.class, schema, level + 1);
                let _ = write!(text, " {}", clean(&option.name));
            }
            text.push_str(" }");
        }
        FieldClass::Optional(optional) => {
            text.push_str("optional ");
            add(text, &optional.class, schema, level + 1);
        }
    }
}

/// Returns the name of an encoding in CTF 2.
pub(super) fn encoding_name(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Utf16(ByteOrder::Little) => "utf-16le",
        Encoding::Utf16(ByteOrder::Big) => "utf-16be",
        Encoding::Utf32(ByteOrder::Little) => "utf-32le",
        Encoding::Utf32(ByteOrder::Big) => "utf-32be",
    }
}

/// Adds an integer's type, such as `u32` or `i8`, its role and its labels.
fn add_integer(text: &mut String, integer: &Integer, schema: &Schema) {
    let kind = match (integer.is_bool, integer.signed) {
        (true, _) => "bool",
        (false, true) => "i",
        (false, false) => "u",
    };
    text.push_str(kind);
    match integer.width {
        Width::Bits(bits) => {
            let _ = write!(text, "{bits}");
        }
        Width::Variable => text.push_str("leb128"),
    }
    // Usually the byte order is little-endian.
    if !matches!(integer.width, Width::Bits(0..=8)) && integer.byte_order == ByteOrder::Big {
        text.push_str("be");
    }
    match integer.base {
        Base::Ten => {}
        base => {
            let _ = write!(text, " {}", base_name(base));
        }
    }
    if let Some(clock) = integer.clock.and_then(|index| schema.clocks.get(index)) {
        let _ = write!(text, " <clock {}>", clean(&clock.name));
    }
    if let Some(role) = integer.role {
        let _ = write!(text, " <{}>", role_name(role));
    }
    let Some(labels) = &integer.labels else { return };
    text.push_str(if integer.flags.is_some() { " flags { " } else { " enum { " });
    for (number, label) in labels.iter().enumerate() {
        if number > 0 {
            text.push_str(", ");
        }
        if number == LABELS {
            let _ = write!(text, "… {} in all", labels.len());
            break;
        }
        let ranges: Vec<String> = label.ranges.iter().take(LABELS).map(range_text).collect();
        let _ = write!(text, "{} = {}", clean(&label.name), ranges.join("|"));
    }
    text.push_str(" }");
}

fn range_text(range: &Range) -> String {
    match range.from == range.to {
        true => range.from.to_string(),
        false => format!("{}...{}", range.from, range.to),
    }
}

fn length_text(length: &Length) -> String {
    match length {
        Length::Static(length) => length.to_string(),
        Length::Dynamic(_) => "…".to_owned(),
    }
}

/// Returns the name of a byte order, such as `be`.
pub fn order_name(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "le",
        ByteOrder::Big => "be",
    }
}

/// Returns the name of a base, such as `hex`.
pub fn base_name(base: Base) -> &'static str {
    match base {
        Base::Two => "bin",
        Base::Eight => "oct",
        Base::Ten => "dec",
        Base::Sixteen => "hex",
    }
}

/// Returns the name of a role in TSDL.
pub fn role_name(role: Role) -> &'static str {
    match role {
        Role::PacketMagic => "magic",
        Role::StreamClassId => "stream_id",
        Role::StreamId => "stream_instance_id",
        Role::PacketTotalLength => "packet_size",
        Role::PacketContentLength => "content_size",
        Role::PacketEndTimestamp => "timestamp_end",
        Role::DiscardedEvents => "events_discarded",
        Role::PacketSequenceNumber => "packet_seq_num",
        Role::EventClassId => "id",
    }
}

//! Field classes that contain no other field classes.

use std::sync::Arc;

use super::error::{AtPart, JsonFault, JsonResult};
use super::object::JsonObject;
use super::value::Json;
use strata_model::schema::{
    Encoding, FieldClass, Integer, Label, Length, Range, Real, Role, Scope, Width,
};
use strata_model::{Base, ByteOrder, Uuid};

/// The meaning of an integer in the part that contains it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Roles {
    pub role: Option<Role>,
    /// Set if the integer is a time of the default clock.
    pub is_time: bool,
}

/// Returns the role of an unsigned integer in this part; `None` if the role has no meaning here.
fn role_of(scope: Scope, name: &str) -> Option<Role> {
    Some(match (scope, name) {
        (Scope::PacketHeader, "packet-magic-number") => Role::PacketMagic,
        (Scope::PacketHeader, "data-stream-class-id") => Role::StreamClassId,
        (Scope::PacketHeader, "data-stream-id") => Role::StreamId,
        (Scope::PacketContext, "packet-total-length") => Role::PacketTotalLength,
        (Scope::PacketContext, "packet-content-length") => Role::PacketContentLength,
        (Scope::PacketContext, "packet-end-default-clock-timestamp") => Role::PacketEndTimestamp,
        (Scope::PacketContext, "discarded-event-record-counter-snapshot") => Role::DiscardedEvents,
        (Scope::PacketContext, "packet-sequence-number") => Role::PacketSequenceNumber,
        (Scope::EventHeader, "event-record-class-id") => Role::EventClassId,
        _ => return None,
    })
}

/// Reads the roles of an unsigned integer.
pub(super) fn roles(class: &JsonObject<'_>, scope: Scope) -> JsonResult<Roles> {
    let mut found = Roles::default();
    let names = class.optional("roles", Json::array)?.unwrap_or_default();
    for (index, name) in names.iter().enumerate() {
        let name = name.text().at(index).at("roles")?;
        if let Some(role) = role_of(scope, name) {
            if found.role.is_some_and(|before| before != role) {
                let expected = "one role, or one and 'default-clock-timestamp'";
                return Err(JsonFault::value("a second role", name, expected))
                    .at(index)
                    .at("roles");
            }
            found.role = Some(role);
        }
        let has_times = matches!(scope, Scope::PacketContext | Scope::EventHeader);
        found.is_time |= has_times && name == "default-clock-timestamp";
    }
    found.is_time |= found.role == Some(Role::PacketEndTimestamp);
    Ok(found)
}

/// Parses one of a few words.
fn word<T: Copy>(json: &Json, words: &[(&str, T)], expected: &'static str) -> JsonResult<T> {
    let text = json.text()?;
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    found.ok_or_else(|| JsonFault::value("it", text, expected))
}

/// Checks that a list is not empty.
fn filled<'j, T>(list: &'j [T], of: &'static str) -> JsonResult<&'j [T]> {
    match list.is_empty() {
        true => Err(JsonFault::value(of, 0, "at least one")),
        false => Ok(list),
    }
}

/// Properties of all classes with a fixed number of bits.
pub(super) struct FixedBits {
    pub bits: u64,
    align: u32,
    byte_order: ByteOrder,
    is_reversed: bool,
}

pub(super) fn fixed(class: &JsonObject<'_>) -> JsonResult<FixedBits> {
    use ByteOrder::{Big, Little};
    let bytes = [("little-endian", Little), ("big-endian", Big)];
    let bits = [("first-to-last", Little), ("last-to-first", Big)];
    let byte_order = class
        .required("byte-order", |json| word(json, &bytes, "'little-endian' or 'big-endian'"))?;
    let bit_order = class
        .optional("bit-order", |json| word(json, &bits, "'first-to-last' or 'last-to-first'"))?
        .unwrap_or(byte_order);
    Ok(FixedBits {
        bits: class.required("length", Json::unsigned)?,
        align: class.optional("alignment", Json::alignment)?.unwrap_or(1),
        byte_order,
        is_reversed: bit_order != byte_order,
    })
}

impl FixedBits {
    /// Returns the class for a number of more than 64 bits: a blob of its bytes, as they are in the packet.
    pub fn bytes(&self) -> Option<FieldClass> {
        let is_whole = self.bits % 8 == 0 && self.align >= 8;
        let length = Length::Static(self.bits / 8);
        (self.bits > 64 && is_whole).then_some(FieldClass::Blob { align: self.align, length })
    }

    /// Makes an integer class that readers show in this base.
    pub fn integer(&self, base: Base) -> JsonResult<Integer> {
        let bits = match self.bits {
            bits @ 1..=64 => bits as u8,
            bits => {
                let expected = "1 to 64 bits, or whole bytes with an alignment of whole bytes";
                return Err(JsonFault::value("it", bits, expected)).at("length");
            }
        };
        Ok(Integer {
            width: Width::Bits(bits),
            align: self.align,
            byte_order: self.byte_order,
            is_reversed: self.is_reversed,
            base,
            ..variable()
        })
    }

    pub fn real(&self) -> JsonResult<Real> {
        let bits = match self.bits {
            bits @ (16 | 32 | 64) => bits as u8,
            bits => {
                let expected = "16, 32 or 64 bits, or more with an alignment of whole bytes";
                return Err(JsonFault::value("it", bits, expected)).at("length");
            }
        };
        let FixedBits { align, byte_order, is_reversed, .. } = *self;
        Ok(Real { bits, align, byte_order, is_reversed })
    }
}

/// Returns the class of an unsigned integer in LEB128.
pub(super) fn variable() -> Integer {
    Integer {
        width: Width::Variable,
        align: 8,
        signed: false,
        byte_order: ByteOrder::Little,
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

pub(super) fn base(class: &JsonObject<'_>) -> JsonResult<Base> {
    let read = |json: &Json| {
        let radix = json.integer().ok().and_then(|radix| u8::try_from(radix).ok());
        let base = radix.and_then(Base::from_radix);
        base.ok_or_else(|| JsonFault::value("it", json.shown(), "2, 8, 10 or 16"))
    };
    Ok(class.optional("preferred-display-base", read)?.unwrap_or_default())
}

/// Parses the labels of an enumeration or a bit map: each has a name and ranges.
pub(super) fn labels(json: &Json) -> JsonResult<Arc<[Label]>> {
    let mut labels = Vec::new();
    for (name, set) in json.object()?.0 {
        let ranges = ranges(set).at(name)?;
        labels.push(Label { name: name.clone(), ranges });
    }
    Ok(labels.into())
}

/// Parses a range set: pairs of integers, the first not greater than the second.
pub(super) fn ranges(json: &Json) -> JsonResult<Vec<Range>> {
    let sets = filled(json.array()?, "the number of ranges")?;
    let mut ranges = Vec::with_capacity(sets.len()); // of values that are there
    for (index, pair) in sets.iter().enumerate() {
        ranges.push(range(pair).at(index)?);
    }
    Ok(ranges)
}

fn range(json: &Json) -> JsonResult<Range> {
    let [from, to] = json.array()? else {
        let found = json.array()?.len();
        return Err(JsonFault::value("the number of a range's ends", found, "two"));
    };
    let (from, to) = (from.integer().at(0)?, to.integer().at(1)?);
    match from <= to {
        true => Ok(Range { from, to }),
        false => {
            let found = format!("{from} to {to}");
            Err(JsonFault::value("a range", found, "the lower end first"))
        }
    }
}

/// Parses the labels of a bit map with this number of bits.
pub(super) fn bit_labels(class: &JsonObject<'_>, bits: u64) -> JsonResult<Arc<[Label]>> {
    class.required("flags", |json| {
        let labels = labels(json)?;
        for label in filled(&labels, "the number of flags")? {
            let outside = |range: &&Range| range.from < 0 || range.to >= i128::from(bits);
            if let Some(range) = label.ranges.iter().find(outside) {
                let found = format!("bits {} to {}", range.from, range.to);
                return Err(JsonFault::value("a flag", found, "bits that there are"))
                    .at(&label.name);
            }
        }
        // The order in the metadata has no meaning; babeltrace2 shows labels sorted by name.
        let mut sorted = labels.to_vec();
        sorted.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(sorted.into())
    })
}

/// Returns the encoding of a text; `None` if its code units are single bytes.
pub(super) fn encoding(class: &JsonObject<'_>) -> JsonResult<Option<Encoding>> {
    use ByteOrder::{Big, Little};
    let encodings = [
        ("utf-8", None),
        ("utf-16be", Some(Encoding::Utf16(Big))),
        ("utf-16le", Some(Encoding::Utf16(Little))),
        ("utf-32be", Some(Encoding::Utf32(Big))),
        ("utf-32le", Some(Encoding::Utf32(Little))),
    ];
    let expected = "'utf-8', 'utf-16be', 'utf-16le', 'utf-32be' or 'utf-32le'";
    Ok(class.optional("encoding", |json| word(json, &encodings, expected))?.flatten())
}

/// Parses a UUID from 16 numbers.
pub(super) fn uuid(json: &Json) -> JsonResult<Uuid> {
    let numbers = json.array()?;
    let mut bytes = [0; 16];
    if numbers.len() != bytes.len() {
        return Err(JsonFault::value("the number of a UUID's bytes", numbers.len(), "16"));
    }
    for (index, (byte, number)) in bytes.iter_mut().zip(numbers).enumerate() {
        let value = number.unsigned().at(index)?;
        let wrong = |_| JsonFault::value("it", value, "a byte, 0 to 255");
        *byte = u8::try_from(value).map_err(wrong).at(index)?;
    }
    Ok(Uuid(bytes))
}

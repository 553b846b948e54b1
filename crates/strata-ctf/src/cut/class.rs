//! Properties of metadata that decide how records are copied.

use std::collections::HashSet;

use crate::model::schema::{
    Array, EventClass, FieldClass, Length, Location, Schema, Scope, StreamClass, Structure, Width,
};

/// Properties of an event record class that copying its records needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassInfo {
    /// Alignment of a record's begin \[bit\].
    pub header_align: u64,
    /// Greatest alignment within a record, at least 8 \[bit\].
    pub align: u64,
    /// Width of the timestamp \[bit\], if each record's header has exactly one.
    pub time_bits: Option<u8>,
    /// True if a record may have a timestamp after the header.
    pub is_late: bool,
}

impl ClassInfo {
    pub fn new(stream: &StreamClass, event: &EventClass) -> ClassInfo {
        let header = stream.event_header.as_ref();
        let rest = [&stream.event_common_context, &event.specific_context, &event.payload];
        let times = header.map_or(TimeCount::NONE, |header| TimeCount::of(header, stream.clock));
        let is_late = |part: &Structure| TimeCount::of(part, stream.clock).most > 0;
        ClassInfo {
            header_align: header.map_or(1, Structure::align),
            align: rest.into_iter().flatten().chain(header).map(structure_align).fold(8, u64::max),
            time_bits: (times.least == 1 && times.most == 1).then_some(times.bits),
            is_late: rest.into_iter().flatten().any(is_late),
        }
    }
}

/// Returns the greatest alignment of the structure and of all fields in it, at least 8 \[bit\].
fn structure_align(structure: &Structure) -> u64 {
    let members = structure.members.iter().map(|member| align(&member.class));
    members.fold(structure.align().max(8), u64::max)
}

fn align(class: &FieldClass) -> u64 {
    match class {
        FieldClass::Structure(structure) => structure_align(structure),
        FieldClass::Array(array) => class.align().max(align(&array.element)),
        FieldClass::Variant(variant) => {
            variant.options.iter().map(|option| align(&option.class)).fold(8, u64::max)
        }
        FieldClass::Optional(optional) => align(&optional.class),
        leaf => leaf.align(),
    }
}

/// The least and the greatest number of timestamps in a part of a record.
#[derive(Clone, Copy, Debug)]
struct TimeCount {
    least: u32,
    most: u32,
    /// Width of the narrowest timestamp \[bit\].
    bits: u8,
}

impl TimeCount {
    const NONE: TimeCount = TimeCount { least: 0, most: 0, bits: 64 };

    fn of(structure: &Structure, clock: Option<usize>) -> TimeCount {
        let members =
            structure.members.iter().map(|member| TimeCount::of_class(&member.class, clock));
        members.fold(TimeCount::NONE, |all, one| TimeCount {
            least: all.least.saturating_add(one.least),
            most: all.most.saturating_add(one.most),
            bits: all.bits.min(one.bits),
        })
    }

    fn of_class(class: &FieldClass, clock: Option<usize>) -> TimeCount {
        match class {
            FieldClass::Integer(integer) if clock.is_some() && integer.clock == clock => {
                let bits = match integer.width {
                    Width::Bits(bits) => bits,
                    Width::Variable => 64,
                };
                TimeCount { least: 1, most: 1, bits }
            }
            FieldClass::Structure(structure) => TimeCount::of(structure, clock),
            FieldClass::Variant(variant) => {
                let options = variant.options.iter();
                let options = options.map(|option| TimeCount::of_class(&option.class, clock));
                let either = |one: TimeCount, other: TimeCount| TimeCount {
                    least: one.least.min(other.least),
                    most: one.most.max(other.most),
                    bits: one.bits.min(other.bits),
                };
                options.reduce(either).unwrap_or(TimeCount::NONE)
            }
            FieldClass::Array(Array { element, .. }) => TimeCount::of_class(element, clock).maybe(),
            FieldClass::Optional(optional) => TimeCount::of_class(&optional.class, clock).maybe(),
            _ => TimeCount::NONE,
        }
    }

    /// Returns the count for a part that occurs any number of times.
    fn maybe(self) -> TimeCount {
        TimeCount { least: 0, most: self.most.saturating_mul(2), ..self }
    }
}

/// Returns the locations of all fields to which a location may lead, one by one.
pub(super) fn places(location: &Location) -> impl Iterator<Item = Location> + '_ {
    location.paths().map(|path| Location::at(location.scope, path.to_vec()))
}

/// Returns the locations of all fields on which other fields of the trace depend: lengths and selectors.
pub(super) fn needed(schema: &Schema) -> HashSet<Location> {
    let mut found = HashSet::new();
    let mut look = |part: &Option<Structure>| {
        for member in part.iter().flat_map(|part| &part.members) {
            locations(&member.class, &mut found);
        }
    };
    look(&schema.packet_header);
    for stream in &schema.streams {
        look(&stream.packet_context);
        look(&stream.event_header);
        look(&stream.event_common_context);
        for event in &stream.events {
            look(&event.specific_context);
            look(&event.payload);
        }
    }
    found
}

fn locations(class: &FieldClass, found: &mut HashSet<Location>) {
    let mut length = |length: &Length| {
        if let Length::Dynamic(location) = length {
            found.extend(places(location));
        }
    };
    match class {
        FieldClass::Text { length: it } | FieldClass::Blob { length: it, .. } => length(it),
        FieldClass::Wide { length: Some(it), .. } => length(it),
        FieldClass::Structure(structure) => {
            structure.members.iter().for_each(|member| locations(&member.class, found));
        }
        FieldClass::Array(array) => {
            length(&array.length);
            locations(&array.element, found);
        }
        FieldClass::Variant(variant) => {
            found.extend(places(&variant.selector));
            variant.options.iter().for_each(|option| locations(&option.class, found));
        }
        FieldClass::Optional(optional) => {
            found.extend(places(&optional.selector));
            locations(&optional.class, found);
        }
        _ => {}
    }
}

/// Returns whether a part comes before all records of a packet.
pub(super) fn is_head(scope: Scope) -> bool {
    matches!(scope, Scope::PacketHeader | Scope::PacketContext)
}

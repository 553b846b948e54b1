//! Registers hold the values of integers that give the length of other fields, or select their options.
//!
//! A register belongs to an integer that some [`Location`] names. Registers are numbered first for the packet header,
//! then for a stream class, then for an event record class. All event record classes use the same numbers after those
//! of their stream class, since only one record is decoded at a time. Registers of one part have consecutive numbers,
//! as have those of one field in it.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::schema::{
    EventClass, FieldClass, Integer, Length, Location, Schema, Scope, StreamClass, Structure,
};

/// The greatest depth of nested fields.
pub(super) const DEPTH: u32 = 100;

/// Register of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlanRegister {
    pub index: u32,
    pub signed: bool,
    /// The register that is 1 if the record has the integer; `None` if each record has it.
    pub present: Option<u32>,
}

/// The registers for integers of some parts, on which later fields depend.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    /// The index of each register, by the place of its integer. If a register may stand for several integers, or for one
    /// that may be absent, its key ends with [`NO_MEMBER`] and a number.
    of: BTreeMap<RegisterKey, u32>,
    /// The register for each location to which fields refer.
    meant: BTreeMap<Location, PlanRegister>,
    /// The registers that get the value of the integer at a place. An integer that each record has needs one register
    /// for all its locations; locations of other integers have registers of their own.
    shared: BTreeMap<RegisterKey, Vec<PlanRegister>>,
    next: u32,
}

/// The part of a register's integer, and the path to the integer in it.
type RegisterKey = (Scope, Vec<u32>);

/// An index that no member or option has, since structures and variants are smaller.
const NO_MEMBER: u32 = u32::MAX;

/// An integer that gives the length of an array, the selector of a variant or the like, found by the path in a
/// location.
struct NamedInteger<'s> {
    path: &'s [u32],
    signed: bool,
    /// True if the integer is in an optional field or in an option of a variant.
    is_conditional: bool,
}

/// The parts of a packet and a record that locations can refer to.
#[derive(Clone, Copy, Default)]
pub(super) struct LocatableParts<'s> {
    pub packet_header: Option<&'s Structure>,
    pub stream: Option<&'s StreamClass>,
    pub event: Option<&'s EventClass>,
}

impl<'s> LocatableParts<'s> {
    fn part(&self, scope: Scope) -> Option<&'s Structure> {
        let part = match scope {
            Scope::PacketHeader => return self.packet_header,
            Scope::PacketContext => &self.stream?.packet_context,
            Scope::EventHeader => &self.stream?.event_header,
            Scope::CommonContext => &self.stream?.event_common_context,
            Scope::SpecificContext => &self.event?.specific_context,
            Scope::Payload => &self.event?.payload,
        };
        part.as_ref()
    }

    /// Returns the integer at a path, if there is one.
    fn integer<'p>(&self, scope: Scope, path: &'p [u32]) -> Option<NamedInteger<'p>> {
        let (first, rest) = path.split_first()?;
        let mut class = &self.part(scope)?.members.get(*first as usize)?.class;
        let mut is_conditional = false;
        for &index in rest {
            is_conditional |= matches!(class, FieldClass::Variant(_) | FieldClass::Optional(_));
            class = match class {
                FieldClass::Structure(structure) => &structure.members.get(index as usize)?.class,
                FieldClass::Variant(variant) => &variant.options.get(index as usize)?.class,
                FieldClass::Array(array) if index == 0 => &array.element,
                FieldClass::Optional(optional) if index == 0 => &optional.class,
                _ => return None,
            };
        }
        match class {
            FieldClass::Integer(Integer { signed, .. }) => {
                Some(NamedInteger { path, signed: *signed, is_conditional })
            }
            _ => None,
        }
    }
}

impl Registers {
    /// Makes the registers of the packet header.
    pub fn of_trace(schema: &Schema) -> Registers {
        let mut found = BTreeSet::new();
        let mut wanted = |structure: &Option<Structure>| {
            collect(structure, &[Scope::PacketHeader], &mut found);
        };
        wanted(&schema.packet_header);
        for stream in &schema.streams {
            wanted(&stream.packet_context);
            wanted(&stream.event_header);
            wanted(&stream.event_common_context);
            for event in &stream.events {
                wanted(&event.specific_context);
                wanted(&event.payload);
            }
        }
        let parts = LocatableParts {
            packet_header: schema.packet_header.as_ref(),
            ..LocatableParts::default()
        };
        Registers::default().and(found, &parts)
    }

    /// Adds the registers of the parts that all records of a stream class have.
    pub fn and_stream(&self, stream: &StreamClass) -> Registers {
        const SCOPES: [Scope; 3] = [Scope::PacketContext, Scope::EventHeader, Scope::CommonContext];
        let mut found = BTreeSet::new();
        let mut wanted = |structure: &Option<Structure>| collect(structure, &SCOPES, &mut found);
        wanted(&stream.packet_context);
        wanted(&stream.event_header);
        wanted(&stream.event_common_context);
        for event in &stream.events {
            wanted(&event.specific_context);
            wanted(&event.payload);
        }
        self.clone()
            .and(found, &LocatableParts { stream: Some(stream), ..LocatableParts::default() })
    }

    /// Adds the registers of an event record class.
    pub fn and_event(&self, event: &EventClass) -> Registers {
        const SCOPES: [Scope; 2] = [Scope::SpecificContext, Scope::Payload];
        let mut found = BTreeSet::new();
        collect(&event.specific_context, &SCOPES, &mut found);
        collect(&event.payload, &SCOPES, &mut found);
        if found.is_empty() && self.of.is_empty() {
            return Registers::default();
        }
        self.clone().and(found, &LocatableParts { event: Some(event), ..LocatableParts::default() })
    }

    fn and(mut self, found: BTreeSet<Location>, parts: &LocatableParts<'_>) -> Registers {
        // Sorting by keys gives the registers of one field consecutive numbers.
        let mut added: BTreeMap<RegisterKey, Vec<(Location, bool)>> = BTreeMap::new();
        let mut numbers = 0;
        let mut new = Vec::new();
        for location in found {
            let scope = location.scope;
            let integers: Vec<NamedInteger<'_>> =
                location.paths().filter_map(|path| parts.integer(scope, path)).collect();
            let Some(first) = integers.first() else { continue };
            let common = integers.iter().fold(first.path, |common, one| {
                let same = common.iter().zip(one.path).take_while(|(one, other)| one == other);
                common.get(..same.count()).unwrap_or(&[])
            });
            let mut register = PlanRegister { index: 0, signed: first.signed, present: None };
            if integers.len() == 1 && !first.is_conditional {
                added.entry((scope, common.to_vec())).or_default().push((location.clone(), false));
            } else {
                for is_present in [false, true] {
                    let mut key = common.to_vec();
                    key.extend([NO_MEMBER, numbers]);
                    added.insert((scope, key), vec![(location.clone(), is_present)]);
                    numbers += 1;
                }
                register.present = Some(0);
            }
            new.push(location.clone());
            self.meant.insert(location, register);
        }
        for (key, locations) in added {
            let index = self.next;
            self.next = self.next.saturating_add(1);
            for (location, is_present) in locations {
                match (self.meant.get_mut(&location), is_present) {
                    (Some(register), true) => register.present = Some(index),
                    (Some(register), false) => register.index = index,
                    (None, _) => {}
                }
            }
            self.of.insert(key, index);
        }
        for location in new {
            let Some(register) = self.meant.get(&location) else { continue };
            for path in location.paths() {
                let of = self.shared.entry((location.scope, path.to_vec())).or_default();
                if !of.contains(register) {
                    of.push(*register);
                }
            }
        }
        self
    }

    pub fn count(&self) -> u32 {
        self.next
    }

    /// Returns the register of the integer that a location means.
    pub fn meant(&self, location: &Location) -> Option<PlanRegister> {
        if self.of.is_empty() {
            return None;
        }
        self.meant.get(location).copied()
    }

    /// Returns the registers that get the value of the integer at this path.
    pub fn of_integer(&self, scope: Scope, path: &[u32]) -> Vec<PlanRegister> {
        if self.of.is_empty() {
            return Vec::new();
        }
        let key = (scope, path.to_vec());
        self.shared.get(&key).cloned().unwrap_or_default()
    }

    /// Returns the first register of the integers in the field at this path, and the number of such registers.
    pub fn below(&self, scope: Scope, path: &[u32]) -> (u32, u32) {
        if self.of.is_empty() {
            return (0, 0);
        }
        let from = self.of.range((scope, path.to_vec())..);
        let mut all = from
            .take_while(|((of, at), _)| *of == scope && at.starts_with(path))
            .map(|(_, register)| *register);
        match all.next() {
            Some(first) => (first, 1 + all.count() as u32),
            None => (0, 0),
        }
    }
}

/// Returns whether a field after the record's header depends on a field of the header.
pub(super) fn needs_header(stream: &StreamClass) -> bool {
    let mut found = BTreeSet::new();
    collect(&stream.event_common_context, &[Scope::EventHeader], &mut found);
    for event in &stream.events {
        collect(&event.specific_context, &[Scope::EventHeader], &mut found);
        collect(&event.payload, &[Scope::EventHeader], &mut found);
    }
    !found.is_empty()
}

/// Collects the locations in `scopes` to which fields of the structure refer.
fn collect(structure: &Option<Structure>, scopes: &[Scope], found: &mut BTreeSet<Location>) {
    for member in structure.iter().flat_map(|structure| &structure.members) {
        collect_class(&member.class, scopes, found, 1);
    }
}

fn collect_class(class: &FieldClass, scopes: &[Scope], found: &mut BTreeSet<Location>, depth: u32) {
    // The compiler refuses fields that are nested more deeply.
    if depth > DEPTH {
        return;
    }
    let mut wanted = |location: &Location| {
        if scopes.contains(&location.scope) {
            found.insert(location.clone());
        }
    };
    match class {
        FieldClass::Integer(_) | FieldClass::Real(_) | FieldClass::String => {}
        FieldClass::Wide { length: None, .. } => {}
        FieldClass::Text { length }
        | FieldClass::Wide { length: Some(length), .. }
        | FieldClass::Blob { length, .. } => {
            if let Length::Dynamic(location) = length {
                wanted(location);
            }
        }
        FieldClass::Structure(structure) => {
            for member in &structure.members {
                collect_class(&member.class, scopes, found, depth + 1);
            }
        }
        FieldClass::Array(array) => {
            if let Length::Dynamic(location) = &array.length {
                wanted(location);
            }
            collect_class(&array.element, scopes, found, depth + 1);
        }
        FieldClass::Variant(variant) => {
            wanted(&variant.selector);
            for option in &variant.options {
                collect_class(&option.class, scopes, found, depth + 1);
            }
        }
        FieldClass::Optional(optional) => {
            wanted(&optional.selector);
            collect_class(&optional.class, scopes, found, depth + 1);
        }
    }
}

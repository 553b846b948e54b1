//! Which integers are lengths or selectors of other fields, and where their values are kept.
//!
//! A register is an integer of a part that some [`Location`] names. Those of a packet's header come
//! first, then those of a stream class, then those of an event record class; each class counts on from
//! its stream class, since there is one record at a time. Those of one part are neighbours, and so are
//! those of one field in it.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::schema::{
    EventClass, FieldClass, Integer, Length, Location, Schema, Scope, StreamClass, Structure,
};

/// Fields in fields are followed so deep.
pub(super) const DEPTH: u32 = 100;

/// An integer's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlanRegister {
    pub index: u32,
    pub signed: bool,
}

/// What is said of others by the integers of some parts.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    of: BTreeMap<(Scope, Vec<u32>), PlanRegister>,
    next: u32,
}

/// The parts that locations can be in.
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

    /// The integer at a place.
    fn integer(&self, scope: Scope, path: &[u32]) -> Option<&'s Integer> {
        let (first, rest) = path.split_first()?;
        let mut class = &self.part(scope)?.members.get(*first as usize)?.class;
        for &index in rest {
            class = match class {
                FieldClass::Structure(structure) => &structure.members.get(index as usize)?.class,
                FieldClass::Variant(variant) => &variant.options.get(index as usize)?.class,
                FieldClass::Array(array) if index == 0 => &array.element,
                FieldClass::Optional(optional) if index == 0 => &optional.class,
                _ => return None,
            };
        }
        match class {
            FieldClass::Integer(integer) => Some(integer),
            _ => None,
        }
    }
}

impl Registers {
    /// Those of the packet header.
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

    /// Those, and of what all records of a stream class have.
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

    /// Those, and of an event record class.
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

    fn and(mut self, found: BTreeSet<(Scope, Vec<u32>)>, parts: &LocatableParts<'_>) -> Registers {
        for (scope, path) in found {
            if let Some(integer) = parts.integer(scope, &path) {
                let register = PlanRegister { index: self.next, signed: integer.signed };
                self.of.insert((scope, path), register);
                self.next = self.next.saturating_add(1);
            }
        }
        self
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.next
    }

    /// Of the integer at this place, if others need it.
    pub fn get(&self, scope: Scope, path: &[u32]) -> Option<PlanRegister> {
        if self.of.is_empty() {
            return None;
        }
        self.of.get(&(scope, path.to_vec())).copied()
    }

    /// The first one, and how many there are, of the integers in the field at this place.
    pub fn below(&self, scope: Scope, path: &[u32]) -> (u32, u32) {
        if self.of.is_empty() {
            return (0, 0);
        }
        let from = self.of.range((scope, path.to_vec())..);
        let mut all = from
            .take_while(|((of, at), _)| *of == scope && at.starts_with(path))
            .map(|(_, register)| register.index);
        match all.next() {
            Some(first) => (first, 1 + all.count() as u32),
            None => (0, 0),
        }
    }
}

/// Whether a field behind the record's header depends on something in that.
pub(super) fn needs_header(stream: &StreamClass) -> bool {
    let mut found = BTreeSet::new();
    collect(&stream.event_common_context, &[Scope::EventHeader], &mut found);
    for event in &stream.events {
        collect(&event.specific_context, &[Scope::EventHeader], &mut found);
        collect(&event.payload, &[Scope::EventHeader], &mut found);
    }
    !found.is_empty()
}

/// The places in `scopes` that fields of the structure need.
fn collect(
    structure: &Option<Structure>,
    scopes: &[Scope],
    found: &mut BTreeSet<(Scope, Vec<u32>)>,
) {
    for member in structure.iter().flat_map(|structure| &structure.members) {
        collect_class(&member.class, scopes, found, 1);
    }
}

fn collect_class(
    class: &FieldClass,
    scopes: &[Scope],
    found: &mut BTreeSet<(Scope, Vec<u32>)>,
    depth: u32,
) {
    // The compiler does not look deeper either.
    if depth > DEPTH {
        return;
    }
    let mut wanted = |location: &Location| {
        if scopes.contains(&location.scope) {
            found.insert((location.scope, location.path.clone()));
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

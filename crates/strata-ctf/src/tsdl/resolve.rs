//! Types to field classes: each use of a type is written out, each reference becomes a location.

use super::error::{too_many, Fault, MetadataProblem, ReferenceProblem};
use super::limits;
use super::scope::{heap, TypeNames};
use super::types::{NamedMembers, Reference, Type, TypeKind, TypeLength};
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use strata_model::schema::{
    Array, FieldClass, Integer, Length, Location, Member, Scope, Structure, Variant, VariantOption,
};
use strata_model::EnvValue;

/// What the environment's entries are, by name.
#[derive(Clone, Copy)]
pub(super) struct Environment<'a> {
    /// Each entry's place in `values`.
    pub places: &'a HashMap<String, usize>,
    pub values: &'a [(String, EnvValue)],
}

/// How a reference to the environment begins.
const ENVIRONMENT: &str = "env";

impl Environment<'_> {
    /// The name of the entry that is meant; `None`: a field is.
    fn name(&self, reference: &Reference) -> Option<String> {
        let (first, rest) = reference.parts.split_first()?;
        (first.as_ref() == ENVIRONMENT && !rest.is_empty()).then(|| rest.join("."))
    }

    /// The number of elements that an entry says: it is the same in the whole trace.
    fn length(&self, name: &str) -> Result<u64, ReferenceProblem> {
        let entry = self.places.get(name).and_then(|&place| self.values.get(place));
        match entry {
            None => Err(ReferenceProblem::NoEntry),
            Some((_, EnvValue::Text(_))) => Err(ReferenceProblem::EntryIsText),
            Some((_, EnvValue::Integer(number))) => {
                u64::try_from(*number).map_err(|_| ReferenceProblem::EntryIsNegative)
            }
        }
    }
}

/// The parts of a trace that are described where a type is used.
#[derive(Clone, Debug, Default)]
pub(super) struct Roots([Option<Rc<Type>>; 6]);

impl Roots {
    pub fn set(&mut self, scope: Scope, root: Rc<Type>) {
        if let Some(place) = self.0.get_mut(scope as usize) {
            *place = Some(root);
        }
    }

    fn get(&self, scope: Scope) -> Option<&Type> {
        self.0.get(scope as usize).and_then(Option::as_deref)
    }
}

/// How TSDL calls them.
fn absolute(parts: &[Box<str>]) -> Option<(Scope, &[Box<str>])> {
    const PREFIXES: [(Scope, &[&str]); 6] = [
        (Scope::PacketHeader, &["trace", "packet", "header"]),
        (Scope::PacketContext, &["stream", "packet", "context"]),
        (Scope::EventHeader, &["stream", "event", "header"]),
        (Scope::CommonContext, &["stream", "event", "context"]),
        (Scope::SpecificContext, &["event", "context"]),
        (Scope::Payload, &["event", "fields"]),
    ];
    PREFIXES.iter().find_map(|(scope, prefix)| {
        let (head, tail) = parts.split_at_checked(prefix.len())?;
        let same = head.iter().zip(prefix.iter()).all(|(part, name)| part.as_ref() == *name);
        (same && !tail.is_empty()).then_some((*scope, tail))
    })
}

/// The structure that `root`, a structure, is in this scope.
pub(super) fn structure(
    names: &mut TypeNames,
    environment: Environment<'_>,
    roots: &Roots,
    scope: Scope,
    root: &Type,
    at: u32,
) -> Result<Structure, Fault> {
    let TypeKind::Structure { align, fields } = &root.kind else {
        let found = "another type".to_owned();
        return Err(Fault::value(at, "a part of packets or events", found, "a structure"));
    };
    let (stack, steps) = (Vec::new(), Cell::new(0));
    let mut writer = ClassWriter { names, environment, roots, scope, at, stack, fields: 0, steps };
    writer.members(root, *align, fields)
}

/// Where we are: a type and the index of what is being written in it.
struct TypePosition<'a> {
    class: &'a Type,
    index: u32,
}

struct ClassWriter<'a> {
    names: &'a mut TypeNames,
    environment: Environment<'a>,
    roots: &'a Roots,
    scope: Scope,
    /// For messages.
    at: u32,
    stack: Vec<TypePosition<'a>>,
    fields: u32,
    /// Names that were looked up for the reference at hand.
    steps: Cell<u64>,
}

impl<'a> ClassWriter<'a> {
    /// So many more of a kind that takes `size` bytes.
    fn count(&mut self, fields: usize, size: usize) -> Result<(), Fault> {
        self.fields = self.fields.saturating_add(u32::try_from(fields).unwrap_or(u32::MAX));
        if self.fields > limits::FIELDS {
            let (found, limit) = (self.fields.into(), limits::FIELDS.into());
            return Err(too_many(
                self.at,
                "fields of one event or packet, with those of named types,",
                found,
                limit,
            ));
        }
        self.names.count(self.at, heap(fields.saturating_mul(size)))
    }

    /// What `inside` writes is at this index of the type.
    fn within<T>(
        &mut self,
        class: &'a Type,
        index: usize,
        inside: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let index = u32::try_from(index).unwrap_or(u32::MAX); // one of at most FIELDS
        self.stack.push(TypePosition { class, index });
        let result = inside(self);
        self.stack.pop();
        result
    }

    fn members(
        &mut self,
        class: &'a Type,
        align: u32,
        fields: &'a NamedMembers,
    ) -> Result<Structure, Fault> {
        self.count(fields.list.len(), size_of::<Member>())?;
        let mut members = Vec::with_capacity(fields.list.len()); // counted, so not too many
        for (index, (name, field)) in fields.list.iter().enumerate() {
            let written = self.within(class, index, |writer| writer.class(field))?;
            self.names.count(self.at, heap(name.len()))?;
            members.push(Member { name: shown(name), class: written });
        }
        Ok(Structure { align, members })
    }

    /// Recursive, as deep as the type, which is at most [`limits::DEPTH`].
    fn class(&mut self, class: &'a Type) -> Result<FieldClass, Fault> {
        Ok(match &class.kind {
            TypeKind::Integer { class, .. } => FieldClass::Integer(class.clone()),
            TypeKind::Enumeration(enumeration) => FieldClass::Integer(enumeration.class.clone()),
            TypeKind::Real(real) => FieldClass::Real(*real),
            TypeKind::Text => FieldClass::String,
            TypeKind::Structure { align, fields } => {
                FieldClass::Structure(self.members(class, *align, fields)?)
            }
            TypeKind::Variant { tag, options } => {
                let tag =
                    tag.as_deref().ok_or_else(|| Fault::new(self.at, MetadataProblem::NoTag))?;
                FieldClass::Variant(self.variant(class, tag, options)?)
            }
            TypeKind::Array { length, element } => {
                let length = match length {
                    TypeLength::Static(length) => Length::Static(*length),
                    TypeLength::Dynamic(reference) => self.length(reference)?,
                };
                if element.is_text() {
                    FieldClass::Text { length }
                } else {
                    self.count(1, size_of::<FieldClass>())?;
                    let element = self.within(class, 0, |writer| writer.class(element))?;
                    FieldClass::Array(Array { align: 1, length, element: Box::new(element) })
                }
            }
        })
    }

    fn variant(
        &mut self,
        class: &'a Type,
        tag: &Reference,
        fields: &'a NamedMembers,
    ) -> Result<Variant, Fault> {
        let (selector, target) = match (self.locate(tag), self.environment.name(tag)) {
            (Err(_), Some(_)) => return Err(bad(tag, ReferenceProblem::EntryIsNoTag)),
            (found, _) => found?,
        };
        let TypeKind::Enumeration(labels) = &target.kind else {
            return Err(bad(tag, ReferenceProblem::NotEnumeration));
        };
        self.count(fields.list.len(), size_of::<VariantOption>())?;
        let mut options = Vec::with_capacity(fields.list.len());
        for (index, (name, field)) in fields.list.iter().enumerate() {
            let written = self.within(class, index, |writer| writer.class(field))?;
            let ranges = labels.ranges(name);
            let bytes = heap(name.len()) + heap(size_of_val(ranges));
            self.names.count(self.at, bytes)?;
            options.push(VariantOption {
                name: shown(name),
                ranges: ranges.to_vec(),
                class: written,
            });
        }
        Ok(Variant { selector, options })
    }

    /// Where a field and an entry of the environment have the name, the entry is meant: `env` is one of
    /// TSDL's prefixes.
    fn length(&mut self, reference: &Reference) -> Result<Length, Fault> {
        let entry = self.environment.name(reference).map(|name| self.environment.length(&name));
        if let Some(Ok(length)) = entry {
            return Ok(Length::Static(length));
        }
        let (location, target) = match (self.locate(reference), entry) {
            (Err(_), Some(Err(why))) => return Err(bad(reference, why)),
            (found, _) => found?,
        };
        let class = match &target.kind {
            TypeKind::Integer { class, .. } => Some(class),
            TypeKind::Enumeration(enumeration) => Some(&enumeration.class),
            _ => None,
        };
        match class {
            Some(Integer { signed: false, .. }) => Ok(Length::Dynamic(location)),
            _ => Err(bad(reference, ReferenceProblem::NotUnsigned)),
        }
    }

    /// The field that a reference means, and where it is.
    fn locate(&mut self, reference: &Reference) -> Result<(Location, &'a Type), Fault> {
        self.steps.set(0);
        let found = self.find(reference);
        let path = found.as_ref().map_or(0, |(location, _)| location.path.capacity());
        self.names.count(self.at, heap(path * size_of::<u32>()))?;
        self.names.count_lookups(self.at, self.steps.get())?;
        found
    }

    fn find(&self, reference: &Reference) -> Result<(Location, &'a Type), Fault> {
        if let Some((scope, parts)) = absolute(&reference.parts) {
            let found = self.in_scope(scope, parts);
            return found.map_err(|why| bad(reference, why));
        }
        let mut why = ReferenceProblem::NotFound;
        match self.around(&reference.parts) {
            Ok(found) => return Ok(found),
            Err(ReferenceProblem::NotFound) => (),
            Err(found) => why = found,
        }
        for scope in Scope::ALL.into_iter().rev().filter(|scope| *scope < self.scope) {
            if let Ok(found) = self.in_scope(scope, &reference.parts) {
                return Ok(found);
            }
        }
        Err(bad(reference, why))
    }

    /// In a whole part, or in what comes before in the one that is being written.
    fn in_scope(
        &self,
        scope: Scope,
        parts: &[Box<str>],
    ) -> Result<(Location, &'a Type), ReferenceProblem> {
        if scope > self.scope {
            return Err(ReferenceProblem::NotBefore);
        }
        let root = match (scope == self.scope, self.stack.first()) {
            (true, Some(frame)) => Some(frame.class),
            _ => self.roots.get(scope),
        };
        let root = root.ok_or(ReferenceProblem::NoScope)?;
        let mut path = Vec::with_capacity(parts.len());
        let target = self.descend(scope, root, parts, &mut path)?;
        if scope == self.scope && !self.is_before(&path) {
            return Err(ReferenceProblem::NotBefore);
        }
        Ok((Location { scope, path }, target))
    }

    /// Whether a field of the part that is being written comes before what is being written: where the
    /// ways to them part it is the earlier member of a structure. Options of a variant exclude each other.
    fn is_before(&self, path: &[u32]) -> bool {
        let parting = self.stack.iter().zip(path).find(|(frame, index)| frame.index != **index);
        parting.is_some_and(|(frame, index)| {
            matches!(frame.class.kind, TypeKind::Structure { .. }) && *index < frame.index
        })
    }

    /// In the nearest structure around that has it before what is being written.
    fn around(&self, parts: &[Box<str>]) -> Result<(Location, &'a Type), ReferenceProblem> {
        let mut why = ReferenceProblem::NotFound;
        let first = parts.first().map(AsRef::as_ref).unwrap_or_default();
        for (depth, frame) in self.stack.iter().enumerate().rev() {
            let TypeKind::Structure { fields, .. } = &frame.class.kind else { continue };
            self.steps.set(self.steps.get() + 1);
            if fields.find(first).is_none() {
                continue;
            }
            let mut path: Vec<u32> =
                self.stack.iter().take(depth).map(|frame| frame.index).collect();
            match self.descend(self.scope, frame.class, parts, &mut path) {
                Ok(target) if self.is_before(&path) => {
                    return Ok((Location { scope: self.scope, path }, target));
                }
                Ok(_) => why = ReferenceProblem::NotBefore,
                Err(_) => (),
            }
        }
        Err(why)
    }

    /// From a structure or a variant downwards; adds to the path. An array's elements have no names: one
    /// can go only into the array, and that is the element, that is being written.
    fn descend(
        &self,
        scope: Scope,
        root: &'a Type,
        parts: &[Box<str>],
        path: &mut Vec<u32>,
    ) -> Result<&'a Type, ReferenceProblem> {
        let mut class = root;
        for part in parts {
            self.steps.set(self.steps.get() + 1);
            while let TypeKind::Array { element, .. } = &class.kind {
                let inside =
                    self.stack.iter().map(|frame| &frame.index).take(path.len()).eq(path.iter());
                if scope != self.scope || !inside || self.stack.len() <= path.len() {
                    return Err(ReferenceProblem::NotFound);
                }
                path.push(0);
                class = element;
            }
            let fields: &NamedMembers = match &class.kind {
                TypeKind::Structure { fields, .. } => fields,
                TypeKind::Variant { options, .. } => options,
                _ => return Err(ReferenceProblem::NotFound),
            };
            let index = fields.find(part).ok_or(ReferenceProblem::NotFound)?;
            let (_, next) = fields.list.get(index).ok_or(ReferenceProblem::NotFound)?;
            path.push(u32::try_from(index).map_err(|_| ReferenceProblem::NotFound)?);
            class = next;
        }
        Ok(class)
    }
}

fn bad(reference: &Reference, why: ReferenceProblem) -> Fault {
    let path = reference.parts.join(".");
    Fault::new(reference.at, MetadataProblem::Reference { path, why })
}

/// TSDL puts `_` in front of names that could be keywords.
fn shown(name: &str) -> String {
    name.strip_prefix('_').unwrap_or(name).to_owned()
}

//! Converts types to field classes: each use of a type is written out, and each reference becomes a location.

use super::scope::TypeNames;
use super::types::{NamedMembers, Reference, Type, TypeKind, TypeLength};
use crate::read::metadata::error::{too_many, Fault, MetadataProblem, ReferenceProblem};
use crate::read::metadata::heap::heap;
use crate::read::metadata::limits;
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use strata_model::schema::{
    Array, FieldClass, Length, Location, Member, Scope, Structure, Variant, VariantOption,
};
use strata_model::EnvValue;

/// The entries of the environment, by name.
#[derive(Clone, Copy)]
pub(super) struct Environment<'a> {
    /// Index in `values` of the entry with this name.
    pub places: &'a HashMap<String, usize>,
    pub values: &'a [(String, EnvValue)],
}

/// The prefix of a reference to an entry of the environment.
const ENVIRONMENT: &str = "env";

impl Environment<'_> {
    /// Returns the name of the environment's entry to which the reference leads; `None` if it leads to a field.
    fn name(&self, reference: &Reference) -> Option<String> {
        let (first, rest) = reference.parts.split_first()?;
        (first.as_ref() == ENVIRONMENT && !rest.is_empty()).then(|| rest.join("."))
    }

    /// Returns the number of elements that an entry gives, which is the same in the whole trace.
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

/// The types of a trace's parts, as far as they are known where a type is used.
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

/// Splits off the prefix by which TSDL names a scope, such as `stream.event.header`.
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

/// Writes `root`, a structure type, as the structure of this scope.
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

/// A type on the path to the field being written, and the index of the member within it.
struct TypePosition<'a> {
    class: &'a Type,
    index: u32,
}

struct ClassWriter<'a> {
    names: &'a mut TypeNames,
    environment: Environment<'a>,
    roots: &'a Roots,
    scope: Scope,
    /// Offset of the block in the text, for messages.
    at: u32,
    stack: Vec<TypePosition<'a>>,
    fields: u32,
    /// Number of names that were looked up for the current reference.
    steps: Cell<u64>,
}

impl<'a> ClassWriter<'a> {
    /// Counts further fields of a kind that takes `size` bytes.
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

    /// Runs `inside`, which writes the member at this index of the type.
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

    /// Writes a type as a field class. The recursion is as deep as the type, at most [`limits::DEPTH`].
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
        let (selector, targets) = match (self.locate(tag), self.environment.name(tag)) {
            (Err(_), Some(_)) => return Err(bad(tag, ReferenceProblem::EntryIsNoTag)),
            (found, _) => found?,
        };
        let mut enumerations = Vec::with_capacity(targets.len());
        for target in targets {
            let TypeKind::Enumeration(labels) = &target.kind else {
                return Err(bad(tag, ReferenceProblem::NotEnumeration));
            };
            enumerations.push(labels);
        }
        let Some((labels, others)) = enumerations.split_first() else {
            return Err(bad(tag, ReferenceProblem::NotFound));
        };
        if others.iter().any(|other| other.class.signed != labels.class.signed) {
            return Err(bad(tag, ReferenceProblem::SeveralSigns));
        }
        self.count(fields.list.len(), size_of::<VariantOption>())?;
        let mut options = Vec::with_capacity(fields.list.len());
        for (index, (name, field)) in fields.list.iter().enumerate() {
            let written = self.within(class, index, |writer| writer.class(field))?;
            let ranges = labels.ranges(name);
            if others.iter().any(|other| other.ranges(name) != ranges) {
                return Err(bad(tag, ReferenceProblem::SeveralLabels));
            }
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

    /// Finds the length that a reference gives. If a field and an entry of the environment have the name, the entry
    /// wins: `env` is one of TSDL's prefixes.
    fn length(&mut self, reference: &Reference) -> Result<Length, Fault> {
        let entry = self.environment.name(reference).map(|name| self.environment.length(&name));
        if let Some(Ok(length)) = entry {
            return Ok(Length::Static(length));
        }
        let (location, targets) = match (self.locate(reference), entry) {
            (Err(_), Some(Err(why))) => return Err(bad(reference, why)),
            (found, _) => found?,
        };
        let is_length = |target: &&Type| match &target.kind {
            TypeKind::Integer { class, .. } => !class.signed,
            TypeKind::Enumeration(enumeration) => !enumeration.class.signed,
            _ => false,
        };
        match targets.iter().all(is_length) {
            true => Ok(Length::Dynamic(location)),
            false => Err(bad(reference, ReferenceProblem::NotUnsigned)),
        }
    }

    /// Finds the fields to which a reference leads, and their location.
    fn locate(&mut self, reference: &Reference) -> Result<Located<'a>, Fault> {
        self.steps.set(0);
        let found = self.find(reference);
        let paths = found.as_ref().map_or(0, |(location, _)| {
            let one = |path: &Vec<u32>| heap(path.capacity() * size_of::<u32>());
            let others = &location.others;
            let lists = heap(others.capacity() * size_of::<Vec<u32>>());
            one(&location.path) + others.iter().map(one).sum::<usize>() + lists
        });
        self.names.count(self.at, paths)?;
        self.names.count_lookups(self.at, self.steps.get())?;
        found
    }

    fn find(&self, reference: &Reference) -> Result<Located<'a>, Fault> {
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

    /// Finds fields in a whole part, or, in the part that is being written, before the current field.
    fn in_scope(&self, scope: Scope, parts: &[Box<str>]) -> Result<Located<'a>, ReferenceProblem> {
        if scope > self.scope {
            return Err(ReferenceProblem::NotBefore);
        }
        let root = match (scope == self.scope, self.stack.first()) {
            (true, Some(frame)) => Some(frame.class),
            _ => self.roots.get(scope),
        };
        let root = root.ok_or(ReferenceProblem::NoScope)?;
        let mut found = Vec::new();
        self.descend(scope, root, parts, Vec::with_capacity(parts.len()), &mut found)?;
        self.located(scope, found)
    }

    /// Returns the location of fields that are all before the one being written.
    fn located(&self, scope: Scope, found: Found<'a>) -> Result<Located<'a>, ReferenceProblem> {
        if scope == self.scope && !found.iter().all(|(path, _)| self.is_before(path)) {
            return Err(ReferenceProblem::NotBefore);
        }
        let (mut paths, types): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        if paths.is_empty() {
            return Err(ReferenceProblem::NotFound);
        }
        let path = paths.remove(0);
        Ok((Location { scope, path, others: paths }, types))
    }

    /// Returns whether the field at `path` comes before the one being written: their paths divide at a structure, in
    /// which it belongs to the earlier member. If they divide at a variant, a record has only one of the two.
    fn is_before(&self, path: &[u32]) -> bool {
        let parting = self.stack.iter().zip(path).find(|(frame, index)| frame.index != **index);
        parting.is_some_and(|(frame, index)| {
            matches!(frame.class.kind, TypeKind::Structure { .. }) && *index < frame.index
        })
    }

    /// Finds the field in the nearest enclosing structure that has it before the one being written.
    fn around(&self, parts: &[Box<str>]) -> Result<Located<'a>, ReferenceProblem> {
        let mut why = ReferenceProblem::NotFound;
        let first = parts.first().map(AsRef::as_ref).unwrap_or_default();
        for (depth, frame) in self.stack.iter().enumerate().rev() {
            let TypeKind::Structure { fields, .. } = &frame.class.kind else { continue };
            self.steps.set(self.steps.get() + 1);
            if fields.find(first).is_none() {
                continue;
            }
            let path: Vec<u32> = self.stack.iter().take(depth).map(|frame| frame.index).collect();
            let mut found = Vec::new();
            let inside = self.descend(self.scope, frame.class, parts, path, &mut found);
            match inside.and_then(|()| self.located(self.scope, found)) {
                Ok(found) => return Ok(found),
                Err(ReferenceProblem::NotFound) => (),
                Err(problem) => why = problem,
            }
        }
        Err(why)
    }

    /// Follows the names downwards from a structure or a variant, and adds the fields to which they lead. An array's
    /// elements have no names: a path can lead only into the element that is being written.
    fn descend(
        &self,
        scope: Scope,
        class: &'a Type,
        parts: &[Box<str>],
        mut path: Vec<u32>,
        found: &mut Found<'a>,
    ) -> Result<(), ReferenceProblem> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > limits::LOOKUPS {
            return Err(ReferenceProblem::NotFound);
        }
        // The index within the array or variant at this path, if the field being written is in it.
        let is_around = scope == self.scope
            && self.stack.len() > path.len()
            && self.stack.iter().map(|frame| &frame.index).take(path.len()).eq(path.iter());
        let own = self.stack.get(path.len()).filter(|_| is_around).map(|frame| frame.index);
        let (name, rest) = match parts.split_first() {
            Some((name, rest)) => (Some(name.as_ref()), rest),
            None => (None, parts),
        };
        let named = |fields: &'a NamedMembers| {
            let index = fields.find(name?)?;
            let (_, next) = fields.list.get(index)?;
            Some((u32::try_from(index).ok()?, next))
        };
        match (&class.kind, name) {
            (TypeKind::Array { element, .. }, Some(_)) => {
                if own.is_none() {
                    return Err(ReferenceProblem::InElements);
                }
                path.push(0);
                self.descend(scope, element, parts, path, found)
            }
            (TypeKind::Structure { fields, .. }, Some(_)) => {
                let (index, next) = named(fields).ok_or(ReferenceProblem::NotFound)?;
                path.push(index);
                self.descend(scope, next, rest, path, found)
            }
            (TypeKind::Variant { options, .. }, _) => {
                let option = |(index, next): (u32, &'a Type), rest, found: &mut Found<'a>| {
                    let mut inside = path.clone();
                    inside.push(index);
                    self.descend(scope, next, rest, inside, found)
                };
                if let Some((index, next)) = named(options) {
                    return option((index, next), rest, found);
                }
                let before = found.len();
                let mut why = ReferenceProblem::NotFound;
                for (index, (_, next)) in (0u32..).zip(&options.list) {
                    if own.is_some_and(|own| own != index) {
                        continue;
                    }
                    if let Err(problem) = option((index, next), parts, found) {
                        why = problem;
                    }
                }
                if found.len() == before {
                    return Err(why);
                }
                Ok(())
            }
            (_, Some(_)) => Err(ReferenceProblem::NotFound),
            (_, None) => {
                self.steps.set(self.steps.get() + path.len() as u64);
                found.push((path, class));
                Ok(())
            }
        }
    }
}

/// Fields to which names lead, with their paths. A record has at most one of them.
type Found<'a> = Vec<(Vec<u32>, &'a Type)>;

/// The location of the fields to which a reference leads, and their types.
type Located<'a> = (Location, Vec<&'a Type>);

fn bad(reference: &Reference, why: ReferenceProblem) -> Fault {
    let path = reference.parts.join(".");
    Fault::new(reference.at, MetadataProblem::Reference { path, why })
}

/// Returns the name without the `_` that TSDL puts before names that could be keywords.
fn shown(name: &str) -> String {
    name.strip_prefix('_').unwrap_or(name).to_owned()
}

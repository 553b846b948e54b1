//! Resolves the locations of lengths and selectors: names become indexes.

use std::cell::Cell;

use super::error::{AtPart, JsonFault, JsonResult};
use super::name_text::shown;
use super::value::Json;
use crate::read::metadata::heap::heap;
use crate::read::metadata::{limits, MetadataProblem, ReferenceProblem};
use strata_model::schema::{
    FieldClass, Integer, Length, Location, Range, Scope, Structure, VariantOption,
};

/// Kinds of fields that others refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Length,
    Integer,
    Boolean,
}

/// A location that is given by names.
#[derive(Debug)]
pub(super) struct PendingLocation {
    /// The path of the field that depends on the location, as in a [`Location`].
    of: Vec<u32>,
    want: Want,
    /// Part at which the path begins; `None` for the structure that contains the field.
    origin: Option<Scope>,
    /// Names on the path; `None` steps to the surrounding structure.
    names: Vec<Option<String>>,
}

const ORIGINS: [(Scope, &str); 6] = [
    (Scope::PacketHeader, "packet-header"),
    (Scope::PacketContext, "packet-context"),
    (Scope::EventHeader, "event-record-header"),
    (Scope::CommonContext, "event-record-common-context"),
    (Scope::SpecificContext, "event-record-specific-context"),
    (Scope::Payload, "event-record-payload"),
];

/// Leaves out each name that is followed by a step up. As in babeltrace2, a field of that name need not exist.
fn without_detours(names: Vec<Option<String>>) -> Vec<Option<String>> {
    let mut kept: Vec<Option<String>> = Vec::with_capacity(names.len());
    for name in names {
        match (&name, kept.last()) {
            (None, Some(Some(_))) => drop(kept.pop()),
            _ => kept.push(name),
        }
    }
    kept
}

impl PendingLocation {
    pub fn new(json: &Json, of: Vec<u32>, want: Want) -> JsonResult<PendingLocation> {
        let object = json.object()?;
        let origin = object.optional("origin", |json| {
            let name = json.text()?;
            let found = ORIGINS.iter().find(|(_, origin)| *origin == name);
            let expected = "a part of packets or event records, such as 'event-record-payload'";
            found.map(|(scope, _)| *scope).ok_or_else(|| JsonFault::value("it", name, expected))
        })?;
        let names = object.required("path", |json| {
            let path = json.array()?;
            if path.is_empty() || path.len() > limits::PATH_PARTS {
                let expected = "1 to 64";
                return Err(JsonFault::value("the number of names", path.len(), expected));
            }
            let name = |(index, json): (usize, &Json)| match json {
                Json::Null => Ok(None),
                json => json.text().at(index).map(|name| Some(shown(name))),
            };
            let names: JsonResult<Vec<_>> = path.iter().enumerate().map(name).collect();
            Ok(without_detours(names?))
        })?;
        if names.is_empty() {
            let expected = "at least one";
            return Err(JsonFault::value(
                "the number of names that are not followed by null",
                0,
                expected,
            ))
            .at("path");
        }
        Ok(PendingLocation { of, want, origin, names })
    }

    /// Returns the approximate memory that the location takes \[byte\].
    pub fn bytes(&self) -> usize {
        let names = self.names.iter().flatten().map(|name| heap(name.len()));
        let parts = self.names.len() * size_of::<Option<String>>();
        size_of::<PendingLocation>() + heap(4 * self.of.len()) + heap(parts) + names.sum::<usize>()
    }

    fn shown(&self) -> String {
        let origin = ORIGINS.iter().find(|(scope, _)| Some(*scope) == self.origin);
        let names = self.names.iter().map(|name| name.as_deref().unwrap_or(".."));
        let mut path: Vec<&str> = origin.iter().map(|(_, name)| *name).collect();
        path.extend(names);
        path.join("/")
    }
}

/// The parts of packets and event records that are described before a part.
#[derive(Clone, Copy, Default)]
pub(super) struct DescribedParts<'s>(pub [Option<&'s Structure>; 6]);

impl<'s> DescribedParts<'s> {
    pub fn with(mut self, scope: Scope, part: Option<&'s Structure>) -> DescribedParts<'s> {
        if let Some(place) = self.0.get_mut(scope as usize) {
            *place = part;
        }
        self
    }

    fn get(&self, scope: Scope) -> Option<&'s Structure> {
        self.0.get(scope as usize).copied().flatten()
    }
}

/// Resolves all pending locations, and writes them to the part.
pub(super) fn locate(
    part: &mut Structure,
    pending: &[PendingLocation],
    scope: Scope,
    roots: DescribedParts<'_>,
    lookups: &Cell<u64>,
) -> JsonResult<()> {
    let mut found = Vec::with_capacity(pending.len());
    for one in pending {
        let finder = Finder { part, scope, roots, of: &one.of, lookups };
        let location = finder.find(one);
        if lookups.get() > limits::LOOKUPS {
            let what = "names looked up for locations";
            let (found, limit) = (lookups.get(), limits::LOOKUPS);
            return Err(JsonFault::new(MetadataProblem::TooMany { what, found, limit }));
        }
        found.push(location.map_err(|why| {
            JsonFault::new(MetadataProblem::Reference { path: one.shown(), why })
        })?);
    }
    for (one, location) in pending.iter().zip(found) {
        if let Some(place) = place(part, &one.of) {
            *place = location;
        }
    }
    Ok(())
}

/// Finds the class at a path of indexes in a part, by shared or by mutable reference.
macro_rules! class_at {
    ($part:expr, $path:expr, $get:ident $(, $change:tt)?) => {{
        let (first, rest) = $path.split_first()?;
        let mut class = & $($change)? $part.members.$get(*first as usize)?.class;
        for &index in rest {
            class = match class {
                FieldClass::Structure(inner) => & $($change)? inner.members.$get(index as usize)?.class,
                FieldClass::Variant(variant) => & $($change)? variant.options.$get(index as usize)?.class,
                FieldClass::Array(array) => & $($change)? array.element,
                FieldClass::Optional(optional) => & $($change)? optional.class,
                _ => return None,
            };
        }
        class
    }};
}

/// Returns the unresolved location in the class at `path`.
fn place<'s>(part: &'s mut Structure, path: &[u32]) -> Option<&'s mut Location> {
    match class_at!(part, path, get_mut, mut) {
        FieldClass::Array(array) => dynamic(&mut array.length),
        FieldClass::Text { length } | FieldClass::Blob { length, .. } => dynamic(length),
        FieldClass::Wide { length, .. } => dynamic(length.as_mut()?),
        FieldClass::Variant(variant) => Some(&mut variant.selector),
        FieldClass::Optional(optional) => Some(&mut optional.selector),
        _ => None,
    }
}

fn dynamic(length: &mut Length) -> Option<&mut Location> {
    match length {
        Length::Dynamic(location) => Some(location),
        Length::Static(_) => None,
    }
}

/// A point on the path through a part: a structure or another class.
#[derive(Clone, Copy)]
enum StructureSpot<'s> {
    Part(&'s Structure),
    Field(&'s FieldClass),
}

struct Finder<'s, 'l> {
    /// The part that has the dependent field.
    part: &'s Structure,
    scope: Scope,
    roots: DescribedParts<'s>,
    of: &'l [u32],
    lookups: &'l Cell<u64>,
}

type LocateResult<T> = Result<T, ReferenceProblem>;

/// Fields to which names lead, with their paths. A record has at most one of them.
type Found<'s> = Vec<(Vec<u32>, &'s FieldClass)>;

impl<'s> Finder<'s, '_> {
    fn find(&self, wanted: &PendingLocation) -> LocateResult<Location> {
        let scope = wanted.origin.unwrap_or(self.scope);
        if scope > self.scope {
            return Err(ReferenceProblem::NotBefore);
        }
        let root = match scope == self.scope {
            true => self.part,
            false => self.roots.get(scope).ok_or(ReferenceProblem::NoScope)?,
        };
        let mut path = Vec::new();
        if wanted.origin.is_none() {
            path.extend_from_slice(self.of);
            self.up(root, &mut path)?;
        }
        let mut found = Vec::new();
        self.descend(root, scope, path, &wanted.names, &mut found)?;
        // From several options, steps up can lead to the same field.
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        found.dedup_by(|(one, _), (other, _)| one == other);
        let mut location = Location::at(scope, Vec::new());
        let mut signs = [false; 2];
        for (index, (path, class)) in found.into_iter().enumerate() {
            if scope == self.scope && !self.is_before(root, &path) {
                return Err(ReferenceProblem::NotBefore);
            }
            suits(wanted.want, class)?;
            if let FieldClass::Integer(integer) = class {
                signs = [signs[0] | integer.signed, signs[1] | !integer.signed];
            }
            match index {
                0 => location.path = path,
                _ => location.others.push(path),
            }
        }
        // The ranges of options and optional fields are for signed or for unsigned integers, not for both.
        if signs == [true; 2] {
            return Err(ReferenceProblem::SeveralSigns);
        }
        // Once for all of them: each of many fields may be a selector, and there may be many ranges.
        if signs != [false; 2] {
            self.fits(signs[0])?;
        }
        Ok(location)
    }

    /// Returns the point at `path`.
    fn at(&self, root: &'s Structure, path: &[u32]) -> Option<StructureSpot<'s>> {
        if path.is_empty() {
            return Some(StructureSpot::Part(root));
        }
        Some(match class_at!(root, path, get) {
            FieldClass::Structure(inner) => StructureSpot::Part(inner),
            class => StructureSpot::Field(class),
        })
    }

    /// Checks that a selector may have the values of the options or of the optional field: an unsigned integer has none
    /// below 0, and a signed one none of 64 bits. A range may have more values than a narrower integer.
    fn fits(&self, is_signed: bool) -> LocateResult<()> {
        let dependent = self.at(self.part, self.of);
        let (options, own): (&[VariantOption], &[Range]) = match dependent {
            Some(StructureSpot::Field(FieldClass::Variant(it))) => (&it.options, &[]),
            Some(StructureSpot::Field(FieldClass::Optional(it))) => (&[], &it.ranges),
            _ => return Ok(()),
        };
        let (min, max) = match is_signed {
            true => (i64::MIN.into(), i64::MAX.into()),
            false => (0, i128::from(u64::MAX)),
        };
        let mut all = options.iter().flat_map(|option| &option.ranges).chain(own);
        match all.all(|range| range.from >= min && range.to <= max) {
            true => Ok(()),
            false => Err(ReferenceProblem::OutsideSelector),
        }
    }

    /// Moves `path` up to the enclosing structure.
    fn up(&self, root: &'s Structure, path: &mut Vec<u32>) -> LocateResult<()> {
        loop {
            path.pop().ok_or(ReferenceProblem::NotFound)?;
            self.lookups.set(self.lookups.get() + 1);
            if let Some(StructureSpot::Part(_)) = self.at(root, path) {
                return Ok(());
            }
        }
    }

    /// Follows the names from the structure at `path`, and adds the fields to which they lead.
    fn descend(
        &self,
        root: &'s Structure,
        scope: Scope,
        mut path: Vec<u32>,
        names: &[Option<String>],
        found: &mut Found<'s>,
    ) -> LocateResult<()> {
        let (name, rest) = names.split_first().ok_or(ReferenceProblem::NotFound)?;
        let Some(name) = name else {
            self.up(root, &mut path)?;
            return self.descend(root, scope, path, rest, found);
        };
        let Some(StructureSpot::Part(structure)) = self.at(root, &path) else {
            return Err(ReferenceProblem::NotFound);
        };
        // A long structure takes longer to search.
        self.lookups.set(self.lookups.get() + 1 + structure.members.len() as u64 / 64);
        let index = structure.find(name).ok_or(ReferenceProblem::NotFound)?;
        path.push(u32::try_from(index).map_err(|_| ReferenceProblem::NotFound)?);
        self.enter(root, scope, path, rest, found)
    }

    /// Descends into classes without names of their own: elements, optional fields, options.
    fn enter(
        &self,
        root: &'s Structure,
        scope: Scope,
        mut path: Vec<u32>,
        names: &[Option<String>],
        found: &mut Found<'s>,
    ) -> LocateResult<()> {
        self.lookups.set(self.lookups.get() + 1);
        if self.lookups.get() > limits::LOOKUPS {
            return Err(ReferenceProblem::NotFound);
        }
        // The index of the element or option in which the dependent field itself is.
        let own = (scope == self.scope && self.of.starts_with(&path))
            .then(|| self.of.get(path.len()).copied())
            .flatten();
        let class = match self.at(root, &path).ok_or(ReferenceProblem::NotFound)? {
            StructureSpot::Part(_) if names.is_empty() => return Err(ReferenceProblem::NotFound),
            StructureSpot::Part(_) => return self.descend(root, scope, path, names, found),
            StructureSpot::Field(class) => class,
        };
        match (class, own) {
            // Elements have no names, and the dependent field is in none of them.
            (FieldClass::Array(_), None) => Err(ReferenceProblem::InElements),
            (FieldClass::Array(_), Some(_)) | (FieldClass::Optional(_), _) => {
                path.push(0);
                self.enter(root, scope, path, names, found)
            }
            (FieldClass::Variant(_), Some(option)) => {
                path.push(option);
                self.enter(root, scope, path, names, found)
            }
            // Each option may have the field: a record has that of its option, or none.
            (FieldClass::Variant(variant), None) => {
                let before = found.len();
                let mut why = ReferenceProblem::NotFound;
                for option in (0u32..).take(variant.options.len()) {
                    let mut inside = path.clone();
                    inside.push(option);
                    if let Err(problem) = self.enter(root, scope, inside, names, found) {
                        why = problem;
                    }
                }
                if found.len() == before {
                    return Err(why);
                }
                Ok(())
            }
            (class, _) if names.is_empty() => {
                self.lookups.set(self.lookups.get() + path.len() as u64);
                found.push((path, class));
                Ok(())
            }
            _ => Err(ReferenceProblem::NotFound),
        }
    }

    /// Returns whether a field comes before the dependent field: where their paths divide, it belongs to the earlier
    /// member of a structure.
    fn is_before(&self, root: &'s Structure, path: &[u32]) -> bool {
        let same = self.of.iter().zip(path).take_while(|(one, other)| one == other).count();
        let (Some(of), Some(at)) = (self.of.get(same), path.get(same)) else { return false };
        let around = self.of.get(..same).and_then(|around| self.at(root, around));
        matches!(around, Some(StructureSpot::Part(_))) && at < of
    }
}

fn suits(want: Want, class: &FieldClass) -> LocateResult<()> {
    match (want, class) {
        (Want::Length, FieldClass::Integer(Integer { signed: false, is_bool: false, .. })) => {
            Ok(())
        }
        (Want::Length, _) => Err(ReferenceProblem::NotUnsigned),
        (Want::Boolean, FieldClass::Integer(Integer { is_bool: true, .. })) => Ok(()),
        (Want::Boolean, _) => Err(ReferenceProblem::NotBoolean),
        (Want::Integer, FieldClass::Integer(_)) => Ok(()),
        (Want::Integer, _) => Err(ReferenceProblem::NotInteger),
    }
}

//! Makes field classes from JSON, except for their references to other fields, which [`super::locate`] resolves.

use std::collections::HashMap;

use super::attributes;
use super::error::{AtPart, JsonFault, JsonResult};
use super::locate::{PendingLocation, Want};
use super::name_text::shown;
use super::object::JsonObject;
use super::scalars::{self, FixedBits, Roles};
use super::value::{Json, MemoryBudget};
use crate::read::metadata::heap::heap;
use crate::read::metadata::{limits, MetadataProblem};
use strata_model::schema::{
    Array, FieldClass, Integer, Label, Length, Location, Member, Optional, Range, Scope, Structure,
    Variant, VariantOption,
};
use strata_model::Base;

/// Field classes with names, in the order of the metadata.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    list: Vec<Json>,
    by_name: HashMap<String, usize>,
}

impl Aliases {
    /// Adds a named class. Returns false if the name exists already.
    pub fn add(&mut self, name: &str, class: Json) -> bool {
        if self.by_name.contains_key(name) {
            return false;
        }
        self.by_name.insert(name.to_owned(), self.list.len());
        self.list.push(class);
        true
    }

    /// Forgets the alias with this name if it is a different class: later uses of the name are then unknown.
    pub fn forget_other(&mut self, name: &str, class: Json) {
        let known = self.by_name.get(name).and_then(|index| self.list.get(*index));
        if known != Some(&class) {
            self.by_name.insert(name.to_owned(), usize::MAX);
        }
    }

    /// Returns the number of named classes.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Finds the class with this name among the first `known` aliases. Returns it with its index.
    fn find(&self, name: &str, known: usize) -> Option<(usize, &Json)> {
        let index = self.by_name.get(name).copied().filter(|index| *index < known)?;
        Some((index, self.list.get(index)?))
    }
}

/// Makes the field classes of one part of a packet or an event record.
pub(super) struct FieldClassMaker<'a> {
    aliases: &'a Aliases,
    budget: &'a MemoryBudget,
    scope: Scope,
    /// Index of the default clock.
    clock: Option<usize>,
    /// Path of the class that is being made, as in a [`Location`].
    path: Vec<u32>,
    /// Nesting depth of the class that is being made.
    depth: u32,
    fields: u32,
    /// References to lengths and selectors, to be resolved later.
    pub pending: Vec<PendingLocation>,
    /// Index of the member that is the metadata's UUID.
    pub uuid: Option<u32>,
}

impl<'a> FieldClassMaker<'a> {
    pub fn new(
        aliases: &'a Aliases,
        budget: &'a MemoryBudget,
        scope: Scope,
        clock: Option<usize>,
    ) -> Self {
        let (path, pending) = (Vec::new(), Vec::new());
        FieldClassMaker {
            aliases,
            budget,
            scope,
            clock,
            path,
            depth: 0,
            fields: 0,
            pending,
            uuid: None,
        }
    }

    /// Makes the structure of a whole part.
    pub fn part(&mut self, json: &Json) -> JsonResult<Structure> {
        match self.class(json, self.aliases.len())? {
            FieldClass::Structure(structure) => Ok(structure),
            _ => Err(JsonFault::value("a part of packets or events", json.shown(), "a structure")),
        }
    }

    /// Counts a field that takes `bytes` bytes of memory.
    fn count(&mut self, bytes: usize) -> JsonResult<()> {
        self.fields += 1;
        if self.fields > limits::FIELDS {
            let what = "fields of one event or packet, with those of aliases,";
            let (found, limit) = (self.fields.into(), limits::FIELDS.into());
            return Err(JsonFault::new(MetadataProblem::TooMany { what, found, limit }));
        }
        self.budget.keep(heap(bytes))
    }

    /// Runs `inside` with this index appended to the path.
    fn within<T>(
        &mut self,
        index: usize,
        inside: impl FnOnce(&mut Self) -> JsonResult<T>,
    ) -> JsonResult<T> {
        self.path.push(u32::try_from(index).unwrap_or(u32::MAX)); // one of at most FIELDS
        let result = inside(self);
        self.path.pop();
        result
    }

    /// Makes a class from JSON. `known` is the number of aliases that precede it.
    fn class(&mut self, json: &Json, known: usize) -> JsonResult<FieldClass> {
        self.depth += 1;
        let made = self.class_here(json, known);
        self.depth -= 1;
        made
    }

    fn class_here(&mut self, json: &Json, known: usize) -> JsonResult<FieldClass> {
        if self.depth > limits::DEPTH {
            let what = "levels of field classes within each other";
            let (found, limit) = (self.depth.into(), limits::DEPTH.into());
            return Err(JsonFault::new(MetadataProblem::TooMany { what, found, limit }));
        }
        if let Json::Text(name) = json {
            let unknown = || {
                let (what, name) = ("field class alias", name.clone());
                JsonFault::new(MetadataProblem::Unknown { what, name })
            };
            let (index, class) = self.aliases.find(name, known).ok_or_else(unknown)?;
            return self.class(class, index).at(format!("(alias {name})"));
        }
        let object = json.object()?;
        self.count(size_of::<FieldClass>())?;
        let kind = object.required("type", Json::text)?;
        match kind {
            "structure" => self.structure(&object, known).map(FieldClass::Structure),
            "static-length-array" | "dynamic-length-array" => self.array(kind, &object, known),
            "optional" => self.optional(&object, known),
            "variant" => self.variant(&object, known),
            _ => self.leaf(kind, &object),
        }
    }

    /// Makes a class that contains no other classes.
    fn leaf(&mut self, kind: &str, object: &JsonObject<'_>) -> JsonResult<FieldClass> {
        Ok(match kind {
            "fixed-length-bit-array"
            | "fixed-length-bit-map"
            | "fixed-length-boolean"
            | "fixed-length-unsigned-integer"
            | "fixed-length-signed-integer"
            | "fixed-length-floating-point-number" => {
                let fixed = scalars::fixed(object)?;
                match fixed.bytes() {
                    // A field with a role must be a number.
                    Some(bytes) if scalars::roles(object, self.scope)? == Roles::default() => bytes,
                    _ => self.number(kind, &fixed, object)?,
                }
            }
            "variable-length-unsigned-integer" => {
                let base = scalars::base(object)?;
                self.integer(Integer { base, ..scalars::variable() }, object)?
            }
            "variable-length-signed-integer" => {
                let base = scalars::base(object)?;
                let integer = Integer { base, signed: true, ..scalars::variable() };
                self.integer(integer, object)?
            }
            "null-terminated-string" => match scalars::encoding(object)? {
                None => FieldClass::String,
                Some(encoding) => FieldClass::Wide { length: None, encoding },
            },
            "static-length-string" | "dynamic-length-string" => {
                let length = self.length(kind, object)?;
                match scalars::encoding(object)? {
                    None => FieldClass::Text { length },
                    Some(encoding) => FieldClass::Wide { length: Some(length), encoding },
                }
            }
            "static-length-blob" | "dynamic-length-blob" => self.blob(kind, object)?,
            _ => {
                let expected = "a type of field classes of CTF 2";
                return Err(JsonFault::value("it", kind, expected)).at("type");
            }
        })
    }

    /// Makes a class with a fixed number of bits.
    fn number(
        &mut self,
        kind: &str,
        fixed: &FixedBits,
        object: &JsonObject<'_>,
    ) -> JsonResult<FieldClass> {
        let integer = match kind {
            "fixed-length-bit-array" => fixed.integer(Base::Sixteen)?,
            "fixed-length-bit-map" => {
                let integer = fixed.integer(Base::Sixteen)?;
                let labels = scalars::bit_labels(object, fixed.bits)?;
                self.take_labels(&labels)?;
                Integer { labels: Some(labels), is_bit_map: true, ..integer }
            }
            "fixed-length-boolean" => Integer { is_bool: true, ..fixed.integer(Base::Ten)? },
            "fixed-length-floating-point-number" => return fixed.real().map(FieldClass::Real),
            kind => {
                let integer = fixed.integer(scalars::base(object)?)?;
                let signed = kind == "fixed-length-signed-integer";
                return self.integer(Integer { signed, ..integer }, object);
            }
        };
        Ok(FieldClass::Integer(integer))
    }

    /// Reads the properties that both kinds of integers have.
    fn integer(&mut self, mut integer: Integer, object: &JsonObject<'_>) -> JsonResult<FieldClass> {
        integer.labels =
            object.optional("mappings", scalars::labels)?.filter(|all| !all.is_empty());
        if let Some(labels) = &integer.labels {
            self.take_labels(labels)?;
            integer.flags = attributes::flags(object);
        }
        if integer.signed {
            return Ok(FieldClass::Integer(integer));
        }
        let Roles { role, is_time } = scalars::roles(object, self.scope)?;
        if is_time && self.clock.is_none() {
            let (what, of) = ("default-clock-class-id", "its data stream class");
            return Err(JsonFault::new(MetadataProblem::Missing { what, of })).at("roles");
        }
        integer.role = role;
        integer.clock = self.clock.filter(|_| is_time);
        Ok(FieldClass::Integer(integer))
    }

    fn take_labels(&self, labels: &[Label]) -> JsonResult<()> {
        let each = |label: &Label| {
            heap(label.name.len()) + heap(size_of_val(label.ranges.as_slice())) + size_of::<Label>()
        };
        self.budget.keep(labels.iter().map(each).sum())
    }

    fn blob(&mut self, kind: &str, object: &JsonObject<'_>) -> JsonResult<FieldClass> {
        // The content is not interpreted: it is shown as bytes.
        object.text("media-type")?;
        let length = self.length(kind, object)?;
        let roles = object.optional("roles", Json::array)?.unwrap_or_default();
        let is_uuid =
            roles.iter().any(|role| role.text().is_ok_and(|r| r == "metadata-stream-uuid"));
        if is_uuid && self.scope == Scope::PacketHeader && kind == "static-length-blob" {
            if length != Length::Static(16) {
                let found = object.get("length").map(Json::shown).unwrap_or_default();
                return Err(JsonFault::value("it", found, "16 bytes, as a UUID has")).at("length");
            }
            if let [index] = *self.path {
                self.uuid = Some(index);
            }
        }
        Ok(FieldClass::Blob { align: 8, length })
    }

    /// Reads a length that the class gives itself, or the location of the field that gives it.
    fn length(&mut self, kind: &str, object: &JsonObject<'_>) -> JsonResult<Length> {
        if kind.starts_with("static") {
            return object.required("length", Json::unsigned).map(Length::Static);
        }
        let location = self.location(object, "length-field-location", Want::Length)?;
        Ok(Length::Dynamic(location))
    }

    /// Reads a location, to be resolved when the whole part has been read.
    fn location(
        &mut self,
        object: &JsonObject<'_>,
        name: &'static str,
        want: Want,
    ) -> JsonResult<Location> {
        let path = self.path.clone();
        let pending = object.required(name, |json| PendingLocation::new(json, path, want))?;
        self.budget.keep(pending.bytes())?;
        self.pending.push(pending);
        Ok(Location::at(self.scope, Vec::new()))
    }

    fn structure(&mut self, object: &JsonObject<'_>, known: usize) -> JsonResult<Structure> {
        let align = object.optional("minimum-alignment", Json::alignment)?.unwrap_or(1);
        let list = object.optional("member-classes", Json::array)?;
        // If the list of members were ignored because of its name, later fields would be read in its place.
        let other = object.0.iter().find(|(_, value)| list.is_none() && value.array().is_ok());
        if let Some((name, _)) = other {
            let name = name.clone();
            return Err(JsonFault::new(MetadataProblem::Unknown { what: "list of members", name }));
        }
        let list = list.unwrap_or_default();
        let mut members = Vec::with_capacity(list.len()); // of values that are there
        let mut names = std::collections::HashSet::with_capacity(list.len());
        for (index, member) in list.iter().enumerate() {
            let made =
                self.member(member, index, known).at(Nth(index, member)).at("member-classes")?;
            if !names.insert(made.name.clone()) {
                let (what, name) = ("member", made.name);
                return Err(JsonFault::new(MetadataProblem::Duplicate { what, name })).at(index);
            }
            members.push(made);
        }
        Ok(Structure { align, members })
    }

    fn member(&mut self, json: &Json, index: usize, known: usize) -> JsonResult<Member> {
        let object = json.object()?;
        let name = shown(object.required("name", Json::text)?);
        self.count(size_of::<Member>() + name.len())?;
        let class = object
            .required("field-class", |json| self.within(index, |maker| maker.class(json, known)))?;
        Ok(Member { name, class })
    }

    fn array(
        &mut self,
        kind: &str,
        object: &JsonObject<'_>,
        known: usize,
    ) -> JsonResult<FieldClass> {
        let align = object.optional("minimum-alignment", Json::alignment)?.unwrap_or(1);
        let length = self.length(kind, object)?;
        let element = object.required("element-field-class", |json| {
            self.within(0, |maker| maker.class(json, known))
        })?;
        Ok(FieldClass::Array(Array { align, length, element: Box::new(element) }))
    }

    fn optional(&mut self, object: &JsonObject<'_>, known: usize) -> JsonResult<FieldClass> {
        let ranges = object.optional("selector-field-ranges", scalars::ranges)?;
        let want = if ranges.is_some() { Want::Integer } else { Want::Boolean };
        let selector = self.location(object, "selector-field-location", want)?;
        let ranges = ranges.unwrap_or_default();
        self.budget.keep(heap(size_of_val(ranges.as_slice())))?;
        let class = object
            .required("field-class", |json| self.within(0, |maker| maker.class(json, known)))?;
        Ok(FieldClass::Optional(Optional { selector, ranges, class: Box::new(class) }))
    }

    fn variant(&mut self, object: &JsonObject<'_>, known: usize) -> JsonResult<FieldClass> {
        let selector = self.location(object, "selector-field-location", Want::Integer)?;
        let list = object.required("options", Json::array)?;
        if list.is_empty() {
            let (what, of) = ("options", "the variant");
            return Err(JsonFault::new(MetadataProblem::Missing { what, of }));
        }
        let mut options: Vec<VariantOption> = Vec::with_capacity(list.len()); // of values that are there
        for (index, option) in list.iter().enumerate() {
            options.push(self.option(option, index, known).at(index).at("options")?);
        }
        let mut ranges: Vec<Range> =
            options.iter().flat_map(|o| o.ranges.iter().copied()).collect();
        ranges.sort_by_key(|range| (range.from, range.to));
        // Only ranges of the same option may overlap.
        let of = |wanted: &Range| options.iter().position(|o| o.ranges.contains(wanted));
        for pair in ranges.windows(2) {
            if let [one, other] = pair {
                if other.from <= one.to && of(one) != of(other) {
                    let found = format!("{}, of two options", other.from);
                    return Err(JsonFault::value("a value of the selector", found, "one option"));
                }
            }
        }
        Ok(FieldClass::Variant(Variant { selector, options }))
    }

    fn option(&mut self, json: &Json, index: usize, known: usize) -> JsonResult<VariantOption> {
        let object = json.object()?;
        let name = shown(object.text("name")?.unwrap_or_default());
        let ranges = object.required("selector-field-ranges", scalars::ranges)?;
        let bytes = heap(size_of_val(ranges.as_slice()));
        self.count(size_of::<VariantOption>() + name.len() + bytes)?;
        let class = object
            .required("field-class", |json| self.within(index, |maker| maker.class(json, known)))?;
        Ok(VariantOption { name, ranges, class })
    }
}

/// An element of a list, with its name.
struct Nth<'j>(usize, &'j Json);

impl std::fmt::Display for Nth<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Nth(index, Json::Object(members)) = self else { return write!(f, "{}", self.0) };
        match JsonObject(members).get("name") {
            Some(Json::Text(name)) => write!(f, "{index} ({name})"),
            _ => write!(f, "{index}"),
        }
    }
}

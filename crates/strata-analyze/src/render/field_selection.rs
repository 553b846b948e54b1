//! The choice of the fields that are shown: the requested ones, without fields that only a reader of the format needs.

use std::collections::HashSet;

use strata_ctf::read::{FieldInfo, Reader, Visit};
use strata_model::schema::{FieldClass, Integer, Length, Location, Schema, Scope, Structure};

use crate::stack_copy;

/// A part of an event record that lists of fields can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordPart {
    Packet,
    /// The context that all records of a stream have.
    Common,
    /// The context that all records of a class have.
    Context,
    Payload,
}

impl RecordPart {
    /// All parts, in their order in a record.
    pub const ALL: [RecordPart; 4] =
        [RecordPart::Packet, RecordPart::Common, RecordPart::Context, RecordPart::Payload];

    /// Returns the name by which lists of fields refer to the part.
    pub fn name(self) -> &'static str {
        match self {
            RecordPart::Packet => "packet",
            RecordPart::Common => "common",
            RecordPart::Context => "context",
            RecordPart::Payload => "payload",
        }
    }
}

/// A list of the fields that the user has requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldList {
    items: Vec<String>,
}

impl FieldList {
    /// Makes a list of names of fields (`len`, `payload.len`, `point.x` in a structure) and of parts (`packet`,
    /// `common`, `context`, `payload`).
    pub fn new<S: AsRef<str>>(items: &[S]) -> FieldList {
        let items = items.iter().map(|item| item.as_ref().trim());
        FieldList { items: items.filter(|item| !item.is_empty()).map(str::to_owned).collect() }
    }

    /// Returns the names as they were written.
    pub fn items(&self) -> &[String] {
        &self.items
    }

    /// Returns the paths that are requested in this part. A path without a part's name is for any part.
    fn paths(&self, part: RecordPart) -> Vec<&str> {
        let inside = |item: &'_ str| -> Option<usize> {
            item.strip_prefix(part.name())?.starts_with('.').then_some(part.name().len() + 1)
        };
        let whole = self.items.iter().map(String::as_str);
        let inner = self.items.iter().filter_map(|item| item.get(inside(item)?..));
        whole.chain(inner).collect()
    }

    /// Returns true if the list has the part's field by its name.
    fn names(&self, part: RecordPart, name: &str) -> bool {
        self.paths(part).contains(&name)
    }

    /// Returns true if the list has the whole part.
    fn has_whole(&self, part: RecordPart) -> bool {
        self.items.iter().any(|item| item == part.name())
    }

    /// Returns the names in the list that no event of these traces has.
    pub fn unknown(&self, reader: &Reader) -> Vec<&str> {
        let mut parts: Vec<(RecordPart, &Structure)> = Vec::new();
        for stream in reader.traces().iter().flat_map(|trace| &trace.schema().streams) {
            parts.extend(stream.packet_context.as_ref().map(|s| (RecordPart::Packet, s)));
            parts.extend(stream.event_common_context.as_ref().map(|s| (RecordPart::Common, s)));
            for event in &stream.events {
                parts.extend(event.specific_context.as_ref().map(|s| (RecordPart::Context, s)));
                parts.extend(event.payload.as_ref().map(|s| (RecordPart::Payload, s)));
            }
        }
        let known = |item: &str| {
            let list = FieldList::new(&[item]);
            RecordPart::ALL.into_iter().any(|part| list.has_whole(part))
                || parts.iter().any(|(part, structure)| {
                    list.paths(*part).into_iter().any(|path| has_path(structure, path))
                })
        };
        self.items.iter().map(String::as_str).filter(|item| !known(item)).collect()
    }
}

/// Returns true if the structure, or one within it, has a member at this path, such as `a.b`.
fn has_path(structure: &Structure, path: &str) -> bool {
    structure.members.iter().any(|member| match path.strip_prefix(member.name.as_str()) {
        Some("") => true,
        Some(rest) => match (rest.strip_prefix('.'), &member.class) {
            (Some(rest), FieldClass::Structure(inner)) => has_path(inner, rest),
            _ => false,
        },
        None => false,
    })
}

/// The choice whether a field is shown, and which fields within it are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownField {
    /// True if the field is shown.
    pub shown: bool,
    inner: ShownInner,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ShownInner {
    None,
    Members(Vec<ShownField>),
    Element(Box<ShownField>),
    Options(Vec<(String, ShownField)>),
}

impl ShownField {
    fn of(class: &FieldClass) -> ShownField {
        match class {
            FieldClass::Integer(integer) => {
                ShownField { shown: !is_for_reader(integer), inner: ShownInner::None }
            }
            FieldClass::Structure(structure) => ShownField::of_structure(structure),
            FieldClass::Array(array) => {
                let element = ShownField::of(&array.element);
                ShownField { shown: element.shown, inner: ShownInner::Element(Box::new(element)) }
            }
            FieldClass::Variant(variant) => {
                let options = variant.options.iter();
                let options: Vec<_> = options
                    .map(|option| (option.name.clone(), ShownField::of(&option.class)))
                    .collect();
                let shown = options.is_empty() || options.iter().any(|(_, node)| node.shown);
                ShownField { shown, inner: ShownInner::Options(options) }
            }
            FieldClass::Optional(optional) => {
                let content = ShownField::of(&optional.class);
                ShownField { shown: content.shown, inner: ShownInner::Element(Box::new(content)) }
            }
            FieldClass::Real(_)
            | FieldClass::String
            | FieldClass::Text { .. }
            | FieldClass::Wide { .. }
            | FieldClass::Blob { .. } => ShownField { shown: true, inner: ShownInner::None },
        }
    }

    /// Returns the choice of all fields of a structure. A structure without members is shown; one whose members are all
    /// hidden is not.
    fn of_structure(structure: &Structure) -> ShownField {
        let members: Vec<ShownField> =
            structure.members.iter().map(|m| ShownField::of(&m.class)).collect();
        let shown = members.is_empty() || members.iter().any(|node| node.shown);
        ShownField { shown, inner: ShownInner::Members(members) }
    }

    /// Hides all members but those at these paths. Returns true if any is left.
    fn choose(&mut self, structure: &Structure, paths: &[&str]) -> bool {
        let ShownInner::Members(nodes) = &mut self.inner else { return false };
        for (member, node) in structure.members.iter().zip(nodes.iter_mut()) {
            if paths.contains(&member.name.as_str()) {
                continue;
            }
            let inner: Vec<&str> = paths
                .iter()
                .filter_map(|path| path.strip_prefix(member.name.as_str())?.strip_prefix('.'))
                .collect();
            node.shown &= match &member.class {
                FieldClass::Structure(structure) => node.choose(structure, &inner),
                _ => false,
            };
        }
        nodes.iter().any(|node| node.shown)
    }

    fn is_whole(&self) -> bool {
        self.shown
            && match &self.inner {
                ShownInner::None => true,
                ShownInner::Members(members) => members.iter().all(ShownField::is_whole),
                ShownInner::Element(element) => element.is_whole(),
                ShownInner::Options(options) => options.iter().all(|(_, node)| node.is_whole()),
            }
    }
}

/// Returns whether any field within a field is shown.
fn nodes_shown(inner: &ShownInner) -> bool {
    match inner {
        ShownInner::Members(members) => members.iter().any(|node| node.shown),
        _ => true,
    }
}

/// Returns the places of the fields that hold the lengths of a structure's members.
fn lengths(structure: &Structure) -> impl Iterator<Item = &Location> {
    structure.members.iter().filter_map(|member| match &member.class {
        FieldClass::Array(array) => place(&array.length),
        FieldClass::Text { length } => place(length),
        FieldClass::Wide { length: Some(length), .. } => place(length),
        FieldClass::Blob { length, .. } => place(length),
        _ => None,
    })
}

fn place(length: &Length) -> Option<&Location> {
    match length {
        Length::Dynamic(place) => Some(place),
        Length::Static(_) => None,
    }
}

/// Returns true for integers that only a reader of the format needs, such as sizes and the packet's times.
fn is_for_reader(integer: &Integer) -> bool {
    integer.role.is_some() || integer.clock.is_some()
}

/// The choice whether a part of a record is shown, and which of its fields are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShownPart {
    /// The part is not shown, not even as empty braces.
    Nothing,
    /// All fields are shown.
    Whole,
    /// Some fields are shown.
    Some(ShownField),
}

impl ShownPart {
    /// Returns the choice for a part that has this structure, if it has one. A copy of a program's stack, which has
    /// thousands of numbers, is shown only if the user names it.
    pub fn of(
        structure: Option<&Structure>,
        part: RecordPart,
        fields: Option<&FieldList>,
        trace: &Schema,
    ) -> ShownPart {
        let Some(structure) = structure else { return ShownPart::Nothing };
        let mut node = ShownField::of_structure(structure);
        if let ShownInner::Members(nodes) = &mut node.inner {
            let named = |name: &str| fields.is_some_and(|fields| fields.names(part, name));
            let has_copy = stack_copy::is_in(structure, trace);
            for (member, node) in structure.members.iter().zip(nodes) {
                let is_copy = has_copy && stack_copy::is_name(&member.name);
                node.shown &= !is_copy || named(&member.name);
            }
        }
        if let Some(fields) = fields.filter(|fields| !fields.has_whole(part)) {
            node.shown &= node.choose(structure, &fields.paths(part));
        }
        match node {
            node if !node.shown => ShownPart::Nothing,
            node if node.is_whole() => ShownPart::Whole,
            node => ShownPart::Some(node),
        }
    }

    /// Returns the choice for people: without fields that only hold another field's length, and without those named in
    /// `hidden`.
    pub fn brief(
        structure: Option<&Structure>,
        part: RecordPart,
        fields: Option<&FieldList>,
        hidden: &[&str],
        trace: &Schema,
    ) -> ShownPart {
        let shown = ShownPart::of(structure, part, fields, trace);
        let Some(structure) = structure else { return shown };
        let mut node = match shown {
            ShownPart::Nothing => return ShownPart::Nothing,
            ShownPart::Whole => ShownField::of_structure(structure),
            ShownPart::Some(node) => node,
        };
        let named = |name: &str| fields.is_some_and(|fields| fields.names(part, name));
        // Found once: a class may have tens of thousands of members.
        let of_part = lengths(structure).filter(|place| place.scope == scope(part));
        let lengths: HashSet<u32> = of_part.filter_map(|it| it.path.first().copied()).collect();
        if let ShownInner::Members(nodes) = &mut node.inner {
            for (index, (member, node)) in structure.members.iter().zip(nodes).enumerate() {
                let is_length = lengths.contains(&(index as u32));
                if (hidden.contains(&member.name.as_str()) || is_length) && !named(&member.name) {
                    node.shown = false;
                }
            }
            node.shown = nodes_shown(&node.inner);
        }
        match node {
            node if !node.shown => ShownPart::Nothing,
            node if node.is_whole() => ShownPart::Whole,
            node => ShownPart::Some(node),
        }
    }

    /// Returns the names of the members that are shown.
    pub fn names<'s>(&self, structure: &'s Structure) -> Vec<&'s str> {
        let names = structure.members.iter().map(|member| member.name.as_str());
        match self {
            ShownPart::Nothing => Vec::new(),
            ShownPart::Whole => names.collect(),
            ShownPart::Some(ShownField { inner: ShownInner::Members(nodes), .. }) => {
                names.zip(nodes).filter(|(_, node)| node.shown).map(|(name, _)| name).collect()
            }
            ShownPart::Some(_) => Vec::new(),
        }
    }
}

/// A visitor that passes only the chosen fields on to another visitor.
pub struct Masked<'n, 'v, V> {
    visitor: &'v mut V,
    /// The path of nodes to the present field, each with its next member or option.
    at: Vec<(&'n ShownField, usize)>,
    /// The number of open levels within a field that is not shown.
    hidden: usize,
}

impl<'n, 'v, V: Visit> Masked<'n, 'v, V> {
    /// Returns a filter for the fields of one part.
    pub fn new(node: &'n ShownField, visitor: &'v mut V) -> Self {
        Masked { visitor, at: vec![(node, 0)], hidden: 0 }
    }

    /// Moves on to the next field. Returns it if it is shown.
    fn next(&mut self) -> Option<&'n ShownField> {
        let (node, index) = self.at.last_mut()?;
        match &node.inner {
            ShownInner::None => None,
            ShownInner::Element(element) => Some(element),
            ShownInner::Members(members) => {
                *index += 1;
                members.get(*index - 1)
            }
            ShownInner::Options(options) => options.get(*index).map(|(_, node)| node),
        }
    }

    fn leaf(&mut self) -> Option<&mut V> {
        let shown = self.hidden == 0 && self.next().is_none_or(|node| node.shown);
        shown.then_some(&mut *self.visitor)
    }

    fn begin(&mut self, option: Option<&str>) -> Option<&mut V> {
        let next = if self.hidden == 0 { self.next() } else { None };
        let Some(node) = next.filter(|node| node.shown) else {
            self.hidden += 1;
            return None;
        };
        let index = match (&node.inner, option) {
            (ShownInner::Options(options), Some(option)) => {
                options.iter().position(|(name, _)| name == option).unwrap_or(usize::MAX)
            }
            _ => 0,
        };
        self.at.push((node, index));
        Some(self.visitor)
    }

    fn end(&mut self) -> Option<&mut V> {
        if self.hidden > 0 {
            self.hidden -= 1;
            return None;
        }
        self.at.pop();
        Some(self.visitor)
    }
}

impl<V: Visit> Visit for Masked<'_, '_, V> {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        if let Some(visitor) = self.leaf() {
            visitor.unsigned(field, value);
        }
    }

    fn signed(&mut self, field: &FieldInfo, value: i64) {
        if let Some(visitor) = self.leaf() {
            visitor.signed(field, value);
        }
    }

    fn real(&mut self, field: &FieldInfo, value: f64) {
        if let Some(visitor) = self.leaf() {
            visitor.real(field, value);
        }
    }

    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        if let Some(visitor) = self.leaf() {
            visitor.text(field, bytes);
        }
    }

    fn blob(&mut self, field: &FieldInfo, bytes: &[u8]) {
        if let Some(visitor) = self.leaf() {
            visitor.blob(field, bytes);
        }
    }

    fn begin_structure(&mut self, field: &FieldInfo) {
        if let Some(visitor) = self.begin(None) {
            visitor.begin_structure(field);
        }
    }

    fn end_structure(&mut self, field: &FieldInfo) {
        if let Some(visitor) = self.end() {
            visitor.end_structure(field);
        }
    }

    fn begin_array(&mut self, field: &FieldInfo, length: u64) {
        if let Some(visitor) = self.begin(None) {
            visitor.begin_array(field, length);
        }
    }

    fn end_array(&mut self, field: &FieldInfo) {
        if let Some(visitor) = self.end() {
            visitor.end_array(field);
        }
    }

    fn begin_variant(&mut self, field: &FieldInfo, option: &str) {
        if let Some(visitor) = self.begin(Some(option)) {
            visitor.begin_variant(field, option);
        }
    }

    fn end_variant(&mut self, field: &FieldInfo) {
        if let Some(visitor) = self.end() {
            visitor.end_variant(field);
        }
    }

    fn begin_optional(&mut self, field: &FieldInfo) {
        if let Some(visitor) = self.begin(None) {
            visitor.begin_optional(field);
        }
    }

    fn end_optional(&mut self, field: &FieldInfo) {
        if let Some(visitor) = self.end() {
            visitor.end_optional(field);
        }
    }

    fn absent(&mut self, field: &FieldInfo) {
        if let Some(visitor) = self.leaf() {
            visitor.absent(field);
        }
    }

    fn unread(&mut self, field: &FieldInfo) {
        if let Some(visitor) = self.leaf() {
            visitor.unread(field);
        }
    }
}

/// Returns the scope of a part's fields.
pub fn scope(part: RecordPart) -> Scope {
    match part {
        RecordPart::Packet => Scope::PacketContext,
        RecordPart::Common => Scope::CommonContext,
        RecordPart::Context => Scope::SpecificContext,
        RecordPart::Payload => Scope::Payload,
    }
}

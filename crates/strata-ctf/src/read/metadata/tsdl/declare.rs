//! Makes types from syntax: looks up names and checks numbers.

use super::parser::with_stars;
use super::scope::{TypeNames, ENTRY};
use super::syntax::{self, *};
use super::types::{LabelledInteger, NamedMembers, Reference, Type, TypeKind, TypeLength, FEW};
use super::values::{
    alignment, base, boolean, byte_order, each_once, encoding, ranged, TsdlResult,
};
use crate::flags;
use crate::read::metadata::error::{duplicate, too_deep, unknown, Fault, MetadataProblem};
use crate::read::metadata::heap::heap;
use crate::read::metadata::limits;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use strata_model::schema::{Integer, Label, Range, Real, Width};
use strata_model::{Base, ByteOrder};

/// The memory of a type, with its counters and the allocator's overhead \[byte\].
const TYPE: usize = size_of::<Type>() + 32;
/// Size of a field in [`NamedMembers::list`], which doubles as it grows, without the field's name \[byte\].
const FIELD: usize = 2 * size_of::<(Box<str>, Rc<Type>)>();

/// Makes types from their syntax.
pub(super) struct TypeMaker<'n> {
    pub names: &'n mut TypeNames,
    pub byte_order: ByteOrder,
}

impl TypeMaker<'_> {
    pub fn declare(&mut self, declaration: &Declaration<'_>) -> TsdlResult<()> {
        match declaration {
            Declaration::Alias { class, name, at } => {
                let class = self.shaped(class)?;
                self.names.declare(*at, name, class)
            }
            Declaration::Typedef { class, declarators } => {
                let base = self.base(class)?;
                for declarator in declarators {
                    let class = self.shape(class, &base, &declarator.shape, declarator.at)?;
                    self.names.declare(declarator.at, declarator.name, class)?;
                }
                Ok(())
            }
            Declaration::Type(class) => self.class(class).map(|_| ()),
        }
    }

    /// Makes a type with its stars and lengths.
    pub fn shaped(&mut self, shaped: &Shaped<'_>) -> TsdlResult<Rc<Type>> {
        let base = self.base(&shaped.class)?;
        self.shape(&shaped.class, &base, &shaped.shape, shaped.class.at)
    }

    /// Returns the type that the declarators share. With stars, the name is that of another type, so that an unknown
    /// name is an error only for a declarator without stars.
    fn base(&mut self, class: &WrittenType<'_>) -> TsdlResult<Option<Rc<Type>>> {
        match &class.kind {
            ClassKind::Named(name) => Ok(self.names.find(name).cloned()),
            _ => self.class(class).map(Some),
        }
    }

    fn shape(
        &mut self,
        class: &WrittenType<'_>,
        base: &Option<Rc<Type>>,
        shape: &DeclaratorShape<'_>,
        at: u32,
    ) -> TsdlResult<Rc<Type>> {
        let mut made = match (&class.kind, shape.stars, base) {
            (_, 0, Some(base)) => base.clone(),
            (ClassKind::Named(name), stars, _) => {
                let name = with_stars(Cow::Borrowed(name), stars);
                let found = self.names.find(&name).cloned();
                found.ok_or_else(|| unknown(class.at, "type", name))?
            }
            _ => return Err(unknown(at, "type", "pointer")),
        };
        for length in shape.lengths.iter().rev() {
            let length = match length {
                syntax::WrittenLength::Static(length) => TypeLength::Static(*length),
                syntax::WrittenLength::Dynamic(path) => TypeLength::Dynamic(self.reference(path)?),
            };
            made = self.made(at, made.depth, TypeKind::Array { length, element: made })?;
        }
        Ok(made)
    }

    fn class(&mut self, class: &WrittenType<'_>) -> TsdlResult<Rc<Type>> {
        let at = class.at;
        match &class.kind {
            ClassKind::Named(name) => {
                let found = self.names.find(name).cloned();
                found.ok_or_else(|| unknown(at, "type", name.as_ref()))
            }
            ClassKind::Integer(attributes) => {
                let kind = self.integer(at, attributes)?;
                self.made(at, 0, kind)
            }
            ClassKind::Real(attributes) => {
                let kind = self.real(at, attributes)?;
                self.made(at, 0, kind)
            }
            ClassKind::Text(attributes) => {
                for attribute in attributes {
                    if attribute.name == "encoding" {
                        encoding(&attribute.value)?;
                    }
                }
                self.made(at, 0, TypeKind::Text)
            }
            ClassKind::Structure { name, body, align } => {
                self.structure(at, *name, body.as_deref(), align.as_ref())
            }
            ClassKind::Variant { name, tag, body } => {
                let tag = tag.as_ref().map(|path| self.reference(path).map(Rc::new)).transpose()?;
                self.variant(at, *name, tag, body.as_deref())
            }
            ClassKind::Enumeration { name, container, body } => {
                self.enumeration(at, *name, container.as_deref(), body.as_deref())
            }
        }
    }

    fn structure(
        &mut self,
        at: u32,
        name: Option<&str>,
        body: Option<&[MemberLine<'_>]>,
        align: Option<&AttributeValue<'_>>,
    ) -> TsdlResult<Rc<Type>> {
        let name = name.map(|name| format!("struct {name}"));
        let Some(body) = body else { return self.named(at, &name) };
        let align = align.map_or(Ok(1), alignment)?;
        let fields = self.fields(body)?;
        let made = self.made(at, fields.depth(), TypeKind::Structure { align, fields })?;
        self.keep(at, name, made)
    }

    fn variant(
        &mut self,
        at: u32,
        name: Option<&str>,
        tag: Option<Rc<Reference>>,
        body: Option<&[MemberLine<'_>]>,
    ) -> TsdlResult<Rc<Type>> {
        let name = name.map(|name| format!("variant {name}"));
        if let Some(body) = body {
            let options = self.fields(body)?;
            if options.list.is_empty() {
                return Err(Fault::new(
                    at,
                    MetadataProblem::Missing { what: "options", of: "the variant" },
                ));
            }
            let depth = options.depth();
            let made =
                self.made(at, depth, TypeKind::Variant { tag, options: Rc::new(options) })?;
            return self.keep(at, name, made);
        }
        let found = self.named(at, &name)?;
        match (&found.kind, tag) {
            (TypeKind::Variant { options, .. }, Some(tag)) => {
                let kind = TypeKind::Variant { tag: Some(tag), options: options.clone() };
                self.made(at, found.depth - 1, kind)
            }
            _ => Ok(found),
        }
    }

    fn enumeration(
        &mut self,
        at: u32,
        name: Option<&str>,
        container: Option<&WrittenType<'_>>,
        body: Option<&[Enumerator<'_>]>,
    ) -> TsdlResult<Rc<Type>> {
        let flags = name.and_then(flags::of_tag);
        let name = name.map(|name| format!("enum {name}"));
        let Some(body) = body else { return self.named(at, &name) };
        let container = match container {
            Some(class) => self.class(class)?,
            None => {
                let int = self.names.find("int").cloned();
                int.ok_or_else(|| {
                    unknown(at, "the container of an enumeration without one, type", "int")
                })?
            }
        };
        let TypeKind::Integer { class, text } = &container.kind else {
            let found = "another type".to_owned();
            return Err(Fault::value(at, "the container of an enumeration", found, "an integer"));
        };
        let labels = self.labels(class, body)?;
        let class = Integer { labels: Some(labels), flags, ..class.clone() };
        let made = TypeKind::Enumeration(LabelledInteger::new(class, *text));
        let made = self.made(at, 0, made)?;
        self.keep(at, name, made)
    }

    fn reference(&mut self, path: &DottedPath<'_>) -> TsdlResult<Reference> {
        let names = path.parts.iter().map(|part| size_of::<Box<str>>() + heap(part.len()));
        self.names.count_declared(path.at, TYPE + names.sum::<usize>())?;
        let parts = path.parts.iter().map(|part| part.as_ref().into()).collect();
        Ok(Reference { at: path.at, parts })
    }

    /// Makes a type whose content is nested `below` levels deep.
    fn made(&mut self, at: u32, below: u32, kind: TypeKind) -> TsdlResult<Rc<Type>> {
        let depth = below.saturating_add(1);
        if depth > limits::DEPTH {
            return Err(too_deep(at, depth));
        }
        self.names.count_declared(at, TYPE)?;
        Ok(Rc::new(Type { depth, kind }))
    }

    fn named(&self, at: u32, name: &Option<String>) -> TsdlResult<Rc<Type>> {
        let name = name.as_deref().unwrap_or_default();
        self.names.find(name).cloned().ok_or_else(|| unknown(at, "type", name))
    }

    fn keep(&mut self, at: u32, name: Option<String>, made: Rc<Type>) -> TsdlResult<Rc<Type>> {
        if let Some(name) = name {
            self.names.declare(at, &name, made.clone())?;
        }
        Ok(made)
    }

    /// Makes the members of a body, in a scope of its own.
    fn fields(&mut self, body: &[MemberLine<'_>]) -> TsdlResult<NamedMembers> {
        let (byte_order, mut fields) = (self.byte_order, NamedMembers::default());
        self.names.scoped(|names| {
            let mut types = TypeMaker { names, byte_order };
            let mut taken: HashSet<Box<str>> = HashSet::new(); // unless there are few
            for item in body {
                let (class, declarators) = match item {
                    MemberLine::Fields { class, declarators } => (class, declarators),
                    MemberLine::Declaration(declaration) => {
                        types.declare(declaration)?;
                        continue;
                    }
                };
                let base = types.base(class)?;
                for declarator in declarators {
                    let made = types.shape(class, &base, &declarator.shape, declarator.at)?;
                    let few = fields.list.len() <= FEW;
                    if !few && taken.is_empty() {
                        taken.extend(fields.list.iter().map(|(name, _)| name.clone()));
                    }
                    if few && fields.find(declarator.name).is_some()
                        || !few && taken.contains(declarator.name)
                    {
                        return Err(duplicate(declarator.at, "field", declarator.name));
                    }
                    let text = heap(declarator.name.len());
                    let found = if few { 0 } else { 2 * (ENTRY + text) }; // in `taken` and the index
                    let bytes = FIELD + text + found;
                    types.names.count_declared(declarator.at, bytes)?;
                    if !few {
                        taken.insert(declarator.name.into());
                    }
                    fields.list.push((declarator.name.into(), made));
                }
            }
            Ok(())
        })?;
        Ok(fields)
    }

    fn integer(&self, at: u32, attributes: &[Attribute<'_>]) -> TsdlResult<TypeKind> {
        let (mut bits, mut align, mut text) = (None, None, false);
        let mut class = Integer {
            width: Width::Bits(8),
            align: 1,
            signed: false,
            byte_order: self.byte_order,
            base: Base::Ten,
            is_bool: false,
            clock: None,
            role: None,
            labels: None,
            flags: None,
            is_bit_map: false,
            is_reversed: false,
        };
        each_once(attributes)?;
        for Attribute { name, value, .. } in attributes {
            match name.as_ref() {
                "size" => {
                    bits = Some(ranged(value, "an integer's size", 1, 64, "1 to 64 bits")? as u8)
                }
                "align" => align = Some(alignment(value)?),
                "signed" => class.signed = boolean(value)?,
                "base" => class.base = base(value)?,
                "byte_order" => class.byte_order = byte_order(value)?.unwrap_or(self.byte_order),
                "encoding" => text = encoding(value)?,
                "map" => class.clock = self.clock(value)?,
                _ => (), // may come from a later version
            }
        }
        let Some(bits) = bits else {
            return Err(Fault::new(
                at,
                MetadataProblem::Missing { what: "size", of: "the integer" },
            ));
        };
        class.width = Width::Bits(bits);
        class.align = align.unwrap_or(if bits % 8 == 0 { 8 } else { 1 });
        let text = text && bits == 8 && class.align == 8;
        Ok(TypeKind::Integer { class, text })
    }

    /// Reads a reference to a clock, `clock.NAME.value`. References in another form are ignored, as by other tools.
    fn clock(&self, value: &AttributeValue<'_>) -> TsdlResult<Option<usize>> {
        let ValueKind::Path(path) = &value.what else { return Ok(None) };
        let name = match path.parts.as_slice() {
            [clock, name] if clock == "clock" => name,
            [clock, name, last] if clock == "clock" && last == "value" => name,
            _ => return Ok(None),
        };
        let index = self.names.clocks.get(name.as_ref()).copied();
        index.map(Some).ok_or_else(|| unknown(value.at, "clock", name.as_ref()))
    }

    fn real(&self, at: u32, attributes: &[Attribute<'_>]) -> TsdlResult<TypeKind> {
        let (mut exponent, mut mantissa, mut align) = (None, None, None);
        let mut order = self.byte_order;
        each_once(attributes)?;
        for Attribute { name, value, .. } in attributes {
            match name.as_ref() {
                "exp_dig" => exponent = Some(ranged(value, "exp_dig", 1, 64, "8 or 11")?),
                "mant_dig" => mantissa = Some(ranged(value, "mant_dig", 1, 64, "24 or 53")?),
                "align" => align = Some(alignment(value)?),
                "byte_order" => order = byte_order(value)?.unwrap_or(self.byte_order),
                _ => (),
            }
        }
        let of = "the floating-point number";
        let missing = |what| Fault::new(at, MetadataProblem::Missing { what, of });
        let exponent = exponent.ok_or_else(|| missing("exp_dig"))?;
        let mantissa = mantissa.ok_or_else(|| missing("mant_dig"))?;
        let bits = match (exponent, mantissa) {
            (8, 24) => 32,
            (11, 53) => 64,
            _ => {
                let found = format!("{exponent} and {mantissa}");
                let expected = "8 and 24, or 11 and 53";
                return Err(Fault::value(at, "exp_dig and mant_dig", found, expected));
            }
        };
        Ok(TypeKind::Real(Real {
            bits,
            align: align.unwrap_or(8),
            byte_order: order,
            is_reversed: false,
        }))
    }

    /// Makes the labels of an enumeration. Equal names are joined to one label with several ranges. Labels stay in the
    /// schema, and count as its memory.
    fn labels(&mut self, container: &Integer, body: &[Enumerator<'_>]) -> TsdlResult<Arc<[Label]>> {
        let mut labels: Vec<Label> = Vec::new();
        let mut index: HashMap<&str, usize> = HashMap::new();
        let mut next = 0;
        for Enumerator { at, label, from, to } in body {
            let written = (*from, *to);
            let from = from.map_or(Ok(next), |value| labelled(*at, value, container.signed))?;
            let to = to.map_or(Ok(from), |value| labelled(*at, value, container.signed))?;
            next = to + 1; // of 65 bits at most
            if from > to {
                let (found, expected) = match written {
                    (Some(from), Some(to)) if from <= to => {
                        let values = match container.signed {
                            true => "values of a signed integer",
                            false => "values of an unsigned integer",
                        };
                        (format!("{from} ... {to}"), values)
                    }
                    _ => (format!("{from} ... {to}"), "the lower value first"),
                };
                return Err(Fault::value(*at, "a label's range", found, expected));
            }
            let range = Range { from, to };
            match index.get(label.as_ref()).and_then(|&index| labels.get_mut(index)) {
                Some(label) => {
                    self.names.count(*at, 2 * size_of::<Range>())?;
                    label.ranges.push(range);
                }
                None => {
                    let own = size_of::<Label>() + heap(label.len()) + heap(size_of::<Range>());
                    self.names.count(*at, own)?;
                    if labels.len() >= FEW {
                        // If the enumeration is a tag, its index has the label as well.
                        self.names.count_declared(*at, ENTRY + heap(label.len()))?;
                    }
                    index.insert(label.as_ref(), labels.len());
                    labels.push(Label { name: label.clone().into_owned(), ranges: vec![range] });
                }
            }
        }
        Ok(labels.into())
    }
}

/// Checks a label's value. A value written with the other sign has the same 64 bits.
fn labelled(at: u32, value: i128, signed: bool) -> TsdlResult<i128> {
    if value < i128::from(i64::MIN) || value > i128::from(u64::MAX) {
        return Err(Fault::value(at, "a label's value", value.to_string(), "a value of 64 bits"));
    }
    Ok(if signed { i128::from(value as i64) } else { i128::from(value as u64) })
}

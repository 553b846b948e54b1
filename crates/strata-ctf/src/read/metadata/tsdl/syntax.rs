//! The syntax of one block, before names are resolved. Positions count from the begin of the whole text \[byte\].

use std::borrow::Cow;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DottedPath<'t> {
    pub at: u32,
    pub parts: Vec<Cow<'t, str>>,
}

impl DottedPath<'_> {
    pub fn show(&self) -> String {
        self.parts.join(".")
    }
}

/// The value of an attribute, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AttributeValue<'t> {
    pub at: u32,
    pub what: ValueKind<'t>,
}

impl AttributeValue<'_> {
    /// Returns the value for a message, nearly as it was written.
    pub fn show(&self) -> String {
        const SHOWN: usize = 256; // characters of a string
        match &self.what {
            ValueKind::Number(number) => number.to_string(),
            ValueKind::Text(text) => text.chars().take(SHOWN).collect(),
            ValueKind::Word(word) => (*word).to_owned(),
            ValueKind::Path(path) => path.show(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueKind<'t> {
    /// An integer from -(2^64 - 1) to 2^64 - 1.
    Number(i128),
    Text(Cow<'t, str>),
    /// A name without dots.
    Word(&'t str),
    Path(DottedPath<'t>),
}

/// An attribute: `name = value;`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attribute<'t> {
    pub at: u32,
    pub name: Cow<'t, str>,
    pub value: AttributeValue<'t>,
}

/// A line of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Statement<'t> {
    Attribute(Attribute<'t>),
    /// A definition of a part's type: `name := type;`.
    Definition {
        at: u32,
        name: Cow<'t, str>,
        class: Shaped<'t>,
    },
    Declaration(Declaration<'t>),
}

/// A declaration, which gives a type a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Declaration<'t> {
    /// `typealias type := name;`
    Alias { class: Shaped<'t>, name: Cow<'t, str>, at: u32 },
    /// `typedef type name, name[2];`
    Typedef { class: WrittenType<'t>, declarators: Vec<Declarator<'t>> },
    /// A named type: `struct name { … };` and similar.
    Type(WrittenType<'t>),
}

/// A type as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WrittenType<'t> {
    pub at: u32,
    pub kind: ClassKind<'t>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClassKind<'t> {
    /// A type's name, its words separated by one space.
    Named(Cow<'t, str>),
    Integer(Vec<Attribute<'t>>),
    Real(Vec<Attribute<'t>>),
    Text(Vec<Attribute<'t>>),
    Structure {
        name: Option<&'t str>,
        body: Option<Vec<MemberLine<'t>>>,
        align: Option<AttributeValue<'t>>,
    },
    Variant {
        name: Option<&'t str>,
        tag: Option<DottedPath<'t>>,
        body: Option<Vec<MemberLine<'t>>>,
    },
    Enumeration {
        name: Option<&'t str>,
        container: Option<Box<WrittenType<'t>>>,
        body: Option<Vec<Enumerator<'t>>>,
    },
}

/// A line of a structure or a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MemberLine<'t> {
    Fields { class: WrittenType<'t>, declarators: Vec<Declarator<'t>> },
    Declaration(Declaration<'t>),
}

/// A declared name with its stars and lengths: `**name[2][length]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Declarator<'t> {
    pub at: u32,
    pub name: &'t str,
    pub shape: DeclaratorShape<'t>,
}

/// The stars before and the lengths after a declared name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeclaratorShape<'t> {
    pub stars: u32,
    /// Lengths of arrays, the outermost first, as in C.
    pub lengths: Vec<WrittenLength<'t>>,
}

/// A type with stars and lengths, but without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shaped<'t> {
    pub class: WrittenType<'t>,
    pub shape: DeclaratorShape<'t>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WrittenLength<'t> {
    Static(u64),
    Dynamic(DottedPath<'t>),
}

/// One label of an enumeration: `label = 1 ... 3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Enumerator<'t> {
    pub at: u32,
    pub label: Cow<'t, str>,
    pub from: Option<i128>,
    pub to: Option<i128>,
}

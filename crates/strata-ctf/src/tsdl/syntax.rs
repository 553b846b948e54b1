//! What one block says, before names mean anything. Positions are of the whole text \[byte\].

use std::borrow::Cow;

/// Names with dots between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path<'t> {
    pub at: u32,
    pub parts: Vec<Cow<'t, str>>,
}

impl Path<'_> {
    pub fn show(&self) -> String {
        self.parts.join(".")
    }
}

/// What stands behind `=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value<'t> {
    pub at: u32,
    pub what: ValueKind<'t>,
}

impl Value<'_> {
    /// As it was written, more or less, for a message.
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
    /// From -(2^64 - 1) to 2^64 - 1.
    Number(i128),
    Text(Cow<'t, str>),
    /// A name without dots.
    Word(&'t str),
    Path(Path<'t>),
}

/// `name = value;`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attribute<'t> {
    pub at: u32,
    pub name: Cow<'t, str>,
    pub value: Value<'t>,
}

/// A line of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Statement<'t> {
    Attribute(Attribute<'t>),
    /// `name := type;`
    Definition {
        at: u32,
        name: Cow<'t, str>,
        class: Shaped<'t>,
    },
    Declaration(Declaration<'t>),
}

/// A type gets a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Declaration<'t> {
    /// `typealias type := name;`
    Alias { class: Shaped<'t>, name: Cow<'t, str>, at: u32 },
    /// `typedef type name, name[2];`
    Typedef { class: Class<'t>, declarators: Vec<Declarator<'t>> },
    /// `struct name { … };` and the like.
    Type(Class<'t>),
}

/// A type as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Class<'t> {
    pub at: u32,
    pub kind: ClassKind<'t>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClassKind<'t> {
    /// Words with one space between them.
    Named(Cow<'t, str>),
    Integer(Vec<Attribute<'t>>),
    Real(Vec<Attribute<'t>>),
    Text(Vec<Attribute<'t>>),
    Structure {
        name: Option<&'t str>,
        body: Option<Vec<Item<'t>>>,
        align: Option<Value<'t>>,
    },
    Variant {
        name: Option<&'t str>,
        tag: Option<Path<'t>>,
        body: Option<Vec<Item<'t>>>,
    },
    Enumeration {
        name: Option<&'t str>,
        container: Option<Box<Class<'t>>>,
        body: Option<Vec<Enumerator<'t>>>,
    },
}

/// A line of a structure or a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item<'t> {
    Fields { class: Class<'t>, declarators: Vec<Declarator<'t>> },
    Declaration(Declaration<'t>),
}

/// `**name[2][length]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Declarator<'t> {
    pub at: u32,
    pub name: &'t str,
    pub shape: Shape<'t>,
}

/// What is around a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape<'t> {
    pub stars: u32,
    /// The outermost first, as in C.
    pub lengths: Vec<Length<'t>>,
}

/// A type without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shaped<'t> {
    pub class: Class<'t>,
    pub shape: Shape<'t>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Length<'t> {
    Static(u64),
    Dynamic(Path<'t>),
}

/// `label = 1 ... 3`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Enumerator<'t> {
    pub at: u32,
    pub label: Cow<'t, str>,
    pub from: Option<i128>,
    pub to: Option<i128>,
}

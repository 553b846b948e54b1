//! Types as they are declared: numbers are checked, references are not resolved yet.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::rc::Rc;
use strata_model::schema::{Integer, Range, Real};

/// A type. All fields that use it share one copy.
#[derive(Debug)]
pub(super) struct Type {
    /// Nesting depth of the types, including this one.
    pub depth: u32,
    pub kind: TypeKind,
}

#[derive(Debug)]
pub(super) enum TypeKind {
    /// An integer. Arrays of it are text if `text` is true.
    Integer {
        class: Integer,
        text: bool,
    },
    Enumeration(LabelledInteger),
    Real(Real),
    Text,
    Structure {
        align: u32,
        fields: NamedMembers,
    },
    Variant {
        tag: Option<Rc<Reference>>,
        options: Rc<NamedMembers>,
    },
    Array {
        length: TypeLength,
        element: Rc<Type>,
    },
}

impl Type {
    /// Returns whether arrays of this type are text.
    pub fn is_text(&self) -> bool {
        match &self.kind {
            TypeKind::Integer { text, .. } => *text,
            TypeKind::Enumeration(enumeration) => enumeration.text,
            _ => false,
        }
    }

    /// Returns whether both types have the same description. Types that would take long to compare count as different.
    pub fn is_same(&self, other: &Type) -> bool {
        self.is_same_within(other, &Cell::new(0))
    }

    fn is_same_within(&self, other: &Type, steps: &Cell<u32>) -> bool {
        const STEPS: u32 = 1 << 12;
        steps.set(steps.get() + 1);
        if steps.get() > STEPS {
            return false;
        }
        match (&self.kind, &other.kind) {
            (TypeKind::Integer { class, text }, TypeKind::Integer { class: it, text: its }) => {
                (class, text) == (it, its)
            }
            (TypeKind::Enumeration(one), TypeKind::Enumeration(it)) => {
                (&one.class, one.text) == (&it.class, it.text)
            }
            (TypeKind::Real(one), TypeKind::Real(it)) => one == it,
            (TypeKind::Text, TypeKind::Text) => true,
            (
                TypeKind::Structure { align, fields },
                TypeKind::Structure { align: its, fields: them },
            ) => align == its && fields.is_same(them, steps),
            (TypeKind::Variant { tag, options }, TypeKind::Variant { tag: its, options: them }) => {
                let parts = |tag: &Option<Rc<Reference>>| tag.as_ref().map(|tag| tag.parts.clone());
                parts(tag) == parts(its) && options.is_same(them, steps)
            }
            (
                TypeKind::Array { length, element },
                TypeKind::Array { length: its, element: one },
            ) => length.is_same(its) && element.is_same_within(one, steps),
            _ => false,
        }
    }
}

impl TypeLength {
    fn is_same(&self, other: &TypeLength) -> bool {
        match (self, other) {
            (TypeLength::Static(one), TypeLength::Static(it)) => one == it,
            (TypeLength::Dynamic(one), TypeLength::Dynamic(it)) => one.parts == it.parts,
            _ => false,
        }
    }
}

#[derive(Debug)]
pub(super) enum TypeLength {
    Static(u64),
    Dynamic(Reference),
}

/// The names that lead to a field, as they are written.
#[derive(Debug)]
pub(super) struct Reference {
    pub at: u32,
    pub parts: Vec<Box<str>>,
}

/// An integer with labels.
#[derive(Debug)]
pub(super) struct LabelledInteger {
    pub class: Integer,
    /// True if arrays of the integer are text.
    pub text: bool,
    index: OnceCell<HashMap<String, usize>>,
}

/// The greatest number of names that are searched one by one; more names are found by a hash table.
pub(super) const FEW: usize = 16;

impl LabelledInteger {
    /// Makes a labelled integer from a class that has its labels already.
    pub fn new(class: Integer, text: bool) -> LabelledInteger {
        LabelledInteger { class, text, index: OnceCell::new() }
    }

    /// Returns the values of a label.
    pub fn ranges(&self, label: &str) -> &[Range] {
        let labels = self.class.labels.as_deref().unwrap_or_default();
        let index = if labels.len() <= FEW {
            labels.iter().position(|candidate| candidate.name == label)
        } else {
            let all =
                || labels.iter().enumerate().map(|(index, label)| (label.name.clone(), index));
            self.index.get_or_init(|| all().collect()).get(label).copied()
        };
        index.and_then(|index| labels.get(index)).map_or(&[], |label| &label.ranges)
    }
}

/// Members of a structure or options of a variant.
#[derive(Debug, Default)]
pub(super) struct NamedMembers {
    /// Members with their names as they are written, each of which occurs once.
    pub list: Vec<(Box<str>, Rc<Type>)>,
    index: OnceCell<HashMap<Box<str>, usize>>,
}

impl NamedMembers {
    pub fn find(&self, name: &str) -> Option<usize> {
        if self.list.len() <= FEW {
            return self.list.iter().position(|(candidate, _)| candidate.as_ref() == name);
        }
        let all = || self.list.iter().enumerate().map(|(index, (name, _))| (name.clone(), index));
        self.index.get_or_init(|| all().collect()).get(name).copied()
    }

    fn is_same(&self, other: &NamedMembers, steps: &Cell<u32>) -> bool {
        self.list.len() == other.list.len()
            && self
                .list
                .iter()
                .zip(&other.list)
                .all(|((name, class), (its, it))| name == its && class.is_same_within(it, steps))
    }

    /// Returns the greatest nesting depth of the members' types.
    pub fn depth(&self) -> u32 {
        self.list.iter().map(|(_, class)| class.depth).max().unwrap_or(0)
    }
}

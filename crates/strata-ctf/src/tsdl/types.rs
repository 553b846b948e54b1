//! Types, as they are declared: numbers are checked, references stay as they are written.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;
use strata_model::schema::{Integer, Range, Real};

/// A type, shared by all that use it.
#[derive(Debug)]
pub(super) struct Type {
    /// Types within each other, this one included.
    pub depth: u32,
    pub kind: TypeKind,
}

#[derive(Debug)]
pub(super) enum TypeKind {
    /// `text`: its arrays are text.
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
    /// Whether arrays of it are text.
    pub fn is_text(&self) -> bool {
        match &self.kind {
            TypeKind::Integer { text, .. } => *text,
            TypeKind::Enumeration(enumeration) => enumeration.text,
            _ => false,
        }
    }
}

#[derive(Debug)]
pub(super) enum TypeLength {
    Static(u64),
    Dynamic(Reference),
}

/// Names that lead to a field, as they are written.
#[derive(Debug)]
pub(super) struct Reference {
    pub at: u32,
    pub parts: Vec<Box<str>>,
}

/// An integer with labels.
#[derive(Debug)]
pub(super) struct LabelledInteger {
    /// Its labels are there.
    pub class: Integer,
    /// Its arrays are text.
    pub text: bool,
    index: OnceCell<HashMap<String, usize>>,
}

/// Names and what they mean, few or many: more than this are found by hash.
pub(super) const FEW: usize = 16;

impl LabelledInteger {
    /// Of an integer that has its labels.
    pub fn new(class: Integer, text: bool) -> LabelledInteger {
        LabelledInteger { class, text, index: OnceCell::new() }
    }

    /// The values of a label.
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
    /// Names as they are written: no two are the same.
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

    /// Types within each other.
    pub fn depth(&self) -> u32 {
        self.list.iter().map(|(_, class)| class.depth).max().unwrap_or(0)
    }
}

//! What is known of event records before there are any: which fields they have, and of what kind.

use std::sync::Arc;

use crate::expr::{Path, PathStep, Root};
use crate::lower::IntegerSpan;
use crate::number::{GREATEST, LEAST};

/// What is known of one kind of event records.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// The event's name.
    pub name: String,
    /// Its log level.
    pub loglevel: Option<i64>,
    /// Whether packets say which CPU they are of.
    pub cpu: bool,
    /// All its fields, those of its contexts and headers, and what is in them, in the order of
    /// [`Root::Any`].
    pub fields: Vec<ClassField>,
}

/// A field of a [`Class`].
#[derive(Clone, Debug)]
pub struct ClassField {
    /// Where it is; never [`Root::Any`].
    pub root: Root,
    /// Its name from there: members with `.` between them, `[]` for any element of an array.
    pub path: String,
    /// What it is.
    pub kind: ClassFieldKind,
}

/// What a field is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassFieldKind {
    /// An integer or a truth value, no less than the first and no greater than the last.
    Integer(IntegerSpan),
    /// An integer with labels.
    Enumeration(Arc<[String]>),
    /// A floating-point number.
    Real,
    /// Text.
    Text,
    /// A structure, an array, bytes.
    Other,
}

impl ClassFieldKind {
    /// An integer of which nothing more is known.
    pub const INTEGER: ClassFieldKind = ClassFieldKind::Integer((LEAST, GREATEST));

    /// An integer of so many bits, in two's complement if it is signed.
    #[must_use]
    pub fn integer(bits: u32, signed: bool) -> ClassFieldKind {
        let bits = bits.clamp(1, 64);
        ClassFieldKind::Integer(match signed {
            true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            false => (0, (1 << bits) - 1),
        })
    }
}

impl Class {
    /// The fields that the path may be of a record, the first one first: one that is optional hides none.
    fn all<'c, 'k>(
        &'c self,
        path: &'k Path,
        key: &'k str,
    ) -> impl Iterator<Item = &'c ClassFieldKind> + use<'c, 'k> {
        let is = move |field: &&ClassField| {
            (path.root == Root::Any || path.root == field.root) && field.path == key
        };
        self.fields.iter().filter(is).map(|field| &field.kind)
    }

    pub(crate) fn find(&self, path: &Path, key: &str) -> Option<&ClassFieldKind> {
        self.all(path, key).next()
    }

    /// Between which integers it is, if it is an integer wherever it is; `None`: it is not, or not there.
    pub(crate) fn integers(&self, path: &Path, key: &str) -> Option<IntegerSpan> {
        let mut all = None;
        for kind in self.all(path, key) {
            let ClassFieldKind::Integer(one) = kind else { return None };
            all = Some(hull(all, *one));
        }
        all
    }

    /// Is it a floating-point number wherever it is?
    pub(crate) fn is_real(&self, path: &Path, key: &str) -> bool {
        let mut kinds = self.all(path, key).peekable();
        kinds.peek().is_some() && kinds.all(|kind| *kind == ClassFieldKind::Real)
    }
}

/// From the least to the greatest of both.
pub(crate) fn hull(known: Option<IntegerSpan>, one: IntegerSpan) -> IntegerSpan {
    known.map_or(one, |known| (known.0.min(one.0), known.1.max(one.1)))
}

/// The path as [`ClassField::path`] has it.
pub(crate) fn key(path: &Path) -> String {
    let mut key = String::new();
    for step in &path.steps {
        match step {
            PathStep::Member(name) if key.is_empty() => key.push_str(name),
            PathStep::Member(name) => {
                key.push('.');
                key.push_str(name);
            }
            PathStep::Index(_) => key.push_str("[]"),
        }
    }
    key
}

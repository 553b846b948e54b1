//! Descriptions of event records: their fields and kinds, before any record is read.

use std::sync::Arc;

use crate::expr::{Path, PathStep, Root};
use crate::lower::IntegerSpan;
use crate::number::{GREATEST, LEAST};

/// The description of one kind of event records.
#[derive(Clone, Debug, Default)]
pub struct Class {
    /// Name of the event.
    pub name: String,
    /// Log level of the event.
    pub loglevel: Option<i64>,
    /// True if packets carry their CPU.
    pub cpu: bool,
    /// All fields of the class, including nested fields and those of contexts and headers, in the order of
    /// [`Root::Any`].
    pub fields: Vec<ClassField>,
}

/// A field of a [`Class`].
#[derive(Clone, Debug)]
pub struct ClassField {
    /// Part of the record that has the field; never [`Root::Any`].
    pub root: Root,
    /// Path of the field below the root: members with `.` between them, `[]` for any element of an array.
    pub path: String,
    /// Kind of the field.
    pub kind: ClassFieldKind,
}

/// Kind of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassFieldKind {
    /// An integer or a truth value, with the least and the greatest value.
    Integer(IntegerSpan),
    /// An integer with labels.
    Enumeration(Arc<[String]>),
    /// A floating-point number, in any precision.
    Real,
    /// A text, in any encoding.
    Text,
    /// A structure, an array or bytes.
    Other,
}

impl ClassFieldKind {
    /// The kind of an integer about which nothing else is known.
    pub const INTEGER: ClassFieldKind = ClassFieldKind::Integer((LEAST, GREATEST));

    /// Returns the kind of an integer of `bits` bits, in two's complement if it is signed.
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
    /// Returns the kinds of all fields to which the path may lead in a record, in the order of preference: a preferred
    /// field may be absent in some records.
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

    /// Returns the span of the field's values; `None` if it is absent, or not an integer wherever it occurs.
    pub(crate) fn integers(&self, path: &Path, key: &str) -> Option<IntegerSpan> {
        let mut all = None;
        for kind in self.all(path, key) {
            let ClassFieldKind::Integer(one) = kind else { return None };
            all = Some(hull(all, *one));
        }
        all
    }

    /// Returns whether the field is a floating-point number wherever it occurs.
    pub(crate) fn is_real(&self, path: &Path, key: &str) -> bool {
        let mut kinds = self.all(path, key).peekable();
        kinds.peek().is_some() && kinds.all(|kind| *kind == ClassFieldKind::Real)
    }
}

/// Returns the smallest span that contains both.
pub(crate) fn hull(known: Option<IntegerSpan>, one: IntegerSpan) -> IntegerSpan {
    known.map_or(one, |known| (known.0.min(one.0), known.1.max(one.1)))
}

/// Formats the path as [`ClassField::path`] has it.
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

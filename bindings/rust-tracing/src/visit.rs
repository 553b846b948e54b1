//! Values of one event of `tracing`, in the order of its callsite's fields.

use std::fmt;
use std::fmt::Write as _;

use strata_events::{FieldType, Words};
use tracing_core::field::{Field, Visit};
use tracing_core::Metadata;

/// `tracing` allows no more fields than this.
const FIELDS_MAX: usize = 32;

/// A value as it was given.
#[derive(Clone, Copy, Debug)]
enum Value {
    Absent,
    Signed(i64),
    Unsigned(u64),
    Real(f64),
    Truth(bool),
    /// A part of [`Values::texts`].
    Text(usize, usize),
}

/// The values of one event or span.
pub(crate) struct Values {
    values: [Value; FIELDS_MAX],
    nr: usize,
    /// All texts, one behind the other: what a visitor is given it may not keep.
    texts: String,
}

impl Values {
    /// Makes a list in which all fields are absent.
    pub fn of(metadata: &Metadata<'_>) -> Values {
        let nr = metadata.fields().len().min(FIELDS_MAX);
        Values { values: [Value::Absent; FIELDS_MAX], nr, texts: String::new() }
    }

    fn put(&mut self, field: &Field, value: Value) {
        if let Some(place) = self.values.get_mut(field.index()) {
            *place = value;
        }
    }

    /// Returns the types of the values; a field that is absent is taken for a text.
    pub fn types(&self) -> Vec<FieldType> {
        let of = |value: &Value| match value {
            Value::Absent | Value::Text(..) => FieldType::TEXT,
            Value::Signed(_) => FieldType::I64,
            Value::Unsigned(_) => FieldType::U64,
            Value::Real(_) => FieldType::F64,
            Value::Truth(_) => FieldType::BOOL,
        };
        self.values.iter().take(self.nr).map(of).collect()
    }
}

impl Values {
    /// Adds the values to those of a record whose fields have these types.
    pub fn push_to<'v>(&'v self, types: &[FieldType], words: &mut Words<'v>) {
        for (value, &wanted) in self.values.iter().zip(types) {
            if wanted == FieldType::TEXT {
                let text = match *value {
                    Value::Text(begin, end) => self.texts.get(begin..end).unwrap_or_default(),
                    _ => "",
                };
                words.push(text);
            } else if wanted == FieldType::F64 {
                words.push_scalar(match *value {
                    Value::Real(value) => value,
                    Value::Signed(value) => value as f64,
                    Value::Unsigned(value) => value as f64,
                    _ => 0.0,
                });
            } else {
                words.push_scalar(match *value {
                    Value::Signed(value) => value as u64,
                    Value::Unsigned(value) => value,
                    Value::Truth(value) => value.into(),
                    Value::Real(_) | Value::Absent | Value::Text(..) => 0,
                });
            }
        }
    }
}

impl Visit for Values {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::Real(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Signed(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::Unsigned(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Truth(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let begin = self.texts.len();
        self.texts.push_str(value);
        self.put(field, Value::Text(begin, self.texts.len()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let begin = self.texts.len();
        // A value whose own code fails is recorded as far as it came.
        let _ = write!(self.texts, "{value:?}");
        self.put(field, Value::Text(begin, self.texts.len()));
    }
}

//! Shows fields as text, with the paths that find them.

use std::fmt;

use crate::model::schema::Scope;
use crate::read::decode::{DecodeState, RecordPlace, RecordView};
use crate::read::event_class::EventClass;
use crate::read::value::Value;
use crate::read::visit::{FieldInfo, Visit};

/// A field that was visited.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The field's path in the form that [`EventClass::find_in`] takes.
    pub path: String,
    pub what: String,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.path, self.what)
    }
}

pub fn value(value: Value<'_>) -> String {
    match value {
        Value::Unsigned(value) => format!("{value}"),
        Value::Signed(value) => format!("{value:+}"),
        Value::Real(value) => format!("real {:016x}", value.to_bits()),
        Value::Text(bytes) => format!("'{}'", bytes.escape_ascii()),
        Value::Wide(text) => format!("'{}'", text.to_text().as_bytes().escape_ascii()),
        Value::Blob(bytes) => format!("<{}>", bytes.escape_ascii()),
        Value::Compound => "compound".into(),
    }
}

#[derive(Default)]
pub struct Show {
    /// Paths of open structures and arrays, with the number of elements so far.
    open: Vec<(String, u64)>,
    pub fields: Vec<Shown>,
}

impl Show {
    fn path(&mut self, field: &FieldInfo) -> String {
        assert_eq!(field.is_element(), field.name().is_empty(), "{field:?}");
        let Some((open, elements)) = self.open.last_mut() else {
            return field.name().to_string();
        };
        if field.is_element() {
            *elements += 1;
            return format!("{open}[{}]", *elements - 1);
        }
        format!("{open}.{}", field.name())
    }

    fn put(&mut self, field: &FieldInfo, what: String) {
        let path = self.path(field);
        self.fields.push(Shown { path, what });
    }

    fn open(&mut self, field: &FieldInfo, what: String) {
        let path = self.path(field);
        self.fields.push(Shown { path: path.clone(), what });
        self.open.push((path, 0));
    }

    fn close(&mut self, what: &str) {
        let (path, _) = self.open.pop().expect("something is open");
        self.fields.push(Shown { path, what: what.into() });
    }
}

impl Visit for Show {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        assert!(!field.signed);
        self.put(field, self::value(Value::Unsigned(value)));
    }
    fn signed(&mut self, field: &FieldInfo, value: i64) {
        assert!(field.signed);
        self.put(field, self::value(Value::Signed(value)));
    }
    fn real(&mut self, field: &FieldInfo, value: f64) {
        self.put(field, self::value(Value::Real(value)));
    }
    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.put(field, value(Value::Text(bytes)));
    }
    fn blob(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.put(field, value(Value::Blob(bytes)));
    }
    fn begin_structure(&mut self, field: &FieldInfo) {
        self.open(field, "{".into());
    }
    fn end_structure(&mut self, _: &FieldInfo) {
        self.close("}");
    }
    fn begin_array(&mut self, field: &FieldInfo, length: u64) {
        self.open(field, format!("[{length}"));
    }
    fn end_array(&mut self, _: &FieldInfo) {
        self.close("]");
    }
    fn begin_variant(&mut self, field: &FieldInfo, option: &str) {
        self.open(field, format!("({option}"));
    }
    fn end_variant(&mut self, _: &FieldInfo) {
        self.close(")");
    }
    fn absent(&mut self, field: &FieldInfo) {
        self.put(field, "absent".into());
    }
}

/// Returns the fields of a part of the record that was decoded last. Checks that the walk ends at the record's end.
pub fn shown(
    class: &EventClass,
    state: &DecodeState,
    bytes: &[u8],
    origin: u64,
    scope: Scope,
) -> Vec<Shown> {
    let RecordPlace { begin, shape, .. } = &state.record;
    let view = RecordView { state, begin: *begin, shape, bytes, origin };
    let mut show = Show::default();
    let end = view.visit(class.plans(), scope, &mut show);
    assert_eq!(end.is_some(), class.has(scope), "{scope:?} was not told to its end");
    if let (Some(end), Scope::Payload) = (end, scope) {
        assert_eq!(end, state.record.end, "the walk ends where the record does");
    }
    show.fields
}

//! Fields of event records as attributes, within limits on their number and size.

use strata_ctf::read::{Event, FieldInfo, FieldRef, Scope, Value};

use super::proto::{AnyValue, KeyValue};
use crate::sql::field_json;

/// The most attributes of one span or event, which is also the limit of OpenTelemetry's SDKs.
const ATTRIBUTES_MAX: usize = 128;
/// The most bytes of one text.
const TEXT_BYTES_MAX: usize = 4096;
/// The most bytes of all texts of a span.
const BYTES_MAX: usize = 64 << 10;

/// The attributes of a span or event, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes {
    pub(super) all: Vec<KeyValue>,
    /// The number of attributes for which there was no room.
    pub(super) omitted: u32,
    bytes: usize,
}

impl Attributes {
    /// Adds an attribute. If the key exists already, the attribute is left out and counted.
    pub(super) fn add(&mut self, key: &str, value: AnyValue) {
        let bytes = key.len() + prost::Message::encoded_len(&value);
        let has_room = self.all.len() < ATTRIBUTES_MAX && self.bytes + bytes <= BYTES_MAX;
        if !has_room || self.find(key).is_some() {
            self.omitted = self.omitted.saturating_add(1);
            return;
        }
        self.bytes += bytes;
        self.all.push(KeyValue { key: key.to_owned(), value: Some(value) });
    }

    /// Returns the approximate size of the attributes in memory \[byte\].
    pub(super) fn memory(&self) -> usize {
        self.bytes + self.all.len() * std::mem::size_of::<KeyValue>()
    }

    /// Removes all attributes, and counts them.
    pub(super) fn omit_all(&mut self) {
        let count = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let omitted = self.omitted.saturating_add(count);
        *self = Attributes { omitted, ..Attributes::default() };
    }

    fn find(&self, key: &str) -> Option<&KeyValue> {
        self.all.iter().find(|it| it.key == key)
    }

    /// Adds the fields of a record as attributes, except those named in `without`. A field that exists already with
    /// the same value is left out. If its name has another value, or is reserved for this program, `prefix` is put
    /// before the name.
    pub(super) fn add_fields(
        &mut self,
        event: &Event<'_>,
        fields: &[Option<FieldRef>],
        prefix: &str,
        without: &[&str],
    ) {
        for (info, field) in event.class().fields(Scope::Payload).zip(fields) {
            let field = field.as_ref().filter(|_| !without.contains(&info.name()));
            let Some(value) = field.and_then(|field| value(event, info, field)) else { continue };
            match self.find(info.name()) {
                Some(it) if it.value.as_ref() == Some(&value) => {}
                Some(_) => self.add(&format!("{prefix}{}", info.name()), value),
                None if is_ours(info.name()) => {
                    self.add(&format!("{prefix}{}", info.name()), value)
                }
                None => self.add(info.name(), value),
            }
        }
    }
}

/// Returns whether the name is reserved for attributes that this program adds, and that must not be confused with
/// fields of records.
fn is_ours(name: &str) -> bool {
    name.starts_with("strata.") || matches!(name, "thread.id" | "thread.name")
}

/// Returns the value of a field; `None` if the record does not have it.
fn value(event: &Event<'_>, info: &FieldInfo, field: &FieldRef) -> Option<AnyValue> {
    let labelled = |number: i128| {
        let mut labels = info.labels_of(number);
        labels.next().filter(|_| labels.next().is_none()).map(AnyValue::text)
    };
    Some(match event.value(field)? {
        Value::Signed(number) => {
            labelled(number.into()).unwrap_or_else(|| AnyValue::integer(number))
        }
        Value::Unsigned(number) => {
            labelled(number.into()).unwrap_or_else(|| AnyValue::unsigned(number))
        }
        Value::Real(number) => AnyValue::real(number),
        Value::Text(bytes) => AnyValue::text(cut(bytes)),
        Value::Wide(text) => AnyValue::text(cut(text.to_text().as_bytes())),
        Value::Blob(_) | Value::Compound => {
            let mut json = Vec::new();
            if !field_json(&mut json, event, Scope::Payload, info.name()) {
                return None;
            }
            AnyValue::text(cut(&json))
        }
    })
}

/// Returns the begin of a text, as valid UTF-8.
pub(super) fn cut(bytes: &[u8]) -> String {
    match bytes.get(..TEXT_BYTES_MAX) {
        Some(begin) if bytes.len() > TEXT_BYTES_MAX => {
            let text = String::from_utf8_lossy(begin);
            // The last character may be cut into pieces.
            text.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned() + "…"
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

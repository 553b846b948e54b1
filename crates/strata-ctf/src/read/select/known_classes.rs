//! The classes of traces in the form in which filters are checked against them.

use std::collections::HashMap;
use std::sync::Arc;

use strata_filter::Root;

use super::DerivedWord;
use crate::model::schema::{self, FieldClass, Schema, Structure};

/// The most memory for names of fields and labels that are compared for hints \[byte\]. A trace may describe any number
/// of them, and the name of a nested field has the names of all structures around it.
const MOST_BYTES: usize = 48 << 20;
/// The most labels that are compared, counted once for each field that has them.
const MOST_LABELS: usize = 1_000_000;

/// The allocator's approximate overhead for a name \[byte\].
const ALLOCATED: usize = 24;

/// The classes of traces in the form in which filters are checked against them.
#[derive(Default)]
pub(super) struct KnownClasses {
    pub(super) classes: Vec<strata_filter::Class>,
    bytes: usize,
    seen_labels: usize,
    /// Label lists by the address of the labels, which the trace keeps alive.
    labels: HashMap<usize, Arc<[String]>>,
}

impl KnownClasses {
    /// Adds the classes of a trace. Returns false if they have too many names.
    pub(super) fn add(
        &mut self,
        schema: &Schema,
        derived: &dyn Fn(&Schema, &schema::EventClass, DerivedWord) -> bool,
    ) -> bool {
        for stream in &schema.streams {
            let packet = stream.packet_context.as_ref();
            for event in &stream.events {
                let mut class = strata_filter::Class {
                    name: event.name.clone(),
                    loglevel: event.loglevel,
                    cpu: packet.is_some_and(|packet| packet.find("cpu_id").is_some()),
                    fields: Vec::new(),
                };
                for (root, structure) in [
                    (Root::Payload, &event.payload),
                    (Root::Context, &event.specific_context),
                    (Root::Context, &stream.event_common_context),
                    (Root::Packet, &stream.packet_context),
                    (Root::Header, &stream.event_header),
                    (Root::Header, &schema.packet_header),
                ] {
                    if let Some(structure) = structure {
                        self.structure(&mut class.fields, root, "", structure);
                    }
                }
                for (spelling, word) in DerivedWord::spellings() {
                    if derived(schema, event, word) {
                        self.derived(&mut class.fields, spelling, word);
                    }
                }
                self.count(size_of::<strata_filter::Class>() + event.name.len());
                self.classes.push(class);
                if self.is_full() {
                    return false;
                }
            }
        }
        true
    }

    /// Adds a derived word, after the fields of the records themselves.
    fn derived(
        &mut self,
        fields: &mut Vec<strata_filter::ClassField>,
        spelling: &str,
        word: DerivedWord,
    ) {
        let kind = match word {
            word if word.is_text() => strata_filter::ClassFieldKind::Text,
            DerivedWord::Duration => strata_filter::ClassFieldKind::integer(64, false),
            _ => strata_filter::ClassFieldKind::integer(32, false),
        };
        self.count(2 * size_of::<strata_filter::ClassField>() + ALLOCATED + spelling.len());
        let path = spelling.to_owned();
        fields.push(strata_filter::ClassField { root: Root::Context, path, kind });
    }

    fn structure(
        &mut self,
        fields: &mut Vec<strata_filter::ClassField>,
        root: Root,
        above: &str,
        structure: &Structure,
    ) {
        for member in &structure.members {
            if self.is_full() {
                return;
            }
            self.field(fields, root, path(above, &member.name), &member.class);
        }
    }

    fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn is_full(&self) -> bool {
        self.bytes > MOST_BYTES || self.seen_labels > MOST_LABELS
    }

    fn field(
        &mut self,
        fields: &mut Vec<strata_filter::ClassField>,
        root: Root,
        path_here: String,
        class: &FieldClass,
    ) {
        if let FieldClass::Optional(optional) = class {
            return self.field(fields, root, path_here, &optional.class);
        }
        let kind = self.kind(class);
        // The list doubles as it grows.
        self.count(2 * size_of::<strata_filter::ClassField>() + ALLOCATED + path_here.len());
        fields.push(strata_filter::ClassField { root, path: path_here.clone(), kind });
        match class {
            FieldClass::Structure(inner) => self.structure(fields, root, &path_here, inner),
            FieldClass::Array(array) => {
                self.field(fields, root, format!("{path_here}[]"), &array.element);
            }
            FieldClass::Variant(variant) => {
                for option in &variant.options {
                    if self.is_full() {
                        return;
                    }
                    self.field(fields, root, path(&path_here, &option.name), &option.class);
                }
            }
            _ => (),
        }
    }

    fn kind(&mut self, class: &FieldClass) -> strata_filter::ClassFieldKind {
        use strata_filter::ClassFieldKind;
        match class {
            FieldClass::Integer(integer) => match &integer.labels {
                Some(labels) => ClassFieldKind::Enumeration(self.labels(labels)),
                None => match integer.width {
                    schema::Width::Bits(bits) => {
                        ClassFieldKind::integer(bits.into(), integer.signed)
                    }
                    schema::Width::Variable => ClassFieldKind::INTEGER,
                },
            },
            FieldClass::Real(_) => ClassFieldKind::Real,
            FieldClass::String | FieldClass::Text { .. } | FieldClass::Wide { .. } => {
                ClassFieldKind::Text
            }
            _ => ClassFieldKind::Other,
        }
    }

    fn labels(&mut self, labels: &Arc<[schema::Label]>) -> Arc<[String]> {
        // Labels count for each field, since each field is compared with the filter.
        self.seen_labels = self.seen_labels.saturating_add(labels.len());
        let address = labels.as_ptr() as usize;
        if let Some(known) = self.labels.get(&address) {
            return known.clone();
        }
        let names: Arc<[String]> = labels.iter().map(|label| label.name.clone()).collect();
        let each = |name: &String| size_of::<String>() + ALLOCATED + name.len();
        self.count(names.iter().map(each).sum());
        self.labels.insert(address, names.clone());
        names
    }
}

fn path(above: &str, name: &str) -> String {
    if above.is_empty() {
        name.to_string()
    } else {
        format!("{above}.{name}")
    }
}

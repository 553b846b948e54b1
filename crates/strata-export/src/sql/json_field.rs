//! Fields of a record as JSON: all of a part, or one of them.

use strata_ctf::read::{Event, FieldInfo, Scope, Visit};
use strata_text::json::quoted;

use strata_analyze::render::json::JsonFields;

/// Passes one field, given by its name, on to [`JsonFields`], with everything in it.
struct OneField<'f, 'o> {
    name: &'f str,
    depth: u32,
    /// True within the field.
    is_in: bool,
    json: JsonFields<'o>,
}

impl OneField<'_, '_> {
    fn enters(&mut self, field: &FieldInfo) -> bool {
        self.is_in |= self.depth == 0 && field.name() == self.name;
        self.depth += 1;
        self.is_in
    }

    fn leaves(&mut self) -> bool {
        self.depth = self.depth.saturating_sub(1);
        let was_in = self.is_in;
        self.is_in &= self.depth > 0;
        was_in
    }

    fn has(&self, field: &FieldInfo) -> bool {
        self.is_in || self.depth == 0 && field.name() == self.name
    }
}

impl Visit for OneField<'_, '_> {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        if self.has(field) {
            self.json.unsigned(field, value);
        }
    }
    fn signed(&mut self, field: &FieldInfo, value: i64) {
        if self.has(field) {
            self.json.signed(field, value);
        }
    }
    fn real(&mut self, field: &FieldInfo, value: f64) {
        if self.has(field) {
            self.json.real(field, value);
        }
    }
    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        if self.has(field) {
            self.json.text(field, bytes);
        }
    }
    fn blob(&mut self, field: &FieldInfo, bytes: &[u8]) {
        if self.has(field) {
            self.json.blob(field, bytes);
        }
    }
    fn begin_structure(&mut self, field: &FieldInfo) {
        if self.enters(field) {
            self.json.begin_structure(field);
        }
    }
    fn end_structure(&mut self, field: &FieldInfo) {
        if self.leaves() {
            self.json.end_structure(field);
        }
    }
    fn begin_array(&mut self, field: &FieldInfo, length: u64) {
        if self.enters(field) {
            self.json.begin_array(field, length);
        }
    }
    fn end_array(&mut self, field: &FieldInfo) {
        if self.leaves() {
            self.json.end_array(field);
        }
    }
    fn begin_variant(&mut self, field: &FieldInfo, option: &str) {
        if self.enters(field) {
            self.json.begin_variant(field, option);
        }
    }
    fn end_variant(&mut self, field: &FieldInfo) {
        if self.leaves() {
            self.json.end_variant(field);
        }
    }
    fn absent(&mut self, field: &FieldInfo) {
        if self.has(field) {
            self.json.absent(field);
        }
    }
}

/// Adds the fields of these parts of a record to `out`, as one JSON object. Returns whether the record has such a part.
pub fn record_json(out: &mut Vec<u8>, event: &Event<'_>, scopes: &[Scope]) -> bool {
    if !scopes.iter().any(|&scope| event.class().has(scope)) {
        return false;
    }
    out.push(b'{');
    let mut json = JsonFields::of_i64(out);
    for &scope in scopes {
        event.visit(scope, &mut json);
    }
    out.push(b'}');
    true
}

/// Adds the value of the field `name` of a part of a record to `out`, as JSON. Returns whether the record has it.
pub fn field_json(out: &mut Vec<u8>, event: &Event<'_>, scope: Scope, name: &str) -> bool {
    let mut key = Vec::new();
    quoted(&mut key, name.as_bytes());
    let begin = out.len();
    let json = JsonFields::of_i64(out);
    let mut one = OneField { name, depth: 0, is_in: false, json };
    event.visit(scope, &mut one);
    // What stands in front of a value: its name and a colon.
    let value = begin + key.len() + 1;
    if out.len() <= value {
        out.truncate(begin);
        return false;
    }
    out.drain(begin..value);
    true
}

//! Writes fields as JSON.

use std::io::Write as _;

use strata_ctf::read::{FieldInfo, Visit};
use strata_text::json::quoted;

use super::escape::hex;
use super::number;

/// Writes fields as JSON: as members `"name":value`, separated by commas.
///
/// Integers are exact numbers. An enumeration is `{"value":5,"labels":["A"]}`. A variant is an object whose only member
/// has the option's name. Bytes are hexadecimal digits.
pub struct JsonFields<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
    /// The greatest integer that is written as a number. Greater ones are written as text.
    max: u64,
}

impl<'a> JsonFields<'a> {
    /// Returns a writer for the fields of a part.
    pub fn new(out: &'a mut Vec<u8>) -> JsonFields<'a> {
        JsonFields { out, first: true, max: u64::MAX }
    }

    /// Returns a writer for readers that would read an integer above 2^63 - 1 as a floating-point number. Such integers
    /// are written as text.
    pub fn of_i64(out: &'a mut Vec<u8>) -> JsonFields<'a> {
        JsonFields { max: i64::MAX as u64, ..JsonFields::new(out) }
    }

    fn lead(&mut self, field: &FieldInfo) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        if !field.is_element() {
            quoted(self.out, field.name().as_bytes());
            self.out.push(b':');
        }
    }

    fn begin(&mut self, field: &FieldInfo, with: u8) {
        self.lead(field);
        self.out.push(with);
        self.first = true;
    }

    fn end(&mut self, with: u8) {
        self.out.push(with);
        self.first = false;
    }

    fn integer(&mut self, field: &FieldInfo, value: i128, write: impl FnOnce(&mut Vec<u8>)) {
        self.lead(field);
        if field.labels.is_none() {
            return write(self.out);
        }
        self.out.extend_from_slice(b"{\"value\":");
        write(self.out);
        self.out.extend_from_slice(b",\"labels\":[");
        match field.flags_of(value) {
            Some(flags) => self.labels(flags),
            None => self.labels(field.labels_of(value)),
        }
        self.out.extend_from_slice(b"]}");
    }

    fn labels<'l>(&mut self, labels: impl Iterator<Item = &'l str>) {
        for (index, label) in labels.enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            quoted(self.out, label.as_bytes());
        }
    }
}

/// Writes a floating-point number so that it is read back unchanged. A value such as infinity, for which JSON has no
/// number, becomes a string.
fn real(out: &mut Vec<u8>, value: f64) {
    let special = match value {
        value if value.is_nan() => "\"NaN\"",
        f64::INFINITY => "\"Infinity\"",
        f64::NEG_INFINITY => "\"-Infinity\"",
        _ => "",
    };
    if special.is_empty() {
        // Writing to memory does not fail.
        let _ = write!(out, "{value:?}");
    } else {
        out.extend_from_slice(special.as_bytes());
    }
}

impl Visit for JsonFields<'_> {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        let max = self.max;
        self.integer(field, i128::from(value), |out| match (field.is_bool, value) {
            (true, 0) => out.extend_from_slice(b"false"),
            (true, _) => out.extend_from_slice(b"true"),
            (false, value) if value > max => {
                out.push(b'"');
                number::unsigned(out, value);
                out.push(b'"');
            }
            (false, value) => number::unsigned(out, value),
        });
    }

    fn signed(&mut self, field: &FieldInfo, value: i64) {
        self.integer(field, i128::from(value), |out| number::signed(out, value));
    }

    fn real(&mut self, field: &FieldInfo, value: f64) {
        self.lead(field);
        real(self.out, value);
    }

    fn text(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.lead(field);
        quoted(self.out, bytes);
    }

    fn blob(&mut self, field: &FieldInfo, bytes: &[u8]) {
        self.lead(field);
        self.out.push(b'"');
        hex(self.out, bytes);
        self.out.push(b'"');
    }

    fn begin_structure(&mut self, field: &FieldInfo) {
        self.begin(field, b'{');
    }

    fn end_structure(&mut self, _field: &FieldInfo) {
        self.end(b'}');
    }

    fn begin_array(&mut self, field: &FieldInfo, _length: u64) {
        self.begin(field, b'[');
    }

    fn end_array(&mut self, _field: &FieldInfo) {
        self.end(b']');
    }

    fn begin_variant(&mut self, field: &FieldInfo, _option: &str) {
        self.begin(field, b'{');
    }

    fn end_variant(&mut self, _field: &FieldInfo) {
        self.end(b'}');
    }

    fn absent(&mut self, field: &FieldInfo) {
        self.lead(field);
        self.out.extend_from_slice(b"null");
    }
}

//! The class of a tracepoint, and the bytes of its records.

use strata_model::{Array, Element, EventClass, Field, FieldClass, Integer, Sequence};

use crate::bytes::put_text;
use crate::formats::{fitting, FormatClass, FormatField, TracepointFormat};

/// Makes the records of a tracepoint from those of the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Tracepoint {
    fields: Vec<FormatField>,
    /// The least size of the kernel's record \[byte\].
    bytes: usize,
}

/// Prefixes of the subsystems of user-defined probes, among which names may occur twice.
const PROBES: [&str; 4] = ["probe", "sdt", "uprobes", "kprobes"];

impl Tracepoint {
    /// Returns the class of a tracepoint, without an id, and how its records are made. A tracepoint of the kernel has its name without
    /// its system, as in recordings of our own.
    pub fn new(format: &TracepointFormat) -> (EventClass, Tracepoint) {
        let is_probe = PROBES.iter().any(|begin| format.system.starts_with(begin));
        let mut name = fitting(&format.name);
        if is_probe {
            name = fitting(&format!("{}:{name}", format.system));
        }
        let fields = format.fields.clone();
        let class = EventClass {
            name,
            fields: fields.iter().map(field_of).collect(),
            ..EventClass::default()
        };
        let end = |field: &FormatField| field.offset + field.class.bytes();
        let bytes = fields.iter().map(end).max().unwrap_or(0);
        (class, Tracepoint { fields, bytes })
    }

    /// Appends the fields of a record of the kernel. Returns false if the record is too short.
    pub fn put(&self, out: &mut Vec<u8>, raw: &[u8]) -> bool {
        if raw.len() < self.bytes {
            return false;
        }
        // What fields refer to lies behind them, and each byte belongs to one of them.
        let mut left = raw.len();
        for field in &self.fields {
            let own = raw.get(field.offset..field.offset + field.class.bytes()).unwrap_or_default();
            let (is_relative, is_text) = match field.class {
                FormatClass::Text { is_relative } => (is_relative, true),
                FormatClass::Bytes { is_relative } => (is_relative, false),
                _ => {
                    out.extend_from_slice(own);
                    continue;
                }
            };
            let place = own.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
            let (size, mut at) = ((place >> 16) as usize, (place & 0xffff) as usize);
            if is_relative {
                at += field.offset + own.len();
            }
            let found = raw.get(at..at.saturating_add(size)).filter(|found| found.len() <= left);
            let found = found.unwrap_or_default();
            left -= found.len();
            if is_text {
                put_text(out, found);
            } else {
                out.extend((found.len() as u32).to_ne_bytes());
                out.extend_from_slice(found);
            }
        }
        true
    }
}

fn field_of(field: &FormatField) -> Field {
    let integer = |bytes: u8, signed: bool| Integer { signed, ..Integer::unsigned(bytes) };
    let class = match field.class {
        FormatClass::Integer { bytes, signed } => FieldClass::Integer(integer(bytes, signed)),
        FormatClass::Array { bytes, signed, count } => {
            FieldClass::Array(Array { element: Element::Integer(integer(bytes, signed)), count })
        }
        FormatClass::Characters { bytes } => {
            FieldClass::Array(Array { element: Element::Text, count: bytes })
        }
        FormatClass::Text { .. } => FieldClass::String,
        FormatClass::Bytes { .. } => FieldClass::Sequence(Sequence {
            element: Element::Integer(Integer::unsigned(1)),
            length_bytes: 4,
        }),
    };
    Field::new(field.name.clone(), class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::parse;

    /// Two integers, characters, a text at offset 16, and bytes at an offset behind their field.
    const FORMAT: &str = "name: x\nID: 1\nformat:\n\
        \tfield:int a;\toffset:0;\tsize:4;\tsigned:1;\n\
        \tfield:char b[4];\toffset:4;\tsize:4;\tsigned:0;\n\
        \tfield:__data_loc char[] c;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:__rel_loc u8[] d;\toffset:12;\tsize:4;\tsigned:0;\n";

    fn raw(text: u32, bytes: u32) -> Vec<u8> {
        [&7i32.to_ne_bytes()[..], b"ab\0c", &text.to_ne_bytes(), &bytes.to_ne_bytes(), b"hi\0xyz"]
            .concat()
    }

    #[test]
    fn fields_of_a_record_are_copied_and_those_elsewhere_found() {
        let (class, tracepoint) = Tracepoint::new(&parse("sched", FORMAT).unwrap());
        assert_eq!((&*class.name, class.fields.len()), ("x", 4));
        let mut out = Vec::new();
        assert!(tracepoint.put(&mut out, &raw(3 << 16 | 16, 3 << 16 | 3)));
        let wanted =
            [&7i32.to_ne_bytes()[..], b"ab\0c", b"hi\0", &3u32.to_ne_bytes(), b"xyz"].concat();
        assert_eq!(out, wanted);
        let (class, _) = Tracepoint::new(&parse("probe_a", FORMAT).unwrap());
        assert_eq!(class.name, "probe_a:x");
    }

    #[test]
    fn malicious_places_are_empty_and_a_record_becomes_no_more_than_it_has() {
        let (_, tracepoint) = Tracepoint::new(&parse("sched", FORMAT).unwrap());
        let mut out = Vec::new();
        assert!(tracepoint.put(&mut out, &raw(u32::MAX, u32::MAX)));
        assert_eq!(out.len(), 4 + 4 + 1 + 4);
        // Both say that all is theirs.
        out.clear();
        let length = raw(0, 0).len() as u32;
        assert!(tracepoint.put(&mut out, &raw(length << 16, 6 << 16)));
        assert!(out.len() <= length as usize + 13, "{}", out.len());
        assert!(!tracepoint.put(&mut Vec::new(), &raw(0, 0)[..15]));
    }
}

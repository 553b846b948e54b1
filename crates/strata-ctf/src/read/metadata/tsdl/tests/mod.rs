//! Tests of TSDL texts and their schemas.

mod blocks;
mod malicious;
mod packets;
mod references;
mod types;

use crate::read::metadata::{parse, parse_tolerant, MetadataError, MetadataProblem, Parsed};
use strata_model::schema::*;
use strata_model::{Base, ByteOrder};

/// Puts two lines before a text, so that its first line is the third.
fn with_head(order: &str, text: &str) -> String {
    format!(
        "/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = {order}; }};\n\
         typealias integer {{ size = 8; }} := u8; typealias integer {{ size = 32; signed = true; }} := int;\n\
         {text}"
    )
}

fn schema(text: &str) -> Schema {
    parse(with_head("le", text).as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the payload of an event with these fields.
fn payload(fields: &str) -> Structure {
    payload_of(schema(&event(fields)))
}

fn event(fields: &str) -> String {
    format!("event {{ name = e; fields := struct {{ {fields} }}; }};")
}

fn payload_of(mut schema: Schema) -> Structure {
    schema.streams.remove(0).events.remove(0).payload.unwrap()
}

/// Checks the schema of a text in both byte orders.
fn both(text: &str, check: impl Fn(ByteOrder, Schema)) {
    for (name, order) in [("le", ByteOrder::Little), ("be", ByteOrder::Big)] {
        let text = with_head(name, text);
        check(order, parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}")));
    }
}

fn tolerant(text: &str) -> Parsed {
    parse_tolerant(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the only problem of a text.
fn problem(text: &str) -> MetadataError {
    let mut problems = tolerant(&with_head("le", text)).problems;
    assert_eq!(problems.len(), 1, "{problems:?}\n{text}");
    assert_eq!(parse(with_head("le", text).as_bytes()).as_ref(), Err(&problems[0]));
    problems.remove(0)
}

/// Returns the only problem of an event with these fields.
fn field_problem(fields: &str) -> MetadataProblem {
    problem(&event(fields)).what
}

fn plain(bits: u8) -> Integer {
    Integer {
        width: Width::Bits(bits),
        align: if bits % 8 == 0 { 8 } else { 1 },
        signed: false,
        byte_order: ByteOrder::Little,
        base: Base::Ten,
        is_bool: false,
        clock: None,
        role: None,
        labels: None,
        flags: None,
        is_bit_map: false,
        is_reversed: false,
    }
}

fn named(structure: &Structure, name: &str) -> FieldClass {
    let index = structure.find(name).unwrap_or_else(|| panic!("no {name} in {structure:?}"));
    structure.members[index].class.clone()
}

fn integer(class: &FieldClass) -> &Integer {
    match class {
        FieldClass::Integer(integer) => integer,
        other => panic!("{other:?}"),
    }
}

fn variant(class: &FieldClass) -> &Variant {
    match class {
        FieldClass::Variant(variant) => variant,
        other => panic!("{other:?}"),
    }
}

fn structure(class: &FieldClass) -> &Structure {
    match class {
        FieldClass::Structure(structure) => structure,
        other => panic!("{other:?}"),
    }
}

fn array(class: &FieldClass) -> &Array {
    match class {
        FieldClass::Array(array) => array,
        other => panic!("{other:?}"),
    }
}

/// Returns the labels of a class with their ranges.
fn labels(class: &FieldClass) -> Vec<(String, Vec<(i128, i128)>)> {
    let labels = integer(class).labels.as_deref().unwrap();
    labels.iter().map(|label| (label.name.clone(), pairs(&label.ranges))).collect()
}

fn pairs(ranges: &[Range]) -> Vec<(i128, i128)> {
    ranges.iter().map(|range| (range.from, range.to)).collect()
}

fn at(scope: Scope, path: &[u32]) -> Location {
    Location::at(scope, path.to_vec())
}

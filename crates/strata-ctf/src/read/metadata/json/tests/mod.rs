//! Tests of every class and every error of CTF 2 metadata.

mod classes;
mod draft;
mod errors;
mod places;

use crate::read::metadata::{parse, parse_tolerant};
use strata_model::schema::{FieldClass, Schema, Structure};

const PREAMBLE: &str = r#"{"type":"preamble","version":2}"#;

/// Returns metadata of these fragments, after a preamble.
fn metadata(fragments: &[&str]) -> Vec<u8> {
    let all = std::iter::once(&PREAMBLE).chain(fragments);
    all.map(|fragment| format!("\x1e{fragment}\n")).collect::<String>().into_bytes()
}

/// Parses these fragments and returns the schema.
fn schema(fragments: &[&str]) -> Schema {
    parse(&metadata(fragments)).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns an event whose payload has members with these names and classes.
fn event(members: &[(&str, &str)]) -> String {
    let member =
        |(name, class): &(&str, &str)| format!(r#"{{"name":"{name}","field-class":{class}}}"#);
    let members: Vec<String> = members.iter().map(member).collect();
    let members = members.join(",");
    format!(
        r#"{{"type":"event-record-class","payload-field-class":{{"type":"structure","member-classes":[{members}]}}}}"#
    )
}

const STREAM: &str = r#"{"type":"data-stream-class"}"#;
const BYTE: &str = r#"{"type":"fixed-length-unsigned-integer","length":8,"alignment":8,"byte-order":"little-endian"}"#;

fn payload(members: &[(&str, &str)]) -> Structure {
    let schema = schema(&[STREAM, &event(members)]);
    schema.streams[0].events[0].payload.clone().unwrap()
}

/// Returns the parsed class of a payload's only member.
fn class(class: &str) -> FieldClass {
    payload(&[("n", BYTE), ("x", class)]).members[1].class.clone()
}

/// Returns the only problem of a class.
fn problem(class: &str) -> String {
    let found = parse_tolerant(&metadata(&[STREAM, &event(&[("n", BYTE), ("x", class)])])).unwrap();
    assert_eq!(found.problems.len(), 1, "{class}");
    assert!(found.schema.streams[0].events.is_empty(), "the event is left out");
    found.problems[0].to_string()
}

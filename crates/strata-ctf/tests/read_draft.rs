//! A trace of the last draft of CTF 2 is read as one of CTF 2.0.

use crate::support::*;
use std::fs;
use strata_ctf::read::{Message, Reader, Scope, TimeRange, Value};

/// Returns metadata with each fragment as the CTF 2 draft has it, or, if `is_draft` is false, as CTF 2.0 does.
fn metadata(is_draft: bool) -> String {
    let now = |draft: &'static str, now: &'static str| if is_draft { draft } else { now };
    let fragments = [
        r#"{"type":"preamble","version":2}"#.to_owned(),
        format!(
            r#"{{"type":"clock-class",{}:"ticks","frequency":1000000000,"origin":"unix-epoch"}}"#,
            now(r#""name""#, r#""id""#)
        ),
        format!(
            r#"{{"type":"data-stream-class",{}:"ticks","event-record-header-field-class":{{"type":"structure","member-classes":[
                {{"name":"id","field-class":{{"type":"fixed-length-unsigned-{}","length":8,"alignment":8,"byte-order":"little-endian",
                    "roles":["event-record-class-id"],"mappings":{{"compact":[[0,9]],"extended":[[10,10]]}}}}}},
                {{"name":"v","field-class":{{"type":"variant","selector-field-location":{},"options":[
                    {{"name":"compact","selector-field-ranges":[[0,9]],"field-class":{TIME}}},
                    {{"name":"extended","selector-field-ranges":[[10,10]],"field-class":{{"type":"null-terminated-string"}}}}]}}}}]}}}}"#,
            now(r#""default-clock-class-name""#, r#""default-clock-class-id""#),
            now("enumeration", "integer"),
            now(
                r#"["event-record-header","id"]"#,
                r#"{"origin":"event-record-header","path":["id"]}"#
            ),
        ),
        format!(
            r#"{{"type":"event-record-class","id":3,"name":"e",{}:{{"lttng.org,2009":{{"log-level":"info"}}}},
                "payload-field-class":{{"type":"structure","member-classes":[
                {{"name":"n","field-class":{{"type":"variable-length-unsigned-integer"}}}},
                {{"name":"text","field-class":{{"type":"dynamic-length-string","length-field-location":{}}}}}]}}}}"#,
            now(r#""user-attributes""#, r#""attributes""#),
            now(
                r#"["event-record-payload","n"]"#,
                r#"{"origin":"event-record-payload","path":["n"]}"#
            ),
        ),
    ];
    fragments.map(|fragment| format!("\x1e{fragment}\n")).concat()
}

const TIME: &str = r#"{"type":"structure","member-classes":[{"name":"t","field-class":{"type":"fixed-length-unsigned-integer",
    "length":32,"byte-order":"big-endian","roles":["default-clock-timestamp"]}}]}"#;

#[test]
fn trace_of_the_draft_has_the_events_of_one_of_today() {
    let records = [(1_000_u32, "first"), (2_000, ""), (2_001, "the last")];
    let bytes: Vec<u8> = records
        .iter()
        .flat_map(|(time, text)| {
            let head = [&[3][..], &time.to_be_bytes(), &[text.len() as u8]].concat();
            [head, text.as_bytes().to_vec()].concat()
        })
        .collect();
    for is_draft in [true, false] {
        let folder = Folder::new();
        fs::write(folder.path().join("metadata"), metadata(is_draft)).unwrap();
        fs::write(folder.path().join("stream"), &bytes).unwrap();
        let reader = Reader::open(&[folder.path()]).unwrap();
        assert!(reader.damage().is_empty(), "{:?}", reader.damage());
        let mut events = reader.events(TimeRange::ALL);
        let mut found = Vec::new();
        while let Some(message) = events.next() {
            match message {
                Message::Event(event) => {
                    let class = event.class();
                    let text =
                        class.find_in(Scope::Payload, "text").and_then(|path| event.value(&path));
                    let Some(Value::Text(text)) = text else { panic!("{text:?}") };
                    let text = String::from_utf8_lossy(text).into_owned();
                    found.push((event.time().unwrap(), class.name().to_owned(), text));
                }
                Message::Damage(damage) => panic!("{damage}"),
                _ => {}
            }
        }
        let wanted = records.map(|(time, text)| (i64::from(time), "e".to_owned(), text.to_owned()));
        assert_eq!(found, wanted, "draft: {is_draft}");
    }
}

use super::*;
use strata_model::schema::{Label, Location, Range, Role, Scope};

const UUID: &str = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]";

fn enumeration(sign: &str, more: &str) -> String {
    format!(
        r#"{{"type":"fixed-length-{sign}signed-enumeration","length":8,"byte-order":"little-endian",
            "mappings":{{"short":[[0,9]],"long":[[10,10]]}}{more}}}"#
    )
}

/// Returns a stream class with a header like LTTng's: a selector, and a variant with the time.
fn stream() -> String {
    let time = r#"{"type":"fixed-length-unsigned-integer","length":32,"byte-order":"little-endian","roles":["default-clock-timestamp"]}"#;
    let id = enumeration("un", r#","roles":["event-record-class-id"]"#);
    format!(
        r#"{{"type":"data-stream-class","default-clock-class-name":"ticks","event-record-header-field-class":
            {{"type":"structure","member-classes":[
                {{"name":"id","field-class":{id}}},
                {{"name":"v","field-class":{{"type":"variant","selector-field-location":["event-record-header","id"],
                    "options":[{{"field-class":{time},"selector-field-ranges":[[0,9]]}}]}}}}]}}}}"#
    )
}

#[test]
fn each_spelling_of_the_draft_is_read() {
    let trace = format!(r#"{{"type":"trace-class","uuid":{UUID}}}"#);
    let clock =
        format!(r#"{{"type":"clock-class","name":"ticks","frequency":1000,"uuid":{UUID}}}"#);
    let record = r#"{"type":"event-record-class","name":"e","user-attributes":{"lttng.org,2009":{"log-level":"info"}},
        "payload-field-class":{"type":"structure","member-classes":[
            {"name":"n","field-class":{"type":"variable-length-unsigned-integer"}},
            {"name":"s","field-class":{"type":"structure","member-classes":[{"name":"t","field-class":
                {"type":"dynamic-length-string","length-field-location":["event-record-payload","n"]}}]}}]}}"#;
    let schema = schema(&[&trace, &clock, &stream(), record]);
    let uuid = "01020304-0506-0708-090a-0b0c0d0e0f10";
    assert_eq!(schema.uid.as_deref(), Some(uuid));
    assert_eq!(schema.clocks[0].name, "ticks");
    assert_eq!(schema.clocks[0].uuid.unwrap().to_string(), uuid);
    let stream = &schema.streams[0];
    assert_eq!(stream.clock, Some(0));
    assert_eq!(stream.events[0].loglevel, Some(6));
    let header = stream.event_header.as_ref().unwrap();
    let FieldClass::Integer(id) = &header.members[0].class else { panic!("{header:?}") };
    assert_eq!(id.role, Some(Role::EventClassId));
    let labels = [("short", 0, 9), ("long", 10, 10)]
        .map(|(name, from, to)| Label { name: name.into(), ranges: vec![Range { from, to }] });
    assert_eq!(id.labels.as_deref(), Some(&labels[..]));
    let FieldClass::Variant(variant) = &header.members[1].class else { panic!("{header:?}") };
    assert_eq!(variant.selector, Location::at(Scope::EventHeader, vec![0]));
}

#[test]
fn signed_enumerations_are_in_aliases_too() {
    let alias = format!(
        r#"{{"type":"field-class-alias","name":"a","field-class":{}}}"#,
        enumeration("", "")
    );
    let schema = schema(&[&alias, STREAM, &event(&[("x", r#""a""#)])]);
    let payload = schema.streams[0].events[0].payload.as_ref().unwrap();
    let FieldClass::Integer(x) = &payload.members[0].class else { panic!("{payload:?}") };
    assert!(x.signed && x.labels.is_some());
}

#[test]
fn what_the_draft_does_not_have_either_is_refused() {
    for (location, wanted) in [
        (r#"["payload","n"]"#, "a part of packets or event records"),
        (r#"["event-record-payload"]"#, "1 to 64"),
        ("[]", "an object"),
        (r#"["event-record-payload","m"]"#, "no earlier field has this name"),
    ] {
        let text =
            format!(r#"{{"type":"dynamic-length-string","length-field-location":{location}}}"#);
        let found = problem(&text);
        assert!(found.contains(wanted), "{location}: {found}");
    }
    assert!(problem(r#"{"type":"fixed-length-enumeration"}"#).contains("a type of field classes"));
    for (clock, wanted) in [
        (r#"{"type":"clock-class","frequency":1}"#, "no id"),
        (r#"{"type":"clock-class","name":"c","frequency":1,"uuid":[1,2]}"#, "uuid"),
    ] {
        let found = parse_tolerant(&metadata(&[clock])).unwrap();
        let found = found.problems.first().map(ToString::to_string).unwrap_or_default();
        assert!(found.contains(wanted), "{clock}: {found}");
    }
}

#[test]
fn spellings_of_today_come_first() {
    let clock = r#"{"type":"clock-class","id":"i","name":"n","frequency":1,"uid":"u","uuid":[]}"#;
    let stream = r#"{"type":"data-stream-class","default-clock-class-id":"i","default-clock-class-name":"n"}"#;
    let schema = schema(&[clock, stream]);
    assert_eq!(schema.streams[0].clock, Some(0));
    assert_eq!((schema.clocks[0].name.as_str(), schema.clocks[0].uuid), ("n", None));
}

use super::*;
use strata_model::schema::{Length, Location, Scope};

fn text(location: &str) -> String {
    format!(r#"{{"type":"dynamic-length-string","length-field-location":{location}}}"#)
}

fn structure(members: &[(&str, &str)]) -> String {
    let member =
        |(name, class): &(&str, &str)| format!(r#"{{"name":"{name}","field-class":{class}}}"#);
    let members: Vec<String> = members.iter().map(member).collect();
    format!(r#"{{"type":"structure","member-classes":[{}]}}"#, members.join(","))
}

/// The place that the last field of a payload names, wherever that field is.
fn place(members: &[(&str, &str)]) -> Location {
    fn last(class: &FieldClass) -> Option<&Location> {
        match class {
            FieldClass::Text { length: Length::Dynamic(location) } => Some(location),
            FieldClass::Structure(inner) => last(&inner.members.last()?.class),
            FieldClass::Array(array) => last(&array.element),
            FieldClass::Variant(variant) => last(&variant.options.last()?.class),
            FieldClass::Optional(optional) => last(&optional.class),
            _ => None,
        }
    }
    last(&payload(members).members.last().unwrap().class).unwrap().clone()
}

fn of_payload(path: &[u32]) -> Location {
    Location { scope: Scope::Payload, path: path.to_vec() }
}

#[test]
fn places_without_an_origin_begin_in_the_structure_around() {
    for (path, wanted) in
        [(r#"["n"]"#, &[1, 0, 0][..]), (r#"[null,"n"]"#, &[0]), (r#"[null,null,"n"]"#, &[])]
    {
        let inner = structure(&[("n", BYTE), ("t", &text(&format!(r#"{{"path":{path}}}"#)))]);
        let array =
            format!(r#"{{"type":"static-length-array","length":2,"element-field-class":{inner}}}"#);
        let members = [("n", BYTE), ("a", array.as_str())];
        if wanted.is_empty() {
            let found = parse(&metadata(&[STREAM, &event(&members)])).unwrap_err().to_string();
            assert!(
                found.ends_with("reference '../../n': no field of this name comes before"),
                "{found}"
            );
        } else {
            assert_eq!(place(&members), of_payload(wanted), "{path}");
        }
    }
}

#[test]
fn places_with_an_origin_begin_with_that_part() {
    let header = structure(&[("h", BYTE)]);
    let trace = format!(r#"{{"type":"trace-class","packet-header-field-class":{header}}}"#);
    let part = |name: &str| structure(&[("o", BYTE), (name, BYTE)]);
    let stream = format!(
        r#"{{"type":"data-stream-class","packet-context-field-class":{},"event-record-header-field-class":{},"event-record-common-context-field-class":{}}}"#,
        part("p"),
        part("e"),
        part("c")
    );
    for (origin, name, scope, index) in [
        ("packet-header", "h", Scope::PacketHeader, 0),
        ("packet-context", "p", Scope::PacketContext, 1),
        ("event-record-header", "e", Scope::EventHeader, 1),
        ("event-record-common-context", "c", Scope::CommonContext, 1),
        ("event-record-specific-context", "s", Scope::SpecificContext, 1),
        ("event-record-payload", "n", Scope::Payload, 0),
    ] {
        let text = text(&format!(r#"{{"origin":"{origin}","path":["{name}"]}}"#));
        let event = format!(
            r#"{{"type":"event-record-class","specific-context-field-class":{},"payload-field-class":{}}}"#,
            part("s"),
            structure(&[("n", BYTE), ("t", &text)])
        );
        let schema = schema(&[&trace, &stream, &event]);
        let payload = schema.streams[0].events[0].payload.clone().unwrap();
        let FieldClass::Text { length: Length::Dynamic(found) } = &payload.members[1].class else {
            panic!("no text")
        };
        assert_eq!(*found, Location { scope, path: vec![index] }, "{origin}");
    }
}

#[test]
fn places_in_options_and_optional_fields_are_found() {
    let inner = structure(&[("m", BYTE)]);
    let variant = format!(
        r#"{{"type":"variant","selector-field-location":{{"path":["n"]}},"options":[{{"selector-field-ranges":[[0,0]],"field-class":{BYTE}}},{{"selector-field-ranges":[[1,1]],"field-class":{inner}}}]}}"#
    );
    let own = text(r#"{"path":["v","m"]}"#);
    assert_eq!(place(&[("n", BYTE), ("v", &variant), ("t", &own)]), of_payload(&[1, 1, 0]));
    let optional = format!(
        r#"{{"type":"optional","selector-field-location":{{"path":["n"]}},"selector-field-ranges":[[1,1]],"field-class":{inner}}}"#
    );
    assert_eq!(place(&[("n", BYTE), ("v", &optional), ("t", &own)]), of_payload(&[1, 0, 0]));
}

/// What is said of a place in a payload of `n` (a byte), `s` (signed), `b` (a structure with `m`), `a` (an
/// array of such), `x` (the field), `z` (a byte).
fn refused(class: &str) -> String {
    let signed = r#"{"type":"variable-length-signed-integer"}"#;
    let inner = structure(&[("m", BYTE)]);
    let array =
        format!(r#"{{"type":"static-length-array","length":2,"element-field-class":{inner}}}"#);
    let twice = format!(
        r#"{{"type":"variant","selector-field-location":{{"path":["n"]}},"options":[{{"selector-field-ranges":[[0,0]],"field-class":{inner}}},{{"selector-field-ranges":[[1,1]],"field-class":{inner}}}]}}"#
    );
    let members = [
        ("n", BYTE),
        ("s", signed),
        ("b", &inner),
        ("a", &array),
        ("v", &twice),
        ("x", class),
        ("z", BYTE),
    ];
    parse(&metadata(&[STREAM, &event(&members)])).unwrap_err().to_string()
}

#[test]
fn places_that_cannot_be_are_refused() {
    for (path, why) in [
        (r#"{"path":["q"]}"#, "reference 'q': no field of this name comes before"),
        (r#"{"path":["z"]}"#, "reference 'z': the field does not come before what refers to it"),
        (r#"{"path":["x"]}"#, "reference 'x': the field does not come before what refers to it"),
        (r#"{"path":["s"]}"#, "reference 's': the field is no unsigned integer"),
        (r#"{"path":["b"]}"#, "reference 'b': no field of this name comes before"),
        (r#"{"path":["n","m"]}"#, "reference 'n/m': no field of this name comes before"),
        (r#"{"path":["a","m"]}"#, "reference 'a/m': no field of this name comes before"),
        (
            r#"{"path":["v","m"]}"#,
            "reference 'v/m': it means several fields, in different options of a variant",
        ),
        (
            r#"{"origin":"packet-context","path":["n"]}"#,
            "reference 'packet-context/n': this part of the trace is not described",
        ),
        (r#"{"path":[null,"n"]}"#, "reference '../n': no field of this name comes before"),
    ] {
        let found = refused(&text(path));
        assert!(found.ends_with(why), "{path}: {found}");
    }
    let optional = |path: &str, more: &str| {
        let location = format!(r#""selector-field-location":{{"path":["{path}"]}}"#);
        refused(&format!(r#"{{"type":"optional",{location},"field-class":{BYTE}{more}}}"#))
    };
    assert!(optional("n", "")
        .ends_with("the field is no boolean, and there are no 'selector-field-ranges'"));
    let ranges = r#","selector-field-ranges":[[1,1]]"#;
    assert!(
        optional("v", ranges).ends_with("no field of this name comes before"),
        "{}",
        optional("v", ranges)
    );
}

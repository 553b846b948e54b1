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

/// Returns the location on which the last field of a payload depends, at any depth.
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
    Location::at(Scope::Payload, path.to_vec())
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
                found.ends_with("reference '../../n': no earlier field has this name"),
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
        assert_eq!(*found, Location::at(scope, vec![index]), "{origin}");
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

#[test]
fn places_in_several_options_mean_the_one_that_is_there() {
    let inner = structure(&[("m", BYTE)]);
    let behind = structure(&[("q", BYTE), ("m", BYTE)]);
    let signed = r#"{"type":"variable-length-signed-integer"}"#;
    let of = |classes: &[&str]| {
        let option = |(index, class): (usize, &&str)| {
            format!(r#"{{"selector-field-ranges":[[{index},{index}]],"field-class":{class}}}"#)
        };
        let options: Vec<String> = classes.iter().enumerate().map(option).collect();
        format!(
            r#"{{"type":"variant","selector-field-location":{{"origin":"event-record-payload","path":["n"]}},"options":[{}]}}"#,
            options.join(",")
        )
    };
    let several = |paths: &[&[u32]]| {
        let others = paths[1..].iter().map(|path| path.to_vec()).collect();
        Location { others, ..of_payload(paths[0]) }
    };
    for (options, path, wanted) in [
        (vec![BYTE, BYTE], r#"["v"]"#, &[&[1, 0][..], &[1, 1]][..]),
        (vec![&inner, &behind], r#"["v","m"]"#, &[&[1, 0, 0], &[1, 1, 1]]),
        (vec![&inner, BYTE, &behind], r#"["v","m"]"#, &[&[1, 0, 0], &[1, 2, 1]]),
        (vec![&of(&[BYTE, BYTE]), BYTE], r#"["v"]"#, &[&[1, 0, 0], &[1, 0, 1], &[1, 1]]),
    ] {
        let own = text(&format!(r#"{{"path":{path}}}"#));
        assert_eq!(place(&[("n", BYTE), ("v", &of(&options)), ("t", &own)]), several(wanted));
    }
    // A path inside an option leads to that option's field; a step up leads out of all options.
    let own = text(r#"{"origin":"event-record-payload","path":["v","m"]}"#);
    let last = structure(&[("m", BYTE), ("t", &own)]);
    assert_eq!(place(&[("n", BYTE), ("v", &of(&[&inner, &last]))]), several(&[&[1, 1, 0]]));
    let refused = |options: &[&str], class: &str| {
        let members = [("n", BYTE), ("v", &of(options)), ("x", class)];
        parse(&metadata(&[STREAM, &event(&members)])).unwrap_err().to_string()
    };
    let length = text(r#"{"path":["v"]}"#);
    for options in [[BYTE, signed], [BYTE, r#"{"type":"null-terminated-string"}"#]] {
        let found = refused(&options, &length);
        assert!(found.ends_with("'v': the field is no unsigned integer"), "{found}");
    }
    let optional = format!(
        r#"{{"type":"optional","selector-field-location":{{"path":["v"]}},"selector-field-ranges":[[1,1]],"field-class":{BYTE}}}"#
    );
    let found = refused(&[BYTE, signed], &optional);
    assert!(
        found.ends_with("in different options of a variant, and only some are signed"),
        "{found}"
    );
}

#[test]
fn ranges_to_select_are_refused_if_the_selector_cannot_have_their_values() {
    let signed = r#"{"type":"variable-length-signed-integer"}"#;
    let optional = |ranges: &str| {
        format!(
            r#"{{"type":"optional","selector-field-location":{{"path":["n"]}},"selector-field-ranges":{ranges},"field-class":{BYTE}}}"#
        )
    };
    let variant = |ranges: &str| {
        format!(
            r#"{{"type":"variant","selector-field-location":{{"path":["n"]}},"options":[{{"selector-field-ranges":[[7,7]],"field-class":{BYTE}}},{{"selector-field-ranges":{ranges},"field-class":{BYTE}}}]}}"#
        )
    };
    let text =
        |selector, class: &str| metadata(&[STREAM, &event(&[("n", selector), ("x", class)])]);
    for (selector, ranges, is_refused) in [
        (BYTE, "[[0,4]]", false),
        (BYTE, "[[-1,4]]", true),
        (BYTE, "[[1,2],[-5,-3]]", true),
        // More than the byte can have, as all that is not 0.
        (BYTE, "[[8,18446744073709551615]]", false),
        (signed, "[[-1,4]]", false),
        (signed, "[[8,9223372036854775807]]", false),
        (signed, "[[8,9223372036854775808]]", true),
    ] {
        for class in [optional(ranges), variant(ranges)] {
            let found = parse(&text(selector, &class)).map_err(|error| error.to_string());
            let problem = found.err().unwrap_or_default();
            let wanted = "a range of values to select has some that the field cannot have";
            assert_eq!(problem.contains(wanted), is_refused, "{ranges}: {problem}");
            assert!(is_refused || problem.is_empty(), "{ranges}: {problem}");
        }
    }
}

/// Returns the error for a class `x` in a payload of `n` (a byte), `s` (signed), `b` (a structure with `m`), `a` (an
/// array of such), `x` and `z` (a byte).
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
        (r#"{"path":["q"]}"#, "reference 'q': no earlier field has this name"),
        (r#"{"path":["z"]}"#, "reference 'z': the field does not come before what refers to it"),
        (r#"{"path":["x"]}"#, "reference 'x': the field does not come before what refers to it"),
        (r#"{"path":["s"]}"#, "reference 's': the field is no unsigned integer"),
        (r#"{"path":["b"]}"#, "reference 'b': no earlier field has this name"),
        (r#"{"path":["n","m"]}"#, "reference 'n/m': no earlier field has this name"),
        (
            r#"{"path":["a","m"]}"#,
            "reference 'a/m': the field is in an array: which element is meant cannot be said",
        ),
        (r#"{"path":["v","q"]}"#, "reference 'v/q': no earlier field has this name"),
        (
            r#"{"origin":"packet-context","path":["n"]}"#,
            "reference 'packet-context/n': this part of the trace is not described",
        ),
        (r#"{"path":[null,"n"]}"#, "reference '../n': no earlier field has this name"),
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
        optional("v", ranges).ends_with("no earlier field has this name"),
        "{}",
        optional("v", ranges)
    );
}

#[test]
fn names_that_are_followed_by_a_step_up_need_not_be_there() {
    for path in [
        r#"["yes",null,"no",null,null,"n"]"#,
        r#"["a","b",null,null,null,"s","m",null,null,"n"]"#,
        r#"[null,"x",null,"n"]"#,
    ] {
        let inner = structure(&[("n", BYTE), ("t", &text(&format!(r#"{{"path":{path}}}"#)))]);
        assert_eq!(place(&[("n", BYTE), ("s", &inner)]), of_payload(&[0]), "{path}");
    }
    let found = problem(&text(r#"{"path":["n",null]}"#));
    assert!(
        found.contains("path: the number of names that are not followed by null is"),
        "{found}"
    );
    let found = problem(&text(r#"{"origin":"event-record-payload","path":["n",null,null,"n"]}"#));
    assert!(found.contains("no earlier field has this name"), "{found}");
}

use super::*;
use crate::read::metadata::json::scalars::variable;
use strata_model::schema::{
    Array, Encoding, Integer, Label, Length, Location, Optional, Range, Real, Role, Scope, Variant,
    VariantOption, Width,
};
use strata_model::{Base, ByteOrder, EnvValue, Flags, Uuid};

fn fixed(bits: u8) -> Integer {
    Integer { width: Width::Bits(bits), align: 1, ..variable() }
}

fn at(path: &[u32]) -> Location {
    Location::at(Scope::Payload, path.to_vec())
}

fn range(from: i128, to: i128) -> Range {
    Range { from, to }
}

fn of_bits(kind: &str, more: &str) -> FieldClass {
    class(&format!(
        r#"{{"type":"fixed-length-{kind}","length":12,"byte-order":"little-endian"{more}}}"#
    ))
}

#[test]
fn integers_have_their_width_sign_order_base_and_labels() {
    let unsigned = of_bits("unsigned-integer", "");
    assert_eq!(unsigned, FieldClass::Integer(fixed(12)));
    let more =
        r#","alignment":4,"preferred-display-base":16,"mappings":{"b":[[1,2],[4,4]],"a":[[0,9]]}"#;
    let label = |name: &str, ranges: &[Range]| Label { name: name.into(), ranges: ranges.to_vec() };
    let labels = [label("b", &[range(1, 2), range(4, 4)]), label("a", &[range(0, 9)])];
    let wanted = Integer {
        signed: true,
        align: 4,
        base: Base::Sixteen,
        labels: Some(labels.to_vec().into()),
        ..fixed(12)
    };
    assert_eq!(of_bits("signed-integer", more), FieldClass::Integer(wanted));
    for (base, expected) in [(2, Base::Two), (8, Base::Eight), (10, Base::Ten), (16, Base::Sixteen)]
    {
        let found = class(&format!(
            r#"{{"type":"variable-length-signed-integer","preferred-display-base":{base}}}"#
        ));
        let wanted = Integer { signed: true, base: expected, ..variable() };
        assert_eq!(found, FieldClass::Integer(wanted));
    }
    let unsigned = class(r#"{"type":"variable-length-unsigned-integer"}"#);
    assert_eq!(unsigned, FieldClass::Integer(variable()));
}

#[test]
fn bit_arrays_maps_and_booleans_are_integers_that_are_shown_otherwise() {
    let array = Integer { base: Base::Sixteen, ..fixed(12) };
    assert_eq!(of_bits("bit-array", ""), FieldClass::Integer(array.clone()));
    assert_eq!(of_bits("boolean", ""), FieldClass::Integer(Integer { is_bool: true, ..fixed(12) }));
    let FieldClass::Integer(map) =
        of_bits("bit-map", r#","flags":{"z":[[0,0]],"a":[[2,3],[11,11]]}"#)
    else {
        panic!("no integer")
    };
    let names: Vec<&str> =
        map.labels.iter().flat_map(|l| l.iter()).map(|l| l.name.as_str()).collect();
    assert_eq!((names, map.is_bit_map), (vec!["a", "z"], true));
    assert_eq!(Integer { labels: None, is_bit_map: false, ..map }, array);
}

#[test]
fn bits_in_the_order_that_is_not_the_byte_order_s_are_reversed() {
    for (bytes, bits, is_reversed) in [
        ("little-endian", "first-to-last", false),
        ("little-endian", "last-to-first", true),
        ("big-endian", "first-to-last", true),
        ("big-endian", "last-to-first", false),
    ] {
        let made = |kind: &str, length: u8| {
            class(&format!(
                r#"{{"type":"{kind}","length":{length},"byte-order":"{bytes}","bit-order":"{bits}"}}"#
            ))
        };
        let byte_order = if bytes == "big-endian" { ByteOrder::Big } else { ByteOrder::Little };
        let wanted = Integer { byte_order, is_reversed, ..fixed(5) };
        assert_eq!(made("fixed-length-unsigned-integer", 5), FieldClass::Integer(wanted));
        for width in [16, 32, 64] {
            let wanted = Real { bits: width, align: 1, byte_order, is_reversed };
            let found = made("fixed-length-floating-point-number", width);
            assert_eq!(found, FieldClass::Real(wanted));
        }
    }
}

#[test]
fn numbers_that_are_too_long_to_compute_with_are_their_bytes() {
    let long = |kind: &str, bits: u64, more: &str| {
        class(&format!(
            r#"{{"type":"fixed-length-{kind}","length":{bits},"byte-order":"big-endian"{more}}}"#
        ))
    };
    let blob = |align, bytes| FieldClass::Blob { align, length: Length::Static(bytes) };
    let labels = r#","alignment":8,"mappings":{"a":[[0,99999999999999999999]]}"#;
    assert_eq!(long("unsigned-integer", 128, labels), blob(8, 16));
    assert_eq!(long("signed-integer", 72, r#","alignment":64"#), blob(64, 9));
    for kind in ["bit-array", "bit-map", "boolean", "floating-point-number"] {
        assert_eq!(long(kind, 128, r#","alignment":16"#), blob(16, 16));
    }
}

#[test]
fn texts_and_blobs_have_their_length_and_encoding() {
    let encodings = [
        ("utf-16le", Encoding::Utf16(ByteOrder::Little)),
        ("utf-16be", Encoding::Utf16(ByteOrder::Big)),
        ("utf-32le", Encoding::Utf32(ByteOrder::Little)),
        ("utf-32be", Encoding::Utf32(ByteOrder::Big)),
    ];
    let dynamic = r#""length-field-location":{"path":["n"]}"#;
    let (three, of_n) = (Length::Static(3), Length::Dynamic(at(&[0])));
    assert_eq!(class(r#"{"type":"null-terminated-string"}"#), FieldClass::String);
    for (kind, length, wanted) in [("static", r#""length":3"#, &three), ("dynamic", dynamic, &of_n)]
    {
        let wanted = || wanted.clone();
        let text =
            class(&format!(r#"{{"type":"{kind}-length-string",{length},"encoding":"utf-8"}}"#));
        assert_eq!(text, FieldClass::Text { length: wanted() });
        let blob =
            class(&format!(r#"{{"type":"{kind}-length-blob",{length},"media-type":"a/b"}}"#));
        assert_eq!(blob, FieldClass::Blob { align: 8, length: wanted() });
        for (name, encoding) in encodings {
            let text = format!(r#"{{"type":"{kind}-length-string",{length},"encoding":"{name}"}}"#);
            assert_eq!(class(&text), FieldClass::Wide { length: Some(wanted()), encoding });
        }
    }
    for (name, encoding) in encodings {
        let text = format!(r#"{{"type":"null-terminated-string","encoding":"{name}"}}"#);
        assert_eq!(class(&text), FieldClass::Wide { length: None, encoding });
    }
}

#[test]
fn compound_classes_have_what_is_in_them() {
    let byte = || Box::new(class(BYTE));
    let array = format!(
        r#"{{"type":"static-length-array","length":2,"minimum-alignment":16,"element-field-class":{BYTE}}}"#
    );
    let wanted = Array { align: 16, length: Length::Static(2), element: byte() };
    assert_eq!(class(&array), FieldClass::Array(wanted));
    let location = r#""length-field-location":{"path":["n"]}"#;
    let array =
        format!(r#"{{"type":"dynamic-length-array",{location},"element-field-class":{BYTE}}}"#);
    let wanted = Array { align: 1, length: Length::Dynamic(at(&[0])), element: byte() };
    assert_eq!(class(&array), FieldClass::Array(wanted));
    let location = r#""selector-field-location":{"path":["n"]}"#;
    let optional = format!(
        r#"{{"type":"optional",{location},"selector-field-ranges":[[1,1],[3,9]],"field-class":{BYTE}}}"#
    );
    let ranges = vec![range(1, 1), range(3, 9)];
    let wanted = Optional { selector: at(&[0]), ranges, class: byte() };
    assert_eq!(class(&optional), FieldClass::Optional(wanted));
    let variant = format!(
        r#"{{"type":"variant",{location},"options":[{{"name":"a","selector-field-ranges":[[0,1]],"field-class":{BYTE}}},{{"selector-field-ranges":[[2,2]],"field-class":{{"type":"structure","minimum-alignment":32}}}}]}}"#
    );
    let empty = FieldClass::Structure(Structure { align: 32, members: Vec::new() });
    let option =
        |name: &str, range, class| VariantOption { name: name.into(), ranges: vec![range], class };
    let options = vec![option("a", range(0, 1), *byte()), option("", range(2, 2), empty)];
    assert_eq!(class(&variant), FieldClass::Variant(Variant { selector: at(&[0]), options }));
}

#[test]
fn aliases_stand_for_what_they_were_when_they_were_described() {
    let alias = |name: &str, class: &str| {
        format!(r#"{{"type":"field-class-alias","name":"{name}","field-class":{class}}}"#)
    };
    let pair = r#"{"type":"structure","member-classes":[{"name":"x","field-class":"byte"}]}"#;
    let fragments =
        [&alias("byte", BYTE), &alias("pair", pair), STREAM, &event(&[("p", r#""pair""#)])];
    let payload =
        schema(&fragments.map(|fragment| fragment as &str)).streams[0].events[0].payload.clone();
    let FieldClass::Structure(pair) = &payload.unwrap().members[0].class else { panic!("no pair") };
    assert_eq!(pair.members[0].class, class(BYTE));
    // An alias cannot use later aliases, or itself.
    for own in [r#""pair""#, r#""later""#] {
        let pair = alias("pair", own);
        let fragments = [&pair, &alias("later", BYTE), STREAM, &event(&[("p", r#""pair""#)])];
        let found = parse_tolerant(&metadata(&fragments.map(|fragment| fragment as &str))).unwrap();
        assert!(found.problems[0].to_string().contains("is not described"), "{:?}", found.problems);
    }
}

#[test]
fn roles_mean_something_in_their_part_only() {
    let role = |role: &str| {
        format!(
            r#"{{"type":"fixed-length-unsigned-integer","length":64,"byte-order":"big-endian","roles":["{role}"]}}"#
        )
    };
    let part = |name: &str, roles: &[&str]| {
        let member = |(index, name): (usize, &&str)| {
            format!(r#"{{"name":"m{index}","field-class":{}}}"#, role(name))
        };
        let members: Vec<String> = roles.iter().enumerate().map(member).collect();
        format!(r#""{name}":{{"type":"structure","member-classes":[{}]}}"#, members.join(","))
    };
    let header =
        ["packet-magic-number", "data-stream-class-id", "data-stream-id", "event-record-class-id"];
    let context = [
        "packet-total-length",
        "packet-content-length",
        "default-clock-timestamp",
        "packet-end-default-clock-timestamp",
        "discarded-event-record-counter-snapshot",
        "packet-sequence-number",
        "of-somebody",
    ];
    let trace =
        format!(r#"{{"type":"trace-class",{}}}"#, part("packet-header-field-class", &header));
    let clock = r#"{"type":"clock-class","id":"c","frequency":1}"#;
    let context = part("packet-context-field-class", &context);
    let events = part(
        "event-record-header-field-class",
        &["event-record-class-id", "default-clock-timestamp"],
    );
    let common = part("event-record-common-context-field-class", &["event-record-class-id"]);
    let stream = format!(
        r#"{{"type":"data-stream-class","default-clock-class-id":"c",{context},{events},{common}}}"#
    );
    let schema = schema(&[&trace, clock, &stream]);
    let roles = |part: &Option<Structure>| -> Vec<(Option<Role>, bool)> {
        let members = part.iter().flat_map(|part| &part.members);
        let role = |class: &FieldClass| match class {
            FieldClass::Integer(integer) => (integer.role, integer.clock == Some(0)),
            other => panic!("{other:?}"),
        };
        members.map(|member| role(&member.class)).collect()
    };
    let none = (None, false);
    let is = |role| (Some(role), false);
    assert_eq!(
        roles(&schema.packet_header),
        [is(Role::PacketMagic), is(Role::StreamClassId), is(Role::StreamId), none]
    );
    let stream = &schema.streams[0];
    assert_eq!(
        roles(&stream.packet_context),
        [
            is(Role::PacketTotalLength),
            is(Role::PacketContentLength),
            (None, true),
            (Some(Role::PacketEndTimestamp), true),
            is(Role::DiscardedEvents),
            is(Role::PacketSequenceNumber),
            none,
        ]
    );
    assert_eq!(roles(&stream.event_header), [is(Role::EventClassId), (None, true)]);
    assert_eq!(roles(&stream.event_common_context), [none]);
    assert_eq!(stream.clock, Some(0));
}

#[test]
fn fragments_have_what_they_say() {
    let uuid: Vec<String> = (0..16).map(|byte| byte.to_string()).collect();
    let uuid = uuid.join(",");
    let preamble =
        format!(r#"{{"type":"preamble","version":2,"uuid":[{uuid}],"extensions":{{}}}}"#);
    let blob = r#"{"type":"static-length-blob","length":16,"roles":["metadata-stream-uuid"]}"#;
    let trace = format!(
        r#"{{"type":"trace-class","namespace":"s","name":"t","uid":"u","environment":{{"z":-5,"a":"x\ny"}},"packet-header-field-class":{{"type":"structure","member-classes":[{{"name":"b","field-class":{BYTE}}},{{"name":"id","field-class":{blob}}}]}}}}"#
    );
    let clock = r#"{"type":"clock-class","id":"c","name":"clock","frequency":1000,"precision":7,"accuracy":9,"description":"d","uid":"00010203-0405-0607-0809-0a0b0c0d0e0f","origin":"unix-epoch","offset-from-origin":{"seconds":-3,"cycles":999}}"#;
    let stream = r#"{"type":"data-stream-class","id":18446744073709551615,"name":"s"}"#;
    let event = r#"{"type":"event-record-class","data-stream-class-id":18446744073709551615,"id":7,"name":"e","attributes":{"lttng.org,2009":{"log-level":"debug:line","emf-uri":"u:i"}}}"#;
    let text: String =
        [&preamble, &trace, clock, stream, event].map(|one| format!("\x1e {one}\n")).concat();
    let schema = parse(text.as_bytes()).unwrap();
    let bytes = Uuid([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!((schema.uuid, schema.packet_uuid), (Some(bytes), Some(1)));
    assert_eq!(
        schema.environment,
        [
            ("z".to_owned(), EnvValue::Integer(-5)),
            ("a".to_owned(), EnvValue::Text("x\ny".to_owned())),
        ]
    );
    let names = (schema.namespace.as_deref(), schema.name.as_deref(), schema.uid.as_deref());
    assert_eq!(names, (Some("s"), Some("t"), Some("u")));
    let clock = &schema.clocks[0];
    assert_eq!((clock.name.as_str(), clock.description.as_str()), ("clock", "d"));
    assert_eq!((clock.frequency, clock.precision), (1000, 7));
    assert_eq!((clock.offset_s, clock.offset_cycles, clock.absolute), (-3, 999, true));
    assert_eq!(clock.uuid, Some(bytes));
    let stream = &schema.streams[0];
    assert_eq!((stream.id, stream.name.as_deref(), stream.clock), (u64::MAX, Some("s"), None));
    let event = &stream.events[0];
    assert_eq!((event.id, event.name.as_str(), event.loglevel), (7, "e", Some(13)));
    assert_eq!(event.emf_uri.as_deref(), Some("u:i"));
}

#[test]
fn flags_of_our_own_metadata_are_flags() {
    let more = r#","mappings":{"A":[[1,1]]},"attributes":{"strata":{"flags":2}}"#;
    let FieldClass::Integer(integer) = of_bits("unsigned-integer", more) else {
        panic!("no integer")
    };
    assert_eq!(integer.flags, Some(Flags { low_bits: 2 }));
}

#[test]
fn names_with_control_characters_are_escaped() {
    let payload = payload(&[(r"a\u001b[2J\n", BYTE)]);
    assert_eq!(payload.members[0].name, r"a\u{1b}[2J\n");
}

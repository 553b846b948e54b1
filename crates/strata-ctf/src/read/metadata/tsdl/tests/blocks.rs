//! Tests of blocks (trace, environment, clocks, streams, events), and of what remains of broken ones.

use super::*;
use strata_model::{ClockClass, EnvValue, Uuid};

const UUID: Uuid = Uuid(*b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff");

#[test]
fn trace_with_header_has_roles_and_uuid() {
    for (name, order) in
        [("le", ByteOrder::Little), ("be", ByteOrder::Big), ("network", ByteOrder::Big)]
    {
        let text = format!(
            "\u{feff}trace {{ major = 1; minor = 8; uuid = \"00112233-4455-6677-8899-aabbccddeeff\"; \
             byte_order = {name}; other = 3; packet.header := struct {{ u32 magic; u8 uuid[16]; \
             u32 stream_id; u32 stream_instance_id; }}; }}; \
             typealias integer {{ size = 8; }} := u8; typealias integer {{ size = 32; }} := u32;"
        );
        let schema = parse(text.as_bytes()).unwrap();
        assert_eq!(schema.uuid, Some(UUID));
        let header = schema.packet_header.unwrap();
        assert_eq!(integer(&named(&header, "magic")).byte_order, order);
        let role = |name| integer(&named(&header, name)).role;
        assert_eq!(role("magic"), Some(Role::PacketMagic));
        assert_eq!(role("stream_id"), Some(Role::StreamClassId));
        assert_eq!(role("stream_instance_id"), Some(Role::StreamId));
        assert_eq!(array(&named(&header, "uuid")).length, Length::Static(16));
    }
}

#[test]
fn trace_block_that_cannot_be_used_is_an_error() {
    let cases = [
        ("", "metadata line 1, column 1: the metadata has no trace block"),
        ("event { };", "metadata line 1, column 1: the metadata has no trace block"),
        ("\ntrace { major = 1; minor = 8;", "metadata line 2, column 1: block 'trace' begins here and has no end"),
        ("trace { major = 1; minor = 8; };", "metadata line 1, column 1: the trace block has no byte_order"),
        ("trace { minor = 8; byte_order = le; };", "metadata line 1, column 1: the trace block has no major version"),
        ("trace { major = 1; byte_order = le; };", "metadata line 1, column 1: the trace block has no minor version"),
        ("trace { major = 2; minor = 8; byte_order = le; };", "metadata line 1, column 17: the major version is '2', expected 1"),
        ("trace { major = 1; minor = 9; byte_order = le; };", "metadata line 1, column 28: the minor version is '9', expected 8"),
        ("trace { byte_order = native; };", "metadata line 1, column 22: the trace's byte order is 'native', expected le or be"),
        ("trace { byte_order = pdp; };", "metadata line 1, column 22: a byte order is 'pdp', expected le, be, network or native"),
        ("trace { major = 1; minor = 8; byte_order = le; uuid = \"1\"; };", "metadata line 1, column 55: a UUID is '1', expected 32 hexadecimal digits as 8-4-4-4-12"),
        ("trace { major = 1; minor = 8; byte_order = le; packet.header := string; };", "metadata line 1, column 65: a part of packets or events is 'another type', expected a structure"),
        ("trace { major = 1; major = 1; minor = 8; byte_order = le; };", "metadata line 1, column 20: attribute 'major' is described a second time"),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_tolerant(text.as_bytes()).unwrap_err().to_string(), expected, "{text}");
        assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn trace_described_twice_is_read_only_if_both_are_the_same() {
    let again = "trace { major = 1; minor = 8;\n byte_order = be; };";
    let parsed = tolerant(&with_head("be", again));
    let expected = "metadata line 3, column 1: block 'trace' is described a second time";
    assert_eq!(parsed.problems[0].to_string(), expected);
    assert_eq!(parsed.problems.len(), 1);
    let text = with_head("be", "trace { major = 1; minor = 8; byte_order = le; };");
    let found = parse_tolerant(text.as_bytes()).unwrap_err();
    assert_eq!(found.to_string(), expected);
}

/// Returns the numbers of streams and events that remain of a text ended by `first` and `second`.
fn left_of(first: &str, second: &str) -> (usize, usize) {
    let clock = "clock { name = k; freq = 7; };";
    let text = with_head("le", &format!("{clock}{first}{second}"));
    let found = tolerant(&text);
    let events = found.schema.streams.iter().map(|stream| stream.events.len()).sum();
    assert!(!found.problems.is_empty(), "{text}");
    for problem in &found.problems {
        let problem = problem.to_string();
        let ends = ["second time", "not described", "could not be read"];
        assert!(ends.iter().any(|end| problem.ends_with(end)), "{problem}");
    }
    (found.schema.streams.len(), events)
}

#[test]
fn what_is_described_in_two_ways_is_read_in_neither() {
    let stream = "stream { id = 1; event.header := struct { integer { size = 64; map = clock.k.value; } t; u8 id; }; };";
    let event = "event { name = e; id = 3; stream_id = 1; fields := struct { u8 a; }; };";
    let other = "event { name = o; id = 4; stream_id = 1; };";
    let all = format!("{stream}{event}{other}");
    for (second, left) in [
        // An equal description is accepted.
        (stream.to_owned(), (1, 2)),
        (event.to_owned(), (1, 2)),
        // If the descriptions differ, neither is used.
        (event.replace("name = e", "name = f"), (1, 1)),
        (event.replace("u8 a", "int a"), (1, 1)),
        (event.replace("u8 a", "u8 b"), (1, 1)),
        (event.replace("fields", "context"), (1, 1)),
        (stream.replace("u8 id", "integer { size = 16; } id"), (0, 0)),
        (stream.replace("; u8 id;", ";"), (0, 0)),
        ("stream { id = 1; };".to_owned(), (0, 0)),
        ("clock { name = k; freq = 8; };".to_owned(), (0, 0)),
        ("clock { name = k; freq = 7; offset = 3; };".to_owned(), (0, 0)),
    ] {
        assert_eq!(left_of(&all, &second), left, "{second}");
    }
}

#[test]
fn types_that_are_declared_in_two_ways_are_used_in_neither() {
    let uses = |name: &str| format!("event {{ name = e; fields := struct {{ {name} a; }}; }};");
    for (first, second, name, events) in [
        (
            "typealias integer { size = 16; } := it;",
            "typealias integer { size = 24; } := it;",
            "it",
            0,
        ),
        (
            "typealias integer { size = 16; } := it;",
            "typealias integer { align = 8; size = 16; } := it;",
            "it",
            1,
        ),
        ("struct s { u8 a; };", "struct s { u8 b; };", "struct s", 0),
        ("struct s { u8 n; u8 a[n]; };", "struct s { u8 n; u8 a[n]; };", "struct s", 1),
        ("struct s { u8 n; u8 a[n]; };", "struct s { u8 n; u8 a[3]; };", "struct s", 0),
        ("enum s : u8 { a, b };", "enum s : u8 { b, a };", "enum s", 0),
        ("variant v { u8 a; u8 b; };", "variant v { u8 a; };", "variant v <t>", 0),
    ] {
        assert_eq!(left_of(&format!("{first}{second}"), &uses(name)).1, events, "{second}");
    }
    // An inner scope may declare a name anew.
    let inner = "struct { typealias integer { size = 16; } := u8; u8 a; } x;";
    assert_eq!(
        integer(&structure(&named(&payload(inner), "x")).members[0].class).width,
        Width::Bits(16)
    );
}

#[test]
fn types_with_an_attribute_twice_are_refused() {
    for class in [
        "integer { size = 8; size = 16; }",
        "integer { size = 8; signed = true; signed = false; }",
        "floating_point { exp_dig = 8; mant_dig = 24; exp_dig = 11; }",
    ] {
        let found = field_problem(&format!("{class} a;")).to_string();
        assert!(found.ends_with("is described a second time"), "{class}: {found}");
    }
}

#[test]
fn environment_has_numbers_and_strings() {
    let schema = schema(
        r#"env { a = 0x10; b = 010; c = -5; d = "x\ny\"\\\t\x41\101"; e = word; "f g" = 3; h = 'c';
        i = 18446744073709551615; j = "two
lines"; k = ""; l = -9223372036854775808; m = 0b101; }; env { a = 5; };"#,
    );
    let number = |name: &str| match schema.environment(name) {
        Some(EnvValue::Integer(number)) => *number,
        other => panic!("{name}: {other:?}"),
    };
    let text = |name: &str| match schema.environment(name) {
        Some(EnvValue::Text(text)) => text.clone(),
        other => panic!("{name}: {other:?}"),
    };
    let numbers = ["a", "b", "c", "f g", "i", "l", "m"].map(number);
    assert_eq!(numbers, [5, 8, -5, 3, -1, i64::MIN, 5]);
    let texts = ["d", "e", "h", "j", "k"].map(text);
    assert_eq!(texts, ["x\ny\"\\\tAA", "word", "c", "two\nlines", ""]);
    assert_eq!(schema.environment.len(), 12);
    assert_eq!(schema.environment[0].0, "a");
}

#[test]
fn strings_with_all_escapes() {
    let schema =
        schema(r#"env { a = "\a\b\f\n\r\t\v\'\"\?\\\q\0\1012\x4g\xc3\xa9é\303\251\377"; };"#);
    let expected = "\x07\x08\x0c\n\r\t\x0b'\"?\\q\0A2\x04gééé\u{fffd}";
    assert_eq!(schema.environment("a"), Some(&EnvValue::from(expected)));
}

#[test]
fn text_that_is_no_utf8_is_read_with_replacements() {
    let mut text = with_head("le", "env { a = \"x").into_bytes();
    text.extend(b"\xff\xfe\"; };\0\0\0");
    let schema = parse(&text).unwrap();
    assert_eq!(schema.environment("a"), Some(&EnvValue::Text("x\u{fffd}\u{fffd}".into())));
}

#[test]
fn comments_stand_anywhere() {
    let schema = schema(
        "// one \" line { \n/* ev**ent { */ event /* x */ { // }; \n name = /**/ e; /* \" */ }; // end",
    );
    assert_eq!(schema.streams[0].events[0].name, "e");
}

#[test]
fn clock_has_defaults_and_normal_offsets() {
    let schema = schema(
        "clock { name = a; }; clock { name = \"b c\"; uuid = \"00112233-4455-6677-8899-aabbccddeeff\"; \
         description = \"d\"; freq = 7; precision = 3; offset_s = -3; offset = 20; absolute = TRUE; new = 1; }; \
         clock { name = c; offset = -5; };",
    );
    let default = ClockClass {
        name: "a".into(),
        uuid: None,
        description: String::new(),
        frequency: 1_000_000_000,
        precision: 0,
        offset_s: 0,
        offset_cycles: 0,
        absolute: false,
    };
    assert_eq!(schema.clocks[0], default);
    let other = ClockClass {
        name: "b c".into(),
        uuid: Some(UUID),
        description: "d".into(),
        frequency: 7,
        precision: 3,
        offset_s: -1,
        offset_cycles: 6,
        absolute: true,
    };
    assert_eq!(schema.clocks[1], other);
    assert_eq!((schema.clocks[2].offset_s, schema.clocks[2].offset_cycles), (-1, 999_999_995));
}

#[test]
fn clock_that_cannot_be_is_refused() {
    let cases = [
        ("clock { freq = 1; };", "the clock has no name"),
        (
            "clock { name = a; freq = 0; };",
            "a clock's frequency is '0', expected 1 to 18446744073709551615 Hz",
        ),
        (
            "clock { name = a; uuid = 3; };",
            "a UUID is '3', expected 32 hexadecimal digits as 8-4-4-4-12",
        ),
        ("clock { name = 3; };", "a clock's name is '3', expected a string"),
        ("clock { name = a; name = b; };", "attribute 'name' is described a second time"),
        (
            "clock { name = a; }; clock { name = a; freq = 5; };",
            "clock 'a' is described a second time",
        ),
        (
            "clock { name = a; freq = 1; offset_s = 9223372036854775807; offset = 1; };",
            "a clock's offset is '9223372036854775808 s', expected seconds of 64 bits",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(problem(text).what.to_string(), expected);
    }
}

#[test]
fn clock_that_is_repeated_word_for_word_is_one() {
    let text = "clock { name = a; freq = 5; }; clock { freq = 5; name = a; };";
    both(text, |_, schema| assert_eq!(schema.clocks.len(), 1));
}

#[test]
fn packet_context_and_event_header_have_roles_and_the_only_clock() {
    let text = "clock { name = c; }; stream { packet.context := struct { u8 packet_size; u8 content_size; \
                u8 timestamp_begin; u8 timestamp_end; u8 events_discarded; u8 packet_seq_num; u8 cpu_id; }; \
                event.header := struct { enum : u8 { a, b } id; variant <id> { struct { u8 timestamp; } a; \
                struct { u8 id; u8 timestamp; } b; } v; }; event.context := struct { u8 timestamp; u8 id; }; };";
    both(text, |_, schema| {
        let stream = &schema.streams[0];
        let context = stream.packet_context.as_ref().unwrap();
        let roles: Vec<_> =
            context.members.iter().map(|member| integer(&member.class).role).collect();
        let expected = [
            Some(Role::PacketTotalLength),
            Some(Role::PacketContentLength),
            None,
            Some(Role::PacketEndTimestamp),
            Some(Role::DiscardedEvents),
            Some(Role::PacketSequenceNumber),
            None,
        ];
        assert_eq!(roles, expected);
        let clocks: Vec<_> =
            context.members.iter().map(|member| integer(&member.class).clock).collect();
        assert_eq!(clocks, [None, None, Some(0), Some(0), None, None, None]);
        let header = stream.event_header.as_ref().unwrap();
        assert_eq!(integer(&named(header, "id")).role, Some(Role::EventClassId));
        let v = named(header, "v");
        let option = |index: usize| structure(&variant(&v).options[index].class).clone();
        assert_eq!(integer(&named(&option(0), "timestamp")).clock, Some(0));
        assert_eq!(integer(&named(&option(1), "id")).role, Some(Role::EventClassId));
        assert_eq!(integer(&named(&option(1), "timestamp")).clock, Some(0));
        let common = stream.event_common_context.as_ref().unwrap();
        assert_eq!(integer(&named(common, "timestamp")).clock, None);
        assert_eq!(integer(&named(common, "id")).role, None);
        assert_eq!(stream.clock, Some(0));
    });
}

#[test]
fn times_without_any_clock_get_one() {
    let schema =
        schema("stream { event.header := struct { u8 timestamp; }; }; event { name = e; };");
    assert_eq!((schema.clocks.len(), schema.clocks[0].name.as_str()), (1, "default"));
    assert_eq!(schema.streams[0].clock, Some(0));
    let none = super::schema("stream { event.header := struct { u8 id; }; };");
    assert_eq!((none.clocks.len(), none.streams[0].clock), (0, None));
}

#[test]
fn times_of_several_clocks_are_refused() {
    let clocks = "clock { name = a; }; clock { name = b; }; typealias integer { size = 64; map = clock.a.value; } := ta;\
                  typealias integer { size = 64; map = clock.b.value; } := tb;";
    let found =
        problem(&format!("{clocks} stream {{ event.header := struct {{ u8 timestamp; }}; }};"));
    let expected = "a time without a map is 'timestamp', \
                    expected map = clock.NAME.value, as there are several clocks";
    assert_eq!(found.what.to_string(), expected);
    let found = problem(&format!(
        "{clocks} stream {{ id = 3; event.header := struct {{ ta a; tb b; }}; }};"
    ));
    let expected = "stream 3 has times of two clocks, 'a' and 'b': expected one";
    assert_eq!(found.what.to_string(), expected);
    let text = format!("{clocks} stream {{ event.header := struct {{ ta a; }}; }}; event {{ id = 1; fields := struct {{ tb x; }}; }}; event {{ id = 2; fields := struct {{ ta x; }}; }};");
    let parsed = tolerant(&with_head("le", &text));
    assert_eq!(parsed.problems.len(), 1);
    assert_eq!(
        (parsed.schema.streams[0].clock, parsed.schema.streams[0].events.len()),
        (Some(0), 1)
    );
    let text = format!("{clocks} stream {{ id = 1; event.header := struct {{ ta a; }}; }}; stream {{ id = 2; event.header := struct {{ tb a; }}; }};");
    let clocks: Vec<_> = schema(&text).streams.iter().map(|stream| stream.clock).collect();
    assert_eq!(clocks, [Some(0), Some(1)]);
}

#[test]
fn roles_are_of_members_of_the_part_itself() {
    let text = "stream { packet.context := struct { u8 packet_size; struct { u8 packet_size; \
                u8 timestamp_end; int content_size; } s; }; event.header := struct { struct { u8 id; } s; }; };";
    let schema = schema(text);
    let context = schema.streams[0].packet_context.as_ref().unwrap();
    assert_eq!(integer(&named(context, "packet_size")).role, Some(Role::PacketTotalLength));
    let s = structure(&named(context, "s")).clone();
    let roles: Vec<_> = s.members.iter().map(|member| integer(&member.class).role).collect();
    assert_eq!(roles, [None, None, None]);
    assert_eq!(integer(&named(&s, "timestamp_end")).clock, Some(0), "it is a time all the same");
    let header = schema.streams[0].event_header.as_ref().unwrap();
    let id = named(structure(&named(header, "s")), "id");
    assert_eq!(integer(&id).role, Some(Role::EventClassId));
}

#[test]
fn bytes_that_are_no_text_stand_in_comments_and_strings_only() {
    let mut text = with_head("le", "/* ").into_bytes();
    text.extend(b"\xff\xc3 */ env { a = \"\xc3\\\xa9\"; }; event { name = e; \xff };");
    let parsed = parse_tolerant(&text).unwrap();
    assert_eq!(parsed.schema.environment("a"), Some(&EnvValue::from("é")));
    assert_eq!(parsed.problems.len(), 1);
    let expected = "expected a word, a number, a string or a mark, found '\u{fffd}'";
    assert_eq!(parsed.problems[0].what.to_string(), expected);
}

#[test]
fn role_of_a_signed_field_is_refused() {
    let found = problem("stream { packet.context := struct { int packet_size; }; };");
    let expected =
        "a field that readers need is 'signed: packet_size', expected an unsigned integer";
    assert_eq!(found.what.to_string(), expected);
}

#[test]
fn event_has_all_its_attributes() {
    let schema = schema(
        "stream { id = 7; }; event { name = \"p:e\"; id = 0x10; stream_id = 7; loglevel = 13; \
         model.emf.uri = \"http://m\"; zork = 3; zork.a = \"x\"; new := struct { u8 a; }; \
         context := struct { u8 c; }; fields := struct { u8 f; }; };",
    );
    let event = &schema.streams[0].events[0];
    assert_eq!((event.id, event.name.as_str(), event.loglevel), (16, "p:e", Some(13)));
    assert_eq!(event.emf_uri.as_deref(), Some("http://m"));
    assert_eq!(event.specific_context.as_ref().unwrap().members[0].name, "c");
    assert_eq!(event.payload.as_ref().unwrap().members[0].name, "f");
}

#[test]
fn event_names_are_words_or_strings() {
    for (written, name) in [("e", "e"), ("a.b", "a.b"), ("\"x y\"", "x y"), ("\"\"", "")] {
        let schema = schema(&format!("event {{ name = {written}; }};"));
        assert_eq!(schema.streams[0].events[0].name, name);
        assert_eq!(schema.streams[0].events[0].payload, None);
    }
}

#[test]
fn events_come_before_their_stream_or_without_one() {
    let before = schema(
        "event { name = e; id = 1; stream_id = 3; }; stream { id = 3; }; stream { id = 4; };",
    );
    assert_eq!((before.streams[0].id, before.streams[0].events.len()), (3, 1));
    let single = schema("stream { id = 9; }; event { name = e; };");
    assert_eq!(single.streams[0].events.len(), 1);
    let none = schema("event { name = a; id = 1; }; event { name = b; id = 2; stream_id = 0; };");
    assert_eq!((none.streams.len(), none.streams[0].events.len()), (1, 2));
}

#[test]
fn events_of_no_stream_are_refused() {
    let found = problem("stream { id = 1; }; event { name = e; stream_id = 2; };");
    assert_eq!(found.to_string(), "metadata line 3, column 21: stream '2' is not described");
    let found = problem("stream { id = 1; }; stream { id = 2; }; event { name = e; };");
    let expected = "the event has no stream_id, and there are several streams";
    assert_eq!(found.what.to_string(), expected);
    let found = problem("stream { id = 1; }; stream { id = 1; };");
    assert_eq!(found.what.to_string(), "stream '1' is described a second time");
    let found = problem("event { id = 1; }; event { id = 1; };");
    assert_eq!(found.what.to_string(), "event '1' is described a second time");
    let found = problem("event { id = -1; };");
    assert_eq!(found.what.to_string(), "an event's id is '-1', expected 0 to 18446744073709551615");
}

#[test]
fn callsites_are_read_past() {
    let schema =
        schema("callsite { name = \"e\"; func = \"main\"; line = 3; }; event { name = e; };");
    assert_eq!(schema.streams[0].events.len(), 1);
}

#[test]
fn types_are_found_wherever_they_are_declared_on_the_top_level() {
    let schema = schema("event { name = e; fields := struct { late x; }; }; typealias integer { size = 24; } := late;");
    assert_eq!(integer(&payload_of(schema).members[0].class).width, Width::Bits(24));
}

/// Parses the text and returns which of the events a, b, c remain, and the problems.
fn left(text: &str) -> (String, Vec<String>) {
    let parsed = tolerant(&with_head("le", text));
    let events = parsed.schema.streams.iter().flat_map(|stream| &stream.events);
    (
        events.map(|event| event.name.as_str()).collect(),
        parsed.problems.iter().map(ToString::to_string).collect(),
    )
}

#[test]
fn tolerant_leaves_out_the_bad_event_only() {
    let good = |name: &str, id| {
        format!("event {{ name = {name}; id = {id}; fields := struct {{ u8 x; }}; }};\n")
    };
    let (a, c) = (good("a", 1), good("c", 3));
    let cases = [
        ("event { name = b; id = 2; fields := struct { none x; }; };", "metadata line 4, column 46: type 'none' is not described"),
        ("event { name = b; id = 2; fields := struct { u8 x; };", "metadata line 4, column 1: block 'event' begins here and has no end"),
        ("event { name = b; id = 2; fields := struct { u8 x;", "metadata line 4, column 1: block 'event' begins here and has no end"),
        ("event { name = \"b; id = 2; };", "metadata line 4, column 16: a string begins here and has no end"),
        ("event { name = b; id = 2; }; };", "metadata line 4, column 30: expected a block, found '}'"),
        ("event { name = b $ id = 2; };", "metadata line 4, column 18: expected a word, a number, a string or a mark, found '$'"),
        ("event { name = b; id = 99999999999999999999; };", "metadata line 4, column 24: expected an integer, at most 18446744073709551615, found '99999999999999999999'"),
        ("event { name = b; id = 0x; };", "metadata line 4, column 24: expected an integer, at most 18446744073709551615, found '0x'"),
        ("something else;", "metadata line 4, column 1: expected a block or a declaration, found 'something'"),
        ("other { x = 1; };", "metadata line 4, column 1: expected a block or a declaration, found 'other'"),
        ("event { name; };", "metadata line 4, column 13: expected '=' or ':=', found ';'"),
        ("event { 3 = 4; };", "metadata line 4, column 9: expected an attribute's name, a declaration or '}', found 3"),
        ("event { name = b } ;", "metadata line 4, column 18: expected ';', found '}'"),
        ("event { id = 2 };", "metadata line 4, column 16: expected ';', found '}'"),
        ("é;", "metadata line 4, column 1: expected a word, a number, a string or a mark, found 'é'"),
    ];
    for (bad, expected) in cases {
        let (events, problems) = left(&format!("{a}{bad}\n{c}"));
        assert!(
            events.starts_with('a') && events.ends_with('c') && events.len() <= 3,
            "{bad}: {events}"
        );
        let first = problems.first().map(String::as_str).unwrap_or("none");
        assert_eq!(first, expected, "{bad}");
        assert_eq!(problems.len(), 1, "{bad}: {problems:?}");
    }
}

#[test]
fn tolerant_with_a_comment_that_has_no_end_keeps_what_is_before() {
    let (events, problems) = left("event { name = a; };\n/* event { name = b; id = 1; };");
    assert_eq!(events, "a");
    assert_eq!(problems, ["metadata line 4, column 1: a comment begins here and has no end"]);
}

#[test]
fn tolerant_with_a_missing_semicolon_keeps_the_next_block() {
    let (events, problems) = left("event { name = a; }\nevent { name = b; id = 1; };");
    assert_eq!(events, "b");
    assert_eq!(problems, ["metadata line 3, column 1: block 'event' begins here and has no end"]);
}

#[test]
fn tolerant_lists_a_hundred_problems_and_counts_the_others() {
    let parsed = tolerant(&with_head("le", &"event { id = x; };\n".repeat(250)));
    assert_eq!(parsed.problems.len(), 101);
    assert_eq!(parsed.problems[99].line, 102);
    assert_eq!(parsed.problems[100].to_string(), "metadata: 150 further problems");
}

#[test]
fn columns_count_characters() {
    let found = problem("env { a = \"äöü\"; b = ;");
    assert_eq!((found.line, found.column), (3, 1));
    let found = problem("env { a = \"äöü\"; b = ; };");
    assert_eq!((found.line, found.column), (3, 22));
}

#[test]
fn what_keeps_all_from_being_read_does_not_hide_the_first_problem() {
    let text = "typealias integr { size = 8; } := uint8_t;\n\
                trace { major = 1; minor = 8; byte_order = le;\n\
                packet.header := struct { uint8_t x; }; };";
    let error = parse_tolerant(text.as_bytes()).unwrap_err();
    assert_eq!((error.line, error.column), (1, 18), "{error}");
    let said = error.to_string();
    assert!(said.contains("and line 3, column 27: type 'uint8_t' is not described"), "{said}");
    // The fault is also shown if the trace block itself is wrong, but later faults are not.
    for front in ["typealias integer { size = 8 } := u8;", "event { name = ; };"] {
        let text = format!("{front}\ntrace {{ major = ; }};\nevent {{ name = ; }};");
        let error = parse_tolerant(text.as_bytes()).unwrap_err();
        assert!(matches!(error.what, MetadataProblem::Fatal { line: 2, .. }), "{error}");
        assert_eq!(error.line, 1, "{error}");
    }
    let error = parse_tolerant(b"trace { major = ; };\nevent { name = ; };").unwrap_err();
    assert!(matches!(error.what, MetadataProblem::Expected { .. }), "{error}");
}

use super::*;

/// Returns the error of metadata that cannot be read at all.
fn fatal(text: &str) -> String {
    parse_tolerant(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_with_a_class_is_reported_with_the_way_to_it() {
    let place = "metadata line 3, column 2: fragment 2 (event-record-class), \
                 /payload-field-class/member-classes/1 (x)/field-class";
    let integer = |more: &str| format!(r#"{{"type":"fixed-length-unsigned-integer",{more}}}"#);
    let real =
        r#"{"type":"fixed-length-floating-point-number","length":80,"byte-order":"big-endian"}"#;
    let map = |flags: &str| {
        format!(
            r#"{{"type":"fixed-length-bit-map","length":4,"byte-order":"big-endian","flags":{flags}}}"#
        )
    };
    let little = r#""length":8,"byte-order":"little-endian""#;
    let location = r#""selector-field-location":{"path":["n"]}"#;
    let option =
        |ranges: &str| format!(r#"{{"selector-field-ranges":{ranges},"field-class":{BYTE}}}"#);
    for (class, wanted) in [
        ("5".to_owned(), ": expected an object, found 5"),
        (r#""none""#.to_owned(), ": field class alias 'none' is not described"),
        ("{}".to_owned(), ": it has no type"),
        (r#"{"type":"wrong"}"#.to_owned(), "/type: it is 'wrong', expected a type of field classes of CTF 2"),
        (r#"{"type":7}"#.to_owned(), "/type: expected a string, found 7"),
        (integer(r#""length":8"#), ": it has no byte-order"),
        (
            integer(r#""length":8,"byte-order":"pdp""#),
            "/byte-order: it is 'pdp', expected 'little-endian' or 'big-endian'",
        ),
        (
            integer(&format!(r#"{little},"bit-order":"x""#)),
            "/bit-order: it is 'x', expected 'first-to-last' or 'last-to-first'",
        ),
        (integer(r#""byte-order":"big-endian""#), ": it has no length"),
        (
            integer(r#""length":65,"byte-order":"big-endian","alignment":8"#),
            "/length: it is '65', expected 1 to 64 bits, or whole bytes with an alignment of whole bytes",
        ),
        (
            integer(r#""length":72,"byte-order":"big-endian""#),
            "/length: it is '72', expected 1 to 64 bits, or whole bytes with an alignment of whole bytes",
        ),
        (
            integer(r#""length":0,"byte-order":"big-endian""#),
            "/length: it is '0', expected 1 to 64 bits, or whole bytes with an alignment of whole bytes",
        ),
        (
            integer(r#""length":-1,"byte-order":"big-endian""#),
            "/length: expected an integer from 0 to 18446744073709551615, found -1",
        ),
        (
            integer(r#""length":8.0,"byte-order":"big-endian""#),
            "/length: expected an integer from 0 to 18446744073709551615, found 8.0",
        ),
        (
            integer(&format!(r#"{little},"alignment":3"#)),
            "/alignment: expected a power of two from 1 to 2147483648, found 3",
        ),
        (
            integer(&format!(r#"{little},"preferred-display-base":7"#)),
            "/preferred-display-base: it is '7', expected 2, 8, 10 or 16",
        ),
        (
            integer(&format!(r#"{little},"mappings":{{"a":[[2,1]]}}"#)),
            "/mappings/a/0: a range is '2 to 1', expected the lower end first",
        ),
        (
            integer(&format!(r#"{little},"mappings":{{"a":[[1]]}}"#)),
            "/mappings/a/0: the number of a range's ends is '1', expected two",
        ),
        (
            integer(&format!(r#"{little},"mappings":{{"a":[]}}"#)),
            "/mappings/a: the number of ranges is '0', expected at least one",
        ),
        (
            integer(&format!(r#"{little},"mappings":{{"a":[[0,99999999999999999999]]}}"#)),
            "/mappings/a/0/1: expected an integer of 64 bits, found 1e20",
        ),
        (
            integer(&format!(r#"{little},"mappings":{{"a":[[0,0]],"a":[[1,1]]}}"#)),
            "/mappings: property 'a' is described a second time",
        ),
        (
            integer(&format!(r#"{little},"roles":[1]"#)),
            "/roles/0: expected a string, found 1",
        ),
        (
            real.to_owned(),
            "/length: it is '80', expected 16, 32 or 64 bits, or more with an alignment of whole bytes",
        ),
        (map("{}"), "/flags: the number of flags is '0', expected at least one"),
        (map(r#"{"a":[[3,4]]}"#), "/flags/a: a flag is 'bits 3 to 4', expected bits that there are"),
        (
            r#"{"type":"null-terminated-string","encoding":"utf-7"}"#.to_owned(),
            "/encoding: it is 'utf-7', expected 'utf-8', 'utf-16be', 'utf-16le', 'utf-32be' or 'utf-32le'",
        ),
        (r#"{"type":"static-length-string"}"#.to_owned(), ": it has no length"),
        (r#"{"type":"dynamic-length-blob"}"#.to_owned(), ": it has no length-field-location"),
        (
            r#"{"type":"dynamic-length-blob","length-field-location":{"path":[]}}"#.to_owned(),
            "/length-field-location/path: the number of names is '0', expected 1 to 64",
        ),
        (
            r#"{"type":"static-length-blob","length":1,"media-type":1}"#.to_owned(),
            "/media-type: expected a string, found 1",
        ),
        (r#"{"type":"static-length-array","length":1}"#.to_owned(), ": it has no element-field-class"),
        (format!(r#"{{"type":"variant",{location},"options":[]}}"#), ": the variant has no options"),
        (
            format!(
                r#"{{"type":"variant",{location},"options":[{},{}]}}"#,
                option("[[0,5]]"),
                option("[[5,6]]")
            ),
            ": a value of the selector is '5, of two options', expected one option",
        ),
        (
            format!(r#"{{"type":"variant",{location},"options":[{}]}}"#, option("[]")),
            "/options/0/selector-field-ranges: the number of ranges is '0', expected at least one",
        ),
        (
            format!(
                r#"{{"type":"structure","member-classes":[{{"name":"a","field-class":{BYTE}}},{{"name":"a","field-class":{BYTE}}}]}}"#
            ),
            "/1: member 'a' is described a second time",
        ),
    ] {
        assert_eq!(problem(&class), format!("{place}{wanted}"), "{class}");
    }
}

#[test]
fn what_is_wrong_with_a_fragment_leaves_the_others() {
    for (fragment, wanted) in [
        ("[]", "fragment 1, /: expected an object, found an array"),
        ("{}", "fragment 1, /: it has no type"),
        (r#"{"type":"later"}"#, "fragment 1 (later), /type: it is 'later', expected a type of fragments of CTF 2"),
        (
            r#"{"type":"field-class-alias","field-class":{}}"#,
            "fragment 1 (field-class-alias), /: it has no name",
        ),
        (
            r#"{"type":"clock-class","frequency":1}"#,
            "fragment 1 (clock-class), /: it has no id",
        ),
        (
            r#"{"type":"clock-class","id":"c","frequency":0}"#,
            "fragment 1 (clock-class the string 'c'), /frequency: it is '0', expected 1 to 18446744073709551615 Hz",
        ),
        (
            r#"{"type":"clock-class","id":"c","frequency":5,"offset-from-origin":{"cycles":5}}"#,
            "fragment 1 (clock-class the string 'c'), /offset-from-origin/cycles: it is '5', expected less than the frequency",
        ),
        (
            r#"{"type":"clock-class","id":"c","frequency":5,"origin":"x"}"#,
            "fragment 1 (clock-class the string 'c'), /origin: it is 'the string \\'x\\'', expected 'unix-epoch' or an object with 'name' and 'uid'",
        ),
        (
            r#"{"type":"data-stream-class","default-clock-class-id":"x"}"#,
            "fragment 1 (data-stream-class), /default-clock-class-id: clock class 'x' is not described",
        ),
        (
            r#"{"type":"event-record-class","data-stream-class-id":9,"name":"e"}"#,
            "fragment 1 (event-record-class 'e'), /: data stream class '9' is not described",
        ),
        (
            r#"{"type":"data-stream-class","packet-context-field-class":{"type":"null-terminated-string"}}"#,
            "fragment 1 (data-stream-class), /packet-context-field-class: a part of packets or events is 'an object', expected a structure",
        ),
    ] {
        let found = parse_tolerant(&metadata(&[fragment, r#"{"type":"data-stream-class","id":5}"#])).unwrap();
        let problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, [format!("metadata line 2, column 2: {wanted}")]);
        assert_eq!(found.schema.streams.last().map(|stream| stream.id), Some(5));
    }
}

#[test]
fn what_is_there_twice_is_refused() {
    let clock = r#"{"type":"clock-class","id":"c","frequency":1}"#;
    let other = r#"{"type":"clock-class","id":"c","frequency":2}"#;
    let event = r#"{"type":"event-record-class","id":3}"#;
    let alias = format!(r#"{{"type":"field-class-alias","name":"a","field-class":{BYTE}}}"#);
    let twice = [clock, other, STREAM, STREAM, event, event, &alias, &alias];
    let found = parse_tolerant(&metadata(&twice)).unwrap();
    assert_eq!(found.problems.len(), 4, "{:?}", found.problems);
    for problem in found.problems {
        assert!(problem.to_string().ends_with("is described a second time"), "{problem}");
    }
}

#[test]
fn what_is_described_in_two_ways_is_read_in_neither() {
    let clock = r#"{"type":"clock-class","id":"c","frequency":7}"#;
    let stream = r#"{"type":"data-stream-class","id":1,"default-clock-class-id":"c"}"#;
    let class = r#"{"type":"structure","member-classes":[{"name":"a","field-class":"alias"}]}"#;
    let event = format!(
        r#"{{"type":"event-record-class","data-stream-class-id":1,"id":3,"name":"e","payload-field-class":{class}}}"#
    );
    let alias = format!(r#"{{"type":"field-class-alias","name":"alias","field-class":{BYTE}}}"#);
    let other = event.replace(r#""id":3"#, r#""id":4"#);
    for (second, left) in [
        (stream.to_owned(), (1, 2)),
        (event.clone(), (1, 2)),
        (event.replace(r#""name":"e""#, r#""name":"f""#), (1, 1)),
        (event.replace("payload", "specific-context"), (1, 1)),
        (stream.replace(r#","default-clock-class-id":"c""#, ""), (0, 0)),
        (stream.replace("data-stream-class\"", "data-stream-class\",\"name\":\"n\""), (0, 0)),
        (clock.replace('7', "8"), (0, 0)),
    ] {
        let found =
            parse_tolerant(&metadata(&[clock, &alias, stream, &event, &other, &second])).unwrap();
        assert_eq!(found.problems.len(), 1, "{:?}", found.problems);
        let events = found.schema.streams.iter().map(|stream| stream.events.len()).sum::<usize>();
        assert_eq!((found.schema.streams.len(), events), left, "{second}");
    }
    // Uses of an alias before its second description are unambiguous.
    let wide = alias.replace("\"length\":8", "\"length\":16");
    assert_ne!(wide, alias);
    for (again, left) in [(&alias, 2), (&wide, 1)] {
        let found =
            parse_tolerant(&metadata(&[clock, &alias, stream, &event, again, &other])).unwrap();
        assert_eq!(found.schema.streams[0].events.len(), left, "{again}");
    }
}

#[test]
fn a_clock_that_is_the_same_again_is_no_other_one() {
    let clock = |frequency| format!(r#"{{"type":"clock-class","id":"c","frequency":{frequency}}}"#);
    let stream = r#"{"type":"data-stream-class","default-clock-class-id":"c"}"#;
    let found = parse_tolerant(&metadata(&[&clock(5), stream, &clock(5)])).unwrap();
    assert_eq!((found.problems.len(), found.schema.clocks.len()), (0, 1));
    let found = parse_tolerant(&metadata(&[&clock(5), stream, &clock(6)])).unwrap();
    assert!(found.problems[0].to_string().ends_with("clock class 'c' is described a second time"));
}

#[test]
fn a_number_with_a_role_that_is_too_long_is_refused() {
    let member = |bits| {
        format!(
            r#"{{"type":"data-stream-class","event-record-header-field-class":{{"type":"structure","member-classes":[{{"name":"id","field-class":{{"type":"fixed-length-unsigned-integer","length":{bits},"alignment":8,"byte-order":"big-endian","roles":["event-record-class-id"]}}}}]}}}}"#
        )
    };
    assert!(parse(&metadata(&[&member(64)])).is_ok());
    let found = parse_tolerant(&metadata(&[&member(128)])).unwrap().problems[0].to_string();
    let wanted =
        "/event-record-header-field-class/member-classes/0 (id)/field-class/length: it is '128', \
                  expected 1 to 64 bits, or whole bytes with an alignment of whole bytes";
    assert!(found.ends_with(wanted), "{found}");
}

#[test]
fn a_timestamp_without_a_clock_is_refused() {
    let time = r#"{"type":"fixed-length-unsigned-integer","length":64,"byte-order":"big-endian","roles":["default-clock-timestamp"]}"#;
    let stream = format!(
        r#"{{"type":"data-stream-class","event-record-header-field-class":{{"type":"structure","member-classes":[{{"name":"t","field-class":{time}}}]}}}}"#
    );
    let found = parse_tolerant(&metadata(&[&stream])).unwrap().problems[0].to_string();
    assert!(
        found.ends_with("/roles: its data stream class has no default-clock-class-id"),
        "{found}"
    );
}

#[test]
fn without_a_preamble_that_can_be_read_nothing_is() {
    for (text, wanted) in [
        (
            "\x1e{\"type\":\"trace-class\"}",
            "expected one preamble, in front of all other fragments",
        ),
        ("\x1e{\"type\":\"preamble\"}", "it has no version"),
        ("\x1e{\"type\":\"preamble\",\"version\":3}", "/version: it is '3', expected 2"),
        (
            "\x1e{\"type\":\"preamble\",\"version\":2,\"uuid\":[1]}",
            "/uuid: the number of a UUID's bytes is '1', expected 16",
        ),
        ("\x1e\x1e \n", "the metadata has no preamble"),
        (
            "\x1e{\"type\":\"preamble\",\"version\":2,\"extensions\":{\"my.org\":{\"fast\":true}}}",
            "the trace needs the extension 'my.org: fast', which is not known: it cannot be read",
        ),
        ("\x1e{\"type\":", "no JSON: EOF while parsing a value"),
    ] {
        let found = fatal(text);
        assert!(found.ends_with(wanted), "{found}");
    }
    let trace = r#"{"type":"trace-class","environment":{"a":1.5}}"#;
    let text = String::from_utf8(metadata(&[trace])).unwrap();
    let found = fatal(&text);
    assert!(
        found.contains("/environment/a: expected an integer from -9223372036854775808"),
        "{found}"
    );
}

#[test]
fn json_that_is_none_is_reported_with_its_place() {
    let found = parse_tolerant(&metadata(&["{\"type\":\n  \"x\" 5}", STREAM])).unwrap();
    let wanted = "metadata line 3, column 7: no JSON: expected `,` or `}`";
    assert_eq!(found.problems[0].to_string(), wanted);
    assert_eq!(found.schema.streams.len(), 1);
    // The last fragment breaks off, as when it is still being written.
    let mut text = metadata(&[STREAM, &event(&[("x", BYTE)])]);
    text.truncate(text.len() - 20);
    let found = parse_tolerant(&text).unwrap();
    assert!(found.problems[0].to_string().contains("no JSON"), "{:?}", found.problems);
    assert_eq!(found.schema.streams.len(), 1);
}

#[test]
fn deep_and_large_metadata_is_refused_in_time() {
    let deep = "[".repeat(100_000);
    let found = parse_tolerant(&metadata(&[&deep])).unwrap().problems[0].to_string();
    assert!(found.contains("recursion limit exceeded"), "{found}");
    let wide = format!("[{}0]", "0,".repeat(1 << 20));
    let found = parse_tolerant(&metadata(&[&wide])).unwrap().problems[0].to_string();
    assert!(found.contains("bytes of memory for one fragment"), "{found}");
    // Each alias has ten times the size of the previous one: together a hundred thousand million bytes.
    let mut fragments =
        vec![format!(r#"{{"type":"field-class-alias","name":"a0","field-class":{BYTE}}}"#)];
    for number in 1..12 {
        let member = |index| format!(r#"{{"name":"m{index}","field-class":"a{}"}}"#, number - 1);
        let members: Vec<String> = (0..10).map(member).collect();
        fragments.push(format!(
            r#"{{"type":"field-class-alias","name":"a{number}","field-class":{{"type":"structure","member-classes":[{}]}}}}"#,
            members.join(",")
        ));
    }
    fragments.push(STREAM.to_owned());
    fragments.push(event(&[("x", r#""a11""#)]));
    let fragments: Vec<&str> = fragments.iter().map(String::as_str).collect();
    let found = parse_tolerant(&metadata(&fragments)).unwrap().problems[0].to_string();
    assert!(found.contains("fields of one event or packet"), "{found}");
}

#[test]
fn packets_of_metadata_of_ctf_2_are_read() {
    let text = metadata(&[STREAM]);
    let bits = (37 + text.len() as u32) * 8;
    let mut packet = 0x75d1_1d57u32.to_le_bytes().to_vec();
    packet.extend([0; 20]);
    packet.extend(bits.to_le_bytes());
    packet.extend(bits.to_le_bytes());
    packet.extend([0, 0, 0, 2, 0]);
    packet.extend(&text);
    assert_eq!(parse(&packet), parse(&text));
    assert!(parse(&packet).is_ok());
}

//! The whole text of metadata. After a change that is meant, `STRATA_GOLDEN=write cargo test`
//! writes the files anew; look at the difference.

use crate::support::*;
use std::fs;
use std::path::Path;
use strata_ctf::environment::{user_environment, ProcessKnowledge, UserProcess};
use strata_ctf::metadata;
use strata_model::{
    Array, Base, ByteOrder, ClockClass, Element, Enumeration, EventClass, Field, FieldClass,
    FieldOrder, Float, Integer, Label, RecordHeader, Sequence, StreamClass, Trace,
};

fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var("STRATA_GOLDEN").as_deref() == Ok("write") {
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    for (number, (line, expected)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(line, expected, "{name}, line {}", number + 1);
    }
    assert_eq!(text, expected, "{name}");
}

#[test]
fn metadata_of_a_process_is_the_golden_text() {
    let mut described = trace(
        RecordHeader::Compact,
        vec![
            EventClass { loglevel: Some(6), ..event(0, "tick", vec![u64_field("count")]) },
            event(31, "nothing", vec![]),
            EventClass {
                loglevel: Some(14),
                emf_uri: Some("https://example.org/model".into()),
                ..event(
                    32,
                    "request",
                    vec![
                        integer("port", network(Integer::unsigned(2))),
                        integer("flags", based(4, Base::Sixteen)),
                        integer("mode", based(2, Base::Eight)),
                        integer("mask", based(1, Base::Two)),
                        integer("ok", Integer { is_bool: true, ..Integer::unsigned(1) }),
                        enumeration(
                            "state",
                            Integer::signed(1),
                            &[("bad", -128, -1), ("idle", 0, 0), ("say \"hi\"\n", 1, 127)],
                        ),
                        float("ratio", 4, FieldOrder::Big),
                        float("mean", 8, FieldOrder::Native),
                        Field::new("url", FieldClass::String),
                        array("comm", Element::Text, 16),
                        array("mac", Element::Integer(based(1, Base::Sixteen)), 6),
                        sequence("body", Element::Text, 4),
                        sequence("sizes", Element::Integer(Integer::signed(8)), 2),
                    ],
                )
            },
        ],
    );
    described.byte_order = ByteOrder::Little;
    described.clock = ClockClass::monotonic(Some(BOOT_ID), 1_700_000_000_123_456_789);
    described.environment = user_environment(&UserProcess {
        hostname: b"box",
        vpid: 42,
        procname: b"my \"app\"",
        known: ProcessKnowledge::default(),
        created: "2024-05-06T07:08:09+00:00",
        overwrites: true,
    });
    // What depends on the build stays out of the file.
    described.environment.retain(|(name, _)| name != "strata_version");
    assert_eq!(described.validate(), Ok(()));
    check("process.tsdl", &metadata::write(&described));
}

#[test]
fn metadata_of_two_streams_and_another_clock_is_the_golden_text() {
    let described = Trace {
        uuid: UUID,
        byte_order: ByteOrder::Big,
        environment: vec![],
        clock: ClockClass {
            name: "cycle counter".into(),
            uuid: None,
            description: String::new(),
            frequency: 2_500_000_000,
            precision: 12,
            offset_s: -3,
            offset_cycles: 7,
            absolute: true,
        },
        streams: vec![
            StreamClass {
                id: 0,
                name: "a".into(),
                header: RecordHeader::Large,
                context: vec![
                    integer("tid", Integer::unsigned(4)),
                    sequence("comm", Element::Text, 1),
                ],
                events: vec![EventClass {
                    provider: String::new(),
                    ..event(70000, "alone", vec![u64_field("event")])
                }],
            },
            StreamClass {
                id: 9,
                name: "b".into(),
                header: RecordHeader::Compact,
                context: vec![],
                events: vec![event(0, "e", vec![])],
            },
        ],
    };
    assert_eq!(described.validate(), Ok(()));
    check("streams.tsdl", &metadata::write(&described));
}

/// A trace that `validate()` refuses must still not break out of its place in the metadata, nor stop the writer.
#[test]
fn malicious_trace_that_was_not_validated_is_written_without_breaking_out() {
    let evil = "x\"; }; env { y = 1; }; \0\n\x1b*/ //";
    let odd = Integer { bytes: 255, ..Integer::unsigned(3) };
    let float = Float { bytes: 77, byte_order: FieldOrder::Big };
    let labels = vec![Label { from: 9, to: -9, label: evil.into() }];
    let none = Enumeration { integer: odd, name: evil.into(), labels: vec![], flags: None };
    let classes = [
        FieldClass::Integer(odd),
        FieldClass::Enumeration(Enumeration { labels, ..none.clone() }),
        FieldClass::Enumeration(none),
        FieldClass::Float(float),
        FieldClass::Array(Array { element: Element::Integer(odd), count: u32::MAX }),
        FieldClass::Sequence(Sequence { element: Element::Float(float), length_bytes: 255 }),
    ];
    // All of one name, and 200 of each.
    let fields = classes.iter().cycle().take(1200).map(|class| Field::new(evil, class.clone()));
    let evil_event = EventClass {
        id: 0,
        provider: evil.into(),
        name: evil.into(),
        loglevel: Some(255),
        emf_uri: Some(evil.into()),
        context: Vec::new(),
        fields: fields.collect(),
    };
    let mut described = trace(RecordHeader::Compact, vec![evil_event.clone(), evil_event]);
    described.environment = vec![(evil.into(), evil.into()), (evil.into(), evil.into())];
    described.clock.name = evil.into();
    described.clock.description = evil.into();
    described.clock.frequency = 0;
    described.clock.offset_s = i64::MIN;
    described.clock.offset_cycles = u64::MAX;
    assert!(described.validate().is_err());

    let text = metadata::write(&described);
    let (outside, strings) = outside_of_strings(&text);
    assert_eq!(outside.matches("env {").count(), 1);
    assert_eq!(outside.matches("event {").count(), 2);
    assert_eq!(outside.matches('{').count(), outside.matches('}').count());
    assert!(!outside.contains("y = 1"));
    // Two names, links and 200 labels each, two values, the clock; two names have it twice.
    assert_eq!(strings.iter().filter(|s| s.contains("env { y = 1; }")).count(), 4 + 400 + 2 + 1);
}

/// The text without its string literals, and the literals as they stand there.
fn outside_of_strings(text: &str) -> (String, Vec<String>) {
    let (mut outside, mut strings) = (String::new(), Vec::new());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '"' {
            outside.push(character);
            continue;
        }
        let mut string = String::new();
        loop {
            match characters.next().expect("a string ends") {
                '"' => break,
                '\\' => {
                    string.push('\\');
                    string.push(characters.next().expect("an escape is whole"));
                }
                other => {
                    assert!(!other.is_control(), "{string}");
                    string.push(other);
                }
            }
        }
        strings.push(string);
    }
    (outside, strings)
}

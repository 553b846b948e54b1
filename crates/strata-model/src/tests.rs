//! Tests of `validate()`: descriptions that pass, and one for each reason to refuse.

use crate::*;

fn field(class: FieldClass) -> Field {
    Field::new("f", class)
}

fn colour(integer: Integer, labels: &[(i64, i64)]) -> Field {
    let labels = labels.iter().map(|&(from, to)| Label { from, to, label: "red".into() }).collect();
    field(FieldClass::Enumeration(Enumeration {
        integer,
        name: "colour".into(),
        labels,
        flags: None,
    }))
}

fn event(fields: Vec<Field>) -> EventClass {
    EventClass {
        id: 0,
        provider: "p".into(),
        name: "e".into(),
        loglevel: Some(6),
        emf_uri: None,
        context: Vec::new(),
        fields,
    }
}

fn trace(events: Vec<EventClass>) -> Trace {
    Trace {
        uuid: Uuid::default(),
        byte_order: ByteOrder::NATIVE,
        environment: vec![("vpid".into(), 1.into()), ("domain".into(), "ust".into())],
        clock: ClockClass::monotonic(None, 0),
        streams: vec![StreamClass {
            id: 0,
            name: "channel0".into(),
            header: RecordHeader::Compact,
            context: Vec::new(),
            events,
        }],
    }
}

fn array(element: Element, count: u32) -> Field {
    field(FieldClass::Array(Array { element, count }))
}

fn sequence(element: Element, length_bytes: u8) -> Field {
    field(FieldClass::Sequence(Sequence { element, length_bytes }))
}

fn float(bytes: u8) -> Float {
    Float { bytes, byte_order: FieldOrder::Native }
}

// ---- fields ----

#[test]
fn field_of_each_class_is_accepted() {
    let mut fields = vec![field(FieldClass::String)];
    for bytes in [1, 2, 4, 8] {
        let element = Element::Integer(Integer::signed(bytes));
        fields.push(field(FieldClass::Integer(Integer::unsigned(bytes))));
        fields.push(array(element, 0));
        fields.push(sequence(element, bytes));
        fields.push(colour(Integer::signed(bytes), &[(-128, 127)]));
    }
    for bytes in [4, 8] {
        fields.push(field(FieldClass::Float(float(bytes))));
        fields.push(array(Element::Float(float(bytes)), 3));
    }
    fields.push(array(Element::Text, 16));
    fields.push(sequence(Element::Text, 2));
    for field in fields {
        assert_eq!(field.validate(), Ok(()), "{field:?}");
    }
}

#[test]
fn field_with_no_name_is_refused() {
    let found = Field::new("", FieldClass::String).validate();
    assert_eq!(found, Err(FieldError::Name(NameError::Empty)));
}

#[test]
fn field_with_a_name_at_the_limit_is_accepted_and_beyond_refused() {
    let name = "x".repeat(limits::NAME_BYTES);
    assert_eq!(Field::new(&name, FieldClass::String).validate(), Ok(()));
    let name = name + "x";
    assert_eq!(
        Field::new(&name, FieldClass::String).validate(),
        Err(FieldError::Name(NameError::TooLong { name, bytes: 256, limit: 255 }))
    );
}

#[test]
fn field_with_a_control_character_in_its_name_is_refused() {
    for character in ['\0', '\n', '\x1b', '\x7f', '\u{85}'] {
        let name = format!("a{character}b");
        assert_eq!(
            Field::new(&name, FieldClass::String).validate(),
            Err(FieldError::Name(NameError::Control { name, character }))
        );
    }
}

#[test]
fn field_with_a_name_that_is_no_identifier_is_accepted() {
    for name in ["http.status", "größe", "a b", "9", "a;};", "\"", "event"] {
        assert_eq!(Field::new(name, FieldClass::String).validate(), Ok(()));
    }
}

#[test]
fn integer_of_another_size_is_refused_wherever_it_is() {
    for bytes in [0, 3, 5, 7, 9, 16, 255] {
        let integer = Integer::unsigned(bytes);
        let refused = Err(FieldError::IntegerBytes { found: bytes });
        assert_eq!(field(FieldClass::Integer(integer)).validate(), refused);
        assert_eq!(array(Element::Integer(integer), 1).validate(), refused);
        assert_eq!(sequence(Element::Integer(integer), 4).validate(), refused);
        assert_eq!(colour(integer, &[(0, 0)]).validate(), refused);
    }
}

#[test]
fn float_of_another_size_is_refused_wherever_it_is() {
    for bytes in [0, 2, 3, 10, 16, 255] {
        let refused = Err(FieldError::FloatBytes { found: bytes });
        assert_eq!(field(FieldClass::Float(float(bytes))).validate(), refused);
        assert_eq!(array(Element::Float(float(bytes)), 1).validate(), refused);
        assert_eq!(sequence(Element::Float(float(bytes)), 4).validate(), refused);
    }
}

#[test]
fn sequence_with_another_length_size_is_refused() {
    for found in [0, 3, 16, 255] {
        let refused = Err(FieldError::LengthBytes { found });
        assert_eq!(sequence(Element::Text, found).validate(), refused);
    }
}

#[test]
fn array_at_the_limit_is_accepted_and_beyond_refused() {
    let element = Element::Integer(Integer::unsigned(8));
    let most = (limits::ARRAY_BYTES / 8) as u32;
    assert_eq!(array(element, most).validate(), Ok(()));
    let refused = |bytes| Err(FieldError::ArrayBytes { bytes, limit: limits::ARRAY_BYTES });
    assert_eq!(array(element, most + 1).validate(), refused(limits::ARRAY_BYTES + 8));
    assert_eq!(array(element, u32::MAX).validate(), refused(u64::from(u32::MAX) * 8));
}

// ---- enumerations ----

#[test]
fn enumeration_without_labels_is_refused() {
    assert_eq!(colour(Integer::signed(4), &[]).validate(), Err(FieldError::NoLabels));
}

#[test]
fn enumeration_with_too_many_labels_is_refused() {
    let labels = vec![(0, 0); limits::LABELS];
    assert_eq!(colour(Integer::signed(4), &labels).validate(), Ok(()));
    let labels = vec![(0, 0); limits::LABELS + 1];
    let refused = FieldError::TooManyLabels { found: 4097, limit: 4096 };
    assert_eq!(colour(Integer::signed(4), &labels).validate(), Err(refused));
}

#[test]
fn enumeration_with_a_control_character_in_its_name_is_refused() {
    let mut odd = colour(Integer::signed(4), &[(0, 0)]);
    if let FieldClass::Enumeration(enumeration) = &mut odd.class {
        enumeration.name = "a\nb".into();
    }
    let control = NameError::Control { name: "a\nb".into(), character: '\n' };
    assert_eq!(odd.validate(), Err(FieldError::EnumerationName(control)));
}

#[test]
fn enumeration_without_a_name_is_accepted() {
    let mut unnamed = colour(Integer::signed(4), &[(0, 0)]);
    if let FieldClass::Enumeration(enumeration) = &mut unnamed.class {
        enumeration.name.clear();
    }
    assert_eq!(unnamed.validate(), Ok(()));
}

#[test]
fn label_of_too_many_bytes_is_refused() {
    let mut odd = colour(Integer::signed(4), &[(0, 0)]);
    let label = "x".repeat(256);
    if let FieldClass::Enumeration(enumeration) = &mut odd.class {
        enumeration.labels[0].label = label.clone();
    }
    let refused = FieldError::LabelTooLong { label, bytes: 256, limit: 255 };
    assert_eq!(odd.validate(), Err(refused));
}

#[test]
fn label_for_no_values_is_refused() {
    let refused = |from, to| Err(FieldError::LabelReversed { label: "red".into(), from, to });
    assert_eq!(colour(Integer::signed(4), &[(1, 0)]).validate(), refused(1, 0));
    // The values are bit patterns: from 2^64 - 1 to 0.
    let largest = i128::from(u64::MAX);
    assert_eq!(colour(Integer::unsigned(8), &[(-1, 0)]).validate(), refused(largest, 0));
}

#[test]
fn label_for_values_at_the_limits_is_accepted_and_beyond_refused() {
    let cases = [
        (Integer::signed(1), -128, 127),
        (Integer::unsigned(1), 0, 255),
        (Integer::signed(2), -32768, 32767),
        (Integer::unsigned(2), 0, 65535),
        (Integer::signed(4), i64::from(i32::MIN), i64::from(i32::MAX)),
        (Integer::unsigned(4), 0, i64::from(u32::MAX)),
    ];
    for (integer, lowest, highest) in cases {
        assert_eq!(colour(integer, &[(lowest, highest)]).validate(), Ok(()), "{integer:?}");
        for (from, to) in [(lowest - 1, highest), (lowest, highest + 1)] {
            let refused = FieldError::LabelOutside {
                label: "red".into(),
                from: from.into(),
                to: to.into(),
                lowest: lowest.into(),
                highest: highest.into(),
            };
            assert_eq!(colour(integer, &[(from, to)]).validate(), Err(refused), "{integer:?}");
        }
    }
    assert_eq!(colour(Integer::signed(8), &[(i64::MIN, i64::MAX)]).validate(), Ok(()));
    assert_eq!(colour(Integer::unsigned(8), &[(0, -1)]).validate(), Ok(()));
}

#[test]
fn label_values_of_an_unsigned_word_are_its_bit_pattern() {
    let label = Label { from: i64::MIN, to: -1, label: String::new() };
    let (from, to) = label.values(&Integer::unsigned(8));
    assert_eq!((from, to), (1 << 63, (1 << 64) - 1));
    assert_eq!(label.values(&Integer::signed(8)), (-(1 << 63), -1));
}

// ---- events ----

#[test]
fn event_without_a_name_is_refused() {
    let nameless = EventClass { name: String::new(), ..event(vec![]) };
    assert_eq!(nameless.validate(), Err(EventError::Name(NameError::Empty)));
}

#[test]
fn event_without_a_provider_has_its_name_alone() {
    let alone = EventClass { provider: String::new(), ..event(vec![]) };
    assert_eq!(alone.validate(), Ok(()));
    assert_eq!(alone.full_name(), "e");
    assert_eq!(event(vec![]).full_name(), "p:e");
}

#[test]
fn event_with_a_name_at_the_limit_is_accepted_and_beyond_refused() {
    let long = |bytes| EventClass { name: "x".repeat(bytes), ..event(vec![]) };
    assert_eq!(long(253).validate(), Ok(()));
    let name = long(254).full_name();
    let refused = NameError::TooLong { name, bytes: 256, limit: 255 };
    assert_eq!(long(254).validate(), Err(EventError::Name(refused)));
}

#[test]
fn event_with_a_control_character_in_its_provider_is_refused() {
    let odd = EventClass { provider: "a\x1b".into(), ..event(vec![]) };
    let refused = NameError::Control { name: "a\x1b:e".into(), character: '\x1b' };
    assert_eq!(odd.validate(), Err(EventError::Name(refused)));
}

#[test]
fn event_with_a_level_beyond_the_limit_is_refused() {
    let level = |level| EventClass { loglevel: Some(level), ..event(vec![]) };
    assert_eq!(level(14).validate(), Ok(()));
    assert_eq!(level(15).validate(), Err(EventError::Loglevel { found: 15, limit: 14 }));
    assert_eq!(EventClass { loglevel: None, ..event(vec![]) }.validate(), Ok(()));
}

#[test]
fn event_with_a_long_uri_is_refused() {
    let uri = |bytes| EventClass { emf_uri: Some("x".repeat(bytes)), ..event(vec![]) };
    assert_eq!(uri(4096).validate(), Ok(()));
    let refused = EventError::UriTooLong { bytes: 4097, limit: 4096 };
    assert_eq!(uri(4097).validate(), Err(refused));
}

#[test]
fn event_with_too_many_fields_is_refused() {
    let many = |n| event((0..n).map(|i| Field::new(format!("f{i}"), FieldClass::String)).collect());
    assert_eq!(many(64).validate(), Ok(()));
    assert_eq!(many(65).validate(), Err(EventError::TooManyFields { found: 65, limit: 64 }));
}

#[test]
fn event_with_two_fields_of_one_name_is_refused() {
    let twice = event(vec![field(FieldClass::String), field(FieldClass::String)]);
    assert_eq!(twice.validate(), Err(EventError::DuplicateField { field: "f".into() }));
}

#[test]
fn event_with_a_bad_field_says_which() {
    let bad = Field::new("bad", FieldClass::Integer(Integer::unsigned(3)));
    let error = Box::new(FieldError::IntegerBytes { found: 3 });
    let refused = EventError::Field { field: "bad".into(), index: 1, error };
    assert_eq!(event(vec![field(FieldClass::String), bad]).validate(), Err(refused));
}

#[test]
fn min_bytes_counts_what_every_record_has() {
    let fields = vec![
        Field::new("a", FieldClass::Integer(Integer::unsigned(8))),
        Field::new("b", FieldClass::Float(float(4))),
        Field::new("c", FieldClass::String),
        array(Element::Integer(Integer::unsigned(2)), 5),
        sequence(Element::Text, 4),
        colour(Integer::unsigned(1), &[(0, 0)]),
    ];
    assert_eq!(event(fields).min_bytes(), 8 + 4 + 1 + 10 + 4 + 1);
}

#[test]
fn text_bytes_counts_each_name_and_label() {
    let plain = event(vec![]).text_bytes();
    let one = event(vec![field(FieldClass::String)]).text_bytes();
    let labels = event(vec![colour(Integer::signed(4), &[(0, 0), (1, 1)])]).text_bytes();
    assert_eq!(plain, 2 + 64);
    assert_eq!(one, plain + 1 + 64);
    assert_eq!(labels, one + 6 + 64 + 2 * (3 + 64));
}

// ---- traces ----

#[test]
fn trace_of_all_sound_parts_is_accepted() {
    assert_eq!(trace(vec![event(vec![field(FieldClass::String)])]).validate(), Ok(()));
}

#[test]
fn trace_with_a_bad_clock_is_refused() {
    let clock = |change: &dyn Fn(&mut ClockClass)| {
        let mut odd = trace(vec![]);
        change(&mut odd.clock);
        odd.validate()
    };
    assert_eq!(clock(&|c| c.frequency = 0), Err(TraceError::ClockFrequency));
    assert_eq!(
        clock(&|c| c.offset_cycles = 1_000_000_000),
        Err(TraceError::ClockOffset { found: 1_000_000_000, frequency: 1_000_000_000 })
    );
    assert_eq!(clock(&|c| c.name.clear()), Err(TraceError::ClockName(NameError::Empty)));
    assert_eq!(
        clock(&|c| c.description = "x".repeat(4097)),
        Err(TraceError::ClockDescription { bytes: 4097, limit: 4096 })
    );
}

#[test]
fn trace_with_a_bad_environment_is_refused() {
    let with = |entries: Vec<(String, EnvValue)>| {
        Trace { environment: entries, ..trace(vec![]) }.validate()
    };
    let entry = |name: &str| (name.to_owned(), EnvValue::Integer(0));
    assert_eq!(with(vec![entry("")]), Err(TraceError::EntryName(NameError::Empty)));
    assert_eq!(
        with(vec![entry("a"), entry("a")]),
        Err(TraceError::DuplicateEntry { name: "a".into() })
    );
    assert_eq!(
        with(vec![("a".into(), "x".repeat(4097).into())]),
        Err(TraceError::EntryTooLong { name: "a".into(), bytes: 4097, limit: 4096 })
    );
    let many = (0..257).map(|i| entry(&format!("a{i}"))).collect();
    assert_eq!(with(many), Err(TraceError::TooManyEntries { found: 257, limit: 256 }));
}

#[test]
fn trace_with_bad_streams_is_refused() {
    let with = |streams: Vec<StreamClass>| Trace { streams, ..trace(vec![]) }.validate();
    let stream = |id| StreamClass { id, ..trace(vec![]).streams.remove(0) };
    assert_eq!(with(vec![stream(0), stream(1)]), Ok(()));
    assert_eq!(with(vec![stream(7), stream(7)]), Err(TraceError::DuplicateStream { id: 7 }));
    let error = NameError::Control { name: "\t".into(), character: '\t' };
    assert_eq!(
        with(vec![StreamClass { name: "\t".into(), ..stream(3) }]),
        Err(TraceError::StreamName { stream: 3, error })
    );
    let many = (0..4097).map(stream).collect();
    assert_eq!(with(many), Err(TraceError::TooManyStreams { found: 4097, limit: 4096 }));
}

#[test]
fn trace_with_a_bad_event_context_is_refused() {
    let text = || field(FieldClass::String);
    let with = |context: Vec<Field>| {
        let stream = StreamClass { id: 3, context, ..trace(vec![]).streams.remove(0) };
        Trace { streams: vec![stream], ..trace(vec![]) }.validate()
    };
    let refused = |error| Err(TraceError::Context { stream: 3, error: Box::new(error) });
    assert_eq!(with(vec![text()]), Ok(()));
    // A payload may have a field of the same name.
    let mut both = trace(vec![event(vec![text()])]);
    both.streams[0].context = vec![text()];
    assert_eq!(both.validate(), Ok(()));
    let twice = with(vec![text(), text()]);
    assert_eq!(twice, refused(EventError::DuplicateField { field: "f".into() }));
    assert_eq!(
        twice.unwrap_err().to_string(),
        "stream class 3, event context: two fields named 'f'"
    );
    let many = (0..65).map(|i| Field::new(format!("f{i}"), FieldClass::String)).collect();
    assert_eq!(with(many), refused(EventError::TooManyFields { found: 65, limit: 64 }));
    let odd = field(FieldClass::Integer(Integer::unsigned(3)));
    let error = Box::new(FieldError::IntegerBytes { found: 3 });
    assert_eq!(with(vec![odd]), refused(EventError::Field { field: "f".into(), index: 0, error }));
}

#[test]
fn trace_with_bad_events_is_refused() {
    let twice = vec![event(vec![]), event(vec![])];
    assert_eq!(trace(twice).validate(), Err(TraceError::DuplicateEvent { stream: 0, id: 0 }));
    let error = Box::new(EventError::Loglevel { found: 99, limit: 14 });
    assert_eq!(
        trace(vec![EventClass { loglevel: Some(99), ..event(vec![]) }]).validate(),
        Err(TraceError::Event { stream: 0, event: "p:e".into(), error })
    );
    let many = (0..65537).map(|id| EventClass { id, ..event(vec![]) }).collect();
    assert_eq!(
        trace(many).validate(),
        Err(TraceError::TooManyEvents { stream: 0, found: 65537, limit: 65536 })
    );
}

#[test]
fn malicious_trace_with_too_much_text_is_refused() {
    let labels = vec![(0, 0); limits::LABELS];
    let large = event(vec![colour(Integer::signed(4), &labels)]);
    let most = limits::TRACE_TEXT_BYTES / large.text_bytes();
    let events = |n: usize| (0..n as u32).map(|id| EventClass { id, ..large.clone() }).collect();
    assert_eq!(trace(events(most)).validate(), Ok(()));
    let limit = limits::TRACE_TEXT_BYTES;
    let refused = Err(TraceError::TooMuchText { stream: 0, limit });
    // Fields of the event context count as well: there is no room for two such fields.
    let mut context = trace(events(most));
    let other = Field { name: "g".into(), ..large.fields[0].clone() };
    context.streams[0].context = vec![large.fields[0].clone(), other];
    assert_eq!(context.validate(), refused);
    assert_eq!(trace(events(most + 1)).validate(), refused);
}

#[test]
fn errors_say_which_and_the_limit_and_escape_names() {
    let bad = Field::new("evil\x1b[2J", FieldClass::String);
    let mut odd = trace(vec![event(vec![field(FieldClass::String), bad])]);
    assert_eq!(
        odd.validate().unwrap_err().to_string(),
        "stream class 0, event 'p:e': field 'evil\\u{1b}[2J' (number 2): \
         the name 'evil\\u{1b}[2J' has a control character (U+001B)"
    );
    odd.streams[0].events = vec![event(vec![colour(Integer::unsigned(1), &[(0, 300)])])];
    assert_eq!(
        odd.validate().unwrap_err().to_string(),
        "stream class 0, event 'p:e': field 'f' (number 1): \
         the label 'red' is for 0 to 300; the integer has 0 to 255"
    );
}

// ---- the rest ----

#[test]
fn uuid_is_read_as_it_is_shown() {
    let text = "00112233-4455-6677-8899-aabbccddeeff";
    let uuid: Uuid = text.parse().unwrap();
    assert_eq!(uuid.0[..3], [0x00, 0x11, 0x22]);
    assert_eq!(uuid.to_string(), text);
    assert_eq!(text.to_uppercase().parse(), Ok(uuid));
}

#[test]
fn uuid_of_other_text_is_refused() {
    let odd = [
        "",
        "00112233-4455-6677-8899-aabbccddeef",
        "00112233-4455-6677-8899-aabbccddeefff",
        "00112233-4455-6677-8899-aabbccddeeff\n",
        "00112233445566778899aabbccddeeff",
        "0011223-34455-6677-8899-aabbccddeeff",
        "g0112233-4455-6677-8899-aabbccddeeff",
        "00112233-4455-6677-8899-aabbccddee\u{e9}",
    ];
    for text in odd {
        assert_eq!(text.parse::<Uuid>(), Err(UuidError(text.into())));
    }
}

#[test]
fn clock_monotonic_splits_its_offset() {
    let split = |ns| {
        let clock = ClockClass::monotonic(None, ns);
        (clock.offset_s, clock.offset_cycles)
    };
    assert_eq!(split(1_700_000_000_123_456_789), (1_700_000_000, 123_456_789));
    assert_eq!(split(-1), (-1, 999_999_999));
    assert_eq!(split(i64::MIN), (-9_223_372_037, 145_224_192));
}

#[test]
fn record_header_bytes_are_those_of_the_ring() {
    use RecordHeader::{Compact, Large};
    let cases = [
        (Compact, 30, false, 4),
        (Compact, 31, false, 13),
        (Compact, 0, true, 13),
        (Large, 65534, false, 6),
        (Large, 65535, false, 14),
        (Large, 0, true, 14),
    ];
    for (header, id, full, bytes) in cases {
        assert_eq!(header.bytes(id, full), bytes, "{header:?} {id} {full}");
    }
    assert_eq!((Compact.timestamp_bits(), Large.timestamp_bits()), (27, 32));
}

#[test]
fn base_of_a_radix_has_that_radix() {
    for radix in 0..=255 {
        match Base::from_radix(radix) {
            Some(base) => assert_eq!(base.radix(), radix),
            None => assert!(![2, 8, 10, 16].contains(&radix)),
        }
    }
}

//! Tests of windows that end within a packet, or begin within it.

use super::*;

/// Returns records as LTTng writes them, with numbers, texts and sequences.
fn trace() -> (Schema, Vec<u8>) {
    let order = ByteOrder::Little;
    let here = Scope::Payload;
    let events = vec![
        event(0, structure(1, vec![("a", unsigned(64)), ("b", unsigned(16))])),
        event(1, structure(1, vec![("s", FieldClass::String), ("n", unsigned(16))])),
        event(
            2,
            structure(1, vec![("n", unsigned(16)), ("s", array(of(here, &[0]), unsigned(32)))]),
        ),
    ];
    let mut bytes = Vec::new();
    for round in 0..4u32 {
        for id in 0..3 {
            bytes.extend((id | (round * 1000 + id) << 5).to_le_bytes());
            match id {
                0 => bytes.extend([round as u8 + 1; 10]),
                1 => bytes.extend(b"some text\0\x01\x02"),
                _ => {
                    bytes.extend((round as u16).to_le_bytes());
                    bytes.extend(vec![7; 4 * round as usize]);
                }
            }
        }
    }
    (schema(Some(split_header(true, order)), events), bytes)
}

#[test]
fn window_cut_at_every_byte_gives_whole_records_and_then_asks_for_more() {
    let (schema, bytes) = trace();
    let content = bytes.len() as u64 * 8;
    let decoder = Decoder::new(Arc::new(schema), 0);
    let stream = decoder.stream(0).expect("stream");
    let read = |cut: usize| {
        let mut state = decoder.state();
        let window = Window::new(&bytes[..cut], 0, content);
        let (mut at, mut records) = (0, Vec::new());
        while at < content {
            match stream.record(&window, at, &mut state) {
                Ok(()) => {}
                Err(NoRecord::Short { until }) => {
                    assert!(until > cut as u64 * 8 && until <= content);
                    break;
                }
                Err(NoRecord::Bad(bad)) => panic!("{bad}"),
            }
            records.push(state.record);
            at = state.record.end;
        }
        records
    };
    let all = read(bytes.len());
    assert_eq!(all.len(), 12);
    for cut in 0..bytes.len() {
        let whole = all.iter().filter(|record| record.end <= cut as u64 * 8).count();
        assert_eq!(read(cut), all[..whole]);
    }
}

#[test]
fn window_that_moves_on_gives_the_same_records_and_fields() {
    let (schema, bytes) = trace();
    let content = bytes.len() as u64 * 8;
    let mut whole = Packet::open(schema.clone(), &bytes);
    let decoder = Decoder::new(Arc::new(schema), 0);
    let stream = decoder.stream(0).expect("stream");
    let mut state = decoder.state();
    while whole.at < content {
        let at = whole.at;
        let expected = whole.show(Scope::Payload).expect("a record");
        let origin = (at / 8) as usize;
        let window = Window::new(&bytes[origin..], origin as u64, content);
        stream.record(&window, at, &mut state).expect("a record");
        let class = stream.class(state.record.shape.class).expect("class");
        let fields = shown(class, &state, window.bytes, window.origin, Scope::Payload);
        assert_eq!((state.record.shape.class, state.record.time, fields), expected);
    }
}

#[test]
fn window_behind_the_record_or_empty_asks_for_more() {
    let (schema, bytes) = trace();
    let plain = payload(vec![("a", unsigned(64))]);
    for schema in [schema, plain] {
        let decoder = Decoder::new(Arc::new(schema), 0);
        let stream = decoder.stream(0).expect("stream");
        let mut state = decoder.state();
        for (from, to) in [(8, bytes.len()), (0, 0), (16, 16)] {
            let window = Window::new(&bytes[from..to], from as u64, bytes.len() as u64 * 8);
            let stop = stream.record(&window, 0, &mut state).expect_err("no record");
            assert!(matches!(stop, NoRecord::Short { .. }), "{stop:?}");
        }
    }
}

#[test]
fn malicious_packet_that_ends_in_a_record_is_bad_where_that_field_is() {
    let (schema, bytes) = trace();
    let whole = Packet::open(schema.clone(), &bytes);
    drop(whole);
    // The packet ends within the sequence's length, then within its elements (3 of 4 bytes).
    let all = bytes.len();
    let mut packet = Packet::open(schema, &bytes[..all - 1]);
    let bad = loop {
        match packet.next() {
            Ok(true) => {}
            Err(NoRecord::Bad(bad)) => break bad,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(bad.kind, BadKind::TooManyElements { count: 3, left: 88 });
    assert_eq!((bad.scope, bad.field.as_deref()), (Some(Scope::Payload), Some("s")));
    assert_eq!(bad.class, Some((2, Arc::from("event2"))));
    let text = bad.to_string();
    assert!(
        text.starts_with("event record 'event2' (class 2), payload, field 's', at bit"),
        "{text}"
    );
}

#[test]
fn header_that_is_cut_is_no_record_where_nothing_is_behind_it() {
    let order = ByteOrder::Little;
    // `unused` comes after the fields that decoding needs.
    let flat = structure(8, vec![("id", id(8, 8, order)), ("unused", unsigned(64))]);
    for header in [flat, split_header(true, order), split_header(false, order)] {
        let empty = EventClass { payload: None, ..event(0, structure(1, vec![])) };
        let decoder = Decoder::new(Arc::new(schema(Some(header), vec![empty])), 0);
        let stream = decoder.stream(0).expect("stream");
        let bytes = [0; 16];
        let record = |have: usize, content: u64| {
            let mut state = decoder.state();
            let window = Window::new(&bytes[..have], 0, content * 8);
            stream.record(&window, 0, &mut state).map(|()| state.record.end / 8)
        };
        let whole = record(16, 16).expect("a record");
        for cut in 1..whole {
            let stop = record(cut as usize, 16).expect_err("it is not at hand");
            assert!(matches!(stop, NoRecord::Short { .. }), "{cut} of {whole}: {stop:?}");
            let NoRecord::Bad(bad) = record(16, cut).expect_err("the packet ends in it") else {
                panic!("{cut} of {whole}: it is asked for more of the packet");
            };
            assert!(matches!(bad.kind, BadKind::Outside { .. }), "{cut} of {whole}: {bad}");
        }
        assert_eq!(record(whole as usize, whole).ok(), Some(whole));
    }
}

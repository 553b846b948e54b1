//! Tests of bytes that are meant to exhaust or confuse the decoder.

use super::*;

const HERE: Scope = Scope::Payload;

fn empty() -> FieldClass {
    FieldClass::Structure(structure(1, vec![]))
}

fn bad(members: Vec<(&str, FieldClass)>, bytes: &[u8]) -> Bad {
    Packet::open(payload(members), bytes).bad()
}

#[test]
fn malicious_length_beyond_the_packet_is_bad_and_costs_nothing() {
    let huge = [0xff; 16];
    let fields = vec![("n", unsigned(64)), ("a", array(of(HERE, &[0]), unsigned(64)))];
    let found = bad(fields, &huge);
    assert_eq!(found.kind, BadKind::TooManyElements { count: u64::MAX, left: 64 });
    let fields = vec![("n", unsigned(64)), ("a", FieldClass::Text { length: of(HERE, &[0]) })];
    assert!(matches!(bad(fields, &huge).kind, BadKind::TooManyElements { .. }));
    // The elements have different sizes.
    let fields = vec![("n", unsigned(64)), ("a", array(of(HERE, &[0]), FieldClass::String))];
    let found = bad(fields, &huge);
    assert_eq!(found.kind, BadKind::Outside { needs: None, left: 64 });
    assert_eq!(found.field.as_deref(), Some("a"));
}

#[test]
fn malicious_array_of_elements_without_bits_is_bad() {
    let huge = [0xff; 16];
    let fields = vec![("n", unsigned(64)), ("a", array(of(HERE, &[0]), empty()))];
    assert!(matches!(bad(fields, &huge).kind, BadKind::TooManyEmpty { .. }));
    let fields = vec![("n", unsigned(8)), ("a", array(Length::Static(1 << 40), empty()))];
    assert!(matches!(bad(fields, &huge).kind, BadKind::TooManyEmpty { .. }));
    // There are 60,000 times 60,000 fields.
    let inner = array(Length::Static(60_000), empty());
    let fields = vec![("n", unsigned(8)), ("a", array(Length::Static(60_000), inner))];
    assert!(matches!(bad(fields, &huge).kind, BadKind::TooManyEmpty { .. }));
    // Only reading an element shows that it has no bits.
    let maybe = optional(at(HERE, &[0]), range(0, 0), unsigned(8));
    let fields = vec![("n", unsigned(64)), ("a", array(of(HERE, &[0]), maybe))];
    assert!(matches!(bad(fields, &huge).kind, BadKind::TooManyEmpty { .. }));
}

#[test]
fn malicious_records_with_few_bits_and_many_empty_fields_end_soon() {
    let fields = vec![("n", unsigned(8)), ("a", array(Length::Static(20_000), empty()))];
    let bytes = [0; 1000];
    let mut packet = Packet::open(payload(fields), &bytes);
    let mut records = 0;
    let found = loop {
        match packet.next() {
            Ok(more) => assert!(more, "all records were read"),
            Err(NoRecord::Bad(found)) => break found,
            Err(short) => panic!("{short:?}"),
        }
        records += 1;
    };
    assert!(matches!(found.kind, BadKind::TooManyEmpty { .. }), "{found}");
    assert!((1..10).contains(&records), "{records}");
}

#[test]
fn malicious_record_without_bits_is_bad() {
    assert_eq!(bad(vec![], &[0; 4]).kind, BadKind::Empty);
    assert_eq!(bad(vec![("a", empty())], &[0; 4]).kind, BadKind::Empty);
}

#[test]
fn malicious_static_length_of_any_size_is_outside() {
    for length in [1 << 30, 1 << 60, u64::MAX] {
        let inner = array(Length::Static(length), unsigned(64));
        for class in [
            inner.clone(),
            array(Length::Static(length), inner.clone()),
            FieldClass::Text { length: Length::Static(length) },
            FieldClass::Blob { align: 8, length: Length::Static(length) },
        ] {
            let found = bad(vec![("a", unsigned(8)), ("b", class.clone())], &[0; 20]);
            assert!(matches!(found.kind, BadKind::Outside { .. }), "{found}");
            let behind = vec![("s", FieldClass::String), ("b", class), ("c", unsigned(8))];
            assert!(matches!(bad(behind, &[0; 20]).kind, BadKind::Outside { .. }));
        }
    }
}

#[test]
fn malicious_alignment_of_any_size_is_outside_or_no_alignment() {
    for align in [0, 3, 1 << 31, u32::MAX] {
        let wide = FieldClass::Integer(int(8, align, false, ByteOrder::Little));
        for fields in [
            vec![("a", wide.clone())],
            vec![("s", FieldClass::String), ("a", wide.clone())],
            vec![("a", array(Length::Static(3), wide.clone()))],
        ] {
            let mut packet = Packet::open(payload(fields), &[0; 16]);
            while let Ok(true) = packet.next() {}
        }
    }
}

#[test]
fn malicious_nesting_is_followed_to_a_limit() {
    let mut class = unsigned(8);
    for _ in 0..300 {
        class = FieldClass::Structure(structure(1, vec![("a", class)]));
    }
    let found = bad(vec![("a", class)], &[0; 8]);
    assert!(matches!(found.kind, BadKind::TooDeep(_)), "{found}");
}

#[test]
fn malicious_locations_that_lead_nowhere_are_unresolved() {
    for path in [vec![], vec![1], vec![2], vec![9], vec![0, 0], vec![2, 0]] {
        let length = Length::Dynamic(Location::at(HERE, path));
        let fields =
            vec![("n", unsigned(8)), ("a", array(length, unsigned(8))), ("behind", unsigned(8))];
        let found = bad(fields, &[1; 8]);
        assert_eq!((found.kind, found.field.as_deref()), (BadKind::Unresolved, Some("a")));
    }
    for scope in [Scope::PacketHeader, Scope::EventHeader, Scope::SpecificContext] {
        let fields = vec![("o", optional(at(scope, &[0]), vec![], unsigned(8)))];
        assert_eq!(bad(fields, &[1; 8]).kind, BadKind::Unresolved);
    }
}

#[test]
fn malicious_widths_are_bad_and_nothing_is_read() {
    for width in [0, 65, 255] {
        let class = FieldClass::Integer(int(width, 8, true, ByteOrder::Big));
        assert_eq!(bad(vec![("a", class)], &[0; 64]).kind, BadKind::Width(width));
    }
    assert_eq!(bad(vec![("a", real(24, ByteOrder::Big))], &[0; 64]).kind, BadKind::Width(24));
}

#[test]
fn malicious_variable_length_integer_of_more_than_64_bits_is_bad() {
    let found = bad(vec![("a", leb(false))], &[0xff; 64]);
    assert_eq!((found.kind, found.field.as_deref()), (BadKind::TooBig, Some("a")));
}

#[test]
fn malicious_bytes_in_a_signed_length_are_too_many_elements() {
    let signed = FieldClass::Integer(int(8, 8, true, ByteOrder::Little));
    let fields = vec![("n", signed), ("a", array(of(HERE, &[0]), unsigned(8)))];
    let found = bad(fields, &[0xff; 8]);
    assert_eq!(found.kind, BadKind::TooManyElements { count: u64::MAX, left: 56 });
}

#[test]
fn empty_fields_of_one_packet_do_not_count_in_the_next() {
    let fields = vec![("n", unsigned(8)), ("a", array(Length::Static(20_000), empty()))];
    let decoder = Decoder::new(Arc::new(payload(fields)), 0);
    let stream = decoder.stream(0).expect("stream");
    let mut state = decoder.state();
    let window = Window::new(&[0], 0, 8);
    for _ in 0..3 {
        let header = decoder.packet_header(&window, &mut state).expect("packet header");
        stream.record(&window, header.end, &mut state).expect("a record");
    }
}

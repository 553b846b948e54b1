//! Tests of each class of fields, in records made by hand.

use super::*;

const HERE: Scope = Scope::Payload;

fn line(members: Vec<(&str, FieldClass)>, bytes: &[u8]) -> String {
    Packet::open(payload(members), bytes).line()
}

fn bits(width: u8, signed: bool, order: ByteOrder) -> FieldClass {
    FieldClass::Integer(int(width, 1, signed, order))
}

#[test]
fn integers_of_whole_bytes_in_both_orders_are_their_values() {
    let of = |width, signed, order| FieldClass::Integer(int(width, 8, signed, order));
    let members = |order| {
        vec![
            ("a", of(8, false, order)),
            ("b", of(8, true, order)),
            ("c", of(16, false, order)),
            ("d", of(16, true, order)),
            ("e", of(32, false, order)),
            ("f", of(32, true, order)),
            ("g", of(64, false, order)),
            ("h", of(64, true, order)),
        ]
    };
    let little = [
        200, 200, 1, 2, 0xfe, 0xff, 1, 2, 3, 4, 0xfd, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0x80,
        0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    ];
    let big = [
        200, 200, 2, 1, 0xff, 0xfe, 4, 3, 2, 1, 0xff, 0xff, 0xff, 0xfd, 0x80, 0, 0, 0, 0, 0, 0, 1,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc,
    ];
    let expected = "a=200 b=-56 c=513 d=-2 e=67305985 f=-3 g=9223372036854775809 h=-4";
    assert_eq!(line(members(ByteOrder::Little), &little), expected);
    assert_eq!(line(members(ByteOrder::Big), &big), expected);
}

#[test]
fn bit_fields_share_bytes_in_the_order_of_their_bits() {
    let of = |order| {
        vec![
            ("a", bits(3, false, order)),
            ("b", bits(5, true, order)),
            ("c", bits(12, false, order)),
            ("d", bits(4, false, order)),
        ]
    };
    assert_eq!(line(of(ByteOrder::Little), &[0b1111_0101, 0xbc, 0xda]), "a=5 b=-2 c=2748 d=13");
    assert_eq!(line(of(ByteOrder::Big), &[0b1011_1110, 0xab, 0xcd]), "a=5 b=-2 c=2748 d=13");
}

#[test]
fn integer_in_a_byte_with_bits_of_the_other_order_is_bad() {
    let fields =
        vec![("a", bits(3, false, ByteOrder::Little)), ("b", bits(13, false, ByteOrder::Big))];
    let mut schema = payload(fields);
    schema.streams[0].events[0].payload.as_mut().expect("payload").align = 8;
    let bad = Packet::open(schema, &[0; 8]).bad();
    assert_eq!((bad.kind, bad.field.as_deref()), (BadKind::MixedOrder, Some("b")));
}

#[test]
fn integer_in_a_byte_with_bits_of_the_other_order_is_bad_where_no_member_is_aligned() {
    let little = |width| bits(width, false, ByteOrder::Little);
    let big = |width| bits(width, false, ByteOrder::Big);
    let bad_of = |schema: Schema, field: &str| {
        let bad = Packet::open(schema, &[0x21; 8]).bad();
        assert_eq!((bad.kind, bad.field.as_deref()), (BadKind::MixedOrder, Some(field)));
    };
    bad_of(payload(vec![("a", little(3)), ("b", big(13))]), "b");
    bad_of(payload(vec![("a", little(11)), ("b", big(8)), ("c", little(5))]), "b");
    let real = FieldClass::Real(Real {
        bits: 32,
        align: 1,
        byte_order: ByteOrder::Big,
        is_reversed: false,
    });
    bad_of(payload(vec![("a", little(3)), ("r", real)]), "r");
    // Mixed orders within a byte: after a field of the same order, and after a field of variable size.
    let of_length = || array(of(Scope::Payload, &[0]), little(4));
    let members = || vec![("n", little(4)), ("x", of_length()), ("y", big(8)), ("z", little(4))];
    let bad = Packet::open(payload(members()), &[0x12, 0x34, 0x56, 0x78, 0x0a]).bad();
    assert_eq!((bad.kind, bad.at), (BadKind::MixedOrder, 12));
    // Mixed orders between parts, and between records.
    let mut schema = payload(vec![("b", big(5))]);
    schema.streams[0].event_common_context = Some(structure(1, vec![("a", little(3))]));
    bad_of(schema, "b");
    let members = vec![("a", little(8)), ("b", big(3))];
    let mut packet = Packet::open(payload(members), &[1; 8]);
    assert_eq!(packet.line(), "a=1 b=0");
    let bad = packet.bad();
    assert_eq!((bad.kind, bad.at, bad.field.as_deref()), (BadKind::MixedOrder, 11, Some("a")));
}

#[test]
fn integers_of_both_orders_that_share_no_byte_are_read() {
    let little = |width| bits(width, false, ByteOrder::Little);
    let big = |width| bits(width, false, ByteOrder::Big);
    let of_length = array(of(Scope::Payload, &[0]), little(4));
    let schema = payload(vec![("n", little(4)), ("x", of_length), ("y", big(8))]);
    let bytes = [0x31, 0x0c, 0xa3, 0xcb, 0x55];
    // The result does not depend on how many bytes are in the window: bytes that are read twice count once.
    for cut in 0..bytes.len() {
        let mut packet = Packet::open(schema.clone(), &bytes);
        for (n, y) in [("n=1 ", " y=12"), ("n=3 ", " y=85")] {
            let short = Window::new(&bytes[..cut], 0, bytes.len() as u64 * 8);
            let at = packet.at;
            let stream = packet.decoder.stream(0).unwrap();
            let _ = stream.record(&short, at, &mut packet.state);
            let found = packet.line();
            assert!(found.starts_with(n) && found.ends_with(y), "{cut}: {found}");
        }
    }
}

#[test]
fn alignment_counts_from_the_packets_begin() {
    let wide = FieldClass::Integer(int(32, 32, false, ByteOrder::Little));
    let schema = payload(vec![("a", unsigned(8)), ("b", wide)]);
    let mut bytes = vec![0; 24];
    (bytes[0], bytes[4], bytes[8], bytes[12]) = (1, 2, 3, 4);
    let mut packet = Packet::open(schema, &bytes);
    assert_eq!(packet.line(), "a=1 b=2");
    assert_eq!(packet.line(), "a=3 b=4");
    assert_eq!(packet.at, 128);
}

#[test]
fn reals_of_both_sizes_and_orders_keep_their_bits() {
    let mut bytes = 1.5f32.to_le_bytes().to_vec();
    bytes.extend((-2.25f64).to_be_bytes());
    let fields = vec![("a", real(32, ByteOrder::Little)), ("b", real(64, ByteOrder::Big))];
    let expected = format!("a=real {:016x} b=real {:016x}", 1.5f64.to_bits(), (-2.25f64).to_bits());
    assert_eq!(line(fields, &bytes), expected);
}

#[test]
fn texts_end_before_their_nul_and_blobs_do_not() {
    let fields = vec![
        ("a", FieldClass::String),
        ("b", FieldClass::Text { length: Length::Static(4) }),
        ("n", unsigned(8)),
        ("c", FieldClass::Text { length: of(HERE, &[2]) }),
        ("d", FieldClass::Blob { align: 8, length: of(HERE, &[2]) }),
        ("e", FieldClass::Blob { align: 8, length: Length::Static(2) }),
        ("f", FieldClass::String),
    ];
    let found = line(fields, b"hello\0ab\0c\x03xyz\0\xff!pq\0");
    assert_eq!(found, r"a='hello' b='ab' n=3 c='xyz' d=<\x00\xff!> e=<pq> f=''");
}

#[test]
fn variable_length_integers_move_what_is_behind_them() {
    let fields = vec![
        ("a", leb(false)),
        ("b", leb(true)),
        ("c", FieldClass::Text { length: of(HERE, &[0]) }),
        ("d", unsigned(8)),
    ];
    assert_eq!(line(fields, &[0x82, 0, 0x7e, b'h', b'i', 9]), "a=2 b=-2 c='hi' d=9");
}

#[test]
fn nested_arrays_and_structures_are_reported_in_order() {
    let pair =
        structure(1, vec![("n", unsigned(8)), ("s", array(of(HERE, &[1, 0, 0]), unsigned(8)))]);
    let fields = vec![
        ("k", unsigned(8)),
        ("a", array(of(HERE, &[0]), FieldClass::Structure(pair))),
        ("m", array(Length::Static(2), array(Length::Static(2), unsigned(8)))),
        ("z", unsigned(8)),
    ];
    let found = line(fields, &[2, 1, 10, 2, 20, 21, 1, 2, 3, 4, 99]);
    let expected = "k=2 a=[2 a[0]={ a[0].n=1 a[0].s=[1 a[0].s[0]=10 a[0].s=] a[0]=} \
                    a[1]={ a[1].n=2 a[1].s=[2 a[1].s[0]=20 a[1].s[1]=21 a[1].s=] a[1]=} a=] \
                    m=[2 m[0]=[2 m[0][0]=1 m[0][1]=2 m[0]=] m[1]=[2 m[1][0]=3 m[1][1]=4 m[1]=] m=] \
                    z=99";
    assert_eq!(found, expected);
}

#[test]
fn variant_has_the_first_option_whose_ranges_have_the_selector() {
    let fields = || {
        let options = vec![
            ("low", range(0, 9), unsigned(8)),
            ("text", range(5, 20), FieldClass::String),
            ("none", range(21, 21), FieldClass::Structure(structure(1, vec![]))),
        ];
        vec![("t", unsigned(8)), ("v", variant(at(HERE, &[0]), options)), ("z", unsigned(8))]
    };
    assert_eq!(line(fields(), &[7, 1, 2]), "t=7 v=(low v.low=1 v=) z=2");
    assert_eq!(line(fields(), &[12, b'x', 0, 2]), "t=12 v=(text v.text='x' v=) z=2");
    assert_eq!(line(fields(), &[21, 2]), "t=21 v=(none v.none={ v.none=} v=) z=2");
    let bad = Packet::open(payload(fields()), &[22, 0, 0]).bad();
    assert_eq!(bad.kind, BadKind::NoOption { value: 22 });
    assert_eq!((bad.field.as_deref(), bad.at), (Some("v"), 8));
}

#[test]
fn signed_selector_is_compared_with_its_sign() {
    let signed = FieldClass::Integer(int(8, 8, true, ByteOrder::Little));
    let options =
        vec![("minus", range(-128, -1), unsigned(8)), ("plus", range(0, 127), unsigned(16))];
    let fields = vec![("t", signed), ("v", variant(at(HERE, &[0]), options))];
    assert_eq!(line(fields.clone(), &[0xff, 3]), "t=-1 v=(minus v.minus=3 v=)");
    assert_eq!(line(fields.clone(), &[1, 3, 1]), "t=+1 v=(plus v.plus=259 v=)");
    let options = vec![("a", range(5, 6), unsigned(8))];
    let only = vec![fields[0].clone(), ("v", variant(at(HERE, &[0]), options))];
    let bad = Packet::open(payload(only), &[0xfe, 0]).bad();
    assert_eq!(bad.kind, BadKind::NoOption { value: -2 });
}

#[test]
fn optional_field_is_there_or_absent() {
    let fields = |ranges: Vec<Range>| {
        let optional = optional(at(HERE, &[0]), ranges, unsigned(8));
        vec![("t", unsigned(8)), ("o", optional), ("z", unsigned(8))]
    };
    assert_eq!(line(fields(vec![]), &[0, 9]), "t=0 o=absent z=9");
    assert_eq!(line(fields(vec![]), &[255, 8, 9]), "t=255 o=8 z=9");
    assert_eq!(line(fields(range(3, 4)), &[3, 8, 9]), "t=3 o=8 z=9");
    assert_eq!(line(fields(range(3, 4)), &[1, 9]), "t=1 o=absent z=9");
}

#[test]
fn length_that_is_not_there_this_time_ends_the_record() {
    // An optional length in an element: that of the previous element does not count, and no other value is assumed.
    let element = structure(
        1,
        vec![
            ("t", unsigned(8)),
            ("n", optional(at(HERE, &[0, 0, 0]), vec![], unsigned(8))),
            ("s", array(of(HERE, &[0, 0, 1, 0]), unsigned(8))),
        ],
    );
    let fields = || vec![("a", array(Length::Static(2), FieldClass::Structure(element.clone())))];
    let found = line(fields(), &[1, 2, 7, 8, 3, 0]);
    assert!(found.contains("a[0].s=[2 a[0].s[0]=7 a[0].s[1]=8"), "{found}");
    assert!(found.ends_with("a[1].n=0 a[1].s=[0 a[1].s=] a[1]=} a=]"), "{found}");
    let bad = Packet::open(payload(fields()), &[1, 2, 7, 8, 0, 9, 9]).bad();
    assert_eq!((bad.kind, bad.field.as_deref()), (BadKind::NotThere, Some("s")));
    // The same for a text, a blob, a variant and an optional field that depend on the length.
    let not_there = at(HERE, &[1, 0]);
    for class in [
        FieldClass::Text { length: Length::Dynamic(not_there.clone()) },
        FieldClass::Blob { align: 32, length: Length::Dynamic(not_there.clone()) },
        variant(not_there.clone(), vec![("zero", range(0, 0), unsigned(8))]),
        optional(not_there.clone(), vec![], unsigned(8)),
    ] {
        let n = optional(at(HERE, &[0]), vec![], unsigned(8));
        let fields = vec![("t", unsigned(8)), ("n", n), ("f", class)];
        let bad = Packet::open(payload(fields), &[0, 0, 0, 0, 0, 0]).bad();
        assert_eq!((bad.kind, bad.field.as_deref()), (BadKind::NotThere, Some("f")));
    }
}

/// Returns a variant with the options `one` (a number of 8 bits), `two` (a structure with a number of 16 bits) and
/// `three` (no number), a selector before it, and after it a text and an array whose length is the option's number.
fn lengths_in_options() -> Vec<(&'static str, FieldClass)> {
    let inner = structure(1, vec![("q", unsigned(8)), ("n", unsigned(16))]);
    let options = vec![
        ("one", range(1, 1), unsigned(8)),
        ("two", range(2, 2), FieldClass::Structure(inner)),
        ("three", range(3, 3), FieldClass::String),
    ];
    let length = || {
        let others = vec![vec![1, 1, 1]];
        Length::Dynamic(Location { others, ..at(HERE, &[1, 0]) })
    };
    vec![
        ("t", unsigned(8)),
        ("v", variant(at(HERE, &[0]), options)),
        ("s", FieldClass::Text { length: length() }),
        ("a", array(length(), unsigned(8))),
        (
            "o",
            optional(
                Location { others: vec![vec![1, 1, 1]], ..at(HERE, &[1, 0]) },
                range(2, 2),
                unsigned(8),
            ),
        ),
    ]
}

#[test]
fn location_of_several_options_means_the_one_that_is_there() {
    let bytes = [
        &[1, 1, b'x', 7][..],               // one, 1
        &[2, 9, 2, 0, b'y', b'z', 5, 6, 8], // two, 2, and the optional field
        &[1, 0],                            // one, 0
        &[3, b'n', 0, 1, 1, 1],             // neither
    ]
    .concat();
    let mut packet = Packet::open(payload(lengths_in_options()), &bytes);
    assert_eq!(packet.line(), "t=1 v=(one v.one=1 v=) s='x' a=[1 a[0]=7 a=] o=absent");
    let found = packet.line();
    assert!(found.ends_with("s='yz' a=[2 a[0]=5 a[1]=6 a=] o=8"), "{found}");
    assert_eq!(packet.line(), "t=1 v=(one v.one=0 v=) s='' a=[0 a=] o=absent");
    let bad = packet.bad();
    assert_eq!((bad.kind, bad.field.as_deref(), bad.at), (BadKind::NotThere, Some("s"), 18 * 8));
}

#[test]
fn location_of_several_options_in_elements_is_that_of_each_element() {
    let inner = |fields: Vec<(&str, FieldClass)>| FieldClass::Structure(structure(1, fields));
    let options = vec![("a", range(1, 1), unsigned(8)), ("b", range(2, 2), leb(false))];
    let length = Location { others: vec![vec![0, 0, 1, 1]], ..at(HERE, &[0, 0, 1, 0]) };
    let element = inner(vec![
        ("t", unsigned(8)),
        ("v", variant(at(HERE, &[0, 0, 0]), options)),
        ("s", FieldClass::Text { length: Length::Dynamic(length) }),
    ]);
    let fields = vec![("e", array(Length::Static(3), element))];
    let found = line(fields, &[2, 2, b'x', b'y', 1, 0, 2, 1, b'z']);
    let texts: Vec<&str> = found.split(' ').filter(|part| part.contains("].s=")).collect();
    assert_eq!(texts, ["e[0].s='xy'", "e[1].s=''", "e[2].s='z'"], "{found}");
}

#[test]
fn lengths_and_selectors_reach_across_all_parts() {
    let mut schema = schema(
        Some(structure(1, vec![("id", id(8, 8, ByteOrder::Little)), ("h", unsigned(8))])),
        vec![event(
            0,
            structure(
                1,
                vec![
                    ("a", array(of(Scope::PacketHeader, &[0]), unsigned(8))),
                    ("b", array(of(Scope::PacketContext, &[0]), unsigned(8))),
                    ("c", array(of(Scope::EventHeader, &[1]), unsigned(8))),
                    ("d", array(of(Scope::CommonContext, &[0]), unsigned(8))),
                    ("e", array(of(Scope::SpecificContext, &[0]), unsigned(8))),
                ],
            ),
        )],
    );
    let one = |name| Some(structure(1, vec![(name, unsigned(8))]));
    schema.packet_header = one("p");
    schema.streams[0].packet_context = one("q");
    schema.streams[0].event_common_context = one("r");
    schema.streams[0].events[0].specific_context = one("s");
    let bytes = [1, 2, 0, 0, 1, 2, 11, 21, 22, 41, 51, 52, 0, 1, 0, 0, 11, 21, 22, 31];
    let mut packet = Packet::open(schema, &bytes);
    let first = "a=[1 a[0]=11 a=] b=[2 b[0]=21 b[1]=22 b=] c=[0 c=] d=[1 d[0]=41 d=] \
                 e=[2 e[0]=51 e[1]=52 e=]";
    assert_eq!(packet.line(), first);
    let second = "a=[1 a[0]=11 a=] b=[2 b[0]=21 b[1]=22 b=] c=[1 c[0]=31 c=] d=[0 d=] e=[0 e=]";
    assert_eq!(packet.line(), second);
}

#[test]
fn more_registers_than_fit_without_allocation_are_kept() {
    let mut members = Vec::new();
    let names: Vec<String> = (0..80).map(|index| format!("f{index}")).collect();
    for (index, pair) in (0u32..).zip(names.chunks(2)) {
        members.push((pair[0].as_str(), unsigned(8)));
        members.push((pair[1].as_str(), array(of(HERE, &[index * 2]), unsigned(8))));
    }
    // The lengths are 0, 1, 2, 0, 1, 2…
    let bytes: Vec<u8> = (0..40u8)
        .flat_map(|index| std::iter::repeat_n(index % 3, 1 + index as usize % 3))
        .collect();
    let found = line(members, &bytes);
    assert!(found.ends_with("f77=] f78=0 f79=[0 f79=]"), "{found}");
    assert!(found.contains("f10=2 f11=[2 f11[0]=2 f11[1]=2 f11=] f12=0"), "{found}");
}

//! Fields of every class, written by hand and read by babeltrace2.

use crate::support::*;
use strata_model::{Base, Element, Field, FieldClass, FieldOrder, Float, Integer};

/// Bytes of several values in native byte order.
macro_rules! bytes {
    ($($value:expr),* $(,)?) => {{
        let mut out: Vec<u8> = Vec::new();
        $(out.extend($value.to_ne_bytes());)*
        out
    }};
}

#[test]
fn integers_at_their_limits_are_read_exactly() {
    let mut fields = Vec::new();
    for bytes in [1, 2, 4, 8] {
        fields.push(integer(&format!("u{bytes}"), Integer::unsigned(bytes)));
        fields.push(integer(&format!("s{bytes}"), Integer::signed(bytes)));
    }
    check_payloads(
        fields,
        &[
            (
                bytes![0u8, i8::MIN, 0u16, i16::MIN, 0u32, i32::MIN, 0u64, i64::MIN],
                "u1 = 0, s1 = -128, u2 = 0, s2 = -32768, u4 = 0, s4 = -2147483648, \
                 u8 = 0, s8 = -9223372036854775808",
            ),
            (
                bytes![
                    u8::MAX,
                    i8::MAX,
                    u16::MAX,
                    i16::MAX,
                    u32::MAX,
                    i32::MAX,
                    u64::MAX,
                    i64::MAX
                ],
                "u1 = 255, s1 = 127, u2 = 65535, s2 = 32767, u4 = 4294967295, s4 = 2147483647, \
                 u8 = 18446744073709551615, s8 = 9223372036854775807",
            ),
            (
                bytes![1u8, -1i8, 1u16, -1i16, 1u32, -1i32, 1u64, -1i64],
                "u1 = 1, s1 = -1, u2 = 1, s2 = -1, u4 = 1, s4 = -1, u8 = 1, s8 = -1",
            ),
        ],
    );
}

#[test]
fn integers_of_the_other_byte_order_are_read_exactly() {
    let mut fields = Vec::new();
    for (name, byte_order) in [("be", FieldOrder::Big), ("le", FieldOrder::Little)] {
        for bytes in [1, 2, 4, 8] {
            let signed = Integer { byte_order, ..Integer::signed(bytes) };
            fields.push(integer(&format!("{name}{bytes}"), signed));
        }
    }
    let payload = b"\x81\x80\x01\x80\x00\x00\x01\x80\x00\x00\x00\x00\x00\x00\x01\
                    \x81\x01\x80\x01\x00\x00\x80\x01\x00\x00\x00\x00\x00\x00\x80";
    check_payloads(
        fields,
        &[(
            payload.to_vec(),
            "be1 = -127, be2 = -32767, be4 = -2147483647, be8 = -9223372036854775807, \
             le1 = -127, le2 = -32767, le4 = -2147483647, le8 = -9223372036854775807",
        )],
    );
}

#[test]
fn integers_are_shown_in_their_base() {
    let mut fields = Vec::new();
    for bytes in [1, 8] {
        for (name, base) in
            [("bin", Base::Two), ("oct", Base::Eight), ("dec", Base::Ten), ("hex", Base::Sixteen)]
        {
            fields.push(integer(&format!("{name}{bytes}"), based(bytes, base)));
        }
    }
    fields.push(integer("port", network(based(2, Base::Sixteen))));
    fields.push(integer("minus", Integer { base: Base::Sixteen, ..Integer::signed(4) }));
    let words = bytes![10u8, 10u8, 10u8, 171u8, 6u64, u64::MAX, 10u64, u64::MAX];
    let payload = [words, vec![0xbe, 0xef], bytes![-2i32]].concat();
    let bits = format!("{:0>64}", "110");
    let shown = format!(
        "bin1 = 0b00001010, oct1 = 012, dec1 = 10, hex1 = 0xAB, bin8 = 0b{bits}, \
         oct8 = 01777777777777777777777, dec8 = 10, hex8 = 0xFFFFFFFFFFFFFFFF, port = 0xBEEF, \
         minus = 0xFFFFFFFE"
    );
    check_payloads(fields, &[(payload, &shown)]);
}

#[test]
fn truth_values_are_read_as_0_and_1() {
    let truth = Integer { is_bool: true, ..Integer::unsigned(1) };
    check_payloads(
        vec![integer("yes", truth), integer("no", truth)],
        &[(vec![1, 0], "yes = 1, no = 0")],
    );
}

#[test]
fn floats_of_both_sizes_and_orders_are_read_exactly() {
    let fields = vec![
        float("f", 4, FieldOrder::Native),
        float("fbe", 4, FieldOrder::Big),
        float("fle", 4, FieldOrder::Little),
        float("d", 8, FieldOrder::Native),
        float("dbe", 8, FieldOrder::Big),
        float("dle", 8, FieldOrder::Little),
    ];
    let payload = |f: f32, d: f64| {
        let mut out = f.to_ne_bytes().to_vec();
        out.extend(f.to_be_bytes());
        out.extend(f.to_le_bytes());
        out.extend(d.to_ne_bytes());
        out.extend(d.to_be_bytes());
        out.extend(d.to_le_bytes());
        out
    };
    let all =
        |f: &str, d: &str| format!("f = {f}, fbe = {f}, fle = {f}, d = {d}, dbe = {d}, dle = {d}");
    check_payloads(
        fields,
        &[
            (payload(1.5, -0.25), &all("1.5", "-0.25")),
            (payload(f32::MAX, f64::MAX), &all("3.40282e+38", "1.79769e+308")),
            (payload(f32::MIN_POSITIVE, f64::MIN_POSITIVE), &all("1.17549e-38", "2.22507e-308")),
            (payload(f32::NEG_INFINITY, f64::INFINITY), &all("-inf", "inf")),
            (payload(f32::NAN, f64::NAN), &all("nan", "nan")),
            (payload(0.0, -0.0), &all("0", "-0")),
        ],
    );
}

#[test]
fn enumerations_are_read_with_their_labels() {
    let fields = vec![
        enumeration(
            "s",
            Integer::signed(4),
            &[
                ("below", i64::from(i32::MIN), -2),
                ("minus one", -1, -1),
                ("zero", 0, 0),
                ("few", 1, 9),
            ],
        ),
        // A label for two ranges.
        enumeration(
            "u",
            Integer::unsigned(1),
            &[("edge", 0, 0), ("edge", 255, 255), ("mid", 9, 20)],
        ),
        enumeration("be", network(Integer::unsigned(2)), &[("one", 1, 1), ("top", 65535, 65535)]),
    ];
    let payload = |s: i32, u: u8, be: u16| {
        let mut out = bytes![s, u];
        out.extend(be.to_be_bytes());
        out
    };
    let shown = |s: (&str, i32), u: (&str, u8), be: (&str, u16)| {
        format!(
            "s = ( {} : container = {} ), u = ( {} : container = {} ), \
             be = ( {} : container = {} )",
            s.0, s.1, u.0, u.1, be.0, be.1
        )
    };
    check_payloads(
        fields,
        &[
            (
                payload(i32::MIN, 0, 1),
                &shown(("\"below\"", i32::MIN), ("\"edge\"", 0), ("\"one\"", 1)),
            ),
            (
                payload(-1, 255, 65535),
                &shown(("\"minus one\"", -1), ("\"edge\"", 255), ("\"top\"", 65535)),
            ),
            (payload(9, 20, 2), &shown(("\"few\"", 9), ("\"mid\"", 20), ("<unknown>", 2))),
            (payload(0, 8, 256), &shown(("\"zero\"", 0), ("<unknown>", 8), ("<unknown>", 256))),
            (payload(10, 21, 0), &shown(("<unknown>", 10), ("<unknown>", 21), ("<unknown>", 0))),
        ],
    );
}

#[test]
fn enumerations_of_whole_words_reach_their_limits() {
    let fields = vec![
        enumeration(
            "s",
            Integer::signed(8),
            &[("least", i64::MIN, i64::MIN), ("most", 1, i64::MAX)],
        ),
        // Of an unsigned word labels are bit patterns.
        enumeration("u", Integer::unsigned(8), &[("half", i64::MIN, -2), ("all", -1, -1)]),
    ];
    check_payloads(
        fields,
        &[
            (
                bytes![i64::MIN, u64::MAX],
                "s = ( \"least\" : container = -9223372036854775808 ), \
                 u = ( \"all\" : container = 18446744073709551615 )",
            ),
            (
                bytes![i64::MAX, 1u64 << 63],
                "s = ( \"most\" : container = 9223372036854775807 ), \
                 u = ( \"half\" : container = 9223372036854775808 )",
            ),
        ],
    );
}

#[test]
fn enumerations_of_one_name_in_one_event_do_not_clash() {
    let fields = vec![
        enumeration("a", Integer::unsigned(1), &[("red", 1, 1)]),
        enumeration("b", Integer::unsigned(1), &[("red", 1, 1)]),
    ];
    check_payloads(
        fields,
        &[(vec![1, 1], "a = ( \"red\" : container = 1 ), b = ( \"red\" : container = 1 )")],
    );
}

#[test]
fn strings_are_read_up_to_their_end() {
    let fields = vec![
        Field::new("a", FieldClass::String),
        Field::new("b", FieldClass::String),
        integer("after", Integer::unsigned(1)),
    ];
    let long = "x".repeat(5000);
    check_payloads(
        fields,
        &[
            (b"\0\0\x07".to_vec(), "a = \"\", b = \"\", after = 7"),
            (
                "hello \"q\" \\\0grüße\0\x07".into(),
                "a = \"hello \\\"q\\\" \\\\\", b = \"grüße\", after = 7",
            ),
            (
                format!("{long}\0\n\0\x08").into(),
                &format!("a = \"{long}\", b = \"\\n\", after = 8"),
            ),
        ],
    );
}

#[test]
fn texts_of_a_fixed_size_are_read_up_to_their_padding() {
    let fields = vec![
        array("comm", Element::Text, 4),
        array("none", Element::Text, 0),
        integer("after", Integer::unsigned(1)),
    ];
    check_payloads(
        fields,
        &[
            (b"ab\0\0\x01".to_vec(), "comm = \"ab\", none = \"\", after = 1"),
            (b"abcd\x01".to_vec(), "comm = \"abcd\", none = \"\", after = 1"),
            (b"\0\0\0\0\x01".to_vec(), "comm = \"\", none = \"\", after = 1"),
        ],
    );
}

#[test]
fn arrays_are_read_element_by_element() {
    let double = Element::Float(Float { bytes: 8, byte_order: FieldOrder::Native });
    let fields = vec![
        array("none", Element::Integer(Integer::unsigned(4)), 0),
        array("s", Element::Integer(Integer::signed(2)), 3),
        array("be", Element::Integer(network(based(4, Base::Sixteen))), 2),
        array("d", double, 2),
        array("blob", Element::Integer(based(1, Base::Sixteen)), 2),
    ];
    let payload = [
        bytes![-1i16, 0i16, 1i16],
        vec![1, 2, 3, 4, 0xff, 0, 0, 0],
        bytes![0.5f64, -2.0f64],
        vec![0, 0xff],
    ]
    .concat();
    check_payloads(
        fields,
        &[(
            payload,
            "none = [ ], s = [ [0] = -1, [1] = 0, [2] = 1 ], \
             be = [ [0] = 0x1020304, [1] = 0xFF000000 ], d = [ [0] = 0.5, [1] = -2 ], \
             blob = [ [0] = 0x0, [1] = 0xFF ]",
        )],
    );
}

#[test]
fn sequences_are_read_with_each_size_of_length() {
    let fields = vec![
        sequence("a", Element::Integer(Integer::signed(2)), 1),
        sequence("b", Element::Text, 2),
        sequence("c", Element::Integer(based(1, Base::Sixteen)), 4),
        sequence("d", Element::Float(Float { bytes: 4, byte_order: FieldOrder::Big }), 8),
        integer("after", Integer::unsigned(1)),
    ];
    let full = [
        bytes![2u8, -1i16, 1i16, 3u16],
        b"xyz".to_vec(),
        bytes![2u32, 0xfeu8, 1u8, 1u64],
        0.5f32.to_be_bytes().to_vec(),
        vec![9],
    ]
    .concat();
    let long = [bytes![0u8, 300u16], vec![b'y'; 300], bytes![0u32, 0u64, 9u8]].concat();
    check_payloads(
        fields,
        &[
            (
                full,
                "_a_length = 2, a = [ [0] = -1, [1] = 1 ], _b_length = 3, b = \"xyz\", \
                 _c_length = 2, c = [ [0] = 0xFE, [1] = 0x1 ], _d_length = 1, d = [ [0] = 0.5 ], \
                 after = 9",
            ),
            (
                bytes![0u8, 0u16, 0u32, 0u64, 9u8],
                "_a_length = 0, a = [ ], _b_length = 0, b = \"\", _c_length = 0, c = [ ], \
                 _d_length = 0, d = [ ], after = 9",
            ),
            (
                long,
                &format!(
                    "_a_length = 0, a = [ ], _b_length = 300, b = \"{}\", _c_length = 0, c = [ ], \
                     _d_length = 0, d = [ ], after = 9",
                    "y".repeat(300)
                ),
            ),
        ],
    );
}

#[test]
fn sequences_whose_length_has_a_fields_name_leave_it_to_the_field() {
    let fields = vec![sequence("a", Element::Text, 1), integer("_a_length", Integer::unsigned(1))];
    check_payloads(
        fields,
        &[(b"\x02xy\x07".to_vec(), "_a_length_2 = 2, a = \"xy\", _a_length = 7")],
    );
}

#[test]
fn fields_with_keywords_or_no_identifiers_as_names_are_read() {
    let names = [
        ("event", "event"),
        ("struct", "struct"),
        ("integer", "integer"),
        ("string", "string"),
        ("clock", "clock"),
        ("_", "_"),
        ("__x", "__x"),
        ("uint8_t", "uint8_t"),
        ("id", "id"),
        ("v", "v"),
        ("timestamp", "timestamp"),
        ("stream.event.header", "stream_event_header"),
        ("a b", "a_b_2"),
        ("a_b", "a_b"),
        ("9", "9"),
        ("größe", "gr__e"),
        ("x[5]; } y; struct {", "x_5_____y__struct__"),
        ("*/ /*", "_____"),
    ];
    let fields = names.iter().map(|(name, _)| integer(name, Integer::unsigned(1))).collect();
    let shown: Vec<String> =
        names.iter().enumerate().map(|(i, (_, shown))| format!("{shown} = {i}")).collect();
    check_payloads(fields, &[((0..names.len() as u8).collect(), &shown.join(", "))]);
}

#[test]
fn events_with_64_fields_are_read() {
    let fields: Vec<Field> = (0..64)
        .map(|i| integer(&format!("f{i}"), Integer::unsigned([1, 2, 4, 8][i % 4])))
        .collect();
    let mut payload = Vec::new();
    for i in 0..16u8 {
        payload.extend(bytes![
            i * 4,
            u16::from(i * 4 + 1),
            u32::from(i * 4 + 2),
            u64::from(i * 4 + 3)
        ]);
    }
    let shown: Vec<String> = (0..64).map(|i| format!("f{i} = {i}")).collect();
    check_payloads(fields, &[(payload, &shown.join(", "))]);
}

/// babeltrace2 2.0.4 compares a whole name with earlier ones whose underscore it has taken away.
#[test]
fn fields_whose_names_differ_in_underscores_do_not_clash() {
    let byte = |name: &str| integer(name, Integer::unsigned(1));
    check_payloads(
        vec![byte("x"), byte("_x"), byte("__x")],
        &[(vec![1, 2, 3], "x = 1, _x = 2, __x = 3")],
    );
    check_payloads(
        vec![byte("__x"), byte("_x"), byte("x")],
        &[(vec![1, 2, 3], "__x = 1, _x_2 = 2, x = 3")],
    );
    check_payloads(
        vec![sequence("a", Element::Text, 1), byte("a_length")],
        &[(b"\x01z\x02".to_vec(), "_a_length_2 = 1, a = \"z\", a_length = 2")],
    );
}

//! Tests of types: integers, numbers, strings, enumerations, arrays, structures, scopes.

use super::*;

#[test]
fn integer_with_nothing_but_size_has_defaults() {
    both(&event("integer { size = 8; } a; integer { size = 13; } b;"), |order, schema| {
        let payload = payload_of(schema);
        let expected = |bits| Integer { byte_order: order, ..plain(bits) };
        assert_eq!(*integer(&named(&payload, "a")), expected(8));
        assert_eq!(*integer(&named(&payload, "b")), expected(13));
        assert_eq!(integer(&named(&payload, "b")).align, 1);
    });
}

#[test]
fn integer_with_all_attributes_has_them() {
    let text = "clock { name = c; }; event { name = e; fields := struct { integer { size = 64; \
                align = 32; signed = true; base = hexadecimal; byte_order = network; encoding = none; \
                map = clock.c.value; from_the_future = \"x\"; } a; }; };";
    both(text, |_, schema| {
        let expected = Integer {
            align: 32,
            signed: true,
            base: Base::Sixteen,
            byte_order: ByteOrder::Big,
            clock: Some(0),
            ..plain(64)
        };
        assert_eq!(schema.streams[0].clock, Some(0));
        assert_eq!(payload_of(schema).members[0].class, FieldClass::Integer(expected));
    });
}

#[test]
fn integer_byte_orders_are_the_traces_or_their_own() {
    for (written, expected) in [
        ("native", None),
        ("le", Some(ByteOrder::Little)),
        ("be", Some(ByteOrder::Big)),
        ("network", Some(ByteOrder::Big)),
        ("\"be\"", Some(ByteOrder::Big)),
    ] {
        let fields = format!(
            "integer {{ size = 16; byte_order = {written}; }} i; \
             floating_point {{ exp_dig = 8; mant_dig = 24; byte_order = {written}; }} r;"
        );
        both(&event(&fields), |order, schema| {
            let payload = payload_of(schema);
            let expected = expected.unwrap_or(order);
            assert_eq!(integer(&payload.members[0].class).byte_order, expected, "{written}");
            let real = Real { bits: 32, align: 8, byte_order: expected, is_reversed: false };
            assert_eq!(payload.members[1].class, FieldClass::Real(real), "{written}");
        });
    }
    let found = field_problem("integer { size = 16; byte_order = middle; } i;");
    assert_eq!(found.to_string(), "a byte order is 'middle', expected le, be, network or native");
}

#[test]
fn integer_bases_by_number_and_by_name() {
    let bases = [
        (Base::Two, "2 b binary"),
        (Base::Eight, "8 o oct octal"),
        (Base::Ten, "10 d dec decimal i u 0xA"),
        (Base::Sixteen, "16 x X p hex hexadecimal"),
    ];
    for (base, names) in bases {
        for name in names.split(' ') {
            for written in [name.to_owned(), format!("\"{name}\"")] {
                if written.starts_with("\"0")
                    || written.starts_with(['"']) && name.parse::<u8>().is_ok()
                {
                    continue;
                }
                let payload = payload(&format!("integer {{ size = 8; base = {written}; }} a;"));
                assert_eq!(integer(&payload.members[0].class).base, base, "{written}");
            }
        }
    }
    let found = field_problem("integer { size = 8; base = 7; } a;");
    assert_eq!(found.to_string(), "a base is '7', expected 2, 8, 10 or 16");
}

#[test]
fn integer_signedness_in_all_spellings() {
    let spellings = [
        ("true", true),
        ("TRUE", true),
        ("1", true),
        ("false", false),
        ("FALSE", false),
        ("0", false),
    ];
    for (written, signed) in spellings {
        let payload = payload(&format!("integer {{ size = 8; signed = {written}; }} a;"));
        assert_eq!(integer(&payload.members[0].class).signed, signed, "{written}");
    }
    let found = field_problem("integer { size = 8; signed = perhaps; } a;");
    assert_eq!(found.to_string(), "a truth value is 'perhaps', expected true or false");
}

#[test]
fn integer_that_cannot_be_is_refused() {
    for size in ["0", "65", "-8", "18446744073709551615", "eight"] {
        let found = field_problem(&format!("integer {{ size = {size}; }} a;"));
        let expected = format!("an integer's size is '{size}', expected 1 to 64 bits");
        assert_eq!(found.to_string(), expected);
    }
    let found = field_problem("integer { signed = true; } a;");
    assert_eq!(found.to_string(), "the integer has no size");
    for align in ["0", "3", "4294967296"] {
        let found = field_problem(&format!("integer {{ size = 8; align = {align}; }} a;"));
        assert!(matches!(found, MetadataProblem::Value { of: "an alignment", .. }), "{found}");
    }
    let found = field_problem("integer { size = 8; encoding = ebcdic; } a;");
    assert_eq!(found.to_string(), "an encoding is 'ebcdic', expected UTF8, ASCII or none");
}

#[test]
fn integer_map_to_an_unknown_clock_is_refused_and_to_nonsense_ignored() {
    let found = field_problem("integer { size = 8; map = clock.none.value; } a;");
    assert_eq!(found.to_string(), "clock 'none' is not described");
    for map in ["foo", "clock.c.frequency", "\"clock.c.value\"", "3"] {
        let text = format!(
            "clock {{ name = c; }}; {}",
            event(&format!("integer {{ size = 8; map = {map}; }} a;"))
        );
        assert_eq!(integer(&payload_of(schema(&text)).members[0].class).clock, None, "{map}");
    }
}

#[test]
fn real_of_both_sizes() {
    let payload = payload(
        "floating_point { exp_dig = 8; mant_dig = 24; align = 32; } a; \
         floating_point { mant_dig = 53; exp_dig = 11; align = 1; unknown = 3; } b;",
    );
    let real = |bits, align| {
        FieldClass::Real(Real { bits, align, byte_order: ByteOrder::Little, is_reversed: false })
    };
    assert_eq!(payload.members[0].class, real(32, 32));
    assert_eq!(payload.members[1].class, real(64, 1));
    let found = field_problem("floating_point { exp_dig = 5; mant_dig = 11; } a;");
    let expected = "exp_dig and mant_dig is '5 and 11', expected 8 and 24, or 11 and 53";
    assert_eq!(found.to_string(), expected);
    let found = field_problem("floating_point { exp_dig = 8; } a;");
    assert_eq!(found.to_string(), "the floating-point number has no mant_dig");
}

#[test]
fn string_with_and_without_encoding() {
    let payload =
        payload("string a; string { encoding = UTF8; } b; string { encoding = ASCII; } c;");
    assert!(payload.members.iter().all(|member| member.class == FieldClass::String));
    let found = field_problem("string { encoding = runes; } a;");
    assert_eq!(found.to_string(), "an encoding is 'runes', expected UTF8, ASCII or none");
}

#[test]
fn arrays_of_bytes_with_encoding_are_text() {
    let payload = payload(
        "typealias integer { size = 8; encoding = UTF8; signed = true; } := ch; \
         typealias enum : ch { A } := letter; u8 n; \
         ch a[3]; ch b[n]; ch c[2][5]; letter d[4]; u8 e[2]; \
         integer { size = 8; align = 4; encoding = ASCII; } f[2]; \
         integer { size = 16; encoding = ASCII; } g[2]; ch h; ch i[0];",
    );
    let text = |length| FieldClass::Text { length };
    assert_eq!(named(&payload, "a"), text(Length::Static(3)));
    assert_eq!(named(&payload, "b"), text(Length::Dynamic(at(Scope::Payload, &[0]))));
    let outer = named(&payload, "c");
    assert_eq!(array(&outer).length, Length::Static(2));
    assert_eq!(*array(&outer).element, text(Length::Static(5)));
    assert_eq!(named(&payload, "d"), text(Length::Static(4)));
    for name in ["e", "f", "g"] {
        assert_eq!(array(&named(&payload, name)).length, Length::Static(2), "{name}");
    }
    assert!(integer(&named(&payload, "h")).signed);
    assert_eq!(named(&payload, "i"), text(Length::Static(0)));
}

#[test]
fn arrays_of_several_dimensions_are_as_in_c() {
    let payload = payload("u8 n; u8 a[2][n][3];");
    let outer = named(&payload, "a");
    assert_eq!(array(&outer).length, Length::Static(2));
    let middle = &array(&outer).element;
    assert_eq!(array(middle).length, Length::Dynamic(at(Scope::Payload, &[0])));
    assert_eq!(array(&array(middle).element).length, Length::Static(3));
}

#[test]
fn array_lengths_are_constant_expressions() {
    let payload = payload(
        "u8 a[(3)]; u8 b[0x10]; u8 c[010]; u8 d[+2]; u8 e[--2]; u8 f[18446744073709551615];",
    );
    let expected = [3, 16, 8, 2, 2, u64::MAX];
    for (member, length) in payload.members.iter().zip(expected) {
        assert_eq!(array(&member.class).length, Length::Static(length), "{}", member.name);
    }
    let found = field_problem("u8 a[-1];");
    assert_eq!(found.to_string(), "an array's length is '-1', expected 0 to 18446744073709551615");
    let found = field_problem("u8 a[\"n\"];");
    assert_eq!(found.to_string(), "an array's length is 'n', expected a number or a field's name");
    let found = field_problem("u8 a[1 + 2];");
    assert_eq!(found.to_string(), "expected ']', found '+'");
}

#[test]
fn enumeration_values_go_on_and_go_back() {
    both(
        &event(
            "enum : integer { size = 8; signed = true; } { MIN = -128 ... -3, next, \"a b\" = 5, \
             c, d = 0x10 ... 0x1F, last, } x;",
        ),
        |_, schema| {
            let class = payload_of(schema).members.remove(0).class;
            let expected = [
                ("MIN", (-128, -3)),
                ("next", (-2, -2)),
                ("a b", (5, 5)),
                ("c", (6, 6)),
                ("d", (16, 31)),
                ("last", (32, 32)),
            ];
            let expected = expected.map(|(name, range)| (name.to_owned(), vec![range]));
            assert_eq!(labels(&class), expected);
            assert!(integer(&class).signed);
        },
    );
}

#[test]
fn enumeration_with_equal_labels_joins_their_ranges() {
    let payload = payload("enum : u8 { a = 0 ... 1, b = 2, a = 7, b, a = 20 ... 30 } x;");
    let expected =
        [("a".to_owned(), vec![(0, 1), (7, 7), (20, 30)]), ("b".to_owned(), vec![(2, 2), (8, 8)])];
    assert_eq!(labels(&payload.members[0].class), expected);
}

#[test]
fn enumeration_with_a_name_of_flags_has_flags() {
    let payload = payload(
        "enum flags0__x : u8 { a = 1 } _x; enum flags12_y : u8 { a } y; enum flags0__x z; \
         enum flagsx_x : u8 { a } v; enum : u8 { a = 1 } w;",
    );
    let flags = |name: &str| integer(&named(&payload, name)).flags.map(|flags| flags.low_bits);
    let found = ["x", "y", "z", "v", "w"].map(flags);
    assert_eq!(found, [Some(0), Some(12), Some(0), None, None]);
}

#[test]
fn enumeration_without_container_is_an_int() {
    let payload = payload("enum { a } x; enum e { b } y; enum e z; enum f : u8 { c } w;");
    for name in ["x", "y", "z"] {
        assert_eq!(integer(&named(&payload, name)).width, Width::Bits(32), "{name}");
    }
    assert_eq!(labels(&named(&payload, "y")), labels(&named(&payload, "z")));
    assert_eq!(integer(&named(&payload, "w")).width, Width::Bits(8));
    let text = "trace { major = 1; minor = 8; byte_order = le; }; \
                event { fields := struct { enum { a } x; }; };";
    let error = parse(text.as_bytes()).unwrap_err();
    let expected = "metadata line 1, column 78: \
                    the container of an enumeration without one, type 'int' is not described";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn enumeration_of_64_bits_has_both_ends() {
    let payload = payload(
        "enum : integer { size = 64; } { top = 18446744073709551615, minus = -1 } a; \
         enum : integer { size = 64; signed = true; } { low = -9223372036854775808, high = 0xffffffffffffffff } b;",
    );
    let top = i128::from(u64::MAX);
    let expected = [("top".to_owned(), vec![(top, top)]), ("minus".to_owned(), vec![(top, top)])];
    assert_eq!(labels(&payload.members[0].class), expected);
    let low = i128::from(i64::MIN);
    let expected = [("low".to_owned(), vec![(low, low)]), ("high".to_owned(), vec![(-1, -1)])];
    assert_eq!(labels(&payload.members[1].class), expected);
}

#[test]
fn enumeration_that_cannot_be_is_refused() {
    let found = field_problem("enum : u8 { a = 5 ... 3 } x;");
    assert_eq!(found.to_string(), "a label's range is '5 ... 3', expected the lower value first");
    for (container, range, kind) in [
        ("u8", "-1 ... 4", "an unsigned"),
        ("integer { size = 64; signed = true; }", "1 ... 9223372036854775808", "a signed"),
    ] {
        let found = field_problem(&format!("enum : {container} {{ a = {range} }} x;"));
        let expected = format!("a label's range is '{range}', expected values of {kind} integer");
        assert_eq!(found.to_string(), expected);
    }
    let found = field_problem("enum : u8 { a = -9223372036854775809 } x;");
    let expected = "a label's value is '-9223372036854775809', expected a value of 64 bits";
    assert_eq!(found.to_string(), expected);
    let found = field_problem("enum : floating_point { exp_dig = 8; mant_dig = 24; } { a } x;");
    let expected = "the container of an enumeration is 'another type', expected an integer";
    assert_eq!(found.to_string(), expected);
    let found = field_problem("enum : u8 { a = b } x;");
    assert_eq!(found.to_string(), "a label's value is 'b', expected a number");
}

#[test]
fn structure_alignment_is_its_own_or_its_members() {
    let payload = payload(
        "struct { u8 a; } align(64) x; struct { integer { size = 4; } a; } y; \
         struct { integer { size = 32; align = 32; } a; } align(8) z;",
    );
    let aligns = payload.members.iter().map(|member| structure(&member.class).align);
    assert_eq!(aligns.collect::<Vec<_>>(), [64, 1, 8]);
    assert_eq!(payload.members[2].class.align(), 32);
    let found = field_problem("struct { u8 a; } align(3) x;");
    let expected = "an alignment is '3', expected a power of two, at most 2147483648 bits";
    assert_eq!(found.to_string(), expected);
}

#[test]
fn names_are_shown_without_one_underscore() {
    let payload = payload(
        "u8 _x; u8 __y; u8 z; u8 _; enum : u8 { _a, \"_b\", __c } t; \
         variant <t> { u8 _a; u8 _b; u8 __c; } _v;",
    );
    let names: Vec<_> = payload.members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["x", "_y", "z", "", "t", "v"]);
    let shown: Vec<_> = labels(&named(&payload, "t")).into_iter().map(|(name, _)| name).collect();
    assert_eq!(shown, ["_a", "_b", "__c"]);
    let class = named(&payload, "v");
    let options = variant(&class).options.iter();
    let options: Vec<_> =
        options.map(|option| (option.name.as_str(), pairs(&option.ranges))).collect();
    assert_eq!(options, [("a", vec![(0, 0)]), ("b", vec![(1, 1)]), ("_c", vec![(2, 2)])]);
}

#[test]
fn type_names_of_c_are_words_and_stars() {
    let payload = payload_of(schema(
        "typealias integer { size = 64; } := unsigned long long; \
         typealias integer { size = 16; base = x; } := const char *; \
         typealias integer { size = 48; } := thing * const *; \
         typedef u8 mac[6], byte; typedef floating_point { exp_dig = 8; mant_dig = 24; } float; \
         typealias u8 [4] := ip; \
         event { fields := struct { unsigned long long a; const char *b; thing **c; mac d; byte e; \
         float f, g[2]; ip h; unsigned  long /* or */ long i; const u8 j; }; };",
    ));
    let bits = |name| integer(&named(&payload, name)).width;
    assert_eq!(bits("a"), Width::Bits(64));
    assert_eq!(bits("b"), Width::Bits(16));
    assert_eq!(bits("c"), Width::Bits(48));
    assert_eq!(array(&named(&payload, "d")).length, Length::Static(6));
    assert_eq!(bits("e"), Width::Bits(8));
    assert!(matches!(named(&payload, "f"), FieldClass::Real(_)));
    assert_eq!(array(&named(&payload, "g")).length, Length::Static(2));
    assert_eq!(array(&named(&payload, "h")).length, Length::Static(4));
    assert_eq!(bits("i"), Width::Bits(64));
    assert_eq!(bits("j"), Width::Bits(8));
    assert_eq!(field_problem("u8 *p;").to_string(), "type 'u8 *' is not described");
    assert_eq!(
        field_problem("unsigned short p;").to_string(),
        "type 'unsigned short' is not described"
    );
    assert_eq!(
        field_problem("struct { u8 a; } *p;").to_string(),
        "type 'pointer' is not described"
    );
}

#[test]
fn several_fields_of_one_line_share_their_type() {
    let payload = payload("u8 a, b[3], c;");
    assert_eq!(payload.members.len(), 3);
    assert_eq!(named(&payload, "a"), named(&payload, "c"));
    assert_eq!(array(&named(&payload, "b")).length, Length::Static(3));
}

#[test]
fn types_of_inner_scopes_hide_outer_ones_and_end_with_them() {
    let schema = schema(
        "typealias integer { size = 16; } := t; struct s { t a; }; enum m : u8 { A }; \
         event { id = 1; typealias integer { size = 24; } := t; struct s { t b; }; \
           fields := struct { typealias integer { size = 40; } := t; t x; \
             struct { t y; typealias integer { size = 48; } := inner; inner z; } in; struct s w; enum m e; }; }; \
         event { id = 2; fields := struct { t x; struct s w; }; };",
    );
    let events = &schema.streams[0].events;
    let bits = |structure: &Structure, name: &str| integer(&named(structure, name)).width;
    let first = events[0].payload.as_ref().unwrap();
    assert_eq!(bits(first, "x"), Width::Bits(40));
    let inner = named(first, "in");
    assert_eq!(bits(structure(&inner), "y"), Width::Bits(40));
    assert_eq!(bits(structure(&inner), "z"), Width::Bits(48));
    assert_eq!(bits(structure(&named(first, "w")), "b"), Width::Bits(24));
    let second = events[1].payload.as_ref().unwrap();
    assert_eq!(bits(second, "x"), Width::Bits(16));
    assert_eq!(bits(structure(&named(second, "w")), "a"), Width::Bits(16));
    let found = field_problem("struct { typealias u8 := inner; inner a; } x; inner b;");
    assert_eq!(found.to_string(), "type 'inner' is not described");
}

#[test]
fn declared_types_of_all_kinds_are_used_by_name() {
    let payload = payload(
        "struct s { u8 a; } x; struct s y; enum e : u8 { A, B } t; enum e u; \
         variant v { u8 A; string B; }; variant v <t> m; variant v <u> n; \
         struct only { u8 z; }; struct only o;",
    );
    assert_eq!(named(&payload, "x"), named(&payload, "y"));
    assert_eq!(variant(&named(&payload, "m")).selector, at(Scope::Payload, &[2]));
    assert_eq!(variant(&named(&payload, "n")).selector, at(Scope::Payload, &[3]));
    assert_eq!(structure(&named(&payload, "o")).members[0].name, "z");
    for name in ["struct none", "variant none", "enum none"] {
        let found = field_problem(&format!("{name} x;"));
        assert_eq!(found.to_string(), format!("type '{name}' is not described"));
    }
}

#[test]
fn a_name_given_twice_is_refused() {
    let found = problem("typealias u8 := int;");
    assert_eq!(
        found.to_string(),
        "metadata line 3, column 17: type 'int' is described a second time"
    );
    let found = field_problem("u8 a; u8 a;");
    assert_eq!(found.to_string(), "field 'a' is described a second time");
    let many: String = (0..40).map(|number| format!("u8 f{number};")).collect();
    for again in ["f0", "f16", "f17", "f39"] {
        let found = field_problem(&format!("{many} u8 {again};"));
        assert_eq!(found.to_string(), format!("field '{again}' is described a second time"));
    }
}

#[test]
fn bit_fields_of_c_are_refused() {
    let found = field_problem("u8 x : 3;");
    assert_eq!(found.to_string(), "expected ';', found ':'");
}

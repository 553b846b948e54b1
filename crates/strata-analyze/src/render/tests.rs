//! Tests of fields of every kind in every format, visited as a reader visits them.

use std::sync::Arc;

use strata_ctf::read::{FieldInfo, FieldKind, Visit};
use strata_model::schema::{
    Array, FieldClass, Integer, Label, Length, Location, Member, Range, Role, Schema, Scope,
    Structure, Variant, VariantOption, Width,
};
use strata_model::{Base, ByteOrder, EnvValue, Flags};

use super::field_selection::{FieldList, Masked, RecordPart, ShownPart};
use super::json::JsonFields;
use super::line::Lines;
use super::value::{Colours, Leads, ValueWriter};

fn field(name: &str, kind: FieldKind) -> FieldInfo {
    FieldInfo {
        name: name.into(),
        kind,
        is_element: name.is_empty(),
        base: Base::Ten,
        is_bool: false,
        signed: false,
        bits: 8,
        labels: None,
        flags: None,
        is_bit_map: false,
    }
}

fn integer(name: &str) -> FieldInfo {
    field(name, FieldKind::Integer)
}

fn labelled(name: &str) -> FieldInfo {
    let label =
        |name: &str, from, to| Label { name: name.into(), ranges: vec![Range { from, to }] };
    let labels = [label("A", 0, 0), label("q\"", 5, 7), label("B", -1, 5)];
    FieldInfo { labels: Some(Arc::from(labels)), base: Base::Sixteen, ..integer(name) }
}

/// Visits one field of each kind, and nested ones.
fn tell(visit: &mut impl Visit) {
    visit.unsigned(&integer("u"), u64::MAX);
    visit.signed(&FieldInfo { base: Base::Eight, ..integer("o") }, -1);
    visit.real(&field("r", FieldKind::Real), 0.1);
    visit.text(&field("t", FieldKind::Text), b"a\"\x01\xff");
    visit.blob(&field("x", FieldKind::Blob), &[1, 0xab]);
    visit.unsigned(&FieldInfo { is_bool: true, ..integer("yes") }, 1);
    for value in [0, 5, 200] {
        visit.unsigned(&labelled("e"), value);
    }
    visit.signed(&labelled("e"), -1);
    visit.absent(&integer("no"));
}

/// Compound fields, empty ones too.
fn tell_compounds(visit: &mut impl Visit) {
    let structure = |name| field(name, FieldKind::Structure);
    let array = |name| field(name, FieldKind::Array);
    visit.begin_structure(&structure("s"));
    visit.unsigned(&integer("a"), 1);
    visit.begin_structure(&structure("d"));
    visit.text(&field("c", FieldKind::Text), b"c");
    visit.end_structure(&structure("d"));
    visit.begin_structure(&structure("e"));
    visit.end_structure(&structure("e"));
    visit.end_structure(&structure("s"));
    visit.begin_array(&array("m"), 2);
    for value in 1..3 {
        visit.begin_array(&array(""), 1);
        visit.unsigned(&integer(""), value);
        visit.end_array(&array(""));
    }
    visit.end_array(&array("m"));
    visit.begin_array(&array("z"), 0);
    visit.end_array(&array("z"));
    let variant = field("v", FieldKind::Variant);
    visit.begin_variant(&variant, "n");
    visit.unsigned(&integer("n"), 5);
    visit.end_variant(&variant);
    visit.begin_variant(&variant, "w");
    visit.begin_structure(&structure("w"));
    visit.unsigned(&integer("k"), 7);
    visit.end_structure(&structure("w"));
    visit.end_variant(&variant);
}

fn text<const COLOUR: bool>(
    names: &[&str],
    tell: impl FnOnce(&mut ValueWriter<'_, COLOUR>),
) -> String {
    let colours = if COLOUR { Colours::ON } else { Colours::default() };
    let (mut out, mut elements) = (Lines::default(), Vec::new());
    let leads = Leads::new(names, &colours);
    let mut values = ValueWriter::new(&mut out, &leads, &mut elements);
    tell(&mut values);
    values.finish();
    assert!(elements.is_empty());
    let text = String::from_utf8_lossy(out.as_bytes());
    text.strip_prefix("{ ").and_then(|text| text.strip_suffix(" }")).unwrap().to_owned()
}

fn json(tell: impl FnOnce(&mut JsonFields<'_>)) -> String {
    let mut out = Vec::new();
    tell(&mut JsonFields::new(&mut out));
    String::from_utf8(out).unwrap()
}

const NAMES: [&str; 11] = ["u", "o", "r", "t", "x", "yes", "e", "e", "e", "e", "no"];

#[test]
fn text_of_each_kind_of_field_is_babeltrace2_s() {
    assert_eq!(
        text::<false>(&NAMES, |values| tell(values)),
        "u = 18446744073709551615, o = 0777, r = 0.1, t = \"a\\\"\\x01\u{fffd}\", x = { 01 ab }, yes = true, \
         e = ( \"A\", \"B\" : container = 0x0 ), e = ( \"q\\\"\", \"B\" : container = 0x5 ), \
         e = ( <unknown> : container = 0xC8 ), e = ( \"B\" : container = 0xFF ), no = <none>"
    );
}

#[test]
fn text_of_compounds_is_babeltrace2_s() {
    assert_eq!(
        text::<false>(&["s", "m", "z", "v", "v"], |values| tell_compounds(values)),
        "s = { a = 1, d = { c = \"c\" }, e = { } }, m = [ [0] = [ [0] = 1 ], [1] = [ [0] = 2 ] ], \
         z = [ ], v = { 5 }, v = { { k = 7 } }"
    );
}

#[test]
fn text_of_what_only_ctf_2_has_is_babeltrace2_s() {
    let label =
        |name: &str, from, to| Label { name: name.into(), ranges: vec![Range { from, to }] };
    let labels = Some(Arc::from([label("low", 0, 3), label("top", 63, 63)]));
    let map = FieldInfo { labels, is_bit_map: true, base: Base::Sixteen, ..integer("m") };
    let map = FieldInfo { bits: 64, ..map };
    let found = text::<false>(&["m", "m", "m", "o", "o", "a"], |values| {
        values.unsigned(&map, 0);
        values.unsigned(&map, 0x18);
        values.unsigned(&map, 1 << 63 | 8);
        values.begin_optional(&integer("o"));
        values.unsigned(&integer("o"), 5);
        values.end_optional(&integer("o"));
        values.absent(&integer("o"));
        values.begin_array(&field("a", FieldKind::Array), 1);
        let element = FieldInfo { is_element: true, ..integer("") };
        values.begin_optional(&element);
        values.unsigned(&element, 6);
        values.end_optional(&element);
        values.absent(&element);
        values.end_array(&field("a", FieldKind::Array));
    });
    let wanted = "m = 0x0, m = 0x18 { \"low\" }, m = 0x8000000000000008 { \"low\", \"top\" }, \
                  o = { 5 }, o = <none>, a = [ [0] = { 6 }, [1] = <none> ]";
    assert_eq!(found, wanted);
}

fn flags() -> FieldInfo {
    let label =
        |name: &str, at| Label { name: name.into(), ranges: vec![Range { from: at, to: at }] };
    let labels = Some(Arc::from([label("RD", 0), label("RW", 2), label("A", 16), label("B", 32)]));
    FieldInfo { labels, flags: Some(Flags { low_bits: 2 }), base: Base::Sixteen, ..integer("f") }
}

#[test]
fn flags_are_shown_with_those_that_have_no_name() {
    let tell = |visit: &mut dyn Visit| {
        for value in [2, 0x30, 0x53, 0x40] {
            visit.unsigned(&flags(), value);
        }
    };
    assert_eq!(
        text::<false>(&["f"; 4], |values| tell(values)),
        "f = ( \"RW\" : container = 0x2 ), f = ( \"RD\" | \"A\" | \"B\" : container = 0x30 ), \
         f = ( \"A\" | 0x43 : container = 0x53 ), f = ( \"RD\" | 0x40 : container = 0x40 )"
    );
    assert_eq!(
        json(|fields| tell(fields)),
        "\"f\":{\"value\":2,\"labels\":[\"RW\"]},\"f\":{\"value\":48,\"labels\":[\"RD\",\"A\",\"B\"]},\
         \"f\":{\"value\":83,\"labels\":[\"A\"]},\"f\":{\"value\":64,\"labels\":[\"RD\"]}"
    );
}

#[test]
fn text_in_colours_is_the_same_without_them() {
    let coloured = text::<true>(&NAMES, |values| tell(values));
    assert!(coloured.starts_with("\x1b[36mu\x1b[0m = \x1b[1m18446744073709551615\x1b[0m, "));
    assert!(coloured.contains("\x1b[1;31m<unknown>\x1b[0m"));
    let mut plain = coloured;
    let Colours { name, value, unknown, end, .. } = Colours::ON;
    for code in [name, unknown, value, end] {
        plain = plain.replace(code, "");
    }
    assert_eq!(plain, text::<false>(&NAMES, |values| tell(values)));
}

#[test]
fn json_of_each_kind_of_field_is_exact() {
    assert_eq!(
        json(|fields| tell(fields)),
        "\"u\":18446744073709551615,\"o\":-1,\"r\":0.1,\"t\":\"a\\\"\\u0001\u{fffd}\",\"x\":\"01ab\",\
         \"yes\":true,\"e\":{\"value\":0,\"labels\":[\"A\",\"B\"]},\
         \"e\":{\"value\":5,\"labels\":[\"q\\\"\",\"B\"]},\"e\":{\"value\":200,\"labels\":[]},\
         \"e\":{\"value\":-1,\"labels\":[\"B\"]},\"no\":null"
    );
    assert_eq!(
        json(|fields| tell_compounds(fields)),
        "\"s\":{\"a\":1,\"d\":{\"c\":\"c\"},\"e\":{}},\"m\":[[1],[2]],\"z\":[],\"v\":{\"n\":5},\
         \"v\":{\"w\":{\"k\":7}}"
    );
}

#[test]
fn json_of_a_real_is_read_back_as_the_same() {
    for (value, wanted) in [
        (1.0, "\"\":1.0"),
        (0.1 + 0.2, "\"\":0.30000000000000004"),
        (1e300, "\"\":1e300"),
        (-0.0, "\"\":-0.0"),
        (f64::NAN, "\"\":\"NaN\""),
        (f64::NEG_INFINITY, "\"\":\"-Infinity\""),
    ] {
        let info = FieldInfo { is_element: false, ..field("", FieldKind::Real) };
        assert_eq!(json(|fields| fields.real(&info, value)), wanted);
    }
}

// ---- which fields ----

fn number(clock: Option<usize>, role: Option<Role>) -> FieldClass {
    FieldClass::Integer(Integer {
        width: Width::Bits(8),
        align: 8,
        signed: false,
        byte_order: ByteOrder::Little,
        base: Base::Ten,
        is_bool: false,
        clock,
        role,
        labels: None,
        flags: None,
        is_bit_map: false,
        is_reversed: false,
    })
}

fn structure(members: Vec<(&str, FieldClass)>) -> Structure {
    let members = members.into_iter();
    let members = members.map(|(name, class)| Member { name: name.into(), class }).collect();
    Structure { align: 1, members }
}

fn shown(structure: &Structure, fields: Option<&[&str]>) -> ShownPart {
    shown_of(structure, fields, &[])
}

/// Returns the fields that are shown of a trace with this environment.
fn shown_of(
    structure: &Structure,
    fields: Option<&[&str]>,
    environment: &[(&str, &str)],
) -> ShownPart {
    let entry = |(name, value): &(&str, &str)| ((*name).to_owned(), EnvValue::from(*value));
    let environment = environment.iter().map(entry).collect();
    let trace = Schema { environment, ..Schema::default() };
    let fields = fields.map(FieldList::new);
    ShownPart::of(Some(structure), RecordPart::Payload, fields.as_ref(), &trace)
}

#[test]
fn shown_of_a_part_without_what_is_for_readers_only() {
    let (plain, time) = (|| number(None, None), || number(Some(0), None));
    let size = number(None, Some(Role::PacketTotalLength));
    assert_eq!(
        ShownPart::of(None, RecordPart::Payload, None, &Schema::default()),
        ShownPart::Nothing
    );
    assert_eq!(shown(&structure(vec![]), None), ShownPart::Whole);
    assert_eq!(shown(&structure(vec![("a", plain()), ("b", plain())]), None), ShownPart::Whole);
    assert_eq!(
        shown(&structure(vec![("t", time()), ("s", size.clone())]), None),
        ShownPart::Nothing
    );
    let some = structure(vec![("t", time()), ("a", plain()), ("s", size)]);
    assert_eq!(shown(&some, None).names(&some), ["a"]);
    let array =
        FieldClass::Array(Array { align: 1, length: Length::Static(2), element: Box::new(time()) });
    let inner = FieldClass::Structure(structure(vec![("t", time())]));
    let some = structure(vec![("x", array), ("i", inner), ("a", plain())]);
    assert_eq!(shown(&some, None).names(&some), ["a"]);
}

#[test]
fn shown_of_asked_fields_are_those_and_whole_parts() {
    let some = structure(vec![("a", number(None, None)), ("b", number(None, None))]);
    assert_eq!(shown(&some, Some(&["b"])).names(&some), ["b"]);
    assert_eq!(shown(&some, Some(&["payload.b", "a"])), ShownPart::Whole);
    assert_eq!(shown(&some, Some(&["payload"])), ShownPart::Whole);
    assert_eq!(shown(&some, Some(&["packet", "c", "context.a"])), ShownPart::Nothing);
    assert_eq!(shown(&structure(vec![]), Some(&["a"])), ShownPart::Nothing);
    assert_eq!(shown(&structure(vec![]), Some(&["payload"])), ShownPart::Whole);
}

#[test]
fn copy_of_a_stack_is_shown_to_who_names_it_and_a_program_s_own_fields_of_these_names_to_all() {
    const KERNEL: [(&str, &str); 2] = [("domain", "kernel"), ("strata_version", "1.0.0")];
    let shown =
        |structure: &Structure, fields: Option<&[&str]>| shown_of(structure, fields, &KERNEL);
    let plain = || number(None, None);
    let array = || {
        FieldClass::Array(Array { align: 1, length: Length::Static(2), element: Box::new(plain()) })
    };
    let names = ["user_registers", "user_stack"];
    let both = structure(vec![(names[0], array()), (names[1], array()), ("a", plain())]);
    assert_eq!(shown(&both, None).names(&both), ["a"]);
    for name in names {
        assert_eq!(shown(&both, Some(&[name])).names(&both), [name]);
        assert_eq!(
            shown(&structure(vec![(name, array()), ("a", plain())]), None),
            ShownPart::Whole
        );
    }
    let numbers = structure(vec![(names[0], plain()), (names[1], plain())]);
    assert_eq!(shown(&numbers, None), ShownPart::Whole);
    // Of a program that has both arrays, of another tracer, and of one that does not say who it is.
    for environment in
        [&[("domain", "ust"), KERNEL[1]][..], &[KERNEL[0], ("tracer_name", "lttng-modules")], &[]]
    {
        assert_eq!(shown_of(&both, None, environment), ShownPart::Whole, "{environment:?}");
    }
}

#[test]
fn masked_fields_are_not_reported_wherever_they_are() {
    let (plain, time) = (|| number(None, None), || number(Some(0), None));
    let option = |name: &str, at: i128, class| VariantOption {
        name: name.into(),
        ranges: vec![Range { from: at, to: at }],
        class,
    };
    let variant = FieldClass::Variant(Variant {
        selector: Location::at(Scope::Payload, vec![0]),
        options: vec![option("t", 0, time()), option("n", 1, plain())],
    });
    let inner = structure(vec![("t", time()), ("k", plain())]);
    let all = structure(vec![
        ("t", time()),
        ("s", FieldClass::Structure(inner)),
        ("h", FieldClass::Structure(structure(vec![("t", time())]))),
        ("v", variant),
        ("a", plain()),
    ]);
    let ShownPart::Some(node) = shown(&all, None) else { panic!("all are shown") };
    let names = ShownPart::Some(node.clone()).names(&all);
    assert_eq!(names, ["s", "v", "a"]);
    let told = text::<false>(&names, |values| {
        let mut visit = Masked::new(&node, values);
        visit.unsigned(&integer("t"), 1);
        for name in ["s", "h"] {
            visit.begin_structure(&field(name, FieldKind::Structure));
            visit.unsigned(&integer("t"), 2);
            if name == "s" {
                visit.unsigned(&integer("k"), 3);
            }
            visit.end_structure(&field(name, FieldKind::Structure));
        }
        visit.begin_variant(&field("v", FieldKind::Variant), "n");
        visit.unsigned(&integer("n"), 4);
        visit.end_variant(&field("v", FieldKind::Variant));
        visit.unsigned(&integer("a"), 5);
    });
    assert_eq!(told, "s = { k = 3 }, v = { 4 }, a = 5");
}

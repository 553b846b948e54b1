//! Tests of fields in the short format: each kind, hostile names and texts, addresses of sockets.

use std::sync::Arc;

use strata_ctf::read::FieldKind;
use strata_model::schema::{Label, Range};
use strata_model::Flags;

use super::*;

fn field(name: &str, kind: FieldKind) -> FieldInfo {
    FieldInfo {
        name: name.into(),
        kind,
        is_element: name.is_empty(),
        base: Base::Ten,
        is_bool: false,
        signed: false,
        bits: 32,
        labels: None,
        flags: None,
        is_bit_map: false,
    }
}

fn integer(name: &str) -> FieldInfo {
    field(name, FieldKind::Integer)
}

fn based(base: Base, bits: u8, signed: bool) -> FieldInfo {
    FieldInfo { base, bits, signed, ..integer("n") }
}

fn labelled(labels: &[(&str, i128, i128)]) -> FieldInfo {
    let label = |&(name, from, to): &(&str, i128, i128)| Label {
        name: name.into(),
        ranges: vec![Range { from, to }],
    };
    let labels: Vec<Label> = labels.iter().map(label).collect();
    FieldInfo { labels: Some(Arc::from(labels)), ..integer("n") }
}

fn shown(of_call: bool, tell: impl FnOnce(&mut ShortValues<'_>)) -> String {
    let mut out = Lines::default();
    tell(&mut ShortValues::new(&mut out, of_call));
    String::from_utf8(out.as_bytes().to_vec()).unwrap()
}

#[test]
fn numbers_are_in_the_base_of_their_field_and_no_wider_than_it() {
    for (field, value, wanted) in [
        (based(Base::Ten, 32, true), -5_i128, "n=-5"),
        (based(Base::Ten, 64, false), i128::from(u64::MAX), "n=18446744073709551615"),
        (based(Base::Sixteen, 32, true), -1, "n=0xffffffff"),
        (based(Base::Sixteen, 64, true), -1, "n=0xffffffffffffffff"),
        (based(Base::Sixteen, 4, true), -1, "n=0xf"),
        (based(Base::Sixteen, 32, false), 0, "n=0x0"),
        (based(Base::Sixteen, 0, false), 0xabc, "n=0xabc"),
        (based(Base::Eight, 32, false), 0, "n=0"),
        (based(Base::Eight, 32, false), 0o644, "n=0644"),
        (based(Base::Two, 8, false), 5, "n=0b00000101"),
    ] {
        let found = shown(false, |brief| match u64::try_from(value) {
            Ok(value) => brief.unsigned(&field, value),
            Err(_) => brief.signed(&field, value as i64),
        });
        assert_eq!(found, wanted, "{field:?}");
    }
    let truth = FieldInfo { is_bool: true, ..integer("is") };
    let found = shown(false, |brief| [0, 1, 7].iter().for_each(|&it| brief.unsigned(&truth, it)));
    assert_eq!(found, "is=false, is=true, is=true");
}

#[test]
fn labels_are_the_first_one_and_flags_all_with_what_is_left() {
    let number = |field: &FieldInfo, value| shown(false, |brief| brief.signed(field, value));
    let names = labelled(&[("LOW", 0, 5), ("FIVE", 5, 5), ("MINUS", -3, -1)]);
    for (value, wanted) in [(5, "n=LOW"), (-2, "n=MINUS"), (9, "n=9"), (-9, "n=-9")] {
        assert_eq!(number(&names, value), wanted);
    }
    let flags = labelled(&[("A", 1, 1), ("B", 2, 2)]);
    let flags = FieldInfo { flags: Some(Flags::default()), ..flags };
    for (value, wanted) in [(1, "n=A"), (3, "n=A|B"), (11, "n=A|B|0x8"), (8, "n=8")] {
        assert_eq!(number(&flags, value), wanted);
    }
    let bits = labelled(&[("low", 0, 1), ("top", 31, 31)]);
    let bits = FieldInfo { is_bit_map: true, base: Base::Sixteen, ..bits };
    let found = shown(false, |brief| {
        [0, 1, 0x8000_0002, 4].iter().for_each(|&value| brief.unsigned(&bits, value));
    });
    assert_eq!(found, "n=0x0, n=low, n=low|top, n=0x4");
}

#[test]
fn working_directory_is_named_only_where_a_descriptor_of_a_call_is_it() {
    let dfd = |of_call, name, value| shown(of_call, |brief| brief.unsigned(&integer(name), value));
    let (narrow, wide) = (u64::from((-100_i32) as u32), (-100_i64) as u64);
    for value in [narrow, wide] {
        assert_eq!(dfd(true, "dfd", value), "dfd=AT_FDCWD");
        assert_eq!(dfd(true, "fd", value), "fd=AT_FDCWD");
        assert_eq!(dfd(false, "dfd", value), format!("dfd={value}"));
        assert_eq!(dfd(true, "count", value), format!("count={value}"));
    }
    let signed = shown(true, |brief| brief.signed(&integer("olddfd"), -100));
    assert_eq!((signed.as_str(), dfd(true, "fd", 100).as_str()), ("olddfd=AT_FDCWD", "fd=100"));
}

#[test]
fn malicious_names_and_texts_command_no_terminal() {
    let found = shown(false, |brief| {
        brief.unsigned(&integer("a\x1b[2J b"), 1);
        brief.unsigned(&labelled(&[("x\n\u{9b}", 1, 1)]), 1);
        brief.text(&field("t", FieldKind::Text), b"\x1b]0;\x07 \xc2\x9b\xff\xc3\xbc\"");
    });
    assert_eq!(found, "a\\x1b[2J b=1, n=x\\x0a\\xc2\\x9b, t=\"\\e]0;\\a \\xc2\\x9b\\xffü\\\"\"");
}

#[test]
fn compounds_are_nested_and_options_have_no_name() {
    let (array, structure) = (field("a", FieldKind::Array), field("s", FieldKind::Structure));
    let variant = field("v", FieldKind::Variant);
    let found = shown(false, |brief| {
        brief.begin_array(&array, 2);
        brief.unsigned(&integer(""), 1);
        brief.unsigned(&integer(""), 2);
        brief.end_array(&array);
        brief.begin_array(&array, 0);
        brief.end_array(&array);
        brief.begin_structure(&structure);
        brief.real(&field("r", FieldKind::Real), 0.5);
        brief.blob(&field("x", FieldKind::Blob), &[1, 0xab]);
        brief.end_structure(&structure);
        brief.begin_variant(&variant, "option");
        brief.unsigned(&integer("option"), 7);
        brief.end_variant(&variant);
        brief.begin_optional(&integer("o"));
        brief.unsigned(&integer("o"), 8);
        brief.end_optional(&integer("o"));
        brief.absent(&integer("o"));
        brief.unsigned(&integer("last"), 9);
    });
    assert_eq!(found, "a=[1, 2], a=[], s={r=0.5, x=0x01ab}, v=7, o=8, o=none, last=9");
    assert!(ShortValues::new(&mut Lines::default(), true).is_empty());
}

/// Returns an address of this family as the short format shows it.
fn address(family: Option<u64>, bytes: &[u8]) -> String {
    shown(true, |brief| {
        if let Some(family) = family {
            brief.unsigned(&integer("family"), family);
        }
        let array = field("v4addr", FieldKind::Array);
        brief.begin_array(&array, bytes.len() as u64);
        bytes.iter().for_each(|&byte| brief.unsigned(&integer(""), byte.into()));
        brief.end_array(&array);
        brief.unsigned(&integer("port"), 80);
    })
}

#[test]
fn addresses_of_sockets_are_as_people_write_them_or_their_bytes() {
    let six: Vec<u8> = (0..16).map(|at| if at == 15 { 1 } else { 0 }).collect();
    for (family, bytes, wanted) in [
        (Some(2), &[127, 0, 0, 1][..], "family=2, v4addr=127.0.0.1, port=80"),
        (Some(10), &six, "family=10, v4addr=::1, port=80"),
        (Some(1), b"/run/a", "family=1, v4addr=\"/run/a\", port=80"),
        (Some(1), b"\0name", "family=1, v4addr=\"\\x00name\", port=80"),
        // Too short, too long, of a family that nobody knows, none at all.
        (Some(2), &[127, 0, 0], "family=2, v4addr=0x7f0000, port=80"),
        (Some(10), &[1], "family=10, v4addr=0x01, port=80"),
        (Some(77), &[1, 2], "family=77, v4addr=0x0102, port=80"),
        (Some(2), &[], "family=2, v4addr=[], port=80"),
        // Without a family it is an array.
        (None, &[127, 0, 0, 1], "v4addr=[127, 0, 0, 1], port=80"),
    ] {
        assert_eq!(address(family, bytes), wanted);
    }
}

#[test]
fn texts_that_are_addresses_so_far_are_noted_with_their_places() {
    let text = |name| field(name, FieldKind::Text);
    let mut out = Lines::default();
    let deferrable = ["old", "there", "inner", "new"].map(|name| DeferrableField {
        info: text(name),
        argument: name.len() as u8,
        kind: ArgumentKind::Text,
    });
    let mut brief = ShortValues::of_entry(&mut out, &deferrable);
    brief.unsigned(&integer("fd"), 3);
    brief.text(&text("old"), b"0x7ffd");
    brief.text(&text("there"), b"/etc");
    brief.begin_structure(&field("s", FieldKind::Structure));
    brief.text(&text("inner"), b"0x1");
    brief.end_structure(&field("s", FieldKind::Structure));
    brief.text(&text("other"), b"0x8");
    let unread = brief.take_unread();
    let bytes = out.as_bytes();
    let shown = |one: &Unread| std::str::from_utf8(&bytes[one.place.clone()]).unwrap().to_owned();
    let found: Vec<_> = unread.iter().map(|one| (&*one.name, shown(one), one.is_text)).collect();
    assert_eq!(found, [("old", "\"0x7ffd\"".to_owned(), true)]);
    // Of a record that is no call's, a text is a text.
    let mut out = Lines::default();
    let mut brief = ShortValues::new(&mut out, false);
    brief.text(&text("old"), b"0x7ffd");
    assert!(brief.take_unread().is_empty());
}

#[test]
fn structure_is_absent_where_all_of_it_is_0() {
    let deferrable = ["a_sec", "a_nsec", "b_sec", "b_nsec"].map(|name| DeferrableField {
        info: integer(name),
        argument: u8::from(name.starts_with('b')),
        kind: ArgumentKind::Structure,
    });
    let absent = |values: [u64; 4]| {
        let mut out = Lines::default();
        let mut brief = ShortValues::of_entry(&mut out, &deferrable);
        deferrable.iter().zip(values).for_each(|(of, value)| brief.unsigned(&of.info, value));
        brief.take_unread().iter().map(|one| one.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(absent([0; 4]), ["a_sec", "a_nsec", "b_sec", "b_nsec"]);
    assert_eq!(absent([0, 1, 0, 0]), ["b_sec", "b_nsec"]);
    assert_eq!(absent([1, 0, 0, 1]), [""; 0]);
}

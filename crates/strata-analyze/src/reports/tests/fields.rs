//! Tests of a record's fields as reports show them, for each kind of field, and cut.

use crate::hand_tests::V::{self, Text, F64, I64, U32, U64, U8};
use crate::hand_tests::{metadata, Hand, Packets, Record, ORIGIN};
use crate::reports::{arguments, fields};

/// The fields of one record of an event with these, after `values`.
fn shown(types: &str, values: &[V]) -> String {
    let hand = Hand::new();
    let text = metadata("domain = \"ust\";", "u32 vtid;", &[("a:x", types)]);
    let record = [&[U32(7)], values].concat();
    let reader = hand.trace("t", &text, &[Packets::new(0).packet(&[(0, 5, &record)])]).reader();
    fields(&reader, "a:x", Some(7), ORIGIN + 5).unwrap()
}

#[test]
fn each_kind_of_field_is_shown_as_people_read_it() {
    let hex = "integer { size = 64; align = 8; base = 16; }";
    let level = "enum : u8 { LOW = 0 ... 3, HIGH = 9 }";
    for (types, values, wanted) in [
        ("", &[][..], ""),
        ("u32 a; i64 b;", &[U32(1), I64(-2)], "a = 1, b = -2"),
        (&format!("{hex} p;"), &[U64(0xbeef)], "p = 0xbeef"),
        ("f64 r;", &[F64(0.5)], "r = 0.5"),
        (&format!("{level} l;"), &[U8(2)], "l = LOW"),
        (&format!("{level} l;"), &[U8(9)], "l = HIGH"),
        (&format!("{level} l;"), &[U8(7)], "l = 7"),
        ("enum modes_flags : u8 { RD = 0, WR = 1, A = 4 } m;", &[U8(4)], "m = A"),
        ("u8 a[3];", &[U8(1), U8(2), U8(3)], "a = [1, 2, 3]"),
        ("u8 n; u8 a[n]; u8 z;", &[U8(2), U8(1), U8(2), U8(9)], "n = 2, a = [1, 2], z = 9"),
        ("u8 n; u8 a[n];", &[U8(0)], "n = 0, a = []"),
        ("struct { u8 x; u8 y; } s; u8 z;", &[U8(1), U8(2), U8(3)], "s = {x = 1, y = 2}, z = 3"),
        // What is only for readers: the length of another field.
        ("u8 __a_length; u8 a[__a_length];", &[U8(1), U8(5)], "a = [5]"),
        (
            "string t; u8 n;",
            &[Text("a \"b\"\n\x1b[2J"), U8(1)],
            "t = \"a \\\"b\\\"\\n\\u{1b}[2J\", n = 1",
        ),
        ("string t; string u;", &[Text(""), Text("[")], "t = \"\", u = \"[\""),
    ] {
        assert_eq!(shown(types, values), wanted, "{types}");
    }
}

#[test]
fn arguments_are_named_as_the_short_format_names_them() {
    let hand = Hand::new();
    let events = [
        ("syscall_entry_openat", "i64 dfd; u32 newfd; i64 offset;"),
        ("syscall_entry_connect", "u32 fd; u32 family; u8 uservaddr[4]; u8 z;"),
    ];
    let one = [U32(7), I64(-100), U32(-100_i32 as u32), I64(-100)];
    let two = [U32(7), U32(3), U32(2), U8(127), U8(0), U8(0), U8(1), U8(9)];
    let records: [Record<'_>; 2] = [(0, 5, &one), (1, 6, &two)];
    let text = metadata("domain = \"kernel\";", "u32 tid;", &events);
    let reader = hand.trace("t", &text, &[Packets::new(0).packet(&records)]).reader();
    let found = |call: &str, at| arguments(&reader, call, 7, (ORIGIN + at, ORIGIN + at)).unwrap();
    assert_eq!(found("openat", 5), "dfd = AT_FDCWD, newfd = AT_FDCWD, offset = -100");
    assert_eq!(found("connect", 6), "fd = 3, family = 2, uservaddr = 127.0.0.1, z = 9");
    // Of no system call, a number is a number.
    assert_eq!(
        fields(&reader, "syscall_entry_openat", None, ORIGIN + 5).unwrap(),
        "dfd = -100, newfd = 4294967196, offset = -100"
    );
    assert_eq!(
        fields(&reader, "syscall_entry_connect", None, ORIGIN + 6).unwrap(),
        "fd = 3, family = 2, uservaddr = [127, 0, 0, 1], z = 9"
    );
}

#[test]
fn texts_and_all_of_it_are_cut_and_that_is_seen() {
    static LONG: &str =
        "éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé";
    let text = shown("string t; u8 n;", &[Text(LONG), U8(1)]);
    assert_eq!(text, format!("t = \"{}…\", n = 1", "é".repeat(64)));
    let exact = shown("string t;", &[Text(&LONG[..128])]);
    assert_eq!(exact, format!("t = \"{}\"", "é".repeat(64)));
    let many = shown("u32 a[200];", &[U32(123_456); 200]);
    assert!(many.starts_with("a = [123456, 123456") && many.ends_with('…'), "{many}");
    assert!(many.len() < 420, "{}", many.len());
}

#[test]
fn record_is_the_one_of_the_name_the_thread_and_the_time() {
    let hand = Hand::new();
    let events = [
        ("syscall_entry_read", "u32 fd;"),
        ("compat_syscall_entry_read", "u32 fd;"),
        ("syscall_exit_read", "i64 ret;"),
    ];
    let of = |tid, value| [U32(tid), U32(value)];
    let ended = [U32(8), I64(3)];
    let (one, two, compat, other) = (of(7, 1), of(8, 2), of(7, 3), of(7, 4));
    let records: [Record<'_>; 5] =
        [(0, 5, &one), (0, 5, &two), (1, 5, &compat), (2, 6, &ended), (0, 7, &other)];
    let text = metadata("domain = \"kernel\";", "u32 tid;", &events);
    let reader = hand.trace("t", &text, &[Packets::new(0).packet(&records)]).reader();
    let found = |call: &str, tid, at| arguments(&reader, call, tid, (ORIGIN + at, ORIGIN + at));
    assert_eq!(found("read", 7, 5).as_deref(), Some("fd = 1"));
    assert_eq!(found("read", 8, 5).as_deref(), Some("fd = 2"));
    assert_eq!(found("compat_read", 7, 5).as_deref(), Some("fd = 3"));
    assert_eq!(found("read", 7, 7).as_deref(), Some("fd = 4"));
    for (call, tid, at) in [("read", 9, 5), ("read", 8, 6), ("write", 7, 5), ("compat_read", 8, 5)]
    {
        assert_eq!(found(call, tid, at), None, "{call} {tid} {at}");
    }
    assert_eq!(fields(&reader, "syscall_exit_read", None, ORIGIN + 6).as_deref(), Some("ret = 3"));
}

#[test]
fn record_of_a_namespace_of_its_own_is_that_of_its_first_thread_or_of_any() {
    let hand = Hand::new();
    let environment = "domain = \"ust\"; pid = 400; vpid = 5;";
    let text = metadata(environment, "u32 vtid;", &[("a:x", "u8 n;")]);
    let (first, other) = ([U32(5), U8(1)], [U32(6), U8(2)]);
    let records: [Record<'_>; 2] = [(0, 5, &first), (0, 6, &other)];
    let reader = hand.trace("t", &text, &[Packets::new(0).packet(&records)]).reader();
    let found = |tid, at| fields(&reader, "a:x", Some(tid), ORIGIN + at);
    assert_eq!(found(400, 5).as_deref(), Some("n = 1"));
    // The kernel's number of the first thread is known: it is nobody else's.
    assert_eq!(found(401, 5), None);
    assert_eq!(found(401, 6).as_deref(), Some("n = 2"));
}

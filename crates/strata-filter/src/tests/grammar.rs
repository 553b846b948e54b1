//! Tests of the meaning of texts, and that canonical texts mean the same.

use crate::{Expr, Filter};

/// Returns the canonical spelling, after checking that it is parsed to the same expression.
#[track_caller]
fn canonical(text: &str) -> String {
    let filter = match Filter::parse(text) {
        Ok(filter) => filter,
        Err(error) => panic!("{error}\n{}", error.caret()),
    };
    let shown = filter.to_string();
    let again = Filter::parse(&shown).unwrap_or_else(|error| panic!("{error}\n{}", error.caret()));
    assert_eq!(again.expr(), filter.expr(), "{text}: {shown}");
    assert_eq!(again.to_string(), shown);
    shown
}

#[track_caller]
fn same(text: &str, wanted: &str) {
    assert_eq!(canonical(text), wanted, "{text}");
}

#[test]
fn and_binds_tighter_than_or_as_in_c() {
    same(
        "sched_switch && next_comm == \"nginx\" || len > 4096",
        "(sched_switch && next_comm == \"nginx\") || len > 4096",
    );
    same("a || b && c", "a || (b && c)");
    same("(a || b) && c", "(a || b) && c");
    same("a and b or not c", "(a && b) || !c");
}

#[test]
fn units_are_numbers_of_nanoseconds_and_of_bytes() {
    same("len > 50ms && len <= 1.5s", "len > 50000000 && len <= 1500000000");
    same("len >= 4KiB", "len >= 4096");
    same("len in {1K ... 2MiB, 5us}", "len in {1024 ... 2097152, 5000}");
    same("len in {1ms...2ms}", "len in {1000000 ... 2000000}");
    same("-2us < len", "len > -2000");
    same("len > 0.5ns", "len > 0.5");
    same("len == 0x1d", "len == 29");
    same("len > 1e3 && len < 2E+1", "len > 1000.0 && len < 20.0");
}

#[test]
fn not_takes_a_whole_comparison() {
    same("!len == 3", "!(len == 3)");
    same("!len == 3 && a", "!(len == 3) && a");
    same("not not a", "!!a");
    same("!(a && b)", "!(a && b)");
    same("!has(x)", "!has(x)");
    same("name != \"a\"", "name != \"a\"");
}

#[test]
fn bit_test_binds_tighter_than_comparison() {
    same("flags & 0x4", "(flags & 0x4) != 0");
    same("flags & 4 == 4", "(flags & 0x4) == 4");
    same("(flags & 4) == 4", "(flags & 0x4) == 4");
    same("((flags) & 4) > 1", "(flags & 0x4) > 1");
    same("!flags & 4", "!((flags & 0x4) != 0)");
    same("cpu & 1", "(cpu & 0x1) != 0");
    same("a == b & 7", "a == (b & 0x7)");
    same("flags & 4&&a", "(flags & 0x4) != 0 && a");
    same("flags & 0xffffffffffffffff", "(flags & 0xffffffffffffffff) != 0");
}

#[test]
fn nested_and_of_and_is_one() {
    same("a && (b && (c && d))", "a && b && c && d");
    let filter = Filter::parse("(a || b) || c").unwrap();
    assert!(matches!(filter.expr(), Expr::Or(parts) if parts.len() == 3));
}

#[test]
fn names_are_bare_or_quoted() {
    same("sched_*", "sched_*");
    same("myapp:req_?", "myapp:req_?");
    same("name == \"sched_*\"", "sched_*");
    same("name == \"a b\"", "name == \"a b\"");
    same("name == \"sched_\\*\"", "name == \"sched_\\*\"");
    same("name == \"\"", "name == \"\"");
    same("name == \"cpu\"", "name == \"cpu\"");
    same("name == \"payload.x\"", "name == \"payload.x\"");
    same("name == \"9p\"", "name == \"9p\"");
    same("has || exists", "name == \"has\" || name == \"exists\"");
    same("\"a\" == name", "a");
    same("*", "*");
    same("**a", "*a");
    same("com.example:start", "com.example:start");
    same("événement:début", "événement:début");
    same("notify && android && order && inside", "notify && android && order && inside");
}

#[test]
fn constants_go_to_the_right() {
    same("3 < len", "len > 3");
    same("3 <= len", "len >= 3");
    same("3 > len", "len < 3");
    same("3 >= len", "len <= 3");
    same("3 == (len)", "len == 3");
    same("\"x\" != comm", "comm != \"x\"");
}

#[test]
fn numbers_of_all_bases() {
    same("x == 0x1F", "x == 31");
    same("x == 0b101", "x == 5");
    same("x == 0o17", "x == 15");
    same("x == -0x10", "x == -16");
    same("x == 18446744073709551615", "x == 18446744073709551615");
    same("x == -9223372036854775808", "x == -9223372036854775808");
    same("x == 1.5", "x == 1.5");
    same("x == 1e3", "x == 1000.0");
    same("x == -2.5e-300", "x == -2.5e-300");
    same("x == 1e300", "x == 1e300");
    same("x == 0", "x == 0");
    same("x == (3)", "x == 3");
}

#[test]
fn fields_have_roots_members_and_elements() {
    same("a.b[3].c == 1", "a.b[3].c == 1");
    same("a[0][1] == 1", "a[0][1] == 1");
    same("payload.name == \"x\"", "payload.name == \"x\"");
    same("$ctx.procname == \"x\"", "context.procname == \"x\"");
    same("context.vpid == 1", "context.vpid == 1");
    same("packet.cpu_id == 1", "packet.cpu_id == 1");
    same("header.id == 1", "header.id == 1");
    same("payload == 1", "payload == 1");
    same("payload[2].x == 1", "payload[2].x == 1");
    same("cpu.x == 1 && name[0] == 2", "cpu.x == 1 && name[0] == 2");
    same("payload.payload.and == 1", "payload.payload.and == 1");
    same("exists(x) && has( a.b )", "has(x) && has(a.b)");
    same("has (x)", "has(x)");
    same("cpu == 1 && loglevel <= 6", "cpu == 1 && loglevel <= 6");
}

#[test]
fn sets_have_values_and_ranges() {
    same("x in {1,2, 10...20}", "x in {1, 2, 10 ... 20}");
    same("x in{1}", "x in {1}");
    same("state in {\"RUNNING\", \"R*\"}", "state in {\"RUNNING\", \"R*\"}");
    same("name in {\"a\", \"b\"}", "name in {\"a\", \"b\"}");
    same("x & 3 in {1, 2}", "(x & 0x3) in {1, 2}");
    same("(x & 3) in {1, 2}", "(x & 0x3) in {1, 2}");
    same("x in {-1.5 ... 1.5}", "x in {-1.5 ... 1.5}");
    same("x in {1 ... 1}", "x in {1 ... 1}");
    same("! x in {1}", "!(x in {1})");
}

#[test]
fn text_has_the_escapes_of_c() {
    same(r#"c == "a\tb\x41\101\"\\\'""#, r#"c == "a\tbAA\"\\'""#);
    same(r#"c == "\a\b\v\f\n\r""#, r#"c == "\x07\x08\x0b\x0c\n\r""#);
    same(r#"c == "\xc3\xa9\xff""#, r#"c == "é\xff""#);
    same(r#"c == "what\?*""#, r#"c == "what\?*""#);
    same(r#"c == """#, r#"c == """#);
    same("c == \"a\nb\"", r#"c == "a\nb""#);
}

#[test]
fn blanks_do_not_matter() {
    same("a&&b||len>3", "(a && b) || len > 3");
    same("\t a\n&&\r\n b ", "a && b");
}

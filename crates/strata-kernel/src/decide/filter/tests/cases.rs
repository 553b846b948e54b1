//! Tests of what single filters are compiled to.

use strata_abi::kernel::{
    self, Test, CHARS, COMM, EQUAL, FIELD, LESS, LESS_SIGNED, PASS, PID, REJECT,
};
use strata_filter::Filter;

use super::super::{compile, Compiled, FilterError, SyscallEnd};
use super::world::{event, system_call};

fn compiled_at(text: &str, end: SyscallEnd) -> Compiled {
    let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let event =
        if text.contains("syscall") || end == SyscallEnd::Exit { system_call() } else { event() };
    compile(&filter, &event, end).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn tests(text: &str) -> Vec<Test> {
    match compiled_at(text, SyscallEnd::Entry) {
        Compiled::Tests(filter) => filter.test[..filter.nr_tests as usize].to_vec(),
        other => panic!("{text}: {other:?}"),
    }
}

fn is_never(text: &str) -> bool {
    compiled_at(text, SyscallEnd::Entry) == Compiled::Never
}

fn is_always(text: &str) -> bool {
    compiled_at(text, SyscallEnd::Entry) == Compiled::Always
}

#[test]
fn comparison_of_a_field_is_one_test_of_its_bytes() {
    let expected = Test {
        operand: FIELD,
        comparison: LESS,
        bytes: 4,
        offset: 4,
        yes: REJECT,
        no: PASS,
        mask: u64::MAX,
        value: 4097,
        ..Test::default()
    };
    assert_eq!(tests("len > 4096"), [expected]);
    let signed = Test {
        comparison: LESS_SIGNED,
        bytes: 8,
        is_signed: 1,
        offset: 16,
        value: 0,
        yes: PASS,
        no: REJECT,
        ..expected
    };
    assert_eq!(tests("ret < 0"), [signed]);
    assert_eq!(tests("ret <= -0.5"), [signed], "the greatest integer below is -1");
}

#[test]
fn text_is_compared_up_to_its_nul_and_a_prefix_without_it() {
    let test = |text: &str| tests(text)[0];
    let word = |text: &[u8; 8]| u64::from_ne_bytes(*text);
    let whole = test("comm == \"abc\"");
    assert_eq!((whole.operand, whole.value), (COMM, word(b"abc\0\0\0\0\0")));
    assert_eq!((whole.mask, whole.mask_high), (0xffff_ffff, 0));
    let prefix = test("next_comm == \"abcdefghi*\"");
    assert_eq!((prefix.operand, prefix.offset), (CHARS, 48));
    assert_eq!((prefix.mask, prefix.mask_high), (u64::MAX, 0xff));
    assert_eq!(prefix.value_high, word(b"i\0\0\0\0\0\0\0"));
    let full = test("short == \"abcdefg\"");
    assert_eq!(full.mask, 0x00ff_ffff_ffff_ffff, "7 bytes have no room for a NUL");
    assert!(is_always("comm == \"*\"") && is_never("comm != \"*\""));
}

#[test]
fn jumps_lead_on_only_and_share_the_rest() {
    let tests = tests("(pid == 3 || len < 5) && !(port == 80 && byte == 1)");
    let jumps: Vec<(u8, u8)> = tests.iter().map(|test| (test.yes, test.no)).collect();
    assert_eq!(jumps, [(2, 1), (2, REJECT), (3, PASS), (REJECT, PASS)]);
    assert_eq!((tests[0].operand, tests[0].comparison), (PID, EQUAL));
}

#[test]
fn ranges_take_as_few_tests_as_they_need() {
    for (text, nr_tests) in [
        ("len in {1, 3, 5}", 3),
        ("len in {1 ... 10}", 2),
        ("len in {1 ... 4, 5 ... 10}", 2),
        ("len in {1 ... 4, 6 ... 10}", 3),
        ("len != 7", 1),
        ("!(len in {0 ... 7})", 1),
        ("len in {0, 1, 2, 3}", 1),
        ("len in {0}", 1),
        ("len & 6 == 6", 1),
        ("len & 6", 1),
        ("byte in {0 ... 100, 102 ... 255}", 1),
        ("state == \"BUSY*\"", 2),
        ("state in {\"RUNNING\", \"SLEEPING\"}", 2),
        ("state != \"SLEEPING\"", 2),
    ] {
        assert_eq!(tests(text).len(), nr_tests, "{text}");
    }
}

#[test]
fn what_is_certain_of_an_event_needs_no_test() {
    for text in [
        "sched_*",
        "has(len)",
        "has(pid)",
        "has(context.comm)",
        "len >= 0",
        "byte < 256",
        "small > -129",
        "!(port == -1)",
        "len != 0.5",
        "byte == 3 || sched_test",
        "far == 3 || sched_test",
    ] {
        assert!(is_always(text), "{text}");
    }
    for text in [
        "other",
        "has(nothing)",
        "nothing == 1",
        "!(nothing == 1)",
        "byte == 256",
        "len < 0",
        "len == 1.5",
        "len == \"text\"",
        "next_comm == 3",
        "len & 6 == 1",
        "payload.pid == 3",
        "len in {\"a\", \"b\"}",
        "!(len in {1, \"a\"})",
        "state == \"IDLE\"",
        "far == 3 && other",
        "mask[4] == 0",
        "loglevel < 3",
        "mask == len",
        "nothing == far",
    ] {
        assert!(is_never(text), "{text}");
    }
}

#[test]
fn syscall_has_other_fields_and_another_name_at_each_end() {
    for (text, at_entry, at_exit) in [
        ("syscall_entry_*", Compiled::Always, Compiled::Never),
        ("syscall_exit_close", Compiled::Never, Compiled::Always),
        ("closed || syscall_*_open", Compiled::Never, Compiled::Never),
        ("close && !syscall_exit_*", Compiled::Always, Compiled::Never),
        ("clos* || syscall_*_open", Compiled::Always, Compiled::Always),
        ("has(fd) || syscall_x", Compiled::Always, Compiled::Never),
        ("has(ret) || syscall_x", Compiled::Never, Compiled::Always),
        ("(ret == 3 || fd == 3) && syscall_x", Compiled::Never, Compiled::Never),
    ] {
        assert_eq!(compiled_at(text, SyscallEnd::Entry), at_entry, "{text}");
        assert_eq!(compiled_at(text, SyscallEnd::Exit), at_exit, "{text}");
    }
    let Compiled::Tests(filter) = compiled_at("ret < 0 || fd == 3", SyscallEnd::Exit) else {
        panic!("the exit has a return value");
    };
    assert_eq!((filter.nr_tests, filter.test[0].bytes), (1, 8));
}

#[test]
fn other_events_have_one_end() {
    let filter = Filter::parse("len > 3").expect("a filter");
    let both = [SyscallEnd::Entry, SyscallEnd::Exit].map(|end| compile(&filter, &event(), end));
    assert_eq!(both[0], both[1]);
    assert!(matches!(both[0], Ok(Compiled::Tests(_))));
}

#[test]
fn wide_set_of_many_values_is_refused_without_effort() {
    let items: Vec<String> = (0..1000).map(|i| format!("{}...{}", i * 7 + 1, i * 7 + 3)).collect();
    let text = format!("addr in {{{}}}", items.join(","));
    let filter = Filter::parse(&text[..]).expect("shorter than the longest filter");
    let result = compile(&filter, &event(), SyscallEnd::Entry);
    assert!(
        matches!(result, Err(FilterError::TooManyTests { found, .. }) if found > 24),
        "{result:?}"
    );
    assert_eq!(kernel::TESTS_MAX, 24);
}

//! Tests of hints about mistakes.

use crate::{Class, ClassField, ClassFieldKind, Filter, Root, Slip};

fn field(root: Root, path: &str, kind: ClassFieldKind) -> ClassField {
    ClassField { root, path: path.to_string(), kind }
}

fn classes() -> Vec<Class> {
    let states: Vec<String> = ["RUNNING", "WAITING"].map(String::from).to_vec();
    let switch = Class {
        name: "sched:sched_switch".to_string(),
        loglevel: Some(6),
        cpu: true,
        fields: vec![
            field(Root::Payload, "next_comm", ClassFieldKind::Text),
            field(Root::Payload, "state", ClassFieldKind::Enumeration(states.into())),
            field(Root::Context, "vpid", ClassFieldKind::INTEGER),
        ],
    };
    let send = Class {
        name: "net:send".to_string(),
        fields: vec![
            field(Root::Payload, "len", ClassFieldKind::integer(32, false)),
            field(Root::Payload, "load", ClassFieldKind::Real),
            field(Root::Payload, "data", ClassFieldKind::Other),
            field(Root::Payload, "data[]", ClassFieldKind::INTEGER),
            field(Root::Payload, "head", ClassFieldKind::Other),
            field(Root::Payload, "head.port", ClassFieldKind::INTEGER),
        ],
        ..Class::default()
    };
    vec![switch, send]
}

fn hints(text: &str) -> Vec<String> {
    let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{}", error.caret()));
    filter.check(&classes()).iter().map(|hint| format!("{hint}\n{}", hint.caret())).collect()
}

#[track_caller]
fn hint(text: &str, message: &str, carets: &str) {
    let column = carets.find('^').unwrap() + 1;
    assert_eq!(hints(text), [format!("filter, column {column}: {message}\n{text}\n{carets}")]);
}

#[test]
fn check_of_a_filter_that_can_match_says_nothing() {
    for text in [
        "sched:* && next_comm == \"ng*\" || len > 4096",
        "state == \"RUN*\" && vpid == 1 && cpu == 0 && loglevel <= 6",
        "data[3] & 1 && head.port in {80, 443} && has(data)",
        "context.vpid > 1 || load > len",
        "!net:send",
        "state == 1 && state == vpid",
    ] {
        assert!(hints(text).is_empty(), "{text}: {:?}", hints(text));
    }
}

#[test]
fn check_without_classes_says_nothing() {
    assert!(Filter::parse("lenn == 3").unwrap().check(&[]).is_empty());
}

#[test]
fn call_is_an_event_of_its_own_name() {
    let class = |name: &str| Class { name: name.to_string(), ..Class::default() };
    let classes = ["syscall_entry_poll", "syscall_exit_poll"].map(class);
    let hints = |text: &str| Filter::parse(text).unwrap().check(&classes);
    assert!(hints("poll || syscalls || name in {\"p*l\"}").is_empty());
    assert_eq!(hints("!poll")[0].what, Slip::Never);
    let Slip::NoEvent { similar, .. } = &hints("pol")[0].what else { panic!() };
    assert_eq!(similar[0], "poll");
}

#[test]
fn unknown_event_has_similar_names() {
    hint(
        "sched_switch && vpid == 1",
        "no event of these traces is called 'sched_switch'; similar: 'sched:sched_switch'",
        "^^^^^^^^^^^^ no such event; similar: 'sched:sched_switch'",
    );
    hint("zebra*", "no event of these traces is called 'zebra*'", "^^^^^^ no such event");
    hint(
        "name in {\"net:*\", \"zebra\"}",
        "no event of these traces is called 'zebra'",
        "                  ^^^^^^^ no such event",
    );
}

#[test]
fn bare_field_is_no_event() {
    hint(
        "net:send && len",
        "no event of these traces is called 'len', but a field is. Compare it, or write has(len)",
        "            ^^^ no such event",
    );
}

#[test]
fn unknown_field_has_similar_names() {
    hint(
        "net:send && lenn == 3",
        "no event of these traces has a field 'lenn'; similar: 'len'",
        "            ^^^^ no such field; similar: 'len'",
    );
    hint(
        "has(port)",
        "no event of these traces has a field 'port'; similar: 'head.port'",
        "    ^^^^ no such field; similar: 'head.port'",
    );
    hint(
        "context.len == 3",
        "no event of these traces has a field 'context.len'; similar: 'payload.len'",
        "^^^^^^^^^^^ no such field; similar: 'payload.len'",
    );
    assert_eq!(hints("xyzzy == 1 || xyzzy == 2").len(), 1, "once");
}

#[test]
fn word_without_quotes_is_suspected_to_be_text() {
    hint(
        "next_comm == nginx",
        "no event of these traces has a field 'nginx'. For text write \"nginx\"",
        "             ^^^^^ no such field",
    );
    hint(
        "RUNNING == state",
        "no event of these traces has a field 'RUNNING'. For text write \"RUNNING\"",
        "^^^^^^^ no such field",
    );
}

#[test]
fn comparison_of_other_kinds_is_reported() {
    hint(
        "next_comm == 3",
        "'next_comm' is text in these traces; compared with a number it is never true",
        "^^^^^^^^^ is text",
    );
    hint(
        "len == \"3\"",
        "'len' is a number in these traces; compared with text it is never true",
        "^^^ is a number",
    );
    hint(
        "3 == data",
        "'data' is neither text nor a number in these traces; compared with a number it is never true",
        "     ^^^^ is neither text nor a number",
    );
    hint(
        "next_comm & 1",
        "'next_comm' is text in these traces; compared with a number it is never true",
        "^^^^^^^^^^^^^ is text",
    );
    hint(
        "next_comm == vpid",
        "'next_comm' is text in these traces; compared with a number it is never true",
        "^^^^^^^^^^^^^^^^^ is text",
    );
}

#[test]
fn unknown_label_has_similar_ones() {
    hint(
        "state in {\"WAITING\", \"RUNING\"}",
        "'state' has no label 'RUNING' in these traces; similar: 'RUNNING'",
        "                     ^^^^^^^^ no such label; similar: 'RUNNING'",
    );
}

#[test]
fn parts_that_are_true_of_different_events_only() {
    hint(
        "sched:* && len > 3",
        "no event of these traces can match: each part is true of some, all together of none",
        "^^^^^^^^^^^^^^^^^^ never true together",
    );
    assert_eq!(hints("loglevel == 3").len(), 1);
    assert_eq!(hints("net:send && !(vpid == 3)").len(), 1, "unknown stays unknown");
    assert_eq!(hints("net:send && !has(len)").len(), 0, "a field may be there or not");
    assert_eq!(hints("net:send && has(vpid)").len(), 1);
}

#[test]
fn values_that_no_field_can_have_are_reported_with_those_that_it_can() {
    let carets = |from: usize, to: usize| {
        format!("{}{} from 0 to 4294967295", " ".repeat(from), "^".repeat(to - from))
    };
    let len = "'len' is from 0 to 4294967295 in these traces";
    for (text, from, to, condition) in [
        ("len < 0", 0, 7, "len < 0"),
        ("0 > len", 0, 7, "len < 0"),
        ("len > 4294967295", 0, 16, "len > 4294967295"),
        ("vpid == 1 || len == -1", 13, 22, "len == -1"),
        ("len == 2.5", 0, 10, "len == 2.5"),
        ("!(len >= 0)", 2, 10, "!(len >= 0)"),
        ("len in {1, -1}", 11, 13, "len in {-1}"),
        ("len in {-9 ... -3, 1}", 8, 17, "len in {-9 ... -3}"),
    ] {
        hint(text, &format!("{len}; '{condition}' is never true"), &carets(from, to));
    }
    hint(
        "len & 4 == 1",
        "'(len & 0x4)' is from 0 to 4 in these traces; '(len & 0x4) == 1' is never true",
        "^^^^^^^^^^^^ from 0 to 4",
    );
    hint(
        "cpu == -1",
        "'cpu' is from 0 to 18446744073709551615 in these traces; 'cpu == -1' is never true",
        "^^^^^^^^^ from 0 to 18446744073709551615",
    );
    // A part that is always true, or that is true for another kind of the field, gets no hint.
    for text in ["len >= 0", "!(len < 0)", "!(len in {1, -1})", "len != -1", "vpid < 0", "load < 0"]
    {
        assert!(hints(text).is_empty(), "{text}: {:?}", hints(text));
    }
}

#[test]
fn parts_that_no_value_can_have_together() {
    for text in [
        "len > 5 && len < 3",
        "len > 3 && len < 4",
        "vpid > 5 && (len == 1 && vpid < 3 || vpid == 2) && vpid < 5",
        "!(len <= 5 || len >= 3)",
        "!(len > 1) && len in {2, 3 ... 7}",
        "(len < 3 || len > 10) && len == 5",
        "load > 5 && load < 3",
        "load == 2.5 && load != 2.5",
        "load > 9007199254740992 && load < 9007199254740994",
        "next_comm == \"a\" && next_comm == \"b*\"",
        "next_comm == \"a\" && !(next_comm == \"a*\")",
        "len & 6 == 2 && len & 6 == 4",
        "len & 6 > 4 && len & 6 < 6",
    ] {
        let found = hints(text);
        assert!(found.len() == 1 && found[0].contains("can match"), "{text}: {found:?}");
    }
    for text in [
        "len > 5 && len < 7",
        "len > 5 && vpid < 3 || len == 1",
        "load > 3 && load < 4",
        "load > 9007199254740992 && load < 9007199254740996",
        "!(load < 5) && !(load >= 5)",
        "next_comm == \"a*\" && next_comm == \"*b\"",
        "next_comm != \"a\" && next_comm != \"b\"",
        "state == \"RUNNING\" && state == \"WAITING\"",
        "len & 6 == 2 && len & 8 == 8",
        "data[1] == 1 && data[2] == 2",
    ] {
        let found = hints(text);
        assert!(found.is_empty(), "{text}: {found:?}");
    }
}

#[test]
fn traces_without_cpu_or_log_level() {
    let mut bare = classes();
    bare.remove(0);
    let check = |text| Filter::parse(text).unwrap().check(&bare);
    assert_eq!(check("cpu == 1")[0].what, Slip::NoCpu);
    assert_eq!(
        check("cpu == 1")[0].to_string(),
        "filter, column 1: no packet of these traces says which CPU it is of"
    );
    assert_eq!(check("cpu == 1")[0].caret(), "cpu == 1\n^^^ not known of any packet");
    assert_eq!(check("loglevel == 1")[0].what, Slip::NoLogLevel);
    assert_eq!(
        check("loglevel == 1")[0].to_string(),
        "filter, column 1: no event of these traces has a log level"
    );
    assert_eq!(
        check("loglevel & 1")[0].caret(),
        "loglevel & 1\n^^^^^^^^^^^^ not known of any event"
    );
}

#[test]
fn malicious_names_of_a_trace_do_not_reach_the_terminal() {
    let class = Class {
        name: "a\u{1b}[2J".to_string(),
        fields: vec![field(Root::Payload, "le\u{7}n", ClassFieldKind::INTEGER)],
        ..Class::default()
    };
    let filter = Filter::parse("a_[2J == 1 || len == 1");
    assert!(filter.is_err(), "no such path");
    let filter = Filter::parse("ax[2] == 1 || len == 1").unwrap();
    let hints = filter.check(&[class]);
    assert_eq!(hints.len(), 2);
    for hint in hints {
        assert!(!format!("{hint}{}", hint.caret()).contains(['\u{1b}', '\u{7}']), "{hint}");
    }
}

#[test]
fn hints_of_a_filter_for_other_traces_are_few() {
    let text: Vec<String> = (0..100).map(|index| format!("x{index} == 1")).collect();
    assert_eq!(hints(&text.join(" || ")).len(), 16);
}

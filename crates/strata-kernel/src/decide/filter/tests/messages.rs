//! Tests of messages on filters that the kernel cannot decide, and on those that match nothing.

use strata_filter::Filter;

use super::super::{cgroup, check, compile, Candidate, FilterError, SyscallEnd, Unsupported};
use super::world::{event, system_call};

fn error(text: &str) -> FilterError {
    let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    match compile(&filter, &event(), SyscallEnd::Entry) {
        Err(error) => error,
        Ok(compiled) => panic!("{text}: {compiled:?}"),
    }
}

fn slips(text: &str) -> String {
    let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let (event, call) = (event(), system_call());
    let events = [
        Candidate { event: &event, end: SyscallEnd::Entry },
        Candidate { event: &call, end: SyscallEnd::Entry },
        Candidate { event: &call, end: SyscallEnd::Exit },
    ];
    match check(&filter, &events) {
        Ok(()) => String::new(),
        Err(slips) => slips.to_string(),
    }
}

#[test]
fn duration_is_reported_to_be_that_of_system_calls() {
    for text in ["duration > 5ms", "len > 3 && context.duration < 1s"] {
        let said = slips(text);
        assert!(said.contains("how long a system call took"), "{said}");
    }
    assert_eq!(slips("container in {\"a\", \"b\"} || container == \"c\""), "");
}

#[test]
fn values_that_no_event_can_have_are_reported() {
    assert_eq!(slips("len > 5 && len < 7"), "");
    let said = slips("len > 5 && len < 3");
    assert!(said.contains("no selected event can match"), "{said}");
    let said = slips("len in {1, 0x1ffffffff}");
    let wanted = "column 12: 'len' is from 0 to 4294967295; 'len in {8589934591}' is never true";
    assert!(said.contains(wanted), "{said}");
}

#[test]
fn unsupported_part_is_named_with_its_reason() {
    use Unsupported::{
        ByteOrder, CgroupPattern, LongText, NotYet, Pattern, Place, Text, TwoFields,
    };
    for (text, part, reason) in [
        ("len > 3 && len == port", "len == port", TwoFields),
        ("next_comm == prev_comm", "next_comm == prev_comm", TwoFields),
        ("!(comm == \"a*b\")", "comm == \"a*b\"", Pattern),
        ("comm == \"a?\"", "comm == \"a?\"", Pattern),
        ("next_comm == \"*b\"", "next_comm == \"*b\"", Pattern),
        ("filename == \"/etc/*\"", "filename == \"/etc/*\"", Text),
        ("device in {\"a\"}", "device in {\"a\"}", Text),
        ("far == 3", "far == 3", Place),
        ("mask[0] == 3", "mask[0] == 3", Place),
        ("has(list[3])", "has(list[3])", Place),
        ("net_port == 80", "net_port == 80", ByteOrder),
        ("cgroup == \"/a*\"", "cgroup == \"/a*\"", CgroupPattern),
        ("packet.cpu_id == 0", "packet.cpu_id == 0", NotYet),
        ("has(header.id)", "has(header.id)", NotYet),
    ] {
        match error(text) {
            FilterError::Unsupported { part: found, event, why } => {
                assert_eq!((found.as_str(), event.as_str(), why), (part, "sched_test", reason));
            }
            other => panic!("{text}: {other}"),
        }
    }
    assert_eq!(
        error("len == port").to_string(),
        "filter: 'len == port' cannot be decided in the kernel for event 'sched_test': it compares two fields \
         with each other. Leave this part out, and give it to `strata view -f` afterwards"
    );
    assert!(LongText.to_string().contains("16 bytes"));
}

#[test]
fn unsupported_real_is_named() {
    use strata_model::{Field, FieldClass, FieldOrder, Float};
    let mut event = event();
    let real = Float { bytes: 8, byte_order: FieldOrder::Native };
    event.fields.push(Field::new("load", FieldClass::Float(real)));
    let filter = Filter::parse("load > 0.5").expect("a filter");
    let result = compile(&filter, &event, SyscallEnd::Entry);
    assert!(
        matches!(result, Err(FilterError::Unsupported { why: Unsupported::Real, .. })),
        "{result:?}"
    );
}

#[test]
fn text_of_a_long_array_is_decided_by_its_first_bytes_or_refused() {
    use strata_model::{Array, Element, Field, FieldClass};
    let mut event = event();
    let text = FieldClass::Array(Array { element: Element::Text, count: 32 });
    event.fields.retain(|field| field.name != "next_comm");
    event.fields.push(Field::new("next_comm", text));
    for (wanted, is_possible) in [
        ("abcdefghijklmno", true),
        ("abcdefghijklmno*", true),
        ("abcdefghijklmnop*", true),
        ("abcdefghijklmnop", false),
        ("abcdefghijklmnopq*", false),
    ] {
        let filter = Filter::parse(&format!("next_comm == \"{wanted}\"")).expect("a filter");
        match compile(&filter, &event, SyscallEnd::Entry) {
            Ok(_) => assert!(is_possible, "{wanted}"),
            Err(FilterError::Unsupported { why: Unsupported::LongText, .. }) => {
                assert!(!is_possible, "{wanted}");
            }
            Err(other) => panic!("{wanted}: {other}"),
        }
    }
}

#[test]
fn text_that_is_too_long_is_refused_with_the_limit() {
    assert_eq!(
        error("comm != \"a-very-long-process-name\"").to_string(),
        "filter: 'comm != \"a-very-long-process-name\"' is never true: the text has 24 bytes, a 'comm' of event \
         'sched_test' at most 15. The kernel cuts longer names: write the first 15 bytes"
    );
    assert!(matches!(error("short == \"abcdefgh\""), FilterError::TextTooLong { limit: 7, .. }));
}

#[test]
fn too_many_tests_are_refused_with_their_number() {
    let parts: Vec<String> = (10..35).map(|i| format!("len != {i}")).collect();
    let error = error(&parts.join(" && "));
    assert_eq!(error, FilterError::TooManyTests { event: "sched_test".to_string(), found: 25 });
    assert!(error.to_string().starts_with(
        "filter: 25 tests are needed for event 'sched_test', limit 24. Use ranges or patterns"
    ));
}

#[test]
fn control_group_that_is_not_there_is_refused_with_its_folder() {
    if cgroup::id(b"/", String::new).is_err() {
        eprintln!("skip: no control groups of version 2 are mounted");
        assert!(matches!(error("cgroup == \"/\""), FilterError::NoCgroups { .. }));
        return;
    }
    for path in ["/no-such-group", "/../../etc", "/cgroup.procs"] {
        let error = error(&format!("cgroup == \"{path}\""));
        assert!(matches!(error, FilterError::NoCgroup { .. }), "{error}");
    }
    let error = error("cgroup == \"/no-such-group\"").to_string();
    assert!(error.contains("there is no control group /sys/fs/cgroup/"), "{error}");
}

#[test]
fn check_shows_a_field_that_no_event_has() {
    assert_eq!(
        slips("sched_* && lenn == 3"),
        "filter, column 12: no selected event has a field 'lenn'. `strata list -k EVENT` lists its fields\n\
         sched_* && lenn == 3\n           ^^^^ no such field; similar: 'len'"
    );
    assert!(slips("state == \"BUSSY\"").contains("no such label; similar: 'BUSY'"));
    assert!(slips("sched_tset").contains("no such event; similar: 'sched_test'"));
    assert!(slips("next_comm < 3").contains("compared with a number it is never true"));
    assert!(slips("loglevel < 3").contains("no log level"));
    assert!(slips("has(fd) && has(ret)").contains("each part is true of some"));
}

#[test]
fn check_knows_the_fields_of_all_events_and_what_they_happen_on() {
    for text in [
        "fd == 3 || ret < 0 || len > 4",
        "pid == 1 && context.tid == 2 && comm == \"a*\" && procname != \"b\" && cpu == 0",
        "context.cpu == 0",
        "cgroup == \"/a\" || cgroup in {\"/b\", 3} || cgroup > 7",
        "mask[3] == 1",
        "flags == \"BUSY\"",
        "syscall_entry_close || syscall_exit_*",
    ] {
        assert_eq!(slips(text), "", "{text}");
    }
    let nothing = Filter::parse("nothing == 3").expect("a filter");
    assert_eq!(check(&nothing, &[]), Ok(()), "nothing can be said without events");
}

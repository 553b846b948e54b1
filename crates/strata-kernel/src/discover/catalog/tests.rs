use super::*;
use crate::discover::format::FormatError;
use strata_abi::kernel::{COPY, TEXT};

fn saved() -> Tracefs {
    Tracefs::at(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tracefs"))
}

fn catalog() -> Catalog {
    Catalog::load(&saved()).expect("the saved files")
}

fn event(system: &str, name: &str) -> EventName {
    EventName {
        name: event_names::event_name(system, name),
        system: system.into(),
        kernel_name: name.into(),
        is_syscall: false,
    }
}

fn pairs(found: &[(&str, &str)]) -> Vec<(String, String)> {
    found.iter().map(|(system, name)| ((*system).to_owned(), (*name).to_owned())).collect()
}

fn named(found: &[(&str, &str)]) -> Vec<String> {
    distinct(pairs(found)).into_iter().map(|event| event.name).collect()
}

#[test]
fn load_leaves_out_ftrace_raw_system_calls_and_what_somebody_defined() {
    let catalog = catalog();
    let has = |system: &str, name: &str| catalog.find(system, name).is_some();
    assert!(has("sched", "sched_switch") && has("irq", "softirq_entry"));
    for (system, name) in [
        ("raw_syscalls", "sys_enter"),
        ("syscalls", "sys_enter_openat"),
        ("kprobes", "mine"),
        ("synthetic", "latency"),
        ("ftrace", "print"),
    ] {
        assert!(!has(system, name), "{system}:{name}");
    }
}

#[test]
fn load_orders_tracepoints_and_puts_system_calls_last() {
    let catalog = catalog();
    let is_syscall: Vec<bool> = catalog.names().map(|event| event.is_syscall).collect();
    assert!(is_syscall.is_sorted());
    let names = || catalog.names().filter(|event| !event.is_syscall);
    assert!(names().map(|event| (&event.system, &event.kernel_name)).is_sorted());
    assert_eq!(names().count(), 24);
}

#[test]
fn distinct_where_two_systems_have_one_name_puts_the_system_in_front() {
    assert_eq!(named(&[("a", "x"), ("b", "y")]), ["x", "y"]);
    assert_eq!(named(&[("a", "x"), ("b", "x"), ("b", "y")]), ["a_x", "b_x", "y"]);
    // What LTTng's names make of it counts, not the kernel's.
    let both = [("power", "idle"), ("other", "power_idle")];
    assert_eq!(named(&both), ["power_idle", "other_power_idle"]);
}

#[test]
fn distinct_where_that_is_not_enough_has_the_kernel_s_full_name() {
    let found = named(&[("a", "b_x"), ("a_b", "x"), ("c", "b_x"), ("c", "y"), ("d", "x")]);
    let count = |name: &String| found.iter().filter(|other| *other == name).count();
    assert!(found.iter().all(|name| count(name) == 1), "{found:?}");
    assert_eq!(found[0], "a:b_x");
}

#[test]
fn distinct_keeps_out_of_the_names_of_system_calls() {
    assert_eq!(named(&[("mine", "syscall_entry_openat")]), ["mine_syscall_entry_openat"]);
}

#[test]
fn describe_of_a_tracepoint_has_fields_parts_and_sources() {
    let found = describe(&event("block", "block_rq_issue"), &format_of("block", "block_rq_issue"))
        .expect("it can be recorded");
    assert_eq!((found.name.as_str(), found.is_followed), ("block_rq_issue", false));
    let names: Vec<_> = found.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["dev", "sector", "nr_sector", "bytes", "ioprio", "rwbs", "comm", "cmd"]);
    let Probe::Tracepoint { parts, .. } = &found.probe else { panic!("{:?}", found.probe) };
    let parts: Vec<_> = parts.iter().map(|part| (part.kind, part.offset, part.bytes)).collect();
    assert_eq!(parts, [(COPY, 8, 4), (COPY, 16, 44), (TEXT, 60, 4)]);
    assert_eq!(found.sources.len(), 7);
}

fn format_of(system: &str, name: &str) -> String {
    saved().format(system, name).expect("a saved file")
}

#[test]
fn describe_of_the_scheduler_s_events_calls_threads_so() {
    let found =
        describe(&event("sched", "sched_pi_setprio"), &format_of("sched", "sched_pi_setprio"))
            .expect("it can be recorded");
    let names: Vec<_> = found.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["comm", "tid", "oldprio", "newprio"]);
    assert_eq!(found.sources[0].field, "tid");
}

#[test]
fn describe_when_both_names_are_there_keeps_the_kernel_s() {
    let text = "name: both\nID: 1\nformat:\n\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\
                \tfield:pid_t tid;\toffset:12;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";
    let found = describe(&event("sched", "both"), text).expect("it can be recorded");
    let names: Vec<_> = found.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["pid", "tid"]);
}

#[test]
fn describe_of_signals_and_page_faults_says_that_they_are_followed() {
    for (system, name) in [("signal", "signal_generate"), ("exceptions", "page_fault_user")] {
        let catalog = catalog();
        let event = catalog.find(system, name).expect(name);
        assert!(catalog.describe(event).expect(name).is_followed);
    }
}

#[test]
fn describe_of_an_event_that_is_gone_says_so() {
    let error = catalog().describe(&event("sched", "sched_gone")).expect_err("no such file");
    assert!(matches!(&error, Error::NoEvent { name, .. } if name == "sched_gone"), "{error}");
    let call = EventName { is_syscall: true, ..event(SYSCALLS, "no_such_call") };
    assert!(matches!(catalog().describe(&call), Err(Error::NoEvent { .. })));
}

#[test]
fn describe_of_what_no_trace_can_hold_is_refused() {
    let long = "x".repeat(300);
    let text = format!(
        "name: big\nID: 1\nformat:\n\tfield:int {long};\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n"
    );
    let error = describe(&event("mine", "big"), &text).expect_err("300 bytes");
    assert!(matches!(error, Error::Format { error: FormatError::Class(_), .. }), "{error}");
}

#[test]
fn excluded_says_why_a_rule_matches_nothing() {
    let catalog = catalog();
    for rule in [
        "raw_syscalls:*",
        "raw_syscalls:sys_enter",
        "!sys_exit",
        "syscalls:sys_enter_read",
        "sys_exit_read",
        "ftrace:print",
    ] {
        assert!(catalog.excluded(rule).is_some(), "{rule}");
    }
    for rule in ["sched:*", "openat", "syscalls:opnat", "*"] {
        assert!(catalog.excluded(rule).is_none(), "{rule}");
    }
}

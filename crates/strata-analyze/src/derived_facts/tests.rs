//! Tests of facts that records do not contain themselves, with traces written by hand.

use std::sync::Arc;

use strata_ctf::read::{Message, Reader, Selection, TimeRange};
use strata_filter::Filter;

use super::*;
use crate::hand_tests::V::{Text, I64, U32, U64};
use crate::hand_tests::{metadata, Hand, Packets, Record};

const SWITCH: u8 = 0;
const WAKING: u8 = 1;
const READ: u8 = 2;
const READ_END: u8 = 3;
const THERE: u8 = 4;
const FORK: u8 = 5;
const EXEC: u8 = 6;
const GROUP: u8 = 7;
const EVENTS: [(&str, &str); 8] = [
    (
        "sched_switch",
        "string prev_comm; u32 prev_tid; i64 prev_state; string next_comm; u32 next_tid;",
    ),
    ("sched_waking", "string comm; u32 tid;"),
    ("syscall_entry_read", "u32 fd; u64 count;"),
    ("syscall_exit_read", "i64 ret;"),
    ("lttng_statedump_process_state", "u32 tid; u32 pid; u32 ppid; string name;"),
    (
        "sched_process_fork",
        "string parent_comm; u32 parent_tid; u32 parent_pid; string child_comm; u32 child_tid; u32 child_pid;",
    ),
    ("sched_process_exec", "string filename; u32 tid; u32 old_tid;"),
    ("lttng_statedump_process_cgroup", "u32 pid; string path; u64 cgroup_id; string container;"),
];

fn kernel(context: &str, streams: &[Packets]) -> Hand {
    let hand = Hand::new();
    let text = metadata("domain = \"kernel\"; hostname = \"box\";", context, &EVENTS);
    hand.trace("kernel", &text, streams);
    hand
}

fn bound(reader: &Reader, filter: &str, of: Option<WantedOf<'_>>) -> Selection {
    let mut selection = match filter {
        "" => Selection::all(),
        filter => Selection::new(&Filter::parse(filter).unwrap()),
    };
    let asked = selection.asked_words(reader);
    let facts = DerivedFacts::read(reader, &asked, of, TimeRange::ALL, &|| false).unwrap();
    assert_eq!(facts.left_out(), 0);
    selection.with_derived(Arc::new(facts), of.is_some())
}

/// Returns the times of the selected records \[cycles\].
fn selected(reader: &Reader, mut selection: Selection) -> Vec<u64> {
    let mut times = Vec::new();
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        if let Message::Event(event) = message {
            if selection.accepts(&event) {
                times.push(event.cycles().unwrap());
            }
        }
    }
    times
}

fn times(hand: &Hand, filter: &str) -> Vec<u64> {
    let reader = hand.reader();
    selected(&reader, bound(&reader, filter, None))
}

/// Makes a trace of process 5 `app` with its thread 6 `worker`. 5 starts process 8, which becomes `tool`; 7 `other`
/// wakes 5.
fn example() -> Hand {
    let there = |tid, pid, name| [U32(1), U32(tid), U32(pid), U32(1), Text(name)];
    let (five, six, seven) = (there(5, 5, "app"), there(6, 5, "worker"), there(7, 7, "other"));
    let fork = [U32(5), Text("app"), U32(5), U32(5), Text("app"), U32(8), U32(8)];
    let exec = [U32(8), Text("/bin/tool"), U32(8), U32(8)];
    let read = |tid| [U32(tid), U32(3), U64(1)];
    let end = |tid| [U32(tid), I64(1)];
    let waking = [U32(7), Text("app"), U32(5)];
    let group = [U32(1), U32(5), Text("/a/docker"), U64(9), Text("0123456789ab")];
    let switch = [U32(0), Text("swapper/0"), U32(0), I64(0), Text("app"), U32(5)];
    let records: [Record<'_>; 16] = [
        (READ, 1, &read(5)),
        (READ_END, 2, &end(5)),
        (THERE, 10, &five),
        (THERE, 11, &six),
        (THERE, 12, &seven),
        (GROUP, 13, &group),
        (READ, 20, &read(5)),
        (READ, 21, &read(6)),
        (READ_END, 50, &end(5)),
        (FORK, 60, &fork),
        (READ, 70, &read(8)),
        (READ_END, 75, &end(8)),
        (EXEC, 80, &exec),
        (READ, 90, &read(8)),
        (WAKING, 100, &waking),
        (SWITCH, 110, &switch),
    ];
    kernel("u32 tid;", &[Packets::new(0).packet(&records)])
}

#[test]
fn comm_is_the_name_of_the_thread_that_made_a_record_at_that_time() {
    let hand = example();
    // What a thread is called when it is first named, it was called before; the record of its exec is by its new name.
    assert_eq!(times(&hand, "context.comm == \"app\""), [1, 2, 20, 50, 60, 70, 75]);
    assert_eq!(times(&hand, "comm == \"app\" && syscall_*"), [1, 2, 20, 50, 70, 75]);
    assert_eq!(times(&hand, "comm == \"tool\""), [80, 90]);
    assert_eq!(times(&hand, "procname in {\"wor*\", \"tool\"}"), [21, 80, 90]);
    assert_eq!(times(&hand, "comm == \"swapper/0\""), [110]);
    // The record's own field comes first, as in the kernel.
    assert_eq!(times(&hand, "sched_waking && comm == \"app\""), [100]);
    assert_eq!(times(&hand, "sched_waking && context.comm == \"other\""), [100]);
}

#[test]
fn pid_is_the_process_of_a_thread_and_tid_the_thread() {
    let hand = example();
    assert_eq!(times(&hand, "pid == 5 && read"), [1, 2, 20, 21, 50]);
    assert_eq!(times(&hand, "context.tid == 6 || pid == 8"), [21, 70, 75, 80, 90]);
    assert_eq!(times(&hand, "pid == 0"), [110]);
    assert_eq!(times(&hand, "has(context.pid) && !read && !lttng_*"), [60, 80, 100, 110]);
    // Nothing tells the process of 1, which only dumped what was there.
    assert_eq!(times(&hand, "!has(context.pid)"), [10, 11, 12, 13]);
}

#[test]
fn container_is_that_of_the_process_and_a_new_process_is_in_that_of_who_made_it() {
    let hand = example();
    let of_container = [1, 2, 20, 21, 50, 60, 70, 75, 80, 90];
    assert_eq!(times(&hand, "context.container == \"0123456789ab\""), of_container);
    assert_eq!(times(&hand, "context.cgroup == \"/a/*\" && read && pid == 8"), [70, 75, 90]);
    assert_eq!(times(&hand, "context.container == \"x\""), [0; 0]);
}

#[test]
fn duration_of_a_call_selects_both_of_its_ends() {
    let hand = example();
    assert_eq!(times(&hand, "duration >= 5ns"), [20, 50, 70, 75]);
    assert_eq!(times(&hand, "read && duration > 5ns"), [20, 50]);
    assert_eq!(times(&hand, "duration in {1, 5}"), [1, 2, 70, 75]);
    assert_eq!(times(&hand, "!(duration > 5ns)"), [1, 2, 70, 75]);
    // A call that has no end is of no known length.
    assert_eq!(times(&hand, "read && !has(duration)"), [21, 90]);
}

#[test]
fn records_that_say_no_thread_are_of_what_their_cpu_runs() {
    let switch = |prev, next: u32| [Text("x"), U32(prev), I64(1), Text("x"), U32(next)];
    let there = |tid, pid, name| [U32(tid), U32(pid), U32(1), Text(name)];
    let (five, six) = (there(5, 5, "app"), there(6, 6, "other"));
    let (read, end) = ([U32(3), U64(1)], [I64(1)]);
    let (to_five, to_six, back) = (switch(0, 5), switch(5, 6), switch(6, 5));
    let records: [Record<'_>; 9] = [
        (THERE, 1, &five),
        (THERE, 2, &six),
        (SWITCH, 10, &to_five),
        (READ, 20, &read),
        (SWITCH, 30, &to_six),
        (READ, 40, &read),
        (READ_END, 45, &end),
        (SWITCH, 50, &back),
        (READ_END, 60, &end),
    ];
    let hand = kernel("", &[Packets::new(0).packet(&records)]);
    assert_eq!(times(&hand, "context.pid == 5"), [20, 30, 60]);
    assert_eq!(times(&hand, "read && tid == 6"), [40, 45]);
    assert_eq!(times(&hand, "duration == 40ns"), [20, 60]);
    assert_eq!(times(&hand, "sched_switch && pid == 5"), [30]);
}

#[test]
fn spans_of_a_program_have_a_duration_and_its_process() {
    let events = [
        ("app:job_begin", "u32 number;"),
        ("app:job_end", "u32 number;"),
        ("app:note", "u32 duration;"),
    ];
    let environment = "domain = \"ust\"; hostname = \"box\"; vpid = 40; procname = \"shop\";";
    let hand = Hand::new();
    let number = |tid| [U32(tid), U32(1)];
    let (first, second, note) = (number(40), number(41), [U32(41), U32(100)]);
    let records: [Record<'_>; 6] = [
        (0, 10, &first),
        (0, 20, &second),
        (0, 25, &first),
        (1, 30, &first),
        (2, 40, &note),
        (1, 90, &second),
    ];
    let text = metadata(environment, "u32 vtid;", &events);
    hand.trace("app", &text, &[Packets::new(0).packet(&records)]);
    assert_eq!(times(&hand, "duration == 5"), [25, 30]);
    // An event's own field comes first.
    assert_eq!(times(&hand, "duration > 50"), [20, 40, 90]);
    assert_eq!(times(&hand, "pid == 40 && tid == 41"), [20, 40, 90]);
    assert_eq!(times(&hand, "comm == \"shop\""), [10, 20, 25, 30, 40, 90]);
}

#[test]
fn records_of_whom_was_asked_for_are_those_of_all_threads_of_the_process() {
    let hand = example();
    let reader = hand.reader();
    let of = |words, also_about, filter: &str| {
        selected(&reader, bound(&reader, filter, Some(WantedOf { words, also_about })))
    };
    let made = [1, 2, 20, 21, 50, 60];
    assert_eq!(of("app", false, ""), made);
    assert_eq!(of("5", false, ""), made);
    assert_eq!(of("worker", false, ""), [21]);
    assert_eq!(of("tool", false, ""), [70, 75, 80, 90]);
    assert_eq!(of("app", false, "read && duration > 10"), [20, 50]);
    assert_eq!(of("app", true, "sched_*"), [60, 100, 110]);
    assert_eq!(of("nobody", false, ""), [0; 0]);
}

#[test]
fn facts_that_are_stopped_are_none() {
    let hand = example();
    let reader = hand.reader();
    let mut selection = Selection::new(&Filter::parse("pid == 5").unwrap());
    let asked = selection.asked_words(&reader);
    assert!(DerivedFacts::read(&reader, &asked, None, TimeRange::ALL, &|| true).is_none());
}

#[test]
fn host_of_a_record_is_that_of_its_trace() {
    let hand = Hand::new();
    for (number, environment) in [
        "hostname = \"web1\";",
        "hostname = \"web2\";",
        // Another machine of that name, as its clock is only known within limits.
        "hostname = \"web2\"; clock_uncertainty = 5;",
        "",
    ]
    .into_iter()
    .enumerate()
    {
        let text = metadata(environment, "", &[("e", "")]);
        let records: [Record<'_>; 1] = [(0, 10 + number as u64, &[])];
        hand.trace(&format!("t{number}"), &text, &[Packets::new(0).packet(&records)]);
    }
    let reader = hand.reader();
    let times = |filter| selected(&reader, bound(&reader, filter, None));
    assert_eq!(times("host == \"web1\""), [10]);
    assert_eq!(times("host == \"web2\""), [11]);
    assert_eq!(times("host == \"web2 (2)\""), [12]);
    assert_eq!(times("host == \"web*\" && host != \"web1\""), [11, 12]);
}

#[test]
fn words_are_known_of_classes_that_may_have_them() {
    let hand = example();
    let reader = hand.reader();
    let hints = |text: &str| {
        let filter = Filter::parse(text).unwrap();
        Selection::check(&filter, &reader, &may_have).len()
    };
    for text in [
        "comm == \"x\" && syscall_*",
        "read && duration > 1ms",
        "container == \"x\"",
        "host == \"box\"",
    ] {
        assert_eq!(hints(text), 0, "{text}");
    }
    assert_eq!(hints("sched_switch && duration > 1ms"), 1, "a switch has none");
    assert_eq!(hints("comm == 3"), 1);
    assert_eq!(hints("duratoin > 1ms"), 1);
}

//! Tests of kernel events in the format's own messages: wakeups and interrupts, with and without some fields;
//! categories.

use super::*;
use crate::hand_tests::V;
use crate::perfetto::proto::SchedWakeup;

/// Exports one event of this name with these fields, on CPU 1, recorded by the kernel's own tracer.
fn one(name: &str, fields: &str, values: &[V]) -> (Option<Ftrace>, Summary) {
    let hand = Hand::new();
    let text = metadata("domain = \"kernel\";", "i64 tid;", &[(name, fields)]);
    let record = [&[I64(7)], values].concat();
    hand.trace("k", &text, &[Packets::new(1).packet(&[(0, 10, &record)])]);
    let found = exported(&hand, &Options::default());
    let event = found.ftrace().into_iter().flat_map(|(_, _, events)| events).next();
    (event.and_then(|event| event.event), found.summary)
}

const WAKE: &str = "string comm; i64 tid; i64 prio; i64 success; i64 target_cpu;";

#[test]
fn wakeups_have_whom_they_wake_and_where_as_far_as_that_was_recorded() {
    let values = [Text("worker"), I64(8), I64(120), I64(1), I64(3)];
    let waking = SchedWakeup {
        comm: Some("worker".into()),
        pid: Some(8),
        prio: Some(120),
        success: Some(1),
        target_cpu: Some(3),
    };
    let (found, summary) = one("sched_waking", WAKE, &values);
    assert_eq!(
        (found, summary.kernel, summary.instants),
        (Some(Ftrace::SchedWaking(waking)), 1, 0)
    );
    let (found, _) = one("sched:sched_wakeup", WAKE, &values);
    let Some(Ftrace::SchedWakeup(wakeup)) = found else { panic!("{found:?}") };
    assert_eq!((wakeup.pid, wakeup.target_cpu), (Some(8), Some(3)));
    // The number only, as perf calls it.
    let (found, _) = one("sched_wakeup", "i64 pid;", &[I64(9)]);
    assert_eq!(
        found,
        Some(Ftrace::SchedWakeup(SchedWakeup { pid: Some(9), ..SchedWakeup::default() }))
    );
    // Without it, it is an event like any other.
    let (found, summary) = one("sched_wakeup", "string comm;", &[Text("x")]);
    assert_eq!((found, summary.kernel, summary.instants), (None, 0, 1));
    // Numbers that the format has no room for.
    let values = [Text(""), I64(i64::MAX), I64(i64::MAX), I64(i64::MIN), I64(i64::MAX)];
    let (found, _) = one("sched_waking", WAKE, &values);
    let Some(Ftrace::SchedWaking(waking)) = found else { panic!("{found:?}") };
    assert_eq!(
        (waking.pid, waking.prio, waking.success),
        (Some(0), Some(i32::MAX), Some(i32::MIN))
    );
}

#[test]
fn interrupts_and_softirqs_are_messages_and_what_lacks_its_number_is_none() {
    let softirq = |vec| Softirq { vec: Some(vec) };
    for (name, fields, values, wanted) in [
        ("irq_softirq_entry", "i64 vec;", &[I64(3)][..], Some(Ftrace::SoftirqEntry(softirq(3)))),
        ("irq_softirq_exit", "i64 vec;", &[I64(3)], Some(Ftrace::SoftirqExit(softirq(3)))),
        ("irq_softirq_raise", "i64 vec;", &[I64(3)], Some(Ftrace::SoftirqRaise(softirq(3)))),
        ("irq:softirq_raise", "u32 vec;", &[U32(9)], Some(Ftrace::SoftirqRaise(softirq(9)))),
        ("irq_softirq_exit", "i64 other;", &[I64(3)], None),
        ("irq_softirq_entry", "i64 vec;", &[I64(1 << 40)], None),
        ("irq_softirq_entry", "string vec;", &[Text("3")], None),
        (
            "irq_handler_entry",
            "i64 irq;",
            &[I64(36)],
            Some(Ftrace::IrqHandlerEntry(IrqHandlerEntry { irq: Some(36), name: None })),
        ),
        (
            "irq_handler_exit",
            "i64 irq;",
            &[I64(36)],
            Some(Ftrace::IrqHandlerExit(IrqHandlerExit { irq: Some(36), ret: None })),
        ),
        ("irq_handler_exit", "i64 ret;", &[I64(1)], None),
        ("irq_vectors_local_timer_entry", "i64 vector;", &[I64(1)], None),
    ] {
        let (found, summary) = one(name, fields, values);
        assert_eq!(found, wanted, "{name} {fields}");
        let of_kernel = u64::from(wanted.is_some());
        let shown = summary.instants + summary.begins + summary.ends_without_begin;
        assert_eq!((summary.kernel, shown), (of_kernel, 1 - of_kernel), "{name} {fields}");
    }
}

#[test]
fn switch_without_names_priorities_or_state_is_one_all_the_same() {
    let (found, _) = one("sched_switch", "i64 prev_pid; i64 next_pid;", &[I64(5), I64(0)]);
    let switch = SchedSwitch { prev_pid: Some(5), next_pid: Some(0), ..SchedSwitch::default() };
    assert_eq!(found, Some(Ftrace::SchedSwitch(switch)));
    let (found, summary) = one("sched_switch", "i64 prev_pid;", &[I64(5)]);
    assert_eq!((found, summary.instants), (None, 1));
}

#[test]
fn categories_are_the_provider_or_what_the_kernel_s_event_is_and_the_level() {
    let categories = |environment: &str, event: &str, level: &str| {
        let hand = Hand::new();
        let text = metadata(environment, "", &[(event, "")]);
        let text =
            text.replace(&format!("name = \"{event}\";"), &format!("name = \"{event}\"; {level}"));
        hand.trace("t", &text, &[Packets::new(0).packet(&[(0, 10, &[])])]);
        let found = exported(&hand, &Options::default());
        let data = found.packets.iter().filter_map(|packet| packet.interned_data.as_ref());
        let names = data.flat_map(|data| &data.event_categories);
        names.map(|name| name.name.clone().unwrap()).collect::<Vec<_>>().join(" ")
    };
    let (program, kernel) = ("domain = \"ust\"; vpid = 5;", "domain = \"kernel\";");
    for (environment, event, level, wanted) in [
        (program, "shop:sold", "", "shop"),
        (program, "shop:sold", "loglevel = 3;", "shop err"),
        (program, "sold", "loglevel = 99;", "level 99"),
        (program, "sold", "", ""),
        (kernel, "timer_start", "", "kernel"),
        (kernel, "syscall_entry_read", "", "syscall"),
        (kernel, "block:block_rq_issue", "", "block"),
    ] {
        assert_eq!(categories(environment, event, level), wanted, "{event} {level}");
    }
}

#[test]
fn names_of_threads_that_were_there_and_those_reported_later_are_those_of_their_tracks() {
    let environment = format!(
        "{APPLICATION} thread_name_8 = \"first\"; thread_name_x = \"none\"; thread_name_9 = 5;"
    );
    let events = [("strata:thread_name", "u32 tid; string name;"), ("a:e", "")];
    let hand = Hand::new();
    let stream = Packets::new(0).packet(&[
        (1, 10, &[U32(8)]),
        (0, 20, &[U32(8), U32(8), Text("second")]),
        (0, 30, &[U32(8), U32(0), Text("nobody")]),
        (1, 40, &[U32(9)]),
    ]);
    hand.trace("t", &metadata(&environment, "u32 vtid;", &events), &[stream]);
    let found = exported(&hand, &Options::default());
    let tracks = found.packets.iter().filter_map(|packet| match &packet.data {
        Some(PacketData::TrackDescriptor(track)) => track.thread.clone(),
        _ => None,
    });
    let named: Vec<_> = tracks.map(|it| (it.tid.unwrap(), it.thread_name)).collect();
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(named, [(8, name("first")), (8, name("second")), (9, None)]);
}

#[test]
fn loss_in_front_of_a_stream_s_first_record_is_of_its_cpu_alone() {
    let other = Packets::new(0).packet(&[(0, 10, &switch(5, 6)), (4, 30, &[U8(1)])]);
    let stream = Packets::new(1).discards(3).packet(&[(4, 20, &[U8(2)]), (0, 40, &switch(7, 8))]);
    let found = of_kernel("", &[other, stream]);
    let lines = found.lines();
    let gaps: Vec<&String> = lines.iter().filter(|line| line.contains(" discarded @")).collect();
    assert_eq!(gaps.len(), 1, "{lines:?}");
    assert!(gaps[0].contains("instant 3 event records discarded @CPU 1 1 {"), "{gaps:?}");
    // What runs on the other one is known as before.
    let instants = lines.iter().filter(|line| line.contains(" instant other "));
    let places: Vec<&str> = instants.map(|line| line.split(" {").next().unwrap()).collect();
    assert_eq!(places, ["20 instant other @CPU 1 1", "30 instant other @thread 6/6"]);
    let cuts: Vec<(u32, bool)> = found.ftrace().iter().map(|(cpu, cut, _)| (*cpu, *cut)).collect();
    assert!(cuts.contains(&(0, false)) && cuts.contains(&(1, true)), "{cuts:?}");
}

#[test]
fn calls_that_have_numbers_are_slices_of_their_names_and_a_number_ends_no_other_call() {
    let events = [
        ("raw_syscalls:sys_enter", "u32 common_pid; i64 id;"),
        ("raw_syscalls:sys_exit", "u32 common_pid; i64 id; i64 ret;"),
    ];
    let enter = |number| [U32(7), I64(number)];
    let leave = |number, ret| [U32(7), I64(number), I64(ret)];
    let (read, read_ends, write_ends) = (enter(0), leave(0, 5), leave(1, 6));
    let (returns, returned) = (enter(15), leave(-1, 0));
    let (narrow, none) = (enter(403), enter(99_999));
    let records: [Record<'_>; 8] = [
        (0, 10, &read),
        (1, 11, &read_ends),
        (0, 12, &read),
        (1, 13, &write_ends),
        (0, 14, &returns),
        (1, 15, &returned),
        (0, 16, &narrow),
        (0, 17, &none),
    ];
    let names = |machine: &str| {
        let hand = Hand::new();
        let text = metadata(&format!("machine = \"{machine}\";"), "", &events);
        hand.trace("p", &text, &[Packets::new(1).packet(&records)]);
        let lines = exported(&hand, &Options::default()).lines().into_iter();
        let of = |line: String| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        lines.map(of).collect::<Vec<_>>()
    };
    let begin_of = |time, name| format!("{time} begin {name}");
    assert_eq!(
        names("x86_64"),
        [
            &*begin_of(10, "read"),
            "11 end @thread",
            &*begin_of(12, "read"),
            "13 instant raw_syscalls:sys_exit",
            // Its thread's next call says that it is over.
            "14 end @thread",
            &*begin_of(14, "rt_sigreturn"),
            "15 end @thread",
            &*begin_of(16, "syscall_403"),
            "17 end @thread",
            &*begin_of(17, "syscall"),
            "17 end @thread",
        ]
    );
    assert_eq!(names("aarch64")[..1], [begin_of(10, "io_setup")]);
    assert_eq!(names("")[..1], [begin_of(10, "syscall_0")]);
}

#[test]
fn contexts_that_are_called_as_a_field_are_apart_from_it() {
    let hand = Hand::new();
    let events = [
        ("lttng_statedump_process_state", "u32 tid; u32 pid; string name; u32 cpu;"),
        ("x_begin", "u32 tid;"),
        ("x_end", "u32 tid; u32 n;"),
        ("other", "u32 n;"),
    ];
    let text = metadata("domain = \"kernel\";", "u32 tid; u32 prio;", &events);
    let stream = Packets::new(1).packet(&[
        (0, 10, &[U32(5), U32(20), U32(7), U32(6), Text("app"), U32(3)]),
        (1, 11, &[U32(7), U32(20), U32(8)]),
        (2, 12, &[U32(7), U32(20), U32(8), U32(1)]),
        (3, 13, &[U32(7), U32(20), U32(1)]),
    ]);
    let lines = exported(hand.trace("k", &text, &[stream]), &Options::default()).lines();
    let fields: Vec<&str> =
        lines.iter().filter_map(|line| line.split_once('{')).map(|it| it.1).collect();
    assert_eq!(
        fields,
        [
            "prio=20 context=(tid=5 cpu=1) tid=7 pid=6 name='app' cpu=3}",
            "prio=20 context=(tid=7) tid=8 cpu=1}",
            "n=1 end=(tid=8)}",
            "tid=7 prio=20 n=1 cpu=1}",
        ]
    );
}

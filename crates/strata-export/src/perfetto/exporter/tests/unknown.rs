//! Tests of CPUs and threads of which no record says what they did: hidden threads, and times after discarded records.

use super::super::super::cpu_occupancy::{unknown, NO_STATE, UNKNOWN_PROCESS};
use super::*;
use crate::hand_tests::V;

/// The events of the traces. The first field of each record is its thread.
const EVENTS: [(&str, &str); 3] = [
    ("sched_switch", "i64 prev_tid; i64 prev_state; i64 next_tid;"),
    ("sched_waking", "i64 tid;"),
    ("syscall_entry_read", ""),
];

fn switch(prev: i64, state: i64, next: i64) -> [V; 4] {
    [I64(prev), I64(prev), I64(state), I64(next)]
}

/// Exports a trace of CPUs, which are numbered from 0.
fn of_cpus(streams: Vec<Packets>) -> Exported {
    let hand = Hand::new();
    let text = metadata("domain = \"kernel\"; strata_switches = \"all\";", "i64 tid;", &EVENTS);
    exported(hand.trace("k", &text, &streams), &Options::default())
}

/// Returns the switches of a CPU in the order of a reader, as `TIME PREV STATE NEXT`. `?` stands for an unknown thread
/// and for no state.
fn switches(found: &Exported, of: u32) -> Vec<String> {
    let bundles = found.ftrace().into_iter().filter(|(cpu, ..)| *cpu == of);
    let mut all: Vec<(u64, String)> = Vec::new();
    for (cpu, _, events) in bundles {
        let times: Vec<u64> = events.iter().map(|event| event.timestamp.unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
        for event in events {
            let Some(Ftrace::SchedSwitch(switch)) = event.event else { continue };
            assert_eq!(event.pid, switch.prev_pid.map(i32::unsigned_abs));
            let pid = |pid: Option<i32>| match pid.unwrap() {
                pid if pid == unknown(cpu) => "?".to_owned(),
                pid => pid.to_string(),
            };
            let is_named = switch.next_comm.as_deref() == Some("unknown");
            assert_eq!(is_named, switch.next_pid == Some(unknown(cpu)), "{switch:?}");
            let state = match switch.prev_state {
                Some(NO_STATE) => "?".to_owned(),
                state => state.unwrap().to_string(),
            };
            let time = event.timestamp.unwrap();
            let (prev, next) = (pid(switch.prev_pid), pid(switch.next_pid));
            all.push((time, format!("{time} {prev} {state} {next}")));
        }
    }
    all.sort_by_key(|(time, _)| *time);
    // Each switch is from the thread that the one before was to.
    let words = |line: &String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for two in all.windows(2) {
        assert_eq!(words(&two[0].1)[3], words(&two[1].1)[1], "{all:?}");
    }
    all.into_iter().map(|(_, line)| line).collect()
}

fn sums(found: &Exported) -> (u64, u64) {
    (found.summary.unknown, found.summary.unknown_switches)
}

#[test]
fn hidden_thread_and_its_cpu_are_unknown_up_to_the_next_record_of_it() {
    let found = of_cpus(vec![Packets::new(0).packet(&[
        (0, 10, &switch(0, 0, 5)),
        (0, 20, &switch(5, 1, 70)),
        // The CPU is idle by now.
        (2, 30, &[I64(0)]),
        (0, 40, &switch(0, 0, 9)),
        (0, 50, &switch(9, 1, 0)),
    ])]);
    let wanted = ["10 0 0 5", "20 5 1 70", "20 70 ? ?", "30 ? 1 0", "40 0 0 9", "50 9 1 0"];
    assert_eq!(switches(&found, 0), wanted);
    assert_eq!((sums(&found), found.summary.kernel), ((1, 2), 4));
    // Whoever it was has a name.
    let name = || Some("unknown".to_owned());
    let process = TreeProcess {
        pid: Some(UNKNOWN_PROCESS),
        ppid: None,
        cmdline: name().into_iter().collect(),
    };
    let (tid, tgid) = (Some(unknown(0)), Some(UNKNOWN_PROCESS));
    let thread = TreeThread { tid, tgid, name: name() };
    assert_eq!(found.trees(), [ProcessTree { processes: vec![process], threads: vec![thread] }]);
}

#[test]
fn thread_that_had_the_cpu_of_a_hidden_one_has_wanted_it_only_as_far_as_that_is_known() {
    // 9 wants a CPU from then on.
    let woken = |time| {
        let other = Packets::new(1).packet(&[(0, 1, &switch(0, 0, 9)), (0, 3, &switch(9, 1, 0))]);
        let mut records: Vec<Record<'_>> = Vec::new();
        let (waking, record) = ([I64(5), I64(9)], [I64(9)]);
        let (first, given, back) = (switch(0, 0, 5), switch(5, 1, 70), switch(9, 1, 5));
        records.push((0, 2, &first));
        records.extend([(1, time, &waking[..])].into_iter().filter(|it| it.1 < 10));
        records.push((0, 10, &given));
        records.extend([(2, 20, &record[..]), (0, 40, &back[..])]);
        let third = Packets::new(2).packet(&[(1, time, &[I64(6), I64(9)])]);
        let streams = [other, Packets::new(0).packet(&records)];
        let found = of_cpus(streams.into_iter().chain((time > 10).then_some(third)).collect());
        assert_eq!(switches(&found, 1), ["1 0 0 9", "3 9 1 0"]);
        assert_eq!(sums(&found), (1, 4));
        switches(&found, 0)
    };
    let all = |since: u64| {
        let lines = [
            "2 0 0 5".to_owned(),
            "10 5 1 70".to_owned(),
            "10 70 ? ?".to_owned(),
            format!("{since} ? 1 9"),
            format!("{since} 9 ? ?"),
            "20 ? 1 9".to_owned(),
            "40 9 1 5".to_owned(),
        ];
        lines.to_vec()
    };
    // Before the hidden one has got the CPU: up to then it has not run.
    assert_eq!(woken(5), all(10));
    assert_eq!(woken(15), all(15));
}

#[test]
fn thread_known_to_be_hidden_is_unknown_at_the_end_and_from_its_begin_where_records_are_discarded()
{
    let hides = |more: &[Record<'_>]| {
        let mut records: Vec<Record<'_>> = Vec::new();
        let (first, given, back) = (switch(0, 0, 5), switch(5, 1, 70), switch(9, 1, 5));
        records.extend([(0, 10, &first[..]), (0, 20, &given[..])]);
        records.extend([(0, 40, &back[..]), (0, 50, &given[..])]);
        records.extend(more);
        Packets::new(0).packet(&records)
    };
    let begin = ["10 0 0 5", "20 5 1 70", "20 70 ? ?", "40 ? 1 9", "40 9 1 5", "50 5 1 70"];
    let at_end = of_cpus(vec![hides(&[])]);
    assert_eq!(switches(&at_end, 0), [&begin[..], &["50 70 ? ?"]].concat());
    assert_eq!(sums(&at_end), (2, 3));
    // One that makes records is none.
    let seen = of_cpus(vec![hides(&[(2, 60, &[I64(70)])])]);
    assert_eq!(switches(&seen, 0), begin);
    assert_eq!(sums(&seen), (1, 2));
    let at_gap = of_cpus(vec![hides(&[]).discards(1).packet(&[(0, 90, &switch(9, 1, 5))])]);
    let wanted = [&begin[..], &["50 70 ? ?", "90 ? 1 9", "90 9 1 5"]].concat();
    assert_eq!(switches(&at_gap, 0), wanted);
    assert_eq!(sums(&at_gap), (2, 4));
}

#[test]
fn cpu_is_unknown_from_where_records_are_discarded_up_to_who_has_it_next() {
    let found = of_cpus(vec![
        Packets::new(0)
            .packet(&[(0, 10, &switch(0, 0, 5)), (2, 20, &[I64(5)])])
            .discards(3)
            .packet(&[(2, 30, &[I64(5)]), (0, 40, &switch(5, 1, 6))])
            .discards(1)
            .packet(&[(0, 60, &switch(7, 1, 0)), (0, 70, &switch(0, 0, 5))]),
        Packets::new(1).packet(&[(0, 15, &switch(0, 0, 8)), (0, 80, &switch(8, 1, 0))]),
    ]);
    let wanted = [
        "10 0 0 5", "20 5 ? ?", "30 ? 1 5", "40 5 1 6", "40 6 ? ?", "60 ? 1 7", "60 7 1 0",
        "70 0 0 5",
    ];
    assert_eq!(switches(&found, 0), wanted);
    assert_eq!(sums(&found), (2, 4));
    assert_eq!(switches(&found, 1), ["15 0 0 8", "80 8 1 0"]);
    // What is said of the loss stands between what is before and behind it.
    let of_cpu = found.ftrace().into_iter().filter(|(cpu, ..)| *cpu == 0);
    let cuts: Vec<(bool, usize)> = of_cpu.map(|(_, cut, events)| (cut, events.len())).collect();
    assert_eq!(cuts, [(false, 2), (true, 3), (true, 3)]);
    // Nobody is found there any more.
    let never = of_cpus(vec![Packets::new(0)
        .packet(&[(0, 10, &switch(0, 0, 5))])
        .discards(3)
        .packet(&[(2, 30, &[I64(-1)])])]);
    assert_eq!(switches(&never, 0), ["10 0 0 5", "10 5 ? ?"]);
    assert_eq!(sums(&never), (1, 1));
}

#[test]
fn switches_that_follow_from_each_other_are_all_there_is_whatever_other_records_say() {
    let found = of_cpus(vec![Packets::new(0).packet(&[
        (0, 10, &switch(0, 0, 5)),
        // A program's record with the CPU that it had a moment before.
        (2, 15, &[I64(9)]),
        (0, 20, &switch(5, 1, i64::MAX)),
        (0, 30, &switch(i64::MAX, 1, 6)),
    ])]);
    let wanted = ["10 0 0 5", "20 5 1 0", "30 0 1 6"];
    assert_eq!(switches(&found, 0), wanted);
    assert_eq!(sums(&found), (0, 0));
}

#[test]
fn switch_from_another_thread_is_behind_all_that_was_exported_since_and_in_order() {
    let found = of_cpus(vec![Packets::new(0).packet(&[
        (0, 10, &switch(0, 0, 5)),
        (0, 20, &switch(5, 1, 6)),
        (1, 30, &[I64(6), I64(9)]),
        (0, 40, &switch(7, 1, 0)),
    ])]);
    let wanted = ["10 0 0 5", "20 5 1 6", "20 6 ? ?", "40 ? 1 7", "40 7 1 0"];
    assert_eq!(switches(&found, 0), wanted);
    let bundles: Vec<usize> = found.ftrace().iter().map(|(_, _, events)| events.len()).collect();
    assert_eq!((bundles.len(), bundles[0], found.summary.unknown), (2, 3, 1));
}

#[test]
fn where_switches_are_left_out_by_a_filter_nothing_is_put_between() {
    let hand = Hand::new();
    let stream = Packets::new(0).packet(&[
        (0, 10, &switch(0, 0, 5)),
        (0, 20, &switch(5, 1, 6)),
        (0, 30, &switch(6, 1, 70)),
        (0, 40, &switch(9, 1, 5)),
    ]);
    let text = metadata("domain = \"kernel\";", "i64 tid;", &EVENTS);
    let reader = hand.trace("k", &text, &[stream]).reader();
    let run = |skipped: &[i64]| {
        let mut exporter = Exporter::new(Vec::new(), &reader, Options::default()).unwrap();
        let mut events = reader.events(TimeRange::ALL);
        while let Some(message) = events.next() {
            let Message::Event(event) = message else { continue };
            let time = event.time().unwrap() - crate::hand_tests::ORIGIN;
            match skipped.contains(&time) {
                true => exporter.skip(&event).unwrap(),
                false => exporter.event(&event).unwrap(),
            }
        }
        let (bytes, summary) = exporter.finish().unwrap();
        let found = Exported { packets: packets_of(&bytes), summary };
        (found.ftrace().iter().map(|(_, _, events)| events.len()).sum::<usize>(), sums(&found))
    };
    // From 30 to 40 nobody knows who has the CPU, if the switch of 30 is exported.
    assert_eq!(run(&[]), (6, (1, 2)));
    assert_eq!(run(&[30]), (3, (0, 0)));
    assert_eq!(run(&[20, 40]), (4, (1, 2)));
    assert_eq!(run(&[10, 20, 30, 40]), (0, (0, 0)));
}

#[test]
fn malicious_thread_with_the_number_of_one_that_is_not_known_is_nobody() {
    let number = i64::from(unknown(0));
    let hand = Hand::new();
    let stream = Packets::new(0)
        .packet(&[(0, 10, &switch(0, 0, number)), (2, 20, &[I64(5)]), (0, 30, &switch(5, 1, 6))])
        .discards(1)
        .packet(&[
            (2, 40, &[I64(number)]),
            (2, 50, &[I64(number)]),
            (0, 60, &switch(number, 1, 7)),
        ]);
    let text = metadata("domain = \"kernel\";", "i64 tid;", &EVENTS);
    let found = exported(hand.trace("k", &text, &[stream]), &Options::default());
    assert_eq!((sums(&found), found.summary.kernel), ((1, 2), 3));
}

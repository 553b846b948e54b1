//! Tests of threads that the kernel hides: there are switches to them, and none from them.

use super::*;
use crate::world::hidden_threads::{Hidden, HiddenThread, Switches, Unfollowed};

/// Gives the CPU of 5 to thread 70, which makes no record, at `given`. Thread 9 has the CPU at `found`.
fn hide(machine: &mut Machine, given: i64, found: i64) {
    machine.switch(given, 0, 5, S, 70).tell(found, 0, 9, Fact::SoftirqRaise(1));
    machine.switch(found + 5, 0, 9, 0, 5);
}

fn machine(switches: Switches) -> Machine {
    let mut machine = Machine::new();
    machine.engine.world.hidden = Hidden::of(&[switches]);
    machine.switch(1, 0, 0, 0, 5);
    machine
}

/// Returns each hidden thread's number, count and time, and true if it is certain.
fn hidden(machine: &Machine) -> Vec<(i32, u64, u64, bool)> {
    let world = &machine.engine.world;
    let all = world.hidden().into_iter();
    all.map(|HiddenThread { thread, count, nanos, is_sure }| {
        (tid(world, thread), count, nanos, is_sure)
    })
    .collect()
}

#[test]
fn thread_that_gets_a_cpu_and_has_no_record_is_counted_and_what_it_and_the_cpu_did_is_unknown() {
    let mut machine = machine(Switches::All);
    machine.enter(2, 1, 9, "read", Object::None).switch(3, 1, 9, S, 0).waking(5, 0, 5, 9);
    machine.switch(10, 0, 5, S, 70);
    // An interrupt of the CPU that is idle by now.
    machine.tell(20, 0, 0, Fact::InterruptEnter(36, RecordText::None));
    machine.tell(22, 0, 0, Fact::InterruptLeave);
    machine.switch(40, 0, 9, 0, 5);
    assert_eq!(hidden(&machine), [(70, 1, 10, true)]);
    let told = machine.finish();
    assert_eq!(told.of(70), ["unknown 1..10", "unknown 10..20", "unknown 20..40"]);
    assert_eq!(told.of(0), ["Device(36) on 0 20..22"]);
    // It wanted the CPU until the other one got it; since when it had it itself, nobody knows.
    let of_9 = ["running on 1 2..3", "blocked read by 5? 3..5", "runnable 5..10", "unknown 10..40"];
    assert_eq!(told.of(9)[1..5], of_9, "{:?}", told.of(9));
    let of_cpu = told.runs.iter().filter(|run| run.cpu == 0 && run.from >= 10);
    let of_cpu: Vec<_> =
        of_cpu.map(|run| (run.thread.map(|it| it.index()), run.from, run.to)).collect();
    assert_eq!(of_cpu[..2], [(None, 10, 20), (None, 20, 40)]);
}

#[test]
fn thread_that_is_known_to_be_hidden_has_no_cpu_for_sure_at_the_end_and_where_records_are_discarded(
) {
    let mut at_end = machine(Switches::All);
    hide(&mut at_end, 10, 20);
    at_end.switch(50, 0, 5, S, 70).tell(60, 1, 8, Fact::Fault);
    at_end.finish();
    assert_eq!(hidden(&at_end), [(70, 2, 20, true)]);
    assert!(at_end
        .told
        .runs
        .iter()
        .all(|run| run.from < 50 || run.thread.is_none() || run.cpu > 0));
    assert!(!at_end.told.of(70).iter().any(|line| line.starts_with("running")));

    let mut at_gap = machine(Switches::All);
    hide(&mut at_gap, 10, 20);
    at_gap.switch(50, 0, 5, S, 70);
    at_gap.engine.gap(0, Some(0), 55);
    at_gap.switch(80, 0, 9, S, 5).switch(90, 0, 5, S, 9);
    assert_eq!(hidden(&at_gap), [(70, 2, 15, true)]);
    at_gap.finish();
    assert!(!at_gap.told.of(70).iter().any(|line| line.starts_with("running")));
    let run = at_gap.told.runs.iter().find(|run| run.from == 50).unwrap();
    assert_eq!((run.thread, run.to), (None, 55));

    // Of one that has the CPU for the first time, that is what was recorded last.
    let mut first = machine(Switches::All);
    first.switch(50, 0, 5, S, 70).tell(60, 1, 8, Fact::Fault);
    first.finish();
    assert_eq!(hidden(&first), []);
    assert_eq!(first.told.of(70).last(), Some(&"running on 0 50..60"));
}

#[test]
fn thread_that_is_seen_or_may_have_been_left_out_is_not_hidden() {
    let calls = |switches, after: &dyn Fn(&mut Machine)| {
        let mut machine = machine(switches);
        hide(&mut machine, 10, 20);
        hide(&mut machine, 30, 40);
        machine.switch(50, 0, 5, 0, 9).switch(51, 0, 9, 0, 5).switch(52, 0, 5, 0, 9);
        machine.switch(53, 0, 9, 0, 5);
        after(&mut machine);
        hidden(&machine)
    };
    let nothing = |_: &mut Machine| {};
    assert_eq!(calls(Switches::All, &nothing), [(70, 2, 20, true)]);
    // A filter explains it, or may.
    assert_eq!(calls(Switches::Some, &nothing), []);
    assert_eq!(calls(Switches::NotSaid, &nothing), [(70, 2, 20, false)]);
    for switches in [Switches::All, Switches::NotSaid] {
        // It leaves a CPU, makes a call, or any other record.
        assert_eq!(calls(switches, &|it| _ = it.switch(60, 1, 70, S, 0)), []);
        assert_eq!(calls(switches, &|it| _ = it.enter(60, 1, 70, "read", Object::None)), []);
        assert_eq!(calls(switches, &|it| _ = it.tell(60, 1, 70, Fact::Made)), []);
        // That it is woken, or there, says nothing.
        assert_eq!(calls(switches, &|it| _ = it.waking(60, 0, 5, 70)).len(), 1);
    }
    // Where nobody says that all are recorded: neither are those of idle CPUs.
    let idle = |machine: &mut Machine| _ = machine.switch(60, 0, 5, 0, 0).switch(70, 0, 5, 0, 9);
    assert_eq!(calls(Switches::NotSaid, &idle), []);
    assert_eq!(calls(Switches::All, &idle).len(), 1);
    // And if a switch from one that is seen elsewhere is absent.
    let other = |machine: &mut Machine| _ = machine.switch(60, 0, 5, 0, 9).switch(70, 0, 5, 0, 9);
    assert_eq!(calls(Switches::NotSaid, &other), []);
    assert_eq!(calls(Switches::All, &other).len(), 1);
    // Once is not enough, and neither are more that are not followed than are.
    let mut once = machine(Switches::NotSaid);
    hide(&mut once, 10, 20);
    once.switch(50, 0, 5, 0, 9).switch(51, 0, 9, 0, 5);
    assert_eq!(hidden(&once), []);
    let mut few = machine(Switches::NotSaid);
    (1..9).for_each(|at| _ = few.switch(at * 10, 0, 5, S, 70));
    assert_eq!(hidden(&few), []);
}

#[test]
fn switches_with_discarded_records_another_trace_or_another_cpu_between_hide_nobody() {
    let mut machine = machine(Switches::All);
    machine.switch(10, 0, 5, S, 70);
    machine.engine.gap(0, Some(0), 15);
    machine.switch(20, 0, 9, S, 5).switch(30, 0, 5, S, 71);
    machine.engine.gap(0, None, 35);
    machine.switch(40, 0, 9, S, 5);
    // On the other one it is given something else.
    machine.switch(50, 0, 5, S, 72).switch(60, 1, 9, S, 8).switch(70, 1, 8, S, 9);
    assert_eq!(hidden(&machine), []);
    // Two parts of a recording, of which the one between is not there.
    let fact = |prev, next| Fact::Switch {
        prev,
        prev_state: Some(S),
        next,
        prev_name: RecordText::None,
        next_name: RecordText::None,
    };
    for (trace, wanted) in [(1, 0), (0, 1)] {
        let mut machine = self::machine(Switches::All);
        machine.switch(10, 0, 5, S, 70);
        let home = Home { trace, pid: None };
        let (cpu, tid) = (Some(0), Some(9));
        let spot =
            Spot { time: 20, machine: 0, cpu, tid, pid: None, own_tid: tid, home, selected: true };
        machine.engine.apply(&spot, fact(9, 5), &mut machine.told);
        assert_eq!(hidden(&machine).len(), wanted);
        assert!(machine.finish().of(70).iter().all(|line| line.starts_with("unknown")));
    }
}

#[test]
fn hidden_threads_are_counted_in_the_time_that_is_asked_for_the_longest_first() {
    let mut machine = machine(Switches::All);
    machine.engine.world.hidden.count_from(15);
    machine.switch(10, 0, 5, S, 69).switch(14, 0, 9, S, 5);
    hide(&mut machine, 14, 20);
    hide(&mut machine, 30, 40);
    machine.switch(50, 0, 5, S, 71).switch(90, 0, 9, S, 5);
    assert_eq!(hidden(&machine), [(71, 1, 40, true), (70, 2, 15, true)]);
}

#[test]
fn switch_that_does_not_follow_is_reported_with_who_was_found_there_and_since_when_that_is_not_known(
) {
    let told = |tell: &dyn Fn(&mut Machine)| {
        let mut machine = machine(Switches::NotSaid);
        tell(&mut machine);
        let of = |id| tid(&machine.engine.world, id);
        let found = |it: &Unfollowed| {
            let next = it.next.map(|next| (of(next.thread), next.since, next.time));
            (it.cpu, of(it.thread), it.from, next)
        };
        machine.told.unfollowed.iter().map(found).collect::<Vec<_>>()
    };
    // Nobody looks at 9 up to 20; it was woken at 5, or at 15.
    let hides = |woken: i64| {
        told(&|machine| {
            machine.switch(2, 1, 0, 0, 9).switch(3, 1, 9, S, 0).switch(10, 0, 5, S, 70);
            machine.waking(woken, 2, 6, 9);
            machine.tell(20, 0, 9, Fact::Made).switch(40, 0, 9, S, 5);
        })
    };
    assert_eq!(hides(5), [(0, 70, 10, Some((9, 10, 20)))]);
    assert_eq!(hides(15), [(0, 70, 10, Some((9, 15, 20)))]);
    // What is not known of somebody at all is so up to the first record.
    let new = told(&|machine| _ = machine.switch(10, 0, 5, S, 70).switch(40, 0, 9, S, 5));
    assert_eq!(new, [(0, 70, 10, Some((9, 40, 40)))]);
    // Another one was found there before.
    let other = told(&|machine| {
        machine.switch(10, 0, 5, S, 70).tell(20, 0, 8, Fact::Made).switch(40, 0, 9, S, 5);
    });
    assert_eq!(other, [(0, 70, 10, Some((9, 40, 40)))]);
    // Idle CPUs; numbers that no thread has.
    let idle = told(&|machine| _ = machine.switch(10, 0, 5, S, 0).switch(40, 0, 9, S, 5));
    assert_eq!(idle, [(0, 0, 10, Some((9, 40, 40)))]);
    let none = told(&|machine| _ = machine.switch(10, 0, 5, S, 70).switch(40, 0, -1, S, 5));
    assert_eq!(none, [(0, 70, 10, None)]);
    // It follows, whatever another record says between; or records were discarded.
    let follows = told(&|machine| {
        machine.switch(10, 0, 5, S, 70).tell(20, 0, 8, Fact::Made).switch(40, 0, 70, S, 5);
    });
    assert_eq!(follows, []);
    let behind = told(&|machine| {
        machine.switch(10, 0, 5, S, 70).engine.gap(0, Some(0), 15);
        machine.switch(40, 0, 9, S, 5);
    });
    assert_eq!(behind, []);
}

//! Tests of threads that were asleep when recording began.

use super::*;
use crate::world::state::{Reason, Sleep};

/// Returns what a state dump says of a thread that sleeps in a call, about an address.
fn asleep(machine: &mut Machine, tid: i64, call: &str) -> Fact<'static> {
    let call = machine.engine.world.calls.of(call);
    let (sleep, object) = (Sleep::Interruptible, Object::Address(16));
    let asleep = Some(Reason { sleep, call, object, is_older: true });
    Fact::There { tid, process: tid, parent: None, name: RecordText::Is("old"), asleep }
}

fn dump(machine: &mut Machine, time: i64, tid: i64, call: &str) {
    let there = asleep(machine, tid, call);
    machine.tell(time, 7, 1, there);
}

#[test]
fn thread_that_a_dump_finds_asleep_was_so_from_the_first_record_on() {
    let mut machine = Machine::new();
    machine.enter(10, 0, 9, "write", Object::None);
    dump(&mut machine, 50, 5, "read");
    dump(&mut machine, 50, 6, "poll");
    machine.waking(100, 0, 9, 5).switch(120, 1, 0, 0, 5).leave(130, 1, 5, "read", 1);
    machine.leave(200, 0, 9, "write", 1);
    let told = machine.finish();
    let older = |interval: &Interval| matches!(interval.state, State::Blocked(it) if it.is_older);
    let wanted = ["blocked read Address(16) by 9 10..100", "runnable 100..120", "NoBegin read 130"];
    assert_eq!(told.of(5)[..3], wanted);
    assert_eq!(told.of(6), ["blocked poll Address(16) by Unknown 10..200"]);
    assert_eq!(told.intervals.iter().filter(|(_, interval)| older(interval)).count(), 2);
}

#[test]
fn sleep_from_before_is_ended_by_its_timer_as_its_call_says() {
    for (result, is_over) in [(0, true), (-516, false)] {
        let mut machine = Machine::new();
        machine.enter(10, 0, 9, "write", Object::None);
        dump(&mut machine, 50, 5, "clock_nanosleep");
        machine.waking(100, 0, 9, 5).switch(120, 1, 0, 0, 5);
        let told = machine.leave(130, 1, 5, "clock_nanosleep", result).finish();
        assert_eq!(told.of(5).contains(&"timed out 10..100"), is_over, "{result}");
    }
}

#[test]
fn dump_says_nothing_of_a_thread_that_has_done_something_before_it() {
    let of = |before: &dyn Fn(&mut Machine)| {
        let mut machine = Machine::new();
        machine.enter(10, 0, 9, "write", Object::None);
        before(&mut machine);
        dump(&mut machine, 50, 5, "read");
        machine.leave(200, 0, 9, "write", 1);
        machine.finish().of(5).iter().any(|line| line.starts_with("blocked read Address(16)"))
    };
    assert!(of(&|_| {}));
    assert!(!of(&|machine| _ = machine.waking(20, 0, 9, 5)));
    assert!(!of(&|machine| _ = machine.switch(20, 1, 5, S, 0)));
    assert!(!of(&|machine| _ = machine.enter(20, 1, 5, "write", Object::None)));
    assert!(!of(&|machine| _ = machine.fork(20, 9, 5, 5)));
    // Records were discarded: it may have done anything.
    assert!(!of(&|machine| machine.engine.gap(0, Some(1), 30)));
    assert!(!of(&|machine| {
        machine.waking(20, 0, 9, 5);
        machine.engine.gap(0, None, 30);
    }));
}

#[test]
fn dump_that_records_contradict_is_not_believed() {
    let mut machine = Machine::new();
    machine.enter(10, 0, 9, "write", Object::None);
    dump(&mut machine, 50, 5, "read");
    // It has read the thread's state later than its time says.
    machine.switch(60, 1, 5, S, 0).leave(200, 0, 9, "write", 1);
    let told = machine.finish();
    assert_eq!(told.of(5), ["unknown 10..60", "blocked - by Unknown 60..200"]);
}

#[test]
fn thread_that_is_woken_first_was_asleep_before() {
    let mut machine = Machine::new();
    machine.enter(10, 0, 9, "write", Object::None).waking(100, 0, 9, 5);
    machine.switch(120, 1, 0, 0, 5).leave(200, 0, 9, "write", 1);
    let wanted = ["blocked - by 9 10..100", "runnable 100..120", "running on 1 120..200"];
    assert_eq!(machine.finish().of(5), wanted);
}

#[test]
fn thread_that_is_woken_first_may_have_run_where_records_were_discarded() {
    let mut machine = Machine::new();
    machine.enter(10, 0, 9, "write", Object::None);
    machine.engine.gap(0, Some(1), 30);
    machine.waking(100, 0, 9, 5).switch(120, 1, 0, 0, 5).leave(200, 0, 9, "write", 1);
    let wanted = ["unknown 10..100", "runnable 100..120", "running on 1 120..200"];
    assert_eq!(machine.finish().of(5), wanted);
}

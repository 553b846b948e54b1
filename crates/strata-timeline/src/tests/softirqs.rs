//! Tests of the wakers of waits that end in a softirq of the network. The orders of records are those of Linux 6.18
//! over 127.0.0.1.

use super::*;

/// Returns a machine whose thread 5 waits in read() on CPU 1. Thread 9 and others run on CPU 0.
fn receiver() -> Machine {
    let mut machine = Machine::new();
    machine.named(14, "ksoftirqd/0");
    machine.enter(1, 1, 5, "read", Object::None).switch(10, 1, 5, S, 0);
    machine
}

impl Machine {
    /// Adds a thread of the kernel's own.
    fn named(&mut self, tid: i64, name: &'static str) -> &mut Machine {
        let there = |tid, name| Fact::There {
            tid,
            process: tid,
            parent: Some(2),
            name: RecordText::Is(name),
            asleep: None,
        };
        self.tell(1, 7, 1, there(2, "kthreadd")).tell(1, 7, 1, there(tid, name))
    }

    fn softirq(&mut self, time: i64, by: i64, number: i64) -> &mut Machine {
        self.tell(time, 0, by, Fact::SoftirqEnter(number))
    }

    fn softirq_ends(&mut self, time: i64, by: i64) -> &mut Machine {
        self.tell(time, 0, by, Fact::SoftirqLeave)
    }

    fn raise(&mut self, time: i64, by: i64, number: i64) -> &mut Machine {
        self.tell(time, 0, by, Fact::SoftirqRaise(number))
    }

    /// Returns the waker that has ended the wait of thread 5.
    fn ended_by(&mut self) -> String {
        let told = self.finish();
        let waits: Vec<&str> =
            told.of(5).into_iter().filter(|line| line.starts_with("blocked")).collect();
        assert!(!waits.is_empty());
        let by = waits[0].split(" by ").nth(1).unwrap();
        by.rsplit_once(' ').unwrap().0.to_owned()
    }

    fn socket(&mut self, name: &str) -> Object {
        // Either end is one.
        let kind = match name.starts_with("tcp") {
            true => crate::ids::names::NameKind::Connected,
            false => crate::ids::names::NameKind::Socket,
        };
        Object::File(self.engine.world.names.of_kind(kind, name.as_bytes()))
    }
}

#[test]
fn who_sends_to_the_same_machine_has_woken_who_receives() {
    let of = |call: &str, object: Option<&str>, device: Option<i64>| {
        let mut machine = receiver();
        let object = object.map_or(Object::Descriptor(4), |name| match name {
            "/a/file" => Object::File(machine.engine.world.names.of(name.as_bytes())),
            name => machine.socket(name),
        });
        machine.enter(100_000, 0, 9, call, object);
        if let Some(before) = device {
            machine.tell(200_000 - before - 10, 0, 9, Fact::InterruptEnter(3, RecordText::None));
            machine.tell(200_000 - before, 0, 9, Fact::InterruptLeave);
        }
        machine.softirq(200_000, 9, 3).waking(200_100, 0, 9, 5).softirq_ends(200_200, 9);
        machine.ended_by()
    };
    let local = Some("tcp 127.0.0.1:80");
    assert_eq!(of("write", local, None), "9");
    for (call, object) in
        [("sendto", None), ("connect", None), ("close", None), ("read", Some("udp 10.0.0.1:53"))]
    {
        assert_eq!(of(call, object, None), "9?", "{call}");
    }
    // The softirq right behind a device's interrupt is that device's.
    assert_eq!(of("write", local, Some(2_000)), "Softirq(3)");
    assert_eq!(of("write", local, Some(20_000)), "9?");
    for (call, object) in
        [("futex", None), ("write", Some("/a/file")), ("write", Some("unix @bus")), ("poll", None)]
    {
        assert_eq!(of(call, object, None), "Softirq(3)", "{call} {object:?}");
    }
}

#[test]
fn who_raised_a_softirq_has_woken_whom_it_wakes_wherever_it_is_done() {
    let begun = || {
        let mut machine = receiver();
        let socket = machine.socket("tcp 127.0.0.1:80");
        machine.enter(100_000, 0, 9, "write", socket);
        machine
    };
    let done = |machine: &mut Machine, by| {
        machine.softirq(300_000, by, 3).waking(300_100, 0, by, 5).softirq_ends(300_200, by);
        machine.ended_by()
    };
    let mut machine = begun();
    machine.raise(150_000, 9, 3).leave(160_000, 0, 9, "write", 1).switch(170_000, 0, 9, 0, 14);
    assert_eq!(done(&mut machine, 14), "9");
    // An interrupt comes while nothing runs, and does it.
    let mut machine = begun();
    machine.raise(150_000, 9, 3).switch(170_000, 0, 9, S, 0);
    assert_eq!(done(&mut machine, 0), "9");
    // When another thread sends as well, the queue holds packets of both.
    for (call, ended_by) in [("sendmsg", "Softirq(3)"), ("futex", "9")] {
        let mut machine = begun();
        machine.raise(150_000, 9, 3).switch(170_000, 0, 9, S, 8);
        machine.enter(180_000, 0, 8, call, Object::None);
        assert_eq!(done(&mut machine, 8), ended_by);
        let mut machine = begun();
        machine.raise(150_000, 9, 3).switch(170_000, 0, 9, S, 8);
        machine.enter(180_000, 0, 8, call, Object::None).leave(190_000, 0, 8, call, 0);
        machine.switch(200_000, 0, 8, S, 14);
        assert_eq!(done(&mut machine, 14), ended_by);
    }
    // A device has raised it while 9 is in its call.
    let mut machine = begun();
    machine.tell(110_000, 0, 9, Fact::InterruptEnter(3, RecordText::None));
    machine.raise(111_000, 9, 3).tell(112_000, 0, 9, Fact::InterruptLeave);
    assert_eq!(done(&mut machine, 9), "Softirq(3)");
    // TCP sends from a timer.
    let mut machine = begun();
    machine.softirq(298_000, 9, 8).raise(299_000, 9, 3).softirq_ends(299_500, 9);
    assert_eq!(done(&mut machine, 9), "Timer");
    // What NET_RX raises has the cause of that NET_RX.
    let mut machine = begun();
    machine.raise(110_000, 9, 3).softirq(111_000, 9, 3).raise(112_000, 9, 3);
    machine.softirq_ends(113_000, 9).switch(170_000, 0, 9, 0, 14);
    assert_eq!(done(&mut machine, 14), "9");
    // A futex call sends nothing, so an interrupt without a record has raised the softirq.
    let mut machine = receiver();
    machine.enter(100_000, 0, 9, "futex", Object::None).raise(150_000, 9, 3);
    assert_eq!(done(&mut machine, 9), "Softirq(3)");
}

#[test]
fn softirqs_left_to_their_thread_are_for_who_has_woken_it() {
    let begun = || {
        let mut machine = receiver();
        let socket = machine.socket("tcp 127.0.0.1:80");
        machine.switch(20, 0, 14, S, 9).enter(100_000, 0, 9, "write", socket);
        // This is the tenth round of the call, behind which the kernel gives up.
        machine.softirq(150_000, 9, 3).softirq_ends(151_000, 9).waking(151_500, 0, 9, 14);
        machine
    };
    let mut machine = begun();
    machine.switch(160_000, 0, 9, S, 14).softirq(170_000, 14, 3).softirq_ends(171_000, 14);
    machine.softirq(190_000, 14, 3).waking(190_100, 0, 14, 5);
    assert_eq!(machine.ended_by(), "9");
    // The thread has slept in the meantime, and is woken for something else.
    let mut machine = begun();
    machine.switch(160_000, 0, 9, S, 14).switch(170_000, 0, 14, S, 8);
    machine.waking(180_000, 0, 8, 14).switch(185_000, 0, 8, S, 14);
    machine.softirq(190_000, 14, 3).waking(190_100, 0, 14, 5);
    assert_eq!(machine.ended_by(), "Softirq(3)");
    // The first softirq on that CPU does what is left. The next one is its own thread's again.
    let mut machine = begun();
    machine.switch(160_000, 0, 9, 0, 8).enter(165_000, 0, 8, "sendto", Object::None);
    machine.softirq(170_000, 8, 3).waking(170_100, 0, 8, 5);
    assert_eq!(machine.ended_by(), "Softirq(3)");
    let mut machine = begun();
    machine.switch(160_000, 0, 9, 0, 8).softirq(170_000, 8, 3).softirq_ends(170_100, 8);
    machine.enter(180_000, 0, 8, "sendto", Object::None);
    machine.softirq(190_000, 8, 3).waking(190_100, 0, 8, 5);
    assert_eq!(machine.ended_by(), "8?");
    // It was woken for something that nobody has sent.
    let mut machine = receiver();
    machine.switch(20, 0, 14, S, 8).softirq(150_000, 8, 9).softirq_ends(151_000, 8);
    let socket = machine.socket("tcp 127.0.0.1:80");
    machine.waking(151_500, 0, 8, 14).switch(155_000, 0, 8, 0, 9);
    machine.enter(160_000, 0, 9, "write", socket).softirq(170_000, 9, 3).waking(170_100, 0, 9, 5);
    assert_eq!(machine.ended_by(), "9?");
    // A round that a timer has begun is the timer's.
    let mut machine = receiver();
    machine.switch(20, 0, 14, S, 9).enter(100_000, 0, 9, "read", Object::None);
    machine.softirq(150_000, 9, 8).softirq_ends(151_000, 9).softirq(151_200, 9, 3);
    machine.softirq_ends(151_300, 9).waking(151_500, 0, 9, 14).switch(160_000, 0, 9, S, 14);
    machine.softirq(170_000, 14, 3).waking(170_100, 0, 14, 5);
    assert_eq!(machine.ended_by(), "Timer");
}

#[test]
fn timer_that_is_recorded_has_woken_whom_it_wakes() {
    let of = |with: &[Fact<'_>]| {
        let mut machine = receiver();
        machine.enter(100, 0, 9, "write", Object::None);
        for fact in with {
            machine.tell(200, 0, 9, *fact);
        }
        machine.waking(300, 0, 9, 5);
        machine.ended_by()
    };
    let (begins, ends) = (Fact::Timer { begins: true }, Fact::Timer { begins: false });
    assert_eq!(of(&[]), "9");
    assert_eq!(of(&[begins]), "Timer");
    assert_eq!(of(&[begins, begins, ends]), "Timer");
    assert_eq!(of(&[begins, begins, ends, ends]), "9");
    assert_eq!(of(&[ends, begins]), "Timer");
    assert_eq!(of(&[Fact::SoftirqEnter(3), begins]), "Timer");
    let device = Fact::InterruptEnter(3, RecordText::None);
    assert_eq!(of(&[begins, device]), "Device(3)");
    assert_eq!(of(&[begins, device, Fact::InterruptLeave]), "Timer");
}

#[test]
fn sockets_that_a_dead_thread_closes_are_its_doing_and_nobody_wakes_himself() {
    let mut machine = receiver();
    machine.enter(100_000, 0, 9, "exit_group", Object::None);
    machine.softirq(200_000, 9, 3).waking(200_100, 0, 9, 5);
    assert_eq!(machine.ended_by(), "9?");
    // Thread 5 has gone to sleep, and what it has sent itself is answered.
    let mut machine = Machine::new();
    machine.enter(1, 0, 5, "connect", Object::None).raise(5_000, 5, 3).switch(10_000, 0, 5, S, 0);
    machine.softirq(20_000, 0, 3).waking(20_100, 0, 0, 5);
    assert_eq!(machine.ended_by(), "Softirq(3)");
}

//! Tests of states and calls: rare states of the scheduler, reused numbers, several machines, names.

use super::*;

fn blocked(told: &Told, tid: i32) -> Vec<&str> {
    told.of(tid).into_iter().filter(|line| line.starts_with("blocked")).collect()
}

#[test]
fn state_behind_a_switch_is_what_the_kernel_s_bits_say() {
    for (bits, wanted) in [
        (Some(0), "preempted 20..30"),
        // Preempted while it was on its way to sleep; a bit that only the scheduler knows.
        (Some(0x100), "preempted 20..30"),
        (Some(0x400), "preempted 20..30"),
        (Some(1), "blocked - by Unknown 20..30"),
        (Some(2), "blocked - by Unknown 20..30"),
        (Some(0x102), "blocked - by Unknown 20..30"),
        (Some(64), "blocked - by Unknown 20..30"),
        (Some(128), "blocked - by Unknown 20..30"),
        (Some(-1), "gone 20..30"),
        (None, "unknown 20..30"),
    ] {
        let mut machine = Machine::new();
        let (prev_name, next_name) = (RecordText::None, RecordText::None);
        let fact = Fact::Switch { prev: 5, prev_state: bits, next: 9, prev_name, next_name };
        machine.tell(10, 0, 5, Fact::Fault).enter(12, 0, 5, "read", Object::None);
        machine.leave(14, 0, 5, "read", 0).tell(20, 0, 5, fact).switch(30, 0, 9, 0, 5);
        let of = machine.finish().of(5).join("; ");
        // One that has ended, and runs again, is another one of its number.
        match bits {
            Some(-1) => assert!(!of.contains("20..30"), "{of}"),
            _ => assert!(of.contains(wanted), "{bits:?}: {of}"),
        }
    }
    // Dead and zombie.
    for bits in [16, 32] {
        let mut machine = Machine::new();
        machine.tell(10, 0, 5, Fact::Fault).switch(20, 0, 5, bits, 9).switch(30, 0, 9, 0, 0);
        assert_eq!(machine.finish().of(5), ["running on 0 10..20"]);
    }
}

#[test]
fn page_fault_goes_on_after_a_preemption_and_ends_with_its_wait() {
    let (runnable, deep) = (0x100, 2);
    let mut machine = Machine::new();
    machine.tell(10, 0, 5, Fact::Fault).switch(20, 0, 5, runnable, 9).switch(30, 0, 9, S, 5);
    machine.switch(40, 0, 5, deep, 9).switch(50, 0, 9, S, 5).switch(60, 0, 5, deep, 9);
    let threads = &machine.engine.world.threads;
    let has_faults = |tid| threads.get(threads.find(0, tid).unwrap()).unwrap().has_faults();
    assert_eq!((has_faults(5), has_faults(9)), (true, false));
    let told = machine.switch(70, 0, 9, S, 5).finish();
    let waits: Vec<_> = told.of(5).into_iter().filter(|line| line.starts_with("blocked")).collect();
    assert!(waits[0].contains("Fault") && waits[0].ends_with("40..50"), "{waits:?}");
    assert!(!waits[1].contains("Fault") && waits[1].ends_with("60..70"), "{waits:?}");
}

#[test]
fn thread_that_is_reported_to_run_elsewhere_has_moved_and_what_was_between_is_unknown() {
    let mut machine = Machine::new();
    machine.tell(10, 0, 5, Fact::Fault).tell(50, 1, 5, Fact::Fault);
    // Another one on the first CPU, of which no switch was recorded.
    machine.tell(60, 0, 6, Fact::Fault).switch(80, 1, 5, S, 0);
    let told = machine.finish();
    let of = told.of(5);
    assert_eq!(of.last(), Some(&"running on 1 50..80"), "{of:?}");
    assert!(!of.iter().any(|line| line.contains("running on 0") && !line.ends_with("10..50")));
    assert_eq!(told.of(6)[1], "running on 0 60..80");
}

#[test]
fn thread_and_cpu_agree_on_how_long_a_thread_ran_that_moves_before_the_first_switch() {
    // The time that states and runs have of thread 5, by CPU.
    let sums = |told: &Told, id: ThreadId| {
        let (mut states, mut runs) = ([0; 2], [0; 2]);
        for (_, interval) in told.intervals.iter().filter(|(of, _)| *of == id) {
            if let State::Running { cpu } = interval.state {
                states[cpu as usize] += interval.to - interval.from;
            }
        }
        for run in told.runs.iter().filter(|run| run.thread == Some(id)) {
            runs[run.cpu as usize] += run.to - run.from;
        }
        (states, runs)
    };
    // Switches are recorded later than what the thread does: it is on the first CPU, the second, the first again.
    let mut machine = Machine::new();
    machine.tell(10, 0, 5, Fact::Fault).tell(50, 1, 5, Fact::Fault).tell(70, 0, 5, Fact::Fault);
    machine.switch(80, 0, 5, S, 0).switch(90, 1, 6, S, 0).switch(95, 1, 0, 0, 5);
    let id = machine.engine.world.threads.find(0, 5).unwrap();
    assert_eq!(sums(machine.finish(), id), ([10, 0], [10, 0]));
    // It is given the second one by a switch, and nothing says how it left the first.
    let mut machine = Machine::new();
    machine.switch(10, 0, 0, 0, 5).switch(50, 1, 0, 0, 5).switch(60, 1, 5, S, 0);
    machine.switch(70, 0, 5, S, 0);
    let id = machine.engine.world.threads.find(0, 5).unwrap();
    assert_eq!(sums(machine.finish(), id), ([0, 10], [0, 10]));
}

#[test]
fn wakes_of_those_that_are_no_longer_blocked_change_nothing() {
    let mut machine = Machine::new();
    machine.enter(5, 1, 6, "write", Object::None).tell(10, 0, 5, Fact::Fault);
    machine.switch(20, 0, 5, 2, 0).waking(30, 1, 6, 5).wakeup(31, 1, 6, 5).waking(40, 1, 6, 5);
    machine.switch(50, 0, 0, 0, 5).switch(60, 0, 5, 16, 0).waking(70, 1, 6, 5);
    let told = machine.finish();
    let wanted = [
        "running on 0 10..20",
        "blocked - Fault by 6 20..30",
        "runnable 30..50",
        "running on 0 50..60",
    ];
    let of: Vec<_> = told.of(5).into_iter().filter(|line| !line.starts_with("unknown")).collect();
    assert_eq!(of, wanted);
    // One of which nothing was known was asleep, and is runnable from there on.
    let mut machine = Machine::new();
    machine.tell(10, 1, 6, Fact::Fault).waking(30, 1, 6, 5).switch(50, 0, 0, 0, 5);
    assert_eq!(machine.finish().of(5), ["blocked - by 6? 10..30", "runnable 30..50"]);
}

#[test]
fn number_of_a_thread_that_has_ended_is_another_thread_s() {
    let mut machine = Machine::new();
    machine.fork(10, 1, 5, 5).switch(20, 0, 1, 0, 5);
    machine.tell(30, 0, 5, Fact::Exit { tid: 5, name: RecordText::Is("old") });
    machine.switch(40, 0, 5, 16, 1).fork(50, 1, 5, 5).switch(60, 0, 1, 0, 5).switch(80, 0, 5, S, 0);
    let first = machine.engine.world.threads.find(0, 5).unwrap();
    let told = machine.finish();
    let of: std::collections::BTreeSet<ThreadId> = told.intervals.iter().map(|it| it.0).collect();
    let five: Vec<_> = of.into_iter().filter(|id| tid(&machine.engine.world, *id) == 5).collect();
    assert_eq!(five.len(), 2, "{:?}", machine.told.lines);
    let world = &machine.engine.world;
    assert_eq!((five[1], world.threads.get(first).unwrap().born), (first, Some(50)));
    assert_eq!(world.threads.get(five[0]).unwrap().born, Some(10));
    // It is runnable from its begin on.
    let lines = machine.told.of(5);
    assert!(lines.contains(&"runnable 10..20") && lines.contains(&"runnable 50..60"), "{lines:?}");
}

#[test]
fn thread_that_is_exiting_wakes_for_sure_and_its_last_call_has_no_end() {
    let mut machine = Machine::new();
    machine.enter(5, 0, 9, "wait4", Object::None).switch(10, 0, 9, S, 0);
    machine.enter(20, 1, 5, "read", Object::None).leave(21, 1, 5, "read", 0);
    // No call of it is open any more, and yet it is no interrupt that wakes.
    machine.enter(30, 1, 5, "exit_group", Object::None).waking(40, 1, 5, 9);
    let told = machine.finish();
    assert_eq!(blocked(told, 9), ["blocked wait4 by 5 10..40"]);
    let alone: Vec<_> = told.lines.iter().filter(|line| line.contains("NoEnd")).collect();
    assert_eq!(alone, ["9: NoEnd wait4 5"]);
}

#[test]
fn waker_whose_calls_are_not_recorded_is_not_sure_and_a_kernel_thread_is() {
    let mut machine = Machine::new();
    let there = |tid, parent| Fact::There {
        tid,
        process: tid,
        parent: Some(parent),
        name: RecordText::Is("kworker"),
        asleep: None,
    };
    machine.tell(1, 0, 1, there(30, 2)).tell(2, 0, 1, there(31, 1));
    for (by, wanted) in [
        (30, "blocked read by 30 20..40"),
        (31, "blocked read by 31? 20..40"),
        (2, "blocked read by 2 20..40"),
    ] {
        let mut machine = Machine::new();
        machine.tell(1, 0, 1, there(30, 2)).tell(2, 0, 1, there(31, 1));
        machine.enter(10, 0, 5, "read", Object::None).switch(20, 0, 5, S, by).waking(40, 0, by, 5);
        assert_eq!(blocked(machine.finish(), 5), [wanted]);
    }
    let world = &machine.engine.world;
    let kernel = world.threads.find(0, 30).unwrap();
    let parent = world.threads.get(kernel).unwrap().parent;
    assert_eq!(parent.map(|parent| tid(world, parent)), Some(2));
}

#[test]
fn interrupts_deeper_than_the_limit_are_not_reported_and_the_others_are() {
    let mut machine = Machine::new();
    machine.tell(1, 0, 5, Fact::Fault);
    for number in 0..12 {
        machine.tell(10 + number, 0, 5, Fact::InterruptEnter(number, RecordText::None));
    }
    for time in 0..14 {
        machine.tell(100 + time, 0, 5, Fact::InterruptLeave);
    }
    let told = machine.finish();
    let devices: Vec<_> =
        told.of(5).into_iter().filter(|line| line.starts_with("Device")).collect();
    assert_eq!(devices.len(), 8, "{devices:?}");
    assert_eq!((devices[0], devices[7]), ("Device(7) on 0 17..100", "Device(0) on 0 10..107"));
    // Numbers that no kernel has.
    let mut machine = Machine::new();
    machine.tell(10, 0, 5, Fact::InterruptEnter(i64::MAX, RecordText::Is("x")));
    machine.tell(20, 0, 5, Fact::InterruptLeave).tell(25, 0, 5, Fact::SoftirqRaise(i64::MIN));
    machine.tell(30, 0, 5, Fact::SoftirqEnter(-1)).tell(40, 0, 5, Fact::SoftirqLeave);
    let told = machine.finish();
    assert_eq!(told.of(5)[..2], ["Device(-1) on 0 10..20", "Softirq(255) on 0 30..40"]);
}

#[test]
fn cpus_with_numbers_that_no_machine_has_are_left_out() {
    let mut machine = Machine::new();
    for cpu in [u32::MAX, 1 << 13] {
        machine.switch(10, cpu, 5, S, 6).tell(
            20,
            cpu,
            7,
            Fact::InterruptEnter(1, RecordText::None),
        );
        machine.tell(30, cpu, 7, Fact::InterruptLeave);
    }
    machine.switch(40, (1 << 13) - 1, 5, S, 6);
    let told = machine.finish();
    assert!(told.runs.iter().all(|run| run.cpu < 1 << 13));
    assert!(!told.lines.iter().any(|line| line.contains("Device")), "{:?}", told.lines);
}

#[test]
fn threads_of_two_machines_with_one_number_are_two() {
    let mut engine = Engine::new(vec!["one".into(), "two".into()]);
    let mut told = Told::default();
    for (number, time) in [(0_u8, 10), (1, 20), (0, 30), (1, 50), (7, 60)] {
        engine.world.begin.get_or_insert(time);
        engine.world.now = time;
        let home = Home { trace: number.into(), pid: None };
        let (cpu, tid) = (Some(0), Some(5));
        let spot = Spot {
            time,
            machine: number,
            cpu,
            tid,
            pid: Some(5),
            own_tid: tid,
            home,
            selected: true,
        };
        let call = engine.world.calls.of("read").unwrap();
        let fact = match time {
            10 | 20 => Fact::Enter { call, elapsed: 0, object: Object::None, more: More::None },
            _ => Fact::Leave { call, result: Some(1), more: More::None },
        };
        engine.apply(&spot, fact, &mut told);
        assert_eq!(engine.world.told.machine, number);
    }
    let calls: Vec<_> = told.of(5).into_iter().filter(|line| line.starts_with("call")).collect();
    assert_eq!(calls, ["call read 10..30 = 1", "call read 20..50 = 1"]);
    assert_eq!(engine.world.threads.iter().count(), 2, "of a machine that is none there is nobody");
    let ids: Vec<_> = [0, 1, 7].map(|number| engine.world.threads.find(number, 5)).into();
    assert!(ids[0].is_some() && ids[1].is_some() && ids[0] != ids[1] && ids[2].is_none());
}

#[test]
fn names_are_those_that_were_reported_last_and_of_another_program_from_its_begin_on() {
    let name = |machine: &Machine| {
        let world = &machine.engine.world;
        world.thread_name(world.threads.find(0, 5).unwrap())
    };
    let switch = |machine: &mut Machine, time, prev: &'static str| {
        let (prev_name, next_name) = (RecordText::Is(prev), RecordText::Is("other"));
        let fact = Fact::Switch { prev: 5, prev_state: Some(0), next: 9, prev_name, next_name };
        machine.tell(time, 0, 5, fact);
    };
    let mut machine = Machine::new();
    machine.fork(10, 1, 5, 5);
    assert_eq!(name(&machine), "child");
    switch(&mut machine, 20, "first");
    assert_eq!(name(&machine), "first");
    // A wake says what was known before.
    machine.tell(25, 0, 9, Fact::Waking { tid: 5, name: RecordText::Is("stale") });
    assert_eq!(name(&machine), "first");
    // What gives it another name says nothing of which: the next record does.
    machine.tell(30, 0, 5, Fact::Exec { program: RecordText::None, old: None });
    machine.tell(31, 0, 9, Fact::Waking { tid: 5, name: RecordText::Is("program") });
    assert_eq!(name(&machine), "program");
    machine.enter(40, 0, 5, "prctl", Object::None).leave(41, 0, 5, "prctl", 0);
    switch(&mut machine, 50, "renamed");
    assert_eq!(name(&machine), "renamed");
    machine.tell(60, 0, 5, Fact::Named { tid: 5, name: RecordText::Is("own") });
    machine.tell(70, 0, 5, Fact::Named { tid: 5, name: RecordText::Is("") });
    assert_eq!(name(&machine), "own");
    let world = &machine.engine.world;
    assert_eq!(world.thread_name(ThreadId::IDLE), "idle");
    // A thread whose first one has no name is called by its own.
    machine.tell(
        80,
        0,
        5,
        Fact::There {
            tid: 8,
            process: 7,
            parent: None,
            name: RecordText::Is("only"),
            asleep: None,
        },
    );
    let world = &machine.engine.world;
    let thread = world.threads.find(0, 8).unwrap();
    assert_eq!(
        (world.process_name(thread), tid(world, world.process_of(thread))),
        ("only".into(), 7)
    );
}

#[test]
fn devices_and_interrupts_have_the_names_that_were_reported_and_else_their_numbers() {
    let mut machine = Machine::new();
    let device = 8 << 20 | 1;
    machine.tell(1, 0, 1, Fact::DeviceName { device, name: RecordText::Is("sda1") });
    machine.tell(2, 0, 1, Fact::DeviceName { device: -1, name: RecordText::Is("none") });
    machine.tell(3, 0, 1, Fact::InterruptName { number: 36, name: RecordText::Is("disk") });
    machine.tell(4, 0, 1, Fact::InterruptEnter(36, RecordText::Is("other"))).tell(
        5,
        0,
        1,
        Fact::InterruptLeave,
    );
    let world = &machine.engine.world;
    assert_eq!(world.disk_name(0, device as u32), "sda1");
    assert_eq!(
        (world.disk_name(1, device as u32), world.disk_name(0, 7)),
        ("8:1".into(), "0:7".into())
    );
    assert_eq!(
        (world.interrupt_name(0, 36), world.interrupt_name(1, 36)),
        ("disk".into(), String::new())
    );
}

#[test]
fn calls_are_selected_by_either_end_and_those_alone_by_the_one_that_is_there() {
    #[derive(Default)]
    struct Selected(Vec<bool>, Vec<bool>);
    impl Observer for Selected {
        fn call(&mut self, _: &World, call: &Call) {
            self.0.push(call.selected);
        }
        fn unpaired(&mut self, _: &World, call: &UnpairedCall) {
            self.1.push(call.selected);
        }
    }
    let mut engine = Engine::new(vec!["box".into()]);
    let mut seen = Selected::default();
    let call = engine.world.calls.of("read").unwrap();
    let enter = Fact::Enter { call, elapsed: 0, object: Object::None, more: More::None };
    let leave = Fact::Leave { call, result: Some(0), more: More::None };
    let facts = [
        (enter, false),
        (leave, false),
        (enter, true),
        (leave, false),
        (enter, false),
        (leave, true),
        // Ends alone, begins alone.
        (leave, true),
        (leave, false),
        (enter, true),
        (enter, false),
    ];
    for (time, (fact, selected)) in (1..).zip(facts) {
        let (cpu, tid, home) = (Some(0), Some(5), Home { trace: 0, pid: None });
        let spot = Spot { time, machine: 0, cpu, tid, pid: None, own_tid: tid, home, selected };
        engine.apply(&spot, fact, &mut seen);
    }
    engine.finish(&[], &mut seen);
    assert_eq!(seen.0, [false, true, true]);
    assert_eq!(seen.1, [true, false, true, false]);
}

#[test]
fn spans_that_are_too_deep_are_unpaired_and_their_ends_close_those_around() {
    let mut machine = Machine::new();
    let (begin, end) = (machine.mark("a:b", true), machine.mark("a:b", false));
    let here = (0, 0, Some(5));
    for time in 0..258 {
        machine.span(time, here, begin);
    }
    machine.span(1000, here, end);
    let told = machine.finish();
    let of = told.of(5);
    assert_eq!(
        of[..3],
        ["unpaired a:b 256 TooMany", "unpaired a:b 257 TooMany", "span a:b 255..1000"]
    );
    assert_eq!(of.iter().filter(|line| line.ends_with("NoEnd")).count(), 255);
}

#[test]
fn thread_that_touches_memory_is_perhaps_the_waker_for_a_moment_and_then_an_interrupt_is() {
    for (behind, wanted) in [
        (0, "blocked read by 6? 20..2000"),
        (10_000, "blocked read by 6? 20..12000"),
        (10_001, "blocked read by Interrupt 20..12001"),
        (71_000, "blocked read by Interrupt 20..73000"),
    ] {
        let mut machine = Machine::new();
        machine.enter(10, 0, 5, "read", Object::None).switch(20, 0, 5, S, 0);
        machine.enter(30, 1, 6, "getpid", Object::None).leave(40, 1, 6, "getpid", 6);
        machine.tell(2000, 1, 6, Fact::Fault).waking(2000 + behind, 1, 6, 5);
        assert_eq!(blocked(machine.finish(), 5), [wanted]);
    }
    // It has entered the kernel and left it since; or it has slept.
    let mut machine = Machine::new();
    machine.enter(10, 0, 5, "read", Object::None).switch(20, 0, 5, S, 0);
    machine.tell(2000, 1, 6, Fact::Fault).enter(2010, 1, 6, "getpid", Object::None);
    machine.leave(2020, 1, 6, "getpid", 6).waking(2030, 1, 6, 5);
    assert_eq!(blocked(machine.finish(), 5), ["blocked read by Interrupt 20..2030"]);
    let mut machine = Machine::new();
    machine.enter(10, 0, 5, "read", Object::None).switch(20, 0, 5, S, 0);
    machine.enter(30, 1, 6, "getpid", Object::None).leave(40, 1, 6, "getpid", 6);
    machine.tell(2000, 1, 6, Fact::Fault).switch(2010, 1, 6, 2, 0).wakeup(2020, 1, 0, 6);
    machine.switch(2030, 1, 0, 0, 6).waking(2040, 1, 6, 5);
    assert_eq!(blocked(machine.finish(), 5), ["blocked read by Interrupt 20..2040"]);
    // What stops a thread is no fault, however long it ran behind one.
    let mut machine = Machine::new();
    machine.tell(10, 0, 5, Fact::Fault).switch(20, 0, 5, 4, 0).waking(30, 1, 0, 5);
    assert_eq!(blocked(machine.finish(), 5), ["blocked - by Interrupt 20..30"]);
}

#[test]
fn call_of_no_descriptor_is_about_none() {
    for (number, wanted) in [
        (-1, "blocked mmap by Interrupt 20..30"),
        (3, "blocked mmap Descriptor(3) by Interrupt 20..30"),
    ] {
        let mut machine = Machine::new();
        machine.enter(10, 0, 5, "mmap", Object::Descriptor(number)).switch(20, 0, 5, 2, 0);
        machine.waking(30, 1, 0, 5);
        assert_eq!(blocked(machine.finish(), 5), [wanted]);
    }
    let mut machine = Machine::new();
    let (fd, parts) = (Object::Descriptor(3), [(Part::Target, -1)]);
    machine.enter_with(10, 0, 5, ("splice", fd), &parts);
    let thread = machine.engine.world.threads.find(0, 5).unwrap();
    let open = machine.engine.world.threads.get(thread).unwrap().open.unwrap();
    assert_eq!((open.object, open.arguments().target), (fd, Object::None));
}

#[test]
fn call_that_returns_that_its_time_was_over_was_ended_by_a_timer() {
    let time_out = |name: &str, timeout: Option<i64>, result: i64, sleep: i64| {
        let mut machine = Machine::new();
        let timeout: Vec<(Part, i64)> = timeout.map(|it| (Part::Timeout, it)).into_iter().collect();
        machine.enter(5, 1, 6, "write", Object::None);
        machine.enter_with(10, 0, 5, (name, Object::None), &timeout).switch(20, 0, 5, sleep, 0);
        // In the timer's interrupt, of which no record tells.
        machine.waking(30, 1, 6, 5).switch(40, 0, 0, 0, 5).leave(50, 0, 5, name, result);
        // Once, and not again for the next one.
        machine.enter_with(60, 0, 5, (name, Object::None), &timeout).leave(70, 0, 5, name, result);
        let told = machine.finish().of(5).join("; ");
        assert!(told.contains(&format!("blocked {name} by 6 20..30")), "{told}");
        let over = told.matches("timed out").count();
        assert_eq!(over, usize::from(told.contains("timed out 20..30; call")), "{told}");
        over == 1
    };
    for name in ["poll", "ppoll", "epoll_wait", "select", "compat_pselect6_time32"] {
        for (timeout, result, wanted) in [
            (Some(5), 0, true),
            (None, 0, true),
            // Something has happened to a descriptor, or there was a signal.
            (Some(5), 1, false),
            (Some(5), -4, false),
            // Of what does not wait, and of what waits for ever.
            (Some(0), 0, false),
            (Some(-1), 0, false),
        ] {
            assert_eq!(time_out(name, timeout, result, S), wanted, "{name} {timeout:?} {result}");
        }
        // It waited for memory, say.
        assert!(!time_out(name, Some(5), 0, 2));
    }
    for (result, wanted) in [(-110, true), (0, false), (-11, false), (110, false)] {
        assert_eq!(time_out("futex", None, result, S), wanted, "{result}");
    }
    // A connection's time was over; what is read from it is no time.
    assert!(!time_out("read", None, 0, S) && time_out("read", None, -110, S));
    assert!(!time_out("read", None, -110, 2) && !time_out("read", None, -512, S));
    // What was between is not known: neither is what that call has waited for.
    let mut machine = Machine::new();
    machine.enter(5, 1, 6, "write", Object::None).enter(10, 0, 5, "poll", Object::None);
    machine.switch(20, 0, 5, S, 0).waking(30, 1, 6, 5).switch(40, 0, 0, 0, 5);
    machine.engine.gap(0, Some(0), 45);
    machine.enter(50, 0, 5, "poll", Object::None).leave(60, 0, 5, "poll", 0);
    assert!(!machine.finish().of(5).join("; ").contains("timed out"));
}

#[test]
fn wait_behind_a_fault_is_of_it_unless_a_call_may_have_begun_that_is_not_in_the_trace() {
    for (has_calls, bits, wanted) in [
        (true, S, "blocked - Fault by 6 20..30"),
        (true, 2, "blocked - Fault by 6 20..30"),
        (false, 2, "blocked - Fault by 6 20..30"),
        (false, S, "blocked - by 6 20..30"),
    ] {
        let mut machine = Machine::new();
        machine.enter(5, 1, 6, "write", Object::None);
        if has_calls {
            machine.enter(6, 0, 5, "getpid", Object::None).leave(7, 0, 5, "getpid", 5);
        }
        machine.tell(10, 0, 5, Fact::Fault).switch(20, 0, 5, bits, 0).waking(30, 1, 6, 5);
        let told = machine.finish();
        assert!(told.of(5).contains(&wanted), "{has_calls} {bits}: {:?}", told.of(5));
    }
}

#[test]
fn records_discarded_behind_the_last_one_leave_no_time_behind_the_end() {
    let mut machine = Machine::new();
    machine.switch(10, 0, 9, S, 5).switch(20, 1, 9, S, 6).switch(30, 1, 6, S, 0);
    machine.engine.gap(0, Some(0), 37);
    machine.finish();
    let end = machine.engine.world.now;
    assert_eq!(end, 30);
    for cpu in [0, 1] {
        let runs = machine.told.runs.iter().filter(|run| run.cpu == cpu);
        let told: i64 = runs.map(|run| run.to - run.from).sum();
        assert_eq!(told, end - 10, "{:?}", machine.told.runs);
    }
    let ends = machine.told.intervals.iter().map(|(_, interval)| interval.to);
    assert_eq!(ends.max(), Some(end), "{:?}", machine.told.lines);
}

#[test]
fn slow_call_that_is_recorded_at_its_end_has_begun_before() {
    let mut machine = Machine::new();
    let call = machine.engine.world.calls.of("read").unwrap();
    let enter = Fact::Enter { call, elapsed: 70, object: Object::None, more: More::None };
    machine.tell(10, 0, 5, Fact::Fault).tell(90, 0, 5, enter).leave(91, 0, 5, "read", 6);
    let told = machine.finish();
    assert!(told.of(5).contains(&"call read 20..91 = 6"), "{:?}", told.of(5));
}

/// Tells of a thread as a state dump does, and then that it was made by thread 5 of process 4. Returns how many threads
/// have had its number.
fn threads_of_dump_and_fork(dumped: (i64, i64), forked: i64, between: &[Fact<'static>]) -> usize {
    const CHILD: i64 = 7;
    let mut machine = Machine::new();
    let there = |tid, process, parent, asleep| {
        let name = RecordText::Is("name");
        Fact::There { tid, process, parent: Some(parent), name, asleep }
    };
    machine.tell(10, 1, 2, there(4, 4, 1, None)).tell(11, 1, 2, there(5, 4, 1, None));
    let (process, parent) = dumped;
    let (sleep, object) = (Sleep::Other, Object::None);
    let asleep = Reason { sleep, call: None, object, is_older: true };
    machine.tell(12, 1, 2, there(CHILD, process, parent, Some(asleep)));
    for fact in between {
        machine.tell(13, 1, CHILD, *fact);
    }
    machine.fork(20, 5, CHILD, forked).switch(30, 0, 5, 0, CHILD).switch(40, 0, CHILD, S, 5);
    machine.finish();
    let threads = machine.engine.world.threads.iter();
    let of_child: Vec<_> = threads.filter(|(_, it)| i64::from(it.tid) == CHILD).collect();
    let (id, last) = of_child.last().unwrap();
    assert_eq!((last.born, machine.engine.world.threads.find(0, CHILD)), (Some(20), Some(*id)));
    // It can run from the fork on, and nothing of it is older.
    assert!(machine.told.of(7).contains(&"runnable 20..30"), "{:?}", machine.told.of(7));
    of_child.len()
}

#[test]
fn thread_that_a_dump_has_listed_before_its_fork_is_one_thread() {
    assert_eq!(threads_of_dump_and_fork((7, 4), 7, &[]), 1);
    // Made with CLONE_PARENT, and a thread of the process that makes it.
    assert_eq!(threads_of_dump_and_fork((7, 1), 7, &[]), 1);
    assert_eq!(threads_of_dump_and_fork((4, 1), 4, &[]), 1);
    // One that had the number before: of another parent or process, and one that has run or ended.
    assert_eq!(threads_of_dump_and_fork((7, 3), 7, &[]), 2);
    assert_eq!(threads_of_dump_and_fork((4, 1), 7, &[]), 2);
    assert_eq!(threads_of_dump_and_fork((7, 4), 7, &[Fact::Fault]), 2);
    let exit = Fact::Exit { tid: 7, name: RecordText::None };
    assert_eq!(threads_of_dump_and_fork((7, 4), 7, &[exit]), 2);
}

#[test]
fn thread_that_was_woken_before_a_fork_of_its_number_is_an_older_one() {
    let mut machine = Machine::new();
    let there = |tid, process, parent| {
        let name = RecordText::Is("name");
        Fact::There { tid, process, parent: Some(parent), name, asleep: None }
    };
    machine.tell(10, 1, 2, there(5, 5, 1)).tell(12, 1, 2, there(7, 7, 5)).waking(14, 1, 2, 7);
    machine.fork(20, 5, 7, 7).switch(30, 0, 5, 0, 7).switch(40, 0, 7, S, 5);
    machine.finish();
    let of_number: Vec<_> =
        machine.engine.world.threads.iter().filter(|(_, it)| it.tid == 7).collect();
    assert_eq!(of_number.iter().map(|(_, it)| it.born).collect::<Vec<_>>(), [None, Some(20)]);
    // What is told of a thread has no hole.
    for (id, _) in of_number {
        let told = machine.told.intervals.iter().filter(|(thread, _)| *thread == id);
        let ends: Vec<_> = told.map(|(_, interval)| (interval.from, interval.to)).collect();
        assert!(ends.windows(2).all(|two| two[0].1 == two[1].0), "{ends:?}");
    }
}

#[test]
fn trace_from_before_1970_ends_with_its_last_record() {
    let mut machine = Machine::new();
    machine.switch(-50, 0, 9, 0, 5).enter(-40, 0, 5, "read", Object::None).switch(-30, 0, 5, S, 9);
    machine.tell(-20, 0, 9, Fact::Fault);
    let of = machine.finish().of(5);
    assert_eq!(of.last().copied(), Some("blocked read by Unknown -30..-20"), "{of:?}");
    assert_eq!(machine.engine.world.now, -20);
}

/// Returns the lines about the waits of 5, which waits from 100 to 130 in a call that returns `result` with `parts`.
fn waits_for(
    machine: &mut Machine,
    name: &str,
    fd: i32,
    result: i64,
    parts: &[(Part, i64)],
) -> String {
    // In the interrupt of a timer, or in the call of another thread: no record tells which.
    machine.enter(90, 1, 6, "write", Object::None);
    machine.enter_with(95, 0, 5, (name, Object::Descriptor(fd)), &[(Part::Timeout, -1)]);
    machine.switch(100, 0, 5, S, 0).waking(130, 1, 6, 5).switch(140, 0, 0, 0, 5);
    let call = machine.engine.world.calls.of(name).unwrap();
    let fact = Fact::Leave { call, result: Some(result), more: More::Is("", parts) };
    let lines = machine.tell(150, 0, 5, fact).finish().of(5).join("; ");
    assert!(lines.contains(&format!("blocked {name}")), "{lines}");
    lines
}

#[test]
fn wait_for_descriptors_of_which_only_timers_are_ready_was_ended_by_a_timer() {
    const FLAGS: &[(Part, i64)] = &[(Part::Flags, 0)];
    const EPOLL: i32 = 9;
    let ends = |result: i64, ready: &[i64]| {
        let mut machine = Machine::new();
        machine.fork(1, 1, 5, 5);
        machine.call("timerfd_create", -1, FLAGS, 3).call("timerfd_create", -1, FLAGS, 4);
        machine.call("eventfd2", -1, FLAGS, 7).call("epoll_create1", -1, FLAGS, i64::from(EPOLL));
        // 40 stands for a timer and another descriptor, and 41 is that of a timer at last.
        for (fd, data) in [(3, 30), (4, -1), (7, 70), (7, 40), (3, 40), (7, 41), (8, 80)] {
            let parts = [(Part::Control, 1), (Part::Epoll, i64::from(EPOLL)), (Part::Data, data)];
            machine.call("epoll_ctl", fd, &parts, 0);
        }
        machine.call("close", 7, &[], 0);
        let parts = [(Part::Control, 3), (Part::Epoll, i64::from(EPOLL)), (Part::Data, 41)];
        machine.call("epoll_ctl", 4, &parts, 0);
        let parts: Vec<_> = ready.iter().map(|&data| (Part::Data, data)).collect();
        waits_for(&mut machine, "epoll_wait", EPOLL, result, &parts).contains("timed out 100..130")
    };
    for (result, ready, wanted) in [
        (1, &[30][..], true),
        (2, &[30, -1], true),
        (1, &[41], true),
        (1, &[70], false),
        (2, &[30, 70], false),
        (1, &[40], false),
        // What the trace does not know: a number, a descriptor, or all that is ready.
        (1, &[5], false),
        (1, &[80], false),
        (2, &[30], false),
        (1, &[], false),
        (-4, &[30], false),
    ] {
        assert_eq!(ends(result, ready), wanted, "{result} {ready:?}");
    }
    for (fd, result, wanted) in [(3, 1, true), (3, 2, false), (7, 1, false), (5, 1, false)] {
        let mut machine = Machine::new();
        machine.fork(1, 1, 5, 5).call("timerfd_create", -1, FLAGS, 3);
        machine.call("eventfd2", -1, FLAGS, 7);
        let told = waits_for(&mut machine, "poll", fd, result, &[]);
        assert_eq!(told.contains("timed out 100..130"), wanted, "{fd} {result}: {told}");
    }
}

#[test]
fn wait_that_a_timer_s_signal_ends_was_ended_by_a_timer_whoever_ran_then() {
    let ends = |signal: i64, code: i64, target: Option<i64>, after: i64| {
        let mut machine = Machine::new();
        // 7 is a thread of the process of 5.
        machine.fork(1, 1, 5, 5).fork(2, 5, 7, 5).enter(5, 1, 6, "write", Object::None);
        machine.enter(10, 0, 7, "rt_sigtimedwait", Object::None).switch(20, 0, 7, S, 0);
        machine.waking(50_000, 1, 6, 7);
        let fact = Fact::Signal { signal: Some(signal), code: Some(code), target };
        machine.tell(50_000 + after, 1, 6, fact).switch(90_000, 0, 0, 0, 7);
        machine.leave(95_000, 0, 7, "rt_sigtimedwait", signal);
        let told = machine.finish().of(7).join("; ");
        assert!(told.contains("blocked rt_sigtimedwait by 6 20..50000"), "{told}");
        told.contains("timed out 20..50000")
    };
    assert!(ends(14, 0x80, Some(5), 4_000) && ends(14, 0x80, Some(7), 0), "of setitimer()");
    assert!(ends(34, -2, Some(5), 4_000), "of timer_create()");
    assert!(!ends(14, 0, Some(5), 4_000) && !ends(34, -1, Some(5), 4_000), "of kill(), sigqueue()");
    assert!(!ends(11, 0x80, Some(5), 4_000), "of a fault");
    assert!(!ends(14, 0x80, Some(6), 4_000) && !ends(14, 0x80, None, 4_000), "for another one");
    assert!(!ends(14, 0x80, Some(5), 40_000), "long after the wake");
}

#[test]
fn sleep_that_no_record_ends_was_ended_by_a_timer_as_its_result_says() {
    let ends = |result: i64| {
        let mut machine = Machine::new();
        machine.enter(10, 0, 5, "clock_nanosleep", Object::None).switch(20, 0, 5, S, 0);
        machine.switch(90, 1, 0, 0, 5).leave(95, 1, 5, "clock_nanosleep", result);
        let told = machine.finish().of(5).join("; ");
        assert!(told.contains("blocked clock_nanosleep by Unknown 20..90"), "{told}");
        told.contains("timed out 20..90")
    };
    assert!(ends(0) && !ends(-516));
}

//! Tests of the reasons for which threads were blocked, of what ended the waits, of delays and of locks.

use strata_ctf::read::TimeRange;

use super::told::{range, Told};
use crate::hand_tests::ORIGIN;
use crate::hand_tests::V::{self, I64, U32, U64};
use crate::reports::locks::{self, LockCounter, LocksReport};
use crate::reports::threads::{self, ThreadCounter, ThreadsReport};

fn threads_of(told: &Told, range: TimeRange, delays: usize, by_process: bool) -> ThreadsReport {
    let (counter, passed) = told.seen(range, ThreadCounter::new(range, delays));
    counter.finish(passed.timeline.world(), by_process)
}

fn row(report: &ThreadsReport, tid: i32) -> &threads::Row {
    report.rows.iter().find(|row| row.label.tid == Some(tid)).unwrap()
}

/// A wait in words: its call, its object, the kind of sleep, and what ended it.
type Said<'w> = (&'w str, &'w str, &'w str, &'w str);

fn said(wait: &threads::Wait) -> Said<'_> {
    (&wait.call, &wait.object, wait.sleep, wait.ended_by)
}

/// Makes a trace in which 5 leaves its CPU with `state` at 100, after the records of `before`, and is woken at 200 by
/// those of `waking`.
fn one_wait(
    state: i64,
    before: impl FnOnce(&mut Told),
    waking: impl FnOnce(&mut Told),
) -> threads::Wait {
    let mut told = Told::new(&[(5, 5), (7, 7)]);
    told.switch(10, 0, 0, 5);
    before(&mut told);
    told.switch(100, 5, state, 7);
    waking(&mut told);
    told.switch(300, 7, 0, 5).switch(400, 5, 0, 0);
    let report = threads_of(&told, TimeRange::ALL, 0, false);
    let waits = &row(&report, 5).waits;
    assert_eq!((waits.len(), waits[0].count, waits[0].total), (1, 1, 100), "{waits:?}");
    waits[0].clone()
}

#[test]
fn sleeps_are_named_as_the_kernel_s_states_are() {
    let by_seven = |told: &mut Told| {
        told.wake(200, 7, 5);
    };
    for (state, wanted) in [
        (1, "sleep"),
        (2, "uninterruptible"),
        // Killable is uninterruptible with another bit; an idle thread of the kernel has its own.
        (0x102, "uninterruptible"),
        (4, "stopped"),
        (8, "stopped"),
        (128, "idle"),
        (130, "idle"),
        (64, ""),
    ] {
        let wait = one_wait(state, |_| {}, by_seven);
        assert_eq!(said(&wait), ("", "", wanted, "thread"), "{state}");
        assert_eq!(wait.woken_by.unwrap().0.tid, Some(7));
    }
}

#[test]
fn waits_are_about_a_descriptor_a_path_an_address_or_a_fault() {
    let by_seven = |told: &mut Told| {
        told.wake(200, 7, 5);
    };
    let of = |before: &dyn Fn(&mut Told)| {
        let wait = one_wait(1, before, by_seven);
        (wait.call, wait.object, wait.sleep)
    };
    let owned = |call: &str, object: &str, sleep| (call.to_owned(), object.to_owned(), sleep);
    let read = |told: &mut Told, fd| {
        told.enter(50, 5, "read", &[U32(fd), U64(1)]);
    };
    assert_eq!(of(&|told: &mut Told| read(told, 3)), owned("read", "descriptor 3", "sleep"));
    let opened = |told: &mut Told| {
        told.call((20, 30), 5, "openat", &[I64(-100), V::Text("/a b"), U32(0)], 3);
        read(told, 3);
    };
    assert_eq!(of(&opened), owned("read", "/a b", "sleep"));
    let failed = |told: &mut Told| {
        told.call((20, 30), 5, "openat", &[I64(-100), V::Text("/a"), U32(0)], -2);
        read(told, 3);
    };
    assert_eq!(of(&failed), owned("read", "descriptor 3", "sleep"));
    let futex = |told: &mut Told| {
        told.enter(50, 5, "futex", &[U64(0xbeef), U32(0)]);
    };
    assert_eq!(of(&futex), owned("futex", "0xbeef", "sleep"));
    let fault = |told: &mut Told| {
        told.fault(50, 5, 0x1000);
    };
    let fault_behind_a_call = |told: &mut Told| {
        told.call((20, 30), 5, "read", &[U32(3), U64(1)], 1);
        fault(told);
    };
    assert_eq!(of(&fault_behind_a_call), owned("", "", "page fault"));
    // Where no record tells a call, one that none tells may have begun since.
    assert_eq!(of(&fault), owned("", "", "sleep"));
    assert_eq!(one_wait(2, fault, by_seven).sleep, "page fault");
    // What a call of before was about is over.
    let done = |told: &mut Told| {
        told.call((20, 30), 5, "read", &[U32(3), U64(1)], 1);
    };
    assert_eq!(of(&done), owned("", "", "sleep"));
}

#[test]
fn what_ended_a_wait_is_the_interrupt_that_runs_then_or_the_thread() {
    let irq = |told: &mut Told, number, wakes: bool| {
        told.tell(190, 7, "irq_handler_entry", &[U32(number), V::Text("net")]);
        if wakes {
            told.wake(200, 7, 5);
        }
        told.tell(210, 7, "irq_handler_exit", &[U32(number)]);
    };
    let softirq = |told: &mut Told, number| {
        told.tell(190, 7, "irq_softirq_entry", &[U32(number)]).wake(200, 7, 5);
        told.tell(210, 7, "irq_softirq_exit", &[U32(number)]);
    };
    let ended = |waking: &dyn Fn(&mut Told)| one_wait(1, |_| {}, waking).ended_by;
    assert_eq!(ended(&|told| irq(told, 36, true)), "device");
    let by_device = one_wait(1, |_| {}, |told| irq(told, 36, true));
    let net = threads::Device { number: 36, name: "net".into() };
    assert_eq!((by_device.device, by_device.woken_by, by_device.is_sure), (Some(net), None, false));
    for (number, wanted) in [
        (0, "softirq"),
        (1, "timer"),
        (2, "network"),
        (3, "network"),
        (4, "disk"),
        (5, "disk"),
        (8, "timer"),
        (9, "softirq"),
        (u32::MAX, "softirq"),
    ] {
        assert_eq!(ended(&|told| softirq(told, number)), wanted, "{number}");
    }
    // In one, behind the one in it that is over.
    let both = |told: &mut Told| {
        told.tell(110, 7, "irq_softirq_entry", &[U32(3)]);
        irq(told, 36, false);
        told.wake(220, 7, 5).tell(230, 7, "irq_softirq_exit", &[U32(3)]);
    };
    let mut told = Told::new(&[(5, 5), (7, 7)]);
    told.switch(10, 0, 0, 5).switch(100, 5, 1, 7);
    both(&mut told);
    told.switch(300, 7, 0, 5);
    let report = threads_of(&told, TimeRange::ALL, 0, false);
    assert_eq!(said(&row(&report, 5).waits[0]), ("", "", "sleep", "network"));
    // 7 has its calls in the trace, and was in none: it was interrupted.
    let outside = |told: &mut Told| {
        told.call((110, 120), 7, "write", &[U32(1), U64(1)], 1).wake(200, 7, 5);
    };
    assert_eq!(ended(&outside), "interrupt");
    let within = |told: &mut Told| {
        told.enter(110, 7, "write", &[U32(1), U64(1)]).wake(200, 7, 5);
        told.leave(210, 7, "write", 1);
    };
    assert_eq!(ended(&within), "thread");
    assert!(one_wait(1, |_| {}, within).is_sure);
    // Whether 7 was in a call is not in the trace.
    let perhaps = one_wait(
        1,
        |_| {},
        |told| {
            told.wake(200, 7, 5);
        },
    );
    assert_eq!((perhaps.ended_by, perhaps.is_sure, perhaps.device), ("thread", false, None));
    // A sleep is ended by time, whoever ran when it was.
    let sleep = |told: &mut Told| {
        told.enter(50, 5, "clock_nanosleep", &[U32(1)]);
    };
    let wait = one_wait(1, sleep, |told| {
        told.wake(200, 7, 5);
    });
    assert_eq!((wait.ended_by, wait.woken_by), ("timer", None));
}

#[test]
fn most_waits_are_ended_by_a_thread_by_whom_all_of_its_are_counted() {
    // 7 wakes 5 before its first call, of which it is not known whether it was in one, and in calls; 36 does so, too.
    for (unsure, sure, device, wanted) in [
        (2, 2, 3, ("thread", Some(4), false)),
        (2, 3, 4, ("thread", Some(5), true)),
        (3, 2, 4, ("thread", Some(5), false)),
        (1, 1, 3, ("device", None, false)),
    ] {
        let mut told = Told::new(&[(5, 5), (7, 7)]);
        let mut now = 10;
        told.switch(now, 0, 0, 5).call((11, 12), 5, "write", &[U32(1), U64(1)], 1);
        for number in 0..unsure + sure + device {
            told.enter(now + 10, 5, "read", &[U32(3), U64(1)]).switch(now + 20, 5, 1, 7);
            match number {
                _ if number < unsure => {
                    told.wake(now + 40, 7, 5);
                }
                _ if number < unsure + sure => {
                    told.enter(now + 30, 7, "write", &[U32(1), U64(1)]).wake(now + 40, 7, 5);
                    told.leave(now + 50, 7, "write", 1);
                }
                _ => {
                    told.tell(now + 30, 7, "irq_handler_entry", &[U32(36), V::Text("net")]);
                    told.wake(now + 40, 7, 5).tell(now + 50, 7, "irq_handler_exit", &[U32(36)]);
                }
            }
            told.switch(now + 60, 7, 0, 5).leave(now + 70, 5, "read", 1);
            now += 70;
        }
        told.switch(now + 10, 5, 1, 0);
        let report = threads_of(&told, TimeRange::ALL, 0, false);
        let wait = row(&report, 5).waits.iter().find(|wait| wait.call == "read").unwrap();
        let times = wait.woken_by.as_ref().map(|it| it.1);
        assert_eq!((wait.ended_by, times, wait.is_sure), wanted, "{unsure} {sure} {device}");
        assert_eq!(wait.device.is_some(), wanted.0 == "device");
    }
}

#[test]
fn what_ended_most_of_the_time_is_reported_and_how_many_others_there_are() {
    // 7 ends three short waits, 8 one long one.
    let mut told = Told::new(&[(5, 5), (7, 7), (8, 8)]);
    told.switch(10, 0, 0, 5);
    for (from, by, nanos) in [(100, 7, 10), (200, 8, 500), (800, 7, 20), (900, 7, 30)] {
        told.enter(from, 5, "read", &[U32(3), U64(1)]).switch(from + 5, 5, 1, by);
        told.enter(from + 6, by, "write", &[U32(4), U64(1)]).wake(from + 5 + nanos, by, 5);
        told.leave(from + 6 + nanos, by, "write", 1).switch(from + 8 + nanos, by, 0, 5);
        told.leave(from + 9 + nanos, 5, "read", 1);
    }
    for by_process in [false, true] {
        let report = threads_of(&told, TimeRange::ALL, 0, by_process);
        let row = report.rows.iter().find(|row| row.label.pid == Some(5)).unwrap();
        let wait = &row.waits[0];
        let woken_by = wait.woken_by.as_ref().map(|(label, times)| (label.tid, *times));
        let wanted = if by_process { woken_by } else { Some((Some(8), 1)) };
        assert_eq!((wait.count, wait.total, woken_by), (4, 560, wanted));
        assert_eq!((wait.enders, wait.ended, wait.ended_by), (2, 500, "thread"));
    }
}

#[test]
fn locks_tell_wakers_that_are_sure_from_those_that_are_not_and_devices_by_number() {
    let mut told = Told::new(&[(5, 5), (7, 7)]);
    let wait = |told: &mut Told, now: u64, waking: &dyn Fn(&mut Told)| {
        told.enter(now + 10, 5, "futex", &[U64(0x10), U32(0)]).switch(now + 20, 5, 1, 7);
        waking(told);
        told.switch(now + 60, 7, 0, 5).leave(now + 70, 5, "futex", 0);
    };
    told.switch(10, 0, 0, 5);
    wait(&mut told, 10, &|told| {
        told.wake(50, 7, 5);
    });
    wait(&mut told, 80, &|told| {
        told.enter(110, 7, "futex_wake", &[U64(0x10)]).wake(130, 7, 5);
        told.leave(135, 7, "futex_wake", 1);
    });
    wait(&mut told, 150, &|told| {
        told.tell(180, 7, "irq_handler_entry", &[U32(36), V::Text("net")]).wake(205, 7, 5);
        told.tell(206, 7, "irq_handler_exit", &[U32(36)]);
    });
    told.switch(300, 5, 1, 0);
    let report = locks_of(&told, TimeRange::ALL, locks::By::Lock);
    let wakers = report.rows[0].wakers.iter();
    let mut wakers: Vec<_> = wakers.map(|it| (it.total, it.is_sure, it.device.clone())).collect();
    wakers.sort();
    let net = threads::Device { number: 36, name: "net".into() };
    assert_eq!(wakers, [(20, false, None), (30, true, None), (35, false, Some(net.clone()))]);
    let longest: Vec<_> = report.longest.iter().map(|it| (it.is_sure, it.device.clone())).collect();
    assert_eq!(longest, [(false, Some(net)), (true, None), (false, None)]);
}

/// Makes a trace in which 5 waits three times in calls with these results, while 7 runs and wakes it.
fn gives_up(name: &str, arguments: &[V], results: [i64; 3]) -> Told {
    let mut told = Told::new(&[(5, 5), (7, 7)]);
    let mut now = 10;
    told.switch(now, 0, 0, 5);
    for result in results {
        told.enter(now + 10, 5, name, arguments).switch(now + 20, 5, 1, 7);
        told.enter(now + 30, 7, "write", &[U32(1), U64(1)]).wake(now + 40, 7, 5);
        told.leave(now + 50, 7, "write", 1).switch(now + 60, 7, 0, 5);
        told.leave(now + 70, 5, name, result);
        now += 70;
    }
    told.switch(now + 10, 5, 1, 0);
    told
}

#[test]
fn waits_whose_time_was_over_were_ended_by_a_timer_whoever_ran_then() {
    let ended = |told: &Told, range| {
        let report = threads_of(told, range, 0, false);
        let wait = &row(&report, 5).waits[0];
        let woken_by = wait.woken_by.as_ref().map(|(label, count)| (label.tid, *count));
        (wait.ended_by, woken_by, wait.count)
    };
    let poll = [U32(3), I64(5)];
    for (name, arguments, over) in
        [("epoll_wait", &poll[..], 0), ("futex", &[U64(0x10), U32(0)], -110)]
    {
        let all = ended(&gives_up(name, arguments, [over, 1, over]), TimeRange::ALL);
        assert_eq!(all, ("timer", None, 3), "{name}");
        let one = gives_up(name, arguments, [over, 1, 1]);
        assert_eq!(ended(&one, TimeRange::ALL), ("thread", Some((Some(7), 2)), 3), "{name}");
        // Its time is not asked for: nothing of it is taken back.
        assert_eq!(ended(&one, range(75, 1000)), ("thread", Some((Some(7), 2)), 2), "{name}");
    }
    let for_ever = gives_up("epoll_wait", &[U32(3), I64(-1)], [0, 0, 0]);
    assert_eq!(ended(&for_ever, TimeRange::ALL).0, "thread");
}

#[test]
fn delays_of_more_threads_than_there_is_room_for_are_sums_without_their_spread() {
    const ROOM: u32 = 1 << 15;
    let mut told = Told::new(&[]);
    for tid in 1..=ROOM + 3 {
        told.wake(100, 0, tid);
    }
    told.tell(150, 0, "kmem_kfree", &[U64(1)]);
    let rows = threads_of(&told, TimeRange::ALL, 0, false).rows;
    assert_eq!(rows.len() as u32, ROOM + 3);
    assert!(rows.iter().all(|row| (row.delay, row.runnable()) == (50, 50)));
    let known = rows.iter().filter(|row| (row.delays.count, row.delays.total) == (1, 50));
    assert_eq!(known.count() as u32, ROOM);
    assert_eq!(rows.iter().filter(|row| row.delays.count == 0).count(), 3);
}

#[test]
fn delays_that_are_kept_are_the_longest_and_say_where_the_thread_ran_then() {
    let mut told = Told::new(&[(5, 5), (6, 6), (7, 7)]);
    told.on(0).switch(10, 0, 0, 7).wake(100, 7, 5).wake(110, 7, 6);
    told.switch(150, 7, 0, 5).switch(400, 5, 1, 7).switch(500, 7, 1, 0);
    told.on(1).switch(20, 0, 0, 0).switch(310, 0, 0, 6).switch(350, 6, 1, 0);
    let delays = |range, kept| {
        let report = threads_of(&told, range, kept, false);
        let delays = report.delays.iter();
        delays.map(|it| (it.label.tid, it.from - ORIGIN, it.nanos, it.cpu)).collect::<Vec<_>>()
    };
    let all = [(Some(7), 150, 250, 0), (Some(6), 110, 200, 1), (Some(5), 100, 50, 0)];
    assert_eq!(delays(TimeRange::ALL, 9), all);
    assert_eq!(delays(TimeRange::ALL, 2), all[..2]);
    assert_eq!(delays(TimeRange::ALL, 0), []);
    // Of a part of the time it is that part of them; where one runs that has no CPU by then is not known.
    let part = [(Some(6), 120, 190, 1), (Some(5), 120, 30, 0)];
    assert_eq!(delays(range(120, 320), 9), part);
    let report = threads_of(&told, TimeRange::ALL, 9, false);
    let (five, six) = (row(&report, 5), row(&report, 6));
    assert_eq!((five.delay, five.runs, five.running), (50, 1, 250));
    // While it wanted the other CPU, nobody had that.
    assert_eq!(six.rivals, [(None, 200)]);
    assert_eq!(
        five.rivals
            .iter()
            .map(|(of, nanos)| (of.as_ref().unwrap().tid, *nanos))
            .collect::<Vec<_>>(),
        [(Some(7), 50)]
    );
}

/// Makes a trace in which threads 1 to `threads` of process 1 each wait for `waits` descriptors, all for equally long.
fn ties(threads: u32, waits: u32) -> Told {
    let mut told = Told::new(&(1..=threads).map(|tid| (tid, 1)).collect::<Vec<_>>());
    let mut now = 10;
    for tid in 1..=threads {
        told.switch(now, 0, 0, tid);
        for fd in 0..waits {
            told.enter(now + 10, tid, "read", &[U32(fd), U64(1)]).switch(now + 20, tid, 1, 0);
            told.wake(now + 30, 0, tid).switch(now + 40, 0, 0, tid);
            told.leave(now + 50, tid, "read", 1);
            now += 50;
        }
        told.switch(now + 10, tid, 1, 0);
        now += 10;
    }
    told
}

#[test]
fn waits_of_the_same_length_come_in_one_order_each_time() {
    let report = threads_of(&ties(1, 12), TimeRange::ALL, 0, false);
    let objects: Vec<&str> = row(&report, 1).waits.iter().map(|it| it.object.as_str()).collect();
    let mut sorted = objects.clone();
    sorted.sort_unstable();
    assert_eq!((objects.len(), &objects), (12, &sorted));
    let report = threads_of(&ties(3, 8), TimeRange::ALL, 0, true);
    let waits = report.rows[0].waits.iter().filter(|it| it.call == "read");
    let found: Vec<_> = waits.map(|it| (it.object.as_str(), it.count)).collect();
    assert_eq!((found.len(), found[0], found[7]), (8, ("descriptor 0", 3), ("descriptor 7", 3)));
}

#[test]
fn process_s_wait_was_ended_most_often_by_whom_one_of_its_threads_says() {
    // 2 is woken by 8 twice, 3 and 4 by 9 once; each in the same call.
    let mut told = Told::new(&[(2, 2), (3, 2), (4, 2), (8, 8), (9, 9)]);
    let mut now = 10;
    for (tid, by) in [(3, 9), (2, 8), (2, 8), (4, 9)] {
        told.switch(now, 0, 0, tid).enter(now + 10, tid, "read", &[U32(0), U64(1)]);
        told.switch(now + 20, tid, 1, by).wake(now + 30, by, tid).switch(now + 40, by, 1, tid);
        told.leave(now + 50, tid, "read", 1).switch(now + 60, tid, 1, 0);
        now += 70;
    }
    for _ in 0..8 {
        let report = threads_of(&told, TimeRange::ALL, 0, true);
        let row = report.rows.iter().find(|row| row.label.pid == Some(2)).unwrap();
        let wait = row.waits.iter().find(|wait| wait.call == "read").unwrap();
        let woken_by = wait.woken_by.as_ref().unwrap();
        assert_eq!((wait.count, woken_by.0.tid, woken_by.1), (4, Some(8), 2), "{wait:?}");
    }
}

fn locks_of(told: &Told, range: TimeRange, by: locks::By) -> LocksReport {
    let (counter, passed) = told.seen(range, LockCounter::new(range, 9));
    counter.finish(passed.timeline.world(), by, &|_| true)
}

#[test]
fn operations_of_futexes_wait_or_wake_as_the_kernel_has_them() {
    // 5 waits once, so that there is a row; then it calls each of these.
    for (operation, wakes) in [
        (0, false),
        (1, true),
        (3, true),
        (4, true),
        (5, true),
        (6, false),
        (7, true),
        (9, false),
        (10, true),
        (11, false),
        (12, true),
        (13, false),
    ] {
        for flags in [0, 0x80, 0x100, 0x180] {
            let mut told = Told::new(&[(5, 5), (7, 7)]);
            told.switch(10, 0, 0, 5).enter(20, 5, "futex", &[U64(0x10), U32(0)]);
            told.switch(30, 5, 1, 7).wake(50, 7, 5).switch(60, 7, 0, 5).leave(70, 5, "futex", 0);
            told.call((80, 81), 5, "futex", &[U64(0x10), U32(operation | flags)], 0);
            let report = locks_of(&told, TimeRange::ALL, locks::By::Lock);
            let found = (report.rows[0].calls, report.rows[0].wakes);
            assert_eq!(found, if wakes { (1, 1) } else { (2, 0) }, "{operation} {flags:#x}");
        }
    }
}

#[test]
fn locks_of_two_processes_at_one_address_are_two_and_waits_are_of_the_time_asked_for() {
    let mut told = Told::new(&[(5, 5), (6, 6), (7, 7)]);
    told.switch(10, 0, 0, 5).enter(20, 5, "futex", &[U64(0x10), U32(0)]).switch(100, 5, 1, 6);
    told.enter(110, 6, "futex", &[U64(0x10), U32(0)]).switch(200, 6, 1, 7);
    // A call that wakes by its name, and has no operation.
    told.call((300, 310), 7, "futex_wake", &[U64(0x10)], 1);
    told.wake(400, 7, 5).wake(500, 7, 6).switch(600, 7, 1, 5).leave(610, 5, "futex", 0);
    told.switch(700, 5, 1, 6).leave(710, 6, "futex", -110).switch(720, 6, 1, 0);
    let rows = |range, by| {
        let report = locks_of(&told, range, by);
        let rows = report.rows.iter();
        rows.map(|row| (row.label.pid, row.address, row.waits.total, row.timeouts))
            .collect::<Vec<_>>()
    };
    let (five, six) = ((Some(5), Some(0x10)), (Some(6), Some(0x10)));
    let with = |(pid, address), total, timeouts| (pid, address, total, timeouts);
    assert_eq!(rows(TimeRange::ALL, locks::By::Lock), [with(five, 300, 0), with(six, 300, 1)]);
    assert_eq!(rows(range(0, 450), locks::By::Lock), [with(five, 300, 0), with(six, 250, 0)]);
    assert_eq!(rows(range(399, 450), locks::By::Lock), [with(six, 51, 0), with(five, 1, 0)]);
    let none = |pid| (Some(pid), None, 300);
    let by_process: Vec<_> =
        rows(TimeRange::ALL, locks::By::Process).into_iter().map(|it| (it.0, it.1, it.2)).collect();
    assert_eq!(by_process, [none(5), none(6)]);
    // Nobody has waited in what is left.
    assert_eq!(rows(range(650, 700), locks::By::Lock), []);
    let report = locks_of(&told, TimeRange::ALL, locks::By::Lock);
    assert_eq!((report.all.count, report.all.total, report.left_out), (2, 600, 0));
    assert_eq!(
        report.longest.iter().map(|it| it.ended_by).collect::<Vec<_>>(),
        ["timer", "interrupt"]
    );
}

#[test]
fn who_waited_and_who_ended_that_are_each_one_of_all_locks_of_a_process() {
    // 5 and 6 wait for two locks each, for as long; 7 ends one wait of each, and time the others.
    let mut told = Told::new(&[(5, 5), (6, 5), (7, 7)]);
    let mut now = 10;
    for tid in [5, 6] {
        for (address, result) in [(0x10, 0), (0x20, -110)] {
            told.switch(now, 0, 0, tid).enter(now + 10, tid, "futex", &[U64(address), U32(0)]);
            told.switch(now + 20, tid, 1, 7).call(
                (now + 30, now + 31),
                7,
                "futex_wake",
                &[U64(1)],
                0,
            );
            told.enter(now + 40, 7, "write", &[U32(1), U64(1)]).wake(now + 50, 7, tid);
            told.leave(now + 51, 7, "write", 1).switch(now + 60, 7, 1, tid);
            told.leave(now + 70, tid, "futex", result).switch(now + 80, tid, 1, 0);
            now += 90;
        }
    }
    let report = locks_of(&told, TimeRange::ALL, locks::By::Process);
    let [row] = report.rows.as_slice() else { panic!("{report:?}") };
    assert_eq!((row.label.pid, row.waits.count, row.timeouts, row.address), (Some(5), 4, 2, None));
    let parts = |parts: &[locks::LockWaits]| {
        let part = |it: &locks::LockWaits| {
            (it.label.as_ref().and_then(|label| label.tid), it.ended_by, it.count, it.total)
        };
        parts.iter().map(part).collect::<Vec<_>>()
    };
    assert_eq!(parts(&row.waiters), [(Some(5), "", 2, 60), (Some(6), "", 2, 60)]);
    assert_eq!(parts(&row.wakers), [(None, "timer", 2, 60), (Some(7), "thread", 2, 60)]);
    let by_thread = locks_of(&told, TimeRange::ALL, locks::By::Thread).rows;
    let tids: Vec<_> = by_thread.iter().map(|row| (row.label.tid, row.waits.total)).collect();
    assert_eq!(tids, [(Some(5), 60), (Some(6), 60)]);
}

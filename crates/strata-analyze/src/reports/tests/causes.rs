//! Tests of the order of waits by how much they hurt, of waits for work, of holders of mutexes, and of processes that
//! began.

use strata_ctf::read::TimeRange;

use super::told::{range, Told};
use crate::hand_tests::V::{self, Text, I64, U32, U64, U8};
use crate::reports::blocked::{Blocked, BlockedCounter, BlockedReport, WaitKind};
use crate::reports::locks::{self, LockCounter};
use crate::reports::program_groups::Common;
use crate::reports::started_processes::BegunProcesses;
use crate::reports::{cpu, files, syscalls, Label, Times};

const MS: u64 = 1_000_000;

fn blocked_in(told: &Told, range: TimeRange) -> BlockedReport {
    let (counter, passed) = told.seen(range, BlockedCounter::new(range));
    counter.finish(passed.timeline.world(), &|_| true)
}

fn blocked(told: &Told) -> BlockedReport {
    blocked_in(told, TimeRange::ALL)
}

/// Returns each row as its kind, call and object.
fn told_of(report: &BlockedReport) -> Vec<(WaitKind, &str, &str)> {
    report.rows.iter().map(|row| (row.kind, &*row.wait.call, &*row.wait.object)).collect()
}

/// Adds a wait of 5 in `call` from `from` on, which a softirq ends at `to`: 3 is the network's, 4 a disk's, 1 the
/// timers'.
fn wait_for_softirq(
    told: &mut Told,
    (from, to): (u64, u64),
    (call, values): (&str, &[V]),
    softirq: u32,
) {
    told.switch(from, 0, 0, 5);
    if !call.is_empty() {
        told.enter(from + 1, 5, call, values);
    }
    told.switch(from + 2, 5, 1, 0);
    told.tell(to, 0, "irq_softirq_entry", &[U32(softirq)]);
    told.wake(to, 0, 5);
    told.tell(to, 0, "irq_softirq_exit", &[U32(softirq)]);
    told.switch(to + 1, 0, 0, 5);
}

fn opened(told: &mut Told, descriptor: u32, name: &'static str) {
    let values = [U32(5), U32(descriptor), U32(0), Text(name)];
    told.tell(2, 5, "lttng_statedump_file_descriptor", &values);
}

#[test]
fn reads_of_sockets_that_others_connected_are_waits_for_work_and_those_of_own_ones_are_not() {
    let report = |socket: &'static str| {
        let mut told = Told::new(&[(5, 5)]);
        opened(&mut told, 4, socket);
        wait_for_softirq(&mut told, (10, 10 + 5 * MS), ("read", &[U32(4), U64(9)]), 3);
        told.leave(12 + 5 * MS, 5, "read", 9).switch(13 + 5 * MS, 5, 1, 0);
        blocked(&told)
    };
    let server = report("socket:[7] tcp 10.0.0.1:80->10.0.0.9:41000");
    assert_eq!((told_of(&server), server.idle.threads), (Vec::new(), 1));
    assert_eq!(server.idle.calls, [("read".to_owned(), 5 * MS - 2)]);
    assert_eq!(server.idle.total, 5 * MS - 2);
    // Of a descriptor that nothing tells of, by whom the wait was ended.
    let mut unknown = Told::new(&[(5, 5)]);
    wait_for_softirq(&mut unknown, (10, 10 + MS), ("read", &[U32(4), U64(9)]), 3);
    unknown.leave(12 + MS, 5, "read", 9).switch(13 + MS, 5, 1, 0);
    assert_eq!(blocked(&unknown).idle.threads, 1);
    let own = "socket:[7] tcp 10.0.0.1:41000->10.0.0.9:80";
    let client = report(own);
    assert_eq!(told_of(&client), [(WaitKind::Answer, "read", own)]);
    assert_eq!((client.idle.threads, client.rows[0].times.max), (0, 5 * MS - 2));
}

/// Makes a trace in which 5 has connected a UDP socket, its descriptor 3, to 10.0.0.2:53.
fn connected() -> Told {
    let mut told = Told::new(&[(5, 5)]);
    told.switch(3, 0, 0, 5);
    told.call((4, 5), 5, "socket", &[U32(2), U32(2)], 3);
    let address = [U32(3), U32(2), U32(53), U32(4), U8(10), U8(0), U8(0), U8(2)];
    told.call((6, 7), 5, "connect", &address, 0);
    told.switch(8, 5, 0, 0);
    told
}

#[test]
fn poll_is_about_its_descriptor_or_the_one_of_several_that_is_ready() {
    let of = |call: &'static str, asked: &[V], ready: &[V]| {
        let mut told = connected();
        wait_for_softirq(&mut told, (10, 10 + MS), (call, asked), 3);
        told.tell(12 + MS, 5, &format!("syscall_exit_{call}"), ready).switch(13 + MS, 5, 1, 0);
        let report = blocked(&told);
        let row = report.rows.first();
        (row.map(|row| (row.kind, row.wait.object.clone())), report.idle.threads)
    };
    let answer = (Some((WaitKind::Answer, "udp 10.0.0.2:53".to_owned())), 0);
    let ready = [I64(1), U32(1), U32(3)];
    assert_eq!(of("poll", &[U32(1), U32(3), I64(-1)], &ready), answer);
    assert_eq!(of("poll", &[U32(2), U32(9), U32(3), I64(-1)], &ready), answer);
    assert_eq!(of("pselect6", &[U32(2), U32(9), U32(3), U64(0)], &ready), answer);
    // Another was ready, of which nothing is known; or the end does not say.
    let other = [I64(1), U32(1), U32(9)];
    assert_eq!(of("poll", &[U32(2), U32(9), U32(3), I64(-1)], &other), (None, 1));
    assert_eq!(of("poll", &[U32(2), U32(9), U32(3), I64(-1)], &[I64(1), U32(0)]), (None, 1));
    // What is not a descriptor asks nothing.
    assert_eq!(of("poll", &[U32(2), U32(u32::MAX), U32(3), I64(-1)], &ready), answer);
}

#[test]
fn answer_that_does_not_come_in_time_is_waited_for_and_a_poll_of_others_is_idle() {
    let of = |descriptor| {
        let mut told = connected();
        let asked = [U32(1), U32(descriptor), I64(5000)];
        wait_for_softirq(&mut told, (10, 10 + MS), ("poll", &asked), 1);
        told.tell(12 + MS, 5, "syscall_exit_poll", &[I64(0), U32(0)]).switch(13 + MS, 5, 1, 0);
        let report = blocked(&told);
        (report.rows.len(), report.idle.threads)
    };
    assert_eq!((of(3), of(9)), ((1, 0), (0, 1)));
}

/// Makes a trace in which 5, after the records of `before`, waits in epoll_wait() and is woken by 7, which is in
/// `call`.
fn waits_for_seven(
    names: (&'static str, &'static str),
    call: (&str, &[V]),
    before: impl FnOnce(&mut Told),
) -> BlockedReport {
    let mut told = Told::default();
    for (tid, name) in [(5, names.0), (7, names.1)] {
        let values = [U32(tid), U32(tid), U32(1), Text(name)];
        told.tell(1, 1, "lttng_statedump_process_state", &values);
    }
    opened(&mut told, 4, "socket:[7] tcp 10.0.0.1:80->10.0.0.9:41000");
    told.switch(3, 0, 0, 5);
    before(&mut told);
    told.enter(30, 5, "epoll_wait", &[U32(3), I64(-1)]).switch(31, 5, 1, 7);
    told.enter(40, 7, call.0, call.1).wake(31 + MS, 7, 5).leave(32 + MS, 7, call.0, 0);
    told.switch(33 + MS, 7, 0, 5).leave(34 + MS, 5, "epoll_wait", 1).switch(35 + MS, 5, 1, 0);
    blocked(&told)
}

#[test]
fn wait_between_request_and_answer_that_a_signal_of_the_program_ends_is_no_wait_for_work() {
    let kill: (&str, &[V]) = ("kill", &[I64(5), I64(23)]);
    let asked = |told: &mut Told| {
        told.call((4, 5), 5, "read", &[U32(4), U64(9)], 9);
    };
    let answered = |told: &mut Told| {
        told.call((4, 5), 5, "read", &[U32(4), U64(9)], 9);
        told.call((6, 7), 5, "write", &[U32(4), U64(9)], 9);
    };
    let report = waits_for_seven(("pg", "pg"), kill, asked);
    assert_eq!(told_of(&report), [(WaitKind::Signal, "epoll_wait", "descriptor 3")]);
    assert_eq!((report.rows[0].longest, report.rows[0].times.max), (Some(5), MS));
    assert_eq!(report.rows[0].hurt(), report.rows[0].times.max);
    // Nobody has asked for anything, has its answer, is of that program, or has sent a signal.
    for report in [
        waits_for_seven(("pg", "pg"), kill, |_| {}),
        waits_for_seven(("pg", "pg"), kill, answered),
        waits_for_seven(("pg", "cron"), kill, asked),
        waits_for_seven(("pg", "pg"), ("futex_wake", &[U64(0x10)]), asked),
    ] {
        assert_eq!((told_of(&report), report.idle.threads), (Vec::new(), 1));
    }
}

#[test]
fn futex_whose_time_is_over_is_idle_and_one_that_a_thread_ends_is_not() {
    let of = |value: u64, result: i64| {
        let mut told = Told::new(&[(5, 5), (7, 7)]);
        told.switch(10, 0, 0, 5).enter(11, 5, "futex_wait", &[U64(0x10), U64(value)]);
        told.switch(12, 5, 1, 7).enter(20, 7, "futex_wake", &[U64(0x10)]);
        told.wake(12 + MS, 7, 5).leave(13 + MS, 7, "futex_wake", 1);
        told.switch(14 + MS, 7, 0, 5).leave(15 + MS, 5, "futex_wait", result);
        told.switch(16 + MS, 5, 1, 0);
        let report = blocked(&told);
        (report.rows.first().map(|row| row.kind), report.idle.threads)
    };
    // Those of mutexes have the value 2.
    assert_eq!(of(2, 0), (Some(WaitKind::Mutex), 0));
    assert_eq!(of(0, 0), (Some(WaitKind::Thread), 0));
    // As a timer's interrupt has found 7 there.
    assert_eq!((of(0, -110), of(2, -110)), ((None, 1), (None, 1)));
}

#[test]
fn sleeps_of_who_serves_are_reported_and_those_of_who_only_sleeps_are_idle() {
    let of = |serves: bool| {
        let mut told = Told::new(&[(5, 5)]);
        wait_for_softirq(&mut told, (10, 10 + MS), ("clock_nanosleep", &[U32(0)]), 1);
        told.leave(12 + MS, 5, "clock_nanosleep", 0);
        if serves {
            told.switch(13 + MS, 5, 0, 0);
            let asked: &[V] = &[U32(3), I64(-1)];
            wait_for_softirq(&mut told, (14 + MS, 14 + 2 * MS), ("epoll_wait", asked), 3);
            told.leave(16 + 2 * MS, 5, "epoll_wait", 1);
        }
        told.switch(20 + 2 * MS, 5, 1, 0);
        blocked(&told)
    };
    assert_eq!(told_of(&of(true)), [(WaitKind::Sleep, "clock_nanosleep", "")]);
    // One that never has to wait for its work, since more of it is always there.
    let mut busy = Told::new(&[(5, 5)]);
    busy.switch(5, 0, 0, 5).call((6, 7), 5, "epoll_wait", &[U32(3), I64(-1)], 1).switch(8, 5, 0, 0);
    wait_for_softirq(&mut busy, (10, 10 + MS), ("clock_nanosleep", &[U32(0)]), 1);
    busy.leave(12 + MS, 5, "clock_nanosleep", 0).switch(13 + MS, 5, 1, 0);
    assert_eq!(told_of(&blocked(&busy)), [(WaitKind::Sleep, "clock_nanosleep", "")]);
    let alone = of(false);
    assert_eq!((told_of(&alone), alone.idle.threads), (Vec::new(), 1));
    assert_eq!(alone.idle.calls[0].0, "clock_nanosleep");
}

#[test]
fn waits_for_a_disk_and_for_memory_are_reported_whatever_waits() {
    let mut told = Told::new(&[(5, 5)]);
    opened(&mut told, 4, "/var/journal");
    wait_for_softirq(&mut told, (10, 10 + 3 * MS), ("write", &[U32(4), U64(9)]), 4);
    told.leave(12 + 3 * MS, 5, "write", 9).fault(13 + 3 * MS, 5, 0x70);
    wait_for_softirq(&mut told, (14 + 3 * MS, 14 + 5 * MS), ("", &[]), 4);
    told.switch(20 + 5 * MS, 5, 1, 0);
    let report = blocked(&told);
    assert_eq!(
        told_of(&report),
        [(WaitKind::Disk, "write", "/var/journal"), (WaitKind::Fault, "", "")]
    );
    assert_eq!(report.rows[1].wait.sleep, "page fault");
    // Of a part of the time, what is in it.
    let early = blocked_in(&told, range(0, 2 * MS));
    // What ends it is not in that time.
    assert_eq!(told_of(&early), [(WaitKind::Other, "write", "/var/journal")]);
    assert_eq!(early.rows[0].times.max, 2 * MS - 12);
}

#[test]
fn call_that_the_kernel_s_writing_thread_ends_waits_for_the_disk() {
    let of = |state: i64, opened_as: &'static str| {
        let mut told = Told::new(&[(5, 5)]);
        opened(&mut told, 4, opened_as);
        let writer = [U32(7), U32(7), U32(2), Text("kworker/u8:2")];
        told.on(7).tell(3, 1, "lttng_statedump_process_state", &writer).switch(4, 0, 0, 7);
        told.on(5).switch(10, 0, 0, 5).enter(11, 5, "write", &[U32(4), U64(9)]);
        told.switch(12, 5, state, 0).on(7).wake(MS, 7, 5).switch(2 * MS, 7, 0, 0);
        told.on(5).switch(3 * MS, 0, 0, 5).leave(4 * MS, 5, "write", 9).switch(5 * MS, 5, 0, 0);
        blocked(&told).rows.first().map(|row| row.kind)
    };
    assert_eq!(of(2, "/var/journal"), Some(WaitKind::Disk));
    assert_eq!(of(1, "/var/journal"), Some(WaitKind::Other));
    assert_eq!(of(2, "pipe:[7]"), Some(WaitKind::Other));
}

/// Adds a wait of `waiter` for the mutex at 0x10 on its CPU from `from` to `to`, which `by` ends on another CPU.
fn wait_for_mutex(told: &mut Told, waiter: u32, (from, to): (u64, u64), by: u32) {
    told.on(waiter as usize).switch(from - 2, 0, 0, waiter);
    told.enter(from - 1, waiter, "futex_wait", &[U64(0x10), U64(2)]);
    told.switch(from, waiter, 1, 0);
    told.on(by as usize).enter(to - 1, by, "futex_wake", &[U64(0x10)]);
    told.wake(to, by, waiter).leave(to + 1, by, "futex_wake", 1);
    told.on(waiter as usize).switch(to + 2, 0, 0, waiter);
    told.leave(to + 3, waiter, "futex_wait", 0);
}

/// Makes a chain of waits: 7 has the mutex up to 1000 ms, then 5 up to 1010 ms, which wakes 6, which wakes 8 at 1015
/// ms.
fn convoy() -> Told {
    let mut told = Told::new(&[(5, 5), (6, 5), (7, 5), (8, 5)]);
    told.on(7).switch(5, 0, 0, 7);
    wait_for_mutex(&mut told, 5, (100 * MS, 1000 * MS), 7);
    wait_for_mutex(&mut told, 6, (200 * MS, 1010 * MS), 5);
    wait_for_mutex(&mut told, 8, (300 * MS, 1015 * MS), 6);
    for thread in [5, 6, 7, 8] {
        told.on(thread as usize).switch(1100 * MS, thread, 1, 0);
    }
    told
}

#[test]
fn holder_of_a_mutex_is_who_had_it_and_not_the_neighbour_in_the_convoy() {
    let told = convoy();
    let report = blocked(&told);
    let row = &report.rows[0];
    assert_eq!(
        (row.kind, row.times.count, row.threads, &*row.wait.object),
        (WaitKind::Mutex, 3, 3, "0x10")
    );
    let (holder, _) = row.wait.woken_by.as_ref().unwrap();
    assert_eq!((holder.tid, row.wait.enders), (Some(7), 3));
    let had = |from: u64, to: u64| (to - from) * MS;
    let seven = had(100, 1000) + had(200, 1000) + had(300, 1000);
    assert!(row.wait.ended.abs_diff(seven) < 100, "{} {seven}", row.wait.ended);

    let counter = LockCounter::new(TimeRange::ALL, 3);
    let (counter, passed) = told.seen(TimeRange::ALL, counter);
    let report = counter.finish(passed.timeline.world(), locks::By::Lock, &|_| true);
    let holders: Vec<_> = report.rows[0]
        .holders
        .iter()
        .map(|part| (part.label.as_ref().unwrap().tid.unwrap(), part.total / MS, part.count))
        .collect();
    assert_eq!(holders, [(7, 2400, 3), (5, 20, 2), (6, 5, 1)]);
    let all: u64 = report.rows[0].holders.iter().map(|part| part.total).sum();
    assert_eq!(all, report.rows[0].waits.total);
    // Who ended each is another question.
    let wakers = report.rows[0].wakers.iter().map(|part| part.label.as_ref().unwrap().tid);
    assert_eq!(wakers.collect::<Vec<_>>(), [Some(7), Some(5), Some(6)]);
}

#[test]
fn lock_that_only_timers_ended_is_below_one_that_a_thread_ended() {
    let mut told = convoy();
    told.on(1).switch(6, 0, 0, 9);
    told.enter(7, 9, "futex_wait", &[U64(0x20), U64(0)]).switch(8, 9, 1, 0);
    told.tell(5000 * MS, 0, "irq_softirq_entry", &[U32(1)]).wake(5000 * MS, 0, 9);
    told.tell(5000 * MS, 0, "irq_softirq_exit", &[U32(1)]).switch(5001 * MS, 0, 0, 9);
    told.leave(5002 * MS, 9, "futex_wait", -110).switch(5003 * MS, 9, 1, 0);
    let counter = LockCounter::new(TimeRange::ALL, 3);
    let (counter, passed) = told.seen(TimeRange::ALL, counter);
    let report = counter.finish(passed.timeline.world(), locks::By::Lock, &|_| true);
    let rows: Vec<_> = report.rows.iter().map(|row| (row.address, row.for_others() > 0)).collect();
    assert_eq!(rows, [(Some(0x10), true), (Some(0x20), false)]);
    assert!(report.rows[1].waits.total > report.rows[0].waits.total);
}

#[test]
fn pause_of_a_runtime_is_one_row_of_all_threads_that_it_stopped() {
    // The word of what they wait for is none of a mutex.
    let mut told = Told::new(&[(5, 5), (6, 5)]);
    told.on(7).tell(
        2,
        1,
        "lttng_statedump_process_state",
        &[U32(7), U32(5), U32(1), Text("VM Thread")],
    );
    told.switch(3, 0, 0, 7);
    for (waiter, address) in [(5, 0x10), (6, 0x20)] {
        told.on(waiter as usize).switch(10, 0, 0, waiter);
        told.enter(11, waiter, "futex_wait", &[U64(address), U64(0)]);
        told.switch(12, waiter, 1, 0);
        let end = 50 * MS + u64::from(waiter);
        told.on(7).enter(end - 1, 7, "futex_wake", &[U64(address)]);
        told.wake(end, 7, waiter).leave(end, 7, "futex_wake", 1);
        told.on(waiter as usize).switch(end + 10, 0, 0, waiter);
        told.leave(end + 11, waiter, "futex_wait", 0).switch(end + 20, waiter, 1, 0);
    }
    let report = blocked(&told);
    assert_eq!(told_of(&report), [(WaitKind::Pause, "futex_wait", "")]);
    let row = &report.rows[0];
    assert_eq!((row.threads, row.times.count, row.times.max / MS), (2, 2, 49));
}

#[test]
fn condition_that_threads_mostly_wait_for_is_usual_and_one_that_stops_them_once_is_not() {
    let mut told = Told::new(&[(5, 5), (7, 7)]);
    let mut wait = |from: u64, to: u64, address: u64| {
        told.on(5).switch(from, 0, 0, 5).enter(from + 1, 5, "futex_wait", &[U64(address), U64(0)]);
        told.switch(from + 2, 5, 1, 0).on(7).switch(to - 2, 0, 0, 7);
        told.enter(to - 1, 7, "futex_wake", &[U64(address)]).wake(to, 7, 5);
        told.leave(to + 1, 7, "futex_wake", 1).switch(to + 2, 7, 0, 0);
        told.on(5).switch(to + 3, 0, 0, 5).leave(to + 4, 5, "futex_wait", 0).switch(
            to + 5,
            5,
            0,
            0,
        );
    };
    wait(10, 50 * MS, 0x10);
    wait(60 * MS, 100 * MS, 0x10);
    wait(110 * MS, 130 * MS, 0x20);
    let report = blocked(&told);
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|row| (&*row.wait.object, row.is_usual, row.times.max / MS))
        .collect();
    assert_eq!(rows, [("0x20", false, 19), ("0x10", true, 49)]);
}

/// Returns a row with these waits.
fn row(kind: WaitKind, waits: &[(u64, u64)]) -> Blocked {
    let mut times = Times::default();
    for &(count, nanos) in waits {
        (0..count).for_each(|_| times.add(nanos));
    }
    Blocked { kind, times, ..Blocked::default() }
}

#[test]
fn one_long_wait_hurts_more_than_many_short_ones_and_many_more_than_few() {
    let hurt = |waits: &[(u64, u64)]| row(WaitKind::Disk, waits).hurt();
    let outlier = hurt(&[(500, MS), (1, 120 * MS)]);
    assert!(outlier > hurt(&[(600, MS)]), "the longest");
    // The same longest, which is the usual length of the other.
    assert!(outlier > hurt(&[(2, 120 * MS)]), "how far from the median");
    assert_eq!(hurt(&[(2, 120 * MS)]), 120 * MS);
    assert_eq!(outlier / MS, 239);
    assert!(hurt(&[(7581, 300_000)]) > hurt(&[(1, 100 * MS)]), "the total");
    assert_eq!(row(WaitKind::Thread, &[(1, 160 * MS)]).hurt(), 10 * MS);
    let usual = Blocked { is_usual: true, ..row(WaitKind::Thread, &[(1, 256 * MS)]) };
    assert_eq!(usual.hurt(), MS);
    assert_eq!((hurt(&[]), hurt(&[(1, u64::MAX)])), (0, u64::MAX));
}

#[test]
fn waits_far_from_the_usual_are_those_of_ten_times_the_median() {
    assert_eq!(row(WaitKind::Disk, &[(50, MS), (3, 30 * MS), (1, 9 * MS)]).far(), 3);
    assert_eq!(row(WaitKind::Disk, &[(5, MS)]).far(), 0);
}

/// Makes a trace in which 5 starts 5 processes. 3 of them execute `git`, and one of these starts another `git`.
fn storm() -> Told {
    let mut told = Told::new(&[(5, 5)]);
    told.switch(10, 0, 0, 5);
    let fork = |told: &mut Told, time, parent: u32, child: u32| {
        let values = [U32(parent), U32(child), U32(child), Text("")];
        told.tell(time, parent, "sched_process_fork", &values);
    };
    for child in 21..=25 {
        fork(&mut told, u64::from(child), 5, child);
    }
    told.switch(30, 5, 1, 0);
    let mut time = 100;
    for child in [21, 22, 23, 24, 25, 26] {
        told.switch(time, 0, 0, child);
        if ![24, 25].contains(&child) {
            told.call((time + 1, time + 2), child, "execve", &[Text("/usr/bin/git")], 0);
        }
        if child == 21 {
            fork(&mut told, time + 3, 21, 26);
        }
        told.call((time + 4, time + 6), child, "openat", &[I64(-100), Text("x"), U32(0)], 3);
        let name = if [24, 25].contains(&child) { "sh" } else { "git" };
        let values = [Text(name), U32(child), I64(1), Text(""), U32(0)];
        told.tell(time + 10, child, "sched_switch", &values);
        time += 20;
    }
    told
}

#[test]
fn processes_that_began_are_counted_by_program_with_who_started_them() {
    let told = storm();
    let (_, passed) = told.seen(TimeRange::ALL, BlockedCounter::new(TimeRange::ALL));
    let world = passed.timeline.world();
    let begun = BegunProcesses::new(world, TimeRange::ALL, &|_| true);
    let programs: Vec<_> = begun
        .programs
        .iter()
        .map(|it| (&*it.name, it.count, it.starter.as_ref().map(|it| &*it.process)))
        .collect();
    // The one that another one began is not what that one started.
    assert_eq!(programs, [("git", 4, Some("t5")), ("sh", 2, Some("t5"))]);
    assert_eq!(begun.count, 6);
    let of_time = BegunProcesses::new(world, range(0, 22), &|_| true);
    assert_eq!(of_time.count, 2);
    let nobody = BegunProcesses::new(world, TimeRange::ALL, &|_| false);
    assert_eq!(nobody, BegunProcesses::default());
}

#[test]
fn processes_of_a_name_are_one_row_where_rows_are_by_name() {
    let told = storm();
    let shown = |label: &Label| (label.process.clone(), label.pid, label.processes);
    let git = ("git".to_owned(), None, 4);

    let counter = cpu::CpuCounter::new(range(0, 1000), 1);
    let (counter, passed) = told.seen(TimeRange::ALL, counter);
    let report =
        counter.finish(passed.timeline.world(), cpu::By::Together(Common::Name), &|_| true);
    let found: Vec<_> = report.rows.iter().map(|row| shown(&row.label)).collect();
    let alone = ("t5".to_owned(), Some(5), 0);
    assert_eq!(found, [git.clone(), ("sh".to_owned(), None, 2), alone]);
    assert_eq!(report.rows[0].running, 4 * 10);

    let counter = files::FileCounter::new(TimeRange::ALL, 0);
    let (counter, passed) = told.seen(TimeRange::ALL, counter);
    let report =
        counter.finish(passed.timeline.world(), files::By::Together(Common::Name), &|_| true);
    let row = report.rows.iter().find(|row| row.label.process == "git").unwrap();
    assert_eq!((shown(&row.label), row.opens), (git.clone(), 4));

    let counter = syscalls::SyscallCounter::new(TimeRange::ALL, 0);
    let (counter, passed) = told.seen(TimeRange::ALL, counter);
    let report = counter.finish(passed.timeline.world(), syscalls::By::Together(Common::Name));
    let is_open = |row: &&syscalls::Row| row.name == "openat" && row.label.process == "git";
    let row = report.rows.iter().find(is_open).unwrap();
    assert_eq!((shown(&row.label), row.times.count), (git, 4));
}

//! Tests of critical paths: through births, losses, rings of wakers and limits. Their times always add up.

use strata_ctf::read::TimeRange;

use super::told::{range, Told};
use crate::hand_tests::ORIGIN;
use crate::hand_tests::V::{Text, I64, U32, U64};
use crate::reports::wait::{AskedFor, History, Interrupted, PathPart, PathPartKind, ProgramSpan};

/// Returns the path of a thread between two times as lines `TID WHAT NANOS`, indented by two spaces for each level.
fn path(told: &Told, of: TimeRange, tid: i64, (from, to): (u64, u64)) -> Vec<String> {
    let (history, passed) = told.seen(of, History::new(of, None));
    let world = passed.timeline.world();
    let thread = world.threads.find(0, tid).unwrap();
    let (begin, end) = (ORIGIN + from as i64, ORIGIN + to as i64);
    let node = history.path(world, thread, begin, end);
    assert_eq!(node.nanos, to - from);
    if of == TimeRange::ALL && from < to {
        // Where there is no room for all, a second pass keeps what is of that time.
        let (none, _) = told.seen(of, History::new(of, None).with_room(0));
        assert!(none.left_out() > 0 && none.known(thread) == history.known(thread));
        let part = History::of(&ProgramSpan { thread, from: begin, to: end });
        let (part, passed) = told.seen(of, part);
        assert_eq!(part.path(passed.timeline.world(), thread, begin, end), node);
    }
    let mut lines = Vec::new();
    show(&node, 0, &mut lines);
    lines
}

fn show(node: &PathPart, depth: usize, lines: &mut Vec<String>) {
    let sum: u64 = node.parts.iter().map(|part| part.nanos).sum();
    assert!(node.parts.is_empty() || sum == node.nanos, "{node:?}");
    let what = match &node.what {
        PathPartKind::Whole => "whole".to_owned(),
        PathPartKind::Running => "running".to_owned(),
        PathPartKind::Interrupt(of) => {
            let Interrupted { kind, number, name } = &**of;
            let times = if node.count > 1 { format!(" {}×", node.count) } else { String::new() };
            format!("{kind} {number} {name}{times}")
        }
        PathPartKind::Runnable { woken: true } => "woken".to_owned(),
        PathPartKind::Runnable { woken: false } => "preempted".to_owned(),
        PathPartKind::Blocked(wait) => {
            format!("blocked {} {}", wait.call, wait.ended_by).trim_end().to_owned()
        }
        PathPartKind::Request(of) => {
            let AskedFor { disk, kind, bytes, sector } = &**of;
            let sector = sector.map(|sector| format!(" at {sector}"));
            format!("{kind:?} {bytes} {disk}{}", sector.unwrap_or_default())
        }
        PathPartKind::Phase(phase) => format!("{phase:?}"),
        PathPartKind::Unknown => "unknown".to_owned(),
    };
    let tid = node.label.tid.unwrap();
    let perhaps = if node.is_sure { "" } else { "?" };
    lines.push(format!("{:1$}{tid}{perhaps} {what} {2}", "", 2 * depth, node.nanos));
    node.parts.iter().for_each(|part| show(part, depth + 1, lines));
}

#[test]
fn path_of_a_child_goes_on_in_who_began_it() {
    let mut told = Told::new(&[(4, 4)]);
    told.switch(100, 0, 0, 4);
    told.tell(300, 4, "sched_process_fork", &[U32(4), U32(5), U32(5), Text("child")]);
    told.switch(350, 4, 1, 5).switch(500, 5, 1, 0);
    let wanted = ["5 whole 400", "  4 running 200", "  5 running 150", "  5 woken 50"];
    assert_eq!(path(&told, TimeRange::ALL, 5, (100, 500)), wanted);
    // What was before the trace nobody knows.
    let before = path(&told, TimeRange::ALL, 5, (0, 500));
    assert_eq!(before[0], "5 whole 500");
    assert!(
        before.contains(&"  4 unknown 99".to_owned())
            || before.iter().any(|it| it.contains("unknown"))
    );
}

#[test]
fn path_through_a_loss_is_unknown_there_and_known_around_it() {
    let mut told = Told::new(&[(5, 5), (6, 6)]);
    told.switch(100, 0, 0, 5).tell(200, 5, "kmem_kfree", &[U64(1)]).lose(4);
    told.switch(400, 6, 1, 5).switch(500, 5, 1, 0);
    let wanted = ["5 whole 400", "  5 running 200", "  5 unknown 200"];
    assert_eq!(path(&told, TimeRange::ALL, 5, (100, 500)), wanted);
}

/// Makes a trace in which thread 1 waits for 2, which waits for 3 and so on, up to a thread that runs. Each has a CPU
/// of its own.
fn chain(threads: u64) -> Told {
    let mut told = Told::new(&[]);
    for number in 1..=threads {
        let (tid, woken) = (number as u32, 2000 - 10 * number);
        told.on(number as usize - 1).switch(100, 0, 0, tid);
        if number < threads {
            told.enter(110, tid, "read", &[U32(0), U64(1)]).switch(200, tid, 1, 0);
            told.switch(woken + 2, 0, 0, tid).leave(woken + 3, tid, "read", 1);
        }
        if number > 1 {
            told.enter(woken + 4, tid, "write", &[U32(1), U64(1)]).wake(woken + 10, tid, tid - 1);
            told.leave(woken + 11, tid, "write", 1);
        }
        told.switch(2100, tid, 1, 0);
    }
    told
}

#[test]
fn path_of_those_who_wait_for_each_other_is_as_deep_as_they_are_up_to_the_limit() {
    for (threads, deepest) in [(1, 1), (2, 2), (5, 5), (33, 33), (34, 33), (60, 33)] {
        let lines = path(&chain(threads), TimeRange::ALL, 1, (100, 2100));
        let depth = |line: &String| (line.len() - line.trim_start().len()) / 2;
        assert_eq!(lines.iter().map(depth).max(), Some(deepest), "{threads}");
    }
    let lines = path(&chain(3), TimeRange::ALL, 1, (100, 2100));
    let wanted = [
        "1 whole 2000",
        "  1 blocked read thread 1790",
        "    2 blocked read thread 1780",
        "      3 running 1780",
        "    2 running 8",
        "    2 woken 2",
        "  1 running 208",
        "  1 woken 2",
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn path_below_a_waker_that_is_not_sure_is_marked_and_beside_it_is_not() {
    let mut told = Told::new(&[(5, 5), (6, 6), (7, 7)]);
    told.on(0).switch(100, 0, 0, 5).enter(110, 5, "read", &[U32(3), U64(1)]).switch(200, 5, 1, 0);
    // Of 6 no call is in the trace so far; it has waited for 7, which was in one.
    told.on(1).switch(100, 0, 0, 6).switch(210, 6, 1, 0);
    told.on(2).switch(90, 0, 0, 7).enter(220, 7, "write", &[U32(4), U64(1)]).wake(300, 7, 6);
    told.leave(310, 7, "write", 1);
    told.on(1).switch(320, 0, 0, 6).wake(400, 6, 5);
    told.on(0).switch(420, 0, 0, 5).leave(430, 5, "read", 1);
    told.enter(440, 5, "read", &[U32(3), U64(1)]).switch(450, 5, 1, 0);
    told.on(1).enter(460, 6, "write", &[U32(4), U64(1)]).wake(500, 6, 5).leave(510, 6, "write", 1);
    told.on(0).switch(520, 0, 0, 5).leave(530, 5, "read", 1).switch(600, 5, 1, 0);
    let wanted = [
        "5 whole 500",
        "  5 running 210",
        "  5 blocked read thread 200",
        "    6? running 90",
        "    6? blocked  thread 90",
        "      7? running 90",
        "    6? woken 20",
        "  5 blocked read thread 50",
        "    6 running 50",
        "  5 woken 40",
    ];
    assert_eq!(path(&told, TimeRange::ALL, 5, (100, 600)), wanted);
}

#[test]
fn wait_that_is_cut_off_by_the_time_asked_for_has_no_waker() {
    let mut told = Told::new(&[(5, 5), (6, 6)]);
    told.switch(100, 0, 0, 5).enter(110, 5, "read", &[U32(3), U64(1)]).switch(200, 5, 1, 6);
    told.enter(210, 6, "write", &[U32(4), U64(1)]).wake(400, 6, 5).leave(410, 6, "write", 1);
    told.switch(500, 6, 0, 5).leave(510, 5, "read", 1).switch(600, 5, 1, 0);
    let whole = [
        "5 whole 500",
        "  5 running 200",
        "  5 blocked read thread 200",
        "    6 running 200",
        "  5 woken 100",
    ];
    assert_eq!(path(&told, TimeRange::ALL, 5, (100, 600)), whole);
    // It was not over then: who ended it later is not what was waited for.
    let cut = ["5 whole 200", "  5 blocked read 100", "  5 running 100"];
    assert_eq!(path(&told, TimeRange::ALL, 5, (100, 300)), cut);
    // Only of a part of the time are states kept.
    let part = path(&told, range(450, 600), 5, (100, 600));
    assert!(
        part.contains(&"  5 unknown 300".to_owned()) && part.contains(&"  5 woken 100".to_owned()),
        "{part:?}"
    );
    assert_eq!(path(&told, TimeRange::ALL, 5, (300, 300)), ["5 whole 0"]);
}

#[test]
fn path_does_not_go_through_who_ran_when_the_time_of_a_wait_was_over() {
    let waits = |result| {
        let mut told = Told::new(&[(5, 5), (6, 6)]);
        told.switch(100, 0, 0, 5).enter(110, 5, "epoll_wait", &[U32(3), I64(5)]);
        told.switch(200, 5, 1, 6).enter(210, 6, "write", &[U32(4), U64(1)]).wake(400, 6, 5);
        told.leave(410, 6, "write", 1).switch(500, 6, 0, 5).leave(510, 5, "epoll_wait", result);
        told.switch(600, 5, 1, 0);
        path(&told, TimeRange::ALL, 5, (100, 600))[2..].join("")
    };
    assert_eq!(waits(1), "  5 blocked epoll_wait thread 200    6 running 200  5 woken 100");
    assert_eq!(waits(0), "  5 blocked epoll_wait timer 200  5 woken 100");
}

#[test]
fn states_for_which_there_is_no_room_are_counted_and_those_of_a_short_time_fit() {
    // 5 and 6 take turns: two states each time.
    let mut told = Told::new(&[(5, 5), (6, 6)]);
    for turn in 0..100 {
        let at = 100 + 20 * turn;
        told.switch(at, 6 * u32::from(turn > 0), 0, 5).switch(at + 10, 5, 0, 6);
    }
    told.switch(2100, 6, 0, 0);
    let left_out = |history: History| {
        let (history, passed) = told.seen(TimeRange::ALL, history);
        let thread = passed.timeline.world().threads.find(0, 5).unwrap();
        (
            history.left_out(),
            history.path(passed.timeline.world(), thread, ORIGIN + 1000, ORIGIN + 1100),
        )
    };
    let all = || History::new(TimeRange::ALL, None);
    let (out, whole) = left_out(all());
    let states = left_out(all().with_room(0)).0;
    assert_eq!((out, whole.parts.len()), (0, 2));
    assert!(states > 390, "{states}");
    assert_eq!(left_out(all().with_room(states as usize)), (0, whole.clone()));
    let (out, none) = left_out(all().with_room(states as usize - 1));
    assert_eq!((out, none.parts.len()), (1, 1), "{none:?}");
    let thread = |history: History| {
        let (_, passed) = told.seen(TimeRange::ALL, history);
        passed.timeline.world().threads.find(0, 5).unwrap()
    };
    let span = ProgramSpan { thread: thread(all()), from: ORIGIN + 1000, to: ORIGIN + 1100 };
    assert_eq!(left_out(History::of(&span).with_room(30)), (0, whole));
    assert!(left_out(History::of(&span).with_room(10)).0 > 0);
}

#[test]
fn what_is_known_of_a_thread_is_from_its_first_state_to_its_last() {
    let mut told = Told::new(&[(5, 5), (6, 6)]);
    told.switch(100, 0, 0, 5).switch(300, 5, 1, 6).switch(400, 6, 32, 0);
    let known = |range| {
        let (history, passed) = told.seen(range, History::new(range, None));
        let world = passed.timeline.world();
        let of = |tid| history.known(world.threads.find(0, tid).unwrap());
        assert_eq!(history.left_out(), 0);
        [of(5), of(6)].map(|known| known.map(|(from, to)| (from - ORIGIN, to - ORIGIN)))
    };
    assert_eq!(known(TimeRange::ALL), [Some((100, 400)), Some((300, 400))]);
    assert_eq!(known(range(150, 350)), [Some((150, 350)), Some((300, 350))]);
    assert_eq!(known(range(150, 250)), [Some((150, 250)), None]);
}

/// Adds a request to a disk, from its time in the queue (if it has one) to its completion, which wakes thread 5.
fn request(told: &mut Told, queued: Option<u64>, [issue, done, woken]: [u64; 3], sector: u64) {
    const VDA: u32 = 254 << 20;
    let place = [U32(VDA), U64(sector), U32(8)];
    let with = |more: &[crate::hand_tests::V]| [&place, more].concat();
    told.on(1);
    for (time, event) in [(queued, "block_rq_insert"), (Some(issue), "block_rq_issue")] {
        if let Some(time) = time {
            told.tell(time, 9, event, &with(&[Text("WS")]));
        }
    }
    told.on(0).tell(done - 1, 0, "irq_softirq_entry", &[U32(4)]);
    told.tell(done, 0, "block_rq_complete", &with(&[I64(0), Text("WS")]));
    told.wake(woken, 0, 5).tell(woken + 1, 0, "irq_softirq_exit", &[U32(4)]);
    told.switch(woken + 10, 0, 0, 5);
}

#[test]
fn path_of_a_wait_for_a_disk_goes_on_in_its_request_from_the_queue_to_the_end() {
    let mut told = Told::new(&[(5, 5), (9, 9)]);
    told.tell(2, 1, "lttng_statedump_block_device", &[U32(254 << 20), Text("vda")]);
    told.switch(100, 0, 0, 5).enter(110, 5, "write", &[U32(3), U64(1)]).switch(200, 5, 2, 0);
    request(&mut told, Some(250), [300, 600, 605], 4000);
    let wanted = [
        "5 whole 515",
        "  5 blocked write disk 405",
        "    5 Write 4096 vda at 4000 405",
        "      5 Device 300",
        "      5 Before 50",
        "      5 Queue 50",
        "      5 After 5",
        "  5 running 100",
        "  5 woken 10",
    ];
    assert_eq!(path(&told, TimeRange::ALL, 5, (100, 615)), wanted);
    // Asked for before it was waited for, and of which the queue is not told; what is cut off was not over.
    told.on(0).switch(700, 5, 2, 0);
    request(&mut told, None, [640, 900, 901], 5000);
    let wanted = [
        "5 whole 211",
        "  5 blocked write disk 201",
        "    5 Write 4096 vda at 5000 201",
        "      5 Device 200",
        "      5 After 1",
        "  5 woken 10",
    ];
    assert_eq!(path(&told, TimeRange::ALL, 5, (700, 911)), wanted);
    assert_eq!(path(&told, TimeRange::ALL, 5, (700, 850))[1..], ["  5 blocked write 150"]);
    // Both, and one of which nobody knows which request it was.
    told.on(0).switch(1000, 5, 2, 0).tell(1099, 0, "irq_softirq_entry", &[U32(4)]);
    told.wake(1100, 0, 5).tell(1101, 0, "irq_softirq_exit", &[U32(4)]).switch(1110, 0, 0, 5);
    let lines = path(&told, TimeRange::ALL, 5, (100, 1110));
    let wanted = [
        "  5 blocked write disk 706",
        "    5 Write 8192 vda 606",
        "      5 Device 500",
        "      5 Before 50",
        "      5 Queue 50",
        "      5 After 6",
        "    5 unknown 100",
    ];
    assert_eq!(lines[1..8], wanted, "{lines:?}");
}

#[test]
fn path_of_a_wait_that_has_timed_out_has_no_request_that_was_done_at_that_time() {
    let mut told = Told::new(&[(5, 5), (9, 9)]);
    told.switch(100, 0, 0, 5).enter(110, 5, "futex", &[U64(0x10), U32(0)]).switch(200, 5, 1, 0);
    // The timer's interrupt, of which no record tells, came while that of the disk was served.
    request(&mut told, None, [300, 600, 605], 4000);
    told.leave(620, 5, "futex", -110);
    let lines = path(&told, TimeRange::ALL, 5, (200, 615));
    assert_eq!(lines, ["5 whole 415", "  5 blocked futex timer 405", "  5 woken 10"]);
}

#[test]
fn path_has_the_interrupts_of_whoever_ran_apart_and_all_of_it_adds_up() {
    let mut told = Told::new(&[(5, 5), (6, 6)]);
    let irq = |told: &mut Told, (from, to): (u64, u64), tid, number| {
        told.tell(from, tid, "irq_handler_entry", &[U32(number), Text("eth0")]);
        told.tell(to, tid, "irq_handler_exit", &[U32(number)]);
    };
    let softirq = |told: &mut Told, time, tid, vec, begins| {
        let name = if begins { "irq_softirq_entry" } else { "irq_softirq_exit" };
        told.tell(time, tid, name, &[U32(vec)]);
    };
    told.switch(100, 0, 0, 5);
    irq(&mut told, (120, 130), 5, 36);
    irq(&mut told, (140, 145), 5, 36);
    told.enter(150, 5, "read", &[U32(3), U64(1)]).switch(200, 5, 1, 6);
    // In a softirq, an interrupt; and in a call, a softirq.
    softirq(&mut told, 220, 6, 3, true);
    irq(&mut told, (230, 234), 6, 37);
    softirq(&mut told, 250, 6, 3, false);
    told.enter(300, 6, "write", &[U32(4), U64(1)]).wake(310, 6, 5);
    softirq(&mut told, 320, 6, 9, true);
    softirq(&mut told, 330, 6, 9, false);
    told.leave(340, 6, "write", 1).switch(400, 6, 1, 0);
    // Of nobody: the CPU is idle.
    irq(&mut told, (410, 420), 0, 36);
    told.switch(450, 0, 0, 5);
    softirq(&mut told, 460, 5, 1, true);
    told.leave(500, 5, "read", 1).switch(600, 5, 1, 0);
    let all = path(&told, TimeRange::ALL, 5, (100, 600));
    // One of which the end is not in the trace is none.
    let wanted = [
        "5 whole 500",
        "  5 running 235",
        "  5 woken 140",
        "  5 blocked read thread 110",
        "    6 running 80",
        "    6 softirq 3 NET_RX 26",
        "    6 irq 37 eth0 4",
        "  5 irq 36 eth0 2× 15",
    ];
    assert_eq!(all, wanted);
    // What is cut off in the midst of it, wherever that is.
    for cut in [(122, 600), (144, 600), (150, 233), (235, 300), (240, 460), (100, 231)] {
        path(&told, TimeRange::ALL, 5, cut);
        path(&told, TimeRange::ALL, 6, cut);
    }
    let (history, passed) = told.seen(TimeRange::ALL, History::new(TimeRange::ALL, None));
    let world = passed.timeline.world();
    let [five, six] = [5, 6].map(|tid| world.threads.find(0, tid).unwrap());
    let node = |thread, (from, to): (u64, u64)| {
        history.path(world, thread, ORIGIN + from as i64, ORIGIN + to as i64)
    };
    for from in 100..600 {
        for to in (from + 1..=600).step_by(9) {
            show(&node(five, (from, to)), 0, &mut Vec::new());
            show(&node(six, (from, to)), 0, &mut Vec::new());
        }
    }
    let of_6 = |of| path(&told, TimeRange::ALL, 6, of)[1..].join("");
    assert_eq!(of_6((222, 232)), "  6 softirq 3 NET_RX 8  6 irq 37 eth0 2");
    assert_eq!(of_6((232, 260)), "  6 softirq 3 NET_RX 16  6 running 10  6 irq 37 eth0 2");
    // Two parts of one are one.
    let of = |range| {
        let parts = node(six, range).parts;
        parts.iter().map(|part| (part.nanos, part.count)).collect::<Vec<_>>()
    };
    assert_eq!(of((200, 300)), [(70, 1), (26, 1), (4, 1)]);
    assert_eq!(of((240, 250)), [(10, 1)]);
}

#[test]
fn path_without_records_of_interrupts_has_none() {
    let mut told = Told::new(&[(5, 5)]);
    told.switch(100, 0, 0, 5).switch(200, 5, 1, 0);
    assert_eq!(path(&told, TimeRange::ALL, 5, (100, 200)), ["5 whole 100", "  5 running 100"]);
    // They take as much room as states.
    let with = |interrupts: u64| {
        let mut told = Told::new(&[(5, 5)]);
        told.switch(100, 0, 0, 5);
        for at in 0..interrupts {
            told.tell(110 + 2 * at, 5, "irq_softirq_entry", &[U32(1)]);
            told.tell(111 + 2 * at, 5, "irq_softirq_exit", &[U32(1)]);
        }
        told.switch(200, 5, 1, 0);
        told
    };
    let left_out = |interrupts, room| {
        let history = History::new(TimeRange::ALL, None).with_room(room);
        with(interrupts).seen(TimeRange::ALL, history).0.left_out()
    };
    let states = left_out(0, 0);
    assert_eq!(left_out(20, 0), states + 20);
    assert_eq!((left_out(20, states as usize + 20), left_out(20, states as usize + 19)), (0, 1));
}

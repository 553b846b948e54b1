//! Tests of the short format, with traces written by hand and any number of threads.

mod later;
mod mine;

use std::ops::ControlFlow;

use strata_ctf::read::{Selection, TimeRange};
use strata_filter::Filter;

use crate::command_descendants::Mine;
use crate::hand_tests::{metadata, Hand, Packets, Record, V};
use crate::pipeline::{run, Job, PipelineOutput};
use crate::render::{ClockStyle, Format, Options};

const KERNEL: &str = "domain = \"kernel\";";
const ENTRY: u8 = 0;
const EXIT: u8 = 1;
const SWITCH: u8 = 2;
const EXEC_ENTRY: u8 = 3;
const EXEC_EXIT: u8 = 4;
const LATE: u8 = 5;
const DUMP: u8 = 6;
const FORK: u8 = 7;
const OTHER: u8 = 8;

fn events() -> Vec<(&'static str, &'static str)> {
    vec![
        ("syscall_entry_openat", "u32 dfd; string filename;"),
        ("syscall_exit_openat", "i64 ret;"),
        ("sched_switch", "string prev_comm; u32 prev_tid; string next_comm; u32 next_tid;"),
        ("syscall_entry_execve", "string filename;"),
        ("syscall_exit_execve", "i64 ret;"),
        ("syscall_text", "u8 argument; string text;"),
        ("lttng_statedump_process_state", "u32 tid; string name;"),
        (
            "sched_process_fork",
            "string parent_comm; u32 parent_tid; u32 parent_pid; string child_comm; u32 child_tid; u32 child_pid;",
        ),
        ("shop:sold", "u64 price;"),
    ]
}

fn options() -> Options {
    Options { format: Format::Short, clock: Some(ClockStyle::None), ..Options::default() }
}

struct Asked<'a> {
    options: Options,
    filter: Option<&'a str>,
    mine: bool,
    limit: u64,
}

impl Default for Asked<'_> {
    fn default() -> Self {
        Asked { options: options(), filter: None, mine: false, limit: u64::MAX }
    }
}

fn with(hand: &Hand, threads: usize, asked: &Asked<'_>) -> String {
    let reader = hand.reader();
    let filter = asked.filter.map(|text| Selection::new(&text.parse::<Filter>().unwrap()));
    let mine = asked.mine.then(|| Mine::read(&reader, threads, &|| false).unwrap());
    let job = Job {
        reader: &reader,
        range: TimeRange::ALL,
        options: asked.options.clone(),
        filter: filter.as_ref(),
        mine: mine.as_ref(),
        limit: asked.limit,
        threads,
        stop: &|| false,
    };
    let mut all = Vec::new();
    run(&job, &mut |output| {
        if let PipelineOutput::Text(text) = output {
            all.extend_from_slice(text);
        }
        ControlFlow::Continue(())
    });
    String::from_utf8(all).unwrap()
}

/// Returns the lines without the spaces of columns.
fn lines(hand: &Hand, asked: &Asked<'_>) -> Vec<String> {
    let one = with(hand, 1, asked);
    assert_eq!(one, with(hand, 3, asked), "more threads, other text");
    one.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn kernel(records: &[Record<'_>]) -> Hand {
    let hand = Hand::new();
    let text = metadata(KERNEL, "u32 tid;", &events());
    hand.trace("k", &text, &[Packets::new(0).packet(records)]);
    hand
}

/// A descriptor that is opened and read from; `says`: what the trace has of calls about descriptors.
fn opened(hand: &Hand, name: &str, says: &str, has_close: bool) {
    let all = [
        ("syscall_entry_openat", "u32 dfd; string filename;"),
        ("syscall_exit_openat", "i64 ret;"),
        ("syscall_entry_read", "u32 fd;"),
        ("syscall_exit_read", "i64 ret;"),
        ("sched_process_fork", "u32 parent_tid; u32 parent_pid; u32 child_tid; u32 child_pid;"),
        ("syscall_entry_close", "u32 fd;"),
    ];
    let text =
        metadata(&format!("{KERNEL} {says}"), "u32 tid;", &all[..5 + usize::from(has_close)]);
    let tid = V::U32(7);
    let fork = [V::U32(1), V::U32(1), V::U32(1), tid, tid];
    let records: [Record<'_>; 6] = [
        (4, 0, &fork),
        (0, 1, &[tid, CWD, V::Text("/a")]),
        (1, 2, &[tid, V::I64(3)]),
        (2, 3, &[tid, V::U32(3)]),
        (3, 4, &[tid, V::I64(0)]),
        (2, 5, &[tid, V::U32(3)]),
    ];
    hand.trace(name, &text, &[Packets::new(0).packet(&records[..])]);
}

/// The lines of what is read from it.
fn reads(traces: &[(&str, bool)]) -> Vec<String> {
    let hand = Hand::new();
    for (at, (says, has_close)) in traces.iter().enumerate() {
        opened(&hand, &format!("k{at}"), says, *has_close);
    }
    let lines = lines(&hand, &Asked::default());
    lines.into_iter().filter(|line| line.contains(" read(")).collect()
}

#[test]
fn descriptors_have_paths_only_where_all_calls_that_change_them_are_recorded() {
    let says = |calls: &str| format!("strata_descriptor_calls = \"{calls}\";");
    let (all, some, none) = (says("all"), says("some"), says("none"));
    let has = |traces: &[(&str, bool)]| {
        let reads = reads(traces);
        assert_eq!(reads.len(), 2 * traces.len(), "{reads:?}");
        reads.iter().filter(|line| line.contains("read(fd=3</a>)")).count()
    };
    // One that does not say what it has, or nothing that is known: whether `close` is there.
    assert_eq!((has(&[("", true)]), has(&[("", false)])), (2, 0));
    let unknown = says("most");
    assert_eq!((has(&[(&unknown, true)]), has(&[(&unknown, false)])), (2, 0));
    assert_eq!((has(&[(&all, true)]), has(&[(&all, false)])), (2, 2));
    assert_eq!((has(&[(&some, true)]), has(&[(&none, true)])), (0, 0));
    // What one trace leaves out of a machine is unknown in all of them; who records none leaves out nothing.
    assert_eq!(has(&[(&all, true), (&some, true)]), 0);
    assert_eq!(has(&[(&all, true), (&none, false)]), 2);
}

/// The value -100 in 32 bits, which stands for the working directory.
const CWD: V = V::U32(4_294_967_196);

#[test]
fn both_ends_of_a_call_are_one_line_where_it_began() {
    let hand = kernel(&[
        (SWITCH, 1, &[V::U32(9), V::Text("idle"), V::U32(0), V::Text("cat"), V::U32(7)]),
        (ENTRY, 2, &[V::U32(7), CWD, V::Text("/etc/\x1b[2J")]),
        (OTHER, 3, &[V::U32(8), V::U64(5)]),
        (EXIT, 1_502, &[V::U32(7), V::I64(3)]),
        (ENTRY, 1_600, &[V::U32(7), V::U32(4), V::Text("b")]),
        (EXIT, 1_700, &[V::U32(7), V::I64(-2)]),
    ]);
    assert_eq!(
        lines(&hand, &Asked::default()),
        [
            "?/9 sched_switch{prev_comm=\"idle\", prev_tid=0, next_comm=\"cat\", next_tid=7}",
            "cat/7 openat(dfd=AT_FDCWD, filename=\"/etc/\\e[2J\") = 3 <1.500us>",
            "?/8 shop:sold{price=5}",
            "cat/7 openat(dfd=4, filename=\"b\") = -1 ENOENT <100ns>",
        ]
    );
}

#[test]
fn call_without_its_other_end_says_so() {
    let hand = kernel(&[
        (EXIT, 1, &[V::U32(7), V::I64(3)]),
        (ENTRY, 2, &[V::U32(7), CWD, V::Text("a")]),
        (ENTRY, 3, &[V::U32(7), CWD, V::Text("b")]),
        (EXEC_EXIT, 4, &[V::U32(7), V::I64(-2)]),
        (ENTRY, 5, &[V::U32(7), CWD, V::Text("c")]),
    ]);
    assert_eq!(
        lines(&hand, &Asked::default()),
        [
            "?/7 <... openat resumed> = 3",
            "?/7 openat(dfd=AT_FDCWD, filename=\"a\") <unfinished ...>",
            "?/7 openat(dfd=AT_FDCWD, filename=\"b\") <unfinished ...>",
            "?/7 <... execve resumed> = -1 ENOENT",
            "?/7 openat(dfd=AT_FDCWD, filename=\"c\") <unfinished ...>",
        ]
    );
}

#[test]
fn calls_around_discarded_records_are_not_joined() {
    let hand = Hand::new();
    let text = metadata(KERNEL, "u32 tid;", &events());
    let packets = Packets::new(0)
        .packet(&[(ENTRY, 2, &[V::U32(7), CWD, V::Text("a")])])
        .discards(2)
        .packet(&[(EXIT, 9, &[V::U32(7), V::I64(5)])]);
    hand.trace("k", &text, &[packets]);
    assert_eq!(
        lines(&hand, &Asked::default()),
        [
            "?/7 openat(dfd=AT_FDCWD, filename=\"a\") <unfinished ...>",
            "?/7 <... openat resumed> = 5"
        ]
    );
}

#[test]
fn text_that_comes_late_stands_where_its_address_was() {
    let hand = kernel(&[
        (EXEC_ENTRY, 1, &[V::U32(7), V::Text("0x7ffe00")]),
        (LATE, 2, &[V::U32(7), V::U8(0), V::Text("/usr/bin/late")]),
        (EXEC_EXIT, 3, &[V::U32(7), V::I64(0)]),
        (OTHER, 4, &[V::U32(7), V::U64(1)]),
    ]);
    assert_eq!(
        lines(&hand, &Asked::default()),
        ["late/7 execve(filename=\"/usr/bin/late\") = 0 <2ns>", "late/7 shop:sold{price=1}"]
    );
}

#[test]
fn end_of_an_execve_without_its_begin_leaves_the_name_that_was_reported() {
    let hand = kernel(&[
        (SWITCH, 1, &[V::U32(9), V::Text("idle"), V::U32(0), V::Text("new"), V::U32(7)]),
        (EXEC_EXIT, 3, &[V::U32(7), V::I64(0)]),
        (OTHER, 4, &[V::U32(7), V::U64(1)]),
    ]);
    let shown = lines(&hand, &Asked { filter: Some("!sched_switch"), ..Asked::default() });
    assert_eq!(shown, ["new/7 <... execve resumed> = 0", "new/7 shop:sold{price=1}"]);
}

#[test]
fn what_was_there_when_recording_began_names_threads_and_is_shown_if_asked_for() {
    let hand = kernel(&[
        (DUMP, 1, &[V::U32(1), V::U32(7), V::Text("worker")]),
        (OTHER, 2, &[V::U32(7), V::U64(1)]),
    ]);
    assert_eq!(lines(&hand, &Asked::default()), ["worker/7 shop:sold{price=1}"]);
    let all = Asked { options: Options { all: true, ..options() }, ..Asked::default() };
    assert_eq!(lines(&hand, &all).len(), 2);
}

#[test]
fn name_that_is_reported_later_was_there_before_unless_it_is_new() {
    let dump = |tid, name| [V::U32(1), V::U32(tid), V::Text(name)];
    let (old, new) = (dump(7, "old"), dump(8, "new"));
    let hand = kernel(&[
        (OTHER, 1, &[V::U32(7), V::U64(1)]),
        (OTHER, 2, &[V::U32(8), V::U64(2)]),
        (EXEC_EXIT, 3, &[V::U32(8), V::I64(0)]),
        (DUMP, 4, &old),
        (DUMP, 5, &new),
        (OTHER, 6, &[V::U32(8), V::U64(3)]),
    ]);
    assert_eq!(
        lines(&hand, &Asked { filter: Some("shop:sold"), ..Asked::default() }),
        ["old/7 shop:sold{price=1}", "?/8 shop:sold{price=2}", "new/8 shop:sold{price=3}"]
    );
}

#[test]
fn filter_of_one_end_selects_the_call() {
    let hand = kernel(&[
        (ENTRY, 2, &[V::U32(7), CWD, V::Text("a")]),
        (EXIT, 3, &[V::U32(7), V::I64(3)]),
        (ENTRY, 4, &[V::U32(7), CWD, V::Text("b")]),
        (EXIT, 5, &[V::U32(7), V::I64(-13)]),
        (OTHER, 6, &[V::U32(7), V::U64(1)]),
    ]);
    let filtered = |filter| lines(&hand, &Asked { filter: Some(filter), ..Asked::default() });
    let a = "?/7 openat(dfd=AT_FDCWD, filename=\"a\") = 3 <1ns>";
    let b = "?/7 openat(dfd=AT_FDCWD, filename=\"b\") = -1 EACCES <1ns>";
    assert_eq!(filtered("ret < 0"), [b]);
    assert_eq!(filtered("filename == \"a\""), [a]);
    assert_eq!(filtered("syscall_exit_openat"), [a, b]);
    assert_eq!(filtered("price == 1"), ["?/7 shop:sold{price=1}"]);
    // Nobody waits for ends that are not shown.
    let limited = Asked { limit: 1, ..Asked::default() };
    assert_eq!(lines(&hand, &limited), [a]);
}

#[test]
fn who_runs_on_a_cpu_is_whose_the_records_are_that_do_not_say_it() {
    let hand = Hand::new();
    let text = metadata(KERNEL, "", &events());
    let switch = |prev: &'static str, from, next: &'static str, to| {
        [V::Text(prev), V::U32(from), V::Text(next), V::U32(to)]
    };
    let (to, back) = (switch("cat", 7, "dd", 8), switch("dd", 8, "cat", 7));
    let records: &[Record<'_>] = &[
        (ENTRY, 1, &[CWD, V::Text("a")]),
        (SWITCH, 2, &to),
        (ENTRY, 3, &[CWD, V::Text("b")]),
        (SWITCH, 4, &back),
        (EXIT, 5, &[V::I64(3)]),
    ];
    hand.trace("k", &text, &[Packets::new(0).packet(records)]);
    assert_eq!(
        lines(&hand, &Asked { filter: Some("!sched_switch"), ..Asked::default() }),
        [
            "? openat(dfd=AT_FDCWD, filename=\"a\") = 3 <4ns>",
            "dd/8 openat(dfd=AT_FDCWD, filename=\"b\") <unfinished ...>",
        ]
    );
}

#[test]
fn mine_is_the_command_and_what_it_started() {
    let hand = Hand::new();
    let recorded = "domain = \"kernel\"; strata_recorder = 10; strata_recorded = \"everyone\";";
    let text = metadata(recorded, "u32 tid;", &events());
    let fork = |parent: u32, child: u32| {
        let name = if parent == 20 { "c" } else { "p" };
        [
            V::U32(parent),
            V::Text(name),
            V::U32(parent),
            V::U32(parent),
            V::Text("c"),
            V::U32(child),
            V::U32(child),
        ]
    };
    let (own, command, child, other) = (fork(10, 10), fork(10, 20), fork(20, 21), fork(5, 6));
    let sold = |tid| [V::U32(tid), V::U64(u64::from(tid))];
    let all: Vec<_> = [10, 20, 21, 6].into_iter().map(sold).collect();
    let mut records: Vec<Record<'_>> =
        vec![(FORK, 1, &own), (FORK, 2, &command), (FORK, 3, &child), (FORK, 4, &other)];
    records.extend(all.iter().map(|fields| (OTHER, 5, &fields[..])));
    hand.trace("k", &text, &[Packets::new(0).packet(&records)]);
    let shown = lines(&hand, &Asked { mine: true, filter: Some("shop:*"), ..Asked::default() });
    assert_eq!(shown, ["c/20 shop:sold{price=20}", "c/21 shop:sold{price=21}"]);
    // Other formats know it, too.
    let text = Options { format: Format::Text, ..Options::default() };
    let text = with(&hand, 2, &Asked { mine: true, options: text, ..Asked::default() });
    assert_eq!(text.lines().count(), 4);
}

/// Calls of threads that last longer and longer, through slices, blocks and chunks of every worker.
#[test]
fn long_calls_are_the_same_by_any_number_of_threads() {
    const PACKETS: u64 = 70;
    let hand = Hand::new();
    let text = metadata(KERNEL, "u32 tid;", &events());
    let mut streams = Vec::new();
    for cpu in 0..2_u64 {
        let mut packets = Packets::new(cpu);
        let mut time = cpu;
        let mut is_in_call = [false; 8];
        for packet in 0..PACKETS {
            let mut all: Vec<(u8, u64, Vec<V>)> = Vec::new();
            for number in 0..500_u64 {
                time += 2;
                let count = 1 + packet * 500 + number;
                // Thread n is in a call for some 4^n records.
                let thread = (count.trailing_zeros() / 2).min(7);
                let tid = 1 + 2 * thread + cpu as u32;
                let is_in = &mut is_in_call[thread as usize];
                all.push(match std::mem::replace(is_in, !*is_in) {
                    true => (EXIT, time, vec![V::U32(tid), V::I64(number as i64)]),
                    false => (ENTRY, time, vec![V::U32(tid), CWD, V::Text("a")]),
                });
                // Longer than anybody waits for.
                let whole =
                    [(0, 0), (PACKETS - 1, 499)].iter().position(|it| *it == (packet, number));
                match whole {
                    Some(0) => {
                        all.push((ENTRY, time, vec![V::U32(99 + cpu as u32), CWD, V::Text("long")]))
                    }
                    Some(_) => all.push((EXIT, time, vec![V::U32(99 + cpu as u32), V::I64(99)])),
                    None => {}
                }
                if number == 77 {
                    let names = [V::Text("x"), V::U32(0), V::Text("named"), V::U32(tid)];
                    all.push((SWITCH, time, [&[V::U32(0)][..], &names].concat()));
                }
            }
            let records: Vec<Record<'_>> =
                all.iter().map(|(kind, time, values)| (*kind, *time, &values[..])).collect();
            packets = packets.packet(&records);
        }
        streams.push(packets);
    }
    hand.trace("k", &text, &streams);
    let asked = Asked {
        options: Options { clock: Some(ClockStyle::Cycles), ..options() },
        ..Asked::default()
    };
    let one = with(&hand, 1, &asked);
    let times: Vec<&str> = one.lines().map(|line| line.get(..20).unwrap()).collect();
    assert!(times.is_sorted());
    for what in [
        "= 77 <",
        "<... openat resumed> = 99\n",
        "filename=\"long\") <unfinished ...>\n",
        "<unfinished ...>",
        "named/",
    ] {
        assert!(one.contains(what), "{what}");
    }
    for threads in [2, 5] {
        assert!(one == with(&hand, threads, &asked), "{threads} threads, other text");
    }
    let cut = Asked { options: Options { width: Some(40), ..options() }, ..Asked::default() };
    let cut = with(&hand, 2, &cut);
    assert_eq!(cut.lines().count(), times.len());
    assert!(cut.lines().all(|line| line.chars().count() <= 40));
}

/// Calls of perf's trace, which have numbers: of a machine, with other events, and records of thread 7.
fn numbered(machine: &str, others: &[(&str, &str)], records: &[Record<'_>]) -> Hand {
    let hand = Hand::new();
    let mut events = vec![
        ("raw_syscalls:sys_enter", "u32 common_pid; i64 id; u64 args[2];"),
        ("raw_syscalls:sys_exit", "u32 common_pid; i64 id; i64 ret;"),
    ];
    events.extend(others);
    let text = metadata(&format!("machine = \"{machine}\";"), "", &events);
    hand.trace("p", &text, &[Packets::new(0).packet(records)]);
    hand
}

#[test]
fn calls_that_have_numbers_are_lines_with_their_names_as_the_machine_numbers_them() {
    let seven = V::U32(7);
    let enter = |number| [seven, V::I64(number), V::U64(3), V::U64(9)];
    let leave = |number, ret| [seven, V::I64(number), V::I64(ret)];
    let (read, exit) = (enter(0), enter(60));
    let (done, failed, other) = (leave(0, 12), leave(0, -11), leave(1, 5));
    // Of x32, of a signal's handler that returns, of a program of 32 bits, and none.
    let (x32, x32_done) = (enter(0x4000_0027), leave(0x4000_0027, 7));
    let (returns, returned) = (enter(15), leave(-1, 0));
    let (narrow, narrow_done) = (enter(403), leave(403, 0));
    let none = enter(99_999);
    let records: [Record<'_>; 13] = [
        (0, 1, &read),
        (1, 2, &done),
        (0, 3, &read),
        (1, 4, &other),
        (1, 5, &failed),
        (0, 6, &x32),
        (1, 7, &x32_done),
        (0, 8, &returns),
        (1, 9, &returned),
        (0, 10, &narrow),
        (1, 11, &narrow_done),
        (0, 12, &none),
        (0, 13, &exit),
    ];
    let found = lines(&numbered("x86_64", &[], &records), &Asked::default());
    let wanted = [
        "?/7 read(args=[3, 9]) = 12 <1ns>",
        "?/7 read(args=[3, 9]) <unfinished ...>",
        "?/7 <... write resumed> = 5",
        "?/7 <... read resumed> = -1 EAGAIN",
        "?/7 getpid(args=[3, 9]) = 7 <1ns>",
        "?/7 rt_sigreturn(args=[3, 9]) = 0 <1ns>",
        "?/7 syscall_403(args=[3, 9]) = 0 <1ns>",
        "?/7 raw_syscalls:sys_enter{id=99999, args=[3, 9]}",
        "?/7 exit(args=[3, 9]) = ?",
    ];
    assert_eq!(found, wanted);
    let of = |machine| lines(&numbered(machine, &[], &records[..2]), &Asked::default());
    assert_eq!(of("aarch64"), ["?/7 io_setup(args=[3, 9]) = 12 <1ns>"]);
    assert_eq!(of("s390x"), ["?/7 syscall_0(args=[3, 9]) = 12 <1ns>"]);
    // Where the same calls have names they are what is shown; others keep theirs.
    let named = [("syscalls:sys_enter_read", "u32 common_pid; u64 fd;")];
    let both = lines(&numbered("x86_64", &named, &records[..7]), &Asked::default());
    assert_eq!(both[0], "?/7 raw_syscalls:sys_enter{id=0, args=[3, 9]}");
    assert_eq!(both[1], "?/7 raw_syscalls:sys_exit{id=0, ret=12}");
    assert_eq!(both.last().unwrap(), "?/7 getpid(args=[3, 9]) = 7 <1ns>");
}

#[test]
fn end_that_a_filter_never_selects_is_not_waited_for_of_calls_that_have_numbers_either() {
    let seven = V::U32(7);
    let (enter, leave) = ([seven, V::I64(0), V::U64(3), V::U64(9)], [seven, V::I64(0), V::I64(-5)]);
    let hand = numbered("x86_64", &[], &[(0, 1, &enter), (1, 2, &leave)]);
    let of = |filter| lines(&hand, &Asked { filter: Some(filter), ..Asked::default() });
    assert_eq!(of("ret < 0"), ["?/7 read(args=[3, 9]) = -1 EIO <1ns>"]);
    assert_eq!(of("id == 0 && ret == 0"), [""; 0]);
    assert_eq!(of("raw_syscalls:sys_enter"), ["?/7 read(args=[3, 9]) = -1 EIO <1ns>"]);
}

#[test]
fn fields_of_a_program_are_shown_whatever_their_names_and_those_of_perf_are_not() {
    let fields = "u32 common_pid; u32 perf_id; u64 callstack_user[2]; u64 user_registers[1]; \
                  u64 user_stack[1];";
    let values = [1, 2, 3, 4].map(V::U32);
    let of = |environment: &str| {
        let hand = Hand::new();
        let text = metadata(environment, "u32 vtid;", &[("shop:sold", fields)]);
        let rest = [V::U64(4), V::U64(5), V::U64(6), V::U64(7)];
        let values = [&values[..3], &rest].concat();
        hand.trace("t", &text, &[Packets::new(0).packet(&[(0, 1, &values)])]);
        lines(&hand, &Asked::default())
    };
    let own = of("domain = \"ust\"; vpid = 9;");
    assert_eq!(own.len(), 1, "{own:?}");
    let wanted = "shop:sold{common_pid=2, perf_id=3, callstack_user=[4, 5], user_registers=[6], \
                  user_stack=[7]}";
    assert!(own[0].ends_with(wanted), "{own:?}");
    let others = of("tracer_name = \"perf\";");
    let wanted = "shop:sold{user_registers=[6], user_stack=[7]}";
    assert!(others[0].contains(wanted), "{others:?}");
}

#[test]
fn name_of_a_thread_is_that_which_it_gave_itself_last() {
    let hand = Hand::new();
    let rename = "u32 pid; string oldcomm; string newcomm;";
    let text = metadata(
        KERNEL,
        "u32 tid;",
        &[
            ("task_rename", rename),
            ("syscall_entry_read", "u32 fd;"),
            ("syscall_exit_read", "i64 ret;"),
        ],
    );
    let title = |title| [V::U32(7), V::U32(7), V::Text("before"), V::Text(title)];
    let [idle, busy] = ["worker: idle", "worker: busy"].map(title);
    let (entry, exit) = ([V::U32(7), V::U32(3)], [V::U32(7), V::I64(0)]);
    let records: [Record<'_>; 6] = [
        (0, 1, &idle),
        (1, 2, &entry),
        (2, 3, &exit),
        (0, 4, &busy),
        (1, 5, &entry),
        (2, 6, &exit),
    ];
    hand.trace("k", &text, &[Packets::new(0).packet(&records)]);
    let found = lines(&hand, &Asked::default());
    let calls: Vec<&String> = found.iter().filter(|line| line.contains("read(")).collect();
    assert_eq!(calls.len(), 2, "{found:?}");
    assert!(calls[0].starts_with("worker: idle/7 read("), "{found:?}");
    assert!(calls[1].starts_with("worker: busy/7 read("), "{found:?}");
}

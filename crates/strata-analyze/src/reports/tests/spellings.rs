//! Tests that traces of the same events by several tracers have the same results.

use strata_ctf::read::{Reader, TimeRange};

use crate::hand_tests::V::{self, Text, I64, U32, U64};
use crate::hand_tests::{metadata, Hand, Packets, Record};
use crate::reports::files::{self, FileCounter};
use crate::reports::syscalls::{self, SyscallCounter};
use crate::reports::threads::ThreadCounter;
use strata_timeline::{pass, Asked};
use strata_timeline::{Observer, World};

/// The form in which a tracer records: its environment, its context fields, and its events.
struct Tracer {
    environment: &'static str,
    context: &'static str,
    switch: (&'static str, &'static str),
    waking: (&'static str, &'static str),
    enter: (&'static str, &'static str),
    leave: (&'static str, &'static str),
    /// The name that the call has then.
    call: &'static str,
    /// True if the record of the call has its descriptor.
    has_descriptor: bool,
    issue: (&'static str, &'static str),
    complete: (&'static str, &'static str),
}

const LTTNG: Tracer = Tracer {
    environment: "domain = \"kernel\";",
    context: "u32 tid;",
    switch: (
        "sched_switch",
        "string prev_comm; i64 prev_tid; i64 prev_state; string next_comm; i64 next_tid;",
    ),
    waking: ("sched_waking", "string comm; i64 tid;"),
    enter: ("syscall_entry_read", "u64 fd;"),
    leave: ("syscall_exit_read", "i64 ret;"),
    call: "read",
    has_descriptor: true,
    issue: ("block_rq_issue", "u32 dev; u64 sector; u32 nr_sector; string rwbs;"),
    complete: ("block_rq_complete", "u32 dev; u64 sector; u32 nr_sector; i64 error;"),
};

/// The tracer perf, whose traces only the events' names show to be the kernel's.
const PERF: Tracer = Tracer {
    environment: "",
    context: "u32 perf_tid;",
    switch: (
        "sched:sched_switch",
        "string prev_comm; i64 prev_pid; i64 prev_state; string next_comm; i64 next_pid;",
    ),
    waking: ("sched:sched_waking", "string comm; i64 pid;"),
    enter: ("syscalls:sys_enter_read", "u64 fd;"),
    leave: ("syscalls:sys_exit_read", "i64 ret;"),
    issue: ("block:block_rq_issue", "u32 dev; u64 sector; u32 nr_sector; string rwbs;"),
    complete: ("block:block_rq_complete", "u32 dev; u64 sector; u32 nr_sector; i64 error;"),
    ..LTTNG
};

/// The kernel's own: calls have numbers.
const RAW: Tracer = Tracer {
    enter: ("raw_syscalls:sys_enter", "i64 id;"),
    leave: ("raw_syscalls:sys_exit", "i64 id; i64 ret;"),
    call: "syscall_0",
    has_descriptor: false,
    ..PERF
};

/// A raw tracer on machines that give their type: number 0 is another call on each.
const RAW_X86: Tracer =
    Tracer { environment: "domain = \"kernel\"; machine = \"x86_64\";", call: "read", ..RAW };
const RAW_ARM: Tracer =
    Tracer { environment: "domain = \"kernel\"; machine = \"aarch64\";", call: "io_setup", ..RAW };
const RAW_OTHER: Tracer = Tracer { environment: "machine = \"s390x\";", ..RAW };

impl Tracer {
    /// 5 reads from 20 to 100, and is blocked in that from 30 to 60, when 7 wakes it; a disk is asked meanwhile.
    fn tell<T>(&self, ask: impl FnOnce(&Reader) -> T) -> T {
        let events = [self.switch, self.waking, self.enter, self.leave, self.issue, self.complete];
        let switch = |prev: u32, state, next: i64| {
            vec![U32(prev), Text("a"), I64(prev.into()), I64(state), Text("b"), I64(next)]
        };
        let number = |value| if self.has_descriptor { U64(value) } else { I64(0) };
        let mut leave = vec![U32(5), I64(42)];
        if !self.has_descriptor {
            leave.insert(1, I64(0));
        }
        let place = [U32(8 << 20), U64(100), U32(8)];
        let of = |tid, rest: &[V]| [&[U32(tid)], &place[..], rest].concat();
        let story: Vec<(u8, u64, Vec<V>)> = vec![
            (0, 10, switch(0, 0, 5)),
            (2, 20, vec![U32(5), number(3)]),
            (4, 25, of(5, &[Text("R")])),
            (0, 30, switch(5, 1, 7)),
            (2, 40, vec![U32(7), number(4)]),
            (5, 50, of(7, &[I64(0)])),
            (1, 60, vec![U32(7), Text("a"), I64(5)]),
            (0, 80, switch(7, 1, 5)),
            (3, 100, leave),
            (0, 110, switch(5, 1, 0)),
        ];
        let records: Vec<Record<'_>> =
            story.iter().map(|(id, time, values)| (*id, *time, &values[..])).collect();
        let hand = Hand::new();
        let text = metadata(self.environment, self.context, &events);
        ask(&hand.trace("t", &text, &[Packets::new(0).packet(&records)]).reader())
    }

    fn seen<O: Observer, T>(&self, mut seen: O, finish: impl FnOnce(O, &World) -> T) -> T {
        self.tell(|reader| {
            let asked = Asked::default();
            let passed = pass(reader, &asked, &mut seen, &|_| true, &mut |_| {}).unwrap();
            assert_eq!((passed.records, passed.damage), (10, 0));
            finish(seen, passed.timeline.world())
        })
    }
}

#[test]
fn states_and_their_reasons_are_the_same_of_every_tracer() {
    for tracer in [LTTNG, PERF, RAW, RAW_X86, RAW_ARM, RAW_OTHER] {
        let counter = ThreadCounter::new(TimeRange::ALL, 9);
        let report = tracer.seen(counter, |seen, world| seen.finish(world, false));
        let row = report.rows.iter().find(|row| row.label.tid == Some(5)).unwrap();
        let name = tracer.switch.0;
        assert_eq!((row.running, row.woken, row.blocked), (20 + 30, 20, 30), "{name}");
        let wait = &row.waits[0];
        let object = if tracer.has_descriptor { "descriptor 3" } else { "" };
        assert_eq!((wait.call.as_str(), wait.object.as_str()), (tracer.call, object), "{name}");
        let woken_by = wait.woken_by.as_ref().map(|(label, count)| (label.tid, *count));
        assert_eq!((woken_by, wait.ended_by), (Some((Some(7), 1)), "thread"), "{name}");
    }
}

#[test]
fn calls_are_the_same_of_every_tracer_but_for_names_that_it_does_not_say() {
    for tracer in [LTTNG, PERF, RAW, RAW_X86, RAW_ARM, RAW_OTHER] {
        let counter = SyscallCounter::new(TimeRange::ALL, 9);
        let report = tracer.seen(counter, |seen, world| seen.finish(world, syscalls::By::Name));
        let [row] = report.rows.as_slice() else { panic!("{report:?}") };
        assert_eq!((row.name.as_str(), row.times.count, row.times.total), (tracer.call, 1, 80));
        assert_eq!((report.slowest[0].result, report.unpaired.no_end), (Some(42), 1));
    }
}

#[test]
fn disks_are_the_same_of_every_tracer() {
    for tracer in [LTTNG, PERF, RAW] {
        let counter = FileCounter::new(TimeRange::ALL, 9);
        let finish =
            |seen: FileCounter, world: &World| seen.finish(world, files::By::File, &|_| true);
        let report = tracer.seen(counter, finish);
        let [disk] = report.disks.as_slice() else { panic!("{}: {report:?}", tracer.issue.0) };
        let found = (disk.name.as_str(), disk.kind, disk.bytes, disk.times.total, disk.errors);
        assert_eq!(found, ("8:0", "read", 4096, 25, 0));
        let bytes = u64::from(tracer.has_descriptor) * 42;
        assert_eq!(report.all.read, bytes, "{}", tracer.issue.0);
    }
}

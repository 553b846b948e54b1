//! Tests of the reports on files, locks, interrupts and CPUs, with a trace written by hand whose results are known.

use strata_ctf::read::{Reader, TimeRange};

use super::cpu::{self, CpuCounter};
use super::files::{self, FileCounter};
use super::irq::{self, IrqCounter};
use super::locks::{self, LockCounter};
use super::threads::{self, ThreadCounter};
use crate::hand_tests::V::{Text, I64, U32, U64};
use crate::hand_tests::{metadata, Hand, Packets, Record, ORIGIN, V};
use strata_report::Label;
use strata_timeline::{pass, Asked, Passed};

const SWITCH: u8 = 0;
const WAKING: u8 = 1;
const OPEN: u8 = 2;
const OPEN_END: u8 = 3;
const READ: u8 = 4;
const READ_END: u8 = 5;
const SEND: u8 = 6;
const SEND_END: u8 = 7;
const FUTEX: u8 = 8;
const FUTEX_END: u8 = 9;
const IRQ: u8 = 10;
const IRQ_END: u8 = 11;
const RAISE: u8 = 12;
const SOFT: u8 = 13;
const SOFT_END: u8 = 14;
const ISSUE: u8 = 15;
const COMPLETE: u8 = 16;
const THERE: u8 = 17;
const EVENTS: [(&str, &str); 18] = [
    (
        "sched_switch",
        "string prev_comm; u32 prev_tid; i64 prev_state; string next_comm; u32 next_tid;",
    ),
    ("sched_waking", "string comm; u32 tid;"),
    ("syscall_entry_openat", "i64 dfd; string filename; u32 flags;"),
    ("syscall_exit_openat", "i64 ret;"),
    ("syscall_entry_read", "u32 fd; u64 count;"),
    ("syscall_exit_read", "i64 ret;"),
    ("syscall_entry_sendfile", "u32 out_fd; u32 in_fd; u64 count;"),
    ("syscall_exit_sendfile", "i64 ret;"),
    ("syscall_entry_futex", "u64 uaddr; u32 op;"),
    ("syscall_exit_futex", "i64 ret;"),
    ("irq_handler_entry", "u32 irq; string name;"),
    ("irq_handler_exit", "u32 irq; u32 ret;"),
    ("irq_softirq_raise", "u32 vec;"),
    ("irq_softirq_entry", "u32 vec;"),
    ("irq_softirq_exit", "u32 vec;"),
    ("block_rq_issue", "u32 dev; u64 sector; u32 nr_sector; string rwbs;"),
    ("block_rq_complete", "u32 dev; u64 sector; u32 nr_sector; u32 error;"),
    ("lttng_statedump_process_state", "u32 tid; u32 pid; u32 ppid; string name;"),
];

/// Returns the records of threads 5 and 6 of process 5, and of process 7, on one CPU from 100 to 1100.
fn told() -> Vec<Packets> {
    let mut all: Vec<(u8, u64, Vec<V>)> = Vec::new();
    let mut tell = |id, time, tid, values: &[V]| {
        all.push((id, time, [&[U32(tid)], values].concat()));
    };
    for (tid, pid, name) in [(5, 5, "app"), (6, 5, "six"), (7, 7, "far")] {
        tell(THERE, 100, 1, &[U32(tid), U32(pid), U32(1), Text(name)]);
    }
    let switch = |prev, state, next| [Text("x"), U32(prev), I64(state), Text("x"), U32(next)];
    tell(SWITCH, 100, 0, &switch(0, 0, 5));
    tell(OPEN, 110, 5, &[I64(-100), Text("/a"), U32(0)]);
    tell(OPEN_END, 120, 5, &[I64(3)]);
    tell(OPEN, 120, 5, &[I64(-100), Text("/none"), U32(0)]);
    tell(OPEN_END, 130, 5, &[I64(-2)]);
    tell(READ, 130, 5, &[U32(3), U64(100)]);
    // It interrupts 5; what is left to do begins 20 after it was raised, and is interrupted in turn.
    tell(IRQ, 140, 5, &[U32(36), Text("disk")]);
    tell(RAISE, 145, 5, &[U32(4)]);
    tell(IRQ_END, 150, 5, &[U32(36), U32(1)]);
    tell(SOFT, 165, 5, &[U32(4)]);
    tell(IRQ, 170, 5, &[U32(36), Text("disk")]);
    tell(IRQ_END, 175, 5, &[U32(36), U32(1)]);
    tell(SOFT_END, 185, 5, &[U32(4)]);
    tell(READ_END, 200, 5, &[I64(60)]);
    tell(SEND, 200, 5, &[U32(9), U32(3), U64(50)]);
    tell(SEND_END, 230, 5, &[I64(50)]);
    tell(ISSUE, 240, 5, &[U32(254 << 20), U64(8), U32(4), Text("R")]);
    tell(FUTEX, 300, 5, &[U64(0x1000), U32(0x80)]);
    tell(SWITCH, 310, 5, &switch(5, 1, 6));
    tell(FUTEX, 400, 6, &[U64(0x1000), U32(0x81)]);
    tell(WAKING, 410, 6, &[Text("x"), U32(5)]);
    tell(FUTEX_END, 420, 6, &[I64(1)]);
    tell(SWITCH, 500, 6, &switch(6, 0, 5));
    tell(FUTEX_END, 510, 5, &[I64(0)]);
    // It waits again, and nobody comes.
    tell(FUTEX, 520, 5, &[U64(0x1000), U32(0x89)]);
    tell(SWITCH, 600, 5, &switch(5, 1, 0));
    tell(IRQ, 620, 0, &[U32(40), Text("net")]);
    tell(IRQ_END, 650, 0, &[U32(40), U32(1)]);
    tell(COMPLETE, 660, 0, &[U32(254 << 20), U64(8), U32(4), U32(0)]);
    tell(WAKING, 900, 0, &[Text("x"), U32(5)]);
    tell(SWITCH, 910, 0, &switch(0, 0, 5));
    tell(FUTEX_END, 920, 5, &[I64(-110)]);
    tell(SWITCH, 1000, 5, &switch(5, 1, 7));
    tell(SWITCH, 1100, 7, &switch(7, 1, 0));
    let records: Vec<Record<'_>> =
        all.iter().map(|(id, time, values)| (*id, *time, values.as_slice())).collect();
    vec![Packets::new(0).packet(&records)]
}

fn with<T>(ask: impl FnOnce(&Reader) -> T) -> T {
    let hand = Hand::new();
    let text = metadata("domain = \"kernel\"; hostname = \"box\";", "u32 tid;", &EVENTS);
    ask(&hand.trace("t", &text, &told()).reader())
}

fn run<O: strata_timeline::Observer>(reader: &Reader, filter: &str, seen: &mut O) -> Passed {
    let filter = (!filter.is_empty()).then(|| filter.parse::<strata_filter::Filter>().unwrap());
    let selection = filter.as_ref().map(strata_ctf::read::Selection::new);
    let asked = Asked { range: TimeRange::ALL, selection };
    pass(reader, &asked, seen, &|_| true, &mut |_| {}).unwrap()
}

fn files(by: files::By, filter: &str) -> files::FilesReport {
    with(|reader| {
        let mut counter = FileCounter::new(TimeRange::ALL, 2);
        let passed = run(reader, filter, &mut counter);
        counter.finish(passed.timeline.world(), by, &|_| true)
    })
}

#[test]
fn files_have_the_bytes_that_calls_return_on_both_sides_of_a_copy() {
    let report = files(files::By::File, "");
    let row = |name: &str| {
        let row = report.rows.iter().find(|row| row.name == name).unwrap();
        (row.times.count, row.times.total, row.read, row.written, row.errors, row.opens)
    };
    assert_eq!(row("/a"), (3, 10 + 70 + 30, 60 + 50, 0, 0, 1));
    assert_eq!(row("/none"), (1, 10, 0, 0, 1, 0));
    assert_eq!(row("descriptor 9"), (1, 30, 0, 50, 0, 0));
    let all = &report.all;
    assert_eq!((all.times.count, all.times.total, all.read, all.written), (4, 120, 110, 50));
    let slowest: Vec<_> =
        report.slowest.iter().map(|slow| (slow.call.as_str(), slow.nanos)).collect();
    assert_eq!(slowest, [("read", 70), ("sendfile", 30)]);
    let disk = &report.disks[0];
    assert_eq!(
        (disk.name.as_str(), disk.kind, disk.bytes, disk.times.total),
        ("254:0", "read", 2048, 420)
    );
    let of_process = files(files::By::Process, "").rows;
    assert_eq!((of_process.len(), of_process[0].times.count, of_process[0].read), (1, 4, 110));
    assert_eq!(files(files::By::Path, "ret < 0").rows.len(), 1);
    assert_eq!(files(files::By::Path, "in_fd == 3").all.written, 50);
}

#[test]
fn devices_are_disks_by_their_requests_and_what_no_record_places_is_unknown() {
    let report = files(files::By::Device, "");
    let row = |kind| report.rows.iter().find(|row| row.kind == kind).unwrap();
    assert_eq!(report.rows.len(), 2, "{:?}", report.rows);
    let disk = row(files::DISK);
    assert_eq!((disk.name.as_str(), disk.read, disk.written), ("254:0", 4 * 512, 0));
    assert_eq!((disk.times.count, disk.times.total, disk.errors), (1, 420, 0));
    // The file, of which nobody says where it is, and a descriptor; the call that copies is in both.
    let unknown = row(files::UNKNOWN);
    assert_eq!((unknown.read, unknown.written, unknown.opens, unknown.errors), (110, 50, 1, 1));
    assert_eq!((unknown.times.count, report.all.times.count), (5, 4));
    let is_same = |row: &files::Row| row.label == Default::default() && !row.name.is_empty();
    assert!(report.rows.iter().all(is_same), "{:?}", report.rows);
}

#[test]
fn locks_say_who_waited_and_who_or_what_ended_it() {
    let report = |by| {
        with(|reader| {
            let mut counter = LockCounter::new(TimeRange::ALL, 5);
            let passed = run(reader, "", &mut counter);
            counter.finish(passed.timeline.world(), by, &|_| true)
        })
    };
    let found = report(locks::By::Lock);
    let [row] = found.rows.as_slice() else { panic!("{:?}", found.rows) };
    assert_eq!((row.label.pid, row.address), (Some(5), Some(0x1000)));
    assert_eq!((row.waits.count, row.waits.total, row.waits.max), (2, 100 + 300, 300));
    assert_eq!((row.calls, row.timeouts, row.wakes), (2, 1, 1));
    let who = |parts: &[locks::LockWaits]| {
        let part = |part: &locks::LockWaits| {
            (part.label.as_ref().and_then(|label| label.tid), part.ended_by, part.total)
        };
        parts.iter().map(part).collect::<Vec<_>>()
    };
    assert_eq!(who(&row.waiters), [(Some(5), "", 400)]);
    assert_eq!(who(&row.wakers), [(None, "timer", 300), (Some(6), "thread", 100)]);
    let longest: Vec<_> = found.longest.iter().map(|it| (it.from - ORIGIN, it.ended_by)).collect();
    assert_eq!(longest, [(600, "timer"), (310, "thread")]);
    assert_eq!(report(locks::By::Thread).rows[0].label.tid, Some(5));
}

#[test]
fn interrupts_are_by_number_by_cpu_and_by_whom_they_interrupted() {
    let report = |by, filter| {
        with(|reader| {
            let mut counter = IrqCounter::new(TimeRange::ALL, 1);
            let passed = run(reader, filter, &mut counter);
            counter.finish(passed.timeline.world(), by, &|_| true)
        })
    };
    let found = report(irq::By::Irq, "");
    let rows = found.rows.iter().map(|row| {
        (
            row.kind,
            row.number,
            row.name.as_str(),
            row.times.count,
            row.times.total,
            row.delays.total,
        )
    });
    let wanted = [
        ("irq", Some(40), "net", 1, 30, 0),
        ("softirq", Some(4), "BLOCK", 1, 20, 20),
        ("irq", Some(36), "disk", 2, 15, 0),
    ];
    assert_eq!(rows.collect::<Vec<_>>(), wanted);
    let whom = |row: &irq::Row| row.interrupted[0].0.as_ref().and_then(|label| label.tid);
    assert_eq!(found.rows.iter().map(whom).collect::<Vec<_>>(), [Some(0), Some(5), Some(5)]);
    assert_eq!((found.irqs.count, found.softirqs.count, found.longest[0].nanos), (3, 1, 30));
    let by_thread = report(irq::By::Thread, "");
    let row = by_thread.rows.iter().find(|row| row.label.tid == Some(5)).unwrap();
    assert_eq!((row.times.count, row.times.total), (3, 35));
    assert_eq!(report(irq::By::Cpu, "").rows[0].cpu, Some(0));
    assert_eq!(report(irq::By::Irq, "vec == 4").rows.len(), 1);
    assert_eq!(report(irq::By::Irq, "irq == 36").irqs.count, 2);
}

#[test]
fn cpus_and_threads_have_all_their_time_in_columns() {
    with(|reader| {
        let range = TimeRange { from: ORIGIN + 100, to: ORIGIN + 1100 };
        let mut counter = CpuCounter::new(range, 10);
        let passed = run(reader, "", &mut counter);
        let report = counter.finish(passed.timeline.world(), cpu::By::Thread, &|_| true);
        let cpu = &report.cpus[0];
        assert_eq!((cpu.busy, cpu.idle, cpu.unknown, cpu.switches), (690, 310, 0, 7));
        // 600 to 910 was idle.
        assert_eq!(cpu.columns, [100, 100, 100, 100, 100, 0, 0, 0, 90, 100]);
        let rows: Vec<_> = report
            .rows
            .iter()
            .map(|row| (row.label.tid, row.running, row.runs, row.columns.iter().sum::<u64>()))
            .collect();
        assert_eq!(
            rows,
            [(Some(5), 210 + 100 + 90, 3, 400), (Some(6), 190, 1, 190), (Some(7), 100, 1, 100)]
        );
    });
}

#[test]
fn rows_beyond_the_limit_are_one_row_and_sums_stay() {
    with(|reader| {
        let report = |is_wanted: Option<&dyn Fn(&Label) -> bool>, most| {
            let mut counter = ThreadCounter::new(TimeRange::ALL, 1);
            let passed = run(reader, "", &mut counter);
            counter.finish_within(passed.timeline.world(), false, is_wanted, most)
        };
        let sums = |rows: &[threads::Row]| {
            let count = |wait: &threads::Wait| wait.count;
            let waits = rows.iter().flat_map(|row| &row.waits).map(count).sum::<u64>();
            let rivals = rows.iter().flat_map(|row| &row.rivals).map(|it| it.1).sum::<u64>();
            let of = |what: fn(&threads::Row) -> u64| rows.iter().map(what).sum::<u64>();
            let states = [of(|row| row.running), of(threads::Row::runnable), of(|row| row.blocked)];
            (states, of(|row| row.unknown), of(|row| row.runs), waits, rivals)
        };
        let all = report(None, usize::MAX).rows;
        assert_eq!(all.len(), 3);
        for most in [1, 2] {
            let rows = report(None, most).rows;
            assert_eq!((rows.len(), sums(&rows)), (most + 1, sums(&all)), "{rows:?}");
            let others = rows.iter().find(|row| row.label.process == "others").unwrap();
            assert_eq!((others.label.processes, others.label.pid), (3 - most, None));
            // The others are the smallest, and those that are kept are as they were.
            let of = |row: &threads::Row| (row.label.tid, row.running, row.waits.clone());
            let kept = rows.iter().filter(|row| row.label.tid.is_some()).map(of);
            assert!(kept.eq(all.iter().take(most).map(of)));
        }
        // What is not asked for takes nobody's row.
        let rows = report(Some(&|label| label.tid == Some(7)), 1).rows;
        assert_eq!(rows.iter().map(|row| row.label.tid).collect::<Vec<_>>(), [Some(7)]);
    });
}

//! Tests of reports on CPUs, interrupts, memory and files at the limits of times, CPUs and calls.

use strata_ctf::read::TimeRange;

use super::told::{range, Told};
use crate::debug_info::Source;
use crate::hand_tests::ORIGIN;
use crate::hand_tests::V::{self, I64, U32, U64};
use crate::reports::cpu::{self, Columns, CpuCounter, CpuReport};
use crate::reports::files::{self, FileCounter, FilesReport};
use crate::reports::irq::{self, IrqCounter, IrqReport};
use crate::reports::memory::{MemoryCounter, MemoryReport, Row};
use crate::reports::syscalls::{self, SyscallCounter, Syscalls};

#[test]
fn columns_cover_the_time_and_no_more() {
    let columns = |from, to, count| {
        let columns = Columns::new(TimeRange { from, to }, count);
        (columns.width, columns.count, columns.whole)
    };
    for (from, to, count, wanted) in [
        (0, 1000, 10, (100, 10, 1000)),
        // Of 7 with 3 columns the last one is not whole; of 10 with 4, three of 3 and one of 1.
        (0, 7, 3, (3, 3, 7)),
        (0, 10, 4, (3, 4, 10)),
        // No more than there are nanoseconds, and not less than one.
        (0, 3, 100, (1, 3, 3)),
        (5, 5, 10, (1, 1, 1)),
        (0, 1000, 0, (1000, 1, 1000)),
        (0, 9, 8, (2, 5, 9)),
        (i64::MIN, i64::MAX, 2, (1 << 63, 2, u64::MAX)),
    ] {
        assert_eq!(columns(from, to, count), wanted, "{from} {to} {count}");
    }
}

fn cpus(told: &Told, range: TimeRange, by: cpu::By, columns: usize) -> CpuReport {
    let (counter, passed) = told.seen(range, CpuCounter::new(range, columns));
    counter.finish(passed.timeline.world(), by, &|_| true)
}

#[test]
fn thread_that_moves_to_another_cpu_has_both_and_its_moves_are_counted() {
    let mut told = Told::new(&[(5, 5), (6, 5), (7, 7)]);
    told.on(0).switch(100, 0, 0, 5).switch(200, 5, 0, 6).switch(400, 6, 1, 7);
    told.switch(600, 7, 1, 5).switch(700, 5, 1, 0);
    told.on(1).switch(100, 0, 0, 0).switch(250, 0, 0, 5).switch(300, 5, 1, 0).switch(700, 0, 0, 0);
    let all = range(100, 700);
    let report = cpus(&told, all, cpu::By::Thread, 6);
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|it| (it.label.tid.unwrap(), it.running, it.runs, it.migrations, it.cpus.len()))
        .collect();
    assert_eq!(rows, [(5, 100 + 50 + 100, 3, 2, 2), (6, 200, 1, 0, 1), (7, 200, 1, 0, 1)]);
    let of_cpus: Vec<_> =
        report.cpus.iter().map(|it| (it.cpu, it.busy, it.idle, it.unknown)).collect();
    assert_eq!(of_cpus, [(0, 600, 0, 0), (1, 50, 550, 0)]);
    let report = cpus(&told, all, cpu::By::Process, 6);
    let row = &report.rows[0];
    assert_eq!((row.label.pid, row.running, row.runs, row.migrations), (Some(5), 450, 4, 2));
    assert_eq!(row.columns, [100, 150, 100, 0, 0, 100]);
    // Of a part of the time: what is cut by it counts as far as it is in it.
    let report = cpus(&told, range(150, 275), cpu::By::Thread, 5);
    let rows: Vec<_> = report.rows.iter().map(|it| (it.label.tid, it.running, it.runs)).collect();
    assert_eq!(rows, [(Some(5), 50 + 25, 2), (Some(6), 75, 1)]);
    assert_eq!(report.rows[0].columns, [25, 25, 0, 0, 25]);
    assert!(report.cpus.iter().all(|it| it.busy + it.idle + it.unknown == 125), "{report:?}");
}

#[test]
fn what_ran_while_records_were_discarded_is_not_known() {
    let mut told = Told::new(&[(5, 5)]);
    told.switch(100, 0, 0, 5).tell(150, 5, "kmem_kfree", &[U64(1)]).lose(3);
    told.switch(400, 7, 1, 5).switch(500, 5, 1, 0);
    let report = cpus(&told, range(100, 500), cpu::By::Thread, 4);
    let one = &report.cpus[0];
    assert_eq!((one.busy, one.idle, one.unknown), (50 + 100, 0, 250));
    assert_eq!(
        (one.columns.clone(), one.unknown_columns.clone()),
        (vec![50, 0, 0, 100], vec![50, 100, 100, 0])
    );
    assert_eq!((report.rows[0].running, report.rows[0].runs), (150, 2));
}

fn irqs(told: &Told, range: TimeRange, by: irq::By, longest: usize) -> IrqReport {
    let (counter, passed) = told.seen(range, IrqCounter::new(range, longest));
    counter.finish(passed.timeline.world(), by, &|_| true)
}

fn interrupt(told: &mut Told, (from, to): (u64, u64), tid: u32, number: u32, name: &'static str) {
    told.tell(from, tid, "irq_handler_entry", &[U32(number), V::Text(name)]);
    told.tell(to, tid, "irq_handler_exit", &[U32(number)]);
}

#[test]
fn interrupts_without_a_begin_or_an_end_are_none() {
    let mut told = Told::new(&[(5, 5)]);
    told.switch(10, 0, 0, 5).tell(20, 5, "irq_handler_exit", &[U32(1)]);
    interrupt(&mut told, (100, 130), 5, 36, "disk");
    // Behind the loss nothing is known of what had begun.
    told.tell(200, 5, "irq_handler_entry", &[U32(36), V::Text("disk")]).lose(1);
    told.tell(300, 5, "irq_handler_exit", &[U32(36)]);
    interrupt(&mut told, (310, 315), 5, 36, "other");
    told.tell(400, 5, "irq_handler_entry", &[U32(36), V::Text("disk")]);
    let report = irqs(&told, TimeRange::ALL, irq::By::Irq, 9);
    let [row] = report.rows.as_slice() else { panic!("{report:?}") };
    // It is called what it was first.
    assert_eq!((row.name.as_str(), row.times.count, row.times.total), ("disk", 2, 35));
    assert_eq!((row.times.min, row.times.max, row.times.mean()), (5, 30, 17));
    assert_eq!(report.longest.iter().map(|it| it.nanos).collect::<Vec<_>>(), [30, 5]);
}

#[test]
fn interrupts_are_put_together_by_whom_they_interrupted_and_where() {
    let mut told = Told::new(&[(5, 5), (6, 5)]);
    told.on(0).switch(10, 0, 0, 5);
    interrupt(&mut told, (100, 120), 5, 1, "one");
    told.on(1).switch(10, 0, 0, 6);
    interrupt(&mut told, (100, 110), 6, 1, "one");
    interrupt(&mut told, (200, 203), 6, 2, "");
    told.tell(300, 6, "irq_softirq_entry", &[U32(77)]).tell(304, 6, "irq_softirq_exit", &[U32(77)]);
    let found = |by| {
        let report = irqs(&told, TimeRange::ALL, by, 0);
        let row = |it: &irq::Row| {
            (it.kind, it.number, it.name.clone(), it.cpu, it.label.tid, it.times.total)
        };
        assert!(report.longest.is_empty());
        report.rows.iter().map(row).collect::<Vec<_>>()
    };
    let one = || "one".to_owned();
    let none = String::new;
    assert_eq!(
        found(irq::By::Irq),
        [
            ("irq", Some(1), one(), None, None, 30),
            // A number that no kernel has is one without a name.
            ("softirq", Some(77), none(), None, None, 4),
            ("irq", Some(2), none(), None, None, 3)
        ]
    );
    assert_eq!(
        found(irq::By::Cpu)[..2],
        [("irq", Some(1), one(), Some(0), None, 20), ("irq", Some(1), one(), Some(1), None, 10)]
    );
    let by_thread = [("", None, none(), None, Some(5), 20), ("", None, none(), None, Some(6), 17)];
    assert_eq!(found(irq::By::Thread), by_thread);
    assert_eq!(found(irq::By::Process), [("", None, none(), None, None, 37)]);
    let report = irqs(&told, TimeRange::ALL, irq::By::Process, 0);
    let cpus: Vec<_> = report.rows[0].cpus.iter().map(|(&cpu, &count)| (cpu, count)).collect();
    assert_eq!((report.rows[0].label.pid, cpus), (Some(5), vec![(0, 1), (1, 3)]));
}

fn memory(told: &Told, range: TimeRange) -> MemoryReport {
    let counter = MemoryCounter::new(range, Source::default());
    let (counter, passed) = told.seen(range, counter);
    counter.finish(passed.timeline.world())
}

fn of_five(memory: &MemoryReport) -> Row {
    memory.rows.iter().find(|row| row.label.pid == Some(5)).cloned().unwrap_or_default()
}

const ANONYMOUS: V = U32(0x22);
const NO_FILE: V = U32(u32::MAX);

fn mapped(told: &mut Told, at: u64, address: u64, length: u64) {
    let values = [U64(0), U64(length), ANONYMOUS, NO_FILE];
    told.call((at, at + 1), 5, "mmap", &values, address as i64);
}

#[test]
fn mappings_are_cut_moved_and_replaced() {
    type Step<'s> = &'s dyn Fn(&mut Told);
    let after = |steps: &[Step<'_>]| {
        let mut told = Told::new(&[(5, 5)]);
        told.switch(10, 0, 0, 5);
        mapped(&mut told, 20, 0x10000, 0x4000);
        steps.iter().for_each(|step| step(&mut told));
        let row = of_five(&memory(&told, TimeRange::ALL));
        let regions: Vec<_> = row.regions.iter().map(|(it, count)| (it.name(), *count)).collect();
        (row.mapped, row.unmapped, regions)
    };
    let unmap = |from: u64, length: u64, result| {
        move |told: &mut Told| {
            told.call((30, 31), 5, "munmap", &[U64(from), U64(length)], result);
        }
    };
    let touch = |address| {
        move |told: &mut Told| {
            told.fault(50, 5, address);
        }
    };
    let there = |count| vec![("anonymous", count)];
    let nothing = || vec![("unknown", 1)];
    // A hole leaves both sides.
    let hole = unmap(0x11000, 0x1000, 0);
    assert_eq!(after(&[&hole, &touch(0x10fff)]), (0x4000, 0x1000, there(1)));
    assert_eq!(after(&[&hole, &touch(0x12000)]), (0x4000, 0x1000, there(1)));
    assert_eq!(after(&[&hole, &touch(0x11000)]), (0x4000, 0x1000, nothing()));
    // More than is there, a part of a page, nothing, and all of memory.
    assert_eq!(after(&[&unmap(0, 0x12000, 0), &touch(0x12000)]), (0x4000, 0x2000, there(1)));
    assert_eq!(after(&[&unmap(0x13000, 1, 0)]).1, 0x1000);
    assert_eq!(after(&[&unmap(0x13000, 0, 0)]).1, 0);
    assert_eq!(after(&[&unmap(0, u64::MAX, 0), &touch(0x10000)]), (0x4000, 0x4000, nothing()));
    // One that fails takes nothing away.
    assert_eq!(after(&[&unmap(0x10000, 0x4000, -22), &touch(0x10000)]), (0x4000, 0, there(1)));
    // Over another one: what was there is gone.
    let over = |told: &mut Told| mapped(told, 30, 0x12000, 0x4000);
    assert_eq!(after(&[&over, &touch(0x15fff)]), (0x8000, 0x2000, there(1)));
    let remap = |result| {
        move |told: &mut Told| {
            let values = [U64(0x10000), U64(0x4000), U64(0x6000)];
            told.call((30, 31), 5, "mremap", &values, result);
        }
    };
    assert_eq!(after(&[&remap(0x90000), &touch(0x95fff)]), (0xa000, 0x4000, there(1)));
    assert_eq!(after(&[&remap(0x90000), &touch(0x10000)]), (0xa000, 0x4000, nothing()));
    assert_eq!(after(&[&remap(-12), &touch(0x10000)]), (0x4000, 0, there(1)));
    // Of another program nothing is left; of one that could not be started, all.
    let exec = |result| {
        move |told: &mut Told| {
            told.call((30, 31), 5, "execve", &[V::Text("/x")], result);
        }
    };
    assert_eq!(after(&[&exec(0), &touch(0x10000)]).2, nothing());
    assert_eq!(after(&[&exec(-2), &touch(0x10000)]).2, there(1));
    // A mapping to the very end of memory, and one beyond it.
    let to_the_end = |told: &mut Told| mapped(told, 30, u64::MAX - 0xffff, 0xf000);
    assert_eq!(after(&[&to_the_end, &touch(u64::MAX - 0xffff)]).2, there(1));
    let beyond = |told: &mut Told| mapped(told, 30, 0x7000, u64::MAX);
    assert_eq!(after(&[&beyond]), (0x4000, 0, vec![]));
}

#[test]
fn heap_moves_both_ways_and_a_call_that_failed_moves_nothing() {
    let heap = |ends: &[i64], address| {
        let mut told = Told::new(&[(5, 5)]);
        told.switch(10, 0, 0, 5);
        for (at, end) in (20..).step_by(10).zip(ends) {
            told.call((at, at + 1), 5, "brk", &[U64(0)], *end);
        }
        told.fault(900, 5, address);
        let row = of_five(&memory(&told, TimeRange::ALL));
        (row.heap_growth, row.regions[0].0.name())
    };
    assert_eq!(heap(&[0x5000], 0x5000), (0, "unknown"));
    assert_eq!(heap(&[0x5000, 0x9000], 0x8fff), (0x4000, "heap"));
    assert_eq!(heap(&[0x5000, 0x9000, 0x6000], 0x6000), (0x1000, "unknown"));
    assert_eq!(heap(&[0x5000, 0x4000], 0x4000), (-0x1000, "unknown"));
    assert_eq!(heap(&[0x5000, 0x9000, -4], 0x10000), (0x4000, "unknown"));
    assert_eq!(heap(&[-12, 0x5000, 0x9000], 0x8fff), (0x4000, "heap"));
}

#[test]
fn faults_and_pages_are_of_the_time_asked_for_and_what_is_left_of_all_before() {
    let mut told = Told::new(&[(5, 5), (6, 5)]);
    told.switch(10, 0, 0, 5);
    mapped(&mut told, 20, 0x10000, 0x1000);
    let alloc = |told: &mut Told, at, ptr, asked, given| {
        told.tell(at, 5, "kmem_kmalloc", &[U64(0xc0), U64(ptr), U64(asked), U64(given)]);
    };
    alloc(&mut told, 30, 0x100, 60, 64);
    told.tell(40, 5, "kmem_mm_page_alloc", &[U32(3)]).fault(50, 5, 0x10000);
    told.switch(90, 5, 0, 6).fault(100, 6, 0x10000).fault(110, 6, 0x10fff);
    told.tell(120, 6, "exceptions_page_fault_kernel", &[U64(1), U64(2)]);
    told.tell(130, 6, "kmem_mm_page_alloc", &[U32(2)]);
    // An order that no machine has.
    told.tell(140, 6, "kmem_mm_page_free", &[U32(99)]).tell(141, 6, "kmem_mm_page_free", &[U32(0)]);
    alloc(&mut told, 150, 0x200, 100, 128);
    alloc(&mut told, 151, 0x200, 8, 8);
    alloc(&mut told, 152, 0, 8, 8);
    told.tell(160, 6, "kmem_kfree", &[U64(0x999)]);
    told.fault(300, 6, 0x10000).tell(310, 6, "kmem_kfree", &[U64(0x100)]);
    let found = memory(&told, range(100, 200));
    let row = of_five(&found);
    // Threads of one process.
    assert_eq!((row.faults, row.kernel_faults, row.mapped), (2, 1, 0x1000));
    assert_eq!(found.pages, (4, 1));
    let kernel = found.kernel;
    assert_eq!((kernel.count, kernel.bytes, kernel.live, kernel.live_bytes), (3, 200, 2, 72));
    assert_eq!(kernel.peak_bytes, 64 + 128);
    let [site] = found.sites.as_slice() else { panic!("{:?}", found.sites) };
    assert_eq!((site.site.as_str(), site.label.is_none()), ("0xc0_[k]", true));
    let all = memory(&told, TimeRange::ALL);
    assert_eq!((of_five(&all).faults, all.pages, all.kernel.live), (4, (12, 1), 1));
}

fn files_of(told: &Told, range: TimeRange, by: files::By, slowest: usize) -> FilesReport {
    let (counter, passed) = told.seen(range, FileCounter::new(range, slowest));
    counter.finish(passed.timeline.world(), by, &|label| label.pid != Some(9))
}

#[test]
fn calls_are_of_what_their_descriptor_was_opened_for_by_then() {
    let mut told = Told::new(&[(5, 5), (6, 6), (9, 9)]);
    told.switch(10, 0, 0, 5).call((20, 30), 5, "openat", &[I64(-100), V::Text("/a"), U32(0)], 3);
    told.call((40, 50), 5, "write", &[U32(3), U64(9)], 9);
    told.call((60, 90), 5, "write", &[U32(7), U64(9)], -9);
    told.tell(100, 5, "syscall_entry_pipe2", &[U32(0)]);
    told.tell(110, 5, "syscall_exit_pipe2", &[I64(0), U32(10), U32(11)]);
    told.call((120, 125), 5, "read", &[U32(10), U64(9)], 4);
    told.call((130, 137), 5, "sendmmsg", &[U32(3)], 2);
    // The number of another process is another descriptor.
    told.switch(200, 5, 0, 6).call((210, 260), 6, "read", &[U32(3), U64(5)], 5);
    // Who is not wanted is in no sum.
    told.switch(300, 6, 0, 9).call((310, 390), 9, "read", &[U32(3), U64(5)], 5);
    let report = files_of(&told, TimeRange::ALL, files::By::File, 2);
    let row = |it: &files::Row| {
        (it.label.pid.unwrap_or(0), it.name.clone(), it.kind, it.times.total, it.read, it.written)
    };
    let rows: Vec<_> = report.rows.iter().map(row).collect();
    let named = |pid, name: &str, kind, total, read, written| {
        (pid, name.to_owned(), kind, total, read, written)
    };
    assert_eq!(
        rows,
        [
            named(6, "descriptor 3", "descriptor", 50, 5, 0),
            named(5, "descriptor 7", "descriptor", 30, 0, 0),
            named(5, "/a", "file", 10 + 10 + 7, 0, 9),
            named(5, "pipe", "pipe", 5, 4, 0),
        ]
    );
    let of_a = &report.rows[2];
    assert_eq!((of_a.opens, of_a.errors, of_a.unsaid, of_a.times.count), (1, 0, 1, 3));
    assert_eq!((report.all.times.count, report.all.read, report.all.errors), (6, 9, 1));
    // Those that were kept are of all; what is not wanted of them is left out then.
    assert_eq!(
        report.slowest.iter().map(|it| (it.label.tid, it.nanos)).collect::<Vec<_>>(),
        [(Some(6), 50)]
    );
    let by_path = files_of(&told, TimeRange::ALL, files::By::Path, 0).rows;
    let labels: Vec<_> = by_path.iter().map(|it| (it.name.as_str(), it.label.pid)).collect();
    assert_eq!(labels[2..], [("/a", None), ("pipe", None)]);
    let by_process = files_of(&told, range(0, 137), files::By::Process, 0).rows;
    assert_eq!(by_process.iter().map(row).collect::<Vec<_>>(), [named(5, "", "", 62, 4, 9)]);
}

fn calls_of(told: &Told, range: TimeRange, by: syscalls::By) -> Syscalls {
    let (counter, passed) = told.seen(range, SyscallCounter::new(range, 3));
    counter.finish(passed.timeline.world(), by)
}

#[test]
fn calls_without_a_begin_or_an_end_are_counted_by_why() {
    let mut told = Told::new(&[(5, 5)]);
    told.switch(10, 0, 0, 5).leave(20, 5, "read", 1);
    told.call((30, 40), 5, "read", &[U32(1), U64(1)], 1);
    // Another call without the end of this one; the end of one that has not begun.
    told.enter(50, 5, "read", &[U32(1), U64(1)]).call((60, 61), 5, "write", &[U32(1), U64(1)], 1);
    told.enter(70, 5, "read", &[U32(1), U64(1)]).leave(80, 5, "write", 1);
    // Behind a loss it is not known whose end that is: both are alone.
    told.enter(90, 5, "read", &[U32(1), U64(1)]).lose(2).leave(200, 5, "read", 1);
    told.call((210, 215), 5, "read", &[U32(1), U64(1)], -11).enter(
        300,
        5,
        "read",
        &[U32(1), U64(1)],
    );
    let report = calls_of(&told, TimeRange::ALL, syscalls::By::Thread);
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|it| (it.name.as_str(), it.times.count, it.errors, it.times.total))
        .collect();
    assert_eq!(rows, [("read", 2, 1, 15), ("write", 1, 0, 1)]);
    let unpaired = report.unpaired;
    assert_eq!((unpaired.no_begin, unpaired.no_end, unpaired.gap), (3, 3, 1), "{unpaired:?}");
    let times: Vec<_> = report.slowest.iter().map(|it| (it.begin - ORIGIN, it.nanos)).collect();
    assert_eq!(times, [(30, 10), (210, 5), (60, 1)]);
    assert_eq!((report.all.times.min, report.all.times.max, report.all.times.mean()), (1, 10, 5));
    assert_eq!((report.all.times.quantile(0.0), report.all.times.quantile(1.0)), (1, 10));
}

#[test]
fn nothing_at_all_is_empty_reports_and_no_division_by_it() {
    let told = Told::new(&[(5, 5)]);
    let calls = calls_of(&told, TimeRange::ALL, syscalls::By::Name);
    assert_eq!(
        (calls.rows.len(), calls.all.times.mean(), calls.all.times.quantile(0.99)),
        (0, 0, 0)
    );
    assert!(files_of(&told, TimeRange::ALL, files::By::File, 3).rows.is_empty());
    assert!(irqs(&told, TimeRange::ALL, irq::By::Irq, 3).rows.is_empty());
    assert!(memory(&told, TimeRange::ALL).rows.is_empty());
    let report = cpus(&told, range(1, 1), cpu::By::Process, 50);
    assert!(report.rows.is_empty() && report.columns.count == 1, "{report:?}");
}

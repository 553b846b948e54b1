//! Tests of the reports on spans, flame graphs and memory, with traces written by hand.

use strata_ctf::read::{Reader, TimeRange};
use strata_timeline::{Observer, Timeline};

use super::fields;
use super::flame::{Flame, FlameMaker, Weigh};
use super::locks::{self, LockCounter, LockKind};
use super::memory::{MemoryCounter, MemoryReport};
use super::spans::{By, SlowestWaits, SpanCounter, Spans};
use super::wait::History;
use crate::debug_info::Source;
use crate::hand_tests::V::{Text, I64, U32, U64, U8};
use crate::hand_tests::{metadata, Hand, Packets, Record, V};
use strata_timeline::PairRule;
use strata_timeline::{idle_rules, span_roles};
use strata_timeline::{pass_on, Asked, Passed};

const PROGRAM: &str = "domain = \"ust\"; hostname = \"box\"; vpid = 5; procname = \"app\";";
const KERNEL: &str = "domain = \"kernel\"; hostname = \"box\";";

fn run<O: Observer>(reader: &Reader, rules: &[PairRule], seen: &mut O) -> Passed {
    let timeline = Timeline::with_spans(reader, span_roles(reader, rules));
    let asked = Asked::default();
    pass_on(timeline, reader, &asked, seen, &|_| true, &mut |_| {}).unwrap()
}

const JOB: u8 = 0;
const DONE: u8 = 1;
const WORK: u8 = 2;
const WORK_END: u8 = 3;
const ALONE: u8 = 4;

/// Makes a trace in which 6 takes jobs 1 and 2, and 7 and 8 complete them in the other order. Each works for some time.
fn pool(hand: &Hand) -> Reader {
    let events = [
        ("pool:job_begin", "u32 id; string kind;"),
        ("pool:job_end", "u32 id;"),
        ("pool:work_begin", "u32 number;"),
        ("pool:work_end", ""),
        ("pool:alone_begin", ""),
    ];
    let job = |id| [U32(6), U32(id), Text("big")];
    let done = |by, id| [U32(by), U32(id)];
    let (one, two) = (job(1), job(2));
    let (done_one, done_two) = (done(8, 1), done(7, 2));
    let (work_one, work_two) = (done(8, 1), done(7, 2));
    let (end_one, end_two, unpaired) = ([U32(8)], [U32(7)], [U32(7)]);
    let records: [Record<'_>; 9] = [
        (JOB, 100, &one),
        (JOB, 200, &two),
        (WORK, 300, &work_two),
        (WORK, 310, &work_one),
        (WORK_END, 400, &end_two),
        (DONE, 410, &done_two),
        (WORK_END, 900, &end_one),
        (DONE, 1000, &done_one),
        (ALONE, 1001, &unpaired),
    ];
    let text = metadata(PROGRAM, "u32 vtid;", &events);
    let switches = [
        ("sched_switch", "u32 prev_tid; i64 prev_state; u32 next_tid;"),
        ("syscall_entry_read", "u32 fd;"),
    ];
    let switch = |prev, state, next| [U32(prev), U32(prev), I64(state), U32(next)];
    // 8 runs, reads, is blocked from 500 to 700.
    let (to, from, back) = (switch(0, 0, 8), switch(8, 1, 0), switch(0, 0, 8));
    let read = [U32(8), U32(3)];
    let of_kernel: [Record<'_>; 4] =
        [(0, 50, &to), (1, 490, &read), (0, 500, &from), (0, 700, &back)];
    hand.trace("a", &text, &[Packets::new(0).packet(&records)]);
    let text = metadata(KERNEL, "u32 tid;", &switches);
    hand.trace("k", &text, &[Packets::new(0).packet(&of_kernel)]).reader()
}

fn rules(texts: &[&str]) -> Vec<PairRule> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn spans(reader: &Reader, rules: &[PairRule], by: By) -> Spans {
    let mut counter = SpanCounter::new(TimeRange::ALL, None, 10);
    let passed = run(reader, rules, &mut counter);
    let mut report = counter.finish(passed.timeline.world(), by);
    let mut waiting = SlowestWaits::new(&report.slowest);
    let passed = run(reader, rules, &mut waiting);
    waiting.tell(passed.timeline.world(), &mut report.slowest);
    report
}

#[test]
fn spans_of_two_threads_are_alone_without_a_key_and_have_their_lengths_with_it() {
    let hand = Hand::new();
    let reader = pool(&hand);
    let without = spans(&reader, &[], By::Name);
    assert_eq!(
        (without.all.times.count, without.unpaired.no_begin, without.unpaired.no_end),
        (2, 2, 2)
    );
    let rules = rules(&["pool:job_begin=pool:job_end:id"]);
    let report = spans(&reader, &rules, By::Name);
    let row = |name: &str| {
        let row = report.rows.iter().find(|row| row.name == name).unwrap();
        (row.times.count, row.times.total, row.times.min, row.times.max)
    };
    assert_eq!(row("pool:job"), (2, 900 + 210, 210, 900));
    assert_eq!(row("pool:work"), (2, 590 + 100, 100, 590));
    let slow = &report.slowest[0];
    let begun_by = slow.begun_by.as_ref().unwrap();
    assert_eq!((slow.nanos, slow.key.as_deref(), slow.label.tid), (900, Some("1"), Some(8)));
    assert_eq!((begun_by.tid, begun_by.pid), (Some(6), Some(5)));
    assert_eq!(
        fields(&reader, &slow.event, begun_by.tid, slow.begin).as_deref(),
        Some("id = 1, kind = \"big\"")
    );
    // One that has an end in no record at all is no kind of spans.
    assert_eq!((report.unpaired.no_begin, report.unpaired.no_end), (0, 0));
    let idle: Vec<PairRule> =
        ["a:b=a:c", "pool:job_begin=pool:job_end"].map(|it| it.parse().unwrap()).into();
    assert_eq!(idle_rules(&reader, &idle), [&idle[0]]);
}

#[test]
fn slowest_spans_say_what_their_thread_waited_for_and_it_adds_up() {
    let hand = Hand::new();
    let reader = pool(&hand);
    let report = spans(&reader, &[], By::Thread);
    let slow = &report.slowest[0];
    let spent = slow.spent.unwrap();
    assert_eq!((slow.nanos, spent.running, spent.blocked, spent.unknown), (590, 390, 200, 0));
    assert_eq!((slow.waits[0].call.as_str(), slow.waits[0].total), ("read", 200));
    assert_eq!(slow.waits[0].object, "descriptor 3");
    let row = report.rows.iter().find(|row| row.label.tid == Some(8)).unwrap();
    assert_eq!((row.spent.running, row.spent.blocked), (390, 200));
    // Of the other one, no record says what it did.
    assert_eq!(report.slowest[1].spent, None);
}

#[test]
fn spans_whose_ends_have_other_ids_are_reported() {
    let hand = Hand::new();
    let events = [("a:x_begin", "u32 request_id;"), ("a:x_end", "u32 request_id;")];
    let of = |id| [U32(5), U32(id)];
    let (one, two) = (of(1), of(2));
    let records: [Record<'_>; 4] = [(0, 1, &one), (1, 2, &one), (0, 3, &one), (1, 4, &two)];
    let text = metadata(PROGRAM, "u32 vtid;", &events);
    let reader = hand.trace("t", &text, &[Packets::new(0).packet(&records)]).reader();
    let report = spans(&reader, &[], By::Name);
    assert_eq!((report.all.times.count, report.guesses.disagree), (2, 1));
    let report = spans(&reader, &rules(&["a:x_begin=a:x_end:request_id"]), By::Name);
    assert_eq!(
        (report.all.times.count, report.guesses.disagree, report.unpaired.no_begin),
        (1, 0, 1)
    );
}

#[test]
fn discarded_records_leave_no_span_around_them() {
    let hand = Hand::new();
    let events = [("a:x_begin", ""), ("a:x_end", "")];
    let of = [U32(5)];
    let before: [Record<'_>; 3] = [(0, 1, &of), (1, 2, &of), (0, 3, &of)];
    let behind: [Record<'_>; 3] = [(1, 10, &of), (0, 11, &of), (1, 12, &of)];
    let stream = Packets::new(0).packet(&before).discards(2).packet(&behind);
    let text = metadata(PROGRAM, "u32 vtid;", &events);
    let reader = hand.trace("t", &text, &[stream]).reader();
    let report = spans(&reader, &[], By::Name);
    assert_eq!((report.all.times.count, report.all.times.total, report.unpaired.gap), (2, 2, 1));
}

#[test]
fn spans_of_a_name_are_numbered_by_their_length() {
    let hand = Hand::new();
    let reader = pool(&hand);
    let history = History::new(TimeRange::ALL, Some("pool:work"));
    let mut history = history.with_longest(2);
    run(&reader, &[], &mut history);
    let length = |number| history.longest(number).map(|(span, found)| (span.to - span.from, found));
    assert_eq!((length(1), length(2)), (Some((590, 2)), Some((100, 2))));
    assert_eq!((length(0), length(3)), (None, None));
}

fn flame(reader: &Reader, weigh: Weigh) -> Flame {
    let mut maker = FlameMaker::new(TimeRange::ALL, weigh, Source::default());
    let passed = run(reader, &[], &mut maker);
    maker.finish(passed.timeline.world(), &|_| true)
}

fn lines(flame: &Flame) -> Vec<String> {
    let all = flame.profiles.iter();
    let all = all.flat_map(|it| it.stacks.iter().map(move |stack| (&it.name, stack)));
    all.map(|(name, (frames, weight))| format!("{name};{} {weight}", frames.join(";"))).collect()
}

#[test]
fn flame_of_spans_has_the_time_of_each_once() {
    let hand = Hand::new();
    let events = [
        ("a:outer_begin", ""),
        ("a:outer_end", ""),
        ("a:inner_begin", ""),
        ("a:inner_end", ""),
        ("a:left_begin", ""),
        ("a:left_end", ""),
        ("strata:thread_name", "u32 tid; string name;"),
    ];
    let of = [U32(5)];
    let at = |id, time| -> Record<'_> { (id, time, &of) };
    let records = [
        at(0, 100),
        at(2, 200),
        at(3, 300),
        at(2, 400),
        at(3, 500),
        at(1, 1000),
        // One that is left by a jump, with one in it that is not.
        at(0, 2000),
        at(4, 2100),
        at(2, 2200),
        at(3, 2300),
        at(1, 2400),
    ];
    let text = metadata(PROGRAM, "u32 vtid;", &events);
    let reader = hand.trace("t", &text, &[Packets::new(0).packet(&records)]).reader();
    let found = flame(&reader, Weigh::Spans);
    assert_eq!(
        lines(&found),
        ["app;a:outer 1000", "app;a:outer;a:inner 200", "app;a:outer;a:left;a:inner 100",]
    );
    assert_eq!((found.total, found.elsewhere), (900 + 400, 0));
}

/// Makes a kernel's trace with samples, and switches with stacks.
fn stacks(hand: &Hand) -> Reader {
    let stacks = "u32 tid; u32 pid; u64 callstack_kernel[1]; u64 callstack_user[3];";
    let events = [
        (
            "sched_switch",
            "string prev_comm; u32 prev_tid; i64 prev_state; string next_comm; u32 next_tid;",
        ),
        ("sched_waking", "string comm; u32 tid;"),
        ("cpu_clock", "u64 ip;"),
    ];
    // The walk has ended in no caller.
    let head = |tid, kernel, inner| [U32(tid), U32(5), U64(kernel), U64(inner), U64(0x200), U64(0)];
    let switch = |prev: u32, state, next: u32| -> Vec<V> {
        let rest = [Text("app"), U32(prev), I64(state), Text("app"), U32(next)];
        head(prev, 0xf0, 0x100).into_iter().chain(rest).collect()
    };
    let waking = |tid| -> Vec<V> {
        head(9, 0xf1, 0x900).into_iter().chain([Text("app"), U32(tid)]).collect()
    };
    let sample = |inner| -> Vec<V> { head(5, 0xf2, inner).into_iter().chain([U64(1)]).collect() };
    let (on, off, back, wake) = (switch(0, 0, 5), switch(5, 1, 9), switch(9, 0, 5), waking(5));
    let (here, there) = (sample(0x111), sample(0x222));
    let records: [Record<'_>; 7] = [
        (0, 10, &on),
        (2, 20, &here),
        (2, 30, &here),
        (2, 40, &there),
        (0, 100, &off),
        (1, 400, &wake),
        (0, 500, &back),
    ];
    let text = metadata(KERNEL, stacks, &events);
    hand.trace("t", &text, &[Packets::new(0).packet(&records)]).reader()
}

#[test]
fn flame_of_samples_counts_each_and_no_other_records() {
    let hand = Hand::new();
    let reader = stacks(&hand);
    assert!(super::flame::has_stacks(&reader));
    let found = flame(&reader, Weigh::Records);
    assert_eq!(lines(&found), ["app;0x200;0x111;0xf2_[k] 2", "app;0x200;0x222;0xf2_[k] 1"]);
    assert_eq!((found.total, found.events), (3, vec![("cpu_clock".to_owned(), 3)]));
}

#[test]
fn flame_of_blocked_time_is_that_up_to_the_wake() {
    let hand = Hand::new();
    let found = flame(&stacks(&hand), Weigh::OffCpu);
    assert_eq!(lines(&found), ["app;0x200;0x100;0xf0_[k] 300"]);
}

#[test]
fn memory_that_is_left_is_of_the_call_that_asked_for_it() {
    let hand = Hand::new();
    let events = [
        ("libc:malloc", "u64 size; u64 ptr; u64 caller;"),
        ("libc:calloc", "u64 nmemb; u64 size; u64 ptr; u64 caller;"),
        ("libc:realloc_begin", "u64 in_ptr; u64 size; u64 caller;"),
        ("libc:realloc_end", "u64 in_ptr; u64 size; u64 ptr; u64 caller;"),
        ("libc:free", "u64 ptr; u64 caller;"),
    ];
    let of = |values: &[u64]| -> Vec<V> {
        [U32(5)].into_iter().chain(values.iter().map(|&value| U64(value))).collect()
    };
    let steps = [
        (0, of(&[100, 0x1000, 0xa])),
        (0, of(&[50, 0x2000, 0xb])),
        (1, of(&[3, 10, 0x3000, 0xa])),
        // Moved: the address is somebody else's before the end is told.
        (2, of(&[0x2000, 500, 0xc])),
        (0, of(&[7, 0x2000, 0xa])),
        (3, of(&[0x2000, 500, 0x4000, 0xc])),
        (4, of(&[0x1000, 0xd])),
        (4, of(&[0x9999, 0xd])),
        (4, of(&[0, 0xd])),
        // One that fails leaves what was there; one of nothing is a malloc; one for nothing is a free.
        (2, of(&[0x4000, 1 << 60, 0xc])),
        (3, of(&[0x4000, 1 << 60, 0, 0xc])),
        (2, of(&[0, 11, 0xe])),
        (3, of(&[0, 11, 0x5000, 0xe])),
        (2, of(&[0x5000, 0, 0xe])),
        (3, of(&[0x5000, 0, 0, 0xe])),
        (0, of(&[1 << 60, 0, 0xa])),
    ];
    let records: Vec<Record<'_>> =
        (1_u64..).zip(&steps).map(|(time, (id, values))| (*id, time, &values[..])).collect();
    let text = metadata(PROGRAM, "u32 vtid;", &events);
    let reader = hand.trace("t", &text, &[Packets::new(0).packet(&records)]).reader();
    let memory = memory(&reader);
    let row = &memory.rows[0];
    let all = row.allocated;
    assert_eq!((all.count, all.bytes), (6, 100 + 50 + 30 + 7 + 500 + 11));
    assert_eq!((all.live, all.live_bytes, all.peak_bytes), (3, 30 + 7 + 500, 100 + 30 + 7 + 500));
    assert_eq!((row.unknown_frees, row.failed, row.label.pid), (1, 2, Some(5)));
    let sites: Vec<_> =
        memory.sites.iter().map(|it| (&*it.site, it.allocated.live_bytes)).collect();
    assert_eq!(sites, [("0xc", 500), ("0xa", 37), ("0xb", 0), ("0xe", 0)]);
}

fn memory(reader: &Reader) -> MemoryReport {
    let mut counter = MemoryCounter::new(TimeRange::ALL, Source::default());
    let passed = run(reader, &[], &mut counter);
    counter.finish(passed.timeline.world())
}

#[test]
fn memory_that_was_counted_in_the_program_is_added_up_by_site_function_and_size() {
    let hand = Hand::new();
    let fields =
        "u64 caller; u8 function; u64 size_min; u64 size_max; u64 count; u64 bytes; u64 failed;";
    let of = |caller, function, sizes: (u64, u64), counts: [u64; 3]| -> Vec<V> {
        let head = [U32(5), U64(caller), U8(function), U64(sizes.0), U64(sizes.1)];
        head.into_iter().chain(counts.map(U64)).collect()
    };
    let (small, large) = ((33, 64), (65, 128));
    let steps = [
        of(0xa, 0, small, [10, 400, 0]),
        of(0xa, 0, large, [1, 100, 2]),
        of(0xa, 0, small, [5, 200, 1]),
        of(0xb, 3, small, [1, 700, 0]),
        of(0xa, 4, (0, 0), [12, 0, 0]),
        of(0xa, 9, small, [1, 1, 0]),
    ];
    let records: Vec<Record<'_>> =
        (1_u64..).zip(&steps).map(|(time, values)| (0, time, &values[..])).collect();
    let text = metadata(PROGRAM, "u32 vtid;", &[("libc_sum:calls", fields)]);
    let reader = hand.trace("t", &text, &[Packets::new(0).packet(&records)]).reader();
    let memory = memory(&reader);
    let sums = memory.sums.iter();
    let sums: Vec<_> = sums
        .map(|it| (&*it.site, it.function, it.sizes.unwrap(), [it.count, it.bytes, it.failed]))
        .collect();
    let expected = [
        ("0xb", "memalign", small, [1, 700, 0]),
        ("0xa", "malloc", small, [15, 600, 1]),
        ("0xa", "malloc", large, [1, 100, 2]),
        ("0xa", "?", small, [1, 1, 0]),
        ("0xa", "free", (0, 0), [12, 0, 0]),
    ];
    assert_eq!(sums, expected);
    let row = &memory.rows[0];
    assert_eq!((row.allocated.count, row.allocated.bytes, row.failed), (18, 1401, 3));
    assert_eq!((row.allocated.live, row.allocated.peak_bytes), (0, 0));
}

#[test]
fn memory_that_is_mapped_is_what_calls_have_returned_and_faults_are_in_it() {
    let hand = Hand::new();
    let events = [
        ("syscall_entry_mmap", "u64 addr; u64 len; u32 flags; u32 fd;"),
        ("syscall_exit_mmap", "i64 ret;"),
        ("syscall_entry_munmap", "u64 addr; u64 len;"),
        ("syscall_exit_munmap", "i64 ret;"),
        ("syscall_entry_brk", "u64 brk;"),
        ("syscall_exit_brk", "i64 ret;"),
        ("x86_exceptions_page_fault_user", "u64 address; u64 ip; u64 error_code;"),
    ];
    let head = [U32(5), U32(5)];
    let of = |values: &[V]| -> Vec<V> { head.iter().chain(values).copied().collect() };
    let fault = |at| (6, of(&[U64(at), U64(0x77), U64(4)]));
    let steps = [
        (0, of(&[U64(0), U64(8000), U32(0x22), U32(u32::MAX)])),
        (1, of(&[I64(0x10000)])),
        (0, of(&[U64(0), U64(4096), U32(2), U32(3)])),
        (1, of(&[I64(0x20000)])),
        // One that fails maps nothing.
        (0, of(&[U64(0), U64(4096), U32(2), U32(3)])),
        (1, of(&[I64(-12)])),
        (4, of(&[U64(0)])),
        (5, of(&[I64(0x50000)])),
        (4, of(&[U64(0x58000)])),
        (5, of(&[I64(0x58000)])),
        fault(0x10008),
        fault(0x11008),
        fault(0x20000),
        fault(0x51000),
        fault(0x99000),
        (2, of(&[U64(0x11000), U64(4096)])),
        (3, of(&[I64(0)])),
        fault(0x11008),
    ];
    let records: Vec<Record<'_>> =
        (1_u64..).zip(&steps).map(|(time, (id, values))| (*id, time, &values[..])).collect();
    let text = metadata(KERNEL, "u32 tid; u32 pid;", &events);
    let reader = hand.trace("t", &text, &[Packets::new(0).packet(&records)]).reader();
    let memory = memory(&reader);
    let row = &memory.rows[0];
    assert_eq!((row.mapped, row.unmapped, row.heap_growth), (8192 + 4096, 4096, 0x8000));
    let regions: Vec<_> = row.regions.iter().map(|(it, count)| (it.name(), *count)).collect();
    assert_eq!(regions, [("anonymous", 2), ("unknown", 2), ("heap", 1), ("file", 1)]);
    let faults: Vec<_> = memory.faults.iter().map(|it| (&*it.site, it.count)).collect();
    assert_eq!((row.faults, faults), (6, vec![("0x77", 6)]));
}

#[test]
fn locks_of_a_program_have_their_owner_and_the_futex_in_them_is_reported_once() {
    let hand = Hand::new();
    let events = [
        ("pthread:mutex_lock_begin", "u64 lock; u32 owner;"),
        ("pthread:mutex_lock_end", "u64 lock; u32 result;"),
        ("pthread:cond_wait_begin", "u64 cond; u64 lock;"),
        ("pthread:cond_wait_end", "u64 cond; u64 lock; u32 result;"),
        ("pthread:other_begin", "u64 lock;"),
        ("pthread:other_end", "u64 lock;"),
    ];
    let begin = [U32(6), U64(0x1000), U32(7)];
    let end = [U32(6), U64(0x1000), U32(0)];
    let wait = [U32(7), U64(0x2000), U64(0x1000)];
    let wait_end = [U32(7), U64(0x2000), U64(0x1000), U32(0)];
    let other = [U32(7), U64(0x3000)];
    let given_up = [U32(6), U64(0x1000), U32(110)];
    let records: [Record<'_>; 8] = [
        (0, 100, &begin),
        (1, 400, &end),
        (2, 500, &wait),
        (3, 550, &wait_end),
        (4, 560, &other),
        (5, 900, &other),
        (0, 1000, &begin),
        (1, 1020, &given_up),
    ];
    let text = metadata(PROGRAM, "u32 vtid;", &events);
    hand.trace("a", &text, &[Packets::new(0).packet(&records)]);
    // 6 is blocked in the mutex' futex and, later, in another one.
    let kernel = [
        ("sched_switch", "u32 prev_tid; i64 prev_state; u32 next_tid;"),
        ("syscall_entry_futex", "u64 uaddr; u32 op;"),
        ("syscall_exit_futex", "i64 ret;"),
    ];
    let switch = |prev, state, next| [U32(prev), U32(prev), I64(state), U32(next)];
    let (to, from) = (switch(0, 0, 6), switch(6, 1, 0));
    let enter = |address| [U32(6), U64(address), U32(128)];
    let (own, another, leave) = (enter(0x1000), enter(0x9000), [U32(6), I64(0)]);
    let of_kernel: [Record<'_>; 9] = [
        (0, 50, &to),
        (1, 110, &own),
        (0, 120, &from),
        (0, 390, &to),
        (2, 391, &leave),
        (1, 600, &another),
        (0, 610, &from),
        (0, 700, &to),
        (2, 710, &leave),
    ];
    let text = metadata(KERNEL, "u32 tid;", &kernel);
    let reader = hand.trace("k", &text, &[Packets::new(0).packet(&of_kernel)]).reader();
    let mut counter = LockCounter::new(TimeRange::ALL, 5);
    let asked = Asked::default();
    let passed =
        strata_timeline::pass(&reader, &asked, &mut counter, &|_| true, &mut |_| {}).unwrap();
    let found = counter.finish(passed.timeline.world(), locks::By::Lock, &|_| true);
    let rows: Vec<_> =
        found.rows.iter().map(|row| (row.kind, row.address, row.waits.total, row.calls)).collect();
    let wanted = [
        (LockKind::Mutex, Some(0x1000), 320, 2),
        (LockKind::Futex, Some(0x9000), 90, 1),
        (LockKind::Condition, Some(0x2000), 50, 1),
    ];
    assert_eq!(rows, wanted);
    // Of a wait that was given up, nobody has ended it.
    let timeouts: Vec<_> = found.rows.iter().map(|row| row.timeouts).collect();
    assert_eq!(timeouts, [1, 0, 0]);
    let wakers = found.rows[0].wakers.iter();
    let wakers: Vec<_> = wakers
        .map(|it| (it.label.as_ref().and_then(|label| label.tid), it.ended_by, it.total))
        .collect();
    assert_eq!(wakers, [(Some(7), "thread", 300), (None, "timer", 20)]);
    let longest: Vec<_> = found.longest.iter().map(|it| (it.kind, it.nanos)).collect();
    let wanted = [
        (LockKind::Mutex, 300),
        (LockKind::Futex, 90),
        (LockKind::Condition, 50),
        (LockKind::Mutex, 20),
    ];
    assert_eq!(longest, wanted);
    assert_eq!(found.all.total, 320 + 90 + 50);
}

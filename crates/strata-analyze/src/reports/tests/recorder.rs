//! Tests of the kernel's stacks with frames of the recorder in them.

use std::fs;

use strata_ctf::kernel_symbols;
use strata_ctf::read::{Message, Reader, TimeRange};

use crate::debug_info::Source;
use crate::hand_tests::V::{self, Text, I64, U32, U64};
use crate::hand_tests::{metadata, Hand, Packets, Record};
use crate::reports::flame::{FlameMaker, Weigh};
use crate::reports::offcpu::OffCpuCounter;
use strata_timeline::{pass, Asked};

const SWITCH: u8 = 0;
const WAKING: u8 = 1;
const SAMPLE: u8 = 2;
const THERE: u8 = 3;

/// The addresses of functions, and their names.
const FUNCTIONS: [(u64, &str); 8] = [
    (0x1000, "schedule"),
    (0x2000, "futex_wait"),
    (0x3000, "do_syscall_64"),
    (0x4000, "__bpf_get_stack"),
    (0x5000, "__bpf_get_task_stack"),
    (0x6000, "bpf_trace_run4"),
    (0x7000, "bpf_prog_1_strata_context_put [bpf]"),
    (0x8000, "bpf_prog_2_sched_switch [bpf]"),
];
/// The stack of a switch, the innermost address first.
const STACK: [u64; 8] = [0x4010, 0x5010, 0x7010, 0x8010, 0x6010, 0x1010, 0x2010, 0x3010];

fn trace(hand: &Hand) -> Reader {
    let events = [
        ("sched_switch", "u32 prev_tid; i64 prev_state; u32 next_tid;"),
        ("sched_waking", "string comm; u32 tid;"),
        ("cpu_clock", ""),
        ("lttng_statedump_process_state", "u32 tid; u32 pid; u32 ppid; string name;"),
    ];
    let stack = |tid: u32, stack: &[u64]| -> Vec<V> {
        let depth = U32(u32::try_from(stack.len()).unwrap());
        [U32(tid), depth].into_iter().chain(stack.iter().map(|it| U64(*it))).collect()
    };
    let of = |tid, addresses: &[u64], rest: &[V]| [&stack(tid, addresses)[..], rest].concat();
    let all: Vec<(u8, u64, Vec<V>)> = vec![
        (THERE, 1, of(1, &[], &[U32(5), U32(5), U32(1), Text("app")])),
        (SWITCH, 10, of(0, &[], &[U32(0), I64(0), U32(5)])),
        (SAMPLE, 15, of(5, &STACK, &[])),
        (SWITCH, 20, of(5, &STACK, &[U32(5), I64(1), U32(7)])),
        (WAKING, 50, of(7, &[], &[Text("x"), U32(5)])),
        (SWITCH, 60, of(7, &[], &[U32(7), I64(1), U32(5)])),
    ];
    let records: Vec<Record<'_>> =
        all.iter().map(|(id, time, values)| (*id, *time, &values[..])).collect();
    let context = "u32 tid; u32 depth; u64 callstack_kernel[depth];";
    let text = metadata("domain = \"kernel\"; hostname = \"box\";", context, &events);
    hand.trace("k", &text, &[Packets::new(0).packet(&records)]);
    let symbols = FUNCTIONS.map(|(address, name)| {
        let (name, module) = name.split_once(' ').unwrap_or((name, ""));
        format!("{address:016x} t {name}\t{module}\n")
    });
    let symbols = kernel_symbols::of_kallsyms(&symbols.concat()).unwrap();
    fs::write(hand.0.join("k").join(kernel_symbols::FILE), symbols).unwrap();
    hand.reader()
}

#[test]
fn stacks_of_waits_begin_with_what_was_recorded() {
    let hand = Hand::new();
    let reader = trace(&hand);
    let mut counter = OffCpuCounter::new(TimeRange::ALL, 1, Source::default());
    let passed = pass(&reader, &Asked::default(), &mut counter, &|_| true, &mut |_| {}).unwrap();
    let report = counter.finish(passed.timeline.world(), &|label| label.pid == Some(5));
    let [row] = report.rows.as_slice() else { panic!("{:?}", report.rows) };
    assert_eq!(row.frames, ["schedule_[k]", "futex_wait_[k]", "do_syscall_64_[k]"]);
    assert_eq!(row.times.total, 30);
}

#[test]
fn stacks_of_samples_are_whole() {
    let hand = Hand::new();
    let reader = trace(&hand);
    let mut maker = FlameMaker::new(TimeRange::ALL, Weigh::Records, Source::default());
    let passed = pass(&reader, &Asked::default(), &mut maker, &|_| true, &mut |_| {}).unwrap();
    let flame = maker.finish(passed.timeline.world(), &|_| true);
    let stacks: Vec<_> = flame.profiles.iter().flat_map(|it| &it.stacks).collect();
    let [(frames, 1)] = stacks.as_slice() else { panic!("{stacks:?}") };
    assert_eq!(frames.len(), STACK.len());
    assert_eq!(&**frames.last().unwrap(), "__bpf_get_stack_[k]");
}

#[test]
fn places_in_stacks_that_are_shown_are_those_of_calls_behind_who_recorded_them() {
    let hand = Hand::new();
    let reader = trace(&hand);
    let mut source = Source::default();
    let mut found = Vec::new();
    let mut events = reader.events(TimeRange::ALL);
    while let Some(message) = events.next() {
        let Message::Event(event) = message else { continue };
        source.learn(&event);
        let frames = source.stacks(&event).and_then(|it| it.kernel).unwrap_or_default();
        if let Some(first) = frames.first() {
            let text = String::from_utf8(first.text()).unwrap();
            found.push((event.class().name().to_owned(), frames.len(), text, first.address));
        }
    }
    let wanted = [
        ("cpu_clock".to_owned(), 8, "__bpf_get_stack+0x10".to_owned(), 0x4010),
        ("sched_switch".to_owned(), 3, "schedule+0x10".to_owned(), 0x1010),
    ];
    assert_eq!(found, wanted);
}

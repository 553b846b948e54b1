//! Tests of call stacks of records that are not samples. Frames are exported as texts, and a kernel event with a stack
//! also as an instant.

use strata_ctf::kernel_symbols;

use super::*;

#[test]
fn frames_are_texts_that_are_reported_once_and_an_end_does_not_repeat_them() {
    let events = [
        ("lttng_ust_lib:load", "u64 baddr; u64 memsz; string path;"),
        ("a:e", ""),
        ("a:x_begin", "u64 n;"),
        ("a:x_end", "u64 n;"),
    ];
    let hand = Hand::new();
    let text =
        metadata(APPLICATION, "i64 vpid; u32 vtid; u32 depth; u64 callstack_user[depth];", &events);
    let stream = Packets::new(3).packet(&[
        (0, 5, &[I64(7), U32(8), U32(0), U64(0x1000), U64(0x100), Text("/no/shop")]),
        // The last one is in nothing that is known.
        (1, 10, &[I64(7), U32(8), U32(3), U64(0x1010), U64(0x1020), U64(0x5)]),
        (1, 20, &[I64(7), U32(9), U32(2), U64(0x1010), U64(0x1020)]),
        (2, 30, &[I64(7), U32(8), U32(1), U64(0x1030), U64(1)]),
        (3, 40, &[I64(7), U32(8), U32(1), U64(0x1040), U64(2)]),
        // More than have numbers.
        (1, 50, &[I64(7), U32(8), U32(4), U64(0x1050), U64(0x1061), U64(0x1071), U64(0x1081)]),
    ]);
    let found = exported(hand.trace("t", &text, &[stream]), &Options::default());
    assert_eq!(
        found.lines(),
        [
            "5 instant lttng_ust_lib:load @thread 7/8 {vpid=7 vtid=8 depth=0 callstack_user=() \
             baddr=4096 memsz=256 path='/no/shop' cpu=3}",
            "10 instant a:e @thread 7/8 {vpid=7 vtid=8 depth=3 \
             callstack_user=['shop+0x10' 'shop+0x1f' '0x5'] cpu=3}",
            "20 instant a:e @thread 7/9 {vpid=7 vtid=9 depth=2 \
             callstack_user=['shop+0x10' 'shop+0x1f'] cpu=3}",
            "30 begin a:x @thread 7/8 {vpid=7 vtid=8 depth=1 callstack_user=['shop+0x30'] n=1 cpu=3}",
            "40 end  @thread 7/8 {end=(n=2)}",
            "50 instant a:e @thread 7/8 {vpid=7 vtid=8 depth=4 \
             callstack_user=['shop+0x50' 'shop+0x60' 'shop+0x70' 'shop+0x80'] cpu=3}",
        ]
    );
    let told = found.packets.iter().filter_map(|packet| packet.interned_data.as_ref());
    let told: Vec<u64> = told
        .flat_map(|data| &data.debug_annotation_string_values)
        .map(|it| it.iid.unwrap())
        .collect();
    assert_eq!(told, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn message_of_the_kernel_with_a_call_stack_is_an_instant_too_and_counted_once() {
    let task = "string prev_comm; i64 prev_tid; i64 prev_prio; i64 prev_state; string next_comm; \
                i64 next_tid; i64 next_prio;";
    let hand = Hand::new();
    let context = "i64 tid; u32 depth; u64 callstack_kernel[depth];";
    let text = metadata("domain = \"kernel\";", context, &[("sched_switch", task)]);
    let with = |stack: &[crate::hand_tests::V], from, to| {
        let of = [I64(from), U32(stack.len() as u32)];
        [&of[..], stack, &switch(from, to)[..]].concat()
    };
    let (some, none) = (with(&[U64(0x2004), U64(0x1010)], 5, 6), with(&[], 6, 5));
    let stream = Packets::new(0).packet(&[(0, 10, &some), (0, 20, &none)]);
    hand.trace("k", &text, &[stream]);
    let symbols = kernel_symbols::of_kallsyms("1000 T do_exit\n2000 T schedule\n").unwrap();
    std::fs::write(hand.0.join("k").join(kernel_symbols::FILE), symbols).unwrap();
    let found = exported(&hand, &Options::default());
    let lines = found.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let wanted = "10 instant sched_switch @thread 5/5 {tid=5 depth=2 \
                  callstack_kernel=['schedule+0x4' 'do_exit+0x10'] prev_comm='was' ";
    assert!(lines[0].starts_with(wanted), "{lines:?}");
    let messages: usize = found.ftrace().iter().map(|(_, _, events)| events.len()).sum();
    assert_eq!((messages, found.summary.kernel, found.summary.instants), (2, 2, 0));
}

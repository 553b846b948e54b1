//! Removes the recorder's own frames from recorded stacks. A BPF program asks the kernel for the stack that it itself
//! runs on. The number of its frames depends on the kernel, the kind of event and the path through the program.
//!
//! ```text
//! __bpf_get_stack  __bpf_get_task_stack                        how the stack is read
//! bpf_prog_…_strata_context_put  bpf_prog_…_sched_switch       the program, function by function
//! bpf_trace_run4  __bpf_trace_sched_switch  __traceiter_…      how an event comes to its program
//! schedule  futex_wait_queue  …                                what was recorded
//! ```

/// The kernel's functions with which the recorder reads a call stack.
const READS: [&str; 6] = [
    "__bpf_get_stack",
    "__bpf_get_task_stack",
    "bpf_get_stack",
    "bpf_get_task_stack",
    "get_perf_callchain",
    "stack_trace_save_tsk",
];
/// The prefix that the kernel gives the names of BPF programs.
const PROGRAM: &str = "bpf_prog_";
/// The most nested functions of a BPF program.
const PROGRAM_DEPTH: usize = 8;
/// The functions by which events reach a BPF program, the innermost first: one of the first names, then any of the
/// others in this order, each at most once. `*` stands for any end of a name.
const WAYS: [(&[&str], &[&str]); 3] = [
    (&["bpf_trace_run*"], &["__bpf_trace_*", "__traceiter_*"]),
    (&["trace_call_bpf"], &["perf_trace_run_bpf_submit", "perf_trace_*", "__traceiter_*"]),
    (
        &["__uprobe_perf_func", "uprobe_perf_func"],
        &[
            "uprobe_dispatcher",
            "uretprobe_dispatcher",
            "handler_chain",
            "handle_swbp",
            "uprobe_notify_resume",
        ],
    ),
];
/// The events of samples. Their stacks begin where the sample interrupted the CPU, and have no frames of the recorder.
const SAMPLES: [&str; 3] = ["cpu_clock", "cpu-clock", "cycles"];

/// Returns true if the stacks of an event begin at the event, and not in the recorder's functions.
#[must_use]
pub fn is_sample(event: &str) -> bool {
    SAMPLES.contains(&event.rsplit(':').next().unwrap_or(event))
}

fn is_of(name: &str, pattern: &str) -> bool {
    // The compiler's and a module's come behind the name.
    let own = name.split(['.', ' ']).next().unwrap_or(name);
    pattern.strip_suffix('*').map_or(own == pattern, |begin| own.starts_with(begin))
}

/// Returns the number of frames in a kernel's stack that belong to the recorder. `depth` is the number of all frames,
/// and `name` returns the function of a frame; the innermost frame is 0.
pub(crate) fn frames_of_recorder(
    depth: usize,
    name: &mut dyn FnMut(usize) -> Option<String>,
) -> usize {
    let mut name = |at: usize| if at < depth { name(at) } else { None };
    let mut at = 0;
    let mut is_read = false;
    while at < READS.len() && name(at).is_some_and(|it| READS.iter().any(|read| is_of(&it, read))) {
        (at, is_read) = (at + 1, true);
    }
    let program = at;
    while at - program < PROGRAM_DEPTH && name(at).is_some_and(|it| it.starts_with(PROGRAM)) {
        at += 1;
    }
    let named = at;
    // The kernel may name no programs; then what is around them has to say that they are.
    while is_read && at < depth && at - program < PROGRAM_DEPTH {
        if name(at).is_some_and(|it| !it.starts_with(PROGRAM)) {
            break;
        }
        at += 1;
    }
    if at == program {
        return 0;
    }
    let first = name(at).unwrap_or_default();
    let way = WAYS.iter().find(|(begins, _)| begins.iter().any(|begin| is_of(&first, begin)));
    let Some((_, others)) = way else { return if named > program { named } else { 0 } };
    at += 1;
    for step in *others {
        at += usize::from(name(at).is_some_and(|name| is_of(&name, step)));
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the frames of a stack that are not the recorder's. '?' stands for a frame without a name.
    fn rest(stack: &str) -> String {
        let names: Vec<&str> = stack.split_whitespace().collect();
        let mut name = |at: usize| {
            names.get(at).filter(|name| **name != "?").map(|name| name.replace('~', " "))
        };
        let frames = frames_of_recorder(names.len(), &mut name);
        names[frames..].join(" ")
    }

    #[test]
    fn frames_of_who_records_are_left_off_whichever_way_the_event_came() {
        let asked = "__bpf_get_stack __bpf_get_task_stack bpf_prog_87_strata_context_put~[bpf] \
                     bpf_prog_7f_strata_context_take~[bpf]";
        for (way, stack) in [
            ("bpf_prog_ee_sched_switch~[bpf] bpf_trace_run4", "futex_do_wait __futex_wait"),
            ("bpf_prog_ee_sched_switch bpf_trace_run4 __bpf_trace_sched_switch", "schedule"),
            (
                "bpf_prog_53_record_numbers bpf_prog_a5_strata_sys_enter bpf_trace_run2 __bpf_trace_sys_enter",
                "syscall_trace_enter do_syscall_64",
            ),
            (
                "bpf_prog_ef_strata_tracepoint trace_call_bpf perf_trace_run_bpf_submit perf_trace_block_rq",
                "blk_mq_start_request virtio_queue_rq",
            ),
            ("bpf_prog_ef_x bpf_trace_run1 __traceiter_sched_waking", "try_to_wake_up"),
            (
                "bpf_prog_55_strata_uprobe __uprobe_perf_func uprobe_dispatcher handler_chain uprobe_notify_resume",
                "irqentry_exit_to_user_mode asm_exc_int3",
            ),
            ("bpf_prog_55_strata_uprobe uprobe_perf_func.isra.0 uprobe_dispatcher", "handle_x"),
            // Where nothing says how the event came there.
            ("bpf_prog_ee_x", "schedule"),
            ("bpf_prog_ee_x", "? ? schedule"),
            ("bpf_prog_ee_x", ""),
        ] {
            assert_eq!(rest(&format!("{asked} {way} {stack}")), stack, "{way}");
        }
        assert_eq!(rest("bpf_prog_87_x bpf_trace_run4 schedule"), "schedule");
    }

    #[test]
    fn frames_without_a_name_are_a_program_s_only_between_what_reads_stacks_and_what_runs_programs()
    {
        assert_eq!(rest("__bpf_get_stack ? ? ? bpf_trace_run4 schedule"), "schedule");
        for stack in [
            "? ? bpf_trace_run4 schedule",
            "__bpf_get_stack ? ? schedule",
            "__bpf_get_stack ? ?",
            "__bpf_get_stack ? ? ? ? ? ? ? ? ? bpf_trace_run4 schedule",
        ] {
            assert_eq!(rest(stack), stack);
        }
    }

    #[test]
    fn inner_frames_stay_whatever_they_are() {
        let inner = "try_to_wake_up bpf_ringbuf_commit bpf_prog_12_other bpf_trace_run4 schedule";
        let of = |stack: &str| rest(&format!("__bpf_get_stack bpf_prog_87_x {stack}"));
        assert_eq!(of(&format!("bpf_trace_run1 {inner}")), inner);
        // Another program, directly behind how this one's event came there, or another such way.
        for stack in [
            "bpf_prog_12_other bpf_trace_run4 schedule",
            "bpf_trace_run4 schedule",
            "trace_call_bpf perf_trace_x schedule",
            "__bpf_trace_a schedule",
        ] {
            assert_eq!(of(&format!("bpf_trace_run1 __bpf_trace_a {stack}")), stack);
        }
        // What no program has read.
        for stack in ["schedule bpf_prog_1_x", "bpf_trace_run4 schedule", "__bpf_get_stack", ""] {
            assert_eq!(rest(stack), stack);
        }
        // Names that only begin alike.
        let stack = "perf_trace_add event_sched_in";
        assert_eq!(of(stack), stack);
        assert_eq!(rest("__bpf_get_stack_x bpf_prog_87_x a"), "__bpf_get_stack_x bpf_prog_87_x a");
    }

    #[test]
    fn samples_begin_where_they_interrupted() {
        for (event, wanted) in
            [("cpu_clock", true), ("perf:cycles", true), ("sched_switch", false), ("", false)]
        {
            assert_eq!(is_sample(event), wanted);
        }
    }
}

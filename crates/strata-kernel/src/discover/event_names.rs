//! Converts the kernel's names of events and fields to the recorded ones. These are LTTng's, so that existing analyses
//! know them.

/// Returns the name under which an event is recorded, unless another event has the same name.
pub fn event_name(system: &str, name: &str) -> String {
    match system {
        "irq" if name.starts_with("softirq_") || name.starts_with("tasklet_") => {
            format!("irq_{name}")
        }
        "exceptions" => format!("x86_exceptions_{name}"),
        "irq_vectors" => format!("x86_irq_vectors_{name}"),
        "timer" if !name.starts_with("timer_") => format!("timer_{name}"),
        "kmem" if name.starts_with("mm_") || matches!(name, "kmalloc" | "kfree") => {
            format!("kmem_{name}")
        }
        "power" => format!("power_{name}"),
        _ => name.to_owned(),
    }
}

/// Returns the name under which a field is recorded.
pub fn field_name<'a>(system: &str, field: &'a str) -> &'a str {
    match (system, field) {
        ("sched", "pid") => "tid",
        ("sched", "prev_pid") => "prev_tid",
        ("sched", "next_pid") => "next_tid",
        ("sched", "parent_pid") => "parent_tid",
        ("sched", "child_pid") => "child_tid",
        ("sched", "old_pid") => "old_tid",
        _ => field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_name_is_what_analyses_of_kernels_know() {
        for (system, name, expected) in [
            ("sched", "sched_switch", "sched_switch"),
            ("irq", "irq_handler_entry", "irq_handler_entry"),
            ("irq", "softirq_raise", "irq_softirq_raise"),
            ("irq", "tasklet_exit", "irq_tasklet_exit"),
            ("exceptions", "page_fault_user", "x86_exceptions_page_fault_user"),
            ("irq_vectors", "local_timer_entry", "x86_irq_vectors_local_timer_entry"),
            ("timer", "timer_start", "timer_start"),
            ("timer", "hrtimer_expire_entry", "timer_hrtimer_expire_entry"),
            ("timer", "itimer_state", "timer_itimer_state"),
            ("kmem", "mm_page_alloc", "kmem_mm_page_alloc"),
            ("kmem", "kmalloc", "kmem_kmalloc"),
            ("kmem", "kfree", "kmem_kfree"),
            ("kmem", "kmem_cache_alloc", "kmem_cache_alloc"),
            ("power", "cpu_idle", "power_cpu_idle"),
            ("block", "block_rq_issue", "block_rq_issue"),
            ("net", "net_dev_xmit", "net_dev_xmit"),
        ] {
            assert_eq!(event_name(system, name), expected);
        }
    }

    #[test]
    fn field_name_of_a_scheduler_event_says_that_it_is_a_thread() {
        assert_eq!(field_name("sched", "next_pid"), "next_tid");
        assert_eq!(field_name("sched", "pid"), "tid");
        assert_eq!(field_name("sched", "prev_comm"), "prev_comm");
        assert_eq!(field_name("signal", "pid"), "pid");
    }
}

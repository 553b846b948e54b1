//! Names by which a filter can select an event: its own name and, for the begin or end of a system call, the name of
//! the call.

use crate::pattern::Pattern;

/// The word that selects all system calls.
pub const SYSCALLS: &str = "syscalls";

/// Prefixes that tracers put before a system call's name, for the events of its entry and exit.
const ENDS: [&str; 4] = ["syscall_entry_", "syscall_exit_", "sys_enter_", "sys_exit_"];
/// Prefix of the events of a system call from a 32-bit program.
const COMPAT: &str = "compat_";
/// Prefixes that `perf` puts before the names of such events.
const GROUPS: [&str; 2] = ["syscalls:", "raw_syscalls:"];

/// Beginnings of patterns that are meant for the kernel's tracepoints only, although system calls have such names as
/// well: `sched_*` shall not select `sched_yield`.
const TRACEPOINTS: [&str; 4] = ["sched_", "timer_", "io_uring_", "signal_"];

/// Returns the name of the system call whose begin or end the event is, and whether the call is from a 32-bit program.
#[must_use]
pub fn call_of(event: &[u8]) -> Option<(&[u8], bool)> {
    let event =
        GROUPS.iter().find_map(|group| event.strip_prefix(group.as_bytes())).unwrap_or(event);
    let (event, is_compat) = match event.strip_prefix(COMPAT.as_bytes()) {
        Some(event) => (event, true),
        None => (event, false),
    };
    let name = ENDS.iter().find_map(|end| event.strip_prefix(end.as_bytes()))?;
    (!name.is_empty()).then_some((name, is_compat))
}

impl Pattern {
    /// Returns whether the pattern selects an event by its own name, or by the name of the system call whose begin or
    /// end it is. Rules of kernel events select by the same names: `poll`, `epoll*`, `compat_poll`, `syscalls`.
    #[must_use]
    pub fn names_event(&self, event: &[u8]) -> bool {
        self.matches(event) || call_of(event).is_some_and(|call| self.names_call(call))
    }

    fn names_call(&self, (name, is_compat): (&[u8], bool)) -> bool {
        if self.exact() == Some(SYSCALLS.as_bytes()) {
            return true;
        }
        let is_of_tracepoints = self.exact().is_none()
            && TRACEPOINTS.iter().any(|begin| self.beginning().starts_with(begin.as_bytes()));
        if is_of_tracepoints {
            return false;
        }
        self.matches(name) || is_compat && self.matches(&[COMPAT.as_bytes(), name].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pattern: &str, event: &str) -> bool {
        Pattern::glob(pattern).names_event(event.as_bytes())
    }

    #[test]
    fn call_is_named_by_both_of_its_ends_however_a_tracer_spells_them() {
        for event in [
            "syscall_entry_poll",
            "syscall_exit_poll",
            "sys_enter_poll",
            "syscalls:sys_exit_poll",
            "compat_syscall_entry_poll",
        ] {
            assert!(names("poll", event) && names("syscalls", event) && names("po*", event));
            assert!(names("p?ll", event) && names("*", event), "{event}");
            assert!(!names("ppoll", event) && !names("pol", event) && !names("epoll*", event));
        }
        assert!(names("syscall_entry_poll", "syscall_entry_poll"));
        assert!(!names("syscall_exit_*", "syscall_entry_poll"));
    }

    #[test]
    fn call_of_a_32_bit_program_has_a_name_of_its_own_too() {
        assert!(names("compat_poll", "compat_syscall_entry_poll"));
        assert!(names("compat_*", "compat_syscall_exit_poll"));
        assert!(!names("compat_poll", "syscall_entry_poll"));
    }

    #[test]
    fn pattern_of_tracepoints_selects_no_calls_and_a_whole_name_does() {
        assert!(!names("sched_*", "syscall_entry_sched_yield"));
        assert!(!names("timer_*", "syscall_exit_timer_create"));
        assert!(names("sched_yield", "syscall_entry_sched_yield"));
        assert!(names("sched_*", "sched_switch"));
    }

    #[test]
    fn event_that_is_no_end_of_a_call_has_its_own_name_alone() {
        for event in ["sched_switch", "syscall_text", "syscall_entry_", "my:syscall_entry_poll"] {
            assert!(!names("poll", event) && !names("syscalls", event), "{event}");
            assert!(names(event, event));
        }
    }
}

//! How tracers spell the same: the kernel's events, system calls, and the fields that say whose a record is.

use strata_ctf::read::{EventClass, FieldRef, Scope};

/// Groups that some tracers write in front of the kernel's names.
const GROUPS: [&str; 7] =
    ["sched:", "irq:", "syscalls:", "raw_syscalls:", "signal:", "task:", "block:"];

/// What is in front of a system call's name, at its begin and at its end; and what its name begins with here.
const CALLS: [(&str, &str, &str); 3] = [
    ("syscall_entry_", "syscall_exit_", ""),
    ("compat_syscall_entry_", "compat_syscall_exit_", COMPAT),
    ("sys_enter_", "sys_exit_", ""),
];

/// A call of a program of 32 bits begins so.
const COMPAT: &str = "compat_";

/// The same where the call is a number.
const NUMBERED: (&str, &str) = ("sys_enter", "sys_exit");

/// A sample, of which its own fields say the process.
const SAMPLE: &str = "cpu_clock";

/// A kernel event's name without its group.
#[must_use]
pub fn kernel_name(name: &str) -> &str {
    GROUPS.iter().find_map(|group| name.strip_prefix(group)).unwrap_or(name)
}

/// An end of a system call, as an event's name says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEnd<'n> {
    /// `openat`.
    pub name: &'n str,
    /// Of a program of 32 bits.
    pub is_compat: bool,
    /// Its begin.
    pub begins: bool,
}

impl<'n> CallEnd<'n> {
    /// Of an event of this name; `None`: it is none, or has no name.
    #[must_use]
    pub fn of(event: &'n str) -> Option<CallEnd<'n>> {
        let event = kernel_name(event);
        CALLS.iter().find_map(|&(enter, leave, front)| {
            let begins = event.strip_prefix(enter);
            let name = begins.or_else(|| event.strip_prefix(leave))?;
            let is_compat = front == COMPAT;
            let end = CallEnd { name, is_compat, begins: begins.is_some() };
            Some(end).filter(|end| !end.name.is_empty())
        })
    }

    /// Its name among all calls: `compat_openat` is another one than `openat`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}{}", if self.is_compat { COMPAT } else { "" }, self.name)
    }
}

/// An end of a system call whose record says the call's number, and not its name.
#[derive(Clone, Debug)]
pub struct NumberedEnd {
    /// The number.
    pub number: FieldRef,
    /// At its end, what it has returned.
    pub result: Option<FieldRef>,
    /// Its begin.
    pub begins: bool,
}

impl NumberedEnd {
    /// Fields with the number, as kernels have called them.
    pub const FIELDS: [&'static str; 2] = ["id", "nr"];

    /// Whether events of this name are such ends: begins, or not.
    #[must_use]
    pub fn begins(event: &str) -> Option<bool> {
        match kernel_name(event) {
            name if name == NUMBERED.0 => Some(true),
            name if name == NUMBERED.1 => Some(false),
            _ => None,
        }
    }

    /// Of a class; `None`: its records are none, or do not say a number.
    #[must_use]
    pub fn of(class: &EventClass) -> Option<NumberedEnd> {
        let begins = NumberedEnd::begins(class.name())?;
        let find = |name: &&str| class.find_in(Scope::Payload, name);
        let number = NumberedEnd::FIELDS.iter().find_map(find)?;
        Some(NumberedEnd { number, result: find(&"ret").filter(|_| !begins), begins })
    }
}

/// The events that are the begins of a call of this name.
#[must_use]
pub fn begins_of(call: &str) -> Vec<String> {
    let of = |(enter, _, front): &(&str, &str, &str)| {
        let name = call.strip_prefix(front)?;
        Some(format!("{enter}{name}")).filter(|_| front.is_empty() != call.starts_with(COMPAT))
    };
    CALLS.iter().filter_map(of).collect()
}

/// The fields of a class that say whose its records are.
#[derive(Clone, Debug, Default)]
pub struct Whose {
    /// The thread, by the number that the trace knows it by.
    pub tid: Option<FieldRef>,
    /// Its process.
    pub pid: Option<FieldRef>,
    /// That one's name, or the thread's.
    pub process_name: Option<FieldRef>,
    /// The CPU.
    pub cpu: Option<FieldRef>,
}

impl Whose {
    /// Those of a class of a kernel's trace, or of an application's.
    #[must_use]
    pub fn new(class: &EventClass, is_kernel: bool) -> Whose {
        let context = |names: &[&str]| {
            let scopes = [Scope::SpecificContext, Scope::CommonContext, Scope::EventHeader];
            // The names in turn: a machine's own number before that within a container.
            names
                .iter()
                .find_map(|name| scopes.iter().find_map(|&scope| class.find_in(scope, name)))
        };
        // perf and trace-cmd have them among the fields.
        let field =
            |names: &[&str]| names.iter().find_map(|name| class.find_in(Scope::Payload, name));
        // By that of a container, the kernel's other records know somebody else.
        let (tid, pid): (&[&str], &[&str]) = match is_kernel {
            true => (&["tid", "perf_tid"], &["pid", "perf_pid"]),
            false => (&["tid", "vtid"], &["pid", "vpid"]),
        };
        Whose {
            tid: context(tid).or_else(|| field(&["perf_tid", "common_pid"])),
            pid: context(pid).or_else(|| field(&["perf_pid"])).or_else(|| match class.name() {
                SAMPLE if is_kernel => field(&["pid"]),
                _ => None,
            }),
            process_name: context(&["procname"]),
            cpu: context(&["cpu_id"]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_call_is_that_of_every_tracer() {
        let of = |name| CallEnd::of(name).map(|end| format!("{} {}", end.full_name(), end.begins));
        assert_eq!(of("syscall_entry_openat").as_deref(), Some("openat true"));
        assert_eq!(of("syscall_exit_openat").as_deref(), Some("openat false"));
        assert_eq!(of("compat_syscall_exit_mmap2").as_deref(), Some("compat_mmap2 false"));
        assert_eq!(of("syscalls:sys_enter_read").as_deref(), Some("read true"));
        assert_eq!(of("sys_exit_read").as_deref(), Some("read false"));
        let others = ["syscall_text", "sched_switch", "raw_syscalls:sys_enter", ""];
        for name in others.into_iter().chain(["my:syscall_entry_x", "syscall_entry_"]) {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn event_of_a_call_by_its_number_begins_or_ends_it() {
        for (name, begins) in [
            ("raw_syscalls:sys_enter", Some(true)),
            ("sys_exit", Some(false)),
            ("sys_enter_read", None),
            ("my:sys_enter", None),
            ("", None),
        ] {
            assert_eq!(NumberedEnd::begins(name), begins, "{name}");
        }
    }

    #[test]
    fn name_of_a_kernel_event_is_without_the_group_that_perf_writes() {
        for (name, wanted) in [
            ("sched:sched_switch", "sched_switch"),
            ("irq:softirq_entry", "softirq_entry"),
            ("block:block_rq_issue", "block_rq_issue"),
            ("block_rq_issue", "block_rq_issue"),
            ("signal:signal_generate", "signal_generate"),
            ("sched:", ""),
            ("my:sched:sched_switch", "my:sched:sched_switch"),
        ] {
            assert_eq!(kernel_name(name), wanted);
        }
    }

    #[test]
    fn begins_of_a_call_are_those_that_say_its_name() {
        assert_eq!(begins_of("read"), ["syscall_entry_read", "sys_enter_read"]);
        assert_eq!(begins_of("compat_read"), ["compat_syscall_entry_read"]);
        for name in begins_of("read").iter().chain(&begins_of("compat_read")) {
            let end = CallEnd::of(name).unwrap();
            assert!(end.begins && ["read", "compat_read"].contains(&end.full_name().as_str()));
        }
    }
}

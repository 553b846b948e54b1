//! The names that tracers have for the same things: the kernel's events, system calls, and the fields with a record's
//! thread.
//!
//! Strata and LTTng write `syscall_entry_openat`, ftrace and perf `sys_enter_openat` or `syscalls:sys_enter_openat`;
//! with `raw_syscalls:sys_enter` the call is a number in a field. All other files of this crate know only one form.

use strata_ctf::read::{EventClass, FieldRef, Scope};

/// The names of event groups, which perf writes before the kernel's names.
const GROUPS: [&str; 11] = [
    "sched:",
    "irq:",
    "syscalls:",
    "raw_syscalls:",
    "signal:",
    "task:",
    "block:",
    "timer:",
    "irq_vectors:",
    "workqueue:",
    "lock:",
];

/// The prefixes of a system call's begin and end for each tracer, and the prefix that the call's name gets here.
const CALLS: [(&str, &str, &str); 3] = [
    ("syscall_entry_", "syscall_exit_", ""),
    ("compat_syscall_entry_", "compat_syscall_exit_", COMPAT),
    ("sys_enter_", "sys_exit_", ""),
];

/// The prefixes of begins in LTTng 2.0 to 2.3, whose ends do not say their call.
const WITHOUT_END: [(&str, &str); 2] = [("sys_", ""), ("compat_sys_", COMPAT)];

/// The event of the end of any call in LTTng 2.0 to 2.3.
const END_OF_ANY: &str = "exit_syscall";

/// The prefix of names of calls by 32-bit programs.
const COMPAT: &str = "compat_";

/// The events of begins and ends that identify the call by number.
const NUMBERED: (&str, &str) = ("sys_enter", "sys_exit");

/// The fields of the entry of a slow call, which is recorded when the call returns: how long ago it began \[ns\], and
/// the threshold of recording \[ns\].
pub const OF_SLOW: [&str; 2] = ["elapsed", "slower_than"];

/// The first fields of the entry of a system call that is one of a sample. It is recorded when the call returns, too; the second
/// field says of how many calls one is recorded.
pub const OF_SAMPLED: [&str; 2] = [OF_SLOW[0], "sampled_every"];

/// The event of samples, whose process is in a payload field.
const SAMPLE: &str = "cpu_clock";

/// Returns the name of a kernel event without its group.
#[must_use]
pub fn kernel_name(name: &str) -> &str {
    GROUPS.iter().find_map(|group| name.strip_prefix(group)).unwrap_or(name)
}

/// The begin or the end of a system call, according to the name of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEnd<'n> {
    /// The call's name: `openat`.
    pub name: &'n str,
    /// True for a call by a 32-bit program.
    pub is_compat: bool,
    /// True for the begin, false for the end.
    pub begins: bool,
}

impl<'n> CallEnd<'n> {
    /// Parses the name of an event; `None` if it is not an end of a system call.
    #[must_use]
    pub fn of(event: &'n str) -> Option<CallEnd<'n>> {
        let event = kernel_name(event);
        // Of perf, this would be the end of a call that does not exist.
        let is_exit_group = event == "sys_exit_group";
        let of_pair = CALLS.iter().filter(|_| !is_exit_group).find_map(|&(enter, leave, front)| {
            let begins = event.strip_prefix(enter);
            let name = begins.or_else(|| event.strip_prefix(leave))?;
            let is_compat = front == COMPAT;
            let end = CallEnd { name, is_compat, begins: begins.is_some() };
            Some(end).filter(|end| !end.name.is_empty())
        });
        of_pair.or_else(|| {
            WITHOUT_END.iter().find_map(|&(enter, front)| {
                let name = event.strip_prefix(enter).filter(|name| !name.is_empty())?;
                let is_compat = front == COMPAT;
                let is_of_perf = name.starts_with("enter") || name.starts_with("exit");
                let is_other = is_of_perf && !is_exit_group && !is_compat;
                (!is_other).then_some(CallEnd { name, is_compat, begins: true })
            })
        })
    }

    /// Returns true for an event that begins a system call and has its name, while the event of its end is the same for
    /// all calls.
    #[must_use]
    pub fn is_ended_by_any(event: &str) -> bool {
        let is_old = |(enter, _): &(&str, &str)| kernel_name(event).starts_with(enter);
        let is_of_pair = |(enter, ..): &(&str, &str, &str)| kernel_name(event).starts_with(enter);
        let begins = CallEnd::of(event).is_some_and(|end| end.begins);
        begins && WITHOUT_END.iter().any(is_old) && !CALLS.iter().any(is_of_pair)
    }

    /// Returns true for an event that ends the call in which its thread is, whichever that is.
    #[must_use]
    pub fn is_of_any(event: &str) -> bool {
        event == END_OF_ANY
    }

    /// Returns the call's name among all calls. `compat_openat` is another call than `openat`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}{}", if self.is_compat { COMPAT } else { "" }, self.name)
    }
}

/// The begin or the end of a system call whose record has the call's number and not its name.
#[derive(Clone, Debug)]
pub struct NumberedEnd {
    /// The field with the call's number.
    pub number: FieldRef,
    /// The field with the return value, in records of ends.
    pub result: Option<FieldRef>,
    /// True for the begin, false for the end.
    pub begins: bool,
}

impl NumberedEnd {
    /// The names of the field with the number, in different kernels.
    pub const FIELDS: [&'static str; 2] = ["id", "nr"];

    /// Returns true if an event of this name is a begin, false if it is an end; `None` if it is neither.
    #[must_use]
    pub fn begins(event: &str) -> Option<bool> {
        match kernel_name(event) {
            name if name == NUMBERED.0 => Some(true),
            name if name == NUMBERED.1 => Some(false),
            _ => None,
        }
    }

    /// Finds the fields of a class of system call begins or ends. `None` if the class is neither, or its records lack
    /// the call's number.
    #[must_use]
    pub fn of(class: &EventClass) -> Option<NumberedEnd> {
        let begins = NumberedEnd::begins(class.name())?;
        let find = |name: &&str| class.find_in(Scope::Payload, name);
        let number = NumberedEnd::FIELDS.iter().find_map(find)?;
        Some(NumberedEnd { number, result: find(&"ret").filter(|_| !begins), begins })
    }
}

/// Returns the field of a class that says how long before its record the call began \[ns\]. The second field of
/// [`OF_SLOW`] or [`OF_SAMPLED`] must exist as well, since an argument could have the name of the first one.
#[must_use]
pub fn elapsed_field(class: &EventClass) -> Option<FieldRef> {
    CallEnd::of(class.name()).filter(|end| end.begins)?;
    let [elapsed, slower] = OF_SLOW.map(|name| class.find_in(Scope::Payload, name));
    let sampled = class.find_in(Scope::Payload, OF_SAMPLED[1]);
    elapsed.filter(|_| slower.or(sampled).is_some())
}

/// Returns the field of a class that says how long before its record the span began \[ns\], for begins of spans that are
/// recorded at the end of the span. It is a context, since a field of the program could have the same name.
#[must_use]
pub fn elapsed_of_span(class: &EventClass) -> Option<FieldRef> {
    let elapsed = class.find_in(Scope::SpecificContext, OF_SLOW[0]);
    elapsed.filter(|_| class.name().ends_with("_begin"))
}

/// Returns the names of the events for begins of a call.
#[must_use]
pub fn begins_of(call: &str) -> Vec<String> {
    let of = |(enter, front): (&str, &str)| {
        let name = call.strip_prefix(front)?;
        Some(format!("{enter}{name}")).filter(|_| front.is_empty() != call.starts_with(COMPAT))
    };
    let of_pairs = CALLS.iter().map(|&(enter, _, front)| (enter, front));
    of_pairs.chain(WITHOUT_END).filter_map(of).collect()
}

/// The fields of a class that say which thread made a record, and where.
#[derive(Clone, Debug, Default)]
pub struct Whose {
    /// The field with the thread, by its number within the trace.
    pub tid: Option<FieldRef>,
    /// The field with the process of the thread.
    pub pid: Option<FieldRef>,
    /// The field with the name of the process, or of the thread.
    pub process_name: Option<FieldRef>,
    /// The field with the number of the CPU on which the record was made.
    pub cpu: Option<FieldRef>,
}

impl Whose {
    /// Finds the fields in a class, by the names of a kernel's trace or of an application's.
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
            cpu: context(&["cpu_id"]).or_else(|| field(&["perf_cpu", "common_cpu"])),
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
        assert_eq!(of("sys_exit_exit_group").as_deref(), Some("exit_group false"));
        assert_eq!(of("sys_open").as_deref(), Some("open true"));
        assert_eq!(of("compat_sys_open").as_deref(), Some("compat_open true"));
        assert_eq!(of("sys_exit_group").as_deref(), Some("exit_group true"));
        assert!(CallEnd::is_of_any("exit_syscall") && !CallEnd::is_of_any("sys_exit"));
        let others = ["syscall_text", "sched_switch", "raw_syscalls:sys_enter", ""];
        let none = [
            "my:syscall_entry_x",
            "syscall_entry_",
            "sys_",
            "sys_enter",
            "sys_exit",
            "exit_syscall",
        ];
        for name in others.into_iter().chain(none) {
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
        assert_eq!(begins_of("read"), ["syscall_entry_read", "sys_enter_read", "sys_read"]);
        let compat = ["compat_syscall_entry_read", "compat_sys_read"];
        assert_eq!(begins_of("compat_read"), compat);
        for name in begins_of("read").iter().chain(&begins_of("compat_read")) {
            let end = CallEnd::of(name).unwrap();
            assert!(end.begins && ["read", "compat_read"].contains(&end.full_name().as_str()));
        }
    }
}

//! What a class of event records is to this format: an end of a system call, news of threads, or any other.

use std::collections::HashMap;

use strata_ctf::read::{Event, EventClass, FieldRef, Scope, Value};
use strata_model::EnvValue;

use super::key::Key;
use crate::render::escape;
use crate::render::shown::{Part, Shown};
use crate::render::FieldList;

/// System calls: what is in front of their names at entry and exit, and what stays in front of them here.
const CALLS: [(&str, &str, &str); 3] = [
    ("syscall_entry_", "syscall_exit_", ""),
    ("compat_syscall_entry_", "compat_syscall_exit_", "compat_"),
    ("sys_enter_", "sys_exit_", ""),
];

/// Groups that some tracers write in front of the kernel's names.
const GROUPS: [&str; 5] = ["sched:", "irq:", "syscalls:", "raw_syscalls:", "task:"];

/// Calls that do not return.
const WITHOUT_RETURN: [&str; 2] = ["exit", "exit_group"];

/// Records of what was there when recording began begin so.
const STATE_DUMPS: [&str; 2] = ["lttng_statedump_", "lttng_ust_statedump:"];

/// Contexts that say whose a record is: its line does.
const IDENTITY: [&str; 9] =
    ["tid", "vtid", "pid", "vpid", "procname", "cpu_id", "common_pid", "perf_tid", "perf_pid"];

/// Call stacks.
const STACKS: [&str; 2] = ["callstack_kernel", "callstack_user"];

/// The same of perf and trace-cmd, among the fields.
const COMMON: [&str; 9] = [
    "common_type",
    "common_flags",
    "common_preempt_count",
    "common_pid",
    "perf_tid",
    "perf_pid",
    "perf_ip",
    "perf_id",
    "__syscall_nr",
];

/// A system call of a trace, by the order in which they come.
pub(super) type CallId = usize;

/// Which calls there are, and of which an end can never be selected.
#[derive(Debug, Default)]
pub(super) struct Calls {
    ids: HashMap<(usize, String), CallId>,
    never: Vec<[bool; 2]>,
}

impl Calls {
    fn id(&mut self, trace: usize, name: &str) -> CallId {
        let next = self.never.len();
        let id = *self.ids.entry((trace, name.to_owned())).or_insert(next);
        if id == next {
            self.never.push([false; 2]);
        }
        id
    }

    /// No record of this end is ever selected.
    pub(super) fn rule_out(&mut self, id: CallId, is_exit: bool) {
        if let Some(never) = self.never.get_mut(id) {
            never[usize::from(is_exit)] = true;
        }
    }

    pub(super) fn is_ruled_out(&self, id: CallId, is_exit: bool) -> bool {
        self.never.get(id).is_some_and(|never| never[usize::from(is_exit)])
    }
}

/// What a record does.
#[derive(Debug)]
pub(super) enum Role {
    /// A thread makes a system call.
    Entry { id: CallId, returns: bool, program: Option<FieldRef> },
    /// It returns.
    Exit { id: CallId, ret: Option<FieldRef>, is_execve: bool },
    /// The text of an argument, which could not be read at its call's entry.
    Late { argument: FieldRef, text: FieldRef },
    /// Another thread runs from now on.
    Switch { prev: FieldRef, next: FieldRef },
    /// Of what was there when recording began.
    State,
    /// Any other.
    Other,
}

/// A record says what a thread is called.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) tid: FieldRef,
    pub(super) name: FieldRef,
    /// The name is a file that the thread executes from now on.
    pub(super) is_program: bool,
    /// Nothing is said of what it was called before.
    pub(super) is_new: bool,
}

/// How a part of a record is shown.
#[derive(Debug)]
pub(super) struct PartPlan {
    pub(super) part: Part,
    pub(super) shown: Shown,
}

/// All that is known of a class.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) role: Role,
    /// The event's name, or the call's; as it is shown.
    pub(super) name: Vec<u8>,
    pub(super) trace: usize,
    /// The thread that has recorded it.
    pub(super) tid: Option<FieldRef>,
    cpu: Option<FieldRef>,
    pub(super) procname: Option<FieldRef>,
    /// The process whose trace it is: its name, and the thread where records do not say one.
    pub(super) process: Option<(Vec<u8>, Option<i64>)>,
    pub(super) told: Vec<Told>,
    pub(super) payload: PartPlan,
    /// Contexts, of which there is something to show.
    pub(super) contexts: Vec<PartPlan>,
}

/// A kernel event's name without its group.
pub(super) fn kernel_name(name: &str) -> &str {
    GROUPS.iter().find_map(|group| name.strip_prefix(group)).unwrap_or(name)
}

/// The name of a call, and whether this is its exit.
pub(super) fn call_of(name: &str) -> Option<(String, bool)> {
    let name = kernel_name(name);
    CALLS.iter().find_map(|(entry, exit, front)| {
        let found = name.strip_prefix(entry).map(|call| (call, false));
        let (call, is_exit) = found.or_else(|| Some((name.strip_prefix(exit)?, true)))?;
        Some((format!("{front}{call}"), is_exit))
    })
}

/// The fields that say what threads are called.
pub(super) fn told(class: &EventClass) -> Vec<Told> {
    let find = |names: &[&str]| names.iter().find_map(|name| class.find_in(Scope::Payload, name));
    let one = |tid: &[&str], name: &str| {
        Some(Told { tid: find(tid)?, name: find(&[name])?, is_program: false, is_new: false })
    };
    let new = |told: Option<Told>| told.map(|told| Told { is_new: true, ..told });
    let found = match kernel_name(class.name()) {
        "lttng_statedump_process_state" => vec![one(&["tid"], "name")],
        "sched_switch" => vec![
            one(&["prev_tid", "prev_pid"], "prev_comm"),
            one(&["next_tid", "next_pid"], "next_comm"),
        ],
        "sched_process_fork" => match find(&["child_tid"]) {
            Some(_) => {
                vec![one(&["parent_tid"], "parent_comm"), new(one(&["child_tid"], "child_comm"))]
            }
            None => {
                vec![one(&["parent_pid"], "parent_comm"), new(one(&["child_pid"], "child_comm"))]
            }
        },
        "sched_wakeup" | "sched_waking" | "sched_wakeup_new" | "sched_process_exit"
        | "sched_process_free" | "sched_migrate_task" => vec![one(&["tid", "pid"], "comm")],
        "sched_process_exec" => {
            let tid = find(&["tid", "pid"]);
            vec![tid.zip(find(&["filename"])).map(|(tid, name)| Told {
                tid,
                name,
                is_program: true,
                is_new: true,
            })]
        }
        _ => Vec::new(),
    };
    found.into_iter().flatten().collect()
}

impl Class {
    /// `names_stacks`: call stacks are shown elsewhere.
    pub(super) fn new(
        event: &Event<'_>,
        fields: Option<&FieldList>,
        names_stacks: bool,
        calls: &mut Calls,
    ) -> Class {
        let (class, trace) = (event.class(), event.stream().trace());
        let find = |name: &str| class.find_in(Scope::Payload, name);
        let call =
            call_of(class.name()).filter(|_| class.has(Scope::Payload) || class.name() != "");
        let short = kernel_name(class.name());
        let role = match &call {
            Some((name, false)) => Role::Entry {
                id: calls.id(trace.index(), name),
                returns: !WITHOUT_RETURN.contains(&name.trim_start_matches("compat_")),
                program: find("filename").filter(|_| name.ends_with("execve")),
            },
            Some((name, true)) => Role::Exit {
                id: calls.id(trace.index(), name),
                ret: find("ret"),
                is_execve: name.ends_with("execve"),
            },
            None => match (find("argument"), find("text")) {
                (Some(argument), Some(text)) if short == "syscall_text" => {
                    Role::Late { argument, text }
                }
                _ if STATE_DUMPS.iter().any(|begin| class.name().starts_with(begin)) => Role::State,
                _ => match short {
                    "sched_switch" => {
                        let prev = find("prev_tid").or_else(|| find("prev_pid"));
                        let next = find("next_tid").or_else(|| find("next_pid"));
                        prev.zip(next)
                            .map_or(Role::Other, |(prev, next)| Role::Switch { prev, next })
                    }
                    _ => Role::Other,
                },
            },
        };
        let schema = class.schema();
        let mut hidden: Vec<&str> = COMMON.to_vec();
        if matches!(role, Role::Exit { .. }) {
            hidden.push("ret");
        }
        let mut identity = IDENTITY.to_vec();
        if names_stacks {
            hidden.extend(STACKS);
            identity.extend(STACKS);
        }
        let plan = |part, structure, hidden: &[&str]| PartPlan {
            part,
            shown: Shown::brief(structure, part, fields, hidden),
        };
        let stream = event.stream().class();
        let mut contexts = vec![
            plan(Part::Common, stream.event_common_context.as_ref(), &identity),
            plan(Part::Context, schema.specific_context.as_ref(), &identity),
        ];
        if fields.is_some() {
            contexts.insert(0, plan(Part::Packet, stream.packet_context.as_ref(), &[]));
        }
        contexts.retain(|plan| plan.shown != Shown::Nothing);
        let shown_name = match &call {
            Some((name, _)) => name.as_str(),
            None if class.name().is_empty() => "<unknown>",
            None => class.name(),
        };
        let mut name = Vec::new();
        escape::tame_text(&mut name, shown_name.as_bytes());
        let context = |names: &[&str]| {
            let scopes = [Scope::SpecificContext, Scope::CommonContext, Scope::EventHeader];
            let mut found = names.iter().flat_map(|name| scopes.map(|scope| (scope, name)));
            found.find_map(|(scope, name)| class.find_in(scope, name))
        };
        let environment = trace.schema();
        let text = |name| match environment.environment(name) {
            Some(EnvValue::Text(text)) if !text.is_empty() => Some(text.as_bytes().to_vec()),
            _ => None,
        };
        let vpid = match environment.environment("vpid") {
            Some(&EnvValue::Integer(vpid)) => Some(vpid),
            _ => None,
        };
        Class {
            role,
            name,
            trace: trace.index(),
            tid: context(&["tid", "vtid", "perf_tid"])
                .or_else(|| find("perf_tid"))
                .or_else(|| find("common_pid")),
            cpu: context(&["cpu_id"]),
            procname: context(&["procname"]),
            process: text("procname").map(|name| (name, vpid)),
            told: told(class),
            payload: plan(Part::Payload, schema.payload.as_ref(), &hidden),
            contexts,
        }
    }

    /// Whose it is, where that is no process with a trace of its own.
    #[inline]
    pub(super) fn cpu(&self, event: &Event<'_>) -> Option<Key> {
        let said = || u64::try_from(number(event, self.cpu.as_ref()?)?).ok();
        event.packet().cpu.or_else(said).map(|cpu| Key::cpu(self.trace, cpu))
    }
}

/// An integer's value; one above 2^63 as its two's complement.
#[inline]
pub(super) fn number(event: &Event<'_>, field: &FieldRef) -> Option<i64> {
    match event.value(field)? {
        Value::Unsigned(value) => Some(value as i64),
        Value::Signed(value) => Some(value),
        _ => None,
    }
}

/// A text's bytes.
#[inline]
pub(super) fn text<'e>(event: &Event<'e>, field: &FieldRef) -> Option<&'e [u8]> {
    match event.value(field)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_of_a_name_is_that_of_every_tracer() {
        let of = |name| call_of(name).map(|(call, is_exit)| format!("{call} {is_exit}"));
        assert_eq!(of("syscall_entry_openat").as_deref(), Some("openat false"));
        assert_eq!(of("syscall_exit_openat").as_deref(), Some("openat true"));
        assert_eq!(of("compat_syscall_exit_mmap2").as_deref(), Some("compat_mmap2 true"));
        assert_eq!(of("syscalls:sys_enter_read").as_deref(), Some("read false"));
        assert_eq!(of("sys_exit_read").as_deref(), Some("read true"));
        for name in
            ["syscall_text", "sched_switch", "raw_syscalls:sys_enter", "", "my:syscall_entry_x"]
        {
            assert_eq!(of(name), None, "{name}");
        }
    }
}

//! What a class of event records is to this format: an end of a system call, news of threads, or any other.

use std::collections::{HashMap, HashSet};

use strata_ctf::read::{Event, EventClass, FieldRef, Scope, Trace, Value};
use strata_model::syscalls::{name_of, Architecture};
use strata_model::EnvValue;
use strata_timeline::{
    architecture, is_kernel, kernel_name, CallEnd, NumberedEnd, StepPlan, Steps, Whose,
};

use super::key::ThreadOrCpu;
use crate::mix::Mix;
use crate::render::escape;
use crate::render::shown::{RecordPart, ShownPart};
use crate::render::FieldList;

/// Calls that do not return.
const WITHOUT_RETURN: [&[u8]; 2] = [b"exit", b"exit_group"];

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
pub(super) type CallNumber = usize;

/// What is known of a call.
#[derive(Debug, Default)]
struct KnownCall {
    /// As it is shown.
    name: Vec<u8>,
    /// Whose ends are those of this call, by number: that says which can never be selected.
    among: Option<CallNumber>,
    never: [bool; 2],
}

/// Which calls there are, and of which an end can never be selected.
#[derive(Debug, Default)]
pub(super) struct KnownCalls {
    ids: HashMap<(usize, String), CallNumber>,
    /// By trace and number, and whether the record is of the begin; `None`: the trace has that call by its name.
    numbered: HashMap<(usize, i64, bool), Option<CallNumber>, Mix>,
    known: Vec<KnownCall>,
}

impl KnownCalls {
    fn id(&mut self, trace: usize, name: &str) -> CallNumber {
        let next = self.known.len();
        let id = *self.ids.entry((trace, name.to_owned())).or_insert(next);
        if id == next {
            let mut shown = Vec::new();
            escape::tame_text(&mut shown, name.as_bytes());
            self.known.push(KnownCall { name: shown, ..KnownCall::default() });
        }
        id
    }

    /// Its name, as it is shown.
    pub(super) fn name(&self, id: CallNumber) -> &[u8] {
        self.known.get(id).map_or(&[], |known| &known.name)
    }

    /// The call of a record that says its number; `None`: there is none of such a number, or it is shown by its name.
    #[inline]
    pub(super) fn numbered(
        &mut self,
        trace: usize,
        end: &Numbered,
        number: i64,
    ) -> Option<CallNumber> {
        let key = (trace, number, end.begins);
        if let Some(&id) = self.numbered.get(&key) {
            return id;
        }
        let name = name_of(end.architecture, number, end.begins)?;
        if end.named.contains(&*name) {
            self.numbered.insert(key, None);
            return None;
        }
        let id = self.id(trace, &name);
        if let Some(known) = self.known.get_mut(id) {
            known.among = Some(end.among);
        }
        self.numbered.insert(key, Some(id));
        Some(id)
    }

    /// No record of this end is ever selected.
    pub(super) fn rule_out(&mut self, id: CallNumber, is_exit: bool) {
        if let Some(known) = self.known.get_mut(id) {
            known.never[usize::from(is_exit)] = true;
        }
    }

    pub(super) fn is_ruled_out(&self, id: CallNumber, is_exit: bool) -> bool {
        let of = self.known.get(id).and_then(|known| known.among).unwrap_or(id);
        self.known.get(of).is_some_and(|known| known.never[usize::from(is_exit)])
    }
}

/// An end of a call that has a number and no name.
#[derive(Debug)]
pub(super) struct Numbered {
    pub(super) number: FieldRef,
    pub(super) ret: Option<FieldRef>,
    pub(super) begins: bool,
    architecture: Option<Architecture>,
    /// Calls that the trace has by their names, too.
    named: HashSet<String>,
    /// Stands for all calls of the trace that have numbers.
    pub(super) among: CallNumber,
    /// What the record has besides.
    pub(super) rest: ShortPart,
}

/// What a record does.
#[derive(Debug)]
pub(super) enum RecordRole {
    /// A thread makes a system call.
    Entry { id: CallNumber, returns: bool, program: Option<FieldRef> },
    /// It returns.
    Exit { id: CallNumber, ret: Option<FieldRef>, is_execve: bool },
    /// Either of a call whose number it says.
    Numbered(Numbered),
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
pub(super) struct ToldName {
    pub(super) tid: FieldRef,
    pub(super) name: FieldRef,
    /// The name is a file that the thread executes from now on.
    pub(super) is_program: bool,
    /// Nothing is said of what it was called before.
    pub(super) is_new: bool,
}

/// How a part of a record is shown.
#[derive(Debug)]
pub(super) struct ShortPart {
    pub(super) part: RecordPart,
    pub(super) shown: ShownPart,
}

/// All that is known of a class.
#[derive(Debug)]
pub(super) struct ShortClass {
    pub(super) role: RecordRole,
    /// The event's name, as it is shown.
    pub(super) name: Vec<u8>,
    pub(super) trace: usize,
    /// The thread that has recorded it.
    pub(super) tid: Option<FieldRef>,
    cpu: Option<FieldRef>,
    pub(super) procname: Option<FieldRef>,
    /// The process whose trace it is: its name, and the thread where records do not say one.
    pub(super) process: Option<(Vec<u8>, Option<i64>)>,
    pub(super) told: Vec<ToldName>,
    /// What its records do to descriptors.
    pub(super) step: Option<StepPlan>,
    /// What descriptors are for can be known.
    pub(super) has_paths: bool,
    pub(super) payload: ShortPart,
    /// Contexts, of which there is something to show.
    pub(super) contexts: Vec<ShortPart>,
}

/// Whether a call of this name returns.
pub(super) fn returns(name: &[u8]) -> bool {
    !WITHOUT_RETURN.contains(&name.strip_prefix(b"compat_").unwrap_or(name))
}

/// Whether a call of this name begins another program.
pub(super) fn is_execve(name: &[u8]) -> bool {
    name.ends_with(b"execve")
}

/// The name of a call, and whether this is its exit.
pub(super) fn call_of(name: &str) -> Option<(String, bool)> {
    CallEnd::of(name).map(|end| (end.full_name(), !end.begins))
}

/// `None`: it says no number.
fn numbered(
    class: &EventClass,
    trace: &Trace,
    fields: Option<&FieldList>,
    calls: &mut KnownCalls,
) -> Option<Numbered> {
    let schema = trace.schema();
    if !is_kernel(schema) {
        return None;
    }
    let NumberedEnd { number, result, begins } = NumberedEnd::of(class)?;
    let events = schema.streams.iter().flat_map(|stream| &stream.events);
    let named = events.filter_map(|event| Some(call_of(&event.name)?.0)).collect();
    let mut hidden: Vec<&str> = COMMON.to_vec();
    hidden.extend(NumberedEnd::FIELDS);
    if !begins {
        hidden.push("ret");
    }
    let payload = class.schema().payload.as_ref();
    Some(Numbered {
        number,
        ret: result,
        begins,
        architecture: architecture(schema),
        named,
        among: calls.id(trace.index(), ""),
        rest: ShortPart {
            part: RecordPart::Payload,
            shown: ShownPart::brief(payload, RecordPart::Payload, fields, &hidden),
        },
    })
}

/// The fields that say what threads are called.
pub(super) fn told(class: &EventClass) -> Vec<ToldName> {
    let find = |names: &[&str]| names.iter().find_map(|name| class.find_in(Scope::Payload, name));
    let one = |tid: &[&str], name: &str| {
        Some(ToldName { tid: find(tid)?, name: find(&[name])?, is_program: false, is_new: false })
    };
    let new = |told: Option<ToldName>| told.map(|told| ToldName { is_new: true, ..told });
    let found = match kernel_name(class.name()) {
        "lttng_statedump_process_state" => vec![one(&["tid"], "name")],
        "lttng_statedump_vm_exec" => vec![new(one(&["tid"], "name"))],
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
            vec![tid.zip(find(&["filename"])).map(|(tid, name)| ToldName {
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

impl ShortClass {
    /// `names_stacks`: call stacks are shown elsewhere.
    pub(super) fn new(
        event: &Event<'_>,
        fields: Option<&FieldList>,
        names_stacks: bool,
        calls: &mut KnownCalls,
        steps: &mut Steps,
    ) -> ShortClass {
        let (class, trace) = (event.class(), event.stream().trace());
        let find = |name: &str| class.find_in(Scope::Payload, name);
        let call =
            call_of(class.name()).filter(|_| class.has(Scope::Payload) || class.name() != "");
        let short = kernel_name(class.name());
        let role = match &call {
            Some((name, false)) => RecordRole::Entry {
                id: calls.id(trace.index(), name),
                returns: returns(name.as_bytes()),
                program: find("filename").filter(|_| is_execve(name.as_bytes())),
            },
            Some((name, true)) => RecordRole::Exit {
                id: calls.id(trace.index(), name),
                ret: find("ret"),
                is_execve: is_execve(name.as_bytes()),
            },
            None if NumberedEnd::begins(class.name()).is_some() => {
                numbered(class, trace, fields, calls)
                    .map_or(RecordRole::Other, RecordRole::Numbered)
            }
            None => match (find("argument"), find("text")) {
                (Some(argument), Some(text)) if short == "syscall_text" => {
                    RecordRole::Late { argument, text }
                }
                _ if STATE_DUMPS.iter().any(|begin| class.name().starts_with(begin)) => {
                    RecordRole::State
                }
                _ => match short {
                    "sched_switch" => {
                        let prev = find("prev_tid").or_else(|| find("prev_pid"));
                        let next = find("next_tid").or_else(|| find("next_pid"));
                        prev.zip(next).map_or(RecordRole::Other, |(prev, next)| {
                            RecordRole::Switch { prev, next }
                        })
                    }
                    _ => RecordRole::Other,
                },
            },
        };
        let schema = class.schema();
        let mut hidden: Vec<&str> = COMMON.to_vec();
        if matches!(role, RecordRole::Exit { .. }) {
            hidden.push("ret");
        }
        let mut identity = IDENTITY.to_vec();
        if names_stacks {
            hidden.extend(STACKS);
            identity.extend(STACKS);
        }
        let plan = |part, structure, hidden: &[&str]| ShortPart {
            part,
            shown: ShownPart::brief(structure, part, fields, hidden),
        };
        let stream = event.stream().class();
        let mut contexts = vec![
            plan(RecordPart::Common, stream.event_common_context.as_ref(), &identity),
            plan(RecordPart::Context, schema.specific_context.as_ref(), &identity),
        ];
        if fields.is_some() {
            contexts.insert(0, plan(RecordPart::Packet, stream.packet_context.as_ref(), &[]));
        }
        contexts.retain(|plan| plan.shown != ShownPart::Nothing);
        let shown_name = match &call {
            Some((name, _)) => name.as_str(),
            None if class.name().is_empty() => "<unknown>",
            None => class.name(),
        };
        let mut name = Vec::new();
        escape::tame_text(&mut name, shown_name.as_bytes());
        let environment = trace.schema();
        let text = |name| match environment.environment(name) {
            Some(EnvValue::Text(text)) if !text.is_empty() => Some(text.as_bytes().to_vec()),
            _ => None,
        };
        let vpid = match environment.environment("vpid") {
            Some(&EnvValue::Integer(vpid)) => Some(vpid),
            _ => None,
        };
        let whose = Whose::new(class, is_kernel(environment));
        ShortClass {
            role,
            name,
            trace: trace.index(),
            tid: whose.tid,
            cpu: whose.cpu,
            procname: whose.process_name,
            process: text("procname").map(|name| (name, vpid)),
            told: told(class),
            step: steps.plan(class, trace),
            has_paths: steps.can_be_known(trace),
            payload: plan(RecordPart::Payload, schema.payload.as_ref(), &hidden),
            contexts,
        }
    }

    /// Whose it is, where that is no process with a trace of its own.
    #[inline]
    pub(super) fn cpu(&self, event: &Event<'_>) -> Option<ThreadOrCpu> {
        let said = || u64::try_from(event.integer(self.cpu.as_ref()?)?).ok();
        event.packet().cpu.or_else(said).map(|cpu| ThreadOrCpu::cpu(self.trace, cpu))
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

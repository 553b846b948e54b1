//! The classes of event records in the short format: ends of system calls, records about threads, and all others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use strata_ctf::read::{
    DeferredClass, Event, EventClass, FieldInfo, FieldRef, Scope, Trace, Value, Visit,
};
use strata_model::syscalls::{name_of, Architecture};
use strata_model::EnvValue;
use strata_timeline::{
    architecture, elapsed_field, is_kernel, kernel_name, CallEnd, NumberedEnd, StepPlan, Steps,
    Whose, OF_SAMPLED, OF_SLOW,
};

use super::completion_key::ThreadOrCpu;
use super::deferred_arguments::Deferrable;
use crate::fast_hash::Mix;
use crate::render::escape;
use crate::render::field_selection::{RecordPart, ShownPart};
use crate::render::FieldList;
use crate::stack_copy;

/// System calls that do not return.
const WITHOUT_RETURN: [&[u8]; 2] = [b"exit", b"exit_group"];

/// Prefixes of the names of state dump events.
const STATE_DUMPS: [&str; 2] = ["lttng_statedump_", "lttng_ust_statedump:"];

/// Contexts that identify the thread or process of a record. They are not shown, since the line says this already.
const IDENTITY: [&str; 9] =
    ["tid", "vtid", "pid", "vpid", "procname", "cpu_id", "common_pid", "perf_tid", "perf_pid"];

/// The context fields with call stacks.
const STACKS: [&str; 2] = ["callstack_kernel", "callstack_user"];
const STACK_SCOPES: [Scope; 3] = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];

/// Names of common fields that perf and trace-cmd have among an event's own fields.
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

/// A system call of a trace, by its place in [`KnownCalls`].
pub(super) type CallNumber = usize;

/// A system call, and which of its ends may be selected.
#[derive(Debug, Default)]
struct KnownCall {
    /// The name for display.
    name: Vec<u8>,
    /// The entry that has `never` for this call, if it is the common one of all calls recorded by number.
    among: Option<CallNumber>,
    never: [bool; 2],
}

/// All system calls of the traces.
#[derive(Debug, Default)]
pub(super) struct KnownCalls {
    ids: HashMap<(usize, String), CallNumber>,
    /// Calls by trace, number and whether the record is a begin; `None` if the trace records that call by its name.
    numbered: HashMap<(usize, i64, bool), Option<CallNumber>, Mix>,
    known: Vec<KnownCall>,
    /// For each trace, the classes of records with deferred arguments.
    deferred: HashMap<usize, Arc<[DeferredClass]>>,
}

impl KnownCalls {
    fn deferred(&mut self, trace: &Trace) -> Arc<[DeferredClass]> {
        let of = || trace.event_classes().filter_map(DeferredClass::new).collect();
        Arc::clone(self.deferred.entry(trace.index()).or_insert_with(of))
    }

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

    /// Returns a call's name for display.
    pub(super) fn name(&self, id: CallNumber) -> &[u8] {
        self.known.get(id).map_or(&[], |known| &known.name)
    }

    /// Returns the call of a record that has the call's number; `None` if the number is unknown, or the trace also
    /// records that call by its name.
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

    /// Notes that the filter can never select this end of the call.
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

/// The fields of a record that is one end of a system call, which it identifies by number.
#[derive(Debug)]
pub(super) struct Numbered {
    pub(super) number: FieldRef,
    pub(super) ret: Option<FieldRef>,
    pub(super) begins: bool,
    architecture: Option<Architecture>,
    /// The calls that the trace also records by their names.
    named: HashSet<String>,
    /// The entry that stands for all calls of the trace that are recorded by number.
    pub(super) among: CallNumber,
    /// The other fields of the record.
    pub(super) rest: ShortPart,
}

/// The role of a class' records in the short format.
#[derive(Debug)]
pub(super) enum RecordRole {
    /// The entry of a system call.
    Entry { id: CallNumber, returns: bool, program: Option<FieldRef> },
    /// The return of a system call.
    Exit { id: CallNumber, ret: Option<FieldRef>, is_execve: bool },
    /// One end of a system call that the record identifies by number.
    Numbered(Numbered),
    /// A deferred argument, which was not in memory at its call's entry.
    Late(DeferredClass),
    /// The record of a switch to another thread.
    Switch { prev: FieldRef, next: FieldRef },
    /// A record of a state dump.
    State,
    /// Any other record.
    Other,
}

/// The fields of a record that gives a thread a name.
#[derive(Debug)]
pub(super) struct ToldName {
    pub(super) tid: FieldRef,
    pub(super) name: FieldRef,
    /// True if the name is the path of a program that the thread executes from now on.
    pub(super) is_program: bool,
    /// True if the thread had no name before.
    pub(super) is_new: bool,
}

/// The plan for showing a part of a record.
#[derive(Debug)]
pub(super) struct ShortPart {
    pub(super) part: RecordPart,
    pub(super) shown: ShownPart,
}

/// The facts on a class of records that lines are made from.
#[derive(Debug)]
pub(super) struct ShortClass {
    pub(super) role: RecordRole,
    /// The event's name for display.
    pub(super) name: Vec<u8>,
    pub(super) trace: usize,
    /// The field with the thread that made the record.
    pub(super) tid: Option<FieldRef>,
    cpu: Option<FieldRef>,
    /// The field with the time since the call's begin, of an entry that was recorded only when the call returned
    /// \[ns\].
    pub(super) elapsed: Option<FieldRef>,
    pub(super) procname: Option<FieldRef>,
    /// If the trace is of one process: the process' name, and its thread if records do not name one.
    pub(super) process: Option<(Vec<u8>, Option<i64>)>,
    pub(super) told: Vec<ToldName>,
    /// The plan for following descriptors, if records of the class change any.
    pub(super) step: Option<StepPlan>,
    /// True if the files of descriptors can be known.
    pub(super) has_paths: bool,
    pub(super) payload: ShortPart,
    /// The arguments that may be recorded after the call's entry.
    pub(super) deferrable: Option<Arc<Deferrable>>,
    /// The contexts that have fields to show.
    pub(super) contexts: Vec<ShortPart>,
    /// The scopes with call stacks of which only the depth is shown.
    pub(super) counted_stacks: Vec<Scope>,
}

/// Returns true if a call of this name returns.
pub(super) fn returns(name: &[u8]) -> bool {
    !WITHOUT_RETURN.contains(&name.strip_prefix(b"compat_").unwrap_or(name))
}

/// Returns true if a call of this name executes a program.
pub(super) fn is_execve(name: &[u8]) -> bool {
    name.ends_with(b"execve")
}

/// Returns the name of an event's system call, and true if the event is the call's exit.
pub(super) fn call_of(name: &str) -> Option<(String, bool)> {
    let any = || CallEnd::is_of_any(name).then(|| (name.to_owned(), true));
    CallEnd::of(name).map(|end| (end.full_name(), !end.begins)).or_else(any)
}

/// Returns true if an end of this name is that of any call.
pub(super) fn is_of_any(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(CallEnd::is_of_any)
}

/// Returns the fields of an event that identifies its call by number; `None` for all others.
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
            shown: ShownPart::brief(payload, RecordPart::Payload, fields, &hidden, schema),
        },
    })
}

/// Returns the fields that give names to threads.
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
        "task_rename" => vec![one(&["tid", "pid"], "newcomm")],
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
    /// Makes the facts on the class of a record. `names_stacks` says that call stacks are shown elsewhere.
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
            None => match DeferredClass::new(class) {
                Some(class) => RecordRole::Late(class),
                None if STATE_DUMPS.iter().any(|begin| class.name().starts_with(begin)) => {
                    RecordRole::State
                }
                None => match short {
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
        let deferrable = match &call {
            Some((name, false)) => {
                let deferred = calls.deferred(trace);
                Deferrable::new(class, name, &deferred).map(Arc::new)
            }
            _ => None,
        };
        let schema = class.schema();
        let environment = trace.schema();
        let text = |name| match environment.environment(name) {
            Some(EnvValue::Text(text)) if !text.is_empty() => Some(text.as_bytes().to_vec()),
            _ => None,
        };
        let is_program = stack_copy::is_of_program(environment);
        let mut hidden: Vec<&str> = if is_program { Vec::new() } else { COMMON.to_vec() };
        if matches!(role, RecordRole::Exit { .. }) {
            hidden.push("ret");
        }
        let elapsed = elapsed_field(class);
        if elapsed.is_some() {
            hidden.extend(OF_SLOW.iter().chain(&OF_SAMPLED));
        }
        let mut identity = IDENTITY.to_vec();
        // Addresses alone say little, and there are many: who asks for the field gets them.
        let counts_stacks = !names_stacks && fields.is_none();
        if names_stacks || counts_stacks {
            hidden.extend(STACKS.iter().filter(|_| !is_program));
            identity.extend(STACKS);
        }
        let has_stack = |scope: &Scope| {
            let may = counts_stacks && !(is_program && *scope == Scope::Payload);
            may && STACKS.iter().any(|name| class.find_in(*scope, name).is_some())
        };
        let plan = |part, structure, hidden: &[&str]| ShortPart {
            part,
            shown: ShownPart::brief(structure, part, fields, hidden, environment),
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
            elapsed,
            procname: whose.process_name,
            process: text("procname").map(|name| (name, vpid)),
            told: told(class),
            step: steps.plan(class, trace),
            has_paths: steps.can_be_known(trace),
            deferrable,
            payload: plan(RecordPart::Payload, schema.payload.as_ref(), &hidden),
            contexts,
            counted_stacks: STACK_SCOPES.into_iter().filter(has_stack).collect(),
        }
    }

    /// Returns the CPU of a record, as a key for records that do not say their thread.
    #[inline]
    pub(super) fn cpu(&self, event: &Event<'_>) -> Option<ThreadOrCpu> {
        let said = || u64::try_from(event.integer(self.cpu.as_ref()?)?).ok();
        event.packet().cpu.or_else(said).map(|cpu| ThreadOrCpu::cpu(self.trace, cpu))
    }
}

/// The numbers of addresses in the kernel's stack and in the program's.
#[derive(Default)]
struct StackDepths([Option<u64>; 2]);

impl Visit for StackDepths {
    fn unsigned(&mut self, _: &FieldInfo, _: u64) {}

    fn signed(&mut self, _: &FieldInfo, _: i64) {}

    fn real(&mut self, _: &FieldInfo, _: f64) {}

    fn text(&mut self, _: &FieldInfo, _: &[u8]) {}

    fn begin_array(&mut self, field: &FieldInfo, length: u64) {
        if let Some(at) = STACKS.iter().position(|name| field.name() == *name) {
            self.0[at] = Some(length).filter(|length| *length > 0);
        }
    }
}

impl ShortClass {
    /// Returns `{kernel: 12 frames; user: 5 frames}` for a record whose stacks are not shown; `None` if it has none.
    pub(super) fn stack_depths(&self, event: &Event<'_>) -> Option<Vec<u8>> {
        let mut depths = StackDepths::default();
        for scope in &self.counted_stacks {
            event.visit(*scope, &mut depths);
        }
        let texts = depths.0.iter().zip(["kernel", "user"]).filter_map(|(depth, whose)| {
            let depth = (*depth)?;
            Some(format!("{whose}: {depth} frame{}", if depth == 1 { "" } else { "s" }))
        });
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| format!("{{{}}}", texts.join("; ")).into_bytes())
    }
}

/// Returns the bytes of a text field.
#[inline]
pub(super) fn text<'e>(event: &Event<'e>, field: &FieldRef) -> Option<&'e [u8]> {
    match event.value(field)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

//! Events of the kernel for which the format has messages of its own: scheduling and interrupts.

use std::borrow::Cow;

use strata_ctf::read::{Event, EventClass, FieldRef, Scope, Value};
use strata_model::schema::Schema;
use strata_model::EnvValue;
use strata_timeline::kernel_name;

use super::encode::{self, LengthMark};
use super::fields;
use strata_analyze::render::line::Lines;

/// The fields of an event of the kernel, whose names may be LTTng's or the kernel's.
#[derive(Debug)]
pub(super) enum Kernel {
    Switch(Box<SwitchFields>),
    Wakeup { kind: Wakeup, fields: Box<TaskFields> },
    IrqEntry { irq: FieldRef, name: Option<FieldRef> },
    IrqExit { irq: FieldRef, ret: Option<FieldRef> },
    Softirq { kind: SoftirqKind, vec: FieldRef },
}

#[derive(Debug)]
pub(super) struct SwitchFields {
    prev: TaskFields,
    prev_state: Option<FieldRef>,
    next: TaskFields,
}

#[derive(Debug)]
pub(super) struct TaskFields {
    comm: Option<FieldRef>,
    tid: FieldRef,
    prio: Option<FieldRef>,
    /// The number that is added to a recorded priority to get the kernel's.
    prio_base: i64,
    success: Option<FieldRef>,
    target_cpu: Option<FieldRef>,
}

/// The kind of a wakeup, by the number of its field in `FtraceEvent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wakeup {
    Awake = 17,
    Waking = 20,
    New = 114,
}

/// The kind of a softirq event, by the number of its field in `FtraceEvent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SoftirqKind {
    Entry = 24,
    Exit = 25,
    Raise = 26,
}

/// The numbers of the fields of `FtraceEvent` for a switch and for interrupts.
const SCHED_SWITCH: u32 = 4;
const IRQ_HANDLER_ENTRY: u32 = 36;
const IRQ_HANDLER_EXIT: u32 = 37;

/// The base of LTTng's priorities: the priority of the first task that is not a real-time one.
const LTTNG_PRIO_BASE: i64 = 100;

impl Kernel {
    /// Finds the fields in a class; `None` if it is another event, or lacks a necessary field.
    pub(super) fn new(class: &EventClass, lttng: bool) -> Option<Kernel> {
        let prio_base = if lttng { LTTNG_PRIO_BASE } else { 0 };
        let find = |name: &str| class.find_in(Scope::Payload, name);
        let task = |prefix: &str| {
            let find = |name: &str| find(&format!("{prefix}{name}"));
            Some(TaskFields {
                comm: find("comm"),
                tid: find("tid").or_else(|| find("pid"))?,
                prio: find("prio"),
                prio_base,
                success: find("success"),
                target_cpu: find("target_cpu"),
            })
        };
        let wakeup = |kind| Some(Kernel::Wakeup { kind, fields: Box::new(task("")?) });
        let softirq = |kind| Some(Kernel::Softirq { kind, vec: find("vec")? });
        match kernel_name(class.name()) {
            "sched_switch" => Some(Kernel::Switch(Box::new(SwitchFields {
                prev: task("prev_")?,
                prev_state: find("prev_state"),
                next: task("next_")?,
            }))),
            "sched_wakeup" => wakeup(Wakeup::Awake),
            "sched_waking" => wakeup(Wakeup::Waking),
            "sched_wakeup_new" => wakeup(Wakeup::New),
            "irq_handler_entry" => Some(Kernel::IrqEntry { irq: find("irq")?, name: find("name") }),
            "irq_handler_exit" => Some(Kernel::IrqExit { irq: find("irq")?, ret: find("ret") }),
            "irq_softirq_entry" | "softirq_entry" => softirq(SoftirqKind::Entry),
            "irq_softirq_exit" | "softirq_exit" => softirq(SoftirqKind::Exit),
            "irq_softirq_raise" | "softirq_raise" => softirq(SoftirqKind::Raise),
            _ => None,
        }
    }

    /// Returns the thread that ran before the switch.
    pub(super) fn prev(&self, event: &Event<'_>) -> Option<i64> {
        match self {
            Kernel::Switch(switch) => event.integer(&switch.prev.tid),
            _ => None,
        }
    }

    /// Returns the thread that runs after the switch.
    pub(super) fn next(&self, event: &Event<'_>) -> Option<i64> {
        match self {
            Kernel::Switch(switch) => event.integer(&switch.next.tid),
            _ => None,
        }
    }

    /// Writes the message. `id`: function that converts a thread's number to the exported one. Returns false if the
    /// record lacks a field.
    #[inline]
    pub(super) fn put(&self, event: &Event<'_>, id: impl Fn(i64) -> i32, out: &mut Lines) -> bool {
        self.try_put(event, id, out).is_some_and(|message| {
            encode::end(out, message);
            true
        })
    }

    /// Returns true if the record has all fields of the message.
    pub(super) fn can_be_put(&self, event: &Event<'_>) -> bool {
        let is_there = |field: &FieldRef| event.integer(field).is_some();
        match self {
            Kernel::Switch(switch) => is_there(&switch.prev.tid) && is_there(&switch.next.tid),
            Kernel::Wakeup { fields, .. } => is_there(&fields.tid),
            Kernel::IrqEntry { irq, .. } | Kernel::IrqExit { irq, .. } => is_there(irq),
            Kernel::Softirq { vec, .. } => {
                event.integer(vec).is_some_and(|vec| u32::try_from(vec).is_ok())
            }
        }
    }

    /// Writes the message; `None` if a field is missing. Its field numbers are those in `proto`.
    fn try_put(
        &self,
        event: &Event<'_>,
        id: impl Fn(i64) -> i32,
        out: &mut Lines,
    ) -> Option<LengthMark> {
        Some(match self {
            Kernel::Switch(switch) => {
                let (prev, next) =
                    (event.integer(&switch.prev.tid)?, event.integer(&switch.next.tid)?);
                let message = encode::begin(out, SCHED_SWITCH);
                switch.prev.put(event, 1, id(prev), out);
                let state = switch.prev_state.as_ref().and_then(|state| event.integer(state));
                put_if(out, 4, state);
                switch.next.put(event, 5, id(next), out);
                message
            }
            Kernel::Wakeup { kind, fields } => {
                let tid = event.integer(&fields.tid)?;
                let message = encode::begin(out, *kind as u32);
                fields.put(event, 1, id(tid), out);
                let ask = |field: &Option<FieldRef>| Some(narrow(event.integer(field.as_ref()?)?));
                put_if(out, 4, ask(&fields.success));
                put_if(out, 5, ask(&fields.target_cpu));
                message
            }
            Kernel::IrqEntry { irq, name } => {
                let irq = event.integer(irq)?;
                let message = encode::begin(out, IRQ_HANDLER_ENTRY);
                encode::signed(out, 1, narrow(irq));
                put_text(event, name.as_ref(), 2, out);
                message
            }
            Kernel::IrqExit { irq, ret } => {
                let irq = event.integer(irq)?;
                let message = encode::begin(out, IRQ_HANDLER_EXIT);
                encode::signed(out, 1, narrow(irq));
                put_if(out, 2, ret.as_ref().and_then(|ret| event.integer(ret)).map(narrow));
                message
            }
            Kernel::Softirq { kind, vec } => {
                let vec = u32::try_from(event.integer(vec)?).ok()?;
                let message = encode::begin(out, *kind as u32);
                encode::number(out, 1, vec.into());
                message
            }
        })
    }
}

impl TaskFields {
    /// Writes the name, id and priority of a task in three successive fields.
    fn put(&self, event: &Event<'_>, field: u32, id: i32, out: &mut Lines) {
        put_text(event, self.comm.as_ref(), field, out);
        encode::signed(out, field + 1, id.into());
        let prio = self.prio.as_ref().and_then(|prio| event.integer(prio));
        put_if(out, field + 2, prio.map(|prio| narrow(prio.saturating_add(self.prio_base))));
    }
}

/// Writes a switch for which there is no record. An empty name is left out.
pub(super) fn put_switch(out: &mut Lines, (prev, state): (i32, i64), (next, name): (i32, &str)) {
    let message = encode::begin(out, SCHED_SWITCH);
    encode::signed(out, 2, prev.into());
    encode::signed(out, 4, state);
    if !name.is_empty() {
        encode::bytes(out, 5, name.as_bytes());
    }
    encode::signed(out, 6, next.into());
    encode::end(out, message);
}

#[inline]
fn put_if(out: &mut Lines, field: u32, value: Option<i64>) {
    if let Some(value) = value {
        encode::signed(out, field, value);
    }
}

#[inline]
fn put_text(event: &Event<'_>, from: Option<&FieldRef>, field: u32, out: &mut Lines) {
    if let Some(text) = from.and_then(|from| text(event, from)) {
        encode::bytes(out, field, text.as_bytes());
    }
}

/// Returns true if a trace has LTTng's priorities. Strata may name LTTng as its tracer, but records the kernel's
/// priorities.
pub(super) fn has_lttng_priorities(schema: &Schema) -> bool {
    let is_text = |name, wanted: &str| matches!(schema.environment(name), Some(EnvValue::Text(text)) if text == wanted);
    is_text("tracer_name", "lttng-modules") && schema.environment("strata_version").is_none()
}

/// Returns the value of a text field.
pub(super) fn text<'e>(event: &Event<'e>, field: &FieldRef) -> Option<Cow<'e, str>> {
    match event.value(field)? {
        Value::Text(bytes) => Some(fields::text(bytes)),
        Value::Wide(text) => Some(fields::text(text.to_text().as_bytes()).into_owned().into()),
        _ => None,
    }
}

/// Limits a number to the range of 32 bits.
fn narrow(value: i64) -> i64 {
    value.clamp(i32::MIN.into(), i32::MAX.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_lttngs_only_if_lttng_recorded_them() {
        let lttng = |tracer: &str, strata: bool| {
            let mut environment = vec![("tracer_name".to_owned(), EnvValue::from(tracer))];
            if strata {
                environment.push(("strata_version".into(), "0.1.0".into()));
            }
            has_lttng_priorities(&Schema { environment, ..Schema::default() })
        };
        assert!(lttng("lttng-modules", false));
        assert!(!lttng("lttng-modules", true));
        assert!(!lttng("strata", true));
    }
}

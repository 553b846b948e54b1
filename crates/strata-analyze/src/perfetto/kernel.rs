//! Kernel events that the format has messages of its own for: scheduling and interrupts.

use strata_ctf::read::{Event, EventClass, FieldRef, Scope, Value};

use super::fields;
use super::pairs::kernel_name;
use super::proto::{Ftrace, IrqHandlerEntry, IrqHandlerExit, SchedSwitch, SchedWakeup, Softirq};

/// Where the fields of such an event are, in LTTng's spelling or the kernel's.
#[derive(Debug)]
pub(super) enum Kernel {
    Switch(Box<Switch>),
    Wakeup { kind: Wakeup, fields: Box<Task> },
    IrqEntry { irq: FieldRef, name: Option<FieldRef> },
    IrqExit { irq: FieldRef, ret: Option<FieldRef> },
    Softirq { kind: SoftirqKind, vec: FieldRef },
}

#[derive(Debug)]
pub(super) struct Switch {
    prev: Task,
    prev_state: Option<FieldRef>,
    next: Task,
}

#[derive(Debug)]
pub(super) struct Task {
    comm: Option<FieldRef>,
    tid: FieldRef,
    prio: Option<FieldRef>,
    /// What is to be added to get the kernel's priority.
    prio_base: i64,
    success: Option<FieldRef>,
    target_cpu: Option<FieldRef>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wakeup {
    Awake,
    Waking,
    New,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SoftirqKind {
    Entry,
    Exit,
    Raise,
}

/// LTTng's priorities begin at that of the first task that is not a real-time one.
const LTTNG_PRIO_BASE: i64 = 100;

impl Kernel {
    /// None: it is another event, or has not the fields that matter.
    pub(super) fn new(class: &EventClass, lttng: bool) -> Option<Kernel> {
        let prio_base = if lttng { LTTNG_PRIO_BASE } else { 0 };
        let find = |name: &str| class.find_in(Scope::Payload, name);
        let task = |prefix: &str| {
            let find = |name: &str| find(&format!("{prefix}{name}"));
            Some(Task {
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
            "sched_switch" => Some(Kernel::Switch(Box::new(Switch {
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

    /// The thread that runs from now on.
    pub(super) fn next(&self, event: &Event<'_>) -> Option<i64> {
        match self {
            Kernel::Switch(switch) => number(event, &switch.next.tid),
            _ => None,
        }
    }

    /// The thread that ran up to now.
    pub(super) fn prev(&self, event: &Event<'_>) -> Option<i64> {
        match self {
            Kernel::Switch(switch) => number(event, &switch.prev.tid),
            _ => None,
        }
    }

    /// The message; `id` gives a thread's id as it is exported.
    pub(super) fn message(&self, event: &Event<'_>, id: impl Fn(i64) -> i32) -> Option<Ftrace> {
        Some(match self {
            Kernel::Switch(switch) => Ftrace::SchedSwitch(switch.message(event, id)?),
            Kernel::Wakeup { kind, fields } => {
                let message = fields.wakeup(event, id)?;
                match kind {
                    Wakeup::Awake => Ftrace::SchedWakeup(message),
                    Wakeup::Waking => Ftrace::SchedWaking(message),
                    Wakeup::New => Ftrace::SchedWakeupNew(message),
                }
            }
            Kernel::IrqEntry { irq, name } => Ftrace::IrqHandlerEntry(IrqHandlerEntry {
                irq: Some(narrow(number(event, irq)?)),
                name: name.as_ref().and_then(|name| text(event, name)),
            }),
            Kernel::IrqExit { irq, ret } => Ftrace::IrqHandlerExit(IrqHandlerExit {
                irq: Some(narrow(number(event, irq)?)),
                ret: ret.as_ref().and_then(|ret| number(event, ret)).map(narrow),
            }),
            Kernel::Softirq { kind, vec } => {
                let vec = u32::try_from(number(event, vec)?).ok()?;
                let message = Softirq { vec: Some(vec) };
                match kind {
                    SoftirqKind::Entry => Ftrace::SoftirqEntry(message),
                    SoftirqKind::Exit => Ftrace::SoftirqExit(message),
                    SoftirqKind::Raise => Ftrace::SoftirqRaise(message),
                }
            }
        })
    }
}

impl Switch {
    fn message(&self, event: &Event<'_>, id: impl Fn(i64) -> i32) -> Option<SchedSwitch> {
        Some(SchedSwitch {
            prev_comm: self.prev.comm(event),
            prev_pid: Some(id(number(event, &self.prev.tid)?)),
            prev_prio: self.prev.prio(event),
            prev_state: self.prev_state.as_ref().and_then(|state| number(event, state)),
            next_comm: self.next.comm(event),
            next_pid: Some(id(number(event, &self.next.tid)?)),
            next_prio: self.next.prio(event),
        })
    }
}

impl Task {
    fn comm(&self, event: &Event<'_>) -> Option<String> {
        text(event, self.comm.as_ref()?)
    }

    fn prio(&self, event: &Event<'_>) -> Option<i32> {
        Some(narrow(number(event, self.prio.as_ref()?)?.saturating_add(self.prio_base)))
    }

    fn wakeup(&self, event: &Event<'_>, id: impl Fn(i64) -> i32) -> Option<SchedWakeup> {
        let number = |field: &Option<FieldRef>| Some(narrow(number(event, field.as_ref()?)?));
        Some(SchedWakeup {
            comm: self.comm(event),
            pid: Some(id(self::number(event, &self.tid)?)),
            prio: self.prio(event),
            success: number(&self.success),
            target_cpu: number(&self.target_cpu),
        })
    }
}

/// An integer's value; one above 2^63 as its two's complement.
pub(super) fn number(event: &Event<'_>, field: &FieldRef) -> Option<i64> {
    match event.value(field)? {
        Value::Unsigned(value) => Some(value as i64),
        Value::Signed(value) => Some(value),
        _ => None,
    }
}

/// A text's value.
pub(super) fn text(event: &Event<'_>, field: &FieldRef) -> Option<String> {
    match event.value(field)? {
        Value::Text(bytes) => Some(fields::text(bytes).into_owned()),
        Value::Wide(text) => Some(fields::text(text.to_text().as_bytes()).into_owned()),
        _ => None,
    }
}

fn narrow(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX })
}

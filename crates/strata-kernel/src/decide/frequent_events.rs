//! Events with programs of their own (`probe/kernel/hot.bpf.c`): the most frequent ones, and those of interrupts, whose
//! programs must run even while another program runs.

use crate::decide::event::{FieldSource, KernelEvent, Probe};
use crate::discover::format::EventFormat;
use libbpf_rs::btf::types::{FuncProto, Ptr, Typedef};
use libbpf_rs::btf::{Btf, BtfType, ReferencesType};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::OnceLock;
use strata_model::{Array, Base, Element, Enumeration, Field, FieldClass, Integer, Sequence};

/// Type of a field in the payload of a frequent event. It determines the field's size, since payloads have no
/// padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HotFieldKind {
    /// A task's name, 16 bytes.
    Comm,
    I32,
    U32,
    I64,
    U64,
    /// An address or flags.
    Hex,
    /// A text with its length in front, possible only at the end of a payload.
    Text,
}
use HotFieldKind::{Comm, Hex, Text, I32, I64, U32, U64};

/// A frequent event, which has a program of its own with the same name.
struct Hot {
    system: &'static str,
    name: &'static str,
    /// The numbers of arguments that the tracepoint may have, for this program to fit it.
    nr_args: RangeInclusive<usize>,
    /// Recorded name and type of each field.
    fields: &'static [(&'static str, HotFieldKind)],
}

const WAKING: &[(&str, HotFieldKind)] =
    &[("comm", Comm), ("tid", I32), ("prio", I32), ("target_cpu", I32)];
const FAULT: &[(&str, HotFieldKind)] = &[("address", Hex), ("ip", Hex), ("error_code", Hex)];
const VEC: &[(&str, HotFieldKind)] = &[("vec", U32)];
const HRTIMER: &[(&str, HotFieldKind)] = &[("hrtimer", Hex)];

const fn hot(
    system: &'static str,
    name: &'static str,
    nr_args: usize,
    fields: &'static [(&'static str, HotFieldKind)],
) -> Hot {
    Hot { system, name, nr_args: RangeInclusive::new(nr_args, usize::MAX), fields }
}

/// The event of a page fault that looks for a page of a file. With a least duration, only faults that wait for the
/// page to be read are recorded.
pub const MAPPED_FILE_FAULT: &str = "mm_filemap_fault";

const TASK: &[(&str, HotFieldKind)] = &[("comm", Comm), ("tid", I32), ("prio", I32)];

const TASKLET: &[(&str, HotFieldKind)] = &[("tasklet", Hex), ("func", Hex)];

const ALL: [Hot; 27] = [
    hot(
        "sched",
        "sched_switch",
        4,
        &[
            ("prev_comm", Comm),
            ("prev_tid", I32),
            ("prev_prio", I32),
            ("prev_state", I64),
            ("next_comm", Comm),
            ("next_tid", I32),
            ("next_prio", I32),
        ],
    ),
    hot("sched", "sched_waking", 1, WAKING),
    hot("sched", "sched_wakeup", 1, WAKING),
    hot("sched", "sched_wakeup_new", 1, WAKING),
    hot(
        "sched",
        "sched_migrate_task",
        2,
        &[("comm", Comm), ("tid", I32), ("prio", I32), ("orig_cpu", I32), ("dest_cpu", I32)],
    ),
    hot(
        "sched",
        "sched_process_fork",
        2,
        &[
            ("parent_comm", Comm),
            ("parent_tid", I32),
            ("parent_pid", I32),
            ("child_comm", Comm),
            ("child_tid", I32),
            ("child_pid", I32),
        ],
    ),
    hot("sched", "sched_process_exit", 1, TASK),
    hot("sched", "sched_process_free", 1, TASK),
    hot("sched", "sched_wait_task", 1, TASK),
    Hot {
        system: "sched",
        name: "sched_stat_runtime",
        // Until 6.7 there was a third one, which is recorded by the generic program.
        nr_args: RangeInclusive::new(2, 2),
        fields: &[("comm", Comm), ("runtime", U64), ("tid", I32)],
    },
    hot("irq", "irq_handler_entry", 2, &[("irq", I32), ("name", Text)]),
    hot("irq", "irq_handler_exit", 3, &[("irq", I32), ("ret", I32)]),
    hot("irq", "softirq_entry", 1, VEC),
    hot("irq", "softirq_exit", 1, VEC),
    hot("irq", "softirq_raise", 1, VEC),
    hot("irq", "tasklet_entry", 2, TASKLET),
    hot("irq", "tasklet_exit", 2, TASKLET),
    hot("sched", "sched_wake_idle_without_ipi", 1, &[("cpu", I32)]),
    hot(
        "timer",
        "hrtimer_start",
        2,
        &[
            ("hrtimer", Hex),
            ("function", Hex),
            ("expires", I64),
            ("softexpires", I64),
            ("mode", U32),
        ],
    ),
    hot("timer", "hrtimer_expire_entry", 2, &[("hrtimer", Hex), ("now", I64), ("function", Hex)]),
    hot("timer", "hrtimer_expire_exit", 1, HRTIMER),
    hot("timer", "hrtimer_cancel", 1, HRTIMER),
    hot("exceptions", "page_fault_user", 3, FAULT),
    hot("exceptions", "page_fault_kernel", 3, FAULT),
    hot("filemap", MAPPED_FILE_FAULT, 2, &[("i_ino", Hex), ("index", U64), ("s_dev", U32)]),
    hot(
        "kmem",
        "kmalloc",
        6,
        &[
            ("call_site", Hex),
            ("ptr", Hex),
            ("bytes_req", U64),
            ("bytes_alloc", U64),
            ("gfp_flags", Hex),
            ("node", I32),
        ],
    ),
    hot("kmem", "kfree", 2, &[("call_site", Hex), ("ptr", Hex)]),
];

impl HotFieldKind {
    fn bytes(self) -> u8 {
        match self {
            Comm => 16,
            I32 | U32 => 4,
            I64 | U64 | Hex => 8,
            Text => 0,
        }
    }

    fn class(self) -> FieldClass {
        match self {
            Comm => FieldClass::Array(Array { element: Element::Text, count: 16 }),
            Text => FieldClass::Sequence(Sequence { element: Element::Text, length_bytes: 2 }),
            I32 | I64 => FieldClass::Integer(Integer::signed(self.bytes())),
            U32 | U64 => FieldClass::Integer(Integer::unsigned(self.bytes())),
            Hex => FieldClass::Integer(Integer { base: Base::Sixteen, ..Integer::unsigned(8) }),
        }
    }
}

/// Returns the number of arguments that each tracepoint passes to a program of type tp_btf, by the tracepoint's name.
/// Empty on a kernel that does not describe its types.
fn arguments() -> &'static HashMap<String, usize> {
    static ARGUMENTS: OnceLock<HashMap<String, usize>> = OnceLock::new();
    ARGUMENTS.get_or_init(|| {
        let mut all = HashMap::new();
        crate::attach::loader::quiet();
        let Ok(btf) = Btf::from_vmlinux() else { return all };
        for hot in &ALL {
            if let Some(nr) = nr_args(&btf, hot.name) {
                all.insert(hot.name.to_owned(), nr);
            }
        }
        all
    })
}

/// Returns the number of arguments in `typedef void (*btf_trace_NAME)(void *, ...)`, without the first argument,
/// which is not part of the event.
fn nr_args(btf: &Btf<'_>, name: &str) -> Option<usize> {
    let typedef: Typedef<'_> = btf.type_by_name(&format!("btf_trace_{name}"))?;
    let pointer: Ptr<'_> = typedef.referenced_type().try_into().ok()?;
    let function: BtfType<'_> = pointer.referenced_type();
    let function: FuncProto<'_> = function.try_into().ok()?;
    function.iter().count().checked_sub(1)
}

/// Returns the event, if it has a program of its own that fits this kernel's tracepoint.
///
/// The catalog sets its recorded name and whether it is followed. The names of a field's values are taken from the
/// event's `format`.
pub fn find(system: &str, kernel_name: &str, format: Option<&EventFormat>) -> Option<KernelEvent> {
    let hot = ALL.iter().find(|hot| hot.system == system && hot.name == kernel_name)?;
    if !hot.nr_args.contains(arguments().get(hot.name)?) {
        return None;
    }
    let (mut fields, mut sources, mut offset) = (Vec::new(), Vec::new(), 0);
    for (name, kind) in hot.fields {
        let of_format = format.and_then(|format| format.field(name));
        let labels = of_format.map(|field| field.labels.clone()).unwrap_or_default();
        let class = match kind.class() {
            FieldClass::Integer(integer) if !labels.is_empty() => {
                FieldClass::Enumeration(Enumeration {
                    integer,
                    name: String::new(),
                    labels: labels.clone(),
                    flags: of_format.and_then(|field| field.flags),
                })
            }
            class => class,
        };
        let field = (*name).to_owned();
        if *kind != Text {
            let is_signed = matches!(kind, I32 | I64);
            sources.push(FieldSource { field, offset, bytes: kind.bytes(), is_signed, labels });
        }
        fields.push(Field::new(*name, class));
        offset += u16::from(kind.bytes());
    }
    Some(KernelEvent {
        name: kernel_name.to_owned(),
        system: system.to_owned(),
        kernel_name: kernel_name.to_owned(),
        fields,
        exit_fields: Vec::new(),
        probe: Probe::Hot { program: hot.name, fallback: None },
        is_followed: system == "exceptions",
        sources,
        exit_sources: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_aligned_naturally_without_padding() {
        for hot in &ALL {
            let mut offset = 0u16;
            for (at, (name, kind)) in hot.fields.iter().enumerate() {
                let align = u16::from(kind.bytes()).clamp(1, 8);
                assert_eq!(offset % align, 0, "{}.{name}", hot.name);
                assert!(*kind != Text || at + 1 == hot.fields.len(), "{}.{name}", hot.name);
                offset += u16::from(kind.bytes());
            }
        }
    }

    #[test]
    fn find_of_another_event_is_none() {
        assert_eq!(find("sched", "sched_process_exec", None), None);
        assert_eq!(find("timer", "sched_switch", None), None);
    }

    #[test]
    fn find_of_sched_switch_has_what_its_program_writes() {
        let Some(event) = find("sched", "sched_switch", None) else {
            eprintln!("skip: this kernel has no type information");
            return;
        };
        let bytes: u64 = event.sources.iter().map(|source| u64::from(source.bytes)).sum();
        assert_eq!((event.fields.len(), bytes), (7, 56));
        assert_eq!(event.sources.get(3).map(|source| source.offset), Some(24));
    }
}

//! What the event records of a class say, and in which fields: found once for each class, whoever recorded it.
//!
//! LTTng's names, which are Strata's, and the kernel's, which perf and trace-cmd keep.

use strata_ctf::read::{Event, EventClass, FieldRef, Scope, Value};

use crate::calls::{CallId, CallKind, Calls};
use crate::fact::{Fact, SpanMark, Text};
use crate::names::{Name, Names};
use crate::spans::{KeyRef, SpanRole, SpanRoles};
use crate::state::Object;

/// Providers that kernel events may have in front of their names.
const PROVIDERS: [&str; 5] = ["sched:", "irq:", "syscalls:", "raw_syscalls:", "signal:"];
/// What is in front of a system call's name, at its begin and at its end; and what its name begins with here.
const CALLS: [(&str, &str, &str); 3] = [
    ("syscall_entry_", "syscall_exit_", ""),
    ("compat_syscall_entry_", "compat_syscall_exit_", "compat_"),
    ("sys_enter_", "sys_exit_", ""),
];
/// Arguments that are descriptors, by their names.
const DESCRIPTORS: [&str; 5] = ["fd", "fildes", "oldfd", "epfd", "fd_in"];
const PATHS: [&str; 3] = ["filename", "pathname", "path"];
/// Numbers of system calls that are kept.
const NUMBERS_MAX: i64 = 4096;
/// Commands of fcntl() that duplicate a descriptor.
const F_DUPFD: [i64; 2] = [0, 1030];

/// What is to be done with a class' records.
#[derive(Debug)]
pub(crate) struct Binding {
    kind: Kind,
    span: Option<SpanBinding>,
    pub tid: Option<FieldRef>,
    pub pid: Option<FieldRef>,
    pub cpu: Option<FieldRef>,
}

#[derive(Debug)]
enum Kind {
    Nothing,
    Switch {
        prev: FieldRef,
        prev_state: Option<FieldRef>,
        next: FieldRef,
        prev_name: Option<FieldRef>,
        next_name: Option<FieldRef>,
    },
    Wake {
        tid: FieldRef,
        name: Option<FieldRef>,
        is_by_waker: bool,
    },
    Enter {
        call: CallId,
        object: Option<(FieldRef, bool)>,
        path: Option<FieldRef>,
        control: Option<FieldRef>,
        duplicates: bool,
    },
    Leave {
        call: CallId,
        result: Option<FieldRef>,
        pair: Option<[FieldRef; 2]>,
    },
    /// Of a call that has a number and no name.
    Number {
        number: FieldRef,
        result: Option<FieldRef>,
        begins: bool,
    },
    Fault,
    Signal {
        tid: FieldRef,
    },
    Interrupt {
        number: Option<FieldRef>,
        softirq: bool,
        begins: bool,
    },
    Fork {
        parent: Option<FieldRef>,
        child: FieldRef,
        process: Option<FieldRef>,
        name: Option<FieldRef>,
    },
    Exec,
    Exit {
        tid: FieldRef,
        name: Option<FieldRef>,
    },
    There {
        tid: FieldRef,
        process: FieldRef,
        parent: Option<FieldRef>,
        name: Option<FieldRef>,
    },
    Named {
        tid: FieldRef,
        name: FieldRef,
    },
}

/// What its records do to spans.
#[derive(Debug)]
struct SpanBinding {
    pair: u32,
    name: Name,
    event: Name,
    begins: bool,
    is_keyed: bool,
    key: Option<FieldRef>,
    check: Option<FieldRef>,
    address: Option<FieldRef>,
}

/// Calls that have numbers and no names.
#[derive(Debug, Default)]
pub(crate) struct Numbers(Vec<Option<CallId>>);

impl Numbers {
    fn of(&mut self, number: i64, calls: &mut Calls) -> Option<CallId> {
        let at = usize::try_from(number).ok().filter(|_| number < NUMBERS_MAX)?;
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        let slot = self.0.get_mut(at)?;
        if slot.is_none() {
            *slot = calls.of(&format!("syscall_{number}"));
        }
        *slot
    }
}

impl Binding {
    /// Of a class of a kernel's trace, or of an application's.
    pub(crate) fn new(
        class: &EventClass,
        is_kernel: bool,
        calls: &mut Calls,
        names: &mut Names,
        spans: Option<&SpanRoles>,
    ) -> Binding {
        let context = |names: &[&str]| {
            let scopes = [Scope::SpecificContext, Scope::CommonContext, Scope::EventHeader];
            names
                .iter()
                .find_map(|name| scopes.iter().find_map(|&scope| class.find_in(scope, name)))
        };
        let field =
            |names: &[&str]| names.iter().find_map(|name| class.find_in(Scope::Payload, name));
        let kind = match is_kernel {
            true => kernel(class, calls),
            false if class.name() == "strata:thread_name" => named(class).unwrap_or(Kind::Nothing),
            false => Kind::Nothing,
        };
        let span = match spans {
            Some(roles) => roles.get(class.name()).map(|role| span(class, role, names)),
            None if is_kernel => None,
            None => by_suffix(class.name(), names).map(|role| span(class, &role, names)),
        };
        Binding {
            kind,
            span: span.filter(|span| span.name.is_some()),
            tid: context(if is_kernel { &["tid", "perf_tid"] } else { &["vtid"] })
                .or_else(|| field(&["perf_tid", "common_pid"])),
            pid: context(if is_kernel { &["pid", "perf_pid"] } else { &["vpid"] })
                .or_else(|| field(&["perf_pid"])),
            cpu: context(&["cpu_id"]),
        }
    }

    /// Whether its records say anything.
    #[inline]
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self.kind, Kind::Nothing) && self.span.is_none()
    }

    /// Which span a record begins or ends.
    #[inline]
    pub(crate) fn span<'a>(&self, event: &Event<'a>) -> Option<SpanMark<'a>> {
        let span = self.span.as_ref()?;
        let value = |field: &Option<FieldRef>| match event.value(field.as_ref()?)? {
            Value::Signed(value) => Some(KeyRef::Number(value.into())),
            Value::Unsigned(value) => Some(KeyRef::Number(value.into())),
            Value::Text(text) => Some(KeyRef::Text(text)),
            _ => None,
        };
        let SpanBinding { pair, name, event: of, begins, is_keyed, key, check, address } = span;
        Some(SpanMark {
            pair: *pair,
            name: *name,
            event: *of,
            begins: *begins,
            is_keyed: *is_keyed,
            key: value(key),
            check: value(check).map(KeyRef::hash),
            address: address.as_ref().and_then(|field| number(event, field)).map(|it| it as u64),
        })
    }

    /// What a record says; `None`: it lacks what matters.
    #[inline]
    pub(crate) fn fact<'a>(
        &'a self,
        event: &'a Event<'a>,
        numbers: &mut Numbers,
        calls: &mut Calls,
        states: bool,
    ) -> Option<Fact<'a>> {
        let number = |field: &FieldRef| number(event, field);
        let ask = |field: &Option<FieldRef>| self::number(event, field.as_ref()?);
        let text = |field: &'a Option<FieldRef>| Text::new(event, field.as_ref());
        Some(match &self.kind {
            Kind::Nothing => return None,
            Kind::Enter { call, object, path, control, duplicates } => {
                // Of most calls it says what they are blocked in, and nothing else.
                let is_wanted = states || calls.kind(*call) != CallKind::Other;
                let object =
                    object.as_ref().filter(|_| is_wanted).and_then(|(field, is_descriptor)| {
                        let value = number(field)?;
                        Some(match is_descriptor {
                            true => Object::Descriptor(i32::try_from(value).ok()?),
                            false => Object::Address(value as u64),
                        })
                    });
                Fact::Enter {
                    call: *call,
                    object: object.unwrap_or(Object::None),
                    path: text(path),
                    duplicates: match control {
                        Some(command) => number(command).is_some_and(|it| F_DUPFD.contains(&it)),
                        None => *duplicates,
                    },
                }
            }
            Kind::Leave { call, result, pair } => Fact::Leave {
                call: *call,
                result: ask(result),
                pair: match pair {
                    Some([one, other]) => Some([number(one)?, number(other)?]),
                    None => None,
                },
            },
            Kind::Switch { prev, prev_state, next, prev_name, next_name } => Fact::Switch {
                prev: number(prev)?,
                prev_state: ask(prev_state),
                next: number(next)?,
                prev_name: text(prev_name),
                next_name: text(next_name),
            },
            Kind::Wake { tid, name, is_by_waker: true } => {
                Fact::Waking { tid: number(tid)?, name: text(name) }
            }
            Kind::Wake { tid, name, .. } => Fact::Wakeup { tid: number(tid)?, name: text(name) },
            Kind::Number { number: field, result, begins } => {
                let call = numbers.of(number(field)?, calls)?;
                match begins {
                    true => Fact::Enter {
                        call,
                        object: Object::None,
                        path: Text::None,
                        duplicates: false,
                    },
                    false => Fact::Leave { call, result: ask(result), pair: None },
                }
            }
            Kind::Fault => Fact::Fault,
            Kind::Signal { tid } => Fact::Signal { tid: number(tid)? },
            Kind::Interrupt { number: field, softirq, begins } => match (begins, softirq) {
                (true, true) => Fact::SoftirqEnter(ask(field)?),
                (true, false) => Fact::InterruptEnter(ask(field)?),
                (false, true) => Fact::SoftirqLeave,
                (false, false) => Fact::InterruptLeave,
            },
            Kind::Fork { parent, child, process, name } => Fact::Fork {
                parent: ask(parent),
                child: number(child)?,
                process: ask(process),
                name: text(name),
            },
            Kind::Exec => Fact::Exec,
            Kind::Exit { tid, name } => Fact::Exit { tid: number(tid)?, name: text(name) },
            Kind::There { tid, process, parent, name } => Fact::There {
                tid: number(tid)?,
                process: number(process)?,
                parent: ask(parent),
                name: text(name),
            },
            Kind::Named { tid, name } => {
                Fact::Named { tid: number(tid)?, name: Text::Of(event, name) }
            }
        })
    }
}

/// An integer's value; one above 2^63 as its two's complement.
#[inline]
pub(crate) fn number(event: &Event<'_>, field: &FieldRef) -> Option<i64> {
    match event.value(field)? {
        Value::Unsigned(value) => Some(value as i64),
        Value::Signed(value) => Some(value),
        _ => None,
    }
}

fn named(class: &EventClass) -> Option<Kind> {
    let find = |name: &str| class.find_in(Scope::Payload, name);
    Some(Kind::Named { tid: find("tid")?, name: find("name")? })
}

/// Where nobody says which events are spans: those of a program whose names end so.
fn by_suffix(event: &str, names: &mut Names) -> Option<SpanRole> {
    let begin = event.strip_suffix("_begin").map(|name| (name, true));
    let (name, begins) = begin.or_else(|| event.strip_suffix("_end").map(|name| (name, false)))?;
    let pair = names.of(name.as_bytes()).number();
    let name = name.to_owned();
    Some(SpanRole { pair, name, begins, key: None, check: None, address: None })
}

fn span(class: &EventClass, role: &SpanRole, names: &mut Names) -> SpanBinding {
    let field = |name: &Option<String>| class.find(name.as_deref()?);
    SpanBinding {
        pair: role.pair,
        name: names.of(role.name.as_bytes()),
        event: names.of(class.name().as_bytes()),
        begins: role.begins,
        is_keyed: role.key.is_some(),
        key: field(&role.key),
        check: if role.key.is_some() { None } else { field(&role.check) },
        address: field(&role.address),
    }
}

fn kernel(class: &EventClass, calls: &mut Calls) -> Kind {
    let name = class.name();
    let name = PROVIDERS.iter().find_map(|it| name.strip_prefix(it)).unwrap_or(name);
    kernel_event(class, name).or_else(|| call(class, name, calls)).unwrap_or(Kind::Nothing)
}

fn kernel_event(class: &EventClass, name: &str) -> Option<Kind> {
    let find = |name: &str| class.find_in(Scope::Payload, name);
    let either = |one: &str, other: &str| find(one).or_else(|| find(other));
    Some(match name {
        "sched_switch" => Kind::Switch {
            prev: either("prev_tid", "prev_pid")?,
            prev_state: find("prev_state"),
            next: either("next_tid", "next_pid")?,
            prev_name: find("prev_comm"),
            next_name: find("next_comm"),
        },
        "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => Kind::Wake {
            tid: either("tid", "pid")?,
            name: find("comm"),
            is_by_waker: name == "sched_waking",
        },
        "signal_generate" => Kind::Signal { tid: find("pid")? },
        "irq_handler_entry" => {
            Kind::Interrupt { number: Some(find("irq")?), softirq: false, begins: true }
        }
        "irq_handler_exit" => Kind::Interrupt { number: None, softirq: false, begins: false },
        "irq_softirq_entry" | "softirq_entry" => {
            Kind::Interrupt { number: Some(find("vec")?), softirq: true, begins: true }
        }
        "irq_softirq_exit" | "softirq_exit" => {
            Kind::Interrupt { number: None, softirq: true, begins: false }
        }
        // The kernel's own has a thread's number in what it calls pid, and says nothing of its process.
        "sched_process_fork" => match find("child_tid") {
            Some(child) => Kind::Fork {
                parent: find("parent_tid"),
                child,
                process: find("child_pid"),
                name: find("child_comm"),
            },
            None => Kind::Fork {
                parent: find("parent_pid"),
                child: find("child_pid")?,
                process: None,
                name: find("child_comm"),
            },
        },
        "sched_process_exec" => Kind::Exec,
        "sched_process_exit" => Kind::Exit { tid: either("tid", "pid")?, name: find("comm") },
        "lttng_statedump_process_state" => Kind::There {
            tid: find("tid")?,
            process: find("pid")?,
            parent: find("ppid"),
            name: find("name"),
        },
        "strata:thread_name" => return named(class),
        "sys_enter" | "sys_exit" => Kind::Number {
            number: either("id", "nr")?,
            result: find("ret"),
            begins: name == "sys_enter",
        },
        _ if name.contains("page_fault_user") => Kind::Fault,
        _ => return None,
    })
}

fn call(class: &EventClass, name: &str, calls: &mut Calls) -> Option<Kind> {
    let find = |names: &[&str]| names.iter().find_map(|it| class.find_in(Scope::Payload, it));
    CALLS.iter().find_map(|(enter, leave, prefix)| {
        let begins = name.strip_prefix(enter);
        let short = begins.or_else(|| name.strip_prefix(leave))?;
        let call = calls.of(&format!("{prefix}{short}"))?;
        let kind = calls.kind(call);
        if begins.is_none() {
            let pair = find(&["fildes_0"]).zip(find(&["fildes_1"]));
            let pair = pair.map(|(one, other)| [one, other]).filter(|_| kind == CallKind::Pair);
            return Some(Kind::Leave { call, result: find(&["ret"]), pair });
        }
        let descriptor = find(&DESCRIPTORS).map(|field| (field, true));
        let address = find(&["uaddr"]).map(|field| (field, false));
        Some(Kind::Enter {
            call,
            object: if kind == CallKind::Futex { address } else { descriptor },
            path: find(&PATHS).filter(|_| kind == CallKind::Open),
            control: find(&["cmd"]).filter(|_| kind == CallKind::Control),
            duplicates: kind == CallKind::Duplicate,
        })
    })
}

//! What the event records of a class say, and in which fields: found once for each class, whoever recorded it.
//!
//! LTTng's names, which are Strata's, and the kernel's, which perf and trace-cmd keep.

use strata_ctf::read::{Event, EventClass, FieldRef, Scope};
use strata_model::syscalls::{name_of, Architecture, NUMBERS};

use crate::calls::{CallId, CallKind, Calls};
use crate::counters::{CounterBinding, CounterRoles};
use crate::fact::{Brief, DiskPlace, Fact, Fields, More, Part, RecordText, SpanMark};
use crate::names::{Name, Names};
use crate::observer::Observer;
use crate::spans::{KeyRef, SpanRole, SpanRoles};
use crate::spelling::{kernel_name, CallEnd, NumberedEnd, Whose};
use crate::state::Object;

/// Arguments that are descriptors, by their names.
const DESCRIPTORS: [&str; 9] =
    ["fd", "fildes", "oldfd", "epfd", "fd_in", "in_fd", "fdin", "ufd", "mqdes"];
const PATHS: [&str; 6] = ["filename", "pathname", "path", "uname", "u_name", "oldname"];
/// Of what a call's record has beside that, by the call's kind.
const PARTS: [(Part, &[&str]); 8] = [
    (Part::Folder, &["dfd", "dirfd", "olddfd"]),
    (Part::Target, &["out_fd", "fd_out", "fdout"]),
    (Part::Flags, &["flags", "how_flags", "clone_flags", "uargs_flags", "unshare_flags"]),
    (Part::Control, &["cmd", "op"]),
    (Part::Argument, &["arg", "max_fd"]),
    (Part::Family, &["family"]),
    (Part::Type, &["type"]),
    (Part::Timeout, &["timeout_msecs", "timeout", "tsp", "tvp"]),
];
/// Others, of which a call is not about.
const OTHER_DESCRIPTORS: [&str; 8] =
    ["dfd", "dirfd", "olddfd", "newdfd", "newfd", "out_fd", "fd_out", "fdout"];

/// Whether an argument of this name is a path.
#[must_use]
pub fn is_path(argument: &str) -> bool {
    PATHS.contains(&argument)
}

/// Whether an argument of this name is a descriptor.
#[must_use]
pub fn is_descriptor(argument: &str) -> bool {
    DESCRIPTORS.contains(&argument) || OTHER_DESCRIPTORS.contains(&argument)
}

/// What is to be done with a class' records.
#[derive(Debug)]
pub(crate) struct Binding {
    kind: BindingKind,
    span: Option<SpanBinding>,
    pub counters: Box<[CounterBinding]>,
    pub whose: Whose,
}

/// What becomes of a request to a disk.
#[derive(Clone, Copy, Debug)]
enum RequestStep {
    Queue,
    Issue,
    Complete,
}

#[derive(Debug)]
enum BindingKind {
    Nothing,
    /// Of which process its thread is, and nothing else.
    Whose,
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
        is_plain: bool,
        object: Option<(FieldRef, bool)>,
        more: Option<Box<Fields>>,
    },
    Leave {
        call: CallId,
        is_plain: bool,
        result: Option<FieldRef>,
        more: Option<Box<Fields>>,
    },
    /// Of a call that has a number and no name.
    Number(NumberedEnd),
    Fault,
    Signal {
        tid: FieldRef,
    },
    Interrupt {
        number: Option<FieldRef>,
        name: Option<FieldRef>,
        softirq: bool,
        begins: bool,
    },
    Raise {
        number: FieldRef,
    },
    Request {
        place: [FieldRef; 3],
        kind: Option<FieldRef>,
        error: Option<FieldRef>,
        step: RequestStep,
    },
    NameOf {
        number: FieldRef,
        name: FieldRef,
        is_disk: bool,
    },
    Opened {
        process: FieldRef,
        descriptor: FieldRef,
        flags: Option<FieldRef>,
        path: FieldRef,
    },
    Fork {
        parent: Option<FieldRef>,
        child: FieldRef,
        process: Option<FieldRef>,
        name: Option<FieldRef>,
    },
    Exec,
    Program {
        tid: FieldRef,
        process: FieldRef,
        name: FieldRef,
    },
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
    owner: Option<FieldRef>,
    result: Option<FieldRef>,
}

/// Calls that have numbers and no names, of all architectures.
#[derive(Debug, Default)]
pub(crate) struct NumberedCalls(Vec<NumbersOf>);

/// The same of one architecture; `None`: the trace says none, or one whose numbers are not known here.
#[derive(Debug)]
pub(crate) struct NumbersOf {
    architecture: Option<Architecture>,
    known: Vec<Option<CallId>>,
}

impl NumberedCalls {
    /// Those of an architecture.
    pub(crate) fn by(&mut self, architecture: Option<Architecture>) -> &mut NumbersOf {
        let found = self.0.iter().position(|of| of.architecture == architecture);
        let at = found.unwrap_or(self.0.len());
        if found.is_none() {
            self.0.push(NumbersOf { architecture, known: Vec::new() });
        }
        &mut self.0[at]
    }
}

impl NumbersOf {
    fn of(&mut self, number: i64, begins: bool, calls: &mut Calls) -> Option<CallId> {
        let name = || name_of(self.architecture, number, begins);
        let Some(at) = usize::try_from(number).ok().filter(|_| NUMBERS.contains(&number)) else {
            return calls.of(&name()?);
        };
        if let Some(Some(known)) = self.known.get(at) {
            return Some(*known);
        }
        let call = calls.of(&name()?)?;
        if self.known.len() <= at {
            self.known.resize(at + 1, None);
        }
        if let Some(slot) = self.known.get_mut(at) {
            *slot = Some(call);
        }
        Some(call)
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
        counters: &CounterRoles,
    ) -> Binding {
        let kind = match is_kernel {
            true => kernel(class, calls),
            false if class.name() == "strata:thread_name" => {
                named(class).unwrap_or(BindingKind::Nothing)
            }
            false => BindingKind::Nothing,
        };
        let span = match spans {
            Some(roles) => roles.get(class.name()).map(|role| span(class, role, names)),
            None if is_kernel => None,
            None => by_suffix(class.name(), names).map(|role| span(class, &role, names)),
        };
        let whose = Whose::new(class, is_kernel);
        // Records of mapped code of older traces have who wrote them down for the process.
        let says_whose = whose.tid.is_some()
            && whose.pid.is_some()
            && !class.name().starts_with("lttng_statedump_vm_");
        let kind = match kind {
            BindingKind::Nothing if says_whose => BindingKind::Whose,
            kind => kind,
        };
        let counters = CounterBinding::all(class, counters, names);
        Binding { kind, span: span.filter(|span| span.name.is_some()), counters, whose }
    }

    /// Whether its records say anything.
    #[inline]
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self.kind, BindingKind::Nothing) && self.span.is_none() && self.counters.is_empty()
    }

    /// Whether a record says what descriptors are, or whose.
    pub(crate) fn is_of_descriptors(&self, calls: &Calls) -> bool {
        match &self.kind {
            BindingKind::Enter { call, .. } | BindingKind::Leave { call, .. } => !matches!(
                calls.kind(*call),
                CallKind::Other | CallKind::Sleep | CallKind::Poll | CallKind::Futex
            ),
            BindingKind::Opened { .. }
            | BindingKind::Fork { .. }
            | BindingKind::Exec
            | BindingKind::Exit { .. }
            | BindingKind::There { .. } => true,
            _ => false,
        }
    }

    /// Which span a record begins or ends.
    #[inline]
    pub(crate) fn span<'a>(&self, event: &Event<'a>) -> Option<SpanMark<'a>> {
        let span = self.span.as_ref()?;
        let value = |field: &Option<FieldRef>| KeyRef::of(event.value(field.as_ref()?)?);
        let number = |field: &Option<FieldRef>| event.integer(field.as_ref()?);
        let SpanBinding { pair, name, event: of, begins, is_keyed, key, check, .. } = span;
        Some(SpanMark {
            pair: *pair,
            name: *name,
            event: *of,
            begins: *begins,
            is_keyed: *is_keyed,
            key: value(key),
            check: value(check).map(KeyRef::hash),
            address: number(&span.address).map(|it| it as u64),
            owner: number(&span.owner).filter(|&owner| owner > 0),
            result: number(&span.result),
        })
    }

    /// Whether its records are of no use to this observer; but for who made them.
    #[inline]
    pub(crate) fn is_unwanted<O: Observer>(&self) -> bool {
        match self.kind {
            BindingKind::Enter { .. } | BindingKind::Leave { .. } | BindingKind::Number(_) => {
                !(O::CALLS || O::FILES || O::STATES)
            }
            BindingKind::Interrupt { .. } => !(O::INTERRUPTS || O::STATES),
            BindingKind::Fault | BindingKind::Signal { .. } => !O::STATES,
            _ => false,
        }
    }

    /// What a record says, if that is all that this observer wants to know of it.
    #[inline(always)]
    pub(crate) fn brief<O: Observer>(&self, event: &Event<'_>) -> Option<Brief> {
        if self.span.is_some() || !self.counters.is_empty() || O::RECORDS {
            return None;
        }
        match &self.kind {
            BindingKind::Enter { .. } | BindingKind::Leave { .. } if self.is_unwanted::<O>() => {
                Some(Brief::Made)
            }
            BindingKind::Enter { call, is_plain: true, .. } if !(O::STATES || O::FILES) => {
                Some(Brief::Enter(*call))
            }
            BindingKind::Leave { call, is_plain: true, result, .. } => {
                let result = result.as_ref().and_then(|field| event.integer(field));
                Some(Brief::Leave(*call, result))
            }
            _ => None,
        }
    }

    /// What a record says; `None`: it lacks what matters.
    #[inline]
    pub(crate) fn fact<'a>(
        &'a self,
        event: &'a Event<'a>,
        numbers: &mut NumbersOf,
        calls: &mut Calls,
        wants: bool,
    ) -> Option<Fact<'a>> {
        let number = |field: &FieldRef| event.integer(field);
        let ask = |field: &Option<FieldRef>| event.integer(field.as_ref()?);
        let text = |field: &'a Option<FieldRef>| RecordText::new(event, field.as_ref());
        Some(match &self.kind {
            BindingKind::Nothing => return None,
            BindingKind::Whose => Fact::Whose,
            BindingKind::Enter { call, object, more, .. } => {
                // Of most calls it says what they are blocked in, and nothing else.
                let is_wanted = wants || calls.kind(*call) != CallKind::Other;
                let object =
                    object.as_ref().filter(|_| is_wanted).and_then(|(field, is_descriptor)| {
                        let value = number(field)?;
                        Some(match is_descriptor {
                            true => Object::Descriptor(i32::try_from(value).ok()?),
                            false => Object::Address(value as u64),
                        })
                    });
                let more = match more {
                    Some(fields) if is_wanted => More::Of(event, fields),
                    _ => More::None,
                };
                Fact::Enter { call: *call, object: object.unwrap_or(Object::None), more }
            }
            BindingKind::Leave { call, result, more, .. } => Fact::Leave {
                call: *call,
                result: ask(result),
                more: more.as_ref().map_or(More::None, |fields| More::Of(event, fields)),
            },
            BindingKind::Switch { prev, prev_state, next, prev_name, next_name } => Fact::Switch {
                prev: number(prev)?,
                prev_state: ask(prev_state),
                next: number(next)?,
                prev_name: text(prev_name),
                next_name: text(next_name),
            },
            BindingKind::Wake { tid, name, is_by_waker: true } => {
                Fact::Waking { tid: number(tid)?, name: text(name) }
            }
            BindingKind::Wake { tid, name, .. } => {
                Fact::Wakeup { tid: number(tid)?, name: text(name) }
            }
            BindingKind::Number(NumberedEnd { number: field, result, begins }) => {
                let call = numbers.of(number(field)?, *begins, calls)?;
                match begins {
                    true => Fact::Enter { call, object: Object::None, more: More::None },
                    false => Fact::Leave { call, result: ask(result), more: More::None },
                }
            }
            BindingKind::Fault => Fact::Fault,
            BindingKind::Signal { tid } => Fact::Signal { tid: number(tid)? },
            BindingKind::Interrupt { number: field, name, softirq, begins } => {
                match (begins, softirq) {
                    (true, true) => Fact::SoftirqEnter(ask(field)?),
                    (true, false) => Fact::InterruptEnter(ask(field)?, text(name)),
                    (false, true) => Fact::SoftirqLeave,
                    (false, false) => Fact::InterruptLeave,
                }
            }
            BindingKind::Raise { number: field } => Fact::SoftirqRaise(number(field)?),
            BindingKind::Request { place: [device, sector, sectors], kind, error, step } => {
                let place = DiskPlace {
                    device: number(device)?,
                    sector: number(sector)?,
                    sectors: number(sectors)?,
                };
                match step {
                    RequestStep::Queue => Fact::Queue { place },
                    RequestStep::Issue => Fact::Issue { place, kind: text(kind), bits: ask(kind) },
                    RequestStep::Complete => Fact::Complete { place, error: ask(error) },
                }
            }
            BindingKind::NameOf { number: field, name, is_disk } => {
                let (number, name) = (number(field)?, RecordText::Of(event, name));
                match is_disk {
                    true => Fact::DeviceName { device: number, name },
                    false => Fact::InterruptName { number, name },
                }
            }
            BindingKind::Opened { process, descriptor, flags, path } => Fact::Opened {
                process: number(process)?,
                descriptor: number(descriptor)?,
                flags: ask(flags),
                path: RecordText::Of(event, path),
            },
            BindingKind::Fork { parent, child, process, name } => Fact::Fork {
                parent: ask(parent),
                child: number(child)?,
                process: ask(process),
                name: text(name),
            },
            BindingKind::Exec => Fact::Exec,
            BindingKind::Program { tid, process, name } => Fact::Program {
                tid: number(tid)?,
                process: number(process)?,
                name: RecordText::Of(event, name),
            },
            BindingKind::Exit { tid, name } => Fact::Exit { tid: number(tid)?, name: text(name) },
            BindingKind::There { tid, process, parent, name } => Fact::There {
                tid: number(tid)?,
                process: number(process)?,
                parent: ask(parent),
                name: text(name),
            },
            BindingKind::Named { tid, name } => {
                Fact::Named { tid: number(tid)?, name: RecordText::Of(event, name) }
            }
        })
    }
}

fn named(class: &EventClass) -> Option<BindingKind> {
    let find = |name: &str| class.find_in(Scope::Payload, name);
    Some(BindingKind::Named { tid: find("tid")?, name: find("name")? })
}

/// Where nobody says which events are spans: those of a program whose names end so.
fn by_suffix(event: &str, names: &mut Names) -> Option<SpanRole> {
    let begin = event.strip_suffix("_begin").map(|name| (name, true));
    let (name, begins) = begin.or_else(|| event.strip_suffix("_end").map(|name| (name, false)))?;
    let pair = names.of(name.as_bytes()).number();
    // What a thread waits for, of the objects of `strata record --libc pthread`.
    let address = match name.strip_prefix("pthread:") {
        Some("cond_wait") => Some("cond".to_owned()),
        Some(_) => Some("lock".to_owned()),
        None => None,
    };
    let owner = address.as_ref().map(|_| "owner".to_owned());
    let result = address.as_ref().map(|_| "result".to_owned());
    let name = name.to_owned();
    Some(SpanRole { pair, name, begins, key: None, check: None, address, owner, result })
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
        owner: field(&role.owner).filter(|_| role.begins),
        result: field(&role.result).filter(|_| !role.begins),
    }
}

fn kernel(class: &EventClass, calls: &mut Calls) -> BindingKind {
    let name = kernel_name(class.name());
    kernel_event(class, name).or_else(|| call(class, calls)).unwrap_or(BindingKind::Nothing)
}

fn kernel_event(class: &EventClass, name: &str) -> Option<BindingKind> {
    let find = |name: &str| class.find_in(Scope::Payload, name);
    let either = |one: &str, other: &str| find(one).or_else(|| find(other));
    Some(match name {
        "sched_switch" => BindingKind::Switch {
            prev: either("prev_tid", "prev_pid")?,
            prev_state: find("prev_state"),
            next: either("next_tid", "next_pid")?,
            prev_name: find("prev_comm"),
            next_name: find("next_comm"),
        },
        "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => BindingKind::Wake {
            tid: either("tid", "pid")?,
            name: find("comm"),
            is_by_waker: name == "sched_waking",
        },
        "signal_generate" => BindingKind::Signal { tid: find("pid")? },
        "irq_handler_entry" => BindingKind::Interrupt {
            number: Some(find("irq")?),
            name: find("name"),
            softirq: false,
            begins: true,
        },
        "irq_softirq_entry" | "softirq_entry" => BindingKind::Interrupt {
            number: Some(find("vec")?),
            name: None,
            softirq: true,
            begins: true,
        },
        "irq_handler_exit" | "irq_softirq_exit" | "softirq_exit" => BindingKind::Interrupt {
            number: None,
            name: None,
            softirq: name != "irq_handler_exit",
            begins: false,
        },
        "irq_softirq_raise" | "softirq_raise" => BindingKind::Raise { number: find("vec")? },
        "block_rq_insert" | "block_rq_issue" | "block_rq_complete" => BindingKind::Request {
            place: [find("dev")?, find("sector")?, either("nr_sector", "nr_sectors")?],
            kind: find("rwbs"),
            error: either("error", "errors"),
            step: match name {
                "block_rq_insert" => RequestStep::Queue,
                "block_rq_issue" => RequestStep::Issue,
                _ => RequestStep::Complete,
            },
        },
        "lttng_statedump_block_device" => {
            BindingKind::NameOf { number: find("dev")?, name: find("diskname")?, is_disk: true }
        }
        "lttng_statedump_interrupt" => {
            BindingKind::NameOf { number: find("irq")?, name: find("action")?, is_disk: false }
        }
        "lttng_statedump_file_descriptor" => BindingKind::Opened {
            process: find("pid")?,
            descriptor: find("fd")?,
            flags: find("flags"),
            path: find("filename")?,
        },
        // The kernel's own has a thread's number in what it calls pid, and says nothing of its process.
        "sched_process_fork" => match find("child_tid") {
            Some(child) => BindingKind::Fork {
                parent: find("parent_tid"),
                child,
                process: find("child_pid"),
                name: find("child_comm"),
            },
            None => BindingKind::Fork {
                parent: find("parent_pid"),
                child: find("child_pid")?,
                process: None,
                name: find("child_comm"),
            },
        },
        "sched_process_exec" => BindingKind::Exec,
        "lttng_statedump_vm_exec" => {
            BindingKind::Program { tid: find("tid")?, process: find("pid")?, name: find("name")? }
        }
        "sched_process_exit" => {
            BindingKind::Exit { tid: either("tid", "pid")?, name: find("comm") }
        }
        "lttng_statedump_process_state" => BindingKind::There {
            tid: find("tid")?,
            process: find("pid")?,
            parent: find("ppid"),
            name: find("name"),
        },
        "strata:thread_name" => return named(class),
        _ if NumberedEnd::begins(name).is_some() => BindingKind::Number(NumberedEnd::of(class)?),
        _ if name.contains("page_fault_user") => BindingKind::Fault,
        _ => return None,
    })
}

fn call(class: &EventClass, calls: &mut Calls) -> Option<BindingKind> {
    let find = |names: &[&str]| names.iter().find_map(|it| class.find_in(Scope::Payload, it));
    let end = CallEnd::of(class.name())?;
    let call = calls.of(&end.full_name())?;
    let kind = calls.kind(call);
    let is_plain = kind == CallKind::Other;
    let mut more = Fields {
        has_address: matches!(kind, CallKind::Address | CallKind::Ask | CallKind::Make),
        ..Fields::default()
    };
    if !end.begins {
        more.set(Part::First, find(&["fildes_0", "usockvec_0"]));
        more.set(Part::Second, find(&["fildes_1", "usockvec_1"]));
        let has = matches!(kind, CallKind::Pair | CallKind::Ask | CallKind::Make);
        let more = has.then(|| Box::new(more));
        return Some(BindingKind::Leave { call, is_plain, result: find(&["ret"]), more });
    }
    for (part, names) in PARTS {
        more.set(part, find(names));
    }
    more.path = find(&PATHS);
    let descriptor = find(&DESCRIPTORS).map(|field| (field, true));
    let address = find(&["uaddr"]).map(|field| (field, false));
    Some(BindingKind::Enter {
        call,
        is_plain,
        object: if kind == CallKind::Futex { address } else { descriptor },
        more: Some(Box::new(more)),
    })
}

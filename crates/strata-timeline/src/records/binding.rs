//! Bindings: the meaning of an event record class, and the places of its fields, found once for each class.
//!
//! A [`Binding`] is made at the first record of a class, by the names of the event and of its fields. From then on each
//! record costs a look at fields that are known by place. All that differs between tracers ends here and in `tracer_names`:
//! names are those of LTTng, which Strata writes as well, and those of the kernel, which perf and trace-cmd keep.
//!
//! ```text
//! class "sched_switch" { prev_tid, prev_state, next_tid, … }          (a description, once)
//!         └── kernel_event() ── BindingKind::Switch { prev: FieldRef, … }
//! record  └── Binding::fact() ── Fact::Switch { prev: 812, prev_state: Some(1), next: 0, … }
//! ```
//!
//! A binding has three parts, any of which may be empty: what the record says of threads and CPUs (`kind`), the span
//! that it begins or ends, and its counters. A class with none of them is ignored. A class that lacks a field which its
//! meaning needs has no `kind`, and its records say at most which thread made them: a trace is not trusted, so no field
//! is assumed to exist.
//!
//! A record is read in one of three ways, the cheapest first. [`Binding::brief`] reads calls whose arguments the
//! observer does not need. [`Binding::is_unwanted`] says that the observer needs only the thread. [`Binding::fact`]
//! reads everything. Arguments that were not in memory at a call's entry are in records of their own, which
//! [`Binding::deferred`] reads.
//!
//! # A new event
//! Add its name to `kernel_event`, a variant to [`BindingKind`] with its fields, and its [`Fact`] to `Binding::fact`.
//! If observers may do without it, add it to `is_unwanted`. The engine applies the fact.

use strata_ctf::read::{DeferredClass, DeferredField, DeferredValue};
use strata_ctf::read::{Event, EventClass, FieldRef, Scope};
use strata_model::syscalls::{name_of, Architecture, NUMBERS};

use crate::counters::{CounterBinding, CounterRoles};
use crate::ids::calls::{CallId, CallKind, Calls};
use crate::ids::names::{Name, Names};
use crate::observer::Observer;
use crate::records::facts::SpanMark;
use crate::records::facts::{
    Brief, CopiedFields, DiskPlace, Fact, Fields, More, Part, RecordText, SocketAddress, POLLED,
    READY,
};
use crate::records::tracer_names::{
    elapsed_field, elapsed_of_span, kernel_name, CallEnd, NumberedEnd, Whose,
};
use crate::spans::{KeyRef, SpanRole, SpanRoles};
use crate::world::state::{Object, Reason, Sleep};

/// Names of arguments that are descriptors.
const DESCRIPTORS: [&str; 9] =
    ["fd", "fildes", "oldfd", "epfd", "fd_in", "in_fd", "fdin", "ufd", "mqdes"];
const PATHS: [&str; 6] = ["filename", "pathname", "path", "uname", "u_name", "oldname"];
/// Names of the fields for each [`Part`] of a call. The first name that the class has is taken.
const PARTS: [(Part, &[&str]); 10] = [
    (Part::Folder, &["dfd", "dirfd", "olddfd"]),
    (Part::Target, &["out_fd", "fd_out", "fdout"]),
    (Part::Flags, &["flags", "how_flags", "clone_flags", "uargs_flags", "unshare_flags"]),
    (Part::Control, &["cmd", "op"]),
    (Part::Argument, &["arg", "max_fd", "val"]),
    (Part::Family, &["family"]),
    (Part::Type, &["type"]),
    (Part::Timeout, &["timeout_msecs", "timeout", "tsp", "tvp"]),
    (Part::Epoll, &["epfd"]),
    (Part::Data, &["event_data"]),
];
/// Names of arguments that are descriptors, but not the object of their call.
const OTHER_DESCRIPTORS: [&str; 8] =
    ["dfd", "dirfd", "olddfd", "newdfd", "newfd", "out_fd", "fd_out", "fdout"];

/// Returns true if an argument of this name is a path.
#[must_use]
pub fn is_path(argument: &str) -> bool {
    PATHS.contains(&argument)
}

/// Returns true if an argument of this name is a descriptor.
#[must_use]
pub fn is_descriptor(argument: &str) -> bool {
    DESCRIPTORS.contains(&argument) || OTHER_DESCRIPTORS.contains(&argument)
}

/// The meaning of the records of an event class for a timeline.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    kind: BindingKind,
    span: Option<SpanBinding>,
    pub counters: Box<[CounterBinding]>,
    pub whose: Whose,
    /// True if the class' records are of no use to a timeline.
    pub is_nothing: bool,
    /// True if a record may be completely described by a [`Brief`]: it has no span, counter or process.
    pub may_be_brief: bool,
}

/// A step of a request to a disk.
#[derive(Clone, Copy, Debug)]
enum RequestStep {
    Queue,
    Issue,
    Complete,
}

#[derive(Clone, Debug)]
enum BindingKind {
    Nothing,
    /// The record has only the process of its thread.
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
        /// The field of kernels before 4.3 that is 0 if the thread was not woken, since it did not wait or waited
        /// for another event.
        success: Option<FieldRef>,
    },
    /// The end of the system call in which the record's thread is, without its name.
    LeaveAny {
        result: Option<FieldRef>,
    },
    Enter {
        call: CallId,
        is_plain: bool,
        /// True if the call may have a second object, to which it copies.
        has_target: bool,
        /// The field with the time since the call's begin \[ns\], if both ends are recorded when the call returns.
        elapsed: Option<FieldRef>,
        object: Option<(FieldRef, bool)>,
        more: Option<Box<Fields>>,
    },
    Leave {
        call: CallId,
        is_plain: bool,
        result: Option<FieldRef>,
        more: Option<Box<Fields>>,
    },
    /// A deferred argument of a system call, recorded after the call's entry.
    Deferred(DeferredClass),
    /// One end of a system call, which the record identifies by number instead of by name.
    Number(NumberedEnd),
    Fault,
    Signal {
        signal: FieldRef,
        code: Option<FieldRef>,
        target: Option<FieldRef>,
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
    Timer {
        begins: bool,
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
    Exec {
        program: Option<FieldRef>,
        old: Option<FieldRef>,
    },
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
        asleep: Option<AsleepFields>,
    },
    Named {
        tid: FieldRef,
        name: FieldRef,
    },
    Group {
        process: FieldRef,
        path: FieldRef,
        container: Option<FieldRef>,
        pod: Option<FieldRef>,
        number: Option<FieldRef>,
        is_move: bool,
    },
}

/// The fields of a state dump that say whether a thread is blocked, and in which way.
#[derive(Clone, Debug)]
struct AsleepFields {
    status: FieldRef,
    /// The state's letter in /proc, which only Strata's dump has.
    letter: Option<FieldRef>,
    call: Option<FieldRef>,
    descriptor: Option<FieldRef>,
    address: Option<FieldRef>,
}

impl AsleepFields {
    /// The value of `lttng_process_status` for a thread that waits.
    const WAITS: i64 = 5;

    fn of(class: &EventClass) -> Option<AsleepFields> {
        let find = |name: &str| class.find_in(Scope::Payload, name);
        Some(AsleepFields {
            status: find("status")?,
            letter: find("state"),
            call: find("call"),
            descriptor: find("fd"),
            address: find("address"),
        })
    }

    fn reason(&self, event: &Event<'_>, calls: &mut Calls) -> Option<Reason> {
        let text = |field: &Option<FieldRef>| RecordText::new(event, field.as_ref()).bytes();
        let letter = text(&self.letter).and_then(|letter| letter.first().copied());
        let sleep = match letter {
            Some(b'S') => Sleep::Interruptible,
            Some(b'D') => Sleep::Uninterruptible,
            Some(b'I') => Sleep::Idle,
            Some(b'T' | b't') => Sleep::Stopped,
            Some(_) => return None,
            None if event.integer(&self.status) == Some(AsleepFields::WAITS) => Sleep::Other,
            None => return None,
        };
        let call = text(&self.call).filter(|name| !name.is_empty());
        let call = call.and_then(|name| calls.of(&String::from_utf8_lossy(&name)));
        let number = |field: &Option<FieldRef>| event.integer(field.as_ref()?);
        let descriptor = number(&self.descriptor).filter(|&number| number >= 0);
        let address = number(&self.address).filter(|&address| address != 0);
        let object = match (descriptor.and_then(|number| i32::try_from(number).ok()), address) {
            (Some(descriptor), _) => Object::Descriptor(descriptor),
            (None, Some(address)) => Object::Address(address as u64),
            (None, None) => Object::None,
        };
        Some(Reason { sleep, call, object, is_older: true })
    }
}

/// The span that a class' records begin or end, and its fields.
#[derive(Clone, Debug)]
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
    elapsed: Option<FieldRef>,
}

/// The system calls by number, for records without their names, for all architectures.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberedCalls(Vec<NumbersOf>);

/// The system calls of one architecture, by number; `None` if the trace says no architecture, or an unknown one.
#[derive(Clone, Debug)]
pub(crate) struct NumbersOf {
    architecture: Option<Architecture>,
    known: Vec<Option<CallId>>,
}

impl NumberedCalls {
    /// Returns the system calls of an architecture, by number.
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
    /// Finds the meaning of a class, in the trace of a kernel or of an application.
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
        let span = span.filter(|span| span.name.is_some());
        let is_alone = span.is_none() && counters.is_empty();
        let is_nothing = matches!(kind, BindingKind::Nothing) && is_alone;
        let may_be_brief = is_alone && whose.pid.is_none();
        Binding { kind, span, counters, whose, is_nothing, may_be_brief }
    }

    /// Returns whether the class' records tell for what a descriptor was opened, or which process has it.
    pub(crate) fn is_of_descriptors(&self, calls: &Calls) -> bool {
        match &self.kind {
            BindingKind::Enter { call, .. } | BindingKind::Leave { call, .. } => !matches!(
                calls.kind(*call),
                CallKind::Other
                    | CallKind::Sleep
                    | CallKind::Poll
                    | CallKind::Watch
                    | CallKind::Futex
                    | CallKind::Restart
            ),
            BindingKind::Deferred(_)
            | BindingKind::LeaveAny { .. }
            | BindingKind::Opened { .. }
            | BindingKind::Fork { .. }
            | BindingKind::Exec { .. }
            | BindingKind::Exit { .. }
            | BindingKind::There { .. } => true,
            _ => false,
        }
    }

    /// Returns the span that a record begins or ends.
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
            elapsed: number(&span.elapsed).and_then(|it| u64::try_from(it).ok()).unwrap_or(0),
        })
    }

    /// Returns whether an observer of this type needs only the thread of the class' records.
    #[inline]
    pub(crate) fn is_unwanted<O: Observer>(&self) -> bool {
        match self.kind {
            BindingKind::Enter { .. }
            | BindingKind::Leave { .. }
            | BindingKind::Number(_)
            | BindingKind::Deferred(_) => !(O::CALLS || O::FILES || O::STATES),
            BindingKind::Interrupt { .. } => !(O::INTERRUPTS || O::STATES),
            BindingKind::Fault | BindingKind::Signal { .. } | BindingKind::Timer { .. } => {
                !O::STATES
            }
            _ => false,
        }
    }

    /// Returns the brief fact of a record, if observers of this type need no more of it.
    #[inline(always)]
    pub(crate) fn brief<O: Observer>(&self, event: &Event<'_>) -> Option<Brief> {
        if !self.may_be_brief || O::RECORDS {
            return None;
        }
        match &self.kind {
            BindingKind::Enter { .. } | BindingKind::Leave { .. } if self.is_unwanted::<O>() => {
                Some(Brief::Made)
            }
            BindingKind::Enter { call, is_plain: true, .. } if !(O::STATES || O::FILES) => {
                Some(Brief::Enter(*call, Object::None))
            }
            BindingKind::Enter { call, is_plain: true, has_target: false, object, .. }
                if !O::FILES =>
            {
                Some(Brief::Enter(*call, object_of(object.as_ref(), event)))
            }
            BindingKind::Leave { call, is_plain: true, result, .. } => {
                let result = result.as_ref().and_then(|field| event.integer(field));
                Some(Brief::Leave(*call, result))
            }
            _ => None,
        }
    }

    /// Returns whether the class' records only give a thread a name.
    #[inline]
    pub(crate) fn is_name(&self) -> bool {
        matches!(self.kind, BindingKind::Named { .. })
    }

    /// Returns the deferred argument in a record, and its call; `None` for most classes.
    #[inline]
    pub(crate) fn deferred(
        &self,
        event: &Event<'_>,
        calls: &mut Calls,
    ) -> Option<Box<(CallId, CopiedFields)>> {
        match &self.kind {
            BindingKind::Deferred(class) => deferred(class, event, calls),
            _ => None,
        }
    }

    /// Returns the fact of a record; `None` if the record lacks a necessary field.
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
            // What such a record says it does not lend.
            BindingKind::Nothing | BindingKind::Deferred(_) => return None,
            BindingKind::Whose => Fact::Whose,
            BindingKind::Enter { call, elapsed, object, more, .. } => {
                // Of most calls it says what they are blocked in, and nothing else.
                let is_wanted = wants || calls.kind(*call) != CallKind::Other;
                let object = object_of(object.as_ref().filter(|_| is_wanted), event);
                let more = match more {
                    Some(fields) if is_wanted => More::Of(event, fields),
                    _ => More::None,
                };
                let elapsed = ask(elapsed).and_then(|found| u64::try_from(found).ok());
                Fact::Enter { call: *call, elapsed: elapsed.unwrap_or(0), object, more }
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
            BindingKind::Wake { success, .. } if ask(success) == Some(0) => return None,
            BindingKind::LeaveAny { result } => Fact::LeaveAny { result: ask(result) },
            BindingKind::Wake { tid, name, is_by_waker: true, .. } => {
                Fact::Waking { tid: number(tid)?, name: text(name) }
            }
            BindingKind::Wake { tid, name, .. } => {
                Fact::Wakeup { tid: number(tid)?, name: text(name) }
            }
            BindingKind::Number(NumberedEnd { number: field, result, begins }) => {
                let call = numbers.of(number(field)?, *begins, calls)?;
                match begins {
                    true => {
                        Fact::Enter { call, elapsed: 0, object: Object::None, more: More::None }
                    }
                    false => Fact::Leave { call, result: ask(result), more: More::None },
                }
            }
            BindingKind::Fault => Fact::Fault,
            BindingKind::Signal { signal, code, target } => {
                Fact::Signal { signal: number(signal), code: ask(code), target: ask(target) }
            }
            BindingKind::Interrupt { number: field, name, softirq, begins } => {
                match (begins, softirq) {
                    (true, true) => Fact::SoftirqEnter(ask(field)?),
                    (true, false) => Fact::InterruptEnter(ask(field)?, text(name)),
                    (false, true) => Fact::SoftirqLeave,
                    (false, false) => Fact::InterruptLeave,
                }
            }
            BindingKind::Timer { begins } => Fact::Timer { begins: *begins },
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
            BindingKind::Exec { program, old } => {
                Fact::Exec { program: text(program), old: ask(old) }
            }
            BindingKind::Program { tid, process, name } => Fact::Program {
                tid: number(tid)?,
                process: number(process)?,
                name: RecordText::Of(event, name),
            },
            BindingKind::Exit { tid, name } => Fact::Exit { tid: number(tid)?, name: text(name) },
            BindingKind::There { tid, process, parent, name, asleep } => Fact::There {
                tid: number(tid)?,
                process: number(process)?,
                parent: ask(parent),
                name: text(name),
                asleep: asleep.as_ref().and_then(|fields| fields.reason(event, calls)),
            },
            BindingKind::Named { tid, name } => {
                Fact::Named { tid: number(tid)?, name: RecordText::Of(event, name) }
            }
            BindingKind::Group { process, path, container, pod, number: of_group, is_move } => {
                Fact::Group {
                    process: number(process)?,
                    path: RecordText::Of(event, path),
                    container: text(container),
                    pod: text(pod),
                    number: of_group.as_ref().and_then(|field| event.integer(field)),
                    is_move: *is_move,
                }
            }
        })
    }
}

/// Returns the object of a call that begins: the descriptor in a field, or the address if it is none.
#[inline(always)]
fn object_of(field: Option<&(FieldRef, bool)>, event: &Event<'_>) -> Object {
    let Some((field, is_descriptor)) = field else { return Object::None };
    match (event.integer(field), is_descriptor) {
        (None, _) => Object::None,
        (Some(value), true) => i32::try_from(value).map_or(Object::None, Object::Descriptor),
        (Some(value), false) => Object::Address(value as u64),
    }
}

#[cold]
fn deferred(
    class: &DeferredClass,
    event: &Event<'_>,
    calls: &mut Calls,
) -> Option<Box<(CallId, CopiedFields)>> {
    let call = calls.of(class.call(event)?)?;
    let argument = class.argument(event)?;
    let trace = event.stream().trace().index();
    let payload = calls.entry(trace, call, || class.entry_of(event)?.payload.as_ref())?;
    // Of several names, the call has the first one that its entry has.
    let is_its = |name: &str, names: &[&str]| {
        names.iter().find(|it| payload.find(it).is_some()).is_some_and(|it| *it == name)
    };
    let fields = argument.fields(&payload, class.order());
    let mut path = None;
    let mut numbers = Vec::new();
    for (name, value) in &fields {
        let number = match value {
            DeferredField::Text(text) if is_its(name, &PATHS) => {
                path = Some(text.clone());
                continue;
            }
            DeferredField::Unsigned(value) => *value as i64,
            DeferredField::Signed(value) => *value,
            DeferredField::Text(_) | DeferredField::Bytes(_) => continue,
        };
        let parts = PARTS.iter().filter(|(_, names)| is_its(name, names));
        numbers.extend(parts.map(|(part, _)| (*part, number)));
    }
    let address = match argument.value {
        DeferredValue::Address { family, port, bytes } if !fields.is_empty() => {
            Some(SocketAddress::new(family, port, bytes))
        }
        _ => None,
    };
    Some(Box::new((call, CopiedFields::of_argument(path, numbers, address))))
}

fn named(class: &EventClass) -> Option<BindingKind> {
    let find = |name: &str| class.find_in(Scope::Payload, name);
    Some(BindingKind::Named { tid: find("tid")?, name: find("name")? })
}

/// Returns the role of an application's event whose name ends in `_begin` or `_end`: that of spans by default.
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
        elapsed: elapsed_of_span(class).filter(|_| role.begins),
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
            success: find("success"),
        },
        "signal_generate" => BindingKind::Signal {
            signal: find("sig")?,
            code: find("code"),
            target: either("pid", "tid"),
        },
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
        "timer_hrtimer_expire_entry"
        | "hrtimer_expire_entry"
        | "timer_expire_entry"
        | "x86_irq_vectors_local_timer_entry"
        | "local_timer_entry" => BindingKind::Timer { begins: true },
        "timer_hrtimer_expire_exit"
        | "hrtimer_expire_exit"
        | "timer_expire_exit"
        | "x86_irq_vectors_local_timer_exit"
        | "local_timer_exit" => BindingKind::Timer { begins: false },
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
        "sched_process_exec" => {
            BindingKind::Exec { program: find("filename"), old: either("old_tid", "old_pid") }
        }
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
            asleep: AsleepFields::of(class),
        },
        "lttng_statedump_process_cgroup" => BindingKind::Group {
            process: find("pid")?,
            path: find("path")?,
            container: find("container"),
            pod: find("pod"),
            number: find("cgroup_id"),
            is_move: false,
        },
        "cgroup_attach_task" => BindingKind::Group {
            process: find("pid")?,
            path: find("dst_path")?,
            container: None,
            pod: None,
            number: find("dst_id"),
            is_move: true,
        },
        "strata:thread_name" => return named(class),
        // Where it says no thread, it is the one that makes the record.
        "task_rename" => BindingKind::Named {
            tid: either("tid", "pid").or_else(|| Whose::new(class, true).tid)?,
            name: find("newcomm")?,
        },
        "syscall_text" | "syscall_address" | "syscall_memory" => {
            BindingKind::Deferred(DeferredClass::new(class)?)
        }
        name if CallEnd::is_of_any(name) => BindingKind::LeaveAny { result: find("ret") },
        _ if NumberedEnd::begins(name).is_some() => BindingKind::Number(NumberedEnd::of(class)?),
        _ if name.contains("page_fault_user") => BindingKind::Fault,
        // The page of a file was not where a fault finds it without asking. It may have to come from the disk.
        "mm_filemap_fault" => BindingKind::Fault,
        _ => return None,
    })
}

fn call(class: &EventClass, calls: &mut Calls) -> Option<BindingKind> {
    let find = |names: &[&str]| names.iter().find_map(|it| class.find_in(Scope::Payload, it));
    // LTTng 2.0 to 2.3 call the begin of exit() as perf calls the end of any call by number.
    let is_exit = class.name() == "sys_exit" && find(&["error_code"]).is_some();
    let exit = CallEnd { name: "exit", is_compat: false, begins: true };
    let end = CallEnd::of(class.name()).or(is_exit.then_some(exit))?;
    let call = calls.of(&end.full_name())?;
    let kind = calls.kind(call);
    let is_plain = kind == CallKind::Other;
    let mut more = Fields {
        has_address: matches!(kind, CallKind::Address | CallKind::Ask | CallKind::Make),
        has_polled: kind == CallKind::Poll && has_polled(class),
        has_ready: kind == CallKind::Poll && class.find_in(Scope::Payload, READY).is_some(),
        ..Fields::default()
    };
    if !end.begins {
        more.set(Part::First, find(&["fildes_0", "usockvec_0"]));
        more.set(Part::Second, find(&["fildes_1", "usockvec_1"]));
        let has = more.has_polled
            || more.has_ready
            || matches!(kind, CallKind::Pair | CallKind::Ask | CallKind::Make);
        let more = has.then(|| Box::new(more));
        return Some(BindingKind::Leave { call, is_plain, result: find(&["ret"]), more });
    }
    for (part, names) in PARTS {
        more.set(part, find(names));
    }
    more.path = find(&PATHS);
    let descriptor = find(&DESCRIPTORS).map(|field| (field, true));
    let address = find(&["uaddr"]).map(|field| (field, false));
    let elapsed = elapsed_field(class);
    Some(BindingKind::Enter {
        call,
        is_plain: is_plain && elapsed.is_none(),
        has_target: more.numbers[Part::Target as usize].is_some(),
        elapsed,
        object: if kind == CallKind::Futex { address } else { descriptor },
        more: Some(Box::new(more)),
    })
}

/// Returns true if the class' records have the descriptors of poll() or select().
fn has_polled(class: &EventClass) -> bool {
    POLLED.iter().any(|name| class.find_in(Scope::Payload, name).is_some())
}

//! Facts: what event records say, in one form for all tracers, and as numbers.
//!
//! ```text
//! class  ── Binding: which fields a fact of this class needs, found once by name
//! record ── Binding::fact() ── Brief   a record or a call without anything to read: most records
//!                           └─ Fact    what happened, with numbers that are read, and texts that are not yet
//! (Spot, Fact) ── Engine::apply() ── World, observers
//! ```
//!
//! The engine knows facts only, no event and no field: `sched_switch` of LTTng, of ftrace and of Strata is one
//! [`Fact::Switch`]. Where and when it happened, and in which thread, is the record's [`Spot`].
//!
//! A trace has millions of records, and of most the engine needs two or three numbers. So a fact borrows from its
//! record, and costs what is read of it: a text ([`RecordText`]) and the rarer fields ([`More`]: paths, addresses of
//! sockets, descriptors that poll() waits for) are read only when the engine asks for them. What is read into memory
//! of its own has a limit, since a record may have arrays of any length.
//!
//! Some facts are applied when their record is gone: the arguments of a call, at its end, or in another thread. A
//! [`CopiedFields`] has the same fields by value.
//!
//! A new fact is a variant of [`Fact`], a `BindingKind` with its fields in `binding`, and an arm in `Engine::apply`.

use strata_ctf::read::{Event, FieldInfo, FieldRef, Scope, Value, Visit};

use crate::ids::calls::CallId;
use crate::ids::names::Name;
use crate::spans::{Home, KeyRef};

use crate::world::state::{Object, Reason};

/// A text of a record, which is read when it is needed.
#[derive(Clone, Copy)]
pub(crate) enum RecordText<'a> {
    None,
    Of(&'a Event<'a>, &'a FieldRef),
    /// A text that was copied out of its record before.
    Copied(&'a [u8]),
    #[cfg(test)]
    Is(&'a str),
}

impl<'a> RecordText<'a> {
    pub(crate) fn new(event: &'a Event<'a>, field: Option<&'a FieldRef>) -> RecordText<'a> {
        field.map_or(RecordText::None, |field| RecordText::Of(event, field))
    }

    /// Returns the first 16 bytes of the text, for comparison.
    pub(crate) fn short(self) -> Option<[u8; 16]> {
        let copy = |bytes: &[u8]| {
            let mut short = [0; 16];
            let bytes = bytes.get(..short.len()).unwrap_or(bytes);
            if let Some(short) = short.get_mut(..bytes.len()) {
                short.copy_from_slice(bytes);
            }
            short
        };
        match self {
            RecordText::None => None,
            RecordText::Of(event, field) => match event.value(field)? {
                Value::Text(bytes) => Some(copy(bytes)),
                _ => None,
            },
            RecordText::Copied(bytes) => Some(copy(bytes)),
            #[cfg(test)]
            RecordText::Is(text) => Some(copy(text.as_bytes())),
        }
    }

    pub(crate) fn bytes(self) -> Option<Vec<u8>> {
        match self {
            RecordText::None => None,
            RecordText::Of(event, field) => match event.value(field)? {
                Value::Text(bytes) => Some(bytes.to_vec()),
                Value::Wide(text) => Some(text.to_text().into_bytes()),
                _ => None,
            },
            RecordText::Copied(bytes) => Some(bytes.to_vec()),
            #[cfg(test)]
            RecordText::Is(text) => Some(text.into()),
        }
    }
}

/// A field of a system call, other than the descriptor and the path, that only some calls have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The descriptor of the folder in which a path begins.
    Folder,
    /// The descriptor to which something is copied.
    Target,
    /// The flags, one of which may make exec() close the new descriptor.
    Flags,
    /// A command or an operation.
    Control,
    /// The argument of a command, or the end of a range of descriptors.
    Argument,
    /// The first descriptor of two that a call makes.
    First,
    /// The second descriptor of two that a call makes.
    Second,
    /// The address family of a socket.
    Family,
    /// The type of a socket.
    Type,
    /// The timeout of a call that waits, or the timeout's address; 0 if the call does not wait.
    Timeout,
    /// The descriptor of an epoll.
    Epoll,
    /// The number that an epoll returns when a descriptor is ready.
    Data,
}

const PARTS: usize = Part::Data as usize + 1;

/// The places of the fields of system calls in the records of a class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    pub path: Option<FieldRef>,
    pub numbers: [Option<FieldRef>; PARTS],
    pub has_address: bool,
    /// True if the record has the descriptors of poll() or select().
    pub has_polled: bool,
    /// True if the record has the events that epoll_wait() returns.
    pub has_ready: bool,
}

impl Fields {
    pub(crate) fn set(&mut self, part: Part, field: Option<FieldRef>) {
        if let Some(slot) = self.numbers.get_mut(part as usize) {
            *slot = field;
        }
    }
}

/// The fields of one record, which are read when they are needed.
#[derive(Clone, Copy)]
pub(crate) enum More<'a> {
    None,
    Of(&'a Event<'a>, &'a Fields),
    /// Fields that were copied out of their record before.
    Copied(&'a CopiedFields),
    #[cfg(test)]
    Is(&'a str, &'a [(Part, i64)]),
}

/// The fields of one record, copied out of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopiedFields {
    path: Option<Vec<u8>>,
    numbers: [Option<i64>; PARTS],
    address: Option<SocketAddress>,
    polled: Option<PolledDescriptors>,
}

impl CopiedFields {
    /// Returns the fields of a deferred argument, which is recorded after its call's entry.
    pub(crate) fn of_argument(
        path: Option<Vec<u8>>,
        numbers: impl IntoIterator<Item = (Part, i64)>,
        address: Option<SocketAddress>,
    ) -> CopiedFields {
        let mut kept = CopiedFields { path, address, ..CopiedFields::default() };
        for (part, number) in numbers {
            if let Some(slot) = kept.numbers.get_mut(part as usize) {
                *slot = Some(number);
            }
        }
        kept
    }

    pub(crate) fn new(more: More<'_>) -> CopiedFields {
        const ALL: [Part; PARTS] = [
            Part::Folder,
            Part::Target,
            Part::Flags,
            Part::Control,
            Part::Argument,
            Part::First,
            Part::Second,
            Part::Family,
            Part::Type,
            Part::Timeout,
            Part::Epoll,
            Part::Data,
        ];
        let path = more.path().bytes();
        let numbers = ALL.map(|part| more.number(part));
        CopiedFields { path, numbers, address: more.address(), polled: more.polled() }
    }
}

impl<'a> More<'a> {
    pub(crate) fn number(self, part: Part) -> Option<i64> {
        match self {
            More::None => None,
            More::Of(event, fields) => event.integer(fields.numbers.get(part as usize)?.as_ref()?),
            More::Copied(kept) => kept.numbers.get(part as usize).copied()?,
            #[cfg(test)]
            More::Is(_, numbers) => {
                numbers.iter().find(|(is, _)| *is == part).map(|&(_, number)| number)
            }
        }
    }

    /// Returns a field as the number of a descriptor.
    pub(crate) fn descriptor(self, part: Part) -> Option<i32> {
        self.number(part).and_then(|number| i32::try_from(number).ok())
    }

    pub(crate) fn path(self) -> RecordText<'a> {
        match self {
            More::None => RecordText::None,
            More::Of(event, fields) => RecordText::new(event, fields.path.as_ref()),
            More::Copied(kept) => kept.path.as_deref().map_or(RecordText::None, RecordText::Copied),
            #[cfg(test)]
            More::Is(path, _) => RecordText::Is(path),
        }
    }

    /// Returns the address of a socket.
    pub(crate) fn address(self) -> Option<SocketAddress> {
        match self {
            More::Of(event, fields) if fields.has_address => {
                let mut address = SocketAddress::default();
                event.visit(Scope::Payload, &mut address);
                Some(address)
            }
            More::Copied(kept) => kept.address.clone(),
            _ => None,
        }
    }

    /// Returns the descriptors that poll() or select() waits for; at the call's end, those that are ready.
    pub(crate) fn polled(self) -> Option<PolledDescriptors> {
        match self {
            More::Of(event, fields) if fields.has_polled => {
                let mut polled = PolledDescriptors::default();
                event.visit(Scope::Payload, &mut polled);
                Some(polled)
            }
            More::Copied(kept) => kept.polled,
            _ => None,
        }
    }

    /// Returns the data of the events that epoll_wait() returns.
    pub(crate) fn ready(self) -> Option<ReadyData> {
        match self {
            More::Of(event, fields) if fields.has_ready => {
                let mut ready = ReadyData::default();
                event.visit(Scope::Payload, &mut ready);
                Some(ready)
            }
            #[cfg(test)]
            More::Is(_, numbers) => {
                let mut ready = ReadyData::default();
                let data = numbers.iter().filter(|(part, _)| *part == Part::Data);
                data.for_each(|&(_, data)| ready.add(data as u64));
                (ready.count > 0).then_some(ready)
            }
            _ => None,
        }
    }
}

/// The descriptors in the arrays of poll() or select(), as far as needed: the first one, and whether there are
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PolledDescriptors {
    first: Option<i32>,
    has_others: bool,
    /// True while an array of descriptors is being visited.
    is_in: bool,
}

/// The names of the arrays that have descriptors: that of poll(), and the three sets of select().
pub(crate) const POLLED: [&str; 4] = ["ufds_fd", "inp", "outp", "exp"];

impl PolledDescriptors {
    /// Returns the descriptor if there is only one.
    pub(crate) fn only(self) -> Option<i32> {
        self.first.filter(|_| !self.has_others)
    }

    /// The first descriptor, if there is any.
    pub(crate) fn first(self) -> Option<i32> {
        self.first
    }
}

impl Visit for PolledDescriptors {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        self.signed(field, value as i64);
    }

    fn signed(&mut self, field: &FieldInfo, value: i64) {
        // A negative one asks nothing.
        let number = i32::try_from(value).ok().filter(|&number| number >= 0);
        let Some(number) = number.filter(|_| self.is_in && field.is_element()) else { return };
        let first = *self.first.get_or_insert(number);
        self.has_others |= first != number;
    }

    fn real(&mut self, _: &FieldInfo, _: f64) {}

    fn text(&mut self, _: &FieldInfo, _: &[u8]) {}

    fn begin_array(&mut self, field: &FieldInfo, _: u64) {
        self.is_in = POLLED.contains(&field.name());
    }

    fn end_array(&mut self, _: &FieldInfo) {
        self.is_in = false;
    }
}

/// The name of the array with the data of events that epoll_wait() returns.
pub(crate) const READY: &str = "events_data";
/// The most events of an epoll_wait() that a record has.
const READY_MAX: usize = 16;

/// The data of the events that an epoll_wait() returns: a number for each descriptor that is ready.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadyData {
    data: [u64; READY_MAX],
    count: usize,
    /// True while the array is being visited.
    is_in: bool,
}

impl ReadyData {
    fn add(&mut self, data: u64) {
        if let Some(slot) = self.data.get_mut(self.count) {
            *slot = data;
        }
        self.count = self.count.saturating_add(1);
    }

    /// Returns the data of all events; `None` if the record does not have all `events` that the call returned.
    pub(crate) fn all(&self, events: i64) -> Option<&[u64]> {
        let all = self.data.get(..self.count)?;
        (usize::try_from(events) == Ok(all.len())).then_some(all)
    }
}

impl Visit for ReadyData {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        if self.is_in && field.is_element() {
            self.add(value);
        }
    }

    fn signed(&mut self, field: &FieldInfo, value: i64) {
        self.unsigned(field, value as u64);
    }

    fn real(&mut self, _: &FieldInfo, _: f64) {}

    fn text(&mut self, _: &FieldInfo, _: &[u8]) {}

    fn begin_array(&mut self, field: &FieldInfo, _: u64) {
        self.is_in = field.name() == READY;
    }

    fn end_array(&mut self, _: &FieldInfo) {
        self.is_in = false;
    }
}

/// The address of a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SocketAddress {
    pub family: u64,
    pub port: u64,
    pub bytes: Vec<u8>,
    /// True while the array of the bytes is being visited.
    is_in: bool,
}

impl SocketAddress {
    pub(crate) fn new(family: u64, port: u64, bytes: Vec<u8>) -> SocketAddress {
        SocketAddress { family, port, bytes, is_in: false }
    }
}

const ADDRESS_MAX: usize = 128;

impl Visit for SocketAddress {
    fn unsigned(&mut self, field: &FieldInfo, value: u64) {
        if field.is_element() {
            if let (true, Ok(byte)) =
                (self.is_in && self.bytes.len() < ADDRESS_MAX, value.try_into())
            {
                self.bytes.push(byte);
            }
        } else if field.name().ends_with("family") {
            self.family = value;
        } else if field.name().ends_with("port") {
            self.port = value;
        }
    }

    fn signed(&mut self, field: &FieldInfo, value: i64) {
        self.unsigned(field, value.unsigned_abs());
    }

    fn real(&mut self, _: &FieldInfo, _: f64) {}

    fn text(&mut self, _: &FieldInfo, _: &[u8]) {}

    fn begin_array(&mut self, field: &FieldInfo, _: u64) {
        self.is_in = field.name().ends_with("addr");
    }

    fn end_array(&mut self, _: &FieldInfo) {
        self.is_in = false;
    }
}

/// The fact that one record reports about threads, CPUs, system calls, disks or spans.
#[derive(Clone, Copy)]
pub(crate) enum Fact<'a> {
    /// The record tells the process of its thread; both are in its [`Spot`].
    Whose,
    /// A thread made the record, of which nothing else is needed.
    Made,
    /// A CPU switches to another thread.
    Switch {
        prev: i64,
        prev_state: Option<i64>,
        next: i64,
        prev_name: RecordText<'a>,
        next_name: RecordText<'a>,
    },
    /// A thread is being woken; the record is made by the waker.
    Waking {
        tid: i64,
        name: RecordText<'a>,
    },
    /// A woken thread can run. The record may be on another CPU than the waker's.
    Wakeup {
        tid: i64,
        name: RecordText<'a>,
    },
    /// A system call begins.
    Enter {
        call: CallId,
        /// The time from the call's begin to the record, if the record was written later \[ns\].
        elapsed: u64,
        object: Object,
        more: More<'a>,
    },
    /// A deferred argument of the thread's call, which was not in memory at the call's entry.
    Deferred {
        call: CallId,
        more: More<'a>,
    },
    /// A system call returns.
    Leave {
        call: CallId,
        result: Option<i64>,
        more: More<'a>,
    },
    /// The system call in which the thread is returns, whichever that is.
    LeaveAny {
        result: Option<i64>,
    },
    /// A thread sends a signal, or the kernel makes one for it.
    Signal {
        signal: Option<i64>,
        code: Option<i64>,
        /// The thread that the signal is for, or the first one of its process.
        target: Option<i64>,
    },
    /// A page fault of a thread.
    Fault,
    /// The interrupt of a device begins: its number, and the name of its driver.
    InterruptEnter(i64, RecordText<'a>),
    InterruptLeave,
    /// A softirq becomes pending.
    SoftirqRaise(i64),
    SoftirqEnter(i64),
    SoftirqLeave,
    /// The kernel begins or ends serving a timer in an interrupt.
    Timer {
        begins: bool,
    },
    /// A request waits in the queue of a disk.
    Queue {
        place: DiskPlace,
    },
    /// A disk gets a request.
    Issue {
        place: DiskPlace,
        /// The kernel's letters for the operation.
        kind: RecordText<'a>,
        bits: Option<i64>,
    },
    /// The disk has completed a request or a part of it.
    Complete {
        place: DiskPlace,
        error: Option<i64>,
    },
    /// A disk, or an interrupt, has a name.
    DeviceName {
        device: i64,
        name: RecordText<'a>,
    },
    InterruptName {
        number: i64,
        name: RecordText<'a>,
    },
    /// A descriptor that was open when recording began.
    Opened {
        process: i64,
        descriptor: i64,
        flags: Option<i64>,
        path: RecordText<'a>,
    },
    /// A thread was created.
    Fork {
        parent: Option<i64>,
        child: i64,
        process: Option<i64>,
        name: RecordText<'a>,
    },
    /// A thread runs another program.
    Exec {
        /// The program's file.
        program: RecordText<'a>,
        /// The thread's earlier number, if it was not the first thread of its process and gets the number of that.
        old: Option<i64>,
    },
    /// The program that a thread executes, from the kernel's record of mapping the program's file, with the
    /// process and the present name.
    Program {
        tid: i64,
        process: i64,
        name: RecordText<'a>,
    },
    /// A thread is about to end.
    Exit {
        tid: i64,
        name: RecordText<'a>,
    },
    /// A thread existed when recording began.
    There {
        tid: i64,
        process: i64,
        parent: Option<i64>,
        name: RecordText<'a>,
        /// The reason for which the thread is blocked; `None` if it is not blocked, or that is not known.
        asleep: Option<Reason>,
    },
    /// A thread of a process has a new name.
    Named {
        tid: i64,
        name: RecordText<'a>,
    },
    /// A process is in a control group, or is moved there.
    Group {
        process: i64,
        path: RecordText<'a>,
        /// The container to which the group belongs; empty if it belongs to none, or that is not known.
        container: RecordText<'a>,
        /// The name of the Kubernetes pod to which the group belongs; empty if it belongs to none, or that is not
        /// known.
        pod: RecordText<'a>,
        /// The number of the group, if the record has it.
        number: Option<i64>,
        is_move: bool,
    },
    /// A span begins or ends.
    Span(SpanMark<'a>),
}

/// A frequent fact for which no other fields of the record are needed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Brief {
    /// A thread made the record.
    Made,
    /// The begin of a system call that does not affect descriptors, names or threads, and its object.
    Enter(CallId, Object),
    /// The end of a system call that does not affect descriptors, names or threads, and its result.
    Leave(CallId, Option<i64>),
}

/// A begin or an end of a span.
#[derive(Clone, Copy)]
pub(crate) struct SpanMark<'a> {
    pub pair: u32,
    pub name: Name,
    /// The event's name.
    pub event: Name,
    pub begins: bool,
    /// True if the span's role has a key field, whether this record has it or not.
    pub is_keyed: bool,
    pub key: Option<KeyRef<'a>>,
    /// A hash of the value that should be the same at both ends of the span.
    pub check: Option<u64>,
    pub address: Option<u64>,
    pub owner: Option<i64>,
    pub result: Option<i64>,
    /// The time from the span's begin to this record, if the record was written later \[ns\].
    pub elapsed: u64,
}

/// A range of sectors on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DiskPlace {
    pub device: i64,
    pub sector: i64,
    pub sectors: i64,
}

/// The place and time of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub time: i64,
    pub machine: u8,
    pub cpu: Option<u32>,
    /// The thread, by its number on the machine.
    pub tid: Option<i64>,
    /// The process, by its number on the machine.
    pub pid: Option<i64>,
    /// The thread, by its number within the trace.
    pub own_tid: Option<i64>,
    /// The process to which the trace assigns the record, for pairing spans.
    pub home: Home,
    pub selected: bool,
}

//! What an event record says, in numbers. Tracers spell it in different ways; here it is one.

use strata_ctf::read::{Event, FieldInfo, FieldRef, Scope, Value, Visit};

use crate::calls::CallId;
use crate::names::Name;
use crate::spans::{Home, KeyRef};

use crate::state::Object;

/// A text of a record that is looked at when it is wanted: most are not.
#[derive(Clone, Copy)]
pub(crate) enum RecordText<'a> {
    None,
    Of(&'a Event<'a>, &'a FieldRef),
    /// Taken out of its record before.
    Kept(&'a [u8]),
    #[cfg(test)]
    Is(&'a str),
}

impl<'a> RecordText<'a> {
    pub(crate) fn new(event: &'a Event<'a>, field: Option<&'a FieldRef>) -> RecordText<'a> {
        field.map_or(RecordText::None, |field| RecordText::Of(event, field))
    }

    /// Its first bytes, to be compared.
    pub(crate) fn short(self) -> Option<[u8; 16]> {
        let copy = |bytes: &[u8]| {
            let mut short = [0; 16];
            short.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            short
        };
        match self {
            RecordText::None => None,
            RecordText::Of(event, field) => match event.value(field)? {
                Value::Text(bytes) => Some(copy(bytes)),
                _ => None,
            },
            RecordText::Kept(bytes) => Some(copy(bytes)),
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
            RecordText::Kept(bytes) => Some(bytes.to_vec()),
            #[cfg(test)]
            RecordText::Is(text) => Some(text.into()),
        }
    }
}

/// What a system call's record has beside its descriptor, for the few calls of which that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Of the folder in which a path begins.
    Folder,
    /// The descriptor to which something is copied.
    Target,
    /// The flags, one of which may be that exec() closes what is made.
    Flags,
    /// A command, an operation.
    Control,
    /// What belongs to the command; the last of several descriptors.
    Argument,
    /// What was made.
    First,
    /// What was made, too.
    Second,
    /// A socket's.
    Family,
    /// A socket's.
    Type,
    /// For how long it waits, or where that is said; 0: not at all.
    Timeout,
}

const PARTS: usize = Part::Timeout as usize + 1;

/// In which fields that is.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub path: Option<FieldRef>,
    pub numbers: [Option<FieldRef>; PARTS],
    pub has_address: bool,
}

impl Fields {
    pub(crate) fn set(&mut self, part: Part, field: Option<FieldRef>) {
        if let Some(slot) = self.numbers.get_mut(part as usize) {
            *slot = field;
        }
    }
}

/// The same in a record, to be looked at when it is wanted.
#[derive(Clone, Copy)]
pub(crate) enum More<'a> {
    None,
    Of(&'a Event<'a>, &'a Fields),
    /// Taken out of its record before.
    Kept(&'a Kept),
    #[cfg(test)]
    Is(&'a str, &'a [(Part, i64)]),
}

/// The same, without the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    path: Option<Vec<u8>>,
    numbers: [Option<i64>; PARTS],
    address: Option<SocketAddress>,
}

impl Kept {
    pub(crate) fn new(more: More<'_>) -> Kept {
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
        ];
        let path = more.path().bytes();
        Kept { path, numbers: ALL.map(|part| more.number(part)), address: more.address() }
    }
}

impl<'a> More<'a> {
    pub(crate) fn number(self, part: Part) -> Option<i64> {
        match self {
            More::None => None,
            More::Of(event, fields) => event.integer(fields.numbers.get(part as usize)?.as_ref()?),
            More::Kept(kept) => kept.numbers.get(part as usize).copied()?,
            #[cfg(test)]
            More::Is(_, numbers) => {
                numbers.iter().find(|(is, _)| *is == part).map(|&(_, number)| number)
            }
        }
    }

    /// A number of a descriptor.
    pub(crate) fn descriptor(self, part: Part) -> Option<i32> {
        self.number(part).and_then(|number| i32::try_from(number).ok())
    }

    pub(crate) fn path(self) -> RecordText<'a> {
        match self {
            More::None => RecordText::None,
            More::Of(event, fields) => RecordText::new(event, fields.path.as_ref()),
            More::Kept(kept) => kept.path.as_deref().map_or(RecordText::None, RecordText::Kept),
            #[cfg(test)]
            More::Is(path, _) => RecordText::Is(path),
        }
    }

    /// A socket's address.
    pub(crate) fn address(self) -> Option<SocketAddress> {
        match self {
            More::Of(event, fields) if fields.has_address => {
                let mut address = SocketAddress::default();
                event.visit(Scope::Payload, &mut address);
                Some(address)
            }
            More::Kept(kept) => kept.address.clone(),
            _ => None,
        }
    }
}

/// A socket's address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SocketAddress {
    pub family: u64,
    pub port: u64,
    pub bytes: Vec<u8>,
    /// The array of the bytes is being visited.
    is_in: bool,
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

/// What a record says.
#[derive(Clone, Copy)]
pub(crate) enum Fact<'a> {
    /// Of which process a thread is; its spot says both.
    Whose,
    /// Who made it, and nothing else that is wanted.
    Made,
    /// A CPU takes another thread.
    Switch {
        prev: i64,
        prev_state: Option<i64>,
        next: i64,
        prev_name: RecordText<'a>,
        next_name: RecordText<'a>,
    },
    /// A thread is being woken, in the thread that does it.
    Waking {
        tid: i64,
        name: RecordText<'a>,
    },
    /// It can run, wherever that is noticed.
    Wakeup {
        tid: i64,
        name: RecordText<'a>,
    },
    /// A system call begins.
    Enter {
        call: CallId,
        object: Object,
        more: More<'a>,
    },
    /// A system call is over.
    Leave {
        call: CallId,
        result: Option<i64>,
        more: More<'a>,
    },
    /// A thread is sent a signal.
    Signal {
        tid: i64,
    },
    /// Memory was touched that is not there yet.
    Fault,
    /// By its number, with the name of who serves it.
    InterruptEnter(i64, RecordText<'a>),
    InterruptLeave,
    /// It is to be done.
    SoftirqRaise(i64),
    SoftirqEnter(i64),
    SoftirqLeave,
    /// Something that a disk is to be asked for waits in its queue.
    Queue {
        place: DiskPlace,
    },
    /// A disk is asked for something.
    Issue {
        place: DiskPlace,
        /// As the kernel writes it, or LTTng's bits.
        kind: RecordText<'a>,
        bits: Option<i64>,
    },
    /// It has done so, or a part of it.
    Complete {
        place: DiskPlace,
        error: Option<i64>,
    },
    /// A disk, or an interrupt, has this name.
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
    /// There is a new thread.
    Fork {
        parent: Option<i64>,
        child: i64,
        process: Option<i64>,
        name: RecordText<'a>,
    },
    /// A thread runs another program.
    Exec,
    /// The same as the kernel tells it to who asks what is mapped: with its process, and with the name that it has now.
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
    /// A thread that was there when recording began.
    There {
        tid: i64,
        process: i64,
        parent: Option<i64>,
        name: RecordText<'a>,
    },
    /// A thread of a process has a new name.
    Named {
        tid: i64,
        name: RecordText<'a>,
    },
    /// A span begins or ends.
    Span(SpanMark<'a>),
}

/// What most records say, where nobody wants to know more of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Brief {
    /// Nothing but that a thread made it, on a CPU, at a time.
    Made,
    /// A system call begins that does nothing to descriptors, names or threads.
    Enter(CallId),
    /// Such a one is over.
    Leave(CallId, Option<i64>),
}

/// A begin or an end of a span.
#[derive(Clone, Copy)]
pub(crate) struct SpanMark<'a> {
    pub pair: u32,
    pub name: Name,
    /// The event.
    pub event: Name,
    pub begins: bool,
    /// Whether it is to have a key.
    pub is_keyed: bool,
    pub key: Option<KeyRef<'a>>,
    /// What is the same in both ends.
    pub check: Option<u64>,
    pub address: Option<u64>,
    pub owner: Option<i64>,
    pub result: Option<i64>,
}

/// Where on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DiskPlace {
    pub device: i64,
    pub sector: i64,
    pub sectors: i64,
}

/// Where a record is from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub time: i64,
    pub machine: u8,
    pub cpu: Option<u32>,
    /// The thread that it is of, as it says itself.
    pub tid: Option<i64>,
    /// That thread's process.
    pub pid: Option<i64>,
    /// The thread by the number that its process knows it by.
    pub own_tid: Option<i64>,
    /// The process, as the trace has it.
    pub home: Home,
    pub selected: bool,
}

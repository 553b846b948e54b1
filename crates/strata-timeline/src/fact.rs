//! What an event record says, in numbers. Tracers spell it in different ways; here it is one.

use strata_ctf::read::{Event, FieldRef, Value};

use crate::calls::CallId;
use crate::names::Name;
use crate::spans::{Home, KeyRef};
use crate::state::Object;

/// A text of a record that is looked at when it is wanted: most are not.
#[derive(Clone, Copy)]
pub(crate) enum Text<'a> {
    None,
    Of(&'a Event<'a>, &'a FieldRef),
    #[cfg(test)]
    Is(&'a str),
}

impl<'a> Text<'a> {
    pub(crate) fn new(event: &'a Event<'a>, field: Option<&'a FieldRef>) -> Text<'a> {
        field.map_or(Text::None, |field| Text::Of(event, field))
    }

    /// Its first bytes, to be compared.
    pub(crate) fn short(self) -> Option<[u8; 16]> {
        let copy = |bytes: &[u8]| {
            let mut short = [0; 16];
            short.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            short
        };
        match self {
            Text::None => None,
            Text::Of(event, field) => match event.value(field)? {
                Value::Text(bytes) => Some(copy(bytes)),
                _ => None,
            },
            #[cfg(test)]
            Text::Is(text) => Some(copy(text.as_bytes())),
        }
    }

    pub(crate) fn bytes(self) -> Option<Vec<u8>> {
        match self {
            Text::None => None,
            Text::Of(event, field) => match event.value(field)? {
                Value::Text(bytes) => Some(bytes.to_vec()),
                Value::Wide(text) => Some(text.to_text().into_bytes()),
                _ => None,
            },
            #[cfg(test)]
            Text::Is(text) => Some(text.into()),
        }
    }
}

/// What a record says.
#[derive(Clone, Copy)]
pub(crate) enum Fact<'a> {
    /// A CPU takes another thread.
    Switch {
        prev: i64,
        prev_state: Option<i64>,
        next: i64,
        prev_name: Text<'a>,
        next_name: Text<'a>,
    },
    /// A thread is being woken, in the thread that does it.
    Waking {
        tid: i64,
        name: Text<'a>,
    },
    /// It can run, wherever that is noticed.
    Wakeup {
        tid: i64,
        name: Text<'a>,
    },
    /// A system call begins.
    Enter {
        call: CallId,
        object: Object,
        path: Text<'a>,
        duplicates: bool,
    },
    /// A system call is over; `pair`: two descriptors that it has made.
    Leave {
        call: CallId,
        result: Option<i64>,
        pair: Option<[i64; 2]>,
    },
    /// A thread is sent a signal.
    Signal {
        tid: i64,
    },
    /// Memory was touched that is not there yet.
    Fault,
    InterruptEnter(i64),
    InterruptLeave,
    SoftirqEnter(i64),
    SoftirqLeave,
    /// There is a new thread.
    Fork {
        parent: Option<i64>,
        child: i64,
        process: Option<i64>,
        name: Text<'a>,
    },
    /// A thread runs another program.
    Exec,
    /// A thread is about to end.
    Exit {
        tid: i64,
        name: Text<'a>,
    },
    /// A thread that was there when recording began.
    There {
        tid: i64,
        process: i64,
        parent: Option<i64>,
        name: Text<'a>,
    },
    /// A thread of a process has a new name.
    Named {
        tid: i64,
        name: Text<'a>,
    },
    /// A span begins or ends.
    Span(SpanMark<'a>),
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

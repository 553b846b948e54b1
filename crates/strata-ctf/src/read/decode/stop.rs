//! Why decoding does not go on.

use std::fmt;
use std::sync::Arc;

use crate::model::schema::Scope;

/// Why there is no record.
#[derive(Debug)]
pub(crate) enum NoRecord {
    /// What is at hand ends before it; the packet does not. Nothing has changed.
    Short {
        /// Needed up to here at least \[bit of the packet\].
        until: u64,
    },
    /// The packet cannot be followed any further.
    Bad(Box<Bad>),
}

/// Why a packet cannot be followed any further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// What is wrong.
    pub kind: BadKind,
    /// The part that it is in; `None`: the record as a whole.
    pub scope: Option<Scope>,
    /// Id and name of the record's class, as far as it is known.
    pub class: Option<(u64, Arc<str>)>,
    /// The field, where it is one; that of an array's elements has the array's name.
    pub field: Option<Arc<str>>,
    /// Where \[bit of the packet\].
    pub at: u64,
}

/// What is wrong with a packet's bytes, or with what the metadata says of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadKind {
    /// It would not end in the packet.
    Outside {
        /// Bits that it needs; `None`: it is a text without an end.
        needs: Option<u64>,
        /// Bits that are left in the packet.
        left: u64,
    },
    /// No event record class has this id.
    UnknownId(u64),
    /// A selector has a value for which there is no option.
    NoOption {
        /// The value, whatever its sign.
        value: i128,
    },
    /// An array has more elements than can be where it is.
    TooManyElements {
        /// Elements.
        count: u64,
        /// Bits that are left in the packet.
        left: u64,
    },
    /// Arrays of elements that have no bits have too many of them.
    TooManyEmpty {
        /// Fields of them.
        count: u64,
        /// As many may be so far.
        limit: u64,
    },
    /// A LEB128 integer does not fit into 64 bits.
    TooBig,
    /// A record of no bits at all: there would be no end of them.
    Empty,
    /// The metadata says that an integer begins in the middle of a byte whose first bits are of the
    /// other byte order.
    MixedOrder,
    /// The metadata gives an integer or a real number this width, which there is not \[bit\].
    Width(u8),
    /// The metadata has fields in fields deeper than this.
    TooDeep(u32),
    /// The metadata says that a length or a selector is where there is no integer before its use.
    Unresolved,
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::PacketHeader => "packet header",
        Scope::PacketContext => "packet context",
        Scope::EventHeader => "event record header",
        Scope::CommonContext => "common context",
        Scope::SpecificContext => "specific context",
        Scope::Payload => "payload",
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.class {
            Some((id, name)) if name.is_empty() => write!(f, "event record of class {id}, ")?,
            Some((id, name)) => {
                write!(f, "event record {} (class {id}), ", crate::model::printable(name))?;
            }
            None => {}
        }
        match self.scope {
            Some(scope) => f.write_str(scope_name(scope))?,
            None => f.write_str("event record")?,
        }
        if let Some(field) = &self.field {
            write!(f, ", field {}", crate::model::printable(field))?;
        }
        write!(f, ", at bit {} of the packet: {}", self.at, self.kind)
    }
}

impl std::error::Error for Bad {}

impl fmt::Display for BadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BadKind::Outside { needs: Some(needs), left } => {
                write!(f, "needs {needs} bits, {left} are left in the packet")
            }
            BadKind::Outside { needs: None, left } => {
                write!(f, "a text has no end in the {left} bits that are left in the packet")
            }
            BadKind::UnknownId(id) => write!(f, "the metadata has no class of id {id}"),
            BadKind::NoOption { value } => {
                write!(f, "the selector is {value}, for which there is no option")
            }
            BadKind::TooManyElements { count, left } => {
                write!(f, "{count} elements cannot be in the {left} bits left in the packet")
            }
            BadKind::TooManyEmpty { count, limit } => {
                write!(f, "{count} fields in elements without bits, at most {limit} are read")
            }
            BadKind::TooBig => f.write_str("an integer of variable length has more than 64 bits"),
            BadKind::Empty => f.write_str("a record has no bits, so there is no end of them"),
            BadKind::MixedOrder => {
                f.write_str("an integer begins in a byte that has bits of the other byte order")
            }
            BadKind::Width(bits) => write!(f, "the metadata has a number of {bits} bits"),
            BadKind::TooDeep(limit) => {
                write!(f, "the metadata has fields nested deeper than {limit}")
            }
            BadKind::Unresolved => f.write_str(
                "the metadata has a length or a selector where no integer is in front of its use",
            ),
        }
    }
}

//! Reasons why decoding stops.

use std::fmt;
use std::sync::Arc;

use crate::model::schema::Scope;

/// Reasons why a record was not decoded.
#[derive(Debug)]
pub(crate) enum NoRecord {
    /// The window ends within a field, but the packet does not. The state is unchanged.
    Short {
        /// The place up to which the window must reach at least \[bit of the packet\].
        until: u64,
    },
    /// The rest of the packet cannot be decoded.
    Bad(Box<Bad>),
}

/// A fault because of which the rest of a packet cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Kind of the fault.
    pub kind: BadKind,
    /// The part with the fault; `None` if the fault concerns the record as a whole.
    pub scope: Option<Scope>,
    /// Id and name of the record's class, as far as it is known.
    pub class: Option<(u64, Arc<str>)>,
    /// Name of the field, if the fault is in one; for an element, the name of its array.
    pub field: Option<Arc<str>>,
    /// Place of the fault \[bit of the packet\].
    pub at: u64,
}

/// Kinds of faults in a packet's bytes, or in their description by the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadKind {
    /// The field would not end within the packet.
    Outside {
        /// Size that the field needs \[bit\]; `None` for a text without an end.
        needs: Option<u64>,
        /// Size that is left in the packet \[bit\].
        left: u64,
    },
    /// The id belongs to no event record class.
    UnknownId(u64),
    /// A selector has a value for which there is no option.
    NoOption {
        /// The selector's value, signed or unsigned.
        value: i128,
    },
    /// An array has more elements than the rest of the packet can hold.
    TooManyElements {
        /// The number of elements that the packet claims.
        count: u64,
        /// Size that is left in the packet \[bit\].
        left: u64,
    },
    /// The packet's arrays have too many elements of size 0.
    TooManyEmpty {
        /// Number of fields in the elements.
        count: u64,
        /// The greatest number of such fields at this place in the packet.
        limit: u64,
    },
    /// A LEB128 integer does not fit into 64 bits.
    TooBig,
    /// A record has no bits, so that a packet would have endlessly many of them.
    Empty,
    /// The metadata have an integer that begins within a byte whose first bits have the other byte order.
    MixedOrder,
    /// The metadata give an integer or a real number a width that is not possible \[bit\].
    Width(u8),
    /// The metadata nest fields more deeply than this limit.
    TooDeep(u32),
    /// The metadata have a length or selector that does not refer to an earlier integer.
    Unresolved,
    /// A length or selector refers to a field that the record does not have, since it is optional.
    NotThere,
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
                write!(f, "{count} fields in elements of size 0, at most {limit} are read")
            }
            BadKind::TooBig => f.write_str("an integer of variable length has more than 64 bits"),
            BadKind::Empty => {
                f.write_str("a record has a size of 0, so the packet would never end")
            }
            BadKind::MixedOrder => {
                f.write_str("an integer begins in a byte that has bits of the other byte order")
            }
            BadKind::Width(bits) => write!(f, "the metadata has a number of {bits} bits"),
            BadKind::TooDeep(limit) => {
                write!(f, "the metadata has fields nested deeper than {limit}")
            }
            BadKind::NotThere => f.write_str(
                "its length or selector is in an option or an optional field that is not there",
            ),
            BadKind::Unresolved => f.write_str(
                "the metadata has a length or a selector without an integer field before it",
            ),
        }
    }
}

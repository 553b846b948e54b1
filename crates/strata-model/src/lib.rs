//! The data model of traces: environment, clock, streams, their event record classes, and the fields of these. No input
//! or output.
//!
//! ```text
//! Trace ── environment, ClockClass
//!   └─ StreamClass ── RecordHeader
//!        └─ EventClass ── provider, name, log level
//!             └─ Field ── FieldClass: integer, enumeration, float, string, array, sequence
//! ```
//!
//! [`schema`] describes any trace that a reader may find, in the terms of CTF 2. [`syscalls`] has the names of system
//! calls, for traces that have only their numbers.
//!
//! Descriptions come from traced programs, whose values may be wrong. So the types can hold invalid values (an integer
//! of 3 bytes, two fields of the same name), which `validate()` reports. A valid description can be written as a trace
//! that every reader opens. Names are still arbitrary text, and every writer must escape them.
//!
//! The same types serve both directions: recorders build a [`Trace`] and `strata_ctf::write` prints it; tests
//! read it back as a [`schema`] and compare. Times, counts of discarded records and sources of time, which
//! several layers need, are here too, in the lowest crate that all of them use.
#![forbid(unsafe_code)]

mod check;
mod counts;
mod error;
mod field;
mod flags;
mod loss;
mod name;
pub mod schema;
mod stable_hash;
pub mod syscalls;
mod temporary_folder;
#[cfg(test)]
mod tests;
mod time_namespace;
mod time_source;
mod times;
mod trace;

pub use counts::Counts;
pub use error::{EventError, FieldError, NameError, TraceError};
pub use field::{
    Array, Base, ByteOrder, Element, Enumeration, Field, FieldClass, FieldOrder, Float, Integer,
    Label, Sequence, UNREAD_FIELD,
};
pub use flags::Flags;
pub use loss::{DiscardReason, Discarded, LossMode};
pub use name::{is_identifier, printable, text_from_bytes, LEVEL_NAMES};
pub use stable_hash::{stable_hash, STABLE_HASH_OF_NOTHING};
pub use temporary_folder::temporary_folder;
pub use time_namespace::time_namespace_adds_ns;
pub use time_source::TimeSource;
pub use times::{Demand, LossTimes, StreamLoss};
pub use trace::{
    ClockClass, EnvValue, EventClass, RecordHeader, StreamClass, Trace, Uuid, UuidError,
};

/// Limits that `validate()` enforces. They are far above normal use, and bound the memory that an invalid description
/// costs the tracer to some tens of megabytes.
pub mod limits {
    /// The most fields of an event.
    pub const FIELDS: usize = 64;
    /// The greatest length of `provider:name` \[byte\].
    pub const EVENT_NAME_BYTES: usize = 255;
    /// The greatest length of a field's, enumeration's, clock's, stream's or environment entry's name \[byte\].
    pub const NAME_BYTES: usize = 255;
    /// The greatest length of an enumeration's label \[byte\].
    pub const LABEL_BYTES: usize = 255;
    /// The most labels of an enumeration.
    pub const LABELS: usize = 4096;
    /// The greatest size of an array \[byte\].
    pub const ARRAY_BYTES: u64 = 1 << 20;
    /// The greatest length of a text value: of the environment, a clock's description or a model URI \[byte\].
    pub const TEXT_BYTES: usize = 4096;
    /// The greatest log level, which is the most verbose one; 0 is the most severe one.
    pub const LOGLEVEL: u8 = 14;
    /// The most streams of a trace.
    pub const STREAMS: usize = 4096;
    /// The most entries of the environment.
    pub const ENVIRONMENT: usize = 256;
    /// The most event record classes of a stream.
    pub const EVENTS: usize = 65536;
    /// The greatest sum of [`super::EventClass::text_bytes`] over a trace \[byte\].
    pub const TRACE_TEXT_BYTES: usize = 16 << 20;
}

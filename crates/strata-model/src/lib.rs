//! What a trace is made of: its environment, its clock, its streams, their event record classes and
//! the fields of these. No input or output.
//!
//! ```text
//! Trace ── environment, ClockClass
//!   └─ StreamClass ── RecordHeader
//!        └─ EventClass ── provider, name, log level
//!             └─ Field ── FieldClass: integer, enumeration, float, string, array, sequence
//! ```
//!
//! [`schema`] has the same for any trace, in the terms of CTF 2: what a reader finds. [`syscalls`] has the names of
//! system calls, of which some traces have numbers only.
//!
//! The descriptions come from traced programs, and a program may lie. So the types can hold
//! nonsense (an integer of 3 bytes, two fields of one name), and `validate()` says what is wrong
//! with it. What it accepts can be written as a trace that every reader opens; names are still
//! arbitrary text, and whoever writes them somewhere escapes them.
#![forbid(unsafe_code)]

mod check;
mod counts;
mod error;
mod field;
mod flags;
mod loss;
mod name;
pub mod schema;
pub mod syscalls;
#[cfg(test)]
mod tests;
mod times;
mod trace;

pub use counts::Counts;
pub use error::{EventError, FieldError, NameError, TraceError};
pub use field::{
    Array, Base, ByteOrder, Element, Enumeration, Field, FieldClass, FieldOrder, Float, Integer,
    Label, Sequence,
};
pub use flags::Flags;
pub use loss::{DiscardReason, Discarded, LossMode};
pub use name::{is_identifier, printable, text_from_bytes, LEVEL_NAMES};
pub use times::{Demand, LossTimes, StreamLoss};
pub use trace::{
    ClockClass, EnvValue, EventClass, RecordHeader, StreamClass, Trace, Uuid, UuidError,
};

/// Limits that `validate()` keeps. They are far beyond honest use, and keep a lie from costing the
/// tracer more than some tens of megabytes.
pub mod limits {
    /// Fields of one event.
    pub const FIELDS: usize = 64;
    /// Bytes of `provider:name`.
    pub const EVENT_NAME_BYTES: usize = 255;
    /// Bytes of a field's, an enumeration's, a clock's, a stream's or an environment entry's name.
    pub const NAME_BYTES: usize = 255;
    /// Bytes of an enumeration's label.
    pub const LABEL_BYTES: usize = 255;
    /// Labels of one enumeration.
    pub const LABELS: usize = 4096;
    /// Bytes of one array.
    pub const ARRAY_BYTES: u64 = 1 << 20;
    /// Bytes of a text value: of the environment, a clock's description, a model URI.
    pub const TEXT_BYTES: usize = 4096;
    /// The most verbose log level; 0 is the most severe one.
    pub const LOGLEVEL: u8 = 14;
    /// Streams of one trace.
    pub const STREAMS: usize = 4096;
    /// Entries of the environment.
    pub const ENVIRONMENT: usize = 256;
    /// Event record classes of one stream.
    pub const EVENTS: usize = 65536;
    /// Sum of [`super::EventClass::text_bytes`] over a trace.
    pub const TRACE_TEXT_BYTES: usize = 16 << 20;
}

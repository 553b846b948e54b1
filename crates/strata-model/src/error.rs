//! Errors in descriptions of traces. Messages name the path to the faulty part.

use crate::name::printable;
use thiserror::Error;

/// Reasons why a name is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// The name is empty.
    #[error("the name is empty")]
    Empty,
    /// The name has more bytes than the limit.
    #[error("the name {} has {bytes} bytes; the limit is {limit}", printable(.name))]
    TooLong {
        /// The name that is too long.
        name: String,
        bytes: usize,
        /// The greatest number of bytes.
        limit: usize,
    },
    /// The name has a control character.
    #[error("the name {} has a control character (U+{:04X})", printable(.name), *.character as u32)]
    Control {
        /// The name with the control character.
        name: String,
        /// The first control character.
        character: char,
    },
}

/// Reasons why a field class cannot be written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FieldError {
    /// The field's own name cannot be written.
    #[error("{0}")]
    Name(#[from] NameError),
    /// The enumeration's name cannot be written.
    #[error("its enumeration: {0}")]
    EnumerationName(NameError),
    /// The size of an integer is not 1, 2, 4 or 8 bytes.
    #[error("an integer of {found} bytes; it can have 1, 2, 4 or 8")]
    IntegerBytes { found: u8 },
    /// The size of a floating-point number is not one that can be written.
    #[error("a floating-point number of {found} bytes; it can have 4 or 8")]
    FloatBytes { found: u8 },
    /// The size of a sequence's length is not one that can be written.
    #[error("the length of a sequence has {found} bytes; it can have 1, 2, 4 or 8")]
    LengthBytes { found: u8 },
    /// The array has too many bytes.
    #[error("an array of {bytes} bytes; the limit is {limit}")]
    ArrayBytes {
        /// Size of all elements \[byte\].
        bytes: u64,
        /// The greatest size \[byte\].
        limit: u64,
    },
    /// The enumeration has no label.
    #[error("an enumeration with no labels")]
    NoLabels,
    /// The enumeration has too many labels.
    #[error("an enumeration with {found} labels; the limit is {limit}")]
    TooManyLabels {
        found: usize,
        /// The greatest number of labels.
        limit: usize,
    },
    /// The label has too many bytes.
    #[error("the label {} has {bytes} bytes; the limit is {limit}", printable(.label))]
    LabelTooLong {
        label: String,
        bytes: usize,
        /// The greatest number of bytes.
        limit: usize,
    },
    /// The label's first value is greater than its last.
    #[error("the label {} has the range {from} to {to}, which is empty", printable(.label))]
    LabelReversed { label: String, from: i128, to: i128 },
    /// The label has values that the integer cannot have.
    #[error("the label {} is for {from} to {to}; the integer has {lowest} to {highest}",
            printable(.label))]
    LabelOutside {
        label: String,
        from: i128,
        to: i128,
        /// The integer's lowest value.
        lowest: i128,
        /// The integer's highest value.
        highest: i128,
    },
}

/// Reasons why an event record class cannot be written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EventError {
    /// The provider or the name cannot be written.
    #[error("{0}")]
    Name(#[from] NameError),
    /// The log level is greater than the most verbose one.
    #[error("log level {found}; the limit is {limit}")]
    Loglevel {
        /// The log level that was given.
        found: u8,
        /// The most verbose log level.
        limit: u8,
    },
    /// The URI of the event's model is too long.
    #[error("a model URI of {bytes} bytes; the limit is {limit}")]
    UriTooLong {
        bytes: usize,
        /// The greatest number of bytes.
        limit: usize,
    },
    /// The event has too many fields.
    #[error("{found} fields; the limit is {limit}")]
    TooManyFields {
        found: usize,
        /// The greatest number of fields.
        limit: usize,
    },
    /// Two fields have the same name.
    #[error("two fields named {}", printable(.field))]
    DuplicateField { field: String },
    /// A field of the event is wrong.
    #[error("field {} (number {}): {error}", printable(.field), .index + 1)]
    Field {
        field: String,
        /// Index of the field, from 0.
        index: usize,
        #[source]
        error: Box<FieldError>,
    },
}

/// Reasons why a trace cannot be written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TraceError {
    /// The clock's name cannot be written.
    #[error("clock: {0}")]
    ClockName(NameError),
    /// The clock's description is too long.
    #[error("clock: a description of {bytes} bytes; the limit is {limit}")]
    ClockDescription {
        bytes: usize,
        /// The greatest number of bytes.
        limit: usize,
    },
    /// The clock's frequency is 0.
    #[error("clock: the frequency is 0")]
    ClockFrequency,
    /// The part of the clock's offset that is given in cycles is not less than a second.
    #[error("clock: an offset of {found} cycles beside whole seconds; a second has {frequency}")]
    ClockOffset {
        /// Offset that was given \[cycle\].
        found: u64,
        /// Frequency of the clock \[cycle/s\].
        frequency: u64,
    },
    /// The environment has too many entries.
    #[error("an environment of {found} entries; the limit is {limit}")]
    TooManyEntries {
        /// Number of environment entries.
        found: usize,
        /// The greatest number of entries.
        limit: usize,
    },
    /// The name of an environment entry cannot be written.
    #[error("environment: {0}")]
    EntryName(NameError),
    /// Two environment entries have the same name.
    #[error("environment: two entries named {}", printable(.name))]
    DuplicateEntry { name: String },
    /// The text of an environment entry is too long.
    #[error("environment: {} has {bytes} bytes; the limit is {limit}", printable(.name))]
    EntryTooLong {
        name: String,
        bytes: usize,
        /// The greatest number of bytes.
        limit: usize,
    },
    /// The trace has too many streams.
    #[error("{found} stream classes; the limit is {limit}")]
    TooManyStreams {
        found: usize,
        /// The greatest number of streams.
        limit: usize,
    },
    /// Two streams have the same id.
    #[error("two stream classes with id {id}")]
    DuplicateStream { id: u32 },
    /// The name of a stream cannot be written.
    #[error("stream class {stream}: {error}")]
    StreamName {
        stream: u32,
        #[source]
        error: NameError,
    },
    /// The event context of a stream is wrong.
    #[error("stream class {stream}, event context: {error}")]
    Context {
        stream: u32,
        #[source]
        error: Box<EventError>,
    },
    /// The stream has too many event record classes.
    #[error("stream class {stream}: {found} event record classes; the limit is {limit}")]
    TooManyEvents {
        stream: u32,
        found: usize,
        /// The greatest number of event record classes.
        limit: usize,
    },
    /// Two event record classes of a stream have the same id.
    #[error("stream class {stream}: two event record classes with id {id}")]
    DuplicateEvent { stream: u32, id: u32 },
    /// The trace has more names and labels than its metadata can hold.
    #[error("stream class {stream}: names and labels of more than {limit} bytes")]
    TooMuchText {
        /// The stream at which the limit was exceeded.
        stream: u32,
        /// The greatest size of all names and labels \[byte\].
        limit: usize,
    },
    /// An event record class is wrong.
    #[error("stream class {stream}, event {}: {error}", printable(.event))]
    Event {
        stream: u32,
        /// The event, as `provider:name`.
        event: String,
        #[source]
        error: Box<EventError>,
    },
}

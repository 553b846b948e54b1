//! What can be wrong with a description. Messages carry the path to the culprit.

use crate::name::printable;
use thiserror::Error;

/// Why a name is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// No characters.
    #[error("the name is empty")]
    Empty,
    /// More bytes than the limit.
    #[error("the name {} has {bytes} bytes; the limit is {limit}", printable(.name))]
    TooLong {
        /// The name.
        name: String,
        /// Its bytes.
        bytes: usize,
        /// The most that are possible.
        limit: usize,
    },
    /// A control character.
    #[error("the name {} has a control character (U+{:04X})", printable(.name), *.character as u32)]
    Control {
        /// The name.
        name: String,
        /// The first such character.
        character: char,
    },
}

/// What is wrong with a field class.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FieldError {
    /// The field's own name.
    #[error("{0}")]
    Name(#[from] NameError),
    /// The enumeration's name.
    #[error("its enumeration: {0}")]
    EnumerationName(NameError),
    /// An integer of another size.
    #[error("an integer of {found} bytes; it can have 1, 2, 4 or 8")]
    IntegerBytes {
        /// Its bytes.
        found: u8,
    },
    /// A floating-point number of another size.
    #[error("a floating-point number of {found} bytes; it can have 4 or 8")]
    FloatBytes {
        /// Its bytes.
        found: u8,
    },
    /// A sequence's length of another size.
    #[error("a sequence's length of {found} bytes; it can have 1, 2, 4 or 8")]
    LengthBytes {
        /// Its bytes.
        found: u8,
    },
    /// An array of too many bytes.
    #[error("an array of {bytes} bytes; the limit is {limit}")]
    ArrayBytes {
        /// Bytes of all elements.
        bytes: u64,
        /// The most that are possible.
        limit: u64,
    },
    /// An enumeration with no label.
    #[error("an enumeration with no labels")]
    NoLabels,
    /// An enumeration with too many labels.
    #[error("an enumeration with {found} labels; the limit is {limit}")]
    TooManyLabels {
        /// Its labels.
        found: usize,
        /// The most that are possible.
        limit: usize,
    },
    /// A label of too many bytes.
    #[error("the label {} has {bytes} bytes; the limit is {limit}", printable(.label))]
    LabelTooLong {
        /// The label.
        label: String,
        /// Its bytes.
        bytes: usize,
        /// The most that are possible.
        limit: usize,
    },
    /// A label for no value.
    #[error("the label {} is for {from} to {to}, which are no values", printable(.label))]
    LabelReversed {
        /// The label.
        label: String,
        /// First value.
        from: i128,
        /// Last value.
        to: i128,
    },
    /// A label for values that the integer cannot have.
    #[error("the label {} is for {from} to {to}; the integer has {lowest} to {highest}",
            printable(.label))]
    LabelOutside {
        /// The label.
        label: String,
        /// First value.
        from: i128,
        /// Last value.
        to: i128,
        /// The integer's lowest value.
        lowest: i128,
        /// The integer's highest value.
        highest: i128,
    },
}

/// What is wrong with an event record class.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EventError {
    /// `provider:name`.
    #[error("{0}")]
    Name(#[from] NameError),
    /// Log level outside the range.
    #[error("log level {found}; the limit is {limit}")]
    Loglevel {
        /// The level.
        found: u8,
        /// The most verbose one.
        limit: u8,
    },
    /// The model's URI.
    #[error("a model URI of {bytes} bytes; the limit is {limit}")]
    UriTooLong {
        /// Its bytes.
        bytes: usize,
        /// The most that are possible.
        limit: usize,
    },
    /// Too many fields.
    #[error("{found} fields; the limit is {limit}")]
    TooManyFields {
        /// Its fields.
        found: usize,
        /// The most that are possible.
        limit: usize,
    },
    /// Two fields with one name.
    #[error("two fields named {}", printable(.field))]
    DuplicateField {
        /// The name.
        field: String,
    },
    /// One of the fields.
    #[error("field {} (number {}): {error}", printable(.field), .index + 1)]
    Field {
        /// Its name.
        field: String,
        /// Its position, from 0.
        index: usize,
        /// What is wrong with it.
        #[source]
        error: Box<FieldError>,
    },
}

/// What is wrong with a trace.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TraceError {
    /// The clock's name.
    #[error("clock: {0}")]
    ClockName(NameError),
    /// The clock's description.
    #[error("clock: a description of {bytes} bytes; the limit is {limit}")]
    ClockDescription {
        /// Its bytes.
        bytes: usize,
        /// The most that are possible.
        limit: usize,
    },
    /// A clock that stands still.
    #[error("clock: the frequency is 0")]
    ClockFrequency,
    /// A part of a second that is more than a second.
    #[error("clock: an offset of {found} cycles beside whole seconds; a second has {frequency}")]
    ClockOffset {
        /// The cycles.
        found: u64,
        /// Cycles of a second.
        frequency: u64,
    },
    /// Too many entries in the environment.
    #[error("an environment of {found} entries; the limit is {limit}")]
    TooManyEntries {
        /// Its entries.
        found: usize,
        /// The most that are possible.
        limit: usize,
    },
    /// The name of an entry in the environment.
    #[error("environment: {0}")]
    EntryName(NameError),
    /// Two entries with one name.
    #[error("environment: two entries named {}", printable(.name))]
    DuplicateEntry {
        /// The name.
        name: String,
    },
    /// An entry's text.
    #[error("environment: {} has {bytes} bytes; the limit is {limit}", printable(.name))]
    EntryTooLong {
        /// The entry's name.
        name: String,
        /// Its bytes.
        bytes: usize,
        /// The most that are possible.
        limit: usize,
    },
    /// Too many streams.
    #[error("{found} stream classes; the limit is {limit}")]
    TooManyStreams {
        /// Its streams.
        found: usize,
        /// The most that are possible.
        limit: usize,
    },
    /// Two streams with one id.
    #[error("two stream classes with id {id}")]
    DuplicateStream {
        /// The id.
        id: u32,
    },
    /// A stream's name.
    #[error("stream class {stream}: {error}")]
    StreamName {
        /// The stream's id.
        stream: u32,
        /// What is wrong with it.
        #[source]
        error: NameError,
    },
    /// A stream's event context.
    #[error("stream class {stream}, event context: {error}")]
    Context {
        /// The stream's id.
        stream: u32,
        /// What is wrong with it.
        #[source]
        error: Box<EventError>,
    },
    /// Too many event record classes.
    #[error("stream class {stream}: {found} event record classes; the limit is {limit}")]
    TooManyEvents {
        /// The stream's id.
        stream: u32,
        /// Its event record classes.
        found: usize,
        /// The most that are possible.
        limit: usize,
    },
    /// Two event record classes with one id.
    #[error("stream class {stream}: two event record classes with id {id}")]
    DuplicateEvent {
        /// The stream's id.
        stream: u32,
        /// The id.
        id: u32,
    },
    /// More names and labels than a trace can have.
    #[error("stream class {stream}: names and labels of more than {limit} bytes")]
    TooMuchText {
        /// The stream in which the limit was passed.
        stream: u32,
        /// The most that are possible.
        limit: usize,
    },
    /// One of the event record classes.
    #[error("stream class {stream}, event {}: {error}", printable(.event))]
    Event {
        /// The stream's id.
        stream: u32,
        /// `provider:name`.
        event: String,
        /// What is wrong with it.
        #[source]
        error: Box<EventError>,
    },
}

//! Trace, clock, stream and event record classes.

use crate::check::check_name;
use crate::error::{EventError, NameError, TraceError};
use crate::field::{ByteOrder, Field, FieldClass};
use crate::limits;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A unique id of 128 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The error for a text that is not a UUID.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{} is no UUID, which is 32 hexadecimal digits as 8-4-4-4-12", crate::printable(.0))]
pub struct UuidError(pub String);

impl FromStr for Uuid {
    type Err = UuidError;

    /// Parses `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, as in `/proc/sys/kernel/random/boot_id`.
    fn from_str(text: &str) -> Result<Uuid, UuidError> {
        let bad = || UuidError(text.to_owned());
        let mut out = [0; 16];
        let mut digits = 0;
        for (index, byte) in text.bytes().enumerate() {
            if matches!(index, 8 | 13 | 18 | 23) {
                if byte != b'-' {
                    return Err(bad());
                }
                continue;
            }
            let digit = char::from(byte).to_digit(16).ok_or_else(bad)?;
            let place = out.get_mut(digits / 2).ok_or_else(bad)?;
            *place = *place << 4 | digit as u8;
            digits += 1;
        }
        if digits == 32 {
            Ok(Uuid(out))
        } else {
            Err(bad())
        }
    }
}

/// A clock from which timestamps are read.
///
/// Wall-clock time [s since 1970] = `offset_s` + (`offset_cycles` + timestamp) / `frequency`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockClass {
    /// Name of the clock, such as "monotonic".
    pub name: String,
    /// The boot's id. Clocks with the same id can be compared with each other.
    pub uuid: Option<Uuid>,
    /// Description for people; may be empty.
    pub description: String,
    pub frequency: u64,
    /// Greatest error of a timestamp \[cycle\].
    pub precision: u64,
    /// Whole seconds from 1970 to timestamp 0.
    pub offset_s: i64,
    /// The rest of the time from 1970 to timestamp 0, less than a second \[cycle\].
    pub offset_cycles: u64,
    /// True if the clock can be compared with the absolute clocks of all other machines.
    pub absolute: bool,
}

impl ClockClass {
    /// Makes the description of CLOCK_MONOTONIC in nanoseconds, with the boot's id and the wall-clock time of timestamp
    /// 0 [ns since 1970].
    pub fn monotonic(boot_id: Option<Uuid>, offset_ns: i64) -> ClockClass {
        const SECOND: i64 = 1_000_000_000;
        ClockClass {
            name: "monotonic".into(),
            uuid: boot_id,
            description: "CLOCK_MONOTONIC".into(),
            frequency: SECOND as u64,
            precision: 0,
            offset_s: offset_ns.div_euclid(SECOND),
            offset_cycles: offset_ns.rem_euclid(SECOND) as u64,
            // Readers compare absolute clocks by their time since 1970. babeltrace2 takes the clocks of LTTng's tracers
            // for absolute in any case, and merges traces of other clocks with them only if those are absolute.
            absolute: true,
        }
    }
}

/// A value of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    Integer(i64),
    Text(String),
}

impl From<&str> for EnvValue {
    fn from(text: &str) -> EnvValue {
        EnvValue::Text(text.to_owned())
    }
}

impl From<String> for EnvValue {
    fn from(text: String) -> EnvValue {
        EnvValue::Text(text)
    }
}

impl From<i64> for EnvValue {
    fn from(number: i64) -> EnvValue {
        EnvValue::Integer(number)
    }
}

/// Layout of the header before each record's payload. Fields are packed by bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordHeader {
    /// Headers of 4 bytes: 5 bits id, 27 bits timestamp. Headers for ids from 31 on, or after a long silence, have 13
    /// bytes.
    Compact,
    /// Headers of 6 bytes: 16 bits id, 32 bits timestamp. Headers for ids from 65535 on, or after a long silence, have
    /// 14 bytes.
    Large,
}

impl RecordHeader {
    /// Returns the size of a header with this id \[byte\]. `full` means that it has the whole timestamp.
    pub fn bytes(self, id: u32, full: bool) -> usize {
        match self {
            RecordHeader::Compact if full || id >= 31 => 13,
            RecordHeader::Compact => 4,
            RecordHeader::Large if full || id >= 65535 => 14,
            RecordHeader::Large => 6,
        }
    }

    /// Returns the width of the timestamp in a header without the whole timestamp \[bit\].
    pub fn timestamp_bits(self) -> u32 {
        match self {
            RecordHeader::Compact => 27,
            RecordHeader::Large => 32,
        }
    }
}

/// The description of all event records of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventClass {
    /// Id that record headers carry.
    pub id: u32,
    /// Provider of the event; may be empty.
    pub provider: String,
    /// Name of the event within the provider.
    pub name: String,
    /// Log level from 0 (most severe) to 14, if the event has one.
    pub loglevel: Option<u8>,
    /// URI of a model that describes the event's meaning.
    pub emf_uri: Option<String>,
    /// Context fields of this class alone, after the stream's event context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<Field>,
    /// Payload fields, in the order of the record.
    pub fields: Vec<Field>,
}

impl EventClass {
    /// Returns `provider:name`, or only the name if there is no provider.
    pub fn full_name(&self) -> String {
        if self.provider.is_empty() {
            self.name.clone()
        } else {
            format!("{}:{}", self.provider, self.name)
        }
    }

    /// Checks that a trace can be written with this class.
    ///
    /// # Errors
    /// The first fault of the class.
    pub fn validate(&self) -> Result<(), EventError> {
        if self.name.is_empty() {
            return Err(NameError::Empty.into());
        }
        check_name(&self.full_name(), limits::EVENT_NAME_BYTES)?;
        if let Some(found) = self.loglevel.filter(|&level| level > limits::LOGLEVEL) {
            return Err(EventError::Loglevel { found, limit: limits::LOGLEVEL });
        }
        let bytes = self.emf_uri.as_ref().map_or(0, |uri| uri.len());
        if bytes > limits::TEXT_BYTES {
            return Err(EventError::UriTooLong { bytes, limit: limits::TEXT_BYTES });
        }
        validate_fields(&self.context)?;
        validate_fields(&self.fields)
    }

    /// Returns the bytes of all names and labels in the metadata, with 64 bytes for the text around each.
    pub fn text_bytes(&self) -> usize {
        let mut bytes = self.provider.len() + self.name.len() + TEXT_AROUND;
        bytes += self.emf_uri.as_ref().map_or(0, |uri| uri.len() + TEXT_AROUND);
        bytes + self.context.iter().chain(&self.fields).map(field_text_bytes).sum::<usize>()
    }

    /// Returns the least size of a record's payload and of the context fields of this class \[byte\].
    pub fn min_bytes(&self) -> u64 {
        self.context.iter().chain(&self.fields).map(Field::min_bytes).sum()
    }
}

/// The description of all streams of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamClass {
    /// Id that packet headers carry.
    pub id: u32,
    /// Name of the channel; may be empty.
    pub name: String,
    /// Layout of the records' headers.
    pub header: RecordHeader,
    /// Context fields between the header and the payload of each record, in this order.
    pub context: Vec<Field>,
    /// Event record classes of the stream.
    pub events: Vec<EventClass>,
}

/// The description of a trace, from which metadata are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// UUID of the trace. Readers take traces with the same UUID for parts of one trace, and a stream that is in
    /// several of them for one stream.
    pub uuid: Uuid,
    /// Byte order of all fields that declare no other.
    pub byte_order: ByteOrder,
    /// Environment of the recording, in the order of the metadata.
    pub environment: Vec<(String, EnvValue)>,
    /// The clock of all timestamps.
    pub clock: ClockClass,
    /// Classes of the trace's streams.
    pub streams: Vec<StreamClass>,
}

impl Trace {
    /// Checks that the trace can be written so that readers open it.
    ///
    /// # Errors
    /// The first fault of the trace.
    pub fn validate(&self) -> Result<(), TraceError> {
        self.clock.validate()?;
        self.validate_environment()?;
        let found = self.streams.len();
        if found > limits::STREAMS {
            return Err(TraceError::TooManyStreams { found, limit: limits::STREAMS });
        }
        let mut ids = HashSet::new();
        let mut text_bytes = 0;
        for stream in &self.streams {
            if !ids.insert(stream.id) {
                return Err(TraceError::DuplicateStream { id: stream.id });
            }
            stream.validate()?;
            text_bytes += stream.context.iter().map(field_text_bytes).sum::<usize>();
            text_bytes += stream.events.iter().map(EventClass::text_bytes).sum::<usize>();
            if text_bytes > limits::TRACE_TEXT_BYTES {
                let limit = limits::TRACE_TEXT_BYTES;
                return Err(TraceError::TooMuchText { stream: stream.id, limit });
            }
        }
        Ok(())
    }

    fn validate_environment(&self) -> Result<(), TraceError> {
        let found = self.environment.len();
        if found > limits::ENVIRONMENT {
            return Err(TraceError::TooManyEntries { found, limit: limits::ENVIRONMENT });
        }
        let mut names = HashSet::new();
        for (name, value) in &self.environment {
            check_name(name, limits::NAME_BYTES).map_err(TraceError::EntryName)?;
            if !names.insert(name.as_str()) {
                return Err(TraceError::DuplicateEntry { name: name.clone() });
            }
            match value {
                EnvValue::Text(text) if text.len() > limits::TEXT_BYTES => {
                    let (bytes, limit) = (text.len(), limits::TEXT_BYTES);
                    return Err(TraceError::EntryTooLong { name: name.clone(), bytes, limit });
                }
                _ => (),
            }
        }
        Ok(())
    }
}

impl ClockClass {
    /// Checks that a trace can be written with this clock.
    ///
    /// # Errors
    /// The first fault of the clock.
    pub fn validate(&self) -> Result<(), TraceError> {
        check_name(&self.name, limits::NAME_BYTES).map_err(TraceError::ClockName)?;
        let bytes = self.description.len();
        if bytes > limits::TEXT_BYTES {
            return Err(TraceError::ClockDescription { bytes, limit: limits::TEXT_BYTES });
        }
        if self.frequency == 0 {
            return Err(TraceError::ClockFrequency);
        }
        if self.offset_cycles >= self.frequency {
            let (found, frequency) = (self.offset_cycles, self.frequency);
            return Err(TraceError::ClockOffset { found, frequency });
        }
        Ok(())
    }
}

impl StreamClass {
    /// Checks that a trace can be written with this class.
    ///
    /// # Errors
    /// The first fault of the class.
    pub fn validate(&self) -> Result<(), TraceError> {
        let stream = self.id;
        if !self.name.is_empty() {
            check_name(&self.name, limits::NAME_BYTES)
                .map_err(|error| TraceError::StreamName { stream, error })?;
        }
        validate_fields(&self.context)
            .map_err(|error| TraceError::Context { stream, error: Box::new(error) })?;
        let found = self.events.len();
        if found > limits::EVENTS {
            return Err(TraceError::TooManyEvents { stream, found, limit: limits::EVENTS });
        }
        let mut ids = HashSet::new();
        for event in &self.events {
            if !ids.insert(event.id) {
                return Err(TraceError::DuplicateEvent { stream, id: event.id });
            }
            event.validate().map_err(|error| TraceError::Event {
                stream,
                event: event.full_name(),
                error: Box::new(error),
            })?;
        }
        Ok(())
    }
}

/// Estimated size of the metadata text around each name and label \[byte\].
const TEXT_AROUND: usize = 64;

fn field_text_bytes(field: &Field) -> usize {
    let mut bytes = field.name.len() + TEXT_AROUND;
    if let FieldClass::Enumeration(enumeration) = &field.class {
        bytes += enumeration.name.len() + TEXT_AROUND;
        bytes += enumeration.labels.iter().map(|l| l.label.len() + TEXT_AROUND).sum::<usize>();
    }
    bytes
}

/// Checks the fields of a payload or of an event context.
fn validate_fields(fields: &[Field]) -> Result<(), EventError> {
    let found = fields.len();
    if found > limits::FIELDS {
        return Err(EventError::TooManyFields { found, limit: limits::FIELDS });
    }
    let mut names = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        field.validate().map_err(|error| EventError::Field {
            field: field.name.clone(),
            index,
            error: Box::new(error),
        })?;
        if !names.insert(field.name.as_str()) {
            return Err(EventError::DuplicateField { field: field.name.clone() });
        }
    }
    Ok(())
}

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

/// 128 bits that name one thing.
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

/// Text that is no UUID.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{} is no UUID, which is 32 hexadecimal digits as 8-4-4-4-12", crate::printable(.0))]
pub struct UuidError(pub String);

impl FromStr for Uuid {
    type Err = UuidError;

    /// Reads `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, as in `/proc/sys/kernel/random/boot_id`.
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

/// What a timestamp counts.
///
/// Wall-clock time [s since 1970] = `offset_s` + (`offset_cycles` + timestamp) / `frequency`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockClass {
    /// Its name, "monotonic".
    pub name: String,
    /// Clocks with the same one can be compared; the boot's id.
    pub uuid: Option<Uuid>,
    /// For people; may be empty.
    pub description: String,
    /// Cycles per second.
    pub frequency: u64,
    /// How far off a timestamp may be, in cycles.
    pub precision: u64,
    /// Whole seconds from 1970 to timestamp 0.
    pub offset_s: i64,
    /// The rest of that time, less than a second, in cycles.
    pub offset_cycles: u64,
    /// Whether it can be compared with the clocks of all other machines.
    pub absolute: bool,
}

impl ClockClass {
    /// CLOCK_MONOTONIC in nanoseconds, with the boot's id and the wall-clock time [ns since 1970]
    /// of timestamp 0.
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
            // Readers compare such clocks by their time since 1970. babeltrace2 takes those of LTTng's tracers
            // for absolute whatever they say, and merges no others with them.
            absolute: true,
        }
    }
}

/// A value of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// A number.
    Integer(i64),
    /// Text.
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

/// What is in front of each record's payload; byte-packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordHeader {
    /// 4 bytes: 5 bits id, 27 bits timestamp. Ids from 31 on, or after a long silence: 13 bytes.
    Compact,
    /// 6 bytes: 16 bits id, 32 bits timestamp. Ids from 65535 on, or after a long silence: 14.
    Large,
}

impl RecordHeader {
    /// Bytes of a header with this id; `full`: with the whole timestamp.
    pub fn bytes(self, id: u32, full: bool) -> usize {
        match self {
            RecordHeader::Compact if full || id >= 31 => 13,
            RecordHeader::Compact => 4,
            RecordHeader::Large if full || id >= 65535 => 14,
            RecordHeader::Large => 6,
        }
    }

    /// Bits of the timestamp in a header that has not the whole one.
    pub fn timestamp_bits(self) -> u32 {
        match self {
            RecordHeader::Compact => 27,
            RecordHeader::Large => 32,
        }
    }
}

/// One kind of event records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventClass {
    /// What a record's header says.
    pub id: u32,
    /// Its provider; may be empty.
    pub provider: String,
    /// Its name within the provider.
    pub name: String,
    /// 0 (most severe) to 14, or none.
    pub loglevel: Option<u8>,
    /// A link to a model of what it means.
    pub emf_uri: Option<String>,
    /// Behind the stream's event context, of records of this kind only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<Field>,
    /// In the order of the record.
    pub fields: Vec<Field>,
}

impl EventClass {
    /// `provider:name`, or the name alone without a provider.
    pub fn full_name(&self) -> String {
        if self.provider.is_empty() {
            self.name.clone()
        } else {
            format!("{}:{}", self.provider, self.name)
        }
    }

    /// Whether a trace can be written with this class.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
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

    /// Bytes of all names and labels, and 64 for what is written around each.
    pub fn text_bytes(&self) -> usize {
        let mut bytes = self.provider.len() + self.name.len() + TEXT_AROUND;
        bytes += self.emf_uri.as_ref().map_or(0, |uri| uri.len() + TEXT_AROUND);
        bytes + self.context.iter().chain(&self.fields).map(field_text_bytes).sum::<usize>()
    }

    /// The fewest bytes of a record's payload, and of what it has in front of it alone.
    pub fn min_bytes(&self) -> u64 {
        self.context.iter().chain(&self.fields).map(Field::min_bytes).sum()
    }
}

/// One kind of streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamClass {
    /// What a packet's header says.
    pub id: u32,
    /// Its channel's name; may be empty.
    pub name: String,
    /// What is in front of each record.
    pub header: RecordHeader,
    /// Event context: between the header and the payload of each record, in this order.
    pub context: Vec<Field>,
    /// The kinds of records in it.
    pub events: Vec<EventClass>,
}

/// A trace's description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The trace's own: readers take two traces with the same one for parts of one trace, and a
    /// stream that is in both for the same stream.
    pub uuid: Uuid,
    /// Of all fields that say nothing else.
    pub byte_order: ByteOrder,
    /// Where and by what it was recorded.
    pub environment: Vec<(String, EnvValue)>,
    /// What all timestamps count.
    pub clock: ClockClass,
    /// Its kinds of streams.
    pub streams: Vec<StreamClass>,
}

impl Trace {
    /// Whether the trace can be written so that readers open it.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
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
    /// Whether a trace can be written with this clock.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
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
    /// Whether a trace can be written with this class.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
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

/// What is written around each name and label of a description \[byte\], about.
const TEXT_AROUND: usize = 64;

fn field_text_bytes(field: &Field) -> usize {
    let mut bytes = field.name.len() + TEXT_AROUND;
    if let FieldClass::Enumeration(enumeration) = &field.class {
        bytes += enumeration.name.len() + TEXT_AROUND;
        bytes += enumeration.labels.iter().map(|l| l.label.len() + TEXT_AROUND).sum::<usize>();
    }
    bytes
}

/// Of a payload, or of an event context.
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

//! How event records are written.

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::clock::ClockStyle;
use super::format::Format;
use super::head::Head;
use super::order::Clocks;
use super::shown::FieldList;
use super::threads::ThreadNames;
use crate::debug_info::SourceOptions;

/// How it is written.
#[derive(Clone, Debug)]
pub struct Options {
    /// Text, JSON or CSV.
    pub format: Format,
    /// How times are shown; `None`: as the format has them, which is `Time` in text, nanoseconds and
    /// `Iso` in JSON, `Seconds` in CSV.
    pub clock: Option<ClockStyle>,
    /// Where times of day are of.
    pub zone: TimeZone,
    /// Text: show the time since the event record before.
    pub delta: bool,
    /// Only these fields; CSV: a column for each.
    pub fields: Option<FieldList>,
    /// What is in front of the event's name.
    pub head: Head,
    /// Text: a line where event records or packets were discarded.
    pub losses: bool,
    /// Text: with a terminal's colours.
    pub colours: bool,
    /// Text and JSON: where in the source it was recorded, of events with an instruction pointer.
    pub source: Option<SourceOptions>,
    /// What the threads are called that have recorded them, where an event record says its thread.
    pub thread_names: Option<Arc<ThreadNames>>,
    /// How well clocks of machines are known, where their order is to be said; the trace is rendered by one thread then.
    pub clocks: Option<Arc<Clocks>>,
    /// Short: also what was there when recording began.
    pub all: bool,
    /// Short: columns of a line; `None`: as many as it has.
    pub width: Option<usize>,
    /// No character commands a terminal: what would is shown as `\x1b` or `\u009b`.
    pub tame: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            format: Format::Text,
            clock: None,
            zone: TimeZone::UTC,
            delta: true,
            fields: None,
            head: Head::default(),
            losses: false,
            colours: false,
            source: None,
            thread_names: None,
            clocks: None,
            all: false,
            width: None,
            tame: false,
        }
    }
}

//! Options for writing event records.

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::clock::ClockStyle;
use super::field_selection::FieldList;
use super::format::Format;
use super::line_head::Head;
use super::threads::ThreadNames;
use super::uncertain_order::Clocks;
use crate::debug_info::{KernelFunctions, SourceOptions};

#[derive(Clone, Debug)]
pub struct Options {
    /// Text, JSON or CSV.
    pub format: Format,
    /// The style of times; `None` for the default of the format: `Time` in text, nanoseconds and `Iso` in JSON,
    /// `Seconds` in CSV.
    pub clock: Option<ClockStyle>,
    /// The time zone of times of day.
    pub zone: TimeZone,
    /// True to show the time since the previous record, in text.
    pub delta: bool,
    /// The fields to show; in CSV, a column for each.
    pub fields: Option<FieldList>,
    /// The items that are shown before the event's name.
    pub head: Head,
    /// True to show a line where records or packets were discarded, in text.
    pub losses: bool,
    /// True to use a terminal's colours, in text.
    pub colours: bool,
    /// How to show places in the source code for events with an instruction pointer, in text and JSON; `None`: not at
    /// all.
    pub source: Option<SourceOptions>,
    /// The kernel's functions, whose names are shown with records that have their addresses, in the short format, JSON
    /// and CSV. With `source` they are shown in all formats.
    pub functions: Option<KernelFunctions>,
    /// The names of threads, to be shown with records that name their thread.
    pub thread_names: Option<Arc<ThreadNames>>,
    /// The accuracy of the machines' clocks; `None` unless records of uncertain order are to be marked. One thread
    /// then renders the whole trace.
    pub clocks: Option<Arc<Clocks>>,
    /// True to show state dumps as well, in the short format.
    pub all: bool,
    /// The width to which lines are cut in the short format \[columns\]; `None`: lines are not cut.
    pub width: Option<usize>,
    /// True to escape characters that control a terminal, as `\x1b` or `\u009b`.
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
            functions: None,
            thread_names: None,
            clocks: None,
            all: false,
            width: None,
            tame: false,
        }
    }
}

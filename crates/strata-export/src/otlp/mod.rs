//! Spans in OpenTelemetry's protocol (OTLP), for what keeps and shows traces of requests.
//!
//! ```text
//! Event ── Timeline ─┬─ span()    both ends of a span, its thread      ─┐
//!                    └─ record()  its begin: fields, ids, name ── notes ─┴─ exporter ── a request: JSON or protobuf
//!                                                     classes, ids                       └─ http: what a receiver answers
//! an earlier pass: states of threads ── waits: what the span's thread waited for, as attributes
//! ```
//!
//! A span whose records have the fields `trace_id` and `span_id` of OpenTelemetry has these ids, and the fields
//! `parent_id`, `name` and `kind` are its parent, name and kind. Others have ids that are made of what they are
//! (`ids`), and are parts of the span around them in their thread. A record between the ends that has the same ids is an
//! event of the span, or says that it failed (`otel:error`).
//!
//! Memory is limited: a request has up to 512 spans, and notes on open spans, their attributes and texts have limits.

mod attributes;
mod classes;
mod exporter;
pub mod http;
mod ids;
mod open_spans;
mod proto;
#[cfg(test)]
mod tests;
mod traces;
mod waits;

pub use exporter::Exporter;
pub use traces::{RequestTrace, Requests, TraceCollector, TraceSpan};
pub use waits::{EachRecord, States};

use strata_ctf::read::TimeRange;
use strata_timeline::PairRule;

/// The form in which requests are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// JSON, without a line end.
    #[default]
    Json,
    /// Protobuf. Several requests, one after the other, are a request with the spans of all.
    Protobuf,
}

impl Encoding {
    /// Returns the media type, for HTTP.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Encoding::Json => "application/json",
            Encoding::Protobuf => "application/x-protobuf",
        }
    }
}

/// The options of an export.
#[derive(Debug)]
pub struct Options {
    /// Spans that end within this range are exported. Earlier records must be passed as well.
    pub range: TimeRange,
    /// Pairs of begin and end that the user names. They take precedence over pairs by name.
    pub pairs: Vec<PairRule>,
    /// The form of requests.
    pub encoding: Encoding,
    /// The states of threads, if spans are to say what was waited for.
    pub states: Option<States>,
}

/// The counts of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of spans.
    pub spans: u64,
    /// The number of requests.
    pub requests: u64,
    /// The size of all requests \[byte\].
    pub bytes: u64,
    /// The number of begins without an end, and of ends without a begin. They are not exported.
    pub unpaired: u64,
    /// The number of begins whose fields were not kept because too many spans, or too large ones, were open.
    pub without_begin: u64,
    /// The number of spans that do not say what they waited for, because it would have taken too long.
    pub without_path: u64,
    /// The number of spans that began before 1970. They seem to begin in 1970.
    pub before_1970: u64,
    /// The number of times that a thread was refused because there were too many.
    pub threads_left_out: u64,
    /// The number of times that a name was refused because there were too many.
    pub names_left_out: u64,
}

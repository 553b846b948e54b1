//! A span processor of [`opentelemetry_sdk`] that records spans by Strata, with their ids.
//!
//! ```
//! use opentelemetry_sdk::trace::SdkTracerProvider;
//!
//! let provider = SdkTracerProvider::builder()
//!     .with_span_processor(strata_opentelemetry::SpanProcessor::new())
//!     .build();
//! # drop(provider);
//! ```
//!
//! Each span that is sampled is a span `otel:NAME` of Strata from its begin to its end, in whichever threads these are. Fields are
//! `name`, `trace_id` (32 hexadecimal digits), `span_id` (16), `parent_id` (of the span that it is a part of, which may be in another
//! process; empty if there is none), and `kind`. A span that ends with an error is also an event `otel:error` with its ids and what
//! is said of it.
//!
//! Characters of a name other than letters, digits and `_./-` are `_` in the class' name. After the first 256 names of a process the
//! class is `otel:span`; the field `name` has the text as it is.
//!
//! Without libstrata the processor does nothing. [`strata_events::availability`] says why.
#![deny(missing_docs)]

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opentelemetry::trace::{Span as _, SpanContext, SpanId, SpanKind, Status, TraceId};
use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData};
use strata_events::{Class, Event, FieldType, Level, Provider, SpanClass, Words};

/// The most names of spans that get a class of their own: some programs put numbers into them.
const NAMES_MAX: usize = 256;

/// The most characters of a name that stand in the name of its class.
const NAME_MAX: usize = 200;

/// Half of the spans that may be open at a time. A program that leaks spans has its oldest ones ended.
const OPEN_MAX: usize = 1 << 15;

/// Fields of a span.
const SPAN_FIELDS: [(&str, FieldType); 5] = [
    ("name", FieldType::TEXT),
    ("trace_id", FieldType::TEXT),
    ("span_id", FieldType::TEXT),
    ("parent_id", FieldType::TEXT),
    ("kind", FieldType::TEXT),
];

/// Fields of the event that says that a span has ended with an error.
const ERROR_FIELDS: [(&str, FieldType); 4] = [
    ("name", FieldType::TEXT),
    ("trace_id", FieldType::TEXT),
    ("span_id", FieldType::TEXT),
    ("description", FieldType::TEXT),
];

/// The ids of a span.
type Ids = (TraceId, SpanId);

/// A span that was begun, and the key that its end must have.
#[derive(Clone, Copy)]
struct Begun {
    class: SpanClass,
    key: u64,
}

/// What the processor knows of a program's spans.
#[derive(Default)]
struct Known {
    /// The class of each name; `None` if it cannot be registered.
    classes: HashMap<String, Option<SpanClass>>,
    /// The class of spans whose names are too many, once there is one.
    others: Option<Option<SpanClass>>,
    /// Spans that have begun since `young` was full the last time.
    young: HashMap<Ids, Begun>,
    /// Spans that had begun by then.
    old: HashMap<Ids, Begun>,
}

/// Records the spans of a program. Give it to
/// [`with_span_processor`](opentelemetry_sdk::trace::TracerProviderBuilder::with_span_processor), beside the exporters that there are.
pub struct SpanProcessor {
    /// The group of the classes; `None` without libstrata.
    provider: Option<Provider>,
    /// The class of `otel:error`.
    failed: Option<Event>,
    known: Mutex<Known>,
}

impl SpanProcessor {
    /// Makes the processor, which records while somebody wants spans of `otel:*`.
    #[must_use]
    pub fn new() -> SpanProcessor {
        let provider = Provider::new("otel").ok();
        let error =
            Class { name: "error", level: Level::Err, fields: &ERROR_FIELDS, place: ("", 0) };
        let failed = provider.and_then(|provider| provider.event(&error).ok());
        SpanProcessor { provider, failed, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the class of spans with this name, which is registered the first time.
    fn class(&self, provider: Provider, name: &str) -> Option<SpanClass> {
        let make = |name: &str| {
            let class = Class { name, level: Level::Info, fields: &SPAN_FIELDS, place: ("", 0) };
            provider.span(&class, true).ok()
        };
        let mut known = self.known();
        if let Some(class) = known.classes.get(name) {
            return *class;
        }
        if known.classes.len() >= NAMES_MAX {
            return *known.others.get_or_insert_with(|| make("span"));
        }
        let class = make(&class_name(name));
        known.classes.insert(name.to_owned(), class);
        class
    }

    fn begin(&self, context: &SpanContext, data: &SpanData) -> Option<()> {
        let class = self.class(self.provider?, &data.name)?;
        if !class.is_on() {
            return None;
        }
        let parent = match data.parent_span_id {
            SpanId::INVALID => String::new(),
            id => id.to_string(),
        };
        let (trace, span) = (context.trace_id().to_string(), context.span_id().to_string());
        let mut words = Words::new();
        for text in [&*data.name, &trace, &span, &parent, kind(&data.span_kind)] {
            words.push(text);
        }
        let key = class.new_key();
        if !class.begin_key(key, &words) {
            return None;
        }
        let mut known = self.known();
        let mut forgotten = HashMap::new();
        if known.young.len() >= OPEN_MAX {
            let young = std::mem::take(&mut known.young);
            forgotten = std::mem::replace(&mut known.old, young);
        }
        known.young.insert((context.trace_id(), context.span_id()), Begun { class, key });
        drop(known);
        for begun in forgotten.into_values() {
            begun.class.end_key(begun.key);
        }
        Some(())
    }
}

impl Default for SpanProcessor {
    fn default() -> SpanProcessor {
        SpanProcessor::new()
    }
}

impl fmt::Debug for SpanProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpanProcessor")
    }
}

impl opentelemetry_sdk::trace::SpanProcessor for SpanProcessor {
    fn on_start(&self, span: &mut Span, _: &Context) {
        let context = span.span_context().clone();
        if self.provider.is_some() && context.is_sampled() {
            if let Some(data) = span.exported_data() {
                self.begin(&context, &data);
            }
        }
    }

    fn on_end(&self, data: SpanData) {
        let context = &data.span_context;
        let ids = (context.trace_id(), context.span_id());
        let begun = {
            let mut known = self.known();
            known.young.remove(&ids).or_else(|| known.old.remove(&ids))
        };
        let Some(begun) = begun else { return };
        if let (Status::Error { description }, Some(failed)) = (&data.status, &self.failed) {
            if failed.is_on() {
                let (trace, span) = (ids.0.to_string(), ids.1.to_string());
                let mut words = Words::new();
                for text in [&*data.name, &trace, &span, description] {
                    words.push(text);
                }
                failed.record(&words);
            }
        }
        begun.class.end_key(begun.key);
    }

    /// Does nothing: records are in the buffers of the recorder at once.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    /// Does nothing: a span that is open is ended by its program.
    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Returns the name of a span as a part of a class' name.
fn class_name(name: &str) -> String {
    let is_usual = |char: char| char.is_ascii_alphanumeric() || "_./-".contains(char);
    let mut usual = String::new();
    for char in name.chars().take(2 * NAME_MAX) {
        match is_usual(char) {
            true => usual.push(char),
            false if usual.ends_with('_') => {}
            false => usual.push('_'),
        }
    }
    usual.truncate(NAME_MAX);
    match usual.trim_matches('_') {
        "" => "span".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

fn kind(kind: &SpanKind) -> &'static str {
    match kind {
        SpanKind::Client => "client",
        SpanKind::Server => "server",
        SpanKind::Producer => "producer",
        SpanKind::Consumer => "consumer",
        SpanKind::Internal => "internal",
    }
}

#[cfg(test)]
mod tests {
    use super::class_name;

    #[test]
    fn name_of_a_class_has_no_character_that_rules_give_a_meaning() {
        assert_eq!(class_name("GET /orders/{id}"), "GET_/orders/_id");
        assert_eq!(class_name("☃ *"), "span");
        assert_eq!(class_name(""), "span");
        assert_eq!(class_name(&"a☃".repeat(500)).len(), 199);
    }
}

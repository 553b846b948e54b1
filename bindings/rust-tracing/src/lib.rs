//! A layer of [`tracing_subscriber`] that records the events and spans of `tracing` by Strata.
//!
//! ```
//! use tracing_subscriber::prelude::*;
//!
//! tracing_subscriber::registry().with(strata_tracing::layer()).init();
//! tracing::info!(number = 7, customer = "Ada", "sold");
//! ```
//!
//! Each callsite is one event class, `TARGET:NAME`, with a `.` for each `::` of the target, and with the types that its values
//! have the first time; the text of an event is its field `message`. Numbers, truth values and texts are recorded as they
//! are; what a program passes by `%` or `?` is formatted, since there is nothing else to record. A value that a record does
//! not have, or has with another type, is 0 or empty.
//!
//! A span of `tracing` is one span with a key from its creation until it is closed, whichever threads enter it, with its
//! parent's key in the field `parent`.
//!
//! Without libstrata the layer does nothing. [`strata_events::availability`] says why.
//!
//! Events are recorded in the thread that makes them. The class of a callsite is made when its first event is
//! recorded, and kept.
#![deny(missing_docs)]

mod class;
mod visit;

use std::fmt;

use strata_events::{SpanClass, Words};
use tracing_core::{span, Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::class::{Class, Kind};
use crate::visit::Values;

/// Makes the layer, which records while somebody wants its events.
#[must_use]
pub fn layer() -> StrataLayer {
    StrataLayer(())
}

/// The layer that [`layer`] returns.
pub struct StrataLayer(());

impl fmt::Debug for StrataLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StrataLayer")
    }
}

/// A span of `tracing` that was begun.
struct Begun {
    class: SpanClass,
    key: u64,
}

/// Calls `then` with the class and the values of a callsite, if somebody records it. Its first values make the class.
fn if_recorded<T>(
    metadata: &'static Metadata<'static>,
    visit: impl FnOnce(&mut Values),
    then: impl FnOnce(&Class, &Values) -> Option<T>,
) -> Option<T> {
    let known = class::get(metadata);
    if known.is_some_and(|class| !class.is_on()) {
        return None;
    }
    let mut values = Values::of(metadata);
    visit(&mut values);
    let class = known.unwrap_or_else(|| class::make(metadata, values.types()));
    if !class.is_on() {
        return None;
    }
    then(class, &values)
}

impl<S> Layer<S> for StrataLayer
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if_recorded(
            event.metadata(),
            |values| event.record(values),
            |class, values| {
                let Kind::Event(event) = class.kind else { return None };
                let mut words = Words::new();
                values.push_to(&class.types, &mut words);
                event.record(&words);
                Some(())
            },
        );
    }

    fn on_new_span(
        &self,
        attributes: &span::Attributes<'_>,
        id: &span::Id,
        context: Context<'_, S>,
    ) {
        let Some(span) = context.span(id) else { return };
        let parent = span
            .parent()
            .and_then(|parent| parent.extensions().get::<Begun>().map(|begun| begun.key));
        let begun = if_recorded(
            attributes.metadata(),
            |values| attributes.record(values),
            |class, values| {
                let Kind::Span(span) = class.kind else { return None };
                let key = span.new_key();
                let mut words = Words::new();
                words.push_scalar(parent.unwrap_or(0));
                values.push_to(&class.types, &mut words);
                span.begin_key(key, &words).then_some(Begun { class: span, key })
            },
        );
        if let Some(begun) = begun {
            span.extensions_mut().insert(begun);
        }
    }

    fn on_close(&self, id: span::Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let extensions = span.extensions();
        if let Some(begun) = extensions.get::<Begun>() {
            begun.class.end_key(begun.key);
        }
    }
}

//! Spans by the request that they are parts of, for a report: OpenTelemetry's traces, over processes and hosts.

use std::collections::{HashMap, HashSet};

use strata_ctf::read::{Event, Reader, TimeRange};
use strata_timeline::{Observer, SpanRoles, ThreadId, UnpairedSpan, World};

use super::exporter::Spans;
use super::ids::{SpanId, TraceId};
use super::proto::{AnyValueKind, KeyValue, ResourceSpans, Span};
use super::waits::States;

/// The most spans that are kept; each takes some 500 bytes.
const SPANS_MAX: usize = 1 << 18;
/// The most bytes of a text of a span.
const TEXT_BYTES_MAX: usize = 512;
/// The deepest nesting of spans that is followed.
const DEPTH_MAX: usize = 64;

/// A span of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceSpan {
    /// The span's id in OpenTelemetry, or a computed one.
    pub id: SpanId,
    /// The id of the span of which this one is a part.
    pub parent: Option<SpanId>,
    pub name: String,
    /// The name and number of the process.
    pub process: String,
    pub pid: Option<i64>,
    /// The name of the host; empty if it is unknown.
    pub host: String,
    /// The begin \[ns since 1970\].
    pub begin: u64,
    /// The length \[ns\].
    pub nanos: u64,
    /// The description of the error with which the span ended.
    pub error: Option<String>,
    /// The time by state of the thread in which the span ended: running, interrupted, runnable, blocked, unknown.
    /// `None` if no state is known.
    pub states: Option<[u64; 5]>,
    /// The time for which that thread was blocked in each system call \[ns\], the longest first.
    pub waits: Vec<(String, u64)>,
}

/// The spans of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestTrace {
    /// The trace id, as hexadecimal digits.
    pub id: String,
    /// The spans, by their begin.
    pub spans: Vec<TraceSpan>,
}

impl RequestTrace {
    /// Returns the begin of the first span \[ns since 1970\].
    #[must_use]
    pub fn begin(&self) -> u64 {
        self.spans.iter().map(|span| span.begin).min().unwrap_or(0)
    }

    /// Returns the time from the first begin to the last end \[ns\].
    #[must_use]
    pub fn nanos(&self) -> u64 {
        let ends = self.spans.iter().map(|span| span.begin.saturating_add(span.nanos));
        ends.max().unwrap_or(0).saturating_sub(self.begin())
    }

    /// Returns the number of processes.
    #[must_use]
    pub fn processes(&self) -> usize {
        let all: HashSet<_> = self.spans.iter().map(|span| (&span.host, span.pid)).collect();
        all.len()
    }

    /// Returns the spans in the order of a tree, each with its depth: a span stands before its parts. A span whose
    /// parent is missing has depth 0.
    #[must_use]
    pub fn tree(&self) -> Vec<(usize, &TraceSpan)> {
        let mut below: HashMap<SpanId, Vec<usize>> = HashMap::new();
        let ids: HashSet<SpanId> = self.spans.iter().map(|span| span.id).collect();
        let parent = |span: &TraceSpan| span.parent.filter(|parent| ids.contains(parent));
        for (place, span) in self.spans.iter().enumerate() {
            if let Some(parent) = parent(span) {
                below.entry(parent).or_default().push(place);
            }
        }
        let (mut tree, mut seen) = (Vec::new(), HashSet::new());
        let mut open: Vec<(usize, usize)> = Vec::new();
        let roots = self.spans.iter().enumerate().filter(|(_, span)| parent(span).is_none());
        let roots = roots.map(|(place, _)| place);
        // Those that are parts of each other in a circle are in no tree: they come last.
        for root in roots.chain(0..self.spans.len()) {
            open.push((0, root));
            while let Some((depth, place)) = open.pop() {
                let Some(span) = self.spans.get(place) else { continue };
                if !seen.insert(place) {
                    continue;
                }
                tree.push((depth, span));
                // Of several spans with the same id, the first has the parts.
                let parts = if depth < DEPTH_MAX { below.remove(&span.id) } else { None };
                let parts = parts.into_iter().flatten().rev();
                open.extend(parts.map(|part| (depth + 1, part)));
            }
        }
        tree
    }
}

/// The requests of the traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// The requests, the longest first.
    pub all: Vec<RequestTrace>,
    /// The number of spans that were not kept because there are too many, or too many were open at once.
    pub left_out: u64,
    /// The number of spans whose waits were not determined, because that would have taken too long.
    pub without_path: u64,
    /// The number of begins without an end, and of ends without a begin.
    pub unpaired: u64,
}

/// Collects the spans that have ids of OpenTelemetry, and the spans nested in them.
pub struct TraceCollector {
    spans: Spans,
    found: HashMap<TraceId, Vec<TraceSpan>>,
    kept: usize,
    left_out: u64,
}

impl TraceCollector {
    /// Collects spans that end within `range`. With `states`, the spans have what they waited for.
    #[must_use]
    pub fn new(
        reader: &Reader,
        roles: SpanRoles,
        range: TimeRange,
        states: Option<States>,
    ) -> TraceCollector {
        let spans = Spans::new(reader, roles, range, states).of_requests();
        TraceCollector { spans, found: HashMap::new(), kept: 0, left_out: 0 }
    }

    fn take(&mut self) {
        for process in self.spans.take() {
            let ResourceSpans { resource, scope_spans } = process;
            let of = resource.map(|resource| resource.attributes).unwrap_or_default();
            for span in scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let Ok(trace) = TraceId::try_from(&*span.trace_id) else { continue };
                if self.kept >= SPANS_MAX {
                    self.left_out += 1;
                    continue;
                }
                self.kept += 1;
                self.found.entry(trace).or_default().push(trace_span(span, &of));
            }
        }
    }

    /// Returns the requests.
    #[must_use]
    pub fn finish(mut self) -> Requests {
        self.take();
        let request = |(id, mut spans): (TraceId, Vec<TraceSpan>)| {
            spans.sort_by_key(|span| (span.begin, std::cmp::Reverse(span.nanos), span.id));
            RequestTrace { id: id.iter().map(|byte| format!("{byte:02x}")).collect(), spans }
        };
        let mut all: Vec<RequestTrace> = self.found.into_iter().map(request).collect();
        all.sort_by_cached_key(|request| (std::cmp::Reverse(request.nanos()), request.id.clone()));
        let summary = self.spans.summary;
        Requests {
            all,
            left_out: self.left_out.saturating_add(summary.without_begin),
            without_path: summary.without_path,
            unpaired: summary.unpaired,
        }
    }
}

impl Observer for TraceCollector {
    const RECORDS: bool = true;

    fn record(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>, selected: bool) {
        self.spans.record(world, event, who, selected);
        if self.spans.is_full() {
            self.take();
        }
    }

    fn span(&mut self, world: &World, span: &strata_timeline::Span) {
        self.spans.span(world, span);
    }

    fn unpaired_span(&mut self, world: &World, span: &UnpairedSpan) {
        self.spans.unpaired_span(world, span);
    }
}

fn number(attributes: &[KeyValue], key: &str) -> Option<i64> {
    match attributes.iter().find(|it| it.key == key)?.value.as_ref()?.value.as_ref()? {
        AnyValueKind::Integer(number) => Some(*number),
        _ => None,
    }
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|it| it.key == key).and_then(|it| it.value.as_ref());
    match found.and_then(|value| value.value.as_ref()) {
        Some(AnyValueKind::Text(text)) => cut(text.clone()),
        _ => String::new(),
    }
}

/// Returns the begin of a text.
fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().find(|&(at, _)| at >= TEXT_BYTES_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text.shrink_to_fit();
    text
}

/// Converts a span of the protocol to one for reports.
fn trace_span(span: Span, process: &[KeyValue]) -> TraceSpan {
    let state = |name: &str| {
        let found = number(&span.attributes, &format!("strata.{name}_ns"))?;
        u64::try_from(found).ok()
    };
    let states = ["running", "interrupted", "runnable", "blocked", "unknown"].map(state);
    let states = states.iter().any(Option::is_some).then(|| states.map(Option::unwrap_or_default));
    let wait = |it: &KeyValue| {
        let call = it.key.strip_prefix("strata.waited_ns.")?;
        let nanos = number(std::slice::from_ref(it), &it.key)?;
        Some((call.to_owned(), u64::try_from(nanos).ok()?))
    };
    let mut waits: Vec<(String, u64)> = span.attributes.iter().filter_map(wait).collect();
    waits.sort_by_key(|&(_, nanos)| std::cmp::Reverse(nanos));
    TraceSpan {
        id: SpanId::try_from(&*span.span_id).unwrap_or_default(),
        parent: SpanId::try_from(&*span.parent_span_id).ok(),
        process: text(process, "service.name"),
        pid: number(process, "process.pid"),
        host: text(process, "host.name"),
        begin: span.start_time_unix_nano,
        nanos: span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano),
        error: span.status.map(|status| cut(status.message)),
        states,
        waits,
        name: cut(span.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_of_a_request_has_each_span_once_also_where_they_are_in_a_circle() {
        let span = |id: u8, parent: Option<u8>, begin| TraceSpan {
            id: [id; 8],
            parent: parent.map(|parent| [parent; 8]),
            begin,
            nanos: 10,
            ..TraceSpan::default()
        };
        let shown = |spans: &[TraceSpan]| {
            let trace = RequestTrace { id: String::new(), spans: spans.to_vec() };
            let tree = trace.tree();
            tree.into_iter().map(|(depth, span)| (depth, span.id[0])).collect::<Vec<_>>()
        };
        let spans =
            [span(1, None, 0), span(2, Some(1), 1), span(3, Some(2), 2), span(4, Some(1), 3)];
        assert_eq!(shown(&spans), [(0, 1), (1, 2), (2, 3), (1, 4)]);
        // A parent of another host, whose trace is not there; two that are parts of each other; one that is its own.
        let spans =
            [span(1, Some(9), 0), span(2, Some(3), 1), span(3, Some(2), 2), span(4, Some(4), 3)];
        assert_eq!(shown(&spans), [(0, 1), (0, 2), (1, 3), (0, 4)]);
        // Two with the same id, as a trace that is read twice has: its part stands once, below the first.
        let spans = [span(1, None, 0), span(1, None, 1), span(2, Some(1), 2), span(3, Some(2), 3)];
        assert_eq!(shown(&spans), [(0, 1), (1, 2), (2, 3), (0, 1)]);
        let deep: Vec<TraceSpan> =
            (1..=200).map(|id| span(id, id.checked_sub(1), id.into())).collect();
        assert_eq!(shown(&deep).len(), 200);
        let trace = RequestTrace { id: String::new(), spans: deep };
        assert_eq!((trace.begin(), trace.nanos(), trace.processes()), (1, 209, 1));
    }
}

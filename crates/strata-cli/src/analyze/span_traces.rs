//! The report `strata analyze spans --by trace`: requests of OpenTelemetry, over processes.

use anyhow::Result;
use strata_ctf::read::{Reader, TimeRange};
use strata_export::otlp::{RequestTrace, Requests, TraceCollector, TraceSpan};
use strata_report::{Branch, Columns, Document, Part, Record, Table, Unit, Value};
use strata_session::stop::Stop;
use strata_timeline::{SpanRoles, Timeline};

use super::report_command::{CommonFlags, Made, PairFlags};
use super::report_text::show;
use super::rows::length;
use crate::export::otlp::states;
use crate::units::{clean, counted};

/// Limit on the spans of one request that a text has lines for.
const SPANS_SHOWN: usize = 100;

/// The request for the report on traces of OpenTelemetry.
pub struct Asked<'f> {
    pub common: &'f CommonFlags,
    pub pairs: &'f PairFlags,
    /// The number of requests that are shown as trees.
    pub slowest: usize,
}

/// Makes the report, and returns the exit status.
pub fn run(
    asked: &Asked<'_>,
    (reader, range): (&Reader, TimeRange),
    roles: SpanRoles,
    stop: &Stop,
) -> Result<u8> {
    let Some(states) = states(reader, asked.pairs.rules(), range, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    let timeline = Timeline::with_spans(reader, roles.clone());
    let mut collector = TraceCollector::new(reader, roles, range, states);
    let Some(made) = asked.common.pass_on(timeline, reader, range, &mut collector, stop) else {
        return Ok(crate::exit_status::stopped(stop));
    };
    let requests = collector.finish();
    show(asked.common, "spans", &made, &document(&requests, &made, asked))?;
    Ok(made.end(
        requests.all.is_empty(),
        asked.common.selection.is_any(),
        "no span with a trace id matches what was asked for",
        "the traces have no span with the fields trace_id and span_id. strata_events.opentelemetry records them for \
         Python",
    ))
}

fn document(requests: &Requests, made: &Made, asked: &Asked<'_>) -> Document {
    let all = &requests.all;
    let spans: u64 = all.iter().map(|request| request.spans.len() as u64).sum();
    let head = format!(
        "{} of {} in {}",
        counted(all.len() as u64, "request"),
        counted(spans, "span"),
        length(made.nanos())
    );
    let mut document = Document::new(head);
    document.fact("by", "trace");
    document.fact("spans", spans);
    document.fact("unpaired", requests.unpaired);
    document.fact("left_out", requests.left_out);
    let shown = all.get(..asked.common.rows()).unwrap_or(all);
    document.rows(rows(shown), all.len());
    document.push(slowest(all.get(..asked.slowest).unwrap_or(all)));
    for (count, what) in [
        (requests.unpaired, "begin or end of a span without the other"),
        (requests.left_out, "span beyond the limit"),
    ] {
        if count > 0 {
            document.push(Part::Note(format!("not counted: {count} × {what}")));
        }
    }
    if requests.without_path > 0 {
        document.push(Part::Note(format!(
            "{} without what they waited for: so many spans around each other would take too long. Choose fewer \
             (--filter, --from, --until)",
            counted(requests.without_path, "span")
        )));
    }
    document
}

fn time(nanos: u64) -> Value {
    i64::try_from(nanos).unwrap_or(i64::MAX).into()
}

/// Returns the span that gives a request its name: the first span that is not a part of another one.
fn first(request: &RequestTrace) -> Option<&TraceSpan> {
    request.tree().first().map(|&(_, span)| span)
}

fn rows(rows: &[RequestTrace]) -> Table {
    let errors = |request: &RequestTrace| {
        request.spans.iter().filter(|span| span.error.is_some()).count() as u64
    };
    let columns = Columns::new()
        .both("begin", "begin_ns", Unit::Time, |row: &RequestTrace| time(row.begin()))
        .both("time", "duration_ns", Unit::Nanos, |row| row.nanos().into())
        .both("spans", "spans", Unit::Count, |row| (row.spans.len() as u64).into())
        .both("processes", "processes", Unit::Count, |row| (row.processes() as u64).into())
        .both("errors", "errors", Unit::Count, move |row| errors(row).into())
        .both("trace id", "trace_id", Unit::Text, |row| Value::text(&row.id))
        .both("request", "name", Unit::Text, |row| {
            Value::text(first(row).map(|span| clean(&span.name)).unwrap_or_default())
        });
    columns.rows(rows)
}

fn slowest(slowest: &[RequestTrace]) -> Part {
    let columns = Columns::new()
        .both("", "begin_ns", Unit::Time, |row: &RequestTrace| time(row.begin()))
        .both("", "duration_ns", Unit::Nanos, |row| row.nanos().into())
        .both("", "trace_id", Unit::Text, |row| Value::text(&row.id))
        .shown("", Unit::Tree, |row| Value::Tree(tree(row)))
        .nested("spans", |row| {
            Value::List(row.tree().into_iter().map(|(depth, span)| record(depth, span)).collect())
        });
    Part::section("The slowest", "slowest", columns.rows(slowest))
}

fn record(depth: usize, span: &TraceSpan) -> Record {
    let id =
        |id: &[u8]| Value::text(id.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let states = span.states.map(|[running, interrupted, runnable, blocked, unknown]| {
        Value::Record(vec![
            ("running_ns", running.into()),
            ("interrupted_ns", interrupted.into()),
            ("runnable_ns", runnable.into()),
            ("blocked_ns", blocked.into()),
            ("unknown_ns", unknown.into()),
        ])
    });
    let wait = |(call, nanos): &(String, u64)| -> Record {
        vec![("call", Value::text(call)), ("total_ns", (*nanos).into())]
    };
    vec![
        ("depth", (depth as u64).into()),
        ("name", Value::text(&span.name)),
        ("span_id", id(&span.id)),
        ("parent_id", span.parent.as_ref().map(|parent| id(parent)).into()),
        ("process", Value::some_text(span.process.as_str())),
        ("pid", span.pid.into()),
        ("host", Value::some_text(span.host.as_str())),
        ("begin_ns", span.begin.into()),
        ("duration_ns", span.nanos.into()),
        ("error", span.error.clone().into()),
        ("states", states.into()),
        ("waits", Value::List(span.waits.iter().map(wait).collect())),
    ]
}

/// Returns a line for each span of a request, with those that are parts of it below it.
fn tree(request: &RequestTrace) -> Vec<Branch> {
    let whole = request.nanos().max(1) as f64;
    let mut open: Vec<(usize, Branch)> = Vec::new();
    let mut roots = Vec::new();
    let all = request.tree();
    let close = |open: &mut Vec<(usize, Branch)>, roots: &mut Vec<Branch>, depth: usize| {
        while open.last().is_some_and(|(at, _)| *at >= depth) {
            let Some((_, branch)) = open.pop() else { break };
            match open.last_mut() {
                Some((_, around)) => around.below.push(branch),
                None => roots.push(branch),
            }
        }
    };
    for &(depth, span) in all.iter().take(SPANS_SHOWN) {
        close(&mut open, &mut roots, depth);
        let (nanos, share) = (span.nanos, span.nanos as f64 / whole);
        open.push((depth, Branch { nanos, share, text: span_text(span), ..Branch::default() }));
    }
    close(&mut open, &mut roots, 0);
    if let Some(more) = all.get(SPANS_SHOWN..).filter(|more| !more.is_empty()) {
        let text = counted(more.len() as u64, "other span");
        let nanos = more.iter().map(|(_, span)| span.nanos).fold(0, u64::saturating_add);
        let share = nanos as f64 / whole;
        roots.push(Branch { nanos, share, text, is_rest: true, ..Branch::default() });
    }
    roots
}

/// Formats a span: `GET /orders  shop (12): ran 1.2 ms, in read 50.1 ms`.
fn span_text(span: &TraceSpan) -> String {
    let pid = span.pid.map_or("?".to_owned(), |pid| pid.to_string());
    let mut parts = Vec::new();
    if let Some([running, _, runnable, ..]) = span.states {
        parts.push(format!("ran {}", length(running)));
        if runnable > 0 {
            parts.push(format!("wanted a CPU {}", length(runnable)));
        }
    }
    parts.extend(
        span.waits.iter().take(2).map(|(call, nanos)| format!("in {call} {}", length(*nanos))),
    );
    if let Some(error) = &span.error {
        parts.push(format!("error: {error}"));
    }
    let said = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    clean(&format!("{}  {} ({pid}){said}", span.name, span.process))
}

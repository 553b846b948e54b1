//! Formats counts as a JSON document, whose keys are in docs/guide/stats.md.

use serde_json::{json, Value};
use strata_analyze::stats::{
    AbsentKind, AbsentRange, Damaged, EventStats, LossMode, Stats, StreamStats, Sum, TraceSpan,
    TraceStats,
};
use strata_ctf::read::{FolderEnd, RecordingEnd};

/// Version of the JSON document. It changes when a key is renamed or removed, not when one is added.
const VERSION: u32 = 1;

/// Returns all counts as JSON. Integers are exact; times are nanoseconds since 1970.
pub fn document(stats: &Stats) -> Value {
    let mut document = sum(&stats.sum(), stats.span);
    let timeline = stats.timeline.as_ref().map(|timeline| {
        json!({
            "from_ns": timeline.from,
            "column_ns": timeline.width,
            "records": timeline.records,
        })
    });
    let traces = stats.traces.iter().enumerate().map(|(number, trace)| {
        let streams = stats.streams.iter().filter(|stream| stream.trace == number);
        let mut object = self::trace(trace, streams);
        let own = stats.ends.iter().find(|found| found.trace == Some(number));
        set(&mut object, "end", own.map(end).into());
        object
    });
    let recordings = stats.ends.iter().filter(|end| end.trace.is_none());
    let place = |damaged: &Damaged| {
        json!({
            "trace": damaged.trace.to_string_lossy(),
            "stream": Some(&damaged.stream).filter(|name| !name.is_empty()),
            "packet": damaged.packet,
            "offset": damaged.offset,
            "message": damaged.message,
        })
    };
    set(&mut document, "version", VERSION.into());
    set(&mut document, "timeline", timeline.into());
    set(&mut document, "events", stats.events.iter().map(event).collect());
    set(&mut document, "traces", traces.collect());
    set(&mut document, "recordings", recordings.map(end).collect());
    set(&mut document, "damage", stats.damage.iter().map(place).collect());
    set(&mut document, "notes", stats.notes.iter().map(place).collect());
    document
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(map) = object {
        map.insert(key.to_owned(), value);
    }
}

fn sum(sum: &Sum, span: Option<TraceSpan>) -> Value {
    json!({
        "from_ns": span.map(|span| span.from),
        "to_ns": span.map(|span| span.to),
        "duration_ns": span.map(|span| span.nanos()),
        "streams_count": sum.streams,
        "packets": sum.packets,
        "records": sum.count.records,
        "bytes": sum.bytes,
        "record_bytes": sum.count.bytes,
        "record_bytes_min": sum.count.smallest,
        "record_bytes_max": sum.count.largest,
        "header_bytes": sum.header_bytes,
        "padding_bytes": sum.padding_bytes,
        "discarded_records": sum.absent_records,
        "untold_records": sum.untold_records,
        "packets_counting_discarded": sum.telling_packets,
        "packets_not_there": sum.absent_packets,
        "damage_count": sum.damage,
    })
}

fn event(event: &EventStats) -> Value {
    json!({
        "name": event.name,
        "records": event.count.records,
        "bytes": event.count.bytes,
        "bytes_min": event.count.smallest,
        "bytes_max": event.count.largest,
    })
}

fn trace<'s>(trace: &TraceStats, streams: impl Iterator<Item = &'s StreamStats>) -> Value {
    let mut object = sum(&trace.sum, trace.sum.span);
    set(&mut object, "path", trace.path.to_string_lossy().into());
    set(&mut object, "host", trace.host.clone().into());
    set(&mut object, "tracer", trace.tracer.clone().into());
    set(&mut object, "domain", trace.domain.clone().into());
    set(&mut object, "process", trace.process.clone().into());
    set(&mut object, "pid", trace.pid.into());
    let loss_mode = trace.loss_mode.map(LossMode::name);
    set(&mut object, "loss_mode", loss_mode.into());
    set(&mut object, "clock_uncertainty_ns", trace.uncertainty_ns.into());
    set(&mut object, "events", trace.events.iter().map(event).collect());
    set(&mut object, "streams", streams.map(stream).collect());
    object
}

fn end(end: &FolderEnd) -> Value {
    let state = match &end.end {
        RecordingEnd::Marked(mark) => mark.ending.word(),
        RecordingEnd::Running => "recording",
        RecordingEnd::Killed { .. } => "killed",
        RecordingEnd::Absent => "no-mark",
        RecordingEnd::Unusable { .. } => "bad-mark",
    };
    let losses = end.losses();
    json!({
        "path": end.path.to_string_lossy(),
        "state": state,
        "complete": end.is_complete(),
        "unwritten_records": losses.unwritten,
        "discarded_records": losses.discarded,
        "unread_records": losses.unread,
        "quota_records": end.quota(),
        "missing_files": end.missing.map(|it| it.files.saturating_sub(it.files_found)),
        "missing_bytes": end.missing.map(|it| it.bytes.saturating_sub(it.bytes_found)),
    })
}

fn stream(stream: &StreamStats) -> Value {
    let mut object = sum(&stream.sum, stream.sum.span);
    let silence = stream.silence.map(|silence| json!([silence.from, silence.to]));
    set(&mut object, "name", stream.name.clone().into());
    set(&mut object, "id", stream.id.into());
    set(&mut object, "cpu", stream.cpu.into());
    set(&mut object, "longest_silence_ns", silence.into());
    set(&mut object, "absent", stream.absent.ranges.iter().map(range).collect());
    set(&mut object, "absent_not_listed", stream.absent.more.into());
    object
}

fn range(range: &AbsentRange) -> Value {
    json!({
        "kind": match range.kind {
            AbsentKind::Records => "records",
            AbsentKind::Packets => "packets",
        },
        "count": range.count,
        "from_ns": range.span.map(|span| span.from),
        "to_ns": range.span.map(|span| span.to),
        "at_begin": range.at_begin,
    })
}

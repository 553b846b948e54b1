//! Counts by going through all packets, on several threads.
//!
//! ```text
//! Reader::parts() ──> Worker (one per thread) ──> PartCount, counts per class, timeline ──> Tally
//! ```
//!
//! Each record is counted with its bytes in its class. Its time is compared with two limits: the end of the timeline's
//! column, and the longest silence so far. No field is decoded.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use strata_ctf::environment::LOSS_MODE;
use strata_ctf::read::{
    Event, Events, Message, Parts, Reader, Selection, StreamPart, TimeRange, Trace,
};
use strata_model::schema::Schema;
use strata_model::EnvValue;

use super::packet_counter::{damaged, ClassCounts, PartCounting};
use super::totals::{PartCount, Tally};
use super::{LossMode, Stats, StreamStats, Sum, TimeColumns, TraceSpan, TraceStats};

/// The size of the part that a thread takes at once \[byte\].
const PART_BYTES: u64 = 4 << 20;
/// The number of messages after which a thread asks whether to go on.
const CHUNK: u64 = 1 << 20;

/// Options of counting.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The number of threads; `None` for one on each CPU.
    pub threads: Option<NonZeroUsize>,
    /// The time range in which records, packets and losses are counted.
    pub range: TimeRange,
    /// The filter of records; `None` counts all.
    pub selection: Option<&'a Selection>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { threads: None, range: TimeRange::ALL, selection: None }
    }
}

/// Counts everything in the traces.
///
/// `go_on` is called with the number of bytes that all threads have read since its last call, and returns whether to go
/// on. If it returns false, the result is `None`.
pub fn count(
    reader: &Reader,
    options: &Options<'_>,
    go_on: &(dyn Fn(u64) -> bool + Sync),
) -> Option<Stats> {
    let span = reader.span().map(|span| TraceSpan {
        from: span.from.max(options.range.from),
        to: span.to.min(options.range.to),
    });
    let timeline = span.filter(|span| span.from <= span.to).map(TimeColumns::over);
    let mut tally = described(reader);
    let work = CountWork {
        reader,
        options,
        go_on,
        parts: Mutex::new((reader.parts(PART_BYTES), 0)),
        stopped: AtomicBool::new(false),
    };
    let cpus = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let bytes: u64 =
        reader.streams().iter().fold(0, |sum, stream| stream.bytes().saturating_add(sum));
    let useful = usize::try_from(bytes / PART_BYTES).unwrap_or(usize::MAX).max(1);
    let threads = options.threads.map_or_else(cpus, NonZeroUsize::get).min(useful);
    let mut workers: Vec<CountWorker<'_, '_>> =
        (0..threads).map(|_| CountWorker::new(&work, timeline.clone())).collect();
    thread::scope(|scope| {
        let mut all = workers.iter_mut();
        let first = all.next();
        let others: Vec<_> = all.map(|worker| scope.spawn(|| worker.run())).collect();
        if let Some(first) = first {
            first.run();
        }
        // A panic of a worker's is not hidden.
        others.into_iter().for_each(|other| {
            if let Err(panic) = other.join() {
                std::panic::resume_unwind(panic);
            }
        });
    });
    if work.stopped.load(Ordering::Relaxed) {
        return None;
    }
    tally.timeline = timeline;
    for worker in workers {
        worker.give(&mut tally);
    }
    Some(tally.finish())
}

/// Returns a tally without counts: the traces and streams, from their descriptions.
fn described(reader: &Reader) -> Tally {
    let streams = reader.streams().iter().map(|stream| StreamStats {
        trace: stream.trace().index(),
        name: stream.name().to_owned(),
        id: stream.id(),
        sum: Sum { streams: 1, bytes: stream.bytes(), ..Sum::default() },
        ..StreamStats::default()
    });
    Tally {
        traces: reader.traces().iter().map(|trace| trace_stats(trace)).collect(),
        streams: streams.collect(),
        damage: reader.damage().iter().filter(|found| !found.is_remark()).map(damaged).collect(),
        ends: reader.ends().to_vec(),
        ..Tally::default()
    }
}

fn trace_stats(trace: &Trace) -> TraceStats {
    let schema = trace.schema();
    let number = |name: &str| match schema.environment(name) {
        Some(EnvValue::Integer(number)) => Some(*number),
        _ => None,
    };
    TraceStats {
        path: trace.path().to_owned(),
        host: text(schema, "hostname"),
        tracer: tracer(schema),
        domain: text(schema, "domain"),
        process: text(schema, "procname"),
        pid: number("vpid"),
        loss_mode: loss_mode(schema),
        uncertainty_ns: number("clock_uncertainty").and_then(|ns| u64::try_from(ns).ok()),
        ..TraceStats::default()
    }
}

fn loss_mode(schema: &Schema) -> Option<LossMode> {
    LossMode::from_name(&text(schema, LOSS_MODE)?)
}

fn text(schema: &Schema, name: &str) -> Option<String> {
    match schema.environment(name)? {
        EnvValue::Text(text) if text.is_empty() => None,
        EnvValue::Text(text) => Some(text.clone()),
        EnvValue::Integer(number) => Some(number.to_string()),
    }
}

/// Returns the tracer with its version, such as `lttng-ust 2.13`. Traces of Strata may name LTTng as their tracer for
/// other readers.
pub(super) fn tracer(schema: &Schema) -> Option<String> {
    if let Some(version) = text(schema, "strata_version") {
        return Some(format!("strata {version}"));
    }
    let mut name = text(schema, "tracer_name")?;
    for (number, separator) in [("tracer_major", ' '), ("tracer_minor", '.')] {
        match text(schema, number) {
            Some(number) => name = format!("{name}{separator}{number}"),
            None => break,
        }
    }
    Some(name)
}

/// The work that threads share.
struct CountWork<'a, 'r> {
    reader: &'r Reader,
    options: &'a Options<'a>,
    go_on: &'a (dyn Fn(u64) -> bool + Sync),
    /// The parts that no thread has taken yet, and the number of the taken ones.
    parts: Mutex<(Parts<'r>, u64)>,
    stopped: AtomicBool,
}

impl CountWork<'_, '_> {
    /// Returns the next part and its number.
    fn next(&self) -> Option<(StreamPart, u64)> {
        // Whoever panicked while it was locked has taken a part with it, and will be heard.
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let part = parts.0.next()?;
        parts.1 += 1;
        Some((part, parts.1))
    }
}

/// The counts of one thread.
struct CountWorker<'a, 'r> {
    work: &'a CountWork<'a, 'r>,
    classes: ClassCounts,
    timeline: Option<TimeColumns>,
    parts: Vec<PartCount>,
    selection: Option<Selection>,
}

impl<'a, 'r> CountWorker<'a, 'r> {
    fn new(work: &'a CountWork<'a, 'r>, timeline: Option<TimeColumns>) -> CountWorker<'a, 'r> {
        CountWorker {
            work,
            classes: ClassCounts::new(work.reader.event_classes()),
            timeline,
            parts: Vec::new(),
            selection: work.options.selection.cloned(),
        }
    }

    fn run(&mut self) {
        while let Some((part, number)) = self.work.next() {
            self.part(&part, number);
            if self.work.stopped.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn part(&mut self, part: &StreamPart, number: u64) {
        let options = self.work.options;
        let mut counting =
            PartCounting::new(&mut self.classes, self.timeline.as_mut(), options.range);
        let mut events = self.work.reader.events_of_part(part);
        let mut read = 0;
        loop {
            let more = match &mut self.selection {
                None if options.range == TimeRange::ALL => {
                    chunk(&mut events, &mut counting, |_, _| true)
                }
                None => {
                    chunk(&mut events, &mut counting, |event, counting| counting.in_range(event))
                }
                Some(selection) => chunk(&mut events, &mut counting, |event, counting| {
                    counting.in_range(event) && selection.accepts(event)
                }),
            };
            let bytes = events.bytes_read();
            if !(self.work.go_on)(bytes.saturating_sub(read)) {
                self.work.stopped.store(true, Ordering::Relaxed);
                return;
            }
            read = bytes;
            if !more {
                break;
            }
        }
        let part = counting.finish(part.stream(), number);
        self.parts.push(part);
    }

    fn give(self, tally: &mut Tally) {
        tally.parts.extend(self.parts);
        tally.classes.extend(self.classes.counted());
        if let (Some(all), Some(own)) = (&mut tally.timeline, self.timeline) {
            all.add(&own.records);
        }
    }
}

/// Counts some of a part's messages. Returns whether there may be more.
fn chunk(
    events: &mut Events<'_>,
    counting: &mut PartCounting<'_>,
    mut accepts: impl FnMut(&Event<'_>, &PartCounting<'_>) -> bool,
) -> bool {
    let mut left = CHUNK;
    events
        .run(|message| {
            match message {
                Message::Event(event) if accepts(&event, counting) => counting.event(&event),
                Message::Event(_) => (),
                Message::Packet(packet) => counting.packet(packet),
                Message::Discarded(discarded) => counting.discarded(&discarded),
                Message::Damage(damage) => counting.damage(damage),
            }
            left -= 1;
            if left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .is_break()
}

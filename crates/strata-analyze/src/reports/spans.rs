//! The report on spans: their number and lengths by name, process or thread, the slowest spans, and the waits in these.

use std::cmp::Reverse;
use std::collections::HashMap;

use strata_ctf::read::TimeRange;
use strata_filter::Pattern;
use strata_timeline::{
    Interval, Name, Observer, Paired, Reason, Span, SpanKey, Spent, State, ThreadId,
    UnpairedReason, UnpairedSpan, World,
};

use super::longest::{Longest, LongestLimit};
use super::threads::{wait, Wait, Waited};
use crate::fast_hash::Mix;
use strata_report::Label;
use strata_report::Times;

/// The most rows that are kept; each takes some 2 KiB. Further spans are counted in rows without a process or thread.
const ROWS_MAX: usize = 1 << 15;
/// The most reasons for waits that are kept for all slowest spans together.
const REASONS_MAX: usize = 1 << 16;

/// The choice of what one row of the report stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A row has one name, over all processes.
    #[default]
    Name,
    /// A row has one name in one process.
    Process,
    /// A row has one name in one thread.
    Thread,
}

/// A row: the spans of one name.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The process or thread; empty if rows are about names.
    pub label: Label,
    /// The spans' name.
    pub name: String,
    /// The lengths of the spans of which both ends are known.
    pub times: Times,
    /// The time by state of the spans' threads, for spans that began and ended in one thread.
    pub spent: Spent,
}

impl Row {
    fn add(&mut self, span: &Span) {
        self.times.add(span.nanos());
        self.spent = self.spent.plus(span.spent.unwrap_or_default());
    }

    fn merge(&mut self, other: &Row) {
        self.times.merge(&other.times);
        self.spent = self.spent.plus(other.spent);
    }
}

/// One of the slowest spans.
#[derive(Clone, Debug)]
pub struct Slow {
    /// The thread that the span ended in.
    pub label: Label,
    /// The thread that the span began in, if it is another one.
    pub begun_by: Option<Label>,
    /// The span's name.
    pub name: String,
    /// The event that began the span.
    pub event: String,
    /// The begin of the span \[ns since 1970\].
    pub begin: i64,
    /// The length of the span \[ns\].
    pub nanos: u64,
    /// The value that the records of both ends have in common, if spans are paired by a key.
    pub key: Option<String>,
    /// The time by state of the thread in which the span ended; `None` if it is unknown.
    pub spent: Option<Spent>,
    /// The reasons for which that thread was blocked, by falling time.
    pub waits: Vec<Wait>,
    /// The thread in which the span ended.
    thread: Option<ThreadId>,
}

/// The number of begins and ends without a partner, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnpairedSpanCounts {
    /// Ends whose begin is not in the trace.
    pub no_begin: u64,
    /// Begins whose end is not in the trace.
    pub no_end: u64,
    /// Begins after which records were discarded.
    pub gap: u64,
    /// Begins whose key was used by another begin before their end.
    pub again: u64,
    /// Begins of spans beyond the most that may be open at once.
    pub too_many: u64,
}

/// The number of spans whose ends may not belong together, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guesses {
    /// Spans paired by thread, since the record of one end has no key.
    pub no_key: u64,
    /// Spans paired by process and CPU, since no record says their thread.
    pub no_thread: u64,
    /// Spans whose ends differ in a field that seems to be the span's id.
    pub disagree: u64,
}

impl UnpairedSpanCounts {
    fn add(&mut self, more: UnpairedSpanCounts) {
        self.no_begin += more.no_begin;
        self.no_end += more.no_end;
        self.gap += more.gap;
        self.again += more.again;
        self.too_many += more.too_many;
    }
}

impl Guesses {
    fn add(&mut self, more: Guesses) {
        self.no_key += more.no_key;
        self.no_thread += more.no_thread;
        self.disagree += more.disagree;
    }
}

#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// The rows, by falling time, then by name.
    pub rows: Vec<Row>,
    /// The sum of all rows.
    pub all: Row,
    /// The slowest spans, by falling time.
    pub slowest: Vec<Slow>,
    /// The number of begins and ends without a partner, which are in no row.
    pub unpaired: UnpairedSpanCounts,
    /// The number of spans that were paired without certainty, which are in rows.
    pub guesses: Guesses,
}

/// A span that may be one of the slowest. Ordered by length; of equal ones, the earlier span is greater.
#[derive(Clone, Debug)]
struct SlowCandidate(Span);

impl SlowCandidate {
    fn order(&self) -> (u64, Reverse<i64>) {
        (self.0.nanos(), Reverse(self.0.begin))
    }
}

impl PartialEq for SlowCandidate {
    fn eq(&self, other: &SlowCandidate) -> bool {
        self.order() == other.order()
    }
}

impl Eq for SlowCandidate {}

impl PartialOrd for SlowCandidate {
    fn partial_cmp(&self, other: &SlowCandidate) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SlowCandidate {
    fn cmp(&self, other: &SlowCandidate) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

/// Counts spans.
#[derive(Clone, Debug)]
pub struct SpanCounter {
    range: TimeRange,
    of: Option<Pattern>,
    /// For each name that was seen, true if the report is about it.
    wanted: HashMap<Name, bool>,
    rows: HashMap<(Option<ThreadId>, Name), Row, Mix>,
    slowest: Longest<SlowCandidate>,
    /// The counts for each thread; those of unknown threads under `None`.
    left: HashMap<Option<ThreadId>, (UnpairedSpanCounts, Guesses)>,
}

impl SpanCounter {
    /// Makes a counter for spans that end within `range` and whose name matches `of`. It keeps the `slowest` slowest
    /// spans.
    #[must_use]
    pub fn new(
        range: TimeRange,
        of: Option<&str>,
        slowest: impl Into<LongestLimit>,
    ) -> SpanCounter {
        SpanCounter {
            range,
            of: of.map(Pattern::glob),
            wanted: HashMap::new(),
            rows: HashMap::default(),
            slowest: Longest::new(slowest.into()),
            left: HashMap::new(),
        }
    }

    /// Returns the counts of a thread. Threads beyond [`ROWS_MAX`] share the counts under `None`.
    fn left_of(&mut self, thread: Option<ThreadId>) -> &mut (UnpairedSpanCounts, Guesses) {
        let is_full = self.left.len() >= ROWS_MAX;
        let thread = thread.filter(|_| !is_full || self.left.contains_key(&thread));
        self.left.entry(thread).or_default()
    }

    fn is_wanted(&mut self, world: &World, name: Name) -> bool {
        let Some(pattern) = &self.of else { return true };
        *self
            .wanted
            .entry(name)
            .or_insert_with(|| pattern.matches(world.names.text(name).as_bytes()))
    }

    /// Returns the report.
    #[must_use]
    pub fn finish(self, world: &World, by: By) -> Spans {
        self.finish_of(world, by, None)
    }

    /// Returns the report on the threads that `is_wanted` accepts; with `None`, on all threads, including unknown
    /// ones.
    #[must_use]
    pub fn finish_of(
        self,
        world: &World,
        by: By,
        is_wanted: Option<&dyn Fn(&Label) -> bool>,
    ) -> Spans {
        let is_of = |thread: Option<ThreadId>| {
            let is = |is: &dyn Fn(&Label) -> bool| {
                thread.is_some_and(|thread| is(&Label::thread(world, thread)))
            };
            is_wanted.is_none_or(is)
        };
        let mut rows: HashMap<(Option<ThreadId>, Name), Row> = HashMap::new();
        let mut all = Row::default();
        for ((thread, name), counted) in self.rows {
            if !is_of(thread) {
                continue;
            }
            let key = match by {
                By::Process => thread.map(|thread| world.process_of(thread)),
                By::Thread => thread,
                By::Name => None,
            };
            all.merge(&counted);
            let row = rows.entry((key, name)).or_default();
            row.merge(&counted);
            if row.name.is_empty() {
                row.name = world.names.text(name);
                row.label = match (by, thread) {
                    (By::Process, Some(thread)) => Label::process(world, thread),
                    (By::Thread, Some(thread)) => Label::thread(world, thread),
                    _ => Label::default(),
                };
            }
        }
        let mut rows: Vec<Row> = rows.into_values().collect();
        rows.sort_by(|one, other| {
            let by_total = other.times.total.cmp(&one.times.total);
            by_total.then_with(|| (&one.name, &one.label).cmp(&(&other.name, &other.label)))
        });
        let label = |thread: Option<ThreadId>| {
            thread.map(|thread| Label::thread(world, thread)).unwrap_or_default()
        };
        let slowest = self.slowest.finish().map(|(_, _, SlowCandidate(span))| {
            let thread = span.thread.or(span.begun_by);
            let begun_by = span.begun_by.filter(|_| span.begun_by != thread);
            Slow {
                label: label(thread),
                begun_by: begun_by.map(|begun_by| label(Some(begun_by))),
                name: world.names.text(span.name),
                event: world.names.text(span.event),
                begin: span.begin,
                nanos: span.nanos(),
                key: span.key.as_ref().map(key_text),
                spent: span.spent.filter(Spent::is_known),
                waits: Vec::new(),
                thread,
            }
        });
        let slowest = slowest.filter(|slow: &Slow| is_of(slow.thread)).collect();
        let (mut unpaired, mut guesses) = (UnpairedSpanCounts::default(), Guesses::default());
        for (thread, (more, guessed)) in self.left {
            if is_of(thread) {
                unpaired.add(more);
                guesses.add(guessed);
            }
        }
        Spans { rows, all, slowest, unpaired, guesses }
    }
}

/// Returns a key as text.
pub fn key_text(key: &SpanKey) -> String {
    match key {
        SpanKey::Number(number) => number.to_string(),
        SpanKey::Real(bits) => f64::from_bits(*bits).to_string(),
        SpanKey::Text(text, _) => String::from_utf8_lossy(text).into_owned(),
    }
}

impl Observer for SpanCounter {
    fn span(&mut self, world: &World, span: &Span) {
        let is_asked_for = span.selected && self.range.contains(span.end);
        if !is_asked_for || !self.is_wanted(world, span.name) {
            return;
        }
        let guesses = Guesses {
            no_key: u64::from(span.paired == Paired::NoKey),
            no_thread: u64::from(span.paired == Paired::Guess),
            disagree: u64::from(span.disagrees),
        };
        let mut key = (span.thread.or(span.begun_by), span.name);
        if guesses != Guesses::default() {
            self.left_of(key.0).1.add(guesses);
        }
        if self.slowest.takes(span.nanos(), key.0) {
            // Of one length, the earlier one is before the later one.
            self.slowest.add(span.nanos(), 0, key.0, SlowCandidate(span.clone()));
        }
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            key.0 = None;
        }
        self.rows.entry(key).or_default().add(span);
    }

    fn unpaired_span(&mut self, world: &World, span: &UnpairedSpan) {
        let is_asked_for = span.selected && self.range.contains(span.time);
        if !is_asked_for || !self.is_wanted(world, span.name) {
            return;
        }
        let unpaired = &mut self.left_of(span.thread).0;
        *match span.why {
            UnpairedReason::NoBegin => &mut unpaired.no_begin,
            UnpairedReason::NoEnd => &mut unpaired.no_end,
            UnpairedReason::Gap => &mut unpaired.gap,
            UnpairedReason::Again => &mut unpaired.again,
            UnpairedReason::TooMany => &mut unpaired.too_many,
        } += 1;
    }
}

/// The waits of the threads of the slowest spans. These waits are found in a second pass over the records, after
/// the slowest spans are known.
#[derive(Clone, Debug)]
pub struct SlowestWaits {
    /// The spans of each thread, each with its place in the list, its begin and its end.
    of: HashMap<ThreadId, Vec<(usize, i64, i64)>>,
    spent: Vec<Spent>,
    waits: HashMap<(usize, Option<Reason>), Waited>,
}

impl SlowestWaits {
    /// Prepares a second pass for these spans.
    #[must_use]
    pub fn new(slowest: &[Slow]) -> SlowestWaits {
        let mut of: HashMap<ThreadId, Vec<(usize, i64, i64)>> = HashMap::new();
        for (number, slow) in slowest.iter().enumerate() {
            let Some(thread) = slow.thread else { continue };
            let end = slow.begin.saturating_add_unsigned(slow.nanos);
            of.entry(thread).or_default().push((number, slow.begin, end));
        }
        SlowestWaits { of, spent: vec![Spent::default(); slowest.len()], waits: HashMap::new() }
    }

    /// Adds the waits to the slowest spans. `world` is the state of the second pass, in which threads have the same
    /// ids.
    pub fn tell(self, world: &World, slowest: &mut [Slow]) {
        for (slow, spent) in slowest.iter_mut().zip(self.spent) {
            let known = [spent.running, spent.runnable, spent.blocked];
            let known = known.into_iter().fold(0, u64::saturating_add);
            let unknown = slow.nanos.saturating_sub(known);
            slow.spent = Some(Spent { unknown, ..spent }).filter(Spent::is_known);
        }
        for ((number, reason), waited) in self.waits {
            let Some(slow) = slowest.get_mut(number) else { continue };
            if let Some(thread) = slow.thread {
                slow.waits.push(wait(world, thread, reason, waited));
            }
        }
        for slow in slowest {
            slow.waits.sort_by(|one, other| {
                let by_total = other.total.cmp(&one.total);
                let kind = |it: &Wait| (it.call.clone(), it.object.clone(), it.sleep);
                by_total.then_with(|| kind(one).cmp(&kind(other)))
            });
        }
    }
}

impl Observer for SlowestWaits {
    fn state(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        let Some(spans) = self.of.get(&thread) else { return };
        for &(number, begin, end) in spans {
            let (from, to) = (interval.from.max(begin), interval.to.min(end));
            let Some(spent) = self.spent.get_mut(number).filter(|_| from < to) else { continue };
            let nanos = to.abs_diff(from);
            let part = match interval.state {
                State::Running { .. } => &mut spent.running,
                State::Runnable { .. } => &mut spent.runnable,
                State::Blocked(reason) => {
                    let mut key = (number, Some(reason));
                    if self.waits.len() >= REASONS_MAX && !self.waits.contains_key(&key) {
                        key.1 = None;
                    }
                    self.waits.entry(key).or_default().add(interval.waker, nanos);
                    &mut spent.blocked
                }
                State::Unknown | State::Gone => &mut spent.unknown,
            };
            *part = part.saturating_add(nanos);
        }
    }

    fn timed_out(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        let (Some(spans), State::Blocked(reason)) = (self.of.get(&thread), interval.state) else {
            return;
        };
        for &(number, begin, end) in spans {
            let (from, to) = (interval.from.max(begin), interval.to.min(end));
            if from >= to {
                continue;
            }
            let key = (number, Some(reason));
            let key = if self.waits.contains_key(&key) { key } else { (number, None) };
            if let Some(waited) = self.waits.get_mut(&key) {
                waited.timed_out(interval.waker, to.abs_diff(from));
            }
        }
    }
}

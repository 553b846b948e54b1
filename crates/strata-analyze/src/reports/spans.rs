//! Spans: how many, how long; by name, process or thread; the slowest of all, and what they waited for.

use std::cmp::Reverse;
use std::collections::HashMap;

use strata_ctf::read::TimeRange;
use strata_filter::Pattern;
use strata_timeline::{
    Alone, AloneSpan, Interval, Name, Observer, Paired, Reason, Span, SpanKey, Spent, State,
    ThreadId, World,
};

use super::histogram::Histogram;
use super::label::Label;
use super::longest::{Kept, Longest};
use super::threads::{wait, Wait, Waited};

/// Rows that are kept; some 2 KiB each. What is more is in rows that belong to nobody.
const ROWS_MAX: usize = 1 << 15;
/// Reasons of waits that are kept of the slowest, all together.
const REASONS_MAX: usize = 1 << 16;

/// What rows are put together by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Those of a name, of all processes.
    #[default]
    Name,
    /// Those of a process and a name are one row.
    Process,
    /// Those of a thread and a name.
    Thread,
}

/// Spans of one name.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Whose; empty where rows are by name.
    pub label: Label,
    /// What they are called.
    pub name: String,
    /// How many have begun and ended.
    pub count: u64,
    /// How long, all together \[ns\].
    pub total: u64,
    /// The shortest \[ns\].
    pub min: u64,
    /// The longest \[ns\].
    pub max: u64,
    /// All of them \[ns\].
    pub times: Histogram,
    /// What their threads did meanwhile; of those that began and ended in one thread.
    pub spent: Spent,
}

impl Row {
    fn add(&mut self, span: &Span) {
        let nanos = span.nanos();
        self.min = if self.count == 0 { nanos } else { self.min.min(nanos) };
        self.max = self.max.max(nanos);
        self.count += 1;
        self.total = self.total.saturating_add(nanos);
        self.times.add(nanos);
        self.spent = self.spent.plus(span.spent.unwrap_or_default());
    }

    fn merge(&mut self, other: &Row) {
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.times.merge(&other.times);
        self.spent = self.spent.plus(other.spent);
    }

    /// How long one takes, as a rule \[ns\].
    #[must_use]
    pub fn mean(&self) -> u64 {
        self.total.checked_div(self.count).unwrap_or(0)
    }

    /// Such a part of all took no longer than this \[ns\].
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        self.times.quantile(part).unwrap_or(0).clamp(self.min, self.max)
    }
}

/// One of the slowest.
#[derive(Clone, Debug)]
pub struct Slow {
    /// The thread that it ended in.
    pub label: Label,
    /// The thread that it began in, if that is another one.
    pub begun_by: Option<Label>,
    /// What it is called.
    pub name: String,
    /// The event that began it.
    pub event: String,
    /// When it began \[ns since 1970\].
    pub begin: i64,
    /// How long it took \[ns\].
    pub nanos: u64,
    /// What tells it from others.
    pub key: Option<String>,
    /// What the thread that it ended in did meanwhile; `None`: nothing is known.
    pub spent: Option<Spent>,
    /// What that thread was blocked in, by falling time.
    pub waits: Vec<Wait>,
    /// That thread.
    thread: Option<ThreadId>,
}

/// Begins and ends that are alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AloneCounts {
    /// Ends without a begin.
    pub no_begin: u64,
    /// Begins without an end.
    pub no_end: u64,
    /// Begins behind which records were discarded.
    pub gap: u64,
    /// Begins whose key began again.
    pub again: u64,
    /// Begins that were one too many at once.
    pub too_many: u64,
}

/// What could not be known for sure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guesses {
    /// By thread, since one of the ends has no key.
    pub no_key: u64,
    /// By process and CPU, since nothing says which thread they are of.
    pub no_thread: u64,
    /// The ends have different values of a field that seems to be the span's id.
    pub disagree: u64,
}

impl AloneCounts {
    fn add(&mut self, more: AloneCounts) {
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

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// By falling time, then by name.
    pub rows: Vec<Row>,
    /// All rows as one.
    pub all: Row,
    /// By falling time.
    pub slowest: Vec<Slow>,
    /// Not counted in rows.
    pub alone: AloneCounts,
    /// Counted in rows.
    pub guesses: Guesses,
}

/// A span that may be one of the slowest: by its time, then the earlier one.
#[derive(Debug)]
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

/// Counts them.
#[derive(Debug)]
pub struct SpanCounter {
    range: TimeRange,
    of: Option<Pattern>,
    /// Whether the name is one that is asked for.
    wanted: HashMap<Name, bool>,
    rows: HashMap<(Option<ThreadId>, Name), Row>,
    slowest: Longest<SlowCandidate>,
    /// By the thread that they are of, if that is known.
    left: HashMap<Option<ThreadId>, (AloneCounts, Guesses)>,
}

impl SpanCounter {
    /// Of those that end in this time and have such a name, with so many of the slowest.
    #[must_use]
    pub fn new(range: TimeRange, of: Option<&str>, slowest: impl Into<Kept>) -> SpanCounter {
        SpanCounter {
            range,
            of: of.map(Pattern::glob),
            wanted: HashMap::new(),
            rows: HashMap::new(),
            slowest: Longest::new(slowest.into()),
            left: HashMap::new(),
        }
    }

    /// Where it is counted what is in no row, or was guessed; of too many threads, that is nobody's.
    fn left_of(&mut self, thread: Option<ThreadId>) -> &mut (AloneCounts, Guesses) {
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

    /// What was counted.
    #[must_use]
    pub fn finish(self, world: &World, by: By) -> Spans {
        self.finish_of(world, by, None)
    }

    /// The same of threads that are wanted; `None`: of all, and of what nobody knows whose it is.
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
            let by_total = other.total.cmp(&one.total);
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
        let (mut alone, mut guesses) = (AloneCounts::default(), Guesses::default());
        for (thread, (more, guessed)) in self.left {
            if is_of(thread) {
                alone.add(more);
                guesses.add(guessed);
            }
        }
        Spans { rows, all, slowest, alone, guesses }
    }
}

/// What tells a span from others, as text.
pub(crate) fn key_text(key: &SpanKey) -> String {
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

    fn alone(&mut self, world: &World, span: &AloneSpan) {
        let is_asked_for = span.selected && self.range.contains(span.time);
        if !is_asked_for || !self.is_wanted(world, span.name) {
            return;
        }
        let alone = &mut self.left_of(span.thread).0;
        *match span.why {
            Alone::NoBegin => &mut alone.no_begin,
            Alone::NoEnd => &mut alone.no_end,
            Alone::Gap => &mut alone.gap,
            Alone::Again => &mut alone.again,
            Alone::TooMany => &mut alone.too_many,
        } += 1;
    }
}

/// What the slowest waited for: asked in a second pass over the same records, when it is known which they are.
#[derive(Debug)]
pub struct SlowestWaits {
    /// By thread: the number, from when on and up to when of each.
    of: HashMap<ThreadId, Vec<(usize, i64, i64)>>,
    spent: Vec<Spent>,
    waits: HashMap<(usize, Option<Reason>), Waited>,
}

impl SlowestWaits {
    /// For these.
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

    /// Say it of each. `world`: that of the second pass, in which threads have the same numbers.
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
            if interval.from.max(begin) >= interval.to.min(end) {
                continue;
            }
            let key = (number, Some(reason));
            let key = if self.waits.contains_key(&key) { key } else { (number, None) };
            if let Some(waited) = self.waits.get_mut(&key) {
                waited.timed_out(interval.waker);
            }
        }
    }
}

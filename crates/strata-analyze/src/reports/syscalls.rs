//! System calls: how many, how long, which failed; by process, thread or name; and the slowest of all.

use std::collections::HashMap;

use strata_ctf::read::TimeRange;
use strata_timeline::{Call, CallId, Observer, ThreadId, Unpaired, UnpairedCall, World};

use super::histogram::Histogram;
use super::label::Label;
use super::longest::{Kept, Longest};

/// Rows that are kept; some 2 KiB each. What is more is in rows that belong to nobody.
const ROWS_MAX: usize = 1 << 15;

/// Of these, those that are found without a hash.
const RECENT: usize = 1 << 10;

/// What rows are put together by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Those of a process and a name are one row.
    #[default]
    Process,
    /// Those of a thread and a name.
    Thread,
    /// Those of a name, of all processes.
    Name,
}

/// System calls of one name.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Whose; empty where rows are by name.
    pub label: Label,
    /// The system call.
    pub name: String,
    /// How many have begun and ended.
    pub count: u64,
    /// Those that returned an error.
    pub errors: u64,
    /// How long, all together \[ns\].
    pub total: u64,
    /// The shortest \[ns\].
    pub min: u64,
    /// The longest \[ns\].
    pub max: u64,
    /// All of them \[ns\].
    pub times: Histogram,
}

impl Row {
    #[inline(always)]
    fn add(&mut self, call: &Call) {
        let nanos = call.nanos();
        self.min = if self.count == 0 { nanos } else { self.min.min(nanos) };
        self.max = self.max.max(nanos);
        self.count += 1;
        self.errors += u64::from(call.error().is_some());
        self.total = self.total.saturating_add(nanos);
        self.times.add(nanos);
    }

    fn merge(&mut self, other: &Row) {
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.errors += other.errors;
        self.total = self.total.saturating_add(other.total);
        self.times.merge(&other.times);
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// The thread that called.
    pub label: Label,
    /// The system call.
    pub name: String,
    /// When it began \[ns since 1970\].
    pub begin: i64,
    /// How long it took \[ns\].
    pub nanos: u64,
    /// What it returned.
    pub result: Option<i64>,
}

/// Those of which nobody knows how long they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnpairedCounts {
    /// Begun before the trace.
    pub no_begin: u64,
    /// Not over when the trace was.
    pub no_end: u64,
    /// With discarded records in between.
    pub gap: u64,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Syscalls {
    /// By falling time, then by name.
    pub rows: Vec<Row>,
    /// All rows as one.
    pub all: Row,
    /// By falling time.
    pub slowest: Vec<Slow>,
    /// Not counted in rows.
    pub unpaired: UnpairedCounts,
    /// Calls of which nobody knows any more whose they are, where those of some are asked for: not counted.
    pub of_nobody: u64,
}

/// Counts them.
#[derive(Debug)]
pub struct SyscallCounter {
    range: TimeRange,
    rows: HashMap<u64, usize>,
    counted: Vec<(Option<ThreadId>, CallId, Row)>,
    /// Rows that were counted in a moment ago, each at a place that follows from its key.
    recent: Vec<(u64, usize)>,
    slowest: Longest<(ThreadId, CallId, Option<i64>)>,
    unpaired: HashMap<ThreadId, UnpairedCounts>,
}

impl SyscallCounter {
    /// Of those that end in this time, with so many of the slowest.
    #[must_use]
    pub fn new(range: TimeRange, slowest: impl Into<Kept>) -> SyscallCounter {
        SyscallCounter {
            range,
            rows: HashMap::new(),
            counted: Vec::new(),
            recent: vec![(u64::MAX, 0); RECENT],
            slowest: Longest::new(slowest.into()),
            unpaired: HashMap::new(),
        }
    }

    #[inline]
    fn row(&mut self, thread: ThreadId, call: CallId) -> usize {
        let key = (thread.index() as u64) << 32 | call.index() as u64;
        let place = (thread.index() * 31 + call.index()) % RECENT;
        if let Some(&(_, row)) = self.recent.get(place).filter(|recent| recent.0 == key) {
            return row;
        }
        let row = self.rows.get(&key).copied().unwrap_or_else(|| self.new_row(key, thread, call));
        if let Some(recent) = self.recent.get_mut(place) {
            *recent = (key, row);
        }
        row
    }

    #[cold]
    fn new_row(&mut self, key: u64, thread: ThreadId, call: CallId) -> usize {
        // One for each name is all that is left then.
        let (key, thread) = match self.counted.len() < ROWS_MAX {
            true => (key, Some(thread)),
            false => (u64::MAX << 32 | call.index() as u64, None),
        };
        let next = self.counted.len();
        let row = *self.rows.entry(key).or_insert(next);
        if row == next {
            self.counted.push((thread, call, Row::default()));
        }
        row
    }

    /// What was counted.
    #[must_use]
    pub fn finish(self, world: &World, by: By) -> Syscalls {
        self.finish_of(world, by, None)
    }

    /// The same of threads that are wanted; `None`: of all.
    #[must_use]
    pub fn finish_of(
        self,
        world: &World,
        by: By,
        is_wanted: Option<&dyn Fn(&Label) -> bool>,
    ) -> Syscalls {
        let is_of = |thread| is_wanted.is_none_or(|is| is(&Label::thread(world, thread)));
        let mut rows: HashMap<(Option<ThreadId>, CallId), Row> = HashMap::new();
        let (mut all, mut of_nobody) = (Row::default(), 0);
        for (thread, call, counted) in self.counted {
            match thread {
                Some(thread) if !is_of(thread) => continue,
                None if is_wanted.is_some() => {
                    of_nobody += counted.count;
                    continue;
                }
                _ => {}
            }
            let key = match by {
                By::Process => thread.map(|thread| world.process_of(thread)),
                By::Thread => thread,
                By::Name => None,
            };
            all.merge(&counted);
            let row = rows.entry((key, call)).or_default();
            row.merge(&counted);
            if row.name.is_empty() {
                row.name = world.calls.name(call).to_owned();
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
        let slowest = self.slowest.finish().map(|(nanos, begin, (thread, call, result))| {
            let name = world.calls.name(call).to_owned();
            Slow { label: Label::thread(world, thread), name, begin, nanos, result }
        });
        let slowest = slowest.filter(|slow| is_wanted.is_none_or(|is| is(&slow.label))).collect();
        let mut unpaired = UnpairedCounts::default();
        for (thread, counts) in self.unpaired {
            if is_of(thread) {
                unpaired.no_begin += counts.no_begin;
                unpaired.no_end += counts.no_end;
                unpaired.gap += counts.gap;
            }
        }
        Syscalls { rows, all, slowest, unpaired, of_nobody }
    }
}

impl Observer for SyscallCounter {
    const STATES: bool = false;
    const INTERRUPTS: bool = false;

    #[inline(always)]
    fn call(&mut self, _: &World, call: &Call) {
        if !call.selected || !self.range.contains(call.end) {
            return;
        }
        let at = self.row(call.thread, call.call);
        let Some((_, _, row)) = self.counted.get_mut(at) else { return };
        row.add(call);
        let nanos = call.nanos();
        let what = (call.thread, call.call, call.result);
        self.slowest.add(nanos, call.begin, Some(call.thread), what);
    }

    fn unpaired(&mut self, world: &World, call: &UnpairedCall) {
        if !call.selected || !self.range.contains(world.now) {
            return;
        }
        let counts = self.unpaired.entry(call.thread).or_default();
        let count = match call.why {
            Unpaired::NoBegin => &mut counts.no_begin,
            Unpaired::NoEnd => &mut counts.no_end,
            Unpaired::Gap => &mut counts.gap,
        };
        *count += 1;
    }
}

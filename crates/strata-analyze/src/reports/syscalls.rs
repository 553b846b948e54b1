//! The report on system calls: their number, lengths and errors by process, thread or name, and the slowest calls.

use std::collections::HashMap;

use strata_ctf::read::TimeRange;
use strata_timeline::{Call, CallId, Observer, ThreadId, Unpaired, UnpairedCall, World};

use super::longest::{Longest, LongestLimit};
use super::program_groups::{Common, Programs};
use strata_report::Label;
use strata_report::Times;

/// The most rows that are kept; each takes some 2 KiB. Further calls are counted by name in rows without a process or
/// thread.
const ROWS_MAX: usize = 1 << 15;

/// The number of rows in the cache that is tried before the hash table.
const RECENT: usize = 1 << 10;

/// The choice of what one row of the report stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A row has one call in one process.
    #[default]
    Process,
    /// A row has one call in one thread.
    Thread,
    /// A row has one call in all processes.
    Name,
    /// A row has one call in all processes that have this in common.
    Together(Common),
}

/// A row: the system calls of one name.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The process or thread; empty if rows are about names.
    pub label: Label,
    pub name: String,
    /// The number of calls that returned an error.
    pub errors: u64,
    /// The lengths of the calls of which both ends are known.
    pub times: Times,
}

impl Row {
    #[inline(always)]
    fn add(&mut self, call: &Call) {
        self.errors += u64::from(call.error().is_some());
        self.times.add(call.nanos());
    }

    fn merge(&mut self, other: &Row) {
        self.errors += other.errors;
        self.times.merge(&other.times);
    }
}

/// One of the slowest calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// The thread that called.
    pub label: Label,
    pub name: String,
    /// The begin of the call \[ns since 1970\].
    pub begin: i64,
    /// The length of the call \[ns\].
    pub nanos: u64,
    /// The call's return value.
    pub result: Option<i64>,
}

/// The number of calls of which only one end is known, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnpairedCounts {
    /// Calls that began before the trace.
    pub no_begin: u64,
    /// Calls that had not returned at the end of the trace.
    pub no_end: u64,
    /// Calls with discarded records between begin and end.
    pub gap: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Syscalls {
    /// The rows, by falling time, then by name.
    pub rows: Vec<Row>,
    /// The sum of all rows.
    pub all: Row,
    /// The slowest calls, by falling time.
    pub slowest: Vec<Slow>,
    /// The number of calls of which only one end is known. They are in no row.
    pub unpaired: UnpairedCounts,
    /// The number of calls whose thread is no longer known and that are not counted, because the report is on some
    /// threads only.
    pub of_nobody: u64,
}

/// Counts system calls.
#[derive(Clone, Debug)]
pub struct SyscallCounter {
    range: TimeRange,
    rows: HashMap<u64, usize>,
    counted: Vec<(Option<ThreadId>, CallId, Row)>,
    /// A cache of the rows counted last, each with its key, at a place computed from the key.
    recent: Vec<(u64, usize)>,
    slowest: Longest<(ThreadId, CallId, Option<i64>)>,
    unpaired: HashMap<ThreadId, UnpairedCounts>,
}

impl SyscallCounter {
    /// Makes a counter for calls that end within `range`. It keeps the `slowest` slowest calls.
    #[must_use]
    pub fn new(range: TimeRange, slowest: impl Into<LongestLimit>) -> SyscallCounter {
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

    /// Returns the report.
    #[must_use]
    pub fn finish(self, world: &World, by: By) -> Syscalls {
        self.finish_of(world, by, None)
    }

    /// Returns the report on the threads that `is_wanted` accepts; with `None` on all.
    #[must_use]
    pub fn finish_of(
        self,
        world: &World,
        by: By,
        is_wanted: Option<&dyn Fn(&Label) -> bool>,
    ) -> Syscalls {
        let is_of = |thread| is_wanted.is_none_or(|is| is(&Label::thread(world, thread)));
        let mut rows: HashMap<(Option<ThreadId>, CallId), Row> = HashMap::new();
        let (mut all, mut of_nobody, mut programs) = (Row::default(), 0, Programs::default());
        for (thread, call, counted) in self.counted {
            match thread {
                Some(thread) if !is_of(thread) => continue,
                None if is_wanted.is_some() => {
                    of_nobody += counted.times.count;
                    continue;
                }
                _ => {}
            }
            let key = match by {
                By::Process => thread.map(|thread| world.process_of(thread)),
                By::Thread => thread,
                By::Name => None,
                By::Together(common) => thread.map(|thread| programs.of(world, common, thread)),
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
        if let By::Together(common) = by {
            for ((first, _), row) in &mut rows {
                let label = first.map(|first| programs.label(world, common, first));
                row.label = label.unwrap_or_default();
            }
        }
        let mut rows: Vec<Row> = rows.into_values().collect();
        rows.sort_by(|one, other| {
            let by_total = other.times.total.cmp(&one.times.total);
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

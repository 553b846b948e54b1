//! The time for which threads were blocked, by the stacks with which they left their CPUs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use strata_ctf::read::{Event, TimeRange};
use strata_timeline::{Interval, Observer, Reason, State, ThreadId, World};

use super::frames::{short, FrameId, Frames, StackScopes};
use super::label::Label;
use super::left::{is_switch, waits_since, Left};
use super::longest::{Kept, Longest};
use super::threads::{join_waits, sort_waits, wait, wait_of, Wait, Waited};
use super::times::Times;
use crate::debug_info::Source;

/// Stacks that are told apart.
const STACKS_MAX: usize = 1 << 16;
/// Stacks, by thread and reason, that are kept; some 1 KiB each.
const ROWS_MAX: usize = 1 << 15;

/// A stack, by its number.
type StackId = u32;
/// The one of waits that have none.
const NO_STACK: StackId = 0;

/// A stack, and the waits that began with it.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Whose: the thread if it is one, else the process if it is one.
    pub label: Label,
    /// Functions, the innermost first.
    pub frames: Vec<String>,
    /// A few of them.
    pub name: String,
    /// How long the waits were.
    pub times: Times,
    /// What they were for, by falling time.
    pub waits: Vec<Wait>,
    /// The threads, how often each and how long, by falling time.
    pub threads: Vec<(Label, u64, u64)>,
}

/// One of the longest waits.
#[derive(Clone, Debug)]
pub struct Long {
    /// The thread.
    pub label: Label,
    /// From when on \[ns since 1970\].
    pub from: i64,
    /// How long \[ns\].
    pub nanos: u64,
    /// What for; not who has ended it.
    pub wait: Wait,
    /// Functions, the innermost first.
    pub frames: Vec<String>,
    /// A few of them.
    pub name: String,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct OffCpuReport {
    /// By falling time.
    pub rows: Vec<Row>,
    /// All of them.
    pub all: Times,
    /// By falling time.
    pub longest: Vec<Long>,
    /// Waits without a stack, which are in a row of their own.
    pub without_stack: Times,
    /// Waits, of any thread, for whose row there was no room.
    pub left_out: Times,
    /// Whether any wait has a stack; if not, there are no rows.
    pub has_stacks: bool,
}

type OffcpuKey = (ThreadId, StackId, Reason);

/// Counts them.
#[derive(Debug)]
pub struct OffCpuCounter {
    range: TimeRange,
    frames: Frames,
    /// By class: of a switch, where its stacks are.
    classes: Vec<Option<Option<StackScopes>>>,
    /// By [`StackId`], the outermost frame first.
    stacks: Vec<Arc<[FrameId]>>,
    numbers: HashMap<Arc<[FrameId]>, StackId>,
    /// `None`: there was no room for its stack.
    left: Left<Option<StackId>>,
    counted: HashMap<OffcpuKey, (Times, Waited)>,
    longest: Longest<OffcpuKey>,
    left_out: Times,
}

impl OffCpuCounter {
    /// In this time, with so many of the longest waits.
    #[must_use]
    pub fn new(range: TimeRange, longest: impl Into<Kept>, source: Source) -> OffCpuCounter {
        let mut frames = Frames::new(source);
        // What frames are called that are too many.
        frames.of("[others]");
        let none: Arc<[FrameId]> = Arc::new([frames.no_stack()]);
        OffCpuCounter {
            range,
            frames,
            classes: Vec::new(),
            stacks: vec![none.clone()],
            numbers: HashMap::from([(none, NO_STACK)]),
            left: Left::default(),
            counted: HashMap::new(),
            longest: Longest::new(longest.into()),
            left_out: Times::default(),
        }
    }

    fn scopes(&mut self, event: &Event<'_>) -> Option<StackScopes> {
        let index = event.class().index();
        if self.classes.len() <= index {
            self.classes.resize(index + 1, None);
        }
        *self.classes.get_mut(index)?.get_or_insert_with(|| {
            let scopes = StackScopes::of(event.class());
            (is_switch(event.class().name()) && scopes.is_any()).then_some(scopes)
        })
    }

    fn number(&mut self, stack: &[FrameId]) -> Option<StackId> {
        if let Some(&number) = self.numbers.get(stack) {
            return Some(number);
        }
        let number = StackId::try_from(self.stacks.len()).ok()?;
        if self.stacks.len() >= STACKS_MAX {
            return None;
        }
        let stack: Arc<[FrameId]> = stack.into();
        self.stacks.push(stack.clone());
        self.numbers.insert(stack, number);
        Some(number)
    }

    /// How much of a wait is in the time asked for \[ns\], and what it is counted by: `None` if there is no room.
    fn part(&self, thread: ThreadId, interval: &Interval) -> Option<(u64, Option<OffcpuKey>)> {
        let State::Blocked(reason) = interval.state else { return None };
        let (from, to) = (interval.from.max(self.range.from), interval.to.min(self.range.to));
        if from >= to {
            return None;
        }
        let stack = self.left.get(thread, interval.from).copied().unwrap_or(Some(NO_STACK));
        let key = stack.map(|stack| (thread, stack, reason));
        Some((to.abs_diff(from), key))
    }

    fn names(&self, stack: StackId) -> Vec<String> {
        let frames = usize::try_from(stack).ok().and_then(|at| self.stacks.get(at));
        let frames = frames.into_iter().flat_map(|frames| frames.iter().rev());
        frames.map(|&frame| self.frames.name(frame).to_owned()).collect()
    }

    /// What was counted, of threads that are wanted.
    #[must_use]
    pub fn finish(mut self, world: &World, is_wanted: &dyn Fn(&Label) -> bool) -> OffCpuReport {
        let has_stacks = self.stacks.len() > 1;
        let mut report = OffCpuReport { has_stacks, ..OffCpuReport::default() };
        if !report.has_stacks {
            return report;
        }
        let mut counted: Vec<_> = self.counted.iter().collect();
        counted.sort_by_key(|(key, _)| **key);
        let mut rows: BTreeMap<StackId, Row> = BTreeMap::new();
        for (&(thread, stack, reason), (times, waited)) in counted {
            let label = Label::thread(world, thread);
            if !is_wanted(&label) {
                continue;
            }
            report.all.merge(times);
            if stack == NO_STACK {
                report.without_stack.merge(times);
            }
            let row = rows.entry(stack).or_default();
            row.times.merge(times);
            row.waits.push(wait(world, thread, Some(reason), waited.clone()));
            // Those of a thread come one behind the other.
            match row.threads.last_mut().filter(|(known, ..)| *known == label) {
                Some((_, count, total)) => {
                    *count += times.count;
                    *total = total.saturating_add(times.total);
                }
                None => row.threads.push((label, times.count, times.total)),
            }
        }
        for (stack, mut row) in rows {
            join_waits(&mut row.waits);
            sort_waits(&mut row.waits);
            row.label = common(&row.threads);
            row.threads.sort_by(|one, other| (other.2, &one.0).cmp(&(one.2, &other.0)));
            row.frames = self.names(stack);
            row.name = short(&row.frames);
            report.rows.push(row);
        }
        report.rows.sort_by(|one, other| {
            let by_total = other.times.total.cmp(&one.times.total);
            by_total.then_with(|| one.frames.cmp(&other.frames))
        });
        let longest = std::mem::replace(&mut self.longest, Longest::new(0.into())).finish();
        for (nanos, from, (thread, stack, reason)) in longest {
            let label = Label::thread(world, thread);
            if is_wanted(&label) {
                let wait = wait_of(world, thread, Some(reason));
                let frames = self.names(stack);
                let name = short(&frames);
                report.longest.push(Long { label, from, nanos, wait, frames, name });
            }
        }
        report.left_out = self.left_out;
        report
    }
}

/// Whose all of these are: a thread, or a process.
fn common(threads: &[(Label, u64, u64)]) -> Label {
    let Some((first, ..)) = threads.first() else { return Label::default() };
    if threads.len() == 1 {
        return first.clone();
    }
    let process = |label: &Label| Label { thread: None, tid: None, ..label.clone() };
    let one = process(first);
    match threads.iter().all(|(label, ..)| process(label) == one) && one.pid.is_some() {
        true => one,
        false => Label::default(),
    }
}

impl Observer for OffCpuCounter {
    const RECORDS: bool = true;

    fn record(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>, _: bool) {
        self.frames.learn(event);
        let Some(scopes) = self.scopes(event) else { return };
        let Some(who) = who else { return };
        let Some(since) = waits_since(world, event, who) else { return };
        let pid = self.frames.process(world, event, who);
        let (stack, is_any) = self.frames.stack(event, scopes, pid);
        let number = if is_any { self.number(&stack) } else { Some(NO_STACK) };
        self.left.put(who, number, since);
    }

    fn state(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        let Some((nanos, key)) = self.part(thread, interval) else { return };
        let is_full = self.counted.len() >= ROWS_MAX;
        let Some(key) = key.filter(|key| !is_full || self.counted.contains_key(key)) else {
            return self.left_out.add(nanos);
        };
        let (times, waited) = self.counted.entry(key).or_default();
        times.add(nanos);
        waited.add(interval.waker, nanos);
        self.longest.add(nanos, interval.from.max(self.range.from), Some(thread), key);
    }

    fn timed_out(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        let Some((_, Some(key))) = self.part(thread, interval) else { return };
        if let Some((_, waited)) = self.counted.get_mut(&key) {
            waited.timed_out(interval.waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_have_numbers_up_to_the_limit() {
        let mut counter = OffCpuCounter::new(TimeRange::ALL, 0, Source::default());
        let last = STACKS_MAX as u32 - 1;
        for frame in 1..=last {
            assert_eq!(counter.number(&[frame, frame]), Some(frame));
        }
        assert_eq!((counter.number(&[0]), counter.number(&[last, last])), (None, Some(last)));
    }
}

//! The time for which threads were blocked, by the stacks with which they left their CPUs, or with which others woke them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use strata_ctf::read::{Event, TimeRange};
use strata_timeline::{Interval, Observer, Reason, State, ThreadId, Waker, World};

use super::frames::{short, FrameId, Frames, StackScopes};
use super::longest::{Longest, LongestLimit};
use super::threads::{join_waits, sort_waits, wait, wait_of, Wait, Waited};
use super::wait_starts::{is_switch, waits_since, Left};
use super::wakings::{is_waking, EndedWaits};
use crate::debug_info::Source;
use crate::fast_hash::Mix;
use strata_report::Label;
use strata_report::Times;

/// The most stacks that are distinguished.
const STACKS_MAX: usize = 1 << 16;
/// The most combinations of thread, stack and reason that are kept; each takes some 1 KiB.
const ROWS_MAX: usize = 1 << 15;

/// The number of a call stack.
type StackId = u32;
/// The number that stands for no stack.
const NO_STACK: StackId = 0;

/// The waits that began with one stack.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The waiting thread if there is only one; else its process, if all threads are of one process; else empty.
    pub label: Label,
    /// The functions of the stack, the innermost first.
    pub frames: Vec<String>,
    pub name: String,
    /// The lengths of the waits.
    pub times: Times,
    /// The reasons of the waits, by falling time.
    pub waits: Vec<Wait>,
    /// The waiting threads with the number and total time \[ns\] of their waits, by falling time.
    pub threads: Vec<(Label, u64, u64)>,
}

/// One of the longest waits.
#[derive(Clone, Debug)]
pub struct Long {
    /// The waiting thread.
    pub label: Label,
    /// The begin of the wait \[ns since 1970\].
    pub from: i64,
    /// The length of the wait \[ns\].
    pub nanos: u64,
    /// The reason of the wait, without its waker.
    pub wait: Wait,
    /// The functions of the stack, the innermost first.
    pub frames: Vec<String>,
    pub name: String,
}

#[derive(Clone, Debug, Default)]
pub struct OffCpuReport {
    /// The rows, by falling time.
    pub rows: Vec<Row>,
    /// The sum of all waits.
    pub all: Times,
    /// The longest waits, by falling time.
    pub longest: Vec<Long>,
    /// The waits without a stack, which share a row.
    pub without_stack: Times,
    /// The waits, of any thread, for whose row there was no room.
    pub left_out: Times,
    /// True if any wait has a stack. If false, there are no rows.
    pub has_stacks: bool,
}

/// The choice of the call stack by which waits are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StackOf {
    /// The stack with which the waiting thread left its CPU.
    #[default]
    Waiter,
    /// The stack with which another thread, or an interrupt, woke the waiting thread.
    Waker,
}

/// A wait that has ended and is not counted yet, because its waker's stack is not known.
#[derive(Debug)]
struct Awaited {
    reason: Reason,
    nanos: u64,
    /// Begin of the part that is in the time of the report \[ns since 1970\].
    from: i64,
    /// The stack by which the wait counts; `None` if there was no room for it.
    stack: Option<StackId>,
}

type OffcpuKey = (ThreadId, StackId, Reason);

/// Counts waits by the stacks with which threads left their CPUs.
#[derive(Debug)]
pub struct OffCpuCounter {
    range: TimeRange,
    of: StackOf,
    frames: Frames,
    /// The scopes of call stacks in records of switches, or of wakers, by the class' index.
    classes: Vec<Option<Option<StackScopes>>>,
    /// Stacks by [`StackId`], the outermost frame first.
    stacks: Vec<Arc<[FrameId]>>,
    numbers: HashMap<Arc<[FrameId]>, StackId>,
    /// The stack with which each thread left its CPU; `None` if there was no room for it.
    left: Left<Option<StackId>>,
    ended: EndedWaits<Awaited>,
    counted: HashMap<OffcpuKey, (Times, Waited), Mix>,
    longest: Longest<OffcpuKey>,
    left_out: Times,
}

impl OffCpuCounter {
    /// Makes a counter for `range` that keeps the `longest` longest waits.
    #[must_use]
    pub fn new(
        range: TimeRange,
        longest: impl Into<LongestLimit>,
        source: Source,
    ) -> OffCpuCounter {
        let mut frames = Frames::new(source);
        let none: Arc<[FrameId]> = Arc::new([frames.no_stack()]);
        OffCpuCounter {
            range,
            of: StackOf::Waiter,
            frames,
            classes: Vec::new(),
            stacks: vec![none.clone()],
            numbers: HashMap::from([(none, NO_STACK)]),
            left: Left::default(),
            ended: EndedWaits::default(),
            counted: HashMap::default(),
            longest: Longest::new(longest.into()),
            left_out: Times::default(),
        }
    }

    /// Counts waits by these stacks.
    #[must_use]
    pub fn by(self, of: StackOf) -> OffCpuCounter {
        OffCpuCounter { of, ..self }
    }

    fn scopes(&mut self, event: &Event<'_>) -> Option<StackScopes> {
        let index = event.class().index();
        if self.classes.len() <= index {
            self.classes.resize(index + 1, None);
        }
        *self.classes.get_mut(index)?.get_or_insert_with(|| {
            let scopes = StackScopes::of(event);
            let name = event.class().name();
            let is_one = match self.of {
                StackOf::Waiter => is_switch(name),
                StackOf::Waker => is_waking(name),
            };
            (is_one && scopes.is_any()).then_some(scopes)
        })
    }

    fn number(&mut self, stack: &[FrameId]) -> Option<StackId> {
        number_of(&mut self.stacks, &mut self.numbers, stack)
    }

    /// Returns the part of a wait that is within the time range of the report.
    fn part(&self, interval: &Interval) -> Option<Awaited> {
        let State::Blocked(reason) = interval.state else { return None };
        let (from, to) = (interval.from.max(self.range.from), interval.to.min(self.range.to));
        let nanos = to.abs_diff(from);
        (from < to).then_some(Awaited { reason, nanos, from, stack: Some(NO_STACK) })
    }

    /// Adds a wait to its row, if there is room.
    fn count(&mut self, thread: ThreadId, wait: &Awaited, waker: Waker) {
        let Awaited { reason, nanos, from, stack } = *wait;
        let is_full = self.counted.len() >= ROWS_MAX;
        let key = stack.map(|stack| (thread, stack, reason));
        let Some(key) = key.filter(|key| !is_full || self.counted.contains_key(key)) else {
            return self.left_out.add(nanos);
        };
        let (times, waited) = self.counted.entry(key).or_default();
        times.add(nanos);
        waited.add(waker, nanos);
        self.longest.add(nanos, from, Some(thread), key);
    }

    /// Takes the stack of a waker for the wait that it has ended.
    fn woken(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>) {
        let scopes = self.scopes(event);
        let Some(ended) = self.ended.ended_by(world, event) else { return };
        let Some(scopes) = scopes else { return };
        // An interrupt's own stack is the kernel's: the program was not asked.
        let is_thread = matches!(ended.waker, Waker::Thread { .. });
        let scopes = if is_thread { scopes } else { scopes.of_kernel() };
        let pid = who.and_then(|who| self.frames.process(world, event, who));
        let (stack, is_any) = self.frames.stack(event, scopes, pid);
        let stack = ended.of_waker(&self.frames, &stack);
        let number = if is_any {
            number_of(&mut self.stacks, &mut self.numbers, stack)
        } else {
            Some(NO_STACK)
        };
        ended.what.stack = number;
    }

    fn names(&self, stack: StackId) -> Vec<String> {
        let frames = usize::try_from(stack).ok().and_then(|at| self.stacks.get(at));
        let frames = frames.into_iter().flat_map(|frames| frames.iter().rev());
        frames.map(|&frame| self.frames.name(frame).to_owned()).collect()
    }

    /// Returns the report, with threads that `is_wanted` accepts.
    #[must_use]
    pub fn finish(mut self, world: &World, is_wanted: &dyn Fn(&Label) -> bool) -> OffCpuReport {
        for (thread, wait) in self.ended.rest() {
            self.count(thread, &wait.what, wait.waker);
        }
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

/// Returns the number of a stack, which is added if there is room.
fn number_of(
    stacks: &mut Vec<Arc<[FrameId]>>,
    numbers: &mut HashMap<Arc<[FrameId]>, StackId>,
    stack: &[FrameId],
) -> Option<StackId> {
    if let Some(&number) = numbers.get(stack) {
        return Some(number);
    }
    let number = StackId::try_from(stacks.len()).ok()?;
    if stacks.len() >= STACKS_MAX {
        return None;
    }
    let stack: Arc<[FrameId]> = stack.into();
    stacks.push(stack.clone());
    numbers.insert(stack, number);
    Some(number)
}

/// Returns the label that all these threads share: the only thread, or the process of all; empty if the threads
/// belong to several processes.
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
        if self.of == StackOf::Waker {
            return self.woken(world, event, who);
        }
        let Some(scopes) = self.scopes(event) else { return };
        let Some(who) = who else { return };
        let Some(since) = waits_since(world, event, who) else { return };
        let pid = self.frames.process(world, event, who);
        let (stack, is_any) = self.frames.stack(event, scopes, pid);
        let number = if is_any { self.number(&stack) } else { Some(NO_STACK) };
        self.left.put(who, number, since);
    }

    fn state(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        let Some(mut wait) = self.part(interval) else { return };
        match self.of {
            StackOf::Waiter => {
                let stack = self.left.get(thread, interval.from).copied();
                wait.stack = stack.unwrap_or(Some(NO_STACK));
                self.count(thread, &wait, interval.waker);
            }
            StackOf::Waker => {
                if let Some(before) = self.ended.put(thread, interval, wait) {
                    self.count(thread, &before.what, before.waker);
                }
            }
        }
    }

    fn timed_out(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        if self.of == StackOf::Waker {
            return self.ended.timed_out(thread, interval);
        }
        let Some(Awaited { reason, nanos, .. }) = self.part(interval) else { return };
        let stack = self.left.get(thread, interval.from).copied().unwrap_or(Some(NO_STACK));
        let known = stack.and_then(|stack| self.counted.get_mut(&(thread, stack, reason)));
        if let Some((_, waited)) = known {
            waited.timed_out(interval.waker, nanos);
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

//! Flame graphs: call stacks with weights. A weight is the number of records, the time in which threads were blocked
//! with that stack, or the time in nested spans.

use std::collections::HashMap;
use std::rc::Rc;

use strata_ctf::read::{Event, Reader, TimeRange};
use strata_timeline::{
    Interval, Observer, Paired, Span, State, ThreadId, UnpairedReason, UnpairedSpan, Waker, World,
};

use super::frames::{is_of_kernel, FrameId, Frames, StackClasses, StackScopes};
use super::threads::ended_by;
use super::wait_starts::{is_switch, waits_since, Left};
use super::wakings::{EndedWait, EndedWaits};
use crate::debug_info::Source;
use strata_report::Label;

/// The most stacks that are counted separately. Further stacks of a process are counted as one, further pairs without
/// their process.
const STACKS_MAX: usize = 1 << 18;
/// The most bytes of all stacks as text. A frame counts with its name and [`FRAME_BYTES`].
const BYTES_MAX: usize = 128 << 20;
const FRAME_BYTES: usize = 4;
/// The most threads for which the times of nested spans are kept.
const THREADS_MAX: usize = 1 << 16;

/// The measure that is summed up for each call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weigh {
    /// The number of records with the stack.
    Records,
    /// The time for which a thread was blocked after it left its CPU with the stack \[ns\].
    OffCpu,
    /// The same time \[ns\], by that stack together with the one at which another thread or an interrupt ended the
    /// wait.
    OffWake,
    /// The time in a span, without the time in spans nested in it \[ns\].
    Spans,
}

/// The stacks of one process, with their weights.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The process' name.
    pub name: String,
    /// The process' number.
    pub pid: Option<i32>,
    /// The label of the process, as in other reports.
    pub label: Label,
    /// The names of a stack's frames, the outermost first, and its weight. Sorted by names.
    pub stacks: Vec<(Vec<Rc<str>>, u64)>,
}

/// The stacks of all processes.
#[derive(Clone, Debug, Default)]
pub struct Flame {
    /// The profiles, by falling weight.
    pub profiles: Vec<Profile>,
    /// The sum of all weights.
    pub total: u64,
    /// The names of the events that were counted, each with the number of its records.
    pub events: Vec<(String, u64)>,
    /// The number of records whose stack has no address. They are counted as well.
    pub empty: u64,
    /// The number of spans that are not counted, because they do not belong to one known thread.
    pub elsewhere: u64,
    /// The number of records whose stacks were beyond the limit, and are counted in one stack of their process.
    pub left_out: u64,
}

/// Returns true if records of the traces may have call stacks.
#[must_use]
pub fn has_stacks(reader: &Reader) -> bool {
    has_stacks_of(reader, &|_| true)
}

/// Returns true if the traces have call stacks with which threads left their CPUs.
#[must_use]
pub fn has_stacks_of_waits(reader: &Reader) -> bool {
    has_stacks_of(reader, &is_switch)
}

fn has_stacks_of(reader: &Reader, is_of: &dyn Fn(&str) -> bool) -> bool {
    let is_stack = |name: &str| ["callstack_user", "callstack_kernel"].contains(&name);
    let streams = reader.traces().iter().flat_map(|trace| &trace.schema().streams);
    let mut parts = streams.flat_map(|stream| {
        let events = stream.events.iter().filter(|it| is_of(&it.name));
        let is_any = events.clone().next().is_some();
        let of_events = events.flat_map(|it| [&it.specific_context, &it.payload]);
        of_events.chain(is_any.then_some(&stream.event_common_context)).flatten()
    });
    parts.any(|part| part.members.iter().any(|member| is_stack(&member.name)))
}

type Stack = (Option<ThreadId>, Box<[FrameId]>);

/// The frame between the stack of a thread that waited and that of its waker.
const WOKEN_BY: &str = "--";

/// A wait with its stack, its length \[ns\], and the stack of its waker: the outermost frame first, and the waker's process.
#[derive(Debug)]
struct Woken {
    stack: Stack,
    nanos: u64,
    waker: Box<[FrameId]>,
    process: Option<FrameId>,
}

/// The values that one process adds to [`Flame::elsewhere`] and [`Flame::left_out`].
#[derive(Clone, Copy, Debug, Default)]
struct Aside {
    elsewhere: u64,
    left_out: u64,
}

/// Builds profiles from the call stacks of records.
#[derive(Debug)]
pub struct FlameMaker {
    range: TimeRange,
    weigh: Weigh,
    frames: Frames,
    /// The places of call stacks in the records of each class.
    classes: StackClasses,
    /// The weight of each stack. The key's flag separates samples from other records.
    stacks: HashMap<(bool, Stack), u64>,
    /// The stack with which each thread left its CPU to wait; `None` if the filter does not select that record.
    left: Left<Option<Stack>>,
    /// Waits whose wakers' stacks are not added yet.
    ended: EndedWaits<Woken>,
    /// For each thread and depth, the time of spans that have ended within the open one.
    inner: HashMap<ThreadId, Vec<u64>>,
    has_samples: bool,
    /// The number of records, and of those without an address, by class and process. Beyond the limit, by class only.
    counts: HashMap<(usize, Option<ThreadId>), (u64, u64)>,
    /// The number of records of each process that are not in the profile: their stacks are beyond the limit, or their
    /// spans have no thread. The key `None` has those of unknown processes and of processes beyond the limit.
    aside: HashMap<Option<ThreadId>, Aside>,
    /// The most stacks that are distinguished, by default [`STACKS_MAX`].
    most: usize,
    /// The size of all stacks as text \[byte\].
    bytes: usize,
}

impl FlameMaker {
    /// Makes profiles of the records within `range`, weighed by `weigh`.
    #[must_use]
    pub fn new(range: TimeRange, weigh: Weigh, source: Source) -> FlameMaker {
        let frames = Frames::new(source);
        FlameMaker {
            range,
            weigh,
            frames,
            classes: StackClasses::default(),
            stacks: HashMap::new(),
            left: Left::default(),
            ended: EndedWaits::default(),
            inner: HashMap::new(),
            has_samples: false,
            counts: HashMap::new(),
            aside: HashMap::new(),
            most: STACKS_MAX,
            bytes: 0,
        }
    }

    /// Sets the most stacks that are distinguished.
    #[cfg(test)]
    pub(super) fn with_most(self, most: usize) -> FlameMaker {
        FlameMaker { most, ..self }
    }

    fn is_off_cpu(&self) -> bool {
        matches!(self.weigh, Weigh::OffCpu | Weigh::OffWake)
    }

    fn add(&mut self, is_sample: bool, stack: Stack, weight: u64) {
        let mut key = (is_sample, stack);
        if !self.stacks.contains_key(&key) {
            let names = key.1 .1.iter().map(|&frame| self.frames.name(frame).len() + FRAME_BYTES);
            let bytes: usize = names.sum();
            if self.stacks.len() >= self.most || self.bytes + bytes > BYTES_MAX {
                key.1 .1 = Box::new([0]);
                self.aside(key.1 .0).left_out += 1;
            } else {
                self.bytes += bytes;
            }
        }
        let known = self.stacks.entry(key).or_default();
        *known = known.saturating_add(weight);
    }

    /// Adds a wait with its stack, followed by the waker's stack from the innermost frame on, which ends with the
    /// name of the waker's process.
    fn add_woken(&mut self, wait: EndedWait<Woken>) {
        let Woken { stack: (process, frames), nanos, waker, process: by } = wait.what;
        let is_thread = matches!(wait.waker, Waker::Thread { .. });
        let mut all = frames.into_vec();
        all.push(self.frames.of(WOKEN_BY));
        // What an interrupt has interrupted did not wake anybody.
        let of_waker = waker.iter().rev();
        let kept = of_waker.filter(|frame| is_thread || is_of_kernel(self.frames.name(**frame)));
        all.extend(kept);
        all.push(match (is_thread, ended_by(wait.waker)) {
            (true, _) => by.unwrap_or_else(|| self.frames.of("[unknown]")),
            (false, "") => self.frames.of("[unknown]"),
            (false, what) => self.frames.of(&format!("[{what}]")),
        });
        self.add(false, (process, all.into()), nanos);
    }

    /// Takes the stack of a waker for the wait that it has ended.
    fn woken(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>) {
        let Some(wait) = self.ended.ended_by(world, event) else { return };
        let scopes = self.classes.of(event).map(|class| class.scopes);
        let scopes = scopes.filter(|scopes| scopes.is_any());
        if let Some(scopes) = scopes {
            let pid = who.and_then(|who| self.frames.process(world, event, who));
            let stack = self.frames.stack(event, scopes, pid).0;
            wait.what.waker = wait.of_waker(&self.frames, &stack).into();
        }
        wait.what.process = who.map(|who| {
            let name = world.process_name(world.process_of(who));
            self.frames.of(if name.is_empty() { "[unknown]" } else { &name })
        });
    }

    fn aside(&mut self, process: Option<ThreadId>) -> &mut Aside {
        let is_full = self.aside.len() >= self.most;
        let process = process.filter(|_| !is_full || self.aside.contains_key(&process));
        self.aside.entry(process).or_default()
    }

    fn count(&mut self, event: &Event<'_>, process: Option<ThreadId>, is_any: bool) {
        let class = event.class().index();
        let is_full = self.counts.len() >= self.most;
        let process = process.filter(|_| !is_full || self.counts.contains_key(&(class, process)));
        let (count, empty) = self.counts.entry((class, process)).or_default();
        *count += 1;
        *empty += u64::from(!is_any);
    }

    /// Returns a record's stack, the outermost frame first, and true if it has an address.
    fn stack(
        &mut self,
        world: &World,
        event: &Event<'_>,
        scopes: StackScopes,
        who: Option<ThreadId>,
    ) -> (Stack, bool) {
        let process = who.map(|who| world.process_of(who));
        let pid = who.and_then(|who| self.frames.process(world, event, who));
        let (frames, is_any) = self.frames.stack(event, scopes, pid);
        ((process, frames), is_any)
    }

    /// Returns the profiles of processes that `is_wanted` accepts.
    #[must_use]
    pub fn finish(mut self, world: &World, is_wanted: &dyn Fn(&Label) -> bool) -> Flame {
        for (_, wait) in self.ended.rest() {
            self.add_woken(wait);
        }
        let mut known: HashMap<Option<ThreadId>, bool> = HashMap::new();
        let mut is_of = |process: Option<ThreadId>| {
            *known.entry(process).or_insert_with(|| {
                let label = process.map(|process| Label::process(world, process));
                is_wanted(&label.unwrap_or_default())
            })
        };
        let by_samples = self.has_samples && self.weigh == Weigh::Records;
        // Where no wait has a stack, there is nothing to compare with those that began before the recording.
        let is_without = self.is_off_cpu() && self.counts.is_empty();
        let mut processes: HashMap<Option<ThreadId>, Profile> = HashMap::new();
        let mut total = 0_u64;
        for ((is_sample, (process, frames)), weight) in self.stacks {
            if is_without || weight == 0 || by_samples && !is_sample || !is_of(process) {
                continue;
            }
            total = total.saturating_add(weight);
            let profile = processes.entry(process).or_default();
            let names = frames.iter().map(|&frame| self.frames.shared(frame));
            profile.stacks.push((names.collect(), weight));
        }
        let mut profiles: Vec<Profile> = Vec::new();
        for (process, mut profile) in processes {
            profile.name = process.map(|id| world.process_name(id)).unwrap_or_default();
            if profile.name.is_empty() {
                profile.name = "[unknown]".to_owned();
            }
            profile.pid = process.and_then(|id| world.threads.get(id)).map(|it| it.tid);
            profile.label = process.map(|id| Label::process(world, id)).unwrap_or_default();
            profile.stacks.sort();
            profiles.push(profile);
        }
        let weight = |profile: &Profile| -> u64 {
            profile.stacks.iter().map(|(_, weight)| *weight).fold(0, u64::saturating_add)
        };
        profiles.sort_by_cached_key(|it| (std::cmp::Reverse(weight(it)), it.name.clone(), it.pid));
        let (mut events, mut empty): (HashMap<&str, u64>, u64) = (HashMap::new(), 0);
        for ((class, process), (count, without)) in self.counts {
            let class = self.classes.get(class);
            let class = class.filter(|class| !by_samples || class.is_sample);
            let Some(class) = class.filter(|_| is_of(process)) else { continue };
            *events.entry(&class.name).or_default() += count;
            empty += without;
        }
        let events = events.into_iter().map(|(name, count)| (name.to_owned(), count));
        let mut events: Vec<(String, u64)> = events.collect();
        events.sort();
        let (mut elsewhere, mut left_out) = (0, 0);
        for (process, aside) in self.aside {
            // What is nobody's may be of one who is wanted.
            if process.is_none() || is_of(process) {
                elsewhere += aside.elsewhere;
                left_out += aside.left_out;
            }
        }
        Flame { profiles, total, events, empty, elsewhere, left_out }
    }
}

impl Observer for FlameMaker {
    const RECORDS: bool = true;

    fn record(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>, selected: bool) {
        self.frames.learn(event);
        if self.weigh == Weigh::Spans {
            return;
        }
        let weigh = self.weigh;
        if weigh == Weigh::OffWake {
            self.woken(world, event, who);
        }
        let is_there = event.time().is_some_and(|time| self.range.contains(time));
        let class = self.classes.of(event).filter(|class| class.scopes.is_any());
        let Some(class) = class.filter(|class| !class.is_description) else { return };
        let (scopes, is_sample) = (class.scopes, class.is_sample);
        match weigh {
            Weigh::Records if selected && is_there => {
                let (stack, is_any) = self.stack(world, event, scopes, who);
                self.count(event, stack.0, is_any);
                self.has_samples |= is_sample;
                self.add(is_sample, stack, 1);
            }
            Weigh::OffCpu | Weigh::OffWake if class.is_switch => {
                let Some(who) = who else { return };
                let Some(since) = waits_since(world, event, who) else { return };
                if !selected {
                    return self.left.put(who, None, since);
                }
                let (stack, is_any) = self.stack(world, event, scopes, Some(who));
                self.count(event, stack.0, is_any);
                self.left.put(who, Some(stack), since);
            }
            _ => {}
        }
    }

    fn state(&mut self, world: &World, thread: ThreadId, interval: &Interval) {
        if !self.is_off_cpu() || !matches!(interval.state, State::Blocked(_)) {
            return;
        }
        let stack = match self.left.take(thread, interval.from) {
            Some(Some(stack)) => stack,
            Some(None) => return,
            // No record says how the wait began: it began before the recording. As in the report by stack, it has none.
            None => (Some(world.process_of(thread)), Box::from([self.frames.no_stack()])),
        };
        let (from, to) = (interval.from.max(self.range.from), interval.to.min(self.range.to));
        if from >= to {
            return;
        }
        let nanos = to.abs_diff(from);
        if self.weigh == Weigh::OffCpu {
            return self.add(false, stack, nanos);
        }
        let wait = Woken { stack, nanos, waker: Box::default(), process: None };
        if self.ended.count() >= THREADS_MAX && !self.ended.has(thread) {
            // Of more threads than that, nobody's waker is known.
            let (waker, from) = (Waker::Unknown, interval.from);
            return self.add_woken(EndedWait { what: wait, waker, from });
        }
        if let Some(before) = self.ended.put(thread, interval, wait) {
            self.add_woken(before);
        }
    }

    fn timed_out(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        self.ended.timed_out(thread, interval);
    }

    fn span(&mut self, world: &World, span: &Span) {
        if self.weigh != Weigh::Spans || span.end > self.range.to {
            return;
        }
        // What has ended before is not shown, and is not the time of what is around it.
        let is_there = self.range.contains(span.end);
        let one = span.thread.filter(|_| span.thread == span.begun_by);
        let by_thread = matches!(span.paired, Paired::Thread | Paired::NoKey);
        let Some(who) = one.filter(|_| by_thread) else {
            // As in the report of spans, it is of the thread in which it ended.
            let process = span.thread.or(span.begun_by).map(|who| world.process_of(who));
            return self.aside(process).elsewhere += u64::from(is_there);
        };
        let Some(thread) = world.threads.get(who) else { return };
        let depth = thread.in_spans().len();
        let process = world.process_of(who);
        let pid = world.threads.get(process).map(|it| it.tid.into());
        let mut frames = Vec::with_capacity(depth + 1);
        for (name, address) in thread.in_spans().chain([(span.name, span.address)]) {
            frames.push(match (address, pid) {
                (Some(address), Some(pid)) => self.frames.user(pid, address, false),
                _ => self.frames.of(&world.names.text(name)),
            });
        }
        if self.inner.len() >= THREADS_MAX && !self.inner.contains_key(&who) {
            return self.aside(Some(process)).left_out += u64::from(is_there);
        }
        let inner = self.inner.entry(who).or_default();
        // What has ended in it; also in those in it that were left without an end.
        let within = inner.drain((depth + 1).min(inner.len())..).fold(0, u64::saturating_add);
        inner.resize(depth + 1, 0);
        if let Some(here) = inner.last_mut() {
            *here = here.saturating_add(span.nanos());
        }
        if is_there {
            self.add(false, (Some(process), frames.into()), span.nanos().saturating_sub(within));
        }
    }

    fn unpaired_span(&mut self, world: &World, span: &UnpairedSpan) {
        // It is not told what was around them: they are in none that begins later.
        if span.why == UnpairedReason::Gap {
            let thread = span.thread.and_then(|who| world.threads.get(who).zip(Some(who)));
            let Some((thread, who)) = thread else { return };
            if let Some(inner) = self.inner.get_mut(&who) {
                inner.truncate(thread.in_spans().len() + 1);
            }
        }
    }
}

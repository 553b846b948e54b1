//! Stacks with their weights: of the call stacks of records, of the time in which threads were blocked there, or of
//! spans in each other.

use std::collections::HashMap;

use strata_ctf::read::{Event, Reader, TimeRange};
use strata_timeline::{Alone, AloneSpan, Interval, Observer, Paired, Span, State, ThreadId, World};

use super::frames::{FrameId, Frames, StackScopes};
use super::label::Label;
use super::left::{is_switch, waits_since, Left};
use crate::debug_info::recorder::is_sample;
use crate::debug_info::Source;

/// Stacks that are told apart, and classes of records with processes; what is more is in one of its process, and of nobody.
const STACKS_MAX: usize = 1 << 18;
/// Threads whose spans are put together.
const THREADS_MAX: usize = 1 << 16;

/// What stacks are weighed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weigh {
    /// Records with call stacks, each 1.
    Records,
    /// The time for which a thread was blocked, of the stack with which it left its CPU \[ns\].
    OffCpu,
    /// The time in spans, without that in spans in them \[ns\].
    Spans,
}

/// A process' stacks.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// Its number.
    pub pid: Option<i32>,
    /// Who it is, of all machines.
    pub label: Label,
    /// Frames, the outermost first, and the weight; by the frames' names.
    pub stacks: Vec<(Vec<String>, u64)>,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Flame {
    /// By falling weight.
    pub profiles: Vec<Profile>,
    /// What all weigh.
    pub total: u64,
    /// The events whose records were counted, and how many: by name.
    pub events: Vec<(String, u64)>,
    /// Records without an address in their stacks, which are counted, too.
    pub empty: u64,
    /// Spans that are not of one thread, with those of nobody knows whom: not counted.
    pub elsewhere: u64,
    /// Records whose stacks were put into one of their process, since there were too many.
    pub left_out: u64,
}

/// Whether any record of the traces may have a call stack.
#[must_use]
pub fn has_stacks(reader: &Reader) -> bool {
    has_stacks_of(reader, &|_| true)
}

/// The same of those with which threads left their CPUs.
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

#[derive(Clone, Debug)]
struct Class {
    scopes: StackScopes,
    is_switch: bool,
    /// Where there are some, nothing else is counted.
    is_sample: bool,
    /// Not of something that happened then.
    is_description: bool,
    name: String,
}

type Stack = (Option<ThreadId>, Box<[FrameId]>);

/// [`Flame::elsewhere`] and [`Flame::left_out`] of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Aside {
    elsewhere: u64,
    left_out: u64,
}

/// Puts stacks together.
#[derive(Debug)]
pub struct FlameMaker {
    range: TimeRange,
    weigh: Weigh,
    frames: Frames,
    /// By class.
    classes: Vec<Option<Class>>,
    /// By process, and whether of samples.
    stacks: HashMap<(bool, Stack), u64>,
    /// Of a thread that has left its CPU to wait.
    left: Left<Stack>,
    /// Of each thread and depth, the time of the spans that have ended there since what is around them began.
    inner: HashMap<ThreadId, Vec<u64>>,
    has_samples: bool,
    /// Records that were counted, and those without an address among them: by class and process; of more, by class.
    counts: HashMap<(usize, Option<ThreadId>), (u64, u64)>,
    /// By process; of more than are told apart, and where it is not known, of nobody.
    aside: HashMap<Option<ThreadId>, Aside>,
    /// [`STACKS_MAX`].
    most: usize,
}

impl FlameMaker {
    /// Of this time, by these weights.
    #[must_use]
    pub fn new(range: TimeRange, weigh: Weigh, source: Source) -> FlameMaker {
        let mut frames = Frames::new(source);
        // What frames are called that are too many.
        frames.of("[others]");
        FlameMaker {
            range,
            weigh,
            frames,
            classes: Vec::new(),
            stacks: HashMap::new(),
            left: Left::default(),
            inner: HashMap::new(),
            has_samples: false,
            counts: HashMap::new(),
            aside: HashMap::new(),
            most: STACKS_MAX,
        }
    }

    /// The same, which tells apart so many.
    #[cfg(test)]
    pub(super) fn with_most(self, most: usize) -> FlameMaker {
        FlameMaker { most, ..self }
    }

    fn add(&mut self, is_sample: bool, stack: Stack, weight: u64) {
        let mut key = (is_sample, stack);
        if self.stacks.len() >= self.most && !self.stacks.contains_key(&key) {
            key.1 .1 = Box::new([0]);
            self.aside(key.1 .0).left_out += 1;
        }
        let known = self.stacks.entry(key).or_default();
        *known = known.saturating_add(weight);
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

    /// A stack of a record, the outermost first, and whether an address is in it.
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

    /// What was put together, of processes that are wanted.
    #[must_use]
    pub fn finish(self, world: &World, is_wanted: &dyn Fn(&Label) -> bool) -> Flame {
        let mut known: HashMap<Option<ThreadId>, bool> = HashMap::new();
        let mut is_of = |process: Option<ThreadId>| {
            *known.entry(process).or_insert_with(|| {
                let label = process.map(|process| Label::process(world, process));
                is_wanted(&label.unwrap_or_default())
            })
        };
        let by_samples = self.has_samples && self.weigh == Weigh::Records;
        let mut processes: HashMap<Option<ThreadId>, Profile> = HashMap::new();
        let mut total = 0_u64;
        for ((is_sample, (process, frames)), weight) in self.stacks {
            if weight == 0 || by_samples && !is_sample || !is_of(process) {
                continue;
            }
            total = total.saturating_add(weight);
            let profile = processes.entry(process).or_default();
            let names = frames.iter().map(|&frame| self.frames.name(frame).to_owned());
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
            let class = self.classes.get(class).and_then(Option::as_ref);
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

    fn class(&mut self, event: &Event<'_>) -> Option<&mut Class> {
        let index = event.class().index();
        if self.classes.len() <= index {
            self.classes.resize(index + 1, None);
        }
        Some(self.classes.get_mut(index)?.get_or_insert_with(|| {
            let name = event.class().name();
            let short = name.rsplit(':').next().unwrap_or(name);
            Class {
                scopes: StackScopes::of(event.class()),
                is_switch: is_switch(name),
                is_sample: is_sample(name),
                is_description: short.starts_with("lttng_statedump_"),
                name: name.to_owned(),
            }
        }))
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
        let is_there = event.time().is_some_and(|time| self.range.contains(time));
        let class = self.class(event).filter(|class| class.scopes.is_any());
        let Some(class) = class.filter(|class| !class.is_description) else { return };
        let (scopes, is_sample) = (class.scopes, class.is_sample);
        match weigh {
            Weigh::Records if selected && is_there => {
                let (stack, is_any) = self.stack(world, event, scopes, who);
                self.count(event, stack.0, is_any);
                self.has_samples |= is_sample;
                self.add(is_sample, stack, 1);
            }
            Weigh::OffCpu if selected && class.is_switch => {
                let Some(who) = who else { return };
                let Some(since) = waits_since(world, event, who) else { return };
                let (stack, is_any) = self.stack(world, event, scopes, Some(who));
                self.count(event, stack.0, is_any);
                self.left.put(who, stack, since);
            }
            _ => {}
        }
    }

    fn state(&mut self, _: &World, thread: ThreadId, interval: &Interval) {
        if self.weigh != Weigh::OffCpu || !matches!(interval.state, State::Blocked(_)) {
            return;
        }
        let Some(stack) = self.left.take(thread, interval.from) else { return };
        let (from, to) = (interval.from.max(self.range.from), interval.to.min(self.range.to));
        if from < to {
            self.add(false, stack, to.abs_diff(from));
        }
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

    fn alone(&mut self, world: &World, span: &AloneSpan) {
        // It is not told what was around them: they are in none that begins later.
        if span.why == Alone::Gap {
            let thread = span.thread.and_then(|who| world.threads.get(who).zip(Some(who)));
            let Some((thread, who)) = thread else { return };
            if let Some(inner) = self.inner.get_mut(&who) {
                inner.truncate(thread.in_spans().len() + 1);
            }
        }
    }
}

//! Facts that a record does not contain itself but filters ask for: the process and the name of the thread that made
//! the record, its container, its machine, and the length of the call or span that the record begins or ends.
//!
//! ```text
//! first pass   Timeline ── Collector (observer) ── DerivedFacts: names, processes, cgroups over time; lengths by record
//! second pass  filter ── DerivedValues::value(word, event) ── looked up by (stream, offset) or (thread, time)
//! ```
//!
//! Other records contain these facts, earlier or later ones: the length of a call is known at its exit, while the
//! filter asks for it at its entry. So the traces are read once beforehand, in the order of time, and only for the
//! words that the filter has ([`DerivedFacts::read`]). The facts do not change afterwards: workers may look them up
//! for any record.
//!
//! - A record's thread is found by its number, by the thread that its CPU ran, or by its trace if that is of one
//!   process.
//! - Control groups of processes over time are the timeline's ([`World::control_groups_of`]), for reports as well.
//! - Lengths are kept by the place of the record at *each* end, so that both ends of a call pass a filter together.
//!
//! Numbers of changes and lengths are limited. What had no room is counted, and the command says that its answer may
//! lack records.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use strata_ctf::read::{
    AskedWords, DerivedValue, DerivedValues, DerivedWord, Event, EventClass, FieldRef, Reader,
    Scope, Selection, TimeRange,
};
use strata_filter::Filter;
use strata_model::schema::{self, Schema};
use strata_timeline::{
    is_kernel, kernel_name, Call, CallEnd, ControlGroup, GroupIndex, Name, NumberedEnd, Observer,
    Sources, Span, ThreadId, Timeline, Whose, World,
};

use crate::command_descendants::threads_told_of;
use crate::fast_hash::Mix;
use crate::reports::Label;
use strata_timeline::{pass_on, Asked};

/// The most changes of names, processes and running threads that are kept, over all threads and CPUs.
const CHANGES_MAX: usize = 1 << 22;
/// The most durations of system calls and spans that are kept.
const DURATIONS_MAX: usize = 1 << 21;
/// The most spans that may be open at one time.
const OPEN_MAX: usize = 1 << 18;
/// The most bytes that the kernel keeps of a thread's name.
const COMM_BYTES: usize = 15;
/// The number that stands for no thread.
const NOBODY: u32 = u32::MAX;

/// The key by which the thread that made a record is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RecordKey {
    /// A trace, and a thread by its number in that trace.
    Thread(u32, i64),
    /// A trace and a CPU, if records do not have their thread.
    Cpu(u32, u64),
    /// A trace alone, if all of its records are of one process.
    Trace(u32),
}

/// The place of a record: its stream, and its offset in the stream's file.
type Place = (u32, u64);

fn place(event: &Event<'_>) -> Place {
    (index(event.stream().index()), event.offset())
}

fn index(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The user's choice of threads whose records are wanted, which applies in addition to a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedOf<'o> {
    /// A process or a thread, by [name or number](Label::is_of).
    pub words: &'o str,
    /// True if records by other threads about a wanted thread are wanted as well: its wakeup, and the switch that gives
    /// it a CPU.
    pub also_about: bool,
}

/// The fields of a class that identify the thread of a record.
#[derive(Clone, Debug, Default)]
struct ThreadFields {
    tid: Option<FieldRef>,
    /// True if the thread is not in a context of the record, but in the payload of a switch, as the thread that ran
    /// until then.
    is_of_payload: bool,
    cpu: Option<FieldRef>,
    /// The context field with the number of the control group.
    cgroup: Option<FieldRef>,
    /// The fields that name the threads that the record is about.
    about: Vec<FieldRef>,
}

impl ThreadFields {
    fn new(class: &EventClass, is_kernel: bool) -> ThreadFields {
        let about = if is_kernel { threads_told_of(class).collect() } else { Vec::new() };
        let whose = Whose::new(class, is_kernel);
        let prev = || match kernel_name(class.name()) {
            "sched_switch" if is_kernel => {
                let names = ["prev_tid", "prev_pid"];
                names.iter().find_map(|name| class.find_in(Scope::Payload, name))
            }
            _ => None,
        };
        let contexts = [Scope::SpecificContext, Scope::CommonContext];
        let cgroup = contexts.iter().find_map(|scope| class.find_in(*scope, "cgroup_id"));
        let is_of_payload = whose.tid.is_none();
        ThreadFields { tid: whose.tid.or_else(prev), is_of_payload, cpu: whose.cpu, cgroup, about }
    }

    fn key(&self, event: &Event<'_>) -> RecordKey {
        let trace = index(event.stream().trace().index());
        if let Some(tid) = self.tid.as_ref().and_then(|tid| event.integer(tid)) {
            return RecordKey::Thread(trace, tid);
        }
        let field = || self.cpu.as_ref().and_then(|cpu| event.integer(cpu));
        let cpu = event.packet().cpu.or_else(|| field().and_then(|cpu| u64::try_from(cpu).ok()));
        cpu.map_or(RecordKey::Trace(trace), |cpu| RecordKey::Cpu(trace, cpu))
    }
}

/// A value that is valid from a time on \[ns since 1970\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct From<T> {
    from: i64,
    what: T,
}

/// Returns the last value that holds at a time.
fn at<T: Copy>(all: &[From<T>], time: i64) -> Option<T> {
    let next = all.partition_point(|one| one.from <= time);
    next.checked_sub(1).and_then(|last| all.get(last)).map(|one| one.what)
}

/// The process, names and control groups of a thread, over time.
#[derive(Clone, Debug, Default)]
struct ThreadFacts {
    tid: i64,
    pid: Option<i64>,
    /// The index of the process' first thread.
    home: u32,
    names: Vec<From<u32>>,
    /// Indexes of [`DerivedFacts::groups`]; only first threads of processes have them.
    groups: Vec<From<GroupIndex>>,
    machine: u8,
    is_wanted: bool,
}

/// Facts about records that follow from other records, such as the name of a record's process.
#[derive(Debug, Default)]
pub struct DerivedFacts {
    /// The fields that identify threads, by [`EventClass::index`].
    fields: Vec<ThreadFields>,
    makers: HashMap<RecordKey, Vec<From<u32>>, Mix>,
    /// The threads, by [`ThreadId::index`].
    threads: Vec<ThreadFacts>,
    texts: Vec<Box<[u8]>>,
    groups: Vec<ControlGroup>,
    groups_by_number: HashMap<(u8, i64), GroupIndex>,
    /// The machine of each stream, by the stream's index.
    machines: Vec<u8>,
    /// The names of the machines; empty where no trace says it.
    hosts: Vec<String>,
    idle: Vec<Box<[u8]>>,
    durations: HashMap<Place, u64, Mix>,
    left_out: u64,
    known: Vec<String>,
    also_about: bool,
}

/// The thread that made a record, with the facts about it that [`DerivedFacts::value`](DerivedValues::value) would
/// look up one by one.
#[derive(Clone, Copy, Debug)]
pub enum RecordThread<'d> {
    /// The thread is unknown.
    Unknown,
    /// The idle thread of a CPU, with its name.
    Idle(Option<&'d [u8]>),
    /// Another thread.
    Known(KnownThread<'d>),
}

/// A thread, at the time of a record.
#[derive(Clone, Copy, Debug)]
pub struct KnownThread<'d> {
    facts: &'d DerivedFacts,
    thread: &'d ThreadFacts,
    time: i64,
}

impl<'d> RecordThread<'d> {
    /// Returns the number of the process.
    #[must_use]
    pub fn pid(&self) -> Option<i64> {
        match self {
            RecordThread::Unknown => None,
            RecordThread::Idle(_) => Some(0),
            RecordThread::Known(known) => known.thread.pid,
        }
    }

    /// Returns the number of the thread.
    #[must_use]
    pub fn tid(&self) -> Option<i64> {
        match self {
            RecordThread::Unknown => None,
            RecordThread::Idle(_) => Some(0),
            RecordThread::Known(known) => Some(known.thread.tid),
        }
    }

    /// Returns the name of the thread.
    #[must_use]
    pub fn name(&self) -> Option<&'d [u8]> {
        let name = match self {
            RecordThread::Unknown => None,
            RecordThread::Idle(name) => return *name,
            RecordThread::Known(known) => known.facts.name(known.thread, known.time),
        };
        name.filter(|name| !name.is_empty())
    }

    /// Returns the name of the process.
    #[must_use]
    pub fn process_name(&self) -> Option<&'d [u8]> {
        let name = match self {
            RecordThread::Unknown => None,
            RecordThread::Idle(_) => Some(&b"idle"[..]),
            RecordThread::Known(KnownThread { facts, thread, time }) => {
                let home = usize::try_from(thread.home).ok();
                let home = home.and_then(|home| facts.threads.get(home));
                home.and_then(|home| facts.name(home, *time))
            }
        };
        name.filter(|name| !name.is_empty())
    }
}

/// A filter that is compiled for certain traces, with the facts that had to be read from them before.
#[derive(Clone, Debug)]
pub struct BoundSelection {
    pub selection: Selection,
    /// Facts that the filter needs and that records do not have themselves; `None` if it needs none.
    pub facts: Option<Arc<DerivedFacts>>,
}

impl BoundSelection {
    /// Compiles a filter for the records of a time range, and reads from the traces the facts that it needs. `of`
    /// restricts the selection to threads. Returns `None` if the user stopped the reading.
    #[must_use]
    pub fn read(
        reader: &Reader,
        filter: Option<&Filter>,
        of: Option<WantedOf<'_>>,
        range: TimeRange,
        stop: &dyn Fn() -> bool,
    ) -> Option<BoundSelection> {
        let mut selection = match filter {
            Some(filter) => Selection::of_time(filter, reader, range, stop),
            None => Selection::all(),
        };
        let asked = selection.asked_words(reader);
        if asked.is_empty() && of.is_none() {
            return Some(BoundSelection { selection, facts: None });
        }
        let facts = Arc::new(DerivedFacts::read(reader, &asked, of, range, stop)?);
        let selection = selection.with_derived(facts.clone(), of.is_some());
        Some(BoundSelection { selection, facts: Some(facts) })
    }
}

impl DerivedFacts {
    /// Reads all records up to the end of `range` for the facts that `asked` needs, and the later ones too if it
    /// needs the lengths of calls or spans. `of` says which threads' records are [wanted](DerivedValues::is_wanted).
    /// Returns `None` if the user stopped the reading.
    #[must_use]
    pub fn read(
        reader: &Reader,
        asked: &AskedWords,
        of: Option<WantedOf<'_>>,
        range: TimeRange,
        stop: &dyn Fn() -> bool,
    ) -> Option<DerivedFacts> {
        let mut collector = Collector::new(reader, asked);
        collector.facts.also_about = of.is_some_and(|of| of.also_about);
        if asked.are_of_traces() && of.is_none() {
            return Some(collector.facts);
        }
        let to = if collector.durations.is_some() { i64::MAX } else { range.to };
        let range = TimeRange { from: i64::MIN, to };
        let asked = Asked { range, selection: None };
        let timeline = Timeline::new(reader);
        let passed = pass_on(timeline, reader, &asked, &mut collector, &|_| !stop(), &mut |_| {})?;
        Some(collector.finish(passed.timeline.world(), of))
    }

    /// Returns the number of durations, and of changes of threads, that were left out because of the limits.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns whether the records of any thread are wanted.
    #[must_use]
    pub fn has_wanted(&self) -> bool {
        self.threads.iter().any(|thread| thread.is_wanted)
    }

    /// Returns the names of the processes in the traces, sorted.
    #[must_use]
    pub fn processes(&self) -> &[String] {
        &self.known
    }

    /// Returns the thread that made a record, if it is known.
    fn maker(&self, event: &Event<'_>) -> Option<&ThreadFacts> {
        let key = self.fields.get(event.class().index())?.key(event);
        let who = at(self.makers.get(&key)?, event.time().unwrap_or(i64::MAX))?;
        self.threads.get(usize::try_from(who).ok()?)
    }

    /// Returns the thread of a record, for callers that need several of its names and numbers.
    #[inline]
    #[must_use]
    pub fn thread_of<'d>(&'d self, event: &Event<'_>) -> RecordThread<'d> {
        let fields = self.fields.get(event.class().index());
        let Some(key) = fields.map(|fields| fields.key(event)) else {
            return RecordThread::Unknown;
        };
        if matches!(key, RecordKey::Thread(_, 0)) {
            let cpu = event.packet().cpu.and_then(|cpu| usize::try_from(cpu).ok());
            let name = cpu.and_then(|cpu| self.idle.get(cpu)).map(|name| &**name);
            return RecordThread::Idle(name);
        }
        let time = event.time().unwrap_or(i64::MAX);
        let who = self.makers.get(&key).and_then(|all| at(all, time));
        let thread = who.and_then(|who| self.threads.get(usize::try_from(who).ok()?));
        let known = |thread| RecordThread::Known(KnownThread { facts: self, thread, time });
        thread.map_or(RecordThread::Unknown, known)
    }

    /// Returns the name that a record's process has at the record's time; `None` if it is unknown.
    #[must_use]
    pub fn process_name(&self, event: &Event<'_>) -> Option<&[u8]> {
        self.thread_of(event).process_name()
    }

    fn is_idle(&self, event: &Event<'_>) -> bool {
        let fields = self.fields.get(event.class().index());
        fields.is_some_and(|fields| matches!(fields.key(event), RecordKey::Thread(_, 0)))
    }

    fn is_about_wanted(&self, event: &Event<'_>) -> bool {
        let Some(fields) = self.fields.get(event.class().index()) else { return false };
        let trace = index(event.stream().trace().index());
        let time = event.time().unwrap_or(i64::MAX);
        let is_wanted = |tid| {
            let makers = self.makers.get(&RecordKey::Thread(trace, tid));
            // It is given a CPU before it makes its first record.
            let who = makers.and_then(|all| at(all, time).or(all.first().map(|first| first.what)));
            let thread = who.and_then(|who| self.threads.get(usize::try_from(who).ok()?));
            thread.is_some_and(|thread| thread.is_wanted)
        };
        fields.about.iter().filter_map(|field| event.integer(field)).any(is_wanted)
    }

    fn name(&self, thread: &ThreadFacts, time: i64) -> Option<&[u8]> {
        let own = at(&thread.names, time).filter(|name| *name != NOBODY);
        let home = || self.threads.get(usize::try_from(thread.home).ok()?);
        let name = own.or_else(|| at(&home()?.names, time).filter(|name| *name != NOBODY))?;
        self.texts.get(usize::try_from(name).ok()?).map(|text| &**text)
    }

    fn group(&self, thread: &ThreadFacts, event: &Event<'_>) -> Option<&ControlGroup> {
        let field = self.fields.get(event.class().index())?.cgroup.as_ref();
        let id = field.and_then(|field| event.integer(field));
        let of_record = id.and_then(|id| self.groups_by_number.get(&(thread.machine, id)));
        let time = event.time().unwrap_or(i64::MAX);
        let found = of_record.copied().or_else(|| {
            let home = self.threads.get(usize::try_from(thread.home).ok()?)?;
            at(&home.groups, time)
        })?;
        self.groups.get(usize::try_from(found).ok()?)
    }
}

impl DerivedValues for DerivedFacts {
    fn value<'d>(&'d self, word: DerivedWord, event: &Event<'_>) -> Option<DerivedValue<'d>> {
        if word == DerivedWord::Duration {
            let nanos = self.durations.get(&place(event))?;
            return i64::try_from(*nanos).ok().map(DerivedValue::Integer);
        }
        if word == DerivedWord::Host {
            let machine = self.machines.get(event.stream().index())?;
            let name = self.hosts.get(usize::from(*machine)).filter(|name| !name.is_empty())?;
            return Some(DerivedValue::Text(name.as_bytes()));
        }
        let thread = self.thread_of(event);
        let group = || match thread {
            RecordThread::Known(known) => self.group(known.thread, event),
            RecordThread::Unknown | RecordThread::Idle(_) => None,
        };
        let text = |text: &'d [u8]| Some(DerivedValue::Text(text)).filter(|_| !text.is_empty());
        match word {
            DerivedWord::Tid => thread.tid().map(DerivedValue::Integer),
            DerivedWord::Pid => thread.pid().map(DerivedValue::Integer),
            DerivedWord::Comm => text(thread.name()?),
            DerivedWord::Cgroup => text(&group()?.path),
            DerivedWord::Container => text(&group()?.container),
            DerivedWord::Duration | DerivedWord::Host => None,
        }
    }

    fn is_wanted(&self, event: &Event<'_>) -> bool {
        let is_made = !self.is_idle(event) && self.maker(event).is_some_and(|it| it.is_wanted);
        is_made || self.also_about && self.is_about_wanted(event)
    }
}

/// Returns whether the value of `word` may be known for records of a class, according to the trace's metadata.
#[must_use]
pub fn may_have(schema: &Schema, class: &schema::EventClass, word: DerivedWord) -> bool {
    match word {
        DerivedWord::Pid | DerivedWord::Tid | DerivedWord::Comm => true,
        DerivedWord::Host => schema.environment("hostname").is_some(),
        DerivedWord::Cgroup | DerivedWord::Container => {
            let mut events = schema.streams.iter().flat_map(|stream| &stream.events);
            !is_kernel(schema) || events.any(|event| event.name == PROCESS_GROUP)
        }
        DerivedWord::Duration => {
            CallEnd::of(&class.name).is_some()
                || CallEnd::is_of_any(&class.name)
                || NumberedEnd::begins(&class.name).is_some()
                || is_span_end(&class.name).is_some()
        }
    }
}

/// The state dump's event that says in which control group a process is.
const PROCESS_GROUP: &str = "lttng_statedump_process_cgroup";

/// Returns true for an event that begins a span, false for one that ends a span, and `None` for all others.
fn is_span_end(event: &str) -> Option<bool> {
    match event.ends_with("_begin") {
        true => Some(true),
        false => event.ends_with("_end").then_some(false),
    }
}

/// The role of a class' records when facts are collected.
#[derive(Debug)]
enum RecordRole {
    /// The begin or the end of a system call.
    Call {
        begins: bool,
    },
    /// The begin or the end of a span.
    Span {
        begins: bool,
    },
    Other,
}

impl RecordRole {
    fn new(class: &EventClass) -> RecordRole {
        let call = CallEnd::of(class.name()).map(|end| end.begins);
        let call = call.or(CallEnd::is_of_any(class.name()).then_some(false));
        if let Some(begins) = call.or_else(|| NumberedEnd::begins(class.name())) {
            return RecordRole::Call { begins };
        }
        is_span_end(class.name()).map_or(RecordRole::Other, |begins| RecordRole::Span { begins })
    }
}

/// The identity of a span's begin: its time, its thread and its event.
type SpanBegin = (i64, Option<ThreadId>, Vec<u8>);

/// Collects facts while records are read.
#[derive(Debug, Default)]
struct Collector<'a> {
    facts: DerivedFacts,
    roles: Vec<RecordRole>,
    durations: Option<&'a AskedWords>,
    has_groups: bool,
    nr_changes: usize,
    /// The names of each thread, by [`ThreadId::index`], each with the time from which the thread has it.
    names: Vec<Vec<From<Name>>>,
    /// By [`ThreadId::index`]: true if the thread got its first known name by executing a program, so that its name
    /// before is unknown.
    has_begun_by_exec: Vec<bool>,
    /// The record that began the open call of each thread.
    entered: HashMap<ThreadId, Place, Mix>,
    /// The records that began the spans which are open.
    begun: HashMap<SpanBegin, Vec<Place>>,
    /// The thread, and the duration of the system call that the present record ends.
    ended_call: Option<(ThreadId, u64)>,
    ended_spans: Vec<(SpanBegin, u64)>,
}

/// Collects the processes and names of records' threads while the caller reads all records. [`DerivedFacts::read`]
/// reads them itself.
#[derive(Debug)]
pub struct FactCollector(Collector<'static>);

impl FactCollector {
    /// Prepares for the records of these traces.
    #[must_use]
    pub fn new(reader: &Reader) -> FactCollector {
        FactCollector(Collector::new(reader, &NOTHING_ASKED))
    }

    /// Takes the next record; see [`Observer::record`]. All records must be passed, in the order of time.
    #[inline]
    pub fn record(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>) {
        self.0.record(world, event, who, true);
    }

    /// Returns the collected facts. `world`: the timeline after the last record.
    #[must_use]
    pub fn finish(self, world: &World) -> DerivedFacts {
        self.0.finish(world, None)
    }
}

static NOTHING_ASKED: LazyLock<AskedWords> = LazyLock::new(AskedWords::default);

impl<'a> Collector<'a> {
    fn new(reader: &Reader, asked: &'a AskedWords) -> Collector<'a> {
        let mut facts = DerivedFacts::default();
        facts.fields.resize_with(reader.event_classes(), ThreadFields::default);
        let mut roles = Vec::new();
        roles.resize_with(reader.event_classes(), || RecordRole::Other);
        for trace in reader.traces() {
            let is_kernel = is_kernel(trace.schema());
            for class in trace.event_classes() {
                if let Some(fields) = facts.fields.get_mut(class.index()) {
                    *fields = ThreadFields::new(class, is_kernel);
                }
                if let Some(role) = roles.get_mut(class.index()) {
                    *role = RecordRole::new(class);
                }
            }
        }
        let sources = Sources::new(reader);
        facts.machines = sources.streams.iter().map(|source| source.machine).collect();
        facts.hosts = sources.machines;
        Collector {
            facts,
            roles,
            durations: asked.has(DerivedWord::Duration).then_some(asked),
            has_groups: asked.has(DerivedWord::Cgroup) || asked.has(DerivedWord::Container),
            ..Collector::default()
        }
    }

    fn keep(&mut self, place: Place, nanos: u64) {
        let all = &mut self.facts.durations;
        if all.len() < DURATIONS_MAX || all.contains_key(&place) {
            all.insert(place, nanos);
        } else {
            self.facts.left_out += 1;
        }
    }

    fn made(&mut self, key: RecordKey, who: u32, time: i64) {
        let makers = self.facts.makers.entry(key).or_default();
        if makers.last().is_some_and(|last| last.what == who) {
            return;
        }
        if self.nr_changes >= CHANGES_MAX {
            self.facts.left_out += 1;
            return;
        }
        self.nr_changes += 1;
        makers.push(From { from: time, what: who });
    }

    fn named(&mut self, world: &World, who: ThreadId, event: &Event<'_>, time: i64) {
        let Some(thread) = world.threads.get(who) else { return };
        if self.names.len() <= who.index() {
            self.names.resize_with(who.index() + 1, Vec::new);
            self.has_begun_by_exec.resize(who.index() + 1, false);
        }
        let Some(names) = self.names.get_mut(who.index()) else { return };
        if names.last().is_some_and(|last| last.what == thread.name) {
            return;
        }
        let is_first = thread.name.is_some() && names.iter().all(|name| !name.what.is_some());
        if is_first && kernel_name(event.class().name()) == "sched_process_exec" {
            if let Some(has) = self.has_begun_by_exec.get_mut(who.index()) {
                *has = true;
            }
        }
        if self.nr_changes >= CHANGES_MAX {
            self.facts.left_out += 1;
            return;
        }
        self.nr_changes += 1;
        names.push(From { from: time, what: thread.name });
    }

    fn measure(&mut self, event: &Event<'_>, who: Option<ThreadId>, time: i64) {
        let Some(asked) = self.durations else { return };
        let here = place(event);
        match self.roles.get(event.class().index()) {
            Some(RecordRole::Call { begins: true }) => {
                if let Some(who) = who {
                    self.entered.insert(who, here);
                }
            }
            Some(RecordRole::Call { begins: false }) => {
                if let Some((thread, nanos)) = self.ended_call {
                    let begin = self.entered.remove(&thread);
                    if asked.wants_duration(nanos) {
                        begin.into_iter().chain([here]).for_each(|place| self.keep(place, nanos));
                    }
                }
            }
            Some(RecordRole::Span { begins: true }) => {
                if self.begun.len() < OPEN_MAX {
                    let name = event.class().name().as_bytes().to_vec();
                    self.begun.entry((time, who, name)).or_default().push(here);
                } else {
                    self.facts.left_out += 1;
                }
            }
            _ => {}
        }
        for (begin, nanos) in std::mem::take(&mut self.ended_spans) {
            let mut places = self.begun.remove(&begin).unwrap_or_default();
            let first = places.pop();
            if !places.is_empty() {
                self.begun.insert(begin, places);
            }
            if asked.wants_duration(nanos) {
                first.into_iter().chain([here]).for_each(|place| self.keep(place, nanos));
            }
        }
    }

    fn finish(mut self, world: &World, of: Option<WantedOf<'_>>) -> DerivedFacts {
        let mut facts = std::mem::take(&mut self.facts);
        let mut texts: HashMap<Name, u32> = HashMap::new();
        facts.threads.push(ThreadFacts::default());
        for (id, thread) in world.threads.iter() {
            let main = thread.main.and_then(|main| world.threads.get(main));
            let names = self.names.get_mut(id.index()).map(std::mem::take).unwrap_or_default();
            let by_exec = self.has_begun_by_exec.get(id.index()).is_some_and(|has| *has);
            let mut known: Vec<From<u32>> = Vec::with_capacity(names.len().max(1));
            if names.is_empty() && thread.name.is_some() {
                known.push(From {
                    from: i64::MIN,
                    what: text_of(&mut facts, &mut texts, world, thread.name),
                });
            }
            for From { from, what } in names {
                let what = match what.is_some() {
                    true => text_of(&mut facts, &mut texts, world, what),
                    false => NOBODY,
                };
                known.push(From { from, what });
            }
            // What a thread is called when it is first named, it was called before, too.
            let first = known.iter().position(|name| name.what != NOBODY);
            if let Some(first) = first.filter(|_| !by_exec) {
                known.drain(..first);
                known.iter_mut().take(1).for_each(|name| name.from = i64::MIN);
            }
            let groups = match self.has_groups && world.process_of(id) == id {
                true => world.control_groups_of(id),
                false => Vec::new(),
            };
            facts.threads.push(ThreadFacts {
                tid: thread.tid.into(),
                pid: main.map(|main| main.tid.into()),
                home: index(world.process_of(id).index()),
                names: known,
                groups: groups.into_iter().map(|(from, what)| From { from, what }).collect(),
                machine: thread.machine,
                is_wanted: of.is_some_and(|of| Label::thread(world, id).is_of(of.words)),
            });
        }
        if of.is_some() {
            let names = world.threads.iter().map(|(id, _)| world.process_name(id));
            facts.known = names.filter(|name| !name.is_empty()).collect();
            facts.known.sort_unstable();
            facts.known.dedup();
        }
        let cpus = facts.makers.keys().filter_map(|key| match key {
            RecordKey::Cpu(_, cpu) => Some(*cpu),
            _ => None,
        });
        let nr_cpus = cpus.max().map_or(0, |cpu| cpu.saturating_add(1)).clamp(IDLE_NAMES, 1 << 13);
        facts.idle = (0..nr_cpus).map(|cpu| format!("swapper/{cpu}").into_bytes().into()).collect();
        if self.has_groups {
            facts.groups = world.control_groups.all().to_vec();
            facts.groups_by_number = world.control_groups.by_number().clone();
            facts.left_out += world.control_groups.left_out();
        }
        facts
    }
}

/// The least number of CPUs whose idle threads have names.
const IDLE_NAMES: u64 = 1 << 10;

/// Returns the number of a name's text, cut to the length that the kernel keeps.
fn text_of(
    facts: &mut DerivedFacts,
    texts: &mut HashMap<Name, u32>,
    world: &World,
    name: Name,
) -> u32 {
    *texts.entry(name).or_insert_with(|| {
        let text = world.names.bytes(name);
        facts.texts.push(text.get(..COMM_BYTES).unwrap_or(text).into());
        index(facts.texts.len() - 1)
    })
}

impl Observer for Collector<'_> {
    const STATES: bool = false;
    const INTERRUPTS: bool = false;
    const RECORDS: bool = true;

    fn record(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>, _: bool) {
        let time = event.time().unwrap_or(world.now);
        let stream = event.stream().index();
        let machine = self.facts.machines.get(stream).copied().unwrap_or(u8::MAX);
        let Some(fields) = self.facts.fields.get(event.class().index()) else { return };
        let key = fields.key(event);
        let who = match (key, fields.is_of_payload) {
            (RecordKey::Thread(_, tid), true) => world.threads.find(machine, tid),
            _ => who,
        };
        if !matches!(key, RecordKey::Thread(_, 0)) {
            self.made(key, who.map_or(NOBODY, |who| index(who.index())), time);
        }
        if let Some(who) = who {
            self.named(world, who, event, time);
        }
        self.measure(event, who, time);
        self.ended_call = None;
        self.ended_spans.clear();
    }

    fn call(&mut self, _: &World, call: &Call) {
        self.ended_call = Some((call.thread, call.nanos()));
    }

    fn span(&mut self, world: &World, span: &Span) {
        if self.durations.is_some() {
            let event = world.names.bytes(span.event).to_vec();
            self.ended_spans.push(((span.begin, span.begun_by, event), span.nanos()));
        }
    }
}

#[cfg(test)]
mod tests;

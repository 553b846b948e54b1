//! Turns the messages of a reader into facts, and passes these to the engine.
//!
//! [`Timeline::event`] does three things for each record. It finds the [`Binding`] of the record's class, which is made
//! at the first record of the class. It finds the [`Spot`]: the time, machine, CPU, thread and process of the record,
//! from the fields that the binding names and from what the trace says of all its records ([`Origin`]). It reads the
//! fact and applies it.
//!
//! Most records only begin or end a system call, of a thread that is known to run. They take a fast path: no spot is
//! made, and [`Engine::apply_brief`] is called. Records that say nothing are passed over as early as possible.
//!
//! A trace of an application in another PID namespace knows its threads by other numbers than the kernel does. Their
//! numbers are used within the trace, for spans, and never to find a thread of the machine.

use std::collections::HashMap;

use strata_ctf::read::{Discarded, DiscardedKind, Event, FieldRef, Reader};
use strata_model::syscalls::Architecture;
use strata_model::EnvValue;

use crate::counters::CounterRoles;
use crate::descriptors::steps::Step;
use crate::engine::state_before::FactsBefore;
use crate::engine::Engine;
use crate::ids::thread_id::ThreadId;
use crate::observer::Observer;
use crate::records::binding::{Binding, NumberedCalls};
use crate::records::facts::{Fact, More, Spot};
use crate::records::record_source::{Sources, StreamSource};
use crate::spans::{Home, SpanRoles};
use crate::world::hidden_threads::Hidden;
use crate::world::{EndingRecord, World};

/// The properties of a stream that hold for all of its records.
#[derive(Clone, Copy, Debug)]
struct Origin {
    machine: u8,
    is_kernel: bool,
    /// True if thread numbers in the trace are those of the machine, and not of another PID namespace.
    knows_threads: bool,
    trace: u32,
    /// The process of all records, by its number on the machine.
    process: Option<i64>,
    /// True if the process already has its name from the trace.
    is_named: bool,
    /// The architecture by which system calls have their numbers.
    architecture: Option<Architecture>,
    /// Time of the stream's last record; `i64::MIN`: there was none.
    last: i64,
}

/// Returns the origin of each stream's records.
fn origins<'r>(
    reader: &'r Reader,
    streams: &'r [StreamSource],
) -> impl Iterator<Item = Origin> + 'r {
    streams.iter().enumerate().map(|(at, source)| Origin {
        machine: source.machine,
        is_kernel: source.is_kernel,
        knows_threads: source.inner_process.is_none(),
        trace: reader
            .streams()
            .get(at)
            .map_or(u32::MAX, |stream| u32::try_from(stream.trace().index()).unwrap_or(u32::MAX)),
        process: source.process,
        is_named: source.is_kernel || source.process.is_none(),
        architecture: source.architecture,
        last: i64::MIN,
    })
}

/// Names the process of an application's trace as the trace does.
#[cold]
#[inline(never)]
fn name_process<O: Observer>(
    engine: &mut Engine,
    event: &Event<'_>,
    machine: u8,
    process: Option<i64>,
    seen: &mut O,
) {
    let name = event.stream().trace().schema().environment("procname");
    if let (Some(EnvValue::Text(name)), Some(process)) = (name, process) {
        engine.name_process(machine, process, name, seen);
    }
}

/// The state of threads and CPUs, computed from event records.
#[derive(Clone, Debug)]
pub struct Timeline {
    engine: Engine,
    /// Bindings by [`strata_ctf::read::EventClass::index`], each made at the class' first record.
    bindings: Vec<Option<Binding>>,
    numbers: NumberedCalls,
    /// Origins by [`strata_ctf::read::Stream::index`].
    origins: Vec<Origin>,
    /// The spans to look for; `None` for events of programs that end in `_begin` and `_end`.
    spans: Option<SpanRoles>,
    counters: CounterRoles,
}

impl Timeline {
    /// Returns a timeline for all traces of a reader, at their begin.
    #[must_use]
    pub fn new(reader: &Reader) -> Timeline {
        let Sources { machines, unsure, switches, kernels, streams } = Sources::new(reader);
        let origins = origins(reader, &streams).collect();
        let mut bindings = Vec::new();
        bindings.resize_with(reader.event_classes(), || None);
        let (mut engine, numbers) = (Engine::new(machines), NumberedCalls::default());
        engine.world.know_no_files(unsure);
        engine.world.hidden = Hidden::of(&switches);
        engine.know_kernels(&kernels);
        let counters = CounterRoles::new();
        Timeline { engine, bindings, numbers, origins, spans: None, counters }
    }

    /// Returns a timeline with these spans, instead of events of programs that end in `_begin` and `_end`.
    #[must_use]
    pub fn with_spans(reader: &Reader, spans: SpanRoles) -> Timeline {
        Timeline { spans: Some(spans), ..Timeline::new(reader) }
    }

    /// Adds the streams and classes that a growing trace has by now. The reader is the same one as before, at a later
    /// time: a stream keeps its index. `spans` returns the roles for all classes.
    pub fn grow(&mut self, reader: &Reader, spans: impl FnOnce() -> SpanRoles) {
        let has_classes = self.bindings.len() < reader.event_classes();
        if has_classes {
            self.bindings.resize_with(reader.event_classes(), || None);
            self.spans = Some(spans());
        }
        if has_classes || self.origins.len() < reader.streams().len() {
            let Sources { machines, unsure, switches, kernels, streams } = Sources::new(reader);
            self.origins.extend(origins(reader, &streams).skip(self.origins.len()));
            self.engine.grow(machines);
            self.engine.world.know_no_files(unsure);
            self.engine.world.hidden.know(&switches);
            self.engine.know_kernels(&kernels);
        }
    }

    /// Sets the fields that are counters. Without this there are none, since no trace says which fields hold their
    /// value until the next record.
    #[must_use]
    pub fn with_counters(self, counters: CounterRoles) -> Timeline {
        Timeline { counters, ..self }
    }

    /// Applies what the first records, such as a state dump, say about descriptors that were open before them. Must be
    /// called before the first event. The steps are in the order of time, each with its trace and its thread.
    pub fn begin(&mut self, first: &[(usize, Option<i64>, Step)]) {
        let of =
            |origin: &Origin| (usize::try_from(origin.trace).unwrap_or(usize::MAX), origin.machine);
        let machines: HashMap<usize, u8> = self.origins.iter().map(of).collect();
        let machine = |trace| machines.get(&trace).copied().unwrap_or(u8::MAX);
        self.engine.begin_with(FactsBefore::new(machine, first));
    }

    /// Counts [hidden threads](World::hidden) from this time on.
    pub fn count_hidden_from(&mut self, time: i64) {
        self.engine.world.hidden.count_from(time);
    }

    /// Makes the timeline collect threads that get another name, for [`Timeline::take_renamed`].
    pub fn note_names(&mut self) {
        self.engine.world.renamed = Some(Vec::new());
    }

    /// Returns and removes the threads that have got another name since the last call.
    #[inline]
    pub fn take_renamed(&mut self) -> Vec<ThreadId> {
        match &mut self.engine.world.renamed {
            Some(renamed) if !renamed.is_empty() => std::mem::take(renamed),
            _ => Vec::new(),
        }
    }

    /// Replaces the present state, for a trace that is not to be read.
    #[must_use]
    pub fn with_world(mut self, world: World) -> Timeline {
        self.engine.world = world;
        self
    }

    /// Returns the present state.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.engine.world
    }

    /// Applies the next record. `selected` says that the client selected it, for example by a filter. Results say
    /// whether one of their records was selected.
    #[inline]
    pub fn event<O: Observer>(&mut self, event: &Event<'_>, selected: bool, seen: &mut O) {
        let Some(origin) = self.origins.get_mut(event.stream().index()) else { return };
        if let Some(time) = event.time() {
            origin.last = time;
            self.engine.moves_to(time);
        }
        let slot = match self.bindings.get(event.class().index()) {
            Some(slot) => slot,
            None => return,
        };
        let Some(binding) = slot else { return self.first_of_class(event, selected, seen) };
        if binding.is_nothing && !O::RECORDS {
            return;
        }
        let ask = |field: &Option<FieldRef>| event.integer(field.as_ref()?);
        let cpu = match event.packet().cpu {
            Some(cpu) => u32::try_from(cpu).ok(),
            None => ask(&binding.whose.cpu).and_then(|cpu| u32::try_from(cpu).ok()),
        };
        let tid = ask(&binding.whose.tid);
        // Nearly every record is one of these.
        let own = tid.filter(|&tid| tid != 0 && origin.knows_threads);
        if let Some(own) = own {
            if let Some(brief) = binding.brief::<O>(event) {
                if let Some(who) = self.engine.running(origin.machine, cpu, own) {
                    let told = EndingRecord { machine: origin.machine, selected };
                    let time = event.time().unwrap_or(self.engine.world.now);
                    return self.engine.apply_brief(who, brief, (told, cpu), time, seen);
                }
            }
        }
        let calls = &mut self.engine.world.calls;
        let deferred = binding.deferred(event, calls);
        let fact = if binding.is_unwanted::<O>() {
            // Of what this observer does not look at, only who made it.
            binding.whose.tid.is_some().then_some(Fact::Made)
        } else if let Some(deferred) = &deferred {
            let (call, kept) = &**deferred;
            Some(Fact::Deferred { call: *call, more: More::Copied(kept) })
        } else if binding.is_name() && !origin.knows_threads {
            // Of another PID namespace: its numbers are those of others here.
            None
        } else {
            let numbers = self.numbers.by(origin.architecture);
            binding.fact(event, numbers, calls, O::STATES || O::FILES)
        };
        let mark = binding.span(event);
        let has_counters = !binding.counters.is_empty();
        if fact.is_none() && mark.is_none() && !has_counters && !O::RECORDS {
            return;
        }
        let pid = ask(&binding.whose.pid);
        let home_pid = pid.filter(|_| !origin.is_kernel);
        let pid = pid.filter(|_| origin.knows_threads).or(origin.process);
        let spot = Spot {
            // What has no time is as late as what was before it.
            time: event.time().unwrap_or(self.engine.world.now),
            machine: origin.machine,
            cpu,
            tid: tid.filter(|_| origin.knows_threads),
            pid,
            own_tid: tid,
            home: Home { trace: origin.trace, pid: home_pid },
            selected,
        };
        let is_kernel = origin.is_kernel;
        if !origin.is_named {
            name_process(&mut self.engine, event, origin.machine, pid, seen);
            if let Some(origin) = self.origins.get_mut(event.stream().index()) {
                origin.is_named = true;
            }
        }
        if let Some(fact) = fact {
            self.engine.apply(&spot, fact, seen);
        }
        if let Some(mark) = mark {
            self.engine.apply(&spot, Fact::Span(mark), seen);
        }
        if has_counters {
            let stream = u32::try_from(event.stream().index()).unwrap_or(u32::MAX);
            let place = self.engine.counter_place(&spot, is_kernel, stream, seen);
            for counter in &binding.counters {
                if let Some(number) = counter.number(event) {
                    self.engine.count(&spot, (counter.name, place, number), seen);
                }
            }
        }
        if O::RECORDS {
            let who = self.engine.of(&spot, seen);
            seen.record(&self.engine.world, event, who, selected);
        }
    }

    /// Finds the meaning of a class, and applies its first record.
    #[cold]
    #[inline(never)]
    fn first_of_class<O: Observer>(&mut self, event: &Event<'_>, selected: bool, seen: &mut O) {
        let at = event.class().index();
        let is_kernel =
            self.origins.get(event.stream().index()).is_some_and(|origin| origin.is_kernel);
        let (calls, names) = (&mut self.engine.world.calls, &mut self.engine.world.names);
        let spans = self.spans.as_ref();
        let binding = Binding::new(event.class(), is_kernel, calls, names, spans, &self.counters);
        if let Some(slot) = self.bindings.get_mut(at) {
            *slot = Some(binding);
            self.event(event, selected, seen);
        }
    }

    /// Applies a gap that a reader reports: the state that the discarded records may have changed is unknown.
    pub fn discarded(&mut self, discarded: &Discarded<'_>) {
        let from = discarded.from.or(discarded.to).unwrap_or(self.engine.world.now);
        // In Strata's traces a packet has all records from its begin on; others do not say where in it some are missing.
        let is_before = discarded.kind == DiscardedKind::Records
            && discarded.stream.trace().schema().environment("strata_version").is_some();
        let to = if is_before { discarded.packet.begin } else { discarded.to };
        let to = to.or(discarded.to).unwrap_or(from);
        self.absent(discarded.stream.index(), discarded.packet.cpu, (from, to));
    }

    /// Applies a gap in a stream from a time on, on one CPU if that is known. It is for clients that have no message of
    /// a reader.
    pub fn gap(&mut self, stream: usize, cpu: Option<u64>, from: Option<i64>) {
        let from = from.unwrap_or(self.engine.world.now);
        self.absent(stream, cpu, (from, from));
    }

    fn absent(&mut self, stream: usize, cpu: Option<u64>, (from, to): (i64, i64)) {
        let Some(origin) = self.origins.get(stream) else { return };
        let cpu = cpu.and_then(|cpu| u32::try_from(cpu).ok());
        self.engine.span_gap(origin.trace);
        self.engine.counter_gap(origin.trace, cpu, (from, to));
        if origin.is_kernel {
            self.engine.gap_between(origin.machine, cpu, (from, to));
        }
    }

    /// Returns the thread that a CPU runs; `None` if the trace does not say.
    #[must_use]
    #[inline]
    pub fn runs_on(&self, machine: u8, cpu: u32) -> Option<ThreadId> {
        self.engine.runs_on(machine, cpu)
    }

    /// Returns the number of times that a counter was refused because there were too many.
    #[must_use]
    pub fn counters_left_out(&self) -> u64 {
        self.engine.counters_left_out()
    }

    /// Sets the present to a later time. There must be no other record before it.
    pub fn until(&mut self, time: i64) {
        self.engine.world.until(time);
    }

    /// Says that the records up to `to` were passed, and that the traces may have more: what was so at the last record of a machine
    /// still is, until `to` or the end of its recording.
    pub fn cut(&mut self, reader: &Reader, to: i64) {
        let mut end = None;
        for stream in reader.streams() {
            let Some(span) = reader.span_of(stream) else { continue };
            let until = span.to.min(to);
            end = end.max(Some(until));
            if let Some(origin) = self.origins.get_mut(stream.index()) {
                origin.last = origin.last.max(until);
            }
        }
        if let Some(end) = end {
            self.until(end);
        }
    }

    /// Ends the trace. Everything that is open ends with the last record of its machine and is reported: what a machine did
    /// after its recording, while another one was recorded, is not known.
    pub fn finish<O: Observer>(&mut self, seen: &mut O) {
        let mut ends: Vec<i64> = Vec::new();
        for origin in &self.origins {
            let machine = usize::from(origin.machine);
            if ends.len() <= machine {
                ends.resize(machine + 1, i64::MIN);
            }
            if let Some(end) = ends.get_mut(machine) {
                *end = (*end).max(origin.last);
            }
        }
        // Of a single machine also what the client has said that there is behind the last record.
        if ends.len() < 2 {
            ends.clear();
        }
        self.engine.finish(&ends, seen);
    }
}

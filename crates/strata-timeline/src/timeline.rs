//! Messages of a reader to facts.

use std::collections::HashMap;

use strata_ctf::read::{Discarded, Event, FieldRef, Reader};
use strata_model::syscalls::Architecture;
use strata_model::EnvValue;

use crate::before::FactsBefore;
use crate::binding::{Binding, NumberedCalls};
use crate::counters::CounterRoles;
use crate::engine::Engine;
use crate::fact::{Fact, Spot};
use crate::hidden::Hidden;
use crate::id::ThreadId;
use crate::observer::Observer;
use crate::source::{Sources, StreamSource};
use crate::spans::{Home, SpanRoles};
use crate::steps::Step;
use crate::world::{EndingRecord, World};

/// What a stream's trace says of all its records.
#[derive(Clone, Copy, Debug)]
struct Origin {
    machine: u8,
    is_kernel: bool,
    /// By the numbers that the kernel knows them by.
    knows_threads: bool,
    trace: u32,
    /// The process that all of it is of, by the number that the kernel knows it by.
    process: Option<i64>,
    /// Its name has been told.
    is_named: bool,
    /// What its system calls are numbered by.
    architecture: Option<Architecture>,
}

/// Makes state of event records.
#[derive(Debug)]
pub struct Timeline {
    engine: Engine,
    /// By [`strata_ctf::read::EventClass::index`].
    bindings: Vec<Option<Binding>>,
    numbers: NumberedCalls,
    /// By [`strata_ctf::read::Stream::index`].
    origins: Vec<Origin>,
    /// `None`: by the endings of names.
    spans: Option<SpanRoles>,
    counters: CounterRoles,
}

impl Timeline {
    /// Of all traces of a reader.
    #[must_use]
    pub fn new(reader: &Reader) -> Timeline {
        let Sources { machines, unsure, switches, streams } = Sources::new(reader);
        let origin = |(at, source): (usize, &StreamSource)| Origin {
            machine: source.machine,
            is_kernel: source.is_kernel,
            knows_threads: source.inner_process.is_none(),
            trace: reader.streams().get(at).map_or(u32::MAX, |stream| {
                u32::try_from(stream.trace().index()).unwrap_or(u32::MAX)
            }),
            process: source.process,
            is_named: source.is_kernel || source.process.is_none(),
            architecture: source.architecture,
        };
        let origins = streams.iter().enumerate().map(origin).collect();
        let mut bindings = Vec::new();
        bindings.resize_with(reader.event_classes(), || None);
        let (mut engine, numbers) = (Engine::new(machines), NumberedCalls::default());
        engine.world.know_no_files(unsure);
        engine.world.hidden = Hidden::of(&switches);
        let counters = CounterRoles::new();
        Timeline { engine, bindings, numbers, origins, spans: None, counters }
    }

    /// The same, with these spans instead of those of programs whose events end in `_begin` and `_end`.
    #[must_use]
    pub fn with_spans(reader: &Reader, spans: SpanRoles) -> Timeline {
        Timeline { spans: Some(spans), ..Timeline::new(reader) }
    }

    /// The same, with these counters. Without it there are none: which numbers hold until another record says another one
    /// no trace tells.
    #[must_use]
    pub fn with_counters(self, counters: CounterRoles) -> Timeline {
        Timeline { counters, ..self }
    }

    /// What the first records say, in the order of time, of descriptors that were there before them: told before the first
    /// one is, each with its trace and its thread.
    pub fn begin(&mut self, first: &[(usize, Option<i64>, Step)]) {
        let of =
            |origin: &Origin| (usize::try_from(origin.trace).unwrap_or(usize::MAX), origin.machine);
        let machines: HashMap<usize, u8> = self.origins.iter().map(of).collect();
        let machine = |trace| machines.get(&trace).copied().unwrap_or(u8::MAX);
        self.engine.begin_with(FactsBefore::new(machine, first));
    }

    /// [Hidden threads](World::hidden) are counted from then on.
    pub fn count_hidden_from(&mut self, time: i64) {
        self.engine.world.hidden.count_from(time);
    }

    /// What is known now.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.engine.world
    }

    /// The next record. `selected`: whether a filter has selected it, which the calls are told that begin or end
    /// with it.
    #[inline]
    pub fn event<O: Observer>(&mut self, event: &Event<'_>, selected: bool, seen: &mut O) {
        let Some(&origin) = self.origins.get(event.stream().index()) else { return };
        if let Some(time) = event.time() {
            self.engine.world.begin.get_or_insert(time);
            self.engine.world.now = self.engine.world.now.max(time);
        }
        let Some(slot) = self.bindings.get_mut(event.class().index()) else { return };
        let (calls, names) = (&mut self.engine.world.calls, &mut self.engine.world.names);
        let binding = slot.get_or_insert_with(|| {
            let spans = self.spans.as_ref();
            Binding::new(event.class(), origin.is_kernel, calls, names, spans, &self.counters)
        });
        if binding.is_nothing() && !O::RECORDS {
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
        if let (Some(own), None) = (own, &binding.whose.pid) {
            if let Some(brief) = binding.brief::<O>(event) {
                if let Some(who) = self.engine.running(origin.machine, cpu, own) {
                    let told = EndingRecord { machine: origin.machine, selected };
                    let time = event.time().unwrap_or(self.engine.world.now);
                    return self.engine.apply_brief(who, brief, told, time, seen);
                }
            }
        }
        let calls = &mut self.engine.world.calls;
        // Of what this observer does not look at, only who made it.
        let fact = match binding.is_unwanted::<O>() {
            true => binding.whose.tid.is_some().then_some(Fact::Made),
            false => {
                let numbers = self.numbers.by(origin.architecture);
                binding.fact(event, numbers, calls, O::STATES || O::FILES)
            }
        };
        // Of another PID namespace: its numbers are those of others here.
        let fact = fact.filter(|fact| origin.knows_threads || !matches!(fact, Fact::Named { .. }));
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
        if !origin.is_named {
            let of = self.origins.get_mut(event.stream().index());
            of.into_iter().for_each(|of| of.is_named = true);
            let name = event.stream().trace().schema().environment("procname");
            if let (Some(EnvValue::Text(name)), Some(pid)) = (name, pid) {
                self.engine.name_process(origin.machine, pid, name, seen);
            }
        }
        if let Some(fact) = fact {
            self.engine.apply(spot, fact, seen);
        }
        if let Some(mark) = mark {
            self.engine.apply(spot, Fact::Span(mark), seen);
        }
        if has_counters {
            let stream = u32::try_from(event.stream().index()).unwrap_or(u32::MAX);
            let place = self.engine.counter_place(spot, origin.is_kernel, stream, seen);
            for counter in &binding.counters {
                if let Some(number) = counter.number(event) {
                    self.engine.count(spot, (counter.name, place, number), seen);
                }
            }
        }
        if O::RECORDS {
            let who = self.engine.of(spot, seen);
            seen.record(&self.engine.world, event, who, selected);
        }
    }

    /// Records were discarded there.
    pub fn discarded(&mut self, discarded: &Discarded<'_>) {
        let from = discarded.from.or(discarded.to).unwrap_or(self.engine.world.now);
        let to = discarded.to.unwrap_or(from);
        self.absent(discarded.stream.index(), discarded.packet.cpu, (from, to));
    }

    /// Records of a stream are not there, from a time on; by what they say, if that is known, of this CPU.
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
            self.engine.gap(origin.machine, cpu, from);
        }
    }

    /// What a CPU of a machine runs; `None`: nobody knows.
    #[must_use]
    #[inline]
    pub fn runs_on(&self, machine: u8, cpu: u32) -> Option<ThreadId> {
        self.engine.runs_on(machine, cpu)
    }

    /// How often a counter was one more than are told apart, of which nothing is told.
    #[must_use]
    pub fn counters_left_out(&self) -> u64 {
        self.engine.counters_left_out()
    }

    /// Up to then there is no other record.
    pub fn until(&mut self, time: i64) {
        self.engine.world.now = self.engine.world.now.max(time);
    }

    /// That was all: what is open ends with the last record.
    pub fn finish<O: Observer>(&mut self, seen: &mut O) {
        self.engine.finish(seen);
    }
}

//! Messages of a reader to facts.

use strata_ctf::read::{Discarded, Event, Reader};
use strata_model::schema::Schema;
use strata_model::EnvValue;

use crate::binding::{number, Binding, Numbers};
use crate::engine::Engine;
use crate::fact::{Fact, Spot};
use crate::observer::Observer;
use crate::spans::{Home, SpanRoles};
use crate::world::World;

/// Machines that are told apart: threads of one more are those of the last.
const MACHINES_MAX: usize = 64;

/// What a stream's trace says of all its records.
#[derive(Clone, Copy, Debug)]
struct Origin {
    machine: u8,
    is_kernel: bool,
    /// By the numbers that the kernel knows them by.
    knows_threads: bool,
    trace: u32,
    /// The process that all of it is of, by the number that it knows itself by.
    process: Option<i64>,
    /// Its name has been told.
    is_named: bool,
}

/// Makes state of event records.
#[derive(Debug)]
pub struct Timeline {
    engine: Engine,
    /// By [`strata_ctf::read::EventClass::index`].
    bindings: Vec<Option<Binding>>,
    numbers: Numbers,
    /// By [`strata_ctf::read::Stream::index`].
    origins: Vec<Origin>,
    /// `None`: by the endings of names.
    spans: Option<SpanRoles>,
}

impl Timeline {
    /// Of all traces of a reader.
    #[must_use]
    pub fn new(reader: &Reader) -> Timeline {
        let mut machines: Vec<String> = Vec::new();
        let origins = reader.streams().iter().map(|stream| {
            let schema = stream.trace().schema();
            let name = match schema.environment("hostname") {
                Some(EnvValue::Text(name)) => name.as_str(),
                _ => "",
            };
            let known = machines.iter().position(|known| known == name);
            let at = known.unwrap_or_else(|| {
                if machines.len() < MACHINES_MAX {
                    machines.push(name.to_owned());
                }
                machines.len() - 1
            });
            let (pid, vpid) = (schema.environment("pid"), schema.environment("vpid"));
            let process = match vpid {
                Some(EnvValue::Integer(vpid)) => Some(*vpid),
                _ => None,
            };
            Origin {
                trace: u32::try_from(stream.trace().index()).unwrap_or(u32::MAX),
                process,
                is_named: is_kernel(schema) || process.is_none(),
                machine: u8::try_from(at).unwrap_or(u8::MAX),
                is_kernel: is_kernel(schema),
                knows_threads: pid.is_none() || pid == vpid,
            }
        });
        let origins = origins.collect();
        let mut bindings = Vec::new();
        bindings.resize_with(reader.event_classes(), || None);
        let (engine, numbers) = (Engine::new(machines), Numbers::default());
        Timeline { engine, bindings, numbers, origins, spans: None }
    }

    /// The same, with these spans instead of those of programs whose events end in `_begin` and `_end`.
    #[must_use]
    pub fn with_spans(reader: &Reader, spans: SpanRoles) -> Timeline {
        Timeline { spans: Some(spans), ..Timeline::new(reader) }
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
            Binding::new(event.class(), origin.is_kernel, calls, names, spans)
        });
        if binding.is_nothing() && !O::RECORDS {
            return;
        }
        let fact = binding.fact(event, &mut self.numbers, calls, O::STATES);
        let mark = binding.span(event);
        let ask = |field: &Option<strata_ctf::read::FieldRef>| number(event, field.as_ref()?);
        let cpu = match event.packet().cpu {
            Some(cpu) => u32::try_from(cpu).ok(),
            None => ask(&binding.cpu).and_then(|cpu| u32::try_from(cpu).ok()),
        };
        let (tid, pid) = (ask(&binding.tid), ask(&binding.pid));
        let home_pid = pid.filter(|_| !origin.is_kernel);
        let pid = pid.or(origin.process).filter(|_| origin.knows_threads || origin.is_kernel);
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
            let schema = event.stream().trace().schema();
            if let (Some(EnvValue::Text(name)), Some(pid)) = (schema.environment("procname"), pid) {
                self.engine.name_process(origin.machine, pid, name, seen);
            }
        }
        if let Some(fact) = fact {
            self.engine.apply(spot, fact, seen);
        }
        if let Some(mark) = mark {
            self.engine.apply(spot, Fact::Span(mark), seen);
        }
        if O::RECORDS {
            let who = self.engine.of(spot, seen);
            seen.record(&self.engine.world, event, who, selected);
        }
    }

    /// Records were discarded there.
    pub fn discarded(&mut self, discarded: &Discarded<'_>) {
        let Some(origin) = self.origins.get(discarded.stream.index()) else { return };
        self.engine.span_gap(origin.trace);
        if origin.is_kernel {
            let from = discarded.from.or(discarded.to).unwrap_or(self.engine.world.now);
            let cpu = discarded.packet.cpu.and_then(|cpu| u32::try_from(cpu).ok());
            self.engine.gap(origin.machine, cpu, from);
        }
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

/// Whether a kernel's records are in such a trace. Not every tracer says so: perf has no environment.
#[must_use]
pub fn is_kernel(schema: &Schema) -> bool {
    let text = |name| match schema.environment(name) {
        Some(EnvValue::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let mut events = schema.streams.iter().flat_map(|stream| &stream.events);
    let names = |name: &str| {
        let prefixes = ["sched:", "syscalls:", "raw_syscalls:", "irq:"];
        name == "sched_switch" || prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    match text("domain") {
        Some(domain) => domain == "kernel",
        None => schema.environment("vpid").is_none() && events.any(|event| names(&event.name)),
    }
}

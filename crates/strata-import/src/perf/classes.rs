//! Event classes of the trace, and the bytes of their records.

use strata_model::{
    Array, Base, ByteOrder, ClockClass, Element, EnvValue, EventClass, Field, FieldClass, Integer,
    RecordHeader, Sequence, StreamClass, Trace, Uuid,
};

use super::head::{part, PerfEvent, PerfFile, TRACEPOINT};
use super::record::{At, Mapped, Sample};
use crate::bytes::put_text;
use crate::formats::{fitting, TracepointFormat};
use crate::tracepoints::Tracepoint;

/// Ids of the classes that are no events of perf. Those of its events follow.
pub(crate) const THREAD: u32 = 0;
pub(crate) const MAPPED: u32 = 1;
pub(crate) const PROGRAM: u32 = 2;
pub(crate) const FORKED: u32 = 3;
pub(crate) const FIRST: u32 = 4;

/// Size of a thread's name \[byte\].
pub(crate) const NAME_BYTES: usize = 16;

/// The kernel's number of CLOCK_MONOTONIC.
const MONOTONIC: i32 = 1;

/// The event class of an event of perf, and the parts of its samples that become fields.
#[derive(Debug)]
struct SampleClass {
    /// The tracepoint, if it is one whose format is known.
    tracepoint: Option<Tracepoint>,
    /// Other parts of a sample.
    numbers: Vec<u64>,
    class: EventClass,
}

/// The classes of the trace.
#[derive(Debug)]
pub(crate) struct Classes {
    samples: Vec<SampleClass>,
    /// True if an event has call stacks. Then each record has, which may be empty: babeltrace2 2.0 ends itself where only some classes
    /// have arrays in their context.
    has_stacks: bool,
}

fn number(name: &str, bytes: u8) -> Field {
    Field::new(name, FieldClass::Integer(Integer::signed(bytes)))
}

fn address() -> Integer {
    Integer { base: Base::Sixteen, ..Integer::unsigned(8) }
}

fn text(name: &str) -> Field {
    Field::new(name, FieldClass::String)
}

fn stack(name: &str) -> Field {
    let element = Element::Integer(address());
    Field::new(name, FieldClass::Sequence(Sequence { element, length_bytes: 4 }))
}

fn class(id: u32, name: &str, fields: Vec<Field>) -> EventClass {
    EventClass { id, name: name.to_owned(), fields, ..EventClass::default() }
}

impl Classes {
    pub fn new(about: &PerfFile) -> Classes {
        let samples = about.events.iter().zip(FIRST..).map(|(event, id)| {
            let format = about.formats.iter().find(|format| {
                event.kind == TRACEPOINT && format.id == event.config && event.has(part::RAW)
            });
            SampleClass::new(event, id, format)
        });
        let has_stacks = about.events.iter().any(|event| event.has(part::CALLCHAIN));
        Classes { samples: samples.collect(), has_stacks }
    }

    /// Returns the description of the trace.
    pub fn trace(&self, about: &PerfFile, uuid: Uuid) -> Trace {
        let mut events = vec![
            class(
                THREAD,
                "lttng_statedump_process_state",
                vec![number("tid", 4), number("pid", 4), text("name")],
            ),
            class(
                MAPPED,
                "lttng_statedump_vm_map",
                [
                    vec![number("pid", 4)],
                    ["start", "end", "offset"]
                        .map(|name| Field::new(name, FieldClass::Integer(address())))
                        .to_vec(),
                    vec![text("path"), text("build_id")],
                ]
                .concat(),
            ),
            class(
                PROGRAM,
                "lttng_statedump_vm_exec",
                vec![number("tid", 4), number("pid", 4), text("name")],
            ),
            class(
                FORKED,
                "lttng_statedump_vm_fork",
                ["parent_pid", "parent_tid", "child_pid", "child_tid"]
                    .map(|name| number(name, 4))
                    .to_vec(),
            ),
        ];
        events.extend(self.samples.iter().map(|one| one.class.clone()));
        let name = Array { element: Element::Text, count: NAME_BYTES as u32 };
        let procname = Field::new("procname", FieldClass::Array(name));
        let mut context = vec![number("pid", 4), number("tid", 4), procname];
        if self.has_stacks {
            context.extend(["callstack_kernel", "callstack_user"].map(stack));
        }
        let header = RecordHeader::Large;
        let stream = StreamClass { id: 0, name: String::new(), header, context, events };
        Trace {
            uuid,
            byte_order: ByteOrder::NATIVE,
            environment: environment(about),
            clock: clock(about),
            streams: vec![stream],
        }
    }

    /// Appends the stacks of the kernel and of the program to the context of a record, if records have any.
    fn put_stacks(&self, out: &mut Vec<u8>, stacks: &[Vec<u64>; 2]) {
        for stack in stacks.iter().filter(|_| self.has_stacks) {
            out.extend(u32::try_from(stack.len()).unwrap_or(0).to_ne_bytes());
            stack.iter().for_each(|address| out.extend(address.to_ne_bytes()));
        }
    }

    /// Returns the bytes of empty stacks, for records that have none.
    pub fn no_stacks(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put_stacks(&mut out, &[Vec::new(), Vec::new()]);
        out
    }

    /// Returns the id and the bytes of a sample's record, behind the thread and its name. `None` if the sample is too short.
    pub fn sample(&self, sample: &Sample<'_>) -> Option<(u32, Vec<u8>)> {
        let one = self.samples.get(sample.event)?;
        let mut out = Vec::new();
        self.put_stacks(&mut out, &sample.stacks);
        for of in &one.numbers {
            let value = match *of {
                part::IP => sample.ip,
                part::ADDRESS => sample.address,
                _ => sample.period,
            };
            out.extend(value.to_ne_bytes());
        }
        let is_whole =
            one.tracepoint.as_ref().is_none_or(|tracepoint| tracepoint.put(&mut out, sample.raw));
        is_whole.then_some((one.class.id, out))
    }

    /// Returns the names of tracepoints whose formats the file does not have.
    pub fn without_format<'a>(&'a self, about: &'a PerfFile) -> impl Iterator<Item = &'a str> {
        let all = about.events.iter().zip(&self.samples);
        let unknown =
            all.filter(|(event, one)| event.kind == TRACEPOINT && one.tracepoint.is_none());
        unknown.map(|(_, one)| one.class.name.as_str())
    }
}

/// Returns the bytes of the record of a mapping.
pub(crate) fn mapped(at: &At, mapped: &Mapped<'_>) -> Vec<u8> {
    let mut out = at.pid.to_ne_bytes().to_vec();
    let end = mapped.begin.saturating_add(mapped.bytes);
    for word in [mapped.begin, end, mapped.offset] {
        out.extend(word.to_ne_bytes());
    }
    put_text(&mut out, mapped.path);
    for byte in mapped.build_id {
        out.extend(format!("{byte:02x}").bytes());
    }
    out.push(0);
    out
}

/// Returns the bytes of the record of a thread, or of the program that it executes.
pub(crate) fn named(at: &At, name: &[u8]) -> Vec<u8> {
    let mut out = [at.tid.to_ne_bytes(), at.pid.to_ne_bytes()].concat();
    put_text(&mut out, name);
    out
}

impl SampleClass {
    fn new(event: &PerfEvent, id: u32, format: Option<&TracepointFormat>) -> SampleClass {
        if let Some(format) = format {
            let (class, tracepoint) = Tracepoint::new(format);
            let class = EventClass { id, ..class };
            return SampleClass { tracepoint: Some(tracepoint), numbers: Vec::new(), class };
        }
        let known = [(part::IP, "ip"), (part::ADDRESS, "addr"), (part::PERIOD, "period")];
        let known: Vec<_> = known.into_iter().filter(|(part, _)| event.has(*part)).collect();
        let field = |(part, name): &(u64, &str)| {
            let integer = if *part == part::PERIOD { Integer::unsigned(8) } else { address() };
            Field::new(*name, FieldClass::Integer(integer))
        };
        let fields = known.iter().map(field).collect();
        let class = class(id, &name_of(event), fields);
        let numbers = known.iter().map(|(part, _)| *part).collect();
        SampleClass { tracepoint: None, numbers, class }
    }
}

/// Letters of perf's modifiers, as in `cycles:ppp` or `cpu-clock:u`.
const MODIFIERS: &str = "ukhpGHPSDWIeb";

/// Returns the name of an event's class: as perf was given it, without modifiers.
fn name_of(event: &PerfEvent) -> String {
    let is_modifier = |text: &str| text.chars().all(|letter| MODIFIERS.contains(letter));
    let name = match event.name.rsplit_once(':') {
        Some((name, behind)) if !name.contains(':') && is_modifier(behind) => name,
        _ => &event.name,
    };
    let name = fitting(name);
    match (event.kind, event.config) {
        // As our own recorder calls the same.
        (1, 0) => "cpu_clock".to_owned(),
        _ if !name.is_empty() => name,
        (1, 1) => "task-clock".to_owned(),
        (0, 0) => "cycles".to_owned(),
        (0, 1) => "instructions".to_owned(),
        (kind, config) => format!("event_{kind}_{config:x}"),
    }
}

fn environment(about: &PerfFile) -> Vec<(String, EnvValue)> {
    let mut all = vec![
        ("domain".to_owned(), EnvValue::from("kernel")),
        ("tracer_name".to_owned(), EnvValue::from("perf")),
    ];
    let known = [
        ("hostname", &about.hostname),
        ("kernel_release", &about.release),
        ("machine", &about.machine),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            all.push((name.to_owned(), EnvValue::from(value.as_str())));
        }
    }
    all
}

/// Returns the clock of all timestamps. The scheduler's, which perf takes by default, has no known relation to others.
fn clock(about: &PerfFile) -> ClockClass {
    let number = about.events.first().and_then(|event| event.clock);
    let (name, description) = match number {
        Some(MONOTONIC) => ("monotonic", "CLOCK_MONOTONIC"),
        Some(_) => ("perf", "the clock that perf record --clockid has named"),
        None => ("perf", "the scheduler's clock"),
    };
    ClockClass {
        name: name.into(),
        description: description.into(),
        absolute: about.offset_ns.is_some(),
        ..ClockClass::monotonic(None, about.offset_ns.unwrap_or(0))
    }
}

//! The sources of records: what a trace says once about all its records, such as its machine and process.
//!
//! Machines are distinguished by their names, and guests also by their clocks. All traces of a machine share its state.
//! Numbers of threads are those of the machine, unless a trace is of an application in another PID namespace.

use strata_ctf::environment::{DescriptorCalls, DESCRIPTOR_CALLS, SWITCHES, SWITCHES_ALL};
use strata_ctf::read::Reader;
use strata_model::schema::{EventClass, Schema};
use strata_model::syscalls::Architecture;
use strata_model::{EnvValue, Uuid};

use crate::records::tracer_names::kernel_name;
use crate::world::hidden_threads::Switches;

/// The most machines that are distinguished. All others are machine 255, of which nothing is known.
const MACHINES_MAX: usize = 255;

/// The most events whose names are compared to find out whether a trace is a kernel's.
const EVENTS_MAX: usize = 1 << 10;

/// The properties of a stream, as its trace says them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSource {
    /// The machine's index in [`Sources::machines`].
    pub machine: u8,
    /// True for the trace of a kernel.
    pub is_kernel: bool,
    /// The process of all records, by its number on the machine.
    pub process: Option<i64>,
    /// The number of the process in its PID namespace, if it is another one than on the machine.
    pub inner_process: Option<i64>,
    /// The name of the process.
    pub process_name: Option<String>,
    /// The architecture by which system calls have their numbers; `None` if the trace does not say, or there is no
    /// table for it.
    pub architecture: Option<Architecture>,
}

impl StreamSource {
    fn new(schema: &Schema, machine: u8) -> StreamSource {
        let number = |name| match schema.environment(name) {
            Some(&EnvValue::Integer(number)) => Some(number),
            _ => None,
        };
        let vpid = number("vpid");
        // Strata's own: by this one the kernel's records know it.
        let process = vpid.and_then(|_| number("pid")).or(vpid);
        StreamSource {
            machine,
            is_kernel: is_kernel(schema),
            process,
            inner_process: vpid.filter(|_| vpid != process),
            process_name: text(schema, "procname").map(str::to_owned),
            architecture: architecture(schema),
        }
    }

    /// Returns the number on the machine of a thread that has the number `tid` in its trace. If `tid` is a number in
    /// another PID namespace, returns it as the second part instead.
    #[must_use]
    #[inline]
    pub fn thread(&self, tid: Option<i64>) -> (Option<i64>, Option<i64>) {
        match self.inner_process {
            None => (tid, None),
            // The first thread has its process' number, in each of them.
            Some(_) if self.inner_process == tid => (self.process, None),
            Some(_) => (None, tid),
        }
    }
}

/// The kernel of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// The kernel's release, such as `4.4.3-1-ARCH`; `None` if no trace says it.
    pub release: Option<String>,
    /// True if the traces have records of switches.
    pub has_switches: bool,
    /// True if the traces have records of interrupts of devices.
    pub has_interrupts: bool,
    /// True if there is a trace of the kernel.
    pub is_recorded: bool,
}

impl Kernel {
    fn of<'s>(traces: impl Iterator<Item = &'s Schema>) -> Kernel {
        let mut kernel = Kernel::default();
        for schema in traces.filter(|schema| is_kernel(schema)) {
            let release = text(schema, "kernel_release").or_else(|| text(schema, "release"));
            kernel.release = kernel.release.or_else(|| release.map(str::to_owned));
            kernel.is_recorded = true;
            kernel.has_switches |= has_switch(schema);
            kernel.has_interrupts |= has_event(schema, "irq_handler_entry");
        }
        kernel
    }
}

/// The sources of all streams of a reader.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The names of machines.
    pub machines: Vec<String>,
    /// The machines with a trace that lacks some of the calls that open, copy and close descriptors.
    pub unsure: Vec<u8>,
    /// The completeness of the switches, by machine.
    pub switches: Vec<Switches>,
    /// The kernel, by machine.
    pub kernels: Vec<Kernel>,
    /// The properties of streams, by [`strata_ctf::read::Stream::index`].
    pub streams: Vec<StreamSource>,
}

impl Sources {
    /// Reads the sources of all traces of a reader.
    #[must_use]
    pub fn new(reader: &Reader) -> Sources {
        let mut machines: Vec<MachineIdentity<'_>> = Vec::new();
        for trace in reader.traces() {
            let machine = MachineIdentity::new(trace.schema());
            if machines.len() < MACHINES_MAX && !machines.contains(&machine) {
                machines.push(machine);
            }
        }
        let number = |schema: &Schema| {
            let of = MachineIdentity::new(schema);
            let at = machines.iter().position(|known| *known == of);
            at.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
        };
        let schemas = reader.traces().iter().map(|trace| &**trace.schema());
        let some = schemas.filter(|it| descriptor_calls(it) == Some(DescriptorCalls::Some));
        let mut unsure: Vec<u8> = some.map(number).collect();
        unsure.sort_unstable();
        unsure.dedup();
        let switches = (0..machines.len()).map(|machine| {
            let traces = reader.traces().iter().map(|trace| &**trace.schema());
            switches(traces.filter(|it| usize::from(number(it)) == machine))
        });
        let switches = switches.collect();
        let kernels = (0..machines.len()).map(|machine| {
            let traces = reader.traces().iter().map(|trace| &**trace.schema());
            Kernel::of(traces.filter(|it| usize::from(number(it)) == machine))
        });
        let kernels = kernels.collect();
        let streams = reader.streams().iter().map(|stream| {
            let schema = stream.trace().schema();
            StreamSource::new(schema, number(schema))
        });
        let streams = streams.collect();
        // A host keeps its name, whichever trace comes first.
        let name = |(at, machine): (usize, &MachineIdentity<'_>)| {
            let others = machines.iter().enumerate().filter(|(_, it)| it.name == machine.name);
            let before = others.filter(|(other, it)| {
                machine.clock.is_some() && (it.clock.is_none() || *other < at)
            });
            match before.count() {
                0 => machine.name.to_owned(),
                others => format!("{} ({})", machine.name, others + 1),
            }
        };
        let machines = machines.iter().enumerate().map(name).collect();
        Sources { machines, unsure, switches, kernels, streams }
    }
}

/// The identity of a machine: its name, and for a guest also its clock, since guests often have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MachineIdentity<'s> {
    name: &'s str,
    clock: Option<Uuid>,
}

impl<'s> MachineIdentity<'s> {
    fn new(schema: &'s Schema) -> MachineIdentity<'s> {
        let is_guest = schema.environment("clock_uncertainty").is_some();
        let clock = schema.clocks.first().filter(|_| is_guest);
        MachineIdentity {
            name: text(schema, "hostname").unwrap_or_default(),
            clock: clock.map(|clock| clock.uuid.unwrap_or(Uuid([0; 16]))),
        }
    }
}

fn text<'s>(schema: &'s Schema, name: &str) -> Option<&'s str> {
    match schema.environment(name) {
        Some(EnvValue::Text(text)) if !text.is_empty() => Some(text.as_str()),
        _ => None,
    }
}

/// Returns the architecture by which system calls have their numbers in a trace; `None` if the trace does not say, or
/// there is no table for it.
#[must_use]
pub fn architecture(schema: &Schema) -> Option<Architecture> {
    text(schema, "machine").and_then(Architecture::from_machine)
}

/// Returns how many of the calls that open, copy and close descriptors are recorded in a trace; `None` if it does not
/// say.
#[must_use]
pub fn descriptor_calls(schema: &Schema) -> Option<DescriptorCalls> {
    text(schema, DESCRIPTOR_CALLS).and_then(DescriptorCalls::from_name)
}

/// Returns true if a trace has records of switches.
fn has_switch(schema: &Schema) -> bool {
    has_event(schema, "sched_switch")
}

/// Returns true if a trace describes an event of the kernel with this name.
fn has_event(schema: &Schema, name: &str) -> bool {
    let is_it = |event: &EventClass| kernel_name(&event.name) == name;
    schema.streams.iter().flat_map(|stream| &stream.events).any(is_it)
}

/// Returns the completeness of a machine's switches, from those traces that have any.
fn switches<'s>(traces: impl Iterator<Item = &'s Schema>) -> Switches {
    let said = traces.filter(|schema| is_kernel(schema)).filter(|schema| has_switch(schema)).map(
        |schema| {
            text(schema, SWITCHES).map_or(Switches::NotSaid, |text| match text {
                SWITCHES_ALL => Switches::All,
                _ => Switches::Some,
            })
        },
    );
    let of_two = |one, other| match (one, other) {
        (Switches::Some, _) | (_, Switches::Some) => Switches::Some,
        (Switches::All, Switches::All) => Switches::All,
        _ => Switches::NotSaid,
    };
    said.reduce(of_two).unwrap_or_default()
}

/// Returns true for the trace of a kernel. Not every tracer says so: for perf, whose traces have no environment, the
/// names of events decide.
#[must_use]
pub fn is_kernel(schema: &Schema) -> bool {
    let events = schema.streams.iter().flat_map(|stream| &stream.events);
    let is_of_kernel = |name: &str| name == "sched_switch" || kernel_name(name) != name;
    match text(schema, "domain") {
        Some(domain) => domain == "kernel",
        None => {
            schema.environment("vpid").is_none()
                && events.take(EVENTS_MAX).any(|event| is_of_kernel(&event.name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(environment: &[(&str, EnvValue)]) -> Schema {
        let entry = |(name, value): &(&str, EnvValue)| ((*name).to_owned(), value.clone());
        Schema { environment: environment.iter().map(entry).collect(), ..Schema::default() }
    }

    #[test]
    fn thread_of_another_pid_namespace_is_nobody_elses() {
        let source = |environment: &[(&str, i64)]| {
            let all: Vec<(&str, EnvValue)> =
                environment.iter().map(|&(name, number)| (name, number.into())).collect();
            StreamSource::new(&schema(&all), 0)
        };
        let here = source(&[("vpid", 40), ("pid", 40)]);
        assert_eq!((here.process, here.thread(Some(41))), (Some(40), (Some(41), None)));
        let elsewhere = source(&[("vpid", 7), ("pid", 40)]);
        assert_eq!((elsewhere.process, elsewhere.thread(Some(7))), (Some(40), (Some(40), None)));
        assert_eq!(elsewhere.thread(Some(8)), (None, Some(8)));
        assert_eq!(elsewhere.thread(None), (None, None));
        // LTTng's.
        assert_eq!(source(&[("vpid", 7)]).thread(Some(8)), (Some(8), None));
    }

    #[test]
    fn source_of_a_process_trace_has_its_number_and_name() {
        let environment =
            [("domain", "ust".into()), ("vpid", 42.into()), ("procname", "demo".into())];
        let source = StreamSource::new(&schema(&environment), 3);
        assert_eq!((source.machine, source.process), (3, Some(42)));
        assert_eq!(source.process_name.as_deref(), Some("demo"));
        assert!(!source.is_kernel);
    }

    #[test]
    fn kernel_s_trace_is_what_says_so_or_has_the_kernel_s_events() {
        use strata_model::schema::{EventClass, StreamClass};
        let of = |environment: &[(&str, EnvValue)], events: &[&str]| {
            let event = |name: &&str| EventClass { name: (*name).into(), ..EventClass::default() };
            let events = events.iter().map(event).collect();
            let streams = vec![StreamClass { events, ..StreamClass::default() }];
            is_kernel(&Schema { streams, ..schema(environment) })
        };
        let domain = |domain: &str| vec![("domain", EnvValue::from(domain))];
        assert!(of(&domain("kernel"), &[]));
        // Whatever its events are called.
        assert!(!of(&domain("ust"), &["sched_switch"]) && !of(&domain("bare"), &["sched_switch"]));
        for events in [
            &["sched_switch"][..],
            &["my:event", "irq:softirq_entry"],
            &["syscalls:sys_enter_read"],
        ] {
            assert!(of(&[], events), "{events:?}");
            assert!(of(&domain(""), events), "a text without anything says nothing");
            assert!(!of(&[("vpid", 5.into())], events), "{events:?}");
        }
        assert!(!of(&[], &[]) && !of(&[], &["sched_wakeup", "shop:sold"]));
        // A number is no domain.
        assert!(of(&[("domain", 1.into())], &["sched_switch"]));
    }

    #[test]
    fn switches_are_all_where_each_trace_that_has_any_says_so() {
        use strata_model::schema::StreamClass;
        let of = |said: Option<&str>, events: &[&str]| {
            let event = |name: &&str| EventClass { name: (*name).into(), ..EventClass::default() };
            let events = events.iter().map(event).collect();
            let streams = vec![StreamClass { events, ..StreamClass::default() }];
            let said = said.map(|said| ("strata_switches", said.into()));
            let all: Vec<_> = [("domain", "kernel".into())].into_iter().chain(said).collect();
            Schema { streams, ..schema(&all) }
        };
        let (all, some) = (Some("all"), Some("some"));
        let of_machine = |traces: &[Schema]| switches(traces.iter());
        let switch = ["irq_softirq_raise", "sched_switch"];
        assert_eq!(of_machine(&[of(all, &switch), of(all, &switch)]), Switches::All);
        assert_eq!(of_machine(&[of(all, &switch), of(some, &switch)]), Switches::Some);
        assert_eq!(of_machine(&[of(all, &switch), of(None, &switch)]), Switches::NotSaid);
        assert_eq!(of_machine(&[of(None, &switch), of(some, &switch)]), Switches::Some);
        assert_eq!(of_machine(&[of(Some("most"), &switch)]), Switches::Some);
        // A channel without switches, and perf's.
        assert_eq!(of_machine(&[of(some, &switch[..1]), of(all, &switch)]), Switches::All);
        assert_eq!(of_machine(&[of(None, &["sched:sched_switch"])]), Switches::NotSaid);
        assert_eq!(of_machine(&[of(all, &[])]), Switches::NotSaid);
    }

    #[test]
    fn numbers_and_names_of_another_kind_say_nothing() {
        let wrong = [("vpid", "5".into()), ("pid", "6".into()), ("procname", 7.into())];
        let source = StreamSource::new(&schema(&wrong), 0);
        let said = (source.process, source.inner_process, source.process_name.clone());
        assert_eq!(said, (None, None, None));
        // The kernel's number alone is no process'.
        assert_eq!(StreamSource::new(&schema(&[("pid", 6.into())]), 0).process, None);
        let empty = StreamSource::new(&schema(&[("procname", "".into())]), 0);
        assert_eq!(empty.process_name, None);
    }
}

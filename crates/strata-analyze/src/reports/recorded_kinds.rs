//! The kinds of records in the traces, by their classes. They say which reports would have something to show.

use strata_ctf::environment::{LEFT_OUT, SAMPLED};
use strata_ctf::read::Reader;
use strata_model::schema::EventClass;
use strata_model::EnvValue;
use strata_timeline::{begins_of, is_descriptor, is_path, kernel_name, CallEnd, OF_SLOW};

use super::flame::{has_stacks, has_stacks_of_waits};

/// The kinds of records that the traces have or may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// True if records have call stacks.
    pub stacks: bool,
    /// True if records of switches have call stacks.
    pub stacks_of_waits: bool,
    /// True if allocations of programs were recorded or counted.
    pub allocations: bool,
    /// True if interrupts or softirqs were recorded.
    pub interrupts: bool,
    /// True if requests of the kernel to disks were recorded.
    pub requests: bool,
}

impl Recorded {
    /// Reads the kinds from the traces' descriptions.
    #[must_use]
    pub fn new(reader: &Reader) -> Recorded {
        let is_allocation = |class: &EventClass| {
            ["libc:malloc", "lttng_ust_libc:malloc", "libc_sum:calls"].contains(&&*class.name)
        };
        let is_interrupt = |class: &EventClass| {
            let name = kernel_name(&class.name);
            ["irq_softirq_entry", "softirq_entry", "irq_handler_entry"].contains(&name)
        };
        Recorded {
            stacks: has_stacks(reader),
            stacks_of_waits: has_stacks_of_waits(reader),
            allocations: classes(reader).any(is_allocation),
            interrupts: classes(reader).any(is_interrupt),
            requests: classes(reader).any(|class| kernel_name(&class.name) == "block_rq_issue"),
        }
    }
}

/// Returns true if the records of a system call have a descriptor or a path.
#[must_use]
pub fn is_of_files(reader: &Reader, call: &str) -> bool {
    let names = begins_of(call);
    let is_one = |name: &str| is_descriptor(name) || is_path(name);
    classes(reader).any(|class| {
        names.iter().any(|name| name == kernel_name(&class.name))
            && class.payload.iter().flat_map(|it| &it.members).any(|member| is_one(&member.name))
    })
}

/// Returns true if only slow system calls were recorded. Sums and counts are then those of slow calls.
#[must_use]
pub fn has_slow_calls_only(reader: &Reader) -> bool {
    classes(reader).any(|class| {
        let names = class.payload.iter().flat_map(|it| &it.members).map(|member| &*member.name);
        CallEnd::of(&class.name).is_some_and(|end| end.begins) && names.take(2).eq(OF_SLOW)
    })
}

/// Events of which only samples are recorded, over all traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampledKinds {
    /// Descriptions of sampled events from the traces, without repetition; see [`strata_ctf::environment::SAMPLED`].
    pub events: Vec<String>,
    /// Number of events that were left out; `None` if a trace does not have the number, because its recording did not
    /// end properly.
    pub left_out: Option<u64>,
}

/// Returns the events of which only samples are recorded; `None` if no event was sampled.
#[must_use]
pub fn sampled_kinds(reader: &Reader) -> Option<SampledKinds> {
    let schemas = reader.traces().iter().map(|trace| trace.schema());
    of_samples(schemas.filter_map(|schema| {
        let EnvValue::Text(events) = schema.environment(SAMPLED)? else { return None };
        let left_out = match schema.environment(LEFT_OUT) {
            Some(EnvValue::Integer(count)) => u64::try_from(*count).ok(),
            _ => None,
        };
        Some((events.to_string(), left_out))
    }))
}

/// Adds up the descriptions and numbers of sampled events from several traces.
fn of_samples(all: impl Iterator<Item = (String, Option<u64>)>) -> Option<SampledKinds> {
    all.fold(None, |sum, (events, count)| {
        let mut sum = sum.unwrap_or(SampledKinds { events: Vec::new(), left_out: Some(0) });
        if !sum.events.contains(&events) {
            sum.events.push(events);
        }
        sum.left_out = sum.left_out.zip(count).map(|(sum, count)| sum.saturating_add(count));
        Some(sum)
    })
}

/// Returns true if spans of programs were recorded at their end, and only those that passed a filter on their
/// duration.
#[must_use]
pub fn has_slow_spans_only(reader: &Reader) -> bool {
    classes(reader).any(|class| {
        let members = class.specific_context.iter().flat_map(|it| &it.members);
        class.name.ends_with("_begin") && members.map(|it| &*it.name).any(|name| name == OF_SLOW[0])
    })
}

fn classes(reader: &Reader) -> impl Iterator<Item = &EventClass> {
    let streams = reader.traces().iter().flat_map(|trace| &trace.schema().streams);
    streams.flat_map(|stream| &stream.events)
}

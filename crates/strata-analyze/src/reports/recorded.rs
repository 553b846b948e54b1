//! What traces have records of, by their classes: which reports would have something to show.

use strata_ctf::read::Reader;
use strata_model::schema::EventClass;
use strata_timeline::{begins_of, is_descriptor, is_path, kernel_name};

use super::flame::{has_stacks, has_stacks_of_waits};

/// What there are records of, or may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Call stacks.
    pub stacks: bool,
    /// Those with which threads left their CPUs.
    pub stacks_of_waits: bool,
    /// Allocations of programs, each or counted.
    pub allocations: bool,
    /// Interrupts or softirqs.
    pub interrupts: bool,
}

impl Recorded {
    /// Of these traces.
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
        }
    }
}

/// Whether this system call has a descriptor or a path.
#[must_use]
pub fn is_of_files(reader: &Reader, call: &str) -> bool {
    let names = begins_of(call);
    let is_one = |name: &str| is_descriptor(name) || is_path(name);
    classes(reader).any(|class| {
        names.iter().any(|name| name == kernel_name(&class.name))
            && class.payload.iter().flat_map(|it| &it.members).any(|member| is_one(&member.name))
    })
}

fn classes(reader: &Reader) -> impl Iterator<Item = &EventClass> {
    let streams = reader.traces().iter().flat_map(|trace| &trace.schema().streams);
    streams.flat_map(|stream| &stream.events)
}

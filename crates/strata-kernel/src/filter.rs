//! Filters in the kernel: a filter becomes tests that the BPF program makes before it records.
//!
//! A filter is compiled for each event. What is known of the event beforehand is decided then: its name,
//! which fields it has, and what is compared with something that it can never be. Only true selects, so
//! negations are moved down to the comparisons, each of which is true for certain or does not count: as
//! in [`strata_filter::evaluate`](mod@strata_filter::evaluate), and a record costs no three-valued logic.
//!
//! `pid`, `tid`, `comm` (or `procname`), `cgroup` and `cpu` are those of the task and the processor that
//! the event happens on, as `context.pid` always, as `pid` where the event has no such field of its own.
//! A bare `cpu` is always the processor. All ids are those of the machine's first namespace.

pub mod cgroup;
mod check;
mod emit;
mod group_error;
mod lower;
mod ranges;
mod resolve;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use strata_abi::kernel::{Test, CHARS, FIELD, TESTS_MAX};
use strata_model::Field;
use thiserror::Error;

use crate::event::{FieldSource, KernelEvent, Probe};
use crate::syscalls;

pub(crate) use cgroup::id as cgroup_id;
pub use check::{can_select, check, Slips};
pub use emit::Compiled;

/// Which end of a system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SyscallEnd {
    /// Its entry; of any other event, the only one.
    #[default]
    Entry,
    /// Its exit.
    Exit,
}

/// An event, and which end of it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'e> {
    /// The event.
    pub event: &'e KernelEvent,
    /// Which end.
    pub end: SyscallEnd,
}

/// Why a filter cannot be compiled for an event.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FilterError {
    /// Something that the tests cannot express.
    #[error(
        "filter: '{part}' cannot be decided in the kernel for event '{event}': {why}. Leave this part out, \
         and give it to `strata view -f` afterwards"
    )]
    Unsupported {
        /// The condition, as the filter has it.
        part: String,
        /// The event's recorded name.
        event: String,
        /// Why not.
        why: Unsupported,
    },
    /// More tests than a program has room for.
    #[error(
        "filter: {found} tests are needed for event '{event}', limit {TESTS_MAX}. Use ranges or patterns, or \
         leave a part out and give it to `strata view -f` afterwards"
    )]
    TooManyTests {
        /// The event's recorded name.
        event: String,
        /// So many.
        found: usize,
    },
    /// Text that the field can never have.
    #[error(
        "filter: '{part}' is never true: the text has {bytes} bytes, a '{field}' of event '{event}' at most \
         {limit}. The kernel cuts longer names: write the first {limit} bytes"
    )]
    TextTooLong {
        /// The condition, as the filter has it.
        part: String,
        /// The event's recorded name.
        event: String,
        /// The field.
        field: String,
        /// Bytes of the text.
        bytes: usize,
        /// The most that are possible.
        limit: usize,
    },
    /// No such control group.
    #[error(
        "filter: '{part}': there is no control group {}. Start what is in it first; `systemd-cgls` lists \
         all there are", .path.display()
    )]
    NoCgroup {
        /// The condition, as the filter has it.
        part: String,
        /// Where it should be.
        path: PathBuf,
    },
    /// No control groups of version 2 on this machine.
    #[error(
        "filter: '{part}': no control groups of version 2 are mounted at /sys/fs/cgroup or \
         /sys/fs/cgroup/unified. Mount them: mount -t cgroup2 none /sys/fs/cgroup/unified"
    )]
    NoCgroups {
        /// The condition, as the filter has it.
        part: String,
    },
    /// A name that is no group's, or several groups'.
    #[error("filter: '{part}': {cause}")]
    CgroupName {
        /// The condition, as the filter has it.
        part: String,
        /// Why no group is meant by it.
        cause: group_error::GroupError,
    },
}

/// What the tests cannot express.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Unsupported {
    /// `prev_tid == next_tid`
    #[error("it compares two fields with each other")]
    TwoFields,
    /// `comm == "a*b"`
    #[error("of patterns only a '*' at the end is possible there")]
    Pattern,
    /// A `cgroup` with `*`.
    #[error("a control group is named in full there, without '*' and '?'")]
    CgroupPattern,
    /// `filename == "a"`
    #[error("the text has no fixed place there, or is in the program's memory")]
    Text,
    /// Text of more bytes than a test has.
    #[error(
        "of a text the first 16 bytes are seen there; 15 and the end, or 16 and a '*' are possible"
    )]
    LongText,
    /// An array's element, or a number that is in memory.
    #[error("the value has no fixed place there")]
    Place,
    /// A floating-point number.
    #[error("it is a floating-point number, with which kernels do not calculate")]
    Real,
    /// A number in the other byte order.
    #[error("the number is recorded in another byte order than the processor's")]
    ByteOrder,
    /// `packet.` and `header.`
    #[error("packets and their headers are made later")]
    NotYet,
}

/// What the filter is for one event.
///
/// # Errors
/// What of it cannot be decided in the kernel, if the rest does not decide already.
pub fn compile(
    filter: &strata_filter::Filter,
    event: &KernelEvent,
    end: SyscallEnd,
) -> Result<Compiled, FilterError> {
    compile_for(filter, event, end, Groups::AreThere)
}

/// Control groups that a filter names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// One that is not there is an error.
    AreThere,
    /// Nothing is in one that is not there: it was there before, and has gone.
    MayBeGone,
}

/// [`compile()`], of groups that may have gone.
///
/// # Errors
/// As there.
pub fn compile_for(
    filter: &strata_filter::Filter,
    event: &KernelEvent,
    end: SyscallEnd,
    groups: Groups,
) -> Result<Compiled, FilterError> {
    let candidate = Candidate { event, end };
    let name = candidate.recorded_name();
    let node = lower::lower(filter.expr(), (&candidate, &name), groups)?;
    let is_early = |test: &Test| candidate.can_test_early(test);
    emit::emit(node, is_early).map_err(|found| FilterError::TooManyTests { event: name, found })
}

impl Candidate<'_> {
    /// The name in the trace.
    pub fn recorded_name(&self) -> String {
        let Probe::Syscall { .. } = self.event.probe else { return self.event.name.clone() };
        let [entry, exit] = syscalls::recorded_names(&self.event.name);
        match self.end {
            SyscallEnd::Entry => entry,
            SyscallEnd::Exit => exit,
        }
    }

    /// Whether a program can make the test before it has looked at anything.
    fn can_test_early(&self, test: &Test) -> bool {
        let nr_arguments = match (&self.event.probe, self.end) {
            // The trap costs a hundred times as much.
            (Probe::Uprobe { .. } | Probe::Sample { .. }, _) => return false,
            (Probe::Syscall { .. }, SyscallEnd::Entry) => 6,
            (Probe::Syscall { .. }, SyscallEnd::Exit) => 1,
            _ => 0,
        };
        match test.operand {
            FIELD => test.offset % 8 == 0 && test.offset / 8 < nr_arguments,
            CHARS => false,
            _ => true,
        }
    }

    fn has_exit(&self) -> bool {
        matches!((&self.event.probe, self.end), (Probe::Syscall { .. }, SyscallEnd::Exit))
    }

    fn fields(&self) -> &[Field] {
        if self.has_exit() {
            &self.event.exit_fields
        } else {
            &self.event.fields
        }
    }

    fn source(&self, field: &str) -> Option<&FieldSource> {
        let sources = if self.has_exit() { &self.event.exit_sources } else { &self.event.sources };
        sources.iter().find(|source| source.field == field)
    }
}

//! Filters in the kernel: a filter becomes tests that the BPF program makes before it records an event.
//!
//! ```text
//! "prev_prio > 3 && comm == 'x*'"  ── strata_filter ──▶ Expr
//!   for each event:  lower: Expr ──▶ condition: certainly true | certainly false | tests joined by and, or
//!                      └─ resolve: a name is a field of the event, a fact about the task, or absent
//!                      └─ ranges:  comparisons of integers, labels and flags as sets of values
//!                    emit: condition ──▶ Compiled: an array of tests, each with the next test if it holds and if not
//! ```
//!
//! A filter is compiled for each event. Whatever is known of the event beforehand is decided at that time: its
//! name, its fields, and comparisons with values that a field can never have. Only a result that is true selects.
//! So negations are moved down to the comparisons, each of which is either certainly true or does not count: as
//! in [`strata_filter::evaluate`](mod@strata_filter::evaluate), but without three-valued logic for each record.
//!
//! `pid`, `tid`, `comm` (or `procname`), `cgroup` and `cpu` are those of the task and the processor on which the
//! event happens: with `context.`, as in `context.pid`, always; alone, as in `pid`, if the event has no field of
//! that name. A bare `cpu` is always the processor. All ids are those of the machine's first namespace.
//!
//! A test compares an integer at a place with a range, or bytes with a text. Jumps only go forward, and there are
//! at most `TESTS_MAX` tests, so the program's loop over them is bounded, as the verifier requires. What does not
//! fit, or compares in a way that tests cannot express, is a [`FilterError`] that says which part and what to do:
//! a filter never selects more in silence.
//!
//! `check` and [`can_select`] look at a filter and all its events together, to find a name that none of them has.
//! Nothing here needs rights, except the lookup of a control group by its path (`cgroup`).

pub mod cgroup;
mod check;
mod emit;
mod group_error;
mod lower;
mod place;
mod ranges;
mod resolve;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use strata_abi::kernel::{Test, CHARS, FIELD, TESTS_MAX};
use strata_model::Field;
use thiserror::Error;

use crate::decide::event::{FieldSource, KernelEvent, Probe};
use crate::discover::syscalls;

pub(crate) use cgroup::id as cgroup_id;
pub use check::{can_select, check, Slips};
pub use emit::Compiled;
pub(crate) use place::{has_field, place_of, FieldPlace};

/// One end of a system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SyscallEnd {
    /// The entry of a system call; for any other event, its only record.
    #[default]
    Entry,
    /// The exit of a system call.
    Exit,
}

/// One end of an event, for which a filter is compiled.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'e> {
    pub event: &'e KernelEvent,
    /// The end for which the filter is compiled.
    pub end: SyscallEnd,
}

/// Reason why a filter cannot be compiled for an event.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FilterError {
    /// The filter has a condition that the kernel's tests cannot express.
    #[error(
        "filter: '{part}' cannot be decided in the kernel for event '{event}': {why}. Leave this part out, \
         and give it to `strata view -f` afterwards"
    )]
    Unsupported {
        /// The condition in the filter.
        part: String,
        /// The event's recorded name.
        event: String,
        /// The reason.
        why: Unsupported,
    },
    /// The filter needs more tests than a program has room for.
    #[error(
        "filter: {found} tests are needed for event '{event}', limit {TESTS_MAX}. Use ranges or patterns, or \
         leave a part out and give it to `strata view -f` afterwards"
    )]
    TooManyTests {
        /// The event's recorded name.
        event: String,
        /// The number of tests that are needed.
        found: usize,
    },
    /// The filter has a text that is longer than the field can be.
    #[error(
        "filter: '{part}' is never true: the text has {bytes} bytes, a '{field}' of event '{event}' at most \
         {limit}. The kernel cuts longer names: write the first {limit} bytes"
    )]
    TextTooLong {
        /// The condition in the filter.
        part: String,
        /// The event's recorded name.
        event: String,
        field: String,
        /// Size of the text \[byte\].
        bytes: usize,
        /// Size of the longest text that the field can have \[byte\].
        limit: usize,
    },
    /// The path in a comparison is that of no control group.
    #[error(
        "filter: '{part}': there is no control group {}. Start what is in it first; `systemd-cgls` lists \
         all there are", .path.display()
    )]
    NoCgroup {
        /// The condition in the filter.
        part: String,
        /// The folder that the group should have.
        path: PathBuf,
    },
    /// The machine has no control groups of version 2 mounted.
    #[error(
        "filter: '{part}': no control groups of version 2 are mounted at /sys/fs/cgroup or \
         /sys/fs/cgroup/unified. Mount them: mount -t cgroup2 none /sys/fs/cgroup/unified"
    )]
    NoCgroups {
        /// The condition in the filter.
        part: String,
    },
    /// The name in a comparison stands for no control group, or for several.
    #[error("filter: '{part}': {cause}")]
    CgroupName {
        /// The condition in the filter.
        part: String,
        /// The reason for which the name stands for no group.
        cause: group_error::GroupError,
    },
}

/// A condition that the kernel's tests cannot express.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Unsupported {
    /// A comparison of two fields: `prev_tid == next_tid`.
    #[error("it compares two fields with each other")]
    TwoFields,
    /// A pattern with a `*` that is not at the end: `comm == "a*b"`.
    #[error("of patterns only a '*' at the end is possible there")]
    Pattern,
    /// A pattern for `cgroup`.
    #[error("a control group is named in full there, without '*' and '?'")]
    CgroupPattern,
    /// A comparison with text: `filename == "a"`.
    #[error("the text has no fixed place there, or is in the program's memory")]
    Text,
    /// A text of more bytes than one test compares.
    #[error(
        "of a text the first 16 bytes are seen there; 15 and the end, or 16 and a '*' are possible"
    )]
    LongText,
    /// An array's element, or a number in user memory.
    #[error("the value has no fixed place there")]
    Place,
    /// A comparison of floating-point numbers.
    #[error("it is a floating-point number, with which kernels do not calculate")]
    Real,
    /// A number in the opposite byte order.
    #[error("the number is recorded in another byte order than the processor's")]
    ByteOrder,
    /// A value that is known only later: `packet.` and `header.`.
    #[error("packets and their headers are made later")]
    NotYet,
}

/// Compiles a filter for one end of an event.
///
/// # Errors
/// A part of the filter cannot be decided in the kernel, and the other parts do not decide without it.
pub fn compile(
    filter: &strata_filter::Filter,
    event: &KernelEvent,
    end: SyscallEnd,
) -> Result<Compiled, FilterError> {
    compile_for(filter, event, end, Groups::AreThere)
}

/// Treatment of control groups that a filter names and that do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// A group that does not exist is an error.
    AreThere,
    /// A group that does not exist has no members: it existed earlier.
    MayBeGone,
}

/// Compiles a filter as [`compile()`] does, with this treatment of control groups.
///
/// # Errors
/// As for [`compile()`].
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
    /// Returns the event's name in the trace.
    pub fn recorded_name(&self) -> String {
        let Probe::Syscall { .. } = self.event.probe else { return self.event.name.clone() };
        let [entry, exit] = syscalls::recorded_names(&self.event.name);
        match self.end {
            SyscallEnd::Entry => entry,
            SyscallEnd::Exit => exit,
        }
    }

    /// Returns whether a program can make the test before it has read anything.
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

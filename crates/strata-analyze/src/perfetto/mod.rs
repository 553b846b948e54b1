//! Event records in Perfetto's trace format, for <https://ui.perfetto.dev>.
//!
//! ```text
//! Event ── classes: what to do with its kind ── place: thread, process, CPU ── tracks
//!   ├─ samples    what a CPU did when a timer asked, with names of functions
//!   ├─ kernel     scheduling, interrupts: messages of their own, by CPU
//!   │    └─ runs: who has the CPUs, and where nobody knows
//!   ├─ slices     system calls and pairs of begin and end
//!   ├─ counters   numeric fields, on request, as the timeline tells them
//!   └─ instants   everything else
//!        └─ fields: debug annotations ── encode: bytes ── writer: packets, one by one
//!             └─ frames: call stacks as texts, each told once
//! ```
//!
//! Several threads can export together: each goes through all records and keeps their state, which is the smaller part
//! of the work, and writes every so many'th block of them.
//!
//! Memory is bounded: by the traces' metadata for names, by limits for threads, open slices and texts of frames.

mod classes;
mod clock;
mod encode;
mod exporter;
mod fields;
mod frames;
mod glob;
mod kernel;
mod pairs;
mod proto;
mod runs;
mod samples;
mod sched;
mod shares;
mod slices;
mod tracks;
mod writer;

pub use exporter::Exporter;
pub(crate) use pairs::{address_of, checks, Pairs};
pub use pairs::{PairRule, PairRuleError};
pub use shares::{together, BlockShare, ShareSink};

use crate::counters::CounterRule;

/// What is exported, beyond all events.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pairs of begin and end that the user names; they go before those by name.
    pub pairs: Vec<PairRule>,
    /// Whether `X_begin` and `X_end` and their like are slices without being named.
    pub automatic_pairs: bool,
    /// Fields that are shown as counters.
    pub counters: Vec<CounterRule>,
}

impl Default for Options {
    fn default() -> Options {
        Options { pairs: Vec::new(), automatic_pairs: true, counters: Vec::new() }
    }
}

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Event records: the sum of the next six.
    pub events: u64,
    /// Those on their own.
    pub instants: u64,
    /// Those that begin a slice.
    pub begins: u64,
    /// Those that end a slice.
    pub ends: u64,
    /// Those that would end a slice of which the begin is not in the trace; shown as instants.
    pub ends_without_begin: u64,
    /// Scheduling and interrupts.
    pub kernel: u64,
    /// Samples with their call stacks.
    pub samples: u64,
    /// Begins whose end was looked for on the same CPU: the trace does not say their thread.
    pub guessed: u64,
    /// Slices of which the end is not in the trace.
    pub unfinished: u64,
    /// How often nobody knows from then on who has a CPU: up to the next record that says it, that is shown as unknown.
    pub unknown: u64,
    /// Switches that were put between for that, of which there are no records.
    pub unknown_switches: u64,
    /// Those that begin a slice where there are too many already; shown as instants, and counted there.
    pub too_many_open: u64,
    /// Values of counters.
    pub counters: u64,
    /// How often a counter was one too many to be told apart.
    pub counters_left_out: u64,
    /// Event records that the tracer discarded, as far as it says.
    pub discarded: u64,
    /// How often a thread was one too many to be told apart.
    pub threads_left_out: u64,
    /// How often a name was one too many to be kept.
    pub names_left_out: u64,
    /// Pairs whose slices seem to overlap in a thread, or to go from thread to thread, by their names.
    pub overlaps: Vec<Overlap>,
    /// Bytes written.
    pub bytes: u64,
}

/// Slices of a pair that were put together by thread, while a field of both ends says that others belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// The rule that tells them apart: `BEGIN=END:KEYFIELD`.
    pub rule: String,
    /// Those that were put together.
    pub slices: u64,
    /// Of these, those whose ends have different values of the field: they have a wrong length.
    pub disagree: u64,
    /// Ends without a begin in their thread.
    pub ends_alone: u64,
    /// Begins without an end in their thread.
    pub begins_alone: u64,
}

impl Overlap {
    /// Whether that is more than what a recording that begins meanwhile has cut off.
    fn is_one(&self) -> bool {
        let both = self.ends_alone.min(self.begins_alone);
        // A thread that was cut at both ends has one of each.
        self.disagree > 0 || both > 1 && both >= self.slices.div_ceil(10)
    }
}

//! Event records in Perfetto's trace format, for <https://ui.perfetto.dev>.
//!
//! ```text
//! Event ── classes: what to do with its kind ── place: thread, process, CPU ── tracks
//!   ├─ samples    what a CPU did when a timer asked, with names of functions
//!   ├─ kernel     scheduling, interrupts: messages of their own, by CPU
//!   │    └─ runs: who has the CPUs, and where nobody knows
//!   ├─ slices     system calls and pairs of begin and end
//!   ├─ counters   numeric fields, on request, as the timeline reports them
//!   └─ instants   everything else
//!        └─ fields: debug annotations ── encode: bytes ── writer: packets, one by one
//!             └─ frames: call stacks as texts, each written once
//! ```
//!
//! Several threads can export together. Each reads all records and follows their state, which is the smaller part of
//! the work, and writes its share of the blocks of records.
//!
//! Memory is limited: for names by the size of the traces' metadata, and for threads, open slices and texts of frames
//! by constants.
//!
//! Blocks are written in their order, whichever thread has made them ([`together`]), and each thread derives ids
//! of tracks and texts from the records that all have seen. So the file does not depend on the number of threads.

mod classes;
mod clock;
mod cpu_occupancy;
mod encode;
mod exporter;
mod fields;
mod frames;
mod kernel;
mod parallel;
mod proto;
mod samples;
mod sched;
mod slices;
mod tracks;
mod writer;

pub use exporter::Exporter;
pub use parallel::{together, BlockShare, ShareSink};

use strata_analyze::counters::CounterRule;
use strata_analyze::debug_info::SourceOptions;
use strata_timeline::PairRule;

/// The options of an export. Event records are exported in any case.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pairs of begin and end that the user names. They take precedence over pairs by name.
    pub pairs: Vec<PairRule>,
    /// True if `X_begin` and `X_end`, and the like, are slices without a rule.
    pub automatic_pairs: bool,
    /// Fields that are shown as counters.
    pub counters: Vec<CounterRule>,
    /// Options for finding names of functions.
    pub symbols: SourceOptions,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            pairs: Vec::new(),
            automatic_pairs: true,
            counters: Vec::new(),
            symbols: SourceOptions::default(),
        }
    }
}

/// The counts of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of event records: the sum of the next six counts.
    pub events: u64,
    /// The number of records exported as instants.
    pub instants: u64,
    /// The number of records that begin a slice.
    pub begins: u64,
    /// The number of records that end a slice.
    pub ends: u64,
    /// The number of ends whose begin is not in the trace. They are exported as instants.
    pub ends_without_begin: u64,
    /// The number of unpaired ends that never have a begin, since a child returns from its parent's fork(), and a
    /// program from the execve() of the program before it.
    pub ends_of_births: u64,
    /// The number of records of scheduling and interrupts.
    pub kernel: u64,
    /// The number of samples with call stacks.
    pub samples: u64,
    /// The number of begins whose end was searched on the same CPU, because the trace does not say their thread.
    pub guessed: u64,
    /// The number of slices whose end is not in the trace.
    pub unfinished: u64,
    /// The number of begins of calls that never return: exit() and exit_group().
    pub exits: u64,
    /// The number of times from which it is unknown which thread has a CPU. The CPU is shown as unknown until the
    /// next record that shows its thread.
    pub unknown: u64,
    /// The number of switches without a record that were inserted for these times.
    pub unknown_switches: u64,
    /// The number of begins beyond the limit on open slices. These begins are exported and counted as instants.
    pub too_many_open: u64,
    /// The number of exported values of counters.
    pub counters: u64,
    /// The number of times that a counter was refused because there were too many.
    pub counters_left_out: u64,
    /// The number of event records that the tracer discarded, as far as the traces count them.
    pub discarded: u64,
    /// The offset that was added to all times because the traces begin before 1970 \[ns\].
    pub shift: Option<u64>,
    /// The number of event records whose time is before that of the first record or beyond the range of the format.
    /// They are moved to the first or last time of that range.
    pub out_of_range: u64,
    /// The number of times that a thread was refused because there were too many.
    pub threads_left_out: u64,
    /// The number of times that a name was refused because there were too many.
    pub names_left_out: u64,
    /// Pairs whose slices seem to overlap within a thread, or to begin and end in different threads.
    pub overlaps: Vec<Overlap>,
    /// The number of bytes that were written.
    pub bytes: u64,
}

/// A pair whose slices were matched by thread, although a field of both ends suggests other matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// The rule that would pair the events by the field that seems to be an id: `BEGIN=END:KEYFIELD`.
    pub rule: String,
    /// The number of slices with both ends.
    pub slices: u64,
    /// The number of slices whose ends have different values in that field. Their lengths are wrong.
    pub disagree: u64,
    /// The number of ends without a begin in their thread.
    pub ends_alone: u64,
    /// The number of begins without an end in their thread.
    pub begins_alone: u64,
}

impl Overlap {
    /// Returns whether there are more unpaired ends than the begin and end of a recording explain.
    fn is_one(&self) -> bool {
        let both = self.ends_alone.min(self.begins_alone);
        // A thread that was cut at both ends has one of each.
        self.disagree > 0 || both > 1 && both >= self.slices.div_ceil(10)
    }
}

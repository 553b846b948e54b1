//! What a session wants of each process, and what it then finds there.

use strata_ring::LossMode;

use crate::context::EventContexts;
use crate::filter::Program;
use crate::rules::Rules;

/// Which record headers a session has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderChoice {
    /// By the number of tracepoints that are selected at the start.
    #[default]
    Auto,
    /// 4 bytes up to event record id 30, else 13.
    Compact,
    /// 6 bytes.
    Large,
}

/// What a session wants of each process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSpec {
    /// Which tracepoints.
    pub rules: Rules,
    /// Which of their events; `None`: all.
    pub filter: Option<Program>,
    /// What happens when the buffers are full.
    pub loss_mode: LossMode,
    /// Size of a sub-buffer, a power of two \[byte\].
    pub subbuf_bytes: u64,
    /// Sub-buffers of each CPU, a power of two.
    pub nr_subbufs: u64,
    /// Which record headers.
    pub header: HeaderChoice,
    /// Each record says its thread.
    pub vtid: bool,
    /// What each record says of its moment besides.
    pub contexts: EventContexts,
    /// Children by `fork()` get the session too.
    pub inherit: bool,
}

/// What is in front of a record's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordFormat {
    /// Headers are large, else compact.
    pub large_header: bool,
    /// The id of the record's thread is between the two.
    pub vtid: bool,
    /// These are, behind that.
    pub contexts: EventContexts,
}

/// What a process counts outside of the channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Records discarded because the process could not map the channel.
    pub discarded_unmapped: u64,
    /// Records discarded because it had no memory to assemble them in.
    pub discarded_unstaged: u64,
    /// Records discarded because their thread may not read the clock.
    pub discarded_no_clock: u64,
    /// It has left the session: our heartbeat was too old.
    pub self_stopped: bool,
}

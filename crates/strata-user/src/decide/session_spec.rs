//! Requests of a session to its processes, and the counters that a process keeps for the session.

use strata_ring::LossMode;

use crate::decide::contexts::EventContexts;
use crate::decide::event_rules::Rules;
use crate::decide::filter::Program;

/// Choice of the headers of event records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderChoice {
    /// Compact or large, by the number of tracepoints that the rules select at the start.
    #[default]
    Auto,
    /// Headers of 4 bytes for ids up to 30, otherwise of 13 bytes.
    Compact,
    /// Headers of 6 bytes.
    Large,
}

/// Request of a session to each process: what to record, and into which channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSpec {
    /// Rules that select tracepoints.
    pub rules: Rules,
    /// Filter of the selected events; `None` accepts all.
    pub filter: Option<Program>,
    /// Loss mode of the channel.
    pub loss_mode: LossMode,
    /// Size of a sub-buffer, a power of two \[byte\].
    pub subbuf_bytes: u64,
    /// Number of sub-buffers for each CPU, a power of two.
    pub nr_subbufs: u64,
    /// Choice of the record headers.
    pub header: HeaderChoice,
    /// True if each record has the id of its thread.
    pub vtid: bool,
    /// Contexts of each record.
    pub contexts: EventContexts,
    /// True if children made by `fork()` get the session as well.
    pub inherit: bool,
}

/// Format of a record before its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordFormat {
    /// True if record headers are large, false if they are compact.
    pub large_header: bool,
    /// True if the id of the record's thread is between the header and the contexts.
    pub vtid: bool,
    /// Contexts of each record, after the thread.
    pub contexts: EventContexts,
    /// True if both ends of a span are recorded when it ends. Records of begins then have, after the contexts, the
    /// time since the begin.
    pub spans: bool,
}

/// Counters of records that a process discarded before they reached its channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Records discarded because the process could not map the channel.
    pub discarded_unmapped: u64,
    /// Records discarded because the process had no memory for assembling them.
    pub discarded_unstaged: u64,
    /// Records discarded because their thread may not read the clock.
    pub discarded_no_clock: u64,
    /// True if the process has left the session, because the tracer's heartbeat was too old.
    pub self_stopped: bool,
}

//! Reports of a session, while it runs and at its end: data, no text for people.
//!
//! ```text
//! Notice     sent while the session runs: searching, attaching, started, no room …    for one line on the terminal
//! Progress   a few times a second: counts and memory                                   for the progress line
//! Report     once, at the end                                                          for the summary and --strict
//!   layers      one LayerReport for each channel: buffers, and one ProcessReport for each process
//!   rules, kernel, filters, triggers     parts of the request that matched nothing or could not be recorded
//!   not_reached, hidden, left_running    processes that are not in the trace, with the reason
//!   end, failure, command                why the session ended
//! ```
//!
//! Counts keep their reasons apart: a loss is a [`strata_model::Discarded`] by reason, with the stream and the time in
//! [`StreamLoss`], and never a sum of different reasons. Processes that are too many to be reported one by one share
//! one report, with [`Summed`].
//!
//! `gaps.rs` reduces a report to the kinds of things that are missing, which `--strict` and the verdict of a session
//! depend on; it is the same code for a session that still runs, whose status has the same facts. `advice.rs` computes
//! which buffers would have prevented a loss.
//!
//! The words for people are in `strata-cli/src/stderr/messages.rs`, one function for each fact here; a field that is added
//! here needs a line there, or an entry in the JSON of `strata status`.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use strata_kernel::event_rules::DEFAULT;
use strata_remote::Link;

use crate::session::disk::LowSpace;
use crate::session::state::SessionState;
use crate::sizes::Hardware;
pub use crate::sizes::Room;

pub use strata_model::{Counts, Demand, DiscardReason, Discarded, LossMode, LossTimes, StreamLoss};

pub mod advice;
pub mod gaps;

/// A process that was recorded, or could have been.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessReport {
    /// Process id, as this session sees the process.
    pub pid: u32,
    /// The process' short name, which may have any text, control characters included.
    pub name: String,
    /// Folder of the process's trace; `None` if no tracepoint was selected, or nothing was recorded.
    pub folder: Option<PathBuf>,
    /// Folder of the files that were written before the process's data turned out to be damaged. They are no part of
    /// the trace.
    pub set_aside: Option<PathBuf>,
    /// Number of tracepoints in the process.
    pub tracepoints: u64,
    /// Number of tracepoints that the rules selected.
    pub selected: u64,
    /// Number of selected tracepoints that could not be enabled because the process's table of tracepoints was full.
    pub refused: u64,
    /// Counts of the process's records.
    pub counts: Counts,
    /// Number of records that describe loaded objects; they are not events of the process.
    pub objects: u64,
    /// Losses of each of the process's streams, with their times. Streams without losses are left out.
    pub losses: Vec<StreamLoss>,
    /// Delay between the process's start, or the request to record it, and its attachment \[ns\]; `None` if it was not
    /// late. Only for processes that were attached while others were already being recorded.
    pub late_ns: Option<u64>,
    /// Time of the attachment, if it was late \[ns of `CLOCK_MONOTONIC`\].
    pub reached_ns: u64,
    /// Number of the process's memory. Reports with the same number are about the same process: there are several if
    /// its filter or contexts were changed, or if it has several channels. 0 if the number is not known.
    pub memory: u64,
    /// True if this report is about an earlier part of the process's recording, so that another report covers the
    /// rest.
    pub is_part: bool,
    /// Why the recording of the process was given up before its end.
    pub problem: Option<String>,
    /// Warnings about events that were not recorded, with the reason. Each is a complete message.
    pub warnings: Vec<String>,
    /// True if the process was alive when its recording ended.
    pub is_alive: bool,
    /// Records of the process that are in no trace, and that no end mark of a trace counts.
    pub unmarked: u64,
    /// Set if this report stands for many processes at once; the counts are then their sums.
    pub summed: Option<Summed>,
}

/// The number of processes that one report stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summed {
    /// Number of processes.
    pub processes: u64,
    /// Number of processes that have a folder in the trace.
    pub in_trace: u64,
}

/// Counts the processes that `reports` are about. A process with several reports counts once.
pub fn nr_processes<'p>(reports: impl IntoIterator<Item = &'p ProcessReport>) -> u64 {
    once(reports, |summed| summed.processes)
}

/// Counts those processes of `reports` that have a folder in the trace. A process with several reports counts once.
pub fn nr_in_trace<'p>(reports: impl IntoIterator<Item = &'p ProcessReport>) -> u64 {
    let is_there = |one: &&ProcessReport| one.folder.is_some() || one.summed.is_some();
    once(reports.into_iter().filter(is_there), |summed| summed.in_trace)
}

fn once<'p>(
    reports: impl IntoIterator<Item = &'p ProcessReport>,
    of_sum: impl Fn(Summed) -> u64,
) -> u64 {
    let mut memories = HashSet::new();
    let mut sum = 0u64;
    for one in reports {
        let number = match one.summed {
            Some(summed) => of_sum(summed),
            None => u64::from(one.memory == 0 || memories.insert(one.memory)),
        };
        sum = sum.saturating_add(number);
    }
    sum
}

/// Name of the layer of applications.
pub const USER: &str = "user";
/// Name of the kernel's layer.
pub const KERNEL: &str = "kernel";
/// Name of a guest's layer.
pub const GUEST: &str = "guest";

/// The buffers of a channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Size of a sub-buffer \[byte\]. In the kernel it may be less than was requested.
    pub subbuf_bytes: u64,
    /// Number of sub-buffers of a stream.
    pub nr_subbufs: u32,
    /// The loss mode.
    pub mode: LossMode,
    /// True if buffers of twice this size exceed what this kernel allows for a map.
    pub are_largest: bool,
    /// The greatest number of streams that existed at the same time: one for each CPU of each program. 0 if not
    /// known.
    pub streams: u64,
    /// The memory to which the buffers may grow on this machine; `None` if it was not computed.
    pub room: Option<Room>,
}

impl Buffers {
    /// Returns the buffer size of one stream \[byte\].
    #[must_use]
    pub fn stream_bytes(&self) -> u64 {
        self.subbuf_bytes.saturating_mul(self.nr_subbufs.into())
    }

    /// Sets [`Buffers::room`] of all channels of a recording: how far each may grow on this machine.
    pub(crate) fn note_room<'b>(channels: impl Iterator<Item = &'b mut Buffers>) {
        let channels: Vec<&mut Buffers> = channels.collect();
        let sizes: Vec<(u64, u64)> =
            channels.iter().map(|one| (one.stream_bytes(), one.streams)).collect();
        let rooms = Hardware::here().room(&sizes);
        channels.into_iter().zip(rooms).for_each(|(one, room)| one.room = Some(room));
    }
}

/// The report on one channel of a layer, with its processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerReport {
    /// [`USER`], [`KERNEL`] or [`GUEST`].
    pub layer: &'static str,
    /// Name of the channel, or of the guest. Empty if the layer has only one channel without a name.
    pub channel: String,
    /// The buffers of the layer.
    pub buffers: Buffers,
    /// True if a filter decided, at least for some time, which records of applications are written.
    pub is_filtered: bool,
    /// Processes in the order in which they were attached. The kernel counts as one, with process id 0.
    pub processes: Vec<ProcessReport>,
}

impl LayerReport {
    /// Returns the sum over all processes.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.processes.iter().for_each(|process| sum.add(&process.counts));
        sum
    }
}

/// The rule that selects all tracepoints. It is never reported as a rule without matches.
pub const EVERY_TRACEPOINT: &str = "*:*";

/// A rule, and the number of tracepoints it matched in all processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleReport {
    /// The rule as it was written.
    pub rule: String,
    /// Number of tracepoints that match the rule.
    pub matched: u64,
    /// Rules with similar names that the user perhaps meant, if this rule matched no tracepoint.
    pub similar: Vec<String>,
}

/// A filter with a mistake: a part of it, or all of it, passes no event that its rules have selected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FilterReport {
    /// Rules that the filter belongs to, as they were written. Empty if the filter applies to all rules.
    pub rules: Vec<String>,
    /// The filter as it was written.
    pub filter: String,
    /// Mistakes in the filter.
    pub slips: Vec<FilterSlip>,
    /// True if no event passes the filter as a whole.
    pub is_never: bool,
}

/// A mistake in a filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FilterSlip {
    /// Column of the mistake in the filter's text, from 1.
    pub column: usize,
    /// Description of the mistake, with suggestions.
    pub text: String,
}

/// The report on a trigger that probably could not fire.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TriggerReport {
    /// The trigger's name.
    pub name: String,
    /// Rule of the events that the trigger waits for; `None` if it waits for something else.
    pub rule: Option<String>,
    /// Rules with similar names that the user perhaps meant, if `rule` matched no tracepoint.
    pub similar: Vec<String>,
    /// Mistakes in the trigger's filter, if no event passes it.
    pub filter: Option<FilterReport>,
    /// What the trigger needs and the session does not have, as a sentence.
    pub lacks: Option<String>,
}

/// A rule for the kernel's events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelRuleReport {
    /// The rule as it was written.
    pub rule: String,
    /// Number of events that the rule selected or, if it is an exclusion, removed.
    pub matched: u64,
    /// Names of events that the user perhaps meant, if the rule matched none.
    pub similar: Vec<String>,
    /// The reason why events of this name are never recorded, if the rule matches such events only.
    pub excluded: Option<String>,
}

/// An event of the kernel that was selected and not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventProblem {
    /// The event's name.
    pub event: String,
    /// The error message, from the kernel or from the parser of rules.
    pub reason: String,
}

/// Explains why the kernel is not recorded, although it would be by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoKernel {
    /// The reason, with advice if there is any.
    pub why: String,
    /// True for a failure; false if the machine or the user's rights do not allow kernel recording.
    pub is_failure: bool,
}

/// The report of the kernel's layer, without its counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelReport {
    /// True if the user named no events, so that the default events were recorded.
    pub is_default: bool,
    /// The rules in the order given; empty if the default events were recorded.
    pub rules: Vec<KernelRuleReport>,
    /// True if a filter decided which records are written.
    pub is_filtered: bool,
    /// Events that could not be recorded.
    pub problems: Vec<EventProblem>,
    /// Number of fields that are empty because memory of the process could not be read.
    pub unreadable: u64,
    /// Number of counters that could not be read, and were recorded as zero.
    pub uncounted: u64,
    /// Number of texts that were longer than their field and were cut.
    pub cut: u64,
}

impl KernelReport {
    /// Combines the reports of two kernel channels.
    pub(crate) fn both(one: Option<Self>, other: Option<Self>) -> Option<KernelReport> {
        let (mut sum, other) = match (one, other) {
            (Some(one), Some(other)) => (one, other),
            (one, other) => return one.or(other),
        };
        sum.is_default &= other.is_default;
        sum.rules.extend(other.rules);
        sum.is_filtered |= other.is_filtered;
        sum.problems.extend(other.problems);
        sum.unreadable = sum.unreadable.saturating_add(other.unreadable);
        sum.uncounted = sum.uncounted.saturating_add(other.uncounted);
        sum.cut = sum.cut.saturating_add(other.cut);
        Some(sum)
    }
}

/// A process that should have been recorded, because the user named it or it has tracepoints, and could not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotReached {
    /// Process id; 0 if it is not known.
    pub pid: u32,
    /// Name of the process; empty if it is not known.
    pub name: String,
    /// Why the session could not record the process.
    pub reason: String,
}

impl NotReached {
    /// Creates the entry for a process that does not exist or has ended.
    pub(crate) fn gone(pid: u32) -> NotReached {
        let reason = strata_user::Error::Gone { pid }.to_string();
        NotReached { pid, name: String::new(), reason }
    }

    /// Returns whether the reason is that the process does not exist or has ended.
    pub fn is_gone(&self) -> bool {
        self.pid != 0 && self.reason == NotReached::gone(self.pid).reason
    }
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// The command exited with this status.
    Exited(i32),
    /// The command was ended by this signal.
    Signalled(i32),
    /// The command still runs: the recording was stopped before it ended.
    Running {
        /// The command's process id.
        pid: u32,
    },
}

/// The processes that a session was asked to record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordingTarget {
    /// A command and its descendants.
    Command,
    /// Certain processes, by number or name.
    Processes,
    /// Every process of the machine.
    #[default]
    Everyone,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EndReason {
    /// The command ended.
    #[default]
    Command,
    /// All processes that the user named have ended.
    Processes,
    /// The requested duration was over.
    Duration,
    /// The trace reached its size limit.
    Size {
        /// The limit on the size \[byte\].
        max_bytes: u64,
    },
    /// The free space of the trace's file system has fallen to the limit.
    Space(LowSpace),
    /// The user asked the session to stop. Has the number of the signal, if the request was a signal.
    Asked(Option<i32>),
    /// The recording failed; see [`Report::failure`].
    Failure,
}

/// The status of a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChunkStatus {
    /// The chunk's number, from 1.
    pub number: u64,
    /// The chunk's folder.
    pub folder: PathBuf,
    /// Number of event records written into the chunk so far; `None` if an earlier process of the session made the
    /// chunk.
    pub records: Option<u64>,
    /// Size of the chunk's packets \[byte\].
    pub bytes: Option<u64>,
}

/// The status of a session's chunks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChunksStatus {
    /// The chunk that is being written; `None` at the end if nothing was recorded in it.
    pub present: Option<ChunkStatus>,
    /// The number of complete chunks that exist.
    pub complete: u64,
    /// The latest complete chunks.
    pub last: Vec<ChunkStatus>,
    /// Number of chunks that were removed because of the limit on kept chunks.
    pub removed: u64,
    /// The number of event records in removed chunks.
    pub removed_records: u64,
    /// The number of removed chunks whose records are not known, since an earlier process of the session made them.
    pub removed_unknown: u64,
    /// The latest error in making or removing chunks.
    pub error: Option<String>,
}

/// The report of a session at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of snapshots written; `None` if the session wrote a trace continuously.
    pub snapshots: Option<u64>,
    /// The chunks of a rotated trace.
    pub chunks: Option<ChunksStatus>,
    /// The trace's folder; `None` if nothing was recorded, or the folder is gone.
    pub output: Option<PathBuf>,
    /// Channel by which a guest's trace was sent to the host's recorder; `None` if this machine is no such guest.
    pub relay: Option<String>,
    /// The relay on another host that has the trace.
    pub remote: Option<String>,
    /// Number of event records that the relay has discarded because this host's share of its space is used up.
    pub quota_discarded: u64,
    /// The duration of the recording.
    pub elapsed: Duration,
    /// The processes that the session was asked to record.
    pub asked: RecordingTarget,
    /// Why the session ended.
    pub end: EndReason,
    /// The reports of the layers.
    pub layers: Vec<LayerReport>,
    /// The rules, in their order.
    pub rules: Vec<RuleReport>,
    /// Filters with a part that no event passes.
    pub filters: Vec<FilterReport>,
    /// Triggers that probably could not fire.
    pub triggers: Vec<TriggerReport>,
    /// The report on the kernel; `None` if it was not recorded.
    pub kernel: Option<KernelReport>,
    /// Why the kernel was not recorded, if it would have been by default.
    pub no_kernel: Option<NoKernel>,
    /// Processes, and selected events, that could not be recorded.
    pub not_reached: Vec<NotReached>,
    /// Programs of the command into which nothing was preloaded, although the user requested it.
    pub unpreloaded: Vec<NotReached>,
    /// Number of programs that ended before Strata could find out whether they belong to the command.
    pub unseen: u64,
    /// Descendants of the command that were recorded and still run after the end of the recording.
    pub left_running: Vec<u32>,
    /// The end of the command, if there was one.
    pub command: Option<CommandEnd>,
    /// Why the recording failed, such as a full disk; `None` if it did not.
    pub failure: Option<String>,
    /// The only layer that failed, [`USER`] or [`KERNEL`]; `None` if the failure affected all layers.
    pub failed_layer: Option<&'static str>,
    /// Further remarks for the user.
    pub remarks: Vec<String>,
    /// Remarks on processes that are instrumented, fully or partly, for LTTng-UST.
    pub of_lttng: Vec<String>,
    /// Wall-clock time at which `CLOCK_MONOTONIC` was 0 \[ns since 1970\].
    pub wall_ns: i64,
}

impl Report {
    /// Adds what the report `other`, of another layer or channel, has in addition.
    pub(crate) fn add_own(&mut self, other: Report) {
        // A field that a layer sets is named here; the others are of all layers together.
        self.kernel = KernelReport::both(self.kernel.take(), other.kernel);
        self.no_kernel = self.no_kernel.take().or(other.no_kernel);
        self.unseen = self.unseen.saturating_add(other.unseen);
    }

    /// Returns the sum over all layers.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.layers.iter().for_each(|layer| sum.add(&layer.counts()));
        sum
    }

    /// Iterates over the processes of all layers.
    pub fn processes(&self) -> impl Iterator<Item = &ProcessReport> {
        self.layers.iter().flat_map(|layer| &layer.processes)
    }

    /// Iterates over the processes that were recorded through their own tracepoints.
    pub fn applications(&self) -> impl Iterator<Item = &ProcessReport> {
        self.of_layer(USER)
    }

    /// Returns the kernel's report, which has the same form as that of a process; `None` if the kernel was not
    /// recorded.
    pub fn of_kernel(&self) -> Option<&ProcessReport> {
        self.of_layer(KERNEL).next()
    }

    fn of_layer(&self, name: &'static str) -> impl Iterator<Item = &ProcessReport> {
        self.layers.iter().filter(move |layer| layer.layer == name).flat_map(|one| &one.processes)
    }

    /// Returns whether the session was to record applications.
    #[must_use]
    pub fn has_applications(&self) -> bool {
        self.layers.iter().any(|layer| layer.layer == USER)
    }

    /// Returns whether a filter decided which records of applications are written.
    #[must_use]
    pub fn has_filtered_applications(&self) -> bool {
        self.layers.iter().any(|layer| layer.layer == USER && layer.is_filtered)
    }

    /// Returns whether the kernel was recorded by default.
    #[must_use]
    pub fn has_kernel_by_default(&self) -> bool {
        self.kernel.as_ref().is_some_and(|kernel| kernel.is_default)
    }

    /// Returns whether applications were recorded by default: the user named neither them nor particular kernel
    /// events.
    #[must_use]
    pub fn has_applications_by_default(&self) -> bool {
        let has_word = |kernel: &KernelReport| kernel.rules.iter().any(|one| one.rule == DEFAULT);
        self.has_kernel_by_default() || self.kernel.as_ref().is_some_and(has_word)
    }

    /// Returns the number of tracepoints that the rules selected, over all applications.
    #[must_use]
    pub fn selected(&self) -> u64 {
        let whole = self.applications().filter(|process| !process.is_part);
        whole.fold(0, |sum, process| sum.saturating_add(process.selected))
    }
}

/// The progress of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// The time since recording began.
    pub elapsed: Duration,
    /// Event records so far.
    pub records: u64,
    /// Size of the trace so far \[byte\].
    pub bytes: u64,
    /// Number of records that were discarded.
    pub discarded: u64,
    /// Number of records that were overwritten before they were read.
    pub overwritten: u64,
    /// Size of the buffers \[byte\].
    pub memory: u64,
    /// The number of recorded processes; `None` if applications are not recorded.
    pub processes: Option<u64>,
    /// The state of the session.
    pub state: SessionState,
    /// True if the session waits for free space on its disk.
    pub has_no_room: bool,
}

/// The number of messages of a session that a relay has acknowledged. Any thread may read the number.
#[derive(Clone, Debug)]
pub struct SentSoFar(pub(crate) Vec<Arc<Link>>);

impl SentSoFar {
    /// Returns the number of messages that the relay has acknowledged.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.0.iter().map(|link| link.acknowledged()).fold(0, u64::saturating_add)
    }
}

impl PartialEq for SentSoFar {
    fn eq(&self, other: &SentSoFar) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl Eq for SentSoFar {}

/// A message of a running session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Events are counted in the kernel from now on.
    Counting,
    /// The session reads the kernel's descriptions of events.
    Describing {
        /// The number of events described so far.
        described: u64,
        /// The number of all events.
        total: u64,
    },
    /// The session examines processes to find those with tracepoints.
    Searching {
        /// The number of processes examined so far.
        looked: u64,
        /// The number of all processes.
        total: u64,
    },
    /// The session enables the tracepoints of processes.
    Admitting {
        /// The process whose tracepoints are being enabled.
        pid: u32,
        /// The number of processes admitted so far.
        admitted: u64,
        /// The number of all processes.
        total: u64,
    },
    /// The kernel layer is about to attach many programs to events one by one, which takes long.
    ManyPrograms {
        /// The number of programs.
        programs: u64,
    },
    /// The session enables the kernel's events.
    Attaching {
        /// The number of programs attached so far.
        attached: u64,
        /// The number of all programs.
        total: u64,
    },
    /// A rule selects none of the kernel's events.
    NoSuchEvent(KernelRuleReport),
    /// The kernel is not recorded, although it would be by default.
    NoKernel(NoKernel),
    /// Recording has started.
    Started {
        /// The folder of the trace, unless the trace is sent elsewhere.
        output: Option<PathBuf>,
        /// The channel to the host's recorder, if the trace is sent there.
        relay: Option<String>,
        /// The relay on another host, if the trace is sent there.
        remote: Option<String>,
        /// The command's process id, if there is a command.
        command: Option<u32>,
        /// Number of processes that are being recorded.
        processes: usize,
        /// Number of kernel events that are being recorded; `None` if the kernel is not recorded.
        events: Option<u64>,
        /// Present size of the buffers \[byte\].
        memory: u64,
        /// The most memory that the buffers may take \[byte\]; `None` if it is not limited.
        max_memory: Option<u64>,
    },
    /// The connection to the relay on another host has changed; the text describes how.
    Remote(String),
    /// The progress of the session, sent a few times a second.
    Progress(Progress),
    /// The command has ended. The session waits for the end of its descendants.
    WaitingForDescendants,
    /// The session was asked to stop and waits for the command to end.
    WaitingForCommand {
        /// The command's process id.
        pid: u32,
        /// The signal that was passed on to the command, or the error of passing it on; `None` if no signal was to be
        /// passed on.
        passed_on: Option<Result<i32, String>>,
    },
    /// Recording has stopped. The session writes what is still in the buffers.
    Stopping,
    /// After [`Notice::Stopping`], the session sends the rest of its data to the relay. That may take long and ends
    /// early only if the relay takes no more.
    Sending(SentSoFar),
    /// The trace of one layer cannot be written any longer. The other layers go on.
    LayerFailed {
        /// [`USER`] or [`KERNEL`].
        layer: &'static str,
        /// The error with its causes, as text.
        why: String,
    },
    /// The host's recorder does not answer yet. Recording begins when it does.
    WaitingForHost {
        /// The channel to the host.
        channel: String,
    },
    /// The trace is held in memory, and its memory is full: packets stay in the buffers.
    NoRoom {
        /// The folder in memory.
        folder: PathBuf,
        /// The name of the session.
        name: String,
    },
    /// The disk is full: packets stay in the buffers until there is space.
    WaitsForRoom {
        /// The file that could not be written, and advice.
        why: String,
    },
    /// The trace could not be rotated. Recording goes on.
    NotRotated {
        /// Why the rotation failed.
        why: String,
    },
    /// A complete sentence about something that is in no trace, or will be in none.
    Remark(String),
    /// The recording has failed and writes nothing more. Strata still waits for the end of the command.
    Failed {
        /// The error with its causes, as text.
        why: String,
        /// The command's process id.
        command: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_of_several_layers_counts_all_processes() {
        let process = |records, selected| ProcessReport {
            counts: Counts { records, ..Counts::default() },
            selected,
            ..ProcessReport::default()
        };
        let layer = |layer, processes| LayerReport { layer, processes, ..LayerReport::default() };
        let report = Report {
            layers: vec![
                layer("user", vec![process(1, 2), process(3, 4)]),
                layer("kernel", vec![process(10, 20)]),
            ],
            ..Report::default()
        };
        assert_eq!(report.layers[0].counts().records, 4);
        assert_eq!((report.counts().records, report.selected()), (14, 6));
        assert_eq!((report.processes().count(), report.applications().count()), (3, 2));
        assert_eq!(report.of_kernel().map(|kernel| kernel.selected), Some(20));
        assert!(report.has_applications() && !Report::default().has_applications());
    }

    #[test]
    fn process_with_several_reports_is_one() {
        let one = |memory, is_there: bool, is_part| ProcessReport {
            memory,
            is_part,
            folder: is_there.then(|| PathBuf::from("t")),
            ..ProcessReport::default()
        };
        // A part in the trace, of a process that then came by nothing; another one in two parts; two of which nobody knows.
        let all = [
            one(7, true, true),
            one(7, false, false),
            one(8, true, true),
            one(8, true, false),
            one(9, false, false),
            one(0, true, false),
            one(0, true, false),
        ];
        assert_eq!((nr_processes(&all), nr_in_trace(&all)), (5, 4));
        let summed = Some(Summed { processes: 10, in_trace: 3 });
        let rest = ProcessReport { summed, ..ProcessReport::default() };
        assert_eq!((nr_processes(all.iter().chain([&rest])), nr_in_trace([&rest])), (15, 3));
    }
}

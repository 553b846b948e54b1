//! What a session says of itself, while it runs and at its end: data, no text for people.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

pub use strata_model::{Counts, Demand, DiscardReason, Discarded, LossMode, LossTimes, StreamLoss};

pub mod advice;
pub mod gaps;

/// One process that was recorded, or could have been.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessReport {
    /// Its number, as this session sees it.
    pub pid: u32,
    /// Its short name; any bytes that are text, control characters included.
    pub name: String,
    /// Its folder in the trace; `None`: nothing was selected, or nothing happened.
    pub folder: Option<PathBuf>,
    /// What was written of it before it turned out to be damaged; not part of the trace.
    pub set_aside: Option<PathBuf>,
    /// Tracepoints that it has.
    pub tracepoints: u64,
    /// Tracepoints that the rules selected.
    pub selected: u64,
    /// Tracepoints for which the process had no room.
    pub refused: u64,
    /// What was recorded.
    pub counts: Counts,
    /// Of these records, those that say what it has loaded, which are no events of its own.
    pub objects: u64,
    /// Of its streams, what was discarded and when; those of which nothing was are left out.
    pub losses: Vec<StreamLoss>,
    /// It began while others were recorded already, and was recorded only so long after its start, or after it was asked
    /// for \[ns\].
    pub late_ns: Option<u64>,
    /// When it was reached, if it was late \[ns of `CLOCK_MONOTONIC`\].
    pub reached_ns: u64,
    /// Its memory's number, which its reports have in common: a process whose filter or contexts were changed has
    /// several, and so has one with several channels. 0: nobody knows.
    pub memory: u64,
    /// Another report is of what came later.
    pub is_part: bool,
    /// Why it was given up before its end.
    pub problem: Option<String>,
    /// What of it was not recorded, and why; each a whole message.
    pub warnings: Vec<String>,
    /// It ran on when its recording ended.
    pub is_alive: bool,
    /// Records of it that are in no trace, and that no trace's end mark says.
    pub unmarked: u64,
    /// It stands for many processes that are not told one by one, and has their sums.
    pub summed: Option<Summed>,
}

/// How many processes one report stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summed {
    /// All of them.
    pub processes: u64,
    /// Those with a folder in the trace.
    pub in_trace: u64,
}

/// How many processes these are, each counted once.
pub fn nr_processes<'p>(reports: impl IntoIterator<Item = &'p ProcessReport>) -> u64 {
    once(reports, |summed| summed.processes)
}

/// How many processes of these are in the trace, each counted once.
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

/// The layer of applications.
pub const USER: &str = "user";
/// The kernel's layer.
pub const KERNEL: &str = "kernel";
/// The layer of a guest.
pub const GUEST: &str = "guest";

/// The buffers of a channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Size of a sub-buffer, which in the kernel may be less than was asked for \[byte\].
    pub subbuf_bytes: u64,
    /// Sub-buffers of a stream.
    pub nr_subbufs: u32,
    /// What happens when they are full.
    pub mode: LossMode,
    /// Of twice this size they would be beyond what this kernel allows for a map.
    pub are_largest: bool,
}

/// The processes of one channel of a layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerReport {
    /// [`USER`], [`KERNEL`] or [`GUEST`].
    pub layer: &'static str,
    /// The channel's name, or the guest's; empty: the layer has no other one.
    pub channel: String,
    /// Its buffers.
    pub buffers: Buffers,
    /// A filter has decided which records of applications are written, at some time at least.
    pub is_filtered: bool,
    /// In the order in which they came. The kernel is one, with number 0.
    pub processes: Vec<ProcessReport>,
}

impl LayerReport {
    /// All its processes together.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.processes.iter().for_each(|process| sum.add(&process.counts));
        sum
    }
}

/// Selects whatever there is: it names nothing that could be missing.
pub const EVERY_TRACEPOINT: &str = "*:*";

/// One rule, and how many tracepoints it matched in all processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleReport {
    /// The rule as it was written.
    pub rule: String,
    /// Tracepoints.
    pub matched: u64,
    /// Rules for tracepoints that were perhaps meant, if it matched none.
    pub similar: Vec<String>,
}

/// A filter of rules with something in it that no event passes, of all that these rules have selected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FilterReport {
    /// The rules, as they were written; none: it is of all.
    pub rules: Vec<String>,
    /// As it was written.
    pub filter: String,
    /// What is wrong with it.
    pub slips: Vec<FilterSlip>,
    /// No event passes the filter as a whole.
    pub is_never: bool,
}

/// What is wrong with a filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FilterSlip {
    /// Where in it, from 1 on.
    pub column: usize,
    /// What it is, and what was perhaps meant.
    pub text: String,
}

/// A trigger that could not fire, as far as is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TriggerReport {
    /// Its name.
    pub name: String,
    /// The rule of the events that it waits for; `None`: it waits for something else.
    pub rule: Option<String>,
    /// Rules for tracepoints that were perhaps meant, if this one has matched none.
    pub similar: Vec<String>,
    /// What is wrong with its filter, if nothing passes that.
    pub filter: Option<FilterReport>,
    /// What there must be for it to fire, and is not.
    pub lacks: Option<String>,
}

/// One rule for the kernel's events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelRuleReport {
    /// The rule as it was written.
    pub rule: String,
    /// Events that it selected, or took away.
    pub matched: u64,
    /// Names of events that were perhaps meant, if it matched none.
    pub similar: Vec<String>,
    /// Why it matches none, if that is on purpose.
    pub excluded: Option<String>,
}

/// An event of the kernel that was selected and not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventProblem {
    /// Its name.
    pub event: String,
    /// What the kernel or the rule's reader said, as text.
    pub reason: String,
}

/// Why the kernel is not recorded, though it is by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoKernel {
    /// Why, and perhaps what helps.
    pub why: String,
    /// Something failed; else it is the machine, or the user's rights.
    pub is_failure: bool,
}

/// What there is to say of the kernel's layer besides its counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelReport {
    /// Nobody said which events.
    pub is_default: bool,
    /// The rules, in their order; none by default.
    pub rules: Vec<KernelRuleReport>,
    /// A filter has decided which records are written.
    pub is_filtered: bool,
    /// Events that could not be recorded.
    pub problems: Vec<EventProblem>,
    /// Fields that are empty since memory of the process could not be read.
    pub unreadable: u64,
    /// Counters that could not be read, and are zeroes.
    pub uncounted: u64,
    /// Texts that were longer than a field holds, and were cut.
    pub cut: u64,
}

impl KernelReport {
    /// Of two channels of the kernel.
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

/// A process that was asked for, or has tracepoints, and could not be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotReached {
    /// Its number; 0: not known.
    pub pid: u32,
    /// Its name; empty: not known.
    pub name: String,
    /// What kept the session from it, as text.
    pub reason: String,
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// It exited with this status.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// It runs on: the recording was stopped before it ended.
    Running {
        /// Its number.
        pid: u32,
    },
}

/// What a session was asked to record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordingTarget {
    /// A command and its descendants.
    Command,
    /// Certain processes.
    Processes,
    /// Every process.
    #[default]
    Everyone,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EndReason {
    /// The command ended.
    #[default]
    Command,
    /// All processes asked for ended.
    Processes,
    /// The time was over.
    Duration,
    /// The trace has as many bytes as it may have.
    Size {
        /// That is, at most.
        max_bytes: u64,
    },
    /// Somebody asked for it, by this signal if it was one.
    Asked(Option<i32>),
    /// It could not go on; see [`Report::failure`].
    Failure,
}

/// How a part is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartLook {
    /// From 1 on.
    pub number: u64,
    /// Its folder.
    pub folder: PathBuf,
    /// Event records in it, as far as they are written; `None`: it was made by the session's process before.
    pub records: Option<u64>,
    /// Bytes of its packets.
    pub bytes: Option<u64>,
}

/// How a session's parts are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartsLook {
    /// That is being written; `None`: nothing was recorded in it, at the end.
    pub present: Option<PartLook>,
    /// How many are complete, and there.
    pub complete: u64,
    /// The last of these.
    pub last: Vec<PartLook>,
    /// Those that were removed, since there were more than are to be kept.
    pub removed: u64,
    /// Event records in them.
    pub removed_records: u64,
    /// Of so many of them that is not known: they were made by the session's process before.
    pub removed_unknown: u64,
    /// The last thing that went wrong.
    pub error: Option<String>,
}

/// What a session has to say at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How many snapshots were written of what was held in memory; `None`: it was written as it came.
    pub snapshots: Option<u64>,
    /// How its parts are, of a trace that was rotated.
    pub parts: Option<PartsLook>,
    /// The trace's folder; `None`: nothing was recorded, or the folder is gone.
    pub output: Option<PathBuf>,
    /// The channel by which it went to the host's recorder, of a guest.
    pub relay: Option<String>,
    /// How long it recorded.
    pub elapsed: Duration,
    /// What it was asked to record.
    pub asked: RecordingTarget,
    /// Why it ended.
    pub end: EndReason,
    /// What was recorded.
    pub layers: Vec<LayerReport>,
    /// The rules, in their order.
    pub rules: Vec<RuleReport>,
    /// Filters with something in them that no event passes.
    pub filters: Vec<FilterReport>,
    /// Triggers that could not fire.
    pub triggers: Vec<TriggerReport>,
    /// What of the kernel; `None`: it was not recorded.
    pub kernel: Option<KernelReport>,
    /// Why it was not, if it is by default.
    pub no_kernel: Option<NoKernel>,
    /// What could not be recorded.
    pub not_reached: Vec<NotReached>,
    /// Programs that may be of the command or not, and ended before that could be found out.
    pub unseen: u64,
    /// Descendants of the command that were recorded and run on: a recording ends with its command.
    pub left_running: Vec<u32>,
    /// How the command ended, if there was one.
    pub command: Option<CommandEnd>,
    /// Why it could not go on: disk full, ...
    pub failure: Option<String>,
    /// The layer alone that could not go on, [`USER`] or [`KERNEL`]; `None`: nothing could.
    pub failed_layer: Option<&'static str>,
    /// What else should be known.
    pub remarks: Vec<String>,
    /// Of what was asked for, what is instrumented for LTTng-UST, or in part; and what helps.
    pub of_lttng: Vec<String>,
    /// Since 1970, when `CLOCK_MONOTONIC` was 0 \[ns\].
    pub wall_ns: i64,
}

impl Report {
    /// Adds what another layer, or another channel of one, says that no other does.
    pub(crate) fn add_own(&mut self, other: Report) {
        // A field that a layer sets is named here; the others are of all layers together.
        self.kernel = KernelReport::both(self.kernel.take(), other.kernel);
        self.no_kernel = self.no_kernel.take().or(other.no_kernel);
        self.unseen = self.unseen.saturating_add(other.unseen);
    }

    /// All layers together.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.layers.iter().for_each(|layer| sum.add(&layer.counts()));
        sum
    }

    /// Every process of every layer.
    pub fn processes(&self) -> impl Iterator<Item = &ProcessReport> {
        self.layers.iter().flat_map(|layer| &layer.processes)
    }

    /// Every process that was recorded by its own tracepoints.
    pub fn applications(&self) -> impl Iterator<Item = &ProcessReport> {
        self.of_layer(USER)
    }

    /// The kernel, as if it were a process.
    pub fn of_kernel(&self) -> Option<&ProcessReport> {
        self.of_layer(KERNEL).next()
    }

    fn of_layer(&self, name: &'static str) -> impl Iterator<Item = &ProcessReport> {
        self.layers.iter().filter(move |layer| layer.layer == name).flat_map(|one| &one.processes)
    }

    /// Were applications to be recorded?
    #[must_use]
    pub fn has_applications(&self) -> bool {
        self.layers.iter().any(|layer| layer.layer == USER)
    }

    /// Has a filter decided which of their records are written?
    #[must_use]
    pub fn has_filtered_applications(&self) -> bool {
        self.layers.iter().any(|layer| layer.layer == USER && layer.is_filtered)
    }

    /// Was the kernel recorded without being asked for?
    #[must_use]
    pub fn has_kernel_by_default(&self) -> bool {
        self.kernel.as_ref().is_some_and(|kernel| kernel.is_default)
    }

    /// Tracepoints that the rules selected, in all applications.
    #[must_use]
    pub fn selected(&self) -> u64 {
        let whole = self.applications().filter(|process| !process.is_part);
        whole.fold(0, |sum, process| sum.saturating_add(process.selected))
    }
}

/// How a session does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Since it began to record.
    pub elapsed: Duration,
    /// Event records so far.
    pub records: u64,
    /// Bytes of the trace so far.
    pub bytes: u64,
    /// Records that were never written.
    pub discarded: u64,
    /// Records that were overwritten before they were read.
    pub overwritten: u64,
    /// What the buffers take \[byte\].
    pub memory: u64,
    /// Processes being recorded; `None`: applications are not.
    pub processes: Option<u64>,
}

/// What a session tells while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// What the kernel says of its events is being read.
    Describing {
        /// Of so many events it was.
        described: u64,
        /// Of so many.
        total: u64,
    },
    /// Processes are being looked at, whether they have tracepoints.
    Searching {
        /// So many were.
        looked: u64,
        /// Of so many.
        total: u64,
    },
    /// The tracepoints of processes are being switched on.
    Admitting {
        /// The process whose are now.
        pid: u32,
        /// So many processes are done with.
        admitted: u64,
        /// Of so many.
        total: u64,
    },
    /// The kernel's events are being switched on.
    Attaching {
        /// So many are on.
        attached: u64,
        /// Of so many.
        total: u64,
    },
    /// This rule selects none of the kernel's events.
    NoSuchEvent(KernelRuleReport),
    /// The kernel is not recorded, though it is by default.
    NoKernel(NoKernel),
    /// It records from now on.
    Started {
        /// Where the trace goes.
        output: Option<PathBuf>,
        /// Instead, the channel to the host's recorder.
        relay: Option<String>,
        /// The command's number, if there is one.
        command: Option<u32>,
        /// Processes that are being recorded.
        processes: usize,
        /// Events of the kernel that are being recorded; `None`: it is not.
        events: Option<u64>,
        /// What the buffers take now \[byte\].
        memory: u64,
        /// What they may take \[byte\]; `None`: whatever they need.
        max_memory: Option<u64>,
    },
    /// A few times a second.
    Progress(Progress),
    /// The command has ended, and what it has started has not: that is waited for.
    WaitingForDescendants,
    /// It was asked to stop, and waits for the command to end.
    WaitingForCommand {
        /// The command's number.
        pid: u32,
        /// The signal that the command got, too, or why it did not; `None`: it was not meant to.
        passed_on: Option<Result<i32, String>>,
    },
    /// It records no more, and writes what is in the buffers.
    Stopping,
    /// One layer cannot be written any more; another one can, and is recorded.
    LayerFailed {
        /// [`USER`] or [`KERNEL`].
        layer: &'static str,
        /// The error with its causes, as text.
        why: String,
    },
    /// The host's recorder is not there yet; recording begins when it is.
    WaitingForHost {
        /// The channel to it.
        channel: String,
    },
    /// How the parts of the trace are by now.
    Parts(Box<PartsLook>),
    /// What it holds in memory has no more room: packets stay in the buffers.
    NoRoom {
        /// Where it is held.
        folder: PathBuf,
        /// The session.
        name: String,
    },
    /// There is no room on the disk: packets stay in the buffers until there is.
    WaitsForRoom {
        /// What could not be written, and what to do.
        why: String,
    },
    /// The trace was to be cut, and this could not be done; recording goes on.
    NotRotated {
        /// What, and why.
        why: String,
    },
    /// Something is in no trace, or will not be, whatever is recorded from now on: a whole sentence.
    Remark(String),
    /// It cannot go on, and has ended but for the command, which it waits for.
    Failed {
        /// The error with its causes, as text.
        why: String,
        /// The command's number.
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

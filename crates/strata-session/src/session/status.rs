//! The status of a session, which it returns on request.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::output::retention::RetentionStatus;
use crate::plan::tracked::Tracked;
use crate::plan::{Condition, LayerOf, Plan, Trigger};
use crate::report::advice::Advice;
use crate::report::gaps::{CpuLoss, FoundGaps, Gap, Late, Unreached};
use crate::report::{ChunksStatus, FilterReport, FilterSlip, NotReached, TriggerReport};
use crate::session::free_space::NoRoomStatus;
use crate::session::layer::LayerStatus;
use crate::session::remote::RemoteStatus;
use crate::session::resources::Resources;
use crate::session::shared_state::Figured;
use crate::session::state::SessionState;

/// The most unreached or late programs and events in a status.
const NOT_REACHED_SHOWN: usize = 20;
/// The most remarks in a status.
const REMARKS_SHOWN: usize = 8;
/// The most letters of a remark.
const REMARK_LETTERS: usize = 400;

/// The status of a session.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The state of the session.
    pub state: SessionState,
    /// Time since the session's first start \[s\].
    pub seconds: Option<f64>,
    /// Always true. Kept for scripts that were written when some recordings had no plan.
    pub has_plan: bool,
    /// The process of the command, if the session runs one.
    pub command: Option<u32>,
    /// The mode: `files` or `snapshot`.
    pub mode: &'static str,
    /// The folder of the session's traces.
    pub output: Option<String>,
    /// The relay to which the trace or the snapshots are sent.
    pub to: Option<RemoteStatus>,
    /// Set if the trace is held in memory until it is flushed to disk.
    pub settle: Option<FlushStatus>,
    /// Set while the disk is full: packets stay in the buffers.
    pub no_room: Option<NoRoomStatus>,
    /// Number of programs that are recorded now.
    pub processes: u64,
    /// CPUs that are online, as the kernel lists them. CPUs that come online later are recorded as well.
    pub cpus: Option<String>,
    /// Number of kernel events that are recorded.
    pub kernel_events: Option<u64>,
    /// Number of snapshots that were written.
    pub snapshots: u64,
    /// The chunks of the trace, if it was rotated.
    pub chunks: Option<ChunksStatus>,
    /// Limits on the data that the session keeps; `None` if it keeps everything.
    pub retention: Option<RetentionStatus>,
    /// The least [`ChannelStatus::history_seconds`] of all channels.
    pub history_seconds: Option<f64>,
    /// The sums over all channels.
    #[serde(flatten)]
    pub figures: Figured,
    /// The channels, in the order in which they were created.
    pub channels: Vec<ChannelStatus>,
    /// The tracked processes.
    pub tracked: Tracked,
    /// The triggers of the session.
    pub triggers: Vec<TriggerStatus>,
    /// Some of the programs and events that could not be recorded.
    pub not_reached: Vec<Unreached>,
    /// Number of programs and events that could not be recorded.
    pub nr_not_reached: u64,
    /// Some of the processes that were attached late.
    pub late: Vec<Late>,
    /// Number of processes that were attached late.
    pub nr_late: u64,
    /// Remarks on parts of the request that were not met; at most a few.
    pub remarks: Vec<String>,
    /// The kinds of gaps that the session's traces have.
    pub gaps: Vec<Gap>,
    /// Size of the buffers \[byte\].
    pub memory: u64,
    /// The most memory that the buffers may take \[byte\]; `None` if it is not limited.
    pub max_memory: Option<u64>,
}

impl Status {
    /// Returns the status of a killed session, made from its plan. `None`: the plan cannot be read either.
    #[must_use]
    pub fn killed(plan: Option<&Plan>) -> Status {
        let output = plan.and_then(|plan| plan.output.as_ref());
        Status {
            state: SessionState::Killed,
            seconds: None,
            has_plan: true,
            command: None,
            mode: if plan.is_some_and(|plan| plan.snapshot) { "snapshot" } else { "files" },
            output: output.map(|path| path.to_string_lossy().into_owned()),
            to: None,
            settle: None,
            no_room: None,
            processes: 0,
            cpus: None,
            kernel_events: None,
            snapshots: 0,
            chunks: None,
            retention: None,
            history_seconds: None,
            figures: Figured::default(),
            channels: Vec::new(),
            tracked: plan.map(|plan| plan.tracked.clone()).unwrap_or_default(),
            triggers: Vec::new(),
            not_reached: Vec::new(),
            nr_not_reached: 0,
            late: Vec::new(),
            nr_late: 0,
            remarks: Vec::new(),
            gaps: Vec::new(),
            memory: 0,
            max_memory: plan.and_then(|plan| plan.max_memory),
        }
    }
}

/// Adds two keys under their former names for programs that read them: `parts` for `chunks`, and `part` for `chunk`.
/// The next release has the new names only.
pub fn add_earlier_keys(facts: &mut Map<String, Value>) {
    for (name, earlier) in [("chunks", "parts"), ("chunk", "part")] {
        if let Some(value) = facts.get(name) {
            facts.insert(earlier.to_owned(), value.clone());
        }
    }
}

/// The status of a trace that is held in memory, with its destination on disk.
#[derive(Clone, Debug, Serialize)]
pub struct FlushStatus {
    /// The folder on disk in which the trace's folder is created.
    pub folder: String,
    /// The limit on the memory that holds the trace until it is flushed to `folder` \[byte\]; once it is
    /// reached, records stay in the buffers.
    pub size: u64,
    /// True if the memory is full; records then stay in the buffers.
    pub is_full: bool,
}

/// The status of a channel.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelStatus {
    /// The counts of the channel.
    #[serde(flatten)]
    pub figures: Figured,
    /// The channel's layer.
    pub layer: LayerOf,
    /// The channel's name within its layer.
    pub channel: String,
    /// True if the channel is enabled.
    pub enabled: bool,
    /// True if the channel's buffers exist; false if the channel is only in the session's plan.
    pub is_made: bool,
    /// The loss mode, `discard` or `overwrite`.
    pub loss: &'static str,
    /// Size of a sub-buffer \[byte\].
    pub subbuf_size: u64,
    /// The number of sub-buffers of each stream.
    pub num_subbuf: u32,
    /// Contexts that are added to each record.
    pub contexts: Vec<String>,
    /// Fill of the fullest buffer before it was last read, of one CPU or one program \[%\]. `None` if the channel has
    /// no buffers.
    pub fill: Option<u8>,
    /// The time that the buffers of a flight recorder cover at the present rate, for the buffer that covers least
    /// \[s\]. `None` if no records arrive or the rate is not known yet.
    pub history_seconds: Option<f64>,
    /// Discarded records by CPU and reason.
    pub discards: Vec<CpuLoss>,
    /// Sizes of buffers that would have prevented the losses.
    pub advice: Option<Advice>,
    /// The rules of the channel.
    pub events: Vec<EventStatus>,
}

/// The status of a rule.
#[derive(Clone, Debug, Serialize)]
pub struct EventStatus {
    /// The rule as it was written.
    pub rule: String,
    /// The filter on the rule's events.
    pub filter: Option<String>,
    /// Exclusions from the rule.
    pub exclude: Vec<String>,
    /// True if the rule is a probe of a program or library.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub probe: bool,
    /// The least duration of system calls that the rule records \[ns\].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slower_ns: Option<u64>,
    /// Of each `every` events of the rule, one is recorded; `None` to record all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u32>,
    /// The most events of the rule that are recorded in a second; `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u32>,
    /// True if the rule is enabled.
    pub enabled: bool,
    /// Number of events that the rule has matched; `None` if they were not counted yet.
    pub matched: Option<u64>,
    /// Similar rules that the user perhaps meant, if this rule has matched nothing.
    pub similar: Vec<String>,
    /// Parts of the filter that no seen event has passed.
    pub slips: Vec<FilterSlip>,
    /// True if no event passes the filter as a whole.
    pub is_never: bool,
}

/// The status of a trigger.
#[derive(Clone, Debug, Serialize)]
pub struct TriggerStatus {
    /// The trigger as it was added.
    #[serde(flatten)]
    pub trigger: Trigger,
    /// Number of times that the trigger fired.
    pub fired: u64,
    /// Number of times that the trigger did not fire because of its pause or its limit.
    pub suppressed: u64,
    /// Number of events that the trigger's rule has matched; `None` if it waits for no events, or they were not counted
    /// yet.
    pub matched: Option<u64>,
    /// Similar rules that the user perhaps meant, if the trigger's rule has matched nothing.
    pub similar: Vec<String>,
    /// Parts of the filter that no seen event has passed.
    pub slips: Vec<FilterSlip>,
    /// True if no event passes the filter as a whole.
    pub is_never: bool,
    /// What the trigger needs and the session does not have, as a sentence.
    pub lacks: Option<String>,
    /// The latest error.
    pub error: Option<String>,
}

impl TriggerStatus {
    /// Returns a report on why the trigger cannot fire; `None` if no reason is known.
    pub(crate) fn report(&self) -> Option<TriggerReport> {
        // Where there are no such events, it is silent, and a trigger for that fires.
        let selection = match &self.trigger.when {
            Condition::Event { selection } => Some(selection),
            Condition::Silence { .. }
            | Condition::Ended { .. }
            | Condition::Signal
            | Condition::Fill { .. }
            | Condition::Written { .. }
            | Condition::Part => None,
        };
        let is_unmatched = selection.is_some() && self.matched == Some(0);
        let filter = selection.and_then(|one| one.filter.clone()).filter(|_| self.is_never);
        let rule = selection.map(|one| one.rule.clone());
        let is_idle = is_unmatched || filter.is_some() || self.lacks.is_some();
        is_idle.then(|| TriggerReport {
            name: self.trigger.name.clone(),
            rule,
            similar: self.similar.clone(),
            filter: filter.map(|filter| FilterReport {
                rules: Vec::new(),
                filter,
                slips: self.slips.clone(),
                is_never: true,
            }),
            lacks: self.lacks.clone(),
        })
    }
}

/// Returns the number of selected events, summed over the layers that know their events in advance.
pub(crate) fn recorded_events(layers: &[LayerStatus]) -> Option<u64> {
    layers.iter().filter_map(|layer| layer.events).reduce(u64::saturating_add)
}

/// Facts for a status that neither the resources nor the layers of a session have.
pub(crate) struct StatusFacts<'a> {
    pub(crate) state: SessionState,
    /// Time since the session's first start.
    pub(crate) age: Option<Duration>,
    pub(crate) command: Option<u32>,
    /// True for a flight recorder.
    pub(crate) holds: bool,
    pub(crate) settle: Option<FlushStatus>,
    pub(crate) retention: Option<RetentionStatus>,
    pub(crate) channels: Vec<ChannelStatus>,
    pub(crate) tracked: Tracked,
    pub(crate) triggers: Vec<TriggerStatus>,
    /// Remarks of the session itself.
    pub(crate) remarks: &'a [String],
    /// Gaps in the recording that the caller has found, since neither resources nor layers know them.
    pub(crate) gaps: FoundGaps,
}

impl StatusFacts<'_> {
    /// Makes the status from these facts and the statuses of all layers.
    pub(crate) fn status(self, resources: &Resources, layers: &[LayerStatus]) -> Status {
        let mut figures = Figured::default();
        let mut not_reached: Vec<&NotReached> = Vec::new();
        let mut late: Vec<Late> = Vec::new();
        let short = |remark: &String| remark.chars().take(REMARK_LETTERS).collect::<String>();
        let mut remarks: Vec<String> = self.remarks.iter().take(REMARKS_SHOWN).map(short).collect();
        let mut processes = 0;
        for status in layers {
            figures.add(&status.figures);
            processes = processes.max(status.processes);
            for one in &status.not_reached {
                if !not_reached.contains(&one) {
                    not_reached.push(one);
                }
            }
            for one in &status.remarks {
                let remark = short(one);
                if remarks.len() < REMARKS_SHOWN && !remarks.contains(&remark) {
                    remarks.push(remark);
                }
            }
            // One program may be in several channels.
            for one in &status.late {
                if late.iter().all(|known| known.pid != one.pid) {
                    late.push(one.clone());
                }
            }
        }
        let gaps = FoundGaps {
            not_reached: !not_reached.is_empty(),
            late: !late.is_empty(),
            discarded: self.gaps.discarded || figures.discarded > 0,
            overwritten: figures.overwritten > 0 && !self.holds,
            ..self.gaps
        };
        let shared = &resources.context.shared;
        let (max_memory, memory) = shared.memory().now();
        let history = layers.iter().filter_map(|layer| layer.history_seconds).reduce(f64::min);
        Status {
            state: self.state,
            seconds: self.age.map(|age| age.as_secs_f64()),
            has_plan: true,
            command: self.command,
            mode: if self.holds { "snapshot" } else { "files" },
            output: resources.output().map(|path| path.to_string_lossy().into_owned()),
            to: resources.remote_status(),
            settle: self.settle,
            no_room: shared.room().now(),
            processes,
            cpus: std::fs::read_to_string("/sys/devices/system/cpu/online")
                .ok()
                .map(|list| list.trim().to_owned()),
            kernel_events: recorded_events(layers),
            snapshots: resources.saved(),
            chunks: resources.chunks(),
            retention: self.retention,
            history_seconds: history,
            figures,
            channels: self.channels,
            tracked: self.tracked,
            triggers: self.triggers,
            nr_not_reached: not_reached.len() as u64,
            not_reached: not_reached
                .into_iter()
                .take(NOT_REACHED_SHOWN)
                .map(Unreached::from)
                .collect(),
            nr_late: late.len() as u64,
            late: late.into_iter().take(NOT_REACHED_SHOWN).collect(),
            remarks,
            gaps: gaps.gaps(),
            memory,
            max_memory,
        }
    }
}

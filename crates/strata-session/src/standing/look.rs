//! How a session that stays is, as it tells whoever asks.

use serde::Serialize;

use crate::plan::tracked::Tracked;
use crate::plan::{Condition, LayerOf, Trigger};
use crate::report::advice::Advice;
use crate::report::gaps::{CpuLoss, Gap, Late, Unreached};
use crate::report::{FilterReport, FilterSlip, PartsLook, TriggerReport};
use crate::session::room::NoRoomLook;
use crate::session::shared::Figured;

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionState {
    /// It was never started.
    Created,
    /// It records.
    Recording,
    /// It was stopped, and can go on.
    Stopped,
}

/// How a session is.
#[derive(Clone, Debug, Serialize)]
pub struct Look {
    /// What it does.
    pub state: SessionState,
    /// Since its first start \[s\].
    pub seconds: Option<f64>,
    /// `files` or `snapshot`.
    pub mode: &'static str,
    /// The folder of its traces.
    pub output: Option<String>,
    /// It is held in memory, until it settles.
    pub settle: Option<SettleLook>,
    /// There is none where it writes: packets stay in the buffers.
    pub no_room: Option<NoRoomLook>,
    /// Of programs, how many are recorded now.
    pub processes: u64,
    /// CPUs that are online, as the kernel lists them; those that come are recorded, too.
    pub cpus: Option<String>,
    /// Events of the kernel that are recorded.
    pub kernel_events: Option<u64>,
    /// Snapshots that were written.
    pub snapshots: u64,
    /// The trace's parts, if it was rotated.
    pub parts: Option<PartsLook>,
    /// Of all channels.
    #[serde(flatten)]
    pub figures: Figured,
    /// In the order in which they were made.
    pub channels: Vec<ChannelLook>,
    /// Whose events.
    pub tracked: Tracked,
    /// What it does by itself.
    pub triggers: Vec<TriggerLook>,
    /// Some of those that were not reached.
    pub not_reached: Vec<Unreached>,
    /// How many there are.
    pub nr_not_reached: u64,
    /// Some of those that were reached late.
    pub late: Vec<Late>,
    /// How many there are.
    pub nr_late: u64,
    /// Some of what is less than was asked for, whole sentences.
    pub remarks: Vec<String>,
    /// What is missing, by its kind.
    pub gaps: Vec<Gap>,
    /// What the buffers take \[byte\].
    pub memory: u64,
    /// What they may take \[byte\]; `None`: whatever they need.
    pub max_memory: Option<u64>,
}

/// What becomes of a trace that is held in memory.
#[derive(Clone, Debug, Serialize)]
pub struct SettleLook {
    /// Where its folder is made.
    pub folder: String,
    /// What it may take until then \[byte\].
    pub size: u64,
    /// That is taken: what is recorded stays in the buffers.
    pub is_full: bool,
}

/// How a channel is.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelLook {
    /// Of the plan.
    #[serde(flatten)]
    pub figures: Figured,
    /// The layer that it is of.
    pub layer: LayerOf,
    /// Its name in that layer.
    pub channel: String,
    /// Is anything recorded into it?
    pub enabled: bool,
    /// Is it there, or only planned?
    pub is_made: bool,
    /// `discard` or `overwrite`.
    pub loss: &'static str,
    /// \[byte\]
    pub subbuf_size: u64,
    /// Of each stream.
    pub num_subbuf: u32,
    /// What each of its records has besides.
    pub contexts: Vec<String>,
    /// How full the fullest of its buffers was before it was last read: of one CPU, of one program \[%\]. `None`: it has none.
    pub fill: Option<u8>,
    /// What was discarded, by CPU and reason.
    pub discards: Vec<CpuLoss>,
    /// What would have prevented it.
    pub advice: Option<Advice>,
    /// Its rules.
    pub events: Vec<EventLook>,
}

/// How a rule is.
#[derive(Clone, Debug, Serialize)]
pub struct EventLook {
    /// As it was written.
    pub rule: String,
    /// Which of its events.
    pub filter: Option<String>,
    /// What is left out of them.
    pub exclude: Vec<String>,
    /// It is a probe of a program or library.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub probe: bool,
    /// Does it select anything?
    pub enabled: bool,
    /// Events that it has matched so far; `None`: nobody has looked yet.
    pub matched: Option<u64>,
    /// Rules that were perhaps meant, if it has matched none.
    pub similar: Vec<String>,
    /// What in the filter no event passes, of those that were seen so far.
    pub slips: Vec<FilterSlip>,
    /// None passes the filter as a whole.
    pub is_never: bool,
}

/// How a trigger is.
#[derive(Clone, Debug, Serialize)]
pub struct TriggerLook {
    /// As it was added.
    #[serde(flatten)]
    pub trigger: Trigger,
    /// So often it has fired.
    pub fired: u64,
    /// So often it would have, but for its pause or its number of times.
    pub suppressed: u64,
    /// Events that its rule has matched so far; `None`: it waits for none, or nobody has looked yet.
    pub matched: Option<u64>,
    /// Rules that were perhaps meant, if it has matched none.
    pub similar: Vec<String>,
    /// What in the filter no event passes, of those that were seen so far.
    pub slips: Vec<FilterSlip>,
    /// None passes the filter as a whole.
    pub is_never: bool,
    /// What there must be for it to fire, and is not.
    pub lacks: Option<String>,
    /// The last thing that went wrong.
    pub error: Option<String>,
}

impl TriggerLook {
    /// What keeps it from firing; `None`: nothing that is known.
    pub(crate) fn report(&self) -> Option<TriggerReport> {
        // Where there are no such events, it is silent, and a trigger for that fires.
        let selection = match &self.trigger.when {
            Condition::Event { selection } => Some(selection),
            Condition::Silence { .. } | Condition::Ended { .. } | Condition::Signal => None,
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

//! The plan of a session, as data: channels with their rules and contexts, tracked processes, triggers, and the
//! destination of the traces. It is JSON in files (`strata save`) and between commands and sessions.
//!
//! ```text
//! flags of create, enable-event, track ... ─▶ Change ─▶ Plan::changed() ─▶ another Plan, or a PlanError
//!                                                             │
//!                        strata save/load, the restore file ◀─┤ JSON, deny_unknown_fields
//!                                                             └─▶ lower: options of each layer ─▶ Engine
//! ```
//!
//! - `change.rs` has all changes of a plan. A change makes a new plan and leaves the old one as it is, so a session
//!   that cannot carry it out continues with what it has.
//! - `lower.rs` converts a channel to the options of its layer, when that is created and when it changes.
//! - `tracked.rs` decides which processes are recorded; `triggers.rs` has what happens automatically, and when.
//! - `transient.rs` has what ends with the session's process: a command, and processes given by number. It is in no
//!   file.
//! - `names.rs` suggests similar names for messages.
//!
//! A plan is checked as a whole after each change, and again when it comes from a file: all numbers and lengths have
//! limits, and nothing is accepted that the session could not record. Nothing here asks the machine, so plans can be
//! made and tested anywhere.
//!
//! A field that is new since version [`VERSION`] began needs a default, so that plans of earlier versions can be
//! read. A plan with a field that is unknown is refused, since the session would record something else.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use strata_filter::Filter;
use strata_kernel::{CallStacks, Contexts, Sampling};
use strata_model::LossMode;
use strata_remote::Destination;
use strata_text::json;
use strata_user::{possible_cpus, EventContexts};

use crate::options::{
    Options, OptionsError, Rotation, Version, NR_SUBBUFS, RATE_MAX, RELAY_SUBBUF_MAX, SUBBUF_BYTES,
};
use crate::output::retention::Retention;
use crate::plan::tracked::Tracked;
use crate::report::{KERNEL, USER};
use crate::session::disk::MinFree;
use crate::sizes::BuffersOf;

mod change;
mod lower;
mod names;
#[cfg(test)]
mod tests;
pub mod tracked;
mod transient;
mod triggers;

pub use change::{
    Change, ChannelChange, ChannelOf, ContextChange, DisableEvents, EnableEvents, Kind, RotationBy,
};
pub use transient::Transient;
pub use triggers::{
    Action, Condition, How, Selection, Trigger, PAUSE, SILENCE_MIN, TRIGGERS_MAX, WORDS_MAX,
};

/// The most contexts of a channel.
const CONTEXTS_MAX: usize = 32;

/// Version of the plan's format.
pub const VERSION: u32 = 1;
/// Name of the channel that is used if the user named none.
pub const CHANNEL: &str = "channel0";
/// The most channels of a session.
pub const CHANNELS_MAX: usize = 32;
/// The most rules of a channel.
pub const RULES_MAX: usize = 256;
/// Longest text of one rule, filter or name \[byte\].
pub const TEXT_BYTES_MAX: usize = 4096;
/// The most tracked entries of one kind.
pub const TRACKED_MAX: usize = 256;
/// Allowed range for [`EventRule::slower_ns`], the bound for slow system calls \[ns\].
pub const SLOWER_NS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000_000_000;
/// The most bytes of a plan as JSON, which must fit a message \[byte\].
pub const PLAN_BYTES_MAX: usize = 24 << 10;

/// The plan of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of the format, always [`VERSION`].
    pub version: u32,
    /// True for a flight recorder, which writes nothing but snapshots.
    #[serde(default)]
    pub snapshot: bool,
    /// True if the kernel continues to record when the session is killed.
    #[serde(default)]
    pub keep: bool,
    /// The call stacks that all records have.
    #[serde(default)]
    pub stack: CallStacks,
    /// The folder of the traces; `None` for a new one in the folder where the session was created.
    #[serde(default)]
    pub output: Option<PathBuf>,
    /// The relay on another host to which traces or snapshots are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Destination>,
    /// Set for a trace that is held in memory until it is flushed to disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<Settle>,
    /// Conditions on which the session ends by itself.
    #[serde(default, skip_serializing_if = "Until::is_none")]
    pub until: Until,
    /// Conditions on which the trace is rotated.
    #[serde(default, skip_serializing_if = "Rotation::is_none")]
    pub rotation: Rotation,
    /// Limits on the data that the session keeps: chunks, snapshots, and traces from before it was killed.
    #[serde(default, skip_serializing_if = "Retention::is_none")]
    pub retention: Retention,
    /// Default size of a sub-buffer, for channels that do not set one \[byte\].
    #[serde(default)]
    pub subbuf_size: Option<u64>,
    /// Default number of sub-buffers, for channels that do not set one.
    #[serde(default)]
    pub num_subbuf: Option<u32>,
    /// The most memory for the buffers of all channels together \[byte\]; `None` if it is not limited.
    #[serde(default)]
    pub max_memory: Option<u64>,
    /// Free space to leave where traces and snapshots are written; `None` for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_free: Option<MinFree>,
    /// The most bytes of a program's arguments in kernel events, NUL included \[byte\].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv_bytes: Option<u32>,
    /// True if the traces' metadata are those of CTF 2, and not of CTF 1.8.
    #[serde(default, skip_serializing_if = "is_not")]
    pub ctf2: bool,
    /// True if records of applications do not have the id of their thread.
    #[serde(default, skip_serializing_if = "is_not")]
    pub no_vtid: bool,
    /// True if the metadata of the kernel's traces claim that lttng-modules recorded them.
    #[serde(default, skip_serializing_if = "is_not")]
    pub lttng_env: bool,
    /// The folder in which members of the session's group may save snapshots of root's flight recorder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_snapshots: Option<PathBuf>,
    /// The channels, in the order in which they were created.
    #[serde(default)]
    pub channels: Vec<Channel>,
    /// The tracked processes.
    #[serde(default)]
    pub tracked: Tracked,
    /// The triggers, in the order in which they were added.
    #[serde(default)]
    pub triggers: Vec<Trigger>,
    /// What ends with the session's process, and is in no file.
    #[serde(skip)]
    pub transient: Transient,
}

/// Conditions on which a session ends by itself. A session that is restored after a kill counts its time anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// Time after the first start at which the session ends \[ms\].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Size of the session's files at which it ends \[byte\].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

impl Until {
    /// Returns true if only a request ends the session.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Until::default()
    }

    /// Returns the time after the first start at which the session ends.
    pub(crate) fn duration(self) -> Option<Duration> {
        self.duration_ms.map(Duration::from_millis)
    }
}

/// The destination of a trace that is held in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    /// The folder on disk in which the trace's folder is created; its name is the time.
    pub folder: PathBuf,
    /// The most memory that the trace may take before it is flushed \[byte\].
    pub size: u64,
}

/// The least value of [`Settle::size`] \[byte\].
pub const SETTLE_BYTES_MIN: u64 = 1 << 20;

/// A layer: the applications or the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerOf {
    /// The layer of applications.
    User,
    /// The layer of the kernel.
    Kernel,
}

/// The loss mode: what happens when the buffers are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// The new record is discarded.
    Discard,
    /// The oldest packet is overwritten.
    Overwrite,
}

/// A channel: buffers of one layer, with the rules for the events that are recorded into them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// The channel's name, which is unique in its layer.
    pub name: String,
    /// The channel's layer.
    pub layer: LayerOf,
    /// True if the channel is enabled.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The loss mode; `None` for discard, or in a flight recorder for overwrite.
    #[serde(default)]
    pub mode: Option<Loss>,
    /// Size of a sub-buffer \[byte\]; `None` for the session's default.
    #[serde(default)]
    pub subbuf_size: Option<u64>,
    /// Number of sub-buffers of each stream; `None` for the session's default.
    #[serde(default)]
    pub num_subbuf: Option<u32>,
    /// Period of writing sub-buffers that are not full \[ms\]; `None` for the default, one second.
    #[serde(default)]
    pub flush_ms: Option<u64>,
    /// Contexts that are added to each record.
    #[serde(default)]
    pub contexts: Vec<String>,
    /// Rules for the events.
    #[serde(default)]
    pub events: Vec<EventRule>,
}

/// An event rule of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRule {
    /// A rule in the form of `strata record -u` and `-k`. With a leading `!`, it excludes events from the whole
    /// channel.
    pub rule: String,
    /// The filter on the rule's events; `None` to record all.
    #[serde(default)]
    pub filter: Option<String>,
    /// Exclusions from the rule's events, as rules without `!`.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// The call stacks that the records have. Kernel rules only.
    #[serde(default, skip_serializing_if = "CallStacks::is_none")]
    pub stack: CallStacks,
    /// Rate of samples \[Hz\], for a rule that samples CPUs and selects no event. Kernel rules only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<u32>,
    /// True if the rule is a probe of a program or library, as `strata record --probe` takes it, with an absolute path.
    /// Kernel rules only.
    #[serde(default, skip_serializing_if = "is_not")]
    pub probe: bool,
    /// The least duration of system calls that the rule records \[ns\]. Kernel rules only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower_ns: Option<u64>,
    /// One of so many events is recorded; `None` for all. Kernel rules only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u32>,
    /// So many events are recorded in a second at most; `None` for all. Kernel rules only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u32>,
    /// True if the rule is enabled.
    #[serde(default = "yes")]
    pub enabled: bool,
}

/// Parses a plan. Plans saved by an earlier version may have sizes under `advised`, a flag that no longer exists; it is
/// ignored.
fn parse(text: &str) -> Result<Plan, serde_json::Error> {
    let mut all: Map<String, Value> = serde_json::from_str(text)?;
    match all.remove("advised") {
        Some(_) => serde_json::from_value(Value::Object(all)),
        // Parsing the text directly keeps the position in error messages.
        None => serde_json::from_str(text),
    }
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_not(it: &bool) -> bool {
    !it
}

/// Why a plan is invalid, or a change to it impossible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The plan has a version that this program does not support.
    #[error("plan: version {found}, and this is {VERSION}. Was it made by a later strata?")]
    Version {
        /// The version found.
        found: u32,
    },
    /// The text is not a plan.
    #[error("plan: {0}")]
    Json(String),
    /// The plan is larger than a message allows.
    #[error("plan: {bytes} bytes, at most {PLAN_BYTES_MAX}. Use '*' to say more with less")]
    TooLarge {
        /// Size of the plan as JSON \[byte\].
        bytes: usize,
    },
    /// The text is not a valid name of a channel.
    #[error(
        "channel '{0}': not a name. Use 1 to 64 of A-Z a-z 0-9 . _ -, and none of . and - first"
    )]
    Name(String),
    /// The name is reserved for the folder of a layer.
    #[error("channel '{0}': traces of the layer are in a folder of this name. Use another one")]
    Reserved(String),
    /// Two channels of a layer have the same name.
    #[error("channel '{0}': there are two in one layer")]
    Twice(String),
    /// The plan has more entries of some kind than allowed.
    #[error("{what}: {found}, at most {limit}")]
    TooMany {
        /// Kind of the entries, such as rules.
        what: &'static str,
        /// The number found.
        found: usize,
        /// The most entries allowed.
        limit: usize,
    },
    /// The filter uses a duration in a way that only readers of traces support.
    #[error(transparent)]
    Duration(#[from] strata_filter::DurationError),
    /// A rotation or a sample rate is outside its limits.
    #[error(transparent)]
    Options(OptionsError),
    /// A property that only kernel rules have is set for another layer.
    #[error("event rule '{0}': --stack and --sample of one rule, and probes, are the kernel's (-k). For stacks of programs, use `strata add-context -u -t callstack_user`")]
    OfKernel(String),
    /// A probe is invalid.
    #[error("event rule '{}': {cause}", rule.escape_debug().take(100).collect::<String>())]
    Probe {
        /// The rule as it was written.
        rule: String,
        /// The mistake in the probe.
        #[source]
        cause: Box<strata_kernel::uprobe::ProbeError>,
    },
    /// A copy of the stack has a size that cannot be recorded.
    #[error(
        "call stacks of {}: a copy of the stack has a power of two of bytes, from 1024 to 65536",
        .0.escape_debug().take(100).collect::<String>()
    )]
    Stack(String),
    /// The plan has a probe of a program and `--keep`. Recording would continue when the session is killed, and the
    /// probe cannot.
    #[error(
        "event rule '{}': a probe of a program ends when the session is killed, and what is recorded with --keep goes on. Use a \
         session without --keep",
        .0.escape_debug().take(100).collect::<String>()
    )]
    ProbeEnds(String),
    /// The plan contradicts holding the trace in memory.
    #[error("settle: {0}")]
    Settle(&'static str),
    /// The buffers need more memory than the plan allows.
    #[error(
        "channel '{channel}': its buffers need at least {} MiB for one program, or for the kernel, those of the other \
         channels {} MiB, and --max-memory allows {} MiB. Use smaller or fewer sub-buffers, or another session",
        mib(.bytes), mib(.planned), mib(.max)
    )]
    Memory {
        /// The channel's name.
        channel: String,
        /// Memory that the channel's buffers need \[byte\].
        bytes: u64,
        /// Memory that the buffers of the preceding channels need \[byte\].
        planned: u64,
        /// The limit \[byte\].
        max: u64,
    },
    /// The plan is one of a flight recorder, and this channel would discard new records instead of overwriting old
    /// ones.
    #[error("channel '{0}': a flight recorder (--snapshot) overwrites the oldest records. Leave out --discard")]
    Discards(String),
    /// The sizes of a channel's buffers are outside their limits.
    #[error("channel '{channel}': {why}")]
    Sizes {
        /// The channel's name.
        channel: String,
        /// The mistake in the sizes.
        #[source]
        why: OptionsError,
    },
    /// A rule for applications is invalid.
    #[error(transparent)]
    UserRule(#[from] strata_user::RuleError),
    /// A rule for the kernel is invalid.
    #[error(transparent)]
    KernelRule(#[from] strata_kernel::event_rules::SelectionError),
    /// A filter is invalid.
    #[error("filter: {0}")]
    Filter(#[from] strata_filter::ParseError),
    /// The filter cannot be tested in programs.
    #[error(transparent)]
    Program(#[from] strata_user::FilterError),
    /// No event passes the filter.
    #[error("filter '{0}': no event can pass it")]
    NothingPasses(String),
    /// The channel does not exist.
    #[error("channel '{name}': the {layer} layer has none of this name{near}")]
    NoChannel {
        /// The name in the request.
        name: String,
        /// The channel's layer.
        layer: &'static str,
        /// Similar names, as a suggestion for the message.
        near: String,
    },
    /// The layer has several channels, and none was named.
    #[error("the {layer} layer has the channels {names}: use -c to say which")]
    WhichChannel {
        /// The name of the layer.
        layer: &'static str,
        /// Names of all channels.
        names: String,
    },
    /// The channel has no such rule.
    #[error("event rule '{rule}': {what}{near}")]
    NoRule {
        /// The rule in the request.
        rule: String,
        /// Kind of rules that the channel has.
        what: &'static str,
        /// Similar rules, as a suggestion for the message.
        near: String,
    },
    /// The command would have no effect.
    #[error("{what}: {why}")]
    Nothing {
        /// The command.
        what: &'static str,
        /// Why it would have no effect.
        why: &'static str,
    },
    /// The context is unknown.
    #[error("{0}")]
    NoContext(String),
    /// Everything of this kind is tracked, so that a single entry cannot be removed.
    #[error("untrack: no single {0} can be taken away: each is tracked. Use `strata track` for those that are to be recorded")]
    AllTracked(&'static str),
    /// The entry is not tracked.
    #[error("untrack: {what} {value} is not tracked")]
    NotTracked {
        /// The kind of entry.
        what: &'static str,
        /// The entry as the user typed it: a number, name or cgroup.
        value: String,
    },
    /// A trigger is invalid.
    #[error("trigger '{name}': {why}")]
    Trigger {
        /// The trigger's name.
        name: String,
        /// The mistake in the trigger.
        why: String,
    },
    /// The value can belong to no process, user, group, name or cgroup.
    #[error("track: '{value}' is no {what}")]
    NoOne {
        /// The kind of entry.
        what: &'static str,
        /// The value in the request.
        value: String,
    },
}

impl LayerOf {
    /// Returns the layer's name in folders and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LayerOf::User => USER,
            LayerOf::Kernel => KERNEL,
        }
    }
}

impl Plan {
    /// Creates a plan without channels.
    #[must_use]
    pub fn new(snapshot: bool, output: Option<PathBuf>) -> Plan {
        Plan {
            argv_bytes: None,
            ctf2: false,
            no_vtid: false,
            lttng_env: false,
            group_snapshots: None,
            version: VERSION,
            snapshot,
            keep: false,
            stack: CallStacks::None,
            output,
            to: None,
            settle: None,
            until: Until::default(),
            rotation: Rotation::default(),
            retention: Retention::default(),
            subbuf_size: None,
            num_subbuf: None,
            max_memory: None,
            min_free: None,
            channels: Vec::new(),
            tracked: Tracked::default(),
            triggers: Vec::new(),
            transient: Transient::default(),
        }
    }

    /// Parses a plan from JSON and checks it. `text` may be hostile.
    ///
    /// # Errors
    /// [`PlanError`]: the first mistake.
    pub fn from_json(text: &str) -> Result<Plan, PlanError> {
        if text.len() > 4 * PLAN_BYTES_MAX {
            return Err(PlanError::TooLarge { bytes: text.len() });
        }
        let plan = parse(text).map_err(|error| PlanError::Json(error.to_string()))?;
        plan.check()?;
        Ok(plan)
    }

    /// Formats the plan as indented JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        json::indented(self) + "\n"
    }

    /// Checks the plan as far as possible without asking the kernel or a program.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.version != VERSION {
            return Err(PlanError::Version { found: self.version });
        }
        if !self.stack.is_valid() {
            return Err(PlanError::Stack("the session".to_owned()));
        }
        let whole = Options {
            hold: self.snapshot,
            rotation: self.rotation,
            retention: self.retention,
            duration: self.until.duration(),
            max_bytes: self.until.max_bytes,
            ..Options::default()
        };
        whole.check().map_err(PlanError::Options)?;
        self.check_until()?;
        self.check_settle()?;
        self.check_to()?;
        self.check_group_snapshots()?;
        let sizes = self.buffers(self.subbuf_size, self.num_subbuf).check();
        sizes.map_err(|why| PlanError::Sizes { channel: CHANNEL.to_owned(), why })?;
        at_most("channels of a session", self.channels.len(), CHANNELS_MAX)?;
        let mut names = HashSet::new();
        for channel in &self.channels {
            check_name(&channel.name)?;
            if !names.insert((channel.layer.name(), &channel.name)) {
                return Err(PlanError::Twice(channel.name.clone()));
            }
            self.check_channel(channel)?;
        }
        self.check_memory()?;
        self.check_tracked()?;
        self.check_triggers()?;
        let bytes = json::compact(self).len();
        match bytes > PLAN_BYTES_MAX && self.is_message() {
            true => Err(PlanError::TooLarge { bytes }),
            false => Ok(()),
        }
    }

    /// Returns whether the plan may be sent in a message, which limits its size.
    fn is_message(&self) -> bool {
        !self.transient.is_foreground
    }

    fn check_group_snapshots(&self) -> Result<(), PlanError> {
        let Some(folder) = &self.group_snapshots else { return Ok(()) };
        let why = match folder.is_absolute() {
            false => "its folder is no path from '/'",
            true if !self.snapshot => {
                "only a flight recorder saves snapshots. Leave it out, or add --snapshot"
            }
            true => return Ok(()),
        };
        Err(PlanError::Nothing { what: "--group-snapshots", why })
    }

    fn check_until(&self) -> Result<(), PlanError> {
        let why = match self.until {
            until if until.is_none() => return Ok(()),
            _ if self.keep => "what the kernel goes on recording after a kill forgets its end. Leave it out, or 'keep'",
            Until { max_bytes: None, .. } => return Ok(()),
            _ if self.settle.is_some() => "a trace in memory is bounded by the size in 'settle'. Leave out 'max_bytes'",
            _ if self.to.is_some() => "the trace goes to the relay. Leave out 'max_bytes', or the relay",
            _ => return Ok(()),
        };
        Err(PlanError::Nothing { what: "until", why })
    }

    fn check_settle(&self) -> Result<(), PlanError> {
        let Some(Settle { folder, size }) = &self.settle else { return Ok(()) };
        let is_path = |path: &PathBuf| path.is_absolute();
        Err(PlanError::Settle(match () {
            () if self.snapshot => "a flight recorder writes nothing. Leave it out, or 'snapshot'",
            () if self.keep => {
                "what the kernel goes on recording has one folder. Leave it out, or 'keep'"
            }
            () if !self.output.as_ref().is_some_and(is_path) || !is_path(folder) => {
                "'output' and its folder are paths from '/'"
            }
            () if *size < SETTLE_BYTES_MIN => "its size is less than 1 MiB",
            () => return Ok(()),
        }))
    }

    fn check_to(&self) -> Result<(), PlanError> {
        if self.to.is_none() {
            return Ok(());
        }
        let why = match () {
            () if self.output.is_some() => "the trace goes to the relay. Leave it out, or the folder",
            () if self.settle.is_some() => "a trace that is held in memory goes to a folder. Leave it out",
            () if self.keep => "what the kernel goes on recording is written to a folder. Leave it out, or --keep",
            () if self.rotation.count.is_some() => {
                "the relay removes parts: strata relayd --keep-age, --keep-size. Leave out --rotate-count"
            }
            () => return Ok(()),
        };
        Err(PlanError::Nothing { what: "--to", why })
    }

    fn check_channel(&self, channel: &Channel) -> Result<(), PlanError> {
        if self.snapshot && channel.mode == Some(Loss::Discard) {
            return Err(PlanError::Discards(channel.name.clone()));
        }
        if self.is_message() {
            channel.check_size()?;
        }
        for event in &channel.events {
            if let Some(filter) = &event.filter {
                Filter::parse(filter)?;
            }
            let of_kernel = event.stack.is_any() || event.sample.is_some() || event.probe;
            if channel.layer == LayerOf::User && of_kernel {
                return Err(PlanError::OfKernel(event.rule.clone()));
            }
            if !event.stack.is_valid() {
                return Err(PlanError::Stack(event.rule.clone()));
            }
            if self.keep && event.probe {
                return Err(PlanError::ProbeEnds(event.rule.clone()));
            }
            if let Some(found) = event.sample.filter(|rate| !(1..=RATE_MAX).contains(rate)) {
                return Err(PlanError::Options(OptionsError::Rate { found }));
            }
            event.check_slower()?;
            event.check_sampling(channel.layer)?;
            event.parse(channel.layer, !self.transient.is_none())?;
        }
        check_contexts(channel)?;
        let options = self.fixed(channel);
        let relay = [("--to", self.to.is_some()), ("--relay", self.transient.relay.is_some())];
        if let Some((what, _)) = relay.into_iter().find(|(_, is_there)| *is_there) {
            if options.subbuf_bytes > RELAY_SUBBUF_MAX {
                let why = "a sub-buffer that goes to a relay has 16 MiB at most. Use --subbuf-size=16M or less";
                return Err(PlanError::Nothing { what, why });
            }
        }
        let sizes = options.check();
        sizes.map_err(|why| PlanError::Sizes { channel: channel.name.clone(), why })?;
        // Whatever the layer's own options can refuse is checked here.
        self.options_of(channel).map(drop)
    }

    /// Checks that the buffers of all enabled channels fit `max_memory`, counted for one program or for the kernel.
    fn check_memory(&self) -> Result<(), PlanError> {
        // A recording in the foreground says by which flags to need less.
        let Some(max) = self.max_memory.filter(|_| self.is_message()) else { return Ok(()) };
        let mut planned = 0u64;
        for channel in self.channels.iter().filter(|channel| channel.enabled) {
            let bytes = self.fixed(channel).stream_bytes().saturating_mul(possible_cpus().into());
            if planned.saturating_add(bytes) > max {
                let channel = channel.name.clone();
                return Err(PlanError::Memory { channel, bytes, planned, max });
            }
            planned = planned.saturating_add(bytes);
        }
        Ok(())
    }

    fn check_tracked(&self) -> Result<(), PlanError> {
        let Tracked { pids, uids, gids, names, cgroups, .. } = &self.tracked;
        let no_one =
            |what, value: &dyn ToString| Err(PlanError::NoOne { what, value: value.to_string() });
        for numbers in [pids, uids, gids].into_iter().flatten() {
            at_most("tracked of one kind", numbers.len(), TRACKED_MAX)?;
        }
        for texts in [names, cgroups].into_iter().flatten() {
            at_most("tracked of one kind", texts.len(), TRACKED_MAX)?;
        }
        let is_text = |text: &&String| {
            (1..=TEXT_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
        };
        if let Some(pid) = pids.iter().flatten().find(|pid| !(1..=i32::MAX as u32).contains(*pid)) {
            return no_one("process", pid);
        }
        if let Some(name) = names.iter().flatten().find(|name| !is_text(name)) {
            return no_one("name of a process", &name.escape_debug());
        }
        match cgroups.iter().flatten().find(|path| !is_text(path) || !path.starts_with('/')) {
            Some(path) => no_one("cgroup: these are paths from '/'", &path.escape_debug()),
            None => Ok(()),
        }
    }

    /// Returns whether any event can be recorded into this channel.
    pub(crate) fn is_on(&self, channel: &Channel) -> bool {
        let Tracked { pids, uids, gids, names, cgroups, .. } = &self.tracked;
        let nobody = [pids, uids, gids].into_iter().flatten().any(Vec::is_empty)
            || [names, cgroups].into_iter().flatten().any(Vec::is_empty);
        !nobody && channel.is_on()
    }

    /// Returns whether anything of this layer is recorded.
    pub(crate) fn records(&self, layer: LayerOf) -> bool {
        self.channels.iter().any(|channel| channel.layer == layer && self.is_on(channel))
    }

    /// Returns whether the layer's channel of the usual name records anything.
    pub(crate) fn is_default_on(&self, layer: LayerOf) -> bool {
        self.channel(layer, CHANNEL).is_some_and(|channel| self.is_on(channel))
    }

    /// Returns a channel's fixed options, such as sizes: those that do not change after its start.
    pub(crate) fn fixed(&self, channel: &Channel) -> Options {
        let size = channel.subbuf_size.or(self.subbuf_size);
        let number = channel.num_subbuf.or(self.num_subbuf);
        let default = Options::default();
        let of = match channel.layer {
            LayerOf::User if !self.transient.is_everyone() => BuffersOf::Program,
            LayerOf::User => BuffersOf::EveryProgram,
            LayerOf::Kernel => BuffersOf::Kernel,
        };
        Options {
            mode: match (self.snapshot, channel.mode) {
                (true, _) | (false, Some(Loss::Overwrite)) => LossMode::Overwrite,
                (false, Some(Loss::Discard) | None) => LossMode::Discard,
            },
            flush: channel.flush_ms.map_or(default.flush, Duration::from_millis),
            ..self.buffers(size, number).fitted(of)
        }
    }

    fn buffers(&self, size: Option<u64>, number: Option<u32>) -> Options {
        let all = Options {
            hold: self.snapshot,
            version: self.ctf(),
            vtid: !self.no_vtid,
            subbuf_bytes: size.unwrap_or(SUBBUF_BYTES),
            nr_subbufs: number.unwrap_or(NR_SUBBUFS),
            is_size_given: size.is_some() || number.is_some(),
            ..Options::default()
        };
        self.transient.of_whom(all)
    }

    /// Returns the CTF version of the metadata.
    pub(crate) fn ctf(&self) -> Version {
        match self.ctf2 {
            false => Version::One,
            true => Version::Two,
        }
    }

    /// Returns the channel of this layer and name.
    #[must_use]
    pub fn channel(&self, layer: LayerOf, name: &str) -> Option<&Channel> {
        self.channels.iter().find(|one| one.layer == layer && one.name == name)
    }
}

impl Channel {
    /// Returns whether the channel has an enabled rule that selects events.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.enabled && self.events.iter().any(|event| event.enabled && !event.is_exclusion())
    }

    /// # Errors
    /// The channel has more or longer texts than a message holds.
    fn check_size(&self) -> Result<(), PlanError> {
        at_most("rules of a channel", self.events.len(), RULES_MAX)?;
        for event in &self.events {
            for text in event.exclude.iter().chain(&event.filter).chain([&event.rule]) {
                at_most("bytes of a rule or filter", text.len(), TEXT_BYTES_MAX)?;
            }
        }
        Ok(())
    }
}

impl EventRule {
    /// Returns whether the rule excludes events from the whole channel.
    #[must_use]
    pub fn is_exclusion(&self) -> bool {
        self.rule.starts_with('!')
    }

    /// Returns whether the rule selects events by name, and so is neither a probe nor a sampler.
    fn is_selection(&self) -> bool {
        !self.probe && self.sample.is_none()
    }

    /// # Errors
    /// The bound for slow system calls is outside its limits, or the rule selects events without a duration.
    fn check_slower(&self) -> Result<(), PlanError> {
        let Some(slower_ns) = self.slower_ns else { return Ok(()) };
        let what = match SLOWER_NS.contains(&slower_ns) {
            false => "the bound of --slower is from 1us to 1h",
            true if !self.is_selection() => {
                "--slower is of system calls, and neither of probes nor of --sample"
            }
            true if self.is_exclusion() => "what excludes has no --slower",
            true => return Ok(()),
        };
        Err(PlanError::NoRule { rule: self.rule.clone(), what, near: String::new() })
    }

    /// Returns the share of the rule's records that is written.
    pub(crate) fn sampling(&self) -> Sampling {
        Sampling { every: self.every.unwrap_or(1), at_most: self.at_most.unwrap_or(0) }
    }

    /// # Errors
    /// The rule cannot record a sample of its events, or not this one.
    fn check_sampling(&self, layer: LayerOf) -> Result<(), PlanError> {
        let what = match (self.every, self.at_most) {
            (None, None) => return Ok(()),
            (Some(0), _) | (_, Some(0)) => "--every and --at-most are at least 1",
            _ if layer == LayerOf::User => {
                "--every and --at-most are of the kernel's events. Of programs' events, a filter records fewer"
            }
            _ if self.sample.is_some() => "--sample has a rate, and neither --every nor --at-most",
            _ if self.is_exclusion() => "what excludes has neither --every nor --at-most",
            _ => return Ok(()),
        };
        Err(PlanError::NoRule { rule: self.rule.clone(), what, near: String::new() })
    }

    /// # Errors
    /// The text is not exactly one valid rule. `ends_with_process`: see [`strata_kernel::uprobe::check`].
    fn parse(&self, layer: LayerOf, ends_with_process: bool) -> Result<(), PlanError> {
        if self.probe {
            return self.parse_probe(ends_with_process);
        }
        let texts: Vec<&str> =
            [&self.rule].into_iter().chain(&self.exclude).map(String::as_str).collect();
        let number = match layer {
            LayerOf::User => strata_user::Rules::parse(&texts)?.rules().len(),
            LayerOf::Kernel => {
                strata_kernel::event_rules::EventSelection::parse(&texts)?.rules().count()
            }
        };
        let has_twice = self.exclude.iter().any(|one| one.starts_with('!'));
        let what = match (number == texts.len(), self.is_exclusion()) {
            (false, _) => "it names several rules, separated by commas",
            (true, _) if has_twice => "what it excludes begins with '!'",
            (true, true) if self.filter.is_some() || !self.exclude.is_empty() => {
                "what excludes has no filter and no exclusion"
            }
            _ => return Ok(()),
        };
        Err(PlanError::NoRule { rule: self.rule.clone(), what, near: String::new() })
    }

    fn parse_probe(&self, ends_with_process: bool) -> Result<(), PlanError> {
        let rule = || self.rule.clone();
        let checked = strata_kernel::uprobe::check(&self.rule, ends_with_process);
        checked.map_err(|cause| PlanError::Probe { rule: rule(), cause: Box::new(cause) })?;
        let what = match (self.exclude.is_empty(), self.sample) {
            (false, _) => "a probe is one event, of which nothing is left out. Leave --exclude out",
            (true, Some(_)) => "it is a probe, or it asks what CPUs do. Use a rule for each",
            (true, None) => return Ok(()),
        };
        Err(PlanError::NoRule { rule: rule(), what, near: String::new() })
    }
}

/// Converts bytes to MiB, rounded up, for messages.
fn mib(bytes: &u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

fn at_most(what: &'static str, found: usize, limit: usize) -> Result<(), PlanError> {
    match found > limit {
        true => Err(PlanError::TooMany { what, found, limit }),
        false => Ok(()),
    }
}

fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_allowed) && !name.starts_with(['.', '-'])
}

fn check_name(name: &str) -> Result<(), PlanError> {
    match is_name(name) {
        false => Err(PlanError::Name(name.escape_debug().take(100).collect())),
        true if [USER, KERNEL].contains(&name) => Err(PlanError::Reserved(name.to_owned())),
        true => Ok(()),
    }
}

fn check_contexts(channel: &Channel) -> Result<(), PlanError> {
    at_most("contexts of a channel", channel.contexts.len(), CONTEXTS_MAX)?;
    for (index, name) in channel.contexts.iter().enumerate() {
        let known = match channel.layer {
            LayerOf::User => {
                EventContexts::parse(&[name]).map(drop).map_err(|error| error.to_string())
            }
            LayerOf::Kernel => {
                Contexts::parse(&[name]).map(drop).map_err(|error| error.to_string())
            }
        };
        known.map_err(PlanError::NoContext)?;
        if channel.contexts[..index].contains(name) {
            return Err(PlanError::Nothing {
                what: "add-context",
                why: "the channel has this context",
            });
        }
    }
    // Every single context is valid here; only their number may be too large.
    match (channel.layer, Contexts::parse(&channel.contexts)) {
        (LayerOf::Kernel, Err(error)) => Err(PlanError::NoContext(error.to_string())),
        _ => Ok(()),
    }
}

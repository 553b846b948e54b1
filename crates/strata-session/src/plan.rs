//! What a session that stays records, as data: channels with their rules and contexts, whom it tracks, where its traces
//! go. It is JSON in files (`strata save`) and between commands and sessions.
//!
//! ```text
//! plan/change.rs   from one plan to the next
//! plan/lower.rs    what a channel asks of its layer
//! plan/names.rs    names that were perhaps meant
//! plan/triggers.rs what is done by itself, and when
//! ```

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_filter::Filter;
use strata_kernel::Contexts;
use strata_model::LossMode;
use strata_user::{possible_cpus, EventContexts};

use crate::options::{Options, OptionsError, Rotation, NR_SUBBUFS, RATE_MAX, SUBBUF_BYTES};
use crate::plan::tracked::Tracked;
use crate::report::{KERNEL, USER};
use crate::sizes::BuffersOf;

mod change;
mod lower;
mod names;
#[cfg(test)]
mod tests;
pub mod tracked;
mod triggers;

pub use change::{
    Change, ChannelChange, ChannelOf, ContextChange, DisableEvents, EnableEvents, Kind,
};
pub use triggers::{
    Action, Condition, How, Selection, Trigger, PAUSE, SILENCE_MIN, TRIGGERS_MAX, WORDS_MAX,
};

/// Contexts of a channel.
const CONTEXTS_MAX: usize = 32;

/// The version of this description.
pub const VERSION: u32 = 1;
/// The channel of a layer where none was named.
pub const CHANNEL: &str = "channel0";
/// Channels of a session.
pub const CHANNELS_MAX: usize = 32;
/// Rules of a channel.
pub const RULES_MAX: usize = 256;
/// Longest text of one rule, filter or name \[byte\].
pub const TEXT_BYTES_MAX: usize = 4096;
/// Of one kind, how many are tracked.
pub const TRACKED_MAX: usize = 256;
/// A plan as JSON: it has to fit a message \[byte\].
pub const PLAN_BYTES_MAX: usize = 24 << 10;

/// What a session records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`VERSION`].
    pub version: u32,
    /// Nothing is written but snapshots: a flight recorder.
    #[serde(default)]
    pub snapshot: bool,
    /// The kernel goes on recording when the session is killed.
    #[serde(default)]
    pub keep: bool,
    /// All records have the call stacks of who made them.
    #[serde(default)]
    pub stack: bool,
    /// The folder of its traces; `None`: a new one where the session was made.
    #[serde(default)]
    pub output: Option<PathBuf>,
    /// Its folder is in memory, and it goes on elsewhere once it is told to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<Settle>,
    /// When its trace is cut into parts.
    #[serde(default, skip_serializing_if = "Rotation::is_none")]
    pub rotation: Rotation,
    /// Of channels that say nothing else \[byte\].
    #[serde(default)]
    pub subbuf_size: Option<u64>,
    /// Of channels that say nothing else.
    #[serde(default)]
    pub num_subbuf: Option<u32>,
    /// What the buffers of all channels, of programs and the kernel, may take together \[byte\]; `None`: whatever they
    /// need.
    #[serde(default)]
    pub max_memory: Option<u64>,
    /// Sizes that an earlier report has asked for, of channels that say nothing else.
    #[serde(default)]
    pub advised: Vec<Advised>,
    /// In the order in which they were made.
    #[serde(default)]
    pub channels: Vec<Channel>,
    /// Whose events.
    #[serde(default)]
    pub tracked: Tracked,
    /// What it does by itself, in the order in which they were added.
    #[serde(default)]
    pub triggers: Vec<Trigger>,
}

/// What becomes of a trace that is held in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    /// Where its folder on the disk is made, by the time.
    pub folder: PathBuf,
    /// What it may take in memory until then \[byte\].
    pub size: u64,
}

/// Less of it is not worth its name \[byte\].
pub const SETTLE_BYTES_MIN: u64 = 1 << 20;

/// Sizes of a channel that an earlier report has asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advised {
    /// The layer that it is of.
    pub layer: LayerOf,
    /// Its name.
    pub channel: String,
    /// \[byte\]
    pub subbuf_size: u64,
    /// Of each stream.
    pub num_subbuf: u32,
}

/// Those who are recorded in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerOf {
    /// Applications.
    User,
    /// The kernel.
    Kernel,
}

/// What happens when the buffers are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// The new record is discarded.
    Discard,
    /// The oldest packet is overwritten.
    Overwrite,
}

/// Buffers of one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// Of its layer, no other one has it.
    pub name: String,
    /// The layer that it is of.
    pub layer: LayerOf,
    /// Is anything recorded into it?
    #[serde(default = "yes")]
    pub enabled: bool,
    /// `None`: discard; overwrite in a flight recorder.
    #[serde(default)]
    pub mode: Option<Loss>,
    /// Size of a sub-buffer \[byte\]; `None`: the session's.
    #[serde(default)]
    pub subbuf_size: Option<u64>,
    /// Sub-buffers of each stream; `None`: the session's.
    #[serde(default)]
    pub num_subbuf: Option<u32>,
    /// How often what is not yet a whole sub-buffer is written \[ms\]; `None`: once a second.
    #[serde(default)]
    pub flush_ms: Option<u64>,
    /// What each of its records has besides.
    #[serde(default)]
    pub contexts: Vec<String>,
    /// What is recorded.
    #[serde(default)]
    pub events: Vec<EventRule>,
}

/// One event rule of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRule {
    /// As `strata record -u` and `-k` take it; with `!` in front it excludes from the whole channel.
    pub rule: String,
    /// Which of its events; `None`: all.
    #[serde(default)]
    pub filter: Option<String>,
    /// What of its events is left out, as rules without `!`.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Its records have the call stacks of who made them; of the kernel.
    #[serde(default, skip_serializing_if = "is_not")]
    pub stack: bool,
    /// It selects no event, but asks what CPUs do, so many times in a second; of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<u32>,
    /// It is a probe of a program or library, as `strata record --probe` takes it, with a path from `/` on; of the
    /// kernel.
    #[serde(default, skip_serializing_if = "is_not")]
    pub probe: bool,
    /// Does it select anything?
    #[serde(default = "yes")]
    pub enabled: bool,
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_not(it: &bool) -> bool {
    !it
}

/// Why there is no such plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Of a later version.
    #[error("plan: version {found}, and this is {VERSION}. Was it made by a later strata?")]
    Version {
        /// What was found.
        found: u32,
    },
    /// No plan at all.
    #[error("plan: {0}")]
    Json(String),
    /// More than fits a message.
    #[error("plan: {bytes} bytes, at most {PLAN_BYTES_MAX}. Use '*' to say more with less")]
    TooLarge {
        /// As JSON.
        bytes: usize,
    },
    /// A name that is none.
    #[error(
        "channel '{0}': not a name. Use 1 to 64 of A-Z a-z 0-9 . _ -, and none of . and - first"
    )]
    Name(String),
    /// A name that is the folder of a layer.
    #[error("channel '{0}': traces of the layer are in a folder of this name. Use another one")]
    Reserved(String),
    /// Two of one name.
    #[error("channel '{0}': there are two in one layer")]
    Twice(String),
    /// More than are possible.
    #[error("{what}: {found}, at most {limit}")]
    TooMany {
        /// What there are too many of, such as rules.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A rotation or a rate that is none.
    #[error(transparent)]
    Options(OptionsError),
    /// What only the kernel's rules have.
    #[error("event rule '{0}': --stack and --sample of one rule, and probes, are the kernel's (-k). For programs, use `strata add-context -u -t callstack_user`")]
    OfKernel(String),
    /// A probe that is none.
    #[error("event rule '{}': {cause}", rule.escape_debug().take(100).collect::<String>())]
    Probe {
        /// As it was written.
        rule: String,
        /// What is wrong with it.
        #[source]
        cause: Box<strata_kernel::uprobe::ProbeError>,
    },
    /// What ends with the session's process does not go on.
    #[error(
        "event rule '{}': a probe of a program ends when the session is killed, and what is recorded with --keep goes on. Use a \
         session without --keep",
        .0.escape_debug().take(100).collect::<String>()
    )]
    ProbeEnds(String),
    /// What is to be held in memory cannot be.
    #[error("settle: {0}")]
    Settle(&'static str),
    /// More memory than there may be.
    #[error(
        "channel '{channel}': its buffers need at least {} MiB for one program, or for the kernel, those of the other \
         channels {} MiB, and --max-memory allows {} MiB. Use smaller or fewer sub-buffers, or another session",
        mib(.bytes), mib(.planned), mib(.max)
    )]
    Memory {
        /// The channel's name.
        channel: String,
        /// What they need \[byte\].
        bytes: u64,
        /// What channels before it need \[byte\].
        planned: u64,
        /// What there may be \[byte\].
        max: u64,
    },
    /// Nothing overwrites what is held.
    #[error("channel '{0}': a flight recorder (--snapshot) overwrites the oldest records. Leave out --discard")]
    Discards(String),
    /// A size that is none.
    #[error("channel '{channel}': {why}")]
    Sizes {
        /// The channel's name.
        channel: String,
        /// What is wrong with it.
        #[source]
        why: OptionsError,
    },
    /// A rule for applications that is none.
    #[error(transparent)]
    UserRule(#[from] strata_user::RuleError),
    /// A rule for the kernel that is none.
    #[error(transparent)]
    KernelRule(#[from] strata_kernel::selection::SelectionError),
    /// A filter that is none.
    #[error("filter: {0}")]
    Filter(#[from] strata_filter::ParseError),
    /// One that cannot be asked in programs.
    #[error(transparent)]
    Program(#[from] strata_user::FilterError),
    /// One that nothing passes.
    #[error("filter '{0}': no event can pass it")]
    NothingPasses(String),
    /// No such channel.
    #[error("channel '{name}': the {layer} layer has none of this name{near}")]
    NoChannel {
        /// What was asked for.
        name: String,
        /// Of which layer.
        layer: &'static str,
        /// What was perhaps meant.
        near: String,
    },
    /// Which of several?
    #[error("the {layer} layer has the channels {names}: use -c to say which")]
    WhichChannel {
        /// Of which layer.
        layer: &'static str,
        /// All of them.
        names: String,
    },
    /// No such rule.
    #[error("event rule '{rule}': {what}{near}")]
    NoRule {
        /// What was asked for.
        rule: String,
        /// What there is instead.
        what: &'static str,
        /// What was perhaps meant.
        near: String,
    },
    /// Nothing to do.
    #[error("{what}: {why}")]
    Nothing {
        /// The command that would change nothing.
        what: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// No such context.
    #[error("{0}")]
    NoContext(String),
    /// Nobody can be taken away from all.
    #[error("untrack: no single {0} can be taken away: each is tracked. Use `strata track` for those that are to be recorded")]
    AllTracked(&'static str),
    /// Not one of those.
    #[error("untrack: {what} {value} is not tracked")]
    NotTracked {
        /// Which kind.
        what: &'static str,
        /// The number, name or cgroup, as it was typed.
        value: String,
    },
    /// A trigger that is none.
    #[error("trigger '{name}': {why}")]
    Trigger {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// No process, user, group, name or cgroup.
    #[error("track: '{value}' is no {what}")]
    NoOne {
        /// Which kind.
        what: &'static str,
        /// What was asked for.
        value: String,
    },
}

impl LayerOf {
    /// As folders and messages call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LayerOf::User => USER,
            LayerOf::Kernel => KERNEL,
        }
    }
}

impl Plan {
    /// That records nothing yet.
    #[must_use]
    pub fn new(snapshot: bool, output: Option<PathBuf>) -> Plan {
        Plan {
            version: VERSION,
            snapshot,
            keep: false,
            stack: false,
            output,
            settle: None,
            rotation: Rotation::default(),
            subbuf_size: None,
            num_subbuf: None,
            max_memory: None,
            advised: Vec::new(),
            channels: Vec::new(),
            tracked: Tracked::default(),
            triggers: Vec::new(),
        }
    }

    /// From JSON, which may be anything.
    ///
    /// # Errors
    /// [`PlanError`]: the first thing that is wrong.
    pub fn from_json(text: &str) -> Result<Plan, PlanError> {
        if text.len() > 4 * PLAN_BYTES_MAX {
            return Err(PlanError::TooLarge { bytes: text.len() });
        }
        let plan: Plan =
            serde_json::from_str(text).map_err(|error| PlanError::Json(error.to_string()))?;
        plan.check()?;
        Ok(plan)
    }

    /// As JSON, for people too.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Is all of it possible, as far as that can be known without asking the kernel or a program?
    ///
    /// # Errors
    /// The first thing that is not.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.version != VERSION {
            return Err(PlanError::Version { found: self.version });
        }
        let rotation =
            Options { hold: self.snapshot, rotation: self.rotation, ..Options::default() };
        rotation.check().map_err(PlanError::Options)?;
        self.check_settle()?;
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
        let bytes = serde_json::to_string(self).map_or(usize::MAX, |text| text.len());
        match bytes > PLAN_BYTES_MAX {
            true => Err(PlanError::TooLarge { bytes }),
            false => Ok(()),
        }
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

    fn check_channel(&self, channel: &Channel) -> Result<(), PlanError> {
        if self.snapshot && channel.mode == Some(Loss::Discard) {
            return Err(PlanError::Discards(channel.name.clone()));
        }
        at_most("rules of a channel", channel.events.len(), RULES_MAX)?;
        for event in &channel.events {
            let texts = event.exclude.iter().chain(&event.filter).chain([&event.rule]);
            for text in texts {
                at_most("bytes of a rule or filter", text.len(), TEXT_BYTES_MAX)?;
            }
            if let Some(filter) = &event.filter {
                Filter::parse(filter)?;
            }
            let of_kernel = event.stack || event.sample.is_some() || event.probe;
            if channel.layer == LayerOf::User && of_kernel {
                return Err(PlanError::OfKernel(event.rule.clone()));
            }
            if self.keep && event.probe {
                return Err(PlanError::ProbeEnds(event.rule.clone()));
            }
            if let Some(found) = event.sample.filter(|rate| !(1..=RATE_MAX).contains(rate)) {
                return Err(PlanError::Options(OptionsError::Rate { found }));
            }
            event.parse(channel.layer)?;
        }
        check_contexts(channel)?;
        let options = self.fixed(channel);
        let sizes = options.check();
        sizes.map_err(|why| PlanError::Sizes { channel: channel.name.clone(), why })?;
        // What can be asked of the layer is asked now.
        self.options_of(channel).map(drop)
    }

    /// Of each channel that is on, the buffers of one program, or those of the kernel.
    fn check_memory(&self) -> Result<(), PlanError> {
        at_most("advised sizes", self.advised.len(), 2 * CHANNELS_MAX)?;
        let Some(max) = self.max_memory else { return Ok(()) };
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
        let Tracked { pids, uids, gids, names, cgroups } = &self.tracked;
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

    /// Is anything recorded into this channel?
    pub(crate) fn is_on(&self, channel: &Channel) -> bool {
        let Tracked { pids, uids, gids, names, cgroups } = &self.tracked;
        let nobody = [pids, uids, gids].into_iter().flatten().any(Vec::is_empty)
            || [names, cgroups].into_iter().flatten().any(Vec::is_empty);
        !nobody && channel.is_on()
    }

    /// A channel's sizes and the like: what stays as it is from its start on.
    pub(crate) fn fixed(&self, channel: &Channel) -> Options {
        let advised = self
            .advised
            .iter()
            .find(|one| (one.layer, &one.channel) == (channel.layer, &channel.name));
        let (size, number) = match (channel.subbuf_size, channel.num_subbuf, advised) {
            (None, None, Some(advised)) => (Some(advised.subbuf_size), Some(advised.num_subbuf)),
            (size, number, _) => (size.or(self.subbuf_size), number.or(self.num_subbuf)),
        };
        let default = Options::default();
        let of = match channel.layer {
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
        Options {
            hold: self.snapshot,
            subbuf_bytes: size.unwrap_or(SUBBUF_BYTES),
            nr_subbufs: number.unwrap_or(NR_SUBBUFS),
            is_size_given: size.is_some() || number.is_some(),
            everyone: true,
            ..Options::default()
        }
    }

    /// The channel of this name.
    #[must_use]
    pub fn channel(&self, layer: LayerOf, name: &str) -> Option<&Channel> {
        self.channels.iter().find(|one| one.layer == layer && one.name == name)
    }
}

impl Channel {
    /// Does it select anything, as it is?
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.enabled && self.events.iter().any(|event| event.enabled && !event.is_exclusion())
    }
}

impl EventRule {
    /// Does it take away from the whole channel?
    #[must_use]
    pub fn is_exclusion(&self) -> bool {
        self.rule.starts_with('!')
    }

    /// Does it select of what the layer has, by names?
    fn is_selection(&self) -> bool {
        !self.probe && self.sample.is_none()
    }

    /// # Errors
    /// It is none, or several.
    fn parse(&self, layer: LayerOf) -> Result<(), PlanError> {
        if self.probe {
            return self.parse_probe();
        }
        let texts: Vec<&str> =
            [&self.rule].into_iter().chain(&self.exclude).map(String::as_str).collect();
        let number = match layer {
            LayerOf::User => strata_user::Rules::parse(&texts)?.rules().len(),
            LayerOf::Kernel => {
                strata_kernel::selection::EventSelection::parse(&texts)?.rules().count()
            }
        };
        let has_twice = self.exclude.iter().any(|one| one.starts_with('!'));
        let what = match (number == texts.len(), self.is_exclusion()) {
            (false, _) => "it is several, separated by commas",
            (true, _) if has_twice => "what it excludes begins with '!'",
            (true, true) if self.filter.is_some() || !self.exclude.is_empty() => {
                "what excludes has no filter and no exclusion"
            }
            _ => return Ok(()),
        };
        Err(PlanError::NoRule { rule: self.rule.clone(), what, near: String::new() })
    }

    fn parse_probe(&self) -> Result<(), PlanError> {
        let rule = || self.rule.clone();
        let checked = strata_kernel::uprobe::check(&self.rule);
        checked.map_err(|cause| PlanError::Probe { rule: rule(), cause: Box::new(cause) })?;
        let what = match (self.exclude.is_empty(), self.sample) {
            (false, _) => "a probe is one event, of which nothing is left out. Leave --exclude out",
            (true, Some(_)) => "it is a probe, or it asks what CPUs do. Use a rule for each",
            (true, None) => return Ok(()),
        };
        Err(PlanError::NoRule { rule: rule(), what, near: String::new() })
    }
}

/// Rounded up, as a message has it.
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
    // Each is one; there may be too many of them.
    match (channel.layer, Contexts::parse(&channel.contexts)) {
        (LayerOf::Kernel, Err(error)) => Err(PlanError::NoContext(error.to_string())),
        _ => Ok(()),
    }
}

//! Changes of a plan. Each is a pure function from plan to plan, and its result is checked.

use serde::{Deserialize, Serialize};
use strata_kernel::filter::cgroup::likeness;
use strata_kernel::uprobe::name_of;
use strata_kernel::CallStacks;

use super::names::near;
use super::{Channel, EventRule, LayerOf, Loss, Plan, PlanError, Trigger, CHANNEL};
use crate::options::Rotation;
use crate::plan::tracked::Tracked;

/// A change of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// Replaces the whole plan except its output, as long as nothing was recorded.
    Replace(Box<Plan>),
    /// Creates a channel, or enables a disabled one.
    EnableChannel(ChannelChange),
    /// Disables a channel: nothing is recorded into it any longer.
    DisableChannel(ChannelOf),
    /// Adds events to a channel.
    EnableEvent(EnableEvents),
    /// Removes events from a channel.
    DisableEvent(DisableEvents),
    /// Adds contexts to the records of a channel.
    AddContext(ContextChange),
    /// Adds a trigger.
    AddTrigger(Box<Trigger>),
    /// Removes a trigger by its name.
    RemoveTrigger(String),
    /// Sets conditions of automatic rotation. Conditions that are `None` stay as they are.
    EnableRotation(Rotation),
    /// Removes these conditions of automatic rotation.
    DisableRotation(Vec<RotationBy>),
    /// Adds processes to the tracked ones. A property by which all processes were tracked so far is then restricted
    /// to the added values.
    Track(Tracked),
    /// Removes processes from the tracked ones.
    Untrack(Tracked),
    /// Removes the restrictions by these properties, so that they exclude no process.
    TrackAll(Vec<Kind>),
    /// Excludes every process by these properties.
    UntrackAll(Vec<Kind>),
    /// Makes all of these changes in order, or none. Must not contain another [`Change::Several`].
    Several(Vec<Change>),
}

/// A property by which processes are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Tracking by process number.
    Pids,
    /// Tracking by user.
    Uids,
    /// Tracking by group.
    Gids,
    /// Tracking by name.
    Names,
    /// Tracking by cgroup.
    Cgroups,
}

/// A condition of automatic rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RotationBy {
    /// The size of a chunk.
    Size,
    /// The time of a chunk.
    Time,
    /// The number of chunks to keep.
    Count,
}

/// A channel of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelOf {
    /// The channel's layer.
    pub layer: LayerOf,
    /// The channel's name within its layer.
    pub channel: String,
}

/// A channel to create or enable, with its sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelChange {
    /// The channel's layer.
    pub layer: LayerOf,
    /// The channel's name within its layer.
    pub channel: String,
    /// The loss mode, see [`Channel::mode`]. For this and the following fields, `None` keeps the present value, or
    /// takes the default for a new channel.
    #[serde(default)]
    pub mode: Option<Loss>,
    /// Size of a sub-buffer, see [`Channel::subbuf_size`].
    #[serde(default)]
    pub subbuf_size: Option<u64>,
    /// Number of sub-buffers, see [`Channel::num_subbuf`].
    #[serde(default)]
    pub num_subbuf: Option<u32>,
    /// Period of flushing, see [`Channel::flush_ms`].
    #[serde(default)]
    pub flush_ms: Option<u64>,
}

/// Rules to enable, and the properties that they share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnableEvents {
    /// The layer of the channel that gets the rules.
    pub layer: LayerOf,
    /// The channel that gets the rules; `None` for the only channel of the layer, or [`CHANNEL`].
    #[serde(default)]
    pub channel: Option<String>,
    /// The rules, one in each text.
    pub rules: Vec<String>,
    /// The filter, see [`EventRule::filter`].
    #[serde(default)]
    pub filter: Option<String>,
    /// The exclusions, see [`EventRule::exclude`].
    #[serde(default)]
    pub exclude: Vec<String>,
    /// The call stacks of the records, see [`EventRule::stack`].
    #[serde(default)]
    pub stack: CallStacks,
    /// The rate of samples \[Hz\], see [`EventRule::sample`].
    #[serde(default)]
    pub sample: Option<u32>,
    /// True for a probe, see [`EventRule::probe`].
    #[serde(default)]
    pub probe: bool,
    /// The least duration of system calls \[ns\], see [`EventRule::slower_ns`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower_ns: Option<u64>,
    /// The share of the events that is recorded, see [`EventRule::every`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u32>,
    /// The number of events that are recorded in a second, see [`EventRule::at_most`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u32>,
}

/// Rules to disable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisableEvents {
    /// The layer of the channel.
    pub layer: LayerOf,
    /// The channel; `None` for the only channel of the layer, or [`CHANNEL`].
    #[serde(default)]
    pub channel: Option<String>,
    /// The rules to disable, as the user wrote them. Probes may also be given by the names of their events. Empty
    /// for all rules of the channel.
    #[serde(default)]
    pub rules: Vec<String>,
}

/// Contexts to add to the records of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextChange {
    /// The layer of the channel.
    pub layer: LayerOf,
    /// The channel; `None` for all channels of the layer.
    #[serde(default)]
    pub channel: Option<String>,
    /// Names of the contexts.
    pub contexts: Vec<String>,
}

impl Change {
    /// Returns the single changes: the parts of [`Change::Several`], or this change.
    #[must_use]
    pub fn each(&self) -> &[Change] {
        match self {
            Change::Several(all) => all,
            one => std::slice::from_ref(one),
        }
    }
}

impl Plan {
    /// Returns the plan after this change. `self` is not modified.
    ///
    /// # Errors
    /// Why the change is not possible.
    pub fn changed(&self, change: &Change) -> Result<Plan, PlanError> {
        let mut plan = self.clone();
        for one in change.each() {
            plan.change(one)?;
        }
        plan.check()?;
        Ok(plan)
    }

    fn change(&mut self, change: &Change) -> Result<(), PlanError> {
        let plan = self;
        match change {
            Change::Replace(other) => {
                let stack = plan.stack.max(other.stack);
                let (snapshot, keep, output) = (plan.snapshot, plan.keep, plan.output.take());
                let (rotation, retention) = (plan.rotation, plan.retention);
                let (max_memory, min_free, ctf2) = (plan.max_memory, plan.min_free, plan.ctf2);
                let (group_snapshots, to) = (plan.group_snapshots.take(), plan.to.take());
                let transient = std::mem::take(&mut plan.transient);
                let other = Plan::clone(other);
                *plan = Plan {
                    snapshot,
                    keep,
                    stack,
                    output,
                    to,
                    rotation,
                    retention,
                    max_memory,
                    min_free,
                    ctf2,
                    group_snapshots,
                    transient,
                    ..other
                };
            }
            Change::EnableChannel(asked) => plan.enable_channel(asked),
            Change::DisableChannel(of) => plan.named(of.layer, &of.channel)?.enabled = false,
            Change::EnableEvent(asked) => plan.enable_events(asked)?,
            Change::DisableEvent(asked) => plan.disable_events(asked)?,
            Change::AddContext(asked) => plan.add_contexts(asked)?,
            Change::AddTrigger(trigger) => plan.triggers.push(Trigger::clone(trigger)),
            Change::RemoveTrigger(name) => plan.remove_trigger(name)?,
            Change::EnableRotation(asked) => plan.enable_rotation(*asked)?,
            Change::DisableRotation(conditions) => {
                for condition in conditions {
                    match condition {
                        RotationBy::Size => plan.rotation.size = None,
                        RotationBy::Time => plan.rotation.time_ms = None,
                        RotationBy::Count => plan.rotation.count = None,
                    }
                }
            }
            Change::Track(tracked) => {
                let all = &mut plan.tracked;
                add(&mut all.pids, tracked.pids.as_deref());
                add(&mut all.uids, tracked.uids.as_deref());
                add(&mut all.gids, tracked.gids.as_deref());
                add(&mut all.names, tracked.names.as_deref());
                add(&mut all.cgroups, tracked.cgroups.as_deref());
                all.with_machine |= tracked.with_machine;
            }
            Change::Untrack(tracked) => {
                let all = &mut plan.tracked;
                remove("process", &mut all.pids, tracked.pids.as_deref())?;
                remove("user", &mut all.uids, tracked.uids.as_deref())?;
                remove("group", &mut all.gids, tracked.gids.as_deref())?;
                remove("name", &mut all.names, tracked.names.as_deref())?;
                let called = tracked.cgroups.as_ref().map(|names| called(names, &all.cgroups));
                remove("cgroup", &mut all.cgroups, called.as_deref())?;
            }
            Change::TrackAll(kinds) => kinds.iter().for_each(|kind| plan.track(*kind, false)),
            Change::UntrackAll(kinds) => kinds.iter().for_each(|kind| plan.track(*kind, true)),
            Change::Several(_) => {
                return Err(PlanError::Nothing { what: "several", why: "one of them is several" });
            }
        }
        Ok(())
    }

    fn enable_rotation(&mut self, asked: Rotation) -> Result<(), PlanError> {
        let why = match () {
            () if asked.is_none() => "no size, no time and no number of parts was given",
            () if self.snapshot => {
                "a flight recorder writes nothing but snapshots, and nothing is rotated"
            }
            () if self.transient.relay.is_some() => "the trace goes to a relay in one piece",
            () if !self.transient.guests.is_empty() => {
                "a guest is recorded, whose traces are written in one piece"
            }
            () => {
                let had = self.rotation;
                self.rotation = Rotation {
                    size: asked.size.or(had.size),
                    time_ms: asked.time_ms.or(had.time_ms),
                    count: asked.count.or(had.count),
                };
                return Ok(());
            }
        };
        Err(PlanError::Nothing { what: "enable-rotation", why })
    }

    fn track(&mut self, kind: Kind, none: bool) {
        let all = &mut self.tracked;
        match kind {
            Kind::Pids => all.pids = none.then(Vec::new),
            Kind::Uids => all.uids = none.then(Vec::new),
            Kind::Gids => all.gids = none.then(Vec::new),
            Kind::Names => all.names = none.then(Vec::new),
            Kind::Cgroups => all.cgroups = none.then(Vec::new),
        }
    }

    fn enable_channel(&mut self, asked: &ChannelChange) {
        let found = self.found(asked.layer, &asked.channel);
        let channel = match found {
            Some(index) => &mut self.channels[index],
            None => self.made(asked.layer, &asked.channel),
        };
        channel.enabled = true;
        channel.mode = asked.mode.or(channel.mode);
        channel.subbuf_size = asked.subbuf_size.or(channel.subbuf_size);
        channel.num_subbuf = asked.num_subbuf.or(channel.num_subbuf);
        channel.flush_ms = asked.flush_ms.or(channel.flush_ms);
    }

    fn enable_events(&mut self, asked: &EnableEvents) -> Result<(), PlanError> {
        if asked.rules.is_empty() {
            return Err(PlanError::Nothing { what: "enable-event", why: "no rule was given" });
        }
        let channel = self.meant(asked.layer, asked.channel.as_deref())?;
        for rule in &asked.rules {
            let wanted = EventRule {
                rule: rule.clone(),
                filter: asked.filter.clone(),
                exclude: asked.exclude.clone(),
                stack: asked.stack,
                sample: asked.sample,
                probe: asked.probe,
                slower_ns: asked.slower_ns,
                every: asked.every,
                at_most: asked.at_most,
                enabled: true,
            };
            let is_same = |one: &EventRule| EventRule { enabled: true, ..one.clone() } == wanted;
            // A disabled rule with the same text is removed when an enabled one is added.
            channel.events.retain(|one| one.enabled || one.rule != *rule || is_same(one));
            // A channel has only one rate of samples.
            if asked.sample.is_some() {
                channel.events.retain(|one| one.sample.is_none() || is_same(one));
            }
            match channel.events.iter_mut().find(|one| is_same(one)) {
                Some(one) => one.enabled = true,
                None => channel.events.push(wanted),
            }
        }
        Ok(())
    }

    fn disable_events(&mut self, asked: &DisableEvents) -> Result<(), PlanError> {
        if self.channels.iter().all(|one| one.layer != asked.layer) {
            let why = "the layer has no channel, and no rule";
            return Err(PlanError::Nothing { what: "disable-event", why });
        }
        let channel = self.meant(asked.layer, asked.channel.as_deref())?;
        if asked.rules.is_empty() {
            channel.events.iter_mut().for_each(|one| one.enabled = false);
        }
        for rule in &asked.rules {
            let is_written = |one: &EventRule| one.rule == *rule;
            let is_named = |one: &EventRule| one.probe && name_of(&one.rule) == Some(rule.as_str());
            let ways: [&dyn Fn(&EventRule) -> bool; 2] = [&is_written, &is_named];
            // Only enabled rules can be meant, since a disabled rule may have the same name.
            let on = || channel.events.iter().filter(|one| one.enabled);
            let meant = ways.into_iter().find(|is_it| on().any(is_it));
            if let Some(is_it) = meant {
                channel
                    .events
                    .iter_mut()
                    .filter(|one| is_it(one))
                    .for_each(|one| one.enabled = false);
            } else if !channel.events.iter().any(|one| is_written(one) || is_named(one)) {
                return Err(PlanError::NoRule {
                    rule: rule.escape_debug().take(100).collect(),
                    what: "the channel has no such rule. Rules are named as they were enabled",
                    near: near(rule, channel.events.iter().map(|one| one.rule.as_str())),
                });
            }
        }
        Ok(())
    }

    fn add_contexts(&mut self, asked: &ContextChange) -> Result<(), PlanError> {
        if asked.contexts.is_empty() {
            return Err(PlanError::Nothing { what: "add-context", why: "no context was given" });
        }
        let has_some = self.channels.iter().any(|one| one.layer == asked.layer);
        match (&asked.channel, has_some) {
            (None, true) => {
                for channel in self.channels.iter_mut().filter(|one| one.layer == asked.layer) {
                    channel.contexts.extend(asked.contexts.iter().cloned());
                }
            }
            (name, _) => {
                let channel = self.meant(asked.layer, name.as_deref())?;
                channel.contexts.extend(asked.contexts.iter().cloned());
            }
        }
        Ok(())
    }

    fn found(&self, layer: LayerOf, name: &str) -> Option<usize> {
        self.channels.iter().position(|one| one.layer == layer && one.name == name)
    }

    fn made(&mut self, layer: LayerOf, name: &str) -> &mut Channel {
        let made = Channel {
            name: name.to_owned(),
            layer,
            enabled: true,
            mode: None,
            subbuf_size: None,
            num_subbuf: None,
            flush_ms: None,
            contexts: Vec::new(),
            events: Vec::new(),
        };
        self.channels.push(made);
        let last = self.channels.len() - 1;
        &mut self.channels[last]
    }

    /// # Errors
    /// The layer has no channel of this name.
    fn named(&mut self, layer: LayerOf, name: &str) -> Result<&mut Channel, PlanError> {
        match self.found(layer, name) {
            Some(index) => Ok(&mut self.channels[index]),
            None => {
                let of_layer = self.channels.iter().filter(|one| one.layer == layer);
                Err(PlanError::NoChannel {
                    name: name.escape_debug().take(100).collect(),
                    layer: layer.name(),
                    near: near(name, of_layer.map(|one| one.name.as_str())),
                })
            }
        }
    }

    /// Returns the channel of this name; without a name, [`CHANNEL`] or the only channel of the layer. Creates the
    /// first channel of a layer.
    ///
    /// # Errors
    /// There is no channel of this name, or there are several and none was named.
    fn meant(&mut self, layer: LayerOf, name: Option<&str>) -> Result<&mut Channel, PlanError> {
        let names: Vec<String> = self
            .channels
            .iter()
            .filter(|one| one.layer == layer)
            .map(|one| one.name.clone())
            .collect();
        match (name, &names[..]) {
            (None, []) => Ok(self.made(layer, CHANNEL)),
            (Some(CHANNEL), []) => Ok(self.made(layer, CHANNEL)),
            (Some(name), _) => self.named(layer, name),
            (None, [only]) => self.named(layer, only),
            (None, several) if several.iter().any(|one| one == CHANNEL) => {
                self.named(layer, CHANNEL)
            }
            (None, several) => {
                Err(PlanError::WhichChannel { layer: layer.name(), names: several.join(", ") })
            }
        }
    }
}

fn add<T: Clone + PartialEq>(all: &mut Option<Vec<T>>, more: Option<&[T]>) {
    let Some(more) = more else { return };
    let all = all.get_or_insert_default();
    for one in more {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
}

/// Replaces names of cgroups by those tracked paths that end in them; the cgroups need not exist. A name that
/// fits no path, or several paths equally well, stays.
fn called(names: &[String], tracked: &Option<Vec<String>>) -> Vec<String> {
    let path_of = |name: &String| {
        let like = |path: &&String| likeness(path, name);
        let best = tracked.iter().flatten().filter_map(|path| like(&path)).min()?;
        let mut alike = tracked.iter().flatten().filter(|path| like(path) == Some(best));
        alike.next().filter(|_| alike.next().is_none())
    };
    names.iter().map(|name| path_of(name).unwrap_or(name).clone()).collect()
}

fn remove<T: Clone + PartialEq + ToString>(
    what: &'static str,
    all: &mut Option<Vec<T>>,
    fewer: Option<&[T]>,
) -> Result<(), PlanError> {
    let Some(fewer) = fewer else { return Ok(()) };
    let Some(all) = all else { return Err(PlanError::AllTracked(what)) };
    for one in fewer {
        let Some(index) = all.iter().position(|other| other == one) else {
            let value = one.to_string().escape_debug().take(100).collect();
            return Err(PlanError::NotTracked { what, value });
        };
        all.remove(index);
    }
    Ok(())
}

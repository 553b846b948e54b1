//! From one plan to the next: each change is a pure function, and what comes out of it is checked.

use serde::{Deserialize, Serialize};
use strata_kernel::filter::cgroup::likeness;
use strata_kernel::uprobe::name_of;

use super::names::near;
use super::{Advised, Channel, EventRule, LayerOf, Loss, Plan, PlanError, Trigger, CHANNEL};
use crate::plan::tracked::Tracked;

/// What is to be recorded instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// All of it, but for where it goes: as long as nothing was recorded.
    Replace(Box<Plan>),
    /// A new channel, or one that is there again.
    EnableChannel(ChannelChange),
    /// Nothing goes into this channel.
    DisableChannel(ChannelOf),
    /// Sizes that an earlier report has asked for, of channels that say nothing else: as long as nothing was recorded.
    Advise(Vec<Advised>),
    /// More events.
    EnableEvent(EnableEvents),
    /// Fewer events.
    DisableEvent(DisableEvents),
    /// More in each record.
    AddContext(ContextChange),
    /// Something more is done by itself.
    AddTrigger(Box<Trigger>),
    /// This one is not there any more.
    RemoveTrigger(String),
    /// Of each kind that is named, these too, and of all others of the kind nothing.
    Track(Tracked),
    /// Of each kind that is named, not these any more.
    Untrack(Tracked),
    /// Of these kinds, all.
    TrackAll(Vec<Kind>),
    /// Of these kinds, none.
    UntrackAll(Vec<Kind>),
    /// All of these, one after the other, or none; none of them is several.
    Several(Vec<Change>),
}

/// By what processes are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Their number.
    Pids,
    /// Their user.
    Uids,
    /// Their group.
    Gids,
    /// Their name.
    Names,
    /// Their cgroup.
    Cgroups,
}

/// A channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelOf {
    /// The layer that it is of.
    pub layer: LayerOf,
    /// Its name in that layer.
    pub channel: String,
}

/// A channel and its sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelChange {
    /// The layer that it is of.
    pub layer: LayerOf,
    /// Its name in that layer.
    pub channel: String,
    /// See [`Channel::mode`]; `None`: as it is, or the default. The same of all others.
    #[serde(default)]
    pub mode: Option<Loss>,
    /// See [`Channel::subbuf_size`].
    #[serde(default)]
    pub subbuf_size: Option<u64>,
    /// See [`Channel::num_subbuf`].
    #[serde(default)]
    pub num_subbuf: Option<u32>,
    /// See [`Channel::flush_ms`].
    #[serde(default)]
    pub flush_ms: Option<u64>,
}

/// Rules, and what they have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnableEvents {
    /// The layer that it is of.
    pub layer: LayerOf,
    /// Into which; `None`: the layer's only one, or [`CHANNEL`].
    #[serde(default)]
    pub channel: Option<String>,
    /// Each one rule.
    pub rules: Vec<String>,
    /// See [`EventRule::filter`].
    #[serde(default)]
    pub filter: Option<String>,
    /// See [`EventRule::exclude`].
    #[serde(default)]
    pub exclude: Vec<String>,
    /// See [`EventRule::stack`].
    #[serde(default)]
    pub stack: bool,
    /// See [`EventRule::sample`].
    #[serde(default)]
    pub sample: Option<u32>,
    /// See [`EventRule::probe`].
    #[serde(default)]
    pub probe: bool,
}

/// Rules that select nothing any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisableEvents {
    /// The layer that it is of.
    pub layer: LayerOf,
    /// Of which; `None`: the layer's only one, or [`CHANNEL`].
    #[serde(default)]
    pub channel: Option<String>,
    /// As they were written, probes also by the names that were given to their events; empty: all of the channel.
    #[serde(default)]
    pub rules: Vec<String>,
}

/// What each record has besides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextChange {
    /// The layer that it is of.
    pub layer: LayerOf,
    /// Of which; `None`: all of the layer.
    #[serde(default)]
    pub channel: Option<String>,
    /// Their names.
    pub contexts: Vec<String>,
}

impl Change {
    /// One by one.
    #[must_use]
    pub fn each(&self) -> &[Change] {
        match self {
            Change::Several(all) => all,
            one => std::slice::from_ref(one),
        }
    }
}

impl Plan {
    /// The plan after this change; this one stays.
    ///
    /// # Errors
    /// Why there is none.
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
                let stack = plan.stack || other.stack;
                let (snapshot, keep, output, rotation, max_memory) =
                    (plan.snapshot, plan.keep, plan.output.take(), plan.rotation, plan.max_memory);
                let other = Plan::clone(other);
                *plan = Plan { snapshot, keep, stack, output, rotation, max_memory, ..other };
            }
            Change::Advise(advised) => plan.advised.clone_from(advised),
            Change::EnableChannel(asked) => plan.enable_channel(asked),
            Change::DisableChannel(of) => plan.named(of.layer, &of.channel)?.enabled = false,
            Change::EnableEvent(asked) => plan.enable_events(asked)?,
            Change::DisableEvent(asked) => plan.disable_events(asked)?,
            Change::AddContext(asked) => plan.add_contexts(asked)?,
            Change::AddTrigger(trigger) => plan.triggers.push(Trigger::clone(trigger)),
            Change::RemoveTrigger(name) => plan.remove_trigger(name)?,
            Change::Track(tracked) => {
                let all = &mut plan.tracked;
                add(&mut all.pids, tracked.pids.as_deref());
                add(&mut all.uids, tracked.uids.as_deref());
                add(&mut all.gids, tracked.gids.as_deref());
                add(&mut all.names, tracked.names.as_deref());
                add(&mut all.cgroups, tracked.cgroups.as_deref());
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
                enabled: true,
            };
            let is_same = |one: &EventRule| EventRule { enabled: true, ..one.clone() } == wanted;
            // What is off, of the same name, is not kept beside what is on.
            channel.events.retain(|one| one.enabled || one.rule != *rule || is_same(one));
            // There is one rate.
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
            // What is off already may have the name of what is on, and is not meant.
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
    /// There is none of this name.
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

    /// The channel of this name; without one, [`CHANNEL`] or the only one there is. The first one is made here.
    ///
    /// # Errors
    /// There is none of this name, or several.
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

/// Of names of groups, which may be gone by now, the paths that are tracked; a name that means none of them, or several alike,
/// stays.
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

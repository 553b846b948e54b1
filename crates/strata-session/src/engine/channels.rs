//! The layers of a session's channels: a channel that selects something gets a layer when the session records, which then
//! follows the changes of its channel.
//!
//! ```text
//! change   checks the new plan, makes its triggers, applies it
//! apply    1. makes the layers of new channels, which record nothing yet
//!          2. tells the others what they are to record; if one refuses, those before it get their old request again
//!          3. adds the new ones, with which the command is started
//!          4. takes over the plan, and pauses or resumes each layer
//! ```

use std::ops::ControlFlow;
use std::sync::Arc;

use strata_collect::Keep;

use super::checks::{check_kernel_rules, check_probes};
use super::layers::LayerPlan;
use super::made_channel::MadeChannel;
use super::Engine;
use crate::daemon::persistent_kernel::PersistentChannel;
use crate::daemon::slot_file::ChannelSlots;
use crate::error::SessionError;
use crate::guest::GuestLayer;
use crate::kernel::default_events;
use crate::output::folder::below as output_below;
use crate::plan::{Change, Channel, ChannelOf, LayerOf, Plan, PlanError, CHANNEL};
use crate::record::launch::launch;
use crate::record::watched::Watched;
use crate::report::Notice;
use crate::session::layer::{Context, Inheritance, Layer, Wanted};
use crate::session::privileges::{keep_for, keep_for_later, Work};
use crate::session::state::SessionState;
use crate::session::stop::Stop;

impl Engine<'_> {
    /// Starts to record; without the kernel, if recording the kernel fails and `may_lack_kernel` allows it.
    pub(crate) fn start_at_once(
        &mut self,
        may_lack_kernel: bool,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(), SessionError> {
        let Err(error) = self.start(notify) else { return Ok(()) };
        // What was interrupted has not failed.
        self.check_stop()?;
        if !may_lack_kernel || matches!(error, SessionError::Command(_)) {
            return Err(error);
        }
        let (layer, channel) = (LayerOf::Kernel, CHANNEL.to_owned());
        let without = Change::DisableChannel(ChannelOf { layer, channel });
        match self.change(&without, notify).and_then(|()| self.start(notify)) {
            Ok(()) => {}
            // That has nothing to do with the kernel, and decides the exit status.
            Err(other @ (SessionError::Command(_) | SessionError::Stopped(_))) => {
                return Err(other)
            }
            Err(_) => return Err(error),
        }
        let why = default_events::reason(&error);
        notify(Notice::NoKernel(why.clone()));
        if !self.plan.transient.is_none() {
            self.begun.own.no_kernel = Some(why);
        }
        Ok(())
    }

    /// Starts or resumes recording.
    pub(super) fn start(&mut self, notify: &mut dyn FnMut(Notice)) -> Result<(), SessionError> {
        self.seek(notify);
        self.apply(self.plan.clone(), true, notify)?;
        self.state = SessionState::Recording;
        if self.since.is_none() {
            self.since = Some(self.begun_at.unwrap_or_else(|| self.time().now()));
            self.resources.bound_leavings(&self.plan.snapshot_folders());
        }
        Ok(())
    }

    /// Pauses recording.
    pub(super) fn pause(&mut self, notify: &mut dyn FnMut(Notice)) -> Result<(), SessionError> {
        if self.state == SessionState::Recording {
            self.apply(self.plan.clone(), false, notify)?;
            self.state = SessionState::Stopped;
        }
        Ok(())
    }

    pub(super) fn change(
        &mut self,
        change: &Change,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(), SessionError> {
        let replaces = change.each().iter().any(|one| matches!(one, Change::Replace(_)));
        if replaces && self.state != SessionState::Created {
            let (what, why) = ("load", "the session was started already. Make another one");
            return Err(PlanError::Nothing { what, why }.into());
        }
        let plan = self.plan.changed(change)?;
        for one in change.each() {
            match one {
                Change::EnableEvent(asked) if asked.probe => check_probes(&plan, &asked.rules)?,
                Change::EnableEvent(asked)
                    if asked.layer == LayerOf::Kernel && asked.sample.is_none() =>
                {
                    check_kernel_rules(&asked.rules, asked.filter.as_deref())?;
                }
                _ => {}
            }
        }
        plan.check_triggers_of_command()?;
        self.begin_triggers(&plan, false, notify)?;
        let done = self.apply(plan, self.state == SessionState::Recording, notify);
        self.triggers.keep(&self.plan, notify);
        self.resources.set_rotation(self.plan.rotation);
        self.seek(notify);
        done
    }

    /// Creates and changes layers as `plan` requires, which then becomes the session's plan. If any layer fails,
    /// everything stays as it was.
    pub(super) fn apply(
        &mut self,
        plan: Plan,
        records: bool,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(), SessionError> {
        let mut changes = Vec::new();
        for (index, made) in self.made.iter().enumerate() {
            let Some(channel) = plan.channel(made.layer, &made.channel) else { continue };
            let fixed = plan.fixed(channel);
            if made.options.is_other_buffer(&fixed) {
                let (layer, channel) = (made.layer.name(), made.channel.clone());
                return Err(SessionError::HasBuffers { layer, channel });
            }
            let wanted = plan.wanted(channel)?;
            if plan.is_on(channel) && wanted != made.wanted {
                changes.push((index, wanted));
            }
        }
        let mut new = Vec::new();
        let begins = self.made.is_empty() && records && !self.has_launched;
        let is_first = records && self.begun_at.is_none();
        let is_made = |channel: &Channel| {
            self.made.iter().any(|one| one.layer == channel.layer && one.channel == channel.name)
        };
        let mut on: Vec<_> = plan.channels.iter().enumerate().collect();
        on.retain(|(_, channel)| plan.is_on(channel));
        // Attaching to the kernel takes long, and a layer of applications hears of processes as soon as it is made.
        on.sort_by_key(|(_, channel)| channel.layer != LayerOf::Kernel);
        for (place, channel) in on {
            if is_made(channel) {
                continue;
            }
            if self.has_launched {
                let (layer, channel) = (channel.layer.name(), channel.name.clone());
                return Err(SessionError::CommandRuns { layer, channel });
            }
            if records {
                new.push((place, self.make(&plan, channel, notify)?));
            }
        }
        new.sort_by_key(|(place, _)| *place);
        let new = new.into_iter().map(|(_, made)| made).collect();
        self.tell(&changes)?;
        self.add(&plan, new, (begins, is_first), notify)?;
        for (index, wanted) in changes {
            self.made[index].wanted = wanted;
        }
        self.plan = plan;
        for made in &mut self.made {
            let channel = self.plan.channel(made.layer, &made.channel);
            let is_on = records && channel.is_some_and(|channel| self.plan.is_on(channel));
            let Some(layer) = self.session.layer(made.index) else { continue };
            match (is_on, made.is_paused) {
                (true, true) => layer.set_paused(false),
                (false, false) => layer.set_paused(true),
                _ => {}
            }
            made.is_paused = !is_on;
        }
        Ok(())
    }

    /// Adds new layers. With the first ones, those of guests are added, and the command is started. `is_first`: true if
    /// nothing was recorded so far.
    fn add(
        &mut self,
        plan: &Plan,
        new: Vec<(MadeChannel, Box<dyn Layer>)>,
        (begins, is_first): (bool, bool),
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(), SessionError> {
        let asked = &plan.transient;
        let command = self.inherited.as_ref().filter(|_| begins && !asked.command.is_empty());
        if begins && (command.is_some() || asked.is_foreground) {
            self.check_stop()?;
        }
        let first = self.session.nr_layers();
        let (mut made, layers): (Vec<MadeChannel>, Vec<_>) = new.into_iter().unzip();
        made.iter_mut().enumerate().for_each(|(number, one)| one.index = first + number);
        let folders = made.iter().map(|one| folder_of(&one.channel));
        let mut layers: Vec<_> = layers.into_iter().zip(folders).collect();
        let begun_at = self.begun_at;
        if is_first {
            self.begun_at = Some(self.time().now());
            let machines = Arc::default();
            for guest in &asked.guests {
                let layer = GuestLayer::new(guest, &self.resources.context, &machines);
                layers.push((Box::new(layer), None));
            }
        }
        let unpreloaded = &mut self.begun.unpreloaded;
        let mut start = |inheritance: &Inheritance<'_>| {
            let running = match command {
                None => None,
                Some(inherited) => {
                    let (running, observer) = launch(asked, inherited, inheritance)?;
                    *unpreloaded = observer;
                    Some(running)
                }
            };
            // Before this thread looks into other processes: only the command gets all rights.
            match asked.is_foreground {
                true => keep_for(Work::Everything),
                false if running.is_some() => keep_for_later(),
                false => {}
            }
            Ok(running)
        };
        let stop = self.stop.as_ref();
        let added = self.session.add(layers, &mut start, &mut |notice| {
            notify(notice);
            stop.map_or(ControlFlow::Continue(()), Stop::flow)
        });
        let running = match added {
            Ok(running) => running,
            Err(error) => {
                self.begun_at = begun_at;
                return Err(error);
            }
        };
        self.has_launched |= running.is_some();
        self.made.extend(made);
        self.begun.running = running;
        if begins && !asked.pids.is_empty() && !self.session.knows_processes() {
            let (watched, absent) = Watched::new(&asked.pids);
            self.begun.watched = Some(watched);
            if !self.has_applications() {
                self.begun.absent = absent;
            }
        }
        Ok(())
    }

    pub(super) fn has_applications(&self) -> bool {
        self.made.iter().any(|one| one.layer == LayerOf::User)
    }

    /// Changes layers. If one cannot be changed, the layers before it are changed back.
    fn tell(&mut self, changes: &[(usize, Wanted)]) -> Result<(), SessionError> {
        for (number, (index, wanted)) in changes.iter().enumerate() {
            let Some(layer) = self.session.layer(self.made[*index].index) else { continue };
            let Err(error) = layer.change(wanted) else { continue };
            for (index, _) in &changes[..number] {
                let MadeChannel { index: layer, wanted: before, .. } = &self.made[*index];
                if let Some(Err(error)) =
                    self.session.layer(*layer).map(|layer| layer.change(before))
                {
                    let name = &self.made[*index].channel;
                    let why = format!("channel '{name}' cannot be changed back: {error}");
                    self.resources.context.shared.fail(why);
                }
            }
            let made = &self.made[*index];
            return Err(self.of_channel(made.layer, &made.channel, error));
        }
        Ok(())
    }

    /// Adds the channel's name to an error, unless the channel belongs to the watcher of a trigger, whose name nobody
    /// knows.
    fn of_channel(&self, layer: LayerOf, channel: &str, error: SessionError) -> SessionError {
        match self.name.is_empty() {
            true => error,
            false => error.of_channel(layer.name(), channel),
        }
    }

    /// Creates the layer of a channel.
    fn make(
        &self,
        plan: &Plan,
        channel: &Channel,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(MadeChannel, Box<dyn Layer>), SessionError> {
        self.make_layer(plan, channel, notify)
            .map_err(|error| self.of_channel(channel.layer, &channel.name, error))
    }

    fn make_layer(
        &self,
        plan: &Plan,
        channel: &Channel,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(MadeChannel, Box<dyn Layer>), SessionError> {
        let options = plan.options_of(channel)?;
        let wanted = plan.wanted(channel)?;
        let (resources, below) = (&self.resources.context, folder_of(&channel.name));
        let context = Arc::new(Context {
            shared: Arc::clone(&resources.shared),
            machine: resources.machine.of_mode(options.mode),
            created: resources.created.clone(),
            output: output_below(below.as_deref(), &resources.output),
            keep: match options.hold {
                true => Keep::Hold,
                false => Keep::Write { flush: options.flush },
            },
            slots: self
                .slots
                .clone()
                .map(|all| ChannelSlots { all, channel: channel.name.clone() }),
            kept: self
                .kept
                .clone()
                .filter(|_| channel.layer == LayerOf::Kernel)
                .map(|all| PersistentChannel { all, channel: channel.name.clone() }),
            is_again: self.is_again,
            before: self
                .before
                .iter()
                .map(|one| one.join(below.as_deref().unwrap_or("")))
                .collect(),
        });
        let asked = LayerPlan { plan, layer: channel.layer, options: &options, wanted: &wanted };
        let layer = self.maker.make(&asked, &context, notify)?;
        let (of, name) = (channel.layer, channel.name.clone());
        let first = wanted.clone();
        let index = self.session.nr_layers();
        let made = MadeChannel {
            layer: of,
            channel: name,
            index,
            wanted,
            first,
            options,
            is_paused: false,
        };
        Ok((made, layer))
    }
}

/// Returns the folder of a channel's traces; `None` for the default channel, whose traces lie where `strata record`
/// puts them.
fn folder_of(channel: &str) -> Option<String> {
    (channel != CHANNEL).then(|| channel.to_owned())
}

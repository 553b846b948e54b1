//! The engine of a recording, whoever asked for it: one loop that waits for requests and for a reason to end, one status,
//! one end. `strata record` is a session that is created, started, awaited and destroyed in one process
//! ([`crate::record`]); a persistent session ([`crate::daemon`]) is the same with a plan that can be changed meanwhile.
//!
//! ```text
//! create    makes the folder, and no layer
//! start     creates or resumes a layer for each channel that selects something
//! stop      pauses all layers; they keep what they hold
//! change    changes the plan, then the layers; if one refuses, everything stays as it was
//! serve     answers requests, looks at triggers, disk and relay, until there is a reason to end
//! destroy   stops and joins the layers, completes the traces, and returns the report
//! ```
//!
//! All of this is done by the thread that calls [`Engine::serve`]; other threads reach it through [`Orders`]. The layers
//! of `strata record` exist before the engine does, and no request changes them: see [`Fixed`].

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

use strata_collect::Keep;
use strata_remote::Destination;

use crate::daemon::persistent::{ChannelKept, KernelKept};
use crate::daemon::slots::{ChannelSlots, Slots};
use crate::error::SessionError;
use crate::options::{KernelOptions, Options};
use crate::output::folder::below as output_below;
use crate::output::folder_mark::Made;
use crate::plan::{
    Action, Change, Channel, ChannelOf, LayerOf, Plan, PlanError, Settle, Trigger, Until, CHANNEL,
};
use crate::record::command::Inherited;
use crate::record::launch::launch;
use crate::record::watched::Watched;
use crate::report::advice::advise;
use crate::report::gaps::{losses, FoundGaps};
use crate::report::{Counts, EndReason, NoKernel, Notice, EVERY_TRACEPOINT};
use crate::session::budget::Budget;
use crate::session::clock::wall_ns;
use crate::session::control::{ControlRequest, Orders};
use crate::session::disk::{DiskLimit, LowSpace};
use crate::session::layer::{Context, Inheritance, Layer, LayerStatus, Wanted};
use crate::session::recording::Recording;
use crate::session::resources::Resources;
use crate::session::shared::Shared;
use crate::session::snapshot;
use crate::session::state::SessionState;
use crate::session::status::{
    recorded_events, ChannelStatus, EventStatus, FlushStatus, Status, StatusFacts, TriggerStatus,
};
use crate::session::stop::Stop;
use crate::session::watch::Watch;
use crate::session::Session;
pub(crate) use begun::{Begun, Fixed};
use checks::{check_kernel_rules, check_probes};
use event_status::event_status;
use layers::of_plan;
pub(crate) use layers::{LayerMaker, Layers};
use triggers::{Triggers, Watcher};
pub(crate) use words::in_words;
use words::said;

mod begun;
mod checks;
mod event_status;
mod layers;
pub mod trigger;
mod triggers;
mod watching;
mod words;

/// The most requests that are performed before the session looks at its ends, triggers and disk again. Clients wait for
/// the answer to one request before they send the next, so more of them do not wait longer.
const REQUESTS_AT_ONCE: usize = 32;
/// The most losses by CPU in the status of a running session.
const LOSSES_SHOWN: usize = 96;

/// A channel that has a layer. Its index in `made` is that of its layer in the session.
struct MadeChannel {
    layer: LayerOf,
    channel: String,
    wanted: Wanted,
    /// The request with which the layer was created.
    first: Wanted,
    /// The options with which the channel was created, which do not change.
    options: Options,
    is_paused: bool,
}

impl MadeChannel {
    /// Returns whether this is the kernel's channel of a session with a command or named processes, and nobody has named
    /// the kernel's events, neither at the beginning nor later.
    fn is_kernel_by_default(&self, plan: &Plan) -> bool {
        let by_default = !plan.transient.is_none() && plan.transient.kernel_by_default;
        let is_it = self.layer == LayerOf::Kernel && self.channel == CHANNEL;
        by_default && is_it && self.wanted.rules == self.first.rules
    }
}

/// A session that exists, until it is destroyed.
pub(crate) struct Engine<'a> {
    name: String,
    pub(crate) plan: Plan,
    pub(crate) resources: Resources,
    pub(crate) session: Session,
    made: Vec<MadeChannel>,
    state: SessionState,
    since: Option<Instant>,
    maker: Rc<dyn LayerMaker + 'a>,
    triggers: Triggers<'a>,
    /// Number of SIGUSR1 signals received.
    signals: u64,
    pub(crate) slots: Option<Arc<Slots>>,
    pub(crate) kept: Option<Arc<KernelKept>>,
    pub(crate) inherited: Option<Inherited>,
    /// True if the session was restored after a kill; see [`Context::is_again`].
    pub(crate) is_again: bool,
    /// Folders of earlier sessions of this name, over all channels; see [`Context::before`].
    pub(crate) before: Vec<PathBuf>,
    /// True if the trace was still in memory at the last check.
    was_early: bool,
    /// Remarks on the records of a killed session that are in no trace, and on the fdstore.
    pub(crate) remarks: Vec<String>,
    /// The request of `strata record`, of which nothing changes; `None` for a session with a plan.
    fixed: Option<Fixed>,
    /// The command and the named processes, if there are any.
    pub(crate) begun: Begun,
    /// The user's request to stop, after which no command is started.
    pub(crate) stop: Option<Stop>,
    /// True if the command was started: it is recorded by the layers that exist then.
    has_launched: bool,
}

impl<'a> Engine<'a> {
    /// Creates a session of this plan. Nothing is recorded yet.
    ///
    /// # Errors
    /// The folder of its traces cannot be created or used. Nothing is left behind.
    pub(crate) fn new(
        name: &str,
        plan: Plan,
        goes_on: bool,
        maker: Rc<dyn LayerMaker + 'a>,
        memory: Arc<Budget>,
    ) -> Result<Engine<'a>, SessionError> {
        let session = (!name.is_empty()).then(|| name.to_owned());
        let remote = match (&plan.to, plan.snapshot) {
            (Some(to), false) => Some(to.target()?),
            _ => None,
        };
        let waits = plan.settle.is_none() && remote.is_none() && plan.transient.is_none();
        let options = Options { goes_on, session, remote, ..options(&plan) };
        let mut resources = Resources::begin(&options, memory)?;
        resources.snapshot_to = plan.to.clone().filter(|_| plan.snapshot);
        let session = Session::create(Arc::clone(&resources.context), Vec::new());
        // A trace held in memory is flushed to disk or sent, which frees memory.
        if waits {
            resources.context.shared.room().wait(plan.min_free.unwrap_or_default());
        }
        Ok(Engine::with(name, plan, (resources, session), maker))
    }

    fn with(
        name: &str,
        plan: Plan,
        (resources, session): (Resources, Session),
        maker: Rc<dyn LayerMaker + 'a>,
    ) -> Engine<'a> {
        Engine {
            name: name.to_owned(),
            plan,
            resources,
            session,
            made: Vec::new(),
            state: SessionState::Created,
            since: None,
            maker,
            triggers: Triggers::default(),
            signals: 0,
            slots: None,
            kept: None,
            inherited: None,
            is_again: false,
            before: Vec::new(),
            was_early: false,
            remarks: Vec::new(),
            fixed: None,
            begun: Begun::default(),
            stop: None,
            has_launched: false,
        }
    }

    /// Creates the engine of a recording whose layers have begun.
    pub(crate) fn of_record(
        (fixed, begun, since): (Fixed, Begun, Instant),
        (resources, session): (Resources, Session),
        maker: Rc<dyn LayerMaker + 'a>,
    ) -> Engine<'a> {
        let options = &fixed.options;
        let mut plan = Plan::new(options.hold, options.output.clone());
        let duration = options.duration.map(|time| time.as_nanos().div_ceil(1_000_000));
        let duration_ms = duration.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX));
        plan.until = Until { duration_ms, max_bytes: options.max_bytes };
        Engine {
            state: SessionState::Recording,
            since: Some(since),
            fixed: Some(fixed),
            begun,
            ..Engine::with("", plan, (resources, session), maker)
        }
    }

    /// Serves requests until there is a reason to end, then completes the traces and returns the report.
    pub(crate) fn run(
        mut self,
        stop: &Stop,
        orders: &Orders,
        notify: &mut dyn FnMut(Notice),
    ) -> Recording {
        let shared = Arc::clone(&self.resources.context.shared);
        let mut watch = self.watch(&shared, stop);
        if let Some(fixed) = &self.fixed {
            let relay = fixed.options.relay.as_ref().map(ToString::to_string);
            let remote = self.resources.remote.as_ref().map(|remote| remote.name().to_owned());
            let (path, events) = (self.resources.path(), recorded_events(&self.session.statuses()));
            watch.started(path.as_deref(), (relay, remote), events, notify);
        }
        let end = self.serve(&mut watch, orders, notify);
        orders.will_end(self.status(watch.command()));
        self.destroy(end, watch, notify)
    }

    /// Returns the conditions on which the session ends.
    fn watch<'w>(&mut self, shared: &'w Shared, stop: &'w Stop) -> Watch<'w> {
        let mut watch = Watch::new(shared, stop, self.since.unwrap_or_else(Instant::now));
        if let Some(fixed) = &self.fixed {
            watch.has_applications = fixed.options.records_applications();
        }
        self.watch_more(&mut watch);
        watch
    }

    /// Sets the ends that the plan names, once the session was started.
    fn watch_more(&mut self, watch: &mut Watch<'_>) {
        let Some(since) = self.since else { return };
        watch.begin = since;
        // A plan holds whole milliseconds, and `strata record` ends when it was told to.
        let duration = match &self.fixed {
            Some(fixed) => fixed.options.duration,
            None => self.plan.until.duration(),
        };
        watch.deadline = duration.and_then(|time| since.checked_add(time));
        let limit = self.plan.until.max_bytes.zip(self.resources.path());
        watch.limit = limit.map(|(max, path)| (max, DiskLimit::new(max, &path)));
        watch.running = self.begun.running.take().or(watch.running.take());
        watch.watched = self.begun.watched.take().or(watch.watched.take());
        if self.fixed.is_none() {
            watch.has_applications = self.has_applications();
        }
    }

    /// Serves requests until there is a reason to end, which it returns.
    fn serve(
        &mut self,
        watch: &mut Watch<'_>,
        orders: &Orders,
        notify: &mut dyn FnMut(Notice),
    ) -> EndReason {
        loop {
            let was_started = self.since.is_some();
            let mut obeyed = None;
            (watch.space, watch.state) = (self.low_space(), self.state);
            let end = watch.look(self.session.is_broken(), notify).or_else(|| {
                // A command's end is waited for instead, and requests are looked at in between.
                watch.pause(notify, &mut |time| obeyed = orders.next(time))
            });
            if let Some(end) = end {
                return end;
            }
            for _ in 0..REQUESTS_AT_ONCE {
                let Some(asked) = obeyed.take().or_else(|| orders.from.try_recv().ok()) else {
                    break;
                };
                self.obey(asked, watch.command(), notify);
                if !was_started {
                    self.watch_more(watch);
                }
            }
            self.look_around(watch.stop.user_signals(), notify);
            self.look_at_room(notify);
            if let Some(why) = self.resources.look_at_disk().filter(|_| !self.ends_when_full()) {
                notify(Notice::WaitsForRoom { why });
            }
            self.resources.look_at_rotation(&self.session, notify);
            self.resources.look_at_remote(notify);
            let is_early = self.resources.is_early();
            if std::mem::replace(&mut self.was_early, is_early) && !is_early {
                // The trace is on disk now, next to the traces of other boots.
                self.resources.bound_leavings(&self.plan.snapshot_folders());
            }
            if let Some(why) = self.slots.as_ref().and_then(|slots| slots.fdstore()?.look()) {
                notify(Notice::Remark(why.clone()));
                self.remarks.push(why);
            }
            if !was_started {
                self.watch_more(watch);
            }
        }
    }

    /// Returns whether the session ends when its disk is nearly full: who asked for a recording with an end gets one.
    fn ends_when_full(&self) -> bool {
        self.fixed.is_some() || !self.plan.transient.is_none()
    }

    /// Returns the state of the disk if it has too little free space for a session that ends then.
    pub(crate) fn low_space(&self) -> Option<LowSpace> {
        self.ends_when_full().then(|| self.resources.low_space()).flatten()
    }

    fn obey(
        &mut self,
        asked: ControlRequest,
        command: Option<u32>,
        notify: &mut dyn FnMut(Notice),
    ) {
        let changes = matches!(
            asked,
            ControlRequest::Start(_)
                | ControlRequest::Pause(_)
                | ControlRequest::Change(..)
                | ControlRequest::Plan(_)
        );
        if self.fixed.is_some() && changes {
            return asked.refuse(
                "it records what it was told at its begin: it was started by `strata record` with what no plan holds",
            );
        }
        // The requester may have gone.
        let _ = match asked {
            ControlRequest::Snapshot(asked) => {
                self.resources.snapshot(&self.session, asked);
                true
            }
            ControlRequest::Start(reply) => reply.send(said(self.start(notify))).is_ok(),
            ControlRequest::Pause(reply) => reply.send(said(self.pause(notify))).is_ok(),
            ControlRequest::Change(change, reply) => {
                reply.send(said(self.change(&change, notify))).is_ok()
            }
            ControlRequest::Rotate(reply) => {
                self.resources.rotate(reply);
                true
            }
            ControlRequest::Settle(above, reply) => {
                match above.or_else(|| self.settle().map(|settle| settle.folder.clone())) {
                    Some(above) => self.resources.settle(above, reply),
                    None => self.resources.settle(PathBuf::new(), reply),
                }
                true
            }
            ControlRequest::Status(reply) => reply.send(Ok(Box::new(self.status(command)))).is_ok(),
            ControlRequest::Plan(reply) => {
                let plan = Plan { settle: self.settle().cloned(), ..self.plan.clone() };
                reply.send(Ok(plan)).is_ok()
            }
        };
    }

    /// Returns the plan from which the session would go on where it is.
    pub(crate) fn plan_to_keep(&self) -> Plan {
        let (settle, output) = (self.settle().cloned(), self.resources.output());
        Plan { settle, output, ..self.plan.clone() }
    }

    /// Returns the plan for flushing the trace to disk, as long as the trace is held in memory.
    fn settle(&self) -> Option<&Settle> {
        self.plan.settle.as_ref().filter(|_| self.resources.is_early())
    }

    fn look_at_room(&self, notify: &mut dyn FnMut(Notice)) {
        let Some(settle) = self.settle() else { return };
        if self.resources.look_at_room(settle.size) {
            let folder = self.resources.path().unwrap_or_default();
            notify(Notice::NoRoom { folder, name: self.name.clone() });
        }
    }

    /// Starts to write a snapshot into the folder `output`, or to send it to `to`.
    fn snapshot(
        &mut self,
        output: PathBuf,
        to: Option<Destination>,
        reply: Sender<Result<Counts, String>>,
    ) {
        let made = Made::OfTrigger;
        let asked = snapshot::SnapshotRequest { output, to, last: None, made, reply };
        self.resources.snapshot(&self.session, asked);
    }

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
        let started = self.change(&without, notify).and_then(|()| self.start(notify));
        if started.is_err() {
            return Err(error);
        }
        let why = in_words(&error);
        notify(Notice::NoKernel(NoKernel { why: why.clone(), is_failure: true }));
        if !self.plan.transient.is_none() {
            self.begun.own.no_kernel = Some(NoKernel { why, is_failure: true });
        }
        Ok(())
    }

    /// # Errors
    /// A stop was requested.
    fn check_stop(&self) -> Result<(), SessionError> {
        let stop = self.stop.as_ref().filter(|stop| stop.flow().is_break());
        stop.map_or(Ok(()), |stop| Err(SessionError::Stopped(stop.signal())))
    }

    /// Ends a session that could not be started.
    pub(crate) fn give_up(self, stop: &Stop, notify: &mut dyn FnMut(Notice)) {
        let shared = Arc::clone(&self.resources.context.shared);
        let watch = Watch::new(&shared, stop, Instant::now());
        self.destroy(EndReason::Asked(None), watch, notify);
    }

    /// Starts or resumes recording.
    fn start(&mut self, notify: &mut dyn FnMut(Notice)) -> Result<(), SessionError> {
        self.seek(notify);
        self.apply(self.plan.clone(), true, notify)?;
        self.state = SessionState::Recording;
        if self.since.is_none() {
            self.since = Some(Instant::now());
            self.resources.bound_leavings(&self.plan.snapshot_folders());
        }
        Ok(())
    }

    /// Pauses recording.
    fn pause(&mut self, notify: &mut dyn FnMut(Notice)) -> Result<(), SessionError> {
        if self.state == SessionState::Recording {
            self.apply(self.plan.clone(), false, notify)?;
            self.state = SessionState::Stopped;
        }
        Ok(())
    }

    fn change(
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
        self.arm(&plan, false, notify)?;
        let done = self.apply(plan, self.state == SessionState::Recording, notify);
        self.triggers.keep(&self.plan, notify);
        self.seek(notify);
        done
    }

    /// Creates and changes layers as `plan` requires, which then becomes the session's plan. If any layer fails,
    /// everything stays as it was.
    fn apply(
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
                return Err(SessionError::Missing {
                    layer: made.layer.name(),
                    what: format!(
                        "channel '{}' has its buffers since it was started: another loss mode, size, number or \
                         flush period",
                        made.channel
                    ),
                });
            }
            let wanted = plan.wanted(channel)?;
            if plan.is_on(channel) && wanted != made.wanted {
                changes.push((index, wanted));
            }
        }
        let mut new = Vec::new();
        let begins = self.made.is_empty() && records && !self.has_launched;
        let is_made = |channel: &Channel| {
            self.made.iter().any(|one| one.layer == channel.layer && one.channel == channel.name)
        };
        for channel in plan.channels.iter().filter(|one| plan.is_on(one)) {
            if is_made(channel) {
                continue;
            }
            if self.has_launched {
                let (layer, name) = (channel.layer.name(), &channel.name);
                let what = format!(
                    "channel '{name}' is new, and the command is recorded by those from before its start: another one"
                );
                return Err(SessionError::Missing { layer, what });
            }
            if records {
                new.push(self.make(&plan, channel, notify)?);
            }
        }
        self.tell(&changes)?;
        self.add(&plan, new, begins, notify)?;
        for (index, wanted) in changes {
            self.made[index].wanted = wanted;
        }
        self.plan = plan;
        for (index, made) in self.made.iter_mut().enumerate() {
            let channel = self.plan.channel(made.layer, &made.channel);
            let is_on = records && channel.is_some_and(|channel| self.plan.is_on(channel));
            let Some(layer) = self.session.layer(index) else { continue };
            match (is_on, made.is_paused) {
                (true, true) => layer.set_paused(false),
                (false, false) => layer.set_paused(true),
                _ => {}
            }
            made.is_paused = !is_on;
        }
        Ok(())
    }

    /// Adds new layers, and starts the command with the first ones.
    fn add(
        &mut self,
        plan: &Plan,
        new: Vec<(MadeChannel, Box<dyn Layer>)>,
        begins: bool,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(), SessionError> {
        let asked = &plan.transient;
        let command = self.inherited.as_ref().filter(|_| begins && !asked.command.is_empty());
        if command.is_some() {
            self.check_stop()?;
        }
        let (made, layers): (Vec<_>, Vec<_>) = new.into_iter().unzip();
        let folders = made.iter().map(|one: &MadeChannel| folder_of(&one.channel));
        let layers = layers.into_iter().zip(folders).collect();
        let unpreloaded = &mut self.begun.unpreloaded;
        let mut start = |inheritance: &Inheritance<'_>| {
            let Some(inherited) = command else { return Ok(None) };
            let (running, observer) = launch(asked, inherited, inheritance)?;
            *unpreloaded = observer;
            Ok(Some(running))
        };
        let running = self.session.add(layers, &mut start, &mut |notice| {
            notify(notice);
            std::ops::ControlFlow::Continue(())
        })?;
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

    fn has_applications(&self) -> bool {
        self.made.iter().any(|one| one.layer == LayerOf::User)
    }

    /// Changes layers. If one cannot be changed, the layers before it are changed back.
    fn tell(&mut self, changes: &[(usize, Wanted)]) -> Result<(), SessionError> {
        for (number, (index, wanted)) in changes.iter().enumerate() {
            let Some(layer) = self.session.layer(*index) else { continue };
            let Err(error) = layer.change(wanted) else { continue };
            for (index, _) in &changes[..number] {
                let before = &self.made[*index].wanted;
                if let Some(Err(error)) =
                    self.session.layer(*index).map(|layer| layer.change(before))
                {
                    let name = &self.made[*index].channel;
                    let why = format!("channel '{name}' cannot be changed back: {error}");
                    self.resources.context.shared.fail(why);
                }
            }
            let made = &self.made[*index];
            return Err(self.of_channel(made.layer, &made.channel, of_plan(error)));
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
            time: resources.time.clone(),
            slots: self
                .slots
                .clone()
                .map(|all| ChannelSlots { all, channel: channel.name.clone() }),
            kept: self
                .kept
                .clone()
                .filter(|_| channel.layer == LayerOf::Kernel)
                .map(|all| ChannelKept { all, channel: channel.name.clone() }),
            is_again: self.is_again,
            before: self
                .before
                .iter()
                .map(|one| one.join(below.as_deref().unwrap_or("")))
                .collect(),
        });
        let kernel = || plan.channel(LayerOf::Kernel, CHANNEL).is_some_and(|one| plan.is_on(one));
        let asked = (&options, &wanted.rules[..], plan.transient.kernel_by_default && kernel());
        let mut layer = self.maker.make(channel.layer, asked, &context, notify)?;
        // The kernel's layer begins without rules; the options of applications already contain rules and contexts.
        if channel.layer == LayerOf::Kernel || wanted.is_more_than_rules() {
            layer.change(&wanted).map_err(of_plan)?;
        }
        let (of, name) = (channel.layer, channel.name.clone());
        let first = wanted.clone();
        let made =
            MadeChannel { layer: of, channel: name, wanted, first, options, is_paused: false };
        Ok((made, layer))
    }

    /// Returns the status of the session, which runs `command`.
    fn status(&self, command: Option<u32>) -> Status {
        let layers = self.session.statuses();
        // The whole status must fit a message.
        let most = (LOSSES_SHOWN / self.plan.channels.len().max(1)).max(1);
        let channels: Vec<ChannelStatus> = self
            .plan
            .channels
            .iter()
            .map(|channel| self.channel_status(channel, &layers, most))
            .collect();
        let on = channels.iter().filter(|one| one.enabled).flat_map(|one| &one.events);
        let events: Vec<&EventStatus> = on.filter(|event| event.enabled).collect();
        let triggers = self.trigger_statuses();
        let gaps = FoundGaps {
            rules: events
                .iter()
                .any(|event| event.matched == Some(0) && event.rule != EVERY_TRACEPOINT),
            filters: events.iter().any(|event| event.is_never),
            triggers: triggers.iter().any(|one| one.report().is_some()),
            discarded: channels.iter().any(|one| !one.discards.is_empty()),
            ..FoundGaps::default()
        };
        let facts = StatusFacts {
            state: self.state,
            since: self.since,
            has_plan: self.fixed.is_none(),
            command,
            holds: self.plan.snapshot,
            settle: self.settle().map(|settle| FlushStatus {
                folder: settle.folder.to_string_lossy().into_owned(),
                size: settle.size,
                is_full: self.resources.context.shared.must_wait(),
            }),
            retention: self.resources.retention(!self.plan.snapshot_folders().is_empty()),
            channels,
            tracked: self.plan.tracked.clone(),
            triggers,
            remarks: &self.remarks,
            gaps,
        };
        facts.status(&self.resources, &layers)
    }

    fn channel_status(
        &self,
        channel: &Channel,
        layers: &[LayerStatus],
        most: usize,
    ) -> ChannelStatus {
        let is_of = |one: &MadeChannel| one.layer == channel.layer && one.channel == channel.name;
        let index = self.made.iter().position(is_of);
        let status = index.and_then(|index| layers.get(index));
        let counted = status.map(|status| Counts {
            discarded: status.losses.discarded,
            demand: status.losses.demand,
            ..Counts::default()
        });
        let options = self.plan.fixed(channel);
        // A restored layer, or one whose buffers were too large for this kernel, has other sizes than planned.
        let made = status.map(|status| (status.buffers.subbuf_bytes, status.buffers.nr_subbufs));
        let (subbuf_size, num_subbuf) = made
            .filter(|(size, _)| *size > 0)
            .unwrap_or((options.subbuf_bytes, options.nr_subbufs));
        ChannelStatus {
            figures: status.map(|status| status.figures).unwrap_or_default(),
            layer: channel.layer,
            channel: channel.name.clone(),
            enabled: channel.enabled,
            is_made: index.is_some(),
            loss: match options.mode {
                strata_model::LossMode::Discard => "discard",
                strata_model::LossMode::Overwrite => "overwrite",
            },
            subbuf_size,
            num_subbuf,
            contexts: self.plan.contexts(channel),
            fill: status.map(|status| status.fill),
            history_seconds: status.and_then(|status| status.history_seconds),
            discards: status
                .zip(counted.as_ref())
                .map(|(status, counted)| losses(counted, &status.losses.streams, wall_ns(), most))
                .unwrap_or_default(),
            advice: status
                .zip(counted.as_ref())
                .and_then(|(status, counted)| advise(counted, &status.buffers)),
            events: channel.events.iter().map(|event| event_status(event, status)).collect(),
        }
    }

    /// Returns the status of each trigger.
    fn trigger_statuses(&self) -> Vec<TriggerStatus> {
        let has_programs = self.made.iter().any(|one| one.layer == LayerOf::User);
        self.triggers.statuses(self.state != SessionState::Created && !has_programs)
    }

    /// Creates the triggers that `plan` has and the session has not. Existing triggers stay until the session has the
    /// plan: see [`Triggers::keep`]. `may_lack`: true for a plan that was once possible; triggers without matching
    /// events are then kept.
    ///
    /// # Errors
    /// A trigger cannot be created; then none is.
    pub(crate) fn arm(
        &mut self,
        plan: &Plan,
        may_lack: bool,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(), SessionError> {
        let mut new = Vec::new();
        for trigger in self.triggers.missing(plan) {
            match self.watcher(plan, trigger, notify) {
                Ok(watcher) => new.push((trigger, Ok(watcher))),
                Err(error) if may_lack && error.is_of_what_is_there() => {
                    new.push((trigger, Err(in_words(&error))));
                }
                Err(error) => {
                    let made = new.into_iter().filter_map(|(_, watcher)| watcher.ok());
                    made.for_each(|watcher| self.triggers.let_go(watcher));
                    return Err(error);
                }
            }
        }
        for (trigger, watcher) in new {
            self.triggers.add(trigger, watcher, self.signals);
        }
        Ok(())
    }

    /// Searches again for the events of triggers that had none.
    fn seek(&mut self, notify: &mut dyn FnMut(Notice)) {
        for index in 0..self.triggers.all.len() {
            let Some(trigger) = self.triggers.all[index].lacking() else { continue };
            let found = self.watcher(&self.plan, &trigger, notify);
            let found = found.map_err(|error| in_words(&error));
            self.triggers.all[index].sought(found, self.signals);
        }
    }

    /// Creates the watcher for the events of a trigger; `None` if the trigger waits for something else.
    ///
    /// # Errors
    /// The watcher cannot be created; nothing is left of it.
    fn watcher(
        &self,
        plan: &Plan,
        trigger: &Trigger,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Option<Box<dyn Watcher + 'a>>, SessionError> {
        if let Some(selection) = trigger.when.selection() {
            if selection.layer == LayerOf::Kernel {
                let rules = std::slice::from_ref(&selection.rule);
                check_kernel_rules(rules, selection.filter.as_deref())?;
            }
        }
        let Some(watching) = plan.watching(trigger) else { return Ok(None) };
        let empty = Plan { channels: Vec::new(), ..watching.clone() };
        let memory = Arc::clone(self.resources.context.shared.memory());
        let mut watcher = Engine::new("", empty, false, Rc::clone(&self.maker), memory)?;
        watcher.apply(watching, true, notify)?;
        Ok(Some(Box::new(watcher)))
    }

    /// Checks what has happened since the last call, and runs triggers.
    fn look_around(&mut self, signals: u64, notify: &mut dyn FnMut(Notice)) {
        self.signals = signals;
        let ends = self.triggers.new_ends(self.session.look_around());
        self.triggers.look_at_detaching();
        let now = Instant::now();
        for index in 0..self.triggers.all.len() {
            self.triggers.all[index].look_around(now, signals, &ends);
            self.act(index, notify);
        }
    }

    /// Performs the actions of a trigger that need no waiting.
    fn act(&mut self, index: usize, notify: &mut dyn FnMut(Notice)) {
        while let Some(action) = self.triggers.all[index].next() {
            let done = match action {
                Action::Start => said(self.start(notify)),
                Action::Stop => said(self.pause(notify)),
                Action::Run { command } => {
                    self.triggers.all[index].run(&self.name, &command, self.inherited.as_ref());
                    Ok(())
                }
                Action::Rotate => {
                    self.resources.rotate(self.triggers.all[index].rotate());
                    Ok(())
                }
                Action::Snapshot { folder } => self.save(index, folder.as_deref()),
            };
            if let Err(why) = done {
                self.triggers.all[index].fail(why);
            }
        }
    }

    fn save(&mut self, index: usize, folder: Option<&Path>) -> Result<(), String> {
        let (reply, done) = channel();
        let to = self.plan.to.clone().filter(|_| folder.is_none());
        let path = self.triggers.all[index].save(folder, to.as_ref(), done)?;
        self.snapshot(path, to, reply);
        Ok(())
    }

    /// Ends the session and completes its traces.
    fn destroy(
        mut self,
        end: EndReason,
        mut watch: Watch<'_>,
        notify: &mut dyn FnMut(Notice),
    ) -> Recording {
        let (shared, stop) = (watch.shared, watch.stop);
        let statuses = self.trigger_statuses();
        let idle: Vec<_> = statuses.iter().filter_map(TriggerStatus::report).collect();
        let of_triggers = self.triggers.end();
        // What goes to a relay waits until the session has stopped: see `begin_end`.
        if self.resources.remote.is_none() {
            shared.room().end();
        }
        self.session.stop(end);
        notify(Notice::Stopping);
        self.resources.begin_end(stop);
        // Snapshots that are still being written contain what was held when they were requested.
        self.resources.finish_writing(stop, notify);
        let mut ended = self.session.destroy();
        for (one, made) in ended.iter_mut().zip(&self.made) {
            one.report.channel.clone_from(&made.channel);
            let kernel = one.own.kernel.as_mut().filter(|_| made.is_kernel_by_default(&self.plan));
            if let Some(kernel) = kernel {
                kernel.rules.clear();
                kernel.is_default = true;
            }
        }
        // Kept objects of channels that were not created again are removed as well.
        if let Some(Err(error)) = self.kept.as_ref().map(|kept| kept.remove()) {
            shared.fail(error.to_string());
        }
        if let Some(relayed) = self.fixed.as_mut().and_then(|fixed| fixed.relayed.take()) {
            relayed.end(shared);
        }
        watch.elapsed = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        if end == EndReason::Failure {
            watch.outlast(notify);
        }
        let Recording { mut report, detaching } = match self.fixed {
            Some(Fixed { options, .. }) => {
                let asked = (&options, options.kernel.is_some());
                self.begun.report(asked, &self.resources, (&watch, end), ended)
            }
            None => {
                watch.has_applications = self.made.iter().any(|one| one.layer == LayerOf::User);
                let wants_kernel =
                    self.plan.channels.iter().any(|one| one.layer == LayerOf::Kernel);
                let asked = (&options(&self.plan), wants_kernel);
                self.begun.report(asked, &self.resources, (&watch, end), ended)
            }
        };
        report.triggers = idle;
        report.remarks.extend(self.slots.as_ref().and_then(|slots| slots.untaken()));
        Recording { report, detaching: detaching.or(of_triggers) }
    }
}

/// Returns the options that all channels have in common.
fn options(plan: &Plan) -> Options {
    let all = Options {
        kernel: plan
            .transient
            .all_processes
            .then(|| KernelOptions { all_processes: true, ..KernelOptions::default() }),
        output: plan.output.clone(),
        hold: plan.snapshot,
        version: plan.ctf(),
        is_early: plan.settle.is_some(),
        rotation: plan.rotation,
        retention: plan.retention,
        max_memory: plan.max_memory,
        min_free: plan.min_free.unwrap_or_default(),
        ..Options::default()
    };
    plan.transient.of_whom(all)
}

/// Returns the folder of a channel's traces; `None` for the default channel, whose traces lie where `strata record`
/// puts them.
fn folder_of(channel: &str) -> Option<String> {
    (channel != CHANNEL).then(|| channel.to_owned())
}

#[cfg(test)]
mod tests;

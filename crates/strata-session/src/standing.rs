//! A session that stays: made from a plan with nothing recorded, it is started, stopped, changed and read until
//! somebody ends it. The thread that calls [`stand`] does all of it; it hears of it by [`Orders`].
//!
//! ```text
//! create    its folder is there; no layer is
//! start     a layer for each channel that selects something: made, or resumed
//! stop      all layers pause; what is held stays
//! change    plan to plan, then the layers; where one refuses, all are as they were
//! destroy   layers are stopped and joined, traces are complete, there is a report
//! ```

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

use strata_collect::Keep;
use strata_filter::Filter;
use strata_kernel::selection::EventSelection;
use strata_kernel::tracefs::Tracefs;
use strata_user::Clock;

use crate::applications::filtered;
use crate::applications::Applications;
use crate::error::SessionError;
use crate::kernel::{self, KernelLayer};
use crate::options::Options;
use crate::output::folder::{below as output_below, is_own, parts_of};
use crate::plan::{
    Action, Change, Channel, EventRule, LayerOf, Plan, PlanError, Settle, Trigger, CHANNEL,
};
use crate::record::command::Inherited;
use crate::record::MEMORY_MIN;
use crate::report::advice::advise;
use crate::report::gaps::{losses, FoundGaps, Late, Unreached};
use crate::report::{
    Counts, EndReason, FilterReport, NotReached, Notice, Report, RuleReport, EVERY_TRACEPOINT,
};
use crate::session::budget::Budget;
use crate::session::clock::wall_ns;
use crate::session::control::{ControlRequest, Orders};
use crate::session::detaching::Detaching;
use crate::session::ground::Ground;
use crate::session::layer::{Context, Layer, LayerLook, Wanted};
use crate::session::memory;
use crate::session::privileges::{keep_for_later, Work};
use crate::session::recording::Recording;
use crate::session::shared::Figured;
use crate::session::snapshot;
use crate::session::stop::Stop;
use crate::session::watch::Watch;
use crate::session::Session;
use crate::standing::kept::{ChannelKept, KernelKept};
use crate::standing::rings::count_left;
use crate::standing::slots::{ChannelSlots, Slots};
use triggers::{Triggers, Watcher};

pub mod kept;
mod look;
pub(crate) mod rings;
pub mod slots;
pub mod trigger;
mod triggers;
pub mod trust;
pub mod trustee;

pub use look::{ChannelLook, EventLook, Look, SessionState, SettleLook, TriggerLook};

/// How long it waits at most: a signal and a failure are noticed then.
const LOOK_PERIOD: Duration = Duration::from_millis(50);
/// Programs and events that were not reached, as told while it runs.
const NOT_REACHED_SHOWN: usize = 20;

/// Remarks that are told while it runs, and the letters of each.
const REMARKS_SHOWN: usize = 8;
const REMARK_LETTERS: usize = 400;

/// Parts of a trace that was written before, in which it is looked for what is still in buffers.
const PARTS_LOOKED_AT: usize = 1024;

/// Losses by CPU that are told while it runs.
const LOSSES_SHOWN: usize = 96;

/// A channel that has a layer; its place is that of the layer in the session.
struct MadeChannel {
    layer: LayerOf,
    channel: String,
    wanted: Wanted,
    /// As it was made: that stays.
    options: Options,
    is_paused: bool,
}

/// What makes layers.
trait LayerMaker {
    /// That of a channel, which is ready and records nothing.
    ///
    /// # Errors
    /// Why there is none; nothing is left of it.
    fn make(
        &self,
        layer: LayerOf,
        options: &Options,
        context: &Arc<Context>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Box<dyn Layer>, SessionError>;
}

/// Those that there are.
struct Layers<'a> {
    stop: &'a Stop,
    /// The longer it has run when a process is told of it, the better is its rate.
    clock: Arc<Clock>,
}

impl LayerMaker for Layers<'_> {
    fn make(
        &self,
        layer: LayerOf,
        options: &Options,
        context: &Arc<Context>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Box<dyn Layer>, SessionError> {
        Ok(match (layer, &options.kernel) {
            (LayerOf::Kernel, Some(kernel)) => {
                let asked = kernel::LayerRequest { options, kernel, context, stop: self.stop };
                Box::new(KernelLayer::begin(&asked, notify).map_err(of_plan)?)
            }
            _ => {
                let (clock, filter) = (Arc::clone(&self.clock), filtered::program(options)?);
                Box::new(Applications::new(options, context, clock, filter, false)?)
            }
        })
    }
}

/// The session.
struct Standing<'a> {
    name: String,
    plan: Plan,
    ground: Ground,
    session: Session,
    made: Vec<MadeChannel>,
    state: SessionState,
    since: Option<Instant>,
    maker: Rc<dyn LayerMaker + 'a>,
    triggers: Triggers<'a>,
    /// SIGUSR1 that have come.
    signals: u64,
    slots: Option<Arc<Slots>>,
    kept: Option<Arc<KernelKept>>,
    inherited: Option<Inherited>,
    /// See [`Context::is_again`].
    is_again: bool,
    /// See [`Context::before`]; of all channels.
    before: Vec<PathBuf>,
    /// What the session had that was killed and is in no trace, and what becomes of the trustee, in whole sentences.
    remarks: Vec<String>,
}

/// What the session of this plan has left that was killed, and where this one notes what it would leave.
#[derive(Default)]
pub struct LeftByKilled {
    /// Places in programs.
    pub slots: Option<Slots>,
    /// What is pinned in the kernel.
    pub kept: Option<KernelKept>,
    /// What this process has changed of itself, and commands of triggers shall not have.
    pub inherited: Option<Inherited>,
    /// The plan's folder has parts of its trace: this session adds further ones.
    pub goes_on: bool,
    /// There was one: what its rules select may have gone meanwhile, which keeps nothing else from being recorded.
    pub is_again: bool,
    /// Where it has written, and those that were killed before it, the last one first.
    pub before: Vec<PathBuf>,
}

/// A session of this name and plan, until `stop` is asked for; what it does meanwhile `orders` say.
///
/// `notify` is called from this thread, which keeps the capabilities that a new layer needs.
///
/// # Errors
/// [`SessionError`]: it could not be made, and nothing is left of it.
pub fn stand(
    name: &str,
    plan: Plan,
    left: LeftByKilled,
    stop: &Stop,
    orders: &Orders,
    notify: &mut dyn FnMut(Notice),
) -> Result<Recording, SessionError> {
    let LeftByKilled { slots, kept, inherited, goes_on, is_again, before } = left;
    plan.check()?;
    memory::reserve(MEMORY_MIN).map_err(|_| SessionError::System {
        what: "reserve 32 MiB of memory (ulimit -v)",
        source: std::io::ErrorKind::OutOfMemory.into(),
    })?;
    Tracefs::prepare();
    keep_for_later();
    let maker = Layers { stop, clock: Arc::new(Clock::new()) };
    // As long as it has none of its own.
    let own = before.iter().filter(|path| is_own(path));
    let parts = own.flat_map(|path| parts_of(path)).take(PARTS_LOOKED_AT).collect();
    let mut standing = Standing::new(name, plan, goes_on, Rc::new(maker), Arc::default())?;
    standing.slots = slots.map(Arc::new);
    standing.inherited = inherited;
    standing.is_again = is_again;
    standing.before = parts;
    standing.kept = kept.filter(|_| standing.plan.keep).map(Arc::new);
    // As long as there is no layer that needs more.
    standing.session.ask_with(Work::Kernel);
    let trusted = standing.slots.as_ref().and_then(|slots| slots.trusted());
    let holds = standing.plan.snapshot;
    let left = trusted.map(|trusted| count_left(trusted, holds)).unwrap_or_default();
    // Now: whoever is killed next does not know it any more.
    left.iter().for_each(|text| notify(Notice::Remark(text.clone())));
    standing.remarks = left;
    if let Err(error) = standing.arm(&standing.plan.clone(), is_again, notify) {
        standing.ground.leave();
        return Err(error);
    }
    let end = standing.serve(stop, orders, notify);
    Ok(standing.destroy(end, stop, notify))
}

impl<'a> Standing<'a> {
    fn new(
        name: &str,
        plan: Plan,
        goes_on: bool,
        maker: Rc<dyn LayerMaker + 'a>,
        memory: Arc<Budget>,
    ) -> Result<Standing<'a>, SessionError> {
        let ground = Ground::begin(&Options { goes_on, ..options(&plan) }, memory)?;
        let session = Session::create(Arc::clone(&ground.context), Vec::new());
        // What is held in memory is settled, which makes room.
        if plan.settle.is_none() {
            ground.context.shared.room().wait();
        }
        let state = SessionState::Created;
        Ok(Standing {
            name: name.to_owned(),
            plan,
            ground,
            session,
            made: Vec::new(),
            state,
            since: None,
            maker,
            triggers: Triggers::default(),
            signals: 0,
            slots: None,
            kept: None,
            inherited: None,
            is_again: false,
            before: Vec::new(),
            remarks: Vec::new(),
        })
    }

    /// Until there is a reason to end.
    fn serve(&mut self, stop: &Stop, orders: &Orders, notify: &mut dyn FnMut(Notice)) -> EndReason {
        loop {
            if self.ground.context.shared.has_failed() || self.session.is_broken() {
                return EndReason::Failure;
            }
            if stop.requests() > 0 {
                return EndReason::Asked(stop.signal());
            }
            match orders.0.recv_timeout(LOOK_PERIOD) {
                Ok(asked) => self.obey(asked, notify),
                Err(RecvTimeoutError::Timeout) => {}
                // Nobody can ask any more: a signal can.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK_PERIOD),
            }
            self.look_around(stop.user_signals(), notify);
            self.look_at_room(notify);
            if let Some(why) = self.ground.look_at_disk() {
                notify(Notice::WaitsForRoom { why });
            }
            self.ground.look_at_rotation(&self.session, notify);
            if let Some(why) = self.slots.as_ref().and_then(|slots| slots.trusted()?.look()) {
                notify(Notice::Remark(why.clone()));
                self.remarks.push(why);
            }
        }
    }

    fn obey(&mut self, asked: ControlRequest, notify: &mut dyn FnMut(Notice)) {
        // Who asked may have gone.
        let _ = match asked {
            ControlRequest::Snapshot(asked) => {
                self.ground.snapshot(&self.session, asked);
                true
            }
            ControlRequest::Start(reply) => reply.send(said(self.start(notify))).is_ok(),
            ControlRequest::Pause(reply) => reply.send(said(self.pause(notify))).is_ok(),
            ControlRequest::Change(change, reply) => {
                reply.send(said(self.change(&change, notify))).is_ok()
            }
            ControlRequest::Rotate(reply) => {
                self.ground.rotate(reply);
                true
            }
            ControlRequest::Settle(above, reply) => {
                match above.or_else(|| self.settle().map(|settle| settle.folder.clone())) {
                    Some(above) => self.ground.settle(above, reply),
                    None => self.ground.settle(PathBuf::new(), reply),
                }
                true
            }
            ControlRequest::Look(reply) => reply.send(Ok(self.look())).is_ok(),
            ControlRequest::Plan(reply) => {
                let plan = Plan { settle: self.settle().cloned(), ..self.plan.clone() };
                reply.send(Ok(plan)).is_ok()
            }
        };
    }

    /// As long as it is held in memory: what is to become of it.
    fn settle(&self) -> Option<&Settle> {
        self.plan.settle.as_ref().filter(|_| self.ground.is_early())
    }

    fn look_at_room(&self, notify: &mut dyn FnMut(Notice)) {
        let Some(settle) = self.settle() else { return };
        if self.ground.look_at_room(settle.size) {
            let folder = self.ground.path().unwrap_or_default();
            notify(Notice::NoRoom { folder, name: self.name.clone() });
        }
    }

    /// Begins to write what is held into this folder.
    fn snapshot(&mut self, output: PathBuf, reply: Sender<Result<Counts, String>>) {
        self.ground
            .snapshot(&self.session, snapshot::SnapshotRequest { output, last: None, reply });
    }

    /// Records from now on, or again.
    fn start(&mut self, notify: &mut dyn FnMut(Notice)) -> Result<(), SessionError> {
        self.seek(notify);
        self.apply(self.plan.clone(), true, notify)?;
        self.state = SessionState::Recording;
        self.since.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Records nothing for now.
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
        let advises = change.each().iter().any(|one| matches!(one, Change::Advise(_)));
        if advises && self.state != SessionState::Created {
            let why = "the session was started already, and its buffers stay as they are. Use `strata create --auto`";
            return Err(PlanError::Nothing { what: "--auto", why }.into());
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
        self.arm(&plan, false, notify)?;
        let done = self.apply(plan, self.state == SessionState::Recording, notify);
        self.triggers.keep(&self.plan, notify);
        self.seek(notify);
        done
    }

    /// Makes layers and tells them what this plan says; which is the session's then. Where one cannot, all is as it
    /// was.
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
        let is_made = |channel: &Channel| {
            self.made.iter().any(|one| one.layer == channel.layer && one.channel == channel.name)
        };
        for channel in plan.channels.iter().filter(|one| records && plan.is_on(one)) {
            if !is_made(channel) {
                new.push(self.make(&plan, channel, notify)?);
            }
        }
        self.tell(&changes)?;
        for (made, layer) in new {
            let folder = folder_of(&made.channel);
            self.session.add(layer, folder, &mut |notice| {
                notify(notice);
                std::ops::ControlFlow::Continue(())
            });
            self.made.push(made);
        }
        for (index, wanted) in changes {
            self.made[index].wanted = wanted;
        }
        self.plan = plan;
        for (index, made) in self.made.iter_mut().enumerate() {
            let channel = self.plan.channel(made.layer, &made.channel);
            let is_on = records && channel.is_some_and(|channel| self.plan.is_on(channel));
            let Some(layer) = self.session.layer(index) else { continue };
            match (is_on, made.is_paused) {
                (true, true) => layer.resume(),
                (false, false) => layer.pause(),
                _ => {}
            }
            made.is_paused = !is_on;
        }
        Ok(())
    }

    /// Changes layers; if one cannot, those before it are changed back.
    fn tell(&mut self, changes: &[(usize, Wanted)]) -> Result<(), SessionError> {
        for (index, wanted) in changes {
            let made = &self.made[*index];
            let Some(layer) = self.session.layer(*index) else { continue };
            check_lacks(made.layer, &**layer, wanted)
                .map_err(|error| self.of_channel(made.layer, &made.channel, error))?;
        }
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
                    self.ground.context.shared.fail(why);
                }
            }
            let made = &self.made[*index];
            return Err(self.of_channel(made.layer, &made.channel, of_plan(error)));
        }
        Ok(())
    }

    /// The error names the channel; not that of a trigger's watcher, to which nobody has given a name.
    fn of_channel(&self, layer: LayerOf, channel: &str, error: SessionError) -> SessionError {
        match self.name.is_empty() {
            true => error,
            false => error.of_channel(layer.name(), channel),
        }
    }

    /// The layer of a channel.
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
        let (ground, below) = (&self.ground.context, folder_of(&channel.name));
        let context = Arc::new(Context {
            shared: Arc::clone(&ground.shared),
            machine: ground.machine.of_mode(options.mode),
            created: ground.created.clone(),
            output: output_below(below.as_deref(), &ground.output),
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
                .map(|all| ChannelKept { all, channel: channel.name.clone() }),
            is_again: self.is_again,
            before: self
                .before
                .iter()
                .map(|one| one.join(below.as_deref().unwrap_or("")))
                .collect(),
        });
        let mut layer = self.maker.make(channel.layer, &options, &context, notify)?;
        check_lacks(channel.layer, &*layer, &wanted)?;
        layer.note_rules(&wanted.rules);
        // The kernel's begins with nothing; the options of applications have rules and contexts.
        if channel.layer == LayerOf::Kernel || !wanted.besides_rules().is_empty() {
            layer.change(&wanted).map_err(of_plan)?;
        }
        let (of, name) = (channel.layer, channel.name.clone());
        Ok((MadeChannel { layer: of, channel: name, wanted, options, is_paused: false }, layer))
    }

    fn look(&self) -> Look {
        let layers = self.session.look();
        let mut figures = Figured::default();
        let mut not_reached: Vec<NotReached> = Vec::new();
        let mut late: Vec<Late> = Vec::new();
        let short = |remark: &String| remark.chars().take(REMARK_LETTERS).collect::<String>();
        let mut remarks: Vec<String> = self.remarks.iter().take(REMARKS_SHOWN).map(short).collect();
        let (mut processes, wall) = (0, wall_ns());
        // All of it has to fit a message.
        let most = (LOSSES_SHOWN / self.plan.channels.len().max(1)).max(1);
        let counted = |look: &LayerLook| Counts {
            discarded: look.losses.discarded,
            demand: look.losses.demand,
            ..Counts::default()
        };
        let channel_look = |channel: &Channel| {
            let index = self
                .made
                .iter()
                .position(|one| one.layer == channel.layer && one.channel == channel.name);
            let look = index.and_then(|index| layers.get(index));
            let options = self.plan.fixed(channel);
            // What was taken up, or was too large for this kernel, has others than are planned.
            let made = look.map(|look| (look.buffers.subbuf_bytes, look.buffers.nr_subbufs));
            let (subbuf_size, num_subbuf) = made
                .filter(|(size, _)| *size > 0)
                .unwrap_or((options.subbuf_bytes, options.nr_subbufs));
            ChannelLook {
                figures: look.map(|look| look.figures).unwrap_or_default(),
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
                fill: look.map(|look| look.fill),
                discards: look
                    .map(|look| losses(&counted(look), &look.losses.streams, wall, most))
                    .unwrap_or_default(),
                advice: look.and_then(|look| advise(&counted(look), &look.buffers)),
                events: channel.events.iter().map(|event| event_look(event, look)).collect(),
            }
        };
        let channels: Vec<ChannelLook> = self.plan.channels.iter().map(channel_look).collect();
        for look in &layers {
            figures.add(&look.figures);
            processes = processes.max(look.processes);
            for one in &look.not_reached {
                if !not_reached.contains(one) {
                    not_reached.push(one.clone());
                }
            }
            for one in &look.remarks {
                let remark = short(one);
                if remarks.len() < REMARKS_SHOWN && !remarks.contains(&remark) {
                    remarks.push(remark);
                }
            }
            // One program may be in several channels.
            for one in &look.late {
                if late.iter().all(|known| known.pid != one.pid) {
                    late.push(one.clone());
                }
            }
        }
        let on = channels.iter().filter(|one| one.enabled).flat_map(|one| &one.events);
        let events: Vec<&EventLook> = on.filter(|event| event.enabled).collect();
        let triggers = self.trigger_looks();
        let gaps = FoundGaps {
            rules: events
                .iter()
                .any(|event| event.matched == Some(0) && event.rule != EVERY_TRACEPOINT),
            filters: events.iter().any(|event| event.is_never),
            triggers: triggers.iter().any(|one| one.report().is_some()),
            not_reached: !not_reached.is_empty(),
            late: !late.is_empty(),
            discarded: figures.discarded > 0 || channels.iter().any(|one| !one.discards.is_empty()),
            overwritten: figures.overwritten > 0 && !self.plan.snapshot,
            damaged: false,
        };
        let (max_memory, memory) = self.ground.context.shared.memory().now();
        Look {
            state: self.state,
            seconds: self.since.map(|since| since.elapsed().as_secs_f64()),
            mode: if self.plan.snapshot { "snapshot" } else { "files" },
            output: self.ground.output().map(|path| path.to_string_lossy().into_owned()),
            settle: self.settle().map(|settle| SettleLook {
                folder: settle.folder.to_string_lossy().into_owned(),
                size: settle.size,
                is_full: self.ground.context.shared.must_wait(),
            }),
            no_room: self.ground.context.shared.room().now(),
            processes,
            cpus: std::fs::read_to_string("/sys/devices/system/cpu/online")
                .ok()
                .map(|list| list.trim().to_owned()),
            kernel_events: self.session.events(),
            snapshots: self.ground.saved(),
            parts: self.ground.parts(),
            figures,
            channels,
            tracked: self.plan.tracked.clone(),
            triggers,
            nr_not_reached: not_reached.len() as u64,
            not_reached: not_reached.iter().take(NOT_REACHED_SHOWN).map(Unreached::from).collect(),
            nr_late: late.len() as u64,
            late: late.into_iter().take(NOT_REACHED_SHOWN).collect(),
            remarks,
            gaps: gaps.gaps(),
            memory,
            max_memory,
        }
    }

    /// How each of its triggers is.
    fn trigger_looks(&self) -> Vec<TriggerLook> {
        let has_programs = self.made.iter().any(|one| one.layer == LayerOf::User);
        self.triggers.looks(self.state != SessionState::Created && !has_programs)
    }

    /// Makes triggers that this plan has more. What was there stays, until the session has the plan: see
    /// [`Triggers::keep`]. `may_lack`: all of it was possible once, and those whose events have gone stay, too.
    ///
    /// # Errors
    /// One cannot be made; none of them is.
    fn arm(
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

    /// Looks once more for events of triggers that were not there.
    fn seek(&mut self, notify: &mut dyn FnMut(Notice)) {
        for index in 0..self.triggers.all.len() {
            let Some(trigger) = self.triggers.all[index].lacking() else { continue };
            let found = self.watcher(&self.plan, &trigger, notify);
            let found = found.map_err(|error| in_words(&error));
            self.triggers.all[index].sought(found, self.signals);
        }
    }

    /// Looks for the events of a trigger of this plan; `None`: it waits for something else.
    ///
    /// # Errors
    /// They cannot be looked for; nothing is left of it.
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
        let memory = Arc::clone(self.ground.context.shared.memory());
        let mut watcher = Standing::new("", empty, false, Rc::clone(&self.maker), memory)?;
        watcher.apply(watching, true, notify)?;
        Ok(Some(Box::new(watcher)))
    }

    /// What has happened meanwhile, and what triggers do then.
    fn look_around(&mut self, signals: u64, notify: &mut dyn FnMut(Notice)) {
        self.signals = signals;
        let ends = self.triggers.new_ends(self.session.take_ends());
        self.triggers.look_at_detaching();
        let now = Instant::now();
        for index in 0..self.triggers.all.len() {
            self.triggers.all[index].look_around(now, signals, &ends);
            self.act(index, notify);
        }
    }

    /// Does what a trigger is to do, as far as it need not wait.
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
                    self.ground.rotate(self.triggers.all[index].rotate());
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
        let path = self.triggers.all[index].save(folder, done)?;
        self.snapshot(path, reply);
        Ok(())
    }

    /// Ends it: traces are complete then.
    fn destroy(mut self, end: EndReason, stop: &Stop, notify: &mut dyn FnMut(Notice)) -> Recording {
        let looks = self.trigger_looks();
        let idle: Vec<_> = looks.iter().filter_map(TriggerLook::report).collect();
        let of_triggers = self.triggers.end();
        self.ground.context.shared.room().end();
        self.session.stop(end);
        notify(Notice::Stopping);
        // They have what was held when they were asked for.
        self.ground.finish_writing(notify);
        let mut ended = self.session.destroy();
        for (one, made) in ended.iter_mut().zip(&self.made) {
            one.report.channel.clone_from(&made.channel);
        }
        // Of channels that were not made again, too.
        if let Some(Err(error)) = self.kept.as_ref().map(|kept| kept.remove()) {
            self.ground.context.shared.fail(error.to_string());
        }
        let shared = Arc::clone(&self.ground.context.shared);
        let has_applications = self.made.iter().any(|one| one.layer == LayerOf::User);
        let since = self.since.unwrap_or_else(Instant::now);
        let mut watch = Watch::new(&shared, stop, since);
        watch.has_applications = has_applications;
        watch.elapsed = since.elapsed();
        let nothing_else = (Vec::new(), Report::default());
        let Recording { mut report, detaching } =
            self.ground.report(&options(&self.plan), &watch, end, ended, nothing_else);
        report.triggers = idle;
        report.remarks.extend(self.slots.as_ref().and_then(|slots| slots.untaken()));
        Recording { report, detaching: detaching.or(of_triggers) }
    }
}

impl Watcher for Standing<'_> {
    fn events(&self) -> u64 {
        self.ground.context.shared.events()
    }

    fn failure(&self) -> Option<String> {
        let shared = &self.ground.context.shared;
        let has_failed = shared.has_failed() || self.session.is_broken();
        has_failed.then(|| shared.failure().unwrap_or_else(|| "a thread has ended".to_owned()))
    }

    fn event_look(&self) -> Option<EventLook> {
        self.look().channels.into_iter().next()?.events.into_iter().next()
    }

    fn follow(&mut self, plan: Plan, notify: &mut dyn FnMut(Notice)) -> Result<(), SessionError> {
        match self.plan == plan {
            true => Ok(()),
            false => self.apply(plan, true, notify),
        }
    }

    fn end(self: Box<Self>) -> Detaching {
        (*self).destroy(EndReason::Asked(None), &Stop::new(), &mut |_| ()).detaching
    }
}

fn event_look(event: &EventRule, look: Option<&LayerLook>) -> EventLook {
    let report = report_of(look, &event.rule);
    let is_of = |one: &&FilterReport| event.enabled && one.rules.contains(&event.rule);
    let filter = look.and_then(|look| look.filters.iter().find(is_of)).map(FilterReport::cut);
    EventLook {
        rule: event.rule.clone(),
        filter: event.filter.clone(),
        exclude: event.exclude.clone(),
        probe: event.probe,
        enabled: event.enabled,
        matched: report.map(|one| one.matched),
        similar: report.map(|one| one.similar.clone()).unwrap_or_default(),
        is_never: filter.as_ref().is_some_and(|one| one.is_never),
        slips: filter.map(|one| one.slips).unwrap_or_default(),
    }
}

/// What became of a rule, if somebody has looked.
fn report_of<'l>(look: Option<&'l LayerLook>, rule: &str) -> Option<&'l RuleReport> {
    look?.rules.iter().find(|one| one.rule == rule)
}

/// What works without the kernel is told in the words of sessions.
fn of_plan(error: SessionError) -> SessionError {
    match error {
        SessionError::Kernel { cause, .. } => {
            let asked = "the kernel's rules (strata disable-event -k --all)".to_owned();
            SessionError::Kernel { cause, asked }
        }
        other => other,
    }
}

/// What all channels have in common.
fn options(plan: &Plan) -> Options {
    Options {
        output: plan.output.clone(),
        hold: plan.snapshot,
        is_early: plan.settle.is_some(),
        rotation: plan.rotation,
        max_memory: plan.max_memory,
        everyone: true,
        ..Options::default()
    }
}

/// Where the traces of a channel are; those of the default one are where `strata record` has them.
fn folder_of(channel: &str) -> Option<String> {
    (channel != CHANNEL).then(|| channel.to_owned())
}

/// # Errors
/// There is something that a layer has no way to record.
fn check_lacks(of: LayerOf, layer: &dyn Layer, wanted: &Wanted) -> Result<(), SessionError> {
    let lacks = layer.lacks(wanted);
    match lacks.is_empty() {
        true => Ok(()),
        false => Err(SessionError::Missing { layer: of.name(), what: lacks.join(", ") }),
    }
}

/// # Errors
/// One selects none of the events that this kernel has, or none passes the filter. Where it cannot be asked, that is said
/// at the start.
fn check_kernel_rules(rules: &[String], filter: Option<&str>) -> Result<(), SessionError> {
    let selecting: Vec<&String> = rules.iter().filter(|rule| !rule.starts_with('!')).collect();
    let Ok(catalog) = kernel::catalog() else { return Ok(()) };
    if selecting.is_empty() {
        return Ok(());
    }
    let found = EventSelection::parse(&selecting)?.apply(&catalog);
    let reports = kernel::rule_reports(found.matched, &catalog);
    let without: Vec<_> = reports.into_iter().filter(|one| one.matched == 0).collect();
    if !without.is_empty() {
        return Err(SessionError::NothingSelected(without));
    }
    match filter {
        Some(filter) => {
            let filter = Filter::parse(filter).map_err(PlanError::from)?;
            kernel::check_new(&selecting, &filter, &catalog)
        }
        None => Ok(()),
    }
}

/// # Errors
/// One of these probes, which the plan has by now, cannot be made beside the others of its channel.
fn check_probes(plan: &Plan, new: &[String]) -> Result<(), SessionError> {
    for channel in plan.channels.iter().filter(|channel| channel.layer == LayerOf::Kernel) {
        let mut probes = plan.wanted(channel)?.rules;
        probes.retain(|rule| rule.probe);
        if probes.iter().any(|rule| new.contains(&rule.text)) {
            kernel::check_new_probes(&probes, new)?;
        }
    }
    Ok(())
}

/// In a sentence, for who asked.
fn said(done: Result<(), SessionError>) -> Result<(), String> {
    done.map_err(|error| in_words(&error))
}

fn in_words(error: &SessionError) -> String {
    match error {
        SessionError::NothingSelected(rules) => {
            let rules = rules.iter().filter(|rule| rule.matched == 0).map(|rule| {
                let names: Vec<String> =
                    rule.similar.iter().take(3).map(|name| format!("'{name}'")).collect();
                let near = match (&rule.excluded, names.is_empty()) {
                    (Some(why), _) => format!(": {why}"),
                    (None, true) => String::new(),
                    (None, false) => format!(". Did you mean {}?", names.join(" or ")),
                };
                format!("rule '{}' selects no event of this kernel{near}", rule.rule)
            });
            let rules: Vec<String> = rules.collect();
            match rules.is_empty() {
                true => error.to_string(),
                false => rules.join("; "),
            }
        }
        // A message is a line: what else there is shows where in the text it is.
        _ => error.in_a_line(),
    }
}

#[cfg(test)]
mod tests;

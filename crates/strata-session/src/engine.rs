//! The engine of every session: one plan, one way to make layers, one loop that waits for requests and for a reason to end,
//! one status, one end. `strata record` is a session that is created, started, awaited and destroyed in one process
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
//! `channels.rs` makes and changes layers, `trigger_actions.rs` runs triggers, `status.rs` says how it is going.
//! All of this is done by the thread that calls [`Engine::serve`]; other threads reach it through [`Orders`].
//!
//! # States
//! ```text
//! created ── start ──▶ recording ⇄ stop, start ⇄ stopped ── destroy, or a reason to end ──▶ report
//! ```
//! A change of the plan is possible in all of them. It is checked as a whole, then applied layer by layer; if one
//! refuses, those before it get the old plan again. A session that was killed is made again from the plan that it
//! has left, and goes on as `is_again`.
//!
//! # One turn of `serve`
//! It looks for a reason to end (`session/wait_for_end.rs`), sleeps until a request comes or a period is over,
//! performs up to `REQUESTS_AT_ONCE` requests, and looks at triggers, free space, rotation and the relay. None of
//! these steps may take long: what does (a snapshot, a rotation, attaching many programs) has threads of its own
//! or reports its progress by a notice.
//!
//! # Time
//! Periods and ends use the session's `TimeSource`, so that unit tests let hours go by. Decisions 0095 and 0098
//! (docs/decisions) say why there is one engine, and 0067 why time is handed in.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use strata_collect::Output;
use strata_model::TimeSource;
use strata_remote::Destination;

use crate::daemon::persistent_kernel::PersistentKernel;
use crate::daemon::slot_file::Slots;
use crate::error::SessionError;
use crate::guest::guest_recorder::Relayed;
use crate::options::{KernelOptions, Options};
use crate::output::folder_mark::Made;
use crate::plan::{LayerOf, Plan, Settle};
use crate::record::command::Inherited;
use crate::report::{Counts, EndReason, Notice};
use crate::session::budget::Budget;
use crate::session::control::{ControlRequest, Orders};
use crate::session::disk::{DiskLimit, LowSpace};
use crate::session::recording_result::Recording;
use crate::session::resources::Resources;
use crate::session::shared_state::Shared;
use crate::session::snapshot;
use crate::session::state::SessionState;
use crate::session::status::{recorded_events, TriggerStatus};
use crate::session::stop::Stop;
use crate::session::wait_for_end::Watch;
use crate::session::Session;
pub(crate) use begun::Begun;
pub(crate) use layers::{LayerMaker, Layers};
use made_channel::MadeChannel;
use triggers::Triggers;
pub(crate) use words::in_words;
use words::said;

mod begun;
mod channels;
mod checks;
mod event_status;
mod layers;
mod made_channel;
mod status;
pub mod trigger;
mod trigger_actions;
mod triggers;
mod watching;
mod words;

/// The most requests that are performed before the session looks at its ends, triggers and disk again. Clients wait for
/// the answer to one request before they send the next, so more of them do not wait longer.
const REQUESTS_AT_ONCE: usize = 32;

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
    pub(crate) kept: Option<Arc<PersistentKernel>>,
    pub(crate) inherited: Option<Inherited>,
    /// True if the session was restored after a kill; see [`crate::session::layer::Context::is_again`].
    pub(crate) is_again: bool,
    /// Folders of earlier sessions of this name, over all channels; see [`crate::session::layer::Context::before`].
    pub(crate) before: Vec<PathBuf>,
    /// True if the trace was still in memory at the last check.
    was_early: bool,
    /// Remarks on the records of a killed session that are in no trace, and on the fdstore.
    pub(crate) remarks: Vec<String>,
    /// The command and the named processes, if there are any.
    pub(crate) begun: Begun,
    /// The user's request to stop, after which no command is started.
    pub(crate) stop: Option<Stop>,
    /// True if the command was started: it is recorded by the layers that exist then.
    has_launched: bool,
    /// The connection to the host's recorder, if this machine is a guest and its trace is sent there.
    pub(crate) relayed: Option<Relayed>,
    /// Time just before the first layers began to record; `None` while nothing has.
    begun_at: Option<Instant>,
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
        Engine::writing_to(None, name, plan, goes_on, maker, memory)
    }

    /// Creates a session like [`Engine::new`]. With `relay`, the trace is sent there, and there is no folder.
    ///
    /// # Errors
    /// The same as of [`Engine::new`].
    pub(crate) fn writing_to(
        relay: Option<Arc<Mutex<dyn Output>>>,
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
        let mut resources = Resources::begin(&options, memory, relay)?;
        resources.snapshot_to = plan.to.clone().filter(|_| plan.snapshot);
        let session = Session::create(Arc::clone(&resources.context));
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
            begun: Begun::default(),
            stop: None,
            has_launched: false,
            relayed: None,
            begun_at: None,
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
        if self.plan.transient.is_foreground {
            let relay = self.plan.transient.relay.as_ref().map(ToString::to_string);
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
        let mut watch = Watch::new(shared, stop, self.since.unwrap_or_else(|| shared.time().now()));
        self.watch_more(&mut watch);
        watch
    }

    /// Sets the ends that the plan names, once the session was started.
    fn watch_more(&mut self, watch: &mut Watch<'_>) {
        let Some(since) = self.since else { return };
        watch.begin = since;
        // A plan's file holds whole milliseconds, and `strata record` ends when it was told to.
        let duration = self.plan.transient.duration.or_else(|| self.plan.until.duration());
        watch.deadline = duration.and_then(|time| since.checked_add(time));
        let limit = self.plan.until.max_bytes.zip(self.resources.path());
        watch.limit =
            limit.map(|(max, path)| (max, DiskLimit::new(max, &path, watch.shared.time())));
        watch.running = self.begun.running.take().or(watch.running.take());
        watch.watched = self.begun.watched.take().or(watch.watched.take());
        watch.has_applications = self.has_applications();
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
        !self.plan.transient.is_none()
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
            ControlRequest::Clear(reply) => {
                self.resources.clear(reply);
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

    /// # Errors
    /// A stop was requested.
    fn check_stop(&self) -> Result<(), SessionError> {
        let stop = self.stop.as_ref().filter(|stop| stop.flow().is_break());
        stop.map_or(Ok(()), |stop| Err(SessionError::Stopped(stop.signal())))
    }

    /// Returns the time by which the session's rules go.
    fn time(&self) -> &TimeSource {
        self.resources.context.shared.time()
    }

    /// Ends a session that could not be started.
    pub(crate) fn give_up(self, stop: &Stop, notify: &mut dyn FnMut(Notice)) {
        let shared = Arc::clone(&self.resources.context.shared);
        let watch = Watch::new(&shared, stop, shared.time().now());
        self.destroy(EndReason::Asked(None), watch, notify);
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
        if let Some(sent) = self.resources.sent() {
            notify(Notice::Sending(sent));
        }
        self.resources.begin_end(stop);
        // Snapshots that are still being written contain what was held when they were requested.
        self.resources.finish_writing(stop, notify);
        let has_applications = self.has_applications();
        let mut ended = self.session.destroy();
        for made in &self.made {
            let Some(one) = ended.get_mut(made.index) else { continue };
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
        if let Some(relayed) = self.relayed.take() {
            relayed.end(shared);
        }
        watch.elapsed = self.since.map_or(Duration::ZERO, |since| shared.time().elapsed(since));
        if end == EndReason::Failure {
            watch.outlast(notify);
        }
        watch.has_applications = has_applications;
        let wants_kernel = self.plan.channels.iter().any(|one| one.layer == LayerOf::Kernel)
            || self.begun.own.no_kernel.is_some();
        let asked = (&options(&self.plan), wants_kernel);
        let Recording { mut report, detaching } =
            self.begun.report(asked, &self.resources, (&watch, end), ended);
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

#[cfg(test)]
mod tests;

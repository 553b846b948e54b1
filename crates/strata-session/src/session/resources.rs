//! The resources of a session: the destination of its traces, the state that its layers share, and its final report.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use strata_collect::{Keep, Output, Sink};
use strata_ctf::end_mark::{EndMark, Losses};
use strata_model::TimeSource;
use strata_remote::Destination;

use crate::error::SessionError;
use crate::options::{Options, Rotation};
use crate::output::chunks::ChunksOutput;
use crate::output::describe::Machine;
use crate::output::folder::{TimeStamp, TraceFolder};
use crate::output::folder_mark::{Made, SessionMark};
use crate::output::retention::{Leavings, RetentionStatus};
use crate::record::command::Running;
use crate::report::SentSoFar;
use crate::report::{
    Buffers, ChunksStatus, EndReason, LayerReport, NotReached, Notice, ProcessReport,
    RecordingTarget, Report, USER,
};
use crate::session::budget::Budget;
use crate::session::clock::wall_ns;
use crate::session::disk::{LowSpace, MinFree};
use crate::session::layer::{Context, LayerEnd};
use crate::session::lock::lock;
use crate::session::recording_result::Recording;
use crate::session::remote::{RemoteStatus, RemoteTrace};
use crate::session::rotation::{Rotated, RotatedOutput, Rotations};
use crate::session::shared_state::Shared;
use crate::session::snapshot::{SnapshotRequest, Snapshots};
use crate::session::stop::Stop;
use crate::session::wait_for_end::Watch;
use crate::session::Session;

/// The resources of a session that exist before anything is recorded: output, relay, limits.
pub(crate) struct Resources {
    pub(crate) context: Arc<Context>,
    /// The output folder; `None` for a session that writes only snapshots.
    pub(crate) folder: Option<Arc<Mutex<ChunksOutput>>>,
    pub(crate) snapshots: RefCell<Snapshots>,
    pub(crate) has_guests: bool,
    /// True if the trace is sent to another machine as it is recorded.
    pub(crate) is_relayed: bool,
    /// The data of a persistent session that are limited, such as old chunks and snapshots; `None` for other
    /// sessions.
    pub(crate) leavings: Option<Arc<Leavings>>,
    /// The space that must stay free on each disk.
    pub(crate) min_free: MinFree,
    /// The rotations of a session that writes continuously.
    pub(crate) rotations: Option<RefCell<Rotations>>,
    /// The relay on another host, if the trace is sent there.
    pub(crate) remote: Option<RemoteTrace>,
    /// The relay to which snapshots are sent, unless a request names another destination.
    pub(crate) snapshot_to: Option<Destination>,
}

/// The output of a session that writes nothing continuously; opening a trace in it is an error.
struct NoOutput;

impl Output for NoOutput {
    fn trace(
        &mut self,
        layer: &str,
        _: Option<(&[u8], u32)>,
    ) -> Result<Box<dyn Sink>, strata_collect::Error> {
        Err(strata_collect::Error::NoMetadata { path: layer.into() })
    }

    fn remove(&mut self, _: &str, _: Box<dyn Sink>) {}
}

impl Resources {
    /// Creates the resources: the output folder, if the session writes one, and the memory budget. With `relay`,
    /// traces are sent to that relay, and no folder is created.
    ///
    /// # Errors
    /// The folder cannot be created or used, or the system refused something. Nothing is left behind.
    pub(crate) fn begin(
        options: &Options,
        memory: Arc<Budget>,
        relay: Option<Arc<Mutex<dyn Output>>>,
    ) -> Result<Resources, SessionError> {
        let system = |what| move |source| SessionError::System { what, source };
        let stamp = TimeStamp::now().map_err(system("tell the time"))?;
        let shared =
            Shared::within(memory, TimeSource::machine()).map_err(system("make an eventfd"))?;
        if let Some(max) = options.max_memory {
            shared.memory().limit(max);
        }
        let machine = Machine::new(options.mode, options.version).recording(options);
        let remote = RemoteTrace::begin(options, &machine, &stamp.name)?;
        let is_relayed = remote.is_some() || relay.is_some();
        let relay = match &remote {
            Some(remote) => {
                shared.set_relay(remote.parts());
                shared.room().wait(MinFree::NONE);
                Some(remote.parts() as Arc<Mutex<dyn Output>>)
            }
            None => relay,
        };
        let mut before = None;
        let folder = match (&options.output, options.hold) {
            (_, true) => None,
            _ if relay.is_some() => None,
            (Some(path), _) if options.goes_on => {
                let (folder, parts) = TraceFolder::go_on(path)?;
                before = Some(parts);
                Some(folder)
            }
            (Some(path), _) => Some(TraceFolder::create(path)?),
            (None, _) => Some(TraceFolder::create_by_time(Path::new(""), &stamp.name)?),
        };
        let mark = options.session.as_deref().map(SessionMark::new);
        let folder = folder.map(|folder| folder.made_by(mark.as_ref(), Made::Trace));
        let folder = folder.map(|folder| match options.is_early {
            true => ChunksOutput::new(folder, &stamp.name).early(),
            false => ChunksOutput::new(folder, &stamp.name),
        });
        let mut folder = folder.map(|folder| folder.of_session(mark));
        if let Some(folder) = &mut folder {
            let bounds = (options.rotation, options.retention);
            if let Err(error) = folder.begin(bounds, before.as_deref()) {
                folder.remove_if_empty();
                return Err(error.into());
            }
        }
        let folder = folder.map(|folder| Arc::new(Mutex::new(folder)));
        let parts = match (&folder, &remote) {
            (Some(folder), _) => Some(RotatedOutput::Folder(Arc::clone(folder))),
            (None, Some(remote)) => Some(RotatedOutput::Relay(remote.parts())),
            (None, None) => None,
        };
        let rotations = parts.map(|parts| Rotations::new(parts, options.rotation, shared.time()));
        let rotations = rotations.map(RefCell::new);
        let context = Arc::new(Context {
            shared,
            machine,
            created: stamp.iso,
            output: match (&folder, relay) {
                (Some(folder), _) => Arc::clone(folder) as Arc<_>,
                (None, Some(relay)) => relay,
                (None, None) => Arc::new(Mutex::new(NoOutput)),
            },
            keep: match options.hold {
                true => Keep::Hold,
                false => Keep::Write { flush: options.flush },
            },
            slots: None,
            kept: None,
            is_again: false,
            before: Vec::new(),
        });
        let (snapshots, has_guests) = (RefCell::default(), !options.guests.is_empty());
        let min_free = options.min_free;
        let leavings = None;
        Ok(Resources {
            context,
            folder,
            snapshots,
            has_guests,
            is_relayed,
            leavings,
            min_free,
            rotations,
            remote,
            snapshot_to: None,
        })
    }

    /// Removes the folder if nothing was recorded.
    pub(crate) fn leave(&self) {
        if let Some(folder) = &self.folder {
            lock(folder).remove_if_empty();
        }
    }

    /// Begins to write a snapshot, without waiting for its end.
    pub(crate) fn snapshot(&self, session: &Session, asked: SnapshotRequest) {
        let output = match &self.remote {
            Some(remote) => Some(PathBuf::from(remote.name())),
            None => self.path(),
        };
        let Some(output) = output else {
            let (shared, min_free) = (&self.context.shared, self.min_free);
            let bounds = (min_free, self.leavings.as_ref());
            let machine = &self.context.machine;
            return self.snapshots.borrow_mut().begin(session, (shared, machine), asked, bounds);
        };
        // The requester may have gone.
        let _ = asked.reply.send(Err(format!(
            "its records are written to '{}' as they come. Snapshots are of sessions that were started \
             with --snapshot",
            output.display()
        )));
    }

    /// Removes in another thread the oldest data of the session that exceed the limits. `folders`: where triggers
    /// save snapshots.
    pub(crate) fn bound_leavings(&self, folders: &[PathBuf]) {
        let Some(leavings) = &self.leavings else { return };
        folders.iter().for_each(|folder| leavings.look_in(folder, Made::OfTrigger));
        if let Some(path) = self.output() {
            leavings.writes_to(&path);
        }
        self.snapshots.borrow_mut().bound(&self.context.shared, leavings);
    }

    /// Returns the limits on data that the session keeps, if there are any. `saves`: true if a trigger saves snapshots.
    pub(crate) fn retention(&self, saves: bool) -> Option<RetentionStatus> {
        let status = self.leavings.as_ref()?.status();
        Some(status).filter(|status| !status.is_default || saves || status.removed > 0)
    }

    /// Requests a rotation of the trace, without waiting for it.
    pub(crate) fn rotate(&self, reply: Sender<Result<Rotated, String>>) {
        match &self.rotations {
            Some(_) if self.has_guests => {
                // The requester may have gone.
                let _ = reply.send(Err(
                    "a guest is recorded, whose traces are written in one piece".to_owned(),
                ));
            }
            Some(rotations) => rotations.borrow_mut().ask(reply),
            None if self.is_relayed => {
                // The requester may have gone.
                let _ = reply.send(Err("its trace goes to a relay in one piece".to_owned()));
            }
            None => {
                let why = "nothing is written of it but snapshots, each a trace by itself: strata snapshot";
                // The requester may have gone.
                let _ = reply.send(Err(why.to_owned()));
            }
        }
    }

    /// Sets the conditions on which the trace is rotated from now on.
    pub(crate) fn set_rotation(&self, rotation: Rotation) {
        if let Some(rotations) = &self.rotations {
            rotations.borrow_mut().set(rotation, self.context.shared.time().now());
        }
    }

    /// Removes what was recorded so far: the present chunk of a trace, or the records in the buffers of a flight
    /// recorder.
    pub(crate) fn clear(&self, reply: Sender<Result<Rotated, String>>) {
        match &self.rotations {
            _ if self.is_relayed => {
                // The requester may have gone.
                let _ = reply
                    .send(Err("its trace goes to a relay, which keeps what it has".to_owned()));
            }
            Some(rotations) if !self.has_guests && !self.is_early() => {
                rotations.borrow_mut().clear(reply);
            }
            Some(_) if self.has_guests => {
                // The requester may have gone.
                let _ = reply.send(Err(
                    "a guest is recorded, whose traces are written in one piece".to_owned(),
                ));
            }
            Some(_) => {
                let why =
                    "its trace is held in memory until it has a place on the disk: strata settle";
                // The requester may have gone.
                let _ = reply.send(Err(why.to_owned()));
            }
            None => {
                self.snapshots.borrow_mut().clear();
                // The requester may have gone.
                let _ = reply.send(Ok(Rotated { chunk: None, present: PathBuf::new() }));
            }
        }
    }

    /// Begins to flush a trace that is held in memory to a new folder in `above`, without waiting for the end.
    pub(crate) fn settle(&self, above: PathBuf, reply: Sender<Result<Rotated, String>>) {
        match &self.rotations {
            Some(rotations) if rotations.borrow().is_early() => {
                self.context.shared.set_must_wait(false);
                rotations.borrow_mut().flush_to_disk(above, reply);
            }
            _ => {
                // The requester may have gone.
                let _ = reply.send(Err("it is written to the disk already".to_owned()));
            }
        }
    }

    /// Returns whether the trace is held in memory.
    pub(crate) fn is_early(&self) -> bool {
        self.rotations.as_ref().is_some_and(|rotations| rotations.borrow().is_early())
    }

    /// Pauses writing while the memory is full in which a trace is held. `size`: limit on that memory \[byte\].
    /// Returns whether it has just become full.
    pub(crate) fn look_at_room(&self, size: u64) -> bool {
        let Some(rotations) = &self.rotations else { return false };
        let shared = &self.context.shared;
        let (was_full, is_full) = (shared.must_wait(), rotations.borrow().is_full(size, shared));
        shared.set_must_wait(is_full);
        is_full && !was_full
    }

    /// Resumes writing once a full disk has space again. Returns a message if the state has changed.
    pub(crate) fn look_at_disk(&self) -> Option<String> {
        let folder = self.folder.as_ref()?;
        let free = lock(folder).free();
        self.context.shared.room().look(free)
    }

    /// Returns the free space of the disk if it has fallen below the limit.
    pub(crate) fn low_space(&self) -> Option<LowSpace> {
        LowSpace::of(lock(self.folder.as_ref()?).free(), self.min_free)
    }

    /// Returns the path of the session's output folder, as the user wrote it.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| lock(folder).path().to_owned())
    }

    /// Returns the absolute path of the output.
    pub(crate) fn output(&self) -> Option<PathBuf> {
        let folder = lock(self.folder.as_ref()?);
        Some(std::path::absolute(folder.path()).unwrap_or_else(|_| folder.path().to_owned()))
    }

    /// Rotates the trace if that is due.
    pub(crate) fn look_at_rotation(&self, session: &Session, notify: &mut dyn FnMut(Notice)) {
        let Some(rotations) = &self.rotations else { return };
        rotations.borrow_mut().look(session, &self.context.shared, notify);
    }

    /// Returns the status of the trace's chunks, if it has any.
    pub(crate) fn chunks(&self) -> Option<ChunksStatus> {
        let rotations = self.rotations.as_ref()?;
        rotations.borrow().chunks(&self.context.shared)
    }

    /// Waits until all requested snapshots are written, and the previous chunk is completed. Another request to stop
    /// gives up the snapshots that wait for a relay.
    pub(crate) fn finish_writing(&self, stop: &Stop, notify: &mut dyn FnMut(Notice)) {
        self.snapshots.borrow_mut().join(&self.context.shared, stop);
        let Some(rotations) = &self.rotations else { return };
        rotations.borrow_mut().join(&self.context.shared, notify);
    }

    /// Returns the number of snapshots that were saved.
    pub(crate) fn saved(&self) -> u64 {
        self.snapshots.borrow().saved()
    }

    /// Returns the final report. It combines the reports of the layers, the processes that do not exist, and the
    /// report on a layer that could not be created.
    pub(crate) fn report(
        &self,
        options: &Options,
        watch: &Watch<'_>,
        end: EndReason,
        ended: Vec<LayerEnd>,
        (absent, of_none): (Vec<NotReached>, Report),
    ) -> Recording {
        let shared = &self.context.shared;
        let mut all = LayerEnd { not_reached: absent, own: of_none, ..LayerEnd::default() };
        let mut layers = Vec::new();
        for one in ended {
            layers.push(one.report);
            all.remarks.extend(one.remarks);
            all.rules.extend(one.rules);
            all.filters.extend(one.filters);
            all.not_reached.extend(one.not_reached);
            all.hidden.extend(one.hidden);
            all.holders.extend(one.holders);
            all.of_lttng.extend(one.of_lttng);
            all.own.add_own(one.own);
            all.remarks.extend(one.detaching.remark().map(str::to_owned));
            all.detaching = all.detaching.or(one.detaching);
        }
        Buffers::note_room(layers.iter_mut().map(|layer: &mut LayerReport| &mut layer.buffers));
        let LayerEnd {
            mut remarks,
            mut not_reached,
            hidden,
            holders,
            rules,
            filters,
            own,
            of_lttng,
            detaching,
            ..
        } = all;
        let applications = layers.iter().find(|one| one.layer == USER);
        let processes = applications.map_or(&[][..], |one| &one.processes[..]);
        match processes.is_empty() {
            // The hidden processes may be the reason why nothing is recorded.
            true => not_reached.extend(hidden),
            false => remarks.extend(hidden.into_iter().map(|one| one.reason)),
        }
        let left_running = match options.everyone {
            true => Vec::new(),
            false => left_running(watch, processes),
        };
        if end == EndReason::Command && left_running.is_empty() {
            remarks.extend(holders.iter().map(|holder| {
                format!(
                    "{holder} runs on and is not recorded: recording ends with the command. `strata \
                     list` shows it if it has tracepoints."
                )
            }));
        }
        let is_recorded =
            layers.iter().flat_map(|one| &one.processes).any(|process| process.folder.is_some());
        self.end_remote(&layers, watch.stop);
        remarks.extend(shared.room().remark());
        remarks.extend(self.remote.as_ref().and_then(RemoteTrace::remark));
        let quota_discarded = self.remote.as_ref().map_or(0, |remote| remote.quota().0);
        if let Some(folder) = &self.folder {
            let mut folder = lock(folder);
            remarks.extend(folder.remark());
            if is_recorded || !folder.remove_if_empty() {
                self.mark(&mut folder, &layers, is_recorded);
            }
        }
        if let Some(folder) = &self.folder {
            let folder = lock(folder);
            for process in layers.iter_mut().flat_map(|layer| &mut layer.processes) {
                for path in [&mut process.folder, &mut process.set_aside].into_iter().flatten() {
                    *path = folder.now(path);
                }
            }
        }
        let (failure, failed_layer) = (shared.failure(), shared.layer_that_failed());
        let is_there = |path: &PathBuf| is_recorded && path.is_dir();
        let report = Report {
            chunks: self.chunks(),
            snapshots: options.hold.then(|| self.saved()),
            output: self.path().filter(is_there),
            relay: options.relay.as_ref().map(ToString::to_string),
            remote: self.remote.as_ref().map(|remote| remote.name().to_owned()),
            quota_discarded,
            asked: match (options.command.is_empty(), options.pids.is_empty()) {
                _ if options.everyone => RecordingTarget::Everyone,
                (false, _) => RecordingTarget::Command,
                (true, false) => RecordingTarget::Processes,
                (true, true) => RecordingTarget::Everyone,
            },
            elapsed: watch.elapsed,
            end: match failure.is_some() && failed_layer.is_none() {
                true => EndReason::Failure,
                false => end,
            },
            rules,
            filters,
            layers,
            not_reached,
            left_running,
            command: watch.running.as_ref().map(Running::end),
            failure,
            failed_layer,
            remarks,
            of_lttng,
            wall_ns: wall_ns(),
            ..own
        };
        Recording { report, detaching }
    }

    /// Notifies about changes of the connection to a relay.
    pub(crate) fn look_at_remote(&self, notify: &mut dyn FnMut(Notice)) {
        let Some(remote) = &self.remote else { return };
        remote.look(&self.context.shared, notify);
        if let Some(why) = self.context.shared.room().look(remote.room()) {
            notify(Notice::Remote(why));
        }
    }

    /// Returns the state of the relay to which the trace or the snapshots are sent.
    pub(crate) fn remote_status(&self) -> Option<RemoteStatus> {
        let of_snapshots = || self.snapshot_to.as_ref().map(RemoteStatus::of_snapshots);
        self.remote.as_ref().map(RemoteTrace::status).or_else(of_snapshots)
    }

    /// Returns a handle to the number of messages that the relay has acknowledged; `None` if the trace is not sent to
    /// a relay.
    pub(crate) fn sent(&self) -> Option<SentSoFar> {
        self.remote.as_ref().map(RemoteTrace::sent)
    }

    /// Prepares the end of the recording. From now on a write waits until the relay takes the data, instead of
    /// discarding them, as long as the relay accepts any.
    pub(crate) fn begin_end(&self, stop: &Stop) {
        let Some(remote) = &self.remote else { return };
        self.context.shared.room().end();
        remote.begin_end(stop);
    }

    /// Sends the end of the recording to the relay, and waits until the relay has received everything.
    fn end_remote(&self, layers: &[LayerReport], stop: &Stop) {
        let Some(remote) = &self.remote else { return };
        let shared = &self.context.shared;
        let losses = Losses { unwritten: unmarked(layers), ..Losses::default() };
        remote.end(shared.ending_of_all(), losses, shared, stop);
    }

    /// Writes the end mark into the output folder. It says how the recording ended, and has the losses that no single
    /// trace reports.
    pub(crate) fn mark(
        &self,
        folder: &mut ChunksOutput,
        layers: &[LayerReport],
        is_recorded: bool,
    ) {
        let unwritten = unmarked(layers);
        let shared = &self.context.shared;
        if !is_recorded && unwritten == 0 && shared.failure().is_none() {
            return;
        }
        let losses = Losses { unwritten, ..Losses::default() };
        let mark = EndMark { ending: shared.ending_of_all(), losses, ..EndMark::default() };
        if let Err(error) = folder.end(&mark) {
            shared.fail_to_write(&error);
        }
    }
}

/// Returns the number of discarded records that the end mark of no trace counts.
fn unmarked(layers: &[LayerReport]) -> u64 {
    let processes = layers.iter().flat_map(|layer| &layer.processes);
    processes.fold(0, |sum: u64, one| sum.saturating_add(one.unmarked))
}

/// Returns the processes of the command that still run.
fn left_running(watch: &Watch<'_>, processes: &[ProcessReport]) -> Vec<u32> {
    let Some(command) = watch.running.as_ref().map(Running::pid) else { return Vec::new() };
    let left = |process: &&ProcessReport| {
        process.is_alive && process.selected > 0 && process.pid != command
    };
    processes.iter().filter(left).map(|one| one.pid).collect()
}

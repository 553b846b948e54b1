//! What a session stands on: where its traces go, what its layers have in common, and what it says at its end.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use strata_collect::{Keep, Output, Relay, Sink};
use strata_ctf::end_mark::{EndMark, Losses};

use crate::error::SessionError;
use crate::options::Options;
use crate::output::describe::Machine;
use crate::output::folder::{TimeStamp, TraceFolder};
use crate::output::parts::PartsOutput;
use crate::record::command::Running;
use crate::report::{
    EndReason, LayerReport, NotReached, Notice, PartsLook, ProcessReport, RecordingTarget, Report,
    USER,
};
use crate::session::budget::Budget;
use crate::session::clock::wall_ns;
use crate::session::layer::{Context, LayerEnd};
use crate::session::lock::lock;
use crate::session::recording::Recording;
use crate::session::rotation::{Rotated, Rotations};
use crate::session::shared::Shared;
use crate::session::snapshot::{SnapshotRequest, Snapshots};
use crate::session::watch::Watch;
use crate::session::Session;

/// See above; before anything runs.
pub(crate) struct Ground {
    pub(crate) context: Arc<Context>,
    /// `None`: nothing is written but snapshots.
    pub(crate) folder: Option<Arc<Mutex<PartsOutput>>>,
    pub(crate) snapshots: RefCell<Snapshots>,
    pub(crate) has_guests: bool,
    /// Where anything else is written.
    pub(crate) rotations: Option<RefCell<Rotations>>,
}

/// The output of a session of which nothing is written.
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

impl Ground {
    /// With the folder that the options name, if anything is written, and buffers that are of this memory.
    ///
    /// # Errors
    /// There is no such folder, or what the system says. Nothing is left of it.
    pub(crate) fn begin(options: &Options, memory: Arc<Budget>) -> Result<Ground, SessionError> {
        Ground::begin_with(options, memory, None)
    }

    /// The same; what is written goes to `relay`, if there is one, and there is no folder.
    ///
    /// # Errors
    /// See there.
    pub(crate) fn begin_with(
        options: &Options,
        memory: Arc<Budget>,
        relay: Option<Arc<Mutex<Relay>>>,
    ) -> Result<Ground, SessionError> {
        let system = |what| move |source| SessionError::System { what, source };
        let stamp = TimeStamp::now().map_err(system("tell the time"))?;
        let shared = Shared::within(memory).map_err(system("make an eventfd"))?;
        if let Some(max) = options.max_memory {
            shared.memory().limit(max);
        }
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
        let mut folder = folder.map(|folder| match options.is_early {
            true => PartsOutput::new(folder, &stamp.name).early(),
            false => PartsOutput::new(folder, &stamp.name),
        });
        if let Some(folder) = &mut folder {
            if let Err(error) = folder.begin(options.rotation, before.as_deref()) {
                folder.remove_if_empty();
                return Err(error.into());
            }
        }
        let folder = folder.map(|folder| Arc::new(Mutex::new(folder)));
        let rotations = folder.clone().map(|parts| Rotations::new(parts, options.rotation));
        let rotations = rotations.map(RefCell::new);
        let context = Arc::new(Context {
            shared,
            machine: Machine::new(options.mode, options.version).recording(options),
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
        Ok(Ground { context, folder, snapshots, has_guests, rotations })
    }

    /// Nothing was recorded, and nothing will be.
    pub(crate) fn leave(&self) {
        if let Some(folder) = &self.folder {
            lock(folder).remove_if_empty();
        }
    }

    /// Begin to write what is held. Nothing is waited for here.
    pub(crate) fn snapshot(&self, session: &Session, asked: SnapshotRequest) {
        let Some(output) = self.path() else {
            return self.snapshots.borrow_mut().begin(session, &self.context.shared, asked);
        };
        // Who asked may have gone.
        let _ = asked.reply.send(Err(format!(
            "its records are written to '{}' as they come. Snapshots are of sessions that were started \
             with --snapshot",
            output.display()
        )));
    }

    /// The trace is to be cut. Nothing is waited for here.
    pub(crate) fn rotate(&self, reply: Sender<Result<Rotated, String>>) {
        match &self.rotations {
            Some(_) if self.has_guests => {
                // Who asked may have gone.
                let _ = reply.send(Err(
                    "a guest is recorded, whose traces are written in one piece".to_owned(),
                ));
            }
            Some(rotations) => rotations.borrow_mut().ask(reply),
            None => {
                let why = "nothing is written of it but snapshots, each a trace by itself: strata snapshot";
                // Who asked may have gone.
                let _ = reply.send(Err(why.to_owned()));
            }
        }
    }

    /// What is held in memory is to be on the disk, in a new folder in this one. Nothing is waited for here.
    pub(crate) fn settle(&self, above: PathBuf, reply: Sender<Result<Rotated, String>>) {
        match &self.rotations {
            Some(rotations) if rotations.borrow().is_early() => {
                self.context.shared.set_must_wait(false);
                rotations.borrow_mut().settle(above, reply);
            }
            _ => {
                // Who asked may have gone.
                let _ = reply.send(Err("it is written to the disk already".to_owned()));
            }
        }
    }

    /// Is it held in memory?
    pub(crate) fn is_early(&self) -> bool {
        self.rotations.as_ref().is_some_and(|rotations| rotations.borrow().is_early())
    }

    /// Of a session that is held in memory, and may take so much of it: stops writing once that is full, and begins again.
    /// Returns whether that is new.
    pub(crate) fn look_at_room(&self, size: u64) -> bool {
        let Some(rotations) = &self.rotations else { return false };
        let shared = &self.context.shared;
        let (was_full, is_full) = (shared.must_wait(), rotations.borrow().is_full(size, shared));
        shared.set_must_wait(is_full);
        is_full && !was_full
    }

    /// On the disk that is written to: goes on once there is some again. Returns what is to be said.
    pub(crate) fn look_at_disk(&self) -> Option<String> {
        let room = self.context.shared.room();
        if !room.is_lacking() {
            return None;
        }
        room.look(self.folder.as_ref().and_then(|folder| lock(folder).free()))
    }

    /// The folder of its traces, as it was named.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| lock(folder).path().to_owned())
    }

    /// The same, from the root on.
    pub(crate) fn output(&self) -> Option<PathBuf> {
        let folder = lock(self.folder.as_ref()?);
        Some(std::path::absolute(folder.path()).unwrap_or_else(|_| folder.path().to_owned()))
    }

    /// Cuts the trace if that is due.
    pub(crate) fn look_at_rotation(&self, session: &Session, notify: &mut dyn FnMut(Notice)) {
        let Some(rotations) = &self.rotations else { return };
        rotations.borrow_mut().look(session, &self.context.shared, notify);
    }

    /// How the trace's parts are, if it has any.
    pub(crate) fn parts(&self) -> Option<PartsLook> {
        let rotations = self.rotations.as_ref()?;
        rotations.borrow().parts(&self.context.shared)
    }

    /// Until all snapshots are written that were asked for, and the part that was begun to be completed is.
    pub(crate) fn finish_writing(&self, notify: &mut dyn FnMut(Notice)) {
        self.snapshots.borrow_mut().join(&self.context.shared);
        let Some(rotations) = &self.rotations else { return };
        rotations.borrow_mut().join(&self.context.shared, notify);
    }

    /// So many were written.
    pub(crate) fn saved(&self) -> u64 {
        self.snapshots.borrow().saved()
    }

    /// What there is to say at the end. Besides what the layers say: who is not there, and what is said of a layer that
    /// is not there.
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
            // It may be for them that there is nothing.
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
        remarks.extend(shared.room().remark());
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
            parts: self.parts(),
            snapshots: options.hold.then(|| self.saved()),
            output: self.path().filter(is_there),
            relay: options.relay.as_ref().map(ToString::to_string),
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

    /// Say in the folder how the recording ended, and what of it no trace in it says.
    pub(crate) fn mark(&self, folder: &mut PartsOutput, layers: &[LayerReport], is_recorded: bool) {
        let processes = layers.iter().flat_map(|layer| &layer.processes);
        let unwritten = processes.fold(0, |sum: u64, one| sum.saturating_add(one.unmarked));
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

/// Processes of the command that run on.
fn left_running(watch: &Watch<'_>, processes: &[ProcessReport]) -> Vec<u32> {
    let Some(command) = watch.running.as_ref().map(Running::pid) else { return Vec::new() };
    let left = |process: &&ProcessReport| {
        process.is_alive && process.selected > 0 && process.pid != command
    };
    processes.iter().filter(left).map(|one| one.pid).collect()
}

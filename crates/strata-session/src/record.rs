//! `strata record`: one session, from its begin to its end, and what there is to say of it.
//!
//! ```text
//! main thread   makes the session, starts the command, waits    here, watch.rs, command.rs, stop.rs
//! layers        threads of their own                            applications.rs, kernel.rs
//! ```
//!
//! A recording never ends, stops or delays a program that it records.

use std::cell::Cell;
use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use strata_collect::{Keep, Output, Sink};
use strata_ctf::end_mark::{EndMark, Losses};
use strata_user::{Clock, Program};

use crate::applications::Applications;
use crate::command::{Inherited, Running};
use crate::control::{controls, Asked, Orders};
use crate::default;
use crate::describe::Machine;
use crate::detach::Detaching;
use crate::disk::DiskLimit;
use crate::error::SessionError;
use crate::filtered;
use crate::folder::{TimeStamp, TraceFolder};
use crate::kernel::{self, KernelLayer};
use crate::layer::{Context, Inheritance, Layer, LayerEnd};
use crate::lock::lock;
use crate::memory;
use crate::options::Options;
use crate::report::{
    Asked as AskedFor, EndReason, LayerReport, NoKernel, NotReached, Notice, ProcessReport, Report,
    USER,
};
use crate::session::Session;
use crate::shared::Shared;
use crate::snapshot::Snapshots;
use crate::stop::Stop;
use crate::watch::Watch;
use crate::watched::Watched;

/// Without so much memory this does not begin: threads that find none for their stacks end the program.
/// \[byte\]
const MEMORY_MIN: usize = 32 << 20;

/// A recording that has ended.
#[derive(Debug)]
pub struct Recording {
    /// What there is to say of it.
    pub report: Report,
    /// What is still to be done in the kernel.
    pub detaching: Detaching,
}

/// Record, as `options` say, until the command ends, the time is over, or somebody asks to stop.
///
/// `notify` is called from this thread. Whatever was recorded when something fails later is kept, and
/// the report says what failed. This thread gives up, for good, the capabilities that recording does not need.
///
/// # Errors
/// [`SessionError`]: it could not begin, and nothing is left of it.
pub fn record(
    options: &Options,
    stop: &Stop,
    notify: &mut dyn FnMut(Notice),
) -> Result<Recording, SessionError> {
    record_with(options, stop, &controls().1, notify)
}

/// The same, which does meanwhile what `orders` ask.
///
/// # Errors
/// [`SessionError`]: it could not begin, and nothing is left of it.
pub fn record_with(
    options: &Options,
    stop: &Stop,
    orders: &Orders,
    notify: &mut dyn FnMut(Notice),
) -> Result<Recording, SessionError> {
    options.check()?;
    let system = |what| move |source| SessionError::System { what, source };
    memory::reserve(MEMORY_MIN).map_err(|_| SessionError::System {
        what: "reserve 32 MiB of memory (ulimit -v)",
        source: io::ErrorKind::OutOfMemory.into(),
    })?;
    // A slip in it is said before anything is made.
    let filter = filtered::program(options)?;
    let inherited = Inherited::prepare().map_err(system("prepare this program"))?;
    let stamp = TimeStamp::now().map_err(system("tell the time"))?;
    let shared = Shared::new().map_err(system("make an eventfd"))?;
    if let Some(max) = options.max_memory {
        shared.memory().limit(max);
    }
    let folder = match (&options.output, options.hold) {
        (_, true) => None,
        (Some(path), _) => Some(TraceFolder::create(path)?),
        (None, _) => Some(TraceFolder::create_by_time(Path::new(""), &stamp.name)?),
    };
    if let Some((Err(error), folder)) = folder.as_ref().map(|folder| (folder.begin(), folder)) {
        folder.remove_if_empty();
        return Err(error.into());
    }
    let path = folder.as_ref().map(|folder| folder.path().to_owned());
    let folder = folder.map(|folder| Arc::new(Mutex::new(folder)));
    let context = Arc::new(Context {
        shared,
        machine: Machine::new(options.mode, options.version),
        created: stamp.iso,
        output: match &folder {
            Some(folder) => Arc::clone(folder) as Arc<_>,
            None => Arc::new(Mutex::new(NoOutput)),
        },
        keep: match options.hold {
            true => Keep::Hold,
            false => Keep::Write { flush: options.flush },
        },
    });
    let saved = Cell::new(0);
    let setup = Setup { options, inherited, context, folder, path, stop, orders, saved };
    let begun = setup.begin(filter, notify);
    match begun {
        Ok(begun) => Ok(setup.run(begun, notify)),
        Err(error) => {
            if let Some(folder) = &setup.folder {
                lock(folder).remove_if_empty();
            }
            Err(error)
        }
    }
}

/// What is there before anything runs.
struct Setup<'a> {
    options: &'a Options,
    inherited: Inherited,
    context: Arc<Context>,
    /// `None`: nothing is written but snapshots.
    folder: Option<Arc<Mutex<TraceFolder>>>,
    path: Option<PathBuf>,
    stop: &'a Stop,
    orders: &'a Orders,
    /// So many snapshots were written.
    saved: Cell<u64>,
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

/// A session that records, and the command if there is one.
struct Begun {
    session: Session,
    /// Processes by number, where a layer does not know of their end.
    watched: Option<Watched>,
    /// Why the kernel is not recorded, if it is by default.
    no_kernel: Option<NoKernel>,
    /// Processes asked for that are not there.
    absent: Vec<NotReached>,
    running: Option<Running>,
    /// When recording began: the command's start is in it.
    since: Instant,
}

impl Setup<'_> {
    /// Make the layers, and start the command.
    fn begin(
        &self,
        filter: Option<Program>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Begun, SessionError> {
        let (options, context) = (self.options, &self.context);
        // The longer it has run when a process is told of it, the better is its rate.
        let clock = Arc::new(Clock::new());
        let (kernel, no_kernel) = self.begin_kernel(notify)?;
        if self.stop.flow().is_break() {
            return Err(SessionError::Stopped(self.stop.signal()));
        }
        let mut layers: Vec<Box<dyn Layer>> = Vec::new();
        if options.records_applications() {
            let plain_too = kernel.as_ref().is_some_and(KernelLayer::is_default);
            layers.push(Box::new(Applications::new(options, context, clock, filter, plain_too)?));
        }
        layers.extend(kernel.map(|layer| Box::new(layer) as Box<dyn Layer>));
        let mut session = Session::create(Arc::clone(context), layers);
        let (mut watched, mut absent) = (None, Vec::new());
        if !options.pids.is_empty() && !session.knows_processes() {
            let (found, missing) = Watched::new(&options.pids);
            watched = Some(found);
            // Else the layer of applications says who is not there.
            if !options.records_applications() {
                absent = missing;
            }
        }
        let since = Instant::now();
        session.start();
        let running = match options.command.is_empty() {
            true => None,
            false => {
                let Inheritance { environment, keep_open } = session.inheritance();
                Some(self.command(&environment, &keep_open)?)
            }
        };
        session.begun(running.as_ref());
        Ok(Begun { session, watched, no_kernel, absent, running, since })
    }

    fn run(&self, begun: Begun, notify: &mut dyn FnMut(Notice)) -> Recording {
        let (mut session, begin) = (begun.session, begun.since);
        let mut watch = Watch {
            running: begun.running,
            has_applications: self.options.records_applications(),
            watched: begun.watched,
            deadline: self.options.duration.and_then(|time| begin.checked_add(time)),
            limit: self
                .options
                .max_bytes
                .zip(self.path.as_ref())
                .map(|(max, path)| (max, DiskLimit::new(max, path))),
            ..Watch::new(&self.context.shared, self.stop, begin)
        };
        let stop = self.stop;
        session.run(&mut |notice| {
            notify(notice);
            stop.flow()
        });
        watch.started(self.path.as_deref(), session.events(), notify);
        let mut snapshots = Snapshots::default();
        let end = watch.wait(notify, &mut || {
            self.obey(&session, &mut snapshots);
            session.is_broken()
        });
        session.stop(end);
        notify(Notice::Stopping);
        // They have what was held when they were asked for.
        snapshots.join(&self.context.shared);
        self.saved.set(snapshots.saved());
        let ended = session.destroy();
        watch.elapsed = begin.elapsed();
        if end == EndReason::Failure {
            watch.outlast(notify);
        }
        self.report(&watch, end, ended, (begun.absent, begun.no_kernel))
    }

    /// Do what is asked meanwhile. Nothing is waited for here.
    fn obey(&self, session: &Session, snapshots: &mut Snapshots) {
        while let Ok(Asked::Snapshot(asked)) = self.orders.0.try_recv() {
            let Some(path) = &self.path else {
                snapshots.begin(session, &self.context.shared, asked);
                continue;
            };
            // Who asked may have gone.
            let _ = asked.reply.send(Err(format!(
                "its records are written to '{}' as they come. Snapshots are of sessions that were started \
                 with --snapshot",
                path.display()
            )));
        }
    }

    /// What there is to say at the end. Besides what the layers say: who is not there, and why there is no kernel.
    fn report(
        &self,
        watch: &Watch<'_>,
        end: EndReason,
        ended: Vec<LayerEnd>,
        (absent, no_kernel): (Vec<NotReached>, Option<NoKernel>),
    ) -> Recording {
        let shared = &self.context.shared;
        let mut all = LayerEnd { not_reached: absent, ..LayerEnd::default() };
        let mut layers = Vec::new();
        for one in ended {
            layers.push(one.report);
            all.remarks.extend(one.remarks);
            all.rules.extend(one.rules);
            all.not_reached.extend(one.not_reached);
            all.hidden.extend(one.hidden);
            all.holders.extend(one.holders);
            all.of_lttng.extend(one.of_lttng);
            all.kernel = all.kernel.or(one.kernel);
            all.remarks.extend(one.detaching.remark());
            all.detaching = all.detaching.or(one.detaching);
        }
        let LayerEnd {
            mut remarks,
            mut not_reached,
            hidden,
            holders,
            rules,
            kernel,
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
        let left_running = match self.options.everyone {
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
        if let Some(folder) = &self.folder {
            let folder = lock(folder);
            remarks.extend(folder.remark());
            if is_recorded || !folder.remove_if_empty() {
                self.mark(&folder, &layers, is_recorded);
            }
        }
        let (failure, failed_layer) = (shared.failure(), shared.layer_that_failed());
        let is_there = |path: &PathBuf| is_recorded && path.is_dir();
        let report = Report {
            snapshots: self.options.hold.then(|| self.saved.get()),
            output: self.path.clone().filter(is_there),
            asked: match (self.options.command.is_empty(), self.options.pids.is_empty()) {
                _ if self.options.everyone => AskedFor::Everyone,
                (false, _) => AskedFor::Command,
                (true, false) => AskedFor::Processes,
                (true, true) => AskedFor::Everyone,
            },
            elapsed: watch.elapsed,
            end: match failure.is_some() && failed_layer.is_none() {
                true => EndReason::Failure,
                false => end,
            },
            rules,
            kernel,
            no_kernel,
            layers,
            not_reached,
            left_running,
            command: watch.running.as_ref().map(Running::end),
            failure,
            failed_layer,
            remarks,
            of_lttng,
            subbuf_bytes: self.options.subbuf_bytes,
            nr_subbufs: self.options.nr_subbufs,
            mode: self.options.mode,
        };
        Recording { report, detaching }
    }

    /// Say in the folder how the recording ended, and what of it no trace in it says.
    fn mark(&self, folder: &TraceFolder, layers: &[LayerReport], is_recorded: bool) {
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

    /// Make the kernel ready to record, if it shall; or say why it is not, if that was nobody's wish.
    fn begin_kernel(
        &self,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(Option<KernelLayer>, Option<NoKernel>), SessionError> {
        let Some(asked) = &self.options.kernel else { return Ok((None, None)) };
        if asked.is_default() && !default::is_wanted(self.options) {
            return Ok((None, None));
        }
        let is_default = asked.is_default();
        let asked = kernel::Asked {
            options: self.options,
            kernel: asked,
            context: &self.context,
            stop: self.stop,
        };
        let begun = match is_default {
            true => default::begin(&asked, notify)?,
            false => Ok(KernelLayer::begin(&asked, notify)?),
        };
        Ok(match begun {
            Ok(layer) => (Some(layer), None),
            Err(why) => {
                notify(Notice::NoKernel(why.clone()));
                (None, Some(why))
            }
        })
    }

    /// Start the command.
    fn command(
        &self,
        environment: &[(OsString, OsString)],
        keep_open: &[BorrowedFd<'_>],
    ) -> Result<Running, SessionError> {
        let with_descendants = self.options.wait_descendants;
        if with_descendants {
            let what = "become the parent of what the command leaves behind (prctl)";
            Running::adopt_descendants().map_err(|source| SessionError::System { what, source })?;
        }
        let command = &self.options.command;
        let running = Running::start(command, environment, keep_open, &self.inherited)?;
        Ok(running.with_descendants(with_descendants))
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

#[cfg(test)]
mod tests;

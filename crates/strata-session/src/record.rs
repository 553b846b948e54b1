//! The command `strata record`: one session, from its beginning to its end, and its report.
//!
//! ```text
//! main thread   creates the session, starts the command, waits  here, watch.rs, command.rs, stop.rs
//! layers        threads of their own                            applications.rs, kernel.rs
//! ```
//!
//! A recording never ends, stops or delays a program that it records.

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use strata_kernel::Inside;
use strata_user::{Clock, Program};

use crate::applications::filtered;
use crate::applications::Applications;
use crate::error::SessionError;
use crate::guest::relayed::Relayed;
use crate::guest::GuestLayer;
use crate::kernel::default;
use crate::kernel::{self, KernelLayer};
use crate::options::Options;
use crate::output::describe::Machine;
use crate::plan::tracked::Tracked;
use crate::record::command::{Inherited, Running};
use crate::record::unpreloaded::Unpreloaded;
use crate::record::watched::Watched;
use crate::report::gaps::FoundGaps;
use crate::report::{EndReason, NoKernel, NotReached, Notice, Report};
use crate::session::control::{controls, ControlRequest, Orders};
use crate::session::disk::DiskLimit;
use crate::session::layer::{Inheritance, Layer};
use crate::session::memory;
use crate::session::recording::Recording;
use crate::session::resources::Resources;
use crate::session::status::{recorded_events, SessionState, Status, StatusFacts};
use crate::session::stop::Stop;
use crate::session::watch::Watch;
use crate::session::Session;

pub mod command;
pub mod named;
mod own_functions;
pub mod preload;
mod unpreloaded;
pub mod watched;

/// The least limit on memory with which to begin: if a thread cannot get a stack, the program would end \[byte\].
pub(crate) const MEMORY_MIN: usize = 32 << 20;

/// Records as `options` say, until the command ends, the time is over, or a stop is requested.
///
/// Calls `notify` from this thread. If something fails later, all that was recorded is kept, and the report has the
/// failure. This thread permanently gives up the capabilities that recording does not need.
///
/// # Errors
/// [`SessionError`]: the recording could not begin, and nothing is left of it.
pub fn record(
    options: &Options,
    stop: &Stop,
    notify: &mut dyn FnMut(Notice),
) -> Result<Recording, SessionError> {
    record_with(options, stop, &controls().1, notify)
}

/// Records like [`record`], and serves the requests of `orders` in the meantime.
///
/// # Errors
/// [`SessionError`]: the recording could not begin, and nothing is left of it.
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
    // Mistakes in the filter are reported before anything is created.
    let filter = filtered::program(options)?;
    let inherited = Inherited::prepare().map_err(system("prepare this program"))?;
    let mut relayed = match &options.relay {
        Some(place) => {
            let machine = Machine::new(options.mode, options.version);
            Some(Relayed::meet(place, &machine, stop, notify)?)
        }
        None => None,
    };
    let output = relayed.as_ref().map(|relayed| Arc::clone(&relayed.output) as Arc<_>);
    let resources = Resources::begin_with(options, Arc::default(), output)?;
    if let Some(relayed) = &mut relayed {
        relayed.listen(stop, &resources.context.shared).map_err(system("make a thread"))?;
    }
    if let Some((low, path)) = resources.low_space().zip(resources.path()) {
        resources.leave();
        return Err(SessionError::Space { path, low });
    }
    // This must happen before capabilities are given up.
    let setup = Setup { options, inherited, resources, stop, orders, inside: Inside::look() };
    let begun = setup.begin(filter, notify);
    match begun {
        Ok(begun) => Ok(setup.run(begun, relayed, notify)),
        Err(error) => {
            setup.resources.leave();
            Err(error)
        }
    }
}

/// The parts of a recording before anything runs.
struct Setup<'a> {
    options: &'a Options,
    inherited: Inherited,
    resources: Resources,
    stop: &'a Stop,
    orders: &'a Orders,
    /// Restrictions of this process's view of the machine, such as those of a container, if there are any.
    inside: Option<Inside>,
}

/// A session that has begun to record, with the command if there is one.
struct Begun {
    session: Session,
    /// Processes named by process id, if a layer does not notice their end.
    watched: Option<Watched>,
    /// Why the kernel is not recorded, if it would have been by default.
    no_kernel: Option<NoKernel>,
    /// Processes that were requested and do not exist.
    absent: Vec<NotReached>,
    running: Option<Running>,
    /// The observer of descendants of the command that have preloaded nothing, or why it cannot work.
    unpreloaded: Option<io::Result<Unpreloaded>>,
    /// Time when recording began, before the command started.
    since: Instant,
}

impl Setup<'_> {
    /// Creates the layers, and starts the command.
    fn begin(
        &self,
        filter: Option<Program>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Begun, SessionError> {
        let (options, context) = (self.options, &self.resources.context);
        // The clock's rate becomes more precise the longer it has run when a process gets it.
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
        let machines = Arc::default();
        for guest in &options.guests {
            layers.push(Box::new(GuestLayer::new(guest, context, &machines)));
        }
        let mut session = Session::create(Arc::clone(context), layers);
        let (mut watched, mut absent) = (None, Vec::new());
        if !options.pids.is_empty() && !session.knows_processes() {
            let (found, missing) = Watched::new(&options.pids);
            watched = Some(found);
            // Otherwise the layer of applications reports the missing processes.
            if !options.records_applications() {
                absent = missing;
            }
        }
        let since = Instant::now();
        session.start();
        let mut unpreloaded = None;
        let running = match options.command.is_empty() {
            true => None,
            false => {
                let Inheritance { environment, keep_open } = session.inheritance();
                Some(self.command(&environment, &keep_open, &mut unpreloaded)?)
            }
        };
        session.begun(running.as_ref());
        Ok(Begun { session, watched, no_kernel, absent, running, unpreloaded, since })
    }

    fn run(
        &self,
        begun: Begun,
        relayed: Option<Relayed>,
        notify: &mut dyn FnMut(Notice),
    ) -> Recording {
        let (mut session, begin) = (begun.session, begun.since);
        let space = || self.resources.low_space();
        let mut watch = Watch {
            running: begun.running,
            has_applications: self.options.records_applications(),
            watched: begun.watched,
            deadline: self.options.duration.and_then(|time| begin.checked_add(time)),
            limit: self
                .options
                .max_bytes
                .zip(self.resources.path())
                .map(|(max, path)| (max, DiskLimit::new(max, &path))),
            space: Some(&space),
            ..Watch::new(&self.resources.context.shared, self.stop, begin)
        };
        let stop = self.stop;
        session.run(&mut |notice| {
            notify(notice);
            stop.flow()
        });
        let relay = self.options.relay.as_ref().map(ToString::to_string);
        let remote = self.resources.remote.as_ref().map(|remote| remote.name().to_owned());
        watch.started(
            self.resources.path().as_deref(),
            (relay, remote),
            recorded_events(&session.statuses()),
            notify,
        );
        let command = watch.running.as_ref().map(Running::pid);
        let end = watch.wait(notify, &mut |notify| {
            self.obey(&session, command, begin);
            self.resources.look_at_rotation(&session, notify);
            self.resources.look_at_remote(notify);
            session.is_broken()
        });
        self.orders.will_end(self.status(&session, command, begin));
        session.stop(end);
        notify(Notice::Stopping);
        self.resources.begin_end(self.stop);
        // Snapshots that are still being written contain what was held when they were requested.
        self.resources.finish_writing(self.stop, notify);
        let ended = session.destroy();
        if let Some(relayed) = relayed {
            relayed.end(&self.resources.context.shared);
        }
        watch.elapsed = begin.elapsed();
        if end == EndReason::Failure {
            watch.outlast(notify);
        }
        let own = Report { no_kernel: begun.no_kernel, ..Report::default() };
        let without = (begun.absent, own);
        let mut recording = self.resources.report(self.options, &watch, end, ended, without);
        let report = &mut recording.report;
        let (records, wants) = (report.kernel.is_some(), self.options.kernel.is_some());
        match begun.unpreloaded {
            Some(Ok(unpreloaded)) => {
                let (programs, remarks) = unpreloaded.finish();
                report.unpreloaded.extend(programs);
                report.remarks.extend(remarks);
            }
            Some(Err(why)) => report.remarks.push(format!(
                "which programs have preloaded nothing is not known: the kernel does not tell it ({why}). As root, or with \
                 kernel.perf_event_paranoid at 2 or less, they are named"
            )),
            None => {}
        }
        report.remarks.extend(self.inside.as_ref().map(|inside| inside.remark(records, wants)));
        recording
    }

    /// Returns the status of the recording, which began at `since` and has started `command`. Whether its rules select
    /// anything is only known at the end.
    fn status(&self, session: &Session, command: Option<u32>, since: Instant) -> Status {
        let facts = StatusFacts {
            state: SessionState::Recording,
            since: Some(since),
            has_plan: false,
            command,
            holds: self.options.hold,
            settle: None,
            retention: None,
            channels: Vec::new(),
            tracked: Tracked::default(),
            triggers: Vec::new(),
            remarks: &[],
            gaps: FoundGaps::default(),
        };
        facts.status(&self.resources, &session.statuses())
    }

    /// Serves pending requests, without waiting for any.
    fn obey(&self, session: &Session, command: Option<u32>, since: Instant) {
        while let Ok(asked) = self.orders.from.try_recv() {
            match asked {
                ControlRequest::Snapshot(asked) => self.resources.snapshot(session, asked),
                ControlRequest::Rotate(reply) => self.resources.rotate(reply),
                ControlRequest::Settle(_, reply) => self.resources.settle(PathBuf::new(), reply),
                ControlRequest::Status(reply) => {
                    // The requester may have gone.
                    let _ = reply.send(Ok(Box::new(self.status(session, command, since))));
                }
                other => other.refuse(
                    "it records what it was told at its begin: it was started by `strata record` with what no plan holds",
                ),
            }
        }
    }

    /// Prepares the kernel's layer, if it is requested. Otherwise returns why it is not recorded, if it would be by
    /// default.
    fn begin_kernel(
        &self,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(Option<KernelLayer>, Option<NoKernel>), SessionError> {
        let Some(asked) = &self.options.kernel else { return Ok((None, None)) };
        if asked.is_default() && !default::is_wanted(self.options) {
            return Ok((None, None));
        }
        let is_default = asked.is_default();
        let asked = kernel::LayerRequest {
            options: &self.options.for_kernel(),
            kernel: asked,
            context: &self.resources.context,
            stop: self.stop,
        };
        let begun = match is_default {
            true => default::begin(&asked, notify)?,
            // Samples next to applications that nobody named: there may be no records of applications.
            false if asked.kernel.samples_only && self.options.rules.is_none() => {
                Ok(KernelLayer::begin(&asked, notify)?.by_default())
            }
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

    /// Starts the command.
    fn command(
        &self,
        environment: &[(OsString, OsString)],
        keep_open: &[BorrowedFd<'_>],
        unpreloaded: &mut Option<io::Result<Unpreloaded>>,
    ) -> Result<Running, SessionError> {
        let with_descendants = self.options.wait_descendants;
        if with_descendants {
            let what = "become the parent of what the command leaves behind (prctl)";
            Running::adopt_descendants().map_err(|source| SessionError::System { what, source })?;
        }
        let command = &self.options.command;
        let preloaded = preload::environment(&self.options.libc, preload::Starter::Own)?;
        // This thread starts the command, and the observer follows the programs that this thread starts.
        *unpreloaded =
            preloaded.as_ref().map(|(_, value)| Unpreloaded::follow(preload::objects(value)));
        let environment: Vec<_> = environment.iter().cloned().chain(preloaded).collect();
        let running = Running::start(command, &environment, keep_open, &self.inherited)?;
        Ok(running.with_descendants(with_descendants))
    }
}

#[cfg(test)]
mod tests;

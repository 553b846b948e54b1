//! `strata record`: one session, from its begin to its end, and what there is to say of it.
//!
//! ```text
//! main thread   makes the session, starts the command, waits    here, watch.rs, command.rs, stop.rs
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
use crate::record::command::{Inherited, Running};
use crate::record::watched::Watched;
use crate::report::{EndReason, NoKernel, NotReached, Notice, Report};
use crate::session::control::{controls, ControlRequest, Orders};
use crate::session::disk::DiskLimit;
use crate::session::ground::Ground;
use crate::session::layer::{Inheritance, Layer};
use crate::session::memory;
use crate::session::recording::Recording;
use crate::session::stop::Stop;
use crate::session::watch::Watch;
use crate::session::Session;

pub mod command;
pub mod named;
pub mod preload;
pub mod watched;

/// Without so much memory this does not begin: threads that find none for their stacks end the program.
/// \[byte\]
pub(crate) const MEMORY_MIN: usize = 32 << 20;

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
    let mut relayed = match &options.relay {
        Some(place) => {
            let machine = Machine::new(options.mode, options.version);
            Some(Relayed::meet(place, &machine, stop, notify)?)
        }
        None => None,
    };
    let output = relayed.as_ref().map(|relayed| Arc::clone(&relayed.output));
    let ground = Ground::begin_with(options, Arc::default(), output)?;
    if let Some(relayed) = &mut relayed {
        relayed.listen(stop, &ground.context.shared).map_err(system("make a thread"))?;
    }
    // Before capabilities are given up.
    let setup = Setup { options, inherited, ground, stop, orders, inside: Inside::look() };
    let begun = setup.begin(filter, notify);
    match begun {
        Ok(begun) => Ok(setup.run(begun, relayed, notify)),
        Err(error) => {
            setup.ground.leave();
            Err(error)
        }
    }
}

/// What is there before anything runs.
struct Setup<'a> {
    options: &'a Options,
    inherited: Inherited,
    ground: Ground,
    stop: &'a Stop,
    orders: &'a Orders,
    /// What is seen of the machine, where that is not all.
    inside: Option<Inside>,
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
        let (options, context) = (self.options, &self.ground.context);
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
        let machines = Arc::default();
        for guest in &options.guests {
            layers.push(Box::new(GuestLayer::new(guest, context, &machines)));
        }
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

    fn run(
        &self,
        begun: Begun,
        relayed: Option<Relayed>,
        notify: &mut dyn FnMut(Notice),
    ) -> Recording {
        let (mut session, begin) = (begun.session, begun.since);
        let mut watch = Watch {
            running: begun.running,
            has_applications: self.options.records_applications(),
            watched: begun.watched,
            deadline: self.options.duration.and_then(|time| begin.checked_add(time)),
            limit: self
                .options
                .max_bytes
                .zip(self.ground.path())
                .map(|(max, path)| (max, DiskLimit::new(max, &path))),
            ..Watch::new(&self.ground.context.shared, self.stop, begin)
        };
        let stop = self.stop;
        session.run(&mut |notice| {
            notify(notice);
            stop.flow()
        });
        let relay = self.options.relay.as_ref().map(ToString::to_string);
        watch.started(self.ground.path().as_deref(), relay, session.events(), notify);
        let end = watch.wait(notify, &mut |notify| {
            self.obey(&session);
            self.ground.look_at_rotation(&session, notify);
            session.is_broken()
        });
        session.stop(end);
        notify(Notice::Stopping);
        // They have what was held when they were asked for.
        self.ground.finish_writing(notify);
        let ended = session.destroy();
        if let Some(relayed) = relayed {
            relayed.end(&self.ground.context.shared);
        }
        watch.elapsed = begin.elapsed();
        if end == EndReason::Failure {
            watch.outlast(notify);
        }
        let own = Report { no_kernel: begun.no_kernel, ..Report::default() };
        let without = (begun.absent, own);
        let mut recording = self.ground.report(self.options, &watch, end, ended, without);
        let report = &mut recording.report;
        let (records, wants) = (report.kernel.is_some(), self.options.kernel.is_some());
        report.remarks.extend(self.inside.as_ref().map(|inside| inside.remark(records, wants)));
        recording
    }

    /// Do what is asked meanwhile. Nothing is waited for here.
    fn obey(&self, session: &Session) {
        while let Ok(asked) = self.orders.0.try_recv() {
            match asked {
                ControlRequest::Snapshot(asked) => self.ground.snapshot(session, asked),
                ControlRequest::Rotate(reply) => self.ground.rotate(reply),
                ControlRequest::Settle(_, reply) => self.ground.settle(PathBuf::new(), reply),
                other => other.refuse(
                    "it records what it was told at its begin: it was started by `strata record` with what no plan holds",
                ),
            }
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
        let asked = kernel::LayerRequest {
            options: &self.options.for_kernel(),
            kernel: asked,
            context: &self.ground.context,
            stop: self.stop,
        };
        let begun = match is_default {
            true => default::begin(&asked, notify)?,
            // Samples besides applications that nobody named: these may have nothing to record.
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
        let preloaded = preload::environment(&self.options.libc, preload::Starter::Own)?;
        let environment: Vec<_> = environment.iter().cloned().chain(preloaded).collect();
        let running = Running::start(command, &environment, keep_open, &self.inherited)?;
        Ok(running.with_descendants(with_descendants))
    }
}

#[cfg(test)]
mod tests;

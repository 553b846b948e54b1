//! The command `strata record`: begins a session whose layers are those of its flags, starts the command, and hands both
//! to the [`Engine`], which ends with the command, the time or a request.
//!
//! ```text
//! main thread   creates the layers, starts the command   here, command.rs
//!               waits, and ends the session              engine.rs, watch.rs, stop.rs
//! layers        threads of their own                     applications.rs, kernel.rs
//! ```
//!
//! A recording never ends, stops or delays a program that it records.

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use strata_kernel::Inside;
use strata_user::{Clock, Program};

use crate::applications::filter_check;
use crate::applications::Applications;
use crate::engine::{Engine, Fixed, Layers};
use crate::error::SessionError;
use crate::guest::guest_recorder::Relayed;
use crate::guest::GuestLayer;
use crate::kernel::default_events;
use crate::kernel::{self, KernelLayer};
use crate::options::Options;
use crate::output::describe::Machine;
use crate::record::command::{Inherited, Running};
use crate::record::unpreloaded::Unpreloaded;
use crate::record::watched::Watched;
use crate::report::{NoKernel, NotReached, Notice, Report};
use crate::session::control::{controls, Orders};
use crate::session::layer::{Context, Inheritance, Layer};
use crate::session::memory;
use crate::session::recording::Recording;
use crate::session::resources::Resources;
use crate::session::stop::Stop;
use crate::session::Session;

pub mod command;
pub mod named;
mod own_functions;
pub mod preload;
pub(crate) mod unpreloaded;
pub mod watched;

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
    memory::reserve_to_begin()?;
    // Mistakes in the filter are reported before anything is created.
    let filter = filter_check::program(options)?;
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
    let inside = Inside::look();
    let clock = Arc::new(Clock::new());
    let setup = Setup { options, inherited, context: &resources.context, stop };
    let begun = match setup.begin(filter, &clock, notify) {
        Ok(begun) => begun,
        Err(error) => {
            resources.leave();
            return Err(error);
        }
    };
    let Begun { mut session, watched, no_kernel, absent, running, unpreloaded, since } = begun;
    session.run(&mut |notice| {
        notify(notice);
        stop.flow()
    });
    let own = Report { no_kernel, ..Report::default() };
    let options = options.clone();
    let fixed =
        Fixed { options, running, watched, since, relayed, own, absent, unpreloaded, inside };
    let maker = Rc::new(Layers { stop, clock });
    Ok(Engine::of_record(fixed, resources, session, maker).run(stop, orders, notify))
}

/// The parts of a recording before anything runs.
struct Setup<'a> {
    options: &'a Options,
    inherited: Inherited,
    context: &'a Arc<Context>,
    stop: &'a Stop,
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
    /// Creates the layers, and starts the command. `clock`: the longer it has run when a process gets it, the more precise
    /// is its rate.
    fn begin(
        &self,
        filter: Option<Program>,
        clock: &Arc<Clock>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Begun, SessionError> {
        let (options, context) = (self.options, self.context);
        let (kernel, no_kernel) = self.begin_kernel(notify)?;
        if self.stop.flow().is_break() {
            return Err(SessionError::Stopped(self.stop.signal()));
        }
        let mut layers: Vec<Box<dyn Layer>> = Vec::new();
        if options.records_applications() {
            let plain_too = kernel.as_ref().is_some_and(KernelLayer::is_default);
            layers.push(Box::new(Applications::new(
                options,
                context,
                Arc::clone(clock),
                filter,
                plain_too,
            )?));
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

    /// Prepares the kernel's layer, if it is requested. Otherwise returns why it is not recorded, if it would be by
    /// default.
    fn begin_kernel(
        &self,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(Option<KernelLayer>, Option<NoKernel>), SessionError> {
        let Some(asked) = &self.options.kernel else { return Ok((None, None)) };
        if asked.is_default() && !default_events::is_wanted(self.options) {
            return Ok((None, None));
        }
        let is_default = asked.is_default();
        let asked = kernel::LayerRequest {
            options: &self.options.for_kernel(),
            kernel: asked,
            context: self.context,
            stop: self.stop,
        };
        let begun = match is_default {
            true => default_events::begin(&asked, notify)?,
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

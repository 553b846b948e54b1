//! The command `strata record`: begins a session whose layers are those of its flags, starts the command, and hands both
//! to the [`Engine`], which ends with the command, the time or a request.
//!
//! ```text
//! main thread   creates the layers, starts the command   here, command.rs
//!               waits, and ends the session              engine.rs, wait_for_end.rs, stop.rs
//! layers        threads of their own                     applications.rs, kernel.rs
//! ```
//!
//! A recording never ends, stops or delays a program that it records.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use strata_kernel::Inside;
use strata_user::{Clock, Program};

use crate::applications::filter_check;
use crate::applications::Applications;
use crate::engine::{Begun, Engine, Fixed, Layers};
use crate::error::SessionError;
use crate::guest::guest_recorder::Relayed;
use crate::guest::GuestLayer;
use crate::kernel::default_events;
use crate::kernel::{self, KernelLayer};
use crate::options::Options;
use crate::output::describe::Machine;
use crate::plan::Transient;
use crate::record::command::Inherited;
use crate::record::launch::launch;
use crate::record::watched::Watched;
use crate::report::{NoKernel, Notice, Report};
use crate::session::control::{controls, Orders};
use crate::session::layer::{Context, Layer};
use crate::session::memory_check;
use crate::session::recording_result::Recording;
use crate::session::resources::Resources;
use crate::session::stop::Stop;
use crate::session::Session;

pub mod command;
pub(crate) mod launch;
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
    memory_check::reserve_to_begin()?;
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
    let resources = Resources::begin(options, Arc::default(), output)?;
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
    let (mut session, begun, since) = match setup.begin(filter, &clock, notify) {
        Ok(begun) => begun,
        Err(error) => {
            resources.leave();
            return Err(error);
        }
    };
    session.run(&mut |notice| {
        notify(notice);
        stop.flow()
    });
    let fixed = Fixed { options: options.clone() };
    let begun = Begun { inside, ..begun };
    let maker = Rc::new(Layers { stop, clock });
    let engine = Engine::of_record((fixed, begun, since), relayed, (resources, session), maker);
    Ok(engine.run(stop, orders, notify))
}

/// The parts of a recording before anything runs.
struct Setup<'a> {
    options: &'a Options,
    inherited: Inherited,
    context: &'a Arc<Context>,
    stop: &'a Stop,
}

impl Setup<'_> {
    /// Creates the layers, and starts the command. Also returns when recording began, before the command started. `clock`:
    /// the longer it has run when a process gets it, the more precise is its rate.
    fn begin(
        &self,
        filter: Option<Program>,
        clock: &Arc<Clock>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<(Session, Begun, Instant), SessionError> {
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
        let (running, unpreloaded) = match options.command.is_empty() {
            true => (None, None),
            false => {
                let asked = Transient {
                    command: options.command.clone(),
                    libc: options.libc.clone(),
                    wait_descendants: options.wait_descendants,
                    ..Transient::default()
                };
                let (running, observer) = launch(&asked, &self.inherited, &session.inheritance())?;
                (Some(running), observer)
            }
        };
        session.begun(running.as_ref());
        let own = Report { no_kernel, ..Report::default() };
        let begun = Begun { running, watched, own, absent, unpreloaded, inside: None };
        Ok((session, begun, since))
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
}

#[cfg(test)]
mod tests;

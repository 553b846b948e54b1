//! A session: layers that are recorded together, from their start to their end. What a layer records is its own
//! affair, and so is where the session's traces go.
//!
//! ```text
//! create    layers that are ready
//! start     they record; the caller starts the command, if there is one
//! run       threads move what is recorded
//! snapshot  what the buffers hold becomes a trace
//! stop      they record no more
//! destroy   all is moved; what each layer has to say
//! ```

use std::sync::Arc;

use strata_user::ask_with_these_rights;

use crate::command::Running;
use crate::layer::{Context, Inheritance, Layer, LayerEnd, Tell};
use crate::privileges::{keep_for, Work};
use crate::report::EndReason;
use crate::threads::{joined, spawn, Ask};

/// A session.
pub(crate) struct Session {
    context: Arc<Context>,
    layers: Vec<Box<dyn Layer>>,
}

impl Session {
    /// A session of these layers, which are ready. Nothing is recorded yet.
    pub(crate) fn create(context: Arc<Context>, layers: Vec<Box<dyn Layer>>) -> Session {
        Session { context, layers }
    }

    /// Records from now on. The thread that calls this starts the command.
    pub(crate) fn start(&mut self) {
        self.layers.iter_mut().for_each(|layer| layer.start());
    }

    /// What a command inherits.
    pub(crate) fn inheritance(&self) -> Inheritance<'_> {
        let mut all = Inheritance::default();
        for of in self.layers.iter().map(|layer| layer.inheritance()) {
            all.environment.extend(of.environment);
            all.keep_open.extend(of.keep_open);
        }
        all
    }

    /// The command was started, if there is one.
    pub(crate) fn begun(&mut self, command: Option<&Running>) {
        self.layers.iter_mut().for_each(|layer| layer.begun(command));
    }

    /// Moves what is recorded, in threads of its own, and lets in who is there already.
    pub(crate) fn run(&mut self, tell: &mut Tell<'_>) {
        let shared = &self.context.shared;
        // What only the begin needs is done.
        keep_for(Work::Everything);
        // Any thread may ask, also one whose own rights are for files.
        let rights = self.layers.first().map_or(Work::Watch, |layer| layer.rights());
        let asking = spawn("strata-rights", rights, shared, || ask_with_these_rights().err());
        if let Some(error) = joined(asking, shared) {
            shared.fail(format!("cannot make a thread: {error}"));
        }
        self.layers.iter_mut().for_each(|layer| layer.run());
        self.layers.iter_mut().for_each(|layer| layer.admit(tell));
        keep_for(Work::Watch);
    }

    /// How many events are recorded, by layers that know that before they happen.
    pub(crate) fn events(&self) -> Option<u64> {
        self.layers.iter().filter_map(|layer| layer.events()).reduce(u64::saturating_add)
    }

    /// Whether all layers know when everybody has ended who was asked for by number.
    pub(crate) fn knows_processes(&self) -> bool {
        self.layers.iter().all(|layer| layer.knows_processes())
    }

    /// Has a thread ended that should not?
    pub(crate) fn is_broken(&self) -> bool {
        self.layers.iter().any(|layer| layer.is_broken())
    }

    /// Asks for what is held, while recording goes on: to be written by whoever has the time, [`crate::snapshot`].
    pub(crate) fn snapshot(&self) -> Vec<Ask> {
        self.layers.iter().map(|layer| layer.snapshot()).collect()
    }

    /// Records no more, for this reason.
    pub(crate) fn stop(&mut self, why: EndReason) {
        self.layers.iter_mut().for_each(|layer| layer.stop());
        self.context.shared.stop(why);
    }

    /// Until all is moved: what each layer has to say, in their order.
    pub(crate) fn destroy(mut self) -> Vec<LayerEnd> {
        self.layers.iter_mut().for_each(|layer| layer.join());
        self.layers.into_iter().map(|layer| layer.end()).collect()
    }
}

#[cfg(test)]
mod tests;

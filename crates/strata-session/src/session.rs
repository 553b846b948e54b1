//! A session: layers that are recorded together, from their start to their end. What a layer records is its own
//! affair, and so is where the session's traces go.
//!
//! ```text
//! create    layers that are ready
//! start     they record; the caller starts the command, if there is one
//! run       threads move what is recorded
//! snapshot  what the buffers hold becomes a trace
//! rotate    traces are completed, and others begin
//! add       a layer more, which records at once; where the session is stopped, not before it goes on
//! pause     they record nothing for now, and resume
//! stop      they record no more
//! destroy   all is moved; what each layer has to say
//! ```

use std::sync::Arc;

use strata_user::ask_with_these_rights;

use crate::output::folder::below;
use crate::record::command::Running;
use crate::report::EndReason;
use crate::session::layer::{Context, EndedProgram, Inheritance, Layer, LayerEnd, LayerLook, Tell};
use crate::session::privileges::{keep_for, Work};
use crate::session::threads::{joined, spawn, Ask, Cut};

pub mod budget;
pub(crate) mod clock;
pub mod control;
pub mod detaching;
pub mod disk;
pub mod failure;
pub mod ground;
pub mod layer;
pub mod lock;
pub mod memory;
pub mod privileges;
pub mod recording;
pub mod room;
pub mod rotation;
pub mod shared;
pub mod snapshot;
pub mod stop;
pub mod threads;
pub mod watch;

/// A session.
pub(crate) struct Session {
    context: Arc<Context>,
    layers: Vec<Box<dyn Layer>>,
    /// Of each layer, the folder of its traces in those of snapshots, if they have one.
    folders: Vec<Option<String>>,
}

impl Session {
    /// A session of these layers, which are ready. Nothing is recorded yet.
    pub(crate) fn create(context: Arc<Context>, layers: Vec<Box<dyn Layer>>) -> Session {
        let folders = layers.iter().map(|_| None).collect();
        Session { context, layers, folders }
    }

    /// One layer more: it records from now on, and so it was told what. Its traces are in this folder of snapshots.
    pub(crate) fn add(
        &mut self,
        mut layer: Box<dyn Layer>,
        folder: Option<String>,
        tell: &mut Tell<'_>,
    ) {
        // Who asks is one for the whole process: what is there for programs still may, whichever session it is of.
        if layer.rights() == Work::Applications {
            self.ask_with(layer.rights());
        }
        layer.start();
        layer.begun(None);
        layer.run();
        layer.admit(tell);
        self.layers.push(layer);
        self.folders.push(folder);
    }

    /// The layer that was added as this one, from 0.
    pub(crate) fn layer(&mut self, index: usize) -> Option<&mut Box<dyn Layer>> {
        self.layers.get_mut(index)
    }

    /// How each layer is, in their order.
    pub(crate) fn look(&self) -> Vec<LayerLook> {
        self.layers.iter().map(|layer| layer.look()).collect()
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
        // What only the begin needs is done.
        keep_for(Work::Everything);
        self.ask_with(self.layers.first().map_or(Work::Watch, |layer| layer.asks_with()));
        self.layers.iter_mut().for_each(|layer| layer.run());
        self.layers.iter_mut().for_each(|layer| layer.admit(tell));
        keep_for(Work::Watch);
    }

    /// Any thread may ask other processes, also one whose own rights are for files.
    pub(crate) fn ask_with(&self, rights: Work) {
        let shared = &self.context.shared;
        let asking = spawn("strata-rights", rights, shared, || ask_with_these_rights().err());
        if let Some(error) = joined(asking, shared) {
            shared.fail(format!("cannot make a thread: {error}"));
        }
    }

    /// How many events are recorded, by layers that know that before they happen.
    pub(crate) fn events(&self) -> Option<u64> {
        self.layers.iter().filter_map(|layer| layer.events()).reduce(u64::saturating_add)
    }

    /// Whether all layers know when everybody has ended who was asked for by number.
    pub(crate) fn knows_processes(&self) -> bool {
        self.layers.iter().all(|layer| layer.knows_processes())
    }

    /// Programs that have ended since this was last asked.
    pub(crate) fn take_ends(&mut self) -> Vec<EndedProgram> {
        self.layers.iter_mut().flat_map(|layer| layer.take_ends()).collect()
    }

    /// Has a thread ended that should not?
    pub(crate) fn is_broken(&self) -> bool {
        self.layers.iter().any(|layer| layer.is_broken())
    }

    /// Asks for what is held, while recording goes on: to be written by whoever has the time, [`crate::session::snapshot`].
    pub(crate) fn snapshot(&self) -> Vec<Ask> {
        let of = |ask: Ask, folder: Option<String>| -> Ask {
            Box::new(move |output, span| ask(&below(folder.as_deref(), output), span))
        };
        let all = self.layers.iter().zip(&self.folders);
        all.map(|(layer, folder)| of(layer.snapshot(), folder.clone())).collect()
    }

    /// Has all layers complete their traces of before; after the output has begun to write to others.
    pub(crate) fn rotate(&self) -> Vec<Cut> {
        self.layers.iter().map(|layer| layer.rotate()).collect()
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

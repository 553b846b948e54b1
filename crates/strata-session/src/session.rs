//! A session: layers that are recorded together, from their start to their end. It does not depend on what a layer
//! records or where traces are written.
//!
//! ```text
//! create    makes a session without layers
//! add       adds layers that are ready: they record from now on, and the command is started with them
//! snapshot  writes what the buffers hold as a trace
//! rotate    completes the present traces, and begins others
//! pause     the layers record nothing until they are resumed
//! stop      the layers stop recording
//! destroy   waits until all packets are moved, and returns the result of each layer
//! ```
//!
//! A [`Layer`] records one kind of source. `add` calls its methods in an order that loses no record: first
//! all layers record (`start`), then the command starts with what it has to inherit, then every layer's buffers are
//! read (`begun`, `run`), and only then a layer searches for processes (`admit`), which may take long.
//!
//! Who calls this is [`crate::engine`]: the loop of a session, which takes changes from a control socket or the command
//! line. One thread owns the session. Each layer has threads of its own, which move packets; they share the time, the
//! output and the failures with the session in a [`Context`]. `snapshot` and `rotate` return the work instead of doing
//! it, so that the owner's thread stays free to answer while another one writes.
//!
//! The modules below are what a session needs besides its layers: rights (`privileges`), limits on memory and disk
//! (`budget`, `memory_check`, `free_space`), the rules for splitting and ending a trace (`rotation`, `wait_for_end`),
//! and what others see of it (`status`, `recording_result`).

use std::sync::Arc;

use strata_user::ask_with_these_rights;

use crate::error::SessionError;
use crate::output::folder::below;
use crate::record::command::Running;
use crate::report::{Buffers, EndReason};
use crate::session::layer::{
    Context, EndedProgram, Inheritance, Layer, LayerEnd, LayerStatus, ProcessLayer, Tell,
};
use crate::session::privileges::Work;
use crate::session::threads::{joined, spawn, Ask, Cut};

pub mod budget;
pub(crate) mod clock;
pub mod control;
pub mod detach_later;
pub mod disk;
pub mod failure;
pub mod free_space;
pub mod layer;
pub mod lock;
pub mod memory_check;
pub mod privileges;
pub mod recording_result;
pub(crate) mod remote;
pub mod resources;
pub mod rotation;
pub mod shared_state;
pub mod snapshot;
pub mod state;
pub mod status;
pub mod stop;
pub mod threads;
pub mod wait_for_end;

/// A session and its layers.
pub(crate) struct Session {
    context: Arc<Context>,
    layers: Vec<Box<dyn Layer>>,
    /// For each layer, the folder of its traces within snapshots, if it has one.
    folders: Vec<Option<String>>,
}

impl Session {
    /// Creates a session without layers. Nothing is recorded yet.
    pub(crate) fn create(context: Arc<Context>) -> Session {
        Session { context, layers: Vec::new(), folders: Vec::new() }
    }

    /// Returns the number of layers.
    pub(crate) fn nr_layers(&self) -> usize {
        self.layers.len()
    }

    /// Adds layers, which record from now on, with the folders of their traces within snapshots. Then `launch` starts
    /// the command, if there is one.
    ///
    /// # Errors
    /// The command cannot be started; the layers are ended.
    pub(crate) fn add(
        &mut self,
        mut new: Vec<(Box<dyn Layer>, Option<String>)>,
        launch: &mut Launch<'_>,
        tell: &mut Tell<'_>,
    ) -> Result<Option<Running>, SessionError> {
        // The rights for questions apply to the whole process. Rights for programs are kept, whichever session they
        // belong to.
        if new.iter().any(|(layer, _)| layer.asks_with() == Work::Applications) {
            self.ask_with(Work::Applications);
        }
        new.iter_mut().for_each(|(layer, _)| layer.start());
        let running = launch(&inheritance(new.iter_mut().map(|(layer, _)| layer)))?;
        // All layers' buffers are read before any layer takes its time to search for processes.
        new.iter_mut().for_each(|(layer, _)| layer.begun(running.as_ref()));
        new.iter_mut().for_each(|(layer, _)| layer.run());
        let of_processes = new.iter_mut().filter_map(|(layer, _)| layer.processes());
        of_processes.for_each(|layer| layer.admit(tell));
        for (layer, folder) in new {
            self.layers.push(layer);
            self.folders.push(folder);
        }
        Ok(running)
    }

    /// Returns the layer that was added as number `index`, from 0.
    pub(crate) fn layer(&mut self, index: usize) -> Option<&mut Box<dyn Layer>> {
        self.layers.get_mut(index)
    }

    /// Returns the status of each layer, in the order in which they were added.
    pub(crate) fn statuses(&self) -> Vec<LayerStatus> {
        let mut statuses: Vec<LayerStatus> =
            self.layers.iter().map(|layer| layer.status()).collect();
        Buffers::note_room(statuses.iter_mut().map(|one| &mut one.buffers));
        statuses
    }

    /// Sets the rights with which the session examines other processes. Threads without these rights can then ask
    /// for such an examination.
    pub(crate) fn ask_with(&self, rights: Work) {
        let shared = &self.context.shared;
        let asking = spawn("strata-rights", rights, shared, || ask_with_these_rights().err());
        if let Some(error) = joined(asking, shared) {
            shared.fail(format!("cannot make a thread: {error}"));
        }
    }

    /// Returns whether the layers themselves notice the end of all processes that the user named by process id.
    pub(crate) fn knows_processes(&mut self) -> bool {
        self.layers.iter_mut().all(|layer| layer.processes().is_some())
    }

    /// Makes each layer update which processes are tracked. Returns recorded programs that have ended since the last
    /// call.
    pub(crate) fn look_around(&mut self) -> Vec<EndedProgram> {
        self.layers.iter_mut().flat_map(|layer| layer.look_around()).collect()
    }

    /// Returns whether a thread has ended unexpectedly.
    pub(crate) fn is_broken(&self) -> bool {
        self.layers.iter().any(|layer| layer.is_broken())
    }

    /// Returns each layer's request for a snapshot, which another thread may carry out: [`crate::session::snapshot`].
    pub(crate) fn snapshot(&self) -> Vec<Ask> {
        let of = |ask: Ask, folder: Option<String>| -> Ask {
            Box::new(move |output, span| ask(&below(folder.as_deref(), output), span))
        };
        let all = self.layers.iter().zip(&self.folders);
        all.map(|(layer, folder)| of(layer.snapshot(), folder.clone())).collect()
    }

    /// Returns each layer's request to complete its present traces. Call this after the output has begun the next
    /// chunk.
    pub(crate) fn rotate(&self) -> Vec<Cut> {
        self.layers.iter().map(|layer| layer.rotate()).collect()
    }

    /// Stops recording, for this reason.
    pub(crate) fn stop(&mut self, why: EndReason) {
        self.layers.iter_mut().for_each(|layer| layer.stop());
        self.context.shared.stop(why);
    }

    /// Waits until all packets are taken from the buffers, and ends all layers. Returns their results in order.
    pub(crate) fn destroy(mut self) -> Vec<LayerEnd> {
        self.layers.iter_mut().for_each(|layer| layer.join());
        self.layers.into_iter().map(|layer| layer.end()).collect()
    }
}

/// Callback that starts the command with what it must inherit; `None` if there is no command.
pub(crate) type Launch<'l> =
    dyn FnMut(&Inheritance<'_>) -> Result<Option<Running>, SessionError> + 'l;

fn inheritance<'l>(layers: impl Iterator<Item = &'l mut Box<dyn Layer>>) -> Inheritance<'l> {
    let mut all = Inheritance::default();
    for layer in layers.filter_map(|layer| layer.processes()) {
        let layer: &'l dyn ProcessLayer = layer;
        let of = layer.inheritance();
        all.environment.extend(of.environment);
        all.keep_open.extend(of.keep_open);
    }
    all
}

#[cfg(test)]
mod tests;

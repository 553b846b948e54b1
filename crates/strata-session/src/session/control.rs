//! What other threads ask of a recording while it runs.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::Duration;

use strata_model::Counts;

use crate::plan::{Change, Plan};
use crate::session::rotation::Rotated;
use crate::session::snapshot;
use crate::standing::Look;

/// Where an answer goes: why not, in a sentence. Who asked may have gone.
type ReplyTo<T> = Sender<Result<T, String>>;

/// One thing to do.
pub(crate) enum ControlRequest {
    /// Write what the buffers hold, and say what that was.
    Snapshot(snapshot::SnapshotRequest),
    /// Record, from now on or again.
    Start(ReplyTo<()>),
    /// Record nothing for now.
    Pause(ReplyTo<()>),
    /// Record something else.
    Change(Box<Change>, ReplyTo<()>),
    /// Write to a new part of the trace from now on, and say which one is complete.
    Rotate(ReplyTo<Rotated>),
    /// Write what is held in memory to a new folder in this one, or in that of its plan, and go on there.
    Settle(Option<PathBuf>, ReplyTo<Rotated>),
    /// Say how it is.
    Look(ReplyTo<Look>),
    /// Say what is recorded.
    Plan(ReplyTo<Plan>),
}

impl ControlRequest {
    /// It is not done, for this reason.
    pub(crate) fn refuse(self, why: &str) {
        let why = why.to_owned();
        let _ = match self {
            ControlRequest::Snapshot(asked) => asked.reply.send(Err(why)).is_ok(),
            ControlRequest::Start(reply)
            | ControlRequest::Pause(reply)
            | ControlRequest::Change(_, reply) => reply.send(Err(why)).is_ok(),
            ControlRequest::Rotate(reply) | ControlRequest::Settle(_, reply) => {
                reply.send(Err(why)).is_ok()
            }
            ControlRequest::Look(reply) => reply.send(Err(why)).is_ok(),
            ControlRequest::Plan(reply) => reply.send(Err(why)).is_ok(),
        };
    }
}

/// Asks a recording; clones are the same.
#[derive(Clone, Debug)]
pub struct Controls(Sender<ControlRequest>);

/// Where a recording hears what it is asked.
#[derive(Debug)]
pub struct Orders(pub(crate) Receiver<ControlRequest>);

/// Both ends, for one recording.
#[must_use]
pub fn controls() -> (Controls, Orders) {
    let (sender, receiver) = channel();
    (Controls(sender), Orders(receiver))
}

impl Controls {
    fn ask<T>(&self, asked: impl FnOnce(ReplyTo<T>) -> ControlRequest) -> Result<T, String> {
        let (reply, answer) = channel();
        let over = || "it has ended meanwhile".to_owned();
        self.0.send(asked(reply)).map_err(|_| over())?;
        answer.recv().map_err(|_| over())?
    }

    /// Has it write what its buffers hold into the folder `output`, which is new or empty, while it goes on.
    /// `last`: only what is in packets that do not end longer ago. Returns what was written.
    ///
    /// # Errors
    /// Why not, in a sentence.
    pub fn snapshot(&self, output: &Path, last: Option<Duration>) -> Result<Counts, String> {
        let output = output.to_owned();
        self.ask(|reply| {
            ControlRequest::Snapshot(snapshot::SnapshotRequest { output, last, reply })
        })
    }

    /// Has it record, from now on or again.
    ///
    /// # Errors
    /// Why not; it is as it was.
    pub fn start(&self) -> Result<(), String> {
        self.ask(ControlRequest::Start)
    }

    /// Has it record nothing, until [`Controls::start`].
    ///
    /// # Errors
    /// Why not.
    pub fn pause(&self) -> Result<(), String> {
        self.ask(ControlRequest::Pause)
    }

    /// Has it record something else.
    ///
    /// # Errors
    /// Why not; it is as it was.
    pub fn change(&self, change: Change) -> Result<(), String> {
        self.ask(|reply| ControlRequest::Change(Box::new(change), reply))
    }

    /// Has it go on in a new part of the trace. Returns which one is complete by now.
    ///
    /// # Errors
    /// Why not; it goes on as it was.
    pub fn rotate(&self) -> Result<Rotated, String> {
        self.ask(ControlRequest::Rotate)
    }

    /// Has it write what it holds in memory to a new folder in `above`, or in that of its plan, and go on there. Returns
    /// where that is.
    ///
    /// # Errors
    /// Why not; it goes on as it was.
    pub fn settle(&self, above: Option<PathBuf>) -> Result<Rotated, String> {
        self.ask(|reply| ControlRequest::Settle(above, reply))
    }

    /// How it is.
    ///
    /// # Errors
    /// It is over, or of those that have no plan.
    pub fn look(&self) -> Result<Look, String> {
        self.ask(ControlRequest::Look)
    }

    /// What it records.
    ///
    /// # Errors
    /// It is over, or of those that have no plan.
    pub fn plan(&self) -> Result<Plan, String> {
        self.ask(ControlRequest::Plan)
    }
}

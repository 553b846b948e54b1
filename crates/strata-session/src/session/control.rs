//! Requests from other threads to a running recording.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use strata_model::Counts;
use strata_remote::Destination;

use crate::output::folder_mark::Made;
use crate::plan::{Change, Plan};
use crate::session::rotation::Rotated;
use crate::session::snapshot;
use crate::session::state::SessionState;
use crate::session::status::Status;

/// Sender for the answer to a request, or for the reason of its refusal. The receiver may be gone.
type ReplyTo<T> = Sender<Result<T, String>>;

/// A request to a recording.
pub(crate) enum ControlRequest {
    /// Writes a snapshot of what the buffers hold, and answers how much was written.
    Snapshot(snapshot::SnapshotRequest),
    /// Starts or resumes recording.
    Start(ReplyTo<()>),
    /// Pauses recording.
    Pause(ReplyTo<()>),
    /// Changes what is recorded.
    Change(Box<Change>, ReplyTo<()>),
    /// Completes the present chunk of the trace and begins the next.
    Rotate(ReplyTo<Rotated>),
    /// Removes what was recorded so far, and goes on.
    Clear(ReplyTo<Rotated>),
    /// Flushes the trace from memory to a new folder within this folder, or within that of the plan, and continues
    /// there.
    Settle(Option<PathBuf>, ReplyTo<Rotated>),
    /// Sends the status to the requester.
    Status(ReplyTo<Box<Status>>),
    /// Sends the plan to the requester.
    Plan(ReplyTo<Plan>),
}

/// The sender of requests to a recording. Clones send to the same recording.
#[derive(Clone, Debug)]
pub struct Controls {
    to: Sender<ControlRequest>,
    last: Arc<OnceLock<Status>>,
}

/// The receiver of a recording's requests.
#[derive(Debug)]
pub struct Orders {
    pub(crate) from: Receiver<ControlRequest>,
    /// The final status of the recording, which answers requests for the status after the recording has ended.
    last: Arc<OnceLock<Status>>,
}

impl Orders {
    /// Waits for the next request, at most for `time`.
    pub(crate) fn next(&self, time: Duration) -> Option<ControlRequest> {
        match self.from.recv_timeout(time) {
            Ok(asked) => Some(asked),
            Err(RecvTimeoutError::Timeout) => None,
            // No more requests can arrive, but a signal can.
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(time);
                None
            }
        }
    }

    /// Notes that the recording ends now, with this final status. Requests for the status get it while the buffers
    /// are still being written.
    pub(crate) fn will_end(&self, status: Status) {
        let _ = self.last.set(Status { state: SessionState::Stopping, ..status });
    }
}

/// Creates both ends of the request channel for one recording.
#[must_use]
pub fn controls() -> (Controls, Orders) {
    let (to, from) = channel();
    let last = Arc::default();
    (Controls { to, last: Arc::clone(&last) }, Orders { from, last })
}

impl Controls {
    fn ask<T>(&self, asked: impl FnOnce(ReplyTo<T>) -> ControlRequest) -> Result<T, String> {
        let (reply, answer) = channel();
        let over = || "it has ended meanwhile".to_owned();
        self.to.send(asked(reply)).map_err(|_| over())?;
        answer.recv().map_err(|_| over())?
    }

    /// Writes a snapshot of what the buffers hold into the folder `output`, which is new or empty, while recording
    /// goes on. `last`: limits the snapshot to packets that ended within this time. Returns the counts of what was
    /// written.
    ///
    /// # Errors
    /// Why no snapshot was written, as a sentence.
    pub fn snapshot(&self, output: &Path, last: Option<Duration>) -> Result<Counts, String> {
        self.save(output, None, last, Made::Snapshot)
    }

    /// Sends a snapshot to a relay. Its name there is the last part of the path `output`.
    ///
    /// # Errors
    /// Why no snapshot was sent, as a sentence.
    pub fn send_snapshot(
        &self,
        output: &Path,
        to: Destination,
        last: Option<Duration>,
    ) -> Result<Counts, String> {
        self.save(output, Some(to), last, Made::Snapshot)
    }

    /// Writes a snapshot that counts as a trigger's: of those, only the newest are kept.
    ///
    /// # Errors
    /// Why no snapshot was written, as a sentence.
    pub fn bounded_snapshot(
        &self,
        output: &Path,
        last: Option<Duration>,
    ) -> Result<Counts, String> {
        self.save(output, None, last, Made::OfTrigger)
    }

    fn save(
        &self,
        output: &Path,
        to: Option<Destination>,
        last: Option<Duration>,
        made: Made,
    ) -> Result<Counts, String> {
        let output = output.to_owned();
        self.ask(|reply| {
            let asked = snapshot::SnapshotRequest { output, to, last, made, reply };
            ControlRequest::Snapshot(asked)
        })
    }

    /// Sends a request without waiting for the answer.
    #[cfg(test)]
    pub(crate) fn post(&self, asked: ControlRequest) {
        self.to.send(asked).unwrap();
    }

    /// Starts or resumes recording.
    ///
    /// # Errors
    /// Why recording cannot start; nothing is changed.
    pub fn start(&self) -> Result<(), String> {
        self.ask(ControlRequest::Start)
    }

    /// Pauses recording until [`Controls::start`].
    ///
    /// # Errors
    /// Why recording cannot be paused.
    pub fn pause(&self) -> Result<(), String> {
        self.ask(ControlRequest::Pause)
    }

    /// Changes what is recorded.
    ///
    /// # Errors
    /// Why the change is not possible; nothing is changed.
    pub fn change(&self, change: Change) -> Result<(), String> {
        self.ask(|reply| ControlRequest::Change(Box::new(change), reply))
    }

    /// Starts a new chunk of the trace. Returns the chunk that is complete now.
    ///
    /// # Errors
    /// Why the trace cannot be rotated; it goes on in the present chunk.
    pub fn rotate(&self) -> Result<Rotated, String> {
        self.ask(ControlRequest::Rotate)
    }

    /// Removes what was recorded so far, and goes on. For a trace that is its present chunk, which is returned; for a
    /// flight recorder, the records in the buffers.
    ///
    /// # Errors
    /// Why it cannot be removed.
    pub fn clear(&self) -> Result<Rotated, String> {
        self.ask(ControlRequest::Clear)
    }

    /// Flushes the trace from memory to a new folder in `above`, or in the plan's folder, and continues there. Returns
    /// the new place.
    ///
    /// # Errors
    /// Why the trace cannot be flushed; it stays in memory.
    pub fn settle(&self, above: Option<PathBuf>) -> Result<Rotated, String> {
        self.ask(|reply| ControlRequest::Settle(above, reply))
    }

    /// Returns the status.
    ///
    /// # Errors
    /// The recording ended before it began.
    pub fn status(&self) -> Result<Status, String> {
        let last = || self.last.get().cloned();
        match last() {
            Some(status) => Ok(status),
            None => match self.ask(ControlRequest::Status) {
                Ok(status) => Ok(*status),
                Err(why) => last().ok_or(why),
            },
        }
    }

    /// Returns the plan.
    ///
    /// # Errors
    /// The recording has ended.
    pub fn plan(&self) -> Result<Plan, String> {
        self.ask(ControlRequest::Plan)
    }
}

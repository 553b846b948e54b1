//! Rotation splits the trace of a session into chunks. Each rotation is done by a thread of its own, while the session
//! goes on and answers requests. Only one runs at a time: requests that arrive in the meantime are answered by the next
//! one.
//!
//! ```text
//! held packets   are written: their traces begin in the present chunk
//! next chunk     is created, with its folder and end mark; if that fails, nothing is changed
//! cut            each pump completes its traces one after the other; new traces are in the next chunk
//! last chunk     its traces are finished, and its end mark is written
//! limits         chunks above the limits are removed
//! ```
//!
//! Flushing a trace from memory to disk works the same way: the next chunk is in another folder, to which the earlier
//! chunks are then copied.
//!
//! A trace that goes to a relay is split in the same way. There each chunk is a recording by itself, and the relay limits
//! how many there are.
//!
//! # States
//! ```text
//! idle ── asked, or due by size or time ──▶ running (thread strata-rotate) ── joined ──▶ idle; after a failure for at least RETRY
//! ```
//! [`Rotations::look`] is called by the engine's thread in each of its turns: it begins, joins and reports
//! rotations, and never waits for one. A rotation is due only if the present chunk has records, and not while the
//! disk is full. The layers are asked for their cuts before the next chunk exists and again after, since a layer
//! that begins between the two would be in no rotation. docs/decisions/0023 says why a rotation is made this way.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use strata_collect::Output;
use strata_model::TimeSource;

use crate::options::Rotation;
use crate::output::chunks::ChunksOutput;
use crate::output::folder::{TimeStamp, TraceFolder};
use crate::output::relay_parts::RelayParts;
use crate::report::{ChunkStatus, ChunksStatus, Notice};
use crate::session::lock::lock;
use crate::session::privileges::Work;
use crate::session::shared_state::Shared;
use crate::session::threads::{joined, spawn, Cut};
use crate::session::Session;

/// The pause after a failed rotation before another one begins automatically.
const RETRY: Duration = Duration::from_secs(10);

/// Memory that must stay free for other uses when a trace is held in memory \[byte\].
const SPARE_BYTES: u64 = 4 << 20;

/// The result of a rotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rotated {
    /// The completed chunk; `None` if nothing was recorded in it, so that it was removed.
    pub chunk: Option<ChunkStatus>,
    /// The folder of the chunk that is being written.
    pub present: PathBuf,
}

/// The channel for the answer to a request.
type RotationReply = Sender<Result<Rotated, String>>;

/// The output that is split into chunks.
#[derive(Clone)]
pub(crate) enum RotatedOutput {
    /// The trace is in a folder on this machine.
    Folder(Arc<Mutex<ChunksOutput>>),
    /// The trace goes to a relay on another host.
    Relay(Arc<Mutex<RelayParts>>),
}

impl RotatedOutput {
    fn output(&self) -> Arc<Mutex<dyn Output>> {
        match self {
            RotatedOutput::Folder(chunks) => Arc::clone(chunks) as Arc<Mutex<dyn Output>>,
            RotatedOutput::Relay(parts) => Arc::clone(parts) as Arc<Mutex<dyn Output>>,
        }
    }

    /// Returns whether the trace is held in memory.
    fn is_early(&self) -> bool {
        matches!(self, RotatedOutput::Folder(chunks) if lock(chunks).is_early())
    }

    /// Returns the number of records and bytes in the present chunk, given those of the whole recording.
    fn in_present(&self, records: u64, bytes: u64) -> (u64, u64) {
        match self {
            RotatedOutput::Folder(chunks) => lock(chunks).in_present(records, bytes),
            RotatedOutput::Relay(parts) => lock(parts).in_present(records, bytes),
        }
    }

    /// Starts a new chunk. `flush_in`: the folder in which the new folder on disk is created, if the trace is to be flushed.
    fn begin_next(&self, flush_in: Option<&Path>) -> Result<(), String> {
        match (self, flush_in) {
            (RotatedOutput::Folder(chunks), Some(folder)) => begin_flushed(chunks, folder),
            (RotatedOutput::Folder(chunks), None) => lock(chunks).begin_next(),
            (RotatedOutput::Relay(parts), _) => {
                let now = TimeStamp::now().map_err(|error| format!("tell the time: {error}"))?;
                lock(parts).begin_next(&now.name)
            }
        }
    }

    fn set_error(&self, error: Option<String>) {
        match self {
            RotatedOutput::Folder(chunks) => lock(chunks).set_error(error),
            RotatedOutput::Relay(parts) => lock(parts).set_error(error),
        }
    }

    fn status(&self, records: u64, bytes: u64) -> Option<ChunksStatus> {
        match self {
            RotatedOutput::Folder(chunks) => lock(chunks).status(records, bytes),
            RotatedOutput::Relay(parts) => lock(parts).status(records, bytes),
        }
    }

    /// Closes the previous chunk at a relay once the relay has received it. Returns true if no further chunk may be
    /// ended yet.
    fn look(&self) -> bool {
        let RotatedOutput::Relay(parts) = self else { return false };
        let mut parts = lock(parts);
        parts.look();
        parts.is_leaving()
    }
}

impl std::fmt::Debug for RotatedOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RotatedOutput").finish_non_exhaustive()
    }
}

/// The rotations of one session.
#[derive(Debug)]
pub(crate) struct Rotations {
    chunks: RotatedOutput,
    rotation: Rotation,
    asked: Vec<RotationReply>,
    /// Requests to rotate the trace and then to remove the completed chunk.
    asked_to_clear: Vec<RotationReply>,
    /// The folder in which to create a new folder on disk, if the trace is to be flushed there.
    flush_in: Option<PathBuf>,
    /// The thread of the running rotation, which returns the reason if it fails.
    running: Option<JoinHandle<Option<String>>>,
    has_told: bool,
    /// Time when the present chunk began, or was last found to be empty.
    since: Instant,
    not_before: Instant,
}

impl Rotations {
    /// Creates the state for rotations of the chunks `parts`.
    pub(crate) fn new(chunks: RotatedOutput, rotation: Rotation, time: &TimeSource) -> Rotations {
        let now = time.now();
        let (asked, asked_to_clear, running, has_told) = (Vec::new(), Vec::new(), None, false);
        let (flush_in, since, not_before) = (None, now, now);
        Rotations {
            chunks,
            rotation,
            asked,
            asked_to_clear,
            flush_in,
            running,
            has_told,
            since,
            not_before,
        }
    }

    /// Sets the conditions on which the trace is rotated from now on. The first period begins at `now`.
    pub(crate) fn set(&mut self, rotation: Rotation, now: Instant) {
        if self.rotation.time_ms != rotation.time_ms {
            self.since = now;
        }
        if self.rotation != rotation {
            self.rotation = rotation;
            if let RotatedOutput::Folder(chunks) = &self.chunks {
                lock(chunks).set_rotation(rotation);
            }
        }
    }

    /// Requests to remove the present chunk, and to continue in the next one.
    pub(crate) fn clear(&mut self, reply: RotationReply) {
        self.asked_to_clear.push(reply);
    }

    /// Requests to move the trace from memory to a new folder on the disk in `folder`.
    pub(crate) fn flush_to_disk(&mut self, folder: PathBuf, reply: RotationReply) {
        self.flush_in = Some(folder);
        self.asked.push(reply);
    }

    /// Returns whether the memory is used up in which a trace is held. `size`: limit on the trace \[byte\].
    pub(crate) fn is_full(&self, size: u64, shared: &Shared) -> bool {
        let RotatedOutput::Folder(chunks) = &self.chunks else { return false };
        let chunks = lock(chunks);
        let (_, bytes, ..) = shared.counts();
        let (_, buffers) = shared.memory().now();
        // The flush to disk also has to write what is in the buffers.
        let is_short = chunks.room().is_some_and(|room| room < buffers.saturating_add(SPARE_BYTES));
        chunks.is_early() && (bytes >= size || is_short)
    }

    /// Returns whether the trace is held in memory.
    pub(crate) fn is_early(&self) -> bool {
        self.chunks.is_early()
    }

    /// Requests a rotation, which the next [`Rotations::look`] begins.
    pub(crate) fn ask(&mut self, reply: RotationReply) {
        self.asked.push(reply);
    }

    /// Begins a rotation if one was requested or is due, and completes a finished one. Notifies about failures.
    pub(crate) fn look(
        &mut self,
        session: &Session,
        shared: &Arc<Shared>,
        notify: &mut dyn FnMut(Notice),
    ) {
        if self.running.as_ref().is_some_and(JoinHandle::is_finished) {
            let failed = joined(self.running.take(), shared);
            self.since = shared.time().now();
            if failed.is_some() {
                self.not_before = self.since + RETRY;
            }
            self.tell(failed, notify);
        }
        if !self.has_told {
            self.tell(None, notify);
        }
        if self.running.is_some() {
            return;
        }
        let must_wait = self.chunks.look();
        let is_asked = !self.asked.is_empty() || !self.asked_to_clear.is_empty();
        if is_asked || (!must_wait && self.is_due(shared)) {
            self.begin(session, shared);
        }
    }

    fn tell(&mut self, failed: Option<String>, notify: &mut dyn FnMut(Notice)) {
        self.has_told = true;
        if let Some(why) = failed {
            notify(Notice::NotRotated { why });
        }
    }

    fn is_due(&mut self, shared: &Shared) -> bool {
        let Rotation { size, time_ms, .. } = self.rotation;
        let now = shared.time().now();
        if (size.is_none() && time_ms.is_none())
            || now < self.not_before
            || self.is_early()
            || shared.room().is_lacking()
        {
            return false;
        }
        let (records, bytes, ..) = shared.counts();
        let (records, bytes) = self.chunks.in_present(records, bytes);
        let is_over = time_ms.is_some_and(|ms| now - self.since >= Duration::from_millis(ms));
        if records == 0 {
            if is_over {
                self.since = now;
            }
            return false;
        }
        is_over || size.is_some_and(|size| bytes >= size)
    }

    fn begin(&mut self, session: &Session, shared: &Arc<Shared>) {
        let (mut asked, chunks) = (std::mem::take(&mut self.asked), self.chunks.clone());
        // Who asked for a complete chunk gets one that stays; the others wait for the next rotation.
        let clears = asked.is_empty() && !self.asked_to_clear.is_empty();
        if clears {
            asked = std::mem::take(&mut self.asked_to_clear);
        }
        let ((begun, is_begun), (cuts, of_layers)) = (channel(), channel::<Vec<Cut>>());
        let (of_session, first) = (Arc::clone(shared), session.rotate());
        let flush_in = self.flush_in.take();
        let work = move || {
            // Records from before the rotation begin their traces in this chunk, even if they were recorded just now.
            complete(&chunks, first);
            let next = chunks.begin_next(flush_in.as_deref());
            let done = next.and_then(|()| {
                // The receiver waits, so this cannot fail.
                let _ = begun.send(());
                cut(&chunks, of_layers.recv().unwrap_or_default(), clears, &of_session)
            });
            chunks.set_error(done.as_ref().err().cloned());
            for reply in &asked {
                // The requester may have gone.
                let _ = reply.send(done.clone());
            }
            done.err()
        };
        self.running = spawn("strata-rotate", Work::Files, shared, work);
        // No layer may begin between the two calls: its trace would be in the previous chunk, and nobody would complete
        // it.
        if is_begun.recv().is_ok() {
            let _ = cuts.send(session.rotate());
        }
    }

    /// Waits until the running rotation is finished. Requests for further rotations get no answer.
    pub(crate) fn join(&mut self, shared: &Shared, notify: &mut dyn FnMut(Notice)) {
        self.asked.clear();
        self.asked_to_clear.clear();
        if let Some(why) = joined(self.running.take(), shared) {
            notify(Notice::NotRotated { why });
        }
    }

    /// Returns the status of the chunks.
    pub(crate) fn chunks(&self, shared: &Shared) -> Option<ChunksStatus> {
        let (records, bytes, ..) = shared.counts();
        self.chunks.status(records, bytes)
    }
}

fn begin_flushed(chunks: &Arc<Mutex<ChunksOutput>>, above: &Path) -> Result<(), String> {
    let made = TimeStamp::now().map_err(|error| format!("tell the time: {error}"));
    let root = made.and_then(|now| {
        TraceFolder::settled_in(above, &now.name)
            .map_err(|error| format!("what is recorded stays in memory: {error}"))
    })?;
    lock(chunks).begin_flushed(root)
}

/// Copies the chunks in memory to the disk, without blocking the session. Returns the completed chunk with its new
/// place.
fn flush_to_disk(
    chunks: &Arc<Mutex<ChunksOutput>>,
    part: Option<ChunkStatus>,
) -> Result<Option<ChunkStatus>, String> {
    let Some((left, to)) = lock(chunks).take_left() else { return Ok(part) };
    left.give_parts_to(&to).map_err(|error| {
        let path = left.path().display();
        format!(
            "what was recorded before cannot be copied to the disk, and stays in '{path}': {error}"
        )
    })?;
    let mut chunks = lock(chunks);
    chunks.flushed(&left);
    Ok(part.map(|part| ChunkStatus { folder: chunks.now(&part.folder), ..part }))
}

/// Makes all layers write the records in their buffers, and complete the traces of earlier chunks.
fn complete(chunks: &RotatedOutput, cuts: Vec<Cut>) {
    let output = chunks.output();
    // All layers work at the same time.
    let answers: Vec<_> = cuts.into_iter().map(|cut| cut(&output)).collect();
    for answer in answers {
        // Without an answer the layer's pump has ended, and the session reports why.
        answer.recv().unwrap_or_default().into_iter().for_each(|finish| finish());
    }
}

/// Completes the previous chunk, and removes it if `clears` is true. New traces already begin in the next chunk. Returns
/// the result of the rotation.
fn cut(
    chunks: &RotatedOutput,
    cuts: Vec<Cut>,
    clears: bool,
    shared: &Shared,
) -> Result<Rotated, String> {
    complete(chunks, cuts);
    let chunks = match chunks {
        RotatedOutput::Folder(chunks) => chunks,
        RotatedOutput::Relay(parts) => {
            let mut parts = lock(parts);
            let chunk = parts.end_last(shared.ending_of_all());
            return Ok(Rotated { chunk, present: parts.present() });
        }
    };
    let chunk = lock(chunks).end_last(shared.ending_of_all())?;
    let chunk = flush_to_disk(chunks, chunk)?;
    let (beyond, present) = {
        let mut chunks = lock(chunks);
        let mut beyond = chunks.beyond();
        if let (true, Some(chunk)) = (clears, &chunk) {
            beyond.extend(chunks.take(chunk.number));
        }
        (beyond, chunks.present())
    };
    let mut failed = None;
    for old in beyond {
        let removed = old.remove();
        lock(chunks).removed(&old, removed.is_ok());
        failed = failed.or(removed.err());
    }
    match failed {
        None => Ok(Rotated { chunk, present }),
        Some(why) => Err(why),
    }
}

#[cfg(test)]
mod tests;

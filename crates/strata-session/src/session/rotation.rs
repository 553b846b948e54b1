//! Rotation: the trace of a session that writes is cut into parts, each by a thread of its own, while the session goes on
//! and answers. One at a time: whoever asks meanwhile gets the next one.
//!
//! ```text
//! what is held  is written: its traces begin in the present part
//! next part     its folder and its end mark's room are there; without them nothing is changed
//! cut           each pump completes its traces one after the other; what comes next is in the next part
//! last part     what is left to do with its traces is done; its end mark is written
//! beyond        parts that are too many are removed
//! ```
//!
//! A session that settles does the same: the next part is in another folder, to which those before are copied then.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use strata_collect::Output;

use crate::options::Rotation;
use crate::output::folder::{TimeStamp, TraceFolder};
use crate::output::parts::PartsOutput;
use crate::report::{Notice, PartLook, PartsLook};
use crate::session::lock::lock;
use crate::session::privileges::Work;
use crate::session::shared::Shared;
use crate::session::threads::{joined, spawn, Cut};
use crate::session::Session;

/// After one that failed, none is begun by itself before this time is over.
const RETRY: Duration = Duration::from_secs(10);

/// What others find where a trace is held in memory, whatever else is taken \[byte\].
const SPARE_BYTES: u64 = 4 << 20;

/// What a rotation gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rotated {
    /// Which part is complete; `None`: nothing was recorded in it, and it is gone.
    pub part: Option<PartLook>,
    /// The folder of the part that is written now.
    pub present: PathBuf,
}

/// Who asked.
type RotationReply = Sender<Result<Rotated, String>>;

/// The rotations of one session.
#[derive(Debug)]
pub(crate) struct Rotations {
    parts: Arc<Mutex<PartsOutput>>,
    rotation: Rotation,
    asked: Vec<RotationReply>,
    /// It is to go on in a new folder in this one.
    settle_in: Option<PathBuf>,
    /// Gives back why it failed.
    running: Option<JoinHandle<Option<String>>>,
    has_told: bool,
    /// When the present part began, or when it was last seen that nothing is in it.
    since: Instant,
    not_before: Instant,
}

impl Rotations {
    /// Of these parts.
    pub(crate) fn new(parts: Arc<Mutex<PartsOutput>>, rotation: Rotation) -> Rotations {
        let now = Instant::now();
        let (asked, running, has_told) = (Vec::new(), None, false);
        let (settle_in, since, not_before) = (None, now, now);
        Rotations { parts, rotation, asked, settle_in, running, has_told, since, not_before }
    }

    /// What is held in memory is on the disk then, in a new folder in this one, and so is what comes.
    pub(crate) fn settle(&mut self, folder: PathBuf, reply: RotationReply) {
        self.settle_in = Some(folder);
        self.asked.push(reply);
    }

    /// Of a session that is held in memory: may no more be written?
    pub(crate) fn is_full(&self, size: u64, shared: &Shared) -> bool {
        let parts = lock(&self.parts);
        let (_, bytes, ..) = shared.counts();
        let (_, buffers) = shared.memory().now();
        // What is in the buffers comes on top, when it settles.
        let is_short = parts.room().is_some_and(|room| room < buffers.saturating_add(SPARE_BYTES));
        parts.is_early() && (bytes >= size || is_short)
    }

    /// Is it held in memory?
    pub(crate) fn is_early(&self) -> bool {
        lock(&self.parts).is_early()
    }

    /// It is begun by the next [`Rotations::look`].
    pub(crate) fn ask(&mut self, reply: RotationReply) {
        self.asked.push(reply);
    }

    /// Begins one if somebody has asked, or it is time. Says how the parts are by now, if that has changed.
    pub(crate) fn look(
        &mut self,
        session: &Session,
        shared: &Arc<Shared>,
        notify: &mut dyn FnMut(Notice),
    ) {
        if self.running.as_ref().is_some_and(JoinHandle::is_finished) {
            let failed = joined(self.running.take(), shared);
            self.since = Instant::now();
            if failed.is_some() {
                self.not_before = self.since + RETRY;
            }
            self.tell(failed, notify);
        }
        if !self.has_told {
            self.tell(None, notify);
        }
        if self.running.is_none() && (!self.asked.is_empty() || self.is_due(shared)) {
            self.begin(session, shared);
        }
    }

    fn tell(&mut self, failed: Option<String>, notify: &mut dyn FnMut(Notice)) {
        self.has_told = true;
        if let Some(why) = failed {
            notify(Notice::NotRotated { why });
        }
        if let Some(mut parts) = lock(&self.parts).look(0, 0) {
            if let Some(present) = &mut parts.present {
                (present.records, present.bytes) = (None, None);
            }
            notify(Notice::Parts(Box::new(parts)));
        }
    }

    fn is_due(&mut self, shared: &Shared) -> bool {
        let Rotation { size, time_ms, .. } = self.rotation;
        let now = Instant::now();
        if (size.is_none() && time_ms.is_none())
            || now < self.not_before
            || self.is_early()
            || shared.room().is_lacking()
        {
            return false;
        }
        let (records, bytes, ..) = shared.counts();
        let (records, bytes) = lock(&self.parts).in_present(records, bytes);
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
        let (asked, parts) = (std::mem::take(&mut self.asked), Arc::clone(&self.parts));
        let ((begun, is_begun), (cuts, of_layers)) = (channel(), channel::<Vec<Cut>>());
        let (of_session, first) = (Arc::clone(shared), session.rotate());
        let settle_in = self.settle_in.take();
        let work = move || {
            // What was recorded until now begins its traces in this part, also if that has just happened.
            complete(&parts, first);
            let next = match settle_in {
                None => lock(&parts).begin_next(),
                Some(folder) => begin_settled(&parts, &folder),
            };
            let done = next.and_then(|()| {
                // Who waits is there.
                let _ = begun.send(());
                cut(&parts, of_layers.recv().unwrap_or_default(), &of_session)
            });
            lock(&parts).set_error(done.as_ref().err().cloned());
            for reply in &asked {
                // Who asked may have gone.
                let _ = reply.send(done.clone());
            }
            done.err()
        };
        self.running = spawn("strata-rotate", Work::Files, shared, work);
        // No layer may begin between the two: its trace would be in the part that is left, and nobody would complete it.
        if is_begun.recv().is_ok() {
            let _ = cuts.send(session.rotate());
        }
    }

    /// Until the one that runs is done. Who has asked for another one gets no answer.
    pub(crate) fn join(&mut self, shared: &Shared, notify: &mut dyn FnMut(Notice)) {
        self.asked.clear();
        if let Some(why) = joined(self.running.take(), shared) {
            notify(Notice::NotRotated { why });
        }
    }

    /// How the parts are.
    pub(crate) fn parts(&self, shared: &Shared) -> Option<PartsLook> {
        let (records, bytes, ..) = shared.counts();
        lock(&self.parts).look(records, bytes)
    }
}

fn begin_settled(parts: &Arc<Mutex<PartsOutput>>, above: &Path) -> Result<(), String> {
    let made = TimeStamp::now().map_err(|error| format!("tell the time: {error}"));
    let root = made.and_then(|now| {
        TraceFolder::settled_in(above, &now.name)
            .map_err(|error| format!("what is recorded stays in memory: {error}"))
    })?;
    lock(parts).begin_settled(root)
}

/// Copies the parts that are in memory, and says where this one is then. Nobody waits meanwhile.
fn settle(
    parts: &Arc<Mutex<PartsOutput>>,
    part: Option<PartLook>,
) -> Result<Option<PartLook>, String> {
    let Some((left, to)) = lock(parts).take_left() else { return Ok(part) };
    left.give_parts_to(&to).map_err(|error| {
        let path = left.path().display();
        format!(
            "what was recorded before cannot be copied to the disk, and stays in '{path}': {error}"
        )
    })?;
    let mut parts = lock(parts);
    parts.settled(&left);
    Ok(part.map(|part| PartLook { folder: parts.now(&part.folder), ..part }))
}

/// Has all layers write what they hold, and complete traces that are not in the present part.
fn complete(parts: &Arc<Mutex<PartsOutput>>, cuts: Vec<Cut>) {
    let output = Arc::clone(parts) as Arc<Mutex<dyn Output>>;
    // All of them at the same time.
    let answers: Vec<_> = cuts.into_iter().map(|cut| cut(&output)).collect();
    for answer in answers {
        // Without an answer its pump has ended, and the session says why.
        answer.recv().unwrap_or_default().into_iter().for_each(|finish| finish());
    }
}

/// Traces that begin are in the next part already.
fn cut(
    parts: &Arc<Mutex<PartsOutput>>,
    cuts: Vec<Cut>,
    shared: &Shared,
) -> Result<Rotated, String> {
    complete(parts, cuts);
    let part = lock(parts).end_last(shared.ending_of_all())?;
    let part = settle(parts, part)?;
    let (beyond, present) = {
        let mut parts = lock(parts);
        (parts.beyond(), parts.present())
    };
    let mut failed = None;
    for part in beyond {
        let removed = part.remove();
        lock(parts).removed(&part, removed.is_ok());
        failed = failed.or(removed.err());
    }
    match failed {
        None => Ok(Rotated { part, present }),
        Some(why) => Err(why),
    }
}

#[cfg(test)]
mod tests;

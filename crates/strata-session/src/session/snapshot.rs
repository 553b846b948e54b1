//! Snapshots of a session: each is written by a thread of its own, while the session goes on and answers. Several at
//! once have the same records.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use strata_collect::{Counts, Error, Output, SnapshotSpan};
use strata_ctf::end_mark::{EndMark, Ending};

use crate::output::folder::TraceFolder;
use crate::session::failure::{advice, failure_text};
use crate::session::lock::lock;
use crate::session::privileges::Work;
use crate::session::shared::Shared;
use crate::session::threads::{joined, spawn, Ask};
use crate::session::Session;

/// So many at once; what comes then is refused.
const AT_ONCE_MAX: usize = 16;

/// What is asked for.
#[derive(Debug)]
pub(crate) struct SnapshotRequest {
    /// The folder, which is new or empty.
    pub(crate) output: std::path::PathBuf,
    /// So much of what is held, up to now; `None`: all of it.
    pub(crate) last: Option<Duration>,
    pub(crate) reply: Sender<Result<Counts, String>>,
}

/// The snapshots of one session.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    threads: Vec<JoinHandle<()>>,
    saved: Arc<AtomicU64>,
}

impl Snapshots {
    /// Begins to write what is held.
    pub(crate) fn begin(
        &mut self,
        session: &Session,
        shared: &Arc<Shared>,
        asked: SnapshotRequest,
    ) {
        self.threads.retain(|thread| !thread.is_finished());
        let SnapshotRequest { output, last, reply } = asked;
        if self.threads.len() >= AT_ONCE_MAX {
            let why =
                format!("{AT_ONCE_MAX} snapshots are being written. Try again when one is done");
            let _ = reply.send(Err(why));
            return;
        }
        let last = last.map(|last| u64::try_from(last.as_nanos()).unwrap_or(u64::MAX));
        let (asks, saved) = (session.snapshot(), Arc::clone(&self.saved));
        let work = move || {
            let done = save(&output, last, asks, &saved);
            // Who asked may have gone.
            let _ = reply.send(done);
        };
        self.threads.extend(spawn("strata-snapshot", Work::Files, shared, work));
    }

    /// Until all are written.
    pub(crate) fn join(&mut self, shared: &Arc<Shared>) {
        std::mem::take(&mut self.threads)
            .into_iter()
            .for_each(|thread| joined(Some(thread), shared));
    }

    /// So many were written.
    pub(crate) fn saved(&self) -> u64 {
        self.saved.load(Ordering::Relaxed)
    }
}

/// Writes what is held into this folder. Without a record there is none.
fn save(
    path: &Path,
    last: Option<u64>,
    asks: Vec<Ask>,
    saved: &AtomicU64,
) -> Result<Counts, String> {
    let folder = TraceFolder::create(path).map_err(|error| error.to_string())?.of_snapshot();
    let begun = folder.begin().map_err(|error| error.to_string());
    let folder = Arc::new(Mutex::new(folder));
    let output = Arc::clone(&folder) as Arc<Mutex<dyn Output>>;
    let text = |error: &Error| format!("{}{}", failure_text(error), advice(error));
    let moment = || SnapshotSpan::until_now(last);
    let done = begun.and_then(|()| write(&output, moment, asks).map_err(|error| text(&error)));
    let folder = lock(&folder);
    let ending = match &done {
        Ok(_) => Ending::Ended,
        Err(_) => Ending::Failed,
    };
    if done.as_ref().is_ok_and(|counts| counts.records == 0) {
        // What was asked for has no record, where it was not known before.
        folder.clear();
    }
    if !folder.remove_if_empty() {
        saved.fetch_add(1, Ordering::Relaxed);
        folder.end(&EndMark { ending, ..EndMark::default() }).map_err(|error| text(&error))?;
    }
    done
}

/// Writes what is held at a moment, which `moment` says, to `output`. Returns what that was.
///
/// # Errors
/// What the system says; a part may be written.
pub(crate) fn write(
    output: &Arc<Mutex<dyn Output>>,
    moment: impl Fn() -> SnapshotSpan,
    asks: Vec<Ask>,
) -> Result<Counts, Error> {
    // All layers make their traces at the same time: of those who may have something that is not too old.
    let early = moment();
    let answers: Vec<_> = asks.into_iter().map(|ask| ask(output, early)).collect();
    let mut all = Vec::new();
    for answer in answers {
        all.extend(answer.recv().unwrap_or_else(|_| Ok(Vec::new()))?);
    }
    let (span, mut sum) = (moment(), Counts::default());
    for held in all {
        sum.add(&held.write(span)?);
    }
    Ok(sum)
}

//! Snapshots of a session. Each is written by a thread of its own, while the session goes on and answers requests.
//! Snapshots at the same time contain the same records.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use strata_collect::{Counts, Error, Output, Sink, SnapshotSpan};
use strata_ctf::end_mark::{EndMark, Ending, Losses};
use strata_remote::{Destination, FromRecorder, IsOver, Recording, RemoteOutput, Target};

use crate::output::describe::Machine;
use crate::output::folder::TraceFolder;
use crate::output::folder_mark::Made;
use crate::output::retention::Leavings;
use crate::session::disk::{LowSpace, MinFree};
use crate::session::failure::{advice, failure_text};
use crate::session::lock::lock;
use crate::session::privileges::Work;
use crate::session::remote;
use crate::session::shared_state::Shared;
use crate::session::stop::Stop;
use crate::session::threads::{joined, spawn, Ask};
use crate::session::Session;

/// The most snapshots at the same time; further ones are refused.
const AT_ONCE_MAX: usize = 16;

/// A request for a snapshot.
#[derive(Debug)]
pub(crate) struct SnapshotRequest {
    /// The snapshot's folder, which is new or empty. For a relay, the last part of this path is the recording's name.
    pub(crate) output: std::path::PathBuf,
    /// The relay to which the snapshot is sent; `None` to write the folder.
    pub(crate) to: Option<Destination>,
    /// The time span to save, up to now; `None` for everything that is held.
    pub(crate) last: Option<Duration>,
    pub(crate) made: Made,
    pub(crate) reply: Sender<Result<Counts, String>>,
}

/// The threads that write snapshots of one session, and the number of saved snapshots.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    threads: Vec<JoinHandle<()>>,
    saved: Arc<AtomicU64>,
    end: SnapshotsEnd,
    /// Time before which records are left out, by the traces' clock \[ns\].
    since: u64,
}

/// Tells snapshots that wait for a relay when to give up. Has the user's requests to stop, and their number when the
/// session began to wait for its snapshots.
#[derive(Clone, Debug, Default)]
struct SnapshotsEnd(Arc<OnceLock<(Stop, usize)>>);

impl SnapshotsEnd {
    /// Returns a function that returns true once the session must stop waiting, because the user has requested a stop
    /// again.
    fn is_over(&self) -> IsOver {
        let Self(end) = self.clone();
        Box::new(move || end.get().is_some_and(|(stop, asked)| stop.requests() > *asked))
    }
}

impl Snapshots {
    /// Begins to write a snapshot, unless the disk would then have less than `min_free` left.
    pub(crate) fn begin(
        &mut self,
        session: &Session,
        (shared, machine): (&Arc<Shared>, &Machine),
        asked: SnapshotRequest,
        (min_free, leavings): (MinFree, Option<&Arc<Leavings>>),
    ) {
        self.threads.retain(|thread| !thread.is_finished());
        let SnapshotRequest { output, to, last, made, reply } = asked;
        if self.threads.len() >= AT_ONCE_MAX {
            let why =
                format!("{AT_ONCE_MAX} snapshots are being written. Try again when one is done");
            let _ = reply.send(Err(why));
            return;
        }
        let last = last.map(|last| u64::try_from(last.as_nanos()).unwrap_or(u64::MAX));
        let (asks, saved, since) = (session.snapshot(), Arc::clone(&self.saved), self.since);
        // The estimate is the size of all buffers, which the snapshot cannot exceed.
        let needs = shared.memory().now().1;
        let leavings = leavings.map(Arc::clone);
        if let Some(to) = to {
            let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let about = remote::recording(machine, to.name.clone(), name);
            let end = self.end.clone();
            let work = move || {
                let sent = about
                    .map_err(|error| error.to_string())
                    .and_then(|about| send(&to, about, ((last, since), &end), asks));
                if sent.as_ref().is_ok_and(|counts| counts.records > 0) {
                    saved.fetch_add(1, Ordering::Relaxed);
                }
                // The requester may have gone.
                let _ = reply.send(sent);
            };
            self.threads.extend(spawn("strata-snapshot", Work::Files, shared, work));
            return;
        }
        let work = move || {
            let leavings = leavings.as_deref();
            let place = SnapshotPlace { path: &output, min_free, needs, made, leavings };
            let done = save(&place, (last, since), asks, &saved);
            if let (Some(leavings), Ok(_)) = (leavings, &done) {
                leavings.look_in(output.parent().unwrap_or(Path::new("")), made);
                leavings.apply();
            }
            // The requester may have gone.
            let _ = reply.send(done);
        };
        self.threads.extend(spawn("strata-snapshot", Work::Files, shared, work));
    }

    /// Leaves out of later snapshots all records from before this call.
    pub(crate) fn clear(&mut self) {
        self.since = SnapshotSpan::until_now(None).until;
    }

    /// Removes the session's oldest data that exceed the limits, in a thread of its own.
    pub(crate) fn bound(&mut self, shared: &Arc<Shared>, leavings: &Arc<Leavings>) {
        let leavings = Arc::clone(leavings);
        self.threads.extend(spawn("strata-retain", Work::Files, shared, move || leavings.apply()));
    }

    /// Waits until all snapshots are written. The next request to stop gives up snapshots that wait for a relay.
    pub(crate) fn join(&mut self, shared: &Arc<Shared>, stop: &Stop) {
        // The session waits once; a second value would be the same.
        let _ = self.end.0.set((stop.clone(), stop.requests()));
        std::mem::take(&mut self.threads)
            .into_iter()
            .for_each(|thread| joined(Some(thread), shared));
    }

    /// Returns the number of snapshots that were written.
    pub(crate) fn saved(&self) -> u64 {
        self.saved.load(Ordering::Relaxed)
    }
}

/// The destination of a snapshot.
struct SnapshotPlace<'a> {
    path: &'a Path,
    /// Space that must stay free on the disk of the snapshot.
    min_free: MinFree,
    /// The largest size that the snapshot can have \[byte\].
    needs: u64,
    made: Made,
    leavings: Option<&'a Leavings>,
}

impl SnapshotPlace<'_> {
    /// # Errors
    /// The disk has too little free space.
    fn check(&self, folder: &TraceFolder) -> Result<(), String> {
        let after = folder.free().map(|(free, all)| (free.saturating_sub(self.needs), all));
        match LowSpace::of(after, self.min_free) {
            None => Ok(()),
            Some(low) => Err(format!(
                "snapshot '{}' may have {} MiB, and with them {low}. Free some, or name a folder on another file system",
                self.path.display(),
                self.needs.div_ceil(1 << 20)
            )),
        }
    }
}

/// Writes a snapshot into its folder. Without any record, the folder is removed again.
fn save(
    place: &SnapshotPlace<'_>,
    (last, since): (Option<u64>, u64),
    asks: Vec<Ask>,
    saved: &AtomicU64,
) -> Result<Counts, String> {
    let folder = TraceFolder::create(place.path).map_err(|error| error.to_string())?.of_snapshot();
    let folder = folder.made_by(place.leavings.map(|all| &all.mark), place.made);
    let begun = place.check(&folder);
    let begun = begun.and_then(|()| folder.begin().map_err(|error| error.to_string()));
    let folder = Arc::new(Mutex::new(folder));
    let output = Arc::clone(&folder) as Arc<Mutex<dyn Output>>;
    let text = |error: &Error| format!("{}{}", failure_text(error), advice(error));
    let moment = || SnapshotSpan::until_now(last).without_before(since);
    let done = begun.and_then(|()| write(&output, moment, asks).map_err(|error| text(&error)));
    let folder = lock(&folder);
    let ending = match &done {
        Ok(_) => Ending::Ended,
        Err(_) => Ending::Failed,
    };
    if done.as_ref().is_ok_and(|counts| counts.records == 0) {
        // The snapshot has no record, so that its folder is removed if it is new.
        folder.clear();
    }
    if !folder.remove_if_empty() {
        saved.fetch_add(1, Ordering::Relaxed);
        folder.end(&EndMark { ending, ..EndMark::default() }).map_err(|error| text(&error))?;
        // The snapshot counts among the data that the session keeps.
        folder.unlock();
    }
    done
}

/// Sends a snapshot to a relay, and waits until the relay has all of it. Connects only if there is a trace to send.
fn send(
    to: &Destination,
    about: Recording,
    ((last, since), end): ((Option<u64>, u64), &SnapshotsEnd),
    asks: Vec<Ask>,
) -> Result<Counts, String> {
    let target = to.target().map_err(|error| error.to_string())?;
    let output = Arc::new(Mutex::new(LateOutput {
        begun: None,
        first: Some((target, about)),
        end: end.clone(),
    }));
    let sink = Arc::clone(&output) as Arc<Mutex<dyn Output>>;
    let done = write(&sink, || SnapshotSpan::until_now(last).without_before(since), asks);
    let link = lock(&output).begun.as_ref().map(RemoteOutput::link);
    let relay = |why: String| format!("the relay {}: {why}", to.address);
    let Some(link) = link else { return done.map_err(|error| relay(error.to_string())) };
    let ending = if done.is_ok() { Ending::Ended } else { Ending::Failed };
    let last = FromRecorder::Close { ending, losses: Losses::default() };
    let ended = link.end(&last, end.is_over());
    // If the relay accepts no data, that is the cause of both errors.
    ended.map_err(relay)?;
    let left_out = link.look().quota.records;
    if left_out > 0 {
        return Err(relay(format!(
            "it has discarded {left_out} event records of the snapshot (quota): the recordings of this host there have as many \
             bytes as they may have. Remove some there"
        )));
    }
    done.map_err(|error| relay(error.to_string()))
}

/// The output at a relay, which connects only when the first trace is created.
struct LateOutput {
    begun: Option<RemoteOutput>,
    first: Option<(Target, Recording)>,
    end: SnapshotsEnd,
}

impl Output for LateOutput {
    fn trace(
        &mut self,
        layer: &str,
        process: Option<(&[u8], u32)>,
    ) -> Result<Box<dyn Sink>, Error> {
        if let Some((target, about)) = self.first.take() {
            let path = Path::new(layer);
            let begun = RemoteOutput::begin(target, about);
            let begun = begun.map_err(|source| Error::Write { path: path.to_owned(), source })?;
            // Held packets are overwritten in the meantime, so writes wait for the relay and are not repeated later.
            begun.link().begin_end(self.end.is_over());
            self.begun = Some(begun);
        }
        match &mut self.begun {
            Some(begun) => begun.trace(layer, process),
            None => Err(Error::NoMetadata { path: layer.into() }),
        }
    }

    fn remove(&mut self, layer: &str, sink: Box<dyn Sink>) {
        if let Some(begun) = &mut self.begun {
            begun.remove(layer, sink);
        }
    }

    fn ended(&mut self, sink: &dyn Sink, counts: &Counts, besides: &Counts) {
        if let Some(begun) = &mut self.begun {
            begun.ended(sink, counts, besides);
        }
    }
}

/// Writes the records that are in the buffers to `output`. `moment`: function that returns the time up to
/// which records are taken. Returns the counts of what was written.
///
/// # Errors
/// The error of the system; a part may have been written.
pub(crate) fn write(
    output: &Arc<Mutex<dyn Output>>,
    moment: impl Fn() -> SnapshotSpan,
    asks: Vec<Ask>,
) -> Result<Counts, Error> {
    // All layers create their traces at the same time, if they may have records within the time span.
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

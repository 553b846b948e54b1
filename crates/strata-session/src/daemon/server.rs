//! The server of the control protocol: listens at the session's socket and answers commands.
//!
//! ```text
//! command ── strata-control ──▶ serve()    accepts; a thread for each client, a limited number at once
//!                                  │
//!                                  ▼
//!                              answered()  ── Controls ──▶ the session's own thread
//! ```
//!
//! The server only transfers requests: the thread that runs the session performs them, and is reached through
//! [`Controls`]. After each request that may have changed the plan, the server writes the plan to the file from which
//! the session is restored if it is killed ([`RestorePlan`]). A session with a command, or with processes by number, has no
//! such file: it is not restored.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use strata_control::{Claim, ControlError, Group, Reply, Request, SessionListener, PLAN, VERDICT};
use strata_model::TimeSource;
use strata_remote::Destination;

use crate::daemon::restore_plan::RestorePlan;
use crate::output::folder::{show_to_group, time_name};
use crate::plan::{Plan, PAUSE};
use crate::report::{Counts, Report};
use crate::session::control::Controls;
use crate::session::status::add_earlier_keys;
use crate::session::stop::Stop;

/// The pause after a failure to accept a client.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// Shows a warning to the user; called from any thread.
pub type Warn = fn(String);

/// The server of a session's control protocol.
pub struct ControlServer {
    /// True if `strata stop` ends the session, because `strata record --background` started it.
    stop_ends: bool,
    listener: SessionListener,
    controls: Controls,
    stop: Stop,
    is_over: AtomicBool,
    /// Counter of the clients that are being answered, each in a thread of its own.
    busy: Arc<Busy>,
    /// The members of the group that are being answered.
    members: Arc<Members>,
    saved_for_members: Mutex<SnapshotPause>,
    /// Name of the group whose members may request the status. It is kept for a session that is restored.
    group: Option<String>,
    /// The file of the plan; see [`RestorePlan::file`].
    file: Option<String>,
    /// The text of the plan in its file.
    kept: Mutex<String>,
    warn: Warn,
}

/// The most requests of the session's own user and of root that are answered at once. Further ones wait.
const BUSY_MAX: usize = 32;
/// The most requests of group members that are answered at once. Further ones are refused, so that nobody has to wait
/// behind them.
const MEMBERS_MAX: usize = 8;
/// The most requests of one group member that are answered at once.
const MEMBERS_OF_USER_MAX: usize = 2;

/// The pause between two snapshots of members of the group, whoever of them asks.
#[derive(Debug, Default)]
struct SnapshotPause {
    /// Time when the last one was begun.
    last: Option<Instant>,
    time: TimeSource,
}

impl SnapshotPause {
    /// Notes a snapshot.
    ///
    /// # Errors
    /// The last one was less than [`PAUSE`] ago.
    fn take_turn(&mut self) -> Result<(), String> {
        let left = self.last.map(|last| PAUSE.saturating_sub(self.time.elapsed(last)));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            return Err(format!(
                "a member of its group has saved a snapshot just now. Try again in {} s",
                left.as_secs().saturating_add(1)
            ));
        }
        self.last = Some(self.time.now());
        Ok(())
    }
}

/// The number of clients that are being answered.
#[derive(Debug, Default)]
struct Busy {
    number: Mutex<usize>,
    less: Condvar,
}

/// A client that is being answered. It is counted as long as this value lives.
struct Answering(Arc<Busy>);

impl Busy {
    /// Waits until fewer than `number` clients are being answered. Returns the locked count.
    fn below(&self, number: usize) -> MutexGuard<'_, usize> {
        let busy = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.less.wait_while(busy, |busy| *busy >= number);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn one_more(self: &Arc<Busy>, limit: usize) -> Answering {
        *self.below(limit) += 1;
        Answering(Arc::clone(self))
    }
}

/// User ids of the group members that are being answered.
#[derive(Debug, Default)]
struct Members(Mutex<Vec<u32>>);

/// A group member that is being answered. It is counted as long as this value lives.
struct MemberAnswering(Arc<Members>, u32);

impl Members {
    /// Counts another client of the user `uid`. Returns `None` if the limits allow no more.
    fn one_more(self: &Arc<Members>, uid: u32) -> Option<MemberAnswering> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_user = all.iter().filter(|one| **one == uid).count();
        if all.len() >= MEMBERS_MAX || of_user >= MEMBERS_OF_USER_MAX {
            return None;
        }
        all.push(uid);
        Some(MemberAnswering(Arc::clone(self), uid))
    }
}

impl Drop for MemberAnswering {
    fn drop(&mut self) {
        let mut all = self.0 .0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = all.iter().position(|one| *one == self.1) {
            all.swap_remove(index);
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        *self.0.number.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.less.notify_all();
    }
}

impl ControlServer {
    /// Listens under the name that `claim` holds, and returns the server.
    pub fn open(
        claim: Claim,
        stop_ends: bool,
        controls: Controls,
        stop: &Stop,
        (group, file): (Option<&str>, Option<String>),
        warn: Warn,
    ) -> Result<Arc<ControlServer>, ControlError> {
        let (kept, name) = (Mutex::default(), group.map(str::to_owned));
        let group = group.map(Group::find).transpose()?;
        Ok(Arc::new(ControlServer {
            listener: SessionListener::open_to(group, claim)?,
            stop_ends,
            controls,
            stop: stop.clone(),
            is_over: AtomicBool::new(false),
            busy: Arc::default(),
            members: Arc::default(),
            saved_for_members: Mutex::default(),
            group: name,
            file,
            kept,
            warn,
        }))
    }

    /// Returns the name under which the server listens.
    pub fn claim(&self) -> &Claim {
        self.listener.claim()
    }

    /// Writes `text` to a file beside the session's socket, for a session that is restored after a kill.
    pub fn keep(&self, kind: &str, text: &str) -> io::Result<()> {
        self.keep_open(kind, text).map(drop)
    }

    /// Writes `text` to a file beside the session's socket. Returns the file, for appending more.
    pub fn keep_open(&self, kind: &str, text: &str) -> io::Result<File> {
        // One file at a time, since they are all created under the same temporary name.
        let _kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        self.listener.claim().keep_open(kind, text)
    }

    /// Writes the plan to its file, so that the session can be restored after a kill. Does so until the session ends.
    pub fn keep_plan(&self) {
        let (Ok(mut plan), Ok(status)) = (self.controls.plan(), self.controls.status()) else {
            return;
        };
        plan.output = status.output.map(PathBuf::from);
        self.keep_this(plan);
    }

    /// Writes this plan to the session's file, unless a session with it is not restored.
    pub(super) fn keep_this(&self, plan: Plan) {
        if !plan.transient.is_none() {
            return;
        }
        let (stop_ends, file) = (self.stop_ends, self.file.clone());
        let text =
            RestorePlan { stop_ends, file, ..RestorePlan::new(plan, self.group.clone()) }.to_json();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if *kept != text {
            match self.listener.claim().keep(PLAN, &text) {
                Ok(()) => *kept = text,
                Err(error) => {
                    (self.warn)(format!("its plan cannot be kept, should it be killed: {error}"))
                }
            }
        }
    }

    /// Removes the files from which the session would be restored, since it has ended properly.
    pub fn forget(&self) {
        self.listener.claim().forget(false);
    }

    /// Keeps the verdict on missing parts, for the command that ends the session.
    pub fn keep_verdict(&self, report: &Report) {
        let text = strata_text::json::compact(&report.verdict());
        // Without this file, the command assumes that something may be missing.
        let _ = self.listener.claim().keep(VERDICT, &text);
    }

    /// Answers clients until [`ControlServer::close`] is called. A snapshot in progress delays only the client that
    /// requested it.
    pub fn serve(self: &Arc<ControlServer>) {
        while !self.is_over.load(Ordering::Acquire) {
            let Ok(accepted) = self.listener.accept() else {
                // The process has no descriptors or memory left, which may improve.
                thread::sleep(LOOK_PERIOD);
                continue;
            };
            let Some(connection) = accepted else { continue };
            let (answering, member) = match connection.member() {
                None => (Some(self.busy.one_more(BUSY_MAX)), None),
                Some(uid) => match self.members.one_more(uid) {
                    None => continue,
                    member => (None, member),
                },
            };
            let server = Arc::clone(self);
            let answer = move || {
                connection.answer(&mut |request| server.answer(&request));
                // The last owner of the server releases its name. That should be the main thread of this process.
                drop(server);
                drop((answering, member));
            };
            // Without a thread there is no answer, and the client notices that.
            let _ = thread::Builder::new().name("strata-answer".to_owned()).spawn(answer);
        }
        // Clients that are being answered get their answer.
        drop(self.busy.below(1));
    }

    /// Notes that the session has ended, and wakes the thread that serves.
    pub fn close(&self) {
        self.is_over.store(true, Ordering::Release);
        // The thread that serves may already have checked, and would wait for another client.
        self.listener.wake();
    }

    fn answer(&self, request: &Request) -> Reply {
        let reply = self.answered(request);
        let ends = match request {
            Request::Stop => self.stop_ends,
            request => *request == Request::Destroy,
        };
        let asks_only = ends || matches!(request, Request::Status | Request::Plan);
        if !asks_only {
            self.keep_plan();
        }
        reply
    }

    fn answered(&self, request: &Request) -> Reply {
        let state = |state: &str| [("state".to_owned(), state.into())].into_iter().collect();
        match request {
            Request::Status => self.status_reply(),
            Request::Stop if !self.stop_ends => {
                self.controls.pause()?;
                self.status_reply()
            }
            Request::Stop | Request::Destroy => {
                // With a command, the first request only leaves it time to end; the second one ends the recording.
                self.stop.request(0);
                self.stop.request(0);
                Ok(state("ended"))
            }
            Request::Start => {
                self.controls.start()?;
                let mut facts: Map<String, Value> = state("recording");
                let status = self.controls.status()?;
                facts.insert("memory".into(), status.memory.into());
                facts.insert("max_memory".into(), status.max_memory.into());
                facts.insert(
                    "is_empty".into(),
                    status.channels.iter().all(|one| !one.is_made).into(),
                );
                Ok(facts)
            }
            Request::Rotate => object(&self.controls.rotate()?),
            Request::Clear => object(&self.controls.clear()?),
            Request::Settle { folder } => object(&self.controls.settle(folder.clone())?),
            Request::Plan => object(&self.controls.plan()?),
            Request::Change { change } => {
                let change = serde_json::from_value(Value::Object(change.clone()))
                    .map_err(|error| format!("this change is none: {error}"))?;
                self.controls.change(change)?;
                self.status_reply()
            }
            Request::Snapshot { output, to: None, last } => {
                let counts = self.controls.snapshot(output, *last)?;
                Ok(of_counts(output, &counts))
            }
            Request::Snapshot { output, to: Some(to), last } => {
                let to = Destination::parse(to)?;
                let relay = to.address.to_string();
                let counts = self.controls.send_snapshot(output, to, *last)?;
                let mut facts =
                    of_counts(Path::new(output.file_name().unwrap_or_default()), &counts);
                facts.insert("relay".into(), relay.into());
                Ok(facts)
            }
            Request::MemberSnapshot { last } => self.save_for_members(*last),
        }
    }

    /// Saves a snapshot in the folder that root has set for the group. The members decide neither on the place nor on
    /// the number of snapshots.
    fn save_for_members(&self, last: Option<Duration>) -> Reply {
        let folder = self.controls.plan()?.group_snapshots.ok_or(
            "members of its group may ask for its status only: root has named no folder for snapshots \
             (strata create --group-snapshots DIR)",
        )?;
        self.saved_for_members.lock().unwrap_or_else(PoisonError::into_inner).take_turn()?;
        let stamp = time_name().map_err(|error| format!("tell the time: {error}"))?;
        let output = folder.join(format!("strata-snapshot-{}-{stamp}", self.listener.name()));
        let counts = self.controls.bounded_snapshot(&output, last)?;
        if counts.records > 0 {
            show_to_group(&output)
                .map_err(|error| format!("the snapshot {}: its mode: {error}", output.display()))?;
        }
        Ok(of_counts(&output, &counts))
    }

    /// Returns the status of the session as a reply.
    fn status_reply(&self) -> Reply {
        let mut facts = object(&self.controls.status()?)?;
        facts.insert("name".into(), self.listener.name().into());
        facts.insert("pid".into(), std::process::id().into());
        Ok(facts)
    }
}

fn object(of: &impl serde::Serialize) -> Reply {
    match serde_json::to_value(of) {
        Ok(Value::Object(mut object)) => {
            add_earlier_keys(&mut object);
            Ok(object)
        }
        _ => Err("this cannot be told".to_owned()),
    }
}

fn of_counts(output: &Path, counts: &Counts) -> Map<String, Value> {
    let mut facts = Map::new();
    facts.insert("output".into(), output.to_string_lossy().into());
    facts.insert("records".into(), counts.records.into());
    facts.insert("bytes".into(), counts.bytes.into());
    facts.insert(
        "span_ns".into(),
        u64::try_from(counts.duration().as_nanos()).unwrap_or(u64::MAX).into(),
    );
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_share_one_snapshot_each_pause() {
        let mut pause = SnapshotPause { last: None, time: TimeSource::manual(0) };
        let time = pause.time.clone();
        assert_eq!(pause.take_turn(), Ok(()));
        for (waited, left_s) in
            [(Duration::ZERO, PAUSE.as_secs() + 1), (PAUSE / 2, 6), (PAUSE / 4, 3)]
        {
            time.pause(waited);
            let why = pause.take_turn().unwrap_err();
            assert!(why.ends_with(&format!("Try again in {left_s} s")), "{why}");
        }
        // Who is refused does not make the others wait longer.
        time.pause(PAUSE / 4);
        assert_eq!(pause.take_turn(), Ok(()));
        assert!(pause.take_turn().is_err());
    }
}

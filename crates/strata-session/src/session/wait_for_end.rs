//! Waits for the reason to end a recording: end of the command, time, size, Ctrl-C or a failure. The main thread
//! waits here.
//!
//! ```text
//! loop: broken()   periodic work of the caller: rotation, triggers, notices. True if a thread has died
//!       look()     a failure ─ the deadline ─ the size ─ free space ─ a request to stop or the command's end
//!                  ─ the end of all watched processes                                         ─▶ EndReason
//!       pause()    sleeps at most LOOK_PERIOD, then again
//! ```
//!
//! The order decides what is reported if several reasons come at once. A command that has ended may have descendants
//! that still run; a notice says so once.
//!
//! Progress notices are sent every [`PROGRESS_PERIOD`]. Only `pause` waits, by the session's [`strata_model::TimeSource`]:
//! unit tests let hours go by, or call `look` alone.
//!
//! The engine has the loop, and calls `look` and `pause` in turn; [`Watch::wait`] is the same loop for callers
//! without requests, such as a count. A session without an end of its own waits with a watch that only a failure
//! and a stop end. A [`Watch`] belongs to the main thread: what other threads report (failures, counts, free
//! space) it reads from [`Shared`].

use std::path::Path;
use std::time::{Duration, Instant};

use crate::record::command::Running;
use crate::record::watched::Watched;
use crate::report::{CommandEnd, EndReason, Notice, Progress};
use crate::session::disk::{DiskLimit, LowSpace};
use crate::session::shared_state::Shared;
use crate::session::state::SessionState;
use crate::session::stop::Stop;

/// The longest sleep of the main thread, after which it notices signals, time and failures.
const LOOK_PERIOD: Duration = Duration::from_millis(50);
/// The period of progress notices.
const PROGRESS_PERIOD: Duration = Duration::from_millis(250);

/// Callback that does periodic work and sends notices. It returns whether a thread has ended unexpectedly.
pub(crate) type Broken<'b> = dyn FnMut(&mut dyn FnMut(Notice)) -> bool + 'b;

/// The conditions that the main thread waits for.
pub(crate) struct Watch<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) stop: &'a Stop,
    pub(crate) running: Option<Running>,
    pub(crate) has_applications: bool,
    /// The requested processes, if their end must be noticed here.
    pub(crate) watched: Option<Watched>,
    pub(crate) deadline: Option<Instant>,
    /// The limit on the trace's size \[byte\], with its measurement.
    pub(crate) limit: Option<(u64, DiskLimit)>,
    /// The state of the disk, if it has too little free space.
    pub(crate) space: Option<LowSpace>,
    pub(crate) has_told_of_descendants: bool,
    pub(crate) has_told_of_layer: bool,
    pub(crate) begin: Instant,
    pub(crate) next_progress: Instant,
    pub(crate) asked: usize,
    /// The state of the session, for progress notices.
    pub(crate) state: SessionState,
    /// The duration of the recording.
    pub(crate) elapsed: Duration,
}

impl<'a> Watch<'a> {
    /// Creates a watch that only a failure and `stop` end. Recording began at `begin`.
    pub(crate) fn new(shared: &'a Shared, stop: &'a Stop, begin: Instant) -> Watch<'a> {
        Watch {
            shared,
            stop,
            running: None,
            has_applications: true,
            watched: None,
            deadline: None,
            limit: None,
            space: None,
            has_told_of_descendants: false,
            has_told_of_layer: false,
            begin,
            next_progress: shared.time().now(),
            asked: 0,
            state: SessionState::default(),
            elapsed: Duration::ZERO,
        }
    }

    /// Sends the notice that recording has started. `events`: number of recorded events, if the layers know it in
    /// advance.
    pub(crate) fn started(
        &self,
        path: Option<&Path>,
        (relay, remote): (Option<String>, Option<String>),
        events: Option<u64>,
        notify: &mut dyn FnMut(Notice),
    ) {
        let (max_memory, memory) = self.shared.memory().now();
        notify(Notice::Started {
            memory,
            max_memory,
            output: path.map(Path::to_owned),
            relay,
            remote,
            command: self.command(),
            processes: usize::try_from(self.shared.processes()).unwrap_or(usize::MAX),
            events,
        });
    }

    /// Returns the process id of the command, if there is one.
    pub(crate) fn command(&self) -> Option<u32> {
        self.running.as_ref().map(Running::pid)
    }

    /// Returns whether all requested processes have ended, and so have the programs with tracepoints that they started.
    fn is_nobody_left(&self) -> bool {
        let are_traced_over = || self.shared.is_nobody_left();
        match &self.watched {
            Some(watched) => watched.have_ended() && (!self.has_applications || are_traced_over()),
            None => are_traced_over(),
        }
    }

    /// Waits for the command after a failure. The command owns the terminal, which this program's parent must not get
    /// back earlier.
    pub(crate) fn outlast(&mut self, notify: &mut dyn FnMut(Notice)) {
        let Some(running) = &self.running else { return };
        let pid = running.pid();
        if running.end() != (CommandEnd::Running { pid }) {
            return;
        }
        let why = self.shared.failure().unwrap_or_default();
        notify(Notice::Failed { why, command: pid });
        while self.asked(notify).is_none() {
            let Some(running) = &mut self.running else { return };
            match running.wait(LOOK_PERIOD) {
                Ok(false) => {}
                Ok(true) | Err(_) => return,
            }
        }
    }

    /// Waits until there is a reason to stop, which it returns.
    pub(crate) fn wait(
        &mut self,
        notify: &mut dyn FnMut(Notice),
        broken: &mut Broken<'_>,
    ) -> EndReason {
        loop {
            let is_broken = broken(notify);
            let end = self
                .look(is_broken, notify)
                .or_else(|| self.pause(notify, &mut |time| self.shared.time().pause(time)));
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Returns the first reason to stop that applies now. `is_broken`: true if a thread has ended unexpectedly.
    pub(crate) fn look(
        &mut self,
        is_broken: bool,
        notify: &mut dyn FnMut(Notice),
    ) -> Option<EndReason> {
        let now = self.shared.time().now();
        if self.shared.has_failed() || is_broken {
            return Some(EndReason::Failure);
        }
        self.tell_of_layer(notify);
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return Some(EndReason::Duration);
        }
        if let Some((max_bytes, limit)) = &mut self.limit {
            if limit.is_reached(self.shared.counts().1) {
                return Some(EndReason::Size { max_bytes: *max_bytes });
            }
        }
        if let Some(low) = self.space {
            return Some(EndReason::Space(low));
        }
        if let Some(end) = self.asked(notify) {
            return Some(end);
        }
        if self.is_nobody_left() {
            return Some(EndReason::Processes);
        }
        if now >= self.next_progress {
            notify(Notice::Progress(self.progress(now)));
            self.next_progress = now + PROGRESS_PERIOD;
        }
        None
    }

    /// Waits for a short time, or until the command ends. Returns the reason to stop if the command has ended.
    pub(crate) fn pause(
        &mut self,
        notify: &mut dyn FnMut(Notice),
        wait: &mut dyn FnMut(Duration),
    ) -> Option<EndReason> {
        let left = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(self.shared.time().now()));
        let time = left.map_or(LOOK_PERIOD, |left| LOOK_PERIOD.min(left));
        let Some(running) = &mut self.running else {
            wait(time);
            return None;
        };
        match running.wait(time) {
            Ok(false) if running.has_ended() && !self.has_told_of_descendants => {
                self.has_told_of_descendants = true;
                notify(Notice::WaitingForDescendants);
                None
            }
            Ok(false) => None,
            Ok(true) => Some(EndReason::Command),
            Err(error) => {
                self.shared.fail(format!("cannot wait for the command: {error}"));
                Some(EndReason::Failure)
            }
        }
    }

    /// Handles requests to stop. While a command runs, the first request gives the command time to end, and a SIGTERM
    /// is passed on. Ctrl-C and a closed terminal reach the command anyway. Returns the reason if the recording must
    /// end now.
    fn asked(&mut self, notify: &mut dyn FnMut(Notice)) -> Option<EndReason> {
        let requests = self.stop.requests();
        let patient = match &self.running {
            Some(running) if running.end() == (CommandEnd::Running { pid: running.pid() }) => 1,
            _ => 0,
        };
        if requests > patient {
            return Some(EndReason::Asked(self.stop.signal()));
        }
        if requests > self.asked {
            self.asked = requests;
            if let Some(running) = &self.running {
                let is_passed_on = self.stop.signal() == Some(libc::SIGTERM);
                let passed_on = is_passed_on.then(|| match running.terminate() {
                    Ok(()) => Ok(libc::SIGTERM),
                    Err(error) => Err(error.to_string()),
                });
                notify(Notice::WaitingForCommand { pid: running.pid(), passed_on });
            }
        }
        None
    }

    /// Sends a notice, once, about a layer whose trace cannot be written any longer.
    fn tell_of_layer(&mut self, notify: &mut dyn FnMut(Notice)) {
        if self.has_told_of_layer {
            return;
        }
        let Some(layer) = self.shared.layer_that_failed() else { return };
        self.has_told_of_layer = true;
        let why = self.shared.failure().unwrap_or_default();
        notify(Notice::LayerFailed { layer, why });
    }

    fn progress(&self, now: Instant) -> Progress {
        let (records, bytes, discarded, overwritten) = self.shared.counts();
        Progress {
            elapsed: now - self.begin,
            records,
            bytes,
            discarded,
            overwritten,
            memory: self.shared.memory().now().1,
            processes: self.has_applications.then(|| self.shared.processes()),
            state: self.state,
            has_no_room: self.shared.room().now().is_some(),
        }
    }
}

#[cfg(test)]
mod tests;

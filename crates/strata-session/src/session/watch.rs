//! What ends a recording: the command, the time, its size, Ctrl-C, a failure. The main thread waits here.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::record::command::Running;
use crate::record::watched::Watched;
use crate::report::{CommandEnd, EndReason, Notice, Progress};
use crate::session::disk::DiskLimit;
use crate::session::shared::Shared;
use crate::session::stop::Stop;

/// How long the main thread sleeps at most: a signal, the time, and a failure are noticed then.
const LOOK_PERIOD: Duration = Duration::from_millis(50);
/// How often progress is told.
const PROGRESS_PERIOD: Duration = Duration::from_millis(250);

/// Says whether a thread has ended that should not, and does what is to be done again and again; it may tell something.
pub(crate) type Broken<'b> = dyn FnMut(&mut dyn FnMut(Notice)) -> bool + 'b;

/// What the main thread waits for.
pub(crate) struct Watch<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) stop: &'a Stop,
    pub(crate) running: Option<Running>,
    pub(crate) has_applications: bool,
    /// Processes asked for, if it is here that their end is seen.
    pub(crate) watched: Option<Watched>,
    pub(crate) deadline: Option<Instant>,
    /// How large the trace may become \[byte\].
    pub(crate) limit: Option<(u64, DiskLimit)>,
    pub(crate) has_told_of_descendants: bool,
    pub(crate) has_told_of_layer: bool,
    pub(crate) begin: Instant,
    pub(crate) next_progress: Instant,
    pub(crate) asked: usize,
    /// How long it recorded.
    pub(crate) elapsed: Duration,
}

impl<'a> Watch<'a> {
    /// Nothing but a failure and `stop` ends it yet; recording began at `begin`.
    pub(crate) fn new(shared: &'a Shared, stop: &'a Stop, begin: Instant) -> Watch<'a> {
        Watch {
            shared,
            stop,
            running: None,
            has_applications: true,
            watched: None,
            deadline: None,
            limit: None,
            has_told_of_descendants: false,
            has_told_of_layer: false,
            begin,
            next_progress: Instant::now(),
            asked: 0,
            elapsed: Duration::ZERO,
        }
    }

    /// It records; so many `events`, if the layers know that before they happen.
    pub(crate) fn started(
        &self,
        path: Option<&Path>,
        relay: Option<String>,
        events: Option<u64>,
        notify: &mut dyn FnMut(Notice),
    ) {
        let (max_memory, memory) = self.shared.memory().now();
        notify(Notice::Started {
            memory,
            max_memory,
            output: path.map(Path::to_owned),
            relay,
            command: self.running.as_ref().map(Running::pid),
            processes: usize::try_from(self.shared.processes()).unwrap_or(usize::MAX),
            events,
        });
    }

    /// Have all who were asked for ended?
    fn is_nobody_left(&self) -> bool {
        match &self.watched {
            Some(watched) => watched.have_ended(),
            None => self.shared.is_nobody_left(),
        }
    }

    /// The command has the terminal, and who started us waits for it: we do not leave before it.
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

    /// Until there is a reason to stop.
    pub(crate) fn wait(
        &mut self,
        notify: &mut dyn FnMut(Notice),
        broken: &mut Broken<'_>,
    ) -> EndReason {
        loop {
            let now = Instant::now();
            if self.shared.has_failed() || broken(notify) {
                return EndReason::Failure;
            }
            self.tell_of_layer(notify);
            if self.deadline.is_some_and(|deadline| now >= deadline) {
                return EndReason::Duration;
            }
            if let Some((max_bytes, limit)) = &mut self.limit {
                if limit.is_reached(self.shared.counts().1) {
                    return EndReason::Size { max_bytes: *max_bytes };
                }
            }
            if let Some(end) = self.asked(notify) {
                return end;
            }
            if self.is_nobody_left() {
                return EndReason::Processes;
            }
            if now >= self.next_progress {
                notify(Notice::Progress(self.progress(now)));
                self.next_progress = now + PROGRESS_PERIOD;
            }
            let time =
                self.deadline.map_or(LOOK_PERIOD, |deadline| LOOK_PERIOD.min(deadline - now));
            match &mut self.running {
                None => thread::sleep(time),
                Some(running) => match running.wait(time) {
                    Ok(false) if running.has_ended() && !self.has_told_of_descendants => {
                        self.has_told_of_descendants = true;
                        notify(Notice::WaitingForDescendants);
                    }
                    Ok(false) => {}
                    Ok(true) => return EndReason::Command,
                    Err(error) => {
                        self.shared.fail(format!("cannot wait for the command: {error}"));
                        return EndReason::Failure;
                    }
                },
            }
        }
    }

    /// Did somebody ask to stop? A command gets the time to end by itself, once; it gets SIGTERM, too: Ctrl-C and a
    /// terminal that is closed are the whole group's.
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

    /// One that cannot be written any more, once.
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
        }
    }
}

#[cfg(test)]
mod tests;

//! The main thread of a session while it records: makes the others, and waits for the command, the time, Ctrl-C.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use strata_user::ask_with_these_rights;

use crate::command::Running;
use crate::disk::DiskLimit;
use crate::keeper::Keeper;
use crate::kernel::{KernelLayer, Recorded, Watched};
use crate::mover::{Mover, Moves};
use crate::privileges::{keep_for, Work};
use crate::report::{CommandEnd, EndReason, Notice, Progress};
use crate::shared::Shared;
use crate::stop::Stop;

/// How long the main thread sleeps at most: a signal, the time, and a failure are noticed then.
const LOOK_PERIOD: Duration = Duration::from_millis(50);
/// How often progress is told.
const PROGRESS_PERIOD: Duration = Duration::from_millis(250);

/// What the main thread waits for.
pub(crate) struct Watch<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) stop: &'a Stop,
    pub(crate) running: Option<Running>,
    pub(crate) kernel: Option<KernelLayer>,
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

/// What the threads hand back.
pub(crate) struct Moved {
    pub(crate) end: EndReason,
    pub(crate) moves: Moves,
    pub(crate) recorded: Recorded,
}

impl Watch<'_> {
    /// Record, in threads of their own.
    pub(crate) fn run(
        &mut self,
        applications: Option<(Keeper<'_>, Mover<'_>)>,
        folder: (Arc<OwnedFd>, &Path),
        flush: Duration,
        notify: &mut dyn FnMut(Notice),
    ) -> Moved {
        let shared = self.shared;
        let path = folder.1;
        // The command has been started, and the kernel's programs are attached.
        keep_for(Work::Everything);
        let recorder = self.kernel.as_mut().and_then(|kernel| kernel.recorder(folder, flush));
        shared.begin(applications.is_some(), recorder.is_some());
        let moved = thread::scope(|scope| {
            // Also the mover may ask, whose rights are for files.
            let asking = match applications {
                Some(_) => Work::Applications,
                None => Work::Kernel,
            };
            let rights = spawn(scope, "strata-rights", asking, || ask_with_these_rights().err());
            if let Some(error) = made(Some(rights), shared).and_then(|one| joined(one, shared)) {
                shared.fail(format!("cannot make a thread: {error}"));
            }
            let recording = recorder
                .map(|record| spawn(scope, "strata-kernel", Work::Kernel, move || record(shared)));
            let (mut moving, mut keeping) = (None, None);
            if let Some((mut keeper, mover)) = applications {
                moving = Some(spawn(scope, "strata-mover", Work::Files, move || mover.run()));
                let stop = self.stop;
                keeper.begin(&mut |notice| {
                    notify(notice);
                    stop.flow()
                });
                self.started(path, notify);
                // Not made, it is freed here, and the mover ends.
                let keep = move || keeper.run();
                keeping = Some(spawn(scope, "strata-keeper", Work::Applications, keep));
            } else {
                self.started(path, notify);
            }
            keep_for(Work::Watch);
            let recording = made(recording, shared);
            let moving = made(moving, shared);
            let keeping = made(keeping, shared);
            let end = self.wait(notify, &|| {
                recording.as_ref().is_some_and(ScopedJoinHandle::is_finished)
                    || moving.as_ref().is_some_and(ScopedJoinHandle::is_finished)
                    || keeping.as_ref().is_some_and(ScopedJoinHandle::is_finished)
            });
            self.kernel.iter_mut().for_each(KernelLayer::stop);
            shared.stop(end);
            notify(Notice::Stopping);
            let recorded = recording.map(|thread| joined(thread, shared)).unwrap_or_default();
            let moves = moving.map(|thread| joined(thread, shared)).unwrap_or_default();
            // The keeper keeps the processes alive until then.
            shared.set_moved();
            if let Some(thread) = keeping {
                joined(thread, shared);
            }
            Moved { end, moves, recorded }
        });
        self.elapsed = self.begin.elapsed();
        if moved.end == EndReason::Failure {
            self.outlast(notify);
        }
        moved
    }

    fn started(&self, path: &Path, notify: &mut dyn FnMut(Notice)) {
        notify(Notice::Started {
            output: path.to_owned(),
            command: self.running.as_ref().map(Running::pid),
            processes: usize::try_from(self.shared.processes()).unwrap_or(usize::MAX),
            kernel_events: self.kernel.as_ref().map(KernelLayer::events),
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
    fn outlast(&mut self, notify: &mut dyn FnMut(Notice)) {
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

    /// Until there is a reason to stop. `broken`: has a thread ended that should not?
    fn wait(&mut self, notify: &mut dyn FnMut(Notice), broken: &dyn Fn() -> bool) -> EndReason {
        loop {
            let now = Instant::now();
            if self.shared.has_failed() || broken() {
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
        notify(Notice::LayerFailed { layer: layer.name(), why });
    }

    fn progress(&self, now: Instant) -> Progress {
        let (records, bytes, discarded, overwritten) = self.shared.counts();
        Progress {
            elapsed: now - self.begin,
            records,
            bytes,
            discarded,
            overwritten,
            processes: self.has_applications.then(|| self.shared.processes()),
        }
    }
}

/// A thread with a name, for those who look at the tracer with a debugger, and with the rights for its work.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: &str,
    rights: Work,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, move || {
        keep_for(rights);
        work()
    })
}

/// What a thread hands back; one that panicked is a failure of the session.
fn joined<T: Default>(thread: ScopedJoinHandle<'_, T>, shared: &Shared) -> T {
    thread.join().unwrap_or_else(|_| {
        shared.fail("a thread of this program has failed; please report this".to_owned());
        T::default()
    })
}

/// A thread that was asked for, if there is one; without it the session cannot go on.
fn made<'scope, T>(
    thread: Option<io::Result<ScopedJoinHandle<'scope, T>>>,
    shared: &Shared,
) -> Option<ScopedJoinHandle<'scope, T>> {
    match thread? {
        Ok(thread) => Some(thread),
        Err(error) => {
            shared.fail(format!("cannot make a thread: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests;

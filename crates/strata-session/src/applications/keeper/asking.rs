//! How a keeper that works in a thread of its own is asked for something, and waited for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{eventfd, EventfdFlags};
use strata_user::SessionSpec;

use crate::plan::tracked::Tracked;

/// A keeper that searches /proc, or is starved, is not waited for longer; in tests it is, to the end.
const ARRIVAL_PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 1 });

/// What is recorded now, and of whom.
#[derive(Clone, Debug)]
pub(crate) struct Now {
    pub(crate) spec: Arc<SessionSpec>,
    pub(crate) tracked: Arc<Tracked>,
}

/// What a keeper that works in a thread of its own may be asked for.
#[derive(Clone, Debug)]
pub(super) enum KeeperTask {
    Change(Now),
    Arrivals,
}

#[derive(Debug)]
pub(crate) struct KeeperRequest {
    pub(super) what: KeeperTask,
    /// Its end: it is done.
    _done: Sender<()>,
}

/// Who asks a keeper.
#[derive(Clone, Debug)]
pub(crate) struct KeeperAsking {
    asks: Sender<KeeperRequest>,
    wake: Arc<OwnedFd>,
}

/// The keeper's end of it.
#[derive(Debug)]
pub(crate) struct Hearing {
    asked: Receiver<KeeperRequest>,
    wake: Arc<OwnedFd>,
}

/// Two ends.
///
/// # Errors
/// What the system said.
pub(crate) fn asking() -> io::Result<(KeeperAsking, Hearing)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (asks, asked) = channel();
    Ok((KeeperAsking { asks, wake: Arc::clone(&wake) }, Hearing { asked, wake }))
}

impl KeeperAsking {
    /// Has this recorded from now on; waits until it is so of all processes that are known. A keeper that has
    /// ended, or ends, is not waited for.
    pub(crate) fn change(&self, now: Now) {
        if let Some(done) = self.ask(KeeperTask::Change(now)) {
            // The other end goes when it is done.
            let _ = done.recv();
        }
    }

    /// Waits until who has announced itself before is with the pump, or for [`ARRIVAL_PATIENCE`]: a program may have
    /// recorded all that it has to say, and ended, before the keeper runs.
    pub(crate) fn wait_for_arrivals(&self) {
        if let Some(done) = self.ask(KeeperTask::Arrivals) {
            let _ = done.recv_timeout(ARRIVAL_PATIENCE);
        }
    }

    /// `None`: the keeper has ended.
    fn ask(&self, what: KeeperTask) -> Option<Receiver<()>> {
        let (done, heard) = channel();
        self.asks.send(KeeperRequest { what, _done: done }).ok()?;
        // It is full only if it was written to before.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        Some(heard)
    }
}

impl Hearing {
    /// Readable when something is asked.
    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// What was asked, in the order in which it was; who asked waits until that is let go of.
    pub(crate) fn next(&self) -> Option<KeeperRequest> {
        self.asked.try_recv().ok()
    }
}

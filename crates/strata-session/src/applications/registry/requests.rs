//! Requests to the registry, which works in a thread of its own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{eventfd, EventfdFlags};
use strata_user::SessionSpec;

use crate::plan::tracked::Tracked;

/// The longest wait for a registry that searches /proc or gets no CPU; longer in tests, where it should always answer.
const ARRIVAL_PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 1 });

/// The rules and the tracked processes that are in effect now.
#[derive(Clone, Debug)]
pub(crate) struct Now {
    pub(crate) spec: Arc<SessionSpec>,
    pub(crate) tracked: Arc<Tracked>,
}

/// A request to the registry's thread.
#[derive(Clone, Debug)]
pub(super) enum RegistryTask {
    Change(Now),
    Arrivals,
}

#[derive(Debug)]
pub(crate) struct RegistryRequest {
    pub(super) what: RegistryTask,
    /// Kept by the registry until the request is done. The end of this sender is the answer.
    _done: Sender<()>,
}

/// Sends requests to the registry.
#[derive(Clone, Debug)]
pub(crate) struct RegistryAsking {
    asks: Sender<RegistryRequest>,
    wake: Arc<OwnedFd>,
}

/// Receives requests, in the registry's thread.
#[derive(Debug)]
pub(crate) struct Hearing {
    asked: Receiver<RegistryRequest>,
    wake: Arc<OwnedFd>,
}

/// Creates both ends of the channel for requests.
///
/// # Errors
/// The error of the system.
pub(crate) fn asking() -> io::Result<(RegistryAsking, Hearing)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (asks, asked) = channel();
    Ok((RegistryAsking { asks, wake: Arc::clone(&wake) }, Hearing { asked, wake }))
}

impl RegistryAsking {
    /// Changes what is recorded from now on, and waits until the change has reached all known processes. Does not wait
    /// for a registry that has ended or is ending.
    pub(crate) fn change(&self, now: Now) {
        if let Some(done) = self.ask(RegistryTask::Change(now)) {
            // The other end is closed when the request is done.
            let _ = done.recv();
        }
    }

    /// Waits until all processes that have announced themselves are handed to the pump, at most [`ARRIVAL_PATIENCE`].
    /// Without waiting, a program could have recorded everything and ended before the registry runs.
    pub(crate) fn wait_for_arrivals(&self) {
        if let Some(done) = self.ask(RegistryTask::Arrivals) {
            let _ = done.recv_timeout(ARRIVAL_PATIENCE);
        }
    }

    /// Sends a request. Returns the receiver on which to wait for its end; `None` if the registry has ended.
    fn ask(&self, what: RegistryTask) -> Option<Receiver<()>> {
        let (done, heard) = channel();
        self.asks.send(RegistryRequest { what, _done: done }).ok()?;
        // Writing can only fail because it was done before.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        Some(heard)
    }
}

impl Hearing {
    /// Returns a descriptor that becomes readable when there is a request.
    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Returns the next request. Its sender waits as long as the returned value lives.
    pub(crate) fn next(&self) -> Option<RegistryRequest> {
        self.asked.try_recv().ok()
    }
}

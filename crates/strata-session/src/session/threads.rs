//! Threads of a session: each has a name and the rights for its work. If a thread fails, the session fails.

use std::io;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use strata_collect::{Error, Finish, HeldTrace, Output, PumpOrder, SnapshotSpan};

use crate::session::privileges::{keep_for, Work};
use crate::session::shared_state::Shared;

/// Starts a thread with the rights for its work. The name is for people who examine the tracer with a debugger. Returns
/// `None` if the thread cannot be created; the session then fails.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    rights: Work,
    shared: &Shared,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<JoinHandle<T>> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        keep_for(rights);
        work()
    });
    made(thread, shared)
}

/// Returns the thread. If it could not be created, the session fails and the result is `None`.
fn made<T>(thread: io::Result<JoinHandle<T>>, shared: &Shared) -> Option<JoinHandle<T>> {
    thread.map_err(|error| shared.fail(format!("cannot make a thread: {error}"))).ok()
}

/// Joins a thread and returns its result. A thread that panicked is a failure of the session.
pub(crate) fn joined<T: Default>(thread: Option<JoinHandle<T>>, shared: &Shared) -> T {
    let Some(thread) = thread else { return T::default() };
    thread.join().unwrap_or_else(|_| {
        shared.fail("a thread of this program has failed; please report this".to_owned());
        T::default()
    })
}

/// A request for the packets that a layer holds, to be written to an output. A call does not wait for the packets,
/// but for programs that have just started.
pub(crate) type Ask = Box<
    dyn FnOnce(&Arc<Mutex<dyn Output>>, SnapshotSpan) -> Receiver<Result<Vec<HeldTrace>, Error>>
        + Send,
>;

/// Returns a request to a pump for a snapshot. If there is no answer, the pump's thread has failed, which the session
/// reports.
pub(crate) fn ask<S: Send + 'static>(orders: Option<&Sender<PumpOrder<S>>>) -> Ask {
    let orders = orders.cloned();
    Box::new(move |output, span| {
        let (reply, answer) = channel();
        if let Some(orders) = orders {
            // Sending fails if the pump has ended; then there is no answer.
            let _ = orders.send(PumpOrder::Snapshot(Arc::clone(output), span, reply));
        }
        answer
    })
}

/// A request to complete a layer's traces that are not in the output's present folder. A call does not wait for the
/// traces to be complete, but for programs that have just started.
pub(crate) type Cut = Box<dyn FnOnce(&Arc<Mutex<dyn Output>>) -> Receiver<Vec<Finish>> + Send>;

/// Returns a request to a pump for a rotation; see [`ask`].
pub(crate) fn cut<S: Send + 'static>(orders: Option<&Sender<PumpOrder<S>>>) -> Cut {
    let orders = orders.cloned();
    Box::new(move |output| {
        let (reply, answer) = channel();
        if let Some(orders) = orders {
            let _ = orders.send(PumpOrder::Rotate(Arc::clone(output), reply));
        }
        answer
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_that_panics_or_cannot_be_made_is_the_session_s_failure() {
        let shared = Shared::new().unwrap();
        let panics = || -> u64 { std::panic::resume_unwind(Box::new("on purpose")) };
        let thread = spawn("test", Work::Everything, &shared, panics);
        assert_eq!(joined(thread, &shared), 0);
        assert!(shared.failure().unwrap().contains("please report this"), "{:?}", shared.failure());
        let shared = Shared::new().unwrap();
        let source = io::Error::from_raw_os_error(libc::EAGAIN);
        assert!(made::<()>(Err(source), &shared).is_none());
        assert!(shared.failure().unwrap().starts_with("cannot make a thread: "));
        let shared = Shared::new().unwrap();
        assert_eq!((joined::<u64>(None, &shared), shared.has_failed()), (0, false));
    }
}

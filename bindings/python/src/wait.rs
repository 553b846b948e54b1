//! Waits for another thread without the interpreter's lock; signals end the wait.

use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Period at which signals are checked.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// Waits for the next message; `None` if there will be no more.
///
/// # Errors
/// A signal handler has raised an exception, such as `KeyboardInterrupt`.
pub(crate) fn next<T: Send>(py: Python<'_>, from: &Mutex<Receiver<T>>) -> PyResult<Option<T>> {
    loop {
        let received = py.detach(|| match from.lock() {
            Ok(from) => from.recv_timeout(PATIENCE),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        });
        match received {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
        }
    }
}

/// Returns true if Ctrl-C was typed. The signal stays pending, so that Python raises `KeyboardInterrupt` as soon as it runs again.
pub(crate) fn is_interrupted(_: Python<'_>) -> bool {
    // SAFETY: the thread holds the interpreter's lock, as `Python` shows. In a thread that is not the main one the first
    // function returns 0.
    let is_pending = unsafe { ffi::PyOS_InterruptOccurred() } != 0;
    if is_pending {
        // SAFETY: as above.
        unsafe { ffi::PyErr_SetInterrupt() };
    }
    is_pending
}

/// Runs a function in a separate thread and waits for its result. A signal ends the wait, not the function: whoever calls this
/// has the function look for a request to stop.
///
/// # Errors
/// A signal handler has raised an exception, the system can make no thread, or the function has panicked.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (to_send, done) = channel();
    let work = move || {
        // An error means that a signal has ended the wait.
        let _ = to_send.send(work());
    };
    thread::Builder::new().name(name.to_owned()).spawn(work)?;
    let found = next(py, &Mutex::new(done))?;
    found.ok_or_else(|| {
        PyRuntimeError::new_err(format!("{name}: it has ended by a fault of strata"))
    })
}

//! Waits for another thread without the interpreter's lock; signals end the wait.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::Mutex;
use std::time::Duration;

use pyo3::prelude::*;

/// Period at which signals are checked.
const PATIENCE: Duration = Duration::from_millis(50);

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

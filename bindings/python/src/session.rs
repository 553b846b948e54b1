//! Requests to a session's socket, for Python.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use strata_control::{ask, ControlError, Folder, Request, VERDICT};
use strata_text::json::compact;

use crate::errors::SessionError;
use crate::wait;

/// Period at which a session's process is checked for its end.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// The socket of a session, by the session's name.
#[pyclass(module = "strata._strata", frozen)]
pub(crate) struct SessionSocket {
    #[pyo3(get)]
    name: String,
}

/// Runs a function in a separate thread and waits for its result; signals end the wait.
fn beside<T: Send + 'static>(
    py: Python<'_>,
    run: impl FnOnce() -> Result<T, ControlError> + Send + 'static,
) -> PyResult<T> {
    wait::run(py, "session", run)?.map_err(|error| SessionError::new_err(error.to_string()))
}

#[pymethods]
impl SessionSocket {
    #[new]
    fn new(name: String) -> SessionSocket {
        SessionSocket { name }
    }

    /// Sends a request, and returns the answer as JSON. `word` is the request's; `output` and `last` are those of a snapshot.
    #[pyo3(signature = (word, output = None, last = None))]
    fn ask(
        &self,
        py: Python<'_>,
        word: &str,
        output: Option<PathBuf>,
        last: Option<f64>,
    ) -> PyResult<String> {
        let last = last.map(Duration::try_from_secs_f64).transpose();
        let last = last.map_err(|error| PyValueError::new_err(format!("last: {error}")))?;
        let request = match (word, output) {
            ("status", None) => Request::Status,
            ("start", None) => Request::Start,
            ("stop", None) => Request::Stop,
            ("rotate", None) => Request::Rotate,
            ("destroy", None) => Request::Destroy,
            ("snapshot", Some(output)) => Request::Snapshot { output, to: None, last },
            _ => return Err(PyValueError::new_err(format!("'{word}' is no request"))),
        };
        let name = self.name.clone();
        beside(py, move || {
            let answer = ask(&Folder::reaching(&name)?, &name, &request)?;
            Ok(compact(&answer))
        })
    }

    /// Waits until the session's process has ended, and returns its report as JSON, if it has left one. What else it has left to be
    /// read is removed.
    fn wait_for_end(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let name = self.name.clone();
        beside(py, move || {
            let folder = Folder::reaching(&name)?;
            while folder.pid(&name).is_some() {
                thread::sleep(LOOK_PERIOD);
            }
            let report = folder.take_text(&name, VERDICT).ok();
            if let Ok(said) = folder.said(&name) {
                folder.drop_said(&name, &said);
            }
            Ok(report)
        })
    }
}

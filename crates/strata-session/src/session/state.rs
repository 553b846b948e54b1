//! The state of a session, for its status and its notices.

use serde::Serialize;

/// The state of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionState {
    /// The session was never started.
    Created,
    /// The session records.
    #[default]
    Recording,
    /// The session was stopped, and can be started again.
    Stopped,
    /// The session is ending and writes what its buffers hold.
    Stopping,
    /// The session was killed, and can be restored.
    Killed,
}

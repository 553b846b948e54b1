//! Errors of sessions that cannot be reached.

use std::io;
use std::path::PathBuf;

/// Why a session cannot be reached, or made reachable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The name is not allowed for a session.
    #[error(
        "session '{name}': not a name. Use 1 to {max} of A-Z a-z 0-9 . _ -, and none of . and - first",
        max = crate::NAME_BYTES_MAX
    )]
    Name {
        /// Name that was given, without control characters.
        name: String,
    },
    /// The environment names no folder for sockets.
    #[error(
        "sessions: XDG_RUNTIME_DIR is not set to an absolute path, so there is no folder for their sockets. Log in by a session \
         manager, or set it to a folder that only you can enter"
    )]
    NoRuntimeFolder,
    /// Other users may access the folder of sessions.
    #[error(
        "sessions: {}: belongs to user {owner}, mode {mode:o}; it must be yours alone to read and write. Remove it, \
         or set XDG_RUNTIME_DIR to another folder",
        path.display()
    )]
    NotOurs {
        path: PathBuf,
        /// User id of the owner.
        owner: u32,
        mode: u32,
    },
    /// Another file has the name that a session's file needs.
    #[error("sessions: {}: {what}; a session of this name needs that place. Remove it, or use another name", path.display())]
    InTheWay { path: PathBuf, what: &'static str },
    /// The folder cannot be used.
    #[error("sessions: {}: cannot {what}: {source}", path.display())]
    Folder { path: PathBuf, what: &'static str, source: io::Error },
    /// The folder cannot be opened to this group.
    #[error("group '{group}': {why}; no session can be open to it")]
    Group { group: String, why: String },
    /// A session of this name exists already.
    #[error("session '{name}': runs already, as process {pid}. Use another name, or `strata destroy {name}`")]
    Exists {
        name: String,
        /// Process id; 0 if the session has not reported it yet.
        pid: u32,
    },
    /// The session does not exist.
    #[error(
        "session '{name}': there is none of this name. `strata status` shows those that there are"
    )]
    Absent { name: String },
    /// A session of this name was killed, and its plan is left.
    #[error(
        "session '{name}': was killed, and its plan is left. `strata start {name}` makes it again and starts it, \
         `strata destroy {name}` removes what is left"
    )]
    Killed { name: String },
    /// The session's process exists and does not answer.
    #[error(
        "session '{name}': does not answer within {seconds} s. Its process {pid} is there, and is busy or stopped. If `ps -o \
         stat= {pid}` says T, `kill -CONT {pid}` has it go on; else try again later"
    )]
    Silent {
        name: String,
        /// Process id; 0 if the session has not reported it.
        pid: u32,
        /// Time that the command waited for the answer \[s\].
        seconds: u64,
    },
    /// The other end of the socket is another user's process.
    #[error("session '{name}': the other end of its socket is user {uid}, not you")]
    Stranger { name: String, uid: u32 },
    /// The session refused the request.
    #[error("session '{name}': {why}")]
    Refused { name: String, why: String },
    /// The answer is no valid reply.
    #[error("session '{name}': its answer cannot be understood: {what}. Is it of another version of strata?")]
    Message { name: String, what: String },
    /// A system call failed.
    #[error("session '{name}': cannot {what}: {source}")]
    System { name: String, what: &'static str, source: io::Error },
}

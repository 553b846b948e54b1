//! Why a session cannot be reached.

use std::io;
use std::path::PathBuf;

/// Why a session cannot be reached, or made reachable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// A name that is none.
    #[error(
        "session '{name}': not a name. Use 1 to {max} of A-Z a-z 0-9 . _ -, and none of . and - first",
        max = crate::NAME_BYTES_MAX
    )]
    Name {
        /// As it was given, without control characters.
        name: String,
    },
    /// The environment does not say where sockets may be.
    #[error(
        "sessions: XDG_RUNTIME_DIR is not set to an absolute path, so there is no folder for their sockets. Log in by a session \
         manager, or set it to a folder that only you can enter"
    )]
    NoRuntimeFolder,
    /// The folder is not this user's alone.
    #[error(
        "sessions: {}: belongs to user {owner}, mode {mode:o}; it must be yours alone to read and write. Remove it, \
         or set XDG_RUNTIME_DIR to another folder",
        path.display()
    )]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Its mode.
        mode: u32,
    },
    /// Something else is where a session has a file.
    #[error("sessions: {}: {what}; a session of this name needs that place. Remove it, or use another name", path.display())]
    InTheWay {
        /// The place.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// The folder cannot be used.
    #[error("sessions: {}: cannot {what}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot be open to this group.
    #[error("group '{group}': {why}; no session can be open to it")]
    Group {
        /// As it was given.
        group: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is one already.
    #[error("session '{name}': runs already, as process {pid}. Use another name, or `strata destroy {name}`")]
    Exists {
        /// Its name.
        name: String,
        /// Its process; 0: it has not said it yet.
        pid: u32,
    },
    /// There is none.
    #[error("session '{name}': does not run. `strata status` names those that do")]
    Absent {
        /// Its name.
        name: String,
    },
    /// There was one, which was killed.
    #[error(
        "session '{name}': was killed, and its plan is left. `strata start {name}` makes it again and starts it, \
         `strata destroy {name}` removes what is left"
    )]
    Killed {
        /// Its name.
        name: String,
    },
    /// It is there, and says nothing.
    #[error(
        "session '{name}': does not answer within {seconds} s. Is it stopped? `kill -CONT {pid}` has it go on, and `kill \
         -KILL {pid}` ends it: `strata start {name}` makes it again then"
    )]
    Silent {
        /// Its name.
        name: String,
        /// Its process; 0: it has not said it.
        pid: u32,
        /// How long was waited.
        seconds: u64,
    },
    /// It is another user's.
    #[error("session '{name}': the other end of its socket is user {uid}, not you")]
    Stranger {
        /// Its name.
        name: String,
        /// Who it is.
        uid: u32,
    },
    /// It has said no.
    #[error("session '{name}': {why}")]
    Refused {
        /// Its name.
        name: String,
        /// Its words.
        why: String,
    },
    /// It said something that is no reply.
    #[error("session '{name}': its answer is none: {what}. Is it of another version of strata?")]
    Message {
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// The system refused.
    #[error("session '{name}': cannot {what}: {source}")]
    System {
        /// Its name.
        name: String,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

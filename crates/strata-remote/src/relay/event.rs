//! Events in the relay, for a log.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Event in the relay, for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayEvent {
    /// A recorder has begun or resumed a recording.
    Connected {
        /// Name of the recorder's host.
        host: String,
        /// Folder of the recording.
        folder: PathBuf,
        /// Number of the first message that the relay does not have yet.
        next: u64,
    },
    /// A recorder's connection has ended.
    Left {
        /// Name of the recorder's host.
        host: String,
        /// Folder of the recording.
        folder: PathBuf,
        /// True if the recording is complete.
        is_complete: bool,
        /// Why the connection ended, if it broke.
        why: Option<String>,
        /// Number of bytes that were written during the connection.
        bytes: u64,
    },
    /// The share of the space of a host is used up, so that its recorders' packets are discarded; or it has space
    /// again.
    Full {
        /// Name of the host.
        host: String,
        /// True if the share is used up.
        is_full: bool,
        /// The host's share of the space \[byte\].
        most: u64,
    },
    /// A connection was refused.
    Refused {
        /// Address of the peer.
        peer: SocketAddr,
        /// Reason for the refusal or failure, in words for people.
        why: String,
    },
    /// The command for ended recordings has taken a recording.
    Delivered {
        /// Folder of the recording.
        folder: PathBuf,
        /// Time that the command took.
        took: Duration,
    },
    /// The command is run again for a recording, since the relay ended during the previous attempt.
    DeliversAgain {
        /// Folder of the recording.
        folder: PathBuf,
        /// Number of the attempt, from 1.
        attempt: u64,
    },
    /// The command has not taken a recording.
    NotDelivered {
        /// Folder of the recording.
        folder: PathBuf,
        /// How the command ended.
        why: String,
        /// Pause before the next attempt.
        pause: Duration,
    },
    /// A recording was removed because of the limits on age and size.
    Removed {
        /// Folder of the recording.
        folder: PathBuf,
        /// Size of its files \[byte\].
        bytes: u64,
    },
    /// The relay itself has a problem.
    Trouble(String),
    /// An event that was logged has happened again, for the same address and reason.
    Repeated {
        /// The event that was logged.
        event: Box<RelayEvent>,
        /// Number of times that the event has happened since it was logged.
        times: u64,
        /// Time since the event was logged.
        within: Duration,
    },
    /// Connections were refused that have no line of their own, since there were too many.
    RefusedOthers {
        /// Number of connections.
        times: u64,
        /// Time in which they were refused.
        within: Duration,
    },
}

/// Function that receives the relay's events, in the thread where each happens.
pub type Log = dyn Fn(RelayEvent) + Send + Sync;

//! State that all threads of a relay share: its folder and limits, who is connected, and figures for monitors.
//!
//! The [`Registry`] is behind a lock that is held for moments. Files that a change of it closes are returned, and closed
//! after the lock is released. Counters of connections are atomics, so that a new connection is refused without the lock.

use std::collections::HashMap;
use std::net::{IpAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use strata_collect::Directory;
use strata_model::Uuid;

use super::disconnected_recordings::DisconnectedRecordings;
use super::limits::Limits;
use super::wall_clock::WallClock;
use crate::recording_folder::recording_writer::{ClosedRecording, RecordingWriter};
use crate::relay::disk_sync::Durable;
use crate::relay::event::Log;
use crate::relay::memory::Memory;

/// Figures about recordings that have ended, for monitors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EndedFigures {
    /// Recordings that the command has not taken yet.
    pub(super) waiting: u64,
    pub(super) delivered: u64,
    /// Failed attempts.
    pub(super) failed: u64,
    pub(super) removed: u64,
    pub(super) removed_bytes: u64,
}

/// State that all threads of a relay share.
pub(super) struct Shared {
    pub(super) root: Directory,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) limits: Limits,
    pub(super) log: Box<Log>,
    pub(super) registry: Mutex<Registry>,
    /// Signalled when a connection has ended.
    pub(super) left: Condvar,
    pub(super) is_stopping: AtomicBool,
    /// Descriptor that becomes readable when the relay is stopped.
    pub(super) stop: OwnedFd,
    pub(super) greeting: AtomicU64,
    pub(super) connections: AtomicU64,
    /// Forces files to the disk; `None` if the relay does not force files.
    pub(super) durable: Option<Arc<Durable>>,
    pub(super) memory: Arc<Memory>,
    /// Number of connections that were refused.
    pub(super) refused: AtomicU64,
    /// The relay's wall clock, to which the times of all hosts are related.
    pub(super) wall: WallClock,
    /// Figures about recordings that have ended.
    pub(super) kept: Mutex<EndedFigures>,
    /// The last failure to write, and its time.
    pub(super) failed: Mutex<Option<(Instant, String)>>,
    /// Number of viewers.
    pub(super) viewers: AtomicU64,
    /// Shortest period of measuring the files of a host whose share of the space is used up.
    pub(super) recount_period: Duration,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(durable) = &self.durable {
            durable.end();
        }
    }
}

#[derive(Default)]
pub(super) struct Registry {
    pub(super) hosts: HashMap<String, Host>,
    /// Number of connections whose first message has not arrived, by address.
    pub(super) greeting: HashMap<IpAddr, u64>,
    /// All recorders, by host and recording.
    pub(super) recorders: HashMap<Key, Connected>,
    pub(super) parked: DisconnectedRecordings<ClosedRecording>,
}

impl Registry {
    /// Returns true if the recorder of this recording is connected, or may connect again at any moment; true if the
    /// UUID is not known.
    pub(super) fn has_recorder(&self, host: &str, recording: Option<Uuid>) -> bool {
        let Some(recording) = recording else {
            return self.recorders.keys().any(|key| key.0 == host);
        };
        let key = (host.to_owned(), recording);
        self.recorders.contains_key(&key) || self.parked.contains(&key)
    }
}

/// Host and UUID of a recording.
pub(super) type Key = (String, Uuid);

/// The connection of a recorder.
pub(super) struct Connected {
    pub(super) socket: TcpStream,
    /// Time of the oldest message that is not acknowledged.
    pub(super) waiting_since: Option<Instant>,
}

/// Resources of the relay that one host uses.
#[derive(Default)]
pub(super) struct Host {
    /// Size of the host's files, including those from before the relay's start \[byte\].
    pub(super) bytes: u64,
    pub(super) connections: u64,
    /// Number of bytes that were received since the relay was started.
    pub(super) written: u64,
    pub(super) messages: u64,
    /// Number of event records that the host's recorders have discarded since the relay was started, as counted by
    /// packets.
    pub(super) discarded: u64,
    /// Number of event records in packets that were discarded because the host's share of the space was used up.
    pub(super) left_out: u64,
    /// True if the host's share of the space was used up at the last check.
    pub(super) is_full: bool,
    /// Earliest time at which the host's files are measured again; `None`: at any time.
    pub(super) next_recount: Option<Instant>,
    /// Time of the last message.
    pub(super) heard: Option<Instant>,
    /// Number of connections that ended before their recording did.
    pub(super) breaks: u64,
}

/// Progress of a recording: bytes and discarded records since its folder was opened, and number of messages. Messages that come again,
/// and what they have, count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) bytes: u64,
    pub(super) messages: u64,
    pub(super) discarded: u64,
    /// Number of event records in packets that were discarded for lack of space.
    pub(super) quota: u64,
}

impl Progress {
    pub(super) fn of(received: &RecordingWriter) -> Progress {
        let (bytes, discarded) = (received.bytes(), received.discarded());
        let (messages, quota) = received.counts();
        Progress { bytes, messages, discarded, quota }
    }
}

impl Shared {
    pub(super) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of syncs that have failed; 0 if files are not forced to the disk.
    pub(super) fn failures(&self) -> u64 {
        self.durable.as_ref().map_or(0, |durable| durable.failures())
    }

    /// Notes that this recording has messages that are not acknowledged, or that it has none.
    pub(super) fn set_waiting(&self, key: &Key, is_waiting: bool) {
        if let Some(recorder) = self.registry().recorders.get_mut(key) {
            recorder.waiting_since =
                is_waiting.then(|| recorder.waiting_since.unwrap_or_else(Instant::now));
        }
    }

    /// Keeps the folders of a recording locked for a while.
    pub(super) fn park(&self, key: &Key, parked: ClosedRecording) {
        let (descriptors, most) = (parked.descriptors(), self.limits.host_connections);
        let closed = self.registry().parked.insert(key.clone(), (parked, descriptors), most);
        // Files are closed without the lock.
        drop(closed);
    }

    /// Unlocks the folders of recordings whose recorder has not connected again in time.
    pub(super) fn look_at_parked(&self, now: Instant) {
        let old = self.registry().parked.remove_old(now);
        // Files are closed without the lock.
        drop(old);
    }

    pub(super) fn with_host<T>(&self, name: &str, change: impl FnOnce(&mut Host) -> T) -> T {
        let mut registry = self.registry();
        change(registry.hosts.entry(name.to_owned()).or_default())
    }
}

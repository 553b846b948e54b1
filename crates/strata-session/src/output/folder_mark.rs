//! Numbers by which a session recognises the folders that it created, also after a restart.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use strata_model::{stable_hash, STABLE_HASH_OF_NOTHING};

/// The kind of folder that a session creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// The trace of a session that writes continuously.
    Trace,
    /// A snapshot that was saved on request.
    Snapshot,
    /// A snapshot that was saved by a trigger.
    OfTrigger,
}

impl Made {
    /// All kinds of folders.
    pub(crate) const ALL: [Made; 3] = [Made::Trace, Made::Snapshot, Made::OfTrigger];
}

/// A number that identifies one session on one machine, for marking its folders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionMark(u64);

impl SessionMark {
    /// Returns the mark of the session with this name on this machine.
    pub(crate) fn new(session: &str) -> SessionMark {
        let machine = fs::read("/etc/machine-id")
            .unwrap_or_else(|_| rustix::system::uname().nodename().to_bytes().to_vec());
        SessionMark::on(session, &machine)
    }

    /// Returns the mark of the session with this name on the machine whose identification is `machine`.
    pub(crate) fn on(session: &str, machine: &[u8]) -> SessionMark {
        SessionMark(mix(mix(STABLE_HASH_OF_NOTHING, session.as_bytes()), machine))
    }

    /// Returns the number for the end mark of a folder with this name.
    pub(crate) fn of(self, made: Made, name: &OsStr) -> u64 {
        let kind: &[u8] = match made {
            Made::Trace => b"trace",
            Made::Snapshot => b"snapshot",
            Made::OfTrigger => b"snapshot of trigger",
        };
        mix(mix(self.0, kind), name.as_bytes())
    }
}

/// Continues the hash `sum` with the text and a byte that no text contains.
fn mix(sum: u64, text: &[u8]) -> u64 {
    stable_hash(stable_hash(sum, text), &[0xff])
}

//! How much of this program the processes of one user may take at once.
//!
//! What is kept of a process goes when it has ended, so these bounds are of one moment, not of a recording: any
//! number of processes may come and go.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{getrlimit, Resource};

use crate::error::Error;

/// Processes of one user that are recorded at once. Fewer where this program may not have eight times as many
/// files open: each takes four, and one user shall not take all. Our own user has only this limit.
pub const PROCESSES_MAX: u64 = 10_000;

/// What is kept of the descriptions of all processes of one user \[byte\].
pub const USER_BYTES_MAX: u64 = 256 << 20;

/// What is kept of all descriptions of all users \[byte\].
pub const BYTES_MAX: u64 = 1 << 30;

/// What a user's processes have now.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    processes: u64,
    bytes: u64,
}

static LEDGER: Mutex<BTreeMap<u32, Held>> = Mutex::new(BTreeMap::new());

fn ledger() -> MutexGuard<'static, BTreeMap<u32, Held>> {
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of this user, with so many files that this program may have open.
fn processes_max(uid: u32, ours: u32, files_max: u64) -> u64 {
    match uid == ours {
        true => PROCESSES_MAX,
        false => PROCESSES_MAX.min((files_max / 8).max(1)),
    }
}

/// What one process has of its user's share; given back at its end.
#[derive(Debug)]
pub(crate) struct Share {
    uid: u32,
    held: Held,
}

impl Share {
    /// Nothing yet.
    pub fn new(uid: u32) -> Share {
        Share { uid, held: Held::default() }
    }

    /// The process is recorded.
    ///
    /// # Errors
    /// [`Error::Crowded`].
    pub fn take_process(&mut self, pid: u32) -> Result<(), Error> {
        let files_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = processes_max(self.uid, rustix::process::geteuid().as_raw(), files_max);
        let mut ledger = ledger();
        let of_user = ledger.entry(self.uid).or_default();
        if of_user.processes >= limit {
            let (uid, found) = (self.uid, of_user.processes + 1);
            let what = "processes recorded at once";
            return Err(Error::Crowded { pid, uid, what, found, limit });
        }
        of_user.processes += 1;
        self.held.processes += 1;
        Ok(())
    }

    /// So much more is kept of it.
    ///
    /// # Errors
    /// [`Error::Crowded`].
    pub fn take_bytes(&mut self, pid: u32, bytes: u64) -> Result<(), Error> {
        let mut ledger = ledger();
        let all = ledger.values().map(|held| held.bytes).sum::<u64>() + bytes;
        let of_user = ledger.entry(self.uid).or_default();
        let uid = self.uid;
        for (what, found, limit) in [
            ("bytes of tracepoints' descriptions", of_user.bytes + bytes, USER_BYTES_MAX),
            ("bytes of all users' descriptions", all, BYTES_MAX),
        ] {
            if found > limit {
                return Err(Error::Crowded { pid, uid, what, found, limit });
            }
        }
        of_user.bytes += bytes;
        self.held.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut ledger = ledger();
        if let Some(of_user) = ledger.get_mut(&self.uid) {
            of_user.processes -= self.held.processes;
            of_user.bytes -= self.held.bytes;
            if of_user.processes == 0 && of_user.bytes == 0 {
                ledger.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users that no other test has processes of.
    const ONE: u32 = 0x7000_0001;

    fn crowded(result: Result<(), Error>) -> (u64, u64) {
        match result {
            Err(Error::Crowded { found, limit, .. }) => (found, limit),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn processes_of_a_user_are_bounded_at_once_and_not_over_time() {
        let files_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = processes_max(ONE, 0, files_max);
        let mut shares: Vec<Share> = Vec::new();
        for number in 0..limit {
            let mut share = Share::new(ONE);
            share.take_process(number as u32).unwrap();
            shares.push(share);
        }
        let mut late = Share::new(ONE);
        assert_eq!(crowded(late.take_process(1)), (limit + 1, limit));
        // Another user has a share of its own.
        Share::new(ONE + 1).take_process(2).unwrap();
        shares.pop();
        late.take_process(1).unwrap();
        drop((late, shares));
        for _ in 0..2 * limit {
            Share::new(ONE).take_process(3).unwrap();
        }
        assert!(!ledger().contains_key(&ONE));
    }

    #[test]
    fn processes_of_a_user_leave_files_for_those_of_others() {
        assert_eq!(processes_max(7, 7, 1024), PROCESSES_MAX);
        assert_eq!(processes_max(7, 0, 1024), 128);
        assert_eq!(processes_max(7, 0, 1), 1);
        assert_eq!(processes_max(7, 0, u64::MAX), PROCESSES_MAX);
    }

    #[test]
    fn bytes_of_a_user_and_of_all_are_bounded_and_come_back() {
        let users = ONE + 10;
        let mut shares: Vec<Share> = (0..4).map(|number| Share::new(users + number)).collect();
        shares[0].take_bytes(1, USER_BYTES_MAX).unwrap();
        assert_eq!(crowded(shares[0].take_bytes(1, 1)), (USER_BYTES_MAX + 1, USER_BYTES_MAX));
        for share in &mut shares[1..3] {
            share.take_bytes(1, USER_BYTES_MAX).unwrap();
        }
        // Other tests have a little; nobody has so much that there is a quarter left.
        shares[3].take_bytes(1, USER_BYTES_MAX - (64 << 20)).unwrap();
        let mut late = Share::new(users + 4);
        let (found, limit) = crowded(late.take_bytes(1, 65 << 20));
        assert!(found > limit && limit == BYTES_MAX, "{found} of {limit}");
        drop(shares);
        late.take_bytes(1, 65 << 20).unwrap();
    }
}

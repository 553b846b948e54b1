//! Limits on the resources of this program that the processes of one user may take at the same time.
//!
//! What is kept about a process is freed when it has ended, so any number of processes may come and go.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{getrlimit, Resource};

use crate::error::Error;
use crate::users::persons::person;

/// The most processes of one user that are recorded at once. Lower for other users if this program may not open eight
/// times as many files: each process takes four, and one user must not take all.
pub const PROCESSES_MAX: u64 = 10_000;

/// The most memory for the descriptions of one user's processes \[byte\].
pub const USER_BYTES_MAX: u64 = 256 << 20;

/// The most memory for all descriptions of all users \[byte\].
pub const BYTES_MAX: u64 = 1 << 30;

/// Resources that a user's processes hold.
#[derive(Clone, Copy, Debug, Default)]
struct HeldByUser {
    processes: u64,
    bytes: u64,
}

static LEDGER: Mutex<BTreeMap<u32, HeldByUser>> = Mutex::new(BTreeMap::new());

fn ledger() -> MutexGuard<'static, BTreeMap<u32, HeldByUser>> {
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the most processes of this user, from the number of files that this program may have open and the number
/// of recorded processes of other users. Each user gets at most half of the remainder, so that something is left for
/// others.
fn processes_max(uid: u32, ours: u32, files_max: u64, of_others: u64) -> u64 {
    match uid == ours {
        true => PROCESSES_MAX,
        false => PROCESSES_MAX.min(((files_max / 4).saturating_sub(of_others) / 2).max(1)),
    }
}

/// Returns the most memory for the descriptions of one user's processes \[byte\]. `of_others`: the memory for those
/// of all other users.
fn bytes_max(of_others: u64) -> u64 {
    USER_BYTES_MAX.min(BYTES_MAX.saturating_sub(of_others) / 2)
}

/// Sums a resource over the processes of all other users.
fn others(ledger: &BTreeMap<u32, HeldByUser>, uid: u32, of: impl Fn(&HeldByUser) -> u64) -> u64 {
    ledger.iter().filter(|(other, _)| **other != uid).map(|(_, held)| of(held)).sum()
}

/// Resources that a user's processes hold together, until this value ends.
#[derive(Debug)]
pub(crate) struct Share {
    uid: u32,
    held: HeldByUser,
}

impl Share {
    /// Makes an empty share.
    pub fn new(uid: u32) -> Share {
        Share { uid: person(uid), held: HeldByUser::default() }
    }

    /// Counts a process that is to be recorded.
    ///
    /// # Errors
    /// [`Error::Crowded`].
    pub fn take_process(&mut self, pid: u32) -> Result<(), Error> {
        let files_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let ours = rustix::process::geteuid().as_raw();
        let mut ledger = ledger();
        let of_others = others(&ledger, self.uid, |held| held.processes);
        let limit = processes_max(self.uid, ours, files_max, of_others);
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

    /// Adds memory to the share.
    ///
    /// # Errors
    /// [`Error::Crowded`].
    pub fn take_bytes(&mut self, pid: u32, bytes: u64) -> Result<(), Error> {
        let mut ledger = ledger();
        let limit = bytes_max(others(&ledger, self.uid, |held| held.bytes));
        let of_user = ledger.entry(self.uid).or_default();
        let found = of_user.bytes.saturating_add(bytes);
        if found > limit {
            let (uid, what) = (self.uid, "bytes of tracepoints' descriptions");
            return Err(Error::Crowded { pid, uid, what, found, limit });
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
        // Where nobody else is recorded.
        let test = "users::quotas::tests::alone_processes_of_a_user";
        crate::testing::run_alone(test, || Ok(()));
    }

    #[test]
    #[ignore = "run by processes_of_a_user_are_bounded_at_once_and_not_over_time"]
    fn alone_processes_of_a_user() {
        let files_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = processes_max(ONE, 0, files_max, 0);
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
        assert_eq!(processes_max(7, 7, 1024, 0), PROCESSES_MAX);
        assert_eq!(processes_max(7, 0, 1024, 0), 128);
        assert_eq!(processes_max(7, 0, 1, 0), 1);
        assert_eq!(processes_max(7, 0, u64::MAX, 0), PROCESSES_MAX);
        // Users who take all that they may, one after the other, never have all files.
        let mut taken = 0;
        for _ in 0..5 {
            let limit = processes_max(7, 0, 1024, taken);
            assert!(limit > 1 && 4 * (taken + limit) < 1024, "{taken}");
            taken += limit;
        }
    }

    #[test]
    fn bytes_of_a_user_leave_some_for_others_and_come_back() {
        let test = "users::quotas::tests::alone_bytes_of_a_user";
        crate::testing::run_alone(test, || Ok(()));
    }

    #[test]
    #[ignore = "run by bytes_of_a_user_leave_some_for_others_and_come_back"]
    fn alone_bytes_of_a_user() {
        let users = ONE + 10;
        let mut shares: Vec<Share> = (0..8).map(|number| Share::new(users + number)).collect();
        for (number, share) in (0..).zip(&mut shares) {
            // 256 MiB three times, then half of what is left.
            let limit = USER_BYTES_MAX >> u32::saturating_sub(number, 2);
            assert_eq!(crowded(share.take_bytes(1, limit + 1)), (limit + 1, limit), "{number}");
            share.take_bytes(1, limit).unwrap();
        }
        let mut late = Share::new(users + 100);
        late.take_bytes(1, 1 << 20).unwrap();
        drop(shares);
        late.take_bytes(1, 65 << 20).unwrap();
    }
}

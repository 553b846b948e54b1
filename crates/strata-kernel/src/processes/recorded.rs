//! Finds out which of the followed processes are recorded, from the map that programs use.

use crate::persist::pins::info;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The set of processes that a session records.
#[derive(Clone, Debug, Default)]
pub enum RecordedProcesses {
    /// The set is empty.
    #[default]
    Nobody,
    /// All processes.
    Everyone,
    /// The followed processes, which this map has.
    Followed(Arc<FollowedMap>),
}

/// A copy of the set of recorded processes at one moment; `None` for all processes.
#[derive(Clone, Debug)]
pub struct RecordedSnapshot(Option<Vec<u8>>);

impl RecordedProcesses {
    /// Copies the present set.
    #[must_use]
    pub fn snapshot(&self) -> RecordedSnapshot {
        RecordedSnapshot(match self {
            RecordedProcesses::Nobody => Some(Vec::new()),
            RecordedProcesses::Everyone => None,
            RecordedProcesses::Followed(followed) => Some(followed.words()),
        })
    }
}

impl RecordedSnapshot {
    /// Returns whether the task is recorded. In the map `followed`, each task has two bits. A task that will be
    /// recorded from its next execve on counts as recorded.
    #[must_use]
    pub fn contains(&self, tid: u32) -> bool {
        let Some(words) = &self.0 else { return true };
        words.get(tid as usize / 4).is_some_and(|byte| byte >> (tid % 4 * 2) & 3 != 0)
    }
}

/// The BPF map with the followed tasks, held by a descriptor of its own.
#[derive(Debug)]
pub struct FollowedMap {
    map: OwnedFd,
    /// Size of the map's only value \[byte\].
    bytes: usize,
}

impl FollowedMap {
    /// Duplicates the descriptor of the map.
    ///
    /// # Errors
    /// The error of the kernel.
    pub(crate) fn of(map: BorrowedFd<'_>) -> io::Result<FollowedMap> {
        let info: libbpf_sys::bpf_map_info = info(map)?;
        let bytes = (info.value_size as usize).next_multiple_of(8);
        Ok(FollowedMap { map: map.try_clone_to_owned()?, bytes })
    }

    /// Reads the map's value; all zeroes if the map cannot be read.
    fn words(&self) -> Vec<u8> {
        let (key, mut words) = (0u32, vec![0u8; self.bytes]);
        // SAFETY: a key and room for a value of the map's sizes, which live longer than the call.
        let result = unsafe {
            libbpf_sys::bpf_map_lookup_elem(
                self.map.as_raw_fd(),
                std::ptr::from_ref(&key).cast(),
                words.as_mut_ptr().cast(),
            )
        };
        if result == 0 {
            words
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_followed_is_reported_by_two_bits_each() {
        // Tasks 0 to 7: 5 is recorded, 6 from its next execve on.
        let snapshot = RecordedSnapshot(Some(vec![0b0000_0000, 0b0001_1000]));
        for (tid, is) in
            [(4, false), (5, true), (6, true), (7, false), (8, false), (u32::MAX, false)]
        {
            assert_eq!(snapshot.contains(tid), is, "{tid}");
        }
        assert!(
            RecordedProcesses::Everyone.snapshot().contains(8)
                && !RecordedProcesses::Nobody.snapshot().contains(8)
        );
    }
}

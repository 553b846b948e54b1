//! Finds out which of the followed processes are recorded, from the map that programs use.

use crate::persist::pins::info;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The set of recorded processes.
#[derive(Clone, Debug, Default)]
pub enum Whom {
    /// The set is empty.
    #[default]
    Nobody,
    /// All processes.
    Everyone,
    /// The followed processes, which this map has.
    Followed(Arc<Followed>),
}

/// A copy of the set at one moment; `None` for all processes.
#[derive(Clone, Debug)]
pub struct Looked(Option<Vec<u8>>);

impl Whom {
    /// Copies the present set.
    #[must_use]
    pub fn look(&self) -> Looked {
        Looked(match self {
            Whom::Nobody => Some(Vec::new()),
            Whom::Everyone => None,
            Whom::Followed(followed) => Some(followed.words()),
        })
    }
}

impl Looked {
    /// Returns whether the task is recorded. In the map `followed`, each task has two bits. A task that will be
    /// recorded from its next execve on counts as recorded.
    #[must_use]
    pub fn is(&self, tid: u32) -> bool {
        let Some(words) = &self.0 else { return true };
        words.get(tid as usize / 4).is_some_and(|byte| byte >> (tid % 4 * 2) & 3 != 0)
    }
}

/// The map `followed` with a descriptor of its own, since opening a map by its id needs CAP_SYS_ADMIN.
#[derive(Debug)]
pub struct Followed {
    map: OwnedFd,
    /// Size of the map's only value \[byte\].
    bytes: usize,
}

impl Followed {
    /// Duplicates the descriptor of the map.
    ///
    /// # Errors
    /// The error of the kernel.
    pub(crate) fn of(map: BorrowedFd<'_>) -> io::Result<Followed> {
        let info: libbpf_sys::bpf_map_info = info(map)?;
        let bytes = (info.value_size as usize).next_multiple_of(8);
        Ok(Followed { map: map.try_clone_to_owned()?, bytes })
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
    fn who_is_followed_is_said_by_two_bits_each() {
        // Tasks 0 to 7: 5 is recorded, 6 from its next execve on.
        let looked = Looked(Some(vec![0b0000_0000, 0b0001_1000]));
        for (tid, is) in
            [(4, false), (5, true), (6, true), (7, false), (8, false), (u32::MAX, false)]
        {
            assert_eq!(looked.is(tid), is, "{tid}");
        }
        assert!(Whom::Everyone.look().is(8) && !Whom::Nobody.look().is(8));
    }
}

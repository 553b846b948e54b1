//! Who is recorded, of those who are followed or all; asked by the map that programs look at.

use crate::pins::info;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Which processes are recorded.
#[derive(Clone, Debug, Default)]
pub enum Whom {
    /// None, as far as is known.
    #[default]
    Nobody,
    /// All.
    Everyone,
    /// Those that are followed, by this map.
    Followed(Arc<Followed>),
}

/// The same at one moment.
#[derive(Clone, Debug)]
pub struct Looked(Option<Vec<u8>>);

impl Whom {
    /// As it is now.
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
    /// By the words of the map `followed`, two bits for each task. Who is recorded from its next execve on is one of them,
    /// too.
    #[must_use]
    pub fn is(&self, tid: u32) -> bool {
        let Some(words) = &self.0 else { return true };
        words.get(tid as usize / 4).is_some_and(|byte| byte >> (tid % 4 * 2) & 3 != 0)
    }
}

/// The map `followed`. Held by a descriptor of our own: to open it by its number, one needs CAP_SYS_ADMIN.
#[derive(Debug)]
pub struct Followed {
    map: OwnedFd,
    /// Of its only value.
    bytes: usize,
}

impl Followed {
    /// # Errors
    /// What the kernel says.
    pub(crate) fn of(map: BorrowedFd<'_>) -> io::Result<Followed> {
        let info: libbpf_sys::bpf_map_info = info(map)?;
        let bytes = (info.value_size as usize).next_multiple_of(8);
        Ok(Followed { map: map.try_clone_to_owned()?, bytes })
    }

    /// All of them; none where the kernel gives none.
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

//! Groups to which root's sessions are open: their names, and their members.
//!
//! This is the only unsafe code of the crate: Rust has no other access to these functions of the C library and the
//! kernel.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::null_mut;

use crate::error::ControlError;
use crate::message::clean;

/// The most groups of one process in Linux.
const GROUPS_MAX: usize = 65_536;
/// Id that the kernel shows for a group without a number in this namespace. It stands for no group.
const OVERFLOW: u32 = 65_534;
/// The largest entry of the system's list of groups, with the names of all members \[byte\].
const ENTRY_BYTES: usize = 1 << 20;

/// A group whose members may request the status of a session of root's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    id: u32,
    name: String,
}

impl Group {
    /// Finds a group by its name or its number.
    ///
    /// # Errors
    /// [`ControlError::Group`]: there is no such group, or it cannot have members.
    pub fn find(name: &str) -> Result<Group, ControlError> {
        let fault = |why: String| ControlError::Group { group: clean(name), why };
        let id = match name.parse() {
            Ok(id) => Some(id),
            Err(_) => by_name(name).map_err(|error| fault(error.to_string()))?,
        };
        match id {
            None => Err(fault("there is no group of this name".into())),
            Some(OVERFLOW | u32::MAX) => Err(fault("processes of no group have this one".into())),
            Some(id) => Ok(Group { id, name: clean(name) }),
        }
    }

    /// Name or number, as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of the group.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns true if the peer was in this group when it connected. `gid` is the peer's own group, from `SO_PEERCRED`.
    pub(crate) fn has(&self, socket: BorrowedFd<'_>, gid: u32) -> bool {
        gid == self.id || others(socket).is_ok_and(|groups| groups.contains(&self.id))
    }
}

fn by_name(name: &str) -> io::Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    let mut entry = std::mem::MaybeUninit::<libc::group>::uninit();
    let (mut texts, mut found) = (vec![0; ENTRY_BYTES], null_mut());
    // SAFETY: each pointer refers to separate memory; `texts` has the size that is passed.
    let error = unsafe {
        libc::getgrnam_r(
            name.as_ptr(),
            entry.as_mut_ptr(),
            texts.as_mut_ptr(),
            texts.len(),
            &mut found,
        )
    };
    match error {
        0 if found.is_null() => Ok(None),
        // SAFETY: `found` is `entry`, which was filled in.
        0 => Ok(Some(unsafe { entry.assume_init() }.gr_gid)),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Returns the supplementary groups that the peer had when it connected.
fn others(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 64];
    loop {
        let mut bytes = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: `groups` has as many bytes as `bytes` contains.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &mut bytes,
            )
        };
        let count = bytes as usize / size_of::<u32>();
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE)
            || !(groups.len()..=GROUPS_MAX).contains(&count)
        {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{socketpair, AddressFamily, SocketFlags, SocketType};
    use std::os::fd::AsFd as _;

    #[test]
    fn group_that_is_none_or_nobodys_is_refused() {
        assert_eq!(Group::find("root").unwrap().id(), 0);
        assert_eq!(Group::find("4711").unwrap().id(), 4711);
        for name in ["no such group", "65534", "4294967295", "a\0b", "-1"] {
            let error = Group::find(name).unwrap_err();
            assert!(matches!(error, ControlError::Group { .. }), "{name:?}: {error}");
        }
    }

    #[test]
    fn members_are_those_whose_own_or_other_group_it_is() {
        let pair =
            |kind| socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        let (one, _other) = pair(SocketType::SEQPACKET);
        let mine = rustix::process::getgroups().unwrap();
        let group = |id| Group { id, name: String::new() };
        assert!(group(5).has(one.as_fd(), 5));
        for other in &mine {
            assert!(group(other.as_raw()).has(one.as_fd(), 5));
        }
        let stranger = (1..).find(|id| mine.iter().all(|other| other.as_raw() != *id)).unwrap();
        assert!(!group(stranger).has(one.as_fd(), 0));
    }
}

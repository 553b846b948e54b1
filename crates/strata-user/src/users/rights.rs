//! Rights for actions on processes: root acts with the rights of the process' user, so that the kernel decides as it
//! would for that user.

use std::io;

use rustix::process::geteuid;
use rustix::thread::{capabilities, set_capabilities, CapabilitySet, CapabilitySets};

/// A user, and the group of its programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub uid: u32,
    pub gid: u32,
}

impl User {
    /// Returns true if acting for this user needs other rights than our own.
    pub fn is_other(self) -> bool {
        self.uid != geteuid().as_raw()
    }
}

/// Gives this thread the rights of another user as long as this value exists: that user and group for files, and no
/// capabilities. The thread's other ids stay, so that the user gets no access to it.
pub(crate) struct ActingFor {
    before: CapabilitySets,
    uid: u32,
    gid: u32,
}

impl ActingFor {
    /// Takes the rights of `user`.
    ///
    /// # Errors
    /// This program may not act for others, or the user has no id in this user namespace.
    pub fn user(user: User) -> io::Result<ActingFor> {
        let before = capabilities(None)?;
        // Return values are the ids before the call; dropping `acting` restores them.
        let gid = set_file_group(user.gid);
        let uid = set_file_user(user.uid);
        let acting = ActingFor { before, uid, gid };
        // These calls never fail; without permission they change nothing.
        if set_file_user(user.uid) != user.uid || set_file_group(user.gid) != user.gid {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        set_capabilities(None, CapabilitySets { effective: CapabilitySet::empty(), ..before })?;
        Ok(acting)
    }
}

impl Drop for ActingFor {
    fn drop(&mut self) {
        // A thread can always take back the capabilities that it is permitted, so none of these calls fails.
        let restored = set_capabilities(None, self.before);
        set_file_user(self.uid);
        set_file_group(self.gid);
        debug_assert!(restored.is_ok(), "{restored:?}");
    }
}

/// Changes the file system user of this thread only. Returns the one before.
fn set_file_user(uid: u32) -> u32 {
    // SAFETY: no memory is involved.
    unsafe { libc::setfsuid(uid) as u32 }
}

/// Changes the file system group of this thread only. Returns the one before.
fn set_file_group(gid: u32) -> u32 {
    // SAFETY: no memory is involved.
    unsafe { libc::setfsgid(gid) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Lines of this thread's status that begin with these keys.
    fn status(keys: &[&str]) -> Vec<String> {
        let text = fs::read_to_string("/proc/thread-self/status").unwrap();
        let wanted = |line: &&str| keys.iter().any(|key| line.starts_with(key));
        text.lines().filter(wanted).map(str::to_owned).collect()
    }

    #[test]
    fn acting_for_another_user_is_of_the_thread_and_ends_with_the_guard() {
        if !geteuid().is_root() {
            return;
        }
        let keys = ["Uid:", "Gid:", "CapEff:"];
        let before = status(&keys);
        let acting = ActingFor::user(User { uid: 61001, gid: 61002 }).unwrap();
        let meanwhile = status(&keys);
        assert_eq!(meanwhile[0], "Uid:\t0\t0\t0\t61001");
        assert_eq!(meanwhile[1], "Gid:\t0\t0\t0\t61002");
        assert_eq!(meanwhile[2], "CapEff:\t0000000000000000");
        let others = std::thread::spawn(move || status(&keys)).join().unwrap();
        // It began with ours, and a thread's own do not come back.
        assert_eq!(others, meanwhile);
        drop(acting);
        assert_eq!(status(&keys), before);
    }

    #[test]
    fn acting_for_a_user_that_has_no_number_is_refused_and_changes_nothing() {
        let before = status(&["Uid:", "Gid:", "CapEff:"]);
        assert!(ActingFor::user(User { uid: u32::MAX, gid: u32::MAX }).is_err());
        assert_eq!(status(&["Uid:", "Gid:", "CapEff:"]), before);
    }
}

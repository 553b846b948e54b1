//! What root does for a process, it does with the rights of that process' own user: the kernel then decides,
//! as it would for that user.

use std::io;

use rustix::process::geteuid;
use rustix::thread::{capabilities, set_capabilities, CapabilitySet, CapabilitySets};

/// A user, and the group that its programs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub uid: u32,
    pub gid: u32,
}

impl User {
    /// Do we have to take other rights to do something for this user?
    pub fn is_other(self) -> bool {
        self.uid != geteuid().as_raw()
    }
}

/// This thread acts with the rights of another user while this lives: the user and group for files, and no
/// capabilities. Nobody else can reach into this thread meanwhile, since its other users stay.
pub(crate) struct ActingFor {
    before: CapabilitySets,
    uid: u32,
    gid: u32,
}

impl ActingFor {
    /// # Errors
    /// What the system said: this program may not act for others, or the user has no number here.
    pub fn user(user: User) -> io::Result<ActingFor> {
        let before = capabilities(None)?;
        // Each is what it was before: so said, and undone, by dropping this.
        let gid = set_file_group(user.gid);
        let uid = set_file_user(user.uid);
        let acting = ActingFor { before, uid, gid };
        // These calls do not fail, they only do nothing.
        if set_file_user(user.uid) != user.uid || set_file_group(user.gid) != user.gid {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        set_capabilities(None, CapabilitySets { effective: CapabilitySet::empty(), ..before })?;
        Ok(acting)
    }
}

impl Drop for ActingFor {
    fn drop(&mut self) {
        // What a thread may have it can always take again, so none of these fails.
        let restored = set_capabilities(None, self.before);
        set_file_user(self.uid);
        set_file_group(self.gid);
        debug_assert!(restored.is_ok(), "{restored:?}");
    }
}

/// Of this thread only. Gives what it was before.
fn set_file_user(uid: u32) -> u32 {
    // SAFETY: no memory is involved.
    unsafe { libc::setfsuid(uid) as u32 }
}

/// Of this thread only. Gives what it was before.
fn set_file_group(gid: u32) -> u32 {
    // SAFETY: no memory is involved.
    unsafe { libc::setfsgid(gid) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Of this thread: the lines of its status that begin so.
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

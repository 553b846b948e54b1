//! Each session of the machine hears of each program that begins. Where it is not tracked, that is found out with a few
//! calls, and nothing of it is mapped.

use std::os::fd::{AsFd, OwnedFd};

use strata_user::{may_have_session, Sender};

use super::{Keeper, ProcessTarget};
use crate::plan::tracked::{admits, ProcessFacts};

impl Keeper {
    /// Is it one that is not tracked, and has no session of ours by its parent or from its begin? A search finds it again,
    /// should it be tracked some day. `fd`: its memory, a file of the kernel's own.
    pub(super) fn is_passed_over(&self, fd: &OwnedFd, sender: &Sender) -> bool {
        let tracked = &self.changing.tracked;
        if tracked.is_everybody() || !matches!(self.target, ProcessTarget::Everyone) {
            return false;
        }
        let found = ProcessFacts::read(sender.pid(), tracked);
        // What was read by a number that is no longer its own was of nobody.
        let is_tracked =
            !sender.has_its_number() || found.is_ok_and(|found| admits(tracked, &found));
        !is_tracked && !may_have_session(fd.as_fd(), |one| self.generations.contains(one))
    }
}

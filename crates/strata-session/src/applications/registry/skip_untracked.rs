//! Skips programs that are not tracked. Each session of the machine gets each announcement, so this takes only a few
//! system calls and maps nothing.

use std::os::fd::{AsFd, OwnedFd};

use strata_user::{may_have_session, Sender};

use super::{ProcessTarget, Registry};
use crate::plan::tracked::{admits, ProcessFacts};

impl Registry {
    /// Returns whether the process can be ignored: it is not tracked, and has no session of ours from its parent or
    /// from its start. A search finds the process if it is tracked later. `fd`: the memory (memfd) of the process.
    pub(super) fn is_passed_over(&self, fd: &OwnedFd, sender: &Sender) -> bool {
        let tracked = &self.changing.tracked;
        if tracked.is_everybody() || !matches!(self.target, ProcessTarget::Everyone) {
            return false;
        }
        let found = ProcessFacts::read(sender.pid(), tracked);
        // Properties read through a process id that was reused meanwhile are not the process's own.
        let is_tracked =
            !sender.has_its_number() || found.is_ok_and(|found| admits(tracked, &found));
        !is_tracked && !may_have_session(fd.as_fd(), |one| self.generations.contains(one))
    }
}

//! What a session that was killed has left in programs, to the one that is made again from its plan.

use std::collections::HashSet;

use strata_user::Application;

use super::{Came, Keeper};
use crate::session::lock::lock;

impl Keeper {
    /// Lets those in that have ended, and whose memory the trustee of the session before holds. Who lives is found as any
    /// other is, and waited for here until it is.
    pub(super) fn take_estates(&mut self) {
        let Some(slots) = self.sources.context.slots.clone().filter(|_| !self.estates.is_empty())
        else {
            return;
        };
        let mut ended = Vec::new();
        for estate in std::mem::take(&mut self.estates) {
            match self.known.contains(estate.inode) {
                true => slots.let_go(estate.inode),
                false if estate.has_ended() => ended.push(estate),
                false => self.estates.push(estate),
            }
        }
        let all = ended.iter().map(|estate| estate.entrusted.clone()).collect();
        let found = Application::all_entrusted(all, &mut || self.look_after());
        for (estate, application) in ended.into_iter().zip(found) {
            match application {
                Ok(application) => self.admit(&application, Came::Invited, false),
                Err(error) if error.is_held() => {
                    self.estates.push(estate);
                    continue;
                }
                Err(error) => self.unreached(&error),
            }
            let is_it = |inode: u64| inode == estate.inode;
            for process in self.processes.iter().filter(|one| is_it(one.application().inode())) {
                process.had_ended();
            }
            slots.let_go(estate.inode);
        }
        self.finish_starts(0);
    }

    /// What became of the programs that a session had recorded that was killed. Of a program that has ended, the memory is
    /// gone unless a trustee has held it; what that has let go of was written.
    pub(super) fn tell_left(&self) {
        let Some(slots) = &self.sources.context.slots else { return };
        let found =
            self.processes.iter().filter(|one| self.changing.is_of_before(one.generation()));
        let found: HashSet<u64> = found.map(|one| one.application().inode()).collect();
        let mut left: HashSet<u64> = slots.left().map(|slot| slot.inode).collect();
        let mut why = "the program has ended since, or another session has its place";
        if left.iter().any(|inode| slots.has_held(*inode)) {
            left.retain(|inode| slots.has_held(*inode) || found.contains(inode));
            why = "another session has its place";
        }
        if left.is_empty() {
            return;
        }
        let gone = match left.difference(&found).count() {
            0 => String::new(),
            gone => format!("; of {gone} nothing is left: {why}"),
        };
        lock(&self.found.remarks).push(format!(
            "the session before this one was killed: what the buffers of {} of its {} programs still held is in this trace{gone}",
            found.len(),
            left.len().max(found.len())
        ));
    }
}

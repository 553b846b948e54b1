//! What a session that was killed has left in programs, to the one that is made again from its plan.

use std::collections::HashSet;

use super::Keeper;
use crate::session::lock::lock;

impl Keeper {
    /// What became of the programs that a session had recorded that was killed. Of a program that has ended, the memory is
    /// gone.
    pub(super) fn tell_left(&self) {
        let Some(slots) = &self.sources.context.slots else { return };
        let mut left: Vec<u64> = slots.left().map(|slot| slot.inode).collect();
        left.sort_unstable();
        left.dedup();
        if left.is_empty() {
            return;
        }
        let found =
            self.processes.iter().filter(|one| self.changing.is_of_before(one.generation()));
        let found: HashSet<u64> = found.map(|one| one.application().inode()).collect();
        let gone = left.iter().filter(|inode| !found.contains(inode)).count();
        let gone = match gone {
            0 => String::new(),
            gone => format!(
                "; of {gone} nothing is left: the program has ended since, or another session has its place"
            ),
        };
        lock(&self.found.remarks).push(format!(
            "the session before this one was killed: what the buffers of {} of its {} programs still held is in this trace{gone}",
            found.len(),
            left.len().max(found.len())
        ));
    }
}

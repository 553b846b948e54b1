//! What was there before the first record, given to threads when the first record of each tells of it.

use super::Engine;
use crate::before::FactsBefore;
use crate::fact::RecordText;
use crate::files;
use crate::id::ThreadId;

impl Engine {
    /// What the first records, which are told next, say of what was there before them.
    pub(crate) fn begin_with(&mut self, before: FactsBefore) {
        self.before = before;
    }

    /// A thread that was there already is told of for the first time.
    pub(super) fn was_there(&mut self, machine: u8, tid: i64, id: ThreadId) {
        let process = self.before.take_process(machine, tid);
        if let Some(process) = process.filter(|&process| process != 0) {
            let main = match self.world.threads.find(machine, process) {
                Some(main) => Some(main),
                None => self.add(machine, process, self.world.begin.unwrap_or(0)),
            };
            for one in [Some(id), main].into_iter().flatten() {
                if let Some(thread) = self.world.threads.get_mut(one) {
                    thread.main = thread.main.or(main);
                }
            }
            self.world.threads.has_changed();
        }
        self.give(machine, tid, id, false);
    }

    /// A process has what it had before the first record, or, if it is new, what it has from its begin on.
    pub(super) fn give(&mut self, machine: u8, process: i64, id: ThreadId, is_new: bool) {
        for opened in self.before.take(machine, process, is_new) {
            let (descriptor, flags) = (opened.descriptor, opened.flags);
            files::there(&mut self.world, id, descriptor, flags, RecordText::Kept(&opened.path));
        }
    }
}

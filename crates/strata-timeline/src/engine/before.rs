//! Gives threads, at their first record, the process and descriptors that they had before the first record of the
//! trace.

use super::Engine;
use crate::descriptor_files;
use crate::facts::RecordText;
use crate::facts::Spot;
use crate::id::ThreadId;
use crate::state::{Reason, State};
use crate::state_before::FactsBefore;

impl Engine {
    /// Sets what existed before the first records, which are applied next.
    pub(crate) fn begin_with(&mut self, before: FactsBefore) {
        self.before = before;
    }

    /// Gives a thread that existed before the first record its process and its descriptors.
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

    /// Applies the blocked state of a thread in a state dump. If no other record has named the thread since the first
    /// one, it has been blocked since before that: a waking or a switch would be in the trace.
    pub(super) fn was_asleep(&mut self, spot: Spot, tid: i64, asleep: Option<Reason>) {
        let (Some(mut reason), false) = (asleep, self.is_blind(spot.machine)) else { return };
        let Some(id) = self.world.threads.find(spot.machine, tid) else { return };
        reason.object = self.world.object(id, reason.object);
        self.sleeps_since_begin(spot, id, reason);
    }

    /// Makes a thread blocked from before the first record on, if no other record has named it so far.
    pub(super) fn sleeps_since_begin(&mut self, spot: Spot, id: ThreadId, reason: Reason) {
        let begin = self.world.begin.unwrap_or(spot.time);
        let Some(thread) = self.world.threads.get_mut(id) else { return };
        let is_first = thread.state == State::Unknown && thread.since <= begin && !thread.is_seen;
        if is_first && thread.born.is_none() && id != ThreadId::IDLE {
            thread.state = State::Blocked(reason);
        }
    }

    /// Gives a process the descriptors that it had before the first record or, if it is new, those that it has from its
    /// begin on.
    pub(super) fn give(&mut self, machine: u8, process: i64, id: ThreadId, is_new: bool) {
        for opened in self.before.take(machine, process, is_new) {
            let (descriptor, flags) = (opened.descriptor, opened.flags);
            descriptor_files::there(
                &mut self.world,
                id,
                descriptor,
                flags,
                RecordText::Kept(&opened.path),
            );
        }
    }
}

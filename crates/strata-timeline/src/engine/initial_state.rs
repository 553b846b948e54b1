//! What was there before the first record: gives threads, at their first record, the process and descriptors that they had, and
//! takes names of devices and control groups from state dumps.

use super::Engine;
use crate::descriptors::call_effects;
use crate::engine::state_before::FactsBefore;
use crate::ids::thread_id::ThreadId;
use crate::observer::Observer;
use crate::records::facts::RecordText;
use crate::records::facts::Spot;
use crate::spans::Spent;
use crate::world::control_groups::Statement;
use crate::world::state::{Reason, State};
use crate::world::threads::Thread;

impl Engine {
    /// Sets the threads and descriptors that existed before the first records. These records are applied next.
    pub(crate) fn begin_with(&mut self, before: FactsBefore) {
        self.before = before;
    }

    /// Takes the name of a disk from a state dump.
    pub(super) fn device_is(&mut self, spot: &Spot, device: i64, name: RecordText<'_>) {
        let device = u32::try_from(device).unwrap_or(u32::MAX);
        let name = name.bytes().unwrap_or_default();
        self.world.name_disk(spot.machine, device, &name);
    }

    /// Takes the name of an interrupt from a state dump.
    pub(super) fn interrupt_is(&mut self, spot: &Spot, number: i64, name: RecordText<'_>) {
        let number = i32::try_from(number).unwrap_or(-1);
        let name = name.bytes().unwrap_or_default();
        self.world.name_interrupt(spot.machine, number, &name);
    }

    /// Sets the control group of a process, with its container and pod, from a record of a state dump or of a move to
    /// another group.
    pub(super) fn grouped<O: Observer>(
        &mut self,
        spot: &Spot,
        process: i64,
        texts: [RecordText<'_>; 3],
        (number, is_move): (Option<i64>, bool),
        seen: &mut O,
    ) {
        let Some(who) = self.thread(spot.machine, process, seen) else { return };
        let [path, container, pod] = texts.map(|text| text.bytes().unwrap_or_default());
        let from = if is_move { spot.time } else { i64::MIN };
        let machine = spot.machine;
        let said =
            Statement { machine, path: &path, container: &container, pod: &pod, number, from };
        self.world.group(who, &said);
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

    /// Returns the thread that a fork has created. If a state dump has listed it already, since the kernel lists a
    /// thread before it records the fork, that thread begins now.
    pub(super) fn newborn(
        &mut self,
        spot: &Spot,
        parent: Option<ThreadId>,
        child: i64,
        process: Option<i64>,
    ) -> Option<ThreadId> {
        let listed = self.listed_before_fork(spot.machine, parent, child, process);
        let Some(id) = listed else { return self.add_new(spot.machine, child, spot.time) };
        let new = self.new_thread(spot.machine, child, spot.time)?;
        *self.world.threads.get_mut(id)? = new;
        Some(id)
    }

    /// Adds a thread that did not exist before, to which nothing in the state dump applies.
    pub(super) fn add_new(&mut self, machine: u8, tid: i64, since: i64) -> Option<ThreadId> {
        let new = self.new_thread(machine, tid, since)?;
        self.world.threads.add(new)
    }

    fn new_thread(&self, machine: u8, tid: i64, since: i64) -> Option<Thread> {
        let gaps = self.machines.get(usize::from(machine))?.gap();
        Some(Thread::new(machine, i32::try_from(tid).ok()?, since, gaps))
    }

    /// Returns the thread of a state dump that a fork has just created: one without records, with the same process
    /// and parent. Any other thread with this number is an older one, whose end is not in the trace.
    fn listed_before_fork(
        &self,
        machine: u8,
        parent: Option<ThreadId>,
        child: i64,
        process: Option<i64>,
    ) -> Option<ThreadId> {
        let (parent, process) = (parent?, process?);
        let id = self.world.threads.find(machine, child)?;
        let thread = self.world.threads.get(id)?;
        let is_over = thread.is_exiting || thread.state == State::Gone;
        let has_past = thread.is_seen || thread.spent != Spent::default();
        if !thread.is_dumped || has_past || is_over || thread.born.is_some() {
            return None;
        }
        let around = self.world.process_of(parent);
        let of_parent = self.world.threads.get(around).and_then(|of_parent| of_parent.parent);
        let is_same = match process == child {
            // With CLONE_PARENT a new process has the parent of the one that makes it.
            true => thread.main == Some(id) && [Some(around), of_parent].contains(&thread.parent),
            false => thread.main == Some(around),
        };
        is_same.then_some(id)
    }

    /// Applies a state dump's record that a thread is blocked. If no other record of the trace has named the thread
    /// yet, the thread was blocked before the first record, since its wakeup or a switch would have named it.
    pub(super) fn was_asleep(&mut self, spot: &Spot, tid: i64, asleep: Option<Reason>) {
        let (Some(mut reason), false) = (asleep, self.is_blind(spot.machine)) else { return };
        let Some(id) = self.world.threads.find(spot.machine, tid) else { return };
        reason.object = self.world.object(id, reason.object);
        self.sleeps_since_begin(spot, id, reason);
    }

    /// Makes a thread blocked from before the first record on, if no other record has named it so far, and none was discarded
    /// that could have.
    pub(super) fn sleeps_since_begin(&mut self, spot: &Spot, id: ThreadId, reason: Reason) {
        if self.machines.get(usize::from(spot.machine)).is_some_and(|of| of.gap() > 0) {
            return;
        }
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
            call_effects::there(
                &mut self.world,
                id,
                descriptor,
                flags,
                RecordText::Copied(&opened.path),
            );
        }
    }
}

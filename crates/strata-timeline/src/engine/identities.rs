//! Who a thread is: its process, its parent, and its names, from records that say them.

use super::Engine;
use crate::descriptors::call_effects;
use crate::ids::thread_id::ThreadId;
use crate::observer::Observer;
use crate::records::facts::{RecordText, Spot};

impl Engine {
    pub(super) fn fork<O: Observer>(
        &mut self,
        spot: &Spot,
        parent: Option<ThreadId>,
        child: i64,
        process: Option<i64>,
        name: RecordText<'_>,
        seen: &mut O,
    ) {
        let Some(child_id) = self.newborn(spot, parent, child, process) else { return };
        self.name(child_id, name);
        let state = self.as_known(spot.machine, self.can_run(spot.machine), spot.time);
        let program = parent.and_then(|parent| self.world.threads.get(parent)).map(|it| it.program);
        if let Some(thread) = self.world.threads.get_mut(child_id) {
            thread.parent = parent;
            thread.program = program.unwrap_or(thread.program);
            thread.is_new = true;
            thread.born = Some(spot.time);
            // It is woken at once.
            thread.state = state;
        }
        match process {
            Some(process) => self.belongs(child_id, spot.machine, process, seen),
            None => return,
        }
        seen.known(&self.world, child_id);
        let is_process = process.map(|process| process == child);
        call_effects::fork(&mut self.world, parent, child_id, is_process);
        self.give(spot.machine, child, child_id, true);
    }

    pub(super) fn there<O: Observer>(
        &mut self,
        spot: &Spot,
        tid: i64,
        process: i64,
        parent: Option<i64>,
        name: RecordText<'_>,
        seen: &mut O,
    ) {
        let Some(id) = self.thread(spot.machine, tid, seen) else { return };
        if id == ThreadId::IDLE {
            return;
        }
        self.name(id, name);
        self.belongs(id, spot.machine, process, seen);
        let parent = parent.filter(|&parent| parent > 0);
        let parent = parent.and_then(|parent| self.thread(spot.machine, parent, seen));
        if let Some(thread) = self.world.threads.get_mut(id) {
            thread.parent = thread.parent.or(parent);
            thread.is_dumped = true;
        }
        seen.known(&self.world, id);
    }

    /// Makes a thread that has executed a program the first one of its process, if its process is not known.
    pub(super) fn is_first<O: Observer>(&mut self, spot: &Spot, id: ThreadId, seen: &mut O) {
        let is_unknown = self.world.threads.get(id).is_some_and(|thread| thread.main.is_none());
        if let Some(tid) = spot.tid.filter(|tid| is_unknown && *tid > 0) {
            self.belongs(id, spot.machine, tid, seen);
            seen.known(&self.world, id);
        }
    }

    /// Puts a thread into the process with this number, whose first thread has the same number.
    pub(super) fn belongs<O: Observer>(
        &mut self,
        id: ThreadId,
        machine: u8,
        process: i64,
        seen: &mut O,
    ) {
        let tid = self.world.threads.get(id).map(|thread| i64::from(thread.tid));
        let main = match tid == Some(process) {
            true => Some(id),
            false => self.thread(machine, process, seen).filter(|&main| main != ThreadId::IDLE),
        };
        self.world.threads.has_changed();
        if let Some(thread) = self.world.threads.get_mut(id) {
            thread.main = main;
        }
        // What it has opened is its process'.
        if main != Some(id) {
            self.world.forget_files(id);
        }
        let main = main.and_then(|main| self.world.threads.get_mut(main).zip(Some(main)));
        if let Some((thread, main)) = main {
            thread.main = Some(main);
        }
    }

    /// Applies the thread's name in a record of a switch if it differs from the known one. Only such records show
    /// names that were set by another thread.
    #[inline]
    pub(super) fn name_if_new(&mut self, id: ThreadId, name: RecordText<'_>) {
        let (Some(thread), Some(short)) = (self.world.threads.get_mut(id), name.short()) else {
            return;
        };
        if thread.wants_name || thread.short != short {
            thread.short = short;
            self.name(id, name);
        }
    }

    #[inline]
    pub(super) fn name_if_wanted(&mut self, id: ThreadId, name: RecordText<'_>) {
        if self.world.threads.get(id).is_some_and(|thread| thread.wants_name) {
            self.name(id, name);
        }
    }

    pub(super) fn name(&mut self, id: ThreadId, name: RecordText<'_>) {
        let Some(name) = name.bytes().filter(|name| !name.is_empty()) else { return };
        let name = self.world.names.of(&name);
        if let Some(thread) = self.world.threads.get_mut(id) {
            let has_changed = std::mem::replace(&mut thread.name, name) != name;
            thread.wants_name = false;
            if let Some(renamed) = self.world.renamed.as_mut().filter(|_| has_changed) {
                renamed.push(id);
            }
        }
    }
}

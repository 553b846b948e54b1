//! What a process' descriptors were opened for.

use std::collections::HashMap;

use crate::id::ThreadId;
use crate::names::Name;

/// Descriptors that are kept, of all processes together; some 16 bytes each.
const DESCRIPTORS_MAX: usize = 1 << 20;

/// Those of all processes.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    processes: HashMap<ThreadId, HashMap<i32, Name>>,
    kept: usize,
}

impl Descriptors {
    pub(crate) fn get(&self, process: ThreadId, descriptor: i32) -> Option<Name> {
        self.processes.get(&process)?.get(&descriptor).copied()
    }

    pub(crate) fn set(&mut self, process: ThreadId, descriptor: i32, name: Name) {
        if descriptor < 0 || !name.is_some() || self.kept >= DESCRIPTORS_MAX {
            return;
        }
        let known = self.processes.entry(process).or_default();
        self.kept += usize::from(known.insert(descriptor, name).is_none());
    }

    pub(crate) fn close(&mut self, process: ThreadId, descriptor: i32) {
        let known = self.processes.get_mut(&process);
        self.kept -= usize::from(known.is_some_and(|known| known.remove(&descriptor).is_some()));
    }

    /// A new process has those of its parent.
    pub(crate) fn copy(&mut self, parent: ThreadId, child: ThreadId) {
        self.forget(child);
        let Some(known) = self.processes.get(&parent) else { return };
        if self.kept + known.len() <= DESCRIPTORS_MAX {
            self.kept += known.len();
            let known = known.clone();
            self.processes.insert(child, known);
        }
    }

    pub(crate) fn forget(&mut self, process: ThreadId) {
        let known = self.processes.remove(&process);
        self.kept -= known.map_or(0, |known| known.len());
    }

    /// Records were discarded: nothing is known any more.
    pub(crate) fn clear(&mut self) {
        self.processes.clear();
        self.kept = 0;
    }
}

//! Groups processes of one program, which share a row of a report.

use std::collections::{HashMap, HashSet};

use strata_report::Label;
use strata_timeline::{ThreadId, World};

/// Processes by name. All processes of one name on a machine share a row of a report.
#[derive(Debug, Default)]
pub(super) struct Programs {
    /// The first process that was found for each machine and name.
    first: HashMap<(u8, String), ThreadId>,
    /// All processes of a program, by the first one that was found.
    all: HashMap<ThreadId, HashSet<ThreadId>>,
}

impl Programs {
    /// Returns the process that stands for the thread's program: the first one that was found with its name.
    pub(super) fn of(&mut self, world: &World, thread: ThreadId) -> ThreadId {
        let process = world.process_of(thread);
        let machine = world.threads.get(thread).map_or(0, |thread| thread.machine);
        let key = (machine, world.process_name(thread));
        let first = *self.first.entry(key).or_insert(process);
        self.all.entry(first).or_default().insert(process);
        first
    }

    /// Returns the label of all processes for which `first` stands: without a number if they are several.
    pub(super) fn label(&self, world: &World, first: ThreadId) -> Label {
        let label = Label::process(world, first);
        match self.all.get(&first).map_or(0, HashSet::len) {
            0 | 1 => label,
            processes => Label { pid: None, home: None, processes, ..label },
        }
    }
}

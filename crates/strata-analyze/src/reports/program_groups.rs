//! Groups processes of one program, container or pod, which share a row of a report.

use std::collections::{HashMap, HashSet};

use strata_report::Label;
use strata_timeline::{ThreadId, World};

/// The name of the row for processes whose container is not known, such as threads of the kernel.
const UNKNOWN: &str = "no container known";
/// The names of the rows for processes in no pod, and for those whose pod is not known.
const NO_POD: [&str; 2] = ["no pod", "no pod known"];

/// The property that the processes of one row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Common {
    /// The name of the process.
    Name,
    /// The [container](World::container), or else the unit or other purpose of their control group.
    Container,
    /// The [pod](World::pod) of Kubernetes.
    Pod,
}

impl Common {
    fn text(self, world: &World, thread: ThreadId) -> String {
        match self {
            Common::Name => world.process_name(thread),
            Common::Container => {
                let name = world.container(thread).map(|name| world.names.text(name));
                name.unwrap_or_else(|| UNKNOWN.to_owned())
            }
            Common::Pod => {
                let [none, unknown] = NO_POD;
                let or = if world.container(thread).is_some() { none } else { unknown };
                let name = world.pod(thread).map(|name| world.names.text(name));
                name.unwrap_or_else(|| or.to_owned())
            }
        }
    }
}

/// Processes by what they have [in common](Common), the same in all calls. On each machine, the processes with the same value share a row of a report.
#[derive(Debug, Default)]
pub(super) struct Programs {
    /// The first process that was found for each machine and name.
    first: HashMap<(u8, String), ThreadId>,
    /// All processes of a program, by the first one that was found.
    all: HashMap<ThreadId, HashSet<ThreadId>>,
}

impl Programs {
    /// Returns the process that stands for the thread's program: the first one that was found with its name.
    pub(super) fn of(&mut self, world: &World, common: Common, thread: ThreadId) -> ThreadId {
        let process = world.process_of(thread);
        let machine = world.threads.get(thread).map_or(0, |thread| thread.machine);
        let key = (machine, common.text(world, thread));
        let first = *self.first.entry(key).or_insert(process);
        self.all.entry(first).or_default().insert(process);
        first
    }

    /// Returns the label of all processes for which `first` stands: without a number if they are several.
    pub(super) fn label(&self, world: &World, common: Common, first: ThreadId) -> Label {
        let label = Label::process(world, first);
        if common != Common::Name {
            let process = common.text(world, first);
            let processes = self.all.get(&first).map_or(1, HashSet::len);
            let program = String::new();
            return Label { process, program, pid: None, home: None, processes, ..label };
        }
        match self.all.get(&first).map_or(0, HashSet::len) {
            0 | 1 => label,
            processes => Label { pid: None, home: None, processes, ..label },
        }
    }
}

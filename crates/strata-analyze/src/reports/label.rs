//! Whose a row of a report is.

use strata_timeline::{ThreadId, World};

/// A process, or a thread of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// The process' name; empty: not known, or of all processes.
    pub process: String,
    /// Its number.
    pub pid: Option<i32>,
    /// The thread's name.
    pub thread: Option<String>,
    /// The thread's number.
    pub tid: Option<i32>,
    /// The machine, where there are several.
    pub machine: Option<String>,
    /// The process' first thread, by which it is told from others that had its number.
    pub home: Option<ThreadId>,
}

impl Label {
    /// Of a thread.
    #[must_use]
    pub fn thread(world: &World, id: ThreadId) -> Label {
        let found = world.threads.get(id);
        Label {
            thread: Some(world.thread_name(id)),
            tid: found.map(|thread| thread.tid),
            ..Label::process(world, id)
        }
    }

    /// Of a thread's process.
    #[must_use]
    pub fn process(world: &World, id: ThreadId) -> Label {
        let found = world.threads.get(id);
        let main = found.and_then(|thread| thread.main).and_then(|main| world.threads.get(main));
        let machine = found.filter(|_| world.machines.len() > 1);
        let machine = machine.and_then(|it| world.machines.get(usize::from(it.machine)).cloned());
        Label {
            process: world.process_name(id),
            pid: main.map(|main| main.tid),
            machine,
            home: Some(world.process_of(id)),
            ..Label::default()
        }
    }
}

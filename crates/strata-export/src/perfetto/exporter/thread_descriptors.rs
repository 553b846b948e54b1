//! Describes threads and their processes to readers.

use strata_timeline::{ThreadId, World};

use crate::perfetto::proto::{ProcessTree, TreeProcess, TreeThread};
use crate::perfetto::tracks::Tracks;

/// Returns the number of a thread's process. If it is not known, the thread is assumed to be the process' first one.
pub(super) fn process(tracks: &Tracks, world: &World, thread: ThreadId) -> Option<i32> {
    let process = world.threads.get(world.process_of(thread))?;
    tracks.id(process.machine, process.tid.into())
}

/// A thread and its process.
pub(super) struct Kin {
    pub(super) tid: i32,
    pub(super) pid: i32,
    parent: Option<i32>,
    name: Option<String>,
}

impl Kin {
    pub(super) fn new(tracks: &Tracks, world: &World, id: ThreadId) -> Option<Kin> {
        let thread = world.threads.get(id)?;
        let name = world.thread_name(id);
        Some(Kin {
            tid: tracks.id(thread.machine, thread.tid.into())?,
            pid: process(tracks, world, id)?,
            parent: thread.parent.and_then(|parent| process(tracks, world, parent)),
            name: Some(name).filter(|name| !name.is_empty()),
        })
    }

    pub(super) fn tree(self) -> ProcessTree {
        let Kin { tid, pid, parent, name } = self;
        let mut tree = ProcessTree::default();
        if tid == pid {
            let cmdline = name.clone().into_iter().collect();
            tree.processes.push(TreeProcess { pid: Some(pid), ppid: parent, cmdline });
        }
        tree.threads.push(TreeThread { tid: Some(tid), tgid: Some(pid), name });
        tree
    }
}

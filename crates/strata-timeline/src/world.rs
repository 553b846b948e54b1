//! What is known at one moment: all that an observer may look at.

use crate::calls::Calls;
use crate::descriptors::Descriptors;
use crate::id::ThreadId;
use crate::names::{Name, Names};
use crate::state::Object;
use crate::threads::Threads;

/// What is known.
#[derive(Debug, Default)]
pub struct World {
    /// All threads.
    pub threads: Threads,
    /// Names of threads and files.
    pub names: Names,
    /// System calls.
    pub calls: Calls,
    /// Names of machines.
    pub machines: Vec<String>,
    /// When the first event record was \[ns since 1970\].
    pub begin: Option<i64>,
    /// When the last one was.
    pub now: i64,
    descriptors: Descriptors,
}

impl World {
    /// The first thread of a thread's process; the thread itself if nothing tells whose it is.
    #[must_use]
    pub fn process_of(&self, thread: ThreadId) -> ThreadId {
        self.threads.get(thread).and_then(|thread| thread.main).unwrap_or(thread)
    }

    /// A thread's name; empty if none is known.
    #[must_use]
    pub fn thread_name(&self, thread: ThreadId) -> String {
        if thread == ThreadId::IDLE {
            return "idle".to_owned();
        }
        let name = self.threads.get(thread).map_or(Name::NONE, |thread| thread.name);
        self.names.text(name)
    }

    /// The name of a thread's process: that of its first thread, or its own if that has none.
    #[must_use]
    pub fn process_name(&self, thread: ThreadId) -> String {
        let name = self.thread_name(self.process_of(thread));
        if name.is_empty() {
            return self.thread_name(thread);
        }
        name
    }

    /// What a descriptor of a thread's process was opened for.
    #[must_use]
    pub fn file(&self, thread: ThreadId, descriptor: i32) -> Option<Name> {
        self.descriptors.get(self.process_of(thread), descriptor)
    }

    /// A descriptor of a thread's process as what it was opened for, if that is known.
    #[must_use]
    pub fn object(&self, thread: ThreadId, object: Object) -> Object {
        match object {
            Object::Descriptor(number) => self.file(thread, number).map_or(object, Object::File),
            other => other,
        }
    }

    pub(crate) fn open(&mut self, process: ThreadId, descriptor: i32, name: Name) {
        self.descriptors.set(process, descriptor, name);
    }

    pub(crate) fn close(&mut self, process: ThreadId, descriptor: i32) {
        self.descriptors.close(process, descriptor);
    }

    pub(crate) fn fork(&mut self, parent: ThreadId, child: ThreadId) {
        self.descriptors.copy(parent, child);
    }

    pub(crate) fn forget_process(&mut self, process: ThreadId) {
        self.descriptors.forget(process);
    }

    pub(crate) fn forget_descriptors(&mut self) {
        self.descriptors.clear();
    }
}

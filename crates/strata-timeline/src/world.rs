//! What is known at one moment: all that an observer may look at.

use std::collections::HashMap;

use crate::calls::Calls;
use crate::descriptors::{Descriptors, OpenedFor, TableId};
use crate::hidden::{Hidden, HiddenThread};
use crate::id::ThreadId;
use crate::names::{Name, Names};
use crate::state::{Object, State};
use crate::threads::{Thread, Threads, WorkingFolder};

/// Names of interrupts, and of disks, that are kept.
const DEVICES_MAX: usize = 1 << 14;
/// The thread whose children are the kernel's own threads.
const KTHREADD: i32 = 2;
/// How often the threads of a process are looked for among all of them.
const SEARCHES_MAX: u32 = 1 << 10;

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
    /// Of the record that is being told.
    pub told: EndingRecord,
    pub(crate) hidden: Hidden,
    descriptors: Descriptors,
    /// How often records were discarded.
    folder_gaps: u32,
    /// How often all threads were looked through for those of a process.
    searches: u32,
    /// Machines of which not all is recorded that gives descriptors and takes them away.
    unsure: Vec<u8>,
    interrupts: HashMap<(u8, i32), Name>,
    disks: HashMap<(u8, u32), Name>,
}

/// What an observer may know of the record with which something has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndingRecord {
    /// The machine, by its place in [`World::machines`].
    pub machine: u8,
    /// Whether it, or that with which it began, was selected.
    pub selected: bool,
}

impl World {
    /// The first thread of a thread's process; the thread itself if nothing tells whose it is.
    #[must_use]
    pub fn process_of(&self, thread: ThreadId) -> ThreadId {
        self.threads.get(thread).and_then(|thread| thread.main).unwrap_or(thread)
    }

    /// Whether a thread is one of the kernel's own.
    #[must_use]
    pub fn is_of_kernel(&self, thread: &Thread) -> bool {
        let parent = thread.parent.and_then(|parent| self.threads.get(parent));
        thread.tid == KTHREADD || parent.is_some_and(|parent| parent.tid == KTHREADD)
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

    /// Whether a thread, which has a CPU, was given one before and has not made any record there: the kernel hides it, as
    /// far as is known.
    #[must_use]
    pub fn hides(&self, thread: ThreadId) -> bool {
        self.hidden.is_hidden(&self.threads, thread)
    }

    /// Threads that are given CPUs, and of which the trace tells nothing else: by falling time.
    #[must_use]
    pub fn hidden(&self) -> Vec<HiddenThread> {
        self.hidden.all(&self.threads)
    }

    /// What a descriptor of a thread was opened for.
    #[must_use]
    pub fn file(&self, thread: ThreadId, descriptor: i32) -> Option<Name> {
        self.opened(thread, descriptor).map(|opened| opened.name)
    }

    /// A descriptor of a thread as what it was opened for, if that is known.
    #[must_use]
    #[inline]
    pub fn object(&self, thread: ThreadId, object: Object) -> Object {
        match object {
            Object::Descriptor(number) => self.file(thread, number).map_or(object, Object::File),
            other => other,
        }
    }

    /// The name of an interrupt of a device, as who serves it is called; empty: not in the trace.
    #[must_use]
    pub fn interrupt_name(&self, machine: u8, number: i32) -> String {
        let name = self.interrupts.get(&(machine, number)).copied();
        self.names.text(name.unwrap_or_default())
    }

    /// The name of a disk; its number, `254:0`, if the trace does not say.
    #[must_use]
    pub fn disk_name(&self, machine: u8, device: u32) -> String {
        match self.disks.get(&(machine, device)) {
            Some(&name) => self.names.text(name),
            None => format!("{}:{}", device >> 20, device & 0xf_ffff),
        }
    }

    pub(crate) fn name_interrupt(&mut self, machine: u8, number: i32, name: &[u8]) {
        let is_known = self.interrupts.contains_key(&(machine, number));
        if is_known || self.interrupts.len() < DEVICES_MAX {
            let name = self.names.of(name);
            self.interrupts.insert((machine, number), name);
        }
    }

    pub(crate) fn knows_interrupt(&self, machine: u8, number: i32) -> bool {
        self.interrupts.contains_key(&(machine, number))
    }

    pub(crate) fn name_disk(&mut self, machine: u8, device: u32, name: &[u8]) {
        if self.disks.len() < DEVICES_MAX {
            let name = self.names.of(name);
            self.disks.insert((machine, device), name);
        }
    }

    pub(crate) fn opened(&self, thread: ThreadId, descriptor: i32) -> Option<OpenedFor> {
        self.descriptors.get(self.table(thread)?, descriptor)
    }

    #[inline]
    fn table(&self, id: ThreadId) -> Option<TableId> {
        let thread = self.threads.get(id)?;
        let of_process = || self.threads.get(thread.main.filter(|&main| main != id)?)?.files;
        thread.files.or_else(of_process)
    }

    /// The same; if there is none, the process has a new one.
    fn own_table(&mut self, id: ThreadId) -> Option<TableId> {
        if let Some(table) = self.table(id) {
            return Some(table);
        }
        let process = self.process_of(id);
        let table = self.descriptors.add()?;
        self.threads.get_mut(process)?.files = Some(table);
        Some(table)
    }

    /// What descriptors of these machines are for is known of none.
    pub(crate) fn know_no_files(&mut self, machines: Vec<u8>) {
        self.unsure = machines;
    }

    fn knows_files(&self, thread: ThreadId) -> bool {
        let machine = self.threads.get(thread).map(|thread| thread.machine);
        machine.is_none_or(|machine| !self.unsure.contains(&machine))
    }

    pub(crate) fn open(&mut self, thread: ThreadId, descriptor: i32, opened: OpenedFor) {
        if !self.knows_files(thread) {
            return;
        }
        if let Some(table) = self.own_table(thread) {
            self.descriptors.set(table, descriptor, opened);
        }
    }

    pub(crate) fn close(&mut self, thread: ThreadId, descriptor: i32) {
        if let Some(table) = self.table(thread) {
            self.descriptors.close(table, descriptor);
        }
    }

    pub(crate) fn retain(&mut self, thread: ThreadId, keep: impl Fn(i32, &mut OpenedFor) -> bool) {
        if let Some(table) = self.table(thread) {
            self.descriptors.retain(table, keep);
        }
    }

    /// The child has what the parent has, from now on.
    pub(crate) fn share(&mut self, parent: ThreadId, child: ThreadId) {
        let Some(table) = self.own_table(parent) else { return };
        self.descriptors.share(table);
        self.give(child, Some(table));
    }

    /// The child has what the parent has now.
    pub(crate) fn copy(&mut self, parent: ThreadId, child: ThreadId) {
        let copy = match self.table(parent) {
            Some(table) => self.descriptors.copy(table),
            None => self.descriptors.add(),
        };
        self.give(child, copy);
    }

    /// What the thread shares becomes its own.
    pub(crate) fn unshare(&mut self, thread: ThreadId) {
        self.leave_to_others(thread);
        let Some(table) = self.table(thread) else { return };
        let process = self.process_of(thread);
        let is_own =
            process == thread || self.threads.get(thread).is_some_and(|it| it.files.is_some());
        if !is_own || self.descriptors.is_shared(table) {
            let copy = self.descriptors.copy(table);
            self.give(thread, copy);
        }
    }

    /// What a process' first thread had stays what its other threads have.
    fn leave_to_others(&mut self, thread: ThreadId) {
        let Some(table) = self.threads.get(thread).and_then(|it| it.files) else { return };
        for other in self.others(thread) {
            if self.threads.get(other).is_some_and(|it| it.files.is_none()) {
                self.descriptors.share(table);
                self.give(other, Some(table));
            }
        }
    }

    /// The other threads of a process, by its first one.
    fn others(&mut self, main: ThreadId) -> Vec<ThreadId> {
        // A trace in which nothing else happens must come to an end, too.
        if self.process_of(main) != main || self.searches >= SEARCHES_MAX {
            return Vec::new();
        }
        self.searches += 1;
        let is_other =
            |thread: &crate::Thread| thread.main == Some(main) && thread.state != State::Gone;
        let all = self.threads.iter().filter(|(id, thread)| *id != main && is_other(thread));
        all.map(|(id, _)| id).collect()
    }

    /// Whose folder is that of a thread.
    fn folder_of(&self, thread: ThreadId) -> ThreadId {
        let has_own = self.threads.get(thread).is_some_and(|it| it.has_folder);
        if has_own {
            thread
        } else {
            self.process_of(thread)
        }
    }

    /// In which folder a thread's paths begin, if that is known.
    pub(crate) fn folder(&self, thread: ThreadId) -> Option<Name> {
        let folder = self.threads.get(self.folder_of(thread))?.folder;
        let is_known = folder.gaps == self.folder_gaps && !folder.is_shared;
        Some(folder.name).filter(|name| name.is_some() && is_known)
    }

    /// They begin there from now on.
    pub(crate) fn enter_folder(&mut self, thread: ThreadId, name: Name) {
        if !self.knows_files(thread) {
            return;
        }
        let (of, gaps) = (self.folder_of(thread), self.folder_gaps);
        if let Some(thread) = self.threads.get_mut(of) {
            thread.folder = WorkingFolder { name, gaps, ..thread.folder };
        }
    }

    /// A new process begins in its parent's; `shares`: each follows the other.
    pub(crate) fn inherit_folder(&mut self, parent: ThreadId, child: ThreadId, shares: bool) {
        let of = self.folder_of(parent);
        let Some(parent) = self.threads.get_mut(of) else { return };
        parent.folder.is_shared |= shares;
        let folder = WorkingFolder { is_shared: shares, ..parent.folder };
        let is_known = !parent.folder.is_shared || shares;
        if let Some(child) = self.threads.get_mut(child).filter(|_| is_known) {
            child.folder = folder;
        }
    }

    /// The thread's folder is its own from now on.
    pub(crate) fn unshare_folder(&mut self, thread: ThreadId) {
        let name = self.folder(thread).unwrap_or_default();
        for other in self.others(thread) {
            // They have one together, of which nothing more is known.
            if let Some(other) = self.threads.get_mut(other).filter(|other| !other.has_folder) {
                (other.has_folder, other.folder) = (true, WorkingFolder::default());
            }
        }
        let gaps = self.folder_gaps;
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.has_folder = true;
            thread.folder = WorkingFolder { name, gaps, is_shared: false };
        }
    }

    fn give(&mut self, id: ThreadId, table: Option<TableId>) {
        let Some(thread) = self.threads.get_mut(id) else { return };
        if let Some(before) = std::mem::replace(&mut thread.files, table) {
            self.descriptors.leave(before);
        }
    }

    /// The thread has ended.
    pub(crate) fn forget_files(&mut self, thread: ThreadId) {
        self.give(thread, None);
    }

    pub(crate) fn forget_descriptors(&mut self) {
        self.descriptors.clear();
        self.folder_gaps = self.folder_gaps.wrapping_add(1);
    }
}

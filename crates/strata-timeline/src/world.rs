//! What is known at one moment: all that an observer may look at.

use std::collections::HashMap;

use crate::calls::Calls;
use crate::descriptors::{Descriptors, Opened, TableId};
use crate::id::ThreadId;
use crate::names::{Name, Names};
use crate::state::Object;
use crate::threads::Threads;

/// Names of interrupts, and of disks, that are kept.
const DEVICES_MAX: usize = 1 << 14;

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
    pub told: Told,
    descriptors: Descriptors,
    interrupts: HashMap<(u8, i32), Name>,
    disks: HashMap<(u8, u32), Name>,
}

/// What an observer may know of the record with which something has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
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

    pub(crate) fn opened(&self, thread: ThreadId, descriptor: i32) -> Option<Opened> {
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

    pub(crate) fn open(&mut self, thread: ThreadId, descriptor: i32, opened: Opened) {
        if let Some(table) = self.own_table(thread) {
            self.descriptors.set(table, descriptor, opened);
        }
    }

    pub(crate) fn close(&mut self, thread: ThreadId, descriptor: i32) {
        if let Some(table) = self.table(thread) {
            self.descriptors.close(table, descriptor);
        }
    }

    pub(crate) fn retain(&mut self, thread: ThreadId, keep: impl Fn(i32, &mut Opened) -> bool) {
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
        let Some(table) = self.table(thread) else { return };
        let process = self.process_of(thread);
        let is_own =
            process == thread || self.threads.get(thread).is_some_and(|it| it.files.is_some());
        if !is_own || self.descriptors.is_shared(table) {
            let copy = self.descriptors.copy(table);
            self.give(thread, copy);
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
    }
}

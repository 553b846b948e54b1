//! The present state, as observers may read it: threads, descriptors, and names of interrupts and disks.
//!
//! Descriptors belong to tables, as in the kernel. A thread uses the table of its process unless it has one of its own, which
//! clone(), unshare() and close_range() can give it. The working folder is found in the same way. After a gap all tables are
//! empty and all folders are unknown, since any of the discarded records may have changed them.

pub(crate) mod control_groups;
pub(crate) mod descriptor_tables;
pub(crate) mod hidden_threads;
pub(crate) mod state;
pub(crate) mod threads;

use std::collections::HashMap;

use crate::ids::calls::Calls;
use crate::ids::names::{Name, NameKind, Names};
use crate::ids::thread_id::ThreadId;
use crate::world::control_groups::{ControlGroups, GroupIndex, Statement};
use crate::world::descriptor_tables::{Descriptors, OpenedFor, TableId};
use crate::world::hidden_threads::{Hidden, HiddenThread};
use crate::world::state::{Object, State};
use crate::world::threads::{Thread, Threads, WorkingFolder};

/// The most names of interrupts, and the most names of disks, that are kept.
const DEVICES_MAX: usize = 1 << 14;
/// The most ancestors of a process that are searched for a control group.
const PARENTS_MAX: usize = 64;
/// The number of the thread whose children are the kernel's own threads.
const KTHREADD: i32 = 2;
/// The most searches through all threads for those of one process. After that, a process is assumed to have no others.
const SEARCHES_MAX: u32 = 1 << 10;

/// The present state of all machines.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// All threads of all machines, including those that have ended.
    pub threads: Threads,
    /// Names of threads and files.
    pub names: Names,
    /// System calls of all traces.
    pub calls: Calls,
    /// Names of machines, in the order in which they appear in the traces.
    pub machines: Vec<String>,
    /// The time of the first record \[ns since 1970\].
    pub begin: Option<i64>,
    /// The time of the last record \[ns since 1970\].
    pub now: i64,
    /// The machine and selection of the record that is being applied.
    pub told: EndingRecord,
    /// The reason for which the running threads of some machine cannot be known, if there is one.
    pub blind: Option<Blind>,
    pub(crate) hidden: Hidden,
    /// The threads that got another name since the last call of `take_renamed`; `None` if they are not collected.
    pub(crate) renamed: Option<Vec<ThreadId>>,
    descriptors: Descriptors,
    /// The number of gaps, which says whether a working folder is still known.
    folder_gaps: u32,
    /// The number of searches through all threads so far.
    searches: u32,
    /// The machines whose traces lack some of the calls that open and close descriptors.
    unsure: Vec<u8>,
    interrupts: HashMap<(u8, i32), Name>,
    disks: HashMap<(u8, u32), Name>,
    /// Where processes are, as far as records say it.
    pub control_groups: ControlGroups,
}

/// What stays known of threads and devices when a trace was read to its end, to be kept in another place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorldSummary {
    /// Names of machines, as [`World::machines`].
    pub machines: Vec<String>,
    /// The time of the first record \[ns since 1970\].
    pub begin: Option<i64>,
    /// The time of the last record \[ns since 1970\].
    pub now: i64,
    /// All threads except the idle one, in the order of their ids.
    pub threads: Vec<ThreadSummary>,
    /// Disks: machine, number, and name.
    pub disks: Vec<(u8, u32, Vec<u8>)>,
}

/// What stays known of a thread. Other threads are given by their [`ThreadId::index`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSummary {
    /// The machine's index.
    pub machine: u8,
    /// The thread's number on its machine.
    pub tid: i32,
    /// The thread's last name.
    pub name: Vec<u8>,
    /// The first thread of the process.
    pub main: Option<u32>,
    /// The thread that created this thread.
    pub parent: Option<u32>,
    /// The time of creation \[ns since 1970\].
    pub born: Option<i64>,
}

/// Properties of the record that has ended something, for observers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndingRecord {
    /// The machine's index in [`World::machines`].
    pub machine: u8,
    /// True if this record, or that of the begin, was selected.
    pub selected: bool,
}

/// A reason for which the running threads of a machine are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blind {
    /// The kernel's trace has no record of a switch.
    NoSwitches,
    /// The kernel's records of switches do not say the CPU.
    NoCpus,
}

impl World {
    /// Notes the time of a record.
    #[inline]
    pub(crate) fn moves_to(&mut self, time: i64) {
        if self.begin.is_none() {
            (self.begin, self.now) = (Some(time), time);
        }
        self.now = self.now.max(time);
    }

    /// Sets the present to a later time. The first one may be any, as before 1970.
    #[inline]
    pub(crate) fn until(&mut self, time: i64) {
        self.now = if self.begin.is_none() { time } else { self.now.max(time) };
    }

    /// Returns what stays known at the end of a trace.
    #[must_use]
    pub fn summary(&self) -> WorldSummary {
        let bytes = |name| self.names.bytes(name).to_vec();
        let threads = self.threads.iter().map(|(_, thread)| ThreadSummary {
            machine: thread.machine,
            tid: thread.tid,
            name: bytes(thread.name),
            main: thread.main.map(|id| id.0),
            parent: thread.parent.map(|id| id.0),
            born: thread.born,
        });
        let mut disks: Vec<_> =
            self.disks.iter().map(|(of, &name)| (of.0, of.1, bytes(name))).collect();
        disks.sort_unstable();
        WorldSummary {
            machines: self.machines.clone(),
            begin: self.begin,
            now: self.now,
            threads: threads.collect(),
            disks,
        }
    }

    /// Makes a world of what stays known, in which each thread has its id again. Returns `None` if that is not possible, as
    /// for numbers that no thread has.
    #[must_use]
    pub fn from_summary(summary: &WorldSummary) -> Option<World> {
        let WorldSummary { machines, begin, now, threads, disks } = summary;
        let mut world =
            World { machines: machines.clone(), begin: *begin, now: *now, ..World::default() };
        let end = u32::try_from(threads.len()).ok()?.checked_add(1)?;
        for of in threads {
            let mut thread = Thread::new(of.machine, of.tid, *now, 0);
            let id = |number: u32| Some(number).filter(|&number| number < end).map(ThreadId);
            thread.name = world.names.of(&of.name);
            thread.main = of.main.and_then(id);
            thread.parent = of.parent.and_then(id);
            thread.born = of.born;
            world.threads.add(thread)?;
        }
        for (machine, device, name) in disks {
            world.name_disk(*machine, *device, name);
        }
        Some(world)
    }

    /// Returns the first thread of a thread's process; the thread itself if its process is unknown.
    #[must_use]
    pub fn process_of(&self, thread: ThreadId) -> ThreadId {
        self.threads.get(thread).and_then(|thread| thread.main).unwrap_or(thread)
    }

    /// Returns true if a thread is one of the kernel's own.
    #[must_use]
    pub fn is_of_kernel(&self, thread: &Thread) -> bool {
        let parent = thread.parent.and_then(|parent| self.threads.get(parent));
        thread.tid == KTHREADD || parent.is_some_and(|parent| parent.tid == KTHREADD)
    }

    /// Returns a thread's name; empty if none is known.
    #[must_use]
    pub fn thread_name(&self, thread: ThreadId) -> String {
        if thread == ThreadId::IDLE {
            return "idle".to_owned();
        }
        let name = self.threads.get(thread).map_or(Name::NONE, |thread| thread.name);
        self.names.text(name)
    }

    /// Returns the name of a thread's process: that of its first thread, or the thread's own if the first one has none.
    #[must_use]
    pub fn process_name(&self, thread: ThreadId) -> String {
        let name = self.thread_name(self.process_of(thread));
        if name.is_empty() {
            return self.thread_name(thread);
        }
        name
    }

    /// Returns true if the kernel seems to hide a thread: it was given a CPU before, and has not made any record there.
    #[must_use]
    pub fn hides(&self, thread: ThreadId) -> bool {
        self.hidden.is_hidden(&self.threads, thread)
    }

    /// Returns the threads that are given CPUs but make no records, the longest time first.
    #[must_use]
    pub fn hidden(&self) -> Vec<HiddenThread> {
        self.hidden.all(&self.threads)
    }

    /// Returns the file, socket or pipe that a descriptor of a thread was opened for.
    #[must_use]
    pub fn file(&self, thread: ThreadId, descriptor: i32) -> Option<Name> {
        self.opened(thread, descriptor).map(|opened| opened.name)
    }

    /// Returns true for a socket that this end has connected, so that what is read from it are answers. If it existed
    /// before the trace, its ports decide: the kernel gives ports from 32768 on to the connecting end.
    #[must_use]
    pub fn is_connected_by_us(&self, object: Object) -> bool {
        let Object::File(name) = object else { return false };
        match self.names.kind(name) {
            NameKind::Connected => true,
            NameKind::Socket => are_ports_of_a_client(&self.names.text(name)),
            _ => false,
        }
    }

    /// Returns an object. A descriptor is replaced by its file, if that is known.
    #[must_use]
    #[inline]
    pub fn object(&self, thread: ThreadId, object: Object) -> Object {
        match object {
            Object::Descriptor(number) => self.file(thread, number).map_or(object, Object::File),
            other => other,
        }
    }

    /// Returns the name of a device's interrupt, which is that of its driver; empty if the trace does not say.
    #[must_use]
    pub fn interrupt_name(&self, machine: u8, number: i32) -> String {
        let name = self.interrupts.get(&(machine, number)).copied();
        self.names.text(name.unwrap_or_default())
    }

    /// Returns the name of a disk; its number, such as `254:0`, if the trace does not say.
    #[must_use]
    pub fn disk_name(&self, machine: u8, device: u32) -> String {
        match self.disks.get(&(machine, device)) {
            Some(&name) => self.names.text(name),
            None => World::disk_number(device),
        }
    }

    /// Returns a disk's number in the form `MAJOR:MINOR`, such as `254:0`.
    #[must_use]
    pub fn disk_number(device: u32) -> String {
        format!("{}:{}", device >> 20, device & 0xf_ffff)
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

    /// Notes where a process is from a time on.
    pub(crate) fn group(&mut self, process: ThreadId, said: &Statement<'_>) {
        self.control_groups.note(process, said, &mut |text| self.names.of(text));
    }

    /// Returns the control group of a thread's process at a time \[ns since 1970\]. Without a record of the process it is
    /// that of the nearest ancestor, at the time when the next one of its descendants began. `None`: no record says it.
    #[must_use]
    pub fn control_group(&self, thread: ThreadId, mut time: i64) -> Option<GroupIndex> {
        let mut process = self.process_of(thread);
        for _ in 0..PARENTS_MAX {
            if let Some(group) = self.control_groups.at(process, time) {
                return Some(group);
            }
            let child = self.threads.get(process)?;
            let parent = self.process_of(child.parent?);
            if parent == process {
                return None;
            }
            time = time.min(child.born.unwrap_or(time));
            process = parent;
        }
        None
    }

    /// Returns the control groups of a process over time: from when on it was in which, in the order of time.
    #[must_use]
    pub fn control_groups_of(&self, process: ThreadId) -> Vec<(i64, GroupIndex)> {
        let born = self.threads.get(process).and_then(|thread| thread.born).unwrap_or(i64::MIN);
        let own = self.control_groups.own(process);
        let at_birth = self.control_group(process, born).map(|group| (born, group));
        at_birth.into_iter().chain(own.iter().copied().filter(|(from, _)| *from > born)).collect()
    }

    /// Returns the name of the container in which a thread's process is at the end, or of the systemd unit or other control group if
    /// it is in no container. `None`: no record says it.
    #[must_use]
    pub fn container(&self, thread: ThreadId) -> Option<Name> {
        let group = self.control_group(thread, i64::MAX)?;
        self.control_groups.all().get(group as usize).map(|group| group.shown)
    }

    /// Returns the pod of Kubernetes in which a thread's process is at the end: its name, or its number if no record has the name.
    /// `None`: it is in none, or no record says where it is.
    #[must_use]
    pub fn pod(&self, thread: ThreadId) -> Option<Name> {
        let group = self.control_group(thread, i64::MAX)?;
        self.control_groups.all().get(group as usize)?.pod
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

    /// Returns the table of a thread's descriptors. If there is none, the process gets a new one.
    fn own_table(&mut self, id: ThreadId) -> Option<TableId> {
        if let Some(table) = self.table(id) {
            return Some(table);
        }
        let process = self.process_of(id);
        let table = self.descriptors.add()?;
        self.threads.get_mut(process)?.files = Some(table);
        Some(table)
    }

    /// Sets the machines whose descriptors cannot be known.
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

    /// Notes that an epoll of a thread returns `data` when a descriptor is ready. Only an epoll of which the trace has the
    /// begin is known to watch nothing else by this number.
    pub(crate) fn watch(&mut self, thread: ThreadId, epoll: i32, data: u64, descriptor: i32) {
        let name = self.opened(thread, epoll).map(|opened| opened.name);
        if name.is_some_and(|name| &*self.names.text(name) == "epoll") {
            if let Some(table) = self.table(thread) {
                self.descriptors.watch(table, epoll, data, descriptor);
            }
        }
    }

    /// Returns the file for whose descriptor an epoll returns `data`.
    pub(crate) fn watched(&self, thread: ThreadId, epoll: i32, data: u64) -> Object {
        let found = self.table(thread).and_then(|it| self.descriptors.watched(it, epoll, data));
        found.map_or(Object::None, |opened| Object::File(opened.name))
    }

    pub(crate) fn retain(&mut self, thread: ThreadId, keep: impl Fn(i32, &mut OpenedFor) -> bool) {
        if let Some(table) = self.table(thread) {
            self.descriptors.retain(table, keep);
        }
    }

    /// Makes a child use its parent's table, so that changes by either are changes for both.
    pub(crate) fn share(&mut self, parent: ThreadId, child: ThreadId) {
        let Some(table) = self.own_table(parent) else { return };
        self.descriptors.share(table);
        self.give(child, Some(table));
    }

    /// Gives a child a copy of its parent's table.
    pub(crate) fn copy(&mut self, parent: ThreadId, child: ThreadId) {
        let copy = match self.table(parent) {
            Some(table) => self.descriptors.copy(table),
            None => self.descriptors.add(),
        };
        self.give(child, copy);
    }

    /// Gives a thread its own copy of the table that it shares.
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

    /// Gives the table of a process' first thread to its other threads, before the first thread gets a new one.
    fn leave_to_others(&mut self, thread: ThreadId) {
        let Some(table) = self.threads.get(thread).and_then(|it| it.files) else { return };
        for other in self.others(thread) {
            if self.threads.get(other).is_some_and(|it| it.files.is_none()) {
                self.descriptors.share(table);
                self.give(other, Some(table));
            }
        }
    }

    /// Returns the other threads of a process than its first one.
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

    /// Returns the thread that holds the working folder of a thread: itself, or the first one of its process.
    fn folder_of(&self, thread: ThreadId) -> ThreadId {
        let has_own = self.threads.get(thread).is_some_and(|it| it.has_folder);
        if has_own {
            thread
        } else {
            self.process_of(thread)
        }
    }

    /// Returns the working folder of a thread, if that is known.
    pub(crate) fn folder(&self, thread: ThreadId) -> Option<Name> {
        let folder = self.threads.get(self.folder_of(thread))?.folder;
        let is_known = folder.gaps == self.folder_gaps && !folder.is_shared;
        Some(folder.name).filter(|name| name.is_some() && is_known)
    }

    /// Sets the working folder of a thread.
    pub(crate) fn enter_folder(&mut self, thread: ThreadId, name: Name) {
        if !self.knows_files(thread) {
            return;
        }
        let (of, gaps) = (self.folder_of(thread), self.folder_gaps);
        if let Some(thread) = self.threads.get_mut(of) {
            thread.folder = WorkingFolder { name, gaps, ..thread.folder };
        }
    }

    /// Gives a new process its parent's working folder. With `shares`, a change by either is a change for both.
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

    /// Gives a thread its own copy of the working folder.
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
        if thread.files.is_none() && table.is_none() {
            return;
        }
        if let Some(before) = std::mem::replace(&mut thread.files, table) {
            self.descriptors.leave(before);
        }
    }

    /// Removes a thread that has ended from the users of its table.
    pub(crate) fn forget_files(&mut self, thread: ThreadId) {
        self.give(thread, None);
    }

    pub(crate) fn forget_descriptors(&mut self) {
        self.descriptors.clear();
        self.folder_gaps = self.folder_gaps.wrapping_add(1);
    }
}

/// Returns true if a socket's name in a state dump, such as `socket:[17] tcp 127.0.0.1:40112->127.0.0.1:5432`, has a
/// local port that the kernel gives to connecting ends, and another end's port that is not one.
fn are_ports_of_a_client(name: &str) -> bool {
    const FIRST_EPHEMERAL: u16 = 32768;
    let port = |address: &str| address.rsplit(':').next()?.parse::<u16>().ok();
    let ends = name.rsplit(' ').next().and_then(|ends| ends.split_once("->"));
    let ports = ends.and_then(|(local, remote)| Some((port(local)?, port(remote)?)));
    ports.is_some_and(|(local, remote)| local >= FIRST_EPHEMERAL && remote < FIRST_EPHEMERAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_of_a_dump_is_a_client_s_if_the_kernel_chose_its_port_and_not_the_peer_s() {
        for (name, wanted) in [
            ("socket:[17] tcp 127.0.0.1:40112->127.0.0.1:5432", true),
            ("socket:[17] tcp6 [::1]:40112->[::1]:443", true),
            ("socket:[17] tcp 127.0.0.1:5432->127.0.0.1:40112", false),
            ("socket:[17] tcp 127.0.0.1:40112->127.0.0.1:40113", false),
            ("socket:[17] tcp 127.0.0.1:80", false),
            ("socket:[17] unix /run/a->b", false),
            ("tcp 127.0.0.1:99999->127.0.0.1:1", false),
            ("", false),
        ] {
            assert_eq!(are_ports_of_a_client(name), wanted, "{name}");
        }
    }
}

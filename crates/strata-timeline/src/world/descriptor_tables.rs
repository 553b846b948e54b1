//! Tables of descriptors are kept as in the kernel: mostly one for each process, sometimes shared.
//!
//! ```text
//! process ── TableId ── table: descriptor number ── OpenedFor: a file or socket by name, closed by exec() or not
//! fork()     copy()    a table of its own, with the same descriptors
//! clone()    share()   the same table, one more user (threads; CLONE_FILES)
//! exec()     retain()  those without close-on-exec
//! exit       leave()   the last user frees the table
//! ```
//!
//! A table holds what each descriptor was opened for, so that a later read() of number 7 has the name of a file, and
//! which descriptors an epoll watches, so that the result of an epoll_wait() has the descriptors that are ready. The
//! number of all descriptors is limited, and a descriptor that does not fit is unknown.
//!
//! `call_effects.rs` decides which system call does what to a table; `steps.rs` applies the same
//! changes in other threads. If records are missing, everything is forgotten ([`Descriptors::clear`]): a wrong name
//! is worse than none.
//!
//! # Cost
//! Most calls look up one descriptor in one table, a search in a small tree. A fork copies a table, so what all
//! tables hold together is bounded and not the size of one: a program that forks with a thousand open files
//! cannot fill memory. Watches of epolls have a bound of their own, and a search for room among them is made
//! rarely, since it looks at a whole table.

use std::collections::BTreeMap;

use crate::ids::names::Name;

/// The most descriptors in all tables together; some 24 bytes each.
const DESCRIPTORS_MAX: usize = 1 << 20;
const TABLES_MAX: usize = 1 << 18;
/// The most descriptors that epolls watch, in all tables together; some 32 bytes each.
const WATCHES_MAX: usize = 1 << 16;
/// The number of watches that are refused between two searches for room: a search looks at all watches of a table, and a server
/// with more connections than there is room for adds one for each of them.
const WATCHES_PER_SEARCH: usize = WATCHES_MAX / 16;

/// A table, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableId(u32);

/// The file or socket that a descriptor was opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenedFor {
    pub name: Name,
    /// True if exec() closes the descriptor; `None` if the trace does not say.
    pub by_exec: Option<bool>,
}

#[derive(Clone, Debug, Default)]
struct DescriptorTable {
    known: BTreeMap<i32, OpenedFor>,
    /// The descriptor that an epoll returns a number for, by the descriptor of the epoll and the number; `None` if the
    /// number stands for several. A copy of the table has none of them.
    watched: BTreeMap<(i32, u64), Option<i32>>,
    /// The number of processes and threads that use the table.
    users: u32,
}

/// All tables of descriptors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descriptors {
    tables: Vec<DescriptorTable>,
    free: Vec<u32>,
    kept: usize,
    /// The number of descriptors that epolls watch, in all tables.
    watches: usize,
    /// The number of watches that are refused until room is searched for again.
    until_search: usize,
}

impl Descriptors {
    /// Adds an empty table with one user; `None` if there are too many.
    pub(crate) fn add(&mut self) -> Option<TableId> {
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.tables.len() >= TABLES_MAX => return None,
            None => {
                self.tables.push(DescriptorTable::default());
                u32::try_from(self.tables.len() - 1).ok()?
            }
        };
        self.table(TableId(id))?.users = 1;
        Some(TableId(id))
    }

    fn table(&mut self, id: TableId) -> Option<&mut DescriptorTable> {
        self.tables.get_mut(usize::try_from(id.0).ok()?)
    }

    pub(crate) fn get(&self, id: TableId, descriptor: i32) -> Option<OpenedFor> {
        let table = self.tables.get(usize::try_from(id.0).ok()?)?;
        table.known.get(&descriptor).copied()
    }

    pub(crate) fn set(&mut self, id: TableId, descriptor: i32, opened: OpenedFor) {
        if descriptor < 0 || !opened.name.is_some() || self.kept >= DESCRIPTORS_MAX {
            return self.close(id, descriptor);
        }
        let Some(table) = self.table(id) else { return };
        let is_new = table.known.insert(descriptor, opened).is_none();
        self.kept += usize::from(is_new);
        if !is_new {
            self.forget_watched(id, descriptor);
        }
    }

    pub(crate) fn close(&mut self, id: TableId, descriptor: i32) {
        let Some(table) = self.table(id) else { return };
        let was_there = table.known.remove(&descriptor).is_some();
        self.kept -= usize::from(was_there);
        self.forget_watched(id, descriptor);
    }

    /// Notes that an epoll returns `data` when a descriptor is ready.
    pub(crate) fn watch(&mut self, id: TableId, epoll: i32, data: u64, descriptor: i32) {
        let is_full = self.watches >= WATCHES_MAX;
        let searches = is_full && self.until_search == 0;
        let Some(table) = self.table(id) else { return };
        if let Some(before) = table.watched.get_mut(&(epoll, data)) {
            // A closed descriptor is not watched any more, and its number may stand for another one.
            let stays = before.is_none_or(|it| it != descriptor && table.known.contains_key(&it));
            *before = Some(descriptor).filter(|_| !stays);
            return;
        }
        let before = table.watched.len();
        if searches {
            let known = &table.known;
            table.watched.retain(|_, of| of.is_none_or(|of| known.contains_key(&of)));
        }
        let gone = before - table.watched.len();
        let has_room = !is_full || gone > 0;
        if has_room {
            table.watched.insert((epoll, data), Some(descriptor));
        }
        self.watches = self.watches - gone + usize::from(has_room);
        if is_full {
            let left = self.until_search.checked_sub(1);
            self.until_search = left.unwrap_or(WATCHES_PER_SEARCH);
        }
    }

    /// Returns what the descriptor was opened for that an epoll returns `data` for.
    pub(crate) fn watched(&self, id: TableId, epoll: i32, data: u64) -> Option<OpenedFor> {
        let table = self.tables.get(usize::try_from(id.0).ok()?)?;
        let descriptor = (*table.watched.get(&(epoll, data))?)?;
        table.known.get(&descriptor).copied()
    }

    fn forget_watched(&mut self, id: TableId, epoll: i32) {
        let Some(table) = self.table(id) else { return };
        let of = table.watched.range((epoll, 0)..=(epoll, u64::MAX));
        let gone: Vec<_> = of.map(|(&key, _)| key).collect();
        for key in &gone {
            table.watched.remove(key);
        }
        self.watches -= gone.len();
    }

    /// Closes the descriptors for which `keep` returns false.
    pub(crate) fn retain(&mut self, id: TableId, keep: impl Fn(i32, &mut OpenedFor) -> bool) {
        let Some(table) = self.table(id) else { return };
        let before = table.known.len();
        table.known.retain(|&descriptor, opened| keep(descriptor, opened));
        let gone = before - table.known.len();
        let mut watched = std::mem::take(&mut table.watched);
        let before = watched.len();
        watched.retain(|(epoll, _), _| table.known.contains_key(epoll));
        let unwatched = before - watched.len();
        table.watched = watched;
        self.kept -= gone;
        self.watches -= unwatched;
    }

    /// Adds a user to a table.
    pub(crate) fn share(&mut self, id: TableId) {
        if let Some(table) = self.table(id) {
            table.users = table.users.saturating_add(1);
        }
    }

    /// Adds a table with the same descriptors, or an empty one if there is no room for them.
    pub(crate) fn copy(&mut self, id: TableId) -> Option<TableId> {
        let known = self.table(id)?.known.clone();
        let copy = self.add()?;
        if self.kept + known.len() <= DESCRIPTORS_MAX {
            self.kept += known.len();
            self.table(copy)?.known = known;
        }
        Some(copy)
    }

    /// Removes a user from a table. The last one frees it.
    pub(crate) fn leave(&mut self, id: TableId) {
        let Some(table) = self.table(id).filter(|table| table.users > 0) else { return };
        table.users -= 1;
        if table.users == 0 {
            let gone = std::mem::take(&mut table.known).len();
            let unwatched = std::mem::take(&mut table.watched).len();
            self.kept -= gone;
            self.watches -= unwatched;
            self.free.push(id.0);
        }
    }

    /// Returns true if a table has several users.
    pub(crate) fn is_shared(&self, id: TableId) -> bool {
        let table = usize::try_from(id.0).ok().and_then(|at| self.tables.get(at));
        table.is_some_and(|table| table.users > 1)
    }

    /// Forgets all descriptors, since records of their changes may have been discarded.
    pub(crate) fn clear(&mut self) {
        for table in &mut self.tables {
            table.known.clear();
            table.watched.clear();
        }
        (self.kept, self.watches) = (0, 0);
    }
}

#[cfg(test)]
mod tests;

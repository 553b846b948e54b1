//! The b-tree of a table whose rows are added in the order of their numbers.

use std::io;

use super::file::{PageFile, PAGE};
use super::node::{Node, NodeKind};
use super::record::put_varint;

/// The most bytes of a row that a page of a table has, and the least if the rest is on other pages \[byte\].
const LOCAL_MAX: usize = PAGE - 35;
const LOCAL_MIN: usize = (PAGE - 12) * 32 / 255 - 23;

/// Returns how many bytes of a payload are in its cell. The rest is on overflow pages.
pub(super) fn local_bytes(payload: usize, most: usize) -> usize {
    if payload <= most {
        return payload;
    }
    let local = LOCAL_MIN + (payload - LOCAL_MIN) % (PAGE - 4);
    if local <= most {
        local
    } else {
        LOCAL_MIN
    }
}

/// A page below an inner page, and the number of its last row.
#[derive(Clone, Copy, Debug)]
struct Child {
    page: u32,
    last: i64,
}

/// The inner page of a level that is being filled.
#[derive(Debug)]
struct Level {
    node: Node,
    /// The child of the page's last cell, and the child behind all cells.
    in_cell: Option<Child>,
    right: Option<Child>,
}

/// A b-tree of rows.
#[derive(Debug)]
pub(in crate::sql) struct TableTree {
    leaf: Node,
    levels: Vec<Level>,
    last: Option<i64>,
    cell: Vec<u8>,
    tail: Vec<u8>,
}

impl TableTree {
    pub(in crate::sql) fn new() -> TableTree {
        let leaf = Node::new(NodeKind::TableLeaf);
        TableTree { leaf, levels: Vec::new(), last: None, cell: Vec::new(), tail: Vec::new() }
    }

    /// Returns the number of the last row.
    pub(in crate::sql) fn last(&self) -> Option<i64> {
        self.last
    }

    /// Adds a row, whose number must be higher than that of the last.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or the row's number is not higher.
    pub(in crate::sql) fn add(
        &mut self,
        file: &mut PageFile,
        number: i64,
        row: &[u8],
    ) -> io::Result<()> {
        if self.last.is_some_and(|last| last >= number) {
            return Err(io::Error::other(format!("a table has row {number} behind a later one")));
        }
        self.cell.clear();
        put_varint(&mut self.cell, row.len() as u64);
        put_varint(&mut self.cell, number as u64);
        let (local, rest) = row.split_at(local_bytes(row.len(), LOCAL_MAX));
        let mut second = local;
        if !rest.is_empty() {
            let first = file.append_overflow(rest)?;
            self.tail.clear();
            self.tail.extend_from_slice(local);
            self.tail.extend_from_slice(&first.to_be_bytes());
            second = &self.tail;
        }
        if !self.leaf.push(&self.cell, second) {
            let page = file.append(self.leaf.finish(0))?;
            self.leaf.clear();
            self.leaf.push(&self.cell, second);
            let last = self.last.unwrap_or_default();
            self.add_child(file, 0, Child { page, last })?;
        }
        self.last = Some(number);
        Ok(())
    }

    /// Adds a page to the level above it, and pages that are full to the levels above.
    fn add_child(&mut self, file: &mut PageFile, level: usize, mut child: Child) -> io::Result<()> {
        for depth in level.. {
            if depth == self.levels.len() {
                let node = Node::new(NodeKind::TableInner);
                self.levels.push(Level { node, in_cell: None, right: None });
            }
            let Some(level) = self.levels.get_mut(depth) else { break };
            let Some(before) = level.right.replace(child) else { break };
            let mut key = Vec::new();
            put_varint(&mut key, before.last as u64);
            if !level.node.push(&before.page.to_be_bytes(), &key) {
                // The next page begins with a cell, as an inner page without one is damaged to SQLite.
                let last = level.in_cell.take().unwrap_or(before);
                level.node.pop();
                let page = file.append(level.node.finish(last.page))?;
                level.node.clear();
                level.node.push(&before.page.to_be_bytes(), &key);
                level.in_cell = Some(before);
                child = Child { page, last: last.last };
                continue;
            }
            level.in_cell = Some(before);
            break;
        }
        Ok(())
    }

    /// Writes what is not written yet. The highest page replaces the page `root`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(in crate::sql) fn finish(mut self, file: &mut PageFile, root: u32) -> io::Result<()> {
        if self.levels.is_empty() {
            return file.replace(root, self.leaf.finish(0));
        }
        let page = file.append(self.leaf.finish(0))?;
        let mut child = Child { page, last: self.last.unwrap_or_default() };
        let mut depth = 0;
        loop {
            self.add_child(file, depth, child)?;
            let is_highest = depth + 1 == self.levels.len();
            let Some(level) = self.levels.get_mut(depth) else { return Ok(()) };
            let right = level.right.unwrap_or(child);
            let page = level.node.finish(right.page);
            if is_highest {
                return file.replace(root, page);
            }
            child = Child { page: file.append(page)?, last: right.last };
            depth += 1;
        }
    }
}

//! The b-tree of an index whose entries are added in their order.

use std::io;

use super::file::{PageFile, PAGE};
use super::node::{Node, NodeKind};
use super::record::put_varint;
use super::table::local_bytes;

/// The most bytes of an entry that a page of an index has \[byte\].
const LOCAL_MAX: usize = (PAGE - 12) * 64 / 255 - 23;

/// A b-tree of an index. Each entry is in a leaf, or between two pages in the page above these.
#[derive(Debug)]
pub(super) struct IndexTree {
    leaf: Node,
    levels: Vec<Node>,
    head: Vec<u8>,
}

impl IndexTree {
    pub(super) fn new() -> IndexTree {
        IndexTree { leaf: Node::new(NodeKind::IndexLeaf), levels: Vec::new(), head: Vec::new() }
    }

    /// Adds an entry, which is a record of the columns and the row's number.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    #[inline]
    pub(super) fn add(&mut self, file: &mut PageFile, entry: &[u8]) -> io::Result<()> {
        self.head.clear();
        put_varint(&mut self.head, entry.len() as u64);
        if entry.len() <= LOCAL_MAX {
            return match self.leaf.push(&self.head, entry) {
                true => Ok(()),
                false => self.next_leaf(file, entry),
            };
        }
        let (local, rest) = entry.split_at(local_bytes(entry.len(), LOCAL_MAX));
        let overflow = file.append_overflow(rest)?;
        let local = [local, &overflow.to_be_bytes()].concat();
        match self.leaf.push(&self.head, &local) {
            true => Ok(()),
            false => self.next_leaf(file, &local),
        }
    }

    /// Writes the full leaf and begins another one. The last entry of the full leaf moves to the page above.
    #[cold]
    fn next_leaf(&mut self, file: &mut PageFile, local: &[u8]) -> io::Result<()> {
        let mut between = self.leaf.pop();
        let mut child = file.append(self.leaf.finish(0))?;
        self.leaf.clear();
        self.leaf.push(&self.head, local);
        for depth in 0.. {
            if depth == self.levels.len() {
                self.levels.push(Node::new(NodeKind::IndexInner));
            }
            let Some(node) = self.levels.get_mut(depth) else { break };
            if node.push(&child.to_be_bytes(), &between) {
                break;
            }
            let last = node.pop();
            let (right, entry) = last.split_at(last.len().min(4));
            let right = u32::from_be_bytes(right.try_into().unwrap_or_default());
            let entry = entry.to_vec();
            let page = file.append(node.finish(right))?;
            node.clear();
            node.push(&child.to_be_bytes(), &between);
            (child, between) = (page, entry);
        }
        Ok(())
    }

    /// Writes the remaining pages. The highest page of the tree replaces the page `root`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(super) fn finish(mut self, file: &mut PageFile, root: u32) -> io::Result<()> {
        let Some((highest, lower)) = self.levels.split_last_mut() else {
            return file.replace(root, self.leaf.finish(0));
        };
        let mut right = file.append(self.leaf.finish(0))?;
        for node in lower {
            right = file.append(node.finish(right))?;
        }
        file.replace(root, highest.finish(right))
    }
}

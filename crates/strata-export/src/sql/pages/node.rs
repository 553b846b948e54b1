//! A page of a b-tree whose cells are added in their order.
//!
//! ```text
//! kind, 0, 0, cells (2), begin of the cells (2), 0 │ right child (4), of inner pages │ offsets of cells (2 each) │ free │ cells
//! ```

use super::file::PAGE;

/// The kinds of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    TableLeaf = 13,
    TableInner = 5,
    IndexLeaf = 10,
    IndexInner = 2,
}

impl NodeKind {
    /// Returns the size of the page's head \[byte\].
    fn head(self) -> usize {
        match self {
            NodeKind::TableLeaf | NodeKind::IndexLeaf => 8,
            NodeKind::TableInner | NodeKind::IndexInner => 12,
        }
    }
}

/// The least size of a cell \[byte\].
const CELL_MIN: usize = 4;

/// A page that is being filled: cells from its end, their offsets from its begin.
#[derive(Debug)]
pub(super) struct Node {
    page: Vec<u8>,
    kind: NodeKind,
    cells: usize,
    /// The offset of the last cell, and of the cell before it.
    begin: usize,
    before: usize,
}

impl Node {
    pub(super) fn new(kind: NodeKind) -> Node {
        Node { page: vec![0; PAGE], kind, cells: 0, begin: PAGE, before: PAGE }
    }

    /// Adds a cell, which is in two parts. Returns false if there is no room.
    #[inline]
    pub(super) fn push(&mut self, first: &[u8], second: &[u8]) -> bool {
        let size = (first.len() + second.len()).max(CELL_MIN);
        let offset_at = self.kind.head() + 2 * self.cells;
        let Some(begin) = self.begin.checked_sub(size).filter(|&begin| begin >= offset_at + 2)
        else {
            return false;
        };
        let split = begin + first.len();
        let end = split + second.len();
        if let Some(to) = self.page.get_mut(begin..split) {
            to.copy_from_slice(first);
        }
        if let Some(to) = self.page.get_mut(split..end) {
            to.copy_from_slice(second);
        }
        self.put(offset_at, &(begin as u16).to_be_bytes());
        self.before = self.begin;
        self.begin = begin;
        self.cells += 1;
        true
    }

    /// Removes the last cell. Another one must be added before the next can be removed.
    pub(super) fn pop(&mut self) -> Vec<u8> {
        let cell = self.page.get(self.begin..self.before).unwrap_or_default().to_vec();
        self.begin = self.before;
        self.cells = self.cells.saturating_sub(1);
        cell
    }

    /// Returns the page with its head, and for inner pages with the child behind all cells.
    pub(super) fn finish(&mut self, right: u32) -> &[u8] {
        // As one of 65,536 bytes, an offset would be 0.
        let begin = self.begin as u16;
        let [cells_high, cells_low] = (self.cells as u16).to_be_bytes();
        let [begin_high, begin_low] = begin.to_be_bytes();
        let head = [self.kind as u8, 0, 0, cells_high, cells_low, begin_high, begin_low, 0];
        self.put(0, &head);
        if self.kind.head() > head.len() {
            self.put(head.len(), &right.to_be_bytes());
        }
        let free = self.kind.head() + 2 * self.cells..self.begin;
        if let Some(free) = self.page.get_mut(free) {
            free.fill(0);
        }
        &self.page
    }

    /// Begins the next page.
    pub(super) fn clear(&mut self) {
        self.cells = 0;
        self.begin = PAGE;
        self.before = PAGE;
    }

    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(to) = self.page.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    }
}

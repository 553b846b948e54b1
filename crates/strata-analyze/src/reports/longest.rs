//! The longest of many, in bounded memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// So many of the longest.
#[derive(Debug)]
pub(super) struct Longest<T> {
    kept: usize,
    heap: BinaryHeap<Reverse<(u64, i64, T)>>,
}

impl<T: Ord> Longest<T> {
    pub(super) fn new(kept: usize) -> Longest<T> {
        Longest { kept, heap: BinaryHeap::new() }
    }

    /// One that took so long, from then on.
    pub(super) fn add(&mut self, nanos: u64, from: i64, what: T) {
        let is_full = self.heap.len() >= self.kept;
        if is_full && self.heap.peek().is_none_or(|Reverse((least, ..))| *least >= nanos) {
            return;
        }
        self.heap.push(Reverse((nanos, from, what)));
        if is_full {
            self.heap.pop();
        }
    }

    /// By falling length.
    pub(super) fn finish(self) -> impl Iterator<Item = (u64, i64, T)> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(it)| it)
    }
}

//! The last rows of a pass over records, for a query that wants the latest first.
//!
//! Records are read in the order of time only, so the rows of a slice of time are kept until its end and passed on in the
//! opposite order. A slice may have more rows than memory: the earliest of them are then left out and counted, and another
//! pass over the slice collects these.

use std::collections::VecDeque;

use crate::row_batch::RowBatch;

/// The last rows of a pass, up to a limit of memory.
#[derive(Debug)]
pub(crate) struct LastRows {
    batches: VecDeque<RowBatch>,
    /// The most memory that all batches but the last one take \[byte\].
    most: usize,
    size: usize,
    left_out: u64,
}

impl LastRows {
    pub(crate) fn new(most: usize) -> LastRows {
        LastRows { batches: VecDeque::new(), most, size: 0, left_out: 0 }
    }

    /// Adds the next rows of the pass, and leaves out the earliest ones that have no room. Returns a batch to use again.
    pub(crate) fn push(&mut self, batch: RowBatch) -> RowBatch {
        let mut free = RowBatch::default();
        self.size += batch.size();
        self.batches.push_back(batch);
        while self.size > self.most && self.batches.len() > 1 {
            let Some(first) = self.batches.pop_front() else { break };
            self.size -= first.size();
            self.left_out += first.rows as u64;
            free = first;
            free.clear();
        }
        free
    }

    /// Number of rows at the begin of the pass that had no room.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the rows that were kept, the last one first.
    pub(crate) fn reversed(self) -> impl Iterator<Item = RowBatch> {
        self.batches.into_iter().rev().map(|mut batch| {
            batch.reverse();
            batch
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row_batch::ScanCell;

    /// A batch of rows with these numbers, each with two cells: the number, and the same as a text.
    fn batch(numbers: std::ops::Range<i64>) -> RowBatch {
        let mut batch = RowBatch::default();
        for number in numbers {
            let text = batch.text(number.to_string().as_bytes());
            batch.cells.extend([ScanCell::Integer(number), text]);
            batch.ids.push(number);
            batch.rows += 1;
        }
        batch
    }

    /// The numbers of rows, whose cells must all say the same.
    fn numbers(rows: LastRows) -> Vec<i64> {
        let mut all = Vec::new();
        for batch in rows.reversed() {
            for (row, &id) in batch.ids.iter().enumerate() {
                let [ScanCell::Integer(number), ScanCell::Text { from, to }] =
                    batch.cells[row * 2..row * 2 + 2]
                else {
                    panic!("row {row}: {:?}", batch.cells)
                };
                let text = std::str::from_utf8(&batch.bytes[from as usize..to as usize]).unwrap();
                assert_eq!((number, text), (id, id.to_string().as_str()));
                all.push(id);
            }
        }
        all
    }

    #[test]
    fn rows_come_in_the_opposite_order_with_their_cells() {
        let mut rows = LastRows::new(usize::MAX);
        for from in [0, 3, 6] {
            rows.push(batch(from..from + 3));
        }
        rows.push(batch(9..10));
        assert_eq!(rows.left_out(), 0);
        assert_eq!(numbers(rows), (0..10).rev().collect::<Vec<_>>());
        assert!(numbers(LastRows::new(0)).is_empty());
    }

    #[test]
    fn without_room_the_earliest_rows_are_left_out_and_counted() {
        let most = batch(10..14).size() * 2;
        let mut rows = LastRows::new(most);
        for from in (10..50).step_by(4) {
            rows.push(batch(from..from + 4));
        }
        assert_eq!(rows.left_out(), 32);
        assert_eq!(numbers(rows), (42..50).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_batch_larger_than_the_limit_is_kept_whole() {
        let mut rows = LastRows::new(0);
        rows.push(batch(0..4));
        let free = rows.push(batch(4..9));
        assert_eq!((free.rows, free.cells.len(), rows.left_out()), (0, 0, 4));
        assert_eq!(numbers(rows), [8, 7, 6, 5, 4]);
    }
}

//! Rows of scans that a query repeats.
//!
//! A sub-query that depends on a row of another table begins a scan for each of these rows: SQLite makes no index over virtual
//! tables. From the fourth scan for the same columns and events on, their rows are kept, of all times, if they take little
//! memory. Further scans, also of other times, read the kept rows. If the rows take too much memory, scans go on reading the
//! traces, and a text tells the user what to do, as the query may then take very long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use strata_ctf::read::TimeRange;

use crate::catalog::Source;
use crate::row_batch::{RowBatch, ScanCell};

/// The scan from which on rows are kept.
const SCANS_BEFORE: u32 = 3;
/// The most memory for all kept rows \[byte\].
const KEPT_BYTES: usize = if cfg!(test) { 256 << 10 } else { 64 << 20 };
/// Number of scans of one query, and its time so far, from which on the user is told.
const SCANS_TOLD: u64 = if cfg!(test) { 16 } else { 64 };
const TIME_TOLD: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_secs(3) };

/// What scans must have in common to read the same rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowsWanted {
    /// Index of the table.
    pub table: usize,
    pub columns: Vec<Source>,
    pub classes: Option<Vec<bool>>,
    pub has_numbers: bool,
}

/// Rows in the order of time. Behind the columns that the query needs, each row has its time.
#[derive(Debug, Default)]
pub(crate) struct KeptRows {
    pub batch: RowBatch,
    /// Number of cells of a row, with its time.
    pub width: usize,
}

impl KeptRows {
    pub(crate) fn new(width: usize) -> KeptRows {
        KeptRows { batch: RowBatch::default(), width }
    }

    fn time(&self, row: usize) -> Option<i64> {
        match self.batch.cells.get(row * self.width + self.width - 1) {
            Some(ScanCell::Integer(time)) => Some(*time),
            _ => None,
        }
    }

    /// Appends rows. Returns false if there are too many, or they are not in the order of time.
    pub(crate) fn append(&mut self, more: &RowBatch, room: usize) -> bool {
        let first = self.batch.rows;
        let Ok(before) = u32::try_from(self.batch.bytes.len()) else { return false };
        if self.batch.size() + more.size() > room {
            return false;
        }
        self.batch.bytes.extend_from_slice(&more.bytes);
        self.batch.ids.extend_from_slice(&more.ids);
        self.batch.cells.extend(more.cells.iter().map(|cell| match *cell {
            ScanCell::Text { from, to } => ScanCell::Text { from: from + before, to: to + before },
            ScanCell::Blob { from, to } => ScanCell::Blob { from: from + before, to: to + before },
            cell => cell,
        }));
        self.batch.rows += more.rows;
        (first..self.batch.rows).all(|row| {
            let before = row.checked_sub(1).and_then(|before| self.time(before));
            self.time(row).is_some_and(|time| before.is_none_or(|before| before <= time))
        })
    }

    /// Returns the first row of a time range, and the one behind its last.
    pub(crate) fn part(&self, range: &TimeRange) -> (usize, usize) {
        let find = |is_before: &dyn Fn(i64) -> bool| {
            let (mut low, mut high) = (0, self.batch.rows);
            while low < high {
                let middle = low + (high - low) / 2;
                match self.time(middle).is_some_and(is_before) {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            low
        };
        let from = find(&|time| time < range.from);
        (from, find(&|time| time <= range.to).max(from))
    }
}

/// How to get the rows of a scan.
#[derive(Debug)]
pub(crate) enum RowsFrom {
    /// By reading the traces.
    Traces,
    /// By reading the traces of all times, to keep the rows, which may take so many bytes.
    TracesToKeep(usize),
    Kept(Arc<KeptRows>),
}

#[derive(Debug)]
enum Known {
    /// Number of scans so far.
    Scans(u32),
    TooMany,
    Rows(Arc<KeptRows>),
}

#[derive(Debug)]
struct Seen {
    known: HashMap<RowsWanted, Known>,
    /// Memory for all kept rows \[byte\].
    bytes: usize,
    /// Number of scans of the present query that have read the traces, and the query's begin.
    scans: u64,
    begin: Instant,
}

/// The kept rows of a database.
#[derive(Debug)]
pub(crate) struct ScanCache(Mutex<Seen>);

impl Default for ScanCache {
    fn default() -> ScanCache {
        let (known, begin) = (HashMap::new(), Instant::now());
        ScanCache(Mutex::new(Seen { known, bytes: 0, scans: 0, begin }))
    }
}

impl ScanCache {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins another query: the memory of what an earlier one has repeated is free.
    pub(crate) fn begin_query(&self) {
        *self.seen() = ScanCache::default().0.into_inner().unwrap_or_else(PoisonError::into_inner);
    }

    /// Counts a scan, and says how to get its rows.
    pub(crate) fn begin_scan(&self, wanted: &RowsWanted) -> RowsFrom {
        let mut seen = self.seen();
        seen.scans += 1;
        let room = KEPT_BYTES.saturating_sub(seen.bytes);
        let known = match seen.known.get_mut(wanted) {
            Some(known) => known,
            None => seen.known.entry(wanted.clone()).or_insert(Known::Scans(0)),
        };
        match known {
            Known::Rows(rows) => {
                let rows = Arc::clone(rows);
                seen.scans -= 1;
                RowsFrom::Kept(rows)
            }
            Known::Scans(scans) if *scans >= SCANS_BEFORE => RowsFrom::TracesToKeep(room),
            Known::Scans(scans) => {
                *scans += 1;
                RowsFrom::Traces
            }
            Known::TooMany => RowsFrom::Traces,
        }
    }

    /// Keeps rows of all times; `None` if there are too many.
    pub(crate) fn keep(&self, wanted: &RowsWanted, rows: Option<&Arc<KeptRows>>) {
        let mut seen = self.seen();
        seen.bytes += rows.map_or(0, |rows| rows.batch.size());
        let known = rows.map_or(Known::TooMany, |rows| Known::Rows(Arc::clone(rows)));
        seen.known.insert(wanted.clone(), known);
    }

    /// Returns how often the present query has read the traces, if that is worth telling.
    pub(crate) fn scans_to_tell(&self) -> Option<u64> {
        let seen = self.seen();
        let is_long = seen.scans >= SCANS_TOLD && seen.begin.elapsed() >= TIME_TOLD;
        is_long.then_some(seen.scans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(times: &[i64]) -> RowBatch {
        let mut batch = RowBatch::default();
        for time in times {
            let text = batch.text(format!("t{time}").as_bytes());
            batch.cells.extend([text, ScanCell::Integer(*time)]);
            batch.ids.push(*time);
            batch.rows += 1;
        }
        batch
    }

    #[test]
    fn parts_of_kept_rows_are_those_of_the_time_range() {
        let mut rows = KeptRows::new(2);
        for times in [&[1, 2, 2][..], &[2, 5], &[], &[9]] {
            assert!(rows.append(&batch(times), usize::MAX));
        }
        let all = [1, 2, 2, 2, 5, 9];
        for from in -1..11 {
            for to in -1..11 {
                let (begin, end) = rows.part(&TimeRange { from, to });
                let wanted: Vec<i64> =
                    all.into_iter().filter(|time| (from..=to).contains(time)).collect();
                assert_eq!(rows.batch.ids.get(begin..end).unwrap(), wanted, "{from} {to}");
            }
        }
        let ScanCell::Text { from, to } = rows.batch.cells[8] else { panic!() };
        assert_eq!(&rows.batch.bytes[from as usize..to as usize], b"t5");
    }

    #[test]
    fn rows_that_go_back_have_no_time_or_no_room_are_not_kept() {
        assert!(!KeptRows::new(2).append(&batch(&[1, 3, 2]), usize::MAX));
        let mut rows = KeptRows::new(2);
        assert!(rows.append(&batch(&[5]), usize::MAX));
        assert!(!rows.append(&batch(&[4]), usize::MAX));
        let mut none = batch(&[1]);
        none.cells[1] = ScanCell::Null;
        assert!(!KeptRows::new(2).append(&none, usize::MAX));
        let size = batch(&[1]).size();
        assert!(KeptRows::new(2).append(&batch(&[1]), size));
        assert!(!KeptRows::new(2).append(&batch(&[1]), size - 1));
    }
}

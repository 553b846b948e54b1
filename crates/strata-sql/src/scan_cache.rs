//! Rows of scans that a query repeats.
//!
//! A sub-query that depends on a row of another table begins a scan for each of these rows: SQLite makes no index over virtual
//! tables. From the fourth scan for the same columns and events on, their rows are kept, of all times, if they take little
//! memory. Further scans, also of other times, read the kept rows. If the rows take too much memory, scans go on reading the
//! traces, and a text tells the user what to do, as the query may then take very long.
//!
//! Scans of short times may be much quicker than reading the traces as a whole, of which nobody knows how long it takes before.
//! So it is given up when it has taken about as long as the query has taken without it, and tried again after twice as many
//! scans.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use strata_ctf::read::TimeRange;

use crate::catalog::Source;
use crate::row_batch::{RowBatch, ScanCell};

/// Number of scans before rows are kept.
const SCANS_BEFORE: u32 = 3;
/// The least time that reading all rows may take.
const PASS_TIME: Duration = Duration::from_millis(300);
/// The most kinds of rows whose scans are counted. Those of further ones read the traces.
const KINDS_MAX: usize = 1 << 10;
/// The most memory for all kept rows \[byte\].
const KEPT_BYTES: usize = if cfg!(test) { 256 << 10 } else { 64 << 20 };
/// Number of scans of one query after which the user is told that the query scans repeatedly.
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
    /// By reading the traces of all times, to keep the rows, which may take so many bytes and so long.
    TracesToKeep(usize, Duration),
    Kept(Arc<KeptRows>),
}

/// What came of reading the traces of all times.
#[derive(Debug)]
pub(crate) enum ReadRows {
    All(Arc<KeptRows>),
    TooMany,
    /// It has taken this time, and was given up.
    Late(Duration),
}

#[derive(Debug)]
enum Known {
    /// Number of scans so far, and how many there are before all rows are read.
    Scans(u32, u32),
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
    /// Time of the passes that were given up.
    in_vain: Duration,
}

/// The kept rows of a database.
#[derive(Debug)]
pub(crate) struct ScanCache(Mutex<Seen>);

impl Default for ScanCache {
    fn default() -> ScanCache {
        let (known, begin) = (HashMap::new(), Instant::now());
        ScanCache(Mutex::new(Seen { known, bytes: 0, scans: 0, begin, in_vain: Duration::ZERO }))
    }
}

impl ScanCache {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins another query, or ends the present one: the memory of what an earlier one has repeated is free.
    pub(crate) fn begin_query(&self) {
        *self.seen() = ScanCache::default().0.into_inner().unwrap_or_else(PoisonError::into_inner);
    }

    /// Counts a scan, and says how to get its rows.
    pub(crate) fn begin_scan(&self, wanted: &RowsWanted) -> RowsFrom {
        let mut seen = self.seen();
        seen.scans += 1;
        let room = KEPT_BYTES.saturating_sub(seen.bytes);
        let time = pass_time(seen.begin.elapsed().saturating_sub(seen.in_vain));
        let is_full = seen.known.len() >= KINDS_MAX;
        let known = match seen.known.get_mut(wanted) {
            Some(known) => known,
            None if is_full => return RowsFrom::Traces,
            None => seen.known.entry(wanted.clone()).or_insert(Known::Scans(0, SCANS_BEFORE)),
        };
        match known {
            Known::Rows(rows) => {
                let rows = Arc::clone(rows);
                seen.scans -= 1;
                RowsFrom::Kept(rows)
            }
            Known::Scans(scans, before) if *scans >= *before => RowsFrom::TracesToKeep(room, time),
            Known::Scans(scans, _) => {
                *scans += 1;
                RowsFrom::Traces
            }
            Known::TooMany => RowsFrom::Traces,
        }
    }

    /// Keeps rows of all times, if they could be read.
    pub(crate) fn keep(&self, wanted: &RowsWanted, rows: &ReadRows) {
        let mut seen = self.seen();
        let known = match rows {
            ReadRows::All(rows) => {
                seen.bytes += rows.batch.size();
                Known::Rows(Arc::clone(rows))
            }
            ReadRows::TooMany => Known::TooMany,
            ReadRows::Late(time) => {
                seen.in_vain += *time;
                let scans = match seen.known.get(wanted) {
                    Some(Known::Scans(scans, _)) => *scans,
                    _ => SCANS_BEFORE,
                };
                // The scan that goes on by reading the traces is one of them.
                let scans = scans.saturating_add(1);
                Known::Scans(scans, scans.saturating_mul(2))
            }
        };
        seen.known.insert(wanted.clone(), known);
    }

    /// Returns how often the present query has read the traces, if that is worth telling.
    pub(crate) fn scans_to_tell(&self) -> Option<u64> {
        let seen = self.seen();
        let is_long = seen.scans >= SCANS_TOLD && seen.begin.elapsed() >= TIME_TOLD;
        is_long.then_some(seen.scans)
    }
}

/// Returns how long reading all rows may take, in a query that has taken `before` without it.
#[cfg(not(test))]
fn pass_time(before: Duration) -> Duration {
    before.saturating_mul(2).saturating_add(PASS_TIME)
}

/// The same for tests, which do not depend on time: a time that is always enough, unless a test has set another.
#[cfg(test)]
fn pass_time(_: Duration) -> Duration {
    TEST_TIME.get().unwrap_or(PASS_TIME * 10_000)
}

#[cfg(test)]
std::thread_local! {
    pub(crate) static TEST_TIME: std::cell::Cell<Option<Duration>> = const { std::cell::Cell::new(None) };
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

    fn wanted(table: usize) -> RowsWanted {
        RowsWanted { table, columns: vec![Source::Name], classes: None, has_numbers: false }
    }

    #[test]
    fn all_rows_are_read_after_some_scans_and_again_after_twice_as_many_if_that_was_late() {
        let (cache, x) = (ScanCache::default(), wanted(1));
        let late = ReadRows::Late(Duration::from_secs(1));
        let mut tried = Vec::new();
        for scan in 0..40 {
            if let RowsFrom::TracesToKeep(room, _) = cache.begin_scan(&x) {
                assert_eq!(room, KEPT_BYTES);
                cache.keep(&x, &late);
                tried.push(scan);
            }
        }
        assert_eq!(tried, [3, 8, 18, 38]);
        assert_eq!(cache.seen().in_vain, Duration::from_secs(4));
        let mut rows = KeptRows::new(2);
        assert!(rows.append(&batch(&[1]), usize::MAX));
        let size = rows.batch.size();
        cache.keep(&x, &ReadRows::All(Arc::new(rows)));
        assert!(matches!(cache.begin_scan(&x), RowsFrom::Kept(_)));
        // What has its rows elsewhere has its own count, and what room is left.
        let y = wanted(2);
        let from: Vec<RowsFrom> = (0..4).map(|_| cache.begin_scan(&y)).collect();
        assert!(matches!(from[2], RowsFrom::Traces));
        assert!(matches!(from[3], RowsFrom::TracesToKeep(room, _) if room == KEPT_BYTES - size));
        cache.keep(&y, &ReadRows::TooMany);
        assert!((0..9).all(|_| matches!(cache.begin_scan(&y), RowsFrom::Traces)));
        cache.begin_query();
        assert!(matches!(cache.begin_scan(&x), RowsFrom::Traces));
    }

    #[test]
    fn kinds_of_rows_that_are_counted_are_limited() {
        let cache = ScanCache::default();
        for kind in 0..KINDS_MAX + 5 {
            for _ in 0..3 {
                assert!(matches!(cache.begin_scan(&wanted(kind)), RowsFrom::Traces));
            }
        }
        assert_eq!(cache.seen().known.len(), KINDS_MAX);
        assert!(matches!(cache.begin_scan(&wanted(KINDS_MAX)), RowsFrom::Traces));
        assert!(matches!(cache.begin_scan(&wanted(0)), RowsFrom::TracesToKeep(..)));
    }
}

//! Limits the rows of a report on threads or processes to the largest ones.

use std::cmp::Reverse;

use strata_report::Label;
use strata_timeline::ThreadId;

/// The most rows of a report. One more row stands for all others.
pub(super) const ROWS_MAX: usize = 1 << 17;

/// A choice of the largest rows, and the number of all others.
#[derive(Clone, Debug)]
pub(super) struct RowLimit {
    /// The size of each row, by [`ThreadId::index`]; 0 where there is no row.
    sizes: Vec<u64>,
    /// The smallest row that is kept; `None` if all rows are.
    least: Option<(u64, Reverse<usize>)>,
    /// The number of rows that are not kept.
    pub others: usize,
}

impl RowLimit {
    /// Chooses the `most` largest rows. `sizes`: the size of each thread's row, by [`ThreadId::index`].
    pub fn of(sizes: Vec<u64>, most: usize) -> RowLimit {
        let rows = sizes.iter().enumerate().filter(|(_, &size)| size > 0);
        let mut all: Vec<_> = rows.map(|(index, &size)| (size, Reverse(index))).collect();
        let others = all.len().saturating_sub(most.max(1));
        let least = (others > 0).then(|| *all.select_nth_unstable(others).1);
        RowLimit { sizes, least, others }
    }

    /// Returns true if the thread or process is in the report, in a row of its own or in that of all others.
    pub fn is_a_row(&self, of: ThreadId) -> bool {
        self.sizes.get(of.index()).is_some_and(|&size| size > 0)
    }

    /// Returns the thread or process if it has a row of its own, or `None` for the row of all others.
    pub fn row(&self, of: ThreadId) -> Option<ThreadId> {
        let size = self.sizes.get(of.index()).copied().unwrap_or_default();
        let is_kept = self.least.is_none_or(|least| (size, Reverse(of.index())) >= least);
        is_kept.then_some(of)
    }

    /// Returns the label of the row of all others.
    pub fn label(&self) -> Label {
        Label { process: "others".to_owned(), processes: self.others, ..Label::default() }
    }
}

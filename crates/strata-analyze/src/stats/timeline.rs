//! The number of records over time, in columns.

use super::TraceSpan;

/// The most columns of a timeline.
pub(super) const COLUMNS: usize = 72;

/// The number of records in each of the equal parts of a span.
///
/// The length of a part is 1, 2 or 5 times a power of ten \[ns\], and parts begin at multiples of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeColumns {
    /// The begin of the first column \[ns since 1970\].
    pub from: i64,
    /// The length of each column \[ns\].
    pub width: u64,
    /// The number of records in each column; 1 to 72 columns.
    pub records: Vec<u64>,
}

impl TimeColumns {
    /// Returns empty columns that cover a span.
    #[must_use]
    pub fn over(span: TraceSpan) -> TimeColumns {
        let mut width = 1;
        while parts(span, width) > COLUMNS as u64 {
            width = next_width(width);
        }
        // The begin of the part that has the first moment may be earlier than any time in 64 bits.
        let from = i128::from(span.from).div_euclid(i128::from(width)) * i128::from(width);
        let from = i64::try_from(from).unwrap_or(i64::MIN);
        let columns = span.to.max(from).abs_diff(from) / width + 1;
        let columns = usize::try_from(columns).unwrap_or(COLUMNS).clamp(1, COLUMNS);
        TimeColumns { from, width, records: vec![0; columns] }
    }

    /// Returns the column of a time. The first and the last column also have all times outside.
    #[must_use]
    pub fn column(&self, time: i64) -> usize {
        if time <= self.from {
            return 0;
        }
        let column = time.abs_diff(self.from) / self.width.max(1);
        usize::try_from(column).unwrap_or(usize::MAX).min(self.records.len().saturating_sub(1))
    }

    /// Returns the first and the last time of a column. The first and the last column reach to the ends of time.
    pub(super) fn bounds(&self, column: usize) -> (i64, i64) {
        let begin = |column: usize| {
            let at = i128::from(self.from) + i128::from(self.width) * column as i128;
            i64::try_from(at).unwrap_or(i64::MAX)
        };
        let from = if column == 0 { i64::MIN } else { begin(column) };
        let last = column + 1 >= self.records.len();
        (from, if last { i64::MAX } else { begin(column + 1).saturating_sub(1) })
    }

    /// Adds the counts of columns for the same span.
    pub(super) fn add(&mut self, records: &[u64]) {
        for (sum, more) in self.records.iter_mut().zip(records) {
            *sum = sum.saturating_add(*more);
        }
    }

    /// Returns the end of the last column \[ns since 1970\].
    #[must_use]
    pub fn to(&self) -> i64 {
        let to = i128::from(self.from) + i128::from(self.width) * self.records.len() as i128;
        i64::try_from(to).unwrap_or(i64::MAX)
    }
}

/// Returns the number of columns of this width that a span touches.
fn parts(span: TraceSpan, width: u64) -> u64 {
    let part = |time: i64| i128::from(time).div_euclid(i128::from(width));
    // Of times of 64 bits: below 2^65.
    u64::try_from(part(span.to.max(span.from)) - part(span.from) + 1).unwrap_or(u64::MAX)
}

/// Returns the next width in the series 1, 2, 5, 10, 20, 50 …
fn next_width(width: u64) -> u64 {
    let mut unit: u64 = 1;
    while width / unit >= 10 {
        unit *= 10;
    }
    // Below 10^19: 72 parts of 5 * 10^17 hold all of 64 bits.
    match width / unit {
        2 => unit.saturating_mul(5),
        digit => width.saturating_mul(if digit == 5 || digit == 1 { 2 } else { 10 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(from: i64, to: i64) -> TimeColumns {
        TimeColumns::over(TraceSpan { from, to })
    }

    #[test]
    fn timeline_has_round_parts_and_enough_of_them() {
        let widths: Vec<u64> =
            std::iter::successors(Some(1), |width| Some(next_width(*width))).take(8).collect();
        assert_eq!(widths, [1, 2, 5, 10, 20, 50, 100, 200]);
        for nanos in [100, 12_345, 1_000_000_007, 3_600_000_000_000, i64::MAX - 5] {
            let timeline = over(5, nanos + 5);
            let columns = timeline.records.len();
            assert!((28..=COLUMNS).contains(&columns), "{nanos}: {columns}");
            assert!(timeline.from <= 5 && timeline.to() > nanos.saturating_add(4));
            assert_eq!(timeline.from.rem_euclid(timeline.width as i64), 0);
        }
    }

    #[test]
    fn timeline_of_one_moment_has_one_part() {
        let timeline = over(77, 77);
        assert_eq!(timeline, TimeColumns { from: 77, width: 1, records: vec![0] });
        assert_eq!(timeline.column(77), 0);
        assert_eq!(timeline.bounds(0), (i64::MIN, i64::MAX));
    }

    #[test]
    fn column_and_bounds_agree_at_every_border() {
        for timeline in [over(-1234, 98_765), over(0, 71), over(i64::MIN, i64::MAX)] {
            for column in 0..timeline.records.len() {
                let (from, to) = timeline.bounds(column);
                assert_eq!(timeline.column(from), column, "{timeline:?}");
                assert_eq!(timeline.column(to), column, "{timeline:?}");
            }
        }
    }

    #[test]
    fn malicious_times_outside_of_the_span_are_in_the_parts_at_its_ends() {
        let timeline = over(1000, 2000);
        assert_eq!(timeline.column(i64::MIN), 0);
        assert_eq!(timeline.column(i64::MAX), timeline.records.len() - 1);
        let backwards = over(5, 3);
        assert_eq!(backwards.records.len(), 1);
    }

    #[test]
    fn wrap_timeline_of_all_time_is_a_timeline() {
        let timeline = over(i64::MIN, i64::MAX);
        assert!(timeline.records.len() <= COLUMNS);
        assert_eq!(timeline.to(), i64::MAX);
    }

    #[test]
    fn add_puts_parts_onto_each_other() {
        let mut timeline = TimeColumns { from: 0, width: 1, records: vec![1, u64::MAX] };
        timeline.add(&[2, 3]);
        assert_eq!(timeline.records, [3, u64::MAX]);
    }
}

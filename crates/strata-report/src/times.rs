//! Statistics of lengths of time: number, sum, extremes and distribution.

use crate::histogram::Histogram;

/// The number, sum, extremes and distribution of lengths of time.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// The number of lengths that were added.
    pub count: u64,
    // All lengths are in ns.
    pub total: u64,
    pub min: u64,
    pub max: u64,
    pub spread: Histogram,
}

impl Times {
    #[inline]
    pub fn add(&mut self, nanos: u64) {
        self.min = if self.count == 0 { nanos } else { self.min.min(nanos) };
        self.max = self.max.max(nanos);
        self.count += 1;
        self.total = self.total.saturating_add(nanos);
        self.spread.add(nanos);
    }

    /// Adds all lengths that `other` has counted.
    pub fn merge(&mut self, other: &Times) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.spread.merge(&other.spread);
    }

    /// Returns the mean \[ns\].
    #[must_use]
    pub fn mean(&self) -> u64 {
        self.total.checked_div(self.count).unwrap_or(0)
    }

    /// Returns the length that `part` (0 to 1) of all lengths do not exceed \[ns\].
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        self.spread.quantile(part).unwrap_or(0).clamp(self.min, self.max)
    }
}

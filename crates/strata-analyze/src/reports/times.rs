//! Lengths of time that are counted: how many, how long, and how they are spread.

use super::histogram::Histogram;

/// Some lengths of time.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Lengths of time that were added.
    pub count: u64,
    /// All together \[ns\].
    pub total: u64,
    /// The shortest \[ns\].
    pub min: u64,
    /// The longest \[ns\].
    pub max: u64,
    /// All of them \[ns\].
    pub spread: Histogram,
}

impl Times {
    /// One more.
    pub fn add(&mut self, nanos: u64) {
        self.min = if self.count == 0 { nanos } else { self.min.min(nanos) };
        self.max = self.max.max(nanos);
        self.count += 1;
        self.total = self.total.saturating_add(nanos);
        self.spread.add(nanos);
    }

    /// All of another one.
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

    /// How long one takes, as a rule \[ns\].
    #[must_use]
    pub fn mean(&self) -> u64 {
        self.total.checked_div(self.count).unwrap_or(0)
    }

    /// Such a part of all took no longer than this \[ns\].
    #[must_use]
    pub fn quantile(&self, part: f64) -> u64 {
        self.spread.quantile(part).unwrap_or(0).clamp(self.min, self.max)
    }
}

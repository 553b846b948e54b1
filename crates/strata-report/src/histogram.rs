//! A histogram in bounded memory with a bounded error: each power of two has the same number of buckets.

/// The number of buckets for each power of two, as a power of two.
const BITS: u32 = 5;
const BUCKETS: usize = 1 << BITS;

/// The greatest relative error of a quantile: half a bucket.
pub const QUANTILE_ERROR: f64 = 0.5 / BUCKETS as f64;

/// Counts of values in buckets whose width grows with the value.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Buckets for each power of two. The first element is for values below [`BUCKETS`], each in a bucket of its own.
    octaves: Vec<Option<Box<[u64; BUCKETS]>>>,
}

#[inline]
fn place(value: u64) -> (usize, usize) {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    let is_first = value >> BITS == 0;
    let octave = if is_first { 0 } else { shift as usize + 1 };
    (octave, (value >> shift) as usize & (BUCKETS - 1))
}

/// Returns the first value of a bucket, and the number of different values in it.
fn bounds(octave: usize, bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    match octave.checked_sub(1) {
        None => (bucket, 1),
        Some(shift) => ((bucket + BUCKETS as u64) << shift, 1 << shift),
    }
}

impl Histogram {
    #[inline]
    pub fn add(&mut self, value: u64) {
        let (octave, bucket) = place(value);
        if self.octaves.len() <= octave {
            self.octaves.resize(octave + 1, None);
        }
        let Some(slot) = self.octaves.get_mut(octave) else { return };
        let buckets = slot.get_or_insert_with(|| Box::new([0; BUCKETS]));
        if let Some(count) = buckets.get_mut(bucket) {
            *count = count.saturating_add(1);
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if self.octaves.len() < other.octaves.len() {
            self.octaves.resize(other.octaves.len(), None);
        }
        for (own, other) in self.octaves.iter_mut().zip(&other.octaves) {
            let Some(other) = other else { continue };
            let own = own.get_or_insert_with(|| Box::new([0; BUCKETS]));
            for (own, other) in own.iter_mut().zip(other.iter()) {
                *own = own.saturating_add(*other);
            }
        }
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets().map(|(_, _, count)| count).fold(0, u64::saturating_add)
    }

    /// Returns the value below which `part` (0 to 1) of all values are, within [`QUANTILE_ERROR`]; `None` without
    /// values.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let wanted = (self.count() as f64 * part.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut below = 0_u64;
        for (first, width, count) in self.buckets() {
            below = below.saturating_add(count);
            if below >= wanted {
                return Some(first + width / 2);
            }
        }
        None
    }

    /// Returns the buckets that have values: the first value of each, the number of different values in it, and the
    /// count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.octaves.iter().enumerate().flat_map(|(octave, buckets)| {
            let buckets = buckets.iter().flat_map(|buckets| buckets.iter().enumerate());
            buckets.filter(|(_, &count)| count > 0).map(move |(bucket, &count)| {
                let (first, width) = bounds(octave, bucket);
                (first, width, count)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_bucket_that_has_it() {
        let powers = (0..64).map(|bit| 1_u64 << bit);
        let around = powers.flat_map(|power| [power - 1, power, power + 1, power + power / 3]);
        for value in around.chain([0, u64::MAX]) {
            let (octave, bucket) = place(value);
            let (first, width) = bounds(octave, bucket);
            assert!(first <= value && value - first < width, "{value}: {first} {width}");
            assert!(width == 1 || (width / 2) as f64 / first as f64 <= QUANTILE_ERROR, "{value}");
        }
    }

    #[test]
    fn quantiles_of_known_values_are_within_the_error_that_is_reported() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (1..=100_000_u64).for_each(|value| histogram.add(value * 1000));
        for (part, wanted) in [(0.0, 1000.0), (0.5, 5e7), (0.99, 9.9e7), (1.0, 1e8)] {
            let found = histogram.quantile(part).unwrap() as f64;
            assert!((found - wanted).abs() <= wanted * QUANTILE_ERROR, "{part}: {found}");
        }
    }

    #[test]
    fn merged_histograms_are_that_of_all_values() {
        let (mut one, mut other, mut both) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for value in 0..5000_u64 {
            let value = value * value;
            if value % 3 == 0 { &mut one } else { &mut other }.add(value);
            both.add(value);
        }
        one.merge(&other);
        let all = |histogram: &Histogram| histogram.buckets().collect::<Vec<_>>();
        assert_eq!(all(&one), all(&both));
        assert_eq!((one.count(), both.count()), (5000, 5000));
    }
}

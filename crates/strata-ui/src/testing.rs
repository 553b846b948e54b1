//! Helpers that several tests share.

use crate::item::{Item, Kind, Merger};

/// Generator of pseudo-random numbers, which are the same in each run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }

    /// Makes consecutive slices of very different lengths, some before 1970.
    pub(crate) fn slices(&mut self, count: usize) -> Vec<Item> {
        let mut time = -5000;
        let mut slices = Vec::new();
        for _ in 0..count {
            let bits = self.below(18);
            let length = self.below(1 << bits);
            if self.below(3) == 0 {
                time += i64::try_from(self.below(2000)).unwrap();
            }
            let kind = Kind::ALL[usize::try_from(self.below(8)).unwrap()];
            let name = u32::try_from(self.below(20)).unwrap();
            let to = time + i64::try_from(length).unwrap();
            slices.push(Item::slice(time, to, kind, name, self.below(1 << 33)));
            time = to;
        }
        slices
    }
}

/// Returns the items of a level, made from those of a finer level.
pub(crate) fn merge(items: &[Item], level: u8) -> Vec<Item> {
    let mut merger = Merger::new(level);
    let mut merged = Vec::new();
    for item in items {
        let (first, second) = merger.push(item);
        merged.extend(first);
        merged.extend(second);
    }
    merged.extend(merger.finish());
    merged
}

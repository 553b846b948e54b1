//! Helpers that several tests share.

use crate::model::item::{Item, Kind, Merger};
use strata_random::Random;

/// Makes consecutive slices of very different lengths, some before 1970.
pub(crate) fn slices(random: &mut Random, count: usize) -> Vec<Item> {
    let mut time = -5000;
    let mut slices = Vec::new();
    for _ in 0..count {
        let bits = random.below(18);
        let length = random.below(1_i64 << bits);
        if random.below(3) == 0 {
            time += random.below(2000_i64);
        }
        let kind = Kind::ALL[random.below(8_usize)];
        let name = random.below(20_u32);
        let to = time + length;
        slices.push(Item::slice(time, to, kind, name, random.below(1 << 33)));
        time = to;
    }
    slices
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

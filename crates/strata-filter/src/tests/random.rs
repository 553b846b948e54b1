//! Random choices for tests. The seed is printed, and is taken from `STRATA_TEST_SEED` if that is set.

use std::time::{SystemTime, UNIX_EPOCH};

/// A random number generator, xorshift64*.
pub struct Random(u64);

impl Random {
    pub fn new(test: &str) -> Random {
        let from_clock = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
            now.as_nanos() as u64
        };
        let set = std::env::var("STRATA_TEST_SEED").ok().and_then(|text| text.parse().ok());
        let seed = set.unwrap_or_else(from_clock) | 1;
        println!("{test}: STRATA_TEST_SEED={seed}");
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 11) % limit as u64) as usize
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

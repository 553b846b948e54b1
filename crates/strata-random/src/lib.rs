//! Random numbers for tests. Only `[dev-dependencies]` and `tests/` have this crate: nothing here is for secrets.
//!
//! A randomised test either takes another seed in each run ([`Random::new`]) or the same one ([`Random::from_seed`]). The first
//! kind prints its seed, so that the output of a failed test has it, and `STRATA_SEED` repeats the run:
//!
//! ```text
//! STRATA_SEED=1764519871 cargo test -p strata-filter malicious_texts
//! ```
//!
//! A test of many rounds that can be repeated one by one takes [`seed`] once and [`Random::from_seed`] of seed and round: seeds that
//! are neighbours give numbers that have nothing in common.

use std::time::SystemTime;

/// Environment variable with the seed of a run.
const SEED: &str = "STRATA_SEED";

/// Returns the seed of this run, from `STRATA_SEED`, else from the clock, and prints it.
///
/// # Panics
/// `STRATA_SEED` is not a number: another seed would repeat nothing.
#[must_use]
pub fn seed() -> u64 {
    let seed = match std::env::var(SEED) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{SEED}='{text}' is not a number of 64 bits"))
        }
        Err(_) => SystemTime::UNIX_EPOCH.elapsed().map_or(1, |now| now.as_nanos() as u64),
    };
    println!("{SEED}={seed}");
    seed
}

/// A generator of random numbers: xorshift64* (Vigna 2016), begun by splitmix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator with the seed of this run; see [`seed`].
    #[must_use]
    #[allow(clippy::new_without_default, reason = "two of them have different numbers")]
    pub fn new() -> Random {
        Random::from_seed(seed())
    }

    /// Creates a generator whose numbers are the same each time.
    #[must_use]
    pub fn from_seed(seed: u64) -> Random {
        let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // The state must not be 0.
        Random((mixed ^ (mixed >> 31)).max(1))
    }

    /// Returns 64 random bits.
    #[allow(clippy::should_implement_trait, reason = "there is always a next number")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number from 0 to `limit` - 1, and 0 if the limit is 0. Limits are below 2^48, as the low bits are less
    /// random.
    pub fn below<N: Limit>(&mut self, limit: N) -> N {
        N::from_bits((self.next() >> 11) % limit.to_bits().max(1))
    }

    /// Returns true once in `one_in` times.
    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    /// Returns a number from 0 to less than 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns one of the choices, of which there must be one.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}

/// An integer type that can limit [`Random::below`].
pub trait Limit {
    /// Returns the limit, which is not negative.
    fn to_bits(self) -> u64;
    /// Returns a number below a limit of this type.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! limits {
    ($($integer:ty),*) => {$(
        impl Limit for $integer {
            fn to_bits(self) -> u64 {
                u64::try_from(self).expect("a limit that is not negative")
            }

            fn from_bits(bits: u64) -> $integer {
                <$integer>::try_from(bits).expect("a number below a limit of its type")
            }
        }
    )*};
}

limits!(u8, u16, u32, u64, usize, i32, i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_neighbouring_seeds_have_nothing_in_common() {
        let bits = |seed| {
            let mut random = Random::from_seed(seed);
            (0..100).map(|_| random.next()).collect::<Vec<_>>()
        };
        assert_eq!(bits(7), bits(7));
        for seed in [0, 1, 7, u64::MAX] {
            let other = bits(seed.wrapping_add(1));
            let pairs = bits(seed).into_iter().zip(other);
            let same: u32 = pairs.map(|(one, other)| (!(one ^ other)).count_ones()).sum();
            // Of 6,400 bits: half, and six standard deviations.
            assert!((2960..=3440).contains(&same), "{seed}: {same}");
        }
    }

    #[test]
    fn below_has_each_number_about_as_often() {
        let mut random = Random::from_seed(1);
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[random.below(7_usize)] += 1;
        }
        assert!(counts.iter().all(|count| (9_400..=10_600).contains(count)), "{counts:?}");
        assert_eq!((random.below(1), random.below(0_u8)), (0, 0));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.unit())));
        let picked: Vec<char> = (0..100).map(|_| random.pick(&['a', 'b'])).collect();
        assert!(picked.contains(&'a') && picked.contains(&'b'));
    }
}

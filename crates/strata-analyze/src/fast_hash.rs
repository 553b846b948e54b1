//! A fast hash of one number, since nearly every record needs a lookup.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Makes hashers for one number. They use a random seed, so that the author of a trace cannot cause collisions.
#[derive(Clone, Debug)]
pub struct Mix {
    by: [u64; 2],
}

impl Default for Mix {
    fn default() -> Mix {
        let state = RandomState::new();
        Mix { by: [state.hash_one(1), state.hash_one(2) | 1] }
    }
}

impl BuildHasher for Mix {
    type Hasher = Mixed;

    #[inline]
    fn build_hasher(&self) -> Mixed {
        Mixed { by: self.by, value: 0 }
    }
}

/// A hash of [`Mix`].
pub struct Mixed {
    by: [u64; 2],
    value: u64,
}

impl Hasher for Mixed {
    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(number ^ self.value ^ self.by[0]) * u128::from(self.by[1]);
        self.value = product as u64 ^ (product >> 64) as u64;
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.value
    }
}

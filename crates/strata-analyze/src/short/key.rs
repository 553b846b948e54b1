//! Whose an event record is: a thread, or, where that is not said, whoever runs on the CPU.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};

/// A thread of a trace, or a CPU of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Twice the trace's number; one more for a CPU.
    space: u32,
    number: i64,
}

impl Key {
    pub(super) fn thread(trace: usize, tid: i64) -> Key {
        Key { space: (trace as u32) << 1, number: tid }
    }

    pub(super) fn cpu(trace: usize, cpu: u64) -> Key {
        Key { space: (trace as u32) << 1 | 1, number: cpu as i64 }
    }

    pub(super) fn is_cpu(self) -> bool {
        self.space & 1 == 1
    }

    pub(super) fn trace(self) -> usize {
        (self.space >> 1) as usize
    }

    /// The thread's id.
    pub(super) fn tid(self) -> Option<i64> {
        (!self.is_cpu()).then_some(self.number)
    }
}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64((self.number as u64) ^ u64::from(self.space).rotate_left(48));
    }
}

/// Hashes one number, fast, and not as whoever wrote the trace could know before.
#[derive(Clone, Debug)]
pub(super) struct Mix {
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
pub(super) struct Mixed {
    by: [u64; 2],
    value: u64,
}

impl Hasher for Mixed {
    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(number ^ self.value ^ self.by[0]) * u128::from(self.by[1]);
        self.value = product as u64 ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.value
    }
}

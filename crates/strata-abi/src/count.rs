//! `strata/abi/count.h`: aggregates in the kernel.
//!
//! The tracer writes [`Count`] before a program is loaded, and reads keys and values of the map `counts` at any time.

use crate::kernel::Test;

/// Number of parts that a key has at most.
pub const KEYS_MAX: usize = 4;
/// Size of the text of one part of a key \[byte\].
pub const PART_BYTES: usize = 16;

/// [`Test::operand`] of a part: the number of the event's class.
pub const NAME: u8 = 64;
/// [`Test::operand`] of a part: the time from the entry of a system call to its exit \[ns\].
pub const DURATION: u8 = 65;
/// [`Test::operand`] of a part: the real user id.
pub const UID: u8 = 66;
/// [`Test::operand`] of a part: the real group id.
pub const GID: u8 = 67;
/// [`Test::operand`] of a part that the event does not have.
pub const ABSENT: u8 = 255;

/// [`Count::flags`]: system calls are counted when they return.
pub const PAIRED: u32 = 1;
/// [`Count::flags`]: the event has a value.
pub const VALUE: u32 = 2;
/// [`Count::flags`]: values are counted by powers of two.
pub const SPREAD: u32 = 4;
/// [`Count::flags`]: values may be negative.
pub const SIGNED: u32 = 8;

/// Buckets of values: `[0]` negative ones, `[1]` 0, and `[2 + n]` those from 2^n on.
pub const BUCKETS: usize = 66;

/// `struct strata_abi_count_part`: a part of the key, or the value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The operand, without a comparison.
    pub what: Test,
    /// If 1, the operand is a field of a system call's exit.
    pub at_exit: u64,
}

/// `struct strata_abi_count`: the constant `count` of a program.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of parts of the key.
    pub nr_keys: u32,
    /// [`PAIRED`], [`VALUE`], [`SPREAD`], [`SIGNED`].
    pub flags: u32,
    /// The parts of the key.
    pub key: [Part; KEYS_MAX],
    /// The value, of programs with [`VALUE`].
    pub value: Part,
}

/// `struct strata_abi_count_key`: a key of the map `counts`, which has the first parts only.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key {
    /// Bit i is set if the event has no part i; the part is 0 then.
    pub absent: u64,
    /// Numbers, or texts of [`PART_BYTES`] bytes.
    pub part: [[u64; 2]; KEYS_MAX],
}

/// `struct strata_abi_count_value`: a value of the map `counts` of one CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Number of events.
    pub count: u64,
    /// Sum of their values, modulo 2^64.
    pub sum: u64,
    /// Complement of the least value. Of [`SIGNED`] values, the highest bit is changed first.
    pub least: u64,
    /// The greatest value. Of [`SIGNED`] values, the highest bit is changed.
    pub most: u64,
    /// Number of values in each bucket.
    pub bucket: [u64; BUCKETS],
}

impl Default for Value {
    fn default() -> Value {
        Value { count: 0, sum: 0, least: 0, most: 0, bucket: [0; BUCKETS] }
    }
}

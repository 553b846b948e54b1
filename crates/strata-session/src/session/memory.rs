//! Checks that enough memory is available before it is needed: a thread that got none later would end this program.

use std::collections::TryReserveError;
use std::hint::black_box;

/// Allocates and frees `bytes` of memory.
///
/// # Errors
/// There is not enough memory (`ulimit -v`).
pub(crate) fn reserve(bytes: usize) -> Result<(), TryReserveError> {
    let mut memory = Vec::<u8>::new();
    let outcome = memory.try_reserve_exact(bytes);
    // Without this, the compiler would remove the allocation.
    black_box(memory);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_of_more_than_there_can_be_is_refused() {
        assert!(reserve(1 << 20).is_ok());
        // More than x86-64 has addresses, and still a size that a Vec can have.
        assert!(reserve(1 << 60).is_err());
    }
}

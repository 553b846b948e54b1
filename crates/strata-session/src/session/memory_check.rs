//! Checks that enough memory is available before it is needed: a thread that got none later would end this program.

use std::collections::TryReserveError;
use std::hint::black_box;
use std::io;

use crate::error::SessionError;

/// The least memory that must be available at the begin \[byte\]. With less, a thread might get no stack, which would
/// end the program.
const MEMORY_MIN: usize = 32 << 20;

/// Checks that there is enough memory for a session to begin.
///
/// # Errors
/// There is not (`ulimit -v`).
pub(crate) fn reserve_to_begin() -> Result<(), SessionError> {
    reserve(MEMORY_MIN).map_err(|_| SessionError::System {
        what: "reserve 32 MiB of memory (ulimit -v)",
        source: io::ErrorKind::OutOfMemory.into(),
    })
}

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

//! Whether there is memory, before it is needed: who finds none later ends this program.

use std::collections::TryReserveError;
use std::hint::black_box;

/// Takes so much \[byte\], and gives it back.
///
/// # Errors
/// There is not so much (`ulimit -v`).
pub(crate) fn reserve(bytes: usize) -> Result<(), TryReserveError> {
    let mut memory = Vec::<u8>::new();
    let outcome = memory.try_reserve_exact(bytes);
    // What nobody looks at would not be asked for at all.
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

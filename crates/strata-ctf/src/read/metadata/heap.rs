//! Estimates the memory of a schema, which is limited.

/// Returns the memory of an allocation of `bytes`, with the allocator's overhead \[byte\].
pub(crate) fn heap(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=24 => 32,
        _ => bytes.saturating_add(8 + 15) & !15,
    }
}

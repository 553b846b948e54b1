//! How much a filter may be.

/// A filter's text has at most so many bytes.
pub const MAX_LENGTH: usize = 16 * 1024;

/// An expression has at most so many levels of `&&`, `||` and `!` below each other, and its text twice as
/// many parentheses and `!` around one thing.
pub const MAX_DEPTH: usize = 64;

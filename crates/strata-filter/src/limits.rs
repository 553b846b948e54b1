//! Limits on the size and depth of a filter.

/// The greatest length of a filter's text \[byte\].
pub const MAX_LENGTH: usize = 16 * 1024;

/// The greatest nesting depth of `&&`, `||` and `!` in an expression. The text may nest twice as many parentheses and
/// `!`.
pub const MAX_DEPTH: usize = 64;

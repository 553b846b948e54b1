//! What a session may be called: what is a file's name, and no option of a command.

/// Longest name of a session \[byte\].
pub const NAME_BYTES_MAX: usize = 64;

/// Is it one?
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(is_allowed)
        && !name.as_bytes().starts_with(b".")
        && !name.as_bytes().starts_with(b"-")
}

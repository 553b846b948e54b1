//! Names of sessions: valid file names that cannot be taken for options of a command.

/// Longest name of a session \[byte\].
pub const NAME_BYTES_MAX: usize = 64;

/// Returns true if `name` can name a session: it is a safe file name, and cannot be taken for an option.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(is_allowed)
        && !name.as_bytes().starts_with(b".")
        && !name.as_bytes().starts_with(b"-")
}

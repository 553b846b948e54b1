//! Matches process and thread names, with one rule for all commands that select by name.

use crate::pattern::{Pattern, PatternPart};

/// The most bytes of a thread's name that the kernel keeps.
const KEPT_BYTES: usize = 15;

/// Returns whether `wanted`, in which `*` and `?` are wildcards, matches a process, thread, program or script called
/// `name`.
///
/// If `wanted` is longer than the names that the kernel keeps, only that much of both is compared, since the kernel may
/// have cut the name.
#[must_use]
pub fn means_process(wanted: &str, name: &[u8]) -> bool {
    let kept = |bytes: &'_ [u8]| bytes.get(..KEPT_BYTES).unwrap_or(bytes).to_vec();
    let pattern = Pattern::glob(wanted);
    match pattern.parts.as_slice() {
        [PatternPart::Text(text), PatternPart::Any] if text.len() > KEPT_BYTES => {
            kept(text) == kept(name)
        }
        _ => match pattern.exact() {
            Some(text) => kept(text) == kept(name),
            None => pattern.matches(name),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_means_what_begins_with_as_much_as_the_kernel_keeps() {
        for (wanted, name, means) in [
            ("shop", "shop", true),
            ("shop", "shopper", false),
            ("a shop", "a shop", true),
            ("sho?", "shop", true),
            ("*op", "shop", true),
            ("", "shop", false),
            ("", "", true),
            ("fifteen-letters", "fifteen-letters", true),
            ("fifteen-letters-and-more", "fifteen-letters", true),
            ("fifteen-letters-and-*", "fifteen-letters", true),
            ("fifteen-letters", "fifteen-letters-and-more", true),
            ("fifteen-letter", "fifteen-letters", false),
            ("fifteen-lette?", "fifteen-letters", false),
            ("*-and-more", "fifteen-letters-and-more", true),
        ] {
            assert_eq!(means_process(wanted, name.as_bytes()), means, "{wanted} {name}");
        }
    }
}

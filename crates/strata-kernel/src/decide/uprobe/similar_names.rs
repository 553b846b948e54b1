//! Finds names that were perhaps meant.

use strata_filter::distance_within;

const SHOWN: usize = 4;
/// Length of the longest name that is compared \[byte\].
const LONGEST: usize = 256;

/// Returns the names that contain the word, the shortest first, and with `with_slips` those that differ by few letters;
/// each name once.
pub(crate) fn similar<'n>(
    word: &str,
    names: impl Iterator<Item = &'n str>,
    with_slips: bool,
) -> Vec<String> {
    if word.is_empty() || word.len() > LONGEST {
        return vec![];
    }
    let lower = word.to_ascii_lowercase();
    let limit = (word.len() / 3).clamp(1, 4);
    let mut found: Vec<(usize, &str)> = Vec::new();
    for name in names.filter(|name| name.len() <= LONGEST && *name != word) {
        let other = name.to_ascii_lowercase();
        let slips = if with_slips { distance_within(&lower, &other, limit) } else { None };
        if let Some(slips) = slips {
            found.push((slips, name));
        } else if word.len() >= 3 && other.contains(&lower) {
            found.push((limit + name.len(), name));
        }
    }
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(SHOWN).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_finds_slips_first_then_longer_names() {
        let names = ["malloc", "__libc_malloc", "calloc", "free", "_ZN3foo6mallocEv"];
        let found = |word, slips| similar(word, names.iter().copied(), slips);
        assert_eq!(found("maloc", true), ["malloc"]);
        assert_eq!(found("mallok", true), ["malloc", "calloc"]);
        assert_eq!(
            found("Malloc", true),
            ["malloc", "calloc", "__libc_malloc", "_ZN3foo6mallocEv"]
        );
        assert_eq!(found("malloc", false), ["__libc_malloc", "_ZN3foo6mallocEv"]);
        assert!(found("zebra", true).is_empty());
        assert!(found("", true).is_empty());
    }
}

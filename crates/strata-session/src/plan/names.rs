//! Suggestions of similar names, for messages.

use strata_filter::distance_within;

/// Returns suggestions of similar names, for the end of a message.
pub(super) fn near<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> String {
    let word: String = word.chars().take(128).collect();
    let limit = (word.chars().count() / 3).max(1);
    let mut found: Vec<(usize, &str)> = names
        .filter(|name| name.len() <= 128)
        .filter_map(|name| Some((distance_within(&word, name, limit)?, name)))
        .collect();
    found.sort_unstable();
    found.dedup();
    match found.iter().take(3).map(|(_, name)| format!("'{name}'")).collect::<Vec<_>>() {
        names if names.is_empty() => String::new(),
        names => format!(". Did you mean {}?", names.join(" or ")),
    }
}

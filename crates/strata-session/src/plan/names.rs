//! Suggestions of similar names, for messages.

use strata_filter::similar;

/// Returns the names that are similar to `word`, as suggestions for the end of a message.
pub(super) fn near<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> String {
    let found: Vec<String> = similar(word, names).iter().map(|name| format!("'{name}'")).collect();
    match found.is_empty() {
        true => String::new(),
        false => format!(". Did you mean {}?", found.join(" or ")),
    }
}

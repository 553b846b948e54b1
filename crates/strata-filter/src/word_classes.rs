//! Classification of words in a filter.

/// Words with a special meaning, which cannot be bare names or fields without a root.
const KEYWORDS: [&str; 4] = ["and", "or", "not", "in"];
const FUNCTIONS: [&str; 2] = ["has", "exists"];
const SPECIALS: [&str; 3] = ["name", "cpu", "loglevel"];
/// Roots that a path may begin with, each followed by a point.
const ROOTS: [&str; 4] = ["payload", "context", "packet", "header"];

pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// Returns whether the word can only be a field: it begins with a root, or has an element.
pub(crate) fn is_path_only(word: &str) -> bool {
    let root = word.split_once('.').map(|(root, _)| root);
    root.is_some_and(|root| ROOTS.contains(&root)) || word.contains('[') || word.starts_with('$')
}

/// Returns whether the word alone is read as the name of an event.
pub(crate) fn is_bare(word: &str) -> bool {
    let reserved = [&KEYWORDS[..], &FUNCTIONS, &SPECIALS].concat();
    let first = word.chars().next();
    first.is_some_and(|char| begins_word(char) && char != '$')
        && word.chars().all(continues_word)
        && !reserved.contains(&word)
        && !is_path_only(word)
}

pub(crate) fn begins_word(char: char) -> bool {
    char.is_alphabetic() || matches!(char, '_' | '*' | '?' | ':' | '$')
}

pub(crate) fn continues_word(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '*' | '?' | ':' | '.')
}

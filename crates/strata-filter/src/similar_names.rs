//! Finds names that were perhaps meant.

/// The most names that are shown.
const SHOWN: usize = 3;
/// The greatest length of a name that is compared \[byte\], since a trace may have names of any length.
const LONGEST: usize = 128;

/// Returns the names that are most similar to the word, best first, then shortest first; each name once.
#[must_use]
pub fn similar<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut found: Vec<(usize, &str)> = names
        .filter(|name| name.len() <= LONGEST && word.len() <= LONGEST && *name != word)
        .filter_map(|name| Some((likeness(word, name)?, name)))
        .collect();
    found.sort_unstable_by_key(|&(likeness, name)| (likeness, name.len(), name));
    found.dedup();
    found.into_iter().take(SHOWN).map(|(_, name)| name.to_string()).collect()
}

/// Returns how similar two names are, where less is more similar; `None` if they are not.
fn likeness(word: &str, name: &str) -> Option<usize> {
    let last = |text: &str| text.rsplit([':', '.']).next().unwrap_or_default().to_lowercase();
    let (short_word, short_name) = (last(word), last(name));
    if short_word == short_name && !short_word.is_empty() {
        return Some(0);
    }
    // For example, `openat` is the end of `syscall_entry_openat`.
    let ends =
        short_name.strip_suffix(short_word.as_str()).is_some_and(|front| front.ends_with('_'));
    if ends && short_word.len() > 2 {
        return Some(1);
    }
    let limit = (word.chars().count() / 3).max(1);
    let whole = distance_within(&word.to_lowercase(), &name.to_lowercase(), limit);
    whole.or_else(|| distance_within(&short_word, &short_name, limit).map(|distance| distance + 1))
}

/// Returns the distance up to a limit; `None` beyond it, or if all letters differ.
pub fn distance_within(left: &str, right: &str, limit: usize) -> Option<usize> {
    let (nr_left, nr_right) = (left.chars().count(), right.chars().count());
    if nr_left.abs_diff(nr_right) > limit {
        return None;
    }
    let distance = distance(left, right);
    (distance <= limit && distance < nr_left.max(nr_right)).then_some(distance)
}

/// Returns the number of characters to insert, remove, replace or swap with their neighbour. The time is proportional
/// to the product of both lengths.
pub fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before = vec![0; right.len() + 1];
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, char) in left.iter().enumerate() {
        let mut next = vec![index + 1; right.len() + 1];
        for (column, other) in right.iter().enumerate() {
            let exchanged = row[column] + usize::from(char != other);
            let mut least = exchanged.min(row[column + 1] + 1).min(next[column] + 1);
            if index > 0 && column > 0 && *char == right[column - 1] && left[index - 1] == *other {
                least = least.min(before[column - 1] + 1);
            }
            next[column + 1] = least;
        }
        before = std::mem::replace(&mut row, next);
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_finds_slips_and_other_providers() {
        let names = ["len", "length", "comm", "sched:sched_switch", "next_comm"];
        let similar = |word| similar(word, names.iter().copied());
        assert_eq!(similar("lenn"), ["len"]);
        assert_eq!(similar("lne"), ["len"]);
        assert_eq!(similar("LEN"), ["len"]);
        assert_eq!(similar("sched_switch"), ["sched:sched_switch"]);
        assert_eq!(similar("sched_swich"), ["sched:sched_switch"]);
        assert_eq!(similar("nxt_comm"), ["next_comm"]);
        assert_eq!(similar("switch"), ["sched:sched_switch"]);
        assert!(similar("itch").is_empty(), "no whole word");
        assert!(similar("zebra").is_empty());
        assert!(similar("x").is_empty(), "nothing in common");
    }

    #[test]
    fn malicious_names_without_end_are_not_compared() {
        let long = "a".repeat(1 << 20);
        assert!(similar("aaaa", [long.as_str()].into_iter()).is_empty());
        assert!(similar(&long, ["aaaa"].into_iter()).is_empty());
    }

    #[test]
    fn distance_counts_slips() {
        assert_eq!(distance_within("kitten", "sitting", 4), Some(3));
        assert_eq!(distance_within("abc", "abc", 1), Some(0));
        assert_eq!(distance_within("abc", "xyz", 3), None, "nothing in common");
        assert_eq!(distance_within("open", "openat", 1), None);
        assert_eq!(distance("recieve", "receive"), 1, "two letters exchanged");
    }
}

//! Finds names that were perhaps meant, for all messages that suggest some.
//!
//! How near a name is to a word is a number, less for a nearer one. What it is made of depends on what the names are of: a field may
//! be meant by the last part of its path, a function by a part of its name. What all have in common is here: what a slip is, how many
//! of them are likely, which names are too long to compare, and that each name is suggested once, the nearest first.
//!
//! | names of | function |
//! |---|---|
//! | fields, labels, events of filters, sessions, channels | [`similar`] |
//! | functions, probes | [`similar_or_longer`] |
//! | others, with a ranking of their own | [`Misspelt`] and [`nearest`] |

/// The most names that are shown.
const SHOWN: usize = 3;
/// The greatest length of a name that is compared \[byte\], since a trace may have names of any length.
const LONGEST: usize = 256;
/// The most slips that are likely in one word.
const SLIPS_MAX: usize = 4;
/// The least length of a word that is looked for within names \[byte\].
const PART_MIN: usize = 3;

/// A word that is no name, and is compared with names. Upper and lower case are the same.
#[derive(Clone, Debug)]
pub struct Misspelt {
    word: String,
    /// The most slips with which a name is still similar.
    limit: usize,
}

impl Misspelt {
    /// Prepares a word. One letter in three may be wrong, and at least one.
    #[must_use]
    pub fn new(word: &str) -> Misspelt {
        let word = if word.len() > LONGEST { String::new() } else { word.to_lowercase() };
        let limit = (word.chars().count() / 3).clamp(1, SLIPS_MAX);
        Misspelt { word, limit }
    }

    /// Returns the number of slips by which the word differs from a name; `None` if there are too many, if all letters
    /// differ, or if one of both is empty or too long.
    #[must_use]
    pub fn slips(&self, name: &str) -> Option<usize> {
        if self.word.is_empty() || name.len() > LONGEST {
            return None;
        }
        distance_within(&self.word, &name.to_lowercase(), self.limit)
    }

    /// Returns whether the word is a part of the name.
    #[must_use]
    pub fn is_part_of(&self, name: &str) -> bool {
        let is_compared = self.word.len() >= PART_MIN && name.len() <= LONGEST;
        is_compared && name.to_lowercase().contains(&self.word)
    }

    /// Returns the number of slips, and for a name that contains the word a larger number, the larger the longer it is.
    #[must_use]
    pub fn slips_or_part(&self, name: &str) -> Option<usize> {
        self.slips(name).or_else(|| self.is_part_of(name).then(|| self.limit + name.len()))
    }
}

/// Returns the names with the least numbers, and of equal ones the first in their order; each name once.
#[must_use]
pub fn nearest<N: Ord>(mut found: Vec<(usize, N)>, shown: usize) -> Vec<N> {
    found.sort_unstable();
    let mut names: Vec<N> = Vec::new();
    for (_, name) in found {
        if names.len() == shown {
            break;
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns the names that are most similar to the word, best first, then shortest first; each name once.
#[must_use]
pub fn similar<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let whole = Misspelt::new(word);
    let last = Misspelt { word: last_part(&whole.word).to_owned(), limit: whole.limit };
    let likeness = |name: &str| {
        let part = last_part(name).to_lowercase();
        if part == last.word && !part.is_empty() {
            return Some(0);
        }
        // For example, `openat` is the end of `syscall_entry_openat`.
        let front = part.strip_suffix(last.word.as_str());
        if front.is_some_and(|front| front.ends_with('_')) && last.word.len() >= PART_MIN {
            return Some(1);
        }
        whole.slips(name).or_else(|| Some(last.slips(&part)? + 1))
    };
    let compared = names.filter(|name| name.len() <= LONGEST && *name != word);
    let found = compared.filter_map(|name| Some((likeness(name)?, (name.len(), name))));
    nearest(found.collect(), SHOWN).into_iter().map(|(_, name)| name.to_owned()).collect()
}

/// Returns the names that contain the word, the shortest first, and before them with `with_slips` those that differ by few
/// letters; each name once.
#[must_use]
pub fn similar_or_longer<'n>(
    word: &str,
    names: impl Iterator<Item = &'n str>,
    with_slips: bool,
) -> Vec<String> {
    const SHOWN: usize = 4;
    let misspelt = Misspelt::new(word);
    let rank = |name: &str| match with_slips {
        true => misspelt.slips_or_part(name),
        false => misspelt.is_part_of(name).then_some(name.len()),
    };
    let found = names.filter(|name| *name != word).filter_map(|name| Some((rank(name)?, name)));
    nearest(found.collect(), SHOWN).into_iter().map(str::to_owned).collect()
}

/// Returns the last part of a path of names.
fn last_part(name: &str) -> &str {
    name.rsplit([':', '.']).next().unwrap_or_default()
}

/// Returns the distance up to a limit; `None` beyond it, or if all letters differ. The time is proportional to the limit and
/// the shorter length.
#[must_use]
pub fn distance_within(left: &str, right: &str, limit: usize) -> Option<usize> {
    let (left, right) = (letters(left), letters(right));
    if left.len().abs_diff(right.len()) > limit {
        return None;
    }
    let distance = bounded(&left, &right, limit);
    (distance <= limit && distance < left.len().max(right.len())).then_some(distance)
}

/// Returns the number of characters to insert, remove, replace or swap with their neighbour. The time is proportional
/// to the product of both lengths.
#[must_use]
pub fn distance(left: &str, right: &str) -> usize {
    let (left, right) = (letters(left), letters(right));
    bounded(&left, &right, left.len().max(right.len()))
}

fn letters(text: &str) -> Vec<char> {
    text.chars().collect()
}

/// Returns the distance if it is at most `limit`, otherwise more than `limit`. What the first characters of both need is more than
/// the difference of their numbers, so that only pairs of prefixes of nearly the same length are looked at.
fn bounded(left: &[char], right: &[char], limit: usize) -> usize {
    let beyond = limit + 1;
    let mut before = vec![beyond; right.len() + 1];
    let mut row: Vec<usize> = (0..=right.len()).map(|column| column.min(beyond)).collect();
    let mut next = before.clone();
    for (index, char) in left.iter().enumerate() {
        let (first, end) = (index.saturating_sub(limit), right.len().min(index + limit + 1));
        next.fill(beyond);
        next[0] = beyond.min(index + 1);
        for column in first..end {
            let other = right[column];
            let exchanged = row[column] + usize::from(*char != other);
            let mut least = exchanged.min(row[column + 1] + 1).min(next[column] + 1);
            if index > 0 && column > 0 && *char == right[column - 1] && left[index - 1] == other {
                least = least.min(before[column - 1] + 1);
            }
            next[column + 1] = least.min(beyond);
        }
        std::mem::swap(&mut before, &mut row);
        std::mem::swap(&mut row, &mut next);
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
    fn similar_or_longer_finds_slips_first_then_longer_names() {
        let names = ["malloc", "__libc_malloc", "calloc", "free", "_ZN3foo6mallocEv"];
        let found = |word, slips| similar_or_longer(word, names.iter().copied(), slips);
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

    /// Nearest names are the same, however few pairs of prefixes were looked at.
    #[test]
    fn distance_within_a_limit_is_the_distance() {
        let mut random = strata_random::Random::new();
        let mut found = 0;
        for _ in 0..20_000 {
            let mut word = || (0..random.below(9)).map(|_| random.pick(&['a', 'b', 'c'])).collect();
            let (left, right): (String, String) = (word(), word());
            let limit = random.below(5_usize);
            let exact = distance(&left, &right);
            let longest = left.len().max(right.len());
            let wanted = (exact <= limit && exact < longest).then_some(exact);
            assert_eq!(distance_within(&left, &right, limit), wanted, "{left} {right} {limit}");
            found += usize::from(wanted.is_some());
        }
        assert!(found > 2_000, "{found}");
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

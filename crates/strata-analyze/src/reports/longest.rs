//! The longest entries of many, in bounded memory.

use std::collections::HashMap;

use strata_timeline::ThreadId;

/// The number of entries up to which all are kept.
const FEW: usize = 64;

/// The number of longest entries to keep, for each thread or for all threads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongestLimit {
    each: usize,
    most: usize,
    by_thread: bool,
}

impl LongestLimit {
    /// Keeps the `number` longest entries of all threads together.
    #[must_use]
    pub fn of_all(number: usize) -> LongestLimit {
        LongestLimit { each: number, most: number, by_thread: false }
    }

    /// Keeps the `number` longest entries of each thread, for reports that learn only at the end which threads are
    /// wanted; at most `most` of all threads together, the longest ones.
    #[must_use]
    pub fn of_each_thread(number: usize, most: usize) -> LongestLimit {
        LongestLimit { each: number.min(most), most, by_thread: true }
    }

    /// Returns the number of entries that the caller has asked for.
    pub(super) fn asked(self) -> usize {
        self.each
    }

    /// Returns this number doubled.
    pub(super) fn doubled(self) -> LongestLimit {
        LongestLimit {
            each: self.each.saturating_mul(2),
            most: self.most.saturating_mul(2),
            ..self
        }
    }

    #[inline(always)]
    fn place(self, thread: Option<ThreadId>) -> usize {
        let thread = thread.filter(|_| self.by_thread);
        thread.map_or(0, |thread| thread.index().saturating_add(1))
    }
}

impl From<usize> for LongestLimit {
    fn from(number: usize) -> LongestLimit {
        LongestLimit::of_all(number)
    }
}

/// A collection that keeps the longest of the entries that are added.
#[derive(Clone, Debug)]
pub(super) struct Longest<T> {
    kept: LongestLimit,
    /// The entries that may be among the longest, each with its length \[ns\], its begin, and its thread's index in
    /// `least_of`.
    found: Vec<(u64, i64, T, usize)>,
    /// The least length that a new entry must have to be kept \[ns\].
    least: u64,
    /// The least length that a new entry of each thread must have to be kept, by the thread's place \[ns\].
    least_of: Vec<u64>,
}

impl<T: Ord> Longest<T> {
    pub(super) fn new(kept: LongestLimit) -> Longest<T> {
        Longest { kept, found: Vec::new(), least: 0, least_of: Vec::new() }
    }

    /// Returns true if an entry of this length and thread may be among the longest.
    #[inline]
    pub(super) fn takes(&self, nanos: u64, thread: Option<ThreadId>) -> bool {
        self.takes_at(nanos, self.kept.place(thread))
    }

    #[inline]
    fn takes_at(&self, nanos: u64, place: usize) -> bool {
        let is_shorter = |least: &u64| nanos < *least;
        self.kept.each > 0
            && nanos >= self.least
            && !self.least_of.get(place).is_some_and(is_shorter)
    }

    /// Adds an entry with its length, begin and thread, if it may be among the longest.
    #[inline(always)]
    pub(super) fn add(&mut self, nanos: u64, from: i64, thread: Option<ThreadId>, what: T) {
        self.add_at(nanos, from, self.kept.place(thread), what);
    }

    #[inline(always)]
    fn add_at(&mut self, nanos: u64, from: i64, place: usize, what: T) {
        if self.takes_at(nanos, place) {
            self.put(nanos, from, place, what);
        }
    }

    /// Adds an entry. A separate function since it is rarely called, and not inlined so that the frequent path stays
    /// small.
    #[inline(never)]
    fn put(&mut self, nanos: u64, from: i64, place: usize, what: T) {
        self.found.push((nanos, from, what, place));
        if self.found.len() >= self.kept.most.saturating_mul(2).max(FEW) {
            self.cut();
        }
    }

    /// Removes all entries that are not among the longest.
    fn cut(&mut self) {
        self.found.sort_unstable_by(|one, other| other.cmp(one));
        let (each, least_of) = (self.kept.each, &mut self.least_of);
        let mut counts: HashMap<usize, usize> = HashMap::new();
        self.found.retain(|&(nanos, _, _, place)| {
            let count = counts.entry(place).or_default();
            *count += 1;
            if *count == each {
                if least_of.len() <= place {
                    least_of.resize(place + 1, 0);
                }
                if let Some(least) = least_of.get_mut(place) {
                    *least = nanos.saturating_add(1);
                }
            }
            *count <= each
        });
        if self.found.len() > self.kept.most {
            self.found.truncate(self.kept.most);
            self.least = self.found.last().map_or(0, |(nanos, ..)| nanos.saturating_add(1));
        }
    }

    /// Returns the longest entries, by falling length.
    pub(super) fn finish(self) -> impl Iterator<Item = (u64, i64, T)> {
        self.finish_and_tell().0
    }

    /// Returns the longest entries, and true if the limit of all threads together has removed some.
    pub(super) fn finish_and_tell(mut self) -> (impl Iterator<Item = (u64, i64, T)>, bool) {
        self.cut();
        let found = self.found.into_iter().map(|(nanos, from, what, _)| (nanos, from, what));
        (found, self.least > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lengths and places of the entries that were kept.
    fn left(longest: Longest<usize>) -> Vec<(u64, usize)> {
        longest.finish().map(|(nanos, _, place)| (nanos, place)).collect()
    }

    #[test]
    fn longest_of_a_quiet_thread_are_kept_whatever_others_do() {
        for (number, wanted) in [(0, 0), (1, 1), (3, 3), (200, 3)] {
            let mut longest = Longest::new(LongestLimit::of_each_thread(number, 200));
            for nanos in 0..10_000 {
                // Four of one thread, shorter than all of the other.
                if nanos % 3_000 == 500 {
                    longest.add_at(nanos / 1_000, 0, 7, 7);
                }
                longest.add_at(1_000 + nanos, 0, 2, 2);
            }
            let found: Vec<_> =
                left(longest).into_iter().filter(|(_, place)| *place == 7).collect();
            let all = [(9, 7), (6, 7), (3, 7)];
            // With as many of each as of all, the longest of all are left.
            let wanted = if number == 200 { 0 } else { wanted };
            assert_eq!(found, all[..wanted], "{number}");
        }
    }

    #[test]
    fn longest_of_all_are_those_that_sorting_finds() {
        for number in [1, 5, 64, 1000, 5000] {
            let all = |seed: u64| (0..4000_u64).map(move |it| (it * 7_919 + seed) % 3_989);
            let mut longest = Longest::new(LongestLimit::of_all(number));
            all(17).for_each(|nanos| longest.add_at(nanos, 0, 0, 0));
            let mut wanted: Vec<u64> = all(17).collect();
            wanted.sort_unstable_by(|one, other| other.cmp(one));
            wanted.truncate(number);
            assert_eq!(left(longest).into_iter().map(|it| it.0).collect::<Vec<_>>(), wanted);
        }
        let mut none = Longest::new(LongestLimit::of_all(0));
        none.add_at(1, 0, 0, 0);
        assert_eq!(left(none), []);
    }

    #[test]
    fn longest_of_a_thread_that_are_left_are_its_longest_where_there_are_too_many() {
        let mut longest = Longest::new(LongestLimit::of_each_thread(4, 100));
        // The threads' lengths go up and down, at different times.
        let length = |step: u64, place: u64| (step * 37 + place * 101) % 1_009;
        for step in 0..50 {
            for place in 0..90 {
                longest.add_at(length(step, place), 0, place as usize, place as usize);
            }
        }
        let found = left(longest);
        assert_eq!(found.len(), 100);
        for place in 0..90 {
            let mut all: Vec<u64> = (0..50).map(|step| length(step, place)).collect();
            all.sort_unstable_by(|one, other| other.cmp(one));
            let of = found.iter().filter(|it| it.1 as u64 == place).map(|it| it.0);
            let of: Vec<u64> = of.collect();
            assert!(of.len() <= 4 && all.starts_with(&of), "{place}: {of:?} {all:?}");
        }
    }
}

//! Items of a lane of the picture: slices, and cells that stand for many short slices.

/// Kind of a slice. A cell stores the time of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A thread has a CPU, or a CPU runs a thread.
    Running = 0,
    /// A thread wants a CPU, since its wait is over.
    Woken = 1,
    /// A thread wants a CPU, since another thread has taken its own.
    Preempted = 2,
    /// A thread waits for something that a signal can end.
    Blocked = 3,
    /// A thread waits for a disk, memory or a lock of the kernel, which no signal can end.
    Uninterruptible = 4,
    /// The state is not in the trace.
    Unknown = 5,
    /// A CPU has nothing to do.
    Idle = 6,
    /// A system call, an interrupt or a span, which has a length and no state.
    Busy = 7,
}

/// Number of kinds of slices.
pub const KINDS: usize = 8;

/// A slice, or a cell that stands for all slices that begin in its time and are shorter than the cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Begin of the slice, or of the first slice of a cell \[ns since 1970\].
    pub from: i64,
    /// End of the slice, or of the last slice of a cell \[ns since 1970\].
    pub to: i64,
    /// Number of slices in the item; 1 for a slice itself.
    pub count: u64,
    /// Length of the longest slice \[ns\].
    pub longest: u64,
    /// Kind of the longest slice.
    pub kind: Kind,
    /// Number of the name in the [`NameTable`](crate::model::name_table::NameTable).
    pub name: u32,
    /// Further facts about a slice: its waker or its result; 0 in a cell. For a counter, its value, or the greatest
    /// value in the cell, encoded by [`crate::model::counter_coding::ordered`].
    pub extra: u64,
    /// Total time of the slices, by kind \[ns\].
    pub sums: [u64; KINDS],
}

impl Kind {
    /// All kinds, by number.
    pub const ALL: [Kind; KINDS] = [
        Kind::Running,
        Kind::Woken,
        Kind::Preempted,
        Kind::Blocked,
        Kind::Uninterruptible,
        Kind::Unknown,
        Kind::Idle,
        Kind::Busy,
    ];

    /// Returns the kind as an index.
    #[must_use]
    pub fn number(self) -> usize {
        self as usize
    }
}

impl Item {
    /// Makes an item of one slice.
    #[must_use]
    pub fn slice(from: i64, to: i64, kind: Kind, name: u32, extra: u64) -> Item {
        let to = to.max(from);
        let mut sums = [0; KINDS];
        let longest = to.abs_diff(from);
        if let Some(sum) = sums.get_mut(kind.number()) {
            *sum = longest;
        }
        Item { from, to, count: 1, longest, kind, name, extra, sums }
    }

    /// Returns true if the item is a slice and no cell.
    #[must_use]
    pub fn is_slice(&self) -> bool {
        self.count == 1
    }

    /// Returns the length of the item \[ns\].
    #[must_use]
    pub fn extent(&self) -> u64 {
        self.to.abs_diff(self.from)
    }

    /// Adds an item that begins later to this cell.
    fn add(&mut self, other: &Item, is_counter: bool) {
        self.to = self.to.max(other.to);
        self.count = self.count.saturating_add(other.count);
        self.extra = if is_counter { self.extra.max(other.extra) } else { 0 };
        if other.longest > self.longest {
            (self.longest, self.kind, self.name) = (other.longest, other.kind, other.name);
        }
        for (sum, more) in self.sums.iter_mut().zip(&other.sums) {
            *sum = sum.saturating_add(*more);
        }
    }
}

/// Makes the items of one level from those of a finer level, in the order of their begins. Slices that are at least as
/// long as a cell stay slices; the others that begin in one cell become one item.
///
/// The result depends only on the slices, not on the levels between.
#[derive(Clone, Debug)]
pub struct Merger {
    /// Level of the result, whose cells are 2^level ns wide.
    level: u8,
    is_counter: bool,
    open: Option<Item>,
}

impl Merger {
    /// Begins to merge slices into cells of 2^level ns.
    #[must_use]
    pub fn new(level: u8) -> Merger {
        Merger { level: level.min(62), is_counter: false, open: None }
    }

    /// Begins to merge values of a counter into cells, which have their greatest value.
    #[must_use]
    pub fn of_counter(level: u8) -> Merger {
        Merger { is_counter: true, ..Merger::new(level) }
    }

    /// Adds the next item. Returns up to two items that are now complete, the earlier one first.
    pub fn push(&mut self, item: &Item) -> (Option<Item>, Option<Item>) {
        let (before, stays) = self.add(item);
        (before, stays.then(|| item.clone()))
    }

    /// Adds the next item. Returns the cell before it that is now complete, and true if the item itself stays as it is.
    #[inline]
    pub fn add(&mut self, item: &Item) -> (Option<Item>, bool) {
        if item.is_slice() && item.extent() >> self.level > 0 {
            return (self.open.take(), true);
        }
        match &mut self.open {
            Some(open) if open.from >> self.level == item.from >> self.level => {
                open.add(item, self.is_counter);
                (None, false)
            }
            open => (open.replace(item.clone()), false),
        }
    }

    /// Returns the cell that is not complete yet.
    #[must_use]
    pub fn open(&self) -> Option<&Item> {
        self.open.as_ref()
    }

    /// Goes on with a cell that was not complete.
    pub fn resume(&mut self, open: Item) {
        self.open = Some(open);
    }

    /// Returns the last cell, which is now complete.
    pub fn finish(&mut self) -> Option<Item> {
        self.open.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{merge, slices};
    use strata_random::Random;

    /// Merges all slices at once, as [`Merger`] does one by one.
    fn model(slices: &[Item], level: u8) -> Vec<Item> {
        let mut found: Vec<Item> = Vec::new();
        // A long slice parts the cell that it lies in.
        let mut is_open = false;
        for slice in slices {
            let is_long = slice.to - slice.from >= 1 << level;
            let cell = slice.from.div_euclid(1 << level);
            match found.last_mut() {
                Some(last) if is_open && !is_long && last.from.div_euclid(1 << level) == cell => {
                    last.to = slice.to;
                    last.count += 1;
                    last.extra = 0;
                    if slice.longest > last.longest {
                        last.longest = slice.longest;
                        (last.kind, last.name) = (slice.kind, slice.name);
                    }
                    last.sums[slice.kind.number()] += slice.longest;
                }
                _ => found.push(slice.clone()),
            }
            is_open = !is_long;
        }
        found
    }

    #[test]
    fn merged_levels_are_those_of_a_slow_model_whichever_levels_are_between() {
        let mut random = Random::from_seed(7);
        for round in 0..60 {
            let slices = slices(&mut random, 400);
            let (mut chained, mut before) = (slices.clone(), 0);
            for level in [3, 5, 9, 14, 20] {
                let direct = merge(&slices, level);
                assert_eq!(direct, model(&slices, level), "round {round}, level {level}");
                chained = merge(&chained, level);
                assert_eq!(direct, chained, "round {round}, level {level} by way of {before}");
                before = level;
            }
        }
    }

    #[test]
    fn cell_of_a_counter_has_the_greatest_value_by_way_of_any_level() {
        let slices: Vec<Item> = slices(&mut Random::from_seed(9), 2000);
        let (mut direct, mut chained) = (Merger::of_counter(14), Merger::of_counter(14));
        let (mut found, mut by_way) = (Vec::new(), Vec::new());
        let mut finer = Merger::of_counter(9);
        let take = |merger: &mut Merger, item: &Item, into: &mut Vec<Item>| {
            let (first, second) = merger.push(item);
            into.extend(first);
            into.extend(second);
        };
        let mut between = Vec::new();
        for slice in &slices {
            take(&mut direct, slice, &mut found);
            take(&mut finer, slice, &mut between);
        }
        between.extend(finer.finish());
        between.iter().for_each(|item| take(&mut chained, item, &mut by_way));
        found.extend(direct.finish());
        by_way.extend(chained.finish());
        assert_eq!(found, by_way);
        assert!(found.iter().any(|item| item.count > 3));
        let mut slices = slices.iter();
        for item in &found {
            let of: Vec<&Item> =
                slices.by_ref().take(usize::try_from(item.count).unwrap()).collect();
            assert_eq!(item.extra, of.iter().map(|slice| slice.extra).max().unwrap());
        }
    }

    #[test]
    fn merged_levels_have_the_sums_and_counts_of_their_slices_and_at_most_two_items_a_cell() {
        let mut random = Random::from_seed(8);
        let slices = slices(&mut random, 3000);
        let sum = |items: &[Item]| {
            let mut sums = [0; KINDS];
            for item in items {
                sums.iter_mut().zip(&item.sums).for_each(|(sum, more)| *sum += more);
            }
            (sums, items.iter().map(|item| item.count).sum::<u64>())
        };
        for level in 0..40 {
            let merged = merge(&slices, level);
            assert_eq!(sum(&merged), sum(&slices), "level {level}");
            for three in merged.windows(3) {
                let cell = |item: &Item| item.from >> level;
                let is_one =
                    cell(&three[0]) == cell(&three[1]) && cell(&three[1]) == cell(&three[2]);
                assert!(
                    !is_one || three.iter().any(|it| it.extent() == 0),
                    "level {level}: {three:?}"
                );
            }
        }
    }
}

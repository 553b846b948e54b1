//! Bounded sets of the processes that the registry has met.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};

use crate::report::NotReached;

/// The most memories (memfds) of ended processes, or their sessions, that are remembered. Above that, the oldest is
/// forgotten, and a late message about it is examined once more in vain.
const RECENT_MAX: usize = 65_536;

/// The most reasons that are kept for processes that could not be reached.
const REASONS_MAX: usize = 10_000;

/// A set of the numbers that were added last; the oldest are forgotten at a limit.
#[derive(Debug, Default)]
pub(crate) struct RecentNumbers {
    numbers: HashSet<u64>,
    order: VecDeque<u64>,
}

impl RecentNumbers {
    pub(crate) fn insert(&mut self, number: u64) {
        if !self.numbers.insert(number) {
            return;
        }
        self.order.push_back(number);
        if self.order.len() > RECENT_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.numbers.remove(&oldest);
            }
        }
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }
}

/// Memories (memfds) of processes that were examined, by inode number.
#[derive(Debug, Default)]
pub(crate) struct KnownMemories {
    /// Inode numbers of the memories of recorded processes, which are never forgotten.
    now: HashSet<u64>,
    /// Inode numbers of the memories of processes that were recorded earlier or could not be recorded.
    past: RecentNumbers,
}

impl KnownMemories {
    /// Notes that the process with this memory is recorded from now on.
    pub(crate) fn begin(&mut self, inode: u64) {
        self.now.insert(inode);
    }

    /// Notes that the process with this memory is not recorded, or no longer. It will not be recorded again.
    pub(crate) fn end(&mut self, inode: u64) {
        self.now.remove(&inode);
        self.past.insert(inode);
    }

    pub(crate) fn contains(&self, inode: u64) -> bool {
        self.now.contains(&inode) || self.past.contains(inode)
    }
}

/// Generations (numbers) of our sessions that processes may have inherited.
#[derive(Debug, Default)]
pub(crate) struct Generations {
    /// For each generation, the time until which children may inherit an incomplete session \[ns of
    /// `CLOCK_MONOTONIC`\].
    until: HashMap<u64, u64>,
    order: VecDeque<u64>,
}

impl Generations {
    pub(crate) fn contains(&self, generation: u64) -> bool {
        self.until.contains_key(&generation)
    }

    /// Returns the time that was passed to [`Generations::insert`] with this generation; `None` if the generation is
    /// unknown.
    pub(crate) fn until(&self, generation: u64) -> Option<u64> {
        self.until.get(&generation).copied()
    }

    /// Adds a generation. If there are too many, the oldest one that no recorded process uses is forgotten.
    pub(crate) fn insert(&mut self, generation: u64, until_ns: u64, is_used: impl Fn(u64) -> bool) {
        self.until.insert(generation, until_ns);
        self.order.push_back(generation);
        // Normally fewer are in use than there is room for; otherwise one more is kept.
        for _ in 0..RECENT_MAX.min(self.order.len().saturating_sub(RECENT_MAX) * 64) {
            match self.order.pop_front() {
                Some(oldest) if is_used(oldest) => self.order.push_back(oldest),
                Some(oldest) => {
                    self.until.remove(&oldest);
                    break;
                }
                None => break,
            }
        }
    }
}

/// Reasons why processes could not be reached, each kept once.
#[derive(Debug, Default)]
pub(crate) struct Reasons {
    kept: Vec<NotReached>,
    /// Hashes of the process and reason of each kept entry.
    said: HashSet<u64>,
    /// Number of reasons that were not kept.
    more: u64,
    /// The reason of each process that had no tracepoints when it was examined, by process id.
    without_tracepoints: HashMap<u32, String>,
}

impl Reasons {
    /// Adds a process with the reason why it was not reached, unless the same pair was added before.
    pub(crate) fn add(&mut self, one: NotReached) {
        let said = number_of(&one);
        if self.said.contains(&said) {
            return;
        }
        if self.kept.len() < REASONS_MAX {
            self.said.insert(said);
            self.kept.push(one);
        } else {
            self.count_more();
        }
    }

    /// Adds a process that has no tracepoints so far. It may get some, for example by executing another program.
    pub(crate) fn add_without_tracepoints(&mut self, one: NotReached) {
        if self.kept.len() < REASONS_MAX {
            self.without_tracepoints.insert(one.pid, one.reason.clone());
        }
        self.add(one);
    }

    /// Removes the reason of a process without tracepoints, since it is recorded now.
    pub(crate) fn has_tracepoints(&mut self, pid: u32) {
        if let Some(reason) = self.without_tracepoints.remove(&pid) {
            self.forget(&NotReached { pid, name: String::new(), reason });
        }
    }

    /// Counts a reason that is not kept.
    pub(crate) fn count_more(&mut self) {
        self.more = self.more.saturating_add(1);
    }

    /// Removes the reason of a process that could be reached after all.
    pub(crate) fn forget(&mut self, one: &NotReached) {
        if self.said.remove(&number_of(one)) {
            self.kept.retain(|kept| (kept.pid, &kept.reason) != (one.pid, &one.reason));
        }
    }

    /// Adds a reason, unless the process has one already.
    pub(crate) fn add_first(&mut self, one: NotReached) {
        if self.kept.len() >= REASONS_MAX || self.kept.iter().all(|kept| kept.pid != one.pid) {
            self.add(one);
        }
    }

    /// Returns the reasons kept so far.
    pub(crate) fn so_far(&self) -> Vec<NotReached> {
        self.kept.clone()
    }

    /// Takes all reasons, with a last entry that counts those not kept.
    pub(crate) fn take(&mut self) -> Vec<NotReached> {
        let Reasons { mut kept, more, .. } = std::mem::take(self);
        if more > 0 {
            let reason = format!(
                "{more} more times a process was not reached. No more than {REASONS_MAX} reasons are kept, and of one \
                 user's programs that could make no memory, no more than 32 at once and then 10 a second"
            );
            kept.push(NotReached { pid: 0, name: "other processes".to_owned(), reason });
        }
        kept
    }
}

fn number_of(one: &NotReached) -> u64 {
    let mut hasher = DefaultHasher::new();
    (one.pid, &one.reason).hash(&mut hasher);
    hasher.finish()
}

impl From<Vec<NotReached>> for Reasons {
    fn from(all: Vec<NotReached>) -> Reasons {
        let mut reasons = Reasons::default();
        all.into_iter().for_each(|one| reasons.add(one));
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_of_a_hundred_thousand_processes_forgets_the_oldest_and_none_that_is_recorded() {
        let mut known = KnownMemories::default();
        known.begin(1);
        for inode in 2..100_000 {
            known.begin(inode);
            known.end(inode);
            known.end(inode);
        }
        assert!(known.contains(1) && known.contains(99_999) && !known.contains(2));
        assert_eq!((known.now.len(), known.past.order.len()), (1, RECENT_MAX));
        assert_eq!(known.past.numbers.len(), RECENT_MAX);
        known.end(1);
        assert!(known.contains(1) && known.now.is_empty());
    }

    #[test]
    fn generations_are_forgotten_when_nobody_has_them() {
        let mut generations = Generations::default();
        for generation in 0..200_000 {
            generations.insert(generation, generation * 2, |one| one % 1000 == 0);
        }
        assert!(generations.order.len() <= RECENT_MAX + 1, "{}", generations.order.len());
        assert_eq!(generations.order.len(), generations.until.len());
        assert_eq!(
            (generations.until(1000), generations.until(199_999)),
            (Some(2000), Some(399_998))
        );
        assert!(generations.contains(0) && !generations.contains(1));
        // All in use: nothing is forgotten.
        let mut all = Generations::default();
        (0..RECENT_MAX as u64 + 10).for_each(|one| all.insert(one, 0, |_| true));
        assert_eq!(all.until.len(), RECENT_MAX + 10);
    }

    #[test]
    fn reasons_are_reported_once_and_beyond_the_limit_counted() {
        let one =
            |pid, reason: &str| NotReached { pid, name: String::new(), reason: reason.to_owned() };
        let mut reasons = Reasons::from(vec![one(1, "a"), one(1, "a"), one(1, "b")]);
        reasons.add_first(one(1, "c"));
        for pid in 2..=REASONS_MAX as u32 {
            reasons.add(one(pid, "a"));
            reasons.add(one(pid, "a"));
        }
        // The last one of these, twice, and another process.
        reasons.add_first(one(77_777, "a"));
        let all = reasons.take();
        assert_eq!(all.len(), REASONS_MAX + 1);
        assert!(all[REASONS_MAX].reason.starts_with("3 more times"), "{:?}", all[REASONS_MAX]);
        assert!(reasons.take().is_empty());
    }

    #[test]
    fn recent_of_one_number_many_times_keeps_the_others() {
        let mut recent = RecentNumbers::default();
        recent.insert(1);
        (0..2 * RECENT_MAX).for_each(|_| recent.insert(2));
        assert!(recent.contains(1) && recent.contains(2) && !recent.contains(3));
        assert_eq!(recent.order.len(), 2);
        // At the limit nothing is forgotten, one beyond it the first one is.
        (3..=RECENT_MAX as u64).for_each(|number| recent.insert(number));
        assert!(recent.contains(1));
        recent.insert(u64::MAX);
        assert!(!recent.contains(1) && recent.contains(2) && recent.contains(u64::MAX));
    }

    #[test]
    fn memory_that_is_recorded_again_is_known_until_it_ends() {
        let mut known = KnownMemories::default();
        assert!(!known.contains(5));
        known.end(5);
        known.begin(5);
        for inode in 100..100 + 2 * RECENT_MAX as u64 {
            known.end(inode);
        }
        // Its end was forgotten; that it is recorded was not.
        assert!(known.contains(5) && !known.past.contains(5));
        known.end(5);
        assert!(known.contains(5) && known.now.is_empty());
    }

    #[test]
    fn first_reason_of_a_process_is_kept_and_others_may_have_the_same() {
        let one = |pid, reason: &str| NotReached { pid, name: "n".into(), reason: reason.into() };
        let mut reasons = Reasons::default();
        assert!(reasons.take().is_empty());
        for (pid, reason) in [(1, "a"), (1, "b"), (2, "a"), (1, "a")] {
            reasons.add_first(one(pid, reason));
        }
        reasons.add(one(1, "b"));
        // One that was reached after all can be said again.
        reasons.forget(&one(1, "b"));
        reasons.forget(&one(9, "z"));
        assert_eq!(reasons.so_far(), [one(1, "a"), one(2, "a")]);
        reasons.add(one(1, "b"));
        assert_eq!(reasons.take(), [one(1, "a"), one(2, "a"), one(1, "b")]);
        // Taken: said anew.
        reasons.add_first(one(1, "b"));
        assert_eq!(reasons.take(), [one(1, "b")]);
    }
}

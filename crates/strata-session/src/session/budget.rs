//! Limits the memory of a session's buffers, summed over all processes and the kernel.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// The limit on the memory, and the memory in use.
#[derive(Debug)]
pub(crate) struct Budget {
    max: AtomicU64,
    used: AtomicU64,
    /// The amount that was last requested and not available \[byte\]; 0 if there is none.
    wanted: AtomicU64,
}

/// A share of the budget, which is given back at the end of this value.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    of: Arc<Budget>,
    bytes: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { max: AtomicU64::new(u64::MAX), used: AtomicU64::new(0), wanted: AtomicU64::new(0) }
    }
}

impl Budget {
    /// Sets the limit on the memory \[byte\].
    pub(crate) fn limit(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Returns the limit, if there is one, and the memory in use \[byte\].
    pub(crate) fn now(&self) -> (Option<u64>, u64) {
        let max = self.max.load(Ordering::Relaxed);
        ((max < u64::MAX).then_some(max), self.used.load(Ordering::Relaxed))
    }

    /// Returns whether `bytes` are free now \[byte\].
    pub(crate) fn has(&self, bytes: u64) -> bool {
        let (max, used) = (self.max.load(Ordering::Relaxed), self.used.load(Ordering::Relaxed));
        used.checked_add(bytes).is_some_and(|sum| sum <= max)
    }

    /// Takes a share of the memory. If too little is free, returns `None` and notes the request, so that the pump
    /// releases memory that is no longer needed.
    pub(crate) fn take(self: &Arc<Budget>, bytes: u64) -> Option<BudgetShare> {
        let max = self.max.load(Ordering::Relaxed);
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= max);
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        self.wanted.store(if taken { 0 } else { bytes }, Ordering::Relaxed);
        taken.then(|| BudgetShare { of: Arc::clone(self), bytes })
    }

    /// Notes that nobody waits for memory any longer.
    pub(crate) fn give_up(&self) {
        self.wanted.store(0, Ordering::Relaxed);
    }

    /// Returns whether the waiting request exceeds the free memory, without exceeding the whole budget.
    pub(crate) fn is_short(&self) -> bool {
        let (max, used) = (self.max.load(Ordering::Relaxed), self.used.load(Ordering::Relaxed));
        let wanted = self.wanted.load(Ordering::Relaxed);
        wanted > 0 && wanted <= max && used.saturating_add(wanted) > max
    }
}

/// Returns the reason why a process whose buffers need `bytes` is not recorded.
pub(crate) fn over_memory(bytes: u64, (max, used): (Option<u64>, u64)) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    format!(
        "its buffers need {} MiB, and {} of the {} MiB that --max-memory allows are taken. Use smaller or fewer \
         sub-buffers (--subbuf-size, --num-subbuf), record fewer programs, or allow more",
        mib(bytes),
        mib(used),
        mib(max.unwrap_or(u64::MAX))
    )
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.of.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_gives_what_is_there_and_says_when_somebody_waits() {
        let budget = Arc::new(Budget::default());
        let first = budget.take(100).unwrap();
        assert_eq!(budget.now(), (None, 100));
        budget.limit(150);
        assert!(budget.take(51).is_none() && budget.is_short());
        assert!(budget.has(50) && !budget.has(51) && !budget.has(u64::MAX));
        drop(first);
        assert!(!budget.is_short());
        let share = budget.take(150).unwrap();
        assert!(!budget.is_short() && budget.take(1).is_none() && budget.is_short());
        budget.give_up();
        assert!(!budget.is_short());
        // More than there can be: nobody is to let go of anything for it.
        assert!(budget.take(151).is_none() && !budget.is_short());
        assert!(budget.take(u64::MAX).is_none());
        assert_eq!(budget.now(), (Some(150), 150));
        drop(share);
        assert_eq!(budget.now(), (Some(150), 0));
    }
}

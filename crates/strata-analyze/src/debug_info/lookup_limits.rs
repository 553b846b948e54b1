//! Limits on the memory and the work of lookups. One limit in bytes holds for all files and processes, whatever the
//! traces contain.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The most memory for all files and processes together \[byte\].
pub(super) const BYTES_MAX: u64 = 512 << 20;
/// The most entries, attributes, rows and ranges of debug information that are read, over all files.
pub(super) const STEPS_MAX: u64 = 1 << 29;
/// The most bytes of debug information files for which checksums are computed, over all files.
pub(super) const SUMMED_MAX: u64 = 4 << 30;
/// The most remarks that are kept.
const REMARKS: usize = 16;

/// The remaining memory and steps for reading debug information, with remarks on what was left out because of the
/// limits.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: AtomicU64,
    steps: AtomicU64,
    summed: AtomicU64,
    remarks: Mutex<Vec<String>>,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::of(BYTES_MAX, STEPS_MAX)
    }
}

/// Subtracts `amount` from `left`. Returns false, and subtracts nothing, if less is left.
fn take(left: &AtomicU64, amount: u64) -> bool {
    let less = |left: u64| left.checked_sub(amount);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
}

impl Budget {
    /// Returns a budget with these limits on bytes and steps.
    pub fn of(bytes: u64, steps: u64) -> Budget {
        Budget {
            bytes: AtomicU64::new(bytes),
            steps: AtomicU64::new(steps),
            summed: AtomicU64::new(SUMMED_MAX),
            remarks: Mutex::default(),
        }
    }

    /// Takes `steps` steps. Returns false if fewer are left.
    pub fn steps(&self, steps: u64) -> bool {
        take(&self.steps, steps)
    }

    /// Returns the number of steps that are left.
    #[cfg(test)]
    pub fn steps_left(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Takes `bytes` bytes of those whose checksums may be computed. Returns false if fewer are left.
    pub fn sum(&self, bytes: u64) -> bool {
        take(&self.summed, bytes)
    }

    /// Keeps a remark for [`Budget::remarks`], unless the same one was kept before.
    pub fn remark(&self, text: String) {
        let mut remarks = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
        if remarks.len() < REMARKS && !remarks.contains(&text) {
            remarks.push(text);
        }
    }

    /// Returns the remarks on debug information that was left out because of the limits.
    pub fn remarks(&self) -> Vec<String> {
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A number of bytes taken from a budget. They are returned to it when the charge goes out of scope.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Charge {
    /// Returns an empty charge.
    pub fn new(budget: &Arc<Budget>) -> Charge {
        Charge { budget: Arc::clone(budget), bytes: 0 }
    }

    /// Takes `bytes` more bytes. Returns false, and takes none, if fewer are left.
    #[must_use]
    pub fn add(&mut self, bytes: u64) -> bool {
        let is_there = take(&self.budget.bytes, bytes);
        self.bytes += if is_there { bytes } else { 0 };
        is_there
    }

    /// Gives `bytes` bytes back to the budget.
    pub fn give(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds the bytes of another charge to this one.
    pub fn join(&mut self, mut other: Charge) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Returns the number of bytes that the charge has taken.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the budget that the bytes were taken from.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.give(self.bytes);
    }
}

/// Formats a size, as `1,536 bytes` or `12.5 MiB`.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..=0xffff => format!("{bytes} bytes"),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_taken_are_there_again_when_their_charge_has_ended() {
        let budget = Arc::new(Budget::of(100, 10));
        let mut first = Charge::new(&budget);
        assert!(first.add(60) && !first.add(41) && first.add(40));
        let mut second = Charge::new(&budget);
        assert!(!second.add(1));
        first.give(10);
        assert!(second.add(10) && !second.add(1));
        drop(first);
        assert!(second.add(90) && !second.add(1));
        assert!(budget.steps(10) && !budget.steps(1));
    }

    #[test]
    fn remarks_are_kept_once_each_and_up_to_the_limit() {
        let budget = Budget::default();
        (0..100).for_each(|at| budget.remark(format!("{}", at / 2)));
        assert_eq!(budget.remarks().len(), REMARKS);
        assert_eq!(budget.remarks()[1], "1");
    }
}

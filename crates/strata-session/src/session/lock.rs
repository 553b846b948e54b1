//! Locks of what threads share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock whose holder cannot leave it half-changed: what panicked is reported by its thread.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! How much memory is taken at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static BEFORE: AtomicUsize = AtomicUsize::new(0);

/// Held by each test, since memory is counted for the whole process, and the tests of a program run beside each other.
#[cfg(test)]
pub fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The system's allocator, which counts.
pub struct Counting;

/// What is taken from now on is counted.
pub fn begin() {
    BEFORE.store(NOW.load(Relaxed), Relaxed);
    MOST.store(NOW.load(Relaxed), Relaxed);
}

/// The most that was taken at once since [`begin`] \[byte\].
pub fn most() -> usize {
    MOST.load(Relaxed).saturating_sub(BEFORE.load(Relaxed))
}

fn taken(bytes: usize) {
    let now = NOW.fetch_add(bytes, Relaxed) + bytes;
    MOST.fetch_max(now, Relaxed);
}

// SAFETY: what is asked for is asked of the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is the same, and the pointer is the system's allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        taken(bytes);
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is the same, and the pointer is the system's allocator's.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

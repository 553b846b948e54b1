//! The key under which a record's line is completed: its thread, or its CPU if the record does not say the thread.

use std::hash::{Hash, Hasher};

/// A thread or a CPU of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadOrCpu {
    /// Twice the trace's index; one more for a CPU.
    space: u32,
    number: i64,
}

impl ThreadOrCpu {
    pub(super) fn thread(trace: usize, tid: i64) -> ThreadOrCpu {
        ThreadOrCpu { space: (trace as u32) << 1, number: tid }
    }

    pub(super) fn cpu(trace: usize, cpu: u64) -> ThreadOrCpu {
        ThreadOrCpu { space: (trace as u32) << 1 | 1, number: cpu as i64 }
    }

    pub(super) fn is_cpu(self) -> bool {
        self.space & 1 == 1
    }

    pub(super) fn trace(self) -> usize {
        (self.space >> 1) as usize
    }

    /// Returns the thread's number; `None` for a CPU.
    pub(super) fn tid(self) -> Option<i64> {
        (!self.is_cpu()).then_some(self.number)
    }
}

impl Hash for ThreadOrCpu {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64((self.number as u64) ^ u64::from(self.space).rotate_left(48));
    }
}

//! The causes of the softirqs and timers of one CPU, as far as records say them.

use crate::ids::thread_id::ThreadId;
use crate::observer::Interrupt;
use crate::world::state::Waker;
use crate::world::threads::NEVER;

/// The number of kinds of softirqs.
pub(crate) const SOFTIRQS: usize = 16;

/// The causes of one CPU's softirqs, and the timers that the CPU serves.
#[derive(Clone, Debug)]
pub(crate) struct SoftirqCauses {
    /// The cause of each pending softirq, by the softirq's number. A softirq that several threads have raised has none
    /// of them as its cause.
    pub raised: [Option<Waker>; SOFTIRQS],
    /// The cause of the softirq that is running.
    pub now: Option<Waker>,
    /// The interrupt that ended last, with the time of its end and its cause.
    pub last: Option<(Interrupt, i64, Option<Waker>)>,
    /// The time at which the last interrupt of a device ended.
    pub device: i64,
    /// The CPU's `ksoftirqd`, from its waking to its next sleep.
    pub daemon: Option<Daemon>,
    /// The number of nested timers being served, and the number of interrupts around them.
    pub timers: Option<(u8, usize)>,
}

/// The `ksoftirqd` of a CPU, to which the kernel leaves softirqs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Daemon {
    pub thread: ThreadId,
    /// The cause of the softirqs.
    pub cause: Option<Waker>,
    /// True while the softirqs are waiting for the `ksoftirqd`, and have not been run elsewhere.
    pub waits: bool,
}

impl Default for SoftirqCauses {
    fn default() -> SoftirqCauses {
        SoftirqCauses {
            raised: [None; SOFTIRQS],
            now: None,
            last: None,
            device: NEVER,
            daemon: None,
            timers: None,
        }
    }
}

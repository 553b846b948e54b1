//! States of threads. They are small numbers, since they are made and compared for each event record.

use crate::ids::calls::CallId;
use crate::ids::names::Name;
use crate::ids::thread_id::ThreadId;
use crate::spans::Spent;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The trace does not say the state.
    Unknown,
    /// The thread has a CPU.
    Running {
        /// The CPU's number in its machine.
        cpu: u32,
    },
    /// The thread could run, and waits for a CPU.
    Runnable {
        /// True if the thread was woken from a wait; false if another thread took its CPU.
        woken: bool,
    },
    /// The thread waits for something other than a CPU.
    Blocked(Reason),
    /// The thread has ended.
    Gone,
}

impl State {
    /// Returns `nanos`, counted as time in this state.
    #[inline]
    pub(crate) fn spent(self, nanos: u64) -> Spent {
        let mut spent = Spent::default();
        match self {
            State::Unknown | State::Gone => spent.unknown = nanos,
            State::Running { .. } => spent.running = nanos,
            State::Runnable { .. } => spent.runnable = nanos,
            State::Blocked(_) => spent.blocked = nanos,
        }
        spent
    }

    /// Adds time in this state \[ns\] to `spent`.
    #[inline]
    pub(crate) fn add_to(self, spent: &mut Spent, nanos: u64) {
        let sum = match self {
            State::Unknown | State::Gone => &mut spent.unknown,
            State::Running { .. } => &mut spent.running,
            State::Runnable { .. } => &mut spent.runnable,
            State::Blocked(_) => &mut spent.blocked,
        };
        *sum = sum.saturating_add(nanos);
    }
}

/// The reason for which a thread is blocked: the kind of its sleep, its system call, and that call's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason {
    /// The kind of sleep.
    pub sleep: Sleep,
    /// The system call that blocks; `None` if the thread is in none, or its begin is not in the trace.
    pub call: Option<CallId>,
    /// The object of the call: a file, a descriptor, a futex.
    pub object: Object,
    /// True if the thread has been blocked since before recording began.
    pub is_older: bool,
}

/// The kind of a thread's sleep, according to the kernel's scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sleep {
    /// A wait that signals end.
    Interruptible,
    /// A wait for a disk, memory or a lock of the kernel, which signals do not end.
    Uninterruptible,
    /// A stop by a signal or a debugger.
    Stopped,
    /// The idleness of a thread of the kernel that has no work.
    Idle,
    /// Another kind, or an unknown one.
    Other,
}

/// The object of a system call or of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Object {
    /// The trace does not say the object.
    None,
    /// A descriptor of which it is unknown what it was opened for.
    Descriptor(i32),
    /// An opened file, socket or pipe, by its path or address.
    File(Name),
    /// The address of a futex.
    Address(u64),
    /// A page fault: memory that the thread touched and that was not mapped yet.
    Fault,
}

/// The thread or interrupt that ended a thread's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waker {
    /// The trace does not say the waker.
    Unknown,
    /// Another thread woke the thread.
    Thread {
        /// The thread that called or caused the wake-up.
        thread: ThreadId,
        /// True if the waker was in a recorded system call, or is a thread of the kernel. If false, an interrupt may
        /// have occurred while this thread ran: its system calls are not in the trace, or it had just caused a page
        /// fault.
        is_sure: bool,
    },
    /// An interrupt of a device, by its number.
    Device(i32),
    /// A softirq, by its number: a part of the kernel that runs after an interrupt.
    Softirq(u8),
    /// A timer that has expired.
    Timer,
    /// An interrupt that is not recorded.
    Interrupt,
}

/// A span of time in which a thread was in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The begin \[ns since 1970\].
    pub from: i64,
    /// The end \[ns since 1970\].
    pub to: i64,
    /// The state in that time.
    pub state: State,
    /// The waker, if the state was [`State::Blocked`].
    pub waker: Waker,
    /// The CPU that the thread got at the end, if the state was [`State::Runnable`].
    pub cpu: Option<u32>,
}

impl Interval {
    /// Returns the length \[ns\].
    #[must_use]
    #[inline]
    pub fn nanos(&self) -> u64 {
        self.to.abs_diff(self.from)
    }
}

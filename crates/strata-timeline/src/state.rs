//! What a thread does, as numbers: these are made and compared for each event record.

use crate::calls::CallId;
use crate::id::ThreadId;
use crate::names::Name;
use crate::spans::Spent;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The trace does not say.
    Unknown,
    /// It has a CPU.
    Running {
        /// The CPU that it has.
        cpu: u32,
    },
    /// It wants one, and another thread has it.
    Runnable {
        /// It has waited for something before, which is over; otherwise another thread took its CPU.
        woken: bool,
    },
    /// It waits for something else.
    Blocked(Reason),
    /// It has ended.
    Gone,
}

impl State {
    /// So many nanoseconds in this state.
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
}

/// What a thread is blocked in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason {
    /// How it sleeps.
    pub sleep: Sleep,
    /// In which system call; `None`: in none that the trace has the beginning of.
    pub call: Option<CallId>,
    /// What it is about.
    pub object: Object,
}

/// How the kernel lets a thread sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sleep {
    /// A signal wakes it.
    Interruptible,
    /// It waits for a disk, memory or a lock of the kernel: nothing else wakes it.
    Uninterruptible,
    /// A signal or a debugger has stopped it.
    Stopped,
    /// A thread of the kernel that has nothing to do.
    Idle,
    /// Some other way.
    Other,
}

/// What a system call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Object {
    /// The trace does not say.
    None,
    /// A descriptor of which it is not known what it was opened for.
    Descriptor(i32),
    /// What was opened: a path, or a kind of thing.
    File(Name),
    /// An address: a futex'.
    Address(u64),
    /// Memory that was touched.
    Fault,
}

/// Who ended a thread's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waker {
    /// The trace does not say.
    Unknown,
    /// A thread.
    Thread {
        /// The thread that has woken it.
        thread: ThreadId,
        /// Its system calls are in the trace, and it was in one; or it is a thread of the kernel. If not, it may
        /// have been an interrupt while it ran: its system calls are not in the trace, or it had just touched memory
        /// that was not there.
        is_sure: bool,
    },
    /// An interrupt of a device, by its number.
    Device(i32),
    /// A part of the kernel that runs after an interrupt, by its number.
    Softirq(u8),
    /// A timer.
    Timer,
    /// Some interrupt, of which no record tells.
    Interrupt,
}

/// For so long, a thread was in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// From when on \[ns since 1970\].
    pub from: i64,
    /// Up to when.
    pub to: i64,
    /// In which.
    pub state: State,
    /// Who ended it, if it was blocked.
    pub waker: Waker,
    /// If it was runnable: the CPU that it got then.
    pub cpu: Option<u32>,
}

impl Interval {
    /// How long that was \[ns\].
    #[must_use]
    #[inline]
    pub fn nanos(&self) -> u64 {
        self.to.abs_diff(self.from)
    }
}

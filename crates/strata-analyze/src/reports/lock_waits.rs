//! Single waits for locks: for futexes from the kernel's system calls, for locks of libc from the program's spans.

use std::collections::HashMap;

use strata_ctf::read::TimeRange;
use strata_timeline::{
    Call, CallKind, Interval, Name, Object, Reason, Span, State, ThreadId, Waker, World,
};

const ETIMEDOUT: u16 = 110;
/// The error number ETIMEDOUT as libc's functions return it, which is positive.
const GIVEN_UP: i64 = 110;
/// The size of the largest lock of libc \[byte\]. The futexes of a lock are somewhere within it.
pub const LOCK_BYTES: u64 = 64;

/// The kind of a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKind {
    /// A futex, identified by the address that was passed to the kernel.
    #[default]
    Futex,
    /// A mutex of libc.
    Mutex,
    /// A lock for readers and writers.
    RwLock,
    Condition,
}

impl LockKind {
    /// Returns the kind of lock to which a span of `strata record --libc pthread` belongs.
    fn of(span: &str) -> Option<LockKind> {
        Some(match span.strip_prefix("pthread:")? {
            "mutex_lock" => LockKind::Mutex,
            "rwlock_rdlock" | "rwlock_wrlock" => LockKind::RwLock,
            "cond_wait" => LockKind::Condition,
            _ => return None,
        })
    }

    /// Returns the name that reports use in text and in JSON's `kind`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LockKind::Futex => "futex",
            LockKind::Mutex => "mutex",
            LockKind::RwLock => "rwlock",
            LockKind::Condition => "condition",
        }
    }
}

/// A lock of some process.
pub type LockId = (LockKind, u64);

/// A wait for a lock.
#[derive(Clone, Copy, Debug)]
pub struct LockWait {
    pub thread: ThreadId,
    pub lock: LockId,
    /// The begin \[ns since 1970\].
    pub from: i64,
    /// The length \[ns\].
    pub nanos: u64,
    /// The thread or timer that ended the wait; a timer, if the call has returned that it timed out.
    pub waker: Waker,
    /// True if the futex is a mutex.
    pub is_mutex: bool,
}

/// Finds waits for locks. A wait for a futex is returned when its system call returns, since only then is it known
/// whether the call timed out.
#[derive(Debug)]
pub struct LockWaitFinder {
    range: TimeRange,
    pending: HashMap<ThreadId, LockWait>,
    kinds: HashMap<Name, Option<LockKind>>,
}

impl LockWaitFinder {
    /// Makes a finder of the waits within `range`.
    pub fn new(range: TimeRange) -> LockWaitFinder {
        LockWaitFinder { range, pending: HashMap::new(), kinds: HashMap::new() }
    }

    fn part(&self, from: i64, to: i64) -> Option<(i64, u64)> {
        let (from, to) = (from.max(self.range.from), to.min(self.range.to));
        (from < to).then(|| (from, to.abs_diff(from)))
    }

    /// Returns the wait that a span of libc's lock functions describes, and whether it timed out. Only threads that
    /// had to wait have such spans.
    pub fn span(&mut self, world: &World, span: &Span) -> Option<(LockWait, bool)> {
        let kind = self
            .kinds
            .entry(span.name)
            .or_insert_with(|| LockKind::of(&world.names.text(span.name)));
        let lock = ((*kind)?, span.address?);
        let thread = span.thread?;
        let (from, nanos) = self.part(span.begin, span.end)?;
        let is_timeout = span.result == Some(GIVEN_UP);
        // Who had it then still has it.
        let waker = match span.owner {
            _ if is_timeout => Waker::Timer,
            Some(thread) => Waker::Thread { thread, is_sure: true },
            None => Waker::Unknown,
        };
        Some((LockWait { thread, lock, from, nanos, waker, is_mutex: false }, is_timeout))
    }

    /// Keeps a wait for a futex until its call returns. Returns the thread's previous wait if its call has not
    /// returned.
    pub fn state(
        &mut self,
        world: &World,
        thread: ThreadId,
        interval: &Interval,
    ) -> Option<LockWait> {
        let State::Blocked(Reason { call: Some(call), object: Object::Address(address), .. }) =
            interval.state
        else {
            return None;
        };
        if world.calls.kind(call) != CallKind::Futex {
            return None;
        }
        let (from, nanos) = self.part(interval.from, interval.to)?;
        let lock = (LockKind::Futex, address);
        let is_mutex = world.threads.get(thread).is_some_and(|thread| thread.is_in_mutex());
        let wait = LockWait { thread, lock, from, nanos, waker: interval.waker, is_mutex };
        self.pending.insert(thread, wait)
    }

    /// Returns the thread's wait in a futex call that has returned, and whether the call timed out.
    pub fn call(&mut self, call: &Call, address: u64) -> (Option<LockWait>, bool) {
        let is_timeout = call.error() == Some(ETIMEDOUT);
        let wait = self.pending.remove(&call.thread).map(|wait| match is_timeout {
            true if wait.lock.1 == address => LockWait { waker: Waker::Timer, ..wait },
            _ => wait,
        });
        (wait, is_timeout)
    }

    /// Returns the waits whose calls have not returned.
    pub fn finish(&mut self) -> Vec<LockWait> {
        let mut left: Vec<LockWait> = std::mem::take(&mut self.pending).into_values().collect();
        left.sort_by_key(|wait| (wait.from, wait.thread));
        left
    }
}

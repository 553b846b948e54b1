//! The table of threads, by machine and number. It is organized in pages for speed, since nearly every record needs a
//! thread.
//!
//! A [`ThreadId`] stands for one thread for the whole pass, also after it has ended and its number belongs to another:
//!
//! ```text
//! (machine, tid) ── pages of 64 numbers ──▶ ThreadId: the thread that has the number now
//! ThreadId ── a vector ──▶ Thread: state, process, name, call, spans, and what it spent in each state
//! ```
//!
//! The engine is the only writer. It adds a thread when a record names a number that is new, or whose owner has ended; a
//! client reads threads through [`World`](crate::World) while it is called, and keeps ids, not references. A [`Thread`]
//! is what is known *now*: after a loss of records its state is unknown until a record gives one, and whatever depended
//! on it is forgotten.
//!
//! A thread that has ended keeps some 130 bytes: what reports say of it. Its [`Activity`] is given up, so that a machine that
//! has started a million short processes fits in memory:
//!
//! ```text
//! Thread: number, name, process, state, sums ──▶ Activity: open call, spans, descriptors; none once the thread has ended
//! ```
//!
//! The table is limited by [`THREADS_MAX`], and by [`ACTIVE_MAX`] for threads that have not ended. Further threads are
//! counted ([`Threads::left_out`]) and their records have no thread. Clients that cache results compare `changes()`, a
//! counter, to find out whether numbers or processes have changed since.

use std::ops::{Deref, DerefMut};

use crate::ids::calls::CallId;
use crate::ids::names::Name;
use crate::ids::thread_id::ThreadId;
use crate::spans::{OpenSpan, Spent};
use crate::world::descriptor_tables::TableId;
use crate::world::state::{Interval, Object, State, Waker};

/// The most threads, including those that have ended; some 130 bytes each.
pub const THREADS_MAX: usize = 1 << 22;
/// The most threads with an [`Activity`], which takes another 300 bytes.
pub const ACTIVE_MAX: usize = 1 << 18;
/// The bound of thread numbers, which Linux does not exceed.
const TIDS: i64 = 1 << 22;
const PAGE: usize = 64;
/// A time that no record has.
pub(crate) const NEVER: i64 = i64::MIN;

/// A system call that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenCall {
    pub call: CallId,
    /// The call that is waiting: for restart_syscall(), the call that it continues.
    pub in_effect: CallId,
    pub begin: i64,
    pub object: Object,
    pub selected: bool,
    /// What else its arguments say; `None` for most calls, which begin and end faster without.
    pub arguments: Option<Arguments>,
}

/// The arguments of a call that concern descriptors, paths or waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments {
    /// The descriptor from which the call's object was found.
    pub descriptor: Option<i32>,
    /// For a call that copies from its object to another descriptor, such as sendfile(): the object of that
    /// descriptor; otherwise [`Object::None`].
    pub target: Object,
    /// The path that the call opens, the name of what it makes, or the address that it gives.
    pub path: Name,
    /// The descriptor of the folder in which the path begins, if that is not the working folder.
    pub folder: Option<i32>,
    pub flags: Option<i64>,
    /// The command of fcntl() and ioctl(), or the operation of a futex.
    pub control: Option<i64>,
    pub wait: WaitArgument,
}

// Some calls begin with a copy of it. What has more than 128 bytes, the compiler has the C library copy.
const _: () = assert!(size_of::<OpenCall>() <= 128);

/// The arguments of a call of which nothing is known.
pub(crate) static NO_ARGUMENTS: Arguments = Arguments {
    descriptor: None,
    target: Object::None,
    path: Name::NONE,
    folder: None,
    flags: None,
    control: None,
    wait: WaitArgument::None,
};

/// What the arguments of a call say about its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitArgument {
    None,
    /// The timeout of poll() and its like, in the call's own unit: 0 if it does not wait, more than 0 if it does.
    Timeout(i64),
    /// The value that a futex was expected to have.
    Expected(i64),
}

impl OpenCall {
    /// Returns a call without arguments.
    #[inline]
    pub(crate) fn of(call: CallId) -> OpenCall {
        OpenCall {
            call,
            in_effect: call,
            begin: 0,
            object: Object::None,
            selected: false,
            arguments: None,
        }
    }

    /// Returns the call's arguments beside its object.
    #[inline]
    pub(crate) fn arguments(&self) -> &Arguments {
        self.arguments.as_ref().unwrap_or(&NO_ARGUMENTS)
    }

    /// Returns the call's arguments beside its object, for changes.
    #[inline]
    pub(crate) fn arguments_mut(&mut self) -> &mut Arguments {
        self.arguments.get_or_insert(NO_ARGUMENTS)
    }
}

/// The working folder of a process, or of a thread that has its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkingFolder {
    /// The path of the folder, or no name if it is unknown.
    pub name: Name,
    /// The number of gaps in the trace at the time at which the path was read. After another gap the path is unknown.
    pub gaps: u32,
    /// True if another process shares the folder and may change it.
    pub is_shared: bool,
}

/// A thread and its present state.
#[derive(Clone, Debug)]
pub struct Thread {
    /// The machine's index in [`World::machines`](crate::World::machines).
    pub machine: u8,
    /// The thread's number on its machine.
    pub tid: i32,
    /// The last name that a record gave.
    pub name: Name,
    /// The file name of the program that the thread executes, if the trace says it.
    pub program: Name,
    /// The first thread of the process; `None` if the trace does not say which process it is.
    pub main: Option<ThreadId>,
    /// The thread that created this thread.
    pub parent: Option<ThreadId>,
    /// The time of creation \[ns since 1970\]; `None` if that is not in the trace.
    pub born: Option<i64>,
    /// The state of the thread at the present time.
    pub state: State,
    /// The begin of the present state \[ns since 1970\].
    pub since: i64,
    pub(crate) gaps: u32,
    /// True if a system call of the thread was read, so that its system calls are recorded.
    pub(crate) has_calls: bool,
    /// True if a page fault of the thread was read, so that its page faults are recorded.
    has_faults: bool,
    /// True if the thread has made a record on a CPU that it had.
    pub(crate) is_seen: bool,
    /// True if a state dump has listed the thread.
    pub(crate) is_dumped: bool,
    /// True if the thread was created in the trace and has not entered a system call.
    pub(crate) is_new: bool,
    pub(crate) is_exiting: bool,
    /// True once the thread has ended and its room for an activity was given to others.
    is_counted_out: bool,
    /// True while the thread is in [`Threads::ended`].
    is_in_ended: bool,
    pub(crate) wants_name: bool,
    /// True if the thread has a working folder of its own.
    pub(crate) has_folder: bool,
    /// The working folder that the thread holds for its process, or its own.
    pub(crate) folder: WorkingFolder,
    /// The time spent in states that have ended.
    pub(crate) spent: Spent,
    /// The present activity; `None` if there is none, as after the thread's end.
    activity: Option<Box<Activity>>,
}

/// The activity of a thread that has not ended: what is open, and what the next record may continue.
#[derive(Clone, Debug)]
pub struct Activity {
    pub(crate) open: Option<OpenCall>,
    /// The waker that woke the thread before it had left its CPU to sleep.
    pub(crate) wakes: Option<Waker>,
    /// The last wait in a call with a timeout. The call's result will say whether the timeout ended it.
    pub(crate) may_time_out: Option<Interval>,
    /// The time of the last page fault; `NEVER` if the thread has entered or left a system call or slept since. A thread
    /// that was preempted goes on with it.
    pub(crate) fault: i64,
    /// The time at which the thread last sent a signal; `NEVER` if it has not.
    pub(crate) signals: i64,
    /// The call that was interrupted and continues as restart_syscall().
    pub(crate) restarts: Option<Box<OpenCall>>,
    /// The name in the last record of a switch, to notice changes.
    pub(crate) short: [u8; 16],
    /// The thread's own table of descriptors, if it does not use that of its process.
    pub(crate) files: Option<TableId>,
    /// Open spans, the outermost first.
    pub(crate) spans: Vec<OpenSpan>,
}

/// The activity of a thread that does nothing.
static NO_ACTIVITY: Activity = Activity {
    open: None,
    wakes: None,
    may_time_out: None,
    fault: NEVER,
    signals: NEVER,
    restarts: None,
    short: [0; 16],
    files: None,
    spans: Vec::new(),
};

impl Activity {
    /// Returns true if the activity has something open that is still to be reported, or that other threads of the
    /// process use.
    fn is_needed(&self) -> bool {
        self.open.is_some() || !self.spans.is_empty() || self.files.is_some()
    }
}

/// A thread without an activity reads as one that does nothing. Writing creates the activity.
impl Deref for Thread {
    type Target = Activity;

    #[inline]
    fn deref(&self) -> &Activity {
        self.activity.as_deref().unwrap_or(&NO_ACTIVITY)
    }
}

#[cold]
fn idle_activity() -> Box<Activity> {
    Box::new(NO_ACTIVITY.clone())
}

impl DerefMut for Thread {
    #[inline]
    fn deref_mut(&mut self) -> &mut Activity {
        match &mut self.activity {
            Some(activity) => activity,
            none => none.insert(idle_activity()),
        }
    }
}

impl Thread {
    pub(crate) fn new(machine: u8, tid: i32, since: i64, gaps: u32) -> Thread {
        Thread {
            machine,
            tid,
            name: Name::NONE,
            main: None,
            parent: None,
            born: None,
            program: Name::NONE,
            state: State::Unknown,
            since,
            gaps,
            has_calls: false,
            has_faults: false,
            is_seen: false,
            is_dumped: false,
            is_new: false,
            is_exiting: false,
            is_counted_out: false,
            is_in_ended: false,
            wants_name: true,
            has_folder: false,
            folder: WorkingFolder::default(),
            spent: Spent::default(),
            activity: None,
        }
    }

    /// Notes that the thread is in a page fault from this time on.
    pub(crate) fn begin_fault(&mut self, time: i64) {
        (self.has_faults, self.fault) = (true, time);
    }

    /// Notes that the thread leaves its CPU: to sleep, which ends its page fault, or because it was preempted.
    pub(crate) fn end_fault(&mut self, sleeps: bool) {
        if sleeps {
            self.fault = NEVER;
        }
    }

    /// Returns true if the trace has a page fault of the thread.
    #[must_use]
    pub fn has_faults(&self) -> bool {
        self.has_faults
    }

    /// Returns true if the thread has ended, or is about to end and has nothing open.
    fn is_over(&self) -> bool {
        (self.state == State::Gone || self.is_exiting) && !self.is_needed()
    }

    /// Returns the activity of the thread for changes. One that does nothing gets one.
    #[inline]
    pub(crate) fn active(&mut self) -> &mut Activity {
        self
    }

    /// Returns the activity of the thread for changes, if there is one.
    pub(crate) fn activity_mut(&mut self) -> Option<&mut Activity> {
        self.activity.as_deref_mut()
    }

    /// Returns the time by state up to `now`, including the present state.
    pub(crate) fn spent(&self, now: i64) -> Spent {
        let nanos = now.max(self.since).abs_diff(self.since);
        self.spent.plus(self.state.spent(nanos))
    }

    /// Returns true if the state of the thread was known at any time.
    #[must_use]
    pub fn has_states(&self) -> bool {
        self.spent.is_known()
    }

    /// Returns the open spans of the thread, the outermost first: their names, and the addresses of their objects.
    pub fn in_spans(&self) -> impl ExactSizeIterator<Item = (Name, Option<u64>)> + '_ {
        self.spans.iter().map(|span| (span.name, span.address))
    }

    /// Returns the system call that the thread is in, if that is known.
    #[must_use]
    pub fn present_call(&self) -> Option<CallId> {
        self.open.as_ref().map(|open| open.call)
    }

    /// Returns true while the thread is in a futex call for a mutex: one whose word was 2, "locked, and others wait", as
    /// in the mutexes of glibc, Go and Rust, or one with priority inheritance. Condition variables and semaphores have
    /// other words.
    #[must_use]
    pub fn is_in_mutex(&self) -> bool {
        const OPERATION: i64 = 0x7f;
        const LOCK_PI: [i64; 2] = [6, 13];
        const CONTENDED: i64 = 2;
        self.open.as_ref().is_some_and(|open| {
            let Arguments { control, wait, .. } = open.arguments();
            let operation = control.map(|operation| operation & OPERATION);
            operation.is_some_and(|operation| LOCK_PI.contains(&operation))
                || *wait == WaitArgument::Expected(CONTENDED)
        })
    }

    /// Returns the system call that the thread is in, and its begin \[ns since 1970\].
    #[must_use]
    pub fn in_call(&self) -> Option<(CallId, i64)> {
        self.open.as_ref().map(|open| (open.call, open.begin))
    }
}

/// The limits of a table of threads.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    all: usize,
    active: usize,
    /// The number of new threads after which the table is searched for threads that have ended.
    sweep: usize,
}

/// The table of all threads.
#[derive(Clone, Debug)]
pub struct Threads {
    all: Vec<Thread>,
    /// For each thread number, the index in `all` of the thread that has it: by machine, then by page of numbers, then by
    /// place in the page. 0 stands for a number without a thread.
    pages: Vec<Vec<Option<Box<[u32; PAGE]>>>>,
    left_out: u64,
    changes: u64,
    bounds: Bounds,
    /// The number of threads that may be added before the table is searched for those that have ended.
    room: usize,
    /// The number of threads that wanted room since the table was last searched.
    asked: usize,
    /// Threads that have ended since then, so that room is found without a search.
    ended: Vec<ThreadId>,
}

impl Default for Threads {
    fn default() -> Threads {
        Threads::within(Bounds { all: THREADS_MAX, active: ACTIVE_MAX, sweep: 1 << 16 })
    }
}

impl Threads {
    fn within(bounds: Bounds) -> Threads {
        Threads {
            all: vec![Thread::new(0, 0, 0, 0)],
            pages: Vec::new(),
            left_out: 0,
            changes: 0,
            bounds,
            room: bounds.sweep,
            asked: 0,
            ended: Vec::new(),
        }
    }

    /// Returns a thread by its id.
    #[must_use]
    #[inline]
    pub fn get(&self, id: ThreadId) -> Option<&Thread> {
        self.all.get(id.index())
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: ThreadId) -> Option<&mut Thread> {
        self.all.get_mut(id.index())
    }

    /// Returns all threads except the idle one, in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = (ThreadId, &Thread)> {
        (1..).map(ThreadId).zip(self.all.iter().skip(1))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Thread> {
        self.all.iter_mut().skip(1)
    }

    /// Returns the thread that has this number now.
    #[must_use]
    #[inline]
    pub fn find(&self, machine: u8, tid: i64) -> Option<ThreadId> {
        let tid = usize::try_from(tid).ok()?;
        let page = self.pages.get(usize::from(machine))?.get(tid / PAGE)?.as_ref()?;
        page.get(tid % PAGE).copied().filter(|&slot| slot != 0).map(ThreadId)
    }

    /// Adds a thread, which takes over the number of an older one. Returns `None` if the number is invalid or there are
    /// too many threads.
    pub(crate) fn add(&mut self, thread: Thread) -> Option<ThreadId> {
        if thread.tid <= 0 || i64::from(thread.tid) >= TIDS {
            return None;
        }
        if self.all.len() >= self.bounds.all || !self.has_room() {
            self.left_out = self.left_out.saturating_add(1);
            self.forget(thread.machine, thread.tid);
            return None;
        }
        let slot = u32::try_from(self.all.len()).ok()?;
        let (machine, tid) = (usize::from(thread.machine), usize::try_from(thread.tid).ok()?);
        if self.pages.len() <= machine {
            self.pages.resize_with(machine + 1, Vec::new);
        }
        let pages = self.pages.get_mut(machine)?;
        if pages.len() <= tid / PAGE {
            pages.resize_with(tid / PAGE + 1, || None);
        }
        let page = pages.get_mut(tid / PAGE)?.get_or_insert_with(|| Box::new([0; PAGE]));
        *page.get_mut(tid % PAGE)? = slot;
        self.all.push(thread);
        self.changes += 1;
        Some(ThreadId(slot))
    }

    /// Takes room for one thread. If there is none, removes the activities of threads that have ended: of those that are
    /// known to have ended, or of all after so many requests that a search costs each of them little.
    fn has_room(&mut self) -> bool {
        self.asked += 1;
        if self.asked > self.bounds.sweep {
            self.room = self.sweep();
            self.asked = 1;
        } else if self.room == 0 {
            self.room = self.count_out();
        }
        let room = self.room.checked_sub(1);
        self.room = room.unwrap_or(0);
        room.is_some()
    }

    /// Notes that a thread has ended, or is about to end.
    #[inline]
    pub(crate) fn has_ended(&mut self, id: ThreadId) {
        let Some(thread) = self.all.get_mut(id.index()) else { return };
        if !thread.is_counted_out && !thread.is_in_ended {
            thread.is_in_ended = true;
            self.ended.push(id);
        }
    }

    /// Removes the activities of the threads that have ended since the last search. Returns their number.
    #[cold]
    fn count_out(&mut self) -> usize {
        let mut room = 0;
        for id in std::mem::take(&mut self.ended) {
            let Some(thread) = self.all.get_mut(id.index()) else { continue };
            thread.is_in_ended = false;
            if !thread.is_over() || thread.is_counted_out {
                continue;
            }
            (thread.activity, thread.is_counted_out) = (None, true);
            room += 1;
        }
        room
    }

    /// Removes the activities of all threads that have ended. Returns the room for others.
    #[cold]
    fn sweep(&mut self) -> usize {
        for id in std::mem::take(&mut self.ended) {
            if let Some(thread) = self.all.get_mut(id.index()) {
                thread.is_in_ended = false;
            }
        }
        for thread in self.all.iter_mut().filter(|thread| thread.is_over()) {
            (thread.activity, thread.is_counted_out) = (None, true);
        }
        let active = self.all.iter().filter(|thread| thread.activity.is_some()).count();
        self.bounds.active.saturating_sub(active).min(self.bounds.sweep)
    }

    /// Forgets which thread has a number, so that the next owner of the number is another thread.
    fn forget(&mut self, machine: u8, tid: i32) {
        let Ok(tid) = usize::try_from(tid) else { return };
        let pages = self.pages.get_mut(usize::from(machine));
        let page = pages.and_then(|pages| pages.get_mut(tid / PAGE)?.as_mut());
        if let Some(slot) = page.and_then(|page| page.get_mut(tid % PAGE)) {
            self.changes += u64::from(std::mem::take(slot) != 0);
        }
    }

    /// Returns a counter that changes whenever a number gets another thread, or a thread another process. As long as it
    /// is the same, results of [`Threads::find`] may be cached.
    #[must_use]
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn has_changed(&mut self) {
        self.changes += 1;
    }

    /// Returns the number of times that a thread was refused because there were too many.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests;

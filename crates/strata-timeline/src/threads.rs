//! All threads: found by machine and number, in pages, since nearly every record asks for one.

use crate::calls::CallId;
use crate::descriptors::TableId;
use crate::id::ThreadId;
use crate::names::Name;
use crate::spans::{OpenSpan, Spent};
use crate::state::{Interval, Object, State, Waker};

/// Threads that are told apart, those that have ended included; some 380 bytes each.
pub const THREADS_MAX: usize = 1 << 18;
/// The highest number that Linux gives a thread is less.
const TIDS: i64 = 1 << 22;
const PAGE: usize = 64;
/// No time of a record.
pub(crate) const NEVER: i64 = i64::MIN;

/// A system call that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenCall {
    pub call: CallId,
    pub begin: i64,
    pub object: Object,
    /// What `object` was found by.
    pub descriptor: Option<i32>,
    /// What is copied to.
    pub target: Object,
    /// Of a file that it opens; of what it makes; the address that it gives.
    pub path: Name,
    pub flags: Option<i64>,
    /// Of one that waits for some time: 0 is none, all above is some.
    pub timeout: Option<i64>,
    /// The command, or the operation.
    pub control: Option<i64>,
    pub selected: bool,
}

impl OpenCall {
    /// Of which nothing else is known.
    #[inline]
    pub(crate) fn of(call: CallId) -> OpenCall {
        OpenCall {
            call,
            begin: 0,
            object: Object::None,
            descriptor: None,
            target: Object::None,
            path: Name::NONE,
            flags: None,
            timeout: None,
            control: None,
            selected: false,
        }
    }
}

/// In which folder paths begin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkingFolder {
    /// None: it is not known.
    pub name: Name,
    /// How often records had been discarded when it was: it is not known behind the next time.
    pub gaps: u32,
    /// Another process changes it, too.
    pub is_shared: bool,
}

/// A thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its machine, by the order in which their names appear in the traces.
    pub machine: u8,
    /// Its number there.
    pub tid: i32,
    /// Its name, the last one.
    pub name: Name,
    /// Its process' first thread; `None`: the trace does not say whose it is.
    pub main: Option<ThreadId>,
    /// Who began it.
    pub parent: Option<ThreadId>,
    /// When; `None`: not in the trace.
    pub born: Option<i64>,
    /// What it does.
    pub state: State,
    /// Since when \[ns since 1970\].
    pub since: i64,
    pub(crate) gaps: u32,
    pub(crate) open: Option<OpenCall>,
    /// Who wakes it while it still runs, on its way to sleep.
    pub(crate) wakes: Option<Waker>,
    /// The last wait in a call that may give up: what the call returns, says whether it did.
    pub(crate) may_time_out: Option<Interval>,
    /// One of its system calls was seen, so that all are.
    pub(crate) has_calls: bool,
    /// One of its records was seen, made on a CPU that it had.
    pub(crate) is_seen: bool,
    /// It began in the trace, and has not entered a system call.
    pub(crate) is_new: bool,
    /// When it touched memory that was not there; `NEVER`: it has entered a system call, left one or slept since.
    pub(crate) fault: i64,
    /// It was sent a signal since it ran last.
    pub(crate) is_signalled: bool,
    pub(crate) is_exiting: bool,
    pub(crate) wants_name: bool,
    /// The name as the scheduler had it last.
    pub(crate) short: [u8; 16],
    /// Descriptors, if they are other than its process'.
    pub(crate) files: Option<TableId>,
    /// The folder in which its process' paths begin; its own, if it has one.
    pub(crate) folder: WorkingFolder,
    /// It has one of its own.
    pub(crate) has_folder: bool,
    /// What the states were that have ended.
    pub(crate) spent: Spent,
    /// Spans that have begun, in each other.
    pub(crate) spans: Vec<OpenSpan>,
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
            state: State::Unknown,
            since,
            gaps,
            open: None,
            wakes: None,
            may_time_out: None,
            has_calls: false,
            is_seen: false,
            is_new: false,
            fault: NEVER,
            is_signalled: false,
            is_exiting: false,
            wants_name: true,
            short: [0; 16],
            files: None,
            folder: WorkingFolder::default(),
            has_folder: false,
            spent: Spent::default(),
            spans: Vec::new(),
        }
    }

    /// What its time went to, up to then.
    pub(crate) fn spent(&self, now: i64) -> Spent {
        let nanos = now.max(self.since).abs_diff(self.since);
        self.spent.plus(self.state.spent(nanos))
    }

    /// Whether anything was known of its states.
    #[must_use]
    pub fn has_states(&self) -> bool {
        self.spent.is_known()
    }

    /// The spans that it is in, the outermost first: names, and addresses of what they are of.
    pub fn in_spans(&self) -> impl ExactSizeIterator<Item = (Name, Option<u64>)> + '_ {
        self.spans.iter().map(|span| (span.name, span.address))
    }

    /// The system call that it is in, and since when \[ns since 1970\].
    #[must_use]
    pub fn in_call(&self) -> Option<(CallId, i64)> {
        self.open.map(|open| (open.call, open.begin))
    }
}

/// All threads.
#[derive(Debug)]
pub struct Threads {
    all: Vec<Thread>,
    /// By machine; then by page of numbers of the system.
    pages: Vec<Vec<Option<Box<[u32; PAGE]>>>>,
    left_out: u64,
    changes: u64,
}

impl Default for Threads {
    fn default() -> Threads {
        Threads { all: vec![Thread::new(0, 0, 0, 0)], pages: Vec::new(), left_out: 0, changes: 0 }
    }
}

impl Threads {
    /// The thread.
    #[must_use]
    #[inline]
    pub fn get(&self, id: ThreadId) -> Option<&Thread> {
        self.all.get(id.index())
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: ThreadId) -> Option<&mut Thread> {
        self.all.get_mut(id.index())
    }

    /// All of them, without the idle one.
    pub fn iter(&self) -> impl Iterator<Item = (ThreadId, &Thread)> {
        (1..).map(ThreadId).zip(self.all.iter().skip(1))
    }

    /// Who has this number now.
    #[must_use]
    #[inline]
    pub fn find(&self, machine: u8, tid: i64) -> Option<ThreadId> {
        let tid = usize::try_from(tid).ok()?;
        let page = self.pages.get(usize::from(machine))?.get(tid / PAGE)?.as_ref()?;
        page.get(tid % PAGE).copied().filter(|&slot| slot != 0).map(ThreadId)
    }

    /// Give this number to a new thread; `None`: it is none, or there are too many.
    pub(crate) fn add(&mut self, thread: Thread) -> Option<ThreadId> {
        if thread.tid <= 0 || i64::from(thread.tid) >= TIDS {
            return None;
        }
        if self.all.len() >= THREADS_MAX {
            self.left_out = self.left_out.saturating_add(1);
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

    /// As long as this is the same, each number is the same thread's, and that one of the same process.
    #[must_use]
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn has_changed(&mut self) {
        self.changes += 1;
    }

    /// How often a thread was asked for that was one too many.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests;

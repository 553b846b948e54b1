//! What a timeline tells.

use strata_ctf::read::Event;

use crate::calls::CallId;
use crate::counters::CounterValue;
use crate::hidden::Unfollowed;
use crate::id::ThreadId;
use crate::names::Name;
use crate::spans::{AloneSpan, Span};
use crate::state::{Interval, Object};
use crate::world::World;

/// A system call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The thread that called.
    pub thread: ThreadId,
    /// The kind of call, by its number in the timeline's names.
    pub call: CallId,
    /// When it began \[ns since 1970\].
    pub begin: i64,
    /// When it was over.
    pub end: i64,
    /// What it returned.
    pub result: Option<i64>,
    /// What it was about: what its descriptor was opened for when it began, if that is known.
    pub object: Object,
    /// What it copied to, if it copied from `object`.
    pub target: Object,
    /// The path that it names; only of calls that open it, unless the observer wants [files](Observer::FILES).
    pub path: Name,
    /// A futex' operation; the command of fcntl() and ioctl().
    pub control: Option<i64>,
    /// Whether the record of its begin or that of its end was selected.
    pub selected: bool,
}

impl Call {
    /// How long it took \[ns\].
    #[must_use]
    #[inline]
    pub fn nanos(&self) -> u64 {
        self.end.abs_diff(self.begin)
    }

    /// The number of the error that it returned.
    #[must_use]
    #[inline]
    pub fn error(&self) -> Option<u16> {
        let number = self.result.filter(|result| (-4095..0).contains(result))?;
        u16::try_from(-number).ok()
    }
}

/// Why a system call has no length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unpaired {
    /// Its begin is not in the trace.
    NoBegin,
    /// Its end is not in the trace: it had none when the trace ended.
    NoEnd,
    /// Records were discarded in between.
    Gap,
}

/// A system call of which nobody knows how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpairedCall {
    /// The thread that called.
    pub thread: ThreadId,
    /// The kind of call.
    pub call: CallId,
    /// When the record was that is alone, of its begin or of its end \[ns since 1970\].
    pub time: i64,
    /// Why it is alone.
    pub why: Unpaired,
    /// Whether that record was selected.
    pub selected: bool,
}

/// What interrupts a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interrupt {
    /// Of a device.
    Device(i32),
    /// What is left to do after one.
    Softirq(u8),
}

/// What a CPU did for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The CPU's number in its machine.
    pub cpu: u32,
    /// What it ran, [`ThreadId::IDLE`] too; `None`: the trace does not say.
    pub thread: Option<ThreadId>,
    /// From when on \[ns since 1970\].
    pub from: i64,
    /// Up to when.
    pub to: i64,
    /// Whether a switch to another thread has ended it.
    pub is_switch: bool,
}

/// What a disk is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestKind {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To forget what is there.
    Discard,
    /// To keep what it was told.
    Flush,
    /// Something else.
    Other,
}

/// A request to a disk that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    /// Which disk, as the kernel numbers it.
    pub device: u32,
    /// Where on it, in sectors of 512 bytes; of what is about no place, as the kernel has it.
    pub sector: u64,
    /// What it was asked for.
    pub kind: RequestKind,
    /// How much of that.
    pub bytes: u64,
    /// The thread that ran when the disk was asked; often the kernel's.
    pub thread: Option<ThreadId>,
    /// Since when the request was in the disk's queue, if a record tells that.
    pub queued: Option<i64>,
    /// When it was asked \[ns since 1970\].
    pub begin: i64,
    /// When it was done.
    pub end: i64,
    /// It was not done.
    pub is_error: bool,
    /// Whether a record of it was selected.
    pub selected: bool,
}

/// Who wants to know what has come to an end. Each is told in the order of the ends.
pub trait Observer {
    /// Whether it looks at states: if not, what a thread was blocked in may be [`Object::None`], which is quicker.
    const STATES: bool = true;
    /// Whether it looks at what system calls are about: if not, that may be [`Object::None`].
    const FILES: bool = false;
    /// Whether it looks at system calls: if neither at these nor at states, their records are passed over.
    const CALLS: bool = true;
    /// Whether it looks at interrupts: if neither at these nor at states, their records are passed over.
    const INTERRUPTS: bool = true;
    /// Whether it looks at records.
    const RECORDS: bool = false;

    /// A record, when all is told that follows from it; `who` is the thread that it is of.
    fn record(&mut self, _: &World, _event: &Event<'_>, _who: Option<ThreadId>, _selected: bool) {}

    /// A system call.
    fn call(&mut self, _world: &World, _call: &Call) {}

    /// A system call of which nobody knows how long it took.
    fn unpaired(&mut self, _world: &World, _call: &UnpairedCall) {}

    /// A record has said of which process a thread is, by whom it was begun, and its name.
    fn known(&mut self, _world: &World, _thread: ThreadId) {}

    /// A thread is about to end.
    fn exits(&mut self, _world: &World, _thread: ThreadId) {}

    /// A thread's state.
    fn state(&mut self, _world: &World, _thread: ThreadId, _interval: &Interval) {}

    /// A thread's wait that was told last was not ended by who was told, but by its timer: no record tells of that
    /// interrupt, and the call has returned now that its time was over.
    fn timed_out(&mut self, _world: &World, _thread: ThreadId, _interval: &Interval) {}

    /// An interrupt, in the thread that a CPU ran.
    fn interrupt(
        &mut self,
        _world: &World,
        _cpu: u32,
        _thread: Option<ThreadId>,
        _which: Interrupt,
        _from: i64,
        _to: i64,
    ) {
    }

    /// So long after it was first to be done, a softirq begins \[ns\].
    fn softirq_begins(&mut self, _world: &World, _cpu: u32, _number: u8, _delay: u64) {}

    /// What a CPU did.
    fn ran(&mut self, _world: &World, _run: &Run) {}

    /// A switch does not follow from the one before on its CPU, although no record is known to be discarded between them.
    fn unfollowed(&mut self, _world: &World, _of: &Unfollowed) {}

    /// A request to a disk is done.
    fn request(&mut self, _world: &World, _request: &DiskRequest) {}

    /// A thread's wait that was told last was ended in the interrupt that has just said that this request is done.
    fn waited_for(&mut self, _world: &World, _thread: ThreadId, _: &Interval, _: &DiskRequest) {}

    /// A span.
    fn span(&mut self, _world: &World, _span: &Span) {}

    /// A begin or an end of a span, of which nobody knows how long it took.
    fn alone(&mut self, _world: &World, _span: &AloneSpan) {}

    /// A record has said what a counter is from then on.
    fn counter(&mut self, _world: &World, _value: &CounterValue) {}

    /// A counter was that up to then: another record has said its value, records that may have said one were discarded, or
    /// the trace is over.
    fn counter_over(&mut self, _world: &World, _value: &CounterValue, _to: i64) {}
}

/// Both are told.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const STATES: bool = A::STATES || B::STATES;
    const CALLS: bool = A::CALLS || B::CALLS;
    const FILES: bool = A::FILES || B::FILES;
    const INTERRUPTS: bool = A::INTERRUPTS || B::INTERRUPTS;
    const RECORDS: bool = A::RECORDS || B::RECORDS;

    fn record(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>, selected: bool) {
        self.0.record(world, event, who, selected);
        self.1.record(world, event, who, selected);
    }

    fn call(&mut self, world: &World, call: &Call) {
        self.0.call(world, call);
        self.1.call(world, call);
    }

    fn unpaired(&mut self, world: &World, call: &UnpairedCall) {
        self.0.unpaired(world, call);
        self.1.unpaired(world, call);
    }

    fn known(&mut self, world: &World, thread: ThreadId) {
        self.0.known(world, thread);
        self.1.known(world, thread);
    }

    fn exits(&mut self, world: &World, thread: ThreadId) {
        self.0.exits(world, thread);
        self.1.exits(world, thread);
    }

    fn state(&mut self, world: &World, thread: ThreadId, interval: &Interval) {
        self.0.state(world, thread, interval);
        self.1.state(world, thread, interval);
    }

    fn timed_out(&mut self, world: &World, thread: ThreadId, interval: &Interval) {
        self.0.timed_out(world, thread, interval);
        self.1.timed_out(world, thread, interval);
    }

    fn interrupt(
        &mut self,
        world: &World,
        cpu: u32,
        thread: Option<ThreadId>,
        which: Interrupt,
        from: i64,
        to: i64,
    ) {
        self.0.interrupt(world, cpu, thread, which, from, to);
        self.1.interrupt(world, cpu, thread, which, from, to);
    }

    fn softirq_begins(&mut self, world: &World, cpu: u32, number: u8, delay: u64) {
        self.0.softirq_begins(world, cpu, number, delay);
        self.1.softirq_begins(world, cpu, number, delay);
    }

    fn ran(&mut self, world: &World, run: &Run) {
        self.0.ran(world, run);
        self.1.ran(world, run);
    }

    fn unfollowed(&mut self, world: &World, of: &Unfollowed) {
        self.0.unfollowed(world, of);
        self.1.unfollowed(world, of);
    }

    fn request(&mut self, world: &World, request: &DiskRequest) {
        self.0.request(world, request);
        self.1.request(world, request);
    }

    fn waited_for(&mut self, world: &World, thread: ThreadId, wait: &Interval, of: &DiskRequest) {
        self.0.waited_for(world, thread, wait, of);
        self.1.waited_for(world, thread, wait, of);
    }

    fn span(&mut self, world: &World, span: &Span) {
        self.0.span(world, span);
        self.1.span(world, span);
    }

    fn alone(&mut self, world: &World, span: &AloneSpan) {
        self.0.alone(world, span);
        self.1.alone(world, span);
    }

    fn counter(&mut self, world: &World, value: &CounterValue) {
        self.0.counter(world, value);
        self.1.counter(world, value);
    }

    fn counter_over(&mut self, world: &World, value: &CounterValue, to: i64) {
        self.0.counter_over(world, value, to);
        self.1.counter_over(world, value, to);
    }
}

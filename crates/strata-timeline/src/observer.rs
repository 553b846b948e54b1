//! The client of a timeline: the results that it receives, and when.
//!
//! An [`Observer`] receives each result when its end is known, in the order of the ends: a system call when it returns,
//! a state when the next one begins. Each method also gets the [`World`] as it is at that time, so names and processes
//! need not be copied into the results. Results are `Copy` where they can be, and hold numbers instead of texts.
//!
//! Optional state costs time for each record. The constants of the trait say which optional state an observer needs.
//! The timeline is compiled for each observer, so code that it does not need is left out. A pair of observers is an
//! observer as well, and needs what either needs.

use strata_ctf::read::Event;

use crate::counters::CounterValue;
use crate::ids::calls::CallId;
use crate::ids::names::Name;
use crate::ids::thread_id::ThreadId;
use crate::spans::{Span, UnpairedSpan};
use crate::world::hidden_threads::Unfollowed;
use crate::world::state::{Interval, Object};
use crate::world::World;

/// A system call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The thread that called.
    pub thread: ThreadId,
    /// The kind of call, by its number in the timeline's names.
    pub call: CallId,
    /// The begin of the call \[ns since 1970\].
    pub begin: i64,
    /// The end of the call \[ns since 1970\].
    pub end: i64,
    /// The return value, which is a negative error number if the call has failed; `None` if the record does not have
    /// it.
    pub result: Option<i64>,
    /// The object of the call: what its descriptor was opened for when the call began, if that is known.
    pub object: Object,
    /// The object to which the call copies, if it copies from `object`.
    pub target: Object,
    /// The path in the call's arguments. It is kept only for calls that open it, unless the observer needs
    /// [files](Observer::FILES).
    pub path: Name,
    /// The operation of a futex, or the command of fcntl() and ioctl().
    pub control: Option<i64>,
    /// True if the record of the begin or of the end was selected.
    pub selected: bool,
}

impl Call {
    /// Returns the length \[ns\].
    #[must_use]
    #[inline]
    pub fn nanos(&self) -> u64 {
        self.end.abs_diff(self.begin)
    }

    /// Returns the number of the error, if the call has failed.
    #[must_use]
    #[inline]
    pub fn error(&self) -> Option<u16> {
        let number = self.result.filter(|result| (-4095..0).contains(result))?;
        u16::try_from(-number).ok()
    }
}

/// The reason why the length of a system call is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unpaired {
    /// The begin is not in the trace.
    NoBegin,
    /// The end is not in the trace: the call had not returned when the trace ended.
    NoEnd,
    /// Records were discarded after the begin.
    Gap,
}

/// A system call of which only one end is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpairedCall {
    /// The thread that called.
    pub thread: ThreadId,
    /// The kind of call.
    pub call: CallId,
    /// The time of the end that is known \[ns since 1970\].
    pub time: i64,
    /// The reason for which the other end is not known.
    pub why: Unpaired,
    /// True if the client selected the call's only record (that of its begin or of its return), for example by
    /// a filter.
    pub selected: bool,
}

/// The kind of an interrupt of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interrupt {
    /// The interrupt of a device, by its number.
    Device(i32),
    /// A softirq, by its number: work that the kernel does after an interrupt.
    Softirq(u8),
}

/// A period in which a CPU ran one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The CPU's number in its machine.
    pub cpu: u32,
    /// The thread that the CPU ran, [`ThreadId::IDLE`] included; `None` if the trace does not say.
    pub thread: Option<ThreadId>,
    /// The begin \[ns since 1970\].
    pub from: i64,
    /// The end \[ns since 1970\].
    pub to: i64,
    /// True if a switch to another thread ended the run.
    pub is_switch: bool,
}

/// The operation of a request to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestKind {
    /// The request reads sectors.
    Read,
    /// The request writes sectors.
    Write,
    /// The request discards sectors: their content is not needed any more.
    Discard,
    /// The request writes what the disk has in its cache.
    Flush,
    /// Another operation, or an unknown one.
    Other,
}

/// A completed request to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    /// The number of the disk in the kernel: 12 bits of major and 20 bits of minor number.
    pub device: u32,
    /// The first sector, of 512 bytes each. For a request without a place, the number that the kernel gives.
    pub sector: u64,
    /// The operation of the request.
    pub kind: RequestKind,
    /// The length of the request \[byte\].
    pub bytes: u64,
    /// The thread that ran when the disk got the request; often a thread of the kernel.
    pub thread: Option<ThreadId>,
    /// The time at which the request was put into the disk's queue \[ns since 1970\], if it is recorded.
    pub queued: Option<i64>,
    /// The time at which the disk got the request \[ns since 1970\].
    pub begin: i64,
    /// The time at which the disk completed the request \[ns since 1970\].
    pub end: i64,
    /// True if the disk reported an error.
    pub is_error: bool,
    /// True if a record of the request was selected.
    pub selected: bool,
}

/// The client of a timeline. Each method is called when something has ended, in the order of the ends. By default,
/// methods do nothing.
pub trait Observer {
    /// True if the observer needs the states of threads. If false, the object in which a thread was blocked may be
    /// [`Object::None`], which is faster.
    const STATES: bool = true;
    /// True if the observer needs the objects of system calls. If false, they may be [`Object::None`].
    const FILES: bool = false;
    /// True if the observer needs system calls. If this and [`Observer::STATES`] are false, their records are ignored.
    const CALLS: bool = true;
    /// True if the observer needs interrupts. If this and [`Observer::STATES`] are false, their records are ignored.
    const INTERRUPTS: bool = true;
    /// True if [`Observer::record`] is to be called.
    const RECORDS: bool = false;

    /// Called for each record, after all calls that follow from it. `who` is the thread of the record.
    fn record(&mut self, _: &World, _event: &Event<'_>, _who: Option<ThreadId>, _selected: bool) {}

    /// Called when a system call has returned.
    fn call(&mut self, _world: &World, _call: &Call) {}

    /// Called for a system call of which only one end is known.
    fn unpaired(&mut self, _world: &World, _call: &UnpairedCall) {}

    /// Called when the process, the parent or the name of a thread has become known.
    fn known(&mut self, _world: &World, _thread: ThreadId) {}

    /// Called when a thread is about to end.
    fn exits(&mut self, _world: &World, _thread: ThreadId) {}

    /// Called when a state of a thread has ended.
    fn state(&mut self, _world: &World, _thread: ThreadId, _interval: &Interval) {}

    /// Called when the waker that was reported for a thread's last wait was wrong, because a timeout ended the wait.
    /// The timer's interrupt is not recorded, but the result of the call says that it timed out. A request that was
    /// reported for this wait by [`Observer::waited_for`] did not end it either.
    fn timed_out(&mut self, _world: &World, _thread: ThreadId, _interval: &Interval) {}

    /// Called when an interrupt has ended. `_thread` is the thread that the CPU ran.
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

    /// Called when a softirq begins, `_delay` nanoseconds after it was first raised.
    fn softirq_begins(&mut self, _world: &World, _cpu: u32, _number: u8, _delay: u64) {}

    /// Called when a CPU's run has ended, or a part of the run is known.
    fn ran(&mut self, _world: &World, _run: &Run) {}

    /// Called for a switch that is not from the thread of the previous switch on its CPU, although no record between
    /// them is known to be discarded.
    fn unfollowed(&mut self, _world: &World, _of: &Unfollowed) {}

    /// Called when a request to a disk is completed.
    fn request(&mut self, _world: &World, _request: &DiskRequest) {}

    /// Called when the interrupt that has just completed a disk request has ended a thread's last wait.
    fn waited_for(&mut self, _world: &World, _thread: ThreadId, _: &Interval, _: &DiskRequest) {}

    /// Called when a span has ended.
    fn span(&mut self, _world: &World, _span: &Span) {}

    /// Called for a begin or an end of a span without its partner.
    fn unpaired_span(&mut self, _world: &World, _span: &UnpairedSpan) {}

    /// Called when a record has a value of a counter.
    fn counter(&mut self, _world: &World, _value: &CounterValue) {}

    /// Called when a value of a counter ends, at `_to`: another record has the next value, records that may have had
    /// one were discarded, or the trace has ended.
    fn counter_over(&mut self, _world: &World, _value: &CounterValue, _to: i64) {}
}

/// Reports to both observers, the first one first.
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

    fn unpaired_span(&mut self, world: &World, span: &UnpairedSpan) {
        self.0.unpaired_span(world, span);
        self.1.unpaired_span(world, span);
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

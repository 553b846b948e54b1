//! What a timeline tells.

use strata_ctf::read::Event;

use crate::calls::CallId;
use crate::id::ThreadId;
use crate::spans::{AloneSpan, Span};
use crate::state::{Object, State, Waker};
use crate::world::World;

/// A system call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Who made it.
    pub thread: ThreadId,
    /// The kind of call, by its number in the timeline's names.
    pub call: CallId,
    /// When it began \[ns since 1970\].
    pub begin: i64,
    /// When it was over.
    pub end: i64,
    /// What it returned.
    pub result: Option<i64>,
    /// What it was about.
    pub object: Object,
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

/// What interrupts a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interrupt {
    /// Of a device.
    Device(i32),
    /// What is left to do after one.
    Softirq(u8),
}

/// Who wants to know what has come to an end. Each is told in the order of the ends.
pub trait Observer {
    /// Whether it looks at states: if not, what a thread was blocked in may be [`Object::None`], which is quicker.
    const STATES: bool = true;
    /// Whether it looks at records.
    const RECORDS: bool = false;

    /// A record, when all is told that follows from it; `who` is the thread that it is of.
    fn record(&mut self, _: &World, _event: &Event<'_>, _who: Option<ThreadId>, _selected: bool) {}

    /// A system call.
    fn call(&mut self, _world: &World, _call: &Call) {}

    /// A system call of which nobody knows how long it took. `selected` is as in [`Call::selected`].
    fn unpaired(
        &mut self,
        _world: &World,
        _thread: ThreadId,
        _call: CallId,
        _why: Unpaired,
        _selected: bool,
    ) {
    }

    /// A thread's state.
    fn state(&mut self, _world: &World, _thread: ThreadId, _interval: &Interval) {}

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

    /// A span.
    fn span(&mut self, _world: &World, _span: &Span) {}

    /// A begin or an end of a span, of which nobody knows how long it took.
    fn alone(&mut self, _world: &World, _span: &AloneSpan) {}
}

/// Both are told.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const STATES: bool = A::STATES || B::STATES;
    const RECORDS: bool = A::RECORDS || B::RECORDS;

    fn record(&mut self, world: &World, event: &Event<'_>, who: Option<ThreadId>, selected: bool) {
        self.0.record(world, event, who, selected);
        self.1.record(world, event, who, selected);
    }

    fn call(&mut self, world: &World, call: &Call) {
        self.0.call(world, call);
        self.1.call(world, call);
    }

    fn unpaired(
        &mut self,
        world: &World,
        thread: ThreadId,
        call: CallId,
        why: Unpaired,
        selected: bool,
    ) {
        self.0.unpaired(world, thread, call, why, selected);
        self.1.unpaired(world, thread, call, why, selected);
    }

    fn state(&mut self, world: &World, thread: ThreadId, interval: &Interval) {
        self.0.state(world, thread, interval);
        self.1.state(world, thread, interval);
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

    fn span(&mut self, world: &World, span: &Span) {
        self.0.span(world, span);
        self.1.span(world, span);
    }

    fn alone(&mut self, world: &World, span: &AloneSpan) {
        self.0.alone(world, span);
        self.1.alone(world, span);
    }
}

//! A unit: the text that a worker makes of successive records, with marks at places that it cannot complete.

use std::ops::Range;
use std::sync::Arc;

use strata_ctf::read::DeferredArgument;
use strata_model::ByteOrder;
use strata_timeline::Step;

use super::completion_key::ThreadOrCpu;
use super::deferrable_fields::Unread;
use super::deferred_arguments::Deferrable;
use super::thread_column::Comm;

/// The byte of a line before which the thread is to be inserted, if the line lacks it.
pub(super) type Hole = Option<(usize, ThreadOrCpu)>;

/// A line that may lack its end, its thread, and the files of its descriptors.
#[derive(Debug, Default)]
pub(super) struct UnitLine {
    pub(super) bytes: Vec<u8>,
    pub(super) hole: Hole,
    /// Descriptors that may have a path, each with the place to insert it: after the hole, in order.
    pub(super) paths: Vec<(usize, i32)>,
}

/// A call whose end is not in the unit.
#[derive(Debug)]
pub(super) struct UnfinishedCall {
    pub(super) key: ThreadOrCpu,
    pub(super) call: Vec<u8>,
    /// The line up to the call's last argument.
    pub(super) line: UnitLine,
    /// The arguments that are absent. Their places are relative to the line's begin, without the text for its hole.
    pub(super) unread: Vec<Unread>,
    pub(super) time: Option<i64>,
    /// True if the begin is selected. Otherwise the call is shown only if its end is selected.
    pub(super) is_selected: bool,
    /// The thread's name if this call succeeds.
    pub(super) program: Option<Comm>,
    /// True if the call's first argument that is a text is the program to execute.
    pub(super) executes: bool,
    /// The arguments that may be recorded later.
    pub(super) deferrable: Option<Arc<Deferrable>>,
    /// The place in the complete line of the remark that the thread's name is unknown.
    pub(super) unnamed: Option<Range<usize>>,
}

/// The end of a call whose begin is not in the unit.
#[derive(Debug)]
pub(super) struct Close {
    pub(super) key: ThreadOrCpu,
    pub(super) call: Vec<u8>,
    /// The line up to the result, which is shown if the begin is not found.
    pub(super) line: UnitLine,
    pub(super) result: Vec<u8>,
    pub(super) time: Option<i64>,
    pub(super) is_selected: bool,
    pub(super) has_succeeded: bool,
}

/// A change that applies at a place in a unit's text.
#[derive(Debug)]
pub(super) enum MarkAction {
    /// The line needs its thread. If no earlier record names the thread, it has the given name from here on.
    Who(ThreadOrCpu, Option<Comm>),
    /// The line needs the file of a thread's descriptor, if the file is known.
    Path(ThreadOrCpu, i32),
    /// A change of descriptors.
    Step(ThreadOrCpu, Box<Step>),
    /// The thread has begun a call that also ends in the unit. If it still has an open call, the end of that is
    /// missing.
    Begun(ThreadOrCpu),
    Open(Box<UnfinishedCall>),
    Close(Box<Close>),
    /// A deferred argument of the thread's open call. If there is no such call, `line` is shown.
    Late {
        key: ThreadOrCpu,
        argument: DeferredArgument,
        order: ByteOrder,
        line: UnitLine,
        is_selected: bool,
    },
    /// The thread was running on the CPU from before the unit up to here.
    Ran {
        cpu: ThreadOrCpu,
        thread: ThreadOrCpu,
    },
    /// The thread has this name, until a later record says something else.
    Told(ThreadOrCpu, Comm),
    /// A gap in a trace, or in any trace if `None`. Calls that are open here have no known end.
    Gap(Option<usize>),
}

/// A mark with its place in the text.
#[derive(Debug)]
pub(super) struct UnitMark {
    /// The byte of the text at which the mark is.
    pub(super) at: usize,
    /// The number of the unit's event records before the mark.
    pub(super) event: u64,
    pub(super) what: MarkAction,
}

/// Successive event records as a unit, whose text is passed separately.
#[derive(Debug, Default)]
pub struct Unit {
    pub(super) marks: Vec<UnitMark>,
    /// The number of event records, including those that are not shown.
    pub(super) events: u64,
    /// The names of threads that the unit's records say, in order.
    pub(super) told: Vec<(ThreadOrCpu, Comm)>,
    /// The running thread of each CPU at the end of the unit.
    pub(super) running: Vec<(ThreadOrCpu, i64)>,
    /// The number of lines of state dumps that are not shown.
    pub(super) hidden: u64,
}

//! What a worker makes of event records that follow each other: text, and what it cannot know in it.

use strata_timeline::Step;

use super::key::ThreadOrCpu;
use super::late::Unread;
use super::who::Comm;

/// Whose a line is, if that is not in it: in front of this byte.
pub(super) type Hole = Option<(usize, ThreadOrCpu)>;

/// A line, or its begin, without its end.
#[derive(Debug, Default)]
pub(super) struct UnitLine {
    pub(super) bytes: Vec<u8>,
    pub(super) hole: Hole,
    /// Descriptors that may have a path, and where it is shown: behind the hole, in order.
    pub(super) paths: Vec<(usize, i32)>,
}

/// A call whose end is not in the unit.
#[derive(Debug)]
pub(super) struct UnfinishedCall {
    pub(super) key: ThreadOrCpu,
    pub(super) call: Vec<u8>,
    /// Up to its last argument.
    pub(super) line: UnitLine,
    /// What of it is absent; places count from the line's begin, without what is put into its hole.
    pub(super) unread: Vec<Unread>,
    pub(super) time: Option<i64>,
    /// Else only if its end is selected.
    pub(super) is_selected: bool,
    /// What the thread is called if this succeeds.
    pub(super) program: Option<Comm>,
    /// Its first argument that is a text is a program.
    pub(super) executes: bool,
}

/// The end of a call whose begin is not in the unit.
#[derive(Debug)]
pub(super) struct Close {
    pub(super) key: ThreadOrCpu,
    pub(super) call: Vec<u8>,
    /// What is shown if the begin is not found, up to the result.
    pub(super) line: UnitLine,
    pub(super) result: Vec<u8>,
    pub(super) time: Option<i64>,
    pub(super) is_selected: bool,
    pub(super) has_succeeded: bool,
}

/// What is to be done between two bytes of a unit's text.
#[derive(Debug)]
pub(super) enum MarkAction {
    /// Say whose the line is.
    Who(ThreadOrCpu),
    /// Say what a thread's descriptor is for, if that is known.
    Path(ThreadOrCpu, i32),
    /// Descriptors change.
    Step(ThreadOrCpu, Box<Step>),
    /// The thread has entered a call that has ended in the unit: one of it that is open has no end.
    Begun(ThreadOrCpu),
    Open(Box<UnfinishedCall>),
    Close(Box<Close>),
    /// The text of an argument of the thread's open call; the line of the record, if there is no such call.
    Late {
        key: ThreadOrCpu,
        argument: usize,
        text: Vec<u8>,
        line: UnitLine,
        is_selected: bool,
    },
    /// The thread ran on the CPU up to now, and since before the unit.
    Ran {
        cpu: ThreadOrCpu,
        thread: ThreadOrCpu,
    },
    /// A thread is called so, as long as what follows does not say something else.
    Told(ThreadOrCpu, Comm),
    /// Records of a trace are not there: no call has its end behind it. `None`: of any trace.
    Gap(Option<usize>),
}

/// The same, and where.
#[derive(Debug)]
pub(super) struct UnitMark {
    /// Byte of the text.
    pub(super) at: usize,
    /// Event records of the unit in front of it.
    pub(super) event: u64,
    pub(super) what: MarkAction,
}

/// Event records that follow each other; their text is elsewhere.
#[derive(Debug, Default)]
pub struct Unit {
    pub(super) marks: Vec<UnitMark>,
    /// Event records, those that are not shown included.
    pub(super) events: u64,
    /// Names of threads that were said in it, in order.
    pub(super) told: Vec<(ThreadOrCpu, Comm)>,
    /// Who runs at its end, by CPU.
    pub(super) running: Vec<(ThreadOrCpu, i64)>,
    /// Lines that are not shown as they are of what was there when recording began.
    pub(super) hidden: u64,
}

//! A row: a line of a unit that is being made, or a mark between two lines.
//!
//! Rows refer to the unit's text by ranges. The row of a system call stays open until the call's exit comes.

use std::ops::Range;
use std::sync::Arc;

use super::call_classes::CallNumber;
use super::completion_key::ThreadOrCpu;
use super::deferrable_fields::Unread;
use super::deferred_arguments::Deferrable;
use super::text_unit::{Hole, MarkAction};
use super::thread_column::Comm;

/// The kind of a row.
#[derive(Debug)]
pub(super) enum ShortRowKind {
    /// A complete line.
    Line,
    /// A line for both ends of a system call.
    Call { key: ThreadOrCpu, id: CallNumber, time: Option<i64>, state: CallState },
    /// A mark that has no text.
    Mark(MarkAction),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallState {
    /// The call has not ended.
    Open,
    /// The call has ended.
    Done,
    /// The end of the call is missing: the thread has begun another call since.
    Abandoned,
}

/// Properties that few calls have.
#[derive(Debug, Default)]
pub(super) struct Extra {
    pub(super) unread: Vec<Unread>,
    pub(super) paths: Vec<(usize, i32)>,
    pub(super) program: Option<Comm>,
    /// True if the call's first argument that is a text is the program to execute.
    pub(super) executes: bool,
    pub(super) deferrable: Option<Arc<Deferrable>>,
}

/// A line, or a mark between two lines.
#[derive(Debug)]
pub(super) struct ShortRow {
    pub(super) text: Range<usize>,
    pub(super) hole: Hole,
    pub(super) result: Range<usize>,
    pub(super) event: u64,
    pub(super) is_shown: bool,
    pub(super) kind: ShortRowKind,
    pub(super) extra: Option<Box<Extra>>,
    /// The thread's name after the call, if the call executes another program.
    pub(super) program: Option<Comm>,
}

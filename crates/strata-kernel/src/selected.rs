//! What is asked of a session, and what it says while it does that.

use crate::contexts::Contexts;
use crate::event::KernelEvent;

/// One event, and what of it is recorded.
#[derive(Clone, Debug)]
pub struct SelectedEvent {
    /// The event.
    pub event: KernelEvent,
    /// Of a system call: its entry. True of every other event.
    pub entry: bool,
    /// Of a system call: its exit.
    pub exit: bool,
    /// Which of its records; of a system call, of those of its entry.
    pub filter: Option<strata_filter::Filter>,
    /// Of a system call, which records of its exit.
    pub exit_filter: Option<strata_filter::Filter>,
    /// What its records say beside those of all.
    pub contexts: Contexts,
}

/// How far attaching has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachProgress {
    /// Programs that are done with, refused ones included.
    pub attached: usize,
    /// All of them.
    pub total: usize,
}

/// An event that is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnrecordedEvent {
    /// Its name; of system calls, all that one program records.
    pub event: String,
    /// What the kernel or the rule's reader said, as text.
    pub reason: String,
}

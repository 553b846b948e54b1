//! The events that a session records, and the reports of attaching their programs.

use crate::decide::contexts::Contexts;
use crate::decide::event::KernelEvent;
use crate::decide::sampling::Sampling;

/// An event, and the selection of its records.
#[derive(Clone, Debug)]
pub struct SelectedEvent {
    pub event: KernelEvent,
    /// True if a system call's entry is recorded; true for every other event.
    pub entry: bool,
    /// True if a system call's exit is recorded.
    pub exit: bool,
    /// Filter of the records; for a system call, of its entries.
    pub filter: Option<strata_filter::Filter>,
    /// Filter of the records of a system call's exit.
    pub exit_filter: Option<strata_filter::Filter>,
    /// Least duration of a system call of which both ends are recorded, in whole microseconds \[ns\]; 0 records all.
    pub slower: u64,
    /// True to record only calls that waited, if the kernel can tell, because looking at each short call costs too
    /// much. Meaningless without `slower`.
    pub waited: bool,
    /// The share of the event's records that is written; of a system call, of both ends together.
    pub sampling: Sampling,
    /// Contexts of the event's records, besides those of all events.
    pub contexts: Contexts,
}

impl SelectedEvent {
    /// Returns whether it is decided only at the return of a system call whether both its ends are recorded.
    pub(crate) fn is_recorded_at_exit(&self) -> bool {
        self.slower > 0 || !self.sampling.is_all()
    }

    /// Selects all records of an event, with the contexts that all events have. Callers change single fields:
    ///
    /// ```text
    /// SelectedEvent { exit: false, filter, ..SelectedEvent::all_records(event) }
    /// ```
    pub fn all_records(event: KernelEvent) -> SelectedEvent {
        SelectedEvent {
            event,
            entry: true,
            exit: true,
            filter: None,
            exit_filter: None,
            slower: 0,
            waited: false,
            sampling: Sampling::ALL,
            contexts: Contexts::default(),
        }
    }
}

/// Progress of attaching programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachProgress {
    /// Number of programs that are attached or refused.
    pub attached: usize,
    /// The number of programs to attach.
    pub total: usize,
}

/// An event that is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnrecordedEvent {
    /// Name of the event; for system calls, the names of all that one program records.
    pub event: String,
    /// The message of the kernel, or of the parser of rules.
    pub reason: String,
}

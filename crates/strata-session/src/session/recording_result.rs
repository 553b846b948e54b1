//! The result of a recording.

use crate::report::Report;
use crate::session::detach_later::Detaching;

/// A recording that has ended.
#[derive(Debug)]
pub struct Recording {
    /// The report of the recording.
    pub report: Report,
    /// Work that its layers have left to other processes.
    pub detaching: Detaching,
}

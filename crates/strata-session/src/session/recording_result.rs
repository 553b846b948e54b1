//! The result of a recording.

use crate::report::Report;
use crate::session::detach_later::Detaching;

/// A recording that has ended.
#[derive(Debug)]
pub struct Recording {
    /// The final report of the recording.
    pub report: Report,
    /// The detaching of BPF programs, which the recording has left to another process.
    pub detaching: Detaching,
}

//! What is left of a recording.

use crate::detach::Detaching;
use crate::report::Report;

/// A recording that has ended.
#[derive(Debug)]
pub struct Recording {
    /// What there is to say of it.
    pub report: Report,
    /// What is still to be done in the kernel.
    pub detaching: Detaching,
}

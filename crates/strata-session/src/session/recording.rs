//! What is left of a recording.

use crate::report::Report;
use crate::session::detach::Detaching;

/// A recording that has ended.
#[derive(Debug)]
pub struct Recording {
    /// What there is to say of it.
    pub report: Report,
    /// What is still to be done in the kernel.
    pub detaching: Detaching,
}

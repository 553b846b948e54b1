//! What is left of a recording.

use crate::report::Report;
use crate::session::detaching::Detaching;

/// A recording that has ended.
#[derive(Debug)]
pub struct Recording {
    /// What there is to say of it.
    pub report: Report,
    /// What its layers have left to do.
    pub detaching: Detaching,
}

//! The result of resolving probes.

use crate::decide::event::KernelEvent;

/// The events that probes record, and remarks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probes {
    /// The events. Events with the same name have the same fields: they are one event in several places.
    pub events: Vec<KernelEvent>,
    /// Messages about parts of the probes that are not recorded, with the reasons.
    pub remarks: Vec<String>,
}

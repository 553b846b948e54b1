//! What `--probe` comes to.

use crate::event::KernelEvent;

/// What probes record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probes {
    /// The events. Those with one name have the same fields: they are one event in several places.
    pub events: Vec<KernelEvent>,
    /// What is not recorded, and why: whole sentences.
    pub remarks: Vec<String>,
}

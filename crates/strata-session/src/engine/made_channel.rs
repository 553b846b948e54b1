//! A channel of a session that has a layer.

use crate::options::Options;
use crate::plan::{LayerOf, Plan, CHANNEL};
use crate::session::layer::Wanted;

/// A channel that has a layer.
pub(super) struct MadeChannel {
    pub(super) layer: LayerOf,
    pub(super) channel: String,
    /// Index of the layer in the session.
    pub(super) index: usize,
    pub(super) wanted: Wanted,
    /// The request with which the layer was created.
    pub(super) first: Wanted,
    /// The options with which the channel was created, which do not change.
    pub(super) options: Options,
    pub(super) is_paused: bool,
}

impl MadeChannel {
    /// Returns whether this is the kernel's channel of a session with a command or named processes, and nobody has named
    /// the kernel's events, neither at the beginning nor later.
    pub(super) fn is_kernel_by_default(&self, plan: &Plan) -> bool {
        let by_default = !plan.transient.is_none() && plan.transient.kernel_by_default;
        let is_it = self.layer == LayerOf::Kernel && self.channel == CHANNEL;
        by_default && is_it && self.wanted.rules == self.first.rules
    }
}

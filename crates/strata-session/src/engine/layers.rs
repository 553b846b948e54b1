//! Makes the layer of a channel on this machine, from the channel's options and rules.

use std::sync::Arc;

use strata_user::Clock;

use crate::applications::filter_check;
use crate::applications::Applications;
use crate::error::SessionError;
use crate::kernel::default_events::{is_there, still};
use crate::kernel::{self, KernelLayer};
use crate::options::Options;
use crate::plan::{LayerOf, Plan};
use crate::report::Notice;
use crate::session::layer::{Context, Layer, Wanted};
use crate::session::stop::Stop;

/// The advice of a session on recording without the kernel.
const KERNEL_RULES: &str = "the kernel's rules (strata disable-event -k --all)";

/// The request for the layer of a channel.
pub(crate) struct LayerPlan<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) layer: LayerOf,
    pub(crate) options: &'p Options,
    pub(crate) wanted: &'p Wanted,
}

/// Creates the layers of channels.
pub(crate) trait LayerMaker {
    /// Creates a layer that is ready to record what its plan requests.
    ///
    /// # Errors
    /// Why the layer cannot be created; nothing is left of it.
    fn make(
        &self,
        asked: &LayerPlan<'_>,
        context: &Arc<Context>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Box<dyn Layer>, SessionError>;
}

/// Creates the layers of a session on this machine.
pub(crate) struct Layers<'a> {
    pub(crate) stop: &'a Stop,
    /// The clock for all layers. Its rate becomes more precise the longer it has run.
    pub(crate) clock: Arc<Clock>,
}

impl LayerMaker for Layers<'_> {
    fn make(
        &self,
        asked: &LayerPlan<'_>,
        context: &Arc<Context>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Box<dyn Layer>, SessionError> {
        let LayerPlan { plan, layer, options, wanted } = *asked;
        let transient = &plan.transient;
        if let (LayerOf::Kernel, Some(kernel)) = (layer, &options.kernel) {
            let flags = Some(&transient.kernel_flags[..]).filter(|flags| !flags.is_empty());
            let asked = kernel::LayerRequest {
                options,
                kernel,
                context,
                stop: self.stop,
                wanted,
                probes: transient.known_probes(),
                flags: flags.unwrap_or(KERNEL_RULES),
                may_change: !transient.is_foreground,
                is_default: transient.kernel_by_default,
                has_applications: plan.records(LayerOf::User),
            };
            if !transient.kernel_by_default {
                return Ok(Box::new(KernelLayer::begin(&asked, notify)?));
            }
            // Processes that have ended meanwhile are reported by the layer of applications.
            let pids = still(&options.pids, is_there);
            let options = &Options { pids, ..options.clone() };
            let asked = kernel::LayerRequest { options, ..asked };
            return Ok(Box::new(KernelLayer::begin(&asked, notify)?));
        }
        let plain_too = transient.kernel_by_default && plan.is_default_on(LayerOf::Kernel);
        let (clock, filter) = (Arc::clone(&self.clock), filter_check::program(options)?);
        let layer = Applications::new(options, context, clock, filter, plain_too)?;
        // The single filter of a recording is reported as that, and not as one of certain rules.
        let mut layer = match transient.is_foreground {
            true => layer,
            false => layer.with_rules(&wanted.rules),
        };
        if wanted.is_more_than_rules() {
            layer.change(wanted)?;
        }
        Ok(Box::new(layer))
    }
}

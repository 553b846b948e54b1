//! Makes the layer of a channel on this machine, from the channel's options.

use std::sync::Arc;

use strata_user::Clock;

use crate::applications::filter_check;
use crate::applications::Applications;
use crate::error::SessionError;
use crate::kernel::{self, KernelLayer};
use crate::options::Options;
use crate::plan::LayerOf;
use crate::report::Notice;
use crate::session::layer::{Context, Layer, LayerRule};
use crate::session::stop::Stop;

/// Creates the layers of channels.
pub(crate) trait LayerMaker {
    /// Creates the layer of a channel with these options, which were lowered from these rules. The flag is true if
    /// another layer records processes without tracepoints. The layer records nothing yet.
    ///
    /// # Errors
    /// Why the layer cannot be created; nothing is left of it.
    fn make(
        &self,
        layer: LayerOf,
        asked: (&Options, &[LayerRule], bool),
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
        layer: LayerOf,
        (options, rules, plain_too): (&Options, &[LayerRule], bool),
        context: &Arc<Context>,
        notify: &mut dyn FnMut(Notice),
    ) -> Result<Box<dyn Layer>, SessionError> {
        Ok(match (layer, &options.kernel) {
            (LayerOf::Kernel, Some(kernel)) => {
                let asked = kernel::LayerRequest { options, kernel, context, stop: self.stop };
                Box::new(KernelLayer::begin(&asked, notify).map_err(of_plan)?)
            }
            _ => {
                let (clock, filter) = (Arc::clone(&self.clock), filter_check::program(options)?);
                let layer = Applications::new(options, context, clock, filter, plain_too)?;
                Box::new(layer.with_rules(rules))
            }
        })
    }
}

/// Rewrites an error's advice on the kernel for sessions.
pub(super) fn of_plan(error: SessionError) -> SessionError {
    match error {
        SessionError::Kernel { cause, .. } => {
            let asked = "the kernel's rules (strata disable-event -k --all)".to_owned();
            SessionError::Kernel { cause, asked }
        }
        other => other,
    }
}

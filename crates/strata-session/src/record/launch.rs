//! Starts the command of a session, with what its layers and the preloaded objects need.

use std::io;

use crate::error::SessionError;
use crate::plan::Transient;
use crate::record::command::{Inherited, Running};
use crate::record::preload;
use crate::record::unpreloaded::Unpreloaded;
use crate::session::layer::Inheritance;

/// A running command, with the observer that finds its descendants without preloaded objects. An error says why there
/// is no observer.
pub(crate) type Launched = (Running, Option<io::Result<Unpreloaded>>);

/// Starts the command of `asked`, and the observer for the programs that the command starts.
///
/// # Errors
/// The command cannot be started, or the system refused something.
pub(crate) fn launch(
    asked: &Transient,
    inherited: &Inherited,
    of_layers: &Inheritance<'_>,
) -> Result<Launched, SessionError> {
    if asked.wait_descendants {
        let what = "become the parent of what the command leaves behind (prctl)";
        Running::adopt_descendants().map_err(|source| SessionError::System { what, source })?;
    }
    let preloaded = preload::environment(&asked.libc, preload::Starter::Own)?;
    let observed = preloaded.as_ref().map(|(_, value)| preload::objects(value));
    let unpreloaded = observed.map(Unpreloaded::follow);
    let environment: Vec<_> = of_layers.environment.iter().cloned().chain(preloaded).collect();
    let running = Running::start(&asked.command, &environment, &of_layers.keep_open, inherited)?;
    Ok((running.with_descendants(asked.wait_descendants), unpreloaded))
}

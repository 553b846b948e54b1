//! Traces that are followed while they are recorded: here, or at a relay.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, Context as _, Result};
use strata_ctf::model::temporary_folder;
use strata_ctf::read::{Follow, OpenError};
use strata_remote::RemoteView;
use strata_session::stop::Stop;

use super::selection::SelectionFlags;
use super::traces::TracesFlags;
use crate::stderr;
use crate::stderr::messages::{Message, Weight};
use crate::units::clean;

/// Period of looks at traces that have just begun.
const PERIOD: Duration = Duration::from_millis(50);

/// Traces that are followed.
pub struct FollowedTraces {
    /// Folders of the traces, or folders above them; of those at relays the copies.
    pub paths: Vec<PathBuf>,
    remote: Vec<RemoteView>,
}

impl FollowedTraces {
    /// Connects to the relays, and waits until the present contents of their recordings are received. Returns `None`
    /// if the user stopped the command.
    pub fn open(command: &str, traces: &TracesFlags, stop: &Stop) -> Result<Option<Self>> {
        let (mut paths, relays) = traces.paths_and_relays()?;
        let mut remote = Vec::new();
        for address in relays {
            let above = temporary_folder();
            let view = RemoteView::begin(&address, address.target()?, &above);
            remote.push(view.with_context(|| {
                format!("{command}: cannot keep a copy in {}", above.display())
            })?);
        }
        for view in &remote {
            let folder = loop {
                match view.folder() {
                    Ok(Some(folder)) => break folder,
                    Ok(None) => {}
                    Err(why) => bail!("{command}: {}", clean(&why)),
                }
                if stop.requests() > 0 {
                    return Ok(None);
                }
                stop.wait(Some(PERIOD));
            };
            paths.push(folder);
        }
        Ok(Some(FollowedTraces { paths, remote }))
    }

    /// Opens the traces. Waits for those of a recording that has just begun. Returns `None` if the user stopped the
    /// command, or `is_closed` returns true.
    pub fn follow(
        &self,
        selection: &SelectionFlags,
        stop: &Stop,
        is_closed: &dyn Fn(Duration) -> bool,
    ) -> Result<Option<Follow>> {
        loop {
            let error = match Follow::open(&self.paths, selection.open_options()) {
                Ok(follow) => return Ok(Some(follow)),
                Err(error) => error,
            };
            let is_awaited = matches!(error, OpenError::NoTrace { .. })
                && self.paths.iter().any(|path| Follow::is_recorded(path));
            if !is_awaited {
                return Err(error.into());
            }
            self.check()?;
            if stop.requests() > 0 || is_closed(PERIOD) {
                return Ok(None);
            }
        }
    }

    /// Reads the new data of the traces. Returns an error if a recording at a relay cannot be followed any further.
    pub fn look(&self, follow: &mut Follow) -> Result<()> {
        self.check()?;
        // Before the files are looked at: what the copy has by then is at least that.
        let times = self.remote.iter().filter_map(RemoteView::now_ns);
        follow.set_now(times.min());
        follow.look();
        Ok(())
    }

    fn check(&self) -> Result<()> {
        for view in &self.remote {
            if let Some(text) = view.notice() {
                stderr::message(&Message { weight: Weight::Warning, text: clean(&text) });
            }
            if let Some(why) = view.failure() {
                bail!("{}", clean(&why));
            }
        }
        Ok(())
    }
}

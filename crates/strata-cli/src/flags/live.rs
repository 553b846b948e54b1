//! The flags of `strata record` that show events while they are recorded.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use strata_session::options::FLUSH;

/// Default period of flushing with `--live`.
const LIVE_FLUSH: Duration = Duration::from_millis(100);

/// Flags that choose where events are shown while they are recorded.
#[derive(Debug, Clone, Default, Args)]
pub struct LiveFlags {
    /// Show events on stderr while they are recorded
    #[arg(long, conflicts_with_all = ["background", "relay", "to"])]
    pub live: bool,

    /// Show them in FILE, which may be a terminal or a pipe
    #[arg(long, value_name = "FILE", requires = "live", value_hint = ValueHint::FilePath)]
    pub live_output: Option<PathBuf>,

    /// Remove the trace at the end
    ///
    /// The events that are shown are the only output.
    #[arg(long, requires = "live", conflicts_with = "output")]
    pub no_output: bool,
}

impl LiveFlags {
    /// Returns the period of flushing; `asked` is the value of `--flush`.
    pub fn flush(&self, asked: Duration) -> Duration {
        match self.live && asked == FLUSH {
            true => LIVE_FLUSH,
            false => asked,
        }
    }
}

//! Accepts `--auto` of earlier versions, which took the sizes of buffers from a file. Scripts still pass it.

use clap::Args;

/// The flag `--auto` of `record`, `create` and `start`.
#[derive(Debug, Default, Args)]
pub struct AutoFlags {
    /// Accepted without effect
    #[arg(long, hide = true)]
    auto: bool,
}

impl AutoFlags {
    /// Returns the message about a flag that has no effect, if it was given.
    pub fn remark(&self) -> Option<&'static str> {
        self.auto.then_some(
            "--auto has no effect: sizes of buffers are not kept. Give them with --subbuf-size and --num-subbuf; where \
             records are discarded, the report prints those that would have held them",
        )
    }
}

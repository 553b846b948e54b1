//! A process that has announced itself before it made its memory.

use std::time::Instant;

use strata_user::Sender as Announcer;

/// A process whose memory is looked for.
pub(super) struct ExpectedProcess {
    pub(super) sender: Announcer,
    pub(super) name: String,
    /// Time of its announcement.
    pub(super) since: Instant,
}

//! What other threads ask of a recording while it runs.

use std::path::Path;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::Duration;

use strata_model::Counts;

use crate::snapshot;

/// One thing to do.
pub(crate) enum Asked {
    /// Write what the buffers hold, and say what that was.
    Snapshot(snapshot::Asked),
}

/// Asks a recording; clones are the same.
#[derive(Clone, Debug)]
pub struct Controls(Sender<Asked>);

/// Where a recording hears what it is asked.
#[derive(Debug)]
pub struct Orders(pub(crate) Receiver<Asked>);

/// Both ends, for one recording.
#[must_use]
pub fn controls() -> (Controls, Orders) {
    let (sender, receiver) = channel();
    (Controls(sender), Orders(receiver))
}

impl Controls {
    /// Has it write what its buffers hold into the folder `output`, which is new or empty, while it goes on.
    /// `last`: only what is in packets that do not end longer ago. Returns what was written.
    ///
    /// # Errors
    /// Why not, in a sentence.
    pub fn snapshot(&self, output: &Path, last: Option<Duration>) -> Result<Counts, String> {
        let (reply, answer) = channel();
        let over = || "it has ended meanwhile".to_owned();
        let asked = snapshot::Asked { output: output.to_owned(), last, reply };
        self.0.send(Asked::Snapshot(asked)).map_err(|_| over())?;
        answer.recv().map_err(|_| over())?
    }
}

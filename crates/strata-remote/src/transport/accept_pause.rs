//! The pause after a connection that could not be accepted.

use std::io::{self, ErrorKind};
use std::time::Duration;

/// Time after which a connection that could not be accepted is tried again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Waits after a connection could not be accepted. If the limit on open files is reached, repeated attempts without a
/// pause would take a whole CPU. Returns at once if only this connection has ended.
pub(crate) fn pause_after(error: &io::Error) {
    let gone = [ErrorKind::WouldBlock, ErrorKind::ConnectionAborted, ErrorKind::Interrupted];
    if !gone.contains(&error.kind()) {
        std::thread::sleep(ACCEPT_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn accepting_pauses_only_where_it_would_fail_again() {
        let begin = Instant::now();
        pause_after(&io::Error::from(rustix::io::Errno::MFILE));
        assert!(begin.elapsed() >= ACCEPT_PAUSE);
    }
}

//! Exit statuses that several commands have.

use std::time::Duration;

use strata_session::stop::Stop;

/// Longest time for which a command that reads traces may continue after a signal. After that, the signal ends it,
/// since it may be blocked by a reader that does not read.
pub const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// Exit status of a program that has failed.
pub const FAILED: u8 = 2;
/// Exit status after an unknown signal: that of a shell for SIGINT.
const INTERRUPTED: u8 = 130;

/// Returns the exit status that a shell gives for a program that the signal in `stop` ended.
pub fn stopped(stop: &Stop) -> u8 {
    stopped_by(stop.signal())
}

/// Returns the exit status for a program that this signal ended.
pub fn stopped_by(signal: Option<i32>) -> u8 {
    signal.map_or(INTERRUPTED, |signal| 128u8.wrapping_add(signal as u8))
}

//! Exit statuses that several commands have.

use strata_session::stop::Stop;

/// The exit status of a program that could not do what it was asked.
pub const FAILED: u8 = 2;
/// Of what was stopped by nobody that is known, as a shell has it for SIGINT.
const INTERRUPTED: u8 = 130;

/// Of what was stopped, as a shell has it for a program that a signal ended.
pub fn stopped(stop: &Stop) -> u8 {
    stopped_by(stop.signal())
}

/// Of what this signal has stopped.
pub fn stopped_by(signal: Option<i32>) -> u8 {
    signal.map_or(INTERRUPTED, |signal| 128u8.wrapping_add(signal as u8))
}

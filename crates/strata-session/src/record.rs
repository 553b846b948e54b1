//! The command `strata record` in the foreground: a session that is created, started, awaited and destroyed in one
//! process. Its plan is made from flags, and no other command reaches it.
//!
//! ```text
//! flags ─▶ Plan ─▶ record() ─▶ daemon::run() ─▶ Engine: create, start, serve, destroy ─▶ Recording, with the report
//!                                                 │
//!                                                 └─ start: layers (applications, kernel, guests), then the command
//! ```
//!
//! A recording never ends, stops or delays a program that it records.
//!
//! ```text
//! command.rs        the command: starts it, passes signals on, waits for its end
//! launch.rs         starts the command with what the layers let it inherit
//! preload.rs        objects that are preloaded into the command; unpreloaded.rs: programs that preload nothing
//! own_functions.rs  finds programs that define functions themselves that a preloaded object would record
//! named.rs          finds processes by name
//! watched.rs        waits for the end of processes by number
//! ```
//!
//! # Order of the begin
//! The layers attach before the command is executed, so that its first event is recorded. What a layer has for it
//! to inherit (a socket's place, objects to preload) is put into its environment by `launch.rs`. If anything
//! fails until then, nothing is left behind and the command was not started; later, what was recorded is kept,
//! and the report has the failure.
//!
//! [`record`] works in the caller's thread, which waits there, calls `notify`, and gives up the rights that
//! recording does not need. Signals arrive as a [`Stop`]: the first one leaves the command time to end by itself.

use crate::daemon::{self, AtOnce, LeftByKilled};
use crate::error::SessionError;
use crate::plan::Plan;
use crate::record::command::Inherited;
use crate::report::Notice;
use crate::session::control::controls;
use crate::session::recording_result::Recording;
use crate::session::stop::Stop;

pub mod command;
pub(crate) mod launch;
pub mod named;
mod own_functions;
pub mod preload;
pub(crate) mod unpreloaded;
pub mod watched;

/// Records according to the plan until the command ends, the time is over, or the user stops the recording.
/// `may_lack_kernel`: true to record without the kernel if recording the kernel fails.
///
/// Calls `notify` from this thread. If something fails later, all that was recorded is kept, and the report has the
/// failure. This thread permanently gives up the capabilities that recording does not need.
///
/// # Errors
/// [`SessionError`]: the recording could not begin, and nothing is left of it.
pub fn record(
    mut plan: Plan,
    may_lack_kernel: bool,
    stop: &Stop,
    notify: &mut dyn FnMut(Notice),
) -> Result<Recording, SessionError> {
    plan.transient.is_foreground = true;
    let inherited = Inherited::prepare()
        .map_err(|source| SessionError::System { what: "prepare this program", source })?;
    let left = LeftByKilled { inherited: Some(inherited), ..LeftByKilled::default() };
    let at_once = AtOnce { may_lack_kernel, is_ready: || () };
    daemon::run("", plan, left, (Some(&at_once), &|_| ()), stop, &controls().1, notify)
}

#[cfg(test)]
mod tests;

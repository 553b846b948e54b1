//! Gives up the rights that the server does not need.

use std::io;

use rustix::fs::{Gid, Uid};
use rustix::thread::{
    configure_capability_in_ambient_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_gid, set_thread_groups, set_thread_uid, CapabilitySet, CapabilitySets,
};

/// The user id of `nobody`.
pub const NOBODY: u32 = 65534;

/// Gives up all rights of root except to read any file, which root's traces need: this thread and what it starts then run
/// as nobody. Other threads keep their rights. Returns false if this is not root.
///
/// # Errors
/// The system refuses; then the process is not root any more, or its rights are unchanged.
pub fn give_up_root() -> io::Result<bool> {
    if !rustix::process::geteuid().is_root() {
        return Ok(false);
    }
    get_no_more()?;
    let read = CapabilitySet::DAC_READ_SEARCH;
    set_keep_capabilities(true)?;
    set_thread_groups(&[])?;
    set_thread_gid(Gid::from_raw(NOBODY))?;
    set_thread_uid(Uid::from_raw(NOBODY))?;
    set_capabilities(None, CapabilitySets { effective: read, permitted: read, inheritable: read })?;
    configure_capability_in_ambient_set(read, true)?;
    Ok(true)
}

/// Keeps this process and its children from getting more rights than it has. Start the browser before, since it may
/// need them (snap's browsers do).
///
/// # Errors
/// The system refuses.
pub fn get_no_more() -> io::Result<()> {
    Ok(set_no_new_privs(true)?)
}

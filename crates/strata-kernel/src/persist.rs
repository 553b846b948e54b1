//! Persistent sessions: programs, maps and rings of a session that stay in the kernel when the session's process is
//! killed, until another process adopts or removes them.
//!
//! `pins` puts the kernel's objects into the BPF file system. `adoption` describes them, so that the adopting process
//! can compare its own plan with what the kernel reports, and uses nothing that differs. `unread_records` counts what
//! the killed session had not read.

pub(crate) mod adoption;
pub(crate) mod pins;
pub(crate) mod unread_records;

//! Discovers processes that can be traced, those that run already and those that start.
//!
//! ```text
//! find             looks through /proc, once for each request
//! listen           a socket in a folder, on which every new process announces itself
//! launch           a socket that a command and its descendants inherit
//!   └─ announcement   one message: the process' memfd, and its sender by the kernel
//! ```
//!
//! `request_text` is the way back: what a process that starts is to record before the tracer has heard of it.
//! A sender may be hostile, so `descriptor_closer` closes what it sent in threads that nobody waits for.
//! `memory_link` and `lttng` tell why a process has no memory of Strata.

pub(crate) mod announcement;
pub(crate) mod descriptor_closer;
pub(crate) mod find;
pub(crate) mod launch;
pub(crate) mod listen;
pub(crate) mod lttng;
pub(crate) mod memory_link;
pub(crate) mod request_text;

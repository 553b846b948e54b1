//! Attaches sessions to processes: maps a process' shared memory, takes a session slot in it, and enables tracepoints.
//!
//! ```text
//! application      a process and a mapping of its memory (shared_memory)
//!   └─ session        one session in this process: its slot, its channel, its enabled tracepoints
//!        ├─ clock            the cycle counter as CLOCK_MONOTONIC, published to the process
//!        └─ tracepoint_sites opcodes in the process' code (process_code), written with its user's rights
//! ```
//!
//! The process writes to the shared memory at any time. Everything in it is copied first, and the copy is checked.

pub(crate) mod application;
pub(crate) mod clock;
pub(crate) mod process_code;
pub(crate) mod session;
pub(crate) mod shared_memory;
pub(crate) mod tracepoint_sites;

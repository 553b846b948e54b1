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
//!
//! # Flow of a new process
//! 1. libstrata's constructor makes the process' memfd, and describes its tracepoints there.
//! 2. It connects to the command's socket, which its environment names, or to those in the folder of listening
//!    tracers.
//! 3. If its environment has a request, or a tracer has left one beside its socket, the process begins that
//!    session by itself, before `main()`.
//! 4. It sends the memfd to the socket, without waiting for an answer.
//! 5. The tracer takes the message ([`announcement`]) and checks the sender's credentials, the memfd's seals and
//!    its layout.
//! 6. [`attach`](crate::attach) adopts the session that has begun, or starts one.
//!
//! A process that cannot announce itself is still found in /proc by the next search. Searching costs one look at
//! the mappings of each process, so it is made on request or rarely, and in threads that may hang
//! (`processes::blocking_queries`).

pub(crate) mod announcement;
pub(crate) mod descriptor_closer;
pub(crate) mod find;
pub(crate) mod launch;
pub(crate) mod listen;
pub(crate) mod lttng;
pub(crate) mod memory_link;
pub(crate) mod request_text;

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
//!
//! # States of a process, as a tracer sees it
//! ```text
//! announced or found ── Application: mapped, checked ── AppSession::start or adopt ──▶ records
//!      ▲                                                          │ rules change, objects load: tick(), update()
//!      └── not traceable: no memory, another version, not ours     └── stop ──▶ quiet ── release ──▶ the slot is free again
//! ```
//!
//! # Threads
//! One thread owns an application and its session; the pump's thread reads the channel, which the session hands
//! out once. The clock is shared by all of a tracer's threads. Nothing waits for the process: questions to /proc
//! go through [`processes`](crate::processes), and a process that holds its own lock, or is stopped, is changed
//! as well as any other.
//!
//! docs/design/user.md has the protocol and its invariants, docs/design/threats.md what a hostile process can do.

pub(crate) mod application;
pub(crate) mod clock;
pub(crate) mod process_code;
pub(crate) mod session;
pub(crate) mod shared_memory;
pub(crate) mod tracepoint_sites;

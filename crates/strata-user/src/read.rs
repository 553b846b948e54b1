//! Reads what a process says of itself in its shared memory: its tracepoints and the objects that it has loaded.
//!
//! ```text
//! shared memory ── a copy ─┬─ tracepoint_states     on or off, by session; consistent, since the process changes them
//!                          ├─ descriptions ── description_parser     name, fields, labels of a tracepoint
//!                          ├─ record_ids            the number of a tracepoint's records in one session
//!                          └─ loaded_objects        files and addresses, which give code addresses a meaning
//! ```
//!
//! All of it may be wrong or hostile. Every reader works on a copy, bounds what it keeps for the whole life of the
//! process, and gives an error where the bytes are not what `strata/abi/user.h` allows.
//!
//! # How a copy is consistent
//! No lock is shared with the process. `tracepoint_states` reads the flags of all states first: what they say is
//! complete was complete before, so the rest of a state is copied after them. A description never changes once it
//! is written, and no two tracepoints share its bytes. Overlapping descriptions are an error, which bounds the
//! work and the memory for a process however often it describes anew.
//!
//! # Callers
//! The thread that owns the [`AppSession`](crate::AppSession) reads, when it begins, at each tick, and when a
//! list of tracepoints is asked for. An error ends the reading of this process and of no other.

pub(crate) mod description_parser;
pub(crate) mod descriptions;
pub(crate) mod loaded_objects;
pub(crate) mod record_ids;
pub(crate) mod tracepoint_states;

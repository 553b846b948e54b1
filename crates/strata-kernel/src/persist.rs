//! Persistent sessions: programs, maps and rings of a session that stay in the kernel when the session's process
//! is killed, until another process adopts or removes them.
//!
//! ```text
//! session with --keep ── pins: /sys/fs/bpf/...          kernel objects with names, which hold themselves
//!                     └─ adoption: a description as JSON, outside of the process
//! killed ── records go on into the rings
//! start  ── KernelSession::adopt(description, plan) ── compares all of it with the kernel ── continues, or refuses
//! destroy ── the pins are removed, and the kernel frees the objects
//! ```
//!
//! The adopting process compares its own plan with what the kernel reports (programs by the hash of their
//! instructions, maps by their shapes), and uses nothing that differs: the description may be of another version
//! of Strata. If something differs that it needs, the session does not begin, with an error that names it.
//!
//! `unread_records` counts what the killed session had not read, for a status without adoption. While nobody
//! reads, a ring in overwrite mode keeps its newest records, and one in discard mode counts what it discards:
//! adoption finds both in the rings' own counters. docs/guide/session-services.md describes this for users.
//!
//! [`KernelSession`](crate::KernelSession) is the only caller, in the thread that owns the session: it pins when
//! it begins with a [`Keeping`](crate::Keeping), saves the description before new programs record, and removes
//! the pins when it is torn down.

pub(crate) mod adoption;
pub(crate) mod pins;
pub(crate) mod unread_records;

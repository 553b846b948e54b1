//! Commands control a session, which is a process on which no other process depends, through files and a socket.
//!
//! ```text
//! FOLDER/NAME.lock   locked as long as the session lives; its content is the process' number
//! FOLDER/NAME.sock   where it listens
//! FOLDER/NAME.log    what it has said
//! FOLDER/NAME.plan   what it records: of one that was killed it is left, and makes it again (leftover_files.rs)
//! FOLDER/NAME.slots  where programs hold its records
//! FOLDER/NAME.fdstore  where the process listens that holds programs' memory, should it be killed (fdstore.rs)
//! ```
//!
//! The folder is `$XDG_RUNTIME_DIR/strata-sessions`, of root `/run/strata-sessions`. It is this user's and nobody else's, which is
//! checked, and held open: what is in it is reached through its descriptor. A connection carries one request
//! and one reply, each one message of JSON in a sequenced-packet socket. Both ends ask the kernel who the other
//! one is: this user, or root. A session of root may be open to a group, whose members may ask how it is, and
//! nothing else.
//!
//! # Life of a session's name
//! ```text
//! claim: NAME.lock ── listen: NAME.sock ── plan saved at each change ── end: all files removed
//! killed: the lock is free, NAME.plan remains ── start makes the session again, or destroy removes what is left
//! ```
//!
//! This crate moves messages and checks who sends them. What requests do is in `strata_session`. A message has
//! the version of the protocol and no unknown keys, so that a command and a session of different versions refuse
//! each other with a clear text.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

#[cfg(test)]
mod bench_tests;
mod error;
mod fdstore;
mod folder;
mod group;
mod leftover_files;
mod message;
mod name;
mod socket;
#[cfg(test)]
mod tests;

pub use error::ControlError;
pub use fdstore::{FdStoreClient, FdStoreServer, HeldMemory, FACTS_BYTES_MAX};
pub use folder::{Claim, Folder, RunningSession};
pub use group::Group;
pub use leftover_files::{LeftSession, FOLDERS, KERNEL, PLAN, SLOTS, VERDICT};
pub use message::{Reply, Request};
pub use name::{is_name, NAME_BYTES_MAX};
pub use socket::{ask, Connection, SessionListener, MESSAGE_BYTES_MAX};

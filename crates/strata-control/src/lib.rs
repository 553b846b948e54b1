//! How commands reach a session that runs by itself: one process for each session, which nothing else depends on.
//!
//! ```text
//! FOLDER/NAME.lock   locked as long as the session lives; its content is the process' number
//! FOLDER/NAME.sock   where it listens
//! FOLDER/NAME.log    what it has said
//! FOLDER/NAME.plan   what it records: of one that was killed it is left, and makes it again (left.rs)
//! FOLDER/NAME.slots  where programs hold its records
//! FOLDER/NAME.trustee  where the process listens that holds programs' memory, should it be killed (trust.rs)
//! ```
//!
//! The folder is `$XDG_RUNTIME_DIR/strata-sessions`, of root `/run/strata-sessions`. It is this user's and nobody else's, which is
//! checked, and held open: what is in it is reached through its descriptor. A connection carries one request
//! and one reply, each one message of JSON in a sequenced-packet socket. Both ends ask the kernel who the other
//! one is: this user, or root. A session of root may be open to a group, whose members may ask how it is, and
//! nothing else.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

#[cfg(test)]
mod bench_tests;
mod error;
mod folder;
mod group;
mod left;
mod message;
mod name;
mod socket;
#[cfg(test)]
mod tests;
mod trust;

pub use error::ControlError;
pub use folder::{Claim, Folder, RunningSession};
pub use group::Group;
pub use left::{LeftSession, KERNEL, PLAN, SLOTS, VERDICT};
pub use message::{Reply, Request};
pub use name::{is_name, NAME_BYTES_MAX};
pub use socket::{ask, Connection, SessionListener, MESSAGE_BYTES_MAX};
pub use trust::{HeldMemory, Trust, Trustee, FACTS_BYTES_MAX};

//! The users of other processes: what their processes may take from this program, and with whose rights it acts on
//! them.
//!
//! ```text
//! persons         uid ─▶ person: a person may have thousands of user ids (/etc/subuid)
//!   └─ quotas         memory, descriptors and threads that all processes of a person may take together
//! rights          this thread with the rights of a user, for one action
//! socket_access   which users may connect to a socket
//! ```
//!
//! A tracer of root serves programs of users who may want to harm it or each other. Whatever it keeps for a process
//! is charged to the person behind it, so that one person cannot use up what others need. What it does to a process,
//! it does with that user's rights, so that the kernel decides as it would for that user.

pub(crate) mod persons;
pub(crate) mod quotas;
pub(crate) mod rights;
pub(crate) mod socket_access;

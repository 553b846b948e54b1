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
//!
//! # An example
//! A user's program announces itself to a tracer of root. `persons` says whose it is, `quotas` whether that
//! person may have another process, mapping and descriptor; if not, the process is counted as not reached. To
//! patch the program's code, a thread takes the user's [`rights`], opens `/proc/PID/mem`, and returns to its own:
//! the kernel refuses what that user may not do.
//!
//! Quotas are given back when the value that holds them ends. Rights belong to a thread and not to the process,
//! so one thread may act for a user while others are root.

pub(crate) mod persons;
pub(crate) mod quotas;
pub(crate) mod rights;
pub(crate) mod socket_access;

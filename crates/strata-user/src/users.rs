//! The users of other processes: what their processes may take from this program, and with whose rights it acts on them.
//!
//! A person may have thousands of user ids (`/etc/subuid`), so `quotas` limits what is held for all ids of one of the
//! `persons` together. `rights` lowers this thread's rights to those of a user for one action, so that the kernel
//! decides as it would for that user. `socket_access` admits users to a socket.

pub(crate) mod persons;
pub(crate) mod quotas;
pub(crate) mod rights;
pub(crate) mod socket_access;

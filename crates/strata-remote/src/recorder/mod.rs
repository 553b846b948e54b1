//! The recorder's side: packets become messages, which wait until the relay has them.

pub(crate) mod backlog;
pub(crate) mod output;
pub(crate) mod relay_link;
pub(crate) mod sender;
pub(crate) mod spool;

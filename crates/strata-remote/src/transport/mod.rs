//! Where a relay is, who may talk to whom, and the connection to talk by.

pub(crate) mod accept_pause;
pub(crate) mod address;
pub(crate) mod certificates;
pub(crate) mod connection;
pub(crate) mod destination;
pub(crate) mod target;

//! The relay's side: recorders connect, and their messages become folders.

pub(crate) mod disk_sync;
pub(crate) mod event;
pub(crate) mod log_limit;
pub(crate) mod memory;
pub(crate) mod server;

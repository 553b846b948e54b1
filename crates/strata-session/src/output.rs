//! Writes the traces of a session: folders, the chunks into which a trace is split, and metadata.

pub mod chunks;
pub mod describe;
pub mod folder;
pub(crate) mod folder_mark;
pub mod retention;

//! Writes the traces of a session: folders, the chunks into which a trace is split, and metadata.
//!
//! ```text
//! chunks     the output of a session: one folder, or the present chunk of a rotated trace
//!   └─ folder     one folder: layers, traces, end mark; created below a descriptor, so that nobody can redirect it
//!        └─ describe     the environment in the metadata of a process' trace
//! relay_parts the output of a session whose trace goes to a relay: a recording there for each part
//! retention  removes old snapshots and traces; folder_mark recognises the folders that a session has made
//! ```
//!
//! An [`Output`](strata_collect::Output) makes sinks, one for each trace, and the pump writes packets into them.
//! Outputs that are no folders (a relay, a guest's channel) are in `strata_remote` and `strata_collect`.
//!
//! # Who calls it
//! The pump's thread makes sinks, a rotation's thread begins chunks, and the engine's thread asks for status: all
//! lock the output for the moment of the call. A packet is written to a sink without that lock. A rotation and a
//! removal of old folders have threads of their own (`session/rotation.rs`, `session/snapshot.rs`), as a slow
//! disk must delay neither packets nor answers.
//!
//! # What must hold
//! A folder is whole at any moment, so that a reader may come while it is written, and a recorder may be killed:
//! names appear when what they stand for is complete, and the end mark says how the recording ended. Root may
//! write below folders of other users, so paths are never resolved twice: everything is done below a descriptor
//! (`folder/safe_path.rs`). docs/design/threats.md lists who could gain what otherwise.

pub mod chunks;
pub mod describe;
pub mod folder;
pub(crate) mod folder_mark;
pub(crate) mod relay_parts;
pub mod retention;

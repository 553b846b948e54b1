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

pub mod chunks;
pub mod describe;
pub mod folder;
pub(crate) mod folder_mark;
pub(crate) mod relay_parts;
pub mod retention;

//! The timeline in a browser: shows a trace as lanes of slices, which one pass makes at every width of a column. A
//! server on this machine's own address answers the page's requests with tiles of them.
//!
//! ```text
//! Reader ── Timeline ── Maker: slices ── Lane: levels, each by a Merger ── LaneStore: blocks
//!                          server: who may ask ── answers: tiles, tracks, sums ┘
//! ```
#![forbid(unsafe_code)]

mod answers;
mod coding;
mod command;
mod connections;
mod counter;
mod guard;
mod item;
mod lane;
mod maker;
mod model;
mod names;
mod overview;
mod path;
mod query;
mod readers;
mod records;
mod report;
mod rights;
mod saved;
mod server;
mod shown;
mod snapshots;
mod start;
mod store;
#[cfg(test)]
mod testing;

pub use rights::give_up_root;
pub use saved::SavedPage;
pub use shown::{Source, Traces};
pub use snapshots::{SnapshotTaker, Snapshots};
pub use start::{save, Ready, Server, StartError};

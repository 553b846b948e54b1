//! The timeline in a browser: shows a trace as lanes of slices, which one pass makes at every width of a column. A
//! server on this machine's own address answers the page's requests with tiles of them.
//!
//! ```text
//! Reader ── Timeline ── Maker: slices ── Lane: levels, each by a Merger ── LaneStore: blocks
//!                          server: who may ask ── answers: tiles, tracks, sums ┘
//! ```
#![forbid(unsafe_code)]

mod answers;
mod connections;
mod counter_coding;
mod critical_path;
mod guests;
mod item;
mod item_coding;
mod item_store;
mod lane;
mod lane_builder;
mod model;
mod name_table;
mod outline;
mod overview;
mod query;
mod readers;
mod recorded_command;
mod records;
mod report;
mod request_guard;
mod rights;
mod saved_page;
mod server;
mod shown_trace;
mod slice_sums;
mod snapshots;
mod start_server;
#[cfg(test)]
mod testing;
mod token_file;
mod waiting_page;

pub use request_guard::Token;
pub use rights::give_up_root;
pub use saved_page::SavedPage;
pub use shown_trace::{Source, Traces};
pub use snapshots::{SnapshotTaker, Snapshots};
pub use start_server::{save, Ready, Server, StartError};
pub use token_file::token_of;
pub use waiting_page::{Awaited, Opener};

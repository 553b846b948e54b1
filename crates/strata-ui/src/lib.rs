//! The timeline in a browser: shows a trace as lanes of slices, which one pass makes at every width of a column. A
//! server on this machine's own address answers the page's requests with tiles of them.
//!
//! ```text
//! Reader ── Timeline ── lane_builder ── Lane: slices at every level ── item_store: memory, then an unnamed file
//!    thread "pass"        model: everything found so far, behind a lock ─┐
//! page ── HTTP ── server: token, routes ── answers: tiles, tracks, sums ─┘   tokio; each answer in a blocking thread
//!                                           └ readers: records of a moment, reports
//! ```
//!
//! The page is there before the trace is read. One thread reads it, in portions, and gives the lock to requests in
//! between; a trace that is being recorded is followed in the same way. Whatever the page asks for is answered from
//! the model, except records and reports, for which the traces are read again.
//!
//! A lane has slices at several levels, each a few times coarser than the one before: the page asks for tiles of a
//! level whose cells are about a pixel wide. So the cost of an answer depends on the picture's width and not on the
//! trace's length.
//!
//! Folders: `model/` is what a pass makes, `answers/` what of it is computed for a request, `server/` what stands between
//! a connection and an answer. What a pass has made of a long trace is kept: `kept_model` is the file, `tile_cache` the
//! folder of such files.
//!
//! `saved_page` writes a part of the timeline as one file, `snapshots` shows a flight recorder, `waiting_page` a
//! recording without an event. `request_guard` admits only requests that have the token, from a page of this server.
//! The page itself is `page/`, built from `ui/` in the repository.

#![forbid(unsafe_code)]

mod answers;
mod kept_model;
mod model;
mod readers;
mod records;
mod report;
mod rights;
mod saved_page;
mod server;
mod shown_trace;
mod slice_sums;
mod snapshots;
mod start_server;
#[cfg(test)]
mod testing;
mod tile_cache;
mod token_file;
mod waiting_page;

pub use rights::give_up_root;
pub use saved_page::SavedPage;
pub use server::request_guard::Token;
pub use shown_trace::{title_of, Source, Traces};
pub use snapshots::{SnapshotTaker, Snapshots};
pub use start_server::{save, Ready, Server, StartError};
pub use tile_cache::TileCache;
pub use token_file::token_of;
pub use waiting_page::{Awaited, Opener};

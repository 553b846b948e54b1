//! Writes traces from the model and the packets of a ring.
//!
//! ```text
//! strata_model::Trace ─▶ metadata      TSDL text of CTF 1.8, or with metadata2 fragments of JSON for CTF 2
//! sub-buffer of a ring ─▶ packet       a header and context before it; the records stay as the program wrote them
//! environment                          what readers of LTTng's traces look for in a trace's environment
//! ```
//!
//! The packets are the same for both versions, byte for byte, so a version is chosen for the metadata alone. Records
//! are never decoded or copied: a ring's sub-buffer is already the body of a CTF packet.
//!
//! Names and texts come from traced programs. `spelling` writes them so that no character can end them or be read as
//! something else; a `Trace` whose `validate()` succeeds gives metadata that every reader opens. Nothing here does
//! I/O: `strata_collect` puts the bytes into files.

pub mod environment;
pub mod metadata;
mod metadata2;
pub mod packet;
mod spelling;

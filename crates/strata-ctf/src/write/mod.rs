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
//!
//! A writer of metadata is a function from a [`Trace`](strata_model::Trace) to text, and may be called from any
//! thread. Metadata grow when classes are added while a session records: then a whole new text is made, and
//! `strata_collect` replaces the file. A packet's header is encoded from numbers that the ring's consumer has
//! checked, and has a fixed layout: `strata_collect` changes single words of it in a file, and reads it back from
//! a file that a killed recorder has left.

pub mod environment;
pub mod metadata;
mod metadata2;
pub mod packet;
mod spelling;

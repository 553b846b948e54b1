//! Parses metadata, which describe a trace, into a schema.
//!
//! ```text
//! bytes ─packets─> text ─ begins with 0x1E? ─no──> tsdl ──> schema
//!                                           └yes─> json ──> schema
//! ```
//!
//! The text is TSDL, the language of CTF 1.8, or the JSON fragments of CTF 2. Both parsers share the faults with their
//! positions ([`MetadataError`]), the [`limits`] on their work for any text, and the treatment of a class that is
//! described in two ways: neither description is used.
//!
//! ```
//! let text = b"trace { major = 1; minor = 8; byte_order = le; };
//!     event { name = tick; fields := struct { integer { size = 32; } _count; }; };
//!     event { name = tock; id = 1; fields := struct { nonsense x; }; };";
//! let parsed = strata_ctf::read::metadata::parse_tolerant(text)?;
//! let tick = &parsed.schema.streams[0].events[0];
//! assert_eq!(tick.payload.as_ref().unwrap().members[0].name, "count");
//! let problem = "metadata line 3, column 53: type 'nonsense' is not described";
//! assert_eq!(parsed.problems[0].to_string(), problem);
//! assert!(strata_ctf::read::metadata::parse(text).is_err());
//! # Ok::<(), strata_ctf::read::metadata::MetadataError>(())
//! ```

mod duplicate_classes;
mod error;
mod heap;
mod json;
pub mod limits;
mod packets;
mod parse_result;
mod tsdl;

pub use error::{MetadataError, MetadataProblem, ReferenceProblem};
pub use parse_result::Parsed;

use strata_model::schema::Schema;

/// Parses metadata, which are text or packets of text.
///
/// # Errors
/// The first fault of the metadata.
pub fn parse(metadata: &[u8]) -> Result<Schema, MetadataError> {
    let Parsed { schema, problems } = parse_tolerant(metadata)?;
    match problems.into_iter().next() {
        None => Ok(schema),
        Some(problem) => Err(problem),
    }
}

/// Parses metadata as [`parse()`] does, but leaves out the blocks that cannot be read. Of truncated metadata, all whole
/// blocks remain.
///
/// # Errors
/// A fault of the `trace` block, without which no packet can be read.
pub fn parse_tolerant(metadata: &[u8]) -> Result<Parsed, MetadataError> {
    let (text, damage) = packets::text(metadata)?;
    if json::is_ctf2(&text) {
        return json::build(&text, damage);
    }
    tsdl::build(&text, damage)
}

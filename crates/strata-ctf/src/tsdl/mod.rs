//! Metadata, as text or in packets, to a schema. That of CTF 2 is handed over to `json`.
//!
//! ```text
//! bytes ─packets─> text ─blocks, lexer, parser─> syntax of one block ─declare─> types with names
//!       ─resolve─> field classes with locations ─build─> schema
//! ```
//!
//! The text is TSDL, the language of CTF 1.8. Types are declared in scopes and refer to other fields by
//! name; in the schema a type is there as often as it is used, and a reference is a location. Whatever
//! the text holds, the work is bounded by [`limits`].
//!
//! ```
//! let text = b"trace { major = 1; minor = 8; byte_order = le; };
//!     event { name = tick; fields := struct { integer { size = 32; } _count; }; };
//!     event { name = tock; id = 1; fields := struct { nonsense x; }; };";
//! let parsed = strata_ctf::tsdl::parse_tolerant(text)?;
//! let tick = &parsed.schema.streams[0].events[0];
//! assert_eq!(tick.payload.as_ref().unwrap().members[0].name, "count");
//! let problem = "metadata line 3, column 53: type 'nonsense' is not described";
//! assert_eq!(parsed.problems[0].to_string(), problem);
//! assert!(strata_ctf::tsdl::parse(text).is_err());
//! # Ok::<(), strata_ctf::tsdl::MetadataError>(())
//! ```

mod blocks;
mod build;
mod declare;
mod error;
mod lexer;
pub mod limits;
mod packets;
mod parsed;
mod parser;
mod resolve;
mod scope;
mod syntax;
#[cfg(test)]
mod tests;
mod types;
mod values;

pub(crate) use error::{Fault, Faults, LineFinder};
pub use error::{MetadataError, MetadataProblem, ReferenceProblem};
pub use parsed::Parsed;
pub(crate) use scope::heap;

use crate::json;
use strata_model::schema::Schema;

/// Reads metadata: text, or packets of it.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(metadata: &[u8]) -> Result<Schema, MetadataError> {
    let Parsed { schema, problems } = parse_tolerant(metadata)?;
    match problems.into_iter().next() {
        None => Ok(schema),
        Some(problem) => Err(problem),
    }
}

/// As [`parse()`], but leaves out the blocks that cannot be read: of metadata that breaks off, all
/// whole blocks are there.
///
/// # Errors
/// What is wrong with the `trace` block, without which no packet can be read.
pub fn parse_tolerant(metadata: &[u8]) -> Result<Parsed, MetadataError> {
    let (text, damage) = packets::text(metadata)?;
    if json::is_ctf2(&text) {
        return json::build(&text, damage);
    }
    build::build(&text, damage)
}

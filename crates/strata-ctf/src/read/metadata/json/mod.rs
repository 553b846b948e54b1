//! Parses metadata of CTF 2 into a schema.
//!
//! ```text
//! bytes ─split─> fragments ─value, draft─> JSON of one fragment ─build, fields─> field classes with names
//!       ─locate─> field classes with locations ─build─> schema
//! ```
//!
//! The metadata are a sequence of JSON texts (RFC 7464), the fragments. Each fragment begins with the byte 0x1E and is
//! parsed by itself, in order. A fragment that cannot be read is left out. The work is bounded by
//! [`limits`](crate::read::metadata::limits) for any content: values are counted while they are made.
//!
//! [`parse`](super::parse()) reads metadata of both versions.

mod attributes;
mod build;
mod draft_spellings;
mod error;
mod fields;
mod locate;
mod name_text;
mod object;
mod scalars;
mod split;
#[cfg(test)]
mod tests;
mod value;

pub(super) use build::build;
pub(super) use split::is_ctf2;

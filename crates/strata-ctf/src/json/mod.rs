//! Metadata of CTF 2 to a schema.
//!
//! ```text
//! bytes ─split─> fragments ─value─> JSON of one fragment ─build, fields─> field classes with names
//!       ─locate─> field classes with locations ─build─> schema
//! ```
//!
//! The metadata is a sequence of JSON texts (RFC 7464), the fragments: each begins with the byte 0x1E and
//! is read by itself, in order. A fragment that cannot be read is left out. Whatever a fragment holds, the
//! work is bounded by [`limits`](crate::tsdl::limits): values are counted while they are made.
//!
//! [`tsdl::parse`](crate::tsdl::parse()) reads metadata of both versions.

pub(crate) mod attributes;
mod build;
mod error;
mod fields;
mod locate;
mod object;
mod scalars;
mod shown;
mod split;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use build::build;
pub(crate) use split::is_ctf2;

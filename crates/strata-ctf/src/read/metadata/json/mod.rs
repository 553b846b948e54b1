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
//!
//! # Two steps for a field class
//! A field of CTF 2 names others by a location: a path from a root, such as the length of a sequence. `fields`
//! makes classes with these names as they stand, and `locate` replaces them once the structure around them is
//! complete, so a name is looked up among what precedes it and nothing else. Fragments of field class aliases are
//! expanded at each use; what all copies take is counted.
//!
//! # Faults
//! A fragment that is wrong costs itself: a fault with its number and place is kept, and other fragments are
//! read. A stream class that is missing costs its event classes. Drafts of the standard had other spellings for
//! some keys, which files of that time still have (`draft_spellings`). Attributes of others are kept only where a
//! reader shows them.

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

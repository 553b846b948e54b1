//! Parses TSDL, the metadata language of CTF 1.8, into a schema.
//!
//! ```text
//! text ─blocks, lexer, parser─> syntax of one block ─declare─> types with names
//!      ─resolve─> field classes with locations ─build─> schema
//! ```
//!
//! Types are declared in scopes and refer to other fields by name. The schema has a copy of a type for each use, and a
//! location for each reference: a length may mean another field in each place in which its type is used.
//!
//! A block (`event { ... };`) is parsed by itself. One that cannot be understood is left out, with a fault that says where, and the rest
//! of the trace is read: traces of other tracers have blocks that we do not know. Blocks that others need (`stream`, `trace`) are
//! judged when the schema is built.
//!
//! The text is hostile. Its size, the number of types and of fields, their nesting, and what all copies together take are limited
//! ([`limits`](crate::read::metadata::limits)), and are counted before memory is taken. The grammar is that of the CTF 1.8
//! specification, with what babeltrace2 and LTTng write beyond it; `tests/tsdl.rs` parses what our own writer makes of random traces.
//!
//! # An example
//! ```text
//! typealias integer { size = 32; } := u32;            declare: a type with a name, in the scope of the file
//! event { id = 1; name = "x"; fields := struct { u32 n; string s[n]; }; };     resolve: [n] is the field before it
//! ```

mod blocks;
mod build;
mod declare;
mod lexer;
mod parser;
mod resolve;
mod scope;
mod syntax;
#[cfg(test)]
mod tests;
mod types;
mod values;

pub(super) use build::build;

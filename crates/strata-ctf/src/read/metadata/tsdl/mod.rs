//! Parses TSDL, the metadata language of CTF 1.8, into a schema.
//!
//! ```text
//! text ─blocks, lexer, parser─> syntax of one block ─declare─> types with names
//!      ─resolve─> field classes with locations ─build─> schema
//! ```
//!
//! Types are declared in scopes and refer to other fields by name. The schema has a copy of a type for each use, and a
//! location for each reference.

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

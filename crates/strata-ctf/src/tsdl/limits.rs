//! What is read at most, so that reading takes seconds at most, and less than 100 MB with the text itself.
//! Real metadata stays far below: that of a whole Linux kernel has about 1 MiB, 2,000 events and 15,000
//! fields.

/// Bytes of metadata.
pub const TEXT_BYTES: u64 = 24 << 20;
/// Blocks and declarations on the top level.
pub const BLOCKS: u64 = 1 << 18;
/// Bytes of an identifier, or of a type's name of several words.
pub const NAME_BYTES: usize = 1024;
/// Structures, variants and arrays within each other, and braces.
pub const DEPTH: u32 = 64;
/// Members, labels, types and attributes of one block; a string counts once more for each 64 bytes.
pub const BLOCK_PARTS: u32 = 1 << 16;
/// Fields of one event, or of one part of a packet: a structure counts, as do its members. Named
/// types count as often as they are used.
pub const FIELDS: u32 = 1 << 16;
/// Memory for all that is described: fields, labels, types \[byte\].
pub const MEMORY: u64 = 40 << 20;
/// Names in one reference.
pub const PATH_PARTS: usize = 64;
/// Names that are looked up for all references, one for each step and for each structure around.
pub const LOOKUPS: u64 = 1 << 23;
/// Problems that are listed one by one.
pub const PROBLEMS: usize = 100;

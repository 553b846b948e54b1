//! Limits on metadata, so that reading them takes seconds at most, and less than 100 MB with the text itself. Real
//! metadata stay far below: those of a whole Linux kernel have about 1 MiB, 2,000 events and 15,000 fields.

/// The greatest size of the metadata \[byte\].
pub const TEXT_BYTES: u64 = 24 << 20;
/// The most blocks and declarations on the top level.
pub const BLOCKS: u64 = 1 << 18;
/// The greatest length of an identifier, or of a type's name of several words \[byte\].
pub const NAME_BYTES: usize = 1024;
/// The greatest nesting depth of structures, variants, arrays and braces.
pub const DEPTH: u32 = 64;
/// The most members, labels, types and attributes of one block. A string counts once more for each 64 bytes.
pub const BLOCK_PARTS: u32 = 1 << 16;
/// The most fields of one event, or of one part of a packet. A structure counts as well as its members. Named types
/// count at each use.
pub const FIELDS: u32 = 1 << 16;
/// The most memory for fields, labels and types \[byte\].
pub const MEMORY: u64 = 40 << 20;
/// The most names in one reference.
pub const PATH_PARTS: usize = 64;
/// The most lookups of names for all references to fields together. Each step of a reference's path counts as one,
/// and so does each enclosing structure that is searched.
pub const LOOKUPS: u64 = 1 << 23;
/// The most problems that are listed one by one.
pub const PROBLEMS: usize = 100;

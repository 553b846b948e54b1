//! Reads what a process says of itself in its shared memory: its tracepoints and the objects that it has loaded.
//!
//! All of it may be wrong or hostile. Every reader works on a copy, bounds what it keeps for the whole life of the
//! process, and gives an error where the bytes are not what `strata/abi/user.h` allows.

pub(crate) mod description_parser;
pub(crate) mod descriptions;
pub(crate) mod loaded_objects;
pub(crate) mod record_ids;
pub(crate) mod tracepoint_states;

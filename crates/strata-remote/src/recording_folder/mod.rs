//! The folder of a recording that came by messages: a relay and the viewers that keep a copy write it, and read it again.

pub(crate) mod folder_messages;
pub(crate) mod folder_names;
pub(crate) mod host_clock;
pub(crate) mod problem;
pub(crate) mod recording_state;
pub(crate) mod recording_writer;
pub(crate) mod trace_metadata;

//! perfetto.

//! Metadata, as text or in packets, to a schema.

//! Packets to event records.

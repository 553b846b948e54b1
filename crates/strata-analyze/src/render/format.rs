//! What event records become.

/// What is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A line for each event record, as babeltrace2 has it.
    #[default]
    Text,
    /// A line for each, and one for both ends of a system call: see [`crate::short`].
    Short,
    /// A JSON object on a line of its own for each.
    Json,
    /// A header, then a row for each (RFC 4180).
    Csv,
}

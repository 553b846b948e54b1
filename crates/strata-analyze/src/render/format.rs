//! The formats in which event records are written.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A line for each event record, in the format of babeltrace2.
    #[default]
    Text,
    /// A line for each event record, and one line for both ends of a system call: see [`crate::short`].
    Short,
    /// A JSON object for each event record, on a line of its own.
    Json,
    /// A header, then a row for each event record (RFC 4180).
    Csv,
}

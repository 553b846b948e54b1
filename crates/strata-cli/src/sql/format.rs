//! The formats in which `strata sql` prints rows.

use clap::ValueEnum;

/// The formats of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum SqlFormat {
    /// Columns that people read
    #[default]
    Table,
    /// A header and a line for each row (RFC 4180)
    Csv,
    /// A JSON object on a line for each row
    Json,
}

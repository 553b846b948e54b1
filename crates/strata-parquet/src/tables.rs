//! The tables of a dataset, and the types of their columns.

use strata_sql::Tables;

/// Type of a column, with its type in Parquet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// INT64. Times are nanoseconds since 1970, durations are nanoseconds.
    Integer,
    /// DECIMAL(20, 0), for integers up to 2^64 - 1. Engines disagree on unsigned integers, and agree on decimals.
    Unsigned,
    /// DOUBLE, for real numbers.
    Real,
    /// BYTE_ARRAY with UTF-8, for texts.
    Text,
    /// BYTE_ARRAY, for any bytes.
    Blob,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// Name of the column in the file.
    pub name: String,
    /// Type of the column in the file.
    pub kind: Kind,
}

impl TableColumn {
    /// Returns true if a dictionary of the column's values would only be begun: times are nearly all different.
    pub(crate) fn has_other_values_in_each_row(&self) -> bool {
        self.kind == Kind::Integer
            && ["time_ns", "begin_ns", "end_ns"].contains(&self.name.as_str())
    }

    /// Returns true if values mostly repeat, so that they are written by their numbers in a dictionary.
    pub(crate) fn has_dictionary(&self) -> bool {
        matches!(self.kind, Kind::Integer | Kind::Text) && !self.has_other_values_in_each_row()
    }

    /// Returns true if engines can leave out parts of a file by the column's least and greatest value. Of JSON and call
    /// stacks, these say nothing.
    pub(crate) fn is_compared(&self) -> bool {
        let is_text = self.kind == Kind::Text;
        !is_text || !["fields", "context", "functions", "frames"].contains(&self.name.as_str())
    }
}

/// Tables that are written by default, each with the column that sorts its rows. The file of the last one is made when
/// all others are complete, so that its existence means that the trace is complete.
pub(crate) const TABLES: [(&str, Option<&str>); 18] = [
    ("events", Some("time_ns")),
    ("event_counts", None),
    ("calls", Some("begin_ns")),
    ("states", Some("begin_ns")),
    ("cpu_run", Some("begin_ns")),
    ("spans", Some("begin_ns")),
    ("wakeups", Some("time_ns")),
    ("locks", Some("begin_ns")),
    ("samples", Some("time_ns")),
    ("stacks", None),
    ("interrupt", Some("begin_ns")),
    ("request", Some("begin_ns")),
    ("counter", Some("begin_ns")),
    ("threads", None),
    ("processes", None),
    ("files", None),
    ("gaps", None),
    ("trace", None),
];

/// Tables of the timeline with times whose rows are not in the order of time, unlike event records.
const UNSORTED: [&str; 2] = ["wakeups", "samples"];

/// Returns the query for the rows of a table in their order; event records are in the order of time by themselves.
pub(crate) fn query(table: &str, sorted_by: Option<&str>) -> String {
    let name = quoted(table);
    match sorted_by {
        Some(column) if column != "time_ns" || UNSORTED.contains(&table) => {
            format!("SELECT * FROM {name} ORDER BY {column}")
        }
        _ => format!("SELECT * FROM {name}"),
    }
}

/// Quotes a name as an identifier in a statement.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the types of a table's columns: as the table declares them, and for computed columns by name, so that they
/// do not depend on the trace.
pub(crate) fn columns(table: &Tables) -> Vec<TableColumn> {
    let column = |(name, declared): &(String, String)| {
        let declared = declared.split(' ').next().unwrap_or_default();
        let kind = match (declared, name.as_str()) {
            ("UNSIGNED", _) => Kind::Unsigned,
            ("INTEGER", _) => Kind::Integer,
            // Values of counters may be integers or real numbers.
            ("REAL" | "NUMERIC", _) => Kind::Real,
            ("BLOB", _) => Kind::Blob,
            ("", "count" | "errors" | "threads" | "cpu" | "depth") => Kind::Integer,
            ("", name) if name.ends_with("_ns") => Kind::Integer,
            _ => Kind::Text,
        };
        TableColumn { name: name.clone(), kind }
    };
    table.columns.iter().map(column).collect()
}

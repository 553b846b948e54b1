//! Lists tables and columns for people.

use std::fmt::Write as _;

use anyhow::{bail, Result};
use strata_sql::Tables;

use crate::units::clean;

/// Formats the names of all tables, each on a line.
pub(super) fn tables(all: &[Tables]) -> String {
    let mut text = String::new();
    for table in all {
        let _ = writeln!(text, "{}", clean(&table.name));
    }
    text
}

/// Arranges lines in columns, from the top to the bottom, that fit into a terminal of this width.
pub(super) fn in_columns(lines: &str, width: usize) -> String {
    let names: Vec<&str> = lines.lines().collect();
    let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) + 2;
    let columns = (width / widest).max(1);
    let rows = names.len().div_ceil(columns);
    let mut text = String::new();
    for row in 0..rows {
        let mut line = String::new();
        for name in names.iter().skip(row).step_by(rows) {
            let _ = write!(line, "{name:<widest$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Formats the columns of the table `name`, or of all tables.
///
/// # Errors
/// No table has this name.
pub(super) fn columns(all: &[Tables], name: Option<&str>) -> Result<String> {
    let mut text = String::new();
    let name = name.map(|name| name.trim_matches('"'));
    let mut wanted = all
        .iter()
        .filter(|table| name.is_none_or(|name| table.name.eq_ignore_ascii_case(name)))
        .peekable();
    if wanted.peek().is_none() {
        bail!("sql: there is no table '{}'. See .tables", clean(name.unwrap_or_default()));
    }
    for table in wanted {
        let _ = writeln!(text, "{}", clean(&table.name));
        for (column, kind) in &table.columns {
            let _ = writeln!(text, "  {} {kind}", clean(column));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_as_many_columns_as_fit() {
        let names = "a\nbbb\nc\nd\ne\n";
        assert_eq!(in_columns(names, 10), "a    d\nbbb  e\nc\n");
        assert_eq!(in_columns(names, 15), "a    c    e\nbbb  d\n");
        assert_eq!(in_columns(names, 1), names);
        assert_eq!(in_columns("", 80), "");
    }
}

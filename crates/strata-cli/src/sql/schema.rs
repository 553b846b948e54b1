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

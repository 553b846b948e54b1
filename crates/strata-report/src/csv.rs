//! The rows of a report as comma-separated values (RFC 4180), below the keys that they have in JSON.

use std::fmt::Write as _;

use crate::document::{Document, Part};
use crate::label::Label;
use crate::table::Table;
use crate::value::Value;

/// The keys of a label's columns. Each label has all of them, also where a value is unknown.
const LABEL_KEYS: [&str; 4] = ["process", "pid", "thread", "tid"];

/// Returns the rows of a report as CSV, one row per line. Leaves out values that are not single, such as histograms and
/// nested rows, and also the report's facts and its other tables.
#[must_use]
pub fn csv(document: &Document) -> String {
    let table = document.parts.iter().find_map(|part| match part {
        Part::Rows { table, .. } => Some(table),
        _ => None,
    });
    table.map(table_csv).unwrap_or_default()
}

fn table_csv(table: &Table) -> String {
    let is_single = |at: &usize| {
        let mut values = table.rows.iter().filter_map(|row| row.get(*at));
        !values.any(|value| {
            !matches!(
                value,
                Value::None
                    | Value::Absent
                    | Value::Uint(_)
                    | Value::Int(_)
                    | Value::Float(_)
                    | Value::Bool(_)
                    | Value::Text(_)
                    | Value::Label(_)
            )
        })
    };
    let columns: Vec<(usize, &str)> = (0..table.columns.len())
        .filter(is_single)
        .filter_map(|at| Some((at, table.columns.get(at)?.key?)))
        .collect();
    let mut out = String::new();
    let titles = columns.iter().flat_map(|(_, key)| match *key {
        "" => LABEL_KEYS.to_vec(),
        key => vec![key],
    });
    line(&mut out, titles.map(str::to_owned));
    for row in &table.rows {
        let cells = columns.iter().flat_map(|(at, key)| cells(row.get(*at), key));
        line(&mut out, cells);
    }
    out
}

fn cells(value: Option<&Value>, key: &str) -> Vec<String> {
    match value {
        Some(Value::Label(label)) if key.is_empty() => label_cells(label).to_vec(),
        _ if key.is_empty() => vec![String::new(); LABEL_KEYS.len()],
        Some(Value::Uint(number)) => vec![number.to_string()],
        Some(Value::Int(number)) => vec![number.to_string()],
        Some(Value::Float(number)) => vec![number.to_string()],
        Some(Value::Bool(yes)) => vec![yes.to_string()],
        Some(Value::Text(text)) => vec![strata_text::clean(text)],
        Some(Value::Label(label)) => vec![strata_text::clean(&label.process)],
        _ => vec![String::new()],
    }
}

fn label_cells(label: &Label) -> [String; LABEL_KEYS.len()] {
    let number = |number: Option<i32>| number.map(|it| it.to_string()).unwrap_or_default();
    let thread = label.thread.as_deref().map(strata_text::clean).unwrap_or_default();
    [strata_text::clean(&label.process), number(label.pid), thread, number(label.tid)]
}

fn line(out: &mut String, cells: impl Iterator<Item = String>) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            out.push(',');
        }
        if cell.contains([',', '"', '\n', '\r']) {
            let _ = write!(out, "\"{}\"", cell.replace('"', "\"\""));
        } else {
            out.push_str(&cell);
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use crate::table::{Columns, Unit};

    #[test]
    fn values_are_quoted_and_what_is_no_single_value_is_left_out() {
        let columns = Columns::new()
            .label_keys(|row: &(&str, u64)| {
                Value::label(&Label { process: row.0.into(), pid: Some(7), ..Label::default() })
            })
            .both("name", "name", Unit::Text, |row| Value::text(row.0))
            .key("histogram", |_| Value::Spread(Histogram::default()))
            .both("count", "count", Unit::Count, |row| Value::Uint(row.1));
        let mut document = Document::new("");
        document.rows(columns.rows(&[("a, \"b\"", 2), ("", 0)]), 2);
        let wanted = "process,pid,thread,tid,name,count\n\
                      \"a, \"\"b\"\"\",7,,,\"a, \"\"b\"\"\",2\n\
                      ,7,,,,0\n";
        assert_eq!(csv(&document), wanted);
    }
}

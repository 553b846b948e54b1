//! The rows of a report as comma-separated values (RFC 4180), below the keys that they have in JSON.

use std::fmt::Write as _;

use crate::document::{Document, Part};
use crate::label::Label;
use crate::table::{Shape, Table};
use crate::value::Value;

/// The keys of a label's columns. Each label has all of them, also where a value is unknown.
const LABEL_KEYS: [&str; 4] = ["process", "pid", "thread", "tid"];

/// Returns the rows of a report as CSV, one row per line. Leaves out columns of values that are not single, such as
/// histograms and nested rows, and also the report's facts and its other tables. The header depends on the columns
/// alone: it is the same for no row and for any rows.
#[must_use]
pub fn csv(document: &Document) -> String {
    let table = document.parts.iter().find_map(|part| match part {
        Part::Rows { table, .. } => Some(table),
        _ => None,
    });
    table.map(table_csv).unwrap_or_default()
}

fn table_csv(table: &Table) -> String {
    let columns: Vec<(usize, &str, Shape)> = (table.columns.iter().enumerate())
        .filter(|(_, column)| column.shape != Shape::Several)
        .filter_map(|(at, column)| Some((at, column.key?, column.shape)))
        .collect();
    let mut out = String::new();
    let titles = columns.iter().flat_map(|&(_, key, shape)| match shape {
        Shape::Label => LABEL_KEYS.to_vec(),
        _ => vec![key],
    });
    line(&mut out, titles.map(str::to_owned));
    for row in &table.rows {
        let cells = columns.iter().flat_map(|&(at, _, shape)| cells(row.get(at), shape));
        line(&mut out, cells);
    }
    out
}

fn cells(value: Option<&Value>, shape: Shape) -> Vec<String> {
    match value {
        Some(Value::Label(label)) if shape == Shape::Label => label_cells(label).to_vec(),
        _ if shape == Shape::Label => vec![String::new(); LABEL_KEYS.len()],
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
            .nested("histogram", |_| Value::Spread(Histogram::default()))
            .both("count", "count", Unit::Count, |row| Value::Uint(row.1));
        let mut document = Document::new("");
        document.rows(columns.rows(&[("a, \"b\"", 2), ("", 0)]), 2);
        let wanted = "process,pid,thread,tid,name,count\n\
                      \"a, \"\"b\"\"\",7,,,\"a, \"\"b\"\"\",2\n\
                      ,7,,,,0\n";
        assert_eq!(csv(&document), wanted);
    }
    #[test]
    fn header_is_the_same_whatever_the_rows_have() {
        let columns = Columns::new()
            .both("process", "", Unit::Label, |name: &Option<&'static str>| match name {
                Some(name) => Value::label(&Label { process: (*name).into(), ..Label::default() }),
                None => Value::None,
            })
            .both("1µs..1s", "histogram", Unit::Spread, |name| match name {
                Some(_) => Value::Spread(Histogram::default()),
                None => Value::None,
            })
            .nested("delay", |name| name.map(|_| Value::Record(Vec::new())).into())
            .keys(|_| vec![("cause", Value::None)])
            .some_key("machine", |name| Value::from(*name));
        let header = |rows: &[Option<&'static str>]| {
            let mut document = Document::new("");
            document.rows(columns.rows(rows), rows.len());
            csv(&document).lines().next().map(str::to_owned)
        };
        let wanted = Some("process,pid,thread,tid,machine".to_owned());
        for rows in [&[][..], &[None], &[Some("shop")], &[None, Some("shop")]] {
            assert_eq!(header(rows), wanted, "{rows:?}");
        }
    }

    #[test]
    #[should_panic(expected = "has another shape")]
    fn list_in_a_column_of_single_values_is_a_mistake_of_the_report() {
        let columns = Columns::new().key("cpus", |_: &()| Value::List(Vec::new()));
        let _ = columns.rows(&[()]);
    }
}

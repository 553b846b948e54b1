//! Formats reports as text for a terminal: the data of `strata_report` as tables and lines.

use std::fmt::Write as _;

use anyhow::Result;
use strata_analyze::render::TimeZone;
use strata_analyze::stats::time_of_day;
use strata_report::{csv, members, Branch, Document, Part, Table as Rows, Unit, Value};

use super::report_command::{CommonFlags, Format, Made};
use super::rows::{self, bar, exactness, histogram, length, long_bar, more, name, section, spread};
use crate::stats::is_utf8;
use crate::stats::table::{Align, Cell, Table, DIM, HEAD};
use crate::units::{clean, count, rate, size};

/// Column at which durations end in lines below a row, and in lines without a row above.
const BELOW_ROW: usize = 34;
const BELOW_NONE: usize = 12;

/// Writes a report in the requested format.
pub fn show(flags: &CommonFlags, report: &str, made: &Made, document: &Document) -> Result<()> {
    flags.write(&in_format(flags.format(), report, made, document, flags.selection.zone()))
}

/// Returns a report in the given format.
pub fn in_format(
    format: Format,
    report: &str,
    made: &Made,
    document: &Document,
    zone: &TimeZone,
) -> String {
    match format {
        Format::Json => {
            let mut object = made.object(report);
            object.extend(members(document));
            rows::document(object)
        }
        Format::Csv => csv(document),
        Format::Text => text(document, zone),
    }
}

/// Formats the whole report as text.
pub fn text(document: &Document, zone: &TimeZone) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{HEAD}{}{HEAD:#}", document.head);
    for part in &document.parts {
        match part {
            Part::Rows { table, .. } if table.rows.is_empty() || !table.is_shown() => {}
            Part::Rows { table, all } => {
                drawn(table, zone).write(&mut out);
                more(&mut out, *all, table.rows.len());
            }
            Part::Section { title: None, .. } => {}
            Part::Section { title: Some(title), table, all, .. } => {
                match &**title {
                    "" => drawn(table, zone).write(&mut out),
                    title => section(&mut out, title, &drawn(table, zone)),
                }
                more(&mut out, all.unwrap_or(0), table.rows.len());
            }
            Part::Histogram { title, what, values } => {
                histogram(&mut out, title, values, what, !is_utf8());
            }
            Part::Blank => out.push('\n'),
            Part::Line(text) => {
                let _ = writeln!(out, "{text}");
            }
            Part::Note(text) => {
                let _ = writeln!(out, "{DIM}{text}{DIM:#}");
            }
            Part::Exactness => exactness(&mut out),
        }
    }
    out
}

/// Makes the table of the columns that have a title, with lines below the rows.
fn drawn(rows: &Rows, zone: &TimeZone) -> Table {
    let titled = rows.columns.iter().enumerate();
    let titled = titled.filter_map(|(at, it)| Some((at, it.title?, it.unit)));
    let (below, cells): (Vec<_>, Vec<_>) = titled.partition(|&(_, _, unit)| unit == Unit::Tree);
    let columns: Vec<_> = cells.iter().map(|&(_, title, unit)| (title, align(unit))).collect();
    let at = if columns.is_empty() { BELOW_NONE } else { BELOW_ROW };
    let mut table = Table::new(&columns);
    for row in &rows.rows {
        let value = |&(at, _, unit): &(usize, _, Unit)| {
            row.get(at).map_or_else(Cell::default, |it| cell_text(it, unit, zone).into())
        };
        table.row_of(cells.iter().map(value).collect());
        let mut lines = String::new();
        for (column, _, _) in &below {
            if let Some(Value::Tree(branches)) = row.get(*column) {
                tree(&mut lines, branches, at, 0);
            }
        }
        table.below(lines);
    }
    table
}

/// Adds a line for each part of a time, whose duration ends in column `at`, followed by the lines of its own parts.
fn tree(out: &mut String, branches: &[Branch], at: usize, depth: usize) {
    for branch in branches {
        let (nanos, share, indent) = (length(branch.nanos), branch.share * 100.0, depth * 2);
        let (text, times) = match branch.is_rest {
            true => (format!("{DIM}{}{DIM:#}", clean(&branch.text)), String::new()),
            false if branch.count > 1 => {
                (clean(&branch.text), format!("{DIM}  ({}×){DIM:#}", count(branch.count)))
            }
            false => (clean(&branch.text), String::new()),
        };
        let _ = writeln!(out, "{nanos:>at$}  {share:5.1} %  {:indent$}{text}{times}", "");
        tree(out, &branch.below, at, depth + 1);
    }
}

/// Returns the alignment of values of a unit.
pub fn align(unit: Unit) -> Align {
    match unit {
        Unit::Text | Unit::Label | Unit::Time | Unit::Spread | Unit::Strip => Align::Left,
        Unit::Bar => Align::Bar,
        Unit::RightText
        | Unit::Count
        | Unit::SomeCount
        | Unit::Nanos
        | Unit::SomeNanos
        | Unit::Bytes
        | Unit::Size
        | Unit::Growth
        | Unit::Share
        | Unit::RoundShare
        | Unit::Rate
        | Unit::Tree => Align::Right,
    }
}

/// Formats a value, without characters that act on a terminal.
pub fn cell_text(value: &Value, unit: Unit, zone: &TimeZone) -> String {
    match (value, unit) {
        (Value::Uint(0), Unit::SomeCount | Unit::SomeNanos | Unit::Bytes) => String::new(),
        (Value::Int(0), Unit::Growth) => String::new(),
        (Value::Uint(number), Unit::Count | Unit::SomeCount) => count(*number),
        (Value::Uint(number), Unit::Nanos | Unit::SomeNanos) => length(*number),
        (Value::Uint(number), Unit::Bytes | Unit::Size) => size(*number),
        (Value::Int(number), Unit::Growth) => {
            let sign = if *number < 0 { "-" } else { "+" };
            format!("{sign}{}", size(number.unsigned_abs()))
        }
        (Value::Float(share), Unit::Share) => format!("{:.1} %", share * 100.0),
        (Value::Float(share), Unit::RoundShare) => format!("{:.0} %", share * 100.0),
        (Value::Float(number), Unit::Rate) => rate(*number),
        (Value::Float(share), Unit::Bar) => long_bar(*share),
        (Value::Strip(columns), _) => strip(columns),
        (Value::Int(time), Unit::Time) => time_of_day(*time, zone),
        (Value::Spread(values), _) => spread(values),
        (Value::Label(label), _) => name(label),
        (Value::Text(text), _) => clean(text),
        (Value::Uint(number), _) => number.to_string(),
        (Value::Int(number), _) => number.to_string(),
        (Value::Float(number), _) => number.to_string(),
        (Value::Bool(yes), _) => yes.to_string(),
        (
            Value::None
            | Value::Absent
            | Value::Record(_)
            | Value::List(_)
            | Value::Values(_)
            | Value::Tree(_),
            _,
        ) => String::new(),
    }
}

/// Draws a column for each part of a time: its height is the share, or `?` if that is unknown.
fn strip(columns: &[Option<f64>]) -> String {
    let ascii = !is_utf8();
    let column = |column: &Option<f64>| column.map_or('?', |share| bar(share, ascii));
    columns.iter().map(column).collect::<String>().trim_end().to_owned()
}

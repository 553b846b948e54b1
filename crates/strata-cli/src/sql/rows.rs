//! Formats the rows of a query as text.

use std::io::{self, Write};
use std::ops::ControlFlow;

use strata_analyze::render::csv_quote;
use strata_sql::{Cell, RowSink};
use strata_text::clean;
use strata_text::json::quoted;

use super::format::SqlFormat;
use crate::stats::table::{shortened, NAME_WIDTH};

/// Number of rows from which the widths of a table's columns are computed; later cells may be wider.
const MEASURED: usize = 500;
/// Limit on the width of a column; its name may be wider \[character\].
const WIDTH_MAX: usize = 80;

/// Writes rows in one of the formats.
pub(super) struct Rows<'w> {
    out: &'w mut dyn Write,
    format: SqlFormat,
    is_terminal: bool,
    names: Vec<String>,
    /// For each column, true if it has only numbers, which are aligned to the right.
    numbers: Vec<bool>,
    widths: Vec<usize>,
    /// Rows that wait until the widths are known.
    waiting: Vec<Vec<(String, bool)>>,
    measured: bool,
    statements: usize,
    /// Width of the terminal; `None` for lines of any length \[character\].
    room: Option<usize>,
    /// Number of columns that fit.
    fitting: usize,
}

impl<'w> Rows<'w> {
    pub(super) fn new(out: &'w mut dyn Write, format: SqlFormat, is_terminal: bool) -> Rows<'w> {
        Rows {
            out,
            format,
            is_terminal,
            names: Vec::new(),
            numbers: Vec::new(),
            widths: Vec::new(),
            waiting: Vec::new(),
            measured: false,
            statements: 0,
            room: None,
            fitting: usize::MAX,
        }
    }

    /// Limits the lines of tables to `room` characters.
    pub(super) fn fit(&mut self, room: Option<usize>) {
        self.room = room;
    }

    /// Narrows columns of text until a line fits, and counts the columns that fit if that is not enough.
    fn narrow(&mut self) {
        self.fitting = self.widths.len();
        let Some(room) = self.room else { return };
        let whole = |widths: &[usize]| widths.iter().map(|width| width + 2).sum::<usize>();
        for at in (0..self.widths.len()).filter(|at| self.numbers.get(*at) == Some(&false)) {
            let excess = whole(&self.widths).saturating_sub(room + 2);
            let width = self.widths[at];
            self.widths[at] = width.saturating_sub(excess).max(NAME_WIDTH).min(width);
        }
        while self.fitting > 1 && whole(&self.widths[..self.fitting]) > room + 2 {
            self.fitting -= 1;
        }
    }

    /// Computes the widths of the columns from the waiting rows, and writes these rows below a header.
    fn measure(&mut self) -> io::Result<()> {
        self.measured = true;
        self.widths = self.names.iter().map(|name| name.chars().count()).collect();
        for row in &self.waiting {
            for (width, (text, _)) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(text.chars().count().min(WIDTH_MAX));
            }
        }
        self.numbers = vec![true; self.names.len()];
        for row in &self.waiting {
            for (is_number, (text, is)) in self.numbers.iter_mut().zip(row) {
                *is_number &= *is || text.is_empty();
            }
        }
        self.narrow();
        let head: Vec<(String, bool)> =
            self.names.iter().map(|name| (name.clone(), false)).collect();
        self.line(&head)?;
        let rule = self.widths.iter().map(|&width| ("-".repeat(width), false)).collect::<Vec<_>>();
        self.line(&rule)?;
        for row in std::mem::take(&mut self.waiting) {
            self.line(&row)?;
        }
        Ok(())
    }

    fn line(&mut self, row: &[(String, bool)]) -> io::Result<()> {
        let mut line = String::new();
        for (index, (text, _)) in row.iter().enumerate().take(self.fitting) {
            if index > 0 {
                line.push_str("  ");
            }
            let width = self.widths.get(index).copied().unwrap_or_default();
            let text = &*match (self.room, self.numbers.get(index)) {
                (Some(_), Some(false)) => shortened(text, width),
                _ => text.into(),
            };
            let space = " ".repeat(width.saturating_sub(text.chars().count()));
            match self.numbers.get(index) {
                Some(true) => {
                    line.push_str(&space);
                    line.push_str(text);
                }
                _ => {
                    line.push_str(text);
                    line.push_str(&space);
                }
            }
        }
        writeln!(self.out, "{}", line.trim_end())
    }

    /// Returns a text, cleaned if the output is a terminal or a table.
    fn shown(&self, text: &[u8]) -> String {
        let text = String::from_utf8_lossy(text);
        match self.is_terminal || self.format == SqlFormat::Table {
            true => clean(&text),
            false => text.into_owned(),
        }
    }

    fn text(&self, cell: Cell<'_>) -> String {
        match cell {
            Cell::Null => String::new(),
            Cell::Integer(value) => value.to_string(),
            Cell::Real(value) if self.format == SqlFormat::Table => short_real(value),
            Cell::Real(value) => format!("{value:?}"),
            Cell::Text(text) => self.shown(text),
            Cell::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

/// Names columns that did not fit, as many as one line of `room` characters has room for.
fn note_of(columns: &[String], room: usize) -> String {
    let mut text = "a wider terminal, or --format csv, also has: ".to_owned();
    for (at, column) in columns.iter().enumerate() {
        let rest = format!(" and {} more", columns.len() - at);
        if at > 0 && text.chars().count() + column.chars().count() + rest.len() + 2 > room {
            return text + &rest;
        }
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(column);
    }
    text
}

/// Formats a number for people, with at most six digits after the point.
fn short_real(value: f64) -> String {
    if !value.is_finite() || value.abs() >= 1e15 || (value != 0.0 && value.abs() < 1e-4) {
        return format!("{value:?}");
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0');
    match text.ends_with('.') {
        true => format!("{text}0"),
        false => text.to_owned(),
    }
}

/// Adds a line of CSV (RFC 4180).
fn csv_line<'t>(out: &mut dyn Write, fields: impl Iterator<Item = &'t str>) -> io::Result<()> {
    let mut line = Vec::new();
    for (index, field) in fields.enumerate() {
        if index > 0 {
            line.push(b',');
        }
        let begin = line.len();
        line.extend_from_slice(field.as_bytes());
        csv_quote(&mut line, begin);
    }
    line.extend_from_slice(b"\r\n");
    out.write_all(&line)
}

fn json_value(out: &mut Vec<u8>, cell: Cell<'_>) {
    match cell {
        Cell::Null => out.extend_from_slice(b"null"),
        Cell::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Cell::Real(value) if value.is_finite() => {
            out.extend_from_slice(format!("{value:?}").as_bytes());
        }
        Cell::Real(value) => quoted(out, if value > 0.0 { b"Infinity" } else { b"-Infinity" }),
        Cell::Text(text) => quoted(out, text),
        Cell::Blob(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            quoted(out, hex.as_bytes());
        }
    }
}

impl RowSink for Rows<'_> {
    fn columns(&mut self, names: &[&str]) -> io::Result<()> {
        self.names = match self.format {
            SqlFormat::Json => names.iter().map(|&name| name.to_owned()).collect(),
            _ => names.iter().map(|name| self.shown(name.as_bytes())).collect(),
        };
        self.measured = false;
        if self.statements > 0 && self.format != SqlFormat::Json {
            writeln!(self.out)?;
        }
        self.statements += 1;
        if self.format == SqlFormat::Csv {
            csv_line(self.out, self.names.iter().map(String::as_str))?;
        }
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<ControlFlow<()>> {
        match self.format {
            SqlFormat::Table => {
                let row = cells.iter().map(|&cell| {
                    (self.text(cell), matches!(cell, Cell::Integer(_) | Cell::Real(_)))
                });
                let row = row.collect::<Vec<_>>();
                if self.measured {
                    self.line(&row)?;
                } else {
                    self.waiting.push(row);
                    if self.waiting.len() >= MEASURED {
                        self.measure()?;
                    }
                }
            }
            SqlFormat::Csv => {
                let texts: Vec<String> = cells.iter().map(|&cell| self.text(cell)).collect();
                csv_line(self.out, texts.iter().map(String::as_str))?;
            }
            SqlFormat::Json => {
                let mut line = vec![b'{'];
                for (index, (&cell, name)) in cells.iter().zip(&self.names).enumerate() {
                    if index > 0 {
                        line.push(b',');
                    }
                    quoted(&mut line, name.as_bytes());
                    line.push(b':');
                    json_value(&mut line, cell);
                }
                line.extend_from_slice(b"}\n");
                self.out.write_all(&line)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self) -> io::Result<()> {
        if self.format == SqlFormat::Table && !self.measured {
            self.measure()?;
        }
        if let Some(others) = self.names.get(self.fitting..).filter(|others| !others.is_empty()) {
            let note = note_of(others, self.room.unwrap_or(usize::MAX));
            writeln!(self.out, "{note}")?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the table of rows with a number, a name and a number.
    fn table(rows: &[(i64, &str, i64)], room: Option<usize>) -> String {
        let mut out = Vec::new();
        let mut table = Rows::new(&mut out, SqlFormat::Table, false);
        table.fit(room);
        table.columns(&["count", "path", "duration_ns"]).unwrap();
        for (first, path, last) in rows {
            let cells = [Cell::Integer(*first), Cell::Text(path.as_bytes()), Cell::Integer(*last)];
            let _ = table.row(&cells).unwrap();
        }
        table.end().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn table_for_a_narrow_terminal_shortens_texts_and_then_leaves_columns_out() {
        let path = format!("/var/{}/end", "folder/".repeat(10));
        let rows = [(1, &*path, 12), (1_234_567, "/etc", 5)];
        let longest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
        let whole = table(&rows, None);
        assert!(whole.contains(&path) && longest(&whole) > 80, "{whole}");
        assert_eq!(table(&rows, Some(120)), whole);
        let fits = table(&rows, Some(80));
        assert!(
            longest(&fits) == 80 && fits.contains("/var/fol") && fits.contains("der//end"),
            "{fits}"
        );
        assert!(fits.lines().nth(2).unwrap().ends_with(" 12"), "{fits}");
        assert_eq!(
            table(&rows[1..], Some(30)),
            "  count  path  duration_ns\n-------  ----  -----------\n1234567  /etc            5\n"
        );
        let names: Vec<String> = (0..30).map(|number| format!("column_{number}")).collect();
        let note = note_of(&names, 80);
        assert!(note.chars().count() <= 80 && note.ends_with(" column_1 and 28 more"), "{note}");
        assert!(note_of(&names[..2], 80).ends_with("also has: column_0, column_1"));
        let narrow = table(&rows, Some(32));
        assert!(narrow.starts_with("  count  path\n"), "{narrow}");
        assert!(narrow.ends_with("also has: duration_ns\n"), "{narrow}");
    }
}

//! Columns under each other.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

/// Titles of columns and of sections.
pub const HEAD: Style = Style::new().bold();
/// What matters less.
pub const DIM: Style = Style::new().dimmed();
/// What should not be.
pub const BAD: Style = AnsiColor::Red.on_default().bold();

/// Where the text of a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A cell: text, and how it looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    text: String,
    style: Style,
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, style: Style::new() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        text.to_owned().into()
    }
}

/// A cell that says something bad, unless it says that there is none.
pub fn bad(text: String, is_bad: bool) -> Cell {
    Cell { text, style: if is_bad { BAD } else { Style::new() } }
}

/// Rows of cells.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// With these columns, from left to right.
    pub fn new(columns: &[(&'static str, Align)]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// A row; as many cells as columns.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// A row of any number of cells.
    pub fn row_of(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Whether there is no row below the titles.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As lines, each of which begins with two spaces. A column without a title or a text is not there.
    pub fn write(&self, out: &mut String) {
        let titles =
            self.columns.iter().map(|(title, _)| Cell { text: (*title).into(), style: HEAD });
        let titles: Vec<Cell> = titles.collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let cells = self.rows.iter().chain([&titles]).filter_map(|row| row.get(column));
                cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
            })
            .collect();
        for row in [&titles].into_iter().chain(&self.rows) {
            self.write_row(out, row, &widths);
        }
    }

    fn write_row(&self, out: &mut String, row: &[Cell], widths: &[usize]) {
        // Spaces are written when something stands behind them: no line ends with some.
        let mut spaces = 0;
        for ((cell, (_, align)), width) in row.iter().zip(&self.columns).zip(widths) {
            if *width == 0 {
                continue;
            }
            let left = width.saturating_sub(cell.text.chars().count());
            spaces += 2;
            if *align == Align::Right {
                spaces += left;
            }
            if !cell.text.is_empty() {
                let (style, text) = (cell.style, &cell.text);
                let _ = write!(out, "{:spaces$}{style}{text}{style:#}", "");
                spaces = 0;
            }
            if *align == Align::Left {
                spaces += left;
            }
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn table_has_columns_under_each_other_and_no_space_at_an_end() {
        let mut table =
            Table::new(&[("name", Align::Left), ("count", Align::Right), ("why", Align::Left)]);
        table.row(["größer".into(), "1".into(), "".into()]);
        table.row(["x".into(), bad("1,234,567".into(), true), "full".into()]);
        let mut text = String::new();
        table.write(&mut text);
        assert!(text.contains("\x1b["), "{text:?}");
        assert_eq!(
            plain(&text),
            "\x20 name        count  why\n\
             \x20 größer          1\n\
             \x20 x       1,234,567  full\n"
        );
    }

    #[test]
    fn row_with_an_empty_cell_in_the_middle_keeps_its_columns() {
        let mut table = Table::new(&[("a", Align::Left), ("b", Align::Right), ("c", Align::Right)]);
        table.row(["x".into(), "".into(), "3".into()]);
        let mut text = String::new();
        table.write(&mut text);
        assert_eq!(plain(&text), "  a  b  c\n  x     3\n");
    }
}

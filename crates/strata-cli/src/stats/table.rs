//! Tables of text in aligned columns.

use std::borrow::Cow;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use crate::stdout;

/// Style of the titles of columns and sections.
pub const HEAD: Style = Style::new().bold();
/// Style of less important text.
pub const DIM: Style = Style::new().dimmed();
/// Style of faults.
pub const BAD: Style = AnsiColor::Red.on_default().bold();

/// Titles of the columns that a narrow terminal can do without, the least important first.
const SPARE: [&str; 17] = [
    "pid",
    "overwritten",
    "B/record",
    "min",
    "per second",
    "records/s",
    "avg",
    "p50",
    "share",
    "p99",
    "moves",
    "1µs..1s",
    "runs",
    "opens",
    "timeouts",
    "errors",
    "unknown",
];
/// Spaces between two columns.
const GAP: usize = 2;
/// Width to which a column of names may be shortened \[column\].
pub const NAME_WIDTH: usize = 20;
/// Width to which a column of names is shortened if that is not enough \[column\].
const NAME_WIDTH_MIN: usize = 12;
/// Width to which a column of bars may be narrowed \[column\].
const BAR_WIDTH: usize = 6;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
    /// Bars from the left. All bars of a narrower column are shorter by the same factor.
    Bar,
}

/// A cell of a table, with its style.
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

/// Makes a cell that is marked as a fault if `is_bad`.
pub fn bad(text: String, is_bad: bool) -> Cell {
    Cell { text, style: if is_bad { BAD } else { Style::new() } }
}

/// A table of texts in columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    /// Spaces before the first column.
    indent: usize,
    /// Cells of each row, and whole lines below the row.
    rows: Vec<(Vec<Cell>, String)>,
}

impl Table {
    /// Makes a table with these columns, from left to right.
    pub fn new(columns: &[(&'static str, Align)]) -> Table {
        Table { columns: columns.to_vec(), indent: GAP, rows: Vec::new() }
    }

    /// Makes a table whose lines begin with the first column.
    pub fn flush_left(columns: &[(&'static str, Align)]) -> Table {
        Table { indent: 0, ..Table::new(columns) }
    }

    /// Adds a row, which has as many cells as the table has columns.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.row_of(cells.into());
    }

    /// Adds a row of any number of cells.
    pub fn row_of(&mut self, cells: Vec<Cell>) {
        self.rows.push((cells, String::new()));
    }

    /// Puts lines below the last row.
    pub fn below(&mut self, lines: String) {
        if let Some((_, below)) = self.rows.last_mut() {
            *below = lines;
        }
    }

    /// Returns true if the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the table as lines. Columns without a title or any text are left out, and so is the line of titles if
    /// there are no titles. On a terminal, bars become shorter, the least important columns are left out, and names are
    /// shortened, until a line fits.
    pub fn write(&self, out: &mut String) {
        self.write_within(out, stdout::terminal_columns().filter(|_| stdout::is_terminal()));
    }

    /// Writes the table for lines of `room` characters; `None` means of any length.
    pub fn write_within(&self, out: &mut String, room: Option<usize>) {
        let titles =
            self.columns.iter().map(|(title, _)| Cell { text: (*title).into(), style: HEAD });
        let titles: Vec<Cell> = titles.collect();
        let mut widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let rows = self.rows.iter().map(|(cells, _)| cells);
                let cells = rows.chain([&titles]).filter_map(|row| row.get(column));
                cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let whole = widths.clone();
        let left_out = room.map_or_else(Vec::new, |room| self.fit(&mut widths, room));
        let widths: Vec<_> = widths.into_iter().zip(whole).collect();
        if self.columns.iter().any(|(title, _)| !title.is_empty()) {
            self.write_row(out, &titles, &widths);
        }
        for (cells, below) in &self.rows {
            if widths.iter().any(|&(width, _)| width > 0) {
                self.write_row(out, cells, &widths);
            }
            out.push_str(below);
        }
        if !left_out.is_empty() {
            let _ =
                writeln!(out, "  {DIM}a wider terminal also has: {}{DIM:#}", left_out.join(", "));
        }
    }

    /// Narrows columns until a line has at most `room` characters, as far as that is possible. Returns the titles of
    /// the columns that are left out.
    fn fit(&self, widths: &mut [usize], room: usize) -> Vec<&'static str> {
        let last = self.columns.len().saturating_sub(1);
        let is_left =
            |at: usize| self.columns.get(at).is_some_and(|(_, align)| *align == Align::Left);
        let excess = |widths: &[usize], least: usize| {
            // Text in the last column is cut at the end of the line.
            let used = |(at, &width): (usize, &usize)| match at == last && is_left(at) {
                true => width.min(least),
                false => width,
            };
            let used = widths.iter().enumerate().map(used).filter(|width| *width > 0);
            let used = used.map(|width| width + GAP).sum::<usize>();
            (used + self.indent).saturating_sub(room + GAP)
        };
        let narrow = |widths: &mut [usize], align, least: usize, rest: usize, until| {
            let is_it = |at: &usize| self.columns.get(*at).is_some_and(|(_, it)| *it == align);
            for at in (0..until).filter(is_it) {
                let wanted = widths[at].saturating_sub(excess(widths, rest));
                widths[at] = wanted.max(least).min(widths[at]);
            }
        };
        let mut left_out = Vec::new();
        narrow(widths, Align::Bar, BAR_WIDTH, NAME_WIDTH, self.columns.len());
        for spare in SPARE {
            let at = self.columns.iter().position(|(title, _)| *title == spare);
            let Some(at) = at.filter(|_| excess(widths, NAME_WIDTH) > 0) else { continue };
            if std::mem::take(&mut widths[at]) > 0 {
                left_out.push(spare);
            }
        }
        for least in [NAME_WIDTH, NAME_WIDTH_MIN] {
            narrow(widths, Align::Left, least, least, last);
        }
        // A number that is cut would read as another one.
        for (at, (title, align)) in self.columns.iter().enumerate().rev() {
            let is_over = excess(widths, NAME_WIDTH_MIN) > 0 && !title.is_empty();
            if is_over && *align == Align::Right && std::mem::take(&mut widths[at]) > 0 {
                left_out.push(title);
            }
        }
        left_out
    }

    /// Writes a row. Each column has the width that it gets, and the width that its whole texts need.
    fn write_row(&self, out: &mut String, row: &[Cell], widths: &[(usize, usize)]) {
        // Spaces are written only before further text, so that no line ends with spaces.
        let (mut spaces, mut gap) = (0, self.indent);
        for ((cell, (_, align)), (width, whole)) in row.iter().zip(&self.columns).zip(widths) {
            if *width == 0 {
                continue;
            }
            let text = match align {
                Align::Bar => scaled(&cell.text, *width, *whole),
                Align::Left | Align::Right => shortened(&cell.text, *width),
            };
            let left = width.saturating_sub(text.chars().count());
            spaces += std::mem::replace(&mut gap, GAP);
            if *align == Align::Right {
                spaces += left;
            }
            if !cell.text.is_empty() {
                let style = cell.style;
                let _ = write!(out, "{:spaces$}{style}{text}{style:#}", "");
                spaces = 0;
            }
            if *align != Align::Right {
                spaces += left;
            }
        }
        out.push('\n');
    }
}

/// Returns the text with a `…` in place of its middle if it has more than `width` characters, since both the begin and
/// the end distinguish processes and threads.
pub fn shortened(text: &str, width: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= width {
        return Cow::Borrowed(text);
    }
    let kept = width.saturating_sub(1);
    let begin = text.chars().take(kept - kept / 2);
    let end = text.chars().skip(length - kept / 2);
    Cow::Owned(begin.chain(['…']).chain(end).collect())
}

/// Returns a bar of a column that has `width` characters in place of `whole`. A bar that is not empty stays so.
fn scaled(bar: &str, width: usize, whole: usize) -> Cow<'_, str> {
    if width >= whole {
        return Cow::Borrowed(bar);
    }
    let length = (bar.chars().count() * width).div_ceil(whole);
    Cow::Owned(bar.chars().take(length).collect())
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
    fn lines_stand_below_their_row_and_without_titles_there_is_no_line_of_them() {
        let mut table = Table::new(&[("", Align::Left), ("", Align::Right)]);
        table.row(["x".into(), "1".into()]);
        table.below("    a part\n".into());
        table.row(["y".into(), "20".into()]);
        let mut text = String::new();
        table.write(&mut text);
        assert_eq!(plain(&text), "  x   1\n    a part\n  y  20\n");
    }

    #[test]
    fn row_with_an_empty_cell_in_the_middle_keeps_its_columns() {
        let mut table = Table::new(&[("a", Align::Left), ("b", Align::Right), ("c", Align::Right)]);
        table.row(["x".into(), "".into(), "3".into()]);
        let mut text = String::new();
        table.write(&mut text);
        assert_eq!(plain(&text), "  a  b  c\n  x     3\n");
    }

    #[test]
    fn table_for_a_narrow_terminal_leaves_out_what_tells_least_and_then_shortens_names() {
        let columns = [("thread", Align::Left), ("count", Align::Right), ("avg", Align::Right)];
        let mut table = Table::new(&columns);
        table.row(["clippy-driver (24776) rustc/24777".into(), "1".into(), "2.000 ms".into()]);
        table.row(["x".into(), "12".into(), "3.000 ms".into()]);
        let shown = |room| {
            let mut text = String::new();
            table.write_within(&mut text, room);
            plain(&text)
        };
        let whole = shown(None);
        assert_eq!(shown(Some(52)), whole);
        assert_eq!(
            shown(Some(42)),
            "\x20 thread                             count\n\
             \x20 clippy-driver (24776) rustc/24777      1\n\
             \x20 x                                     12\n\
             \x20 a wider terminal also has: avg\n"
        );
        assert_eq!(
            shown(Some(29)),
            "\x20 thread                count\n\
             \x20 clippy-dri…stc/24777      1\n\
             \x20 x                        12\n\
             \x20 a wider terminal also has: avg\n"
        );
        // Then names are shortened more, and numbers are left out from the right.
        assert_eq!(
            shown(Some(16)),
            "\x20 thread\n\
             \x20 clippy…24777\n\
             \x20 x\n\
             \x20 a wider terminal also has: avg, count\n"
        );
    }
    #[test]
    fn bars_of_a_narrow_terminal_are_shorter_and_stay_in_proportion() {
        let columns = [("from", Align::Right), ("calls", Align::Right), ("", Align::Bar)];
        let mut table = Table::new(&columns);
        for (from, bar) in [("1.024 µs", 40), ("2.048 µs", 20), ("4.096 µs", 1), ("8.192 µs", 0)]
        {
            table.row([from.into(), "1".into(), "#".repeat(bar).into()]);
        }
        let bars = |room: usize| {
            let mut text = String::new();
            table.write_within(&mut text, Some(room));
            let text = plain(&text);
            let rows = || text.lines().filter(|line| !line.contains("a wider terminal"));
            let longest = rows().map(|line| line.chars().count()).max();
            assert!(longest <= Some(room), "{text}");
            let bar = |line: &str| line.matches('#').count();
            rows().skip(1).map(bar).collect::<Vec<_>>()
        };
        assert_eq!(bars(59), [40, 20, 1, 0]);
        assert_eq!(bars(58), [39, 20, 1, 0]);
        assert_eq!(bars(39), [20, 10, 1, 0]);
        assert_eq!(bars(25), [6, 3, 1, 0]);
        // Then numbers are left out. A bar without a title could not be told to be missing.
        assert_eq!(bars(10), [6, 3, 1, 0]);
    }

    #[test]
    fn texts_without_a_title_stay_on_a_narrow_terminal() {
        let mut table = Table::new(&[("", Align::Left), ("", Align::Right), ("", Align::Left)]);
        table.row(["CPU time".into(), "1.500 s".into(), "clippy-driver (24776)".into()]);
        let mut text = String::new();
        table.write_within(&mut text, Some(30));
        assert_eq!(plain(&text), "  CPU time  1.500 s  clippy-driver (24776)\n");
    }
}

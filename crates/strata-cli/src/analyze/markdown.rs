//! Reports as Markdown (GitHub's, with tables), for a comment on a change or a page of a wiki.

use std::fmt::Write as _;

use strata_analyze::render::TimeZone;
use strata_report::{Document, Part, Table, Unit};

use super::report_text::{align, cell_text};
use crate::stats::table::Align;

/// Formats a report as Markdown. Histograms are left out.
pub fn markdown(document: &Document, zone: &TimeZone) -> String {
    let mut out = format!("**{}**\n", escaped(&document.head));
    for part in &document.parts {
        match part {
            Part::Rows { table, all } => {
                write_table(&mut out, table, zone);
                if *all > table.rows.len() {
                    let _ = writeln!(out, "\n{} of {all} rows are shown.", table.rows.len());
                }
            }
            Part::Section { title: Some(title), table, .. } if !table.rows.is_empty() => {
                if !title.is_empty() {
                    let _ = writeln!(out, "\n{}:", escaped(title));
                }
                write_table(&mut out, table, zone);
            }
            Part::Line(text) | Part::Note(text) => {
                let _ = writeln!(out, "\n{}", escaped(text));
            }
            Part::Section { .. } | Part::Histogram { .. } | Part::Blank | Part::Exactness => {}
        }
    }
    out
}

fn write_table(out: &mut String, table: &Table, zone: &TimeZone) {
    let columns: Vec<_> = table
        .columns
        .iter()
        .enumerate()
        .filter_map(|(at, column)| Some((at, column.title?, column.unit)))
        .filter(|(_, _, unit)| !matches!(unit, Unit::Spread | Unit::Tree))
        .collect();
    if table.rows.is_empty() || columns.is_empty() {
        return;
    }
    out.push('\n');
    for (_, title, _) in &columns {
        let _ = write!(out, "| {} ", escaped(title));
    }
    out.push_str("|\n");
    for (_, _, unit) in &columns {
        out.push_str(match align(*unit) {
            Align::Left | Align::Bar => "|---",
            Align::Right => "|--:",
        });
    }
    out.push_str("|\n");
    for row in &table.rows {
        for &(at, _, unit) in &columns {
            let text = row.get(at).map(|value| cell_text(value, unit, zone)).unwrap_or_default();
            let _ = write!(out, "| {} ", escaped(&text));
        }
        out.push_str("|\n");
    }
}

/// Escapes a text, so that nothing of a trace becomes a link, an image or HTML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, one) in text.char_indices() {
        match one {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            // `@` and `#` with a name would become references, which notify people.
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            // GitHub makes links of addresses that are no markup, by their first signs.
            ':' if text.get(at..).is_some_and(|text| text.starts_with("://")) => {
                out.push_str("&#58;")
            }
            '.' if text.get(..at).is_some_and(ends_with_www) => out.push_str("&#46;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '>' | '!' => out.extend(['\\', one]),
            '\n' | '\r' => out.push(' '),
            one => out.push(one),
        }
    }
    out
}

fn ends_with_www(text: &str) -> bool {
    text.as_bytes().last_chunk::<3>().is_some_and(|last| last.eq_ignore_ascii_case(b"www"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_report::{Columns, Value};

    #[test]
    fn names_of_a_trace_are_no_markup() {
        let rows =
            ["a|b", "[x](http://y)", "<img src=z>", "@all #1 `c` ![p](q)", "https://x.y Www.z a:b"];
        let columns = Columns::new()
            .both("name", "name", Unit::Text, |row: &&str| Value::text(*row))
            .both("count", "count", Unit::Count, |_| Value::Uint(1234));
        let mut document = Document::new("2 *slower*");
        document.rows(columns.rows(&rows), 9);
        document.push(Part::Note("not counted: 1".into()));
        let wanted = "**2 \\*slower\\***\n\n| name | count |\n|---|--:|\n\
                      | a\\|b | 1,234 |\n\
                      | \\[x\\](http&#58;//y) | 1,234 |\n\
                      | &lt;img src=z\\> | 1,234 |\n\
                      | &#64;all &#35;1 \\`c\\` \\!\\[p\\](q) | 1,234 |\n\
                      | https&#58;//x.y Www&#46;z a:b | 1,234 |\n\
                      \n5 of 9 rows are shown.\n\nnot counted: 1\n";
        let utc = TimeZone::UTC;
        assert_eq!(markdown(&document, &utc), wanted);
    }
}

//! Writes the table of counts, again and again.

use std::io::{self, Write as _};

use anyhow::Result;
use strata_analyze::render::TimeZone;
use strata_report::{csv, members, Document};
use strata_text::json::compact;

use crate::analyze::report_command::Format;
use crate::analyze::report_text;
use crate::stdout;

/// The output, with the format in which tables are written.
pub struct Screen {
    format: Format,
    /// True if a table on the terminal takes the place of the one before.
    is_drawn: bool,
    is_first: bool,
    /// True if several tables are written.
    repeats: bool,
}

impl Screen {
    /// Returns an output without a table. `repeats`: true if tables are shown while counting continues.
    pub fn new(format: Format, repeats: bool) -> Screen {
        let is_drawn = repeats && stdout::is_terminal() && format == Format::Text;
        Screen { format, is_drawn, is_first: true, repeats }
    }

    /// Returns whether each table takes the place of the one before.
    pub fn is_drawn(&self) -> bool {
        self.is_drawn
    }

    /// Shows the table of the moment.
    ///
    /// # Errors
    /// The table cannot be written.
    pub fn show(&mut self, document: &Document) -> Result<()> {
        if self.format == Format::Json {
            return stdout::text("count", &(compact(&members(document)) + "\n"));
        }
        let text = text(self.format, document);
        if !self.is_drawn {
            return stdout::text("count", &(text + "\n"));
        }
        let is_first = std::mem::replace(&mut self.is_first, false);
        Ok(draw(&text, is_first)?)
    }

    /// Shows the table of the end.
    ///
    /// # Errors
    /// The table cannot be written.
    pub fn end(&mut self, document: &Document) -> Result<()> {
        if self.is_drawn && !self.is_first {
            return Ok(draw(&text(self.format, document), false)?);
        }
        match self.format {
            Format::Json if self.repeats => self.show(document),
            Format::Json => stdout::json("count", &members(document)),
            Format::Text => stdout::paged("count", &text(self.format, document), true),
            format => stdout::text("count", &text(format, document)),
        }
    }
}

fn text(format: Format, document: &Document) -> String {
    match format {
        Format::Csv => csv(document),
        _ => report_text::text(document, &TimeZone::UTC),
    }
}

/// Writes a text in the place of the last one.
pub fn draw(text: &str, is_first: bool) -> io::Result<()> {
    let mut out = stdout::raw();
    out.write_all(if is_first { b"\x1b[2J\x1b[H" } else { b"\x1b[H" })?;
    let columns = stdout::terminal_columns().unwrap_or(usize::MAX);
    for line in strata_text::clean_lines(text).lines() {
        // A wrapped line would push the others off the screen.
        let line: String = line.chars().take(columns).collect();
        write!(out, "{line}\x1b[K\r\n")?;
    }
    out.write_all(b"\x1b[J")?;
    out.flush()
}

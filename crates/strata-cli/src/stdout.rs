//! Writes to stdout: data, never messages. All commands write through this module, so that foreign names cannot act on
//! a terminal or on programs that read the data.
#![allow(clippy::disallowed_methods)]

use std::io::{self, IsTerminal as _, StdoutLock, Write};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use serde::Serialize;
use strata_text::{clean_lines, json};

use crate::pager;

/// Further indent of the rest of a line that was broken \[column\].
const CONTINUED: usize = 4;

/// Writes `value` as JSON on one line. `of` is the command, for an error message.
///
/// # Errors
/// Stdout cannot be written.
pub fn json(of: &str, value: &impl Serialize) -> Result<()> {
    plain(of, &(json::compact(value) + "\n"))
}

/// Writes `value` as indented JSON. `of` is the command, for an error message.
///
/// # Errors
/// Stdout cannot be written.
pub fn json_lines(of: &str, value: &impl Serialize) -> Result<()> {
    plain(of, &(json::indented(value) + "\n"))
}

/// Writes a text for people, with colours only on a terminal without NO_COLOR.
///
/// # Errors
/// Stdout cannot be written.
pub fn text(of: &str, text: &str) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let written = out.write_all(clean_lines(text).as_bytes()).and_then(|()| out.flush());
    written.with_context(|| format!("{of}: cannot write to stdout"))
}

/// Writes a text for people as [`text`] does. On a terminal, the text goes through a pager, which shows a short text at
/// once and cuts long lines.
///
/// # Errors
/// Stdout cannot be written, or the pager has failed.
pub fn paged(of: &str, text: &str, with_pager: bool) -> Result<()> {
    let started = if with_pager && !text.is_empty() { pager::start() } else { None };
    let Some(mut child) = started else {
        let columns = terminal_columns().filter(|_| is_terminal());
        return match columns {
            Some(columns) => self::text(of, &cut_lines(text, columns)),
            None => self::text(of, text),
        };
    };
    // Ctrl-C is for the pager, which may continue: if this program ended before the pager, the pager would have no
    // terminal.
    let _heard = strata_session::stop::Stop::on_signals();
    let mut shown = clean_lines(text).into_owned();
    if std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        shown = anstream::adapter::strip_str(&shown).to_string();
    }
    if let Some(mut pipe) = child.stdin.take() {
        // A pager that was closed has shown enough.
        let _ = pipe.write_all(shown.as_bytes());
    }
    child.wait().map(drop).with_context(|| format!("{of}: cannot wait for the pager"))
}

/// Writes a text for people as [`paged`] does. On a terminal, lines that do not fit are broken between words.
///
/// # Errors
/// Stdout cannot be written, or the pager has failed.
pub fn paged_whole(of: &str, text: &str) -> Result<()> {
    match terminal_columns().filter(|_| is_terminal()) {
        Some(columns) => paged(of, &broken_lines(text, columns), true),
        None => self::text(of, text),
    }
}

/// Breaks lines of plain text that are wider than the terminal between words. What follows is indented by
/// [`CONTINUED`] more columns.
fn broken_lines(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let words = line.trim_start_matches(' ');
        let indent = line.len() - words.len();
        // On a terminal that is too narrow for the indent, lines are cut.
        let continued = Some(indent + CONTINUED).filter(|continued| continued * 2 <= columns);
        let mut used = indent;
        out.push_str(&line[..indent]);
        for (number, word) in words.split(' ').enumerate() {
            let width = word.chars().count();
            match continued {
                Some(continued) if number > 0 && used + 1 + width > columns => {
                    out.push('\n');
                    out.extend(std::iter::repeat_n(' ', continued));
                    used = continued;
                }
                _ if number > 0 => {
                    out.push(' ');
                    used += 1;
                }
                _ => {}
            }
            out.push_str(word);
            used += width;
        }
        out.push('\n');
    }
    out
}

/// Cuts lines that a terminal would wrap, as the pager does. Commands to type stay whole.
fn cut_lines(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let is_command = is_command(line);
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        match is_command {
            true => out.push_str(body),
            false => push_cut(&mut out, body, columns),
        }
        out.push_str(end);
    }
    out
}

/// Returns true if a line is a command to type. In the row of a process with the name `strata`, a number follows the
/// name.
fn is_command(line: &str) -> bool {
    let verb = line.trim_start().strip_prefix("strata ");
    verb.is_some_and(|verb| verb.starts_with(|first: char| first.is_ascii_lowercase()))
}

/// Appends as much of a line as fits, with `…` for the rest. Colours take no columns, and end with the line.
fn push_cut(out: &mut String, line: &str, columns: usize) {
    let begin = out.len();
    let (mut used, mut is_colour, mut has_colour, mut last) = (0usize, false, false, begin);
    for character in line.chars() {
        if is_colour || character == '\x1b' {
            is_colour = character != 'm';
            has_colour = true;
        } else if used == columns {
            out.truncate(last);
            out.push('…');
            if has_colour {
                out.push_str("\x1b[0m");
            }
            return;
        } else {
            last = out.len();
            used += 1;
        }
        out.push(character);
    }
}

/// Writes lines of columns that are separated by tabs, for scripts. The caller has cleaned each text with
/// [`strata_text::clean`], so that every tab is a separator.
///
/// # Errors
/// Stdout cannot be written.
pub fn columns(of: &str, lines: &str) -> Result<()> {
    plain(of, lines)
}

fn plain(of: &str, text: &str) -> Result<()> {
    let mut out = raw();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.with_context(|| format!("{of}: cannot write to stdout"))
}

/// Writer that takes a text for people in pieces, and writes it as [`text`] does.
#[derive(Debug)]
pub struct TextLines {
    out: StdoutLock<'static>,
    line: Vec<u8>,
}

/// Size of the lines that are written together \[byte\].
const TEXT_BYTES: usize = 64 << 10;

impl TextLines {
    /// Makes a writer to stdout.
    #[must_use]
    pub fn new() -> TextLines {
        TextLines { out: raw(), line: Vec::new() }
    }
}

impl Write for TextLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        if self.line.len() >= TEXT_BYTES && self.line.ends_with(b"\n") {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.line);
        self.out.write_all(clean_lines(&text).as_bytes())?;
        self.line.clear();
        self.out.flush()
    }
}

/// Returns stdout without cleaning, for formats whose texts are escaped by their writers.
pub fn raw() -> StdoutLock<'static> {
    io::stdout().lock()
}

/// Returns true if the error means that the reader of stdout has closed it.
pub fn is_closed(error: &anyhow::Error) -> bool {
    let kind = error.root_cause().downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}

/// Returns the width of the terminal on stdout \[column\]; `None` if stdout is no terminal.
#[must_use]
pub fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(raw()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Waits for `wait`. Returns true if nobody reads stdout any more.
pub fn is_closed_within(wait: Duration) -> bool {
    let out = raw();
    let mut fds = [PollFd::new(&out, PollFlags::empty())];
    let timeout = Timespec::try_from(wait).ok();
    // A signal only makes the wait shorter.
    let ready = poll(&mut fds, timeout.as_ref()).unwrap_or(0);
    ready > 0 && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Returns true if stdout is a terminal.
#[must_use]
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_do_not_fit_are_broken_between_words_and_keep_every_word() {
        for (text, wanted) in [
            (
                "  fields { u32 a, u64 bc, string nam }\n",
                "  fields { u32 a,\n      u64 bc,\n      string nam }\n",
            ),
            ("  a  b\n\n", "  a  b\n\n"),
            (
                "  a-word-that-is-too-long-by-itself x\n",
                "  a-word-that-is-too-long-by-itself\n      x\n",
            ),
            ("        deep and deeper still\n", "        deep and deeper still\n"),
        ] {
            assert_eq!(broken_lines(text, 18), wanted, "{text:?}");
        }
    }

    #[test]
    fn lines_that_do_not_fit_are_cut_but_for_commands_and_colours_take_no_room() {
        for (text, wanted) in [
            ("12345678\n", "12345678\n"),
            ("123456789\nüüüüüüüüü", "1234567…\nüüüüüüü…"),
            ("\x1b[31m12345678\x1b[0m\n", "\x1b[31m12345678\x1b[0m\n"),
            ("\x1b[31m123456789\x1b[0m\n", "\x1b[31m1234567…\x1b[0m\n"),
            ("  strata view -f 'x' t\n", "  strata view -f 'x' t\n"),
            ("  strata (812)\n", "  strat…\n"),
            ("\n\n", "\n\n"),
        ] {
            assert_eq!(cut_lines(text, 8), wanted, "{text:?}");
        }
    }
}

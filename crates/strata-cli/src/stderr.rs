//! Writes messages to stderr, and never data.
//!
//! ```text
//! Notice, Report, errors ── messages: the text of each, and its weight: talk, warning or failure ── message() ──▶ "strata: ..."
//! bytes read, records so far ── progress: one line that is redrawn, on a terminal only
//! ```
//!
//! All commands write through this module and [`stdout`](crate::stdout), so that names from traces and programs cannot act
//! on a terminal. A closed stderr is no reason to fail. There are colours only on a terminal, and not with NO_COLOR.
//!
//! The texts are in `messages` and not where something goes wrong: layers hand over facts (a [`Report`](strata_session::report::Report),
//! a notice, an error with its causes), and tests compare what people read. A message says what failed, which one, the value that was
//! found, the limit, and what to do. `-q` leaves out what is talk; it never leaves out a warning or a failure.
//!
//! # Weights
//! - Talk: what was done, and what to type next. Only talk is left out by `-q`.
//! - Warning: the result is less than what was asked for, and the command goes on.
//! - Failure: the command ends. Its exit status is in the help of each command.
//!
//! Under systemd, a line has the priority of its weight in front, so that `journalctl -p warning` finds it. Any
//! thread may print: a message is written under the lock of stderr, so that lines of two threads do not mix.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use strata_text::clean_lines;

use crate::stderr::messages::{Message, Weight};

pub mod messages;
pub mod progress;

/// Prints a message about a failure.
pub fn failure(text: &str) {
    message(&Message { weight: Weight::Failure, text: text.to_owned() });
}

/// Prints a warning.
pub fn warn(text: String) {
    message(&Message { weight: Weight::Warning, text });
}

/// Prints a message of this program.
pub fn message(message: &Message) {
    let style = match message.weight {
        Weight::Talk => Style::new().bold(),
        Weight::Warning => AnsiColor::Yellow.on_default().bold(),
        Weight::Failure => AnsiColor::Red.on_default().bold(),
    };
    // A table needs no prefix.
    let text = match message.text.starts_with("  ") {
        true => message.text.clone(),
        false => format!("{style}strata:{style:#} {}", message.text),
    };
    match is_journal() {
        true => line(&with_priority(&text, message.weight)),
        false => line(&text),
    }
}

/// Returns true if stderr goes to systemd's journal, which systemd says in JOURNAL_STREAM by the device and number of its file.
fn is_journal() -> bool {
    static IS_JOURNAL: OnceLock<bool> = OnceLock::new();
    *IS_JOURNAL.get_or_init(|| {
        let Ok(said) = std::env::var("JOURNAL_STREAM") else { return false };
        let about = rustix::fs::fstat(io::stderr());
        about.is_ok_and(|about| said == format!("{}:{}", about.st_dev, about.st_ino))
    })
}

/// Puts the priority that the journal takes from a line's begin in front of each line.
fn with_priority(text: &str, weight: Weight) -> String {
    let priority = match weight {
        Weight::Talk => 6,
        Weight::Warning => 4,
        Weight::Failure => 3,
    };
    let lines: Vec<_> = text.lines().map(|line| format!("<{priority}>{line}")).collect();
    lines.join("\n")
}

/// Prints a line unchanged, with colours only on a terminal without NO_COLOR.
pub fn line(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", clean_lines(text));
}

/// Prints messages that a session has written to its file; commands that it started may have written there as well.
///
/// # Errors
/// Stderr cannot be written.
pub fn said(bytes: &[u8]) -> io::Result<()> {
    anstream::stderr().write_all(clean_lines(&String::from_utf8_lossy(bytes)).as_bytes())
}

/// Returns true if stderr is a terminal on which a line can be redrawn.
pub fn is_live() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

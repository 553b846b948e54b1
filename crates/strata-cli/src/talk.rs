//! What goes to stderr: talk, never data. If nobody can hear it, that is no reason to fail.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};

use crate::talk::messages::{Message, Weight};

pub mod exit;
pub mod messages;
pub mod progress;
pub mod units;
pub mod zone;

/// Say that something failed.
pub fn failure(text: &str) {
    message(&Message { weight: Weight::Failure, text: text.to_owned() });
}

/// Say a line of the program's own.
pub fn message(message: &Message) {
    let style = match message.weight {
        Weight::Talk => Style::new().bold(),
        Weight::Warning => AnsiColor::Yellow.on_default().bold(),
        Weight::Failure => AnsiColor::Red.on_default().bold(),
    };
    // A table speaks for itself.
    if message.text.starts_with("  ") {
        line(&message.text);
    } else {
        line(&format!("{style}strata:{style:#} {}", message.text));
    }
}

/// Say a line as it is; colours only where they are wanted (a terminal, no NO_COLOR).
pub fn line(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Is somebody looking at a terminal on which a line may be drawn again and again?
pub fn is_live() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

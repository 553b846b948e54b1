//! Where the text goes: stdout, or a pager in front of it.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::Child;

use super::pager;

/// Takes the text.
pub struct ViewOutput {
    /// Nothing is kept back in it, and nothing looked for in the text.
    out: File,
    pager: Option<Child>,
    is_terminal: bool,
}

impl ViewOutput {
    /// stdout, or a pager if that is a terminal.
    pub fn open(with_pager: bool) -> io::Result<ViewOutput> {
        let is_terminal = io::stdout().is_terminal();
        let mut pager = if with_pager && is_terminal && !is_dumb() { pager::start() } else { None };
        let out = match pager.as_mut().and_then(|pager| pager.stdin.take()) {
            Some(pipe) => pipe.as_fd().try_clone_to_owned()?,
            None => io::stdout().as_fd().try_clone_to_owned()?,
        };
        Ok(ViewOutput { out: File::from(out), pager, is_terminal })
    }

    /// Whether somebody reads it on a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Whether the terminal is a pager's.
    pub fn is_pager(&self) -> bool {
        self.pager.is_some()
    }

    /// Columns of the terminal, where nothing but it cuts or wraps lines.
    pub fn width(&self) -> Option<usize> {
        if !self.is_terminal || self.pager.is_some() {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(&self.out).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    }

    /// Whether colours are of use.
    pub fn wants_colours(&self) -> bool {
        let asked_not = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.is_terminal && !is_dumb() && !asked_not
    }

    /// Take it.
    pub fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.out.write_all(text)
    }

    /// There is no more; a pager is waited for.
    pub fn close(self) {
        drop(self.out);
        if let Some(mut pager) = self.pager {
            // How it ends is the pager's matter.
            let _ = pager.wait();
        }
    }
}

/// A terminal that can show nothing but lines.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb")
}

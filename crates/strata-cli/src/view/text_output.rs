//! The destination of the text: stdout, or a pager.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::Child;

use crate::pager;
use crate::stdout;

/// Destination of the text of `strata view`.
pub struct ViewOutput {
    /// The unbuffered file; the text is passed to it unchanged.
    out: File,
    pager: Option<Child>,
    is_terminal: bool,
}

impl ViewOutput {
    /// Opens stdout, or a pager if stdout is a terminal.
    pub fn open(with_pager: bool) -> io::Result<ViewOutput> {
        let is_terminal = stdout::is_terminal();
        let mut pager = if with_pager { pager::start() } else { None };
        let out = match pager.as_mut().and_then(|pager| pager.stdin.take()) {
            Some(pipe) => pipe.as_fd().try_clone_to_owned()?,
            None => stdout::raw().as_fd().try_clone_to_owned()?,
        };
        Ok(ViewOutput { out: File::from(out), pager, is_terminal })
    }

    /// Returns true if the text is shown on a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns true if a pager shows the text.
    pub fn is_pager(&self) -> bool {
        self.pager.is_some()
    }

    /// Width of the terminal if no pager cuts or wraps lines \[column\].
    pub fn width(&self) -> Option<usize> {
        if !self.is_terminal || self.pager.is_some() {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(&self.out).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    }

    /// Returns true if colours should be used.
    pub fn wants_colours(&self) -> bool {
        let asked_not = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.is_terminal && !pager::is_dumb() && !asked_not
    }

    /// Writes the text.
    pub fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.out.write_all(text)
    }

    /// Closes the output, and waits for the pager.
    pub fn close(self) {
        drop(self.out);
        if let Some(mut pager) = self.pager {
            // The pager's exit status does not matter.
            let _ = pager.wait();
        }
    }
}

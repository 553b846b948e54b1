//! Work that remains after a layer has ended. A child process does it, and nobody has to wait.

use rustix::io::Errno;
use rustix::process::{waitpid, Pid, WaitOptions};

/// The child process that detaches BPF programs, if there is one, with a remark about it. Dropping this value leaves
/// the child alone.
#[derive(Debug, Default)]
pub struct Detaching {
    child: Option<Pid>,
    remark: Option<String>,
}

impl Detaching {
    /// Creates the handle of the child process `child`, with a remark if detaching takes long.
    pub(crate) fn by(child: Pid, remark: Option<String>) -> Detaching {
        Detaching { child: Some(child), remark }
    }

    /// Returns the remark that detaching takes long; `None` if it does not.
    #[must_use]
    pub fn remark(&self) -> Option<&str> {
        self.child.and(self.remark.as_deref())
    }

    /// Returns `self` if it has a child process, and `other` otherwise.
    pub(crate) fn or(self, other: Detaching) -> Detaching {
        match self.child {
            Some(_) => self,
            None => other,
        }
    }

    /// Returns whether the child process is still detaching programs.
    #[must_use]
    pub fn is_going_on(&mut self) -> bool {
        if let Some(child) = self.child {
            if !matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None)) {
                self.child = None;
            }
        }
        self.child.is_some()
    }

    /// Waits until the child process has detached all programs.
    pub fn wait(self) {
        if let Some(child) = self.child {
            while let Err(Errno::INTR) = waitpid(Some(child), WaitOptions::empty()) {}
        }
    }
}

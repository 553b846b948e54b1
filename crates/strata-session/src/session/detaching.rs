//! What is left to do when a layer has ended: a process of its own does it, and nobody waits for that.

use rustix::io::Errno;
use rustix::process::{waitpid, Pid, WaitOptions};

/// The child that does it, if there is one, and what to know of it. Dropping this leaves it alone.
#[derive(Debug, Default)]
pub struct Detaching {
    child: Option<Pid>,
    remark: Option<String>,
}

impl Detaching {
    /// This child does it. `remark`: where it takes long.
    pub(crate) fn by(child: Pid, remark: Option<String>) -> Detaching {
        Detaching { child: Some(child), remark }
    }

    /// What to know of it, where it takes long.
    #[must_use]
    pub fn remark(&self) -> Option<&str> {
        self.child.and(self.remark.as_deref())
    }

    /// This one, or the other one if there is none here.
    pub(crate) fn or(self, other: Detaching) -> Detaching {
        match self.child {
            Some(_) => self,
            None => other,
        }
    }

    /// Is there still something left to do?
    #[must_use]
    pub fn is_going_on(&mut self) -> bool {
        if let Some(child) = self.child {
            if !matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None)) {
                self.child = None;
            }
        }
        self.child.is_some()
    }

    /// Until nothing is left.
    pub fn wait(self) {
        if let Some(child) = self.child {
            while let Err(Errno::INTR) = waitpid(Some(child), WaitOptions::empty()) {}
        }
    }
}

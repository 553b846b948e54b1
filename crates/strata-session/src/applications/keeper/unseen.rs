//! Processes that announced themselves, and ended before what was to be known of them could be found out.

use strata_user::Application;

use super::{Keeper, ProcessTarget, KEEP};
use crate::session::lock::lock;

/// Processes that are named.
const NAMED_MAX: usize = 5;

/// Of whom it is not known whether they are recorded, as they may be anybody's: what is recorded is not incomplete for them,
/// unless something else says so.
#[derive(Debug, Default)]
pub(crate) struct Unseen {
    processes: usize,
    /// The first ones: number and name.
    named: Vec<String>,
    last: Option<u32>,
}

impl Unseen {
    /// One more; the same again is none.
    pub(crate) fn add(&mut self, pid: u32, name: &str) {
        if self.last.replace(pid) == Some(pid) {
            return;
        }
        self.processes = self.processes.saturating_add(1);
        if self.named.len() < NAMED_MAX {
            self.named.push(format!("{pid} ({name})"));
        }
    }

    /// Of a recording of a command and of what it starts: these may have been started by it.
    pub(crate) fn of_command(&self) -> Option<String> {
        self.remark(&format!(
            "the parents could be seen. What the command has started of that is not recorded, as STRATA_SESSION was not \
             in its environment (env -i, sudo and su clear it). {KEEP}"
        ))
    }

    /// Of a session that tracks some processes: these may be among them.
    pub(crate) fn of_tracked(&self) -> Option<String> {
        self.remark("it was looked whether that is tracked. What of it is tracked is not recorded")
    }

    fn remark(&self, what: &str) -> Option<String> {
        let processes = match self.processes {
            0 => return None,
            1 => "process",
            _ => "processes",
        };
        let named = self.named.join(", ");
        let more = match self.processes - self.named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!("{processes} {named}{more}: announced, and ended before {what}"))
    }
}

impl Keeper {
    /// Says that a process has announced itself, and ended before its buffers were taken, or were made.
    pub(super) fn tell_gone(&self, application: &Application) {
        let inode = application.inode();
        let waits = self.locked.iter().any(|one| one.application.inode() == inode);
        if waits || self.known.contains(inode) {
            return;
        }
        let (pid, name) = (application.pid(), application.name().to_owned());
        if self.inherited(application).is_some() {
            let reason = "it has ended while its buffers were being taken, and what it wrote there is not in the trace";
            return self.not_reached(pid, name, reason.to_owned());
        }
        if !self.was_wanted(application) {
            return;
        }
        if !self.changing.tracked.is_everybody() {
            return lock(&self.found.untold).add(pid, &name);
        }
        let why = match self.shared.memory().now().0 {
            Some(_) => "with --max-memory, they are made when it is known that they fit",
            None => "when it began, it found no request for them that it could trust",
        };
        let reason =
            format!("it has ended before it had buffers, and its events are not recorded: {why}");
        self.not_reached(pid, name, reason);
    }

    /// Has it begun while everybody is recorded, and ended since, with a tracepoint that is recorded? While the recorder
    /// comes to its end it asks for none.
    fn was_wanted(&self, application: &Application) -> bool {
        let is_asked_for =
            matches!(self.target, ProcessTarget::Everyone) && !self.shared.is_stopping();
        let has_begun = self.ready_ns != 0 && application.started_ns() >= self.ready_ns;
        is_asked_for
            && has_begun
            && !application.is_alive()
            && self.not_armed(application).is_none()
            && application.is_selected_by(&self.spec.rules).unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remark_names_the_first_ones_and_counts_the_others() {
        let mut unseen = Unseen::default();
        assert_eq!(unseen.of_command(), None);
        unseen.add(7, "a");
        unseen.add(7, "a");
        let said = unseen.of_command().unwrap();
        assert!(
            said.starts_with("process 7 (a): announced, and ended before the parents"),
            "{said}"
        );
        (8..=12).for_each(|pid| unseen.add(pid, "b"));
        let said = unseen.of_tracked().unwrap();
        assert!(said.starts_with("processes 7 (a), 8 (b), "), "{said}");
        assert!(said.contains("11 (b) and 1 more: announced"), "{said}");
    }
}

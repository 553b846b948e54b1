//! Handles processes that announced themselves and ended before they could be examined.

use std::sync::Arc;

use strata_user::Application;

use super::unreached_descendants::KEEP;
use super::{ProcessTarget, Registry};
use crate::applications::traced_process::Traced;
use crate::machine::process_names::ProcessNames;
use crate::plan::tracked::{admits_ended, ProcessFacts};
use crate::report::NotReached;
use crate::session::lock::lock;

/// The time within which a starting program usually looks for an invitation \[ns\].
const BEGIN_NS: u64 = 1_000_000_000;
/// The most processes that are listed by name.
const NAMED_MAX: usize = 5;

/// Counts processes for which it is unknown whether they were to be recorded; they may not belong to the recording.
#[derive(Debug, Default)]
pub(crate) struct Unseen {
    processes: u64,
    /// The first processes that were counted, by number and name.
    named: Vec<String>,
    last: Option<u32>,
}

impl Unseen {
    /// Adds a process, unless it was the last one added.
    pub(crate) fn add(&mut self, pid: u32, name: &str) {
        if self.last.replace(pid) == Some(pid) {
            return;
        }
        self.processes = self.processes.saturating_add(1);
        if self.named.len() < NAMED_MAX {
            self.named.push(format!("{pid} ({name})"));
        }
    }

    /// Returns the number of processes.
    pub(crate) fn processes(&self) -> u64 {
        self.processes
    }

    /// Returns the remark for a recording of a command: the command may have started these processes.
    pub(crate) fn of_command(&self) -> Option<String> {
        self.remark(&format!(
            "the parents could be seen. What the command has started of that is not recorded, as STRATA_SESSION was not \
             in its environment (env -i, sudo and su clear it). {KEEP}"
        ))
    }

    /// Returns the remark for a recording of processes by number: they may have started these processes.
    pub(crate) fn of_processes(&self) -> Option<String> {
        self.remark(
            "the parents could be seen. What the recorded processes have started of that is not recorded",
        )
    }

    /// Returns the remark for a session that tracks some processes: these may be among them.
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
        let more = match self.processes.saturating_sub(self.named.len() as u64) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!("{processes} {named}{more}: announced, and ended before {what}"))
    }
}

impl Registry {
    /// Counts a process that ended before its parents could be examined. A process that announced itself before the
    /// recording is not counted.
    pub(super) fn tell_unseen(&self, application: &Application) {
        let rules = &self.spec.rules;
        if application.started_ns() >= self.begun_ns
            && application.is_selected_by(rules).unwrap_or(true)
        {
            lock(&self.found.unseen).add(application.pid(), application.name());
        }
    }

    /// Reports a program once more that waited for memory and ended before there was enough. `said`: the first
    /// remark.
    pub(super) fn say_again(&self, application: &Application, said: NotReached) {
        let inode = application.inode();
        let is_recorded = |one: &Arc<Traced>| one.application().inode() == inode;
        if !application.is_alive() && !self.processes.iter().any(is_recorded) {
            lock(&self.found.not_reached).add(said);
        }
    }

    /// Reports that a process announced itself and ended before its buffers were taken or created.
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
        let identity = application.identity();
        let process = identity.uid.zip(identity.gid).map(|(uid, gid)| ProcessFacts {
            pid,
            uid,
            gid,
            names: identity
                .comm
                .is_some()
                .then(|| ProcessNames::of_ended(identity.comm.as_deref(), identity.exe.as_deref())),
            ..ProcessFacts::default()
        });
        let tracked = &self.changing.tracked;
        match process.and_then(|process| admits_ended(tracked, &process)) {
            _ if tracked.is_everybody() => {}
            Some(false) => return,
            None => return lock(&self.found.untold).add(pid, &name),
            Some(true) => {}
        }
        let why = if self.shared.memory().now().0.is_some() {
            "with --max-memory a program waits for its buffers until it is known that they fit. Without, it does not"
        } else if !tracked.is_everybody() {
            "where not everybody is tracked, a program waits for its buffers until it is known whether it is"
        } else if application.parent_pid() != 0 {
            "the process that forked it had none then"
        } else {
            "there was no request for them, others could write to it, or there was no slot for one more session"
        };
        let reason = format!("ended before it had buffers, and its events are not recorded: {why}");
        self.not_reached(pid, name, reason);
    }

    /// Returns whether a process that has ended would have been recorded: it had a selected tracepoint, and it did
    /// not start while the recorder was ending, when programs may find no invitation.
    fn was_wanted(&self, application: &Application) -> bool {
        let end = self.changing.ended_ns.map_or(u64::MAX, |end| end.saturating_sub(BEGIN_NS));
        let begun = application.started_ns();
        matches!(self.target, ProcessTarget::Everyone)
            && self.ready_ns != 0
            && (self.ready_ns..end).contains(&begun)
            && !self.spec.rules.is_none()
            && !application.is_alive()
            && self.failed(application).is_none()
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
        let said = unseen.of_processes().unwrap();
        assert!(said.starts_with("process 7 (a): announced") && !said.contains("STRATA"), "{said}");
        (8..=12).for_each(|pid| unseen.add(pid, "b"));
        let said = unseen.of_tracked().unwrap();
        assert!(said.starts_with("processes 7 (a), 8 (b), "), "{said}");
        assert!(said.contains("11 (b) and 1 more: announced"), "{said}");
    }
}

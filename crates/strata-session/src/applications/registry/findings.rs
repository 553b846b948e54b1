//! Findings of the registry, for the report at the end and for requests before it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

use super::outdated_rules::Outdated;
use super::short_lived::Unseen;
use crate::applications::known_processes::Reasons;
use crate::applications::traced_process::Traced;
use crate::report::gaps::{cut, since_1970, Late};
use crate::report::NotReached;
use crate::session::clock::wall_ns;
use crate::session::layer::EndedProgram;
use crate::session::lock::lock;

/// The age from which a program counts as attached late \[ns\]. Finding a program takes some time.
const LATE_NS: u64 = 100_000_000;
/// The most programs whose late attachment is reported during the recording; the report has all.
const LATE_MAX: usize = 1000;

/// Findings of the registry for the report at the end.
#[derive(Debug, Default)]
pub(crate) struct RegistryFindings {
    pub(crate) not_reached: Mutex<Reasons>,
    /// Number of programs that started while too many others were waiting for admission.
    pub(crate) crowd: AtomicU64,
    /// True if the kernel may have had no room for more announcements, so that some programs could not announce
    /// themselves.
    pub(crate) had_no_room: AtomicBool,
    /// Processes that may descend from the command and may have tracepoints, neither of which could be determined.
    pub(crate) hidden: Mutex<Reasons>,
    /// Processes that ended before it was known whether they belong to this recording.
    pub(crate) unseen: Mutex<Unseen>,
    /// Processes that ended before it was known whether they are tracked.
    pub(crate) untold: Mutex<Unseen>,
    /// Processes that still held the command's socket at the end.
    pub(crate) holders: Mutex<Vec<String>>,
    /// Further remarks for the report.
    pub(crate) remarks: Mutex<Vec<String>>,
    pub(crate) outdated: Mutex<Outdated>,
    /// Programs that have ended and were not reported yet; at most `ENDS_MAX`.
    pub(crate) ends: Mutex<Vec<EndedProgram>>,
    /// The first programs that were attached late, up to `LATE_MAX`.
    pub(crate) late: Mutex<Vec<Late>>,
}

impl RegistryFindings {
    /// Returns the reports on programs that were not admitted because too many were waiting.
    pub(crate) fn crowded(&self) -> impl Iterator<Item = NotReached> {
        let number = self.crowd.load(Ordering::Relaxed);
        let counted = (number > 0).then(|| {
            format!(
                "{number} programs have begun while too many others waited to be let in: those of them that live on are \
                 found by searching, the others are not recorded. A higher limit of open files (ulimit -n) lets more of \
                 them wait"
            )
        });
        let uncounted = self.had_no_room.load(Ordering::Relaxed).then(|| {
            "perhaps others, which were not counted: at least once as many programs waited to be heard as the kernel has \
             room for (4096, or net.core.somaxconn where that is less). Who began then and had ended before a search is \
             not recorded. Leave the recorder more of the CPUs, or begin fewer programs at once"
                .to_owned()
        });
        let said = |reason| NotReached { pid: 0, name: "other programs".to_owned(), reason };
        counted.into_iter().chain(uncounted).map(said)
    }

    /// Reports that the recording of the program begins late, if it does. `ready_ns`: time when all processes
    /// present at the start had been admitted.
    pub(super) fn tell_if_late(&self, traced: &Traced, ready_ns: u64, now_ns: u64) {
        let application = traced.application();
        let late_ns = now_ns.saturating_sub(application.started_ns().max(ready_ns));
        if late_ns < LATE_NS || ready_ns == 0 {
            return;
        }
        traced.was_late(late_ns, now_ns);
        let mut late = lock(&self.late);
        if late.len() < LATE_MAX {
            let (pid, name) = (application.pid(), cut(application.name()));
            late.push(Late { pid, name, late_ns, since_ns: since_1970(now_ns, wall_ns()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(counted: u64, had_no_room: bool) -> Vec<NotReached> {
        let found = RegistryFindings::default();
        found.crowd.store(counted, Ordering::Relaxed);
        found.had_no_room.store(had_no_room, Ordering::Relaxed);
        found.crowded().collect()
    }

    #[test]
    fn who_came_too_fast_is_counted_and_who_nobody_counted_is_reported() {
        assert_eq!(crowd(0, false), []);
        let begins = |all: Vec<NotReached>| {
            assert!(all.iter().all(|one| one.pid == 0 && one.name == "other programs"));
            all.iter()
                .map(|one| one.reason.split_once(' ').unwrap().0.to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(begins(crowd(21_981, false)), ["21981"]);
        assert_eq!(begins(crowd(0, true)), ["perhaps"]);
        assert_eq!(begins(crowd(7, true)), ["7", "perhaps"]);
    }
}

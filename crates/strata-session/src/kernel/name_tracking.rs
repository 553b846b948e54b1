//! Processes that are tracked by a name which the kernel's programs cannot see: the name of another thread, or the
//! script that an interpreter runs. They are found by searching `/proc` repeatedly.

use std::path::Path;
use std::time::{Duration, Instant};

use strata_kernel::Tracked;
use strata_user::{pids, Who};

use crate::machine::process_names::ProcessNames;

/// The shortest period of searching all processes.
const PERIOD: Duration = Duration::from_millis(500);
/// Bound on the time for searching: the pause is this many times as long as a search.
const SHARE: u32 = 100;
/// The most processes found by name that the kernel's programs can track.
const FOUND_MAX: usize = 512;

/// The schedule for searching processes by name.
#[derive(Default)]
pub(super) struct NameSearch {
    next: Option<Instant>,
    is_noted: bool,
}

impl NameSearch {
    /// Returns the processes with a tracked name that the kernel's programs cannot see. `None` if no names are tracked,
    /// or the last search was not long ago.
    pub(super) fn look(&mut self, tracked: &Tracked) -> Option<Vec<u32>> {
        let begin = Instant::now();
        if tracked.names.is_none() || self.next.is_some_and(|next| begin < next) {
            return None;
        }
        let found = processes(tracked);
        self.next = Some(begin + PERIOD.max(begin.elapsed() * SHARE));
        Some(found)
    }

    /// Notes a remark, once, that the processes found are not recorded.
    pub(super) fn note(&mut self, error: &strata_kernel::Error, remarks: &mut Vec<String>) {
        if !std::mem::replace(&mut self.is_noted, true) {
            remarks.push(format!(
                "track --name: processes with the name of a script or of another thread are not recorded: {error}"
            ));
        }
    }
}

/// Returns the processes with a tracked name that the kernel's programs cannot see.
pub(super) fn processes(tracked: &Tracked) -> Vec<u32> {
    let Some(wanted) = tracked.names.as_ref().filter(|names| !names.is_empty()) else {
        return Vec::new();
    };
    let is_found = |pid: &u32| {
        let names = ProcessNames::read(Path::new(&format!("/proc/{pid}")));
        names.is_ok_and(|names| {
            let has = |name: &String| names.include(name);
            let is_seen = |name: &String| names.are_seen_by_kernel(name);
            wanted.iter().any(has) && !wanted.iter().any(is_seen)
        })
    };
    pids(&Who::Everyone).unwrap_or_default().into_iter().filter(is_found).take(FOUND_MAX).collect()
}

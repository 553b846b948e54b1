//! Processes that are tracked by a name which the kernel's programs cannot see: the name of another thread, or the
//! script that an interpreter runs. They are found by searching `/proc` repeatedly.

use std::path::Path;
use std::time::{Duration, Instant};

use strata_kernel::Tracked;
use strata_model::TimeSource;
use strata_user::{pids, Who};

use crate::machine::process_names::ProcessNames;

/// The shortest period of searching all processes for tracked names.
const PERIOD: Duration = Duration::from_millis(500);
/// The pause after a search for processes by name, as a multiple of the time that the search took: searching
/// takes at most one percent of the time.
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
    /// Searches for processes with a tracked name that the kernel's programs cannot find. Returns `None` if no names
    /// are tracked or no search is due.
    pub(super) fn look(&mut self, tracked: &Tracked, time: &TimeSource) -> Option<Vec<u32>> {
        tracked.names.as_ref()?;
        self.due(time, || processes(tracked))
    }

    /// Runs `search` and returns its result; `None` if no search is due. The pause depends on the time that the last
    /// search took.
    fn due<T>(&mut self, time: &TimeSource, search: impl FnOnce() -> T) -> Option<T> {
        let begin = time.now();
        if self.next.is_some_and(|next| begin < next) {
            return None;
        }
        let found = search();
        self.next = Some(begin + PERIOD.max(time.elapsed(begin) * SHARE));
        Some(found)
    }

    /// Adds a remark that the processes found are not recorded because of `error`; only the first time.
    pub(super) fn note(&mut self, error: &strata_kernel::Error, remarks: &mut Vec<String>) {
        if !std::mem::replace(&mut self.is_noted, true) {
            remarks.push(format!(
                "track --name: processes with the name of a script or of another thread are not recorded: {error}"
            ));
        }
    }
}

/// Returns the processes with a tracked name that the kernel's programs cannot find.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A search that takes long makes the next one later.
    #[test]
    fn searches_are_a_period_apart_and_a_hundredth_of_the_time_at_most() {
        let time = TimeSource::manual(0);
        let begin = time.now();
        let mut names = NameSearch::default();
        let mut begun_ms = Vec::new();
        let second = Duration::from_secs(1);
        while begun_ms.len() < 5 {
            let takes = if begun_ms.len() == 2 { second } else { Duration::ZERO };
            let search = || {
                begun_ms.push(time.elapsed(begin).as_millis());
                time.pause(takes);
            };
            names.due(&time, search);
            time.pause(Duration::from_millis(100));
        }
        assert_eq!(begun_ms, [0, 500, 1000, 101_000, 101_500]);
    }
}

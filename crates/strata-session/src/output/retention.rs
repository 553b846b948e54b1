//! Limits the data that a session keeps: snapshots saved by triggers and on request, and traces from before a kill.
//! Chunks of a trace are limited where they are created, in `chunks.rs`.
//!
//! ```text
//! new folder ── its end mark gets a number: of session, machine, kind and folder name ── folder_mark.rs
//! limit exceeded ── folders whose mark fits, the newest first: Retention::stay() ── the others are removed, and counted
//! ```
//!
//! A folder that a session creates is marked in its end mark with a number computed from the session's name, the
//! machine, the kind of the folder and its name. So a session recognises its folders after a restart, also after a
//! reboot of the machine. A renamed or copied folder belongs to no session and stays.
//!
//! The limits are `--keep-count` and `--keep-size`. Without them, only the number of triggers' snapshots has a limit,
//! since a trigger may fire for weeks. The newest folder is kept in any case. Folders that `strata snapshot` has
//! written elsewhere are noted outside of the session's process ([`KeptFolders`]), so that a restored session knows
//! them.
//!
//! Removal runs in the thread that has saved a snapshot, or in a thread `strata-retain`, never in the pump.
//! Several may run at once: [`Leavings`] has its state behind a lock, and a folder that another thread has
//! removed meanwhile has no content to count. A failure to remove is kept for `strata status` and ends nothing.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::output::folder::leftovers;
use crate::output::folder_mark::{Made, SessionMark};
use crate::session::lock::lock;

/// The default for the number of triggers' snapshots to keep. A trigger may fire every 10 s for weeks, and each
/// snapshot contains all buffers, about 10 to 30 MB; so they take up to about one gigabyte.
const SNAPSHOTS_OF_TRIGGERS: u64 = 32;
/// The most folders that are searched for snapshots. Of the folders in which snapshots were saved on request, the
/// latest are searched.
const FOLDERS_MAX: usize = 64;
/// Prefix of the folder in which `strata snapshot -o -` keeps a snapshot until it is sent.
const PIPED: &str = "strata-snapshot-";

/// Function that stores a text outside of the session's process, in place of the former text.
pub type WriteNotes = Box<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

/// Limits on the data that a session keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// The number of newest folders to keep; 0 for all.
    #[serde(default)]
    pub count: Option<u64>,
    /// The most bytes of all kept folders together \[byte\]. The newest folder is kept in any case.
    #[serde(default)]
    pub size: Option<u64>,
}

impl Retention {
    /// Returns true if no limit was requested.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Retention::default()
    }

    /// Returns the most folders to keep; `None` for no limit.
    #[must_use]
    pub fn most(&self) -> Option<u64> {
        self.count.filter(|count| *count > 0)
    }

    /// Returns how many of a session's folders are kept. `sizes`: the size of each folder \[byte\], the newest first.
    pub(crate) fn stay(&self, sizes: impl Iterator<Item = u64>) -> usize {
        let most =
            self.most().map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let mut sum = 0u64;
        let fits = |(index, bytes): &(usize, u64)| {
            sum = sum.saturating_add(*bytes);
            *index == 0 || self.size.is_none_or(|size| sum <= size)
        };
        sizes.take(most).enumerate().take_while(fits).count()
    }
}

/// Folders in which a session has saved snapshots. They are noted outside of the session's process, for a session that
/// is restored.
#[derive(Default)]
pub struct KeptFolders {
    folders: Vec<PathBuf>,
    write: Option<WriteNotes>,
}

impl KeptFolders {
    /// Reads the folders from the text that the session stored before it was killed. Invalid text counts as none.
    #[must_use]
    pub fn new(before: &str, write: WriteNotes) -> KeptFolders {
        KeptFolders {
            folders: serde_json::from_str(before).unwrap_or_default(),
            write: Some(write),
        }
    }

    fn add(&mut self, folder: &Path) -> io::Result<()> {
        if self.folders.iter().any(|one| one == folder) {
            return Ok(());
        }
        self.folders.push(folder.to_owned());
        let more = self.folders.len().saturating_sub(FOLDERS_MAX);
        self.folders.drain(..more);
        match &self.write {
            Some(write) => write(&strata_text::json::compact(&self.folders)),
            None => Ok(()),
        }
    }
}

/// The limits on a session's folders, and what was removed because of them, for `strata status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RetentionStatus {
    /// The number of newest folders to keep; `None` for no limit.
    pub count: Option<u64>,
    /// The most bytes of all kept folders together \[byte\]; `None` for no limit.
    pub size: Option<u64>,
    /// True if no limits were set, so that only the number of triggers' snapshots is limited.
    pub is_default: bool,
    /// Number of folders that were removed since the session's process started.
    pub removed: u64,
    /// Size of the removed folders \[byte\].
    pub removed_bytes: u64,
    /// The error of the last removal.
    pub error: Option<String>,
}

/// The folders with a session's data. The oldest are removed.
pub(crate) struct Leavings {
    pub(crate) mark: SessionMark,
    asked: Retention,
    state: Mutex<LeavingsState>,
}

#[derive(Default)]
struct LeavingsState {
    by_hand: KeptFolders,
    /// Folders in which triggers save snapshots.
    folders: BTreeSet<PathBuf>,
    /// The parent folder of the session's trace, and the trace's name in it.
    traces: Option<(PathBuf, String)>,
    removed: (u64, u64),
    error: Option<String>,
}

impl Leavings {
    pub(crate) fn new(session: &str, asked: Retention, by_hand: KeptFolders) -> Leavings {
        let state = LeavingsState { by_hand, ..LeavingsState::default() };
        Leavings { mark: SessionMark::new(session), asked, state: Mutex::new(state) }
    }

    /// Adds a folder in which old snapshots are searched and removed.
    pub(crate) fn look_in(&self, folder: &Path, made: Made) {
        let is_piped =
            folder.file_name().is_some_and(|name| name.as_bytes().starts_with(PIPED.as_bytes()));
        let mut state = lock(&self.state);
        match made {
            Made::OfTrigger => {
                state.folders.insert(folder.to_owned());
            }
            Made::Snapshot if !is_piped => {
                if let Err(error) = state.by_hand.add(folder) {
                    state.error =
                        Some(format!("folder '{}': cannot be noted: {error}", folder.display()));
                }
            }
            _ => {}
        }
    }

    /// Sets the folder of the session's trace. Traces from before a kill are in the same parent folder.
    pub(crate) fn writes_to(&self, path: &Path) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        lock(&self.state).traces = path.parent().map(Path::to_owned).zip(name);
    }

    /// Returns the limits in effect, which may be the default.
    fn bound(&self) -> Retention {
        match self.asked.is_none() {
            true => Retention { count: Some(SNAPSHOTS_OF_TRIGGERS), size: None },
            false => self.asked,
        }
    }

    /// Removes the oldest folders that exceed the limits.
    pub(crate) fn apply(&self) {
        let mut state = lock(&self.state);
        let bound = self.bound();
        if bound.most().is_none() && bound.size.is_none() {
            return;
        }
        let mut folders = state.folders.clone();
        folders.extend(state.by_hand.folders.iter().cloned());
        folders.extend(state.traces.iter().map(|(above, _)| above.clone()));
        let traces = state.traces.clone();
        let mut all = Vec::new();
        for folder in folders {
            let is_here = |above: &Path| above == folder;
            let present =
                traces.as_ref().filter(|(above, _)| is_here(above)).map(|(_, name)| &**name);
            let is_wanted = |name: &str, session: u64| self.counts(name, session, present);
            // A folder that does not exist has no content.
            all.extend(leftovers(&folder, is_wanted).unwrap_or_default());
        }
        all.sort_by(|a, b| (b.written, &b.name).cmp(&(a.written, &a.name)));
        let sizes = all.iter().map(|one| bound.size.map_or(0, |_| one.bytes()));
        let stay = bound.stay(sizes);
        state.error = None;
        for one in all.drain(stay..) {
            let bytes = one.bytes();
            match one.remove() {
                Ok(()) => {
                    state.removed.0 += 1;
                    state.removed.1 = state.removed.1.saturating_add(bytes);
                }
                Err(why) => state.error = Some(format!("'{}': {why}", one.name)),
            }
        }
    }

    /// Returns whether the limits apply to a folder. `session`: the number in the folder's end mark. `present`: name
    /// of the present trace, if that is in the same parent folder.
    fn counts(&self, name: &str, session: u64, present: Option<&str>) -> bool {
        let is = |made| self.mark.of(made, OsStr::new(name)) == session;
        match Made::ALL.into_iter().find(|made| is(*made)) {
            None => false,
            Some(Made::OfTrigger) => true,
            Some(_) if self.asked.is_none() => false,
            Some(Made::Snapshot) => true,
            Some(Made::Trace) => present.is_some_and(|present| is_of_before(name, present)),
        }
    }

    pub(crate) fn status(&self) -> RetentionStatus {
        let state = lock(&self.state);
        let Retention { size, .. } = self.bound();
        RetentionStatus {
            count: self.bound().most(),
            size,
            is_default: self.asked.is_none(),
            removed: state.removed.0,
            removed_bytes: state.removed.1,
            error: state.error.clone(),
        }
    }
}

/// Returns whether the trace `name` may be an earlier one of the session that writes the trace `present`: from before
/// a kill or another boot.
fn is_of_before(name: &str, present: &str) -> bool {
    const BY_TIME: &str = "strata-trace-";
    let base = |name: &str| match name.rsplit_once("-again") {
        Some((base, number))
            if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) =>
        {
            base.to_owned()
        }
        _ => name.to_owned(),
    };
    base(name) == base(present) || (name.starts_with(BY_TIME) && present.starts_with(BY_TIME))
}

#[cfg(test)]
mod tests;

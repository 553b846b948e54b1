//! A recorded process: the state that the registry and the pump's source share.
//!
//! The registry (`registry.rs`) keeps the process' control page alive; the pump takes packets (`source.rs`).
//! The pump may wait for a disk, so the two share no lock that is held while packets are written.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use strata_user::{AppSession, Application};

use crate::applications::metadata_limit::keep;
use crate::session::layer::EndedProgram;
use crate::session::lock::lock;
use crate::session::shared_state::Shared;

/// The state of a process that the registry and the pump share.
#[derive(Debug)]
pub(crate) struct Traced {
    application: Application,
    /// Generation of the session. Child processes may have the same.
    generation: u64,
    /// The number of changes of the rules when the process was admitted.
    changes: u64,
    session: Mutex<Option<AppSession>>,
    /// True once the process has ended or was given up. Its remaining packets must then be taken.
    ended: AtomicBool,
    /// True if another session in the process has replaced this one.
    replaced: AtomicBool,
    /// True once the end of the process was reported.
    end_told: AtomicBool,
    /// True once the session's memory must be released.
    must_go: AtomicBool,
    /// True once the pump has taken all packets.
    finished: AtomicBool,
    /// Number of tracepoints that the rules select, as far as known.
    selected: AtomicU64,
    /// Delay of the attachment \[ns\]; 0 if it was in time.
    late_ns: AtomicU64,
    reached_ns: AtomicU64,
    problem: Mutex<Option<String>>,
    /// True if the shared memory is inconsistent, so that no data of the process are believed.
    damaged: AtomicBool,
    warnings: Mutex<Vec<String>>,
}

impl Traced {
    pub(crate) fn new(session: AppSession, changes: u64) -> Traced {
        Traced {
            application: session.application().clone(),
            generation: session.generation(),
            changes,
            selected: AtomicU64::new(session.nr_selected() as u64),
            session: Mutex::new(Some(session)),
            late_ns: AtomicU64::new(0),
            reached_ns: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            replaced: AtomicBool::new(false),
            end_told: AtomicBool::new(false),
            must_go: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            problem: Mutex::new(None),
            damaged: AtomicBool::new(false),
            warnings: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn application(&self) -> &Application {
        &self.application
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the number of changes of the rules when the process was admitted.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Updates the number of tracepoints that the present rules select.
    pub(crate) fn selected_now(&self, session: &AppSession) {
        self.selected.store(session.nr_selected() as u64, Ordering::Relaxed);
    }

    /// Locks the session in the process, which is `None` after it was released.
    pub(crate) fn session(&self) -> MutexGuard<'_, Option<AppSession>> {
        lock(&self.session)
    }

    /// Notes that the process is ending: its remaining packets are taken, and then no more.
    pub(crate) fn end(&self) {
        // Release pairs with the acquire in has_ended(): the pump sees the reason.
        self.ended.store(true, Ordering::Release);
    }

    /// Ends the recording of the process because of an error. Only the first reason is kept.
    pub(crate) fn give_up(&self, error: &strata_user::Error, shared: &Shared) {
        self.found(error, shared);
        self.end();
    }

    /// Notes a problem with the process's shared memory or with access to it.
    pub(crate) fn found(&self, error: &strata_user::Error, shared: &Shared) {
        let damage = is_damage(error, shared.has_lagged());
        if !error.is_gone() {
            lock(&self.problem).get_or_insert(error.to_string());
        }
        if damage {
            self.damaged.store(true, Ordering::Relaxed);
        }
    }

    /// Marks the process's data as impossible. `why` is kept unless there is an earlier problem.
    pub(crate) fn disbelieve(&self, why: String) {
        lock(&self.problem).get_or_insert(why);
        self.damaged.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns how the process ended, once, if it has ended and the rules selected any of its tracepoints.
    pub(crate) fn take_end(&self) -> Option<EndedProgram> {
        let is_over = !self.is_replaced() && self.selected() > 0 && !self.application.is_alive();
        let is_new = is_over && !self.end_told.swap(true, Ordering::Relaxed);
        is_new.then(|| EndedProgram {
            pid: self.application.pid(),
            started_ns: self.application.started_ns(),
            outcome: self.application.outcome(),
        })
    }

    /// Notes that the process ended before this session began, so that its end is not reported.
    pub(crate) fn had_ended(&self) {
        self.end_told.store(true, Ordering::Relaxed);
    }

    /// Notes that another session has taken this one's place in the process.
    pub(crate) fn replace(&self) {
        self.replaced.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Requests the release of the session's slot in the process.
    pub(crate) fn let_go(&self) {
        self.must_go.store(true, Ordering::Relaxed);
    }

    pub(crate) fn must_go(&self) -> bool {
        self.must_go.load(Ordering::Relaxed)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Adds a warning to the report, unless it is there already.
    pub(crate) fn warn(&self, text: String) {
        keep(&mut lock(&self.warnings), text);
    }

    /// Returns the number of tracepoints that the rules select, as far as known.
    pub(crate) fn selected(&self) -> u64 {
        self.selected.load(Ordering::Relaxed)
    }

    /// Notes that the process was attached late, by `late_ns`, at the time `reached_ns` of `CLOCK_MONOTONIC`.
    pub(crate) fn was_late(&self, late_ns: u64, reached_ns: u64) {
        self.reached_ns.store(reached_ns, Ordering::Relaxed);
        self.late_ns.store(late_ns, Ordering::Relaxed);
    }

    /// Returns the time of the attachment if it was late \[ns of `CLOCK_MONOTONIC`\]; otherwise 0.
    pub(crate) fn reached_ns(&self) -> u64 {
        self.reached_ns.load(Ordering::Relaxed)
    }

    /// Returns by how much the attachment was late \[ns\]; `None` if it was in time.
    pub(crate) fn late_ns(&self) -> Option<u64> {
        Some(self.late_ns.load(Ordering::Relaxed)).filter(|late| *late > 0)
    }

    /// Returns whether the process's data are not believed.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Notes that no more packets are taken, so that the process can be forgotten.
    pub(crate) fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    /// Returns why the process was given up, if it was.
    pub(crate) fn problem(&self) -> Option<String> {
        lock(&self.problem).clone()
    }

    /// Returns the warnings about events that were not recorded.
    pub(crate) fn warnings(&self) -> Vec<String> {
        lock(&self.warnings).clone()
    }

    /// Looks for added and removed tracepoints, and enables new ones if the rules select them. Damage to the process's
    /// memory ends its recording.
    pub(crate) fn update(&self, session: &mut AppSession, shared: &Shared) {
        let updated = session.update();
        self.updated(updated, session, shared);
    }

    /// Looks for added and removed tracepoints without enabling any.
    pub(crate) fn learn(&self, session: &mut AppSession, shared: &Shared) {
        let updated = session.learn();
        self.updated(updated, session, shared);
    }

    fn updated(
        &self,
        updated: Result<bool, strata_user::Error>,
        session: &mut AppSession,
        shared: &Shared,
    ) {
        match updated {
            Ok(_) => self.selected_now(session),
            Err(error) => self.give_up(&error, shared),
        }
        for error in session.problems() {
            if !error.is_gone() {
                self.warn(error.to_string());
            }
        }
    }
}

/// Returns whether the error means that the process's memory is damaged. `lagged`: true if this program was paused for
/// so long that another tracer may have taken its place.
fn is_damage(error: &strata_user::Error, lagged: bool) -> bool {
    use strata_user::Error as E;
    match error {
        E::SlotTaken { silent_ms, .. } => {
            !lagged && *silent_ms < strata_abi::user::DEAD_NS / 2_000_000
        }
        E::Magic { .. }
        | E::Version { .. }
        | E::Value { .. }
        | E::Description { .. }
        | E::Channel { .. }
        | E::NotSealed { .. }
        | E::TooSmall { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_user::Error;

    #[test]
    fn damage_is_what_no_honest_process_does() {
        let (pid, what) = (1, "x");
        let value = Error::Value { pid, what, found: 2, limit: 1 };
        let taken = |silent_ms| Error::SlotTaken { pid, slot: 0, found: 1, wanted: 2, silent_ms };
        let (late, taken) = (taken(12_345), taken(300));
        assert!(late.to_string().ends_with("this tracer had not moved for 12 s"), "{late}");
        assert!(taken.to_string().ends_with("Its shared memory is damaged"), "{taken}");
        assert!(!is_damage(&late, false));
        let locked = Error::Locked { pid, waited_ms: 1 };
        assert!(is_damage(&value, false) && is_damage(&value, true));
        assert!(is_damage(&taken, false) && !is_damage(&taken, true));
        assert!(!is_damage(&locked, false) && !is_damage(&Error::Gone { pid }, false));
    }
}

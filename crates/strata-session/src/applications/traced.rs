//! One process in a session: what the keeper and the pump's source of it share.
//!
//! The keeper (`keeper.rs`) keeps the process' control page alive; the pump takes packets (`source.rs`).
//! The pump may wait for a disk, so the two share no lock that is held while packets are written.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use strata_user::{AppSession, Application};

use crate::applications::pace::keep;
use crate::session::layer::EndedProgram;
use crate::session::lock::lock;
use crate::session::shared::Shared;

/// What both threads know of a process.
#[derive(Debug)]
pub(crate) struct Traced {
    application: Application,
    /// Its session's; children may have the same.
    generation: u64,
    /// How often the rules had been changed when it came.
    changes: u64,
    session: Mutex<Option<AppSession>>,
    /// It has ended, or was given up: take what is left.
    ended: AtomicBool,
    /// Another session in the process has taken the place of this one.
    replaced: AtomicBool,
    /// That the process has ended was told.
    end_told: AtomicBool,
    /// It is not to be held any longer.
    must_go: AtomicBool,
    /// The pump has taken everything.
    finished: AtomicBool,
    /// Tracepoints that the rules select, as far as is known.
    selected: AtomicU64,
    /// So late it was reached \[ns\]; 0: in time.
    late_ns: AtomicU64,
    reached_ns: AtomicU64,
    problem: Mutex<Option<String>>,
    /// What it shares cannot be true: nothing that it wrote is believed.
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

    /// How often the rules had been changed when it came.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Its rules have changed.
    pub(crate) fn selected_now(&self, session: &AppSession) {
        self.selected.store(session.nr_selected() as u64, Ordering::Relaxed);
    }

    /// The session in the process; `None` after it was released.
    pub(crate) fn session(&self) -> MutexGuard<'_, Option<AppSession>> {
        lock(&self.session)
    }

    /// Take what is left, and then no more.
    pub(crate) fn end(&self) {
        // Release pairs with the acquire in has_ended(): the mover sees why.
        self.ended.store(true, Ordering::Release);
    }

    /// The same, since this went wrong with it. The first reason counts.
    pub(crate) fn give_up(&self, error: &strata_user::Error, shared: &Shared) {
        self.found(error, shared);
        self.end();
    }

    /// Something is wrong with what it shares, or with how it is reached.
    pub(crate) fn found(&self, error: &strata_user::Error, shared: &Shared) {
        let damage = is_damage(error, shared.has_lagged());
        if !error.is_gone() {
            lock(&self.problem).get_or_insert(error.to_string());
        }
        if damage {
            self.damaged.store(true, Ordering::Relaxed);
        }
    }

    /// What it says cannot be, for this reason.
    pub(crate) fn disbelieve(&self, why: String) {
        lock(&self.problem).get_or_insert(why);
        self.damaged.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The end of its process, once, if that is over and anything of it was recorded.
    pub(crate) fn take_end(&self) -> Option<EndedProgram> {
        let is_over = !self.is_replaced() && self.selected() > 0 && !self.application.is_alive();
        let is_new = is_over && !self.end_told.swap(true, Ordering::Relaxed);
        is_new.then(|| EndedProgram {
            pid: self.application.pid(),
            started_ns: self.application.started_ns(),
            outcome: self.application.outcome(),
        })
    }

    /// It ended before this session began: that is no news.
    pub(crate) fn had_ended(&self) {
        self.end_told.store(true, Ordering::Relaxed);
    }

    /// Its process goes on in another session.
    pub(crate) fn replace(&self) {
        self.replaced.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Its place in the process is needed.
    pub(crate) fn let_go(&self) {
        self.must_go.store(true, Ordering::Relaxed);
    }

    pub(crate) fn must_go(&self) -> bool {
        self.must_go.load(Ordering::Relaxed)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Say this once in the report.
    pub(crate) fn warn(&self, text: String) {
        keep(&mut lock(&self.warnings), text);
    }

    /// Tracepoints that the rules select, as far as is known.
    pub(crate) fn selected(&self) -> u64 {
        self.selected.load(Ordering::Relaxed)
    }

    /// It was reached only so long after its start, or after it was asked for: at this time of `CLOCK_MONOTONIC`.
    pub(crate) fn was_late(&self, late_ns: u64, reached_ns: u64) {
        self.reached_ns.store(reached_ns, Ordering::Relaxed);
        self.late_ns.store(late_ns, Ordering::Relaxed);
    }

    /// When it was reached, if that was late; else 0.
    pub(crate) fn reached_ns(&self) -> u64 {
        self.reached_ns.load(Ordering::Relaxed)
    }

    /// How late, if it was.
    pub(crate) fn late_ns(&self) -> Option<u64> {
        Some(self.late_ns.load(Ordering::Relaxed)).filter(|late| *late > 0)
    }

    /// It is not believed.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Nothing is taken any more: it can be forgotten.
    pub(crate) fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    /// Why it was given up, if it was.
    pub(crate) fn problem(&self) -> Option<String> {
        lock(&self.problem).clone()
    }

    /// What of it was not recorded.
    pub(crate) fn warnings(&self) -> Vec<String> {
        lock(&self.warnings).clone()
    }

    /// Look for tracepoints that came or went, and have them switched on. What is wrong with the process' memory
    /// ends it.
    pub(crate) fn update(&self, session: &mut AppSession, shared: &Shared) {
        let updated = session.update();
        self.updated(updated, session, shared);
    }

    /// The same without switching on.
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

/// Does this error mean that the process' memory is not what it must be? `lagged`: this program stood still
/// for so long that another tracer may have taken its place.
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

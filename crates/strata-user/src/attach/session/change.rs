//! Changes of a session while it records: `strata/abi/user.h`, "Rules change" and "A filter does not change".
//!
//! ```text
//! rules     change() ── put_rules(): text with a new version ── sweep(): bits of tracepoints ── finish_change(): their code
//! filter,   successor() ── a second session in the same process, with no tracepoint on
//! contexts  hand_over() ── each tracepoint moves in one operation ── is_quiet() ── the caller stops the old session
//! ```
//!
//! Rules need no lock: the slot is ours, and the process notices a change by the version of its rules. So a process
//! that holds its lock, or is stopped, can be changed as well. Tracepoints that come later are matched by the process
//! itself.
//!
//! A filter is not changed in place, since a thread may be evaluating it. Instead another session takes over, so that
//! each event is recorded in exactly one of the two. The same holds for what decides the layout of a record.
//!
//! All of this is called by the one thread that owns the session. [`AppSession::differs`] compares what the process
//! has with a request, when a session is adopted or has just been made by the process itself.
//!
//! ```text
//! old session ACTIVE ── successor(): SETUP ── hand_over(): bits move ── old is_quiet() ── stop() the old, its last packets are taken
//! ```

use super::*;

/// Result of comparing all tracepoints with the rules.
struct Sweep {
    snapshot: Snapshot,
    /// Tracepoints that the comparison has enabled.
    on: Vec<u32>,
    /// Tracepoints that the comparison has disabled.
    off: Vec<u32>,
}

/// The difference between a session in a process and the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differs {
    /// The session is as requested.
    Nothing,
    /// The rules differ; apply them by [`AppSession::change`].
    Rules,
    /// The filter or the layout of records differs; use [`AppSession::successor`].
    Records,
}

impl AppSession {
    /// Replaces the rules of the session by those of `spec`, and ignores the rest of `spec`. An event that the old and
    /// the new rules select is recorded without a gap, once. Code is patched as with [`start_soon`](Self::start_soon):
    /// call [`finish_change`](Self::finish_change) soon.
    ///
    /// # Errors
    /// The process' memory is damaged; nothing more can be read from it.
    pub fn change(&mut self, spec: &SessionSpec) -> Result<(), Error> {
        if self.stopped {
            return Ok(());
        }
        self.check_slot()?;
        let begins_again = self.rules_bytes() == 0 && !spec.rules.as_str().is_empty();
        self.put_rules(spec)?;
        let sweep = self.sweep(spec, 0)?;
        self.enable_again(sweep)?;
        if begins_again && spec.vtid {
            self.name_threads();
        }
        self.learn().map(drop)
    }

    /// Waits a limited time until the code is patched that [`change`](Self::change) began to patch.
    pub fn finish_change(&mut self) {
        self.finish_start();
        let restored = self.restored(true);
        self.problems.extend(restored.and_then(Result::err));
    }

    /// Makes a session that will replace this one, with another filter, since a session's filter cannot change. The
    /// new session has no enabled tracepoint until [`hand_over`](Self::hand_over). A session that is given up
    /// before that leaves nothing in the process.
    ///
    /// # Errors
    /// As of [`start_soon`](Self::start_soon); this session is unchanged.
    pub fn successor(&self, spec: &SessionSpec, clock: &Clock) -> Result<AppSession, Error> {
        self.check_slot()?;
        let prepared = AppSession::prepared(&self.app, spec, clock, self.generation);
        prepared.map(|(session, _lock)| session)
    }

    /// Disables every tracepoint here and enables it in `to`, a [`successor`](Self::successor) by the same `spec`, in
    /// one operation each, so that each event is recorded in one of the two sessions. Threads that read the state
    /// just before still write to this session: do not stop it until it [`is_quiet`](Self::is_quiet).
    ///
    /// # Errors
    /// The process' memory is damaged; nothing more can be read from it.
    pub fn hand_over(&mut self, to: &mut AppSession, spec: &SessionSpec) -> Result<(), Error> {
        self.check_slot()?;
        to.check_slot()?;
        let status = |one: &AppSession, value| {
            one.u32(offset_of!(user::Session, status)).store(value, Ordering::SeqCst);
        };
        // Sequentially consistent, as are the process' checks before and after it enables a tracepoint: from here on it
        // enables none for this session, or we see those that it has enabled.
        status(to, user::SESSION_ACTIVE);
        fence(Ordering::SeqCst);
        let sweep = to.sweep(spec, self.bit())?;
        status(self, user::SESSION_ENDING);
        self.writers = Some(Writers::of(self.app.pid()));
        to.left_enabled.append(&mut self.left_enabled);
        to.enable_again(sweep)?;
        to.named_threads.clone_from(&self.named_threads);
        if spec.vtid {
            to.name_threads();
        }
        to.learn().map(drop)
    }

    /// Returns true if no thread can still be writing a record that it began before [`hand_over`](Self::hand_over).
    /// If that is not known, returns true after some time.
    pub fn is_quiet(&mut self) -> bool {
        let is_alive = self.app.is_alive();
        self.writers.as_mut().is_none_or(|writers| !is_alive || writers.are_done())
    }

    /// Compares the session in the process with the request.
    ///
    /// # Errors
    /// The process' memory cannot be read.
    pub fn differs(&self, spec: &SessionSpec) -> Result<Differs, Error> {
        let filter = spec.filter.as_ref().map_or(&[][..], Program::bytes);
        let bytes = self.u32(offset_of!(user::Session, filter_bytes)).load(Ordering::Relaxed);
        let filter_at = user::FILTERS_OFFSET + self.slot * strata_abi::filter::BYTES;
        if self.format.vtid != spec.vtid
            || self.format.contexts != spec.contexts
            || bytes as usize != filter.len()
            || self.app.memory().read(filter_at.into(), filter.len())? != filter
        {
            return Ok(Differs::Records);
        }
        let rules = spec.rules.as_str().as_bytes();
        let version = self.u32(offset_of!(user::Session, rules_version)).load(Ordering::Acquire);
        let same = self.rules_bytes() as usize == rules.len()
            && self.app.memory().read(self.rules_at(version), rules.len())? == rules;
        Ok(if same { Differs::Nothing } else { Differs::Rules })
    }

    /// Returns the size of the rules that are in force \[byte\].
    fn rules_bytes(&self) -> u32 {
        let version = self.u32(offset_of!(user::Session, rules_version)).load(Ordering::Acquire);
        self.u32(rules_bytes_of(version)).load(Ordering::Relaxed)
    }

    /// Returns the offset in the shared memory of the text of the rules that have this version \[byte\].
    fn rules_at(&self, version: u32) -> u64 {
        match version % 2 {
            0 => (session(self.slot) + offset_of!(user::Session, rules)) as u64,
            _ => u64::from(user::RULES_OFFSET) + u64::from(self.slot) * 4096,
        }
    }

    /// Writes the rules to the one of two places that is not in force, and then puts that place into force.
    fn put_rules(&self, spec: &SessionSpec) -> Result<(), Error> {
        let rules = spec.rules.as_str().as_bytes();
        let held = self.u32(offset_of!(user::Session, rules_version));
        let version = held.load(Ordering::Relaxed).wrapping_add(1);
        self.app.memory().write(self.rules_at(version), rules)?;
        self.u32(rules_bytes_of(version)).store(rules.len() as u32, Ordering::Relaxed);
        // Sequentially consistent, as are the process' reads of the version before and after: either it sees the
        // version, or we see the object.
        held.store(version, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Enables and disables tracepoints as the rules select, and clears the bits of `from`, the session that this one
    /// replaces, in one operation for each tracepoint. Returns what has changed.
    fn sweep(&self, spec: &SessionSpec, from: u32) -> Result<Sweep, Error> {
        let snapshot = self.app.snapshot()?;
        self.app.learn(&snapshot)?;
        let (mut on, mut off) = (Vec::new(), Vec::new());
        for (index, state) in (0..).zip(&snapshot.states) {
            let selects = self.selects(index, spec);
            let (mut set, mut clear) = (0, from);
            match (selects, state.is_present()) {
                (Some(true), true) => {
                    self.give_id(index);
                    set = self.bit();
                }
                // The process itself enables a tracepoint that is loaded again, by the rules in force then.
                (Some(true) | None, false) => {}
                _ => clear |= self.bit(),
            }
            let mask = enabled(&self.app, index);
            let change = |before: u32| Some(before & !clear | set);
            let Ok(before) = mask.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change) else {
                continue;
            };
            if set != 0 && before & (from | set) == 0 {
                on.push(index);
            }
            if before != 0 && before & !clear | set == 0 {
                off.push(index);
            }
        }
        Ok(Sweep { snapshot, on, off })
    }

    /// Patches the sites of tracepoints that a sweep has enabled or disabled.
    fn enable_again(&mut self, sweep: Sweep) -> Result<(), Error> {
        if let Err(error) = self.settle(true) {
            self.problems.push(error);
        }
        match self.patching.is_some() {
            // All enabled tracepoints are examined again when the current work has ended.
            true => self.unpatched = Some(Error::Stuck { pid: self.app.pid() }),
            false => {
                if let Err(error) = self.patch(&sweep.snapshot, sweep.on) {
                    self.problems.push(error);
                }
            }
        }
        self.left_enabled.extend(sweep.off);
        match self.restored(true) {
            // The code stays enabled for now, which costs a little and does no harm.
            None => return Ok(()),
            Some(Err(error)) => self.problems.push(error),
            Some(Ok(())) => {}
        }
        let off = std::mem::take(&mut self.left_enabled);
        match restore(&self.app, off) {
            Ok(restoring) => self.restoring = restoring,
            Err(error) => self.problems.push(error),
        }
        Ok(())
    }

    /// Returns whether the rules select this tracepoint; `None` if its description was not read yet.
    pub(super) fn selects(&self, index: u32, spec: &SessionSpec) -> Option<bool> {
        let described = self.app.described();
        described.heading(index).map(|it| match (it.provider, it.name) {
            // A session that records threads also records their names.
            THREAD_NAME => spec.vtid && !spec.rules.as_str().is_empty(),
            _ => spec.rules.select(it.provider, it.name, it.level),
        })
    }

    /// Reads the names that threads have now, since they may have changed while nothing was recorded.
    pub(super) fn name_threads(&mut self) {
        let named = named_threads(self.app.pid()).unwrap_or_default();
        // The names are those of this process if it still lives.
        if self.app.is_alive() {
            self.named_threads.retain(|(id, _)| named.iter().all(|(other, _)| other != id));
            self.named_threads.extend(named);
        }
    }
}

/// Returns the offset in the slot of the size of the rules with this version \[byte\].
fn rules_bytes_of(version: u32) -> usize {
    match version % 2 {
        0 => offset_of!(user::Session, rules_bytes),
        _ => offset_of!(user::Session, other_rules_bytes),
    }
}

#[cfg(test)]
mod tests;

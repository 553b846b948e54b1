//! A session is changed while it records: `strata/abi/user.h`, "Rules change" and "A filter does not change".
//!
//! No lock is needed for rules: the slot is ours, and the process finds out by their version. A process that holds
//! its lock, or is stopped, is changed as any other.

use super::*;

/// Who holds between two looks at all tracepoints.
struct Sweep {
    snapshot: Snapshot,
    /// Nothing was on at them for us.
    on: Vec<u32>,
    /// Nothing is on at them any more.
    off: Vec<u32>,
}

/// What tells whether a process has already got what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differs {
    /// It has.
    Nothing,
    /// Its rules: [`AppSession::change`].
    Rules,
    /// Its filter, or what is in front of each record: [`AppSession::successor`].
    Records,
}

impl AppSession {
    /// Records what other rules select, from now on. Of an event that both these and those before select every record
    /// is there, once. Nothing but the rules of `spec` is looked at. Code is written as with
    /// [`start_soon`](Self::start_soon): call [`finish_change`](Self::finish_change) soon.
    ///
    /// # Errors
    /// The process' memory is damaged: nothing more can be learnt of it.
    pub fn change(&mut self, spec: &SessionSpec) -> Result<(), Error> {
        if self.stopped {
            return Ok(());
        }
        self.check_slot()?;
        let begins_again = self.rules_bytes() == 0 && !spec.rules.as_str().is_empty();
        self.put_rules(spec)?;
        let sweep = self.sweep(spec, 0)?;
        self.rearm(sweep)?;
        if begins_again && spec.vtid {
            self.name_threads();
        }
        self.learn().map(drop)
    }

    /// Waits for the code that [`change`](Self::change) has had written, if that takes no longer than it may.
    pub fn finish_change(&mut self) {
        self.finish_start();
        let restored = self.restored(true);
        self.problems.extend(restored.and_then(Result::err));
    }

    /// A session in the place of this one, for what cannot change in place: its filter. It is ready, and nothing is on
    /// in it; [`hand_over`](Self::hand_over) is next. Without that it leaves nothing when it is given up.
    ///
    /// # Errors
    /// As of [`start_soon`](Self::start_soon); this session is as it was.
    pub fn successor(&self, spec: &SessionSpec, clock: &Clock) -> Result<AppSession, Error> {
        self.check_slot()?;
        let prepared = AppSession::prepared(&self.app, spec, clock, self.generation);
        prepared.map(|(session, _lock)| session)
    }

    /// Every tracepoint is off here and on in `to`, a [`successor`](Self::successor) by the same `spec`: each by one
    /// operation, so that each event is recorded in one of the two. Records of threads that have just looked still come
    /// here: until this [`is_quiet`](Self::is_quiet) it is not to be stopped.
    ///
    /// # Errors
    /// The process' memory is damaged: nothing more can be learnt of it.
    pub fn hand_over(&mut self, to: &mut AppSession, spec: &SessionSpec) -> Result<(), Error> {
        self.check_slot()?;
        to.check_slot()?;
        let status = |one: &AppSession, value| {
            one.u32(offset_of!(user::Session, status)).store(value, Ordering::SeqCst);
        };
        // Sequentially consistent, as the process' looks before and after it switches on: from here on it
        // switches nothing on for this one, or we see what it has switched on.
        status(to, user::SESSION_ACTIVE);
        fence(Ordering::SeqCst);
        let sweep = to.sweep(spec, self.bit())?;
        status(self, user::SESSION_ENDING);
        self.writers = Some(Writers::of(self.app.pid()));
        to.left_armed.append(&mut self.left_armed);
        to.rearm(sweep)?;
        to.named_threads.clone_from(&self.named_threads);
        if spec.vtid {
            to.name_threads();
        }
        to.learn().map(drop)
    }

    /// Has every thread that may have looked before [`hand_over`](Self::hand_over) written its record since? Where that
    /// cannot be known, some time has passed.
    pub fn is_quiet(&mut self) -> bool {
        let is_alive = self.app.is_alive();
        self.writers.as_mut().is_none_or(|writers| !is_alive || writers.are_done())
    }

    /// What the slot says, beside what is wanted.
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

    /// Bytes of the rules that hold.
    fn rules_bytes(&self) -> u32 {
        let version = self.u32(offset_of!(user::Session, rules_version)).load(Ordering::Acquire);
        self.u32(rules_bytes_of(version)).load(Ordering::Relaxed)
    }

    /// Where the rules of this version are.
    fn rules_at(&self, version: u32) -> u64 {
        match version % 2 {
            0 => (session(self.slot) + offset_of!(user::Session, rules)) as u64,
            _ => u64::from(user::RULES_OFFSET) + u64::from(self.slot) * 4096,
        }
    }

    /// The text goes where no rules hold; then they do.
    fn put_rules(&self, spec: &SessionSpec) -> Result<(), Error> {
        let rules = spec.rules.as_str().as_bytes();
        let held = self.u32(offset_of!(user::Session, rules_version));
        let version = held.load(Ordering::Relaxed).wrapping_add(1);
        self.app.memory().write(self.rules_at(version), rules)?;
        self.u32(rules_bytes_of(version)).store(rules.len() as u32, Ordering::Relaxed);
        // Sequentially consistent, as the process' looks at it before and after: either it sees the version, or we
        // see the object.
        held.store(version, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Switches on and off what the rules say, and takes the bits of `from`, whose place this session takes: each
    /// tracepoint by one operation.
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
                // What comes back is switched on by the process itself, which has seen what holds now.
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

    /// Has the code written.
    fn rearm(&mut self, sweep: Sweep) -> Result<(), Error> {
        if let Err(error) = self.settle(true) {
            self.problems.push(error);
        }
        match self.patching.is_some() {
            // All that is on is looked at, when that has come to its end.
            true => self.unpatched = Some(Error::Stuck { pid: self.app.pid() }),
            false => {
                if let Err(error) = self.patch(&sweep.snapshot, sweep.on) {
                    self.problems.push(error);
                }
            }
        }
        self.left_armed.extend(sweep.off);
        match self.restored(true) {
            // The code stays as it is for now: it costs a little, and does no harm.
            None => return Ok(()),
            Some(Err(error)) => self.problems.push(error),
            Some(Ok(())) => {}
        }
        let off = std::mem::take(&mut self.left_armed);
        match restore(&self.app, off) {
            Ok(restoring) => self.restoring = restoring,
            Err(error) => self.problems.push(error),
        }
        Ok(())
    }

    /// Do the rules select this tracepoint? `None`: it was not described yet.
    pub(super) fn selects(&self, index: u32, spec: &SessionSpec) -> Option<bool> {
        let described = self.app.described();
        described.heading(index).map(|it| match (it.provider, it.name) {
            // Whoever wants threads wants their names.
            THREAD_NAME => spec.vtid && !spec.rules.as_str().is_empty(),
            _ => spec.rules.select(it.provider, it.name, it.level),
        })
    }

    /// Names that threads have now; they may have got them while nothing was recorded.
    pub(super) fn name_threads(&mut self) {
        let named = named_threads(self.app.pid()).unwrap_or_default();
        // Its number may have become somebody else's before.
        if self.app.is_alive() {
            self.named_threads.retain(|(id, _)| named.iter().all(|(other, _)| other != id));
            self.named_threads.extend(named);
        }
    }
}

/// Where the size of the rules of this version is.
fn rules_bytes_of(version: u32) -> usize {
    match version % 2 {
        0 => offset_of!(user::Session, rules_bytes),
        _ => offset_of!(user::Session, other_rules_bytes),
    }
}

#[cfg(test)]
mod tests;

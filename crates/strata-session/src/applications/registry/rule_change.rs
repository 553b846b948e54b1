//! Changes the rules, filters and tracked processes of a running recording. The registry does this, since it knows all
//! processes. Processes that arrive during a change get the new rules.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use strata_user::{AppSession, Application, Differs, Error, Received, Rules, SessionSpec};

use super::change_progress::{MissingRoom, WaitingChange};
use super::requests::{Now, RegistryRequest, RegistryTask};
use super::{
    Came, Comer, ProcessTarget, Registry, ANNOUNCEMENTS_MAX, FORK_NS, FOUND_BY_SEARCH, LAST_ROUNDS,
    LET_GO_PATIENCE, LOCK_PATIENCE, LOCK_PERIOD, STARTING_MAX,
};
use crate::applications::traced_process::Traced;
use crate::plan::tracked::{admits, ProcessFacts};
use crate::report::NotReached;
use crate::session::budget::over_memory;
use crate::session::lock::lock;

/// The most replaced sessions of one process that a flight recorder holds.
const REPLACED_MAX: usize = 4;

/// The most announcements that are taken from the socket in one round, which is as many as fit in it.
const LISTENED_MAX: usize = 8192;

/// The reason why a session in a process cannot be replaced by another one.
enum Refused {
    /// There is no memory for this many further bytes of buffers.
    Memory(u64),
    /// This error of the process, or of the access to it, prevented the replacement.
    By(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::By(error)
    }
}

impl Registry {
    /// Admits announced processes in at most `rounds` rounds, or admits all of them if a request waits for that.
    pub(super) fn receive_and_tell(&mut self, rounds: usize) {
        // Requests that arrive in the meantime wait for the next call.
        let waiting = std::mem::take(&mut self.await_arrivals);
        self.receive(if waiting.is_empty() { rounds } else { LAST_ROUNDS });
        drop(waiting);
    }

    /// Admits the processes that have announced themselves so far. Closes the public socket for later processes:
    /// where many programs start each second, admitting them too would never end.
    pub(super) fn hear_the_last(&mut self) {
        if let Some(listener) = &mut self.listener {
            listener.take_no_more();
        }
        let now_ns = self.now_ns();
        self.changing.ended_ns.get_or_insert(now_ns);
        self.receive_and_tell(LAST_ROUNDS);
        self.try_held();
    }

    /// Admits processes that had connected to the socket before it was closed, and have announced themselves since.
    pub(super) fn hear_the_slow(&mut self) {
        self.receive_by(LAST_ROUNDS, &[Registry::receive_others]);
        self.try_held();
    }

    /// Reads all announcements from the public socket, without admitting any process.
    pub(super) fn listen(&mut self) {
        let own = rustix::process::geteuid().as_raw();
        for _ in 0..LISTENED_MAX {
            let Some(listener) = &mut self.listener else { return };
            match listener.receive() {
                // Programs of other users do not belong in this user's trace.
                Ok(Received::Process { fd, sender, .. }) if own == 0 || sender.uid() == own => {
                    if !self.heard.has_room() {
                        self.found.crowd.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let came = match self.target {
                        ProcessTarget::Everyone => Came::Invited,
                        // The process has closed our socket, or its environment was cleared.
                        _ => Came::ByItself,
                    };
                    if let Some(comer) = self.comer(fd, sender, came) {
                        self.heard.push(comer);
                    }
                }
                Ok(Received::Absent { sender, absence }) if own == 0 || sender.uid() == own => {
                    self.absent(sender, &absence, Came::ByItself);
                }
                Ok(Received::Process { .. } | Received::Absent { .. }) => {}
                Ok(Received::Nothing) => {
                    self.found.had_no_room.fetch_or(listener.had_no_room(), Ordering::Relaxed);
                    return;
                }
                Ok(Received::End) => {
                    self.listener = None;
                    lock(&self.found.remarks).push(format!(
                        "announcements: too many messages were invalid, and their users cannot be stopped from \
                         sending more. No announcement is accepted any more; {FOUND_BY_SEARCH}"
                    ));
                }
                Err(error) => return self.unreached(&error),
            }
        }
    }

    /// Takes announcements that arrived on the public socket. Returns whether there are more.
    pub(super) fn receive_others(&mut self, comers: &mut Vec<Comer>) -> bool {
        self.listen();
        self.heard.take(ANNOUNCEMENTS_MAX, comers)
    }

    /// Returns all pending requests, or `None` if there are none.
    fn hear(&mut self) -> Option<Vec<RegistryRequest>> {
        let mut all = vec![self.hearing.next()?];
        let mut count = [0; 8];
        // The event descriptor was written to once for each request.
        let _ = rustix::io::read(self.hearing.wake(), &mut count);
        all.extend(std::iter::from_fn(|| self.hearing.next()));
        Some(all)
    }

    pub(super) fn obey(&mut self) {
        // Only the latest request is carried out; the requesters of earlier ones are answered when it is done.
        let Some(all) = self.hear() else { return };
        if self.shared.is_stopping() {
            return;
        }
        let (arrivals, changes): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|one| matches!(one.what, RegistryTask::Arrivals));
        self.await_arrivals.extend(arrivals);
        if let Some(RegistryRequest { what: RegistryTask::Change(now), .. }) = changes.last() {
            self.change(now.clone());
        }
    }

    /// Replaces the rules in all processes. Locked processes are retried together, as at the beginning.
    pub(crate) fn change(&mut self, now: Now) {
        self.spec = now.spec;
        if self.changing.tracked != now.tracked {
            // Processes that are tracked from now on may run already, without having announced themselves to us.
            self.next_search = self.time.now();
        }
        self.changing.tracked = now.tracked;
        self.changing.was_changed = true;
        // Invitations come first, so that processes that start now use the new rules.
        self.invite();
        self.change_all();
        let end = self.time.now() + LOCK_PATIENCE;
        while self.changing.waiting.iter().any(|one| !one.is_told) && self.time.now() < end {
            self.time.pause(LOCK_PERIOD);
            self.keep_alive();
            self.go_on_changing();
        }
        // Lateness of newly requested processes counts from now on.
        self.ready_ns = self.ready_ns.max(self.now_ns());
    }

    /// Applies changes of those properties of processes that decide which processes are tracked.
    pub(super) fn look_who_is_tracked(&mut self) {
        if !self.changing.tracked.is_everybody() && !self.shared.is_stopping() {
            self.change_all();
        }
    }

    /// Returns what the process is to record: nothing, if it is not tracked.
    pub(super) fn spec_of(&self, application: &Application) -> Arc<SessionSpec> {
        self.spec_if(self.is_tracked(application))
    }

    /// Returns what a process is to record, given whether it is tracked.
    pub(super) fn spec_if(&self, is_tracked: bool) -> Arc<SessionSpec> {
        match is_tracked {
            true => Arc::clone(&self.spec),
            false => Arc::new(SessionSpec { rules: Rules::none(), ..(*self.spec).clone() }),
        }
    }

    /// Returns whether the process is tracked according to its properties in the kernel. A process that has ended
    /// counts as tracked, since its properties are unknown.
    pub(super) fn is_tracked(&self, application: &Application) -> bool {
        if self.changing.tracked.is_everybody() {
            return true;
        }
        let found = ProcessFacts::read(application.pid(), &self.changing.tracked);
        // Properties read through a process id that was reused meanwhile are not the process's own.
        let is_its = application.is_alive();
        !is_its || found.is_ok_and(|found| admits(&self.changing.tracked, &found))
    }

    /// Invites starting processes to record with the present rules. Withdraws the invitation if each process must be
    /// checked first, for tracking or memory.
    pub(super) fn invite(&mut self) {
        let is_limited = self.shared.memory().now().0.is_some();
        let wants_all = !self.is_of_command()
            && self.changing.tracked.is_everybody()
            && !self.spec.rules.is_none()
            && !is_limited
            && !self.shared.is_stopping();
        let Some(listener) = &mut self.listener else { return };
        if !wants_all {
            listener.ask_for_nothing();
            return;
        }
        if self.invitation.generation().is_none() {
            self.generations.insert(self.invitation.take_generation(), 0, |_| true);
        }
        if let Some(remark) = self.invitation.ask(listener, &self.spec, &self.clock) {
            lock(&self.found.remarks).push(remark);
        }
    }

    fn change_all(&mut self) {
        for process in self.processes.clone() {
            // A thousand processes take time, so heartbeats are sent in between.
            self.keep_alive();
            if !process.has_ended() && !process.is_replaced() {
                self.change_one(&process);
                self.finish_starts(STARTING_MAX);
            }
        }
        self.finish_starts(0);
        self.changing.settled_ns = self.now_ns().saturating_add(FORK_NS);
    }

    fn change_one(&mut self, process: &Arc<Traced>) {
        let spec = self.spec_of(process.application());
        let changed = match process.session().as_mut() {
            None => return,
            Some(session) => match session.differs(&spec) {
                Ok(Differs::Nothing) => return,
                Ok(Differs::Rules) => session.change(&spec).map(|()| {
                    process.selected_now(session);
                    true
                }),
                Ok(Differs::Records) => Ok(false),
                Err(error) => Err(error),
            },
        };
        match changed {
            Ok(true) => self.starting.push_back(Arc::clone(process)),
            Ok(false) => self.replace_soon(process),
            Err(error) => process.give_up(&error, &self.shared),
        }
    }

    /// Updates a session in a process that its parent or the command's environment created with older rules.
    /// `age_ns`: time for which it has recorded with them \[ns\]. Returns true if the filter of the older rules
    /// differs, so that another session must replace this one.
    pub(super) fn catch_up(&mut self, session: &mut AppSession, age_ns: u64) -> bool {
        if !self.changing.was_changed {
            return false;
        }
        let spec = self.spec_of(session.application());
        let differs = session.differs(&spec);
        // A part of its tracepoints may be enabled under older rules.
        let is_in_part = session.application().started_ns() < self.changing.settled_ns;
        let changed = match &differs {
            Ok(Differs::Nothing) if !is_in_part => return false,
            Ok(Differs::Nothing | Differs::Rules) => session.change(&spec),
            Ok(Differs::Records) | Err(_) => Ok(()),
        };
        let is_of_before = self.changing.is_of_before(session.generation());
        if !is_of_before && matches!(differs, Ok(Differs::Rules | Differs::Records)) {
            let mut outdated = lock(&self.found.outdated);
            outdated.processes += 1;
            outdated.longest_ns = outdated.longest_ns.max(age_ns);
        }
        let is_outdated = matches!(differs, Ok(Differs::Records));
        match differs.and(changed) {
            Err(error) if !error.is_gone() => self.unreached(&error),
            _ => {}
        }
        is_outdated
    }

    /// Replaces the session of a process whose filter has changed, now or as soon as possible.
    pub(super) fn replace_soon(&mut self, process: &Arc<Traced>) {
        if !self.changing.waiting.iter().any(|one| Arc::ptr_eq(&one.process, process)) {
            let (process, since) = (Arc::clone(process), self.time.now());
            self.try_replace(WaitingChange { process, since, is_told: false, short: None });
        }
    }

    fn try_replace(&mut self, mut one: WaitingChange) {
        self.changing.next = Some(self.time.now() + LOCK_PERIOD);
        let replaced = self.replace(&one.process);
        // The message is added again if there is still no memory.
        if let Some(short) = one.short.take() {
            lock(&self.found.not_reached).forget(&short.said);
        }
        match replaced {
            Ok(()) if one.is_told => one.process.warn(format!(
                "its filter was changed {:.1} s later than asked for: until then it recorded what the one before \
                 selects",
                self.time.elapsed(one.since).as_secs_f64()
            )),
            Ok(()) => {}
            Err(Refused::Memory(bytes)) => {
                let said = self.without_second_set(&one.process, bytes);
                one.is_told = true;
                one.short = Some(MissingRoom { bytes, said });
                self.changing.waiting.push(one);
            }
            Err(Refused::By(error)) if error.is_gone() => {}
            // The process's memory is locked by somebody, or its slots still belong to sessions that have just ended.
            Err(Refused::By(error @ (Error::Locked { .. } | Error::NoSlot { .. }))) => {
                if self.time.elapsed(one.since) >= LOCK_PATIENCE && !std::mem::replace(&mut one.is_told, true)
                {
                    one.process.warn(format!(
                        "its filter could not be changed yet: {error}. It records what the one before selects"
                    ));
                }
                self.changing.waiting.push(one);
            }
            Err(Refused::By(error)) => one.process.warn(format!(
                "its filter could not be changed: {error}. It records what the one before selects"
            )),
        }
    }

    /// Reports that there is no memory for the second set of buffers that a change of the filter needs. The change
    /// waits for memory.
    fn without_second_set(&self, process: &Traced, bytes: u64) -> NotReached {
        let application = process.application();
        let reason = format!(
            "the change of its filter or contexts waits, for it takes a second set of buffers: {}",
            over_memory(bytes, self.shared.memory().now())
        );
        let said =
            NotReached { pid: application.pid(), name: application.name().to_owned(), reason };
        lock(&self.found.not_reached).add(said.clone());
        said
    }

    /// Replaces the process's session by one with the present rules, which writes a trace of its own.
    fn replace(&mut self, process: &Arc<Traced>) -> Result<(), Refused> {
        let spec = self.spec_of(process.application());
        // The rules may have changed again.
        match process.session().as_mut() {
            None => return Ok(()),
            Some(session) if session.differs(&spec)? != Differs::Records => {
                return Ok(session.change(&spec)?);
            }
            Some(_) => self.make_place(process),
        }
        let (next, channel, memory) = match process.session().as_mut() {
            None => return Ok(()),
            Some(session) => {
                let mut next = session.successor(&spec, &self.clock)?;
                let Some(channel) = next.take_channel() else { return Ok(()) };
                let bytes = channel.mapped_bytes();
                let Some(memory) = self.shared.memory().take(bytes) else {
                    return Err(Refused::Memory(bytes));
                };
                // Child processes started at this moment inherit it.
                self.remember(next.generation(), self.now_ns().saturating_add(FORK_NS));
                session.hand_over(&mut next, &spec)?;
                (next, channel, memory)
            }
        };
        process.replace();
        self.changing.leaving.push(Arc::clone(process));
        self.hand_to_pump(next, process.changes(), (channel, memory), false);
        Ok(())
    }

    /// Releases the oldest replaced sessions of a process in a flight recorder, so that a slot is free for a new one.
    fn make_place(&self, process: &Traced) {
        let inode = process.application().inode();
        let of_it = |one: &&Arc<Traced>| one.application().inode() == inode && one.is_replaced();
        let held: Vec<&Arc<Traced>> = self.processes.iter().filter(of_it).collect();
        let oldest = held.len().saturating_sub(REPLACED_MAX - 1);
        held.into_iter().take(oldest).for_each(|one| one.let_go());
    }

    /// Continues pending changes: filters that could not be replaced yet, and replaced sessions to which threads may
    /// still write.
    pub(super) fn go_on_changing(&mut self) {
        let now = self.time.now();
        if self.changing.due().is_none_or(|due| now < due) {
            return;
        }
        self.changing.next = Some(now + LOCK_PERIOD);
        let budget = Arc::clone(self.shared.memory());
        for one in std::mem::take(&mut self.changing.waiting) {
            let is_over = one.process.has_ended() || self.shared.is_stopping();
            let bytes = one.short.as_ref().map_or(0, |short| short.bytes);
            // Until then, the memory of ended programs that are only held is released.
            if bytes > 0 && (is_over || now - one.since >= LET_GO_PATIENCE) {
                budget.give_up();
            }
            match is_over {
                // The message about this process remains true.
                true => {}
                false if !budget.has(bytes) => self.changing.waiting.push(one),
                false => self.try_replace(one),
            }
        }
        let shared = Arc::clone(&self.shared);
        self.changing.leaving.retain(|process| {
            let mut session = process.session();
            let Some(session) = session.as_mut().filter(|_| !process.has_ended()) else {
                return false;
            };
            let is_quiet = session.is_quiet();
            if is_quiet {
                if let Err(error) = session.stop() {
                    process.found(&error, &shared);
                }
                process.end();
            }
            !is_quiet
        });
    }
}

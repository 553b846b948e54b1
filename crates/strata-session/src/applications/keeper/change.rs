//! What is recorded is changed while it is: the keeper does it, since it is the one that knows all processes. Those
//! that come meanwhile get what holds then.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Instant;

use strata_user::{AppSession, Application, Clock, Differs, Error, Received, Rules, SessionSpec};

use super::asking::{KeeperRequest, KeeperTask, Now};
use super::changing::{MissingRoom, WaitingChange};
use super::{
    Came, Comer, Keeper, ProcessTarget, ANNOUNCEMENTS_MAX, FORK_NS, FOUND_BY_SEARCH, LAST_ROUNDS,
    LET_GO_PATIENCE, LOCK_PATIENCE, LOCK_PERIOD, STARTING_MAX,
};
use crate::applications::traced::Traced;
use crate::plan::tracked::{admits, ProcessFacts};
use crate::report::NotReached;
use crate::session::budget::over_memory;
use crate::session::lock::lock;

/// Sessions of one process that others have replaced, and that a flight recorder holds at most.
const REPLACED_MAX: usize = 4;

/// Announcements that are taken out of the socket in one go: as many find room in it.
const LISTENED_MAX: usize = 8192;

/// Why the place of a session is not taken by another one.
enum Refused {
    /// There is no memory for so many bytes.
    Memory(u64),
    /// As it says.
    By(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::By(error)
    }
}

impl Keeper {
    /// Let in who has announced itself, all of them where somebody waits for that.
    pub(super) fn receive_and_tell(&mut self, rounds: usize) {
        // Who asks while they are let in waits for the next time.
        let waiting = std::mem::take(&mut self.await_arrivals);
        self.receive(if waiting.is_empty() { rounds } else { LAST_ROUNDS });
        drop(waiting);
    }

    /// Lets those in who have announced themselves. Who begins from now on does not find the socket that everybody finds:
    /// where many programs begin each second, hearing those as well would not come to an end.
    pub(super) fn hear_the_last(&mut self) {
        if let Some(listener) = &mut self.listener {
            listener.take_no_more();
        }
        self.changing.ended_ns.get_or_insert_with(Clock::monotonic_ns);
        self.receive_and_tell(LAST_ROUNDS);
        self.try_held();
    }

    /// Lets those in who had connected to it, and announced themselves since.
    pub(super) fn hear_the_slow(&mut self) {
        self.receive_by(LAST_ROUNDS, &[Keeper::receive_others]);
        self.try_held();
    }

    /// Takes what is in the socket that everybody finds. Lets nobody in.
    pub(super) fn listen(&mut self) {
        let own = rustix::process::geteuid().as_raw();
        for _ in 0..LISTENED_MAX {
            let Some(listener) = &mut self.listener else { return };
            match listener.receive() {
                // Somebody else's program has no business in this user's trace.
                Ok(Received::Process { fd, sender, .. }) if own == 0 || sender.uid() == own => {
                    if !self.heard.has_room() {
                        self.found.crowd.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let came = match self.target {
                        ProcessTarget::Everyone => Came::Invited,
                        // One that has closed our socket, or whose environment was cleared.
                        _ => Came::ByItself,
                    };
                    if let Some(comer) = self.comer(fd, sender, came) {
                        self.heard.push(comer);
                    }
                }
                Ok(Received::Process { .. }) => {}
                Ok(Received::Nothing) => {
                    self.found.had_no_room.fetch_or(listener.had_no_room(), Ordering::Relaxed);
                    return;
                }
                Ok(Received::End) => {
                    self.listener = None;
                    lock(&self.found.remarks).push(format!(
                        "announcements: too many messages were none, and their users cannot be kept from \
                         sending more. Nobody is listened to any more; {FOUND_BY_SEARCH}"
                    ));
                }
                Err(error) => return self.unreached(&error),
            }
        }
    }

    /// Of everybody who has found our socket. True: there are more of them.
    pub(super) fn receive_others(&mut self, comers: &mut Vec<Comer>) -> bool {
        self.listen();
        self.heard.take(ANNOUNCEMENTS_MAX, comers)
    }

    /// Do what was asked, if something was. Who is done with, or ends, only forgets it.
    fn hear(&mut self) -> Option<Vec<KeeperRequest>> {
        let mut all = vec![self.hearing.next()?];
        let mut count = [0; 8];
        // It was written to once for each that asked.
        let _ = rustix::io::read(self.hearing.wake(), &mut count);
        all.extend(std::iter::from_fn(|| self.hearing.next()));
        Some(all)
    }

    pub(super) fn obey(&mut self) {
        // What was asked before the last one nobody wants any more; all of them hear when that is done.
        let Some(all) = self.hear() else { return };
        if self.shared.is_stopping() {
            return;
        }
        let (arrivals, changes): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|one| matches!(one.what, KeeperTask::Arrivals));
        self.await_arrivals.extend(arrivals);
        if let Some(KeeperRequest { what: KeeperTask::Change(now), .. }) = changes.last() {
            self.change(now.clone());
        }
    }

    /// From now on this is recorded. Processes whose memory is locked are waited for as at the begin, all together.
    pub(crate) fn change(&mut self, now: Now) {
        self.spec = now.spec;
        if self.changing.tracked != now.tracked {
            // Who is tracked from now on may be there already, and has told us nothing.
            self.next_search = Instant::now();
        }
        self.changing.tracked = now.tracked;
        self.changing.was_changed = true;
        // First: who begins now does so by what holds now.
        self.invite();
        self.change_all();
        let end = Instant::now() + LOCK_PATIENCE;
        while self.changing.waiting.iter().any(|one| !one.is_told) && Instant::now() < end {
            std::thread::sleep(LOCK_PERIOD);
            self.keep_alive();
            self.go_on_changing();
        }
        // Who is asked for only now is late from now on.
        self.ready_ns = self.ready_ns.max(Clock::monotonic_ns());
    }

    /// What the kernel says of processes may have changed, and with it who is tracked.
    pub(super) fn look_who_is_tracked(&mut self) {
        if !self.changing.tracked.is_everybody() && !self.shared.is_stopping() {
            self.change_all();
        }
    }

    /// What it is to record: nothing, if it is not tracked.
    pub(super) fn spec_of(&self, application: &Application) -> Arc<SessionSpec> {
        self.spec_if(self.is_tracked(application))
    }

    /// The same of one of which that is known.
    pub(super) fn spec_if(&self, is_tracked: bool) -> Arc<SessionSpec> {
        match is_tracked {
            true => Arc::clone(&self.spec),
            false => Arc::new(SessionSpec { rules: Rules::none(), ..(*self.spec).clone() }),
        }
    }

    /// By what the kernel says of it. Of one that has ended it says nothing; what it had recorded is taken.
    pub(super) fn is_tracked(&self, application: &Application) -> bool {
        if self.changing.tracked.is_everybody() {
            return true;
        }
        let found = ProcessFacts::read(application.pid(), &self.changing.tracked);
        // What was read by a number that is no longer its own was of nobody.
        let is_its = application.is_alive();
        !is_its || found.is_ok_and(|found| admits(&self.changing.tracked, &found))
    }

    /// Asks processes that begin for what is recorded now; for nothing, where it is asked of each whether it may: by who
    /// is tracked, or by how much memory is left.
    pub(super) fn invite(&mut self) {
        let is_limited = self.shared.memory().now().0.is_some();
        let wants_all = matches!(self.target, ProcessTarget::Everyone)
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
            // A thousand of them take their time.
            self.keep_alive();
            if !process.has_ended() && !process.is_replaced() {
                self.change_one(&process);
                self.finish_starts(STARTING_MAX);
            }
        }
        self.finish_starts(0);
        self.changing.settled_ns = Clock::monotonic_ns().saturating_add(FORK_NS);
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

    /// Brings a session that was made by others, a parent or a command's environment, to what holds now.
    /// `age_ns`: so long it has recorded what they said. True: it has another filter, and needs a successor.
    pub(super) fn catch_up(&mut self, session: &mut AppSession, age_ns: u64) -> bool {
        if !self.changing.was_changed {
            return false;
        }
        let spec = self.spec_of(session.application());
        let differs = session.differs(&spec);
        // Its tracepoints may be on in part, whatever its rules are.
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

    /// Its filter is to change: now, or as soon as that is possible.
    pub(super) fn replace_soon(&mut self, process: &Arc<Traced>) {
        if !self.changing.waiting.iter().any(|one| Arc::ptr_eq(&one.process, process)) {
            let (process, since) = (Arc::clone(process), Instant::now());
            self.try_replace(WaitingChange { process, since, is_told: false, short: None });
        }
    }

    fn try_replace(&mut self, mut one: WaitingChange) {
        self.changing.next = Some(Instant::now() + LOCK_PERIOD);
        let replaced = self.replace(&one.process);
        // It is said again if it finds none.
        if let Some(short) = one.short.take() {
            lock(&self.found.not_reached).forget(&short.said);
        }
        match replaced {
            Ok(()) if one.is_told => one.process.warn(format!(
                "its filter was changed {:.1} s later than asked for: until then it recorded what the one before \
                 selects",
                one.since.elapsed().as_secs_f64()
            )),
            Ok(()) => {}
            Err(Refused::Memory(bytes)) => {
                let said = self.without_second_set(&one.process, bytes);
                one.is_told = true;
                one.short = Some(MissingRoom { bytes, said });
                self.changing.waiting.push(one);
            }
            Err(Refused::By(error)) if error.is_gone() => {}
            // Somebody holds its memory, or sessions of it that have just ended are not taken yet.
            Err(Refused::By(error @ (Error::Locked { .. } | Error::NoSlot { .. }))) => {
                if one.since.elapsed() >= LOCK_PATIENCE && !std::mem::replace(&mut one.is_told, true)
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

    /// Says that there is no memory for a second set of buffers, for which it waits.
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

    /// Another session of the process takes the place of this one, which is a trace of its own.
    fn replace(&mut self, process: &Arc<Traced>) -> Result<(), Refused> {
        let spec = self.spec_of(process.application());
        // It may have changed again meanwhile.
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
                // Children of this moment have it.
                self.remember(next.generation(), Clock::monotonic_ns().saturating_add(FORK_NS));
                session.hand_over(&mut next, &spec)?;
                (next, channel, memory)
            }
        };
        process.replace();
        self.changing.leaving.push(Arc::clone(process));
        self.hand_to_pump(next, process.changes(), (channel, memory), false);
        Ok(())
    }

    /// A flight recorder holds what has ended; of one process not more than it has slots for.
    fn make_place(&self, process: &Traced) {
        let inode = process.application().inode();
        let of_it = |one: &&Arc<Traced>| one.application().inode() == inode && one.is_replaced();
        let held: Vec<&Arc<Traced>> = self.processes.iter().filter(of_it).collect();
        let oldest = held.len().saturating_sub(REPLACED_MAX - 1);
        held.into_iter().take(oldest).for_each(|one| one.let_go());
    }

    /// What is under way: filters that could not be changed yet, and sessions that threads may still write to.
    pub(super) fn go_on_changing(&mut self) {
        let now = Instant::now();
        if self.changing.due().is_none_or(|due| now < due) {
            return;
        }
        self.changing.next = Some(now + LOCK_PERIOD);
        let budget = Arc::clone(self.shared.memory());
        for one in std::mem::take(&mut self.changing.waiting) {
            let is_over = one.process.has_ended() || self.shared.is_stopping();
            let bytes = one.short.as_ref().map_or(0, |short| short.bytes);
            // For so long programs that have ended, and are only held, are let go of.
            if bytes > 0 && (is_over || now - one.since >= LET_GO_PATIENCE) {
                budget.give_up();
            }
            match is_over {
                // What was said of it stays true.
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

//! What a session that was killed has left in programs, to the one that is made again from its plan.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use strata_user::{AppSession, Application, Error, Findings};

use super::{Keeper, LET_GO_PATIENCE, LOCK_PERIOD};
use crate::session::lock::lock;

impl Keeper {
    /// Lets those in that have ended, or run another program by now, and whose memory the trustee of the session before
    /// holds. Who lives is found as any other is, and waited for here until it is. What cannot be taken now is tried again,
    /// but for the `last` time: then all is taken, of whomever.
    pub(super) fn take_estates(&mut self, last: bool) {
        let Some(slots) = self.sources.context.slots.clone().filter(|_| !self.estates.is_empty())
        else {
            return;
        };
        let mut ended = Vec::new();
        for estate in std::mem::take(&mut self.estates) {
            match self.known.contains(estate.inode) {
                true => slots.took(estate.inode),
                false if last || estate.is_left() => ended.push(estate),
                false => self.estates.push(estate),
            }
        }
        let all = ended.iter().map(|estate| estate.entrusted.clone()).collect();
        let found = Application::all_entrusted(all, &mut || self.look_after());
        let until = last.then(|| Instant::now() + LET_GO_PATIENCE);
        for (estate, application) in ended.into_iter().zip(found) {
            match application.and_then(|one| self.take_over(&one, until)) {
                Ok(true) => {}
                Ok(false) => {
                    self.estates.push(estate);
                    continue;
                }
                Err(error) if error.may_pass() && !last => {
                    self.estates.push(estate);
                    continue;
                }
                Err(error) => {
                    self.known.end(estate.inode);
                    self.unreached(&error);
                }
            }
            let is_it = |inode: u64| inode == estate.inode;
            for process in self.processes.iter().filter(|one| is_it(one.application().inode())) {
                process.had_ended();
            }
            slots.took(estate.inode);
        }
        self.finish_starts(0);
    }

    /// What it has recorded for us, in one set of buffers or in several, of which others had taken the place. `until`: so
    /// long memory of the session is waited for; `None`: not at all, and without it nothing is done, which is false.
    fn take_over(
        &mut self,
        application: &Application,
        until: Option<Instant>,
    ) -> Result<bool, Error> {
        self.look_after();
        let spec = self.spec_of(application);
        let mut sessions: Vec<AppSession> = Vec::new();
        let mut generations = application.session_generations();
        generations.retain(|generation| self.generations.contains(*generation));
        for generation in &generations {
            match AppSession::adopt(application, *generation, &spec, &self.clock) {
                Ok(session) => sessions.push(session),
                Err(error) if error.may_pass() && until.is_none() => {
                    sessions.into_iter().for_each(AppSession::leave);
                    return Err(error);
                }
                Err(error) if error.is_gone() => {}
                Err(error) => self.unreached(&error),
            }
        }
        if let (true, Some(error)) = (generations.is_empty(), self.not_armed(application)) {
            return Err(error);
        }
        let budget = Arc::clone(self.shared.memory());
        let bytes = sessions.iter().map(AppSession::channel_bytes).sum();
        // Of those that have ended before it comes what is written by now.
        let may_wait = || until.is_some_and(|until| Instant::now() < until);
        while !self.holds && !budget.has(bytes) && may_wait() {
            std::thread::sleep(LOCK_PERIOD);
            self.look_after();
        }
        if until.is_none() && !budget.has(bytes) {
            sessions.into_iter().for_each(AppSession::leave);
            return Ok(false);
        }
        self.known.end(application.inode());
        let mut sessions = sessions.into_iter();
        if let Some(session) = sessions.next() {
            self.adopted(session, false);
        }
        sessions.for_each(|session| self.adopted_too(session));
        Ok(true)
    }

    /// A set of buffers whose place another one of the same process has taken.
    fn adopted_too(&mut self, mut session: AppSession) {
        let Some(channel) = session.take_channel() else { return };
        let Some(memory) = self.memory_for(channel.mapped_bytes()) else {
            self.without_memory(session, channel.mapped_bytes());
            return;
        };
        let changes = lock(&self.sources.book).changes();
        self.hand_to_pump(session, changes, (channel, memory), true);
    }

    /// Who lives, but no longer has the memory that is held: it runs another program by now.
    pub(super) fn look_who_has_left(&mut self, findings: &Findings) {
        let has = |inode: u64| findings.applications.iter().any(|one| one.inode() == inode);
        for estate in &mut self.estates {
            if findings.looked.contains(&estate.entrusted.pid) && !has(estate.inode) {
                estate.leave();
            }
        }
    }

    /// What became of the programs that a session had recorded that was killed. Of a program that has ended, the memory is
    /// gone unless a trustee has held it; what that has let go of was written.
    pub(super) fn tell_left(&self) {
        let Some(slots) = &self.sources.context.slots else { return };
        let found =
            self.processes.iter().filter(|one| self.changing.is_of_before(one.generation()));
        let found: HashSet<u64> = found.map(|one| one.application().inode()).collect();
        let mut left: HashSet<u64> = slots.left().map(|slot| slot.inode).collect();
        let mut why = "the program has ended since, or another session has its place";
        if left.iter().any(|inode| slots.has_held(*inode)) {
            left.retain(|inode| slots.has_held(*inode) || found.contains(inode));
            why = "another session has its place";
        }
        if left.is_empty() {
            return;
        }
        let later: HashSet<u64> = self.estates.iter().map(|estate| estate.inode).collect();
        let absent = left.difference(&found);
        let (later, gone): (Vec<u64>, Vec<u64>) = absent.partition(|inode| later.contains(inode));
        let mut besides = match gone.len() {
            0 => String::new(),
            gone => format!("; of {gone} nothing is left: {why}"),
        };
        if !later.is_empty() {
            besides += &format!("; of {} it is held, and comes later", later.len());
        }
        lock(&self.found.remarks).push(format!(
            "the session before this one was killed: what the buffers of {} of its {} programs still held is in this trace{besides}",
            found.len(),
            left.len().max(found.len())
        ));
    }
}

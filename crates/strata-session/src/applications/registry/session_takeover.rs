//! Takes over the sessions that a killed session has left in programs, when the session is restored from its plan.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use strata_user::{AppSession, Application, Error, Findings};

use super::{Registry, LET_GO_PATIENCE, LOCK_PERIOD};
use crate::session::lock::lock;

impl Registry {
    /// Takes over programs whose memory the fdstore of the killed session holds, if they have ended or now run another
    /// program. Living programs are found in the usual way, and their entries are kept until then. Programs that cannot
    /// be taken over now are retried. `last`: true at the end, when everything is taken over without distinction.
    pub(super) fn take_stored(&mut self, last: bool) {
        let Some(slots) =
            self.sources.context.slots.clone().filter(|_| !self.stored_programs.is_empty())
        else {
            return;
        };
        let mut ended = Vec::new();
        for stored in std::mem::take(&mut self.stored_programs) {
            match self.known.contains(stored.inode) {
                true => slots.took(stored.inode),
                false if last || stored.is_left() => ended.push(stored),
                false => self.stored_programs.push(stored),
            }
        }
        let all = ended.iter().map(|stored| stored.memory.clone()).collect();
        let found = Application::all_stored(all, &mut || self.look_after());
        let until = last.then(|| self.time.now() + LET_GO_PATIENCE);
        for (stored, application) in ended.into_iter().zip(found) {
            match application.and_then(|one| self.take_over(&one, until)) {
                Ok(true) => {}
                Ok(false) => {
                    self.stored_programs.push(stored);
                    continue;
                }
                Err(error) if error.may_pass() && !last => {
                    self.stored_programs.push(stored);
                    continue;
                }
                Err(error) => {
                    self.known.end(stored.inode);
                    self.unreached(&error);
                }
            }
            let is_it = |inode: u64| inode == stored.inode;
            for process in self.processes.iter().filter(|one| is_it(one.application().inode())) {
                process.had_ended();
            }
            slots.took(stored.inode);
        }
        self.finish_starts(0);
    }

    /// Takes over the recording of a process, with one set of buffers or several that replaced each other. Waits
    /// until the time `until` for memory for the buffers; `None` does not wait. Returns false if there is no memory.
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
        if let (true, Some((_, error))) = (generations.is_empty(), self.failed(application)) {
            return Err(error);
        }
        let budget = Arc::clone(self.shared.memory());
        let bytes = sessions.iter().map(AppSession::channel_bytes).sum();
        // For processes that have ended, memory is released when their packets are written.
        let time = self.time.clone();
        let may_wait = || until.is_some_and(|until| time.now() < until);
        while !self.holds && !budget.has(bytes) && may_wait() {
            self.time.pause(LOCK_PERIOD);
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

    /// Takes over an older set of buffers, which another set of the same process has replaced.
    fn adopted_too(&mut self, mut session: AppSession) {
        let Some(channel) = session.take_channel() else { return };
        let Some(memory) = self.memory_for(channel.mapped_bytes()) else {
            self.without_memory(session, channel.mapped_bytes());
            return;
        };
        let changes = lock(&self.sources.book).changes();
        self.hand_to_pump(session, changes, (channel, memory), true);
    }

    /// Marks the stored memory of living processes that no longer use it, because they now run another program.
    pub(super) fn look_who_has_left(&mut self, findings: &Findings) {
        let has = |inode: u64| findings.applications.iter().any(|one| one.inode() == inode);
        for stored in &mut self.stored_programs {
            if findings.looked.contains(&stored.memory.pid) && !has(stored.inode) {
                stored.leave();
            }
        }
    }

    /// Reports programs of the killed session whose records are missing. The memory of a program that has ended is
    /// gone, unless the fdstore has held it. Memory that the fdstore had released was written completely.
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
        let later: HashSet<u64> = self.stored_programs.iter().map(|stored| stored.inode).collect();
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

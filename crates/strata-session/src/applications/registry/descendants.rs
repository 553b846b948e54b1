//! Finds processes that are recorded because they descend from the command, or from processes that were named by
//! process id.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use strata_user::{
    ancestors, may_have_session, Announced, AppSession, Application, Error, Sender as Announcer,
};

use super::{unreached_descendants, Came, Comer, ProcessTarget, Registry, HELD_MAX};
use crate::applications::traced_process::Traced;

impl Registry {
    /// Returns the process that announced itself; `None` if it is known already or is ignored.
    pub(super) fn comer(&self, fd: OwnedFd, sender: Announcer, came: Came) -> Option<Comer> {
        // Most programs announce themselves twice: to the program that started them, and on the public socket.
        let inode = rustix::fs::fstat(&fd).map_or(0, |stat| stat.st_ino);
        if self.known.contains(inode) || self.is_passed_over(&fd, &sender) {
            return None;
        }
        // The number of our session is known only to processes that got it from us, so their ancestors need not be
        // checked. They have it before they announce themselves.
        let has_ours = || may_have_session(fd.as_fd(), |one| self.generations.contains(one));
        let came = match came {
            Came::ByItself if self.is_of_command() && has_ours() => Came::Invited,
            _ => came,
        };
        // The ancestors matter only for the other processes.
        let (mut parents, mut was_of_it) = (Vec::new(), false);
        if came == Came::ByItself && self.has_descendants() {
            // The ancestors are read at once, since they are unknown after the process has ended.
            parents = ancestors(sender.pid()).collect();
            // Ancestors read through a process id that was reused meanwhile are not the process's own.
            was_of_it = sender.has_its_number();
        }
        let announced = Announced { fd: Arc::new(fd), sender };
        Some(Comer { announced, came, parents, was_of_it })
    }

    pub(super) fn arrived(&mut self, comer: Comer, application: Result<Application, Error>) {
        let Comer { came, was_of_it, ref parents, .. } = comer;
        let pid = comer.announced.sender.pid();
        let is_one = |pid: &u32| self.is_one_of_ours(*pid);
        let descends = came == Came::Invited || is_one(&pid) || parents.iter().any(is_one);
        let ours = came == Came::Invited || (descends && was_of_it);
        if descends && was_of_it {
            self.family.add(pid);
        }
        let unseen = parents.is_empty() || !was_of_it;
        let unknown = !ours && self.has_descendants() && unseen;
        match application {
            Ok(application) if unknown && !self.has_proof(&application) => {
                self.tell_unseen(&application);
                // The process may have a session that was made for us.
                self.admit(&application, came, false);
            }
            Ok(application) => {
                self.admit(&application, came, ours);
                self.tell_gone(&application);
            }
            Err(error) => {
                if ours {
                    self.unreached(&error);
                }
                // This is reported once. The memory's place is known already, so the process may go on.
                if error.is_held() && self.held.len() < HELD_MAX {
                    self.held.push(comer);
                }
            }
        }
    }

    pub(super) fn is_of_command(&self) -> bool {
        matches!(self.target, ProcessTarget::Command { .. })
    }

    /// Returns whether the process descends from the command, from a recorded process, or from a process that was named
    /// by process id.
    pub(super) fn is_descendant(&self, pid: u32) -> bool {
        let is_one = |pid| self.is_one_of_ours(pid);
        self.has_descendants() && (is_one(pid) || ancestors(pid).any(is_one))
    }

    /// Returns whether the process is the command, was named by process id or descends from such a process, or is
    /// recorded for another reason.
    pub(super) fn is_one_of_ours(&self, pid: u32) -> bool {
        let is_root = match &self.target {
            ProcessTarget::Command { pid: command, .. } => pid == *command,
            ProcessTarget::Processes(_) => self.family.contains(pid),
            ProcessTarget::Everyone => return false,
        };
        let is_it = |process: &Arc<Traced>| process.application().pid() == pid;
        is_root || self.processes.iter().any(|process| is_it(process) && !process.has_ended())
    }

    /// Returns whether processes are recorded because of their ancestors.
    pub(super) fn has_descendants(&self) -> bool {
        !matches!(self.target, ProcessTarget::Everyone)
    }

    /// Returns whether the process has a session that it can only have inherited from one of ours. A session that was
    /// created through the invitation is no proof if processes were named by process id: every starting process finds
    /// that invitation.
    fn has_proof(&self, application: &Application) -> bool {
        let inherited = self.inherited(application);
        inherited.is_some() && !self.is_stranger(application, inherited, false)
    }

    /// Returns whether the process used the invitation for descendants of the named processes without being a
    /// descendant.
    pub(super) fn is_stranger(
        &self,
        app: &Application,
        inherited: Option<u64>,
        ours: bool,
    ) -> bool {
        // The parent's process id is one in the process's own PID namespace.
        let parent = app.parent_pid();
        let is_parent = |one: &Arc<Traced>| one.application().pid() == parent;
        let is_fork_of_ours = || {
            app.inner_pid() == app.pid()
                && (self.family.had(parent) || self.processes.iter().any(is_parent))
        };
        matches!(self.target, ProcessTarget::Processes(_))
            && inherited.is_some()
            && inherited == self.invitation.generation()
            && !ours
            && !is_fork_of_ours()
    }

    /// Returns the session that a process was invited to create and could not, and why; `None` if nothing failed.
    pub(super) fn failed(&self, application: &Application) -> Option<(u64, Error)> {
        application.failed_sessions().into_iter().find_map(|(generation, code)| {
            let error = Error::NoBuffers { pid: application.pid(), code };
            self.generations.contains(generation).then_some((generation, error))
        })
    }

    /// Removes a session from a process that does not belong to this recording.
    pub(super) fn decline(&mut self, session: AppSession) {
        self.strangers.insert(session.application().inode());
        if let Err(error) = session.release_at_once() {
            if !error.is_gone() {
                self.unreached(&error);
            }
        }
    }

    /// Returns the remark on a descendant that had no session when it started. `age`: its age when it was found
    /// \[ns\].
    pub(super) fn why_late(&self, application: &Application, age: u64) -> String {
        let (why, advice) = self.why_uninvited(application);
        format!(
            "{why}: recorded from {} after its start on. {advice}",
            unreached_descendants::at_most(age)
        )
    }

    /// Returns the remark on a descendant that ended before it could have a session.
    pub(super) fn why_gone(&self, application: &Application) -> String {
        let (why, advice) = self.why_uninvited(application);
        format!("{why}, and it has ended. {advice}")
    }

    fn why_uninvited(&self, application: &Application) -> (String, &'static str) {
        match self.target {
            ProcessTarget::Processes(_) => (
                "it was started by a process that is recorded by number, and had no buffers from its begin".to_owned(),
                "`strata record -- COMMAND` has what a command starts from its begin",
            ),
            _ => unreached_descendants::why(application),
        }
    }

    /// Returns whether the recording must go on because of this process: it was named by process id or descends from
    /// such a process, and has not ended. Its memory may stay locked for long if another recorder holds the lock while
    /// attaching and gets no CPU.
    pub(super) fn is_awaited(&self, pid: u32) -> bool {
        let is_named = matches!(self.target, ProcessTarget::Processes(_));
        is_named && !self.shared.is_stopping() && self.family.contains(pid)
    }

    /// Returns whether all processes that were named by process id, and their known descendants, have ended. False if
    /// none were named. A process without tracepoints may start a program that has some, so those count as well.
    pub(super) fn nobody_left(&self) -> bool {
        match &self.target {
            ProcessTarget::Processes(_) => {
                self.locked.is_empty()
                    && self.processes.iter().all(|process| process.has_ended())
                    && !self.family.lives()
            }
            _ => false,
        }
    }
}

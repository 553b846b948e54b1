//! What is recorded is changed while it is: the keeper does it, since it is the one that knows all processes. Those
//! that come meanwhile get what holds then.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;

use rustix::event::{eventfd, EventfdFlags};
use strata_user::{AppSession, Differs, SessionSpec};

use super::Keeper;
use crate::lock::lock;
use crate::traced::Traced;

/// What is asked of a keeper that works in a thread of its own.
#[derive(Debug)]
struct Asked {
    spec: Arc<SessionSpec>,
    /// Its end: it is done.
    _done: Sender<()>,
}

/// Who asks a keeper.
#[derive(Debug)]
pub(crate) struct Asking {
    asks: Sender<Asked>,
    wake: Arc<OwnedFd>,
}

/// The keeper's end of it.
#[derive(Debug)]
pub(crate) struct Hearing {
    asked: Receiver<Asked>,
    wake: Arc<OwnedFd>,
}

/// Two ends.
///
/// # Errors
/// What the system said.
pub(crate) fn asking() -> io::Result<(Asking, Hearing)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (asks, asked) = channel();
    Ok((Asking { asks, wake: Arc::clone(&wake) }, Hearing { asked, wake }))
}

impl Asking {
    /// Has this recorded from now on; waits until it is so of all processes that are known. A keeper that has
    /// ended, or ends, is not waited for.
    pub(crate) fn change(&self, spec: &Arc<SessionSpec>) {
        let (done, heard) = channel();
        let asked = Asked { spec: Arc::clone(spec), _done: done };
        if self.asks.send(asked).is_ok() {
            // It is full only if it was written to before.
            let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
            // The other end goes when it is done.
            let _ = heard.recv();
        }
    }
}

impl Hearing {
    /// Readable when something is asked.
    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    fn next(&self) -> Option<Asked> {
        self.asked.try_recv().ok()
    }
}

impl Keeper {
    /// Do what was asked, if something was. Who is done with, or ends, only forgets it.
    pub(super) fn obey(&mut self) {
        let Some(mut asked) = self.hearing.next() else { return };
        let mut count = [0; 8];
        // It was written to once for each that asked.
        let _ = rustix::io::read(self.hearing.wake(), &mut count);
        // What was asked before and not begun yet nobody wants any more.
        let mut before = Vec::new();
        while let Some(next) = self.hearing.next() {
            before.push(std::mem::replace(&mut asked, next));
        }
        if self.orders.is_some() {
            self.change(&asked.spec);
        }
    }

    /// From now on this is recorded.
    pub(crate) fn change(&mut self, spec: &Arc<SessionSpec>) {
        self.spec = Arc::clone(spec);
        self.was_changed = true;
        for process in self.processes.clone() {
            // A thousand of them take their time.
            self.keep_alive();
            if process.has_ended() {
                continue;
            }
            self.change_one(&process);
            self.starting.push_back(process);
            self.finish_starts(super::STARTING_MAX);
        }
        self.finish_starts(0);
    }

    fn change_one(&mut self, process: &Traced) {
        let mut session = process.session();
        let Some(session) = session.as_mut() else { return };
        let changed = match session.differs(&self.spec) {
            Ok(Differs::Nothing) => Ok(()),
            Ok(Differs::Rules | Differs::Records) => session.change(&self.spec),
            Err(error) => Err(error),
        };
        match changed {
            Ok(()) => process.selected_now(session),
            Err(error) => process.give_up(&error, &self.shared),
        }
    }

    /// Brings a session that was made by others, a parent or a command's environment, to what holds now.
    /// `age_ns`: so long it has recorded what they said.
    pub(super) fn catch_up(&mut self, session: &mut AppSession, age_ns: u64) {
        if !self.was_changed {
            return;
        }
        let changed = match session.differs(&self.spec) {
            Ok(Differs::Nothing) => return,
            Ok(Differs::Rules | Differs::Records) => session.change(&self.spec),
            Err(error) => Err(error),
        };
        {
            let mut outdated = lock(&self.found.outdated);
            outdated.processes += 1;
            outdated.longest_ns = outdated.longest_ns.max(age_ns);
        }
        match changed {
            Err(error) if !error.is_gone() => self.unreached(&error),
            _ => {}
        }
    }
}

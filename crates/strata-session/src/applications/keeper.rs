//! The keeper: finds processes, lets them in, and keeps their control pages alive. It never waits for a
//! disk, so that no process takes its tracer for dead.

mod asking;
mod change;
mod changing;
mod found;
mod heard;
mod holders;
mod invitation;
mod left;
mod outdated;
mod short;
mod unseen;
mod untracked;

use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use strata_collect::{Arrival, Keep, PumpOrder};
use strata_ring::Channel;
use strata_user::{
    ancestors, find_of_session, held_of_user, Announced, Announcements, AppSession, Application,
    Clock, Error, Findings, ProgramListener, Received, Sender as Announcer, SessionSpec, Who,
};

use asking::KeeperRequest;
pub(crate) use asking::{asking, Hearing, KeeperAsking, Now};
use changing::Changing;
pub(crate) use found::KeeperFindings;
use heard::Heard;
use holders::holders_of;
use invitation::Invitation;
use short::{WaitingForRoom, WaitingProgram};

use crate::applications::known::{Generations, KnownMemories, RecentNumbers};
use crate::applications::source::{ProcessSource, ProgramSources};
use crate::applications::traced::Traced;
use crate::report::{NotReached, Notice};
use crate::session::budget::{over_memory, BudgetShare};
use crate::session::layer::Tell;
use crate::session::lock::lock;
use crate::session::shared::Shared;
use crate::standing::slots::ChannelSlots;
use crate::standing::trust::Estate;

/// How often control pages are looked at for tracepoints that came or went.
const UPDATE_PERIOD: Duration = Duration::from_millis(100);
/// How often heartbeats are looked at, at least.
const TICK_PERIOD: Duration = Duration::from_millis(250);
/// How often heartbeats are looked at, at most.
const TICK_MIN: Duration = Duration::from_millis(10);
/// Later than this, another tracer may have declared this one dead and reused its slot.
const LAG: Duration = Duration::from_nanos(strata_abi::user::DEAD_NS / 2);
/// Processes that have announced themselves, and are tried again because the kernel tells nothing of them.
const HELD_MAX: usize = 64;
/// How often.
const HELD_PERIOD: Duration = Duration::from_millis(250);
/// Announcements that are received in one go.
const ANNOUNCEMENTS_MAX: usize = 64;
/// How often so many are received at the end: those that wait were sent before, and who goes on sending does not
/// keep us from ending. More than find room in the sockets, and wait already.
const LAST_ROUNDS: usize = 256;
/// How often /proc is searched, at most.
const SEARCH_PERIOD: Duration = Duration::from_secs(1);
/// How often /proc is searched, at least.
const SEARCH_PERIOD_MAX: Duration = Duration::from_secs(10);
/// A search may take this part of the time. Most programs announce themselves, and each session of the machine searches.
const SEARCH_SHARE: u32 = 200;
/// A child says that it began at most so long after its fork, unless it does not get to run \[ns\].
const FORK_NS: u64 = 1_000_000_000;
/// How long to try a process whose memory somebody has locked: another tracer, or itself.
const LOCK_PATIENCE: Duration = Duration::from_millis(300);
/// How long to wait for memory that the pump is to give back, which looks each 20 ms if it has a CPU.
const LET_GO_PATIENCE: Duration = Duration::from_secs(2);
/// How often to try it.
const LOCK_PERIOD: Duration = Duration::from_millis(5);
/// Processes whose code is written while the next ones are started.
const STARTING_MAX: usize = 2;
/// Processes with another name than they say, of which that is told; each trace's metadata tell it.
const RENAMED_MAX: usize = 20;

/// What became of a descendant of the command that nobody told of the session.
const DISINHERITED: &str =
    "it did not get STRATA_SESSION with its environment (env -i, sudo and su \
                            clear it)";
/// What becomes of those who are not listened to.
const FOUND_BY_SEARCH: &str =
    "new processes are found by searching, up to some seconds after their start";
/// What can be done about it.
const KEEP: &str = "Let it keep that variable, as `sudo --preserve-env=STRATA_SESSION` does";

/// Programs that have ended are told of, at most so many at once: where nobody asks, they stay.
const ENDS_MAX: usize = 1024;

/// Which processes are recorded.
#[derive(Debug)]
pub(crate) enum ProcessTarget {
    /// Those that inherited this session generation, and whose announcements come here.
    Command {
        /// Of the environment.
        generation: u64,
        /// The command itself.
        pid: u32,
        /// Where they announce themselves; `None` after the last one has ended.
        announcements: Option<Announcements>,
    },
    /// These, and what they fork.
    Processes(Vec<u32>),
    /// All that this user can trace.
    Everyone,
}

/// The keeper's state.
pub(crate) struct Keeper {
    target: ProcessTarget,
    listener: Option<ProgramListener>,
    heard: Heard<Comer>,
    spec: Arc<SessionSpec>,
    clock: Arc<Clock>,
    shared: Arc<Shared>,
    sources: Arc<ProgramSources>,
    orders: Option<Sender<PumpOrder<ProcessSource>>>,
    processes: Vec<Arc<Traced>>,
    /// Those whose memory somebody has locked, and since when.
    locked: VecDeque<Locked>,
    next_unlock: Instant,
    /// Those that were started and whose code is being written.
    starting: VecDeque<Arc<Traced>>,
    /// Those that have announced themselves, and of which the kernel tells nothing for now.
    held: Vec<Comer>,
    next_held: Instant,
    /// Processes of which was told that they call themselves otherwise.
    renamed: usize,
    /// That only some users are listened to.
    told_only_known: bool,
    /// memfds that were looked at.
    known: KnownMemories,
    /// Sessions that processes may have inherited.
    generations: Generations,
    /// What processes are asked for that begin now.
    invitation: Invitation,
    /// Before the command was started, `CLOCK_MONOTONIC` \[ns\].
    begun_ns: u64,
    /// memfds of processes that have nothing to do with our command.
    strangers: RecentNumbers,
    found: Arc<KeeperFindings>,
    plain_too: bool,
    hearing: Hearing,
    /// Who waits until all that have announced themselves are let in.
    await_arrivals: Vec<KeeperRequest>,
    changing: Changing,
    /// Programs of the session that was killed before this one, as its trustee holds them.
    estates: Vec<Estate>,
    short: WaitingForRoom,
    /// When those were let in who were to be, `CLOCK_MONOTONIC` \[ns\]; 0: not yet.
    ready_ns: u64,
    /// Programs that have ended are held.
    holds: bool,
    next_tick: Instant,
    next_update: Instant,
    next_search: Instant,
}

/// What a keeper works with.
pub(crate) struct KeeperParts {
    pub(crate) target: ProcessTarget,
    pub(crate) listener: Option<ProgramListener>,
    pub(crate) spec: Arc<SessionSpec>,
    pub(crate) clock: Arc<Clock>,
    /// Before the command was started, `CLOCK_MONOTONIC` \[ns\].
    pub(crate) begun_ns: u64,
    pub(crate) sources: Arc<ProgramSources>,
    pub(crate) orders: Sender<PumpOrder<ProcessSource>>,
    pub(crate) found: Arc<KeeperFindings>,
    /// Who was asked for, and has no tracepoints, is recorded by another layer.
    pub(crate) plain_too: bool,
    pub(crate) hearing: Hearing,
}

/// A process whose memory somebody has locked.
struct Locked {
    application: Application,
    came: Came,
    ours: bool,
    since: Instant,
}

/// A process that has announced itself, and what was seen of it then.
struct Comer {
    announced: Announced,
    came: Came,
    /// Its parent, its parent's, and so on, where a command is recorded and it was not invited.
    parents: Vec<u32>,
    /// It still had its number after they were read.
    was_of_it: bool,
}

/// How a process came to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    /// It was asked for, or is the command's by its word: it has the socket.
    Invited,
    /// It is recorded if it is ours.
    ByItself,
}

impl Keeper {
    pub(crate) fn new(parts: KeeperParts) -> Keeper {
        let now = Instant::now();
        let holds = parts.sources.context.keep == Keep::Hold;
        let mut generations = Generations::default();
        if let ProcessTarget::Command { generation, .. } = &parts.target {
            generations.insert(*generation, 0, |_| false);
        }
        let slots = parts.sources.context.slots.as_ref();
        let left = slots.into_iter().flat_map(ChannelSlots::left);
        let left: HashSet<u64> = left.map(|slot| slot.generation).collect();
        left.iter().for_each(|one| generations.insert(*one, 0, |_| true));
        let changing = Changing::after(left);
        let estates = slots.map(ChannelSlots::estates).unwrap_or_default();
        Keeper {
            target: parts.target,
            listener: parts.listener,
            heard: Heard::new(),
            spec: parts.spec,
            clock: parts.clock,
            shared: Arc::clone(parts.sources.voice.shared()),
            sources: parts.sources,
            orders: Some(parts.orders),
            processes: Vec::new(),
            locked: VecDeque::new(),
            next_unlock: now,
            starting: VecDeque::new(),
            held: Vec::new(),
            next_held: now,
            renamed: 0,
            told_only_known: false,
            known: KnownMemories::default(),
            generations,
            invitation: Invitation::default(),
            begun_ns: parts.begun_ns,
            strangers: RecentNumbers::default(),
            found: parts.found,
            plain_too: parts.plain_too,
            hearing: parts.hearing,
            await_arrivals: Vec::new(),
            changing,
            estates,
            short: WaitingForRoom::default(),
            ready_ns: 0,
            holds,
            next_tick: now,
            next_update: now,
            next_search: now + SEARCH_PERIOD,
        }
    }

    /// Let in who is there already, unless `tell` breaks, which hears how far it is.
    pub(crate) fn begin(&mut self, tell: &mut Tell<'_>) {
        // First: new programs shall not have the memory that is for them.
        self.take_estates(false);
        match &self.target {
            ProcessTarget::Command { .. } => {}
            ProcessTarget::Processes(_) => self.search(true, tell),
            // Before the search: who begins meanwhile makes the session by itself.
            ProcessTarget::Everyone => {
                self.invite();
                self.search(true, tell);
            }
        }
        self.take_estates(false);
        self.tell_left();
        // For all together: what is recorded from the begin is told at the begin.
        let end = Instant::now() + LOCK_PATIENCE;
        let total = self.locked.len() as u64;
        while let Some(one) = self.locked.front().filter(|_| Instant::now() < end) {
            let (pid, left) = (one.application.pid(), self.locked.len() as u64);
            if tell(Notice::Admitting { pid, admitted: total.saturating_sub(left), total })
                .is_break()
            {
                break;
            }
            std::thread::sleep(LOCK_PERIOD);
            self.try_locked(false);
            self.look_after();
        }
        self.ready_ns = Clock::monotonic_ns();
    }

    /// Until the session stops, and then until the pump has taken everything.
    pub(crate) fn run(&mut self) {
        while !self.shared.is_stopping() {
            self.wait();
            self.receive_and_tell(1);
            self.try_locked(false);
            self.try_short();
            self.look_after();
            if Instant::now() >= self.next_search {
                // What is left of it is found at the end.
                let shared = Arc::clone(&self.shared);
                self.search(false, &mut |_| match shared.is_stopping() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                });
                self.take_estates(false);
            }
            if !self.held.is_empty() && Instant::now() >= self.next_held {
                self.try_held();
            }
            self.shared.set_nobody_left(self.nobody_left());
        }
        self.stop();
        while !self.shared.is_moved() {
            std::thread::sleep(Duration::from_millis(5));
            self.look_after();
        }
        self.find_holders();
    }

    /// Who still holds the command's end of the socket has outlived the command, whether it was ever
    /// recorded or not.
    fn find_holders(&mut self) {
        let ProcessTarget::Command { announcements, .. } = &mut self.target else { return };
        let Some(mut socket) = announcements.take() else { return };
        *lock(&self.found.holders) = holders_of(&mut socket);
    }

    /// Let in who came at the last moment, and switch everything off.
    fn stop(&mut self) {
        self.hear_the_last();
        if !self.shared.has_failed() {
            self.search(false, &mut |_| ControlFlow::Continue(()));
            self.take_estates(true);
        }
        self.hear_the_slow();
        self.try_locked(true);
        for process in self.processes.clone() {
            // A thousand of them take their time, and those that are still on want to know that we live.
            self.look_after();
            if let Some(session) = process.session().as_mut() {
                if let Err(error) = session.stop() {
                    if !error.is_gone() {
                        process.warn(error.to_string());
                    }
                }
                process.update(session, &self.shared);
            }
        }
        // The pump learns by it that nobody else will come.
        self.orders = None;
    }

    /// Until something is due, or an announcement comes.
    fn wait(&self) {
        let mut until = self.next_tick.min(self.next_update).min(self.next_search);
        if !self.locked.is_empty() {
            until = until.min(self.next_unlock);
        }
        until = until.min(self.changing.due().unwrap_or(until));
        if !self.await_arrivals.is_empty() || !self.heard.is_empty() {
            return;
        }
        let timeout = until.saturating_duration_since(Instant::now()).min(UPDATE_PERIOD);
        let announcements = match &self.target {
            ProcessTarget::Command { announcements, .. } => announcements.as_ref().map(AsFd::as_fd),
            _ => None,
        };
        let sources = [announcements, self.listener.as_ref().map(AsFd::as_fd)];
        let mut fds: Vec<PollFd<'_>> = sources
            .into_iter()
            .flatten()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        fds.push(PollFd::from_borrowed_fd(self.shared.wake(), PollFlags::IN));
        fds.push(PollFd::from_borrowed_fd(self.hearing.wake(), PollFlags::IN));
        if let Ok(timeout) = Timespec::try_from(timeout) {
            // An error, such as a signal, only makes the wait shorter.
            let _ = poll(&mut fds, Some(&timeout));
        }
    }

    /// What is asked, and what keeps processes alive.
    fn look_after(&mut self) {
        self.listen();
        self.obey();
        self.keep_alive();
        self.go_on_changing();
    }

    /// Heartbeats, clock, ends, and new tracepoints, if they are due.
    fn keep_alive(&mut self) {
        let now = Instant::now();
        let update = now >= self.next_update;
        if now < self.next_tick && !update {
            return;
        }
        // Late by so much: a debugger, Ctrl-Z, or a machine that was suspended.
        if now.saturating_duration_since(self.next_tick) > LAG {
            self.shared.set_lagged();
        }
        self.next_tick = now + TICK_PERIOD;
        for process in &self.processes {
            let mut session = process.session();
            let Some(session) = session.as_mut() else { continue };
            match session.tick(&self.clock) {
                Ok(time) => self.next_tick = self.next_tick.min(time),
                Err(error) => process.give_up(&error, &self.shared),
            }
            if update && !process.has_ended() {
                process.update(session, &self.shared);
                if !process.application().is_alive() {
                    process.end();
                }
            }
        }
        for process in self.processes.iter().filter(|one| one.has_ended()) {
            if let Some(ended) = process.take_end() {
                let mut ends = lock(&self.found.ends);
                if ends.len() < ENDS_MAX {
                    ends.push(ended);
                }
            }
        }
        // A thousand processes that are due at a thousand moments are looked at together. Who calls this between
        // any two of them gets as much time for its own work, however long looking takes.
        let (done, taken) = (Instant::now(), now.elapsed());
        self.next_tick = self.next_tick.max(done + TICK_MIN.max(taken));
        if update {
            self.next_update = done + UPDATE_PERIOD.max(taken);
        }
        let (known, slots) = (&mut self.known, self.sources.context.slots.as_ref());
        self.processes.retain(|process| {
            let is_finished = process.is_finished();
            if let Some(slots) = slots.filter(|_| is_finished) {
                slots.let_go(process.application().inode());
            }
            // Of a process that goes on in another session nothing has ended.
            if is_finished && !process.is_replaced() {
                known.end(process.application().inode());
            }
            !is_finished
        });
    }

    /// Have all processes ended that this session was to record?
    fn nobody_left(&self) -> bool {
        match &self.target {
            ProcessTarget::Processes(_) => self.processes.iter().all(|process| process.has_ended()),
            _ => false,
        }
    }

    /// Those who have announced themselves, some in each round: the others must not wait for their heartbeat.
    fn receive(&mut self, rounds: usize) {
        self.receive_by(rounds, &[Keeper::receive_invited, Keeper::receive_others]);
    }

    /// The same by these sockets.
    fn receive_by(&mut self, rounds: usize, sockets: &[fn(&mut Self, &mut Vec<Comer>) -> bool]) {
        for _ in 0..rounds {
            let (mut comers, mut more) = (Vec::new(), false);
            sockets.iter().for_each(|receive| more |= receive(self, &mut comers));
            self.announced(comers);
            if !more {
                break;
            }
        }
        self.tell_silenced();
    }

    /// Of the command. True: there may be more of them.
    fn receive_invited(&mut self, comers: &mut Vec<Comer>) -> bool {
        for _ in 0..ANNOUNCEMENTS_MAX {
            let ProcessTarget::Command { announcements: Some(socket), .. } = &mut self.target
            else {
                return false;
            };
            match socket.receive() {
                Ok(Received::Process { fd, sender, .. }) => {
                    comers.extend(self.comer(fd, sender, Came::Invited));
                }
                Ok(Received::Nothing) => return false,
                Ok(Received::End) => self.close_socket(),
                Err(error) => {
                    self.unreached(&error);
                    return false;
                }
            }
        }
        true
    }

    /// Say of whom no announcements are taken any more.
    fn tell_silenced(&mut self) {
        let only_known = self.listener.as_ref().is_some_and(ProgramListener::only_known);
        if only_known && !std::mem::replace(&mut self.told_only_known, true) {
            lock(&self.found.remarks).push(format!(
                "announcements: too many users have sent what were none. Only users in /etc/passwd, and those \
                 whose processes had announced themselves, are listened to; {FOUND_BY_SEARCH}"
            ));
        }
        let silenced = self.listener.as_mut().map(ProgramListener::silenced).unwrap_or_default();
        for uid in silenced {
            lock(&self.found.remarks).push(format!(
                "announcements: user {uid}: its processes have sent too many messages that were none. They \
                 are no longer listened to; {FOUND_BY_SEARCH}"
            ));
        }
    }

    /// The command and all its descendants have ended, or closed their end.
    fn close_socket(&mut self) {
        if let ProcessTarget::Command { announcements, .. } = &mut self.target {
            *announcements = None;
        }
    }

    /// Who has just announced itself, unless it is known.
    fn comer(&self, fd: OwnedFd, sender: Announcer, came: Came) -> Option<Comer> {
        // Most announce themselves twice: to who started them, and to all who listen.
        let inode = rustix::fs::fstat(&fd).map_or(0, |stat| stat.st_ino);
        if self.known.contains(inode) || self.is_passed_over(&fd, &sender) {
            return None;
        }
        // Only of them it matters who has started them.
        let (mut parents, mut was_of_it) = (Vec::new(), false);
        if came == Came::ByItself && self.is_of_command() {
            // At once: when a process has gone, its parent cannot be asked for.
            parents = ancestors(sender.pid()).collect();
            // What was read by a number that is no longer its own was of nobody.
            was_of_it = sender.has_its_number();
        }
        let announced = Announced { fd: Arc::new(fd), sender };
        Some(Comer { announced, came, parents, was_of_it })
    }

    /// Let them in.
    fn announced(&mut self, comers: Vec<Comer>) {
        if comers.is_empty() {
            return;
        }
        let all = comers.iter().map(|comer| comer.announced.clone()).collect();
        let found = Application::all_announced(all, &mut || self.look_after());
        for (comer, application) in comers.into_iter().zip(found) {
            self.arrived(comer, application);
        }
        self.finish_starts(0);
    }

    fn arrived(&mut self, comer: Comer, application: Result<Application, Error>) {
        let Comer { came, was_of_it, ref parents, .. } = comer;
        let pid = comer.announced.sender.pid();
        let is_one = |pid: &u32| self.is_one_of_ours(*pid);
        let descends = came == Came::Invited || is_one(&pid) || parents.iter().any(is_one);
        let ours = came == Came::Invited || (descends && was_of_it);
        let unseen = parents.is_empty() || !was_of_it;
        let unknown = !ours && self.is_of_command() && unseen;
        match application {
            Ok(application) if unknown && self.inherited(&application).is_none() => {
                self.tell_unseen(&application);
            }
            Ok(application) => {
                self.admit(&application, came, ours);
                self.tell_gone(&application);
            }
            Err(error) => {
                if ours {
                    self.unreached(&error);
                }
                // Said once; it has told us where its memory is, and may go on.
                if error.is_held() && self.held.len() < HELD_MAX {
                    self.held.push(comer);
                }
            }
        }
    }

    /// Those again for whom the kernel did not answer.
    fn try_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.announced(held);
        self.next_held = Instant::now() + HELD_PERIOD;
    }

    /// Look through /proc: `first`, for everything that is asked for; later, for what could not announce
    /// itself.
    fn search(&mut self, first: bool, tell: &mut Tell<'_>) {
        let begin = Instant::now();
        let own = rustix::process::geteuid().as_raw();
        let everyone = if own == 0 { Who::Everyone } else { Who::User(own) };
        let who = match &self.target {
            ProcessTarget::Processes(pids) if first => Who::Processes(pids.clone()),
            _ => everyone,
        };
        let session = match &self.target {
            ProcessTarget::Command { generation, .. } => Some(*generation),
            _ => None,
        };
        let mut waited = Duration::ZERO;
        let each = &mut |looked: usize, total: usize| {
            self.look_after();
            tell(Notice::Searching { looked: looked as u64, total: total as u64 })
        };
        match find_of_session(&who, session, each) {
            Ok(findings) => {
                waited = findings.waited;
                self.found(findings, first, tell);
            }
            Err(error) => self.unreached(&error),
        }
        self.look_who_is_tracked();
        let now = Instant::now();
        let worked = (now - begin).saturating_sub(waited);
        // On a busy machine it takes long because others have the CPU: programs are not to wait for that.
        let pause = (worked * SEARCH_SHARE).clamp(SEARCH_PERIOD, SEARCH_PERIOD_MAX);
        self.next_search = now + pause;
    }

    fn found(&mut self, findings: Findings, first: bool, tell: &mut Tell<'_>) {
        let asked_for = first || matches!(self.target, ProcessTarget::Everyone);
        let came = if asked_for { Came::Invited } else { Came::ByItself };
        self.look_who_has_left(&findings);
        let total = findings.applications.len() as u64;
        for (admitted, application) in findings.applications.iter().enumerate() {
            let inode = application.inode();
            if self.known.contains(inode) || self.strangers.contains(inode) {
                continue;
            }
            let (pid, admitted) = (application.pid(), admitted as u64);
            if tell(Notice::Admitting { pid, admitted, total }).is_break() {
                self.finish_starts(0);
                return;
            }
            let ours = asked_for || self.is_descendant(application.pid());
            self.admit(application, came, ours);
        }
        self.finish_starts(0);
        for refused in findings.refused {
            let is_ours =
                findings.of_session.contains(&refused.pid) || self.is_descendant(refused.pid);
            if asked_for || is_ours {
                self.not_reached(refused.pid, refused.name, refused.reason);
            }
        }
        // In a search of everybody, who has no tracepoints is not asked for, and who has just ended is no
        // news.
        let named = first && matches!(self.target, ProcessTarget::Processes(_));
        for error in &findings.errors {
            // Who just starts announces itself, or is found by the next search.
            if (error.is_gone() || matches!(error, Error::NotReady { .. })) && !named {
                continue;
            }
            match error.pid().filter(|_| !asked_for) {
                None => self.unreached(error),
                Some(pid) if !(findings.of_session.contains(&pid) || self.is_descendant(pid)) => {}
                Some(pid) if error.is_denied() => self.hide(pid, error.to_string()),
                Some(_) => self.unreached(error),
            }
        }
    }

    fn is_of_command(&self) -> bool {
        matches!(self.target, ProcessTarget::Command { .. })
    }

    /// A session of ours that the process has got from its parent, or with its environment.
    fn inherited(&self, application: &Application) -> Option<u64> {
        let mut generations = application.session_generations().into_iter();
        generations.find(|generation| self.generations.contains(*generation))
    }

    /// Why a process that was to have a session of ours could not make one.
    fn not_armed(&self, application: &Application) -> Option<Error> {
        application.failed_sessions().into_iter().find_map(|(generation, code)| {
            let pid = application.pid();
            self.generations.contains(generation).then_some(Error::NoBuffers { pid, code })
        })
    }

    /// Of a process that may not be looked into nobody knows whether it is one that is asked for.
    fn hide(&self, pid: u32, reason: String) {
        lock(&self.found.hidden).add_first(NotReached { pid, name: String::new(), reason });
    }

    /// By its parents: the command, or another process of ours, is among them.
    fn is_descendant(&self, pid: u32) -> bool {
        let is_one = |pid| self.is_one_of_ours(pid);
        self.is_of_command() && (is_one(pid) || ancestors(pid).any(is_one))
    }

    /// The command, or another process that is recorded with it.
    fn is_one_of_ours(&self, pid: u32) -> bool {
        let ProcessTarget::Command { pid: command, .. } = &self.target else { return false };
        let mut processes = self.processes.iter();
        let is_it = |process: &Arc<Traced>| process.application().pid() == pid;
        pid == *command || processes.any(|process| is_it(process) && !process.has_ended())
    }

    /// Record `application`, if it carries a session of ours or is `ours` otherwise.
    fn admit(&mut self, application: &Application, came: Came, ours: bool) {
        // A process may make us wait for its lock.
        self.look_after();
        let inode = application.inode();
        let waits = self.locked.iter().any(|one| one.application.inode() == inode);
        if self.known.contains(inode) || waits {
            return;
        }
        self.admit_since(application, came, ours, None);
    }

    /// The same; `since`: so long its memory has been locked.
    fn admit_since(
        &mut self,
        application: &Application,
        came: Came,
        ours: bool,
        since: Option<Instant>,
    ) {
        let inherited = self.inherited(application);
        // It has told why it has no session; what comes from now on can still be recorded.
        let told = self.not_armed(application);
        if let (None, Some(error)) = (inherited, &told) {
            self.unreached(error);
        }
        let is_ours = ours || told.is_some();
        let is_tracked = self.is_tracked(application);
        // A search finds it again, should it be tracked some day.
        if inherited.is_none() && !is_tracked && matches!(self.target, ProcessTarget::Everyone) {
            return;
        }
        let spec = self.spec_if(is_tracked);
        let session = match inherited {
            Some(generation) => {
                match AppSession::adopt(application, generation, &spec, &self.clock) {
                    Err(Error::NotArmed { .. }) if is_ours => {
                        AppSession::start_soon(application, &spec, &self.clock)
                    }
                    other => other,
                }
            }
            None if is_ours => AppSession::start_soon(application, &spec, &self.clock),
            None => {
                self.strangers.insert(application.inode());
                return;
            }
        };
        let session = match session {
            // Nobody else waits for it: one may hold its own for ever, and so may a thousand.
            Err(Error::Locked { pid, .. }) => {
                let since = since.unwrap_or_else(Instant::now);
                if since.elapsed() < LOCK_PATIENCE {
                    let application = application.clone();
                    self.locked.push_back(Locked { application, came, ours, since });
                    return;
                }
                let waited_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                Err(Error::Locked { pid, waited_ms })
            }
            other => other,
        };
        // Found by a search, and gone since: it may still have announced itself.
        if !session.as_ref().is_err_and(Error::is_gone) {
            self.known.end(application.inode());
        }
        let uninvited = came == Came::ByItself && inherited.is_none() && told.is_none();
        match session {
            Ok(session) => self.adopted(session, uninvited),
            Err(error) if error.is_gone() && uninvited => {
                let (pid, name) = (application.pid(), application.name().to_owned());
                self.not_reached(pid, name, format!("{DISINHERITED}, and it has ended. {KEEP}"));
            }
            // What has just ended in a search is no news.
            Err(error) if error.is_gone() => {}
            Err(error) => self.unreached(&error),
        }
    }

    /// Try those again whose memory was locked, if it is time; `last`: now, and never again.
    fn try_locked(&mut self, last: bool) {
        let now = Instant::now();
        if !last && now < self.next_unlock {
            return;
        }
        self.next_unlock = now + LOCK_PERIOD;
        for one in std::mem::take(&mut self.locked) {
            self.look_after();
            let since = match last {
                // Whoever holds it has had its time.
                true => now.checked_sub(LOCK_PATIENCE).unwrap_or(one.since).min(one.since),
                false => one.since,
            };
            self.admit_since(&one.application, one.came, one.ours, Some(since));
            self.tell_gone(&one.application);
        }
        self.finish_starts(0);
    }

    fn adopted(&mut self, mut session: AppSession, uninvited: bool) {
        let (now, begun) = (Clock::monotonic_ns(), session.application().started_ns());
        let until = self.generations.until(session.generation());
        match until {
            None => self.remember(session.generation(), now.saturating_add(FORK_NS)),
            Some(until) if begun < until => {
                let spec = self.spec_of(session.application());
                match session.complete(&spec) {
                    Err(error) if !error.is_gone() => self.unreached(&error),
                    _ => {}
                }
            }
            Some(_) => {}
        }
        let Some(channel) = session.take_channel() else { return };
        let Some(memory) = self.memory_for(channel.mapped_bytes()) else {
            self.without_memory(session, channel.mapped_bytes());
            return;
        };
        let age = now.saturating_sub(begun);
        let is_outdated = self.catch_up(&mut session, age);
        let changes = lock(&self.sources.book).changes();
        let traced = self.hand_to_pump(session, changes, (channel, memory), false);
        self.tell_name(traced.application());
        // Who has inherited a session has recorded since it began.
        if until.is_none() {
            self.found.tell_if_late(&traced, self.ready_ns, now);
        }
        if uninvited {
            let age = Duration::from_nanos(age).as_secs_f64() * 1e3;
            traced
                .warn(format!("{DISINHERITED}: recorded from {age:.1} ms after its start. {KEEP}"));
        }
        self.known.begin(traced.application().inode());
        self.shared.process_came();
        if is_outdated {
            self.replace_soon(&traced);
        }
        self.finish_starts(STARTING_MAX);
    }

    /// From now on its packets are taken; `changes`: see [`Traced::changes`]. `is_part`: another one has its place.
    fn hand_to_pump(
        &mut self,
        session: AppSession,
        changes: u64,
        (channel, memory): (Channel, BudgetShare),
        is_part: bool,
    ) -> Arc<Traced> {
        if let Some(slots) = &self.sources.context.slots {
            slots.hold(session.generation(), session.application());
        }
        let format = session.format();
        let is_of_before = self.changing.is_of_before(session.generation());
        let traced = Arc::new(Traced::new(session, changes));
        if is_part {
            traced.replace();
        }
        self.processes.push(Arc::clone(&traced));
        self.starting.push_back(Arc::clone(&traced));
        if let Some(orders) = &self.orders {
            let traced = Arc::clone(&traced);
            let streams = channel.nr_streams();
            let channel_of = (format, streams, memory);
            let source = ProcessSource::new(&self.sources, traced, channel_of, self.begun_ns);
            match source {
                // Without a pump the session is failing, and says why.
                Ok(source) => {
                    let source = if is_of_before { source.of_before() } else { source };
                    drop(orders.send(PumpOrder::Take(Arrival { source, channel })));
                }
                Err(error) => {
                    self.shared.fail(format!("getrandom(): a number for the trace: {error}"));
                }
            }
        }
        traced
    }

    /// A part of the session's memory. Where too little is left, programs that have ended and are only held are let go
    /// of, which the pump does at its next look.
    fn memory_for(&mut self, bytes: u64) -> Option<BudgetShare> {
        let budget = Arc::clone(self.shared.memory());
        let end = Instant::now() + LET_GO_PATIENCE;
        let mut share = budget.take(bytes);
        let is_over = |one: &Arc<Traced>| one.has_ended() || !one.application().is_alive();
        // Of those that run nothing comes.
        let may_come = |keeper: &Keeper| keeper.holds && keeper.processes.iter().any(is_over);
        while share.is_none() && budget.is_short() && may_come(self) && Instant::now() < end {
            std::thread::sleep(LOCK_PERIOD);
            self.look_after();
            share = budget.take(bytes);
        }
        budget.give_up();
        share
    }

    /// There is no memory for its buffers of so many bytes: that is said, and it waits.
    fn without_memory(&mut self, session: AppSession, bytes: u64) {
        let application = session.application().clone();
        let (pid, name) = (application.pid(), application.name().to_owned());
        let reason = over_memory(bytes, self.shared.memory().now());
        if let Some(error) = session.release_at_once().err().filter(|error| !error.is_gone()) {
            self.unreached(&error);
        }
        let (inode, said) = (application.inode(), NotReached { pid, name, reason });
        lock(&self.found.not_reached).add(said.clone());
        if !self.short.push(WaitingProgram { application, said, bytes }) {
            self.strangers.insert(inode);
        }
    }

    /// Lets those in who waited for memory, as far as there is some now.
    fn try_short(&mut self) {
        let budget = Arc::clone(self.shared.memory());
        for _ in 0..self.short.len() {
            let next = self.short.next(|bytes| budget.has(bytes));
            let Some(WaitingProgram { application, said, .. }) = next else { return };
            self.look_after();
            // It is said again if it finds none. That it is to be recorded was found the first time.
            lock(&self.found.not_reached).forget(&said);
            self.admit_since(&application, Came::Invited, true, None);
            self.say_again(&application, said);
        }
        self.finish_starts(0);
    }

    /// Wait for the code of those that were started, but for so many of them.
    fn finish_starts(&mut self, but: usize) {
        while self.starting.len() > but {
            let Some(traced) = self.starting.pop_front() else { return };
            let mut session = traced.session();
            if let Some(session) = session.as_mut() {
                session.finish_change();
            }
        }
    }

    /// Say that a process has another name than it says. Programs are renamed for good reasons, too.
    fn tell_name(&mut self, application: &Application) {
        let (name, said) = (application.name(), application.said_name());
        if name == said || self.renamed >= RENAMED_MAX {
            return;
        }
        self.renamed += 1;
        lock(&self.found.remarks).push(format!(
            "{name} ({}): it calls itself '{said}'; it is recorded under the name that the kernel knows",
            application.pid()
        ));
    }

    /// A session that children of its process may inherit.
    fn remember(&mut self, generation: u64, until_ns: u64) {
        let command = match &self.target {
            ProcessTarget::Command { generation, .. } => Some(*generation),
            _ => None,
        };
        let (processes, invited) = (&self.processes, self.invitation.generation());
        self.generations.insert(generation, until_ns, |one| {
            command == Some(one)
                || invited == Some(one)
                || processes.iter().any(|process| process.generation() == one)
        });
    }

    fn unreached(&mut self, error: &Error) {
        match error {
            Error::NotInstrumented { .. } if self.plain_too => {}
            // As a search tells it.
            Error::Refused { pid, name, reason } => {
                self.not_reached(*pid, name.clone(), reason.clone());
            }
            // Once for all of them.
            Error::UserHeld { uid, .. } => {
                let name = format!("processes of user {uid}");
                self.not_reached(0, name, held_of_user(*uid));
            }
            error => {
                self.not_reached(error.pid().unwrap_or(0), String::new(), error.to_string());
            }
        }
    }

    /// Say it once.
    fn not_reached(&self, pid: u32, name: String, reason: String) {
        lock(&self.found.not_reached).add(NotReached { pid, name, reason });
    }
}

#[cfg(test)]
mod tests;

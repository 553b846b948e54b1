//! The process registry: finds processes, admits them, and keeps their control pages alive. It never waits for a disk:
//! if it did, processes could take their tracer for dead.
//!
//! A process comes to the registry in one of three ways, and leaves it when it has ended and all its packets are written:
//!
//! ```text
//! announcement ─ receive_and_tell() ─ announced() ─┐
//! search of /proc ──────── search() ─── found() ───┼─ admit() ─ hand_to_pump() ─▶ the pump's thread
//! killed session's memory ─ take_stored() ────────┘      │
//!                                                         ├─ locked:     another tracer has it; try_locked() retries
//!                                                         ├─ short:      no memory for its buffers; try_short() retries
//!                                                         └─ not tracked, not ours: reported once, and forgotten
//! ```
//!
//! A program that begins finds a socket and announces itself; `invitation.rs` leaves a request beside that socket by
//! which it makes its session at once, so that not even its first event is missing. What cannot announce itself (it was
//! running already, it lives in another root folder) is found by a search, a second or more later, and counts as late.
//!
//! # Threads
//! One thread owns the [`Registry`] and calls [`Registry::run`]: a loop that waits for an announcement, a request
//! (`requests.rs`) or the next due time, whichever comes first. Whatever may take long (a lock that a process holds, the
//! code that is written into it) calls `look_after()` in between, since a heartbeat that is half of
//! [`strata_abi::user::DEAD_NS`] late lets another tracer take over the slots. Each admitted process is a [`Traced`],
//! which the pump shares; the registry only switches its tracepoints, and the pump takes its packets.
//!
//! Questions about a process that its user could delay are asked by `strata_user::ask_each` in threads that can be left
//! behind. Which user may cost the registry what is in docs/design/threats.md, the invariants in docs/design/user.md.

mod announced_queue;
mod arrival;
mod change_progress;
mod descendants;
mod findings;
mod invitation;
mod memory_queue;
mod memory_refusals;
mod named_processes;
mod outdated_rules;
mod pending_memory;
mod requests;
mod rule_change;
mod session_takeover;
mod short_lived;
mod skip_untracked;
mod socket_holders;
mod unreached_descendants;

use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use strata_collect::{Arrival, Keep, PumpOrder};
use strata_model::TimeSource;
use strata_ring::Channel;
use strata_user::{
    find_of_session, held_of_user, Announced, Announcements, AppSession, Application, Clock, Error,
    Findings, ProgramListener, Received, SessionSpec, Who,
};

use announced_queue::Heard;
use arrival::Came;
use change_progress::Changing;
pub(crate) use findings::RegistryFindings;
use invitation::Invitation;
use memory_queue::{WaitingForRoom, WaitingProgram};
use named_processes::Family;
use pending_memory::ExpectedProcesses;
use requests::RegistryRequest;
pub(crate) use requests::{asking, Hearing, Now, RegistryAsking};
use socket_holders::holders_of;

use crate::applications::known_processes::{Generations, KnownMemories, RecentNumbers};
use crate::applications::source::{ProcessSource, ProgramSources};
use crate::applications::traced_process::Traced;
use crate::daemon::fdstore::StoredProgram;
use crate::daemon::slot_file::ChannelSlots;
use crate::report::{NotReached, Notice};
use crate::session::budget::{over_memory, BudgetShare};
use crate::session::layer::Tell;
use crate::session::lock::lock;
use crate::session::shared_state::Shared;

/// The period of checking control pages for tracepoints that were added or removed.
const UPDATE_PERIOD: Duration = Duration::from_millis(100);
/// The longest period of heartbeats.
const TICK_PERIOD: Duration = Duration::from_millis(250);
/// The shortest period of heartbeats.
const TICK_MIN: Duration = Duration::from_millis(10);
/// Limit on the delay of a heartbeat. After a longer delay, another tracer may have declared this one dead and reused
/// its slot.
const LAG: Duration = Duration::from_nanos(strata_abi::user::DEAD_NS / 2);
/// The most announced processes that are kept for a retry because the kernel gives no answer about them.
const HELD_MAX: usize = 64;
/// The period of retrying processes for which the kernel did not answer.
const HELD_PERIOD: Duration = Duration::from_millis(250);
/// The most announcements that are received in one round.
const ANNOUNCEMENTS_MAX: usize = 64;
/// The most rounds of receiving at the end. All announcements that can wait in the sockets fit in them, and a process
/// that goes on sending cannot delay the end.
const LAST_ROUNDS: usize = 256;
/// The shortest period of searching /proc.
const SEARCH_PERIOD: Duration = Duration::from_secs(1);
/// The longest period of searching /proc.
const SEARCH_PERIOD_MAX: Duration = Duration::from_secs(10);
/// Limits searches of /proc: the pause after a search is this many times as long as the search.
const SEARCH_SHARE: u32 = 200;
/// The longest time from a fork until the child announces itself, if the child gets a CPU \[ns\].
const FORK_NS: u64 = 1_000_000_000;
/// The longest time of retrying a process whose memory is locked by another tracer or by itself.
const LOCK_PATIENCE: Duration = Duration::from_millis(300);
/// The longest wait for memory that the pump is about to release. The pump looks every 20 ms if it has a CPU.
const LET_GO_PATIENCE: Duration = Duration::from_secs(2);
/// The period of retrying processes with locked memory.
const LOCK_PERIOD: Duration = Duration::from_millis(5);
/// The most started processes whose tracepoint code may be incomplete when the next processes are started.
const STARTING_MAX: usize = 2;
/// The most processes for which the registry reports that their name has changed. Each trace's metadata have the name
/// in any case.
const RENAMED_MAX: usize = 20;

/// The remark for machines on which processes cannot announce themselves.
const FOUND_BY_SEARCH: &str =
    "new processes are found by searching, up to some seconds after their start";
/// The most ended programs that are kept for a report until a client asks for them.
const ENDS_MAX: usize = 1024;

/// The choice of processes that the registry records.
#[derive(Debug)]
pub(crate) enum ProcessTarget {
    /// Processes that inherited this session's generation and announce themselves on its socket.
    Command {
        /// The session's generation, as the environment of the command has it.
        generation: u64,
        /// The process id of the command.
        pid: u32,
        /// The socket for announcements; `None` after the last process has ended.
        announcements: Option<Announcements>,
    },
    /// These processes, and the processes that they start from now on.
    Processes(Vec<u32>),
    /// All processes that this user may trace.
    Everyone,
}

/// The state of the registry's thread.
pub(crate) struct Registry {
    target: ProcessTarget,
    listener: Option<ProgramListener>,
    heard: Heard<Comer>,
    spec: Arc<SessionSpec>,
    clock: Arc<Clock>,
    time: TimeSource,
    shared: Arc<Shared>,
    sources: Arc<ProgramSources>,
    orders: Option<Sender<PumpOrder<ProcessSource>>>,
    processes: Vec<Arc<Traced>>,
    /// Processes whose memory is locked by another recorder or by themselves.
    locked: VecDeque<Locked>,
    next_unlock: Instant,
    /// Processes that were started and whose tracepoint code is still being written.
    starting: VecDeque<Arc<Traced>>,
    /// Announced processes about which the kernel gives no answer for now.
    held: Vec<Comer>,
    next_held: Instant,
    /// Processes that announced themselves before they had created their memory.
    expected: ExpectedProcesses,
    /// Number of processes for which a changed name was reported.
    renamed: usize,
    /// True once the remark was made that only known users can announce their processes.
    told_only_known: bool,
    /// Memories of processes (memfds) that were already examined.
    known: KnownMemories,
    /// Generations of sessions that processes may have inherited.
    generations: Generations,
    /// The invitation to record that starting processes find.
    invitation: Invitation,
    /// Time at which the recording began, before the command was started \[ns of `CLOCK_MONOTONIC`\].
    begun_ns: u64,
    /// Inode numbers of the memory of processes that do not descend from our command.
    strangers: RecentNumbers,
    /// Descendants of processes that the user named by process id.
    family: Family,
    found: Arc<RegistryFindings>,
    plain_too: bool,
    hearing: Hearing,
    /// Requests that wait until all announced processes are admitted.
    await_arrivals: Vec<RegistryRequest>,
    changing: Changing,
    /// Programs of the killed session with the same name, whose memory the fdstore holds for this session.
    stored_programs: Vec<StoredProgram>,
    short: WaitingForRoom,
    /// Time when all processes present at the start had been admitted \[ns of `CLOCK_MONOTONIC`\]; 0 before that.
    ready_ns: u64,
    /// True if the shared memory of programs that have ended is held for a later snapshot.
    holds: bool,
    next_tick: Instant,
    next_update: Instant,
    next_search: Instant,
}

/// The parts from which the registry is made.
pub(crate) struct RegistryParts {
    pub(crate) target: ProcessTarget,
    pub(crate) listener: Option<ProgramListener>,
    pub(crate) spec: Arc<SessionSpec>,
    pub(crate) clock: Arc<Clock>,
    /// Time at which the recording began, before the command was started \[ns of `CLOCK_MONOTONIC`\].
    pub(crate) begun_ns: u64,
    pub(crate) sources: Arc<ProgramSources>,
    pub(crate) orders: Sender<PumpOrder<ProcessSource>>,
    pub(crate) found: Arc<RegistryFindings>,
    /// True if another layer records selected processes that have no tracepoints.
    pub(crate) plain_too: bool,
    pub(crate) hearing: Hearing,
}

/// A process whose memory is locked by another recorder or by itself.
struct Locked {
    application: Application,
    came: Came,
    ours: bool,
    since: Instant,
}

/// A process that has announced itself, with facts from the time of its announcement.
struct Comer {
    announced: Announced,
    came: Came,
    /// Process ids of the process's parent, grandparent and so on. Filled only if a command is recorded and the
    /// process was not invited.
    parents: Vec<u32>,
    /// True if the process id still belonged to the process after `parents` was read.
    was_of_it: bool,
}

impl Registry {
    pub(crate) fn new(parts: RegistryParts) -> Registry {
        let time = parts.sources.context.shared.time().clone();
        let now = time.now();
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
        let stored_programs = slots.map(ChannelSlots::stored_programs).unwrap_or_default();
        let family = match &parts.target {
            ProcessTarget::Processes(pids) => Family::of(Some(pids), &time),
            _ => Family::of(None, &time),
        };
        Registry {
            target: parts.target,
            listener: parts.listener,
            heard: Heard::new(),
            spec: parts.spec,
            clock: parts.clock,
            time,
            shared: Arc::clone(parts.sources.voice.shared()),
            sources: parts.sources,
            orders: Some(parts.orders),
            processes: Vec::new(),
            locked: VecDeque::new(),
            next_unlock: now,
            starting: VecDeque::new(),
            held: Vec::new(),
            next_held: now,
            expected: ExpectedProcesses::default(),
            renamed: 0,
            told_only_known: false,
            known: KnownMemories::default(),
            generations,
            invitation: Invitation::default(),
            begun_ns: parts.begun_ns,
            strangers: RecentNumbers::default(),
            family,
            found: parts.found,
            plain_too: parts.plain_too,
            hearing: parts.hearing,
            await_arrivals: Vec::new(),
            changing,
            stored_programs,
            short: WaitingForRoom::default(),
            ready_ns: 0,
            holds,
            next_tick: now,
            next_update: now,
            next_search: now + SEARCH_PERIOD,
        }
    }

    /// Returns the present time \[ns of `CLOCK_MONOTONIC`\].
    fn now_ns(&self) -> u64 {
        self.time.manual_ns().unwrap_or_else(Clock::monotonic_ns)
    }

    /// Admits the processes that exist already. Reports the progress to `tell`, and stops early if `tell` asks for
    /// that.
    pub(crate) fn begin(&mut self, tell: &mut Tell<'_>) {
        // Stored programs come first, so that new programs do not take the memory meant for them.
        self.take_stored(false);
        match &self.target {
            ProcessTarget::Command { .. } => {}
            // The invitation comes before the search: processes that start during the search make the session
            // themselves.
            ProcessTarget::Processes(_) | ProcessTarget::Everyone => {
                self.invite();
                self.search(true, tell);
            }
        }
        self.take_stored(false);
        self.tell_left();
        // All locked processes are retried together, so that those recorded from the beginning are reported at the
        // beginning.
        let end = self.time.now() + LOCK_PATIENCE;
        let total = self.locked.len() as u64;
        while let Some(one) = self.locked.front().filter(|_| self.time.now() < end) {
            let (pid, left) = (one.application.pid(), self.locked.len() as u64);
            if tell(Notice::Admitting { pid, admitted: total.saturating_sub(left), total })
                .is_break()
            {
                break;
            }
            self.time.pause(LOCK_PERIOD);
            self.try_locked(false);
            self.look_after();
        }
        self.ready_ns = self.now_ns();
    }

    /// Runs until the session stops, and then until the pump has taken everything.
    pub(crate) fn run(&mut self) {
        while !self.shared.is_stopping() {
            self.wait();
            self.receive_and_tell(1);
            self.try_locked(false);
            self.try_short();
            self.look_after();
            self.family.look();
            if self.time.now() >= self.next_search {
                // Whatever the search leaves out is found at the end.
                let shared = Arc::clone(&self.shared);
                self.search(false, &mut |_| match shared.is_stopping() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                });
                self.take_stored(false);
            }
            if !self.held.is_empty() && self.time.now() >= self.next_held {
                self.try_held();
            }
            self.look_for_expected();
            self.shared.set_nobody_left(self.nobody_left());
        }
        self.stop();
        while !self.shared.is_moved() {
            self.time.pause(Duration::from_millis(5));
            self.look_after();
        }
        self.find_holders();
    }

    /// Finds processes that still hold the command's end of the socket, and so have outlived the command, whether
    /// they were recorded or not.
    fn find_holders(&mut self) {
        let ProcessTarget::Command { announcements, .. } = &mut self.target else { return };
        let Some(mut socket) = announcements.take() else { return };
        *lock(&self.found.holders) = holders_of(&mut socket);
    }

    /// Admits the last processes, and disables all tracepoints.
    fn stop(&mut self) {
        self.hear_the_last();
        if !self.shared.has_failed() {
            self.search(false, &mut |_| ControlFlow::Continue(()));
            self.take_stored(true);
        }
        self.hear_the_slow();
        self.look_for_the_last_expected();
        self.try_locked(true);
        for process in self.processes.clone() {
            // Stopping a thousand processes takes time, and those still recording need heartbeats.
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
        // A closed channel is the pump's sign that no further process follows.
        self.orders = None;
    }

    /// Waits until something is due or an announcement arrives.
    fn wait(&self) {
        let mut until = self.next_tick.min(self.next_update).min(self.next_search);
        if !self.locked.is_empty() {
            until = until.min(self.next_unlock);
        }
        let due = self.changing.due().into_iter().chain(self.next_expected());
        until = due.fold(until, Instant::min);
        if !self.await_arrivals.is_empty() || !self.heard.is_empty() {
            return;
        }
        let timeout = until.saturating_duration_since(self.time.now()).min(UPDATE_PERIOD);
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
        if let Ok(timeout) = Timespec::try_from(self.time.of_system_wait(timeout)) {
            // An error, such as a signal, only makes the wait shorter.
            let _ = poll(&mut fds, Some(&timeout));
        }
    }

    /// Does the work that must not be delayed: answers requests and sends heartbeats.
    fn look_after(&mut self) {
        self.listen();
        self.obey();
        self.keep_alive();
        self.go_on_changing();
    }

    /// Sends heartbeats, updates the clock, and finds ended processes and new tracepoints, each if it is due.
    fn keep_alive(&mut self) {
        let now = self.time.now();
        let update = now >= self.next_update;
        if now < self.next_tick && !update {
            return;
        }
        // Causes of such a delay: a debugger, Ctrl-Z, or a suspended machine.
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
        // Processes that are due at many different moments are examined together. Callers get at least as much time for
        // their own work between two examinations as an examination takes.
        let (done, taken) = (self.time.now(), self.time.elapsed(now));
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
            // The end of a process that goes on in another session is not noted.
            if is_finished && !process.is_replaced() {
                known.end(process.application().inode());
            }
            !is_finished
        });
    }

    /// Receives announcements in at most `rounds` rounds. Rounds are small, so that admitted processes get heartbeats
    /// in between.
    fn receive(&mut self, rounds: usize) {
        self.receive_by(rounds, &[Registry::receive_invited, Registry::receive_others]);
    }

    /// Receives announcements from `sockets` in at most `rounds` rounds.
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

    /// Receives announcements of the command's processes, and adds them to `comers`. Returns whether more may be
    /// waiting.
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
                Ok(Received::Absent { sender, absence }) => {
                    self.absent(sender, &absence, Came::Invited);
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

    /// Warns that announcements of unknown users are no longer received.
    fn tell_silenced(&mut self) {
        let only_known = self.listener.as_ref().is_some_and(ProgramListener::only_known);
        if only_known && !std::mem::replace(&mut self.told_only_known, true) {
            lock(&self.found.remarks).push(format!(
                "announcements: too many users have sent invalid messages. Only users in /etc/passwd, and those \
                 whose processes had announced themselves, are listened to; {FOUND_BY_SEARCH}"
            ));
        }
        let silenced = self.listener.as_mut().map(ProgramListener::silenced).unwrap_or_default();
        for uid in silenced {
            lock(&self.found.remarks).push(format!(
                "announcements: user {uid}: its processes have sent too many invalid messages. They are no longer \
                 listened to; {FOUND_BY_SEARCH}"
            ));
        }
    }

    /// Closes the command's socket, after the command and its descendants have ended or closed their end.
    fn close_socket(&mut self) {
        if let ProcessTarget::Command { announcements, .. } = &mut self.target {
            *announcements = None;
        }
    }

    /// Admits processes that have announced themselves.
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

    /// Retries announced processes about which the kernel gave no answer before.
    fn try_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.announced(held);
        self.next_held = self.time.now() + HELD_PERIOD;
    }

    /// Searches /proc: the `first` time for all selected processes, later for processes that could not announce
    /// themselves.
    fn search(&mut self, first: bool, tell: &mut Tell<'_>) {
        let begin = self.time.now();
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
        let now = self.time.now();
        self.next_search = now + pause_after((now - begin).saturating_sub(waited));
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
        let named = first && matches!(self.target, ProcessTarget::Processes(_));
        for refused in findings.refused {
            if named {
                self.family.set_aside(refused.pid);
            }
            let is_ours =
                findings.of_session.contains(&refused.pid) || self.is_descendant(refused.pid);
            if asked_for || is_ours {
                self.not_reached(refused.pid, refused.name, refused.reason);
            }
        }
        // A search of all processes reports neither those without tracepoints nor those that have just ended.
        for error in &findings.errors {
            let may_come = matches!(
                error,
                Error::NotInstrumented { .. } | Error::NotReady { .. } | Error::Locked { .. }
            );
            if let Some(pid) = error.pid().filter(|_| named && !may_come) {
                self.family.set_aside(pid);
            }
            // A process that is just starting announces itself, or is found by the next search.
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

    /// Returns the generation of the session of ours that the process inherited from its parent or through
    /// its environment; `None` if there is none.
    fn inherited(&self, application: &Application) -> Option<u64> {
        let mut generations = application.session_generations().into_iter();
        generations.find(|generation| self.generations.contains(*generation))
    }

    /// Notes a process that this user may not examine. It is unknown whether that process belongs to the recording.
    fn hide(&self, pid: u32, reason: String) {
        lock(&self.found.hidden).add_first(NotReached { pid, name: String::new(), reason });
    }

    /// Records `application` if it has a session of ours, or if `ours` is true: it belongs to this session for
    /// another reason.
    fn admit(&mut self, application: &Application, came: Came, ours: bool) {
        // Heartbeats come first, since a process may make us wait for its lock.
        self.look_after();
        let inode = application.inode();
        let waits = self.locked.iter().any(|one| one.application.inode() == inode);
        if self.known.contains(inode) || waits {
            return;
        }
        self.admit_since(application, came, ours, None);
    }

    /// Admits a process like [`Registry::admit`]. `since`: time since which its memory has been locked, for a retry.
    fn admit_since(
        &mut self,
        application: &Application,
        came: Came,
        ours: bool,
        since: Option<Instant>,
    ) {
        let (inode, inherited) = (application.inode(), self.inherited(application));
        // The process has reported why it has no session. Its further events can still be recorded.
        let failed = self.failed(application);
        let claimed = inherited.or(failed.as_ref().map(|(generation, _)| *generation));
        let is_stranger = self.is_stranger(application, claimed, ours);
        if is_stranger && inherited.is_none() {
            self.strangers.insert(inode);
            return;
        }
        let told = failed.map(|(_, error)| error);
        if let (None, Some(error)) = (inherited, &told) {
            self.unreached(error);
        }
        let is_ours = ours || told.is_some();
        let is_tracked = self.is_tracked(application);
        // A later search finds the process again, should it be tracked then.
        if inherited.is_none() && !is_tracked && matches!(self.target, ProcessTarget::Everyone) {
            return;
        }
        let spec = self.spec_if(is_tracked);
        let session = match inherited {
            Some(generation) => {
                match AppSession::adopt(application, generation, &spec, &self.clock) {
                    Err(Error::NotEnabled { .. }) if is_ours => {
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
            // Only awaited processes are retried for longer: a process can hold its own lock for ever, and so can a
            // thousand of them.
            Err(Error::Locked { pid, .. }) => {
                let since = since.unwrap_or_else(|| self.time.now());
                if self.time.elapsed(since) < LOCK_PATIENCE || self.is_awaited(application.pid()) {
                    let application = application.clone();
                    self.locked.push_back(Locked { application, came, ours, since });
                    return;
                }
                let waited_ms =
                    u64::try_from(self.time.elapsed(since).as_millis()).unwrap_or(u64::MAX);
                Err(Error::Locked { pid, waited_ms })
            }
            other => other,
        };
        // The process was found by a search and has ended; it may still have announced itself.
        if !session.as_ref().is_err_and(Error::is_gone) {
            self.known.end(application.inode());
        }
        let uninvited = came == Came::ByItself && inherited.is_none() && told.is_none();
        match session {
            Ok(session) if is_stranger => self.decline(session),
            Err(_) if is_stranger => {}
            Ok(session) => self.adopted(session, uninvited),
            Err(error) if error.is_gone() && uninvited => {
                let (pid, name) = (application.pid(), application.name().to_owned());
                let reason = self.why_gone(application);
                self.not_reached(pid, name, reason);
            }
            // A process that ended during a search is not worth a report.
            Err(error) if error.is_gone() => {}
            Err(error) => self.unreached(&error),
        }
    }

    /// Retries processes with locked memory if a retry is due. `last`: true to retry all of them now, for the last
    /// time.
    fn try_locked(&mut self, last: bool) {
        let now = self.time.now();
        if !last && now < self.next_unlock {
            return;
        }
        let is_new = |one: &Locked| now.saturating_duration_since(one.since) < LOCK_PATIENCE;
        self.next_unlock = match self.locked.iter().any(is_new) {
            true => now + LOCK_PERIOD,
            false => now + HELD_PERIOD,
        };
        for one in std::mem::take(&mut self.locked) {
            self.look_after();
            let since = match last {
                // The holder of the lock has had enough time.
                true => now.checked_sub(LOCK_PATIENCE).unwrap_or(one.since).min(one.since),
                false => one.since,
            };
            self.admit_since(&one.application, one.came, one.ours, Some(since));
            self.tell_gone(&one.application);
        }
        self.finish_starts(0);
    }

    fn adopted(&mut self, mut session: AppSession, uninvited: bool) {
        let (now, begun) = (self.now_ns(), session.application().started_ns());
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
        // A process that inherited a session has recorded since its start.
        if until.is_none() {
            self.found.tell_if_late(&traced, self.ready_ns, now);
        }
        if uninvited {
            traced.warn(self.why_late(traced.application(), age));
        }
        self.known.begin(traced.application().inode());
        lock(&self.found.not_reached).has_tracepoints(traced.application().pid());
        self.shared.process_came();
        if is_outdated {
            self.replace_soon(&traced);
        }
        self.finish_starts(STARTING_MAX);
    }

    /// Hands a process's packets to the pump. See [`Traced::changes`] for `changes`. `is_part`: true if another
    /// session in the process takes the place of this one.
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
                // Without a pump the session is failing, and the failure is reported elsewhere.
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

    /// Takes a share of the session's memory. If too little is left, waits until the pump releases ended programs that
    /// are only kept for snapshots.
    fn memory_for(&mut self, bytes: u64) -> Option<BudgetShare> {
        let budget = Arc::clone(self.shared.memory());
        let end = self.time.now() + LET_GO_PATIENCE;
        let mut share = budget.take(bytes);
        let is_over = |one: &Arc<Traced>| one.has_ended() || !one.application().is_alive();
        // Programs that still run release nothing.
        let may_come =
            |registry: &Registry| registry.holds && registry.processes.iter().any(is_over);
        while share.is_none() && budget.is_short() && may_come(self) && self.time.now() < end {
            self.time.pause(LOCK_PERIOD);
            self.look_after();
            share = budget.take(bytes);
        }
        budget.give_up();
        share
    }

    /// Reports that there is no memory for the process's buffers, and queues the process for a retry.
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

    /// Admits processes that waited for memory, as far as memory is free now.
    fn try_short(&mut self) {
        let budget = Arc::clone(self.shared.memory());
        for _ in 0..self.short.len() {
            let next = self.short.next(self.time.now(), |bytes| budget.has(bytes));
            let Some(WaitingProgram { application, said, .. }) = next else { return };
            self.look_after();
            // The report is made again if there is still no memory. That the process is to be recorded was decided the
            // first time.
            lock(&self.found.not_reached).forget(&said);
            self.admit_since(&application, Came::Invited, true, None);
            self.say_again(&application, said);
        }
        self.finish_starts(0);
    }

    /// Finishes writing the tracepoint code of started processes, until the code of at most `but` of them is
    /// incomplete.
    fn finish_starts(&mut self, but: usize) {
        while self.starting.len() > but {
            let Some(traced) = self.starting.pop_front() else { return };
            let mut session = traced.session();
            if let Some(session) = session.as_mut() {
                session.finish_change();
            }
        }
    }

    /// Reports a process whose name differs from the one that it announced. Programs may also rename themselves for
    /// good reasons.
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

    /// Remembers a session generation, because children of the process may inherit it.
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
            Error::NotInstrumented { pid, .. } => {
                let one = NotReached { pid: *pid, name: String::new(), reason: error.to_string() };
                lock(&self.found.not_reached).add_without_tracepoints(one);
            }
            // The report has the same form as that of a search.
            Error::Refused { pid, name, reason } => {
                self.not_reached(*pid, name.clone(), reason.clone());
            }
            // One report covers all processes of the user.
            Error::UserHeld { uid, .. } => {
                let name = format!("processes of user {uid}");
                self.not_reached(0, name, held_of_user(*uid));
            }
            error => {
                self.not_reached(error.pid().unwrap_or(0), String::new(), error.to_string());
            }
        }
    }
}

/// Returns the pause after a search of /proc. `search`: time that the search took, without its waiting for answers.
fn pause_after(search: Duration) -> Duration {
    (search * SEARCH_SHARE).clamp(SEARCH_PERIOD, SEARCH_PERIOD_MAX)
}

#[cfg(test)]
mod tests;

//! Keeps descriptors of a session in its fdstore: the memory of recorded programs, until all of it is written, and the
//! memory of the kernel's buffers (fdstore_rings.rs). After the session was killed, the next one finds there the records
//! of programs that have ended.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{waitpid, Pid, WaitOptions};
use serde::{Deserialize, Serialize};
use strata_control::{FdStoreClient, HeldMemory};
use strata_text::json;
use strata_user::{Application, Identity, StoredMemory};

use crate::session::lock::lock;

/// The most orders that wait for a slow fdstore. Beyond that, the fdstore is given up.
const WAITING_MAX: usize = 65_536;

/// Facts about a program that its memory does not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Facts {
    pid: u32,
    uid: Option<u32>,
    gid: Option<u32>,
    inner_pid: Option<u32>,
    comm: Option<String>,
    exe: Option<String>,
    /// True if the program had ended when its memory was handed over, and no descriptor shows that.
    #[serde(default)]
    ended: bool,
}

impl Facts {
    fn of(application: &Application) -> Facts {
        let Identity { uid, gid, inner_pid, comm, exe } = application.identity().clone();
        let ended = application.pidfd().is_none() && !application.is_alive();
        Facts { pid: application.pid(), uid, gid, inner_pid, comm, exe, ended }
    }

    fn identity(self) -> Identity {
        let Facts { uid, gid, inner_pid, comm, exe, .. } = self;
        Identity { uid, gid, inner_pid, comm, exe }
    }
}

/// The memory of a program of the killed session, as stored in the fdstore.
#[derive(Clone, Debug)]
pub(crate) struct StoredProgram {
    pub(crate) inode: u64,
    pub(crate) memory: StoredMemory,
    /// The program's pidfd; `None` if the kernel supports none, or the program had ended before it could be opened.
    pidfd: Option<Arc<OwnedFd>>,
    /// True if the program has ended or no longer uses this memory.
    is_left: bool,
}

impl StoredProgram {
    /// Parses held memory. Returns it unchanged if it is not that of a program, or has another version.
    fn of(held: HeldMemory) -> Result<StoredProgram, HeldMemory> {
        let Ok(facts) = serde_json::from_slice::<Facts>(&held.facts) else { return Err(held) };
        let HeldMemory { number, facts: words, fds } = held;
        let mut fds = fds.into_iter();
        let Some(fd) = fds.next().map(Arc::new) else {
            return Err(HeldMemory { number, facts: words, fds: Vec::new() });
        };
        let pidfd = fds.next().map(Arc::new);
        let is_left = facts.ended;
        let memory = StoredMemory { fd, pid: facts.pid, identity: facts.identity() };
        Ok(StoredProgram { inode: number, memory, pidfd, is_left })
    }

    /// Notes that the program lives but no longer uses this memory, because it has executed another program.
    pub(crate) fn leave(&mut self) {
        self.is_left = true;
    }

    /// Returns whether the program has ended or executed another one. A living program is found as usual.
    pub(crate) fn is_left(&self) -> bool {
        match &self.pidfd {
            _ if self.is_left => true,
            Some(pidfd) => {
                let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
                matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
            }
            None => !Path::new("/proc").join(self.memory.pid.to_string()).exists(),
        }
    }
}

/// An order to the fdstore. Orders must be sent in sequence.
#[derive(Debug)]
enum FdStoreOrder {
    Hold(Application),
    HoldOther(OtherMemory),
    LetGo(u64),
}

/// Memory that does not belong to a program, such as the kernel's buffers.
#[derive(Debug)]
pub(super) struct OtherMemory {
    /// Number that identifies the memory and differs from all inode numbers.
    pub(super) number: u64,
    pub(super) facts: Vec<u8>,
    pub(super) fd: OwnedFd,
}

#[derive(Debug, Default)]
struct FdStoreState {
    /// The connection; `None` if the fdstore is gone.
    fdstore: Option<FdStoreClient>,
    /// Number of channels that have sessions in a program, by the inode number of its memory.
    needed: HashMap<u64, u32>,
    /// Number of channels that had a session in the program when they were killed and have not taken it over yet, by
    /// inode number.
    untaken: HashMap<u64, u32>,
    /// Memory of programs that was held when this session began, until nobody needs it.
    stored_programs: Vec<StoredProgram>,
    /// Held memory that does not belong to programs.
    others: Vec<HeldMemory>,
    waiting: VecDeque<FdStoreOrder>,
    /// Why the connection has ended, until that is reported.
    problem: Option<String>,
}

/// The fdstore of a session.
#[derive(Debug)]
pub struct FdStore {
    state: Mutex<FdStoreState>,
    /// Process id of the fdstore, if it is a child of this process.
    child: Option<Pid>,
    /// Inode numbers of the memory that was held when this session began.
    before: HashSet<u64>,
}

impl FdStore {
    /// Creates the handle from the connection and the memory that is held of the killed session.
    pub(crate) fn new(
        fdstore: FdStoreClient,
        held: Vec<HeldMemory>,
        child: Option<Pid>,
    ) -> FdStore {
        let mut state = FdStoreState { fdstore: Some(fdstore), ..FdStoreState::default() };
        for one in held {
            match StoredProgram::of(one) {
                Ok(stored) => state.stored_programs.push(stored),
                Err(other) => state.others.push(other),
            }
        }
        let before: HashSet<u64> = state.stored_programs.iter().map(|one| one.inode).collect();
        FdStore { state: Mutex::new(state), child, before }
    }

    /// Sets the number of channels that need each memory, by inode number. Memory that no channel needs is released.
    pub(super) fn expect(&self, channels: &HashMap<u64, u32>) {
        let mut state = lock(&self.state);
        for inode in &self.before {
            match channels.get(inode) {
                Some(number) => {
                    state.needed.insert(*inode, *number);
                    state.untaken.insert(*inode, *number);
                }
                None => state.waiting.push_back(FdStoreOrder::LetGo(*inode)),
            }
        }
        state.stored_programs.retain(|one| channels.contains_key(&one.inode));
        state.tell();
    }

    /// Returns whether this memory is held, or is about to be.
    pub(super) fn holds(&self, inode: u64) -> bool {
        lock(&self.state).needed.contains_key(&inode)
    }

    /// Returns the memory of programs that was held when this session began and is still needed.
    pub(super) fn stored_programs(&self) -> Vec<StoredProgram> {
        lock(&self.state).stored_programs.clone()
    }

    /// Returns whether this memory was held when this session began.
    pub(super) fn has_held(&self, inode: u64) -> bool {
        self.before.contains(&inode)
    }

    /// Holds the memory of a recorded program.
    pub(super) fn hold(&self, application: &Application) {
        let mut state = lock(&self.state);
        state.need(application);
        state.tell();
    }

    /// Holds other memory until [`let_go_other`](Self::let_go_other).
    pub(super) fn hold_other(&self, other: OtherMemory) {
        let mut state = lock(&self.state);
        state.waiting.push_back(FdStoreOrder::HoldOther(other));
        state.tell();
    }

    /// Releases memory that does not belong to a program.
    pub(super) fn let_go_other(&self, number: u64) {
        let mut state = lock(&self.state);
        state.waiting.push_back(FdStoreOrder::LetGo(number));
        state.tell();
    }

    /// Takes the held memory that does not belong to programs, and releases it in the fdstore.
    pub(super) fn take_others(&self) -> Vec<HeldMemory> {
        let mut state = lock(&self.state);
        let others = std::mem::take(&mut state.others);
        state.waiting.extend(others.iter().map(|one| FdStoreOrder::LetGo(one.number)));
        state.tell();
        others
    }

    /// Notes that a channel [expected](Self::expect) to need this memory has taken it over, or will not.
    pub(super) fn took(&self, inode: u64) {
        let mut state = lock(&self.state);
        if let Some(number) = state.untaken.get_mut(&inode) {
            *number -= 1;
            if *number == 0 {
                state.untaken.remove(&inode);
            }
        }
        state.need_no_more(inode);
        state.tell();
    }

    /// Returns the number of ended programs that a channel was [expected](Self::expect) to take over and has not.
    pub(super) fn untaken(&self) -> usize {
        let state = lock(&self.state);
        let is_one = |one: &&StoredProgram| state.untaken.contains_key(&one.inode) && one.is_left();
        state.stored_programs.iter().filter(is_one).count()
    }

    /// Releases the memory of a program after everything for which [`hold`](Self::hold) was called is written.
    pub(super) fn let_go(&self, inode: u64) {
        let mut state = lock(&self.state);
        state.need_no_more(inode);
        state.tell();
    }

    /// Sends the orders that could not be sent before. Returns, only once, why the fdstore is gone.
    pub(crate) fn look(&self) -> Option<String> {
        let mut state = lock(&self.state);
        state.tell();
        state.problem.take()
    }

    /// Ends the fdstore, after the session has ended properly.
    pub fn end(&self) {
        let fdstore = lock(&self.state).fdstore.take();
        let Some(fdstore) = fdstore else { return };
        let has_ended = fdstore.end();
        if let Some(child) = self.child.filter(|_| has_ended) {
            // The fdstore has closed all its descriptors.
            let _ = waitpid(Some(child), WaitOptions::empty());
        }
    }
}

impl FdStoreState {
    fn need(&mut self, application: &Application) {
        let needed = self.needed.entry(application.inode()).or_default();
        *needed += 1;
        if *needed == 1 {
            self.waiting.push_back(FdStoreOrder::Hold(application.clone()));
        }
    }

    fn need_no_more(&mut self, inode: u64) {
        let Some(needed) = self.needed.get_mut(&inode) else { return };
        *needed -= 1;
        if *needed > 0 {
            return;
        }
        self.needed.remove(&inode);
        self.stored_programs.retain(|one| one.inode != inode);
        // An order that was not sent yet is removed, and its descriptors are closed now.
        let is_it =
            |order: &FdStoreOrder| matches!(order, FdStoreOrder::Hold(one) if one.inode() == inode);
        match self.waiting.iter().position(is_it) {
            Some(at) => drop(self.waiting.remove(at)),
            None => self.waiting.push_back(FdStoreOrder::LetGo(inode)),
        }
    }

    fn tell(&mut self) {
        while let (Some(fdstore), Some(order)) = (&self.fdstore, self.waiting.front()) {
            let told = match order {
                FdStoreOrder::LetGo(inode) => fdstore.let_go(*inode),
                FdStoreOrder::Hold(application) => hold(fdstore, application),
                FdStoreOrder::HoldOther(OtherMemory { number, facts, fd }) => {
                    fdstore.hold(*number, facts, &[fd.as_fd()])
                }
            };
            match told {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::TOOMANYREFS | Errno::NOMEM)
                    if self.waiting.len() < WAITING_MAX =>
                {
                    return
                }
                Err(errno) => self.give_up(errno),
            }
        }
        if self.fdstore.is_none() {
            self.waiting.clear();
        }
    }

    fn give_up(&mut self, errno: Errno) {
        let why = match errno {
            Errno::PIPE | Errno::CONNRESET => "it was ended by somebody".to_owned(),
            errno => std::io::Error::from(errno).to_string(),
        };
        self.fdstore = None;
        self.problem = Some(format!(
            "the process that holds programs' memory (strata-fdstore) does so no longer: {why}. If the session is killed, what \
             programs that have ended had recorded, and nobody had written, is gone; programs that live keep theirs. What the \
             kernel's buffers hold then is not counted"
        ));
    }
}

fn hold(fdstore: &FdStoreClient, application: &Application) -> Result<(), Errno> {
    let facts = json::compact(&Facts::of(application)).into_bytes();
    let mut fds = vec![application.shared_memory()];
    fds.extend(application.pidfd());
    fdstore.hold(application.inode(), &facts, &fds)
}

#[cfg(test)]
impl StoredProgram {
    /// Returns the entry that the fdstore would have for a recorded program.
    pub(crate) fn of_program(application: &Application) -> StoredProgram {
        let facts = json::compact(&Facts::of(application)).into_bytes();
        let fds = [Some(application.shared_memory()), application.pidfd()];
        let fds = fds.into_iter().flatten().map(|fd| fd.try_clone_to_owned().unwrap());
        StoredProgram::of(HeldMemory { number: application.inode(), facts, fds: fds.collect() })
            .unwrap()
    }
}

#[cfg(test)]
impl FdStore {
    /// Returns an fdstore without a process that holds memory that is not a program's.
    pub(super) fn holding_other(held: HeldMemory) -> FdStore {
        let state = FdStoreState { others: vec![held], ..FdStoreState::default() };
        FdStore { state: Mutex::new(state), child: None, before: HashSet::new() }
    }

    /// Returns an fdstore without a process that should hold this program's memory.
    pub(super) fn holding(inode: u64) -> FdStore {
        let state = FdStoreState { needed: HashMap::from([(inode, 1)]), ..FdStoreState::default() };
        FdStore { state: Mutex::new(state), child: None, before: HashSet::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_found_again_and_nonsense_is_nobody() {
        let facts = Facts {
            pid: 7,
            uid: Some(1000),
            inner_pid: Some(3),
            comm: Some("a \"b\"".to_owned()),
            exe: Some("/bin/ä".to_owned()),
            ..Facts::default()
        };
        let fd = || OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
        let of = |facts: &[u8], fds| {
            StoredProgram::of(HeldMemory { number: 9, facts: facts.to_vec(), fds })
        };
        let text = json::compact(&facts).into_bytes();
        let stored = of(&text, vec![fd()]).unwrap();
        assert_eq!((stored.inode, stored.memory.pid), (9, 7));
        assert_eq!(stored.memory.identity, facts.identity());
        assert!(of(&text, Vec::new()).is_err());
        for text in [&b""[..], b"{}", b"[]", b"{\"pid\": -1}", b"{\"pid\": \"7\"}", &[0xff; 16]] {
            let other = of(text, vec![fd()]).unwrap_err();
            assert_eq!((other.number, &*other.facts, other.fds.len()), (9, text, 1), "{text:?}");
        }
    }

    #[test]
    fn program_without_a_descriptor_has_ended_when_its_number_is_nobody_s() {
        let fd = OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
        let of = |pid| {
            let (fd, identity) = (Arc::new(fd.try_clone().unwrap()), Identity::default());
            let memory = StoredMemory { fd, pid, identity };
            StoredProgram { inode: 1, memory, pidfd: None, is_left: false }
        };
        let own = std::process::id();
        assert!(!of(own).is_left() && of(u32::MAX).is_left());
        // It lives, and has become another program.
        let mut stored = of(own);
        stored.leave();
        assert!(stored.is_left());
    }

    #[test]
    fn program_that_had_ended_when_it_was_held_has_whoever_has_its_number_now() {
        let fd = OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
        let of = |text: String| {
            let fds = vec![fd.try_clone().unwrap()];
            StoredProgram::of(HeldMemory { number: 9, facts: text.into_bytes(), fds }).unwrap()
        };
        let own = std::process::id();
        // As another version says it.
        assert!(!of(format!("{{\"pid\": {own}}}")).is_left());
        let facts = Facts { pid: own, ended: true, ..Facts::default() };
        assert!(of(json::compact(&facts)).is_left());
    }

    #[test]
    fn what_was_not_reported_yet_is_not_reported_when_nobody_needs_it_and_its_descriptors_are_given_back(
    ) {
        let (program, _) = crate::scratch_tests::program();
        let (mut state, inode) = (FdStoreState::default(), program.inode());
        let told = |state: &FdStoreState| -> Vec<bool> {
            state.waiting.iter().map(|order| matches!(order, FdStoreOrder::Hold(_))).collect()
        };
        state.need(&program);
        state.need(&program);
        state.need_no_more(inode);
        assert_eq!(told(&state), [true]);
        state.need_no_more(inode);
        assert_eq!(told(&state), [false; 0]);
        // What it was told before stays as it is.
        state.need(&program);
        state.waiting.clear();
        state.need_no_more(inode);
        assert_eq!(told(&state), [false]);
        state.need(&program);
        state.need_no_more(inode);
        assert_eq!(told(&state), [false]);
    }

    #[test]
    fn needed_is_what_any_channel_needs() {
        let fdstore = FdStore::holding(5);
        lock(&fdstore.state).needed.insert(5, 2);
        fdstore.let_go(5);
        assert_eq!(lock(&fdstore.state).needed.get(&5), Some(&1));
        fdstore.let_go(5);
        // Of what nobody needs nothing is told twice.
        fdstore.let_go(5);
        assert!(lock(&fdstore.state).needed.is_empty());
        assert_eq!(fdstore.look(), None);
    }

    #[test]
    fn what_no_channel_takes_over_is_counted_if_the_program_has_ended() {
        let stored = |inode, is_left| {
            let mut stored = StoredProgram::of_program(&crate::scratch_tests::program().0);
            (stored.inode, stored.is_left) = (inode, is_left);
            stored
        };
        let stored_programs = vec![stored(5, true), stored(6, false), stored(7, true)];
        let state = Mutex::new(FdStoreState { stored_programs, ..FdStoreState::default() });
        let fdstore = FdStore { state, child: None, before: HashSet::from([5, 6, 7]) };
        fdstore.expect(&HashMap::from([(5, 2), (6, 1)]));
        assert_eq!(fdstore.untaken(), 1);
        fdstore.took(5);
        // Of the other channel.
        assert_eq!(fdstore.untaken(), 1);
        fdstore.took(5);
        assert_eq!(fdstore.untaken(), 0);
        assert!(!fdstore.holds(5) && fdstore.holds(6));
    }
}

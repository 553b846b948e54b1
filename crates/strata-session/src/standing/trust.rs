//! What a session has its trustee hold: the memory of the programs that it records, until all that is in it is written, and
//! that of the kernel's buffers (rings.rs).
//! Should the session be killed, the next one finds there what programs had recorded that have ended.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{waitpid, Pid, WaitOptions};
use serde::{Deserialize, Serialize};
use strata_control::{HeldMemory, Trust};
use strata_user::{Application, Entrusted, Identity};

use crate::session::lock::lock;

/// What a trustee that does not take anything may have to be told yet; beyond, it is given up.
const WAITING_MAX: usize = 65_536;

/// What the session knows of a program, and its memory does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Facts {
    pid: u32,
    uid: Option<u32>,
    gid: Option<u32>,
    inner_pid: Option<u32>,
    comm: Option<String>,
    exe: Option<String>,
    /// It had ended when it was given to be held, and there is no descriptor that says so.
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

/// What a program of the session that was killed has left, as the trustee holds it.
#[derive(Clone, Debug)]
pub(crate) struct Estate {
    pub(crate) inode: u64,
    pub(crate) entrusted: Entrusted,
    /// `None`: the kernel has none, or it had ended before anybody had one.
    pidfd: Option<Arc<OwnedFd>>,
    /// It has ended, or does not have this memory any more.
    is_left: bool,
}

impl Estate {
    /// What is not a program's, or not in words of this version, comes back.
    fn of(held: HeldMemory) -> Result<Estate, HeldMemory> {
        let Ok(facts) = serde_json::from_slice::<Facts>(&held.facts) else { return Err(held) };
        let HeldMemory { number, facts: words, fds } = held;
        let mut fds = fds.into_iter();
        let Some(fd) = fds.next().map(Arc::new) else {
            return Err(HeldMemory { number, facts: words, fds: Vec::new() });
        };
        let pidfd = fds.next().map(Arc::new);
        let is_left = facts.ended;
        let entrusted = Entrusted { fd, pid: facts.pid, identity: facts.identity() };
        Ok(Estate { inode: number, entrusted, pidfd, is_left })
    }

    /// The program was seen to live without this memory: it has become another one.
    pub(crate) fn leave(&mut self) {
        self.is_left = true;
    }

    /// Has the program ended, or become another one? Who lives is found as any program is.
    pub(crate) fn is_left(&self) -> bool {
        match &self.pidfd {
            _ if self.is_left => true,
            Some(pidfd) => {
                let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
                matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
            }
            None => !Path::new("/proc").join(self.entrusted.pid.to_string()).exists(),
        }
    }
}

/// What the trustee is to be told, in this order.
#[derive(Debug)]
enum TrusteeOrder {
    Hold(Application),
    HoldOther(OtherMemory),
    LetGo(u64),
}

/// Memory that is no program's.
#[derive(Debug)]
pub(super) struct OtherMemory {
    /// No inode's.
    pub(super) number: u64,
    pub(super) facts: Vec<u8>,
    pub(super) fd: OwnedFd,
}

#[derive(Debug, Default)]
struct TrustState {
    /// `None`: there is none any more.
    trust: Option<Trust>,
    /// By inode number, who needs it: sessions in the program, of any channel.
    needed: HashMap<u64, u32>,
    /// Of these, channels that had something in the program when the session was killed, and have not taken it over yet.
    untaken: HashMap<u64, u32>,
    /// What it held when this session began, until nobody needs it.
    estates: Vec<Estate>,
    /// The same, of no program.
    others: Vec<HeldMemory>,
    waiting: VecDeque<TrusteeOrder>,
    /// Why there is none any more, to be said once.
    problem: Option<String>,
}

/// A session's trustee.
#[derive(Debug)]
pub struct Trusted {
    state: Mutex<TrustState>,
    /// Where it is a child of this process.
    child: Option<Pid>,
    /// The inode numbers of what it held when this session began.
    before: HashSet<u64>,
}

impl Trusted {
    /// With what it holds of the session that was killed.
    pub(crate) fn new(trust: Trust, held: Vec<HeldMemory>, child: Option<Pid>) -> Trusted {
        let mut state = TrustState { trust: Some(trust), ..TrustState::default() };
        for one in held {
            match Estate::of(one) {
                Ok(estate) => state.estates.push(estate),
                Err(other) => state.others.push(other),
            }
        }
        let before: HashSet<u64> = state.estates.iter().map(|one| one.inode).collect();
        Trusted { state: Mutex::new(state), child, before }
    }

    /// So many channels need each of these, by inode number, until they let go of it; nobody needs the others.
    pub(super) fn expect(&self, channels: &HashMap<u64, u32>) {
        let mut state = lock(&self.state);
        for inode in &self.before {
            match channels.get(inode) {
                Some(number) => {
                    state.needed.insert(*inode, *number);
                    state.untaken.insert(*inode, *number);
                }
                None => state.waiting.push_back(TrusteeOrder::LetGo(*inode)),
            }
        }
        state.estates.retain(|one| channels.contains_key(&one.inode));
        state.tell();
    }

    /// Is this held, or will be as soon as it can be said?
    pub(super) fn holds(&self, inode: u64) -> bool {
        lock(&self.state).needed.contains_key(&inode)
    }

    /// What it held when this session began, of those that are still needed.
    pub(super) fn estates(&self) -> Vec<Estate> {
        lock(&self.state).estates.clone()
    }

    /// Did it hold this when this session began?
    pub(super) fn has_held(&self, inode: u64) -> bool {
        self.before.contains(&inode)
    }

    /// This program is recorded.
    pub(super) fn hold(&self, application: &Application) {
        let mut state = lock(&self.state);
        state.need(application);
        state.tell();
    }

    /// This is held until [`let_go_other`](Self::let_go_other).
    pub(super) fn hold_other(&self, other: OtherMemory) {
        let mut state = lock(&self.state);
        state.waiting.push_back(TrusteeOrder::HoldOther(other));
        state.tell();
    }

    /// It need not be held any longer.
    pub(super) fn let_go_other(&self, number: u64) {
        let mut state = lock(&self.state);
        state.waiting.push_back(TrusteeOrder::LetGo(number));
        state.tell();
    }

    /// What it held when this session began that is no program's; it lets go of it.
    pub(super) fn take_others(&self) -> Vec<HeldMemory> {
        let mut state = lock(&self.state);
        let others = std::mem::take(&mut state.others);
        state.waiting.extend(others.iter().map(|one| TrusteeOrder::LetGo(one.number)));
        state.tell();
        others
    }

    /// A channel that was [expected](Self::expect) to need this has taken it over, or will not.
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

    /// Programs that have ended of which a channel that was [expected](Self::expect) to need them has taken nothing over.
    pub(super) fn untaken(&self) -> usize {
        let state = lock(&self.state);
        let is_one = |one: &&Estate| state.untaken.contains_key(&one.inode) && one.is_left();
        state.estates.iter().filter(is_one).count()
    }

    /// What [`hold`](Self::hold) was called for is written.
    pub(super) fn let_go(&self, inode: u64) {
        let mut state = lock(&self.state);
        state.need_no_more(inode);
        state.tell();
    }

    /// Tells it what it could not be told before. Returns, once, why there is none any more.
    pub(super) fn look(&self) -> Option<String> {
        let mut state = lock(&self.state);
        state.tell();
        state.problem.take()
    }

    /// The session has ended as it should, and so does its trustee.
    pub fn end(&self) {
        let trust = lock(&self.state).trust.take();
        let Some(trust) = trust else { return };
        let has_ended = trust.end();
        if let Some(child) = self.child.filter(|_| has_ended) {
            // It has closed all that it had.
            let _ = waitpid(Some(child), WaitOptions::empty());
        }
    }
}

impl TrustState {
    fn need(&mut self, application: &Application) {
        let needed = self.needed.entry(application.inode()).or_default();
        *needed += 1;
        if *needed == 1 {
            self.waiting.push_back(TrusteeOrder::Hold(application.clone()));
        }
    }

    fn need_no_more(&mut self, inode: u64) {
        let Some(needed) = self.needed.get_mut(&inode) else { return };
        *needed -= 1;
        if *needed > 0 {
            return;
        }
        self.needed.remove(&inode);
        self.estates.retain(|one| one.inode != inode);
        // What the trustee was not told yet it need not be told: the descriptors are given back now.
        let is_it =
            |order: &TrusteeOrder| matches!(order, TrusteeOrder::Hold(one) if one.inode() == inode);
        match self.waiting.iter().position(is_it) {
            Some(at) => drop(self.waiting.remove(at)),
            None => self.waiting.push_back(TrusteeOrder::LetGo(inode)),
        }
    }

    fn tell(&mut self) {
        while let (Some(trust), Some(order)) = (&self.trust, self.waiting.front()) {
            let told = match order {
                TrusteeOrder::LetGo(inode) => trust.let_go(*inode),
                TrusteeOrder::Hold(application) => hold(trust, application),
                TrusteeOrder::HoldOther(OtherMemory { number, facts, fd }) => {
                    trust.hold(*number, facts, &[fd.as_fd()])
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
        if self.trust.is_none() {
            self.waiting.clear();
        }
    }

    fn give_up(&mut self, errno: Errno) {
        let why = match errno {
            Errno::PIPE | Errno::CONNRESET => "it was ended by somebody".to_owned(),
            errno => std::io::Error::from(errno).to_string(),
        };
        self.trust = None;
        self.problem = Some(format!(
            "the process that holds programs' memory (strata-trustee) does so no longer: {why}. If the session is killed, what \
             programs that have ended had recorded, and nobody had written, is gone; programs that live keep theirs. What the \
             kernel's buffers hold then is not counted"
        ));
    }
}

fn hold(trust: &Trust, application: &Application) -> Result<(), Errno> {
    let facts = serde_json::to_vec(&Facts::of(application)).unwrap_or_default();
    let mut fds = vec![application.shared_memory()];
    fds.extend(application.pidfd());
    trust.hold(application.inode(), &facts, &fds)
}

#[cfg(test)]
impl Estate {
    /// As the trustee has it of a program that was recorded.
    pub(crate) fn of_program(application: &Application) -> Estate {
        let facts = serde_json::to_vec(&Facts::of(application)).unwrap();
        let fds = [Some(application.shared_memory()), application.pidfd()];
        let fds = fds.into_iter().flatten().map(|fd| fd.try_clone_to_owned().unwrap());
        Estate::of(HeldMemory { number: application.inode(), facts, fds: fds.collect() }).unwrap()
    }
}

#[cfg(test)]
impl Trusted {
    /// Of a trustee that is gone, and has held this, which is no program's.
    pub(super) fn holding_other(held: HeldMemory) -> Trusted {
        let state = TrustState { others: vec![held], ..TrustState::default() };
        Trusted { state: Mutex::new(state), child: None, before: HashSet::new() }
    }

    /// Of a trustee that is gone, and was to hold this.
    pub(super) fn holding(inode: u64) -> Trusted {
        let state = TrustState { needed: HashMap::from([(inode, 1)]), ..TrustState::default() };
        Trusted { state: Mutex::new(state), child: None, before: HashSet::new() }
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
        let of =
            |facts: &[u8], fds| Estate::of(HeldMemory { number: 9, facts: facts.to_vec(), fds });
        let text = serde_json::to_vec(&facts).unwrap();
        let estate = of(&text, vec![fd()]).unwrap();
        assert_eq!((estate.inode, estate.entrusted.pid), (9, 7));
        assert_eq!(estate.entrusted.identity, facts.identity());
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
            let entrusted = Entrusted { fd, pid, identity };
            Estate { inode: 1, entrusted, pidfd: None, is_left: false }
        };
        let own = std::process::id();
        assert!(!of(own).is_left() && of(u32::MAX).is_left());
        // It lives, and has become another program.
        let mut estate = of(own);
        estate.leave();
        assert!(estate.is_left());
    }

    #[test]
    fn program_that_had_ended_when_it_was_held_has_whoever_has_its_number_now() {
        let fd = OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
        let of = |text: String| {
            let fds = vec![fd.try_clone().unwrap()];
            Estate::of(HeldMemory { number: 9, facts: text.into_bytes(), fds }).unwrap()
        };
        let own = std::process::id();
        // As another version says it.
        assert!(!of(format!("{{\"pid\": {own}}}")).is_left());
        let facts = Facts { pid: own, ended: true, ..Facts::default() };
        assert!(of(serde_json::to_string(&facts).unwrap()).is_left());
    }

    #[test]
    fn what_was_not_told_yet_is_not_told_when_nobody_needs_it_and_its_descriptors_are_given_back() {
        let (program, _) = crate::scratch_tests::program();
        let (mut state, inode) = (TrustState::default(), program.inode());
        let told = |state: &TrustState| -> Vec<bool> {
            state.waiting.iter().map(|order| matches!(order, TrusteeOrder::Hold(_))).collect()
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
        let trusted = Trusted::holding(5);
        lock(&trusted.state).needed.insert(5, 2);
        trusted.let_go(5);
        assert_eq!(lock(&trusted.state).needed.get(&5), Some(&1));
        trusted.let_go(5);
        // Of what nobody needs nothing is told twice.
        trusted.let_go(5);
        assert!(lock(&trusted.state).needed.is_empty());
        assert_eq!(trusted.look(), None);
    }

    #[test]
    fn what_no_channel_takes_over_is_counted_if_the_program_has_ended() {
        let estate = |inode, is_left| {
            let mut estate = Estate::of_program(&crate::scratch_tests::program().0);
            (estate.inode, estate.is_left) = (inode, is_left);
            estate
        };
        let estates = vec![estate(5, true), estate(6, false), estate(7, true)];
        let state = Mutex::new(TrustState { estates, ..TrustState::default() });
        let trusted = Trusted { state, child: None, before: HashSet::from([5, 6, 7]) };
        trusted.expect(&HashMap::from([(5, 2), (6, 1)]));
        assert_eq!(trusted.untaken(), 1);
        trusted.took(5);
        // Of the other channel.
        assert_eq!(trusted.untaken(), 1);
        trusted.took(5);
        assert_eq!(trusted.untaken(), 0);
        assert!(!trusted.holds(5) && trusted.holds(6));
    }
}

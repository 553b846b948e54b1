//! Questions about other processes that the kernel may leave unanswered for as long as a user likes.
//!
//! Most reads of `/proc/PID` wait for a lock that the process holds in execve(), and a file system of its user's own
//! (FUSE) can make that last for ever. So such questions are asked by separate threads. A thread that sleeps in one and
//! the same wait for too long is left behind, and another thread continues with the next question. Threads left behind
//! are counted by user; no question is asked about a user's processes while the user has too many of them. Nobody waits
//! for those threads: they end with this program.
//!
//! ```text
//! ask_all(questions) ── queue ──▶ a few threads: one question each, the result to its place
//!        │  every few ms: meanwhile()         │
//!        │  is a thread asleep in one wait    └─ Door::enter(): the limits of the user, once the process' owner is known
//!        │  for longer than its patience?
//!        └─ yes: LeftBehind (counted by user), a new thread takes the queue; the answer is an error
//! ```
//!
//! Only time asleep in one wait counts, and not time without a CPU: on a busy machine no process is given up. The
//! patience is short for facts that the kernel has in memory, and longer for reads that may need a disk or that concern
//! our own user. [`Errand`] is the same for one question whose answer is taken later, such as a write to a process'
//! code.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::processes::process::{read_proc, Status};

/// Longest time for which a thread may sleep in a question whose answer the kernel has in memory. After that, the
/// thread is left behind.
pub(crate) const PATIENCE: Duration = Duration::from_millis(40);

/// Longest time for which a thread may sleep in a question that may need a disk, or is about a process of our own
/// user, or one that this program's user has named.
pub(crate) const DISK_PATIENCE: Duration = Duration::from_secs(1);

/// Limit on the total sleep for questions about one user's processes in one call of [`ask_all`], as a multiple of
/// the patience for one question.
const PATIENCES_OF_USER: u32 = 3;

/// Period at which the waiting thread checks the asking thread.
const STEP: Duration = Duration::from_millis(10);

/// The most threads that may be left behind for one user.
pub(crate) const OF_USER_MAX: usize = 4;

/// The most threads that may be left behind for all users but our own.
pub(crate) const OF_ALL_MAX: usize = 64;

/// The most threads that are kept for further questions.
const IDLE_MAX: usize = 2;

const STACK_BYTES: usize = 256 << 10;

// ---- who is left behind ----

/// For each user, the processes whose questions left a thread behind; `None` stands for a process that may still
/// answer.
type LeftThreads = BTreeMap<u32, Vec<Option<u32>>>;

static LEFT: Mutex<LeftThreads> = Mutex::new(BTreeMap::new());

fn left() -> MutexGuard<'static, LeftThreads> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks whether questions about process `pid` of user `uid` may be asked.
///
/// # Errors
/// [`Error::Held`]: a thread is left behind for this process. [`Error::UserHeld`], [`Error::AllHeld`].
pub(crate) fn may_ask(pid: u32, uid: u32) -> Result<(), Error> {
    judged(&left(), pid, uid, rustix::process::geteuid().as_raw())
}

fn judged(left: &LeftThreads, pid: u32, uid: u32, ours: u32) -> Result<(), Error> {
    if left.is_empty() {
        return Ok(());
    }
    let of_user = left.get(&uid).map_or(&[][..], Vec::as_slice);
    if of_user.contains(&Some(pid)) {
        return Err(Error::Held { pid });
    }
    if of_user.len() >= OF_USER_MAX {
        return Err(Error::UserHeld { pid, uid });
    }
    let others = left.iter().filter(|(user, _)| **user != ours).map(|(_, pids)| pids.len());
    match uid != ours && others.sum::<usize>() >= OF_ALL_MAX {
        true => Err(Error::AllHeld { pid, limit: OF_ALL_MAX }),
        false => Ok(()),
    }
}

/// Count of one thread that is left behind; dropping it ends the count.
#[derive(Debug)]
pub(crate) struct LeftBehind {
    pid: Option<u32>,
    uid: u32,
}

impl LeftBehind {
    /// Counts a thread as left behind for user `uid`; `pid`: the process that certainly does not answer; `None` if it
    /// may still answer.
    pub fn new(pid: Option<u32>, uid: u32) -> LeftBehind {
        left().entry(uid).or_default().push(pid);
        LeftBehind { pid, uid }
    }
}

impl Drop for LeftBehind {
    fn drop(&mut self) {
        let mut left = left();
        let Some(pids) = left.get_mut(&self.uid) else { return };
        if let Some(place) = pids.iter().position(|pid| *pid == self.pid) {
            pids.swap_remove(place);
        }
        if pids.is_empty() {
            left.remove(&self.uid);
        }
    }
}

// ---- threads ----

type ThreadJob = Box<dyn FnOnce() + Send>;
/// Request for a new thread, with the channel on which the thread is returned.
type ThreadRequest = Sender<io::Result<Sender<ThreadJob>>>;

struct AskingThreads {
    idle: Vec<Sender<ThreadJob>>,
    maker: Option<Sender<ThreadRequest>>,
    /// Number that changes with the rights with which threads ask. A thread with an older number ends.
    generation: u32,
}

static THREADS: Mutex<AskingThreads> =
    Mutex::new(AskingThreads { idle: Vec::new(), maker: None, generation: 0 });

fn threads() -> MutexGuard<'static, AskingThreads> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes all later questions about other processes, and accesses to their code, use the rights of the calling thread.
///
/// # Errors
/// No thread could be made.
pub fn ask_with_these_rights() -> io::Result<()> {
    let mut threads = threads();
    let generation = threads.generation.wrapping_add(1);
    *threads =
        AskingThreads { idle: Vec::new(), maker: Some(start_maker(generation)?), generation };
    Ok(())
}

/// Runs the job in an idle or a new thread.
fn submit(mut job: ThreadJob) -> io::Result<()> {
    let mut threads = threads();
    while let Some(idle) = threads.idle.pop() {
        match idle.send(job) {
            Ok(()) => return Ok(()),
            Err(mpsc::SendError(back)) => job = back,
        }
    }
    // A thread inherits the rights of the thread that makes it.
    let maker = match &threads.maker {
        Some(maker) => maker.clone(),
        None => {
            let maker = start_maker(threads.generation)?;
            threads.maker.insert(maker).clone()
        }
    };
    drop(threads);
    let (answer, made) = mpsc::channel();
    let _ = maker.send(answer);
    let thread = made.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
    thread.send(job).map_err(|_| io::ErrorKind::BrokenPipe.into())
}

/// Starts a thread that only makes threads, so that it always answers.
fn start_maker(generation: u32) -> io::Result<Sender<ThreadRequest>> {
    let (sender, requests) = mpsc::channel::<ThreadRequest>();
    let thread = std::thread::Builder::new().name("strata-maker".to_owned()).stack_size(64 << 10);
    thread.spawn(move || {
        while let Ok(answer) = requests.recv() {
            let _ = answer.send(start_thread(generation));
        }
    })?;
    Ok(sender)
}

fn start_thread(generation: u32) -> io::Result<Sender<ThreadJob>> {
    let (sender, mut jobs) = mpsc::channel::<ThreadJob>();
    let thread = std::thread::Builder::new().name("strata-asker".to_owned());
    thread.stack_size(STACK_BYTES).spawn(move || {
        while let Ok(job) = jobs.recv() {
            job();
            let (next, receiver) = mpsc::channel();
            let mut threads = threads();
            if threads.generation != generation || threads.idle.len() >= IDLE_MAX {
                return;
            }
            threads.idle.push(next);
            jobs = receiver;
        }
    })?;
    Ok(sender)
}

/// Returns the longest wait for a process of this user.
fn patience_with(uid: Option<u32>, patience: Duration) -> Duration {
    match uid == Some(rustix::process::geteuid().as_raw()) {
        true => patience.max(DISK_PATIENCE),
        false => patience,
    }
}

/// Returns true if a sleeping thread of ours waits for memory that it has touched, outside of a system call. Such
/// memory is that of our own program, read from a disk, so no process is to blame.
fn waits_for_memory(tid: u32) -> bool {
    read_proc(format!("/proc/self/task/{tid}/syscall")).is_ok_and(|text| text.starts_with(b"-1 "))
}

/// Returns how often our thread `tid` has gone to sleep, if it sleeps now; `None` if it is awake.
fn asleep(tid: u32) -> Option<u64> {
    let text = read_proc(format!("/proc/self/task/{tid}/status")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let value = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
    };
    match value("State") {
        Some(state) if state.starts_with(['R', 'T', 't']) => None,
        // A thread whose status cannot be read counts as asleep.
        _ => Some(value("voluntary_ctxt_switches").and_then(|n| n.parse().ok()).unwrap_or(0)),
    }
}

// ---- questions ----

/// The state of a set of questions, shared by the asking threads and the thread that waits for the answers.
struct Desk<Q, A> {
    state: Mutex<AskingState<Q, A>>,
    changed: Condvar,
    ask: Box<AskOne<Q, A>>,
}

type AskOne<Q, A> = dyn Fn(Q, &Door<'_>) -> Result<A, Error> + Send + Sync;

struct AskingState<Q, A> {
    /// Queue of questions: number of the question, process, question.
    queue: VecDeque<(usize, u32, Q)>,
    answers: Vec<Option<Result<A, Error>>>,
    /// Question that the thread in charge is working on.
    asking: Option<Asking>,
    /// Number of the thread in charge; threads with lower numbers are left behind.
    in_charge: usize,
    left: BTreeMap<usize, LeftBehind>,
    /// Users whose limit on sleep is used up.
    refused: BTreeSet<u32>,
    is_done: bool,
}

#[derive(Clone, Copy, Debug)]
struct Asking {
    number: usize,
    pid: u32,
    uid: Option<u32>,
    tid: u32,
}

/// The check that a question must pass before it makes a system call that may block.
pub(crate) struct Door<'a> {
    pid: u32,
    /// Function that reports the process's user to the waiting thread. Returns false if that user's limit is used up.
    tell: &'a dyn Fn(u32) -> bool,
}

impl Door<'_> {
    /// Checks whether a process that belongs to user `uid` may be asked. Before this call, a question may only read
    /// files that never block: the files `status` and `comm`, and the owners of files.
    ///
    /// # Errors
    /// As [`may_ask`].
    pub fn enter(&self, uid: u32) -> Result<(), Error> {
        may_ask(self.pid, uid)?;
        match (self.tell)(uid) {
            true => Ok(()),
            false => Err(Error::UserHeld { pid: self.pid, uid }),
        }
    }
}

impl<Q, A> Desk<Q, A> {
    fn lock(&self) -> MutexGuard<'_, AskingState<Q, A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that answers the queries which arrive at a [`Desk`], one at a time.
struct Seat<Q, A> {
    desk: Arc<Desk<Q, A>>,
    number: usize,
}

impl<Q, A> Seat<Q, A> {
    fn work(&self) {
        let desk = &self.desk;
        let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let mut last = None;
        loop {
            let mut state = desk.lock();
            if state.in_charge != self.number {
                // Drop the answer to a question that was given up after the lock is released.
                drop(state);
                return;
            }
            if let Some((number, answer)) = last.take() {
                state.answers[number] = Some(answer);
            }
            let Some((number, pid, question)) = state.queue.pop_front() else { return };
            state.asking = Some(Asking { number, pid, uid: None, tid });
            drop(state);
            let tell = |uid| {
                let mut state = desk.lock();
                if state.in_charge == self.number {
                    state.asking = Some(Asking { number, pid, uid: Some(uid), tid });
                }
                !state.refused.contains(&uid)
            };
            let door = Door { pid, tell: &tell };
            last = Some((number, (desk.ask)(question, &door)));
        }
    }
}

impl<Q, A> Drop for Seat<Q, A> {
    fn drop(&mut self) {
        // Before the end is reported: whoever hears of it may ask about the same process again.
        let left = self.desk.lock().left.remove(&self.number);
        drop(left);
        let mut state = self.desk.lock();
        if state.in_charge == self.number {
            state.is_done = true;
            drop(state);
            self.desk.changed.notify_all();
        }
    }
}

/// Results of [`ask_all`].
pub(crate) struct Answers<A> {
    /// One result for each question that was asked, in the order of the questions.
    pub all: Vec<Result<A, Error>>,
    /// Time that was spent waiting for threads that were then left behind.
    pub waited: Duration,
}

/// Asks each question about the process whose id is given with it, in separate threads. Meanwhile, calls `meanwhile`
/// every few milliseconds with the number of questions asked; when that returns `Break`, the remaining questions are
/// not asked and have no answer. A question whose thread sleeps in one wait for `patience` is given up.
///
/// # Errors
/// For each question, its own error, or [`Error::Held`] if it was given up. `ask` must pass the [`Door`].
pub(crate) fn ask_all<Q: Send + 'static, A: Send + 'static>(
    questions: Vec<(u32, Q)>,
    patience: Duration,
    ask: impl Fn(Q, &Door<'_>) -> Result<A, Error> + Send + Sync + 'static,
    meanwhile: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Answers<A> {
    let pids: Vec<u32> = questions.iter().map(|(pid, _)| *pid).collect();
    if pids.is_empty() {
        return Answers { all: Vec::new(), waited: Duration::ZERO };
    }
    let queue = questions.into_iter().enumerate();
    let queue = queue.map(|(number, (pid, question))| (number, pid, question)).collect();
    let state = AskingState {
        queue,
        answers: pids.iter().map(|_| None).collect(),
        asking: None,
        in_charge: 0,
        left: BTreeMap::new(),
        refused: BTreeSet::new(),
        is_done: false,
    };
    let (state, changed) = (Mutex::new(state), Condvar::new());
    let desk = Arc::new(Desk { state, changed, ask: Box::new(ask) });
    let (mut waited, mut asked) = (Duration::ZERO, pids.len());
    let meanwhile = &mut |looked| {
        let flow = meanwhile(looked);
        if flow.is_break() {
            let mut state = desk.lock();
            asked = asked.saturating_sub(state.queue.len());
            state.queue.clear();
        }
    };
    let failure = watch(&desk, patience, meanwhile, &mut waited).err();
    let mut state = desk.lock();
    // From here on, no thread is in charge.
    state.in_charge = usize::MAX;
    let answers = std::mem::take(&mut state.answers);
    drop(state);
    let unanswered = |pid| {
        let code = failure.as_ref().and_then(io::Error::raw_os_error).unwrap_or(libc::EAGAIN);
        let source = io::Error::from_raw_os_error(code);
        Err(Error::System { pid, what: "making a thread that asks for it", source })
    };
    let answers = answers.into_iter().zip(pids).take(asked);
    let all = answers.map(|(answer, pid)| answer.unwrap_or_else(|| unanswered(pid))).collect();
    Answers { all, waited }
}

/// Asks a question about each process, as [`ask_all`] does. Returns the answers that were given, with their processes.
pub fn ask_each<A: Send + 'static>(
    pids: &[u32],
    question: impl Fn(u32) -> Option<A> + Send + Sync + 'static,
) -> Vec<(u32, A)> {
    ask_each_for(PATIENCE, pids, question)
}

/// Asks each process as [`ask_each`] does, with another patience.
pub(crate) fn ask_each_for<A: Send + 'static>(
    patience: Duration,
    pids: &[u32],
    question: impl Fn(u32) -> Option<A> + Send + Sync + 'static,
) -> Vec<(u32, A)> {
    let questions = pids.iter().map(|pid| (*pid, *pid)).collect();
    let ask = move |pid, door: &Door<'_>| match Status::read(pid) {
        Ok(Some(status)) => door.enter(status.uids[0]).map(|()| question(pid)),
        _ => Ok(None),
    };
    let go_on = &mut |_| ControlFlow::Continue(());
    let answers = ask_all(questions, patience, ask, go_on).all;
    pids.iter().zip(answers).filter_map(|(pid, answer)| Some((*pid, answer.ok()??))).collect()
}

type Once<A> = Box<dyn FnOnce(&Door<'_>) -> Result<A, Error> + Send>;

/// A question to the kernel whose answer need not be waited for. Its thread continues after [`leave`](Self::leave),
/// and then counts as left behind. Dropping the errand drops the answer.
pub(crate) struct Errand<A> {
    desk: Arc<Desk<Once<A>, A>>,
    pid: u32,
    uid: u32,
}

impl<A> std::fmt::Debug for Errand<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Errand of process {}", self.pid)
    }
}

/// For each user, the start of the current period and the time in it that this program has waited for the user's
/// errands.
static WAITED: Mutex<BTreeMap<u32, (Instant, Duration)>> = Mutex::new(BTreeMap::new());

/// Returns a limit of `seconds`; in this crate's tests, a time that even a busy machine does not exceed.
const fn unless_testing(seconds: u64) -> u64 {
    match cfg!(test) {
        true => 60,
        false => seconds,
    }
}

/// Longest wait in one period for all errands of one user.
pub(crate) const WAIT_OF_USER: Duration = Duration::from_secs(unless_testing(1));

const WAIT_PERIOD: Duration = Duration::from_secs(10);

/// The most users whose waiting time is counted; errands of further users are not waited for.
const WAITED_MAX: usize = 1024;

/// Longest wait for an errand whose thread runs, or waits for a CPU only.
const WAIT_MAX: Duration = Duration::from_secs(unless_testing(2));

impl<A: Send + 'static> Errand<A> {
    /// Begins to ask the question about process `pid` of user `uid`.
    ///
    /// # Errors
    /// As [`may_ask`], and [`Error::System`].
    pub fn new(
        (pid, uid): (u32, u32),
        question: impl FnOnce() -> Result<A, Error> + Send + 'static,
    ) -> Result<Errand<A>, Error> {
        may_ask(pid, uid)?;
        let question: Once<A> = Box::new(move |_| question());
        let state = AskingState {
            queue: VecDeque::from([(0, pid, question)]),
            answers: vec![None],
            asking: None,
            in_charge: 0,
            left: BTreeMap::new(),
            refused: BTreeSet::new(),
            is_done: false,
        };
        let ask = |question: Once<A>, door: &Door<'_>| question(door);
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let desk = Arc::new(Desk { state, changed, ask: Box::new(ask) });
        let seat = Seat { desk: Arc::clone(&desk), number: 0 };
        let what = "making a thread that reads its code";
        submit(Box::new(move || seat.work())).map_err(|source| Error::System {
            pid,
            what,
            source,
        })?;
        Ok(Errand { desk, pid, uid })
    }

    /// Returns the answer, if it has arrived.
    pub fn answer(&self) -> Option<Result<A, Error>> {
        let mut state = self.desk.lock();
        state.is_done.then(|| {
            let pid = self.pid;
            state.answers[0].take().unwrap_or(Err(Error::Gone { pid }))
        })
    }

    /// Returns the answer if it arrives within the limits on waiting.
    pub fn wait(&self) -> Option<Result<A, Error>> {
        let begin = Instant::now();
        let mut seen: Option<(u64, Instant)> = None;
        loop {
            let state = self.desk.lock();
            let wait = self.desk.changed.wait_timeout_while(state, STEP, |state| !state.is_done);
            let (state, _) = wait.unwrap_or_else(PoisonError::into_inner);
            let (is_done, asking) = (state.is_done, state.asking);
            drop(state);
            if is_done {
                return self.answer();
            }
            let now = Instant::now();
            let slept = match (asking.and_then(|asking| asleep(asking.tid)), seen) {
                (Some(sleeps), Some((before, since))) if sleeps == before => now - since,
                (look, _) => {
                    seen = look.map(|sleeps| (sleeps, now));
                    Duration::ZERO
                }
            };
            let memory = asking.is_some_and(|asking| waits_for_memory(asking.tid));
            let patience = match memory {
                true => DISK_PATIENCE,
                false => patience_with(Some(self.uid), PATIENCE),
            };
            let hangs = !slept.is_zero() && (slept >= patience || !memory && !may_wait(self.uid));
            let is_over = hangs || begin.elapsed() >= WAIT_MAX;
            if is_over {
                return self.answer().or_else(|| {
                    self.count(Some(self.pid));
                    None
                });
            }
        }
    }

    /// Stops waiting. The answer may still arrive.
    pub fn leave(&self) {
        self.count(None);
    }

    /// Counts the thread as left behind from now on, unless it is done.
    fn count(&self, pid: Option<u32>) {
        let mut state = self.desk.lock();
        if !state.is_done && (pid.is_some() || state.left.is_empty()) {
            state.left.insert(0, LeftBehind::new(pid, self.uid));
        }
    }
}

/// Adds one step to the time waited for this user. Returns false if the limit is reached.
fn may_wait(uid: u32) -> bool {
    let mut waited = WAITED.lock().unwrap_or_else(PoisonError::into_inner);
    if waited.len() >= WAITED_MAX && !waited.contains_key(&uid) {
        return false;
    }
    let now = Instant::now();
    let (since, of_user) = waited.entry(uid).or_insert((now, Duration::ZERO));
    if now - *since >= WAIT_PERIOD {
        (*since, *of_user) = (now, Duration::ZERO);
    }
    *of_user += STEP;
    *of_user <= WAIT_OF_USER
}

/// The last observation of the thread in charge: its question, the number of its sleeps, and the time
/// since which both are unchanged.
struct SeenAsleep {
    number: usize,
    sleeps: u64,
    since: Instant,
}

/// Waits until all questions are answered or given up.
fn watch<Q: Send + 'static, A: Send + 'static>(
    desk: &Arc<Desk<Q, A>>,
    patience: Duration,
    meanwhile: &mut dyn FnMut(usize),
    waited: &mut Duration,
) -> io::Result<()> {
    let sit = |number| {
        let seat = Seat { desk: Arc::clone(desk), number };
        submit(Box::new(move || seat.work()))
    };
    sit(0)?;
    let (mut seen, mut last): (Option<SeenAsleep>, _) = (None, Instant::now());
    // Sleep by user: many short sleeps are as bad as one that never ends.
    let mut slept_of: BTreeMap<Option<u32>, Duration> = BTreeMap::new();
    loop {
        let state = desk.lock();
        let wait = desk.changed.wait_timeout_while(state, STEP, |state| !state.is_done);
        let (state, _) = wait.unwrap_or_else(PoisonError::into_inner);
        if state.is_done {
            return Ok(());
        }
        let asking = state.asking;
        drop(state);
        meanwhile(asking.map_or(0, |asking| asking.number));
        let Some(asking) = asking else { continue };
        let now = Instant::now();
        seen = asleep(asking.tid).map(|sleeps| match seen.take() {
            Some(seen) if seen.number == asking.number && seen.sleeps == sleeps => seen,
            _ => SeenAsleep { number: asking.number, sleeps, since: now },
        });
        let step = now - std::mem::replace(&mut last, now);
        let Some(SeenAsleep { since, .. }) = seen else { continue };
        let of_user = slept_of.entry(asking.uid).or_default();
        let patience = match waits_for_memory(asking.tid) {
            true => patience.max(DISK_PATIENCE),
            false => {
                *of_user += step.min(2 * STEP);
                patience_with(asking.uid, patience)
            }
        };
        let is_over = *of_user >= patience * PATIENCES_OF_USER;
        // A process that holds the lock and runs will release it; there may be many such processes.
        let runs = || matches!(Status::read(asking.pid), Ok(Some(status)) if status.is_running);
        let slept = now - since;
        if !is_over && (slept < patience || slept < 4 * patience && runs()) {
            continue;
        }
        // Threads left behind are counted on their own.
        *of_user = of_user.saturating_sub(slept);
        let mut state = desk.lock();
        let Some(asking) = state.asking.filter(|one| one.number == asking.number) else { continue };
        if state.is_done {
            return Ok(());
        }
        *waited += slept;
        state.refused.extend(asking.uid.filter(|_| is_over));
        let number = state.in_charge;
        let left = LeftBehind::new(Some(asking.pid), asking.uid.unwrap_or(u32::MAX));
        state.left.insert(number, left);
        state.answers[asking.number] = Some(Err(Error::Held { pid: asking.pid }));
        (state.asking, state.in_charge) = (None, number + 1);
        let is_last = state.queue.is_empty();
        drop(state);
        if is_last {
            return Ok(());
        }
        sit(number + 1)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, RecvTimeoutError};

    fn go_on(_: usize) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Users whom no other test of this process has.
    const UID: u32 = 61_100;
    /// Numbers that no process has.
    const NOBODY: u32 = 0x7000_0000;

    /// Blocks while the sender lives.
    fn hang(never: &Mutex<Receiver<()>>) {
        let never = never.lock().unwrap_or_else(PoisonError::into_inner);
        while never.recv_timeout(Duration::from_secs(3600)) == Err(RecvTimeoutError::Timeout) {}
    }

    /// Limit that no machine exceeds for a question that is answered.
    const FOR_EVER: Duration = Duration::from_secs(3600);

    fn ask<A: Send + 'static>(
        pid: u32,
        patience: Duration,
        question: impl Fn(&Door<'_>) -> Result<A, Error> + Send + Sync + 'static,
    ) -> Result<A, Error> {
        let question = move |(), door: &Door<'_>| question(door);
        ask_all(vec![(pid, ())], patience, question, &mut go_on).all.pop().unwrap()
    }

    /// Retries with more patience, and for other users, before a test fails: a busy machine may answer later than any
    /// patience that a test can wait for.
    fn holds_with_some_patience(uid: u32, holds: impl Fn(Duration, u32) -> Result<(), String>) {
        let mut patience = PATIENCE;
        let mut failures = Vec::new();
        for uid in (uid..).step_by(10).take(5) {
            match holds(patience, uid) {
                Ok(()) => return,
                Err(failure) => failures.push(format!("patience {patience:?}: {failure}")),
            }
            patience *= 2;
        }
        panic!("{failures:#?}");
    }

    fn wait_until_nobody_is_left_behind(uid: u32) {
        let end = Instant::now() + Duration::from_secs(60);
        while nr_left(uid) > 0 {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn nr_left(uid: u32) -> usize {
        left().get(&uid).map_or(0, Vec::len)
    }

    #[test]
    fn questions_are_answered_in_their_order_and_one_that_panics_ends_them() {
        let questions = (0..1000).map(|number| (NOBODY + number, number)).collect();
        let double = |number, door: &Door<'_>| door.enter(UID).map(|()| 2 * number);
        let answers = ask_all(questions, FOR_EVER, double, &mut go_on);
        let all: Vec<u32> = answers.all.into_iter().map(Result::unwrap).collect();
        assert_eq!(all, (0..1000).map(|number| 2 * number).collect::<Vec<u32>>());
        assert_eq!(answers.waited, Duration::ZERO);
        let questions = (0..3).map(|number| (NOBODY + number, number)).collect();
        let panics = |number, _: &Door<'_>| match number {
            // Without a message.
            1 => std::panic::resume_unwind(Box::new(())),
            _ => Ok(number),
        };
        let all = ask_all(questions, FOR_EVER, panics, &mut go_on).all;
        assert!(matches!(all[..], [Ok(0), Err(Error::System { .. }), Err(_)]), "{all:?}");
    }

    #[test]
    fn malicious_processes_that_hang_are_left_behind_up_to_the_limit_and_others_answer() {
        holds_with_some_patience(UID + 1, |patience, uid| {
            let (release, never) = mpsc::channel();
            let never = Arc::new(Mutex::new(never));
            let other = uid + 1;
            // Each but the fifth is of the user whose processes hang.
            let questions: Vec<(u32, u32)> = (0..10).map(|n| (NOBODY + 100 + n, n)).collect();
            let look = move |number, door: &Door<'_>| {
                door.enter(if number == 5 { other } else { uid })?;
                if number != 5 {
                    hang(&never);
                }
                Ok(number)
            };
            let mut looks = 0;
            let answers = ask_all(questions, patience, look, &mut |_| {
                looks += 1;
                ControlFlow::Continue(())
            });
            let limit = OF_USER_MAX as u32;
            for (number, answer) in (0..).zip(&answers.all) {
                let is_expected = match answer {
                    Ok(5) => number == 5,
                    Err(Error::Held { pid }) => number < limit && *pid == NOBODY + 100 + number,
                    Err(Error::UserHeld { pid, uid: of }) => {
                        number >= limit && *of == uid && *pid == NOBODY + 100 + number
                    }
                    _ => false,
                };
                if !is_expected {
                    return Err(format!("{number}: {answer:?}"));
                }
            }
            assert!(answers.waited >= patience * limit, "{:?}", answers.waited);
            if looks < 4 * limit {
                return Err(format!("only {looks} looks"));
            }
            assert_eq!((nr_left(uid), nr_left(other)), (OF_USER_MAX, 0));
            // At once: nobody waits a second time.
            let again = move |door: &Door<'_>| door.enter(uid);
            let held = ask(NOBODY + 100, FOR_EVER, again);
            assert!(matches!(held, Err(Error::Held { .. })), "{held:?}");
            let held = ask(NOBODY + 200, FOR_EVER, again);
            assert!(matches!(held, Err(Error::UserHeld { .. })), "{held:?}");
            // They come back, and the user's processes are asked again.
            drop(release);
            wait_until_nobody_is_left_behind(uid);
            assert!(matches!(ask(NOBODY + 100, FOR_EVER, again), Ok(())));
            Ok(())
        });
    }

    #[test]
    fn malicious_processes_that_answer_late_each_time_have_a_limit_together() {
        holds_with_some_patience(UID + 6, |patience, uid| {
            let questions: Vec<(u32, ())> = (0..200).map(|n| (NOBODY + 600 + n, ())).collect();
            let late = move |(), door: &Door<'_>| {
                door.enter(uid)?;
                // Time: each of them is a late answer.
                std::thread::sleep(patience * 3 / 4);
                Ok(())
            };
            let answers = ask_all(questions, patience, late, &mut go_on).all;
            // All of them would take 150 patiences. How many a busy machine sees asleep, nobody knows.
            let refused =
                |answer: &&Result<(), Error>| matches!(answer, Err(Error::UserHeld { .. }));
            match answers.iter().filter(refused).count() {
                101.. => Ok(()),
                refused => Err(format!("only {refused} of 200")),
            }
        });
    }

    #[test]
    fn question_that_takes_long_and_does_not_sleep_is_waited_for() {
        holds_with_some_patience(UID + 3, |patience, uid| {
            let works = move |door: &Door<'_>| {
                door.enter(uid)?;
                let end = Instant::now() + 3 * patience;
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
                // Short waits, as those for a disk, are none for ever.
                let end = Instant::now() + patience * 3 / 2;
                while Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Ok(7)
            };
            match ask(NOBODY + 300, patience, works) {
                Ok(7) => Ok(()),
                answer => Err(format!("{answer:?}")),
            }
        });
    }

    #[test]
    fn process_of_our_own_user_is_waited_for_longer() {
        holds_with_some_patience(UID + 7, |patience, _| {
            let late = move |door: &Door<'_>| {
                door.enter(rustix::process::geteuid().as_raw())?;
                // Time: a late answer, after less than a second.
                std::thread::sleep(patience * 2);
                Ok(())
            };
            ask(NOBODY + 700, patience, late).map_err(|error| format!("{error:?}"))
        });
    }

    /// A page that stays away until it is asked for: userfaultfd(2). `None`: this process may not have it.
    fn absent_page() -> Option<(std::fs::File, usize)> {
        use std::os::fd::{AsRawFd, FromRawFd};
        const UFFD_USER_MODE_ONLY: libc::c_int = 1;
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | UFFD_USER_MODE_ONLY;
        // SAFETY: no memory is involved.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        // SAFETY: it is new, and ours.
        let file = (fd >= 0).then(|| unsafe { std::fs::File::from_raw_fd(fd as i32) })?;
        let (rights, kind) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, rights, kind, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        // struct uffdio_api, struct uffdio_register for missing pages
        let (mut api, mut register) = ([0xaa_u64, 0, 0], [page as u64, 4096, 1, 0]);
        // SAFETY: as large as the kernel's.
        let begun = unsafe { libc::ioctl(file.as_raw_fd(), 0xc018_aa3f, api.as_mut_ptr()) };
        // SAFETY: the same.
        let known = unsafe { libc::ioctl(file.as_raw_fd(), 0xc020_aa00, register.as_mut_ptr()) };
        assert_eq!((begun, known), (0, 0));
        Some((file, page as usize))
    }

    #[test]
    fn thread_that_waits_for_its_own_memory_is_waited_for_longer() {
        use std::os::fd::AsRawFd;
        holds_with_some_patience(UID + 8, |patience, uid| {
            let Some((file, page)) = absent_page() else {
                eprintln!("skip: userfaultfd(2) is not allowed");
                return Ok(());
            };
            let touches = move |door: &Door<'_>| {
                door.enter(uid)?;
                // SAFETY: mapped below, until the answer is there.
                Ok(unsafe { std::ptr::read_volatile(page as *const u8) })
            };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // Time: less than a second, and more than a user gets.
                    std::thread::sleep(patience * 13 / 4);
                    let mut zero = [page as u64, 4096, 0, 0];
                    // SAFETY: struct uffdio_zeropage, for a page that is mapped.
                    unsafe { libc::ioctl(file.as_raw_fd(), 0xc020_aa04, zero.as_mut_ptr()) }
                });
                let answer = ask(NOBODY + 800, patience, touches);
                answer.map(|_| ()).map_err(|error| format!("{error:?}"))
            })
        });
    }

    #[test]
    fn malicious_errands_that_hang_are_waited_for_so_long_of_each_user_and_answered_later() {
        let (release, never) = mpsc::channel();
        let never = Arc::new(Mutex::new(never));
        let (uid, other) = (UID + 4, UID + 5);
        let errand = |number| {
            let never = Arc::clone(&never);
            let work = move || {
                hang(&never);
                Ok(number)
            };
            Errand::new((NOBODY + 400 + number, uid), work)
        };
        let begin = Instant::now();
        let errands: Vec<Errand<u32>> =
            (0..OF_USER_MAX as u32).map(|n| errand(n).unwrap()).collect();
        assert!(errands.iter().all(|errand| errand.wait().is_none()));
        assert!(begin.elapsed() >= PATIENCE);
        assert_eq!(nr_left(uid), OF_USER_MAX);
        let same = errand(0);
        assert!(matches!(same, Err(Error::Held { .. })), "{same:?}");
        let more = errand(9);
        assert!(matches!(more, Err(Error::UserHeld { .. })), "{more:?}");
        // Another user's is done meanwhile.
        holds_with_some_patience(other, |_, other| {
            let fine = Errand::new((NOBODY + 500, other), || Ok(1)).unwrap();
            match fine.wait() {
                Some(Ok(1)) => (),
                answer => return Err(format!("{answer:?}")),
            }
            assert_eq!(nr_left(other), 0);
            Ok(())
        });
        drop(release);
        let end = Instant::now() + Duration::from_secs(60);
        for (number, errand) in (0..).zip(&errands) {
            let answer = loop {
                assert!(Instant::now() < end);
                match errand.answer() {
                    Some(answer) => break answer,
                    // Time: between two looks.
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            assert_eq!(answer.unwrap(), number);
        }
        assert_eq!(nr_left(uid), 0);
    }

    #[test]
    fn limit_of_all_users_leaves_our_own_user_its_share() {
        let users = u32::try_from(OF_ALL_MAX / OF_USER_MAX).unwrap();
        let mut left: LeftThreads = (1..=users).map(|uid| (uid, vec![None; OF_USER_MAX])).collect();
        let all = judged(&left, 8, 1000, 0);
        assert!(matches!(all, Err(Error::AllHeld { pid: 8, limit: OF_ALL_MAX })), "{all:?}");
        assert!(judged(&left, 8, 0, 0).is_ok());
        left.insert(0, vec![None; OF_USER_MAX]);
        assert!(matches!(judged(&left, 8, 0, 0), Err(Error::UserHeld { uid: 0, .. })));
        left.remove(&1);
        assert!(judged(&left, 8, 1000, 0).is_ok());
    }
}

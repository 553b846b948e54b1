//! Questions about other processes that the kernel may not answer for as long as a user likes.
//!
//! Most of what /proc tells of a process by its number waits for a lock that the process holds in execve(), and
//! a file system of its user's own (FUSE) can hold it there. So these questions are asked by threads of their
//! own. One that sleeps in one and the same wait is left behind: another one goes on with the next question.
//! How many are left behind is counted by user; of a user who has too many, nothing more is asked until one of
//! them has come back. Nobody waits for those: all these waits end with this program.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::process::Status;

/// How long a thread may sleep in one wait for what the kernel knows by heart, before it is left behind.
pub(crate) const PATIENCE: Duration = Duration::from_millis(40);

/// The same for what may have to be read from a disk.
pub(crate) const DISK_PATIENCE: Duration = Duration::from_secs(1);

/// How often who waits looks at the thread.
const STEP: Duration = Duration::from_millis(10);

/// Threads that may be left behind for one user.
pub(crate) const OF_USER_MAX: usize = 4;

/// The same for all users but our own, whose share nobody else can take.
pub(crate) const OF_ALL_MAX: usize = 64;

/// Threads that wait for further questions.
const IDLE_MAX: usize = 2;

const STACK_BYTES: usize = 256 << 10;

// ---- who is left behind ----

/// For each user: the processes that a thread was left behind for.
static LEFT: Mutex<BTreeMap<u32, Vec<u32>>> = Mutex::new(BTreeMap::new());

fn left() -> MutexGuard<'static, BTreeMap<u32, Vec<u32>>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// May something be asked of this process of this user?
///
/// # Errors
/// [`Error::Held`]: a thread is left behind for it already. [`Error::UserHeld`], [`Error::AllHeld`].
pub(crate) fn may_ask(pid: u32, uid: u32) -> Result<(), Error> {
    judged(&left(), pid, uid, rustix::process::geteuid().as_raw())
}

fn judged(left: &BTreeMap<u32, Vec<u32>>, pid: u32, uid: u32, ours: u32) -> Result<(), Error> {
    if left.is_empty() {
        return Ok(());
    }
    let of_user = left.get(&uid).map_or(&[][..], Vec::as_slice);
    if of_user.contains(&pid) {
        return Err(Error::Held { pid });
    }
    if of_user.len() >= OF_USER_MAX {
        return Err(Error::UserHeld { pid, uid, limit: OF_USER_MAX });
    }
    let others = left.iter().filter(|(user, _)| **user != ours).map(|(_, pids)| pids.len());
    match uid != ours && others.sum::<usize>() >= OF_ALL_MAX {
        true => Err(Error::AllHeld { pid, limit: OF_ALL_MAX }),
        false => Ok(()),
    }
}

/// A thread that is left behind, until it is dropped.
#[derive(Debug)]
struct LeftBehind {
    pid: u32,
    uid: u32,
}

impl LeftBehind {
    fn new(pid: u32, uid: u32) -> LeftBehind {
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

type Job = Box<dyn FnOnce() + Send>;
/// Where the new thread shall be sent.
type Request = Sender<io::Result<Sender<Job>>>;

struct Threads {
    idle: Vec<Sender<Job>>,
    maker: Option<Sender<Request>>,
    /// Changes with the rights that they have.
    generation: u32,
}

static THREADS: Mutex<Threads> =
    Mutex::new(Threads { idle: Vec::new(), maker: None, generation: 0 });

fn threads() -> MutexGuard<'static, Threads> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on other processes are asked, and their code is opened, with the rights that this thread has,
/// whoever wants to know.
///
/// # Errors
/// What the system said: no thread could be made.
pub fn ask_with_these_rights() -> io::Result<()> {
    let mut threads = threads();
    let generation = threads.generation.wrapping_add(1);
    *threads = Threads { idle: Vec::new(), maker: Some(start_maker(generation)?), generation };
    Ok(())
}

/// Has a thread do this.
fn submit(mut job: Job) -> io::Result<()> {
    let mut threads = threads();
    while let Some(idle) = threads.idle.pop() {
        match idle.send(job) {
            Ok(()) => return Ok(()),
            Err(mpsc::SendError(back)) => job = back,
        }
    }
    // A thread has the rights of who makes it.
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

/// It makes threads and does nothing else, so it always answers.
fn start_maker(generation: u32) -> io::Result<Sender<Request>> {
    let (sender, requests) = mpsc::channel::<Request>();
    let thread = std::thread::Builder::new().name("strata-maker".to_owned()).stack_size(64 << 10);
    thread.spawn(move || {
        while let Ok(answer) = requests.recv() {
            let _ = answer.send(start_thread(generation));
        }
    })?;
    Ok(sender)
}

fn start_thread(generation: u32) -> io::Result<Sender<Job>> {
    let (sender, mut jobs) = mpsc::channel::<Job>();
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

/// How often a thread of ours has gone to sleep, if it sleeps now; `None`: it does not.
fn asleep(tid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap_or_default();
    let value = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
    };
    match value("State") {
        Some(state) if state.starts_with(['R', 'T', 't']) => None,
        // Not to be seen is as good as asleep: it does not answer.
        _ => Some(value("voluntary_ctxt_switches").and_then(|n| n.parse().ok()).unwrap_or(0)),
    }
}

// ---- questions ----

/// What those who ask and who waits for them share.
struct Desk<Q, A> {
    state: Mutex<State<Q, A>>,
    changed: Condvar,
    ask: Box<AskOne<Q, A>>,
}

type AskOne<Q, A> = dyn Fn(Q, &Door<'_>) -> Result<A, Error> + Send + Sync;

struct State<Q, A> {
    /// Number, process, question.
    queue: VecDeque<(usize, u32, Q)>,
    answers: Vec<Option<Result<A, Error>>>,
    /// What the thread in charge is at.
    asking: Option<Asking>,
    /// The number of the thread in charge; those before it are left behind.
    in_charge: usize,
    left: BTreeMap<usize, LeftBehind>,
    is_done: bool,
}

#[derive(Clone, Copy, Debug)]
struct Asking {
    number: usize,
    pid: u32,
    uid: Option<u32>,
    tid: u32,
}

/// What a question passes before it asks what may not be answered.
pub(crate) struct Door<'a> {
    pid: u32,
    /// Says whose process it is.
    tell: &'a dyn Fn(u32),
}

impl Door<'_> {
    /// The process belongs to this user: may it be asked? Before, only what is always answered may be asked:
    /// the files `status` and `comm`, and who owns files.
    ///
    /// # Errors
    /// As [`may_ask`].
    pub fn enter(&self, uid: u32) -> Result<(), Error> {
        may_ask(self.pid, uid)?;
        (self.tell)(uid);
        Ok(())
    }
}

impl<Q, A> Desk<Q, A> {
    fn lock(&self) -> MutexGuard<'_, State<Q, A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread at a desk, until it is dropped.
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
                // What a question that was given up has found is let go without the lock.
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
            };
            let door = Door { pid, tell: &tell };
            last = Some((number, (desk.ask)(question, &door)));
        }
    }
}

impl<Q, A> Drop for Seat<Q, A> {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        if state.in_charge == self.number {
            state.is_done = true;
            self.desk.changed.notify_all();
        }
        let left = state.left.remove(&self.number);
        drop(state);
        drop(left);
    }
}

/// What questions were answered with.
pub(crate) struct Answers<A> {
    /// In the order of the questions.
    pub all: Vec<Result<A, Error>>,
    /// For those who were left behind, without doing anything.
    pub waited: Duration,
}

/// Asks each of these questions, of the process beside it, in threads of their own. `meanwhile` is called every
/// few milliseconds as long as that takes, with the number of those that were asked; when it breaks, no more are
/// asked, and there are fewer answers than questions. A question whose thread sleeps in one wait for `patience` is
/// given up.
///
/// # Errors
/// For each question: its own, and [`Error::Held`]. `ask` has to pass the [`Door`].
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
    let state = State {
        queue,
        answers: pids.iter().map(|_| None).collect(),
        asking: None,
        in_charge: 0,
        left: BTreeMap::new(),
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
    // Nobody is in charge any more.
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

/// Asks something of each of these processes, as [`ask_all`] does; of the answers, those that came.
pub fn ask_each<A: Send + 'static>(
    pids: &[u32],
    question: impl Fn(u32) -> Option<A> + Send + Sync + 'static,
) -> Vec<(u32, A)> {
    ask_each_for(PATIENCE, pids, question)
}

/// The same with another patience.
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

/// One question, as [`ask_all`] asks it.
///
/// # Errors
/// As there.
pub(crate) fn ask<A: Send + 'static>(
    pid: u32,
    patience: Duration,
    question: impl FnOnce(&Door<'_>) -> Result<A, Error> + Send + 'static,
    meanwhile: &mut dyn FnMut(),
) -> Result<A, Error> {
    type Question<A> = Box<dyn FnOnce(&Door<'_>) -> Result<A, Error> + Send>;
    let questions: Vec<(u32, Question<A>)> = vec![(pid, Box::new(question))];
    let meanwhile = &mut |_| {
        meanwhile();
        ControlFlow::Continue(())
    };
    let mut answers = ask_all(questions, patience, |question, door| question(door), meanwhile);
    answers.all.pop().unwrap_or(Err(Error::Gone { pid }))
}

/// What was seen of the thread in charge: at this question, so often asleep, from then on.
struct Seen {
    number: usize,
    sleeps: u64,
    since: Instant,
}

/// Until all is answered or given up.
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
    let mut seen: Option<Seen> = None;
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
            _ => Seen { number: asking.number, sleeps, since: now },
        });
        let Some(Seen { since, .. }) = seen else { continue };
        // Who has the lock and runs will go on; there may be many others.
        let runs = || matches!(Status::read(asking.pid), Ok(Some(status)) if status.is_running);
        let slept = now - since;
        if slept < patience || slept < 4 * patience && runs() {
            continue;
        }
        let mut state = desk.lock();
        let Some(asking) = state.asking.filter(|one| one.number == asking.number) else { continue };
        if state.is_done {
            return Ok(());
        }
        *waited += slept;
        let number = state.in_charge;
        let left = LeftBehind::new(asking.pid, asking.uid.unwrap_or(u32::MAX));
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

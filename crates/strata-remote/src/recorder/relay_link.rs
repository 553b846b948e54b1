//! The link between the threads that record and the thread that sends: the backlog, and the state of the connection.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{eventfd, EventfdFlags};
use strata_collect::Error;
use strata_relay::{FromRecorder, FRAME_BYTES_MAX};

use crate::recorder::backlog::{Backlog, Frame};
use crate::recorder::spool::Spool;

/// The most bytes that wait for the relay in memory \[byte\]. Half of them are a reserve for packets that arrive
/// while the recorder is told to wait.
pub const BACKLOG_BYTES: usize = 64 << 20;
/// Longest silence of the relay at the end of a recording.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Longest time that the end of a recording waits for a relay that answers but acknowledges no further message, for
/// example because its disk is slow.
const STALL: Duration = Duration::from_secs(120);
/// Period at which a waiting thread checks whether it must still wait.
const LOOK_PERIOD: Duration = Duration::from_millis(50);

/// Function that returns true if the recording must not wait for its relay any longer.
pub type IsOver = Box<dyn Fn() -> bool + Send>;

/// The link of one recording to its relay.
#[derive(Debug)]
pub struct Link {
    path: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
    /// Descriptor that wakes the thread that sends.
    wake: OwnedFd,
}

#[derive(Default)]
struct State {
    backlog: Backlog,
    is_connected: bool,
    /// The reason why there is no connection; `None` if there is one.
    problem: Option<String>,
    /// The reason why nothing more is sent, for good; `None` if sending continues.
    failure: Option<String>,
    /// Number of connections that broke.
    breaks: u64,
    /// True if the recording is ending, so that writers wait for room in the backlog.
    is_ending: bool,
    /// True if all messages of the recording are in the backlog.
    is_complete: bool,
    /// True if the recording has ended without waiting for the remaining messages.
    is_abandoned: bool,
    /// The relay's last signs of life, by which the end of the recording stops waiting. `None` until the first
    /// acknowledgement, or until the end begins.
    patience: Option<Patience>,
    /// Function that returns true to stop waiting at the end of the recording; `None` before the end.
    is_over: Option<IsOver>,
    /// Total time without a connection, before the present connection.
    away: Duration,
    away_since: Option<Instant>,
    /// The records that the relay discards because this host's share of its space is used up.
    quota: QuotaLook,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("backlog", &self.backlog).finish_non_exhaustive()
    }
}

/// Times of a relay's last signs of life, for limits on waiting.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Time of the last acknowledgement, even one that repeats an earlier one.
    heard: Instant,
    /// Time at which the relay last acknowledged a further message.
    advanced: Instant,
}

impl Patience {
    fn new(now: Instant) -> Patience {
        Patience { heard: now, advanced: now }
    }

    /// Notes an acknowledgement. `is_further`: true if it acknowledges messages for the first time.
    fn hear(&mut self, now: Instant, is_further: bool) {
        self.heard = now;
        if is_further {
            self.advanced = now;
        }
    }

    fn is_exhausted(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.heard) > PATIENCE
            || now.saturating_duration_since(self.advanced) > STALL
    }
}

impl State {
    /// Returns true if the spool has space for any message.
    fn has_spool(&self) -> bool {
        let free = self.backlog.spool().map_or(0, Spool::free_bytes);
        free >= FRAME_BYTES_MAX as u64 + 4096
    }

    fn hear(&mut self, is_further: bool) {
        let now = Instant::now();
        self.patience.get_or_insert(Patience::new(now)).hear(now, is_further);
    }

    /// Returns whether the end of the recording has waited for the relay as long as it may.
    fn has_waited(&self) -> bool {
        self.patience.is_none_or(|patience| patience.is_exhausted(Instant::now()))
            || self.is_over.as_ref().is_some_and(|is_over| is_over())
    }
}

/// The records that a relay discards because this host's share of its space is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLook {
    /// Number of event records that were discarded so far.
    pub records: u64,
    /// True if the relay discards the packets that are sent now.
    pub is_full: bool,
}

/// State of the connection to a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkLook {
    /// True if there is a connection.
    pub is_connected: bool,
    /// The reason why there is no connection; `None` if there is one.
    pub problem: Option<String>,
    /// Number of connections that broke.
    pub breaks: u64,
    /// Total time without a connection.
    pub away: Duration,
    /// Number of messages that the relay has not acknowledged.
    pub messages: u64,
    /// Size of the messages in memory that the relay has not acknowledged \[byte\].
    pub bytes: usize,
    /// Size of the messages in the spool on the disk \[byte\].
    pub spooled: u64,
    /// Why the last message could not be written to the spool.
    pub spool_problem: Option<String>,
    /// The data that the relay does not store, since this host has used up its share of the relay's space.
    pub quota: QuotaLook,
}

impl Link {
    /// Creates the link to a relay. `name`: the relay's name in messages.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn new(name: &str) -> io::Result<Link> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (state, changed) = (Mutex::default(), Condvar::new());
        Ok(Link { path: PathBuf::from(name), state, changed, wake })
    }

    /// Notes that the sender tries to connect from now on.
    pub(crate) fn begin_to_connect(&self) {
        self.lock().away_since = Some(Instant::now());
    }

    /// Creates a spool of at most `most` bytes in `folder`. Messages are written to it while those in memory take
    /// half of their limit.
    ///
    /// # Errors
    /// A system call failed.
    pub(crate) fn set_spool(&self, folder: &Path, most: u64) -> io::Result<()> {
        let spool = Spool::create(folder, most)?;
        self.lock().backlog.set_spool(spool, BACKLOG_BYTES / 4);
        Ok(())
    }

    /// Name of the relay, as a path for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of messages that the relay has acknowledged, or that were given up.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.lock().backlog.first()
    }

    /// Returns the state of the connection.
    #[must_use]
    pub fn look(&self) -> LinkLook {
        let state = self.lock();
        LinkLook {
            is_connected: state.is_connected,
            problem: state.problem.clone(),
            breaks: state.breaks,
            away: state.away + state.away_since.map_or(Duration::ZERO, |since| since.elapsed()),
            messages: state.backlog.messages(),
            bytes: state.backlog.bytes(),
            spooled: state.backlog.spool().map_or(0, Spool::bytes),
            spool_problem: state.backlog.spool().and_then(Spool::problem).map(str::to_owned),
            quota: state.quota,
        }
    }

    /// Returns why nothing more is sent, for good; `None` if sending continues.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Returns true if the backlog is so full that packets should stay in the ring buffers for now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let state = self.lock();
        !state.is_ending && !state.has_spool() && state.backlog.bytes() > BACKLOG_BYTES / 2
    }

    /// Returns the free space in the backlog, and the size of the backlog \[byte\].
    #[must_use]
    pub fn room(&self) -> (u64, u64) {
        let state = self.lock();
        let free = BACKLOG_BYTES.saturating_sub(state.backlog.bytes()) as u64;
        let (spooled, spool_free) =
            state.backlog.spool().map_or((0, 0), |spool| (spool.bytes(), spool.free_bytes()));
        (free + spool_free, BACKLOG_BYTES as u64 + spooled + spool_free)
    }

    /// Waits at most `time` for the first connection.
    ///
    /// # Errors
    /// Why there is no connection, for people.
    pub fn wait_connected(&self, time: Duration) -> Result<(), String> {
        let until = Instant::now() + time;
        let mut state = self.lock();
        while !state.is_connected {
            let why = state.failure.clone();
            let late = (Instant::now() >= until).then(|| state.problem.clone());
            if why.is_some() || late.is_some() {
                return Err(why
                    .or(late.flatten())
                    .unwrap_or_else(|| "it does not answer".to_owned()));
            }
            state = self.wait(state);
        }
        Ok(())
    }

    /// Appends a message to the backlog.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: the backlog is full; try again. With any other error, nothing more is sent at all.
    pub(crate) fn say(&self, message: &FromRecorder<'_>) -> Result<(), Error> {
        let mut state = self.wait_for_room()?;
        state.backlog.push(message.encode().into());
        drop(state);
        self.wake();
        Ok(())
    }

    /// Appends a message that `encode` writes into a buffer. The sending thread is not blocked meanwhile.
    ///
    /// # Errors
    /// As [`Link::say`], or what `encode` returns.
    pub(crate) fn say_packet(
        &self,
        encode: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, Error>,
    ) -> Result<(), Error> {
        let buffer = self.wait_for_room()?.backlog.buffer();
        let frame = encode(buffer)?;
        self.lock().backlog.push(frame.into());
        self.wake();
        Ok(())
    }

    /// Waits until there is room in the backlog, if writers are to wait (see [`Link::begin_end`]).
    fn wait_for_room(&self) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.lock();
        loop {
            if let Some(why) = &state.failure {
                return Err(self.error(io::Error::other(why.clone())));
            }
            if state.backlog.bytes() < BACKLOG_BYTES || state.has_spool() {
                return Ok(state);
            }
            if !state.is_ending || state.is_abandoned || state.has_waited() {
                let source = io::ErrorKind::StorageFull.into();
                return Err(Error::NoSpace { path: self.path.clone(), source });
            }
            state = self.wait(state);
        }
    }

    pub(crate) fn error(&self, source: io::Error) -> Error {
        Error::Write { path: self.path.clone(), source }
    }

    /// Makes writers wait for room from now on: as long as the relay acknowledges messages, and `is_over` returns false.
    pub fn begin_end(&self, is_over: IsOver) {
        let mut state = self.lock();
        state.is_ending = true;
        state.patience = Some(Patience::new(Instant::now()));
        state.is_over = Some(is_over);
    }

    /// Appends the last message, unless that was done before. Does not wait for the relay.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: the backlog is full; try again. With any other error, nothing more is sent at all.
    pub fn close(&self, last: &FromRecorder<'_>) -> Result<(), Error> {
        if self.lock().is_complete {
            return Ok(());
        }
        let mut state = self.wait_for_room()?;
        state.backlog.push(last.encode().into());
        // Under the same lock: once the relay has it, it ends the connection, which then has not broken.
        state.is_complete = true;
        drop(state);
        self.wake();
        Ok(())
    }

    /// Returns true if the relay has acknowledged all messages, of which the last was appended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let state = self.lock();
        state.is_complete && state.backlog.messages() == 0
    }

    /// Appends the last message, and waits until the relay has acknowledged all, has been silent for [`PATIENCE`], has
    /// acknowledged no further message for two minutes, or `is_over` returns true.
    ///
    /// # Errors
    /// Why the relay does not have all messages, for people.
    pub fn end(&self, last: &FromRecorder<'_>, is_over: IsOver) -> Result<(), String> {
        self.begin_end(is_over);
        let said = self.close(last);
        let mut state = self.lock();
        while state.backlog.messages() > 0 && state.failure.is_none() {
            if state.has_waited() {
                break;
            }
            state = self.wait(state);
        }
        state.is_abandoned = true;
        let spooled = state.backlog.spool().map_or(0, Spool::bytes);
        let (messages, bytes) = (state.backlog.messages(), state.backlog.bytes() as u64 + spooled);
        let why = state.failure.clone().or_else(|| state.problem.clone());
        drop(state);
        self.wake();
        match (messages, said) {
            (0, Ok(())) => Ok(()),
            _ => Err(format!(
                "{messages} messages with {bytes} bytes did not reach the relay: {}",
                why.unwrap_or_else(|| "it has acknowledged nothing for a while".to_owned())
            )),
        }
    }

    fn wait<'l>(&'l self, state: MutexGuard<'l, State>) -> MutexGuard<'l, State> {
        let waited = self.changed.wait_timeout(state, LOOK_PERIOD);
        waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state)
    }

    /// Descriptor that becomes readable when there is something to send.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    fn wake(&self) {
        // The write fails only if the counter is full, and then the descriptor is readable.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Makes the descriptor of [`Link::wake_fd`] unreadable again.
    pub(crate) fn clear_wake(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }
}

/// Functions for the thread that sends.
impl Link {
    /// Returns the number of the first message in the backlog.
    pub(crate) fn first(&self) -> u64 {
        self.lock().backlog.first()
    }

    /// Begins a connection whose relay expects message `next` first.
    ///
    /// # Errors
    /// The relay lacks messages that it has acknowledged, or expects one that was never sent.
    pub(crate) fn resume(&self, next: u64) -> Result<(), String> {
        let mut state = self.lock();
        let (first, end) = (state.backlog.first(), state.backlog.end());
        if !state.backlog.resume(next) {
            return Err(format!(
                "it wants message {next} next, and messages {first} to {end} are here: its folder was removed or changed"
            ));
        }
        let now = Instant::now();
        state.is_connected = true;
        state.problem = None;
        if let Some(since) = state.away_since.take() {
            state.away += now - since;
        }
        state.hear(next > first);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Returns the next message to send; `None` if all were sent.
    ///
    /// # Errors
    /// It cannot be read from the spool.
    pub(crate) fn take(&self) -> io::Result<Option<Frame>> {
        self.lock().backlog.take()
    }

    /// Removes the messages before number `next`, since the relay has acknowledged them. Returns false if the relay cannot
    /// have them, because one of them was never sent.
    pub(crate) fn acknowledge(&self, next: u64) -> bool {
        let mut state = self.lock();
        let first = state.backlog.first();
        let is_possible = state.backlog.acknowledge(next);
        let is_further = state.backlog.first() > first;
        state.hear(is_further);
        drop(state);
        self.changed.notify_all();
        is_possible
    }

    /// Notes the number of records that the relay has discarded for lack of space, and whether it discards now. The
    /// number never goes down, even if the relay reports a lower one.
    pub(crate) fn set_quota(&self, records: u64, is_full: bool) {
        let mut state = self.lock();
        state.quota = QuotaLook { records: state.quota.records.max(records), is_full };
    }

    /// Notes that there is no connection, and why.
    pub(crate) fn broke(&self, why: String) {
        let mut state = self.lock();
        if std::mem::take(&mut state.is_connected) {
            state.breaks += 1;
            state.away_since = Some(Instant::now());
        }
        state.problem = Some(why);
    }

    /// Notes that nothing more is sent, for good, and why.
    pub(crate) fn fail(&self, why: String) {
        self.lock().failure.get_or_insert(why);
        self.changed.notify_all();
    }

    /// Returns true if there is nothing more to send: all was acknowledged, or nobody waits for the rest.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.lock();
        state.is_abandoned || (state.is_complete && state.backlog.messages() == 0)
    }

    /// Waits for `time` before another attempt to connect. Returns false if the recording was abandoned.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.lock();
        while Instant::now() < until && !state.is_abandoned {
            state = self.wait(state);
        }
        !state.is_abandoned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Arc;
    use strata_ctf::end_mark::{Ending, Losses};

    const CLOSE: FromRecorder<'_> = FromRecorder::Close {
        ending: Ending::Ended,
        losses: Losses { unwritten: 0, discarded: 0, unread: 0 },
    };

    #[test]
    fn patience_with_a_relay_that_repeats_itself_ends() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut silent = Patience::new(begin);
        assert!(!silent.is_exhausted(at(10)) && silent.is_exhausted(at(11)));
        silent.hear(at(9), true);
        assert!(!silent.is_exhausted(at(19)) && silent.is_exhausted(at(20)));
        let (mut stalled, mut slow) = (Patience::new(begin), Patience::new(begin));
        for second in 1..=121 {
            assert!(!stalled.is_exhausted(at(second - 1)), "{second}");
            stalled.hear(at(second), false);
            slow.hear(at(second), second == 100);
        }
        assert!(stalled.is_exhausted(at(121)) && !slow.is_exhausted(at(121)));
    }

    #[test]
    fn recording_is_over_as_soon_as_its_last_message_is_acknowledged() {
        for _ in 0..200 {
            let link = Link::new("relay").unwrap();
            link.resume(0).unwrap();
            std::thread::scope(|scope| {
                let sender = scope.spawn(|| {
                    while link.take().unwrap().is_none() {
                        std::hint::spin_loop();
                    }
                    assert!(link.acknowledge(1));
                    link.is_over()
                });
                link.close(&CLOSE).unwrap();
                assert!(sender.join().unwrap());
            });
        }
    }

    #[test]
    fn end_that_waits_for_a_relay_without_progress_ends_when_it_is_asked_to() {
        let link = Link::new("relay").unwrap();
        link.resume(0).unwrap();
        let (is_over, is_there) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(true));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // A relay that repeats the same acknowledgement.
                while is_there.load(Ordering::Relaxed) {
                    assert!(link.acknowledge(0));
                    is_over.store(link.look().messages > 0, Ordering::Relaxed);
                    std::thread::yield_now();
                }
            });
            let told = Arc::clone(&is_over);
            let ended = link.end(&CLOSE, Box::new(move || told.load(Ordering::Relaxed)));
            is_there.store(false, Ordering::Relaxed);
            assert!(ended.unwrap_err().starts_with("1 messages"));
        });
        assert!(link.is_over() && !link.pause(Duration::from_secs(60)));
    }
}

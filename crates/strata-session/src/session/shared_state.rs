//! State shared by the threads of a session: flags, failures and counts.
//!
//! A session has a thread that answers requests, and for each layer (programs, the kernel, guests) a pump that moves
//! packets, and threads that search for processes or attach programs. None of them waits for another. They meet here:
//!
//! ```text
//! pump of a layer ── Voice (a Monitor) ──▶ Shared ◀── session's thread: stop(), figures, status
//!    records, bytes, losses, fill            │  wake(): a descriptor that becomes readable at the stop
//!    "the disk is full"                      └─ ending_of_all(): the worst layer decides how the trace ended
//! ```
//!
//! - [`Shared`] belongs to the whole session. It begins as *recording*; [`Shared::stop`] makes it *stopping* once, with
//!   the first reason, and nothing makes it recording again. [`Shared::fail`] keeps the first failure of the session;
//!   a layer that can no longer write fails alone, so that the others continue.
//! - A [`Voice`] is the handle of one layer. Its pump calls it for each batch of packets, from one thread; anybody may
//!   read the figures at any time. Figures are relaxed atomics: they are for people, and each is right by itself, but
//!   two of them may be from different moments.
//! - Losses have a lock, since their parts (streams, times) must agree. It is held for the copy of one layer's losses.
//!
//! Nothing here may block, because the pump calls it between two packets. Pausing, disk space and the link to a relay
//! have their own types ([`Room`], [`Link`]), which are only handed around from here.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{eventfd, EventfdFlags};
use serde::Serialize;
use strata_collect::{BufferState, Monitor};
use strata_ctf::end_mark::Ending;
use strata_model::TimeSource;

use crate::output::relay_parts::RelayParts;
use crate::report::{Counts, Demand, Discarded, EndReason, StreamLoss};
use crate::session::budget::Budget;
use crate::session::failure::{advice, failure_text};
use crate::session::free_space::Room;
use crate::session::lock::lock;

/// The value of [`Writing::history_ms`] while the history is not known; see [`Voice::history_seconds`].
const NO_HISTORY: u64 = u64::MAX;

/// Flags and counts of a session. Each of them is written by one thread.
#[derive(Debug)]
pub(crate) struct Shared {
    wake: OwnedFd,
    /// The source of time for all waits, pauses and time limits of the session.
    time: TimeSource,
    began: Instant,
    lagged: AtomicBool,
    stopping: AtomicBool,
    failure: Mutex<Option<String>>,
    failed: AtomicBool,
    /// The failures and counts of each layer.
    layers: Mutex<Vec<Arc<Writing>>>,
    /// How the session has ended, for the end marks of its traces. A failure overrides this.
    ending: Mutex<Ending>,
    nobody_left: AtomicBool,
    moved: AtomicBool,
    came: AtomicU64,
    went: AtomicU64,
    /// Number of events over all layers; it wraps around.
    events: AtomicU64,
    memory: Arc<Budget>,
    /// True if packets must stay in the buffers, because the memory that holds the trace is full.
    must_wait: AtomicBool,
    /// The relay to which the trace is sent; not set for other traces.
    relay: OnceLock<SharedParts>,
    room: Room,
}

/// The recordings at a relay into which a session's trace is split.
struct SharedParts(Arc<Mutex<RelayParts>>);

impl std::fmt::Debug for SharedParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedParts").finish_non_exhaustive()
    }
}

/// The state of writing of one layer: its failures and its counts.
#[derive(Debug)]
struct Writing {
    name: &'static str,
    failed: AtomicBool,
    /// True if the layer failed because the disk was full.
    is_full: AtomicBool,
    figures: LayerFigures,
    /// Fill of the layer's fullest buffer \[%\].
    fill: AtomicU8,
    /// The time that the layer's buffers cover at the present rate \[ms\]; [`NO_HISTORY`] if not known.
    history_ms: AtomicU64,
    losses: Mutex<LayerLosses>,
}

/// Losses of one layer so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerLosses {
    pub(crate) discarded: Discarded,
    pub(crate) demand: Demand,
    /// Losses by CPU.
    pub(crate) streams: Vec<StreamLoss>,
}

/// A layer's handle to the session's shared state. It is the [`Monitor`] of the layer's pump.
#[derive(Clone, Debug)]
pub(crate) struct Voice {
    shared: Arc<Shared>,
    writing: Arc<Writing>,
}

/// Counts of a layer, or of all layers, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figured {
    /// Number of event records.
    pub records: u64,
    /// Size of the trace \[byte\].
    pub bytes: u64,
    /// Number of records that were discarded.
    pub discarded: u64,
    /// Number of records that were overwritten before they were read.
    pub overwritten: u64,
}

impl Figured {
    /// Adds the counts of `other` to these.
    pub(crate) fn add(&mut self, other: &Figured) {
        self.records = self.records.saturating_add(other.records);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.discarded = self.discarded.saturating_add(other.discarded);
        self.overwritten = self.overwritten.saturating_add(other.overwritten);
    }
}

/// Counts of one layer so far.
#[derive(Debug, Default)]
struct LayerFigures {
    records: AtomicU64,
    bytes: AtomicU64,
    discarded: AtomicU64,
    overwritten: AtomicU64,
}

impl LayerFigures {
    fn all(&self) -> [&AtomicU64; 4] {
        [&self.records, &self.bytes, &self.discarded, &self.overwritten]
    }

    fn set(&self, counts: &Counts) {
        let values = [counts.records, counts.bytes, counts.discarded.total(), counts.overwritten];
        for (figure, value) in self.all().into_iter().zip(values) {
            figure.store(value, Ordering::Relaxed);
        }
    }
}

impl Shared {
    /// # Errors
    /// The system's error on creating the event descriptor.
    #[cfg(test)]
    pub(crate) fn new() -> io::Result<Arc<Shared>> {
        Shared::by_time(TimeSource::machine())
    }

    /// # Errors
    /// The system's error on creating the event descriptor.
    #[cfg(test)]
    pub(crate) fn by_time(time: TimeSource) -> io::Result<Arc<Shared>> {
        Shared::within(Arc::default(), time)
    }

    /// Creates the state. `memory`: the budget for all buffers; `time`: the source of time for all
    /// threads.
    ///
    /// # Errors
    /// The system's error on creating the event descriptor.
    pub(crate) fn within(memory: Arc<Budget>, time: TimeSource) -> io::Result<Arc<Shared>> {
        Ok(Arc::new(Shared {
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            began: time.now(),
            lagged: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
            layers: Mutex::default(),
            ending: Mutex::new(Ending::Ended),
            nobody_left: AtomicBool::new(false),
            moved: AtomicBool::new(false),
            came: AtomicU64::new(0),
            went: AtomicU64::new(0),
            events: AtomicU64::new(0),
            memory,
            must_wait: AtomicBool::new(false),
            relay: OnceLock::new(),
            room: Room::new(time.clone()),
            time,
        }))
    }

    /// Returns the source of time for the session's threads.
    pub(crate) fn time(&self) -> &TimeSource {
        &self.time
    }

    /// Returns a descriptor that becomes readable when the session stops.
    pub(crate) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Tells the session to stop, for this reason.
    pub(crate) fn stop(&self, why: EndReason) {
        *lock(&self.ending) = match why {
            EndReason::Command | EndReason::Processes => Ending::Ended,
            EndReason::Duration => Ending::Duration,
            EndReason::Asked(_) => Ending::Stopped,
            EndReason::Size { .. } | EndReason::Space(_) => Ending::Size,
            EndReason::Failure => Ending::Failed,
        };
        self.stopping.store(true, Ordering::Release);
        // Writing can only fail because it was done before.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Notes that this program was paused for so long that another tracer may have declared it dead in a process.
    pub(crate) fn set_lagged(&self) {
        self.lagged.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_lagged(&self) -> bool {
        self.lagged.load(Ordering::Relaxed)
    }

    /// Returns an upper bound on the number of records that a process with `streams` streams can have written: one per
    /// nanosecond on every CPU since the session began.
    pub(crate) fn possible_records(&self, streams: u32) -> u64 {
        let each = u64::try_from(self.time.elapsed(self.began).as_nanos()).unwrap_or(u64::MAX);
        each.saturating_mul(streams.max(1).into())
    }

    /// Notes that the session has failed. Only the first reason is kept.
    pub(crate) fn fail(&self, why: String) {
        lock(&self.failure).get_or_insert(why);
        self.failed.store(true, Ordering::Release);
    }

    /// Registers a layer of this name, and returns its handle.
    pub(crate) fn add_layer(self: &Arc<Shared>, name: &'static str) -> Voice {
        let writing = Arc::new(Writing {
            name,
            failed: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            figures: LayerFigures::default(),
            fill: AtomicU8::new(0),
            history_ms: AtomicU64::new(NO_HISTORY),
            losses: Mutex::default(),
        });
        lock(&self.layers).push(Arc::clone(&writing));
        Voice { shared: Arc::clone(self), writing }
    }

    /// Notes a write error that affects all layers.
    pub(crate) fn fail_to_write(&self, error: &strata_collect::Error) {
        lock(&self.failure).get_or_insert(format!("{}{}", failure_text(error), advice(error)));
        self.failed.store(true, Ordering::Release);
    }

    /// Returns how the recording ended, which is the worst ending of all layers.
    pub(crate) fn ending_of_all(&self) -> Ending {
        let worst =
            lock(&self.layers).iter().map(|one| self.ending(one)).find(|one| one.is_failure());
        let failed = self.has_failed().then_some(Ending::Failed);
        worst.or(failed).unwrap_or(*lock(&self.ending))
    }

    /// Returns how a layer ended. While the layer still records, this is the ending that is noted in case the
    /// process is killed.
    fn ending(&self, layer: &Writing) -> Ending {
        let failed = self.has_failed() || layer.failed.load(Ordering::Acquire);
        match (failed, layer.is_full.load(Ordering::Relaxed)) {
            (false, _) => *lock(&self.ending),
            (true, true) => Ending::NoSpace,
            (true, false) => Ending::Failed,
        }
    }

    /// Returns the name of a layer that cannot write while others can; `None` if there is none.
    pub(crate) fn layer_that_failed(&self) -> Option<&'static str> {
        let layers = lock(&self.layers);
        let failed = layers.iter().find(|one| one.failed.load(Ordering::Acquire));
        failed.filter(|_| !self.has_failed()).map(|one| one.name)
    }

    /// Returns whether the session as a whole has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    pub(crate) fn set_nobody_left(&self, nobody: bool) {
        self.nobody_left.store(nobody, Ordering::Relaxed);
    }

    pub(crate) fn is_nobody_left(&self) -> bool {
        self.nobody_left.load(Ordering::Relaxed)
    }

    /// Notes that the pump has ended, so that no more packets are read from buffers.
    pub(crate) fn set_moved(&self) {
        self.moved.store(true, Ordering::Release);
    }

    pub(crate) fn is_moved(&self) -> bool {
        self.moved.load(Ordering::Acquire)
    }

    /// Returns the budget for the memory of all buffers.
    pub(crate) fn memory(&self) -> &Arc<Budget> {
        &self.memory
    }

    /// Sets whether packets must stay in the buffers because the trace's memory is full.
    pub(crate) fn set_must_wait(&self, must: bool) {
        self.must_wait.store(must, Ordering::Release);
    }

    pub(crate) fn must_wait(&self) -> bool {
        self.must_wait.load(Ordering::Acquire)
    }

    /// Sets the relay to which the trace is sent. Packets stay in the buffers while the relay's backlog is full.
    pub(crate) fn set_relay(&self, relay: Arc<Mutex<RelayParts>>) {
        // A session has only one relay.
        let _ = self.relay.set(SharedParts(relay));
    }

    /// Returns whether the backlog of packets for the relay is full.
    fn has_backlog(&self) -> bool {
        self.relay.get().is_some_and(|relay| lock(&relay.0).is_full())
    }

    /// Returns the state of the disk's free space.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    pub(crate) fn process_came(&self) {
        self.came.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn process_went(&self) {
        self.went.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of processes that are being recorded.
    pub(crate) fn processes(&self) -> u64 {
        self.came.load(Ordering::Relaxed).saturating_sub(self.went.load(Ordering::Relaxed))
    }

    /// Returns the number of events of all layers, recorded or not. It wraps around, so only differences are
    /// meaningful. Each program adds its own events and cannot hide those of others.
    pub(crate) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Returns the sums over all layers: records, bytes, discarded records, and overwritten records.
    pub(crate) fn counts(&self) -> (u64, u64, u64, u64) {
        let mut sums = [0u64; 4];
        for layer in lock(&self.layers).iter() {
            for (sum, figure) in sums.iter_mut().zip(layer.figures.all()) {
                *sum = sum.saturating_add(figure.load(Ordering::Relaxed));
            }
        }
        (sums[0], sums[1], sums[2], sums[3])
    }
}

impl Voice {
    /// Returns how this layer ended.
    pub(crate) fn ending(&self) -> Ending {
        self.shared.ending(&self.writing)
    }

    /// Returns the layer's counts of records, bytes and losses so far.
    pub(crate) fn figures(&self) -> Figured {
        let [records, bytes, discarded, overwritten] =
            self.writing.figures.all().map(|one| one.load(Ordering::Relaxed));
        Figured { records, bytes, discarded, overwritten }
    }

    /// Returns the fill of the layer's fullest buffer at the last check \[%\].
    pub(crate) fn fill(&self) -> u8 {
        self.writing.fill.load(Ordering::Relaxed)
    }

    /// Returns the time that the buffers cover at the present rate \[s\]; `None` if no records arrive or the layer
    /// writes files.
    pub(crate) fn history_seconds(&self) -> Option<f64> {
        let ms = self.writing.history_ms.load(Ordering::Relaxed);
        (ms != NO_HISTORY).then_some(ms as f64 / 1000.0)
    }

    /// Returns the layer's losses so far.
    pub(crate) fn losses(&self) -> LayerLosses {
        lock(&self.writing.losses).clone()
    }

    /// Returns the state that all layers share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Monitor for Voice {
    fn wants_memory(&self) -> bool {
        self.shared.memory.is_short()
    }

    fn must_wait(&self) -> bool {
        self.shared.must_wait() || self.lacks_room()
    }

    fn lacks_room(&self) -> bool {
        self.shared.room.is_lacking() || self.shared.has_backlog()
    }

    fn has_failed(&self) -> bool {
        self.shared.has_failed() || self.writing.failed.load(Ordering::Acquire)
    }

    /// Notes a write error. Layers whose traces can still be written go on.
    fn fail(&self, error: &strata_collect::Error) {
        let why = || format!("{}{}", failure_text(error), advice(error));
        let is_full = matches!(error, strata_collect::Error::NoSpace { .. });
        if is_full && !self.has_failed() && self.shared.room.lacks(why) {
            return;
        }
        if is_full && !self.has_failed() {
            self.writing.is_full.store(true, Ordering::Relaxed);
        }
        lock(&self.shared.failure).get_or_insert_with(why);
        self.writing.failed.store(true, Ordering::Release);
        if lock(&self.shared.layers).iter().all(|one| one.failed.load(Ordering::Acquire)) {
            self.shared.failed.store(true, Ordering::Release);
        }
    }

    fn set_counts(&self, counts: &Counts) {
        self.writing.figures.set(counts);
        let mut losses = lock(&self.writing.losses);
        (losses.discarded, losses.demand) = (counts.discarded, counts.demand);
    }

    fn set_buffers(&self, state: BufferState) {
        lock(&self.writing.losses).streams = state.losses;
        self.writing.fill.store(state.fill, Ordering::Relaxed);
        let ms = |reach: Duration| u64::try_from(reach.as_millis()).unwrap_or(NO_HISTORY - 1);
        self.writing.history_ms.store(state.history.map_or(NO_HISTORY, ms), Ordering::Relaxed);
    }

    fn add_events(&self, events: u64) {
        self.shared.events.fetch_add(events, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Discarded, KERNEL, USER};
    use rustix::event::{poll, PollFd, PollFlags, Timespec};

    /// Registers two layers. Returns their handles.
    fn layers(shared: &Arc<Shared>) -> (Voice, Voice) {
        (shared.add_layer(USER), shared.add_layer(KERNEL))
    }

    fn is_readable(shared: &Shared) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(shared.wake(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn stop_wakes_who_waits() {
        let shared = Shared::new().unwrap();
        assert!(!shared.is_stopping() && !is_readable(&shared));
        shared.stop(EndReason::Duration);
        shared.stop(EndReason::Duration);
        assert!(shared.is_stopping() && is_readable(&shared));
    }

    #[test]
    fn failure_that_came_first_is_the_one_that_is_reported() {
        let shared = Shared::new().unwrap();
        assert_eq!((shared.has_failed(), shared.failure()), (false, None));
        shared.fail("one".into());
        shared.fail("two".into());
        assert_eq!((shared.has_failed(), shared.failure()), (true, Some("one".into())));
    }

    #[test]
    fn ending_is_why_it_stops_unless_it_failed() {
        let shared = Shared::new().unwrap();
        let user = shared.add_layer(USER);
        assert_eq!(user.ending(), Ending::Ended);
        shared.stop(EndReason::Asked(None));
        assert_eq!(user.ending(), Ending::Stopped);
        user.fail(&no_space());
        assert_eq!((user.ending(), shared.has_failed()), (Ending::NoSpace, true));
        assert!(shared.failure().unwrap().contains("Make room"));
        let shared = Shared::new().unwrap();
        let user = shared.add_layer(USER);
        shared.fail("x".into());
        assert_eq!((user.ending(), shared.ending_of_all()), (Ending::Failed, Ending::Failed));
    }

    fn no_space() -> strata_collect::Error {
        let source = std::io::Error::from_raw_os_error(libc::ENOSPC);
        strata_collect::Error::NoSpace { path: "x".into(), source }
    }

    #[test]
    fn layer_that_cannot_write_stops_no_other_one() {
        let shared = Shared::new().unwrap();
        let (user, kernel) = layers(&shared);
        kernel.fail(&no_space());
        assert_eq!((shared.has_failed(), shared.layer_that_failed()), (false, Some(KERNEL)));
        assert!(kernel.has_failed() && !user.has_failed());
        assert_eq!((kernel.ending(), user.ending()), (Ending::NoSpace, Ending::Ended));
        assert_eq!(shared.ending_of_all(), Ending::NoSpace);
        assert!(shared.failure().is_some());
        user.fail(&no_space());
        assert_eq!((shared.has_failed(), shared.layer_that_failed()), (true, None));
    }

    #[test]
    fn counts_and_processes_are_those_that_were_reported() {
        let shared = Shared::new().unwrap();
        let discarded = Discarded { full: 3, nested: 1, ..Discarded::default() };
        let counts =
            Counts { records: 1, bytes: 2, discarded, overwritten: 5, ..Counts::default() };
        let (user, kernel) = layers(&shared);
        user.set_counts(&counts);
        assert_eq!(shared.counts(), (1, 2, 4, 5));
        kernel.set_counts(&Counts { records: 10, overwritten: u64::MAX, ..counts });
        assert_eq!(shared.counts(), (11, 4, 8, u64::MAX));
        shared.process_came();
        shared.process_came();
        shared.process_went();
        assert_eq!(shared.processes(), 1);
    }

    #[test]
    fn events_wrap_around_and_losses_are_the_layer_s() {
        let shared = Shared::new().unwrap();
        let (user, kernel) = layers(&shared);
        user.add_events(u64::MAX);
        kernel.add_events(3);
        assert_eq!(shared.events(), 2);
        let discarded = Discarded { full: 3, ..Discarded::default() };
        kernel.set_counts(&Counts { discarded, ..Counts::default() });
        let losses = vec![StreamLoss { cpu: 2, discarded, ..StreamLoss::default() }];
        kernel.set_buffers(BufferState { losses, ..BufferState::default() });
        let losses = kernel.losses();
        assert_eq!((losses.discarded, losses.streams.len()), (discarded, 1));
        assert!(user.losses().streams.is_empty());
    }

    #[test]
    fn possible_records_are_bounded_by_time_and_cpus() {
        let shared = Shared::new().unwrap();
        // Time: it is what is counted; more is right, too.
        std::thread::sleep(std::time::Duration::from_millis(2));
        let one = shared.possible_records(1);
        assert!((2_000_000..60_000_000_000).contains(&one), "{one}");
        assert!(shared.possible_records(64) > 30 * one);
        assert!(shared.possible_records(0) >= one);
    }

    #[test]
    fn ending_of_each_reason_is_what_the_mark_says() {
        for (why, ending) in [
            (EndReason::Command, Ending::Ended),
            (EndReason::Processes, Ending::Ended),
            (EndReason::Duration, Ending::Duration),
            (EndReason::Size { max_bytes: 7 }, Ending::Size),
            (EndReason::Asked(Some(libc::SIGINT)), Ending::Stopped),
            (EndReason::Failure, Ending::Failed),
        ] {
            let shared = Shared::new().unwrap();
            let (user, _) = layers(&shared);
            shared.stop(why);
            let endings = (user.ending(), shared.ending_of_all());
            assert_eq!(endings, (ending, ending), "{why:?}");
        }
    }

    #[test]
    fn layer_that_failed_for_another_reason_than_room_is_failed_and_stays_so() {
        let gone = || {
            let source = std::io::Error::from_raw_os_error(libc::ENOENT);
            strata_collect::Error::Gone { path: "x".into(), source }
        };
        let shared = Shared::new().unwrap();
        let (user, kernel) = layers(&shared);
        user.fail(&gone());
        // That there is no room either is no news, and not why it ended.
        user.fail(&no_space());
        assert_eq!(user.ending(), Ending::Failed);
        assert_eq!((kernel.ending(), shared.has_failed()), (Ending::Ended, false));
        assert!(shared.failure().unwrap().contains("was removed"), "{:?}", shared.failure());
        // And the other way round.
        kernel.fail(&no_space());
        kernel.fail(&gone());
        assert_eq!((kernel.ending(), shared.has_failed()), (Ending::NoSpace, true));
        // The first layer that failed is told first.
        assert_eq!(shared.ending_of_all(), Ending::Failed);
    }

    #[test]
    fn layer_that_is_alone_and_fails_ends_the_session() {
        for (recorded, failed, goes_on) in [
            (&[USER][..], 0, false),
            (&[KERNEL], 0, false),
            (&[USER, KERNEL], 0, true),
            (&[USER, KERNEL], 1, true),
        ] {
            let shared = Shared::new().unwrap();
            let voices: Vec<Voice> = recorded.iter().map(|name| shared.add_layer(name)).collect();
            voices[failed].fail(&no_space());
            assert_eq!(shared.has_failed(), !goes_on, "{recorded:?} {failed}");
            assert_eq!(shared.layer_that_failed(), goes_on.then_some(recorded[failed]));
        }
    }

    #[test]
    fn processes_that_went_and_never_came_are_none() {
        let shared = Shared::new().unwrap();
        shared.process_went();
        assert_eq!(shared.processes(), 0);
        shared.process_came();
        shared.process_came();
        assert_eq!(shared.processes(), 1);
        assert!(!shared.is_moved() && !shared.is_nobody_left() && !shared.has_lagged());
        shared.set_moved();
        shared.set_nobody_left(true);
        shared.set_lagged();
        assert!(shared.is_moved() && shared.is_nobody_left() && shared.has_lagged());
        shared.set_nobody_left(false);
        assert!(!shared.is_nobody_left());
    }
}
